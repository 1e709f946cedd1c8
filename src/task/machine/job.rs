//! The jobs of worker threads and their reports. `decide` makes a [`Job`], and its worker sends [`Note`]s with the id of the job. If the
//! state does not wait for the job any more, its notes are dropped, except for the files that the job has written.

use crate::base::id::{CallId, Seq, TaskId};
use crate::task::definitions::agent::AgentThread;
use crate::task::definitions::command_hook::HookReport;
use crate::task::definitions::skill::ActiveSkill;
use crate::task::definitions::slash::{Command, Commanded};
use crate::task::form::Inquired;
use crate::task::log::answer::{Answer, Request};
use crate::task::log::blob::FileChange;
use crate::task::log::event::{Created, Delivery, ToolSet};
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::log::server::ServerSeen;
use crate::task::machine::state::{Item, ShellRun};
use crate::task::message::{Artifact, Message};
use crate::task::policy::Mode;
use crate::task::spec::{Answers, Base, CallError, Confinement, Ending, Plan, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The id of a job: its task and the event that caused it. It is unique, also after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    pub task: TaskId,
    pub at: Seq,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: JobId,
    /// The task whose conversation its task continues.
    pub parent: Option<TaskId>,
    /// How its task was created.
    pub created: Arc<Created>,
    /// The skills that the task has activated.
    pub skills: Arc<Vec<ActiveSkill>>,
    /// The additional directories that its client has chosen.
    pub directories: Arc<Vec<String>>,
    /// Its conversations with other agents.
    pub threads: Arc<Vec<AgentThread>>,
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Send a request to the model.
    Think(Think),
    /// Ask the model for a summary of the older part of the conversation.
    Compact(Think),
    /// Read the files that a prompt refers to with `@`.
    Attach {
        workspace: Arc<str>,
        prompt: Arc<Message>,
        /// How many bytes of content may still be stored for the task.
        blob_room: u64,
    },
    /// Run the command that the task is for.
    Command(Command),
    /// Prepare calls: check their arguments and plan what they would do.
    Prepare {
        workspace: Arc<str>,
        calls: Vec<Request>,
        /// How many bytes of content may still be stored for the task.
        blob_room: u64,
    },
    /// Run a call, or a user's own command.
    Run(Run),
}

/// The inputs of one request to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Think {
    pub workspace: Arc<str>,
    /// The additional directories that the task's client has chosen.
    pub directories: Arc<Vec<String>>,
    pub model: Arc<str>,
    /// What the task may do without approval.
    pub mode: Mode,
    /// If given, only these tools are declared to the model.
    pub tools: Option<Vec<String>>,
    /// The built-in tools that the policy denies in this mode. They are not declared.
    pub forbidden: Vec<String>,
    /// The tools of the last request, according to the log.
    pub declared: Option<Arc<ToolSet>>,
    /// What the log says about the task's MCP servers.
    pub servers: Arc<Vec<ServerSeen>>,
    /// The skills that the task has activated.
    pub skills: Arc<Vec<ActiveSkill>>,
    /// The conversation so far, oldest first.
    pub history: Vec<Arc<Item>>,
    /// The number of first entries that are not the task's own: a summary, or the conversation that the task continues.
    pub given: usize,
    /// The request fails as [`ModelErrorKind::TooLong`] if it has more tokens than this or than the model's context window, and an older
    /// part that can be summarised. None: the conversation must not be summarised first.
    pub compact_at: Option<u64>,
    /// A user requested a summary: if the conversation cannot be divided, all of it is summarised.
    pub compress: bool,
    /// The prompt of the turn.
    pub prompt: Arc<Message>,
    pub turn: u32,
    /// The number of earlier answers of the model in this turn.
    pub round: u32,
    /// The number of the attempt, from 1 on.
    pub attempt: u32,
    /// The command hooks before the turn have not run yet.
    pub hooks_pending: bool,
    /// How often hooks have continued the turn.
    pub reprompts: u32,
    /// How many bytes of content may still be stored for the task.
    pub blob_room: u64,
}

impl Think {
    /// Whether a tool may be declared to the model.
    pub fn may_declare(&self, spec: &ToolSpec) -> bool {
        spec.is_among(self.tools.as_deref()) && !self.forbidden.contains(&spec.name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub workspace: Arc<str>,
    pub call: CallId,
    pub name: String,
    pub args: Value,
    pub base: Option<Base>,
    /// The file after the earlier edits of it in the same answer, if there are any.
    pub after_earlier_edits: Option<Base>,
    pub edited: Option<Arc<str>>,
    /// The user's answers, if the call is a question to the user.
    pub answers: Option<Arc<Answers>>,
    pub confinement: Confinement,
    /// How many bytes of content may still be stored for the task.
    pub blob_room: u64,
}

impl Run {
    /// Whether it is a user's own command and not a call.
    pub fn is_users_own(&self) -> bool {
        self.call.as_str().starts_with("shell-")
    }

    /// A user's own command, which runs like an approved call of the shell tool.
    pub fn shell(workspace: Arc<str>, shell: &ShellRun, blob_room: u64) -> Run {
        Run {
            workspace,
            call: format!("shell-{}", shell.job).into(),
            name: "run_shell_command".into(),
            args: json!({ "command": shell.command }),
            base: None,
            edited: None,
            answers: None,
            confinement: Confinement::None,
            after_earlier_edits: None,
            blob_room,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub job: JobId,
    pub body: NoteBody,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NoteBody {
    /// The declared tools differ from those of the last request of the task.
    Tools(ToolSet),
    /// The status of an MCP server differs from that in the log.
    ServerSeen(ServerSeen),
    /// The API's id of the response. It comes before the other notes about the response, if at all.
    Traced(String),
    Thought {
        subject: String,
        description: String,
    },
    Text(String),
    Cited(String),
    Produced {
        artifact: Artifact,
        append: bool,
        last: bool,
    },
    /// The files that the prompt refers to.
    Attached(Attachments),
    /// The result of a slash command, or its error message.
    Commanded(Result<Commanded, String>),
    /// The result of a summary of the conversation.
    Compacted(Result<Compaction, ModelError>),
    /// The model's stream ended. The ids of its calls (`call`) are empty; `decide` sets them.
    Answered(Result<Answer, ModelError>),
    /// One result per call of the batch, in its order.
    Prepared(Vec<Result<Plan, CallError>>),
    Output(String),
    /// The MCP server of the call asks a question.
    Inquired(Inquired),
    /// The MCP server does not need the answer to its question any more.
    Withdrawn {
        nr: u32,
    },
    /// A command hook has run for the job.
    HookRan(HookReport),
    /// The call activates a skill.
    SkillActivated(ActiveSkill),
    /// The call sent a message to another agent.
    AgentCalled(AgentThread),
    Ended(RunEnd),
    /// The call ended and has written files.
    Edited {
        ending: Ending,
        changes: Vec<FileChange>,
    },
    /// The worker panicked or could not be started.
    Died(String),
}

/// Notes of a request to the model.
macro_rules! model_notes {
    () => {
        NoteBody::Tools(_)
            | NoteBody::ServerSeen(_)
            | NoteBody::Traced(_)
            | NoteBody::Thought { .. }
            | NoteBody::Text(_)
            | NoteBody::Cited(_)
            | NoteBody::Produced { .. }
            | NoteBody::Answered(_)
    };
}
pub(crate) use model_notes;

/// Results of the jobs that prepare a request or calls.
macro_rules! step_notes {
    () => {
        NoteBody::Attached(_) | NoteBody::Commanded(_) | NoteBody::Compacted(_) | NoteBody::Prepared(_)
    };
}
pub(crate) use step_notes;

/// Notes of a running call.
macro_rules! call_notes {
    () => {
        NoteBody::Output(_)
            | NoteBody::SkillActivated(_)
            | NoteBody::AgentCalled(_)
            | NoteBody::Inquired(_)
            | NoteBody::Withdrawn { .. }
            | NoteBody::HookRan(_)
            | NoteBody::Ended(_)
            | NoteBody::Edited { .. }
    };
}
pub(crate) use call_notes;

/// The files that a prompt refers to; empty if none of them exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attachments {
    pub text: LongText,
    pub media: Vec<Media>,
}

impl NoteBody {
    /// Whether this is the last note of its job.
    pub fn is_last(&self) -> bool {
        match self {
            NoteBody::Tools(_)
            | NoteBody::ServerSeen(_)
            | NoteBody::Traced(_)
            | NoteBody::Thought { .. }
            | NoteBody::Text(_)
            | NoteBody::Cited(_)
            | NoteBody::Produced { .. }
            | NoteBody::HookRan(_)
            | NoteBody::SkillActivated(_)
            | NoteBody::Inquired(_)
            | NoteBody::Withdrawn { .. }
            | NoteBody::AgentCalled(_)
            | NoteBody::Output(_) => false,
            NoteBody::Attached(_)
            | NoteBody::Commanded(_)
            | NoteBody::Compacted(_)
            | NoteBody::Answered(_)
            | NoteBody::Prepared(_)
            | NoteBody::Ended(_)
            | NoteBody::Edited { .. }
            | NoteBody::Died(_) => true,
        }
    }
}

/// A summary that replaces the older part of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    pub summary: String,
    /// How many of the task's own entries in the request it replaces, from the first on.
    pub items: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// For people: what happened and what to do.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Nothing was received yet; try again, after the server's own delay if it named one.
    Busy { after_ms: Option<u64> },
    /// The stream broke or was not a valid answer, or the conversation could not be read; void what was received and try again, a few
    /// times.
    BadStream,
    /// This model is unavailable; another one may be available.
    Unusable,
    /// The conversation is too long; nothing was sent. It may fit when its older part is summarised.
    TooLong,
    /// The client has to give its key again.
    NeedsKey,
    /// Trying again cannot help.
    Fatal,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    Ended(Ending),
    /// The file is not the one the user was shown: nothing was written, and the call is to be planned again.
    Stale,
}

/// An answer to a question, as a client sends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    pub call: CallId,
    /// The option's word as it was sent. `decide` checks whether it was offered.
    pub option: String,
    pub edited: Option<Arc<str>>,
    /// For questions of the agent or of an MCP server: the user's answers.
    pub answers: Option<Arc<Answers>>,
    /// The `seq` of the plan that the user was shown, if the client says which.
    pub seen: Option<Seq>,
}

/// A message of a client: a prompt, answers to questions, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    pub message: Arc<Message>,
    pub answers: Vec<Pick>,
    pub delivery: Delivery,
}

impl Said {
    /// A message whose prompt is queued normally.
    pub fn new(message: Arc<Message>, answers: Vec<Pick>) -> Said {
        Said { message, answers, delivery: Delivery::default() }
    }
}
