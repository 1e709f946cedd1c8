//! Messages as clients send them, in whatever spelling, into the one form of [`crate::task::message`]. Liberal in names, strict
//! about what is missing: a message without an id, a role or parts is refused, as the protocol's kits demand.
//!
//! The message is kept as it was sent, answers included: the history shows what the client said, and the answers go beside it.

use crate::a2a::object::{Object, member, object, text, texts};
use crate::a2a::words;
use crate::base::crc::crc32;
use crate::base::id::{ContextId, MessageId, TaskId};
use crate::base::json;
use crate::limits::CONTEXT_ID_CHARS;
use crate::task::fault::Fault;
use crate::task::message::{Content, Message, Part, Role};
use serde_json::Value;

const AT: &str = "message";

#[derive(Debug)]
pub struct Received {
    pub message: Message,
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
}

pub fn message(sent: &Object) -> Result<Received, Fault> {
    let (parts, brief) = match member(sent, &["parts", "content"]) {
        Some((_, Value::Array(list))) => (parts(list)?, None),
        Some(("content", Value::Object(content))) => (vec![brief_part(content)?], Some(content)),
        Some((name, _)) => return Err(Fault::params(format!("{AT}.{name} must be a list."))),
        None => return Err(missing("parts")),
    };
    if parts.is_empty() {
        return Err(missing("parts"));
    }
    let id = match (text(sent, &["messageId", "message_id"], AT)?, brief) {
        (Some(id), _) => MessageId::from(id),
        (None, Some(content)) => id_of(content),
        (None, None) => return Err(missing("messageId")),
    };
    let role = match (text(sent, &["role"], AT)?, brief) {
        (Some(word), _) => words::read_role(word)
            .ok_or_else(|| Fault::params(format!("{AT}.role must be user or agent.")))?,
        (None, Some(_)) => Role::User,
        (None, None) => return Err(missing("role")),
    };
    Ok(Received {
        message: Message {
            id,
            role,
            parts,
            metadata: object(sent, &["metadata"], AT)?.cloned(),
            extensions: texts(sent, &["extensions"], AT)?,
            references: texts(sent, &["referenceTaskIds", "reference_task_ids"], AT)?,
        },
        task: text(sent, &["taskId", "task_id"], AT)?.map(TaskId::from),
        context: context(sent, AT)?,
    })
}

/// A context id a client chose: short and printable, because it is shown to people and is a key of ours.
pub fn context(sent: &Object, at: &str) -> Result<Option<ContextId>, Fault> {
    let Some(id) = text(sent, &["contextId", "context_id"], at)? else {
        return Ok(None);
    };
    if id.chars().count() > CONTEXT_ID_CHARS || id.chars().any(char::is_control) {
        return Err(Fault::params(format!(
            "{at}.contextId must be 1 to {CONTEXT_ID_CHARS} printable characters."
        )));
    }
    Ok(Some(id.into()))
}

fn missing(name: &str) -> Fault {
    Fault::params(format!("{AT}.{name} is required."))
}

fn parts(list: &[Value]) -> Result<Vec<Part>, Fault> {
    list.iter()
        .enumerate()
        .map(|(i, value)| {
            let at = format!("{AT}.parts[{i}]");
            match value {
                Value::Object(sent) => part(sent, &at),
                _ => Err(Fault::params(format!("{at} must be an object."))),
            }
        })
        .collect()
}

/// A part goes by what it holds; the word for its kind only decides when it names one of ours.
fn part(sent: &Object, at: &str) -> Result<Part, Fault> {
    let kind = member(sent, &["kind", "type"]).and_then(|(_, kind)| kind.as_str());
    let metadata = object(sent, &["metadata"], at)?.cloned();
    let held = |kind_word, member_name| match kind {
        Some("text" | "file" | "data") => kind == Some(kind_word),
        _ => sent.contains_key(member_name),
    };
    let mut part = if held("text", "text") {
        match sent.get("text") {
            Some(Value::String(text)) => Part::text(text.as_str()),
            _ => return Err(Fault::params(format!("{at}.text must be a string."))),
        }
    } else if held("file", "file") {
        match object(sent, &["file"], at)? {
            Some(inner) => file(inner, &format!("{at}.file"))?,
            // A flat file, as 1.0 writes it, with the word of 0.3.
            None => file(sent, at)?,
        }
    } else if held("data", "data") {
        match sent.get("data") {
            Some(data) => Part::data(data.clone()),
            None => return Err(Fault::params(format!("{at}.data is required."))),
        }
    } else {
        file(sent, at)?
    };
    part.metadata = metadata;
    unwrap(&mut part);
    Ok(part)
}

fn file(sent: &Object, at: &str) -> Result<Part, Fault> {
    let bytes = text(
        sent,
        &["bytes", "data", "fileWithBytes", "file_with_bytes", "raw"],
        at,
    )?;
    let uri = text(sent, &["uri", "fileWithUri", "file_with_uri", "url"], at)?;
    let content = match (bytes, uri) {
        (Some(bytes), None) => Content::Bytes(bytes.into()),
        (None, Some(uri)) => Content::Uri(uri.into()),
        (Some(_), Some(_)) => {
            return Err(Fault::params(format!(
                "{at} must hold bytes or a uri, not both."
            )));
        }
        (None, None) => {
            return Err(Fault::params(format!(
                "{at} holds nothing: send text, a file (bytes or uri) or data."
            )));
        }
    };
    let media = &["mimeType", "mime_type", "mediaType", "media_type"];
    Ok(Part {
        filename: text(sent, &["name", "filename"], at)?.map(str::to_owned),
        media_type: text(sent, media, at)?.map(str::to_owned),
        ..Part::of(content)
    })
}

/// Undoes what carries a value through 0.3, where data is always an object.
fn unwrap(part: &mut Part) {
    let Some(metadata) = &mut part.metadata else {
        return;
    };
    let Content::Data(Value::Object(data)) = &mut part.content else {
        return;
    };
    if metadata.get("data_part_compat") == Some(&Value::Bool(true))
        && data.len() == 1
        && let Some(value) = data.remove("value")
    {
        part.content = Content::Data(value);
        metadata.remove("data_part_compat");
        if metadata.is_empty() {
            part.metadata = None;
        }
    }
}

/// The brief form of live sessions: `content` is one part, and id and role may be left out.
fn brief_part(content: &Object) -> Result<Part, Fault> {
    part(content, "message.content")
}

/// An id for a message that came without: from what it says. It need not be unique, since repeated ids are separate messages.
fn id_of(content: &Object) -> MessageId {
    format!("m-{:08x}", crc32(&json::bytes(content))).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Received, String> {
        message(value.as_object().unwrap()).map_err(|fault| fault.message)
    }

    fn one_part(value: Value) -> Result<Part, String> {
        let sent = json!({"messageId": "m", "role": "user", "parts": [value]});
        read(sent).map(|received| received.message.parts[0].clone())
    }

    #[test]
    fn a_message_keeps_everything_it_came_with() {
        let received = read(json!({
            "kind": "message", "messageId": "m-1", "role": "user", "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": "hi", "metadata": {"a": 1}}],
            "metadata": {"b": 2}, "extensions": ["urn:x"], "referenceTaskIds": ["t-0"], "unknown": true
        }))
        .unwrap();
        let mut part = Part::text("hi");
        part.metadata = json!({"a": 1}).as_object().cloned();
        assert_eq!(
            received.message,
            Message {
                id: "m-1".into(),
                role: Role::User,
                parts: vec![part],
                metadata: json!({"b": 2}).as_object().cloned(),
                extensions: vec!["urn:x".into()],
                references: vec!["t-0".into()],
            }
        );
        assert_eq!(received.task, Some("t-1".into()));
        assert_eq!(received.context, Some("c-1".into()));
    }

    #[test]
    fn other_spellings_of_a_message() {
        let received = read(json!({
            "message_id": "m", "role": "ROLE_USER", "task_id": "", "context_id": null,
            "content": [{"text": "a"}]
        }))
        .unwrap();
        assert_eq!(received.message.parts, [Part::text("a")]);
        assert_eq!((received.task, received.context), (None, None));
    }

    #[test]
    fn the_brief_form_needs_neither_id_nor_role() {
        let received = read(json!({"content": {"text": "hi"}})).unwrap();
        assert_eq!(received.message.parts, [Part::text("hi")]);
        assert_eq!(received.message.role, Role::User);
        assert_eq!(
            received.message.id,
            read(json!({"content": {"text": "hi"}})).unwrap().message.id
        );
        let data = read(json!({"content": {"data": {"x": 1}}})).unwrap();
        assert_eq!(data.message.parts, [Part::data(json!({"x": 1}))]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let whole =
            json!({"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]});
        for (name, value, expected) in [
            ("messageId", None, "message.messageId is required."),
            (
                "messageId",
                Some(json!(1)),
                "message.messageId must be a string.",
            ),
            ("role", None, "message.role is required."),
            (
                "role",
                Some(json!("system")),
                "message.role must be user or agent.",
            ),
            ("parts", None, "message.parts is required."),
            ("parts", Some(json!([])), "message.parts is required."),
            ("parts", Some(json!("x")), "message.parts must be a list."),
            (
                "parts",
                Some(json!(["x"])),
                "message.parts[0] must be an object.",
            ),
            ("taskId", Some(json!(1)), "message.taskId must be a string."),
            (
                "metadata",
                Some(json!([])),
                "message.metadata must be an object.",
            ),
            (
                "extensions",
                Some(json!([1])),
                "message.extensions must be a list of strings.",
            ),
            (
                "contextId",
                Some(json!("a\nb")),
                "message.contextId must be 1 to 128 printable characters.",
            ),
        ] {
            let mut sent = whole.clone();
            let members = sent.as_object_mut().unwrap();
            match value {
                Some(value) => members.insert(name.into(), value),
                None => members.remove(name),
            };
            assert_eq!(read(sent).unwrap_err(), expected);
        }
    }

    #[test]
    fn context_ids_up_to_the_limit() {
        let of = |n: usize| {
            let sent = json!({"contextId": "ü".repeat(n)});
            context(sent.as_object().unwrap(), "body").is_ok()
        };
        assert!(of(CONTEXT_ID_CHARS));
        assert!(!of(CONTEXT_ID_CHARS + 1));
    }

    #[test]
    fn every_spelling_of_a_part() {
        let bytes = |filename: Option<&str>, media: Option<&str>| Part {
            filename: filename.map(Into::into),
            media_type: media.map(Into::into),
            ..Part::of(Content::Bytes("aGk=".into()))
        };
        let uri = Part::of(Content::Uri("https://x.test/a".into()));
        for (sent, expected) in [
            (json!({"kind": "text", "text": ""}), Part::text("")),
            (json!({"type": "text", "text": "a"}), Part::text("a")),
            (json!({"text": "a"}), Part::text("a")),
            (
                json!({"kind": "file", "file": {"bytes": "aGk=", "name": "a.png", "mimeType": "image/png"}}),
                bytes(Some("a.png"), Some("image/png")),
            ),
            (
                json!({"type": "file", "file": {"data": "aGk="}}),
                bytes(None, None),
            ),
            (
                json!({"file": {"fileWithBytes": "aGk=", "mime_type": "image/png"}}),
                bytes(None, Some("image/png")),
            ),
            (
                json!({"raw": "aGk=", "filename": "a.png", "mediaType": "image/png"}),
                bytes(Some("a.png"), Some("image/png")),
            ),
            (
                json!({"kind": "file", "file": {"uri": "https://x.test/a"}}),
                uri.clone(),
            ),
            (
                json!({"file": {"fileWithUri": "https://x.test/a"}}),
                uri.clone(),
            ),
            (
                json!({"file": {"file_with_uri": "https://x.test/a"}}),
                uri.clone(),
            ),
            (json!({"url": "https://x.test/a"}), uri),
            (
                json!({"kind": "data", "data": {"a": 1}}),
                Part::data(json!({"a": 1})),
            ),
            (json!({"data": {}}), Part::data(json!({}))),
            (
                json!({"kind": "data", "data": {"value": 3}, "metadata": {"data_part_compat": true}}),
                Part::data(json!(3)),
            ),
        ] {
            assert_eq!(one_part(sent.clone()), Ok(expected), "{sent}");
        }
    }

    #[test]
    fn parts_that_hold_nothing_are_refused() {
        let nothing = "message.parts[0] holds nothing: send text, a file (bytes or uri) or data.";
        for (sent, expected) in [
            (json!({}), nothing),
            (json!({"kind": "video", "frames": 3}), nothing),
            (
                json!({"kind": "text"}),
                "message.parts[0].text must be a string.",
            ),
            (
                json!({"kind": "data"}),
                "message.parts[0].data is required.",
            ),
            (
                json!({"kind": "file", "file": {"bytes": "a", "uri": "b"}}),
                "message.parts[0].file must hold bytes or a uri, not both.",
            ),
        ] {
            assert_eq!(one_part(sent.clone()).unwrap_err(), expected, "{sent}");
        }
    }
}
