//! Access with credentials, from outside: who is let in, what each right allows, whose tasks are seen, and what happens when a
//! credential is replaced or revoked.

mod support;

#[path = "access/hostile.rs"]
mod hostile;
#[path = "access/limits.rs"]
mod limits;
#[path = "access/listeners.rs"]
mod listeners;
#[path = "access/refusals.rs"]
mod refusals;
#[path = "access/routes.rs"]
mod routes;
#[path = "access/secrets.rs"]
mod secrets;

use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use support::client::{Client, Response};
use support::fake::FakeGemini;
use support::server::{Server, Setup};
use support::socket::Socket;
use support::{TempDir, eventually};

/// Runs a verb of the program.
fn program(state: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
        .args(args)
        .env_clear()
        .env("HOME", state)
        .args(["--state-dir".as_ref(), state.as_os_str()])
        .output()
        .expect("the program starts")
}

fn token(state: &Path, args: &[&str]) -> String {
    let ended = program(state, &[&["token"], args].concat());
    assert!(ended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).expect("UTF-8").trim().to_owned()
}

/// A server with a credential for each of these: id, subject, rights.
struct TokenServer {
    server: Server,
    state: TempDir,
    tokens: Vec<String>,
}

impl TokenServer {
    fn new(credentials: &[[&str; 3]]) -> TokenServer {
        TokenServer::with(credentials, |setup| setup)
    }

    fn with(credentials: &[[&str; 3]], change: impl FnOnce(Setup) -> Setup) -> TokenServer {
        TokenServer::edited(credentials, |_| {}, change)
    }

    /// A server whose credentials file was changed by `edit`.
    fn edited(
        credentials: &[[&str; 3]],
        edit: impl Fn(&mut Value),
        change: impl FnOnce(Setup) -> Setup,
    ) -> TokenServer {
        let state = TempDir::new("state");
        let add = |[id, subject, rights]: &[&str; 3]| {
            token(state.path(), &["add", id, "--subject", subject, "--rights", rights])
        };
        let tokens = credentials.iter().map(add).collect();
        edit_credentials(state.path(), edit);
        let setup = Setup::without_model().args(["--access", "token"]).state_dir(state.path());
        TokenServer { server: change(setup).start(), state, tokens }
    }

    /// A client with one of the credentials.
    fn client(&self, number: usize) -> Client {
        self.client_without_token().field("Authorization", &format!("Bearer {}", self.tokens[number]))
    }

    fn client_without_token(&self) -> Client {
        Client::new(&self.server.url())
    }

    /// The first `bytes` bytes of the response to a raw request.
    fn begin(&self, head: &str, bytes: usize) -> String {
        let mut conn = TcpStream::connect(self.server.url().trim_start_matches("http://")).expect("it listens");
        conn.write_all(head.as_bytes()).expect("it is sent");
        let mut begin = vec![0; bytes];
        conn.read_exact(&mut begin).expect("it is answered");
        String::from_utf8(begin).expect("text")
    }

    fn socket(&self, number: usize, path: &str) -> Socket {
        let protocol = format!("gemini-a2a.v1, bearer.{}", self.tokens[number]);
        Socket::open(&self.server.url(), path, Some(&protocol))
    }
}

/// Changes the entries of the credentials file.
fn edit_credentials(state: &Path, edit: impl Fn(&mut Value)) {
    let path = state.join("credentials.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("JSON");
    file["credentials"].as_array_mut().expect("a list").iter_mut().for_each(edit);
    fs::write(&path, file.to_string()).expect("it is ours");
}

/// Raises the limits of a credential above what a test needs.
fn without_limits(credential: &mut Value) {
    credential["rate"] = json!({ "calls_per_minute": 4_000_000, "prompts_per_minute": 4_000_000 });
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn message(text: &str, more: Value) -> Value {
    let mut message = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": text }] });
    message.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({ "message": message })
}

fn send(client: &mut Client, text: &str, more: Value) -> Response {
    client.post("/message:send", &message(text, more))
}

fn task_of(answer: &Response) -> String {
    let task = answer.json()["task"]["id"].as_str().map(str::to_owned);
    task.unwrap_or_else(|| panic!("{}", answer.text()))
}

fn reason(answer: &Value) -> &str {
    answer["error"]["details"][0]["reason"].as_str().unwrap_or_default()
}

#[test]
fn a_server_open_to_everybody_does_not_start() {
    let state = TempDir::new("state");
    let serve = |args: &[&str]| program(state.path(), &[&["serve", "--a2a-port", "0"], args].concat());
    for (args, words) in [
        (&["--listen", "0.0.0.0:0"][..], "0.0.0.0:0 is not a loopback address"),
        (&["--host", "192.0.2.1"], "is not a loopback address"),
        (&["--public-url", "https://agent.example"], "--public-url means that a proxy"),
        (&["--trusted-proxy", "10.0.0.0/8"], "--trusted-proxy means that a proxy"),
        (&["--access", "token"], "needs a credential"),
    ] {
        let ended = serve(args);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(78), "{args:?}: {errors}");
        assert!(errors.contains(words) && !errors.contains("listens on"), "{args:?}: {errors}");
    }
    let path = state.path().join("credentials.json");
    token(state.path(), &["add", "a", "--rights", "view"]);
    for (mode, words) in [(0o644, "can be read by others"), (0o660, "can be written by others")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let ended = serve(&["--access", "token"]);
        assert_eq!(ended.status.code(), Some(78));
        assert!(String::from_utf8_lossy(&ended.stderr).contains(words), "{mode:o}");
    }
    fs::write(&path, "{").expect("it is ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    assert_eq!(serve(&["--access", "token"]).status.code(), Some(78), "broken");
}

/// Cloud Run probes a server before anybody has set a credential.
#[test]
fn on_cloud_run_a_server_without_credentials_serves_only_public_routes() {
    let server = Setup::without_model().env("K_SERVICE", "agent").start();
    let mut client = Client::new(&server.url());
    for path in ["/.well-known/agent-card.json", "/.well-known/agent.json", "/live", "/health"] {
        assert_eq!(client.get(path).status(), 200, "{path}");
    }
    eventually("it is ready", || (client.get("/ready").status() == 200).then_some(()));
    for path in ["/tasks", "/metrics", "/ws", "/nothing"] {
        let answer = client.get(path);
        assert_eq!(answer.status(), 401, "{path}");
        assert!(answer.text().contains("A2A_TOKEN"), "it says what to set: {}", answer.text());
    }
    assert_eq!(send(&mut client, "hello", json!({})).status(), 401);
}

#[test]
fn a_reachable_listener_without_tls_gets_a_warning() {
    for (listen, is_warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let token_server = TokenServer::with(&[["a", "dev", "view"]], |setup| setup.args(["--listen", listen]));
        assert_eq!(token_server.server.output().contains("this server has no TLS"), is_warned, "{listen}");
    }
}

#[test]
fn only_public_routes_answer_without_a_credential() {
    let token_server = TokenServer::new(&[["a", "ann", "view"]]);
    let mut client_without_token = token_server.client_without_token();
    for path in ["/.well-known/agent-card.json", "/.well-known/agent.json", "/health"] {
        for method in ["GET", "HEAD"] {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n");
            assert_eq!(token_server.begin(&head, 12), "HTTP/1.1 200", "{method} {path}");
        }
    }
    assert_eq!(client_without_token.get("/health").json(), json!({ "status": "healthy" }));
    assert!(
        token_server.client(0).get("/health").json()["totalTasks"].is_number(),
        "a client with a credential gets the whole report"
    );
}

#[test]
fn every_form_of_a_credential_is_accepted_on_every_kind_of_request() {
    let token_server = TokenServer::new(&[["a", "ann", "view,prompt"], ["b", "bob", "view"]]);
    let token = &token_server.tokens[0];
    let basic = |id: &str| format!("Basic {}", base64(&format!("{id}:{token}")));
    let (bearer, basic_a, basic_b) = (format!("Bearer {token}"), basic("a"), basic("b"));
    let forms = [("Authorization", bearer.as_str()), ("Authorization", &basic_a), ("X-API-Key", token)];
    let rpc = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": "t" } }).to_string();
    for form in forms {
        let mut client = token_server.client_without_token();
        assert_eq!(client.request("GET", "/tasks", &[form], b"").status(), 200);
        assert_eq!(client.request("POST", "/", &[form, JSON], rpc.as_bytes()).json()["error"]["code"], -32001);
        let body = message("hello", json!({})).to_string();
        assert_eq!(client.request("POST", "/message:stream", &[form, JSON], body.as_bytes()).status(), 200);
        let upgrade = format!(
            "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}: {}\r\n\r\n",
            form.0, form.1
        );
        assert_eq!(token_server.begin(&upgrade, 12), "HTTP/1.1 101");
    }
    let mut socket = token_server.socket(0, "/ws");
    socket.send(&json!({ "id": 1, "call": { "about": {} } }));
    let about = socket.until(|frame| frame["id"] == 1);
    assert!(about["ok"]["workspace"].is_string(), "{about}");
    for (fields, status) in [
        (vec![("Authorization", bearer.as_str()), ("X-API-Key", token.as_str())], 400),
        (vec![("Authorization", &bearer), ("Authorization", &bearer)], 400),
        (vec![("Authorization", &basic_b)], 401),
        (vec![("Authorization", "Bearer ")], 401),
        (vec![("Authorization", "Digest x")], 401),
        (vec![("Cookie", token.as_str())], 401),
    ] {
        assert_eq!(
            token_server.client_without_token().request("GET", "/tasks", &fields, b"").status(),
            status,
            "{fields:?}"
        );
    }
    let in_url = format!("/tasks?token={token}&access_token={token}&key={token}");
    assert_eq!(token_server.client_without_token().get(&in_url).status(), 401, "a secret in the URL is not read");
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn each_right_allows_what_it_says_and_nothing_else() {
    let all = [["v", "dev", "view"], ["p", "dev", "prompt"], ["a", "dev", "approve"], ["m", "dev", "admin"]];
    let token_server = TokenServer::new(&all);
    let mut admin = token_server.client(3);
    let asked = task_of(&send(&mut admin, "write a file", json!({})));
    let status = |number: usize, method: &str, path: &str, body: &Value| {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        token_server.client(number).request(method, path, &[JSON, ("A2A-Version", "1.0")], text.as_bytes()).status()
    };
    let new = message("hello", json!({}));
    let command = |line: &str| json!({ "command": line });
    // A request, and whether `view`, `prompt` and `approve` allow it.
    let table: [(&str, &str, Value, [bool; 3]); 13] = [
        ("GET", &format!("/tasks/{asked}"), Value::Null, [true, false, false]),
        ("GET", "/tasks", Value::Null, [true, false, false]),
        ("GET", "/listCommands", Value::Null, [true, false, false]),
        ("POST", "/message:send", new, [false, true, false]),
        ("POST", "/tasks", json!({}), [false, true, false]),
        ("POST", "/executeCommand", command("help"), [false, true, false]),
        ("POST", "/executeCommand", json!({ "command": "memory add", "args": ["x"] }), [false, false, false]),
        ("POST", "/executeCommand", command("init"), [false, false, false]),
        ("POST", "/executeCommand", command("mcp list"), [false, true, false]),
        ("POST", "/executeCommand", command("mcp reload"), [false, false, false]),
        ("POST", "/executeCommand", json!({ "command": "mcp enable", "args": ["x"] }), [false, false, false]),
        ("POST", "/executeCommand", json!({ "command": "mcp disable", "args": ["x"] }), [false, false, false]),
        ("POST", "/executeCommand", json!({ "command": "mcp allow", "args": ["x"] }), [false, false, false]),
    ];
    for (method, path, body, expected) in &table {
        for (number, may) in expected.iter().enumerate() {
            let got = status(number, method, path, body);
            assert_eq!(got != 403, *may, "{method} {path} {body} with {}: {got}", all[number][2]);
        }
        assert_ne!(status(3, method, path, body), 403, "{method} {path} {body} with admin");
    }
    // The question is still open: nobody has answered it.
    let shown = admin.request("GET", &format!("/tasks/{asked}"), &[("A2A-Version", "1.0")], b"").json();
    assert_eq!(shown["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    for number in [0, 1] {
        let answer = send(&mut token_server.client(number), "yes", json!({ "taskId": asked }));
        assert_eq!((answer.status(), reason(&answer.json())), (403, "PERMISSION_DENIED"), "{}", all[number][2]);
    }
    let missing = send(&mut token_server.client(1), "yes", json!({ "taskId": asked }));
    let challenge = missing.head.field("www-authenticate").unwrap_or_default();
    assert_eq!(challenge, "Bearer realm=\"gemini-a2a\", error=\"insufficient_scope\", scope=\"approve\"");
    assert_eq!(
        send(&mut token_server.client(2), "yes", json!({ "taskId": asked })).status(),
        200,
        "the right `approve` alone allows answers"
    );
    assert!(token_server.server.workspace().join("hello.txt").exists());
    assert_eq!(token_server.client(3).request("GET", &format!("/tasks/{asked}"), &[], b"").status(), 200);
}

/// Requests about the task `ID`, in every dialect.
fn requests_about_a_task() -> Vec<(&'static str, String, String)> {
    let rpc = |method: &str, id: &str| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": id, "taskId": id,
            "message": { "role": "user", "messageId": "m", "kind": "message", "taskId": id,
                "parts": [{ "kind": "text", "text": "yes" }] } } })
    };
    let mut requests: Vec<(&str, String, String)> = Vec::new();
    for path in ["/tasks/ID", "/tasks/ID/metadata", "/v1/tasks/ID", "/tasks/ID/pushNotificationConfigs"] {
        requests.push(("GET", path.into(), String::new()));
    }
    for path in ["/tasks/ID:cancel", "/tasks/ID:subscribe", "/v1/tasks/ID:cancel"] {
        requests.push(("POST", path.into(), "{}".into()));
    }
    for method in [
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "message/send",
        "message/stream",
        "GetTask",
        "CancelTask",
        "SubscribeToTask",
        "tasks/pushNotificationConfig/list",
    ] {
        requests.push(("POST", "/".into(), rpc(method, "ID").to_string()));
    }
    requests.push(("POST", "/message:send".into(), message("yes", json!({ "taskId": "ID" })).to_string()));
    requests
}

#[test]
fn a_task_of_another_subject_looks_like_an_unknown_one() {
    let token_server = TokenServer::new(&[
        ["a", "ann", "view,prompt,approve"],
        ["b", "bob", "view,prompt,approve"],
        ["m", "m", "admin"],
    ]);
    let (mut ann, mut bob) = (token_server.client(0), token_server.client(1));
    let answer = send(&mut ann, "write a file", json!({}));
    let task = task_of(&answer);
    let context = answer.json()["task"]["contextId"].as_str().expect("a context").to_owned();
    let never = "00000000-0000-4000-8000-000000000000";
    for (method, path, body) in requests_about_a_task() {
        let [theirs, nobodys] = [task.as_str(), never].map(|id| {
            let answer = token_server.client(1).request(
                method,
                &path.replace("ID", id),
                &[JSON],
                body.replace("ID", id).as_bytes(),
            );
            (answer.status(), answer.text().replace(id, "ID"))
        });
        assert_eq!(theirs, nobodys, "{method} {path} {body}");
        assert!(theirs.0 >= 400 || theirs.1.contains("error"), "{method} {path} {body}: {theirs:?}");
    }
    // Lists, counts and sockets do not contain the task.
    assert_eq!(bob.request("GET", "/tasks", &[("A2A-Version", "1.0")], b"").json()["totalSize"], 0);
    assert_eq!(bob.get("/tasks/metadata").status(), 204);
    let mut socket = token_server.socket(1, "/ws?taskId=next");
    socket.send(&json!({ "id": 1, "call": { "briefs": {} } }));
    assert_eq!(socket.until(|frame| frame["id"] == 1)["ok"]["total"], 0);
    socket.send(&json!({ "id": 2, "call": { "watch": { "task": task } } }));
    assert_eq!(socket.until(|frame| frame["id"] == 2)["error"]["reason"], "TASK_NOT_FOUND");
    // The same context id of another subject is another conversation.
    let other = send(&mut bob, "hello", json!({ "contextId": context }));
    assert_ne!(task_of(&other), task);
    let listed = ann.request("GET", "/tasks", &[("A2A-Version", "1.0")], b"").json();
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(1), &json!(task)));
    let all = token_server.client(2).request("GET", "/tasks", &[("A2A-Version", "1.0")], b"").json();
    assert_eq!(all["totalSize"], 2, "an admin sees both");
    // The same after a restart.
    let mut token_server = token_server;
    token_server.server.restart();
    let listed = token_server.client(1).request("GET", "/tasks", &[("A2A-Version", "1.0")], b"").json();
    assert_eq!(listed["totalSize"], 1, "{listed}");
}

#[test]
fn each_subject_has_a_live_session_unless_it_is_shared() {
    let credentials = [["a", "ann", "view,prompt"], ["b", "bob", "view,prompt"]];
    let session = |token_server: &TokenServer, number| {
        let mut socket = token_server.socket(number, "/ws?taskId=next");
        socket.send(&json!({ "id": 1, "call": { "session": {} } }));
        socket.until(|frame| frame["id"] == 1)["ok"].as_str().expect("an id").to_owned()
    };
    let own = TokenServer::new(&credentials);
    assert_ne!(session(&own, 0), session(&own, 1));
    assert_eq!(session(&own, 0), session(&own, 0));
    let shared = TokenServer::with(&credentials, |setup| setup.arg("--shared-session"));
    assert_eq!(session(&shared, 0), session(&shared, 1));
}

#[test]
fn a_revoked_credential_ends_its_streams_and_calls_and_the_task_continues() {
    let token_server = TokenServer::new(&[["a", "dev", "view,prompt"], ["b", "dev", "view,prompt"]]);
    let task = task_of(&send(&mut token_server.client(0), "write a file", json!({})));
    let mut socket = token_server.socket(0, "/ws?taskId=next");
    socket.send(&json!({ "id": 1, "call": { "watch": { "task": task } } }));
    socket.until(|frame| frame["id"] == 1);
    let path = format!("/tasks/{task}:subscribe");
    let mut stream = token_server.client(0).events("POST", &path, &[JSON, ("A2A-Version", "1.0")], b"{}");
    assert_eq!(stream.head().status(), 200);
    stream.next().expect("the task as it is");
    assert_eq!(token(token_server.state.path(), &["revoke", "a"]), "revoked a");
    let closed = socket.closed();
    assert_eq!(closed, (4401, "credential revoked".to_owned()));
    while stream.next().is_some() {}
    assert_eq!(token_server.client(0).get("/tasks").status(), 401);
    let shown = token_server.client(1).request("GET", &format!("/tasks/{task}"), &[("A2A-Version", "1.0")], b"").json();
    assert_eq!(shown["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "the question is still open");
}

/// A blocking call is answered when its credential is revoked. The turn cannot end before, so the answer does not come from its end.
#[test]
fn a_waiting_call_of_a_revoked_credential_is_answered_before_its_turn_ends() {
    let fake = FakeGemini::start();
    let token_server =
        TokenServer::with(&[["a", "dev", "view,prompt"], ["b", "dev", "view,prompt"]], |setup| setup.model(&fake));
    let mut client = token_server.client(0);
    let mut body = message("TEXT half ++ HOLD ++ TEXT whole", json!({}));
    body["configuration"] = json!({ "returnImmediately": false });
    let waiting = std::thread::spawn(move || {
        client.request("POST", "/message:send", &[JSON, ("A2A-Version", "1.0")], body.to_string().as_bytes())
    });
    eventually("the model is at work", || (fake.held() == 1).then_some(()));
    assert_eq!(token(token_server.state.path(), &["revoke", "a"]), "revoked a");
    let refused = waiting.join().expect("it is answered");
    assert_eq!(refused.status(), 401, "{}", refused.text());
    assert_eq!(refused.json()["error"]["status"], "UNAUTHENTICATED");
    fake.release();
    let mut other = token_server.client(1);
    eventually("the turn goes on to its end", || {
        let listed = other.request("GET", "/tasks", &[("A2A-Version", "1.0")], b"").json();
        (listed["tasks"][0]["status"]["state"] == "TASK_STATE_COMPLETED").then_some(())
    });
}

/// Every response that contains the number of tasks.
#[test]
fn no_count_includes_tasks_of_another_subject() {
    let token_server = TokenServer::new(&[["a", "ann", "view,prompt"], ["b", "bob", "view,prompt"]]);
    // The tasks have an open question, so they are listed as sessions that can be continued.
    let begin = |number: usize| task_of(&send(&mut token_server.client(number), "write a file", json!({})));
    let (of_ann, of_bob) = ([begin(0), begin(0)], [begin(1)]);
    for (number, own, others) in [(0, &of_ann[..], &of_bob[..]), (1, &of_bob[..], &of_ann[..])] {
        let mut client = token_server.client(number);
        let count = own.len();
        assert_eq!(client.get("/tasks").json()["totalSize"], count);
        let old = client.get("/v1/tasks");
        let total = old.head.field("x-total-count").map(str::to_owned);
        assert_eq!(total.unwrap_or_else(|| old.json()["totalSize"].to_string()), count.to_string(), "{}", old.text());
        assert_eq!(client.get("/health").json()["totalTasks"], count);
        let stats = client.post("/executeCommand", &json!({ "command": "stats" }));
        // The command has created a task, too.
        assert!(stats.text().contains(&format!("\"totalTasks\":{},", count + 1)), "{}", stats.text());
        let protocol = format!("acp, bearer.{}", token_server.tokens[number]);
        let mut editor = Socket::open(&token_server.server.url(), "/acp", Some(&protocol));
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        editor.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
        editor.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {} }));
        let listed = editor.until(|message| message["id"] == 2);
        let text = listed["result"]["sessions"].to_string();
        assert!(own.iter().all(|task| text.contains(task.as_str())), "{text}");
        assert!(!others.iter().any(|task| text.contains(task.as_str())), "{text}");
    }
}

#[test]
fn a_rotated_token_is_accepted_for_its_overlap() {
    let token_server = TokenServer::new(&[["a", "dev", "view"], ["b", "dev", "view"]]);
    let new = token(token_server.state.path(), &["rotate", "a", "--overlap", "1h"]);
    let status = |token: &str| {
        let bearer = format!("Bearer {token}");
        token_server.client_without_token().request("GET", "/tasks", &[("Authorization", &bearer)], b"").status()
    };
    eventually("the new token is known", || (status(&new) == 200).then_some(()));
    assert_eq!(status(&token_server.tokens[0]), 200, "the former token is accepted, too");
    let newest = token(token_server.state.path(), &["rotate", "b"]);
    eventually("the new token is known", || (status(&newest) == 200).then_some(()));
    // The earlier attempts count as wrong credentials.
    let former = status(&token_server.tokens[1]);
    assert!(matches!(former, 401 | 429), "without an overlap the former one is not accepted: {former}");
}

#[test]
fn an_unreadable_credentials_file_changes_nothing_and_is_reported() {
    let token_server = TokenServer::new(&[["a", "dev", "view"]]);
    let path = token_server.state.path().join("credentials.json");
    fs::write(&path, "{").expect("it is ours");
    let mut client = token_server.client(0);
    eventually("it is noticed", || (client.get("/ready").json()["why"] == json!(["credentials"])).then_some(()));
    assert_eq!(client.get("/tasks").status(), 200, "the former credentials are still used");
    assert!(token_server.server.output().contains("the credentials file was changed and is not used"));
    fs::remove_file(&path).expect("it is ours");
    token(token_server.state.path(), &["add", "c", "--rights", "view"]);
    eventually("the new file counts", || (client.get("/tasks").status() == 401).then_some(()));
}

#[test]
fn the_environment_gives_the_operator_a_token() {
    let state = TempDir::new("state");
    let secret = "0123456789abcdef0123456789abcdef";
    let setup = Setup::without_model().args(["--access", "token"]).state_dir(state.path());
    let server = setup.env("A2A_TOKEN", secret).start();
    let bearer = format!("Bearer {secret}");
    let mut client = Client::new(&server.url());
    assert_eq!(client.request("GET", "/tasks", &[("Authorization", &bearer)], b"").status(), 200);
    assert_eq!(client.get("/tasks").status(), 401);
    assert!(!server.output().contains(secret));
    // On Cloud Run a server without a credential starts, and its responses name the variable to set.
    let state = TempDir::new("state");
    let server = Setup::without_model().env("K_SERVICE", "agent").state_dir(state.path()).start();
    assert_eq!(Client::new(&server.url()).get("/tasks").status(), 401);
    assert!(server.output().contains("A2A_TOKEN"));
}

#[test]
fn a_workspace_outside_of_the_roots_is_refused() {
    let state = TempDir::new("state");
    let token = token(state.path(), &["add", "a", "--rights", "view,prompt", "--root", "/nowhere/else"]);
    let server = Setup::without_model().args(["--access", "token"]).state_dir(state.path()).start();
    let mut client = Client::new(&server.url()).field("Authorization", &format!("Bearer {token}"));
    let answer = send(&mut client, "hello", json!({})).text();
    assert!(answer.contains("may not use the workspace"), "{answer}");
}

#[test]
fn the_card_declares_the_security_schemes() {
    let token_server =
        TokenServer::with(&[["a", "dev", "view"]], |setup| setup.args(["--public-url", "https://agent.example/x"]));
    let mut client = token_server.client_without_token();
    let hybrid = client.get("/.well-known/agent-card.json").json();
    assert_eq!(hybrid["url"], "https://agent.example/x/");
    assert_eq!(hybrid["securitySchemes"]["bearer"]["type"], "http");
    let pure = client.request("GET", "/.well-known/agent-card.json", &[("A2A-Version", "1.0")], b"").json();
    assert_eq!(pure["securitySchemes"]["bearer"], json!({ "httpAuthSecurityScheme": { "scheme": "bearer" } }));
}
