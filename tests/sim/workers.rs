//! The work that the core hands out: model requests, tools, disk jobs. Each job sends random notes at its own speed; some fail,
//! some die, and a stopped job may send more notes.

use crate::random::Random;
use gemini_a2a::base::id::CallId;
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::compute::Computation;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::task::log::answer::{Answer, Request};
use gemini_a2a::task::log::blob::{FileChange, FileVersion};
use gemini_a2a::task::log::event::Outcome;
use gemini_a2a::task::machine::job::{Job, JobId, ModelError, ModelErrorKind, NoteBody, RunEnd, Work};
use gemini_a2a::task::message::{Artifact, Part};
use gemini_a2a::task::spec::{Base, CallError, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// One tool of each kind that the machine distinguishes.
pub fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, kind, by_default| ToolSpec {
        by_default,
        ..ToolSpec::new(name, name, kind, &format!("Does {name}."), json!({"type": "object"}))
    };
    vec![
        tool("look", Kind::Read, Verdict::Allow),
        tool("edit", Kind::Edit, Verdict::Ask),
        tool("shell", Kind::Execute, Verdict::Ask),
        tool("sweep", Kind::Execute, Verdict::Allow),
        tool("forbidden", Kind::Other, Verdict::Deny),
    ]
}

/// A running job: the notes that it has yet to send, and when.
pub struct Worker {
    pub job: JobId,
    /// It was stopped.
    pub stopped: bool,
    pub notes: VecDeque<(u64, NoteBody)>,
}

impl Worker {
    pub fn new(job: &Job, now_ms: u64, chance: &mut Random) -> Worker {
        let bodies = match &job.work {
            Work::Think(_) | Work::Attach { .. } | Work::Command(_) | Work::Compact(_) => think(chance),
            Work::Prepare { calls, .. } => vec![prepare(calls, chance)],
            Work::Run(run) => self::run(&run.name, &run.call, chance),
        };
        let mut at = now_ms;
        let pace = [5, 50, 400][chance.below(3)];
        let notes = bodies.into_iter().map(|body| {
            at += chance.within(0, pace);
            (at, body)
        });
        Worker { job: job.id.clone(), stopped: false, notes: notes.collect() }
    }

    /// Stops the job: it may end at once or send its other notes first.
    pub fn stop(&mut self, now_ms: u64, chance: &mut Random) {
        self.stopped = true;
        if chance.percent(60) {
            let at = now_ms + chance.within(0, 100);
            self.notes = VecDeque::from([(at, NoteBody::Died("stopped".into()))]);
        }
    }
}

fn think(chance: &mut Random) -> Vec<NoteBody> {
    let mut notes = Vec::new();
    let mut said = String::new();
    if chance.percent(30) {
        notes.push(NoteBody::Traced(format!("trace-{}", chance.below(9))));
    }
    for _ in 0..chance.below(8) {
        notes.push(match chance.below(10) {
            0 => NoteBody::Thought { subject: "Considering".into(), description: "what to do".into() },
            1 => NoteBody::Cited("a book".into()),
            2 => NoteBody::Produced {
                artifact: Artifact {
                    id: format!("a{}", chance.below(2)),
                    name: None,
                    description: None,
                    parts: vec![Part::text("made")],
                },
                append: chance.percent(50),
                last: chance.percent(50),
            },
            _ => {
                let text = "word ".repeat(chance.below(40));
                said += &text;
                NoteBody::Text(text)
            }
        });
    }
    let failed = |kind| {
        let message = "the model is not well".to_owned();
        NoteBody::Answered(Err(ModelError { kind, message }))
    };
    notes.push(match chance.below(20) {
        0 => failed(ModelErrorKind::Fatal),
        1 => NoteBody::Died("a bug in the client".into()),
        2 | 3 => failed(ModelErrorKind::BadStream),
        4 | 5 => failed(ModelErrorKind::Busy { after_ms: chance.percent(50).then(|| chance.within(0, 400)) }),
        _ => NoteBody::Answered(Ok(answer(said, chance))),
    });
    notes
}

fn answer(said: String, chance: &mut Random) -> Answer {
    let names = ["look", "edit", "edit", "shell", "shell", "sweep", "forbidden", "unheard-of"];
    let count = match chance.below(10) {
        0..5 => 0,
        5..8 => 1,
        8 => 2,
        _ => 1 + chance.below(4),
    };
    let calls: Vec<Request> = (0..count)
        .map(|_| {
            let name = *chance.pick(&names).expect("there are names");
            let id = chance.percent(50).then(|| format!("id{}", chance.below(3)));
            unnamed(name.into(), json!({"n": chance.below(9)}), id)
        })
        .collect();
    let verdict = match chance.below(25) {
        0 => Some(Outcome::Ask("which one?".into())),
        1 => Some(Outcome::Auth("who are you?".into())),
        2 => Some(Outcome::Complete("done".into())),
        3 => Some(Outcome::Fail("it broke".into())),
        _ => None,
    };
    Answer { verdict: verdict.filter(|_| calls.is_empty()), ..Answer::new(&said, calls) }
}

fn prepare(calls: &[Request], chance: &mut Random) -> NoteBody {
    if chance.percent(3) {
        return NoteBody::Died("a bug in a tool".into());
    }
    let mut plans: Vec<Result<Plan, CallError>> = Vec::new();
    for request in calls {
        plans.push(match chance.below(12) {
            0 => Err(ErrorKind::InvalidToolParams.error("that cannot be done")),
            _ => Ok(plan(request, chance)),
        });
    }
    NoteBody::Prepared(plans)
}

fn plan(request: &Request, chance: &mut Random) -> Plan {
    let title = format!("{} something", request.name);
    let question = match request.name.as_str() {
        "edit" => Question::Edit {
            title: title.clone(),
            file_name: "f".into(),
            file_path: "/w/f".into(),
            diff: "-a\n+b\n".into(),
            old: Some("a".into()),
            new: "b".repeat(chance.below(300)).into(),
        },
        "shell" => Question::Exec {
            title: title.clone(),
            command: "ls".into(),
            programs: vec!["ls".into()],
            warnings: Vec::new(),
            needs_approval: None,
            edits: Vec::new(),
            dir: None,
        },
        _ => Question::Info { title: title.clone(), prompt: "may I?".into(), urls: Vec::new() },
    };
    Plan { title, question, base: Some(Base::default()) }
}

fn change(call: &CallId, chance: &mut Random) -> FileChange {
    let mut version = || FileVersion {
        sha256: format!("{:064x}", chance.below(4)),
        len: 7,
        mode: 0o644,
        unstored: chance.percent(20),
    };
    let (root, path) = ("/w".into(), "f".into());
    FileChange { call: call.clone(), root, path, before: Some(version()), after: version(), dirs: 0 }
}

fn run(name: &str, call: &CallId, chance: &mut Random) -> Vec<NoteBody> {
    let mut notes = Vec::new();
    for _ in 0..chance.below(5) {
        notes.push(NoteBody::Output("line\n".repeat(chance.below(30))));
    }
    let output = "result ".repeat(chance.below(50));
    notes.push(match chance.below(12) {
        0 => NoteBody::Died("a bug in a tool".into()),
        1 => NoteBody::Ended(RunEnd::Ended(Ending::Error { error: ErrorKind::ExecutionFailed.error("it went wrong") })),
        2..5 if name == "edit" => NoteBody::Ended(RunEnd::Stale),
        5..9 if name == "edit" => {
            NoteBody::Edited { ending: Ending::text(output.clone(), output), changes: vec![change(call, chance)] }
        }
        _ => NoteBody::Ended(RunEnd::Ended(Ending::text(output.clone(), output))),
    });
    notes
}

/// A job of the disk lane or of the lane for computations.
#[derive(Debug)]
pub enum LaneJob {
    Store(StoreRequest),
    Resolve { request: u64, path: String },
    Identify { conn: Key },
    Compute(Computation),
}

/// A tool call that has no id yet.
fn unnamed(name: String, args: Value, api_id: Option<String>) -> Request {
    Request { call: "".into(), name, args, api_id }
}
