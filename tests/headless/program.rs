//! The program with a directory of its own and a fake model.

use crate::support::fake::FakeGemini;
use crate::support::{TempDir, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

pub struct Program {
    pub dir: TempDir,
    pub fake: FakeGemini,
}

pub struct Ended {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Program {
    pub fn new() -> Program {
        Program { dir: TempDir::new("headless"), fake: FakeGemini::start() }
    }

    pub fn workspace(&self) -> PathBuf {
        self.dir.folder("workspace")
    }

    /// Without anything on standard input.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.without_model(args);
        command.env("GEMINI_API_KEY", "fake").env("GOOGLE_GEMINI_BASE_URL", self.fake.url());
        command
    }

    pub fn without_model(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        command
            .args(["--retry-wait", "10ms", "--state-dir"])
            .arg(self.dir.folder("state"))
            .arg("--workspace")
            .arg(self.workspace())
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        finish(self.command(args).spawn().expect("the program"))
    }

    pub fn run_with_input(&self, args: &[&str], input: Vec<u8>) -> Ended {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the program");
        let mut stdin = child.stdin.take().expect("its standard input");
        let writing = thread::spawn(move || {
            // The program need not read all of it.
            let _ = stdin.write_all(&input);
        });
        let ended = finish(child);
        writing.join().expect("a thread that writes");
        ended
    }

    /// The text of the prompt that the model was asked last.
    pub fn last_prompt(&self) -> String {
        let turns = self.fake.turns();
        let contents = &turns.last().expect("the model was asked").body["contents"];
        let last = contents.as_array().and_then(|all| all.last()).expect("a prompt");
        let texts = last["parts"].as_array().expect("parts").iter().filter_map(|part| part["text"].as_str());
        texts.collect()
    }
}

/// Sends the signal when the program has printed `text`.
pub fn stop_at(mut child: Child, text: &str, signal: Signal) -> Ended {
    let (stdout, mut printed) = (child.stdout.as_mut().expect("its output"), Vec::new());
    while !String::from_utf8_lossy(&printed).contains(text) {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("the program prints the text before it ends");
        printed.push(byte[0]);
    }
    kill_process(Pid::from_child(&child), signal).expect("a signal to our own child");
    let ended = finish(child);
    Ended { out: String::from_utf8(printed).expect("text") + &ended.out, ..ended }
}

/// Waits for the end, which is expected to come by itself.
pub fn finish(mut child: Child) -> Ended {
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || pipe.map(|pipe| std::io::read_to_string(pipe).expect("text")).unwrap_or_default())
    };
    let out = read(stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = read(stderr.take().map(|pipe| Box::new(pipe) as _));
    let status = eventually("the end of the program", || child.try_wait().expect("our own child"));
    let text = |thread: thread::JoinHandle<String>| thread.join().expect("a thread that reads");
    Ended { status: status.code(), out: text(out), err: text(err) }
}

impl Ended {
    /// It has ended with this status and printed this.
    pub fn expect(&self, status: i32, out: &str, err: &str) {
        let seen = (self.status, self.out.as_str(), self.err.as_str());
        assert_eq!(seen, (Some(status), out, err));
    }

    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("a JSON object on each line")).collect()
    }
}
