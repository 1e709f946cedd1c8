//! The deletion of tasks. A task that another task continues is not deleted, because the other task needs its log.

use crate::base::id::{Seq, TaskId};
use crate::bucket::log::append::Append;
use crate::bucket::names;
use crate::bucket::port::block_on;
use crate::bucket::replica::{Phase, Replica};
use crate::core::disk::store::{Lasts, StoreError};
use crate::shell::bucket::store::SharedTasks;
use crate::shell::bucket::store::log::SharedLog;
use crate::shell::bucket::store::member::store_error;

impl SharedTasks {
    /// Deletes a task, unless an instance works on it or another task continues it.
    pub(super) fn delete(&self, log: &SharedLog) -> Result<(), StoreError> {
        let mut view = log.view();
        log.read_on(&mut view)?;
        let (instance, busy) = (&self.member.patient, || StoreError::locked("another instance works on the task"));
        if let Some(folder) = view.entry.as_deref().and_then(names::entry_parts).map(|(folder, _)| folder.to_owned())
            && let Some(child) = self.child(&log.task, &folder)?
        {
            return Err(StoreError::new(format!("task {child} continues it")));
        }
        if !instance.owns(&view) {
            let is_free = view.replica.status().is_claimable();
            if !is_free || !block_on(instance.claim(&mut view)).map_err(store_error)? {
                return Err(busy());
            }
        }
        if view.replica.status().phase == Phase::Working {
            return Err(busy());
        }
        let deleted = block_on(instance.delete(&mut view)).map_err(store_error)?;
        log.take_applied(&mut view);
        match deleted {
            Append::Done | Append::Gone => Ok(()),
            Append::Overtaken => Err(busy()),
        }
    }

    /// A task that continues this one. It may be a new task that has only an entry yet.
    fn child(&self, task: &TaskId, folder: &str) -> Result<Option<TaskId>, StoreError> {
        let entries = block_on(self.member.patient.context(folder)).map_err(store_error)?;
        for child in entries.into_iter().filter(|entry| entry.parent.as_ref() == Some(task)) {
            let is_new = child.age_ms <= self.member.patient.times.grace_ms;
            match self.read(&child.task) {
                Ok(_) => return Ok(Some(child.task)),
                Err(error) if error.lasts != Lasts::Gone => return Err(error),
                Err(_) if is_new && !self.has_begun(&child.task)? => return Ok(Some(child.task)),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Whether a task has a log, even if that has only a `deleted` event.
    fn has_begun(&self, task: &TaskId) -> Result<bool, StoreError> {
        let first = self.member.bucket.get(&names::segment(task, Seq(1)));
        Ok(first.map_err(|error| StoreError::transient(error.message))?.value.is_some())
    }
}
