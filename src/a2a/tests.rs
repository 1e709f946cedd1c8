//! Tests of whole answers: each event in the coder view, snapshots, routes.

mod coder;
mod coder_calls;

use super::*;
use crate::a2a::dialect::{Outputs, Writer};
use crate::a2a::sample;
use crate::base::http::Method;
use crate::base::id::Seq;
use crate::task::call::{Call, List};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::answer::Answer;
use crate::task::log::event::{End, Event, Final};
use crate::task::machine::state::{CallResult, CallState, Item, Queued, Stage, TaskState};
use crate::task::message::{Artifact, Content, Part, Role, Source};
use crate::task::spec::{
    ApprovalScope, Choice, Confinement, Display, Ending, ErrorKind, InquiryKind, Question, Todo, TodoStatus,
};
use serde_json::{Value, json};
use std::sync::Arc;

const TIME: &str = "2026-03-01T09:30:00.125Z";

fn the_view() -> View {
    View::A2a(Writer::V03, Profile::Coder, Outputs::TEXT)
}

fn value(bytes: &[u8]) -> Value {
    assert!(!bytes.contains(&b'\n'), "one line");
    serde_json::from_slice(bytes).expect("JSON")
}

/// The open frame, and the closing one if there is one.
fn frames(state: &State, event: Event) -> Option<(Value, Option<Value>)> {
    let body = super::event(the_view(), state, &sample::record(event), &sample::tools())?;
    Some((value(&body.open), body.closing.map(|bytes| value(&bytes))))
}

/// The frame of an event that no stream ends with.
fn frame(state: &State, event: Event) -> Value {
    let (open, closing) = frames(state, event).expect("the event is shown");
    assert_eq!(closing, None);
    open
}

fn state_change(state: &str) -> Value {
    json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
        "status": {"state": state, "timestamp": TIME}, "final": false,
        "metadata": {"coderAgent": {"kind": "state-change"}, "model": "gemini-x"}})
}

fn agent_message(id: &str, part: Value) -> Value {
    json!({"kind": "message", "role": "agent", "parts": [part], "messageId": id, "taskId": "t-1", "contextId": "c-1"})
}

fn answered(text: &str, calls: Vec<crate::task::log::answer::Request>) -> Answer {
    Answer { said_at: Some(Seq(4)), ..Answer::new(text, calls) }
}

fn with_call(call: CallState) -> State {
    let mut state = sample::state();
    state.calls = vec![call];
    state
}

fn writing() -> CallState {
    let args = json!({"file_path": "a.txt", "content": "newer\n"});
    sample::call("write_file", args, Some(sample::edit()))
}

fn running() -> CallState {
    let question = Question::Exec {
        title: "Confirm Shell Command".into(),
        command: "echo a | wc".into(),
        programs: vec!["echo".into(), "wc".into()],
        dir: Some("/w".into()),
        warnings: vec![],
        needs_approval: None,
        edits: vec![],
    };
    let args = json!({"command": "echo a | wc"});
    sample::call("run_shell_command", args, Some(question))
}

fn drawing() -> Artifact {
    Artifact {
        id: "a".into(),
        name: Some("drawing".into()),
        description: Some("of it".into()),
        parts: vec![
            Part {
                filename: Some("a.png".into()),
                media_type: Some("image/png".into()),
                ..Part::of(Content::Bytes("aGk=".into()))
            },
            Part::of(Content::Uri("https://x.test/a".into())),
            Part::data(json!({"a": 1})),
            Part::data(json!([1])),
        ],
    }
}

fn drawing_shown() -> Value {
    json!({"artifactId": "a", "name": "drawing", "description": "of it", "parts": [
        {"kind": "file", "file": {"bytes": "aGk=", "name": "a.png", "mimeType": "image/png"}},
        {"kind": "file", "file": {"uri": "https://x.test/a"}},
        {"kind": "data", "data": {"a": 1}},
        {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}}]})
}

/// A task with one completed turn, one failed turn, a third in the middle of a sentence, and a queued prompt.
fn long_state() -> State {
    let mut state = sample::state();
    let request = sample::call("write_file", json!({}), None).request;
    let error = ErrorKind::Interrupted.error("x");
    let results = vec![CallResult { request: request.clone(), ending: Arc::new(Ending::Error { error }) }];
    let mut second = answered("Done.", vec![]);
    second.said_at = Some(Seq(6));
    state.history = [
        Item::Said(Arc::new(sample::prompt("m-1", "write"))),
        Item::Answered(Arc::new(answered("Let me see.", vec![request.clone()]))),
        Item::Results(results),
        Item::Answered(Arc::new(second)),
        Item::Dropped(Arc::new(sample::prompt("m-2", "quietly"))),
        Item::Said(Arc::new(sample::prompt("m-3", "more"))),
        Item::Answered(Arc::new(answered("", vec![request]))),
    ]
    .into_iter()
    .map(Arc::new)
    .collect();
    state.utterance.since = Some(Seq(8));
    state.utterance.text = "I am".into();
    state.queue.push_back(Queued {
        turn: 4,
        message: Arc::new(sample::prompt("m-4", "wait")),
        steer: false,
        compress: false,
        credential: None,
    });
    state.artifacts = vec![drawing()];
    state
}

#[test]
fn a_snapshot_whole() {
    let user = |id: &str, text: &str| {
        json!({"kind": "message", "role": "user", "messageId": id, "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": text}]})
    };
    let agent = |id: &str, text: &str| agent_message(id, json!({"kind": "text", "text": text}));
    let answer =
        |id: &str, text: &str| json!({"artifactId": id, "name": "answer", "parts": [{"kind": "text", "text": text}]});
    assert_eq!(
        value(&snapshot(the_view(), &long_state(), SnapshotOptions::ALL)),
        json!({"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "working", "timestamp": TIME},
            "history": [user("m-1", "write"), agent("t-1-4", "Let me see."), agent("t-1-6", "Done."),
                user("m-2", "quietly"), user("m-3", "more"), agent("t-1-8", "I am"), user("m-4", "wait")],
            "artifacts": [answer("answer-1", "Let me see.\nDone."), answer("answer-3", "I am"), drawing_shown()],
            "metadata": {}})
    );
}

#[test]
fn history_is_as_long_as_asked_for() {
    let state = long_state();
    let ids = |newest| {
        let task = value(&snapshot(the_view(), &state, SnapshotOptions::newest(newest)));
        let history = task.get("history")?.as_array()?.clone();
        Some(history.len()).filter(|_| history.last().is_none_or(|m| m["messageId"] == "m-4"))
    };
    assert_eq!(ids(Some(0)), None);
    assert_eq!(ids(Some(1)), Some(1));
    assert_eq!(ids(Some(7)), Some(7));
    assert_eq!(ids(Some(100)), Some(7));
    assert_eq!(ids(None), Some(7));
}

#[test]
fn a_user_message_comes_back_as_it_was_sent() {
    let mut state = sample::state();
    let mut sent = sample::prompt("m-1", "hi");
    sent.metadata = json!({"coderAgent": {"workspacePath": "/w"}}).as_object().cloned();
    sent.extensions = vec!["urn:x".into()];
    sent.references = vec!["t-0".into()];
    state.history = vec![Arc::new(Item::Said(Arc::new(sent)))];
    assert_eq!(
        value(&snapshot(the_view(), &state, SnapshotOptions::ALL))["history"][0],
        json!({"kind": "message", "role": "user", "messageId": "m-1", "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": "hi"}], "metadata": {"coderAgent": {"workspacePath": "/w"}},
            "extensions": ["urn:x"], "referenceTaskIds": ["t-0"]})
    );
}

#[test]
fn a_snapshot_has_the_message_of_its_status() {
    let mut state = sample::state();
    state.status.state = TaskState::Canceled;
    state.status.text = Some("Task canceled by user request.".into());
    let task = value(&snapshot(the_view(), &state, SnapshotOptions::ALL));
    let part = json!({"kind": "text", "text": "Task canceled by user request."});
    assert_eq!(
        task["status"],
        json!({"state": "canceled", "message": agent_message("t-1-9", part), "timestamp": TIME})
    );
    assert_eq!((&task["history"], &task["artifacts"]), (&json!([]), &json!([])));
}

#[test]
fn a_message_without_a_task() {
    let mut reply = sample::prompt("r-1", "hello");
    reply.role = Role::Agent;
    assert_eq!(
        value(&message(the_view(), &reply, &"c-1".into())),
        json!({"kind": "message", "role": "agent", "messageId": "r-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": "hello"}]})
    );
}

#[test]
fn routes() {
    use Method::*;
    let ask = |method, path: &str| {
        let mut request = sample::post(path, "");
        request.method = method;
        decode(&request, &Switches::default()).map(|(call, _)| call).map_err(|(fault, form)| (fault.kind, form.dialect))
    };
    for method in [Get, Head] {
        assert_eq!(ask(method, "/health"), Ok(Call::Health));
        assert_eq!(ask(method, "/.well-known/agent-card.json"), Ok(Call::Card));
        assert_eq!(ask(method, "/.well-known/agent.json"), Ok(Call::Card));
        assert_eq!(ask(method, "/tasks/metadata"), Ok(Call::AllMetadata));
        let one = Call::Metadata { task: "t 1".into() };
        assert_eq!(ask(method, "/tasks/t 1/metadata"), Ok(one));
        assert_eq!(ask(method, "/tasks"), Ok(Call::List(List::default())));
        let one = Call::Get { task: "t".into(), history: None };
        assert_eq!(ask(method, "/tasks/t"), Ok(one));
        assert_eq!(ask(method, "/listCommands"), Ok(Call::Commands));
    }
    assert_eq!(ask(Post, "/tasks"), Ok(Call::Session));
    let refused = |allow: &str, dialect| {
        let allow = allow.into();
        Err((FaultKind::MethodNotAllowed { allow }, dialect))
    };
    assert_eq!(ask(Get, "/"), refused("POST", Dialect::RPC_03));
    assert_eq!(ask(Put, "/tasks"), refused("GET, HEAD, POST", Dialect::GEMINI));
    assert_eq!(ask(Head, "/ws"), refused("GET", Dialect::GEMINI));
    assert_eq!(ask(Options, "/"), refused("POST", Dialect::RPC_03));
    assert_eq!(ask(Post, "/health"), refused("GET, HEAD", Dialect::GEMINI));
    assert_eq!(ask(Delete, "/tasks/t/metadata"), refused("GET, HEAD", Dialect::GEMINI));
    for path in ["/no/such", "/tasks//metadata", "/tasks/a/b/metadata"] {
        assert_eq!(ask(Get, path), Err((FaultKind::NotFound, Dialect::GEMINI)), "{path}");
    }
}

#[test]
fn every_dialect_refuses_too_many_parts_in_its_own_way() {
    let most = crate::limits::MESSAGE_PARTS;
    let message = |count: usize| {
        let parts = vec![json!({ "text": "x" }); count];
        json!({ "messageId": "m", "role": "user", "parts": parts })
    };
    let rpc = |method: &str, count| json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": { "message": message(count) } });
    let bare = |count| json!({ "message": message(count) });
    let decoded = |path: &str, body: &Value| {
        let decoded = decode(&sample::post(path, &body.to_string()), &Switches::default());
        decoded.map(|_| ()).map_err(|(found, form)| {
            let answer = fault(&form, &found);
            (answer.status, value(&answer.body))
        })
    };
    type Body<'a> = &'a dyn Fn(usize) -> Value;
    let bodies: [(&str, Body<'_>, u16, &str); 8] = [
        ("/", &|n| rpc("message/send", n), 200, "/error/message"),
        ("/", &|n| rpc("SendStreamingMessage", n), 200, "/error/message"),
        ("/v1/message:send", &bare, 400, "/message"),
        ("/message:send", &bare, 400, "/error/message"),
        ("/message/stream", &bare, 400, "/error"),
        ("/tasks/t/execute", &bare, 400, "/error"),
        ("/tasks/t/messages/stream", &bare, 400, "/error"),
        ("/message:stream", &bare, 400, "/error/message"),
    ];
    for (path, body, status, place) in bodies {
        assert_eq!(decoded(path, &body(most)), Ok(()), "{path}");
        let (found, answer) = decoded(path, &body(most + 1)).expect_err(path);
        let words = answer.pointer(place).and_then(Value::as_str).unwrap_or_default();
        assert!(found == status && words.contains("has 1001 parts"), "{path}: {found} {answer}");
    }
    let frame = |count| {
        let parts = vec![json!({ "content": { "text": "x" } }); count];
        let message = json!({ "id": "m", "role": "user", "parts": parts });
        native::decode(&json!({ "id": 1, "call": { "say": { "message": message } } }).to_string())
    };
    assert!(frame(most).is_ok());
    let (found, _) = frame(most + 1).expect_err("one too many");
    assert_eq!(found.field.as_deref(), Some("say.message.parts"));
}

#[test]
fn huge_history_lengths() {
    let rpc = |method: &str, length: &str| {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}","params":{{"id":"t","historyLength":{length}}}}}"#);
        decode(&sample::post("/", &body), &Switches::default())
    };
    let rest = |path: &str, length: &str| {
        let mut request = sample::post(path, "");
        request.method = Method::Get;
        request.query = vec![("historyLength".into(), length.into())];
        request.headers.push("A2A-Version", if path.starts_with("/v1") { "0.3" } else { "1.0" });
        decode(&request, &Switches::default())
    };
    type Decoded = Result<(Call, Form), (Fault, Form)>;
    let ways: [&dyn Fn(&str) -> Decoded; 4] =
        [&|n| rpc("tasks/get", n), &|n| rpc("GetTask", n), &|n| rest("/v1/tasks/t", n), &|n| rest("/tasks/t", n)];
    for way in ways {
        for (length, most) in
            [("0", 0), ("1", 1), ("9223372036854775807", usize::try_from(i64::MAX).unwrap_or(usize::MAX))]
        {
            let (call, _) = way(length).unwrap_or_else(|(fault, _)| panic!("{length}: {fault:?}"));
            assert_eq!(call, Call::Get { task: "t".into(), history: Some(most) });
        }
        for length in ["-1", "-9223372036854775808", "1.5", "1e30", "99999999999999999999999", "\"\\u0000\""] {
            let (fault, _) = way(length).expect_err(length);
            assert_eq!(fault.field.as_deref(), Some("historyLength"), "{length}");
        }
    }
}
