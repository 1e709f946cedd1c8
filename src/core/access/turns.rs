//! How many turns and streams of one credential may be under way at the same time. Further turns wait in the order of their prompts, and
//! their clients are shown their place in the queue; further streams are refused.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::Core;
use crate::core::requests::Caller;
use crate::limits::access::{STREAMS, STREAMS_RETRY_MS, TURNS};
use crate::task::call::{Call, Execute, Mode, Say};
use crate::task::definitions::slash::Answers;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Event;
use crate::task::machine::decide::Decision;
use crate::task::machine::state::Phase;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Tasks whose next turn waits, by credential, in the order in which they may begin.
#[derive(Default)]
pub(in crate::core) struct DelayedTurns {
    waiting: HashMap<Arc<str>, VecDeque<TaskId>>,
    /// A turn has ended or was cancelled, so that a waiting turn may begin.
    has_changed: bool,
}

impl DelayedTurns {
    /// Whether a waiting turn may be able to begin.
    pub fn has_room(&self) -> bool {
        self.has_changed && !self.waiting.is_empty()
    }
}

impl Core {
    /// Whether the next turn of a task has to wait, because its credential has as many turns under way as it may. The delay is recorded.
    pub(in crate::core) fn delays_turn(&mut self, task: &TaskId, now: Now) -> bool {
        let Some(id) = self.next_credential(task) else {
            return false;
        };
        let most = self.access.rate_of(&id).turns.unwrap_or(TURNS);
        let is_free = self.tasks.running_turns(&id) < most as usize;
        let waiting = self.access.turns.waiting.entry(id.clone()).or_default();
        let index = waiting.iter().position(|waits| waits == task);
        if is_free && (waiting.is_empty() || index == Some(0)) {
            waiting.retain(|waits| waits != task);
            self.access.turns.waiting.retain(|_, waiting| !waiting.is_empty());
            return false;
        }
        if index.is_none() {
            waiting.push_back(task.clone());
            let place = waiting.len();
            self.record_delay(task, place, now);
        }
        true
    }

    /// Records the place of a task in the queue, counted from 1; its clients are shown that.
    fn record_delay(&mut self, task: &TaskId, place: usize, now: Now) {
        self.commit(task, Decision { events: vec![Event::Delayed { place }], effects: Vec::new() }, now);
    }

    /// Notes whether one of these events ends a turn or cancels a waiting one.
    pub(in crate::core) fn note_freed_turns(&mut self, events: &[Event]) {
        let frees = |event: &Event| {
            matches!(
                event,
                Event::TurnEnded { .. }
                    | Event::Paused
                    | Event::Interrupted { .. }
                    | Event::Closed { .. }
                    | Event::Dropped { .. }
            )
        };
        self.access.turns.has_changed |= events.iter().any(frees);
    }

    /// Begins waiting turns, as many as their credentials may have.
    pub(in crate::core) fn begin_delayed_turns(&mut self, now: Now) {
        if !std::mem::take(&mut self.access.turns.has_changed) {
            return;
        }
        let ids: Vec<Arc<str>> = self.access.turns.waiting.keys().cloned().collect();
        for id in ids {
            let mut has_moved = false;
            while let Some(task) = self.access.turns.waiting.get(&id).and_then(VecDeque::front).cloned() {
                let is_due = self.next_credential(&task).as_ref() == Some(&id);
                if is_due {
                    self.advance(&task, now);
                }
                let is_still_first = self.access.turns.waiting.get(&id).and_then(VecDeque::front) == Some(&task);
                if is_still_first && is_due {
                    break;
                }
                has_moved = true;
                if is_still_first {
                    // Its prompt was taken back, or the task is over.
                    self.access.turns.waiting.entry(id.clone()).or_default().pop_front();
                }
            }
            let next = self.access.turns.waiting.get(&id).and_then(VecDeque::front).cloned();
            match next.filter(|_| has_moved) {
                Some(next) => self.record_delay(&next, 1, now),
                None => self.access.turns.waiting.retain(|_, waiting| !waiting.is_empty()),
            }
        }
    }

    /// The credential of the prompt that begins the next turn of a task, if that turn counts against the limit. The turns of built-in
    /// commands are short and do not count.
    fn next_credential(&self, task: &TaskId) -> Option<Arc<str>> {
        let state = &self.tasks.get(task)?.state;
        let id = state.queue.front()?.credential.clone()?;
        let command = state.created.command.as_ref().filter(|_| state.turn.number == 0);
        let all = self.settings.commands.all();
        let spec = command.and_then(|command| all.iter().find(|(path, _)| *path == command.path));
        let is_quick = spec.is_some_and(|(_, spec)| spec.answers == Answers::Once);
        (state.phase == Phase::Idle && !is_quick).then_some(id)
    }

    /// Refuses a call that opens a stream or a socket if its credential has as many as it may.
    pub(in crate::core) fn check_streams(&self, caller: &Caller, call: &Call) -> Result<(), Fault> {
        if opens_stream(call) { self.room_for_stream(caller) } else { Ok(()) }
    }

    /// Refuses a stream or a socket if the credential of the caller has as many as it may. A stream over a socket does not count.
    pub(in crate::core) fn room_for_stream(&self, caller: &Caller) -> Result<(), Fault> {
        let is_socket = self.connections.get(caller.conn).is_some_and(|conn| conn.socket().is_some());
        let Some(id) = caller.principal.credential.as_ref().filter(|_| !is_socket) else {
            return Ok(());
        };
        let most = self.access.rate_of(id).streams.unwrap_or(STREAMS);
        if self.connections.streams_of(id) < most as usize {
            return Ok(());
        }
        let message =
            format!("This credential has {most} streams and sockets open, as many as it may. Close one first.");
        Err(Fault::new(FaultKind::RateLimited { retry_after_ms: STREAMS_RETRY_MS }, message))
    }
}

fn opens_stream(call: &Call) -> bool {
    match call {
        Call::Join(_) | Call::Subscribe { .. } => true,
        Call::Say(Say { mode, .. }) | Call::Execute(Execute { mode, .. }) => *mode == Mode::Stream,
        _ => false,
    }
}
