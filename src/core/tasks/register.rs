//! The summaries of all tasks, in memory or not, and when each is due to be closed or removed because it has been idle or over for too
//! long. One timer, for the task that is due first, is enough for a hundred thousand tasks.
//!
//! A task that is at work is never due.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::limits::{CLOCK_STEP_MS, Times};
use crate::task::log::brief::Brief;
use crate::task::machine::state::TaskState;
use std::collections::{BTreeSet, HashMap};

pub struct Register {
    briefs: HashMap<TaskId, Brief>,
    /// When each task is due, in Unix milliseconds: at the time that its brief gives, and perhaps a second time, to which it was put off.
    due: BTreeSet<(u64, TaskId)>,
    times: Times,
    /// When the periods of all tasks were last restarted, in Unix milliseconds: the period of a task with an earlier time begins here.
    anew: u64,
    /// The clocks when they were last read.
    seen: Option<Now>,
}

impl Register {
    pub fn new(times: Times) -> Register {
        Register { briefs: HashMap::new(), due: BTreeSet::new(), times, anew: 0, seen: None }
    }

    /// Compares the clocks. If the time of day has advanced by more than [`CLOCK_STEP_MS`] beyond the monotonic clock since they were last
    /// read, it was set: then the periods of all tasks begin anew. Returns whether they do.
    pub fn read_clocks(&mut self, now: Now) -> bool {
        let expected = match self.seen.replace(now) {
            Some(seen) => Some(seen.unix_ms + now.mono_ms.saturating_sub(seen.mono_ms)),
            // At the start the only earlier time that is known is that of the newest task.
            None => self.briefs.values().map(|brief| brief.at).max().filter(|at| *at > 0),
        };
        let is_step = expected.is_some_and(|expected| now.unix_ms > expected.saturating_add(CLOCK_STEP_MS));
        if is_step {
            self.anew = now.unix_ms;
            let briefs = self.briefs.iter();
            self.due = briefs.filter_map(|(task, brief)| Some((self.due_at(brief)?, task.clone()))).collect();
        }
        is_step
    }

    /// The present time for a task whose last event was at `at`, corrected as if the clock had not been set since.
    pub fn time_for(&self, at: u64, unix_ms: u64) -> u64 {
        unix_ms.saturating_sub(self.anew.saturating_sub(at))
    }

    pub fn get(&self, task: &TaskId) -> Option<&Brief> {
        self.briefs.get(task)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TaskId, &Brief)> {
        self.briefs.iter()
    }

    pub fn insert(&mut self, task: TaskId, brief: Brief) {
        self.remove(&task);
        if let Some(at) = self.due_at(&brief) {
            self.due.insert((at, task.clone()));
        }
        self.briefs.insert(task, brief);
    }

    pub fn remove(&mut self, task: &TaskId) -> Option<Brief> {
        let brief = self.briefs.remove(task)?;
        if let Some(at) = self.due_at(&brief) {
            self.due.remove(&(at, task.clone()));
        }
        Some(brief)
    }

    /// When a task is due next, in Unix milliseconds.
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes one task that is due. It becomes due again only if it is put off or its brief changes.
    pub fn pop(&mut self, unix_ms: u64) -> Option<TaskId> {
        while self.next().is_some_and(|at| at <= unix_ms) {
            let (_, task) = self.due.pop_first().expect("just seen");
            let at = self.briefs.get(&task).and_then(|brief| self.due_at(brief));
            if at.is_some_and(|at| at <= unix_ms) {
                return Some(task);
            }
        }
        None
    }

    /// Makes a task due at another time, and not before.
    pub fn put_off(&mut self, task: TaskId, unix_ms: u64) {
        if let Some(at) = self.briefs.get(&task).and_then(|brief| self.due_at(brief)).filter(|at| *at < unix_ms) {
            self.due.remove(&(at, task.clone()));
        }
        self.due.insert((unix_ms, task));
    }

    fn due_at(&self, brief: &Brief) -> Option<u64> {
        // The time of a task whose log cannot be read is not known; the log is kept for the operator.
        if brief.at == 0 {
            return None;
        }
        let limit = match brief.state {
            TaskState::Working => None,
            TaskState::Submitted | TaskState::InputRequired | TaskState::AuthRequired => self.times.idle_ms,
            TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => {
                self.times.retention_ms
            }
        };
        limit.map(|limit| brief.at.max(self.anew).saturating_add(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register() -> Register {
        Register::new(Times { idle_ms: Some(100), retention_ms: Some(10), ..Times::default() })
    }

    fn brief(state: TaskState, at: u64) -> Brief {
        Brief { state, at, ..Brief::bare("c".into()) }
    }

    fn due(register: &mut Register, unix_ms: u64) -> Vec<String> {
        let tasks = std::iter::from_fn(|| register.pop(unix_ms));
        tasks.map(|task| task.to_string()).collect()
    }

    #[test]
    fn tasks_become_due_in_order_once_after_the_period_of_their_state() {
        let mut register = register();
        for (task, state) in [
            ("submitted", TaskState::Submitted),
            ("working", TaskState::Working),
            ("waiting", TaskState::InputRequired),
            ("over", TaskState::Failed),
        ] {
            register.insert(task.into(), brief(state, 1_000));
        }
        register.insert("unreadable".into(), brief(TaskState::Failed, 0));
        assert_eq!(register.next(), Some(1_010));
        assert_eq!(due(&mut register, 1_009), [""; 0]);
        assert_eq!(due(&mut register, 1_010), ["over"]);
        assert_eq!(due(&mut register, 9_999), ["submitted", "waiting"]);
        assert_eq!((register.next(), register.briefs.len()), (None, 5));
    }

    #[test]
    fn only_the_newest_status_makes_a_task_due() {
        let mut register = register();
        let task = TaskId::from("t");
        register.insert(task.clone(), brief(TaskState::InputRequired, 1_000));
        register.insert(task.clone(), brief(TaskState::Working, 1_050));
        assert_eq!(register.next(), None);
        register.insert(task.clone(), brief(TaskState::InputRequired, 1_090));
        assert_eq!(due(&mut register, 1_189), [""; 0]);
        register.insert(task.clone(), brief(TaskState::Canceled, 1_100));
        assert_eq!(due(&mut register, 1_110), ["t"], "it may come sooner");
        register.put_off(task.clone(), 1_200);
        assert_eq!(due(&mut register, 1_199), [""; 0]);
        assert_eq!(due(&mut register, 1_200), ["t"]);
        register.put_off(task.clone(), 1_300);
        register.remove(&task);
        assert_eq!(due(&mut register, 1_300), [""; 0]);
    }

    #[test]
    fn a_clock_that_is_set_forward_begins_all_periods_anew() {
        let now = |mono_ms: u64, unix_ms: u64| Now { mono_ms, unix_ms };
        let mut register = register();
        // A board without a clock: the task ended in 1970.
        register.insert("old".into(), brief(TaskState::Completed, 5_000));
        let year = 56 * 365 * CLOCK_STEP_MS;
        assert!(register.read_clocks(now(0, year)), "the first start with the right time");
        assert_eq!(due(&mut register, year + 9), [""; 0]);
        register.insert("new".into(), brief(TaskState::Completed, year + 5));
        assert_eq!(due(&mut register, year + 10), ["old"]);
        assert_eq!(due(&mut register, year + 15), ["new"]);
        for task in ["old", "new"] {
            register.remove(&task.into());
        }
        // While the server runs, an advance of both clocks is no step, nor is a step of a day.
        let day = CLOCK_STEP_MS;
        register.insert("t".into(), brief(TaskState::InputRequired, year + 50));
        assert!(!register.read_clocks(now(9 * day, year + 9 * day)));
        assert!(!register.read_clocks(now(9 * day, year + 10 * day)));
        assert!(!register.read_clocks(now(9 * day, 7)), "back to 1970");
        assert!(register.read_clocks(now(9 * day, 8 + day)));
        assert_eq!(register.next(), Some(year + 150), "its time is later than that");
        assert!(register.read_clocks(now(9 * day + 10, year + 10 * day)));
        assert_eq!(register.next(), Some(year + 10 * day + 100));
        // The time for a task is that of a clock which was not set: here it has waited for 20 ms before and 30 ms since.
        assert_eq!(register.time_for(year + 20, year + 10 * day + 30), year + 50);
        assert_eq!(register.time_for(year + 11 * day, year + 12 * day), year + 12 * day);
    }

    #[test]
    fn a_start_within_a_day_of_the_last_task_changes_nothing() {
        let mut register = register();
        let at = 1_800_000_000_000;
        register.insert("t".into(), brief(TaskState::Completed, at));
        register.insert("unreadable".into(), brief(TaskState::Failed, 0));
        assert!(!register.read_clocks(Now { mono_ms: 0, unix_ms: at + CLOCK_STEP_MS }));
        assert_eq!(register.next(), Some(at + 10));
        let mut empty = Register::new(Times::default());
        assert!(!empty.read_clocks(Now { mono_ms: 0, unix_ms: at }), "nothing tells what time it was");
    }
}
