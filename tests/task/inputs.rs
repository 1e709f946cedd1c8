//! Effects that the machine asks for, and inputs that it gets: messages of users and notes of workers.

use super::*;
use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::task::definitions::slash::Commanded;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::Delivery;
use gemini_a2a::task::machine::decide::{Effect, Gate, Input, job};
use gemini_a2a::task::machine::job::{ModelError, ModelErrorKind, NoteBody, Pick, RunEnd, Said, Work};
use gemini_a2a::task::spec::{Answers, Ending};
use serde_json::json;
use std::sync::Arc;

/// A started job and what it is for: so much of it as tables write down.
#[derive(Clone, Debug, PartialEq)]
pub enum Started {
    Think,
    Attach,
    Command,
    Compact,
    Prepare(Vec<CallId>),
    Run(CallId),
}

/// An effect and, if it starts a job, what is started.
pub type Expected = (Effect, Option<Started>);

pub fn starts(job: u64, gate: Gate, work: Started) -> Expected {
    (Effect::Start { job: Seq(job), gate }, Some(work))
}

pub fn think(job: u64) -> Expected {
    starts(job, Gate::Written, Started::Think)
}

pub fn prepare(job: u64, calls: &[Request]) -> Expected {
    let calls = calls.iter().map(|request| request.call.clone());
    starts(job, Gate::Written, Started::Prepare(calls.collect()))
}

pub fn run(job: u64, request: &Request, gate: Gate) -> Expected {
    starts(job, gate, Started::Run(request.call.clone()))
}

/// What an effect of a task in this state starts.
pub fn started_by(state: &State, effect: &Effect, limits: &Limits) -> Option<Started> {
    let Effect::Start { job: at, .. } = effect else {
        return None;
    };
    let started = job(state, *at, limits).expect("the state waits for what starts");
    assert_eq!(started.id.at, *at);
    Some(match started.work {
        Work::Think(_) => Started::Think,
        Work::Attach { .. } => Started::Attach,
        Work::Command(_) => Started::Command,
        Work::Compact(_) => Started::Compact,
        Work::Prepare { calls, .. } => Started::Prepare(calls.into_iter().map(|request| request.call).collect()),
        Work::Run(run) => Started::Run(run.call),
    })
}

pub fn stop(job: u64) -> Expected {
    (Effect::Stop { job: Seq(job) }, None)
}

pub fn arm(job: u64, delay_ms: u64) -> Expected {
    (Effect::Arm { job: Seq(job), delay_ms }, None)
}

pub fn prompt(text: &str) -> Input {
    prompt_and_pick(text, &[])
}

/// A prompt that is to reach the model with the next results.
pub fn steering(text: &str) -> Input {
    delivered(text, Delivery { steer: true, ..Delivery::default() })
}

/// A prompt for a summary of the conversation.
pub fn compressing(text: &str) -> Input {
    delivered(text, Delivery { compress: true, ..Delivery::default() })
}

/// A prompt with a key.
pub fn keyed(text: &str, key: &str) -> Input {
    delivered(text, Delivery { key: Some(key.into()), ..Delivery::default() })
}

fn delivered(text: &str, delivery: Delivery) -> Input {
    Input::Say { said: Said { delivery, ..Said::new(message(text), vec![]) }, by: ann() }
}

/// A message with an answer and no text.
pub fn pick(request: &Request, option: &str) -> Input {
    prompt_and_pick("", &[(request, option)])
}

pub fn prompt_and_pick(text: &str, picks: &[(&Request, &str)]) -> Input {
    let answers = picks.iter().map(|(request, option)| Pick {
        call: request.call.clone(),
        option: (*option).into(),
        edited: None,
        answers: None,
        seen: None,
    });
    Input::Say { said: Said::new(message(text), answers.collect()), by: ann() }
}

/// An approval with content that the user edited.
pub fn pick_edited(request: &Request, option: &str, content: &str) -> Input {
    pick_with(Pick {
        call: request.call.clone(),
        option: option.into(),
        edited: Some(content.into()),
        answers: None,
        seen: None,
    })
}

/// An answer that names the plan that the user was shown.
pub fn pick_seen(request: &Request, option: &str, seen: Seq) -> Input {
    pick_with(Pick { call: request.call.clone(), option: option.into(), edited: None, answers: None, seen: Some(seen) })
}

/// An approval with answers to the agent's questions.
pub fn pick_answering(request: &Request, option: &str, answers: Arc<Answers>) -> Input {
    pick_with(Pick {
        call: request.call.clone(),
        option: option.into(),
        edited: None,
        answers: Some(answers),
        seen: None,
    })
}

fn pick_with(pick: Pick) -> Input {
    Input::Say { said: Said::new(message(""), vec![pick]), by: ann() }
}

pub fn note(job: u64, body: NoteBody) -> Input {
    note_at(job, body, 0)
}

/// The same at this time in Unix milliseconds.
pub fn note_at(job: u64, body: NoteBody, at: u64) -> Input {
    Input::Note { job: Seq(job), body, at }
}

/// The model's answer as its worker reports it: the calls have no ids yet.
pub fn model_answers(calls: &[Request]) -> NoteBody {
    let mut answer = answer(calls);
    for request in answer.calls_mut() {
        request.call = CallId::from("");
    }
    NoteBody::Answered(Ok(answer))
}

pub fn model_fails(kind: ModelErrorKind) -> NoteBody {
    NoteBody::Answered(Err(ModelError { kind, message: "no luck".into() }))
}

pub fn command_says(text: &str) -> NoteBody {
    NoteBody::Commanded(Ok(Commanded::Done { text: text.into(), data: json!({ "says": text }) }))
}

pub fn command_asks(prompt: &str) -> NoteBody {
    NoteBody::Commanded(Ok(Commanded::Ask { prompt: prompt.into() }))
}

pub fn prepared(calls: &[Request]) -> NoteBody {
    NoteBody::Prepared(calls.iter().map(|request| Ok(plan(request))).collect())
}

pub fn edit_ends(request: &Request) -> NoteBody {
    NoteBody::Edited { ending: success(), changes: vec![change(request)] }
}

pub fn run_ends(ending: Ending) -> NoteBody {
    NoteBody::Ended(RunEnd::Ended(ending))
}
