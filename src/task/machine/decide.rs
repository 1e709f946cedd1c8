//! Decides what a task does next. `decide` takes the state and one input and returns events and effects. It changes nothing and uses no
//! clock and no random numbers, so tests can try every order of inputs (`tests/search.rs`).
//!
//! The decision about an input has only its direct consequences. What follows from the new state (a queued prompt begins, approved calls
//! start, results are sent to the model) is decided by [`Input::Advance`], which the core gives after every input until the decision is
//! empty.
//!
//! `clients` has the inputs of clients, `notes` the reports of workers, `command` the tasks that are slash commands, `context` the
//! limits of a conversation, `hooks` the webhooks, `inquiries` the questions of servers, `restart` interrupted turns, `time` the time limits.

mod clients;
mod command;
mod context;
mod hooks;
mod inquiries;
mod notes;
mod restart;
mod time;
mod tool_facts;

use crate::base::id::{CallId, ConfigId, Seq};
use crate::limits::{HOOK_REPROMPTS, Limits};
use crate::task::form::{Inquired, Reply, Wrong};
use crate::task::log::answer::Answer;
use crate::task::log::event::{End, Event, Final, Lifecycle, Outcome, Tries};
use crate::task::log::restored::Restored;
use crate::task::machine::job::{
    Job, JobId, ModelError, ModelErrorKind, NoteBody, Pick, Run, RunEnd, Said, Think, Work,
};
use crate::task::machine::state::{Awaited, CallState, Item, Phase, Stage, State, Step, TaskState};
use crate::task::message::Source;
use crate::task::policy::{self, CallContext, Grant, Mode, Policy, Rule, Ruling};
use crate::task::push::{Health, Hook, Target};
use crate::task::spec::{
    ApprovalScope, CallError, Choice, Confinement, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
pub use time::deadline;
use tool_facts::ToolFacts;

/// The beginning of the message if a task may send no more model requests.
pub const REQUESTS_USED_UP: &str = "The task has asked the model";
const NO_AUTO_EXECUTE: &str = "The client asked for tools to run without approval (autoExecute). This server was not started with \
                               --allow-auto-execute, so they need approval as usual.";

/// An input of the task machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message with a prompt, answers or both.
    Say {
        said: Said,
        by: Source,
    },
    Cancel,
    /// Somebody stops the current turn.
    Abort {
        by: Source,
    },
    /// The client that started this turn has disconnected.
    Disconnected {
        turn: u32,
    },
    /// Somebody withdraws a queued prompt.
    Drop {
        turn: u32,
        by: Source,
    },
    /// Somebody chooses the approval mode or the model.
    Tune {
        mode: Option<Mode>,
        model: Option<String>,
        by: Source,
    },
    /// A client chose the additional directories that tools may use. That the client may use them was checked.
    Include {
        directories: Vec<String>,
        by: Source,
    },
    /// Somebody runs a command of their own.
    Shell {
        command: String,
        by: Source,
    },
    /// Somebody revokes rules that "always" created.
    Revoke {
        rules: Vec<Rule>,
        by: Source,
    },
    /// Files were restored, or the conversation is to be restored.
    Restore(Restored),
    /// The task cannot run, e.g. because its workspace does not exist any more.
    Fail(String),
    /// A worker's report, at this time in Unix milliseconds.
    Note {
        job: Seq,
        body: NoteBody,
        at: u64,
    },
    /// The timer armed for this job is due.
    Due {
        job: Seq,
    },
    /// A webhook was set or deleted, or a delivery has ended.
    Hook(HookInput),
    /// All running jobs have ended without a report, because the server was restarted, is shutting down, or has taken over the task.
    Interrupted,
    /// The present time in Unix milliseconds, to check the time limits.
    Time(u64),
    /// Decide what follows from the state.
    Advance,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookInput {
    Set(Target),
    Drop(ConfigId),
    Moved { id: ConfigId, upto: Seq, health: Health },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
}

impl Decision {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.effects.is_empty()
    }
}

/// Something to be done outside of the state machine, once the events of the same decision are on disk. The number of a job is the sequence
/// number of the event that caused it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start the job with this number, for which the state waits: see [`job`].
    Start {
        job: Seq,
        gate: Gate,
    },
    Stop {
        job: Seq,
    },
    /// Start a timer for the job.
    Arm {
        job: Seq,
        delay_ms: u64,
    },
    /// Send a running job the answer to its question.
    Reply {
        job: Seq,
        nr: u32,
        reply: Reply,
    },
    /// Save a rule for other tasks.
    Save {
        rule: Box<Rule>,
    },
}

/// How durable the log must be before a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It survives the end of the process.
    Written,
    /// It survives a power failure. For jobs whose effects cannot be undone.
    Synced,
}

/// Why an input from a client is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The task has ended.
    Over,
    /// The call does not wait for an answer.
    NotPending(CallId),
    /// The call was planned again after the plan that the client has shown.
    PlannedAgain(CallId),
    UnknownOption {
        call: CallId,
        offered: Vec<&'static str>,
    },
    /// An answer to a question of an MCP server is not valid; the question stays open.
    WrongAnswer(Wrong),
    QueueFull,
    /// No prompt is queued for this turn.
    NotQueued(u32),
    /// The operator has not granted this mode.
    NotGranted(Mode),
    /// A user's own command is already running.
    ShellBusy,
    /// A turn is under way.
    InTurn,
    /// The task has as many webhooks as it may.
    HooksFull,
}

/// The inputs of `decide` that do not depend on the task's log.
pub struct Rules<'a> {
    pub tools: &'a HashMap<String, ToolSpec>,
    pub limits: &'a Limits,
    pub policy: &'a Policy,
    /// What the operator grants in the workspace of the task.
    pub grant: Grant,
}

pub fn decide(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
    let mut out = Deciding { state, rules, decision: Decision::default() };
    match input {
        Input::Say { said, by } => out.say(said, by)?,
        Input::Cancel => out.cancel()?,
        Input::Abort { .. } if state.is_over() => return Err(Refusal::Over),
        Input::Abort { by } => out.abort(Some(by)),
        Input::Disconnected { turn } if turn == state.turn.number => out.abort(None),
        Input::Disconnected { .. } => {}
        Input::Drop { turn, by } => out.drop_prompt(turn, by)?,
        Input::Tune { mode, model, by } => out.tune(mode, model, by)?,
        Input::Include { directories, by } => out.include(directories, by)?,
        Input::Shell { command, by } => out.shell(command, by)?,
        Input::Revoke { .. } if state.is_over() => return Err(Refusal::Over),
        Input::Revoke { rules, by } => out.revoke(rules, by),
        Input::Restore(_) if !matches!(state.phase, Phase::Idle | Phase::Closed) => return Err(Refusal::InTurn),
        Input::Restore(restored) => drop(out.push(Event::Restored(Arc::new(restored)))),
        Input::Fail(text) => {
            if state.is_over() {
                return Err(Refusal::Over);
            }
            out.stop_everything("The task cannot go on.");
            out.push(Event::Closed { state: Final::Failed, text: Some(text) });
        }
        Input::Note { job, body, at } => out.note(job, body, at),
        Input::Due { job } => out.due(job),
        Input::Hook(input) => out.hook(input)?,
        Input::Interrupted => out.jobs_interrupted(),
        Input::Time(unix_ms) => out.time(unix_ms),
        Input::Advance => out.advance(),
    }
    if let Some(shell) = &state.shell
        && out.decision.events.iter().any(|event| matches!(event, Event::Closed { .. }))
    {
        out.effect(Effect::Stop { job: shell.job });
    }
    Ok(out.decision)
}

/// The job with this number, if the state waits for it. Called after the events that caused the job were applied.
pub fn job(state: &State, at: Seq, limits: &Limits) -> Option<Job> {
    let blob_room = limits.task_blob_bytes.saturating_sub(state.blobs.values().sum());
    let workspace = state.workspace.clone();
    let work = match state.awaited(at)? {
        Awaited::Step(Step::Think) => Work::Think(think(state, limits, blob_room)),
        Awaited::Step(Step::Compact) => Work::Compact(think(state, limits, blob_room)),
        Awaited::Step(Step::Attach) => {
            let prompt = state.turn.prompt.clone()?;
            Work::Attach { workspace, prompt, blob_room }
        }
        Awaited::Step(Step::Command) => Work::Command(command::of(state)?),
        Awaited::Step(Step::Prepare) => {
            let calls = state.calls.iter().map(|call| call.request.clone()).take(limits.calls).collect();
            Work::Prepare { workspace, calls, blob_room }
        }
        Awaited::Shell(shell) => Work::Run(Run::shell(workspace, shell, blob_room)),
        Awaited::Plan(call) => Work::Prepare { workspace, calls: vec![call.request.clone()], blob_room },
        Awaited::Run(call) => Work::Run(Run {
            workspace,
            call: call.id().clone(),
            name: call.request.name.clone(),
            args: call.request.args.clone(),
            base: call.plan.as_ref().and_then(|plan| plan.base.clone()),
            after_earlier_edits: state.file_after_earlier_edits(call),
            edited: call.edited.clone(),
            answers: call.answers.clone(),
            confinement: call.confinement.clone(),
            blob_room,
        }),
    };
    let parent = state.created.parent.as_ref().map(|(task, _)| task.clone());
    let id = JobId { task: state.created.task.clone(), at };
    let (created, directories) = (state.created.clone(), state.directories.clone());
    let (skills, threads) = (state.skills.clone(), state.threads.clone());
    Some(Job { id, parent, created, skills, directories, threads, work })
}

fn think(state: &State, limits: &Limits, blob_room: u64) -> Think {
    let prompt = state.turn.prompt.as_ref().expect("a turn has a prompt");
    let summary = state.summary.as_ref();
    let mut history: Vec<_> =
        summary.map(|summary| Arc::new(Item::Summary(summary.text.clone()))).into_iter().collect();
    history.extend(state.shown_history(summary.map_or(0, |summary| summary.items)));
    Think {
        workspace: state.workspace.clone(),
        model: state.requested_model.clone(),
        mode: state.mode,
        tools: state.created.tools.clone(),
        // The core sets it, because it has the policy.
        forbidden: Vec::new(),
        declared: state.tools.clone(),
        skills: state.skills.clone(),
        servers: state.servers.clone(),
        directories: state.directories.clone(),
        history,
        given: state.summary.iter().count(),
        compact_at: state.may_compact(limits).then_some(match state.requests {
            // The API has counted nothing yet.
            1 => limits.compress_tokens,
            _ => u64::MAX,
        }),
        prompt: prompt.clone(),
        turn: state.turn.number,
        round: state.turn.round,
        attempt: state.turn.tries.failed + state.turn.tries.broken + 1,
        compress: state.turn.compress,
        hooks_pending: state.turn.round == 0 && !state.turn.hooks.began,
        reprompts: state.turn.hooks.reprompts,
        blob_room,
    }
}

struct Deciding<'a> {
    state: &'a State,
    rules: &'a Rules<'a>,
    decision: Decision,
}

impl Deciding<'_> {
    /// Adds an event and returns its sequence number.
    fn push(&mut self, event: Event) -> Seq {
        self.decision.events.push(event);
        Seq(self.state.seq.0 + self.decision.events.len() as u64)
    }

    fn effect(&mut self, effect: Effect) {
        self.decision.effects.push(effect);
    }

    /// Starts a job that waits only until its events are written, not for fsync, because a power failure may lose it.
    fn start(&mut self, job: Seq) {
        self.effect(Effect::Start { job, gate: Gate::Written });
    }

    fn advance(&mut self) {
        if self.state.suspended {
            return;
        }
        match self.state.phase {
            Phase::Idle => self.next_prompt(),
            Phase::Tools => self.next_calls(),
            Phase::Working { .. } | Phase::Backoff { .. } | Phase::Closed => {}
        }
    }

    fn next_prompt(&mut self) {
        let Some(queued) = self.state.queue.front() else {
            return;
        };
        let queued_after = self.state.queue.len() - 1;
        if let Some(why) = self.requests_used_up() {
            self.end(queued.turn, End::Failed(why), queued_after);
        } else if queued.message.has_prompt() {
            let job = self.push(Event::TurnBegan { turn: queued.turn });
            if self.state.created.auto_execute && !self.rules.grant.auto_execute && queued.turn == 1 {
                self.push(Event::Declined { text: NO_AUTO_EXECUTE.into() });
            }
            if self.is_command(queued) {
                self.begin_command();
            } else if queued.compress {
                self.begin_compaction();
            } else if queued.message.text().contains('@') {
                self.read_attachments();
            } else {
                self.ask_model(job);
            }
        } else {
            self.end(queued.turn, End::Nothing, queued_after);
        }
    }

    fn next_calls(&mut self) {
        let calls = &self.state.calls;
        if calls.is_empty() {
            return self.finish();
        }
        if let Some(parts) = &self.state.turn.expansion
            && self.end_expansion(parts)
        {
            return;
        }
        if calls.iter().all(CallState::is_over) {
            let refused = calls.iter().all(|call| call.choice == Some(Choice::Cancel));
            if refused {
                return self.end_turn(End::Refused);
            }
            if let Some(why) = self.stopped_by_hook().or_else(|| self.requests_used_up()) {
                return self.end_turn(End::Failed(why));
            }
            let job = self.push(Event::ResultsSent);
            return self.steer(job);
        }
        let mut editing = calls.iter().any(|call| {
            matches!(call.stage, Stage::Running { .. } | Stage::Inquired { .. }) && self.tool(call).kind == Kind::Edit
        });
        for call in calls.iter().filter(|call| call.stage == Stage::Ready && !self.state.waits_for_earlier_calls(call))
        {
            let ToolFacts { kind, .. } = self.tool(call);
            // Edits run one after the other: two paths may lead to the same file.
            if kind == Kind::Edit && std::mem::replace(&mut editing, true) {
                continue;
            }
            let gate = if self.tool(call).mutates() { Gate::Synced } else { Gate::Written };
            let job = self.push(Event::CallStarted { call: call.id().clone() });
            self.effect(Effect::Start { job, gate });
        }
        if self.state.waits_for_answers() && !self.state.paused {
            self.push(Event::Paused);
        }
    }

    /// Sends the steering prompts to the model together with the results, up to the first one that refers to files: the files are read
    /// before the model is asked.
    fn steer(&mut self, job: Seq) {
        for queued in self.state.queue.iter().filter(|queued| queued.steer) {
            self.push(Event::Steered { turn: queued.turn });
            if queued.message.text().contains('@') {
                return self.read_attachments();
            }
        }
        self.ask_model(job);
    }

    fn read_attachments(&mut self) {
        let job = self.push(Event::AttachmentsWanted);
        self.start(job);
    }

    /// The properties of a call's tool: a built-in tool, or another tool that the log says was declared to the model.
    fn tool<'c>(&'c self, call: &'c CallState) -> ToolFacts<'c> {
        let name = &call.request.name;
        let other = || self.state.other_tools().iter().find(|entry| entry.name == *name);
        match (self.rules.tools.get(name), other) {
            (Some(spec), _) => ToolFacts::of(spec),
            (None, other) => other().map_or(ToolFacts::unknown(name), ToolFacts::other),
        }
    }

    /// The model has answered without a call: the turn ends, as the answer says.
    fn finish(&mut self) {
        let verdict = match self.state.history.last().map(Arc::as_ref) {
            Some(Item::Answered(answer)) => answer.verdict.clone(),
            _ => None,
        };
        // A hook that ends the turn has priority over hooks that continue it.
        let reprompt = self.reprompt_of_hook().filter(|_| verdict.is_none() && self.stopped_by_hook().is_none());
        if let Some(text) = reprompt {
            let job = self.push(Event::Reprompted { text });
            return self.ask_model(job);
        }
        let close = |state, text: String| Event::Closed { state, text: Some(text).filter(|text| !text.is_empty()) };
        match verdict {
            None => self.end_turn(End::Done),
            Some(Outcome::Ask(text)) => self.end_turn(End::Asked(text)),
            Some(Outcome::Auth(text)) => self.end_turn(End::NeedsAuth(text)),
            Some(Outcome::Complete(text)) => drop(self.push(close(Final::Completed, text))),
            Some(Outcome::Fail(text)) => drop(self.push(close(Final::Failed, text))),
            Some(Outcome::Reject(text)) => drop(self.push(close(Final::Rejected, text))),
        }
    }

    /// Why a command hook ends the turn.
    fn stopped_by_hook(&self) -> Option<String> {
        let reason = self.state.turn.hooks.stop.as_ref()?;
        Some(format!("A hook ended the turn: {reason}"))
    }

    /// The prompt with which command hooks continue the turn, unless they have done so too often.
    fn reprompt_of_hook(&self) -> Option<String> {
        let hooks = &self.state.turn.hooks;
        hooks.reprompt.clone().filter(|_| hooks.reprompts < HOOK_REPROMPTS && self.requests_used_up().is_none())
    }

    fn end_turn(&mut self, end: End) {
        self.end(self.state.turn.number, end, self.state.queue.len());
    }

    /// Ends a turn. A one-shot task is closed if no prompt is queued.
    fn end(&mut self, turn: u32, end: End, queued: usize) {
        let last = self.state.created.lifecycle == Lifecycle::OneShot && queued == 0;
        let event = match end {
            // The prompt was empty and was the first one or came after a question: the task stays input-required.
            End::Nothing if self.state.turn.number == 0 || self.state.questioned => {
                Event::TurnEnded { turn, end, by: None }
            }
            End::Done | End::Nothing | End::Refused if last => Event::Closed { state: Final::Completed, text: None },
            End::Failed(text) if last => Event::Closed { state: Final::Failed, text: Some(text) },
            end => Event::TurnEnded { turn, end, by: None },
        };
        self.push(event);
    }

    fn end_call(&mut self, call: CallId, ending: Ending) {
        self.push(Event::CallEnded { call, ending: Arc::new(ending) });
    }
}
