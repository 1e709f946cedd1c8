//! The end of the server. It begins nothing new, lets turns finish for a while, and tells those who watch what it leaves open.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::task::machine::decide::Input;
use crate::task::machine::job::JobId;

impl Core {
    /// Begins to end: no new connections, resting ones go, turns have `limits.shutdown_ms` to finish.
    pub fn shut_down(&mut self, now: Now) {
        if self.ending {
            return;
        }
        self.ending = true;
        let resting: Vec<Key> = self.conns.iter().filter(|(_, c)| c.is_resting()).map(|(k, _)| k).collect();
        for key in resting {
            self.drop_conn(key);
        }
        self.timers.arm(now.mono_ms + self.limits.shutdown_ms, Timer::Shutdown);
    }

    /// Whether the server may end now: those who watch have been told.
    pub fn is_over(&self) -> bool {
        self.ended
    }

    /// Whether nothing is left to wait for before the end: nothing runs and everything said has gone out.
    pub(super) fn can_end(&self) -> bool {
        let quiet = || {
            self.tasks.values().all(|loaded| loaded.running.is_empty() && loaded.gated.is_empty() && !loaded.tells())
                && self.conns.iter().all(|(_, conn)| conn.output.is_empty())
                && self.to_append.is_empty()
        };
        self.ending && !self.ended && quiet()
    }

    /// The time is over, or nothing is left to wait for: what runs is stopped, and those who watch are told.
    pub(super) fn give_up(&mut self, now: Now) {
        let mut open: Vec<TaskId> = self.tasks.iter().filter(|(_, c)| c.is_open()).map(|(id, _)| id.clone()).collect();
        open.sort_unstable();
        for task in open {
            let Some(loaded) = self.tasks.get_mut(&task) else {
                continue;
            };
            loaded.gated.clear();
            for at in std::mem::take(&mut loaded.running) {
                self.out.push(Out::Stop(JobId { task: task.clone(), at }));
            }
            let decided = self.decide(&task, Input::Restored);
            if let Ok(decision) = decided {
                self.commit(&task, decision, now);
            }
        }
        self.ended = true;
    }
}
