//! The core with sixteen clients, workers with random notes, and a store in memory. One turn here is one turn of the loop.

use crate::client::{Connection, DIALECTS, Dialect, Outgoing, Received, masked};
use crate::core_harness::failing_store::FailingStore;
use crate::core_harness::{Outside, Takes};
use crate::random::Random;
use crate::workers::{tools, work};
use gemini_a2a::a2a::Switches;
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::compute::Computation;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::core::disk::store::Archive;
use gemini_a2a::core::{Core, Input, Out, Setup};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::job::{JobId, Note, NoteBody};
use gemini_a2a::task::machine::state::{Stage, State};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Turns in which clients act. After them the run continues until nothing is left to do.
const TURNS: u64 = 160;
/// The last steps of a run, which are printed if it fails.
const TRACED_STEPS: usize = 40;

pub struct Harness {
    chance: Random,
    now: Now,
    turn: u64,
    core: Core,
    pub store: FailingStore,
    pub session: Option<TaskId>,
    pub clients: Vec<Client>,
    workers: Vec<(JobId, VecDeque<NoteBody>)>,
    /// Requests that the store has not answered yet.
    store_requests: Vec<StoreRequest>,
    computations: Vec<Computation>,
    /// Connections that read less than was offered.
    blocked: Vec<Key>,
    sent: usize,
    /// The state of the session as it is on disk, folded up to `offset`.
    folded: Option<State>,
    offset: u64,
    pub tally: BTreeMap<&'static str, u64>,
    trace: VecDeque<String>,
}

/// One of the sixteen clients: a connection for its stream, one for its requests, and everything that it received.
pub struct Client {
    pub dialect: Dialect,
    /// The connection of its subscription.
    subscription: Option<Connection>,
    /// The connection of its last request, until the response is complete.
    request: Option<Connection>,
    /// Whether the message that subscribes was sent, where the dialect needs one.
    subscribed: bool,
    /// The frames of all its subscriptions.
    pub frames: Vec<(Seq, String)>,
    /// The index in `frames` of the first frame of each subscription.
    pub stream_starts: Vec<usize>,
    /// The frames of each stream that is the response to one of its requests.
    pub request_streams: Vec<Vec<(Seq, String)>>,
}

impl Harness {
    pub fn new(seed: u64) -> Harness {
        let mut chance = Random::new(seed);
        let now = Now { mono_ms: 1_000, unix_ms: 1_767_225_600_000 };
        let limits = Limits {
            tx_bytes: [600, 4_000, 64_000][chance.below(3)],
            hot_bytes: [800, 20_000][chance.below(2)],
            page_bytes: [300, 4_000][chance.below(2)],
            queued_prompts: 6,
            inline_body_bytes: [0, 16_384][chance.below(2)],
            inline_log_bytes: [0, 2_000][chance.below(2)],
            ..Limits::default()
        };
        let client = |dialect| Client {
            dialect,
            subscription: None,
            request: None,
            subscribed: false,
            frames: Vec::new(),
            stream_starts: Vec::new(),
            request_streams: Vec::new(),
        };
        Harness {
            core: Core::new(Setup { tools: tools(), ..crate::core_harness::setup(limits, Switches::default(), now) }),
            chance,
            now,
            turn: 0,
            store: FailingStore::default(),
            session: None,
            clients: DIALECTS.into_iter().map(client).collect(),
            workers: Vec::new(),
            store_requests: Vec::new(),
            computations: Vec::new(),
            blocked: Vec::new(),
            sent: 0,
            folded: None,
            offset: 0,
            tally: BTreeMap::new(),
            trace: VecDeque::new(),
        }
    }

    pub fn trace(&self) -> impl Iterator<Item = &String> {
        self.trace.iter()
    }

    pub fn tally(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.tally.iter().map(|(what, times)| (*what, *times))
    }

    pub fn run(&mut self) {
        self.create_session();
        while self.turn < TURNS {
            self.act();
            self.turn();
        }
        for _ in 0..3_000 {
            let state = self.state();
            let open = state.is_some_and(|state| state.asked().next().is_some());
            if open {
                self.answer_somewhere();
            }
            self.turn();
            let unanswered = !self.store_requests.is_empty() || !self.computations.is_empty();
            let busy = !self.workers.is_empty() || unanswered || self.core.has_more();
            if !busy && !open {
                break;
            }
        }
        for _ in 0..200 {
            self.turn();
        }
        self.compare_all();
    }

    /// Creates the session whose id all clients use.
    fn create_session(&mut self) {
        let request = b"POST /tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        let key = self.core.opened(Peer::SameUser, self.now);
        self.clients[0].request = Some(Connection::new(key, Dialect::MessageStream, request.to_vec()));
        while self.session.is_none() {
            self.turn();
            assert!(self.turn < 100, "the session was never created");
        }
        self.clients[0].request = None;
    }

    // Actions of clients.

    fn act(&mut self) {
        let Some(task) = self.session.clone() else {
            return;
        };
        let at = self.chance.below(self.clients.len());
        match self.chance.below(10) {
            0..4 => self.subscribe(at, &task),
            4 => self.disconnect(at),
            5 | 6 => self.prompt(at, &task),
            _ => self.answer(at, &task),
        }
    }

    fn subscribe(&mut self, at: usize, task: &TaskId) {
        let client = &mut self.clients[at];
        if client.subscription.is_some() || !client.dialect.can_subscribe() {
            return;
        }
        let after = client.frames.last().map(|(seq, _)| *seq);
        // These subscribe in a message on the socket, which has no field for a position.
        let after = after.filter(|_| !matches!(client.dialect, Dialect::SocketRpc03 | Dialect::SocketRpc10));
        let after = after.filter(|_| self.chance.percent(80));
        if after.is_some() {
            *self.tally.entry("a stream was resumed").or_default() += 1;
        }
        let request = client.dialect.subscribe(task, after);
        let key = self.core.opened(Peer::SameUser, self.now);
        client.subscription = Some(Connection::new(key, client.dialect, request));
        client.subscribed = false;
        client.stream_starts.push(client.frames.len());
        self.trace_step(format!("client {at} subscribes after {after:?}"));
    }

    fn disconnect(&mut self, at: usize) {
        if let Some(connection) = self.clients[at].subscription.take() {
            self.core.input(Input::Broke { conn: connection.key }, self.now);
            self.trace_step(format!("client {at} disconnects"));
        }
    }

    fn prompt(&mut self, at: usize, task: &TaskId) {
        self.sent += 1;
        let prompt = self.clients[at].dialect.prompt(task, self.sent);
        self.send(at, prompt);
    }

    fn answer(&mut self, at: usize, task: &TaskId) {
        let Some(state) = self.state() else {
            return;
        };
        // Some of these questions have already been answered.
        let calls: Vec<String> = state
            .calls
            .iter()
            .filter(|call| call.stage == Stage::Asked || call.choice.is_some())
            .map(|call| call.id().to_string())
            .collect();
        let Some(call) = self.chance.pick(&calls).cloned() else {
            return;
        };
        let option = ["proceed_once", "proceed_once", "cancel"][self.chance.below(3)];
        self.sent += 1;
        let answer = self.clients[at].dialect.answer(task, self.sent, &call, option);
        self.trace_step(format!("client {at} answers {call} with {option}"));
        self.send(at, answer);
    }

    /// Answers an open question at the end of a run, with a client that needs no open stream.
    fn answer_somewhere(&mut self) {
        let task = self.session.clone().expect("a session");
        let at = DIALECTS.iter().position(|dialect| *dialect == Dialect::Rest10).expect("a REST client");
        self.answer(at, &task);
    }

    fn send(&mut self, at: usize, outgoing: Outgoing) {
        let client = &mut self.clients[at];
        match outgoing {
            Outgoing::Message(message) => {
                if let Some(connection) = client.subscription.as_mut().filter(|connection| connection.is_socket()) {
                    connection.outbox.extend(masked(&message));
                }
            }
            Outgoing::Request(request) | Outgoing::Stream(request) => {
                if client.request.is_none() {
                    let key = self.core.opened(Peer::SameUser, self.now);
                    client.request = Some(Connection::new(key, client.dialect, request));
                    client.request_streams.push(Vec::new());
                }
            }
        }
    }

    // A turn of the loop.

    fn turn(&mut self) {
        self.turn += 1;
        self.now.mono_ms += self.chance.within(0, 40);
        self.now.unix_ms += self.chance.within(0, 40);
        for at in 0..self.clients.len() {
            self.read(at);
        }
        self.deliver_notes();
        self.answer_requests();
        for conn in std::mem::take(&mut self.blocked) {
            self.core.input(Input::Writable { conn }, self.now);
        }
        let mut outside = Outside { takes: Takes::Budget(self.budgets()), ..Outside::default() };
        self.core.turn(&mut self.store, &mut outside, self.now);
        self.blocked = outside.blocked;
        for out in outside.outs {
            self.handle(out);
        }
        for (key, bytes) in outside.taken {
            self.receive(key, &bytes);
        }
        for (key, _) in outside.closed {
            for client in &mut self.clients {
                client.subscription.take_if(|connection| connection.key == key);
                client.request.take_if(|connection| connection.key == key);
            }
        }
        self.core.check();
    }

    /// How many bytes each connection reads in this turn. A slow reader reads a little at a time.
    fn budgets(&mut self) -> BTreeMap<Key, usize> {
        let connections = self.clients.iter().flat_map(|client| [&client.subscription, &client.request]).flatten();
        let chance = &mut self.chance;
        connections.map(|connection| (connection.key, [0, 30, 500, 20_000][chance.below(4)])).collect()
    }

    fn read(&mut self, at: usize) {
        let task = self.session.clone();
        let client = &mut self.clients[at];
        let dialect = client.dialect;
        if let (Some(connection), Some(task)) = (&mut client.subscription, &task)
            && connection.is_socket()
            && !client.subscribed
        {
            client.subscribed = true;
            if let Some(subscription) = dialect.subscription(task) {
                connection.outbox.extend(masked(&subscription));
            }
        }
        for connection in [&mut client.subscription, &mut client.request].into_iter().flatten() {
            let most = [7, 90, 5_000][self.chance.below(3)];
            let n = self.core.room(connection.key).min(most).min(connection.outbox.len());
            if n > 0 {
                let bytes: Vec<u8> = connection.outbox.drain(..n).collect();
                self.core.input(Input::Received { conn: connection.key, bytes: &bytes }, self.now);
            }
        }
    }

    fn deliver_notes(&mut self) {
        for _ in 0..self.chance.below(6) {
            if self.workers.is_empty() {
                return;
            }
            let pick = self.chance.below(self.workers.len());
            let (job, notes) = &mut self.workers[pick];
            match notes.pop_front() {
                Some(body) => {
                    let job = job.clone();
                    self.core.input(Input::Note(Note { job, body }), self.now);
                }
                None => drop(self.workers.swap_remove(pick)),
            }
        }
        self.workers.retain(|(_, notes)| !notes.is_empty());
    }

    /// Answers some of the store requests and computations of earlier turns.
    fn answer_requests(&mut self) {
        let now = self.now;
        for request in std::mem::take(&mut self.store_requests) {
            if self.chance.percent(30) {
                self.store_requests.push(request);
                continue;
            }
            self.core.input(request.run(&self.store), now);
        }
        for computation in std::mem::take(&mut self.computations) {
            match self.chance.percent(30) {
                true => self.computations.push(computation),
                false => self.core.input(computation.run(&*self.store.blobs()), now),
            }
        }
    }

    fn handle(&mut self, out: Out) {
        match out {
            Out::Start(job) => {
                let notes = work(&job, &mut self.chance);
                self.workers.push((job.id, notes.into()));
            }
            Out::Stop(job) => self.workers.retain(|(id, _)| *id != job),
            Out::Store(StoreRequest::Load { task }) => panic!("{task} was unloaded while it had readers"),
            Out::Store(request) => self.store_requests.push(request),
            Out::Compute(computation) => self.computations.push(computation),
            other => drop(other),
        }
    }

    fn receive(&mut self, key: Key, bytes: &[u8]) {
        let mut replies = Vec::new();
        for client in &mut self.clients {
            if let Some(connection) = client.subscription.as_mut().filter(|connection| connection.key == key) {
                for received in connection.take(bytes) {
                    match received {
                        Received::Frame { seq, body } => client.frames.push((seq, body)),
                        Received::Reply { status, body } => replies.push((status, body)),
                        Received::End => {}
                    }
                }
                continue;
            }
            let Some(connection) = client.request.as_mut().filter(|connection| connection.key == key) else {
                continue;
            };
            let mut done = false;
            for received in connection.take(bytes) {
                match received {
                    Received::Frame { seq, body } => {
                        let stream = client.request_streams.last_mut().expect("a request");
                        stream.push((seq, body));
                    }
                    Received::Reply { status, body } => replies.push((status, body)),
                    Received::End => done = true,
                }
            }
            if done {
                client.request = None;
                self.core.input(Input::Broke { conn: key }, self.now);
            }
        }
        for (status, body) in replies {
            self.count_reply(status, &body);
        }
    }

    /// Counts the reply to a message.
    fn count_reply(&mut self, status: u16, body: &Value) {
        if let Some(session) = body.get("sessionId").and_then(Value::as_str) {
            self.session = Some(session.into());
            return;
        }
        let text = body.to_string();
        let what = if text.contains("not waiting for an answer") {
            "an answer came too late"
        } else if status < 300 && body.get("error").is_none() {
            "a prompt was accepted"
        } else {
            "something was refused"
        };
        self.trace_step(format!("{status} {text:.160}"));
        *self.tally.entry(what).or_default() += 1;
    }

    /// The state of the session as it is on disk. Reads the events that were written since the last call.
    fn state(&mut self) -> Option<&State> {
        let file = self.store.open(self.session.as_ref()?).ok()?;
        loop {
            let page = file.page(self.offset, 1 << 20).expect("the disk reads");
            if page.is_empty() {
                return self.folded.as_ref();
            }
            self.offset += page.len() as u64;
            for line in page.split_inclusive(|byte| *byte == b'\n') {
                let line = line.strip_suffix(b"\n").expect("pages are whole lines");
                let record = Record::read(line).expect("a record");
                State::advance(&mut self.folded, &record).expect("a log begins with its task");
            }
        }
    }

    fn trace_step(&mut self, line: String) {
        if self.trace.len() == TRACED_STEPS {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:4} {line}", self.turn));
    }
}
