//! The store of a run: a store in memory, or one with an injected bug.

use crate::core_harness::failing_store::FailingStore;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::core::disk::store::{Archive, Known, Openness, Store, StoreError};
use gemini_a2a::task::log::brief::Brief;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A bug that is injected to test that the simulation notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    None,
    /// An append is acknowledged and written with the next one.
    WriteBehind,
    /// A sync is acknowledged and not done.
    NoSync,
    /// A flush of the audit is acknowledged and not done.
    NoAuditSync,
    /// After a restart the store lists no tasks.
    ForgetsTasks,
    /// A frame does not arrive.
    LostFrame,
    /// The last note of a worker is lost.
    LostNote,
    /// A worker ignores that it was stopped.
    WorkerIgnoresStop,
    /// Deliveries do not arrive.
    LostDeliveries,
}

pub struct FaultyStore {
    pub store: FailingStore,
    pub bug: InjectedBug,
    /// Lines that were acknowledged and not written.
    late: BTreeMap<TaskId, Vec<u8>>,
}

impl FaultyStore {
    pub fn new(bug: InjectedBug) -> FaultyStore {
        FaultyStore { store: FailingStore::default(), bug, late: BTreeMap::new() }
    }
}

impl FaultyStore {
    /// The tasks that a server finds when it starts.
    pub fn known(&self) -> Vec<Known> {
        match self.bug {
            InjectedBug::ForgetsTasks => Vec::new(),
            _ => self.store.known(),
        }
    }
}

impl Store for FaultyStore {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        self.store.create(task, brief)
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        self.store.update_summary(task, brief);
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        if self.bug != InjectedBug::WriteBehind {
            return self.store.append(task, lines, open);
        }
        let late = self.late.insert(task.clone(), lines.to_vec());
        self.store.append(task, &late.unwrap_or_default(), open)
    }

    fn append_audit(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        self.store.append_audit(lines)
    }

    fn close(&mut self, task: &TaskId) {
        self.store.close(task);
    }

    fn archive(&self) -> Arc<dyn Archive> {
        self.store.archive()
    }
}
