//! What a task does next. `decide` reads the state and one input and answers with events and effects; it changes nothing,
//! uses no clock and no random numbers, so every interleaving of inputs can be tried (`tests/search.rs` does).
//!
//! An input yields only what it directly causes. What follows from the new state (a queued prompt begins, approved calls
//! start, results go back to the model) is decided by [`Input::Advance`], which the core gives after every input until it
//! yields nothing, so follow-up work is decided in one place.
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

/// How the reason begins for which the model is not asked any more in a task.
pub const REQUESTS_USED_UP: &str = "The task has asked the model";
const NO_AUTO_EXECUTE: &str = "The client asked for tools to run without approval (autoExecute). This server was not started with \
                               --allow-auto-execute, so they need approval as usual.";

#[derive(Clone, Debug)]
pub enum Input {
    Say {
        said: Said,
        by: Source,
    },
    Cancel,
    /// Somebody stops the turn that is under way.
    Abort {
        by: Source,
    },
    /// The client that wanted this turn has gone away.
    Disconnected {
        turn: u32,
    },
    /// Somebody takes a queued prompt back.
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
    /// A client chose the directories beside the workspace that tools may use. It may use them.
    Include {
        directories: Vec<String>,
        by: Source,
    },
    /// Somebody runs a command of their own.
    Shell {
        command: String,
        by: Source,
    },
    /// Somebody takes back what "always" had allowed.
    Revoke {
        rules: Vec<Rule>,
        by: Source,
    },
    /// Files were put back, or the conversation is to be.
    Restore(Restored),
    /// The task cannot run at all, e.g. because its workspace is gone.
    Fail(String),
    /// A worker reports, at this time in Unix milliseconds.
    Note {
        job: Seq,
        body: NoteBody,
        at: u64,
    },
    /// The timer armed for this job is due.
    Due {
        job: Seq,
    },
    /// A webhook was set, deleted or sent something.
    Hook(HookInput),
    /// What was running has ended without a report: the server was restarted, is ending, or takes the task over from another one.
    Restored,
    /// The time in Unix milliseconds: what has lasted too long ends.
    Time(u64),
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

/// Something to be done outside of the core once the events beside it are on disk. A job's number is the sequence number of the event
/// that caused it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start the job that the state waits for by this number: see [`job`].
    Start {
        job: Seq,
        gate: Gate,
    },
    Stop {
        job: Seq,
    },
    Arm {
        job: Seq,
        delay_ms: u64,
    },
    /// Tell a running job what somebody answered to its question.
    Reply {
        job: Seq,
        nr: u32,
        reply: Reply,
    },
    /// Keep a rule beyond this task.
    Save {
        rule: Box<Rule>,
    },
}

/// How safe the log must be before a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It survives the death of the process.
    Written,
    /// It survives the death of the machine: for what cannot be taken back.
    Synced,
}

/// Why an input from a client changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Over,
    NotPending(CallId),
    /// The call was planned again after the client had shown it.
    PlannedAgain(CallId),
    UnknownOption {
        call: CallId,
        offered: Vec<&'static str>,
    },
    /// An answer to a question of a server does not fit; the question stays open.
    WrongAnswer(Wrong),
    QueueFull,
    /// No prompt waits for this turn.
    NotQueued(u32),
    /// The operator has not granted this mode.
    NotGranted(Mode),
    /// A command of a user runs already.
    ShellBusy,
    /// A turn is under way.
    InTurn,
    /// The task has as many webhooks as it may.
    HooksFull,
}

/// What `decide` may know beside the state.
pub struct Rules<'a> {
    pub tools: &'a HashMap<String, ToolSpec>,
    pub limits: &'a Limits,
    pub policy: &'a Policy,
    /// What the operator grants where the task works.
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
        Input::Restored => out.restored(),
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

/// A job that the state waits for, made after the events were applied that caused it.
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
        // The policy is the core's.
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
    /// Adds an event and says which sequence number it will have.
    fn push(&mut self, event: Event) -> Seq {
        self.decision.events.push(event);
        Seq(self.state.seq.0 + self.decision.events.len() as u64)
    }

    fn effect(&mut self, effect: Effect) {
        self.decision.effects.push(effect);
    }

    /// Starts a job that may be lost in a power failure: it waits for the write, not for fsync.
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
        let behind = self.state.queue.len() - 1;
        if let Some(why) = self.requests_used_up() {
            self.end(queued.turn, End::Failed(why), behind);
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
            self.end(queued.turn, End::Nothing, behind);
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

    /// Gives the model the steering prompts together with the results, up to one that names files: they are read before the model
    /// is asked.
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

    /// What is known about the tool of a call: a built-in one, or one of those that the log says the model was told of.
    fn tool<'c>(&'c self, call: &'c CallState) -> ToolFacts<'c> {
        let name = &call.request.name;
        let other = || self.state.other_tools().iter().find(|entry| entry.name == *name);
        match (self.rules.tools.get(name), other) {
            (Some(spec), _) => ToolFacts::of(spec),
            (None, other) => other().map_or(ToolFacts::unknown(name), ToolFacts::other),
        }
    }

    /// The model has answered without a call: the turn is over, in the way the answer says.
    fn finish(&mut self) {
        let verdict = match self.state.history.last().map(Arc::as_ref) {
            Some(Item::Answered(answer)) => answer.verdict.clone(),
            _ => None,
        };
        // The answer is complete: a hook that ends the turn now only outdoes those that want it to go on.
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

    /// What a command hook wants done before the turn ends. A hook that is never content is not heard for ever.
    fn reprompt_of_hook(&self) -> Option<String> {
        let hooks = &self.state.turn.hooks;
        hooks.reprompt.clone().filter(|_| hooks.reprompts < HOOK_REPROMPTS && self.requests_used_up().is_none())
    }

    fn end_turn(&mut self, end: End) {
        self.end(self.state.turn.number, end, self.state.queue.len());
    }

    /// Ends a turn while so many prompts are queued. A one-shot task is over with its last turn.
    fn end(&mut self, turn: u32, end: End, queued: usize) {
        let last = self.state.created.lifecycle == Lifecycle::OneShot && queued == 0;
        let event = match end {
            // An empty message, the first one or after a question: the task stays input-required.
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
