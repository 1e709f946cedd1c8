//! Decides which events may announce a status.

use crate::task::log::event::{Event, detours, errands, hooks, shells};

/// Whether an event may announce a status: such events get strictly increasing times.
pub(super) fn announces(event: &Event) -> bool {
    match event {
        Event::TurnBegan { .. }
        | Event::Paused
        | Event::ResultsSent
        | Event::TurnEnded { .. }
        | Event::CallAnswered { .. }
        | Event::CallReplied { .. }
        | Event::Interrupted { .. }
        | Event::Resumed
        | Event::Closed { .. } => true,
        Event::Answered { answer } => answer.has_calls(),
        Event::Created(_)
        | Event::Prompted { .. }
        | Event::Steered { .. }
        | Event::Dropped { .. }
        | Event::Tuned { .. }
        | Event::Thought { .. }
        | Event::Text { .. }
        | Event::Cited { .. }
        | Event::Retracted { .. }
        | Event::CallPlanned { .. }
        | Event::CallAsked { .. }
        | Event::CallReady { .. }
        | Event::CallStarted { .. }
        | Event::CallOutput { .. }
        | Event::CallInquired { .. }
        | Event::CallEnded { .. }
        | Event::CallStale { .. }
        | Event::Produced { .. }
        | errands!()
        | detours!()
        | shells!()
        | hooks!() => false,
    }
}
