//! The space that tasks take on disk. If it is more than the operator allows, the oldest tasks are deleted. The store finds out which,
//! because that means looking at files; what is in use is known here.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::size;
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Excess, StoreError};
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::limits::DELETED_NAMED;

impl Core {
    pub(in crate::core) fn measure(&mut self) {
        if let Some(most) = self.settings.limits.state_bytes.filter(|_| self.is_running()) {
            let used = self.tasks.iter().filter(|(_, loaded)| !loaded.can_leave()).map(|(task, _)| task);
            let kept = used.chain(&self.tasks.session).chain(self.disk.loading.keys()).cloned().collect();
            self.out.push(Out::Store(StoreRequest::Measure { most, kept }));
        }
    }

    /// Deletes what is too much, unless it was put to use meanwhile, and measures again later.
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
            // Said once, until there is room.
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

    /// Whether a task has no unfinished work and nobody uses it.
    fn is_unused(&self, task: &TaskId) -> bool {
        let is_settled = self.tasks.known.get(task).is_some_and(|brief| brief.state.is_terminal() || brief.idle);
        let is_free = self.tasks.get(task).is_none_or(|loaded| loaded.can_leave());
        is_settled
            && is_free
            && !self.disk.loading.contains_key(task)
            && !self.tasks.is_continued(task)
            && self.tasks.session.as_ref() != Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Dialect, Switches};
    use crate::core::Input;
    use crate::core::rig::Rig;
    use crate::limits::Limits;

    fn measured(rig: &mut Rig, bytes: u64, delete: &[&TaskId]) -> (usize, Vec<String>) {
        let delete = delete.iter().map(|task| (*task).clone()).collect();
        rig.core.input(Input::Measured(Ok(Excess { bytes, delete })), rig.now);
        rig.turns();
        (rig.core.tasks.known.len(), std::mem::take(&mut rig.notices))
    }

    #[test]
    fn only_finished_tasks_are_deleted_and_the_log_says_so() {
        let limits = Limits { state_bytes: Some(64 << 20), ..Limits::default() };
        let mut rig = Rig::with(limits, Switches::default());
        let idle = rig.begin(Dialect::RPC_03, None);
        rig.end_turn();
        let over = rig.begin(Dialect::RPC_03, None);
        rig.end_turn();
        rig.cancel(&over);
        let working = rig.begin(Dialect::RPC_03, None);
        assert_eq!(measured(&mut rig, 64 << 20, &[&over]), (3, vec![]), "as much as there may be");
        let size = "the tasks take 65 MiB, more than 64 MiB (--state-max)";
        let more = (64 << 20) + (1 << 20);
        let none = format!("{size}, and none can be deleted: they have unfinished work or are in use");
        assert_eq!(measured(&mut rig, more, &[&working]), (3, vec![none]));
        assert_eq!(measured(&mut rig, more, &[]), (3, vec![]), "it is said once");
        let text = format!("{size}: the oldest 2 that were finished are deleted: {over}, {idle}");
        assert_eq!(measured(&mut rig, more, &[&over, &idle, &working]), (1, vec![text]));
        assert!(rig.core.tasks.known.get(&working).is_some());
    }

    #[test]
    fn tasks_are_measured_at_the_start_and_again_later() {
        let mut rig = Rig::new();
        rig.restart();
        let waits = |rig: &Rig| rig.core.timers.has(&Timer::Measure);
        assert!(waits(&rig), "measured, and to be measured again");
        rig.later(rig.limits.state_check_ms);
        assert!(waits(&rig));
    }
}
