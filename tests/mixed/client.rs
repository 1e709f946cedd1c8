//! One client: the bytes that it sends in its dialect, and the frames that it parses from the bytes of the server.

use crate::frame;
use crate::http::{Message, Side};
use crate::sse::Sse;
use gemini_a2a::a2a::{self, Form, View};
use gemini_a2a::base::Shared;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::task::log::event::Profile;
use serde_json::{Value, json};

/// The dialect of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Rpc03(Profile),
    Rpc10(Profile),
    Rest03,
    Rest10,
    MessageStream,
    ExecuteStream,
    SessionSse,
    Socket,
    SocketRpc03,
    SocketRpc10,
    SocketNative,
}

pub const DIALECTS: [Dialect; 16] = [
    Dialect::Socket,
    Dialect::Socket,
    Dialect::Socket,
    Dialect::SocketNative,
    Dialect::SocketRpc03,
    Dialect::SocketRpc10,
    Dialect::Rpc03(Profile::Coder),
    Dialect::Rpc03(Profile::Devtool),
    Dialect::Rpc03(Profile::Plain),
    Dialect::Rpc10(Profile::Plain),
    Dialect::Rpc10(Profile::Devtool),
    Dialect::Rest03,
    Dialect::Rest10,
    Dialect::MessageStream,
    Dialect::ExecuteStream,
    Dialect::SessionSse,
];

impl Dialect {
    /// Whether a client can subscribe without sending a message.
    pub fn can_subscribe(self) -> bool {
        match self {
            Dialect::MessageStream | Dialect::ExecuteStream | Dialect::SessionSse => false,
            Dialect::Rpc03(_)
            | Dialect::Rpc10(_)
            | Dialect::Rest03
            | Dialect::Rest10
            | Dialect::Socket
            | Dialect::SocketRpc03
            | Dialect::SocketRpc10
            | Dialect::SocketNative => true,
        }
    }

    pub fn view(self) -> View {
        let (dialect, profile) = match self {
            Dialect::Rpc03(profile) => (a2a::Dialect::RPC_03, Some(profile)),
            Dialect::Rpc10(profile) => (a2a::Dialect::RPC_10, Some(profile)),
            Dialect::Rest03 => (a2a::Dialect::REST_03_PROTO, Some(Profile::Plain)),
            Dialect::Rest10 => (a2a::Dialect::REST_10, Some(Profile::Plain)),
            Dialect::MessageStream => (a2a::Dialect::MESSAGE_STREAM, None),
            Dialect::ExecuteStream => (a2a::Dialect::EXECUTE_STREAM, None),
            Dialect::SessionSse | Dialect::Socket => (a2a::Dialect::SESSION, None),
            Dialect::SocketRpc03 => (a2a::Dialect::RPC_03, Some(Profile::Plain)),
            Dialect::SocketRpc10 => (a2a::Dialect::RPC_10, Some(Profile::Plain)),
            Dialect::SocketNative => (a2a::Dialect::NATIVE, None),
        };
        let form = Form { profile, ..Form::of(dialect) };
        a2a::view(&form, None)
    }

    /// The request that subscribes to the task after a position.
    pub fn subscribe(self, task: &TaskId, after: Option<Seq>) -> Vec<u8> {
        let headers = match after {
            Some(after) => format!("Last-Event-ID: {after}\r\n"),
            None => String::new(),
        };
        let position = after.map(|after| format!("&after={after}"));
        let position = position.unwrap_or_default();
        match self {
            Dialect::Rpc03(_) => rpc(
                self.target(),
                &format!("{headers}{}", self.profile_header()),
                "tasks/resubscribe",
                json!({ "id": task }),
            ),
            Dialect::Rpc10(_) => rpc(
                self.target(),
                &format!("{headers}{}", self.profile_header()),
                "SubscribeToTask",
                json!({ "id": task }),
            ),
            Dialect::Rest03 => get(&format!("/v1/tasks/{task}:subscribe"), &headers),
            Dialect::Rest10 => {
                get(&format!("/tasks/{task}:subscribe?profile=plain"), &format!("A2A-Version: 1.0\r\n{headers}"))
            }
            Dialect::Socket => upgrade(&format!("/ws?taskId={task}{position}"), ""),
            Dialect::SocketNative => {
                upgrade(&format!("/ws?taskId={task}{position}"), "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n")
            }
            Dialect::SocketRpc03 => upgrade("/ws", "Sec-WebSocket-Protocol: a2a.v0.3\r\n"),
            Dialect::SocketRpc10 => upgrade("/ws", "Sec-WebSocket-Protocol: a2a.v1.0\r\n"),
            Dialect::MessageStream | Dialect::ExecuteStream | Dialect::SessionSse => {
                unreachable!("these streams only answer a message")
            }
        }
    }

    /// The message that subscribes to the task on an open socket, where the dialect needs one.
    pub fn subscription(self, task: &TaskId) -> Option<String> {
        let call = |method: &str| {
            json!({"jsonrpc": "2.0", "id": "watch", "method": method, "params": {"id": task}}).to_string()
        };
        match self {
            Dialect::SocketRpc03 => Some(call("tasks/resubscribe")),
            Dialect::SocketRpc10 => Some(call("SubscribeToTask")),
            _ => None,
        }
    }

    /// The coder and plain profiles are requested in the query; the devtool profile in a header.
    fn target(self) -> &'static str {
        match self {
            Dialect::Rpc03(Profile::Coder) => "/?profile=coder",
            Dialect::Rpc03(Profile::Plain) => "/?profile=plain",
            _ => "/",
        }
    }

    fn profile_header(self) -> &'static str {
        match self {
            Dialect::Rpc03(Profile::Devtool) | Dialect::Rpc10(Profile::Devtool) => {
                "X-A2A-Extensions: https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md\r\n"
            }
            _ => "",
        }
    }

    /// A prompt to the task.
    pub fn prompt(self, task: &TaskId, n: usize) -> Outgoing {
        let text = format!("prompt {n}");
        let message = json!({"messageId": format!("p-{n}"), "role": "user", "taskId": task,
            "parts": [{"kind": "text", "text": text}]});
        self.send(task, n, message, json!(text))
    }

    /// An answer to a question.
    pub fn answer(self, task: &TaskId, n: usize, call: &str, option: &str) -> Outgoing {
        let coder = json!({"callId": call, "outcome": option});
        let devtool = json!({"tool_call_id": call, "selected_option_id": option});
        // These names belong to no profile, so that the answer selects none.
        let neutral = json!({"toolCallId": call, "selectedOptionId": option});
        let data = match self {
            Dialect::Rpc03(Profile::Coder) => coder,
            Dialect::Rest03 | Dialect::SocketRpc03 => neutral,
            _ => devtool.clone(),
        };
        let message = json!({"messageId": format!("a-{n}"), "role": "user", "taskId": task,
            "parts": [{"kind": "data", "data": data}]});
        let content = match self {
            Dialect::MessageStream => {
                json!({"kind": "tool-call-confirmation", "toolCallId": call, "approved": option != "cancel"})
            }
            _ => devtool,
        };
        self.send(task, n, message, content)
    }

    /// `message` is the message of A2A 0.3; `content` is its text or its answer, for the dialects that have their own format.
    fn send(self, task: &TaskId, n: usize, message: Value, content: Value) -> Outgoing {
        let call = |method: &str, message: Value| send_call(n, method, message);
        match self {
            Dialect::Rpc03(_) => {
                Outgoing::Request(post(self.target(), self.profile_header(), &call("message/send", message)))
            }
            Dialect::Rpc10(_) => {
                Outgoing::Request(post(self.target(), self.profile_header(), &call("SendMessage", in_10(&message))))
            }
            Dialect::Rest03 => Outgoing::Request(post("/v1/message:send", "", &rest_03_body(&message))),
            Dialect::Rest10 => {
                let body = json!({"message": in_10(&message), "configuration": {"returnImmediately": true}});
                Outgoing::Request(post("/message:send", "A2A-Version: 1.0\r\n", &body))
            }
            Dialect::MessageStream => {
                Outgoing::Stream(post("/message/stream", "", &json!({"taskId": task, "userMessage": content})))
            }
            Dialect::ExecuteStream => {
                let body = match content {
                    Value::String(text) => json!({ "message": text }),
                    answer => json!({ "confirmation": answer }),
                };
                Outgoing::Stream(post(&format!("/tasks/{task}/execute"), "", &body))
            }
            Dialect::SessionSse => {
                let body = json!({"message": {"content": session_content(&content)}});
                Outgoing::Stream(post(&format!("/tasks/{task}/messages/stream"), "", &body))
            }
            Dialect::Socket => {
                Outgoing::Message(call("message/stream", json!({"content": session_content(&content)})).to_string())
            }
            Dialect::SocketRpc03 => Outgoing::Message(call("message/send", message).to_string()),
            Dialect::SocketRpc10 => Outgoing::Message(call("SendMessage", in_10(&message)).to_string()),
            Dialect::SocketNative => Outgoing::Message(native_call(n, task, content).to_string()),
        }
    }
}

fn request_id(n: usize) -> String {
    format!("say-{n}")
}

/// The JSON-RPC call that sends a message without waiting for the turn.
fn send_call(n: usize, method: &str, message: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request_id(n), "method": method, "params":
        {"message": message, "configuration": {"blocking": false, "returnImmediately": true}}})
}

/// The call of the native dialect that sends a prompt or an answer.
fn native_call(n: usize, task: &TaskId, content: Value) -> Value {
    let call = match content {
        Value::String(text) => json!({"say": {"task": task, "text": text}}),
        answer => {
            json!({"answer": {"task": task, "call": answer["tool_call_id"], "option": answer["selected_option_id"]}})
        }
    };
    json!({"id": request_id(n), "call": call})
}

/// A message of A2A 0.3 in the form of 1.0.
fn in_10(message: &Value) -> Value {
    let mut message = message.clone();
    message["role"] = json!("ROLE_USER");
    for part in message["parts"].as_array_mut().expect("a list") {
        part.as_object_mut().expect("an object").remove("kind");
    }
    message
}

fn rest_03_body(message: &Value) -> Value {
    let mut message = in_10(message);
    let parts = message["parts"].take();
    message["content"] = match &parts[0] {
        part if part.get("data").is_some() => json!([{"data": {"data": part["data"]}}]),
        _ => parts,
    };
    json!({"message": message, "configuration": {"blocking": false}})
}

fn session_content(content: &Value) -> Value {
    match content {
        Value::String(text) => json!({ "text": text }),
        answer => json!({ "data": answer }),
    }
}

/// How a message is sent.
pub enum Outgoing {
    /// In a request with one response.
    Request(Vec<u8>),
    /// In a request whose response is a stream.
    Stream(Vec<u8>),
    /// In a message on the open socket.
    Message(String),
}

fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").into_bytes()
}

fn upgrade(target: &str, headers: &str) -> Vec<u8> {
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
    get(target, &format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{key}{headers}"))
}

fn post(target: &str, headers: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn rpc(target: &str, headers: &str, method: &str, params: Value) -> Vec<u8> {
    post(target, headers, &json!({"jsonrpc": "2.0", "id": "watch", "method": method, "params": params}))
}

/// A WebSocket message of a client: masked, in one frame.
pub fn masked(text: &str) -> Vec<u8> {
    frame::masked(1, text.as_bytes())
}

/// What a connection received.
#[derive(Debug, PartialEq)]
pub enum Received {
    /// An event, or a snapshot, at this position.
    Frame { seq: Seq, body: String },
    /// The response to a request.
    Reply { status: u16, body: Value },
    /// The end of the stream; the connection may be used again.
    End,
}

/// One connection, with the bytes that it has still to send.
pub struct Connection {
    pub key: Key,
    pub outbox: Vec<u8>,
    dialect: Dialect,
    reader: Reader,
    body: Vec<u8>,
}

enum Reader {
    Http(Message, Option<Sse>),
    Socket(Vec<u8>),
}

impl Connection {
    pub fn new(key: Key, dialect: Dialect, outbox: Vec<u8>) -> Connection {
        Connection { key, outbox, dialect, reader: Reader::Http(Message::new(Side::Response), None), body: Vec::new() }
    }

    pub fn is_socket(&self) -> bool {
        matches!(self.reader, Reader::Socket(_))
    }

    pub fn take(&mut self, bytes: &[u8]) -> Vec<Received> {
        match &mut self.reader {
            Reader::Socket(rx) => {
                rx.extend_from_slice(bytes);
                self.messages()
            }
            Reader::Http(..) => self.http(bytes),
        }
    }

    fn http(&mut self, bytes: &[u8]) -> Vec<Received> {
        let Reader::Http(message, sse) = &mut self.reader else { unreachable!("checked by the caller") };
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n")
            && bytes.starts_with(b"HTTP/1.1 101 ")
        {
            self.reader = Reader::Socket(bytes[end + 4..].to_vec());
            return self.messages();
        }
        message.feed(bytes, &mut self.body).expect("HTTP");
        let Some(head) = message.head().cloned() else {
            return Vec::new();
        };
        let mut received = Vec::new();
        if head.is_event_stream() {
            let sse = sse.get_or_insert_with(Sse::default);
            sse.input().append(&mut self.body);
            sse.drain(|frame| {
                let Some(id) = frame.id else {
                    let body = serde_json::from_str(&frame.data).expect("JSON");
                    received.push(Received::Reply { status: 200, body });
                    return;
                };
                let seq = Seq(id.parse().expect("a position"));
                let body = unwrapped(&frame.data);
                received.push(Received::Frame { seq, body });
            })
            .expect("events");
        }
        if message.is_done() {
            if !head.is_event_stream() {
                let body = serde_json::from_slice(&self.body).unwrap_or(Value::Null);
                let status = head.status();
                received.push(Received::Reply { status, body });
            }
            received.push(Received::End);
            self.body.clear();
            message.restart(Side::Response, &mut self.body).expect("HTTP");
            *sse = None;
        }
        received
    }

    fn messages(&mut self) -> Vec<Received> {
        let Reader::Socket(rx) = &mut self.reader else { unreachable!("checked by the caller") };
        let mut received = Vec::new();
        while let Some((opcode, range)) = frame::front(rx) {
            let payload = rx[range.clone()].to_vec();
            rx.drain(..range.end);
            match opcode {
                1 => {
                    let text = String::from_utf8(payload).expect("UTF-8");
                    received.push(message(self.dialect, &text));
                }
                9 | 10 => {}
                8 => received.push(Received::End),
                other => panic!("opcode {other}"),
            }
        }
        received
    }
}

/// Parses a WebSocket message, which is an event or the response to a call.
fn message(dialect: Dialect, text: &str) -> Received {
    let value: Value = serde_json::from_str(text).expect("JSON");
    let seq = value.get("seq").and_then(Value::as_u64);
    let is_event = match dialect {
        Dialect::Socket => value.get("kind").is_some(),
        Dialect::SocketNative => value.get("event").is_some(),
        _ => value["id"] == "watch" && value.get("result").is_some(),
    };
    match seq {
        Some(seq) if is_event => {
            let body = match dialect {
                Dialect::SocketRpc03 | Dialect::SocketRpc10 => {
                    let tail = format!(",\"seq\":{seq}}}");
                    let body = text.strip_suffix(&tail).expect("the position is last");
                    unwrapped(&format!("{body}}}"))
                }
                _ => text.to_owned(),
            };
            Received::Frame { seq: Seq(seq), body }
        }
        _ => Received::Reply { status: 200, body: value },
    }
}

/// The payload of a frame without its JSON-RPC envelope.
fn unwrapped(text: &str) -> String {
    let text = text.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":\"watch\",\"result\":");
    match text {
        Some(body) => body.strip_suffix('}').expect("an envelope").to_owned(),
        None => String::new(),
    }
}

/// The bytes of a frame as text.
pub fn text(body: &Shared) -> String {
    String::from_utf8(body.to_vec()).expect("JSON is UTF-8")
}
