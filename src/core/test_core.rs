//! A core for unit tests, with a store in memory, a clock that tests set, and a shell that only records the outputs.

use crate::a2a::{Dialect, Form, Switches};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::level::Level;
use crate::base::slots::Key;
use crate::core::compute::Computation;
use crate::core::connections::connection::{Peer, ReadStep};
use crate::core::disk::Parked;
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Archive, StoreError};
use crate::core::operation::access_log::Entry;
use crate::core::requests::Caller;
use crate::core::webhooks::Delivery;
use crate::core::{Close, Core, HookNotice, Input, Out, Setup, Site};
use crate::limits::{INLINE_BYTES, Limits};
use crate::task::access::Principal;
use crate::task::access::credentials::CredentialsFile;
use crate::task::call::{Call, Create, Mode, Say, TaskTraits};
use crate::task::log::answer::{Answer, Request};
use crate::task::log::blob::Blobs;
use crate::task::log::event::{Event, Lifecycle, Profile, Protocol};
use crate::task::machine::decide::Decision;
use crate::task::machine::job::{JobId, Note, NoteBody, Said};
use crate::task::machine::state::State;
use crate::task::message::{Message, Part, Role, Source};
use crate::task::push::Wish;
use crate::task::spec::{ApprovalScope, Plan, Question};
use core_harness::failing_store::{Crash, FailingStore};
use serde_json::{Value, json};
use std::sync::Arc;

#[path = "../../tests/core_harness/mod.rs"]
pub mod core_harness;

use core_harness::Outside;

pub struct TestCore {
    pub core: Core,
    pub store: FailingStore,
    pub now: Now,
    pub limits: Limits,
    /// Deliveries to webhooks that were started and not answered.
    pub sent: Vec<Delivery>,
    /// Warnings in the operator's log.
    pub notices: Vec<String>,
    /// Jobs that were started.
    pub jobs: Vec<JobId>,
    /// What the user's hooks were told.
    pub hook_notices: Vec<HookNotice>,
    /// Jobs that were to be stopped.
    pub stops: Vec<JobId>,
    /// Loads, and if `flushes` is set syncs, that the store has not answered.
    pub loads: Vec<StoreRequest>,
    /// Whether the store answers none of these.
    pub holds_loads: bool,
    pub outside: Outside,
    /// Tasks that cannot be loaded.
    pub lost: Vec<TaskId>,
    /// How many of the next loads find that another process has locked the log.
    pub busy: u32,
    /// Computations that wait for [`TestCore::compute`]; None: they are done at once.
    pub computations: Option<Vec<Computation>>,
    /// The content of the credentials file at its next check; None: it has not changed.
    pub credentials: Option<Result<CredentialsFile, String>>,
    /// Whether the check of the credentials file never ends.
    pub credentials_hang: bool,
    /// Connections whose process is to be identified.
    pub to_identify: Vec<Key>,
    /// Requests that have ended.
    pub accesses: Vec<Entry>,
    /// Whether there are so many tasks that the invariants are not checked after every turn.
    pub is_large: bool,
    /// The sender of requests.
    pub principal: Arc<Principal>,
    /// Whether requests to flush logs are answered. Jobs that need a flush start only then.
    pub flushes: bool,
}

impl TestCore {
    pub fn new() -> TestCore {
        TestCore::with(Limits::default(), Switches::default())
    }

    pub fn with(limits: Limits, switches: Switches) -> TestCore {
        TestCore::changed(limits, switches, |_| {})
    }

    /// A core with changed settings.
    pub fn changed(limits: Limits, switches: Switches, change: impl FnOnce(&mut Setup)) -> TestCore {
        let now = Now { mono_ms: 1_000_000, unix_ms: 1_767_268_800_000 };
        let mut setup = core_harness::setup(limits.clone(), switches, now);
        change(&mut setup);
        TestCore {
            core: Core::new(setup),
            store: FailingStore::default(),
            now,
            limits,
            sent: Vec::new(),
            notices: Vec::new(),
            jobs: Vec::new(),
            hook_notices: Vec::new(),
            stops: Vec::new(),
            loads: Vec::new(),
            holds_loads: false,
            outside: Outside::default(),
            lost: Vec::new(),
            busy: 0,
            computations: None,
            credentials: None,
            credentials_hang: false,
            to_identify: Vec::new(),
            accesses: Vec::new(),
            is_large: false,
            principal: Arc::new(Principal::operator()),
            flushes: false,
        }
    }

    /// The server dies and is started again.
    pub fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    /// As [`TestCore::restart`], with changed settings.
    pub fn restart_with(&mut self, change: impl FnOnce(&mut Setup)) {
        self.store.crash(Crash::Killed);
        let mut setup = core_harness::setup(self.limits.clone(), Switches::default(), self.now);
        change(&mut setup);
        self.core = Core::new(setup);
        self.core.input(Input::Listed(self.store.known()), self.now);
        self.sent.clear();
        self.jobs.clear();
        self.stops.clear();
        self.turns();
    }

    pub fn turn(&mut self) {
        self.load();
        self.core.turn(&mut self.store, &mut self.outside, self.now);
        for out in self.outside.take_outs() {
            self.do_out(out);
        }
        if !self.is_large {
            self.core.check();
        }
    }

    /// Answers the requests in `loads`.
    fn load(&mut self) {
        let loads = if self.holds_loads { Vec::new() } else { std::mem::take(&mut self.loads) };
        for request in loads {
            let answer = match &request {
                StoreRequest::Load { .. } if self.busy > 0 => {
                    self.busy -= 1;
                    request.failed(StoreError::locked("another server has it"))
                }
                StoreRequest::Load { task } if self.lost.contains(task) => {
                    request.failed(StoreError::new("it is lost"))
                }
                _ => request.run(&self.store),
            };
            self.core.input(answer, self.now);
        }
    }

    fn do_out(&mut self, out: Out) {
        match out {
            Out::Start(job) => self.jobs.push(job.id),
            Out::Deliver(delivery) => self.sent.push(delivery),
            Out::Log { level: Level::Warn, text } => self.notices.push(text),
            Out::Store(request @ StoreRequest::Load { .. }) => self.loads.push(request),
            // In most tests nothing waits for a flush.
            Out::Store(request @ (StoreRequest::Sync { .. } | StoreRequest::SyncAudit { .. })) => {
                self.loads.extend(self.flushes.then_some(request));
            }
            Out::Store(request) => self.core.input(request.run(&self.store), self.now),
            Out::Stop(job) => self.stops.push(job),
            Out::Reply { .. } => {}
            Out::Identify { conn } => self.to_identify.push(conn),
            Out::AccessLog(entry) => self.accesses.push(*entry),
            Out::ReadCredentials if self.credentials_hang => {}
            Out::ReadCredentials => self.core.input(Input::Credentials(self.credentials.take()), self.now),
            Out::Resolve { request, path, directories, .. } => {
                let site = Ok(Site { path, directories, trusted: true, ..Site::default() });
                self.core.input(Input::Resolved { request, site }, self.now);
            }
            Out::Blob(request) => {
                let read = self.store.blobs().read(&request.sha256, request.from, 3).map_err(|error| error.to_string());
                self.core.input(Input::BlobRead { request, read }, self.now);
            }
            Out::Files(request) => {
                let found = Ok((vec![format!("{}/{}", request.workspace, request.query)], 1));
                self.core.input(Input::FilesFound { request, found }, self.now);
            }
            Out::Compute(computation) => match &mut self.computations {
                Some(held) => held.push(computation),
                None => self.core.input(computation.run(&*self.store.blobs()), self.now),
            },
            Out::CommandHook(notice) => self.hook_notices.push(*notice),
            Out::Maintain(_)
            | Out::EndBackground { .. }
            | Out::ClientServers { .. }
            | Out::ClientKey { .. }
            | Out::FetchKeys
            | Out::SaveRule { .. }
            | Out::ForgetRule { .. }
            | Out::Scrape(_)
            | Out::Reload
            | Out::Log { .. } => {}
        }
    }

    /// Carries out the computations that wait.
    pub fn compute(&mut self) {
        for computation in self.computations.replace(Vec::new()).into_iter().flatten() {
            self.core.input(computation.run(&*self.store.blobs()), self.now);
        }
        self.turns();
    }

    /// Connections that were closed since the last look.
    pub fn closing(&mut self) -> Vec<(Key, Close)> {
        self.core.close_connections(&mut self.outside, self.now);
        std::mem::take(&mut self.outside.closed)
    }

    pub fn turns(&mut self) {
        for _ in 0..4 {
            self.turn();
        }
    }

    pub fn later(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        self.turns();
    }

    /// Sends a call as a client, and returns the answer.
    pub fn ask(&mut self, dialect: &'static Dialect, call: Call) -> Value {
        let conn = self.begin_ask(dialect, call);
        self.turns();
        let text = self.take(conn);
        self.core.input(Input::Broke { conn }, self.now);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|_| panic!("an answer, not {text}"))
    }

    /// Sends a call on a connection of its own.
    pub fn begin_ask(&mut self, dialect: &'static Dialect, call: Call) -> Key {
        let conn = self.core.opened(Peer::SameUser, self.now);
        // The connection needs a request that it answers; `call` replaces its meaning.
        let line = self.core.connections.get_mut(conn).expect("just opened");
        line.receive(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", self.now);
        assert!(matches!(line.read(&self.limits, self.now), ReadStep::Request(_)));
        let by = Source::new("ann", "test");
        let form = Form::of(dialect);
        self.core.dispatch(Parked::new(Caller { conn, form, by, principal: self.principal.clone() }, call), self.now);
        conn
    }

    /// Takes the output that waits for a connection.
    pub fn take(&mut self, conn: Key) -> String {
        let bytes = core_harness::waiting(&self.core, conn);
        self.core.input(Input::Sent { conn, bytes: bytes.len() }, self.now);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A new task whose turn has begun, with a webhook if one is given.
    pub fn begin(&mut self, dialect: &'static Dialect, push: Option<Wish>) -> TaskId {
        let say = Say { push, ..say("go", dialect.protocol) };
        let answer = self.ask(dialect, Call::Say(say));
        let answer = answer.get("result").unwrap_or(&answer);
        let answer = answer.get("task").unwrap_or(answer);
        let id = answer["id"].as_str().unwrap_or_else(|| panic!("{answer}"));
        TaskId::from(id)
    }

    pub fn say(&mut self, task: &TaskId) {
        let say = Say { task: Some(task.clone()), ..say("more", Protocol::V03) };
        self.ask(Dialect::RPC_03, Call::Say(say));
    }

    /// The worker of the job that was started last reports.
    pub fn note(&mut self, body: NoteBody) {
        let job = self.jobs.last().expect("a job").clone();
        self.core.note(Note { job, body }, self.now);
        self.turns();
    }

    pub fn end_turn(&mut self) {
        self.note(NoteBody::Answered(Ok(Answer::new("Done.", []))));
    }

    /// The model makes a tool call that waits for approval.
    pub fn ask_to_run(&mut self, task: &TaskId, call: &str) {
        let event = |event: Value| serde_json::from_value(event).expect("an event");
        let question = json!({"exec": {"title": "t", "command": "ls", "programs": ["ls"], "dir": "/w"}});
        let request = json!({"call": {"id": call, "name": "run_shell_command", "args": {}}});
        let events = vec![
            event(json!({"answered": {"answer": {"parts": [request]}}})),
            event(json!({"call_planned": {"call": call, "plan": {"title": "ls", "question": question}}})),
            event(json!({"call_asked": {"call": call}})),
            Event::Paused,
        ];
        self.core.commit(task, Decision { events, effects: Vec::new() }, self.now);
        self.turns();
    }

    pub fn cancel(&mut self, task: &TaskId) {
        let task = task.clone();
        self.ask(Dialect::RPC_03, Call::Cancel { task });
    }

    pub fn state(&self, task: &TaskId) -> &State {
        &self.core.tasks[task].state
    }
}

pub fn say(text: &str, protocol: Protocol) -> Say {
    let message = Message::new("m", Role::User, vec![Part::text(text)]);
    let profile = match protocol {
        Protocol::V03 => Profile::Coder,
        Protocol::V10 => Profile::Plain,
    };
    let traits = TaskTraits { lifecycle: Lifecycle::Conversational, protocol, profile };
    let create = Create { context: None, settings: Default::default(), traits };
    Say::new(Said::new(Arc::new(message), Vec::new()), None, create, Mode::Now)
}

/// Adds a question about an edit whose texts are stored beside the log.
pub fn ask_about_a_long_edit(core: &mut Core, task: &TaskId, blobs: &dyn Blobs, now: Now) {
    let mut plan = Plan {
        title: "Write a.txt".into(),
        question: Question::Edit {
            title: "Write a.txt?".into(),
            file_name: "a.txt".into(),
            file_path: "/w/a.txt".into(),
            diff: "+a".into(),
            old: Some("old ".repeat(INLINE_BYTES).into()),
            new: "new ".repeat(INLINE_BYTES).into(),
        },
        base: None,
    };
    for text in plan.texts_mut() {
        text.store(blobs, &Limits::default(), &mut u64::MAX.clone());
    }
    let request = Request { call: "c".into(), name: "write_file".into(), args: json!({}), api_id: None };
    let events = vec![
        Event::Answered { answer: Arc::new(Answer::new("", [request])) },
        Event::CallPlanned { call: "c".into(), plan: Arc::new(plan) },
        Event::CallAsked { call: "c".into(), keeping: ApprovalScope::Session },
        Event::Paused,
    ];
    core.commit(task, Decision { events, effects: Vec::new() }, now);
}
