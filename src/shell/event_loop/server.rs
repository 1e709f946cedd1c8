//! The event loop: one thread, one poll. Read `Server::turn` first, then `Core::turn`.
//!
//! Events are written to the journal before they are sent or start jobs. The core decides everything; this file has the
//! order of the steps, `effects.rs` the sockets and the jobs. Readiness is edge-triggered, so a connection that stops on a budget instead of
//! `WouldBlock` is listed in `Effects::unfinished` and continued in the next turn.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::connections::connection::{Link, Peer};
use crate::core::disk::store::Store;
use crate::core::{Core, Input};
use crate::limits::Limits;
use crate::shell::event_loop::effects::{Effects, Socket};
use crate::shell::event_loop::figures::Reports;
use crate::shell::event_loop::flush::flush;
use crate::shell::event_loop::listen::{Listener, Serves};
use crate::shell::event_loop::notify::{self, ServiceManager};
use crate::shell::event_loop::signals::{OnHangup, Signal, Signals};
use crate::shell::event_loop::stop::{StopHandle, Wake};
use crate::shell::event_loop::sys::{self, Clock};
use crate::shell::peers::peer_check::{Accepted, PeerCheck, PeerProcess};
use crate::shell::workers::jobs::{Jobs, WorkerContext, WorkerMessage};
use crate::shell::workers::lanes::Lanes;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::io::Errno;
use rustix::net::{getsockname, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const WAKE: Token = Token(usize::MAX);
const SIGNAL: Token = Token(usize::MAX - 1);
/// The token of the first listener; the tokens of the others follow.
const LISTEN: usize = usize::MAX - 1_000;

/// Bytes of the buffer that all connections are read into, one after the other.
const SCRATCH: usize = 64 * 1024;

pub struct Server {
    poll: Poll,
    listeners: Vec<Listening>,
    signals: Option<Signals>,
    wake: Arc<Wake>,
    clock: Clock,
    core: Core,
    store: Box<dyn Store>,
    limits: Limits,
    /// When to accept again after an error.
    accept_at: Option<u64>,
    /// When to try again to start threads.
    threads_at: Option<u64>,
    /// The core was told that no thread can be started for jobs.
    starved: bool,
    /// The signal that ended the server.
    signal: Option<Signal>,
    service_manager: Option<ServiceManager>,
    effects: Effects,
}

struct Listening {
    listener: Listener,
    /// There may be connections to accept.
    backlog: bool,
    /// Accepting stopped before the accept queue was seen to be empty.
    is_unfinished: bool,
    /// Connections that were accepted since the accept queue was last seen to be empty.
    accepted: usize,
}

/// Why the server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A [`StopHandle`] stopped it.
    Stopped,
    Signal(Signal),
}

impl Server {
    /// Without `signals` no signal is handled.
    #[inline(never)]
    pub fn new(
        listeners: Vec<Listener>,
        signals: Option<Signals>,
        core: Core,
        store: Box<dyn Store>,
        context: WorkerContext,
        peer_check: PeerCheck,
        reports: Reports,
    ) -> io::Result<Server> {
        let poll = Poll::new()?;
        let register = |socket: &dyn AsRawFd, token| {
            poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)
        };
        for (at, listener) in listeners.iter().enumerate() {
            register(&listener.socket, Token(LISTEN + at))?;
        }
        if let Some(signals) = &signals {
            register(&signals.socket, SIGNAL)?;
        }
        let listening = |listener| Listening { listener, backlog: true, is_unfinished: false, accepted: 0 };
        let wake = Arc::new(Wake::new(&poll, WAKE)?);
        let waker = wake.clone();
        let limits = context.settings.limits.clone();
        let jobs = Jobs::new(Lanes::new(move || waker.wake(), &limits), context);
        Ok(Server {
            poll,
            listeners: listeners.into_iter().map(listening).collect(),
            signals,
            wake,
            clock: Clock::start(),
            core,
            store,
            accept_at: None,
            threads_at: None,
            starved: false,
            signal: None,
            service_manager: None,
            effects: Effects::new(jobs, peer_check, reports, limits.clone()),
            limits,
        })
    }

    /// Sets the service manager that is told when the server is ready and when it ends.
    pub fn set_service_manager(&mut self, manager: ServiceManager) {
        self.service_manager = Some(manager);
    }

    /// Stops the server, from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle::new(&self.wake)
    }

    /// Runs until the server is stopped or a signal ends it.
    pub fn run(mut self) -> io::Result<Ended> {
        let known = self.store.archive().known();
        self.core.input(Input::Listed(known), self.clock.now());
        let mut events = Events::with_capacity(1024);
        let mut scratch = vec![0; SCRATCH];
        while !self.core.is_over() {
            self.turn(&mut events, &mut scratch)?;
        }
        self.turn(&mut events, &mut scratch)?;
        flush(self.store.archive(), self.core.unflushed());
        self.core.end(&mut self.effects);
        self.effects.jobs.end();
        self.effects.access_log.end();
        Ok(self.signal.map_or(Ended::Stopped, Ended::Signal))
    }

    fn turn(&mut self, events: &mut Events, scratch: &mut [u8]) -> io::Result<()> {
        // Wait until something happens, or until the nearest deadline.
        let poll_timeout = self.poll_timeout();
        self.effects.peer_check.poll_begins();
        if let Err(error) = self.poll.poll(events, poll_timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        // Everything in this turn happens at one time.
        let (now, began) = (self.clock.now(), self.clock.micros());
        // Everything that has happened is passed to the core.
        if let Some(delays) = self.effects.delays(now) {
            self.core.input(Input::Delayed(delays), now);
        }
        let mut unfinished = self.effects.take_unfinished();
        if self.accept_queues_were_empty(events) {
            self.effects.peer_check.accept_queues_were_empty();
        }
        let ready = self.take_events(events, now);
        self.accept(now);
        // The order: one unfinished connection of the last turn, the connections of new events, the other unfinished ones. So a new
        // request waits for at most one unfinished connection, and no unfinished connection waits forever.
        let others = unfinished.split_off(unfinished.len().min(1));
        let work = [unfinished, ready, others].concat();
        self.take_requests(&work, scratch, now);
        self.take_messages(now);
        for conn in &work {
            self.core.input(Input::Writable { conn: *conn }, now);
        }
        // The core reacts: timers, appends, frames and jobs, writes, closed connections.
        self.core.turn(self.store.as_mut(), &mut self.effects, now);
        self.effects.end_turn(now);
        self.check_threads(now);
        for key in std::mem::take(&mut self.effects.written).into_iter().chain(work) {
            let room = self.core.room(key);
            self.effects.after_write(key, room, self.limits.turn_bytes);
        }
        if !self.core.accepts() {
            self.close_listeners();
        }
        self.notify_service_manager();
        if std::mem::take(&mut self.effects.has_closed) {
            self.assume_backlogs();
        }
        self.effects.stopwatch.turn(self.clock.micros() - began);
        Ok(())
    }

    /// From now on the system refuses connections, so that clients try another server. An inherited socket stays open in the service
    /// manager, and connections to it wait for the next server.
    fn close_listeners(&mut self) {
        for listening in self.listeners.drain(..) {
            let _ = self.poll.registry().deregister(&mut SourceFd(&listening.listener.socket.as_raw_fd()));
        }
    }

    fn notify_service_manager(&mut self) {
        let Some(manager) = &mut self.service_manager else {
            return;
        };
        if !self.core.is_running() {
            manager.stopping();
        } else if self.core.has_store() {
            manager.ready();
        }
    }

    /// Records which listeners and sockets are ready. Returns the connections that can be read or written.
    fn take_events(&mut self, events: &Events, now: Now) -> Vec<Key> {
        let mut ready = Vec::new();
        for event in events.iter() {
            match event.token() {
                WAKE => {
                    if self.wake.is_to_stop() {
                        self.core.input(Input::ShutDown, now);
                    }
                }
                SIGNAL => self.take_signals(now),
                Token(at) if at >= LISTEN => {
                    if let Some(listening) = self.listeners.get_mut(at - LISTEN) {
                        listening.backlog = true;
                    }
                }
                Token(packed) => {
                    let key = Key::unpack(packed);
                    if let Some(socket) = self.effects.sockets.get_mut(&key) {
                        socket.readable |= event.is_readable() || event.is_read_closed();
                        socket.writable |= event.is_writable();
                        if event.is_error() || event.is_write_closed() {
                            self.core.input(Input::Broke { conn: key }, now);
                        } else {
                            ready.push(key);
                        }
                    }
                }
            }
        }
        ready
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let accepting =
            self.listeners.iter().any(|listening| listening.backlog) && self.core.has_room(self.clock.now());
        let busy = !self.effects.unfinished.is_empty() || self.core.has_more() || self.effects.jobs.has_more();
        if busy || accepting || self.core.is_over() {
            return Some(Duration::ZERO);
        }
        let linger = self.effects.lingering.front().map(|(at, _)| *at);
        let now_ms = self.clock.now().mono_ms;
        let must_retry = self.service_manager.as_ref().is_some_and(ServiceManager::must_retry);
        let notify = must_retry.then_some(now_ms + notify::RETRY_MS);
        let due = [self.core.deadline(), linger, self.accept_at, self.threads_at, notify];
        let due = due.into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(now_ms)))
    }

    /// Whether the accept queues of all listeners were empty when the last poll returned.
    fn accept_queues_were_empty(&self, events: &Events) -> bool {
        !may_have_listener(events) && !self.listeners.iter().any(|listening| listening.is_unfinished)
    }

    fn accept(&mut self, now: Now) {
        if self.accept_at.take_if(|at| *at <= now.mono_ms).is_some() {
            self.assume_backlogs();
        }
        for at in 0..self.listeners.len() {
            // While this server ends, connections to an inherited socket wait for the next server.
            if self.core.accepts() || !self.listeners[at].listener.is_inherited() {
                self.accept_from(at, now);
            }
        }
    }

    /// Has every listener accept until it is seen to have no connections.
    fn assume_backlogs(&mut self) {
        for listening in &mut self.listeners {
            listening.backlog = true;
        }
    }

    fn accept_from(&mut self, at: usize, now: Now) {
        // Each listener has its own budget, so that many connections to one do not delay those to another.
        let mut budget = self.limits.turn_accepts;
        let accepted = if self.listeners[at].is_unfinished { Accepted::Late } else { Accepted::AtOnce };
        while self.listeners[at].backlog {
            let listening = &mut self.listeners[at];
            if budget == 0 || !self.core.has_room(now) {
                listening.is_unfinished = true;
                // An idle connection may have to be a little older before it is closed for a new one.
                self.accept_at.get_or_insert(now.mono_ms + self.limits.accept_retry_ms);
                return;
            }
            budget -= 1;
            match listening.listener.accept() {
                Ok((stream, address)) => {
                    listening.accepted += 1;
                    if listening.accepted >= self.limits.accept_queue {
                        self.effects.peer_check.accept_queue_was_full();
                    }
                    let from = (address, listening.listener.unix_link(), listening.listener.serves());
                    self.admit(stream, from, accepted, now);
                }
                Err(Errno::AGAIN) => {
                    listening.backlog = false;
                    listening.is_unfinished = false;
                    listening.accepted = 0;
                }
                Err(Errno::INTR) => {}
                // A command of the same user may have lowered the limit; clients must still be able to connect and cancel it.
                Err(Errno::MFILE) if sys::restore_file_limit() => {}
                Err(error) => {
                    // Most likely out of descriptors: the backlog waits until a connection or a file of a worker is closed.
                    self.effects.log.warn(format_args!("could not accept a connection: {error}"));
                    listening.backlog = false;
                    listening.is_unfinished = true;
                    self.accept_at = Some(now.mono_ms + self.limits.accept_retry_ms);
                }
            }
        }
    }

    /// Takes an accepted connection. Only TCP has an address.
    fn admit(
        &mut self,
        stream: OwnedFd,
        (address, unix, serves): (Option<SocketAddr>, Link, Serves),
        accepted: Accepted,
        now: Now,
    ) {
        // Lingering sockets count against the connection limit.
        let effects = &mut self.effects;
        if effects.sockets.len() + effects.lingering.len() >= self.limits.connections {
            effects.lingering.pop_front();
        }
        let (link, (peer, process)): (Link, (Peer, PeerProcess)) = match address {
            Some(_) if serves == Serves::Metrics => (Link::Tcp, (Peer::Stranger, PeerProcess::Stranger)),
            Some(address) => {
                let Some(local) = getsockname(&stream).ok().and_then(|local| SocketAddr::try_from(local).ok()) else {
                    // The connection was reset before it was accepted.
                    return;
                };
                (Link::Tcp, effects.peer_check.tcp(address, local))
            }
            None => (unix, effects.peer_check.unix(&stream, accepted)),
        };
        if !self.core.keeps(peer, now) {
            return;
        }
        // Connections that were closed to make room keep their descriptors until here.
        self.core.close_connections(&mut self.effects, now);
        let _ = sockopt::set_socket_send_buffer_size(&stream, self.limits.socket_send_bytes);
        let address = address.map(|address| address.ip());
        let key = match serves {
            Serves::Everything => self.core.opened_from(address, link, peer, now),
            Serves::Metrics => self.core.opened_for_metrics(address, now),
        };
        if let Err(error) = self.watch(key, stream, process) {
            self.effects.log.warn(format_args!("could not watch a connection: {error}"));
            self.core.input(Input::Broke { conn: key }, now);
        }
    }

    /// Registers the stream of a connection with the poll.
    fn watch(&mut self, key: Key, stream: OwnedFd, process: PeerProcess) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(key.pack()), interest)?;
        let budget = self.limits.turn_bytes;
        let socket = Socket { stream, process, is_unfinished: false, readable: true, writable: true, budget };
        self.effects.sockets.insert(key, socket);
        Ok(())
    }

    /// Opens a connection for a client in this process: messages of the native dialect, one a line.
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        let key = self.core.terminal(self.clock.now());
        self.pair(key)
    }

    /// Opens a connection for an editor: messages of the Agent Client Protocol, one a line.
    pub fn connect_editor(&mut self) -> io::Result<UnixStream> {
        let key = self.core.editor(self.clock.now());
        self.pair(key)
    }

    fn pair(&mut self, key: Key) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.watch(key, ours.into(), PeerProcess::Stranger)?;
        Ok(theirs)
    }

    fn take_requests(&mut self, from: &[Key], scratch: &mut [u8], now: Now) {
        // Counted after accepting, so that new connections do not use up the time of existing ones.
        let end = self.clock.now().mono_ms + self.limits.turn_ms;
        for (at, key) in from.iter().enumerate() {
            if self.clock.now().mono_ms > end {
                from[at..].iter().for_each(|key| self.effects.continue_next_turn(*key));
                return;
            }
            self.read(*key, scratch, now);
        }
    }

    fn read(&mut self, key: Key, scratch: &mut [u8], now: Now) {
        let Some(socket) = self.effects.sockets.get_mut(&key) else {
            return;
        };
        let mut budget = self.limits.turn_bytes;
        loop {
            let room = self.core.room(key).min(scratch.len());
            if !socket.readable || room == 0 {
                return;
            }
            if budget == 0 {
                return self.effects.continue_next_turn(key);
            }
            let most = room.min(budget);
            match rustix::io::read(&socket.stream, &mut scratch[..most]) {
                Ok(0) => {
                    socket.readable = false;
                    self.core.input(Input::Finished { conn: key }, now);
                }
                Ok(n) => {
                    budget -= n;
                    self.core.input(Input::Received { conn: key, bytes: &scratch[..n] }, now);
                }
                Err(Errno::AGAIN) => socket.readable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    socket.readable = false;
                    self.core.input(Input::Broke { conn: key }, now);
                }
            }
        }
    }

    fn take_messages(&mut self, now: Now) {
        let end = self.clock.now().mono_ms + self.limits.turn_ms;
        for _ in 0..self.limits.turn_notes {
            for message in self.effects.jobs.drain(1) {
                match message {
                    WorkerMessage::Input(input) => self.core.input(input, now),
                    WorkerMessage::Identified(answers) => {
                        for (conn, identity) in self.effects.peer_check.answered(answers) {
                            self.core.input(Input::Identified { conn, identity }, now);
                        }
                    }
                    WorkerMessage::Warning(text) => self.effects.log.warn(text),
                }
            }
            if !self.effects.jobs.has_more() || self.clock.now().mono_ms > end {
                return;
            }
        }
    }

    /// Tries again to start threads that the system refused, and tells the core, for `/health`, whether jobs have no thread at all.
    fn check_threads(&mut self, now: Now) {
        if self.threads_at.take_if(|at| *at <= now.mono_ms).is_some() {
            self.effects.jobs.lanes.retry();
        }
        let starved = self.effects.jobs.lanes.starved();
        if starved.is_some() != self.starved {
            self.starved = starved.is_some();
            if let Some(why) = starved {
                self.effects.log.warn(format_args!("no thread can be started: {why}; jobs wait for one"));
            }
            self.core.input(Input::NoThreads(starved.map(str::to_owned)), now);
        }
        if self.effects.jobs.lanes.refused().is_some() {
            self.threads_at.get_or_insert(now.mono_ms + self.limits.thread_retry_ms);
        }
    }

    fn take_signals(&mut self, now: Now) {
        if self.signals.as_ref().is_some_and(Signals::child_ended) {
            self.effects.jobs.reap_adopted();
        }
        let is_reloading = self.signals.as_ref().is_some_and(|signals| signals.hangup == OnHangup::Reload);
        for signal in self.signals.iter_mut().flat_map(Signals::take) {
            if signal == Signal::Hangup && is_reloading {
                self.effects.log.info("SIGHUP: files are opened again");
                self.core.input(Input::Reload, now);
                continue;
            }
            let wait = self.limits.shutdown_ms / 1000;
            self.effects.log.info(format_args!(
                "ending on {}: running turns have {wait} s; another TERM or INT ends at once",
                signal.word()
            ));
            self.signal.get_or_insert(signal);
            self.core.input(Input::ShutDown, now);
        }
    }
}

/// Whether there may be an event of a listener: a poll that fills its buffer leaves further events for the next poll.
fn may_have_listener(events: &Events) -> bool {
    let listener = |token: Token| (LISTEN..SIGNAL.0).contains(&token.0);
    events.iter().count() >= events.capacity() || events.iter().any(|event| listener(event.token()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A tool could hide its connection behind many other events, and end before it is accepted.
    #[test]
    fn a_full_poll_does_not_show_that_the_accept_queues_are_empty() {
        let mut poll = Poll::new().expect("an event queue");
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (listener, other) = (bind(), bind());
        for (socket, token) in [(&other, Token(1)), (&listener, Token(LISTEN))] {
            let registered = poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE);
            registered.expect("registered");
        }
        let connect = |to: &TcpListener| TcpStream::connect(to.local_addr().expect("an address")).expect("connected");
        let _first = connect(&other);
        let _second = connect(&listener);
        let mut events = Events::with_capacity(1);
        poll.poll(&mut events, None).expect("events");
        assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(1)]);
        assert!(may_have_listener(&events), "there was no room for the listener");
        let mut events = Events::with_capacity(2);
        poll.poll(&mut events, None).expect("events");
        assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(LISTEN)]);
        assert!(may_have_listener(&events));
        poll.poll(&mut events, Some(Duration::ZERO)).expect("no events");
        assert!(events.is_empty() && !may_have_listener(&events));
    }
}
