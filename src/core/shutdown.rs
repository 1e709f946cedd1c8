//! Shutdown. Nothing new begins. Clients are sent elsewhere and come back when the server does: streams and sockets end, waiting calls
//! get the task as it stands. Model requests are cut, because they can be made again; calls of tools run on as long as there is time,
//! because they cannot.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::connections::connection::Conn;
use crate::core::operation::exchange::CloseReason;
use crate::core::readers::subscription::{Kind, Role, Subscription};
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::core::{Close, Core, Out, Shell};
use crate::task::audit;
use crate::task::log::event::Event;
use crate::task::machine::decide::{Decision, Input};
use crate::task::machine::job::JobId;
use crate::task::machine::state::Phase as TurnPhase;

/// The reason that sockets are closed with, and what event streams are told.
const RESTARTING: &str = "restarting";

/// How far the end of the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Running,
    /// Nothing new begins. Connections are still accepted, until load balancers have noticed.
    Draining,
    /// Clients leave; calls run on. The end is at this time, in monotonic milliseconds.
    Ending {
        end_ms: u64,
    },
    /// Calls were stopped.
    Stopping {
        end_ms: u64,
    },
    Ended,
}

impl Core {
    /// Begins to end.
    pub(super) fn shut_down(&mut self, now: Now) {
        if self.operation.phase != Phase::Running {
            return;
        }
        self.operation.phase = Phase::Draining;
        match self.settings.limits.drain_delay_ms {
            0 => self.refuse_connections(now),
            delay => self.timers.arm(now.mono_ms + delay, Timer::Shutdown),
        }
    }

    /// No more connections; idle ones are closed, and model requests are cut.
    fn refuse_connections(&mut self, now: Now) {
        let limits = &self.settings.limits;
        let end_ms = now.mono_ms + limits.shutdown_ms;
        self.timers.arm(end_ms - limits.stop_ms.min(limits.shutdown_ms / 2), Timer::Shutdown);
        self.timers.arm(end_ms, Timer::Shutdown);
        self.operation.phase = Phase::Ending { end_ms };
        let resting: Vec<Key> = self.connections.iter().filter(|(_, c)| c.is_resting()).map(|(k, _)| k).collect();
        for key in resting {
            self.close_for(key, CloseReason::Drain, Close::Orderly);
        }
        for task in self.tasks.open() {
            let is_cut = |phase: &TurnPhase| matches!(phase, TurnPhase::Working { .. });
            if self.tasks.get(&task).is_some_and(|loaded| is_cut(&loaded.state.phase)) {
                self.interrupt(&task, now);
            }
        }
    }

    /// The time of the present phase is over.
    pub(super) fn end_phase(&mut self, now: Now) {
        match self.operation.phase {
            Phase::Running | Phase::Ended => {}
            Phase::Draining => self.refuse_connections(now),
            Phase::Ending { .. } => self.give_up(now),
            Phase::Stopping { .. } => {}
        }
        if let Phase::Stopping { end_ms } = self.operation.phase
            && end_ms <= now.mono_ms
        {
            self.finish(now);
        }
    }

    /// Whether nobody has asked the server to end.
    pub fn is_running(&self) -> bool {
        self.operation.phase == Phase::Running
    }

    fn is_ending(&self) -> bool {
        matches!(self.operation.phase, Phase::Ending { .. } | Phase::Stopping { .. })
    }

    /// Whether connections are accepted.
    pub fn accepts(&self) -> bool {
        matches!(self.operation.phase, Phase::Running | Phase::Draining)
    }

    /// Whether the server may end now: watching clients have been told.
    pub fn is_over(&self) -> bool {
        self.operation.phase == Phase::Ended
    }

    /// Tasks whose last events are not known to survive a power failure.
    pub fn unflushed(&self) -> Vec<TaskId> {
        let unflushed = self.tasks.iter().filter(|(_, loaded)| loaded.owned && loaded.synced < loaded.written);
        unflushed.map(|(task, _)| task.clone()).collect()
    }

    /// Whether nothing is left to wait for before the end: nothing runs and all output was sent.
    pub(super) fn can_end(&self) -> bool {
        let quiet = || {
            self.tasks.values().all(|loaded| loaded.running.is_empty() && loaded.gated.is_empty() && !loaded.tells())
                && self.connections.iter().all(|(_, conn)| conn.output.is_empty() && conn.lent == 0)
                && !self.readers.iter().any(|(_, sub)| sub.is_encoding())
                && self.disk.to_append.is_empty()
        };
        self.is_ending() && quiet()
    }

    /// Calls are stopped: the time is nearly over, or nothing is left to wait for.
    fn give_up(&mut self, now: Now) {
        let Phase::Ending { end_ms } = self.operation.phase else {
            return;
        };
        for task in self.tasks.open() {
            self.interrupt(&task, now);
        }
        self.release_all(now);
        self.operation.phase = Phase::Stopping { end_ms };
    }

    /// Gives up the tasks in a shared store that others would otherwise leave alone, because only their owner can go on with them.
    fn release_all(&mut self, now: Now) {
        if self.settings.shared_store.is_none() {
            return;
        }
        let is_held = |loaded: &LoadedTask| loaded.owned && self.is_ours(loaded) && loaded.state.is_at_work();
        let held = self.tasks.iter().filter(|(_, loaded)| is_held(loaded));
        let mut held: Vec<(TaskId, u64)> =
            held.map(|(task, loaded)| (task.clone(), loaded.state.ownership.epoch())).collect();
        held.sort_unstable();
        for (task, epoch) in held {
            self.audit_ownership(audit::Kind::Released, &task, epoch, now);
            self.commit(&task, Decision { events: vec![Event::Released], effects: Vec::new() }, now);
        }
    }

    /// Everything is quiet.
    pub(super) fn end_early(&mut self, now: Now) {
        self.give_up(now);
        // What was interrupted has still to be recorded.
        if self.can_end() {
            self.finish(now);
        }
    }

    fn finish(&mut self, now: Now) {
        self.audit_ended(now);
        self.operation.phase = Phase::Ended;
    }

    /// Stops the jobs of a task, and records that they were interrupted.
    pub(super) fn interrupt(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get_mut(task).filter(|loaded| loaded.owned) else {
            return;
        };
        loaded.gated.clear();
        let stops = loaded.running.iter().map(|at| Out::Stop(JobId { task: task.clone(), at: *at }));
        self.out.extend(stops);
        if let Ok(decision) = self.decide(task, Input::Restored) {
            self.commit(task, decision, now);
        }
    }

    /// Clients leave, each as soon as it has been told what there is to tell. Terminals of this process stay to the end.
    pub(super) fn dismiss_clients(&mut self, now: Now) {
        if !self.is_ending() {
            return;
        }
        for key in self.readers.keys() {
            let Some(sub) = self.readers.get(key) else {
                continue;
            };
            let Some(conn) = self.connections.get(sub.conn) else {
                continue;
            };
            let (at, is_http) = (sub.conn, conn.socket().is_none());
            match sub.kind {
                Kind::Once { .. } => self.stop_waiting(key),
                Kind::Stream if is_http && self.has_all(sub) => self.end_subscription(key, at, now),
                Kind::Stream | Kind::Ready { .. } => {}
            }
        }
        let sockets = self.connections.iter().filter(|(_, conn)| self.may_leave(conn));
        let sockets: Vec<Key> = sockets.map(|(key, _)| key).collect();
        self.close_sockets(&sockets, now);
    }

    /// The time is over: sockets are closed whatever they wait for.
    pub(super) fn close_all_sockets(&mut self, now: Now) {
        let sockets: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
        self.close_sockets(&sockets, now);
    }

    fn close_sockets(&mut self, keys: &[Key], now: Now) {
        for key in keys {
            let Some(conn) = self.connections.get_mut(*key).filter(|conn| conn.socket().is_some() && !conn.is_local())
            else {
                continue;
            };
            conn.because(CloseReason::Drain);
            let subs = std::mem::take(&mut conn.subs);
            conn.hang_up(1001, RESTARTING, now);
            for sub in subs {
                self.unsubscribe(sub);
            }
            self.after_io(*key);
        }
    }

    /// Whether a socket waits for no answer and was sent all events that there are.
    fn may_leave(&self, conn: &Conn) -> bool {
        let mut streams = 0;
        for sub in conn.subs.iter().filter_map(|key| self.readers.get(*key)) {
            match sub.kind {
                Kind::Stream if self.has_all(sub) => streams += usize::from(sub.role == Role::Call),
                Kind::Stream | Kind::Once { .. } | Kind::Ready { .. } => return false,
            }
        }
        conn.calls <= streams
    }

    /// Whether a stream was sent everything that was decided. One that is behind goes on as long as there is time.
    fn has_all(&self, sub: &Subscription) -> bool {
        let loaded = self.tasks.get(&sub.task);
        sub.first.is_none() && loaded.is_none_or(|loaded| loaded.is_shown() && sub.cursor >= loaded.shown())
    }

    /// Ends an event stream with a comment: the task goes on, and a client that connects again continues behind the last event.
    fn end_subscription(&mut self, key: Key, at: Key, now: Now) {
        self.unsubscribe(key);
        if let Some(conn) = self.connections.get_mut(at) {
            conn.because(CloseReason::Drain);
            conn.notice(RESTARTING, &[].into(), now);
            conn.end_stream(now);
        }
        self.after_io(at);
    }

    /// The loop has ended: whoever is still connected is disconnected, and the access log is told.
    pub fn end(&mut self, shell: &mut dyn Shell) {
        let left: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
        for key in left {
            self.close_for(key, CloseReason::Drain, Close::Orderly);
        }
        let is_access = |out: &Out| matches!(out, Out::Access(_));
        std::mem::take(&mut self.out).into_iter().filter(is_access).for_each(|out| shell.start(out));
    }
}
