//! How a request gets to the server, and what is looked at when its answer comes.

use crate::corpus::{Expected, Made};
use crate::frame::masked;
use crate::line::{Heard, Line};
use crate::test_server::{TestServer, request};
use crate::verdict::{self, Family, Fault};
use gemini_a2a::limits::GREETING_MS;
use serde_json::{Value, json};

/// What a request is sent through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A request of its own.
    Http,
    /// A socket: of the live session, of A2A in either version, of our own dialect.
    Session,
    Rpc03,
    Rpc10,
    Own,
}

/// What became of something sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    Refused,
    Taken,
    /// It is taken and answered later.
    Waits,
    Closed,
}

impl Door {
    pub fn is_socket(self) -> bool {
        self != Door::Http
    }

    fn sub_protocol(self) -> Option<&'static str> {
        match self {
            Door::Http | Door::Session => None,
            Door::Rpc03 => Some("a2a.v0.3"),
            Door::Rpc10 => Some("a2a.v1.0"),
            Door::Own => Some("gemini-a2a.v1"),
        }
    }

    /// A request that is always answered, and changes nothing.
    fn innocent(self) -> String {
        let rpc = |method: &str| json!({"jsonrpc": "2.0", "id": "after", "method": method, "params": {"id": "$idle"}});
        let call = match self {
            Door::Http | Door::Session | Door::Rpc03 => rpc("tasks/get"),
            Door::Rpc10 => rpc("GetTask"),
            Door::Own => json!({"id": "after", "call": {"get": {"task": "$idle"}}}),
        };
        call.to_string()
    }
}

/// A line through a door: with a socket that has heard what it is told at first.
pub fn enter(server: &mut TestServer, door: Door) -> Line {
    let mut line = server.open();
    if door.is_socket() {
        let protocol = door.sub_protocol();
        let protocol = protocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
        let head = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let headers = format!("{head}{}", protocol.unwrap_or_default());
        let heard = server.exchange(&mut line, &request("GET", "/ws", &headers, b""));
        assert!(matches!(heard[0], Heard::Upgraded), "{heard:?}");
    }
    line
}

/// What goes over the line for a request.
pub fn bytes(server: &TestServer, door: Door, made: &Made) -> Vec<u8> {
    let body = made.body.as_ref().map(|body| match std::str::from_utf8(body) {
        Ok(text) => server.fill(text).into_bytes(),
        Err(_) => body.clone(),
    });
    if door.is_socket() {
        return masked(1, &body.unwrap_or_default());
    }
    let (method, target) = made.send.split_once(' ').expect("a method and a target");
    let has = |name: &str| {
        let mut headers = made.headers.iter();
        headers.any(|header| header.to_ascii_lowercase().starts_with(name))
    };
    let mut headers = String::new();
    if body.is_some() && !has("content-type:") {
        headers += "Content-Type: application/json\r\n";
    }
    for header in &made.headers {
        headers += &format!("{}\r\n", server.fill(header));
    }
    let target = server.fill(target);
    request(method, &target, &headers, &body.unwrap_or_default())
}

/// Sends what must be refused; what is wrong with the answer.
pub fn refused(server: &mut TestServer, door: Door, made: &Made) -> Result<(), String> {
    let mut line = enter(server, door);
    let bytes = bytes(server, door, made);
    let heard = server.exchange(&mut line, &bytes);
    let verdict = judge(door, made, &heard).and_then(|()| match door {
        Door::Http => http_goes_on(server, &mut line, &heard),
        Door::Session | Door::Rpc03 | Door::Rpc10 | Door::Own => socket_goes_on(server, door, &mut line),
    });
    server.hang_up(&line);
    verdict
}

fn judge(door: Door, made: &Made, heard: &[Heard]) -> Result<(), String> {
    let Expected::Refusal { family, fault, id, member, framed } = &made.expected else {
        panic!("{} is no refusal", made.name);
    };
    let body = match (heard, framed) {
        ([Heard::Text(text)], _) if door.is_socket() => text.as_bytes(),
        ([Heard::Event(data), Heard::End], true) => data.as_bytes(),
        ([Heard::Answer { head, body }], false) => {
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
        _ => return Err(format!("heard {}", short(heard))),
    };
    let told = verdict::judge(*family, *fault, id, body)?;
    if let Some(name) = member
        && !names(name).iter().any(|name| told.contains(name))
    {
        return Err(format!("{name} is not named in {told}"));
    }
    if *family == Family::Gemini && *fault == Fault::NoTask && told != "\"Task not found\"" {
        return Err(format!("other words than the reference server's: {told}"));
    }
    Ok(())
}

/// What a member may be called when something is wrong with it. Where the parts of a message are missing, they may go by another
/// name, or the message itself is what is missed.
fn names(member: &str) -> Vec<&str> {
    match member {
        "content" => vec!["content", "parts"],
        "parts" => vec!["parts", "no message"],
        member => vec![member],
    }
}

/// The connection takes the next request, or was closed as its head said.
fn http_goes_on(server: &mut TestServer, line: &mut Line, heard: &[Heard]) -> Result<(), String> {
    let closes = matches!(heard, [Heard::Answer { head, .. }] if head.closes());
    if closes {
        let closed = server.is_closed(line);
        return closed.then_some(()).ok_or("it said close and did not".into());
    }
    match server.exchange(line, &request("GET", "/health", "", b"")).as_slice() {
        [Heard::Answer { head, .. }] if head.status() == 200 => Ok(()),
        other => Err(format!("afterwards: {}", short(other))),
    }
}

fn socket_goes_on(server: &mut TestServer, door: Door, line: &mut Line) -> Result<(), String> {
    let innocent = server.fill(&door.innocent());
    match server.exchange(line, &masked(1, innocent.as_bytes())).as_slice() {
        [Heard::Text(text)] if succeeded(text) == Some(json!("after")) => Ok(()),
        other => Err(format!("afterwards: {}", short(other))),
    }
}

/// Sends what must be taken; what is wrong with the answer.
pub fn accepted(server: &mut TestServer, door: Door, made: &Made) -> Result<(), String> {
    let mut line = enter(server, door);
    let bytes = bytes(server, door, made);
    let heard = server.exchange(&mut line, &bytes);
    server.hang_up(&line);
    let fine = match heard.first() {
        Some(Heard::Answer { head, body }) => {
            head.status() < 300 && !String::from_utf8_lossy(body).contains("\"error\":{\"code\"")
        }
        Some(Heard::Event(data)) => !data.contains("\"error\":"),
        Some(Heard::Text(_)) => {
            let mut texts = heard.iter().filter_map(|heard| match heard {
                Heard::Text(text) => Some(text),
                _ => None,
            });
            texts.any(|text| succeeded(text).is_some())
        }
        Some(Heard::End | Heard::Upgraded | Heard::Closed(_)) | None => false,
    };
    fine.then_some(()).ok_or_else(|| short(&heard))
}

/// The id of a call that a message says has succeeded.
fn succeeded(text: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(text).ok()?;
    let result = message.get("result").or(message.get("ok"));
    result.and(message.get("id")).cloned()
}

/// Sends a frame that ends a socket; the word it ends with.
pub fn closed(server: &mut TestServer, door: Door, frame: &[u8]) -> Result<u16, String> {
    let mut line = enter(server, door);
    let heard = server.exchange(&mut line, frame);
    let closed = server.is_closed(&line);
    server.hang_up(&line);
    match heard.as_slice() {
        [Heard::Closed(code)] if closed => Ok(*code),
        other => Err(short(other)),
    }
}

/// All that is shown at once to one who asks for it.
pub fn shown(server: &mut TestServer, target: &str, headers: &str) -> String {
    let mut line = server.open();
    let mut heard = server.exchange(&mut line, &request("GET", target, headers, b""));
    // A socket whose client says nothing is greeted a moment later.
    heard.extend(server.later(&mut line, GREETING_MS));
    server.hang_up(&line);
    let texts = heard.iter().map(|heard| match heard {
        Heard::Answer { body, .. } => String::from_utf8_lossy(body).into_owned(),
        Heard::Event(text) | Heard::Text(text) => text.clone(),
        Heard::End | Heard::Upgraded | Heard::Closed(_) => String::new(),
    });
    texts.collect()
}

pub fn short(heard: &[Heard]) -> String {
    let whole = heard.iter().map(|heard| match heard {
        Heard::Answer { head, body } => {
            format!("{} {}", head.start, String::from_utf8_lossy(body))
        }
        other => format!("{other:?}"),
    });
    let whole: Vec<String> = whole.collect();
    format!("[{}]", whole.join(", ")).chars().take(500).collect()
}
