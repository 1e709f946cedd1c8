//! Calls of tools, and questions of the server during calls.

use super::*;
use crate::task::spec::Answers;

fn call(client: &mut Client, key: u64, tool: &str) {
    client.input(Input::Call(Call { key: Key(key), tool: tool.into(), arguments: json!({"n": key}) }));
}

/// A client with a running call, and the id of its request.
fn calling() -> (Client, Value) {
    let mut client = connected(json!([{"name": "t"}, {"name": "r", "annotations": {"readOnlyHint": true}}]));
    call(&mut client, 1, "t");
    let id = client.only()["id"].take();
    (client, id)
}

fn message_of(client: &Client, key: u64) -> String {
    let found = client.effects.iter().find_map(|effect| match effect {
        Effect::Ended { call, outcome: Outcome::Failed(error) } if *call == Key(key) => Some(error.message.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("call {key} has not failed: {:?}", client.effects))
}

#[test]
fn a_call_names_its_tool_and_a_token_for_its_progress() {
    let mut client = connected(json!([{"name": "t"}]));
    call(&mut client, 7, "t");
    assert_eq!(
        client.only(),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "t", "arguments": {"n": 7}, "_meta": {"progressToken": "3"}}})
    );
    client.answer(&json!(3), json!({"content": []}));
    assert_eq!(client.take(), [Effect::Ended { call: Key(7), outcome: Outcome::Result(json!({"content": []})) }]);
    call(&mut client, 8, "t");
    client.receive(json!({"id": 4, "error": {"code": -32603, "message": "no"}}));
    assert_eq!(message_of(&client, 8), "-32603: no");
}

#[test]
fn check_39_progress_is_live_output_and_restarts_the_timeout() {
    let (mut client, id) = calling();
    let token = id.to_string();
    for (params, text) in [
        (json!({"progress": 1, "total": 4}), "[1/4]"),
        (json!({"progress": 2.5, "total": 4.0, "message": "half"}), "[2.5/4] half"),
        (json!({"progress": 3}), "[3]"),
        (json!({"message": "done\u{7}\nx"}), "done x"),
    ] {
        client.later(59_000);
        let mut params = params;
        params["progressToken"] = token.clone().into();
        client.notify("progress", params);
        assert_eq!(client.take(), [Effect::Progress { call: Key(1), text: text.into() }]);
    }
    client.notify("progress", json!({"progressToken": "99", "progress": 1}));
    assert_eq!(client.take(), []);
    client.later(59_999);
    assert_eq!(client.take(), []);
    client.later(1);
    assert!(!client.effects.is_empty());
}

#[test]
fn messages_that_belong_to_a_call_restart_its_timeout() {
    let (mut client, id) = calling();
    client.later(59_000);
    let message = Message::Notification { method: "notifications/x".into(), params: Value::Null };
    client.input(Input::Message { message, on: Some(own_id(&id)) });
    client.later(59_999);
    assert_eq!(client.take(), []);
}

#[test]
fn check_40_silence_cancels_the_call() {
    let (mut client, id) = calling();
    assert_eq!(client.session.due_ms(), Some(client.now_ms + 60_000));
    client.later(60_000);
    let cancelled = client.only();
    assert_eq!((&cancelled["method"], &cancelled["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert!(message_of(&client, 1).contains("no answer for 60 s"));
    client.take();
    client.answer(&id, json!({}));
    assert_eq!(client.take(), [], "the late answer");
}

#[test]
fn a_call_with_endless_progress_ends_at_its_cap() {
    let (mut client, id) = calling();
    for _ in 0..CALL_MS / 50_000 - 1 {
        client.later(50_000);
        client.notify("progress", json!({"progressToken": id.to_string(), "progress": 1}));
    }
    client.later(49_999);
    assert!(client.sent().is_empty());
    client.later(1);
    client.notify("progress", json!({"progressToken": id.to_string(), "progress": 1}));
    assert!(message_of(&client, 1).contains("3600 s"));
}

#[test]
fn check_41_a_cancelled_call_ends_at_once_and_its_answer_is_dropped() {
    let (mut client, id) = calling();
    call(&mut client, 2, "t");
    client.input(Input::Cancel { call: Key(1), reason: "the user\n said so".into() });
    let sent = client.sent();
    assert_eq!(sent[0]["params"], json!({"requestId": id, "reason": "the user said so"}));
    assert_eq!(sent[1]["params"]["arguments"], json!({"n": 2}), "the next call runs");
    assert_eq!(client.take(), [Effect::Ended { call: Key(1), outcome: Outcome::Cancelled }]);
    client.receive(json!({"id": id, "error": {"code": 0, "message": "Request cancelled"}}));
    assert_eq!(client.take(), []);
    client.answer(&sent[1]["id"], json!({}));
    assert_eq!(client.take(), [Effect::Ended { call: Key(2), outcome: Outcome::Result(json!({})) }]);
    call(&mut client, 3, "t");
    call(&mut client, 4, "t");
    client.only();
    client.input(Input::Cancel { call: Key(4), reason: "x".into() });
    client.input(Input::Cancel { call: Key(5), reason: "unknown".into() });
    assert_eq!(
        client.take(),
        [Effect::Ended { call: Key(4), outcome: Outcome::Cancelled }],
        "nothing is sent for a call that waits"
    );
}

#[test]
fn check_49_calls_of_one_server_run_one_after_the_other_and_reading_ones_together() {
    let (mut client, id) = calling();
    call(&mut client, 2, "t");
    for key in 3..9 {
        call(&mut client, key, "r");
    }
    assert!(client.sent().is_empty());
    client.answer(&id, json!({}));
    let second = client.only();
    assert_eq!(second["params"]["arguments"], json!({"n": 2}));
    client.answer(&second["id"], json!({}));
    let reading = client.sent();
    assert_eq!(reading.len(), CALLS_PARALLEL);
    call(&mut client, 9, "t");
    client.answer(&reading[0]["id"], json!({}));
    assert_eq!(client.only()["params"]["arguments"], json!({"n": 7}));
    let mut parallel = self::client(true);
    parallel.connect(json!([{"name": "t"}]));
    for key in 0..9 {
        call(&mut parallel, key, "t");
    }
    assert_eq!(parallel.sent().len(), CALLS_PARALLEL);
}

#[test]
fn the_queue_of_calls_is_limited() {
    let (mut client, _) = calling();
    for key in 0..CALLS_WAITING as u64 {
        call(&mut client, 100 + key, "t");
    }
    assert_eq!(client.take(), []);
    call(&mut client, 999, "t");
    assert!(message_of(&client, 999).contains("64 calls wait"));
    let long = |bytes: usize| Call { key: Key(5), tool: "t".into(), arguments: json!("x".repeat(bytes - 2)) };
    let mut client = connected(json!([{"name": "t"}]));
    client.input(Input::Call(long(MESSAGE_OUT_BYTES)));
    assert_eq!(client.sent().len(), 1);
    client.input(Input::Call(long(MESSAGE_OUT_BYTES + 1)));
    assert!(message_of(&client, 5).contains("longer than"));
}

#[test]
fn the_list_is_read_once_more_for_a_tool_that_is_not_listed() {
    let mut client = connected(json!([{"name": "t"}]));
    client.later(REFRESH_MS);
    call(&mut client, 1, "new");
    let list = client.only();
    assert_eq!(list["method"], "tools/list");
    call(&mut client, 2, "none");
    client.answer(&list["id"], json!({"tools": [{"name": "new"}]}));
    assert_eq!(client.only()["params"]["name"], "new");
    let unknown = |effect: &Effect| matches!(effect, Effect::Ended { call: Key(2), outcome: Outcome::Failed(error) } if error.kind == ErrorKind::ToolNotRegistered);
    assert!(client.effects.iter().any(unknown), "{:?}", client.effects);
}

#[test]
fn check_5_everything_that_waits_fails_with_the_connection() {
    let (mut client, _) = calling();
    call(&mut client, 2, "t");
    client.input(Input::Query { key: Key(3), query: Query::Ping });
    client.receive(json!({"id": "q", "method": "elicitation/create", "params": {"message": "m", "requestedSchema": {"properties": {}}}}));
    client.take();
    client.input(Input::Lost("ended (status 1); its last words: boom".into()));
    assert!(message_of(&client, 1).contains("boom") && message_of(&client, 2).contains("boom"));
    assert!(client.effects.iter().any(|effect| matches!(effect, Effect::Answered { key: Key(3), result: Err(_) })));
    assert!(client.effects.iter().any(|effect| matches!(effect, Effect::Withdrawn { .. })));
    assert!(client.sent().is_empty() && client.session.due_ms().is_none());
    call(&mut client, 4, "t");
    assert!(message_of(&client, 4).contains("not connected"));
}

/// With the older transport, a session starts only when the event stream has named an endpoint.
#[test]
fn calls_wait_for_the_start_of_a_session_until_its_timeout() {
    let mut client = client(false);
    call(&mut client, 1, "t");
    assert_eq!(client.take(), []);
    assert_eq!(client.session.due_ms(), Some(10_000), "the time to start has begun");
    client.connect(json!([{"name": "t"}]));
    client.answer(&json!(3), json!({"content": []}));
    assert_eq!(client.take(), [Effect::Ended { call: Key(1), outcome: Outcome::Result(json!({"content": []})) }]);
    let mut client = super::client(false);
    client.later(0);
    call(&mut client, 1, "t");
    client.later(9_000);
    assert!(message_of(&client, 1).contains("did not name its endpoint within 9 s"));
}

#[test]
fn check_27_requests_that_are_not_supported_are_refused_and_the_call_goes_on() {
    let (mut client, id) = calling();
    client.receive(json!({"id": 9, "method": "sampling/createMessage", "params": {}}));
    assert_eq!(client.only()["error"]["code"], -32601);
    client.answer(&id, json!({}));
    assert_eq!(client.take().len(), 1);
}

fn form(id: &str) -> Value {
    json!({"id": id, "method": "elicitation/create", "params": {"mode": "form", "message": "Name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}})
}

fn question(client: &mut Client) -> (QuestionId, Elicitation) {
    let asked = client.take().into_iter().find_map(|effect| match effect {
        Effect::Question { question, call: Key(1), elicitation } => Some((question, elicitation)),
        _ => None,
    });
    asked.expect("a question")
}

#[test]
fn a_question_pauses_the_timeouts_of_its_call_and_its_answer_goes_to_the_server() {
    let (mut client, _) = calling();
    client.later(59_000);
    client.receive(form("q"));
    let (id, elicitation) = question(&mut client);
    client.later(2 * CALL_MS);
    assert_eq!(client.take(), []);
    let answers = Answers::from([("0".to_owned(), "Ada".to_owned())]);
    let reply = elicitation.inquired(1, "srv").accept(&answers).expect("a name");
    client.input(Input::Replied { question: id, reply });
    assert_eq!(
        client.only(),
        json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {"name": "Ada"}}})
    );
    client.input(Input::Replied { question: id, reply: Reply::Decline });
    assert!(client.sent().is_empty(), "the first answer counts");
    client.later(59_999);
    assert_eq!(client.take(), []);
    client.later(1);
    assert!(message_of(&client, 1).contains("no answer"));
}

#[test]
fn questions_are_withdrawn_with_their_call_or_by_the_server() {
    let (mut client, _) = calling();
    client.receive(form("q"));
    client.receive(form("w"));
    client.notify("cancelled", json!({"requestId": "w"}));
    assert!(client.sent().is_empty());
    assert!(matches!(client.take()[..], [Effect::Question { .. }, Effect::Question { .. }, Effect::Withdrawn { .. }]));
    client.input(Input::Cancel { call: Key(1), reason: "x".into() });
    let sent = client.sent();
    assert_eq!(sent[1], json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "cancel"}}));
    assert!(matches!(client.take()[..], [Effect::Withdrawn { .. }, Effect::Ended { .. }]));
}

#[test]
fn questions_without_a_call_or_too_many_or_unsafe_ones_are_declined() {
    let declined =
        |client: &mut Client| client.sent().last().is_some_and(|sent| sent["result"] == json!({"action": "decline"}));
    let mut idle = connected(json!([]));
    idle.receive(form("q"));
    assert!(declined(&mut idle) && idle.notices().len() == 1);
    let (mut client, _) = calling();
    for n in 0..SERVER_REQUESTS {
        client.receive(form(&n.to_string()));
    }
    assert!(client.sent().is_empty());
    client.receive(form("more"));
    assert!(declined(&mut client));
    let (mut client, _) = calling();
    client.receive(json!({"id": 1, "method": "elicitation/create", "params": {"mode": "url", "message": "m", "elicitationId": "e", "url": "http://example.org/"}}));
    assert!(declined(&mut client), "check 64");
}

fn ask_to_visit_pages(id: &Value) -> Value {
    let page = |name: &str| json!({"mode": "url", "message": "m", "elicitationId": name, "url": format!("https://example.org/{name}")});
    json!({"id": id, "error": {"code": -32042, "message": "visit", "data": {"elicitations": [page("a"), page("b")]}}})
}

#[test]
fn check_65_a_call_that_needs_pages_is_repeated_once() {
    let (mut client, id) = calling();
    client.receive(ask_to_visit_pages(&id));
    let questions: Vec<QuestionId> = client
        .take()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Question { question, .. } => Some(question),
            _ => None,
        })
        .collect();
    client.notify("elicitation/complete", json!({"elicitationId": "a"}));
    for question in &questions {
        client.input(Input::Replied { question: *question, reply: Reply::Accept(Values::default()) });
    }
    let (_, visited) = question(&mut client);
    assert_eq!(visited, Elicitation::ConfirmVisit);
    client.later(CALL_MS);
    client.notify("elicitation/complete", json!({"elicitationId": "b"}));
    let again = client.only();
    assert_eq!((&again["method"], &again["params"]["name"]), (&json!("tools/call"), &json!("t")));
    assert!(matches!(client.take()[..], [Effect::Withdrawn { .. }]), "nobody needs to say that the pages were visited");
    client.receive(ask_to_visit_pages(&again["id"]));
    assert!(message_of(&client, 1).contains("-32042"), "not a third time");
}

#[test]
fn the_user_can_confirm_a_visit_or_decline() {
    let (mut client, id) = calling();
    client.receive(ask_to_visit_pages(&id));
    let ids: Vec<u64> = client.session.questions.keys().map(|id| id.0).collect();
    for id in ids {
        client.input(Input::Replied { question: QuestionId(id), reply: Reply::Accept(Values::default()) });
    }
    assert!(client.sent().is_empty(), "the pages were not visited yet");
    let id = *client.session.questions.keys().next().expect("whether they were visited");
    client.input(Input::Replied { question: id, reply: Reply::Accept(Values::default()) });
    let again = client.only();
    client.answer(&again["id"], json!({}));
    let (mut client, id) = calling();
    client.receive(ask_to_visit_pages(&id));
    let (question, _) = question(&mut client);
    client.input(Input::Replied { question, reply: Reply::Decline });
    assert!(message_of(&client, 1).contains("declined"));
    assert!(client.effects.iter().any(|effect| matches!(effect, Effect::Withdrawn { .. })), "the other question");
}
