//! The server that receives the requests: the real core with a store in memory, workers whose results are fixed, and tasks in every state:
//! an idle session, a working task, two that wait for an answer, two that have ended, and one of another tenant that waits. Requests
//! contain their ids as names, such as `$idle`.

use crate::connection::{Connection, Received};
use crate::core_harness::failing_store::FailingStore;
use crate::core_harness::{Outside, Takes};
use crate::task;
use gemini_a2a::a2a::Switches;
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::check::Counts;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::core::disk::store::{Archive, fold};
use gemini_a2a::core::{Core, Input, Out, Setup, Site};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::Profile;
use gemini_a2a::task::machine::job::{Job, Note, NoteBody, RunEnd, Work};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The largest body or message that is accepted; small, so that the tests with larger ones are fast.
pub const LARGEST: usize = 64 * 1024;

/// The time between two requests, so that the limit of webhooks that may be set in a minute is never reached.
const PAUSE_MS: u64 = 1_000;

pub struct TestServer {
    core: Core,
    store: FailingStore,
    now: Now,
    workers: Workers,
    /// The effects of the core on the world outside, as text, since the last call of [`TestServer::take_outs`].
    outs: Vec<String>,
    /// The bytes for each connection that it has not read.
    sent: BTreeMap<Key, Vec<u8>>,
    closed: Vec<Key>,
    names: Vec<(String, String)>,
}

/// The behaviour of the workers.
#[derive(Clone, Debug)]
pub enum Workers {
    /// They finish every job at once; the model answers with text.
    Work,
    /// The same, but the model first makes this call.
    Ask(Request),
    /// They never finish a job.
    Sleep,
}

impl TestServer {
    /// A server with the tasks, whose workers never finish a job.
    pub fn new() -> TestServer {
        let limits = Limits { body_bytes: LARGEST, ws_message_bytes: LARGEST, ..Limits::default() };
        let now = Now { mono_ms: 5_000, unix_ms: task::NOON };
        let mut server = TestServer {
            core: core(limits, now),
            store: FailingStore::default(),
            now,
            workers: Workers::Work,
            outs: Vec::new(),
            sent: BTreeMap::new(),
            closed: Vec::new(),
            names: Vec::new(),
        };
        server.create_tasks();
        server.workers = Workers::Sleep;
        server.outs.clear();
        server
    }

    /// The same with workers that finish every job.
    pub fn with_workers() -> TestServer {
        TestServer { workers: Workers::Work, ..TestServer::new() }
    }

    fn create_tasks(&mut self) {
        let session = self.send("POST", "/tasks", "", None);
        self.name("session", &session["sessionId"]);
        let idle = self.prompt("", Workers::Work);
        self.name_task("idle", &idle);
        let hook = json!({"taskId": idle["id"], "pushNotificationConfig":
            {"id": "hook-1", "url": "https://client.example/a2a"}});
        self.rpc("tasks/pushNotificationConfig/set", hook);
        for (name, id) in [("waiting", "one"), ("other", "two")] {
            let task = self.prompt("", Workers::Ask(task::call(task::EDIT, id)));
            self.name_task(name, &task);
            self.question(name, &task);
        }
        let working = self.prompt("", Workers::Ask(task::call(task::EDIT, "three")));
        self.name_task("working", &working);
        let call = self.question("working", &working);
        self.workers = Workers::Sleep;
        let answer = json!({"message": {"role": "user", "messageId": "a", "taskId": working["id"],
            "parts": [{"kind": "data", "data": {"callId": call, "outcome": "proceed_once"}}]},
            "configuration": {"blocking": false}});
        self.rpc("message/send", answer);
        let canceled = self.prompt("", Workers::Work);
        self.name_task("canceled", &canceled);
        self.rpc("tasks/cancel", json!({"id": canceled["id"]}));
        let foreign = self.prompt("acme", Workers::Ask(task::call(task::EDIT, "four")));
        self.name_task("foreign", &foreign);
        self.question("foreign", &foreign);
        let prompt = json!({"message": {"role": "ROLE_USER", "messageId": "c", "parts": [{"text": "go"}]}});
        self.workers = Workers::Work;
        let completed = self.rpc("SendMessage", prompt);
        self.name_task("completed", &completed["task"]);
        for (name, status) in [("token", Value::Null), ("other_token", json!("input-required"))] {
            let page = self.rpc("ListTasks", json!({"pageSize": 1, "status": status}));
            self.name(name, &page["nextPageToken"]);
        }
        // Longer names are replaced first, because `$idle` is the beginning of `$idle_context`.
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }

    /// Sends a prompt that creates a task, and waits for its turn. Returns the task.
    fn prompt(&mut self, tenant: &str, workers: Workers) -> Value {
        self.workers = workers;
        let mut body = json!({"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "go"}]}});
        if tenant.is_empty() {
            body["message"]["parts"][0]["kind"] = json!("text");
            return self.rpc("message/send", body);
        }
        let target = format!("/{tenant}/message:send?profile=coder");
        let version = "A2A-Version: 1.0\r\n";
        self.send("POST", &target, version, Some(&body))["task"].take()
    }

    fn rpc(&mut self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut answer = self.send("POST", "/", "", Some(&body));
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    }

    fn send(&mut self, method: &str, target: &str, headers: &str, body: Option<&Value>) -> Value {
        let body = body.map(Value::to_string).unwrap_or_default();
        let bytes =
            http_request(method, target, &format!("Content-Type: application/json\r\n{headers}"), body.as_bytes());
        let mut connection = self.open();
        let received = self.exchange(&mut connection, &bytes);
        self.disconnect(&connection);
        match received.as_slice() {
            [Received::Response { head, body }] if head.status() < 300 => serde_json::from_slice(body).expect("JSON"),
            other => panic!("{method} {target}: {other:?}"),
        }
    }

    fn name(&mut self, name: &str, value: &Value) {
        let value = value.as_str().filter(|value| !value.is_empty());
        let value = value.unwrap_or_else(|| panic!("${name} has no value"));
        assert!(
            self.names.iter().all(|(_, known)| known != value) || name.ends_with("_context"),
            "${name} and another name have the value {value}"
        );
        self.names.push((format!("${name}"), value.to_owned()));
    }

    fn name_task(&mut self, name: &str, task: &Value) {
        self.name(name, &task["id"]);
        self.name(&format!("{name}_context"), &task["contextId"]);
    }

    /// The call of the only open question of a task.
    fn question(&mut self, name: &str, task: &Value) -> String {
        let task = TaskId::from(task["id"].as_str().expect("an id"));
        let file = self.store.open(&task).expect("a log");
        let state = fold(&*file, None).expect("a good log");
        let call = state.asked().next().expect("a question").id().to_string();
        self.name(&format!("{name}_call"), &json!(call));
        call
    }

    /// Replaces the names in a text by the ids.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.names {
            text = text.replace(name, value);
        }
        text
    }

    // Connections.

    pub fn open(&mut self) -> Connection {
        self.now.mono_ms += PAUSE_MS;
        self.now.unix_ms += PAUSE_MS;
        Connection::new(self.core.opened(Peer::SameUser, self.now))
    }

    /// Sends bytes, and runs the core until nothing is left to do. Returns what the client has received.
    pub fn exchange(&mut self, connection: &mut Connection, bytes: &[u8]) -> Vec<Received> {
        self.core.input(Input::Received { conn: connection.key, bytes }, self.now);
        self.settle();
        let bytes = self.sent.remove(&connection.key).unwrap_or_default();
        connection.take(&bytes)
    }

    /// Lets time pass. Returns what the client has received.
    pub fn later(&mut self, connection: &mut Connection, ms: u64) -> Vec<Received> {
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        self.exchange(connection, b"")
    }

    /// Closes the sending half of the connection. Returns what the client has received then.
    pub fn finish(&mut self, connection: &mut Connection) -> Vec<Received> {
        self.core.input(Input::Finished { conn: connection.key }, self.now);
        self.settle();
        let bytes = self.sent.remove(&connection.key).unwrap_or_default();
        connection.take(&bytes)
    }

    pub fn is_closed(&self, connection: &Connection) -> bool {
        self.closed.contains(&connection.key)
    }

    pub fn disconnect(&mut self, connection: &Connection) {
        self.core.input(Input::Broke { conn: connection.key }, self.now);
        self.settle();
        self.sent.remove(&connection.key);
        self.closed.retain(|key| *key != connection.key);
    }

    fn settle(&mut self) {
        for _ in 0..1_000 {
            if !self.turn() {
                return;
            }
        }
        panic!("the core does not come to rest");
    }

    /// One turn of the loop. Returns whether there may be more to do.
    fn turn(&mut self) -> bool {
        let now = self.now;
        let mut outside = Outside { takes: Takes::Everything, ..Outside::default() };
        self.core.turn(&mut self.store, &mut outside, now);
        self.core.check();
        let more = !outside.outs.is_empty() || !outside.taken.is_empty();
        for out in outside.take_outs() {
            // Reading a journal, checking a workspace, decoding and logging are no effects.
            let is_read = matches!(out, Out::Store(StoreRequest::Page { .. }) | Out::Resolve { .. } | Out::Compute(_));
            if !is_read && !matches!(out, Out::Log { .. }) {
                self.outs.push(format!("{out:?}"));
            }
            self.handle(out);
        }
        for (key, bytes) in outside.taken {
            self.sent.entry(key).or_default().extend(bytes);
        }
        self.closed.extend(outside.closed.into_iter().map(|(key, _)| key));
        more || self.core.has_more()
    }

    fn handle(&mut self, out: Out) {
        let now = self.now;
        match out {
            Out::Start(job) => {
                if let Some(body) = self.work(&job) {
                    self.core.input(Input::Note(Note { job: job.id, body }), now);
                }
            }
            Out::Store(StoreRequest::Load { task }) => panic!("{task} left memory"),
            Out::Store(request) => self.core.input(request.run(&self.store), now),
            Out::Compute(computation) => self.core.input(computation.run(&*self.store.blobs()), now),
            Out::Resolve { request, path, .. } => {
                let site = match path.as_str() {
                    "/nowhere" => Err("There is no directory of that name.".into()),
                    _ => Ok(Site { path: "/w".into(), trusted: true, ..Site::default() }),
                };
                self.core.input(Input::Resolved { request, site }, now);
            }
            Out::Deliver(delivery) => {
                let (task, hook, seq) = (delivery.task, delivery.hook, delivery.seq);
                self.core.input(Input::Delivered { task, hook, seq, result: Ok(()) }, now);
            }
            Out::Stop(_)
            | Out::Reply { .. }
            | Out::ReadCredentials
            | Out::Maintain(_)
            | Out::CommandHook(_)
            | Out::EndBackground { .. }
            | Out::ClientServers { .. }
            | Out::ClientKey { .. }
            | Out::FetchKeys
            | Out::SaveRule { .. }
            | Out::ForgetRule { .. } => {}
            Out::AccessLog(_) | Out::Scrape(_) | Out::Reload | Out::Log { .. } => {}
            Out::Blob(request) => panic!("no task names stored content: {request:?}"),
            Out::Files(request) => panic!("no request searches files: {request:?}"),
            Out::Identify { .. } => panic!("every connection is of the same user"),
        }
    }

    fn work(&self, job: &Job) -> Option<NoteBody> {
        if let Workers::Sleep = self.workers {
            return None;
        }
        Some(match &job.work {
            Work::Think(think) => match &self.workers {
                Workers::Ask(call) if think.round == 0 => task::model_answers(std::slice::from_ref(call)),
                Workers::Ask(_) | Workers::Work | Workers::Sleep => task::model_answers(&[]),
            },
            Work::Prepare { calls, .. } => NoteBody::Prepared(calls.iter().map(|call| Ok(task::plan(call))).collect()),
            Work::Run(_) => NoteBody::Ended(RunEnd::Ended(task::success())),
            Work::Attach { .. } => NoteBody::Attached(Default::default()),
            Work::Command(_) => task::command_says("done"),
            Work::Compact(_) => panic!("the conversations are too short to be summarized"),
        })
    }

    // The state that refused requests must not change.

    /// The bytes of every journal.
    pub fn journals(&mut self) -> Vec<(TaskId, Vec<u8>)> {
        let known = self.store.known().into_iter();
        let tasks: Vec<TaskId> = known.map(|known| known.task).collect();
        tasks
            .into_iter()
            .map(|task| {
                let file = self.store.open(&task).expect("a journal");
                let bytes = file.page(0, 1 << 30).expect("a page");
                (task, bytes)
            })
            .collect()
    }

    /// The effects of the core since the last call: jobs, deliveries, rules.
    pub fn take_outs(&mut self) -> Vec<String> {
        std::mem::take(&mut self.outs)
    }

    pub fn counts(&self) -> Counts {
        self.core.check()
    }
}

/// A request as bytes.
pub fn http_request(method: &str, target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let host = match headers.to_ascii_lowercase().contains("host:") {
        true => "",
        false => "Host: localhost\r\n",
    };
    let length = match (method, body.len()) {
        ("GET" | "HEAD" | "DELETE", 0) => String::new(),
        (_, length) => format!("Content-Length: {length}\r\n"),
    };
    let head = format!("{method} {target} HTTP/1.1\r\n{host}{headers}{length}\r\n");
    [head.as_bytes(), body].concat()
}

fn core(limits: Limits, now: Now) -> Core {
    // Tasks of 0.3 stay open after a turn, as the requests here expect.
    let switches = Switches { default_profile_03: Profile::Coder, ..Switches::default() };
    Core::new(Setup {
        tools: task::tools().into_values().collect(),
        choose: Box::new(|wish| match wish {
            Some("no-model") => Err("There is no model of that name.".into()),
            _ => Ok("some-model".into()),
        }),
        ..crate::core_harness::setup(limits, switches, now)
    })
}
