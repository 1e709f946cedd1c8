//! What the model is told of its situation: the mode, memory, directories.

use crate::drive::Fixture;
use crate::support::message::{call_of, call_status_of};
use crate::support::turn_rules;
use serde_json::Value;

/// The last model request.
fn request(fixture: &Fixture) -> Value {
    let request = fixture.fake.turns().pop().expect("a request").body;
    turn_rules::check(&request);
    request
}

fn instruction(request: &Value) -> &str {
    request["systemInstruction"]["parts"][0]["text"].as_str().expect("a text")
}

fn declared(request: &Value) -> Vec<&str> {
    let tools = request["tools"][0]["functionDeclarations"].as_array().expect("tools");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn in_plan_mode_the_model_is_told_and_has_no_tools_that_write() {
    let fixture = Fixture::with(|setup| setup.args(["--approval-mode", "plan"]));
    let events = fixture.say("WRITE a.txt x ;; TEXT I planned.");
    let request = request(&fixture);
    assert!(instruction(&request).contains("You are planning."));
    let declared = declared(&request);
    assert!(
        ["read_file", "grep_search", "glob", "ask_user"].iter().all(|name| declared.contains(name)),
        "{declared:?}"
    );
    for name in ["write_file", "replace", "run_shell_command"] {
        assert!(!declared.contains(&name), "{name} is declared");
    }
    // A model that calls one all the same is refused.
    let ended = events.iter().find(|event| call_status_of(event.result()) == "error").expect("it is refused");
    assert_eq!(call_of(ended.result())["response"]["errorType"], "policy_violation");
    assert_eq!(fixture.file("a.txt"), None);
    let usual = Fixture::new();
    usual.say("TEXT x");
    let request = self::request(&usual);
    assert!(!instruction(&request).contains("planning") && self::declared(&request).contains(&"write_file"));
}
