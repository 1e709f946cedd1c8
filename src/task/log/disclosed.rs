//! Removes from events what clients must not see.

use crate::base::id::Subject;
use crate::task::log::event::{Created, Event, calls, detours, errands, hooks, shells, speech};
use crate::task::message::Source;
use std::borrow::Cow;
use std::sync::Arc;

/// The source of an event, if it has one. It is a macro so that the same list works for `&Event` and `&mut Event`. The list has all events,
/// so that a new event with a source is not forgotten.
macro_rules! source {
    ($event:expr, $restored:ident => $by:expr) => {
        match $event {
            Event::Prompted { by, .. }
            | Event::Dropped { by, .. }
            | Event::Tuned { by, .. }
            | Event::ShellBegan { by, .. }
            | Event::Revoked { by, .. }
            | Event::CallAnswered { by, .. }
            | Event::CallReplied { by, .. }
            | Event::TurnEnded { by: Some(by), .. } => Some(by),
            Event::Restored($restored) => Some($by),
            Event::Created(_)
            | Event::Steered { .. }
            | Event::TurnBegan { .. }
            | Event::Paused
            | Event::ResultsSent
            | Event::Produced { .. }
            | Event::TurnEnded { by: None, .. }
            | Event::Interrupted { .. }
            | Event::Resumed
            | Event::Closed { .. }
            | Event::BackedOff { .. }
            | Event::Retried
            | Event::FellBack { .. }
            | Event::CompactionBegan
            | Event::Compacted { .. }
            | Event::CompactionFailed { .. }
            | Event::Looped
            | Event::Nudged { .. }
            | Event::HookRan(_)
            | Event::Reprompted { .. }
            | Event::Declined { .. }
            | Event::Delayed { .. }
            | Event::CallPlanned { .. }
            | Event::CallAsked { .. }
            | Event::CallReady { .. }
            | Event::CallStarted { .. }
            | Event::CallOutput { .. }
            | Event::CallInquired { .. }
            | Event::CallEnded { .. }
            | Event::CallStale { .. }
            | Event::ShellOutput { .. }
            | Event::ShellEnded { .. }
            | errands!()
            | speech!()
            | hooks!() => None,
        }
    };
}

impl Event {
    /// The event without the names of credentials and subjects: clients are told the names of clients only.
    pub fn without_names(&self) -> Cow<'_, Event> {
        if let Event::Created(created) = self
            && !created.owner.is_operator()
        {
            return Cow::Owned(Event::Created(Arc::new(Created {
                owner: Subject::default(),
                ..Created::clone(created)
            })));
        }
        let by: Option<&Source> = source!(self, restored => &restored.by);
        if by.is_none_or(|by| by.credential.is_none() && by.subject.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut event = self.clone();
        if let Some(by) = source!(&mut event, restored => &mut Arc::make_mut(restored).by) {
            (by.credential, by.subject) = (None, None);
        }
        Cow::Owned(event)
    }

    /// The event without secrets, as every subscriber of the task may see it. The list has all events, so that a new event with a secret
    /// is not forgotten.
    pub fn without_secrets(&self) -> Cow<'_, Event> {
        match self {
            Event::HookSet { target } => Cow::Owned(Event::HookSet { target: Arc::new(target.without_secrets()) }),
            Event::Created(_)
            | Event::Prompted { .. }
            | Event::Steered { .. }
            | Event::Dropped { .. }
            | Event::Tuned { .. }
            | Event::TurnBegan { .. }
            | Event::HookDropped { .. }
            | Event::HookMoved { .. }
            | Event::Paused
            | Event::ResultsSent
            | Event::Produced { .. }
            | Event::TurnEnded { .. }
            | Event::Interrupted { .. }
            | Event::Resumed
            | Event::Closed { .. }
            | errands!()
            | speech!()
            | detours!()
            | calls!()
            | shells!() => Cow::Borrowed(self),
        }
    }
}
