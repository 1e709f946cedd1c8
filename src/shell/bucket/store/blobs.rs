//! Content that logs name: stored in files first, and in the bucket before the segment that names it. It is read from the bucket by
//! instances that do not have the file.

use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::bucket::port::block_on;
use crate::core::disk::store::StoreError;
use crate::limits::BLOB_GRACE_MS;
use crate::shell::bucket::store::member::{Member, halted};
use crate::shell::journal::blobs::{FileBlobs, each_name};
use crate::task::log::blob::{Blobs, sha256};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

pub struct BucketBlobs {
    files: FileBlobs,
    member: Arc<Member>,
    /// The tasks that name content which is in the bucket.
    named: Mutex<HashMap<String, HashSet<TaskId>>>,
    /// What this process has stored in the bucket.
    uploaded: Mutex<HashSet<(TaskId, String)>>,
}

impl BucketBlobs {
    pub fn new(files: FileBlobs, member: Arc<Member>) -> BucketBlobs {
        BucketBlobs { files, member, named: Mutex::default(), uploaded: Mutex::default() }
    }

    /// Notes what lines of a log name.
    pub fn learn(&self, task: &TaskId, lines: &[u8]) {
        let mut named = lock(&self.named);
        each_name(lines, &mut |hash| {
            named.entry(hash).or_default().insert(task.clone());
        });
    }

    /// Stores in the bucket what lines of a log name, before they are sent.
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
                // It names the hash of something that was not stored, or of which no good copy is left: trying again would not help.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => continue,
                Err(error) => return Err(StoreError::transient(format!("stored content cannot be read: {error}"))),
            };
            block_on(self.member.patient.keep(task, &key.1, &bytes.into())).map_err(halted)?;
            lock(&self.uploaded).insert(key);
        }
        // The files are deleted after a while, those of our own tasks too.
        self.learn(task, lines);
        Ok(())
    }

    /// Forgets what it knows of a task.
    pub fn forget(&self, task: &TaskId) {
        lock(&self.named).retain(|_, tasks| {
            tasks.remove(task);
            !tasks.is_empty()
        });
        lock(&self.uploaded).retain(|(known, _)| known != task);
    }

    /// Deletes files that are in the bucket, or that nothing names.
    pub fn sweep(&self) -> io::Result<()> {
        self.files.sweep_older(BLOB_GRACE_MS)
    }

    fn fetch(&self, hash: &str) -> io::Result<()> {
        let tasks: Vec<TaskId> = lock(&self.named).get(hash).into_iter().flatten().cloned().collect();
        let mut without: io::Error = io::ErrorKind::NotFound.into();
        for task in tasks {
            let found = block_on(self.member.patient.kept(&task, hash));
            let object = found.map_err(|halt| io::Error::new(io::ErrorKind::TimedOut, halted(halt).message))?;
            match object {
                Some(object) if sha256(&object.bytes) == hash => return self.files.put(&object.bytes).map(drop),
                // Another task may have a good copy.
                Some(_) => without = io::Error::new(io::ErrorKind::InvalidData, "it is damaged"),
                None => {}
            }
        }
        Err(without)
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
