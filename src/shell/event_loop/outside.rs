//! What the core has effects on: sockets, jobs, and the log.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::{Close, Input, Out, Shell, Written};
use crate::limits::Limits;
use crate::shell::event_loop::log::Log;
use crate::shell::peers::peer_check::{Answers, Caller, PeerCheck};
use crate::shell::workers::jobs::{Jobs, Mail};
use crate::shell::workers::lanes::Lane;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Everything that the core has effects on.
pub(super) struct Outside {
    pub jobs: Jobs,
    pub peer_check: PeerCheck,
    pub log: Log,
    pub sockets: HashMap<Key, Socket>,
    /// Connections to continue with although no event will say so.
    pub again: Vec<Key>,
    pub lingering: VecDeque<(u64, OwnedFd)>,
    limits: Limits,
    /// A connection was closed, so there may be room for another one.
    pub closed: bool,
    /// Connections that were written to in this turn.
    pub written: Vec<Key>,
}

pub(super) struct Socket {
    pub stream: OwnedFd,
    pub caller: Caller,
    /// It is in `again`, which names each connection once.
    pub again: bool,
    /// Reading, and writing, has not met `WouldBlock` since the last event.
    pub readable: bool,
    pub writable: bool,
    /// How many bytes may still be written in this turn.
    pub budget: usize,
}

impl Shell for Outside {
    fn start(&mut self, out: Out) {
        match out {
            Out::Start(job) => self.jobs.start(job),
            Out::Stop(job) => self.jobs.stop(&job),
            Out::Store(request) => {
                let failed = request.clone();
                self.jobs.ask(
                    Lane::Disk,
                    move |context| Mail::Input(request.run(&*context.archive)),
                    move |error| Mail::Input(failed.failed(error)),
                );
            }
            Out::Tidy(maintenance) => self.jobs.tidy(maintenance),
            Out::Resolve { request, path } => self.jobs.ask(
                Lane::Disk,
                move |context| Mail::Input(Input::Resolved { request, site: context.resolve(&path) }),
                move |error| Mail::Input(Input::Resolved { request, site: Err(error.message) }),
            ),
            Out::Blob(request) => {
                let asked = request.clone();
                self.jobs.ask(
                    Lane::Disk,
                    move |context| {
                        let read =
                            context.blobs.read(&request.sha256, request.from, context.settings.limits.page_bytes);
                        Mail::Input(Input::BlobRead { request, read: read.map_err(|error| error.to_string()) })
                    },
                    move |error| Mail::Input(Input::BlobRead { request: asked, read: Err(error.message) }),
                );
            }
            Out::Files(request) => {
                let asked = request.clone();
                self.jobs.ask(
                    Lane::Tool,
                    move |context| {
                        let found = context.find_files(&request.workspace, &request.query, request.limit);
                        Mail::Input(Input::FilesFound { request, found })
                    },
                    move |error| Mail::Input(Input::FilesFound { request: asked, found: Err(error.message) }),
                );
            }
            Out::Compute(computation) => {
                let recipient = computation.recipient().clone();
                self.jobs.ask(
                    Lane::Compute,
                    move |context| Mail::Input(computation.run(&*context.blobs)),
                    move |error| Mail::Input(Input::Computed { recipient, result: Err(error.message) }),
                );
            }
            Out::Identify { conn } => {
                if let Some(socket) = self.sockets.get(&conn) {
                    self.peer_check.ask(conn, socket.caller);
                }
            }
            Out::Over { task } => self.jobs.forget(&task),
            Out::SaveRule { rule } => self.jobs.save(rule),
            Out::ForgetRule { rule } => self.jobs.forget_rule(rule),
            Out::Deliver(delivery) => self.jobs.deliver(delivery),
            Out::Log { level, text } => self.log.say(level, &text),
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
        self.closed = true;
        if how == Close::Reset {
            // With this option closing the socket resets the connection.
            let _ = sockopt::set_socket_linger(&socket.stream, Some(Duration::ZERO));
        } else if socket.readable {
            let _ = shutdown(&socket.stream, Shutdown::Write);
            linger(&mut self.lingering, socket.stream, now.mono_ms, &self.limits);
        }
    }
}

/// Keeps a stream open until its time to linger is over, unless there are too many such streams.
fn linger<T>(lingering: &mut VecDeque<(u64, T)>, stream: T, now_ms: u64, limits: &Limits) {
    if lingering.len() < limits.lingering {
        lingering.push_back((now_ms + limits.linger_ms, stream));
    }
}

impl Outside {
    pub fn new(jobs: Jobs, peer_check: PeerCheck, log: Log, limits: Limits) -> Outside {
        Outside {
            jobs,
            peer_check,
            log,
            sockets: HashMap::new(),
            again: Vec::new(),
            lingering: VecDeque::new(),
            limits,
            closed: false,
            written: Vec::new(),
        }
    }

    /// Lists a connection for which no event will come.
    pub fn continue_next_turn(&mut self, key: Key) {
        if let Some(socket) = self.sockets.get_mut(&key)
            && !socket.again
        {
            socket.again = true;
            self.again.push(key);
        }
    }

    pub fn take_again(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.again);
        for key in &keys {
            if let Some(socket) = self.sockets.get_mut(key) {
                socket.again = false;
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
        if let Some(inquiry) = self.peer_check.inquiry() {
            let connections = inquiry.connections();
            self.jobs.ask(
                Lane::Disk,
                move |_| Mail::Identified(inquiry.run()),
                move |error| Mail::Identified(Answers::unavailable(connections, &error.message)),
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
    fn only_a_limited_number_of_refused_connections_linger() {
        let limits = Limits { lingering: 2, linger_ms: 10, ..Limits::default() };
        let mut lingering = VecDeque::new();
        for (stream, now_ms) in [("a", 5), ("b", 6), ("c", 7)] {
            linger(&mut lingering, stream, now_ms, &limits);
        }
        assert_eq!(lingering, [(15, "a"), (16, "b")]);
    }
}
