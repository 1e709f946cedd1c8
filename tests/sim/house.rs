//! The house with everybody in it: the whole core, a shell that only pretends, clients, workers and a disk. One turn here is
//! one turn of `shell/event_loop/server.rs`, in its order; what happens in it is up to chance.

mod end;
mod mischief;
mod watch;

use crate::ask::Composer;
use crate::chance::Chance;
use crate::client::{Client, Ending, Pace, Sending};
use crate::judge::{Court, Tally};
use crate::ledger::Ledger;
use crate::post::{Fate, Post};
use crate::setting;
use crate::shelf::{Sabotage, Shelf};
use crate::workers::{Chore, Worker, tools};
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{ContextId, Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::connections::identity::Identity;
use gemini_a2a::core::disk::store::{Store, StoreError, fold};
use gemini_a2a::core::hooks::Delivery;
use gemini_a2a::core::{Core, Loaded, Out};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::job::{Job, JobId, Note, Work};
use gemini_a2a::task::machine::state::Item;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

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
        self.core.tick(self.now);
        self.core.append(&mut self.shelf, self.now);
        self.core.release(self.now);
        self.perform();
        self.look_at_workers();
        self.write();
        self.close();
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
                self.core.received(link.key, &link.unsent()[..n], now);
                link.gave(n);
            } else if link.side == Sending::Ending && link.unsent().is_empty() && room > 0 {
                link.side = Sending::Ended;
                self.core.finished(link.key, now);
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
                    self.core.note(note, now);
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
            let Delivery { task, hook, seq, .. } = &delivery;
            self.tally.count(match &result {
                Ok(()) => "told a webhook",
                Err(_) => "failed to tell a webhook",
            });
            self.say(|| format!("{delivery:?}: {result:?}"));
            self.core.delivered(task, hook, *seq, result, now);
        }
    }

    fn do_chore(&mut self, chore: Chore) {
        let now = self.now;
        let unlucky = self.turn < TURNS && self.chance.percent(1);
        self.troubled |= unlucky;
        let failed = || StoreError::new("the disk is told to fail");
        self.say(|| format!("the disk does {chore:?}{}", if unlucky { " and fails" } else { "" }));
        match chore {
            Chore::Sync { task, upto } => {
                let result = match self.shelf.sabotage {
                    Sabotage::NoSync => Ok(()),
                    _ => self.flush(&task),
                };
                self.core.synced(&task, upto, result, now);
            }
            Chore::Page { task, sub, offset } => {
                self.tally.count("pages");
                let file = self.shelf.file(&task);
                let page = file.and_then(|file| file.page(offset, self.limits.page_bytes));
                let page = if unlucky { Err(failed()) } else { page };
                self.core.paged(sub, page, now);
            }
            Chore::Load { task } => {
                self.tally.count("loads");
                self.loads_failed |= unlucky;
                let result = if unlucky { Err(failed()) } else { self.load(&task) };
                self.core.loaded(&task, result, now);
            }
            Chore::Identify { conn } => {
                self.tally.count("identified");
                self.core.identified(conn, Identity::SameUser, now);
            }
        }
    }

    fn flush(&mut self, task: &TaskId) -> Result<(), StoreError> {
        self.shelf.file(task)?.sync()?;
        let end = Seq(self.ledger.read(task).len());
        self.synced.insert(task.clone(), end);
        Ok(())
    }

    /// A task from its log, with the conversation it continues.
    fn load(&mut self, task: &TaskId) -> Result<Loaded, StoreError> {
        let file = self.shelf.file(task)?;
        let state = fold(file.as_ref(), None)?;
        let mut inherited: Vec<Arc<Item>> = Vec::new();
        let mut parent = state.created.parent.clone();
        while let Some((task, upto)) = parent {
            // What cannot be read, because it was never written, ends what is remembered.
            let file = self.shelf.file(&task);
            let Ok(state) = file.and_then(|file| fold(file.as_ref(), Some(upto))) else {
                break;
            };
            inherited.splice(0..0, state.history.iter().cloned());
            parent = state.created.parent.clone();
        }
        let bytes = file.len() as usize;
        Ok(Loaded { state, inherited, bytes })
    }

    fn perform(&mut self) {
        for out in self.core.outs() {
            let delay = match self.turn < TURNS {
                true => self.chance.weighted(&[(6, 0), (3, 30), (1, 700)]),
                false => 0,
            };
            let at = self.now.mono_ms + self.chance.within(0, delay);
            match out {
                // Background processes, rules on disk and a log are nothing the simulation has.
                Out::Over { .. } | Out::SaveRule { .. } | Out::LogError { .. } | Out::LogWarning { .. } => {}
                Out::Deliver(delivery) => {
                    let fate = match self.turn < TURNS {
                        true => Fate::any(&mut self.chance),
                        false => Fate::Arrives,
                    };
                    self.say(|| format!("{delivery:?} {fate:?}"));
                    let history = self.limits.hook_history;
                    self.post.take(delivery, at, fate, &mut self.ledger, history);
                }
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
                Out::Sync { task, upto } => {
                    let twice = self
                        .chores
                        .iter()
                        .any(|(_, chore)| matches!(chore, Chore::Sync { task: other, .. } if *other == task));
                    assert!(!twice, "one sync at a time");
                    self.chores.push((at, Chore::Sync { task, upto }));
                }
                Out::Page { task, sub, offset } => {
                    let twice = self
                        .chores
                        .iter()
                        .any(|(_, chore)| matches!(chore, Chore::Page { sub: other, .. } if *other == sub));
                    assert!(!twice, "one page at a time");
                    self.chores.push((at, Chore::Page { task, sub, offset }));
                }
                Out::Load { task } => self.chores.push((at, Chore::Load { task })),
                Out::Identify { conn } => {
                    let twice = self
                        .chores
                        .iter()
                        .any(|(_, chore)| matches!(chore, Chore::Identify { conn: other } if *other == conn));
                    assert!(!twice, "a connection is identified once");
                    self.chores.push((at, Chore::Identify { conn }));
                }
            }
        }
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

    fn write(&mut self) {
        let mut named: BTreeSet<Key> = self.core.writable().into_iter().collect();
        let mut blocked = std::mem::take(&mut self.blocked);
        self.note_refusals();
        for at in 0..self.clients.len() {
            let Some(link) = &mut self.clients[at].link else {
                continue;
            };
            let appetite = match link.pace {
                Pace::Greedy => usize::MAX,
                Pace::Slow(bytes) => bytes,
                Pace::Stopped(until) if until <= self.turn => {
                    link.pace = Pace::Greedy;
                    usize::MAX
                }
                Pace::Stopped(_) => 0,
            };
            let key = link.key;
            if named.remove(&key) || (blocked.remove(&key) && appetite > 0) {
                self.serve(at, appetite);
            } else if !self.core.slices(key).is_empty() && appetite == 0 {
                self.blocked.insert(key);
            }
        }
    }

    /// Remembers who is told that its request took too long before it was sent whole: its end may still be on the way.
    fn note_refusals(&mut self) {
        for client in &mut self.clients {
            if let Some(link) = &mut client.link
                && !link.unsent().is_empty()
            {
                let waiting = front(&self.core.slices(link.key), usize::MAX);
                link.refused |= find_last(&waiting, b"HTTP/1.1 408 ").is_some();
            }
        }
    }

    /// A client takes up to `appetite` bytes in pieces, as a socket does.
    fn serve(&mut self, at: usize, mut appetite: usize) {
        let now = self.now;
        let mut link = self.clients[at].link.take().expect("it is connected");
        let mut taken = Vec::new();
        loop {
            let slices = self.core.slices(link.key);
            if slices.is_empty() {
                break;
            }
            if appetite == 0 {
                self.blocked.insert(link.key);
                break;
            }
            let piece = [50, 1_000, 100_000][self.chance.below(3)];
            let bytes = front(&slices, piece.min(appetite));
            appetite -= bytes.len();
            taken.extend_from_slice(&bytes);
            link.took_at = now.mono_ms;
            self.core.sent(link.key, bytes.len(), now);
        }
        if !taken.is_empty() {
            link.take(&taken, &mut self.court());
        }
        self.clients[at].link = Some(link);
    }

    fn close(&mut self) {
        for (key, _) in self.core.closing() {
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
            self.core.broke(link.key);
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
