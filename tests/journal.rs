//! Journals of older versions: a task that was written by an earlier version of the program looks the same to clients and to the model
//! as it did then. The corpus is described in `tests/corpus/journal/README.txt`.

use gemini_a2a::a2a::{DIALECTS, Tools, View};
use gemini_a2a::base::crc::crc32;
use gemini_a2a::model::history::{Scene, contents};
use gemini_a2a::shell::start::replay;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::spec::{Kind, ToolSpec, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/journal/v1")
}

/// The journals of version 1 with their names, in order.
fn journals() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(corpus()).expect("the corpus is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("text")).collect();
    names.retain(|name| name.ends_with(".jsonl"));
    names.sort();
    names.into_iter().map(|name| (name.clone(), std::fs::read(corpus().join(name)).expect("readable"))).collect()
}

fn records(journal: &[u8]) -> Vec<Record> {
    let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Record::read(line).expect("a record")).collect()
}

fn fold(records: &[Record]) -> State {
    let mut state = None;
    for record in records {
        State::advance(&mut state, record).expect("in place");
    }
    state.expect("a journal is not empty")
}

/// The tools of the journals. Some dialects show a tool's declaration, so they are fixed here.
fn tools() -> Tools {
    let tool = |name: &str, kind| ToolSpec {
        name: name.into(),
        display_name: name.to_uppercase(),
        description: format!("Tool {name}."),
        kind,
        parameters: json!({"type": "object"}),
        by_default: Verdict::Ask,
        output_is_markdown: false,
        has_live_output: kind == Kind::Execute,
    };
    Tools::new(&[
        tool("write_file", Kind::Edit),
        tool("edit", Kind::Edit),
        tool("run_shell_command", Kind::Execute),
        tool("shell", Kind::Execute),
        tool("read_file", Kind::Read),
        tool("read", Kind::Read),
    ])
}

/// What clients of every other dialect and the model see of the journal.
fn seen(name: &str, journal: &[u8]) -> String {
    let tools = tools();
    let records = records(journal);
    let state = fold(&records);
    let mut out = String::new();
    for (dialect, view) in DIALECTS.iter().filter(|(_, view)| *view != View::Own) {
        let (mut events, mut end) = (Vec::new(), Vec::new());
        replay::events(journal, *view, &tools, &mut events).expect("a transcript");
        replay::snapshot(journal, *view, state.seq, &mut end).expect("a task");
        writeln!(out, "{name} {dialect} {:08x} {:08x}", crc32(&events), crc32(&end)).expect("memory");
    }
    let scene = Scene { workspace: "/w", os: "linux", date: "2026-03-01", tree: "", memory: "" };
    writeln!(out, "{name} {}", Value::from(contents(&state.history, &scene))).expect("memory");
    out
}

#[test]
fn journals_of_version_1_look_as_they_did() {
    let all: String = journals().iter().map(|(name, journal)| seen(name, journal)).collect();
    let expected = std::fs::read_to_string(corpus().join("expected.txt")).expect("what was seen then");
    for (line, then) in all.lines().zip(expected.lines()) {
        assert_eq!(line, then);
    }
    assert_eq!(all.lines().count(), expected.lines().count());
}
