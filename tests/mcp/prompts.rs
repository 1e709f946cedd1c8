//! Prompts of servers as slash commands.

use crate::support::client::Event;
use crate::support::message::state_of;
use crate::{Mcp, python};
use serde_json::{Value, json};

fn run(mcp: &Mcp, command: &str, args: &[&str]) -> Vec<Event> {
    let body = json!({"command": command, "args": args}).to_string();
    let fields = [("Content-Type", "application/json")];
    mcp.fixture.client().events("POST", "/executeCommand", &fields, body.as_bytes()).collect()
}

/// All texts of the last request to the model.
fn told(mcp: &Mcp) -> String {
    let request = mcp.fixture.fake.turns().pop().expect("a request").body;
    let parts: Vec<Value> = request["contents"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|one| one["parts"].as_array().cloned())
        .flatten()
        .collect();
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("|")
}

fn is_complete(events: &[Event]) -> bool {
    state_of(events.last().expect("an end").result()) == Some("completed")
}

/// The first command starts the servers and waits for them.
#[test]
fn check_67_a_prompt_takes_arguments_by_name_and_in_order_and_says_what_is_missing() {
    let Some(mcp) = Mcp::new(json!({"x": python("prompts", json!({}))})) else { return };
    let words = "The prompt a trip of the MCP server x:\n\nTEXT going from ";
    for (args, expected) in [
        (&["--to=\"New York\"", "--from=Rome"][..], "Rome to New York"),
        (&["Rome", "Oslo"], "Rome to Oslo"),
        (&["--from=Rome", "the", "far", "north"], "Rome to the far north"),
    ] {
        let events = run(&mcp, "x:a-trip", args);
        assert!(is_complete(&events), "{events:#?}");
        assert!(told(&mcp).contains(&format!("{words}{expected}")), "{}", told(&mcp));
    }
    let asked = mcp.fixture.fake.turns().len();
    let missing = format!("{:?}", run(&mcp, "x:a-trip", &["Rome"]));
    assert!(missing.contains("Missing arguments: to."), "{missing}");
    let help = format!("{:?}", run(&mcp, "x:a-trip", &["help"]));
    assert!(help.contains("Where it begins"), "{help}");
    assert_eq!(mcp.fixture.fake.turns().len(), asked, "the model is not asked");
}

#[test]
fn check_68_all_messages_of_a_prompt_are_used() {
    let Some(mcp) = Mcp::new(json!({"x": python("prompts", json!({}))})) else { return };
    // The name of the prompt is enough, because no other command has this name.
    assert!(is_complete(&run(&mcp, "talk", &[])));
    let sent = told(&mcp);
    assert!(sent.contains("TEXT talked\nassistant: I am listening.\n[image/png, "), "{sent}");
    let request = mcp.fixture.fake.turns().pop().expect("a request").body.to_string();
    assert!(request.contains("\"inlineData\"") && request.contains("iVBORw0KGgo"), "{request}");
}

#[test]
fn a_long_prompt_loses_its_middle() {
    let Some(mcp) = Mcp::new(json!({"x": python("prompts,long", json!({}))})) else { return };
    run(&mcp, "x:long", &[]);
    let sent = told(&mcp);
    assert!(sent.contains("[... 160015 characters left out ...]") && sent.contains("xEND"), "{} bytes", sent.len());
}

#[test]
fn prompts_are_listed_with_the_commands_when_their_server_runs() {
    let servers = json!({"x": python("prompts", json!({})), "y": python("prompts", json!({}))});
    let Some(mcp) = Mcp::new(servers) else { return };
    let listed = || mcp.fixture.client().get("/listCommands").json().to_string();
    mcp.fixture.say("TEXT hello");
    let shown = listed();
    assert!(
        shown.contains("\"x:talk\"") && shown.contains("\"y:a-trip\"") && shown.contains("Plans a trip."),
        "{shown}"
    );
    let bare = mcp.fixture.client().post("/executeCommand", &json!({"command": "talk"}));
    assert_eq!(bare.status(), 404, "two servers have a prompt of this name: {}", bare.text());
    let help = mcp.fixture.client().post("/executeCommand", &json!({"command": "help"})).json();
    let commands = help["data"]["commands"].to_string();
    assert!(commands.contains("x:help") && commands.contains("x:talk"), "the own command help keeps its name: {help}");
    // An untrusted workspace has no servers.
    let Some(mcp) = Mcp::with(&[], json!({"mcpServers": {"x": python("prompts", json!({}))}})) else { return };
    assert_eq!(mcp.fixture.client().post("/executeCommand", &json!({"command": "x:talk"})).status(), 404);
}
