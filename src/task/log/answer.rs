//! A model's answer in our own types: its text, its tool calls, why it ended and its token counts. The JSON of an API is stored only where
//! the API requires it back unchanged.

use crate::base::crc::crc32;
use crate::base::id::{CallId, Seq};
use crate::limits::Limits;
use crate::task::log::blob::{BlobRef, Blobs};
use crate::task::log::event::Outcome;
use crate::task::log::media::Media;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A whole answer, as the next request must repeat it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub parts: Vec<Part>,
    /// The API that sent the answer. Signatures and opaque values of the parts are sent back only to this API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    #[serde(default)]
    pub finish: Finish,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The API's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The model that answered, if the API names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The position in the log where the visible text of this answer began. It is the number in the message id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_at: Option<Seq>,
    /// How the turn ends after this answer. Only scripts set it, models do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Outcome>,
}

impl Answer {
    /// An answer with this text and these calls that ended normally.
    pub fn new(text: &str, calls: impl IntoIterator<Item = Request>) -> Answer {
        let mut answer = Answer::default();
        answer.say(text);
        answer.parts.extend(calls.into_iter().map(|call| Part::new(Content::Call(call))));
        answer
    }

    /// Adds text, to the last part if that is a text without a signature.
    pub fn say(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part { content: Content::Text(before), signature: None, raw: None }) => before.push_str(text),
            Some(_) | None => self.parts.push(Part::new(Content::Text(text.to_owned()))),
        }
    }

    /// The visible text, joined.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::text).collect()
    }

    /// The tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Request> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::Call(request) => Some(request),
            Content::Text(_) | Content::Thought(_) | Content::Media(_) | Content::Opaque(_) => None,
        })
    }

    pub fn calls_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.parts.iter_mut().filter_map(|part| match &mut part.content {
            Content::Call(request) => Some(request),
            Content::Text(_) | Content::Thought(_) | Content::Media(_) | Content::Opaque(_) => None,
        })
    }

    pub fn has_text(&self) -> bool {
        self.parts.iter().filter_map(Part::text).any(|text| !text.is_empty())
    }

    pub fn has_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    /// Stores long media; `room` is how many bytes may still be stored for the task. What cannot be stored stays inline.
    pub fn store_media(&mut self, blobs: &dyn Blobs, limits: &Limits, room: &mut u64) {
        for media in self.media_mut() {
            media.content.store(blobs, limits, room);
            // The content is not needed before the next request.
            media.content.unload();
        }
    }

    pub fn media_mut(&mut self) -> impl Iterator<Item = &mut Media> {
        self.parts.iter_mut().filter_map(|part| match &mut part.content {
            Content::Media(media) => Some(media),
            Content::Text(_) | Content::Thought(_) | Content::Call(_) | Content::Opaque(_) => None,
        })
    }

    /// References to the media that are stored beside the log.
    pub fn stored_media(&self) -> impl Iterator<Item = &BlobRef> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::Media(media) => media.content.blob(),
            Content::Text(_) | Content::Thought(_) | Content::Call(_) | Content::Opaque(_) => None,
        })
    }

    /// A checksum of the calls. It is equal for answers with equal calls, whatever their text is.
    pub fn calls_checksum(&self) -> u32 {
        let calls: String = self.calls().map(|request| format!("{} {}\n", request.name, request.args)).collect();
        crc32(calls.as_bytes())
    }
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    #[serde(flatten)]
    pub content: Content,
    /// A signature that the API requires back with this part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The part as the API sent it, without the data of media, if `content` and `signature` do not contain all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

impl Part {
    pub fn new(content: Content) -> Part {
        Part { content, signature: None, raw: None }
    }

    /// The visible text of the part.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Thought(_) | Content::Call(_) | Content::Media(_) | Content::Opaque(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Text(String),
    /// Never shown as text, and sent back only to an API that requires its thoughts back.
    Thought(String),
    Call(Request),
    Media(Media),
    /// A part of a kind that this program does not know, in the API's JSON.
    Opaque(Value),
}

/// A tool call as the model requested it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `call` in journals of version 1.
    #[serde(rename = "id", alias = "call")]
    pub call: CallId,
    pub name: String,
    pub args: Value,
    /// The API's own id of the call, which is sent back with its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_id: Option<String>,
}

/// Why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model has finished, or waits for the results of its calls.
    #[default]
    Stop,
    /// The answer reached the limit of output tokens.
    OutputLimit,
    /// The API judged the answer unsafe.
    Safety,
    /// The answer repeats something published.
    Recitation,
    /// The model repeated itself, so the program stopped it.
    Repetition,
    /// Somebody stopped the model.
    Stopped,
    /// A slash command answered, not a model.
    Command,
    /// The API gave no reason.
    Unspecified,
    /// Any other reason, in the word of the API.
    Other(String),
}

/// Token counts of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub prompt: u64,
    pub output: u64,
    pub total: u64,
    /// How many tokens of the prompt were in the cache of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<u64>,
    /// How many tokens the results of the API's own tools added to the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<u64>,
}

impl Usage {
    pub fn add(&mut self, other: &Usage) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.output = self.output.saturating_add(other.output);
        self.total = self.total.saturating_add(other.total);
        self.cached = sum(self.cached, other.cached);
        self.thoughts = sum(self.thoughts, other.thoughts);
        self.tools = sum(self.tools, other.tools);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::blob::failing_blobs::FailingBlobs;
    use crate::task::log::gemini::{read_part, write_part};
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn a_sum_of_token_counts_does_not_overflow() {
        let counts = Usage { prompt: u64::MAX, cached: Some(u64::MAX), tools: Some(1), ..Usage::default() };
        let mut total = Usage { output: 1, thoughts: Some(2), ..counts };
        total.add(&counts);
        assert_eq!(total, Usage { output: 1, thoughts: Some(2), tools: Some(2), ..counts });
    }

    #[test]
    fn the_log_has_the_hash_of_long_media_and_the_next_request_has_its_data() {
        let sent = |bytes: usize| {
            json!({"inlineData": {"mimeType": "image/png", "data": STANDARD.encode(vec![7; bytes])},
                   "thoughtSignature": "s"})
        };
        let (short, mut long) = (sent(3), sent(60_000));
        long["inlineData"]["displayName"] = "a.png".into();
        let parts = [&short, &long].map(|part| read_part(part.as_object().cloned().unwrap(), None));
        let mut answer = Answer { parts: parts.to_vec(), ..Answer::default() };
        let (blobs, mut room) = (FailingBlobs::default(), 100_000);
        answer.store_media(&blobs, &Limits::default(), &mut room);
        assert_eq!(room, 40_000);
        let blob = answer.stored_media().next().cloned().unwrap();
        let log = to_value(&answer.parts).unwrap();
        let by_hash = json!({"mime": "image/png", "sha256": blob.sha256, "bytes": 60_000});
        assert_eq!(log[0], json!({"media": {"mime": "image/png", "data": "BwcH"}, "signature": "s"}));
        let raw = json!({"inlineData": {"mimeType": "image/png", "displayName": "a.png"}, "thoughtSignature": "s"});
        assert_eq!(log[1], json!({"media": by_hash, "signature": "s", "raw": raw}), "the data is not there twice");
        let mut again = Answer { parts: from_value(log).unwrap(), ..Answer::default() };
        assert_eq!(again.parts, answer.parts);
        assert_eq!(
            write_part(&again.parts[1])["text"],
            "[Media of 60000 bytes (image/png) that is not part of this request any more.]"
        );
        again.media_mut().for_each(|media| media.content.load(&blobs).unwrap());
        assert_eq!([write_part(&again.parts[0]), write_part(&again.parts[1])], [short, long]);
    }
}
