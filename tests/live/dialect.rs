//! The requests of each dialect: their path, the format of a prompt, and the format of an answer to a question. One row per entry point of
//! the server.

use serde_json::{Value, json};

pub const EXTENSION: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// The ids that a client needs for an answer.
pub struct Ids<'a> {
    pub task: &'a str,
    pub context: &'a str,
    pub call: &'a str,
}

/// An answer to a question: the call is allowed as it is, or with this content of the file.
#[derive(Clone, Copy)]
pub enum Answer {
    Allow,
    Edit(&'static str),
}

/// How requests are sent and events received.
#[derive(Clone, Copy)]
pub enum Transport {
    /// Each request gets a stream, which ends with a question or with the turn.
    StreamPerRequest { path: &'static str },
    /// The same for a task that a first request with this body creates.
    StreamPerRequestToTask { path: &'static str, create: &'static str },
    /// The same, but streams stay open while a question is open, and end with the turn.
    StreamPerTurn { path: &'static str, create: &'static str },
    /// All requests and events go over one WebSocket.
    Socket { path: &'static str, protocol: Option<&'static str>, responses: Responses },
}

/// The response to a request over a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Responses {
    /// A series of events that belong to the request.
    Events,
    /// A message that says that the request was accepted. The events go to every client, and the message comes between them.
    Separate,
}

pub struct Dialect {
    pub name: &'static str,
    pub transport: Transport,
    pub fields: &'static [(&'static str, &'static str)],
    pub prompt: fn(&str) -> Value,
    pub answer: fn(&Ids, Answer) -> Value,
    /// Whether the client sends next after this frame: the frame has a question, or is the last of the turn. For transports that stay open.
    pub is_clients_turn: fn(&Value) -> bool,
}

const V10: (&str, &str) = ("A2A-Version", "1.0");
const DEVTOOL_03: (&str, &str) = ("X-A2A-Extensions", EXTENSION);
const DEVTOOL_10: (&str, &str) = ("A2A-Extensions", EXTENSION);

pub const DIALECTS: [Dialect; 17] = [
    Dialect {
        name: "rpc-0.3-coder",
        transport: Transport::StreamPerRequest { path: "/" },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": coder_prompt(text) })),
        answer: |ids, answer| rpc("message/stream", json!({ "message": coder_answer(ids, answer) })),
        is_clients_turn: never,
    },
    Dialect {
        name: "rpc-0.3-devtool",
        transport: Transport::StreamPerRequest { path: "/" },
        fields: &[DEVTOOL_03],
        prompt: |text| rpc("message/stream", json!({ "message": typed(json!([{ "kind": "text", "text": text }])) })),
        answer: |ids, answer| {
            let part = json!({ "kind": "data", "data": extension_answer(ids, answer) });
            rpc("message/stream", json!({ "message": to(ids, typed(json!([part]))) }))
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "rpc-0.3-plain",
        transport: Transport::StreamPerRequest { path: "/" },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": typed(json!([{ "kind": "text", "text": text }])) })),
        answer: |ids, answer| {
            let part = match answer {
                Answer::Allow => json!({ "kind": "text", "text": "yes" }),
                Answer::Edit(_) => json!({ "kind": "data", "data": extension_answer(ids, answer) }),
            };
            rpc("message/stream", json!({ "message": to(ids, typed(json!([part]))) }))
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "rest-0.3-proto",
        transport: Transport::StreamPerRequest { path: "/v1/message:stream" },
        fields: &[],
        prompt: |text| json!({ "message": proto(json!([{ "text": text }])) }),
        answer: |ids, answer| {
            let part = json!({ "data": { "data": coder_confirmation(ids, answer) } });
            json!({ "message": to(ids, proto(json!([part]))) })
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "rest-0.3-kind",
        transport: Transport::StreamPerRequest { path: "/v1/message:stream" },
        fields: &[],
        prompt: |text| json!({ "message": coder_prompt(text) }),
        answer: |ids, answer| json!({ "message": coder_answer(ids, answer) }),
        is_clients_turn: never,
    },
    Dialect {
        name: "rpc-1.0-plain",
        transport: Transport::StreamPerRequest { path: "/" },
        fields: &[V10],
        prompt: |text| rpc("SendStreamingMessage", json!({ "message": v10(json!([{ "text": text }])) })),
        answer: |ids, answer| rpc("SendStreamingMessage", json!({ "message": plain_answer(ids, answer) })),
        is_clients_turn: never,
    },
    Dialect {
        name: "rpc-1.0-devtool",
        transport: Transport::StreamPerRequest { path: "/" },
        fields: &[V10, DEVTOOL_10],
        prompt: |text| rpc("SendStreamingMessage", json!({ "message": v10(json!([{ "text": text }])) })),
        answer: |ids, answer| {
            let part = json!({ "data": extension_answer(ids, answer) });
            rpc("SendStreamingMessage", json!({ "message": to(ids, v10(json!([part]))) }))
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "rpc-1.0-coder",
        transport: Transport::StreamPerRequest { path: "/" },
        fields: &[V10],
        prompt: |text| {
            let mut message = v10(json!([{ "text": text }]));
            message["metadata"] = json!({ "coderAgent": { "kind": "agent-settings" } });
            rpc("SendStreamingMessage", json!({ "message": message }))
        },
        answer: |ids, answer| {
            let part = json!({ "data": coder_confirmation(ids, answer) });
            rpc("SendStreamingMessage", json!({ "message": to(ids, v10(json!([part]))) }))
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "rest-1.0-plain",
        transport: Transport::StreamPerRequest { path: "/message:stream" },
        fields: &[V10],
        prompt: |text| json!({ "message": v10(json!([{ "text": text }])) }),
        answer: |ids, answer| json!({ "message": plain_answer(ids, answer) }),
        is_clients_turn: never,
    },
    Dialect {
        name: "rest-1.0-devtool",
        transport: Transport::StreamPerRequest { path: "/message:stream" },
        fields: &[V10, DEVTOOL_10],
        prompt: |text| json!({ "message": v10(json!([{ "text": text }])) }),
        answer: |ids, answer| {
            let part = json!({ "data": extension_answer(ids, answer) });
            json!({ "message": to(ids, v10(json!([part]))) })
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "kebab",
        transport: Transport::StreamPerRequest { path: "/message/stream" },
        fields: &[],
        prompt: |text| json!({ "userMessage": text }),
        answer: |ids, answer| {
            let mut data = json!({ "kind": "tool-call-confirmation", "toolCallId": ids.call, "approved": true });
            if let Answer::Edit(content) = answer {
                data["newContent"] = json!(content);
            }
            json!({ "taskId": ids.task, "contextId": ids.context, "userMessage": data })
        },
        is_clients_turn: never,
    },
    Dialect {
        name: "snake",
        transport: Transport::StreamPerTurn {
            path: "/tasks/{task}/execute",
            create: r#"{"contextId":"context-123","agentSettings":{"workspaceRoot":"{workspace}"}}"#,
        },
        fields: &[],
        prompt: |text| json!({ "message": text }),
        answer: |ids, answer| json!({ "confirmation": coder_confirmation(ids, answer) }),
        is_clients_turn: |frame| !frame["confirmationRequest"].is_null(),
    },
    Dialect {
        name: "session-sse",
        transport: Transport::StreamPerRequestToTask { path: "/tasks/{task}/messages/stream", create: "" },
        fields: &[],
        prompt: |text| json!({ "message": { "content": { "text": text } } }),
        answer: |ids, answer| session_answer(ids, answer),
        is_clients_turn: never,
    },
    Dialect {
        name: "ws-session",
        transport: Transport::Socket { path: "/ws", protocol: None, responses: Responses::Separate },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": { "content": { "text": text } } })),
        answer: |ids, answer| rpc("message/stream", session_answer(ids, answer)),
        is_clients_turn: |frame| frame["kind"] == "STATE_CHANGE" && frame["final"] == true,
    },
    Dialect {
        name: "ws-a2a.v0.3",
        transport: Transport::Socket { path: "/ws", protocol: Some("a2a.v0.3"), responses: Responses::Events },
        fields: &[],
        prompt: |text| rpc("message/stream", json!({ "message": coder_prompt(text) })),
        answer: |ids, answer| rpc("message/stream", json!({ "message": coder_answer(ids, answer) })),
        is_clients_turn: |frame| frame["result"]["final"] == true,
    },
    Dialect {
        name: "ws-a2a.v1.0",
        transport: Transport::Socket {
            path: "/ws?profile=plain",
            protocol: Some("a2a.v1.0"),
            responses: Responses::Events,
        },
        fields: &[],
        prompt: |text| rpc("SendStreamingMessage", json!({ "message": v10(json!([{ "text": text }])) })),
        answer: |ids, answer| rpc("SendStreamingMessage", json!({ "message": plain_answer(ids, answer) })),
        is_clients_turn: |frame| {
            let state = &frame["result"]["statusUpdate"]["status"]["state"];
            ["INPUT_REQUIRED", "COMPLETED", "FAILED"].iter().any(|word| *state == format!("TASK_STATE_{word}"))
        },
    },
    Dialect {
        name: "ws-gemini-a2a.v1",
        transport: Transport::Socket { path: "/ws", protocol: Some("gemini-a2a.v1"), responses: Responses::Separate },
        fields: &[],
        prompt: |text| json!({ "id": 1, "call": { "say": { "text": text } } }),
        answer: |ids, answer| {
            let mut data = json!({ "task": ids.task, "call": ids.call, "option": "proceed_once" });
            if let Answer::Edit(content) = answer {
                data["edited"] = json!(content);
            }
            json!({ "id": 1, "call": { "answer": data } })
        },
        is_clients_turn: |frame| frame["event"] == "paused" || frame["event"]["turn_ended"].is_object(),
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

/// Adds the ids of the task and the context to a message.
fn to(ids: &Ids, mut message: Value) -> Value {
    message["taskId"] = json!(ids.task);
    message["contextId"] = json!(ids.context);
    message
}

fn coder_prompt(text: &str) -> Value {
    let mut message = typed(json!([{ "kind": "text", "text": text }]));
    message["metadata"] = json!({ "coderAgent": { "kind": "agent-settings" } });
    message
}

fn coder_answer(ids: &Ids, answer: Answer) -> Value {
    let part = json!({ "kind": "data", "data": coder_confirmation(ids, answer) });
    to(ids, typed(json!([part])))
}

fn coder_confirmation(ids: &Ids, answer: Answer) -> Value {
    let mut confirmation = json!({ "callId": ids.call, "outcome": "proceed_once" });
    if let Answer::Edit(content) = answer {
        confirmation["newContent"] = json!(content);
    }
    confirmation
}

fn extension_answer(ids: &Ids, answer: Answer) -> Value {
    let mut data = json!({ "tool_call_id": ids.call, "selected_option_id": "proceed_once" });
    if let Answer::Edit(content) = answer {
        data["file_details"] = json!({ "new_content": content });
    }
    data
}

/// A plain client answers with text; only an edited file needs data.
fn plain_answer(ids: &Ids, answer: Answer) -> Value {
    let part = match answer {
        Answer::Allow => json!({ "text": "yes" }),
        Answer::Edit(_) => json!({ "data": extension_answer(ids, answer) }),
    };
    to(ids, v10(json!([part])))
}

fn session_answer(ids: &Ids, answer: Answer) -> Value {
    let mut answer = extension_answer(ids, answer);
    answer["kind"] = json!("TOOL_CALL_CONFIRMATION");
    json!({ "message": { "content": { "data": answer } } })
}
