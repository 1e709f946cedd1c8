//! The real binary as a child process: started on a free port with its own workspace and state directory, killed, and started again with
//! the same state.
//!
//! Its environment is cleared first, so that a developer's variables cannot change a test. The first loopback URL in its output is its
//! address. All output is stored, and printed when a test fails.

use super::fake::FakeGemini;
use super::{PATIENCE, TempDir};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The program, arguments, environment and files with which a server is started.
pub struct Setup {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// None: a directory of its own.
    state: Option<PathBuf>,
    settings: Option<String>,
}

impl Setup {
    /// The binary under test, as a server whose model is `fake`.
    pub fn new(fake: &FakeGemini) -> Setup {
        Setup::without_model().model(fake)
    }

    /// A server without a model: for scripted agents, and for what happens when there is none.
    pub fn without_model() -> Setup {
        Setup::of(Path::new(env!("CARGO_BIN_EXE_gemini-a2a"))).arg("serve")
    }

    pub fn of(program: &Path) -> Setup {
        Setup { program: program.into(), args: vec![], env: vec![], state: None, settings: None }
    }

    pub fn model(self, fake: &FakeGemini) -> Setup {
        self.env("GEMINI_API_KEY", "fake").env("GOOGLE_GEMINI_BASE_URL", fake.url())
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Setup {
        self.args.push(arg.as_ref().into());
        self
    }

    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Setup {
        args.into_iter().fold(self, Setup::arg)
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Setup {
        self.env.push((name.into(), value.as_ref().into()));
        self
    }

    /// Uses this state directory, for example that of another server.
    pub fn state_dir(mut self, dir: &Path) -> Setup {
        self.state = Some(dir.into());
        self
    }

    /// The user's settings.
    pub fn settings(mut self, text: &str) -> Setup {
        self.settings = Some(text.to_owned());
        self
    }

    pub fn start(self) -> Server {
        let dir = TempDir::new("server");
        if let Some(text) = &self.settings {
            let file = dir.folder("home/.gemini").join("settings.json");
            std::fs::write(file, text).expect("the folder is ours");
        }
        let process = match Process::spawn(&self, &dir, 0).listening() {
            Ok(process) => process,
            Err(output) => panic!("{} did not start:\n{output}", self.program.display()),
        };
        Server { setup: self, dir, process }
    }
}

pub struct Server {
    setup: Setup,
    process: Process,
    // Dropped after the process, so that the process is killed before its folders are removed.
    dir: TempDir,
}

impl Server {
    pub fn start(fake: &FakeGemini) -> Server {
        Setup::new(fake).start()
    }

    /// `http://127.0.0.1:PORT`, without a path.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.process.port
    }

    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    pub fn workspace(&self) -> PathBuf {
        self.dir.folder("workspace")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.setup.state.clone().unwrap_or_else(|| self.dir.folder("state"))
    }

    /// Everything that it has printed since its last start.
    pub fn output(&self) -> String {
        self.process.output.text()
    }

    /// Kills it by SIGKILL.
    pub fn kill9(&mut self) {
        self.process.kill();
    }

    /// Starts it again (killing it if it still runs) with the same state and workspace, on the same port if that is free.
    pub fn restart(&mut self) {
        self.kill9();
        let port = self.process.port;
        let started = Process::spawn(&self.setup, &self.dir, port).listening();
        let started = started.or_else(|_| Process::spawn(&self.setup, &self.dir, 0).listening());
        match started {
            Ok(process) => self.process = process,
            Err(output) => panic!("did not start again:\n{output}"),
        }
    }

    /// Waits until the process has ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            let ended = self.process.child.try_wait().expect("asking for the state of our own child");
            if let Some(status) = ended {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "still running:\n{}", self.output());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- output of the server:\n{}---", self.output());
        }
    }
}

struct Process {
    child: Child,
    port: u16,
    output: Arc<Output>,
}

impl Process {
    fn spawn(setup: &Setup, dir: &TempDir, port: u16) -> Process {
        let mut command = Command::new(&setup.program);
        command
            .args(&setup.args)
            .args(["--a2a-port", &port.to_string()])
            .arg("--workspace")
            .arg(dir.folder("workspace"))
            .arg("--state-dir")
            .arg(setup.state.clone().unwrap_or_else(|| dir.folder("state")))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.folder("home"))
            .envs(setup.env.iter().map(|(name, value)| (name, value)))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{} cannot run: {error}", setup.program.display()));
        let output = Arc::new(Output::default());
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        output.follow(stdout);
        output.follow(stderr);
        Process { child, port: 0, output }
    }

    /// Waits for the line with its URL. Returns the output if the process ends or the line does not come.
    fn listening(mut self) -> Result<Process, String> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(port) = self.output.port(Duration::from_millis(20)) {
                self.port = port;
                return Ok(self);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{}it ended: {status}\n", self.output.text()));
            }
        }
        Err(format!("{}no URL for {PATIENCE:?}\n", self.output.text()))
    }

    fn kill(&mut self) {
        // Both fail only if the child has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The standard output and error of a process, mixed in the order of arrival.
#[derive(Default)]
struct Output {
    seen: Mutex<(String, Option<u16>)>,
    changed: Condvar,
}

impl Output {
    fn follow(self: &Arc<Output>, from: impl Read + Send + 'static) {
        let output = self.clone();
        thread::spawn(move || {
            let mut lines = BufReader::new(from);
            let mut line = vec![];
            while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line);
                let mut seen = output.seen.lock().expect("readers of output do not panic");
                seen.0.push_str(&text);
                seen.1 = seen.1.or_else(|| loopback_port(&text));
                drop(seen);
                output.changed.notify_all();
                line.clear();
            }
        });
    }

    fn text(&self) -> String {
        self.seen.lock().expect("readers of output do not panic").0.clone()
    }

    /// The port in the output. Waits for at most `limit` until there is one.
    fn port(&self, limit: Duration) -> Option<u16> {
        let seen = self.seen.lock().expect("readers of output do not panic");
        let waiting = self.changed.wait_timeout_while(seen, limit, |seen| seen.1.is_none());
        waiting.expect("readers of output do not panic").0.1
    }
}

/// The port of the first `http://127.0.0.1:PORT` or `http://localhost:PORT` in a line.
fn loopback_port(line: &str) -> Option<u16> {
    ["http://127.0.0.1:", "http://localhost:"].iter().find_map(|start| {
        let rest = &line[line.find(start)? + start.len()..];
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}
