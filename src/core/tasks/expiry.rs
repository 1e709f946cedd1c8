//! Expiry of tasks. Tasks that were idle for too long are loaded and closed by `decide`. Tasks that have been over for the retention time are
//! removed with their logs, without being loaded.
//!
//! A task that later tasks of its context continue is part of their conversation and stays as long as they do. A task with
//! deliveries to webhooks stays until they are delivered or given up, which takes minutes where retention takes hours.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::Core;
use crate::core::Out;
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Lasts, Removal, StoreError};
use crate::core::timers::Timer;
use crate::limits::store::REMOVAL_RETRY_MS;
use crate::task::log::brief::Brief;
use crate::task::machine::decide;
use crate::task::machine::decide::Input;

impl Core {
    /// Arms the timer of a task that checks whether a turn has lasted too long.
    pub(in crate::core) fn arm_limit(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get(task) else {
            return;
        };
        let Some(deadline) = decide::deadline(&loaded.state, &self.settings.limits.times) else {
            return;
        };
        let at = now.mono_ms + deadline.saturating_sub(self.tasks.known.time_for(loaded.state.at, now.unix_ms));
        if at < loaded.armed
            && let Some(loaded) = self.tasks.get_mut(task)
        {
            loaded.armed = at;
            self.timers.arm(at, Timer::Limit(task.clone()));
        }
    }

    pub(in crate::core) fn check_limit(&mut self, task: &TaskId, now: Now) {
        if let Some(loaded) = self.tasks.get_mut(task) {
            loaded.armed = u64::MAX;
            self.apply_time_limits(task, now);
        }
    }

    /// Gives a task the present time, so that it ends what has lasted too long.
    pub(in crate::core) fn apply_time_limits(&mut self, task: &TaskId, now: Now) {
        // This input is never refused; a task that is over ignores it.
        let at = self.tasks.get(task).map_or(now.unix_ms, |loaded| loaded.state.at);
        let time = self.tasks.known.time_for(at, now.unix_ms);
        let _ = self.drive(task, Input::Time(time), now);
        self.arm_limit(task, now);
    }

    /// Arms the timer for the next task that is due.
    pub(in crate::core) fn arm_expiry(&mut self, now: Now) {
        let Some(due) = self.tasks.known.next() else {
            return;
        };
        let delay = due.saturating_sub(now.unix_ms);
        self.timers.arm_expiry(now.mono_ms + delay.max(self.settings.limits.expiry_pause_ms));
    }

    /// Closes or removes the first few tasks that are due.
    pub(in crate::core) fn expire(&mut self, now: Now) {
        if !self.timers.expiry_fired(now.mono_ms) {
            return;
        }
        if self.tasks.known.read_clocks(now) {
            let text = "the clock was set forward by more than a day, or no server ran for as long: the times after which tasks are \
                        completed and deleted begin anew";
            self.out.push(Out::warning(text.into()));
        }
        // Unload the tasks that were loaded only to be closed.
        for task in self.disk.take_loaded_for_expiry() {
            if self.tasks.get(&task).is_some_and(|loaded| loaded.can_be_unloaded()) {
                self.unload_task(task);
            }
        }
        let most = if self.is_running() { self.settings.limits.expiries } else { 0 };
        for _ in 0..most {
            let Some(task) = self.tasks.known.pop(now.unix_ms) else {
                break;
            };
            let brief = self.tasks.known.get(&task);
            if brief.is_some_and(|brief| brief.state.is_terminal()) {
                self.remove_expired(task, now);
            } else if self.tasks.is_loaded(&task) {
                self.take_over(&task, now);
                self.apply_time_limits(&task, now);
            } else if !self.disk.loading.contains_key(&task) {
                self.load_for_expiry(task);
            }
        }
        self.arm_expiry(now);
    }

    /// Removes a task whose retention time is over, if it is not in use.
    fn remove_expired(&mut self, task: TaskId, now: Now) {
        if self.tasks.is_continued(&task) {
            return;
        }
        let loaded = self.tasks.get(&task);
        let is_used = self.disk.loading.contains_key(&task) || loaded.is_some_and(|loaded| !loaded.can_be_unloaded());
        // In a shared store the audit entry is written after the deletion, so nothing is deleted while the audit cannot be written.
        let is_unrecorded = self.settings.shared_store.is_some() && self.audit_problem().is_some();
        if is_used || is_unrecorded {
            self.put_off(task, now);
        } else {
            self.remove(task, now);
        }
    }

    /// Removes a task, and deletes its log once the audit has an entry about that.
    pub(super) fn remove(&mut self, task: TaskId, now: Now) {
        drop(self.tasks.unload(&task));
        if let Some(brief) = self.tasks.forget(&task, now.unix_ms) {
            self.audit_deleting(&task, now);
            self.start_after_audit(Out::Store(StoreRequest::Remove { task, brief }));
        }
    }

    /// The result of the deletion of a log. If it was not deleted, the task is registered again, and the deletion is tried again later.
    pub(in crate::core) fn removed(
        &mut self,
        task: TaskId,
        brief: Brief,
        result: Result<Removal, StoreError>,
        now: Now,
    ) {
        self.audit_deleted(&task, result == Ok(Removal::Removed), now);
        self.answer_deleting(&task, &result, now);
        if result != Ok(Removal::Removed) {
            self.tasks.register(task.clone(), brief);
            let stays = result.as_ref().is_err_and(|error| error.lasts == Lasts::Long);
            let pause_ms = match stays && self.settings.shared_store.is_some() {
                // Mostly another task continues it, of which nothing is known here.
                true => REMOVAL_RETRY_MS,
                false => self.settings.limits.expiry_retry_ms,
            };
            self.tasks.known.put_off(task.clone(), now.unix_ms + pause_ms);
        }
        if result == Ok(Removal::LeftOpen) {
            // Left by a server that died before it had delivered to its webhooks.
            self.load_for_expiry(task);
        }
        self.arm_expiry(now);
    }

    /// Loads a task only to close it. It is unloaded afterwards.
    fn load_for_expiry(&mut self, task: TaskId) {
        self.disk.loaded_for_expiry.push(task.clone());
        self.fetch_to_own(task);
    }

    pub(in crate::core) fn put_off(&mut self, task: TaskId, now: Now) {
        let at = now.unix_ms + self.settings.limits.expiry_retry_ms;
        self.tasks.known.put_off(task, at);
        self.arm_expiry(now);
    }
}
