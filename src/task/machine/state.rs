//! The state of a task: the fold of its events. Views encode an event together with the state after it, so the state has everything that a
//! dialect needs to show a whole call (arguments, question, result).
//!
//! Whether the task waits for answers is derived from the calls ([`State::waits_for_answers`]). The last announced `status` is stored too,
//! because clients of version 0.3 are shown exactly that one.

use crate::base::id::{CallId, MessageId, Seq};
use crate::base::text::words::words;
use crate::limits::Limits;
use crate::task::definitions::agent::AgentThread;
use crate::task::definitions::skill::ActiveSkill;
use crate::task::definitions::slash::PromptPart;
use crate::task::log::answer::Usage;
use crate::task::log::blob::Blobs;
use crate::task::log::event::{Created, Final, Lifecycle, ToolSet, Tries};
use crate::task::log::long_text::LongText;
use crate::task::log::ownership::Ownership;
use crate::task::log::server::ServerSeen;
pub use crate::task::machine::call_state::{CallState, Live, Stage};
pub use crate::task::machine::item::{CallResult, Item};
pub use crate::task::machine::rewind::Hidden;
use crate::task::message::{Artifact, Message};
use crate::task::policy::{Mode, Rule};
use crate::task::push::Hook;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

words! {
    /// The states of the protocol, with the words of A2A 0.3. [`TaskState::may_become`] has the transitions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TaskState {
        Submitted = "submitted",
        Working = "working",
        InputRequired = "input-required",
        AuthRequired = "auth-required",
        Completed = "completed",
        Failed = "failed",
        Canceled = "canceled",
        Rejected = "rejected",
    }
}

impl TaskState {
    pub fn is_terminal(self) -> bool {
        match self {
            TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => true,
            TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => false,
        }
    }

    /// The table of legal transitions. Staying in a state is not a transition: text and tool events repeat the state.
    pub fn may_become(self, next: TaskState) -> bool {
        use TaskState::*;
        match self {
            // Directly to input-required: the first message contained nothing for the model.
            Submitted => matches!(next, Working | InputRequired | Failed | Canceled | Rejected),
            Working => matches!(next, InputRequired | AuthRequired | Completed | Failed | Canceled | Rejected),
            InputRequired => matches!(next, Working | Completed | Failed | Canceled),
            AuthRequired => matches!(next, Working | InputRequired | Failed | Canceled),
            Completed | Failed | Canceled | Rejected => false,
        }
    }
}

impl From<Final> for TaskState {
    fn from(state: Final) -> TaskState {
        match state {
            Final::Completed => TaskState::Completed,
            Final::Failed => TaskState::Failed,
            Final::Canceled => TaskState::Canceled,
            Final::Rejected => TaskState::Rejected,
        }
    }
}

/// The last announced status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: TaskState,
    /// Unix milliseconds, strictly increasing from one status to the next.
    pub at: u64,
    /// An explanation, e.g. why a turn failed.
    pub text: Option<String>,
    /// The event that announced it.
    pub seq: Seq,
}

/// The phase of the current turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Between turns.
    Idle,
    /// A worker does this step.
    Working { job: Seq, step: Step },
    /// The last model request failed; a timer starts the next one.
    Backoff { job: Seq, delay_ms: u64, reason: Arc<str> },
    /// Calls wait, run or have ended; see `State::calls`.
    Tools,
    /// The task is over.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A model request.
    Think,
    /// The files that the prompt refers to are read; the model is asked afterwards.
    Attach,
    /// The command that the task is for is run.
    Command,
    /// The conversation is summarised; the model is asked afterwards.
    Compact,
    /// The calls of the last answer are prepared.
    Prepare,
}

/// A job that the state waits for.
pub enum Awaited<'a> {
    Step(Step),
    /// Another plan for a call whose file has changed.
    Plan(&'a CallState),
    Run(&'a CallState),
    /// The result of a user's own command.
    Shell(&'a ShellRun),
}

/// The model's summary of the older part of the conversation. Clients still see all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub text: Arc<str>,
    /// The number of entries of the history that it replaces, from the first on. It also replaces the conversation that the task continues.
    pub items: usize,
}

/// A user's own command that runs; `job` is the sequence number of its `ShellBegan`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShellRun {
    pub job: Seq,
    pub command: String,
}

/// A prompt that waits for its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    pub turn: u32,
    pub message: Arc<Message>,
    /// It is sent to the model with the next results, if the current turn still gets any.
    pub steer: bool,
    /// It requests a summary of the conversation instead of an answer.
    pub compress: bool,
    /// The credential that it was sent with.
    pub credential: Option<Arc<str>>,
}

/// The text of the answer that the model is sending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Utterance {
    /// Sequence number of its first `Text`.
    pub since: Option<Seq>,
    pub text: String,
    /// The number of markers that open or close a code block. If it is odd, the text ends in a code block.
    pub fences: usize,
}

/// The effects of command hooks on a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnHooks {
    /// The hooks before the turn have run.
    pub began: bool,
    /// The reason with which a hook ends the turn.
    pub stop: Option<String>,
    /// The prompt with which hooks continue the turn.
    pub reprompt: Option<String>,
    /// How often hooks have continued the turn.
    pub reprompts: u32,
    /// The conversation is hidden from the model after the turn.
    pub clears_context: bool,
}

/// The part of the state that is reset at the beginning of each turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// 0 before the first.
    pub number: u32,
    /// When it began, in Unix milliseconds.
    pub began_at: u64,
    /// The prompt of the turn, and the credential that it was sent with.
    pub prompt: Option<Arc<Message>>,
    pub credential: Option<Arc<str>>,
    /// The number of answers of the model.
    pub round: u32,
    /// The failed attempts of the current model request.
    pub tries: Tries,
    /// The number of answers that have text.
    pub answers_with_text: usize,
    /// The token counts of the last answer, which are shown at the end of the turn.
    pub usage: Option<Usage>,
    pub trace: Option<String>,
    /// Models that were unavailable.
    pub tried: Vec<String>,
    /// The checksums of the calls of each answer with calls, to detect repetitions.
    pub call_checksums: Vec<u32>,
    /// How often the model has repeated itself.
    pub repetitions: u32,
    /// The turn only makes a summary of the conversation.
    pub compress: bool,
    /// The round before which the conversation was last summarised.
    pub compacted: Option<u32>,
    /// The prompt of its slash command, while the calls that it contains have not all ended.
    pub expansion: Option<Arc<[PromptPart]>>,
    /// The effects of command hooks.
    pub hooks: TurnHooks,
    /// Why the turn failed.
    pub error: Option<String>,
    /// Somebody stopped the turn, or the server was restarted.
    pub interrupted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub created: Arc<Created>,
    /// The last event applied.
    pub seq: Seq,
    /// The time of that event.
    pub at: u64,
    pub status: Status,
    /// The state that clients of version 0.3 are shown. It differs from `status` after an answer, which makes the task work again, until the
    /// next event that announces a status.
    pub announced: TaskState,
    pub phase: Phase,
    /// The current turn, or the last one when idle.
    pub turn: Turn,
    pub queue: VecDeque<Queued>,
    /// The turn of the last prompt.
    pub last_turn: u32,
    /// The newest keys of prompts, with their clients.
    pub keys: VecDeque<(String, String)>,
    pub calls: Vec<CallState>,
    /// It was announced that the task waits for answers.
    pub paused: bool,
    /// The server was restarted during a turn: nothing starts until the user sends a message.
    pub suspended: bool,
    /// The last turn waits for the user: the agent asked a question, or was interrupted.
    pub questioned: bool,
    pub utterance: Utterance,
    /// The model's thoughts since its last request, a line each.
    pub thoughts: Vec<String>,
    pub history: Vec<Arc<Item>>,
    /// The summary that the model gets in place of the older part of the history.
    pub summary: Option<Summary>,
    /// The entries of the history that are hidden from the model.
    pub hidden: Vec<Hidden>,
    pub artifacts: Vec<Artifact>,
    /// The approval mode.
    pub mode: Mode,
    /// The rules that the user's "always" answers have created.
    pub always: Vec<Rule>,
    /// The skills that were activated.
    pub skills: Arc<Vec<ActiveSkill>>,
    pub threads: Arc<Vec<AgentThread>>,
    /// Which instance owns the task, if several instances share the store.
    pub ownership: Ownership,
    /// The user's own command that runs.
    pub shell: Option<ShellRun>,
    /// Notes about such commands, and about restores, that the model gets before the next prompt.
    pub shell_results: Vec<Arc<Item>>,
    /// Token counts of all answers.
    pub total: Usage,
    /// The length of the conversation as the model last counted it; 0 after a summary.
    pub context_tokens: u64,
    /// The tools that were declared to the model last.
    pub tools: Option<Arc<ToolSet>>,
    /// The MCP servers, by name.
    pub servers: Arc<Vec<ServerSeen>>,
    /// The model of the next request: the chosen one, or the one that replaces it because it was unavailable.
    pub requested_model: Arc<str>,
    /// The number of model requests of the task.
    pub requests: u32,
    /// A summary failed, and none is tried again.
    pub incompressible: bool,
    /// The model that has answered last, if the API names it.
    pub model: Arc<str>,
    pub workspace: Arc<str>,
    /// The additional directories that a client has chosen.
    pub directories: Arc<Vec<String>>,
    /// The webhooks.
    pub hooks: Vec<Hook>,
    /// The hashes and the lengths of the stored content to which the log refers.
    pub blobs: BTreeMap<String, u64>,
    /// The length of the texts and files of messages that are stored beside the log.
    pub message_bytes: u64,
}

impl State {
    /// The length of the texts of the current calls and of the content of messages that are stored beside the log, as base64 in JSON.
    pub fn stored_bytes(&self) -> u64 {
        let texts = self.calls.iter().flat_map(CallState::texts);
        let texts: u64 = texts.filter(|text| text.blob().is_some()).map(LongText::bytes).sum();
        texts + self.message_bytes / 3 * 4
    }

    /// Whether the conversation may be summarised before the next request: not if that has failed or has just been done.
    pub fn may_compact(&self, limits: &Limits) -> bool {
        limits.compress_tokens > 0 && !self.incompressible && self.turn.compacted != Some(self.turn.round)
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether only the instance that owns the task can continue it: a turn or a command is running there, possibly in the background, or the
    /// instance has the connections to MCP servers that the client named. A turn that waits for an answer does not count.
    pub fn is_at_work(&self) -> bool {
        if self.is_over() || self.ownership.is_deleted {
            return false;
        }
        let rests = self.is_idle() || self.waits_for_answers() || self.suspended;
        self.shell.is_some() || self.ownership.has_background || !self.created.servers.is_empty() || !rests
    }

    /// Idle: the last turn is over and nothing is queued.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.queue.is_empty()
    }

    /// How the last turn ended: completed or failed. None: it is running, or ended with a question or an interruption.
    pub fn outcome(&self) -> Option<TaskState> {
        let outcome = if self.turn.error.is_some() { TaskState::Failed } else { TaskState::Completed };
        (self.phase == Phase::Idle && !self.questioned).then_some(outcome)
    }

    /// Whether the next queued prompt begins by itself after the end of a turn of a one-shot task, which is closed after the last prompt.
    pub fn continues_with_queue(&self) -> bool {
        self.created.lifecycle == Lifecycle::OneShot && self.phase == Phase::Idle && !self.queue.is_empty()
    }

    /// Whether a queued prompt is about to begin. Until then, the status is that of the turn before it.
    pub fn is_prompted(&self) -> bool {
        self.phase == Phase::Idle && !self.suspended && !self.queue.is_empty()
    }

    pub fn call(&self, id: &CallId) -> Option<&CallState> {
        self.calls.iter().find(|call| call.id() == id)
    }

    /// What the job is for, if the state waits for it.
    pub fn awaited(&self, job: Seq) -> Option<Awaited<'_>> {
        match self.phase {
            Phase::Working { job: at, step } if at == job => return Some(Awaited::Step(step)),
            Phase::Working { .. } | Phase::Idle | Phase::Backoff { .. } | Phase::Tools | Phase::Closed => {}
        }
        if let Some(shell) = self.shell.as_ref().filter(|shell| shell.job == job) {
            return Some(Awaited::Shell(shell));
        }
        self.calls.iter().find_map(|call| match call.stage {
            Stage::Running { job: at } | Stage::Inquired { job: at } => (at == job).then_some(Awaited::Run(call)),
            Stage::Replanning { job: at } => (at == job).then_some(Awaited::Plan(call)),
            Stage::Named | Stage::Planned | Stage::Asked | Stage::Answered | Stage::Ready | Stage::Ended => None,
        })
    }

    /// The calls that wait for somebody's answer.
    pub fn asked(&self) -> impl Iterator<Item = &CallState> {
        self.calls.iter().filter(|call| matches!(call.stage, Stage::Asked | Stage::Inquired { .. }))
    }

    /// Whether nothing can continue until somebody answers: some calls wait for an answer, and all others have ended or wait for these.
    pub fn waits_for_answers(&self) -> bool {
        let waits = |call: &CallState| match call.stage {
            Stage::Asked | Stage::Inquired { .. } | Stage::Ended => true,
            Stage::Ready => self.waits_for_earlier_calls(call),
            Stage::Named | Stage::Planned | Stage::Answered | Stage::Running { .. } | Stage::Replanning { .. } => false,
        };
        self.phase == Phase::Tools && self.asked().next().is_some() && self.calls.iter().all(waits)
    }

    /// Drops the conversation, to save memory while a log is read only for its events. Views of events need no more than the current turn,
    /// but the task as a whole can be neither shown nor continued.
    pub fn forget_past(&mut self) {
        self.history.clear();
        self.hidden.clear();
        self.artifacts.clear();
        self.turn.prompt = None;
        // Views that show the text in pieces need its last character, which they hold back, and the one before, which shows that there was text.
        let last = self.utterance.text.char_indices().nth_back(1).map_or(0, |(at, _)| at);
        self.utterance.text.drain(..last);
    }

    /// Loads the stored texts that views show: those of the current calls. The texts of ended calls stay unloaded.
    pub fn load_texts(&mut self, blobs: &dyn Blobs) -> io::Result<()> {
        let is_missing = |text: &LongText| text.missing().is_some();
        self.texts_mut(is_missing).try_for_each(|text| text.load(blobs))
    }

    /// Loads the stored content of messages, which clients see with the task.
    pub fn load_messages(&mut self, blobs: &dyn Blobs) -> io::Result<()> {
        let is_missing = |message: &Message| message.is_missing();
        let queued = self.queue.iter_mut().map(|queued| &mut queued.message);
        let said = self.history.iter_mut().filter_map(|item| match item.as_ref() {
            Item::Said(message) | Item::Steered(message) | Item::Dropped(message) if is_missing(message) => {
                match Arc::make_mut(item) {
                    Item::Said(message) | Item::Steered(message) | Item::Dropped(message) => Some(message),
                    _ => None,
                }
            }
            _ => None,
        });
        for message in queued.filter(|message| is_missing(message)).chain(said) {
            Arc::make_mut(message).load(blobs, &mut u64::MAX.clone())?;
        }
        Ok(())
    }

    /// Drops the stored texts from memory.
    pub fn unload_texts(&mut self) {
        let is_loaded = |text: &LongText| text.blob().is_some() && text.missing().is_none();
        self.texts_mut(is_loaded).for_each(LongText::unload);
    }

    /// The texts of the current calls, for changes. Only plans and results of calls with a `wanted` text are copied.
    fn texts_mut(&mut self, wanted: impl Fn(&LongText) -> bool + Copy) -> impl Iterator<Item = &mut LongText> {
        let calls = self.calls.iter_mut().filter(move |call| call.texts().any(wanted));
        calls.flat_map(|call| {
            let plan = call.plan.iter_mut().flat_map(|plan| Arc::make_mut(plan).texts_mut());
            let ending = call.ending.iter_mut().flat_map(|ending| Arc::make_mut(ending).texts_mut());
            plan.chain(ending)
        })
    }

    /// The id of the message that an event at `seq` is sent in.
    pub fn message_id(&self, seq: Seq) -> MessageId {
        format!("{}-{}", self.created.task, seq).into()
    }
}

#[cfg(test)]
mod tests;
