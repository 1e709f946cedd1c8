//! Shutdown. No new work begins. Clients are disconnected: streams and sockets end, and waiting calls are answered with the task as it
//! is. Model requests are interrupted, because they can be repeated; tool calls, which cannot, continue until the time is over.

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

/// The close reason of sockets, and the comment at the end of event streams.
const RESTARTING: &str = "restarting";

/// The phases of the shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Running,
    /// No new work begins. Connections are still accepted, until load balancers have noticed.
    Draining,
    /// Clients are disconnected; tool calls continue. The server ends at this time, in monotonic milliseconds.
    Ending {
        end_ms: u64,
    },
    /// Tool calls were stopped.
    Stopping {
        end_ms: u64,
    },
    Ended,
}

impl Core {
    /// Begins the shutdown.
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

    /// Accepts no more connections, closes idle ones, and interrupts model requests.
    fn refuse_connections(&mut self, now: Now) {
        let limits = &self.settings.limits;
        let end_ms = now.mono_ms + limits.shutdown_ms;
        self.timers.arm(end_ms - limits.stop_ms.min(limits.shutdown_ms / 2), Timer::Shutdown);
        self.timers.arm(end_ms, Timer::Shutdown);
        self.operation.phase = Phase::Ending { end_ms };
        let idle: Vec<Key> = self.connections.iter().filter(|(_, c)| c.is_idle()).map(|(k, _)| k).collect();
        for key in idle {
            self.close_for(key, CloseReason::Drain, Close::Orderly);
        }
        for task in self.tasks.open() {
            let asks_model = |phase: &TurnPhase| matches!(phase, TurnPhase::Working { .. });
            if self.tasks.get(&task).is_some_and(|loaded| asks_model(&loaded.state.phase)) {
                self.interrupt(&task, now);
            }
        }
    }

    /// The time of the present phase is over.
    pub(super) fn end_phase(&mut self, now: Now) {
        match self.operation.phase {
            Phase::Running | Phase::Ended => {}
            Phase::Draining => self.refuse_connections(now),
            Phase::Ending { .. } => self.stop_calls(now),
            Phase::Stopping { .. } => {}
        }
        if let Phase::Stopping { end_ms } = self.operation.phase
            && end_ms <= now.mono_ms
        {
            self.finish(now);
        }
    }

    /// Whether no shutdown has begun.
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

    /// Whether the shutdown is complete.
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
        let is_quiet = || {
            self.tasks
                .values()
                .all(|loaded| loaded.running.is_empty() && loaded.gated.is_empty() && !loaded.is_delivering())
                && self.connections.iter().all(|(_, conn)| conn.output.is_empty() && conn.worker_bytes == 0)
                && !self.readers.iter().any(|(_, sub)| sub.is_encoding())
                && self.disk.to_append.is_empty()
        };
        self.is_ending() && is_quiet()
    }

    /// Stops tool calls: the time is nearly over, or nothing is left to wait for.
    fn stop_calls(&mut self, now: Now) {
        let Phase::Ending { end_ms } = self.operation.phase else {
            return;
        };
        for task in self.tasks.open() {
            self.interrupt(&task, now);
        }
        self.release_all(now);
        self.operation.phase = Phase::Stopping { end_ms };
    }

    /// Releases the tasks of this instance in a shared store whose turns are unfinished, so that other instances may continue them.
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

    /// Ends before the time is over, because nothing is left to wait for.
    pub(super) fn end_early(&mut self, now: Now) {
        self.stop_calls(now);
        // The interruptions have still to be recorded.
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
        if let Ok(decision) = self.decide(task, Input::Interrupted) {
            self.commit(task, decision, now);
        }
    }

    /// Disconnects each client as soon as it was sent all events that there are. Terminals of this process stay connected to the end.
    pub(super) fn disconnect_clients(&mut self, now: Now) {
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
        let sockets = self.connections.iter().filter(|(_, conn)| self.can_disconnect(conn));
        let sockets: Vec<Key> = sockets.map(|(key, _)| key).collect();
        self.close_sockets(&sockets, now);
    }

    /// Closes all sockets, because the time is over.
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
            conn.set_close_reason(CloseReason::Drain);
            let subs = std::mem::take(&mut conn.subs);
            conn.close_socket(1001, RESTARTING, now);
            for sub in subs {
                self.unsubscribe(sub);
            }
            self.after_io(*key);
        }
    }

    /// Whether a socket waits for no answer and was sent all events that there are.
    fn can_disconnect(&self, conn: &Conn) -> bool {
        let mut streams = 0;
        for sub in conn.subs.iter().filter_map(|key| self.readers.get(*key)) {
            match sub.kind {
                Kind::Stream if self.has_all(sub) => streams += usize::from(sub.role == Role::Call),
                Kind::Stream | Kind::Once { .. } | Kind::Ready { .. } => return false,
            }
        }
        conn.calls <= streams
    }

    /// Whether a stream was sent everything that was decided. A stream that is behind continues as long as there is time.
    fn has_all(&self, sub: &Subscription) -> bool {
        let loaded = self.tasks.get(&sub.task);
        sub.first.is_none() && loaded.is_none_or(|loaded| loaded.is_shown() && sub.cursor >= loaded.shown())
    }

    /// Ends an event stream with a comment. The task continues, and a client that connects again resumes behind the last event.
    fn end_subscription(&mut self, key: Key, at: Key, now: Now) {
        self.unsubscribe(key);
        if let Some(conn) = self.connections.get_mut(at) {
            conn.set_close_reason(CloseReason::Drain);
            conn.notice(RESTARTING, &[].into(), now);
            conn.end_stream(now);
        }
        self.after_io(at);
    }

    /// The loop has ended: closes all connections, and writes their requests to the access log.
    pub fn end(&mut self, shell: &mut dyn Shell) {
        let open: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
        for key in open {
            self.close_for(key, CloseReason::Drain, Close::Orderly);
        }
        let is_access = |out: &Out| matches!(out, Out::AccessLog(_));
        std::mem::take(&mut self.out).into_iter().filter(is_access).for_each(|out| shell.start(out));
    }
}
