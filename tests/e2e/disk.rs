//! A full disk, and a low limit of open files. The tests with a full disk mount a small file system, which needs root.

use crate::drive::{has, is_root, odd_seconds, running, task_in};
use crate::support::TempDir;
use crate::support::client::{Client, Event};
use crate::support::fake::FakeGemini;
use crate::support::message::{prompt, prompt_in, state_of, task_of, text_of};
use crate::support::server::{Server, Setup};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// A file system in memory, gone with the value.
struct SmallDisk {
    path: PathBuf,
    // Behind the mount: it goes first.
    _dir: TempDir,
}

impl SmallDisk {
    /// None where it cannot be had.
    fn new() -> Option<SmallDisk> {
        if !is_root() || !has("mount") || !has("umount") {
            eprintln!("skipped: a small file system takes root");
            return None;
        }
        let dir = TempDir::new("disk");
        let path = dir.folder("full");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k,mode=0700", "tmpfs"]).arg(&path).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no file system can be mounted here");
            return None;
        }
        Some(SmallDisk { path, _dir: dir })
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path.join("ballast")).expect("a file");
        for size in [4096, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    /// A server that keeps its state on this disk: the last of two flags counts.
    fn serve(&self, flags: &str, fake: &FakeGemini) -> Server {
        let program = env!("CARGO_BIN_EXE_gemini-a2a");
        let state = self.path.join("state");
        by_shell(format!("exec {program} serve \"$@\" --state-dir {} {flags}", state.display()), fake)
    }

    fn free(&self) {
        std::fs::remove_file(self.path.join("ballast")).expect("our own file");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

/// The server as a shell starts it, which gives it `"$@"`.
fn by_shell(script: String, fake: &FakeGemini) -> Server {
    Setup::of("/bin/sh".as_ref())
        .arg("-c")
        .arg(script)
        .arg("server")
        .env("GEMINI_API_KEY", "fake")
        .env("GOOGLE_GEMINI_BASE_URL", fake.url())
        .start()
}

#[test]
fn a_full_disk_fails_writes_only_and_recovers() {
    let Some(disk) = SmallDisk::new() else { return };
    let fake = FakeGemini::start();
    let server = disk.serve("", &fake);
    let client = || Client::new(&server.url());
    let say = |script: &str| -> Vec<Event> { client().stream("message/stream", prompt(script)).collect() };
    let kept = task_in(&say("TEXT kept"));
    let busy = task_in(&say("TEXT busy"));
    disk.fill();

    // A new task cannot be kept, so there is none, and its client hears why.
    let refused = client().rpc("message/send", prompt("TEXT new"));
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    let message = refused["error"]["message"].as_str().unwrap_or("");
    assert!(message.contains("space"), "{message}");
    let stream = say("TEXT new");
    let error = &stream.last().expect("an answer").json["error"];
    assert_eq!(error["code"], -32603, "{stream:?}");
    let health = client().get("/health");
    assert_eq!(health.status(), 200, "it is alive");
    let health = health.json();
    assert_eq!((&health["status"], &health["totalTasks"]), (&json!("degraded"), &json!(2)));
    let problem = health["problem"].as_str().unwrap_or("");
    assert!(problem.contains("free some space"), "{health}");
    assert!(!problem.contains("/"), "it is for anybody to read: {problem}");

    // It gets well by itself: nothing is written, and nobody asks for anything that would be.
    let healthy = || {
        while client().get("/health").json()["status"] != "healthy" {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    disk.free();
    healthy();
    disk.fill();
    assert_eq!(client().get("/health").json()["status"], "healthy");

    // A prompt to a task that is there waits, since it can neither be kept nor forgotten; from then on the task says why
    // it takes nothing.
    let long = format!("TEXT when there is space\n{}", "x".repeat(10_000));
    let mut waiting = client().stream("message/stream", prompt_in(&busy, &long));
    waiting.until_words(": The task's journal cannot be written");
    let refused = client().rpc("message/send", prompt_in(&busy, "TEXT more"));
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert_eq!(client().fault("tasks/get", json!({ "id": busy })), -32603);

    // Reading goes on: tasks, their logs, the list, the card.
    assert_eq!(state_of(&client().call("tasks/get", json!({ "id": kept }))), Some("input-required"));
    let whole: Vec<Event> = client().resume("tasks/resubscribe", json!({ "id": kept }), "0").collect();
    assert!(whole.iter().any(|event| text_of(event.result()) == "kept"), "{whole:?}");
    assert_eq!(client().get("/tasks/metadata").status(), 200);
    assert_eq!(client().get("/.well-known/agent-card.json").status(), 200);

    // Whoever runs the server has been told, and not for every try. The log is written beside the loop, so it may be on its way.
    let times = || server.output().matches("free some space").count();
    while times() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(times(), 1, "{}", server.output());

    // There is space again: what was accepted is done, and new things begin.
    disk.free();
    let done: Vec<Event> = waiting.collect();
    assert!(done.iter().any(|event| text_of(event.result()) == "when there is space"), "{done:?}");
    assert!(done.last().is_some_and(Event::is_final));
    healthy();
    let again = client().call("message/send", prompt("TEXT again"));
    assert_eq!(state_of(&again), Some("input-required"));
}

/// A command of the agent fills the disk that the journals are on: its cancellation cannot be recorded, and must end it.
#[test]
fn a_command_that_fills_the_disk_can_be_canceled() {
    let Some(disk) = SmallDisk::new() else { return };
    let fake = FakeGemini::start();
    let server = disk.serve("--approval-mode yolo --trust-workspace", &fake);
    let client = || Client::new(&server.url());
    let mark = odd_seconds();
    let ballast = disk.path.join("ballast").display().to_string();
    // It goes on printing, so that there is always something to record.
    let command = format!("cat /dev/zero > {ballast}; while echo full; do sleep 0.05; done & sleep {mark}");
    let call = json!({ "command": command }).to_string();
    let mut stream = client().stream("message/stream", prompt(&format!("CALL run_shell_command {call}")));
    let task = stream.find_map(|event| task_of(event.result()).map(str::to_owned)).expect("a task");
    // Once the journal cannot be written, the state of the task cannot be shown.
    while client().rpc("tasks/get", json!({ "id": task }))["error"]["code"] != -32603 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(running(&mark).len(), 1);
    for _ in 0..2 {
        let told = client().rpc("tasks/cancel", json!({ "id": task }));
        let message = told["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("The task was stopped") && message.contains("free some space"), "{told}");
    }
    while !running(&mark).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    disk.free();
    let last = stream.last().expect("the stream goes on");
    assert_eq!(state_of(last.result()), Some("canceled"), "{last:?}");
}

/// Every task in memory holds its log open. Those that rest make room where few files may be open.
#[test]
fn more_tasks_than_open_files_can_be_loaded() {
    let fake = FakeGemini::start();
    let script = format!("ulimit -n 64; exec {} serve \"$@\"", env!("CARGO_BIN_EXE_gemini-a2a"));
    let server = by_shell(script, &fake);
    let client = || Client::new(&server.url());
    let tasks: Vec<String> = (0..80)
        .map(|n| {
            let told = client().call("message/send", prompt(&format!("TEXT {n}")));
            assert_eq!(state_of(&told), Some("input-required"), "{told}");
            told["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    for (n, task) in tasks.iter().enumerate() {
        let told = client().call("tasks/get", json!({ "id": task }));
        assert!(told.to_string().contains(&format!("\"{n}\"")), "{told}");
    }
}
