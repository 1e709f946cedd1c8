//! The slash command `/mcp`.

use crate::drive::task_in;
use crate::support::message::prompt_in;
use crate::{Mcp, python};
use serde_json::{Value, json};

/// Runs a subcommand of `/mcp`. Returns its text.
pub fn said(mcp: &Mcp, args: &[&str]) -> String {
    let (sub, args) = args.split_first().expect("a sub-command");
    let body = json!({"command": format!("mcp {sub}"), "args": args});
    let answer = mcp.fixture.client().post("/executeCommand", &body);
    answer.json()["data"].as_str().map_or_else(|| answer.text(), str::to_owned)
}

/// The data of `/mcp list`.
fn listed(mcp: &Mcp) -> Value {
    let answer = mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp list", "args": []}));
    answer.json()["data"].clone()
}

#[test]
fn servers_are_listed_with_what_is_known_of_them() {
    let Some(mcp) =
        Mcp::new(json!({"x": python("", json!({"TOKEN": "s3cret-value"})), "off": {"command": "no-such-program"}}))
    else {
        return;
    };
    mcp.fixture.say("TEXT hello");
    let data = listed(&mcp);
    let x = &data["servers"][1];
    assert_eq!((&x["name"], &x["status"], &x["answers"]), (&json!("x"), &json!("connected"), &json!(true)), "{data}");
    assert_eq!((&data["connected"], &data["processes"]), (&json!(1), &json!(1)));
    assert!(data["servers"][0]["error"].as_str().is_some_and(|why| why.contains("no-such-program")), "{data}");
    let described = said(&mcp, &["desc", "x"]);
    assert!(described.contains("Says what it is given.") && !described.contains("no-such-program"), "{described}");
    assert!(described.contains("\"hidden\":[{\"name\":\"task\""), "{described}");
    assert!(said(&mcp, &["schema"]).contains("\"properties\":{\"text\""));
    assert!(!said(&mcp, &["list"]).contains("s3cret-value"));
    assert!(said(&mcp, &["logs", "nobody"]).contains("There is no MCP server nobody"));
    assert!(said(&mcp, &["auth", "x"]).contains("gemini-a2a mcp login x"));
    assert!(said(&mcp, &["auth", "nobody"]).contains("There is no MCP server nobody"));
}

#[test]
fn settings_are_read_again_with_reload() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({}))})) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    assert!(mcp.declared().contains(&"mcp_x_echo".to_owned()));
    mcp.set_user(&json!({"mcpServers": {"y": python("", json!({}))}}));
    // An alias of `reload`.
    said(&mcp, &["refresh"]);
    mcp.fixture.client().call("message/send", prompt_in(&task, "TEXT again"));
    let declared = mcp.declared();
    assert!(
        declared.contains(&"mcp_y_echo".to_owned()) && !declared.contains(&"mcp_x_echo".to_owned()),
        "{declared:?}"
    );
    let names: Vec<Value> =
        mcp.metadata(&task)["mcpServers"].as_array().expect("a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["y"], "a server that is gone is not listed");
}

#[test]
fn a_server_can_be_switched_off_and_on() {
    let Some(mut mcp) = Mcp::new(json!({"x": python("", json!({}))})) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let status = |mcp: &Mcp| {
        mcp.fixture.client().call("message/send", prompt_in(&task, "TEXT again"));
        mcp.metadata(&task)["mcpServers"][0]["status"].clone()
    };
    said(&mcp, &["disable", "x"]);
    assert_eq!(status(&mcp), "disabled");
    assert!(mcp.declared().is_empty());
    mcp.fixture.server.restart();
    assert_eq!(status(&mcp), "disabled", "it is remembered");
    said(&mcp, &["enable", "x"]);
    assert_eq!(status(&mcp), "connected");
    said(&mcp, &["disable", "x", "--session"]);
    assert_eq!(status(&mcp), "disabled");
    mcp.fixture.server.restart();
    assert_eq!(status(&mcp), "connected", "it was for the session");
}

#[test]
fn the_log_of_a_server_is_kept() {
    let Some(mcp) = Mcp::new(json!({"x": python("banner", json!({}))})) else { return };
    mcp.fixture.say("TEXT hello");
    let log = said(&mcp, &["logs", "x"]);
    for line in ["Welcome!", "This is a banner.", "It has three lines."] {
        assert!(log.contains(line), "{log}");
    }
}
