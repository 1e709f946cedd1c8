//! Tasks whose time is over. Those at rest for too long are closed by their own `decide`, and for that they have to be in memory;
//! those that have been over for long enough are forgotten and their logs deleted, without being loaded.
//!
//! A task that later ones of its context continue is part of what those remember. It stays as long as they do. And what its
//! webhooks are still to be told is not forgotten with it: a task goes when everything was delivered or given up, which
//! takes minutes where retention takes hours, and comes to an end whatever the receivers do.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::Core;
use crate::core::tasks::store::Store;
use crate::core::timers::Timer;
use crate::task::machine::decide;
use crate::task::machine::decide::Input;

impl Core {
    /// Sees to it that somebody looks at the time when a turn may have lasted too long.
    pub(in crate::core) fn arm_limit(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        let Some(deadline) = decide::deadline(&loaded.state, &self.limits.times) else {
            return;
        };
        let at = now.mono_ms + deadline.saturating_sub(now.unix_ms);
        if at < loaded.armed {
            loaded.armed = at;
            self.timers.arm(at, Timer::Limit(task.clone()));
        }
    }

    pub(in crate::core) fn check_limit(&mut self, task: &TaskId, now: Now) {
        if let Some(loaded) = self.tasks.get_mut(task) {
            loaded.armed = u64::MAX;
            self.tell_time(task, now);
        }
    }

    /// Tells a task how late it is.
    pub(in crate::core) fn tell_time(&mut self, task: &TaskId, now: Now) {
        // The time is never refused: a task that is over has no use for it.
        let _ = self.drive(task, Input::Time(now.unix_ms), now);
        self.arm_limit(task, now);
    }

    /// Sees to it that somebody looks when the next task has rested for as long as it may.
    pub(in crate::core) fn arm_expiry(&mut self, now: Now) {
        let Some(due) = self.known.next() else {
            return;
        };
        let delay = due.saturating_sub(now.unix_ms);
        let at = now.mono_ms + delay.max(self.limits.expiry_pause_ms);
        if at < self.expiry_armed {
            self.expiry_armed = at;
            self.timers.arm(at, Timer::Expiry);
        }
    }

    /// Looks at the first few tasks that are due.
    pub(in crate::core) fn expire(&mut self, now: Now) {
        if self.expiry_armed > now.mono_ms {
            return;
        }
        self.expiry_armed = u64::MAX;
        // Those that were loaded only to be closed need not stay.
        for task in std::mem::take(&mut self.visitors) {
            if self.parked.contains_key(&task) {
                self.visitors.push(task);
            } else if self.tasks.get(&task).is_some_and(|loaded| loaded.can_leave()) {
                self.leave(task);
            }
        }
        let most = if self.ending { 0 } else { self.limits.expiries };
        for _ in 0..most {
            let Some(task) = self.known.pop(now.unix_ms) else {
                break;
            };
            let brief = self.known.get(&task);
            if brief.is_some_and(|brief| brief.state.is_terminal()) {
                self.retire(task, now);
            } else if self.tasks.contains_key(&task) {
                self.tell_time(&task, now);
            } else if !self.parked.contains_key(&task) {
                self.visitors.push(task.clone());
                self.fetch(&task);
            }
        }
        self.arm_expiry(now);
    }

    /// A task that has been over for as long as it is kept.
    fn retire(&mut self, task: TaskId, now: Now) {
        if self.is_continued(&task) {
            return;
        }
        let loaded = self.tasks.get(&task);
        if self.parked.contains_key(&task) || loaded.is_some_and(|loaded| !loaded.can_leave()) {
            self.put_off(task, now);
        } else {
            self.to_purge.push(task);
        }
    }

    /// Deletes the logs of those that are to go. What cannot be deleted is still there, and tried again later.
    pub(in crate::core) fn purge(&mut self, store: &mut dyn Store, now: Now) {
        for task in std::mem::take(&mut self.to_purge) {
            if !self.tasks.contains_key(&task) && store.is_open(&task) {
                // Left by a server that died before it had told its webhooks.
                self.visitors.push(task.clone());
                self.fetch(&task);
                self.put_off(task, now);
                continue;
            }
            if store.remove(&task).is_err() {
                self.put_off(task, now);
                continue;
            }
            drop(self.take_out(&task));
            self.strike(&task, now);
        }
        self.arm_expiry(now);
    }

    pub(in crate::core) fn put_off(&mut self, task: TaskId, now: Now) {
        let at = now.unix_ms + self.limits.expiry_retry_ms;
        self.known.put_off(task, at);
        self.arm_expiry(now);
    }

    fn is_continued(&self, task: &TaskId) -> bool {
        let brief = self.known.get(task);
        let place = brief.map(|brief| (brief.tenant.clone(), brief.context.clone()));
        let tasks = place.and_then(|place| self.contexts.get(&place));
        tasks.is_some_and(|tasks| tasks.last() != Some(task))
    }
}
