//! Answers to questions about tool calls, in every spelling clients use, from wherever they put them. Whether a call waits
//! and an option is on offer is not known here.

use crate::a2a::object::Object;
use crate::a2a::words::{CODER, EXT};
use crate::task::event::Profile;
use crate::task::job::Pick;
use crate::task::message::{Content, Message};
use crate::task::spec::{Answers, Choice};
use serde_json::Value;

/// The answers of a message: those in its data parts, in order, then those in its metadata.
pub fn picks(message: &Message) -> Vec<Pick> {
    let parts = message.parts.iter().filter_map(|part| match &part.content {
        Content::Data(data) => data.as_object(),
        Content::Text(_) | Content::Bytes(_) | Content::Uri(_) => None,
    });
    let metadata = [EXT, CODER].into_iter().filter_map(|key| {
        let metadata = message.metadata.as_ref()?;
        metadata.get(key)?.as_object()
    });
    parts.chain(metadata).filter_map(pick).collect()
}

/// The profile a message speaks that has nothing but answers in it: each profile spells them its own way.
pub fn profile(message: &Message) -> Option<Profile> {
    let mut spoken = None;
    for part in &message.parts {
        let Content::Data(Value::Object(data)) = &part.content else {
            return None;
        };
        pick(data)?;
        let profile = if data.contains_key("tool_call_id") {
            Profile::Devtool
        } else if data.contains_key("callId") {
            Profile::Coder
        } else {
            return None;
        };
        if spoken.is_some_and(|before| before != profile) {
            return None;
        }
        spoken = Some(profile);
    }
    spoken
}

/// Whether an object is an answer.
pub fn is_answer(data: &Object) -> bool {
    pick(data).is_some()
}

/// An answer needs a call and a decision; an object without both is some other data.
fn pick(data: &Object) -> Option<Pick> {
    let text = |names: &[&str]| names.iter().find_map(|name| data.get(*name)?.as_str());
    let call = text(&["tool_call_id", "toolCallId", "callId"])?;
    let chosen = text(&["selected_option_id", "selectedOptionId", "outcome"]);
    let approved = data.get("approved").and_then(Value::as_bool);
    let option = match (chosen, approved) {
        (Some(option), _) => option,
        (None, Some(true)) => Choice::ProceedOnce.word(),
        (None, Some(false)) => Choice::Cancel.word(),
        (None, None) => return None,
    };
    Some(Pick {
        call: call.into(),
        option: option.into(),
        edited: edited(data).map(Into::into),
        answers: answers(data).map(Into::into),
    })
}

/// What the user says to the agent's questions, by their numbers. Several choices are one answer.
fn answers(data: &Object) -> Option<Answers> {
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
    let given = data.get("answers")?.as_object()?.iter();
    Some(
        given
            .filter_map(|(number, value)| Some((number.clone(), words(value)?)))
            .collect(),
    )
}

/// The content the user wants in the file instead.
fn edited(data: &Object) -> Option<&str> {
    const FILE: [&str; 2] = ["file_details", "fileDetails"];
    const CONTENT: [&str; 2] = ["new_content", "newContent"];
    let direct = named(data, CONTENT);
    let nested = named(data, ["modified_details", "modifiedDetails"])
        .and_then(Value::as_object)
        .unwrap_or(data);
    let file = named(nested, FILE).and_then(Value::as_object);
    file.and_then(|file| named(file, CONTENT))
        .or(direct)
        .and_then(Value::as_str)
}

fn named<'a>(object: &'a Object, names: [&str; 2]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::message::{Part, Role};
    use serde_json::json;

    fn message(parts: Vec<Part>, metadata: Value) -> Message {
        Message {
            metadata: metadata.as_object().cloned(),
            ..Message::new("m", Role::User, parts)
        }
    }

    fn pick(option: &str, edited: Option<&str>) -> Pick {
        Pick {
            call: "c-1".into(),
            option: option.into(),
            edited: edited.map(Into::into),
            answers: None,
        }
    }

    #[test]
    fn every_spelling_of_an_answer() {
        let once = "proceed_once";
        for (sent, expected, profile_spoken) in [
            (
                json!({"tool_call_id": "c-1", "selected_option_id": once}),
                pick(once, None),
                Some(Profile::Devtool),
            ),
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
            (
                json!({"callId": "c-1", "outcome": "proceed_always"}),
                pick("proceed_always", None),
                Some(Profile::Coder),
            ),
            (
                json!({"callId": "c-1", "outcome": once, "newContent": ""}),
                pick(once, Some("")),
                Some(Profile::Coder),
            ),
            (
                json!({"kind": "tool-call-confirmation", "toolCallId": "c-1", "approved": true}),
                pick(once, None),
                None,
            ),
            (
                json!({"toolCallId": "c-1", "approved": false}),
                pick("cancel", None),
                None,
            ),
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
        assert_eq!(
            said(
                json!({"0": "Rust", "1": ["a", "b"], "2": true, "3": 7, "4": null, "5": {"x": 1}})
            ),
            Some(expected.into())
        );
        assert_eq!(said(json!({})), Some(Answers::new().into()));
        assert_eq!(said(json!(["Rust"])), None);
    }

    #[test]
    fn other_data_is_no_answer() {
        for sent in [
            json!({}),
            json!({"callId": "c-1"}),
            json!({"outcome": "cancel"}),
            json!({"callId": 1, "outcome": "cancel"}),
            json!([1]),
        ] {
            let message = message(vec![Part::data(sent.clone())], json!(null));
            assert_eq!(picks(&message), [], "{sent}");
            assert_eq!(profile(&message), None, "{sent}");
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
        let calls: Vec<String> = picks(&message)
            .iter()
            .map(|pick| pick.call.to_string())
            .collect();
        assert_eq!(calls, ["a", "b", "c", "d"]);
        assert_eq!(profile(&message), None);
    }
}
