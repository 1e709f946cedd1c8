//! Questions of servers during a call: forms, pages, who may answer, and what is stored.

use crate::drive::{Fixture, task_in};
use crate::support::client::{Client, Event};
use crate::support::eventually;
use crate::support::message::{asked_of, call_of, fresh, prompt, prompt_in};
use crate::support::socket::Socket;
use crate::{Mcp, ended, python};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

fn trusted(words: &str) -> Value {
    let mut server = python(words, json!({"HEARD": "heard"}));
    server["trust"] = json!(true);
    json!({ "x": server })
}

fn script(params: &Value) -> String {
    format!("CALL mcp_x_ask {} ;; TEXT done", json!({"text": params.to_string()}))
}

fn form(properties: Value, required: &[&str]) -> Value {
    json!({"mode": "form", "message": "Tell me", "requestedSchema": {"type": "object", "properties": properties, "required": required}})
}

fn every_kind() -> Value {
    form(
        json!({
            "a_flag": {"type": "boolean"},
            "b_choice": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
            "c_several": {"type": "array", "items": {"enum": ["x", "y", "z"]}},
            "d_count": {"type": "integer", "minimum": 1, "maximum": 9},
            "e_text": {"type": "string"},
        }),
        &["a_flag", "b_choice", "d_count"],
    )
}

/// Sends a prompt. Returns the task, and the call whose server asks.
fn asking(fixture: &Fixture, script: &str) -> (String, String, Value) {
    let events = fixture.say(script);
    let asked = events.iter().rev().find(|event| asked_of(event.result()).is_some()).expect("a question").result();
    (task_in(&events), asked_of(asked).expect("a call").to_owned(), call_of(asked).clone())
}

fn reply(task: &str, call: &str, outcome: &str, answers: Value) -> Value {
    let data = json!({"callId": call, "outcome": outcome, "answers": answers});
    json!({"message": {"kind": "message", "role": "user", "messageId": format!("m-{}", fresh()), "taskId": task,
        "parts": [{"kind": "data", "data": data}]}})
}

/// Sends a message. Returns the answer that the server got, which its tool returns.
fn told(fixture: &Fixture, params: Value) -> Value {
    let events: Vec<Event> = fixture.client().stream("message/stream", params).collect();
    let shown = ended(&events).unwrap_or_else(|| panic!("{events:#?}"))["response"]["resultDisplay"].clone();
    serde_json::from_str(shown.as_str().expect("a text")).expect("what it was told")
}

fn journal(mcp: &Mcp, task: &str) -> String {
    let path = mcp.fixture.server.state_dir().join(format!("tasks/{task}.jsonl"));
    std::fs::read_to_string(path).expect("a journal")
}

#[test]
fn check_61_the_first_valid_answer_of_several_clients_is_given_to_the_server_with_typed_values() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let (task, call, asked) = asking(&mcp.fixture, &script(&every_kind()));
    assert_eq!(mcp.fixture.state(&task), "input-required");
    let details = &asked["confirmationDetails"];
    assert_eq!((&details["type"], &details["title"]), (&json!("ask_user"), &json!("x asks: Tell me")), "{asked}");
    assert_eq!(details["questions"].as_array().map(Vec::len), Some(5));
    let (mut one, mut other) = (mcp.fixture.client(), mcp.fixture.client());
    let wrong = json!({"0": "yes", "1": "Red", "d_count": "ten"});
    let refused = one.rpc("message/send", reply(&task, &call, "proceed_once", wrong));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("answers.d_count")), "{refused}");
    assert_eq!(mcp.fixture.state(&task), "input-required", "the question is still open");
    assert_eq!(other.fault("message/send", reply(&task, &call, "proceed_always", json!({}))), -32602, "not offered");
    let right = json!({"0": "yes", "1": "Green", "c_several": ["x", "z"], "d_count": 7});
    let content = json!({"a_flag": true, "b_choice": "g", "c_several": ["x", "z"], "d_count": 7});
    let told = told(&mcp.fixture, reply(&task, &call, "proceed_once", right.clone()));
    assert_eq!(told, json!({"action": "accept", "content": content}));
    let late = other.rpc("message/send", reply(&task, &call, "proceed_once", right));
    assert!(late["error"]["message"].as_str().is_some_and(|text| text.contains("not waiting")), "{late}");
    let questions = mcp.heard().iter().filter(|message| message["id"] == "question").count();
    assert_eq!(questions, 1, "the server hears one answer");
}

#[test]
fn check_62_the_values_of_answers_are_not_in_the_journal() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let (task, call, _) = asking(&mcp.fixture, &script(&form(json!({"word": {"type": "string"}}), &["word"])));
    let mut params = reply(&task, &call, "proceed_once", json!({"word": "nobody-writes-this-down"}));
    // Also if the same message is a prompt.
    let parts = params["message"]["parts"].as_array_mut().expect("parts");
    parts.push(json!({"kind": "text", "text": "TEXT thanks"}));
    mcp.fixture.client().call("message/send", params);
    eventually("the answer arrives", || {
        mcp.heard().iter().any(|message| message.to_string().contains("nobody-writes-this-down")).then_some(())
    });
    eventually("the turn ends", || (mcp.fixture.fake.turns().len() > 2).then_some(()));
    let journal = journal(&mcp, &task);
    let replied = journal.lines().find(|line| line.contains("call_replied")).expect("it is recorded");
    assert!(replied.contains("\"action\":\"accept\",\"fields\":[\"word\"]"), "{replied}");
    // The tool of this server returns the answer that it got, so the answer is in the result of the call, but nowhere else.
    let others = journal.lines().filter(|line| !line.contains("call_ended"));
    assert!(others.clone().all(|line| !line.contains("nobody-writes")), "{journal}");
    assert!(others.into_iter().any(|line| line.contains("TEXT thanks")), "the prompt is kept");
}

#[test]
fn check_63_a_field_for_a_secret_is_shown_with_a_warning() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let (task, call, asked) = asking(&mcp.fixture, &script(&form(json!({"password": {"type": "string"}}), &[])));
    assert!(asked.to_string().contains("Warning: this asks for a secret"), "{asked}");
    assert_eq!(told(&mcp.fixture, reply(&task, &call, "cancel", json!({}))), json!({"action": "decline"}));
}

#[test]
fn check_64_a_page_without_https_is_declined_and_others_are_shown_whole() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let page = |url: &str| json!({"mode": "url", "elicitationId": "e", "url": url, "message": "Log in"});
    let events = mcp.fixture.say(&script(&page("http://example.org/login")));
    assert!(events.iter().all(|event| asked_of(event.result()).is_none()), "nobody is asked");
    let result = ended(&events).expect("an end")["response"]["resultDisplay"].clone();
    assert_eq!(result, "{\"action\": \"decline\"}");
    let (task, call, asked) = asking(&mcp.fixture, &script(&page("https://example.org/login?a=b")));
    let shown = "Visit this page in your browser, if you trust example.org: https://example.org/login?a=b";
    assert!(asked.to_string().contains(shown), "{asked}");
    assert_eq!(
        told(&mcp.fixture, reply(&task, &call, "proceed_once", json!({"0": "yes"}))),
        json!({"action": "accept"})
    );
}

#[test]
fn check_65_a_call_that_needs_a_page_is_repeated_once_after_the_visit() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let (task, call, _) = asking(&mcp.fixture, "CALL mcp_x_visit {\"text\": \"visited\"} ;; TEXT done");
    let events: Vec<Event> =
        mcp.fixture.client().stream("message/stream", reply(&task, &call, "proceed_once", json!({}))).collect();
    let asked = events.iter().rev().find_map(|event| asked_of(event.result()));
    assert_eq!(asked, Some(call.as_str()), "people are asked whether they have finished");
    assert_eq!(mcp.fixture.state(&task), "input-required");
    std::fs::write(mcp.fixture.server.workspace().join("visited"), "").expect("it is ours");
    // The server says that the page was visited, so nobody has to.
    let output = eventually("the call ends", || {
        let ended = journal(&mcp, &task).lines().find(|line| line.contains("call_ended")).map(str::to_owned);
        ended.filter(|line| line.contains("called 2 times"))
    });
    assert!(output.contains("success"), "{output}");
    let calls = mcp.heard().iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(calls, 2);
}

#[test]
fn the_user_may_confirm_that_the_page_was_visited() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let (task, call, _) = asking(&mcp.fixture, "CALL mcp_x_visit {\"text\": \"never\"} ;; TEXT done");
    let yes = || reply(&task, &call, "proceed_once", json!({"0": "yes"}));
    let first: Vec<Event> = mcp.fixture.client().stream("message/stream", yes()).collect();
    assert!(ended(&first).is_none(), "it is asked whether the page was visited");
    let events: Vec<Event> = mcp.fixture.client().stream("message/stream", yes()).collect();
    assert_eq!(ended(&events).expect("an end")["response"]["resultDisplay"], "called 2 times");
}

#[test]
fn check_66_after_a_restart_the_call_is_interrupted_and_its_question_void() {
    let Some(mut mcp) = Mcp::new(trusted("")) else { return };
    let (task, call, _) = asking(&mcp.fixture, &script(&every_kind()));
    mcp.fixture.server.kill9();
    mcp.fixture.server.restart();
    let late = mcp.fixture.client().rpc("message/send", reply(&task, &call, "proceed_once", json!({})));
    assert!(late["error"]["message"].as_str().is_some_and(|text| text.contains("not waiting")), "{late}");
    let journal = journal(&mcp, &task);
    let end = journal.lines().find(|line| line.contains("call_ended")).expect("the call has ended");
    assert!(end.contains("interrupted") && end.contains("stopped while this call was running"), "{end}");
    let events: Vec<Event> = mcp.fixture.client().stream("message/stream", prompt_in(&task, "TEXT on we go")).collect();
    assert!(events.last().is_some_and(Event::is_final), "the task goes on");
}

#[test]
fn a_question_is_answered_in_every_dialect() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let ask = script(&form(json!({"a": {"type": "integer"}, "b": {"type": "string"}}), &["a"]));
    let heard = |content: Value, dialect: &str| {
        eventually(dialect, || {
            let result = json!({"action": "accept", "content": content});
            mcp.heard().iter().any(|message| message["result"] == result).then_some(())
        });
    };
    let (task, call, _) = asking(&mcp.fixture, &ask);
    let data = json!({"tool_call_id": call, "selected_option_id": "proceed_once", "answers": {"a": 1}});
    let message = json!({"kind": "message", "role": "user", "messageId": "m1", "taskId": task, "parts": [{"kind": "data", "data": data}]});
    mcp.fixture.client().call("message/send", json!({ "message": message }));
    heard(json!({"a": 1}), "devtool");

    let (task, call, _) = asking(&mcp.fixture, &ask);
    let path = format!("/ws?taskId={task}");
    let mut socket = Socket::open(&mcp.fixture.server.url(), &path, Some("gemini-a2a.v1"));
    let answer = json!({"task": task, "call": call, "option": "proceed_once", "answers": {"0": "2", "b": "x"}});
    socket.send(&json!({"id": 1, "call": {"answer": answer}}));
    heard(json!({"a": 2, "b": "x"}), "native");

    let mut plain = mcp.fixture.client();
    let say = |client: &mut Client, task: Option<&Value>, text: &str| {
        let mut message = json!({"kind": "message", "role": "user", "messageId": format!("p-{}", fresh()), "parts": [{"kind": "text", "text": text}]});
        task.into_iter().for_each(|task| message["taskId"] = task.clone());
        client.rpc("message/send", json!({"message": message, "configuration": {"blocking": true}}))
    };
    let asked = say(&mut plain, None, &ask)["result"].clone();
    let text = asked["status"]["message"]["parts"][0]["text"].as_str().expect("a question").to_owned();
    assert!(text.contains("x asks: Tell me\na\nb (optional)\n\nReply with one line for each question"), "{text}");
    let refused = say(&mut plain, Some(&asked["id"]), "ten\n-");
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("answers.a")), "{refused}");
    say(&mut plain, Some(&asked["id"]), "3\n-");
    heard(json!({"a": 3}), "plain text by number");
    let asked = say(&mut plain, None, &ask)["result"].clone();
    say(&mut plain, Some(&asked["id"]), "b: hello\na: 4");
    heard(json!({"a": 4, "b": "hello"}), "plain text by name");
}

#[test]
fn a_call_whose_question_is_open_can_be_cancelled() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let (task, _, _) = asking(&mcp.fixture, &script(&every_kind()));
    mcp.fixture.client().call("tasks/cancel", json!({ "id": task }));
    eventually("the server is told", || {
        mcp.heard().iter().find(|message| message["result"]["action"] == "cancel").cloned()
    });
}

#[test]
fn nobody_is_asked_without_a_client_that_can_answer() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let server = &mcp.fixture.server;
    let output = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
        .args(["--trust-workspace", "-p", &script(&every_kind())])
        .current_dir(server.workspace())
        .env("HOME", server.state_dir().with_file_name("home"))
        .env("GEMINI_API_KEY", "key")
        .env("GEMINI_A2A_STATE_DIR", server.state_dir().with_file_name("other-state"))
        .env("GOOGLE_GEMINI_BASE_URL", mcp.fixture.fake.url())
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let cancelled = |message: &Value| message["id"] == "question" && message["result"] == json!({"action": "cancel"});
    assert!(mcp.heard().iter().any(cancelled), "{:?}", mcp.heard());
}

#[test]
fn a_stream_goes_on_with_the_call_after_the_answer() {
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    let mut watching = mcp.fixture.client().stream("message/stream", prompt(&script(&every_kind())));
    let asked = watching.until("the question", |event| asked_of(event.result()).is_some());
    let (task, call) = (task_in(std::slice::from_ref(&asked)), asked_of(asked.result()).expect("a call").to_owned());
    let answers = json!({"0": true, "1": "Red", "3": 2});
    let events: Vec<Event> =
        mcp.fixture.client().stream("message/stream", reply(&task, &call, "proceed_once", answers)).collect();
    let statuses: Vec<&str> = events.iter().filter_map(|event| call_of(event.result())["status"].as_str()).collect();
    assert_eq!(statuses, ["executing", "success"], "{events:#?}");
}
