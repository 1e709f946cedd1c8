//! A store in memory with injected faults: failed and torn writes, failed flushes, and power losses.

#![allow(dead_code, reason = "not every test that includes this file uses all of it")]

#[path = "../support/failing_blobs.rs"]
mod failing_blobs;

use failing_blobs::FailingBlobs;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::base::lock::lock;
use gemini_a2a::core::disk::memory_store::MemoryStore;
use gemini_a2a::core::disk::store::{Archive, Known, LogFile, Openness, Removal, Store, StoreError};
use gemini_a2a::task::log::blob::Blobs;
use gemini_a2a::task::log::brief::Brief;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Clones share the disk, so a second one is the server after a restart.
#[derive(Clone, Default)]
pub struct FailingStore {
    disk: Arc<Mutex<Disk>>,
    blobs: Arc<FailingBlobs>,
}

/// What a failing append leaves on the disk. In both cases it returns an error, and none of its bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing.
    Refused,
    /// Half of the bytes, which stay until the next append or until a restart cuts them.
    Torn,
}

/// How the server stops in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Everything that was written survives.
    Killed,
    /// Only what was synced survives.
    PowerLost,
}

#[derive(Default)]
struct Disk {
    memory: MemoryStore,
    /// Bytes at the end of a log that do not count.
    torn: HashMap<TaskId, Vec<u8>>,
    /// How many bytes of a log survive a power loss, and why a log cannot be synced.
    synced: HashMap<TaskId, usize>,
    unsynced: HashMap<TaskId, StoreError>,
    failing: Option<(Failure, u32)>,
    failing_syncs: u32,
    /// A sync that fails may succeed later, and only what was synced survives, as in a bucket that instances share.
    is_shared: bool,
    /// The audit: its bytes, and how many of its next writes and flushes fail.
    audit: Vec<u8>,
    failing_audit: u32,
    failing_audit_syncs: u32,
    /// How often the audit was flushed, and how many bytes of it survive a power loss.
    audit_syncs: u32,
    audit_synced: usize,
}

impl FailingStore {
    /// The next `times` appends fail.
    pub fn fail(&self, failure: Failure, times: u32) {
        self.disk().failing = Some((failure, times));
    }

    /// The next `times` syncs fail, and every later one of a log whose sync failed.
    pub fn fail_syncs(&self, times: u32) {
        self.disk().failing_syncs = times;
    }

    /// Whether syncs go to a bucket.
    #[allow(dead_code)] // Only the simulation has both kinds.
    pub fn share(&self, is_shared: bool) {
        self.disk().is_shared = is_shared;
    }

    /// The bytes of a log that clients may be shown.
    #[allow(dead_code)]
    pub fn shown_bytes(&self, task: &TaskId) -> u64 {
        let disk = self.disk();
        match disk.is_shared {
            true => disk.synced.get(task).map_or(0, |bytes| *bytes as u64),
            false => u64::MAX,
        }
    }

    /// The next `times` writes of the audit fail.
    pub fn fail_audit(&self, times: u32) {
        self.disk().failing_audit = times;
    }

    /// The next `times` flushes of the audit fail.
    pub fn fail_audit_syncs(&self, times: u32) {
        self.disk().failing_audit_syncs = times;
    }

    /// What is in the audit.
    pub fn audit(&self) -> Vec<u8> {
        self.disk().audit.clone()
    }

    /// How often the audit was flushed.
    pub fn audit_syncs(&self) -> u32 {
        self.disk().audit_syncs
    }

    /// The next `times` contents cannot be stored.
    pub fn fail_puts(&self, times: u32) {
        self.blobs.fail_puts(times);
    }

    /// The next `times` reads of stored content fail.
    pub fn fail_reads(&self, times: u32) {
        self.blobs.fail_reads(times);
    }

    /// Stops the server that uses this disk. Torn writes are lost.
    pub fn crash(&self, how: Crash) {
        let mut disk = self.disk();
        self.blobs.fail_reads(0);
        let is_shared = disk.is_shared;
        let mut after = Disk { audit: std::mem::take(&mut disk.audit), is_shared, ..Disk::default() };
        if how == Crash::PowerLost {
            after.audit.truncate(disk.audit_synced);
        }
        after.audit_synced = disk.audit_synced;
        for Known { task, brief, open } in disk.memory.known() {
            let mut bytes = disk.counting(&task);
            let written = bytes.len();
            if how == Crash::PowerLost || is_shared {
                bytes.truncate(disk.synced.get(&task).copied().unwrap_or(0));
            }
            if !bytes.is_empty() {
                // The markers of a bucket follow its segments.
                let open = open || is_shared && bytes.len() < written;
                let open = if open { Openness::Open } else { Openness::Settled };
                after.memory.create(&task, &brief).expect("it is new");
                after.memory.append(&task, &bytes, open).expect("memory takes it");
                after.synced.extend(disk.synced.remove_entry(&task));
                after.unsynced.extend(disk.unsynced.remove_entry(&task));
            }
        }
        *disk = after;
    }

    /// Everything on the disk for this task, torn bytes too.
    pub fn bytes(&self, task: &TaskId) -> Vec<u8> {
        let disk = self.disk();
        let torn = disk.torn.get(task).cloned().unwrap_or_default();
        [disk.counting(task), torn].concat()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }
}

impl Disk {
    fn next_failure(&mut self) -> Option<Failure> {
        let (failure, left) = self.failing?;
        self.failing = (left > 1).then(|| (failure, left - 1));
        (left > 0).then_some(failure)
    }

    /// The bytes of a log that count.
    fn counting(&self, task: &TaskId) -> Vec<u8> {
        self.memory.open(task).and_then(|log| log.page(0, usize::MAX)).unwrap_or_default()
    }
}

impl Store for FailingStore {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        self.disk().memory.create(task, brief)
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        self.disk().memory.update_summary(task, brief);
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.torn.remove(task);
        match disk.next_failure() {
            Some(Failure::Refused) => Err(StoreError::new("the disk is told to refuse")),
            Some(Failure::Torn) => {
                disk.torn.insert(task.clone(), lines[..lines.len() / 2].to_vec());
                Err(StoreError::new("the disk is told to tear"))
            }
            None => disk.memory.append(task, lines, open),
        }
    }

    fn append_audit(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        let mut disk = self.disk();
        if disk.failing_audit > 0 {
            disk.failing_audit -= 1;
            return Err(StoreError::new("the disk is told to refuse the audit"));
        }
        disk.audit.extend_from_slice(lines);
        Ok(())
    }

    fn close(&mut self, task: &TaskId) {
        self.disk().memory.close(task);
    }

    fn archive(&self) -> Arc<dyn Archive> {
        Arc::new(self.clone())
    }
}

impl Archive for FailingStore {
    fn known(&self) -> Vec<Known> {
        self.disk().memory.known()
    }

    fn open(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        self.disk().memory.open(task)?;
        Ok(Arc::new(FailingLog { task: task.clone(), store: self.clone() }))
    }

    fn remove(&self, task: &TaskId) -> Result<Removal, StoreError> {
        self.disk().memory.remove(task)
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    fn sync_audit(&self) -> Result<(), StoreError> {
        let mut disk = self.disk();
        if disk.failing_audit_syncs > 0 {
            disk.failing_audit_syncs -= 1;
            return Err(StoreError::new("the disk is told to fail the flush of the audit"));
        }
        disk.audit_syncs += 1;
        disk.audit_synced = disk.audit.len();
        Ok(())
    }

    fn probe(&self) -> Result<(), StoreError> {
        match self.disk().next_failure() {
            Some(_) => Err(StoreError::new("the disk is told to fail")),
            None => Ok(()),
        }
    }
}

/// A log of the present disk: after a crash it is another one.
struct FailingLog {
    task: TaskId,
    store: FailingStore,
}

impl FailingLog {
    fn log(&self) -> Result<Arc<dyn LogFile>, StoreError> {
        self.store.disk().memory.open(&self.task)
    }
}

impl LogFile for FailingLog {
    fn sync(&self) -> Result<(), StoreError> {
        let mut disk = self.store.disk();
        let fails = disk.failing_syncs > 0;
        disk.failing_syncs = disk.failing_syncs.saturating_sub(1);
        let len = disk.memory.open(&self.task)?.len() as usize;
        if fails && disk.is_shared {
            return Err(StoreError::transient("the bucket is told not to answer"));
        }
        if fails {
            disk.unsynced.insert(self.task.clone(), StoreError::new("the disk is told to fail its sync"));
        }
        if let Some(error) = disk.unsynced.get(&self.task) {
            return Err(error.clone());
        }
        disk.synced.insert(self.task.clone(), len);
        Ok(())
    }

    fn page(&self, offset: u64, max: usize) -> Result<Vec<u8>, StoreError> {
        self.log()?.page(offset, max)
    }

    fn len(&self) -> u64 {
        self.log().map_or(0, |log| log.len())
    }

    fn set_aside(&self, why: &str) -> StoreError {
        self.log().map_or_else(|error| error, |log| log.set_aside(why))
    }

    fn name(&self) -> String {
        format!("task {}", self.task)
    }
}
