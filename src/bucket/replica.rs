//! What the protocol has to know of a task: a few facts of the fold of its log, and the lines that it writes itself.

use crate::base::id::Seq;
use crate::bucket::port::Halt;
use std::fmt;
use std::sync::Arc;

/// The state of a task in this process: the fold of the segments that were read or written. The protocol does not know what the other lines
/// mean.
pub trait Replica {
    /// The name of the task's entry, from its first segment. `None` if that segment does not create a task.
    fn entry(&self, first_segment: &[u8]) -> Option<String>;

    /// Applies whole lines, the first of which is event `first`. They are acknowledged and may be shown.
    fn apply(&mut self, first: Seq, lines: &[u8]) -> Result<Applied, Halt>;

    fn status(&self) -> Status;

    /// The line of an event, with its line break.
    fn line(&self, seq: Seq, event: &StoreEvent) -> Vec<u8>;

    /// Another instance owns the task now. Everything that runs for it here ends.
    fn fenced(&mut self);
}

/// A replica that also decides what happens next. In the program that is the event loop, which appends what it decides like all else.
pub trait Decides: Replica {
    /// Decides a request from the inbox on the state as it is: `heard` with number `n`, and what comes of the request, as lines from
    /// `first` on. Tools that the request ends are stopped now, before the lines are sent.
    fn hear(&mut self, first: Seq, n: u64, request: &[u8]) -> Vec<u8>;
}

/// What applied lines did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// They began a turn or something else that a marker stands for.
    BeganWork,
    Other,
}

/// An event that the protocol writes. No dialect shows any.
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
    /// That of the last `owned`; 0 before the first.
    pub epoch: u64,
    /// The owner has given the task up since.
    pub released: bool,
    /// The number of the last request that was heard.
    pub heard: u64,
    /// A webhook is still to be told something, or a timeout is due, although no turn is under way.
    pub due: bool,
}

/// What a task is doing at the tail of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a prompt.
    Rest,
    /// A turn is under way, and everything in it waits for somebody's answer.
    Paused,
    /// A turn is under way, or background processes or servers of a client belong to the task: only its owner has them.
    Working,
    /// It takes no prompt any more.
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

    /// Whether nothing is under way and nothing is due.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Rest | Phase::Closed) && !self.due
    }

    pub fn is_owned_by(&self, instance: &InstanceId, epoch: u64) -> bool {
        self.owner.as_ref() == Some(instance) && self.epoch == epoch
    }
}

/// One start of the program. Random, so that no later start is taken for it.
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
