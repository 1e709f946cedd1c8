//! Sending a message: the response, the time of the response, and the errors.

use crate::binding::{Binding, File, Frame, Op, Part, Prompt, Wait};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::shape::{Message, is_terminal};
use crate::support::eventually;
use serde_json::{Value, json};

every_binding! {
    a_message_is_answered_with_a_task,
    messages_in_the_history_have_their_task_and_context,
    the_agent_may_answer_with_a_bare_message,
    a_response_waits_for_the_end_of_the_task,
    a_response_does_not_wait_if_the_client_says_so,
    a_response_does_not_wait_for_the_answer_to_a_question,
    a_missing_credential_is_asked_for_in_a_task_with_words,
    a_task_may_be_rejected_or_fail,
    a_task_continues_with_the_next_message,
    the_context_beside_a_task_must_be_its_own,
    a_context_may_be_chosen_and_is_kept,
    an_invalid_context_is_refused_and_not_replaced,
    a_message_to_an_unknown_task_creates_no_task,
    a_task_that_has_ended_accepts_no_messages,
    a_message_without_its_required_members_is_refused,
    a_body_that_is_no_json_is_refused,
    a_file_of_an_unsupported_type_is_refused,
    unknown_members_are_ignored_and_nulls_are_absent,
    a_repeated_message_is_another_message,
    no_more_history_than_asked_for,
    artifacts_hold_text_files_links_and_data,
    long_and_non_ascii_text_is_kept,
    files_links_and_data_may_be_sent,
    a_model_that_fails_once_is_asked_again,
    an_approval_is_a_question,
}

fn a_message_is_answered_with_a_task(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-complete-task"));
    assert_eq!((task.state(), task.status.text()), ("completed", "Hello from TCK".into()));
    assert!(!task.id.is_empty() && !task.context.is_empty());
    let other = harness.task(Prompt::new("tck-complete-task"));
    assert_ne!((&task.id, &task.context), (&other.id, &other.context));
}

fn messages_in_the_history_have_their_task_and_context(harness: &mut Harness) {
    let prompt = Prompt::new("tck-complete-task");
    let task = harness.task(prompt.clone());
    let first = &task.history()[0];
    assert_eq!((first.id.as_str(), first.role, first.text()), (prompt.id.as_str(), "user", "go".into()));
    assert_eq!(first.task.as_deref(), Some(task.id.as_str()));
    assert_eq!(first.context.as_deref(), Some(task.context.as_str()));
}

fn the_agent_may_answer_with_a_bare_message(harness: &mut Harness) {
    let message = harness.message(Prompt::new("tck-message-response"));
    assert_eq!((message.role, message.text()), ("agent", "Direct message response".into()));
    assert!(message.context.is_some(), "a message names its context");
    assert_eq!(harness.task_count(), 0);
}

fn a_response_waits_for_the_end_of_the_task(harness: &mut Harness) {
    for wait in [None, Some(Wait::UntilEnd)] {
        let prompt = Prompt { wait, ..Prompt::new("tck-delayed-complete") };
        let task = harness.task(prompt);
        assert_eq!((task.state(), task.status.text()), ("completed", "Done after delay".into()));
    }
}

fn a_response_does_not_wait_if_the_client_says_so(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-delayed-complete").wait(Wait::No));
    assert!(!is_terminal(task.state()), "{task:?}");
    let id = task.id.clone();
    eventually("the end of the task", || is_terminal(harness.get(&id).state()).then_some(()));
}

fn a_response_does_not_wait_for_the_answer_to_a_question(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-input-required"));
    assert_eq!((task.state(), task.status.text()), ("input-required", "What else do you want?".into()));
}

fn a_missing_credential_is_asked_for_in_a_task_with_words(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-auth-required"));
    assert_eq!((task.state(), task.status.text()), ("auth-required", "Please sign in first.".into()));
    assert_eq!(harness.get(&task.id).state(), "auth-required");
}

fn a_task_may_be_rejected_or_fail(harness: &mut Harness) {
    for (prompt, state, text) in
        [("tck-reject-task", "rejected", "rejected"), ("tck-fail-task", "failed", "It went wrong, as the script says.")]
    {
        let task = harness.task(Prompt::new(prompt));
        assert_eq!((task.state(), task.status.text().as_str()), (state, text));
    }
}

fn a_task_continues_with_the_next_message(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let done = harness.task(Prompt::new("tck-complete-task").to(&asked.id));
    assert_eq!((&done.id, &done.context), (&asked.id, &asked.context));
    assert_eq!(done.state(), "completed");
    assert_eq!(done.prompt_ids().len(), 2);
}

fn the_context_beside_a_task_must_be_its_own(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let right = Prompt::new("tck-input-required").to(&asked.id).within(&asked.context);
    assert_eq!(harness.task(right).id, asked.id);
    let wrong = Prompt::new("tck-input-required").to(&asked.id).within("another");
    // Clients of REST 0.3 send a context that they have made up, which the server ignores.
    if harness.binding == Binding::Rest03 {
        assert_eq!(harness.task(wrong).context, asked.context);
    } else {
        harness.expect_refusal(&Op::Send(wrong.clone()), Fault::InvalidParams);
        harness.expect_refusal(&Op::Stream(wrong), Fault::InvalidParams);
    }
}

fn a_context_may_be_chosen_and_is_kept(harness: &mut Harness) {
    let context = "client-context-001";
    let first = harness.task(Prompt::new("tck-complete-task").within(context));
    let second = harness.task(Prompt::new("tck-complete-task").within(context));
    assert_eq!((first.context.as_str(), second.context.as_str()), (context, context));
    assert_ne!(first.id, second.id);
}

fn an_invalid_context_is_refused_and_not_replaced(harness: &mut Harness) {
    for context in ["x".repeat(129), "line\nbreak".into()] {
        let prompt = Prompt::new("tck-complete-task").within(&context);
        harness.expect_refusal(&Op::Send(prompt), Fault::InvalidParams);
    }
    assert_eq!(harness.task_count(), 0);
}

fn a_message_to_an_unknown_task_creates_no_task(harness: &mut Harness) {
    let prompt = Prompt::new("tck-complete-task").to("nobody-made-this");
    harness.expect_refusal(&Op::Send(prompt.clone()), Fault::TaskNotFound);
    harness.expect_refusal(&Op::Stream(prompt), Fault::TaskNotFound);
    assert_eq!(harness.task_count(), 0);
}

fn a_task_that_has_ended_accepts_no_messages(harness: &mut Harness) {
    for end in ["tck-complete-task", "tck-reject-task", "tck-fail-task"] {
        let over = harness.task(Prompt::new(end));
        let late = Prompt::new("tck-complete-task").to(&over.id);
        harness.expect_refusal(&Op::Send(late.clone()), Fault::TaskIsOver);
        harness.expect_refusal(&Op::Stream(late), Fault::TaskIsOver);
        assert_eq!(harness.get(&over.id), over);
    }
    let task = harness.task(Prompt::new("tck-input-required"));
    harness.cancel(&task.id);
    let late = Prompt::new("tck-complete-task").to(&task.id);
    harness.expect_refusal(&Op::Send(late), Fault::TaskIsOver);
}

fn a_message_without_its_required_members_is_refused(harness: &mut Harness) {
    let whole = Op::Send(Prompt::new("tck-complete-task"));
    let parts = match harness.binding {
        Binding::Rest03 => "content",
        Binding::Rpc03 | Binding::Rpc10 | Binding::Rest10 => "parts",
    };
    let without = |message: &mut Value, name: &str| {
        message.as_object_mut().expect("a message").remove(name);
    };
    type Change = Box<dyn Fn(&mut Value)>;
    let changes: Vec<Change> = vec![
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
    for change in &changes {
        let id = json!("invalid");
        let mut request = harness.binding.request(&whole, &id);
        let body = request.body.as_mut().expect("a body");
        let params = match body.get("params") {
            Some(_) => &mut body["params"],
            None => body,
        };
        change(&mut params["message"]);
        let sent = params.to_string();
        let refusal = match harness.result_of(&request, &id, &[]) {
            Err(refusal) => refusal,
            Ok(result) => panic!("{:?}: {sent} was accepted: {result}", harness.binding),
        };
        refusal.check(harness.binding, Fault::InvalidParams);
    }
    assert_eq!(harness.task_count(), 0);
}

fn a_body_that_is_no_json_is_refused(harness: &mut Harness) {
    let request = harness.binding.request(&Op::Send(Prompt::new("x")), &Value::Null);
    for body in [r#"{"message": {"#, "", "null", "[]", "\u{feff}{}"] {
        let fields = [("Content-Type", "application/json")];
        let response = harness.client.request(request.method, &request.path, &fields, body.as_bytes());
        let fault = match (body, harness.binding.frame()) {
            (r#"{"message": {"# | "\u{feff}{}", _) => Fault::ParseError,
            (_, Frame::Rpc) => Fault::InvalidRequest,
            (_, Frame::Rest) => Fault::InvalidParams,
        };
        let refusal = harness.parse(&response, &Value::Null).expect_err("a refusal");
        refusal.check(harness.binding, fault);
    }
    assert_eq!(harness.task_count(), 0);
}

fn a_file_of_an_unsupported_type_is_refused(harness: &mut Harness) {
    let file = File { name: None, media: Some("application/x-unsupported-tck-type".into()) };
    let prompt = Prompt::new("tck-send-003").with_parts(vec![Part::Bytes("dGNr".into(), file)]);
    harness.expect_refusal(&Op::Send(prompt), Fault::ContentType);
}

fn unknown_members_are_ignored_and_nulls_are_absent(harness: &mut Harness) {
    let id = json!(1);
    let mut request = harness.binding.request(&Op::Send(Prompt::new("tck-complete-task")), &id);
    let body = request.body.as_mut().expect("a body");
    let params = match body.get("params") {
        Some(_) => &mut body["params"],
        None => body,
    };
    params["tckExtraParam"] = json!(42);
    params["message"]["tckUnknownField"] = json!({"to": ["be", "ignored"]});
    for name in ["taskId", "contextId", "metadata"] {
        params["message"][name] = Value::Null;
    }
    let result = harness.result_of(&request, &id, &[]);
    let result = result.unwrap_or_else(|refusal| panic!("{:?}: {refusal:?}", harness.binding));
    assert_ne!(result, Value::Null);
}

fn a_repeated_message_is_another_message(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let again = Prompt { id: "tck-input-required-again".into(), ..Prompt::new("") }.to(&asked.id);
    for words in ["the first", "the second", "the second"] {
        harness.task(again.clone().with_parts(vec![Part::Text(words.into())]));
    }
    harness.task(Prompt::new("tck-complete-task").to(&asked.id));

    // Messages with the same id are all kept, in their order.
    let task = harness.get(&asked.id);
    let repeated: Vec<String> =
        task.history().iter().filter(|message| message.id == again.id).map(Message::text).collect();
    assert_eq!(repeated, ["the first", "the second", "the second"]);
    assert_eq!(task.prompt_ids()[1..4], [again.id.as_str(); 3]);
}

fn no_more_history_than_asked_for(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let none = Prompt::new("tck-input-required").to(&asked.id).wait(Wait::UntilEnd).history(0);
    assert_eq!(harness.task(none).history, None);
    let one = Prompt::new("tck-input-required").to(&asked.id).wait(Wait::UntilEnd).history(1);
    assert_eq!(harness.task(one).history().len(), 1);
    let all = harness.task(Prompt::new("tck-input-required").to(&asked.id));
    assert_eq!(all.prompt_ids().len(), 4);
    let negative = Prompt::new("tck-complete-task").wait(Wait::UntilEnd).history(-1);
    harness.expect_refusal(&Op::Send(negative), Fault::InvalidParams);
}

fn artifacts_hold_text_files_links_and_data(harness: &mut Harness) {
    let output = || File { name: Some("output.txt".into()), media: Some("text/plain".into()) };
    for (prompt, part) in [
        ("tck-artifact-text", Part::Text("Generated text content".into())),
        ("tck-artifact-file", Part::Bytes("dGNr".into(), output())),
        ("tck-artifact-file-url", Part::Url("https://example.com/output.txt".into(), output())),
        ("tck-artifact-data", Part::Data(json!({"key": "value", "count": 42}))),
    ] {
        let task = harness.task(Prompt::new(prompt));
        assert_eq!(task.state(), "completed", "{prompt}");
        assert_eq!(task.artifacts()[0].parts, [harness.binding.shown(part)], "{prompt}");
        assert_eq!(harness.get(&task.id).artifacts(), task.artifacts(), "{prompt}");
    }
}

fn long_and_non_ascii_text_is_kept(harness: &mut Harness) {
    let text = format!("你好, здравствуйте, مرحبا \u{8}\u{c}\t\r\n\u{0} {}", "A".repeat(1 << 20));
    let prompt = Prompt::new("tck-complete-task").with_parts(vec![Part::Text(text.clone())]);
    let task = harness.task(prompt);
    assert_eq!(harness.get(&task.id).history()[0].text(), text);
}

fn files_links_and_data_may_be_sent(harness: &mut Harness) {
    let file = || File { name: Some("a.txt".into()), media: Some("text/plain".into()) };
    let parts = vec![
        Part::Text("look".into()),
        Part::Bytes("aGk=".into(), file()),
        Part::Url("https://example.com/a.txt".into(), file()),
        Part::Data(json!({"n": 1, "nested": {"list": [1, 2, 3]}})),
    ];
    let task = harness.task(Prompt::new("tck-complete-task").with_parts(parts.clone()));
    let shown: Vec<Part> = parts.into_iter().map(|part| harness.binding.shown(part)).collect();
    assert_eq!(task.history()[0].parts, shown);
}

fn a_model_that_fails_once_is_asked_again(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-retry"));
    assert_eq!((task.state(), task.status.text()), ("completed", "Done at the second try.".into()));
}

fn an_approval_is_a_question(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-approval"));
    assert_eq!(task.state(), "input-required");
    let written = harness.server.workspace().join("kit.txt");
    assert!(!written.exists());
    let yes = Prompt::new("tck-yes").to(&task.id).with_parts(vec![Part::Text("yes".into())]);
    assert_eq!(harness.task(yes).state(), "completed");
    assert!(written.exists());
}
