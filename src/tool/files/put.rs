//! Puts content in the place of a file, and removes files.
//!
//! New content is written to a temporary file beside the file; then the hash of the file is compared with the expected one, and only then
//! the temporary file is renamed: a reader sees the old file or the new one, and a crash leaves one of them. A new file is only created if
//! none exists at that moment. The owner is kept, and so is the mode unless one is given. A file with several hard links is replaced under
//! one name; the content under its other names does not change.

use crate::limits::Limits;
use crate::task::log::blob::sha256;
use crate::tool::files::open;
use crate::tool::files::path::{Entry, MissingPath};
use crate::tool::files::read_file::contents;
use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The result of writing a file.
pub(in crate::tool) struct Written {
    /// The permission bits of the old file (0 if there was none) and of the new one.
    pub modes: (u32, u32),
    /// The number of directories that were created for the file: the innermost ones.
    pub dirs: usize,
}

/// Replaces the content of a file. None: the file does not have the expected hash.
pub(in crate::tool) fn replace(
    entry: &Entry,
    expected: Option<&str>,
    new: &[u8],
    mode: Option<u32>,
    limits: &Limits,
) -> io::Result<Option<Written>> {
    // Renaming checks the permissions of the directory, not of the file. A read-only file must not be replaced.
    rustix::fs::accessat(&entry.dir, &entry.name, Access::WRITE_OK, AtFlags::EACCESS)?;
    let stat = rustix::fs::statat(&entry.dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW)?;
    let temporary = TemporaryFile::new(entry, 0o600)?;
    temporary.fill(new, Some(&stat), Some(mode.unwrap_or(stat.st_mode & 0o7777)))?;
    if !has_hash(entry, expected, limits) {
        return Ok(None);
    }
    rustix::fs::renameat(&entry.dir, &temporary.name, &entry.dir, &entry.name)?;
    sync_directory(entry)?;
    Ok(Some(Written { modes: (stat.st_mode & 0o7777, temporary.mode()?), dirs: 0 }))
}

/// Creates a file and its directories. None: the file exists by now.
pub(in crate::tool) fn create(missing: MissingPath, bytes: &[u8], mode: Option<u32>) -> io::Result<Option<Written>> {
    let (entry, dirs) = missing.make_parents()?;
    let temporary = TemporaryFile::new(&entry, 0o644)?;
    temporary.fill(bytes, None, mode)?;
    let (dir, flags) = (&entry.dir, RenameFlags::NOREPLACE);
    let moved = match rustix::fs::renameat_with(dir, &temporary.name, dir, &entry.name, flags) {
        // Not every file system supports this flag. A second link does the same, and `temporary` removes the first one.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, &temporary.name, dir, &entry.name, AtFlags::empty())
        }
        other => other,
    };
    match moved {
        Ok(()) => sync_directory(&entry).and_then(|()| Ok(Some(Written { modes: (0, temporary.mode()?), dirs }))),
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a file. False: the file does not have the expected hash.
pub(in crate::tool) fn remove(entry: &Entry, expected: &str, limits: &Limits) -> io::Result<bool> {
    if !has_hash(entry, Some(expected), limits) {
        return Ok(false);
    }
    rustix::fs::unlinkat(&entry.dir, &entry.name, AtFlags::empty())?;
    sync_directory(entry)?;
    Ok(true)
}

fn has_hash(entry: &Entry, expected: Option<&str>, limits: &Limits) -> bool {
    let now = contents(entry, "", limits.file_bytes).ok();
    now.as_deref().map(sha256).as_deref() == expected
}

/// Syncs the directory of the file, so that the change of the name is on disk.
fn sync_directory(entry: &Entry) -> io::Result<()> {
    Ok(rustix::fs::fsync(open::directory(&entry.dir, ".")?)?)
}

/// A temporary file beside the file that it will replace. It is removed when this value is dropped, unless it was renamed.
struct TemporaryFile<'a> {
    entry: &'a Entry,
    name: String,
    file: File,
}

impl<'a> TemporaryFile<'a> {
    fn new(entry: &'a Entry, mode: u32) -> io::Result<TemporaryFile<'a>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!(
            ".gemini-a2a-{}-{}-{}.tmp",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed),
            since.map_or(0, |time| time.as_nanos())
        );
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&entry.dir, &name, flags, Mode::from_raw_mode(mode))?;
        Ok(TemporaryFile { entry, name, file: File::from(fd) })
    }

    /// Writes the content and syncs the file. It gets the owner of `like`.
    fn fill(&self, bytes: &[u8], like: Option<&Stat>, mode: Option<u32>) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        if let Some(stat) = like {
            // Only root may change the owner. Other users only write files of their own.
            let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = rustix::fs::fchown(&self.file, Some(owner), Some(group));
        }
        if let Some(mode) = mode {
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))?;
        }
        self.file.sync_all()
    }

    fn mode(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstat(&self.file)?.st_mode & 0o7777)
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.entry.dir, &self.name, AtFlags::empty());
    }
}
