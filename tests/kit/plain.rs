//! The plain profile, for clients that name no other: whole answers, questions in words, tasks that end with their turn.

use crate::binding::{Op, Part, Prompt, Wait};
use crate::harness::{Harness, StreamEvent, states};
use crate::problem::Fault;
use crate::shape::{Answer, Task, Update};
use serde_json::json;

every_binding! {
    a_turn_completes_its_task_and_the_context_goes_on,
    a_word_answers_with_the_task_or_the_context_alone,
    several_open_questions_are_listed,
    text_sent_while_a_question_is_open_is_answered_before_the_task_completes,
    text_beside_an_answer_is_answered,
    any_text_answers_a_question_that_takes_text,
    the_stream_of_an_answer_does_not_repeat_the_question,
    messages_to_a_working_task_are_answered_before_it_completes,
    a_plain_task_may_stay_open [&["--plain-lifecycle", "conversational"]],
}

fn prompt(text: &str) -> Prompt {
    Prompt::new("tck-words").with_parts(vec![Part::Text(text.into())])
}

/// The answers of a task, by artifact.
fn answers(task: &Task) -> Vec<(String, String)> {
    task.artifacts().iter().map(|artifact| (artifact.id.clone(), artifact.text())).collect()
}

fn answer(id: &str, text: &str) -> (String, String) {
    (id.to_owned(), text.to_owned())
}

fn a_turn_completes_its_task_and_the_context_goes_on(harness: &mut Harness) {
    let first = harness.task(Prompt::new("tck-stream-text"));
    assert_eq!(first.state(), "completed");
    assert_eq!(answers(&first), [answer("answer-1", "one two three four five")]);
    harness.expect_refusal(&Op::Send(prompt("more").to(&first.id)), Fault::TaskIsOver);
    let second = harness.task(Prompt::new("tck-stream-text").within(&first.context));
    assert_eq!((second.state(), &second.context), ("completed", &first.context));
    assert_ne!(second.id, first.id);
}

fn a_word_answers_with_the_task_or_the_context_alone(harness: &mut Harness) {
    let file = harness.server.workspace().join("kit.txt");
    for (word, with_task, writes) in [
        ("yes", true, true),
        ("yes", false, true),
        ("1", false, true),
        ("Allow once.", false, true),
        ("no", true, false),
        ("Reject", false, false),
    ] {
        let asked = harness.task(Prompt::new("tck-edit"));
        assert_eq!(asked.state(), "input-required");
        let question = asked.status.message.as_ref().expect("a question");
        assert!(matches!(&question.parts[..], [Part::Text(_)]), "words only: {question:?}");
        assert!(question.text().ends_with("Reply with yes, no, or one of: 1 Allow Once, 2 Always Allow, 3 Reject"));
        let prompt = if with_task { prompt(word).to(&asked.id) } else { prompt(word).within(&asked.context) };
        let done = harness.task(prompt);
        assert_eq!((done.state(), &done.id), ("completed", &asked.id), "{word}");
        assert_eq!(file.exists(), writes, "{word}");
        let first = answer("answer-1", "I will write it.");
        let second = answer("answer-1.2", "It is written.");
        let expected = if writes { vec![first, second] } else { vec![first] };
        assert_eq!(answers(&done), expected, "{word}");
        let _ = std::fs::remove_file(&file);
    }
}

fn several_open_questions_are_listed(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-two-edits"));
    assert_eq!(asked.state(), "input-required");
    let question = asked.status.text();
    let calls: Vec<&str> = question.lines().filter_map(|line| line.strip_prefix("Call ")?.split(':').next()).collect();
    assert_eq!(calls.len(), 2, "{question}");
    for prompt in [prompt("yes").to(&asked.id), prompt("yes").within(&asked.context)] {
        let listed = harness.message(prompt.clone()).text();
        assert_eq!(listed, question);
        let streamed: Vec<_> = harness.stream(prompt).collect();
        assert!(
            matches!(&streamed[..], [one] if matches!(&one.update, Update::Message(message) if message.text() == listed))
        );
    }
    let next = harness.task(prompt(&format!("{}: no", calls[0])).within(&asked.context));
    assert_eq!((next.state(), &next.id), ("input-required", &asked.id));
    let done = harness.task(prompt("yes").within(&asked.context));
    assert_eq!((done.state(), &done.id), ("completed", &asked.id));
    let workspace = harness.server.workspace();
    assert_eq!(["kit.txt", "more.txt"].map(|file| workspace.join(file).exists()), [false, true]);
}

fn text_sent_while_a_question_is_open_is_answered_before_the_task_completes(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-edit"));
    let queued = harness.task(Prompt::new("tck-stream-text").to(&asked.id));
    assert_eq!(
        (queued.state(), &queued.status),
        ("input-required", &asked.status),
        "the response has the open question"
    );
    let events = harness.stream(prompt("yes").to(&asked.id)).rest();
    assert_eq!(states(&events).last(), Some(&"completed"));
    let expected = [
        answer("answer-1", "I will write it."),
        answer("answer-1.2", "It is written."),
        answer("answer-2", "one two three four five"),
    ];
    assert_eq!(answers(&harness.get(&asked.id)), expected);
}

fn text_beside_an_answer_is_answered(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-edit"));
    let task = harness.expect_result(&Op::Get(asked.id.clone(), None));
    let metadata = &task["status"]["message"]["metadata"]["urn:gemini-a2a:plain:v1"];
    let data = json!({"tool_call_id": metadata["calls"][0]["tool_call_id"], "selected_option_id": "proceed_once"});
    let parts = vec![Part::Data(data.clone()), Part::Text(data.to_string()), Part::Text("and more".into())];
    let done = harness.task(Prompt::new("tck-stream-text").to(&asked.id).with_parts(parts));
    assert_eq!(done.state(), "completed");
    let expected = [
        answer("answer-1", "I will write it."),
        answer("answer-1.2", "It is written."),
        answer("answer-2", "one two three four five"),
    ];
    assert_eq!(answers(&done), expected);
    let repeated: Vec<String> =
        done.history().iter().map(|message| message.text()).filter(|text| text.contains("selected")).collect();
    assert_eq!(repeated, Vec::<String>::new(), "a repetition of the answer as text is ignored");
}

fn any_text_answers_a_question_that_takes_text(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let done = harness.task(Prompt::new("tck-stream-text").within(&asked.context));
    assert_eq!((done.state(), &done.id), ("completed", &asked.id));
    let other = harness.task(Prompt::new("tck-stream-text").within(&asked.context));
    assert_ne!(other.id, asked.id, "nothing is open any more");
    // Text that does not answer an approval creates a new task.
    let approval = harness.task(Prompt::new("tck-edit"));
    let beside = harness.task(Prompt::new("tck-stream-text").within(&approval.context));
    assert_ne!(beside.id, approval.id);
    assert_eq!(harness.get(&approval.id).state(), "input-required");
}

fn the_stream_of_an_answer_does_not_repeat_the_question(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let events = harness.stream(Prompt::new("tck-stream-text").to(&asked.id)).rest();
    assert_eq!(states(&events), ["working", "completed"]);
    let has_message =
        |event: &StreamEvent| matches!(&event.update, Update::Task(task) if task.status.message.is_some());
    assert!(!events.iter().any(has_message), "{events:?}");
}

fn messages_to_a_working_task_are_answered_before_it_completes(harness: &mut Harness) {
    let mut stream = harness.stream(Prompt::new("tck-slow"));
    let started = stream.until("the beginning", |update| update.state() == Some("working"));
    let Update::Status { task, .. } = started.update else {
        panic!("a status, not {started:?}");
    };
    let mut second = harness.other_client(harness.binding);
    let queued = match second.send(Prompt::new("tck-stream-text").to(&task).wait(Wait::No)) {
        Answer::Task(task) => task,
        Answer::Message(message) => panic!("a bare message: {message:?}"),
    };
    assert_eq!(queued.state(), "working");
    let events = stream.rest();
    assert_eq!(states(&events), ["working", "completed"]);
    let answers: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.update {
            Update::Artifact { artifact, .. } => Some(artifact.text()),
            Update::Status { .. } | Update::Task(_) | Update::Message(_) => None,
        })
        .collect();
    assert_eq!(answers, ["Slow answer.", "one two three four five"]);
}

fn a_plain_task_may_stay_open(harness: &mut Harness) {
    let first = harness.task(Prompt::new("tck-stream-text"));
    assert_eq!(first.state(), "input-required");
    let events = harness.stream(Prompt::new("tck-stream-text").to(&first.id)).rest();
    assert_eq!(states(&events), ["working", "input-required"], "the end of the first turn is not repeated");
    let second = harness.get(&first.id);
    let texts = [answer("answer-1", "one two three four five"), answer("answer-2", "one two three four five")];
    assert_eq!(answers(&second), texts);
    assert_eq!(harness.cancel(&first.id).state(), "canceled");
}
