//! Values for the tests of this layer: one task in mid-turn, two tools, requests as a client sends them.

use crate::a2a::tools::Tools;
use crate::base::http::{Headers, Method, Request, Version};
use crate::base::id::Seq;
use crate::task::event::{self, Created, Event, Lifecycle, Profile, Protocol, Usage};
use crate::task::message::{Message, Part, Role};
use crate::task::policy::Mode;
use crate::task::record::Record;
use crate::task::spec::{Kind, Plan, Question, ToolSpec, Verdict};
use crate::task::state::{CallState, Stage, State, TaskState};
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
    Message {
        id: id.into(),
        role: Role::User,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    }
}

/// Task `t-1` in context `c-1`, at work in its first turn, event 9 being the last.
pub fn state() -> State {
    let created = Arc::new(Created {
        task: "t-1".into(),
        context: "c-1".into(),
        tenant: Default::default(),
        parent: None,
        lifecycle: Lifecycle::Conversational,
        protocol: Protocol::V03,
        profile: Profile::Coder,
        workspace: "/w".into(),
        trusted: false,
        model: "gemini-x".into(),
        mode: Mode::Default,
        auto_execute: false,
    });
    let mut state = State::born(created.clone(), &record(Event::Created(created)));
    state.status.state = TaskState::Working;
    state.told = TaskState::Working;
    state.turn = 1;
    state.trace = Some("trace-1".into());
    state.usage = Some(Usage {
        prompt_token_count: 10,
        candidates_token_count: 7,
        total_token_count: 17,
        ..Usage::default()
    });
    state
}

/// An event as number 9.
pub fn record(event: Event) -> Record {
    Record {
        seq: Seq(9),
        at: AT,
        event,
    }
}

pub fn call(name: &str, args: Value, question: Option<Question>) -> CallState {
    CallState {
        request: event::Request {
            call: "call-1".into(),
            name: name.into(),
            args,
            api_id: None,
        },
        stage: Stage::Planned,
        plan: question.map(|question| {
            Arc::new(Plan {
                title: "What it does".into(),
                question,
                base: None,
            })
        }),
        choice: None,
        answered_by: None,
        edited: None,
        answers: None,
        outputs: 0,
        ending: None,
        stale: 0,
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

pub fn tools() -> Tools {
    Tools::new(&[
        ToolSpec {
            name: "write_file".into(),
            display_name: "WriteFile".into(),
            description: "Writes a file.".into(),
            kind: Kind::Edit,
            parameters: json!({"type": "object", "required": ["file_path"]}),
            by_default: Verdict::Ask,
            output_is_markdown: true,
            has_live_output: false,
        },
        ToolSpec {
            name: "run_shell_command".into(),
            display_name: "Shell".into(),
            description: "Runs a command.".into(),
            kind: Kind::Execute,
            parameters: json!({"type": "object"}),
            by_default: Verdict::Ask,
            output_is_markdown: false,
            has_live_output: true,
        },
    ])
}

pub fn write_file_shown() -> Value {
    let schema = json!({"type": "object", "required": ["file_path"]});
    json!({"name": "write_file", "displayName": "WriteFile", "description": "Writes a file.", "kind": "edit",
        "isOutputMarkdown": true, "canUpdateOutput": false,
        "schema": {"name": "write_file", "description": "Writes a file.", "parametersJsonSchema": schema},
        "parameterSchema": schema})
}
