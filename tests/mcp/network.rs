//! Servers over HTTP: responses as JSON and as events, lost sessions, interrupted streams, and the older transport.

use crate::drive::task_in;
use crate::support::{TempDir, eventually};
use crate::{Mcp, ended};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A process of `http_server.py` with some variations.
pub struct HttpServer {
    process: Child,
    pub port: String,
    heard: PathBuf,
    _dir: TempDir,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl HttpServer {
    pub fn start(words: &str) -> HttpServer {
        HttpServer::start_with(words, "0", "")
    }

    /// Starts the server at the port `wanted`. `away` is the target of its redirections.
    pub fn start_with(words: &str, wanted: &str, away: &str) -> HttpServer {
        let dir = TempDir::new("mcp");
        let (port, heard) = (dir.path().join("port"), dir.path().join("heard"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/http_server.py");
        let mut command = Command::new("python3");
        let command =
            command.args([script, words]).arg(&port).env("HEARD", &heard).env("PORT", wanted).env("AWAY", away);
        let command = command.env("PYTHONDONTWRITEBYTECODE", "1");
        let process = command.spawn().expect("it starts");
        let port = eventually("it listens", || std::fs::read_to_string(&port).ok());
        HttpServer { process, port, heard, _dir: dir }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.heard).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a request")).collect()
    }
}

/// A server over HTTP, and a server under test with it in the settings.
pub struct Network {
    pub mcp: Mcp,
    server: HttpServer,
}

impl Network {
    pub fn new(words: &str, path: &str, more: Value) -> Option<Network> {
        let mcp = Mcp::new(json!({}))?;
        let server = HttpServer::start(words);
        let mut settings = json!({"url": server.url(path), "trust": true});
        more.as_object().into_iter().flatten().for_each(|(key, value)| settings[key] = value.clone());
        mcp.set_user(&json!({"mcpServers": { "x": settings }}));
        Some(Network { mcp, server })
    }

    fn heard(&self) -> Vec<Value> {
        self.server.heard()
    }

    pub fn count(&self, method: &str) -> usize {
        self.heard().iter().filter(|request| request["method"] == method).count()
    }

    /// Calls `echo`; the response of the call.
    fn call(&self) -> Value {
        let events = self.mcp.fixture.say("CALL mcp_x_echo {\"text\": \"hello\"} ;; TEXT done");
        let server = self.mcp.metadata(&task_in(&events))["mcpServers"].clone();
        let ended = ended(&events);
        ended.unwrap_or_else(|| panic!("no call ended; {server:#}\n{}", self.mcp.fixture.server.output()))["response"]
            .clone()
    }

    /// The status and the error of the server.
    fn seen(&self) -> (Value, String) {
        let task = task_in(&self.mcp.fixture.say("TEXT hello"));
        let server = self.mcp.metadata(&task)["mcpServers"][0].clone();
        (server["status"].clone(), server["error"].as_str().unwrap_or_default().to_owned())
    }
}

#[test]
fn answers_as_json_and_as_events_are_the_same() {
    for words in ["", "events", "events,crlf", "noget", "moved"] {
        let Some(network) = Network::new(words, "/mcp", json!({})) else { return };
        assert_eq!(network.call()["resultDisplay"], "echo: hello", "{words}");
    }
}

/// A server that has no GET stream is asked for it only once. A server whose GET stream ends at once is asked again.
#[test]
fn the_get_stream_is_requested_only_once_from_a_server_that_has_none() {
    let Some(mcp) = Mcp::new(json!({})) else { return };
    let named = ["noget", "noget,missing", "short"].map(HttpServer::start);
    let [refuses, missing, short] = &named;
    let settings = |server: &HttpServer| json!({"url": server.url("/mcp"), "type": "http"});
    mcp.set_user(&json!({"mcpServers": {"a": settings(refuses), "b": settings(missing), "c": settings(short)}}));
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let streams = |server: &HttpServer| server.heard().iter().filter(|one| one["http"] == "GET").count();
    eventually("all are asked", || named.iter().all(|server| streams(server) > 0).then_some(()));
    // Every wait before the next stream is the same, so either of the others would have been asked by then.
    let before = streams(short);
    eventually("one is asked again", || (streams(short) >= before + 3).then_some(()));
    assert_eq!((streams(refuses), streams(missing)), (1, 1));
    let servers = mcp.metadata(&task)["mcpServers"].clone();
    assert!(servers.as_array().expect("a list").iter().all(|one| one["status"] == "connected"), "{servers}");
}

#[test]
fn the_session_and_the_version_are_on_every_request() {
    let headers = json!({"headers": {"Authorization": "Bearer s3cret-of-the-user"}});
    let Some(mut network) = Network::new("", "/mcp", headers) else { return };
    network.call();
    eventually("the server's own stream is opened", || network.heard().into_iter().find(|one| one["http"] == "GET"));
    let requests = network.heard();
    let (first, rest) = requests.split_first().expect("requests");
    assert_eq!(first["headers"].get("mcp-session-id"), None);
    for request in rest {
        let headers = &request["headers"];
        assert_eq!(
            (&headers["mcp-session-id"], &headers["mcp-protocol-version"]),
            (&json!("s1"), &json!("2025-11-25"))
        );
        assert_eq!(headers["authorization"], "Bearer s3cret-of-the-user");
    }
    let order: Vec<&str> = requests.iter().filter_map(|one| one["method"].as_str()).take(3).collect();
    assert_eq!(order, ["initialize", "notifications/initialized", "tools/list"]);
    network.mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp disable", "args": ["x"]}));
    let end = network.heard().pop().expect("a request");
    assert_eq!((&end["http"], &end["headers"]["mcp-session-id"]), (&json!("DELETE"), &json!("s1")), "{end}");
    let output = network.mcp.fixture.server.output();
    assert!(!output.contains("s3cret-of-the-user"), "{output}");
    network.mcp.fixture.server.kill9();
}

#[test]
fn a_lost_session_is_begun_again_and_the_call_is_repeated_once() {
    for words in ["forgets", "forgets,bad"] {
        let Some(network) = Network::new(words, "/mcp", json!({})) else { return };
        assert_eq!(network.call()["resultDisplay"], "echo: hello", "{words}");
        assert_eq!((network.count("initialize"), network.count("tools/call")), (2, 2), "{words}");
    }
    let Some(network) = Network::new("forgetful", "/mcp", json!({})) else { return };
    let response = network.call();
    assert_eq!(response["errorType"], "mcp_tool_error");
    assert!(response["error"]["message"].as_str().is_some_and(|why| why.contains("session")), "{response}");
    assert!(network.count("tools/call") <= 2);
}

#[test]
fn a_stream_that_breaks_is_resumed_if_it_has_ids() {
    let Some(network) = Network::new("cut,ids", "/mcp", json!({})) else { return };
    assert_eq!(network.call()["resultDisplay"], "resumed");
    let resumed = network.heard().into_iter().find(|one| one["headers"].get("last-event-id").is_some());
    assert_eq!(resumed.expect("a GET")["headers"]["last-event-id"], "1");
    assert_eq!(network.count("tools/call"), 1);
    let Some(network) = Network::new("cut", "/mcp", json!({})) else { return };
    let response = network.call();
    assert!(response["error"]["message"].as_str().is_some_and(|why| why.contains("may have run")), "{response}");
    assert_eq!(network.count("tools/call"), 1, "it is not called again");
}

#[test]
fn an_error_body_with_another_id_reaches_the_user() {
    let Some(network) = Network::new("broken", "/mcp", json!({})) else { return };
    let response = network.call();
    assert!(response["error"]["message"].as_str().is_some_and(|why| why.contains("it is broken")), "{response}");
}

#[test]
fn the_older_transport_is_detected_or_configured() {
    for more in [json!({}), json!({"type": "sse"})] {
        let Some(network) = Network::new("", "/sse", more) else { return };
        assert_eq!(network.call()["resultDisplay"], "echo: hello");
        let task = task_in(&network.mcp.fixture.say("TEXT hello"));
        assert_eq!(network.mcp.metadata(&task)["mcpServers"][0]["transport"], "sse");
    }
    let Some(network) = Network::new("foreign", "/sse", json!({"type": "sse"})) else { return };
    let (status, error) = network.seen();
    assert_eq!(status, "disconnected");
    assert!(error.contains("127.0.0.2"), "{error}");
}

/// With the older transport, the end of the stream fails the running calls, and the server is connected again.
#[test]
fn the_older_transport_is_connected_again_after_its_stream_ended() {
    for (words, streams) in [("ends", 2), ("ends,refuses", 3)] {
        let Some(network) = Network::new(words, "/sse", json!({"type": "sse"})) else { return };
        reconnects(&network, streams);
    }
}

/// Checks that the server is connected again, also after a refused attempt.
fn reconnects(network: &Network, streams: usize) {
    let events = network.mcp.fixture.say("CALL mcp_x_never {} ;; TEXT done");
    let response = ended(&events).expect("an end")["response"].clone();
    assert_eq!(response["errorType"], "mcp_tool_error", "{response}");
    assert!(response["error"]["message"].as_str().is_some_and(|why| why.contains("event stream ended")), "{response}");
    eventually("it is connected again", || (network.count("initialize") == 2).then_some(()));
    assert_eq!(network.call()["resultDisplay"], "echo: hello");
    assert_eq!((network.count("initialize"), network.count("tools/call")), (2, 2), "no call is repeated");
    assert_eq!(network.heard().iter().filter(|one| one["path"] == "/sse" && one["http"] == "GET").count(), streams);
}

/// The server lost the session of a call and cannot begin a new one. The call may have run before.
#[test]
fn the_error_of_a_call_says_that_it_may_have_run_when_the_server_is_lost() {
    let Some(network) = Network::new("forgets,leaves", "/mcp", json!({})) else { return };
    let events = network.mcp.fixture.say("CALL mcp_x_echo {\"text\": \"hello\"} ;; TEXT done");
    let response = ended(&events).expect("an end")["response"].clone();
    assert!(
        response["error"]["message"].as_str().is_some_and(|why| why.contains("the call may have run")),
        "{response}"
    );
}

/// An unreachable server is tried again automatically, with both transports.
#[test]
fn a_server_that_is_down_at_first_is_connected_when_it_is_up() {
    for (path, kind) in [("/mcp", "http"), ("/sse", "sse")] {
        let Some(mcp) = Mcp::new(json!({})) else { return };
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port().to_string();
        let url = format!("http://127.0.0.1:{free}{path}");
        mcp.set_user(&json!({"mcpServers": {"x": {"url": url, "type": kind, "trust": true}}}));
        let task = task_in(&mcp.fixture.say("TEXT hello"));
        let seen = mcp.metadata(&task)["mcpServers"][0].clone();
        assert_eq!(seen["status"], "disconnected", "{seen}");
        assert!(seen["error"].as_str().is_some_and(|why| why.contains("cannot be reached")), "{seen}");
        let _server = HttpServer::start_with("", &free, "");
        let listed = || mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp list"})).json();
        eventually("it is connected", || (listed()["data"]["servers"][0]["status"] == "connected").then_some(()));
        let told = format!("MCP server x: {url} cannot be reached");
        assert_eq!(mcp.fixture.server.output().matches(&told).count(), 1, "{}", mcp.fixture.server.output());
    }
}

#[test]
fn a_silent_stream_times_out() {
    let Some(network) = Network::new("mute", "/sse", json!({"type": "sse", "startupTimeout": 300})) else { return };
    let (status, error) = network.seen();
    assert_eq!(status, "disconnected");
    assert!(error.contains("did not name its endpoint within 1 s (startupTimeout)"), "{error}");
}

/// The target of a redirection gets neither the message nor the credentials.
#[test]
fn nothing_is_sent_to_the_target_of_a_redirection() {
    for words in ["away", "away,307"] {
        let Some(mcp) = Mcp::new(json!({})) else { return };
        let other = HttpServer::start("");
        let server = HttpServer::start_with(words, "0", &other.url("/mcp"));
        let headers = json!({"Authorization": "Bearer s3cret-of-the-user"});
        mcp.set_user(&json!({"mcpServers": {"x": {"url": server.url("/mcp"), "type": "http", "headers": headers}}}));
        let task = task_in(&mcp.fixture.say("TEXT hello"));
        let seen = mcp.metadata(&task)["mcpServers"][0].clone();
        assert_eq!(seen["status"], "disconnected", "{words}: {seen}");
        assert_eq!(server.heard()[0]["headers"]["authorization"], "Bearer s3cret-of-the-user");
        assert!(other.heard().is_empty(), "{words}: {:?}", other.heard());
    }
}

#[test]
fn redirections_to_other_hosts_and_missing_credentials_are_reported() {
    let Some(network) = Network::new("away", "/mcp", json!({"type": "http"})) else { return };
    let (status, error) = network.seen();
    assert_eq!(status, "disconnected");
    assert!(error.contains("302"), "{error}");
    let Some(network) = Network::new("auth", "/mcp", json!({})) else { return };
    assert_eq!(network.seen(), (json!("disconnected"), "needs login: gemini-a2a mcp login x".to_owned()));
    let Some(network) = Network::new("auth", "/mcp", json!({"headers": {"Authorization": "Bearer wrong-token"}}))
    else {
        return;
    };
    let (_, error) = network.seen();
    assert!(error.contains("401") && error.contains("check headers"), "{error}");
}
