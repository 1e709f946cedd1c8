//! One task in memory: its state, its newest events in encoded form for readers, and how far its log is on disk.
//!
//! An event is encoded once for every view that a client watches, right after it was applied, when the state is exactly the one after
//! the event. Readers share the encoded bodies; a reader that is too far behind reads the journal and folds a state of its own (see
//! `core/readers`). Without readers no event is encoded.

use crate::a2a::{self, Body, Tools, View};
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::disk::store::{Openness, ShownWhen};
use crate::core::turn::HookNotice;
use crate::core::webhooks::{self, DeliveryState};
use crate::task::log::brief::Brief;
use crate::task::log::event::{End, Event, calls, detours, errands, hooks, shells, speech};
use crate::task::log::record::Record;
use crate::task::machine::decide::Gate;
use crate::task::machine::job::Job;
use crate::task::machine::state::{Item, Phase, State};
use std::collections::VecDeque;
use std::sync::Arc;

/// The memory of a task whose log is short.
const TASK_BYTES: usize = 8 * 1024;

pub struct LoadedTask {
    /// Shared with workers that encode it.
    pub state: Arc<State>,
    /// The conversation this one continues, from the tasks before it in its context.
    pub inherited: Vec<Arc<Item>>,
    /// This server continues the task. A task that was loaded only to be read is not changed.
    pub owned: bool,
    /// In a shared store: its workspace, which is not the server's own, was found on this machine.
    pub is_found: bool,
    /// In a shared store: its inbox has to be read, because other instances may have left requests there.
    pub has_unread_inbox: bool,
    /// Journal lines that are not on disk yet.
    pub pending: Vec<u8>,
    /// The length of its log and of the logs of the tasks that it continues: about half of the memory it takes.
    pub log_bytes: usize,
    /// Up to here the log survives the end of the process.
    pub written: Seq,
    /// Up to here it survives a power failure.
    pub synced: Seq,
    /// A sync is under way.
    pub syncing: bool,
    /// When the latest sync was requested, and when the last one was requested that succeeded, in monotonic milliseconds.
    pub sync_asked_ms: u64,
    pub sync_confirmed_ms: u64,
    shown_when: ShownWhen,
    /// The number of the last audit entry about the task.
    pub audit_entry: u64,
    /// The number of the last audit entry that its log names.
    pub logged_audit_entry: u64,
    /// Why the journal cannot be written at present.
    pub broken: Option<String>,
    /// A timer for the next try is armed.
    pub retry_armed: bool,
    /// Jobs that wait until their events are written or synced.
    pub gated: Vec<(Gate, Seq, Job)>,
    /// Notices to the user's hooks about events that are not shown yet.
    pub hook_notices: Vec<(Seq, Box<HookNotice>)>,
    /// Jobs that were started and have not reported their end.
    pub running: Vec<Seq>,
    /// The slash command that is restoring it.
    pub restored_by: Option<TaskId>,
    /// When its next timer for limits fires, in monotonic milliseconds.
    pub armed: u64,
    /// Its subscriptions.
    pub subs: Vec<Key>,
    /// Deliveries to its webhooks that are in flight or wait for a retry.
    pub deliveries: Vec<DeliveryState>,
    /// The views of its streams, and how many streams have each.
    views: Vec<(View, usize)>,
    /// The newest events, encoded.
    hot: VecDeque<Hot>,
    pub hot_bytes: usize,
    /// It is in the list of tasks with lines to append.
    pub listed: bool,
    /// The summary and the marker that the store has of it.
    pub stored_brief: Option<Brief>,
    pub stored_openness: Option<Openness>,
}

/// An event in memory, encoded for each view.
struct Hot {
    seq: Seq,
    mark: Mark,
    bodies: Vec<(View, Option<Body>)>,
    bytes: usize,
}

/// Whether a stream can end with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Plain,
    TurnEnd {
        turn: u32,
        awaits: Awaits,
    },
    /// The prompt of this turn was taken back.
    Dropped {
        turn: u32,
    },
    Pause,
    Over,
}

/// What a task waits for after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// The next prompt.
    Prompt,
    /// The answer to what the agent asked, or, after an interruption, a message to continue.
    Answer,
    /// A credential.
    Credential,
}

impl Mark {
    /// `state` is the state right after the event.
    pub fn of(event: &Event, state: &State) -> Mark {
        match event {
            Event::TurnEnded { .. } if state.continues_with_queue() => Mark::Plain,
            Event::TurnEnded { turn, end, .. } => Mark::TurnEnd {
                turn: *turn,
                awaits: match end {
                    End::Asked(_) | End::Interrupted(_) => Awaits::Answer,
                    End::NeedsAuth(_) => Awaits::Credential,
                    End::Done | End::Nothing | End::Refused | End::Failed(_) => Awaits::Prompt,
                },
            },
            Event::Dropped { turn, .. } => Mark::Dropped { turn: *turn },
            Event::Paused | Event::Interrupted { .. } => Mark::Pause,
            Event::Closed { .. } => Mark::Over,
            Event::Created(_)
            | Event::Prompted { .. }
            | Event::Steered { .. }
            | Event::Tuned { .. }
            | Event::TurnBegan { .. }
            | Event::ResultsSent
            | Event::Produced { .. }
            | Event::Resumed
            | errands!()
            | speech!()
            | detours!()
            | calls!()
            | shells!()
            | hooks!() => Mark::Plain,
        }
    }
}

/// Where a reader finds an event.
pub enum Found<'a> {
    /// In memory: its body, if the view shows it at all.
    Hot(Option<&'a Body>, Mark),
    /// In the journal.
    Cold,
}

impl LoadedTask {
    pub fn new(state: State, inherited: Vec<Arc<Item>>, shown_when: ShownWhen) -> LoadedTask {
        LoadedTask {
            state: Arc::new(state),
            inherited,
            owned: true,
            is_found: false,
            has_unread_inbox: false,
            pending: Vec::new(),
            log_bytes: 0,
            written: Seq(0),
            synced: Seq(0),
            syncing: false,
            sync_asked_ms: 0,
            sync_confirmed_ms: 0,
            shown_when,
            audit_entry: 0,
            logged_audit_entry: 0,
            broken: None,
            retry_armed: false,
            gated: Vec::new(),
            hook_notices: Vec::new(),
            running: Vec::new(),
            restored_by: None,
            armed: u64::MAX,
            subs: Vec::new(),
            deliveries: Vec::new(),
            views: Vec::new(),
            hot: VecDeque::new(),
            hot_bytes: 0,
            listed: false,
            stored_brief: None,
            stored_openness: None,
        }
    }

    /// Records one event: its line in the log, its effect on the state, its encoded bodies for readers.
    pub fn record(&mut self, event: Event, unix_ms: u64, tools: &Tools) -> (Record, Mark) {
        let at = self.state.stamp(&event, unix_ms);
        let record = Record { seq: self.state.seq.next(), at, event };
        record.write(&mut self.pending);
        let mark = self.apply(&record, tools);
        (record, mark)
    }

    /// The effect of an event on the state, and its encoded bodies for readers.
    pub(super) fn apply(&mut self, record: &Record, tools: &Tools) -> Mark {
        Arc::make_mut(&mut self.state).apply(record);
        let mark = Mark::of(&record.event, &self.state);
        if self.views.is_empty() {
            return mark;
        }
        let bodies: Vec<(View, Option<Body>)> =
            self.views.iter().map(|(view, _)| (*view, a2a::event(*view, &self.state, record, tools))).collect();
        let bytes = bodies.iter().map(|(_, body)| body.as_ref().map_or(0, Body::size)).sum();
        self.hot_bytes += bytes;
        self.hot.push_back(Hot { seq: record.seq, mark, bodies, bytes });
        mark
    }

    pub fn watch(&mut self, view: View) {
        match self.views.iter_mut().find(|(known, _)| *known == view) {
            Some((_, readers)) => *readers += 1,
            None => self.views.push((view, 1)),
        }
    }

    pub fn unwatch(&mut self, view: View) {
        if let Some((_, readers)) = self.views.iter_mut().find(|(known, _)| *known == view) {
            *readers -= 1;
        }
        self.views.retain(|(_, readers)| *readers > 0);
        if self.views.is_empty() {
            self.hot = VecDeque::new();
            self.hot_bytes = 0;
        }
    }

    pub fn find(&self, seq: Seq, view: View) -> Found<'_> {
        let Some(first) = self.hot.front() else {
            return Found::Cold;
        };
        let Some(index) = seq.0.checked_sub(first.seq.0) else {
            return Found::Cold;
        };
        let Some(hot) = self.hot.get(index as usize) else {
            return Found::Cold;
        };
        match hot.bodies.iter().find(|(known, _)| *known == view) {
            Some((_, body)) => Found::Hot(body.as_ref(), hot.mark),
            None => Found::Cold,
        }
    }

    /// Drops encoded events that every reader was sent, and the oldest ones beyond `cap` bytes in any case.
    pub fn trim(&mut self, slowest: Seq, cap: usize) {
        while let Some(first) = self.hot.front() {
            let passed = first.seq <= slowest;
            if first.seq > self.shown() || !(passed || self.hot_bytes > cap) {
                break;
            }
            self.hot_bytes -= first.bytes;
            self.hot.pop_front();
        }
        if self.hot.is_empty() {
            self.hot = VecDeque::new();
        }
    }

    /// For the checks of invariants: the views that are watched, and how often.
    #[cfg(debug_assertions)]
    pub fn watched(&self) -> &[(View, usize)] {
        &self.views
    }

    /// For the checks of invariants: the events in memory, with their sizes.
    #[cfg(debug_assertions)]
    pub fn kept(&self) -> Vec<(Seq, usize)> {
        self.hot.iter().map(|hot| (hot.seq, hot.bytes)).collect()
    }

    /// Up to here clients may be shown the log; readers, lists, replies and webhooks use nothing else, and jobs start on nothing else.
    pub fn shown(&self) -> Seq {
        match self.shown_when {
            ShownWhen::Written => self.written,
            ShownWhen::Synced => self.synced,
        }
    }

    /// Whether events wait for a sync before clients may be shown them.
    pub fn is_held_back(&self) -> bool {
        self.shown_when == ShownWhen::Synced && self.synced < self.written
    }

    /// The length of its log, with the lines that are not on disk yet and the texts of calls that are stored beside it: about the length
    /// of the encoded task.
    pub fn len_bytes(&self) -> usize {
        let texts = usize::try_from(self.state.stored_bytes()).unwrap_or(usize::MAX);
        (self.log_bytes + self.pending.len()).saturating_add(texts)
    }

    /// The memory it takes, about: its state and, while it is open, the model request that is made from it.
    pub fn memory(&self) -> usize {
        let factor = if self.is_open() { 4 } else { 2 };
        TASK_BYTES + factor * self.len_bytes()
    }

    /// The credential whose turn is under way. A turn that waits for an answer is not.
    pub fn running_credential(&self) -> Option<&Arc<str>> {
        let state = &self.state;
        let is_busy = matches!(state.phase, Phase::Working { .. } | Phase::Backoff { .. } | Phase::Tools);
        state.turn.credential.as_ref().filter(|_| is_busy && !state.paused && !state.suspended)
    }

    /// Whether clients may be shown the state as it is.
    pub fn is_shown(&self) -> bool {
        self.shown() == self.state.seq
    }

    /// Whether it can be unloaded: it is idle, all of it is on disk, it has no readers, and no delivery to a webhook is due. In a shared
    /// store, a task whose turn only this instance can continue is not unloaded.
    pub fn can_be_unloaded(&self) -> bool {
        let is_held = self.owned && self.shown_when == ShownWhen::Synced && self.state.is_at_work();
        (self.openness() == Openness::Settled || !self.owned)
            && !is_held
            && self.pending.is_empty()
            && !self.is_held_back()
            && self.subs.is_empty()
            && self.gated.is_empty()
            && self.hook_notices.is_empty()
            && self.running.is_empty()
            && self.restored_by.is_none()
            && self.deliveries.is_empty()
            && !self.syncing
    }

    /// The marker for the next start, which has to load tasks with unfinished work and those with deliveries to webhooks that are due.
    pub fn openness(&self) -> Openness {
        match self.is_open() || webhooks::has_due_deliveries(&self.state) {
            true => Openness::Open,
            false => Openness::Settled,
        }
    }

    /// Whether a delivery to a webhook is in flight.
    pub fn is_delivering(&self) -> bool {
        self.deliveries.iter().any(DeliveryState::is_in_flight)
    }

    /// Whether the turn is unfinished, a question is open or a command of a user runs: then a restart has to look at it.
    pub fn is_open(&self) -> bool {
        !(self.state.is_over() || self.state.is_idle()) || self.state.shell.is_some()
    }
}
