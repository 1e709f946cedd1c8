//! The store on disk: one file of lines per task. Everything else can be rebuilt from those files.
//!
//! ```text
//! tasks/<task>.jsonl      the log, appended to, locked (flock) by the one server that has the task loaded
//! blobs/<2 hex>/<sha256>  content that logs name
//! outputs/<task>/         output of commands that is too long for their results; workers write it
//! open/<task>             an empty file while the task has an unfinished turn, an open question or an update for a webhook
//! index.jsonl             {"task","at","brief","end"}: a line when a task is created and each time it becomes idle
//! trial.<id>              exists only while a server checks whether it can write
//! audit/<id>.jsonl        the audit of a server, and its full parts <id>.<n>.jsonl
//! instances/<id>          locked by the living server that marks its child processes with this id; says where it listens
//! ```
//!
//! Several servers may share the directory. A log has one writer because of its lock. The index has many and is only a cache: a
//! log that it does not name is added from the log itself. An instance id belongs to the server that holds its lock, so a server that
//! starts can take over the ids of dead servers, and kill their child processes, without affecting the children of a running one.
//!
//! A marker in `open` is made before the append that opens a task and removed after the one that settles it. A crash in
//! between leaves one marker too many, which costs one load at the next start, and never one too few.

pub mod audit;
pub mod blobs;
mod file;
pub mod file_lock;
pub mod index;
pub mod instances;
pub mod observed;
pub mod saved_rules;
mod size;
#[cfg(test)]
mod tests;
pub mod user_files;
#[cfg(feature = "bucket")]
pub mod workspace_id;

use crate::base::id::{ContextId, TaskId};
use crate::base::lock::lock;
use crate::core::disk::store::{
    Archive, Excess, Known, Lasts, LogFile, Maintenance, Openness, Removal, Store, StoreError,
};
use crate::limits::{BLOB_GRACE_MS, JOURNAL_LINE_BYTES, Limits, SHORTENED_NAMED};
use crate::shell::event_loop::sys;
use crate::task::log::blob::Blobs;
use crate::task::log::brief::Brief;
use crate::task::log::record::{BadLine, Record};
use crate::task::machine::state::{State, TaskState};
use audit::AuditFile;
use blobs::FileBlobs;
use file::{FileLog, Findings};
use index::{Entry, Index, StatePaths};
use instances::Instances;
use rustix::io::Errno;
use size::DiskUsage;
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Bytes that a trial writes: more than the free rest of a block that a log has already.
const TRIAL_BYTES: usize = 8 * 1024;

/// The half of the store that the loop owns.
pub struct Journal {
    files: Arc<Files>,
    /// When unused stored content was last deleted, in Unix milliseconds.
    swept_ms: u64,
    /// Logs that were closed without a line: their tasks do not exist, and workers delete the files.
    unwritten: Vec<Arc<FileLog>>,
}

/// The half of the store that the loop shares with the disk lane.
struct Files {
    paths: StatePaths,
    markers: PathBuf,
    /// Written and removed to check whether the directory can be written.
    trial: PathBuf,
    index: Mutex<Index>,
    /// Held only for a moment, so that the loop never waits for a thread that waits for the disk.
    logs: Mutex<Logs>,
    /// Held by the thread that opens a log: a log that another thread of this process has locked would look like one of another server.
    opening: Mutex<()>,
    /// Problems that were found and are not reported yet.
    findings: Findings,
    blobs: Arc<FileBlobs>,
    /// The directory of kept output, with a directory per task.
    outputs: PathBuf,
    /// There may be stored content that no journal names.
    unswept: AtomicBool,
    audit: OnceLock<AuditFile>,
}

#[derive(Default)]
struct Logs {
    loaded: HashMap<TaskId, Loaded>,
    /// Logs of tasks that are not loaded, while the disk lane reads them. They are locked until it has read them.
    unloaded: HashMap<TaskId, Weak<FileLog>>,
}

struct Loaded {
    log: Arc<FileLog>,
    open: Openness,
    /// The entry for the index, until it is added after the first append.
    unlisted: Option<Brief>,
}

impl Journal {
    /// Opens the state directory, and creates it if it does not exist: for its owner only, before anything is in it. `instances` are the
    /// instance ids that this server has in the same directory.
    pub fn open(dir: &Path, limits: &Limits, instances: &Instances) -> Result<Journal, StoreError> {
        let (paths, markers) = (StatePaths::of(dir), dir.join("open"));
        for path in [dir, &paths.tasks, &markers] {
            private_dir(path)?;
        }
        let files = Files {
            index: Mutex::new(Index::open(paths.clone(), limits.index_stale_lines)?),
            paths,
            markers,
            trial: dir.join(format!("trial.{}", instances.own())),
            logs: Mutex::default(),
            opening: Mutex::default(),
            findings: Findings::default(),
            blobs: Arc::new(FileBlobs::open(dir.join("blobs"))?),
            outputs: dir.canonicalize().map_err(|e| failed("look at", dir, &e))?.join("outputs"),
            unswept: AtomicBool::new(true),
            audit: OnceLock::new(),
        };
        Ok(Journal { files: Arc::new(files), swept_ms: 0, unwritten: Vec::new() })
    }

    /// Sets the file of the audit. It is set once.
    pub fn keep_audit(&mut self, file: AuditFile) {
        let _ = self.files.audit.set(file);
    }

    /// The deletion of stored content that no journal names, if it is due: at the start, and after tasks were deleted.
    fn sweep(&mut self) -> Option<Maintenance> {
        let now_ms = sys::unix_ms();
        if now_ms < self.swept_ms + BLOB_GRACE_MS || !self.files.unswept.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.swept_ms = now_ms;
        let files = self.files.clone();
        Some(Maintenance(Box::new(move || {
            let swept = files.blobs.sweep(&files.paths.tasks).and_then(|()| files.sweep_outputs());
            swept.map_err(|e| StoreError::new(format!("content that no task names could not be deleted: {e}")))
        })))
    }
}

impl Files {
    fn load(&self, task: &TaskId) -> Result<Arc<FileLog>, StoreError> {
        let _opening = lock(&self.opening);
        if let Some(loaded) = lock(&self.logs).loaded.get(task) {
            return Ok(loaded.log.clone());
        }
        let log = self.unloaded(task)?;
        // Read while the log is locked: no other server changes it.
        let open = log.openness();
        lock(&self.logs).loaded.insert(task.clone(), Loaded { log: log.clone(), open, unlisted: None });
        Ok(log)
    }

    /// The log of a task that is not loaded. It is not opened again while another thread reads it.
    fn unloaded(&self, task: &TaskId) -> Result<Arc<FileLog>, StoreError> {
        let (path, marker) = self.log_and_marker(task)?;
        let open = lock(&self.logs).unloaded.remove(task);
        match open.and_then(|log| log.upgrade()) {
            Some(log) => Ok(log),
            None => Ok(Arc::new(FileLog::open(path, marker, self.findings.clone())?)),
        }
    }

    fn audit(&self) -> Result<&AuditFile, StoreError> {
        self.audit.get().ok_or_else(|| StoreError::new("this server keeps no audit"))
    }

    /// Reports logs that are shorter than the index says: whole lines are missing at their end, which the remaining lines do not show. Such
    /// a log can be used.
    fn find_shortened(&self, entries: &[Entry]) {
        let shortened = entries.iter().filter_map(|entry| {
            let path = self.paths.log(entry.task.as_str());
            let (size, end) = (fs::metadata(&path).ok()?.len(), entry.end?);
            (size < end).then_some((path, size, end))
        });
        let mut shortened = shortened.collect::<Vec<_>>().into_iter();
        for (path, size, end) in shortened.by_ref().take(SHORTENED_NAMED) {
            self.findings.add(format!(
                "the journal {} has {size} bytes and had {end}: its last events are lost. The disk may have lost them with \
                 a power failure, or somebody may have changed the file; the task goes on from what is left",
                path.display()
            ));
        }
        if shortened.len() > 0 {
            self.findings.add(format!("{} more journals are shorter than they were", shortened.len()));
        }
    }

    /// Deletes kept output of deleted tasks: their server died before it had deleted it.
    fn sweep_outputs(&self) -> io::Result<()> {
        let deleted = names(&self.outputs).filter(|task| !self.paths.log(task).exists());
        deleted.map(|task| self.outputs.join(task)).try_for_each(fs::remove_dir_all)
    }

    /// The paths of the log and the marker of a task. An error if its id is not a plain file name.
    fn log_and_marker(&self, task: &TaskId) -> Result<(PathBuf, PathBuf), StoreError> {
        let id = task.as_str();
        if !is_file_name(id) {
            return Err(StoreError::new(format!(
                "{id:?} cannot be the id of a task: use 1 to 128 letters, digits, - and _"
            )));
        }
        Ok((self.paths.log(id), self.markers.join(id)))
    }
}

impl Logs {
    /// Remembers the log of a task that is not loaded, for as long as a thread reads it.
    fn remember_unloaded(&mut self, task: &TaskId, log: &Arc<FileLog>) {
        self.unloaded.retain(|_, log| log.strong_count() > 0);
        self.unloaded.insert(task.clone(), Arc::downgrade(log));
    }
}

impl Store for Journal {
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        let (path, marker) = self.files.log_and_marker(task)?;
        let mut logs = lock(&self.files.logs);
        if logs.loaded.contains_key(task) {
            return Err(exists(task));
        }
        let log = FileLog::create(path, marker, self.files.findings.clone())?.ok_or_else(|| exists(task))?;
        let loaded = Loaded { log: Arc::new(log), open: Openness::Settled, unlisted: Some(brief.clone()) };
        logs.loaded.insert(task.clone(), loaded);
        Ok(())
    }

    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError> {
        let mut logs = lock(&self.files.logs);
        let not_open = || StoreError::new(format!("the journal of task {task} is not open"));
        let loaded = logs.loaded.get_mut(task).ok_or_else(not_open)?;
        if open == Openness::Open && loaded.open == Openness::Settled {
            loaded.log.mark()?;
            loaded.open = Openness::Open;
        }
        loaded.log.append(lines)?;
        if open == Openness::Settled && loaded.open == Openness::Open && loaded.log.unmark() {
            loaded.open = Openness::Settled;
        }
        if let Some(brief) = loaded.unlisted.take_if(|_| !lines.is_empty()) {
            let end = loaded.log.len();
            lock(&self.files.index).add(entry(task, brief, Some(end)));
        }
        Ok(())
    }

    fn append_audit(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        self.files.audit()?.append(lines)
    }

    fn update_summary(&mut self, task: &TaskId, brief: &Brief) {
        let end = lock(&self.files.logs).loaded.get(task).map(|loaded| loaded.log.len());
        lock(&self.files.index).update(entry(task, brief.clone(), end));
    }

    fn close(&mut self, task: &TaskId) {
        let mut logs = lock(&self.files.logs);
        if let Some(loaded) = logs.loaded.remove(task) {
            logs.remember_unloaded(task, &loaded.log);
            if loaded.log.is_empty() {
                self.unwritten.push(loaded.log);
            }
        }
    }

    fn archive(&self) -> Arc<dyn Archive> {
        self.files.clone()
    }

    fn take_maintenance(&mut self) -> Option<Maintenance> {
        if !self.unwritten.is_empty() {
            let logs = std::mem::take(&mut self.unwritten);
            return Some(Maintenance(Box::new(move || logs.iter().try_for_each(|log| log.delete()))));
        }
        if self.files.audit.get().is_some_and(AuditFile::is_full) {
            let files = self.files.clone();
            return Some(Maintenance(Box::new(move || files.audit()?.roll())));
        }
        let maintenance = lock(&self.files.index).take_maintenance();
        maintenance.or_else(|| self.sweep())
    }

    fn has_unwritten_summaries(&self) -> bool {
        lock(&self.files.index).has_pending()
    }

    fn findings(&mut self) -> Vec<String> {
        self.files.findings.take()
    }
}

impl Archive for Files {
    fn known(&self) -> Vec<Known> {
        let mut unlisted: HashSet<String> = names(&self.paths.tasks)
            .filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()))
            .filter(|id| is_file_name(id))
            .collect();
        let mut entries = lock(&self.index).read();
        entries.retain(|entry| unlisted.remove(entry.task.as_str()));
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for id in unlisted {
            match read_entry(&self.paths.log(&id), &id) {
                Ok(entry) => found.extend(entry),
                // The task is listed, so that a request for it is answered with the problem.
                Err(why) => {
                    self.findings.add(format!("the journal {} {why}", self.paths.log(&id).display()));
                    let brief = Brief { state: TaskState::Failed, ..Brief::bare(ContextId::from("")) };
                    damaged.push(Entry { task: id.as_str().into(), at: 0, brief, end: None });
                }
            }
        }
        self.find_shortened(&entries);
        found.sort_by(|a, b| (a.at, &a.task).cmp(&(b.at, &b.task)));
        lock(&self.index).add_all(&found);
        let maintenance = lock(&self.index).take_maintenance();
        if let Some(maintenance) = maintenance {
            // Clients are not served yet, so this may take time. If it fails, only the next start takes longer.
            let _ = (maintenance.0)();
        }
        entries.append(&mut damaged);
        entries.append(&mut found);
        entries.sort_by_key(|entry| entry.at);
        let open: HashSet<String> = names(&self.markers).collect();
        let known = entries.into_iter().map(|entry| Known {
            open: open.contains(entry.task.as_str()),
            task: entry.task,
            brief: entry.brief,
        });
        known.collect()
    }

    fn open(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        Ok(self.load(task)?)
    }

    fn lend(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        let _opening = lock(&self.opening);
        if let Some(loaded) = lock(&self.logs).loaded.get(task) {
            return Ok(loaded.log.clone());
        }
        let log = self.unloaded(task)?;
        lock(&self.logs).remember_unloaded(task, &log);
        Ok(log)
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    fn outputs(&self) -> Option<PathBuf> {
        Some(self.outputs.clone())
    }

    fn excess(&self, most: u64, kept: &HashSet<TaskId>) -> Result<Excess, StoreError> {
        let (paths, markers, outputs, blobs) = (&self.paths, &*self.markers, &*self.outputs, &*self.blobs.dir);
        let excess = DiskUsage { paths, markers, outputs, blobs }.excess(most, kept);
        excess.map_err(|e| StoreError::new(format!("the size of the state directory could not be found out: {e}")))
    }

    fn remove(&self, task: &TaskId) -> Result<Removal, StoreError> {
        let (path, marker) = self.log_and_marker(task)?;
        if !lock(&self.logs).loaded.contains_key(task) && marker.exists() {
            return Ok(Removal::LeftOpen);
        }
        // Locked, so that no other server writes to it.
        let log = match self.load(task) {
            Ok(log) => log,
            Err(_) if !path.exists() => return Ok(Removal::Removed),
            Err(error) => return Err(error),
        };
        log.delete()?;
        // Kept output that cannot be deleted is deleted by a later sweep.
        let _ = fs::remove_dir_all(self.outputs.join(task.as_str()));
        lock(&self.logs).loaded.remove(task);
        self.unswept.store(true, Ordering::Release);
        lock(&self.index).remove(task);
        Ok(Removal::Removed)
    }

    fn sync_audit(&self) -> Result<(), StoreError> {
        self.audit()?.sync()
    }

    fn reopen_audit(&self) -> Result<(), StoreError> {
        self.audit()?.reopen()
    }

    fn probe(&self) -> Result<(), StoreError> {
        let path = &self.trial;
        let written = private_file(path, OpenOptions::new().create(true))
            .and_then(|file| file::write_whole(&file, &[b'\n'; TRIAL_BYTES]));
        // This also removes a file that an earlier trial could not remove.
        let _ = fs::remove_file(path);
        written.map_err(|e| failed("write", path, &e))
    }
}

/// The entry of a task at this time.
fn entry(task: &TaskId, brief: Brief, end: Option<u64>) -> Entry {
    Entry { task: task.clone(), at: sys::unix_ms(), brief, end }
}

/// The entry of a log that the index does not name, made by folding the whole log. None if the log has no event; an error says why
/// the log cannot be used.
fn read_entry(path: &Path, id: &str) -> Result<Option<Entry>, String> {
    let damaged = || "is damaged: its task cannot be used; replay shows what can be read of it".to_owned();
    let mut lines = BufReader::new(File::open(path).map_err(|_| damaged())?);
    let (mut at, mut end) = (0, 0);
    let mut state: Option<State> = None;
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(JOURNAL_LINE_BYTES).read_until(b'\n', &mut line);
        // An incomplete last line was never acknowledged.
        let (Ok(read), Some(line)) = (read, line.strip_suffix(b"\n")) else {
            let brief = state.as_ref().map(Brief::of);
            return Ok(brief.map(|brief| Entry { task: id.into(), at, brief, end: Some(end) }));
        };
        end += read as u64;
        let record = Record::read(line).map_err(|bad| match bad {
            BadLine::Damaged => damaged(),
            BadLine::Unknown(why) => format!("was not read: {why}"),
        })?;
        if state.is_none() {
            at = record.at;
        }
        let state = State::advance(&mut state, &record);
        state.filter(|state| state.created.task.as_str() == id).ok_or_else(damaged)?;
    }
}

fn is_file_name(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| failed("make", path, &e))?;
    let metadata = fs::metadata(path).map_err(|e| failed("look at", path, &e))?;
    if metadata.uid() != sys::effective_uid() || metadata.mode() & 0o022 != 0 {
        return Err(StoreError::new(format!(
            "{}: others may write there; make it yours alone (chown, chmod 700) or choose another directory",
            path.display()
        )));
    }
    Ok(())
}

/// A file that only its owner can use, opened for appending, without following a link.
fn private_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.append(true).mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32).open(path)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "make it writable for this user",
        io::ErrorKind::NotFound => "it may have been moved or removed",
        _ if Errno::from_io_error(error) == Some(Errno::MFILE) => "raise the limit on open files (ulimit -n)",
        _ => "check the disk",
    };
    let hint = format!("{error}; {advice}");
    // Too many open files: more can be opened when some are closed.
    let lasts = match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Lasts::Shortly,
        Some(_) | None => Lasts::Long,
    };
    let message = format!("could not {what} {}: {hint}", path.display());
    StoreError { message, hint: Some(hint), lasts }
}

fn exists(task: &TaskId) -> StoreError {
    StoreError::new(format!("task {task} exists already; use another id"))
}
