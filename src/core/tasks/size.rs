//! Deletes tasks: the oldest ones if all take more space on disk than the operator allows, and those that clients delete. The store
//! measures the space and chooses the tasks, because it knows the files; which tasks are in use is known here.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::text::size;
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Excess, Lasts, Removal, StoreError};
use crate::core::requests::Caller;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::limits::DELETED_NAMED;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::brief::Brief;
use crate::task::machine::state::TaskState;

impl Core {
    /// Requests a measurement of the space that tasks take, if the operator has set a limit.
    pub(in crate::core) fn measure(&mut self) {
        if let Some(most) = self.settings.limits.state_bytes.filter(|_| self.is_running()) {
            let used = self.tasks.iter().filter(|(_, loaded)| !loaded.can_be_unloaded()).map(|(task, _)| task);
            let kept = used.chain(self.tasks.sessions.values()).chain(self.disk.loading.keys()).cloned().collect();
            self.out.push(Out::Store(StoreRequest::Measure { most, kept }));
        }
    }

    /// Deletes the tasks that the store has chosen, unless they are in use by now, and arms the next measurement.
    pub(in crate::core) fn measured(&mut self, result: Result<Excess, StoreError>, now: Now) {
        self.timers.arm(now.mono_ms + self.settings.limits.state_check_ms, Timer::Measure);
        let most = self.settings.limits.state_bytes.unwrap_or(u64::MAX);
        let excess = match result {
            Ok(excess) if excess.bytes <= most => return self.disk.is_overfull = false,
            Ok(excess) => excess,
            Err(error) => return self.out.push(Out::warning(error.message)),
        };
        let mut deleted: Vec<TaskId> = excess.delete;
        deleted.retain(|task| self.is_unused(task));
        for task in &deleted {
            self.remove(task.clone(), now);
        }
        let size =
            format!("the tasks take {}, more than {} (--state-max)", size::spell(excess.bytes), size::spell(most));
        let text = match deleted.as_slice() {
            // Logged once, until there is room again.
            [] if std::mem::replace(&mut self.disk.is_overfull, true) => return,
            [] => format!("{size}, and none can be deleted: they have unfinished work or are in use"),
            all => {
                let mut names: Vec<&str> = all.iter().take(DELETED_NAMED).map(TaskId::as_str).collect();
                names.extend((all.len() > DELETED_NAMED).then_some("and others"));
                format!("{size}: the oldest {} that were finished are deleted: {}", all.len(), names.join(", "))
            }
        };
        self.out.push(Out::warning(text));
    }

    /// Carries out the call that deletes a task.
    pub(in crate::core) fn delete(&mut self, caller: &Caller, task: TaskId, now: Now) -> Result<(), Fault> {
        if !self.sees(caller, &task) {
            return Err(Fault::no_task(&task));
        }
        self.before_delete(caller, &task);
        if !(self.may_be_deleted(&task) && self.is_free(&task)) {
            let message = format!(
                "Task {task} cannot be deleted: it has unfinished work, a later task continues it, a client follows it, or it is \
                 the live session. Cancel or leave it first."
            );
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        if self.settings.shared_store.is_some() {
            self.connections.begin_call(caller.conn);
            self.disk.sharing.deleting.push((task.clone(), caller.clone()));
            self.remove(task, now);
            return Ok(());
        }
        let response = a2a::acknowledged(&caller.form, &task);
        self.remove(task, now);
        self.answer_now(caller.conn, &response, now)
    }

    /// A shared store has deleted a task, or refused to: answers the callers. They have waited for that, because another instance may work
    /// on the task.
    pub(super) fn answer_deleting(&mut self, task: &TaskId, result: &Result<Removal, StoreError>, now: Now) {
        let deleting = &mut self.disk.sharing.deleting;
        let done: Vec<(TaskId, Caller)> = deleting.extract_if(.., |(deleted, _)| deleted == task).collect();
        for (_, Caller { conn, form, .. }) in done {
            self.connections.end_call(conn);
            match result {
                Ok(_) => self.answer(conn, &a2a::acknowledged(&form, task), now),
                Err(error) => {
                    let kind = match error.lasts {
                        Lasts::WhileLocked => FaultKind::TaskHeld { task: task.clone(), owner: None, url: None },
                        Lasts::Shortly => FaultKind::Overloaded { retry_after_s: 1 },
                        Lasts::Long | Lasts::Gone => FaultKind::Storage,
                    };
                    let message = format!("Task {task} was not deleted: {error}.");
                    self.refuse(conn, &form, &Fault::new(kind, message), now);
                }
            }
            self.read_on(conn, now);
        }
    }

    /// Whether a task has no unfinished work and nobody uses it.
    fn is_unused(&self, task: &TaskId) -> bool {
        self.tasks.known.get(task).is_some_and(|brief| brief.state.is_terminal() || brief.idle) && self.is_free(task)
    }

    /// Whether a client may delete a task: it has no unfinished work. A turn that was stopped does not count, although it could be continued.
    pub(in crate::core) fn may_be_deleted(&self, task: &TaskId) -> bool {
        let is_stopped = |brief: &Brief| brief.state == TaskState::InputRequired && brief.waiting == 0;
        let brief = self.tasks.known.get(task);
        brief.is_some_and(|brief| brief.state.is_terminal() || brief.idle || is_stopped(brief))
    }

    /// Whether nobody uses a task.
    fn is_free(&self, task: &TaskId) -> bool {
        self.tasks.get(task).is_none_or(|loaded| loaded.can_be_unloaded())
            && !self.disk.loading.contains_key(task)
            && !self.tasks.is_continued(task)
            && !self.tasks.is_session(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Dialect, Switches};
    use crate::core::Input;
    use crate::core::test_core::TestCore;
    use crate::limits::Limits;
    use crate::task::call::Call;

    fn measured(test: &mut TestCore, bytes: u64, delete: &[&TaskId]) -> (usize, Vec<String>) {
        let delete = delete.iter().map(|task| (*task).clone()).collect();
        test.core.input(Input::Measured(Ok(Excess { bytes, delete })), test.now);
        test.turns();
        (test.core.tasks.known.iter().count(), std::mem::take(&mut test.notices))
    }

    #[test]
    fn only_finished_tasks_are_deleted_and_the_log_says_so() {
        let limits = Limits { state_bytes: Some(64 << 20), ..Limits::default() };
        let mut test = TestCore::with(limits, Switches::default());
        let idle = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        let over = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        test.cancel(&over);
        let working = test.begin(Dialect::RPC_03, None);
        assert_eq!(measured(&mut test, 64 << 20, &[&over]), (3, vec![]), "as much as there may be");
        let size = "the tasks take 65 MiB, more than 64 MiB (--state-max)";
        let more = (64 << 20) + (1 << 20);
        let none = format!("{size}, and none can be deleted: they have unfinished work or are in use");
        assert_eq!(measured(&mut test, more, &[&working]), (3, vec![none]));
        assert_eq!(measured(&mut test, more, &[]), (3, vec![]), "it is said once");
        let text = format!("{size}: the oldest 2 that were finished are deleted: {over}, {idle}");
        assert_eq!(measured(&mut test, more, &[&over, &idle, &working]), (1, vec![text]));
        assert!(test.core.tasks.known.get(&working).is_some());
    }

    #[test]
    fn a_client_deletes_a_task_that_nobody_uses() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        let delete =
            |test: &mut TestCore, task: &TaskId| test.ask(Dialect::NATIVE, Call::Delete { task: task.clone() });
        assert_eq!(delete(&mut test, &task)["error"]["reason"], "UNSUPPORTED_OPERATION", "it is at work");
        test.end_turn();
        assert_eq!(delete(&mut test, &task)["ok"]["taskId"], task.as_str());
        assert_eq!(delete(&mut test, &task)["error"]["reason"], "TASK_NOT_FOUND");
        test.restart();
        assert_eq!(test.core.tasks.known.iter().count(), 0, "its log is gone");
        let session = test.ask(Dialect::NATIVE, Call::Session)["ok"].as_str().map(TaskId::from).expect("an id");
        assert_eq!(delete(&mut test, &session)["error"]["reason"], "UNSUPPORTED_OPERATION", "the live session stays");
    }

    #[test]
    fn tasks_are_measured_at_the_start_and_again_later() {
        let mut test = TestCore::new();
        test.restart();
        let waits = |test: &TestCore| test.core.timers.has(&Timer::Measure);
        assert!(waits(&test), "measured, and to be measured again");
        test.later(test.limits.state_check_ms);
        assert!(waits(&test));
    }
}
