//! Servers that a workspace defines: trust, and changed commands.

use crate::drive::task_in;
use crate::network::HttpServer;
use crate::support::eventually;
use crate::support::message::prompt_in;
use crate::{Mcp, ended, python};
use serde_json::{Value, json};

fn server(mcp: &Mcp, task: &str) -> Value {
    mcp.metadata(task)["mcpServers"].as_array().and_then(|servers| servers.first()).cloned().unwrap_or_default()
}

#[test]
fn in_an_untrusted_folder_no_server_is_started() {
    let network = HttpServer::start("");
    let (x, y) = (python("", json!({"HEARD": "heard"})), json!({"url": network.url("/mcp")}));
    let Some(mcp) = Mcp::with(&[], json!({"mcpServers": {"x": x, "y": y}})) else { return };
    mcp.set_workspace(&json!({"mcpServers": {"theirs": python("", json!({"HEARD": "heard"}))}}));
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let servers = mcp.metadata(&task)["mcpServers"].clone();
    assert_eq!(servers.as_array().map(Vec::len), Some(2), "nothing of the folder is read");
    for server in servers.as_array().expect("a list") {
        assert_eq!((&server["status"], &server["error"]), (&json!("disconnected"), &json!("folder is not trusted")));
    }
    assert!(mcp.heard().is_empty() && network.heard().is_empty() && mcp.declared().is_empty());
}

/// Nothing in the folder is read before it is trusted.
#[test]
fn the_servers_of_a_folder_start_as_soon_as_it_is_trusted() {
    let Some(mcp) = Mcp::with(&[], json!({})) else { return };
    mcp.set_workspace(&json!({"mcpServers": {"theirs": python("", json!({"HEARD": "heard"}))}}));
    mcp.fixture.say("TEXT hello");
    assert!(mcp.declared().is_empty() && mcp.heard().is_empty());
    let workspace = mcp.fixture.server.workspace().canonicalize().expect("it is there");
    mcp.put(
        mcp.fixture.server.state_dir().with_file_name("home").join(".gemini/trustedFolders.json"),
        &json!({workspace.display().to_string(): "TRUST_FOLDER"}),
    );
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    assert_eq!(server(&mcp, &task)["status"], "connected");
    assert!(mcp.declared().contains(&"mcp_theirs_echo".to_owned()), "{:?}", mcp.declared());
}

#[test]
fn a_workspace_cannot_trust_its_own_server() {
    let Some(mcp) = Mcp::new(json!({})) else { return };
    let mut own = python("", json!({}));
    own["trust"] = json!(true);
    mcp.set_workspace(&json!({"mcpServers": { "x": own }}));
    let (_, calls) = mcp.fixture.ask("CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done");
    assert_eq!(calls.len(), 1, "it asks");
    let said = "mcpServers.x.trust counts only in user and system settings";
    eventually("the log says so", || mcp.fixture.server.output().contains(said).then_some(()));
}

/// A server of the project whose command has changed is blocked until the user allows it.
#[test]
fn a_changed_command_of_the_workspace_is_blocked_until_it_is_allowed() {
    let Some(mut mcp) = Mcp::new(json!({})) else { return };
    mcp.set_workspace(&json!({"mcpServers": {"x": python("", json!({}))}}));
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    assert_eq!(server(&mcp, &task)["status"], "connected");
    mcp.set_workspace(&json!({"mcpServers": {"x": python("banner", json!({}))}}));
    mcp.fixture.server.restart();
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let seen = server(&mcp, &task);
    assert_eq!(seen["status"], "blocked");
    assert!(seen["error"].as_str().is_some_and(|why| why.contains("/mcp allow x")), "{seen}");
    assert!(mcp.declared().is_empty());
    let allowed = mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp allow", "args": ["x"]}));
    assert_eq!(allowed.status(), 200, "{}", allowed.text());
    let events: Vec<_> = mcp.fixture.client().stream("message/stream", prompt_in(&task, "TEXT again")).collect();
    assert!(ended(&events).is_none());
    assert_eq!(server(&mcp, &task)["status"], "connected");
}

/// A server is also blocked if it comes from a changed extension in the workspace, or if settings of the workspace change the server of
/// a user's extension.
#[test]
fn a_changed_part_of_the_workspace_blocks_the_server_of_an_extension() {
    let Some(mut mcp) = Mcp::new(json!({})) else { return };
    let home = mcp.fixture.server.state_dir().with_file_name("home");
    let extension = |base: &std::path::Path, name: &str, server: Value| {
        let manifest = json!({"name": name, "version": "1", "mcpServers": {name: server}});
        mcp.put(base.join(".gemini/extensions").join(name).join("gemini-extension.json"), &manifest);
    };
    let workspace = mcp.fixture.server.workspace();
    extension(&workspace, "theirs", python("", json!({})));
    extension(&home, "own", python("", json!({})));
    extension(&home, "plain", python("", json!({})));
    mcp.set_workspace(&json!({"mcpServers": {"own": {"excludeTools": ["fail"]}}}));
    let statuses = |mcp: &Mcp| {
        let task = task_in(&mcp.fixture.say("TEXT hello"));
        let servers = mcp.metadata(&task)["mcpServers"].as_array().cloned().expect("a list");
        let of = |server: &Value| format!("{} {}", server["name"].as_str().expect("a name"), server["status"]);
        servers.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(statuses(&mcp), "own \"connected\", plain \"connected\", theirs \"connected\"");
    extension(&workspace, "theirs", python("banner", json!({})));
    extension(&home, "plain", python("banner", json!({})));
    let args = python("banner", json!({}))["args"].clone();
    mcp.set_workspace(&json!({"mcpServers": {"own": {"args": args}}}));
    mcp.fixture.server.restart();
    assert_eq!(statuses(&mcp), "own \"blocked\", plain \"connected\", theirs \"blocked\"");
    for name in ["own", "theirs"] {
        mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp allow", "args": [name]}));
    }
    assert_eq!(statuses(&mcp), "own \"connected\", plain \"connected\", theirs \"connected\"");
}

/// Processes of servers count as tools: they may neither send prompts nor approve calls.
#[test]
fn a_server_cannot_approve_calls() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({}))})) else { return };
    let (open, calls) = mcp.fixture.ask("SHELL echo ran > ran.txt");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": crate::support::message::approval(&open, &calls[0], "proceed_once")});
    let words = json!({"url": mcp.fixture.server.url(), "body": body}).to_string();
    let script = format!("CALL mcp_x_post {} ;; TEXT done", json!({ "text": words }));
    let answered = mcp.run(&script)[0]["response"]["resultDisplay"].as_str().expect("a text").to_owned();
    assert!(answered.starts_with("403"), "{answered}");
    assert_eq!(mcp.fixture.file("ran.txt"), None);
    mcp.fixture.client().call("message/send", crate::support::message::approval(&open, &calls[0], "proceed_once"));
    assert_eq!(mcp.fixture.file("ran.txt").as_deref(), Some("ran\n"), "the user can");
}

/// The servers of an extension start in its directory and get the values of its settings; settings of the user win over it.
#[test]
fn extensions_bring_servers() {
    let Some(mut mcp) = Mcp::new(json!({"b": {"excludeTools": ["echo"]}})) else { return };
    let home = mcp.fixture.server.state_dir().with_file_name("home");
    let dir = home.join(".gemini/extensions/tools");
    std::fs::create_dir_all(&dir).expect("it is ours");
    let mut own = python("", json!({}));
    own["args"][0] = json!("${extensionPath}/server.py");
    own["trust"] = json!(true);
    let manifest = json!({"name": "tools", "version": "1", "mcpServers": {"a": own, "b": own},
        "settings": [{"name": "Token", "description": "A token.", "envVar": "TOOLS_TOKEN"}]});
    std::fs::write(dir.join("gemini-extension.json"), manifest.to_string()).expect("it is ours");
    std::fs::write(dir.join(".env"), "TOOLS_TOKEN=of-the-extension\n").expect("it is ours");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py"), dir.join("server.py")).expect("a copy");
    mcp.fixture.server.restart();
    mcp.wait_for_servers(&json!({"a": {}, "b": {}}));
    let ended = mcp.run("CALL mcp_a_environment {} ;; TEXT done");
    let env: Value =
        serde_json::from_str(ended[0]["response"]["resultDisplay"].as_str().expect("a text")).expect("JSON");
    assert_eq!(env["TOOLS_TOKEN"], "of-the-extension");
    assert_eq!(env["CWD"].as_str().map(std::path::Path::new), Some(dir.canonicalize().expect("it is there").as_path()));
    let declared = mcp.declared();
    assert!(declared.contains(&"mcp_a_echo".to_owned()) && declared.contains(&"mcp_b_look".to_owned()), "{declared:?}");
    assert!(!declared.contains(&"mcp_b_echo".to_owned()), "the user's settings exclude it");
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    assert_eq!(server(&mcp, &task)["origin"], "extension:tools");
}
