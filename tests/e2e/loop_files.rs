//! After the start the loop's thread opens no file but the journal of a new task: any other access would make all clients wait for a slow
//! disk. strace traces that thread, which is the first one of the process.

use crate::drive::{Fixture, has};
use crate::support::message::{approval, prompt, prompt_at};
use crate::support::{TempDir, eventually};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// strace on one thread, until the value is dropped.
struct Trace {
    strace: Child,
    log: PathBuf,
    _dir: TempDir,
}

impl Trace {
    /// None if strace is missing or not permitted.
    fn on(pid: u32) -> Option<Trace> {
        if !has("strace") {
            eprintln!("skipped: strace is not installed");
            return None;
        }
        let dir = TempDir::new("strace");
        let log = dir.folder("log").join("calls");
        let calls = "trace=open,openat,openat2,creat";
        let mut strace = Command::new("strace")
            .args(["-p", &pid.to_string(), "-e", calls, "-o"])
            .arg(&log)
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace starts");
        let mut line = String::new();
        BufReader::new(strace.stderr.take().expect("a pipe")).read_line(&mut line).expect("strace says something");
        if !line.contains("attached") {
            let _ = (strace.kill(), strace.wait());
            eprintln!("skipped: strace cannot watch the server: {line}");
            return None;
        }
        Some(Trace { strace, log, _dir: dir })
    }

    /// The calls that have opened files so far.
    fn opened(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).expect("a log of calls");
        text.lines().filter(|line| line.contains("open") || line.contains("creat")).map(str::to_owned).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = (self.strace.kill(), self.strace.wait());
    }
}

/// Whether a call creates the journal of a new task.
fn creates_journal(call: &str) -> bool {
    call.contains("/tasks/") && call.contains(".jsonl\"") && call.contains("O_CREAT")
}

fn id(task: &Value) -> String {
    task["id"].as_str().unwrap_or_else(|| panic!("no task in {task}")).to_owned()
}

#[test]
fn the_loop_opens_no_file_but_new_journals() {
    let mut setup = Fixture::with(|setup| setup.arg("--audit"));
    let mut client = setup.client();
    // This request is answered when the start is complete.
    assert_eq!(client.get("/health").status(), 200);
    let Some(watch) = Trace::on(setup.server.pid()) else {
        return;
    };
    let created = client.post("/tasks", &json!({"workspacePath": setup.server.workspace()}));
    assert!(created.status() < 300, "{}", created.json());
    let first = client.call("message/send", prompt_at(&setup.server.workspace(), "TEXT one"));
    let context = first["contextId"].clone();
    let mut newest = id(&first);
    for _ in 0..3 {
        client.call("tasks/cancel", json!({ "id": newest }));
        let mut next = prompt("TEXT more");
        next["message"]["contextId"] = context.clone();
        newest = id(&client.call("message/send", next));
    }
    let (asked, calls) = setup.ask("SHELL echo ran >> ran.txt");
    client.call("message/send", approval(&asked, &calls[0], "proceed_once"));
    assert_eq!(setup.file("ran.txt").as_deref(), Some("ran\n"));
    assert_eq!(client.get("/tasks/metadata").status(), 200);
    let listed = client.rpc("ListTasks", json!({"pageSize": 50}));
    assert!(listed["result"]["tasks"].as_array().is_some_and(|tasks| tasks.len() > 4), "{listed}");
    assert_eq!(client.fault("tasks/get", json!({ "id": "no-such-task" })), -32001);
    let journals = eventually("six journals", || {
        let opened = watch.opened();
        (opened.iter().filter(|call| creates_journal(call)).count() == 6).then_some(opened)
    });
    let others: Vec<&String> = journals.iter().filter(|call| !creates_journal(call)).collect();
    assert!(others.is_empty(), "the loop opened {others:#?}");
    drop(watch);

    // After a restart no task is in memory, and this one continues three others.
    setup.server.restart();
    let mut client = setup.client();
    assert_eq!(client.get("/health").status(), 200);
    let watch = Trace::on(setup.server.pid()).expect("strace worked before");
    assert_eq!(client.call("tasks/get", json!({ "id": newest }))["id"], newest.as_str());
    let listed = client.rpc("ListTasks", json!({"pageSize": 50}));
    assert!(listed["result"]["tasks"].as_array().is_some_and(|tasks| tasks.len() > 4), "{listed}");
    assert_eq!(watch.opened(), [""; 0]);

    // While another process holds the lock of the index, new lines are added later.
    let index = setup.server.state_dir().join("index.jsonl");
    let held = std::fs::File::open(&index).expect("an index");
    flock(&held, FlockOperation::LockExclusive).expect("nobody holds it for long");
    let task = id(&client.call("message/send", prompt("TEXT new")));
    let has_line = || std::fs::read_to_string(&index).expect("an index").contains(&task);
    assert!(!has_line());
    flock(&held, FlockOperation::Unlock).expect("it was ours");
    eventually("a line about the new task in the index, without a further request", || has_line().then_some(()));
    let opened = watch.opened();
    let others: Vec<&String> = opened.iter().filter(|call| !creates_journal(call)).collect();
    assert!(others.is_empty(), "the loop opened {others:#?}");
}
