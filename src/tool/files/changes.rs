//! Records the files that a call changes, for the task's log. The content before and after is stored before the file is replaced, so that
//! it can be restored.

use crate::base::id::CallId;
use crate::limits::Limits;
use crate::task::log::blob::{Blobs, FileChange, FileVersion, MemoryBlobs, sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct FileChanges {
    blobs: Arc<dyn Blobs>,
    made: Mutex<Made>,
}

struct Made {
    /// Bytes that may still be stored for the task.
    room: u64,
    changes: Vec<FileChange>,
}

/// The content of a change that is about to be made.
pub(in crate::tool) struct Stored {
    before: Option<FileVersion>,
    after: FileVersion,
}

/// Keeps everything in memory.
impl Default for FileChanges {
    fn default() -> FileChanges {
        FileChanges::new(Arc::new(MemoryBlobs::default()), u64::MAX)
    }
}

impl FileChanges {
    pub fn new(blobs: Arc<dyn Blobs>, room: u64) -> FileChanges {
        FileChanges { blobs, made: Mutex::new(Made { room, changes: Vec::new() }) }
    }

    /// The changes that were made.
    pub fn take(&self) -> Vec<FileChange> {
        std::mem::take(&mut self.made().changes)
    }

    /// How many bytes may still be stored for the task.
    pub fn room(&self) -> u64 {
        self.made().room
    }

    /// Stores the content of a change. Comes before the change.
    pub(in crate::tool) fn store(&self, before: Option<&[u8]>, after: &[u8], limits: &Limits) -> Stored {
        Stored { before: before.map(|bytes| self.version(bytes, limits)), after: self.version(after, limits) }
    }

    /// The change was made; the modes are those of the old and the new file.
    pub(in crate::tool) fn add(&self, call: &CallId, root: String, path: String, stored: Stored, modes: (u32, u32)) {
        let before = stored.before.map(|version| FileVersion { mode: modes.0, ..version });
        let after = FileVersion { mode: modes.1, ..stored.after };
        self.made().changes.push(FileChange { call: call.clone(), root, path, before, after });
    }

    fn version(&self, bytes: &[u8], limits: &Limits) -> FileVersion {
        let len = bytes.len() as u64;
        let mut made = self.made();
        // The change is made even if its content cannot be stored; the log says that it cannot be restored.
        let stored = if len <= limits.blob_bytes.min(made.room) { self.blobs.put(bytes).ok() } else { None };
        made.room -= stored.as_ref().map_or(0, |_| len);
        FileVersion { unstored: stored.is_none(), sha256: stored.unwrap_or_else(|| sha256(bytes)), len, mode: 0 }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
