//! What a task does next. `decide` reads the state and one input and answers with events and effects; it changes nothing,
//! knows no clock and no chance, and so every interleaving of inputs can be tried (`tests/search.rs` does).
//!
//! An input yields only what it directly causes. What follows from the new state (a queued prompt begins, approved calls
//! start, results go back to the model) is decided by [`Input::Advance`], which the core gives after every input until it
//! yields nothing: one rule for "what now", whatever led here.

mod context;

use crate::base::id::{CallId, Seq};
use crate::limits::Limits;
use crate::task::event::{Answer, End, Event, Final, Lifecycle, Outcome, Request, Tries};
use crate::task::job::{
    Job, JobId, ModelError, ModelErrorKind, NoteBody, Pick, Run, RunEnd, Said, Think, Work,
};
use crate::task::message::Source;
use crate::task::policy::{self, Ask, Grant, Policy, Rule, Ruling};
use crate::task::spec::{
    Answers, CallError, Choice, Ending, ErrorKind, Keeping, Kind, Plan, ToolSpec, Verdict,
};
use crate::task::state::{CallState, Item, Phase, Stage, State};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Input {
    Say {
        said: Said,
        by: Source,
    },
    Cancel,
    /// The task cannot run at all, e.g. because its workspace is gone.
    Fail(String),
    Note {
        job: Seq,
        body: NoteBody,
    },
    /// The timer armed for this job is due.
    Due {
        job: Seq,
    },
    /// The server was restarted; given once after the log was folded.
    Restored,
    Advance,
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

/// Something for the shell to do once the events beside it are on disk. A job's number is the sequence number of the event
/// that caused it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Think {
        job: Seq,
    },
    /// Make room in the conversation first.
    Compact {
        job: Seq,
    },
    Prepare {
        job: Seq,
        calls: Vec<CallId>,
    },
    Run {
        job: Seq,
        call: CallId,
        gate: Gate,
    },
    Stop {
        job: Seq,
    },
    Arm {
        job: Seq,
        delay_ms: u64,
    },
    /// Keep a rule beyond this task.
    Save {
        rule: Rule,
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
    UnknownOption {
        call: CallId,
        offered: Vec<&'static str>,
    },
    QueueFull,
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
    let mut out = Deciding {
        state,
        rules,
        decision: Decision::default(),
    };
    match input {
        Input::Say { said, by } => out.say(said, by)?,
        Input::Cancel => out.cancel()?,
        Input::Fail(text) => {
            if state.is_over() {
                return Err(Refusal::Over);
            }
            out.stop_everything("The task cannot go on.");
            out.push(Event::Closed {
                state: Final::Failed,
                text: Some(text),
            });
        }
        Input::Note { job, body } => out.note(job, body),
        Input::Due { job } => out.due(job),
        Input::Restored => out.restored(),
        Input::Advance => out.advance(),
    }
    Ok(out.decision)
}

/// The job behind an effect, made from the state after its events were applied. None for effects that are not jobs.
pub fn job(state: &State, effect: &Effect, limits: &Limits) -> Option<Job> {
    let (at, work) = match effect {
        Effect::Think { job } => (*job, Work::Think(think(state))),
        Effect::Compact { job } => (*job, Work::Compact(think(state))),
        Effect::Prepare { job, calls } => {
            let known = |id: &CallId| Some(state.call(id)?.request.clone());
            let calls = calls.iter().filter_map(known).take(limits.calls).collect();
            (
                *job,
                Work::Prepare {
                    workspace: state.workspace.clone(),
                    calls,
                },
            )
        }
        Effect::Run { job, call, .. } => {
            let call = state.call(call)?;
            let run = Run {
                workspace: state.workspace.clone(),
                call: call.id().clone(),
                name: call.request.name.clone(),
                args: call.request.args.clone(),
                base: call.plan.as_ref().and_then(|plan| plan.base.clone()),
                edited: call.edited.clone(),
                answers: call.answers.clone(),
            };
            (*job, Work::Run(run))
        }
        Effect::Stop { .. } | Effect::Arm { .. } | Effect::Save { .. } => return None,
    };
    Some(Job {
        id: JobId {
            task: state.created.task.clone(),
            at,
        },
        work,
    })
}

fn think(state: &State) -> Think {
    let prompt = state.prompt.as_ref().expect("a turn has a prompt");
    let history = match &state.summary {
        None => state.history.clone(),
        Some(summary) => {
            let mut shown = vec![Arc::new(Item::Summary(summary.text.clone()))];
            shown.extend_from_slice(&state.history[summary.items..]);
            shown
        }
    };
    Think {
        workspace: state.workspace.clone(),
        model: state.asks.clone(),
        history,
        given: state.summary.iter().count(),
        prompt: prompt.id.clone(),
        prompt_text: prompt.text(),
        turn: state.turn,
        round: state.round,
        attempt: state.tries.failed + state.tries.broken + 1,
    }
}

/// An answer to an open question, with an option that is on offer.
struct Picked {
    call: CallId,
    choice: Choice,
    edited: Option<Arc<str>>,
    answers: Option<Arc<Answers>>,
    /// What the call ends with if the answer is no.
    refusal: Ending,
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

    // Clients.

    fn say(&mut self, said: Said, by: Source) -> Result<(), Refusal> {
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        let speaks = said.message.speaks() || said.answers.is_empty();
        let picks = self.valid_picks(&said.answers)?;
        if let (Some(first), true, false) = (said.answers.first(), picks.is_empty(), speaks) {
            return Err(Refusal::NotPending(first.call.clone()));
        }
        if speaks && self.state.queue.len() >= self.rules.limits.queued_prompts {
            return Err(Refusal::QueueFull);
        }
        if self.state.suspended {
            self.push(Event::Resumed);
        }
        for Picked {
            call,
            choice,
            edited,
            answers,
            refusal,
        } in picks
        {
            let rules = self.granted(&call, choice);
            self.push(Event::CallAnswered {
                call: call.clone(),
                choice,
                by: by.clone(),
                edited,
                answers,
                rules: rules.clone(),
            });
            match choice {
                Choice::ProceedOnce | Choice::ProceedAlways | Choice::ProceedAlwaysAndSave => {
                    self.push(Event::CallReady { call });
                }
                Choice::Cancel => self.end_call(call, refusal),
            }
            if choice == Choice::ProceedAlwaysAndSave {
                for rule in rules {
                    self.effect(Effect::Save { rule });
                }
            }
        }
        if speaks {
            let turn = self.next_turn();
            self.push(Event::Prompted {
                message: said.message,
                by,
                turn,
            });
        }
        Ok(())
    }

    /// The answers that count. Late ones and ones to unknown calls are passed over; an option that is not on offer refuses
    /// the message whole, so that nothing of it happens by halves.
    fn valid_picks(&self, picks: &[Pick]) -> Result<Vec<Picked>, Refusal> {
        let mut valid: Vec<Picked> = Vec::new();
        for pick in picks {
            let open = self.state.asked().find(|call| call.id() == &pick.call);
            let Some(plan) = open.and_then(|call| call.plan.as_ref()) else {
                continue;
            };
            if valid.iter().any(|earlier| earlier.call == pick.call) {
                continue;
            }
            let keeping = match self.rules.grant.saving && self.state.created.trusted {
                true => Keeping::Disk,
                false => Keeping::Session,
            };
            let options = plan.question.options(keeping);
            let Some(choice) = Choice::from_word(&pick.option).filter(|c| options.contains(c))
            else {
                let offered = options.iter().map(|choice| choice.word()).collect();
                return Err(Refusal::UnknownOption {
                    call: pick.call.clone(),
                    offered,
                });
            };
            valid.push(Picked {
                call: pick.call.clone(),
                choice,
                edited: pick.edited.clone().filter(|_| plan.question.is_edit()),
                answers: pick
                    .answers
                    .clone()
                    .filter(|_| plan.question.asks_the_user()),
                refusal: refused(plan),
            });
        }
        Ok(valid)
    }

    /// What an answer allows beyond the call it is about.
    fn granted(&self, call: &CallId, choice: Choice) -> Vec<Rule> {
        let lasts = match choice {
            Choice::ProceedAlways | Choice::ProceedAlwaysAndSave => true,
            Choice::ProceedOnce | Choice::Cancel => false,
        };
        let call = self.state.call(call).filter(|_| lasts);
        let Some((call, plan)) = call.and_then(|call| Some((call, call.plan.as_ref()?))) else {
            return Vec::new();
        };
        let mode = self.state.created.mode;
        policy::always(self.tool(call), plan, mode, &self.state.workspace)
    }

    fn next_turn(&self) -> u32 {
        self.state
            .queue
            .back()
            .map_or(self.state.turn, |queued| queued.turn)
            + 1
    }

    fn cancel(&mut self) -> Result<(), Refusal> {
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        self.stop_everything("The task was canceled.");
        let text = "Task canceled by user request.".to_owned();
        self.push(Event::Closed {
            state: Final::Canceled,
            text: Some(text),
        });
        Ok(())
    }

    /// Stops every job and ends every call that clients have been shown.
    fn stop_everything(&mut self, reason: &str) {
        match self.state.phase {
            Phase::Thinking { job } | Phase::Compacting { job } | Phase::Preparing { job } => {
                self.effect(Effect::Stop { job });
            }
            Phase::Idle | Phase::Backoff { .. } | Phase::Tools | Phase::Closed => {}
        }
        for call in &self.state.calls {
            match call.stage {
                Stage::Named | Stage::Ended => continue,
                Stage::Running { job } | Stage::Replanning { job } => {
                    self.effect(Effect::Stop { job });
                }
                Stage::Planned | Stage::Asked | Stage::Answered | Stage::Ready => {}
            }
            let ending = Ending::Cancelled {
                reason: reason.to_owned(),
                output: String::new(),
            };
            self.end_call(call.id().clone(), ending);
        }
    }

    // Workers.

    fn note(&mut self, job: Seq, body: NoteBody) {
        if self.state.phase == (Phase::Thinking { job }) {
            return self.heard(body);
        }
        if self.state.phase == (Phase::Compacting { job }) {
            return self.compacted(body);
        }
        if self.state.phase == (Phase::Preparing { job }) {
            return self.prepared_batch(body);
        }
        for call in &self.state.calls {
            match call.stage {
                Stage::Running { job: at } if at == job => return self.ran(call, body),
                Stage::Replanning { job: at } if at == job => {
                    return self.prepared_again(call, body);
                }
                Stage::Named
                | Stage::Planned
                | Stage::Asked
                | Stage::Answered
                | Stage::Ready
                | Stage::Running { .. }
                | Stage::Replanning { .. }
                | Stage::Ended => {}
            }
        }
        // Nobody waits for this job any more: what it says is dropped.
    }

    fn heard(&mut self, body: NoteBody) {
        match body {
            NoteBody::Traced(trace) => drop(self.push(Event::Traced { trace })),
            NoteBody::Thought {
                subject,
                description,
            } if subject.is_empty() && description.is_empty() => {}
            NoteBody::Thought {
                subject,
                description,
            } => {
                self.push(Event::Thought {
                    subject,
                    description,
                });
            }
            NoteBody::Text(text) if text.is_empty() => {}
            NoteBody::Cited(text) if text.trim().is_empty() => {}
            NoteBody::Text(text) => self.said(text),
            NoteBody::Cited(text) => drop(self.push(Event::Cited { text })),
            NoteBody::Produced {
                artifact,
                append,
                last,
            } => {
                self.push(Event::Produced {
                    artifact: Arc::new(artifact),
                    append,
                    last,
                });
            }
            NoteBody::Answered(Ok(answer)) => self.answered(answer),
            NoteBody::Answered(Err(error)) => self.model_failed(error),
            NoteBody::Died(message) => self.model_failed(ModelError {
                kind: ModelErrorKind::Fatal,
                message: format!("The request to the model ended unexpectedly: {message}"),
            }),
            NoteBody::Compacted(_)
            | NoteBody::Prepared(_)
            | NoteBody::Output(_)
            | NoteBody::Ended(_) => {}
        }
    }

    fn answered(&mut self, mut answer: Answer) {
        self.name_calls(&mut answer.calls);
        answer.said_at = self.state.utterance.since;
        let circles = self.calls_go_in_circles(&answer);
        let calls: Vec<CallId> = answer
            .calls
            .iter()
            .map(|request| request.call.clone())
            .collect();
        if circles {
            return self.stop_circling(answer);
        }
        let job = self.push(Event::Answered {
            answer: Arc::new(answer),
        });
        if !calls.is_empty() {
            self.effect(Effect::Prepare { job, calls });
        }
    }

    /// Gives every call an id that no other call of the task has. The API's ids need not be unique, and an answer meant for
    /// an earlier call must not reach a later one.
    fn name_calls(&self, calls: &mut [Request]) {
        let earlier = self.state.history.iter().filter_map(|item| match &**item {
            Item::Answered(answer) => Some(&answer.calls),
            Item::Said(_)
            | Item::Dropped(_)
            | Item::Results(_)
            | Item::Summary(_)
            | Item::Nudge(_) => None,
        });
        let mut taken: HashSet<CallId> = earlier
            .flatten()
            .map(|request| request.call.clone())
            .collect();
        let number = self.state.seq.0 + 1;
        for (n, request) in calls.iter_mut().enumerate() {
            let own = || format!("{}_{}_{number}_{n}", request.name, self.state.at);
            let id = request.api_id.clone().unwrap_or_else(own);
            let name = format!("{}__{id}", request.name);
            request.call = name.as_str().into();
            let mut copies = 1;
            while !taken.insert(request.call.clone()) {
                copies += 1;
                request.call = format!("{name}_{copies}").into();
            }
        }
    }

    fn model_failed(&mut self, error: ModelError) {
        let limits = self.rules.limits;
        let Tries { failed, broken } = self.state.tries;
        let (tries, delay_ms) = match error.kind {
            ModelErrorKind::Fatal => return self.end_turn(End::Failed(error.message)),
            ModelErrorKind::Unusable => return self.fall_back(error.message),
            ModelErrorKind::Busy { after_ms } => {
                let tries = Tries {
                    failed: failed + 1,
                    broken,
                };
                let doubled = limits.backoff_ms.saturating_mul(1 << failed.min(20));
                let delay = doubled
                    .min(limits.backoff_cap_ms)
                    .max(after_ms.unwrap_or(0));
                if tries.failed >= limits.model_tries || delay > limits.backoff_longest_ms {
                    return self.fall_back(error.message);
                }
                (tries, self.spread(delay))
            }
            ModelErrorKind::BadStream => {
                let tries = Tries {
                    failed,
                    broken: broken + 1,
                };
                if tries.broken >= limits.stream_tries {
                    return self.end_turn(End::Failed(error.message));
                }
                (tries, limits.rebreak_ms.saturating_mul(1 << broken.min(20)))
            }
        };
        let reason = error.message;
        if self.state.utterance.since.is_some() {
            self.push(Event::Retracted {
                reason: reason.clone(),
            });
        }
        let job = self.push(Event::BackedOff {
            tries,
            delay_ms,
            reason,
        });
        self.effect(Effect::Arm { job, delay_ms });
    }

    /// Up to a fifth longer, by the task and its position: many tasks that failed at once do not come back at once.
    fn spread(&self, delay_ms: u64) -> u64 {
        let mark = crate::base::crc::crc32(self.state.created.task.as_str().as_bytes());
        let share = (u64::from(mark) + self.state.seq.0 * 7919) % 200;
        delay_ms + delay_ms * share / 1000
    }

    fn prepared_batch(&mut self, body: NoteBody) {
        let mut results = match body {
            NoteBody::Prepared(results) => results.into_iter(),
            NoteBody::Died(message) => vec![Err(died(message)); self.state.calls.len()].into_iter(),
            NoteBody::Traced(_)
            | NoteBody::Thought { .. }
            | NoteBody::Text(_)
            | NoteBody::Cited(_)
            | NoteBody::Produced { .. }
            | NoteBody::Answered(_)
            | NoteBody::Compacted(_)
            | NoteBody::Output(_)
            | NoteBody::Ended(_) => return,
        };
        let mut planned = Vec::new();
        for call in &self.state.calls {
            let id = call.id().clone();
            match results
                .next()
                .unwrap_or_else(|| Err(too_many(self.rules.limits.calls)))
            {
                Ok(plan) => {
                    let plan = Arc::new(plan);
                    self.push(Event::CallPlanned {
                        call: id,
                        plan: plan.clone(),
                    });
                    planned.push((call, plan));
                }
                Err(error) => self.end_call(id, Ending::Error { error }),
            }
        }
        for (call, plan) in planned {
            self.judge(call, &plan);
        }
    }

    fn prepared_again(&mut self, call: &CallState, body: NoteBody) {
        let result = match body {
            NoteBody::Prepared(results) => results
                .into_iter()
                .next()
                .unwrap_or_else(|| Err(died("it was not looked at".to_owned()))),
            NoteBody::Died(message) => Err(died(message)),
            NoteBody::Traced(_)
            | NoteBody::Thought { .. }
            | NoteBody::Text(_)
            | NoteBody::Cited(_)
            | NoteBody::Produced { .. }
            | NoteBody::Answered(_)
            | NoteBody::Compacted(_)
            | NoteBody::Output(_)
            | NoteBody::Ended(_) => return,
        };
        match result {
            Ok(plan) => {
                let plan = Arc::new(plan);
                self.push(Event::CallPlanned {
                    call: call.id().clone(),
                    plan: plan.clone(),
                });
                self.judge(call, &plan);
            }
            Err(error) => self.end_call(call.id().clone(), Ending::Error { error }),
        }
    }

    /// Whether a planned call may run, has to be asked about, or may not run at all.
    fn judge(&mut self, call: &CallState, plan: &Plan) {
        let id = call.id().clone();
        let ruling = self.ruling(call, plan);
        match ruling.verdict {
            Verdict::Allow => drop(self.push(Event::CallReady { call: id })),
            Verdict::Ask => drop(self.push(Event::CallAsked { call: id })),
            Verdict::Deny => {
                let (tool, reason) = (&call.request.name, ruling.reason);
                let message = format!("This call of {tool} is not allowed here: {reason}.");
                let error = CallError::new(ErrorKind::PolicyViolation, message);
                self.end_call(id, Ending::Error { error });
            }
        }
    }

    fn ruling(&self, call: &CallState, plan: &Plan) -> Ruling {
        let state = self.state;
        let spec = self.rules.tools.get(&call.request.name);
        // A file that keeps changing under an edit is the user's to look at, whatever was allowed before.
        let session = match call.stale {
            0 => state.always.as_slice(),
            _ => &[],
        };
        let mut ruling = self.rules.policy.judge(&Ask {
            tool: self.tool(call),
            kind: self.kind(call),
            by_default: spec.map_or(Verdict::Ask, |spec| spec.by_default),
            args: &call.request.args,
            plan,
            workspace: &state.workspace,
            mode: state.created.mode,
            session,
            trusted: state.created.trusted,
            // A task waits for as long as it takes: somebody may always come.
            interactive: true,
            auto_execute: state.created.auto_execute && self.rules.grant.auto_execute,
        });
        // What the agent asks the user nobody else can answer: a rule may forbid it, and none can say yes to it.
        if plan.question.asks_the_user() && ruling.verdict == Verdict::Allow {
            ruling.verdict = Verdict::Ask;
        }
        ruling
    }

    fn ran(&mut self, call: &CallState, body: NoteBody) {
        let id = call.id().clone();
        match body {
            NoteBody::Output(text) if text.is_empty() => {}
            NoteBody::Output(text) => drop(self.push(Event::CallOutput { call: id, text })),
            NoteBody::Ended(RunEnd::Ended(ending)) => self.end_call(id, ending),
            NoteBody::Ended(RunEnd::Stale) => {
                let job = self.push(Event::CallStale { call: id.clone() });
                self.effect(Effect::Prepare {
                    job,
                    calls: vec![id],
                });
            }
            NoteBody::Died(message) => self.end_call(
                id,
                Ending::Error {
                    error: died(message),
                },
            ),
            NoteBody::Traced(_)
            | NoteBody::Thought { .. }
            | NoteBody::Text(_)
            | NoteBody::Cited(_)
            | NoteBody::Produced { .. }
            | NoteBody::Answered(_)
            | NoteBody::Compacted(_)
            | NoteBody::Prepared(_) => {}
        }
    }

    fn due(&mut self, job: Seq) {
        if matches!(self.state.phase, Phase::Backoff { job: at, .. } if at == job) {
            let job = self.push(Event::Retried);
            self.effect(Effect::Think { job });
        }
    }

    // What follows.

    fn advance(&mut self) {
        if self.state.suspended {
            return;
        }
        match self.state.phase {
            Phase::Idle => self.next_prompt(),
            Phase::Tools => self.next_calls(),
            Phase::Thinking { .. }
            | Phase::Compacting { .. }
            | Phase::Backoff { .. }
            | Phase::Preparing { .. }
            | Phase::Closed => {}
        }
    }

    fn next_prompt(&mut self) {
        let Some(queued) = self.state.queue.front() else {
            return;
        };
        if let Some(why) = self.worn_out() {
            self.push(Event::TurnEnded {
                turn: queued.turn,
                end: End::Failed(why),
            });
        } else if queued.message.speaks() {
            let job = self.push(Event::TurnBegan { turn: queued.turn });
            self.ask_model(job);
        } else {
            self.push(Event::TurnEnded {
                turn: queued.turn,
                end: End::Nothing,
            });
        }
    }

    fn next_calls(&mut self) {
        let calls = &self.state.calls;
        if calls.is_empty() {
            return self.finish();
        }
        if calls.iter().all(CallState::is_over) {
            let refused = calls.iter().all(|call| call.choice == Some(Choice::Cancel));
            if refused {
                return self.end_turn(End::Refused);
            }
            if let Some(why) = self.worn_out() {
                return self.end_turn(End::Failed(why));
            }
            let job = self.push(Event::ResultsSent);
            return self.ask_model(job);
        }
        let mut editing = calls.iter().any(|call| {
            matches!(call.stage, Stage::Running { .. }) && self.kind(call) == Kind::Edit
        });
        for call in calls.iter().filter(|call| call.stage == Stage::Ready) {
            let kind = self.kind(call);
            // Edits run one after the other: two of them may be of the same file.
            if kind == Kind::Edit && std::mem::replace(&mut editing, true) {
                continue;
            }
            let gate = if kind.mutates() {
                Gate::Synced
            } else {
                Gate::Written
            };
            let id = call.id().clone();
            let job = self.push(Event::CallStarted { call: id.clone() });
            self.effect(Effect::Run {
                job,
                call: id,
                gate,
            });
        }
        if self.state.waits_for_answers() && !self.state.paused {
            self.push(Event::Paused);
        }
    }

    /// The tool's own name, by which rules know it, even if the call uses a former one.
    fn tool<'c>(&'c self, call: &'c CallState) -> &'c str {
        let name = &call.request.name;
        self.rules.tools.get(name).map_or(name, |spec| &spec.name)
    }

    fn kind(&self, call: &CallState) -> Kind {
        self.rules
            .tools
            .get(&call.request.name)
            .map_or(Kind::Other, |spec| spec.kind)
    }

    /// The model has answered without a call: the turn is over, in the way the answer says.
    fn finish(&mut self) {
        let verdict = match self.state.history.last().map(Arc::as_ref) {
            Some(Item::Answered(answer)) => answer.verdict.clone(),
            _ => None,
        };
        let close = |state, text: String| Event::Closed {
            state,
            text: Some(text).filter(|text| !text.is_empty()),
        };
        match verdict {
            None => self.end_turn(End::Done),
            Some(Outcome::Ask(text)) => self.end_turn(End::Asked(text)),
            Some(Outcome::Auth(text)) => self.end_turn(End::NeedsAuth(text)),
            Some(Outcome::Complete(text)) => drop(self.push(close(Final::Completed, text))),
            Some(Outcome::Fail(text)) => drop(self.push(close(Final::Failed, text))),
            Some(Outcome::Reject(text)) => drop(self.push(close(Final::Rejected, text))),
        }
    }

    /// Ends the turn, and with it a task that has only one.
    fn end_turn(&mut self, end: End) {
        let one_shot = self.state.created.lifecycle == Lifecycle::OneShot;
        let event = match end {
            End::Done | End::Refused if one_shot => Event::Closed {
                state: Final::Completed,
                text: None,
            },
            End::Failed(text) if one_shot => Event::Closed {
                state: Final::Failed,
                text: Some(text),
            },
            end => Event::TurnEnded {
                turn: self.state.turn,
                end,
            },
        };
        self.push(event);
    }

    fn end_call(&mut self, call: CallId, ending: Ending) {
        self.push(Event::CallEnded {
            call,
            ending: Arc::new(ending),
        });
    }

    // After a restart.

    fn restored(&mut self) {
        let text = "The server was restarted while the agent was working. What had finished is kept; \
                    send a message to go on.";
        match self.state.phase {
            Phase::Idle | Phase::Closed => {}
            Phase::Backoff { job, delay_ms } => self.effect(Effect::Arm { job, delay_ms }),
            Phase::Thinking { .. } | Phase::Compacting { .. } | Phase::Preparing { .. } => {
                let end = End::Interrupted(text.into());
                self.push(Event::TurnEnded {
                    turn: self.state.turn,
                    end,
                });
            }
            Phase::Tools => self.restored_calls(text),
        }
    }

    fn restored_calls(&mut self, text: &str) {
        if self.state.calls.is_empty() || self.state.waits_for_answers() || self.state.suspended {
            return;
        }
        let interrupted = |message: &str| Ending::Error {
            error: CallError::new(ErrorKind::Interrupted, message),
        };
        let mut open = 0;
        for call in &self.state.calls {
            let id = call.id().clone();
            match call.stage {
                Stage::Ended => {}
                Stage::Asked | Stage::Ready => open += 1,
                Stage::Running { .. } => {
                    let message = "The server was stopped while this call was running. It may have \
                                   had effects; look before you run it again.";
                    self.end_call(id, interrupted(message));
                }
                // The crash may have torn a decision apart: the answer was kept, what follows from it was not.
                Stage::Answered if call.choice == Some(Choice::Cancel) => {
                    let plan = call.plan.as_ref().expect("an answered call has a plan");
                    self.end_call(id, refused(plan));
                }
                Stage::Answered => {
                    self.push(Event::CallReady { call: id });
                    open += 1;
                }
                Stage::Named | Stage::Planned | Stage::Replanning { .. } => {
                    let message = "The server was stopped before this call had begun. Nothing was \
                                   changed; it can be made again.";
                    self.end_call(id, interrupted(message));
                }
            }
        }
        if open == 0 {
            let end = End::Interrupted(text.into());
            self.push(Event::TurnEnded {
                turn: self.state.turn,
                end,
            });
        } else {
            self.push(Event::Interrupted { text: text.into() });
        }
    }
}

fn refused(plan: &Plan) -> Ending {
    let reason = if plan.question.asks_the_user() {
        "The user dismissed the questions without answering them."
    } else {
        "The user did not allow this call."
    };
    Ending::Cancelled {
        reason: reason.to_owned(),
        output: String::new(),
    }
}

fn died(message: String) -> CallError {
    CallError::new(
        ErrorKind::UnhandledException,
        format!("The tool ended unexpectedly: {message}"),
    )
}

fn too_many(limit: usize) -> CallError {
    let message = format!("Too many calls in one answer; at most {limit} are run.");
    CallError::new(ErrorKind::InvalidToolParams, message)
}

/// A tool call as it is before `decide` has given it an id.
pub fn unnamed(name: String, args: serde_json::Value, api_id: Option<String>) -> Request {
    Request {
        call: CallId::from(""),
        name,
        args,
        api_id,
    }
}
