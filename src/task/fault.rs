//! Everything that can be wrong with a request, without a dialect. `a2a::fault` is the one table that gives each its codes.

use crate::base::id::{CallId, TaskId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// What happened and what to do next, for people.
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
    /// The log of the task names no such stored content.
    ContentNotFound,
    TaskNotCancelable(TaskId),
    /// The task is over; nothing can be sent to it.
    TaskIsOver(TaskId),
    PushNotSupported,
    Unsupported,
    ContentTypeNotSupported,
    /// A browser sent a body that does not say what it is.
    ContentTypeMissing,
    ExtendedCardNotConfigured,
    /// The client does not list an extension that the operator requires.
    ExtensionRequired,
    VersionNotSupported,
    Unauthenticated,
    Forbidden,
    /// The answered call is not waiting for an answer (any more).
    NotPending(CallId),
    UnknownOption(CallId),
    NotFound,
    MethodNotAllowed {
        allow: String,
    },
    /// The path is one for WebSockets.
    UpgradeRequired,
    TooLarge,
    /// A limit was reached; try again after so many seconds.
    Overloaded {
        retry_after_s: u32,
    },
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

    /// Something is wrong with one member: `what` goes on after its name.
    pub fn field(field: impl Into<String>, what: &str) -> Fault {
        let field = field.into();
        Fault { field: Some(field.clone()), ..Fault::params(format!("{field} {what}")) }
    }

    pub fn no_task(task: &TaskId) -> Fault {
        Fault::new(FaultKind::TaskNotFound(task.clone()), format!("Task not found: {task}"))
    }
}
