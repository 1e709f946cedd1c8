//! The event loop. One thread, one poll, eight steps; read `Server::turn` first.
//!
//! Events are written to the journal (5) before they are sent or start jobs (6, 7). The core decides everything; this file has the
//! sockets, the jobs and the order of the steps. Readiness is edge-triggered, so a connection that stops on a budget instead of
//! `WouldBlock` is listed in `again` and continued in the next turn.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::connections::connection::{Link, Peer};
use crate::core::disk::store::Store;
use crate::core::{Close, Core, Input, Out, Shell, Written};
use crate::limits::Limits;
use crate::shell::event_loop::listen::{Listener, Remote, Stream};
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::signals::{Signal, Signals};
use crate::shell::event_loop::stop::Wake;
use crate::shell::event_loop::sys::{self, Clock};
use crate::shell::peers::peer_check::{Accepted, Caller, PeerCheck};
use crate::shell::workers::jobs::{Jobs, Mail};
use crate::shell::workers::lanes::Left;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

pub const WAKE: Token = Token(usize::MAX);
const SIGNAL: Token = Token(usize::MAX - 1);
/// The first listener's; those of the others follow.
const LISTEN: usize = usize::MAX - 1_000;

/// Read into and handed on; one for all connections.
const SCRATCH: usize = 64 * 1024;
/// A refused peer may still be sending. It has this long to read the response before the connection is reset.
const LINGER_MS: u64 = 1_000;
const MOST_LINGERING: usize = 1_024;

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
    /// The signal that ended the server.
    signal: Option<Signal>,
    outside: Outside,
}

/// Everything that the core has effects on.
struct Outside {
    jobs: Jobs,
    peer_check: PeerCheck,
    log: Log,
    sockets: HashMap<Key, Socket>,
    /// Connections to continue with although no event will say so.
    again: Vec<Key>,
    lingering: VecDeque<(u64, Stream)>,
    /// A connection was closed, so there may be room for another one.
    closed: bool,
    /// Connections that were written to in this turn.
    written: Vec<Key>,
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

struct Socket {
    stream: Stream,
    caller: Caller,
    /// It is in `again`, which names each connection once.
    again: bool,
    /// Reading, and writing, has not met `WouldBlock` since the last event.
    readable: bool,
    writable: bool,
    /// How many bytes may still be written in this turn.
    budget: usize,
}

/// Why the server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A [`StopHandle`](crate::shell::event_loop::stop::StopHandle) stopped it.
    Stopped,
    Signal(Signal),
}

/// What the server is made from.
pub struct Parts {
    pub poll: Poll,
    pub listeners: Vec<Listener>,
    /// None if signals are none of its business.
    pub signals: Option<Signals>,
    pub wake: Arc<Wake>,
    pub clock: Clock,
    pub core: Core,
    pub store: Box<dyn Store>,
    pub jobs: Jobs,
    pub peer_check: PeerCheck,
    pub limits: Limits,
    pub log: Log,
}

impl Server {
    pub fn new(mut parts: Parts) -> io::Result<Server> {
        let registry = parts.poll.registry();
        let mut listeners = Vec::new();
        for (at, mut listener) in parts.listeners.into_iter().enumerate() {
            listener.register(registry, Token(LISTEN + at))?;
            listeners.push(Listening { listener, backlog: true, is_left_over: false, taken: 0 });
        }
        if let Some(signals) = &mut parts.signals {
            registry.register(signals, SIGNAL, Interest::READABLE)?;
        }
        Ok(Server {
            poll: parts.poll,
            listeners,
            signals: parts.signals,
            wake: parts.wake,
            clock: parts.clock,
            core: parts.core,
            store: parts.store,
            accept_at: None,
            signal: None,
            outside: Outside {
                jobs: parts.jobs,
                peer_check: parts.peer_check,
                log: parts.log,
                sockets: HashMap::new(),
                again: Vec::new(),
                lingering: VecDeque::new(),
                closed: false,
                written: Vec::new(),
            },
            limits: parts.limits,
        })
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
        self.outside.jobs.end();
        Ok(self.signal.map_or(Ended::Stopped, Ended::Signal))
    }

    fn turn(&mut self, events: &mut Events, scratch: &mut [u8]) -> io::Result<()> {
        // 1: wait until something happens, or until the nearest deadline.
        let poll_timeout = self.poll_timeout();
        self.outside.peer_check.polls();
        if let Err(error) = self.poll.poll(events, poll_timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        // 2: one time for everything in this turn.
        let now = self.clock.now();
        // 3: everything that happened goes into the core.
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
        let mail = self.take_mail(now);
        for conn in &work {
            self.core.input(Input::Writable { conn: *conn }, now);
        }
        // 4 to 8: what follows from it.
        self.core.turn(self.store.as_mut(), &mut self.outside, now);
        self.outside.end_turn(now);
        for key in std::mem::take(&mut self.outside.written).into_iter().chain(work) {
            let room = self.core.room(key);
            self.outside.after_write(key, room, self.limits.turn_bytes);
        }
        if std::mem::take(&mut self.outside.closed) {
            self.look_at_listeners();
        }
        if mail == Left::Mail {
            self.outside.jobs.more();
        }
        Ok(())
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
        let accepting = self.listeners.iter().any(|listening| listening.backlog) && self.core.has_room();
        let busy = !self.outside.again.is_empty() || self.core.has_more() || self.outside.jobs.has_more();
        if busy || accepting || self.core.is_over() {
            return Some(Duration::ZERO);
        }
        let linger = self.outside.lingering.front().map(|(at, _)| *at);
        let due = [self.core.deadline(), linger, self.accept_at];
        let due = due.into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(self.clock.now().mono_ms)))
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
            self.accept_from(at, now);
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
            if budget == 0 || !self.core.has_room() {
                listening.is_left_over = true;
                return;
            }
            budget -= 1;
            match listening.listener.accept() {
                Ok((stream, remote)) => {
                    listening.taken += 1;
                    if listening.taken >= self.limits.accept_queue {
                        self.outside.peer_check.accept_queue_was_full();
                    }
                    self.welcome(stream, remote, accepted, now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    listening.backlog = false;
                    listening.is_left_over = false;
                    listening.taken = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A command of the same user may have lowered the limit; clients must still be able to connect and cancel it.
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) && sys::restore_file_limit() => {}
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

    fn welcome(&mut self, mut stream: Stream, remote: Remote, accepted: Accepted, now: Now) {
        // Lingering sockets count against the connection limit.
        let outside = &mut self.outside;
        if outside.sockets.len() + outside.lingering.len() >= self.limits.connections {
            outside.lingering.pop_front();
        }
        let (link, (peer, caller)): (Link, (Peer, Caller)) = match remote {
            Remote::Tcp(address) => {
                let Ok(local) = stream.local_addr() else {
                    // It broke before we got to it.
                    return;
                };
                (Link::Tcp, outside.peer_check.tcp(address, local))
            }
            Remote::Unix => (Link::Unix, outside.peer_check.unix(&stream, accepted)),
        };
        if !self.core.keeps(peer, now) {
            return;
        }
        // Connections that were closed for this one have files open until now.
        self.core.close_connections(&mut self.outside, now);
        let _ = sockopt::set_socket_send_buffer_size(&stream, self.limits.socket_send_bytes);
        let key = self.core.opened_over(link, peer, now);
        match stream.register(self.poll.registry(), Token(key.pack())) {
            Ok(()) => {
                let budget = self.limits.turn_bytes;
                let socket = Socket { stream, caller, again: false, readable: true, writable: true, budget };
                self.outside.sockets.insert(key, socket);
            }
            Err(error) => {
                self.outside.log.warn(format_args!("could not watch a connection: {error}"));
                self.core.input(Input::Broke { conn: key }, now);
            }
        }
    }

    fn take_requests(&mut self, from: &[Key], scratch: &mut [u8], now: Now) {
        // Counted from here: many newcomers must not leave those who are here without their share.
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
            match socket.stream.read(&mut scratch[..most]) {
                Ok(0) => {
                    socket.readable = false;
                    self.core.input(Input::Finished { conn: key }, now);
                }
                Ok(n) => {
                    budget -= n;
                    self.core.input(Input::Received { conn: key, bytes: &scratch[..n] }, now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    socket.readable = false;
                    self.core.input(Input::Broke { conn: key }, now);
                }
            }
        }
    }

    fn take_mail(&mut self, now: Now) -> Left {
        let mut mail = Vec::new();
        let left = self.outside.jobs.drain(self.limits.turn_notes, &mut mail);
        for piece in mail {
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
        left
    }

    fn take_signals(&mut self, now: Now) {
        for signal in self.signals.iter_mut().flat_map(Signals::take) {
            let wait = self.limits.shutdown_ms / 1000;
            self.outside.log.info(format_args!(
                "ending on {}: what runs has {wait} s, the next signal does not wait",
                signal.name()
            ));
            self.signal.get_or_insert(signal);
            self.core.input(Input::ShutDown, now);
        }
    }
}

impl Shell for Outside {
    fn start(&mut self, out: Out) {
        match out {
            Out::Start(job) => self.jobs.start(job),
            Out::Stop(job) => self.jobs.stop(&job),
            Out::Store(request) => self.jobs.ask_store(request),
            Out::Tidy(maintenance) => self.jobs.tidy(maintenance),
            Out::Resolve { request, path } => self.jobs.resolve(request, path),
            Out::Blob(request) => self.jobs.blob(request),
            Out::Compute(computation) => self.jobs.compute(computation),
            Out::Identify { conn } => {
                if let Some(socket) = self.sockets.get(&conn) {
                    self.peer_check.ask(conn, socket.caller);
                }
            }
            Out::Over { task } => self.jobs.forget(&task),
            Out::SaveRule { rule } => self.jobs.save(rule),
            Out::Deliver(delivery) => self.jobs.deliver(delivery),
            Out::LogError { text } => self.log.error(text),
            Out::LogWarning { text } => self.log.warn(text),
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
            match socket.stream.write_vectored(slices) {
                Ok(0) => return Written::Broke,
                Ok(n) => {
                    socket.budget = socket.budget.saturating_sub(n);
                    self.written.push(conn);
                    return Written::Bytes(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Broke,
            }
        }
    }

    fn close(&mut self, conn: Key, how: Close, now: Now) {
        let Some(socket) = self.sockets.remove(&conn) else {
            return;
        };
        self.closed = true;
        if how == Close::Reset {
            // With this option closing the socket resets the connection.
            let _ = sockopt::set_socket_linger(&socket.stream, Some(Duration::ZERO));
        } else if socket.readable && self.lingering.len() < MOST_LINGERING {
            let _ = socket.stream.shutdown(Shutdown::Write);
            self.lingering.push_back((now.mono_ms + LINGER_MS, socket.stream));
        }
    }
}

impl Outside {
    /// Lists a connection for which no event will come.
    fn continue_next_turn(&mut self, key: Key) {
        if let Some(socket) = self.sockets.get_mut(&key)
            && !socket.again
        {
            socket.again = true;
            self.again.push(key);
        }
    }

    fn take_again(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.again);
        for key in &keys {
            if let Some(socket) = self.sockets.get_mut(key) {
                socket.again = false;
            }
        }
        keys
    }

    /// If a response was written, further requests of the peer may be read in the next turn.
    fn after_write(&mut self, key: Key, room: usize, budget: usize) {
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.budget = budget;
            if room > 0 && socket.readable {
                self.continue_next_turn(key);
            }
        }
    }

    fn end_turn(&mut self, now: Now) {
        if let Some(inquiry) = self.peer_check.inquiry() {
            self.jobs.identify(inquiry);
        }
        while self.lingering.front().is_some_and(|(at, _)| *at <= now.mono_ms) {
            self.lingering.pop_front();
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
    use mio::net::{TcpListener, TcpStream};

    /// A tool could hide its connection behind many other events, and end before it is accepted.
    #[test]
    fn a_full_poll_does_not_show_that_the_accept_queues_are_empty() {
        let mut poll = Poll::new().expect("an event queue");
        let bind = || TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let (mut listener, mut other) = (bind(), bind());
        let registry = poll.registry();
        registry.register(&mut other, Token(1), Interest::READABLE).expect("registered");
        registry.register(&mut listener, Token(LISTEN), Interest::READABLE).expect("registered");
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
