//! The refusals of each dialect, compared with a golden file.

use crate::support::golden;
use crate::support::socket::Socket;
use crate::{JSON, TokenServer, edit_credentials, message};
use serde_json::{Value, json};
use std::fmt::Write;

/// A POST request: its name, path, body and header fields.
type Post = (&'static str, &'static str, String, Vec<(&'static str, &'static str)>);

/// A request of each family of dialects.
fn requests() -> Vec<Post> {
    let rpc = |method: &str, message: Value| {
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": { "message": message } }).to_string()
    };
    let old =
        json!({ "role": "user", "messageId": "m", "kind": "message", "parts": [{ "kind": "text", "text": "x" }] });
    let new = message("x", json!({}));
    let proto = json!({ "message": { "role": "ROLE_USER", "messageId": "m", "content": [{ "text": "x" }] } });
    vec![
        ("JSON-RPC 0.3", "/", rpc("message/send", old), vec![JSON]),
        ("JSON-RPC 1.0", "/", rpc("SendMessage", new["message"].clone()), vec![JSON, ("A2A-Version", "1.0")]),
        ("REST 0.3", "/v1/message:send", proto.to_string(), vec![JSON]),
        ("REST 1.0", "/message:send", new.to_string(), vec![JSON]),
        ("Gemini", "/message/stream", json!({ "message": "x" }).to_string(), vec![JSON]),
    ]
}

#[test]
fn refusals_of_every_dialect_match_the_golden_file() {
    let rights = [["none", "dev", "view"], ["often", "dev", "view,prompt"]];
    let mut seen = String::new();
    for kind in ["no credential", "a wrong one", "a page without one", "no right", "too often"] {
        let token_server = TokenServer::new(&rights);
        for (name, path, body, mut fields) in requests() {
            let mut client = match kind {
                "no right" => token_server.client(0),
                "too often" => token_server.client(1),
                _ => token_server.client_without_token(),
            };
            match kind {
                "a wrong one" => fields.push(("Authorization", "Bearer ga2a_none_wrong")),
                "a page without one" => fields.push(("Sec-Fetch-Site", "same-origin")),
                "too often" => use_up(&token_server),
                _ => {}
            }
            let answer = client.request("POST", path, &fields, body.as_bytes());
            let fields = answer.head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
            let challenges: Vec<&str> = fields.map(|(_, value)| value.as_str()).collect();
            let challenge = challenges.join(" and ");
            let wait = answer.head.field("retry-after").map_or("-", |_| "SECONDS");
            writeln!(seen, "{kind}, {name}: {}", answer.status()).expect("a string");
            writeln!(seen, "  WWW-Authenticate: {challenge}\n  Retry-After: {wait}").expect("a string");
            writeln!(seen, "  {}", answer.text().trim()).expect("a string");
        }
    }
    refused_handshakes(&mut seen);
    refused_on_sockets(&mut seen);
    golden::compare("refusals.txt", &seen);
}

/// Before the upgrade a socket is refused like a request.
fn refused_handshakes(seen: &mut String) {
    let fields = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let token_server = TokenServer::new(&[["none", "dev", "prompt"], ["often", "dev", "view,prompt"]]);
    for path in ["/ws", "/acp", "/ws/acp"] {
        let mut put = |kind: &str, mut client: crate::support::client::Client, more: &[(&str, &str)]| {
            let answer = client.request("GET", path, &[&fields, more].concat(), b"");
            writeln!(seen, "{kind}, handshake at {path}: {}\n  {}", answer.status(), answer.text().trim())
                .expect("a string");
        };
        put("no credential", token_server.client_without_token(), &[]);
        put(
            "a wrong one",
            token_server.client_without_token(),
            &[("Sec-WebSocket-Protocol", "bearer.ga2a_none_wrong")],
        );
        put("a wrong ticket", token_server.client_without_token(), &[("Sec-WebSocket-Protocol", "ticket.tk_wrong")]);
        put("no right", token_server.client(0), &[]);
    }
}

/// The errors on an open socket of our own dialect, and the codes with which it is closed.
fn refused_on_sockets(seen: &mut String) {
    let open = |rights: &str| {
        let token_server = TokenServer::new(&[["a", "dev", rights], ["often", "dev", "view"]]);
        let protocol = format!("gemini-a2a.v1, bearer.{}", token_server.tokens[0]);
        let socket = Socket::open(&token_server.server.url(), "/ws?taskId=next", Some(&protocol));
        (token_server, socket)
    };
    let say = |socket: &mut Socket, id: u64| {
        socket.send(&json!({ "id": id, "call": { "say": { "text": "hello" } } }));
        socket.until(|frame| frame["id"] == id)
    };
    let (_token_server, mut socket) = open("view");
    writeln!(seen, "an open socket, no right: {}", say(&mut socket, 1)).expect("a string");
    let (token_server, mut socket) = open("view,prompt");
    use_up(&token_server);
    let mut answers = (1..).map(|id| say(&mut socket, id));
    let mut refused = answers.find(|answer| answer["error"]["reason"] == "RATE_LIMITED").expect("a limit");
    (refused["id"], refused["error"]["retryAfterMs"]) = (json!("ID"), json!("MILLISECONDS"));
    writeln!(seen, "an open socket, too often: {refused}").expect("a string");
    let (token_server, socket) = open("view");
    crate::token(token_server.state.path(), &["revoke", "a"]);
    writeln!(seen, "an open socket, revoked: {:?}", socket.closed()).expect("a string");
    let (token_server, socket) = open("view");
    edit_credentials(token_server.state.path(), |entry| entry["rights"] = json!(["view", "prompt"]));
    writeln!(seen, "an open socket, changed: {:?}", socket.closed()).expect("a string");
}

/// Makes requests with the credential `often` until its limit is reached.
fn use_up(token_server: &TokenServer) {
    edit_credentials(token_server.state.path(), |entry| entry["rate"] = json!({ "calls_per_minute": 1 }));
    let mut client = token_server.client(1);
    crate::support::eventually("it is refused", || (client.get("/tasks").status() == 429).then_some(()));
}

#[test]
fn a_socket_says_which_right_is_missing() {
    let token_server = TokenServer::new(&[["a", "dev", "view"]]);
    let protocol = format!("gemini-a2a.v1, bearer.{}", token_server.tokens[0]);
    let mut socket = Socket::open(&token_server.server.url(), "/ws?taskId=next", Some(&protocol));
    assert_eq!(socket.protocol.as_deref(), Some("gemini-a2a.v1"), "the accepted protocol is never the token");
    socket.send(&json!({ "id": 1, "call": { "say": { "text": "hello" } } }));
    let answer = socket.until(|frame| frame["id"] == 1);
    assert_eq!(answer["error"]["reason"], "PERMISSION_DENIED", "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("prompt")), "{answer}");
}
