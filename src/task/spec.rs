//! What a tool is to everybody but itself: its declaration, what it wants to ask before it runs, and what comes out.
//!
//! A tool's `prepare` makes a [`Plan`] (or says what is wrong with the call); its `run` makes an [`Ending`]. Both are values
//! in the log, so a restarted server and every view know exactly what was asked and what was answered.

use crate::base::words::words;
use crate::task::command_line::parse;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A tool as the model and the clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    /// A name it had before, which models still use. Calls and settings may use it, but it is not declared.
    pub former_name: Option<&'static str>,
    pub display_name: String,
    pub description: String,
    pub kind: Kind,
    /// JSON schema of the arguments.
    pub parameters: Value,
    /// What happens when no rule says otherwise.
    pub by_default: Verdict,
    pub output_is_markdown: bool,
    pub has_live_output: bool,
}

impl ToolSpec {
    /// A tool that runs without approval if it only reads, and whose output is plain text. The output of commands comes while they run.
    pub fn new(name: &str, display_name: &str, kind: Kind, description: &str, parameters: Value) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            former_name: None,
            display_name: display_name.into(),
            description: description.into(),
            kind,
            parameters,
            by_default: if kind.only_reads() { Verdict::Allow } else { Verdict::Ask },
            output_is_markdown: false,
            has_live_output: kind == Kind::Execute,
        }
    }

    /// Checks the arguments against the parts of JSON schema that tool declarations use: `required`, `properties`, `type`,
    /// `enum`, `minimum`, `items`. Says what is wrong in words the model can act on.
    pub fn validate(&self, args: &Value) -> Result<(), String> {
        crate::task::schema::check(&self.parameters, args, "params")
    }

    /// The tool as the log keeps it.
    pub fn declaration(&self) -> Value {
        json!({"name": self.name, "description": self.description, "parameters": self.parameters})
    }

    /// The names a call may use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.former_name)
    }

    /// Whether it is one of the tools that may be used; all are if there is no list.
    pub fn is_among(&self, only: Option<&[String]>) -> bool {
        only.is_none_or(|only| self.names().any(|name| only.iter().any(|one| one == name)))
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Whether running it changes something that cannot be taken back: its start waits until the log is synced.
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

/// What the kernel lets the programs of a call do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Whatever the user may do: somebody approved the call, or a rule allows it.
    #[default]
    None,
    /// Read the workspace and run the system's programs. Nobody approved the call.
    ReadOnly {
        /// The only files it may write, as absolute paths below the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        writable: Vec<String>,
    },
}

impl Confinement {
    pub fn is_none(&self) -> bool {
        *self == Confinement::None
    }
}

/// What `prepare` found out about a call, before anything has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// One line for the user: what this call does.
    pub title: String,
    pub question: Question,
    /// For edits: the file the diff was computed from. Running checks it, and asks again if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
}

impl Plan {
    /// The plan of a call about which there is no more to show than a sentence.
    pub fn info(title: impl Into<String>, question: impl Into<String>, prompt: impl Into<String>) -> Plan {
        let question = Question::Info { title: question.into(), prompt: prompt.into(), urls: Vec::new() };
        Plan { title: title.into(), question, base: None }
    }
}

/// The state of a file at the moment a diff was computed: SHA-256 in hex, or absent when there was no file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub sha256: Option<String>,
}

/// What the user is shown when a call needs an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    Edit {
        title: String,
        file_name: String,
        file_path: String,
        diff: String,
        /// None for a file that does not exist yet.
        old: Option<String>,
        new: String,
    },
    Exec {
        title: String,
        command: String,
        /// The programs the command line starts, in order, without repeats. Only `bash` if it could not be read.
        programs: Vec<String>,
        dir: Option<String>,
        /// What to look at before allowing it, in sentences.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
        /// Why commands that only read, or files that it redirects to, need approval all the same, as a clause: "a.txt leads
        /// out of the workspace". Rules and answers may still allow the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs_approval: Option<String>,
        /// The files that redirections write, as absolute real paths below the workspace. Empty if one of them needs approval.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<String>,
    },
    Info {
        title: String,
        prompt: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        urls: Vec<String>,
    },
    /// The call itself is a question: the answer is its result, so no rule and no mode can give it.
    AskUser { title: String, questions: Vec<Inquiry> },
}

/// One question of the agent to the user, spelled as the model asks it and clients show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inquiry {
    pub question: String,
    /// A word or two to tell it from the others.
    pub header: String,
    #[serde(default, rename = "type")]
    pub kind: InquiryKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<InquiryOption>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multi_select: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InquiryKind {
    #[default]
    Choice,
    Text,
    YesNo,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InquiryOption {
    pub label: String,
    pub description: String,
}

/// What the user answered, by the number of the question, counted from 0.
pub type Answers = BTreeMap<String, String>;

impl Question {
    pub fn is_edit(&self) -> bool {
        matches!(self, Question::Edit { .. })
    }

    /// Whether it is about a command line that could not be read.
    pub fn is_unread(&self) -> bool {
        matches!(self, Question::Exec { command, .. } if parse(command).is_err())
    }

    /// Whether only a person can answer it, whatever is allowed.
    pub fn asks_the_user(&self) -> bool {
        matches!(self, Question::AskUser { .. })
    }

    /// The answers on offer, in the order to show them; the last one refuses.
    pub fn options(&self, scope: ApprovalScope) -> &'static [Choice] {
        // An answer to the agent's own question cannot be given in advance.
        let scope = if self.asks_the_user() { ApprovalScope::Once } else { scope };
        match scope {
            ApprovalScope::Once => &[Choice::ProceedOnce, Choice::Cancel],
            ApprovalScope::Session => &[Choice::ProceedOnce, Choice::ProceedAlways, Choice::Cancel],
            ApprovalScope::Disk => {
                &[Choice::ProceedOnce, Choice::ProceedAlways, Choice::ProceedAlwaysAndSave, Choice::Cancel]
            }
        }
    }
}

/// How long "always" may last where the question is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// There is nothing that could be allowed beyond this call: its command line could not be read.
    Once,
    #[default]
    Session,
    Disk,
}

impl ApprovalScope {
    pub fn is_session(&self) -> bool {
        *self == ApprovalScope::Session
    }
}

words! {
    /// An answer to a question.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Choice {
        ProceedOnce = "proceed_once",
        ProceedAlways = "proceed_always",
        ProceedAlwaysAndSave = "proceed_always_and_save",
        Cancel = "cancel",
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Success {
        /// What the model reads.
        output: String,
        display: Display,
    },
    Error {
        error: CallError,
    },
    Cancelled {
        /// Why, for the model.
        reason: String,
        /// What had been printed until then.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
}

impl Ending {
    /// A success whose text people see: `shown`. The model reads `output`.
    pub fn text(output: impl Into<String>, shown: impl Into<String>) -> Ending {
        Ending::Success { output: output.into(), display: Display::Text { text: shown.into() } }
    }

    /// A call that was cancelled and has printed nothing.
    pub fn cancelled(reason: &str) -> Ending {
        Ending::Cancelled { reason: reason.into(), output: String::new() }
    }
}

/// What people see of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Display {
    Text {
        text: String,
    },
    Diff {
        file_name: String,
        file_path: String,
        diff: String,
        old: Option<String>,
        new: String,
        added: usize,
        removed: usize,
    },
    Todos {
        todos: Vec<Todo>,
    },
}

/// One step of what the agent means to do.
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

/// Why a call failed: a word from the fixed list of error types, and a sentence for the model.
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
        /// The server stopped while the call ran.
        Interrupted = "interrupted",
    }
}

impl ErrorKind {
    /// An error of this kind, with a message for the model.
    pub fn error(self, message: impl Into<String>) -> CallError {
        CallError { kind: self, message: message.into() }
    }
}
