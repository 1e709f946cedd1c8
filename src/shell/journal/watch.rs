//! A store that tells a program in the same process what it was given.

use crate::base::id::TaskId;
use crate::core::disk::store::{Archive, Maintenance, Openness, Store, StoreError};
use crate::task::log::brief::Brief;
use crate::task::log::record::Record;
use std::sync::Arc;

/// Is given every record after the store has it, in the order of each task. It runs on the loop's thread: it must not wait, or all
/// clients wait with it.
pub type Watch = Box<dyn FnMut(&TaskId, &Record) + Send>;

pub struct Watched {
    store: Box<dyn Store>,
    watch: Watch,
}

impl Watched {
    pub fn new(store: Box<dyn Store>, watch: Watch) -> Watched {
        Watched { store, watch }
    }
}

impl Store for Watched {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        self.store.create(task, brief)
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        self.store.append(task, lines, open)?;
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for record in lines.filter_map(|line| Record::read(line).ok()) {
            (self.watch)(task, &record);
        }
        Ok(())
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
}
