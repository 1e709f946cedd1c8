//! End-to-end tests of other agents as tools: two servers of this program that work together, and fake agents, including misbehaving ones.
#![cfg(feature = "agents")]

mod support;

#[path = "e2e/drive.rs"]
#[allow(dead_code, reason = "the tests of the folder use all of it")]
mod drive;
#[path = "agents/fake_agent.rs"]
mod fake_agent;
#[path = "agents/fakes.rs"]
mod fakes;
#[path = "agents/files.rs"]
mod files;
#[path = "agents/together.rs"]
mod together;

use drive::{Fixture, task_in};
use serde_json::{Value, json};
use std::path::Path;
use support::client::Event;
use support::message::prompt_in;

/// A server that calls agents.
pub struct Caller {
    pub fixture: Fixture,
}

impl Caller {
    /// A server that asks before it calls an agent.
    pub fn asking() -> Caller {
        Caller { fixture: Fixture::with(|setup| setup.arg("--trust-workspace").env("MY_KEY", "k3y-from-outside")) }
    }

    /// A server that calls agents without asking.
    pub fn allowed() -> Caller {
        let args = ["--approval-mode", "yolo", "--trust-workspace"];
        Caller { fixture: Fixture::with(|setup| setup.args(args).env("MY_KEY", "k3y-from-outside")) }
    }

    /// Writes an agent file in the user's home.
    pub fn agent(&self, name: &str, members: &str) {
        let home = self.fixture.server.state_dir().with_file_name("home");
        put(&home.join(format!(".gemini/agents/{name}.md")), name, members);
    }

    /// Writes an agent file in the workspace.
    pub fn agent_of_workspace(&self, name: &str, members: &str) {
        put(&self.fixture.server.workspace().join(format!(".gemini/agents/{name}.md")), name, members);
    }

    /// The events of a prompt to a new task.
    pub fn say(&self, script: &str) -> Vec<Event> {
        self.fixture.say(script)
    }

    pub fn say_in(&self, task: &str, script: &str) -> Vec<Event> {
        self.fixture.client().stream("message/stream", prompt_in(task, script)).collect()
    }

    /// Calls an agent in a new task. Returns the result that the model gets.
    pub fn calls(&self, agent: &str, prompt: &str) -> String {
        self.say(&call(agent, prompt));
        self.told()
    }

    /// The result of the last call in the last request to the model.
    pub fn told(&self) -> String {
        let request = self.fixture.fake.turns().pop().expect("a request").body;
        let contents = request["contents"].as_array().expect("a conversation");
        let parts = contents.iter().flat_map(|content| content["parts"].as_array().into_iter().flatten());
        let response = parts.filter_map(|part| part.get("functionResponse")).next_back().expect("a result");
        let response = &response["response"];
        response["output"].as_str().or(response["error"].as_str()).expect("a text").to_owned()
    }

    pub fn declared(&self) -> Vec<String> {
        let request = self.fixture.fake.turns().pop().expect("a request").body;
        let tools = request["tools"][0]["functionDeclarations"].as_array().expect("tools");
        tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
    }

    /// What `/agents list` returns.
    pub fn listed(&self) -> Value {
        let answer = self.fixture.client().post("/executeCommand", &json!({ "command": "agents list" })).json();
        answer["data"].clone()
    }
}

fn put(path: &Path, name: &str, members: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
    let text = format!("---\nkind: remote\nname: {name}\ndescription: Knows {name}.\n{members}---\n");
    std::fs::write(path, text).expect("it is ours");
}

/// The script of a model that calls an agent. The prompt may be a script itself.
pub fn call(agent: &str, prompt: &str) -> String {
    let args = json!({ "agent_name": agent, "prompt": prompt }).to_string().replace(" ;; ", " \\u003b\\u003b ");
    format!("CALL invoke_agent {args} ;; TEXT ok")
}
