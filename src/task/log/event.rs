//! The events of a task, named in the past tense. The log of events is all that is stored of a task.
//!
//! An event becomes at most one frame in any dialect, so answering a call, its readiness and its start are three events. Events that
//! hardly any dialect shows (`Attached`, `Traced`) are in the log too, so the sequence numbers that clients see have gaps. Existing lines
//! are never rewritten, so new members of events have a default.
//!
//! Code that reads events matches all variants, so that a new one cannot be overlooked. Groups of events that are mostly handled alike
//! have macros that expand to patterns: `errands`, `speech`, `detours`, `calls`, `shells`, `hooks`.

use crate::base::id::{CallId, ConfigId, ContextId, Seq, Subject, TaskId, Tenant};
use crate::base::json;
use crate::task::definitions::agent::AgentThread;
use crate::task::definitions::command_hook::HookReport;
use crate::task::definitions::skill::ActiveSkill;
use crate::task::definitions::slash::{Invocation, PromptPart};
use crate::task::form::{Inquired, ReplyAction};
use crate::task::log::answer::Answer;
use crate::task::log::blob::{BlobRef, FileChange};
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::log::ownership::{Heard, Owned};
use crate::task::log::restored::Restored;
use crate::task::log::server::{NamedServer, ServerSeen};
pub use crate::task::log::terms::{End, Final, Lifecycle, Outcome, Profile, Protocol, Tries};
use crate::task::message::{Artifact, Message, Source};
use crate::task::origin::ToolEntry;
use crate::task::policy::{Mode, Rule};
use crate::task::push::{Health, Target};
use crate::task::spec::{Answers, ApprovalScope, Choice, Confinement, Ending, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The first event of every task.
    Created(Arc<Created>),
    /// A user message was accepted. It is the prompt of turn `turn`, which begins when the turns before it are over.
    Prompted {
        message: Arc<Message>,
        by: Source,
        turn: u32,
        #[serde(default, skip_serializing_if = "json::is_default")]
        delivery: Delivery,
    },
    /// The queued prompt of turn `turn` was sent to the model in the current turn, together with the results of its calls.
    Steered {
        turn: u32,
    },
    /// Somebody withdrew a queued prompt.
    Dropped {
        turn: u32,
        by: Source,
    },
    /// Somebody set the approval mode, the model of later requests, or the additional directories that tools may use.
    Tuned {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directories: Option<Vec<String>>,
        by: Source,
    },
    /// A user's own command, which is independent of the turns of the agent, is about to start.
    ShellBegan {
        command: String,
        by: Source,
    },
    /// A piece of the output of the user's own command, in order.
    ShellOutput {
        text: String,
    },
    /// The user's own command ended. The text has its output and how it ended; the model gets it with the next prompt.
    ShellEnded {
        text: String,
    },
    /// The turn of a queued prompt waits, because the greatest number of turns of its credential is running.
    Delayed {
        /// How many turns wait before it, itself included.
        place: usize,
    },
    /// The agent began to work on a prompt.
    TurnBegan {
        turn: u32,
    },
    /// The prompt refers to files with `@`, which are being read.
    AttachmentsWanted,
    /// The files that the prompt refers to were read. The model gets this content.
    Attached {
        text: LongText,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<Media>,
    },
    /// The task is a slash command, which is being run.
    CommandBegan,
    /// The prompt of the slash command contains the output of commands, which are prepared as calls.
    CommandExpanded {
        parts: Arc<[PromptPart]>,
    },
    /// The slash command made this prompt for the model.
    CommandPrompted {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<Media>,
    },
    /// The tools declared to the model differ from those of the last request in this task.
    Tools(Arc<ToolSet>),
    /// The status of an MCP server of the task has changed.
    ServerSeen(Arc<ServerSeen>),
    /// The API sent the id of the response that follows.
    Traced {
        trace: String,
    },
    /// A thought of the model.
    Thought {
        subject: String,
        description: String,
    },
    /// The next piece of the agent's text.
    Text {
        text: String,
    },
    /// The sources of the text.
    Cited {
        text: String,
    },
    /// The text since the last `Answered` is void, because the model's stream broke. The request is made again.
    Retracted {
        reason: String,
    },
    /// A model request failed and is made again later.
    BackedOff {
        tries: Tries,
        delay_ms: u64,
        reason: String,
    },
    /// The wait is over; the request is being made again.
    Retried,
    /// The model is unavailable; another one is asked from now on.
    FellBack {
        model: String,
        reason: String,
    },
    /// The conversation has grown too long for the model and is being summarised.
    CompactionBegan,
    /// A summary takes the place of the first `items` entries of the conversation.
    Compacted {
        summary: Arc<str>,
        items: usize,
    },
    /// The summary failed; the conversation stays as it is.
    CompactionFailed {
        reason: String,
    },
    /// The calls that follow repeat earlier ones; they are not run.
    Looped,
    /// The model was told that it repeats itself.
    Nudged {
        text: String,
    },
    /// Something that the client requested is not done; the text says why.
    Declined {
        text: String,
    },
    /// Somebody revoked what "always" had allowed: such calls need approval again.
    Revoked {
        rules: Vec<Rule>,
        by: Source,
    },
    /// Files were put back as they were at an earlier position, the conversation was, or both.
    Restored(Arc<Restored>),
    /// The model's answer is complete; its calls, if any, are next.
    Answered {
        answer: Arc<Answer>,
    },
    /// A call was prepared. The plan says what it would do.
    CallPlanned {
        call: CallId,
        plan: Arc<Plan>,
    },
    /// A call waits for somebody's answer.
    CallAsked {
        call: CallId,
        /// How long an "always" may last. The offered options depend on it.
        #[serde(default, skip_serializing_if = "ApprovalScope::is_session")]
        keeping: ApprovalScope,
    },
    /// Somebody answered the question about a call. Only the first answer counts, so there is one per question. A waiting task works again.
    CallAnswered {
        call: CallId,
        choice: Choice,
        by: Source,
        /// For edits: the content the user wants instead of the proposed one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<Arc<str>>,
        /// For questions of the agent: the user's answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<Arc<Answers>>,
        /// What the answer allows from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// The call may run, because a rule or an answer allows it.
    CallReady {
        call: CallId,
        #[serde(default, skip_serializing_if = "Confinement::is_none")]
        confinement: Confinement,
    },
    /// The call is about to start. After this event it may have had effects.
    CallStarted {
        call: CallId,
    },
    /// Output of a running call, in order.
    CallOutput {
        call: CallId,
        text: String,
    },
    /// The MCP server of a running call asks people a question.
    CallInquired {
        call: CallId,
        #[serde(flatten)]
        inquired: Arc<Inquired>,
    },
    /// The question of an MCP server was answered, was not answered in time, or is not open any more. The values of answers are not in the
    /// log.
    CallReplied {
        call: CallId,
        nr: u32,
        action: ReplyAction,
        /// The names of the fields that were answered.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
        by: Source,
    },
    CallEnded {
        call: CallId,
        ending: Arc<Ending>,
    },
    /// A call wrote a file. This event is appended together with the end of the call, or later if the call was stopped too late.
    FileChanged(Arc<FileChange>),
    /// A call activated a skill. The files of the skill can be read from now on.
    SkillActivated(Arc<ActiveSkill>),
    /// A call sent a message to another agent. The next call of that agent continues the conversation.
    AgentCalled(Arc<AgentThread>),
    /// A command hook has run.
    HookRan(Arc<HookReport>),
    /// A command hook continues the turn with this prompt instead of letting it end.
    Reprompted {
        text: String,
    },
    /// The file of an approved edit is not the one the user was shown: nothing was written, and the call is prepared again.
    CallStale {
        call: CallId,
    },
    /// Every unfinished call waits for an answer, so the task waits.
    Paused,
    /// All calls have ended and their results go to the model.
    ResultsSent,
    /// An artifact, whole or the next piece of one.
    Produced {
        artifact: Arc<Artifact>,
        append: bool,
        last: bool,
    },
    /// The turn is over; the task waits for the next prompt (or is closed by the next event).
    TurnEnded {
        turn: u32,
        end: End,
        /// Who stopped it, if somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Source>,
    },
    /// The server was restarted during a turn. Results of ended calls are kept, and the other calls wait for the user.
    Interrupted {
        text: String,
    },
    /// The user continued an interrupted turn: the task works again.
    Resumed,
    /// The task has ended. Only its webhooks may still change, and its files may be restored.
    Closed {
        state: Final,
        text: Option<String>,
    },
    /// The last line of the audit, recorded immediately before the event that ends the turn or the task. No dialect shows it.
    Audited {
        /// The server that writes the chain.
        chain: Arc<str>,
        n: u64,
        hash: String,
    },
    /// An instance owns the task from here on. This event and the next four are only in shared stores, and no dialect shows them.
    Owned(Arc<Owned>),
    /// The owner released the task: any instance may claim it.
    Released,
    /// Whether commands of the task run in the background of its owner.
    Background {
        runs: bool,
    },
    /// The owner decided a request that another instance had passed on.
    Heard(Arc<Heard>),
    /// The task was deleted. The last event of a log.
    Deleted,
    /// A webhook was set or replaced. It receives the changes after this event.
    HookSet {
        target: Arc<Target>,
    },
    HookDropped {
        id: ConfigId,
    },
    /// Everything up to this position was delivered to a webhook, or was skipped because the webhook could not be reached.
    HookMoved {
        id: ConfigId,
        upto: Seq,
        health: Health,
    },
}

/// Events about the preparation of a model request, and records that only the native dialect shows.
macro_rules! errands {
    () => {
        Event::AttachmentsWanted
            | Event::Attached { .. }
            | Event::CommandBegan
            | Event::CommandExpanded { .. }
            | Event::CommandPrompted { .. }
            | Event::Tools(_)
            | Event::ServerSeen(_)
            | Event::Traced { .. }
            | Event::FileChanged(_)
            | Event::SkillActivated(_)
            | Event::AgentCalled(_)
            | Event::Audited { .. }
            | $crate::task::log::event::ownership!()
    };
}
pub(crate) use errands;

/// What instances that share a store record about the task.
macro_rules! ownership {
    () => {
        Event::Owned(_) | Event::Released | Event::Background { .. } | Event::Heard(_) | Event::Deleted
    };
}
pub(crate) use ownership;

/// The model's answer, in pieces and whole.
macro_rules! speech {
    () => {
        Event::Thought { .. }
            | Event::Text { .. }
            | Event::Cited { .. }
            | Event::Retracted { .. }
            | Event::Answered { .. }
    };
}
pub(crate) use speech;

/// Retries, summaries, stopped repetitions, declined requests, revoked permissions and restores.
macro_rules! detours {
    () => {
        Event::BackedOff { .. }
            | Event::Retried
            | Event::FellBack { .. }
            | Event::CompactionBegan
            | Event::Compacted { .. }
            | Event::CompactionFailed { .. }
            | Event::Looped
            | Event::Nudged { .. }
            | Event::HookRan(_)
            | Event::Reprompted { .. }
            | Event::Declined { .. }
            | Event::Delayed { .. }
            | Event::Revoked { .. }
            | Event::Restored(_)
    };
}
pub(crate) use detours;

/// The steps of a call.
macro_rules! calls {
    () => {
        Event::CallPlanned { .. }
            | Event::CallAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallReady { .. }
            | Event::CallStarted { .. }
            | Event::CallOutput { .. }
            | Event::CallInquired { .. }
            | Event::CallReplied { .. }
            | Event::CallEnded { .. }
            | Event::CallStale { .. }
    };
}
pub(crate) use calls;

/// The steps of a user's own command.
macro_rules! shells {
    () => {
        Event::ShellBegan { .. } | Event::ShellOutput { .. } | Event::ShellEnded { .. }
    };
}
pub(crate) use shells;

/// Changes of the task's webhooks.
macro_rules! hooks {
    () => {
        Event::HookSet { .. } | Event::HookDropped { .. } | Event::HookMoved { .. }
    };
}
pub(crate) use hooks;

/// The message for users about a turn that waits for other turns of its credential.
pub fn delayed(place: usize) -> String {
    let before = match place {
        0 | 1 => "it is the next one".to_owned(),
        place => format!("{} wait before it", place - 1),
    };
    format!("As many turns run for this credential as may at a time. This one begins when others have ended; {before}.")
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    pub task: TaskId,
    pub context: ContextId,
    /// The tenant of the task; clients of other tenants do not see it.
    #[serde(default, skip_serializing_if = "Tenant::is_default")]
    pub tenant: Tenant,
    /// The owner of the task.
    #[serde(default, skip_serializing_if = "Subject::is_operator")]
    pub owner: Subject,
    /// Every client with the right to view sees the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The task whose conversation this one continues, and the position in it: the latest task of the same context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(TaskId, Seq)>,
    pub lifecycle: Lifecycle,
    pub protocol: Protocol,
    pub profile: Profile,
    pub workspace: String,
    /// The id of the workspace, in a shared store, because another instance may have other files at the same path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<Arc<str>>,
    /// The operator trusts the files of the workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    pub model: String,
    #[serde(default)]
    pub mode: Mode,
    /// The client requested to run tools without approval. The operator's settings decide for each call whether that is granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_execute: bool,
    /// If given, only these of the tools that the operator allows may be used. The client chose them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The MCP servers that the client named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<NamedServer>,
    /// The client gave a key for the model API, which is only in memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub client_key: bool,
    /// The number of agents through which the request for the task came.
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub depth: u8,
    /// The slash command that the first turn runs instead of asking the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Invocation>,
}

impl Created {
    /// The version and the profile of the client that created the task. None for the live session, which all clients share. The id of a
    /// live session is that of its context.
    pub fn made(&self) -> Option<(Protocol, Profile)> {
        (self.task.as_str() != self.context.as_str()).then_some((self.protocol, self.profile))
    }
}

/// How a prompt is to reach the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The client's key for the prompt: the same key from the same client is the same prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// It is sent to the model with the next results of calls, instead of waiting for the end of the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
    /// It requests a summary of the conversation instead of an answer. It does not become part of the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compress: bool,
}

/// The tools declared to a model. Their declarations are stored beside the log: a JSON list of `name`, `description` and `parameters`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSet {
    pub names: Vec<String>,
    pub declarations: BlobRef,
    /// The tools that are not built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ToolEntry>,
    /// The rules with which extensions of the workspace forbid tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Rule>,
}
