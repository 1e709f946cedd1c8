//! Content that is stored beside the logs under its SHA-256: files before and after an edit, long texts, media. Logs refer to it, and
//! everybody who may read a log may read the content that the log refers to.

#[cfg(test)]
#[allow(clippy::duplicate_mod, reason = "the harness of the core includes it too, also outside of this crate")]
#[path = "../../../tests/support/failing_blobs.rs"]
pub mod failing_blobs;

use crate::base::id::CallId;
use crate::base::json;
use crate::base::lock::lock;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

/// A store of content. Every method may wait for the disk, so only worker threads use it.
pub trait Blobs: Send + Sync {
    /// Stores the bytes durably and returns their SHA-256 in hex. Content that is already stored is not written again.
    fn put(&self, bytes: &[u8]) -> io::Result<String>;

    /// At most `max` bytes from `from` on, and the length of the whole content.
    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)>;
}

pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A store in memory.
#[derive(Default)]
pub struct MemoryBlobs {
    stored: Mutex<HashMap<String, Vec<u8>>>,
}

impl Blobs for MemoryBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let sha256 = sha256(bytes);
        lock(&self.stored).insert(sha256.clone(), bytes.to_vec());
        Ok(sha256)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        let stored = lock(&self.stored);
        let bytes = stored.get(sha256).ok_or(io::ErrorKind::NotFound)?;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        Ok((bytes[from..].iter().take(max).copied().collect(), bytes.len() as u64))
    }
}

/// A reference to stored content in a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    pub sha256: String,
    pub bytes: u64,
}

impl BlobRef {
    /// Stores the bytes.
    pub fn put(blobs: &dyn Blobs, bytes: &[u8]) -> io::Result<BlobRef> {
        Ok(BlobRef { sha256: blobs.put(bytes)?, bytes: bytes.len() as u64 })
    }

    /// Reads the whole content and checks its hash, because a file may be missing, truncated or changed.
    pub fn read(&self, blobs: &dyn Blobs) -> io::Result<Vec<u8>> {
        let most = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let (bytes, _) = blobs.read(&self.sha256, 0, most)?;
        match sha256(&bytes) == self.sha256 {
            true => Ok(bytes),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")),
        }
    }
}

/// Whether an error means that the content is missing or damaged. After any other error it may be readable later.
pub fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | InvalidData | UnexpectedEof)
}

/// The change of a file by a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileChange {
    pub call: CallId,
    /// The real path of the workspace, and the real path of the file relative to it.
    pub root: String,
    pub path: String,
    /// None: there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileVersion>,
    pub after: FileVersion,
    /// How many directories were created for the file: the innermost ones.
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub dirs: usize,
}

impl FileChange {
    pub fn versions(&self) -> impl Iterator<Item = &FileVersion> {
        self.before.iter().chain([&self.after])
    }
}

/// The content and the permissions of a file at some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileVersion {
    pub sha256: String,
    pub len: u64,
    /// The permission bits.
    pub mode: u32,
    /// The content was not stored: it is too large, or could not be written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unstored: bool,
}
