//! Tickets of web pages, from `POST /ticket` to the socket that they open.

use super::{Answer, Server, bearer, credential, get, message, post};
use crate::core::Input;
use crate::core::connections::connection::{Link, Peer};
use crate::limits::access::{TICKET_MS, TICKETS};
use serde_json::{Value, json};

const PAGE: &str = "https://page.example";

fn ann() -> Value {
    credential("laptop", "ann", &["view", "prompt"])
}

fn server_of(credentials: &[Value]) -> Server {
    Server::changed(credentials, |setup| setup.host_policy.origins = vec![PAGE.into(), "https://other.example".into()])
}

fn server() -> Server {
    server_of(&[ann()])
}

fn origin(page: &str) -> String {
    format!("Origin: {page}\r\n")
}

fn issue(server: &mut Server, wish: &Value) -> Answer {
    server.ask(&post("/ticket", &format!("{}{}", origin(PAGE), bearer("laptop")), wish))
}

fn ticket(server: &mut Server, wish: &Value) -> String {
    let answer = issue(server, wish);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(answer.head.contains("Cache-Control: no-store"), "{answer:?}");
    assert_eq!(answer.json()["expiresIn"], 30);
    answer.json()["ticket"].as_str().expect("a text").to_owned()
}

fn handshake(path: &str, page: &str, ticket: &str) -> String {
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    get(path, &format!("{upgrade}{}Sec-WebSocket-Protocol: session, ticket.{ticket}\r\n", origin(page)))
}

fn open(server: &mut Server, path: &str, page: &str, ticket: &str) -> Answer {
    server.ask(&handshake(path, page, ticket))
}

#[test]
fn a_ticket_opens_one_socket_of_its_page() {
    let mut server = server();
    let shown = ticket(&mut server, &json!({}));
    let opened = open(&mut server, "/ws", PAGE, &shown);
    assert_eq!(opened.status, 101, "{opened:?}");
    assert!(opened.head.contains("Sec-WebSocket-Protocol: session") && !opened.head.contains("tk_"), "{opened:?}");
    assert_eq!(open(&mut server, "/ws", PAGE, &shown).status, 401, "once");
    let shown = ticket(&mut server, &json!({}));
    assert_eq!(open(&mut server, "/ws", "https://other.example", &shown).status, 403, "another origin");
    assert_eq!(open(&mut server, "/ws", PAGE, &shown).status, 401, "which has consumed it");
    let shown = ticket(&mut server, &json!({}));
    server.test.later(TICKET_MS);
    assert_eq!(open(&mut server, "/ws", PAGE, &shown).status, 401, "its time is over");
    let shown = ticket(&mut server, &json!({}));
    assert_eq!(open(&mut server, "/acp", PAGE, &shown).status, 401, "another path");
    let foreign = handshake("/ws", PAGE, &shown).replace("Host: localhost", "Host: evil.example");
    assert_eq!(server.ask(&foreign).status, 403, "another name of the server");
    for wrong in ["tk_AAAA", "x", ""] {
        assert_eq!(open(&mut server, "/ws", PAGE, wrong).status, 401, "{wrong}");
    }
}

#[test]
fn a_ticket_works_on_another_instance_until_its_credential_changes() {
    let mut other = server();
    let shown = ticket(&mut server(), &json!({}));
    assert_eq!(open(&mut other, "/ws", PAGE, &shown).status, 101);
    let mut rights = ann();
    rights["rights"] = json!(["view", "prompt", "approve"]);
    let mut secret = ann();
    secret["sha256"] = json!("0".repeat(64));
    let mut subject = ann();
    subject["subject"] = json!("bob");
    for changed in [vec![rights], vec![secret], vec![subject], vec![]] {
        let mut server = server();
        let shown = ticket(&mut server, &json!({}));
        server.connect();
        server.change(&changed);
        assert_eq!(open(&mut server, "/ws", PAGE, &shown).status, 401, "{changed:?}");
    }
}

#[test]
fn a_ticket_allows_no_more_than_it_says() {
    let mut server = server();
    let refused = issue(&mut server, &json!({"rights": ["approve"]}));
    assert_eq!(refused.status, 403);
    assert_eq!(issue(&mut server, &json!({"rights": ["fly"]})).status, 400);
    assert_eq!(issue(&mut server, &json!({"right": ["view"]})).status, 400);
    assert_eq!(issue(&mut server, &json!({"task": "none"})).status, 404);
    let task = server.ask(&post("/message:send", &bearer("laptop"), &message("hi"))).json();
    let task = task["task"]["id"].as_str().expect("an id").to_owned();
    let shown = ticket(&mut server, &json!({"task": task, "rights": ["view"]}));
    assert_eq!(open(&mut server, "/ws", PAGE, &shown).status, 403, "it is for one task, and the session is another");
    let shown = ticket(&mut server, &json!({"task": task, "rights": ["view"]}));
    assert_eq!(open(&mut server, &format!("/ws?taskId={task}"), PAGE, &shown).status, 101);
    // Over the socket nothing else is allowed either.
    let shown = ticket(&mut server, &json!({"task": task, "rights": ["view"]}));
    let key = server.connect();
    server.send(key, &handshake(&format!("/ws?taskId={task}"), PAGE, &shown).replace("session,", "gemini-a2a.v1,"));
    assert!(server.take(key).starts_with("HTTP/1.1 101"));
    let mut call = |call: Value| {
        let text = format!("{:<126}", json!({"id": 1, "call": call}).to_string());
        let mut frame = vec![0x81, 0x80 | 126];
        frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        server.test.core.input(Input::Received { conn: key, bytes: &frame }, server.test.now);
        server.test.turns();
        server.take(key)
    };
    assert!(call(json!({"get": {"task": task}})).contains("\"ok\""));
    assert!(call(json!({"briefs": {}})).contains("one task"));
    assert!(call(json!({"abort": {"task": task}})).contains("PERMISSION_DENIED"));
}

#[test]
fn only_the_operator_gets_a_ticket_without_a_credential() {
    let mut server = server();
    assert_eq!(server.ask(&post("/ticket", "", &json!({}))).status, 401);
    let key = server.connect_over(None, Link::Tcp, Peer::SameUser);
    assert_eq!(server.ask_over(key, &post("/ticket", "", &json!({}))).status, 401);
    let key = server.connect_over(None, Link::NamedUnix, Peer::SameUser);
    assert_eq!(server.ask_over(key, &post("/ticket", "", &json!({}))).status, 401);
    let key = server.connect_over(None, Link::Unix, Peer::SameUser);
    let issued = server.ask_over(key, &post("/ticket", "", &json!({})));
    assert_eq!(issued.status, 201);
    let shown = issued.json()["ticket"].as_str().expect("a text").to_owned();
    let bare = handshake("/ws", PAGE, &shown).replace(&origin(PAGE), "");
    assert_eq!(server.ask(&bare).status, 101, "for no page");
    assert_eq!(server.ask(&get("/ticket", &bearer("laptop"))).status, 405);
}

#[test]
fn in_the_mode_local_a_ticket_limits_the_rights_of_the_operator() {
    let mut test = crate::core::test_core::TestCore::new();
    let mut ask = |request: &str| {
        let key = test.core.opened(Peer::SameUser, test.now);
        test.core.input(Input::Received { conn: key, bytes: request.as_bytes() }, test.now);
        test.turns();
        let answer = Answer::read(&test.take(key));
        test.core.input(Input::Broke { conn: key }, test.now);
        test.turns();
        answer
    };
    let issued = ask(&post("/ticket", "", &json!({"rights": ["prompt"]})));
    let shown = issued.json()["ticket"].as_str().expect("a text").to_owned();
    let request = handshake("/ws", PAGE, &shown).replace(&origin(PAGE), "");
    assert_eq!(ask(&request).status, 403, "it may not look");
    assert_eq!(ask(&request).status, 401, "once");
}

#[test]
fn a_ticket_waits_with_its_request_until_the_process_is_known() {
    let mut test = crate::core::test_core::TestCore::new();
    let mut open = |peer, request: &str| {
        let key = test.core.opened(peer, test.now);
        test.core.input(Input::Received { conn: key, bytes: request.as_bytes() }, test.now);
        test.turns();
        if test.to_identify.pop() == Some(key) {
            let identity = crate::core::connections::identity::Identity::SameUser;
            test.core.input(Input::Identified { conn: key, identity }, test.now);
            test.turns();
        }
        Answer::read(&test.take(key))
    };
    let issued = open(Peer::MaybeTool, &post("/ticket", "", &json!({})));
    let shown = issued.json()["ticket"].as_str().expect("a text").to_owned();
    assert_eq!(open(Peer::MaybeTool, &handshake("/ws", PAGE, &shown).replace(&origin(PAGE), "")).status, 101);
}

#[test]
fn the_number_of_remembered_tickets_is_limited() {
    use crate::core::access::tickets::UsedTickets;
    use crate::task::access::Principal;
    use crate::task::access::ticket::Ticket;
    let mut used = UsedTickets::default();
    let now = server().test.now;
    let made = |n: usize, expires: u64| {
        Ticket::new(&Principal::operator(), None, None, None, expires, n.to_string()).expect("nothing is missing")
    };
    for n in 0..TICKETS {
        assert!(used.note(&made(n, now.unix_ms + 1), now));
    }
    assert!(!used.note(&made(TICKETS, now.unix_ms + 1), now), "more could be shown twice");
    let later = crate::base::clock::Now { unix_ms: now.unix_ms + 1, ..now };
    assert!(used.note(&made(TICKETS, later.unix_ms + 1), later), "the others are over");
}
