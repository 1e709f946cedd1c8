//! Timers, in the order in which they fire. An armed timer is never removed: when it fires, its owner checks whether it still applies
//! (the connection may be closed, the task may have changed) and arms the next one itself.

use crate::base::id::{ConfigId, Seq, TaskId};
use crate::base::slots::Key;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The connection may have been silent or stalled for too long.
    Conn(Key),
    /// The pause of a task before it repeats a model request is over.
    Task { task: TaskId, job: Seq },
    /// Something in a task's turn may have lasted too long.
    Limit(TaskId),
    /// Tasks may have been idle, or over, for too long.
    Expiry,
    /// Measure the space that tasks take on disk.
    Measure,
    /// A journal could not be written; try again.
    Store(TaskId),
    /// Summaries of tasks could not be written; try again.
    Summaries,
    /// The store could not be written; probe whether it can be written again.
    Probe,
    /// Another process had locked a journal; try to load it again.
    Load(TaskId),
    /// Ask for the status of this instance in a shared store.
    InstanceStatus,
    /// Another instance may have continued a task that is watched here.
    Follow(TaskId),
    /// A call has waited for the end of its turn as long as it may.
    Waiting(Key),
    /// Greet a WebSocket whose client has sent nothing yet.
    Greeting(Key),
    /// A delivery to a webhook failed; try again.
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "only webhooks use it"))]
    Webhook { task: TaskId, id: ConfigId },
    /// Connections take more memory than the budget allows; close stalled ones.
    OutputBudget,
    /// Check whether the credentials file has changed.
    Credentials,
    /// The credential of a client expires.
    AccessEnds,
    /// Fetch the keys of the identity provider.
    Identity,
    /// The audit could not be written; try again.
    Audit,
    /// Write the counts of refused requests to the audit.
    Refusals,
    /// The present phase of the shutdown is over.
    Shutdown,
}

pub struct Timers {
    /// By the time, in monotonic milliseconds, then by the order in which they were armed.
    due: BTreeMap<(u64, u64), Timer>,
    /// How many timers were ever armed.
    armed: u64,
    /// When [`Timer::Expiry`] fires next, in monotonic milliseconds.
    expiry: u64,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { due: BTreeMap::new(), armed: 0, expiry: u64::MAX }
    }
}

impl Timers {
    /// Arms [`Timer::Expiry`], unless it fires earlier anyway.
    pub fn arm_expiry(&mut self, at_ms: u64) {
        if at_ms < self.expiry {
            self.expiry = at_ms;
            self.arm(at_ms, Timer::Expiry);
        }
    }

    /// For the checks of invariants: whether [`Timer::Expiry`] is armed.
    #[cfg(debug_assertions)]
    pub fn has_expiry(&self) -> bool {
        self.expiry < u64::MAX && self.has(&Timer::Expiry)
    }

    /// Whether this is the latest [`Timer::Expiry`] that was armed, which has fired now.
    pub fn expiry_fired(&mut self, now_ms: u64) -> bool {
        let fired = self.expiry <= now_ms;
        if fired {
            self.expiry = u64::MAX;
        }
        fired
    }

    pub fn arm(&mut self, at_ms: u64, timer: Timer) {
        self.armed += 1;
        self.due.insert((at_ms, self.armed), timer);
    }

    /// When the next timer is due, in monotonic milliseconds.
    pub fn next(&self) -> Option<u64> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    #[cfg(debug_assertions)]
    pub fn len(&self) -> usize {
        self.due.len()
    }

    #[cfg(debug_assertions)]
    pub fn has(&self, timer: &Timer) -> bool {
        self.due.values().any(|armed| armed == timer)
    }

    /// Takes one timer that is due.
    pub fn pop(&mut self, now_ms: u64) -> Option<Timer> {
        let entry = self.due.first_entry()?;
        if entry.key().0 > now_ms { None } else { Some(entry.remove()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_of_time_then_of_arming() {
        let mut timers = Timers::default();
        timers.arm(20, Timer::Shutdown);
        timers.arm(10, Timer::Store("b".into()));
        timers.arm(10, Timer::Store("a".into()));
        assert_eq!(timers.next(), Some(10));
        assert_eq!(timers.pop(9), None);
        assert_eq!(timers.pop(15), Some(Timer::Store("b".into())));
        assert_eq!(timers.pop(15), Some(Timer::Store("a".into())));
        assert_eq!(timers.pop(15), None);
        assert_eq!(timers.pop(20), Some(Timer::Shutdown));
        assert_eq!(timers.next(), None);
    }
}
