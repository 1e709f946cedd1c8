//! The deletion of tasks.

use crate::bucket::append::Append;
use crate::bucket::port::block_on;
use crate::bucket::replica::{Phase, Replica};
use crate::core::disk::store::StoreError;
use crate::shell::bucket::store::SharedTasks;
use crate::shell::bucket::store::log::SharedLog;
use crate::shell::bucket::store::member::halted;

impl SharedTasks {
    /// Deletes a task that nobody works on.
    pub(super) fn delete(&self, log: &SharedLog) -> Result<(), StoreError> {
        let mut view = log.view();
        log.read_on(&mut view)?;
        let (instance, busy) = (&self.member.patient, || StoreError::locked("another instance works on the task"));
        if !instance.owns(&view) {
            let is_free = view.replica.status().is_claimable();
            if !is_free || !block_on(instance.claim(&mut view)).map_err(halted)? {
                return Err(busy());
            }
        }
        if view.replica.status().phase == Phase::Working {
            return Err(busy());
        }
        let deleted = block_on(instance.delete(&mut view)).map_err(halted)?;
        log.take_applied(&mut view);
        match deleted {
            Append::Done | Append::Gone => Ok(()),
            Append::Overtaken => Err(busy()),
        }
    }
}
