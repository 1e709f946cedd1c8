//! The names on the wire of states, roles, options and call statuses, in both directions. A new dialect adds a column. Nothing here
//! depends on JSON.

use crate::task::machine::state::TaskState;
use crate::task::message::Role;
use crate::task::spec::{Choice, Ending};
use serde::Serialize;

/// The development-tool extension: the key of its settings and answers, and the name in extension headers.
pub const EXT: &str = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// The key of the reference server's payload in metadata.
pub const CODER: &str = "coderAgent";

/// The metadata key of members that no dialect defines.
pub const OURS: &str = "gemini-a2a";

/// The extension of this server for streams: every event has an id, and `Last-Event-ID` or `?after=` continues after it.
pub const RESUME: &str = "urn:gemini-a2a:resume:v1";

/// The extension of this server for plain clients: the metadata key of a question's calls, and in an extension header the request for
/// answers in pieces.
pub const PLAIN: &str = "urn:gemini-a2a:plain:v1";

/// Task states in the protobuf JSON of 1.0, and as `POST /message/stream` and `POST /tasks/{id}/execute` name the state that they show.
fn state_words(state: TaskState) -> [&'static str; 3] {
    match state {
        TaskState::Submitted => ["TASK_STATE_SUBMITTED", "submitted", "running"],
        TaskState::Working => ["TASK_STATE_WORKING", "working", "running"],
        TaskState::InputRequired => ["TASK_STATE_INPUT_REQUIRED", "input-required", "running"],
        TaskState::AuthRequired => ["TASK_STATE_AUTH_REQUIRED", "input-required", "running"],
        TaskState::Completed => ["TASK_STATE_COMPLETED", "completed", "completed"],
        TaskState::Failed => ["TASK_STATE_FAILED", "failed", "error"],
        TaskState::Canceled => ["TASK_STATE_CANCELED", "canceled", "error"],
        TaskState::Rejected => ["TASK_STATE_REJECTED", "failed", "error"],
    }
}

pub fn v10_state(state: TaskState) -> &'static str {
    state_words(state)[0]
}

pub fn message_state(shown: TaskState) -> &'static str {
    state_words(shown)[1]
}

pub fn execute_state(shown: TaskState) -> &'static str {
    state_words(shown)[2]
}

/// How a view shows a task that waits for the next prompt after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    InputRequired,
    /// As failed if the turn failed, otherwise as `input-required`.
    InputRequiredOrFailed,
    /// As completed or failed, like its turn.
    Outcome,
}

impl Idle {
    /// The state that is shown; `outcome` is how the last turn ended, if it is over.
    pub fn show(self, state: TaskState, outcome: Option<TaskState>) -> TaskState {
        match (self, state, outcome) {
            (Idle::Outcome, TaskState::InputRequired, Some(outcome)) => outcome,
            (Idle::InputRequiredOrFailed, TaskState::InputRequired, Some(TaskState::Failed)) => TaskState::Failed,
            (Idle::InputRequired | Idle::InputRequiredOrFailed | Idle::Outcome, state, _) => state,
        }
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

/// An option that a question offers, as people are shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    pub id: &'static str,
    pub name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'static str>,
}

impl Offer {
    /// For a call that needs approval.
    pub fn permission(choice: Choice) -> Offer {
        let description = match choice {
            Choice::ProceedAlwaysAndSave => Some("Also in later sessions in this workspace."),
            Choice::ProceedAlwaysTool => {
                Some("This tool, for the rest of this session, while its server does not change it.")
            }
            Choice::ProceedAlwaysServer => Some("All tools of this server, for the rest of this session."),
            Choice::ProceedOnce | Choice::ProceedAlways | Choice::Cancel => None,
        };
        Offer { id: choice.word(), name: choice.name(), description }
    }

    /// The same option for clients of the session, which have another name for a refusal.
    pub fn in_session(self) -> Offer {
        if self == Offer::permission(Choice::Cancel) { Offer { name: "Cancel", ..self } } else { self }
    }

    /// For a question that the agent asks.
    pub fn reply(choice: Choice) -> Offer {
        match choice {
            Choice::ProceedOnce => Offer { id: choice.word(), name: "Answer", description: None },
            Choice::Cancel => Offer { id: choice.word(), name: "Dismiss", description: None },
            Choice::ProceedAlways
            | Choice::ProceedAlwaysTool
            | Choice::ProceedAlwaysServer
            | Choice::ProceedAlwaysAndSave => Offer::permission(choice),
        }
    }
}

/// The status of a tool call that clients are shown.
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
    /// Of a call that has ended.
    pub fn of(ending: &Ending) -> CallStatus {
        match ending {
            Ending::Success { .. } => CallStatus::Success,
            Ending::Error { .. } => CallStatus::Error,
            Ending::Cancelled { .. } => CallStatus::Cancelled,
        }
    }

    /// The names of the status: the first in the development-tool extension, in sessions and in `POST /message/stream`; the second in the
    /// coder profile; the third in `POST /tasks/{id}/execute`. Only the coder profile has a status for a call that waits for an answer.
    fn words(self) -> [&'static str; 3] {
        match self {
            CallStatus::Scheduled => ["PENDING", "scheduled", "requested"],
            CallStatus::AwaitingApproval => ["PENDING", "awaiting_approval", "requested"],
            CallStatus::Executing => ["EXECUTING", "executing", "executing"],
            CallStatus::Success => ["SUCCEEDED", "success", "completed"],
            CallStatus::Error => ["FAILED", "error", "error"],
            CallStatus::Cancelled => ["CANCELLED", "cancelled", "error"],
        }
    }

    pub fn devtool(self) -> &'static str {
        self.words()[0]
    }

    pub fn coder(self) -> &'static str {
        self.words()[1]
    }

    pub fn execute(self) -> &'static str {
        self.words()[2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_in_every_spelling() {
        for (i, one) in TaskState::ALL.into_iter().enumerate() {
            assert_eq!(read_state(one.word()), Some(one));
            let shouted = one.word().to_ascii_uppercase().replace('-', "_");
            assert_eq!(read_state(&format!("TASK_STATE_{shouted}")), Some(one));
            let number = [1, 2, 6, 8, 3, 4, 5, 7][i];
            assert_eq!(read_state(&number.to_string()), Some(one));
        }
        assert_eq!(read_state("TASK_STATE_CANCELLED"), Some(TaskState::Canceled));
        for stranger in ["", "0", "9", "running", "TASK_STATE_UNSPECIFIED"] {
            assert_eq!(read_state(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn words_of_1_0_are_those_of_0_3_in_upper_case() {
        for one in TaskState::ALL {
            let word = one.word().to_ascii_uppercase().replace('-', "_");
            assert_eq!(v10_state(one), format!("TASK_STATE_{word}"));
        }
    }

    #[test]
    fn roles_are_read_and_unknown_ones_refused() {
        for (word, role) in
            [("user", Role::User), ("agent", Role::Agent), ("ROLE_USER", Role::User), ("ROLE_AGENT", Role::Agent)]
        {
            assert_eq!(read_role(word), Some(role));
        }
        assert_eq!(read_role("system"), None);
    }
}
