//! The house with everybody in it: the whole core, a shell that only pretends, clients, workers and a disk. One turn here is
//! one turn of `shell/server.rs`, in its order; what happens in it is up to chance.

use crate::ask::Composer;
use crate::chance::Chance;
use crate::client::{Client, Ending, Link, Pace, Sending};
use crate::judge::{Court, Tally};
use crate::ledger::Ledger;
use crate::shelf::{Sabotage, Shelf};
use crate::workers::{Chore, Worker, tools};
use gemini_a2a::a2a;
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{ContextId, Entropy, Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::check::Census;
use gemini_a2a::core::conn::Peer;
use gemini_a2a::core::guard::Door;
use gemini_a2a::core::store::{Crash, Failure, LogFile, Store, StoreError, read_all};
use gemini_a2a::core::{Approval, Core, Loaded, Out, Setup, Site};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::event::Event;
use gemini_a2a::task::job::{Job, JobId, Note, Work};
use gemini_a2a::task::state::{Item, State};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

/// Turns with clients that ask for things; after them everything is brought to an end.
const TURNS: u64 = 240;
const CLIENTS: usize = 9;
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
    /// Disk jobs, when they are done, and pages that were read early.
    chores: Vec<(u64, Chore)>,
    /// Connections whose socket was full: nothing but the client's reading brings them back.
    blocked: HashSet<Key>,
    /// Jobs ever started, over all restarts.
    started: BTreeSet<JobId>,
    /// Up to where each log was flushed.
    synced: BTreeMap<TaskId, Seq>,
    /// Runs that changed something.
    changes: Vec<JobId>,
    troubled: bool,
    loads_failed: bool,
    /// Tasks looked at for what they continue.
    placed: BTreeSet<TaskId>,
    contexts: BTreeSet<ContextId>,
    ending: Option<u64>,
    /// How many births there were: ids are never given twice, not even after a restart.
    births: u64,
    trace: VecDeque<String>,
}

impl House {
    pub fn new(seed: u64, sabotage: Sabotage) -> House {
        let mut chance = Chance::new(seed);
        let limits = limits(&mut chance);
        let now = Now {
            mono_ms: 1_000,
            unix_ms: 1_767_225_600_000,
        };
        let shelf = Shelf::new(sabotage);
        House {
            ledger: Ledger::new(shelf.store.clone(), &tools()),
            core: core(&limits, now, 0),
            chance,
            limits,
            now,
            turn: 0,
            shelf,
            tally: Tally::default(),
            composer: Composer::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            workers: Vec::new(),
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
        self.lose_power();
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.trace.len() == REMEMBERED {
            self.trace.pop_front();
        }
        let line = format!("{:4} {:7} ms  {}", self.turn, self.now.mono_ms, what());
        self.trace.push_back(line);
    }

    // What chance does.

    fn mischief(&mut self) {
        let ms = match self.chance.below(100) {
            0 => self.limits.idle_ms * 3,
            1..4 => self.chance.within(500, 4_000),
            4..30 => self.chance.within(20, 300),
            _ => self.chance.within(0, 20),
        };
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        if self.chance.percent(1) {
            // Somebody sets the clock back.
            self.now.unix_ms -= self.chance.within(0, 5_000);
        }
        match self.chance.below(400) {
            0..4 => {
                let failure = [Failure::Refused, Failure::Torn][self.chance.below(2)];
                let times = self.chance.within(1, 6) as u32;
                self.say(|| format!("the next {times} appends fail: {failure:?}"));
                self.shelf.store.fail(failure, times);
                self.troubled = true;
                self.tally.count("failing appends");
            }
            4 => {
                self.say(|| "the next sync fails".into());
                self.shelf.store.fail_syncs(1);
                self.troubled = true;
                self.tally.count("failing syncs");
            }
            5..8 => self.crash(),
            8 if self.ending.is_none() => {
                self.say(|| "asked to end".into());
                self.core.shut_down(self.now);
                self.ending = Some(self.now.mono_ms);
            }
            _ => {}
        }
    }

    /// The server dies: what it had written is there, everything else is gone.
    fn crash(&mut self) {
        self.say(|| "the server is killed and started again".into());
        self.tally.count("crashes");
        for at in 0..self.clients.len() {
            self.part(at, Ending::Lost);
        }
        self.shelf.store.crash(Crash::Killed);
        self.restart();
    }

    fn restart(&mut self) {
        self.births += 1 << 20;
        self.core = core(&self.limits, self.now, self.births);
        self.workers.clear();
        self.chores.clear();
        self.blocked.clear();
        self.ending = None;
        self.core.remember(&mut self.shelf);
        self.perform();
    }

    fn act(&mut self) {
        self.ledger.refresh();
        for at in 0..self.clients.len() {
            match &self.clients[at].link {
                None if self.chance.percent(25) && self.core.has_room() => self.arrive(at),
                None => {}
                Some(_) => self.go_on(at),
            }
        }
    }

    fn arrive(&mut self, at: usize) {
        let key = self.core.opened(Peer::SameUser, self.now);
        let mut link = Link::new(key, self.now.mono_ms);
        if let Some((task, after)) = self.clients[at].cut.pop() {
            let (chance, ledger) = (&mut self.chance, &self.ledger);
            let (ask, bytes) = self.composer.watch(chance, ledger, task, Some(after));
            self.tally.count("came back");
            self.say(|| format!("client {at} comes back: {:?}", ask.what));
            link.ask(ask, &bytes);
        }
        self.clients[at].link = Some(link);
        let many = self.chance.weighted(&[(9, 3), (1, 40)]);
        for _ in 0..self.chance.below(many) {
            self.compose(at);
        }
        self.change_pace(at);
    }

    fn compose(&mut self, at: usize) {
        let link = self.clients[at].link.as_mut().expect("it is connected");
        if !link.is_open() {
            return;
        }
        let (ask, bytes) = self
            .composer
            .any(&mut self.chance, &self.ledger, &self.limits);
        let said = format!("client {at} asks: r{} {:?}", ask.number, ask.what);
        link.ask(ask, &bytes);
        self.say(|| said);
    }

    fn go_on(&mut self, at: usize) {
        let link = self.clients[at].link.as_mut().expect("it is connected");
        let idle = link.asks.is_empty() && link.unsent().is_empty();
        match self.chance.below(200) {
            0 => {
                self.break_off(at);
            }
            1 if link.side == Sending::Open => {
                link.side = Sending::Ending;
                self.say(|| format!("client {at} will send no more"));
            }
            2..8 => self.change_pace(at),
            8..14 => self.compose(at),
            _ if idle && self.chance.percent(20) => self.compose(at),
            _ => {}
        }
    }

    fn change_pace(&mut self, at: usize) {
        let pace = match self.chance.below(10) {
            0 => Pace::Stopped(self.turn + self.chance.within(5, 120)),
            1..4 => Pace::Slow(self.chance.within(1, 400) as usize),
            _ => Pace::Greedy,
        };
        if let Some(link) = &mut self.clients[at].link {
            link.pace = pace;
            link.lose_frame |= self.shelf.sabotage == Sabotage::LostFrame;
        }
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
                    let note = Note {
                        job: worker.job.clone(),
                        body,
                    };
                    if self.shelf.sabotage == Sabotage::LostNote && note.body.is_last() {
                        continue;
                    }
                    let said = format!(
                        "{} {}: {:.60}",
                        note.job.task,
                        note.job.at,
                        format!("{:?}", note.body)
                    );
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
    }

    fn do_chore(&mut self, chore: Chore) {
        let now = self.now;
        let unlucky = self.turn < TURNS && self.chance.percent(1);
        self.troubled |= unlucky;
        let failed = || StoreError::new("the disk is told to fail");
        self.say(|| {
            format!(
                "the disk does {chore:?}{}",
                if unlucky { " and fails" } else { "" }
            )
        });
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
                let result = if unlucky {
                    Err(failed())
                } else {
                    self.load(&task)
                };
                self.core.loaded(&task, result, now);
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
        Ok(Loaded {
            state,
            inherited,
            bytes: file.len(),
        })
    }

    fn perform(&mut self) {
        for out in self.core.outs() {
            let delay = self.chance.weighted(&[(6, 0), (3, 30), (1, 700)]);
            let at = self.now.mono_ms + self.chance.within(0, delay);
            match out {
                // Background processes and rules on disk are nothing the simulation has.
                Out::Over { .. } | Out::SaveRule { .. } => {}
                Out::Start(job) => self.start(job),
                Out::Stop(job) => {
                    self.say(|| format!("stop {} {}", job.task, job.at));
                    assert!(self.started.contains(&job), "stopped before it was started");
                    let (now, chance) = (self.now.mono_ms, &mut self.chance);
                    if let Some(worker) = self.workers.iter_mut().find(|w| w.job == job) {
                        worker.stop(now, chance);
                    }
                }
                Out::Sync { task, upto } => {
                    let twice = self.chores.iter().any(
                        |(_, chore)| matches!(chore, Chore::Sync { task: other, .. } if *other == task),
                    );
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
            }
        }
    }

    /// A job may start only when the event that causes it is on disk, and no job starts twice.
    fn start(&mut self, job: Job) {
        let JobId { task, at } = &job.id;
        self.say(|| format!("start {task} {at}: {:.60}", format!("{:?}", job.work)));
        assert!(
            self.started.insert(job.id.clone()),
            "{:?} is started twice",
            job.id
        );
        let log = self.ledger.read(task);
        let record = log.record(*at);
        let record = record.unwrap_or_else(|| panic!("{:?} starts before it is on disk", job.id));
        match &job.work {
            Work::Attach { .. } | Work::Compact(_) => {
                panic!("nothing here names files or grows too long")
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
            Work::Prepare { .. } => assert!(matches!(
                record.event,
                Event::Answered { .. } | Event::CallStale { .. }
            )),
            Work::Run(run) => {
                let started = Event::CallStarted {
                    call: run.call.clone(),
                };
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
        self.workers
            .push(Worker::new(&job, self.now.mono_ms, &mut self.chance));
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
        for key in self.core.closing() {
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
        Court {
            ledger: &mut self.ledger,
            tally: &mut self.tally,
            troubled: self.troubled,
        }
    }

    /// What must hold after every turn and only the outside can see.
    fn look(&mut self, census: &Census) {
        for client in &mut self.clients {
            let Some(link) = &mut client.link else {
                continue;
            };
            let waiting = front(&self.core.slices(link.key), usize::MAX);
            if waiting.is_empty() {
                link.took_at = self.now.mono_ms;
                continue;
            }
            let known = self.blocked.contains(&link.key) || self.core.has_more();
            assert!(known, "output was forgotten");
            // One answer or frame may go over the limit, but none begins behind it.
            let most = self.limits.tx_bytes + 32;
            let over = waiting.get(most..).unwrap_or_default();
            let begun = find_last(over, b"HTTP/1.1 ").or(find_last(over, b"id: "));
            assert_eq!(begun, None, "an answer begins behind a full buffer");
        }
        assert!(census.tasks <= self.limits.tasks + CLIENTS, "{census:?}");
        let unwritten = 64 * 1024;
        let little = census.tasks * self.limits.hot_bytes / 16;
        assert!(
            census.hot_bytes
                <= self.limits.hot_total_bytes + self.limits.hot_bytes + little + unwritten,
            "{census:?}"
        );
    }

    /// When the core says that there is nothing left to do, a turn without news does nothing.
    fn rest(&mut self) {
        if self.core.has_more() {
            return;
        }
        self.core.tick(self.now);
        self.core.append(&mut self.shelf, self.now);
        self.core.release(self.now);
        let (writes, closes) = (self.core.writable(), self.core.closing());
        assert_eq!(
            (writes, closes),
            (vec![], vec![]),
            "the loop would have slept"
        );
        let outs = self.core.outs();
        assert!(outs.is_empty(), "the loop would have slept on {outs:?}");
    }

    /// A task in a context that was there before continues it.
    fn place(&mut self) {
        for known in self.shelf.store.known() {
            if self.placed.insert(known.task.clone()) && !self.contexts.insert(known.context) {
                let created = &self.ledger.read(&known.task).last().created;
                let continues = created.parent.is_some() || self.loads_failed;
                assert!(continues, "{} begins its context anew", known.task);
                self.tally.count("continued a context");
            }
        }
    }

    fn end_if_over(&mut self) {
        let Some(since) = self.ending else { return };
        if !self.core.is_over() {
            let late = self.now.mono_ms > since + self.limits.shutdown_ms;
            assert!(!late, "it does not end");
            return;
        }
        self.say(|| "ended and started again".into());
        self.tally.count("clean ends");
        for at in 0..self.clients.len() {
            self.part(at, Ending::Lost);
        }
        self.shelf.store.crash(Crash::Killed);
        self.restart();
    }

    // The end of a run.

    /// Nobody asks for anything new; what was asked for comes to an end.
    fn settle(&mut self) {
        self.say(|| "everything comes to an end".into());
        self.shelf.store.fail(Failure::Refused, 0);
        for client in &mut self.clients {
            if let Some(link) = &mut client.link {
                link.pace = Pace::Greedy;
            }
        }
        for _ in 0..4_000 {
            self.now.mono_ms += 7;
            self.now.unix_ms += 7;
            self.ledger.refresh();
            let open: Vec<TaskId> = self
                .ledger
                .tasks()
                .into_iter()
                .filter(|t| self.ledger.is_open(t))
                .collect();
            self.cancel(&open);
            self.turn();
            let owed: usize = self.links().map(|link| link.owed()).sum();
            let unsent: usize = self.links().map(|link| link.unsent().len()).sum();
            let quiet = self.workers.is_empty() && self.chores.is_empty() && !self.core.has_more();
            if open.is_empty() && owed == 0 && unsent == 0 && quiet {
                return;
            }
        }
        let left: Vec<String> = self
            .links()
            .filter_map(|link| link.asks.front())
            .map(|ask| format!("{ask:?}"))
            .collect();
        panic!(
            "it never comes to rest; unanswered: {left:#?}; {:?}",
            self.core.check()
        );
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.clients
            .iter()
            .filter_map(|client| client.link.as_ref())
    }

    /// The last client cancels what is open, one task after the other.
    fn cancel(&mut self, open: &[TaskId]) {
        let at = self.clients.len() - 1;
        let Some(task) = self.chance.pick(open).cloned() else {
            return;
        };
        match &self.clients[at].link {
            None if self.core.has_room() => {
                let key = self.core.opened(Peer::SameUser, self.now);
                self.clients[at].link = Some(Link::new(key, self.now.mono_ms));
            }
            None => {
                // Every place is taken: somebody goes.
                let other = self.chance.below(at);
                return self.break_off(other);
            }
            Some(link) if !link.is_open() || link.asks.iter().any(|ask| ask.streams()) => {
                // It has something else on its hands.
                return self.break_off(at);
            }
            Some(link) if !link.asks.is_empty() => return,
            Some(_) => {}
        }
        let (ask, bytes) = self.composer.cancel(&mut self.chance, &self.ledger, task);
        self.say(|| format!("client {at} asks: r{} {:?}", ask.number, ask.what));
        self.clients[at]
            .link
            .as_mut()
            .expect("just seen")
            .ask(ask, &bytes);
    }

    /// Everybody leaves, and nothing may be left of them.
    fn leave(&mut self) {
        for at in 0..self.clients.len() {
            self.break_off(at);
        }
        // Past every deadline: a timer is never taken back, but finds nothing.
        self.now.mono_ms += 1_000_000;
        self.turn();
        let left = self.core.check();
        let nothing = Census {
            tasks: left.tasks,
            ..Census::default()
        };
        assert_eq!(left, nothing, "something is left over");
        assert!(!self.core.has_more(), "work is left over");
    }

    /// Whatever was changed in the world, the log says so, even if the power fails.
    fn lose_power(&mut self) {
        self.shelf.store.crash(Crash::PowerLost);
        for job in &self.changes {
            let file = self.shelf.file(&job.task).expect("its log is there");
            let mut found = false;
            read_all(file.as_ref(), &mut |record| found |= record.seq == job.at)
                .expect("a good log");
            assert!(found, "{job:?} ran and nothing says so");
        }
    }
}

/// Where `mark` stands in some output for the last time.
fn find_last(output: &[u8], mark: &[u8]) -> Option<usize> {
    output
        .windows(mark.len())
        .rposition(|window| window == mark)
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

fn fold(file: &dyn LogFile, upto: Option<Seq>) -> Result<State, StoreError> {
    let mut state: Option<State> = None;
    read_all(file, &mut |record| match (&mut state, &record.event) {
        (None, Event::Created(created)) => state = Some(State::born(created.clone(), &record)),
        (Some(state), _) if upto.is_none_or(|upto| record.seq <= upto) => state.apply(&record),
        _ => {}
    })?;
    state.ok_or_else(|| StoreError::new("there is nothing in it"))
}

/// Small, so that they are reached, and different in every run.
fn limits(chance: &mut Chance) -> Limits {
    Limits {
        head_bytes: 700,
        body_bytes: 3_000,
        connections: chance.within(4, CLIENTS as u64 + 1) as usize,
        head_ms: 800,
        body_ms: 3_000,
        idle_ms: 4_000,
        stall_ms: 3_000,
        ping_ms: 900,
        tx_bytes: [300, 2_000, 9_000][chance.below(3)],
        turn_bytes: 600,
        turn_notes: [2, 9, 100][chance.below(3)],
        tasks: chance.within(3, 10) as usize,
        task_subs: chance.within(2, 6) as usize,
        subs: chance.within(4, 9) as usize,
        queued_prompts: 3,
        hot_bytes: [500, 3_000, 20_000][chance.below(3)],
        hot_total_bytes: [1_500, 30_000][chance.below(2)],
        page_bytes: [200, 2_000, 20_000][chance.below(3)],
        calls: 3,
        model_tries: 3,
        stream_tries: 3,
        backoff_ms: 50,
        backoff_cap_ms: 150,
        backoff_longest_ms: 300,
        rebreak_ms: 30,
        store_retry_ms: 100,
        shutdown_ms: 2_000,
        ..Limits::default()
    }
}

fn core(limits: &Limits, now: Now, births: u64) -> Core {
    let mut n = u128::from(births);
    Core::new(Setup {
        limits: limits.clone(),
        door: Door::default(),
        tools: tools(),
        choose: Box::new(|_| Ok("some-model".into())),
        script: None,
        card: a2a::card("http://localhost/", "0", 0),
        approval: Approval::default(),
        resolve: Box::new(|wish| match wish {
            None => Ok(Site {
                path: "/w".into(),
                trusted: true,
            }),
            Some(wish) => Err(format!("{wish} is not a directory")),
        }),
        entropy: Entropy::new(move || {
            n += 1;
            n.to_be_bytes()
        }),
        now,
    })
}
