//! The house with everybody in it: the whole core, a shell that only pretends, clients, workers and a disk. One turn here is
//! one turn of `shell/event_loop/server.rs`, in its order; what happens in it is up to chance.

mod end;
mod mischief;
mod watch;

use crate::ask::Composer;
use crate::chance::Chance;
use crate::client::{Client, Ending, Pace, Sending};
use crate::core_harness::{Outside, Takes, waiting};
use crate::judge::{Court, Tally};
use crate::ledger::Ledger;
use crate::post::{Fate, Post};
use crate::setting;
use crate::shelf::{Sabotage, Shelf};
use crate::workers::{Chore, Worker, tools};
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{ContextId, Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::compute::Recipient;
use gemini_a2a::core::connections::identity::Identity;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::core::disk::store::{Archive, StoreError};
use gemini_a2a::core::hooks::Delivery;
use gemini_a2a::core::{Core, Input, Out};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::job::{Job, JobId, Note, Work};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io::IoSlice;

/// Turns with clients that ask for things; after them everything is brought to an end.
const TURNS: u64 = 240;
pub const CLIENTS: usize = 9;
/// The last steps that a failing run prints.
const REMEMBERED: usize = 60;

pub struct House {
    chance: Chance,
    limits: Limits,
    now: Now,
    turn: u64,
    core: Core,
    shelf: Shelf,
    ledger: Ledger,
    pub tally: Tally,
    composer: Composer,
    clients: Vec<Client>,
    workers: Vec<Worker>,
    post: Post,
    /// Disk jobs, and when they are done.
    chores: Vec<(u64, Chore)>,
    /// Jobs of tasks that were over after the last turn, and were not stopped in it.
    unstopped: BTreeSet<JobId>,
    /// Connections whose socket was full: nothing but the client's reading brings them back.
    blocked: HashSet<Key>,
    /// Jobs ever started, over all restarts.
    started: BTreeSet<JobId>,
    /// Up to where each log was flushed.
    synced: BTreeMap<TaskId, Seq>,
    /// Runs that changed something.
    changes: Vec<JobId>,
    /// The disk was told to fail, and it failed to read a task.
    troubled: bool,
    loads_failed: bool,
    /// Tasks looked at for what they continue.
    placed: BTreeSet<TaskId>,
    contexts: BTreeSet<ContextId>,
    /// Since when the server has been asked to end.
    ending: Option<u64>,
    /// Where ids begin: none is given twice, not even after a restart.
    births: u64,
    trace: VecDeque<String>,
}

impl House {
    pub fn new(seed: u64, sabotage: Sabotage) -> House {
        let mut chance = Chance::new(seed);
        let limits = setting::limits(&mut chance);
        let now = Now { mono_ms: 1_000, unix_ms: 1_767_225_600_000 };
        let shelf = Shelf::new(sabotage);
        House {
            ledger: Ledger::new(shelf.store.clone(), &tools()),
            core: setting::core(&limits, now, 0),
            chance,
            limits,
            now,
            turn: 0,
            shelf,
            tally: Tally::default(),
            composer: Composer::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            workers: Vec::new(),
            post: Post::default(),
            chores: Vec::new(),
            unstopped: BTreeSet::new(),
            blocked: HashSet::new(),
            started: BTreeSet::new(),
            synced: BTreeMap::new(),
            changes: Vec::new(),
            troubled: false,
            loads_failed: false,
            placed: BTreeSet::new(),
            contexts: BTreeSet::new(),
            ending: None,
            births: 0,
            trace: VecDeque::new(),
        }
    }

    pub fn trace(&self) -> impl Iterator<Item = &String> {
        self.trace.iter()
    }

    pub fn run(&mut self) {
        while self.turn < TURNS {
            self.mischief();
            self.act();
            self.turn();
        }
        self.settle();
        self.leave();
        self.ask_receivers();
        self.lose_power();
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.trace.len() == REMEMBERED {
            self.trace.pop_front();
        }
        let line = format!("{:4} {:7} ms  {}", self.turn, self.now.mono_ms, what());
        self.trace.push_back(line);
    }

    // A turn of the loop.

    fn turn(&mut self) {
        self.turn += 1;
        for at in 0..self.clients.len() {
            self.read(at);
        }
        self.mail();
        let mut outside = self.appetites();
        self.core.turn(&mut self.shelf, &mut outside, self.now);
        for out in outside.take_outs() {
            self.perform(out);
        }
        self.look_at_workers();
        self.write(&outside);
        self.close(&outside);
        let census = self.core.check();
        self.look(&census);
        self.place();
        self.rest();
        self.end_if_over();
    }

    fn read(&mut self, at: usize) {
        let now = self.now;
        let Some(link) = &mut self.clients[at].link else {
            return;
        };
        for _ in 0..self.chance.below(3) {
            let room = self.core.room(link.key);
            let most = [3, 40, 400, 4_000][self.chance.below(4)];
            let n = room.min(most).min(link.unsent().len());
            if n > 0 {
                self.core.input(Input::Received { conn: link.key, bytes: &link.unsent()[..n] }, now);
                link.gave(n);
            } else if link.side == Sending::Ending && link.unsent().is_empty() && room > 0 {
                link.side = Sending::Ended;
                self.core.input(Input::Finished { conn: link.key }, now);
            }
        }
    }

    fn mail(&mut self) {
        let now = self.now;
        let mut budget = self.limits.turn_notes;
        let mut ready: Vec<usize> = (0..self.workers.len()).collect();
        while budget > 0 && !ready.is_empty() {
            let pick = self.chance.below(ready.len());
            let worker = &mut self.workers[ready[pick]];
            match worker.notes.front() {
                Some((due, _)) if *due <= now.mono_ms => {
                    let (_, body) = worker.notes.pop_front().expect("just seen");
                    let note = Note { job: worker.job.clone(), body };
                    if self.shelf.sabotage == Sabotage::LostNote && note.body.is_last() {
                        continue;
                    }
                    let said = format!("{} {}: {:.60}", note.job.task, note.job.at, format!("{:?}", note.body));
                    self.core.input(Input::Note(note), now);
                    self.say(|| said);
                    budget -= 1;
                }
                _ => drop(ready.swap_remove(pick)),
            }
        }
        self.workers.retain(|worker| !worker.notes.is_empty());
        let due = |(at, _): &(u64, Chore)| *at <= now.mono_ms;
        let (done, left) = std::mem::take(&mut self.chores).into_iter().partition(due);
        self.chores = left;
        for (_, chore) in done {
            self.do_chore(chore);
        }
        let deaf = self.shelf.sabotage == Sabotage::DeafReceiver;
        while let Some((delivery, result)) = self.post.done(now.mono_ms, deaf) {
            self.tally.count(match &result {
                Ok(()) => "told a webhook",
                Err(_) => "failed to tell a webhook",
            });
            self.say(|| format!("{delivery:?}: {result:?}"));
            let Delivery { task, hook, seq, .. } = delivery;
            self.core.input(Input::Delivered { task, hook, seq, result }, now);
        }
    }

    fn do_chore(&mut self, chore: Chore) {
        let now = self.now;
        let unlucky = self.turn < TURNS && self.chance.percent(1);
        self.troubled |= unlucky;
        self.say(|| format!("the disk does {chore:?}{}", if unlucky { " and fails" } else { "" }));
        let answer = match chore {
            Chore::Store(StoreRequest::Sync { task, upto }) => {
                let result = match self.shelf.sabotage {
                    Sabotage::NoSync => Ok(()),
                    _ => self.flush(&task),
                };
                Input::Synced { task, upto, result }
            }
            Chore::Store(request) => {
                let fails = match &request {
                    StoreRequest::Page { .. } => {
                        self.tally.count("pages");
                        unlucky
                    }
                    StoreRequest::Load { .. } => {
                        self.tally.count("loads");
                        self.loads_failed |= unlucky;
                        unlucky
                    }
                    _ => false,
                };
                match fails {
                    true => request.failed(StoreError::new("the disk is told to fail")),
                    false => request.run(&self.shelf.store),
                }
            }
            Chore::Resolve { request, path } => {
                Input::Resolved { request, site: Err(format!("{path} is not a directory")) }
            }
            Chore::Identify { conn } => {
                self.tally.count("identified");
                Input::Identified { conn, identity: Identity::SameUser }
            }
            Chore::Compute(computation) => {
                self.tally.count("computed");
                // Of a request that could not be decoded the id is not known, so that its answer cannot be told from others.
                match computation.recipient().clone() {
                    recipient @ Recipient::Subscription(_) if unlucky => {
                        Input::Computed { recipient, result: Err("the worker died".into()) }
                    }
                    Recipient::Subscription(_) | Recipient::Connection { .. } => computation.run(),
                }
            }
        };
        self.core.input(answer, now);
    }

    fn flush(&mut self, task: &TaskId) -> Result<(), StoreError> {
        self.shelf.store.open(task)?.sync()?;
        let end = Seq(self.ledger.read(task).len());
        self.synced.insert(task.clone(), end);
        Ok(())
    }

    fn perform(&mut self, out: Out) {
        let delay = match self.turn < TURNS {
            true => self.chance.weighted(&[(6, 0), (3, 30), (1, 700)]),
            false => 0,
        };
        let at = self.now.mono_ms + self.chance.within(0, delay);
        match out {
            // Background processes, rules on disk and a log are nothing the simulation has.
            Out::Over { .. } | Out::SaveRule { .. } | Out::LogError { .. } | Out::LogWarning { .. } | Out::Tidy(_) => {}
            Out::Deliver(delivery) => {
                let fate = match self.turn < TURNS {
                    true => Fate::any(&mut self.chance),
                    false => Fate::Arrives,
                };
                self.say(|| format!("{delivery:?} {fate:?}"));
                let history = self.limits.hook_history;
                self.post.take(delivery, at, fate, &mut self.ledger, history);
            }
            Out::Blob(request) => panic!("no client of the simulation asks for {request:?}"),
            Out::Start(job) => self.start(job),
            Out::Stop(job) => {
                self.say(|| format!("stop {} {}", job.task, job.at));
                assert!(self.started.contains(&job), "stopped before it was started");
                let (now, chance) = (self.now.mono_ms, &mut self.chance);
                if let Some(worker) = self.workers.iter_mut().find(|w| w.job == job)
                    && self.shelf.sabotage != Sabotage::DeafWorker
                {
                    worker.stop(now, chance);
                }
            }
            Out::Store(request) => self.add_chore(at, Chore::Store(request)),
            Out::Resolve { request, path } => self.add_chore(at, Chore::Resolve { request, path }),
            Out::Identify { conn } => self.add_chore(at, Chore::Identify { conn }),
            Out::Compute(computation) => self.add_chore(at, Chore::Compute(computation)),
        }
    }

    /// One sync per log and one page per reader at a time, and each connection is identified once.
    fn add_chore(&mut self, at: u64, chore: Chore) {
        use StoreRequest::{Page, Sync};
        let twice = self.chores.iter().any(|(_, other)| match (other, &chore) {
            (Chore::Store(Sync { task: a, .. }), Chore::Store(Sync { task: b, .. })) => a == b,
            (Chore::Store(Page { sub: a, .. }), Chore::Store(Page { sub: b, .. })) => a == b,
            (Chore::Store(a), Chore::Store(b)) => a == b,
            (Chore::Resolve { request: a, .. }, Chore::Resolve { request: b, .. }) => a == b,
            (Chore::Identify { conn: a }, Chore::Identify { conn: b }) => a == b,
            (_, _) => false,
        });
        assert!(!twice, "{chore:?} is asked for twice");
        self.chores.push((at, chore));
    }

    /// A job may start only when the event that causes it is on disk, and no job starts twice.
    fn start(&mut self, job: Job) {
        let JobId { task, at } = &job.id;
        self.say(|| format!("start {task} {at}: {:.60}", format!("{:?}", job.work)));
        assert!(self.started.insert(job.id.clone()), "{:?} is started twice", job.id);
        let log = self.ledger.read(task);
        let record = log.record(*at);
        let record = record.unwrap_or_else(|| panic!("{:?} starts before it is on disk", job.id));
        match &job.work {
            Work::Attach { .. } | Work::Command(_) | Work::Compact(_) => {
                panic!("nothing here names files, is a command or grows too long")
            }
            Work::Think(think) => {
                assert!(matches!(
                    record.event,
                    Event::TurnBegan { .. }
                        | Event::Retried
                        | Event::ResultsSent
                        | Event::FellBack { .. }
                        | Event::Nudged { .. }
                ));
                self.ledger.refresh();
                if let Some(history) = self.ledger.history(task, *at)
                    && !self.loads_failed
                {
                    assert_eq!(think.history, history, "{task} forgets what was said");
                }
            }
            Work::Prepare { .. } => assert!(matches!(record.event, Event::Answered { .. } | Event::CallStale { .. })),
            Work::Run(run) => {
                let started = Event::CallStarted { call: run.call.clone() };
                assert_eq!(record.event, started);
                let spec = tools().into_iter().find(|tool| tool.name == run.name);
                if spec.is_some_and(|spec| spec.kind.mutates()) {
                    let synced = self.synced.get(task).copied().unwrap_or_default();
                    assert!(*at <= synced, "{} runs before its start is safe", run.call);
                    self.changes.push(job.id.clone());
                    self.tally.count("changes");
                }
            }
        }
        self.workers.push(Worker::new(&job, self.now.mono_ms, &mut self.chance));
    }

    /// How much clients take in this turn. Those that took nothing and would take something now are offered it.
    fn appetites(&mut self) -> Outside {
        let mut budgets = BTreeMap::new();
        for link in self.clients.iter_mut().filter_map(|client| client.link.as_mut()) {
            let appetite = match link.pace {
                Pace::Greedy => usize::MAX,
                Pace::Slow(bytes) => bytes,
                Pace::Stopped(until) if until <= self.turn => {
                    link.pace = Pace::Greedy;
                    usize::MAX
                }
                Pace::Stopped(_) => 0,
            };
            if appetite > 0 && self.blocked.remove(&link.key) {
                self.core.input(Input::Writable { conn: link.key }, self.now);
            }
            budgets.insert(link.key, appetite);
        }
        let piece = [50, 1_000, 100_000][self.chance.below(3)];
        Outside { takes: Takes::Budget(budgets), piece, ..Outside::default() }
    }

    fn write(&mut self, outside: &Outside) {
        self.blocked.extend(&outside.blocked);
        for at in 0..self.clients.len() {
            let Some(mut link) = self.clients[at].link.take() else {
                continue;
            };
            let taken = outside.taken.get(&link.key).map(Vec::as_slice).unwrap_or_default();
            // Who is told that its request took too long before it was sent whole: its end may still be on the way.
            if !link.unsent().is_empty() {
                let told = [taken, &waiting(&self.core, link.key)].concat();
                link.refused |= find_last(&told, b"HTTP/1.1 408 ").is_some();
            }
            if !taken.is_empty() {
                link.took_at = self.now.mono_ms;
                link.take(taken, &mut self.court());
            }
            self.clients[at].link = Some(link);
        }
    }

    fn close(&mut self, outside: &Outside) {
        for (key, _) in outside.closed.iter().copied() {
            self.blocked.remove(&key);
            let whose = |client: &Client| client.link.as_ref().is_some_and(|link| link.key == key);
            if let Some(at) = self.clients.iter().position(whose) {
                self.say(|| format!("client {at} is closed"));
                self.part(at, Ending::Closed);
            }
        }
    }

    fn break_off(&mut self, at: usize) {
        if let Some(link) = &self.clients[at].link {
            self.core.input(Input::Broke { conn: link.key }, self.now);
            self.say(|| format!("client {at} breaks off"));
            self.part(at, Ending::Lost);
        }
    }

    fn part(&mut self, at: usize, ending: Ending) {
        let Some(link) = self.clients[at].link.take() else {
            return;
        };
        let (now, stall) = (self.now.mono_ms, self.limits.stall_ms);
        let cut = link.end(ending, now, stall, &mut self.court());
        self.clients[at].cut.extend(cut);
    }

    fn court(&mut self) -> Court<'_> {
        Court { ledger: &mut self.ledger, tally: &mut self.tally, troubled: self.troubled }
    }
}

/// Where `mark` stands in some output for the last time.
fn find_last(output: &[u8], mark: &[u8]) -> Option<usize> {
    output.windows(mark.len()).rposition(|window| window == mark)
}

/// The first `most` bytes of some output.
fn front(slices: &[IoSlice<'_>], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for slice in slices {
        let room = most - bytes.len();
        bytes.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    bytes
}
