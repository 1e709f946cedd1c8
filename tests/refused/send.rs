//! Sending a request through an entry point, and checking the response.

use crate::connection::{Connection, Received};
use crate::corpus::{Expected, TestRequest};
use crate::error_format::{self, Family, Fault};
use crate::frame::masked;
use crate::test_server::{TestServer, http_request};
use gemini_a2a::limits::GREETING_MS;
use serde_json::{Value, json};

/// The entry point through which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// An HTTP request.
    Http,
    /// The WebSocket of live sessions.
    Session,
    /// The WebSocket of A2A 0.3.
    Rpc03,
    /// The WebSocket of A2A 1.0.
    Rpc10,
    /// The WebSocket of the native dialect.
    Native,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Refused,
    Accepted,
    /// It is accepted, and the response comes later.
    Pending,
    Closed,
}

impl EntryPoint {
    pub fn is_socket(self) -> bool {
        self != EntryPoint::Http
    }

    fn sub_protocol(self) -> Option<&'static str> {
        match self {
            EntryPoint::Http | EntryPoint::Session => None,
            EntryPoint::Rpc03 => Some("a2a.v0.3"),
            EntryPoint::Rpc10 => Some("a2a.v1.0"),
            EntryPoint::Native => Some("gemini-a2a.v1"),
        }
    }

    /// A request that succeeds and changes nothing.
    fn harmless_request(self) -> String {
        let rpc = |method: &str| json!({"jsonrpc": "2.0", "id": "after", "method": method, "params": {"id": "$idle"}});
        let call = match self {
            EntryPoint::Http | EntryPoint::Session | EntryPoint::Rpc03 => rpc("tasks/get"),
            EntryPoint::Rpc10 => rpc("GetTask"),
            EntryPoint::Native => json!({"id": "after", "call": {"get": {"task": "$idle"}}}),
        };
        call.to_string()
    }
}

/// Opens a connection; for a WebSocket, upgrades it and reads its first messages.
pub fn connect(server: &mut TestServer, entry: EntryPoint) -> Connection {
    let mut connection = server.open();
    if entry.is_socket() {
        let protocol = entry.sub_protocol();
        let protocol = protocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
        let head = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let headers = format!("{head}{}", protocol.unwrap_or_default());
        let received = server.exchange(&mut connection, &http_request("GET", "/ws", &headers, b""));
        assert!(matches!(received[0], Received::Upgraded), "{received:?}");
    }
    connection
}

/// The bytes of a request.
pub fn bytes(server: &TestServer, entry: EntryPoint, request: &TestRequest) -> Vec<u8> {
    let body = request.body.as_ref().map(|body| match std::str::from_utf8(body) {
        Ok(text) => server.fill(text).into_bytes(),
        Err(_) => body.clone(),
    });
    if entry.is_socket() {
        return masked(1, &body.unwrap_or_default());
    }
    let (method, target) = request.send.split_once(' ').expect("a method and a target");
    let has = |name: &str| {
        let mut headers = request.headers.iter();
        headers.any(|header| header.to_ascii_lowercase().starts_with(name))
    };
    let mut headers = String::new();
    if body.is_some() && !has("content-type:") {
        headers += "Content-Type: application/json\r\n";
    }
    for header in &request.headers {
        headers += &format!("{}\r\n", server.fill(header));
    }
    let target = server.fill(target);
    http_request(method, &target, &headers, &body.unwrap_or_default())
}

/// Sends a request that must be refused. The error says what is wrong with the response.
pub fn check_refused(server: &mut TestServer, entry: EntryPoint, request: &TestRequest) -> Result<(), String> {
    let mut connection = connect(server, entry);
    let bytes = bytes(server, entry, request);
    let received = server.exchange(&mut connection, &bytes);
    let result = check_refusal(entry, request, &received).and_then(|()| match entry {
        EntryPoint::Http => check_http_usable(server, &mut connection, &received),
        EntryPoint::Session | EntryPoint::Rpc03 | EntryPoint::Rpc10 | EntryPoint::Native => {
            check_socket_usable(server, entry, &mut connection)
        }
    });
    server.disconnect(&connection);
    result
}

fn check_refusal(entry: EntryPoint, request: &TestRequest, received: &[Received]) -> Result<(), String> {
    let Expected::Refusal { family, fault, id, member, framed } = &request.expected else {
        panic!("{} is no refusal", request.name);
    };
    let body = match (received, framed) {
        ([Received::Text(text)], _) if entry.is_socket() => text.as_bytes(),
        ([Received::Event(data), Received::End], true) => data.as_bytes(),
        ([Received::Response { head, body }], false) => {
            let status = fault.status(*family);
            if head.status() != status {
                let body = String::from_utf8_lossy(body);
                return Err(format!("status {}, not {status}: {body}", head.status()));
            }
            if let Some(name) = fault.header()
                && head.field(name).is_none()
            {
                return Err(format!("no {name} header"));
            }
            body
        }
        _ => return Err(format!("received {}", short(received))),
    };
    let text = error_format::check(*family, *fault, id, body)?;
    if let Some(name) = member
        && !names(name).iter().any(|name| text.contains(name))
    {
        return Err(format!("{name} is not named in {text}"));
    }
    if *family == Family::Gemini && *fault == Fault::NoTask && text != "\"Task not found\"" {
        return Err(format!("another message than that of the reference server: {text}"));
    }
    Ok(())
}

/// The names by which an error may name a member. Missing parts of a message may be named by their name in another dialect, or the error
/// may say that the message is missing.
fn names(member: &str) -> Vec<&str> {
    match member {
        "content" => vec!["content", "parts"],
        "parts" => vec!["parts", "no message"],
        member => vec![member],
    }
}

/// Checks that the connection accepts the next request, or was closed as the response said.
fn check_http_usable(
    server: &mut TestServer,
    connection: &mut Connection,
    received: &[Received],
) -> Result<(), String> {
    let closes = matches!(received, [Received::Response { head, .. }] if head.closes());
    if closes {
        let closed = server.is_closed(connection);
        return closed.then_some(()).ok_or("the response said close, and the connection stayed open".into());
    }
    match server.exchange(connection, &http_request("GET", "/health", "", b"")).as_slice() {
        [Received::Response { head, .. }] if head.status() == 200 => Ok(()),
        other => Err(format!("afterwards: {}", short(other))),
    }
}

fn check_socket_usable(server: &mut TestServer, entry: EntryPoint, connection: &mut Connection) -> Result<(), String> {
    let request = server.fill(&entry.harmless_request());
    match server.exchange(connection, &masked(1, request.as_bytes())).as_slice() {
        [Received::Text(text)] if succeeded_id(text) == Some(json!("after")) => Ok(()),
        other => Err(format!("afterwards: {}", short(other))),
    }
}

/// Sends a request that must be accepted. The error is the response.
pub fn check_accepted(server: &mut TestServer, entry: EntryPoint, request: &TestRequest) -> Result<(), String> {
    let mut connection = connect(server, entry);
    let bytes = bytes(server, entry, request);
    let received = server.exchange(&mut connection, &bytes);
    server.disconnect(&connection);
    let succeeded = match received.first() {
        Some(Received::Response { head, body }) => {
            head.status() < 300 && !String::from_utf8_lossy(body).contains("\"error\":{\"code\"")
        }
        Some(Received::Event(data)) => !data.contains("\"error\":"),
        Some(Received::Text(_)) => {
            let mut texts = received.iter().filter_map(|received| match received {
                Received::Text(text) => Some(text),
                _ => None,
            });
            texts.any(|text| succeeded_id(text).is_some())
        }
        Some(Received::End | Received::Upgraded | Received::Closed(_)) | None => false,
    };
    succeeded.then_some(()).ok_or_else(|| short(&received))
}

/// The id in a response that says that its call has succeeded.
fn succeeded_id(text: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(text).ok()?;
    let result = message.get("result").or(message.get("ok"));
    result.and(message.get("id")).cloned()
}

/// Sends a frame that makes the server close the WebSocket. Returns the code of the close frame.
pub fn close_code(server: &mut TestServer, entry: EntryPoint, frame: &[u8]) -> Result<u16, String> {
    let mut connection = connect(server, entry);
    let received = server.exchange(&mut connection, frame);
    let closed = server.is_closed(&connection);
    server.disconnect(&connection);
    match received.as_slice() {
        [Received::Closed(code)] if closed => Ok(*code),
        other => Err(short(other)),
    }
}

/// The text of the response to a GET request, or of the first messages of a WebSocket.
pub fn response_text(server: &mut TestServer, target: &str, headers: &str) -> String {
    let mut connection = server.open();
    let mut received = server.exchange(&mut connection, &http_request("GET", target, headers, b""));
    // The server waits this long for a message of the client before it sends its first message.
    received.extend(server.later(&mut connection, GREETING_MS));
    server.disconnect(&connection);
    let texts = received.iter().map(|received| match received {
        Received::Response { body, .. } => String::from_utf8_lossy(body).into_owned(),
        Received::Event(text) | Received::Text(text) => text.clone(),
        Received::End | Received::Upgraded | Received::Closed(_) => String::new(),
    });
    texts.collect()
}

/// The beginning of everything that was received, for messages of failed tests.
pub fn short(received: &[Received]) -> String {
    let texts = received.iter().map(|received| match received {
        Received::Response { head, body } => {
            format!("{} {}", head.start, String::from_utf8_lossy(body))
        }
        other => format!("{other:?}"),
    });
    let texts: Vec<String> = texts.collect();
    format!("[{}]", texts.join(", ")).chars().take(500).collect()
}
