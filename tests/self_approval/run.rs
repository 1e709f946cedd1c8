//! One attack: a server with a scripted agent that makes two calls, both of which ask. The test approves the first
//! one, which is the attacker, and looks at what became of the second.

use crate::frame;
use crate::support::client::{Client, Event};
use crate::support::message::{approval, asked_of, call_of, prompt, prompt_in, state_of, task_of};
use crate::support::server::{Server, Setup};
use crate::support::{TempDir, eventually};
use crate::user::Programs;
use gemini_a2a::shell::children::procfs;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Encoding {
    JsonRpc,
    JsonRpcStream,
    Rest,
    /// `POST /message/stream` with bare JSON.
    Bare,
    /// `/ws` as a live session.
    Session,
    /// `/ws` with our own sub-protocol.
    Native,
    /// The Agent Client Protocol at this path: a client that joins the task and prompts it, to approve when it is asked.
    Acp(&'static str),
    /// A WebSocket on a path that is otherwise only read.
    OtherUpgrade,
    /// No answer: a prompt to the task that asks.
    Prompt,
}

/// Who runs the attacker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttackerOrigin {
    /// A call of the task that asks.
    SameTask,
    /// The same, with a background command of that task that was started before.
    WithHelper,
    /// A task of another server that keeps its state in the same directory.
    SecondServer,
}

/// How the server knows its clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    /// By their processes.
    Local,
    /// By a credential, which the attacker has.
    Token,
    /// The same at the server's own Unix socket.
    TokenAtOwnSocket,
    /// The same without the credential, which the user of that socket does not need.
    OwnSocket,
}

impl Access {
    fn is_local(self) -> bool {
        self == Access::Local
    }

    fn is_at_own_socket(self) -> bool {
        matches!(self, Access::TokenAtOwnSocket | Access::OwnSocket)
    }
}

/// What everybody shows where a credential is needed.
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef";

#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// As attacker.c names it.
    pub way: &'static str,
    pub encoding: Encoding,
    pub origin: AttackerOrigin,
    pub access: Access,
    /// What is before the attacker's program in a command.
    pub prefix: &'static str,
}

impl Attack {
    /// The same with the credential where one is needed.
    fn client(&self, url: &str) -> Client {
        let client = Client::new(url);
        if self.access.is_local() { client } else { client.field("Authorization", &format!("Bearer {TOKEN}")) }
    }
}

/// A server, and everything to attack it.
pub struct Fixture<'a> {
    programs: &'a Programs,
    pub attack: Attack,
    pub server: Server,
    second: Option<Server>,
    /// The Unix socket that the server listens on beside its port.
    socket: PathBuf,
    number: u32,
    _runtime: RuntimeDir,
    _files: TempDir,
}

impl<'a> Fixture<'a> {
    pub fn new(programs: &'a Programs, attack: Attack) -> Fixture<'a> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let files = TempDir::new("attack");
        let script = files.path().join("script.json");
        fs::write(&script, Fixture::script(programs, attack, number).to_string()).expect("a script");
        let setup = || {
            let setup = Setup::of(&programs.server).arg("serve").arg("--script").arg(&script);
            if attack.access.is_local() { setup } else { setup.args(["--access", "token"]).env("A2A_TOKEN", TOKEN) }
        };
        let runtime = RuntimeDir::new(number);
        let setup = || setup().env("XDG_RUNTIME_DIR", &runtime.0);
        let socket = files.path().join("socket");
        let server = setup().arg("--listen").arg(format!("unix:{}", socket.display())).start();
        let second =
            (attack.origin == AttackerOrigin::SecondServer).then(|| setup().state_dir(&server.state_dir()).start());
        let socket = if attack.access.is_at_own_socket() { runtime.own_socket() } else { socket };
        let unreadable = server.workspace().join("attacker.0111");
        fs::copy(&programs.attacker, &unreadable).expect("a copy");
        fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o111)).expect("our own");
        Fixture { programs, attack, server, second, socket, number, _runtime: runtime, _files: files }
    }

    /// For each run the prompts that make its calls: all, the attacker's, and the one that must not be approved.
    fn script(programs: &Programs, attack: Attack, number: u32) -> Value {
        let second = attack.origin == AttackerOrigin::SecondServer;
        let rules = ["repel", "cancel", "control"].iter().flat_map(|run| {
            // The second server's workspace is its own, so the directory of the run comes with the prompt.
            let command = |way: &str| {
                let (attacker, tag) = (programs.attacker.display(), tag(number, run));
                let dir = if second { "\"$(cat directory)\"" } else { run };
                format!("exec {}{attacker} {way} {dir} {tag}", attack.prefix)
            };
            let call = |args: Value| json!({"call": "run_shell_command", "args": args});
            let mut attackers = vec![call(json!({"command": command(attack.way)}))];
            if attack.origin == AttackerOrigin::WithHelper {
                attackers.insert(0, call(json!({"command": command("helper"), "is_background": true})));
            }
            let asked = vec![call(json!({"command": format!("touch {run}/pwned")}))];
            let all = [attackers.clone(), asked.clone()].concat();
            [(format!("{run}-all"), all), (format!("{run}-attack"), attackers), (format!("{run}-question"), asked)]
        });
        let rules: Vec<Value> = rules.map(|(text, steps)| json!({"when": {"text": text}, "steps": steps})).collect();
        json!({"rules": rules, "default": [{"text": "I do not know this."}]})
    }

    /// Makes the task or tasks of a run and lets them ask.
    pub fn begin(&self, name: &'static str) -> Run<'_> {
        let dir = self.server.workspace().join(name);
        fs::create_dir(&dir).expect("its first run");
        let (asking, attacking) = match &self.second {
            None => {
                let mut calls = self.ask(&self.server, &format!("{name}-all"));
                let asking = calls.pop().expect("a last call");
                (asking, calls)
            }
            Some(second) => {
                fs::write(second.workspace().join("directory"), dir.display().to_string()).expect("a file");
                let mut asking = self.ask(&self.server, &format!("{name}-question"));
                (asking.remove(0), self.ask(second, &format!("{name}-attack")))
            }
        };
        self.run(name, dir, asking, attacking)
    }

    /// A socket of the test that accepts nobody: descriptors that are sent to it stay in its queue.
    pub fn keep_descriptors(&self) -> UnixListener {
        UnixListener::bind(self.socket.with_extension("keeper")).expect("a socket")
    }

    pub fn refused_peers(&self) -> u64 {
        self.attack.client(&self.server.url()).get("/health").json()["refused_peers"].as_u64().expect("a number")
    }

    /// A run in which nobody but the attacker answers: it is started by the test and so is nobody's tool.
    pub fn begin_control(&self) -> Run<'_> {
        let dir = self.server.workspace().join("control");
        fs::create_dir(&dir).expect("its only run");
        let asking = self.ask(&self.server, "control-question").remove(0);
        self.run("control", dir, asking, vec![])
    }

    /// A run with the attacker alone.
    pub fn begin_alone(&self, name: &'static str) -> Run<'_> {
        let dir = self.server.workspace().join(name);
        fs::create_dir(&dir).expect("its first run");
        let attacking = self.ask(&self.server, &format!("{name}-attack"));
        self.run(name, dir, attacking[0].clone(), attacking)
    }

    fn run(&self, name: &'static str, dir: PathBuf, asking: Asked, attacking: Vec<Asked>) -> Run<'_> {
        // The attacked port, and the server that the attacker's supervisor belongs to.
        let own = self.second.as_ref().unwrap_or(&self.server);
        let target = format!("{} {} {}\n", self.server.port(), own.pid(), self.socket.display());
        fs::write(dir.join("target"), target).expect("a file");
        let shows = matches!(self.attack.access, Access::Token | Access::TokenAtOwnSocket);
        let request = request(self.attack.encoding, &asking);
        fs::write(dir.join("request"), if shows { with_token(&request) } else { request }).expect("a file");
        fs::write(dir.join("approval"), acp_approval()).expect("a file");
        Run { fixture: self, dir, tag: tag(self.number, name), asking, attacking }
    }

    /// Lets processes of every user do in the directory of a run what the attacker does.
    pub fn open_to_everybody(&self, name: &str) {
        let workspace = self.server.workspace();
        let shut = [workspace.parent().expect("a directory above"), &workspace];
        for (path, mode) in shut.map(|path| (path, 0o755)).into_iter().chain([(workspace.join(name).as_path(), 0o777)])
        {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
        }
    }

    /// Prompts a new task and gives its calls, in the order of the script.
    fn ask(&self, server: &Server, text: &str) -> Vec<Asked> {
        let events: Vec<Event> = self.attack.client(&server.url()).stream("message/stream", prompt(text)).collect();
        let task = events.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
        let mut calls: Vec<(String, String)> = vec![];
        for event in &events {
            let result = event.result();
            let id = asked_of(result).map(str::to_owned);
            let command = call_of(result)["confirmationDetails"]["command"].as_str().unwrap_or("").to_owned();
            calls.extend(id.map(|id| (command, id)).filter(|call| !calls.contains(call)));
        }
        // They are prepared in parallel, so they may ask in any order: helper, attacker, question.
        let rank = |command: &str| (command.starts_with("touch "), !command.contains(" helper "));
        calls.sort_by_key(|(command, _)| rank(command));
        assert!(!calls.is_empty(), "nothing asks in {events:#?}");
        let (url, attack) = (server.url(), self.attack);
        let asked = |(_, call)| Asked { url: url.clone(), attack, task: task.clone(), call };
        calls.into_iter().map(asked).collect()
    }
}

/// Where a server opens the socket beside its port. Names of sockets are short, so it is not among the other files.
struct RuntimeDir(PathBuf);

impl RuntimeDir {
    fn new(number: u32) -> RuntimeDir {
        let path = PathBuf::from(format!("/tmp/a2a-run-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        RuntimeDir(path)
    }

    fn own_socket(&self) -> PathBuf {
        let run = fs::read_dir(self.0.join("gemini-a2a")).expect("a directory");
        run.map(|entry| entry.expect("an entry").path()).next().expect("a socket")
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The same request with the credential.
fn with_token(request: &[u8]) -> Vec<u8> {
    const HOST: &[u8] = b"Host: localhost\r\n";
    let at = request.windows(HOST.len()).position(|part| part == HOST).expect("it has a host") + HOST.len();
    [&request[..at], format!("Authorization: Bearer {TOKEN}\r\n").as_bytes(), &request[at..]].concat()
}

/// What all processes of a run have among their arguments.
fn tag(number: u32, run: &str) -> String {
    format!("attack-{}-{number}-{run}", std::process::id())
}

/// A call that waits for its answer.
#[derive(Clone, Debug)]
pub struct Asked {
    url: String,
    attack: Attack,
    task: String,
    call: String,
}

/// A request that approves the call, whole as the attacker sends it.
fn request(encoding: Encoding, asked: &Asked) -> Vec<u8> {
    let Asked { task, call, .. } = asked;
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let native = json!({"id": 1, "call": {"answer": {"task": task, "call": call, "option": "proceed_once"}}});
    let session = json!({"tool_call_id": call, "selected_option_id": "proceed_once"});
    match encoding {
        Encoding::JsonRpc => post("/", "application/json", &rpc("message/send", approval(task, call, "proceed_once"))),
        Encoding::JsonRpcStream => {
            post("/", "text/event-stream", &rpc("message/stream", approval(task, call, "proceed_once")))
        }
        Encoding::Rest => {
            let parts = json!([{"data": session}]);
            let message = json!({"role": "ROLE_USER", "messageId": "attack", "taskId": task, "parts": parts});
            post("/message:send", "application/json", &json!({"message": message}))
        }
        Encoding::Bare => {
            let body = json!({"taskId": task, "toolCallId": call, "approved": true});
            post("/message/stream", "text/event-stream", &body)
        }
        Encoding::Session => upgrade(&format!("/ws?taskId={task}"), None, &session),
        Encoding::Native => upgrade("/ws", Some("gemini-a2a.v1"), &native),
        Encoding::Acp(path) => {
            let resume = rpc("session/resume", json!({"sessionId": task, "cwd": "/", "mcpServers": []}));
            let prompt =
                rpc("session/prompt", json!({"sessionId": task, "prompt": [{"type": "text", "text": "hello"}]}));
            let mut all = upgrade(path, None, &rpc("initialize", json!({"protocolVersion": 1})));
            all.extend([resume, prompt].iter().flat_map(|message| frame::masked(1, message.to_string().as_bytes())));
            all
        }
        Encoding::OtherUpgrade => upgrade(&format!("/tasks/{task}"), Some("gemini-a2a.v1"), &native),
        Encoding::Prompt => post("/", "application/json", &rpc("message/send", prompt_in(task, "hello"))),
    }
}

/// What an editor answers to the first question that it is asked.
fn acp_approval() -> Vec<u8> {
    let outcome = json!({"outcome": "selected", "optionId": "proceed_once"});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"outcome": outcome}});
    frame::masked(1, answer.to_string().as_bytes())
}

fn post(path: &str, accept: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: {accept}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn upgrade(path: &str, protocol: Option<&str>, message: &Value) -> Vec<u8> {
    let protocol = protocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n")).unwrap_or_default();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    );
    [head.into_bytes(), frame::masked(1, message.to_string().as_bytes())].concat()
}

pub struct Run<'a> {
    fixture: &'a Fixture<'a>,
    pub dir: PathBuf,
    tag: String,
    asking: Asked,
    attacking: Vec<Asked>,
}

impl Run<'_> {
    /// Approves the attacker's calls.
    pub fn launch(&self) {
        for asked in &self.attacking {
            let reply = asked.answer("proceed_once");
            assert!(reply.get("result").is_some(), "{reply}");
        }
    }

    /// Starts the attacker as a process of the test.
    pub fn launch_outside(&self) -> Vec<Child> {
        let Attack { way, origin, .. } = self.fixture.attack;
        let ways = if origin == AttackerOrigin::WithHelper { vec!["helper", way] } else { vec![way] };
        let start = |way| {
            let mut command = Command::new(&self.fixture.programs.attacker);
            command.arg(way).arg(&self.dir).arg(&self.tag).stdin(Stdio::null());
            command.spawn().expect("the attacker starts")
        };
        ways.into_iter().map(start).collect()
    }

    /// What the attacker got; None if it is dead.
    pub fn response(&self) -> Option<String> {
        let path = self.dir.join("response");
        let read = || fs::read(&path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        eventually("a response, or the end of the attacker", || {
            // Looked at before: it may end just behind its response.
            let is_over = !self.pids().is_empty() && self.living().is_empty();
            read().map(Some).or(is_over.then_some(None))
        })
    }

    /// Answers the open question, which fails if somebody else has.
    pub fn refuse(&self) {
        let reply = self.asking.answer("cancel");
        assert!(reply.get("result").is_some(), "the question was not open any more: {reply}");
    }

    /// The same over the server's Unix socket.
    pub fn refuse_over_socket(&self) {
        let params = self.asking.params("cancel");
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params});
        let mut stream = UnixStream::connect(&self.fixture.socket).expect("the server listens");
        let request = post("/", "application/json", &body);
        let is_local = self.fixture.attack.access.is_local();
        stream.write_all(&if is_local { request } else { with_token(&request) }).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it answers");
        assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("\"result\""), "{response}");
    }

    pub fn note(&self, name: &str) {
        fs::write(self.dir.join(name), "").expect("a file");
    }

    /// Lets the attacker's processes end by themselves.
    pub fn release(&self) {
        self.note("release");
    }

    /// Waits until no call of the attacker's task runs.
    pub fn until_idle(&self) {
        let asked = self.attacking.first().unwrap_or(&self.asking);
        eventually("the end of the attacker's call", || {
            let task = asked.client().call("tasks/get", json!({"id": asked.task}));
            (state_of(&task) != Some("working") && state_of(&task) != Some("submitted")).then_some(())
        });
    }

    pub fn cancel(&self) {
        for asked in self.attacking.iter().take(1).chain([&self.asking]) {
            // The second time it may be over already.
            let _ = asked.client().rpc("tasks/cancel", json!({"id": asked.task}));
        }
    }

    pub fn kill_supervisor(&self) {
        // The program is the first that registers itself.
        let program = self.pids().first().copied().expect("it runs");
        let parent = procfs::stat(program).expect("it runs").parent;
        let supervisor = i32::try_from(parent).ok().and_then(Pid::from_raw).expect("it has a parent");
        rustix::process::kill_process(supervisor, Signal::KILL).expect("it is of our user");
    }

    pub fn end_server(&self, signal: Signal) {
        let server = self.fixture.server.pid();
        let pid = i32::try_from(server).ok().and_then(Pid::from_raw).expect("a number");
        rustix::process::kill_process(pid, signal).expect("our own child");
        eventually("the end of the server", || (!is_alive(server)).then_some(()));
    }

    pub fn is_approved(&self) -> bool {
        self.dir.join("pwned").exists()
    }

    pub fn until_nothing_is_left(&self) {
        assert!(!self.pids().is_empty(), "the attacker has not run");
        let seen = eventually("the end of all processes", || {
            let living = self.living();
            living.is_empty().then_some(living)
        });
        assert!(seen.is_empty());
    }

    fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.dir.join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// All processes of the attacker, and whoever else has its tag among the arguments, such as its supervisor.
    pub fn living(&self) -> Vec<u32> {
        let registered = self.pids();
        let has_tag = |pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&self.tag)
        };
        procfs::pids().filter(|pid| is_alive(*pid) && (registered.contains(pid) || has_tag(*pid))).collect()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Processes that got away end, also those of a test that fails.
        let _ = fs::write(self.dir.join("release"), "");
    }
}

impl Asked {
    fn client(&self) -> Client {
        self.attack.client(&self.url)
    }

    fn params(&self, outcome: &str) -> Value {
        let mut params = approval(&self.task, &self.call, outcome);
        params["configuration"] = json!({"blocking": false});
        params
    }

    fn answer(&self, outcome: &str) -> Value {
        self.client().rpc("message/send", self.params(outcome))
    }
}

/// Whether a process is there. A zombie whose other threads run is.
fn is_alive(pid: u32) -> bool {
    procfs::stat(pid).is_some_and(|stat| !stat.has_ended)
}
