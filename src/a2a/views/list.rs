//! Lists of tasks. The list of 1.0 has pages; that of 0.3 is an array; the list of the Gemini endpoints has short entries, for which the
//! tasks need not be loaded.

use crate::a2a::dialect::Lists;
use crate::a2a::form::{Form, view, view_of};
use crate::a2a::words::{self, Idle};
use crate::a2a::{SnapshotOptions, result, snapshot};
use crate::base::clock::rfc3339;
use crate::base::crc::crc32;
use crate::base::http::Response;
use crate::base::id::TaskId;
use crate::base::json;
use crate::limits::LIST_BYTES;
use crate::task::call::{List, ListCursor};
use crate::task::log::brief::Brief;
use crate::task::machine::state::{State, TaskState};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A page of a list.
pub struct Page<'a> {
    pub tasks: Vec<&'a State>,
    /// The position where the next page begins. None: this page is the last.
    pub next: Option<ListCursor>,
    /// The maximum number of tasks on a page.
    pub size: usize,
    /// The number of tasks in the whole list.
    pub total: usize,
}

/// The state that a list shows for a task.
pub fn shown_state(form: &Form, task: &TaskId, brief: &Brief) -> TaskState {
    view_of(form, brief.made(task)).idle(brief.profile).show(brief.state, brief.outcome())
}

/// The short list: `GET /tasks` without a version. There are `total` tasks, of which these are shown.
pub fn briefs<'a>(form: &Form, tasks: impl IntoIterator<Item = (&'a TaskId, &'a Brief)>, total: usize) -> Response {
    let tasks: Vec<Value> = tasks
        .into_iter()
        .map(|(task, brief)| {
            let at = rfc3339(brief.at);
            json!({
                "id": task,
                "contextId": brief.context,
                "kind": "task",
                "state": words::execute_state(Idle::Outcome.show(brief.state, brief.outcome())),
                "status": { "state": brief.state.word(), "timestamp": at },
                "timestamp": at,
            })
        })
        .collect();
    let list = json!({ "tasks": tasks, "totalSize": total });
    result(form, json::bytes(&list))
}

/// A page of whole tasks. In a dialect with pages, a page that gets too long ends early, and the next one continues after it.
pub fn list(form: &Form, page: &Page<'_>, options: SnapshotOptions, asked: &List) -> Response {
    let (start, most): (&[u8], usize) = match form.dialect.lists {
        Lists::Array => (b"[", usize::MAX),
        Lists::Pages => (br#"{"tasks":["#, LIST_BYTES),
    };
    let mut out = start.to_vec();
    let mut last = None;
    for state in &page.tasks {
        if out.len() > most {
            break;
        }
        if last.is_some() {
            out.push(b',');
        }
        out.extend(snapshot(view(form, Some(&state.created)), state, options));
        last = Some(*state);
    }
    out.push(b']');
    if form.dialect.lists == Lists::Array {
        // An array has no member for the total, and a client that gets a part of the list has to know it.
        return result(form, out).with("X-Total-Count", page.total.to_string());
    }
    let end = page.tasks.last().map(|state| &state.created.task);
    let cut = last.filter(|state| Some(&state.created.task) != end);
    let next = cut.map(|state| ListCursor { at: Brief::of(state).at, task: state.created.task.clone() });
    let token = next.or(page.next.clone()).map(|mark| token(&mark, asked));
    let rest = json!({
        "nextPageToken": token.unwrap_or_default(),
        "pageSize": page.size,
        "totalSize": page.total,
    });
    out.push(b',');
    out.extend_from_slice(&json::bytes(&rest)[1..]);
    result(form, out)
}

/// The page token for a position in a list. It is valid only for lists with the same filter.
pub fn token(mark: &ListCursor, asked: &List) -> String {
    let position = format!("{}.{:08x}.{}", mark.at, filter(asked), mark.task);
    URL_SAFE_NO_PAD.encode(position)
}

/// Reads a page token. None: it is not a token of this server, or belongs to a list with another filter.
pub fn read_token(text: &str, asked: &List) -> Option<ListCursor> {
    let position = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (at, rest) = position.split_once('.')?;
    let (hash, task) = rest.split_once('.')?;
    let is_valid = u32::from_str_radix(hash, 16).ok()? == filter(asked);
    is_valid.then_some(ListCursor { at: at.parse().ok()?, task: task.into() })
}

/// A checksum of the filter, by which tokens of lists with another filter are recognised.
fn filter(asked: &List) -> u32 {
    let about = (&asked.context, asked.state, asked.since);
    crc32(format!("{about:?}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Dialect;
    use crate::a2a::sample;
    use crate::task::message::{Artifact, Part};

    #[test]
    fn a_long_page_ends_early_with_a_token() {
        let long = |n: u64| {
            let mut state = sample::state();
            let mut created = state.created.as_ref().clone();
            created.task = format!("t-{n}").as_str().into();
            state.created = created.into();
            state.status.at += n;
            state.artifacts = vec![Artifact {
                id: "a".into(),
                name: None,
                description: None,
                parts: vec![Part::text("x".repeat(LIST_BYTES * 2 / 3))],
            }];
            state
        };
        let states: Vec<State> = (1..=4).map(long).collect();
        let asked = List { artifacts: true, ..List::default() };
        let shown = |dialect, from: usize| {
            let page = Page { tasks: states[from..].iter().collect(), next: None, size: 50, total: 4 };
            let options = SnapshotOptions::listed(0, true);
            let response = list(&Form::of(dialect), &page, options, &asked);
            serde_json::from_slice::<Value>(&response.body).expect("JSON")
        };
        let ids = |tasks: &Value| -> Vec<String> {
            let tasks = tasks.as_array().expect("a list").iter();
            tasks.map(|task| task["id"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let first = shown(Dialect::REST_10, 0);
        assert_eq!(ids(&first["tasks"]), ["t-1", "t-2"]);
        let place = ListCursor { at: states[1].status.at, task: "t-2".into() };
        let token = first["nextPageToken"].as_str().unwrap_or_default();
        assert_eq!(read_token(token, &asked), Some(place));
        let second = shown(Dialect::REST_10, 2);
        assert_eq!(ids(&second["tasks"]), ["t-3", "t-4"]);
        assert_eq!(second["nextPageToken"], "", "it was the last");
        // A list without pages is never cut, because the client could not request the rest.
        let all = shown(Dialect::REST_03_JSON, 0);
        assert_eq!(ids(&all).len(), 4);
    }
}
