//! The simulation: the core, clients, workers and a disk in memory. One turn here is one turn of `shell/event_loop/server.rs`, in
//! its order, with random input.

mod audit;
mod end;
mod faults;
mod invariants;

use crate::checker::{Checker, Tally};
use crate::client::{Client, Ending, Pace, Sending};
use crate::core_harness::{Outside, Takes, waiting};
use crate::faulty_store::{FaultyStore, InjectedBug};
use crate::journals::Journals;
use crate::random::Random;
use crate::requests::Composer;
use crate::setup;
use crate::webhooks::{DeliveryOutcome, Webhooks};
use crate::workers::{LaneJob, Worker, tools};
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{ContextId, Seq, TaskId};
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::compute::Recipient;
use gemini_a2a::core::connections::identity::Identity;
use gemini_a2a::core::disk::request::StoreRequest;
use gemini_a2a::core::disk::store::{Archive, StoreError};
use gemini_a2a::core::webhooks::Delivery;
use gemini_a2a::core::{Core, Input, Out};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::job::{Job, JobId, Note, Work};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io::IoSlice;

/// Turns with random input. After them the run continues until nothing is left to do.
const TURNS: u64 = 240;
pub const CLIENTS: usize = 9;
/// The last steps that a failing run prints.
const REMEMBERED: usize = 60;

pub struct Simulation {
    chance: Random,
    limits: Limits,
    now: Now,
    turn: u64,
    core: Core,
    disk: FaultyStore,
    is_audited: bool,
    is_shared: bool,
    journals: Journals,
    pub tally: Tally,
    composer: Composer,
    clients: Vec<Client>,
    workers: Vec<Worker>,
    webhooks: Webhooks,
    /// Jobs of the lanes, and when each is done.
    lane_jobs: Vec<(u64, LaneJob)>,
    /// Jobs of tasks that were over after the last turn, and were not stopped in it.
    unstopped: BTreeSet<JobId>,
    /// Connections whose socket is full until the client reads.
    blocked: HashSet<Key>,
    /// All jobs that were started, before and after restarts.
    started: BTreeSet<JobId>,
    /// The last synced event of each log.
    synced: BTreeMap<TaskId, Seq>,
    /// Calls with effects that were started.
    changes: Vec<JobId>,
    /// The disk was made to fail.
    disk_failed: bool,
    /// A task could not be loaded.
    loads_failed: bool,
    /// Tasks whose context was checked.
    context_checked: BTreeSet<TaskId>,
    contexts: BTreeSet<ContextId>,
    /// When a shutdown was requested.
    ending: Option<u64>,
    /// The first id of this process; ids are unique across restarts.
    id_base: u64,
    trace: VecDeque<String>,
}

impl Simulation {
    pub fn new(seed: u64, bug: InjectedBug) -> Simulation {
        let mut chance = Random::new(seed);
        let limits = setup::limits(&mut chance);
        let now = Now { mono_ms: 1_000, unix_ms: 1_767_225_600_000 };
        let disk = FaultyStore::new(bug);
        let is_audited = seed % 2 == 1;
        let is_shared = seed / 2 % 2 == 1;
        disk.store.share(is_shared);
        Simulation {
            journals: Journals::new(disk.store.clone(), &tools()),
            core: setup::core(&limits, now, 0, is_audited.then(|| audit::setup(&disk.store)), is_shared),
            is_audited,
            is_shared,
            chance,
            limits,
            now,
            turn: 0,
            disk,
            tally: Tally::default(),
            composer: Composer::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            workers: Vec::new(),
            webhooks: Webhooks::default(),
            lane_jobs: Vec::new(),
            unstopped: BTreeSet::new(),
            blocked: HashSet::new(),
            started: BTreeSet::new(),
            synced: BTreeMap::new(),
            changes: Vec::new(),
            disk_failed: false,
            loads_failed: false,
            context_checked: BTreeSet::new(),
            contexts: BTreeSet::new(),
            ending: None,
            id_base: 0,
            trace: VecDeque::new(),
        }
    }

    pub fn trace(&self) -> impl Iterator<Item = &String> {
        self.trace.iter()
    }

    pub fn run(&mut self) {
        while self.turn < TURNS {
            self.inject_faults();
            self.act();
            self.turn();
        }
        self.settle();
        self.disconnect_all();
        self.check_audit();
        self.check_webhooks();
        self.check_after_power_loss();
    }

    fn trace_step(&mut self, what: impl FnOnce() -> String) {
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
        self.deliver_notes();
        let mut outside = self.read_budgets();
        self.core.turn(&mut self.disk, &mut outside, self.now);
        for out in outside.take_outs() {
            self.handle(out);
        }
        self.check_stopped_jobs();
        self.write(&outside);
        self.close(&outside);
        let census = self.core.check();
        self.check_outputs(&census);
        self.check_contexts();
        self.check_idle();
        self.restart_if_over();
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
                link.mark_sent(n);
            } else if link.side == Sending::Ending && link.unsent().is_empty() && room > 0 {
                link.side = Sending::Ended;
                self.core.input(Input::Finished { conn: link.key }, now);
            }
        }
    }

    fn deliver_notes(&mut self) {
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
                    if self.disk.bug == InjectedBug::LostNote && note.body.is_last() {
                        continue;
                    }
                    let said = format!("{} {}: {:.60}", note.job.task, note.job.at, format!("{:?}", note.body));
                    self.core.input(Input::Note(note), now);
                    self.trace_step(|| said);
                    budget -= 1;
                }
                _ => drop(ready.swap_remove(pick)),
            }
        }
        self.workers.retain(|worker| !worker.notes.is_empty());
        let due = |(at, _): &(u64, LaneJob)| *at <= now.mono_ms;
        let (done, left) = std::mem::take(&mut self.lane_jobs).into_iter().partition(due);
        self.lane_jobs = left;
        for (_, job) in done {
            self.finish_lane_job(job);
        }
        let loses_deliveries = self.disk.bug == InjectedBug::LostDeliveries;
        while let Some((delivery, result)) = self.webhooks.next_outcome(now.mono_ms, loses_deliveries) {
            self.tally.count(match &result {
                Ok(()) => "delivery succeeded",
                Err(_) => "delivery failed",
            });
            self.trace_step(|| format!("{delivery:?}: {result:?}"));
            let Delivery { task, hook, seq, .. } = delivery;
            self.core.input(Input::Delivered { task, hook, seq, result }, now);
        }
    }

    fn finish_lane_job(&mut self, job: LaneJob) {
        let now = self.now;
        let fails = self.turn < TURNS && self.chance.percent(1);
        self.disk_failed |= fails;
        self.trace_step(|| {
            let what = match &job {
                // It contains a set, whose order differs from run to run.
                LaneJob::Store(StoreRequest::Measure { .. }) => "Measure".to_owned(),
                job => format!("{job:?}"),
            };
            format!("the disk does {what}{}", if fails { " and fails" } else { "" })
        });
        let answer = match job {
            LaneJob::Store(StoreRequest::Sync { task, upto }) => {
                let result = match self.disk.bug {
                    InjectedBug::NoSync => Ok(()),
                    _ => self.flush(&task),
                };
                Input::Synced { task, upto, result }
            }
            LaneJob::Store(StoreRequest::SyncAudit { upto }) if self.disk.bug == InjectedBug::NoAuditSync => {
                Input::AuditSynced { upto, result: Ok(()) }
            }
            LaneJob::Store(request) => self.ask_store(request, fails),
            LaneJob::Resolve { request, path } => {
                Input::Resolved { request, site: Err(format!("{path} is not a directory")) }
            }
            LaneJob::Identify { conn } => {
                self.tally.count("identified");
                Input::Identified { conn, identity: Identity::SameUser }
            }
            LaneJob::Compute(computation) => {
                self.tally.count("computed");
                // Of a request that could not be decoded the id is not known, so that its answer cannot be told from others.
                match computation.recipient().clone() {
                    recipient @ Recipient::Subscription(_) if fails => {
                        Input::Computed { recipient, result: Err("the worker died".into()) }
                    }
                    Recipient::Subscription(_) | Recipient::Connection { .. } => {
                        computation.run(&*self.disk.store.blobs())
                    }
                }
            }
        };
        self.core.input(answer, now);
    }

    fn ask_store(&mut self, request: StoreRequest, fails: bool) -> Input<'static> {
        let fails = match &request {
            StoreRequest::Page { .. } => {
                self.tally.count("pages");
                fails
            }
            StoreRequest::Load { .. } => {
                self.tally.count("loads");
                self.loads_failed |= fails;
                fails
            }
            _ => false,
        };
        match fails {
            true => request.failed(StoreError::new("the disk was made to fail")),
            false => request.run(&self.disk.store),
        }
    }

    fn flush(&mut self, task: &TaskId) -> Result<(), StoreError> {
        self.disk.store.open(task)?.sync()?;
        let end = Seq(self.journals.read(task).len());
        self.synced.insert(task.clone(), end);
        Ok(())
    }

    fn handle(&mut self, out: Out) {
        let delay = match self.turn < TURNS {
            true => self.chance.weighted(&[(6, 0), (3, 30), (1, 700)]),
            false => 0,
        };
        let at = self.now.mono_ms + self.chance.within(0, delay);
        match out {
            // The simulation has no background processes, saved rules or log.
            Out::Reply { .. } => panic!("no server asks in the simulation"),
            Out::ReadCredentials => panic!("there are no credentials in the simulation"),
            Out::CommandHook(_)
            | Out::EndBackground { .. }
            | Out::ClientServers { .. }
            | Out::ClientKey { .. }
            | Out::FetchKeys
            | Out::SaveRule { .. }
            | Out::ForgetRule { .. }
            | Out::AccessLog(_)
            | Out::Scrape(_)
            | Out::Reload
            | Out::Log { .. }
            | Out::Maintain(_) => {}
            Out::Deliver(delivery) => {
                let outcome = match self.turn < TURNS {
                    true => DeliveryOutcome::any(&mut self.chance),
                    false => DeliveryOutcome::Arrives,
                };
                self.trace_step(|| format!("{delivery:?} {outcome:?}"));
                let history = self.limits.webhook_history;
                self.webhooks.start(delivery, at, outcome, &mut self.journals, history);
            }
            Out::Files(request) => panic!("no client of the simulation looks for files: {request:?}"),
            Out::Blob(request) => panic!("no client of the simulation requests for {request:?}"),
            Out::Start(job) => self.start(job),
            Out::Stop(job) => {
                self.trace_step(|| format!("stop {} {}", job.task, job.at));
                assert!(self.started.contains(&job), "stopped before it was started");
                let (now, chance) = (self.now.mono_ms, &mut self.chance);
                if let Some(worker) = self.workers.iter_mut().find(|w| w.job == job)
                    && self.disk.bug != InjectedBug::WorkerIgnoresStop
                {
                    worker.stop(now, chance);
                }
            }
            Out::Store(request) => self.add_lane_job(at, LaneJob::Store(request)),
            Out::Resolve { request, path, .. } => self.add_lane_job(at, LaneJob::Resolve { request, path }),
            Out::Identify { conn } => self.add_lane_job(at, LaneJob::Identify { conn }),
            Out::Compute(computation) => self.add_lane_job(at, LaneJob::Compute(computation)),
        }
    }

    /// One sync per log and one page per reader at a time, and each connection is identified once.
    fn add_lane_job(&mut self, at: u64, job: LaneJob) {
        use StoreRequest::{Page, Sync};
        let twice = self.lane_jobs.iter().any(|(_, other)| match (other, &job) {
            (LaneJob::Store(Sync { task: a, .. }), LaneJob::Store(Sync { task: b, .. })) => a == b,
            (LaneJob::Store(Page(a)), LaneJob::Store(Page(b))) => a.sub == b.sub,
            (LaneJob::Store(a), LaneJob::Store(b)) => format!("{a:?}") == format!("{b:?}"),
            (LaneJob::Resolve { request: a, .. }, LaneJob::Resolve { request: b, .. }) => a == b,
            (LaneJob::Identify { conn: a }, LaneJob::Identify { conn: b }) => a == b,
            (_, _) => false,
        });
        assert!(!twice, "{job:?} is asked for twice");
        self.lane_jobs.push((at, job));
    }

    /// A job may start only when the event that causes it is on disk, and no job starts twice.
    fn start(&mut self, job: Job) {
        let JobId { task, at } = &job.id;
        self.trace_step(|| format!("start {task} {at}: {:.60}", format!("{:?}", job.work)));
        assert!(self.started.insert(job.id.clone()), "{:?} is started twice", job.id);
        let log = self.journals.read(task);
        let record = log.record(*at);
        let record = record.unwrap_or_else(|| panic!("{:?} starts before it is on disk", job.id));
        match &job.work {
            Work::Attach { .. } | Work::Command(_) | Work::Compact(_) => {
                panic!("no prompt names files or a command, and no conversation gets long")
            }
            Work::Think(think) => {
                assert!(matches!(
                    record.event,
                    Event::TurnBegan { .. }
                        | Event::Retried
                        | Event::ResultsSent
                        | Event::FellBack { .. }
                        | Event::Nudged { .. }
                        | Event::Declined { .. }
                ));
                self.journals.refresh();
                if let Some(history) = self.journals.history(task, *at)
                    && !self.loads_failed
                {
                    assert_eq!(think.history, history, "{task} has a wrong history");
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

    /// How many bytes each client reads in this turn. Blocked connections that read again become writable.
    fn read_budgets(&mut self) -> Outside {
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
            // A request that timed out before it was complete: its rest may still be on the way.
            if !link.unsent().is_empty() {
                let output = [taken, &waiting(&self.core, link.key)].concat();
                link.refused |= find_last(&output, b"HTTP/1.1 408 ").is_some();
            }
            if !taken.is_empty() {
                link.took_at = self.now.mono_ms;
                link.take(taken, &mut self.checker());
            }
            self.clients[at].link = Some(link);
        }
    }

    fn close(&mut self, outside: &Outside) {
        for (key, _) in outside.closed.iter().copied() {
            self.blocked.remove(&key);
            let whose = |client: &Client| client.link.as_ref().is_some_and(|link| link.key == key);
            if let Some(at) = self.clients.iter().position(whose) {
                self.trace_step(|| format!("client {at} is closed"));
                self.disconnect(at, Ending::Closed);
            }
        }
    }

    fn drop_client(&mut self, at: usize) {
        if let Some(link) = &self.clients[at].link {
            self.core.input(Input::Broke { conn: link.key }, self.now);
            self.trace_step(|| format!("client {at} breaks off"));
            self.disconnect(at, Ending::Lost);
        }
    }

    fn disconnect(&mut self, at: usize, ending: Ending) {
        let Some(link) = self.clients[at].link.take() else {
            return;
        };
        let (now, stall) = (self.now.mono_ms, self.limits.stall_ms);
        let cut = link.end(ending, now, stall, &mut self.checker());
        self.clients[at].cut.extend(cut);
    }

    fn checker(&mut self) -> Checker<'_> {
        Checker {
            journals: &mut self.journals,
            tally: &mut self.tally,
            disk_failed: self.disk_failed,
            ending: self.ending.is_some(),
        }
    }
}

/// The last position of `mark` in the output.
fn find_last(output: &[u8], mark: &[u8]) -> Option<usize> {
    output.windows(mark.len()).rposition(|window| window == mark)
}

/// The first `most` bytes of the output.
fn front(slices: &[IoSlice<'_>], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for slice in slices {
        let room = most - bytes.len();
        bytes.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    bytes
}
