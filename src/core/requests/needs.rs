//! The properties of calls that decide how they are carried out.

use crate::base::id::{ContextId, TaskId};
use crate::task::call::{Call, Follow, Join, KnownSession, Open, TicketRequest};

/// What a call needs: its task, its context, and how it uses the task.
pub(in crate::core) struct Needs<'a> {
    /// The task that it names.
    pub task: Option<&'a TaskId>,
    /// The context that a new task is to be in.
    pub context: Option<&'a ContextId>,
    pub access: Access,
    pub answer: AnswerLength,
}

/// What a call does with its task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum Access {
    /// It shows the task as it is recorded.
    Read,
    /// It changes the task, unless that cannot be recorded.
    Change,
    /// It may do either, or is about no single task.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum AnswerLength {
    Short,
    /// As long as a task.
    Long,
}

impl Needs<'_> {
    pub fn of(call: &Call) -> Needs<'_> {
        use {Access::*, AnswerLength::*};
        let (task, access, answer) = match call {
            Call::Say(say) => (say.task.as_ref(), Change, Short),
            Call::Push { task, .. } => (Some(task), Change, Short),
            Call::Renew { task } => (task.as_ref(), Other, Short),
            Call::Unsubscribe { task } | Call::Export { task } => (Some(task), Other, Short),
            Call::Get { task, .. } => (Some(task), Read, Long),
            Call::Metadata { task } | Call::Files { task, .. } => (Some(task), Read, Short),
            Call::Cancel { task }
            | Call::TakeBack { task }
            | Call::Leave { task }
            | Call::Open(Open::Load(KnownSession { task, .. }) | Open::Resume(KnownSession { task, .. })) => (Some(task), Other, Short),
            Call::Abort { task } | Call::Ticket(TicketRequest { task, .. }) => (task.as_ref(), Other, Short),
            Call::Permissions { task, revoke } if revoke.is_empty() => (Some(task), Read, Short),
            Call::Drop { task, .. }
            | Call::Tune { task, .. }
            | Call::Shell { task, .. }
            | Call::Permissions { task, .. } => (Some(task), Change, Short),
            Call::Blob { task, .. } | Call::Subscribe { task, .. } => (Some(task), Other, Long),
            // A socket that follows a task is shown its events, and not all of its messages.
            Call::Join(Join { follow: Follow::Task(task), .. }) => (Some(task), Other, Short),
            Call::List(_) | Call::AllMetadata => (None, Other, Long),
            Call::Join(Join {
                follow: Follow::Session | Follow::NextSession | Follow::All | Follow::Nothing, ..
            })
            | Call::Create(_)
            | Call::Commands
            | Call::About
            | Call::Briefs
            // The task need not be loaded.
            | Call::Delete { .. }
            | Call::Clients
            | Call::Execute(_)
            | Call::Session
            | Call::Open(Open::New(_) | Open::Live)
            | Call::Sessions { .. }
            | Call::Introduce(_)
            | Call::Reply { .. }
            | Call::Recall { .. }
            | Call::Health
            | Call::Live
            | Call::Ready
            | Call::Metrics
            | Call::Card
            | Call::ExtendedCard => (None, Other, Short),
        };
        let context = call.creates().and_then(|create| create.context.as_ref());
        Needs { task, context, access, answer }
    }
}
