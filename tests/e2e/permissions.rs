//! Approvals with "always" are listed and revoked, by a slash command and by a call of the native dialect.

use crate::drive::Fixture;
use crate::support::TempDir;
use crate::support::client::Event;
use crate::support::message::{approval, asked_of, prompt_in};
use crate::support::socket::Socket;
use serde_json::{Value, json};

/// The answer to a slash command.
fn command(fixture: &Fixture, command: &str, args: &[&str]) -> Value {
    fixture.client().post("/executeCommand", &json!({ "command": command, "args": args })).json()
}

/// Whether a prompt to the task leads to a question.
fn asks(fixture: &Fixture, task: &str, script: &str) -> bool {
    let mut events = fixture.client().stream("message/stream", prompt_in(task, script));
    events.any(|event: Event| asked_of(event.result()).is_some())
}

fn ask(socket: &mut Socket, call: Value) -> Value {
    socket.send(&json!({ "id": 1, "call": { "permissions": call } }));
    socket.until(|frame| frame["id"] == 1)["ok"]["permissions"].clone()
}

#[test]
fn permissions_are_listed_and_revoked() {
    let mut fixture = Fixture::new();
    let (task, calls) = fixture.ask("SHELL mkdir -p a");
    fixture.client().call("message/send", approval(&task, &calls[0], "proceed_always"));
    assert!(!asks(&fixture, &task, "SHELL mkdir -p b"), "the command is allowed");
    fixture.server.kill9();
    fixture.server.restart();
    let listed = command(&fixture, "permissions", &[]);
    assert_eq!(listed["data"], json!({ "task": "", "permissions": [] }), "there is no live session");
    let listed = command(&fixture, "permissions", &[&task]);
    assert_eq!(listed["name"], "permissions list");
    assert_eq!(listed["data"]["permissions"][0]["rule"]["commandPrefix"], "mkdir", "{listed}");

    let wrong = command(&fixture, "permissions revoke", &["2", &task]);
    assert!(wrong.to_string().contains("There is no such permission in task"), "{wrong}");
    let revoked = command(&fixture, "permissions revoke", &["1", &task]);
    assert_eq!(revoked["data"]["revoked"], listed["data"]["permissions"], "{revoked}");
    fixture.server.kill9();
    fixture.server.restart();
    assert_eq!(command(&fixture, "permissions", &[&task])["data"]["permissions"], json!([]));
    assert!(asks(&fixture, &task, "SHELL mkdir -p c"), "the command needs approval again");
    assert_eq!(command(&fixture, "permissions", &["no-such-task"])["error"], "Task not found");
}

#[test]
fn the_native_dialect_lists_and_revokes_permissions() {
    let fixture = Fixture::new();
    let (task, calls) = fixture.ask("WRITE a.txt x");
    fixture.client().call("message/send", approval(&task, &calls[0], "proceed_always"));
    let open = || Socket::open(&fixture.server.url(), &format!("/ws?taskId={task}"), Some("gemini-a2a.v1"));
    let (mut socket, mut watching) = (open(), open());
    let granted = ask(&mut socket, json!({ "task": task }));
    let rule = &granted[0]["rule"];
    assert_eq!(rule["filePath"], fixture.server.workspace().join("a.txt").to_str().expect("plain"), "{granted}");
    assert_eq!(ask(&mut socket, json!({ "task": task, "revoke": [rule] })), json!([]));
    let revoked = watching.until(|frame| frame["event"].get("revoked").is_some());
    assert_eq!(revoked["event"]["revoked"]["rules"], json!([rule]));
    assert!(asks(&fixture, &task, "WRITE a.txt y"));
}

/// A saved approval holds in every task at once and after a restart, until it is revoked.
#[test]
fn saved_permissions_are_revoked_for_good() {
    let home = TempDir::new("home");
    let dir = home.path().join(".gemini");
    std::fs::create_dir_all(&dir).expect("a directory");
    let settings = json!({ "security": { "enablePermanentToolApproval": true } });
    std::fs::write(dir.join("settings.json"), settings.to_string()).expect("settings");
    let mut fixture = Fixture::with(|setup| setup.env("HOME", home.path()).arg("--trust-workspace"));
    let (task, calls) = fixture.ask("SHELL mkdir -p a");
    fixture.client().call("message/send", approval(&task, &calls[0], "proceed_always_and_save"));
    let file = || std::fs::read_to_string(dir.join("policies/auto-saved.json")).unwrap_or_default();
    crate::support::eventually("the file", || file().contains("mkdir").then_some(()));
    let other = crate::drive::task_in(&fixture.say("TEXT hello"));
    assert!(!asks(&fixture, &other, "SHELL mkdir -p b"), "a saved approval holds in all tasks");
    fixture.server.restart();
    assert!(!asks(&fixture, &other, "SHELL mkdir -p c"), "and after a restart");
    let listed = command(&fixture, "permissions", &[&other]);
    assert_eq!(listed["data"]["permissions"][0]["saved"], true, "{listed}");
    command(&fixture, "permissions revoke", &["all", &other]);
    assert!(asks(&fixture, &other, "SHELL mkdir -p d"));
    crate::support::eventually("the file", || (!file().contains("mkdir")).then_some(()));
    // In the task in which it was given the approval also comes from the task's own log.
    assert!(!asks(&fixture, &task, "SHELL mkdir -p e"));
}
