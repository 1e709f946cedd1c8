//! The flush at the end of the server: the audit and the journals are on the disk before it ends, unless the disk hangs.

use crate::base::id::TaskId;
use crate::core::disk::store::Archive;
use crate::limits::{FLUSH_MS, FLUSHED_AT_ONCE};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Flushes the audit and the journals of these tasks. Waits for [`FLUSH_MS`] at most, so that a disk that hangs does not keep the server
/// from ending.
pub fn flush(archive: Arc<dyn Archive>, tasks: Vec<TaskId>) {
    let (sender, done) = mpsc::channel();
    let flushing = thread::Builder::new().name("flush".into()).spawn(move || {
        // An error means that there is no audit, or that it cannot be flushed; it is too late to report it.
        let _ = archive.sync_audit();
        sync(&*archive, &tasks);
        archive.end();
        let _ = sender.send(());
    });
    if flushing.is_ok() {
        let _ = done.recv_timeout(Duration::from_millis(FLUSH_MS));
    }
}

/// Flushes journals, several at the same time: each may need requests over the network.
fn sync(archive: &dyn Archive, tasks: &[TaskId]) {
    let sync = |task: &TaskId| drop(archive.open(task).and_then(|log| log.sync()));
    for tasks in tasks.chunks(FLUSHED_AT_ONCE) {
        thread::scope(|scope| {
            for task in tasks {
                let thread = thread::Builder::new().name("flush".into());
                if thread.spawn_scoped(scope, || sync(task)).is_err() {
                    sync(task);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::disk::store::{Known, LogFile, Removal, StoreError};
    use crate::task::log::blob::{Blobs, MemoryBlobs};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store that needs a while for each journal.
    #[derive(Default)]
    struct Slow {
        now: AtomicUsize,
        most: AtomicUsize,
        done: AtomicUsize,
    }

    struct SlowLog(Arc<Slow>);

    impl LogFile for SlowLog {
        fn sync(&self) -> Result<(), StoreError> {
            let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.most.fetch_max(now, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            self.0.now.fetch_sub(1, Ordering::SeqCst);
            self.0.done.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }

        fn page(&self, _: u64, _: usize) -> Result<Vec<u8>, StoreError> {
            Ok(Vec::new())
        }

        fn len(&self) -> u64 {
            0
        }

        fn set_aside(&self, why: &str) -> StoreError {
            StoreError::new(why)
        }

        fn name(&self) -> String {
            "slow".into()
        }
    }

    struct SlowArchive(Arc<Slow>);

    impl Archive for SlowArchive {
        fn known(&self) -> Vec<Known> {
            Vec::new()
        }

        fn open(&self, _: &TaskId) -> Result<Arc<dyn LogFile>, StoreError> {
            Ok(Arc::new(SlowLog(self.0.clone())))
        }

        fn remove(&self, _: &TaskId) -> Result<Removal, StoreError> {
            Ok(Removal::Removed)
        }

        fn blobs(&self) -> Arc<dyn Blobs> {
            Arc::new(MemoryBlobs::default())
        }

        fn probe(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn journals_are_flushed_at_the_same_time() {
        let slow = Arc::new(Slow::default());
        let tasks: Vec<TaskId> = (0..40).map(|n| TaskId::from(format!("t{n}").as_str())).collect();
        sync(&SlowArchive(slow.clone()), &tasks);
        assert_eq!(slow.done.load(Ordering::SeqCst), 40);
        let most = slow.most.load(Ordering::SeqCst);
        assert!(most > 1 && most <= FLUSHED_AT_ONCE, "{most}");
    }
}
