//! The entries of one directory, and paths as people and models read them.

use crate::base::text::unsafe_char::is_unsafe;
use rustix::fs::{AtFlags, FileType, RawDir};
use std::cmp::Ordering;
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

/// The size of the buffer for the entries that one system call returns.
const BUFFER_BYTES: usize = 32 * 1024;

/// The last component of a path.
pub fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// A path for people and models: unsafe characters are escaped, and what is not UTF-8 is replaced.
pub fn readable(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Compares paths in the order of a tree: the content of `a` comes before `a.txt`.
pub fn by_path(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: &u8| {
        if *byte == b'/' { 0 } else { u16::from(*byte) + 1 }
    };
    a.iter().map(rank).cmp(b.iter().map(rank))
}

/// The entries of one directory, sorted by name.
pub struct Listing {
    pub entries: Vec<Listed>,
}

pub struct Listed {
    pub name: CString,
    pub kind: FileType,
}

impl Listing {
    pub fn of(dir: BorrowedFd) -> io::Result<Listing> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut raw = RawDir::new(dir, buffer.spare_capacity_mut());
        let mut entries = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            entries.push(Listed { name: name.to_owned(), kind });
        }
        entries.sort_unstable_by(|a: &Listed, b| a.name.cmp(&b.name));
        Ok(Listing { entries })
    }

    pub fn has(&self, name: &str) -> bool {
        self.entries.binary_search_by(|entry| entry.name.as_bytes().cmp(name.as_bytes())).is_ok()
    }
}
