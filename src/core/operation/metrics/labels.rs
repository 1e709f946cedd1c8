//! The closed sets of label values. No text that a client or a model chose is a label, so the number of time series is limited.

use crate::base::text::words::words;
use crate::task::log::event::{Event, calls, detours, errands, hooks, shells, speech};
use crate::task::machine::job::ModelErrorKind;
use crate::task::machine::state::{Phase, Stage, State};
use crate::task::spec::{Ending, ErrorKind};

words! {
    /// Why a request was refused before it was carried out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Refused {
        Host = "host",
        Origin = "origin",
        Credential = "credential",
        Right = "right",
        Rate = "rate",
        Child = "child",
    }
}

words! {
    /// The events of a task by their subject.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Group {
        Task = "task",
        Prompt = "prompt",
        Turn = "turn",
        Speech = "speech",
        Call = "call",
        Shell = "shell",
        Detour = "detour",
        Errand = "errand",
        Webhook = "webhook",
    }
}

impl Group {
    pub fn of(event: &Event) -> Group {
        match event {
            Event::Created(_) | Event::Closed { .. } | Event::Tuned { .. } => Group::Task,
            Event::Prompted { .. } | Event::Steered { .. } | Event::Dropped { .. } => Group::Prompt,
            Event::TurnBegan { .. }
            | Event::TurnEnded { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Interrupted { .. }
            | Event::ResultsSent
            | Event::Produced { .. } => Group::Turn,
            speech!() => Group::Speech,
            calls!() => Group::Call,
            shells!() => Group::Shell,
            detours!() => Group::Detour,
            errands!() => Group::Errand,
            hooks!() => Group::Webhook,
        }
    }
}

words! {
    /// What a connection is used for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ConnectionKind {
        /// Requests with one answer each, or none yet.
        Http = "http",
        /// A stream of events.
        Stream = "sse",
        Socket = "websocket",
        /// The terminal or the editor of this process.
        Local = "local",
    }
}

words! {
    /// What a turn does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TurnPhase {
        Running = "running",
        /// Its prompt waits for the turns before it.
        Queued = "queued",
        /// The last model request failed, and the next one comes later.
        Backoff = "backoff",
    }
}

words! {
    /// What a bucket is asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BucketOperation {
        Get = "get",
        Put = "put",
        Delete = "delete",
        List = "list",
    }
}

words! {
    /// How a request to a bucket ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BucketResult {
        Done = "ok",
        /// Its condition did not hold: another instance was first.
        Refused = "refused",
        /// It was not answered, or the store could not do it now.
        Unknown = "unknown",
        Forbidden = "forbidden",
        Unsupported = "unsupported",
        Damaged = "damaged",
    }
}

/// The turn of a task, if one is under way.
pub fn turn_phase(state: &State) -> Option<TurnPhase> {
    match &state.phase {
        Phase::Idle | Phase::Closed => None,
        Phase::Backoff { .. } => Some(TurnPhase::Backoff),
        Phase::Working { .. } | Phase::Tools => Some(TurnPhase::Running),
    }
}

/// How many questions of a task are open.
pub fn open_questions(state: &State) -> usize {
    state.calls.iter().filter(|call| matches!(call.stage, Stage::Asked | Stage::Inquired { .. })).count()
}

words! {
    /// The API that answers model requests.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Provider {
        Gemini = "gcp.gemini",
        Vertex = "gcp.vertex_ai",
        /// A script, recorded responses or the back-end of a host program.
        #[default]
        Other = "other",
    }
}

/// Models that have a time series of their own. Clients may name others, which are counted together.
const MODELS: [&str; 8] = [
    "gemini-3.1-pro-preview",
    "gemini-3.5-flash",
    "gemini-3.1-flash-lite",
    "gemini-3-pro-preview",
    "gemini-3-flash-preview",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "gemini-2.5-flash-lite",
];

/// The label of everything else.
pub const OTHER: &str = "other";

pub fn model(name: &str) -> &'static str {
    MODELS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

/// Why a model request failed; empty if it succeeded.
pub fn model_error(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::Busy { .. } => "busy",
        ModelErrorKind::BadStream => "bad_stream",
        ModelErrorKind::Unusable => "unusable",
        ModelErrorKind::TooLong => "too_long",
        ModelErrorKind::NeedsKey | ModelErrorKind::Fatal => "fatal",
    }
}

/// The error label of a job whose worker died.
pub const DIED: &str = "died";

/// How a call ended; empty if it succeeded.
pub fn tool_error(ending: &Ending) -> &'static str {
    match ending {
        Ending::Success { .. } => "",
        Ending::Error { error } => ErrorKind::word(error.kind),
        Ending::Cancelled { .. } => "cancelled",
    }
}
