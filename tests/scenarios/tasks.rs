//! Scenarios about creating tasks, prompts, text, thoughts and metadata, without tool calls.

use crate::scenario::Scenario;
use crate::support::message::{kind_of, prompt, prompt_at, prompt_in, text_of};
use crate::{CREATED, TEXT};
use serde_json::{Value, json};

#[test]
fn agent_card() {
    let scenario = Scenario::new();
    let card = scenario.http("GET", "/.well-known/agent-card.json", &[], "");
    let old = scenario.http("GET", "/.well-known/agent.json", &[], "");
    scenario.http("OPTIONS", "/.well-known/agent-card.json", &[("Origin", "http://x.test")], "");
    assert_eq!(card, old);
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(card["preferredTransport"], "JSONRPC");
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["url"], format!("{}/", scenario.server.url()));
    assert_eq!(card["securitySchemes"], Value::Null, "only schemes that are enforced are declared");
    scenario.expect_but(
        "clients of earlier protocol versions request the card at its old path; other origins are refused",
        &["
            > GET /.well-known/agent-card.json
            200 application/json
            > GET /.well-known/agent.json
            - 404 text/html
            + 200 application/json
            > OPTIONS /.well-known/agent-card.json
            - 200 text/plain
            + 403 application/json"],
    );
}

#[test]
fn create_task() {
    let scenario = Scenario::new();
    let json = [("Content-Type", "application/json")];
    let settings = json!({ "kind": "agent-settings", "workspacePath": scenario.server.workspace() });
    let body = json!({ "contextId": "ctx-1", "agentSettings": settings }).to_string();
    let first = scenario.http("POST", "/tasks", &json, &body);
    let second = scenario.http("POST", "/tasks", &json, "{}");
    let third = scenario.http("POST", "/tasks", &[], "");
    assert!(first.is_string() && second.is_string() && first != second);
    assert!(third["sessionId"].is_string());
    scenario.expect_but(
        "a request without settings creates a task with the default settings; one without a body returns the live session",
        &["
            > POST /tasks
            201 application/json
            > POST /tasks
            201 application/json
            > POST /tasks
            - 500 application/json
            + 201 application/json"],
    );
}

#[test]
fn create_then_stream() {
    let scenario = Scenario::new();
    let json = [("Content-Type", "application/json")];
    let task = scenario.http("POST", "/tasks", &json, r#"{"contextId":"ctx-2"}"#);
    let task = task.as_str().expect("an id");
    let turn = scenario.send_to(task, "TEXT Hello.");
    let state = scenario.state(task);
    assert_eq!(turn.text(), "Hello.");
    assert_eq!(state["contextId"], "ctx-2");
    scenario.expect(&[
        "> POST /tasks
         201 application/json
         > TEXT Hello.
         status working state-change",
        TEXT,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn stream_text() {
    let scenario = Scenario::new();
    let turn = scenario.send("STREAM 5 2000");
    let texts = turn.events.iter().filter(|e| kind_of(e.result()) == "text-content");
    let ids: Vec<&Value> = texts.map(|event| &event.result()["status"]["message"]["messageId"]).collect();
    assert_eq!(ids, [ids[0]; 5], "all chunks of one text have the same message id");
    let state = scenario.state(turn.task());
    let history = state["history"].as_array().expect("a history");
    assert_eq!(history.len(), 2, "{history:#?}");
    assert_eq!(history[1]["parts"][0]["text"], turn.text());
    scenario.expect(&[
        "> STREAM 5 2000",
        CREATED,
        TEXT,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn stream_second_turn() {
    let scenario = Scenario::new();
    let first = scenario.send("TEXT First answer.");
    let second = scenario.send_to(first.task(), "TEXT Second answer.");
    assert_eq!((first.text(), second.text()), ("First answer.".into(), "Second answer.".into()));
    assert_eq!(first.task(), second.task());
    let roles: Vec<String> = scenario.fake.turns()[1].roles().iter().map(|r| r.to_string()).collect();
    assert_eq!(&roles[roles.len() - 3..], ["user", "model", "user"]);
    scenario.state(first.task());
    scenario.expect(&[
        "> TEXT First answer.",
        CREATED,
        TEXT,
        "> TEXT Second answer.
         status working state-change",
        TEXT,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn stream_thought() {
    let scenario = Scenario::new();
    let script = "THINK Planning the work | I look at the files first. ++ THINK Second thought | More. ++ STREAM 2";
    let turn = scenario.send(script);
    let thoughts: Vec<&Value> = turn
        .events
        .iter()
        .filter(|event| kind_of(event.result()) == "thought")
        .map(|event| &event.result()["status"]["message"]["parts"][0])
        .collect();
    assert_eq!(
        thoughts,
        [
            &json!({ "kind": "data", "data": { "subject": "Planning the work", "description": "I look at the files first." } }),
            &json!({ "kind": "data", "data": { "subject": "Second thought", "description": "More." } }),
        ]
    );
    scenario.expect(&[&format!("> {script}"), CREATED, "status working thought", TEXT]);
}

#[test]
fn stream_citation() {
    let scenario = Scenario::new();
    let turn = scenario.send("CITE https://example.test/source");
    let cited = turn.events.iter().find(|e| kind_of(e.result()) == "citation");
    let cited = text_of(cited.expect("a citation").result());
    assert!(cited.contains("https://example.test/source"), "{cited}");
    scenario.expect_but(
        "a source that the model names is reported with the event kind for citations",
        &[
            "> CITE https://example.test/source",
            CREATED,
            "
            status working text-content
            + status working citation
            status input-required state-change final",
        ],
    );
}

#[test]
fn no_settings() {
    let scenario = Scenario::new();
    scenario.open("no settings", "message/stream", prompt("TEXT Hello.")).rest();
    scenario.expect(&["> no settings", CREATED, TEXT]);
}

#[test]
fn bad_workspace() {
    let scenario = Scenario::new();
    let params = prompt_at("/no/such/dir".as_ref(), "TEXT Hello.");
    let turn = scenario.open("bad workspace", "message/stream", params).rest();
    assert!(text_of(turn.last()).contains("/no/such/dir"), "{}", turn.last());
    scenario.expect_but(
        "an agent that works in another directory than the client named is dangerous",
        &["
            > bad workspace
            task submitted
            - status working state-change
            - status working text-content
            - status input-required state-change final
            + status failed state-change final"],
    );
}

#[test]
fn no_text() {
    let scenario = Scenario::new();
    let mut params = prompt("");
    params["message"]["parts"] = json!([{ "kind": "data", "data": {} }]);
    scenario.open("no text", "message/stream", params).rest();
    assert_eq!(scenario.fake.requests().len(), 0, "no request to the model");
    scenario.expect(&["
        > no text
        task submitted
        status input-required state-change final"]);
}

#[test]
fn context_mismatch() {
    let scenario = Scenario::new();
    let first = scenario.send("TEXT Hello.");
    let mut params = prompt_in(first.task(), "TEXT Same task.");
    params["message"]["contextId"] = json!("another-context");
    scenario.open("other context", "message/stream", params).rest();
    scenario.state(first.task());
    scenario.expect_but(
        "a contextId other than the task's is an error of the client",
        &[
            "> TEXT Hello.",
            CREATED,
            TEXT,
            "
            > other context
            - status working state-change
            - status working text-content
            - status input-required state-change final
            + error -32602
            > tasks/get
            200 task input-required",
        ],
    );
}

#[test]
fn unknown_task() {
    let scenario = Scenario::new();
    let params = |id| prompt_in(id, "TEXT Hello.");
    scenario.send_to("11111111-1111-4111-8111-111111111111", "TEXT Hello.");
    scenario.rpc("message/send", params("22222222-2222-4222-8222-222222222222"));
    scenario.expect(&["
        > TEXT Hello.
        error -32001
        > message/send
        200 error -32001"]);
}

#[test]
fn metadata() {
    let scenario = Scenario::new();
    let turn = scenario.send("TEXT Hello.");
    let one = scenario.http("GET", &format!("/tasks/{}/metadata", turn.task()), &[], "");
    let none = scenario.http("GET", "/tasks/no-such-task/metadata", &[], "");
    let all = scenario.http("GET", "/tasks/metadata", &[], "");
    assert_eq!(none, json!({ "error": "Task not found" }));
    assert_eq!(all[0]["id"], turn.task());
    let known = one["metadata"].as_object().expect("metadata");
    let members: Vec<&str> = known.keys().map(String::as_str).collect();
    assert_eq!(members, ["availableTools", "contextId", "id", "mcpServers", "model", "taskState", "usage"]);
    assert_eq!(known["taskState"], "input-required");
    scenario.expect(&[
        "> TEXT Hello.",
        CREATED,
        TEXT,
        &format!("> GET /tasks/{}/metadata", turn.task()),
        "200 application/json
        > GET /tasks/no-such-task/metadata
        404 application/json
        > GET /tasks/metadata
        200 application/json",
    ]);
}
