//! Connections: their input and output, the peers that may use them, and the limits on their number and memory. This module knows
//! nothing of tasks; of subscriptions it knows only the keys.

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
use crate::core::access::counts::CountsByCredential;
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
    /// How many streams and sockets each credential has open.
    streams: CountsByCredential,
    output_budget: OutputBudget,
    refusals: Refusals,
    /// Clients have connected, disconnected, or joined a task.
    pub clients_changed: bool,
    /// Sockets that are sent the list of clients when it changes.
    pub client_watchers: Vec<ClientWatcher>,
    /// Connections with output to write.
    pub to_write: Vec<Key>,
    /// Connections that have room for input again.
    pub to_read: Vec<Key>,
    /// Connections that the shell is to close.
    pub to_close: Vec<(Key, Close)>,
}

/// A socket that is sent the list of clients when it changes.
pub(in crate::core) struct ClientWatcher {
    pub conn: Key,
    /// The list has changed since it was last sent.
    pub is_due: bool,
}

/// What follows from a change of a connection.
pub(in crate::core) enum Changed {
    Nothing,
    /// All output was sent and the connection is to be closed.
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

    /// Updates the sums and lists after a connection has changed.
    pub fn changed(&mut self, key: Key, limits: &Limits) -> Changed {
        self.count_memory(key, limits);
        self.count_stream(key);
        let Some(conn) = self.slots.get_mut(key) else {
            return Changed::Nothing;
        };
        if conn.is_done() {
            return Changed::Done;
        }
        let has_room = conn.room(limits) > 0;
        if std::mem::replace(&mut conn.input_stopped, !has_room) && has_room {
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

    /// Updates the counts of streams after a connection may have begun or ended one.
    pub fn count_stream(&mut self, key: Key) {
        if let Some(conn) = self.slots.get_mut(key)
            && conn.counted_stream.as_ref() != conn.stream_credential()
        {
            let now = conn.stream_credential().cloned();
            let before = std::mem::replace(&mut conn.counted_stream, now.clone());
            self.streams.remove(before);
            self.streams.add(now);
        }
    }

    /// How many streams and sockets a credential has open.
    pub fn streams_of(&self, credential: &str) -> usize {
        self.streams.get(credential)
    }

    /// Removes a connection and has the shell close it.
    pub fn close(&mut self, key: Key, how: Close) -> Option<Conn> {
        let mut conn = self.slots.remove(key)?;
        self.output_budget.bytes -= conn.counted_bytes;
        self.streams.remove(conn.counted_stream.take());
        self.strangers -= usize::from(conn.peer == Peer::Stranger);
        self.to_close.push((key, how));
        Some(conn)
    }

    /// Takes the list of connections with output to write; each is in it once.
    pub fn take_writable(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.to_write);
        for key in &keys {
            if let Some(conn) = self.slots.get_mut(*key) {
                conn.listed = false;
            }
        }
        keys
    }

    /// For the checks of invariants: the number of connections of other users, the memory of connections, and the streams of each
    /// credential.
    #[cfg(debug_assertions)]
    pub fn inspect(&self) -> (usize, usize, &CountsByCredential) {
        (self.strangers, self.output_budget.bytes, &self.streams)
    }

    /// Counts a call that waits among those that are under way on its connection.
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
