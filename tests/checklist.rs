//! Eighty-seven behaviours that the reference server's own tests check, ninety of MCP servers and related features, and our tests that
//! check them.
//!
//! Every number has one line in [`CHECKLIST`] or [`CHECKS`]: it names the tests that would fail if the behaviour were lost, or says why
//! there is none. A renamed test breaks this one, so the list stays correct. Below are tests that
//! belong to no other file: most of them compare all frames of a whole stream.

mod support;

#[path = "checklist/list.rs"]
mod list;
#[path = "checklist/mcp.rs"]
mod mcp;

use list::{CHECKLIST, Coverage};
use mcp::CHECKS;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use support::TempDir;
use support::client::{Client, Event};
use support::fake::FakeGemini;
use support::message::{approval, asked_of, call_of, kind_of, prompt, state_of, task_of};
use support::server::{Server, Setup};

#[test]
fn every_number_is_listed_once_and_in_order() {
    for (list, count) in [(CHECKLIST, 87), (CHECKS, 90)] {
        let numbers: Vec<u32> = list.iter().map(|line| line.0).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<u32>>());
    }
    let untested = CHECKS.iter().filter(|(.., held)| matches!(held, Coverage::NotCovered(_))).count();
    assert!(untested <= 5, "{untested} checks have no test");
}

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts: HashMap<&str, String> = HashMap::new();
    let mut missing = vec![];
    for (number, what, held) in CHECKLIST.iter().chain(CHECKS) {
        let tests = match held {
            Coverage::Covered(tests) => *tests,
            Coverage::NotCovered(reason) => {
                assert!(!reason.is_empty(), "({number}) {what}: no reason");
                continue;
            }
        };
        assert!(!tests.is_empty(), "({number}) {what}: no test");
        for name in tests {
            let (file, test) = name.split_once("::").expect("a file and a test");
            let text = texts.entry(file).or_insert_with(|| {
                let path = root.join(file);
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("({number}) {}: {error}", path.display()))
            });
            if !is_test(text, test) {
                missing.push(format!("({number}) {name}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Whether there is a function of this name, marked as a test by one of the attributes right above it.
fn is_test(text: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(&head)) else {
        return false;
    };
    let above = lines[..at].iter().rev();
    above.take_while(|line| line.starts_with("#[")).any(|line| *line == "#[test]")
}

#[test]
fn a_function_without_the_test_attribute_is_not_a_test() {
    let text = "#[test]\n#[should_panic]\nfn marked() {\n}\n#[inline]\nfn plain() {\n}\n";
    assert!(is_test(text, "marked"));
    assert!(!is_test(text, "plain") && !is_test(text, "mark") && !is_test(text, "absent"));
}

struct Fixture {
    fake: FakeGemini,
    server: Server,
}

impl Fixture {
    fn new(arrange: impl FnOnce(Setup) -> Setup) -> Fixture {
        let fake = FakeGemini::start();
        let server = arrange(Setup::new(&fake)).start();
        Fixture { fake, server }
    }

    /// A server in mode `yolo`.
    fn without_questions() -> Fixture {
        Fixture::new(|setup| setup.arg("--trust-workspace").env("GEMINI_YOLO_MODE", "true"))
    }

    fn stream(&self, params: Value) -> Vec<Event> {
        let client = Client::new(&self.server.url());
        client.stream("message/stream", params).collect()
    }

    /// Every frame of a new task's first turn, as [`outline`].
    fn turn(&self, script: &str) -> Vec<String> {
        outline(&self.stream(prompt(script)))
    }
}

/// Each frame as one line: its kind or state, and the number of its call in order of appearance.
fn outline(events: &[Event]) -> Vec<String> {
    let mut calls: Vec<Value> = vec![];
    let mut lines = vec![];
    for event in events {
        let result = event.result();
        let state = state_of(result).unwrap_or("?");
        let mut line = match result["kind"].as_str() {
            Some("status-update") => match kind_of(result) {
                "state-change" => state.to_owned(),
                kind => kind.to_owned(),
            },
            other => format!("{} {state}", other.unwrap_or("?")),
        };
        let data = call_of(result);
        let call = &data["request"]["callId"];
        if call.is_string() {
            if !calls.contains(call) {
                calls.push(call.clone());
            }
            let number = calls.iter().position(|known| known == call).unwrap_or(0) + 1;
            let status = data["status"].as_str().unwrap_or("?");
            line.push_str(&format!(" {number} {status}"));
        }
        if event.is_final() {
            line.push_str(" final");
        }
        lines.push(line);
    }
    lines
}

#[test]
fn a_text_reply_is_four_frames() {
    let fixture = Fixture::new(|setup| setup);
    assert_eq!(fixture.turn("TEXT Hello."), ["task submitted", "working", "text-content", "input-required final"]);
}

/// Before the first call there is one more `working`: the model has answered, and its calls are being prepared.
#[test]
fn a_question_is_asked_in_six_frames_and_two_in_eight() {
    let fixture = Fixture::new(|setup| setup);
    assert_eq!(
        fixture.turn("WRITE a.txt x"),
        [
            "task submitted",
            "working",
            "working",
            "tool-call-update 1 scheduled",
            "tool-call-confirmation 1 awaiting_approval",
            "input-required final",
        ]
    );
    assert_eq!(
        fixture.turn("PARALLEL"),
        [
            "task submitted",
            "working",
            "working",
            "tool-call-update 1 scheduled",
            "tool-call-update 2 scheduled",
            "tool-call-confirmation 1 awaiting_approval",
            "tool-call-confirmation 2 awaiting_approval",
            "input-required final",
        ]
    );
}

/// The reference server repeats `scheduled` three times here, which adds nothing.
#[test]
fn an_unasked_call_shows_each_status_once() {
    let expected = [
        "task submitted",
        "working",
        "working",
        "tool-call-update 1 scheduled",
        "tool-call-update 1 executing",
        "tool-call-update 1 success",
        "working",
        "text-content",
        "input-required final",
    ];
    let harmless = Fixture::new(|setup| setup);
    assert_eq!(harmless.turn("LS . ;; TEXT Seen."), expected);
    let daring = Fixture::without_questions();
    assert_eq!(daring.turn("WRITE a.txt x ;; TEXT Written."), expected);
}

/// The two calls may end in either order, so each is compared by itself.
#[test]
fn two_unasked_calls_run_to_their_end() {
    let fixture = Fixture::without_questions();
    let frames = fixture.turn("PARALLEL ;; TEXT Both.");
    for call in ["1", "2"] {
        let prefix = format!("tool-call-update {call} ");
        let statuses: Vec<&str> = frames.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
        assert_eq!(statuses, ["scheduled", "executing", "success"], "{call}");
    }
    assert!(!frames.iter().any(|line| line.contains("confirmation")));
    assert_eq!(&frames[frames.len() - 3..], ["working", "text-content", "input-required final"]);
    let ends = frames.iter().filter(|line| line.ends_with("final"));
    assert_eq!(ends.count(), 1);
}

/// If the user edits the content of a call, the model still gets its own call back.
#[test]
fn a_call_is_sent_back_to_the_model_unchanged() {
    let fixture = Fixture::new(|setup| setup);
    let asked = fixture.stream(prompt("WRITE a.txt model"));
    let question = asked.iter().map(Event::result).find(|result| asked_of(result).is_some()).expect("a question");
    let task = task_of(question).expect("a task");
    let call = asked_of(question).expect("a call");
    let mut answer = approval(task, call, "proceed_once");
    answer["message"]["parts"][0]["data"]["newContent"] = json!("user");
    fixture.stream(answer);
    let written = std::fs::read_to_string(fixture.server.workspace().join("a.txt"));
    assert_eq!(written.ok().as_deref(), Some("user"));
    let turns = fixture.fake.turns();
    let contents = turns.last().expect("a turn").body["contents"].clone();
    let parts: Vec<&Value> = contents
        .as_array()
        .expect("a history")
        .iter()
        .flat_map(|content| content["parts"].as_array().into_iter().flatten())
        .filter(|part| part["functionCall"].is_object())
        .map(|part| &part["functionCall"]["args"])
        .collect();
    assert_eq!(parts, [&json!({"file_path": "a.txt", "content": "model"})]);
}

/// Checked in the kernel's table of listening sockets, because a test cannot connect from another machine.
#[test]
fn nobody_outside_this_machine_can_connect() {
    let fixture = Fixture::new(|setup| setup);
    let port = format!("{:04X}", fixture.server.port());
    let mut listening = vec![];
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for row in text.lines().skip(1) {
            let fields: Vec<&str> = row.split_whitespace().collect();
            let (address, at) = fields[1].rsplit_once(':').expect("an address and a port");
            if fields[3] == "0A" && at == port {
                listening.push(address.to_owned());
            }
        }
    }
    let loopback = ["0100007F", "00000000000000000000000001000000"];
    assert!(!listening.is_empty());
    assert!(listening.iter().all(|address| loopback.contains(&address.as_str())), "{listening:?}");
}

/// A tool that the user's settings exclude is not declared. If the model calls it anyway, it does not run, nobody is asked, and the model
/// gets the reason.
#[test]
fn an_excluded_tool_does_not_run() {
    for tools in [json!({"exclude": ["write_file"]}), json!({"core": ["read_file"]})] {
        let home = TempDir::new("home");
        let file = home.folder(".gemini").join("settings.json");
        std::fs::write(file, json!({ "tools": tools }).to_string()).expect("a file");
        let fixture = Fixture::new(|setup| setup.env("HOME", home.path()));
        assert_eq!(
            fixture.turn("WRITE a.txt x ;; TEXT Well."),
            [
                "task submitted",
                "working",
                "working",
                "tool-call-update 1 scheduled",
                "tool-call-update 1 error",
                "working",
                "text-content",
                "input-required final",
            ],
            "{tools}"
        );
        assert!(!fixture.server.workspace().join("a.txt").exists());
        let turns = fixture.fake.turns();
        let body = &turns.last().expect("a turn").body;
        let contents = body["contents"].to_string();
        assert!(contents.contains("This call of write_file is not allowed here"), "{contents}");
        let declared = body["tools"].to_string();
        assert!(declared.contains("\"read_file\""), "{declared}");
        assert!(!declared.contains("\"write_file\""), "{declared}");
    }
}

/// Further ignore files hide what they name from tools, whether a setting or a variable names them.
#[test]
fn further_ignore_files_come_from_settings_and_a_variable() {
    let home = TempDir::new("home");
    let file = home.folder(".gemini").join("settings.json");
    let settings = json!({ "fileFiltering": { "customIgnoreFilePaths": [".one"] } });
    std::fs::write(file, settings.to_string()).expect("a file");
    let fixture = Fixture::new(|setup| setup.env("HOME", home.path()).env("CUSTOM_IGNORE_FILE_PATHS", ".two"));
    let workspace = fixture.server.workspace();
    for (name, text) in [(".one", "a.txt\n"), (".two", "b.txt\n"), ("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")] {
        std::fs::write(workspace.join(name), text).expect("the workspace is ours");
    }
    fixture.turn("CALL glob {\"pattern\":\"*.txt\"} ;; TEXT Well.");
    let turns = fixture.fake.turns();
    let contents = turns.last().expect("a turn").body["contents"].to_string();
    assert!(contents.contains("/c.txt"), "{contents}");
    assert!(!contents.contains("/a.txt") && !contents.contains("/b.txt"), "{contents}");
}
