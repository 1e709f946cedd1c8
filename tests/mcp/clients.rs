//! Servers that a client names for its task: which are allowed, that only the task can use them, and that their headers are not stored.

use crate::drive::task_in;
use crate::network::HttpServer;
use crate::support::client::Event;
use crate::support::message::{asked_of, prompt, prompt_in};
use crate::{Mcp, python};
use serde_json::{Value, json};

const KEY: &str = "s3cret-header-of-the-client";

/// The key of the development-tool extension in metadata.
const DEVTOOL: &str = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// A prompt that names servers.
fn naming(script: &str, servers: &Value) -> Value {
    let mut params = prompt(script);
    params["message"]["metadata"]["coderAgent"]["mcpServers"] = servers.clone();
    params
}

fn say(mcp: &Mcp, params: Value) -> Vec<Event> {
    mcp.fixture.client().stream("message/stream", params).collect()
}

/// The name, status and error of the servers of a task.
fn servers(mcp: &Mcp, task: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = mcp.metadata(task);
    let servers = metadata["mcpServers"].as_array().cloned().unwrap_or_default();
    servers.iter().map(|one| (text(&one["name"]), text(&one["status"]), text(&one["error"]))).collect()
}

/// Checks that every way to name these servers is refused and creates no task.
fn is_refused(mcp: &Mcp, named: &Value, rule: &str) {
    let before = mcp.fixture.client().get("/tasks").json();
    let error = mcp.fixture.client().rpc("message/send", naming("TEXT hello", named))["error"].clone();
    assert_eq!(error["code"], -32602, "{error} {named}");
    assert_eq!(error["data"]["reason"], "MCP_SERVER_NOT_ALLOWED", "{error} {named}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(rule)), "{error} {rule}");
    let mut in_request = prompt("TEXT hello");
    in_request["metadata"]["coderAgent"]["mcp_servers"] = named.clone();
    assert_eq!(mcp.fixture.client().fault("message/send", in_request), -32602);
    let mut of_tools = prompt("TEXT hello");
    of_tools["message"]["metadata"][DEVTOOL]["mcp_servers"] = named.clone();
    assert_eq!(mcp.fixture.client().fault("message/send", of_tools), -32602);
    for (path, body) in [
        ("/tasks", json!({"agentSettings": {"kind": "agent-settings", "mcpServers": named}})),
        ("/message/stream", json!({"userMessage": "TEXT hello", "agentSettings": {"mcp_servers": named}})),
    ] {
        let answer = mcp.fixture.client().post(path, &body);
        assert_eq!(answer.status(), 400, "{}", answer.text());
        assert!(answer.text().contains("MCP_SERVER_NOT_ALLOWED"), "{}", answer.text());
    }
    assert_eq!(mcp.fixture.client().get("/tasks").json(), before, "no task was made");
}

#[test]
fn without_the_option_every_named_server_is_refused() {
    let Some(mcp) = Mcp::with(&[], json!({})) else { return };
    let server = HttpServer::start("");
    is_refused(&mcp, &json!({"x": {"url": server.url("/mcp")}}), "--client-mcp");
    is_refused(&mcp, &json!([{"name": "x", "url": server.url("/mcp")}]), "--client-mcp");
    assert!(server.heard().is_empty());
    say(&mcp, naming("TEXT hello", &json!({})));
}

#[test]
fn programs_are_refused_in_every_mode() {
    for mode in ["off", "loopback", "listed"] {
        let Some(mcp) = Mcp::with(&["--client-mcp", mode, "--client-mcp-host", "127.0.0.1"], json!({})) else { return };
        let rule = if mode == "off" { "--client-mcp" } else { "may not be set by a client" };
        is_refused(&mcp, &json!({"x": {"command": "touch", "args": ["ran.txt"]}}), rule);
        is_refused(&mcp, &json!({"x": {"url": "http://127.0.0.1:9/", "env": {"A": "b"}}}), rule);
        assert_eq!(mcp.fixture.file("ran.txt"), None);
    }
}

#[test]
fn only_servers_that_the_operator_allows_are_connected() {
    let settings = json!({"mcpServers": {"mine": python("", json!({}))}});
    let Some(mcp) = Mcp::with(&["--client-mcp", "loopback"], settings) else { return };
    let own = format!("http://127.0.0.1:{}/", mcp.fixture.server.port());
    for (url, rule) in [
        ("http://10.0.0.1/mcp", "on this machine"),
        ("http://internal.example/mcp", "on this machine"),
        ("http://user:password@127.0.0.1:9/", "user name"),
        ("file:///etc/passwd", "http"),
        (own.as_str(), "this server itself"),
    ] {
        is_refused(&mcp, &json!({"x": {"url": url}}), rule);
    }
    is_refused(&mcp, &json!({"x": {"url": "http://127.0.0.1:9/", "trust": true}}), "may not be set");
    let many: Vec<Value> = (0..9).map(|n| json!({"name": format!("s{n}"), "url": "http://127.0.0.1:9/"})).collect();
    is_refused(&mcp, &json!(many), "at most 8");
    // The name is in the settings, which are read when the program starts.
    let mut mcp = mcp;
    mcp.fixture.server.restart();
    is_refused(&mcp, &json!({"mine": {"url": "http://127.0.0.1:9/"}}), "choose another name");

    // A listed host name must resolve to a public address.
    let server = HttpServer::start("");
    let Some(mcp) = Mcp::with(&["--client-mcp", "listed", "--client-mcp-host", "localhost"], json!({})) else { return };
    is_refused(&mcp, &json!({"x": {"url": server.url("/mcp")}}), "--client-mcp-host");
    let url = format!("http://localhost:{}/mcp", server.port);
    let task = task_in(&say(&mcp, naming("TEXT hello", &json!({"x": {"url": url}}))));
    let seen = servers(&mcp, &task);
    assert!(seen[0].1 == "disconnected" && seen[0].2.contains("is not on the public internet"), "{seen:?}");
    assert!(server.heard().is_empty());
    let host = format!("127.0.0.1:{}", server.port);
    let Some(mcp) = Mcp::with(&["--client-mcp", "listed", "--client-mcp-host", &host], json!({})) else { return };
    let task = task_in(&say(&mcp, naming("TEXT hello", &json!({"x": {"url": server.url("/mcp")}}))));
    assert_eq!(servers(&mcp, &task)[0].1, "connected", "an address that is listed may be private");
}

#[test]
fn a_server_named_by_a_client_belongs_to_its_task_and_always_needs_approval() {
    let args = ["--client-mcp", "loopback", "--trust-workspace", "--yolo"];
    let settings = json!({"tools": {"allowed": ["mcp_x_*", "mcp_*"]}});
    let Some(mut mcp) = Mcp::with(&args, settings) else { return };
    let server = HttpServer::start("");
    let named = json!({"x": {"url": server.url("/mcp?token=s3cret-of-the-query"), "headers": {"X-Key": KEY}}});
    let events = say(&mcp, naming("CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done", &named));
    let call = events.iter().find_map(|event| asked_of(event.result())).expect("it asks").to_owned();
    let task = task_in(&events);
    let options = serde_json::to_string(&events.iter().map(Event::result).collect::<Vec<_>>()).expect("JSON");
    assert!(!options.contains("proceed_always"), "{options}");
    assert_eq!(mcp.answer(&task, &call, "proceed_once")["response"]["resultDisplay"], "echo: one");
    assert!(server.heard().iter().all(|request| request["headers"]["x-key"] == KEY));
    assert_eq!(mcp.metadata(&task)["mcpServers"][0]["origin"], "client");

    let other = task_in(&mcp.fixture.say("TEXT hello"));
    assert!(mcp.declared().is_empty() && servers(&mcp, &other).is_empty(), "another task has nothing of it");
    let listed = mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp"})).text();
    assert!(listed.contains("\"servers\":[]"), "{listed}");
    let mut narrow = naming("TEXT hello", &named);
    narrow["message"]["metadata"]["coderAgent"]["allowedTools"] = json!(["mcp_x_look", "read_file"]);
    say(&mcp, narrow);
    assert_eq!(mcp.declared(), ["mcp_x_look"]);

    mcp.fixture.server.restart();
    say(&mcp, prompt_in(&task, "TEXT again"));
    let seen = servers(&mcp, &task);
    assert!(seen[0].1 == "disconnected" && seen[0].2.contains("give the server's headers again"), "{seen:?}");
    assert!(mcp.declared().is_empty());
    let mut again = naming("TEXT again", &named);
    again["message"]["taskId"] = json!(task);
    say(&mcp, again);
    assert_eq!(servers(&mcp, &task)[0].1, "connected", "they were given again");
    let elsewhere = HttpServer::start("");
    let mut other = naming("TEXT more", &json!({"x": {"url": elsewhere.url("/other")}}));
    other["message"]["taskId"] = json!(task);
    say(&mcp, other);
    assert!(elsewhere.heard().is_empty(), "a later message names no other server");
    mcp.fixture.server.kill9();
    for secret in [KEY, "s3cret-of-the-query"] {
        assert_eq!(crate::found_in_files(&mcp.fixture.server.state_dir(), secret), Vec::<String>::new());
        assert!(!mcp.fixture.server.output().contains(secret));
    }
}

/// Servers that a client names work in an untrusted folder. Their redirections are not followed.
#[test]
fn a_named_server_works_in_an_untrusted_folder() {
    let Some(mcp) = Mcp::with(&["--client-mcp", "loopback"], json!({})) else { return };
    let server = HttpServer::start("");
    let task = task_in(&say(&mcp, naming("TEXT hello", &json!({"x": {"url": server.url("/mcp")}}))));
    assert_eq!(servers(&mcp, &task)[0].1, "connected");
    assert!(mcp.declared().contains(&"mcp_x_echo".to_owned()));
    // Also under the key of the development-tool extension, in both spellings.
    for key in ["mcp_servers", "mcpServers"] {
        let mut params = prompt("TEXT hello");
        params["message"]["metadata"][DEVTOOL][key] = json!({"y": {"url": server.url("/mcp")}});
        let task = task_in(&say(&mcp, params));
        assert_eq!(servers(&mcp, &task)[0].1, "connected", "{key}");
        assert!(mcp.declared().contains(&"mcp_y_echo".to_owned()), "{key}");
    }
    let server = HttpServer::start("moved");
    let task = task_in(&say(&mcp, naming("TEXT hello", &json!({"x": {"url": server.url("/mcp")}}))));
    let seen = servers(&mcp, &task);
    assert!(seen[0].1 == "disconnected" && seen[0].2.contains("redirects"), "{seen:?}");
    assert!(server.heard().iter().all(|request| request["path"] == "/mcp"));
}
