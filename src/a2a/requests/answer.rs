//! Reads answers to questions about tool calls, in every spelling and in every place that clients use. Whether the call waits and offers
//! the option is checked elsewhere.
//!
//! An object that is recognisable as an answer but invalid is refused. If it were read as other data it would be a prompt, and start
//! work that the user wanted to stop.

use crate::a2a::requests::object::{Object, flag, member, object, wrong};
use crate::a2a::words::{CODER, EXT};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Profile;
use crate::task::machine::job::Pick;
use crate::task::message::{Content, Message, Part};
use crate::task::spec::{Answers, Choice};
use serde_json::Value;

/// The kinds of objects that are answers.
const KINDS: [&str; 2] = ["TOOL_CALL_CONFIRMATION", "tool-call-confirmation"];
/// The member with the id of the call and the member with the chosen option, in each spelling.
const SPELLINGS: [(&str, &str); 3] =
    [("tool_call_id", "selected_option_id"), ("toolCallId", "selectedOptionId"), ("callId", "outcome")];
/// The members that can contain the answer in an object whose kind is that of an answer.
const CONTAINERS: [&str; 5] = ["content", "parts", "message", "userMessage", "confirmation"];
/// The member with a decision as a boolean; it goes with every spelling.
const APPROVED: &str = "approved";

/// The answers in a message: those in its data parts, in order, then those in its metadata. `at` gives the path of a part.
pub fn picks(message: &Message, at: impl Fn(usize) -> String) -> Result<Vec<Pick>, Fault> {
    let mut picks = Vec::new();
    for (i, part) in message.parts.iter().enumerate() {
        if let Content::Data(Value::Object(data)) = &part.content {
            picks.extend(read(data, &format!("{}.data", at(i)))?);
        }
    }
    for key in [EXT, CODER] {
        let metadata = message.metadata.as_ref().and_then(|all| all.get(key));
        // If the parts have an answer, metadata without a decision is only a label that gives the kind of the message.
        if let Some(Value::Object(data)) = metadata
            && (picks.is_empty() || has_decision(data))
        {
            picks.extend(read(data, &format!("message.metadata.{key}"))?);
        }
    }
    Ok(picks)
}

/// The profile of a message that has only answers: each profile has its own member names for them.
pub fn profile(message: &Message) -> Option<Profile> {
    let profile_of = |part: &Part| match &part.content {
        Content::Data(Value::Object(data)) if is_answer(data) && data.contains_key("tool_call_id") => {
            Some(Profile::Devtool)
        }
        Content::Data(Value::Object(data)) if is_answer(data) && data.contains_key("callId") => Some(Profile::Coder),
        _ => None,
    };
    let first = message.parts.first().and_then(profile_of)?;
    message.parts.iter().all(|part| profile_of(part) == Some(first)).then_some(first)
}

/// Adds the name of the member that has the option to a fault about an unknown option.
pub fn with_option_member(message: &Message, fault: Fault) -> Fault {
    let FaultKind::UnknownOption(call) = &fault.kind else {
        return fault;
    };
    let parts = message.parts.iter().filter_map(|part| part.content.as_data()?.as_object());
    let metadata = message.metadata.iter().flat_map(|all| all.values());
    let about = |data: &&Object| {
        let named = SPELLINGS.iter().find_map(|(name, _)| data.get(*name));
        named.and_then(Value::as_str) == Some(call.as_str())
    };
    let answer = parts.chain(metadata.filter_map(Value::as_object)).find(about);
    let mut decided = SPELLINGS.iter().map(|(_, decision)| *decision);
    let decided = decided.find(|name| answer.is_some_and(|answer| answer.contains_key(*name)));
    let member = decided.unwrap_or("option");
    Fault { field: Some(member.to_owned()), message: format!("{member}: {}", fault.message), kind: fault.kind }
}

/// The answer in an object, if the object is one; `at` is the path of the object.
fn read(data: &Object, at: &str) -> Result<Option<Pick>, Fault> {
    is_answer(data).then(|| read_answer(data, at)).transpose()
}

/// Whether an object is meant as an answer: it has both a call and a decision, or it has the kind of an answer and no member that could
/// contain the answer. Any other object is other data.
pub fn is_answer(data: &Object) -> bool {
    let has = |name: &str| data.contains_key(name);
    (SPELLINGS.iter().any(|(call, _)| has(call)) && has_decision(data))
        || (has_answer_kind(data) && !CONTAINERS.iter().any(|name| has(name)))
}

fn has_decision(data: &Object) -> bool {
    let has = |name: &str| data.contains_key(name);
    SPELLINGS.iter().any(|(_, decision)| has(decision)) || has(APPROVED)
}

/// Whether the `kind` of an object says that it is an answer or contains one.
pub fn has_answer_kind(data: &Object) -> bool {
    let kind = data.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// Refuses an object that has the kind of an answer but contains none.
pub fn check_kind(data: &Object, answers: &[Pick], at: &str) -> Result<(), Fault> {
    if answers.is_empty() && has_answer_kind(data) {
        let what = "says that this is an answer to a question, but there is none in it.";
        return Err(wrong(at, "kind", what));
    }
    Ok(())
}

/// Reads an object that must be an answer.
pub fn read_answer(data: &Object, at: &str) -> Result<Pick, Fault> {
    let (calls, decisions) = (SPELLINGS.map(|(call, _)| call), SPELLINGS.map(|(_, decision)| decision));
    let (spelled, call) = word(data, &calls, at)?.ok_or_else(|| missing(at, calls[0]))?;
    let chosen = word(data, &decisions, at)?.map(|(_, option)| option);
    let option = match (chosen, flag(data, &[APPROVED], at)?) {
        (Some(option), _) => option,
        (None, Some(true)) => Choice::ProceedOnce.word(),
        (None, Some(false)) => Choice::Cancel.word(),
        (None, None) => {
            let pair = SPELLINGS.into_iter().find(|(call, _)| *call == spelled);
            return Err(missing(at, pair.expect("one of them").1));
        }
    };
    Ok(Pick {
        call: call.into(),
        option: option.into(),
        edited: edited(data, at)?.map(Into::into),
        answers: answers(data, at)?.map(Into::into),
        seen: None,
    })
}

fn missing(at: &str, name: &str) -> Fault {
    wrong(at, name, "is required in an answer to a question.")
}

/// The first of these members that is present, which must be a string, with its name. An empty string is accepted here and refused when
/// the call is looked up.
fn word<'a>(data: &'a Object, names: &[&'a str], at: &str) -> Result<Option<(&'a str, &'a str)>, Fault> {
    match member(data, names) {
        None => Ok(None),
        Some((name, Value::String(word))) => Ok(Some((name, word))),
        Some((name, _)) => Err(wrong(at, name, "must be a string.")),
    }
}

/// The user's answers to the agent's questions, by the numbers of the questions. Several choices are joined into one answer.
fn answers(data: &Object, at: &str) -> Result<Option<Answers>, Fault> {
    fn words(value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Array(several) => {
                let several: Option<Vec<String>> = several.iter().map(words).collect();
                several.map(|words| words.join(", "))
            }
            Value::Null | Value::Object(_) => None,
        }
    }
    let Some(given) = object(data, &["answers"], at)? else {
        return Ok(None);
    };
    let mut answers = Answers::new();
    for (number, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let answer = words(value).ok_or_else(|| wrong(at, &format!("answers.{number}"), "must be words."))?;
        answers.insert(number.clone(), answer);
    }
    Ok(Some(answers))
}

/// The content of the file as the user edited it.
fn edited<'a>(data: &'a Object, at: &str) -> Result<Option<&'a str>, Fault> {
    const CONTENT: [&str; 2] = ["new_content", "newContent"];
    let nested = object(data, &["modified_details", "modifiedDetails"], at)?.unwrap_or(data);
    let file = object(nested, &["file_details", "fileDetails"], at)?;
    let text = |data| Ok(word(data, &CONTENT, at)?.map(|(_, text)| text));
    match file {
        Some(file) => Ok(text(file)?.or(text(data)?)),
        None => text(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::message::Role;
    use serde_json::json;

    fn message(parts: Vec<Part>, metadata: Value) -> Message {
        Message { metadata: metadata.as_object().cloned(), ..Message::new("m", Role::User, parts) }
    }

    fn at(i: usize) -> String {
        format!("message.parts[{i}]")
    }

    fn picks(message: &Message) -> Vec<Pick> {
        super::picks(message, at).unwrap_or_else(|fault| panic!("{}", fault.message))
    }

    fn pick(option: &str, edited: Option<&str>) -> Pick {
        Pick { call: "c-1".into(), option: option.into(), edited: edited.map(Into::into), answers: None, seen: None }
    }

    #[test]
    fn every_format_of_an_answer() {
        let once = "proceed_once";
        for (sent, expected, expected_profile) in [
            (json!({"tool_call_id": "c-1", "selected_option_id": once}), pick(once, None), Some(Profile::Devtool)),
            (
                json!({"tool_call_id": "c-1", "selected_option_id": once, "file_details": {"new_content": "x"}}),
                pick(once, Some("x")),
                Some(Profile::Devtool),
            ),
            (
                json!({"tool_call_id": "c-1", "selected_option_id": once,
                    "modified_details": {"file_details": {"new_content": "x"}}}),
                pick(once, Some("x")),
                Some(Profile::Devtool),
            ),
            (
                json!({"toolCallId": "c-1", "selectedOptionId": "cancel", "fileDetails": {"newContent": "x"}}),
                pick("cancel", Some("x")),
                None,
            ),
            (json!({"callId": "c-1", "outcome": "proceed_always"}), pick("proceed_always", None), Some(Profile::Coder)),
            (json!({"callId": "c-1", "outcome": once, "newContent": ""}), pick(once, Some("")), Some(Profile::Coder)),
            (json!({"kind": "tool-call-confirmation", "toolCallId": "c-1", "approved": true}), pick(once, None), None),
            (json!({"toolCallId": "c-1", "approved": false}), pick("cancel", None), None),
            (
                json!({"kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": "c-1", "selected_option_id": "no such"}),
                pick("no such", None),
                Some(Profile::Devtool),
            ),
        ] {
            let message = message(vec![Part::data(sent.clone())], json!(null));
            assert_eq!(picks(&message), [expected], "{sent}");
            assert_eq!(profile(&message), expected_profile, "{sent}");
        }
    }

    #[test]
    fn answers_to_questions_are_words() {
        let said = |sent: Value| {
            let data = json!({"callId": "c-1", "outcome": "proceed_once", "answers": sent});
            let message = message(vec![Part::data(data)], json!(null));
            picks(&message).remove(0).answers
        };
        let expected: Answers = [("0", "Rust"), ("1", "a, b"), ("2", "true"), ("3", "7")]
            .map(|(number, words)| (number.to_owned(), words.to_owned()))
            .into();
        assert_eq!(said(json!({"0": "Rust", "1": ["a", "b"], "2": true, "3": 7, "4": null})), Some(expected.into()));
        assert_eq!(said(json!({})), Some(Answers::new().into()));
        assert_eq!(said(json!(null)), None);
    }

    #[test]
    fn other_data_is_not_taken_for_an_answer() {
        for sent in [
            json!({}),
            json!({"callId": "c-1"}),
            json!({"outcome": "cancel"}),
            json!({"approved": true}),
            json!({"kind": "agent-settings", "workspacePath": "/w"}),
            json!([1]),
        ] {
            let message = message(vec![Part::data(sent.clone())], json!(null));
            assert_eq!(picks(&message), [], "{sent}");
            assert_eq!(profile(&message), None, "{sent}");
        }
    }

    #[test]
    fn an_invalid_answer_is_refused_by_member() {
        let once = "proceed_once";
        for (sent, member) in [
            (json!({"tool_call_id": "c-1", "selected_option_id": 7}), "selected_option_id"),
            (json!({"tool_call_id": "c-1", "selected_option_id": null}), "selected_option_id"),
            (json!({"toolCallId": "c-1", "selectedOptionId": [once]}), "selectedOptionId"),
            (json!({"callId": "c-1", "outcome": {"id": once}}), "outcome"),
            (json!({"callId": 1, "outcome": once}), "callId"),
            (json!({"callId": null, "outcome": once}), "tool_call_id"),
            (json!({"toolCallId": "c-1", "approved": "true"}), "approved"),
            (json!({"toolCallId": "c-1", "approved": null}), "selectedOptionId"),
            (json!({"tool_call_id": "c-1", "selected_option_id": once, "approved": 1}), "approved"),
            (json!({"kind": "TOOL_CALL_CONFIRMATION"}), "tool_call_id"),
            (json!({"kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": "c-1"}), "selected_option_id"),
            (json!({"kind": "tool-call-confirmation", "toolCallId": "c-1"}), "selectedOptionId"),
            (json!({"callId": "c-1", "outcome": once, "newContent": 7}), "newContent"),
            (json!({"callId": "c-1", "outcome": once, "answers": ["Rust"]}), "answers"),
            (json!({"callId": "c-1", "outcome": once, "answers": {"0": {"x": 1}}}), "answers.0"),
            (json!({"tool_call_id": "c-1", "selected_option_id": once, "file_details": "x"}), "file_details"),
        ] {
            let parts = vec![Part::text("and"), Part::data(sent.clone())];
            let fault = super::picks(&message(parts, json!(null)), at).unwrap_err();
            let place = format!("message.parts[1].data.{member}");
            assert_eq!(fault.field, Some(place), "{sent}");
            let metadata = json!({ CODER: sent });
            let beside = message(vec![Part::text("and")], metadata);
            let fault = super::picks(&beside, at).unwrap_err();
            let place = format!("message.metadata.{CODER}.{member}");
            assert_eq!(fault.field, Some(place), "{sent}");
        }
    }

    #[test]
    fn metadata_may_say_what_the_message_is() {
        let sent = json!({"tool_call_id": "c-1", "selected_option_id": "cancel"});
        for label in [
            json!({EXT: {"kind": "TOOL_CALL_CONFIRMATION"}}),
            json!({CODER: {"kind": "tool-call-confirmation", "callId": "c-1"}}),
        ] {
            let message = message(vec![Part::data(sent.clone())], label);
            assert_eq!(picks(&message), [pick("cancel", None)]);
        }
    }

    #[test]
    fn answers_are_found_in_parts_and_metadata() {
        let parts = vec![
            Part::text("and then"),
            Part::data(json!({"callId": "a", "outcome": "cancel"})),
            Part::data(json!({"callId": "b", "outcome": "cancel"})),
        ];
        let metadata = json!({EXT: {"tool_call_id": "c", "selected_option_id": "cancel"},
            CODER: {"callId": "d", "outcome": "cancel"}});
        let message = message(parts, metadata);
        let calls: Vec<String> = picks(&message).iter().map(|pick| pick.call.to_string()).collect();
        assert_eq!(calls, ["a", "b", "c", "d"]);
        assert_eq!(profile(&message), None);
    }
}
