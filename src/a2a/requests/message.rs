//! Messages as clients send them, in whatever spelling, into the one form of [`crate::task::message`]. Liberal in names, strict
//! about what is missing: a message without an id, a role or parts is refused, as the protocol's kits demand. Only where a
//! dialect of the Gemini tools is spoken are id and role filled in.
//!
//! The message is kept as it was sent, answers included: the history shows what the client said, and the answers go beside it.

use crate::a2a::requests::answer;
use crate::a2a::requests::object::{Object, member, object, text, texts, wrong};
use crate::a2a::words;
use crate::base::crc::crc32;
use crate::base::id::{ContextId, MessageId, TaskId};
use crate::base::json;
use crate::limits::{CONTEXT_ID_CHARS, MESSAGE_PARTS};
use crate::task::fault::{Fault, FaultKind};
use crate::task::machine::job::Pick;
use crate::task::message::{Content, Message, Part, Role};
use serde_json::Value;

const AT: &str = "message";

#[derive(Debug)]
pub struct Received {
    pub message: Message,
    /// The answers to questions that are in it.
    pub answers: Vec<Pick>,
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
}

/// What becomes of a message without an id or a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    Refused,
    Filled,
}

/// Where the parts of a message are.
#[derive(Clone, Copy)]
enum PartLocation<'a> {
    List(&'a str),
    Alone,
}

pub fn message(sent: &Object, gaps: Gaps) -> Result<Received, Fault> {
    let (parts, place, gaps) = match member(sent, &["parts", "content"]) {
        Some((name, Value::Array(list))) => (parts(list, name)?, PartLocation::List(name), gaps),
        // The brief form of live sessions: one part, and neither id nor role.
        Some(("content", Value::Object(content))) => {
            let part = part(content, "message.content")?;
            (vec![part], PartLocation::Alone, Gaps::Filled)
        }
        Some((name, _)) => return Err(wrong(AT, name, "must be a list.")),
        None => return Err(missing("parts")),
    };
    if parts.is_empty() {
        return Err(missing("parts"));
    }
    let id = match (text(sent, &["messageId", "message_id"], AT)?, gaps) {
        (Some(id), _) => MessageId::from(id),
        (None, Gaps::Filled) => id_of(sent),
        (None, Gaps::Refused) => return Err(missing("messageId")),
    };
    let message = Message {
        id,
        role: role(sent, gaps)?,
        parts,
        metadata: object(sent, &["metadata"], AT)?.cloned(),
        extensions: texts(sent, &["extensions"], AT)?,
        references: texts(sent, &["referenceTaskIds", "reference_task_ids"], AT)?,
    };
    let answers = answer::picks(&message, |i| match place {
        PartLocation::List(name) => format!("{AT}.{name}[{i}]"),
        PartLocation::Alone => format!("{AT}.content"),
    })?;
    answer::hold_to_kind(sent, &answers, AT)?;
    Ok(Received {
        message,
        answers,
        task: text(sent, &["taskId", "task_id"], AT)?.map(TaskId::from),
        context: context(sent, AT)?,
    })
}

/// A user's message of one part, from whoever sends nothing around it.
pub fn brief(part: Part) -> Message {
    Message::new(id_of(&part), Role::User, vec![part])
}

/// A context id a client chose: short and printable, because it is shown to people and is a key of ours.
pub fn context(sent: &Object, at: &str) -> Result<Option<ContextId>, Fault> {
    let Some(id) = text(sent, &["contextId", "context_id"], at)? else {
        return Ok(None);
    };
    if !is_short_name(id) {
        return Err(wrong(at, "contextId", &format!("must be 1 to {CONTEXT_ID_CHARS} printable characters.")));
    }
    Ok(Some(id.into()))
}

/// Whether a name that a client chose may become a key of ours.
pub fn is_short_name(name: &str) -> bool {
    name.chars().count() <= CONTEXT_ID_CHARS && !name.chars().any(char::is_control)
}

fn missing(name: &str) -> Fault {
    wrong(AT, name, "is required.")
}

/// Roles go by their word in any version, and in 1.0 by their number too.
fn role(sent: &Object, gaps: Gaps) -> Result<Role, Fault> {
    let role = match (member(sent, &["role"]), gaps) {
        (None, Gaps::Filled) => Some(Role::User),
        (None, Gaps::Refused) => return Err(missing("role")),
        (Some((_, Value::String(word))), _) if word.is_empty() => return Err(missing("role")),
        (Some((_, Value::String(word))), _) => words::read_role(word),
        (Some((_, number)), _) => match number.as_u64() {
            Some(1) => Some(Role::User),
            Some(2) => Some(Role::Agent),
            _ => None,
        },
    };
    role.ok_or_else(|| wrong(AT, "role", "must be user or agent; in 1.0 ROLE_USER or ROLE_AGENT."))
}

/// Refuses a message with too many parts before any of them is looked at.
pub fn check_parts(list: &[Value], at: &str, name: &str) -> Result<(), Fault> {
    if list.len() <= MESSAGE_PARTS {
        return Ok(());
    }
    let what = format!("has {} parts; send at most {MESSAGE_PARTS}, joined or in several messages.", list.len());
    Err(wrong(at, name, &what))
}

fn parts(list: &[Value], name: &str) -> Result<Vec<Part>, Fault> {
    check_parts(list, AT, name)?;
    list.iter()
        .enumerate()
        .map(|(i, value)| {
            let at = format!("{AT}.{name}[{i}]");
            let Value::Object(sent) = value else {
                return Err(Fault::field(at, "must be an object."));
            };
            let mut part = part(sent, &at)?;
            if name == "content" {
                unnest(&mut part);
            }
            Ok(part)
        })
        .collect()
}

/// A part goes by its kind, and where it names none by what it holds. A kind that nobody knows here may mean anything, whatever else
/// the part holds.
fn part(sent: &Object, at: &str) -> Result<Part, Fault> {
    let kind = match member(sent, &["kind", "type"]) {
        None => None,
        Some((name, kind)) => match kind.as_str() {
            Some(kind @ ("text" | "file" | "data")) => Some(kind),
            Some(_) | None => return Err(wrong(at, name, "must be text, file or data.")),
        },
    };
    if kind.is_none() {
        holds_one(sent, at)?;
    }
    let metadata = object(sent, &["metadata"], at)?.cloned();
    let there = |name| sent.get(name).is_some_and(|value: &Value| !value.is_null());
    let held = |word| kind.map_or_else(|| there(word), |kind| kind == word);
    let mut part = if held("text") {
        match sent.get("text") {
            Some(Value::String(text)) => Part::text(text.as_str()),
            _ => return Err(wrong(at, "text", "must be a string.")),
        }
    } else if held("file") {
        match object(sent, &["file"], at)? {
            Some(inner) => file(inner, &format!("{at}.file"))?,
            // A flat file, as 1.0 writes it, with the word of 0.3.
            None => file(sent, at)?,
        }
    } else if held("data") {
        match sent.get("data") {
            Some(data) => Part::data(data.clone()),
            None => return Err(wrong(at, "data", "is required.")),
        }
    } else if sent.get("data") == Some(&Value::Null) && !there("raw") && !there("url") {
        Part::data(Value::Null)
    } else {
        file(sent, at)?
    };
    if part.media_type.is_none() {
        part.media_type = text(sent, MEDIA_TYPE, at)?.map(str::to_owned);
    }
    if part.filename.is_none() {
        part.filename = text(sent, &["filename"], at)?.map(str::to_owned);
    }
    check_media(&part, at)?;
    part.metadata = metadata;
    unwrap(&mut part);
    Ok(part)
}

/// What holds two contents at once could mean either.
fn holds_one(sent: &Object, at: &str) -> Result<(), Fault> {
    let contents = ["text", "raw", "url", "file", "data"];
    let held = contents.iter().filter(|name| sent.get(**name).is_some_and(|value| !value.is_null()));
    if held.count() > 1 {
        return Err(Fault::field(at, "must hold one of text, raw, url and data, not several."));
    }
    Ok(())
}

const MEDIA_TYPE: &[&str] = &["mediaType", "media_type", "mimeType", "mime_type"];

fn file(sent: &Object, at: &str) -> Result<Part, Fault> {
    let bytes = text(sent, &["bytes", "data", "fileWithBytes", "file_with_bytes", "raw"], at)?;
    let uri = text(sent, &["uri", "fileWithUri", "file_with_uri", "url"], at)?;
    let content = match (bytes, uri) {
        (Some(bytes), None) => match base64(bytes) {
            Some(bytes) => Content::Bytes(bytes),
            None => return Err(Fault::field(at, "must hold its bytes in base64.")),
        },
        (None, Some(uri)) => Content::Uri(uri.into()),
        (Some(_), Some(_)) => {
            return Err(Fault::field(at, "must hold bytes or a uri, not both."));
        }
        (None, None) => {
            return Err(Fault::field(at, "holds nothing: send text, a file (bytes or uri) or data."));
        }
    };
    Ok(Part {
        filename: text(sent, &["name", "filename"], at)?.map(str::to_owned),
        media_type: text(sent, MEDIA_TYPE, at)?.map(str::to_owned),
        ..Part::of(content)
    })
}

/// Base64 in the alphabet and with the padding that everybody reads; the one for URLs, and none, are read too.
fn base64(sent: &str) -> Option<String> {
    let digits = sent.trim_end_matches('=');
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b"+/-_".contains(&b);
    if digits.len() % 4 == 1 || sent.len() - digits.len() > 2 || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut plain = digits.replace('-', "+").replace('_', "/");
    while !plain.len().is_multiple_of(4) {
        plain.push('=');
    }
    Some(plain)
}

/// What the model can be given: text in whatever guise, and the media it sees and hears. A client that does not know what it
/// sends says so with `octet-stream`, and is believed to mean text until its bytes show otherwise.
fn check_media(part: &Part, at: &str) -> Result<(), Fault> {
    const TEXTS: [&str; 12] = [
        "json",
        "xml",
        "yaml",
        "x-yaml",
        "toml",
        "javascript",
        "typescript",
        "x-sh",
        "sql",
        "x-ndjson",
        "pdf",
        "octet-stream",
    ];
    let Some(media) = &part.media_type else {
        return Ok(());
    };
    let plain = media.split(';').next().unwrap_or_default().trim();
    let plain = plain.to_ascii_lowercase();
    let fits = match plain.split_once('/') {
        Some(("text" | "image" | "audio" | "video", _)) => true,
        Some(("application", kind)) => TEXTS.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml"),
        Some(_) => false,
        // The shorthands that some cards and clients use.
        None => matches!(plain.as_str(), "text" | "json"),
    };
    if fits {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::ContentTypeNotSupported,
        format!(
            "Incompatible content types: {at} is {media}, which is not supported; send text, JSON, an image, audio, video or a \
             PDF."
        ),
    ))
}

/// The protobuf form of 0.3 has data in data.
fn unnest(part: &mut Part) {
    let Content::Data(Value::Object(outer)) = &mut part.content else {
        return;
    };
    if outer.len() == 1
        && let Some(inner @ Value::Object(_)) = outer.get_mut("data")
    {
        part.content = Content::Data(inner.take());
    }
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

/// An id for a message that came without: from what it says. It need not be unique, since repeated ids are separate messages.
fn id_of(content: &impl serde::Serialize) -> MessageId {
    format!("m-{:08x}", crc32(&json::bytes(content))).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Received, String> {
        message(value.as_object().unwrap(), Gaps::Refused).map_err(|fault| fault.message)
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
        assert_eq!(received.message.id, read(json!({"content": {"text": "hi"}})).unwrap().message.id);
        let data = read(json!({"content": {"data": {"x": 1}}})).unwrap();
        assert_eq!(data.message.parts, [Part::data(json!({"x": 1}))]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let whole = json!({"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]});
        for (name, value, expected) in [
            ("messageId", None, "message.messageId is required."),
            ("messageId", Some(json!(1)), "message.messageId must be a string."),
            ("role", None, "message.role is required."),
            ("role", Some(json!(3)), "message.role must be user or agent; in 1.0 ROLE_USER or ROLE_AGENT."),
            ("role", Some(json!("system")), "message.role must be user or agent; in 1.0 ROLE_USER or ROLE_AGENT."),
            ("parts", None, "message.parts is required."),
            ("parts", Some(json!([])), "message.parts is required."),
            ("parts", Some(json!("x")), "message.parts must be a list."),
            ("parts", Some(json!(["x"])), "message.parts[0] must be an object."),
            ("taskId", Some(json!(1)), "message.taskId must be a string."),
            ("metadata", Some(json!([])), "message.metadata must be an object."),
            ("extensions", Some(json!([1])), "message.extensions must be a list of strings."),
            ("contextId", Some(json!("a\nb")), "message.contextId must be 1 to 128 printable characters."),
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
            (json!({"type": "file", "file": {"data": "aGk="}}), bytes(None, None)),
            (json!({"file": {"fileWithBytes": "aGk=", "mime_type": "image/png"}}), bytes(None, Some("image/png"))),
            (
                json!({"raw": "aGk=", "filename": "a.png", "mediaType": "image/png"}),
                bytes(Some("a.png"), Some("image/png")),
            ),
            (json!({"kind": "file", "file": {"uri": "https://x.test/a"}}), uri.clone()),
            (json!({"file": {"fileWithUri": "https://x.test/a"}}), uri.clone()),
            (json!({"file": {"file_with_uri": "https://x.test/a"}}), uri.clone()),
            (json!({"url": "https://x.test/a"}), uri),
            (json!({"kind": "data", "data": {"a": 1}}), Part::data(json!({"a": 1}))),
            (json!({"data": {}}), Part::data(json!({}))),
            (json!({"data": [1], "text": null}), Part::data(json!([1]))),
            (json!({ "data": null }), Part::data(json!(null))),
            (
                json!({"kind": "data", "data": {"value": 3}, "metadata": {"data_part_compat": true}}),
                Part::data(json!(3)),
            ),
        ] {
            assert_eq!(one_part(sent.clone()), Ok(expected), "{sent}");
        }
    }

    #[test]
    fn data_in_data_is_of_the_protobuf_form_alone() {
        let read = |name: &str, data: Value| {
            let sent = json!({"messageId": "m", "role": "ROLE_USER", name: [{ "data": data }]});
            read(sent).unwrap().message.parts.remove(0)
        };
        let nested = json!({"data": {"a": 1}});
        assert_eq!(read("content", nested.clone()), Part::data(json!({"a": 1})));
        assert_eq!(read("parts", nested.clone()), Part::data(nested));
        let more = json!({"data": {"a": 1}, "b": 2});
        assert_eq!(read("content", more.clone()), Part::data(more));
    }

    #[test]
    fn base64_of_both_alphabets() {
        let bytes = |sent: &str| match one_part(json!({ "raw": sent })) {
            Ok(Part { content: Content::Bytes(bytes), .. }) => Ok(bytes),
            Ok(other) => panic!("{other:?}"),
            Err(message) => Err(message),
        };
        for (sent, expected) in [("aGk=", "aGk="), ("aGk", "aGk="), ("-_-_", "+/+/"), ("-_8", "+/8=")] {
            assert_eq!(bytes(sent), Ok(expected.into()), "{sent}");
        }
        for sent in ["a", "aGk===", "a k=", "aG!=", "ü"] {
            assert_eq!(bytes(sent), Err("message.parts[0] must hold its bytes in base64.".into()), "{sent}");
        }
    }

    #[test]
    fn media_types_the_model_can_be_given() {
        let kind = |media: &str| {
            let part = json!({"raw": "aGk=", "mediaType": media});
            let sent = json!({"messageId": "m", "role": 1, "parts": [part]});
            let read = message(sent.as_object().unwrap(), Gaps::Refused);
            read.map(|_| ()).map_err(|fault| fault.kind)
        };
        for media in [
            "text/plain; charset=utf-8",
            "TEXT/X-RUST",
            "application/json",
            "application/ld+json",
            "image/png",
            "application/pdf",
            "application/octet-stream",
            "text",
        ] {
            assert_eq!(kind(media), Ok(()), "{media}");
        }
        for media in ["application/zip", "application/x-unknown", "font/woff", "zip"] {
            assert_eq!(kind(media), Err(FaultKind::ContentTypeNotSupported), "{media}");
        }
    }

    #[test]
    fn gaps_are_filled_where_they_may_be() {
        let sent = json!({"parts": [{"text": "hi"}]});
        let read = |gaps| message(sent.as_object().unwrap(), gaps);
        assert_eq!(read(Gaps::Refused).unwrap_err().field.as_deref(), Some("message.messageId"));
        let filled = read(Gaps::Filled).unwrap().message;
        assert_eq!((filled.role, filled.parts), (Role::User, vec![Part::text("hi")]));
        assert!(filled.id.as_str().starts_with("m-"));
    }

    #[test]
    fn parts_that_hold_nothing_are_refused() {
        let nothing = "message.parts[0] holds nothing: send text, a file (bytes or uri) or data.";
        for (sent, expected) in [
            (json!({}), nothing),
            (json!({"kind": "video", "frames": 3}), "message.parts[0].kind must be text, file or data."),
            (json!({"type": "unheard-of", "text": "a"}), "message.parts[0].type must be text, file or data."),
            (json!({"kind": "text"}), "message.parts[0].text must be a string."),
            (json!({"kind": "data"}), "message.parts[0].data is required."),
            (
                json!({"text": "a", "data": {}}),
                "message.parts[0] must hold one of text, raw, url and data, not several.",
            ),
            (
                json!({"kind": "file", "file": {"bytes": "a", "uri": "b"}}),
                "message.parts[0].file must hold bytes or a uri, not both.",
            ),
        ] {
            assert_eq!(one_part(sent.clone()).unwrap_err(), expected, "{sent}");
        }
    }

    #[test]
    fn a_message_has_a_limited_number_of_parts() {
        let many = |count: usize, part: Value| {
            let parts = vec![part; count];
            read(json!({"messageId": "m", "role": "user", "parts": parts}))
        };
        let text = json!({"text": "x"});
        assert_eq!(many(MESSAGE_PARTS, text.clone()).expect("as many as allowed").message.parts.len(), MESSAGE_PARTS);
        let refused = many(MESSAGE_PARTS + 1, text).expect_err("one too many");
        assert_eq!(refused, "message.parts has 1001 parts; send at most 1000, joined or in several messages.");
        // They are counted before they are looked at.
        let refused = many(MESSAGE_PARTS + 1, json!(7)).expect_err("numbers are no parts");
        assert!(refused.contains("1001 parts"), "{refused}");
    }
}
