//! Streams: their first event, their content, their end, and how a client resumes them after an interruption.

use crate::binding::{Binding, File, Op, Part, Prompt, Version, Wait};
use crate::harness::{Harness, StreamEvent, states};
use crate::problem::Fault;
use crate::shape::{Update, is_terminal, text_of};
use crate::support::eventually;
use serde_json::json;

every_binding! {
    a_stream_begins_with_the_task_and_ends_with_it,
    a_stream_ends_with_a_question,
    a_bare_message_is_the_only_event_of_its_stream,
    artifacts_come_in_pieces,
    whole_artifacts_come_in_one_event,
    an_answer_is_streamed_whole_or_in_pieces,
    a_stream_is_not_cached_and_stays_open,
    an_event_is_one_line_of_data,
    a_subscriber_gets_the_task_first_and_then_its_events,
    every_subscriber_gets_the_same_events,
    subscribing_to_a_task_that_waits_for_input,
    subscribing_to_a_task_that_has_ended,
    subscribing_to_an_unknown_task_is_refused,
    a_stream_is_resumed_at_its_position,
    an_invalid_position_is_refused,
    a_task_continues_when_its_subscriber_disconnects,
    the_stream_of_a_message_to_a_task_begins_with_the_task_in_1_0,
    a_missing_credential_ends_the_stream_in_0_3,
    a_long_task_can_have_two_subscribers,
    invalid_parameters_of_a_stream_are_refused,
    the_connection_of_a_refused_stream_is_closed,
}

/// The updates of an artifact: its parts, whether they are appended, and whether the update is the last.
fn artifacts(events: &[StreamEvent], id: &str) -> Vec<(Vec<Part>, bool, bool)> {
    let updates = events.iter().filter_map(|event| match &event.update {
        Update::Artifact { artifact, append, last_chunk, .. } if artifact.id == id => {
            Some((artifact.parts.clone(), *append, *last_chunk))
        }
        _ => None,
    });
    updates.collect()
}

fn a_stream_begins_with_the_task_and_ends_with_it(harness: &mut Harness) {
    for prompt in ["tck-stream-001", "tck-stream-003", "tck-stream-ordering-001", "tck-sse-streaming-001"] {
        let events = harness.stream(Prompt::new(prompt)).whole();
        assert_eq!(states(&events), ["submitted", "working", "completed"], "{prompt}");
        let id = events[0].update.task_id().to_owned();
        assert!(events.iter().all(|event| event.update.task_id() == id), "{prompt}");
        assert_eq!(harness.get(&id).state(), "completed");
    }
}

fn a_stream_ends_with_a_question(harness: &mut Harness) {
    let events = harness.stream(Prompt::new("tck-input-required")).whole();
    assert_eq!(states(&events), ["submitted", "working", "input-required"]);
}

fn a_bare_message_is_the_only_event_of_its_stream(harness: &mut Harness) {
    let response = harness.open_stream(&Op::Stream(Prompt::new("tck-stream-002")));
    let events: Vec<StreamEvent> = response.collect();
    let [StreamEvent { update: Update::Message(message), .. }] = events.as_slice() else {
        panic!("one message, not {events:?}");
    };
    assert_eq!(message.text(), "Stream message-only response");
}

fn artifacts_come_in_pieces(harness: &mut Harness) {
    let events = harness.stream(Prompt::new("tck-stream-artifact-chunked")).whole();
    assert_eq!(
        artifacts(&events, "chunks"),
        [(vec![Part::Text("chunk-1 ".into())], false, false), (vec![Part::Text("chunk-2".into())], true, true),]
    );
    let events = harness.stream(Prompt::new("tck-stream-artifact-data-chunked")).whole();
    assert_eq!(
        artifacts(&events, "data-chunks"),
        [(vec![Part::Data(json!({"row": 1}))], false, false), (vec![Part::Data(json!({"row": 2}))], true, true),]
    );
    let link = |name: &str| {
        let file = File { name: Some(name.into()), media: Some("text/plain".into()) };
        let url = format!("https://example.com/{name}");
        harness.binding.shown(Part::Url(url, file))
    };
    let events = harness.stream(Prompt::new("tck-stream-artifact-url-chunked")).whole();
    assert_eq!(
        artifacts(&events, "url-chunks"),
        [(vec![link("1.txt")], false, false), (vec![link("2.txt")], true, true),]
    );
    let events = harness.stream(Prompt::new("tck-stream-artifact-file-chunked")).whole();
    assert_eq!(artifacts(&events, "file-chunks").len(), 3);
}

fn whole_artifacts_come_in_one_event(harness: &mut Harness) {
    for (prompt, id) in [("tck-stream-artifact-text", "text"), ("tck-stream-artifact-file", "file")] {
        let events = harness.stream(Prompt::new(prompt)).whole();
        let updates = artifacts(&events, id);
        assert!(matches!(updates.as_slice(), [(_, false, true)]), "{updates:?}");
    }
}

fn an_answer_is_streamed_whole_or_in_pieces(harness: &mut Harness) {
    let streamed = |fields: &[(&str, &str)]| {
        let stream = harness.try_stream(&Op::Stream(Prompt::new("tck-stream-text")), fields);
        let events = stream.expect("a stream").whole();
        let updates = artifacts(&events, "answer-1");
        let texts: Vec<String> = updates.iter().map(|(parts, ..)| text_of(parts)).collect();
        let flags: Vec<(bool, bool)> = updates.iter().map(|(_, append, last)| (*append, *last)).collect();
        (texts, flags)
    };
    let (texts, flags) = streamed(&[]);
    assert_eq!((texts, flags), (vec!["one two three four five".to_owned()], vec![(false, true)]));
    let header = if harness.is(Version::V10) { "A2A-Extensions" } else { "X-A2A-Extensions" };
    let (texts, flags) = streamed(&[(header, "urn:gemini-a2a:plain:v1")]);
    assert_eq!(texts.concat(), "one two three four five");
    assert!(texts.len() >= 5 && texts.iter().all(|text| !text.is_empty()), "{texts:?}");
    let last = flags.len() - 1;
    let expected: Vec<(bool, bool)> = (0..=last).map(|n| (n > 0, n == last)).collect();
    assert_eq!(flags, expected);
}

fn a_stream_is_not_cached_and_stays_open(harness: &mut Harness) {
    let stream = harness.stream(Prompt::new("tck-complete-task"));
    let head = stream.head().clone();
    assert_eq!(head.status(), 200);
    assert!(head.field("content-type").unwrap_or("").starts_with("text/event-stream"), "{head:?}");
    assert!(head.field("cache-control").unwrap_or("").contains("no-cache"), "{head:?}");
    assert_eq!(head.field("x-accel-buffering"), Some("no"));
    assert!(!head.closes(), "{head:?}");
    stream.whole();
}

fn an_event_is_one_line_of_data(harness: &mut Harness) {
    let id = json!(1);
    let prompt = Prompt::new("tck-complete-task").with_parts(vec![Part::Text("two\nlines\r\nand\u{2028}more".into())]);
    let request = harness.binding.request(&Op::Stream(prompt), &id);
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream"), ("Connection", "close")];
    let body = request.body.expect("a body").to_string();
    let request = harness.client.bytes(request.method, &request.path, &fields, body.as_bytes());
    let mut conn = harness.client.raw();
    conn.send(&request).expect("a request");
    let bytes = conn.until_closed().expect("a whole answer");
    let text = String::from_utf8(bytes).expect("text");
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert!(lines("data: {") > 1, "{text}");
    assert_eq!((lines("data:"), lines("id:")), (lines("data: {"), lines("data: {")), "{text}");
}

fn a_subscriber_gets_the_task_first_and_then_its_events(harness: &mut Harness) {
    let working = harness.task(Prompt::new("tck-delayed-complete").wait(Wait::No));
    let events = harness.subscribe(&working.id).whole();
    assert_eq!(events[0].update.task_id(), working.id);
    assert_eq!(states(&events).last(), Some(&"completed"));
}

fn every_subscriber_gets_the_same_events(harness: &mut Harness) {
    let working = harness.task(Prompt::new("tck-delayed-complete").wait(Wait::No));
    let subscribed = |harness: &Harness| {
        let mut stream = harness.subscribe(&working.id);
        let first = stream.next().expect("the task");
        (first, stream)
    };
    let (_, disconnected) = subscribed(harness);
    let subscribers: Vec<_> = (0..3).map(|_| subscribed(harness)).collect();
    drop(disconnected);
    let events: Vec<Vec<StreamEvent>> = subscribers
        .into_iter()
        .map(|(first, rest)| {
            let mut events = vec![first];
            events.extend(rest);
            events
        })
        .collect();
    assert!(events[0].len() > 1);
    for other in &events[1..] {
        // The streams may begin at different positions.
        let later = |list: &[StreamEvent]| {
            list.iter().filter(|s| s.seq > events[0][0].seq.max(other[0].seq)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(later(&events[0]), later(other));
    }
}

fn subscribing_to_a_task_that_waits_for_input(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let mut stream = harness.subscribe(&asked.id);
    assert_eq!(stream.next().and_then(|event| event.update.state()), Some("input-required"));
    match harness.binding.version() {
        // The task waits for the user, so the stream ends.
        Version::V03 => assert_eq!(stream.next(), None),
        Version::V10 => {
            let done = harness.task(Prompt::new("tck-complete-task").to(&asked.id));
            let events: Vec<StreamEvent> = stream.collect();
            assert_eq!(states(&events), ["working", "completed"]);
            assert_eq!(done.state(), "completed");
        }
    }
}

fn subscribing_to_a_task_that_has_ended(harness: &mut Harness) {
    let over = harness.task(Prompt::new("tck-complete-task"));
    match harness.binding.version() {
        Version::V03 => {
            let events = harness.subscribe(&over.id).whole();
            assert_eq!((events.len(), events[0].update.state()), (1, Some("completed")));
        }
        Version::V10 => {
            harness.expect_refusal(&Op::Subscribe(over.id), Fault::Unsupported);
        }
    }
}

fn subscribing_to_an_unknown_task_is_refused(harness: &mut Harness) {
    harness.expect_refusal(&Op::Subscribe("nobody-made-this".into()), Fault::TaskNotFound);
}

/// The resumed stream ends at the end of the task, or when the task waits for the user.
fn a_stream_is_resumed_at_its_position(harness: &mut Harness) {
    for prompt in ["tck-stream-text", "tck-input-required"] {
        let whole = harness.stream(Prompt::new(prompt)).whole();
        let id = whole[0].update.task_id().to_owned();
        let subscribe = Op::Subscribe(id);
        for (i, at) in whole.iter().enumerate() {
            let position = at.seq.to_string();
            let rest = &whole[i + 1..];
            let by_header = harness.try_stream(&subscribe, &[("Last-Event-ID", &position)]);
            let by_header: Vec<StreamEvent> = by_header.expect("a stream").collect();
            assert_eq!(by_header, rest, "after {position}");
            let call = json!(2);
            let mut request = harness.binding.request(&subscribe, &call);
            request.path.push_str(&format!("?after={position}"));
            let by_query: Vec<StreamEvent> = harness.try_stream_of(&request, call, &[]).expect("a stream").collect();
            assert_eq!(by_query, rest, "after {position}");
        }
    }
}

fn an_invalid_position_is_refused(harness: &mut Harness) {
    let over = harness.task(Prompt::new("tck-complete-task"));
    let subscribe = Op::Subscribe(over.id.clone());
    for position in ["x", "-1"] {
        let answer = harness.try_stream(&subscribe, &[("Last-Event-ID", position)]);
        let refusal = match answer {
            Err(refusal) => refusal,
            Ok(stream) => stream.refusal(),
        };
        refusal.check(harness.binding, Fault::InvalidParams);
    }
    // A position after the end of the log may come from another log of the task. The stream then begins with the task.
    let stream = harness.try_stream(&subscribe, &[("Last-Event-ID", "99999999")]);
    let events: Vec<StreamEvent> = stream.expect("a stream").collect();
    assert!(matches!(&events[0].update, Update::Task(task) if *task == over), "{events:?}");
}

fn a_task_continues_when_its_subscriber_disconnects(harness: &mut Harness) {
    let mut stream = harness.stream(Prompt::new("tck-delayed-complete"));
    let id = stream.next().expect("the task").update.task_id().to_owned();
    drop(stream);
    eventually("the end of the task", || is_terminal(harness.get(&id).state()).then_some(()));
}

fn the_stream_of_a_message_to_a_task_begins_with_the_task_in_1_0(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let stream = harness.stream(Prompt::new("tck-complete-task").to(&asked.id));
    match harness.binding.version() {
        // The client has the task, so the stream does not begin with it.
        Version::V03 => {
            let events = stream.rest();
            assert!(!matches!(events[0].update, Update::Task(_)), "{events:?}");
            assert_eq!(states(&events).last(), Some(&"completed"));
        }
        Version::V10 => assert_eq!(states(&stream.whole()).last(), Some(&"completed")),
    }
}

fn a_missing_credential_ends_the_stream_in_0_3(harness: &mut Harness) {
    let mut stream = harness.stream(Prompt::new("tck-auth-required"));
    let asked = stream.until("auth-required", |update| update.state() == Some("auth-required"));
    match harness.binding.version() {
        Version::V03 => assert!(asked.update.is_last() && stream.next().is_none()),
        // The credential may arrive out of band, so the stream stays open.
        Version::V10 => {
            let id = asked.update.task_id().to_owned();
            harness.task(Prompt::new("tck-complete-task").to(&id));
            let last = stream.last().expect("what follows");
            assert_eq!(last.update.state(), Some("completed"));
        }
    }
}

fn a_long_task_can_have_two_subscribers(harness: &mut Harness) {
    let mut first = harness.stream(Prompt::new("test-resubscribe-message-id"));
    let begun = first.next().expect("the task");
    assert!(matches!(begun.update, Update::Task(_)), "{begun:?}");
    let id = begun.update.task_id().to_owned();
    let mut second = harness.subscribe(&id);
    assert_eq!(second.next().map(|event| event.update.task_id().to_owned()), Some(id.clone()));
    assert!(!is_terminal(harness.get(&id).state()));
    harness.cancel(&id);
    for stream in [first, second] {
        assert_eq!(stream.last().and_then(|event| event.update.state()), Some("canceled"));
    }
}

fn invalid_parameters_of_a_stream_are_refused(harness: &mut Harness) {
    let id = json!("bad");
    let mut request = harness.binding.request(&Op::Stream(Prompt::new("x")), &id);
    let body = request.body.as_mut().expect("a body");
    match body.get("params") {
        Some(_) => body["params"] = json!({"invalid": "params"}),
        None => *body = json!({"invalid": "params"}),
    }
    // A request that does not ask for events gets a JSON response in every binding.
    let refusal = harness.result_of(&request, &id, &[]).expect_err("a refusal");
    refusal.check(harness.binding, Fault::InvalidParams);
    match (harness.try_stream_of(&request, id, &[]), harness.binding) {
        (Ok(stream), Binding::Rpc03) => stream.refusal().check(Binding::Rpc03, Fault::InvalidParams),
        (Err(refusal), _) => refusal.check(harness.binding, Fault::InvalidParams),
        (Ok(stream), _) => panic!("{:?}", stream.collect::<Vec<_>>()),
    }
}

/// One of the kits keeps the connection of a refused stream in its pool, and its next test then fails, unless the response closes the
/// connection.
fn the_connection_of_a_refused_stream_is_closed(harness: &mut Harness) {
    let request = harness.binding.request(&Op::Subscribe("nobody-made-this".into()), &json!(1));
    let answers =
        [harness.send_request(&request, &[("Accept", "text/event-stream")]), harness.send_request(&request, &[])];
    let expected = match harness.binding {
        // A refusal with status 200 keeps the connection.
        Binding::Rpc03 | Binding::Rpc10 => [(200, false), (200, false)],
        Binding::Rest03 | Binding::Rest10 => [(404, true), (404, false)],
    };
    assert_eq!(answers.map(|answer| (answer.head.status(), answer.head.closes())), expected);
}
