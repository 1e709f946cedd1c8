//! How each dialect is spoken: where its requests go, how a prompt is written, how a question is answered. One row per entry
//! point of the server.

use serde_json::{Value, json};

pub const EXTENSION: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// What a client knows when it speaks again.
pub struct Known<'a> {
    pub task: &'a str,
    pub context: &'a str,
    pub call: &'a str,
}

/// An answer to a question: allowed as it is, or with the file as the user wants it.
#[derive(Clone, Copy)]
pub enum Reply {
    Allow,
    Edit(&'static str),
}

/// How requests and events travel.
#[derive(Clone, Copy)]
pub enum Line {
    /// A request is answered with a stream that ends when there is something to answer, and with the turn.
    Streams { path: &'static str },
    /// The same on a task that is there already, which a first request with this body makes.
    Inside { path: &'static str, create: &'static str },
    /// As before, but the stream stays open while there is something to answer.
    Open { path: &'static str, create: &'static str },
    /// Everything goes over one socket.
    Socket { path: &'static str, protocol: Option<&'static str>, replies: Replies },
}

/// What a request over a socket is answered with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// Its own series of events.
    Events,
    /// That it was accepted. Events come to everybody, and the reply somewhere between them.
    Apart,
}

pub struct Dialect {
    pub name: &'static str,
    pub line: Line,
    pub fields: &'static [(&'static str, &'static str)],
    pub prompt: fn(&str) -> Value,
    pub answer: fn(&Known, Reply) -> Value,
    /// Whether a frame of a line that stays open is the last one before the client has to say something, or the turn's last.
    pub rests: fn(&Value) -> bool,
}

const V10: (&str, &str) = ("A2A-Version", "1.0");
const DEVTOOL_03: (&str, &str) = ("X-A2A-Extensions", EXTENSION);
const DEVTOOL_10: (&str, &str) = ("A2A-Extensions", EXTENSION);

pub const DIALECTS: [Dialect; 17] = [
    Dialect {
        name: "rpc-0.3-coder",
        line: Line::Streams { path: "/" },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": coder_prompt(text) })),
        answer: |known, reply| rpc("message/stream", json!({ "message": coder_answer(known, reply) })),
        rests: never,
    },
    Dialect {
        name: "rpc-0.3-devtool",
        line: Line::Streams { path: "/" },
        fields: &[DEVTOOL_03],
        prompt: |text| rpc("message/stream", json!({ "message": typed(json!([{ "kind": "text", "text": text }])) })),
        answer: |known, reply| {
            let part = json!({ "kind": "data", "data": extension_answer(known, reply) });
            rpc("message/stream", json!({ "message": to(known, typed(json!([part]))) }))
        },
        rests: never,
    },
    Dialect {
        name: "rpc-0.3-plain",
        line: Line::Streams { path: "/" },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": typed(json!([{ "kind": "text", "text": text }])) })),
        answer: |known, reply| {
            let part = match reply {
                Reply::Allow => json!({ "kind": "text", "text": "yes" }),
                Reply::Edit(_) => json!({ "kind": "data", "data": extension_answer(known, reply) }),
            };
            rpc("message/stream", json!({ "message": to(known, typed(json!([part]))) }))
        },
        rests: never,
    },
    Dialect {
        name: "rest-0.3-proto",
        line: Line::Streams { path: "/v1/message:stream" },
        fields: &[],
        prompt: |text| json!({ "message": proto(json!([{ "text": text }])) }),
        answer: |known, reply| {
            let part = json!({ "data": { "data": coder_pick(known, reply) } });
            json!({ "message": to(known, proto(json!([part]))) })
        },
        rests: never,
    },
    Dialect {
        name: "rest-0.3-kind",
        line: Line::Streams { path: "/v1/message:stream" },
        fields: &[],
        prompt: |text| json!({ "message": coder_prompt(text) }),
        answer: |known, reply| json!({ "message": coder_answer(known, reply) }),
        rests: never,
    },
    Dialect {
        name: "rpc-1.0-plain",
        line: Line::Streams { path: "/" },
        fields: &[V10],
        prompt: |text| rpc("SendStreamingMessage", json!({ "message": v10(json!([{ "text": text }])) })),
        answer: |known, reply| rpc("SendStreamingMessage", json!({ "message": plain_answer(known, reply) })),
        rests: never,
    },
    Dialect {
        name: "rpc-1.0-devtool",
        line: Line::Streams { path: "/" },
        fields: &[V10, DEVTOOL_10],
        prompt: |text| rpc("SendStreamingMessage", json!({ "message": v10(json!([{ "text": text }])) })),
        answer: |known, reply| {
            let part = json!({ "data": extension_answer(known, reply) });
            rpc("SendStreamingMessage", json!({ "message": to(known, v10(json!([part]))) }))
        },
        rests: never,
    },
    Dialect {
        name: "rpc-1.0-coder",
        line: Line::Streams { path: "/" },
        fields: &[V10],
        prompt: |text| {
            let mut message = v10(json!([{ "text": text }]));
            message["metadata"] = json!({ "coderAgent": { "kind": "agent-settings" } });
            rpc("SendStreamingMessage", json!({ "message": message }))
        },
        answer: |known, reply| {
            let part = json!({ "data": coder_pick(known, reply) });
            rpc("SendStreamingMessage", json!({ "message": to(known, v10(json!([part]))) }))
        },
        rests: never,
    },
    Dialect {
        name: "rest-1.0-plain",
        line: Line::Streams { path: "/message:stream" },
        fields: &[V10],
        prompt: |text| json!({ "message": v10(json!([{ "text": text }])) }),
        answer: |known, reply| json!({ "message": plain_answer(known, reply) }),
        rests: never,
    },
    Dialect {
        name: "rest-1.0-devtool",
        line: Line::Streams { path: "/message:stream" },
        fields: &[V10, DEVTOOL_10],
        prompt: |text| json!({ "message": v10(json!([{ "text": text }])) }),
        answer: |known, reply| {
            let part = json!({ "data": extension_answer(known, reply) });
            json!({ "message": to(known, v10(json!([part]))) })
        },
        rests: never,
    },
    Dialect {
        name: "kebab",
        line: Line::Streams { path: "/message/stream" },
        fields: &[],
        prompt: |text| json!({ "userMessage": text }),
        answer: |known, reply| {
            let mut answer = json!({ "kind": "tool-call-confirmation", "toolCallId": known.call, "approved": true });
            if let Reply::Edit(content) = reply {
                answer["newContent"] = json!(content);
            }
            json!({ "taskId": known.task, "contextId": known.context, "userMessage": answer })
        },
        rests: never,
    },
    Dialect {
        name: "snake",
        line: Line::Open {
            path: "/tasks/{task}/execute",
            create: r#"{"contextId":"context-123","agentSettings":{"workspaceRoot":"{workspace}"}}"#,
        },
        fields: &[],
        prompt: |text| json!({ "message": text }),
        answer: |known, reply| json!({ "confirmation": coder_pick(known, reply) }),
        rests: |frame| !frame["confirmationRequest"].is_null(),
    },
    Dialect {
        name: "session-sse",
        line: Line::Inside { path: "/tasks/{task}/messages/stream", create: "" },
        fields: &[],
        prompt: |text| json!({ "message": { "content": { "text": text } } }),
        answer: |known, reply| session_answer(known, reply),
        rests: never,
    },
    Dialect {
        name: "ws-session",
        line: Line::Socket { path: "/ws", protocol: None, replies: Replies::Apart },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": { "content": { "text": text } } })),
        answer: |known, reply| rpc("message/stream", session_answer(known, reply)),
        rests: |frame| frame["kind"] == "STATE_CHANGE" && frame["final"] == true,
    },
    Dialect {
        name: "ws-a2a.v0.3",
        line: Line::Socket { path: "/ws", protocol: Some("a2a.v0.3"), replies: Replies::Events },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": coder_prompt(text) })),
        answer: |known, reply| rpc("message/stream", json!({ "message": coder_answer(known, reply) })),
        rests: |frame| frame["result"]["final"] == true,
    },
    Dialect {
        name: "ws-a2a.v1.0",
        line: Line::Socket { path: "/ws?profile=plain", protocol: Some("a2a.v1.0"), replies: Replies::Events },
        fields: &[],
        prompt: |text| rpc("SendStreamingMessage", json!({ "message": v10(json!([{ "text": text }])) })),
        answer: |known, reply| rpc("SendStreamingMessage", json!({ "message": plain_answer(known, reply) })),
        rests: |frame| {
            let state = &frame["result"]["statusUpdate"]["status"]["state"];
            ["INPUT_REQUIRED", "COMPLETED", "FAILED"].iter().any(|word| *state == format!("TASK_STATE_{word}"))
        },
    },
    Dialect {
        name: "ws-gemini-a2a.v1",
        line: Line::Socket { path: "/ws", protocol: Some("gemini-a2a.v1"), replies: Replies::Apart },
        fields: &[],
        prompt: |text| json!({ "id": 1, "call": { "say": { "text": text } } }),
        answer: |known, reply| {
            let mut answer = json!({ "task": known.task, "call": known.call, "option": "proceed_once" });
            if let Reply::Edit(content) = reply {
                answer["edited"] = json!(content);
            }
            json!({ "id": 1, "call": { "answer": answer } })
        },
        rests: |frame| frame["event"] == "paused" || frame["event"]["turn_ended"].is_object(),
    },
];

fn never(_: &Value) -> bool {
    false
}

fn rpc(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn typed(parts: Value) -> Value {
    json!({ "kind": "message", "role": "user", "messageId": "m-1", "parts": parts })
}

fn proto(content: Value) -> Value {
    json!({ "role": "ROLE_USER", "messageId": "m-1", "content": content })
}

fn v10(parts: Value) -> Value {
    json!({ "role": "ROLE_USER", "messageId": "m-1", "parts": parts })
}

/// The message, to the task that is known.
fn to(known: &Known, mut message: Value) -> Value {
    message["taskId"] = json!(known.task);
    message["contextId"] = json!(known.context);
    message
}

fn coder_prompt(text: &str) -> Value {
    let mut message = typed(json!([{ "kind": "text", "text": text }]));
    message["metadata"] = json!({ "coderAgent": { "kind": "agent-settings" } });
    message
}

fn coder_answer(known: &Known, reply: Reply) -> Value {
    let part = json!({ "kind": "data", "data": coder_pick(known, reply) });
    to(known, typed(json!([part])))
}

fn coder_pick(known: &Known, reply: Reply) -> Value {
    let mut pick = json!({ "callId": known.call, "outcome": "proceed_once" });
    if let Reply::Edit(content) = reply {
        pick["newContent"] = json!(content);
    }
    pick
}

fn extension_answer(known: &Known, reply: Reply) -> Value {
    let mut answer = json!({ "tool_call_id": known.call, "selected_option_id": "proceed_once" });
    if let Reply::Edit(content) = reply {
        answer["file_details"] = json!({ "new_content": content });
    }
    answer
}

/// A plain client answers in words; only what words cannot say is data.
fn plain_answer(known: &Known, reply: Reply) -> Value {
    let part = match reply {
        Reply::Allow => json!({ "text": "yes" }),
        Reply::Edit(_) => json!({ "data": extension_answer(known, reply) }),
    };
    to(known, v10(json!([part])))
}

fn session_answer(known: &Known, reply: Reply) -> Value {
    let mut answer = extension_answer(known, reply);
    answer["kind"] = json!("TOOL_CALL_CONFIRMATION");
    json!({ "message": { "content": { "data": answer } } })
}
