//! The work of worker threads and their reports. A [`Job`] is a value made by `decide`; a [`Note`] is a report of its worker. A note
//! names its job; if the state no longer waits for that job, the note is dropped, but for files that the job has written.

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

/// A job is known by the event that caused it: unique within the task, and never reused over a restart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    pub task: TaskId,
    pub at: Seq,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: JobId,
    /// The task that its task continues.
    pub parent: Option<TaskId>,
    /// How its task was created.
    pub created: Arc<Created>,
    /// The skills that the task has activated.
    pub skills: Arc<Vec<ActiveSkill>>,
    /// Directories beside the workspace that its client has chosen.
    pub directories: Arc<Vec<String>>,
    /// Its conversations with other agents.
    pub threads: Arc<Vec<AgentThread>>,
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Think(Think),
    /// Ask the model for a summary of the older part of the conversation.
    Compact(Think),
    /// Read what a prompt names with `@`.
    Attach {
        workspace: Arc<str>,
        prompt: Arc<Message>,
        /// How many bytes of content may still be stored for the task.
        blob_room: u64,
    },
    /// Run the command that the task is for.
    Command(Command),
    Prepare {
        workspace: Arc<str>,
        calls: Vec<Request>,
        /// How many bytes of content may still be stored for the task.
        blob_room: u64,
    },
    Run(Run),
}

/// One request to the model: everything it is made from, shared, not copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Think {
    pub workspace: Arc<str>,
    /// Directories beside the workspace that the task's client has chosen.
    pub directories: Arc<Vec<String>>,
    pub model: Arc<str>,
    /// What the task may do without approval.
    pub mode: Mode,
    /// The only tools that the model is to be told of.
    pub tools: Option<Vec<String>>,
    /// Of the built-in tools, those that the policy denies in this mode: the model is not told of them.
    pub forbidden: Vec<String>,
    /// The tools that the log has as those of the last request.
    pub declared: Option<Arc<ToolSet>>,
    /// What the log says about the task's MCP servers.
    pub servers: Arc<Vec<ServerSeen>>,
    /// The skills that the task has activated.
    pub skills: Arc<Vec<ActiveSkill>>,
    /// The conversation so far, oldest first.
    pub history: Vec<Arc<Item>>,
    /// How many of its first entries are not the task's own: a summary, or what it inherited.
    pub given: usize,
    /// The request fails as [`ModelErrorKind::TooLong`] if it has more tokens than this, or than the model reads, and an older part that
    /// can be summarised. None: it must be sent without that.
    pub compact_at: Option<u64>,
    /// A user asked for a summary: if no newer part can be left as it is, all of the conversation is summarised.
    pub compress: bool,
    /// The message this turn answers.
    pub prompt: Arc<Message>,
    pub turn: u32,
    /// How many answers the model has given in this turn already.
    pub round: u32,
    /// 1 for the first try.
    pub attempt: u32,
    /// The command hooks before the turn are still to run.
    pub hooks_pending: bool,
    /// How often hooks have kept the turn from ending.
    pub reprompts: u32,
    /// How many bytes of content may still be stored for the task.
    pub blob_room: u64,
}

impl Think {
    /// Whether the model may be told of a tool.
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
    /// The file as the earlier edits of it in the same answer left it, if there are any.
    pub after_earlier_edits: Option<Base>,
    pub edited: Option<Arc<str>>,
    /// What the user answered, when the call was a question to them.
    pub answers: Option<Arc<Answers>>,
    pub confinement: Confinement,
    /// How many bytes of content may still be stored for the task.
    pub blob_room: u64,
}

impl Run {
    /// Whether it is a user's own command and no call.
    pub fn is_users_own(&self) -> bool {
        self.call.as_str().starts_with("shell-")
    }

    /// A user's own command, run as the shell tool runs one that was approved.
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
    /// The model is told of other tools than in the last request of the task.
    Tools(ToolSet),
    /// An MCP server has another status than the log says.
    ServerSeen(ServerSeen),
    /// The API's id of the response; comes before the rest of it, if at all.
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
    /// What the prompt names, for the model.
    Attached(Attachments),
    /// What came of a command, or what it says went wrong.
    Commanded(Result<Commanded, String>),
    /// The summary of the older part of the conversation, and how many of its items it stands for.
    Compacted(Result<Compaction, ModelError>),
    /// The model's stream ended. Its calls carry no ids of ours yet (`call` is empty): `decide` gives them.
    Answered(Result<Answer, ModelError>),
    /// One result per call of the batch, in its order.
    Prepared(Vec<Result<Plan, CallError>>),
    Output(String),
    /// The server that carries the call out asks people something.
    Inquired(Inquired),
    /// It does not need the answer to its question any more.
    Withdrawn {
        nr: u32,
    },
    /// A command hook has run for the job.
    HookRan(HookReport),
    /// The call activates a skill.
    SkillActivated(ActiveSkill),
    /// The call has spoken with another agent.
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

/// Reports of a request to the model.
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

/// Results of jobs before a request and before calls.
macro_rules! step_notes {
    () => {
        NoteBody::Attached(_) | NoteBody::Commanded(_) | NoteBody::Compacted(_) | NoteBody::Prepared(_)
    };
}
pub(crate) use step_notes;

/// Reports of a running call.
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

/// The files that a prompt names; empty if it names nothing that is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attachments {
    pub text: LongText,
    pub media: Vec<Media>,
}

impl NoteBody {
    /// Whether the job is over with this note.
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

/// What takes the place of the older part of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    pub summary: String,
    /// How many of the task's own entries in the request it stands for, from the first on.
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
    /// The option's word, as sent: whether it is on offer is for `decide` to say.
    pub option: String,
    pub edited: Option<Arc<str>>,
    /// For questions of the agent or of a server: what the user says to them.
    pub answers: Option<Arc<Answers>>,
    /// The `seq` of the plan that the user was shown, if the client says which.
    pub seen: Option<Seq>,
}

/// A prompt together with the answers that came in the same message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    pub message: Arc<Message>,
    pub answers: Vec<Pick>,
    pub delivery: Delivery,
}

impl Said {
    /// A prompt that waits for its turn.
    pub fn new(message: Arc<Message>, answers: Vec<Pick>) -> Said {
        Said { message, answers, delivery: Delivery::default() }
    }
}
