use crate::a2a::Switches;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::connections::connection::Peer;
use crate::core::disk::page::{Page, Position};
use crate::core::rig::Rig;
use crate::core::rig::harness::failing_store::Failure;
use crate::limits::Limits;
use crate::task::call::Disconnect;
use serde_json::{Value, json};

mod lists;
mod turns;

const OWN: &str = "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n";
const A2A_03: &str = "Sec-WebSocket-Protocol: a2a.v0.3\r\n";

fn small(limits: Limits) -> Rig {
    Rig::with(limits, Switches::default())
}

/// What waits for a connection, which takes it.
fn taken(rig: &mut Rig, key: Key) -> Vec<u8> {
    let slices = rig.core.slices(key);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    rig.core.sent(key, bytes.len(), rig.now);
    bytes
}

/// The body of the answer to a request over a connection of its own.
fn http(rig: &mut Rig, request: &str, body: &Value) -> String {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let key = rig.core.opened(Peer::SameUser, rig.now);
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let bytes = [head, body].concat();
    rig.core.received(key, bytes.as_bytes(), rig.now);
    for _ in 0..8 {
        rig.turn();
    }
    let answer = String::from_utf8(taken(rig, key)).expect("UTF-8");
    rig.core.close_conn(key, crate::core::Close::Orderly);
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

fn join(rig: &mut Rig, query: &str, more: &str) -> Key {
    let key = rig.core.opened(Peer::SameUser, rig.now);
    let request = format!(
        "GET /ws{query} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    );
    rig.core.received(key, request.as_bytes(), rig.now);
    rig.turns();
    key
}

/// A message as a client frames it, masked with nothing.
fn framed(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    assert!(text.len() > 125, "short messages are framed otherwise");
    frame
}

fn send(rig: &mut Rig, key: Key, messages: &[Value]) {
    let bytes: Vec<u8> = messages.iter().flat_map(framed).collect();
    rig.core.received(key, &bytes, rig.now);
    rig.turns();
}

/// What a socket was sent since the last look: objects, and the reason it was closed with.
fn seen(rig: &mut Rig, key: Key) -> Vec<Value> {
    let bytes = taken(rig, key);
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

fn begin(rig: &mut Rig) -> TaskId {
    rig.begin(crate::a2a::Dialect::RPC_03, None)
}

#[test]
fn a_follower_of_all_lets_go_of_a_task_only_when_it_has_seen_what_the_disk_is_late_with() {
    let mut rig = Rig::new();
    let socket = join(&mut rig, "?taskId=*", OWN);
    let task = begin(&mut rig);
    seen(&mut rig, socket);
    let before = rig.state(&task).seq;
    rig.store.fail(Failure::Refused, 1);
    rig.end_turn();
    // Something else wakes the readers while the lines wait.
    rig.core.synced(&task, before, Ok(()), rig.now);
    rig.turns();
    rig.later(rig.limits.store_retry_ms);
    let shown = positions(&seen(&mut rig, socket), &task);
    let all: Vec<u64> = (before.0 + 1..=rig.state(&task).seq.0).collect();
    assert_eq!(shown, all);
}

#[test]
fn a_follower_of_all_sees_each_record_once() {
    let mut rig = Rig::new();
    let socket = join(&mut rig, "?taskId=*", OWN);
    let task = begin(&mut rig);
    rig.end_turn();
    rig.say(&task);
    rig.end_turn();
    let shown = positions(&seen(&mut rig, socket), &task);
    let all: Vec<u64> = (1..=rig.state(&task).seq.0).collect();
    assert_eq!(shown, all);
}

#[test]
fn a_task_that_could_not_be_recorded_is_not_shown_to_followers_of_all() {
    let mut rig = Rig::new();
    let socket = join(&mut rig, "?taskId=*", OWN);
    rig.store.fail(Failure::Refused, 1);
    let refused = http(&mut rig, "POST /", &prompt(1, "message/send", "go"));
    assert!(refused.contains("error"), "{refused}");
    let task = begin(&mut rig);
    let seen = seen(&mut rig, socket);
    let all: Vec<u64> = (1..=rig.state(&task).seq.0).collect();
    assert_eq!(positions(&seen, &task), all);
    assert_eq!(seen.len(), all.len(), "{seen:#?}");
}

#[test]
fn followers_of_the_session_see_its_end_before_the_next_one() {
    let mut rig = Rig::new();
    let ann = join(&mut rig, "", "");
    let bob = join(&mut rig, "", "");
    send(&mut rig, ann, &[prompt(1, "message/stream", "go")]);
    let first = rig.core.tasks.live_session().cloned().expect("a session");
    seen(&mut rig, bob);
    let cancel = rpc(2, "tasks/cancel", json!({ "id": first }));
    send(&mut rig, ann, &[cancel, prompt(3, "message/stream", "anew")]);
    let second = rig.core.tasks.live_session().cloned().expect("a session");
    assert_ne!(first, second);
    for key in [ann, bob] {
        let seen = seen(&mut rig, key);
        let states: Vec<(&str, &str)> = seen
            .iter()
            .filter(|seen| text(seen, "kind") == "STATE_CHANGE")
            .map(|seen| (text(seen, "taskId"), text(seen, "state")))
            .collect();
        assert!(states.contains(&(first.as_str(), "canceled")), "{seen:#?}");
        assert!(states.contains(&(second.as_str(), "working")), "{seen:#?}");
    }
    let left = rig.core.tasks[&first].subs.len();
    assert_eq!(left, 0, "nobody reads the first one any more");
}

#[test]
fn tasks_of_a_tenant_are_not_shown_to_other_tenants() {
    let mut rig = Rig::new();
    let message = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": "go" }] });
    let body = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let answer = http(&mut rig, "POST /acme/message:send", &body);
    assert!(answer.contains("TASK_STATE_"), "{answer}");
    let socket = join(&mut rig, "?taskId=*", "");
    rig.end_turn();
    assert_eq!(seen(&mut rig, socket), [] as [Value; 0]);
    assert_eq!(http(&mut rig, "GET /tasks/metadata", &Value::Null), "");
}

#[test]
fn a_socket_that_would_follow_too_much_is_closed_with_a_reason() {
    let mut rig = small(Limits { subs: 2, ..Limits::default() });
    for _ in 0..3 {
        begin(&mut rig);
    }
    let socket = join(&mut rig, "?taskId=*", OWN);
    let seen = seen(&mut rig, socket);
    let last = seen.last().and_then(Value::as_str);
    assert_eq!(last, Some("too much is watched already: connect again later"));
    assert_eq!(rig.core.readers.len(), 0);
}

#[test]
fn a_socket_with_all_its_calls_under_way_is_not_read_from() {
    let mut rig = small(Limits { socket_calls: 2, ..Limits::default() });
    let socket = join(&mut rig, "", A2A_03);
    let mut sent = 0;
    while rig.core.room(socket) > 0 && sent < 1_000 {
        sent += 1;
        send(&mut rig, socket, &[prompt(sent, "message/send", "go")]);
    }
    assert!(sent < 1_000, "it took everything");
    assert_eq!(rig.jobs.len(), 2, "two calls are under way");
    // It cannot be heard, so its silence says nothing.
    for _ in 0..5 {
        rig.later(rig.limits.socket_ping_ms);
        seen(&mut rig, socket);
    }
    rig.end_turn();
    let answered = seen(&mut rig, socket);
    assert_eq!(answered.len(), 1, "{answered:#?}");
    assert_eq!(rig.jobs.len(), 3, "the next one is under way");
}

#[test]
fn calls_that_wait_for_a_task_are_under_way() {
    let mut rig = small(Limits { socket_calls: 2, ..Limits::default() });
    let task = begin(&mut rig);
    rig.end_turn();
    rig.restart();
    let socket = join(&mut rig, "", A2A_03);
    let get = |id| framed(&rpc(id, "tasks/get", json!({ "id": task })));
    let bytes: Vec<u8> = (1..=5).flat_map(get).collect();
    rig.core.received(socket, &bytes, rig.now);
    let calls = |rig: &Rig| rig.core.connections.get(socket).expect("it is there").calls;
    assert_eq!((rig.core.disk.loading.len(), calls(&rig)), (1, 2));
    rig.turns();
    rig.turns();
    let ids: Vec<Value> = seen(&mut rig, socket).iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
}

#[test]
fn any_number_of_tasks_is_watched_over_one_socket_each_once() {
    let mut rig = small(Limits { socket_calls: 2, ..Limits::default() });
    let tasks: Vec<TaskId> = (0..3).map(|_| begin(&mut rig)).collect();
    let socket = join(&mut rig, "", OWN);
    for task in &tasks {
        send(&mut rig, socket, &[own(json!({ "watch": { "task": task } }))]);
    }
    let upto = rig.state(&tasks[0]).seq;
    let again = json!({ "watch": { "task": tasks[0], "after": upto } });
    send(&mut rig, socket, &[own(again)]);
    for task in &tasks {
        rig.cancel(task);
    }
    let seen = seen(&mut rig, socket);
    for task in &tasks {
        let all: Vec<u64> = (1..=rig.state(task).seq.0).collect();
        assert_eq!(positions(&seen, task), all);
        let readers = rig.core.tasks[task].subs.len();
        assert_eq!(readers, 0, "it is over, and nobody waits for more");
    }
}

#[test]
fn the_answer_to_watch_comes_before_the_events() {
    let mut rig = Rig::new();
    let task = begin(&mut rig);
    let socket = join(&mut rig, "", OWN);
    seen(&mut rig, socket);
    let watch = |rig: &mut Rig, after: Value| {
        let watch = json!({ "watch": { "task": task, "after": after } });
        send(rig, socket, &[own(watch)]);
        let seen = seen(rig, socket);
        (seen[0].clone(), positions(&seen, &task))
    };
    let ok = |after: u64| json!({"id": 1, "ok": {"taskId": task, "after": after}});
    let upto = rig.state(&task).seq.0;
    for (after, begins) in [(json!(null), 0), (json!(1), 1), (json!(upto), upto), (json!(upto + 1), 0)] {
        let behind: Vec<u64> = (begins + 1..=upto).collect();
        assert_eq!(watch(&mut rig, after), (ok(begins), behind));
    }
    rig.cancel(&task);
    seen(&mut rig, socket);
    let upto = rig.state(&task).seq.0;
    assert_eq!(watch(&mut rig, json!(upto)), (ok(upto), vec![]), "it is over");
}

#[test]
fn a_client_is_called_what_it_calls_itself() {
    for (query, head, name) in [
        ("?client=alice", "User-Agent: curl/8.1 (linux)\r\n", "alice"),
        ("", "User-Agent: curl/8.1 (linux)\r\n", "curl/8.1"),
        ("", "", "a client"),
    ] {
        let mut rig = Rig::new();
        let socket = join(&mut rig, query, head);
        send(&mut rig, socket, &[prompt(1, "message/stream", "hi")]);
        let seen = seen(&mut rig, socket);
        let said: Vec<&Value> =
            seen.iter().filter(|seen| text(seen, "kind") == "USER_MESSAGE").map(|seen| &seen["source"]).collect();
        assert_eq!(said, [&json!({"client": name, "via": "session"})]);
    }
}

#[test]
fn a_slow_socket_can_continue_at_the_position_in_its_close_reason() {
    let mut rig = Rig::new();
    let socket = join(&mut rig, "", "");
    let session = rig.core.tasks.live_session().cloned().expect("a session");
    taken(&mut rig, socket);
    rig.say(&session);
    let shown = rig.state(&session).seq;
    rig.later(rig.limits.stall_ms + 1);
    let place = format!("?after={session}:{shown}");
    let reason = format!("too slow: connect again with {place}");
    let mut close = 1013u16.to_be_bytes().to_vec();
    close.extend(reason.as_bytes());
    let bytes = taken(&mut rig, socket);
    assert!(bytes.ends_with(&close), "{}", String::from_utf8_lossy(&bytes));
    // Without the session's name it is a place in the present one.
    let behind = [place, format!("?after={shown}")].map(|place| join(&mut rig, &place, ""));
    rig.end_turn();
    rig.turns();
    let upto = rig.state(&session).seq.0;
    for socket in behind {
        let seen = seen(&mut rig, socket);
        let shown_now: Vec<u64> = seen.iter().filter_map(|seen| seen["seq"].as_u64()).collect();
        assert!(shown_now.iter().all(|seq| *seq > shown.0), "{shown_now:?}");
        assert_eq!(shown_now.last(), Some(&upto));
    }
}

#[test]
fn a_silent_socket_gets_pings_and_is_closed_without_pongs() {
    const PING: [u8; 2] = [0x89, 0];
    const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];
    let mut rig = Rig::new();
    let socket = join(&mut rig, "", "");
    taken(&mut rig, socket);
    for _ in 0..5 {
        rig.later(rig.limits.socket_ping_ms);
        assert_eq!(taken(&mut rig, socket), PING);
        rig.core.received(socket, &PONG, rig.now);
    }
    for _ in 0..3 {
        rig.later(rig.limits.socket_ping_ms);
        assert_eq!(taken(&mut rig, socket), PING, "it is not given up at once");
    }
    rig.later(rig.limits.socket_ping_ms);
    assert!(rig.core.connections.get(socket).is_none(), "nobody is there");
}

#[test]
fn a_position_from_the_future_is_answered_with_the_present() {
    let mut rig = Rig::new();
    let first = join(&mut rig, "", "");
    let session = rig.core.tasks.live_session().cloned().expect("a session");
    seen(&mut rig, first);
    let socket = join(&mut rig, &format!("?after={session}:999999999999"), "");
    let seen = seen(&mut rig, socket);
    assert_eq!(kinds(&seen), [("STATE_CHANGE", session.as_str(), 1)]);
    assert_eq!(rig.state(&session).seq, Seq(1), "and it rests");
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
    let mut rig = Rig::new();
    let ann = join(&mut rig, "", "");
    send(&mut rig, ann, &[prompt(1, "message/stream", "go")]);
    rig.end_turn();
    let first = rig.core.tasks.live_session().cloned().expect("a session");
    let all = seen(&mut rig, ann);
    let all: Vec<Value> = all.into_iter().filter(|seen| seen["kind"] != Value::Null).collect();
    let half = all[0]["seq"].as_u64().expect("a place");
    let bob = join(&mut rig, &format!("?after={first}:{half}"), "");
    assert_eq!(seen(&mut rig, bob), all[1..]);

    // Another session takes its place, and comes further than the first one.
    rig.cancel(&first);
    send(&mut rig, ann, &[prompt(2, "message/stream", "anew")]);
    rig.end_turn();
    rig.say(&rig.core.tasks.live_session().cloned().expect("a session"));
    let second = rig.core.tasks.live_session().cloned().expect("a session");
    let now = rig.state(&second).seq;
    assert!(first != second && now > Seq(half));
    let carl = join(&mut rig, &format!("?after={first}:{half}"), "");
    let told = seen(&mut rig, carl);
    assert_eq!(kinds(&told), [("STATE_CHANGE", second.as_str(), now.0)]);
    // What happens from now on is seen by all alike.
    for socket in [ann, bob] {
        seen(&mut rig, socket);
    }
    rig.end_turn();
    let news = seen(&mut rig, ann);
    assert!(!news.is_empty());
    for socket in [bob, carl] {
        assert_eq!(seen(&mut rig, socket), news);
    }
    // The former one can still be read to its end.
    let dora = join(&mut rig, &format!("?taskId={first}&after={half}"), "");
    let rest = seen(&mut rig, dora);
    assert_eq!(rest[..all.len() - 1], all[1..]);
    assert_eq!(text(rest.last().expect("its end"), "state"), "canceled");
}

#[test]
fn a_position_in_an_unknown_task_is_answered_with_a_snapshot() {
    let mut rig = Rig::new();
    for (sub_protocol, told) in [("", "STATE_CHANGE"), (OWN, "")] {
        let socket = join(&mut rig, "?after=former:7", sub_protocol);
        let session = rig.core.tasks.live_session().cloned().expect("a session");
        let seen = seen(&mut rig, socket);
        match told {
            // Records begin with the first one.
            "" => assert_eq!(positions(&seen, &session), [1]),
            told => assert_eq!(kinds(&seen), [(told, session.as_str(), 1)]),
        }
    }
}

#[test]
fn a_socket_that_is_turned_away_takes_its_own_turn_along() {
    let mut rig = Rig::new();
    rig.core.settings.request_policy.disconnect = Disconnect::Aborts;
    let socket = join(&mut rig, "", A2A_03);
    let mut prompt = prompt(1, "message/stream", "go");
    prompt["params"]["metadata"] = json!({ "coderAgent": {} });
    send(&mut rig, socket, &[prompt]);
    let job = rig.jobs.last().expect("the model is at work").clone();
    assert!(rig.core.tasks[&job.task].is_open());
    rig.core.turn_away(socket, "connect again later", rig.now);
    rig.turns();
    assert!(!rig.core.tasks[&job.task].is_open());
}

#[test]
fn a_socket_whose_log_is_damaged_gets_the_error_and_is_closed() {
    let mut rig = Rig::new();
    let task = begin(&mut rig);
    rig.end_turn();
    let socket = join(&mut rig, &format!("?taskId={task}"), "");
    taken(&mut rig, socket);
    let sub = rig.core.connections.get(socket).expect("it is there").subs[0];
    let reader = rig.core.readers.get_mut(sub).expect("it follows");
    reader.cursor = Seq(0);
    rig.core.readers.pump_later(&[sub]);
    rig.core.release(rig.now);
    rig.core.out.clear();
    let damage = Some("the journal is damaged".into());
    let page = Page { frames: Default::default(), next: Position::default(), damage };
    rig.core.paged(sub, Ok(page), rig.now);
    rig.turns();
    let seen = seen(&mut rig, socket);
    assert!(text_of_last(&seen).starts_with("the journal is damaged"), "{seen:?}");
    assert!(rig.core.connections.get(socket).is_none());
}

#[test]
fn a_stalled_socket_is_closed_with_the_position_to_continue_from() {
    let mut rig = Rig::new();
    let task = begin(&mut rig);
    rig.end_turn();
    let session = join(&mut rig, "", "");
    let one = join(&mut rig, &format!("?taskId={task}"), "");
    let every = join(&mut rig, "?taskId=*", "");
    let live = rig.core.tasks.live_session().cloned().expect("a session");
    send(&mut rig, session, &[prompt(1, "message/stream", "go")]);
    let (at_live, at_task) = (rig.state(&live).seq, rig.state(&task).seq);
    for (socket, reason) in [
        (session, format!("?after={live}:{at_live}")),
        (one, format!("the same taskId and after={at_task}")),
        (every, String::new()),
    ] {
        rig.core.hang_up(socket, rig.now);
        let seen = seen(&mut rig, socket);
        let last = text_of_last(&seen);
        let with = if reason.is_empty() { "" } else { " with " };
        assert_eq!(last, format!("too slow: connect again{with}{reason}"));
    }
}

fn text_of_last(seen: &[Value]) -> &str {
    seen.last().and_then(Value::as_str).unwrap_or_default()
}
