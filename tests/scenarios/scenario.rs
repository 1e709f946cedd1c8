//! Runs one scenario against a server of its own and records the responses, one short line per event.
//!
//! A request opens a block with the line `> request`; its events or its response follow. A line that repeats within a block
//! is recorded once, and so is a repeated update of a call: clients may not depend on how many chunks a model sends or how
//! often an update is repeated. Calls are numbered in the order in which they appear.

use crate::support::client::{Client, Event, Events};
use crate::support::fake::FakeGemini;
use crate::support::message::{asked_of, call_of, kind_of, prompt, prompt_at, prompt_in, state_of, task_of, text_of};
use crate::support::server::{Server, Setup};
use serde_json::{Value, json};
use std::sync::Mutex;

pub struct Scenario {
    pub fake: FakeGemini,
    pub server: Server,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    blocks: Vec<Vec<String>>,
    calls: Vec<String>,
}

impl Scenario {
    pub fn new() -> Scenario {
        Scenario::with(|setup| setup)
    }

    pub fn with(change: impl FnOnce(Setup) -> Setup) -> Scenario {
        let fake = FakeGemini::start();
        let server = change(Setup::new(&fake)).start();
        Scenario { fake, server, log: Mutex::default() }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.server.url())
    }

    /// Sends a prompt that creates a task and reads the stream to its end.
    pub fn send(&self, script: &str) -> Turn {
        self.start(script).rest()
    }

    /// Sends a prompt that creates a task; its stream is still open.
    pub fn start(&self, script: &str) -> OpenStream<'_> {
        let params = prompt_at(&self.server.workspace(), script);
        self.open(script, "message/stream", params)
    }

    /// Sends a prompt to an existing task and reads the stream to its end.
    pub fn send_to(&self, task: &str, script: &str) -> Turn {
        self.open(script, "message/stream", prompt_in(task, script)).rest()
    }

    /// Gives the same answer to each of these calls in one message, and reads the stream to its end.
    pub fn answer(&self, task: &str, outcome: &str, calls: &[String]) -> Turn {
        self.answering(task, outcome, calls).rest()
    }

    /// Gives the same answer to each of these calls in one message; the stream is still open.
    pub fn answering(&self, task: &str, outcome: &str, calls: &[String]) -> OpenStream<'_> {
        let part = |call| json!({ "kind": "data", "data": { "callId": call, "outcome": outcome } });
        let params = parts_in(task, calls.iter().map(part).collect());
        self.open(outcome, "message/stream", params)
    }

    pub fn open(&self, title: &str, method: &str, params: Value) -> OpenStream<'_> {
        let block = self.block(title);
        let events = self.client().stream(method, params);
        OpenStream { scenario: self, block, events, seen: vec![] }
    }

    /// Sends a JSON-RPC request with a single response, and returns the whole response.
    pub fn rpc(&self, method: &str, params: Value) -> Value {
        let block = self.block(method);
        let reply = self.client().rpc(method, params);
        self.log().line(block, &format!("200 {}", outline(&reply)));
        reply
    }

    /// The task as `tasks/get` returns it.
    pub fn state(&self, task: &str) -> Value {
        let mut reply = self.rpc("tasks/get", json!({ "id": task }));
        reply["result"].take()
    }

    /// Sends any other request; its status and its error code or media type are recorded.
    pub fn http(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Value {
        let block = self.block(&format!("{method} {path}"));
        let answer = self.client().request(method, path, fields, body.as_bytes());
        let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let what = match &json["error"]["code"] {
            Value::Null => answer
                .head
                .field("content-type")
                .map_or("nothing", |media| media.split(';').next().unwrap_or(media))
                .to_string(),
            code => format!("error {code}"),
        };
        let status = answer.status();
        self.log().line(block, &format!("{status} {what}"));
        json
    }

    pub fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.server.workspace().join(name)).ok()
    }

    /// Checks that the responses were those of the reference server.
    pub fn expect(&self, script: &[&str]) {
        self.compare(script, None);
    }

    /// Checks that the responses were those of the reference server except for the lines marked `-` (only the reference
    /// server sends them) and `+` (only this server does); `because` is the reason.
    pub fn expect_but(&self, because: &str, script: &[&str]) {
        self.compare(script, Some(because));
    }

    fn compare(&self, script: &[&str], because: Option<&str>) {
        let lines = || script.iter().flat_map(|piece| piece.lines());
        let lines = || lines().map(str::trim).filter(|line| !line.is_empty());
        let marked = lines().any(|line| line.starts_with("+ ") || line.starts_with("- "));
        assert_eq!(marked, because.is_some(), "differences are marked and have a reason");
        // The reference server shows a question again when it is answered. Clients might answer it again, so it is not shown here.
        let again = "status input-required tool-call-confirmation";
        let ours = lines().filter(|line| !line.starts_with("- ") && !line.trim_start_matches("+ ").starts_with(again));
        let expected: Vec<&str> = ours.map(|line| line.trim_start_matches("+ ")).collect();
        let seen = self.log().blocks.concat();
        if seen != expected {
            let why = because.map_or(String::new(), |why| format!(" (differs because {why})"));
            panic!("{why}\n--- expected\n{}\n--- seen\n{}\n---", expected.join("\n"), seen.join("\n"));
        }
    }

    fn block(&self, title: &str) -> usize {
        let mut log = self.log();
        log.blocks.push(vec![format!("> {title}")]);
        log.blocks.len() - 1
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().expect("no thread panics while it holds the log")
    }
}

impl Log {
    fn event(&mut self, block: usize, json: &Value) {
        let result = &json["result"];
        let line = match result["kind"].as_str() {
            Some("status-update") => self.status(result),
            Some("artifact-update") => {
                let id = result["artifact"]["artifactId"].as_str().unwrap_or("");
                let call = id.strip_prefix("tool-").and_then(|id| id.strip_suffix("-output"));
                match call {
                    Some(call) => format!("artifact {}", self.number(call)),
                    None => format!("artifact {id}"),
                }
            }
            _ => outline(json),
        };
        self.line(block, &line);
    }

    fn status(&mut self, update: &Value) -> String {
        let kind = update["metadata"]["coderAgent"]["kind"].as_str();
        let mut line = format!("status {} {}", state_of(update).unwrap_or("?"), kind.unwrap_or("?"));
        let data = call_of(update);
        if let Some(call) = data["request"]["callId"].as_str() {
            let status = data["status"].as_str().unwrap_or("?");
            line.push_str(&format!(" {} {status}", self.number(call)));
        }
        if update["final"] == true {
            line.push_str(" final");
        }
        line
    }

    fn number(&mut self, call: &str) -> usize {
        match self.calls.iter().position(|known| known == call) {
            Some(at) => at + 1,
            None => {
                self.calls.push(call.to_string());
                self.calls.len()
            }
        }
    }

    fn line(&mut self, block: usize, line: &str) {
        let lines = &mut self.blocks[block];
        let again = lines.last().is_some_and(|last| last == line)
            || line.contains(" tool-call-") && lines.iter().any(|known| known == line);
        if !again {
            lines.push(line.to_string());
        }
    }
}

/// The kind and state of a response or event, without its content.
fn outline(json: &Value) -> String {
    match (&json["error"]["code"], json["result"]["kind"].as_str()) {
        (Value::Null, Some(kind)) => {
            format!("{kind} {}", state_of(&json["result"]).unwrap_or("?"))
        }
        (Value::Null, None) => "?".to_string(),
        (code, _) => format!("error {code}"),
    }
}

/// A stream that has not been read to its end.
pub struct OpenStream<'a> {
    scenario: &'a Scenario,
    block: usize,
    events: Events,
    seen: Vec<Event>,
}

impl OpenStream<'_> {
    /// Reads up to the first event that `fits`.
    pub fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Event {
        let (scenario, block, seen) = (self.scenario, self.block, &mut self.seen);
        self.events.until(what, |event| {
            scenario.log().event(block, &event.json);
            seen.push(event.clone());
            fits(event.result())
        })
    }

    pub fn task(&mut self) -> String {
        let of = |event: &Event| task_of(event.result()).map(str::to_string);
        if let Some(task) = self.seen.iter().find_map(of) {
            return task;
        }
        let event = self.until("a task", |result| task_of(result).is_some());
        of(&event).expect("the event names a task")
    }

    /// Reads the stream to its end.
    pub fn rest(mut self) -> Turn {
        for event in self.events.by_ref() {
            self.scenario.log().event(self.block, &event.json);
            self.seen.push(event);
        }
        Turn { events: self.seen }
    }
}

/// The events of a stream that has ended.
pub struct Turn {
    pub events: Vec<Event>,
}

impl Turn {
    pub fn task(&self) -> &str {
        let task = self.events.iter().find_map(|event| task_of(event.result()));
        task.unwrap_or_else(|| panic!("no task in {:#?}", self.events))
    }

    /// The calls the user is asked about, in the order of the questions.
    pub fn asked(&self) -> Vec<String> {
        let mut calls: Vec<String> = vec![];
        for call in self.events.iter().filter_map(|event| asked_of(event.result())) {
            if !calls.iter().any(|known| known == call) {
                calls.push(call.to_string());
            }
        }
        calls
    }

    /// The model's text.
    pub fn text(&self) -> String {
        let is_text = |event: &&Event| kind_of(event.result()) == "text-content";
        let texts = self.events.iter().filter(is_text);
        texts.map(|event| text_of(event.result())).collect()
    }

    pub fn last(&self) -> &Value {
        self.events.last().expect("a stream with events").result()
    }

    /// The data of every call update with this status.
    pub fn calls(&self, status: &str) -> Vec<&Value> {
        let calls = self.events.iter().map(|event| call_of(event.result()));
        calls.filter(|data| data["status"] == status).collect()
    }
}

/// Parameters of a message with these parts to a task.
pub fn parts_in(task: &str, parts: Vec<Value>) -> Value {
    let mut params = prompt("");
    params["message"]["taskId"] = json!(task);
    params["message"]["parts"] = json!(parts);
    params
}
