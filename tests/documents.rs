//! The five documents (S0 to S4) that specify the interfaces of this server. Every JSON example and every schema in them is a row in
//! `tests/documents`. A test sends it to the real binary as a client, or makes the binary send it. The agent is scripted, the tools are
//! real.
//!
//! Where documents contradict each other, the row names the contradiction and what is done instead; [`EXCEPTIONS`] lists them all.

#[path = "documents/examples.rs"]
mod examples;
mod support;

use examples::{Examples, Origin};
use serde_json::{Value, json};
use support::client::{Client, Event, Events};
use support::server::{Server, Setup};
use support::socket::Socket;

const EXTENSION: &str = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// The examples that the server does not follow as written: document, row, and the number of the contradiction or of the rule that decides.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    ("S0", "3.1 agent card", "C14, 2.11"),
    ("S3", "5.1 pending tool call", "C15"),
    ("S3", "5.2 cancelled, to all clients", "C15"),
    ("S4", "agent card", "2.11"),
];

/// How many examples each document has that are copied literally.
const EXAMPLES: [usize; 5] = [2, 4, 10, 0, 2];

const DOCUMENTS: [(&str, &str); 5] = [
    ("S0", include_str!("documents/s0.json")),
    ("S1", include_str!("documents/s1.json")),
    ("S2", include_str!("documents/s2.json")),
    ("S3", include_str!("documents/s3.json")),
    ("S4", include_str!("documents/s4.json")),
];

fn document(name: &str) -> Examples {
    let found = DOCUMENTS.iter().find(|(known, _)| *known == name);
    let (name, text) = found.expect("one of the five");
    Examples::open(name, text)
}

/// A server with the scripted agent. The model that S2 names is an old one, and clients may ask only for models that the
/// operator allows.
fn server() -> Server {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents/script.json");
    let server =
        Setup::without_model().arg("--script").arg(script).arg("--allowed-model").arg("gemini-2.0-flash-exp").start();
    std::fs::write(server.workspace().join("build.sh"), "echo cc a.c\n").expect("a file of ours");
    server
}

fn file(server: &Server, name: &str) -> Option<String> {
    std::fs::read_to_string(server.workspace().join(name)).ok()
}

#[test]
fn the_exceptions_are_exactly_these() {
    let mut found = Vec::new();
    for (name, text) in DOCUMENTS {
        for row in Examples::open(name, text).rows {
            assert_eq!(row.contradiction.is_some(), row.instead.is_some(), "{}", row.at);
            assert!(row.values.is_empty() || row.contradiction.is_some(), "{}", row.at);
            found.extend(row.contradiction.map(|contradiction| (name, row.at, contradiction)));
        }
    }
    let expected = EXCEPTIONS.map(|(name, at, contradiction)| (name, at.to_owned(), contradiction.to_owned()));
    assert_eq!(found, expected);
    let examples = DOCUMENTS.map(|(name, text)| {
        let rows = Examples::open(name, text).rows.into_iter();
        rows.filter(|row| row.of == Origin::Example).count()
    });
    assert_eq!(examples, EXAMPLES);
}

/// A client of the development-tool extension over JSON-RPC 0.3.
struct Developer {
    client: Client,
    settings: Value,
}

impl Developer {
    fn new(server: &Server, settings: Value) -> Developer {
        let client = Client::new(&server.url());
        Developer { client, settings }
    }

    fn prompt(&self, text: &str) -> Vec<Value> {
        let message = json!({ "kind": "message", "role": "user", "messageId": "m-1",
            "parts": [{ "kind": "text", "text": text }], "metadata": { EXTENSION: self.settings } });
        self.say(message)
    }

    fn answer(&self, received: &[Value], answer: Value) -> Vec<Value> {
        let last = received.last().expect("events");
        self.say(json!({ "kind": "message", "role": "user", "messageId": "m-2",
            "taskId": last["taskId"], "contextId": last["contextId"], "parts": [{ "kind": "data", "data": answer }] }))
    }

    fn say(&self, message: Value) -> Vec<Value> {
        let events = self.client.stream("message/stream", json!({ "message": message }));
        events.map(|event| event.result().clone()).collect()
    }
}

/// An event of the extension in one line: its kind, the state of the task, the status of the call, and whether it is the last one.
fn outline(event: &Value) -> String {
    if event["kind"] == "task" {
        return format!("task {}", event["status"]["state"].as_str().unwrap_or("?"));
    }
    let kind = event["metadata"][EXTENSION]["kind"].as_str().unwrap_or("?");
    let detail = match kind {
        "TOOL_CALL_UPDATE" => data(event)["status"].as_str().unwrap_or("?"),
        "STATE_CHANGE" => event["status"]["state"].as_str().unwrap_or("?"),
        _ => "",
    };
    let last = match event["final"] == true {
        true => "final",
        false => "",
    };
    format!("{kind} {detail} {last}").trim_end().to_owned()
}

fn data(event: &Value) -> &Value {
    &event["status"]["message"]["parts"][0]["data"]
}

fn unnamed<'a>(values: impl IntoIterator<Item = &'a Value>) -> impl Iterator<Item = (Option<&'a str>, &'a Value)> {
    values.into_iter().map(|value| (None, value))
}

fn outlines(events: &[Value]) -> Vec<String> {
    events.iter().map(outline).collect()
}

#[test]
fn the_development_tool_extension() {
    let examples = document("S0");
    let server = server();
    let mut client = Client::new(&server.url());
    let card = client.get("/.well-known/agent-card.json");
    assert_eq!(card.status(), 200);
    examples.received("3.1 agent card", &card.json());

    let workspace = json!(server.workspace());
    let settings = examples.sent("3.2 agent settings", &[("/workspace_path", workspace)]);
    let developer = Developer::new(&server, settings);
    an_edit(&examples, &developer, &server);
    a_command(&examples, &developer);
    ends_of_calls(&examples, &developer, &server);
    slash_commands(&examples, &mut client);
    examples.close();
}

/// The flow of appendix A, event by event.
fn an_edit(examples: &Examples, developer: &Developer, server: &Server) {
    let received = developer.prompt("create notes.txt");
    let expected = [
        "task submitted",
        "STATE_CHANGE working",
        "THOUGHT",
        "TOOL_CALL_UPDATE PENDING",
        "STATE_CHANGE input-required final",
    ];
    assert_eq!(outlines(&received), expected);
    examples.received("A.2 first event", &received[0]);
    examples.received("3.2 event metadata", &received[1]["metadata"][EXTENSION]);
    examples.received("3.2 thought", data(&received[2]));
    examples.received("3.2 tool call, pending, file", data(&received[3]));
    // The event that asks for input contains the confirmation request, too.
    examples.received("3.2 tool call, pending, file", data(&received[4]));

    let call = data(&received[3])["tool_call_id"].clone();
    let answer = examples.sent("3.2 confirmation with modified file", &[("/tool_call_id", call)]);
    let done = developer.answer(&received, answer);
    let expected =
        ["TOOL_CALL_UPDATE EXECUTING", "TOOL_CALL_UPDATE SUCCEEDED", "TEXT_CONTENT", "STATE_CHANGE completed final"];
    assert_eq!(outlines(&done), expected);
    examples.received("3.2 tool call, succeeded, diff", data(&done[1]));
    assert_eq!(file(server, "notes.txt").as_deref(), Some("mine\n"));

    // The task is completed, but can be continued under the same id.
    let more = json!({ "kind": "message", "role": "user", "messageId": "m-3", "taskId": done[0]["taskId"],
        "parts": [{ "kind": "text", "text": "anything" }] });
    let more = developer.say(more);
    let expected = ["STATE_CHANGE working", "TEXT_CONTENT", "STATE_CHANGE completed final"];
    assert_eq!(outlines(&more), expected);
}

fn a_command(examples: &Examples, developer: &Developer) {
    let received = developer.prompt("build");
    let asked = received.iter().rev().nth(1).expect("a call");
    examples.received("3.2 tool call, pending, command", data(asked));
    let call = data(asked)["tool_call_id"].clone();
    let done = developer.answer(&received, examples.sent("A.6 confirmation", &[("/tool_call_id", call)]));
    let calls = || unnamed(done.iter().map(data));
    let live = examples.among("3.2 tool call, executing, live", calls());
    let end = examples.among("3.2 tool call, succeeded, text", calls());
    assert!(live < end, "{done:#?}");
}

fn ends_of_calls(examples: &Examples, developer: &Developer, server: &Server) {
    let received = developer.prompt("read gone.txt");
    examples.among("3.2 tool call, failed", unnamed(received.iter().map(data)));
    std::fs::remove_file(server.workspace().join("notes.txt")).expect("it was written");
    let received = developer.prompt("create notes.txt");
    let call = data(received.last().expect("events"))["tool_call_id"].clone();
    let refusal = json!({ "tool_call_id": call, "selected_option_id": "cancel" });
    let done = developer.answer(&received, refusal);
    examples.among("3.2 tool call, cancelled", unnamed(done.iter().map(data)));
    assert_eq!(file(server, "notes.txt"), None, "the refused call is not executed");
}

fn slash_commands(examples: &Examples, client: &mut Client) {
    let commands = client.call("commands/get", json!({}));
    examples.received("3.3 commands/get", &commands);
    let params = examples.sent("3.3 command/execute, request", &[]);
    let started = client.call("command/execute", params);
    examples.received("3.3 command/execute, started", &started);
    let unknown = json!({ "command_path": ["no", "such"], "args": "" });
    let refused = client.call("command/execute", unknown);
    examples.received("3.3 command/execute, refused", &refused);
}

#[test]
fn the_session_endpoint() {
    let examples = document("S1");
    let server = server();
    let mut client = Client::new(&server.url());
    let card = client.get("/.well-known/agent-card.json").json();
    let extensions = card["capabilities"]["extensions"].as_array();
    assert!(extensions.is_some_and(|all| all.iter().any(|one| one["uri"] == EXTENSION)));
    let created = client.request("POST", "/tasks", &[], b"");
    assert_eq!(created.status(), 201);
    let created = created.json();
    examples.received("2 create task", &created);
    let session = created["sessionId"].as_str().expect("an id").to_owned();

    let mut watcher = Socket::open(&server.url(), "/ws", None);
    let mut socket = Socket::open(&server.url(), "/ws", None);
    socket.send(&examples.sent("3 prompt", &[]));
    // Both clients get the events of the session.
    let call = [&mut socket, &mut watcher].map(|line| {
        let text = line.until(|frame| frame["kind"] == "TEXT_CONTENT");
        examples.received("3 text content", &text);
        assert_eq!(text["taskId"], session.as_str());
        let asked = line.until(|frame| frame["kind"] == "TOOL_CALL_UPDATE");
        // The command of the document is destructive; this one makes a folder.
        examples.received("4 confirmation request", &asked);
        let details = &asked["confirmation_request"]["details"]["execute_details"];
        assert_eq!(details["command"], "mkdir made");
        asked["tool_call_id"].clone()
    });
    assert_eq!(call[0], call[1]);
    let [call, _] = call;
    let pointer = "/params/message/content/data/tool_call_id";
    watcher.send(&examples.sent("4 confirmation", &[(pointer, call)]));
    for line in [&mut socket, &mut watcher] {
        for status in ["EXECUTING", "SUCCEEDED"] {
            line.until(|frame| frame["status"] == status);
        }
        line.until(|frame| frame["kind"] == "STATE_CHANGE" && frame["final"] == true);
    }
    assert!(server.workspace().join("made").is_dir());

    // The same prompt over HTTP, as an event stream of the same objects.
    let path = format!("/tasks/{session}/messages/stream");
    let body = examples.sent("3 prompt", &[]).to_string();
    let events = client.events("POST", &path, &JSON, body.as_bytes());
    assert!(events.head().is_event_stream());
    let received: Vec<Value> = events.map(|event| event.json).collect();
    assert_eq!(received[0]["kind"], "STATE_CHANGE");
    assert_eq!(received[0]["state"], "working");
    examples.among("3 text content", unnamed(&received));
    examples.among("4 confirmation request", unnamed(&received));
    examples.close();
}

fn names(events: &[Event]) -> impl Iterator<Item = (Option<&str>, &Value)> {
    events.iter().map(|event| (event.name.as_deref(), &event.json))
}

#[test]
fn the_task_server() {
    let examples = document("S2");
    let server = server();
    let mut client = Client::new(&server.url());
    let workspace = json!(server.workspace());
    let request = examples.sent("POST /tasks, request", &[("/agentSettings/workspaceRoot", workspace)]);
    let created = client.post("/tasks", &request);
    assert_eq!(created.status(), 201);
    examples.received("POST /tasks, response", &created.json());
    let task = created.json()["taskId"].as_str().expect("an id").to_owned();

    let path = format!("/tasks/{task}/execute");
    let execute = |body: Value| client.events("POST", &path, &JSON, body.to_string().as_bytes());
    let mut events = execute(examples.sent("POST /tasks/:taskId/execute, request", &[]));
    assert!(events.head().is_event_stream());
    let received = until_asked(&mut events);
    // The document defines no answers and no waiting state: the stream stays open, and any form of answer is accepted.
    let asked = received.last().expect("events").json["toolCallId"].clone();
    let answer = json!({ "confirmation": { "toolCallId": asked, "approved": true } });
    let answered = execute(answer);
    let received: Vec<Event> = received.into_iter().chain(events).collect();
    drop(answered);

    let text = examples.among("event text_content", names(&received));
    let requested = examples.among("event tool_call_update, requested", names(&received));
    let executing = examples.among("TOOL_CALL_UPDATE payload, executing", names(&received));
    let completed = examples.among("event tool_call_update, completed", names(&received));
    let end = examples.among("event state_change", names(&received));
    assert!(text < requested && requested < executing && executing < completed);
    assert_eq!(end, received.len() - 1, "the stream ends with this event");
    let thought = examples.among("THOUGHT payload", names(&received));
    let summary = examples.among("THOUGHT_SUMMARY payload", names(&received));
    assert!(thought < summary);
    examples.among("TOOL_CALL_UPDATE payload, error", names(&received));
    check_reads(&examples, &server, &mut client, &task);
    examples.close();
}

fn until_asked(events: &mut Events) -> Vec<Event> {
    let mut received = Vec::new();
    while !received.last().is_some_and(|event: &Event| event.json["confirmationRequest"].is_object()) {
        received.push(events.next().expect("a question"));
    }
    received
}

fn check_reads(examples: &Examples, server: &Server, client: &mut Client, task: &str) {
    let one = client.get(&format!("/tasks/{task}"));
    assert_eq!(one.status(), 200);
    examples.received("GET /tasks/:taskId", &one.json());
    examples.received("GET /tasks", &client.get("/tasks").json());
    examples.received("GET /health", &client.get("/health").json());
    let home = server.state_dir().with_file_name("home");
    let extension = home.join(".gemini/extensions/my-extension");
    std::fs::create_dir_all(&extension).expect("a folder of ours");
    let manifest = json!({ "name": "my-extension", "version": "1.0.0" });
    let manifest_file = extension.join("gemini-extension.json");
    std::fs::write(manifest_file, manifest.to_string()).expect("a file of ours");
    let listed = client.post("/executeCommand", &json!({ "command": "list-extensions", "args": [] }));
    // The document shows the result of the command; the endpoint also returns the name of the command.
    examples.received("list-extensions", &listed.json()["data"]);
}

#[test]
fn the_requirements_of_the_session_endpoint() {
    let examples = document("S3");
    let server = server();
    let mut client = Client::new(&server.url());
    let card = client.get("/.well-known/agent-card.json");
    assert_eq!(card.status(), 200);
    let refused = client.get("/ws");
    assert_eq!(refused.status(), 426, "the endpoint only accepts WebSockets");
    assert_eq!(refused.head.field("connection"), Some("Upgrade"));
    assert_eq!(refused.head.field("upgrade"), Some("websocket"));

    let mut one = Socket::open(&server.url(), "/ws", None);
    let mut two = Socket::open(&server.url(), "/ws", None);
    let prompt = json!({ "jsonrpc": "2.0", "method": "message/stream",
        "params": { "message": { "content": { "text": "create notes.txt" } } } });
    one.send(&prompt);
    // Prompts and events are sent to all clients.
    let reflected = two.until(|frame| frame["kind"] == "USER_MESSAGE");
    assert_eq!(reflected["content"]["text"], "create notes.txt");
    for kind in ["THOUGHT", "TOOL_CALL_UPDATE"] {
        one.until(|frame| frame["kind"] == kind);
    }
    let asked = two.until(|frame| frame["kind"] == "TOOL_CALL_UPDATE");
    examples.received("5.1 pending tool call", &asked);

    let call = asked["tool_call_id"].clone();
    let refusal = examples.sent("5.2 confirmation as a message of its own", &[("/tool_call_id", call.clone())]);
    two.send(&refusal);
    for line in [&mut one, &mut two] {
        let ended = line.until(|frame| frame["status"] == "CANCELLED");
        examples.received("5.2 cancelled, to all clients", &ended);
        assert_eq!(ended["tool_call_id"], call);
    }
    // The first answer counts.
    one.send(&json!({ "tool_call_id": call, "selected_option_id": "proceed_once" }));
    let late = one.until(|frame| frame["error"].is_object());
    examples.received("6.1 a later answer", &late);
    assert_eq!(late["error"]["data"]["reason"], "TOOL_CALL_NOT_PENDING");
    assert_eq!(file(&server, "notes.txt"), None);
    as_status_updates(&server);
    examples.close();
}

/// Clients that ask for it get events in the form of the document.
fn as_status_updates(server: &Server) {
    let mut socket = Socket::open(&server.url(), "/ws", Some("a2a.v0.3"));
    assert_eq!(socket.protocol.as_deref(), Some("a2a.v0.3"));
    let message = json!({ "kind": "message", "role": "user", "messageId": "m-1", "extensions": [EXTENSION],
        "parts": [{ "kind": "text", "text": "create notes.txt" }] });
    socket.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": { "message": message } }));
    let asked = socket.until(|frame| outline(&frame["result"]) == "TOOL_CALL_UPDATE PENDING");
    let result = &asked["result"];
    assert_eq!(result["kind"], "status-update");
    assert!(data(result)["confirmation_request"].is_object(), "{asked}");
}

#[test]
fn the_kebab_dialect() {
    let examples = document("S4");
    let server = server();
    let mut client = Client::new(&server.url());
    let card = client.get("/.well-known/agent-card.json").json();
    examples.received("agent card", &card);
    assert_eq!(card["url"], format!("{}/", server.url()).as_str());

    let workspace = json!(server.workspace());
    let settings = examples.sent("agent settings", &[("/workspacePath", workspace)]);
    let created = client.post("/tasks", &json!({ "agentSettings": settings }));
    assert_eq!(created.status(), 201);
    let task = created.json().as_str().expect("a bare id").to_owned();
    let known = client.get(&format!("/tasks/{task}/metadata")).json();
    examples.received("task metadata", &known["metadata"]);
    let all = client.get("/tasks/metadata").json();
    assert_eq!(all[0]["id"], task.as_str());

    let body = json!({ "taskId": task, "userMessage": "create a file" });
    let received = kebab(&client, &body);
    let at = |row: &str, received: &[Value]| examples.among(row, unnamed(received));
    let order = [
        at("event state-change, working", &received),
        at("event thought", &received),
        at("tool call update, pending", &received),
        at("tool call confirmation", &received),
        at("event state-change, input-required", &received),
    ];
    assert_eq!(order, [0, 1, 2, 3, 4], "{received:#?}");
    assert_eq!(received.len(), 5, "and the stream ends: {received:#?}");

    let done = kebab(&client, &answer(&examples, "confirmation, approved", &received[3]));
    let order = [
        at("event state-change, working", &done),
        at("tool call update, executing", &done),
        at("tool call update, succeeded", &done),
        at("event text-content", &done),
        at("event state-change, completed", &done),
    ];
    assert_eq!(order, [0, 1, 2, 3, 4], "{done:#?}");
    assert_eq!(done.len(), 5, "{done:#?}");
    assert_eq!(file(&server, "notes.txt").as_deref(), Some("hi"));

    let received = kebab(&client, &json!({ "userMessage": "read gone.txt" }));
    at("tool call update, failed", &received);
    let received = kebab(&client, &json!({ "userMessage": "create a file" }));
    let asked = &received[at("tool call confirmation", &received)];
    let done = kebab(&client, &answer(&examples, "confirmation, rejected", asked));
    at("tool call update, cancelled", &done);
    check_commands(&mut client);
    examples.close();
}

fn kebab(client: &Client, body: &Value) -> Vec<Value> {
    let body = body.to_string();
    let events = client.events("POST", "/message/stream", &JSON, body.as_bytes());
    assert!(events.head().is_event_stream());
    events
        .map(|event| {
            assert_eq!(event.name, None, "events of this dialect have no SSE names");
            event.json
        })
        .collect()
}

fn answer(examples: &Examples, row: &str, asked: &Value) -> Value {
    let run_time = [
        ("/taskId", asked["taskId"].clone()),
        ("/contextId", asked["contextId"].clone()),
        ("/userMessage/toolCallId", asked["toolCallId"].clone()),
    ];
    examples.sent(row, &run_time)
}

/// The endpoints for which the document has no example.
fn check_commands(client: &mut Client) {
    let listed = client.get("/listCommands");
    assert_eq!(listed.status(), 200);
    assert!(listed.json()["commands"].is_array());
    let run = client.post("/executeCommand", &json!({ "command": "memory show" }));
    assert_eq!(run.status(), 200);
    assert_eq!(run.json()["name"], "memory show");
}
