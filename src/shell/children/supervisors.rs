//! The supervisors of tools that are alive, with the control socket of each. A process that descends from one of them belongs to a
//! tool and may not prompt or approve, so the peer check (`peer_check.rs`) has to know them all.
//!
//! [`Supervisors::begin`] is called before a supervisor can start its program, and [`Supervisors::end`] after its last descendant has
//! ended and before its pid can be reused. So whenever a process of a tool is alive, a [`Snapshot`] contains its supervisor.

use crate::base::lock::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex};

/// The supervisors of one server, and those of all servers in this process: a tool of one server must not prompt any of the others.
#[derive(Clone, Default)]
pub struct Supervisors {
    own: Arc<Mutex<BTreeMap<u32, Arc<UnixStream>>>>,
    all: Arc<Mutex<Live>>,
}

#[derive(Default)]
struct Live {
    pids: BTreeSet<u32>,
    /// How many supervisors have begun since the first server started.
    begun: u64,
}

/// The supervisors at one moment, to be compared with a later moment by [`Supervisors::any_since`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    any: bool,
    begun: u64,
}

impl Supervisors {
    /// For a server of this process: all of them share the list of all supervisors. A `default` value shares it with none.
    pub fn of_process() -> Supervisors {
        static ALL: LazyLock<Arc<Mutex<Live>>> = LazyLock::new(Arc::default);
        Supervisors { own: Arc::default(), all: ALL.clone() }
    }

    pub fn begin(&self, pid: u32, control: Arc<UnixStream>) {
        let mut all = lock(&self.all);
        all.begun += 1;
        all.pids.insert(pid);
        lock(&self.own).insert(pid, control);
    }

    pub fn end(&self, pid: u32) {
        lock(&self.own).remove(&pid);
        lock(&self.all).pids.remove(&pid);
    }

    /// The pids of this server's supervisors.
    pub fn own_pids(&self) -> Vec<u32> {
        lock(&self.own).keys().copied().collect()
    }

    /// The pids of the supervisors of all servers in this process.
    pub fn pids(&self) -> Vec<u32> {
        lock(&self.all).pids.iter().copied().collect()
    }

    /// Tells every supervisor of this server to end its command. `resume` continues a supervisor, because its command may have stopped
    /// it. Returns the control sockets of the supervisors.
    pub fn end_commands(&self, resume: impl Fn(u32)) -> Vec<Arc<UnixStream>> {
        // While this is locked none of them is reaped, so their pids are not reused.
        let own = lock(&self.own);
        for (pid, control) in own.iter() {
            let _ = control.shutdown(Shutdown::Write);
            resume(*pid);
        }
        own.values().cloned().collect()
    }

    pub fn snapshot(&self) -> Snapshot {
        let all = lock(&self.all);
        Snapshot { any: !all.pids.is_empty(), begun: all.begun }
    }

    /// Whether a supervisor was alive at any time since the snapshot was taken.
    pub fn any_since(&self, before: Snapshot) -> bool {
        before.any || lock(&self.all).begun != before.begun
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

    #[test]
    fn servers_of_one_process_know_each_others_supervisors() {
        let (one, other) = (Supervisors::of_process(), Supervisors::of_process());
        let before = other.snapshot();
        one.begin(u32::MAX - 7, control());
        assert!(other.any_since(before) && other.pids().contains(&(u32::MAX - 7)));
        assert_eq!((one.own_pids(), other.own_pids()), (vec![u32::MAX - 7], vec![]));
        assert_eq!(other.end_commands(|_| panic!("it is the other server's")).len(), 0);
        one.end(u32::MAX - 7);
        assert!(!other.pids().contains(&(u32::MAX - 7)));
    }
}
