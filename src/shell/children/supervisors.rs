//! The supervisors of tools that are alive now. A process that descends from one of them is a tool's process and may not
//! prompt or approve, so the peer check (`peer_check.rs`) has to know them all.
//!
//! The order is what makes it safe: [`Supervisors::begin`] comes before the supervisor can start its program and
//! [`Supervisors::end`] after its last descendant is gone. So whenever a tool's process is alive, a
//! [`Snapshot`] says so.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Default)]
pub struct Supervisors(Arc<Mutex<Live>>);

#[derive(Default)]
struct Live {
    pids: BTreeSet<u32>,
    /// How many have begun since the server started.
    begun: u64,
}

/// The supervisors at one moment, to be compared with those of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    any: bool,
    begun: u64,
}

impl Supervisors {
    pub fn begin(&self, pid: u32) {
        let mut live = self.live();
        live.begun += 1;
        live.pids.insert(pid);
    }

    pub fn end(&self, pid: u32) {
        self.live().pids.remove(&pid);
    }

    pub fn pids(&self) -> Vec<u32> {
        self.live().pids.iter().copied().collect()
    }

    pub fn snapshot(&self) -> Snapshot {
        let live = self.live();
        Snapshot { any: !live.pids.is_empty(), begun: live.begun }
    }

    /// Whether a supervisor was alive at any time since the snapshot was taken.
    pub fn any_since(&self, before: Snapshot) -> bool {
        before.any || self.live().begun != before.begun
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_that_was_alive_since_a_snapshot_counts() {
        let supervisors = Supervisors::default();
        let idle = supervisors.snapshot();
        assert!(!supervisors.any_since(idle));
        supervisors.begin(7);
        let busy = supervisors.snapshot();
        assert!(supervisors.any_since(idle) && supervisors.any_since(busy));
        assert_eq!(supervisors.pids(), [7]);
        supervisors.end(7);
        assert_eq!(supervisors.pids(), [0u32; 0]);
        assert!(supervisors.any_since(idle), "it began and ended in between");
        assert!(supervisors.any_since(busy), "it was alive then");
        assert!(!supervisors.any_since(supervisors.snapshot()));
    }
}
