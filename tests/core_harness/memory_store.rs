//! A store in memory, whose disk can be told to fail, tear and lose power.

#[path = "../support/memory_blobs.rs"]
pub mod memory_blobs;

use gemini_a2a::base::id::TaskId;
use gemini_a2a::core::disk::store::{Archive, Known, LogFile, Openness, Removal, Store, StoreError};
use gemini_a2a::task::log::blob::Blobs;
use gemini_a2a::task::log::brief::Brief;
use memory_blobs::MemoryBlobs;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clones share the disk, so a second one is the server after a restart.
#[derive(Clone, Default)]
pub struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
    blobs: Arc<MemoryBlobs>,
}

/// What a failing append leaves behind. Either way it is an error, and nothing of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing: the disk refused.
    Refused,
    /// Half of the bytes, which stay until the next append or until a restart cuts them.
    Torn,
}

/// How the server stops in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// What was written is there.
    Killed,
    /// Only what was synced is there.
    PowerLost,
}

#[derive(Default)]
struct Disk {
    logs: BTreeMap<TaskId, Kept>,
    /// Tasks in the order of their first append.
    order: Vec<TaskId>,
    failing: Option<(Failure, u32)>,
    failing_syncs: u32,
}

struct Kept {
    brief: Brief,
    bytes: Vec<u8>,
    /// How many of the bytes count, and how many survive a power loss.
    end: usize,
    synced: usize,
    open: Openness,
    /// Why it was set aside, and why it cannot be synced.
    damaged: Option<StoreError>,
    unsynced: Option<StoreError>,
}

impl MemoryStore {
    /// The next `times` appends fail.
    pub fn fail(&self, failure: Failure, times: u32) {
        self.disk().failing = Some((failure, times));
    }

    /// The next `times` syncs fail, and every later one of a log whose sync failed.
    pub fn fail_syncs(&self, times: u32) {
        self.disk().failing_syncs = times;
    }

    /// The next `times` reads of stored content fail.
    pub fn fail_reads(&self, times: u32) {
        self.blobs.fail_reads(times);
    }

    /// Stops the server that used this disk. What it had not written whole is gone.
    pub fn crash(&self, how: Crash) {
        let mut disk = self.disk();
        disk.failing = None;
        disk.failing_syncs = 0;
        self.blobs.fail_reads(0);
        for log in disk.logs.values_mut() {
            if how == Crash::PowerLost {
                log.end = log.synced;
            }
            log.bytes.truncate(log.end);
        }
        disk.logs.retain(|_, log| !log.bytes.is_empty());
        let Disk { logs, order, .. } = &mut *disk;
        order.retain(|task| logs.contains_key(task));
    }

    /// Everything on the disk for this task, torn bytes too.
    pub fn bytes(&self, task: &TaskId) -> Vec<u8> {
        match self.disk().logs.get(task) {
            Some(log) => log.bytes.clone(),
            None => Vec::new(),
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn log(&mut self, task: &TaskId) -> Result<&mut Kept, StoreError> {
        match self.logs.get_mut(task) {
            Some(Kept { damaged: Some(error), .. }) => Err(error.clone()),
            Some(log) => Ok(log),
            None => Err(StoreError::new(format!("task {task}: there is no log"))),
        }
    }

    fn next_failure(&mut self) -> Option<Failure> {
        let (failure, left) = self.failing?;
        self.failing = (left > 1).then(|| (failure, left - 1));
        (left > 0).then_some(failure)
    }
}

impl Store for MemoryStore {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        let mut disk = self.disk();
        if disk.logs.contains_key(task) {
            return Err(StoreError::new(format!("task {task} exists already")));
        }
        let empty = Kept {
            brief: brief.clone(),
            bytes: Vec::new(),
            end: 0,
            synced: 0,
            open: Openness::Settled,
            damaged: None,
            unsynced: None,
        };
        disk.logs.insert(task.clone(), empty);
        Ok(())
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        if let Some(log) = self.disk().logs.get_mut(task) {
            log.brief = brief.clone();
        }
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        let mut disk = self.disk();
        let failure = disk.next_failure();
        let log = disk.log(task)?;
        log.bytes.truncate(log.end);
        match failure {
            Some(Failure::Refused) => Err(StoreError::new("the disk is told to refuse")),
            Some(Failure::Torn) => {
                log.bytes.extend_from_slice(&lines[..lines.len() / 2]);
                Err(StoreError::new("the disk is told to tear"))
            }
            None => {
                log.bytes.extend_from_slice(lines);
                let first = log.end == 0;
                log.end = log.bytes.len();
                log.open = open;
                if first && !lines.is_empty() {
                    disk.order.push(task.clone());
                }
                Ok(())
            }
        }
    }

    fn close(&mut self, _: &TaskId) {}

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::new(self.clone())
    }
}

impl Archive for MemoryStore {
    fn known(&self) -> Vec<Known> {
        let disk = self.disk();
        disk.order
            .iter()
            .filter_map(|task| disk.logs.get_key_value(task))
            .filter(|(_, log)| log.damaged.is_none())
            .map(|(task, log)| Known { task: task.clone(), brief: log.brief.clone(), open: log.open == Openness::Open })
            .collect()
    }

    fn open(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        self.disk().log(task)?;
        Ok(Arc::new(MemoryLog { task: task.clone(), store: self.clone() }))
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    fn remove(&self, task: &TaskId) -> Result<Removal, StoreError> {
        let mut disk = self.disk();
        if disk.logs.get(task).is_some_and(|log| log.open == Openness::Open) {
            return Ok(Removal::LeftOpen);
        }
        disk.logs.remove(task);
        disk.order.retain(|known| known != task);
        Ok(Removal::Removed)
    }

    fn probe(&self) -> Result<(), StoreError> {
        match self.disk().next_failure() {
            Some(_) => Err(StoreError::new("the disk is told to fail")),
            None => Ok(()),
        }
    }
}

struct MemoryLog {
    task: TaskId,
    store: MemoryStore,
}

impl LogFile for MemoryLog {
    fn sync(&self) -> Result<(), StoreError> {
        let mut disk = self.store.disk();
        let fails = disk.failing_syncs > 0;
        disk.failing_syncs = disk.failing_syncs.saturating_sub(1);
        let log = disk.log(&self.task)?;
        if fails {
            log.unsynced = Some(StoreError::new("the disk is told to fail its sync"));
        }
        if let Some(error) = &log.unsynced {
            return Err(error.clone());
        }
        log.synced = log.end;
        Ok(())
    }

    fn page(&self, offset: u64, max: usize) -> Result<Vec<u8>, StoreError> {
        let mut disk = self.store.disk();
        let log = disk.log(&self.task)?;
        let rest = log.bytes[..log.end].get(offset as usize..).unwrap_or_default();
        let mut page = Vec::new();
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            if !page.is_empty() && page.len() + line.len() > max {
                break;
            }
            page.extend_from_slice(line);
        }
        Ok(page)
    }

    fn len(&self) -> u64 {
        match self.store.disk().logs.get(&self.task) {
            Some(log) => log.end as u64,
            None => 0,
        }
    }

    fn set_aside(&self, why: &str) -> StoreError {
        let error = StoreError::new(format!("{}: {why}", self.name()));
        if let Ok(log) = self.store.disk().log(&self.task) {
            log.damaged = Some(error.clone());
        }
        error
    }

    fn name(&self) -> String {
        format!("task {}", self.task)
    }
}
