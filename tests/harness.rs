//! Tests of the test harness: the fake model, the client and the child process together, and once with the real server. If one
//! of these fails, the end-to-end tests cannot be relied on.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::client::{Client, Events};
use support::fake::{Counters, FakeGemini};
use support::http::{Message, Side};
use support::message::{prompt, state_of, task_of, text_of};
use support::script::{Answer, Call, Item, answer_to};
use support::server::{Server, Setup};
use support::sse::Sse;
use support::{eventually, stamp};

const GENERATE: &str = "/v1beta/models/some-model:streamGenerateContent?alt=sse";

fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

fn ask(fake: &FakeGemini, script: &str) -> Events {
    let body = json!({ "contents": [user(script)] }).to_string();
    Client::new(&fake.url()).events("POST", GENERATE, &[], body.as_bytes())
}

fn texts(events: Events) -> Vec<String> {
    let text = |json: Value| {
        let text = &json["candidates"][0]["content"]["parts"][0]["text"];
        text.as_str().unwrap_or("").to_string()
    };
    events.map(|event| text(event.json)).collect()
}

#[test]
fn a_message_is_parsed_the_same_in_any_pieces() {
    let wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";
    for size in 1..wire.len() {
        let mut message = Message::new(Side::Response);
        let mut body = vec![];
        for piece in wire.chunks(size) {
            message.feed(piece, &mut body).expect("a good message");
        }
        assert!(message.is_done(), "in pieces of {size}");
        assert_eq!(String::from_utf8_lossy(&body), "hello world", "in pieces of {size}");
    }
}

#[test]
fn events_are_parsed_the_same_in_any_pieces() {
    let wire = ": ping\n\nid: 7\ndata: one\n\nevent: error\r\ndata: two\r\ndata: lines\r\n\r\n";
    let expected =
        [(Some("7".to_string()), None, "one".to_string()), (None, Some("error".to_string()), "two\nlines".to_string())];
    for size in 1..wire.len() {
        let mut sse = Sse::default();
        let mut seen = vec![];
        for piece in wire.as_bytes().chunks(size) {
            sse.input().extend_from_slice(piece);
            let drained = sse.drain(|frame| {
                let id = frame.id.map(str::to_string);
                seen.push((id, frame.name.map(str::to_string), frame.data.into_owned()));
            });
            drained.expect("UTF-8");
        }
        assert_eq!(seen, expected, "in pieces of {size}");
    }
}

#[test]
fn the_newest_script_and_the_tool_results_after_it_pick_the_answer() {
    let result = json!({ "role": "user", "parts": [{ "functionResponse": { "name": "x" } }] });
    let request = json!({ "contents": [
        user("TEXT old"),
        { "role": "model", "parts": [{ "text": "TEXT not a user" }] },
        user("some context\nTHINK a | b ++ CALL look {\"at\":1} ;; TEXT second"),
        { "role": "model", "parts": [] },
        result,
    ] });
    let line = "THINK a | b ++ CALL look {\"at\":1} ;; TEXT second";
    let second = Answer::Items(vec![Item::Text("second".into())]);
    assert_eq!(answer_to(&request), (line.to_string(), second));

    let first = Answer::Items(vec![
        Item::Think { subject: "a".into(), description: "b".into() },
        Item::Calls(vec![Call { name: "look".into(), args: json!({ "at": 1 }), signature: None, id: None }]),
    ]);
    assert_eq!(answer_to(&json!({ "contents": [user(line)] })), (line.to_string(), first));
}

#[test]
fn a_stream_is_stamped_in_order_and_counted() {
    let fake = FakeGemini::start();
    let seen = texts(ask(&fake, "STREAM 3 100 8"));
    let stamps: Vec<u64> = seen.iter().flat_map(|t| stamp::find(t)).map(|s| s.index).collect();
    assert_eq!(stamps, [0, 1, 2]);
    let expected = Counters { requests: 1, open: 0, finished: 1, broken: 0 };
    eventually("the stream to be counted", || (fake.counters() == expected).then_some(()));
    assert_eq!(fake.turns().len(), 1);
    assert_eq!(fake.requests()[0].roles(), ["user"]);
}

#[test]
fn an_error_is_repeated_as_often_as_scripted() {
    let fake = FakeGemini::start();
    let status = || ask(&fake, "ERR503 2").head().status();
    assert_eq!([status(), status(), status()], [503, 503, 200]);
}

#[test]
fn a_held_answer_goes_on_when_released() {
    let fake = FakeGemini::start();
    let mut events = ask(&fake, "TEXT before ++ HOLD ++ TEXT after");
    assert!(events.next().is_some(), "what comes before the hold");
    eventually("the hold", || (fake.held() == 1).then_some(()));
    assert_eq!(fake.counters().open, 1);
    fake.release();
    assert_eq!(texts(events), ["after"]);
}

#[test]
fn a_caller_that_goes_away_breaks_its_stream() {
    let fake = FakeGemini::start();
    let mut events = ask(&fake, "TEXT before ++ HOLD ++ TEXT after");
    events.next();
    drop(events);
    eventually("the broken stream", || (fake.counters().broken == 1).then_some(()));
}

#[test]
fn a_connection_is_kept_and_a_request_recorded() {
    let fake = FakeGemini::start();
    let mut client = Client::new(&fake.url()).field("x-goog-api-key", "secret");
    for _ in 0..2 {
        let answer = client.post("/v1beta/models/m:countTokens", &json!({ "a": "bcd" }));
        assert_eq!((answer.status(), answer.json()), (200, json!({ "totalTokens": 2 })));
    }
    let recorded = &fake.requests()[1];
    assert_eq!(recorded.verb(), "countTokens");
    assert_eq!(recorded.head.field("X-Goog-Api-Key"), Some("secret"));
    assert_eq!(recorded.body, json!({ "a": "bcd" }));
}

#[test]
fn a_server_is_started_killed_and_started_again() {
    // A script in place of the server: it counts its starts in the state directory, prints a URL and waits.
    let script = r#"echo start >> "$6/starts"; echo "listening on http://localhost:${2/#0/4567}" >&2; exec sleep 600"#;
    let setup = Setup::of(Path::new("/bin/bash")).arg("-c").arg(script).arg("stand-in");
    let mut server = setup.start();
    assert_eq!((server.url().as_str(), server.port()), ("http://127.0.0.1:4567", 4567));
    let first = server.pid();
    server.restart();
    assert_ne!(server.pid(), first);
    assert_eq!(server.port(), 4567);
    let starts = std::fs::read_to_string(server.state_dir().join("starts")).expect("its state");
    assert_eq!(starts, "start\nstart\n");
    assert!(!Path::new(&format!("/proc/{first}")).exists(), "the first one is gone");
}

#[test]
#[should_panic(expected = "no such model")]
fn a_server_that_fails_to_start_shows_its_output() {
    Setup::of(Path::new("/bin/sh")).arg("-c").arg("echo no such model; exit 3").start();
}

#[test]
fn a_session_of_the_real_server_survives_its_process() {
    let fake = FakeGemini::start();
    let mut server = Server::start(&fake);
    let client = Client::new(&server.url());
    let events: Vec<_> = client.stream("message/stream", prompt("TEXT one ++ TEXT two")).collect();
    let text: String = events.iter().map(|event| text_of(event.result())).collect();
    assert_eq!(text, "onetwo");
    assert!(events.last().is_some_and(|event| event.is_final()), "{events:#?}");
    let task = task_of(events[0].result()).expect("the first event is the task").to_string();

    server.kill9();
    server.restart();
    let mut client = Client::new(&server.url());
    let found = client.call("tasks/get", json!({ "id": task }));
    assert_eq!((task_of(&found), state_of(&found)), (Some(task.as_str()), Some("input-required")));

    let position = events.iter().position(|event| text_of(event.result()) == "one");
    let position = position.expect("the first text is an event of its own");
    let last = events[position].id.as_deref().expect("every event has an id");
    let rest: Vec<_> = client.resume("tasks/resubscribe", json!({ "id": task }), last).collect();
    let ids = |events: &[support::client::Event]| -> Vec<_> { events.iter().map(|event| event.id.clone()).collect() };
    assert_eq!(ids(&rest), ids(&events[position + 1..]));
}
