//! Types of values in events: life cycles, protocol versions, profiles, and how turns and tasks end.

use crate::base::json;
use crate::base::text::words::words;
use serde::{Deserialize, Serialize};

/// Whether a finished turn leaves the task open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    Conversational,
    OneShot,
}

/// The protocol version a task was created under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    #[serde(rename = "0.3")]
    V03,
    #[serde(rename = "1.0")]
    V10,
}

words! {
    /// Which payload of the Gemini clients the messages of the protocol contain.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Profile {
        Coder = "coder",
        Devtool = "devtool",
        Plain = "plain",
    }
}

/// The end of a turn that a script chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ask(String),
    Auth(String),
    Complete(String),
    Fail(String),
    Reject(String),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Done,
    /// The prompt contained nothing for the model.
    Nothing,
    /// The user refused every call of the last answer.
    Refused,
    /// The agent asks the user something.
    Asked(String),
    /// A credential is missing.
    NeedsAuth(String),
    /// The model or the agent failed; the user can continue with another prompt.
    Failed(String),
    /// Somebody stopped it, or the server was restarted.
    Interrupted(String),
}

/// The final state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Final {
    Completed,
    Failed,
    Canceled,
    Rejected,
}

/// The failed attempts of one model request: those that failed before a response began, and those whose stream broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    pub failed: u32,
    pub broken: u32,
    /// When the first attempt failed, in Unix milliseconds; 0 if none has.
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub since: u64,
}
