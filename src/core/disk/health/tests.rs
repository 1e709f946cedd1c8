//! Health, calls and streams while journals cannot be written.

use crate::a2a::Dialect;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::connections::connection::Peer;
use crate::core::disk::store::{Archive, fold};
use crate::core::test_core::TestCore;
use crate::core::test_core::core_harness::failing_store::Failure;
use crate::task::call::{Call, Mode, Say};
use crate::task::log::event::Protocol;
use crate::task::machine::decide::Input;
use crate::task::machine::job::{JobId, Note, NoteBody};
use crate::task::machine::state::TaskState;
use serde_json::{Value, json};

/// The status, and what is wrong.
fn health(test: &mut TestCore) -> [Value; 2] {
    let health = test.ask(Dialect::GEMINI, Call::Health);
    ["status", "problem"].map(|member| health[member].clone())
}

fn well() -> [Value; 2] {
    [json!("healthy"), Value::Null]
}

fn unwell() -> [Value; 2] {
    let problem = "Journals cannot be written: the server's log says why. Until then nothing new begins and what was \
         begun waits.";
    [json!("degraded"), json!(problem)]
}

#[test]
fn health_is_degraded_from_a_failed_first_write_until_a_probe_succeeds() {
    let mut test = TestCore::new();
    assert_eq!(health(&mut test), well());
    // One for the task, two for trials.
    test.store.fail(Failure::Refused, 3);
    test.ask(Dialect::GEMINI, Call::Session);
    for _ in 0..3 {
        assert_eq!(health(&mut test), unwell());
        test.later(test.limits.store_retry_ms);
    }
    assert_eq!(health(&mut test), well(), "nobody else has written");
}

#[test]
fn a_waiting_journal_keeps_the_problem_reported_whatever_a_probe_finds() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, None);
    test.store.fail(Failure::Torn, 2);
    let _ = test.core.drive(&task, Input::Cancel, test.now);
    for _ in 0..2 {
        test.turns();
        assert_eq!(health(&mut test), unwell());
        test.later(test.limits.store_retry_ms);
    }
    assert_eq!(health(&mut test), well());
}

#[test]
fn a_disk_that_is_full_at_the_start_is_reported() {
    let mut test = TestCore::new();
    test.store.fail(Failure::Refused, 1);
    test.core.input(crate::core::Input::Listed(test.store.known()), test.now);
    test.turns();
    assert_eq!(health(&mut test), unwell());
    test.later(test.limits.store_retry_ms);
    assert_eq!(health(&mut test), well());
}

// A task whose journal cannot be written.

/// A task at work with events that the disk refuses, and the job that works for it.
fn stuck() -> (TestCore, TaskId, JobId) {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, None);
    let job = test.jobs.last().expect("a job").clone();
    test.store.fail(Failure::Refused, u32::MAX);
    test.note(NoteBody::Text("not recorded".into()));
    assert!(test.core.tasks[&task].shown() < test.state(&task).seq);
    (test, task, job)
}

/// The answer that a call gets within one turn of the loop.
fn answered_in_a_turn(test: &mut TestCore, dialect: &'static Dialect, call: Call) -> String {
    let conn = test.begin_ask(dialect, call);
    test.turn();
    let text = test.take(conn);
    test.core.close_conn(conn, crate::core::Close::Orderly);
    text
}

fn on_disk(test: &mut TestCore, task: &TaskId) -> TaskState {
    let file = test.store.open(task).expect("a log");
    fold(&*file, None).expect("a whole log").status.state
}

const STOPPED: &str = "The task was stopped, but its journal cannot be written: the disk is told to refuse";

#[test]
fn cancel_stops_jobs_in_the_same_turn_although_the_disk_is_full() {
    for dialect in [
        Dialect::RPC_03,
        Dialect::RPC_10,
        Dialect::REST_03_PROTO,
        Dialect::REST_03_JSON,
        Dialect::REST_10,
        Dialect::NATIVE,
    ] {
        let (mut test, task, job) = stuck();
        let text = answered_in_a_turn(&mut test, dialect, Call::Cancel { task: task.clone() });
        assert_eq!(test.stops, [job], "{dialect:?}");
        assert!(text.contains(STOPPED), "{dialect:?}: {text}");
        // The same again: nothing more to stop, and not taken for a mistake of the caller.
        let text = answered_in_a_turn(&mut test, dialect, Call::Cancel { task: task.clone() });
        assert!(text.contains(STOPPED), "{dialect:?}: {text}");
        assert_eq!(test.stops.len(), 1);
        assert_eq!(on_disk(&mut test, &task), TaskState::Working, "nothing of it is recorded");
        // It is recorded when the disk takes it, by itself.
        test.store.fail(Failure::Refused, 0);
        test.later(test.limits.store_retry_ms);
        assert_eq!(on_disk(&mut test, &task), TaskState::Canceled, "{dialect:?}");
    }
}

#[test]
fn cancel_is_answered_as_usual_when_the_disk_has_space_again() {
    let (mut test, task, job) = stuck();
    test.store.fail(Failure::Refused, 0);
    // The next try is not due yet: the call does not wait for it.
    let text = answered_in_a_turn(&mut test, Dialect::RPC_03, Call::Cancel { task: task.clone() });
    assert!(text.contains(r#""state":"canceled""#), "{text}");
    assert_eq!((test.stops.clone(), on_disk(&mut test, &task)), (vec![job], TaskState::Canceled));
}

#[test]
fn cancel_that_meets_a_failing_disk_first_stops_jobs_too() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, None);
    let job = test.jobs.last().expect("a job").clone();
    test.store.fail(Failure::Torn, u32::MAX);
    let text = answered_in_a_turn(&mut test, Dialect::REST_10, Call::Cancel { task: task.clone() });
    assert!(text.contains("The task was stopped, but"), "{text}");
    assert_eq!(test.stops, [job]);
}

#[test]
fn further_cancels_do_not_arm_further_retries() {
    let (mut test, task, _) = stuck();
    for _ in 0..5 {
        answered_in_a_turn(&mut test, Dialect::RPC_10, Call::Cancel { task: task.clone() });
    }
    let timers = test.core.timers.len();
    for _ in 0..5 {
        test.later(test.limits.store_retry_ms);
    }
    assert_eq!(test.core.timers.len(), timers);
}

#[test]
fn aborting_a_turn_stops_jobs_although_the_disk_is_full() {
    let (mut test, task, job) = stuck();
    let turn = test.state(&task).turn.number;
    test.core.drive(&task, Input::Disconnected { turn }, test.now).expect("never refused");
    test.turn();
    assert_eq!(test.stops, [job]);
    test.store.fail(Failure::Refused, 0);
    test.later(test.limits.store_retry_ms);
    assert_eq!(on_disk(&mut test, &task), TaskState::InputRequired);
}

#[test]
fn a_cancel_that_was_never_recorded_starts_nothing_after_a_restart() {
    let (mut test, task, _) = stuck();
    test.cancel(&task);
    test.restart();
    assert_eq!(test.jobs, []);
    assert_eq!(on_disk(&mut test, &task), TaskState::InputRequired, "the turn was cut off");
    test.later(test.limits.store_retry_ms);
    assert_eq!(test.jobs, []);
}

#[test]
fn calls_that_wait_for_the_disk_get_an_error_that_says_what_became_of_them() {
    let say = |task: &TaskId, mode| {
        Call::Say(Say { task: Some(task.clone()), mode, ..crate::core::test_core::say("more", Protocol::V03) })
    };
    for mode in [Mode::Wait, Mode::Now] {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        test.store.fail(Failure::Refused, u32::MAX);
        let text = answered_in_a_turn(&mut test, Dialect::RPC_03, say(&task, mode));
        assert!(text.contains("Do not send it again"), "{text}");
        let text = answered_in_a_turn(&mut test, Dialect::RPC_03, say(&task, mode));
        assert!(text.contains("Nothing of this request was accepted"), "{text}");
        let get = Call::Get { task: task.clone(), history: None };
        let text = answered_in_a_turn(&mut test, Dialect::RPC_03, get);
        assert!(text.contains("ask again later"), "{text}");
        let turn = test.state(&task).turn.number;
        test.store.fail(Failure::Refused, 0);
        test.later(test.limits.store_retry_ms);
        assert_eq!(test.state(&task).turn.number, turn, "the prompt was taken once");
        assert_eq!(test.jobs.len(), 2, "its turn has begun");
    }
}

// Streams.

fn post(path: &str, body: Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn join(query: &str, protocol: &str) -> String {
    format!(
        "GET /ws{query} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    )
}

/// A masked message of a client.
fn framed(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let length = (text.len() as u16).to_be_bytes();
    [&[0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0], text.as_bytes()].concat()
}

fn rpc(method: &str, task: &TaskId) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": { "id": task, "metadata": { "x": "x".repeat(80) } } })
}

fn open(test: &mut TestCore, request: &str) -> Key {
    let key = test.core.opened(Peer::SameUser, test.now);
    test.core.received(key, request.as_bytes(), test.now);
    test.turns();
    test.core.greet(key);
    test.turns();
    key
}

/// Every way to watch a task, and how a notice begins in it.
fn streams(test: &mut TestCore, task: &TaskId) -> Vec<(&'static str, Key, &'static str)> {
    const COMMENT: &str = "\n: The task's journal";
    const ERROR: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"#;
    let mut all = vec![
        ("rpc 0.3", open(test, &post("/", rpc("tasks/resubscribe", task))), COMMENT),
        ("rpc 1.0", open(test, &post("/", rpc("SubscribeToTask", task))), COMMENT),
        ("rest 0.3", open(test, &get(&format!("/v1/tasks/{task}:subscribe"))), COMMENT),
        ("rest 1.0", open(test, &get(&format!("/tasks/{task}:subscribe"))), COMMENT),
        ("live session", open(test, &join(&format!("?taskId={task}"), "")), r#"{"kind":"CONSOLE_LOG","level":"error""#),
        (
            "own",
            open(test, &join(&format!("?taskId={task}"), "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n")),
            r#"{"problem":{"message":"#,
        ),
    ];
    for (name, method) in [("a2a.v0.3", "tasks/resubscribe"), ("a2a.v1.0", "SubscribeToTask")] {
        let key = open(test, &join("", &format!("Sec-WebSocket-Protocol: {name}\r\n")));
        test.core.received(key, &framed(&rpc(method, task)), test.now);
        test.turns();
        all.push((name, key, ERROR));
    }
    all
}

/// The output that waits for a connection, without the heads of frames, which are no text.
fn taken(test: &mut TestCore, key: Key) -> String {
    let slices = test.core.slices(key);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    test.core.sent(key, bytes.len(), test.now);
    String::from_utf8_lossy(&bytes).into_owned()
}

const NOTICE: &str = "journal cannot be written: the disk is told to refuse. Events wait until it can be";

#[test]
fn streams_of_every_dialect_get_one_notice_of_a_full_disk_and_continue() {
    let mut test = TestCore::new();
    test.core.settings.switches.plain_stream = crate::a2a::PlainStream::Pieces;
    let task = test.begin(Dialect::RPC_03, None);
    let early = streams(&mut test, &task);
    let take = |test: &mut TestCore, all: &[(&'static str, Key, &'static str)]| -> Vec<(&'static str, String)> {
        all.iter().map(|(name, key, _)| (*name, taken(test, *key))).collect()
    };
    for (name, text) in take(&mut test, &early) {
        assert!(!text.contains("cannot be written") && text.len() > 100, "{name}: {text}");
    }
    for trouble in ["alpha", "beta"] {
        test.store.fail(Failure::Refused, u32::MAX);
        let job = test.jobs.last().expect("a job").clone();
        test.core.note(Note { job, body: NoteBody::Text(trouble.into()) }, test.now);
        test.turn();
        let late = streams(&mut test, &task);
        for (name, key, begin) in early.iter().chain(&late) {
            let text = taken(&mut test, *key);
            assert!(text.contains(begin) && text.matches(NOTICE).count() == 1, "{name}: {text}");
            assert!(!text.contains(trouble), "{name} was shown what is not recorded: {text}");
            let notice = text.split(begin).nth(1).expect("looked at above");
            assert!(!notice.contains("seq") && !notice.contains("\nid:"), "{name}: a notice has no position: {text}");
        }
        for _ in 0..3 {
            test.later(test.limits.store_retry_ms);
            test.note(NoteBody::Text(format!("{trouble} 2 ")));
        }
        for (name, text) in take(&mut test, &early) {
            assert!(!text.contains("cannot be written"), "{name} was notified again: {text}");
        }
        test.store.fail(Failure::Refused, 0);
        test.later(test.limits.store_retry_ms);
        for (name, text) in take(&mut test, &early) {
            assert_eq!(text.matches(&format!("{trouble} 2")).count(), 3, "{name}: {text}");
            // Plain clients get the last character of the first text with the second one.
            let whole = if name.contains("1.0") { 3 } else { 4 };
            assert_eq!(text.matches(trouble).count(), whole, "{name}: {text}");
        }
        for (_, key, _) in late {
            test.core.close_conn(key, crate::core::Close::Orderly);
        }
    }
}

#[test]
fn a_socket_with_two_subscriptions_of_a_task_gets_one_notice() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, None);
    let key = open(&mut test, &join("", "Sec-WebSocket-Protocol: a2a.v0.3\r\n"));
    for _ in 0..2 {
        test.core.received(key, &framed(&rpc("tasks/resubscribe", &task)), test.now);
    }
    test.store.fail(Failure::Refused, u32::MAX);
    test.note(NoteBody::Text("not recorded".into()));
    assert_eq!(taken(&mut test, key).matches(NOTICE).count(), 1);
}

#[test]
fn streams_of_a_prompt_get_a_notice_that_it_cannot_be_recorded() {
    let message = |task: &TaskId| {
        json!({ "message": { "kind": "message", "role": "user", "messageId": "m", "taskId": task,
            "parts": [{ "kind": "text", "text": "go on" }] } })
    };
    let rpc = |task: &TaskId| json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": message(task) });
    let flat = |task: &TaskId| json!({ "message": "go on", "taskId": task });
    let ways: [&dyn Fn(&TaskId) -> String; 4] = [
        &|task| post("/", rpc(task)),
        &|task| post("/message/stream", flat(task)),
        &|task| post(&format!("/tasks/{task}/execute"), flat(task)),
        &|task| post(&format!("/tasks/{task}/messages/stream"), flat(task)),
    ];
    for way in ways {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        test.store.fail(Failure::Refused, u32::MAX);
        let request = way(&task);
        let key = open(&mut test, &request);
        let text = taken(&mut test, key);
        assert_eq!(text.matches(NOTICE).count(), 1, "{request}: {text}");
        test.store.fail(Failure::Refused, 0);
        test.later(test.limits.store_retry_ms);
        test.end_turn();
        let text = taken(&mut test, key);
        assert!(text.contains("Done.") || text.contains("data: "), "{text}");
        assert!(text.ends_with("0\r\n\r\n"), "the stream came to its end: {text}");
    }
}
