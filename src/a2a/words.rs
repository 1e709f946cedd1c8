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

/// Task states in the dialect of the task server, which knows three.
pub fn snake_state(state: TaskState, idle: bool) -> &'static str {
    match state {
        TaskState::InputRequired if idle => "completed",
        TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired => "running",
        TaskState::Completed => "completed",
        TaskState::Failed | TaskState::Canceled | TaskState::Rejected => "error",
    }
}

/// The state as a view shows it.
pub fn shown(view: View, state: &State) -> TaskState {
    let idle = state.is_idle() && !state.questioned;
    view.state(state.status.state, idle)
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
    fn roles_come_back_and_strangers_do_not() {
        for one in [Role::User, Role::Agent] {
            assert_eq!(read_role(role(one)), Some(one));
        }
        assert_eq!(read_role("ROLE_AGENT"), Some(Role::Agent));
        assert_eq!(read_role("system"), None);
    }
}
