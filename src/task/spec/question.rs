//! The question that a call asks before it runs, and the answers that it offers.

use crate::base::text::words::words;
use crate::task::command_line::parse;
use crate::task::log::long_text::LongText;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The question for the user if a call needs approval or an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    Edit {
        title: String,
        file_name: String,
        file_path: String,
        diff: LongText,
        /// None for a file that does not exist yet.
        old: Option<LongText>,
        new: LongText,
    },
    Exec {
        title: String,
        command: String,
        /// The programs that the command line starts, in order, without repeats. Only `bash` if it could not be parsed.
        programs: Vec<String>,
        dir: Option<String>,
        /// What to check before approving it, in sentences.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
        /// Why commands that only read, or files of redirections, need approval nevertheless, as a clause: "a.txt leads out of the
        /// workspace". Rules and answers may still allow the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs_approval: Option<String>,
        /// The files that redirections write, as absolute real paths below the workspace. Empty if one of them needs approval.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<String>,
    },
    /// A call of an MCP server's tool.
    Mcp {
        title: String,
        server: String,
        tool: String,
        display_name: String,
        args: Value,
        /// The server's description of the tool.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
        /// The schema of the arguments as the server wrote it, unless it is too long to be shown.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        schema: Value,
        /// What to check before approving it, in sentences.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    Info {
        title: String,
        prompt: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        urls: Vec<String>,
    },
    /// The call itself is a question to the user. The answer is its result, so no rule and no mode can replace the user.
    AskUser { title: String, questions: Vec<Inquiry> },
}

/// One question of the agent to the user, with the names that the model and the clients use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inquiry {
    pub question: String,
    /// A short label.
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

/// The answers of the user, by the number of the question, counted from 0.
pub type Answers = BTreeMap<String, String>;

impl Question {
    pub fn is_edit(&self) -> bool {
        matches!(self, Question::Edit { .. })
    }

    /// Whether the question is about a command line that could not be parsed.
    pub fn is_unread(&self) -> bool {
        matches!(self, Question::Exec { command, .. } if parse(command).is_err())
    }

    /// Whether only a person can answer the question, whatever rules allow.
    pub fn asks_the_user(&self) -> bool {
        matches!(self, Question::AskUser { .. })
    }

    /// The possible answers in the order to show them; the last one refuses.
    pub fn options(&self, scope: ApprovalScope) -> &'static [Choice] {
        // An "always" makes no sense for a question of the agent.
        let scope = if self.asks_the_user() { ApprovalScope::Once } else { scope };
        let is_mcp = matches!(self, Question::Mcp { .. });
        match scope {
            ApprovalScope::Once => &[Choice::ProceedOnce, Choice::Cancel],
            ApprovalScope::Session if is_mcp => {
                &[Choice::ProceedOnce, Choice::ProceedAlwaysTool, Choice::ProceedAlwaysServer, Choice::Cancel]
            }
            ApprovalScope::Disk if is_mcp => &[
                Choice::ProceedOnce,
                Choice::ProceedAlwaysTool,
                Choice::ProceedAlwaysServer,
                Choice::ProceedAlwaysAndSave,
                Choice::Cancel,
            ],
            ApprovalScope::Session => &[Choice::ProceedOnce, Choice::ProceedAlways, Choice::Cancel],
            ApprovalScope::Disk => {
                &[Choice::ProceedOnce, Choice::ProceedAlways, Choice::ProceedAlwaysAndSave, Choice::Cancel]
            }
        }
    }
}

/// How long an "always" answer may last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// No rule can be created for this call: its command line could not be parsed.
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
        /// All calls of this tool of an MCP server.
        ProceedAlwaysTool = "proceed_always_tool",
        /// All tools of this MCP server.
        ProceedAlwaysServer = "proceed_always_server",
        ProceedAlwaysAndSave = "proceed_always_and_save",
        Cancel = "cancel",
    }
}

impl Choice {
    /// The label for people if a call needs approval.
    pub fn name(self) -> &'static str {
        match self {
            Choice::ProceedOnce => "Allow Once",
            Choice::ProceedAlways => "Always Allow",
            Choice::ProceedAlwaysTool => "Always Allow Tool",
            Choice::ProceedAlwaysServer => "Always Allow Server",
            Choice::ProceedAlwaysAndSave => "Always Allow and Save",
            Choice::Cancel => "Reject",
        }
    }
}
