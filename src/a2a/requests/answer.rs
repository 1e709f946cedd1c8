//! Answers to questions about tool calls, in every spelling clients use, from wherever they put them. Whether a call waits
//! and an option is on offer is not known here.
//!
//! An object that is meant as an answer but invalid is refused. Read as other data it would be a prompt, and start work that somebody
//! wanted to stop.

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
/// The member that names the call, and the one that decides about it, in each way of spelling.
const SPELLINGS: [(&str, &str); 3] =
    [("tool_call_id", "selected_option_id"), ("toolCallId", "selectedOptionId"), ("callId", "outcome")];
/// The members that hold the answer in an object that only says that there is one.
const HOLDERS: [&str; 5] = ["content", "parts", "message", "userMessage", "confirmation"];
/// A decision in one word for all spellings: yes or no.
const APPROVED: &str = "approved";

/// The answers of a message: those in its data parts, in order, then those in its metadata. `at` says where a part is.
pub fn picks(message: &Message, at: impl Fn(usize) -> String) -> Result<Vec<Pick>, Fault> {
    let mut picks = Vec::new();
    for (i, part) in message.parts.iter().enumerate() {
        if let Content::Data(Value::Object(data)) = &part.content {
            picks.extend(read(data, &format!("{}.data", at(i)))?);
        }
    }
    for key in [EXT, CODER] {
        let metadata = message.metadata.as_ref().and_then(|all| all.get(key));
        // Beside an answer, metadata that decides nothing is a label: its kind says what the message is.
        if let Some(Value::Object(data)) = metadata
            && (picks.is_empty() || decides(data))
        {
            picks.extend(read(data, &format!("message.metadata.{key}"))?);
        }
    }
    Ok(picks)
}

/// The profile of a message that has only answers in it: each profile has its own names for them.
pub fn profile(message: &Message) -> Option<Profile> {
    let spoken = |part: &Part| match &part.content {
        Content::Data(Value::Object(data)) if is_meant(data) && data.contains_key("tool_call_id") => {
            Some(Profile::Devtool)
        }
        Content::Data(Value::Object(data)) if is_meant(data) && data.contains_key("callId") => Some(Profile::Coder),
        _ => None,
    };
    let first = message.parts.first().and_then(spoken)?;
    message.parts.iter().all(|part| spoken(part) == Some(first)).then_some(first)
}

/// Adds to a fault about an unknown option the name of the member that has the option.
pub fn blame(message: &Message, fault: Fault) -> Fault {
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

/// The answer in an object, if it is meant as one; `at` is where the object is.
fn read(data: &Object, at: &str) -> Result<Option<Pick>, Fault> {
    is_meant(data).then(|| demand(data, at)).transpose()
}

/// Whether an object is meant as an answer: it speaks both of a call and of a decision, or says so and holds nothing that could
/// be one instead. Any other object is some other data.
pub fn is_meant(data: &Object) -> bool {
    let has = |name: &str| data.contains_key(name);
    (SPELLINGS.iter().any(|(call, _)| has(call)) && decides(data))
        || (says_so(data) && !HOLDERS.iter().any(|name| has(name)))
}

fn decides(data: &Object) -> bool {
    let has = |name: &str| data.contains_key(name);
    SPELLINGS.iter().any(|(_, decision)| has(decision)) || has(APPROVED)
}

/// Whether an object says that it is an answer, or holds one.
pub fn says_so(data: &Object) -> bool {
    let kind = data.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// Refuses an object that says it holds an answer and has none.
pub fn hold_to_kind(data: &Object, answers: &[Pick], at: &str) -> Result<(), Fault> {
    if answers.is_empty() && says_so(data) {
        let what = "says that this is an answer to a question, but there is none in it.";
        return Err(wrong(at, "kind", what));
    }
    Ok(())
}

/// The answer in an object that can be nothing else.
pub fn demand(data: &Object, at: &str) -> Result<Pick, Fault> {
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

/// A string under the first of these names that is there, and the name. The empty one is one too: no call and no option has it,
/// and the lookup of the call refuses it.
fn word<'a>(data: &'a Object, names: &[&'a str], at: &str) -> Result<Option<(&'a str, &'a str)>, Fault> {
    match member(data, names) {
        None => Ok(None),
        Some((name, Value::String(word))) => Ok(Some((name, word))),
        Some((name, _)) => Err(wrong(at, name, "must be a string.")),
    }
}

/// What the user says to the agent's questions, by their numbers. Several choices are one answer.
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
        let said = words(value).ok_or_else(|| wrong(at, &format!("answers.{number}"), "must be words."))?;
        answers.insert(number.clone(), said);
    }
    Ok(Some(answers))
}

/// The content the user wants in the file instead.
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
    fn every_spelling_of_an_answer() {
        let once = "proceed_once";
        for (sent, expected, profile_spoken) in [
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
            assert_eq!(profile(&message), profile_spoken, "{sent}");
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
    fn other_data_is_no_answer() {
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
