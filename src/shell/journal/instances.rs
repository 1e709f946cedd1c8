//! Which server's children are whose. A child carries its server's instance id in its environment; a server that starts ends
//! the children of servers that are gone. Gone is what holds no lock: ids are files, and each living server holds the locks
//! of its own id and of every dead one it found, so no two servers ever answer for the same child.

use super::{failed, is_file_name, names, private_file};
use crate::base::id::Entropy;
use crate::core::store::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::path::Path;

pub struct Instances {
    /// Never empty; the first is our own.
    held: Vec<Held>,
}

struct Held {
    id: String,
    /// Locked for as long as the server lives.
    file: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Instances {
    pub fn take(dir: &Path, entropy: &mut Entropy) -> Result<Instances, StoreError> {
        let mut ids: Vec<String> = names(dir).filter(|id| is_file_name(id)).collect();
        ids.sort_unstable();
        let mut held = Vec::new();
        for id in ids {
            if let Some(file) = lock(dir, &id)? {
                held.push(Held { id, file });
            }
        }
        // Another server may find a new id before it is locked, and take it: then the next one is ours.
        while held.is_empty() {
            let id = entropy.uuid();
            if let Some(file) = lock(dir, &id)? {
                held.push(Held { id, file });
            }
        }
        Ok(Instances { held })
    }

    pub fn own(&self) -> &str {
        &self.held[0].id
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.held.iter().map(|held| held.id.as_str())
    }
}

/// None if a living server has it.
fn lock(dir: &Path, id: &str) -> Result<Option<File>, StoreError> {
    let path = dir.join(id);
    let file = private_file(&path, OpenOptions::new().create(true)).map_err(|e| failed("open", &path, &e))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed("lock", &path, &error.into())),
    }
}
