//! The server as it is deployed: environment variables, sockets of a service manager, a container without other files, and the files of
//! `scripts/deploy`.
//!
//! A test that needs root or a missing program says so on standard error and passes.

mod support;

#[path = "deployment/container.rs"]
mod container;
#[path = "deployment/environment.rs"]
mod environment;
#[path = "deployment/files.rs"]
mod files;
#[path = "deployment/service_manager.rs"]
mod service_manager;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use support::{PATIENCE, TempDir, eventually};

/// A credential for `A2A_TOKEN`.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The binary under test, with an empty environment and directories of its own.
fn serve(dir: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    command
        .arg("serve")
        .arg("--workspace")
        .arg(dir.folder("workspace"))
        .arg("--state-dir")
        .arg(dir.folder("state"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A process and its standard error. Dropping the value kills the process.
struct Program {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Program {
    /// Starts the process with the standard input of the command.
    fn start(command: &mut Command) -> Program {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, heard) = (BufReader::new(child.stderr.take().expect("it is piped")).lines(), log.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("no panic").push_str(&format!("{line}\n"));
            }
        });
        Program { child, log }
    }

    /// Starts the process and waits until it prints where it listens.
    fn listening(command: &mut Command) -> Program {
        let program = Program::start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        program.wait_for_log("Its listeners: ");
        program
    }

    fn log(&self) -> String {
        self.log.lock().expect("no panic").clone()
    }

    /// Waits until the log contains these words.
    fn wait_for_log(&self, words: &str) {
        eventually(words, || self.log().contains(words).then_some(()));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits until it has ended.
    fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the end of the program", || child.try_wait().expect("it is our child"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the program has said within {PATIENCE:?}:\n{}---", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
