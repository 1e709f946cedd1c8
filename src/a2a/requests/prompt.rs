//! Reads what clients of the Gemini tools send as a message: a string, a text in one of several members, a message with or without its id
//! and role, an answer to a question, each with or without a JSON-RPC envelope. All endpoints of these tools accept every form.

use crate::a2a::requests::answer;
use crate::a2a::requests::message::{self, Gaps, Received};
use crate::a2a::requests::object::{Object, member, object, text, wrong};
use crate::base::id::TaskId;
use crate::task::fault::Fault;
use crate::task::message::Part;
use serde_json::Value;

const MESSAGE: &[&str] = &["userMessage", "message"];

/// Reads a message.
pub fn read(sent: &Value) -> Result<Received, Fault> {
    read_at(sent, "")
}

fn read_at(sent: &Value, at: &str) -> Result<Received, Fault> {
    match sent {
        Value::String(text) if !text.is_empty() => Ok(single_part(Part::text(text.as_str()))),
        Value::Object(sent) => read_object(without_envelope(sent)?, at),
        _ => Err(no_message()),
    }
}

/// The params of a JSON-RPC envelope; any other object itself.
pub fn without_envelope(sent: &Object) -> Result<&Object, Fault> {
    if sent.contains_key("jsonrpc")
        && let Some(params) = object(sent, &["params"], "")?
    {
        return Ok(params);
    }
    Ok(sent)
}

fn read_object(sent: &Object, at: &str) -> Result<Received, Fault> {
    let mut received = if answer::is_answer(sent) {
        received_answer(sent, at)?
    } else if let Some((_, inner)) = member(sent, &["confirmation"]) {
        read_confirmation(sent, inner)?
    } else if let Some((name, inner)) = member(sent, MESSAGE) {
        read_at(inner, name)?
    } else if member(sent, &["parts", "content"]).is_some() {
        message::message(sent, Gaps::Filled)?
    } else if let Some(words) = text(sent, &["text", "prompt"], "")? {
        single_part(Part::text(words))
    } else {
        return Err(no_message());
    };
    answer::check_kind(sent, &received.answers, at)?;
    if received.task.is_none() {
        received.task = text(sent, &["taskId", "task_id"], "")?.map(TaskId::from);
    }
    if received.context.is_none() {
        received.context = message::context(sent, "")?;
    }
    Ok(received)
}

/// Reads the member `confirmation`, which must be an answer: read as a prompt it would start a turn.
fn read_confirmation(around: &Object, sent: &Value) -> Result<Received, Fault> {
    let refused = |what| Err(wrong("", "confirmation", what));
    // An empty string does not count as a message: some clients send every member they know.
    let is_said = |name: &&str| {
        let message = member(around, &[name]);
        message.is_some_and(|(_, value)| value != "")
    };
    if MESSAGE.iter().any(is_said) {
        return refused("stands alone; send the message after it.");
    }
    match sent {
        Value::Object(data) if member(data, &["message", "parts", "content"]).is_none() => {
            received_answer(data, "confirmation")
        }
        Value::Object(_) => match read_at(sent, "confirmation")? {
            received if received.answers.is_empty() => refused("holds no answer to a question."),
            received => Ok(received),
        },
        _ => refused("must be an object."),
    }
}

fn received_answer(data: &Object, at: &str) -> Result<Received, Fault> {
    Ok(Received {
        answers: vec![answer::read_answer(data, at)?],
        ..single_part(Part::data(Value::Object(data.clone())))
    })
}

fn single_part(part: Part) -> Received {
    Received { message: message::single_part(part), answers: Vec::new(), task: None, context: None }
}

fn no_message() -> Fault {
    Fault::params("There is no message in the body; send {\"message\": \"text\"}, or an A2A message in its place.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::fault::FaultKind;
    use crate::task::message::Role;
    use serde_json::json;

    #[test]
    fn every_form_of_a_prompt() {
        let whole =
            json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]});
        for sent in [
            json!("hi"),
            json!({"text": "hi"}),
            json!({"prompt": "hi"}),
            json!({"message": "hi"}),
            json!({"userMessage": "hi"}),
            json!({"userMessage": {"text": "hi"}}),
            json!({"userMessage": {"content": {"text": "hi"}}}),
            json!({"content": {"text": "hi"}}),
            json!({"message": {"content": {"text": "hi"}}}),
            json!({"message": {"parts": [{"text": "hi"}]}}),
            json!({"message": whole}),
            whole.clone(),
            json!({"jsonrpc": "2.0", "method": "message/stream", "params": {"message": whole}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {"content": {"text": "hi"}}}}),
        ] {
            let received = read(&sent).unwrap_or_else(|fault| panic!("{sent}: {fault:?}"));
            assert_eq!(received.message.parts, [Part::text("hi")], "{sent}");
            assert_eq!(received.message.role, Role::User);
        }
    }

    #[test]
    fn every_way_to_answer() {
        let rfc = json!({"tool_call_id": "c", "selected_option_id": "proceed_once"});
        for (sent, data) in [
            (rfc.clone(), rfc.clone()),
            (json!({ "confirmation": rfc }), rfc.clone()),
            (json!({"confirmation": rfc, "message": ""}), rfc.clone()),
            (json!({"message": {"content": {"data": rfc}}}), rfc.clone()),
            (json!({"kind": "TOOL_CALL_CONFIRMATION", "message": {"content": {"data": rfc}}}), rfc.clone()),
            (
                json!({"userMessage": {"kind": "tool-call-confirmation", "toolCallId": "c", "approved": true}}),
                json!({"kind": "tool-call-confirmation", "toolCallId": "c", "approved": true}),
            ),
        ] {
            let received = read(&sent).unwrap_or_else(|fault| panic!("{sent}: {fault:?}"));
            assert_eq!(received.message.parts, [Part::data(data)], "{sent}");
            assert_eq!(received.answers[0].option, "proceed_once");
        }
    }

    #[test]
    fn an_invalid_answer_is_not_taken_for_a_prompt() {
        let rfc = json!({"tool_call_id": "c", "selected_option_id": "cancel"});
        for (sent, place) in [
            (json!({"tool_call_id": "c", "selected_option_id": 7}), "selected_option_id"),
            (json!({"userMessage": {"toolCallId": "c", "approved": "no"}}), "userMessage.approved"),
            (
                json!({"userMessage": {"kind": "tool-call-confirmation", "toolCallId": "c"}}),
                "userMessage.selectedOptionId",
            ),
            (json!({"confirmation": "yes"}), "confirmation"),
            (json!({"confirmation": {"text": "yes"}}), "confirmation.tool_call_id"),
            (json!({"confirmation": {"callId": "c"}}), "confirmation.outcome"),
            (json!({"confirmation": {"content": {"text": "yes"}}}), "confirmation"),
            (json!({"confirmation": rfc, "message": "and go on"}), "confirmation"),
            (json!({"message": {"content": {"data": {"callId": "c", "outcome": 1}}}}), "message.content.data.outcome"),
            (json!({"kind": "TOOL_CALL_CONFIRMATION", "content": {"data": {"tool_call_id": "c"}}}), "message.kind"),
            (json!({"kind": "TOOL_CALL_CONFIRMATION", "message": "yes"}), "kind"),
        ] {
            let refused = read(&sent).map(|_| ()).map_err(|fault| (fault.kind, fault.field));
            let expected = (FaultKind::InvalidParams, Some(place.to_owned()));
            assert_eq!(refused, Err(expected), "{sent}");
        }
    }

    #[test]
    fn ids_beside_the_message_count_unless_it_has_its_own() {
        let received = read(&json!({"taskId": "t", "contextId": "c", "userMessage": "hi"})).unwrap();
        assert_eq!(received.task, Some("t".into()));
        assert_eq!(received.context, Some("c".into()));
        let message = json!({"taskId": "own", "parts": [{"text": "hi"}]});
        let received = read(&json!({"taskId": "t", "message": message})).unwrap();
        assert_eq!(received.task, Some("own".into()));
    }

    #[test]
    fn messages_without_content() {
        for sent in [
            json!(""),
            json!(null),
            json!(7),
            json!([]),
            json!({}),
            json!({"message": ""}),
            json!({"message": {}}),
            json!({"message": {"parts": []}}),
            json!({"confirmation": {"tool_call_id": "c"}}),
            json!({"text": 7}),
            json!({"jsonrpc": "2.0", "params": []}),
        ] {
            let refused = read(&sent).map(|_| ()).map_err(|fault| fault.kind);
            assert_eq!(refused, Err(FaultKind::InvalidParams), "{sent}");
        }
    }
}
