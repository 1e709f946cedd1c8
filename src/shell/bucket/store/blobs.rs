//! Blobs: content that logs refer to by its hash. A blob is first stored in a local file. It is uploaded into the bucket before the segment
//! that refers to it. Instances without the file read the blob from the bucket.

use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::bucket::port::block_on;
use crate::core::disk::store::StoreError;
use crate::limits::BLOB_GRACE_MS;
use crate::shell::bucket::store::member::{Member, store_error};
use crate::shell::journal::blobs::{FileBlobs, each_name};
use crate::task::log::blob::{Blobs, sha256};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

pub struct BucketBlobs {
    files: FileBlobs,
    member: Arc<Member>,
    /// By hash, the tasks whose logs refer to a blob in the bucket.
    references: Mutex<HashMap<String, HashSet<TaskId>>>,
    /// The blobs that this process has uploaded, by task and hash.
    uploaded: Mutex<HashSet<(TaskId, String)>>,
}

impl BucketBlobs {
    pub fn new(files: FileBlobs, member: Arc<Member>) -> BucketBlobs {
        BucketBlobs { files, member, references: Mutex::default(), uploaded: Mutex::default() }
    }

    /// Records which blobs the lines of a log refer to.
    pub fn add_references(&self, task: &TaskId, lines: &[u8]) {
        let mut references = lock(&self.references);
        each_name(lines, &mut |hash| {
            references.entry(hash).or_default().insert(task.clone());
        });
    }

    /// Uploads the blobs that the lines of a log refer to. Called before the lines are sent.
    pub fn upload(&self, task: &TaskId, lines: &[u8]) -> Result<(), StoreError> {
        let mut hashes = Vec::new();
        each_name(lines, &mut |hash| hashes.push(hash));
        for hash in hashes {
            let key = (task.clone(), hash);
            if lock(&self.uploaded).contains(&key) {
                continue;
            }
            let bytes = match self.read(&key.1, 0, usize::MAX) {
                Ok((bytes, _)) => bytes,
                // The blob was never stored, or all copies are damaged. Trying again would not help.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => continue,
                Err(error) => return Err(StoreError::transient(format!("stored content cannot be read: {error}"))),
            };
            block_on(self.member.patient.store_blob(task, &key.1, &bytes.into())).map_err(store_error)?;
            lock(&self.uploaded).insert(key);
        }
        // Local files are deleted after a while; then the blobs are read from the bucket.
        self.add_references(task, lines);
        Ok(())
    }

    /// Drops all records about a task.
    pub fn forget(&self, task: &TaskId) {
        lock(&self.references).retain(|_, tasks| {
            tasks.remove(task);
            !tasks.is_empty()
        });
        lock(&self.uploaded).retain(|(known, _)| known != task);
    }

    /// Deletes old local files. Their content is in the bucket, or no log refers to it.
    pub fn sweep(&self) -> io::Result<()> {
        self.files.sweep_older(BLOB_GRACE_MS)
    }

    fn fetch(&self, hash: &str) -> io::Result<()> {
        let tasks: Vec<TaskId> = lock(&self.references).get(hash).into_iter().flatten().cloned().collect();
        let mut failure: io::Error = io::ErrorKind::NotFound.into();
        for task in tasks {
            let found = block_on(self.member.patient.read_blob(&task, hash));
            let object = found.map_err(|halt| io::Error::new(io::ErrorKind::TimedOut, store_error(halt).message))?;
            match object {
                Some(object) if sha256(&object.bytes) == hash => return self.files.put(&object.bytes).map(drop),
                // The copy of another task may be intact.
                Some(_) => failure = io::Error::new(io::ErrorKind::InvalidData, "it is damaged"),
                None => {}
            }
        }
        Err(failure)
    }
}

impl Blobs for BucketBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        self.files.put(bytes)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        match self.files.read(sha256, from, max) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.fetch(sha256)?;
                self.files.read(sha256, from, max)
            }
            read => read,
        }
    }
}
