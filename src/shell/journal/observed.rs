//! A store that measures the appends to another one and passes the records to a program in the same process.

use crate::base::id::TaskId;
use crate::core::disk::store::{Archive, Maintenance, Openness, Store, StoreError};
use crate::shell::event_loop::figures::Stopwatch;
use crate::task::log::brief::Brief;
use crate::task::log::record::Record;
use std::sync::Arc;

/// Is called with every record after the store has it, in the order of each task. It runs on the loop's thread, so it must not block: all
/// clients would wait.
pub type Watch = Box<dyn FnMut(&TaskId, &Record) + Send>;

pub struct ObservedStore {
    pub store: Box<dyn Store>,
    pub stopwatch: Stopwatch,
    pub watch: Option<Watch>,
}

impl Store for ObservedStore {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        self.store.create(task, brief)
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        self.stopwatch.append(|| self.store.append(task, lines, open))?;
        if let Some(watch) = &mut self.watch {
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            for record in lines.filter_map(|line| Record::read(line).ok()) {
                watch(task, &record);
            }
        }
        Ok(())
    }

    fn append_audit(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        self.store.append_audit(lines)
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        self.store.update_summary(task, brief);
    }

    fn close(&mut self, task: &TaskId) {
        self.store.close(task);
    }

    fn archive(&self) -> Arc<dyn Archive> {
        self.store.archive()
    }

    fn findings(&mut self) -> Vec<String> {
        self.store.findings()
    }

    fn take_maintenance(&mut self) -> Option<Maintenance> {
        self.store.take_maintenance()
    }

    fn has_unwritten_summaries(&self) -> bool {
        self.store.has_unwritten_summaries()
    }
}
