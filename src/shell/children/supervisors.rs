//! The supervisors of tools that are alive now, with the control socket of each. A process that descends from one of them is a
//! tool's process and may not prompt or approve, so the peer check (`peer_check.rs`) has to know them all.
//!
//! The order makes it safe: [`Supervisors::begin`] comes before the supervisor can start its program, and [`Supervisors::end`] after
//! its last descendant is gone and before its pid can be reused. So whenever a tool's process is alive, a [`Snapshot`] shows it.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Default)]
pub struct Supervisors(Arc<Mutex<Live>>);

#[derive(Default)]
struct Live {
    controls: BTreeMap<u32, Arc<UnixStream>>,
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
    pub fn begin(&self, pid: u32, control: Arc<UnixStream>) {
        let mut live = self.live();
        live.begun += 1;
        live.controls.insert(pid, control);
    }

    pub fn end(&self, pid: u32) {
        self.live().controls.remove(&pid);
    }

    pub fn pids(&self) -> Vec<u32> {
        self.live().controls.keys().copied().collect()
    }

    /// Tells every supervisor to end its command. `go_on` continues a supervisor, because its command may have stopped it. Returns
    /// their control sockets.
    pub fn end_commands(&self, go_on: impl Fn(u32)) -> Vec<Arc<UnixStream>> {
        // While this is locked none of them is reaped, so their pids are not reused.
        let live = self.live();
        for (pid, control) in &live.controls {
            let _ = control.shutdown(Shutdown::Write);
            go_on(*pid);
        }
        live.controls.values().cloned().collect()
    }

    pub fn snapshot(&self) -> Snapshot {
        let live = self.live();
        Snapshot { any: !live.controls.is_empty(), begun: live.begun }
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

    fn control() -> Arc<UnixStream> {
        Arc::new(UnixStream::pair().expect("sockets can be made").0)
    }

    #[test]
    fn a_supervisor_that_was_alive_since_a_snapshot_counts() {
        let supervisors = Supervisors::default();
        let idle = supervisors.snapshot();
        assert!(!supervisors.any_since(idle));
        supervisors.begin(7, control());
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
