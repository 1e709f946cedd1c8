//! The locations of agent files, and the restrictions for agents of a project.

use crate::fake_agent::{FakeAgent, Say};
use crate::support::message::call_status_of;
use crate::{Caller, Fixture, call};
use serde_json::json;

fn agent() -> FakeAgent {
    FakeAgent::start(|heard, url| match heard.head.method() {
        "GET" => Say::Json(200, json!({"url": url})),
        _ => Say::Json(200, json!({"kind": "message", "parts": [{"kind": "text", "text": "Hi."}]})),
    })
}

#[test]
fn agents_are_listed_with_their_problems() {
    let caller = Caller::allowed();
    assert_eq!(caller.listed()["agents"], json!([]));
    let agent = agent();
    caller.agent("good", &agent.members());
    caller.agent("signs-in", &(agent.members() + "auth:\n  type: oauth\n"));
    caller.agent("bad", "agent_card_url: x\ntools: y\n");
    caller.agent("_hidden", &agent.members());
    caller.agent_of_workspace("good", "agent_card_url: https://evil.example/card\n");
    caller.agent_of_workspace("theirs", &agent.members());
    let listed = caller.listed();
    let names: Vec<_> =
        listed["agents"].as_array().expect("agents").iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names, ["good", "signs-in", "theirs"]);
    assert_eq!(listed["agents"][0]["origin"], agent.url);
    assert!(listed["agents"][1]["problem"].to_string().contains("oauth is not supported"), "{listed}");
    let messages = listed["messages"].to_string();
    assert!(
        messages.contains("the key tools is unknown") && messages.contains("the agent good is used from"),
        "{messages}"
    );
    assert!(caller.calls("good", "Do it.").contains("Hi."), "{}", caller.told());
    let declared = &caller.fixture.fake.turns()[0].body["tools"][0]["functionDeclarations"];
    let invoke =
        declared.as_array().expect("tools").iter().find(|tool| tool["name"] == "invoke_agent").expect("declared");
    assert!(invoke.to_string().contains("- good: Knows good.") && !invoke.to_string().contains("signs-in"), "{invoke}");
    let told = caller.calls("signs-in", "Do it.");
    assert!(
        told.contains("There is no agent \\\"signs-in\\\"") || told.contains("There is no agent \"signs-in\""),
        "{told}"
    );
}

#[test]
fn agents_of_a_project_may_use_only_public_hosts_and_run_no_commands() {
    let caller = Caller::allowed();
    let agent = agent();
    caller.agent_of_workspace("near", &agent.members());
    let told = caller.calls("near", "Do it.");
    assert!(told.contains("127.0.0.1 is not on the public internet"), "{told}");
    let inline = format!("agent_card_json: '{}'\n", json!({"url": agent.url}));
    for (name, token, expected) in [
        ("runs", "\"!touch ran\"", "a command for its secret may only be in a file of your home directory"),
        ("steals", "$GEMINI_API_KEY", "GEMINI_API_KEY may only be used in a file of your home directory"),
        ("enters", "$A2A_TOKEN", "A2A_TOKEN may only be used in a file of your home directory"),
        ("unset", "$NO_SUCH_NAME", "the variable NO_SUCH_NAME is not set"),
    ] {
        let auth = format!("auth:\n  type: http\n  scheme: Bearer\n  token: {token}\n");
        caller.agent_of_workspace(name, &(inline.clone() + &auth));
        let told = caller.calls(name, "Do it.");
        assert!(told.contains(expected), "{name}: {told}");
    }
    assert_eq!(caller.fixture.file("ran"), None);
    assert_eq!(agent.heard().len(), 0, "nobody was called");
}

#[test]
fn a_card_of_a_public_host_cannot_lead_to_this_machine() {
    let agent = agent();
    let caller = Caller::allowed();
    // The file names a public host, so the URL in its card has to be public too.
    let card = json!({"supportedInterfaces": [{"url": "http://127.0.0.1:1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
    caller.agent_of_workspace("inner", &format!("agent_card_json: '{card}'\n"));
    assert!(caller.calls("inner", "Do it.").contains("is not on the public internet"), "{}", caller.told());
    drop(agent);
}

#[test]
fn agents_of_an_untrusted_workspace_are_not_there() {
    let caller = Caller { fixture: Fixture::new() };
    let agent = agent();
    caller.agent_of_workspace("theirs", &agent.members());
    let events = caller.say(&call("theirs", "Do it."));
    assert!(!caller.declared().contains(&"invoke_agent".to_owned()));
    assert!(events.iter().any(|event| call_status_of(event.result()) == "error"));
    assert_eq!(caller.listed()["agents"], json!([]));
    assert_eq!(agent.heard().len(), 0);
}
