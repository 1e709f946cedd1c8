//! A full disk, and a low limit of open files. The tests with a full disk mount a small file system, which needs root.

use crate::drive::{has, is_root, running, task_in, unique_seconds};
use crate::support::client::{Client, Event};
use crate::support::fake::FakeGemini;
use crate::support::message::{prompt, prompt_in, state_of, task_of, text_of};
use crate::support::server::{Server, Setup};
use crate::support::{TempDir, eventually};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// A small file system in memory, unmounted on drop.
struct SmallDisk {
    path: PathBuf,
    // Dropped after the file system is unmounted.
    _dir: TempDir,
}

impl SmallDisk {
    /// None where it cannot be mounted.
    fn new() -> Option<SmallDisk> {
        if !is_root() || !has("mount") || !has("umount") {
            eprintln!("skipped: mounting a small file system needs root");
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

    /// Fills the file system.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path.join("ballast")).expect("a file");
        for size in [4096, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    /// A server that keeps its state on this disk. Of the two `--state-dir` flags the last one counts.
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

/// A server that is started by a shell script; `"$@"` in the script are its arguments.
fn by_shell(script: String, fake: &FakeGemini) -> Server {
    Setup::of("/bin/sh".as_ref())
        .arg("-c")
        .arg(script)
        .arg("server")
        .env("GEMINI_API_KEY", "fake")
        .env("GOOGLE_GEMINI_BASE_URL", fake.url())
        .start()
}

/// Reads the health endpoint until it reports that the server is healthy.
fn wait_until_healthy(server: &Server) {
    eventually("a healthy server", || {
        (Client::new(&server.url()).get("/health").json()["status"] == "healthy").then_some(())
    });
}

/// New tasks are refused with the reason, and the health endpoint reports it without naming a path.
fn assert_new_tasks_are_refused(server: &Server) {
    let client = || Client::new(&server.url());
    let refused = client().rpc("message/send", prompt("TEXT new"));
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    let message = refused["error"]["message"].as_str().unwrap_or("");
    assert!(message.contains("space"), "{message}");
    let stream: Vec<Event> = client().stream("message/stream", prompt("TEXT new")).collect();
    let error = &stream.last().expect("an answer").json["error"];
    assert_eq!(error["code"], -32603, "{stream:?}");
    let health = client().get("/health");
    assert_eq!(health.status(), 200);
    let health = health.json();
    assert_eq!((&health["status"], &health["totalTasks"]), (&json!("degraded"), &json!(2)));
    let problem = health["problem"].as_str().unwrap_or("");
    assert!(problem.contains("free some space"), "{health}");
    assert!(!problem.contains("/"), "anybody may read the problem, so it names no path: {problem}");
}

#[test]
fn a_full_disk_fails_writes_only_and_recovers() {
    let Some(disk) = SmallDisk::new() else { return };
    let fake = FakeGemini::start();
    let server = disk.serve("", &fake);
    let client = || Client::new(&server.url());
    let new_task = |script| task_in(&client().stream("message/stream", prompt(script)).collect::<Vec<Event>>());
    let kept = new_task("TEXT kept");
    let busy = new_task("TEXT busy");
    disk.fill();
    assert_new_tasks_are_refused(&server);

    // The server becomes healthy again without a request that writes.
    disk.free();
    wait_until_healthy(&server);
    disk.fill();
    assert_eq!(client().get("/health").json()["status"], "healthy");

    // An accepted prompt to a loaded task waits for space. From then on the task refuses prompts with the reason.
    let long = format!("TEXT when there is space\n{}", "x".repeat(10_000));
    let mut waiting = client().stream("message/stream", prompt_in(&busy, &long));
    waiting.until_words(": The task's journal cannot be written");
    let refused = client().rpc("message/send", prompt_in(&busy, "TEXT more"));
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert_eq!(client().fault("tasks/get", json!({ "id": busy })), -32603);

    // Tasks, their logs, the list and the card can still be read.
    assert_eq!(state_of(&client().call("tasks/get", json!({ "id": kept }))), Some("input-required"));
    let whole: Vec<Event> = client().resume("tasks/resubscribe", json!({ "id": kept }), "0").collect();
    assert!(whole.iter().any(|event| text_of(event.result()) == "kept"), "{whole:?}");
    assert_eq!(client().get("/tasks/metadata").status(), 200);
    assert_eq!(client().get("/.well-known/agent-card.json").status(), 200);

    // The server logs the problem once, not for every attempt. The log is written by another thread than the loop's.
    let logged = || server.output().matches("free some space").count();
    eventually("a line in the log", || (logged() > 0).then_some(()));
    assert_eq!(logged(), 1, "{}", server.output());

    // With free space, the accepted prompt is answered and new tasks are created.
    disk.free();
    let done: Vec<Event> = waiting.collect();
    assert!(done.iter().any(|event| text_of(event.result()) == "when there is space"), "{done:?}");
    assert!(done.last().is_some_and(Event::is_final));
    wait_until_healthy(&server);
    let again = client().call("message/send", prompt("TEXT again"));
    assert_eq!(state_of(&again), Some("input-required"));
}

/// A command of the agent fills the disk with the journals: its cancel cannot be recorded, and must end it all the same.
#[test]
fn a_command_that_fills_the_disk_can_be_canceled() {
    let Some(disk) = SmallDisk::new() else { return };
    let fake = FakeGemini::start();
    let server = disk.serve("--approval-mode yolo --trust-workspace", &fake);
    let client = || Client::new(&server.url());
    let mark = unique_seconds();
    let ballast = disk.path.join("ballast").display().to_string();
    // The command keeps printing, so that there is always an event to record.
    let command = format!("cat /dev/zero > {ballast}; while echo full; do sleep 0.05; done & sleep {mark}");
    let call = json!({ "command": command }).to_string();
    let mut stream = client().stream("message/stream", prompt(&format!("CALL run_shell_command {call}")));
    let task = stream.find_map(|event| task_of(event.result()).map(str::to_owned)).expect("a task");
    // Once the journal cannot be written, the state of the task cannot be shown.
    eventually("a refused tasks/get", || {
        (client().rpc("tasks/get", json!({ "id": task }))["error"]["code"] == -32603).then_some(())
    });
    assert_eq!(running(&mark).len(), 1);
    for _ in 0..2 {
        let reply = client().rpc("tasks/cancel", json!({ "id": task }));
        let message = reply["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("The task was stopped") && message.contains("free some space"), "{reply}");
    }
    eventually("the end of the command", || running(&mark).is_empty().then_some(()));
    disk.free();
    let last = stream.last().expect("the stream continues");
    assert_eq!(state_of(last.result()), Some("canceled"), "{last:?}");
}

/// Every loaded task holds its journal open. Idle tasks are unloaded where few files may be open.
#[test]
fn more_tasks_than_open_files_can_be_loaded() {
    let fake = FakeGemini::start();
    let script = format!("ulimit -n 64; exec {} serve \"$@\"", env!("CARGO_BIN_EXE_gemini-a2a"));
    let server = by_shell(script, &fake);
    let client = || Client::new(&server.url());
    let tasks: Vec<String> = (0..80)
        .map(|n| {
            let reply = client().call("message/send", prompt(&format!("TEXT {n}")));
            assert_eq!(state_of(&reply), Some("input-required"), "{reply}");
            reply["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    for (n, task) in tasks.iter().enumerate() {
        let reply = client().call("tasks/get", json!({ "id": task }));
        assert!(reply.to_string().contains(&format!("\"{n}\"")), "{reply}");
    }
}
