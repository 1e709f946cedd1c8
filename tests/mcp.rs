//! MCP servers that are programs, with the real binary: how they are started and ended, what the model and clients see of their
//! tools, approvals, and servers that misbehave. The servers are `tests/mcp/server.py`, so these tests need python3; without it
//! they say so and pass.
#![cfg(feature = "mcp")]

mod support;

#[path = "mcp/approvals.rs"]
mod approvals;
#[path = "mcp/calls.rs"]
mod calls;
#[path = "mcp/clients.rs"]
mod clients;
#[path = "mcp/commands.rs"]
mod commands;
#[path = "e2e/drive.rs"]
#[allow(dead_code, reason = "the tests of the folder use all of it")]
mod drive;
#[path = "mcp/extensions.rs"]
mod extensions;
#[path = "mcp/hostile.rs"]
mod hostile;
#[path = "mcp/life.rs"]
mod life;
#[path = "mcp/login.rs"]
mod login;
#[path = "mcp/network.rs"]
mod network;
#[path = "mcp/programs.rs"]
mod programs;
#[path = "mcp/prompts.rs"]
mod prompts;
#[path = "mcp/questions.rs"]
mod questions;
#[path = "mcp/resources.rs"]
mod resources;
#[path = "mcp/secrets.rs"]
mod secrets;
#[path = "mcp/trust.rs"]
mod trust;
#[path = "mcp/verbs.rs"]
mod verbs;

use drive::Fixture;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::client::Event;
use support::eventually;
use support::message::{approval, call_of, call_status_of};

/// A server whose workspace is trusted, with MCP servers.
pub struct Mcp {
    pub fixture: Fixture,
}

impl Mcp {
    /// A server with these MCP servers in the user's settings. `None` if there is no python3.
    pub fn new(servers: Value) -> Option<Mcp> {
        Mcp::with(&["--trust-workspace"], json!({ "mcpServers": servers }))
    }

    pub fn with(args: &[&str], settings: Value) -> Option<Mcp> {
        Mcp::with_environment(&[], args, settings)
    }

    pub fn with_environment(env: &[(String, String)], args: &[&str], settings: Value) -> Option<Mcp> {
        if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no python3");
            return None;
        }
        let fixture = Fixture::with(|setup| {
            let setup = setup.args(args).env("MY_VALUE", "from-outside").settings(&settings.to_string());
            env.iter().fold(setup, |setup, (name, value)| setup.env(name, value))
        });
        let mcp = Mcp { fixture };
        if args.contains(&"--trust-workspace") {
            mcp.wait_for_servers(&settings["mcpServers"]);
        }
        Some(mcp)
    }

    /// Waits until the servers that start with the program are started. Does not wait for servers that hang.
    pub fn wait_for_servers(&self, servers: &Value) {
        let names: Vec<&String> = servers.as_object().into_iter().flatten().map(|(name, _)| name).collect();
        // The command below reads the settings, which a test may write later.
        if names.is_empty() {
            return;
        }
        let hangs = |name: &str| servers[name]["args"][1].as_str().is_some_and(|words| words.contains("hang"));
        eventually("the servers are started", || {
            let answer =
                self.fixture.client().post("/executeCommand", &json!({"command": "mcp list", "args": []})).json();
            let listed = answer["data"]["servers"].as_array().cloned().unwrap_or_default();
            let is_started = |name: &str| {
                let server = listed.iter().find(|server| server["name"] == name);
                server.is_none_or(|server| server["status"] != "connecting" && server["status"] != "not started")
            };
            let own = |name: &str| servers[name]["isolation"] == "task";
            names.iter().all(|name| hangs(name) || own(name) || is_started(name)).then_some(())
        });
    }

    fn put(&self, path: PathBuf, settings: &Value) {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
        std::fs::write(path, settings.to_string()).expect("it is ours");
    }

    /// Writes the user's settings. They are read at the start, and when a task first needs a server.
    pub fn set_user(&self, settings: &Value) {
        self.put(self.fixture.server.state_dir().with_file_name("home").join(".gemini/settings.json"), settings);
    }

    pub fn set_workspace(&self, settings: &Value) {
        self.put(self.fixture.server.workspace().join(".gemini/settings.json"), settings);
    }

    /// The file to which a server appends the messages that it receives.
    pub fn heard_file(&self) -> PathBuf {
        self.fixture.server.workspace().join("heard")
    }

    pub fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.heard_file()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
    }

    /// The names of the MCP tools that the last request to the model declared.
    pub fn declared(&self) -> Vec<String> {
        let request = self.fixture.fake.turns().pop().expect("a request").body;
        let tools = request["tools"][0]["functionDeclarations"].as_array().expect("tools");
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        names.filter(|name| name.starts_with("mcp_")).map(str::to_owned).collect()
    }

    /// The metadata of a task.
    pub fn metadata(&self, task: &str) -> Value {
        self.fixture.client().get(&format!("/tasks/{task}/metadata")).json()["metadata"].clone()
    }

    /// Sends a prompt, approves every call once, and returns the last event of each call.
    pub fn run(&self, script: &str) -> Vec<Value> {
        let (task, calls) = self.fixture.ask(script);
        calls.iter().map(|call| self.answer(&task, call, "proceed_once")).collect()
    }

    /// Answers a question and waits for the end of the call.
    pub fn answer(&self, task: &str, call: &str, outcome: &str) -> Value {
        let events: Vec<Event> =
            self.fixture.client().stream("message/stream", approval(task, call, outcome)).collect();
        ended(&events).unwrap_or_else(|| panic!("the call did not end: {events:#?}\n{}", self.fixture.server.output()))
    }
}

/// The response of the last call that ended.
pub fn ended(events: &[Event]) -> Option<Value> {
    let is_over = |event: &&Event| ["success", "error", "cancelled"].contains(&call_status_of(event.result()));
    events.iter().rev().find(is_over).map(|event| call_of(event.result()).clone())
}

/// The settings of a server that runs `server.py` with these variations.
pub fn python(words: &str, env: Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
    json!({"command": "python3", "args": [script, words], "env": env})
}

/// The files below a folder that contain a text.
pub fn found_in_files(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(found_in_files(&path, text));
        } else if std::fs::read(&path).is_ok_and(|bytes| contains(&bytes, text.as_bytes())) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
