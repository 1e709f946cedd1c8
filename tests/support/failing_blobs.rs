//! Stored content that cannot always be read.

use gemini_a2a::task::log::blob::{Blobs, MemoryBlobs};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub struct FailingBlobs {
    memory: MemoryBlobs,
    failing_reads: AtomicU32,
}

impl FailingBlobs {
    /// The next `times` reads fail, as if too many files were open.
    pub fn fail_reads(&self, times: u32) {
        self.failing_reads.store(times, Ordering::Relaxed);
    }
}

impl Blobs for FailingBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        self.memory.put(bytes)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        let one_less = |times: u32| times.checked_sub(1);
        if self.failing_reads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Err(io::Error::other("the disk is told to fail its reads"));
        }
        self.memory.read(sha256, from, max)
    }
}
