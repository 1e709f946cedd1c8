//! Reads the parameters of a request for a list of tasks, in the names of either version.

use crate::a2a::requests::message;
use crate::a2a::requests::object::{Object, count, flag, member, text, wrong};
use crate::a2a::views::list::read_token;
use crate::a2a::words;
use crate::base::clock;
use crate::limits::{PAGE_TASKS, PAGE_TASKS_MOST};
use crate::task::call::List;
use crate::task::fault::Fault;
use crate::task::machine::state::TaskState;
use serde_json::Value;

/// The parameters of a list with pages.
pub fn paged(params: &Object) -> Result<List, Fault> {
    let size = count(params, &["pageSize", "page_size"], "")?;
    let size = size.unwrap_or(PAGE_TASKS);
    if !(1..=PAGE_TASKS_MOST).contains(&size) {
        return Err(wrong("", "pageSize", &format!("must be from 1 to {PAGE_TASKS_MOST}.")));
    }
    let mut list = List { size, ..whole(params)? };
    if let Some(token) = text(params, &["pageToken", "page_token"], "")? {
        let mark = read_token(token, &list).ok_or_else(|| {
            let what = "must be the nextPageToken of the same list; leave it out to begin anew.";
            wrong("", "pageToken", what)
        })?;
        list.after = Some(mark);
    }
    Ok(list)
}

/// The parameters of a list in a dialect without pages.
pub fn whole(params: &Object) -> Result<List, Fault> {
    let since = text(params, &["statusTimestampAfter", "status_timestamp_after"], "")?;
    let since = since.map(|time| {
        clock::read_rfc3339(time).ok_or_else(|| {
            let what = "must be a time such as 2026-03-01T09:30:00Z.";
            wrong("", "statusTimestampAfter", what)
        })
    });
    Ok(List {
        context: message::context(params, "")?,
        state: state(params)?,
        since: since.transpose()?,
        size: 0,
        after: None,
        history: count(params, &["historyLength", "history_length"], "")?.unwrap_or(0),
        artifacts: flag(params, &["includeArtifacts", "include_artifacts"], "")?.unwrap_or(false),
    })
}

/// The state to filter by, in any spelling or by its number. "Unspecified" means no filter.
fn state(params: &Object) -> Result<Option<TaskState>, Fault> {
    let word = match member(params, &["status", "state"]) {
        None => return Ok(None),
        Some((_, Value::String(word))) => word.clone(),
        Some((_, number)) => number.to_string(),
    };
    if matches!(word.as_str(), "" | "0" | "TASK_STATE_UNSPECIFIED") {
        return Ok(None);
    }
    let known = words::read_state(&word);
    known.map(Some).ok_or_else(|| wrong("", "status", "must be a task state such as TASK_STATE_WORKING."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::views::list::token;
    use crate::task::call::ListCursor;
    use serde_json::json;

    fn ask(params: Value) -> Result<List, String> {
        let params = params.as_object().cloned().unwrap();
        paged(&params).map_err(|fault| fault.field.expect("a field"))
    }

    #[test]
    fn every_parameter_of_a_list() {
        assert_eq!(ask(json!({})), Ok(List { size: 50, ..List::default() }));
        let asked = List {
            context: Some("c".into()),
            state: Some(TaskState::Working),
            since: Some(1_772_357_400_000),
            size: 7,
            after: None,
            history: 3,
            artifacts: true,
        };
        for params in [
            json!({"contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 7, "historyLength": 3,
                "statusTimestampAfter": "2026-03-01T09:30:00Z", "includeArtifacts": true}),
            json!({"context_id": "c", "status": 2, "page_size": 7, "history_length": 3, "pageToken": "",
                "status_timestamp_after": "2026-03-01T10:30:00+01:00", "include_artifacts": true}),
        ] {
            assert_eq!(ask(params), Ok(asked.clone()));
        }
        let any = ask(json!({"status": "TASK_STATE_UNSPECIFIED"})).unwrap();
        assert_eq!(any.state, None);
    }

    #[test]
    fn faults_name_the_wrong_parameter_of_a_list() {
        for (params, field) in [
            (json!({"pageSize": 0}), "pageSize"),
            (json!({"pageSize": 101}), "pageSize"),
            (json!({"pageSize": -1}), "pageSize"),
            (json!({"pageSize": "many"}), "pageSize"),
            (json!({"historyLength": -1}), "historyLength"),
            (json!({"status": "running"}), "status"),
            (json!({"status": 9}), "status"),
            (json!({"statusTimestampAfter": "yesterday"}), "statusTimestampAfter"),
            (json!({"includeArtifacts": "yes"}), "includeArtifacts"),
            (json!({"contextId": "a\nb"}), "contextId"),
            (json!({"pageToken": "x"}), "pageToken"),
            (json!({"pageToken": "!"}), "pageToken"),
            (json!({"pageToken": 3}), "pageToken"),
        ] {
            assert_eq!(ask(params.clone()), Err(field.into()), "{params}");
        }
    }

    #[test]
    fn a_token_is_valid_only_for_its_own_list() {
        let mark = ListCursor { at: 1_772_357_400_125, task: "t.1".into() };
        let filters = json!({"contextId": "c", "pageSize": 2});
        let list = ask(filters.clone()).unwrap();
        let token = token(&mark, &list);
        let with = |mut params: Value| {
            params["pageToken"] = json!(token);
            ask(params)
        };
        assert_eq!(with(filters).unwrap().after, Some(mark.clone()));
        let wider = json!({"contextId": "c", "pageSize": 9});
        assert_eq!(with(wider).unwrap().after, Some(mark));
        for other in [json!({}), json!({"contextId": "d"}), json!({"contextId": "c", "status": 2})] {
            assert_eq!(with(other.clone()), Err("pageToken".into()), "{other}");
        }
    }
}
