//! A client of the protocol, over pipes or a WebSocket, and the program that it starts.

use crate::support::fake::FakeGemini;
use crate::support::socket::Socket;
use crate::support::{PATIENCE, TempDir};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// How messages are exchanged with the program.
enum Transport {
    Pipes { input: Option<ChildStdin>, lines: Receiver<String> },
    Socket(Box<Socket>),
}

pub struct Editor {
    transport: Transport,
    last: u64,
    /// Messages that were read before the one that the test waited for.
    pub seen: Vec<Value>,
}

impl Editor {
    pub fn over(socket: Socket) -> Editor {
        Editor { transport: Transport::Socket(Box::new(socket)), last: 0, seen: Vec::new() }
    }

    pub fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        match &mut self.transport {
            Transport::Pipes { input, .. } => {
                let input = input.as_mut().expect("standard input is open");
                input.write_all(format!("{message}\n").as_bytes()).expect("the program reads");
            }
            Transport::Socket(socket) => socket.send(&message),
        }
    }

    pub fn read(&mut self) -> Value {
        match &mut self.transport {
            Transport::Pipes { lines, .. } => {
                let line = lines.recv_timeout(PATIENCE).expect("a message");
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
            }
            Transport::Socket(socket) => socket.read(),
        }
    }

    /// The WebSocket, for messages that are not JSON-RPC objects.
    pub fn socket(&mut self) -> &mut Socket {
        match &mut self.transport {
            Transport::Socket(socket) => socket,
            Transport::Pipes { .. } => panic!("it has pipes"),
        }
    }

    /// Closes standard input. Returns the lines that are printed after that.
    pub fn end(&mut self) -> Vec<String> {
        let Transport::Pipes { input, lines } = &mut self.transport else { panic!("only pipes have a standard input") };
        *input = None;
        let mut rest = Vec::new();
        while let Ok(line) = lines.recv_timeout(PATIENCE) {
            rest.push(line);
        }
        rest
    }

    /// Reads up to the first message that `fits`, and returns it; earlier ones go into `seen`.
    pub fn until(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let message = self.read();
            if fits(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.send(json!({"id": self.last, "method": method, "params": params}));
        self.last
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    pub fn initialize(&mut self, capabilities: Value) -> Value {
        let info = json!({"name": "test", "version": "1"});
        self.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info}))
    }

    /// A new session in this directory.
    pub fn open(&mut self, cwd: &std::path::Path) -> String {
        let answer = self.ask("session/new", json!({"cwd": cwd, "mcpServers": []}));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub fn say(&mut self, session: &str, text: &str) -> u64 {
        self.request("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// Sends a prompt and returns the stop reason of its turn, or the whole response if it is an error.
    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.say(session, text);
        let answer = self.answer(id);
        answer["result"].get("stopReason").unwrap_or(&answer).clone()
    }

    /// Waits for a request of the agent with this method.
    pub fn asked(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method)
    }

    pub fn select(&mut self, request: &Value, option: &str) {
        let outcome = json!({"outcome": "selected", "optionId": option});
        self.send(json!({"id": request["id"], "result": {"outcome": outcome}}));
    }

    pub fn cancel(&mut self, session: &str) {
        self.send(json!({"method": "session/cancel", "params": {"sessionId": session}}));
    }

    /// Waits for an update of this kind.
    pub fn update(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["update"]["sessionUpdate"] == kind)["params"]["update"].clone()
    }

    /// Takes the updates of a session out of `seen`, which is emptied.
    pub fn updates(&mut self, session: &str) -> Vec<Value> {
        let updates = std::mem::take(&mut self.seen).into_iter();
        let updates = updates.filter(|message| message["params"]["sessionId"] == session);
        updates.filter_map(|message| message["params"].get("update").cloned()).collect()
    }
}

/// The program with a directory of its own and a fake model.
pub struct Program {
    pub dir: TempDir,
    pub fake: FakeGemini,
}

/// The running program.
pub struct Running {
    child: Child,
    errors: Receiver<String>,
}

impl Program {
    pub fn new() -> Program {
        Program { dir: TempDir::new("acp"), fake: FakeGemini::start() }
    }

    pub fn workspace(&self) -> PathBuf {
        self.dir.folder("workspace").canonicalize().expect("it exists")
    }

    pub fn start(&self, flags: &[&str]) -> (Running, Editor) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
            .arg("acp")
            .args(if flags.contains(&"--retry-wait") { &[][..] } else { &["--retry-wait", "10ms"] })
            .arg("--state-dir")
            .arg(self.dir.folder("state"))
            .arg("--workspace")
            .arg(self.workspace())
            .args(flags)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.folder("home"))
            .env("GEMINI_API_KEY", "fake")
            .env("GOOGLE_GEMINI_BASE_URL", self.fake.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let output = lines(child.stdout.take().expect("a pipe"));
        let errors = lines(child.stderr.take().expect("a pipe"));
        let transport = Transport::Pipes { input: child.stdin.take(), lines: output };
        (Running { child, errors }, Editor { transport, last: 0, seen: Vec::new() })
    }

    /// Starts the program with an editor that has sent `initialize` and opened a session.
    pub fn begin(&self, flags: &[&str]) -> (Running, Editor, String) {
        let (running, mut editor) = self.start(flags);
        editor.initialize(json!({}));
        let session = editor.open(&self.workspace());
        editor.update("available_commands_update");
        (running, editor, session)
    }
}

impl Running {
    /// The URL that the program prints when it listens.
    pub fn url(&self) -> String {
        loop {
            let line = self.errors.recv_timeout(PATIENCE).expect("an address");
            if let Some(url) = line.strip_prefix("gemini-a2a listens on ") {
                return url.trim_end_matches('/').to_owned();
            }
        }
    }

    pub fn status(&mut self) -> Option<i32> {
        crate::support::eventually("the end of the program", || self.child.try_wait().expect("a child")).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a stream, as they come.
pub fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
