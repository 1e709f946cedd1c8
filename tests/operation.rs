//! What operators use: probes, request ids, logs and metrics, with the binary.

mod support;

#[path = "operation/drain.rs"]
mod drain;
#[path = "operation/prometheus.rs"]
mod prometheus;

use gemini_a2a::a2a::Route;
use prometheus::Metrics;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::Path;
use support::client::{Client, Response};
use support::fake::FakeGemini;
use support::message::{approval, asked_of, prompt, task_of};
use support::random::Random;
use support::server::{Server, Setup};
use support::socket::Socket;
use support::{TempDir, eventually};

pub struct Fixture {
    pub server: Server,
    pub fake: FakeGemini,
}

impl Fixture {
    pub fn with(change: impl FnOnce(Setup) -> Setup) -> Fixture {
        let fake = FakeGemini::start();
        let server = change(Setup::new(&fake)).start();
        Fixture { server, fake }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.server.url())
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.server.pid()).ok().and_then(Pid::from_raw).expect("its number");
        kill_process(pid, signal).expect("it runs");
    }

    /// The line of the access log for the request with this id.
    fn access_line(&self, path: &Path, id: &str) -> Value {
        eventually(&format!("a line about {id}"), || {
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            lines.into_iter().find(|line| line["id"] == id)
        })
    }

    fn scrape(&self) -> Metrics {
        let answer = self.client().get("/metrics");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.head.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        Metrics::parse(&answer.text())
    }
}

/// Makes a request with an id, and expects the id in the response.
fn ask(client: &mut Client, method: &str, path: &str, id: &str, more: &[(&str, &str)], body: &str) -> Response {
    let fields = [&[("X-Request-Id", id), ("Content-Type", "application/json")], more].concat();
    let answer = client.request(method, path, &fields, body.as_bytes());
    assert_eq!(answer.head.field("x-request-id"), Some(id), "{method} {path}");
    answer
}

/// Line 35: a request id is echoed, and the same in the log and in errors.
#[test]
fn a_request_id_is_echoed_and_the_same_in_log_and_error() {
    let dir = TempDir::new("access");
    let log = dir.path().join("access.log");
    let fixture = Fixture::with(|setup| setup.arg("--debug").arg("--access-log").arg(&log));
    let mut client = fixture.client();
    // A success, an error of each dialect that has a member for the id, and one of a dialect that has none.
    assert_eq!(ask(&mut client, "GET", "/health?secret=1", "r-health", &[], "").status(), 200);
    let line = fixture.access_line(&log, "r-health");
    assert_eq!((&line["method"], &line["path"], &line["status"]), (&json!("GET"), &json!("/health"), &json!(200)));
    assert_eq!(
        (&line["call"], &line["subject"], &line["peer"]),
        (&json!("health"), &json!("operator"), &json!("127.0.0.1"))
    );
    assert!(line["in"].as_u64() > Some(50) && line["out"].as_u64() > Some(100) && line["ms"].is_u64(), "{line}");
    let rpc = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"none"}}"#;
    let error = ask(&mut client, "POST", "/", "r-rpc", &[], rpc).json();
    assert_eq!(error["error"]["data"], json!({"reason": "TASK_NOT_FOUND", "taskId": "none", "requestId": "r-rpc"}));
    let rpc = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"none"}}"#;
    let error = ask(&mut client, "POST", "/", "r-rpc-1", &[("A2A-Version", "1.0")], rpc).json();
    assert_eq!(error["error"]["data"][0]["metadata"], json!({"taskId": "none", "requestId": "r-rpc-1"}));
    let error = ask(&mut client, "GET", "/v1/tasks/none", "r-rest", &[], "").json();
    assert_eq!(error["data"]["requestId"], "r-rest");
    let error = ask(&mut client, "GET", "/tasks/none", "r-rest-1", &[("A2A-Version", "1.0")], "").json();
    assert_eq!(error["error"]["details"][0]["metadata"]["requestId"], "r-rest-1");
    let error = ask(&mut client, "GET", "/tasks/none", "r-bare", &[], "").json();
    assert_eq!(error, json!({"error": "Task not found"}));
    assert_eq!(fixture.access_line(&log, "r-bare")["task"], "none");
    // Errors before the body is decoded, and of a body that is not read to its end.
    let foreign = ask(&mut client, "GET", "/v1/tasks/none", "r-origin", &[("Origin", "https://evil.example")], "");
    assert_eq!((foreign.status(), &foreign.json()["data"]["requestId"]), (403, &json!("r-origin")));
    let mut raw = fixture.client().raw();
    let head =
        "POST /v1/message:send HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: r-long\r\nContent-Length: 99999999\r\n\r\n";
    raw.send(head.as_bytes()).expect("it reads");
    let refused = raw.response(support::http::Side::Response).expect("an answer");
    assert_eq!((refused.status(), refused.head.field("x-request-id")), (413, Some("r-long")));
    assert_eq!(refused.json()["data"]["requestId"], "r-long");
    assert_eq!(fixture.access_line(&log, "r-long")["status"], 413);
    let text = fs::read_to_string(&log).expect("a log");
    assert!(!text.contains("secret"), "the log has no query");
    assert!(fixture.server.output().contains("request get none from a client (a2a-0.3), request id r-rpc"));
}

/// The same for streams and sockets, and for requests without an id.
#[test]
fn streams_and_sockets_are_logged_at_their_end_and_ids_are_made() {
    let dir = TempDir::new("access");
    let log = dir.path().join("access.log");
    let fixture = Fixture::with(|setup| setup.arg("--access-log").arg(&log));
    let mut client = fixture.client();
    // A stream, at its end.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": prompt("STREAM 3")}).to_string();
    let fields = [("X-Request-Id", "r-stream"), ("Content-Type", "application/json")];
    let events = fixture.client().events("POST", "/", &fields, body.as_bytes());
    assert_eq!(events.head().field("x-request-id"), Some("r-stream"));
    let task = events.filter_map(|event| task_of(event.result()).map(str::to_owned)).last().expect("a task");
    let line = fixture.access_line(&log, "r-stream");
    assert_eq!((&line["ended"], &line["task"], &line["call"]), (&json!("done"), &json!(task), &json!("say")), "{line}");
    assert!(line["from"].as_u64() < line["to"].as_u64() && line["dialect"].is_string(), "{line}");
    // A socket, at its end.
    let mut raw = fixture.client().raw();
    let join = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Request-Id: r-ws\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    raw.send(join.as_bytes()).expect("it reads");
    let joined = raw.response(support::http::Side::Response).expect("an answer");
    assert_eq!((joined.status(), joined.head.field("x-request-id")), (101, Some("r-ws")));
    drop(raw);
    let line = fixture.access_line(&log, "r-ws");
    assert_eq!((&line["status"], &line["ended"]), (&json!(101), &json!("peer")), "{line}");
    // Without a valid id the server makes one, which is in no body.
    for sent in [None, Some("not valid"), Some("a/b")] {
        let fields: Vec<(&str, &str)> = sent.map(|id| ("X-Request-Id", id)).into_iter().collect();
        let answer = client.request("GET", "/v1/tasks/none", &fields, b"");
        let made = answer.head.field("x-request-id").expect("an id").to_owned();
        assert!(made.len() > 12 && Some(made.as_str()) != sent, "{made}");
        assert_eq!(answer.json()["data"].get("requestId"), None);
        assert_eq!(fixture.access_line(&log, &made)["status"], 404);
    }
    let text = fs::read_to_string(&log).expect("a log");
    assert!(!text.contains("STREAM 3"), "no body");
}

#[test]
fn on_cloud_run_the_log_has_the_format_of_google_cloud() {
    let fixture = Fixture::with(|setup| {
        let setup = setup.arg("--debug").args(["--access", "local", "--host", "127.0.0.1", "--access-log", "-"]);
        setup.env("K_SERVICE", "agent").env("GOOGLE_CLOUD_PROJECT", "p-1")
    });
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let fields = [("traceparent", &*format!("00-{trace}-00f067aa0ba902b7-01")), ("User-Agent", "probe/1")];
    fixture.client().request("GET", "/tasks/none?x=1", &fields, b"");
    let line = eventually("the line of the request", || {
        let output = fixture.server.output();
        let json = output.lines().filter(|line| line.starts_with('{'));
        let mut lines = json.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.find(|line| line["httpRequest"]["requestUrl"] == "/tasks/none")
    });
    assert_eq!((&line["severity"], &line["message"]), (&json!("WARNING"), &json!("GET /tasks/none 404")));
    assert_eq!(line["logging.googleapis.com/trace"], format!("projects/p-1/traces/{trace}"));
    let request = &line["httpRequest"];
    assert_eq!((&request["status"], &request["userAgent"]), (&json!(404), &json!("probe/1")));
    assert_eq!((&request["requestMethod"], &request["remoteIp"]), (&json!("GET"), &json!("127.0.0.1")));
    for member in ["requestSize", "responseSize", "latency"] {
        assert!(request[member].is_string(), "{request}");
    }
    let output = fixture.server.output();
    let debug = output.lines().find(|line| line.contains("\"severity\":\"DEBUG\"")).expect("a line of the log");
    let debug: Value = serde_json::from_str(debug).expect("JSON");
    assert!(debug["time"].is_string() && debug["message"].as_str().is_some_and(|m| m.contains("[A2AService]")));
}

fn random_word(random: &mut Random) -> String {
    (0..8).map(|_| (b'a' + random.below(26) as u8) as char).collect()
}

/// Makes a thousand random requests. Returns the random words in them.
fn ask_at_random(client: &mut Client) -> BTreeSet<String> {
    let mut random = Random::new(36);
    let mut words = BTreeSet::new();
    for _ in 0..1_000 {
        let word = random_word(&mut random);
        let method = random.one_of(&["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW", "XYZZY"]);
        let path = random.one_of(&[
            "/",
            "/tasks",
            "/v1/tasks",
            "/tasks/W",
            "/v1/tasks/W:cancel",
            "/W",
            "/W/tasks/W",
            "/health",
            "/ws",
        ]);
        let path = path.replace('W', &word);
        let body = random.one_of(&["", "{}", r#"{"jsonrpc":"2.0","id":1,"method":"W","params":{"model":"W"}}"#]);
        let body = body.replace('W', &word);
        let agent = format!("{word}/1");
        let fields = [("User-Agent", agent.as_str()), ("Content-Type", "application/json"), ("A2A-Version", "1.0")];
        client.request(method, &format!("{path}?q={word}"), &fields[..random.below(4)], body.as_bytes());
        words.insert(word);
    }
    words
}

/// All label values are from closed sets.
fn check_labels(metrics: &Metrics, words: &BTreeSet<String>) {
    let routes: BTreeSet<String> = Route::all().map(|route| format!("{}{}", route.base, route.pattern)).collect();
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "_OTHER"];
    for sample in &metrics.samples {
        for (label, value) in &sample.labels {
            assert!(!words.contains(value), "{sample:?}");
            let is_known = match label.as_str() {
                "http_route" => routes.contains(value),
                "http_request_method" => methods.contains(&value.as_str()),
                "http_response_status_code" => {
                    ["200", "201", "204", "400", "403", "404", "405", "415", "426"].contains(&value.as_str())
                }
                "gen_ai_request_model" => ["gemini-3.1-pro-preview", "other"].contains(&value.as_str()),
                "gen_ai_provider_name" => value == "gcp.gemini",
                "gen_ai_tool_name" => ["run_shell_command", "write_file"].contains(&value.as_str()),
                "error_type" => ["", "fatal"].contains(&value.as_str()),
                "gen_ai_operation_name"
                | "gen_ai_token_type"
                | "state"
                | "phase"
                | "choice"
                | "group"
                | "kind"
                | "reason"
                | "lane"
                | "result"
                | "version"
                | "le" => value.len() < 32,
                _ => false,
            };
            assert!(is_known, "{label}={value} of {}", sample.name);
        }
    }
}

/// Line 36: the metrics are valid, and label values are from closed sets whatever clients send.
#[test]
fn metrics_are_valid_and_their_labels_are_from_closed_sets_after_random_requests() {
    let fixture = Fixture::with(|setup| setup.args(["--approval-mode", "yolo", "--trust-workspace"]));
    let mut client = fixture.client();
    client.call("message/send", prompt("SHELL true ++ WRITE made.txt text ;; TEXT done"));
    client.call("message/send", prompt("ERR400"));
    let words = ask_at_random(&mut client);
    let metrics = fixture.scrape();
    check_labels(&metrics, &words);
    let count = |name: &str, labels: &[(&str, &str)]| metrics.value(name, labels);
    assert!(count("http_server_request_duration_seconds_count", &[]) >= 1_002.0);
    assert!(count("http_server_request_duration_seconds_count", &[("http_route", "other")]) > 50.0);
    assert_eq!(count("http_server_active_requests", &[]), 1.0, "the request for the metrics itself");
    let tool =
        |name| count("gen_ai_execute_tool_duration_seconds_count", &[("gen_ai_tool_name", name), ("error_type", "")]);
    assert_eq!((tool("run_shell_command"), tool("write_file")), (1.0, 1.0));
    assert_eq!(count("gen_ai_client_operation_duration_seconds_count", &[("error_type", "")]), 2.0);
    assert!(count("gen_ai_client_operation_duration_seconds_count", &[("error_type", "fatal")]) >= 1.0);
    assert_eq!(count("gen_ai_client_operation_time_to_first_chunk_seconds_count", &[]), 2.0);
    assert!(count("a2a_tasks", &[]) >= 2.0);
    assert!(count("a2a_events_total", &[("group", "call")]) > 4.0 && count("a2a_log_append_seconds_count", &[]) > 4.0);
    assert!(count("a2a_log_sync_seconds_count", &[]) >= 1.0 && count("a2a_loop_turn_seconds_count", &[]) > 1_000.0);
    assert!(count("process_resident_memory_bytes", &[]) > 1e6 && count("process_open_fds", &[]) > 5.0);
    assert!(count("process_start_time_seconds", &[]) > 1.7e9);
    assert_eq!(count("a2a_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
}

#[test]
fn the_listener_for_metrics_serves_nothing_else() {
    let port = support::free_port().to_string();
    let address = format!("127.0.0.1:{port}");
    let fixture = Fixture::with(|setup| setup.args(["--metrics-listen", &address]));
    let mut open = Client::new(&format!("http://{address}"));
    let foreign = [("Host", "metrics.example:9464"), ("X-Forwarded-For", "10.0.0.1")];
    let mut raw = open.raw();
    raw.send(b"GET /metrics HTTP/1.1\r\nHost: metrics.example:9464\r\n\r\n").expect("it reads");
    let answer = raw.response(support::http::Side::Response).expect("an answer");
    assert_eq!(answer.status(), 200);
    Metrics::parse(&answer.text());
    assert_eq!(open.request("HEAD", "/metrics", &foreign[1..], b"").status(), 200);
    for path in ["/", "/health", "/live", "/tasks", "/ws", "/.well-known/agent-card.json"] {
        assert_eq!(open.get(path).status(), 404, "{path}");
    }
    assert_eq!(open.post("/metrics", &json!({})).status(), 404);
    assert!(fixture.server.output().contains(&format!("http://{address}/metrics")));
    let instances = fs::read_dir(fixture.server.state_dir().join("instances")).expect("a folder");
    for entry in instances {
        let text = fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default();
        assert!(!text.contains(&port), "it is no address of the server: {text}");
    }
}

/// Line 37: `/live` answers while the disk hangs, `/ready` says why. A read of stored content that never ends is a disk that hangs: the
/// file is a pipe that nobody writes to.
#[test]
fn live_answers_while_the_disk_hangs_and_ready_says_why() {
    let fixture = Fixture::with(|setup| setup);
    let mut client = fixture.client();
    assert_eq!((client.get("/live").status(), client.get("/ready").json()), (200, json!({"ready": true})));
    let events: Vec<_> = client.stream("message/stream", prompt("WRITE made.txt some words ;; TEXT done")).collect();
    let task = events.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
    let call = events.iter().find_map(|event| asked_of(event.result())).expect("a question").to_owned();
    client.call("message/send", approval(&task, &call, "proceed_once"));
    let journal =
        fs::read_to_string(fixture.server.state_dir().join(format!("tasks/{task}.jsonl"))).expect("a journal");
    let sha256 = journal.split("\"sha256\":\"").nth(1).and_then(|rest| rest.get(..64)).expect("stored content");
    let blob = find(&fixture.server.state_dir().join("blobs"), sha256).expect("the content");
    fs::remove_file(&blob).expect("it is ours");
    mknodat(CWD, &blob, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let mut socket = Socket::open(&fixture.server.url(), "/ws", Some("gemini-a2a.v1"));
    socket.send(&json!({"id": 1, "call": {"blob": {"task": task, "sha256": sha256}}}));
    let why = eventually("/ready to notice", || {
        assert_eq!(client.get("/live").status(), 200);
        let ready = client.get("/ready");
        (ready.status() == 503).then(|| ready.json())
    });
    assert_eq!(why, json!({"ready": false, "why": ["store"]}));
    assert_eq!(client.get("/health").status(), 200);
    assert!(fixture.scrape().value("a2a_lane_jobs", &[("lane", "disk"), ("state", "running")]) >= 1.0);
    // Opening the other end lets the read continue.
    drop(OpenOptions::new().write(true).open(&blob).expect("the server reads it"));
    socket.until(|frame| frame["id"] == 1);
    eventually("/ready to notice that too", || (client.get("/ready").status() == 200).then_some(()));
}

fn find(dir: &Path, name: &str) -> Option<std::path::PathBuf> {
    fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).find_map(|path| match path.is_dir() {
        true => find(&path, name),
        false => path.to_string_lossy().replace('/', "").ends_with(name).then_some(path),
    })
}

/// Line 37, second part: SIGHUP reopens the access log and does not end the server.
#[test]
fn a_hangup_opens_the_access_log_again_and_the_server_goes_on() {
    let dir = TempDir::new("access");
    let (log, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let fixture = Fixture::with(|setup| setup.arg("--access-log").arg(&log));
    let ask = |id: &str| fixture.client().request("GET", "/live", &[("X-Request-Id", id)], b"");
    ask("r-1");
    fixture.access_line(&log, "r-1");
    fs::rename(&log, &moved).expect("it is ours");
    ask("r-2");
    fixture.access_line(&moved, "r-2");
    fixture.signal(Signal::HUP);
    eventually("a new file", || log.exists().then_some(()));
    ask("r-3");
    fixture.access_line(&log, "r-3");
    assert!(!fs::read_to_string(&moved).expect("a log").contains("r-3"));
    fixture.signal(Signal::HUP);
    ask("r-4");
    fixture.access_line(&log, "r-4");
}
