//! Sending a message: what is answered, when, and what is refused.

use crate::binding::{Binding, File, Frame, Note, Op, Piece, Wait};
use crate::desk::Desk;
use crate::problem::Fault;
use crate::shape::{Said, is_terminal};
use crate::support::eventually;
use serde_json::{Value, json};

duties! {
    a_message_is_answered_with_a_task,
    what_was_said_is_in_the_history_with_its_task_and_context,
    the_agent_may_answer_with_a_bare_message,
    an_answer_waits_for_the_end_of_the_work,
    an_answer_does_not_wait_if_asked_not_to,
    an_answer_waits_no_longer_than_for_a_question,
    a_missing_credential_is_asked_for_in_a_task_with_words,
    a_task_may_be_rejected_or_fail,
    a_task_goes_on_with_the_next_message,
    the_context_beside_a_task_must_be_its_own,
    a_context_may_be_chosen_and_is_kept,
    a_context_that_cannot_be_is_refused_not_replaced,
    a_task_is_never_made_by_naming_it,
    a_task_that_is_over_takes_no_messages,
    a_message_without_its_required_members_is_refused,
    a_body_that_is_no_json_is_refused,
    a_part_of_a_kind_nobody_can_read_is_refused,
    unknown_members_are_ignored_and_nulls_are_absent,
    a_repeated_message_counts_again,
    no_more_history_than_asked_for,
    artifacts_hold_text_files_links_and_data,
    long_and_foreign_text_is_kept,
    files_links_and_data_may_be_sent,
    a_model_that_fails_once_is_asked_again,
    an_approval_is_a_question,
}

fn a_message_is_answered_with_a_task(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-complete-task"));
    assert_eq!((task.state(), task.status.text()), ("completed", "Hello from TCK".into()));
    assert!(!task.id.is_empty() && !task.context.is_empty());
    let other = desk.task(Note::new("tck-complete-task"));
    assert_ne!((&task.id, &task.context), (&other.id, &other.context));
}

fn what_was_said_is_in_the_history_with_its_task_and_context(desk: &mut Desk) {
    let note = Note::new("tck-complete-task");
    let task = desk.task(note.clone());
    let first = &task.history()[0];
    assert_eq!((first.id.as_str(), first.role, first.text()), (note.id.as_str(), "user", "go".into()));
    assert_eq!(first.task.as_deref(), Some(task.id.as_str()));
    assert_eq!(first.context.as_deref(), Some(task.context.as_str()));
}

fn the_agent_may_answer_with_a_bare_message(desk: &mut Desk) {
    let said = desk.message(Note::new("tck-message-response"));
    assert_eq!((said.role, said.text()), ("agent", "Direct message response".into()));
    assert!(said.context.is_some(), "a message names the context it belongs to");
    assert_eq!(desk.tasks(), 0);
}

fn an_answer_waits_for_the_end_of_the_work(desk: &mut Desk) {
    for wait in [None, Some(Wait::Whole)] {
        let note = Note { wait, ..Note::new("tck-delayed-complete") };
        let task = desk.task(note);
        assert_eq!((task.state(), task.status.text()), ("completed", "Done after delay".into()));
    }
}

fn an_answer_does_not_wait_if_asked_not_to(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-delayed-complete").wait(Wait::Not));
    assert!(!is_terminal(task.state()), "{task:?}");
    let id = task.id.clone();
    eventually("the end of the work", || is_terminal(desk.get(&id).state()).then_some(()));
}

fn an_answer_waits_no_longer_than_for_a_question(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-input-required"));
    assert_eq!((task.state(), task.status.text()), ("input-required", "What else do you want?".into()));
}

fn a_missing_credential_is_asked_for_in_a_task_with_words(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-auth-required"));
    assert_eq!((task.state(), task.status.text()), ("auth-required", "Please sign in first.".into()));
    assert_eq!(desk.get(&task.id).state(), "auth-required");
}

fn a_task_may_be_rejected_or_fail(desk: &mut Desk) {
    for (note, state, text) in
        [("tck-reject-task", "rejected", "rejected"), ("tck-fail-task", "failed", "It went wrong, as the script says.")]
    {
        let task = desk.task(Note::new(note));
        assert_eq!((task.state(), task.status.text().as_str()), (state, text));
    }
}

fn a_task_goes_on_with_the_next_message(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let done = desk.task(Note::new("tck-complete-task").to(&asked.id));
    assert_eq!((&done.id, &done.context), (&asked.id, &asked.context));
    assert_eq!(done.state(), "completed");
    assert_eq!(done.asked().len(), 2);
}

fn the_context_beside_a_task_must_be_its_own(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let right = Note::new("tck-input-required").to(&asked.id).within(&asked.context);
    assert_eq!(desk.task(right).id, asked.id);
    let wrong = Note::new("tck-input-required").to(&asked.id).within("another");
    // Clients of REST 0.3 send one they made up; there the task decides.
    if desk.binding == Binding::Rest03 {
        assert_eq!(desk.task(wrong).context, asked.context);
    } else {
        desk.refused(&Op::Send(wrong.clone()), Fault::InvalidParams);
        desk.refused(&Op::Stream(wrong), Fault::InvalidParams);
    }
}

fn a_context_may_be_chosen_and_is_kept(desk: &mut Desk) {
    let context = "client-context-001";
    let first = desk.task(Note::new("tck-complete-task").within(context));
    let second = desk.task(Note::new("tck-complete-task").within(context));
    assert_eq!((first.context.as_str(), second.context.as_str()), (context, context));
    assert_ne!(first.id, second.id);
}

fn a_context_that_cannot_be_is_refused_not_replaced(desk: &mut Desk) {
    for context in ["x".repeat(129), "line\nbreak".into()] {
        let note = Note::new("tck-complete-task").within(&context);
        desk.refused(&Op::Send(note), Fault::InvalidParams);
    }
    assert_eq!(desk.tasks(), 0);
}

fn a_task_is_never_made_by_naming_it(desk: &mut Desk) {
    let note = Note::new("tck-complete-task").to("nobody-made-this");
    desk.refused(&Op::Send(note.clone()), Fault::TaskNotFound);
    desk.refused(&Op::Stream(note), Fault::TaskNotFound);
    assert_eq!(desk.tasks(), 0);
}

fn a_task_that_is_over_takes_no_messages(desk: &mut Desk) {
    for end in ["tck-complete-task", "tck-reject-task", "tck-fail-task"] {
        let over = desk.task(Note::new(end));
        let late = Note::new("tck-complete-task").to(&over.id);
        desk.refused(&Op::Send(late.clone()), Fault::TaskIsOver);
        desk.refused(&Op::Stream(late), Fault::TaskIsOver);
        assert_eq!(desk.get(&over.id), over);
    }
    let task = desk.task(Note::new("tck-input-required"));
    desk.cancel(&task.id);
    let late = Note::new("tck-complete-task").to(&task.id);
    desk.refused(&Op::Send(late), Fault::TaskIsOver);
}

fn a_message_without_its_required_members_is_refused(desk: &mut Desk) {
    let whole = Op::Send(Note::new("tck-complete-task"));
    let parts = match desk.binding {
        Binding::Rest03 => "content",
        Binding::Rpc03 | Binding::Rpc10 | Binding::Rest10 => "parts",
    };
    let without = |message: &mut Value, name: &str| {
        message.as_object_mut().expect("a message").remove(name);
    };
    type Spoil = Box<dyn Fn(&mut Value)>;
    let spoilt: Vec<Spoil> = vec![
        Box::new(move |message| without(message, "messageId")),
        Box::new(move |message| without(message, "role")),
        Box::new(move |message| without(message, parts)),
        Box::new(move |message| message[parts] = json!([])),
        Box::new(move |message| message[parts] = json!("invalid")),
        Box::new(move |message| message[parts] = json!([{}])),
        Box::new(move |message| message[parts] = json!([{"kind": "unheard-of", "what": 1}])),
        Box::new(move |message| message[parts] = json!([{"type": "unsupported_type", "text": "a"}])),
        Box::new(|message| message["messageId"] = json!(7)),
        Box::new(|message| message["role"] = json!("nobody")),
        Box::new(|message| *message = json!({"kind": "message"})),
        Box::new(|message| *message = json!("hello")),
        Box::new(|message| *message = Value::Null),
    ];
    for spoil in &spoilt {
        let id = json!("spoilt");
        let mut wire = desk.binding.wire(&whole, &id);
        let body = wire.body.as_mut().expect("a body");
        let params = match body.get("params") {
            Some(_) => &mut body["params"],
            None => body,
        };
        spoil(&mut params["message"]);
        let sent = params.to_string();
        let refusal = match desk.put_as(&wire, &id, &[]) {
            Err(refusal) => refusal,
            Ok(result) => panic!("{:?}: {sent} was taken: {result}", desk.binding),
        };
        refusal.check(desk.binding, Fault::InvalidParams);
    }
    assert_eq!(desk.tasks(), 0);
}

fn a_body_that_is_no_json_is_refused(desk: &mut Desk) {
    let wire = desk.binding.wire(&Op::Send(Note::new("x")), &Value::Null);
    for body in [r#"{"message": {"#, "", "null", "[]", "\u{feff}{}"] {
        let fields = [("Content-Type", "application/json")];
        let response = desk.client.request(wire.method, &wire.path, &fields, body.as_bytes());
        let fault = match (body, desk.binding.frame()) {
            (r#"{"message": {"# | "\u{feff}{}", _) => Fault::ParseError,
            (_, Frame::Rpc) => Fault::InvalidRequest,
            (_, Frame::Rest) => Fault::InvalidParams,
        };
        let refusal = desk.read(&response, &Value::Null).expect_err("a refusal");
        refusal.check(desk.binding, fault);
    }
    assert_eq!(desk.tasks(), 0);
}

fn a_part_of_a_kind_nobody_can_read_is_refused(desk: &mut Desk) {
    let file = File { name: None, media: Some("application/x-unsupported-tck-type".into()) };
    let note = Note::new("tck-send-003").saying(vec![Piece::Bytes("dGNr".into(), file)]);
    desk.refused(&Op::Send(note), Fault::ContentType);
}

fn unknown_members_are_ignored_and_nulls_are_absent(desk: &mut Desk) {
    let id = json!(1);
    let mut wire = desk.binding.wire(&Op::Send(Note::new("tck-complete-task")), &id);
    let body = wire.body.as_mut().expect("a body");
    let params = match body.get("params") {
        Some(_) => &mut body["params"],
        None => body,
    };
    params["tckExtraParam"] = json!(42);
    params["message"]["tckUnknownField"] = json!({"to": ["be", "ignored"]});
    for name in ["taskId", "contextId", "metadata"] {
        params["message"][name] = Value::Null;
    }
    let result = desk.put_as(&wire, &id, &[]);
    let result = result.unwrap_or_else(|refusal| panic!("{:?}: {refusal:?}", desk.binding));
    assert_ne!(result, Value::Null);
}

fn a_repeated_message_counts_again(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let again = Note { id: "tck-input-required-again".into(), ..Note::new("") }.to(&asked.id);
    for words in ["the first", "the second", "the second"] {
        desk.task(again.clone().saying(vec![Piece::Text(words.into())]));
    }
    desk.task(Note::new("tck-complete-task").to(&asked.id));

    // Under the same id also other words are kept, in the order they were said.
    let task = desk.get(&asked.id);
    let repeated: Vec<String> = task.history().iter().filter(|said| said.id == again.id).map(Said::text).collect();
    assert_eq!(repeated, ["the first", "the second", "the second"]);
    assert_eq!(task.asked()[1..4], [again.id.as_str(); 3]);
}

fn no_more_history_than_asked_for(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let none = Note::new("tck-input-required").to(&asked.id).wait(Wait::Whole).history(0);
    assert_eq!(desk.task(none).history, None);
    let one = Note::new("tck-input-required").to(&asked.id).wait(Wait::Whole).history(1);
    assert_eq!(desk.task(one).history().len(), 1);
    let all = desk.task(Note::new("tck-input-required").to(&asked.id));
    assert_eq!(all.asked().len(), 4);
    let negative = Note::new("tck-complete-task").wait(Wait::Whole).history(-1);
    desk.refused(&Op::Send(negative), Fault::InvalidParams);
}

fn artifacts_hold_text_files_links_and_data(desk: &mut Desk) {
    let output = || File { name: Some("output.txt".into()), media: Some("text/plain".into()) };
    for (note, part) in [
        ("tck-artifact-text", Piece::Text("Generated text content".into())),
        ("tck-artifact-file", Piece::Bytes("dGNr".into(), output())),
        ("tck-artifact-file-url", Piece::Url("https://example.com/output.txt".into(), output())),
        ("tck-artifact-data", Piece::Data(json!({"key": "value", "count": 42}))),
    ] {
        let task = desk.task(Note::new(note));
        assert_eq!(task.state(), "completed", "{note}");
        assert_eq!(task.artifacts()[0].parts, [desk.binding.shown(part)], "{note}");
        assert_eq!(desk.get(&task.id).artifacts(), task.artifacts(), "{note}");
    }
}

fn long_and_foreign_text_is_kept(desk: &mut Desk) {
    let text = format!("你好, здравствуйте, مرحبا \u{8}\u{c}\t\r\n\u{0} {}", "A".repeat(1 << 20));
    let note = Note::new("tck-complete-task").saying(vec![Piece::Text(text.clone())]);
    let task = desk.task(note);
    assert_eq!(desk.get(&task.id).history()[0].text(), text);
}

fn files_links_and_data_may_be_sent(desk: &mut Desk) {
    let file = || File { name: Some("a.txt".into()), media: Some("text/plain".into()) };
    let parts = vec![
        Piece::Text("look".into()),
        Piece::Bytes("aGk=".into(), file()),
        Piece::Url("https://example.com/a.txt".into(), file()),
        Piece::Data(json!({"n": 1, "nested": {"list": [1, 2, 3]}})),
    ];
    let task = desk.task(Note::new("tck-complete-task").saying(parts.clone()));
    let shown: Vec<Piece> = parts.into_iter().map(|part| desk.binding.shown(part)).collect();
    assert_eq!(task.history()[0].parts, shown);
}

fn a_model_that_fails_once_is_asked_again(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-retry"));
    assert_eq!((task.state(), task.status.text()), ("completed", "Done at the second try.".into()));
}

fn an_approval_is_a_question(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-approval"));
    assert_eq!(task.state(), "input-required");
    let written = desk.server.workspace().join("kit.txt");
    assert!(!written.exists());
    let yes = Note::new("tck-yes").to(&task.id).saying(vec![Piece::Text("yes".into())]);
    assert_eq!(desk.task(yes).state(), "completed");
    assert!(written.exists());
}
