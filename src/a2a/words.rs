//! The words of the dialects: what our enums are called on the wire, and back. One file, so that a word is spelled in one
//! place and a new dialect is a new column. Knows nothing of JSON.

use crate::a2a::form::View;
use crate::task::event::Profile;
use crate::task::message::Role;
use crate::task::state::{State, TaskState};

/// The development-tool extension: the key of its settings and answers, and the name in extension headers.
pub const EXT: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// The key of the reference server's payload in metadata.
pub const CODER: &str = "coderAgent";

/// Our own extension: every event of a stream has an id, and `Last-Event-ID` or `?after=` continues behind it.
pub const RESUME: &str = "urn:gemini-a2a:resume:v1";

/// Task states in 0.3.
pub fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "input-required",
        TaskState::AuthRequired => "auth-required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
    }
}

/// The state as a view shows it.
pub fn shown(view: View, state: &State) -> TaskState {
    if view.idle_is_completed() && state.status.state == TaskState::InputRequired && state.is_idle()
    {
        TaskState::Completed
    } else {
        state.status.state
    }
}

/// Roles in 0.3.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Agent => "agent",
    }
}

/// A role in any version's spelling.
pub fn read_role(word: &str) -> Option<Role> {
    match word {
        "user" | "ROLE_USER" => Some(Role::User),
        "agent" | "ROLE_AGENT" => Some(Role::Agent),
        _ => None,
    }
}

/// A task state in any version's spelling, or by its number in the protobuf definitions.
pub fn read_state(word: &str) -> Option<TaskState> {
    let bare = word.strip_prefix("TASK_STATE_").unwrap_or(word);
    match bare.to_ascii_lowercase().replace('_', "-").as_str() {
        "submitted" | "1" => Some(TaskState::Submitted),
        "working" | "2" => Some(TaskState::Working),
        "completed" | "3" => Some(TaskState::Completed),
        "failed" | "4" => Some(TaskState::Failed),
        "canceled" | "cancelled" | "5" => Some(TaskState::Canceled),
        "input-required" | "6" => Some(TaskState::InputRequired),
        "rejected" | "7" => Some(TaskState::Rejected),
        "auth-required" | "8" => Some(TaskState::AuthRequired),
        _ => None,
    }
}

pub fn read_profile(word: &str) -> Option<Profile> {
    match word {
        "coder" => Some(Profile::Coder),
        "devtool" => Some(Profile::Devtool),
        "plain" => Some(Profile::Plain),
        _ => None,
    }
}

/// What a status update of the coder profile is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoderKind {
    StateChange,
    TextContent,
    Thought,
    Citation,
    ToolCallUpdate,
    ToolCallConfirmation,
}

impl CoderKind {
    pub fn word(self) -> &'static str {
        match self {
            CoderKind::StateChange => "state-change",
            CoderKind::TextContent => "text-content",
            CoderKind::Thought => "thought",
            CoderKind::Citation => "citation",
            CoderKind::ToolCallUpdate => "tool-call-update",
            CoderKind::ToolCallConfirmation => "tool-call-confirmation",
        }
    }
}

/// Where a tool call stands, as clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    Scheduled,
    AwaitingApproval,
    Executing,
    Success,
    Error,
    Cancelled,
}

impl CallStatus {
    /// The coder profile's word.
    pub fn coder(self) -> &'static str {
        match self {
            CallStatus::Scheduled => "scheduled",
            CallStatus::AwaitingApproval => "awaiting_approval",
            CallStatus::Executing => "executing",
            CallStatus::Success => "success",
            CallStatus::Error => "error",
            CallStatus::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_own_word() {
        let words: Vec<&str> = TaskState::ALL.into_iter().map(state).collect();
        assert_eq!(
            words,
            [
                "submitted",
                "working",
                "input-required",
                "auth-required",
                "completed",
                "failed",
                "canceled",
                "rejected"
            ]
        );
    }

    #[test]
    fn states_are_read_in_every_spelling() {
        for (i, one) in TaskState::ALL.into_iter().enumerate() {
            assert_eq!(read_state(state(one)), Some(one));
            let shouted = state(one).to_ascii_uppercase().replace('-', "_");
            assert_eq!(read_state(&format!("TASK_STATE_{shouted}")), Some(one));
            let number = [1, 2, 6, 8, 3, 4, 5, 7][i];
            assert_eq!(read_state(&number.to_string()), Some(one));
        }
        assert_eq!(
            read_state("TASK_STATE_CANCELLED"),
            Some(TaskState::Canceled)
        );
        for stranger in ["", "0", "9", "running", "TASK_STATE_UNSPECIFIED"] {
            assert_eq!(read_state(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn roles_come_back_and_strangers_do_not() {
        for one in [Role::User, Role::Agent] {
            assert_eq!(read_role(role(one)), Some(one));
        }
        assert_eq!(read_role("ROLE_AGENT"), Some(Role::Agent));
        assert_eq!(read_role("system"), None);
    }
}
