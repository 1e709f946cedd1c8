//! The summary of a task: what lists and lookups need of one that is not in memory.

use crate::base::id::{ContextId, TaskId, Tenant};
use crate::task::log::event::{Profile, Protocol};
use crate::task::machine::state::{State, TaskState};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    pub context: ContextId,
    #[serde(default, skip_serializing_if = "Tenant::is_default")]
    pub tenant: Tenant,
    pub protocol: Protocol,
    pub profile: Profile,
    /// As last announced.
    pub state: TaskState,
    /// The last turn is over and the next one is the user's.
    #[serde(default)]
    pub idle: bool,
    /// It failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Unix milliseconds of the last status.
    pub at: u64,
}

impl Brief {
    /// The summary of a task of which only the context is known.
    pub fn bare(context: ContextId) -> Brief {
        Brief {
            context,
            tenant: Tenant::default(),
            protocol: Protocol::V03,
            profile: Profile::Coder,
            state: TaskState::Submitted,
            idle: false,
            failed: false,
            at: 0,
        }
    }

    pub fn of(state: &State) -> Brief {
        let created = &state.created;
        Brief {
            context: created.context.clone(),
            tenant: created.tenant.clone(),
            protocol: created.protocol,
            profile: created.profile,
            state: state.status.state,
            idle: state.outcome().is_some(),
            failed: state.outcome() == Some(TaskState::Failed),
            at: state.status.at,
        }
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
