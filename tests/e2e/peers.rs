//! Peer identification: the Unix socket, the instance file, and connections that are made while tools run.

use crate::drive::{Fixture, can_be_another_user, has};
use crate::support::client::Client;
use crate::support::fake::FakeGemini;
use crate::support::message::{approval, call_of, call_status_of, prompt};
use crate::support::server::{Server, Setup};
use crate::support::{TempDir, eventually};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};

const SERVER: &str = env!("CARGO_BIN_EXE_gemini-a2a");
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
const JSON: &str = "Content-Type: application/json\r\n";

/// The content of the server's file under `instances/`.
fn instance(server: &Server) -> Value {
    let own = |text: String| serde_json::from_str::<Value>(&text).ok().filter(|own| own["pid"] == server.pid());
    let entries = std::fs::read_dir(server.state_dir().join("instances")).expect("a directory");
    let mut texts = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    texts.find_map(own).expect("it says where it is")
}

/// The default Unix socket of the server.
pub fn socket(server: &Server) -> PathBuf {
    let listen = instance(server)["listen"].clone();
    let mut names = listen.as_array().expect("a list").iter().filter_map(Value::as_str);
    names.find_map(|name| name.strip_prefix("unix:")).expect("a Unix socket").into()
}

/// One request over a Unix socket; the status and the body.
fn ask(socket: &Path, method: &str, path: &str, fields: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("connecting to the socket");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("sending");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

fn rpc(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

/// A tool that runs until [`Tool::end`].
pub struct Tool {
    go: PathBuf,
    stream: Option<JoinHandle<()>>,
}

impl Tool {
    pub fn start(fixture: &Fixture) -> Tool {
        Tool::script(fixture, "while ! [ -e go ]; do sleep 0.02; done")
    }

    /// A tool that runs these shell commands first.
    fn script(fixture: &Fixture, script: &str) -> Tool {
        let (task, calls) = fixture.ask(&format!("SHELL touch began; {script}"));
        let client = fixture.client();
        let params = approval(&task, &calls[0], "proceed_once");
        let stream = thread::spawn(move || client.stream("message/stream", params).for_each(drop));
        let began = fixture.server.workspace().join("began");
        eventually("the tool runs", || began.exists().then_some(()));
        Tool { go: fixture.server.workspace().join("go"), stream: Some(stream) }
    }

    pub fn end(mut self) {
        std::fs::write(&self.go, "").expect("a file");
        self.stream.take().expect("it was started").join().expect("the stream ends");
    }
}

#[test]
fn the_unix_socket_is_for_its_user_and_serves_everything() {
    let fixture = Fixture::new();
    let own = instance(&fixture.server);
    let socket = socket(&fixture.server);
    let port = fixture.server.port();
    assert_eq!(own["listen"], json!([format!("127.0.0.1:{port}"), format!("unix:{}", socket.display())]));
    assert_eq!(own["url"], format!("http://localhost:{port}/"));
    assert!(own["started"].as_str().is_some_and(|at| at.ends_with('Z')), "{own}");
    assert_eq!(socket.parent(), Some(fixture.server.state_dir().join("run").as_path()));
    assert_eq!((mode(&socket), mode(socket.parent().expect("a directory"))), (0o600, 0o700));
    let (status, body) = ask(&socket, "POST", "/", JSON, &rpc("message/send", prompt("TEXT hello")));
    assert!(status == 200 && body.contains("hello"), "{status} {body}");
    assert_eq!(ask(&socket, "GET", "/health", "", "").0, 200);
    if has("curl") {
        let curl =
            Command::new("curl").args(["-s", "--unix-socket"]).arg(&socket).arg("http://localhost/health").output();
        assert!(String::from_utf8_lossy(&curl.expect("curl").stdout).contains("healthy"));
    }
}

#[test]
fn web_pages_and_proxies_cannot_use_the_unix_socket() {
    let fixture = Fixture::with(|setup| setup.arg("--allowed-origin").arg("https://console.example"));
    let socket = socket(&fixture.server);
    let own = format!("http://localhost:{}", fixture.server.port());
    for origin in [own.as_str(), "https://console.example", "null"] {
        let (status, body) = ask(&socket, "GET", "/health", &format!("Origin: {origin}\r\n"), "");
        assert!(status == 403 && body.contains("Unix socket"), "{origin}: {status} {body}");
    }
    let mut client = fixture.client();
    for (name, value) in [("X-Forwarded-For", "1.2.3.4"), ("Forwarded", "for=1.2.3.4"), ("Via", "1.1 proxy")] {
        let (status, body) = ask(&socket, "GET", "/health", &format!("{name}: {value}\r\n"), "");
        assert!(status == 403 && body.contains("proxy"), "{name}: {status} {body}");
        let answer = client.request("GET", "/health", &[(name, value)], b"");
        assert!(answer.status() == 403 && answer.text().contains("proxy"), "{name}: {}", answer.text());
    }
    let mut stream = UnixStream::connect(&socket).expect("connecting");
    stream.write_all(b"GET /tasks HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n").expect("sending");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403"), "a page behind an ssh tunnel may have any name: {answer}");
}

#[test]
fn another_user_is_refused_on_a_socket_with_open_permissions() {
    if !can_be_another_user() || !has("curl") {
        return;
    }
    let dir = TempDir::new("socket");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = dir.path().join("a.sock");
    let fixture = Fixture::with(|setup| setup.arg("--listen").arg(format!("unix:{}", path.display())));
    let curl = |url: &str, body: &str| {
        let output = Command::new("setpriv")
            .args(NOBODY)
            .args(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket"])
            .arg(&path)
            .args(["-H", "Content-Type: application/json", "-d", body, &format!("http://localhost{url}")])
            .output();
        String::from_utf8_lossy(&output.expect("curl as another user").stdout).into_owned()
    };
    let body = rpc("message/send", prompt("TEXT hi"));
    assert_eq!(curl("/", &body), "000", "the directory keeps other users from connecting");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    assert_eq!(curl("/", &body), "403");
    assert_eq!(fixture.client().get("/health").json()["refused_peers"], 1);
    eventually("the log says so", || fixture.server.output().contains("refused a connection").then_some(()));
}

#[test]
fn a_socket_is_removed_with_its_server_and_a_stale_one_is_replaced() {
    let mut fixture = Fixture::new();
    let first = socket(&fixture.server);
    fixture.server.kill9();
    assert!(first.exists(), "a killed server leaves its socket behind");
    fixture.server.restart();
    assert_eq!(socket(&fixture.server), first, "the next server replaces the stale socket");
    assert_eq!((ask(&first, "GET", "/health", "", "").0, mode(&first)), (200, 0o600));
    let pid = fixture.server.pid().to_string();
    assert!(Command::new("kill").arg(&pid).status().expect("kill").success());
    assert_eq!(fixture.server.ended().code(), Some(0));
    assert!(!first.exists());
    for entry in std::fs::read_dir(fixture.server.state_dir().join("instances")).expect("a directory") {
        let path = entry.expect("an entry").path();
        assert_eq!(std::fs::read(&path).expect("a file"), b"", "{}", path.display());
    }
}

#[test]
fn a_socket_in_use_is_not_replaced() {
    let fixture = Fixture::new();
    let taken = socket(&fixture.server);
    let dir = TempDir::new("second");
    let second = |listen: &str| {
        let output = Command::new(SERVER)
            .args(["--listen", listen, "--state-dir"])
            .arg(dir.folder("state"))
            .arg("--workspace")
            .arg(dir.path())
            .env_clear()
            .output()
            .expect("it ends by itself");
        assert_eq!(output.status.code(), Some(78));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let message = second(&format!("unix:{}", taken.display()));
    assert!(message.contains("another server listens on"), "{message}");
    assert_eq!(ask(&taken, "GET", "/health", "", "").0, 200);
    let long = dir.path().join("x".repeat(120));
    let message = second(&format!("unix:{}", long.display()));
    assert!(message.contains("the system allows 107"), "{message}");
    let message = second("0.0.0.0:0");
    assert!(message.contains("is not a loopback address"), "{message}");
}

#[test]
fn every_listen_option_adds_a_listener() {
    let dir = TempDir::new("socket");
    let path = dir.path().join("a.sock");
    let runtime = dir.folder("runtime");
    let fixture = Fixture::with(|setup| {
        let setup = setup.arg("--listen").arg(format!("unix:{}", path.display()));
        setup.arg("--listen=127.0.0.2:0").env("XDG_RUNTIME_DIR", &runtime)
    });
    let listen = instance(&fixture.server)["listen"].clone();
    let names: Vec<&str> = listen.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let second = names.iter().find(|name| name.starts_with("127.0.0.2:")).expect("the second port");
    assert_eq!(Client::new(&format!("http://{second}")).get("/health").status(), 200);
    assert_eq!(ask(&path, "GET", "/health", "", "").0, 200);
    let default = names.last().and_then(|name| name.strip_prefix("unix:")).expect("a Unix socket");
    assert_eq!(Path::new(default).parent(), Some(runtime.join("gemini-a2a").as_path()));
    assert_eq!(ask(Path::new(default), "GET", "/health", "", "").0, 200);
}

#[test]
fn the_server_starts_without_a_directory_for_its_socket() {
    let dir = TempDir::new("runtime");
    let long = dir.folder(&"x".repeat(100));
    let fixture = Fixture::with(|setup| setup.env("XDG_RUNTIME_DIR", &long));
    assert_eq!(fixture.client().get("/health").status(), 200);
    let says = |fixture: &Fixture, text: &str| {
        eventually(text, || fixture.server.output().contains(text).then_some(()));
    };
    says(&fixture, "there is no Unix socket beside TCP");
    says(&fixture, "the system allows 107");
    let shared = dir.folder("shared/gemini-a2a");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let fixture = Fixture::with(|setup| setup.env("XDG_RUNTIME_DIR", dir.path().join("shared")));
    says(&fixture, "only this user can write to");
}

/// A tool's requests over the Unix socket and its upgrades. `tests/self_approval.rs` tests TCP.
#[test]
fn a_tool_process_may_only_read() {
    if !has("curl") {
        return;
    }
    let fixture = Fixture::new();
    let (url, socket) = (fixture.server.url(), socket(&fixture.server));
    let (waiting, calls) = fixture.ask("WRITE forbidden.txt x");
    let answer = rpc("message/send", approval(&waiting, &calls[0], "proceed_once"));
    std::fs::write(fixture.server.workspace().join("answer.json"), answer).expect("a file");
    let curl = |rest: &str| format!("curl -s --noproxy '*' -o /dev/null -w '%{{http_code}} ' {rest}; ");
    let over = format!("--unix-socket {}", socket.display());
    let upgrade = "-H Connection:Upgrade -H Upgrade:websocket -H Sec-WebSocket-Version:13 \
        -H Sec-WebSocket-Key:dGhlIHNhbXBsZSBub25jZQ==";
    let post = "-H Content-Type:application/json -d @answer.json";
    let script: String = [
        format!("{post} {over} http://localhost/"),
        format!("{over} http://localhost/tasks"),
        format!("{over} {upgrade} http://localhost/ws"),
        format!("{url}/tasks"),
        format!("{upgrade} {url}/ws"),
        format!("{upgrade} {url}/tasks"),
        format!("{upgrade} {url}/health"),
        format!("{post} {url}/"),
    ]
    .iter()
    .map(|rest| curl(rest))
    .collect();
    // A process whose program is not readable is not dumpable: only root can see its open files.
    let hidden = curl(&format!("{post} {url}/")).replace("curl", "./hidden");
    let hide = "cp \"$(command -v curl)\" hidden; chmod 111 hidden";
    let (task, calls) = fixture.ask(&format!("SHELL {script}{hide}; {hidden}"));
    let events: Vec<_> =
        fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once")).collect();
    let done = events.iter().find(|event| call_status_of(event.result()) == "success");
    let done = done.unwrap_or_else(|| panic!("no success in {events:#?}"));
    assert_eq!(call_of(done.result())["response"]["resultDisplay"], "403 200 403 200 403 403 403 403 403 ");
    assert_eq!((fixture.file("forbidden.txt"), fixture.state(&waiting)), (None, "input-required".into()));
    assert_eq!(fixture.client().get("/health").json()["refused_peers"], 7);
    let lines = || fixture.server.output().matches("refused a connection").count();
    eventually("the log says so", || (lines() > 0).then_some(()));
    assert_eq!(lines(), 1, "the log is not flooded");
}

#[test]
fn the_user_is_served_while_a_tool_runs() {
    let fixture = Fixture::new();
    let tool = Tool::start(&fixture);
    // Over TCP and the Unix socket, from the parent of the server and from a process beside it.
    let (task, calls) = fixture.ask("WRITE allowed.txt x");
    let events: Vec<_> =
        fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once")).collect();
    assert!(!events.is_empty() && fixture.file("allowed.txt").is_some());
    let socket = socket(&fixture.server);
    assert_eq!(ask(&socket, "POST", "/", JSON, &rpc("message/send", prompt("TEXT hi"))).0, 200);
    if has("curl") {
        for address in [
            vec![fixture.server.url()],
            vec!["--unix-socket".into(), socket.display().to_string(), "http://localhost".into()],
        ] {
            let body = rpc("message/send", prompt("TEXT hi"));
            let output = Command::new("curl")
                .args([
                    "-s",
                    "--noproxy",
                    "*",
                    "-o",
                    "/dev/null",
                    "-w",
                    "%{http_code}",
                    "-H",
                    "Content-Type: application/json",
                ])
                .args(["-d", &body])
                .args(address)
                .output();
            assert_eq!(String::from_utf8_lossy(&output.expect("curl").stdout), "200");
        }
    }
    tool.end();
    assert_eq!(fixture.client().get("/health").json()["refused_peers"], 0);
}

/// Two servers that share a state directory: a tool of one may not prompt the other.
#[test]
fn a_tool_of_another_server_may_only_read() {
    if !has("curl") {
        return;
    }
    let first = Fixture::new();
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).state_dir(&first.server.state_dir()).start();
    let second = Fixture { server, fake };
    assert_eq!(second.server.state_dir(), first.server.state_dir());
    std::fs::write(second.server.workspace().join("prompt.json"), rpc("message/send", prompt("TEXT hi")))
        .expect("a file");
    let target = |fixture: &Fixture| {
        let socket = socket(&fixture.server);
        [fixture.server.url(), format!("--unix-socket {} http://localhost", socket.display())]
    };
    let post = "curl -s --noproxy '*' -o /dev/null -w '%{http_code} ' -H Content-Type:application/json -d @prompt.json";
    let script: String = target(&first).iter().map(|address| format!("{post} {address}/; ")).collect();
    let (task, calls) = second.ask(&format!("SHELL {script}"));
    let stream = second.client().stream("message/stream", approval(&task, &calls[0], "proceed_once"));
    let events: Vec<_> = stream.collect();
    let done = events.iter().find(|event| call_status_of(event.result()) == "success").expect("the tool ended");
    assert_eq!(call_of(done.result())["response"]["resultDisplay"], "403 403 ");
    // Both serve their user.
    for fixture in [&first, &second] {
        fixture.say("TEXT hi");
    }
    assert_eq!(first.client().get("/health").json()["refused_peers"], 2);
}

/// A server in its own PID namespace cannot see the processes of its clients, so it cannot distinguish them from tools while one runs.
#[test]
fn an_unidentified_peer_is_refused_until_the_tool_has_ended() {
    let Some(fixture) = Fixture::in_pid_namespace(":") else {
        return;
    };
    let run = fixture.server.state_dir().join("run");
    let entry = std::fs::read_dir(run).expect("a directory").next().expect("a socket");
    let socket = entry.expect("an entry").path();
    let body = rpc("message/send", prompt("TEXT hi"));
    let post = || {
        let answer = fixture.client().request("POST", "/", &[("Content-Type", "application/json")], body.as_bytes());
        (answer.status(), answer.text())
    };
    assert_eq!(post().0, 200);
    assert_eq!(ask(&socket, "POST", "/", JSON, &body).0, 403, "the kernel names no process there");
    let tool = Tool::start(&fixture);
    let (status, message) = post();
    let names_the_way_out =
        message.contains("Wait until the tool has ended") && message.contains(&socket.display().to_string());
    assert!(status == 403 && names_the_way_out, "{status} {message}");
    assert_eq!(fixture.client().get("/tasks/metadata").status(), 200, "an unidentified peer may read");
    tool.end();
    // New connections are trusted again after the listeners' backlogs were seen empty once.
    eventually("it is let in", || (post().0 == 200).then_some(()));
}
