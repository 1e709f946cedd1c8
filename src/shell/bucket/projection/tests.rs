use super::*;
use crate::base::id::Seq;
use crate::task::log::answer::Answer;
use crate::task::log::event::{Created, End, Event};
use crate::task::log::record::Record;
use crate::task::log::test_created;
use crate::task::message::{Artifact, Message, Part, Role, Source};
use crate::task::spec::{Kind, ToolSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `2026-03-01T09:30:00.125Z`.
const AT: u64 = 1_772_357_400_125;

fn created() -> Event {
    Event::Created(Arc::new(Created {
        context: "c-1".into(),
        model: "gemini-x".into(),
        ..test_created::created("t-1")
    }))
}

/// A turn with a prompt and an answer.
fn turn(turn: u32, prompt: &str, answer: &str) -> Vec<Event> {
    let message = Arc::new(Message::new(format!("m-{turn}"), Role::User, vec![Part::text(prompt)]));
    let said = Answer { said_at: Some(Seq(4)), ..Answer::new(answer, vec![]) };
    vec![
        Event::Prompted { message, by: Source::clock(), turn, delivery: Default::default() },
        Event::TurnBegan { turn },
        Event::Text { text: answer.into() },
        Event::Answered { answer: Arc::new(said) },
        Event::TurnEnded { turn, end: End::Done, by: None },
    ]
}

fn produced(id: &str, text: &str) -> Event {
    let artifact =
        Artifact { id: id.into(), name: Some("a.txt".into()), description: None, parts: vec![Part::text(text)] };
    Event::Produced { artifact: Arc::new(artifact), append: false, last: true }
}

fn fold(events: Vec<Event>) -> State {
    let mut state = None;
    for (n, event) in (1..).zip([created()].into_iter().chain(events)) {
        State::advance(&mut state, &Record { seq: Seq(n), at: AT, event }).expect("the log begins with its task");
    }
    state.expect("the task is created")
}

fn tools() -> Tools {
    Tools::new(&[ToolSpec::new("write_file", "WriteFile", Kind::Edit, "Writes.", json!({"type": "object"}))])
}

/// The objects by name.
fn shown(state: &State) -> BTreeMap<String, Value> {
    let objects = objects(state, &tools(), &OtherTools::default()).into_iter();
    objects.map(|object| (object.name, serde_json::from_slice(&object.bytes).expect("JSON"))).collect()
}

/// Reads a task as the loader of the reference server does: three objects, of which none may be missing.
fn loaded(bucket: &BTreeMap<String, Value>) -> Option<Value> {
    let (metadata, history) = (bucket.get("metadata.json")?, bucket.get("history.json")?);
    let state = bucket.get("state.json")?;
    Some(json!({"id": "t-1", "metadata": metadata, "history": history, "state": state["state"],
        "timestamp": state["timestamp"], "artifacts": []}))
}

#[test]
fn another_program_reads_the_task_from_three_objects() {
    let state = fold(turn(1, "Hello?", "Hello."));
    let message = |id: &str, role: &str, text: &str| {
        json!({"kind": "message", "messageId": id, "role": role, "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": text}]})
    };
    let task = loaded(&shown(&state)).expect("all three exist");
    assert_eq!(task["history"], json!([message("m-1", "user", "Hello?"), message("t-1-4", "agent", "Hello.")]));
    assert_eq!((&task["state"], &task["timestamp"]), (&json!("running"), &json!("2026-03-01T09:30:00.125Z")));
    let metadata = &task["metadata"];
    assert_eq!((&metadata["id"], &metadata["contextId"]), (&json!("t-1"), &json!("c-1")));
    assert_eq!((&metadata["taskState"], &metadata["model"]), (&json!("input-required"), &json!("gemini-x")));
    assert_eq!(metadata["availableTools"][0]["name"], "write_file");
}

#[test]
fn a_task_without_messages_has_all_three_objects() {
    let names: Vec<String> = shown(&fold(vec![])).into_keys().collect();
    assert_eq!(names, ["history.json", "metadata.json", "state.json"]);
    assert_eq!(shown(&fold(vec![]))["history.json"], json!([]));
}

#[test]
fn the_state_is_the_last_object() {
    let objects = objects(&fold(vec![produced("a", "x")]), &tools(), &OtherTools::default());
    assert_eq!(objects.last().expect("objects").name, "state.json");
}

#[test]
fn every_state_has_one_of_three_words() {
    for (a2a, word) in [
        (TaskState::Submitted, "running"),
        (TaskState::Working, "running"),
        (TaskState::InputRequired, "running"),
        (TaskState::AuthRequired, "running"),
        (TaskState::Completed, "completed"),
        (TaskState::Failed, "error"),
        (TaskState::Canceled, "error"),
        (TaskState::Rejected, "error"),
    ] {
        let mut state = fold(turn(1, "go", "done"));
        state.status.state = a2a;
        let expected =
            json!({"state": word, "timestamp": "2026-03-01T09:30:00.125Z", "a2aState": a2a.word(), "seq": 6});
        assert_eq!(shown(&state)["state.json"], expected);
    }
}

/// The texts of the messages in a history of at most so many bytes.
fn texts(state: &State, most: usize) -> Vec<String> {
    let bytes = history(state, most);
    assert!(bytes.len() <= most.max(2), "{} of {most} bytes", bytes.len());
    let messages: Vec<Value> = serde_json::from_slice(&bytes).expect("an array");
    messages.iter().map(|message| message["parts"][0]["text"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn the_newest_messages_within_the_limit_are_kept() {
    let state = fold([turn(1, "p1", "a1"), turn(2, "p2", "a2")].concat());
    let whole = history(&state, usize::MAX).len();
    assert_eq!(texts(&state, whole), ["p1", "a1", "p2", "a2"]);
    assert_eq!(texts(&state, whole - 1), ["a1", "p2", "a2"]);
    for most in 0..whole {
        assert!(["p1", "a1", "p2", "a2"].map(str::to_owned).ends_with(&texts(&state, most)), "{most}");
    }
    assert_eq!(texts(&state, 2), [""; 0]);
}

#[test]
fn a_long_message_that_does_not_fit_is_not_replaced_by_an_older_one() {
    let state = fold([turn(1, "short", "short"), turn(2, &"x".repeat(2_000), "newest")].concat());
    assert_eq!(texts(&state, 1_000), ["newest"]);
}

#[test]
fn a_long_conversation_is_limited() {
    let long = "x".repeat(1 << 20);
    let state = fold((1..=5).flat_map(|n| turn(n, &long, &format!("{n}{long}"))).collect());
    let history = &shown(&state)["history.json"];
    let history = history.as_array().expect("an array");
    assert_eq!(history.len(), 7, "eight messages of 1 MiB have more than 8 MiB with their members");
    assert!(history[6]["parts"][0]["text"].as_str().expect("a text").starts_with('5'));
}

#[test]
fn artifacts_are_objects_under_their_ids() {
    let long = "é".repeat(100);
    let ids = ["a.txt", "out/a b", "..", "", &long];
    let events = turn(1, "go", "done").into_iter().chain(ids.map(|id| produced(id, id)));
    let shown = shown(&fold(events.collect()));
    let hashed = |id: &str| format!("artifacts/{}", sha256(id.as_bytes()));
    let names = ["artifacts/a.txt".to_owned(), "artifacts/out%2Fa%20b".to_owned(), hashed(".."), hashed("")];
    for (name, id) in names.into_iter().chain([hashed(&long)]).zip(ids) {
        let expected = json!({"artifactId": id, "name": "a.txt", "parts": [{"kind": "text", "text": id}]});
        assert_eq!(shown.get(&name), Some(&expected), "{name}");
    }
    assert_eq!(shown.len(), ids.len() + 3, "an answer is no object");
}

#[test]
fn an_artifact_name_of_more_than_200_bytes_is_hashed() {
    for (bytes, is_written_out) in [(200, true), (201, false)] {
        let id = "x".repeat(bytes);
        assert_eq!(artifact_name(&id) == format!("artifacts/{id}"), is_written_out, "{bytes}");
    }
}
