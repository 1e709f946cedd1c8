//! The model's answer, read chunk by chunk. Each chunk is one JSON object; what can be shown of it is shown at once, and what
//! the next request must repeat is gathered for the end.
//!
//! Most chunks are a few words of text, so a chunk is read into borrowed structs and its parts stay raw until their kind is
//! known; only a part that must be given back untouched (a call, a signature) becomes a tree. Whether the whole was an answer
//! is judged once, in [`Decoder::finish`]: a stream may end cleanly and still say nothing.

use crate::base::id::CallId;
use crate::base::json;
use crate::model::error::{self, Refusal};
use crate::task::log::event::{Answer, Request};
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
    parts: Vec<Value>,
    calls: Vec<Request>,
    /// Whether some chunk has been read.
    begun: bool,
    thought: bool,
    finish: Option<String>,
    citations: BTreeSet<String>,
    /// The last counts, still raw: every chunk has them, only the last ones matter.
    usage: String,
    trace: Option<String>,
    version: Option<String>,
}

impl Decoder {
    /// `most_bytes` is the longest answer that is kept; `longest_wait_ms` the longest wait a server may ask for.
    pub fn new(model: &str, most_bytes: usize, longest_wait_ms: u64) -> Decoder {
        Decoder {
            model: model.to_owned(),
            most_bytes,
            longest_wait_ms,
            bytes: 0,
            parts: Vec::new(),
            calls: Vec::new(),
            begun: false,
            thought: false,
            finish: None,
            citations: BTreeSet::new(),
            usage: String::new(),
            trace: None,
            version: None,
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
            self.finish = Some(reason.as_ref().to_owned());
        }
        Ok(())
    }

    /// Judges the whole and appends what is shown after the last words: that they were cut off, and their sources.
    pub fn finish(self, asked: Asked, out: &mut Vec<NoteBody>) -> Result<Answer, ModelError> {
        let visible = self.says_something();
        let finish = self.finish.as_deref();
        if self.calls.is_empty() {
            self.judge(asked, visible)?;
            if let Some(note) = finish.and_then(cut_off).filter(|_| visible) {
                out.push(NoteBody::Text(note));
            }
        }
        if !self.citations.is_empty() {
            let lines: Vec<String> = self.citations.into_iter().collect();
            out.push(NoteBody::Cited(format!("Citations:\n{}", lines.join("\n"))));
        }
        Ok(Answer {
            parts: self.parts,
            calls: self.calls,
            finish: self.finish.unwrap_or_else(|| "FINISH_REASON_UNSPECIFIED".into()),
            // Counts are for show: a form we do not know is no reason to lose an answer.
            usage: serde_json::from_str(&self.usage).ok(),
            trace: self.trace,
            model: self.version,
            said_at: None,
            verdict: None,
        })
    }

    /// What a chunk says beside its parts.
    fn note_facts(&mut self, chunk: &Chunk, out: &mut Vec<NoteBody>) -> Result<(), ModelError> {
        if let Some(Str(id)) = &chunk.response_id
            && self.trace.as_deref() != Some(id)
        {
            self.trace = Some(id.as_ref().to_owned());
            out.push(NoteBody::Traced(id.as_ref().to_owned()));
        }
        if let Some(Str(version)) = &chunk.model_version
            && self.version.as_deref() != Some(version)
        {
            self.version = Some(version.as_ref().to_owned());
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
            self.say(text);
            return Ok(());
        }
        let mut whole: Map<String, Value> = serde_json::from_str(raw.get()).map_err(|_| malformed())?;
        if let Some(call) = whole.get_mut("functionCall") {
            self.calls.push(request(call.as_object_mut().ok_or_else(malformed)?));
        }
        if !whole.is_empty() {
            self.parts.push(whole.into());
        }
        Ok(())
    }

    /// Adds text to the last part if that is plain text too. A signed part stays as it came.
    fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let last = self.parts.last_mut().and_then(Value::as_object_mut);
        if let Some(last) = last.filter(|part| part.len() == 1)
            && let Some(Value::String(before)) = last.get_mut("text")
        {
            before.push_str(text);
        } else {
            self.parts.push(json!({"text": text}));
        }
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

    fn says_something(&self) -> bool {
        let texts = self.parts.iter().filter_map(|part| part.get("text")?.as_str());
        is_visible(&texts.collect::<String>())
    }

    /// Whether a stream without a call is an answer.
    fn judge(&self, asked: Asked, visible: bool) -> Result<(), ModelError> {
        let (word, what) = match self.finish.as_deref() {
            None if asked == Asked::Prompt => ("NO_FINISH_REASON", "The model's answer broke off"),
            Some(word @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL")) => {
                (word, "The model made a call that cannot be read")
            }
            _ if visible => return Ok(()),
            Some("MAX_TOKENS") => ("MAX_TOKENS_EXCEEDED", "The model reached the output limit before it said anything"),
            Some("SAFETY") => ("SAFETY_BLOCKED", "The API blocked the answer as unsafe"),
            Some("RECITATION") => ("RECITATION_BLOCKED", "The API blocked the answer as a copy of something published"),
            Some("OTHER") => ("OTHER_BLOCKED", "The API blocked the answer"),
            Some(word) if word != "STOP" && word != "FINISH_REASON_UNSPECIFIED" => (word, "The API blocked the answer"),
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
fn cut_off(finish: &str) -> Option<String> {
    let why = match finish {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => return None,
        "MAX_TOKENS" => "it reached the output limit".to_owned(),
        "SAFETY" => "the API judged it unsafe".to_owned(),
        "RECITATION" => "it repeats something published".to_owned(),
        word => format!("the API gave {word} as the reason"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::event::Usage;

    fn decoder() -> Decoder {
        Decoder::new("gemini-x", 10_000, 300_000)
    }

    /// Feeds chunks and finishes; the notes and the verdict.
    fn read(asked: Asked, chunks: &[Value]) -> (Vec<NoteBody>, Result<Answer, ModelError>) {
        let mut decoder = decoder();
        let mut out = Vec::new();
        for chunk in chunks {
            if let Err(error) = decoder.chunk(chunk.to_string().as_bytes(), &mut out) {
                return (out, Err(error));
            }
        }
        let answer = decoder.finish(asked, &mut out);
        (out, answer)
    }

    fn parts(parts: Value) -> Value {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
    }

    fn ends(parts: Value, reason: &str) -> Value {
        json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]})
    }

    fn text(text: &str) -> NoteBody {
        NoteBody::Text(text.into())
    }

    fn says(subject: &str, description: &str) -> NoteBody {
        NoteBody::Thought { subject: subject.into(), description: description.into() }
    }

    fn call(name: &str, args: Value, api_id: Option<&str>) -> Request {
        Request { call: "".into(), name: name.into(), args, api_id: api_id.map(str::to_owned) }
    }

    #[test]
    fn a_whole_answer() {
        let (notes, answer) = read(
            Asked::Prompt,
            &[
                json!({
                    "candidates": [{"content": {"parts": [{"text": "**Looking around** I need the file.", "thought": true}], "role": "model"}, "index": 0}],
                    "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 12, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}]},
                    "modelVersion": "gemini-x-001", "responseId": "r-1",
                }),
                parts(json!([{"text": "Hé"}, {"text": "llo\n"}])),
                parts(
                    json!([{"text": "world."}, {"functionCall": {"name": "glob", "args": {"pattern": "*"}}, "thoughtSignature": "c2ln"}]),
                ),
                json!({
                    "candidates": [{
                        "content": {"parts": [
                            {"functionCall": {"id": "api-2", "name": "read_file", "args": {"path": "a", "n": 1.50}}},
                            {"text": "", "thoughtSignature": "dGFpbA=="},
                        ]},
                        "finishReason": "STOP",
                        "citationMetadata": {"citations": [{"uri": "https://b"}, {"uri": "https://a", "title": "A"}, {"uri": "https://b"}, {"license": "x"}]},
                    }],
                    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 20, "thoughtsTokenCount": 3},
                    "modelVersion": "gemini-x-001", "responseId": "r-1",
                }),
            ],
        );
        assert_eq!(
            notes,
            vec![
                NoteBody::Traced("r-1".into()),
                says("Looking around", "I need the file."),
                text("Héllo\n"),
                text("world."),
                NoteBody::Cited("Citations:\n(A) https://a\nhttps://b".into()),
            ]
        );
        assert_eq!(
            answer,
            Ok(Answer {
                parts: vec![
                    json!({"text": "Héllo\nworld."}),
                    json!({"functionCall": {"name": "glob", "args": {"pattern": "*"}}, "thoughtSignature": "c2ln"}),
                    json!({"functionCall": {"id": "api-2", "name": "read_file", "args": {"path": "a", "n": 1.5}}}),
                    json!({"text": "", "thoughtSignature": "dGFpbA=="}),
                ],
                calls: vec![
                    call("glob", json!({"pattern": "*"}), None),
                    call("read_file", json!({"path": "a", "n": 1.5}), Some("api-2")),
                ],
                finish: "STOP".into(),
                usage: Some(Usage {
                    prompt_token_count: 10,
                    candidates_token_count: 7,
                    total_token_count: 20,
                    thoughts_token_count: Some(3),
                    ..Usage::default()
                }),
                trace: Some("r-1".into()),
                model: Some("gemini-x-001".into()),
                said_at: None,
                verdict: None,
            })
        );
    }

    #[test]
    fn signed_parts_stay_as_they_came_and_thoughts_leave_nothing() {
        let (notes, answer) = read(
            Asked::Prompt,
            &[
                parts(json!([{"text": "a"}, {"text": "b", "thoughtSignature": "s"}, {"text": "c"}])),
                parts(
                    json!([{"text": "", "thought": true, "thoughtSignature": "t"}, {}, {"inlineData": {"mimeType": "image/png", "data": "x"}}]),
                ),
                ends(json!([{"text": "d"}]), "STOP"),
            ],
        );
        assert_eq!(notes, vec![text("abc"), text("d")]);
        assert_eq!(
            answer.unwrap().parts,
            vec![
                json!({"text": "a"}),
                json!({"text": "b", "thoughtSignature": "s"}),
                json!({"text": "c"}),
                json!({"inlineData": {"mimeType": "image/png", "data": "x"}}),
                json!({"text": "d"}),
            ]
        );
    }

    #[test]
    fn a_call_without_name_or_arguments_gets_both() {
        let (_, answer) =
            read(Asked::Prompt, &[parts(json!([{"functionCall": {"name": " ", "id": ""}}, {"functionCall": {}}]))]);
        let answer = answer.unwrap();
        assert_eq!(answer.parts[1], json!({"functionCall": {"name": "generic_tool"}}));
        assert_eq!(answer.calls, vec![call("generic_tool", json!({}), None); 2]);
        assert_eq!(answer.finish, "FINISH_REASON_UNSPECIFIED");
    }

    #[test]
    fn thoughts_have_a_subject_and_a_description() {
        let table = [
            ("**Plan** do it", says("Plan", "do it")),
            ("first **Plan**\n\nthen **more**", says("Plan", "first \n\nthen **more**")),
            ("no pair ** here", says("", "no pair ** here")),
            ("****x", says("", "x")),
        ];
        for (text, expected) in table {
            assert_eq!(thought(text), expected, "{text}");
        }
    }

    #[test]
    fn what_counts_as_an_answer() {
        let thinks = |reason: &str| ends(json!([{"text": "hm", "thought": true}]), reason);
        let table = [
            (vec![], Some("NO_FINISH_REASON"), None),
            (vec![parts(json!([{"text": "a"}]))], Some("NO_FINISH_REASON"), None),
            (vec![ends(json!([{"text": "a"}]), "STOP")], None, None),
            (
                vec![ends(json!([{"text": "a"}]), "MALFORMED_FUNCTION_CALL")],
                Some("MALFORMED_FUNCTION_CALL"),
                Some("MALFORMED_FUNCTION_CALL"),
            ),
            (vec![ends(json!([]), "UNEXPECTED_TOOL_CALL")], Some("UNEXPECTED_TOOL_CALL"), Some("UNEXPECTED_TOOL_CALL")),
            (
                vec![ends(json!([{"text": " \u{200b}<!-- x -->\n"}]), "MAX_TOKENS")],
                Some("MAX_TOKENS_EXCEEDED"),
                Some("MAX_TOKENS_EXCEEDED"),
            ),
            (vec![thinks("SAFETY")], Some("SAFETY_BLOCKED"), Some("SAFETY_BLOCKED")),
            (vec![ends(json!([]), "RECITATION")], Some("RECITATION_BLOCKED"), Some("RECITATION_BLOCKED")),
            (vec![ends(json!([]), "OTHER")], Some("OTHER_BLOCKED"), Some("OTHER_BLOCKED")),
            (vec![ends(json!([]), "SPII")], Some("SPII"), Some("SPII")),
            (vec![thinks("STOP")], Some("THINKING_ONLY_RESPONSE"), Some("THINKING_ONLY_RESPONSE")),
            (vec![ends(json!([]), "STOP")], Some("NO_RESPONSE_TEXT"), None),
            (vec![json!({"candidates": [{"finishReason": "STOP"}]})], Some("NO_RESPONSE_TEXT"), None),
        ];
        for (chunks, after_prompt, after_results) in table {
            for (asked, expected) in [(Asked::Prompt, after_prompt), (Asked::Results, after_results)] {
                let (_, answer) = read(asked, &chunks);
                match (expected, answer) {
                    (None, Ok(_)) => {}
                    (Some(word), Err(error)) => {
                        assert_eq!(error.kind, ModelErrorKind::BadStream);
                        assert!(error.message.contains(&format!("({word})")), "{}", error.message);
                    }
                    (expected, answer) => {
                        panic!("{chunks:?} {asked:?}: {expected:?}, got {answer:?}")
                    }
                }
            }
        }
    }

    #[test]
    fn an_answer_that_was_cut_off_says_so_outside_of_its_parts() {
        let table = [
            ("MAX_TOKENS", "\n[The answer was cut off: it reached the output limit.]"),
            ("SAFETY", "\n[The answer was cut off: the API judged it unsafe.]"),
            ("SPII", "\n[The answer was cut off: the API gave SPII as the reason.]"),
        ];
        for (reason, note) in table {
            let (notes, answer) = read(Asked::Prompt, &[ends(json!([{"text": "half"}]), reason)]);
            assert_eq!(notes, vec![text("half"), text(note)]);
            let answer = answer.unwrap();
            assert_eq!((answer.finish.as_str(), answer.text().as_str()), (reason, "half"));
        }
    }

    #[test]
    fn a_blocked_prompt_fails_with_its_reason() {
        let (_, answer) = read(
            Asked::Prompt,
            &[json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}})],
        );
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Fatal);
        assert!(error.message.contains("(PROHIBITED_CONTENT)"), "{}", error.message);
    }

    #[test]
    fn an_error_object_in_the_stream_is_a_refusal_and_voids_what_came_before() {
        let busy = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
        let denied = json!({"error": {"code": 403, "message": "no"}});
        let odd = json!({"error": {"code": 7}});
        let before = parts(json!([{"text": "a"}]));
        let kind = |chunks: &[Value]| read(Asked::Prompt, chunks).1.unwrap_err().kind;
        assert_eq!(kind(std::slice::from_ref(&busy)), ModelErrorKind::Busy { after_ms: None });
        assert_eq!(kind(&[before.clone(), busy]), ModelErrorKind::BadStream);
        assert_eq!(kind(&[before, denied]), ModelErrorKind::Fatal);
        assert_eq!(kind(&[odd]), ModelErrorKind::BadStream);
    }

    #[test]
    fn garbage_is_a_bad_stream_and_never_a_panic() {
        for json in [
            &b""[..],
            b"{",
            b"[]",
            b"nonsense",
            b"\xff",
            b"{\"candidates\":7}",
            b"{\"candidates\":[{\"content\":{\"parts\":[7]}}]}",
            b"{\"candidates\":[{\"content\":{\"parts\":[{\"text\":7}]}}]}",
        ] {
            let error = decoder().chunk(json, &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::BadStream, "{json:?}");
        }
        for json in [&b"{}"[..], b"{\"candidates\":[]}", b"{\"candidates\":null,\"usageMetadata\":[1]}"] {
            assert_eq!(decoder().chunk(json, &mut Vec::new()), Ok(()), "{json:?}");
        }
    }

    #[test]
    fn an_answer_may_be_exactly_as_long_as_the_limit() {
        let chunk = parts(json!([{"text": "a"}])).to_string();
        let mut decoder = Decoder::new("m", 2 * chunk.len(), 0);
        let mut out = Vec::new();
        assert_eq!(decoder.chunk(chunk.as_bytes(), &mut out), Ok(()));
        assert_eq!(decoder.chunk(chunk.as_bytes(), &mut out), Ok(()));
        let error = decoder.chunk(b"{}", &mut out).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Fatal);
    }
}
