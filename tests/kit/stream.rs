//! Streams: how they begin, what is in them, when they end, and how they go on after an interruption.

use crate::binding::{Binding, File, Note, Op, Piece, Version, Wait};
use crate::desk::{Desk, Seen, states};
use crate::problem::Fault;
use crate::shape::{Update, is_terminal, text_of};
use crate::support::eventually;
use serde_json::json;

duties! {
    a_stream_begins_with_the_task_and_ends_with_it,
    a_stream_ends_with_a_question,
    a_bare_message_is_the_only_event_of_its_stream,
    artifacts_come_in_pieces,
    whole_artifacts_come_in_one_event,
    an_answer_is_streamed_whole_or_as_it_is_said,
    a_stream_is_not_cached_and_stays_open,
    an_event_is_one_line_of_data,
    a_watcher_gets_the_task_first_and_then_what_happens,
    every_watcher_sees_the_same,
    watching_a_question,
    watching_a_task_that_is_over,
    watching_nothing,
    a_stream_goes_on_where_it_was,
    a_position_that_is_none_is_refused,
    work_does_not_end_with_the_one_who_watches,
    a_message_to_a_task_is_streamed_as_its_version_begins,
    a_credential_that_is_missing,
    a_long_task_can_be_watched_twice,
    no_stream_of_what_cannot_be_read,
    a_refused_stream_leaves_no_connection_behind,
}

/// What each update of an artifact brought: its parts, whether they are added, whether it is the last.
fn artifacts(seen: &[Seen], id: &str) -> Vec<(Vec<Piece>, bool, bool)> {
    let updates = seen.iter().filter_map(|seen| match &seen.update {
        Update::Artifact { artifact, append, last_chunk, .. } if artifact.id == id => {
            Some((artifact.parts.clone(), *append, *last_chunk))
        }
        _ => None,
    });
    updates.collect()
}

fn a_stream_begins_with_the_task_and_ends_with_it(desk: &mut Desk) {
    for note in ["tck-stream-001", "tck-stream-003", "tck-stream-ordering-001", "tck-sse-streaming-001"] {
        let seen = desk.stream(Note::new(note)).whole();
        assert_eq!(states(&seen), ["submitted", "working", "completed"], "{note}");
        let id = seen[0].update.task_id().to_owned();
        assert!(seen.iter().all(|seen| seen.update.task_id() == id), "{note}");
        assert_eq!(desk.get(&id).state(), "completed");
    }
}

fn a_stream_ends_with_a_question(desk: &mut Desk) {
    let seen = desk.stream(Note::new("tck-input-required")).whole();
    assert_eq!(states(&seen), ["submitted", "working", "input-required"]);
}

fn a_bare_message_is_the_only_event_of_its_stream(desk: &mut Desk) {
    let response = desk.watch(&Op::Stream(Note::new("tck-stream-002")));
    let seen: Vec<Seen> = response.collect();
    let [Seen { update: Update::Message(said), .. }] = seen.as_slice() else {
        panic!("one message, not {seen:?}");
    };
    assert_eq!(said.text(), "Stream message-only response");
}

fn artifacts_come_in_pieces(desk: &mut Desk) {
    let seen = desk.stream(Note::new("tck-stream-artifact-chunked")).whole();
    assert_eq!(
        artifacts(&seen, "chunks"),
        [(vec![Piece::Text("chunk-1 ".into())], false, false), (vec![Piece::Text("chunk-2".into())], true, true),]
    );
    let seen = desk.stream(Note::new("tck-stream-artifact-data-chunked")).whole();
    assert_eq!(
        artifacts(&seen, "data-chunks"),
        [(vec![Piece::Data(json!({"row": 1}))], false, false), (vec![Piece::Data(json!({"row": 2}))], true, true),]
    );
    let link = |name: &str| {
        let file = File { name: Some(name.into()), media: Some("text/plain".into()) };
        let url = format!("https://example.com/{name}");
        desk.binding.shown(Piece::Url(url, file))
    };
    let seen = desk.stream(Note::new("tck-stream-artifact-url-chunked")).whole();
    assert_eq!(
        artifacts(&seen, "url-chunks"),
        [(vec![link("1.txt")], false, false), (vec![link("2.txt")], true, true),]
    );
    let seen = desk.stream(Note::new("tck-stream-artifact-file-chunked")).whole();
    assert_eq!(artifacts(&seen, "file-chunks").len(), 3);
}

fn whole_artifacts_come_in_one_event(desk: &mut Desk) {
    for (note, id) in [("tck-stream-artifact-text", "text"), ("tck-stream-artifact-file", "file")] {
        let seen = desk.stream(Note::new(note)).whole();
        let updates = artifacts(&seen, id);
        assert!(matches!(updates.as_slice(), [(_, false, true)]), "{updates:?}");
    }
}

fn an_answer_is_streamed_whole_or_as_it_is_said(desk: &mut Desk) {
    let said = |fields: &[(&str, &str)]| {
        let stream = desk.watch_with(&Op::Stream(Note::new("tck-stream-text")), fields);
        let seen = stream.expect("a stream").whole();
        let updates = artifacts(&seen, "answer-1");
        let texts: Vec<String> = updates.iter().map(|(parts, ..)| text_of(parts)).collect();
        let flags: Vec<(bool, bool)> = updates.iter().map(|(_, append, last)| (*append, *last)).collect();
        (texts, flags)
    };
    let (texts, flags) = said(&[]);
    assert_eq!((texts, flags), (vec!["one two three four five".to_owned()], vec![(false, true)]));
    let header = if desk.is(Version::V10) { "A2A-Extensions" } else { "X-A2A-Extensions" };
    let (texts, flags) = said(&[(header, "urn:gemini-a2a:plain:v1")]);
    assert_eq!(texts.concat(), "one two three four five");
    assert!(texts.len() >= 5 && texts.iter().all(|text| !text.is_empty()), "{texts:?}");
    let last = flags.len() - 1;
    let expected: Vec<(bool, bool)> = (0..=last).map(|n| (n > 0, n == last)).collect();
    assert_eq!(flags, expected);
}

fn a_stream_is_not_cached_and_stays_open(desk: &mut Desk) {
    let watch = desk.stream(Note::new("tck-complete-task"));
    let head = watch.head().clone();
    assert_eq!(head.status(), 200);
    assert!(head.field("content-type").unwrap_or("").starts_with("text/event-stream"), "{head:?}");
    assert!(head.field("cache-control").unwrap_or("").contains("no-cache"), "{head:?}");
    assert_eq!(head.field("x-accel-buffering"), Some("no"));
    assert!(!head.closes(), "{head:?}");
    watch.whole();
}

fn an_event_is_one_line_of_data(desk: &mut Desk) {
    let id = json!(1);
    let note = Note::new("tck-complete-task").saying(vec![Piece::Text("two\nlines\r\nand\u{2028}more".into())]);
    let wire = desk.binding.wire(&Op::Stream(note), &id);
    let fields = [("Content-Type", "application/json"), ("Accept", "text/event-stream"), ("Connection", "close")];
    let body = wire.body.expect("a body").to_string();
    let request = desk.client.bytes(wire.method, &wire.path, &fields, body.as_bytes());
    let mut conn = desk.client.raw();
    conn.send(&request).expect("a request");
    let bytes = conn.until_closed().expect("a whole answer");
    let text = String::from_utf8(bytes).expect("text");
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert!(lines("data: {") > 1, "{text}");
    assert_eq!((lines("data:"), lines("id:")), (lines("data: {"), lines("data: {")), "{text}");
}

fn a_watcher_gets_the_task_first_and_then_what_happens(desk: &mut Desk) {
    let working = desk.task(Note::new("tck-delayed-complete").wait(Wait::Not));
    let seen = desk.subscribe(&working.id).whole();
    assert_eq!(seen[0].update.task_id(), working.id);
    assert_eq!(states(&seen).last(), Some(&"completed"));
}

fn every_watcher_sees_the_same(desk: &mut Desk) {
    let working = desk.task(Note::new("tck-delayed-complete").wait(Wait::Not));
    let begun = |desk: &Desk| {
        let mut watch = desk.subscribe(&working.id);
        let first = watch.next().expect("the task");
        (first, watch)
    };
    let (_, left_early) = begun(desk);
    let watchers: Vec<_> = (0..3).map(|_| begun(desk)).collect();
    drop(left_early);
    let seen: Vec<Vec<Seen>> = watchers
        .into_iter()
        .map(|(first, rest)| {
            let mut seen = vec![first];
            seen.extend(rest);
            seen
        })
        .collect();
    assert!(seen[0].len() > 1);
    for other in &seen[1..] {
        // Each may have begun at another position, and sees the same from there.
        let later = |list: &[Seen]| {
            list.iter().filter(|s| s.seq > seen[0][0].seq.max(other[0].seq)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(later(&seen[0]), later(other));
    }
}

fn watching_a_question(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let mut watch = desk.subscribe(&asked.id);
    assert_eq!(watch.next().and_then(|seen| seen.update.state()), Some("input-required"));
    match desk.binding.version() {
        // The next word is the user's, so there is nothing to watch.
        Version::V03 => assert_eq!(watch.next(), None),
        Version::V10 => {
            let done = desk.task(Note::new("tck-complete-task").to(&asked.id));
            let seen: Vec<Seen> = watch.collect();
            assert_eq!(states(&seen), ["working", "completed"]);
            assert_eq!(done.state(), "completed");
        }
    }
}

fn watching_a_task_that_is_over(desk: &mut Desk) {
    let over = desk.task(Note::new("tck-complete-task"));
    match desk.binding.version() {
        Version::V03 => {
            let seen = desk.subscribe(&over.id).whole();
            assert_eq!((seen.len(), seen[0].update.state()), (1, Some("completed")));
        }
        Version::V10 => {
            desk.refused(&Op::Subscribe(over.id), Fault::Unsupported);
        }
    }
}

fn watching_nothing(desk: &mut Desk) {
    desk.refused(&Op::Subscribe("nobody-made-this".into()), Fault::TaskNotFound);
}

/// To the end of the task, or to where the next word is the user's.
fn a_stream_goes_on_where_it_was(desk: &mut Desk) {
    for note in ["tck-stream-text", "tck-input-required"] {
        let whole = desk.stream(Note::new(note)).whole();
        let id = whole[0].update.task_id().to_owned();
        let subscribe = Op::Subscribe(id);
        for (i, at) in whole.iter().enumerate() {
            let position = at.seq.to_string();
            let rest = &whole[i + 1..];
            let by_header = desk.watch_with(&subscribe, &[("Last-Event-ID", &position)]);
            let by_header: Vec<Seen> = by_header.expect("a stream").collect();
            assert_eq!(by_header, rest, "behind {position}");
            let call = json!(2);
            let mut wire = desk.binding.wire(&subscribe, &call);
            wire.path.push_str(&format!("?after={position}"));
            let by_query: Vec<Seen> = desk.open(&wire, call, &[]).expect("a stream").collect();
            assert_eq!(by_query, rest, "behind {position}");
        }
    }
}

fn a_position_that_is_none_is_refused(desk: &mut Desk) {
    let over = desk.task(Note::new("tck-complete-task"));
    let subscribe = Op::Subscribe(over.id.clone());
    for position in ["x", "-1"] {
        let answer = desk.watch_with(&subscribe, &[("Last-Event-ID", position)]);
        let refusal = match answer {
            Err(refusal) => refusal,
            Ok(watch) => watch.refusal(),
        };
        refusal.check(desk.binding, Fault::InvalidParams);
    }
    // One from another life of the task cannot be gone on from; the whole task can.
    let watch = desk.watch_with(&subscribe, &[("Last-Event-ID", "99999999")]);
    let seen: Vec<Seen> = watch.expect("a stream").collect();
    assert!(matches!(&seen[0].update, Update::Task(task) if *task == over), "{seen:?}");
}

fn work_does_not_end_with_the_one_who_watches(desk: &mut Desk) {
    let mut watch = desk.stream(Note::new("tck-delayed-complete"));
    let id = watch.next().expect("the task").update.task_id().to_owned();
    drop(watch);
    eventually("the end of the work", || is_terminal(desk.get(&id).state()).then_some(()));
}

fn a_message_to_a_task_is_streamed_as_its_version_begins(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let watch = desk.stream(Note::new("tck-complete-task").to(&asked.id));
    match desk.binding.version() {
        // The client has the task already.
        Version::V03 => {
            let seen = watch.rest();
            assert!(!matches!(seen[0].update, Update::Task(_)), "{seen:?}");
            assert_eq!(states(&seen).last(), Some(&"completed"));
        }
        Version::V10 => assert_eq!(states(&watch.whole()).last(), Some(&"completed")),
    }
}

fn a_credential_that_is_missing(desk: &mut Desk) {
    let mut watch = desk.stream(Note::new("tck-auth-required"));
    let asked = watch.until("auth-required", |update| update.state() == Some("auth-required"));
    match desk.binding.version() {
        Version::V03 => assert!(asked.update.is_last() && watch.next().is_none()),
        // It may arrive out of band, so the stream stays.
        Version::V10 => {
            let id = asked.update.task_id().to_owned();
            desk.task(Note::new("tck-complete-task").to(&id));
            let last = watch.last().expect("what follows");
            assert_eq!(last.update.state(), Some("completed"));
        }
    }
}

fn a_long_task_can_be_watched_twice(desk: &mut Desk) {
    let mut first = desk.stream(Note::new("test-resubscribe-message-id"));
    let begun = first.next().expect("the task");
    assert!(matches!(begun.update, Update::Task(_)), "{begun:?}");
    let id = begun.update.task_id().to_owned();
    let mut second = desk.subscribe(&id);
    assert_eq!(second.next().map(|seen| seen.update.task_id().to_owned()), Some(id.clone()));
    assert!(!is_terminal(desk.get(&id).state()));
    desk.cancel(&id);
    for watch in [first, second] {
        assert_eq!(watch.last().and_then(|seen| seen.update.state()), Some("canceled"));
    }
}

fn no_stream_of_what_cannot_be_read(desk: &mut Desk) {
    let id = json!("bad");
    let mut wire = desk.binding.wire(&Op::Stream(Note::new("x")), &id);
    let body = wire.body.as_mut().expect("a body");
    match body.get("params") {
        Some(_) => body["params"] = json!({"invalid": "params"}),
        None => *body = json!({"invalid": "params"}),
    }
    // Without asking for events the answer is JSON in every binding.
    let refusal = desk.put_as(&wire, &id, &[]).expect_err("a refusal");
    refusal.check(desk.binding, Fault::InvalidParams);
    match (desk.open(&wire, id, &[]), desk.binding) {
        (Ok(watch), Binding::Rpc03) => watch.refusal().check(Binding::Rpc03, Fault::InvalidParams),
        (Err(refusal), _) => refusal.check(desk.binding, Fault::InvalidParams),
        (Ok(watch), _) => panic!("{:?}", watch.collect::<Vec<_>>()),
    }
}

/// A kit keeps the connection of a refused stream in a pool and stumbles over it in its next test, unless it is told to drop it.
fn a_refused_stream_leaves_no_connection_behind(desk: &mut Desk) {
    let wire = desk.binding.wire(&Op::Subscribe("nobody-made-this".into()), &json!(1));
    let answers = [desk.put(&wire, &[("Accept", "text/event-stream")]), desk.put(&wire, &[])];
    let kept = match desk.binding {
        // A refusal that is not one to HTTP costs nobody a connection.
        Binding::Rpc03 | Binding::Rpc10 => [(200, false), (200, false)],
        Binding::Rest03 | Binding::Rest10 => [(404, true), (404, false)],
    };
    assert_eq!(answers.map(|answer| (answer.head.status(), answer.head.closes())), kept);
}
