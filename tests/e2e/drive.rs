//! Helpers of these tests: a server with its fake model, prompts and questions, the whole log of a task, and processes.

use crate::support::client::{Client, Event};
use crate::support::fake::FakeGemini;
pub use crate::support::has;
use crate::support::message::{asked_of, prompt, task_of};
use crate::support::server::{Server, Setup};
use gemini_a2a::shell::children::procfs;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The development-tool extension, which clients ask for by this name.
pub const EXTENSION: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// A server and its model.
pub struct Fixture {
    pub server: Server,
    pub fake: FakeGemini,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::with(|setup| setup)
    }

    pub fn with(change: impl FnOnce(Setup) -> Setup) -> Fixture {
        let fake = FakeGemini::start();
        let server = change(Setup::new(&fake)).start();
        Fixture { server, fake }
    }

    /// A server as the first process of a PID namespace: a shell runs `before` and then executes the server. Prints a line and returns None
    /// if no such namespace can be made.
    pub fn in_pid_namespace(before: &str) -> Option<Fixture> {
        let unshare = ["--pid", "--fork", "--kill-child", "--mount-proc"];
        let able = Command::new("unshare").args(unshare).arg("true").output();
        if !able.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no PID namespace can be made here");
            return None;
        }
        let shell = format!("{before}; exec \"$0\" \"$@\"");
        let words = unshare.into_iter().chain(["sh", "-c", &shell, env!("CARGO_BIN_EXE_gemini-a2a"), "serve"]);
        let fake = FakeGemini::start();
        let setup = words.fold(Setup::of(Path::new("unshare")), |setup, word| setup.arg(word)).model(&fake);
        Some(Fixture { server: setup.start(), fake })
    }

    pub fn client(&self) -> Client {
        Client::new(&self.server.url())
    }

    /// Prompts a new task and watches its stream to the end.
    pub fn say(&self, script: &str) -> Vec<Event> {
        self.client().stream("message/stream", prompt(script)).collect()
    }

    /// Creates a task whose turn asks about calls. Returns the ids of the task and the calls.
    pub fn ask(&self, script: &str) -> (String, Vec<String>) {
        let events = self.say(script);
        let task = task_in(&events);
        let mut calls: Vec<String> = vec![];
        for call in events.iter().filter_map(|event| asked_of(event.result())) {
            if !calls.iter().any(|known| known == call) {
                calls.push(call.to_string());
            }
        }
        assert!(!calls.is_empty(), "nothing asks in {events:#?}");
        (task, calls)
    }

    pub fn task(&self, id: &str) -> Value {
        self.client().call("tasks/get", json!({ "id": id }))
    }

    pub fn state(&self, id: &str) -> String {
        let task = self.task(id);
        task["status"]["state"].as_str().unwrap_or("?").to_string()
    }

    /// All events of the task, read from its beginning.
    pub fn whole(&self, id: &str) -> Vec<Event> {
        self.client().resume("tasks/resubscribe", json!({ "id": id }), "0").collect()
    }

    pub fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.server.workspace().join(name)).ok()
    }
}

pub fn task_in(events: &[Event]) -> String {
    let task = events.iter().find_map(|event| task_of(event.result()));
    task.unwrap_or_else(|| panic!("no task in {events:#?}")).to_string()
}

/// The part of events that is the same for every reader: id and body, without `final` and the token counts, which depend on where a
/// stream ends.
pub fn seen(events: &[Event]) -> Vec<(Option<String>, Value)> {
    let one = |event: &Event| {
        let mut result = event.result().clone();
        if let Some(result) = result.as_object_mut() {
            result.remove("final");
        }
        if let Some(metadata) = result.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("usageMetadata");
        }
        (event.id.clone(), result)
    };
    events.iter().map(one).collect()
}

/// Event ids are ascending: no event is repeated or out of order.
pub fn assert_in_order(events: &[Event]) {
    let ids: Vec<u64> = events
        .iter()
        .map(|event| event.id.as_deref().and_then(|id| id.parse().ok()))
        .map(|id| id.expect("every event has a number"))
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

/// A number of seconds that no other process has in its arguments, so that a `sleep` with it can be found.
pub fn unique_seconds() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("9{}.{number}", std::process::id())
}

/// Processes with this text among their arguments, other than shells that only mention it in a script.
pub fn running(argument: &str) -> Vec<u32> {
    let named = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == argument.as_bytes())
    };
    procfs::pids().filter(|pid| named(*pid) && is_alive(*pid)).collect()
}

/// Whether the process exists and is not a zombie.
fn is_alive(pid: u32) -> bool {
    procfs::stat(pid).is_some_and(|stat| !stat.has_ended)
}

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether this test can start programs as another user. If not, prints that the test is skipped.
pub fn can_be_another_user() -> bool {
    if !is_root() {
        eprintln!("skipped: becoming another user takes root");
    }
    is_root() && has("setpriv")
}

/// Every file below a folder, with its content.
pub fn files_below(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = vec![];
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("a folder to look through") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}
