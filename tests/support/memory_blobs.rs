//! Stored content without a disk.

#![allow(dead_code, reason = "not every test that includes this file uses all of it")]

use gemini_a2a::base::lock::lock;
use gemini_a2a::task::log::blob::{Blobs, sha256};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub struct MemoryBlobs {
    stored: Mutex<HashMap<String, Vec<u8>>>,
    failing_reads: AtomicU32,
}

impl MemoryBlobs {
    /// The next `times` reads fail, as if too many files were open.
    pub fn fail_reads(&self, times: u32) {
        self.failing_reads.store(times, Ordering::Relaxed);
    }
}

impl Blobs for MemoryBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let sha256 = sha256(bytes);
        lock(&self.stored).insert(sha256.clone(), bytes.to_vec());
        Ok(sha256)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        let one_less = |times: u32| times.checked_sub(1);
        if self.failing_reads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Err(io::Error::other("the disk is told to fail its reads"));
        }
        let stored = lock(&self.stored);
        let bytes = stored.get(sha256).ok_or(io::ErrorKind::NotFound)?;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        Ok((bytes[from..].iter().take(max).copied().collect(), bytes.len() as u64))
    }
}
