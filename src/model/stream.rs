//! The model's answer, read chunk by chunk. Each chunk is one JSON object; what can be shown of it is shown at once, and what
//! the next request must repeat is gathered for the end.
//!
//! Most chunks are a few words of text, so a chunk is read into borrowed structs and its parts stay raw until their kind is
//! known; only a part that must be given back untouched (a call, a signature) becomes a tree. Whether the whole was an answer
//! is judged once, in [`Decoder::finish`]: a stream may end cleanly and still say nothing.

#[cfg(test)]
mod tests;

use crate::base::id::CallId;
use crate::base::json;
use crate::model::error::{self, Refusal};
use crate::task::log::answer::{Answer, Finish, Request};
use crate::task::log::gemini::{self, UsageMetadata};
use crate::task::machine::job::{ModelError, ModelErrorKind, NoteBody};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What the model was asked with. After results it may have nothing to add; after a prompt, silence is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Prompt,
    Results,
}

#[derive(Debug)]
pub struct Decoder {
    /// The model that was asked for.
    model: String,
    most_bytes: usize,
    longest_wait_ms: u64,
    bytes: usize,
    /// The answer so far, without its finish reason and token counts.
    answer: Answer,
    /// Whether some chunk has been read.
    begun: bool,
    thought: bool,
    finish: Option<Finish>,
    citations: BTreeSet<String>,
    /// The last token counts as JSON: every chunk has them, only the last ones matter.
    usage: String,
}

impl Decoder {
    /// `most_bytes` is the longest answer that is kept; `longest_wait_ms` the longest wait a server may ask for.
    pub fn new(model: &str, most_bytes: usize, longest_wait_ms: u64) -> Decoder {
        Decoder {
            model: model.to_owned(),
            most_bytes,
            longest_wait_ms,
            bytes: 0,
            answer: Answer { api: Some(gemini::API.into()), ..Answer::default() },
            begun: false,
            thought: false,
            finish: None,
            citations: BTreeSet::new(),
            usage: String::new(),
        }
    }

    /// Whether anything has come that a failure would make void.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Reads one chunk and appends what there is to show: thoughts first, then text.
    pub fn chunk(&mut self, json: &[u8], out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        let chunk: Chunk = serde_json::from_slice(json)
            .map_err(|_| bad("The model API sent something that is not a chunk of an answer (incomplete JSON)"))?;
        if let Some(error) = chunk.error {
            return Err(self.refused(error, json));
        }
        self.bytes += json.len();
        if self.bytes > self.most_bytes {
            return Err(error::fatal(format!(
                "The model's answer is longer than {} bytes and was cut off. Ask for less at once.",
                self.most_bytes
            )));
        }
        self.begun = true;
        self.note_facts(&chunk, out)?;
        let candidates = chunk.candidates.unwrap_or_default();
        let Some(candidate) = candidates.first() else {
            return Ok(());
        };
        let mut said = String::new();
        for part in candidate.parts() {
            self.part(part, &mut said, out)?;
        }
        if !said.is_empty() {
            out.push(NoteBody::Text(said));
        }
        for citation in candidate.citations() {
            self.citations.insert(citation);
        }
        if let Some(Str(reason)) = &candidate.finish_reason {
            self.finish = Some(gemini::finish(reason));
        }
        Ok(())
    }

    /// Judges the whole and appends what is shown after the last words: that they were cut off, and their sources.
    pub fn finish(self, asked: Asked, out: &mut Vec<NoteBody>) -> Result<Answer, ModelError> {
        if !self.answer.has_calls() {
            let visible = is_visible(&self.answer.text());
            self.judge(asked, visible)?;
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
            // Token counts are only shown: an answer is not lost because they cannot be read.
            usage: serde_json::from_str(&self.usage).ok().map(|UsageMetadata(usage)| usage),
            ..self.answer
        })
    }

    /// What a chunk says beside its parts.
    fn note_facts(&mut self, chunk: &Chunk, out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        if let Some(Str(id)) = &chunk.response_id
            && self.answer.trace.as_deref() != Some(id)
        {
            self.answer.trace = Some(id.as_ref().to_owned());
            out.push(NoteBody::Traced(id.as_ref().to_owned()));
        }
        if let Some(Str(version)) = &chunk.model_version
            && self.answer.model.as_deref() != Some(version)
        {
            self.answer.model = Some(version.as_ref().to_owned());
        }
        if let Some(usage) = chunk.usage_metadata {
            self.usage.clear();
            self.usage.push_str(usage.get());
        }
        let feedback = chunk.prompt_feedback.as_ref();
        let Some(Str(reason)) = feedback.and_then(|feedback| feedback.block_reason.as_ref()) else {
            return Ok(());
        };
        let why = feedback.and_then(|feedback| feedback.block_reason_message.as_ref());
        let why = why.map(|Str(text)| format!(": {text}")).unwrap_or_default();
        Err(error::fatal(format!(
            "The API blocked the request ({reason}){why}. Rephrase it, or start a new task without what was blocked."
        )))
    }

    fn part(&mut self, raw: &RawValue, said: &mut String, out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        let malformed = || bad("The model API sent a part of an answer that cannot be read");
        let part: Part = json::read(raw.get().as_bytes()).map_err(|_| malformed())?;
        let text = part.text.as_ref().map_or("", |Str(text)| text);
        if part.thought == Some(true) {
            self.thought = true;
            if !text.is_empty() {
                out.push(thought(text));
            }
            return Ok(());
        }
        said.push_str(text);
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
            Some(_) | None => return bad("The model API sent an error without a code"),
        };
        let refusal = Refusal { model: &self.model, status, retry_after: None, body: json };
        let error = error::classify(&refusal, self.longest_wait_ms);
        if self.begun { error::midway(error) } else { error }
    }

    /// Whether a stream without a call is an answer.
    fn judge(&self, asked: Asked, visible: bool) -> Result<(), ModelError> {
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
            _ if self.thought => ("THINKING_ONLY_RESPONSE", "The model thought but said nothing"),
            _ if asked == Asked::Prompt => ("NO_RESPONSE_TEXT", "The model said nothing"),
            _ => return Ok(()),
        };
        Err(bad(&format!("{what} ({word})")))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    response_id: Option<Str<'a>>,
    #[serde(borrow)]
    model_version: Option<Str<'a>>,
    error: Option<ErrorObject>,
}

/// Borrowed when it holds no escapes. (serde borrows a `Cow` only where it stands alone, hence a type of its own.)
#[derive(Deserialize)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Str<'a>>,
    #[serde(borrow)]
    citation_metadata: Option<Citations<'a>>,
}

impl<'a> Candidate<'a> {
    fn parts(&self) -> &[&'a RawValue] {
        let parts = self.content.as_ref().and_then(|content| content.parts.as_deref());
        parts.unwrap_or_default()
    }

    fn citations(&self) -> impl Iterator<Item = String> {
        let all = self.citation_metadata.as_ref();
        let all = all.and_then(|all| all.citations.as_deref());
        all.unwrap_or_default().iter().filter_map(|citation| {
            let Str(uri) = citation.uri.as_ref()?;
            Some(match &citation.title {
                Some(Str(title)) if !title.is_empty() => format!("({title}) {uri}"),
                Some(_) | None => uri.as_ref().to_owned(),
            })
        })
    }
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    thought: Option<bool>,
    #[serde(borrow)]
    thought_signature: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Citations<'a> {
    #[serde(borrow)]
    citations: Option<Vec<Citation<'a>>>,
}

#[derive(Deserialize)]
struct Citation<'a> {
    #[serde(borrow)]
    uri: Option<Str<'a>>,
    #[serde(borrow)]
    title: Option<Str<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Str<'a>>,
    #[serde(borrow)]
    block_reason_message: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: Option<u16>,
}

fn bad(what: &str) -> ModelError {
    ModelError { kind: ModelErrorKind::BadStream, message: format!("{what}. Send the message again, or rephrase it.") }
}

/// The call as asked for. The API refuses to be given back a call without a name, so a nameless one gets one in the part too.
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
pub(crate) fn thought(text: &str) -> NoteBody {
    let pair = text.split_once("**").and_then(|(before, rest)| {
        let (subject, after) = rest.split_once("**")?;
        Some((subject, format!("{before}{after}")))
    });
    let (subject, description) = pair.unwrap_or(("", text.to_owned()));
    NoteBody::Thought { subject: subject.trim().to_owned(), description: description.trim().to_owned() }
}

/// What the user is told when an answer with words in it did not come to its own end.
fn cut_off(finish: &Finish) -> Option<String> {
    let why = match finish {
        Finish::Stop | Finish::Unspecified | Finish::Repetition | Finish::Command => return None,
        Finish::OutputLimit => "it reached the output limit".to_owned(),
        Finish::Safety => "the API judged it unsafe".to_owned(),
        Finish::Recitation => "it repeats something published".to_owned(),
        Finish::Other(word) => format!("the API gave {word} as the reason"),
    };
    Some(format!("\n[The answer was cut off: {why}.]"))
}

/// Whether anything is left without white space, zero-width characters and HTML comments.
fn is_visible(text: &str) -> bool {
    let shows = |text: &str| {
        text.chars().any(|c| !c.is_whitespace() && !matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}'))
    };
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        if shows(before) {
            return true;
        }
        match comment.split_once("-->") {
            Some((_, after)) => rest = after,
            // Not a comment after all.
            None => return true,
        }
    }
    shows(rest)
}
