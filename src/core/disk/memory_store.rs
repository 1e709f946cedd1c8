//! A store in memory, for a host program whose tasks need not outlive it. Clones share the logs, so a server that is opened with a
//! clone continues them. Stored content is kept until the last clone is gone.

use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::core::disk::store::{Archive, Known, LogFile, Openness, Removal, Store, StoreError, lines_of_page};
use crate::task::log::blob::{Blobs, MemoryBlobs};
use crate::task::log::brief::Brief;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Clone, Default)]
pub struct MemoryStore {
    logs: Arc<Mutex<Logs>>,
    blobs: Arc<MemoryBlobs>,
}

#[derive(Default)]
struct Logs {
    logs: BTreeMap<TaskId, Log>,
    /// Tasks in the order of their first append.
    order: Vec<TaskId>,
}

struct Log {
    brief: Brief,
    bytes: Vec<u8>,
    open: Openness,
    /// Why it was set aside.
    damaged: Option<StoreError>,
}

impl MemoryStore {
    fn logs(&self) -> MutexGuard<'_, Logs> {
        lock(&self.logs)
    }
}

impl Logs {
    fn log(&mut self, task: &TaskId) -> Result<&mut Log, StoreError> {
        match self.logs.get_mut(task) {
            Some(Log { damaged: Some(error), .. }) => Err(error.clone()),
            Some(log) => Ok(log),
            None => Err(StoreError::gone(task)),
        }
    }
}

impl Store for MemoryStore {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        let mut logs = self.logs();
        if logs.logs.contains_key(task) {
            return Err(StoreError::new(format!("task {task} exists already")));
        }
        let empty = Log { brief: brief.clone(), bytes: Vec::new(), open: Openness::Settled, damaged: None };
        logs.logs.insert(task.clone(), empty);
        Ok(())
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        let mut logs = self.logs();
        let log = logs.log(task)?;
        let is_first = log.bytes.is_empty();
        log.bytes.extend_from_slice(lines);
        log.open = open;
        if is_first && !lines.is_empty() {
            logs.order.push(task.clone());
        }
        Ok(())
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        if let Some(log) = self.logs().logs.get_mut(task) {
            log.brief = brief.clone();
        }
    }

    fn close(&mut self, task: &TaskId) {
        let mut logs = self.logs();
        if logs.logs.get(task).is_some_and(|log| log.bytes.is_empty()) {
            logs.logs.remove(task);
        }
    }

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::new(self.clone())
    }
}

impl Archive for MemoryStore {
    fn known(&self) -> Vec<Known> {
        let logs = self.logs();
        let known = logs.order.iter().filter_map(|task| logs.logs.get_key_value(task));
        known
            .filter(|(_, log)| log.damaged.is_none())
            .map(|(task, log)| Known { task: task.clone(), brief: log.brief.clone(), open: log.open == Openness::Open })
            .collect()
    }

    fn open(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        self.logs().log(task)?;
        Ok(Arc::new(MemoryLog { task: task.clone(), store: self.clone() }))
    }

    fn remove(&self, task: &TaskId) -> Result<Removal, StoreError> {
        let mut logs = self.logs();
        if logs.logs.get(task).is_some_and(|log| log.open == Openness::Open) {
            return Ok(Removal::LeftOpen);
        }
        logs.logs.remove(task);
        logs.order.retain(|known| known != task);
        Ok(Removal::Removed)
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct MemoryLog {
    task: TaskId,
    store: MemoryStore,
}

impl LogFile for MemoryLog {
    fn sync(&self) -> Result<(), StoreError> {
        self.store.logs().log(&self.task).map(|_| ())
    }

    fn page(&self, offset: u64, max: usize) -> Result<Vec<u8>, StoreError> {
        let mut logs = self.store.logs();
        Ok(lines_of_page(&logs.log(&self.task)?.bytes, offset, max))
    }

    fn len(&self) -> u64 {
        self.store.logs().logs.get(&self.task).map_or(0, |log| log.bytes.len() as u64)
    }

    fn set_aside(&self, why: &str) -> StoreError {
        let error = StoreError::new(format!("{}: {why}", self.name()));
        if let Ok(log) = self.store.logs().log(&self.task) {
            log.damaged = Some(error.clone());
        }
        error
    }

    fn name(&self) -> String {
        format!("task {}", self.task)
    }
}
