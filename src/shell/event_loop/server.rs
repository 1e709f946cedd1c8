//! The event loop: one thread, one poll. Read `Server::turn` first, then `Core::turn`.
//!
//! Events are written to the journal before they are sent or start jobs. The core decides everything; this file has the
//! order of the steps, `outside.rs` the sockets and the jobs. Readiness is edge-triggered, so a connection that stops on a budget instead of
//! `WouldBlock` is listed in `again` and continued in the next turn.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::connections::connection::{Link, Peer};
use crate::core::disk::store::Store;
use crate::core::{Core, Input};
use crate::limits::Limits;
use crate::shell::event_loop::figures::Reports;
use crate::shell::event_loop::flush::flush;
use crate::shell::event_loop::listen::{Listener, Serves};
use crate::shell::event_loop::notify::{self, ServiceManager};
use crate::shell::event_loop::outside::{Outside, Socket};
use crate::shell::event_loop::signals::{OnHangup, Signal, Signals};
use crate::shell::event_loop::stop::{StopHandle, Wake};
use crate::shell::event_loop::sys::{self, Clock};
use crate::shell::peers::peer_check::{Accepted, Caller, PeerCheck};
use crate::shell::workers::jobs::{Jobs, Mail, WorkerContext};
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
/// The first listener's; those of the others follow.
const LISTEN: usize = usize::MAX - 1_000;

/// Read into and handed on; one for all connections.
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
    /// Jobs have no thread, and the core knows it.
    starved: bool,
    /// The signal that ended the server.
    signal: Option<Signal>,
    service_manager: Option<ServiceManager>,
    outside: Outside,
}

struct Listening {
    listener: Listener,
    /// It may have connections to accept.
    backlog: bool,
    /// Accepting stopped before its backlog was seen to be empty.
    is_left_over: bool,
    /// Connections that were accepted since its backlog was seen to be empty.
    taken: usize,
}

/// Why the server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A [`StopHandle`] stopped it.
    Stopped,
    Signal(Signal),
}

impl Server {
    /// Without `signals` it installs no handlers.
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
        let listening = |listener| Listening { listener, backlog: true, is_left_over: false, taken: 0 };
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
            outside: Outside::new(jobs, peer_check, reports, limits.clone()),
            limits,
        })
    }

    /// Sets the service manager that is told when the server is ready and when it ends.
    pub fn set_service_manager(&mut self, manager: ServiceManager) {
        self.service_manager = Some(manager);
    }

    /// Stops it, from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle::new(&self.wake)
    }

    /// Runs until it is stopped or a signal ends it.
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
        self.core.end(&mut self.outside);
        self.outside.jobs.end();
        self.outside.access_log.end();
        Ok(self.signal.map_or(Ended::Stopped, Ended::Signal))
    }

    fn turn(&mut self, events: &mut Events, scratch: &mut [u8]) -> io::Result<()> {
        // Wait until something happens, or until the nearest deadline.
        let poll_timeout = self.poll_timeout();
        self.outside.peer_check.polls();
        if let Err(error) = self.poll.poll(events, poll_timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        // One time for everything in this turn.
        let (now, began) = (self.clock.now(), self.clock.micros());
        // Everything that happened goes into the core.
        if let Some(delays) = self.outside.delays(now) {
            self.core.input(Input::Delayed(delays), now);
        }
        let mut left = self.outside.take_again();
        if self.accept_queues_were_empty(events) {
            self.outside.peer_check.accept_queues_were_empty();
        }
        let fresh = self.take_events(events, now);
        self.accept(now);
        // The order: one connection left over from the last turn, the new events, the other left-over connections. So a new
        // request waits for at most one left-over connection, and no left-over connection waits forever.
        let others = left.split_off(left.len().min(1));
        let work = [left, fresh, others].concat();
        self.take_requests(&work, scratch, now);
        self.take_mail(now);
        for conn in &work {
            self.core.input(Input::Writable { conn: *conn }, now);
        }
        // What follows from it: timers, appends, frames and jobs, writes, closed connections.
        self.core.turn(self.store.as_mut(), &mut self.outside, now);
        self.outside.end_turn(now);
        self.look_after_threads(now);
        for key in std::mem::take(&mut self.outside.written).into_iter().chain(work) {
            let room = self.core.room(key);
            self.outside.after_write(key, room, self.limits.turn_bytes);
        }
        if !self.core.accepts() {
            self.close_listeners();
        }
        self.notify_service_manager();
        if std::mem::take(&mut self.outside.closed) {
            self.look_at_listeners();
        }
        self.outside.stopwatch.turn(self.clock.micros() - began);
        Ok(())
    }

    /// Whoever connects from now on is refused by the system, and tries elsewhere. An inherited socket stays open in the service manager,
    /// and connections to it wait for the next server.
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

    /// Notes what the events say about listeners and sockets. Returns the connections that can be read or written.
    fn take_events(&mut self, events: &Events, now: Now) -> Vec<Key> {
        let mut fresh = Vec::new();
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
                    if let Some(socket) = self.outside.sockets.get_mut(&key) {
                        socket.readable |= event.is_readable() || event.is_read_closed();
                        socket.writable |= event.is_writable();
                        if event.is_error() || event.is_write_closed() {
                            self.core.input(Input::Broke { conn: key }, now);
                        } else {
                            fresh.push(key);
                        }
                    }
                }
            }
        }
        fresh
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let accepting =
            self.listeners.iter().any(|listening| listening.backlog) && self.core.has_room(self.clock.now());
        let busy = !self.outside.again.is_empty() || self.core.has_more() || self.outside.jobs.has_more();
        if busy || accepting || self.core.is_over() {
            return Some(Duration::ZERO);
        }
        let linger = self.outside.lingering.front().map(|(at, _)| *at);
        let now_ms = self.clock.now().mono_ms;
        let must_retry = self.service_manager.as_ref().is_some_and(ServiceManager::must_retry);
        let notify = must_retry.then_some(now_ms + notify::RETRY_MS);
        let due = [self.core.deadline(), linger, self.accept_at, self.threads_at, notify];
        let due = due.into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(now_ms)))
    }

    /// Whether the accept queues of all listeners were empty when the last poll returned.
    fn accept_queues_were_empty(&self, events: &Events) -> bool {
        !may_have_listener(events) && !self.listeners.iter().any(|listening| listening.is_left_over)
    }

    fn accept(&mut self, now: Now) {
        if self.accept_at.take_if(|at| *at <= now.mono_ms).is_some() {
            self.look_at_listeners();
        }
        for at in 0..self.listeners.len() {
            // The next server answers those that wait at an inherited socket.
            if self.core.accepts() || !self.listeners[at].listener.is_inherited() {
                self.accept_from(at, now);
            }
        }
    }

    fn look_at_listeners(&mut self) {
        for listening in &mut self.listeners {
            listening.backlog = true;
        }
    }

    fn accept_from(&mut self, at: usize, now: Now) {
        // Each listener has its own budget, so that many connections to one do not delay those to another.
        let mut budget = self.limits.turn_accepts;
        let accepted = if self.listeners[at].is_left_over { Accepted::Late } else { Accepted::AtOnce };
        while self.listeners[at].backlog {
            let listening = &mut self.listeners[at];
            if budget == 0 || !self.core.has_room(now) {
                listening.is_left_over = true;
                // An idle connection may have to be a little older before it is closed for a new one.
                self.accept_at.get_or_insert(now.mono_ms + self.limits.accept_retry_ms);
                return;
            }
            budget -= 1;
            match listening.listener.accept() {
                Ok((stream, address)) => {
                    listening.taken += 1;
                    if listening.taken >= self.limits.accept_queue {
                        self.outside.peer_check.accept_queue_was_full();
                    }
                    let from = (address, listening.listener.unix_link(), listening.listener.serves());
                    self.welcome(stream, from, accepted, now);
                }
                Err(Errno::AGAIN) => {
                    listening.backlog = false;
                    listening.is_left_over = false;
                    listening.taken = 0;
                }
                Err(Errno::INTR) => {}
                // A command of the same user may have lowered the limit; clients must still be able to connect and cancel it.
                Err(Errno::MFILE) if sys::restore_file_limit() => {}
                Err(error) => {
                    // Most likely out of descriptors: the backlog waits until a connection or a file of a worker is closed.
                    self.outside.log.warn(format_args!("could not accept a connection: {error}"));
                    listening.backlog = false;
                    listening.is_left_over = true;
                    self.accept_at = Some(now.mono_ms + self.limits.accept_retry_ms);
                }
            }
        }
    }

    /// Takes an accepted connection. Only TCP has an address.
    fn welcome(
        &mut self,
        stream: OwnedFd,
        (address, unix, serves): (Option<SocketAddr>, Link, Serves),
        accepted: Accepted,
        now: Now,
    ) {
        // Lingering sockets count against the connection limit.
        let outside = &mut self.outside;
        if outside.sockets.len() + outside.lingering.len() >= self.limits.connections {
            outside.lingering.pop_front();
        }
        let (link, (peer, caller)): (Link, (Peer, Caller)) = match address {
            Some(_) if serves == Serves::Metrics => (Link::Tcp, (Peer::Stranger, Caller::Nobody)),
            Some(address) => {
                let Some(local) = getsockname(&stream).ok().and_then(|local| SocketAddr::try_from(local).ok()) else {
                    // It broke before we got to it.
                    return;
                };
                (Link::Tcp, outside.peer_check.tcp(address, local))
            }
            None => (unix, outside.peer_check.unix(&stream, accepted)),
        };
        if !self.core.keeps(peer, now) {
            return;
        }
        // Connections that were closed to make room keep their descriptors until here.
        self.core.close_connections(&mut self.outside, now);
        let _ = sockopt::set_socket_send_buffer_size(&stream, self.limits.socket_send_bytes);
        let address = address.map(|address| address.ip());
        let key = match serves {
            Serves::Everything => self.core.opened_from(address, link, peer, now),
            Serves::Metrics => self.core.opened_for_metrics(address, now),
        };
        if let Err(error) = self.watch(key, stream, caller) {
            self.outside.log.warn(format_args!("could not watch a connection: {error}"));
            self.core.input(Input::Broke { conn: key }, now);
        }
    }

    /// Polls the stream of a connection.
    fn watch(&mut self, key: Key, stream: OwnedFd, caller: Caller) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(key.pack()), interest)?;
        let budget = self.limits.turn_bytes;
        let socket = Socket { stream, caller, again: false, readable: true, writable: true, budget };
        self.outside.sockets.insert(key, socket);
        Ok(())
    }

    /// A connection for a client in this process: messages of the native dialect, one a line.
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        let key = self.core.terminal(self.clock.now());
        self.pair(key)
    }

    /// The same for an editor: messages of the Agent Client Protocol, one a line.
    pub fn connect_editor(&mut self) -> io::Result<UnixStream> {
        let key = self.core.editor(self.clock.now());
        self.pair(key)
    }

    fn pair(&mut self, key: Key) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.watch(key, ours.into(), Caller::Nobody)?;
        Ok(theirs)
    }

    fn take_requests(&mut self, from: &[Key], scratch: &mut [u8], now: Now) {
        // Counted after accepting, so that new connections do not use up the time of existing ones.
        let end = self.clock.now().mono_ms + self.limits.turn_ms;
        for (at, key) in from.iter().enumerate() {
            if self.clock.now().mono_ms > end {
                from[at..].iter().for_each(|key| self.outside.continue_next_turn(*key));
                return;
            }
            self.read(*key, scratch, now);
        }
    }

    fn read(&mut self, key: Key, scratch: &mut [u8], now: Now) {
        let Some(socket) = self.outside.sockets.get_mut(&key) else {
            return;
        };
        let mut budget = self.limits.turn_bytes;
        loop {
            let room = self.core.room(key).min(scratch.len());
            if !socket.readable || room == 0 {
                return;
            }
            if budget == 0 {
                return self.outside.continue_next_turn(key);
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

    fn take_mail(&mut self, now: Now) {
        let end = self.clock.now().mono_ms + self.limits.turn_ms;
        for _ in 0..self.limits.turn_notes {
            for piece in self.outside.jobs.drain(1) {
                match piece {
                    Mail::Input(input) => self.core.input(input, now),
                    Mail::Identified(answers) => {
                        for (conn, identity) in self.outside.peer_check.answered(answers) {
                            self.core.input(Input::Identified { conn, identity }, now);
                        }
                    }
                    Mail::Warning(text) => self.outside.log.warn(text),
                }
            }
            if !self.outside.jobs.has_more() || self.clock.now().mono_ms > end {
                return;
            }
        }
    }

    /// Jobs that no thread could be started for wait, and `/health` says so.
    fn look_after_threads(&mut self, now: Now) {
        if self.threads_at.take_if(|at| *at <= now.mono_ms).is_some() {
            self.outside.jobs.lanes.retry();
        }
        let starved = self.outside.jobs.lanes.starved();
        if starved.is_some() != self.starved {
            self.starved = starved.is_some();
            if let Some(why) = starved {
                self.outside.log.warn(format_args!("no thread can be started: {why}; jobs wait for one"));
            }
            self.core.input(Input::Starved(starved.map(str::to_owned)), now);
        }
        if self.outside.jobs.lanes.refused().is_some() {
            self.threads_at.get_or_insert(now.mono_ms + self.limits.thread_retry_ms);
        }
    }

    fn take_signals(&mut self, now: Now) {
        if self.signals.as_ref().is_some_and(Signals::child_ended) {
            self.outside.jobs.reap_adopted();
        }
        let is_reloading = self.signals.as_ref().is_some_and(|signals| signals.hangup == OnHangup::Reload);
        for signal in self.signals.iter_mut().flat_map(Signals::take) {
            if signal == Signal::Hangup && is_reloading {
                self.outside.log.info("SIGHUP: files are opened again");
                self.core.input(Input::Reload, now);
                continue;
            }
            let wait = self.limits.shutdown_ms / 1000;
            self.outside.log.info(format_args!(
                "ending on {}: running turns have {wait} s; another TERM or INT ends at once",
                signal.word()
            ));
            self.signal.get_or_insert(signal);
            self.core.input(Input::ShutDown, now);
        }
    }
}

/// Whether a listener is among the events, or may have been left out: a poll that fills its buffer leaves the rest for the next one.
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
