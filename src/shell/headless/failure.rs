//! Why a run has no answer: the words and the exit statuses that scripts for the Gemini CLI know.

use crate::model::error::KEY_REFUSED;
use crate::task::machine::decide::REQUESTS_USED_UP;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    Authentication,
    /// The prompt, or the name of a session.
    Input,
    Config,
    TurnLimit,
    /// The disk is full: a tool or the journal cannot write.
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

/// The reason of calls that fail because the journal cannot be written.
const STORAGE: &str = "INTERNAL_ERROR";

impl Failure {
    /// Of a call that the server refused for this reason; `usual` is what other refusals mean.
    pub fn of_call(reason: &str, message: String, usual: FailureKind) -> Failure {
        let kind = if reason == STORAGE { FailureKind::Tool } else { usual };
        kind.failure(message)
    }

    /// Of a turn that failed for this reason. `broken` are the streams of its last request that broke before.
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
