//! Deadlines in order. A timer is never taken back: when it is due, its owner looks whether it still means anything (the
//! connection may be closed, the task may have changed) and arms the next one itself.

use crate::base::id::{ConfigId, Seq, TaskId};
use crate::base::slots::Key;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A connection may have been silent or stalled for too long.
    Conn(Key),
    /// A task waits before it asks the model again.
    Task { task: TaskId, job: Seq },
    /// Something in a task's turn may have lasted too long.
    Limit(TaskId),
    /// Tasks may have been idle, or over, for too long.
    Expiry,
    /// The tasks may take too much of the disk.
    Measure,
    /// A journal could not be written; try again.
    Store(TaskId),
    /// Summaries of tasks could not be written; try again.
    Summaries,
    /// The store could not be written; probe whether it still cannot.
    Trial,
    /// Another process had a journal; ask for it again.
    Load(TaskId),
    /// Look after a shared store.
    Look,
    /// Another instance may have continued a task that is watched here.
    Follow(TaskId),
    /// A call has waited for its turn as long as it may.
    Waiting(Key),
    /// A WebSocket was opened whose client has sent nothing yet.
    Greeting(Key),
    /// A delivery failed; try again.
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "only webhooks use it"))]
    Hook { task: TaskId, id: ConfigId },
    /// Too much waits for peers that may not be reading.
    OutputBudget,
    /// The credentials file may have changed.
    Credentials,
    /// What a client has shown is no longer valid.
    AccessEnds,
    /// The keys of the identity provider are to be fetched.
    Identity,
    /// The audit could not be written; try again.
    Audit,
    /// Refused requests may have been counted for long enough.
    Refusals,
    /// The time for a clean end is over.
    Shutdown,
}

pub struct Timers {
    due: BTreeMap<(u64, u64), Timer>,
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
    fn timers_come_in_order_of_time_then_of_arming() {
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
