//! Journals of older versions: a task that was written by an earlier version of the program looks the same to clients and to the model
//! as it did then. The corpus is described in `tests/corpus/journal/README.txt`.

use gemini_a2a::a2a::{Tools, named_views};
use gemini_a2a::base::crc::crc32;
use gemini_a2a::base::id::Seq;
use gemini_a2a::model::history::{HistoryContext, ResultMedia, contents};
use gemini_a2a::shell::start::replay::{self, Log};
use gemini_a2a::task::log::blob::MemoryBlobs;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::spec::{Kind, ToolSpec};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::PathBuf;

/// The name of the native dialect (`gemini-a2a.v1`) in [`DIALECTS`].
const OWN: &str = "own";

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
    let tool = |name: &str, kind| {
        ToolSpec::new(name, &name.to_uppercase(), kind, &format!("Tool {name}."), json!({"type": "object"}))
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

/// What clients of the native dialect see of a journal.
fn own(journal: &[u8]) -> String {
    let mut out = Vec::new();
    let (_, view) = named_views().find(|(name, _)| *name == OWN).expect("our own dialect");
    replay::events(Log { journal, blobs: &MemoryBlobs::default() }, view, &tools(), &mut out).expect("a transcript");
    String::from_utf8(out).expect("JSON is text")
}

/// What clients of every other dialect and the model see of a journal.
fn seen(name: &str, journal: &[u8]) -> String {
    let tools = tools();
    let records = records(journal);
    let state = fold(&records);
    let mut out = String::new();
    for (dialect, view) in named_views().filter(|(name, _)| *name != OWN) {
        let (mut events, mut end) = (Vec::new(), Vec::new());
        replay::events(Log { journal, blobs: &MemoryBlobs::default() }, view, &tools, &mut events)
            .expect("a transcript");
        replay::snapshot(Log { journal, blobs: &MemoryBlobs::default() }, view, state.seq, &mut end).expect("a task");
        writeln!(out, "{name} {dialect} {:08x} {:08x}", crc32(&events), crc32(&end)).expect("memory");
    }
    let scene = HistoryContext {
        workspace: "/w",
        directories: &[],
        os: "linux",
        date: "2026-03-01",
        tree: "",
        memory: "",
        servers: "",
        media: ResultMedia::Inside,
    };
    writeln!(out, "{name} {}", Value::from(contents(&state.history, &scene))).expect("memory");
    out
}

/// Clients of `gemini-a2a.v1` are shown the newest form: what this version would have written.
#[test]
fn journals_of_version_1_are_written_again_as_version_2() {
    for (name, journal) in journals() {
        let old = records(&journal);
        // A file of version 1 that continues with lines of version 2.
        let mut mixed: Vec<u8> = journal.split_inclusive(|byte| *byte == b'\n').take(2).flatten().copied().collect();
        let (mut new, mut begun) = (Vec::new(), 0);
        for record in &old {
            record.write(&mut new);
            begun = if record.seq <= Seq(2) { new.len() } else { begun };
        }
        mixed.extend_from_slice(&new[begun..]);
        for other in [&new, &mixed] {
            assert_eq!(records(other), old, "{name}");
            assert_eq!(own(other), own(&journal), "{name}");
        }
    }
}

#[test]
fn journals_of_version_2_are_written_again_as_they_are() {
    let file = corpus().join("../v2/00.jsonl");
    let journal = std::fs::read(&file).expect("the corpus is there");
    let mut again = Vec::new();
    records(&journal).iter().for_each(|record| record.write(&mut again));
    assert_eq!(String::from_utf8(again), String::from_utf8(journal.clone()));
    let state = fold(&records(&journal));
    let named: Vec<String> = state.blobs.keys().map(|hash| hash[..1].to_owned()).collect();
    assert_eq!(named.concat(), "abcdef", "clients may read all stored content");
    assert_eq!(state.stored_bytes(), 0, "nothing is left to show of calls that have ended");
    let scene = HistoryContext {
        workspace: "/w",
        directories: &[],
        os: "linux",
        date: "2026-03-01",
        tree: "",
        memory: "",
        servers: "",
        media: ResultMedia::Inside,
    };
    let shown = Value::from(contents(&state.history, &scene)).to_string();
    assert!(shown.contains("stored apart from the log") && shown.contains("Media of 60000 bytes"), "{shown}");
}

#[test]
fn every_event_is_in_the_corpus() {
    let known: HashSet<String> = journals()
        .iter()
        .flat_map(|(_, journal)| records(journal))
        .map(|record| match serde_json::to_value(&record.event).expect("an event") {
            Value::String(name) => name,
            Value::Object(event) => event.keys().next().expect("a name").clone(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(known.len(), 39);
}

#[test]
fn journals_of_version_1_look_the_same_to_clients_and_the_model() {
    let all: String = journals().iter().map(|(name, journal)| seen(name, journal)).collect();
    let file = corpus().join("expected.txt");
    // Written again as golden transcripts are, if a dialect is changed on purpose.
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        std::fs::write(&file, &all).expect("the corpus can be written");
    }
    let expected = std::fs::read_to_string(file).expect("what was seen then");
    for (line, then) in all.lines().zip(expected.lines()) {
        assert_eq!(line, then);
    }
    assert_eq!(all.lines().count(), expected.lines().count());
}
