//! Records the files that a call changes, for the task's log. The content before and after is stored before the file is replaced, so that
//! it can be restored.

use crate::base::id::CallId;
use crate::limits::Limits;
use crate::task::log::blob::{Blobs, FileChange, FileVersion, sha256};
use crate::tool::files::put::Written;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// The default stores no content.
#[derive(Default)]
pub struct FileChanges {
    blobs: Option<Arc<dyn Blobs>>,
    /// Bytes that may still be stored for the task.
    room: Cell<u64>,
    made: RefCell<Vec<FileChange>>,
    /// The content that calls of a batch propose for files, by real path. Later calls of the batch are prepared as if it was written.
    proposed: RefCell<HashMap<String, Vec<u8>>>,
}

/// The versions of a file before and after a change. There is none before it if the file did not exist.
pub(in crate::tool) type Versions = (Option<FileVersion>, FileVersion);

impl FileChanges {
    pub fn new(blobs: Arc<dyn Blobs>, room: u64) -> FileChanges {
        FileChanges { blobs: Some(blobs), room: Cell::new(room), ..FileChanges::default() }
    }

    /// Stores no content of files.
    pub fn without_content(room: u64) -> FileChanges {
        FileChanges { room: Cell::new(room), ..FileChanges::default() }
    }

    /// The changes that were made.
    pub fn take(&self) -> Vec<FileChange> {
        self.made.take()
    }

    /// How many bytes may still be stored for the task.
    pub fn room(&self) -> u64 {
        self.room.get()
    }

    /// Records the content that a call would write.
    pub(in crate::tool) fn propose(&self, path: String, content: Vec<u8>) {
        self.proposed.borrow_mut().insert(path, content);
    }

    /// The content that earlier calls of the batch would have written to the file.
    pub(in crate::tool) fn proposed(&self, path: &str) -> Option<Vec<u8>> {
        self.proposed.borrow().get(path).cloned()
    }

    /// Stores the content of a change. Must be called before the change is made.
    pub(in crate::tool) fn store(&self, before: Option<&[u8]>, after: &[u8], limits: &Limits) -> Versions {
        (before.map(|bytes| self.version(bytes, limits)), self.version(after, limits))
    }

    /// Records a change that was made.
    pub(in crate::tool) fn add(
        &self,
        call: &CallId,
        (root, path): (String, String),
        stored: Versions,
        written: Written,
    ) {
        let Written { modes, dirs } = written;
        let before = stored.0.map(|version| FileVersion { mode: modes.0, ..version });
        let after = FileVersion { mode: modes.1, ..stored.1 };
        self.made.borrow_mut().push(FileChange { call: call.clone(), root, path, before, after, dirs });
    }

    fn version(&self, bytes: &[u8], limits: &Limits) -> FileVersion {
        let len = bytes.len() as u64;
        let blobs = self.blobs.as_ref().filter(|_| len <= limits.blob_bytes.min(self.room()));
        // The change is made even if its content cannot be stored; the log says that it cannot be restored.
        let stored = blobs.and_then(|blobs| blobs.put(bytes).ok());
        self.room.set(self.room() - stored.as_ref().map_or(0, |_| len));
        FileVersion { unstored: stored.is_none(), sha256: stored.unwrap_or_else(|| sha256(bytes)), len, mode: 0 }
    }
}
