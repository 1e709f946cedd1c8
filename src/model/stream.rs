//! Reads the answer of the Gemini API chunk by chunk. Each chunk is one JSON object. Its text and thoughts are passed on at once;
//! what the next request must repeat is collected until the end.
//!
//! The parts of a chunk stay raw until their kind is known; only a part that must be sent back unchanged (a call, a signature)
//! becomes a tree. [`Decoder::finish`] decides at the end whether the stream was an answer, because a stream may end without an error and
//! contain no text.

#[cfg(test)]
mod tests;

use crate::base::id::CallId;
use crate::base::json;
use crate::model::error::{self, Refusal};
use crate::task::log::answer::{Answer, Finish, Request};
use crate::task::log::gemini::{self, UsageMetadata};
use crate::task::machine::job::{ModelError, ModelErrorKind, NoteBody};
use regex_lite::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The end of the request. After results of calls the model may have nothing to add; after a prompt an empty answer is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Prompt,
    Results,
}

#[derive(Debug, Default)]
pub struct Decoder {
    /// The model that was asked for.
    model: String,
    most_bytes: usize,
    longest_wait_ms: u64,
    bytes: usize,
    /// The answer so far, without its finish reason and token counts.
    answer: Answer,
    /// Whether a chunk has been read.
    has_begun: bool,
    has_thoughts: bool,
    finish: Option<Finish>,
    citations: BTreeSet<String>,
    /// The token counts of the last chunk that had any.
    usage: Option<Box<RawValue>>,
}

impl Decoder {
    /// `most_bytes` is the longest answer that is kept; `longest_wait_ms` the longest wait a server may ask for.
    pub fn new(model: &str, most_bytes: usize, longest_wait_ms: u64) -> Decoder {
        Decoder {
            model: model.to_owned(),
            most_bytes,
            longest_wait_ms,
            answer: Answer { api: Some(gemini::API.into()), ..Answer::default() },
            ..Decoder::default()
        }
    }

    /// Whether a part of the answer has arrived. A failure makes that part void.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Reads one chunk and appends its notes: thoughts first, then text.
    pub fn chunk(&mut self, json: &[u8], out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        let mut chunk: Chunk = serde_json::from_slice(json).map_err(|_| {
            bad_stream("The model API sent something that is not a chunk of an answer (incomplete JSON)")
        })?;
        if let Some(error) = chunk.error.take() {
            return Err(self.refused(error, json));
        }
        self.bytes += json.len();
        if self.bytes > self.most_bytes {
            return Err(error::fatal(format!(
                "The model's answer is longer than {} bytes and was cut off. Ask for less at once.",
                self.most_bytes
            )));
        }
        self.has_begun = true;
        self.read_metadata(&mut chunk, out)?;
        let Some(candidate) = chunk.candidates.unwrap_or_default().into_iter().next() else {
            return Ok(());
        };
        let mut text = String::new();
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.part(&part, &mut text, out)?;
        }
        if !text.is_empty() {
            out.push(NoteBody::Text(text));
        }
        let citations = candidate.citation_metadata.and_then(|metadata| metadata.citations).unwrap_or_default();
        self.citations.extend(citations.into_iter().filter_map(Citation::line));
        if let Some(reason) = &candidate.finish_reason {
            self.finish = Some(gemini::finish(reason));
        }
        Ok(())
    }

    /// Checks that the stream was an answer, and appends the notes after its text: that it was cut off, and its citations.
    pub fn finish(self, asked: Asked, out: &mut Vec<NoteBody>) -> Result<Answer, ModelError> {
        if !self.answer.has_calls() {
            let visible = is_visible(&self.answer.text());
            self.check_answer(asked, visible)?;
            if let Some(note) = self.finish.as_ref().and_then(cut_off).filter(|_| visible) {
                out.push(NoteBody::Text(note));
            }
        }
        if !self.citations.is_empty() {
            let lines: Vec<String> = self.citations.into_iter().collect();
            out.push(NoteBody::Cited(format!("Citations:\n{}", lines.join("\n"))));
        }
        Ok(Answer {
            finish: self.finish.unwrap_or(Finish::Unspecified),
            // Token counts are only shown, so an answer is valid without them.
            usage: self.usage.and_then(|json| serde_json::from_str(json.get()).ok()).map(|UsageMetadata(usage)| usage),
            ..self.answer
        })
    }

    /// Reads the members of a chunk besides its candidates.
    fn read_metadata(&mut self, chunk: &mut Chunk, out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        if let Some(id) = chunk.response_id.take()
            && self.answer.trace.as_ref() != Some(&id)
        {
            out.push(NoteBody::Traced(id.clone()));
            self.answer.trace = Some(id);
        }
        self.answer.model = chunk.model_version.take().or(self.answer.model.take());
        self.usage = chunk.usage_metadata.take().or(self.usage.take());
        let feedback = chunk.prompt_feedback.take().unwrap_or_default();
        let Some(reason) = feedback.block_reason else {
            return Ok(());
        };
        let why = feedback.block_reason_message.map(|text| format!(": {text}")).unwrap_or_default();
        Err(error::fatal(format!(
            "The API blocked the request ({reason}){why}. Rephrase it, or start a new task without what was blocked."
        )))
    }

    /// Reads a part: adds its text to `text_so_far`, and the part to the answer.
    fn part(&mut self, raw: &RawValue, text_so_far: &mut String, out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        let malformed = || bad_stream("The model API sent a part of an answer that cannot be read");
        let part: Part = json::read(raw.get().as_bytes()).map_err(|_| malformed())?;
        let text = part.text.as_deref().unwrap_or_default();
        if part.thought == Some(true) {
            self.has_thoughts = true;
            if !text.is_empty() {
                out.push(parse_thought(text));
            }
            return Ok(());
        }
        text_so_far.push_str(text);
        let plain = part.text.is_some() && part.thought_signature.is_none();
        if plain && part.function_call.is_none() {
            self.answer.say(text);
            return Ok(());
        }
        let mut whole: Map<String, Value> = serde_json::from_str(raw.get()).map_err(|_| malformed())?;
        let call = match whole.get_mut("functionCall") {
            Some(call) => Some(request(call.as_object_mut().ok_or_else(malformed)?)),
            None => None,
        };
        if !whole.is_empty() {
            self.answer.parts.push(gemini::read_part(whole, call));
        }
        Ok(())
    }

    /// An error object in place of a chunk.
    fn refused(&self, error: ErrorObject, json: &[u8]) -> ModelError {
        let status = match error.code {
            Some(code @ 400..600) => code,
            Some(_) | None => return bad_stream("The model API sent an error without a code"),
        };
        let refusal = Refusal { model: &self.model, status, retry_after: None, body: json };
        let error = error::classify(&refusal, self.longest_wait_ms);
        if self.has_begun { error::after_partial_answer(error) } else { error }
    }

    /// Whether a stream without a call is an answer. `visible`: it has text that people can see.
    fn check_answer(&self, asked: Asked, visible: bool) -> Result<(), ModelError> {
        let (word, what) = match &self.finish {
            None if asked == Asked::Prompt => ("NO_FINISH_REASON", "The model's answer broke off"),
            Some(Finish::Other(word))
                if matches!(word.as_str(), "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") =>
            {
                (word.as_str(), "The model made a call that cannot be read")
            }
            _ if visible => return Ok(()),
            Some(Finish::OutputLimit) => {
                ("MAX_TOKENS_EXCEEDED", "The model reached the output limit before it said anything")
            }
            Some(Finish::Safety) => ("SAFETY_BLOCKED", "The API blocked the answer as unsafe"),
            Some(Finish::Recitation) => {
                ("RECITATION_BLOCKED", "The API blocked the answer as a copy of something published")
            }
            Some(Finish::Other(word)) if word == "OTHER" => ("OTHER_BLOCKED", "The API blocked the answer"),
            Some(Finish::Other(word)) => (word.as_str(), "The API blocked the answer"),
            _ if self.has_thoughts => ("THINKING_ONLY_RESPONSE", "The model thought but said nothing"),
            _ if asked == Asked::Prompt => ("NO_RESPONSE_TEXT", "The model said nothing"),
            _ => return Ok(()),
        };
        Err(bad_stream(&format!("{what} ({word})")))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Box<RawValue>>,
    response_id: Option<String>,
    model_version: Option<String>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    citation_metadata: Option<Citations>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Citations {
    citations: Option<Vec<Citation>>,
}

#[derive(Deserialize)]
struct Citation {
    uri: Option<String>,
    title: Option<String>,
}

impl Citation {
    fn line(self) -> Option<String> {
        let uri = self.uri?;
        Some(match self.title.filter(|title| !title.is_empty()) {
            Some(title) => format!("({title}) {uri}"),
            None => uri,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: Option<u16>,
}

fn bad_stream(what: &str) -> ModelError {
    ModelError { kind: ModelErrorKind::BadStream, message: format!("{what}. Send the message again, or rephrase it.") }
}

/// The call that the model asks for. The API refuses history that contains a call without a name, so a call without one gets a
/// name in the part too.
fn request(call: &mut Map<String, Value>) -> Request {
    const NAMELESS: &str = "generic_tool";
    let named = call.get("name").and_then(Value::as_str);
    if named.is_none_or(|name| name.trim().is_empty()) {
        call.insert("name".into(), NAMELESS.into());
    }
    let text = |member: &str| call.get(member).and_then(Value::as_str).map(str::to_owned);
    Request {
        call: CallId::from(""),
        name: text("name").unwrap_or_else(|| NAMELESS.to_owned()),
        args: match call.get("args") {
            Some(Value::Null) | None => json!({}),
            Some(args) => args.clone(),
        },
        api_id: text("id").filter(|id| !id.is_empty()),
    }
}

/// `**Subject** description`: the first pair of double asterisks is the subject, the rest the description.
pub(crate) fn parse_thought(text: &str) -> NoteBody {
    let pair = text.split_once("**").and_then(|(before, rest)| {
        let (subject, after) = rest.split_once("**")?;
        Some((subject, format!("{before}{after}")))
    });
    let (subject, description) = pair.unwrap_or(("", text.to_owned()));
    NoteBody::Thought { subject: subject.trim().to_owned(), description: description.trim().to_owned() }
}

/// The note after an answer with text that was cut off.
fn cut_off(finish: &Finish) -> Option<String> {
    let why = match finish {
        Finish::Stop | Finish::Unspecified | Finish::Repetition | Finish::Stopped | Finish::Command => return None,
        Finish::OutputLimit => "it reached the output limit".to_owned(),
        Finish::Safety => "the API judged it unsafe".to_owned(),
        Finish::Recitation => "it repeats something published".to_owned(),
        Finish::Other(word) => format!("the API gave {word} as the reason"),
    };
    Some(format!("\n[The answer was cut off: {why}.]"))
}

/// Whether the text has more than white space, zero-width characters and HTML comments.
fn is_visible(text: &str) -> bool {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new("(?s)<!--.*?-->").expect("the expression is valid"));
    let hidden = |c: char| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}');
    !COMMENT.replace_all(text, "").chars().all(hidden)
}
