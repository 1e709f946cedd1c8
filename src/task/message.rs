//! Messages and artifacts without a dialect.

use crate::base::id::MessageId;
use crate::task::log::media::MediaContent;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

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
    pub fn speaks(&self) -> bool {
        self.parts.iter().any(|part| match &part.content {
            Content::Text(text) => !text.is_empty(),
            Content::Bytes(_) | Content::Uri(_) => true,
            Content::Data(_) => false,
        })
    }
}

impl Message {
    /// The files in it that were sent whole.
    pub fn files(&self) -> impl Iterator<Item = &MediaContent> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::Bytes(file) => Some(file),
            Content::Text(_) | Content::Uri(_) | Content::Data(_) => None,
        })
    }

    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut MediaContent> {
        self.parts.iter_mut().filter_map(|part| match &mut part.content {
            Content::Bytes(file) => Some(file),
            Content::Text(_) | Content::Uri(_) | Content::Data(_) => None,
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
        Part::of(Content::Text(text.into()))
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
    Text(String),
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
    /// Adds the next piece: text to text, other parts behind the ones before.
    pub fn append(&mut self, piece: &Artifact) {
        for part in &piece.parts {
            match (self.parts.last_mut().map(|last| &mut last.content), &part.content) {
                (Some(Content::Text(text)), Content::Text(more)) => text.push_str(more),
                _ => self.parts.push(part.clone()),
            }
        }
    }
}

/// Which client did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the client: that of its credential, else its own.
    pub client: String,
    /// Its dialect, e.g. `a2a-0.3`.
    pub via: String,
}

impl Source {
    /// The source of answers that a timeout gives.
    pub fn clock() -> Source {
        Source { client: "nobody".into(), via: "timeout".into() }
    }

    pub fn is_clock(&self) -> bool {
        *self == Source::clock()
    }
}
