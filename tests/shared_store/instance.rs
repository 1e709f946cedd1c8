//! An instance of the binary on the shared store: a process that tests kill, pause, restart and cut off from the store.

use super::fake_gcs::{FakeGcs, Front};
use super::gcs_api::BUCKET;
use crate::support::client::Client;
use crate::support::fake::FakeGemini;
use crate::support::{PATIENCE, TempDir};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A fake store, a fake model and the folders of several instances.
pub struct Cluster {
    pub store: FakeGcs,
    pub model: FakeGemini,
    dir: TempDir,
    /// The divisor of the times of the protocol.
    times: u64,
}

impl Cluster {
    pub fn new() -> Cluster {
        Cluster::with(FakeGcs::new(), FakeGemini::start())
    }

    pub fn with(store: FakeGcs, model: FakeGemini) -> Cluster {
        Cluster { store, model, dir: TempDir::new("shared-store"), times: 10 }
    }

    /// A cluster whose bucket lists so many names at a time.
    pub fn with_pages_of(entries: usize) -> Cluster {
        Cluster::with(FakeGcs::with_pages_of(entries), FakeGemini::start())
    }

    /// Instances divide the times of the protocol by this number instead of ten.
    pub fn with_times(self, times: u64) -> Cluster {
        Cluster { times, ..self }
    }

    /// Two instances with one workspace.
    pub fn pair(&self) -> [Instance; 2] {
        ["a", "b"].map(|name| self.start(name, "workspace"))
    }

    /// Starts an instance with its own state, in a workspace that it may share with others.
    pub fn start(&self, name: &str, workspace: &str) -> Instance {
        let mut instance = self.stopped(name, workspace);
        instance.restart();
        instance
    }

    /// Prepares an instance without starting it.
    pub fn stopped(&self, name: &str, workspace: &str) -> Instance {
        let front = self.store.front();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        command
            .args(["serve", "--a2a-port", "0", "--store-times", &self.times.to_string()])
            .arg("--workspace")
            .arg(self.dir.folder(workspace))
            .arg("--state-dir")
            .arg(self.dir.folder(&format!("state-{name}")))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.folder(&format!("home-{name}")))
            .env("GEMINI_API_KEY", "fake")
            .env("GOOGLE_GEMINI_BASE_URL", self.model.url())
            .env("A2A_GCS_BUCKET", BUCKET)
            .env("STORAGE_EMULATOR_HOST", front.address())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Instance { name: name.to_owned(), command, front, process: None, log: Arc::default() }
    }

    /// The path of a file in a workspace.
    pub fn path(&self, workspace: &str, file: &str) -> PathBuf {
        self.dir.folder(workspace).join(file)
    }

    /// The content of a file in a workspace.
    pub fn file(&self, workspace: &str, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path(workspace, file)).ok()
    }

    /// How many lines of a file in the workspace `workspace` are this word.
    pub fn lines(&self, file: &str, word: &str) -> usize {
        let text = self.file("workspace", file).unwrap_or_default();
        text.lines().filter(|line| *line == word).count()
    }
}

/// One instance, running or not.
pub struct Instance {
    pub name: String,
    command: Command,
    /// The store as this instance reaches it.
    pub front: Front,
    process: Option<Process>,
    /// The output of all processes of this instance.
    log: Arc<Mutex<String>>,
}

struct Process {
    child: Child,
    port: u16,
}

impl Instance {
    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port().expect("the instance runs"))
    }

    /// The port of the running process.
    pub fn port(&self) -> Option<u16> {
        self.process.as_ref().map(|process| process.port)
    }

    /// The command that starts it.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the instance runs").child.id()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("readers of the log do not panic").clone()
    }

    /// Ends the process with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts a new process with the same state, and waits until it listens.
    pub fn restart(&mut self) {
        self.kill();
        let begin = self.spawn();
        let child = self.process.as_mut().expect("it was started");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(port) = loopback_port(&self.log.lock().expect("readers of the log do not panic")[begin..]) {
                child.port = port;
                return;
            }
            let ended = child.child.try_wait().expect("the state of our own child");
            let is_late = Instant::now() > deadline;
            assert!(ended.is_none() && !is_late, "instance {} has not started: {ended:?}", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts the process and waits until it ends by itself.
    pub fn run_to_end(&mut self) -> ExitStatus {
        self.kill();
        self.spawn();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let child = &mut self.process.as_mut().expect("it was started").child;
            if let Some(status) = child.try_wait().expect("the state of our own child") {
                return status;
            }
            assert!(Instant::now() < deadline, "instance {} has not ended", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Suspends the process; its sockets stay open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a paused process.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process has an id");
        kill_process(pid, signal).expect("our own child takes signals");
    }

    /// Starts the process. Returns the length of the log before the start.
    fn spawn(&mut self) -> usize {
        let begin = self.log().len();
        let mut child = self.command.spawn().expect("the binary under test");
        follow(child.stdout.take().expect("stdout is piped"), &self.log);
        follow(child.stderr.take().expect("stderr is piped"), &self.log);
        self.process = Some(Process { child, port: 0 });
        begin
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- log of instance {}:\n{}---", self.name, self.log());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that has ended and was waited for. SIGKILL also ends a paused process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Appends the output of a process to the log, line by line.
fn follow(from: impl Read + Send + 'static, log: &Arc<Mutex<String>>) {
    let log = log.clone();
    thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut line = vec![];
        while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            log.lock().expect("readers of the log do not panic").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
}

/// The port in the log on which the instance listens. The log has only whole lines.
fn loopback_port(log: &str) -> Option<u16> {
    ["listens on http://localhost:", "listens on http://127.0.0.1:"].iter().find_map(|start| {
        let rest = &log[log.find(start)? + start.len()..];
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}

/// Whether a file exists and has a line of this word.
pub fn has_line(path: &Path, word: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line == word))
}
