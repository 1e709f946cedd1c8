//! Events of a task, each made from the values in which tests differ.

#[path = "../support/created.rs"]
mod test_created;

use super::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::definitions::slash::Invocation;
use gemini_a2a::task::log::answer::{Answer, Request};
use gemini_a2a::task::log::blob::{FileChange, FileVersion};
use gemini_a2a::task::log::event::{
    Created, Delivery, End, Event, Final, Lifecycle, Outcome, Profile, Protocol, Tries,
};
use gemini_a2a::task::machine::decide::Effect;
use gemini_a2a::task::message::{Artifact, Message, Part, Role, Source};
use gemini_a2a::task::policy::{Mode, Names, Rule};
use gemini_a2a::task::push::{Health, Target};
use gemini_a2a::task::spec::{ApprovalScope, Choice, Ending, Verdict};
use serde_json::json;
use std::sync::Arc;

pub fn created(lifecycle: Lifecycle) -> Event {
    Event::Created(Arc::new(Created {
        lifecycle,
        protocol: Protocol::V03,
        profile: Profile::Coder,
        trusted: true,
        ..test_created::created("t")
    }))
}

/// [`created`] with other members.
pub fn created_with(lifecycle: Lifecycle, change: impl FnOnce(&mut Created)) -> Event {
    let mut event = created(lifecycle);
    if let Event::Created(created) = &mut event {
        change(Arc::make_mut(created));
    }
    event
}

/// The first event of a task in another mode, or of one whose client wants no questions.
pub fn created_in_mode(mode: Mode, auto_execute: bool) -> Event {
    created_with(Lifecycle::Conversational, |created| {
        created.mode = mode;
        created.auto_execute = auto_execute;
    })
}

/// The first event of a task whose client allows only these tools.
pub fn created_with_tools(tools: &[&str]) -> Event {
    let tools = tools.iter().map(|name| (*name).to_owned()).collect();
    created_with(Lifecycle::Conversational, |created| created.tools = Some(tools))
}

/// The first event of a task that runs a slash command.
pub fn created_to_run(line: &str) -> Event {
    let path = line.split(' ').map(str::to_owned).collect();
    created_with(Lifecycle::OneShot, |created| created.command = Some(Invocation { path, args: vec!["x".into()] }))
}

/// The same log in a workspace that is not trusted.
pub fn untrusted(mut log: Vec<Event>) -> Vec<Event> {
    if let Event::Created(created) = &mut log[0] {
        Arc::make_mut(created).trusted = false;
    }
    log
}

pub fn message(text: &str) -> Arc<Message> {
    let parts = if text.is_empty() { vec![] } else { vec![Part::text(text)] };
    Arc::new(Message::new(format!("id of {text}").as_str(), Role::User, parts))
}

pub fn ann() -> Source {
    Source::new("ann", "test")
}

pub fn bob() -> Source {
    Source::new("bob", "test")
}

/// The record of [`steering`](super::steering).
pub fn steering_prompted(turn: u32, text: &str) -> Event {
    Event::Prompted {
        message: message(text),
        by: ann(),
        turn,
        delivery: Delivery { steer: true, ..Delivery::default() },
    }
}

pub fn prompted(turn: u32, text: &str) -> Event {
    Event::Prompted { message: message(text), by: ann(), turn, delivery: Default::default() }
}

pub fn began(turn: u32) -> Event {
    Event::TurnBegan { turn }
}

pub fn turn_ended(turn: u32, end: End) -> Event {
    Event::TurnEnded { turn, end, by: None }
}

pub fn text(text: &str) -> Event {
    Event::Text { text: text.into() }
}

pub fn answer(calls: &[Request]) -> Answer {
    Answer::new("hm", calls.to_vec())
}

pub fn answered(calls: &[Request]) -> Event {
    Event::Answered { answer: Arc::new(answer(calls)) }
}

pub fn concluded(verdict: Outcome) -> Event {
    Event::Answered { answer: Arc::new(Answer { verdict: Some(verdict), ..answer(&[]) }) }
}

/// The artifact that holds the result of a slash command.
pub fn result(text: &str) -> Arc<Artifact> {
    Arc::new(Artifact {
        id: "result".into(),
        name: Some("result".into()),
        description: None,
        parts: vec![Part::data(json!({ "says": text }))],
    })
}

pub fn backed_off(failed: u32, broken: u32, delay_ms: u64) -> Event {
    Event::BackedOff { tries: Tries { failed, broken, since: 0 }, delay_ms, reason: "no luck".into() }
}

pub fn planned(request: &Request) -> Event {
    Event::CallPlanned { call: request.call.clone(), plan: Arc::new(plan(request)) }
}

pub fn asked(request: &Request) -> Event {
    asked_for(request, ApprovalScope::Session)
}

/// A question whose "always" answer lasts as long as `keeping`.
pub fn asked_for(request: &Request, keeping: ApprovalScope) -> Event {
    let call = request.call.clone();
    Event::CallAsked { call, keeping }
}

pub fn chosen(request: &Request, choice: Choice) -> Event {
    Event::CallAnswered {
        call: request.call.clone(),
        choice,
        by: ann(),
        edited: None,
        answers: None,
        rules: match choice {
            Choice::ProceedAlways
            | Choice::ProceedAlwaysTool
            | Choice::ProceedAlwaysServer
            | Choice::ProceedAlwaysAndSave => vec![rule(request)],
            Choice::ProceedOnce | Choice::Cancel => vec![],
        },
    }
}

/// The rule that an "always" answer to a call with the plan of [`plan`] makes in the default mode.
pub fn rule(request: &Request) -> Rule {
    let modes = Some(vec![Mode::Default, Mode::AutoEdit, Mode::Yolo]);
    let allow = Rule { modes, ..Rule::new(request.name.as_str(), Verdict::Allow) };
    match request.name.as_str() {
        EDIT => Rule {
            tool_name: Names::Many(vec!["replace".into(), EDIT.into()]),
            file_path: Some("/w/a.txt".into()),
            ..allow
        },
        SHELL => Rule { command_prefix: Some("make".into()), ..allow },
        _ => allow,
    }
}

pub fn save(rule: Rule) -> Expected {
    (Effect::Save { rule: Box::new(rule) }, None)
}

pub fn ready(request: &Request) -> Event {
    let call = request.call.clone();
    Event::CallReady { call, confinement: Default::default() }
}

pub fn started(request: &Request) -> Event {
    let call = request.call.clone();
    Event::CallStarted { call }
}

pub fn stale(request: &Request) -> Event {
    let call = request.call.clone();
    Event::CallStale { call }
}

pub fn ended(request: &Request, ending: Ending) -> Event {
    Event::CallEnded { call: request.call.clone(), ending: Arc::new(ending) }
}

pub fn closed(state: Final, text: &str) -> Event {
    Event::Closed { state, text: Some(text.to_owned()).filter(|text| !text.is_empty()) }
}

pub fn canceled() -> Event {
    closed(Final::Canceled, "Task canceled by user request.")
}

/// A webhook with protocol version 1.0.
pub fn target(id: &str) -> Target {
    Target {
        id: id.into(),
        url: "https://client.example/a2a".into(),
        token: None,
        schemes: Vec::new(),
        credentials: None,
        protocol: Protocol::V10,
        profile: Profile::Plain,
    }
}

pub fn hook_set(target: &Target) -> Event {
    Event::HookSet { target: Arc::new(target.clone()) }
}

/// Everything up to this event was delivered.
pub fn hook_moved(id: &str, upto: u64) -> Event {
    Event::HookMoved { id: id.into(), upto: Seq(upto), health: Health::default().after_success() }
}

/// The change of a file by an edit.
pub fn change(request: &Request) -> FileChange {
    let version = |sha256: &str| FileVersion { sha256: sha256.repeat(64), len: 4, mode: 0o644, unstored: false };
    FileChange {
        call: request.call.clone(),
        root: "/w".into(),
        path: "a.txt".into(),
        before: Some(version("a")),
        after: version("b"),
        dirs: 0,
    }
}

pub fn file_changed(request: &Request) -> Event {
    Event::FileChanged(Arc::new(change(request)))
}
