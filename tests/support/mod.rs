//! The harness of end-to-end tests: a scripted model API, the real binary as a child process, and a blocking client.
//!
//! Nothing here uses the crate under test but the files that say so. HTTP, SSE and the model API are implemented a second time, so that a
//! mistake in our own parsers makes a test fail. A failed expectation, a closed connection or a wait that takes too long panics with what
//! was received.
//!
//! Tests wait for conditions, never for a time: a stream's next event, [`eventually`], or a model that is held at
//! [`HOLD`](script::Item::Hold) until the test releases it.

// Each test binary and the benchmark use only a part of this.
#![allow(dead_code)]

pub mod answer_stream;
pub mod client;
pub mod fake;
pub mod golden;
pub mod http;
pub mod message;
pub mod random;
pub mod script;
pub mod server;
pub mod socket;
pub mod sse;
pub mod stamp;
pub mod turn_rules;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long any wait may take before the test fails. Long, because the machine may be busy with other tests; a wait ends as soon as its
/// condition holds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `fact` repeatedly until it returns a value, and returns that value.
pub fn eventually<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(found) = fact() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} for: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Whether a program can be started. If not, prints that the test is skipped.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).exists());
    if !found {
        eprintln!("skipped: there is no {program} here");
    }
    found
}

/// A folder of its own for one test, removed with everything in it.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new(name: &str) -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let leaf = format!("gemini-a2a-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(leaf);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder inside, which is created if it does not exist.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a folder inside a temporary folder");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Best effort: a leftover in the system's temporary folder must not hide the test's own failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
