use crate::a2a::Dialect;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::connections::connection::Peer;
use crate::core::disk::store::{Archive, fold};
use crate::core::rig::Rig;
use crate::core::rig::harness::failing_store::Failure;
use crate::task::call::{Call, Mode, Say};
use crate::task::log::event::Protocol;
use crate::task::machine::decide::Input;
use crate::task::machine::job::{JobId, Note, NoteBody};
use crate::task::machine::state::TaskState;
use serde_json::{Value, json};

/// The status, and what is wrong.
fn health(rig: &mut Rig) -> [Value; 2] {
    let health = rig.ask(Dialect::GEMINI, Call::Health);
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
fn a_task_that_could_not_be_begun_makes_it_unwell_until_a_trial_succeeds() {
    let mut rig = Rig::new();
    assert_eq!(health(&mut rig), well());
    // One for the task, two for trials.
    rig.store.fail(Failure::Refused, 3);
    rig.ask(Dialect::GEMINI, Call::Session);
    for _ in 0..3 {
        assert_eq!(health(&mut rig), unwell());
        rig.later(rig.limits.store_retry_ms);
    }
    assert_eq!(health(&mut rig), well(), "nobody else has written");
}

#[test]
fn a_waiting_journal_keeps_the_problem_reported_whatever_a_probe_finds() {
    let mut rig = Rig::new();
    let task = rig.begin(Dialect::RPC_03, None);
    rig.store.fail(Failure::Torn, 2);
    let _ = rig.core.drive(&task, Input::Cancel, rig.now);
    for _ in 0..2 {
        rig.turns();
        assert_eq!(health(&mut rig), unwell());
        rig.later(rig.limits.store_retry_ms);
    }
    assert_eq!(health(&mut rig), well());
}

#[test]
fn a_disk_that_was_full_before_is_found_out_at_the_start() {
    let mut rig = Rig::new();
    rig.store.fail(Failure::Refused, 1);
    rig.core.input(crate::core::Input::Listed(rig.store.known()), rig.now);
    rig.turns();
    assert_eq!(health(&mut rig), unwell());
    rig.later(rig.limits.store_retry_ms);
    assert_eq!(health(&mut rig), well());
}

// A task whose journal cannot be written.

/// A task at work with events that the disk refuses, and the job that works for it.
fn stuck() -> (Rig, TaskId, JobId) {
    let mut rig = Rig::new();
    let task = rig.begin(Dialect::RPC_03, None);
    let job = rig.jobs.last().expect("a job").clone();
    rig.store.fail(Failure::Refused, u32::MAX);
    rig.note(NoteBody::Text("not recorded".into()));
    assert!(rig.core.tasks[&task].shown() < rig.state(&task).seq);
    (rig, task, job)
}

/// What one turn of the loop answers a call with.
fn answered_in_a_turn(rig: &mut Rig, dialect: &'static Dialect, call: Call) -> String {
    let conn = rig.begin_ask(dialect, call);
    rig.turn();
    let text = rig.take(conn);
    rig.core.close_conn(conn, crate::core::Close::Orderly);
    text
}

fn on_disk(rig: &mut Rig, task: &TaskId) -> TaskState {
    let file = rig.store.open(task).expect("a log");
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
        let (mut rig, task, job) = stuck();
        let told = answered_in_a_turn(&mut rig, dialect, Call::Cancel { task: task.clone() });
        assert_eq!(rig.stops, [job], "{dialect:?}");
        assert!(told.contains(STOPPED), "{dialect:?}: {told}");
        // The same again: nothing more to stop, and not taken for a mistake of the caller.
        let told = answered_in_a_turn(&mut rig, dialect, Call::Cancel { task: task.clone() });
        assert!(told.contains(STOPPED), "{dialect:?}: {told}");
        assert_eq!(rig.stops.len(), 1);
        assert_eq!(on_disk(&mut rig, &task), TaskState::Working, "nothing of it is recorded");
        // It is recorded when the disk takes it, by itself.
        rig.store.fail(Failure::Refused, 0);
        rig.later(rig.limits.store_retry_ms);
        assert_eq!(on_disk(&mut rig, &task), TaskState::Canceled, "{dialect:?}");
    }
}

#[test]
fn cancel_is_answered_as_usual_when_the_disk_has_space_again() {
    let (mut rig, task, job) = stuck();
    rig.store.fail(Failure::Refused, 0);
    // The next try is not due yet: the call does not wait for it.
    let told = answered_in_a_turn(&mut rig, Dialect::RPC_03, Call::Cancel { task: task.clone() });
    assert!(told.contains(r#""state":"canceled""#), "{told}");
    assert_eq!((rig.stops.clone(), on_disk(&mut rig, &task)), (vec![job], TaskState::Canceled));
}

#[test]
fn cancel_that_meets_a_failing_disk_first_stops_jobs_too() {
    let mut rig = Rig::new();
    let task = rig.begin(Dialect::RPC_03, None);
    let job = rig.jobs.last().expect("a job").clone();
    rig.store.fail(Failure::Torn, u32::MAX);
    let told = answered_in_a_turn(&mut rig, Dialect::REST_10, Call::Cancel { task: task.clone() });
    assert!(told.contains("The task was stopped, but"), "{told}");
    assert_eq!(rig.stops, [job]);
}

#[test]
fn tries_to_write_do_not_multiply_with_cancels() {
    let (mut rig, task, _) = stuck();
    for _ in 0..5 {
        answered_in_a_turn(&mut rig, Dialect::RPC_10, Call::Cancel { task: task.clone() });
    }
    let timers = rig.core.timers.len();
    for _ in 0..5 {
        rig.later(rig.limits.store_retry_ms);
    }
    assert_eq!(rig.core.timers.len(), timers);
}

#[test]
fn aborting_a_turn_stops_jobs_although_the_disk_is_full() {
    let (mut rig, task, job) = stuck();
    let turn = rig.state(&task).turn.number;
    rig.core.drive(&task, Input::Disconnected { turn }, rig.now).expect("never refused");
    rig.turn();
    assert_eq!(rig.stops, [job]);
    rig.store.fail(Failure::Refused, 0);
    rig.later(rig.limits.store_retry_ms);
    assert_eq!(on_disk(&mut rig, &task), TaskState::InputRequired);
}

#[test]
fn a_cancel_that_was_never_recorded_starts_nothing_after_a_restart() {
    let (mut rig, task, _) = stuck();
    rig.cancel(&task);
    rig.restart();
    assert_eq!(rig.jobs, []);
    assert_eq!(on_disk(&mut rig, &task), TaskState::InputRequired, "the turn was cut off");
    rig.later(rig.limits.store_retry_ms);
    assert_eq!(rig.jobs, []);
}

#[test]
fn calls_that_wait_for_the_disk_are_answered_with_what_became_of_them() {
    let say = |task: &TaskId, mode| {
        Call::Say(Say { task: Some(task.clone()), mode, ..crate::core::rig::say("more", Protocol::V03) })
    };
    for mode in [Mode::Wait, Mode::Now] {
        let mut rig = Rig::new();
        let task = rig.begin(Dialect::RPC_03, None);
        rig.end_turn();
        rig.store.fail(Failure::Refused, u32::MAX);
        let told = answered_in_a_turn(&mut rig, Dialect::RPC_03, say(&task, mode));
        assert!(told.contains("Do not send it again"), "{told}");
        let told = answered_in_a_turn(&mut rig, Dialect::RPC_03, say(&task, mode));
        assert!(told.contains("Nothing of this request was accepted"), "{told}");
        let get = Call::Get { task: task.clone(), history: None };
        let told = answered_in_a_turn(&mut rig, Dialect::RPC_03, get);
        assert!(told.contains("ask again later"), "{told}");
        let turn = rig.state(&task).turn.number;
        rig.store.fail(Failure::Refused, 0);
        rig.later(rig.limits.store_retry_ms);
        assert_eq!(rig.state(&task).turn.number, turn, "the prompt was taken once");
        assert_eq!(rig.jobs.len(), 2, "its turn has begun");
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

fn open(rig: &mut Rig, request: &str) -> Key {
    let key = rig.core.opened(Peer::SameUser, rig.now);
    rig.core.received(key, request.as_bytes(), rig.now);
    rig.turns();
    key
}

/// Every way to watch a task, and how a notice begins in it.
fn streams(rig: &mut Rig, task: &TaskId) -> Vec<(&'static str, Key, &'static str)> {
    const COMMENT: &str = "\n: The task's journal";
    const ERROR: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"#;
    let mut all = vec![
        ("rpc 0.3", open(rig, &post("/", rpc("tasks/resubscribe", task))), COMMENT),
        ("rpc 1.0", open(rig, &post("/", rpc("SubscribeToTask", task))), COMMENT),
        ("rest 0.3", open(rig, &get(&format!("/v1/tasks/{task}:subscribe"))), COMMENT),
        ("rest 1.0", open(rig, &get(&format!("/tasks/{task}:subscribe"))), COMMENT),
        ("live session", open(rig, &join(&format!("?taskId={task}"), "")), r#"{"kind":"CONSOLE_LOG","level":"error""#),
        (
            "own",
            open(rig, &join(&format!("?taskId={task}"), "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n")),
            r#"{"problem":{"message":"#,
        ),
    ];
    for (name, method) in [("a2a.v0.3", "tasks/resubscribe"), ("a2a.v1.0", "SubscribeToTask")] {
        let key = open(rig, &join("", &format!("Sec-WebSocket-Protocol: {name}\r\n")));
        rig.core.received(key, &framed(&rpc(method, task)), rig.now);
        rig.turns();
        all.push((name, key, ERROR));
    }
    all
}

/// What waits for a connection, without the frames' heads that are no text.
fn taken(rig: &mut Rig, key: Key) -> String {
    let slices = rig.core.slices(key);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    rig.core.sent(key, bytes.len(), rig.now);
    String::from_utf8_lossy(&bytes).into_owned()
}

const TOLD: &str = "journal cannot be written: the disk is told to refuse. Events wait until it can be";

#[test]
fn streams_of_every_dialect_get_one_notice_of_a_full_disk_and_continue() {
    let mut rig = Rig::new();
    rig.core.settings.switches.plain_stream = crate::a2a::PlainStream::Pieces;
    let task = rig.begin(Dialect::RPC_03, None);
    let early = streams(&mut rig, &task);
    let take = |rig: &mut Rig, all: &[(&'static str, Key, &'static str)]| -> Vec<(&'static str, String)> {
        all.iter().map(|(name, key, _)| (*name, taken(rig, *key))).collect()
    };
    for (name, text) in take(&mut rig, &early) {
        assert!(!text.contains("cannot be written") && text.len() > 100, "{name}: {text}");
    }
    for trouble in ["alpha", "beta"] {
        rig.store.fail(Failure::Refused, u32::MAX);
        let job = rig.jobs.last().expect("a job").clone();
        rig.core.note(Note { job, body: NoteBody::Text(trouble.into()) }, rig.now);
        rig.turn();
        let late = streams(&mut rig, &task);
        for (name, key, begin) in early.iter().chain(&late) {
            let text = taken(&mut rig, *key);
            assert!(text.contains(begin) && text.matches(TOLD).count() == 1, "{name}: {text}");
            assert!(!text.contains(trouble), "{name} was shown what is not recorded: {text}");
            let notice = text.split(begin).nth(1).expect("looked at above");
            assert!(!notice.contains("seq") && !notice.contains("\nid:"), "{name}: a notice has no position: {text}");
        }
        for _ in 0..3 {
            rig.later(rig.limits.store_retry_ms);
            rig.note(NoteBody::Text(format!("{trouble} 2 ")));
        }
        for (name, text) in take(&mut rig, &early) {
            assert!(!text.contains("cannot be written"), "{name} was told again: {text}");
        }
        rig.store.fail(Failure::Refused, 0);
        rig.later(rig.limits.store_retry_ms);
        for (name, text) in take(&mut rig, &early) {
            assert_eq!(text.matches(&format!("{trouble} 2")).count(), 3, "{name}: {text}");
            // Plain clients get the last character of the first text with the second one.
            let whole = if name.contains("1.0") { 3 } else { 4 };
            assert_eq!(text.matches(trouble).count(), whole, "{name}: {text}");
        }
        for (_, key, _) in late {
            rig.core.close_conn(key, crate::core::Close::Orderly);
        }
    }
}

#[test]
fn a_socket_with_two_subscriptions_of_a_task_gets_one_notice() {
    let mut rig = Rig::new();
    let task = rig.begin(Dialect::RPC_03, None);
    let key = open(&mut rig, &join("", "Sec-WebSocket-Protocol: a2a.v0.3\r\n"));
    for _ in 0..2 {
        rig.core.received(key, &framed(&rpc("tasks/resubscribe", &task)), rig.now);
    }
    rig.store.fail(Failure::Refused, u32::MAX);
    rig.note(NoteBody::Text("not recorded".into()));
    assert_eq!(taken(&mut rig, key).matches(TOLD).count(), 1);
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
        let mut rig = Rig::new();
        let task = rig.begin(Dialect::RPC_03, None);
        rig.end_turn();
        rig.store.fail(Failure::Refused, u32::MAX);
        let request = way(&task);
        let key = open(&mut rig, &request);
        let text = taken(&mut rig, key);
        assert_eq!(text.matches(TOLD).count(), 1, "{request}: {text}");
        rig.store.fail(Failure::Refused, 0);
        rig.later(rig.limits.store_retry_ms);
        rig.end_turn();
        let text = taken(&mut rig, key);
        assert!(text.contains("Done.") || text.contains("data: "), "{text}");
        assert!(text.ends_with("0\r\n\r\n"), "the stream came to its end: {text}");
    }
}
