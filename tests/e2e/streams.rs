//! Event streams: readers that stall, resume, or ask for positions that do not exist.

use crate::drive::{Fixture, assert_in_order, seen, task_in};
use crate::support::client::{Event, read_some};
use crate::support::http::Side;
use crate::support::message::{kind_of, prompt, prompt_in, state_of, text_of};
use crate::support::stamp;
use serde_json::json;
use std::net::TcpStream;

/// More chunks than the socket buffers of both sides hold, so that the server cannot write to a client that does not read.
const MANY_CHUNKS: usize = 2_500;

#[test]
fn a_stalled_reader_delays_nobody_and_catches_up() {
    let fixture = Fixture::new();
    let script = format!("HOLD ++ STREAM {MANY_CHUNKS} 0 2500");
    let mut prompting = fixture.client().stream("message/stream", prompt(&script));
    let first = prompting.next().expect("a task");
    let task = task_in(&[first]);
    let watch = || fixture.client().stream("tasks/resubscribe", json!({ "id": task }));
    let (stalled, watching) = (watch(), watch());
    fixture.fake.release();

    // Both streams end while the third client has read nothing.
    let reader = std::thread::spawn(move || watching.collect::<Vec<Event>>());
    let prompted: Vec<Event> = prompting.collect();
    let watched = reader.join().expect("a reader");
    let caught_up: Vec<Event> = stalled.collect();

    assert_in_order(&caught_up);
    // Each stream begins with the task; after that all have the same bodies and positions.
    assert_eq!(seen(&watched[1..]), seen(&caught_up[1..]));
    let tail = &prompted[prompted.len() - (caught_up.len() - 1)..];
    assert_eq!(seen(tail), seen(&caught_up[1..]));
    let chunks: Vec<u64> = caught_up
        .iter()
        .filter(|event| kind_of(event.result()) == "text-content")
        .flat_map(|event| stamp::find(&text_of(event.result())).collect::<Vec<_>>())
        .map(|stamp| stamp.index)
        .collect();
    assert_eq!(chunks, (0..MANY_CHUNKS as u64).collect::<Vec<_>>());
    assert!(caught_up.last().is_some_and(Event::is_final));
}

#[test]
fn every_position_of_a_finished_stream_gives_exactly_its_tail() {
    let fixture = Fixture::new();
    let events = fixture.say("STREAM 200");
    let task = task_in(&events);
    let whole = fixture.whole(&task);
    assert_eq!(seen(&events[1..]), seen(&whole));
    assert_eq!(whole.len(), 202, "the beginning, two hundred chunks, the end");
    for (n, event) in whole.iter().enumerate() {
        let id = event.id.as_deref().expect("an id");
        let tail: Vec<Event> = fixture.client().resume("tasks/resubscribe", json!({ "id": task }), id).collect();
        assert_eq!(seen(&tail), seen(&whole[n + 1..]), "behind {id}");
        assert_eq!(
            tail.iter().filter(|event| event.is_final()).count(),
            usize::from(n + 1 < whole.len()),
            "only the last one ends the stream"
        );
    }
}

#[test]
fn resuming_a_running_stream_continues_with_new_events() {
    let fixture = Fixture::new();
    let script = "STREAM 50 ++ HOLD ++ STREAM 50";
    let mut prompting = fixture.client().stream("message/stream", prompt(script));
    // The positions of the task, of the beginning of its turn and of fifty chunks exist.
    let mut prompted: Vec<Event> = prompting.by_ref().take(52).collect();
    let task = task_in(&prompted);
    let positions: Vec<u64> = (0..50).step_by(7).collect();
    let readers: Vec<_> = positions
        .iter()
        .map(|position| {
            let id = json!({ "id": task });
            let after = position.to_string();
            fixture.client().resume("tasks/resubscribe", id, &after)
        })
        .collect();
    fixture.fake.release();
    prompted.extend(prompting);
    let whole = fixture.whole(&task);
    assert_eq!(seen(&prompted[1..]), seen(&whole));
    for (position, reader) in positions.iter().zip(readers) {
        let tail: Vec<Event> = reader.collect();
        let behind = |event: &&Event| {
            let id: u64 = event.id.as_deref().unwrap_or("").parse().unwrap_or(0);
            id > *position
        };
        let expected: Vec<Event> = whole.iter().filter(behind).cloned().collect();
        assert_eq!(seen(&tail), seen(&expected), "behind {position}");
    }
}

#[test]
fn the_end_of_an_earlier_turn_does_not_end_a_resumed_stream() {
    let fixture = Fixture::new();
    let events = fixture.say("TEXT one");
    let task = task_in(&events);
    for word in ["two", "three"] {
        let script = format!("TEXT {word}");
        fixture.client().call("message/send", prompt_in(&task, &script));
    }
    let whole = fixture.whole(&task);
    let texts: Vec<String> = whole
        .iter()
        .filter(|event| kind_of(event.result()) == "text-content")
        .map(|event| text_of(event.result()))
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let finals: Vec<bool> = whole.iter().map(Event::is_final).collect();
    assert_eq!(finals.iter().filter(|end| **end).count(), 1);
    assert_eq!(finals.last(), Some(&true));
}

#[test]
fn impossible_positions_are_refused() {
    let fixture = Fixture::new();
    let events = fixture.say("TEXT one");
    let task = task_in(&events);
    let ask = |field: &str| -> Vec<Event> {
        fixture.client().resume("tasks/resubscribe", json!({ "id": task }), field).collect()
    };
    // A position beyond the log: the stream begins with a snapshot of the task.
    for future in ["1000000", "18446744073709551615"] {
        let answer = ask(future);
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].result()["kind"], "task");
        assert_eq!(state_of(answer[0].result()), Some("input-required"));
    }
    // An invalid position is refused, because the client would miss events without notice.
    for garbage in ["x", "-1", "1.5", "0x10", "18446744073709551616", "7 8"] {
        let answer = ask(garbage);
        assert_eq!(answer.len(), 1, "{garbage}");
        assert_eq!(answer[0].json["error"]["code"], -32602, "{garbage}");
    }
    // The last position: the stream ends without events.
    let last = events.last().and_then(|event| event.id.clone()).expect("an id");
    assert_eq!(ask(&last), []);
}

#[test]
fn the_position_may_be_in_the_query() {
    let fixture = Fixture::new();
    let events = fixture.say("STREAM 5");
    let task = task_in(&events);
    let whole = fixture.whole(&task);
    let id = whole[2].id.as_deref().expect("an id");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": { "id": task } });
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    let tail: Vec<Event> =
        fixture.client().events("POST", &format!("/?after={id}"), &fields, body.to_string().as_bytes()).collect();
    assert_eq!(seen(&tail), seen(&whole[3..]));
}

#[test]
fn a_silent_stream_is_kept_alive_with_a_comment() {
    let fixture = Fixture::new();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": prompt("HOLD") });
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    let request = fixture.client().bytes("POST", "/", &fields, body.to_string().as_bytes());
    let mut socket = TcpStream::connect(("127.0.0.1", fixture.server.port())).expect("a connection");
    std::io::Write::write_all(&mut socket, &request).expect("a request");
    socket.set_read_timeout(Some(crate::support::PATIENCE)).expect("a patient socket");
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    while !text.windows(9).any(|window| window == b"\n: ping\n\n") {
        let count = read_some(&mut socket, &mut bytes).expect("a comment sooner or later");
        assert_ne!(count, 0, "closed after {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&bytes[..count]);
    }
    fixture.fake.release();
}

#[test]
fn a_connection_is_reused_after_a_stream() {
    let fixture = Fixture::new();
    let client = fixture.client();
    let mut conn = client.raw();
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    for _ in 0..3 {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": prompt("TEXT hi") });
        let request = client.bytes("POST", "/", &fields, body.to_string().as_bytes());
        conn.send(&request).expect("a request");
        let stream = conn.response(Side::Response).expect("a stream");
        assert_eq!(stream.head.field("content-type"), Some("text/event-stream"));
        assert_eq!(stream.head.field("cache-control"), Some("no-cache"));
        assert!(stream.text().contains("\"final\":true"), "{}", stream.text());
        conn.send(&client.bytes("GET", "/health", &[], b"")).expect("a request");
        assert_eq!(conn.response(Side::Response).expect("an answer").status(), 200);
    }
}

/// Each frame is an `id` line and a `data` line.
#[test]
fn stream_frames_byte_for_byte() {
    let fixture = Fixture::new();
    let body = json!({ "jsonrpc": "2.0", "id": "x\"y", "method": "message/stream", "params": prompt("TEXT a\u{2028}\u{1F980}") });
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    let request = fixture.client().bytes("POST", "/", &fields, body.to_string().as_bytes());
    let mut conn = fixture.client().raw();
    conn.send(&request).expect("a request");
    let text = conn.response(Side::Response).expect("a stream").text();
    let frames: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(frames.len(), 4, "{text}");
    for frame in frames {
        let lines: Vec<&str> = frame.split('\n').collect();
        assert_eq!(lines.len(), 2, "{frame}");
        let id = lines[0].strip_prefix("id: ").expect("an id");
        assert!(id.parse::<u64>().is_ok(), "{id}");
        let data = lines[1].strip_prefix("data: ").expect("data");
        let json: serde_json::Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(json["id"], "x\"y");
    }
    assert!(text.contains('\u{1F980}'));
}
