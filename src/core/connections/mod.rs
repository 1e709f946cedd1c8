//! Connections: what one of them has read and has to write, who may use it, and how many there may be. They know nothing of tasks;
//! of subscriptions they know only the keys.

pub(in crate::core) mod capacity;
pub mod connection;
pub mod guard;
pub mod identity;
pub(in crate::core) mod output;
pub(in crate::core) mod output_budget;
pub(in crate::core) mod socket;

use crate::base::clock::Now;
use crate::base::slots::{Key, Slots};
use crate::core::Close;
use crate::core::connections::connection::{Conn, Link, Peer};
use crate::core::connections::identity::Refusals;
use crate::core::connections::output_budget::OutputBudget;
use crate::core::operation::exchange::RequestIds;
use crate::limits::Limits;

/// All open connections.
#[derive(Default)]
pub(in crate::core) struct Connections {
    slots: Slots<Conn>,
    /// The number of the process and of the last connection, for the ids of requests.
    process: u64,
    opened: u64,
    /// How many connections belong to other users.
    strangers: usize,
    output_budget: OutputBudget,
    refusals: Refusals,
    /// Clients have come, gone, or joined a task.
    pub clients_changed: bool,
    /// Sockets that are told when clients come and go.
    pub client_watchers: Vec<ClientWatcher>,
    /// Connections with something to write, and connections that are closed.
    pub to_write: Vec<Key>,
    /// Connections that have room for input again.
    pub to_read: Vec<Key>,
    pub to_close: Vec<(Key, Close)>,
}

/// A socket that is told which clients are connected, and whether it has to be told.
pub(in crate::core) struct ClientWatcher {
    pub conn: Key,
    pub is_due: bool,
}

/// What follows from a change of a connection.
pub(in crate::core) enum Changed {
    Nothing,
    /// Everything was sent and it is to be closed.
    Done,
    /// It needs a timer at this time, in monotonic milliseconds.
    Arm(u64),
}

impl Connections {
    pub fn of_process(process: u64) -> Connections {
        Connections { process, ..Connections::default() }
    }

    pub fn open(&mut self, link: Link, peer: Peer, now: Now) -> Key {
        self.strangers += usize::from(peer == Peer::Stranger);
        self.opened += 1;
        let ids = RequestIds::new(self.process, self.opened);
        self.slots.insert(Conn::new(link, peer, ids, now))
    }

    pub fn get(&self, key: Key) -> Option<&Conn> {
        self.slots.get(key)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut Conn> {
        self.slots.get_mut(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Conn)> {
        self.slots.iter()
    }

    /// Brings the sums and lists up to date after a connection has changed.
    pub fn changed(&mut self, key: Key, limits: &Limits) -> Changed {
        self.count_waiting(key, limits);
        let Some(conn) = self.slots.get_mut(key) else {
            return Changed::Nothing;
        };
        if conn.is_done() {
            return Changed::Done;
        }
        let has_room = conn.room(limits) > 0;
        if std::mem::replace(&mut conn.stopped, !has_room) && has_room {
            self.to_read.push(key);
        }
        if !conn.output.is_empty() && !conn.listed {
            conn.listed = true;
            self.to_write.push(key);
        }
        // A timer that would fire earlier is armed already.
        let deadline = conn.deadline(limits);
        if deadline >= conn.armed {
            return Changed::Nothing;
        }
        conn.armed = deadline;
        Changed::Arm(deadline)
    }

    /// Forgets a connection and has it closed.
    pub fn close(&mut self, key: Key, how: Close) -> Option<Conn> {
        let conn = self.slots.remove(key)?;
        self.output_budget.bytes -= conn.counted;
        self.strangers -= usize::from(conn.peer == Peer::Stranger);
        self.to_close.push((key, how));
        Some(conn)
    }

    /// Connections with something to write, each named once.
    pub fn take_writable(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.to_write);
        for key in &keys {
            if let Some(conn) = self.slots.get_mut(*key) {
                conn.listed = false;
            }
        }
        keys
    }

    /// For the checks of invariants: strangers, waiting bytes, connections to write.
    #[cfg(debug_assertions)]
    pub fn inspect(&self) -> (usize, usize, &[Key]) {
        (self.strangers, self.output_budget.bytes, &self.to_write)
    }

    /// A request that waits counts among those that its socket has under way.
    pub fn begin_call(&mut self, key: Key) {
        if let Some(conn) = self.slots.get_mut(key) {
            conn.calls += 1;
        }
    }

    pub fn end_call(&mut self, key: Key) {
        if let Some(conn) = self.slots.get_mut(key) {
            conn.calls = conn.calls.saturating_sub(1);
        }
    }
}
