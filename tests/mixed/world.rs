//! The world around the core: sixteen connections, workers that do what chance says, a disk in memory. A turn here is a turn of
//! the loop.

use crate::chance::Chance;
use crate::client::{CAST, Dialect, Link, Said, Shown, masked, text};
use crate::core_harness::{Outside, Takes};
use gemini_a2a::a2a::{self, Switches, Tools, View};
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::compute::Computation;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::core::disk::store::{Archive, MemoryStore, read_all};
use gemini_a2a::core::{Core, Input, Out, Setup};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::answer::{Answer, Request};
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::job::{Job, JobId, Note, NoteBody, RunEnd, Work};
use gemini_a2a::task::machine::state::{Stage, State};
use gemini_a2a::task::spec::{Display, Ending, Kind, Plan, Question, ToolSpec};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Turns in which clients act; then everything comes to rest.
const TURNS: u64 = 160;
const REMEMBERED: usize = 40;

pub struct World {
    chance: Chance,
    now: Now,
    turn: u64,
    core: Core,
    store: MemoryStore,
    session: Option<TaskId>,
    clients: Vec<Client>,
    workers: Vec<(JobId, VecDeque<NoteBody>)>,
    /// What the disk still has to do.
    chores: Vec<StoreRequest>,
    computations: Vec<Computation>,
    /// Connections that took less than there was.
    blocked: Vec<Key>,
    said: usize,
    /// The session as it is on disk up to `offset`.
    folded: Option<State>,
    offset: u64,
    tally: BTreeMap<&'static str, u64>,
    trace: VecDeque<String>,
}

/// One of the sixteen: the connection it watches over, one that it asks over, and all it was shown.
struct Client {
    dialect: Dialect,
    watch: Option<Link>,
    ask: Option<Link>,
    greeted: bool,
    frames: Vec<(Seq, String)>,
    /// Where the frames of each stream begin.
    begins: Vec<usize>,
    /// Frames of the streams it prompted with.
    asked: Vec<Vec<(Seq, String)>>,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut chance = Chance::new(seed);
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
            watch: None,
            ask: None,
            greeted: false,
            frames: Vec::new(),
            begins: Vec::new(),
            asked: Vec::new(),
        };
        World {
            core: Core::new(Setup { tools: tools(), ..Setup::alone(limits, Switches::default(), now) }),
            chance,
            now,
            turn: 0,
            store: MemoryStore::default(),
            session: None,
            clients: CAST.into_iter().map(client).collect(),
            workers: Vec::new(),
            chores: Vec::new(),
            computations: Vec::new(),
            blocked: Vec::new(),
            said: 0,
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
        self.begin();
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
            let asked = !self.chores.is_empty() || !self.computations.is_empty();
            let busy = !self.workers.is_empty() || asked || self.core.has_more();
            if !busy && !open {
                break;
            }
        }
        for _ in 0..200 {
            self.turn();
        }
        self.judge();
    }

    /// The session is asked for; from then on everybody knows its name.
    fn begin(&mut self) {
        let request = b"POST /tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        let key = self.core.opened(Peer::SameUser, self.now);
        self.clients[0].ask = Some(Link::new(key, Dialect::Kebab, request.to_vec()));
        while self.session.is_none() {
            self.turn();
            assert!(self.turn < 100, "the session never began");
        }
        self.clients[0].ask = None;
    }

    // What clients do.

    fn act(&mut self) {
        let Some(task) = self.session.clone() else {
            return;
        };
        let at = self.chance.below(self.clients.len());
        match self.chance.below(10) {
            0..4 => self.watch(at, &task),
            4 => self.leave(at),
            5 | 6 => self.prompt(at, &task),
            _ => self.answer(at, &task),
        }
    }

    fn watch(&mut self, at: usize, task: &TaskId) {
        let client = &mut self.clients[at];
        if client.watch.is_some() || !client.dialect.can_watch() {
            return;
        }
        let after = client.frames.last().map(|(seq, _)| *seq);
        // These ask for the task over the socket, and have no word for a position there.
        let after = after.filter(|_| !matches!(client.dialect, Dialect::SocketRpc03 | Dialect::SocketRpc10));
        let after = after.filter(|_| self.chance.percent(80));
        if after.is_some() {
            *self.tally.entry("a stream was taken up again").or_default() += 1;
        }
        let request = client.dialect.watch(task, after);
        let key = self.core.opened(Peer::SameUser, self.now);
        client.watch = Some(Link::new(key, client.dialect, request));
        client.greeted = false;
        client.begins.push(client.frames.len());
        self.note(format!("client {at} watches after {after:?}"));
    }

    fn leave(&mut self, at: usize) {
        if let Some(link) = self.clients[at].watch.take() {
            self.core.input(Input::Broke { conn: link.key }, self.now);
            self.note(format!("client {at} leaves"));
        }
    }

    fn prompt(&mut self, at: usize, task: &TaskId) {
        self.said += 1;
        let said = self.clients[at].dialect.prompt(task, self.said);
        self.say(at, said);
    }

    fn answer(&mut self, at: usize, task: &TaskId) {
        let Some(state) = self.state() else {
            return;
        };
        // Now and then an answer to a question that has been answered.
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
        self.said += 1;
        let said = self.clients[at].dialect.answer(task, self.said, &call, option);
        self.note(format!("client {at} answers {call} with {option}"));
        self.say(at, said);
    }

    /// Somebody who can always answer does so, when everything else is over.
    fn answer_somewhere(&mut self) {
        let task = self.session.clone().expect("begun");
        let at = CAST.iter().position(|dialect| *dialect == Dialect::Rest10).expect("it is there");
        self.answer(at, &task);
    }

    fn say(&mut self, at: usize, said: Said) {
        let client = &mut self.clients[at];
        match said {
            Said::Message(message) => {
                if let Some(link) = client.watch.as_mut().filter(|link| link.is_socket()) {
                    link.outbox.extend(masked(&message));
                }
            }
            Said::Request(request) | Said::Stream(request) => {
                if client.ask.is_none() {
                    let key = self.core.opened(Peer::SameUser, self.now);
                    client.ask = Some(Link::new(key, client.dialect, request));
                    client.asked.push(Vec::new());
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
        self.mail();
        self.chores();
        for conn in std::mem::take(&mut self.blocked) {
            self.core.input(Input::Writable { conn }, self.now);
        }
        let mut outside = Outside { takes: Takes::Budget(self.budgets()), ..Outside::default() };
        self.core.turn(&mut self.store, &mut outside, self.now);
        self.blocked = outside.blocked;
        for out in outside.outs {
            self.perform(out);
        }
        for (key, bytes) in outside.taken {
            self.deliver(key, &bytes);
        }
        for (key, _) in outside.closed {
            for client in &mut self.clients {
                client.watch.take_if(|link| link.key == key);
                client.ask.take_if(|link| link.key == key);
            }
        }
        self.core.check();
    }

    /// A slow reader takes a little, and the rest another time.
    fn budgets(&mut self) -> BTreeMap<Key, usize> {
        let links = self.clients.iter().flat_map(|client| [&client.watch, &client.ask]).flatten();
        let chance = &mut self.chance;
        links.map(|link| (link.key, [0, 30, 500, 20_000][chance.below(4)])).collect()
    }

    fn read(&mut self, at: usize) {
        let task = self.session.clone();
        let client = &mut self.clients[at];
        let dialect = client.dialect;
        if let (Some(link), Some(task)) = (&mut client.watch, &task)
            && link.is_socket()
            && !client.greeted
        {
            client.greeted = true;
            if let Some(greeting) = dialect.greeting(task) {
                link.outbox.extend(masked(&greeting));
            }
        }
        for link in [&mut client.watch, &mut client.ask].into_iter().flatten() {
            let most = [7, 90, 5_000][self.chance.below(3)];
            let n = self.core.room(link.key).min(most).min(link.outbox.len());
            if n > 0 {
                let bytes: Vec<u8> = link.outbox.drain(..n).collect();
                self.core.input(Input::Received { conn: link.key, bytes: &bytes }, self.now);
            }
        }
    }

    fn mail(&mut self) {
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

    /// What the disk and other workers were asked for in an earlier turn.
    fn chores(&mut self) {
        let now = self.now;
        for chore in std::mem::take(&mut self.chores) {
            if self.chance.percent(30) {
                self.chores.push(chore);
                continue;
            }
            self.core.input(chore.run(&self.store), now);
        }
        for computation in std::mem::take(&mut self.computations) {
            match self.chance.percent(30) {
                true => self.computations.push(computation),
                false => self.core.input(computation.run(), now),
            }
        }
    }

    fn perform(&mut self, out: Out) {
        match out {
            Out::Start(job) => {
                let notes = work(&job, &mut self.chance);
                self.workers.push((job.id, notes.into()));
            }
            Out::Stop(job) => self.workers.retain(|(id, _)| *id != job),
            Out::Store(StoreRequest::Load { task }) => panic!("{task} left memory while it was watched"),
            Out::Store(chore) => self.chores.push(chore),
            Out::Compute(computation) => self.computations.push(computation),
            other => drop(other),
        }
    }

    fn deliver(&mut self, key: Key, bytes: &[u8]) {
        let mut replies = Vec::new();
        for client in &mut self.clients {
            if let Some(link) = client.watch.as_mut().filter(|link| link.key == key) {
                for shown in link.take(bytes) {
                    match shown {
                        Shown::Frame { seq, body } => client.frames.push((seq, body)),
                        Shown::Reply { status, body } => replies.push((status, body)),
                        Shown::End => {}
                    }
                }
                continue;
            }
            let Some(link) = client.ask.as_mut().filter(|link| link.key == key) else {
                continue;
            };
            let mut done = false;
            for shown in link.take(bytes) {
                match shown {
                    Shown::Frame { seq, body } => {
                        let stream = client.asked.last_mut().expect("it asked");
                        stream.push((seq, body));
                    }
                    Shown::Reply { status, body } => replies.push((status, body)),
                    Shown::End => done = true,
                }
            }
            if done {
                client.ask = None;
                self.core.input(Input::Broke { conn: key }, self.now);
            }
        }
        for (status, body) in replies {
            self.hear(status, &body);
        }
    }

    /// An answer to something that was said.
    fn hear(&mut self, status: u16, body: &Value) {
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
        self.note(format!("{status} {text:.160}"));
        *self.tally.entry(what).or_default() += 1;
    }

    // The judgement.

    /// The session as it is on disk, read on from where the last look ended.
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

    /// Everything on disk, with the state after each event.
    fn log(&mut self) -> Vec<(Record, State)> {
        let Some(task) = &self.session else {
            return Vec::new();
        };
        let Ok(file) = self.store.open(task) else {
            return Vec::new();
        };
        let mut all: Vec<(Record, State)> = Vec::new();
        let mut folded = None;
        read_all(&*file, &mut |record| {
            let state = State::advance(&mut folded, &record).expect("a log begins with its task");
            all.push((record, state.clone()));
        })
        .expect("the disk reads");
        all
    }

    fn judge(&mut self) {
        let log = self.log();
        self.one_answer_each(&log);
        let tools = Tools::new(&tools());
        let mut compared = 0;
        for (at, client) in self.clients.iter().enumerate() {
            let view = client.dialect.view();
            let expected = frames(&log, view, &tools);
            let ends = client.begins.iter().skip(1).copied();
            let ends = ends.chain([client.frames.len()]);
            for (begin, end) in client.begins.iter().zip(ends) {
                compared += compare(at, client.dialect, &client.frames[*begin..end], &expected);
            }
            for stream in &client.asked {
                compared += compare(at, client.dialect, stream, &expected);
            }
        }
        *self.tally.entry("a frame was compared").or_default() += compared;
    }

    /// Of all answers to a question the first one counts, and only that one.
    fn one_answer_each(&mut self, log: &[(Record, State)]) {
        let mut answered: BTreeMap<String, u64> = BTreeMap::new();
        let mut runs: BTreeMap<String, u64> = BTreeMap::new();
        for (record, _) in log {
            match &record.event {
                Event::CallAnswered { call, .. } => {
                    *answered.entry(call.to_string()).or_default() += 1;
                }
                Event::CallStarted { call } => *runs.entry(call.to_string()).or_default() += 1,
                _ => {}
            }
        }
        for (call, times) in answered.iter().chain(&runs) {
            assert_eq!(*times, 1, "{call} was answered or run {times} times");
        }
        *self.tally.entry("an answer counted").or_default() += answered.len() as u64;
    }

    fn note(&mut self, line: String) {
        if self.trace.len() == REMEMBERED {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:4} {line}", self.turn));
    }
}

/// What a view shows of the log, event by event: open, and as the last frame of a stream.
fn frames(log: &[(Record, State)], view: View, tools: &Tools) -> BTreeMap<u64, (String, String)> {
    let shown = log.iter().filter_map(|(record, state)| {
        let body = a2a::event(view, state, record, tools)?;
        let pair = (text(body.frame(false)), text(body.frame(true)));
        Some((record.seq.0, pair))
    });
    shown.collect()
}

/// A stream is a snapshot, or none, and then every event the view shows from there on, without a gap. Gives how many frames.
fn compare(at: usize, dialect: Dialect, stream: &[(Seq, String)], expected: &BTreeMap<u64, (String, String)>) -> u64 {
    let is_event = |(seq, body): &(Seq, String)| {
        let pair = expected.get(&seq.0);
        pair.is_some_and(|(open, closing)| body.is_empty() || body == open || body == closing)
    };
    let events = match stream {
        [first, rest @ ..] if !is_event(first) => rest,
        all => all,
    };
    for pair in events.windows(2) {
        let (one, next) = (pair[0].0.0, pair[1].0.0);
        assert!(one < next, "client {at} {dialect:?}: {one}, then {next}");
        let missed: Vec<&u64> = expected.range(one + 1..next).map(|(seq, _)| seq).collect();
        assert!(missed.is_empty(), "client {at} {dialect:?}: {one}, then {next} without {missed:?}");
    }
    for event in events {
        assert!(
            is_event(event),
            "client {at} {dialect:?} was shown {event:?}, which is {:?}",
            expected.get(&event.0.0)
        );
    }
    if let (Some(snapshot), Some(event)) = (stream.first().filter(|f| !is_event(f)), events.first()) {
        let missed = expected.range(snapshot.0.0 + 1..event.0.0).next();
        assert_eq!(missed, None, "client {at} {dialect:?}: a gap after the snapshot");
    }
    events.len() as u64
}

fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec::new("shell", "Shell", Kind::Execute, "Runs a command.", json!({"type": "object"}))]
}

/// What a job reports, in order.
fn work(job: &Job, chance: &mut Chance) -> Vec<NoteBody> {
    match &job.work {
        Work::Think(think) => {
            let mut notes = vec![NoteBody::Thought { subject: "Considering".into(), description: "what to do".into() }];
            let chunks = 1 + chance.below(4);
            notes.extend((0..chunks).map(|n| NoteBody::Text(format!("chunk {n} "))));
            let calls = match think.round {
                0 => 1 + chance.below(3),
                _ => 0,
            };
            let call = |n| Request {
                call: "".into(),
                name: "shell".into(),
                args: json!({"command": format!("make {n}")}),
                api_id: None,
            };
            let said: String = (0..chunks).map(|n| format!("chunk {n} ")).collect();
            notes.push(NoteBody::Answered(Ok(Answer::new(&said, (0..calls).map(call)))));
            notes
        }
        Work::Prepare { calls, .. } => {
            let plan = |request: &Request| {
                Ok(Plan {
                    title: "make something".into(),
                    question: Question::Exec {
                        title: "Run it?".into(),
                        command: request.args["command"].to_string(),
                        programs: vec!["make".into()],
                        warnings: Vec::new(),
                        needs_approval: None,
                        edits: Vec::new(),
                        dir: None,
                    },
                    base: None,
                })
            };
            vec![NoteBody::Prepared(calls.iter().map(plan).collect())]
        }
        Work::Run(_) => {
            let lines = chance.below(4);
            let mut notes: Vec<NoteBody> = (0..lines).map(|n| NoteBody::Output(format!("line {n}\n"))).collect();
            notes.push(NoteBody::Ended(RunEnd::Ended(Ending::Success {
                output: "made".into(),
                display: Display::Text { text: "made".into() },
            })));
            notes
        }
        other => panic!("nothing here asks for {other:?}"),
    }
}
