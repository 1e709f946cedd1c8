//! `restore`, `undo`, `redo` and `diff` with the real binary.

use crate::drive::{Fixture, files_below, task_in};
use crate::support::TempDir;
use crate::support::message::{prompt_in, text_of};
use crate::support::socket::Socket;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// A server in mode `yolo`.
fn fixture() -> Fixture {
    Fixture::with(|setup| setup.arg("--trust-workspace").arg("--yolo"))
}

/// The data of a slash command's result.
fn command(fixture: &Fixture, line: &str) -> Value {
    let mut words = line.split(' ');
    let (name, args) = (words.next(), words.collect::<Vec<_>>());
    let answer = fixture.client().post("/executeCommand", &json!({ "command": name, "args": args })).json();
    assert!(answer.get("data").is_some() || answer.get("error").is_some(), "{line}: {answer}");
    match answer.get("data") {
        Some(data) => data.clone(),
        None => answer,
    }
}

fn content(data: &Value) -> &str {
    data["content"].as_str().unwrap_or_else(|| panic!("no content in {data}"))
}

/// A whole turn of the task. Returns the id of the task.
fn say(fixture: &Fixture, task: &str, script: &str) -> String {
    fixture.client().stream("message/stream", prompt_in(task, script)).map(|event| text_of(event.result())).collect()
}

/// The files of the workspace with their modes.
fn files(fixture: &Fixture) -> Vec<(String, Vec<u8>, u32)> {
    let root = fixture.server.workspace();
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    let mut found: Vec<_> = files_below(&root)
        .into_iter()
        .map(|(path, bytes)| (path.strip_prefix(&root).expect("below").display().to_string(), bytes, mode(&path)))
        .collect();
    found.sort();
    found
}

fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// The texts of the last request to the model.
fn last_request(fixture: &Fixture) -> String {
    fixture.fake.requests().last().expect("a request").body["contents"].to_string()
}

/// A task with a prompt that makes edits of all kinds, and a prompt without calls.
fn edited(fixture: &Fixture) -> String {
    let root = fixture.server.workspace();
    fs::write(root.join("crlf.txt"), "one\r\ntwo\r\n").expect("written");
    fs::set_permissions(root.join("crlf.txt"), fs::Permissions::from_mode(0o750)).expect("a mode");
    fs::write(root.join("wide.txt"), utf16("alpha beta\n")).expect("written");
    let task = task_in(&fixture.say("TEXT hello"));
    let script = "WRITE crlf.txt three ;; REPLACE wide.txt beta gamma ;; WRITE new/deep/a.txt text ;; \
                  WRITE crlf.txt four ++ WRITE new/b.txt other ;; SHELL echo side > side.txt";
    say(fixture, &task, script);
    assert_eq!(fixture.file("crlf.txt").as_deref(), Some("four"));
    assert_eq!(fixture.file("new/deep/a.txt").as_deref(), Some("text"));
    task
}

#[test]
fn an_undo_and_a_redo_change_files_and_conversation() {
    let fixture = fixture();
    let root = fixture.server.workspace();
    let task = edited(&fixture);
    let after = files(&fixture);

    let list = command(&fixture, &format!("restore list {task}"));
    let names: Vec<Value> = serde_json::from_str(content(&list)).expect("a list");
    assert_eq!(list["messageType"], "info");
    assert_eq!(names.len(), 7, "five edits and two prompts: {list}");
    assert!(names[0]["checkpoint"].as_str().expect("a name").contains("-b.txt-write_file-"), "{list}");
    assert_eq!(list["points"][5]["files"].as_array().map(Vec::len), Some(4), "{list}");
    assert!(list["points"].as_array().expect("points").iter().all(|point| point["state"] == "ok"), "{list}");

    let diff = command(&fixture, &format!("diff {task}"));
    assert!(content(&diff).contains("--- a/crlf.txt\n+++ b/crlf.txt\n"), "{diff}");
    assert!(content(&diff).contains("-alpha gamma\n+alpha beta\n"), "{diff}");
    assert!(content(&diff).contains("+++ /dev/null\n"), "{diff}");
    let dry = command(&fixture, &format!("undo --dry-run {task}"));
    assert!(content(&dry).starts_with("Would go back to before \"WRITE crlf.txt"), "{dry}");
    assert_eq!(files(&fixture), after, "neither command changes anything");

    let undone = command(&fixture, &format!("undo {task}"));
    assert_eq!(undone["notUndone"], json!(["echo side > side.txt"]), "{undone}");
    let mode = fs::metadata(root.join("crlf.txt")).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!((fs::read(root.join("crlf.txt")).expect("read"), mode), (b"one\r\ntwo\r\n".to_vec(), 0o750));
    assert_eq!(fs::read(root.join("wide.txt")).expect("read"), utf16("alpha beta\n"));
    assert!(!root.join("new").exists(), "files and directories that were created are gone");
    assert_eq!(fixture.file("side.txt").as_deref(), Some("side\n"));
    let before = files(&fixture);

    let redone = command(&fixture, &format!("redo {task}"));
    assert_eq!(redone["messageType"], "info", "{redone}");
    assert_eq!(files(&fixture), after);
    assert_eq!(command(&fixture, &format!("redo {task}"))["messageType"], "error", "there is nothing more to redo");
    command(&fixture, &format!("undo {task}"));
    assert_eq!(files(&fixture), before);

    say(&fixture, &task, "TEXT next");
    let request = last_request(&fixture);
    assert!(request.contains("TEXT hello") && request.contains("TEXT next"), "{request}");
    assert!(!request.contains("WRITE crlf.txt"), "what was undone is not sent: {request}");
    let shown = fixture.task(&task).to_string();
    assert!(shown.contains("WRITE crlf.txt three"), "clients still see the undone turn");
    assert_eq!(command(&fixture, &format!("redo {task}"))["messageType"], "error", "a prompt came after the undo");
}

/// In JSON-RPC commands have a method of their own: a prompt that begins with a slash goes to the model.
#[test]
fn an_undo_over_json_rpc_is_a_command_and_no_prompt() {
    let fixture = fixture();
    let task = edited(&fixture);
    let after = files(&fixture);
    say(&fixture, &task, "/undo\nTEXT fine");
    assert!(last_request(&fixture).contains("/undo"), "a prompt with a slash goes to the model");
    assert_eq!(files(&fixture), after);
    let params = json!({ "command_path": ["undo"], "args": format!("2 {task}") });
    let events: Vec<_> = fixture.client().stream("command/execute", params).collect();
    let text: String = events.iter().map(|event| text_of(event.result())).collect();
    assert!(text.contains("crlf.txt"), "{text}");
    assert_eq!(fixture.file("crlf.txt").as_deref(), Some("one\r\ntwo\r\n"));
    let wide = fs::read(fixture.server.workspace().join("wide.txt")).expect("read");
    assert_eq!(wide, utf16("alpha beta\n"));
    assert!(!fixture.server.workspace().join("new").exists());
}

#[test]
fn what_others_changed_is_not_touched_unless_forced() {
    let fixture = fixture();
    let root = fixture.server.workspace();
    let task = edited(&fixture);
    fs::write(root.join("wide.txt"), "by hand").expect("written");
    let now = files(&fixture);
    let refused = command(&fixture, &format!("undo {task}"));
    assert_eq!(refused["messageType"], "error", "{refused}");
    assert!(content(&refused).contains("  wide.txt was changed by somebody else since\n"), "{refused}");
    assert_eq!(files(&fixture), now);
    let list = command(&fixture, &format!("restore {task}"));
    assert_eq!(list["points"][0]["state"], "ok", "{list}");
    assert_eq!(list["points"][5]["state"], "conflict", "{list}");

    let partly = command(&fixture, &format!("restore 6 --files --partial {task}"));
    assert_eq!(partly["left"][0]["path"], "wide.txt", "{partly}");
    assert_eq!(fixture.file("crlf.txt").as_deref(), Some("one\r\ntwo\r\n"));
    assert_eq!(fixture.file("wide.txt").as_deref(), Some("by hand"));
    say(&fixture, &task, "TEXT next");
    let request = last_request(&fixture);
    assert!(request.contains("WRITE crlf.txt three") && request.contains("I undid some of your changes."), "{request}");

    let forced = command(&fixture, &format!("undo 2 --force {task}"));
    assert_eq!(fs::read(root.join("wide.txt")).expect("read"), utf16("alpha beta\n"), "{forced}");
    let copy = forced["files"][0]["from"]["sha256"].as_str().expect("a copy");
    let blob = fixture.server.state_dir().join("blobs").join(&copy[..2]).join(copy);
    assert_eq!(fs::read(blob).expect("the copy"), b"by hand");
    command(&fixture, &format!("redo {task}"));
    assert_eq!(fixture.file("wide.txt").as_deref(), Some("by hand"));
}

#[test]
fn points_are_names_and_not_paths() {
    let fixture = fixture();
    let task = edited(&fixture);
    let now = files(&fixture);
    for name in ["../../x", "/etc/passwd", "0", "999", "-1", &format!("{task}-9999"), "..", "list2"] {
        let answer = command(&fixture, &format!("restore {name} {task}"));
        assert_eq!(answer["messageType"], "error", "{name}: {answer}");
        assert!(content(&answer).starts_with(&format!("Point not found: {name}")), "{answer}");
    }
    assert_eq!(files(&fixture), now);
    // By its checkpoint name, and by its id without the task.
    let list = command(&fixture, "restore list");
    let name = list["points"][0]["checkpoint"].as_str().expect("a name").to_owned();
    command(&fixture, &format!("restore {name}"));
    assert_eq!(fixture.file("new/b.txt"), None);
    assert_eq!(fixture.file("crlf.txt").as_deref(), Some("four"));
    say(&fixture, &task, "TEXT next");
    let request = last_request(&fixture);
    assert!(request.contains("I went back to the moment before your call"), "{request}");
    assert!(!request.contains("\"content\":\"four\"") && request.contains("Created "), "{request}");
    let id = list["points"][5]["id"].as_str().expect("an id");
    command(&fixture, &format!("restore {id}"));
    assert_eq!(fixture.file("crlf.txt").as_deref(), Some("one\r\ntwo\r\n"));
}

#[test]
fn a_task_in_a_turn_is_not_restored() {
    let fixture = fixture();
    let task = edited(&fixture);
    let now = files(&fixture);
    let mut turn = fixture.client().stream("message/stream", prompt_in(&task, "TEXT busy ++ HOLD ++ TEXT done"));
    turn.until_words("busy");
    let refused = command(&fixture, &format!("undo {task}"));
    assert!(refused["error"].as_str().expect("an error").contains("A turn or a command is under way"), "{refused}");
    assert_eq!(
        command(&fixture, &format!("restore list {task}"))["messageType"],
        "info",
        "the list of points can be read during a turn"
    );
    fixture.fake.release();
    turn.for_each(drop);
    assert_eq!(files(&fixture), now);
    assert!(command(&fixture, "undo")["content"].as_str().expect("text").contains("There is no live session."));
    let missing = command(&fixture, "undo 1 no-such-task");
    assert!(missing["error"].as_str().expect("an error").contains("one argument too many"), "{missing}");
}

#[test]
fn a_restore_survives_a_crash_and_is_shown_to_subscribers() {
    let mut fixture = fixture();
    let task = edited(&fixture);
    let mut socket = Socket::open(&fixture.server.url(), &format!("/ws?taskId={task}"), Some("gemini-a2a.v1"));
    let mut watching = Socket::open(&fixture.server.url(), &format!("/ws?taskId={task}"), None);
    socket.send(&json!({ "id": 1, "call": { "execute": { "text": "/undo", "task": task } } }));
    let restored = socket.until(|frame| frame["event"].get("restored").is_some());
    assert_eq!(restored["event"]["restored"]["conversation"], "rewound", "{restored}");
    assert_eq!(restored["event"]["restored"]["files"].as_array().map(Vec::len), Some(4));
    watching.until(|frame| frame.to_string().contains("put back 4 files (crlf.txt"));
    let before = files(&fixture);
    fixture.server.kill9();
    fixture.server.restart();
    command(&fixture, &format!("redo {task}"));
    command(&fixture, &format!("undo {task}"));
    assert_eq!(files(&fixture), before);
    say(&fixture, &task, "TEXT next");
    assert!(!last_request(&fixture).contains("WRITE crlf.txt"));
    // The files of a task that has ended can be restored, too.
    say(&fixture, &task, "WRITE last.txt x");
    fixture.client().call("tasks/cancel", json!({ "id": task }));
    let undone = command(&fixture, &format!("undo {task}"));
    assert_eq!(fixture.file("last.txt"), None, "{undone}");
}

#[test]
fn without_checkpoints_nothing_can_be_undone() {
    let home = TempDir::new("home");
    fs::create_dir_all(home.path().join(".gemini")).expect("a directory");
    let settings = json!({ "general": { "checkpointing": { "enabled": false } } });
    fs::write(home.path().join(".gemini/settings.json"), settings.to_string()).expect("settings");
    let fixture = Fixture::with(|setup| setup.arg("--trust-workspace").arg("--yolo").env("HOME", home.path()));
    let task = edited(&fixture);
    assert!(!fixture.server.output().contains("checkpointing"), "{}", fixture.server.output());
    let now = files(&fixture);
    for line in ["undo", "undo --force"] {
        let refused = command(&fixture, &format!("{line} {task}"));
        assert!(content(&refused).contains("its earlier content was not stored"), "{refused}");
        assert!(content(&refused).contains("general.checkpointing.enabled is false"), "{refused}");
    }
    assert_eq!(files(&fixture), now);
    let blobs = files_below(&fixture.server.state_dir().join("blobs"));
    assert!(!blobs.iter().any(|(_, bytes)| *bytes == b"one\r\ntwo\r\n"), "no content was stored");
    let undone = command(&fixture, &format!("undo --conversation {task}"));
    assert_eq!(undone["messageType"], "info", "{undone}");
}

/// The server is killed at a random moment of an undo: every file is whole, and the undo can be repeated.
#[test]
fn an_undo_that_was_interrupted_by_a_kill_can_be_repeated() {
    let mut fixture = fixture();
    let root = fixture.server.workspace();
    for round in 0..8u64 {
        let (old, new) = ("old".repeat(20_000), format!("new{round}"));
        let names: Vec<String> = (0..6).map(|n| format!("{round}-{n}.txt")).collect();
        names.iter().for_each(|name| fs::write(root.join(name), &old).expect("written"));
        let script: Vec<String> = names.iter().map(|name| format!("WRITE {name} {new}")).collect();
        let task = task_in(&fixture.say(&script.join(" ++ ")));
        let list = command(&fixture, &format!("restore list {task}"));
        let point = list["points"].as_array().and_then(|points| points.last()).expect("a point")["id"].clone();
        let point = point.as_str().expect("an id");
        let body = json!({ "command": "undo", "args": [task] }).to_string();
        let head = format!(
            "POST /executeCommand HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut line = fixture.client().raw();
        line.send(format!("{head}{body}").as_bytes()).expect("sent");
        thread::sleep(Duration::from_millis(round * 7));
        fixture.server.kill9();
        let content = |name: &String| fs::read_to_string(root.join(name)).expect("it is there");
        assert!(names.iter().all(|name| content(name) == old || content(name) == new), "every file is whole");
        fixture.server.restart();
        let again = command(&fixture, &format!("restore {point} --files"));
        assert!(again["messageType"] == "info" || self::content(&again).starts_with("Point not found"), "{again}");
        assert!(names.iter().all(|name| content(name) == old), "round {round}: {again}");
    }
}

/// The server is killed at a random moment of an edit. If the file has the new content, the old content is stored and named in the journal.
#[test]
fn an_edit_that_was_interrupted_by_a_kill_has_stored_the_old_content() {
    let mut fixture = fixture();
    let root = fixture.server.workspace();
    for round in 0..8u64 {
        let (name, old) = (format!("{round}.txt"), format!("old {round}"));
        fs::write(root.join(&name), &old).expect("written");
        let task = task_in(&fixture.say("TEXT hello"));
        let mut turn = fixture.client().stream("message/stream", prompt_in(&task, &format!("WRITE {name} new")));
        turn.next();
        thread::sleep(Duration::from_millis(round * 7));
        fixture.server.kill9();
        drop(turn);
        let now = fs::read_to_string(root.join(&name)).expect("it is there");
        assert!(now == old || now == "new", "{now}");
        fixture.server.restart();
        command(&fixture, &format!("stop {task}"));
        let undone = command(&fixture, &format!("undo {task}"));
        let after = fs::read_to_string(root.join(&name)).expect("it is there");
        if after != old {
            assert_eq!(undone["notUndone"], json!(["write_file (interrupted)"]), "{undone}");
            let hash = gemini_a2a::task::log::blob::sha256(old.as_bytes());
            let blob = fixture.server.state_dir().join("blobs").join(&hash[..2]).join(&hash);
            assert_eq!(fs::read_to_string(blob).expect("the old content"), old);
            let journal = fixture.server.state_dir().join("tasks").join(format!("{task}.jsonl"));
            assert!(
                fs::read_to_string(journal).expect("the journal").contains(&hash),
                "content that a journal names is not deleted"
            );
        }
    }
}
