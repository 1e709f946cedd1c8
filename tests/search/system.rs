//! The system that the search explores: one task, its workers and timers, two users, and a limited number of faults.
//!
//! A step gives one input to the machine, then `Advance` until nothing follows, then applies the effects, as the core does.
//! After a crash, workers from before it may still report, under their old ids.

use crate::observations::Observations;
use crate::task;
use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Decision, Effect, Gate, HookInput, Input, Refusal, Rules, job};
use gemini_a2a::task::machine::job::{self, ModelErrorKind, NoteBody, Pick, RunEnd, Said};
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::policy::{Grant, Policy};
use gemini_a2a::task::push::Due;
use gemini_a2a::task::spec::{Choice, ToolSpec};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

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
    /// A prompt that is to reach the model with the next results.
    Steer,
    /// A user takes the last queued prompt back.
    Drop,
    /// A user stops the current turn.
    Abort,
    Due(Seq),
    Report(Seq, Report),
    /// A user sets a webhook.
    Hook,
    /// The first pending delivery of the webhook succeeds.
    Deliver,
    /// The clock passes every time limit.
    Late,
    Crash,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Prompt => f.write_str("prompt"),
            Action::Pick { who, call, choice } => {
                let (who, call) = (["ann", "bob"][*who], ["first", "second"][*call]);
                write!(f, "{who} says {} to the {call} call", choice.word())
            }
            Action::Cancel => f.write_str("cancel"),
            Action::Steer => f.write_str("a steering prompt"),
            Action::Drop => f.write_str("take a prompt back"),
            Action::Abort => f.write_str("stop the turn"),
            Action::Due(job) => write!(f, "timer {job} is due"),
            Action::Report(job, report) => write!(f, "job {job} reports {report:?}"),
            Action::Hook => f.write_str("set a webhook"),
            Action::Deliver => f.write_str("deliver"),
            Action::Late => f.write_str("it is late"),
            Action::Crash => f.write_str("crash"),
        }
    }
}

/// A note that a worker may send.
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
    /// A command that continues with the model.
    Prompts,
    Refused,
    Died,
}

/// How many actions of each kind may still happen; this bounds the search.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Budget {
    pub prompts: u8,
    pub cancels: u8,
    pub crashes: u8,
    pub stales: u8,
    pub faults: u8,
    /// Answers that last beyond their call ("always").
    pub always: u8,
    pub hooks: u8,
    /// Steering prompts; as many prompts may be taken back.
    pub steers: u8,
    pub drops: u8,
    pub aborts: u8,
    /// Jumps of the clock beyond every time limit.
    pub time_jumps: u8,
}

#[derive(Clone)]
pub struct SystemState {
    /// The calls of the model's first answer.
    pub calls: [Request; 2],
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
    /// Stopped, or started before a crash: it may report, and the machine must ignore the report.
    pub late: bool,
}

#[derive(Clone, Debug, Hash)]
pub enum Work {
    /// The first request of the first turn is answered with the two calls, every other one with text.
    Think {
        calls: bool,
    },
    Prepare(Vec<CallId>),
    Run(CallId),
    Command,
}

/// The position of a call in the model's first answer: the first is always an edit.
pub fn index(call: &CallId) -> usize {
    match call.as_str() {
        "write_file__e" => 0,
        "write_file__f" | "run_shell_command__s" => 1,
        other => panic!("the model of these tests does not call {other}"),
    }
}

/// Whether an answer allows later calls too.
fn allows_later_calls(choice: Choice) -> bool {
    !matches!(choice, Choice::ProceedOnce | Choice::Cancel)
}

/// What is the same in every state of a search.
pub struct Environment {
    pub machine: Machine,
    pub tools: HashMap<String, ToolSpec>,
    pub limits: Limits,
    pub policy: Policy,
    pub grant: Grant,
}

impl Environment {
    fn decide(&self, state: &State, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules { tools: &self.tools, limits: &self.limits, policy: &self.policy, grant: self.grant };
        (self.machine)(state, input, &rules)
    }
}

impl SystemState {
    /// All actions that are possible in this state.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.budget.crashes > 0 && !self.observations.closed {
            actions.push(Action::Crash);
        }
        if self.budget.prompts > 0 && !self.observations.closed {
            actions.push(Action::Prompt);
        }
        if self.budget.steers > 0 && !self.observations.closed {
            actions.push(Action::Steer);
        }
        if self.budget.drops > 0 && !self.state.queue.is_empty() {
            actions.push(Action::Drop);
        }
        for (call, observations) in self.observations.calls.iter().enumerate() {
            for who in 0..2 {
                if observations.picked[who] < observations.asks {
                    // These two are for tools of MCP servers only.
                    let of_servers = [Choice::ProceedAlwaysTool, Choice::ProceedAlwaysServer];
                    for choice in Choice::ALL.into_iter().filter(|choice| !of_servers.contains(choice)) {
                        if !allows_later_calls(choice) || self.budget.always > 0 {
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
        if self.budget.aborts > 0 && !self.observations.closed {
            actions.push(Action::Abort);
        }
        if self.budget.time_jumps > 0 {
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
        let edits = matches!(&worker.work, Work::Run(call) if self.calls[index(call)].name == task::EDIT);
        if edits && self.budget.stales > 0 {
            reports.push(Report::Stale);
        }
        reports
    }

    /// The input that an action gives to the machine. Also counts the action against the budget.
    pub fn input(&mut self, action: Action) -> Input {
        match action {
            Action::Prompt => {
                self.budget.prompts -= 1;
                task::prompt("and then?")
            }
            Action::Pick { who, call, choice } => self.pick(who, call, choice),
            Action::Cancel => {
                self.budget.cancels -= 1;
                Input::Cancel
            }
            Action::Abort => {
                self.budget.aborts -= 1;
                Input::Abort { by: task::ann() }
            }
            Action::Steer => {
                self.budget.steers -= 1;
                task::steering("rather that")
            }
            Action::Drop => {
                self.budget.drops -= 1;
                let turn = self.state.queue.back().expect("the action is possible only if a prompt is queued").turn;
                Input::Drop { turn, by: task::bob() }
            }
            Action::Due(job) => {
                self.timers.retain(|timer| *timer != job);
                Input::Due { job }
            }
            Action::Report(job, report) => {
                let body = self.report(job, report);
                Input::Note { job, body, at: 0 }
            }
            Action::Hook => {
                self.budget.hooks -= 1;
                self.observations.delivered.get_or_insert(self.state.status.state);
                Input::Hook(HookInput::Set(task::target("h")))
            }
            Action::Deliver => self.deliver(),
            Action::Late => {
                self.budget.time_jumps -= 1;
                Input::Time(task::NOON + 1_000_000)
            }
            Action::Crash => {
                self.crash();
                Input::Interrupted
            }
        }
    }

    fn pick(&mut self, who: usize, call: usize, choice: Choice) -> Input {
        let observations = &mut self.observations.calls[call];
        observations.picked[who] = observations.asks;
        if allows_later_calls(choice) {
            self.budget.always -= 1;
        }
        let pick = Pick {
            call: self.calls[call].call.clone(),
            option: choice.word().into(),
            edited: None,
            answers: None,
            seen: None,
        };
        Input::Say { said: Said::new(task::message(""), vec![pick]), by: [task::ann(), task::bob()][who].clone() }
    }

    fn deliver(&mut self) -> Input {
        let hook = &self.state.hooks[0];
        let due = hook.due.front().expect("the action is possible only if something is due");
        if let Due::Status { status, .. } = due {
            self.observations.delivered = Some(status.state);
        }
        Input::Hook(HookInput::Moved {
            id: hook.target.id.clone(),
            upto: due.seq(),
            health: hook.health.after_success(),
        })
    }

    fn report(&mut self, job: Seq, report: Report) -> NoteBody {
        let at = self.workers.iter().position(|worker| worker.job == job);
        let at = at.expect("only workers report");
        let work = self.workers[at].work.clone();
        let body = match (report, work) {
            (Report::Text, _) => NoteBody::Text("Let me see".into()),
            (Report::Answer, Work::Think { calls: true }) => task::model_answers(&self.calls),
            (Report::Answer, _) => task::model_answers(&[]),
            (Report::Busy, _) => task::model_fails(ModelErrorKind::Busy { after_ms: None }),
            (Report::Violation, _) => task::model_fails(ModelErrorKind::BadStream),
            (Report::Prepared, Work::Prepare(ids)) => {
                let plans = ids.iter().map(|id| Ok(task::plan(&self.calls[index(id)])));
                NoteBody::Prepared(plans.collect())
            }
            (Report::Prepared, _) => unreachable!("only a prepare job prepares"),
            (Report::Ran, Work::Run(id)) if self.calls[index(&id)].name == task::EDIT => {
                task::edit_ends(&self.calls[index(&id)])
            }
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

    /// The server crashes: its workers may continue for a while, its timers are gone.
    pub fn crash(&mut self) {
        self.budget.crashes -= 1;
        self.observations.to_save = 0;
        self.timers.clear();
        for worker in &mut self.workers {
            worker.late = true;
        }
    }

    /// Gives one input to the machine, records the events, and applies the effects. Returns the records.
    pub fn step(&mut self, input: Input, environment: &Environment) -> Result<Vec<Record>, String> {
        let mut records = Vec::new();
        let expected = self.expected_refusal(&input);
        let mut decision = match environment.decide(&self.state, input) {
            Ok(decision) => decision,
            Err(refusal) if Some(&refusal) == expected.as_ref() => return Ok(records),
            Err(refusal) => return Err(format!("{refusal:?} was returned without a reason")),
        };
        let mut effects = Vec::new();
        loop {
            for event in decision.events {
                records.push(self.record(event)?);
            }
            effects.extend(decision.effects);
            decision = match environment.decide(&self.state, Input::Advance) {
                Ok(decision) => decision,
                Err(refusal) => return Err(format!("Advance was refused: {refusal:?}")),
            };
            if decision.is_empty() {
                break;
            }
            if records.len() > 100 {
                return Err("Advance never returns an empty decision".into());
            }
        }
        if let Some(refusal) = expected {
            return Err(format!("{refusal:?} was expected"));
        }
        for effect in effects {
            self.apply_effect(&effect, &environment.limits)?;
        }
        self.check_settled()?;
        Ok(records)
    }

    /// The refusal that an input must get: only the first answer to a question counts, and a finished task accepts nothing.
    fn expected_refusal(&self, input: &Input) -> Option<Refusal> {
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
            | Input::Disconnected { .. }
            | Input::Drop { .. }
            | Input::Revoke { .. }
            | Input::Restore(_)
            | Input::Tune { .. }
            | Input::Include { .. }
            | Input::Shell { .. }
            | Input::Fail(_)
            | Input::Note { .. }
            | Input::Due { .. }
            | Input::Hook(_)
            | Input::Interrupted
            | Input::Time(_)
            | Input::Advance => None,
        }
    }

    fn record(&mut self, event: Event) -> Result<Record, String> {
        let record = Record { seq: self.state.seq.next(), at: self.state.stamp(&event, task::NOON), event };
        self.append(&record)?;
        Ok(record)
    }

    /// Applies an event and checks it against everything before it.
    pub fn append(&mut self, record: &Record) -> Result<(), String> {
        self.observations.check_event(&record.event, &self.state)?;
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

    fn apply_effect(&mut self, effect: &Effect, limits: &Limits) -> Result<(), String> {
        let (at, gate) = match effect {
            Effect::Start { job, gate } => (*job, *gate),
            Effect::Stop { job } => {
                let awaited = |worker: &&mut Worker| worker.job == *job && !worker.late;
                let worker = self.workers.iter_mut().find(awaited);
                let worker = worker.ok_or_else(|| format!("job {job} is stopped and does not run"))?;
                worker.late = true;
                return Ok(());
            }
            Effect::Arm { job, .. } => {
                self.timers.push(*job);
                return Ok(());
            }
            Effect::Reply { .. } => return Err("a reply without a question".into()),
            Effect::Save { rule } => {
                if self.observations.to_save == 0 || !self.state.always.contains(rule) {
                    return Err(format!("{rule:?} is saved and no user asked for it"));
                }
                self.observations.to_save -= 1;
                return Ok(());
            }
        };
        let work = self.begin_work(at, gate, limits)?;
        self.workers.push(Worker { job: at, work, late: false });
        Ok(())
    }

    fn begin_work(&mut self, at: Seq, gate: Gate, limits: &Limits) -> Result<Work, String> {
        let job = job(&self.state, at, limits).ok_or("a job starts that the state does not wait for")?;
        Ok(match job.work {
            job::Work::Think(_) => Work::Think { calls: self.state.turn.number == 1 && self.state.turn.round == 0 },
            job::Work::Attach { .. } | job::Work::Compact(_) => {
                return Err("no prompt names files and no conversation gets long".into());
            }
            job::Work::Command(_) => {
                self.observations.commands += 1;
                if self.observations.commands > 1 {
                    return Err("the command runs twice".into());
                }
                Work::Command
            }
            job::Work::Prepare { calls, .. } => Work::Prepare(calls.into_iter().map(|request| request.call).collect()),
            job::Work::Run(run) => {
                let call = run.call;
                let observations = &mut self.observations.calls[index(&call)];
                observations.runs += 1;
                if observations.runs > observations.starts {
                    return Err(format!("{call} runs without a start in the log"));
                }
                if gate != Gate::Synced {
                    return Err(format!("{call} has effects and does not wait for the disk"));
                }
                Work::Run(call)
            }
        })
    }
}
