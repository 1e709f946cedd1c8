//! Commands that people write as TOML files: where they are listed, what their prompts become, and that the commands in a prompt run
//! only if they may.

use crate::agent::{put, request};
use crate::drive::{Fixture, task_in};
use crate::support::TempDir;
use crate::support::client::Event;
use crate::support::message::{approval, asked_of, call_of, state_of, text_of};
use crate::support::socket::Socket;
use serde_json::{Value, json};

/// A server with these files, in the home directory or in the workspace.
fn fixture(home: &TempDir, files: &[(&str, &str)], more: &[&str]) -> Fixture {
    for (name, text) in files {
        put(&home.path().join(".gemini").join(name), text);
    }
    Fixture::with(|setup| setup.env("HOME", home.path()).args(more))
}

fn run(fixture: &Fixture, command: &str, args: &[&str]) -> Vec<Event> {
    let body = json!({ "command": command, "args": args }).to_string();
    let fields = [("Content-Type", "application/json")];
    fixture.client().events("POST", "/executeCommand", &fields, body.as_bytes()).collect()
}

fn listed(fixture: &Fixture) -> Vec<String> {
    let commands = fixture.client().get("/listCommands").json();
    let name = |command: &Value| command["name"].as_str().map(str::to_owned);
    commands["commands"].as_array().expect("a list").iter().filter_map(name).collect()
}

/// The last prompt that the model was sent.
fn prompt(fixture: &Fixture) -> String {
    let request = request(fixture);
    let last = request["contents"].as_array().and_then(|turns| turns.last()).expect("a turn").clone();
    let mut texts = last["parts"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    texts.next_back().expect("a text").to_owned()
}

const SAY: &str = "description = 'Says it'\nprompt = 'TEXT ok'\n";

#[test]
fn custom_commands_are_listed_with_the_built_in_ones() {
    let home = TempDir::new("home");
    put(&home.path().join(".gemini/extensions/e/gemini-extension.json"), r#"{"name": "tools", "version": "1"}"#);
    let files = [
        ("commands/git/say.toml", SAY),
        ("commands/help.toml", SAY),
        ("commands/broken.toml", "\nprompt = \"\\q\"\n"),
        ("extensions/e/commands/git/say.toml", SAY),
        ("extensions/e/commands/own.toml", "prompt = 'TEXT own'"),
    ];
    let server = fixture(&home, &files, &["--trust-workspace"]);
    put(&server.server.workspace().join(".gemini/commands/git/say.toml"), "prompt = 'TEXT mine'");
    let names = listed(&server);
    let custom = ["git:say", "user.git:say", "user.help", "tools.git:say", "own"];
    assert_eq!(names[names.len() - custom.len()..], custom);
    assert!(names.iter().any(|name| name == "memory"), "{names:?}");
    let shown = server.client().call("commands/get", json!({}));
    let say = shown["commands"].as_array().expect("a list").iter().find(|command| command["name"] == "user.git:say");
    assert_eq!(say.expect("it is listed")["description"], "Says it");
    let mut socket = Socket::open(&server.server.url(), "/ws", Some("gemini-a2a.v1"));
    for call in ["about", "commands"] {
        socket.send(&json!({ "id": call, "call": { call: {} } }));
        let answer = socket.until(|frame| frame["id"] == call);
        assert!(answer["ok"]["commands"].to_string().contains("\"tools.git:say\""), "{answer}");
    }
    let help = server.client().post("/executeCommand", &json!({ "command": "help" })).json();
    assert!(help["data"]["commands"].to_string().contains("git:say"), "{help}");
    let notice = "commands/broken.toml: line 2: a backslash is followed by something that it cannot mean";
    assert!(server.server.output().contains(notice), "{}", server.server.output());
    // A workspace's commands exist only if it is trusted.
    let server = fixture(&home, &[], &[]);
    put(&server.server.workspace().join(".gemini/commands/mine.toml"), "prompt = 'TEXT mine'");
    assert!(!listed(&server).contains(&"mine".to_owned()));
    assert_eq!(server.client().post("/executeCommand", &json!({ "command": "mine" })).status(), 404);
    let events = run(&server, "git:say", &[]);
    assert_eq!(state_of(events.last().expect("an end").result()), Some("completed"));
}

#[test]
fn a_prompt_gets_its_arguments_and_files() {
    let home = TempDir::new("home");
    let files = [
        ("commands/fix.toml", "prompt = '''\nTEXT ok\nFix {{args}} in @{notes/a b.md} and @{none.md}.'''"),
        ("commands/plain.toml", "prompt = 'TEXT ok'"),
    ];
    let server = fixture(&home, &files, &[]);
    put(&server.server.workspace().join("notes/a b.md"), "Remember !{touch z} and {{args}}.");
    let events = run(&server, "fix", &["!{touch y}", "now"]);
    assert_eq!(state_of(events.last().expect("an end").result()), Some("completed"), "{events:#?}");
    let sent = prompt(&server);
    assert!(sent.starts_with("TEXT ok\nFix !{touch y} now in "), "{sent}");
    assert!(sent.contains("Remember !{touch z} and {{args}}.") && sent.ends_with(" and @{none.md}."), "{sent}");
    let text: String = events.iter().map(|event| text_of(event.result())).collect();
    assert!(text.contains("none.md is not there"), "{text}");
    run(&server, "plain", &["it's", "late"]);
    assert_eq!(prompt(&server), "TEXT ok\n\n/plain it's late");
    for name in ["y", "z"] {
        assert_eq!(server.file(name), None, "no part of the text ran");
    }
}

#[test]
fn commands_of_a_prompt_are_asked_about_before_any_runs() {
    let home = TempDir::new("home");
    let make = "prompt = '''\nTEXT ok\n!{touch {{args}}} !{ls | grep nothing} !{mkdir made && echo done}'''";
    let server = fixture(&home, &[("commands/make.toml", make)], &[]);
    let events = run(&server, "make", &["x; touch y"]);
    let task = task_in(&events);
    assert_eq!(state_of(events.last().expect("a pause").result()), Some("input-required"));
    let mut asked: Vec<(String, String)> = Vec::new();
    for event in &events {
        if let Some(call) = asked_of(event.result()).filter(|call| asked.iter().all(|(known, _)| known != call)) {
            let command = call_of(event.result())["request"]["args"]["command"].as_str().expect("a command");
            asked.push((call.to_owned(), command.to_owned()));
        }
    }
    let commands: Vec<&str> = asked.iter().map(|(_, command)| command.as_str()).collect();
    assert_eq!(commands, ["touch 'x; touch y'", "mkdir made && echo done"], "the read-only command needs no approval");
    server.client().call("message/send", approval(&task, &asked[0].0, "proceed_once"));
    assert_eq!(server.file("x; touch y"), None, "the question about the other command is open");
    server.client().call("message/send", approval(&task, &asked[1].0, "proceed_once"));
    assert_eq!(server.state(&task), "completed");
    assert_eq!((server.file("x; touch y").as_deref(), server.file("y")), (Some(""), None));
    assert_eq!(prompt(&server), "TEXT ok\n Exit Code: 1 done");
}

#[test]
fn nothing_runs_if_a_command_of_the_prompt_is_denied() {
    let home = TempDir::new("home");
    let files = [
        ("commands/del.toml", "prompt = '!{touch first} !{rm {{args}}}'"),
        ("commands/open.toml", "prompt = '!{touch first} !{rm {{args}'"),
        (
            "settings.json",
            r#"{"policy": {"rules": [{"toolName": "run_shell_command", "commandPrefix": "rm", "decision": "deny"}]}}"#,
        ),
    ];
    let server = fixture(&home, &files, &["--approval-mode", "yolo", "--trust-workspace"]);
    for (command, why) in [("del", "is not allowed here"), ("open", "is not closed")] {
        let events = run(&server, command, &["a.txt; ls"]);
        let last = events.last().expect("an end").result();
        assert_eq!(state_of(last), Some("failed"), "{last}");
        assert!(last.to_string().contains(why), "{last}");
        assert_eq!(server.file("first"), None);
        assert_eq!(server.fake.requests().len(), 0, "there is no model request");
    }
    // An extension may forbid commands as well.
    let manifest = r#"{"name": "guard", "version": "1", "excludeTools": ["run_shell_command(touch)"]}"#;
    put(&home.path().join(".gemini/extensions/g/gemini-extension.json"), manifest);
    put(&home.path().join(".gemini/commands/make.toml"), "prompt = '!{mkdir made} !{touch first}'");
    let events = run(&server, "make", &[]);
    let last = events.last().expect("an end").result();
    assert!(last.to_string().contains("the extension guard excludes it"), "{last}");
    assert!(!server.server.workspace().join("made").exists());
}
