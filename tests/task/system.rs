//! The small world around one task that the search explores, and the promises it holds the machine to.
//!
//! The world is as hostile as the real one may be and no more. A step gives one input to the machine, then `Advance` until
//! nothing follows, then performs the effects, as the core does. After a crash nobody is left to report but late, under old
//! ids. What was promised is kept in [`Observations`], apart from the machine's own state: a machine cannot vouch for itself.

#[path = "../support/event.rs"]
mod event;

use crate::task;
use event::is_of_hooks;
use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Decision, Effect, Gate, HookInput, Input, Refusal, Rules, job};
use gemini_a2a::task::machine::job::{ModelErrorKind, NoteBody, Pick, RunEnd, Said};
use gemini_a2a::task::machine::state::{Item, Phase, Stage, State, TaskState};
use gemini_a2a::task::policy::{Grant, Policy};
use gemini_a2a::task::push::Due;
use gemini_a2a::task::spec::{Choice, Ending, ToolSpec};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

pub type Machine = fn(&State, Input, &Rules<'_>) -> Result<Decision, Refusal>;

#[derive(Clone, Copy, Debug)]
pub enum Action {
    Prompt,
    Pick {
        who: usize,
        call: usize,
        choice: Choice,
    },
    Cancel,
    /// The client of the present turn goes away.
    Abort,
    Due(Seq),
    Report(Seq, Report),
    /// Somebody sets a webhook.
    Hook,
    /// The webhook's receiver took what was due first.
    Deliver,
    /// Much later: what has a time limit has lasted too long.
    Late,
    Crash,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Prompt => f.write_str("prompt"),
            Action::Pick { who, call, choice } => {
                let (who, call) = (["ann", "bob"][*who], ["edit", "command"][*call]);
                write!(f, "{who} says {} to the {call}", choice.word())
            }
            Action::Cancel => f.write_str("cancel"),
            Action::Abort => f.write_str("the client goes away"),
            Action::Due(job) => write!(f, "timer {job} is due"),
            Action::Report(job, report) => write!(f, "job {job} reports {report:?}"),
            Action::Hook => f.write_str("set a webhook"),
            Action::Deliver => f.write_str("deliver"),
            Action::Late => f.write_str("it is late"),
            Action::Crash => f.write_str("crash"),
        }
    }
}

/// What a worker reports.
#[derive(Clone, Copy, Debug)]
pub enum Report {
    Text,
    Answer,
    Busy,
    Violation,
    Prepared,
    Ran,
    Stale,
    Commanded,
    /// A command that leaves the rest to the model.
    Prompts,
    Refused,
    Died,
}

/// How often the world may still be unkind.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Budget {
    pub prompts: u8,
    pub cancels: u8,
    pub crashes: u8,
    pub stales: u8,
    pub faults: u8,
    /// How often somebody may say "always".
    pub always: u8,
    /// How often somebody may set the webhook.
    pub hooks: u8,
    /// How often the client that began a turn may go away.
    pub aborts: u8,
    /// How often it may be late.
    pub lates: u8,
}

#[derive(Clone)]
pub struct SystemState {
    pub state: State,
    pub workers: Vec<Worker>,
    pub timers: Vec<Seq>,
    pub observations: Observations,
    pub budget: Budget,
}

#[derive(Clone)]
pub struct Worker {
    pub job: Seq,
    pub work: Work,
    /// Stopped, or left over from before a crash: it may report, and nothing may come of it.
    pub late: bool,
}

#[derive(Clone, Debug, Hash)]
pub enum Work {
    /// The first request of the first turn is answered with the two calls, every other one with words.
    Think {
        calls: bool,
    },
    Prepare(Vec<CallId>),
    Run(CallId),
    Command,
}

/// What the log and the world have seen so far of each call, kept apart from the machine's own state.
#[derive(Clone, Debug, Default, Hash)]
pub struct Observations {
    pub calls: [CallObservations; 2],
    pub closed: bool,
    /// How often the task's command began, and was run.
    pub begun: u8,
    pub commands: u8,
    /// Rules that somebody wants kept and that were not handed out yet.
    pub to_save: u8,
    /// The state that the webhook's receiver believes the task to be in.
    pub told: Option<TaskState>,
}

#[derive(Clone, Debug, Default, Hash)]
pub struct CallObservations {
    pub asks: u8,
    pub answers: u8,
    /// A yes that was not used up by a start yet.
    pub granted: bool,
    pub starts: u8,
    pub runs: u8,
    pub ended: bool,
    /// Up to which question each of the two people has answered.
    pub picked: [u8; 2],
}

fn calls() -> [Request; 2] {
    [task::edit(), task::shell()]
}

fn index(call: &CallId) -> usize {
    match call.as_str() {
        "write_file__e" => 0,
        "run_shell_command__s" => 1,
        other => panic!("the model of this world does not call {other}"),
    }
}

/// Fixed surroundings.
pub struct Environment {
    pub machine: Machine,
    pub tools: HashMap<String, ToolSpec>,
    pub limits: Limits,
    pub policy: Policy,
    pub grant: Grant,
}

impl Environment {
    fn ask(&self, state: &State, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules { tools: &self.tools, limits: &self.limits, policy: &self.policy, grant: self.grant };
        (self.machine)(state, input, &rules)
    }
}

impl SystemState {
    /// Everything that may happen next.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.budget.crashes > 0 && !self.observations.closed {
            actions.push(Action::Crash);
        }
        if self.budget.prompts > 0 && !self.observations.closed {
            actions.push(Action::Prompt);
        }
        for (call, observations) in self.observations.calls.iter().enumerate() {
            for who in 0..2 {
                if observations.picked[who] < observations.asks {
                    for choice in Choice::ALL {
                        let lasts = !matches!(choice, Choice::ProceedOnce | Choice::Cancel);
                        if !lasts || self.budget.always > 0 {
                            actions.push(Action::Pick { who, call, choice });
                        }
                    }
                }
            }
        }
        if self.budget.cancels > 0 {
            actions.push(Action::Cancel);
        }
        if self.budget.hooks > 0 {
            actions.push(Action::Hook);
        }
        if self.state.hooks.iter().any(|hook| !hook.due.is_empty()) {
            actions.push(Action::Deliver);
        }
        if self.budget.aborts > 0 {
            actions.push(Action::Abort);
        }
        if self.budget.lates > 0 {
            actions.push(Action::Late);
        }
        actions.extend(self.timers.iter().copied().map(Action::Due));
        for worker in &self.workers {
            let reports = self.reports(worker);
            actions.extend(reports.into_iter().map(|report| Action::Report(worker.job, report)));
        }
        actions
    }

    fn reports(&self, worker: &Worker) -> Vec<Report> {
        let usual = match worker.work {
            Work::Think { .. } => Report::Answer,
            Work::Prepare(_) => Report::Prepared,
            Work::Run(_) => Report::Ran,
            Work::Command => Report::Commanded,
        };
        let mut reports = vec![usual];
        if worker.late {
            return reports;
        }
        if matches!(worker.work, Work::Command) {
            reports.push(Report::Prompts);
        }
        if self.budget.faults > 0 {
            match worker.work {
                Work::Think { .. } => {
                    reports.extend([Report::Busy, Report::Violation, Report::Died]);
                    if self.state.utterance.since.is_none() {
                        reports.push(Report::Text);
                    }
                }
                Work::Command => reports.extend([Report::Refused, Report::Died]),
                Work::Prepare(_) | Work::Run(_) => reports.push(Report::Died),
            }
        }
        let edits = matches!(&worker.work, Work::Run(call) if index(call) == 0);
        if edits && self.budget.stales > 0 {
            reports.push(Report::Stale);
        }
        reports
    }

    /// The input an act gives to the machine; what it costs the world is paid here.
    pub fn input(&mut self, action: Action) -> Input {
        match action {
            Action::Prompt => {
                self.budget.prompts -= 1;
                task::say("and then?")
            }
            Action::Pick { who, call, choice } => {
                let observations = &mut self.observations.calls[call];
                observations.picked[who] = observations.asks;
                if !matches!(choice, Choice::ProceedOnce | Choice::Cancel) {
                    self.budget.always -= 1;
                }
                Input::Say {
                    said: Said {
                        message: task::message(""),
                        answers: vec![Pick {
                            call: calls()[call].call.clone(),
                            option: choice.word().into(),
                            edited: None,
                            answers: None,
                        }],
                    },
                    by: [task::ann(), task::bob()][who].clone(),
                }
            }
            Action::Cancel => {
                self.budget.cancels -= 1;
                Input::Cancel
            }
            Action::Abort => {
                self.budget.aborts -= 1;
                Input::Abort { turn: self.state.turn }
            }
            Action::Due(job) => {
                self.timers.retain(|timer| *timer != job);
                Input::Due { job }
            }
            Action::Report(job, report) => {
                let body = self.report(job, report);
                Input::Note { job, body }
            }
            Action::Hook => {
                self.budget.hooks -= 1;
                self.observations.told.get_or_insert(self.state.status.state);
                Input::Hook(HookInput::Set(task::target("h")))
            }
            Action::Deliver => {
                let hook = &self.state.hooks[0];
                let due = hook.due.front().expect("something is due");
                if let Due::Status { status, .. } = due {
                    self.observations.told = Some(status.state);
                }
                Input::Hook(HookInput::Moved {
                    id: hook.target.id.clone(),
                    upto: due.seq(),
                    health: hook.health.after_success(),
                })
            }
            Action::Late => {
                self.budget.lates -= 1;
                Input::Time(task::NOON + 1_000_000)
            }
            Action::Crash => {
                self.die();
                Input::Restored
            }
        }
    }

    fn report(&mut self, job: Seq, report: Report) -> NoteBody {
        let at = self.workers.iter().position(|worker| worker.job == job);
        let at = at.expect("only workers report");
        let work = self.workers[at].work.clone();
        let body = match (report, work) {
            (Report::Text, _) => NoteBody::Text("Let me see".into()),
            (Report::Answer, Work::Think { calls: true }) => task::model_answers(&calls()),
            (Report::Answer, _) => task::model_answers(&[]),
            (Report::Busy, _) => task::model_fails(ModelErrorKind::Busy { after_ms: None }),
            (Report::Violation, _) => task::model_fails(ModelErrorKind::BadStream),
            (Report::Prepared, Work::Prepare(ids)) => {
                let plans = ids.iter().map(|id| Ok(task::plan(&calls()[index(id)])));
                NoteBody::Prepared(plans.collect())
            }
            (Report::Prepared, _) => unreachable!("only a prepare job prepares"),
            (Report::Ran, Work::Run(id)) if id == task::edit().call => task::edit_ends(&task::edit()),
            (Report::Ran, _) => task::run_ends(task::success()),
            (Report::Stale, _) => {
                self.budget.stales -= 1;
                NoteBody::Ended(RunEnd::Stale)
            }
            (Report::Commanded, _) => task::command_says("done"),
            (Report::Prompts, _) => task::command_asks("Write it."),
            (Report::Refused, _) => NoteBody::Commanded(Err("no luck".into())),
            (Report::Died, _) => NoteBody::Died("killed".into()),
        };
        if matches!(report, Report::Busy | Report::Violation | Report::Refused | Report::Died) {
            self.budget.faults -= 1;
        }
        if body.is_last() {
            self.workers.remove(at);
        }
        body
    }

    /// The server dies: what it ran may go on for a while, but its timers are gone.
    pub fn die(&mut self) {
        self.budget.crashes -= 1;
        self.observations.to_save = 0;
        self.timers.clear();
        for worker in &mut self.workers {
            worker.late = true;
        }
    }

    /// One input, what follows from it, and then its effects.
    pub fn take(&mut self, input: Input, environment: &Environment) -> Result<Vec<Record>, String> {
        let mut records = Vec::new();
        let expected = self.refusal(&input);
        let mut decision = match environment.ask(&self.state, input) {
            Ok(decision) => decision,
            Err(refusal) if Some(&refusal) == expected.as_ref() => return Ok(records),
            Err(refusal) => return Err(format!("{refusal:?} was said without a reason")),
        };
        let mut effects = Vec::new();
        loop {
            for event in decision.events {
                records.push(self.record(event)?);
            }
            effects.extend(decision.effects);
            decision = match environment.ask(&self.state, Input::Advance) {
                Ok(decision) => decision,
                Err(refusal) => return Err(format!("Advance was refused: {refusal:?}")),
            };
            if decision.is_empty() {
                break;
            }
            if records.len() > 100 {
                return Err("Advance does not come to an end".into());
            }
        }
        if let Some(refusal) = expected {
            return Err(format!("{refusal:?} was not said"));
        }
        for effect in effects {
            self.perform(&effect, &environment.limits)?;
        }
        self.check_settled()?;
        Ok(records)
    }

    /// What a client must be told instead of being heard: the first answer wins, and nothing comes after the end.
    fn refusal(&self, input: &Input) -> Option<Refusal> {
        match input {
            Input::Say { .. } | Input::Cancel if self.observations.closed => Some(Refusal::Over),
            Input::Say { said, .. } => {
                let call = &said.answers.first()?.call;
                let observations = &self.observations.calls[index(call)];
                let open = observations.asks > observations.answers && !observations.ended;
                (!open).then(|| Refusal::NotPending(call.clone()))
            }
            Input::Cancel
            | Input::Abort { .. }
            | Input::Fail(_)
            | Input::Note { .. }
            | Input::Due { .. }
            | Input::Hook(_)
            | Input::Restored
            | Input::Time(_)
            | Input::Advance => None,
        }
    }

    fn record(&mut self, event: Event) -> Result<Record, String> {
        let record = Record { seq: self.state.seq.next(), at: self.state.stamp(&event, task::NOON), event };
        self.admit(&record)?;
        Ok(record)
    }

    pub fn admit(&mut self, record: &Record) -> Result<(), String> {
        self.observations.see(&record.event, &self.state)?;
        let before = self.state.status.clone();
        self.state.apply(record);
        let after = &self.state.status;
        if before.state != after.state && !before.state.may_become(after.state) {
            return Err(format!("{:?} became {:?}", before.state, after.state));
        }
        if before != *after && (after.seq != record.seq || after.at <= before.at) {
            return Err(format!("{after:?} does not follow {before:?}"));
        }
        if self.state.seq != record.seq {
            return Err(format!("{} follows {}", self.state.seq, record.seq));
        }
        self.check_history()
    }

    fn perform(&mut self, effect: &Effect, limits: &Limits) -> Result<(), String> {
        let work = match effect {
            Effect::Think { .. } => Work::Think { calls: self.state.turn == 1 && self.state.round == 0 },
            Effect::Attach { .. } | Effect::Compact { .. } => {
                return Err("nothing here names files or grows too long".into());
            }
            Effect::Command { .. } => {
                self.observations.commands += 1;
                if self.observations.commands > 1 {
                    return Err("the command runs twice".into());
                }
                Work::Command
            }
            Effect::Prepare { calls, .. } => Work::Prepare(calls.clone()),
            Effect::Run { call, gate, .. } => {
                let observations = &mut self.observations.calls[index(call)];
                observations.runs += 1;
                if observations.runs > observations.starts {
                    return Err(format!("{call} runs without a start in the log"));
                }
                if *gate != Gate::Synced {
                    return Err(format!("{call} changes things and does not wait for the disk"));
                }
                Work::Run(call.clone())
            }
            Effect::Stop { job } => {
                let awaited = |worker: &&mut Worker| worker.job == *job && !worker.late;
                let worker = self.workers.iter_mut().find(awaited);
                let worker = worker.ok_or_else(|| format!("job {job} is stopped in vain"))?;
                worker.late = true;
                return Ok(());
            }
            Effect::Arm { job, .. } => {
                self.timers.push(*job);
                return Ok(());
            }
            Effect::Save { rule } => {
                if self.observations.to_save == 0 || !self.state.always.contains(rule) {
                    return Err(format!("{rule:?} is kept and nobody asked for it"));
                }
                self.observations.to_save -= 1;
                return Ok(());
            }
        };
        let job = job(&self.state, effect, limits).ok_or("an effect without a job")?;
        self.workers.push(Worker { job: job.id.at, work, late: false });
        Ok(())
    }

    /// The whole history is one the model accepts: every call of an answer answered right after it, once, in order.
    fn check_history(&self) -> Result<(), String> {
        let mut open: Option<Vec<&CallId>> = None;
        for item in &self.state.history {
            match (item.as_ref(), open.take()) {
                (Item::Results(results), Some(ids)) => {
                    let got: Vec<&CallId> = results.iter().map(|r| &r.request.call).collect();
                    if got != ids {
                        return Err(format!("{got:?} are the results of {ids:?}"));
                    }
                }
                (_, Some(ids)) => return Err(format!("{ids:?} are without results")),
                (Item::Results(_), None) => return Err("results of nothing".into()),
                (Item::Answered(answer), None) if answer.has_calls() => {
                    open = Some(answer.calls().map(|request| &request.call).collect());
                }
                (Item::Said(_) | Item::Dropped(_) | Item::Answered(_) | Item::Summary(_) | Item::Nudge(_), None) => {}
            }
        }
        let current: Vec<&CallId> = self.state.calls.iter().map(|call| call.id()).collect();
        if open.unwrap_or_default() != current {
            return Err(format!("{current:?} are not the calls of the last answer"));
        }
        Ok(())
    }

    /// Nothing is forgotten and nothing is left over: whatever the task waits for will come, or is somebody's to say.
    fn check_settled(&self) -> Result<(), String> {
        let state = &self.state;
        let mut awaited = Vec::new();
        match state.phase {
            Phase::Idle if !state.queue.is_empty() => return Err("a prompt is left lying".into()),
            Phase::Idle | Phase::Tools | Phase::Closed => {}
            Phase::Backoff { job, .. } if !self.timers.contains(&job) => {
                return Err("waits for a timer that is not armed".into());
            }
            Phase::Backoff { .. } => {}
            Phase::Thinking { job }
            | Phase::Attaching { job }
            | Phase::Commanding { job }
            | Phase::Compacting { job }
            | Phase::Preparing { job } => {
                awaited.push(job);
            }
        }
        for call in &state.calls {
            match call.stage {
                Stage::Running { job } | Stage::Replanning { job } => awaited.push(job),
                Stage::Named if matches!(state.phase, Phase::Preparing { .. }) => {}
                Stage::Ready if state.suspended => {}
                Stage::Asked | Stage::Ended => {}
                Stage::Named | Stage::Planned | Stage::Answered | Stage::Ready => {
                    return Err(format!("{} is stuck as {:?}", call.id(), call.stage));
                }
            }
        }
        if state.phase == Phase::Tools && state.calls.iter().all(|call| call.is_over()) {
            return Err("all calls have ended and nothing follows".into());
        }
        let mut running: Vec<Seq> = Vec::new();
        running.extend(self.workers.iter().filter(|w| !w.late).map(|w| w.job));
        running.sort();
        awaited.sort();
        if running != awaited {
            return Err(format!("jobs {running:?} run, {awaited:?} are waited for"));
        }
        if self.observations.to_save > 0 {
            return Err("a rule that somebody wants kept is not".into());
        }
        self.check_status()?;
        self.check_hook()?;
        if state.paused != (state.waits_for_answers() && !state.suspended) {
            return Err(format!("paused is {}", state.paused));
        }
        Ok(())
    }
}

impl SystemState {
    /// A receiver that gets what is due, in order, ends up knowing how the task stands.
    fn check_hook(&self) -> Result<(), String> {
        let (Some(hook), Some(told)) = (self.state.hooks.first(), self.observations.told) else {
            return Ok(());
        };
        let mut last = (hook.sent, told);
        for due in &hook.due {
            if due.seq() <= last.0 || due.seq() > self.state.seq {
                return Err(format!("{due:?} is due after {}", last.0));
            }
            last.0 = due.seq();
            if let Due::Status { status, .. } = due {
                last.1 = status.state;
            }
        }
        if last.1 != self.state.status.state {
            let now = self.state.status.state;
            return Err(format!("a webhook is told {:?} last, not {now:?}", last.1));
        }
        Ok(())
    }

    /// The status that was announced last is the one that is true.
    fn check_status(&self) -> Result<(), String> {
        let state = &self.state;
        let expected: &[TaskState] = match state.phase {
            Phase::Closed => &[TaskState::Canceled, TaskState::Failed, TaskState::Completed],
            Phase::Idle => &[TaskState::InputRequired],
            Phase::Tools if state.suspended || state.waits_for_answers() => &[TaskState::InputRequired],
            Phase::Tools
            | Phase::Thinking { .. }
            | Phase::Attaching { .. }
            | Phase::Commanding { .. }
            | Phase::Compacting { .. }
            | Phase::Preparing { .. }
            | Phase::Backoff { .. } => &[TaskState::Working],
        };
        if !expected.contains(&state.status.state) {
            let (status, phase) = (state.status.state, &state.phase);
            return Err(format!("{status:?} was announced in {phase:?}"));
        }
        Ok(())
    }
}

impl Observations {
    /// Holds the next event against what came before it.
    fn see(&mut self, event: &Event, state: &State) -> Result<(), String> {
        if self.closed && !is_of_hooks(event) {
            return Err(format!("{event:?} came after the end"));
        }
        match event {
            Event::Closed { .. } => self.closed = true,
            Event::Paused if !state.waits_for_answers() || state.paused => {
                return Err("a pause was announced and there was none".into());
            }
            Event::CallAsked { call, .. } => {
                let observations = self.of(call)?;
                if observations.asks != observations.answers {
                    return Err(format!("{call} was asked twice at once"));
                }
                observations.asks += 1;
            }
            Event::CallAnswered { call, choice, rules, .. } => {
                if *choice == Choice::ProceedAlwaysAndSave {
                    self.to_save += rules.len() as u8;
                }
                let observations = self.of(call)?;
                if observations.answers == observations.asks {
                    return Err(format!("{call} was answered twice"));
                }
                observations.answers += 1;
                observations.granted = *choice != Choice::Cancel;
            }
            Event::CallReady { call, .. } if !self.of(call)?.granted => {
                return Err(format!("{call} is ready and nobody allowed it"));
            }
            Event::CallStarted { call } => {
                let observations = self.of(call)?;
                if !std::mem::take(&mut observations.granted) {
                    return Err(format!("{call} started and nobody allowed it"));
                }
                observations.starts += 1;
                if state.suspended {
                    return Err(format!("{call} started in a suspended turn"));
                }
            }
            Event::CommandBegan if state.created.command.is_none() => {
                return Err("a command began that nobody wants".into());
            }
            Event::CommandBegan => {
                self.begun += 1;
                if self.begun > 1 {
                    return Err("the command began twice".into());
                }
            }
            Event::CallEnded { call, .. } => self.of(call)?.ended = true,
            Event::CallPlanned { call, .. }
            | Event::CallReady { call, .. }
            | Event::CallOutput { call, .. }
            | Event::CallStale { call } => drop(self.of(call)?),
            // Also after the call has ended: a worker whose call was cancelled may have written its file before it noticed.
            Event::FileChanged(change) => {
                if self.calls[index(&change.call)].starts == 0 {
                    return Err(format!("{} changed a file before it started", change.call));
                }
            }
            Event::Paused
            | Event::Created(_)
            | Event::Prompted { .. }
            | Event::TurnBegan { .. }
            | Event::AttachmentsWanted
            | Event::Attached { .. }
            | Event::CommandPrompted { .. }
            | Event::Tools(_)
            | Event::Traced { .. }
            | Event::FellBack { .. }
            | Event::CompactionBegan
            | Event::Compacted { .. }
            | Event::CompactionFailed { .. }
            | Event::Looped
            | Event::Nudged { .. }
            | Event::Thought { .. }
            | Event::Text { .. }
            | Event::Cited { .. }
            | Event::Retracted { .. }
            | Event::BackedOff { .. }
            | Event::Retried
            | Event::Answered { .. }
            | Event::ResultsSent
            | Event::Produced { .. }
            | Event::HookSet { .. }
            | Event::HookDropped { .. }
            | Event::HookMoved { .. }
            | Event::TurnEnded { .. }
            | Event::Interrupted { .. }
            | Event::Resumed => {}
        }
        Ok(())
    }

    fn of(&mut self, call: &CallId) -> Result<&mut CallObservations, String> {
        let observations = &mut self.calls[index(call)];
        if observations.ended {
            return Err(format!("something happened to {call} after it had ended"));
        }
        Ok(observations)
    }
}

impl SystemState {
    /// Equal for worlds with the same future: times and absolute positions are left out, and so is which of the two
    /// people is which.
    pub fn digest(&self) -> u64 {
        let jobs = self.jobs();
        let rank = |job: Seq| jobs.binary_search(&job).ok();
        let mut out = DefaultHasher::new();
        self.hash_state(&mut out, &rank);
        for Worker { job, work, late } in &self.workers {
            (rank(*job), work, late).hash(&mut out);
        }
        for timer in &self.timers {
            rank(*timer).hash(&mut out);
        }
        let mut observations = self.observations.clone();
        let of = |who: usize| observations.calls.each_ref().map(|call| call.picked[who]);
        if of(0) > of(1) {
            for call in &mut observations.calls {
                call.picked.swap(0, 1);
            }
        }
        (observations, self.budget).hash(&mut out);
        out.finish()
    }

    /// Every job that is named anywhere, in order: its rank stands for it.
    fn jobs(&self) -> Vec<Seq> {
        let mut jobs: Vec<Seq> = self.timers.clone();
        jobs.extend(self.workers.iter().map(|worker| worker.job));
        jobs.extend(phase_job(&self.state.phase));
        let of_calls = self.state.calls.iter().map(|call| stage_job(call.stage));
        jobs.extend(of_calls.flatten());
        jobs.sort();
        jobs.dedup();
        jobs
    }

    fn hash_state(&self, out: &mut DefaultHasher, rank: &dyn Fn(Seq) -> Option<usize>) {
        let state = &self.state;
        discriminant(&state.phase).hash(out);
        phase_job(&state.phase).map(rank).hash(out);
        (state.status.state, state.told).hash(out);
        (&state.status.text, &state.error).hash(out);
        (state.turn, state.round, state.paused, state.suspended).hash(out);
        (state.tries.failed, state.tries.broken).hash(out);
        state.utterance.since.is_some().hash(out);
        for queued in &state.queue {
            queued.turn.hash(out);
        }
        for due in state.hooks.iter().flat_map(|hook| &hook.due) {
            match due {
                Due::Status { status, rests } => (status.state, rests).hash(out),
                Due::Artifact { .. } | Due::Answer { .. } => discriminant(due).hash(out),
            }
        }
        state.hooks.len().hash(out);
        for rule in &state.always {
            format!("{rule:?}").hash(out);
        }
        for call in &state.calls {
            discriminant(&call.stage).hash(out);
            stage_job(call.stage).map(rank).hash(out);
            (call.choice.map(Choice::word), call.stale).hash(out);
            call.ending.as_deref().map(word).hash(out);
        }
        for item in &state.history {
            discriminant(&**item).hash(out);
            match &**item {
                Item::Said(message) | Item::Dropped(message) => message.id.hash(out),
                Item::Summary(text) => text.hash(out),
                Item::Nudge(text) => text.hash(out),
                Item::Answered(answer) => answer.calls().count().hash(out),
                Item::Results(results) => {
                    let endings = results.iter().map(|result| word(&result.ending));
                    endings.for_each(|ending| ending.hash(out));
                }
            }
        }
    }
}

fn phase_job(phase: &Phase) -> Option<Seq> {
    match phase {
        Phase::Thinking { job }
        | Phase::Attaching { job }
        | Phase::Commanding { job }
        | Phase::Compacting { job }
        | Phase::Preparing { job }
        | Phase::Backoff { job, .. } => Some(*job),
        Phase::Idle | Phase::Tools | Phase::Closed => None,
    }
}

fn stage_job(stage: Stage) -> Option<Seq> {
    match stage {
        Stage::Running { job } | Stage::Replanning { job } => Some(job),
        Stage::Named | Stage::Planned | Stage::Asked | Stage::Answered | Stage::Ready | Stage::Ended => None,
    }
}

/// What distinguishes one ending from another for whatever comes after.
fn word(ending: &Ending) -> &str {
    match ending {
        Ending::Success { .. } => "success",
        Ending::Error { error } => &error.message,
        Ending::Cancelled { reason, .. } => reason,
    }
}
