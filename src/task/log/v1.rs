//! Converts events of version 1 of the journal. They differ only in the model's answers, whose parts, token counts and finish reasons are
//! in the JSON of the Gemini API.

use crate::base::id::Seq;
use crate::task::log::answer::{Answer, Content, Finish, Part, Request};
use crate::task::log::event::{Event, Outcome};
use crate::task::log::gemini::{self, UsageMetadata};
use serde::Deserialize;
use serde_json::{Map, Value};

pub fn event(json: &str) -> serde_json::Result<Event> {
    if !json.starts_with(r#"{"answered":"#) {
        return serde_json::from_str(json);
    }
    let Answered { answered } = serde_json::from_str(json)?;
    Ok(Event::Answered { answer: Answer::from(answered.answer).into() })
}

#[derive(Deserialize)]
struct Answered {
    answered: OldEvent,
}

#[derive(Deserialize)]
struct OldEvent {
    answer: OldAnswer,
}

#[derive(Deserialize)]
struct OldAnswer {
    parts: Vec<Map<String, Value>>,
    #[serde(default)]
    calls: Vec<Request>,
    finish: String,
    usage: Option<UsageMetadata>,
    trace: Option<String>,
    model: Option<String>,
    said_at: Option<Seq>,
    verdict: Option<Outcome>,
}

impl From<OldAnswer> for Answer {
    fn from(old: OldAnswer) -> Answer {
        let OldAnswer { parts, calls, finish, usage, trace, model, said_at, verdict } = old;
        let mut calls = calls.into_iter();
        let mut parts: Vec<Part> = parts
            .into_iter()
            .map(|part| {
                let call = if part.contains_key("functionCall") { calls.next() } else { None };
                gemini::read_part(part, call)
            })
            .collect();
        parts.extend(calls.map(|call| Part::new(Content::Call(call))));
        let finish = match finish.as_str() {
            "LOOP" => Finish::Repetition,
            "COMMAND" => Finish::Command,
            word => gemini::finish(word),
        };
        let usage = usage.map(|UsageMetadata(usage)| usage);
        Answer { parts, api: Some(gemini::API.into()), finish, usage, trace, model, said_at, verdict }
    }
}
