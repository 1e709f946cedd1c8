//! One log on disk. The loop appends to it, the disk lane reads and syncs it, so everything here works on `&self`.
//!
//! `end` is the length of the valid bytes; bytes after it are ignored. An append moves it only when every byte was written. The bytes of a
//! failed append are truncated at once or, if that fails too, before the next append.
//!
//! Opening checks only the end of the file. A crash may leave a line without its line break: it is truncated, or gets its line break if
//! nothing else is missing. All lines before it are checked by their crc when they are read, in the disk lane and once per load; checking
//! them here as well would take time in proportion to the length of the log.

use super::file_lock::Locked;
use super::{failed, instances, private_file};
use crate::base::lock::lock;
use crate::core::disk::store::{LogFile, Openness, StoreError};
use crate::task::log::record::{BadLine, Record};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, mknodat};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// How many bytes are read at a time when looking for a line break.
const STEP: usize = 64 * 1024;

pub struct FileLog {
    path: PathBuf,
    marker: PathBuf,
    file: Locked<File>,
    /// The length of the valid bytes.
    end: AtomicU64,
    /// A write has failed, so there may be bytes after `end`.
    torn: AtomicBool,
    /// The next sync also has to flush the directory entry of the log, and of the marker.
    new_file: AtomicBool,
    new_marker: AtomicBool,
    /// Why the log was set aside, and why it cannot be synced.
    damaged: OnceLock<StoreError>,
    unsynced: OnceLock<StoreError>,
    /// Gets the message that the log was set aside.
    findings: Findings,
}

/// Messages for the operator about logs. Any thread that reads a log may find damage; the loop reports it.
#[derive(Clone, Default)]
pub struct Findings(Arc<Mutex<Vec<String>>>);

impl Findings {
    pub fn add(&self, text: String) {
        lock(&self.0).push(text);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// Locks a log; None if another server has locked it.
fn try_lock(file: File, path: &Path) -> Result<Option<Locked<File>>, StoreError> {
    match Locked::new(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(locked) => Ok(Some(locked)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(failed("lock", path, &error)),
    }
}

/// The message for a task whose log another server has locked. Clients are shown it, so it names no path. It names the addresses of the
/// servers with the same state directory. To find them, it opens their files under `instances/`.
fn in_use(path: &Path) -> String {
    let state = path.parent().and_then(Path::parent);
    let own = std::process::id();
    let others = state.map(|state| instances::living(&state.join("instances"))).unwrap_or_default();
    let urls = others.into_iter().filter(|instance| instance.pid != own).map(|instance| instance.url);
    let urls: Vec<String> = urls.filter(|url| !url.is_empty()).collect();
    let address = match urls.as_slice() {
        [] => String::new(),
        [url] => format!(" at {url}"),
        urls => format!(", one of {}", urls.join(", ")),
    };
    format!("the task is in use by another server{address}; ask that one, or stop it")
}

impl FileLog {
    /// Opens and locks an existing log and repairs its torn end.
    pub fn open(path: PathBuf, marker: PathBuf, findings: Findings) -> Result<FileLog, StoreError> {
        let file = private_file(&path, OpenOptions::new().read(true)).map_err(|e| failed("open", &path, &e))?;
        let file = try_lock(file, &path)?.ok_or_else(|| StoreError::locked(in_use(&path)))?;
        let log = FileLog::new(file, path, marker, findings);
        log.repair_end()?;
        if log.is_empty() {
            return Err(StoreError::new(format!("{} has no events: the task was never created", log.name())));
        }
        Ok(log)
    }

    /// A new log, locked; None if there is one already, or if another server is creating it. An empty file does not count: nothing was
    /// ever written to it. The loop calls this, so no file but the log itself is opened.
    pub fn create(path: PathBuf, marker: PathBuf, findings: Findings) -> Result<Option<FileLog>, StoreError> {
        let file =
            private_file(&path, OpenOptions::new().read(true).create(true)).map_err(|e| failed("create", &path, &e))?;
        let Some(file) = try_lock(file, &path)? else {
            return Ok(None);
        };
        let log = FileLog::new(file, path, marker, findings);
        let size = log.size()?;
        log.new_file.store(true, Ordering::Release);
        Ok((size == 0).then_some(log))
    }

    fn new(file: Locked<File>, path: PathBuf, marker: PathBuf, findings: Findings) -> FileLog {
        FileLog {
            path,
            marker,
            file,
            end: AtomicU64::new(0),
            torn: AtomicBool::new(false),
            new_file: AtomicBool::new(false),
            new_marker: AtomicBool::new(false),
            damaged: OnceLock::new(),
            unsynced: OnceLock::new(),
            findings,
        }
    }

    /// Appends whole lines in one write. Only the loop calls this, so no other thread moves `end`.
    pub fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.check_undamaged()?;
        if self.torn.load(Ordering::Acquire) {
            self.truncate().map_err(|e| failed("repair", &self.path, &e))?;
        }
        if lines.is_empty() {
            return Ok(());
        }
        let error = match write_whole(&self.file.0, lines) {
            Ok(()) => {
                self.end.fetch_add(lines.len() as u64, Ordering::AcqRel);
                return Ok(());
            }
            Err(error) => error,
        };
        self.torn.store(true, Ordering::Release);
        // If truncating fails too, the next append or the next open repeats it.
        let _ = self.truncate();
        Err(failed("write", &self.path, &error))
    }

    pub fn openness(&self) -> Openness {
        if self.marker.exists() { Openness::Open } else { Openness::Settled }
    }

    /// Creates the marker that tells the next start that the task is open.
    pub fn mark(&self) -> Result<(), StoreError> {
        // mknod does not open the file: the loop may open no file but the log of a new task.
        let made = mknodat(CWD, &self.marker, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0);
        if let Err(error) = made
            && error != rustix::io::Errno::EXIST
        {
            return Err(failed("create", &self.marker, &error.into()));
        }
        self.new_marker.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes the marker. False: it could not be removed; then the next start loads the task once.
    pub fn unmark(&self) -> bool {
        match fs::remove_file(&self.marker) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Removes the log and its marker. Without the log its entry in the index is ignored.
    pub fn delete(&self) -> Result<(), StoreError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("delete", &self.path, &error)),
            Ok(()) | Err(_) => {
                self.unmark();
                Ok(())
            }
        }
    }

    /// Finds the end of the last whole line and makes the file end there.
    fn repair_end(&self) -> Result<(), StoreError> {
        let size = self.size()?;
        let tail = self.after_last_break(size).map_err(|e| failed("read", &self.path, &e))?;
        self.end.store(size - tail.len() as u64, Ordering::Release);
        let Some((_, but_last)) = tail.split_last() else {
            return Ok(());
        };
        if is_whole(but_last) {
            return Err(self.set_aside("its last line break is damaged"));
        }
        if is_whole(&tail) {
            // A client may have seen this line, so it is kept.
            write_once(&self.file.0, b"\n").map_err(|e| failed("repair", &self.path, &e))?;
            self.end.store(size + 1, Ordering::Release);
            return Ok(());
        }
        self.truncate().map_err(|e| failed("repair", &self.path, &e))
    }

    /// The bytes after the last line break: none in an undamaged file.
    fn after_last_break(&self, size: u64) -> io::Result<Vec<u8>> {
        let mut tail = Vec::new();
        let mut start = size;
        while start > 0 {
            // The first step is one byte, which is nearly always the line break.
            let step = if start == size { 1 } else { STEP as u64 };
            let from = start.saturating_sub(step);
            let mut piece = vec![0; (start - from) as usize];
            self.file.0.read_exact_at(&mut piece, from)?;
            let found = piece.iter().rposition(|byte| *byte == b'\n');
            piece.drain(..found.map_or(0, |at| at + 1));
            piece.append(&mut tail);
            tail = piece;
            if found.is_some() {
                break;
            }
            start = from;
        }
        Ok(tail)
    }

    fn truncate(&self) -> io::Result<()> {
        self.file.0.set_len(self.len())?;
        self.torn.store(false, Ordering::Release);
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        Ok(self.file.0.metadata().map_err(|e| failed("look at", &self.path, &e))?.len())
    }

    fn check_undamaged(&self) -> Result<(), StoreError> {
        self.damaged.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn flush(&self) -> io::Result<()> {
        self.file.0.sync_data()?;
        for (is_new, path) in [(&self.new_file, &self.path), (&self.new_marker, &self.marker)] {
            if is_new.swap(false, Ordering::AcqRel) {
                sync_entry(path)?;
            }
        }
        Ok(())
    }
}

impl LogFile for FileLog {
    fn sync(&self) -> Result<(), StoreError> {
        self.check_undamaged()?;
        if let Some(error) = self.unsynced.get() {
            return Err(error.clone());
        }
        self.flush().map_err(|e| {
            let error = failed("flush", &self.path, &e);
            self.unsynced.get_or_init(|| error).clone()
        })
    }

    fn page(&self, offset: u64, max: usize) -> Result<Vec<u8>, StoreError> {
        self.check_undamaged()?;
        let end = self.len();
        let mut page = Vec::new();
        let mut step = max.max(1);
        loop {
            let len = page.len();
            let unread = end.saturating_sub(offset + len as u64);
            if unread == 0 {
                break;
            }
            page.resize(len + unread.min(step as u64) as usize, 0);
            self.file
                .0
                .read_exact_at(&mut page[len..], offset + len as u64)
                .map_err(|e| failed("read", &self.path, &e))?;
            let is_break = |byte: &u8| *byte == b'\n';
            // The first step returns as many lines as fit into `max`; further steps return the rest of one line that does not fit.
            let at = match len {
                0 => page.iter().rposition(is_break),
                _ => page[len..].iter().position(is_break),
            };
            if let Some(at) = at {
                page.truncate(len + at + 1);
                return Ok(page);
            }
            step = STEP;
        }
        match page.is_empty() {
            true => Ok(page),
            false => Err(self.set_aside("its last line break is missing")),
        }
    }

    fn len(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn set_aside(&self, why: &str) -> StoreError {
        let error = self.damaged.get_or_init(|| {
            // This server has locked the log, so no other one chooses a number for it.
            let aside = (1..)
                .map(|n| PathBuf::from(format!("{}.damaged-{n}", self.path.display())))
                .find(|path| !path.exists())
                .expect("some number is free");
            let outcome = match fs::rename(&self.path, &aside) {
                Ok(()) => format!("it was set aside as {}", aside.display()),
                Err(error) => format!("it could not be set aside: {error}"),
            };
            self.unmark();
            let error = StoreError::new(format!("{}: {why}; {outcome}", self.name()));
            self.findings.add(format!("the journal of a task is damaged and cannot be used: {error}"));
            error
        });
        error.clone()
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Whether nothing of the line is missing, whatever version wrote it.
fn is_whole(line: &[u8]) -> bool {
    !matches!(Record::read(line), Err(BadLine::Damaged))
}

/// Writes all bytes in one write, or returns an error.
pub fn write_whole(file: &File, bytes: &[u8]) -> io::Result<()> {
    match write_once(file, bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::StorageFull.into()),
    }
}

/// Calls write(2), again if a signal has interrupted it before it wrote anything.
fn write_once(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Flushes the directory that names `path`.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/dev/full` refuses writes, truncation and flushes.
    #[test]
    fn errors_of_the_disk_are_returned() {
        let path = Path::new("/dev/full");
        let file = private_file(path, OpenOptions::new().read(true)).unwrap();
        let file = try_lock(file, path).unwrap().expect("no other process locks it");
        let log = FileLog::new(file, path.into(), "marker".into(), Findings::default());
        let full = log.append(b"line\n").unwrap_err();
        assert!(full.message.contains("free some space"), "{full}");
        let torn = log.append(b"line\n").unwrap_err();
        assert!(torn.message.contains("could not repair"), "{torn}");
        assert_eq!(log.len(), 0);
        assert_eq!(log.page(0, 10).unwrap(), b"");
        let unsynced = log.sync().unwrap_err();
        assert!(unsynced.message.contains("could not flush"), "{unsynced}");
        assert_eq!(log.sync(), Err(unsynced));
    }
}
