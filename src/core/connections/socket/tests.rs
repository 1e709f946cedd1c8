//! WebSockets: positions, pings, close reasons, and the tasks that they follow.

use crate::a2a::Switches;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::connections::connection::Peer;
use crate::core::disk::page::{Page, Position};
use crate::core::test_core::TestCore;
use crate::core::test_core::core_harness::failing_store::Failure;
use crate::limits::{GREETING_MS, Limits};
use crate::task::call::Disconnect;
use serde_json::{Value, json};

mod followers;
mod lists;
mod turns;

const OWN: &str = "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n";
const A2A_03: &str = "Sec-WebSocket-Protocol: a2a.v0.3\r\n";

fn small(limits: Limits) -> TestCore {
    TestCore::with(limits, Switches::default())
}

/// Takes the output that waits for a connection.
fn taken(test: &mut TestCore, key: Key) -> Vec<u8> {
    let slices = test.core.slices(key);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    test.core.sent(key, bytes.len(), test.now);
    bytes
}

/// The body of the answer to a request over a connection of its own.
fn http(test: &mut TestCore, request: &str, body: &Value) -> String {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let key = test.core.opened(Peer::SameUser, test.now);
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let bytes = [head, body].concat();
    test.core.received(key, bytes.as_bytes(), test.now);
    for _ in 0..8 {
        test.turn();
    }
    let answer = String::from_utf8(taken(test, key)).expect("UTF-8");
    test.core.close_conn(key, crate::core::Close::Orderly);
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

fn join(test: &mut TestCore, query: &str, more: &str) -> Key {
    let key = test.core.opened(Peer::SameUser, test.now);
    let request = format!(
        "GET /ws{query} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    );
    test.core.received(key, request.as_bytes(), test.now);
    test.turns();
    // Without a message it is greeted a moment later.
    test.later(GREETING_MS);
    key
}

/// A message as a client frames it, masked with nothing.
fn framed(message: &Value) -> Vec<u8> {
    // With blanks behind it, because short messages are framed otherwise.
    let text = format!("{:<126}", message.to_string());
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

fn send(test: &mut TestCore, key: Key, messages: &[Value]) {
    let bytes: Vec<u8> = messages.iter().flat_map(framed).collect();
    test.core.received(key, &bytes, test.now);
    test.turns();
}

/// The frames that a socket was sent since the last call: objects, and the reason it was closed with.
fn seen(test: &mut TestCore, key: Key) -> Vec<Value> {
    let bytes = taken(test, key);
    let mut rest = &bytes[..];
    if rest.starts_with(b"HTTP/1.1 101") {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n");
        rest = &rest[end.expect("a whole head") + 4..];
    }
    let mut seen = Vec::new();
    while let [first, length, after @ ..] = rest {
        let (length, after) = match length {
            126 => (u16::from_be_bytes([after[0], after[1]]) as usize, &after[2..]),
            short => (*short as usize, after),
        };
        let (payload, next) = after.split_at(length);
        match first {
            0x81 => seen.push(serde_json::from_slice(payload).expect("JSON")),
            0x88 => seen.push(json!(String::from_utf8_lossy(&payload[2..]))),
            0x89 => {}
            other => panic!("an unexpected frame: {other:#x}"),
        }
        rest = next;
    }
    seen
}

/// Padded, so that its frame has always the same kind of head.
fn rpc(id: u64, method: &str, mut params: Value) -> Value {
    params["metadata"] = json!({ "padding": "x".repeat(100) });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn prompt(id: u64, method: &str, text: &str) -> Value {
    let parts = json!([{ "kind": "text", "text": text }]);
    let message = json!({ "kind": "message", "role": "user", "messageId": "m", "parts": parts });
    rpc(id, method, json!({ "message": message }))
}

fn own(call: Value) -> Value {
    json!({ "id": 1, "call": call, "padding": "x".repeat(100) })
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// The positions a socket was shown of a task.
fn positions(seen: &[Value], task: &TaskId) -> Vec<u64> {
    let shown = seen.iter().filter(|seen| text(seen, "task") == task.as_str());
    shown.filter_map(|seen| seen["seq"].as_u64()).collect()
}

fn begin(test: &mut TestCore) -> TaskId {
    test.begin(crate::a2a::Dialect::RPC_03, None)
}

#[test]
fn a_socket_that_would_exceed_the_limit_of_subscriptions_is_closed_with_a_reason() {
    let mut test = small(Limits { subs: 2, ..Limits::default() });
    for _ in 0..3 {
        begin(&mut test);
    }
    let socket = join(&mut test, "?taskId=*", OWN);
    let seen = seen(&mut test, socket);
    let last = seen.last().and_then(Value::as_str);
    assert_eq!(last, Some("too much is watched already: connect again later"));
    assert_eq!(test.core.readers.len(), 0);
}

#[test]
fn a_socket_with_all_its_calls_under_way_is_not_read_from() {
    let mut test = small(Limits { socket_calls: 2, ..Limits::default() });
    let socket = join(&mut test, "", A2A_03);
    let mut sent = 0;
    while test.core.room(socket) > 0 && sent < 1_000 {
        sent += 1;
        send(&mut test, socket, &[prompt(sent, "message/send", "go")]);
    }
    assert!(sent < 1_000, "it took everything");
    assert_eq!(test.jobs.len(), 2, "two calls are under way");
    // It cannot be heard, so its silence says nothing.
    for _ in 0..5 {
        test.later(test.limits.socket_ping_ms);
        seen(&mut test, socket);
    }
    test.end_turn();
    let answered = seen(&mut test, socket);
    assert_eq!(answered.len(), 1, "{answered:#?}");
    assert_eq!(test.jobs.len(), 3, "the next one is under way");
}

#[test]
fn calls_that_wait_for_a_task_count_as_under_way() {
    let mut test = small(Limits { socket_calls: 2, ..Limits::default() });
    let task = begin(&mut test);
    test.end_turn();
    test.restart();
    let socket = join(&mut test, "", A2A_03);
    let get = |id| framed(&rpc(id, "tasks/get", json!({ "id": task })));
    let bytes: Vec<u8> = (1..=5).flat_map(get).collect();
    test.core.received(socket, &bytes, test.now);
    let calls = |test: &TestCore| test.core.connections.get(socket).expect("it is there").calls;
    assert_eq!((test.core.disk.loading.len(), calls(&test)), (1, 2));
    test.turns();
    test.turns();
    let ids: Vec<Value> = seen(&mut test, socket).iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
}

#[test]
fn one_socket_can_watch_any_number_of_tasks_each_once() {
    let mut test = small(Limits { socket_calls: 2, ..Limits::default() });
    let tasks: Vec<TaskId> = (0..3).map(|_| begin(&mut test)).collect();
    let socket = join(&mut test, "", OWN);
    for task in &tasks {
        send(&mut test, socket, &[own(json!({ "watch": { "task": task } }))]);
    }
    let upto = test.state(&tasks[0]).seq;
    let again = json!({ "watch": { "task": tasks[0], "after": upto } });
    send(&mut test, socket, &[own(again)]);
    for task in &tasks {
        test.cancel(task);
    }
    let seen = seen(&mut test, socket);
    for task in &tasks {
        let all: Vec<u64> = (1..=test.state(task).seq.0).collect();
        assert_eq!(positions(&seen, task), all);
        let readers = test.core.tasks[task].subs.len();
        assert_eq!(readers, 0, "it is over, and nobody waits for more");
    }
}

#[test]
fn the_answer_to_watch_comes_before_the_events() {
    let mut test = TestCore::new();
    let task = begin(&mut test);
    let socket = join(&mut test, "", OWN);
    seen(&mut test, socket);
    let watch = |test: &mut TestCore, after: Value| {
        let watch = json!({ "watch": { "task": task, "after": after } });
        send(test, socket, &[own(watch)]);
        let seen = seen(test, socket);
        (seen[0].clone(), positions(&seen, &task))
    };
    let ok = |after: u64, last: u64| json!({"id": 1, "ok": {"taskId": task, "after": after, "seq": last}});
    let upto = test.state(&task).seq.0;
    for (after, begins) in [(json!(null), 0), (json!(1), 1), (json!(upto), upto), (json!(upto + 1), 0)] {
        let behind: Vec<u64> = (begins + 1..=upto).collect();
        assert_eq!(watch(&mut test, after), (ok(begins, upto), behind));
    }
    test.cancel(&task);
    seen(&mut test, socket);
    let upto = test.state(&task).seq.0;
    assert_eq!(watch(&mut test, json!(upto)), (ok(upto, upto), vec![]), "it is over");
}

#[test]
fn the_name_of_a_client_comes_from_its_request() {
    for (query, head, name) in [
        ("?client=alice", "User-Agent: curl/8.1 (linux)\r\n", "alice"),
        ("", "User-Agent: curl/8.1 (linux)\r\n", "curl/8.1"),
        ("", "", "a client"),
    ] {
        let mut test = TestCore::new();
        let socket = join(&mut test, query, head);
        send(&mut test, socket, &[prompt(1, "message/stream", "hi")]);
        let seen = seen(&mut test, socket);
        let said: Vec<&Value> =
            seen.iter().filter(|seen| text(seen, "kind") == "USER_MESSAGE").map(|seen| &seen["source"]).collect();
        assert_eq!(said, [&json!({"client": name, "via": "session"})]);
    }
}

#[test]
fn a_slow_socket_can_continue_at_the_position_in_its_close_reason() {
    let mut test = TestCore::new();
    let socket = join(&mut test, "", "");
    let session = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    taken(&mut test, socket);
    test.say(&session);
    let shown = test.state(&session).seq;
    test.later(test.limits.stall_ms + 1);
    let place = format!("?after={session}:{shown}");
    let reason = format!("too slow: connect again with {place}");
    let mut close = 1013u16.to_be_bytes().to_vec();
    close.extend(reason.as_bytes());
    let bytes = taken(&mut test, socket);
    assert!(bytes.ends_with(&close), "{}", String::from_utf8_lossy(&bytes));
    // Without the session's name it is a place in the present one.
    let behind = [place, format!("?after={shown}")].map(|place| join(&mut test, &place, ""));
    test.end_turn();
    test.turns();
    let upto = test.state(&session).seq.0;
    for socket in behind {
        let seen = seen(&mut test, socket);
        let shown_now: Vec<u64> = seen.iter().filter_map(|seen| seen["seq"].as_u64()).collect();
        assert!(shown_now.iter().all(|seq| *seq > shown.0), "{shown_now:?}");
        assert_eq!(shown_now.last(), Some(&upto));
    }
}

#[test]
fn a_silent_socket_gets_pings_and_is_closed_without_pongs() {
    const PING: [u8; 2] = [0x89, 0];
    const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];
    let mut test = TestCore::new();
    let socket = join(&mut test, "", "");
    taken(&mut test, socket);
    for _ in 0..5 {
        test.later(test.limits.socket_ping_ms);
        assert_eq!(taken(&mut test, socket), PING);
        test.core.received(socket, &PONG, test.now);
    }
    for _ in 0..3 {
        test.later(test.limits.socket_ping_ms);
        assert_eq!(taken(&mut test, socket), PING, "it is not given up at once");
    }
    test.later(test.limits.socket_ping_ms);
    assert!(test.core.connections.get(socket).is_none(), "nobody is there");
}

#[test]
fn a_position_behind_the_end_of_the_log_is_answered_with_a_snapshot() {
    let mut test = TestCore::new();
    let first = join(&mut test, "", "");
    let session = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    seen(&mut test, first);
    let socket = join(&mut test, &format!("?after={session}:999999999999"), "");
    let seen = seen(&mut test, socket);
    assert_eq!(kinds(&seen), [("STATE_CHANGE", session.as_str(), 1)]);
    assert_eq!(test.state(&session).seq, Seq(1), "and it rests");
}

/// What a socket of the session was shown, in short.
fn kinds(seen: &[Value]) -> Vec<(&str, &str, u64)> {
    let seen = seen.iter();
    seen.map(|seen| {
        let seq = seen["seq"].as_u64().unwrap_or_default();
        (text(seen, "kind"), text(seen, "taskId"), seq)
    })
    .collect()
}

#[test]
fn a_position_in_the_session_is_resumed_and_one_in_a_former_session_is_not() {
    let mut test = TestCore::new();
    let ann = join(&mut test, "", "");
    send(&mut test, ann, &[prompt(1, "message/stream", "go")]);
    test.end_turn();
    let first = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    let all = seen(&mut test, ann);
    let all: Vec<Value> = all.into_iter().filter(|seen| seen["kind"] != Value::Null).collect();
    let half = all[0]["seq"].as_u64().expect("a place");
    let bob = join(&mut test, &format!("?after={first}:{half}"), "");
    assert_eq!(seen(&mut test, bob), all[1..]);

    // Another session takes its place, and comes further than the first one.
    test.cancel(&first);
    send(&mut test, ann, &[prompt(2, "message/stream", "anew")]);
    test.end_turn();
    test.say(&test.core.tasks.live_session(&Default::default()).cloned().expect("a session"));
    let second = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    let now = test.state(&second).seq;
    assert!(first != second && now > Seq(half));
    let carl = join(&mut test, &format!("?after={first}:{half}"), "");
    let shown = seen(&mut test, carl);
    assert_eq!(kinds(&shown), [("STATE_CHANGE", second.as_str(), now.0)]);
    // What happens from now on is seen by all alike.
    for socket in [ann, bob] {
        seen(&mut test, socket);
    }
    test.end_turn();
    let news = seen(&mut test, ann);
    assert!(!news.is_empty());
    for socket in [bob, carl] {
        assert_eq!(seen(&mut test, socket), news);
    }
    // The former one can still be read to its end.
    let dora = join(&mut test, &format!("?taskId={first}&after={half}"), "");
    let rest = seen(&mut test, dora);
    assert_eq!(rest[..all.len() - 1], all[1..]);
    assert_eq!(text(rest.last().expect("its end"), "state"), "canceled");
}

#[test]
fn a_position_in_an_unknown_task_is_answered_with_a_snapshot() {
    let mut test = TestCore::new();
    for (sub_protocol, shown) in [("", "STATE_CHANGE"), (OWN, "")] {
        let socket = join(&mut test, "?after=former:7", sub_protocol);
        let session = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
        let seen = seen(&mut test, socket);
        match shown {
            // Records begin with the first one.
            "" => assert_eq!(positions(&seen, &session), [1]),
            shown => assert_eq!(kinds(&seen), [(shown, session.as_str(), 1)]),
        }
    }
}

#[test]
fn a_socket_that_follows_the_next_session_gets_records_when_it_watches_or_one_begins() {
    let mut test = TestCore::new();
    join(&mut test, "", OWN);
    let first = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    let socket = join(&mut test, "?taskId=next", OWN);
    assert!(seen(&mut test, socket).is_empty());
    send(&mut test, socket, &[json!({"id": 1, "call": {"watch": {"task": first}}})]);
    assert_eq!(positions(&seen(&mut test, socket)[1..], &first), [1], "the answer comes first");
    let other = join(&mut test, "", OWN);
    send(&mut test, other, &[json!({"id": 1, "call": {"session": {"new": true}}})]);
    let next = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    assert_ne!(next, first);
    assert_eq!(positions(&seen(&mut test, socket), &next), [1]);
}

#[test]
fn closing_a_socket_aborts_the_turn_that_only_its_client_waits_for() {
    let mut test = TestCore::new();
    test.core.settings.request_policy.disconnect = Disconnect::Aborts;
    let socket = join(&mut test, "", A2A_03);
    let mut prompt = prompt(1, "message/stream", "go");
    prompt["params"]["metadata"] = json!({ "coderAgent": {} });
    send(&mut test, socket, &[prompt]);
    let job = test.jobs.last().expect("the model is at work").clone();
    assert!(test.core.tasks[&job.task].is_open());
    test.core.close_try_later(socket, "connect again later", test.now);
    test.turns();
    assert!(!test.core.tasks[&job.task].is_open());
}

#[test]
fn a_socket_whose_log_is_damaged_gets_the_error_and_is_closed() {
    let mut test = TestCore::new();
    let task = begin(&mut test);
    test.end_turn();
    let socket = join(&mut test, &format!("?taskId={task}"), "");
    taken(&mut test, socket);
    let sub = test.core.connections.get(socket).expect("it is there").subs[0];
    let reader = test.core.readers.get_mut(sub).expect("it follows");
    reader.cursor = Seq(0);
    test.core.readers.pump_later(&[sub]);
    test.core.release(test.now);
    test.core.out.clear();
    let damage = Some("the journal is damaged".into());
    let page = Page { frames: Default::default(), next: Position::default(), damage };
    test.core.paged(sub, Ok(page), test.now);
    test.turns();
    let seen = seen(&mut test, socket);
    assert!(text_of_last(&seen).starts_with("the journal is damaged"), "{seen:?}");
    assert!(test.core.connections.get(socket).is_none());
}

#[test]
fn a_stalled_socket_is_closed_with_the_position_to_continue_from() {
    let mut test = TestCore::new();
    let task = begin(&mut test);
    test.end_turn();
    let session = join(&mut test, "", "");
    let one = join(&mut test, &format!("?taskId={task}"), "");
    let every = join(&mut test, "?taskId=*", "");
    let live = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    send(&mut test, session, &[prompt(1, "message/stream", "go")]);
    let (at_live, at_task) = (test.state(&live).seq, test.state(&task).seq);
    for (socket, reason) in [
        (session, format!("?after={live}:{at_live}")),
        (one, format!("the same taskId and after={at_task}")),
        (every, String::new()),
    ] {
        test.core.close_slow_socket(socket, test.now);
        let seen = seen(&mut test, socket);
        let last = text_of_last(&seen);
        let with = if reason.is_empty() { "" } else { " with " };
        assert_eq!(last, format!("too slow: connect again{with}{reason}"));
    }
}

fn text_of_last(seen: &[Value]) -> &str {
    seen.last().and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn an_editor_that_sends_initialize_after_the_greeting_is_served() {
    let mut test = TestCore::new();
    let other = join(&mut test, "", "");
    send(&mut test, other, &[prompt(1, "message/stream", "go")]);
    let key = join(&mut test, "", "");
    assert!(!seen(&mut test, key).is_empty(), "it was greeted with the turn that is under way");
    // It does not know what it was sent, and says so.
    let complaint = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "Invalid request" } });
    send(&mut test, key, &[complaint]);
    assert_eq!(seen(&mut test, key), [Value::Null; 0], "a complaint is not answered");
    send(&mut test, key, &[rpc(1, "initialize", json!({ "protocolVersion": 1 }))]);
    let answer = seen(&mut test, key);
    assert_eq!((&answer[0]["id"], &answer[0]["result"]["protocolVersion"]), (&json!(1), &json!(1)), "{answer:?}");
    // What comes later is a message as any other.
    let key = join(&mut test, "", "");
    send(&mut test, key, &[rpc(1, "tasks/get", json!({ "id": "t" }))]);
    seen(&mut test, key);
    send(&mut test, key, &[rpc(2, "initialize", json!({ "protocolVersion": 1 }))]);
    assert_eq!(seen(&mut test, key)[0]["error"]["code"], -32601);
}
