//! Attacks on the access checks, each on a server of its own: the request is refused, and the audit records it.

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::http::Side;
use crate::support::server::Setup;
use crate::{JSON, TokenServer, program, send, task_of};
use serde_json::{Value, json};
use std::path::Path;

/// The audit entries of refused requests.
fn refusals(state: &Path) -> Vec<Value> {
    let shown = program(state, &["audit", "show", "--json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let lines = String::from_utf8(shown.stdout).expect("text");
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    entries.filter(|entry| matches!(entry["kind"].as_str(), Some("denied" | "child_refused"))).collect()
}

/// Waits for the audit entry of a refusal for this reason.
fn audited_refusal(state: &Path, reason: &str) -> Value {
    eventually(&format!("a refusal: {reason}"), || {
        refusals(state).into_iter().find(|entry| entry["kind"] == "denied" && entry["what"]["reason"] == reason)
    })
}

/// The status of a handshake with a ticket.
fn open(client: &Client, ticket: &str, more: &[(&str, &str)]) -> u16 {
    let protocol = format!("gemini-a2a.v1, ticket.{ticket}");
    let mut fields = vec![
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", protocol.as_str()),
    ];
    fields.extend_from_slice(more);
    let mut conn = client.raw();
    conn.send(&client.bytes("GET", "/ws", &fields, b"")).expect("it is sent");
    conn.response(Side::HeadOnly).expect("it is answered").status()
}

#[test]
fn a_used_or_changed_ticket_is_refused() {
    let token_server = TokenServer::with(&[["a", "ann", "view"]], |setup| {
        setup.args(["--allowed-origin", "https://page.example", "--allowed-origin", "https://other.example"])
    });
    let page = [("Origin", "https://page.example"), JSON];
    let ticket = || {
        let issued = token_server.client(0).request("POST", "/ticket", &page, b"{}");
        assert_eq!(issued.status(), 201, "{}", issued.text());
        issued.json()["ticket"].as_str().expect("a text").to_owned()
    };
    let client_without_token = token_server.client_without_token();
    let first = ticket();
    assert_eq!(
        open(&client_without_token, &first, &[("Origin", "https://other.example")]),
        403,
        "a page of another origin uses the ticket"
    );
    assert_eq!(open(&client_without_token, &first, &page[..1]), 401, "the ticket is void after that");
    let second = ticket();
    assert_eq!(open(&client_without_token, &second, &page[..1]), 101);
    assert_eq!(open(&client_without_token, &second, &page[..1]), 401, "a ticket is for one connection");
    let third = ticket();
    let longer = format!("{}{}", &third[..40], third[40..].replace(['A', 'B', 'C'], "D"));
    assert_eq!(open(&client_without_token, &longer, &page[..1]), 401, "a changed ticket");
    let listed = client_without_token.bytes("GET", "/tasks", &[("Authorization", &format!("Bearer {third}"))], b"");
    let mut conn = client_without_token.raw();
    conn.send(&listed).expect("it is sent");
    assert_eq!(conn.response(Side::Response).expect("it is answered").status(), 401, "a ticket in place of a token");
    audited_refusal(token_server.state.path(), "credential");
}

#[test]
fn headers_that_name_another_user_have_no_effect() {
    let token_server = TokenServer::new(&[["a", "ann", "view"], ["b", "bob", "view,prompt"]]);
    task_of(&send(&mut token_server.client(1), "write a file", json!({})));
    let bearer = |number: usize| format!("Bearer {}", token_server.tokens[number]);
    let (ann, bob) = (bearer(0), bearer(1));
    for (name, value) in [
        ("X-Forwarded-User", "bob"),
        ("X-Forwarded-Email", "bob@example.com"),
        ("X-Goog-IAP-JWT-Assertion", "e30.e30.e30"),
        ("Forwarded", "for=127.0.0.1;by=bob"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Remote-User", "operator"),
    ] {
        let mut client = token_server.client_without_token();
        assert_eq!(client.request("GET", "/tasks", &[(name, value)], b"").status(), 401, "{name}");
        let own = client.request("GET", "/tasks", &[("Authorization", &ann), (name, value)], b"");
        assert_eq!(own.json()["totalSize"], 0, "{name}: {}", own.text());
    }
    // Two credentials in one request are refused, even if one of them is valid.
    for fields in [
        [("Authorization", ann.as_str()), ("Authorization", bob.as_str())],
        [("Authorization", &ann), ("X-API-Key", token_server.tokens[1].as_str())],
    ] {
        assert_eq!(token_server.client_without_token().request("GET", "/tasks", &fields, b"").status(), 400);
    }
    let refused = audited_refusal(token_server.state.path(), "credential");
    assert!(refused["what"]["count"].as_u64().is_some_and(|count| count > 0), "{refused}");
}

#[test]
fn requests_through_a_local_proxy_are_refused_without_credentials() {
    for (name, value) in [("Via", "1.1 proxy"), ("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.1")] {
        let server = Setup::without_model().arg("--audit").start();
        let mut client = Client::new(&server.url());
        assert_eq!(client.get("/tasks").status(), 200);
        assert_eq!(client.request("GET", "/tasks", &[(name, value)], b"").status(), 403, "{name}");
        audited_refusal(&server.state_dir(), "host_or_origin");
    }
}

#[test]
fn task_ids_of_another_subject_are_unknown() {
    let token_server = TokenServer::new(&[["a", "ann", "view,prompt,approve"], ["b", "bob", "view,prompt,approve"]]);
    let task = task_of(&send(&mut token_server.client(0), "write a file", json!({})));
    let mut bob = token_server.client(1);
    for path in [format!("/tasks/{task}"), format!("/tasks/{task}/metadata")] {
        assert_eq!(bob.get(&path).status(), 404, "{path}");
    }
    assert_eq!(bob.request("POST", &format!("/tasks/{task}:cancel"), &[JSON], b"{}").status(), 404);
    assert_eq!(send(&mut bob, "more", json!({ "taskId": task })).status(), 404);
    let refused = audited_refusal(token_server.state.path(), "ownership");
    assert_eq!((&refused["who"]["credential"], &refused["who"]["subject"]), (&json!("b"), &json!("bob")), "{refused}");
}
