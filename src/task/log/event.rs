//! The events of a task, named in the past tense. A task is its log of events; nothing else of it is stored.
//!
//! An event gives at most one frame in any dialect, so answering, becoming ready and starting are three events. Events that
//! hardly any dialect shows (`Attached`, `Traced`) are in the log too, so the sequence numbers that clients see have gaps. Old lines
//! are never rewritten: members are only added, with a default.
//!
//! Code that reads events matches all of them, so that a new one cannot be overlooked. Events that are mostly handled alike are groups,
//! which are patterns: `errands`, `speech`, `detours`, `calls`, `shells`, `hooks`.

use crate::base::id::{CallId, ConfigId, ContextId, Seq, TaskId, Tenant};
use crate::base::words::words;
use crate::task::log::answer::Answer;
use crate::task::log::blob::{BlobRef, FileChange};
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::message::{Artifact, Message, Source};
use crate::task::policy::{Mode, Rule};
use crate::task::push::{Health, Target};
use crate::task::slash::Invocation;
use crate::task::spec::{Answers, ApprovalScope, Choice, Confinement, Ending, Plan};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
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
        #[serde(default, skip_serializing_if = "Delivery::is_default")]
        delivery: Delivery,
    },
    /// A prompt that was queued as turn `turn` was given to the model in the turn that is under way, with the results of its calls.
    Steered {
        turn: u32,
    },
    /// Somebody took a queued prompt back.
    Dropped {
        turn: u32,
        by: Source,
    },
    /// Somebody chose the approval mode or the model of the requests that follow.
    Tuned {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<Mode>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        by: Source,
    },
    /// A user's own command starts, beside the turns of the agent. Written before it does.
    ShellBegan {
        command: String,
        by: Source,
    },
    /// Output of that command, in order.
    ShellOutput {
        text: String,
    },
    /// The command ended: what it printed and how it ended. The model is shown it with the next prompt.
    ShellEnded {
        text: String,
    },
    /// The agent began to work on a prompt.
    TurnBegan {
        turn: u32,
    },
    /// The prompt names files with `@`; they are being read.
    AttachmentsWanted,
    /// They were read: what the model gets of them, if anything.
    Attached {
        text: LongText,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<Media>,
    },
    /// The task is a slash command, which is being run.
    CommandBegan,
    /// The slash command made this prompt for the model.
    CommandPrompted {
        text: String,
    },
    /// The tools that the model is told of differ from those of its last request in this task.
    Tools(Arc<ToolSet>),
    /// The API named the response that follows.
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
    /// The text since the last `Answered` is void: the model's stream broke and the request is made again.
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
    /// Something that the client wanted is not done, and why.
    Declined {
        text: String,
    },
    /// Somebody took back what "always" had allowed: such calls are asked about again.
    Revoked {
        rules: Vec<Rule>,
        by: Source,
    },
    /// The model's answer is complete; its calls, if any, are next.
    Answered {
        answer: Arc<Answer>,
    },
    /// A call was prepared: what it would do.
    CallPlanned {
        call: CallId,
        plan: Arc<Plan>,
    },
    /// A call waits for somebody's answer.
    CallAsked {
        call: CallId,
        /// How long an "always" may last: part of what is on offer, and shown to everybody who may answer.
        #[serde(default, skip_serializing_if = "ApprovalScope::is_session")]
        keeping: ApprovalScope,
    },
    /// Somebody answered. The first answer wins, so there is one per question. A task that waited works again.
    CallAnswered {
        call: CallId,
        choice: Choice,
        by: Source,
        /// For edits: the content the user wants instead of the proposed one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<Arc<str>>,
        /// For questions of the agent: what the user said to them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<Arc<Answers>>,
        /// What the answer allows from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// The call may run: allowed by a rule or by an answer.
    CallReady {
        call: CallId,
        #[serde(default, skip_serializing_if = "Confinement::is_none")]
        confinement: Confinement,
    },
    /// The call starts. Written before it does: from here on it may have had effects.
    CallStarted {
        call: CallId,
    },
    /// Output of a running call, in order.
    CallOutput {
        call: CallId,
        text: String,
    },
    CallEnded {
        call: CallId,
        ending: Arc<Ending>,
    },
    /// A call wrote a file. Comes in the same append as the end of the call, or later if the call was stopped too late.
    FileChanged(Arc<FileChange>),
    /// The file of an approved edit is not the one the user was shown: nothing was written, and the call is prepared again.
    CallStale {
        call: CallId,
    },
    /// Every unfinished call waits for an answer.
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
    /// The server was restarted in the middle of a turn. What had finished is kept; what remains waits for the user.
    Interrupted {
        text: String,
    },
    /// The user let an interrupted turn go on: the task works again.
    Resumed,
    /// The task is over for good. Only its webhooks may still change.
    Closed {
        state: Final,
        text: Option<String>,
    },
    /// A webhook was set or replaced: it is sent what happens from here on.
    HookSet {
        target: Arc<Target>,
    },
    HookDropped {
        id: ConfigId,
    },
    /// A webhook was sent everything up to here, or could not be reached.
    HookMoved {
        id: ConfigId,
        upto: Seq,
        health: Health,
    },
}

/// Preparations of a model request, and records that no dialect but the native one shows.
macro_rules! errands {
    () => {
        Event::AttachmentsWanted
            | Event::Attached { .. }
            | Event::CommandBegan
            | Event::CommandPrompted { .. }
            | Event::Tools(_)
            | Event::Traced { .. }
            | Event::FileChanged(_)
    };
}
pub(crate) use errands;

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

/// Retries, summaries, stopped repetitions, declined wishes and withdrawn permissions.
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
            | Event::Declined { .. }
            | Event::Revoked { .. }
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

impl Event {
    /// The event as every subscriber of the task may see it: without secrets. The list is complete and without groups, so that a new
    /// event that contains a secret is not forgotten.
    pub fn without_secrets(&self) -> Cow<'_, Event> {
        match self {
            Event::HookSet { target } => Cow::Owned(Event::HookSet { target: Arc::new(target.without_secrets()) }),
            Event::Created(_)
            | Event::Prompted { .. }
            | Event::Steered { .. }
            | Event::Dropped { .. }
            | Event::Tuned { .. }
            | Event::ShellBegan { .. }
            | Event::ShellOutput { .. }
            | Event::ShellEnded { .. }
            | Event::TurnBegan { .. }
            | Event::AttachmentsWanted
            | Event::CommandBegan
            | Event::CommandPrompted { .. }
            | Event::Attached { .. }
            | Event::Tools(_)
            | Event::Traced { .. }
            | Event::Thought { .. }
            | Event::Text { .. }
            | Event::Cited { .. }
            | Event::Retracted { .. }
            | Event::BackedOff { .. }
            | Event::Retried
            | Event::FellBack { .. }
            | Event::CompactionBegan
            | Event::Compacted { .. }
            | Event::CompactionFailed { .. }
            | Event::Looped
            | Event::Nudged { .. }
            | Event::Declined { .. }
            | Event::Revoked { .. }
            | Event::Answered { .. }
            | Event::CallPlanned { .. }
            | Event::CallAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallReady { .. }
            | Event::CallStarted { .. }
            | Event::CallOutput { .. }
            | Event::CallEnded { .. }
            | Event::CallStale { .. }
            | Event::FileChanged(_)
            | Event::HookDropped { .. }
            | Event::HookMoved { .. }
            | Event::Paused
            | Event::ResultsSent
            | Event::Produced { .. }
            | Event::TurnEnded { .. }
            | Event::Interrupted { .. }
            | Event::Resumed
            | Event::Closed { .. } => Cow::Borrowed(self),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    pub task: TaskId,
    pub context: ContextId,
    /// The partition it belongs to; others do not see it.
    #[serde(default, skip_serializing_if = "Tenant::is_default")]
    pub tenant: Tenant,
    /// The task that the conversation continues, and the position: the latest one in the same context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(TaskId, Seq)>,
    pub lifecycle: Lifecycle,
    pub protocol: Protocol,
    pub profile: Profile,
    pub workspace: String,
    /// The operator trusts the files of the workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    pub model: String,
    #[serde(default)]
    pub mode: Mode,
    /// The client wants no questions. The operator's settings decide each time whether that is granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_execute: bool,
    /// The only tools that the client wants used. It can only restrict what the operator allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The slash command that the first turn runs instead of asking the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Invocation>,
}

impl Created {
    /// The version and the profile of the client that created it. None: it is the live session, which all clients share; only a
    /// session has the id of its context.
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
    /// It is given to the model with the next results of calls, instead of waiting for the end of the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
}

impl Delivery {
    pub fn is_default(&self) -> bool {
        *self == Delivery::default()
    }
}

/// The tools that a model is told of. Their declarations are stored content: a JSON list of `name`, `description` and `parameters`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSet {
    pub names: Vec<String>,
    pub declarations: BlobRef,
}

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
    /// What Gemini payload is inside the protocol's envelope.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Profile {
        Coder = "coder",
        Devtool = "devtool",
        Plain = "plain",
    }
}

/// An end that the agent itself chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ask(String),
    Auth(String),
    Complete(String),
    Fail(String),
    Reject(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Done,
    /// The prompt had nothing in it for the model.
    Nothing,
    /// The user refused every call of the last answer.
    Refused,
    /// The agent asks the user something.
    Asked(String),
    /// A credential is missing.
    NeedsAuth(String),
    /// The model or the agent failed; the user can go on.
    Failed(String),
    /// Somebody stopped it, or the server was restarted.
    Interrupted(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Final {
    Completed,
    Failed,
    Canceled,
    Rejected,
}

/// Failed tries of one model request: those that failed before anything came, and those whose stream broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    pub failed: u32,
    pub broken: u32,
    /// When the first of them failed, in Unix milliseconds; 0 if none has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
