//! The summary of a task, for lists and lookups of tasks that are not in memory.

use crate::base::id::{ContextId, Subject, TaskId, Tenant};
use crate::base::json;
use crate::limits::TITLE_CHARS;
use crate::task::access::Partition;
use crate::task::log::event::{Profile, Protocol};
use crate::task::machine::state::{Item, State, TaskState};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    pub context: ContextId,
    #[serde(default, skip_serializing_if = "Tenant::is_default")]
    pub tenant: Tenant,
    #[serde(default, skip_serializing_if = "Subject::is_operator")]
    pub owner: Subject,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    pub protocol: Protocol,
    pub profile: Profile,
    /// The state that was announced last.
    pub state: TaskState,
    /// The last turn is over and the next one is the user's.
    #[serde(default)]
    pub idle: bool,
    /// The last turn failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Unix milliseconds of the last status.
    pub at: u64,
    /// The beginning of the first prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How many prompts there were.
    #[serde(default)]
    pub turns: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    /// How many questions wait for an answer.
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub waiting: usize,
}

impl Brief {
    /// The summary of a task of which nothing but the context is known.
    pub fn bare(context: ContextId) -> Brief {
        Brief {
            context,
            tenant: Tenant::default(),
            owner: Subject::default(),
            shared: false,
            protocol: Protocol::V03,
            profile: Profile::Coder,
            state: TaskState::Submitted,
            idle: false,
            failed: false,
            at: 0,
            title: String::new(),
            turns: 0,
            workspace: String::new(),
            waiting: 0,
        }
    }

    pub fn of(state: &State) -> Brief {
        let created = &state.created;
        Brief {
            context: created.context.clone(),
            tenant: created.tenant.clone(),
            owner: created.owner.clone(),
            shared: created.shared,
            protocol: created.protocol,
            profile: created.profile,
            state: state.status.state,
            idle: state.outcome().is_some(),
            failed: state.outcome() == Some(TaskState::Failed),
            at: state.status.at,
            title: title(state),
            turns: state.last_turn,
            workspace: created.workspace.clone(),
            waiting: state.asked().count(),
        }
    }

    /// The partition of the task.
    pub fn partition(&self) -> Partition {
        Partition { tenant: self.tenant.clone(), owner: self.owner.clone() }
    }

    /// How the last turn ended, if it is over.
    pub fn outcome(&self) -> Option<TaskState> {
        self.idle.then_some(if self.failed { TaskState::Failed } else { TaskState::Completed })
    }

    /// See [`Created::made`](crate::task::log::event::Created::made).
    pub fn made(&self, task: &TaskId) -> Option<(Protocol, Profile)> {
        (task.as_str() != self.context.as_str()).then_some((self.protocol, self.profile))
    }
}

/// The first line of the first prompt.
fn title(state: &State) -> String {
    let prompt = state.history.iter().find_map(|item| match item.as_ref() {
        Item::Said(message) | Item::Dropped(message) => Some(message.text()),
        Item::Steered(_)
        | Item::Answered(_)
        | Item::Summary(_)
        | Item::Nudge(_)
        | Item::Media(_)
        | Item::Results(_) => None,
    });
    let queued = || state.queue.front().map(|queued| queued.message.text());
    let text = prompt.or_else(queued).unwrap_or_default();
    text.trim().lines().next().unwrap_or_default().chars().take(TITLE_CHARS).collect()
}
