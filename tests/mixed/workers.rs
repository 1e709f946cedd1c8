//! The only tool of the session, and the notes that the workers of a job send.

use crate::random::Random;
use gemini_a2a::task::log::answer::{Answer, Request};
use gemini_a2a::task::machine::job::{Job, NoteBody, RunEnd, Work};
use gemini_a2a::task::spec::{Display, Ending, Kind, Plan, Question, ToolSpec};
use serde_json::json;

pub fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec::new("shell", "Shell", Kind::Execute, "Runs a command.", json!({"type": "object"}))]
}

/// The notes of a job, in order.
pub fn work(job: &Job, chance: &mut Random) -> Vec<NoteBody> {
    match &job.work {
        Work::Think(think) => {
            let mut notes = vec![NoteBody::Thought { subject: "Considering".into(), description: "what to do".into() }];
            let chunks = 1 + chance.below(4);
            notes.extend((0..chunks).map(|n| NoteBody::Text(format!("chunk {n} "))));
            let calls = match think.round {
                0 => 1 + chance.below(3),
                _ => 0,
            };
            let call = |n| Request {
                call: "".into(),
                name: "shell".into(),
                args: json!({"command": format!("make {n}")}),
                api_id: None,
            };
            let text: String = (0..chunks).map(|n| format!("chunk {n} ")).collect();
            notes.push(NoteBody::Answered(Ok(Answer::new(&text, (0..calls).map(call)))));
            notes
        }
        Work::Prepare { calls, .. } => {
            let plan = |request: &Request| {
                Ok(Plan {
                    title: "make something".into(),
                    question: Question::Exec {
                        title: "Run it?".into(),
                        command: request.args["command"].to_string(),
                        programs: vec!["make".into()],
                        warnings: Vec::new(),
                        needs_approval: None,
                        edits: Vec::new(),
                        dir: None,
                    },
                    base: None,
                })
            };
            vec![NoteBody::Prepared(calls.iter().map(plan).collect())]
        }
        Work::Run(_) => {
            let lines = chance.below(4);
            let mut notes: Vec<NoteBody> = (0..lines).map(|n| NoteBody::Output(format!("line {n}\n"))).collect();
            notes.push(NoteBody::Ended(RunEnd::Ended(Ending::Success {
                output: "made".into(),
                display: Display::Text { text: "made".into() },
            })));
            notes
        }
        other => panic!("this session has no job {other:?}"),
    }
}
