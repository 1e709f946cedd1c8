//! Approvals of MCP tools, end to end.

use crate::drive::task_in;
use crate::support::client::Event;
use crate::support::message::{approval, asked_of, call_of, prompt_in};
use crate::{Mcp, ended, python};
use serde_json::{Value, json};

/// Sends a prompt. Returns the task, and the question if there is one.
fn question(mcp: &Mcp, task: Option<&str>, script: &str) -> (String, Option<Value>) {
    let events: Vec<Event> = match task {
        Some(task) => mcp.fixture.client().stream("message/stream", prompt_in(task, script)).collect(),
        None => mcp.fixture.say(script),
    };
    let asked = events.iter().find(|event| asked_of(event.result()).is_some());
    (task_in(&events), asked.map(|event| call_of(event.result()).clone()))
}

fn id(question: &Value) -> &str {
    question["request"]["callId"].as_str().expect("an id")
}

#[test]
fn a_lasting_approval_holds_for_the_tool_or_the_server_within_its_task() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({}))})) else { return };
    let (task, asked) = question(&mcp, None, "CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done");
    let asked = asked.expect("it asks");
    let details = &asked["confirmationDetails"];
    assert_eq!((&details["type"], &details["serverName"]), (&json!("mcp"), &json!("x")));
    assert_eq!((&details["toolName"], &details["toolArgs"]), (&json!("echo"), &json!({"text": "one"})));
    mcp.answer(&task, id(&asked), "proceed_always_tool");
    let again = "CALL mcp_x_echo {\"text\": \"two\"} ;; TEXT done";
    assert_eq!(question(&mcp, Some(&task), again).1, None, "not asked again");
    let other = "CALL mcp_x_look {} ;; TEXT done";
    let (_, asked) = question(&mcp, Some(&task), other);
    mcp.answer(&task, id(&asked.expect("another tool asks")), "proceed_always_server");
    assert_eq!(question(&mcp, Some(&task), "CALL mcp_x_fail {} ;; TEXT done").1, None, "all tools of the server");
    assert!(question(&mcp, None, again).1.is_some(), "another task asks");
}

#[test]
fn a_changed_tool_needs_approval_again() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({}))})) else { return };
    let echo = "CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done";
    let (task, asked) = question(&mcp, None, echo);
    mcp.answer(&task, id(&asked.expect("it asks")), "proceed_always_tool");
    assert_eq!(question(&mcp, Some(&task), echo).1, None);
    let change = "CALL mcp_x_change {\"text\": \"Now it also sends it away.\"} ;; TEXT done";
    let (_, asked) = question(&mcp, Some(&task), change);
    mcp.answer(&task, id(&asked.expect("it asks")), "proceed_once");
    let asked = crate::support::eventually("the change arrives", || question(&mcp, Some(&task), echo).1);
    let details = &asked["confirmationDetails"];
    assert_eq!(details["toolDescription"], "Now it also sends it away.");
    assert!(details["systemMessage"].as_str().is_some_and(|text| text.contains("has changed the tool")), "{details}");
}

#[test]
fn a_trusted_server_needs_no_approval_but_rules_take_precedence() {
    let trusted = |server: Value| {
        let mut server = server;
        server["trust"] = json!(true);
        server
    };
    let settings = json!({"mcpServers": {"x": trusted(python("", json!({})))},
        "policy": {"rules": [{"toolName": "mcp_x_look", "decision": "ask_user"},
            {"mcpName": "x", "toolName": "fail", "decision": "deny"}]}});
    let Some(mcp) = Mcp::with(&["--trust-workspace"], settings) else { return };
    // Rules are read when the server starts.
    let mut mcp = mcp;
    mcp.fixture.server.restart();
    let events = mcp.fixture.say("CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done");
    assert_eq!(ended(&events).expect("it ran")["response"]["resultDisplay"], "echo: one");
    assert!(question(&mcp, None, "CALL mcp_x_look {} ;; TEXT done").1.is_some());
    assert!(!mcp.declared().contains(&"mcp_x_fail".to_owned()), "what is always denied is not declared");
    let events = mcp.fixture.say("CALL mcp_x_fail {} ;; TEXT done");
    assert_eq!(ended(&events).expect("it ended")["response"]["errorType"], "policy_violation");
}

/// All entry points show the question and accept an answer.
#[test]
fn every_dialect_shows_the_question() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({}))})) else { return };
    let script = "CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done";
    let (task, asked) = question(&mcp, None, script);
    let call = id(&asked.expect("it asks")).to_owned();
    // The native socket, which has events as they are.
    let url = mcp.fixture.server.url();
    let mut socket = crate::support::socket::Socket::open(&url, "/ws", Some("gemini-a2a.v1"));
    socket.send(&json!({"id": 1, "call": {"watch": {"task": task, "after": 0}}}));
    let planned = socket.until(|frame| frame.to_string().contains("call_planned")).to_string();
    assert!(planned.contains("\"mcp\"") && planned.contains("\"server\":\"x\""), "{planned}");
    let answered = mcp.fixture.client().call("message/send", approval(&task, &call, "proceed_always_server"));
    assert_eq!(answered["status"]["state"], "input-required");
    // Plain A2A 1.0 over REST: text, and an answer by its number.
    let mut client = mcp.fixture.client().field("A2A-Version", "1.0");
    let message = |text: &str, task: Option<&str>| {
        let mut message =
            json!({"messageId": format!("m{}", text.len()), "role": "ROLE_USER", "parts": [{ "text": text }]});
        if let Some(task) = task {
            message["taskId"] = json!(task);
        }
        json!({"message": message, "configuration": {"blocking": true}})
    };
    let shown = client.post("/message:send", &message(script, None)).json();
    let text = shown["task"]["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("Call echo of the MCP server x?") && text.contains("\"text\": \"one\""), "{shown:#}");
    let plain = shown["task"]["id"].as_str().expect("a task").to_owned();
    let done = client.post("/message:send", &message("always allow tool", Some(&plain))).json();
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done:#}");
    let told = mcp.fixture.fake.turns().pop().expect("a request").body["contents"].to_string();
    assert!(told.contains("echo: one"), "the tool has run: {told}");
}
