//! What the operator's switches change, in the whole core on a disk of memory and with a clock that jumps.
//!
//! Time limits: tasks are closed when nobody goes on with them and forgotten when they have been over for long enough, whether they
//! are in memory or not, and a restart in between changes nothing about when. Then what is acknowledged when, and what
//! becomes of a turn whose client goes away.

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

/// Clients of 0.3 are those of the reference server, whose tasks go on after a turn.
fn conversational() -> Switches {
    Switches { default_profile_03: Profile::Coder, ..Switches::default() }
}

/// A server whose model says one word, or makes one call.
struct TestServer {
    core: Core,
    store: FailingStore,
    limits: Limits,
    now: Now,
    births: u128,
    /// Tasks loaded, in order.
    loads: Vec<TaskId>,
    calls: bool,
    /// The model does not answer, and the disk does not flush, for as long as these are set.
    silent: bool,
    stuck: bool,
    syncs: Vec<(TaskId, Seq)>,
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
            births: 0,
            loads: vec![],
            calls: false,
            silent: false,
            stuck: false,
            syncs: vec![],
            stopped: 0,
        }
    }

    fn restart(&mut self) {
        self.births += 1_000;
        // The monotonic clock begins anew with the process.
        self.now.mono_ms = 7;
        self.core = Core::new(Setup {
            entropy: Entropy::counting_after(self.births),
            ..setup(&self.limits, conversational(), self.now)
        });
        self.core.input(Input::Listed(self.store.known()), self.now);
        self.settle();
    }

    /// Lets time pass in one jump, and then as long as something follows from it at once.
    fn pass(&mut self, ms: u64) {
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
                // The pause between two looks at those that are due.
                Some(at) if at <= self.now.mono_ms + self.limits.expiry_pause_ms => {
                    let pause = at.saturating_sub(self.now.mono_ms);
                    self.now.mono_ms += pause;
                    self.now.unix_ms += pause;
                }
                Some(_) | None => return,
            }
        }
        panic!("it does not come to rest");
    }

    /// One turn of the loop; whether there is more to do.
    fn turn(&mut self) -> bool {
        let now = self.now;
        // Clients take what there is when they look.
        let mut outside = Outside::default();
        self.core.turn(&mut self.store, &mut outside, now);
        self.core.check();
        let outs = outside.outs;
        let more = !outs.is_empty();
        for out in outs {
            match out {
                Out::Start(_) if self.silent => {}
                Out::Start(job) => {
                    let body = match job.work {
                        Work::Think(_) if self.calls => task::model_answers(&[task::edit()]),
                        Work::Think(_) => task::model_answers(&[]),
                        Work::Prepare { .. } => NoteBody::Prepared(vec![Ok(task::plan(&task::edit()))]),
                        other => panic!("nobody does {other:?} here"),
                    };
                    let note = Note { job: job.id, body };
                    self.core.input(Input::Note(note), now);
                }
                Out::Store(StoreRequest::Sync { task, upto }) if self.stuck => self.syncs.push((task, upto)),
                Out::Store(StoreRequest::Page { .. }) => panic!("nobody reads old events here"),
                Out::Store(request) => {
                    if let StoreRequest::Load { task } = &request {
                        self.loads.push(task.clone());
                    }
                    self.core.input(request.run(&self.store), now);
                }
                Out::Compute(computation) => self.core.input(computation.run(&*self.store.blobs()), now),
                Out::Stop(_) => self.stopped += 1,
                Out::Reply { .. } => panic!("no server asks here"),
                Out::ReadCredentials => panic!("there are no credentials here"),
                Out::Maintain(_)
                | Out::CommandHook(_)
                | Out::EndBackground { .. }
                | Out::ClientServers { .. }
                | Out::ClientKey { .. }
                | Out::FetchKeys
                | Out::SaveRule { .. }
                | Out::ForgetRule { .. } => {}
                Out::AccessLog(_) | Out::Scrape(_) | Out::Reload | Out::Log { .. } => {}
                Out::Resolve { .. } => panic!("nobody names a workspace here"),
                Out::Deliver(_) => panic!("nobody is told here"),
                Out::Blob(_) | Out::Files(_) => panic!("nobody reads stored content or looks for files here"),
                Out::Identify { .. } => panic!("everybody is known here"),
            }
        }
        more || self.core.has_more()
    }

    /// A connection that has asked for something.
    fn ask(&mut self, method: &str, params: Value) -> Key {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = request.to_string();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let bytes = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let conn = self.core.opened(Peer::SameUser, self.now);
        self.core.input(Input::Received { conn, bytes: bytes.as_bytes() }, self.now);
        conn
    }

    /// What has been sent on a connection after everything that follows by itself.
    fn heard(&mut self, conn: Key) -> String {
        for _ in 0..100 {
            self.turn();
        }
        String::from_utf8(core_harness::waiting(&self.core, conn)).expect("what is sent is text")
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let conn = self.ask(method, params);
        let text = self.heard(conn);
        self.core.input(Input::Broke { conn }, self.now);
        let body = text.split_once("\r\n\r\n").expect("a head and a body").1;
        serde_json::from_str(body).expect("JSON")
    }

    /// Prompts, waits for the turn, and gives the task's id.
    fn say(&mut self, place: Value) -> String {
        let mut message = prompt()["message"].take();
        for (name, value) in place.as_object().expect("members") {
            message[name] = value.clone();
        }
        let answer = self.call("message/send", json!({ "message": message }));
        let id = answer["result"]["id"].as_str();
        id.unwrap_or_else(|| panic!("no task in {answer}")).to_owned()
    }

    /// How a task is shown: its state, or the error's code.
    fn shown(&mut self, task: &str) -> String {
        let answer = self.call("tasks/get", json!({ "id": task }));
        let state = answer["result"]["status"]["state"].as_str();
        state.map_or_else(|| answer["error"]["code"].to_string(), str::to_owned)
    }

    /// A task as it is on disk.
    fn state(&mut self, task: &TaskId) -> State {
        let file = self.store.open(task).expect("a log");
        fold(&*file, None).expect("a good log")
    }

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
fn an_idle_task_is_completed_and_then_forgotten() {
    let mut server = TestServer::new(TIMES);
    let task = server.say(json!({}));
    server.pass(23 * HOUR);
    assert_eq!(server.shown(&task), "input-required");
    server.pass(HOUR);
    assert_eq!(server.shown(&task), "completed");
    server.pass(11 * HOUR);
    assert_eq!(server.shown(&task), "completed");
    server.pass(2 * HOUR);
    assert_eq!(server.shown(&task), "-32001");
    assert_eq!(server.on_disk(), [""; 0]);
}

#[test]
fn whoever_goes_on_with_a_task_prolongs_it() {
    let mut server = TestServer::new(TIMES);
    let task = server.say(json!({}));
    for _ in 0..5 {
        server.pass(23 * HOUR);
        server.say(json!({ "taskId": task }));
    }
    server.pass(23 * HOUR);
    assert_eq!(server.shown(&task), "input-required");
}

#[test]
fn a_restart_prolongs_nothing_and_only_what_is_due_is_loaded() {
    let mut server = TestServer::new(TIMES);
    let old: Vec<String> = (0..5).map(|_| server.say(json!({}))).collect();
    server.pass(20 * HOUR);
    let young = server.say(json!({}));
    server.restart();
    assert_eq!(server.loads, []);
    server.pass(4 * HOUR);
    let mut loads: Vec<String> = server.loads.iter().map(TaskId::to_string).collect();
    let mut expected = old.clone();
    loads.sort();
    expected.sort();
    assert_eq!(loads, expected, "each once, and nobody else");
    // What came only to be closed does not stay, but for the last few.
    assert!(server.core.check().tasks <= 2, "{:?}", server.core.check());
    server.restart();
    server.pass(13 * HOUR);
    assert_eq!(server.loads.len(), 5, "what is deleted is not loaded");
    assert_eq!(server.on_disk(), [young.as_str()]);
    assert_eq!(server.shown(&young), "input-required");
    assert_eq!(server.shown(&old[0]), "-32001");
}

#[test]
fn what_became_due_while_no_server_ran_is_closed_at_the_start() {
    let mut server = TestServer::new(TIMES);
    let task = server.say(json!({}));
    server.pass(10 * HOUR);
    server.say(json!({}));
    server.now.unix_ms += 20 * HOUR;
    server.restart();
    assert_eq!(server.shown(&task), "completed");
    server.now.unix_ms += 20 * HOUR;
    server.restart();
    assert!(!server.on_disk().contains(&task));
}

#[test]
fn after_more_than_a_day_without_a_server_all_periods_begin_anew() {
    let mut server = TestServer::new(TIMES);
    let task = server.say(json!({}));
    server.now.unix_ms += 30 * HOUR;
    server.restart();
    assert_eq!(server.shown(&task), "input-required", "the clock may have been set");
    server.pass(23 * HOUR);
    assert_eq!(server.shown(&task), "input-required");
    server.pass(2 * HOUR);
    assert_eq!(server.shown(&task), "completed");
}

#[test]
fn a_task_that_was_continued_stays_as_long_as_its_context() {
    let mut server = TestServer::new(TIMES);
    let first = server.say(json!({}));
    server.call("tasks/cancel", json!({ "id": first }));
    let context = server.call("tasks/get", json!({ "id": first }))["result"]["contextId"].clone();
    server.pass(6 * HOUR);
    let second = server.say(json!({ "contextId": context }));
    server.pass(20 * HOUR);
    assert_eq!(server.on_disk().len(), 2, "it is what the second remembers");
    server.pass(4 * HOUR);
    assert_eq!(server.shown(&second), "completed");
    server.pass(13 * HOUR);
    assert_eq!(server.on_disk(), [""; 0], "they go together");
    assert_eq!(server.shown(&first), "-32001");
}

#[test]
fn a_question_has_the_same_deadline_after_a_restart() {
    let mut server = TestServer::new(Times { answer_ms: Some(HOUR), ..TIMES });
    server.calls = true;
    let task = server.say(json!({}));
    server.calls = false;
    server.pass(HOUR / 2);
    server.restart();
    assert_eq!(server.shown(&task), "input-required");
    server.pass(HOUR / 2 - 1_000);
    let open = |server: &mut TestServer| server.state(&task.as_str().into());
    assert_eq!(open(&mut server).asked().count(), 1);
    server.pass(1_000);
    let state = open(&mut server);
    assert_eq!(state.asked().count(), 0);
    assert!(state.is_idle());
}

#[test]
fn for_ever_means_for_ever() {
    let mut server = TestServer::new(Times { idle_ms: None, retention_ms: None, ..TIMES });
    let (idle, over) = (server.say(json!({})), server.say(json!({})));
    server.call("tasks/cancel", json!({ "id": over }));
    server.pass(10_000 * HOUR);
    assert_eq!(server.shown(&idle), "input-required");
    assert_eq!(server.shown(&over), "canceled");
}

/// What is sent on a stream, frame by frame.
fn frames(heard: &str) -> Vec<Value> {
    let lines = heard.lines().filter_map(|line| line.strip_prefix("data: "));
    let whole = lines.map(|line| serde_json::from_str(line).expect("JSON in a frame"));
    whole.collect()
}

#[test]
fn a_strict_acknowledgement_waits_for_the_disk() {
    let strict = RequestPolicy { durability: Durability::Strict, ..RequestPolicy::default() };
    for (method, strictly) in
        [("message/send", true), ("message/stream", true), ("message/send", false), ("message/stream", false)]
    {
        let request_policy = if strictly { strict } else { RequestPolicy::default() };
        let mut server = TestServer::with(TIMES, conversational(), request_policy);
        server.stuck = true;
        let conn = server.ask(method, prompt());
        let heard = server.heard(conn);
        assert_eq!(heard.contains("\"result\""), !strictly, "{method}: {heard}");
        assert_eq!(server.syncs.len(), usize::from(strictly), "{method}");
        if strictly {
            // What came behind the prompt in the meantime is not waited for a second time.
            let (task, upto) = server.syncs.remove(0);
            server.core.input(Input::Synced { task, upto, result: Ok(()) }, server.now);
            let heard = server.heard(conn);
            assert!(heard.contains("\"input-required\""), "{method}: {heard}");
            assert_eq!(server.syncs, [], "{method}");
        }
    }
}

#[test]
fn what_cannot_be_made_safe_is_not_acknowledged() {
    let request_policy = RequestPolicy { durability: Durability::Strict, ..RequestPolicy::default() };
    for method in ["message/send", "message/stream"] {
        let mut server = TestServer::with(TIMES, conversational(), request_policy);
        server.stuck = true;
        let conn = server.ask(method, prompt());
        server.heard(conn);
        let (task, upto) = server.syncs.remove(0);
        let failed = Err(StoreError::new("the disk is full"));
        server.core.input(Input::Synced { task, upto, result: failed }, server.now);
        let heard = server.heard(conn);
        assert!(heard.contains("the disk is full"), "{method}: {heard}");
        assert!(!heard.contains("\"result\""), "{method}: {heard}");
    }
}

#[test]
fn a_turn_outlives_its_client_unless_it_is_switched_to_abort() {
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
        server.silent = true;
        let conn = server.ask("message/stream", prompt());
        let first = frames(&server.heard(conn)).remove(0);
        let task = first["result"]["id"].as_str().expect("a task").to_owned();
        server.core.input(Input::Broke { conn }, server.now);
        assert_eq!(server.core.has_more(), aborts);
        server.settle();
        let state = if aborts { "input-required" } else { "working" };
        assert_eq!(server.shown(&task), state, "{disconnect:?} {profile}");
        assert_eq!(server.stopped, usize::from(aborts));
    }
}

/// A client that only watches can go: the turn is another's.
#[test]
fn only_the_client_of_a_turn_aborts_it() {
    let request_policy = RequestPolicy { disconnect: Disconnect::Aborts, ..RequestPolicy::default() };
    let mut server = TestServer::with(TIMES, conversational(), request_policy);
    server.silent = true;
    let conn = server.ask("message/stream", prompt());
    let first = frames(&server.heard(conn)).remove(0);
    let task = first["result"]["id"].as_str().expect("a task").to_owned();
    let watching = server.ask("tasks/resubscribe", json!({ "id": task }));
    server.heard(watching);
    server.core.input(Input::Broke { conn: watching }, server.now);
    server.settle();
    assert_eq!(server.shown(&task), "working");
    // Who will say no more is gone too, as the reference server sees it.
    server.core.input(Input::Finished { conn }, server.now);
    server.settle();
    let whole = server.call("tasks/get", json!({ "id": task }));
    let text = &whole["result"]["status"]["message"]["parts"][0]["text"];
    assert_eq!(text, "Execution aborted by client.");
}

#[test]
fn the_reference_servers_own_state_is_shown_first_when_wanted() {
    let persisted = json!({
        "__persistedState": {
            "_agentSettings": {"kind": "agent-settings", "workspacePath": "/w", "isTrusted": true},
            "_taskState": "submitted",
        },
    });
    for emits in [false, true] {
        let switches = Switches { emit_persisted_state: emits, ..conversational() };
        let mut server = TestServer::with(TIMES, switches, RequestPolicy::default());
        let conn = server.ask("message/stream", prompt());
        let first = frames(&server.heard(conn)).remove(0)["result"].take();
        let mut expected = if emits { persisted.clone() } else { json!({}) };
        if emits {
            expected["_contextId"] = first["contextId"].clone();
        }
        let shown = first.get("metadata").cloned().unwrap_or(json!({}));
        assert_eq!(shown, expected);
    }
}

#[test]
fn an_extended_card_is_there_only_when_it_is_wanted() {
    let switches = Switches { extended_card: true, ..Switches::default() };
    let mut server = TestServer::with(TIMES, switches, RequestPolicy::default());
    let shown = server.call("agent/getAuthenticatedExtendedCard", json!({}));
    assert_eq!(shown["result"]["supportsAuthenticatedExtendedCard"], true);
    let shown = server.call("GetExtendedAgentCard", json!({}));
    assert_eq!(shown["result"]["capabilities"]["extendedAgentCard"], true);
    let mut plain = TestServer::new(TIMES);
    let refused = plain.call("agent/getAuthenticatedExtendedCard", json!({}));
    assert_eq!(refused["error"]["code"], -32007);
    let refused = plain.call("GetExtendedAgentCard", json!({}));
    assert_eq!(refused["error"]["code"], -32004);
}
