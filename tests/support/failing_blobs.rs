//! A store of content in memory whose writes and reads can be made to fail.

use gemini_a2a::task::log::blob::{Blobs, MemoryBlobs};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub struct FailingBlobs {
    memory: MemoryBlobs,
    failing_puts: AtomicU32,
    failing_reads: AtomicU32,
}

impl FailingBlobs {
    /// The next `times` contents cannot be stored.
    #[allow(dead_code, reason = "not every test that includes this file uses it")]
    pub fn fail_puts(&self, times: u32) {
        self.failing_puts.store(times, Ordering::Relaxed);
    }

    /// The next `times` reads fail, as if too many files were open.
    pub fn fail_reads(&self, times: u32) {
        self.failing_reads.store(times, Ordering::Relaxed);
    }
}

impl Blobs for FailingBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        if is_failing(&self.failing_puts) {
            return Err(io::Error::other("the test makes this write fail"));
        }
        self.memory.put(bytes)
    }

    fn read(&self, sha256: &str, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        if is_failing(&self.failing_reads) {
            return Err(io::Error::other("the test makes this read fail"));
        }
        self.memory.read(sha256, from, max)
    }
}

fn is_failing(times: &AtomicU32) -> bool {
    times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |times| times.checked_sub(1)).is_ok()
}
