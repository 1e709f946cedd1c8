//! Fixtures: sessions in the states that tests start from, and records of the server.

use crate::session::{Session, setup};
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::ui::Input;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub fn created(task: &str) -> Value {
    json!({"created": {"task": task, "context": task, "lifecycle": "conversational", "protocol": "0.3", "profile": "coder",
        "workspace": "/home/ann/src/parser", "trusted": true, "model": "gemini-pro", "mode": "default"}})
}

pub fn by(client: &str) -> Value {
    json!({"client": client, "via": if client == "you" { "terminal" } else { "a2a-0.3" }})
}

pub fn prompted(turn: u32, client: &str, text: &str) -> Value {
    let message = json!({"id": format!("m-{turn}"), "role": "user", "parts": [{"content": {"text": text}}]});
    json!({"prompted": {"message": message, "by": by(client), "turn": turn}})
}

/// A session whose agent is busy with a prompt.
pub fn busy() -> Session {
    let mut session = Session::connected(setup(), 80, 24);
    session.event(prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    session
}

pub fn command(text: &str) -> Value {
    json!({"exec": {"title": "t", "command": text, "programs": ["x"], "dir": "/home/ann/src/parser"}})
}

pub fn edit() -> Value {
    json!({"edit": {"title": "t", "file_name": "a.rs", "file_path": "/home/ann/src/parser/a.rs",
        "diff": "@@ -1,1 +1,1 @@\n-a\n+b\n", "old": "a\n", "new": "b\n"}})
}

/// The model makes a call.
pub fn called(id: &str, name: &str, args: Value) -> Value {
    json!({"answered": {"answer": {"parts": [{"call": {"id": id, "name": name, "args": args}}]}}})
}

pub fn planned(question: Value) -> Value {
    json!({"call_planned": {"call": "c-1", "plan": {"title": "x", "question": question}}})
}

pub fn ended(text: &str) -> Value {
    json!({"call_ended": {"call": "c-1", "ending": {"success": {"output": "x", "display": {"text": {"text": text}}}}}})
}

pub fn answered_by(client: &str, choice: &str) -> Value {
    json!({"call_answered": {"call": "c-1", "choice": choice, "by": by(client)}})
}

/// The model makes a call that waits for an answer.
pub fn ask(session: &mut Session, question: Value) {
    session.event(called("c-1", "run_shell_command", json!({})));
    session.event(planned(question));
    session.event(json!({"call_asked": {"call": "c-1"}}));
}

/// A session with a question that takes keys.
pub fn asked(question: Value) -> Session {
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, question);
    session.wait(400);
    session
}

pub fn is_focused(session: &Session) -> bool {
    !session.vt.visible
}

/// The names of all events, read from the error message for an unknown event.
pub fn event_names() -> BTreeSet<String> {
    let unknown = serde_json::from_value::<Event>(json!("no such event")).expect_err("there is no such event");
    let message = unknown.to_string();
    let (_, expected) = message.split_once("expected one of ").expect("the names follow");
    expected.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

/// The records of a journal, as the server sends them.
pub fn frames(path: &Path) -> Vec<String> {
    let journal = std::fs::read(path).expect("readable");
    let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records: Vec<Record> = lines.map(|line| Record::read(line).expect("a record")).collect();
    let frame =
        |record: &Record| json!({"task": "t-1", "seq": record.seq, "at": record.at, "event": record.event}).to_string();
    records.iter().map(frame).collect()
}

/// Journals of every version.
pub fn journals() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/journal");
    let folders = ["v1", "v2"].map(|version| std::fs::read_dir(corpus.join(version)).expect("the corpus is there"));
    let mut all: Vec<PathBuf> = folders.into_iter().flatten().map(|entry| entry.expect("readable").path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    all.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/story.jsonl"));
    all.sort();
    all
}

pub fn watching(columns: usize) -> Session {
    let mut session = Session::new(setup(), columns, 30);
    session.take(Input::Connected);
    session.reply("session", json!("t-1"));
    session
}
