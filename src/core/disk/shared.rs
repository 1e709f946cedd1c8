//! What a store that several instances share can be asked beside what every store can. The core asks by a
//! [`StoreRequest`](crate::core::disk::request::StoreRequest), because every answer may need requests over the network.

use crate::base::id::{ContextId, Seq, TaskId};
use crate::core::disk::store::{Known, StoreError};
use crate::task::access::Partition;
use std::sync::Arc;

/// The part of an [`Archive`](crate::core::disk::store::Archive) that only a shared store has.
pub trait SharedArchive: Send + Sync {
    /// What this instance has to know of itself. It waits for nothing.
    fn look(&self) -> Standing;

    /// Looks for unfinished tasks of dead instances, and for tasks that are to be removed. Returns the unfinished tasks that this instance
    /// owns, which it has claimed now or before.
    fn scan(&self) -> Result<Vec<TaskId>, StoreError>;

    /// The lines of a log behind an event, as far as the log is now.
    fn follow(&self, task: &TaskId, after: Seq) -> Result<Vec<u8>, StoreError>;

    /// The next request that another instance has left for the owner of a task. The same until it was heard.
    fn next_request(&self, task: &TaskId) -> Result<Option<Left>, StoreError>;

    /// Leaves a request for the owner of a task.
    fn send(&self, task: &TaskId, request: &Arc<[u8]>) -> Result<(), StoreError>;

    /// The newest task of a context that exists.
    fn latest(&self, partition: &Partition, context: &ContextId) -> Result<Option<TaskId>, StoreError>;

    /// What lists say of the tasks, of all instances.
    fn summaries(&self) -> Result<Vec<Known>, StoreError>;
}

/// A request that another instance has left for the owner of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its number in the task's inbox.
    pub n: u64,
    pub request: Arc<[u8]>,
}

/// What an instance has to know of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Others may soon take this instance for dead: nothing may start, and what runs is stopped.
    pub is_cut_off: bool,
    /// Why, if it is cut off.
    pub trouble: Option<StoreError>,
    /// It is time for a [`SharedArchive::scan`].
    pub scan_is_due: bool,
    /// Tasks that have commands in the background. The store does not know them; who carries the request out adds them.
    pub background: Vec<TaskId>,
}
