//! The loop. One thread, one poll, eight steps; read `Server::turn` first.
//!
//! The order is the promise: what clients see and what workers start (6, 7) comes after the journal is written (5). All
//! decisions are the core's; here are only sockets, jobs and the order of things. Readiness is edge-triggered, so whatever
//! stops on a budget instead of `WouldBlock` is remembered in `again` and gone on with in the next turn.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::conn::Peer;
use crate::core::store::Store;
use crate::core::{Core, Out};
use crate::limits::Limits;
use crate::shell::jobs::{Jobs, Mail};
use crate::shell::lanes::Left;
use crate::shell::log::Log;
use crate::shell::peer::{self, Children, Peers};
use crate::shell::signals::{Signal, Signals};
use crate::shell::sys::Clock;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

pub const WAKE: Token = Token(usize::MAX);
const LISTEN: Token = Token(usize::MAX - 1);
const SIGNAL: Token = Token(usize::MAX - 2);

/// Read into and handed on; one for all connections.
const SCRATCH: usize = 64 * 1024;
/// A refused peer may still be sending. It is given this long to read why, so that it sees an answer and not a reset.
const LINGER_MS: u64 = 1_000;
const MOST_LINGERING: usize = 1_024;

pub struct Server {
    poll: Poll,
    listener: TcpListener,
    signals: Signals,
    clock: Clock,
    core: Core,
    store: Box<dyn Store>,
    jobs: Jobs,
    peers: Peers,
    limits: Limits,
    log: Log,
    sockets: HashMap<Key, Socket>,
    /// Connections to go on with although no event will say so.
    again: Vec<Key>,
    /// The listener has more to accept; or may have, from this time on.
    backlog: bool,
    accept_at: Option<u64>,
    lingering: VecDeque<(u64, TcpStream)>,
    /// What ended us.
    signal: Option<Signal>,
}

struct Socket {
    stream: TcpStream,
    /// It is in the list of those to go on with, which names each once.
    again: bool,
    /// Reading, and writing, has not met `WouldBlock` since the last event.
    readable: bool,
    writable: bool,
}

/// What the server is made from.
pub struct Parts {
    pub poll: Poll,
    pub listener: TcpListener,
    pub signals: Signals,
    pub clock: Clock,
    pub core: Core,
    pub store: Box<dyn Store>,
    pub jobs: Jobs,
    pub limits: Limits,
    pub log: Log,
}

impl Server {
    pub fn new(mut parts: Parts) -> io::Result<Server> {
        let registry = parts.poll.registry();
        registry.register(&mut parts.listener, LISTEN, Interest::READABLE)?;
        registry.register(&mut parts.signals, SIGNAL, Interest::READABLE)?;
        Ok(Server {
            poll: parts.poll,
            listener: parts.listener,
            signals: parts.signals,
            clock: parts.clock,
            core: parts.core,
            store: parts.store,
            jobs: parts.jobs,
            peers: Peers::new(),
            limits: parts.limits,
            log: parts.log,
            sockets: HashMap::new(),
            again: Vec::new(),
            backlog: true,
            accept_at: None,
            lingering: VecDeque::new(),
            signal: None,
        })
    }

    /// Runs until a signal ends it; gives the exit status.
    pub fn run(mut self) -> io::Result<u8> {
        self.core.remember(self.store.as_mut());
        let mut events = Events::with_capacity(1024);
        let mut scratch = vec![0; SCRATCH];
        while !self.core.is_over() {
            self.turn(&mut events, &mut scratch)?;
        }
        self.turn(&mut events, &mut scratch)?;
        self.jobs.end();
        // A server that was asked to end and did has succeeded; one that was interrupted says so.
        Ok(match self.signal {
            Some(Signal::Interrupt) => 130,
            Some(Signal::Terminate | Signal::Hangup) | None => 0,
        })
    }

    fn turn(&mut self, events: &mut Events, scratch: &mut [u8]) -> io::Result<()> {
        // 1: wait until something happens, or until the nearest deadline.
        let patience = self.patience();
        if let Err(error) = self.poll.poll(events, patience)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        // 2: one time for everything in this turn.
        let now = self.clock.now();
        // 3: everything that happened goes into the core.
        let mut left = self.take_again();
        let mut fresh = Vec::new();
        for event in events.iter() {
            match event.token() {
                LISTEN => self.backlog = true,
                WAKE => {}
                SIGNAL => self.take_signals(now),
                Token(packed) => {
                    let key = Key::unpack(packed);
                    if let Some(socket) = self.sockets.get_mut(&key) {
                        socket.readable |= event.is_readable() || event.is_read_closed();
                        socket.writable |= event.is_writable();
                        if event.is_error() || event.is_write_closed() {
                            self.core.broke(key);
                        } else {
                            fresh.push(key);
                        }
                    }
                }
            }
        }
        self.accept(now);
        // Who was left over from the last turn comes behind those who have just come, but one in each turn does not: a light
        // request waits for one heavy one at most, and nobody for ever.
        let others = left.split_off(left.len().min(1));
        let work = [left, fresh, others].concat();
        self.take_requests(&work, scratch, now);
        let mail = self.take_mail(now);
        // 4: what is due.
        self.core.tick(now);
        // 5: what was decided goes to disk …
        self.core.append(self.store.as_mut(), now);
        if let Some(chore) = self.store.chore() {
            self.jobs.tidy(chore);
        }
        // 6: … and what is there is shown and started.
        self.core.release(now);
        self.perform();
        // 7: out to the sockets.
        let mut writable = self.core.writable();
        writable.extend(work);
        for key in writable {
            self.write(key, now);
        }
        // 8: goodbyes.
        self.close(now);
        if mail == Left::Mail {
            self.jobs.more();
        }
        Ok(())
    }

    fn patience(&self) -> Option<Duration> {
        let accepting = self.backlog && self.core.has_room();
        let busy = !self.again.is_empty() || self.core.has_more() || self.jobs.has_more();
        if busy || accepting || self.core.is_over() {
            return Some(Duration::ZERO);
        }
        let linger = self.lingering.front().map(|(at, _)| *at);
        let due = [self.core.deadline(), linger, self.accept_at];
        let due = due.into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(self.clock.now().mono_ms)))
    }

    fn accept(&mut self, now: Now) {
        if self.accept_at.take_if(|at| *at <= now.mono_ms).is_some() {
            self.backlog = true;
        }
        let mut budget = self.limits.turn_accepts;
        while self.backlog && budget > 0 && self.core.has_room() {
            budget -= 1;
            match self.listener.accept() {
                Ok((stream, address)) => self.welcome(stream, address, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.backlog = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors, most likely: the backlog waits until a connection has gone, or a worker's file.
                    self.log.warn(format_args!("could not accept a connection: {error}"));
                    self.backlog = false;
                    self.accept_at = Some(now.mono_ms + self.limits.accept_retry_ms);
                }
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, address: std::net::SocketAddr, now: Now) {
        // Those who linger have files open too, which are among those that connections may have.
        if self.sockets.len() + self.lingering.len() >= self.limits.connections {
            self.lingering.pop_front();
        }
        let children = match self.jobs.marker() {
            Some(marker) => Children::Running { marker },
            None => Children::None,
        };
        let local = stream.local_addr();
        let peer = match local.map(|local| self.peers.of(address, local, children)) {
            Ok(peer::Peer::SameUser) => Peer::SameUser,
            Ok(peer::Peer::OwnChild) => Peer::OwnChild,
            Ok(peer::Peer::Other { .. } | peer::Peer::Unknown) | Err(_) => Peer::Stranger,
        };
        let _ = stream.set_nodelay(true);
        let key = self.core.opened(peer, now);
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self.poll.registry().register(&mut stream, Token(key.pack()), interest) {
            Ok(()) => {
                let socket = Socket { stream, again: false, readable: true, writable: true };
                self.sockets.insert(key, socket);
            }
            Err(error) => {
                self.log.warn(format_args!("could not watch a connection: {error}"));
                self.core.broke(key);
            }
        }
    }

    fn take_requests(&mut self, from: &[Key], scratch: &mut [u8], now: Now) {
        // Counted from here: many newcomers must not leave those who are here without their share.
        let end = self.clock.now().mono_ms + self.limits.turn_ms;
        for (at, key) in from.iter().enumerate() {
            if self.clock.now().mono_ms > end {
                from[at..].iter().for_each(|key| self.go_on(*key));
                return;
            }
            self.read(*key, scratch, now);
        }
    }

    /// Remembers a connection that no event will come for.
    fn go_on(&mut self, key: Key) {
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

    fn read(&mut self, key: Key, scratch: &mut [u8], now: Now) {
        let Some(socket) = self.sockets.get_mut(&key) else {
            return;
        };
        let mut budget = self.limits.turn_bytes;
        loop {
            let room = self.core.room(key).min(scratch.len());
            if !socket.readable || room == 0 {
                return;
            }
            if budget == 0 {
                return self.go_on(key);
            }
            let most = room.min(budget);
            match socket.stream.read(&mut scratch[..most]) {
                Ok(0) => {
                    socket.readable = false;
                    self.core.finished(key, now);
                }
                Ok(n) => {
                    budget -= n;
                    self.core.received(key, &scratch[..n], now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    socket.readable = false;
                    self.core.broke(key);
                }
            }
        }
    }

    fn take_mail(&mut self, now: Now) -> Left {
        let mut mail = Vec::new();
        let left = self.jobs.drain(self.limits.turn_notes, &mut mail);
        for piece in mail {
            match piece {
                Mail::Trouble(text) => self.log.warn(text),
                Mail::Note(note) => self.core.note(note, now),
                Mail::Synced { task, upto, result } => self.core.synced(&task, upto, result, now),
                Mail::Paged { sub, page } => self.core.paged(sub, page, now),
                Mail::Delivered { task, hook, seq, result } => self.core.delivered(&task, &hook, seq, result, now),
                Mail::Loaded { task, result } => self.core.loaded(&task, result.map(|l| *l), now),
            }
        }
        left
    }

    fn perform(&mut self) {
        for out in self.core.outs() {
            match out {
                Out::Start(job) => self.jobs.start(job),
                Out::Stop(job) => self.jobs.stop(&job),
                Out::Sync { task, upto } => self.jobs.sync(self.store.as_mut(), task, upto),
                Out::Page { task, sub, offset } => {
                    self.jobs.page(self.store.as_mut(), &task, sub, offset);
                }
                Out::Over { task } => self.jobs.forget(&task),
                Out::Load { task } => self.jobs.load(self.store.as_mut(), task),
                Out::SaveRule { rule } => self.jobs.save(rule),
                Out::Deliver(delivery) => self.jobs.deliver(delivery),
                Out::Trouble { text } => self.log.error(text),
                Out::Notice { text } => self.log.warn(text),
            }
        }
    }

    fn write(&mut self, key: Key, now: Now) {
        let Some(socket) = self.sockets.get_mut(&key) else {
            return;
        };
        let mut budget = self.limits.turn_bytes;
        loop {
            let slices = self.core.slices(key);
            if slices.is_empty() {
                break;
            }
            if !socket.writable {
                return;
            }
            if budget == 0 {
                return self.go_on(key);
            }
            match socket.stream.write_vectored(&slices) {
                Ok(0) => return self.core.broke(key),
                Ok(n) => {
                    budget = budget.saturating_sub(n);
                    self.core.sent(key, n, now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.core.broke(key),
            }
        }
        // The answer is out: what the peer sent behind its request may be read now.
        if socket.readable && self.core.room(key) > 0 {
            self.go_on(key);
        }
    }

    fn close(&mut self, now: Now) {
        for key in self.core.closing() {
            let Some(socket) = self.sockets.remove(&key) else {
                continue;
            };
            self.backlog = true;
            if socket.readable && self.lingering.len() < MOST_LINGERING {
                let _ = socket.stream.shutdown(Shutdown::Write);
                self.lingering.push_back((now.mono_ms + LINGER_MS, socket.stream));
            }
        }
        while self.lingering.front().is_some_and(|(at, _)| *at <= now.mono_ms) {
            self.lingering.pop_front();
        }
    }

    fn take_signals(&mut self, now: Now) {
        for signal in self.signals.take() {
            let wait = self.limits.shutdown_ms / 1000;
            self.log.info(format_args!(
                "ending on {}: what runs has {wait} s, the next signal does not wait",
                signal.name()
            ));
            self.signal.get_or_insert(signal);
            self.core.shut_down(now);
        }
    }
}
