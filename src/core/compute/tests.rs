//! Computations that workers carry out, and the limits above which they do.

use super::*;
use crate::a2a::{Dialect, sample};
use crate::base::id::TaskId;
use crate::core::connections::connection::Peer;
use crate::core::disk::store::Archive;
use crate::core::test_core::TestCore;
use crate::task::call::{Call, List};
use crate::task::machine::job::NoteBody;
use serde_json::{Value, json};

/// A test whose computations stay with the worker until [`TestCore::compute`].
fn test() -> TestCore {
    let mut test = TestCore::new();
    test.computations = Some(Vec::new());
    test
}

fn is_computing(test: &TestCore) -> bool {
    test.computations.as_ref().is_some_and(|held| !held.is_empty())
}

fn prompt(id: &str, method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"configuration": {"blocking": false},
        "message": {"kind": "message", "role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "go on"}]}}})
    .to_string()
}

fn post(body: &str) -> String {
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn connect(test: &mut TestCore, bytes: &[u8]) -> Key {
    let key = test.core.opened(Peer::SameUser, test.now);
    test.core.received(key, bytes, test.now);
    test.turns();
    key
}

/// A task at work whose log is longer than is encoded on the loop.
fn long_task(test: &mut TestCore) -> TaskId {
    let task = test.begin(Dialect::REST_10, None);
    test.core.settings.limits.inline_log_bytes = test.core.tasks[&task].len_bytes() - 1;
    task
}

/// The ids of the answers and the numbers of the events that a stream or a connection was sent.
fn numbers(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
}

#[test]
fn a_body_above_the_limit_is_decoded_by_a_worker() {
    let body = prompt("1", "message/send");
    for (limit, computes) in [(body.len(), false), (body.len() - 1, true)] {
        let mut test = test();
        test.core.settings.limits.inline_body_bytes = limit;
        let key = connect(&mut test, post(&body).as_bytes());
        assert_eq!(is_computing(&test), computes);
        assert_eq!(test.take(key).is_empty(), computes);
        test.compute();
        assert_eq!(test.take(key).contains("\"status\""), computes);
    }
}

#[test]
fn a_log_above_the_limit_is_encoded_by_a_worker() {
    let mut test = test();
    let task = test.begin(Dialect::REST_10, None);
    let bytes = test.core.tasks[&task].len_bytes();
    for call in [Call::Get { task: task.clone(), history: Some(1) }, Call::List(List::default())] {
        for (limit, computes) in [(bytes, false), (bytes - 1, true)] {
            test.core.settings.limits.inline_log_bytes = limit;
            let key = test.begin_ask(Dialect::REST_10, call.clone());
            test.turns();
            assert_eq!(is_computing(&test), computes, "{call:?}");
            assert_eq!(test.take(key).is_empty(), computes);
            test.compute();
            assert_eq!(test.take(key).contains(task.as_str()), computes);
        }
    }
}

#[test]
fn requests_of_a_connection_are_answered_in_order_and_others_do_not_wait() {
    let mut test = test();
    test.core.settings.limits.inline_body_bytes = 150;
    let pipelined = [post(&prompt("long", "message/send")), HEALTH.to_owned()].concat();
    let key = connect(&mut test, pipelined.as_bytes());
    let other = connect(&mut test, HEALTH.as_bytes());
    assert!(test.take(other).contains("healthy"));
    assert_eq!(test.take(key), "");
    test.compute();
    let answers = test.take(key);
    let (first, second) = (answers.find("\"long\""), answers.find("healthy"));
    assert!(first.is_some() && first < second, "{answers}");
}

#[test]
fn messages_of_a_socket_are_decoded_in_order() {
    let mut test = test();
    test.core.settings.limits.inline_body_bytes = 150;
    let upgrade = "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: a2a.v0.3\r\n\r\n";
    let key = connect(&mut test, upgrade.as_bytes());
    test.take(key);
    let framed = |text: &str| {
        let len = (text.len() as u16).to_be_bytes();
        [&[0x81, 0x80 | 126], &len[..], &[0; 4], text.as_bytes()].concat()
    };
    let list = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"id": "x"}}).to_string();
    let messages =
        [prompt("first", "message/send"), format!("{:<150}", list("second")), prompt("third", "message/send")];
    test.core.received(key, &messages.iter().flat_map(|text| framed(text)).collect::<Vec<_>>(), test.now);
    test.turns();
    let answered = |test: &TestCore| {
        let bytes: Vec<u8> = test.core.slices(key).iter().flat_map(|slice| slice.to_vec()).collect();
        let answers = String::from_utf8_lossy(&bytes);
        ["first", "second", "third"].map(|id| answers.contains(&format!("\"id\":\"{id}\"")))
    };
    assert_eq!(answered(&test), [false; 3], "the second message waits for the first");
    test.compute();
    assert_eq!(answered(&test), [true, true, false]);
    test.compute();
    assert_eq!(answered(&test), [true; 3]);
}

#[test]
fn a_stream_goes_on_with_the_event_behind_its_snapshot() {
    let mut test = test();
    let task = long_task(&mut test);
    let key = test.begin_ask(Dialect::GEMINI, Call::Subscribe { task: task.clone(), after: None });
    let snapshot = test.state(&task).seq.0;
    test.turns();
    for text in ["one", "two", "three"] {
        test.note(NoteBody::Text(text.into()));
    }
    assert_eq!(numbers(&test.take(key)), [0; 0], "the snapshot comes first");
    test.compute();
    test.note(NoteBody::Text("four".into()));
    let streamed = test.take(key);
    assert_eq!(numbers(&streamed), (snapshot..=test.state(&task).seq.0).collect::<Vec<_>>());
    let shown = |text: &str| streamed.matches(&format!("\"text\":\"{text}\"")).count();
    assert_eq!(["one", "two", "three", "four"].map(shown), [1; 4], "{streamed}");
}

#[test]
fn an_answer_shows_the_task_as_it_was_when_it_was_asked_for() {
    let mut test = test();
    let task = long_task(&mut test);
    let key = test.begin_ask(Dialect::REST_10, Call::Get { task: task.clone(), history: None });
    test.end_turn();
    test.compute();
    let text = test.take(key);
    let (_, body) = text.split_once("\r\n\r\n").expect("a head");
    let shown: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(shown["status"]["state"], "TASK_STATE_WORKING");
    assert!(test.state(&task).is_idle());
}

#[test]
fn the_answer_to_a_closed_connection_is_dropped() {
    let mut test = test();
    test.core.settings.limits.inline_body_bytes = 150;
    let task = long_task(&mut test);
    let posted = connect(&mut test, post(&prompt("1", "message/send")).as_bytes());
    let got = test.begin_ask(Dialect::REST_10, Call::Get { task, history: None });
    let listed = test.begin_ask(Dialect::REST_10, Call::List(List::default()));
    test.turns();
    for conn in [posted, got, listed] {
        test.core.input(Input::Broke { conn }, test.now);
    }
    let tasks = test.core.tasks.len();
    test.compute();
    assert_eq!((test.core.tasks.len(), test.core.check().conns), (tasks, 0));
}

#[test]
fn a_worker_that_fails_is_reported_to_the_client() {
    let mut test = test();
    test.core.settings.limits.inline_body_bytes = 150;
    let task = long_task(&mut test);
    let posted = connect(&mut test, post(&prompt("1", "message/send")).as_bytes());
    let got = test.begin_ask(Dialect::REST_10, Call::Get { task, history: None });
    test.turns();
    for computation in test.computations.take().into_iter().flatten() {
        let recipient = computation.recipient().clone();
        test.core.input(Input::Computed { recipient, result: Err("no worker was free".into()) }, test.now);
    }
    test.turns();
    for key in [posted, got] {
        let answer = test.take(key);
        assert!(answer.contains("503") && answer.contains("no worker was free"), "{answer}");
    }
}

#[test]
fn the_memory_of_computations_counts_and_shutdown_waits_for_them() {
    let mut test = test();
    test.core.settings.limits.inline_body_bytes = 150;
    let body = prompt("1", "message/send");
    let posted = connect(&mut test, post(&body).as_bytes());
    assert_eq!(test.core.connections.get(posted).map(|conn| conn.memory(&test.limits)), Some(body.len()));
    test.core.input(Input::ShutDown, test.now);
    test.turns();
    assert!(!test.core.is_over());
    test.compute();
    assert!(test.take(posted).contains("is about to end"));
    test.turns();
    assert!(test.core.is_over());
}

/// A decoded prompt whose metadata is so long that it has this many bytes beside its text.
fn prompt_with_bytes_beside_its_text(test: &TestCore, bytes: usize) -> Decoded {
    let request = sample::post("/", &prompt("1", "message/send"));
    let Ok((Call::Say(mut say), form)) = a2a::decode(&request, &test.core.settings.switches) else {
        panic!("it is a prompt")
    };
    let mut pad = |length: usize| {
        let message = Arc::make_mut(&mut say.said.message);
        message.metadata = Some(json!({"pad": "x".repeat(length)}).as_object().cloned().unwrap_or_default());
        form.id.len() + say.bytes_beside_content()
    };
    let rest = pad(0);
    assert_eq!(pad(bytes - rest), bytes);
    Ok((Call::Say(say), form))
}

#[test]
fn a_request_has_a_limit_beside_texts_and_files() {
    let test = test();
    let ended = |decoded: Decoded, bytes: usize| match within_limits(decoded, bytes, &*test.store.blobs(), &test.limits)
    {
        Ok(_) => None,
        Err((fault, _)) => Some(fault.kind),
    };
    for (bytes, expected) in [(CALL_BYTES, None), (CALL_BYTES + 1, Some(FaultKind::TooLarge))] {
        assert_eq!(ended(prompt_with_bytes_beside_its_text(&test, bytes), 20 * CALL_BYTES), expected);
        let (_, form) = prompt_with_bytes_beside_its_text(&test, 1000).expect("it is a prompt");
        assert_eq!(ended(Ok((Call::List(List::default()), form.clone())), bytes), expected, "it may contain all of it");
        let get = Call::Get { task: "t".into(), history: None };
        assert_eq!(ended(Ok((get, form)), bytes), None, "nothing of the rest is kept");
    }
}

#[test]
fn long_members_of_every_kind_are_refused_and_long_texts_and_files_are_not() {
    let long = "x".repeat(CALL_BYTES + 1);
    let send = |member: &str, value: Value| {
        let mut request: Value = serde_json::from_str(&prompt("1", "message/send")).expect("JSON");
        *request.pointer_mut(member).expect("it has that member") = value;
        request.to_string()
    };
    let with = |member: &str, value: Value| {
        let mut message = json!({"kind": "message", "role": "user", "messageId": "m",
            "parts": [{"kind": "text", "text": "go on"}]});
        message[member] = value;
        send("/params/message", message)
    };
    let part = |part: Value| with("parts", json!([{"kind": "text", "text": "go on"}, part]));
    let refused = [
        with("messageId", json!(long)),
        with("metadata", json!({"a": long})),
        with("extensions", json!([long])),
        with("referenceTaskIds", json!([long])),
        with("taskId", json!(long)),
        part(json!({"kind": "data", "data": {"a": long}})),
        part(json!({"kind": "file", "file": {"name": long, "bytes": "aGk=", "mimeType": "image/png"}})),
        part(json!({"kind": "text", "text": "a", "metadata": {"a": long}})),
        json!({"jsonrpc": "2.0", "id": "1", "method": "tasks/get", "params": {"id": long}}).to_string(),
        prompt(&long, "message/send"),
    ];
    let accepted = [
        send("/params/message/parts/0/text", json!(long)),
        part(json!({"kind": "text", "text": long})),
        part(json!({"kind": "file", "file": {"bytes": "aGlh".repeat(CALL_BYTES / 3), "mimeType": "image/png"}})),
    ];
    let answer = |body: &str| {
        let mut test = test();
        let key = connect(&mut test, post(body).as_bytes());
        while is_computing(&test) {
            test.compute();
        }
        test.take(key)
    };
    for body in &refused {
        let text = answer(body);
        let (head, answered) = text.split_once("\r\n\r\n").expect("an answer");
        assert!(answered.contains("bytes beside the texts and files"), "{:.200}: {head} {answered:.700}", body);
        assert!(answered.len() < 2 * FAULT_CHARS, "it does not repeat what is long");
    }
    for body in &accepted {
        let text = answer(body);
        assert!(text.contains("\"status\""), "{:.500}", text);
    }
}

#[test]
fn an_error_about_a_long_request_is_cut() {
    let method = "x".repeat(CALL_BYTES / 2);
    let mut test = test();
    let key = connect(&mut test, post(&prompt("1", &method)).as_bytes());
    test.compute();
    let text = test.take(key);
    assert!(text.contains("-32601") && text.contains("xxx…"), "{text:.500}");
    assert!(text.len() < 2 * FAULT_CHARS, "{}", text.len());
}

#[test]
fn a_prompt_that_cannot_be_stored_is_refused() {
    let mut test = test();
    let body = prompt("1", "message/send").replace("go on", &"go on".repeat(CALL_BYTES / 5));
    let key = connect(&mut test, post(&body).as_bytes());
    test.store.fail_puts(1);
    test.compute();
    let text = test.take(key);
    assert!(text.contains("cannot be stored"), "{text:.500}");
    assert_eq!(test.core.tasks.len(), 0, "no task was created");
}
