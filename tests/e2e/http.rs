//! Rare but valid HTTP, and HTTP that is refused, over real sockets.

use crate::drive::Fixture;
use crate::support::client::{Client, Conn, Response};
use crate::support::http::Side;
use crate::support::message::prompt;
use serde_json::{Value, json};

fn rpc(fixture: &Fixture, method: &str, params: Value) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    fixture.client().bytes("POST", "/", &fields, body.to_string().as_bytes())
}

fn send(fixture: &Fixture, bytes: &[u8]) -> Conn {
    let mut conn = fixture.client().raw();
    conn.send(bytes).expect("sending");
    conn
}

fn answer(conn: &mut Conn) -> Response {
    conn.response(Side::Response).expect("an answer")
}

#[test]
fn a_client_that_closed_its_sending_side_gets_its_answer() {
    let fixture = Fixture::new();
    let stream = rpc(&fixture, "message/stream", prompt("STREAM 3 1000"));
    let wait = rpc(&fixture, "message/send", prompt("STREAM 3 1000"));
    let health = fixture.client().bytes("GET", "/health", &[], b"");
    for (request, expected) in [(stream, "\"final\":true"), (wait, "input-required"), (health, "healthy")] {
        let mut conn = send(&fixture, &request);
        conn.finish_sending().expect("a half-closed connection");
        let text = answer(&mut conn).text();
        assert!(text.contains(expected), "{text}");
        assert_eq!(conn.until_closed().expect("the end"), b"");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let fixture = Fixture::new();
    let client = fixture.client();
    let all = [
        client.bytes("GET", "/health", &[], b""),
        rpc(&fixture, "message/send", prompt("TEXT slowly")),
        client.bytes("GET", "/nowhere", &[], b""),
        rpc(&fixture, "message/stream", prompt("TEXT streamed")),
        client.bytes("GET", "/.well-known/agent-card.json", &[], b""),
    ]
    .concat();
    for ending in ["keeps", "ends"] {
        let mut conn = send(&fixture, &all);
        if ending == "ends" {
            conn.finish_sending().expect("a half-closed connection");
        }
        let answers: Vec<Response> = (0..5).map(|_| answer(&mut conn)).collect();
        let statuses: Vec<u16> = answers.iter().map(Response::status).collect();
        assert_eq!(statuses, [200, 200, 404, 200, 200], "a client that {ending}");
        assert!(answers[1].text().contains("slowly"));
        assert!(answers[3].text().contains("streamed"));
        assert!(answers[4].json()["protocolVersion"].is_string());
    }
}

#[test]
fn an_http_1_0_client_gets_no_chunks_and_a_closed_connection() {
    let fixture = Fixture::new();
    let old = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text");
        text.replacen("HTTP/1.1", "HTTP/1.0", 1).into_bytes()
    };
    let mut conn = send(&fixture, &old(fixture.client().bytes("GET", "/health", &[], b"")));
    let health = answer(&mut conn);
    assert_eq!((health.status(), health.head.closes()), (200, true));
    assert_eq!(conn.until_closed().expect("the end"), b"");

    let conn = send(&fixture, &old(rpc(&fixture, "message/stream", prompt("TEXT old"))));
    let all = String::from_utf8(conn.until_closed().expect("the whole stream")).expect("text");
    let (head, body) = all.split_once("\r\n\r\n").expect("a head");
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    assert!(body.starts_with("id: "), "{body}");
    assert!(body.contains("\"final\":true") && body.ends_with("\n\n"), "{body}");

    let keep = [("Connection", "keep-alive")];
    let request = old(fixture.client().bytes("GET", "/health", &keep, b""));
    let mut conn = send(&fixture, &request);
    assert_eq!(answer(&mut conn).status(), 200);
    conn.send(&request).expect("the same again");
    assert_eq!(answer(&mut conn).status(), 200);
}

#[test]
fn head_is_get_without_its_body() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for path in ["/.well-known/agent-card.json", "/health", "/nowhere"] {
        let get = client.get(path);
        let head = client.request("HEAD", path, &[], b"");
        assert_eq!(head.status(), get.status(), "{path}");
        assert_eq!(head.body, b"");
        assert_eq!(head.head.field("content-type"), get.head.field("content-type"));
        if path != "/health" {
            assert_eq!(head.head.field("content-length"), get.head.field("content-length"));
        }
    }
}

#[test]
fn the_card_is_cached_by_its_tag() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let card = client.get("/.well-known/agent-card.json");
    let tag = card.head.field("etag").expect("a tag").to_string();
    assert!(card.head.field("cache-control").is_some_and(|v| v.contains("max-age")));
    assert!(card.head.field("last-modified").is_some());
    let fields = [("If-None-Match", tag.as_str())];
    let again = client.request("GET", "/.well-known/agent-card.json", &fields, b"");
    assert_eq!((again.status(), again.body.len()), (304, 0));
}

#[test]
fn expect_100_continue_is_answered() {
    let fixture = Fixture::new();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT hi") }).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut conn = send(&fixture, head.as_bytes());
    assert_eq!(answer(&mut conn).status(), 100);
    conn.send(body.as_bytes()).expect("the body");
    let reply = answer(&mut conn);
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.json()["result"]["status"]["state"], "input-required");
}

#[test]
fn a_chunked_body_is_read() {
    let fixture = Fixture::new();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": "x" } }).to_string();
    let mut request =
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    for piece in body.as_bytes().chunks(7) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let mut conn = send(&fixture, &request);
    assert_eq!(answer(&mut conn).json()["error"]["code"], -32001);
}

#[test]
fn an_invalid_request_is_refused_and_the_connection_closed() {
    let fixture = Fixture::new();
    let long = "x".repeat(20_000);
    let many = "X: y\r\n".repeat(65);
    let host = "Host: localhost\r\n";
    let big = 10 * 1024 * 1024 + 1;
    for (request, status) in [
        ("nonsense\r\n\r\n".to_string(), 400),
        (format!("GET /health HTTP/1.1\n{host}\n"), 400),
        ("GET /health HTTP/1.1\r\n\r\n".to_string(), 400),
        (format!("GET /health HTTP/1.1\r\n{host}{host}\r\n"), 400),
        (format!("POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400),
        (format!("POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), 400),
        (format!("POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n"), 400),
        (format!("GET /health HTTP/2.0\r\n{host}\r\n"), 505),
        (format!("GET /health HTTP/1.1\r\n{host}X: {long}\r\n\r\n"), 431),
        (format!("GET /health HTTP/1.1\r\n{host}{many}\r\n"), 431),
        (format!("POST / HTTP/1.1\r\n{host}Content-Length: {big}\r\n\r\n"), 413),
        (format!("POST / HTTP/1.1\r\n{host}Expect: a miracle\r\nContent-Length: 1\r\n\r\n"), 417),
    ] {
        let shown: String = request.chars().take(80).collect();
        let mut conn = send(&fixture, request.as_bytes());
        let refused = answer(&mut conn);
        assert_eq!(refused.status(), status, "{shown:?}");
        assert!(refused.head.closes(), "{shown:?}");
        assert!(!refused.json()["error"].is_null(), "{shown:?}");
        assert_eq!(conn.until_closed().expect("the end"), b"", "{shown:?}");
    }
    assert_eq!(fixture.client().get("/health").status(), 200);
}

/// The body is longer than allowed and is sent: the client can read the error before the connection is closed.
#[test]
fn a_too_large_body_is_answered_while_it_arrives() {
    let fixture = Fixture::new();
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut conn = send(&fixture, head.as_bytes());
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    // Sending may fail at any point; only the response counts.
    for _ in 0..400 {
        if conn.send(piece.as_bytes()).is_err() {
            break;
        }
    }
    let refused = answer(&mut conn);
    assert_eq!(refused.status(), 413);
    assert_eq!(refused.json()["error"]["code"], -32600);
}

/// A request that is too large gets an error of its dialect, and no `100 Continue`.
#[test]
fn a_too_large_content_length_is_refused() {
    let fixture = Fixture::new();
    for (path, pointer, code) in [
        ("/", "/error/code", json!(-32600)),
        ("/v1/message:send", "/type", json!("InvalidRequestError")),
        ("/message:send", "/error/code", json!(413)),
        ("/tasks", "/error", json!("the body is larger than this server takes")),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
        );
        let mut conn = send(&fixture, head.as_bytes());
        let refused = answer(&mut conn);
        assert_eq!(refused.status(), 413, "{path}");
        assert_eq!(refused.json().pointer(pointer), Some(&code), "{path}");
    }
}

#[test]
fn a_wrong_method_gets_405_and_an_unknown_path_404() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for (method, path, allow) in [
        ("GET", "/", "POST"),
        ("DELETE", "/", "POST"),
        ("PUT", "/tasks", "GET, HEAD, POST"),
        ("OPTIONS", "/", "POST"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/tasks/metadata", "GET, HEAD"),
        ("PATCH", "/.well-known/agent-card.json", "GET, HEAD"),
    ] {
        let refused = client.request(method, path, &[], b"");
        assert_eq!(refused.status(), 405, "{method} {path}");
        assert_eq!(refused.head.field("allow"), Some(allow), "{method} {path}");
    }
    for path in ["/nowhere", "/tasks/x/y/metadata", "/.well-known/other", "/../etc/passwd", "/%2e%2e/x"] {
        let answer = client.get(path);
        assert!([400, 404].contains(&answer.status()), "{path}: {}", answer.status());
        assert!(answer.json()["error"].is_string(), "{path}");
    }
    // Repeated and trailing slashes are accepted.
    assert_eq!(client.get("//health/").status(), 200);
}

#[test]
fn only_json_is_read() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#;
    for (media, code) in [
        ("application/json", -32001),
        ("application/json; charset=utf-8", -32001),
        ("Application/JSON", -32001),
        ("application/a2a+json", -32001),
        ("text/plain", -32005),
        ("application/x-www-form-urlencoded", -32005),
        ("multipart/form-data; boundary=x", -32005),
        ("application/octet-stream", -32005),
        ("text/json", -32005),
    ] {
        let answer = client.request("POST", "/", &[("Content-Type", media)], body.as_bytes());
        assert_eq!(answer.status(), 200, "{media}");
        assert_eq!(answer.json()["error"]["code"], code, "{media}");
    }
    let text = client.request("POST", "/tasks", &[("Content-Type", "text/plain")], b"{}");
    assert_eq!(text.status(), 400);
}

/// Large requests arrive on many connections, faster than one turn of the loop reads: each is answered exactly once.
#[test]
fn large_requests_at_once_are_all_answered() {
    let fixture = Fixture::new();
    let url = fixture.server.url();
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || {
                let padding = "x".repeat(4 << 20);
                let params = json!({ "id": "nobody", "padding": padding });
                Client::new(&url).fault("tasks/get", params)
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().expect("it is answered"), -32001);
    }
}
