//! What clients are given that show no profile: whole answers, questions in words, tasks that are over with their turn.

use crate::binding::{Note, Op, Piece, Wait};
use crate::desk::{Desk, Seen, states};
use crate::problem::Fault;
use crate::shape::{Answer, Task, Update};
use serde_json::json;

duties! {
    a_turn_completes_its_task_and_the_context_goes_on,
    a_word_answers_with_the_task_or_the_context_alone,
    several_open_questions_are_listed,
    text_behind_a_question_is_answered_before_the_task_completes,
    text_beside_an_answer_is_answered,
    any_text_answers_a_question_that_takes_text,
    the_stream_of_an_answer_does_not_repeat_the_question,
    messages_to_a_working_task_are_answered_before_it_completes,
    a_plain_task_may_stay_open [&["--plain-lifecycle", "conversational"]],
}

fn says(text: &str) -> Note {
    Note::new("tck-words").saying(vec![Piece::Text(text.into())])
}

/// The answers of a task, by artifact.
fn answers(task: &Task) -> Vec<(String, String)> {
    task.artifacts().iter().map(|artifact| (artifact.id.clone(), artifact.text())).collect()
}

fn answer(id: &str, text: &str) -> (String, String) {
    (id.to_owned(), text.to_owned())
}

fn a_turn_completes_its_task_and_the_context_goes_on(desk: &mut Desk) {
    let first = desk.task(Note::new("tck-stream-text"));
    assert_eq!(first.state(), "completed");
    assert_eq!(answers(&first), [answer("answer-1", "one two three four five")]);
    desk.refused(&Op::Send(says("more").to(&first.id)), Fault::TaskIsOver);
    let second = desk.task(Note::new("tck-stream-text").within(&first.context));
    assert_eq!((second.state(), &second.context), ("completed", &first.context));
    assert_ne!(second.id, first.id);
}

fn a_word_answers_with_the_task_or_the_context_alone(desk: &mut Desk) {
    let file = desk.server.workspace().join("kit.txt");
    for (word, with_task, writes) in [
        ("yes", true, true),
        ("yes", false, true),
        ("1", false, true),
        ("Allow once.", false, true),
        ("no", true, false),
        ("Reject", false, false),
    ] {
        let asked = desk.task(Note::new("tck-edit"));
        assert_eq!(asked.state(), "input-required");
        let question = asked.status.message.as_ref().expect("a question");
        assert!(matches!(&question.parts[..], [Piece::Text(_)]), "words only: {question:?}");
        assert!(question.text().ends_with("Reply with yes, no, or one of: 1 Allow Once, 2 Always Allow, 3 Reject"));
        let note = if with_task { says(word).to(&asked.id) } else { says(word).within(&asked.context) };
        let done = desk.task(note);
        assert_eq!((done.state(), &done.id), ("completed", &asked.id), "{word}");
        assert_eq!(file.exists(), writes, "{word}");
        let first = answer("answer-1", "I will write it.");
        let second = answer("answer-1.2", "It is written.");
        let expected = if writes { vec![first, second] } else { vec![first] };
        assert_eq!(answers(&done), expected, "{word}");
        let _ = std::fs::remove_file(&file);
    }
}

fn several_open_questions_are_listed(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-two-edits"));
    assert_eq!(asked.state(), "input-required");
    let question = asked.status.text();
    let calls: Vec<&str> = question.lines().filter_map(|line| line.strip_prefix("Call ")?.split(':').next()).collect();
    assert_eq!(calls.len(), 2, "{question}");
    for note in [says("yes").to(&asked.id), says("yes").within(&asked.context)] {
        let listed = desk.message(note.clone()).text();
        assert_eq!(listed, question);
        let streamed: Vec<_> = desk.stream(note).collect();
        assert!(
            matches!(&streamed[..], [one] if matches!(&one.update, Update::Message(said) if said.text() == listed))
        );
    }
    let next = desk.task(says(&format!("{}: no", calls[0])).within(&asked.context));
    assert_eq!((next.state(), &next.id), ("input-required", &asked.id));
    let done = desk.task(says("yes").within(&asked.context));
    assert_eq!((done.state(), &done.id), ("completed", &asked.id));
    let workspace = desk.server.workspace();
    assert_eq!(["kit.txt", "more.txt"].map(|file| workspace.join(file).exists()), [false, true]);
}

fn text_behind_a_question_is_answered_before_the_task_completes(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-edit"));
    let queued = desk.task(Note::new("tck-stream-text").to(&asked.id));
    assert_eq!((queued.state(), &queued.status), ("input-required", &asked.status), "it is told at once what is open");
    let seen = desk.stream(says("yes").to(&asked.id)).rest();
    assert_eq!(states(&seen).last(), Some(&"completed"));
    let expected = [
        answer("answer-1", "I will write it."),
        answer("answer-1.2", "It is written."),
        answer("answer-2", "one two three four five"),
    ];
    assert_eq!(answers(&desk.get(&asked.id)), expected);
}

fn text_beside_an_answer_is_answered(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-edit"));
    let task = desk.done(&Op::Get(asked.id.clone(), None));
    let metadata = &task["status"]["message"]["metadata"]["urn:gemini-a2a:plain:v1"];
    let data = json!({"tool_call_id": metadata["calls"][0]["tool_call_id"], "selected_option_id": "proceed_once"});
    let parts = vec![Piece::Data(data.clone()), Piece::Text(data.to_string()), Piece::Text("and more".into())];
    let done = desk.task(Note::new("tck-stream-text").to(&asked.id).saying(parts));
    assert_eq!(done.state(), "completed");
    let expected = [
        answer("answer-1", "I will write it."),
        answer("answer-1.2", "It is written."),
        answer("answer-2", "one two three four five"),
    ];
    assert_eq!(answers(&done), expected);
    let repeated: Vec<String> =
        done.history().iter().map(|said| said.text()).filter(|text| text.contains("selected")).collect();
    assert_eq!(repeated, Vec::<String>::new(), "a repetition of the answer as text is ignored");
}

fn any_text_answers_a_question_that_takes_text(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let done = desk.task(Note::new("tck-stream-text").within(&asked.context));
    assert_eq!((done.state(), &done.id), ("completed", &asked.id));
    let other = desk.task(Note::new("tck-stream-text").within(&asked.context));
    assert_ne!(other.id, asked.id, "nothing is open any more");
    // Other text beside an approval makes a new task.
    let approval = desk.task(Note::new("tck-edit"));
    let beside = desk.task(Note::new("tck-stream-text").within(&approval.context));
    assert_ne!(beside.id, approval.id);
    assert_eq!(desk.get(&approval.id).state(), "input-required");
}

fn the_stream_of_an_answer_does_not_repeat_the_question(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let seen = desk.stream(Note::new("tck-stream-text").to(&asked.id)).rest();
    assert_eq!(states(&seen), ["working", "completed"]);
    let speaks = |seen: &Seen| matches!(&seen.update, Update::Task(task) if task.status.message.is_some());
    assert!(!seen.iter().any(speaks), "{seen:?}");
}

fn messages_to_a_working_task_are_answered_before_it_completes(desk: &mut Desk) {
    let mut stream = desk.stream(Note::new("tck-slow"));
    let started = stream.until("the beginning", |update| update.state() == Some("working"));
    let Update::Status { task, .. } = started.update else {
        panic!("a status, not {started:?}");
    };
    let mut second = desk.beside(desk.binding);
    let queued = match second.send(Note::new("tck-stream-text").to(&task).wait(Wait::Not)) {
        Answer::Task(task) => task,
        Answer::Message(said) => panic!("a bare message: {said:?}"),
    };
    assert_eq!(queued.state(), "working");
    let seen = stream.rest();
    assert_eq!(states(&seen), ["working", "completed"]);
    let said: Vec<String> = seen
        .iter()
        .filter_map(|seen| match &seen.update {
            Update::Artifact { artifact, .. } => Some(artifact.text()),
            Update::Status { .. } | Update::Task(_) | Update::Message(_) => None,
        })
        .collect();
    assert_eq!(said, ["Slow answer.", "one two three four five"]);
}

fn a_plain_task_may_stay_open(desk: &mut Desk) {
    let first = desk.task(Note::new("tck-stream-text"));
    assert_eq!(first.state(), "input-required");
    let seen = desk.stream(Note::new("tck-stream-text").to(&first.id)).rest();
    assert_eq!(states(&seen), ["working", "input-required"], "the end of the first turn is not repeated");
    let second = desk.get(&first.id);
    let texts = [answer("answer-1", "one two three four five"), answer("answer-2", "one two three four five")];
    assert_eq!(answers(&second), texts);
    assert_eq!(desk.cancel(&first.id).state(), "canceled");
}
