//! Values for the tests of this layer: a task in the middle of a turn, two tools, requests as clients send them.

use crate::a2a::views::tools::Tools;
use crate::base::http::{Headers, Method, Request, Version};
use crate::base::id::Seq;
use crate::task::log::answer::{self, Answer, Usage};
use crate::task::log::event::{Created, End, Event, Profile, Protocol};
use crate::task::log::record::Record;
use crate::task::log::test_created::created;
use crate::task::machine::state::{CallState, Stage, State, TaskState};
use crate::task::message::{Message, Part, Role, Source};
use crate::task::spec::{
    ApprovalScope, Choice, Confinement, Display, Ending, Inquiry, InquiryKind, InquiryOption, Kind, Plan, Question,
    ToolSpec,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// `2026-03-01T09:30:00.125Z`.
pub const AT: u64 = 1_772_357_400_125;

pub fn post(path: &str, body: &str) -> Request {
    let mut headers = Headers::default();
    headers.push("Content-Type", "application/json");
    Request {
        method: Method::Post,
        path: path.into(),
        query: Vec::new(),
        version: Version::Http11,
        headers,
        body: body.into(),
        keep_alive: true,
    }
}

pub fn prompt(id: &str, text: &str) -> Message {
    Message::new(id, Role::User, vec![Part::text(text)])
}

/// Task `t-1` in context `c-1`, at work in its first turn, event 9 being the last.
pub fn state() -> State {
    let created = Arc::new(Created {
        context: "c-1".into(),
        protocol: Protocol::V03,
        profile: Profile::Coder,
        model: "gemini-x".into(),
        ..created("t-1")
    });
    let mut state = State::new(created.clone(), &record(Event::Created(created)));
    state.status.state = TaskState::Working;
    state.announced = TaskState::Working;
    state.turn.number = 1;
    state.turn.trace = Some("trace-1".into());
    state.turn.usage = Some(Usage { prompt: 10, output: 7, total: 17, ..Usage::default() });
    state
}

/// The record of an event with the sequence number 9.
pub fn record(event: Event) -> Record {
    Record { seq: Seq(9), at: AT, event }
}

pub fn call(name: &str, args: Value, question: Option<Question>) -> CallState {
    let request = answer::Request { call: "call-1".into(), name: name.into(), args, api_id: None };
    CallState {
        stage: Stage::Planned,
        plan: question.map(|question| Arc::new(Plan { title: "What it does".into(), question, base: None })),
        ..CallState::named(request)
    }
}

pub fn inquiry(kind: InquiryKind, options: &[&str]) -> Inquiry {
    let option = |label: &&str| InquiryOption { label: (*label).into(), description: String::new() };
    Inquiry {
        question: "Which one?".into(),
        header: "Which".into(),
        kind,
        options: options.iter().map(option).collect(),
        multi_select: false,
        placeholder: None,
    }
}

pub const DIFF: &str = "Index: a.txt\n--- a.txt\n+++ a.txt\n@@ -1,1 +1,1 @@\n-old\n+newer\n";

pub fn edit() -> Question {
    Question::Edit {
        title: "Confirm Write: a.txt".into(),
        file_name: "a.txt".into(),
        file_path: "/w/a.txt".into(),
        diff: DIFF.into(),
        old: Some("old\n".into()),
        new: "newer\n".into(),
    }
}

pub fn mcp(warnings: &[&str]) -> Question {
    Question::Mcp {
        title: "Confirm MCP Tool x".into(),
        server: "x".into(),
        tool: "put".into(),
        display_name: "put (x MCP Server)".into(),
        args: json!({"to": "a\u{202e}b"}),
        description: "Puts it.".into(),
        schema: json!({"type": "object"}),
        warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
    }
}

/// A question about a call of an MCP tool as text.
pub const MCP_TEXT: &str = "Call put of the MCP server x?\n{\n  \"to\": \"a⟨U+202E⟩b\"\n}\nIt changed.";

pub fn tools() -> Tools {
    Tools::new(&[
        ToolSpec {
            output_is_markdown: true,
            ..ToolSpec::new(
                "write_file",
                "WriteFile",
                Kind::Edit,
                "Writes a file.",
                json!({"type": "object", "required": ["file_path"]}),
            )
        },
        ToolSpec::new("run_shell_command", "Shell", Kind::Execute, "Runs a command.", json!({"type": "object"})),
    ])
}

pub fn source() -> Source {
    Source::new("ada", "a2a-1.0")
}

pub fn shell(id: &str, command: &str) -> (answer::Request, Arc<Plan>) {
    let request = answer::Request {
        call: id.into(),
        name: "run_shell_command".into(),
        args: json!({ "command": command }),
        api_id: None,
    };
    let plan = Plan {
        title: format!("Running {command}"),
        question: Question::Exec {
            title: "Confirm".into(),
            command: command.into(),
            programs: vec![command.into()],
            dir: None,
            warnings: vec![],
            needs_approval: None,
            edits: vec![],
        },
        base: None,
    };
    (request, Arc::new(plan))
}

pub fn says(text: &str) -> Event {
    Event::Text { text: text.into() }
}

pub fn answers(text: &str, calls: Vec<answer::Request>) -> Event {
    Event::Answered { answer: Arc::new(Answer::new(text, calls)) }
}

pub fn succeeds(call: &str, text: &str) -> Event {
    Event::CallEnded {
        call: call.into(),
        ending: Arc::new(Ending::Success { output: text.into(), display: Display::Text { text: text.into() } }),
    }
}

/// A prompt, and the beginning of its turn.
pub fn begins(turn: u32) -> Vec<Event> {
    let message = Arc::new(prompt(&format!("m-{turn}"), "go"));
    let by = source();
    vec![Event::Prompted { message, by, turn, delivery: Default::default() }, Event::TurnBegan { turn }]
}

/// One turn: the agent sends text, runs a command that a client approves, and sends text again.
pub fn approved_command() -> Vec<Event> {
    let call = || "call-1".into();
    let (request, plan) = shell("call-1", "make");
    let mut events = vec![Event::Created(state().created)];
    events.extend(begins(1));
    events.extend([
        says("Let me see."),
        answers("Let me see.", vec![request]),
        Event::CallPlanned { call: call(), plan },
        Event::CallAsked { call: call(), keeping: ApprovalScope::Session },
        Event::Paused,
        Event::CallAnswered {
            call: call(),
            choice: Choice::ProceedOnce,
            by: source(),
            edited: None,
            answers: None,
            rules: vec![],
        },
        Event::CallReady { call: call(), confinement: Confinement::None },
        Event::CallStarted { call: call() },
        Event::CallOutput { call: call(), text: "1".into() },
        succeeds("call-1", "1"),
        Event::ResultsSent,
        says("It "),
        says("works."),
        answers("It works.", vec![]),
        Event::TurnEnded { turn: 1, end: End::Done, by: None },
    ]);
    events
}

/// The records of these events, one per millisecond, each with the state right after it.
pub fn fold(events: Vec<Event>) -> Vec<(Record, State)> {
    let mut folded = Vec::new();
    let mut state = None;
    for (n, event) in (1..).zip(events) {
        let record = Record { seq: Seq(n), at: AT + n, event };
        let after = State::advance(&mut state, &record).expect("a log begins with its task");
        folded.push((record, after.clone()));
    }
    folded
}

pub fn write_file_shown() -> Value {
    let schema = json!({"type": "object", "required": ["file_path"]});
    json!({"name": "write_file", "displayName": "WriteFile", "description": "Writes a file.", "kind": "edit",
        "isOutputMarkdown": true, "canUpdateOutput": false,
        "schema": {"name": "write_file", "description": "Writes a file.", "parametersJsonSchema": schema},
        "parameterSchema": schema})
}
