//! The store in a bucket, which several instances share. The protocol is in `bucket/`; here worker threads run its procedures for the event
//! loop.
//!
//! The event loop appends lines to memory. A sync in a worker thread writes them as a segment, and only then does the core show them to
//! clients. Local files of tasks (blobs and long outputs of commands) are below `cache/<instance>` in the state directory. They are not
//! needed after the process has ended.

mod audit_copy;
mod blobs;
mod derived;
mod log;
mod member;
mod removal;

use crate::a2a::Tools;
use crate::base::id::{ContextId, Seq, TaskId};
use crate::base::lock::lock;
use crate::bucket::instance::Times;
use crate::bucket::lifecycle::markers::Marker;
use crate::bucket::lifecycle::scan::Scanned;
use crate::bucket::ownership::inbox::{Address, Sent};
use crate::bucket::port::block_on;
use crate::bucket::replica::{Phase, Replica};
use crate::bucket::{Bucket, Expect, Meta, names};
use crate::core::disk::shared::{InboxEntry, InstanceStatus, SharedArchive};
use crate::core::disk::store::{Archive, Known, Lasts, LogFile, Maintenance, Openness, Removal, Store, StoreError};
use crate::limits::BLOB_GRACE_MS;
use crate::limits::store::LOGS_KEPT;
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::sys;
use crate::shell::journal::audit::AuditFile;
use crate::shell::journal::blobs::FileBlobs;
use crate::task::access::Partition;
use crate::task::log::blob::Blobs;
use crate::task::log::brief::Brief;
use audit_copy::AuditCopy;
use blobs::BucketBlobs;
use derived::Indexed;
pub(super) use derived::summary;
use log::SharedLog;
use member::{Member, store_error};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// The file in the cache that has the id of its instance.
const INSTANCE: &str = "instance";

/// The part of the store that the event loop owns.
pub struct BucketStore {
    tasks: Arc<SharedTasks>,
    last_sweep_ms: u64,
}

/// The part of the store that the event loop shares with the workers.
pub struct SharedTasks {
    member: Arc<Member>,
    content: Arc<BucketBlobs>,
    outputs: PathBuf,
    /// One log per task. The lock is never held during a request.
    logs: Mutex<HashMap<TaskId, CachedLog>>,
    /// Summaries to write, each not before a time in Unix milliseconds.
    summaries: Mutex<HashMap<TaskId, (u64, Brief)>>,
    /// The index, once it was read.
    indexed: Mutex<Option<HashMap<TaskId, Indexed>>>,
    audit: OnceLock<Audit>,
    /// The built-in tools for the projections, once they are known.
    tools: Arc<OnceLock<Tools>>,
}

/// The audit log, and its lines that are still to be copied into the bucket.
struct Audit {
    file: AuditFile,
    copy: Mutex<AuditCopy>,
}

struct CachedLog {
    log: Arc<SharedLog>,
    /// A counter of when the event loop stopped using the log, for ordering; `None` while the loop uses it.
    unused_since: Option<u64>,
}

impl BucketStore {
    /// Joins the instances of a bucket. `dir` is the state directory; `ids` are this server's id in it, followed by the ids of servers that have
    /// ended.
    pub fn open(
        bucket: Arc<dyn Bucket>,
        times: Times,
        url: Option<String>,
        (dir, ids): (&Path, &[&str]),
        log: Log,
    ) -> Result<BucketStore, StoreError> {
        let member = Member::join(bucket, times, url, log)?;
        let caches: Vec<PathBuf> = ids.iter().map(|id| dir.join("cache").join(id)).collect();
        for cache in &caches {
            // That server has ended, so the other instances need not wait until its heartbeat is old.
            if let Ok(ended) = fs::read_to_string(cache.join(INSTANCE)) {
                member.delete_heartbeat(&ended);
            }
            let _ = fs::remove_dir_all(cache);
        }
        let cache = &caches[0];
        let files = FileBlobs::open(cache.join("blobs"))?;
        // If this fails, the other instances notice the death of this server later.
        let _ = fs::write(cache.join(INSTANCE), member.id().as_str());
        let tasks = SharedTasks {
            content: Arc::new(BucketBlobs::new(files, member.clone())),
            member,
            outputs: std::path::absolute(cache.join("outputs")).unwrap_or_else(|_| cache.join("outputs")),
            logs: Mutex::default(),
            summaries: Mutex::default(),
            indexed: Mutex::default(),
            audit: OnceLock::new(),
            tools: Arc::default(),
        };
        Ok(BucketStore { tasks: Arc::new(tasks), last_sweep_ms: sys::unix_ms() })
    }

    /// The random id of this run of the program.
    pub fn instance(&self) -> Arc<str> {
        self.tasks.member.id().as_str().into()
    }

    /// The cell for the built-in tools. Until it is set, no projections are written for other programs.
    pub fn tools(&self) -> Arc<OnceLock<Tools>> {
        self.tasks.tools.clone()
    }

    /// Also writes the audit log, to a file in the state directory. The last line in that file has the number `head`.
    pub fn keep_audit(&mut self, file: AuditFile, head: u64) {
        let copy = Mutex::new(AuditCopy::new(self.tasks.member.id().as_str(), head));
        // This is called only once.
        let _ = self.tasks.audit.set(Audit { file, copy });
    }
}

impl Store for BucketStore {
    fn create(&mut self, task: &TaskId, _: &Brief) -> Result<(), StoreError> {
        let mut logs = lock(&self.tasks.logs);
        if logs.contains_key(task) {
            return Err(StoreError::new(format!("task {task} exists already; use another id")));
        }
        logs.insert(task.clone(), CachedLog { log: self.tasks.new_log(task), unused_since: None });
        Ok(())
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], _: Openness) -> Result<(), StoreError> {
        let mut logs = lock(&self.tasks.logs);
        let cached =
            logs.get_mut(task).ok_or_else(|| StoreError::new(format!("the log of task {task} is not open")))?;
        cached.unused_since = None;
        cached.log.append(lines);
        Ok(())
    }

    fn append_audit(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        let audit = self.tasks.audit()?;
        audit.file.append(lines)?;
        lock(&audit.copy).add(lines, sys::boot_ms());
        Ok(())
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        lock(&self.tasks.summaries).insert(task.clone(), (0, brief.clone()));
    }

    fn close(&mut self, task: &TaskId) {
        let mut logs = lock(&self.tasks.logs);
        let last = logs.values().filter_map(|cached| cached.unused_since).max().unwrap_or_default();
        if let Some(cached) = logs.get_mut(task) {
            cached.unused_since = Some(last + 1);
        }
    }

    fn archive(&self) -> Arc<dyn Archive> {
        self.tasks.clone()
    }

    fn take_maintenance(&mut self) -> Option<Maintenance> {
        let tasks = self.tasks.clone();
        if tasks.audit.get().is_some_and(|audit| audit.file.is_full()) {
            return Some(Maintenance(Box::new(move || tasks.audit()?.file.roll())));
        }
        if tasks.audit.get().is_some_and(|audit| lock(&audit.copy).is_due(sys::boot_ms())) {
            return Some(Maintenance(Box::new(move || tasks.copy_audit().map(drop))));
        }
        if let Some((task, brief)) = tasks.next_summary() {
            return Some(Maintenance(Box::new(move || tasks.update_derived(&task, &brief))));
        }
        if sys::unix_ms() < self.last_sweep_ms + BLOB_GRACE_MS {
            return None;
        }
        self.last_sweep_ms = sys::unix_ms();
        Some(Maintenance(Box::new(move || {
            let swept = tasks.content.sweep();
            swept.map_err(|error| StoreError::new(format!("old content could not be deleted: {error}")))
        })))
    }
}

impl SharedTasks {
    fn new_log(&self, task: &TaskId) -> Arc<SharedLog> {
        Arc::new(SharedLog::new(task.clone(), self.member.clone(), self.content.clone()))
    }

    /// The log of a task in this process. Creates it if there is none.
    fn log(&self, task: &TaskId) -> Arc<SharedLog> {
        let mut logs = lock(&self.logs);
        let unused_since = logs.values().filter_map(|cached| cached.unused_since).max().unwrap_or_default() + 1;
        let made = || CachedLog { log: self.new_log(task), unused_since: Some(unused_since) };
        logs.entry(task.clone()).or_insert_with(made).log.clone()
    }

    /// Drops unused logs from memory beyond the limit, the longest unused first.
    fn drop_unused_logs(&self) {
        let mut logs = lock(&self.logs);
        let is_unused = |cached: &CachedLog| Arc::strong_count(&cached.log) == 1 && !cached.log.has_unsynced();
        let mut unused: Vec<(u64, TaskId)> = logs
            .iter()
            .filter(|(_, cached)| is_unused(cached))
            .filter_map(|(task, cached)| Some((cached.unused_since?, task.clone())))
            .collect();
        unused.sort_unstable();
        let many = unused.len().saturating_sub(LOGS_KEPT);
        for (_, task) in unused.drain(..many) {
            logs.remove(&task);
            self.content.forget(&task);
        }
    }

    fn drop_log(&self, task: &TaskId) {
        lock(&self.logs).remove(task);
        self.content.forget(task);
    }

    fn audit(&self) -> Result<&Audit, StoreError> {
        self.audit.get().ok_or_else(|| StoreError::new("this server keeps no audit"))
    }

    /// Writes the next lines of the audit log into the bucket. Returns whether there were any.
    fn copy_audit(&self) -> Result<bool, StoreError> {
        let copy = &self.audit()?.copy;
        let Some(part) = lock(copy).take() else {
            return Ok(false);
        };
        let put = self.member.bucket.put(&part.name, &part.bytes, &Meta::new(), &Expect::Absent);
        // Only this instance writes these names, so an existing object is an earlier attempt of this one.
        lock(copy).sent(put.is_ok(), sys::boot_ms());
        match put {
            Ok(_) => Ok(true),
            Err(error) => Err(StoreError::new(format!("the audit was not copied into the bucket: {error}"))),
        }
    }

    /// Reads the log of a task to its end. If the task does not exist, drops its log from memory.
    fn read(&self, task: &TaskId) -> Result<Arc<SharedLog>, StoreError> {
        self.member.check()?;
        let log = self.log(task);
        let read = log.read_on(&mut log.view());
        if read.as_ref().is_err_and(|error| error.lasts == Lasts::Gone) {
            self.drop_log(task);
        }
        read.map(|()| log)
    }

    /// Handles a marker of unfinished work. Returns whether this process owns the task and the task is not at rest.
    fn handle_marker(&self, marker: &Marker) -> Result<bool, StoreError> {
        let (log, instance) = (self.log(&marker.task), &self.member.hasty);
        let Some(mut view) = log.idle_view().filter(|view| !view.is_unloaded) else {
            return Ok(false);
        };
        // For a task that this process owns, it deletes obsolete markers itself.
        if instance.owns(&view) || log.has_unsynced() {
            let (status, is_written) = (view.replica.status(), !log.has_unsynced());
            let is_obsolete = status.is_settled() && marker.seq <= view.tail && is_written;
            drop(view);
            if is_obsolete {
                block_on(instance.delete_marker(&marker.task, marker.seq));
            }
            // An earlier claim succeeded although its response was lost. A reader has found it in the log, but the event loop does not know.
            let is_unfinished = !status.is_settled() && !status.released;
            return Ok(is_unfinished && status.phase != Phase::Paused && is_written);
        }
        let scanned = block_on(instance.scan(&mut view, marker, |owner| self.member.silent_version(owner)));
        log.take_applied(&mut view);
        let (is_over, phase) = (view.is_unloaded, view.replica.status().phase);
        drop(view);
        if is_over || phase == Phase::Deleted {
            self.drop_log(&marker.task);
        }
        Ok(scanned.map_err(store_error)? == Scanned::Won)
    }
}

impl Archive for SharedTasks {
    /// No tasks at startup: [`SharedArchive::summaries`] reads them in a worker.
    fn known(&self) -> Vec<Known> {
        Vec::new()
    }

    fn open(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        let log = self.log(task);
        if log.is_unread() {
            return self.refresh(task);
        }
        Ok(log)
    }

    fn refresh(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        let log = self.read(task)?;
        log.clear_void();
        self.schedule_outdated_summary(&log);
        if let Some(cached) = lock(&self.logs).get_mut(task) {
            cached.unused_since = None;
        }
        self.drop_unused_logs();
        Ok(log)
    }

    fn lend(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        Ok(self.read(task)?)
    }

    fn shared(&self) -> Option<&dyn SharedArchive> {
        Some(self)
    }

    fn end(&self) {
        while self.copy_audit() == Ok(true) {}
        self.member.leave();
        let _ = self.outputs.parent().map(fs::remove_dir_all);
    }

    fn remove(&self, task: &TaskId) -> Result<Removal, StoreError> {
        let log = self.log(task);
        match self.delete(&log) {
            Err(error) if error.lasts == Lasts::Gone => {}
            deleted => deleted?,
        }
        self.delete_derived(&log);
        // Files that cannot be deleted now are deleted with the cache.
        let _ = fs::remove_dir_all(self.outputs.join(task.as_str()));
        drop(log);
        self.drop_log(task);
        Ok(Removal::Removed)
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.content.clone()
    }

    fn outputs(&self) -> Option<PathBuf> {
        Some(self.outputs.clone())
    }

    fn sync_audit(&self) -> Result<(), StoreError> {
        self.audit()?.file.sync()
    }

    fn reopen_audit(&self) -> Result<(), StoreError> {
        self.audit()?.file.reopen()
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.member.check()
    }
}

impl SharedArchive for SharedTasks {
    fn status(&self) -> InstanceStatus {
        self.member.standing()
    }

    fn scan(&self) -> Result<Vec<TaskId>, StoreError> {
        self.member.note_scan();
        let mut claimed = Vec::new();
        for marker in block_on(self.member.hasty.markers()).map_err(store_error)? {
            // A marker that fails is handled again at the next scan.
            if self.handle_marker(&marker).unwrap_or_default() && !claimed.contains(&marker.task) {
                claimed.push(marker.task.clone());
            }
        }
        self.drop_unused_logs();
        Ok(claimed)
    }

    fn follow(&self, task: &TaskId, after: Seq) -> Result<Vec<u8>, StoreError> {
        self.member.check()?;
        let log = self.log(task);
        log.read_on(&mut log.view())?;
        Ok(log.lines_after(after))
    }

    fn next_request(&self, task: &TaskId) -> Result<Option<InboxEntry>, StoreError> {
        let log = self.log(task);
        let Some(view) = log.idle_view().filter(|view| !view.is_unloaded) else {
            return Err(StoreError::transient(format!("the log of task {task} is being read or written")));
        };
        let next = block_on(self.member.hasty.next_request(&view)).map_err(store_error)?;
        Ok(next.map(|(n, request)| InboxEntry { n, request }))
    }

    fn send(&self, task: &TaskId, request: &Arc<[u8]>) -> Result<(), StoreError> {
        let address = Address::of(&self.log(task).view());
        match block_on(self.member.patient.send(&address, request)).map_err(store_error)? {
            Sent::Accepted(_) => Ok(()),
            Sent::Gone => Err(StoreError::gone(task)),
            Sent::Full => Err(StoreError::transient("too many requests wait for the instance that works on the task")),
        }
    }

    fn latest(&self, partition: &Partition, context: &ContextId) -> Result<Option<TaskId>, StoreError> {
        let folder = names::context(&partition.tenant, &partition.owner, context);
        for entry in block_on(self.member.patient.context(&folder)).map_err(store_error)? {
            match self.read(&entry.task) {
                Ok(_) => return Ok(Some(entry.task)),
                Err(error) if error.lasts == Lasts::Gone => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn summaries(&self) -> Result<Vec<Known>, StoreError> {
        self.read_index()
    }
}

#[cfg(test)]
mod tests;
