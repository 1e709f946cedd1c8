//! Messages and artifacts, independent of the dialect.

use crate::base::id::{MessageId, Subject};
use crate::base::json;
use crate::limits::{INLINE_BYTES, INLINE_PROMPT_BYTES, Limits};
use crate::task::log::blob::{BlobRef, Blobs};
use crate::task::log::long_text::LongText;
use crate::task::log::media::MediaContent;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Agent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub id: MessageId,
    pub role: Role,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
}

impl Message {
    /// A message without metadata.
    pub fn new(id: impl Into<MessageId>, role: Role, parts: Vec<Part>) -> Message {
        Message { id: id.into(), role, parts, metadata: None, extensions: Vec::new(), references: Vec::new() }
    }

    /// All text parts, joined by line breaks. A single one may be long and is not copied.
    pub fn text(&self) -> Cow<'_, str> {
        let texts = self.parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) => Some(text.as_str()),
            Content::Bytes(_) | Content::Uri(_) | Content::Data(_) => None,
        });
        match texts.collect::<Vec<&str>>().as_slice() {
            [text] => Cow::Borrowed(*text),
            texts => Cow::Owned(texts.join("\n")),
        }
    }

    /// Whether it contains something for the model: text or a file.
    pub fn has_prompt(&self) -> bool {
        self.parts.iter().any(|part| match &part.content {
            Content::Text(text) => !text.is_empty(),
            Content::Bytes(_) | Content::Uri(_) => true,
            Content::Data(_) => false,
        })
    }
}

impl Message {
    /// References to its texts and files that are stored beside the log.
    pub fn stored(&self) -> impl Iterator<Item = &BlobRef> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) => text.blob(),
            Content::Bytes(file) => file.blob(),
            Content::Uri(_) | Content::Data(_) => None,
        })
    }

    /// Whether some of its stored content is not in memory.
    pub fn is_missing(&self) -> bool {
        self.parts.iter().any(|part| match &part.content {
            Content::Text(text) => text.missing().is_some(),
            Content::Bytes(file) => file.data().is_none(),
            Content::Uri(_) | Content::Data(_) => false,
        })
    }

    /// The length, in JSON, of its texts and files that are not stored beside the log yet.
    pub fn inline_bytes(&self) -> usize {
        let length = |part: &Part| match &part.content {
            Content::Text(text) if text.blob().is_none() => json::len(text),
            Content::Bytes(file) if file.blob().is_none() => file.data().map_or(0, str::len),
            Content::Text(_) | Content::Bytes(_) | Content::Uri(_) | Content::Data(_) => 0,
        };
        self.parts.iter().map(length).sum()
    }

    /// Stores long texts and files beside the log, so that the event does not contain them. False: some of them could not be stored.
    #[must_use]
    pub fn store(&mut self, blobs: &dyn Blobs, limits: &Limits) -> bool {
        // The limit on the length of a request is enough.
        let mut room = u64::MAX;
        let mut inline = INLINE_PROMPT_BYTES;
        self.parts.iter_mut().all(|part| {
            let inline_bytes = match &mut part.content {
                Content::Text(text) => {
                    text.store_above(inline, blobs, limits, &mut room);
                    if text.blob().is_some() { 0 } else { text.as_str().len() }
                }
                Content::Bytes(file) => {
                    file.store_above(inline.min(INLINE_BYTES), blobs, limits, &mut room);
                    if file.blob().is_some() { 0 } else { file.data().map_or(0, str::len) }
                }
                Content::Uri(_) | Content::Data(_) => 0,
            };
            let remaining = inline.checked_sub(inline_bytes);
            inline = remaining.unwrap_or_default();
            remaining.is_some()
        })
    }

    /// Loads stored texts and files. `room` is the number of bytes of files that may be loaded; files beyond that are left out.
    pub fn load(&mut self, blobs: &dyn Blobs, room: &mut u64) -> io::Result<()> {
        self.parts.iter_mut().try_for_each(|part| match &mut part.content {
            Content::Text(text) => text.load(blobs),
            Content::Bytes(file) => file.load_within(blobs, room),
            Content::Uri(_) | Content::Data(_) => Ok(()),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl Part {
    pub fn text(text: impl Into<String>) -> Part {
        Part::of(Content::Text(LongText::Inline(text.into())))
    }

    pub fn data(value: Value) -> Part {
        Part::of(Content::Data(value))
    }

    pub fn of(content: Content) -> Part {
        Part { content, filename: None, media_type: None, metadata: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Text(LongText),
    /// The content of a file.
    Bytes(#[serde(with = "crate::task::log::media::as_file")] MediaContent),
    Uri(String),
    Data(Value),
}

impl Content {
    pub fn as_data(&self) -> Option<&Value> {
        match self {
            Content::Data(data) => Some(data),
            Content::Text(_) | Content::Bytes(_) | Content::Uri(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub parts: Vec<Part>,
}

impl Artifact {
    /// Adds the next piece. Text is appended to a last part that is text; other parts are added after the existing ones.
    pub fn append(&mut self, piece: &Artifact) {
        for part in &piece.parts {
            match (self.parts.last_mut().map(|last| &mut last.content), &part.content) {
                (Some(Content::Text(LongText::Inline(text))), Content::Text(more)) => text.push_str(more.as_str()),
                _ => self.parts.push(part.clone()),
            }
        }
    }
}

/// The client that caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the client: that of its credential, else its own.
    pub client: String,
    /// Its dialect, e.g. `a2a-0.3`.
    pub via: String,
    /// The id of its credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Arc<str>>,
    /// The subject of the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
}

impl Source {
    pub fn new(client: impl Into<String>, via: impl Into<String>) -> Source {
        Source { client: client.into(), via: via.into(), credential: None, subject: None }
    }

    /// Whether both are the same client, by name and dialect.
    pub fn is_same_client(&self, other: &Source) -> bool {
        self.client == other.client && self.via == other.via
    }

    /// The source of answers that result from a time limit.
    pub fn clock() -> Source {
        Source::new("nobody", "timeout")
    }

    pub fn is_clock(&self) -> bool {
        *self == Source::clock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::blob::failing_blobs::FailingBlobs;

    fn text(bytes: usize) -> Part {
        Part::text("x".repeat(bytes))
    }

    /// Base64 of so many bytes. Texts and files of one message are different, or they would be stored once.
    fn file(bytes: usize) -> Part {
        let data = "B".repeat(bytes);
        Part { content: Content::Bytes(data.as_str().into()), ..text(0) }
    }

    /// Which parts are stored.
    fn stored(parts: Vec<Part>) -> Vec<bool> {
        let mut message = Message::new("m", Role::User, parts);
        assert!(message.store(&FailingBlobs::default(), &Limits::default()));
        let is_stored = |part: &Part| match &part.content {
            Content::Text(text) => text.blob().is_some(),
            Content::Bytes(file) => file.blob().is_some(),
            Content::Uri(_) | Content::Data(_) => false,
        };
        message.parts.iter().map(is_stored).collect()
    }

    #[test]
    fn texts_and_files_that_do_not_fit_into_an_event_together_are_stored() {
        let most = INLINE_PROMPT_BYTES;
        assert_eq!(stored(vec![text(most)]), [false]);
        assert_eq!(stored(vec![text(most + 1)]), [true]);
        assert_eq!(stored(vec![text(most / 2), text(most / 2)]), [false, false]);
        assert_eq!(stored(vec![text(most / 2), text(most / 2), text(1), text(0)]), [false, false, true, false]);
        assert_eq!(stored(vec![text(most + 1), text(1)]), [true, false], "what is stored takes no room");
        assert_eq!(stored(vec![file(INLINE_BYTES), file(INLINE_BYTES + 4)]), [false, true]);
        assert_eq!(stored(vec![text(most - 4), file(4), file(8)]), [false, false, true]);
    }

    #[test]
    fn content_that_cannot_be_stored_is_reported() {
        for long in [text(INLINE_PROMPT_BYTES + 1), file(INLINE_PROMPT_BYTES + 4)] {
            let blobs = FailingBlobs::default();
            blobs.fail_puts(1);
            let mut message = Message::new("m", Role::User, vec![text(1), long]);
            assert!(!message.clone().store(&blobs, &Limits::default()));
            assert!(message.store(&blobs, &Limits::default()), "later it can");
        }
    }

    #[test]
    fn inline_bytes_are_those_of_texts_and_files_in_json() {
        let mut message =
            Message::new("m", Role::User, vec![text(10), Part::text("\n"), file(8), Part::data(Value::Null)]);
        assert_eq!(message.inline_bytes(), 12 + 4 + 8);
        message.parts.push(text(INLINE_PROMPT_BYTES));
        assert!(message.store(&FailingBlobs::default(), &Limits::default()));
        assert_eq!(message.inline_bytes(), 12 + 4 + 8);
    }
}
