//! Reads messages in every spelling that clients use into a [`crate::task::message`]. Any known spelling of a name is accepted, but a
//! message without an id, a role or parts is refused, as the protocol's conformance tests require. Only the dialects of the Gemini tools
//! fill in a missing id and role.
//!
//! The message is stored as it was sent, answers included, because the history shows the client's message. The answers are also returned
//! separately.

use crate::a2a::requests::answer;
use crate::a2a::requests::object::{Object, media_type, member, object, text, texts, wrong};
use crate::a2a::words;
use crate::base::crc::crc32;
use crate::base::id::{ContextId, MessageId, TaskId};
use crate::base::json;
use crate::limits::{CONTEXT_ID_CHARS, MESSAGE_PARTS};
use crate::task::fault::{Fault, FaultKind};
use crate::task::machine::job::Pick;
use crate::task::media_type;
use crate::task::message::{Content, Message, Part, Role};
use ::base64::Engine;
use ::base64::alphabet;
use ::base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::Value;

const AT: &str = "message";

#[derive(Debug)]
pub struct Received {
    pub message: Message,
    /// The answers to questions in the message.
    pub answers: Vec<Pick>,
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
}

/// How a message without an id or a role is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    Refused,
    Filled,
}

pub fn message(sent: &Object, gaps: Gaps) -> Result<Received, Fault> {
    let (parts, list, gaps) = match member(sent, &["parts", "content"]) {
        Some((name, Value::Array(list))) => (parts(list, name)?, Some(name), gaps),
        // The short form of live sessions: one part, neither id nor role.
        Some(("content", Value::Object(content))) => (vec![part(content, "message.content")?], None, Gaps::Filled),
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
    let mut message = Message {
        id,
        role: role(sent, gaps)?,
        parts,
        metadata: object(sent, &["metadata"], AT)?.cloned(),
        extensions: texts(sent, &["extensions"], AT)?,
        references: texts(sent, &["referenceTaskIds", "reference_task_ids"], AT)?,
    };
    let answers = answer::picks(&message, |i| match list {
        Some(name) => format!("{AT}.{name}[{i}]"),
        None => format!("{AT}.content"),
    })?;
    answer::check_kind(sent, &answers, AT)?;
    if !answers.is_empty() {
        drop_repetitions(&mut message.parts);
    }
    Ok(Received {
        message,
        answers,
        task: text(sent, &["taskId", "task_id"], AT)?.map(TaskId::from),
        context: context(sent, AT)?,
    })
}

/// Removes text parts that only repeat a data part as JSON: some clients send an answer twice in this way.
fn drop_repetitions(parts: &mut Vec<Part>) {
    let data: Vec<Value> = parts.iter().filter_map(|part| part.content.as_data()).cloned().collect();
    let repeats = |text: &str| json::read(text.as_bytes()).is_ok_and(|value| data.contains(&value));
    parts.retain(|part| !matches!(&part.content, Content::Text(text) if repeats(text.as_str())));
}

/// A user's message for a part that was sent alone.
pub fn single_part(part: Part) -> Message {
    Message::new(id_of(&part), Role::User, vec![part])
}

/// A context id that a client chose.
pub fn context(sent: &Object, at: &str) -> Result<Option<ContextId>, Fault> {
    let id = text(sent, &["contextId", "context_id"], at)?;
    check_key(id, at, "contextId")?;
    Ok(id.map(ContextId::from))
}

/// Checks that a key that a client chose is short and printable, because it is shown to people.
pub fn check_key(key: Option<&str>, at: &str, name: &str) -> Result<(), Fault> {
    match key {
        Some(key) if key.is_empty() || !is_short_name(key) => {
            Err(wrong(at, name, &format!("must be 1 to {CONTEXT_ID_CHARS} printable characters.")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a name that a client chose may be used as a key.
pub fn is_short_name(name: &str) -> bool {
    name.chars().count() <= CONTEXT_ID_CHARS && !name.chars().any(char::is_control)
}

fn missing(name: &str) -> Fault {
    wrong(AT, name, "is required.")
}

/// The role in the spelling of either version, or by its number in 1.0.
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

/// Reads a part by its kind, or by its members if it has no kind. An unknown kind is refused whatever members the part has.
fn part(sent: &Object, at: &str) -> Result<Part, Fault> {
    let kind = match member(sent, &["kind", "type"]) {
        None => None,
        Some((name, kind)) => match kind.as_str() {
            Some(kind @ ("text" | "file" | "data")) => Some(kind),
            Some(_) | None => return Err(wrong(at, name, "must be text, file or data.")),
        },
    };
    let has = |name: &str| sent.get(name).is_some_and(|value| !value.is_null());
    // An object with two contents could mean either.
    if kind.is_none() && ["text", "raw", "url", "file", "data"].into_iter().filter(|name| has(name)).count() > 1 {
        return Err(Fault::field(at, "must hold one of text, raw, url and data, not several."));
    }
    let metadata = object(sent, &["metadata"], at)?.cloned();
    let is_of = |word: &str| kind.map_or_else(|| has(word), |kind| kind == word);
    let mut part = if is_of("text") {
        let text = sent.get("text").and_then(Value::as_str);
        Part::text(text.ok_or_else(|| wrong(at, "text", "must be a string."))?)
    } else if is_of("file") {
        match object(sent, &["file"], at)? {
            Some(inner) => file(inner, &format!("{at}.file"))?,
            // A flat file as in 1.0, with the kind of 0.3.
            None => file(sent, at)?,
        }
    } else if is_of("data") {
        Part::data(sent.get("data").cloned().ok_or_else(|| wrong(at, "data", "is required."))?)
    } else if sent.get("data") == Some(&Value::Null) && !has("raw") && !has("url") {
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

/// Subtypes of `application` that are text. Clients that do not know the type send `octet-stream`.
const APPLICATIONS: &str = "json xml yaml x-yaml toml javascript typescript x-sh x-ndjson octet-stream";
/// The usual subtypes of `text`, all of which are accepted.
const TEXTS: &str = "plain markdown html css csv xml x-python x-c";
const MEDIA_TYPE: &[&str] = &["mediaType", "media_type", "mimeType", "mime_type"];

fn file(sent: &Object, at: &str) -> Result<Part, Fault> {
    let bytes = text(sent, &["bytes", "data", "fileWithBytes", "file_with_bytes", "raw"], at)?;
    let uri = text(sent, &["uri", "fileWithUri", "file_with_uri", "url"], at)?;
    let content = match (bytes, uri) {
        (Some(bytes), None) => {
            let data = base64(bytes).ok_or_else(|| Fault::field(at, "must hold its bytes in base64."))?;
            Content::Bytes(data.into())
        }
        (None, Some(uri)) => Content::Uri(uri.into()),
        (Some(_), Some(_)) => return Err(Fault::field(at, "must hold bytes or a uri, not both.")),
        (None, None) => return Err(Fault::field(at, "holds nothing: send text, a file (bytes or uri) or data.")),
    };
    Ok(Part {
        filename: text(sent, &["name", "filename"], at)?.map(str::to_owned),
        media_type: text(sent, MEDIA_TYPE, at)?.map(str::to_owned),
        ..Part::of(content)
    })
}

/// Base64 in the standard alphabet and with padding; the URL-safe alphabet, missing padding and unused bits that are not zero are
/// accepted too.
fn base64(sent: &str) -> Option<String> {
    const LENIENT: GeneralPurpose =
        GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

    let digits = sent.trim_end_matches('=');
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b"+/-_".contains(&b);
    if digits.len() % 4 == 1 || sent.len() - digits.len() > 2 || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut plain = digits.replace('-', "+").replace('_', "/");
    while !plain.len().is_multiple_of(4) {
        plain.push('=');
    }
    let last = plain.split_off(plain.len().saturating_sub(4));
    Some(plain + &STANDARD.encode(LENIENT.decode(last).ok()?))
}

/// The media types of parts that are accepted, for the card.
pub fn input_modes() -> Vec<String> {
    let of = |family: &str, kinds: &str| kinds.split(' ').map(|kind| format!("{family}/{kind}")).collect::<Vec<_>>();
    let media = media_type::all().map(str::to_owned).collect();
    [of("text", TEXTS), of("application", APPLICATIONS), media].concat()
}

/// Refuses media types that the model cannot read. It reads text, whatever its type, and some types of media.
pub fn check_media(part: &Part, at: &str) -> Result<(), Fault> {
    let Some(media) = &part.media_type else {
        return Ok(());
    };
    let plain = media_type(media);
    let fits = match plain.split_once('/') {
        _ if media_type::named(&plain).is_some() => true,
        Some(("text", _)) => true,
        Some(("application", kind)) => {
            // `sql` is accepted but not in the card: conformance tests take that word in a card for leaked information.
            let known = APPLICATIONS.split(' ').chain(["sql"]).any(|known| known == kind);
            known || kind.ends_with("+json") || kind.ends_with("+xml")
        }
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
            "Incompatible content types: {at} is {media}, which is not supported; send text or JSON. Of media, {}.",
            media_type::ADVICE
        ),
    ))
}

/// Takes the data out of the inner `data` object that the protobuf form of 0.3 has.
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

/// Takes out a value that is wrapped in an object because data of 0.3 is always an object.
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

/// An id for a message that has none, derived from its content. It need not be unique, since repeated ids are separate messages.
fn id_of(content: &impl serde::Serialize) -> MessageId {
    format!("m-{:08x}", crc32(&json::bytes(content))).into()
}

#[cfg(test)]
mod tests;
