//! Errors of requests, independent of the dialect. The table in `a2a::fault` has their codes in each dialect.

use crate::base::id::{CallId, TaskId};
use crate::task::access::Right;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// What is wrong and what to do, for people.
    pub message: String,
    /// The member of the request that is wrong, e.g. `message.parts[0].text`.
    pub field: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    TaskNotFound(TaskId),
    /// The log of the task does not name this stored content.
    ContentNotFound,
    TaskNotCancelable(TaskId),
    /// The task is over; nothing can be sent to it.
    TaskIsOver(TaskId),
    /// Another instance owns the task, or has its workspace.
    TaskHeld {
        task: TaskId,
        /// The instance, and where clients reach it.
        owner: Option<Arc<str>>,
        url: Option<String>,
    },
    PushNotSupported,
    Unsupported,
    ContentTypeNotSupported,
    /// A browser sent a body without a content type.
    ContentTypeMissing,
    ExtendedCardNotConfigured,
    /// The client does not list an extension that the operator requires.
    ExtensionRequired,
    VersionNotSupported,
    /// The request has no valid credential.
    Unauthenticated {
        /// Whether it has an invalid one.
        shown: bool,
        /// Whether the client may be offered `Basic`: a browser would ask its user for a password.
        basic: bool,
    },
    Forbidden,
    /// The credential is valid and lacks a right.
    RightMissing(Right),
    /// A client exceeded a rate limit; it may try again after this time.
    RateLimited {
        retry_after_ms: u64,
    },
    /// The answered call is not waiting for an answer (any more).
    NotPending(CallId),
    UnknownOption(CallId),
    /// The answer is for an earlier plan of the call.
    Stale(CallId),
    /// A client may not name this MCP server.
    McpServerNotAllowed,
    NotFound,
    MethodNotAllowed {
        allow: String,
    },
    TooLarge,
    /// A limit was reached; the client may try again after this time.
    Overloaded {
        retry_after_s: u32,
    },
    /// The client withdrew its request.
    Recalled,
    /// The journal cannot be written.
    Storage,
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), field: None }
    }

    pub fn params(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::InvalidParams, message)
    }

    /// An error about one member of the request. The message is the member's name followed by `what`.
    pub fn field(field: impl Into<String>, what: &str) -> Fault {
        let field = field.into();
        Fault { field: Some(field.clone()), ..Fault::params(format!("{field} {what}")) }
    }

    /// Cuts the message and the member's name to this number of characters.
    pub fn cut(mut self, chars: usize) -> Fault {
        for text in std::iter::once(&mut self.message).chain(&mut self.field) {
            if let Some((end, _)) = text.char_indices().nth(chars) {
                text.replace_range(end.., "…");
            }
        }
        self
    }

    pub fn no_task(task: &TaskId) -> Fault {
        Fault::new(FaultKind::TaskNotFound(task.clone()), format!("Task not found: {task}"))
    }
}
