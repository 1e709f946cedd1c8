//! The requests, streams and sockets that end when a credential is revoked, changed or expires.

use super::{Server, bearer, credential, get, message, post};
use crate::base::slots::Key;
use crate::core::Input;
use crate::core::access::tests::Answer;
use crate::core::connections::connection::Link;
use crate::core::connections::connection::Peer;
use crate::core::connections::identity::Identity;
use serde_json::{Value, json};

fn ann() -> Value {
    credential("laptop", "ann", &["view", "prompt", "approve"])
}

fn server() -> Server {
    Server::new(&[ann(), credential("phone", "ann", &["view"])])
}

/// Revokes the credential, and returns the answer that the connection gets.
fn revoke(server: &mut Server, key: Key) -> Answer {
    server.change(&[credential("phone", "ann", &["view"])]);
    Answer::read(&server.take(key))
}

fn is_refused(answer: &Answer) {
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.head.contains("error=\"invalid_token\"") && answer.head.contains("Connection: close"), "{answer:?}");
}

#[test]
fn a_request_that_is_being_decoded_is_refused_and_not_carried_out() {
    let mut server = server();
    server.test.computations = Some(Vec::new());
    let key = server.connect();
    server.send(key, &post("/message:send", &bearer("laptop"), &message(&"long ".repeat(100_000))));
    assert_eq!(server.test.computations.as_ref().map(Vec::len), Some(1), "it is being decoded");
    is_refused(&revoke(&mut server, key));
    server.test.compute();
    assert_eq!(server.take(key), "");
    assert_eq!(server.test.core.check().tasks, 0, "no task was created");
}

#[test]
fn a_body_that_is_being_read_is_refused() {
    let mut server = server();
    let key = server.connect();
    let request = post("/message:send", &bearer("laptop"), &message("hi"));
    server.send(key, &request[..request.len() - 5]);
    let refused = revoke(&mut server, key);
    is_refused(&refused);
    assert_eq!(refused.json()["error"]["status"], "UNAUTHENTICATED", "in the dialect of its path");
    server.test.core.input(Input::Broke { conn: key }, server.test.now);
    server.test.turns();
    assert_eq!(server.logged().iter().map(|exchange| exchange.status).collect::<Vec<_>>(), [Some(401)]);
}

#[test]
fn a_call_whose_process_is_not_known_yet_is_refused() {
    let mut server = server();
    let key = server.connect_over(None, Link::Tcp, Peer::MaybeTool);
    server.send(key, &post("/message:send", &bearer("laptop"), &message("hi")));
    is_refused(&revoke(&mut server, key));
    server.test.core.input(Input::Identified { conn: key, identity: Identity::SameUser }, server.test.now);
    server.test.turns();
    assert_eq!(server.test.core.check().tasks, 0);
}

#[test]
fn a_call_that_waits_for_the_turn_is_refused_and_the_turn_goes_on() {
    let mut server = server();
    for path in ["/message:send", "/"] {
        let mut body = message("hi");
        body["configuration"] = json!({});
        if path == "/" {
            body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body});
        }
        let key = server.connect();
        let version = format!("A2A-Version: 1.0\r\n{}", bearer("laptop"));
        server.send(key, &post(path, &version, &body));
        assert_eq!(server.take(key), "");
        let answer = revoke(&mut server, key);
        is_refused(&answer);
        if path == "/" {
            assert_eq!(answer.json()["id"], Value::Null);
        }
        assert_eq!(server.test.core.check().running, 1, "the turn goes on");
        server.test.end_turn();
        server.change(&[ann(), credential("phone", "ann", &["view"])]);
    }
}

#[test]
fn a_call_that_waits_for_the_disk_is_refused_and_not_carried_out() {
    let mut server = server();
    let task = {
        let answer = server.ask(&post("/message:send", &bearer("laptop"), &message("hi")));
        answer.json()["task"]["id"].as_str().expect("an id").to_owned()
    };
    server.test.end_turn();
    server.restart(&[ann(), credential("phone", "ann", &["view"])]);
    server.test.holds_loads = true;
    let key = server.connect();
    let mut body = message("more");
    body["message"]["taskId"] = json!(task);
    server.send(key, &post("/message:send", &bearer("laptop"), &body));
    assert_eq!(server.test.loads.len(), 1, "its task is being loaded");
    is_refused(&revoke(&mut server, key));
    server.test.holds_loads = false;
    server.test.turns();
    let state = server.test.state(&task.as_str().into());
    assert_eq!(state.turn.number, 1, "nothing was prompted");
}

#[test]
fn streams_end_and_other_credentials_of_the_subject_go_on() {
    let mut server = server();
    let key = server.connect();
    server.send(key, &post("/message:stream", &bearer("laptop"), &message("hi")));
    assert!(server.take(key).starts_with("HTTP/1.1 200"));
    server.change(&[credential("phone", "ann", &["view"])]);
    assert!(server.take(key).ends_with("0\r\n\r\n"), "the stream has ended");
    assert_eq!(server.test.core.check().running, 1);
    let listed = server.ask(&get("/tasks", &format!("A2A-Version: 1.0\r\n{}", bearer("phone"))));
    assert_eq!(listed.json()["totalSize"], 1, "{listed:?}");
}

#[test]
fn sockets_are_closed_with_the_reason() {
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut rights = ann();
    rights["rights"] = json!(["view"]);
    // A rotation without overlap, with and without other rights.
    let mut rotated = ann();
    rotated["sha256"] = json!("0".repeat(64));
    let mut both = rotated.clone();
    both["rights"] = json!(["view"]);
    for (changed, code) in [(vec![], 4401_u16), (vec![rights], 4403), (vec![rotated], 4401), (vec![both], 4401)] {
        let mut server = server();
        let key = server.connect();
        server.send(key, &get("/ws", &format!("{upgrade}{}", bearer("laptop"))));
        assert!(server.take(key).starts_with("HTTP/1.1 101"));
        server.change(&changed);
        let frame = crate::core::test_core::core_harness::waiting(&server.test.core, key);
        assert_eq!(frame[0], 0x88, "a close frame");
        assert_eq!(u16::from_be_bytes([frame[2], frame[3]]), code);
    }
}
