//! A scripted agent: a file defines the answers instead of a model. It produces the same notes as the stream of a model, so that clients
//! can be tested, and the program tried, without a key.
//!
//! A file is `{"rules":[{"when":{…},"steps":[…]}],"default":[…]}`. The first rule that matches the prompt has the steps of the turn.
//! Consecutive calls end a round, as an answer with calls does: the next step follows when their results have arrived. A script
//! has no state: the number of the round and of the attempt are in the [`Think`]. An unknown name is an error with its place in the file,
//! because a script with a typing error would test nothing.

#[cfg(test)]
mod tests;

use crate::base::id::CallId;
use crate::base::json;
use crate::limits::Limits;
use crate::model::error::{self, Refusal};
use crate::model::glob;
use crate::task::log::answer::{self as log, Answer, Request};
use crate::task::log::event::Outcome;
use crate::task::log::media::MediaContent;
use crate::task::machine::job::{ModelError, NoteBody, Think};
use crate::task::message::{Artifact, Content, Message, Part};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::ops::Range;

/// The beginning of a prompt that patterns are compared with: comparing all of a long one would take minutes.
const COMPARED_BYTES: usize = 64 * 1024;

/// The script that is used if there is neither a key nor a script.
pub const DEMO: &str = include_str!("demo.script.json");

/// One output of a script: a pause, or a note.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a round has few outputs, and each note is moved only once")]
pub enum ScriptOutput {
    Wait { ms: u64 },
    Note(NoteBody),
}

#[derive(Clone, Debug)]
pub struct Script {
    rules: Vec<Rule>,
    default: Vec<Step>,
}

impl Script {
    /// Parses a file. An error names its rule and step, counted from 1.
    pub fn parse(text: &str) -> Result<Script, String> {
        let value: Value =
            json::read(text.as_bytes()).map_err(|e| format!("The script cannot be read as JSON: {e}."))?;
        let mut file = Members::of(&value, "the script")?;
        let rules = file.list("rules")?;
        let default = file.list("default")?;
        file.end()?;
        let rules = rules.iter().enumerate().map(|(i, rule)| {
            let place = format!("rule {}", i + 1);
            let mut rule = Members::of(rule, &place)?;
            let when = match rule.take("when") {
                Some(when) => When::parse(when, &place)?,
                None => When::default(),
            };
            let steps = steps(rule.list("steps")?, &place)?;
            rule.end()?;
            Ok(Rule { when, steps })
        });
        Ok(Script { rules: rules.collect::<Result<_, String>>()?, default: steps(default, "default")? })
    }

    /// The text to answer with instead of starting a task, if the script does so for this message.
    pub fn bare_reply(&self, message: &Message) -> Option<String> {
        let bare = |steps: &[Step]| match steps.first() {
            Some(Step::Message(text)) => Some(text.clone()),
            Some(_) | None => None,
        };
        // Few scripts have such rules, and comparing patterns takes long.
        let all = self.rules.iter().map(|rule| &rule.steps).chain([&self.default]);
        all.into_iter().find_map(|steps| bare(steps))?;
        bare(self.steps(message.id.as_str(), &message.text(), 1))
    }

    /// The outputs of one round. The last one is always the note `Answered`.
    pub fn outputs(&self, think: &Think) -> Vec<ScriptOutput> {
        let steps = self.steps(think.prompt.id.as_str(), &think.prompt.text(), think.turn);
        let mut run = RoundRun { think, outputs: Vec::new(), answer: Answer::default(), failures: 0 };
        let failure = round(steps, think.round).iter().find_map(|step| run.step(step).err());
        let answer = failure.map_or(Ok(run.answer), Err);
        run.outputs.push(ScriptOutput::Note(NoteBody::Answered(answer)));
        run.outputs
    }

    fn steps(&self, message_id: &str, text: &str, turn: u32) -> &[Step] {
        let text = &text[..text.floor_char_boundary(COMPARED_BYTES)];
        let rule = self.rules.iter().find(|rule| rule.when.matches(message_id, text, turn));
        rule.map_or(&self.default, |rule| &rule.steps)
    }
}

#[derive(Clone, Debug)]
struct Rule {
    when: When,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Default)]
struct When {
    message_id: Option<Regex>,
    text: Option<Regex>,
    turn: Option<u32>,
}

impl When {
    fn parse(value: &Value, place: &str) -> Result<When, String> {
        let mut when = Members::of(value, &format!("{place}, when"))?;
        let parsed =
            When { message_id: when.pattern("messageId")?, text: when.pattern("text")?, turn: when.number("turn")? };
        when.end()?;
        Ok(parsed)
    }

    fn matches(&self, message_id: &str, text: &str, turn: u32) -> bool {
        let fits = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
        fits(&self.message_id, message_id) && fits(&self.text, text) && self.turn.is_none_or(|wanted| wanted == turn)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Text {
        text: String,
        chunks: usize,
    },
    Call(Request),
    /// A thought, an artifact or a pause.
    Outputs(Vec<ScriptOutput>),
    Message(String),
    End(Outcome),
    Error {
        code: u16,
        times: u32,
    },
}

/// The steps of one round. A round ends after consecutive calls.
fn round(steps: &[Step], number: u32) -> &[Step] {
    let ends = |pair: &[Step]| matches!(pair[0], Step::Call(_)) && !matches!(pair[1], Step::Call(_));
    let mut rest = steps;
    for _ in 0..number {
        let end = rest.windows(2).position(ends);
        rest = end.map_or(&[], |last_call| &rest[last_call + 1..]);
    }
    let end = rest.windows(2).position(ends);
    end.map_or(rest, |last_call| &rest[..=last_call])
}

/// The outputs and the answer of a round, while its steps are executed.
struct RoundRun<'a> {
    think: &'a Think,
    outputs: Vec<ScriptOutput>,
    answer: Answer,
    /// How many attempts the `error` steps so far make fail.
    failures: u32,
}

impl RoundRun<'_> {
    fn step(&mut self, step: &Step) -> Result<(), ModelError> {
        match step {
            Step::Text { text, chunks } => self.say(text, *chunks),
            Step::Message(text) => self.say(text, 1),
            Step::Call(request) => {
                self.answer.parts.push(log::Part::new(log::Content::Call(request.clone())));
            }
            Step::Outputs(outputs) => self.outputs.extend_from_slice(outputs),
            Step::End(outcome) => self.answer.verdict = Some(outcome.clone()),
            Step::Error { code, times } => {
                self.failures = self.failures.saturating_add(*times);
                if self.think.attempt <= self.failures {
                    return Err(self.fail(*code));
                }
            }
        }
        Ok(())
    }

    fn say(&mut self, text: &str, chunks: usize) {
        for piece in split(text, chunks) {
            self.outputs.push(ScriptOutput::Note(NoteBody::Text(piece.to_owned())));
        }
        self.answer.say(text);
    }

    /// The error as the API would cause it with this status.
    fn fail(&self, code: u16) -> ModelError {
        let body = json!({"error": {"code": code, "message": "The script says so."}}).to_string();
        let refusal = Refusal { model: &self.think.model, status: code, retry_after: None, body: body.as_bytes() };
        let error = error::classify(&refusal, Limits::default().backoff_longest_ms);
        let has_notes = self.outputs.iter().any(|output| matches!(output, ScriptOutput::Note(_)));
        if has_notes { error::after_partial_answer(error) } else { error }
    }
}

fn steps(list: &[Value], place: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::with_capacity(list.len());
    for (i, value) in list.iter().enumerate() {
        let place = format!("{place}, step {}", i + 1);
        if let Some(Step::End(_)) = steps.last() {
            return Err(format!(
                "{place}: the step before it ends the turn, so this one can never come. Move it up or remove it."
            ));
        }
        steps.push(step(value, &place)?);
    }
    Ok(steps)
}

fn step(value: &Value, place: &str) -> Result<Step, String> {
    const VERBS: [&str; 12] = [
        "text", "thought", "call", "artifact", "wait_ms", "ask", "message", "complete", "fail", "reject", "auth",
        "error",
    ];
    let mut step = Members::of(value, place)?;
    let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| value.get(verb).is_some()).collect();
    let &[verb] = verbs.as_slice() else {
        return Err(format!("{place}: a step has exactly one of {}, this one has {}.", VERBS.join(", "), verbs.len()));
    };
    let parsed = match verb {
        "text" => Step::Text { text: step.need("text")?, chunks: step.chunks()? },
        "message" => Step::Message(step.need("message")?),
        "thought" => {
            let pair = |value| <(String, String)>::deserialize(value).ok();
            let pair = step.read("thought", "[\"subject\", \"description\"]", pair)?;
            let (subject, description) = pair.unwrap_or_default();
            Step::Outputs(vec![ScriptOutput::Note(NoteBody::Thought { subject, description })])
        }
        "call" => {
            let args = step.read("args", "an object", |args| args.is_object().then(|| args.clone()))?;
            let (call, args) = (CallId::from(""), args.unwrap_or_else(|| json!({})));
            Step::Call(Request { call, name: step.need("call")?, args, api_id: None })
        }
        "artifact" => Step::Outputs(artifact(step.take("artifact"), place)?),
        "wait_ms" => Step::Outputs(vec![ScriptOutput::Wait { ms: step.number("wait_ms")?.unwrap_or(0) }]),
        "ask" => Step::End(Outcome::Ask(step.need("ask")?)),
        "complete" => Step::End(Outcome::Complete(step.need("complete")?)),
        "fail" => Step::End(Outcome::Fail(step.need("fail")?)),
        "reject" => Step::End(Outcome::Reject(step.need("reject")?)),
        "auth" => Step::End(Outcome::Auth(step.need("auth")?)),
        "error" => failure(step.take("error"), place)?,
        verb => unreachable!("{verb} is in the list above"),
    };
    step.end()?;
    Ok(parsed)
}

fn failure(value: Option<&Value>, place: &str) -> Result<Step, String> {
    let mut error = Members::of(value.unwrap_or(&Value::Null), &format!("{place}, error"))?;
    let code: Option<u16> = error.number("code")?;
    let times = error.number("times")?.unwrap_or(1);
    error.end()?;
    match code {
        Some(code @ 400..600) => Ok(Step::Error { code, times }),
        Some(_) | None => Err(format!(
            "{place}: error needs a code from 400 to 599, as in {{\"error\":{{\"code\":503,\"times\":1}}}}."
        )),
    }
}

/// An artifact: whole, divided into chunks, or in the pieces that the script lists.
fn artifact(value: Option<&Value>, place: &str) -> Result<Vec<ScriptOutput>, String> {
    let place = &format!("{place}, artifact");
    let mut members = Members::of(value.unwrap_or(&Value::Null), place)?;
    let id = members.need("id")?;
    let name = members.text("name")?;
    let description = members.text("description")?;
    let parts: Vec<Part> = match members.list("pieces")? {
        [] => {
            let chunks = members.chunks()?;
            chunked(part(&mut members)?, chunks, place)?
        }
        list => {
            let piece = |(i, value): (usize, &Value)| {
                let mut members = Members::of(value, &format!("{place}, piece {}", i + 1))?;
                let part = part(&mut members)?;
                members.end().map(|()| part)
            };
            list.iter().enumerate().map(piece).collect::<Result<_, _>>()?
        }
    };
    members.end()?;
    let last = parts.len() - 1;
    let produced = |(i, part): (usize, Part)| {
        let (id, name, description) = (id.clone(), name.clone(), description.clone());
        let artifact = Artifact { id, name, description, parts: vec![part] };
        ScriptOutput::Note(NoteBody::Produced { artifact, append: i > 0, last: i == last })
    };
    Ok(parts.into_iter().enumerate().map(produced).collect())
}

fn part(members: &mut Members<'_>) -> Result<Part, String> {
    let contents = [
        members.text("text")?.map(|text| Content::Text(text.into())),
        members.text("bytes")?.map(|data| Content::Bytes(data.into())),
        members.text("url")?.map(Content::Uri),
        members.take("data").cloned().map(Content::Data),
    ];
    let mut contents = contents.into_iter().flatten();
    let (Some(content), None) = (contents.next(), contents.next()) else {
        return Err(format!("{}: exactly one of text, bytes, url and data is needed.", members.place));
    };
    if let Content::Bytes(file) = &content {
        decoded(file, &members.place)?;
    }
    Ok(Part { content, filename: members.text("filename")?, media_type: members.text("mediaType")?, metadata: None })
}

fn decoded(file: &MediaContent, place: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(file.data().unwrap_or_default()).map_err(|e| format!("{place}: bytes must be base64: {e}."))
}

fn chunked(part: Part, chunks: usize, place: &str) -> Result<Vec<Part>, String> {
    let contents: Vec<Content> = match &part.content {
        _ if chunks == 1 => return Ok(vec![part]),
        Content::Text(text) => {
            split(text.as_str(), chunks).into_iter().map(|piece| Content::Text(piece.into())).collect()
        }
        Content::Bytes(file) => {
            let bytes = decoded(file, place)?;
            // Each piece is encoded separately, because clients decode each one alone.
            let piece = |share: Range<usize>| Content::Bytes(STANDARD.encode(&bytes[share]).into());
            equal_ranges(bytes.len(), chunks).map(piece).collect()
        }
        Content::Uri(_) | Content::Data(_) => {
            return Err(format!("{place}: only text and bytes can be cut into chunks; list the pieces instead."));
        }
    };
    if contents.is_empty() {
        return Ok(vec![part]);
    }
    let piece = |content| Part { content, ..part.clone() };
    Ok(contents.into_iter().map(piece).collect())
}

/// The text in `count` pieces of about the same number of characters; fewer only if there are fewer characters.
fn split(text: &str, count: usize) -> Vec<&str> {
    let starts: Vec<usize> = text.char_indices().map(|(start, _)| start).collect();
    let offset = |i: usize| starts.get(i).copied().unwrap_or(text.len());
    equal_ranges(starts.len(), count).map(|range| &text[offset(range.start)..offset(range.end)]).collect()
}

/// `0..total` in `count` ranges of about the same length, none of them empty.
fn equal_ranges(total: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let count = count.min(total);
    (0..count).map(move |i| total * i / count..total * (i + 1) / count)
}

/// The members of an object that were not read yet. Members that remain at the end are unknown.
struct Members<'a> {
    place: String,
    unread: Vec<(&'a str, &'a Value)>,
}

impl<'a> Members<'a> {
    fn of(value: &'a Value, place: &str) -> Result<Members<'a>, String> {
        let object: &Map<String, Value> = value.as_object().ok_or_else(|| format!("{place} must be an object."))?;
        Ok(Members { place: place.to_owned(), unread: object.iter().map(|(name, v)| (name.as_str(), v)).collect() })
    }

    fn take(&mut self, name: &str) -> Option<&'a Value> {
        let i = self.unread.iter().position(|(n, _)| *n == name)?;
        Some(self.unread.swap_remove(i).1)
    }

    /// Reads an optional member. `what` says what its value must be.
    fn read<T>(
        &mut self,
        name: &str,
        what: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        convert(value).map(Some).ok_or_else(|| format!("{}: {name} must be {what}.", self.place))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        self.read(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    fn pattern(&mut self, name: &str) -> Result<Option<Regex>, String> {
        let expression = self.text(name)?.map(|pattern| glob::regex(&pattern)).transpose();
        expression.map_err(|error| format!("{}: {name} is not a pattern: {error}.", self.place))
    }

    fn need(&mut self, name: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("{}: {name} is missing.", self.place))
    }

    fn number<N: TryFrom<u64>>(&mut self, name: &str) -> Result<Option<N>, String> {
        self.read(name, "a whole number that fits", |value| N::try_from(value.as_u64()?).ok())
    }

    fn chunks(&mut self) -> Result<usize, String> {
        match self.number("chunks")? {
            None => Ok(1),
            Some(0) => Err(format!("{}: chunks must be at least 1.", self.place)),
            Some(chunks) => Ok(chunks),
        }
    }

    fn list(&mut self, name: &str) -> Result<&'a [Value], String> {
        let list = self.read(name, "a list", |value| value.as_array().map(Vec::as_slice))?;
        Ok(list.unwrap_or_default())
    }

    fn end(self) -> Result<(), String> {
        match self.unread.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!("{}: {name:?} is not known here. Check its spelling.", self.place)),
        }
    }
}
