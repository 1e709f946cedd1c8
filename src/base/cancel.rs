//! A cancellation flag, shared between the loop and one worker. Setting it never waits for the worker; the worker checks it between
//! steps and may register a hook that interrupts a blocking operation.

use crate::base::lock::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    set: AtomicBool,
    hook: Mutex<Option<Hook>>,
    /// Wakes the threads in [`Cancel::wait`] when the flag is set.
    was_set: Condvar,
}

impl Cancel {
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Sets the flag and runs the hook, once.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Release);
        let hook = lock(&self.0.hook).take();
        self.0.was_set.notify_all();
        if let Some(hook) = hook {
            hook();
        }
    }

    /// Waits until the time is over or the flag is set.
    pub fn wait(&self, time: Duration) {
        // [`Cancel::set`] takes this lock before it notifies, so the notification cannot come between the check and the wait.
        drop(self.0.was_set.wait_timeout_while(lock(&self.0.hook), time, |_| !self.is_set()));
    }

    /// Registers the hook that [`Cancel::set`] runs; runs it at once if the flag is already set.
    pub fn on_set(&self, hook: impl FnOnce() + Send + 'static) {
        *lock(&self.0.hook) = Some(Box::new(hook));
        if self.is_set()
            && let Some(hook) = lock(&self.0.hook).take()
        {
            hook();
        }
    }

    /// Removes the hook: the operation that it would interrupt has ended.
    pub fn clear(&self) {
        lock(&self.0.hook).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn the_hook_runs_exactly_once_whichever_comes_first() {
        let runs = Arc::new(AtomicU32::new(0));
        for set_first in [true, false] {
            let cancel = Cancel::default();
            let count = runs.clone();
            if set_first {
                cancel.set();
            }
            cancel.on_set(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            cancel.set();
            cancel.set();
        }
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}
