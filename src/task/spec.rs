//! Data types for tools: the declaration of a tool, the question about a call before it runs, and its result.
//!
//! The function `prepare` of a tool returns a [`Plan`] or an error; its function `run` returns an [`Ending`]. Both are recorded in the log,
//! so a restarted server and every view know the question and the result.

mod question;

pub use question::{Answers, ApprovalScope, Choice, Inquiry, InquiryKind, InquiryOption, Question};

use crate::base::text::words::words;
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::origin::Origin;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The path that a call of a built-in tool works on.
pub fn path_argument(args: &Value) -> Option<&str> {
    ["file_path", "dir_path"].into_iter().find_map(|name| args.get(name)?.as_str())
}

/// A tool as the model and the clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    /// An older name, which models still use. Calls and settings may use it, but it is not declared.
    pub former_name: Option<&'static str>,
    pub display_name: String,
    pub description: String,
    pub kind: Kind,
    pub origin: Origin,
    /// JSON schema of the arguments.
    pub parameters: Value,
    /// The schema of the tool's server, if another one is declared to the model.
    pub original: Option<Value>,
    /// The decision if no rule matches.
    pub by_default: Verdict,
    pub output_is_markdown: bool,
    pub has_live_output: bool,
}

impl ToolSpec {
    /// A tool that needs no approval if it only reads, and whose output is plain text. Commands have live output.
    pub fn new(name: &str, display_name: &str, kind: Kind, description: &str, parameters: Value) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            former_name: None,
            display_name: display_name.into(),
            description: description.into(),
            kind,
            origin: Origin::BuiltIn,
            parameters,
            original: None,
            by_default: if kind.only_reads() { Verdict::Allow } else { Verdict::Ask },
            output_is_markdown: false,
            has_live_output: kind == Kind::Execute,
        }
    }

    /// Checks the arguments of a call. The error is for the model. For tools of an MCP server, which checks arguments itself, only the
    /// presence of the required ones is checked.
    pub fn validate(&self, args: &Value) -> Result<(), String> {
        let check = |schema: &Value| crate::task::schema::check(schema, args, "params");
        match self.origin {
            Origin::Mcp(_) => check(&json!({"type": "object", "required": self.parameters.get("required")})),
            Origin::BuiltIn | Origin::Skills | Origin::Resources | Origin::Agents => check(&self.parameters),
        }
    }

    /// The declaration of the tool in the log.
    pub fn declaration(&self) -> Value {
        let mut declaration =
            json!({"name": self.name, "description": self.description, "parameters": self.parameters});
        if let Some(original) = &self.original {
            declaration["original"] = original.clone();
        }
        declaration
    }

    /// The names a call may use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.former_name)
    }

    /// Whether it may be used if only the listed tools may; without a list all may. A list may name all tools of an MCP server.
    pub fn is_among(&self, only: Option<&[String]>) -> bool {
        self.names().any(|name| self.origin.is_among(name, only))
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        Read = "read",
        Edit = "edit",
        Search = "search",
        Execute = "execute",
        Fetch = "fetch",
        Communicate = "communicate",
        Other = "other",
    }
}

impl Kind {
    /// Whether a run may have effects that cannot be undone, so that its start waits until the log is synced.
    pub fn mutates(self) -> bool {
        matches!(self, Kind::Edit | Kind::Execute)
    }

    pub fn only_reads(self) -> bool {
        matches!(self, Kind::Read | Kind::Search)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

/// What the kernel allows the programs of a call to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Everything that the user may do: somebody approved the call, or a rule allows it.
    #[default]
    None,
    /// Reading the workspace and running programs of the system, for a call that nobody approved.
    ReadOnly {
        /// The only files that it may write, as absolute paths below the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        writable: Vec<String>,
    },
}

impl Confinement {
    pub fn is_none(&self) -> bool {
        *self == Confinement::None
    }
}

/// What a call would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// One line for the user.
    pub title: String,
    pub question: Question,
    /// For edits: the version of the file from which the diff was computed. If the file changes before the call runs, the user is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
}

impl Plan {
    /// The plan of a call that is described by one sentence.
    pub fn info(title: impl Into<String>, question: impl Into<String>, prompt: impl Into<String>) -> Plan {
        let question = Question::Info { title: question.into(), prompt: prompt.into(), urls: Vec::new() };
        Plan { title: title.into(), question, base: None }
    }

    /// The texts in it that may be long.
    pub fn texts(&self) -> Vec<&LongText> {
        match &self.question {
            Question::Edit { diff, old, new, .. } => [diff, new].into_iter().chain(old).collect(),
            Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. } => {
                Vec::new()
            }
        }
    }

    pub fn texts_mut(&mut self) -> Vec<&mut LongText> {
        match &mut self.question {
            Question::Edit { diff, old, new, .. } => [diff, new].into_iter().chain(old).collect(),
            Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. } => {
                Vec::new()
            }
        }
    }
}

/// The state of a file when a diff was computed: its SHA-256 in hex, or None if there was no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub sha256: Option<String>,
    /// The SHA-256 of the lines that the diff removes and adds. It is equal for the same change of another version of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Success {
        /// For the model.
        output: LongText,
        display: Display,
    },
    Error {
        error: CallError,
    },
    Cancelled {
        /// For the model.
        reason: String,
        /// The output until then.
        #[serde(default, skip_serializing_if = "LongText::is_empty")]
        output: LongText,
    },
}

/// The texts in an ending, for shared and for mutable references.
macro_rules! texts_of_ending {
    ($ending:expr) => {
        match $ending {
            Ending::Success {
                output,
                display: Display::Text { text } | Display::Summary { text } | Display::Media { text, .. },
            } => {
                vec![output, text]
            }
            Ending::Success { output, display: Display::Diff { diff, old, new, .. } } => {
                [output, diff, new].into_iter().chain(old).collect()
            }
            Ending::Success { output, display: Display::Todos { .. } } | Ending::Cancelled { output, .. } => {
                vec![output]
            }
            Ending::Error { .. } => Vec::new(),
        }
    };
}

impl Ending {
    /// A success: `output` is for the model, `shown` for people.
    pub fn text(output: impl Into<LongText>, shown: impl Into<LongText>) -> Ending {
        Ending::Success { output: output.into(), display: Display::Text { text: shown.into() } }
    }

    /// A success whose result is for the model and for people.
    pub fn summarised(output: impl Into<LongText>, summary: impl Into<LongText>) -> Ending {
        Ending::Success { output: output.into(), display: Display::Summary { text: summary.into() } }
    }

    /// A call that was cancelled and has printed nothing.
    pub fn cancelled(reason: &str) -> Ending {
        Ending::Cancelled { reason: reason.into(), output: LongText::default() }
    }

    /// The output for the model, if the call did not end with an error.
    pub fn output(&self) -> Option<&LongText> {
        match self {
            Ending::Success { output, .. } | Ending::Cancelled { output, .. } => Some(output),
            Ending::Error { .. } => None,
        }
    }

    pub fn output_mut(&mut self) -> Option<&mut LongText> {
        match self {
            Ending::Success { output, .. } | Ending::Cancelled { output, .. } => Some(output),
            Ending::Error { .. } => None,
        }
    }

    /// The media that the model is sent with it.
    pub fn media(&self) -> &[Media] {
        match self {
            Ending::Success { display: Display::Media { media, .. }, .. } => media,
            Ending::Success { .. } | Ending::Error { .. } | Ending::Cancelled { .. } => &[],
        }
    }

    /// Replaces the media by a note for the model.
    pub fn drop_media(&mut self) {
        if let Ending::Success { output, display } = self
            && let Display::Media { text, .. } = display
        {
            *output =
                format!("{output}\n[The turn failed before you had looked at it. It is not shown any more.]").into();
            *display = Display::Text { text: std::mem::take(text) };
        }
    }

    pub fn media_mut(&mut self) -> &mut [Media] {
        match self {
            Ending::Success { display: Display::Media { media, .. }, .. } => media,
            Ending::Success { .. } | Ending::Error { .. } | Ending::Cancelled { .. } => &mut [],
        }
    }

    /// The texts in it that may be long.
    pub fn texts(&self) -> Vec<&LongText> {
        texts_of_ending!(self)
    }

    pub fn texts_mut(&mut self) -> Vec<&mut LongText> {
        texts_of_ending!(self)
    }
}

/// A result as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Display {
    Text {
        text: LongText,
    },
    /// People see the output for the model too. The text is one line about it for views that show no more; it may be empty.
    Summary {
        text: LongText,
    },
    Diff {
        file_name: String,
        file_path: String,
        diff: LongText,
        old: Option<LongText>,
        new: LongText,
        added: usize,
        removed: usize,
    },
    Todos {
        todos: Vec<Todo>,
    },
    /// Media, with a text for people that describes them.
    Media {
        text: LongText,
        media: Vec<Media>,
    },
}

/// One step of the agent's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    pub description: String,
    pub status: TodoStatus,
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TodoStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
        Cancelled = "cancelled",
        Blocked = "blocked",
    }
}

/// Why a call failed: one of the fixed error types, and a message for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    pub kind: ErrorKind,
    pub message: String,
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ErrorKind {
        PolicyViolation = "policy_violation",
        InvalidToolParams = "invalid_tool_params",
        UnhandledException = "unhandled_exception",
        ToolNotRegistered = "tool_not_registered",
        ExecutionFailed = "execution_failed",
        FileNotFound = "file_not_found",
        FileWriteFailure = "file_write_failure",
        AttemptToCreateExistingFile = "attempt_to_create_existing_file",
        EditPreparationFailure = "edit_preparation_failure",
        EditNoOccurrenceFound = "edit_no_occurrence_found",
        EditExpectedOccurrenceMismatch = "edit_expected_occurrence_mismatch",
        EditNoChange = "edit_no_change",
        ReadContentFailure = "read_content_failure",
        FileTooLarge = "file_too_large",
        PermissionDenied = "permission_denied",
        NoSpaceLeft = "no_space_left",
        TargetIsDirectory = "target_is_directory",
        PathNotInWorkspace = "path_not_in_workspace",
        PathIsNotADirectory = "path_is_not_a_directory",
        LsExecutionError = "ls_execution_error",
        GlobExecutionError = "glob_execution_error",
        GrepExecutionError = "grep_execution_error",
        ShellExecuteError = "shell_execute_error",
        WebFetchProcessingError = "web_fetch_processing_error",
        WebFetchFallbackFailed = "web_fetch_fallback_failed",
        WebSearchFailed = "web_search_failed",
        McpToolError = "mcp_tool_error",
        McpResourceNotFound = "mcp_resource_not_found",
        /// The server was stopped while the call was running.
        Interrupted = "interrupted",
    }
}

impl ErrorKind {
    /// An error of this kind, with a message for the model.
    pub fn error(self, message: impl Into<String>) -> CallError {
        CallError { kind: self, message: message.into() }
    }
}
