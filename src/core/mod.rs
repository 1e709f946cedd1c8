//! The core: connections, tasks, subscriptions and timers. The shell passes in what happened, with the time, and gets back what it is
//! to do. The core does no I/O: the journal is behind the [`Store`](disk::store::Store) trait. `turn.rs` has all inputs and outputs and
//! the order in which they are processed.

pub mod access;
pub mod audit;
#[cfg(debug_assertions)]
#[path = "../../tests/core_harness/check.rs"]
pub mod check;
pub mod compute;
pub mod connections;
pub mod disk;
mod facts;
mod log;
pub mod operation;
mod readers;
mod requests;
mod settings;
mod shutdown;
pub mod tasks;
#[cfg(test)]
pub(crate) mod test_core;
mod timers;
mod turn;
#[cfg(feature = "webhooks")]
pub mod webhooks;
#[cfg(not(feature = "webhooks"))]
#[path = "webhooks/none.rs"]
pub mod webhooks;

use crate::a2a::{Dialect, Form, Offers};
use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::access::Access;
use crate::core::audit::Audit;
use crate::core::connections::connection::{Link, Overdue, Peer, ReadStep};
use crate::core::connections::{Changed, Connections};
use crate::core::disk::Disk;
use crate::core::disk::request::{SharedRequest, StoreRequest};
pub use crate::core::operation::OperationSettings;
use crate::core::operation::{Operation, metrics};
use crate::core::readers::Readers;
pub use crate::core::requests::Caller;
use crate::core::settings::ToolTable;
pub use crate::core::settings::{
    Approval, Choose, ClientMcp, Setup, SharedStore, Site, SiteWish, Workspace, WorkspaceChoice,
};
use crate::core::tasks::Tasks;
use crate::core::timers::{Timer, Timers};
pub use crate::core::turn::{BlobRequest, Close, FilesRequest, HookNotice, Input, Loaded, Out, Shell, Written};
use crate::core::webhooks::Registrations;
use crate::model::window;
use crate::task::access::Principal;
use crate::task::machine::decide;
use crate::task::machine::job::Note;
use crate::task::message::Source;
use ::core::net::IpAddr;
use std::io::IoSlice;
use std::sync::Arc;

/// The state of the server. Each part owns its fields.
pub struct Core {
    settings: Setup,
    tools: ToolTable,
    connections: Connections,
    tasks: Tasks,
    readers: Readers,
    disk: Disk,
    timers: Timers,
    access: Access,
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "only webhooks use it"))]
    registrations: Registrations,
    audit: Option<Audit>,
    operation: Operation,
    out: Vec<Out>,
}

impl Core {
    #[inline(never)]
    pub fn new(mut setup: Setup) -> Core {
        let access = Access::new(std::mem::take(&mut setup.access));
        let audit = setup.audit.take().map(|audit| Audit::new(audit, setup.started.unix_ms));
        let offers = Offers {
            models: setup.models.clone(),
            auto_execute: setup.approval.grant.auto_execute,
            window: window::of,
        };
        let mut timers = Timers::default();
        if access.identity.is_some() {
            timers.arm(setup.started.mono_ms, Timer::Identity);
        }
        let operation = Operation { tools: metrics::tool_names(&setup.tools), ..Operation::default() };
        Core {
            tools: ToolTable::new(&setup.tools, offers),
            tasks: Tasks::new(setup.limits.times),
            connections: Connections::of_process(setup.operation.process),
            settings: setup,
            readers: Readers::default(),
            disk: Disk::default(),
            timers,
            access,
            registrations: Registrations::default(),
            audit,
            operation,
            out: Vec::new(),
        }
    }

    // Connections.

    pub fn opened(&mut self, peer: Peer, now: Now) -> Key {
        self.opened_over(Link::Tcp, peer, now)
    }

    /// As [`Core::opened`], for a connection to this kind of listener.
    pub fn opened_over(&mut self, link: Link, peer: Peer, now: Now) -> Key {
        self.opened_from(None, link, peer, now)
    }

    /// As [`Core::opened_over`], with the address of the peer.
    pub fn opened_from(&mut self, address: Option<IpAddr>, link: Link, peer: Peer, now: Now) -> Key {
        let key = self.connections.open(link, self.access.peer(link, peer), now);
        if let Some(conn) = self.connections.get_mut(key) {
            conn.is_own_user = matches!(peer, Peer::SameUser | Peer::MaybeTool);
            conn.address = address.map(|address| address.to_canonical());
            conn.client_address = conn.address;
        }
        self.watch_credentials(now);
        self.after_io(key);
        key
    }

    /// A connection to the listener for metrics. Its peer is not identified, and nothing but metrics is served.
    pub fn opened_for_metrics(&mut self, address: Option<IpAddr>, now: Now) -> Key {
        let key = self.opened_from(address, Link::Tcp, Peer::Stranger, now);
        if let Some(conn) = self.connections.get_mut(key) {
            conn.only_metrics = true;
        }
        key
    }

    /// A connection for the terminal of this process. It speaks the native dialect, one message per line, and follows no task yet.
    pub fn terminal(&mut self, now: Now) -> Key {
        self.local(Dialect::NATIVE, Source::new("you", "terminal"), now)
    }

    /// A connection for the editor that started this process, over its standard input and output.
    pub fn editor(&mut self, now: Now) -> Key {
        self.local(Dialect::ACP, Source::new("the editor", Dialect::ACP.via), now)
    }

    fn local(&mut self, dialect: &'static Dialect, by: Source, now: Now) -> Key {
        let conn = self.connections.open(Link::Unix, Peer::SameUser, now);
        if let Some(opened) = self.connections.get_mut(conn) {
            let caller = Caller { conn, form: Form::of(dialect), by, principal: Arc::new(Principal::operator()) };
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
            conn.receive(bytes, now);
            self.read_on(key, now);
            self.refuse_long_input(key, now);
        }
    }

    /// The peer will send no more.
    fn finished(&mut self, key: Key, now: Now) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.end_input();
            let subs = conn.subs.clone();
            self.readers.abort_turns_of(&subs);
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
        if conn.output_was_full && conn.output.len() < self.settings.limits.tx_bytes / 2 {
            conn.output_was_full = false;
            self.readers.pump_later(&conn.subs);
        }
        self.read_on(key, now);
    }

    fn read_on(&mut self, key: Key, now: Now) {
        let is_outdated = self.waits_for_credentials();
        while let Some(conn) = self.connections.get_mut(key) {
            match conn.read(&self.settings.limits, now) {
                ReadStep::Nothing => break,
                ReadStep::Request(request) => {
                    self.begin_exchange(key, &request, now);
                    self.serve_when_known(key, request, now);
                }
                ReadStep::CheckHead if is_outdated => {
                    conn.awaits_check = true;
                    break;
                }
                ReadStep::CheckHead => self.check_head(key, now),
                ReadStep::Message(text) => self.decode_message(key, text, now),
                ReadStep::Rejected(why) => self.log_refusal(why),
            }
        }
        self.after_io(key);
    }

    /// Closes a connection that has ended, or updates its timer and the lists that it is in. To be called after every change of a
    /// connection.
    fn after_io(&mut self, key: Key) {
        self.note_finished(key);
        match self.connections.changed(key, &self.settings.limits) {
            Changed::Nothing => {}
            Changed::Done => self.close_conn(key, Close::Orderly),
            Changed::Arm(at) => self.timers.arm(at, Timer::Conn(key)),
        }
    }

    fn close_conn(&mut self, key: Key, how: Close) {
        let Some(mut conn) = self.connections.close(key, how) else {
            return;
        };
        self.note_closed(&mut conn);
        self.connections.clients_changed |= conn.client.is_some();
        self.readers.followers.retain(|follower| *follower != key);
        self.readers.abort_turns_of(&conn.subs);
        for sub in conn.subs {
            self.unsubscribe(sub);
        }
    }

    // Workers.

    fn note(&mut self, note: Note, now: Now) {
        self.operation.metrics.note(&note, now.mono_ms);
        let Some(loaded) = self.tasks.get_mut(&note.job.task) else {
            return;
        };
        if note.body.is_last() {
            loaded.running.retain(|job| *job != note.job.at);
            self.end_restore(&note.job.task, &note.body, now);
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

    /// Whether there is work that the next turn can do at once, without a further input or timer.
    pub fn has_more(&self) -> bool {
        self.readers.has_more()
            || self.disk.has_more()
            || !self.connections.to_write.is_empty()
            || !self.out.is_empty()
            || self.access.turns.has_room()
            || self.audit.as_ref().is_some_and(Audit::has_more)
            || self.can_end()
    }

    fn tick(&mut self, now: Now) {
        for (task, turn) in std::mem::take(&mut self.readers.to_abort) {
            // Never refused: `decide` ignores it if the turn is over.
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
                Timer::Probe => self.out.push(Out::Store(StoreRequest::Probe)),
                Timer::Load(task) => self.out.push(Out::Store(StoreRequest::Load { task })),
                Timer::InstanceStatus => self.ask_shared(SharedRequest::Status),
                Timer::Follow(task) => self.follow_is_due(&task, now),
                Timer::Waiting(sub) => self.stop_waiting(sub),
                Timer::Greeting(conn) => self.greet(conn),
                Timer::Webhook { task, .. } => self.disk.to_release.push(task),
                Timer::OutputBudget => self.close_stalled(now),
                Timer::Audit => self.audit_is_due(),
                Timer::Refusals => self.count_refusals_out(now, now.mono_ms),
                Timer::Shutdown => self.end_phase(now),
                Timer::Credentials => self.check_credentials_file(),
                Timer::AccessEnds => self.end_expired(now),
                Timer::Identity => self.fetch_keys(now),
            }
        }
        self.begin_delayed_turns(now);
        if self.can_end() {
            self.end_early(now);
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
                Overdue::CloseSocket => self.close_slow_socket(key, now),
                // The connection has noted the reason.
                Overdue::Drop => return self.close_conn(key, Close::Orderly),
                Overdue::Cut => return self.close_conn(key, Close::Reset),
            }
        }
        self.after_io(key);
    }
}
