//! The credentials file on disk. A user who can write it can admit any client, so it has to belong to this user or to root, and no other
//! user may write it. No other user may read it either, except where the platform mounts secrets with its own modes.

use crate::limits::access::CREDENTIALS_BYTES;
use crate::shell::event_loop::sys;
use crate::shell::journal::file_lock::Locked;
use crate::shell::journal::user_files::{replace, with_suffix};
use crate::task::access::credentials::CredentialsFile;
use rustix::fs::{FlockOperation, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Which users may read the file beside its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// No other user.
    Owner,
    /// Any user: the platform that mounts the file decides (a container or a service manager).
    Platform,
}

/// Variables that are set on platforms that mount secrets.
const PLATFORMS: [&str; 3] = ["K_SERVICE", "KUBERNETES_SERVICE_HOST", "CREDENTIALS_DIRECTORY"];

impl Readers {
    pub fn of_environment(env: &dyn Fn(&str) -> Option<String>) -> Readers {
        let is_set = |name: &&str| env(name).is_some_and(|value| !value.is_empty());
        if PLATFORMS.iter().any(is_set) { Readers::Platform } else { Readers::Owner }
    }
}

/// Reads the file, and reads it again after it has changed.
pub struct CredentialsReader {
    path: PathBuf,
    readers: Readers,
    seen: Mutex<Option<Stamp>>,
}

/// The metadata by which a changed or replaced file is recognised.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &fs::Metadata) -> Stamp {
        Stamp {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl CredentialsReader {
    /// Reads the file for the first time. A file that does not exist has no credentials.
    pub fn open(path: &Path, readers: Readers) -> Result<(CredentialsReader, CredentialsFile), String> {
        let reader = CredentialsReader { path: path.to_owned(), readers, seen: Mutex::new(None) };
        let file = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => CredentialsFile::default(),
            _ => reader.read()?,
        };
        Ok((reader, file))
    }

    /// The file, if it is not as it was when it was last read. Every error is reported again until the file changes.
    pub fn changed(&self) -> Option<Result<CredentialsFile, String>> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = fs::metadata(&self.path).ok().map(|file| Stamp::of(&file));
        // A file that has never existed is no error.
        if now == seen { None } else { Some(self.read()) }
    }

    fn read(&self) -> Result<CredentialsFile, String> {
        let shown = self.path.display();
        // With NONBLOCK, because opening a pipe would wait for a writer.
        let opened = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&self.path);
        let opened = opened.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let metadata = opened.metadata().map_err(|error| format!("{shown} cannot be read: {error}"))?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stamp::of(&metadata));
        check(&metadata, self.readers).map_err(|why| format!("{shown} {why}"))?;
        let mut bytes = Vec::new();
        let read = opened.take(CREDENTIALS_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        CredentialsFile::read(&bytes).map_err(|why| format!("{shown} is not valid: {why}"))
    }
}

/// An error if another user could have changed or read the file. Links are followed: the file that they lead to is checked.
fn check(file: &fs::Metadata, readers: Readers) -> Result<(), String> {
    let mode = file.mode() & 0o777;
    if !file.is_file() {
        return Err("is not a file".into());
    }
    if file.len() > CREDENTIALS_BYTES {
        return Err(format!("is larger than {CREDENTIALS_BYTES} bytes"));
    }
    if file.uid() != sys::effective_uid() && file.uid() != 0 {
        return Err("belongs to another user, who could let anybody in; it has to be yours or root's".into());
    }
    if mode & 0o022 != 0 {
        return Err(format!("can be written by others (mode {mode:03o}); run chmod 600 on it"));
    }
    if mode & 0o044 != 0 && readers == Readers::Owner {
        return Err(format!("can be read by others (mode {mode:03o}); run chmod 600 on it"));
    }
    Ok(())
}

/// Reads the file for `gemini-a2a token`, changes its content, and replaces it; a file that does not exist counts as empty. Programs that do
/// so at the same time take turns, so that no change is lost.
pub fn change<R>(path: &Path, change: impl FnOnce(&mut CredentialsFile) -> Result<R, String>) -> Result<R, String> {
    // A link is not replaced, but the file that it leads to.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _held = lock(&real).map_err(|error| format!("{} cannot be locked: {error}", path.display()))?;
    let (_, mut file) = CredentialsReader::open(path, Readers::Owner)?;
    let result = change(&mut file)?;
    for credential in &file.credentials {
        credential.check().map_err(|why| format!("credential \"{}\": {why}", credential.id))?;
    }
    replace(&real, &file.write(), 0o600).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(result)
}

/// Waits until no other program changes the file, and locks it until the result is dropped. The lock is that of a second file, because the
/// first one is replaced.
fn lock(path: &Path) -> io::Result<Locked<File>> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(Path::new("/")))?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    Locked::new(options.open(with_suffix(path, ".lock"))?, FlockOperation::LockExclusive)
}
