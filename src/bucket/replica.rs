//! What the protocol needs to know about a task: a few facts that follow from its log, and the lines that the protocol itself writes.

use crate::base::id::Seq;
use crate::bucket::port::Halt;
use std::fmt;
use std::sync::Arc;

/// The state of a task in this process, folded from the segments that were read or written. The protocol interprets only the lines of
/// [`StoreEvent`].
pub trait Replica {
    /// The name of the task's entry, from its first segment. `None` if that segment does not create a task.
    fn entry(&self, first_segment: &[u8]) -> Option<String>;

    /// Applies whole lines, the first of which is event `first`. The store has acknowledged them, so clients may see them.
    fn apply(&mut self, first: Seq, lines: &[u8]) -> Result<Applied, Halt>;

    fn status(&self) -> Status;

    /// The line of an event, with its line break.
    fn line(&self, seq: Seq, event: &StoreEvent) -> Vec<u8>;

    /// Called when another instance owns the task. Everything that runs for the task in this process ends.
    fn fenced(&mut self);
}

/// A replica that also handles the requests of an inbox. Only the simulation uses this: in the program the event loop handles requests and
/// appends the resulting events itself.
pub trait RequestHandler: Replica {
    /// Handles a request from the inbox in the present state. Returns lines from event `first` on: `heard` with number `n`, and the events
    /// that result from the request. Tools that the request ends are stopped before this returns.
    fn handle_request(&mut self, first: Seq, n: u64, request: &[u8]) -> Vec<u8>;
}

/// Whether applied lines began work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The lines began a turn or other work that has a marker.
    BeganWork,
    Other,
}

/// An event that the protocol writes. Clients do not see these events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// The instance owns the task from here on.
    Owned { instance: InstanceId, epoch: u64 },
    /// The owner gives the task up.
    Released,
    /// The last event of a task.
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub phase: Phase,
    /// The instance that the last `owned` names.
    pub owner: Option<InstanceId>,
    /// The epoch of the last `owned`; 0 before the first.
    pub epoch: u64,
    /// Whether the owner has released the task since.
    pub released: bool,
    /// The number of the last request from the inbox that was handled (`heard`).
    pub heard: u64,
    /// Whether a webhook delivery or a timeout is due although no turn is under way.
    pub due: bool,
}

/// What a task is doing at the tail of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a prompt.
    Rest,
    /// A turn is under way, and everything in it waits for an answer of a user.
    Paused,
    /// A turn is under way, or background processes or servers of a client belong to the task: only its owner has them.
    Working,
    /// It accepts no further prompts.
    Closed,
    Deleted,
}

impl Status {
    /// Whether any instance may claim the task when a client needs it.
    pub fn is_claimable(&self) -> bool {
        match self.phase {
            Phase::Rest | Phase::Paused | Phase::Closed => true,
            Phase::Working => self.released,
            Phase::Deleted => false,
        }
    }

    /// Whether no work is under way or due.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Rest | Phase::Closed) && !self.due
    }

    pub fn is_owned_by(&self, instance: &InstanceId, epoch: u64) -> bool {
        self.owner.as_ref() == Some(instance) && self.epoch == epoch
    }
}

/// The id of one run of the program. Random, so that each run has its own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for InstanceId {
    fn from(text: T) -> InstanceId {
        InstanceId(text.into())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
