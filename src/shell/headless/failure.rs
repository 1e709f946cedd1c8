//! Failures of a run, with the error types and exit statuses of the Gemini CLI.

use crate::model::error::KEY_REFUSED;
use crate::task::machine::decide::REQUESTS_USED_UP;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Authentication,
    /// The prompt, or the name of a session.
    Input,
    Config,
    TurnLimit,
    /// The disk is full: a tool cannot write a file, or the server its journal.
    Tool,
    Untrusted,
    Cancelled,
    /// The model's stream broke, each time it was asked.
    Stream,
    Api,
}

impl FailureKind {
    /// The type of the error in JSON, and the exit status.
    fn words(self) -> (&'static str, u8) {
        match self {
            FailureKind::Authentication => ("FatalAuthenticationError", 41),
            FailureKind::Input => ("FatalInputError", 42),
            FailureKind::Config => ("FatalConfigError", 52),
            FailureKind::TurnLimit => ("FatalTurnLimitedError", 53),
            FailureKind::Tool => ("FatalToolExecutionError", 54),
            FailureKind::Untrusted => ("FatalUntrustedWorkspaceError", 55),
            FailureKind::Cancelled => ("FatalCancellationError", 130),
            FailureKind::Stream => ("INVALID_STREAM", 1),
            FailureKind::Api => ("ApiError", 1),
        }
    }

    pub fn word(self) -> &'static str {
        self.words().0
    }

    pub fn exit_status(self) -> u8 {
        self.words().1
    }

    pub fn failure(self, message: impl Into<String>) -> Failure {
        Failure { kind: self, message: message.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

/// The error reason of a call that fails because the journal cannot be written.
const STORAGE: &str = "INTERNAL_ERROR";

impl Failure {
    /// The failure for a call that the server refused; `usual` is its kind unless the journal could not be written.
    pub fn of_call(reason: &str, message: String, usual: FailureKind) -> Failure {
        let kind = if reason == STORAGE { FailureKind::Tool } else { usual };
        kind.failure(message)
    }

    /// The failure for a turn that failed for this reason. `broken` is the number of broken response streams of the last request.
    pub fn of_turn(reason: &str, broken: u32) -> Failure {
        let kind = if reason.starts_with(KEY_REFUSED) {
            FailureKind::Authentication
        } else if reason.starts_with(REQUESTS_USED_UP) {
            FailureKind::TurnLimit
        } else if broken > 0 {
            FailureKind::Stream
        } else {
            FailureKind::Api
        };
        kind.failure(reason)
    }
}
