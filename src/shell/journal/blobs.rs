//! The content store on disk: `blobs/<2 hex>/<sha256>` below the state directory, raw bytes, readable by the owner only.
//!
//! A file is written under a temporary name, flushed and renamed, so one with its final name is whole. It is deleted when no journal
//! names it and it is an hour old: a call stores content before the event that names it is written. A `put` that finds its content
//! stored gives the file a new time, under a shared lock of the folder; `sweep` looks at the time and deletes under an exclusive one.

use super::file_lock::Locked;
use super::private_dir;
use crate::core::disk::store::StoreError;
use crate::limits::BLOB_GRACE_MS;
use crate::shell::event_loop::sys;
use crate::task::log::blob::{Blobs, sha256};
use rustix::fs::FlockOperation;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

pub struct FileBlobs {
    pub(super) dir: PathBuf,
}

impl FileBlobs {
    pub fn open(dir: PathBuf) -> Result<FileBlobs, StoreError> {
        private_dir(&dir)?;
        Ok(FileBlobs { dir })
    }

    /// The content store of the server that wrote a journal, for reading only.
    pub fn of_journal(journal: &Path) -> FileBlobs {
        let path = fs::canonicalize(journal).unwrap_or_default();
        let state_dir = path.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        FileBlobs { dir: state_dir.join("blobs") }
    }

    fn path(&self, sha256: &str) -> io::Result<PathBuf> {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hash {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.dir.join(&sha256[..2]).join(sha256))
    }

    fn lock(&self, operation: FlockOperation) -> io::Result<Locked<File>> {
        Locked::new(File::open(&self.dir)?, operation)
    }

    /// Deletes content that no file in `journals` names. If a file cannot be read, nothing is deleted.
    pub fn sweep(&self, journals: &Path) -> io::Result<()> {
        let old = self.old(BLOB_GRACE_MS)?;
        if old.is_empty() {
            return Ok(());
        }
        let mut named = HashSet::new();
        for journal in fs::read_dir(journals)? {
            read_names(&journal?.path(), &mut named)?;
        }
        let is_named =
            |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| named.contains(name));
        for path in old.iter().filter(|path| !is_named(path)) {
            self.delete_old(path, BLOB_GRACE_MS)?;
        }
        Ok(())
    }

    /// Deletes all content that is older: it is also stored in the bucket.
    #[cfg(feature = "bucket")]
    pub fn sweep_older(&self, age_ms: u64) -> io::Result<()> {
        self.old(age_ms)?.iter().try_for_each(|path| self.delete_old(path, age_ms))
    }

    fn old(&self, age_ms: u64) -> io::Result<Vec<PathBuf>> {
        let mut old = Vec::new();
        for folder in fs::read_dir(&self.dir)? {
            for file in fs::read_dir(folder?.path())? {
                let path = file?.path();
                if is_old(&path, age_ms)? {
                    old.push(path);
                }
            }
        }
        Ok(old)
    }

    fn delete_old(&self, path: &Path, age_ms: u64) -> io::Result<()> {
        let _lock = self.lock(FlockOperation::LockExclusive)?;
        if is_old(path, age_ms)? { fs::remove_file(path) } else { Ok(()) }
    }
}

impl Blobs for FileBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let sha256 = sha256(bytes);
        let path = self.path(&sha256)?;
        let _lock = self.lock(FlockOperation::LockShared)?;
        if let Ok(file) = File::open(&path)
            && file.metadata()?.len() == bytes.len() as u64
        {
            file.set_modified(UNIX_EPOCH + Duration::from_millis(sys::unix_ms()))?;
            return Ok(sha256);
        }
        let folder = path.parent().expect("a blob is in a folder");
        private_dir(folder).map_err(|error| io::Error::other(error.message))?;
        let aside = folder.join(format!("new-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            super::file::sync_entry(&path)
        })();
        if written.is_err() {
            // Best effort: the sweep deletes what is left.
            let _ = fs::remove_file(&aside);
        }
        written.map(|()| sha256)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        let file = File::open(self.path(sha256)?)?;
        let len = file.metadata()?.len();
        let mut bytes = vec![0; len.saturating_sub(from).min(max as u64) as usize];
        file.read_exact_at(&mut bytes, from)?;
        Ok((bytes, len))
    }
}

/// Whether a file exists and is older.
fn is_old(path: &Path, age_ms: u64) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(data) => Ok(data.modified()?.elapsed().unwrap_or_default() > Duration::from_millis(age_ms)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Adds every hash in a journal. The journal may be damaged: people may repair it later.
pub(super) fn read_names(journal: &Path, names: &mut HashSet<String>) -> io::Result<()> {
    let file = match File::open(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        each_name(&line, &mut |hash| names.extend([hash]));
        line.clear();
    }
    Ok(())
}

/// Calls `each` with every hash in lines of a journal.
pub fn each_name(lines: &[u8], each: &mut dyn FnMut(String)) {
    const MEMBER: &[u8] = br#""sha256":""#;
    for at in memchr::memmem::find_iter(lines, MEMBER) {
        let hash = lines[at + MEMBER.len()..].get(..64);
        if let Some(hash) = hash.and_then(|hash| String::from_utf8(hash.to_vec()).ok()) {
            each(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::Seq;
    use crate::shell::journal::tests::Scratch;
    use crate::task::log::blob::FileVersion;
    use crate::task::log::event::Event;
    use crate::task::log::record::Record;
    use crate::task::log::restored::{Conversation, Restored, RestoredFile};
    use crate::task::message::Source;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    fn age(blobs: &FileBlobs, sha256: &str) {
        let file = File::open(blobs.path(sha256).unwrap()).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(sys::unix_ms() - BLOB_GRACE_MS - 60_000)).unwrap();
    }

    #[test]
    fn content_is_stored_once_for_its_owner_only_and_read_in_pieces() {
        let scratch = Scratch::new();
        let _journal = scratch.open();
        let blobs = FileBlobs::open(scratch.dir().join("blobs")).unwrap();
        let hash = blobs.put(b"abc").unwrap();
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(blobs.put(b"abc").unwrap(), hash);
        let path = scratch.dir().join("blobs/ba").join(&hash);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
        assert_eq!(blobs.read(&hash, 1, 1).unwrap(), (b"b".to_vec(), 3));
        assert_eq!(blobs.read(&hash, 1, 10).unwrap(), (b"bc".to_vec(), 3));
        assert_eq!(blobs.read(&hash, 9, 10).unwrap(), (Vec::new(), 3));
        for wrong in ["", "../../index.jsonl", &hash[1..], &hash.to_uppercase(), &"0".repeat(64)] {
            assert_eq!(blobs.read(wrong, 0, 1).unwrap_err().kind(), io::ErrorKind::NotFound, "{wrong}");
        }
    }

    /// Both versions of a restored file are kept, because the restore can be undone.
    #[test]
    fn content_that_a_restore_names_is_kept() {
        let scratch = Scratch::new();
        let _journal = scratch.open();
        let blobs = FileBlobs::open(scratch.dir().join("blobs")).unwrap();
        let [from, to, other] = [b"frm", b"to.", b"oth"].map(|bytes| blobs.put(bytes).unwrap());
        let version =
            |sha256: &String| Some(FileVersion { sha256: sha256.clone(), len: 3, mode: 0o644, unstored: false });
        let file =
            RestoredFile { root: "/w".into(), path: "a".into(), from: version(&from), to: version(&to), dirs: 0 };
        let (conversation, by) = (Conversation::Kept, Source::clock());
        let restored = Restored { to: Seq(3), call: None, files: vec![file], conversation, items: 0, by };
        let mut line = Vec::new();
        Record { seq: Seq(9), at: 1, event: Event::Restored(Arc::new(restored)) }.write(&mut line);
        fs::write(scratch.dir().join("tasks/t.jsonl"), line).unwrap();
        [&from, &to, &other].into_iter().for_each(|hash| age(&blobs, hash));
        blobs.sweep(&scratch.dir().join("tasks")).unwrap();
        assert_eq!([&from, &to, &other].map(|hash| blobs.read(hash, 0, 1).is_ok()), [true, true, false]);
    }

    #[test]
    fn old_content_that_no_journal_names_is_deleted() {
        let scratch = Scratch::new();
        let _journal = scratch.open();
        let blobs = FileBlobs::open(scratch.dir().join("blobs")).unwrap();
        let [new, named, kept, unnamed] = [b"new", b"nam", b"kep", b"unn"].map(|bytes| blobs.put(bytes).unwrap());
        for old in [&named, &kept, &unnamed] {
            age(&blobs, old);
        }
        blobs.put(b"kep").unwrap();
        // Journals that were set aside and incomplete lines count, too.
        let line = format!("{{\"x\":1}}\n{{\"after\":{{\"sha256\":\"{named}\",\"len\"");
        fs::write(scratch.dir().join("tasks/t.jsonl.damaged-1"), line).unwrap();
        blobs.sweep(&scratch.dir().join("tasks")).unwrap();
        let is_there = |hash: &String| blobs.read(hash, 0, 1).is_ok();
        assert_eq!([&new, &named, &kept, &unnamed].map(is_there), [true, true, true, false]);
    }
}
