//! The servers that share a state directory. Each holds the lock of a file of its own under `instances/`, which says what other
//! programs need to find it: `{"pid":…,"listen":[…],"url":…,"started":…}`. An unlocked file belongs to a dead server,
//! whatever its content; a locked empty one to a server that is starting, or it is the file of a dead server that another one holds.
//!
//! The names of the files are the ids of the servers. A child process has its server's id in its environment, and a server that starts
//! ends the children of dead servers. Each running server holds the locks of its own id and of the id of every dead server that it found,
//! so a child belongs to one server only.

use super::file_lock::Locked;
use super::{failed, is_file_name, names, private_dir, private_file};
use crate::base::id::Entropy;
use crate::core::disk::store::StoreError;
use crate::limits::INSTANCE_BYTES;
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub struct Instances {
    dir: PathBuf,
    /// The ids whose files this server has locked. Never empty; the first is our own.
    locked: Vec<LockedId>,
}

struct LockedId {
    id: String,
    /// Locked until the server ends.
    file: Locked<File>,
}

/// The content of a server's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub pid: u32,
    /// The addresses of its listeners: `127.0.0.1:41242`, `unix:/run/…`.
    pub listen: Vec<String>,
    /// Its URL for clients over HTTP.
    pub url: String,
    /// RFC 3339.
    pub started: String,
}

impl Drop for LockedId {
    fn drop(&mut self) {
        // Emptied before it is unlocked: a locked file must not name a dead server.
        let _ = self.file.0.set_len(0);
    }
}

impl Instances {
    /// Locks an id in a state directory, and creates both if they do not exist. The next server may have the same id.
    pub fn open(state: &Path, entropy: &mut Entropy) -> Result<Instances, StoreError> {
        let dir = &state.join("instances");
        private_dir(state)?;
        private_dir(dir)?;
        let mut ids: Vec<String> = names(dir).filter(|id| is_file_name(id)).collect();
        ids.sort_unstable();
        let mut locked = Vec::new();
        for id in ids {
            locked.extend(LockedId::take(dir, id)?);
        }
        // Another server may take a new id before it is locked here; then the next one is tried.
        while locked.is_empty() {
            locked.extend(LockedId::take(dir, entropy.uuid())?);
        }
        Ok(Instances { dir: dir.to_owned(), locked })
    }

    /// The id that this server marks its child processes with.
    pub fn own(&self) -> &str {
        &self.locked[0].id
    }

    /// Our own id and those of servers that have ended. When this server starts, a running child process with one of these ids is one of a
    /// server that has died.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.locked.iter().map(|locked| locked.id.as_str())
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Tells other programs where this server is.
    pub fn announce(&mut self, instance: &Instance) -> Result<(), StoreError> {
        let LockedId { id, file } = &mut self.locked[0];
        let path = self.dir.join(id);
        let text = serde_json::to_vec(instance).expect("plain strings and numbers are JSON");
        // One write, so that a reader gets either nothing or the whole text.
        file.0.set_len(0).and_then(|()| file.0.write_all(&text)).map_err(|e| failed("write", &path, &e))
    }
}

impl LockedId {
    /// Locks an id. None if a running server has it. The file of a dead server is emptied: locked, it would look like that of a running one.
    fn take(dir: &Path, id: String) -> Result<Option<LockedId>, StoreError> {
        let path = dir.join(&id);
        let file = private_file(&path, OpenOptions::new().create(true)).map_err(|e| failed("open", &path, &e))?;
        match Locked::new(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(file) => {
                file.0.set_len(0).map_err(|e| failed("write", &path, &e))?;
                Ok(Some(LockedId { id, file }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(failed("lock", &path, &error)),
        }
    }
}

/// The running servers of a directory, except those that are starting. Our own server is among them.
pub fn living(dir: &Path) -> Vec<Instance> {
    names(dir).filter(|id| is_file_name(id)).filter_map(|id| read_locked(&dir.join(id)).ok()?).collect()
}

fn read_locked(path: &Path) -> io::Result<Option<Instance>> {
    // With NONBLOCK, because opening a pipe would wait for a writer.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    // A shared lock is refused only while the owner holds its own. It is released at once, with the file.
    if Locked::new(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(INSTANCE_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}
