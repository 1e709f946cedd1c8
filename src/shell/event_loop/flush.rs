//! The last flush: the audit and the journals are on the disk before the server ends, unless the disk hangs.

use crate::base::id::TaskId;
use crate::core::disk::store::Archive;
use crate::limits::FLUSH_MS;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Waits for a moment at most: a disk that hangs does not keep the server from ending.
pub fn flush(archive: Arc<dyn Archive>, tasks: Vec<TaskId>) {
    let (sender, done) = mpsc::channel();
    let flushing = thread::Builder::new().name("flush".into()).spawn(move || {
        // Without an audit there is nothing to flush, and nobody is left to tell of an error.
        let _ = archive.sync_audit();
        for task in tasks {
            let _ = archive.open(&task).and_then(|log| log.sync());
        }
        archive.end();
        let _ = sender.send(());
    });
    if flushing.is_ok() {
        let _ = done.recv_timeout(Duration::from_millis(FLUSH_MS));
    }
}
