//! Shutdown. The server starts nothing new, gives turns time to finish, and tells subscribed clients that it ends.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::timers::Timer;
use crate::core::{Close, Core, Out};
use crate::task::machine::decide::Input;
use crate::task::machine::job::JobId;

/// How far the end of the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Nothing new begins.
    Ending,
    Ended,
}

impl Core {
    /// Begins to end: no new connections, idle ones are closed, turns have `limits.shutdown_ms` to finish.
    pub(super) fn shut_down(&mut self, now: Now) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Ending;
        let resting: Vec<Key> = self.connections.iter().filter(|(_, c)| c.is_resting()).map(|(k, _)| k).collect();
        for key in resting {
            self.close_conn(key, Close::Orderly);
        }
        self.timers.arm(now.mono_ms + self.settings.limits.shutdown_ms, Timer::Shutdown);
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether the server may end now: watching clients have been told.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether nothing is left to wait for before the end: nothing runs and all output was sent.
    pub(super) fn can_end(&self) -> bool {
        let quiet = || {
            self.tasks.values().all(|loaded| loaded.running.is_empty() && loaded.gated.is_empty() && !loaded.tells())
                && self.connections.iter().all(|(_, conn)| conn.output.is_empty() && conn.lent == 0)
                && !self.readers.iter().any(|(_, sub)| sub.is_encoding())
                && self.disk.to_append.is_empty()
        };
        self.phase == Phase::Ending && quiet()
    }

    /// The time is over, or nothing is left to wait for: running jobs are stopped, and watching clients are told.
    pub(super) fn give_up(&mut self, now: Now) {
        for task in self.tasks.open() {
            let Some(loaded) = self.tasks.get_mut(&task).filter(|loaded| loaded.owned) else {
                continue;
            };
            loaded.gated.clear();
            for at in std::mem::take(&mut loaded.running) {
                self.out.push(Out::Stop(JobId { task: task.clone(), at }));
            }
            if let Ok(decision) = self.decide(&task, Input::Restored) {
                self.commit(&task, decision, now);
            }
        }
        self.phase = Phase::Ended;
    }
}
