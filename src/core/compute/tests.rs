use super::*;
use crate::a2a::Dialect;
use crate::base::id::TaskId;
use crate::core::connections::connection::Peer;
use crate::core::rig::Rig;
use crate::task::call::{Call, List};
use crate::task::machine::job::NoteBody;
use serde_json::{Value, json};

/// A rig whose computations stay with the worker until [`Rig::compute`].
fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.computations = Some(Vec::new());
    rig
}

fn is_computing(rig: &Rig) -> bool {
    rig.computations.as_ref().is_some_and(|held| !held.is_empty())
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

fn connect(rig: &mut Rig, bytes: &[u8]) -> Key {
    let key = rig.core.opened(Peer::SameUser, rig.now);
    rig.core.received(key, bytes, rig.now);
    rig.turns();
    key
}

/// A task at work whose log is longer than is encoded on the loop.
fn long_task(rig: &mut Rig) -> TaskId {
    let task = rig.begin(Dialect::REST_10, None);
    rig.core.settings.limits.inline_log_bytes = rig.core.tasks[&task].len_bytes() - 1;
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
        let mut rig = rig();
        rig.core.settings.limits.inline_body_bytes = limit;
        let key = connect(&mut rig, post(&body).as_bytes());
        assert_eq!(is_computing(&rig), computes);
        assert_eq!(rig.take(key).is_empty(), computes);
        rig.compute();
        assert_eq!(rig.take(key).contains("\"status\""), computes);
    }
}

#[test]
fn a_log_above_the_limit_is_encoded_by_a_worker() {
    let mut rig = rig();
    let task = rig.begin(Dialect::REST_10, None);
    let bytes = rig.core.tasks[&task].len_bytes();
    for call in [Call::Get { task: task.clone(), history: Some(1) }, Call::List(List::default())] {
        for (limit, computes) in [(bytes, false), (bytes - 1, true)] {
            rig.core.settings.limits.inline_log_bytes = limit;
            let key = rig.begin_ask(Dialect::REST_10, call.clone());
            rig.turns();
            assert_eq!(is_computing(&rig), computes, "{call:?}");
            assert_eq!(rig.take(key).is_empty(), computes);
            rig.compute();
            assert_eq!(rig.take(key).contains(task.as_str()), computes);
        }
    }
}

#[test]
fn requests_of_a_connection_are_answered_in_order_and_others_do_not_wait() {
    let mut rig = rig();
    rig.core.settings.limits.inline_body_bytes = 150;
    let pipelined = [post(&prompt("long", "message/send")), HEALTH.to_owned()].concat();
    let key = connect(&mut rig, pipelined.as_bytes());
    let other = connect(&mut rig, HEALTH.as_bytes());
    assert!(rig.take(other).contains("healthy"));
    assert_eq!(rig.take(key), "");
    rig.compute();
    let answers = rig.take(key);
    let (first, second) = (answers.find("\"long\""), answers.find("healthy"));
    assert!(first.is_some() && first < second, "{answers}");
}

#[test]
fn messages_of_a_socket_are_decoded_in_order() {
    let mut rig = rig();
    rig.core.settings.limits.inline_body_bytes = 150;
    let upgrade = "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: a2a.v0.3\r\n\r\n";
    let key = connect(&mut rig, upgrade.as_bytes());
    rig.take(key);
    let framed = |text: &str| {
        let len = (text.len() as u16).to_be_bytes();
        [&[0x81, 0x80 | 126], &len[..], &[0; 4], text.as_bytes()].concat()
    };
    let list = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"id": "x"}}).to_string();
    let messages =
        [prompt("first", "message/send"), format!("{:<150}", list("second")), prompt("third", "message/send")];
    rig.core.received(key, &messages.iter().flat_map(|text| framed(text)).collect::<Vec<_>>(), rig.now);
    rig.turns();
    let answered = |rig: &Rig| {
        let bytes: Vec<u8> = rig.core.slices(key).iter().flat_map(|slice| slice.to_vec()).collect();
        let answers = String::from_utf8_lossy(&bytes);
        ["first", "second", "third"].map(|id| answers.contains(&format!("\"id\":\"{id}\"")))
    };
    assert_eq!(answered(&rig), [false; 3], "the second message waits for the first");
    rig.compute();
    assert_eq!(answered(&rig), [true, true, false]);
    rig.compute();
    assert_eq!(answered(&rig), [true; 3]);
}

#[test]
fn a_stream_goes_on_with_the_event_behind_its_snapshot() {
    let mut rig = rig();
    let task = long_task(&mut rig);
    let key = rig.begin_ask(Dialect::GEMINI, Call::Subscribe { task: task.clone(), after: None });
    let snapshot = rig.state(&task).seq.0;
    rig.turns();
    for text in ["one", "two", "three"] {
        rig.note(NoteBody::Text(text.into()));
    }
    assert_eq!(numbers(&rig.take(key)), [0; 0], "the snapshot comes first");
    rig.compute();
    rig.note(NoteBody::Text("four".into()));
    let streamed = rig.take(key);
    assert_eq!(numbers(&streamed), (snapshot..=rig.state(&task).seq.0).collect::<Vec<_>>());
    let shown = |text: &str| streamed.matches(&format!("\"text\":\"{text}\"")).count();
    assert_eq!(["one", "two", "three", "four"].map(shown), [1; 4], "{streamed}");
}

#[test]
fn an_answer_shows_the_task_as_it_was_when_it_was_asked_for() {
    let mut rig = rig();
    let task = long_task(&mut rig);
    let key = rig.begin_ask(Dialect::REST_10, Call::Get { task: task.clone(), history: None });
    rig.end_turn();
    rig.compute();
    let text = rig.take(key);
    let (_, body) = text.split_once("\r\n\r\n").expect("a head");
    let shown: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(shown["status"]["state"], "TASK_STATE_WORKING");
    assert!(rig.state(&task).is_idle());
}

#[test]
fn the_answer_to_a_closed_connection_is_dropped() {
    let mut rig = rig();
    rig.core.settings.limits.inline_body_bytes = 150;
    let task = long_task(&mut rig);
    let posted = connect(&mut rig, post(&prompt("1", "message/send")).as_bytes());
    let got = rig.begin_ask(Dialect::REST_10, Call::Get { task, history: None });
    let listed = rig.begin_ask(Dialect::REST_10, Call::List(List::default()));
    rig.turns();
    for conn in [posted, got, listed] {
        rig.core.input(Input::Broke { conn }, rig.now);
    }
    let tasks = rig.core.tasks.len();
    rig.compute();
    assert_eq!((rig.core.tasks.len(), rig.core.check().conns), (tasks, 0));
}

#[test]
fn a_worker_that_fails_is_reported_to_the_client() {
    let mut rig = rig();
    rig.core.settings.limits.inline_body_bytes = 150;
    let task = long_task(&mut rig);
    let posted = connect(&mut rig, post(&prompt("1", "message/send")).as_bytes());
    let got = rig.begin_ask(Dialect::REST_10, Call::Get { task, history: None });
    rig.turns();
    for computation in rig.computations.take().into_iter().flatten() {
        let recipient = computation.recipient().clone();
        rig.core.input(Input::Computed { recipient, result: Err("no worker was free".into()) }, rig.now);
    }
    rig.turns();
    for key in [posted, got] {
        let answer = rig.take(key);
        assert!(answer.contains("503") && answer.contains("no worker was free"), "{answer}");
    }
}

#[test]
fn what_workers_have_counts_and_delays_the_end() {
    let mut rig = rig();
    rig.core.settings.limits.inline_body_bytes = 150;
    let body = prompt("1", "message/send");
    let posted = connect(&mut rig, post(&body).as_bytes());
    assert_eq!(rig.core.connections.get(posted).map(|conn| conn.burden(&rig.limits)), Some(body.len()));
    rig.core.input(Input::ShutDown, rig.now);
    rig.turns();
    assert!(!rig.core.is_over());
    rig.compute();
    assert!(rig.take(posted).contains("is about to end"));
    rig.turns();
    assert!(rig.core.is_over());
}
