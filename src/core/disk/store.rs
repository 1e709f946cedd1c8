//! The interface of the store of task logs. The implementation with files is in the shell; `memory_store` has one in memory.
//!
//! A store has two halves. The loop owns the [`Store`]: it creates logs and appends to them and to the index, into the page cache,
//! never with a flush. Whatever may wait for the disk goes through the [`Archive`], which other threads use on behalf of a
//! [`StoreRequest`](crate::core::disk::request::StoreRequest). A log is bytes to both; that the bytes are journal lines matters
//! only to [`read_all`] and [`fold`].

use crate::base::id::{Seq, TaskId};
use crate::core::disk::shared::SharedArchive;
use crate::limits::Limits;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::blob::Blobs;
use crate::task::log::brief::Brief;
use crate::task::log::record::{BadLine, Record};
use crate::task::machine::state::State;
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The loop's half: nothing here may wait for the disk, and only `create` may open a file.
pub trait Store: Send {
    /// Makes an empty log. The task is not known to a later start before its first append.
    fn create(&mut self, task: &TaskId, brief: &Brief) -> Result<(), StoreError>;

    /// Appends whole lines to a log that was created or opened; `open` says whether the task is open after them. All or nothing:
    /// after an error nothing of it counts, and the same bytes may be given again.
    fn append(&mut self, task: &TaskId, lines: &[u8], open: Openness) -> Result<(), StoreError>;

    /// Appends whole lines to the audit, in one write. All or nothing, as [`Store::append`].
    fn append_audit(&mut self, _lines: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::no_audit())
    }

    /// Stores the summary that lists show of a task that is not in memory. Called when a task becomes idle. A summary that is lost in a
    /// crash does no harm, because tasks that were left open are loaded at the next start.
    fn update_summary(&mut self, task: &TaskId, brief: &Brief);

    /// Closes the log of a task that was unloaded: its lock and descriptor are released with the last [`LogFile`] of it. A log without
    /// lines is deleted, as maintenance.
    fn close(&mut self, task: &TaskId);

    /// The other half.
    fn archive(&self) -> Arc<dyn Archive>;

    /// Warnings for the operator that were found since the last call: logs that are damaged or have lost events.
    fn findings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Maintenance that has become necessary since the last call. A worker does it, because it waits for the disk. If it fails or is
    /// never done, that costs only space and time.
    fn take_maintenance(&mut self) -> Option<Maintenance> {
        None
    }

    /// Whether summaries could not be written yet. The next [`Store::take_maintenance`] tries again.
    fn has_unwritten_summaries(&self) -> bool {
        false
    }
}

/// The half that waits for the disk.
pub trait Archive: Send + Sync {
    /// The tasks there are, in the order of their creation. Tasks that another server has loaded are among them.
    fn known(&self) -> Vec<Known>;

    /// A log, opened and locked if it was not already.
    fn open(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError>;

    /// A log that is only read while a task that continues it is loaded: its lock is released with the last [`LogFile`] of it.
    fn lend(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        self.open(task)
    }

    /// Deletes a log, unless another server has it. A log that does not exist counts as deleted.
    fn remove(&self, task: &TaskId) -> Result<Removal, StoreError>;

    /// As [`Archive::open`], with everything that other instances have appended by now.
    fn refresh(&self, task: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
        self.open(task)
    }

    /// The operations of a store that several instances share; None if it is not shared.
    fn shared(&self) -> Option<&dyn SharedArchive> {
        None
    }

    /// The server has written its last event and ends.
    fn end(&self) {}

    /// Content that is stored beside the logs, which name it by its hash.
    fn blobs(&self) -> Arc<dyn Blobs>;

    /// The directory for files of tasks: each task has a directory of its name there, which is deleted with its log.
    fn outputs(&self) -> Option<PathBuf> {
        None
    }

    /// How much is stored, and the tasks to delete so that at most `most` bytes are left: the oldest that are over, then the oldest that
    /// are idle, but none of `kept`.
    fn excess(&self, _most: u64, _kept: &HashSet<TaskId>) -> Result<Excess, StoreError> {
        Ok(Excess::default())
    }

    /// Flushes the audit, as [`LogFile::sync`] a log.
    fn sync_audit(&self) -> Result<(), StoreError> {
        Err(StoreError::no_audit())
    }

    /// Opens the file of the audit again if it was moved or deleted.
    fn reopen_audit(&self) -> Result<(), StoreError> {
        Err(StoreError::no_audit())
    }

    /// Finds out whether a log could be written now, by a write of which nothing remains.
    fn probe(&self) -> Result<(), StoreError>;
}

/// How much is stored, and what to delete of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excess {
    pub bytes: u64,
    pub delete: Vec<TaskId>,
}

/// The result of [`Archive::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// It is still there: a server that died has left the task open.
    LeftOpen,
}

/// Maintenance of the store, which a worker does.
pub struct Maintenance(pub Box<dyn FnOnce() -> Result<(), StoreError> + Send>);

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maintenance")
    }
}

/// One log, shared between threads.
pub trait LogFile: Send + Sync {
    /// Flushes what was appended before the call. After a failure it fails until the log is closed: after a failed flush the
    /// system may have dropped the bytes, and a second flush that succeeds would prove nothing. In a shared store
    /// ([`ShownWhen::Synced`]) an error that lasts [`Lasts::Shortly`] is none of these: the same flush is tried again.
    fn sync(&self) -> Result<(), StoreError>;

    /// The same for a caller that has appended events up to `upto`. Returns the last event that is flushed for certain: a log that waits
    /// before it flushes also flushes what is appended meanwhile.
    fn sync_upto(&self, upto: Seq) -> Result<Seq, StoreError> {
        self.sync().map(|()| upto)
    }

    /// Whole lines from the line start `offset` on: about `max` bytes, but at least one line; nothing at the end.
    fn page(&self, offset: u64, max: usize) -> Result<Vec<u8>, StoreError>;

    /// The length of the log. Bytes of an append that failed do not count.
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The log is damaged: moves it aside for the operator, and refuses every further use of it with the error returned here.
    fn set_aside(&self, why: &str) -> StoreError;

    /// Its name in messages.
    fn name(&self) -> String;
}

/// [`LogFile::page`] of a log that is in memory.
pub fn lines_of_page(log: &[u8], offset: u64, max: usize) -> Vec<u8> {
    let rest = usize::try_from(offset).ok().and_then(|offset| log.get(offset..)).unwrap_or_default();
    let mut page = Vec::new();
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        if !page.is_empty() && page.len() + line.len() > max {
            break;
        }
        page.extend_from_slice(line);
    }
    page
}

/// A task in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub task: TaskId,
    pub brief: Brief,
    /// It is [`Openness::Open`].
    pub open: bool,
}

/// Whether a task has an unfinished turn, an open question, or a delivery to a webhook that is due. Open tasks are loaded when the server
/// starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openness {
    Open,
    Settled,
}

/// What must have happened to an event before clients are shown it and jobs start on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShownWhen {
    /// It survives the death of this process: it was appended.
    #[default]
    Written,
    /// It survives the loss of this machine, and no other instance has claimed the task: it was synced. For stores that several instances
    /// share.
    Synced,
}

/// What failed, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    pub message: String,
    /// What is wrong and what to do, without names of files and tasks: `/health` shows it.
    pub hint: Option<String>,
    pub lasts: Lasts,
}

/// Whether the same may work later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// Until the operator mends it.
    Long,
    /// Until another process unlocks the log. As the result of a sync of a shared store: another instance has claimed the task, and
    /// what was not synced is void.
    WhileLocked,
    /// Too many files are open, the queue is full, or the disk failed to read. Nothing is known to be lost.
    Shortly,
    /// For ever: there is no such log, so the task does not exist.
    Gone,
}

impl StoreError {
    pub fn new(message: impl Into<String>) -> StoreError {
        StoreError { message: message.into(), hint: None, lasts: Lasts::Long }
    }

    pub fn locked(message: impl Into<String>) -> StoreError {
        StoreError { lasts: Lasts::WhileLocked, ..StoreError::new(message) }
    }

    pub fn transient(message: impl Into<String>) -> StoreError {
        StoreError { lasts: Lasts::Shortly, ..StoreError::new(message) }
    }

    pub fn gone(task: &TaskId) -> StoreError {
        StoreError { lasts: Lasts::Gone, ..StoreError::new(format!("there is no task {task}")) }
    }

    fn no_audit() -> StoreError {
        StoreError::new("this store keeps no audit; use the store in files, or leave --audit out")
    }

    /// The error for a client that cannot be shown a task because of it.
    pub fn into_fault(self) -> Fault {
        match self.lasts {
            Lasts::Long | Lasts::WhileLocked | Lasts::Gone => Fault::new(FaultKind::Storage, self.message),
            Lasts::Shortly => Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, self.message),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

/// Calls `each` with every record of a log, in order and without gaps. A damaged line sets the log aside; a line of a newer version is an
/// error and stays where it is, for that version to read.
pub fn read_all(file: &dyn LogFile, each: &mut dyn FnMut(Record)) -> Result<(), StoreError> {
    let page_bytes = Limits::default().page_bytes;
    let mut offset = 0;
    let mut expected = Seq(1);
    loop {
        let page = file.page(offset, page_bytes)?;
        if page.is_empty() {
            return Ok(());
        }
        for line in page.split_inclusive(|byte| *byte == b'\n') {
            let record = match Record::read(line.strip_suffix(b"\n").unwrap_or(line)) {
                Ok(record) => record,
                Err(BadLine::Damaged) => {
                    return Err(file.set_aside(&format!("the line at byte {offset} is damaged")));
                }
                Err(BadLine::Unknown(why)) => {
                    return Err(StoreError::new(format!(
                        "{}: the line at byte {offset} is unknown: {why}",
                        file.name()
                    )));
                }
            };
            if record.seq != expected {
                let why = format!("event {expected} is missing at byte {offset}: event {} is there", record.seq);
                return Err(file.set_aside(&why));
            }
            expected = expected.next();
            offset += line.len() as u64;
            each(record);
        }
    }
}

/// The state of a task according to its log, or its state after the event `upto`.
pub fn fold(file: &dyn LogFile, upto: Option<Seq>) -> Result<State, StoreError> {
    let mut state = None;
    let mut in_place = true;
    read_all(file, &mut |record| {
        if upto.is_none_or(|upto| record.seq <= upto) {
            in_place &= State::advance(&mut state, &record).is_some();
        }
    })?;
    state.filter(|_| in_place).ok_or_else(|| StoreError::new("the journal does not begin with its task"))
}

#[cfg(test)]
mod tests;
