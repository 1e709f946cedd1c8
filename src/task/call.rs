//! What a client may ask for, without a dialect. Dialects make these; the core performs them.

use crate::base::id::{ContextId, Seq, TaskId};
use crate::task::event::{Lifecycle, Profile, Protocol};
use crate::task::job::Said;

#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Say(Say),
    Create(Create),
    Get {
        task: TaskId,
        history: Option<usize>,
    },
    Cancel {
        task: TaskId,
    },
    /// Watch a task; `after` continues at a position instead of starting with a snapshot.
    Subscribe {
        task: TaskId,
        after: Option<Seq>,
    },
    Metadata {
        task: TaskId,
    },
    AllMetadata,
    Health,
    Card,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Say {
    pub said: Said,
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
    pub settings: Settings,
    pub mode: Mode,
    /// How many of the newest history messages a snapshot may show; None is all of them.
    pub history: Option<usize>,
    pub birth: Birth,
}

/// How a task is marked that this request creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    pub lifecycle: Lifecycle,
    pub protocol: Protocol,
    pub profile: Profile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answer when the turn is over or waits for somebody.
    Wait,
    /// Answer at once.
    Now,
    Stream,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    pub context: Option<ContextId>,
    pub settings: Settings,
    pub birth: Birth,
}

/// What a client may wish for a new task. Trust is not among it: that is the operator's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub workspace: Option<String>,
    pub model: Option<String>,
    /// To be asked nothing: a wish that the operator must have granted.
    pub auto_execute: Option<bool>,
}
