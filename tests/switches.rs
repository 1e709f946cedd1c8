//! The effects of the server's options, tested in the whole core with a store in memory and a clock that the tests set.
//!
//! Time limits: idle tasks are completed and ended tasks are deleted after their periods, whether they are in memory or not, and a restart
//! does not change the periods. Durability: when a request is acknowledged. Disconnects: what happens with a turn whose client disconnects.

mod core_harness;
mod task;

use crate::core_harness::failing_store::FailingStore;
use core_harness::Outside;
use gemini_a2a::a2a::Switches;
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{Entropy, Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::core::disk::store::{Archive, StoreError, fold};
use gemini_a2a::core::{Core, Input, Out, Setup};
use gemini_a2a::limits::{Limits, Times};
use gemini_a2a::task::call::{Disconnect, Durability, RequestPolicy};
use gemini_a2a::task::log::event::Profile;
use gemini_a2a::task::machine::job::{Note, NoteBody, Work};
use gemini_a2a::task::machine::state::State;
use serde_json::{Value, json};

const HOUR: u64 = 3_600_000;

const TIMES: Times = Times { answer_ms: None, turn_ms: None, idle_ms: Some(24 * HOUR), retention_ms: Some(12 * HOUR) };

/// Clients of 0.3 have the coder profile, in which tasks stay open after a turn.
fn conversational() -> Switches {
    Switches { default_profile_03: Profile::Coder, ..Switches::default() }
}

/// A core whose model answers with text, or makes one call.
struct TestServer {
    core: Core,
    store: FailingStore,
    limits: Limits,
    now: Now,
    /// The beginning of the entropy of the current process, so that ids differ after a restart.
    entropy: u128,
    /// The tasks that were loaded, in order.
    loads: Vec<TaskId>,
    /// The model makes a call.
    makes_call: bool,
    /// The model does not answer.
    is_model_silent: bool,
    /// Requests to flush the disk are held in `syncs`.
    is_disk_stuck: bool,
    syncs: Vec<(TaskId, Seq)>,
    /// The number of jobs that were stopped.
    stopped: usize,
}

impl TestServer {
    fn new(times: Times) -> TestServer {
        TestServer::with(times, conversational(), RequestPolicy::default())
    }

    fn with(times: Times, switches: Switches, request_policy: RequestPolicy) -> TestServer {
        let limits = Limits { times, expiries: 2, ..Limits::default() };
        let now = Now { mono_ms: 5_000, unix_ms: task::NOON };
        let setup = Setup { request_policy, ..setup(&limits, switches, now) };
        TestServer {
            core: Core::new(setup),
            store: FailingStore::default(),
            limits,
            now,
            entropy: 0,
            loads: vec![],
            makes_call: false,
            is_model_silent: false,
            is_disk_stuck: false,
            syncs: vec![],
            stopped: 0,
        }
    }

    fn restart(&mut self) {
        self.entropy += 1_000;
        // The monotonic clock starts again with the process.
        self.now.mono_ms = 7;
        self.core = Core::new(Setup {
            entropy: Entropy::counting_after(self.entropy),
            ..setup(&self.limits, conversational(), self.now)
        });
        self.core.input(Input::Listed(self.store.known()), self.now);
        self.settle();
    }

    /// Sets the clocks forward, and runs the core until nothing is due.
    fn advance(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..1_000 {
            if self.turn() {
                continue;
            }
            match self.core.deadline() {
                // The core handles due tasks in portions, with this pause between them.
                Some(at) if at <= self.now.mono_ms + self.limits.expiry_pause_ms => {
                    let pause = at.saturating_sub(self.now.mono_ms);
                    self.now.mono_ms += pause;
                    self.now.unix_ms += pause;
                }
                Some(_) | None => return,
            }
        }
        panic!("the core does not come to rest");
    }

    /// One turn of the loop. Returns whether there is more to do.
    fn turn(&mut self) -> bool {
        let now = self.now;
        // Sent bytes stay in the core until a test reads them.
        let mut outside = Outside::default();
        self.core.turn(&mut self.store, &mut outside, now);
        self.core.check();
        let outs = outside.outs;
        let more = !outs.is_empty();
        for out in outs {
            match out {
                Out::Start(_) if self.is_model_silent => {}
                Out::Start(job) => {
                    let body = match job.work {
                        Work::Think(_) if self.makes_call => task::model_answers(&[task::edit()]),
                        Work::Think(_) => task::model_answers(&[]),
                        Work::Prepare { .. } => NoteBody::Prepared(vec![Ok(task::plan(&task::edit()))]),
                        other => panic!("unexpected job {other:?}"),
                    };
                    let note = Note { job: job.id, body };
                    self.core.input(Input::Note(note), now);
                }
                Out::Store(StoreRequest::Sync { task, upto }) if self.is_disk_stuck => self.syncs.push((task, upto)),
                Out::Store(StoreRequest::Page { .. }) => panic!("no test reads old events"),
                Out::Store(request) => {
                    if let StoreRequest::Load { task } = &request {
                        self.loads.push(task.clone());
                    }
                    self.core.input(request.run(&self.store), now);
                }
                Out::Compute(computation) => self.core.input(computation.run(&*self.store.blobs()), now),
                Out::Stop(_) => self.stopped += 1,
                Out::Reply { .. } => panic!("there is no MCP server"),
                Out::ReadCredentials => panic!("there are no credentials"),
                Out::Maintain(_)
                | Out::CommandHook(_)
                | Out::EndBackground { .. }
                | Out::ClientServers { .. }
                | Out::ClientKey { .. }
                | Out::FetchKeys
                | Out::SaveRule { .. }
                | Out::ForgetRule { .. } => {}
                Out::AccessLog(_) | Out::Scrape(_) | Out::Reload | Out::Log { .. } => {}
                Out::Resolve { .. } => panic!("no request names a workspace"),
                Out::Deliver(_) => panic!("there are no webhooks"),
                Out::Blob(_) | Out::Files(_) => panic!("no request reads stored content or searches files"),
                Out::Identify { .. } => panic!("every connection is of the same user"),
            }
        }
        more || self.core.has_more()
    }

    /// Sends a request over a new connection.
    fn send(&mut self, method: &str, params: Value) -> Key {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = request.to_string();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let bytes = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let conn = self.core.opened(Peer::SameUser, self.now);
        self.core.input(Input::Received { conn, bytes: bytes.as_bytes() }, self.now);
        conn
    }

    /// All bytes that were sent on a connection, after the core has come to rest.
    fn received(&mut self, conn: Key) -> String {
        for _ in 0..100 {
            self.turn();
        }
        String::from_utf8(core_harness::waiting(&self.core, conn)).expect("what is sent is text")
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let conn = self.send(method, params);
        let text = self.received(conn);
        self.core.input(Input::Broke { conn }, self.now);
        let body = text.split_once("\r\n\r\n").expect("a head and a body").1;
        serde_json::from_str(body).expect("JSON")
    }

    /// Sends a prompt with these members, and waits for its turn. Returns the id of the task.
    fn prompt(&mut self, members: Value) -> String {
        let mut message = prompt()["message"].take();
        for (name, value) in members.as_object().expect("members") {
            message[name] = value.clone();
        }
        let answer = self.call("message/send", json!({ "message": message }));
        let id = answer["result"]["id"].as_str();
        id.unwrap_or_else(|| panic!("no task in {answer}")).to_owned()
    }

    /// The state of a task as clients see it, or the code of the error.
    fn shown_state(&mut self, task: &str) -> String {
        let answer = self.call("tasks/get", json!({ "id": task }));
        let state = answer["result"]["status"]["state"].as_str();
        state.map_or_else(|| answer["error"]["code"].to_string(), str::to_owned)
    }

    /// A task as it is on disk.
    fn state(&mut self, task: &TaskId) -> State {
        let file = self.store.open(task).expect("a log");
        fold(&*file, None).expect("a good log")
    }

    /// The ids of the tasks on disk.
    fn on_disk(&mut self) -> Vec<String> {
        let known = self.store.known().into_iter();
        known.map(|known| known.task.to_string()).collect()
    }
}

fn prompt() -> Value {
    json!({ "message": {
        "kind": "message", "role": "user", "messageId": "m",
        "parts": [{"kind": "text", "text": "go"}],
    }})
}

fn setup(limits: &Limits, switches: Switches, now: Now) -> Setup {
    Setup { tools: task::tools().into_values().collect(), ..core_harness::setup(limits.clone(), switches, now) }
}

#[test]
fn an_idle_task_is_completed_and_then_deleted() {
    let mut server = TestServer::new(TIMES);
    let task = server.prompt(json!({}));
    server.advance(23 * HOUR);
    assert_eq!(server.shown_state(&task), "input-required");
    server.advance(HOUR);
    assert_eq!(server.shown_state(&task), "completed");
    server.advance(11 * HOUR);
    assert_eq!(server.shown_state(&task), "completed");
    server.advance(2 * HOUR);
    assert_eq!(server.shown_state(&task), "-32001");
    assert_eq!(server.on_disk(), [""; 0]);
}

#[test]
fn a_prompt_prolongs_an_idle_task() {
    let mut server = TestServer::new(TIMES);
    let task = server.prompt(json!({}));
    for _ in 0..5 {
        server.advance(23 * HOUR);
        server.prompt(json!({ "taskId": task }));
    }
    server.advance(23 * HOUR);
    assert_eq!(server.shown_state(&task), "input-required");
}

#[test]
fn a_restart_prolongs_nothing_and_only_what_is_due_is_loaded() {
    let mut server = TestServer::new(TIMES);
    let old: Vec<String> = (0..5).map(|_| server.prompt(json!({}))).collect();
    server.advance(20 * HOUR);
    let young = server.prompt(json!({}));
    server.restart();
    assert_eq!(server.loads, []);
    server.advance(4 * HOUR);
    let mut loads: Vec<String> = server.loads.iter().map(TaskId::to_string).collect();
    let mut expected = old.clone();
    loads.sort();
    expected.sort();
    assert_eq!(loads, expected, "the due tasks, each once");
    // Tasks that were loaded only to be completed are unloaded, except for the last few.
    assert!(server.core.check().tasks <= 2, "{:?}", server.core.check());
    server.restart();
    server.advance(13 * HOUR);
    assert_eq!(server.loads.len(), 5, "a task is deleted without being loaded");
    assert_eq!(server.on_disk(), [young.as_str()]);
    assert_eq!(server.shown_state(&young), "input-required");
    assert_eq!(server.shown_state(&old[0]), "-32001");
}

#[test]
fn a_task_that_became_due_while_no_server_ran_is_completed_at_the_start() {
    let mut server = TestServer::new(TIMES);
    let task = server.prompt(json!({}));
    server.advance(10 * HOUR);
    server.prompt(json!({}));
    server.now.unix_ms += 20 * HOUR;
    server.restart();
    assert_eq!(server.shown_state(&task), "completed");
    server.now.unix_ms += 20 * HOUR;
    server.restart();
    assert!(!server.on_disk().contains(&task));
}

#[test]
fn after_more_than_a_day_without_a_server_all_periods_start_again() {
    let mut server = TestServer::new(TIMES);
    let task = server.prompt(json!({}));
    server.now.unix_ms += 30 * HOUR;
    server.restart();
    assert_eq!(server.shown_state(&task), "input-required", "the clock may have been set");
    server.advance(23 * HOUR);
    assert_eq!(server.shown_state(&task), "input-required");
    server.advance(2 * HOUR);
    assert_eq!(server.shown_state(&task), "completed");
}

#[test]
fn a_task_that_was_continued_stays_as_long_as_its_context() {
    let mut server = TestServer::new(TIMES);
    let first = server.prompt(json!({}));
    server.call("tasks/cancel", json!({ "id": first }));
    let context = server.call("tasks/get", json!({ "id": first }))["result"]["contextId"].clone();
    server.advance(6 * HOUR);
    let second = server.prompt(json!({ "contextId": context }));
    server.advance(20 * HOUR);
    assert_eq!(server.on_disk().len(), 2, "the second task continues the conversation of the first");
    server.advance(4 * HOUR);
    assert_eq!(server.shown_state(&second), "completed");
    server.advance(13 * HOUR);
    assert_eq!(server.on_disk(), [""; 0], "both are deleted together");
    assert_eq!(server.shown_state(&first), "-32001");
}

#[test]
fn a_question_has_the_same_deadline_after_a_restart() {
    let mut server = TestServer::new(Times { answer_ms: Some(HOUR), ..TIMES });
    server.makes_call = true;
    let task = server.prompt(json!({}));
    server.makes_call = false;
    server.advance(HOUR / 2);
    server.restart();
    assert_eq!(server.shown_state(&task), "input-required");
    server.advance(HOUR / 2 - 1_000);
    let open = |server: &mut TestServer| server.state(&task.as_str().into());
    assert_eq!(open(&mut server).asked().count(), 1);
    server.advance(1_000);
    let state = open(&mut server);
    assert_eq!(state.asked().count(), 0);
    assert!(state.is_idle());
}

#[test]
fn without_limits_tasks_are_kept_for_ever() {
    let mut server = TestServer::new(Times { idle_ms: None, retention_ms: None, ..TIMES });
    let (idle, over) = (server.prompt(json!({})), server.prompt(json!({})));
    server.call("tasks/cancel", json!({ "id": over }));
    server.advance(10_000 * HOUR);
    assert_eq!(server.shown_state(&idle), "input-required");
    assert_eq!(server.shown_state(&over), "canceled");
}

/// The frames of a stream.
fn frames(received: &str) -> Vec<Value> {
    let lines = received.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).expect("JSON in a frame")).collect()
}

#[test]
fn a_strict_acknowledgement_waits_for_the_disk() {
    let strict = RequestPolicy { durability: Durability::Strict, ..RequestPolicy::default() };
    for (method, is_strict) in
        [("message/send", true), ("message/stream", true), ("message/send", false), ("message/stream", false)]
    {
        let request_policy = if is_strict { strict } else { RequestPolicy::default() };
        let mut server = TestServer::with(TIMES, conversational(), request_policy);
        server.is_disk_stuck = true;
        let conn = server.send(method, prompt());
        let received = server.received(conn);
        assert_eq!(received.contains("\"result\""), !is_strict, "{method}: {received}");
        assert_eq!(server.syncs.len(), usize::from(is_strict), "{method}");
        if is_strict {
            // The response does not wait for events that followed the prompt in the meantime.
            let (task, upto) = server.syncs.remove(0);
            server.core.input(Input::Synced { task, upto, result: Ok(()) }, server.now);
            let received = server.received(conn);
            assert!(received.contains("\"input-required\""), "{method}: {received}");
            assert_eq!(server.syncs, [], "{method}");
        }
    }
}

#[test]
fn a_prompt_that_cannot_be_flushed_is_not_acknowledged() {
    let request_policy = RequestPolicy { durability: Durability::Strict, ..RequestPolicy::default() };
    for method in ["message/send", "message/stream"] {
        let mut server = TestServer::with(TIMES, conversational(), request_policy);
        server.is_disk_stuck = true;
        let conn = server.send(method, prompt());
        server.received(conn);
        let (task, upto) = server.syncs.remove(0);
        let failed = Err(StoreError::new("the disk is full"));
        server.core.input(Input::Synced { task, upto, result: failed }, server.now);
        let received = server.received(conn);
        assert!(received.contains("the disk is full"), "{method}: {received}");
        assert!(!received.contains("\"result\""), "{method}: {received}");
    }
}

#[test]
fn a_turn_continues_without_its_client_unless_the_server_aborts_it() {
    for (disconnect, profile, aborts) in [
        (Disconnect::GoesOn, "coder", false),
        (Disconnect::Aborts, "coder", true),
        (Disconnect::Aborts, "plain", false),
    ] {
        let request_policy = RequestPolicy { disconnect, ..RequestPolicy::default() };
        let switches = Switches {
            default_profile_03: match profile {
                "coder" => Profile::Coder,
                _ => Profile::Plain,
            },
            ..Switches::default()
        };
        let mut server = TestServer::with(TIMES, switches, request_policy);
        server.is_model_silent = true;
        let conn = server.send("message/stream", prompt());
        let first = frames(&server.received(conn)).remove(0);
        let task = first["result"]["id"].as_str().expect("a task").to_owned();
        server.core.input(Input::Broke { conn }, server.now);
        assert_eq!(server.core.has_more(), aborts);
        server.settle();
        let state = if aborts { "input-required" } else { "working" };
        assert_eq!(server.shown_state(&task), state, "{disconnect:?} {profile}");
        assert_eq!(server.stopped, usize::from(aborts));
    }
}

/// The turn continues when a subscriber disconnects that has not sent the prompt.
#[test]
fn only_the_client_of_a_turn_aborts_it() {
    let request_policy = RequestPolicy { disconnect: Disconnect::Aborts, ..RequestPolicy::default() };
    let mut server = TestServer::with(TIMES, conversational(), request_policy);
    server.is_model_silent = true;
    let conn = server.send("message/stream", prompt());
    let first = frames(&server.received(conn)).remove(0);
    let task = first["result"]["id"].as_str().expect("a task").to_owned();
    let subscriber = server.send("tasks/resubscribe", json!({ "id": task }));
    server.received(subscriber);
    server.core.input(Input::Broke { conn: subscriber }, server.now);
    server.settle();
    assert_eq!(server.shown_state(&task), "working");
    // A client that closes its sending half counts as disconnected, as in the reference server.
    server.core.input(Input::Finished { conn }, server.now);
    server.settle();
    let task = server.call("tasks/get", json!({ "id": task }));
    let text = &task["result"]["status"]["message"]["parts"][0]["text"];
    assert_eq!(text, "Execution aborted by client.");
}

#[test]
fn the_persisted_state_of_the_reference_server_is_in_the_first_event_if_configured() {
    let persisted = json!({
        "__persistedState": {
            "_agentSettings": {"kind": "agent-settings", "workspacePath": "/w", "isTrusted": true},
            "_taskState": "submitted",
        },
    });
    for emits in [false, true] {
        let switches = Switches { emit_persisted_state: emits, ..conversational() };
        let mut server = TestServer::with(TIMES, switches, RequestPolicy::default());
        let conn = server.send("message/stream", prompt());
        let first = frames(&server.received(conn)).remove(0)["result"].take();
        let mut expected = if emits { persisted.clone() } else { json!({}) };
        if emits {
            expected["_contextId"] = first["contextId"].clone();
        }
        let metadata = first.get("metadata").cloned().unwrap_or(json!({}));
        assert_eq!(metadata, expected);
    }
}

#[test]
fn the_extended_card_is_served_only_if_configured() {
    let switches = Switches { extended_card: true, ..Switches::default() };
    let mut server = TestServer::with(TIMES, switches, RequestPolicy::default());
    let card = server.call("agent/getAuthenticatedExtendedCard", json!({}));
    assert_eq!(card["result"]["supportsAuthenticatedExtendedCard"], true);
    let card = server.call("GetExtendedAgentCard", json!({}));
    assert_eq!(card["result"]["capabilities"]["extendedAgentCard"], true);
    let mut plain = TestServer::new(TIMES);
    let refused = plain.call("agent/getAuthenticatedExtendedCard", json!({}));
    assert_eq!(refused["error"]["code"], -32007);
    let refused = plain.call("GetExtendedAgentCard", json!({}));
    assert_eq!(refused["error"]["code"], -32004);
}
