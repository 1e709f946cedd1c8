//! One file with a summary of every task, so that a start need not open every log. It is only a cache: a task that is missing here
//! is added from its log, a line without the right checksum is skipped, and of several lines about a task the last one counts.
//!
//! Lines are appended, one when a task is created and one each time it becomes idle, so most lines become stale. When too many
//! are, the lines that count are written over the start of the file, and the file is truncated after them. After a crash in between,
//! each task has its newest line or none, because where that is overwritten, so are its older ones; the checksum rejects the line at the
//! border, which may have the beginning of one line and the end of another.
//!
//! Other servers may append at the same time, so writers and readers hold the lock of the file. The loop, if it cannot
//! get the lock or the disk is full, does not wait: its lines stay pending and are appended later. A rewrite, in the disk lane, waits.

use super::file::write_whole;
use super::file_lock::Locked;
use super::{failed, private_file};
use crate::base::crc::{is_whole, write_line};
use crate::base::id::TaskId;
use crate::core::disk::store::{Maintenance, StoreError};
use crate::limits::{INDEX_LOCK_PAUSE, INDEX_LOCK_TRIES};
use crate::task::log::brief::Brief;
use rustix::fs::{FlockOperation, OFlags};
use rustix::thread::{Timespec, nanosleep};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub task: TaskId,
    /// When the line was made, in Unix milliseconds; in the first line of a task that is when it was created.
    pub at: u64,
    pub brief: Brief,
    /// The length of the log in bytes. A log only grows, so one that is shorter now has lost events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

pub struct Index {
    paths: StatePaths,
    file: File,
    /// Entries that are not written yet, the last one of each task.
    pending: BTreeMap<TaskId, Entry>,
    /// Lines that a later line replaces. Lines that other servers append after the start are not counted, here and below.
    stale_lines: usize,
    /// The last lines of tasks that exist.
    live_lines: usize,
    /// If there are more stale lines the file is rewritten.
    most_stale_lines: usize,
}

/// Paths in the state directory.
#[derive(Clone, Debug)]
pub struct StatePaths {
    pub index: PathBuf,
    /// The directory of the logs.
    pub tasks: PathBuf,
}

impl StatePaths {
    /// The paths in this state directory.
    pub fn of(state: &Path) -> StatePaths {
        StatePaths { index: state.join("index.jsonl"), tasks: state.join("tasks") }
    }

    pub fn log(&self, id: &str) -> PathBuf {
        self.tasks.join(format!("{id}.jsonl"))
    }
}

impl Index {
    pub fn open(paths: StatePaths, most_stale_lines: usize) -> Result<Index, StoreError> {
        Ok(Index {
            file: open(&paths.index).map_err(|e| failed("open", &paths.index, &e))?,
            paths,
            pending: BTreeMap::new(),
            stale_lines: 0,
            live_lines: 0,
            most_stale_lines,
        })
    }

    /// The last entry of each task whose log exists. An index that cannot be read, or that another server keeps locked, counts as
    /// empty.
    pub fn read(&mut self) -> Vec<Entry> {
        let bytes = read_index(&self.paths);
        let entries = live_entries(&bytes, &self.paths).unwrap_or_default();
        self.live_lines = entries.len();
        self.stale_lines = lines(&bytes).count() - self.live_lines;
        entries
    }

    /// Adds a task.
    pub fn add(&mut self, entry: Entry) {
        self.live_lines += 1;
        self.pending.insert(entry.task.clone(), entry);
        self.flush_pending();
    }

    /// Whether entries wait to be written.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds several.
    pub fn add_all(&mut self, entries: &[Entry]) {
        self.live_lines += entries.len();
        let pending = entries.iter().map(|entry| (entry.task.clone(), entry.clone()));
        self.pending.extend(pending);
        self.flush_pending();
    }

    /// Replaces the entry of a task.
    pub fn update(&mut self, entry: Entry) {
        self.stale_lines += 1;
        self.pending.insert(entry.task.clone(), entry);
        self.flush_pending();
    }

    /// Removes the pending entry of a task whose log was deleted, and counts its line as stale.
    pub fn remove(&mut self, task: &TaskId) {
        self.pending.remove(task);
        self.stale_lines += 1;
        self.live_lines = self.live_lines.saturating_sub(1);
    }

    /// Maintenance that rewrites the file, if there are too many stale lines and more stale than live ones: otherwise rewriting a large file
    /// saves too little.
    pub fn take_maintenance(&mut self) -> Option<Maintenance> {
        self.flush_pending();
        if self.stale_lines <= self.most_stale_lines.max(self.live_lines) {
            return None;
        }
        // If rewriting fails it is tried again after the same number of stale lines.
        self.stale_lines = 0;
        let paths = self.paths.clone();
        Some(Maintenance(Box::new(move || rewrite(&paths).map_err(|e| failed("rewrite", &paths.index, &e)))))
    }

    /// Appends the pending entries, if that is possible now.
    fn flush_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        // A failure is not reported: appending is tried again, and if it never succeeds the next start finds the task by its log.
        if self.append().is_ok() {
            self.pending.clear();
        }
    }

    fn append(&mut self) -> io::Result<()> {
        let locked = Locked::new(&self.file, FlockOperation::NonBlockingLockExclusive)?;
        let mut lines = Vec::new();
        // An incomplete line, left by a short write or a crash, gets a line break; readers skip it.
        if !ends_whole(locked.0)? {
            lines.push(b'\n');
        }
        for entry in self.pending.values() {
            write_line(&mut lines, entry);
        }
        write_whole(locked.0, &lines)
    }
}

/// The last entry of each task whose log exists. For threads other than the loop: it needs no lock of this process.
pub fn entries(paths: &StatePaths) -> Vec<Entry> {
    live_entries(&read_index(paths), paths).unwrap_or_default()
}

/// The content of the index; empty if it cannot be read or another server keeps it locked.
fn read_index(paths: &StatePaths) -> Vec<u8> {
    let read = open(&paths.index).and_then(|file| read_from(lock_to_read(&file)?.0, 0));
    read.unwrap_or_default()
}

/// Rewrites the file with one line per task.
fn rewrite(paths: &StatePaths) -> io::Result<()> {
    // Not opened for appending: then every write would be at the end.
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&paths.index)?;
    let _locked = Locked::new(&file, FlockOperation::LockExclusive)?;
    let mut lines = Vec::new();
    for entry in live_entries(&read_from(&file, 0)?, paths)? {
        write_line(&mut lines, &entry);
    }
    if file.write_at(&lines, 0)? < lines.len() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    // A power failure must not leave a file that is cut and has its old beginning.
    file.sync_data()?;
    file.set_len(lines.len() as u64)
}

/// The last entry of each task whose log exists, in the order and with the time of the first entry.
fn live_entries(bytes: &[u8], paths: &StatePaths) -> io::Result<Vec<Entry>> {
    let mut positions: HashMap<TaskId, usize> = HashMap::new();
    let mut entries: Vec<Entry> = Vec::new();
    let whole = lines(bytes).filter(|line| is_whole(line));
    for entry in whole.filter_map(|line| serde_json::from_slice::<Entry>(line).ok()) {
        match positions.get(&entry.task) {
            Some(at) => {
                entries[*at].brief = entry.brief;
                entries[*at].end = entry.end;
            }
            None => {
                positions.insert(entry.task.clone(), entries.len());
                entries.push(entry);
            }
        }
    }
    // Listed after the lines were read: a task has a log before it has a line.
    let mut logs = HashSet::new();
    for file in fs::read_dir(&paths.tasks)? {
        logs.insert(paths.tasks.join(file?.file_name()));
    }
    entries.retain(|entry| logs.contains(&paths.log(entry.task.as_str())));
    Ok(entries)
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn open(path: &Path) -> io::Result<File> {
    private_file(path, OpenOptions::new().read(true).create(true))
}

fn read_from(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn ends_whole(file: &File) -> io::Result<bool> {
    let len = file.metadata()?.len();
    let last = read_from(file, len.saturating_sub(1))?;
    Ok(matches!(last.last(), None | Some(b'\n')))
}

/// Tries for a limited time: another server may append or rewrite, and one that was stopped keeps the lock.
fn lock_to_read(file: &File) -> io::Result<Locked<&File>> {
    let pause = Timespec::try_from(INDEX_LOCK_PAUSE).map_err(io::Error::other)?;
    for _ in 0..INDEX_LOCK_TRIES {
        match Locked::new(file, FlockOperation::NonBlockingLockShared) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = nanosleep(&pause);
            }
            result => return result,
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// The index of this state directory, if another process keeps it locked for longer than a start waits.
pub fn locked_by_another(state: &Path) -> Option<PathBuf> {
    let path = StatePaths::of(state).index;
    let file = File::open(&path).ok()?;
    match lock_to_read(&file) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(path),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests;
