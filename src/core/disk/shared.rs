//! The operations that only a store has which several instances share. The core requests them by a
//! [`StoreRequest`](crate::core::disk::request::StoreRequest), because each may need requests over the network.

use crate::base::id::{ContextId, Seq, TaskId};
use crate::core::disk::store::{Known, StoreError};
use crate::task::access::Partition;
use std::sync::Arc;

/// The part of an [`Archive`](crate::core::disk::store::Archive) that only a shared store has.
pub trait SharedArchive: Send + Sync {
    /// The status of this instance. Known in memory, so it waits for nothing.
    fn status(&self) -> InstanceStatus;

    /// Looks for unfinished tasks of dead instances, and for tasks that are to be removed. Returns the unfinished tasks that this instance
    /// owns, which it has claimed now or before.
    fn scan(&self) -> Result<Vec<TaskId>, StoreError>;

    /// The lines of a log behind an event, as far as the log is now.
    fn follow(&self, task: &TaskId, after: Seq) -> Result<Vec<u8>, StoreError>;

    /// The next request that another instance has left for the owner of a task. The same one until the owner has recorded its decision.
    fn next_request(&self, task: &TaskId) -> Result<Option<InboxEntry>, StoreError>;

    /// Leaves a request for the owner of a task.
    fn send(&self, task: &TaskId, request: &Arc<[u8]>) -> Result<(), StoreError>;

    /// The newest task of a context that exists.
    fn latest(&self, partition: &Partition, context: &ContextId) -> Result<Option<TaskId>, StoreError>;

    /// The summaries of all tasks of all instances.
    fn summaries(&self) -> Result<Vec<Known>, StoreError>;
}

/// A request that another instance has left for the owner of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    /// Its number in the task's inbox.
    pub n: u64,
    pub request: Arc<[u8]>,
}

/// The status of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceStatus {
    /// The store has not answered for so long that other instances may soon take this one for dead: nothing may start, and what runs is
    /// stopped.
    pub is_cut_off: bool,
    /// Why it is cut off.
    pub trouble: Option<StoreError>,
    /// It is time for a [`SharedArchive::scan`].
    pub scan_is_due: bool,
    /// Tasks that have commands in the background. The store does not know them; the shell adds them.
    pub background: Vec<TaskId>,
}
