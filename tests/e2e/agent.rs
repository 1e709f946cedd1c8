//! The context that the model gets: the mode, memory, directories.

use crate::drive::{Fixture, task_in};
use crate::support::client::Event;
use crate::support::message::{approval, call_of, call_status_of, prompt_in, state_of, text_of};
use crate::support::socket::Socket;
use crate::support::{TempDir, turn_rules};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The last model request.
pub fn request(fixture: &Fixture) -> Value {
    let request = fixture.fake.turns().pop().expect("a request").body;
    turn_rules::check(&request);
    request
}

pub fn instruction(request: &Value) -> &str {
    request["systemInstruction"]["parts"][0]["text"].as_str().expect("a text")
}

pub fn declared(request: &Value) -> Vec<&str> {
    let tools = request["tools"][0]["functionDeclarations"].as_array().expect("tools");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn in_plan_mode_the_model_gets_instructions_and_no_tools_that_write() {
    let fixture = Fixture::with(|setup| setup.args(["--approval-mode", "plan"]));
    let events = fixture.say("WRITE a.txt x ;; TEXT I planned.");
    let request = request(&fixture);
    assert!(instruction(&request).contains("You are planning."));
    let declared = declared(&request);
    assert!(
        ["read_file", "grep_search", "glob", "ask_user"].iter().all(|name| declared.contains(name)),
        "{declared:?}"
    );
    for name in ["write_file", "replace", "run_shell_command"] {
        assert!(!declared.contains(&name), "{name} is declared");
    }
    // A call of such a tool is refused anyway.
    let ended = events.iter().find(|event| call_status_of(event.result()) == "error").expect("it is refused");
    assert_eq!(call_of(ended.result())["response"]["errorType"], "policy_violation");
    assert_eq!(fixture.file("a.txt"), None);
    // The tools follow the mode of the task.
    let mut socket = Socket::open(&fixture.server.url(), "/ws", Some("gemini-a2a.v1"));
    let task = task_in(&events);
    socket.send(&json!({"id": 1, "call": {"tune": {"task": task, "mode": "default"}}}));
    assert!(socket.until(|frame| frame["id"] == 1)["error"].is_null());
    let _ = fixture.client().stream("message/stream", prompt_in(&task, "TEXT x")).count();
    let request = self::request(&fixture);
    assert!(!instruction(&request).contains("planning") && self::declared(&request).contains(&"write_file"));
}

#[test]
fn a_conversation_that_is_too_long_for_the_model_is_summarised_or_refused() {
    let fixture = Fixture::new();
    let text = |megabytes: usize, script: &str| format!("{script}\n{}", "word ".repeat(megabytes * 200_000));
    let events = fixture.say(&text(5, "TEXT never"));
    let last = events.last().expect("an end").result();
    let answer = text_of(last);
    assert!(answer.contains("reads 1048576") && answer.contains("begin a new conversation"), "{answer}");
    assert_eq!(fixture.fake.requests().len(), 0, "there is no model request");
    // The conversation continues without the model, and its older part is summarised when it has become too long.
    let task = task_in(&events);
    for (megabytes, requests) in [(3, 1), (2, 3)] {
        let next = prompt_in(&task, &text(megabytes, "TEXT ok"));
        let events: Vec<Event> = fixture.client().stream("message/stream", next).collect();
        assert_eq!(state_of(events.last().expect("an end").result()), Some("input-required"));
        assert_eq!(fixture.fake.requests().len(), requests);
    }
    assert!(request(&fixture).to_string().contains("<state_snapshot>"));
}

/// The results of all calls in the last model request.
pub fn outputs(request: &Value) -> Vec<String> {
    let parts = request["contents"].as_array().expect("turns").iter().flat_map(|turn| turn["parts"].as_array());
    let response = |part: &Value| Some(part["functionResponse"]["response"]["output"].as_str()?.to_owned());
    parts.flatten().filter_map(response).collect()
}

pub fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
    fs::write(path, text).expect("it is ours");
}

pub fn refusal(events: &[Event]) -> &Value {
    let ended = events.iter().find(|event| call_status_of(event.result()) == "error").expect("it is refused");
    &call_of(ended.result())["response"]
}

#[test]
fn saving_a_memory_needs_approval_and_later_requests_contain_it() {
    let fixture = Fixture::with(|setup| setup.arg("--trust-workspace"));
    let home = fixture.server.state_dir().with_file_name("home");
    let file = home.join(".gemini/GEMINI.md");
    fixture.say("TEXT hello");
    let before = request(&fixture);
    let project = fixture.server.workspace().canonicalize().expect("it is there").join("GEMINI.md");
    for path in [&file, &project] {
        assert!(instruction(&before).contains(path.to_str().expect("plain")), "{}", instruction(&before));
    }
    for (path, saved) in [("~/.gemini/GEMINI.md", &file), ("GEMINI.md", &project)] {
        let (task, calls) = fixture.ask(&format!("WRITE {path} I-like-{}", path.len()));
        assert!(!saved.exists(), "the edit needs approval");
        let _ = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once")).count();
        assert_eq!(fs::read_to_string(saved).expect("written"), format!("I-like-{}", path.len()));
    }
    fixture.say("TEXT hello");
    let after = request(&fixture);
    assert!(instruction(&after).contains("I-like-19"));
    assert!(after["contents"][0]["parts"][0]["text"].as_str().expect("text").contains("I-like-9"));
    // No other file there may be read or written, under any name.
    put(&home.join(".gemini/settings.json"), "{}");
    let settings = home.join(".gemini/settings.json");
    for path in ["~/.gemini/settings.json", settings.to_str().expect("plain"), "~/.gemini/../.gemini/settings.json"] {
        for script in [format!("WRITE {path} x"), format!("READ {path}")] {
            let kind = refusal(&fixture.say(&script))["errorType"].clone();
            assert!(kind == "path_not_in_workspace" || kind == "file_not_found", "{script}: {kind}");
        }
    }
    fs::remove_file(&file).expect("it is ours");
    std::os::unix::fs::symlink("settings.json", &file).expect("a link");
    assert_eq!(refusal(&fixture.say("WRITE ~/.gemini/GEMINI.md x"))["errorType"], "path_not_in_workspace");
}

#[test]
fn memory_of_a_subdirectory_is_sent_once_when_a_call_uses_it() {
    for (trust, expected) in [(&["--trust-workspace"][..], [0, 1, 0, 1]), (&[], [0; 4])] {
        let fixture = Fixture::with(|setup| setup.args(trust));
        let ws = fixture.server.workspace();
        put(&ws.join("api/GEMINI.md"), "Use tabs here.");
        put(&ws.join("api/v1/GEMINI.md"), "Never break clients.");
        put(&ws.join("api/a.txt"), "a");
        put(&ws.join("api/v1/b.txt"), "b");
        put(&ws.join("c.txt"), "c");
        let events = fixture.say("READ c.txt ;; READ api/a.txt ;; READ api/a.txt ;; LS api/v1 ;; TEXT ok");
        let outputs = outputs(&request(&fixture));
        let prompt_text = |output: &String| output.matches("--- Context from:").count();
        assert_eq!(outputs.iter().map(prompt_text).collect::<Vec<_>>(), expected, "{outputs:#?}");
        assert!(expected == [0; 4] || outputs[1].contains("Use tabs here.") && outputs[3].contains("Never break"));
        let again = prompt_in(&task_in(&events), "Look at @api/v1/b.txt\nTEXT ok");
        let _ = fixture.client().stream("message/stream", again).count();
        assert_eq!(
            request(&fixture).to_string().matches("Never break").count(),
            expected[3],
            "the memory is not sent again"
        );
    }
}

#[test]
fn included_directories_are_in_the_request_and_used_like_the_workspace() {
    let beside = TempDir::new("beside");
    let (lib, docs) = (beside.folder("lib"), beside.folder("docs"));
    put(&lib.join("a.rs"), "fn needle() {}");
    put(&docs.join("b.md"), "needle");
    put(&beside.path().join("secret"), "x");
    let home = beside.folder("home");
    put(&home.join(".gemini/settings.json"), &json!({"context": {"includeDirectories": [docs, "none"]}}).to_string());
    let fixture = Fixture::with(|setup| setup.arg("--include-directories").arg(&lib).env("HOME", &home));
    assert!(fixture.server.output().contains("none is not included"), "{}", fixture.server.output());
    let script = format!("READ {0}/a.rs ;; CALL grep_search {{\"pattern\":\"needle\"}} ;; TEXT ok", lib.display());
    fixture.say(&script);
    let request = request(&fixture);
    let prompt_text = request["contents"][0]["parts"][0]["text"].as_str().expect("text");
    assert!([&lib, &docs].iter().all(|dir| prompt_text.contains(dir.to_str().expect("plain"))), "{prompt_text}");
    let outputs = outputs(&request);
    assert_eq!(outputs[0], "fn needle() {}");
    assert!(["lib/a.rs", "docs/b.md"].iter().all(|file| outputs[1].contains(file)), "{}", outputs[1]);
    let secret = beside.path().join("secret");
    assert_eq!(refusal(&fixture.say(&format!("READ {}", secret.display())))["errorType"], "path_not_in_workspace");
    let (task, calls) = fixture.ask(&format!("WRITE {}/new.txt hello", lib.display()));
    let _ = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once")).count();
    assert_eq!(fs::read_to_string(lib.join("new.txt")).expect("written"), "hello");
}

#[test]
fn after_a_fallback_the_model_is_named_correctly() {
    const ASKED: &str = "gemini-3.1-pro-preview";
    const INSTEAD: &str = "gemini-3-flash-preview";
    let fixture = Fixture::with(|setup| setup.args(["--model", "pro"]));
    let named = |events: &[Event]| -> Vec<String> {
        let mut names: Vec<String> =
            events.iter().filter_map(|event| Some(event.result()["metadata"]["model"].as_str()?.to_owned())).collect();
        names.dedup();
        names
    };
    let events = fixture.say("ERR404 1");
    assert_eq!(named(&events), [ASKED, INSTEAD]);
    let task = task_in(&events);
    let metadata = fixture.client().get(&format!("/tasks/{task}/metadata")).json();
    assert_eq!(metadata["metadata"]["model"], INSTEAD);
    // It stays the model of the task, also after later messages.
    let next: Vec<Event> = fixture.client().stream("message/stream", prompt_in(&task, "TEXT x")).collect();
    assert_eq!(named(&next), [INSTEAD]);
    assert!(fixture.fake.turns().last().expect("a request").head.target().contains(INSTEAD));
    assert_eq!(named(&fixture.whole(&task)), [ASKED, INSTEAD]);
    assert_eq!(named(&fixture.say("TEXT y")), [ASKED]);
}

#[test]
fn a_conversation_is_summarised_when_a_user_asks_for_it() {
    let fixture = Fixture::new();
    let events = fixture.say("TEXT the answer is plumage");
    let task = task_in(&events);
    let mut socket = Socket::open(&fixture.server.url(), &format!("/ws?taskId={task}"), Some("gemini-a2a.v1"));
    socket.send(&json!({ "id": 1, "call": { "execute": { "text": "/compress", "task": task } } }));
    let compacted = socket.until(|frame| frame["event"].get("compacted").is_some());
    assert_eq!(compacted["event"]["compacted"]["items"], 2, "{compacted}");
    let answer = socket.until(|frame| frame["id"] == 1);
    assert_eq!(answer["ok"]["taskId"], task.as_str(), "{answer}");
    fixture.client().call("message/send", prompt_in(&task, "TEXT next"));
    let contents = request(&fixture)["contents"].to_string();
    assert!(contents.contains("<state_snapshot>") && !contents.contains("plumage"), "{contents}");
    assert!(!contents.contains("/compress"), "{contents}");
    // A later prompt adds one turn. An unknown context has no earlier conversation.
    let refused = fixture.client().post("/executeCommand", &json!({ "command": "compact" })).json();
    assert!(refused.to_string().contains("no conversation"), "{refused}");
}
