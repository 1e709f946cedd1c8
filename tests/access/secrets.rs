//! Secrets: a tool that has a credential cannot use it, and no log, file or response contains a secret.

use crate::support::TempDir;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::fake::FakeGemini;
use crate::support::message::{approval, prompt};
use crate::support::server::{Server, Setup};
use crate::token as token_of;
use base64::Engine;
use serde_json::{Value, json};
use std::fs;
use std::net::UdpSocket;
use std::path::Path;

/// A server with one credential and a fake model.
fn token_server(change: impl FnOnce(Setup) -> Setup) -> (Server, String, TempDir, FakeGemini) {
    let fake = FakeGemini::start();
    let state = TempDir::new("state");
    let token = token_of(state.path(), &["add", "a", "--rights", "view,prompt,approve"]);
    let setup = Setup::new(&fake).args(["--access", "token"]).state_dir(state.path());
    (change(setup).start(), token, state, fake)
}

/// Lets the agent run a command that is approved.
fn run(client: &mut Client, script: &str) {
    let asked = client.call("message/send", prompt(script));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    let (task, call) = (text(&asked["id"]), text(&asked["status"]["message"]["parts"][0]["data"]["request"]["callId"]));
    client.call("message/send", approval(&task, &call, "proceed_once"));
}

/// An address of this machine that is not loopback.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only chooses the route.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}

fn audit(state: &Path) -> String {
    let dir = fs::read_dir(state.join("audit")).expect("a directory");
    dir.map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("an audit")).collect()
}

#[test]
fn a_tool_with_a_credential_cannot_prompt_or_open_a_socket() {
    let (server, token, state, _fake) = token_server(|setup| setup.args(["--listen", "0.0.0.0:0"]));
    let mut client = Client::new(&server.url()).field("Authorization", &format!("Bearer {token}"));
    let instance = fs::read_dir(state.path().join("instances")).expect("a directory");
    let instance: Vec<Value> = instance
        .filter_map(|entry| fs::read_to_string(entry.expect("an entry").path()).ok())
        .filter_map(|text| serde_json::from_str(&text).ok())
        .collect();
    let listen = instance[0]["listen"].as_array().expect("a list").clone();
    let wide =
        listen.iter().filter_map(Value::as_str).find_map(|address| address.strip_prefix("0.0.0.0:")).expect("a port");
    let mut addresses = vec![server.url().replace("localhost", "127.0.0.1")];
    match own_address() {
        Some(address) => addresses.push(format!("http://{address}:{wide}")),
        None => println!("skipped: this machine has only loopback"),
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT from a tool") });
    fs::write(server.workspace().join("body.json"), body.to_string()).expect("a file");
    let with = format!("-H 'Authorization: Bearer {token}'");
    let upgrade = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
                   -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='";
    for address in &addresses {
        let status = "-s -o /dev/null --max-time 5 -w '%{http_code} '";
        run(
            &mut client,
            &format!(
                "SHELL curl {status} {with} -H Content-Type:application/json -d @body.json {address}/ > out.txt; \
                 curl {status} {with} {upgrade} {address}/ws >> out.txt; curl {status} {with} {upgrade} {address}/acp >> out.txt; \
                 curl {status} {with} {address}/tasks >> out.txt; curl {status} {address}/tasks >> out.txt"
            ),
        );
        let out = fs::read_to_string(server.workspace().join("out.txt")).expect("it ran");
        assert_eq!(out, "403 403 403 200 401 ", "{address}");
    }
    let audit = audit(state.path());
    assert!(audit.contains("\"kind\":\"child_refused\""), "{audit}");
    let listed = client.request("GET", "/tasks", &[("A2A-Version", "1.0")], b"").json();
    assert_eq!(listed["totalSize"], addresses.len(), "there are only the tasks of the client, none of the tool");
}

#[test]
fn no_secret_is_written_anywhere() {
    let access = TempDir::new("log");
    let log = access.path().join("access.log");
    let (server, token, state, _fake) = token_server(|setup| {
        setup.args(["--debug", "--audit-prompts", "--access-log"]).arg(&log).env("A2A_TOKEN", ENVIRONMENT)
    });
    let mut client = Client::new(&server.url());
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("a:{token}"));
    let wrong = "ga2a_a_thiswaswrongthiswaswrongthiswaswrongthiswas";
    let forms = [
        ("Authorization", format!("Bearer {token}")),
        ("Authorization", format!("Basic {basic}")),
        ("X-API-Key", token.clone()),
        ("Authorization", format!("Bearer {ENVIRONMENT}")),
        ("Authorization", format!("Bearer {wrong}")),
    ];
    let mut answers = String::new();
    for (name, value) in &forms {
        for path in ["/tasks", "/tasks/none", "/metrics", "/nothing", &format!("/tasks?token={token}")] {
            answers.push_str(&client.request("GET", path, &[(name, value)], b"").text());
        }
    }
    let mut dev = Client::new(&server.url()).field("Authorization", &forms[0].1);
    dev.call("message/send", prompt("TEXT hello"));
    let ticket = dev.post("/ticket", &json!({})).json()["ticket"].as_str().expect("a text").to_owned();
    dev.request("GET", "/ws", &[("Sec-WebSocket-Protocol", &format!("ticket.{ticket}x"))], b"");
    dev.get(&format!("/tasks/{ticket}"));
    // A command that contains and prints secrets. The journal of its task has them, because they are its content.
    let encoded = base64::engine::general_purpose::STANDARD.encode(ENVIRONMENT);
    run(&mut dev, &format!("SHELL touch asks; echo {token} Basic {basic} {ENVIRONMENT} {encoded} {ticket}"));
    let rotated = token_of(state.path(), &["rotate", "a", "--overlap", "1h"]);
    let encoded_rotated = base64::engine::general_purpose::STANDARD.encode(format!("a:{rotated}"));
    for form in [format!("Bearer {rotated}"), format!("Basic {encoded_rotated}")] {
        eventually("the rotated token is known", || {
            let status = Client::new(&server.url()).request("GET", "/tasks", &[("Authorization", &form)], b"").status();
            (status == 200).then_some(())
        });
    }
    let scraped = Client::new(&server.url()).request("GET", "/metrics", &[("X-API-Key", ENVIRONMENT)], b"").text();
    let mut outputs = vec![
        ("the answers".to_owned(), answers),
        ("the metrics".to_owned(), scraped),
        ("the log".to_owned(), server.output()),
        ("the access log".to_owned(), fs::read_to_string(&log).expect("a log")),
    ];
    files(state.path(), &mut outputs);
    outputs.retain(|(name, _)| !name.contains("/tasks/") && !name.ends_with("index.jsonl"));
    assert!(outputs.iter().any(|(name, _)| name.contains("/audit/")), "the audit is one of the examined files");
    let hash = fs::read_to_string(state.path().join("credentials.json")).expect("it is there");
    assert!(!hash.contains(&token), "the credentials file has only the hash");
    for (name, text) in outputs {
        for secret in [&token, &basic, ENVIRONMENT, wrong, &ticket, &rotated, &encoded, &encoded_rotated] {
            assert!(!text.contains(secret), "{secret} is in {name}:\n{text}");
        }
    }
}

const ENVIRONMENT: &str = "operator-secret-operator-secret-operator";

/// All files below a directory that are text.
fn files(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(bytes) = fs::read(&path) {
            found.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

#[test]
fn a_request_id_is_the_same_in_the_answer_the_log_and_the_audit() {
    let access = TempDir::new("log");
    let log = access.path().join("access.log");
    let (server, token, state, _fake) = token_server(|setup| setup.arg("--access-log").arg(&log));
    let bearer = format!("Bearer {token}");
    let fields = [("Authorization", bearer.as_str()), ("X-Request-Id", "my-request.1"), crate::JSON];
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT hello") });
    let answer = Client::new(&server.url()).request("POST", "/", &fields, body.to_string().as_bytes());
    assert_eq!(answer.head.field("x-request-id"), Some("my-request.1"));
    let has = |text: &str| text.lines().any(|line| line.contains("my-request.1"));
    crate::support::eventually("the log has it", || has(&fs::read_to_string(&log).unwrap_or_default()).then_some(()));
    let audit = audit(state.path());
    let prompted = audit.lines().find(|line| line.contains("\"kind\":\"prompted\"")).expect("an entry");
    assert!(prompted.contains("\"request\":\"my-request.1\""), "{prompted}");
}
