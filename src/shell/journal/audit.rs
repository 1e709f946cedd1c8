//! The files of the audit: `audit/<instance>.jsonl` in the state directory, and before it the parts that are full,
//! `<instance>.1.jsonl`, `<instance>.2.jsonl` and so on. The chain of hashes goes on from part to part, and from one run of the server to
//! the next that has the same id.
//!
//! The loop appends. Workers flush, begin the next part and open the file again; while they wait for the disk they hold no lock that the
//! loop needs.

use super::file::{sync_entry, write_whole};
use super::file_lock::Locked;
use super::{failed, names, private_dir, private_file};
use crate::base::lock::lock;
use crate::core::disk::store::StoreError;
use crate::limits::audit::AUDIT_LINE_BYTES;
use crate::task::audit::Head;
use crate::task::audit::chain;
use rustix::fs::FlockOperation;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

pub struct AuditFile {
    dir: PathBuf,
    instance: String,
    /// The length at which the next part is begun.
    part_bytes: u64,
    current: Mutex<Current>,
    /// Held by the worker that flushes, begins the next part or opens the file again: one at a time, because one that flushes what
    /// another one has just flushed must not return before that is done.
    worker: Mutex<()>,
    /// Why it cannot be flushed any more.
    unsynced: OnceLock<StoreError>,
}

/// The result of opening an audit.
pub struct Opened {
    pub file: AuditFile,
    /// The number and the hash of its last line.
    pub head: Head,
    /// How many bytes of an incomplete last line were cut off.
    pub torn: u64,
}

struct Current {
    file: Arc<Locked<File>>,
    /// The length of the valid bytes.
    end: u64,
    /// A write has failed, so there may be bytes after `end`.
    torn: bool,
    /// Earlier parts that were not flushed yet.
    unflushed: Vec<Arc<Locked<File>>>,
    /// The directory has entries that were not flushed.
    new_entries: bool,
    /// The length at which a worker is to begin the next part.
    roll_at: u64,
}

impl AuditFile {
    /// Opens the audit of a server in its state directory, creates it if it does not exist, and cuts off an incomplete last line.
    pub fn open(state: &Path, instance: &str, part_bytes: u64) -> Result<Opened, StoreError> {
        let dir = state.join("audit");
        private_dir(&dir)?;
        let path = dir.join(part_name(instance, None));
        let file = open_locked(&path)?;
        let looked_at = |e: io::Error| failed("read", &path, &e);
        let size = file.0.metadata().map_err(looked_at)?.len();
        let tail = tail(&file.0, size).map_err(looked_at)?;
        let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let torn = (tail.len() - end) as u64;
        if torn > 0 {
            file.0.set_len(size - torn).map_err(|e| failed("repair", &path, &e))?;
        }
        let last = match last_line(&tail[..end]) {
            Some(line) => Some((path.clone(), line.to_vec())),
            None => last_of_parts(&dir, instance)?,
        };
        let head = match last {
            Some((path, line)) => head_of(&path, &line)?,
            None => Head::default(),
        };
        let current = Current {
            file: Arc::new(file),
            end: size - torn,
            torn: false,
            unflushed: Vec::new(),
            new_entries: true,
            roll_at: part_bytes,
        };
        let file = AuditFile {
            dir,
            instance: instance.to_owned(),
            part_bytes,
            current: Mutex::new(current),
            worker: Mutex::default(),
            unsynced: OnceLock::new(),
        };
        Ok(Opened { file, head, torn })
    }

    /// Appends whole lines in one write. The bytes of a failed write are cut off at once or, if that fails too, before the next write.
    pub fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        let mut current = lock(&self.current);
        let path = self.path();
        if current.torn {
            current.truncate().map_err(|e| failed("repair", &path, &e))?;
        }
        match write_whole(&current.file.0, lines) {
            Ok(()) => {
                current.end += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                current.torn = true;
                let _ = current.truncate();
                Err(failed("write", &path, &error))
            }
        }
    }

    /// Flushes what was appended before the call. After a failure it fails for good: the system may have dropped the bytes.
    pub fn sync(&self) -> Result<(), StoreError> {
        let _worker = lock(&self.worker);
        self.flush()
    }

    fn flush(&self) -> Result<(), StoreError> {
        if let Some(error) = self.unsynced.get() {
            return Err(error.clone());
        }
        let (files, full, new_entries) = {
            let mut current = lock(&self.current);
            let files = [current.unflushed.clone(), vec![current.file.clone()]].concat();
            (files, current.unflushed.len(), std::mem::take(&mut current.new_entries))
        };
        let flushed = files.iter().try_for_each(|file| file.0.sync_data());
        let flushed = flushed.and_then(|()| if new_entries { sync_entry(&self.path()) } else { Ok(()) });
        match flushed {
            Ok(()) => {
                lock(&self.current).unflushed.drain(..full);
                Ok(())
            }
            Err(error) => {
                let error = failed("flush", &self.path(), &error);
                Err(self.unsynced.get_or_init(|| error).clone())
            }
        }
    }

    /// Whether a worker should begin the next part. True only once per part.
    pub fn is_full(&self) -> bool {
        let mut current = lock(&self.current);
        let is_full = current.end >= current.roll_at;
        if is_full {
            // If beginning the next part fails, it is tried again when the file has grown some more.
            current.roll_at = current.end + self.part_bytes / 16;
        }
        is_full
    }

    /// Begins the next part.
    pub fn roll(&self) -> Result<(), StoreError> {
        let _worker = lock(&self.worker);
        let path = self.path();
        let next = self.dir.join(format!("{}.next", self.instance));
        let fresh = open_locked(&next)?;
        fresh.0.set_len(0).map_err(|e| failed("write", &next, &e))?;
        let number = numbers(&self.dir, &self.instance).last().map_or(1, |last| last + 1);
        let full = self.dir.join(part_name(&self.instance, Some(number)));
        // The loop appends to the full part until `replace`, whatever its name is.
        fs::rename(&path, &full).map_err(|e| failed("rename", &path, &e))?;
        if let Err(error) = fs::rename(&next, &path) {
            // A start that finds no file goes on from the last part, so it does not matter if this fails too.
            let _ = fs::rename(&full, &path);
            return Err(failed("rename", &next, &error));
        }
        self.replace(fresh);
        self.flush()
    }

    /// Opens the file again if somebody moved it away: then the chain goes on in a new one.
    pub fn reopen(&self) -> Result<(), StoreError> {
        let _worker = lock(&self.worker);
        let path = self.path();
        let in_place = fs::metadata(&path).ok().map(|found| (found.dev(), found.ino()));
        let current = lock(&self.current).file.clone();
        let own = current.0.metadata().map_err(|e| failed("look at", &path, &e))?;
        if in_place == Some((own.dev(), own.ino())) {
            return Ok(());
        }
        let fresh = open_locked(&path)?;
        let size = fresh.0.metadata().map_err(|e| failed("look at", &path, &e))?.len();
        if size > 0 {
            let message = "is not the file that this server began; move it away and send HUP again";
            return Err(StoreError::new(format!("{} {message}", path.display())));
        }
        self.replace(fresh);
        Ok(())
    }

    /// Makes an empty file the one that is appended to.
    fn replace(&self, fresh: Locked<File>) {
        let mut current = lock(&self.current);
        let before = std::mem::replace(&mut current.file, Arc::new(fresh));
        let torn_at = current.torn.then_some(current.end);
        current.unflushed.push(before.clone());
        (current.end, current.torn, current.new_entries, current.roll_at) = (0, false, true, self.part_bytes);
        drop(current);
        if let Some(end) = torn_at {
            let _ = before.0.set_len(end);
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(part_name(&self.instance, None))
    }
}

impl Current {
    fn truncate(&mut self) -> io::Result<()> {
        self.file.0.set_len(self.end)?;
        self.torn = false;
        Ok(())
    }
}

fn open_locked(path: &Path) -> Result<Locked<File>, StoreError> {
    let file = private_file(path, OpenOptions::new().read(true).create(true));
    let file = file.map_err(|e| failed("open", path, &e))?;
    Locked::new(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            StoreError::locked(format!("{}: another process has locked this audit", path.display()))
        }
        _ => failed("lock", path, &error),
    })
}

fn part_name(instance: &str, number: Option<u64>) -> String {
    match number {
        Some(number) => format!("{instance}.{number}.jsonl"),
        None => format!("{instance}.jsonl"),
    }
}

/// The server and the number of a part, by the name of its file. The part that is being written has no number.
pub fn part_of(name: &str) -> Option<(&str, Option<u64>)> {
    let name = name.strip_suffix(".jsonl")?;
    match name.rsplit_once('.') {
        Some((instance, number)) => Some((instance, Some(number.parse().ok()?))),
        None => Some((name, None)),
    }
}

/// The numbers of the parts that are full, in order.
fn numbers(dir: &Path, instance: &str) -> Vec<u64> {
    let all = names(dir).filter_map(|name| part_of(&name).filter(|(of, _)| *of == instance)?.1);
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    all
}

/// The last line of the newest full part, if there is one.
fn last_of_parts(dir: &Path, instance: &str) -> Result<Option<(PathBuf, Vec<u8>)>, StoreError> {
    let Some(number) = numbers(dir, instance).pop() else {
        return Ok(None);
    };
    let path = dir.join(part_name(instance, Some(number)));
    let read = |path: &Path| {
        let file = File::open(path)?;
        tail(&file, file.metadata()?.len())
    };
    let tail = read(&path).map_err(|e| failed("read", &path, &e))?;
    Ok(last_line(&tail).map(|line| (path, line.to_vec())))
}

/// The end of a file: long enough to contain the whole last line and an incomplete one after it.
fn tail(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let from = size.saturating_sub(2 * AUDIT_LINE_BYTES);
    let mut tail = vec![0; (size - from) as usize];
    file.read_exact_at(&mut tail, from)?;
    Ok(tail)
}

/// The last line of whole lines, without its line break.
fn last_line(lines: &[u8]) -> Option<&[u8]> {
    let lines = lines.strip_suffix(b"\n")?;
    Some(lines.iter().rposition(|byte| *byte == b'\n').map_or(lines, |at| &lines[at + 1..]))
}

fn head_of(path: &Path, line: &[u8]) -> Result<Head, StoreError> {
    let entry = chain::read(line).map_err(|bad| {
        StoreError::new(format!(
            "{}: the last line is bad: {bad}. Look at the file with gemini-a2a audit verify; move it away to begin a new chain",
            path.display()
        ))
    })?;
    Ok(Head { n: entry.n, hash: entry.hash })
}

#[cfg(test)]
mod tests;
