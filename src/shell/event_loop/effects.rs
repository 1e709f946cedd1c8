//! Carries out the effects of the core: writes to sockets, starts jobs, writes lines of logs.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::compute::Computation;
use crate::core::disk::request::{SharedAnswer, SharedRequest, StoreRequest};
use crate::core::disk::store::Archive;
use crate::core::operation::process::{Figures, LaneJobs};
use crate::core::operation::readiness::Delays;
use crate::core::{self, BlobRequest, Close, FilesRequest, Input, Out, Shell, SiteWish, Written};
use crate::limits::{LANE_CHECK_MS, Limits};
use crate::shell::event_loop::access_log::AccessLog;
use crate::shell::event_loop::figures::{self, Reports, Stopwatch};
use crate::shell::event_loop::log::Log;
use crate::shell::peers::peer_check::{Answers, PeerCheck, PeerProcess};
use crate::shell::workers::jobs::{Jobs, WorkerContext, WorkerMessage};
use crate::shell::workers::lanes::Lane;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// What the effects of the core need.
pub(super) struct Effects {
    pub jobs: Jobs,
    pub peer_check: PeerCheck,
    pub log: Log,
    pub access_log: AccessLog,
    pub stopwatch: Stopwatch,
    pub sockets: HashMap<Key, Socket>,
    /// Connections to continue with in the next turn, for which the poll reports no event.
    pub unfinished: Vec<Key>,
    /// Streams that stay open until a time, oldest first.
    pub lingering: VecDeque<(u64, OwnedFd)>,
    limits: Limits,
    /// A connection was closed, so there may be room for another one.
    pub has_closed: bool,
    /// Connections that were written to in this turn.
    pub written: Vec<Key>,
    /// Whether jobs were delayed at the last check, and when the next check is due.
    delays: Delays,
    check_at: u64,
}

pub(super) struct Socket {
    pub stream: OwnedFd,
    pub process: PeerProcess,
    /// The connection is in [`Effects::unfinished`], which names each connection once.
    pub is_unfinished: bool,
    /// Reading, and writing, has not returned `WouldBlock` since the last event.
    pub readable: bool,
    pub writable: bool,
    /// How many bytes may still be written in this turn.
    pub budget: usize,
}

/// Jobs whose result is an input of the core.
impl Effects {
    /// Starts work. `input` makes an input of its result, or of the reason why it could not be done.
    fn ask<T>(
        &mut self,
        lane: Lane,
        work: impl FnOnce(&WorkerContext) -> Result<T, String> + Send + 'static,
        input: impl FnOnce(Result<T, String>) -> Input<'static> + Clone + Send + 'static,
    ) {
        let failed = input.clone();
        self.jobs.ask(
            lane,
            move |context| WorkerMessage::Input(input(work(context))),
            move |error| WorkerMessage::Input(failed(Err(error.message))),
        );
    }

    fn resolve(&mut self, request: u64, path: String, directories: Vec<String>, wish: SiteWish) {
        let work = move |context: &WorkerContext| context.resolve(&path, &directories, wish);
        self.ask(Lane::Disk, work, move |site| Input::Resolved { request, site });
    }

    fn read_blob(&mut self, request: Arc<BlobRequest>) {
        let blob = request.clone();
        let work = move |context: &WorkerContext| {
            let read = context.blobs.read(&blob.sha256, blob.from, context.settings.limits.page_bytes);
            read.map_err(|error| error.to_string())
        };
        self.ask(Lane::Disk, work, move |read| Input::BlobRead { request, read });
    }

    fn find_files(&mut self, request: Arc<FilesRequest>) {
        let files = request.clone();
        let work = move |context: &WorkerContext| context.find_files(&files.workspace, &files.query, files.limit);
        self.ask(Lane::Tool, work, move |found| Input::FilesFound { request, found });
    }

    fn read_credentials(&mut self) {
        let work = |context: &WorkerContext| Ok(context.credentials.as_ref().and_then(|reader| reader.changed()));
        self.ask(Lane::Disk, work, |changed| Input::Credentials(changed.unwrap_or_else(|why| Some(Err(why)))));
    }

    fn fetch_keys(&mut self) {
        let work = |context: &WorkerContext| match &context.identity {
            Some(source) => source.fetch(),
            None => Err("there is no source".into()),
        };
        self.ask(Lane::Hook, work, Input::Keys);
    }

    fn compute(&mut self, computation: Computation) {
        let recipient = computation.recipient().clone();
        self.jobs.ask(
            Lane::Compute,
            move |context| WorkerMessage::Input(computation.run(&*context.blobs)),
            move |error| WorkerMessage::Input(Input::Computed { recipient, result: Err(error.message) }),
        );
    }
}

impl Shell for Effects {
    fn start(&mut self, out: Out) {
        match out {
            Out::Start(job) => self.jobs.start(job),
            Out::Stop(job) => self.jobs.stop(&job),
            Out::Reply { job, nr, reply } => self.jobs.reply(&job, nr, reply),
            Out::Store(request) => self.ask_store(request),
            Out::Maintain(maintenance) => self.jobs.maintain(maintenance),
            Out::Resolve { request, path, directories, wish } => self.resolve(request, path, directories, wish),
            Out::Blob(request) => self.read_blob(request),
            Out::Files(request) => self.find_files(request),
            Out::Compute(computation) => self.compute(computation),
            Out::Identify { conn } => {
                if let Some(socket) = self.sockets.get(&conn) {
                    self.peer_check.ask(conn, socket.process);
                }
            }
            Out::ReadCredentials => self.read_credentials(),
            Out::FetchKeys => self.fetch_keys(),
            Out::CommandHook(notice) => self.jobs.run_observing_hooks(*notice),
            Out::EndBackground { task } => self.jobs.forget(&task),
            Out::ClientServers { task, servers } => self.jobs.adopt(task, servers),
            Out::ClientKey { task, key } => self.jobs.keep_key(task, key),
            Out::SaveRule { rule } => self.jobs.save_rule(rule),
            Out::ForgetRule { rule } => self.jobs.forget_rule(rule),
            Out::Deliver(delivery) => self.jobs.deliver(delivery),
            Out::Scrape(caller) => self.scrape(caller),
            Out::Reload => self.access_log.reopen(),
            Out::AccessLog(entry) => self.access_log.add(&entry),
            Out::Log { level, text } => self.log.log(level, &text),
        }
    }

    fn write(&mut self, conn: Key, slices: &[IoSlice<'_>]) -> Written {
        let Some(socket) = self.sockets.get_mut(&conn) else {
            return Written::Later;
        };
        loop {
            if !socket.writable {
                return Written::Later;
            }
            if socket.budget == 0 {
                self.continue_next_turn(conn);
                return Written::Later;
            }
            match rustix::io::writev(&socket.stream, slices) {
                Ok(0) => return Written::Broke,
                Ok(n) => {
                    socket.budget = socket.budget.saturating_sub(n);
                    self.written.push(conn);
                    return Written::Bytes(n);
                }
                Err(Errno::AGAIN) => socket.writable = false,
                Err(Errno::INTR) => {}
                Err(_) => return Written::Broke,
            }
        }
    }

    fn read_on(&mut self, conn: Key) {
        if self.sockets.get(&conn).is_some_and(|socket| socket.readable) {
            self.continue_next_turn(conn);
        }
    }

    fn close(&mut self, conn: Key, how: Close, now: Now) {
        let Some(socket) = self.sockets.remove(&conn) else {
            return;
        };
        self.has_closed = true;
        if how == Close::Reset {
            // With this option closing the socket resets the connection.
            let _ = sockopt::set_socket_linger(&socket.stream, Some(Duration::ZERO));
        } else if socket.readable {
            let _ = shutdown(&socket.stream, Shutdown::Write);
            linger(&mut self.lingering, socket.stream, now.mono_ms, &self.limits);
        }
    }
}

/// Carries out a request to the store, and measures the time of a flush.
fn run_measured(request: &StoreRequest, archive: &dyn Archive, stopwatch: &Stopwatch) -> Input<'static> {
    if !matches!(request, StoreRequest::Sync { .. }) {
        return request.run(archive);
    }
    let mut answer = None;
    let _ = stopwatch.sync(|| {
        let input = request.run(archive);
        let is_ok = matches!(&input, Input::Synced { result: Ok(()), .. });
        answer = Some(input);
        if is_ok { Ok(()) } else { Err(()) }
    });
    answer.expect("it was carried out")
}

/// Keeps a stream open until its time to linger is over, unless there are too many such streams.
fn linger<T>(lingering: &mut VecDeque<(u64, T)>, stream: T, now_ms: u64, limits: &Limits) {
    if lingering.len() < limits.lingering {
        lingering.push_back((now_ms + limits.linger_ms, stream));
    }
}

impl Effects {
    pub fn new(jobs: Jobs, peer_check: PeerCheck, reports: Reports, limits: Limits) -> Effects {
        let Reports { log, access_log, stopwatch } = reports;
        Effects {
            jobs,
            peer_check,
            log,
            access_log,
            stopwatch,
            sockets: HashMap::new(),
            unfinished: Vec::new(),
            lingering: VecDeque::new(),
            limits,
            has_closed: false,
            written: Vec::new(),
            delays: Delays::default(),
            check_at: 0,
        }
    }

    /// Whether jobs take too long. None if that has not changed since the last check, or if no check is due.
    pub fn delays(&mut self, now: Now) -> Option<Delays> {
        if now.mono_ms < self.check_at {
            return None;
        }
        self.check_at = now.mono_ms + LANE_CHECK_MS;
        let most = Duration::from_millis(self.limits.lane_delay_ms);
        let mut delays = Delays::default();
        for load in self.jobs.lanes.loads() {
            match load.lane {
                Lane::Disk => delays.store |= load.oldest_wait.max(load.longest_run) >= most,
                Lane::Model | Lane::Tool | Lane::Compute | Lane::Hook | Lane::Bucket => {
                    delays.lanes |= load.oldest_wait >= most
                }
            }
        }
        (std::mem::replace(&mut self.delays, delays) != delays).then_some(delays)
    }

    fn ask_store(&mut self, request: StoreRequest) {
        let (failed, stopwatch) = (request.clone(), self.stopwatch.clone());
        // Requests to a shared store wait for the network, so they have threads of their own. Requests that find out whether the store
        // responds do not need those threads.
        let is_quick = matches!(&request, StoreRequest::Probe | StoreRequest::Shared(SharedRequest::Status));
        let lane = if self.jobs.has_shared_store() && !is_quick { Lane::Bucket } else { Lane::Disk };
        self.jobs.ask(
            lane,
            move |context| {
                let mut input = run_measured(&request, &*context.archive, &stopwatch);
                if let Input::Shared(SharedAnswer::Status(standing)) = &mut input {
                    standing.background = context.background.tasks();
                }
                WorkerMessage::Input(input)
            },
            move |error| WorkerMessage::Input(failed.failed(error)),
        );
    }

    /// Collects for `/metrics` what only the shell can measure.
    fn scrape(&mut self, caller: Arc<core::Caller>) {
        let lanes = self.jobs.lanes.loads().map(|load| LaneJobs {
            lane: load.lane.word(),
            queued: load.queued,
            running: load.running,
        });
        let figures = Figures { lanes: lanes.into(), timings: self.stopwatch.timings(), process: None };
        let (asked, without) = (caller.clone(), figures.clone());
        self.jobs.ask(
            Lane::Compute,
            move |_| {
                let figures = Box::new(Figures { process: figures::process(), ..figures });
                WorkerMessage::Input(Input::Scraped { caller, figures })
            },
            move |_| WorkerMessage::Input(Input::Scraped { caller: asked, figures: Box::new(without) }),
        );
    }

    /// Has the next turn continue with a connection, because the poll reports no event for it.
    pub fn continue_next_turn(&mut self, key: Key) {
        if let Some(socket) = self.sockets.get_mut(&key)
            && !socket.is_unfinished
        {
            socket.is_unfinished = true;
            self.unfinished.push(key);
        }
    }

    pub fn take_unfinished(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.unfinished);
        for key in &keys {
            if let Some(socket) = self.sockets.get_mut(key) {
                socket.is_unfinished = false;
            }
        }
        keys
    }

    /// If a response was written, further requests of the peer may be read in the next turn.
    pub fn after_write(&mut self, key: Key, room: usize, budget: usize) {
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.budget = budget;
            if room > 0 && socket.readable {
                self.continue_next_turn(key);
            }
        }
    }

    pub fn end_turn(&mut self, now: Now) {
        self.access_log.flush();
        if let Some(inquiry) = self.peer_check.inquiry() {
            let connections = inquiry.connections();
            self.jobs.ask(
                Lane::Disk,
                move |_| WorkerMessage::Identified(inquiry.run()),
                move |error| WorkerMessage::Identified(Answers::unavailable(connections, &error.message)),
            );
        }
        while self.lingering.front().is_some_and(|(at, _)| *at <= now.mono_ms) {
            self.lingering.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_lingering_connections_is_limited() {
        let limits = Limits { lingering: 2, linger_ms: 10, ..Limits::default() };
        let mut lingering = VecDeque::new();
        for (stream, now_ms) in [("a", 5), ("b", 6), ("c", 7)] {
            linger(&mut lingering, stream, now_ms, &limits);
        }
        assert_eq!(lingering, [(15, "a"), (16, "b")]);
    }
}
