//! Connections, tasks, subscriptions and timers. The shell passes in what happened, with the time, and gets back what is to be
//! done. The core does no I/O: the journal is behind the [`Store`](disk::store::Store) trait. `turn.rs` has all inputs and outputs,
//! and the order.

#[cfg(debug_assertions)]
#[path = "../../tests/core_harness/check.rs"]
pub mod check;
pub mod compute;
pub mod connections;
pub mod disk;
mod facts;
#[cfg(feature = "webhooks")]
pub mod hooks;
#[cfg(not(feature = "webhooks"))]
#[path = "hooks/none.rs"]
pub mod hooks;
mod log;
mod readers;
mod requests;
#[cfg(test)]
mod rig;
mod settings;
mod shutdown;
pub mod tasks;
mod timers;
mod turn;

use crate::a2a::{Dialect, Form};
use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::connections::connection::{Link, Overdue, Peer, Want};
use crate::core::connections::{Changed, Connections};
use crate::core::disk::Disk;
use crate::core::disk::request::StoreRequest;
use crate::core::hooks::Registrations;
use crate::core::readers::Readers;
use crate::core::requests::Caller;
use crate::core::settings::ToolTable;
pub use crate::core::settings::{Approval, Choose, Setup, Site, Workspace, WorkspaceChoice};
use crate::core::shutdown::Phase;
use crate::core::tasks::Tasks;
use crate::core::timers::{Timer, Timers};
pub use crate::core::turn::{BlobRequest, Close, FilesRequest, Input, Loaded, Out, Shell, Written};
use crate::task::machine::decide;
use crate::task::machine::job::Note;
use crate::task::message::Source;
use std::io::IoSlice;

/// Joins the parts, each of which owns its fields.
pub struct Core {
    settings: Setup,
    tools: ToolTable,
    connections: Connections,
    tasks: Tasks,
    readers: Readers,
    disk: Disk,
    timers: Timers,
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "only webhooks use it"))]
    registrations: Registrations,
    phase: Phase,
    out: Vec<Out>,
}

impl Core {
    pub fn new(setup: Setup) -> Core {
        Core {
            tools: ToolTable::new(&setup.tools),
            tasks: Tasks::new(setup.limits.times),
            settings: setup,
            connections: Connections::default(),
            readers: Readers::default(),
            disk: Disk::default(),
            timers: Timers::default(),
            registrations: Registrations::default(),
            phase: Phase::Running,
            out: Vec::new(),
        }
    }

    // Connections.

    pub fn opened(&mut self, peer: Peer, now: Now) -> Key {
        self.opened_over(Link::Tcp, peer, now)
    }

    /// The same for a connection to this kind of listener.
    pub fn opened_over(&mut self, link: Link, peer: Peer, now: Now) -> Key {
        let key = self.connections.open(link, peer, now);
        self.after_io(key);
        key
    }

    /// A connection for the terminal of this process. It speaks the native dialect, one message a line, and follows nothing yet.
    pub fn terminal(&mut self, now: Now) -> Key {
        let by = Source { client: "you".into(), via: "terminal".into() };
        let conn = self.connections.open(Link::Unix, Peer::SameUser, now);
        if let Some(opened) = self.connections.get_mut(conn) {
            let caller = Caller { conn, form: Form::of(Dialect::NATIVE), by };
            opened.become_local(caller, &self.settings.limits, now);
        }
        self.connections.clients_changed = true;
        conn
    }

    /// How many bytes may be read from a connection now; 0 when it waits for something else.
    pub fn room(&self, key: Key) -> usize {
        self.connections.get(key).map_or(0, |conn| conn.room(&self.settings.limits))
    }

    fn received(&mut self, key: Key, bytes: &[u8], now: Now) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.take(bytes, now);
            self.read_on(key, now);
            self.refuse_long_input(key, now);
        }
    }

    /// The peer will send no more.
    fn finished(&mut self, key: Key, now: Now) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.end();
            let subs = conn.subs.clone();
            self.readers.abort_owned(&subs);
            self.read_on(key, now);
        }
    }

    pub fn slices(&self, key: Key) -> Vec<IoSlice<'_>> {
        self.connections.get(key).map(|conn| conn.output.slices()).unwrap_or_default()
    }

    /// The socket took `n` bytes of what [`Core::slices`] showed.
    fn sent(&mut self, key: Key, n: usize, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        conn.sent(n, now);
        if conn.starved && conn.output.len() < self.settings.limits.tx_bytes / 2 {
            conn.starved = false;
            self.readers.pump_later(&conn.subs);
        }
        self.read_on(key, now);
    }

    fn read_on(&mut self, key: Key, now: Now) {
        while let Some(conn) = self.connections.get_mut(key) {
            match conn.read(&self.settings.limits, now) {
                Want::Nothing => break,
                Want::Serve(request) => self.serve(key, *request, now),
                Want::Hear(text) => self.decode_message(key, text, now),
                Want::Rejected(why) => self.log_refusal(why),
            }
        }
        self.after_io(key);
    }

    /// To be called after anything happened to a connection.
    fn after_io(&mut self, key: Key) {
        match self.connections.changed(key, &self.settings.limits) {
            Changed::Nothing => {}
            Changed::Done => self.close_conn(key, Close::Orderly),
            Changed::Arm(at) => self.timers.arm(at, Timer::Conn(key)),
        }
    }

    fn close_conn(&mut self, key: Key, how: Close) {
        let Some(conn) = self.connections.close(key, how) else {
            return;
        };
        self.connections.clients_changed |= conn.client.is_some();
        self.readers.followers.retain(|follower| *follower != key);
        self.readers.abort_owned(&conn.subs);
        for sub in conn.subs {
            self.unsubscribe(sub);
        }
    }

    // Workers.

    fn note(&mut self, note: Note, now: Now) {
        let Some(loaded) = self.tasks.get_mut(&note.job.task) else {
            return;
        };
        if note.body.is_last() {
            loaded.running.retain(|job| *job != note.job.at);
        }
        let input = decide::Input::Note { job: note.job.at, body: note.body, at: now.unix_ms };
        // A worker's note is never refused: `decide` drops notes of ended jobs.
        let _ = self.drive(&note.job.task, input, now);
    }

    // Time.

    /// When the next timer fires, in monotonic milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.next()
    }

    /// Whether there is work left that waits for no event.
    pub fn has_more(&self) -> bool {
        self.readers.has_more()
            || self.disk.has_more()
            || !self.connections.to_write.is_empty()
            || !self.out.is_empty()
            || self.can_end()
    }

    fn tick(&mut self, now: Now) {
        for (task, turn) in std::mem::take(&mut self.readers.to_abort) {
            // Never refused: a turn that is over already is left alone.
            let _ = self.drive(&task, decide::Input::Disconnected { turn }, now);
        }
        while let Some(timer) = self.timers.pop(now.mono_ms) {
            match timer {
                Timer::Conn(key) => self.check_conn(key, now),
                Timer::Task { task, job } => {
                    let _ = self.drive(&task, decide::Input::Due { job }, now);
                }
                Timer::Limit(task) => self.check_limit(&task, now),
                Timer::Expiry => self.expire(now),
                Timer::Measure => self.measure(),
                Timer::Store(task) => self.append_is_due(&task),
                // Every turn tries to write them.
                Timer::Summaries => self.disk.summaries_armed = false,
                Timer::Trial => self.out.push(Out::Store(StoreRequest::Probe)),
                Timer::Load(task) => self.out.push(Out::Store(StoreRequest::Load { task })),
                Timer::Waiting(sub) => self.stop_waiting(sub),
                Timer::Hook { task, .. } => self.disk.to_release.push(task),
                Timer::OutputBudget => self.close_stalled(now),
                Timer::Shutdown => self.give_up(now),
            }
        }
        if self.can_end() {
            self.give_up(now);
        }
    }

    fn check_conn(&mut self, key: Key, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        if conn.armed > now.mono_ms {
            return;
        }
        conn.armed = u64::MAX;
        if conn.deadline(&self.settings.limits) <= now.mono_ms {
            match conn.overdue(&self.settings.limits, now) {
                Overdue::Nothing | Overdue::Write => {}
                Overdue::HangUp => self.hang_up(key, now),
                Overdue::Drop => return self.close_conn(key, Close::Orderly),
                Overdue::Cut => return self.close_conn(key, Close::Reset),
            }
        }
        self.after_io(key);
    }
}
