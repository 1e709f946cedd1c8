//! Every interleaving of a small world around one task, breadth first: two people answering two questions (an edit and a
//! command), a second prompt, a cancel, a crash at any event and the restart after it, a file that changes under its edit, a
//! model that fails, timers, and workers that report after nobody waits for them.
//!
//! Whatever the order, every promise in `task/system.rs` holds after every event and in every settled state: the first answer
//! wins, a call runs only if it was allowed and once per yes, nothing follows the end, nothing hangs, and the journal folds to
//! the same state. A crash may keep any prefix of a step's events, because a torn write does.
//!
//! That the search can tell is tested too: machines with one promise broken each are caught, by the shortest way there.

#[path = "task/system.rs"]
mod system;
mod task;

use gemini_a2a::limits::{Limits, Times};
use gemini_a2a::task::log::event::{End, Event, Final, Lifecycle};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Decision, Effect, Gate, Input, Refusal, Rules, decide};
use gemini_a2a::task::machine::state::{CallState, Phase, Stage, State};
use gemini_a2a::task::policy::{Grant, Policy};
use gemini_a2a::task::spec::{Choice, Confinement};
use std::collections::HashSet;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use system::{Action, Budget, Environment, Machine, Observations, SystemState};

/// One step of a path: what happened, and how many of its events survived if the server died while writing them.
#[derive(Clone, Copy, Debug)]
struct Step {
    action: Action,
    torn_after: Option<usize>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        match self.torn_after {
            Some(kept) => write!(f, ", but a crash keeps only {kept} of its events"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Default)]
struct Extent {
    states: usize,
    steps: usize,
    depth: usize,
    /// Journals read back.
    replays: usize,
    /// The kinds of events that occurred.
    kinds: HashSet<Discriminant<Event>>,
}

#[derive(Debug)]
struct Violation {
    invariant: String,
    path: Vec<String>,
}

struct Node {
    parent: usize,
    depth: usize,
    step: Option<Step>,
    records: Vec<Record>,
    /// Taken when the node is looked at, so that memory holds the frontier only.
    system: Option<SystemState>,
}

struct Search {
    environment: Environment,
    nodes: Vec<Node>,
    seen: HashSet<u64>,
    extent: Extent,
}

fn search(machine: Machine, budget: Budget) -> Result<Extent, Violation> {
    search_from(task::created(Lifecycle::Conversational), machine, budget)
}

/// From the first event on.
fn search_from(first: Event, machine: Machine, budget: Budget) -> Result<Extent, Violation> {
    search_in(Times::default(), first, machine, budget)
}

fn search_in(times: Times, first: Event, machine: Machine, budget: Budget) -> Result<Extent, Violation> {
    let keeps = budget.always > 0;
    let mut search = Search {
        environment: Environment {
            machine,
            tools: task::tools(),
            limits: Limits { model_tries: 3, stream_tries: 3, times, ..Limits::default() },
            policy: Policy::built_in(),
            grant: Grant { saving: keeps, auto_execute: false },
        },
        nodes: Vec::new(),
        seen: HashSet::new(),
        extent: Extent::default(),
    };
    search.plant(first, budget);
    let mut at = 0;
    while at < search.nodes.len() {
        search.visit(at)?;
        at += 1;
    }
    search.extent.states = search.nodes.len();
    Ok(search.extent)
}

impl Search {
    /// The root: a task with its first prompt, not begun yet.
    fn plant(&mut self, first: Event, budget: Budget) {
        let case = task::given([first]);
        let mut system = SystemState {
            state: case.state,
            workers: Vec::new(),
            timers: Vec::new(),
            observations: Observations::default(),
            budget,
        };
        let mut records = case.log;
        let first = system.take(task::say("go"), &self.environment);
        records.extend(first.expect("a first prompt is taken"));
        self.nodes.push(Node { parent: 0, depth: 0, step: None, records, system: Some(system) });
    }

    fn visit(&mut self, at: usize) -> Result<(), Violation> {
        let system = self.nodes[at].system.take().expect("looked at once");
        let actions = system.actions();
        if actions.is_empty() {
            self.replay(at, &system.state)?;
        }
        for action in actions {
            let mut next = system.clone();
            let step = Step { action, torn_after: None };
            let records = self.try_step(at, step, || {
                let input = next.input(action);
                next.take(input, &self.environment)
            })?;
            if matches!(action, Action::Crash) {
                self.replay(at, &system.state)?;
            }
            let may_tear = next.budget.crashes > 0;
            self.reach(at, step, next, records.clone());
            for kept in 1..records.len() {
                if may_tear {
                    self.tear(at, &system, action, &records, kept)?;
                }
            }
        }
        Ok(())
    }

    /// The same step, but the server died when only its first events were on disk, and was started again.
    fn tear(
        &mut self,
        at: usize,
        system: &SystemState,
        action: Action,
        records: &[Record],
        kept: usize,
    ) -> Result<(), Violation> {
        let step = Step { action, torn_after: Some(kept) };
        let mut next = system.clone();
        let after = self.try_step(at, step, || {
            drop(next.input(action));
            for record in &records[..kept] {
                next.admit(record)?;
            }
            next.die();
            next.take(Input::Restored, &self.environment)
        })?;
        let mut all = records[..kept].to_vec();
        all.extend(after);
        self.reach(at, step, next, all);
        Ok(())
    }

    /// A broken promise, and a panic too, becomes the path that leads to it.
    fn try_step(
        &self,
        at: usize,
        step: Step,
        take: impl FnOnce() -> Result<Vec<Record>, String>,
    ) -> Result<Vec<Record>, Violation> {
        let result = catch_unwind(AssertUnwindSafe(take));
        let result = result.unwrap_or_else(|_| Err("the machine panicked".into()));
        result.map_err(|invariant| self.broken(at, Some(step), invariant))
    }

    fn reach(&mut self, parent: usize, step: Step, system: SystemState, records: Vec<Record>) {
        self.extent.steps += 1;
        if !self.seen.insert(system.digest()) {
            return;
        }
        let depth = self.nodes[parent].depth + 1;
        self.extent.depth = self.extent.depth.max(depth);
        let kinds = records.iter().map(|record| discriminant(&record.event));
        self.extent.kinds.extend(kinds);
        self.nodes.push(Node { parent, depth, step: Some(step), records, system: Some(system) });
    }

    /// Reads the log back from the lines of its journal: the same events, without a gap, and the same state.
    fn replay(&mut self, at: usize, state: &State) -> Result<(), Violation> {
        self.extent.replays += 1;
        let mut journal = Vec::new();
        for node in self.line(at) {
            for record in &self.nodes[node].records {
                record.write(&mut journal);
            }
        }
        let mut lines = journal.split(|byte| *byte == b'\n');
        let read = |line: &[u8]| Record::read(line).expect("a line we have just written");
        let first = read(lines.next().expect("a log is never empty"));
        let mut folded = task::born(&first);
        for line in lines.filter(|line| !line.is_empty()) {
            let record = read(line);
            if record.seq != folded.seq.next() || record.at < folded.at {
                return Err(self.broken(at, None, format!("{record:?} after {}", folded.seq)));
            }
            folded.apply(&record);
        }
        if folded != *state {
            let invariant = format!("the journal folds to {folded:?}, not to {state:?}");
            return Err(self.broken(at, None, invariant));
        }
        Ok(())
    }

    /// The nodes from the root to this one.
    fn line(&self, at: usize) -> Vec<usize> {
        let mut line = vec![at];
        let mut at = at;
        while self.nodes[at].depth > 0 {
            at = self.nodes[at].parent;
            line.push(at);
        }
        line.reverse();
        line
    }

    fn broken(&self, at: usize, last: Option<Step>, invariant: String) -> Violation {
        let steps = self.line(at).into_iter().map(|node| self.nodes[node].step);
        let path = steps.chain([last]).flatten().map(|step| step.to_string());
        Violation { invariant, path: path.collect() }
    }
}

impl Violation {
    fn report(&self) -> String {
        format!("{}\n  after {}", self.invariant, self.path.join("\n   then "))
    }
}

/// Everything once.
const ONCE: Budget =
    Budget { prompts: 1, cancels: 1, crashes: 1, stales: 1, faults: 1, always: 0, hooks: 0, aborts: 0, lates: 0 };

fn explored(budget: Budget) -> Extent {
    explored_from(task::created(Lifecycle::Conversational), budget)
}

fn explored_from(first: Event, budget: Budget) -> Extent {
    explored_in(Times::default(), first, budget)
}

fn explored_in(times: Times, first: Event, budget: Budget) -> Extent {
    match search_in(times, first, decide, budget) {
        Ok(extent) => {
            let Extent { states, steps, depth, replays, .. } = extent;
            println!("{states} states, {steps} steps, {depth} deep, {replays} journals replayed");
            extent
        }
        Err(broken) => panic!("{}", broken.report()),
    }
}

#[test]
fn no_order_of_events_violates_an_invariant() {
    let extent = explored(ONCE);
    let edit = task::edit();
    let all = [
        task::prompted(1, ""),
        task::began(1),
        task::turn_ended(1, End::Done),
        task::text(""),
        Event::Retracted { reason: String::new() },
        task::backed_off(1, 0, 1),
        Event::Retried,
        task::answered(&[]),
        task::planned(&edit),
        task::asked(&edit),
        task::chosen(&edit, Choice::Cancel),
        task::ready(&edit),
        task::started(&edit),
        task::ended(&edit, task::success()),
        task::stale(&edit),
        Event::Paused,
        Event::ResultsSent,
        Event::Interrupted { text: String::new() },
        Event::Resumed,
        task::canceled(),
    ];
    let missing = all.iter().find(|event| !extent.kinds.contains(&discriminant(event)));
    assert_eq!(missing, None, "the world is too kind for this to happen");
    assert!(extent.states > 40_000, "{} states", extent.states);
}

#[test]
fn a_crash_during_the_restart_violates_no_invariant() {
    let extent = explored(Budget {
        prompts: 2,
        cancels: 0,
        crashes: 2,
        stales: 1,
        faults: 0,
        always: 0,
        hooks: 0,
        aborts: 0,
        lates: 0,
    });
    assert!(extent.states > 15_000, "{} states", extent.states);
}

/// "Always" is a yes like any other: it is used up once, does not cover a file that changed, survives a crash whole or not at
/// all, and is kept on disk only if that was said.
#[test]
fn lasting_grants_violate_no_invariant() {
    let extent = explored(Budget {
        prompts: 0,
        cancels: 0,
        crashes: 1,
        stales: 1,
        faults: 0,
        always: 2,
        hooks: 0,
        aborts: 0,
        lates: 0,
    });
    assert!(extent.states > 2_000, "{} states", extent.states);
}

/// A webhook that is set at any time, also after the end, is told in order how the task stands, whatever is delivered when.
#[test]
fn webhooks_violate_no_invariant() {
    let extent = explored(Budget {
        prompts: 1,
        cancels: 1,
        crashes: 1,
        stales: 0,
        faults: 0,
        always: 0,
        hooks: 1,
        aborts: 0,
        lates: 0,
    });
    assert!(extent.states > 10_000, "{} states", extent.states);
    let moved = task::hook_moved("h", 1);
    assert!(extent.kinds.contains(&discriminant(&moved)));
}

/// The clock is one more who may answer, and it may end a turn or a task at any moment: also after a restart, and beside others.
#[test]
fn time_limits_violate_no_invariant() {
    let never = Times { answer_ms: None, turn_ms: None, idle_ms: None, retention_ms: None };
    let limit = Some(1_000);
    let budget = Budget { faults: 0, lates: 1, ..ONCE };
    let answers = Times { answer_ms: limit, idle_ms: limit, ..never };
    let turns = Times { turn_ms: limit, answer_ms: limit, ..never };
    for (times, aborts) in [(answers, 0), (turns, 1)] {
        let budget = Budget { aborts, cancels: 1 - aborts, ..budget };
        let extent = explored_in(times, task::created(Lifecycle::Conversational), budget);
        assert!(extent.states > 20_000, "{} states", extent.states);
    }
}

#[test]
fn a_timeout_that_does_not_stop_the_work_is_caught() {
    fn hasty(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let late = matches!(input, Input::Time(_));
        let mut decision = decide(state, input, rules)?;
        if late {
            decision.effects.clear();
        }
        Ok(decision)
    }
    let times = Times { turn_ms: Some(1_000), ..Times::default() };
    let budget = Budget { lates: 1, ..ONCE };
    let first = task::created(Lifecycle::Conversational);
    let broken = search_in(times, first, hasty, budget).expect_err("a promise is broken");
    assert_eq!(broken.invariant, "jobs [Seq(3)] run, [] are waited for");
    assert_eq!(broken.path, ["it is late"]);
}

/// A command runs once at most, whatever happens around it, and a model it set to work is held to everything a model is.
#[test]
fn slash_command_tasks_violate_no_invariant() {
    let extent = explored_from(task::created_to_run("memory show"), Budget { stales: 0, ..ONCE });
    let all = [
        Event::CommandPrompted { text: String::new() },
        Event::Produced { artifact: task::result(""), append: false, last: true },
        task::closed(Final::Completed, ""),
        task::started(&task::edit()),
        Event::Interrupted { text: String::new() },
    ];
    let missing = all.iter().find(|event| !extent.kinds.contains(&discriminant(event)));
    assert_eq!(missing, None, "the world is too kind for this to happen");
    assert!(extent.states > 10_000, "{} states", extent.states);
}

#[test]
fn a_command_that_runs_again_after_a_restart_is_caught() {
    fn eager(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        if let (Input::Restored, Phase::Commanding { job }) = (&input, &state.phase) {
            return Ok(Decision { events: vec![], effects: vec![Effect::Command { job: *job }] });
        }
        decide(state, input, rules)
    }
    let first = task::created_to_run("memory add");
    let broken = search_from(first, eager, ONCE).expect_err("a promise is broken");
    assert_eq!(
        (broken.invariant.as_str(), broken.path.as_slice()),
        ("the command runs twice", &["crash".to_owned()][..]),
        "{}",
        broken.report()
    );
}

#[test]
fn a_rule_that_covers_a_changed_file_is_caught() {
    fn lax(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut state = state.clone();
        for call in &mut state.calls {
            call.stale = 0;
        }
        decide(&state, input, rules)
    }
    let budget = Budget { always: 1, crashes: 0, ..ONCE };
    let broken = search(lax, budget).expect_err("a promise is broken");
    assert_eq!(broken.invariant, "write_file__e is ready and nobody allowed it", "{}", broken.report());
}

/// The search finds what is wrong with a machine, and the shortest way there.
#[track_caller]
fn catches(machine: Machine, invariant: &str, path: &[&str]) {
    match search(machine, ONCE) {
        Ok(extent) => panic!("nothing was found: {extent:?}"),
        Err(broken) => {
            assert_eq!(broken.invariant, invariant, "{}", broken.report());
            assert_eq!(broken.path, path, "{}", broken.report());
        }
    }
}

#[test]
fn a_second_answer_that_counts_is_caught() {
    fn gullible(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let late = match &input {
            Input::Say { said, by } => said.answers.first().map(|pick| (pick.call.clone(), by.clone())),
            _ => None,
        };
        match (decide(state, input, rules), late) {
            (Err(Refusal::NotPending(_)), Some((call, by))) if state.call(&call).is_some() => {
                let (edited, answers) = (None, None);
                let choice = Choice::ProceedOnce;
                Ok(Decision {
                    events: vec![Event::CallAnswered { call, choice, by, edited, answers, rules: vec![] }],
                    effects: vec![],
                })
            }
            (result, _) => result,
        }
    }
    catches(
        gullible,
        "write_file__e was answered twice",
        &[
            "job 3 reports Answer",
            "job 4 reports Prepared",
            "ann says proceed_once to the edit",
            "bob says proceed_once to the edit",
        ],
    );
}

#[test]
fn a_call_that_runs_again_after_a_restart_is_caught() {
    fn eager(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let running = |call: &&CallState| matches!(call.stage, Stage::Running { .. });
        if let (Input::Restored, Some(call)) = (&input, state.calls.iter().find(running)) {
            let call = call.id().clone();
            return Ok(Decision {
                events: vec![Event::CallStarted { call: call.clone() }],
                effects: vec![Effect::Run { job: state.seq.next(), call, gate: Gate::Synced }],
            });
        }
        decide(state, input, rules)
    }
    catches(
        eager,
        "write_file__e started and nobody allowed it",
        &["job 3 reports Answer", "job 4 reports Prepared", "ann says proceed_once to the edit", "crash"],
    );
}

#[test]
fn a_late_note_that_counts_is_caught() {
    fn trusting(state: &State, mut input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        if let (Input::Note { job, .. }, Phase::Thinking { job: current }) = (&mut input, &state.phase) {
            *job = *current;
        }
        decide(state, input, rules)
    }
    catches(
        trusting,
        "jobs [Seq(6), Seq(7)] run, [Seq(7)] are waited for",
        &["crash", "prompt", "job 3 reports Answer"],
    );
}

#[test]
fn a_forgotten_pause_is_caught() {
    fn silent(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut decision = decide(state, input, rules)?;
        decision.events.retain(|event| *event != Event::Paused);
        Ok(decision)
    }
    catches(silent, "Working was announced in Tools", &["job 3 reports Answer", "job 4 reports Prepared"]);
}

#[test]
fn a_job_that_outlives_its_task_is_caught() {
    fn careless(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut decision = decide(state, input, rules)?;
        decision.effects.retain(|effect| !matches!(effect, Effect::Stop { .. }));
        Ok(decision)
    }
    catches(careless, "jobs [Seq(3)] run, [] are waited for", &["cancel"]);
}

#[test]
fn a_call_that_nobody_was_asked_about_is_caught() {
    fn bold(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut decision = decide(state, input, rules)?;
        for event in &mut decision.events {
            if let Event::CallAsked { call, .. } = event {
                *event = Event::CallReady { call: call.clone(), confinement: Confinement::None };
            }
        }
        Ok(decision)
    }
    catches(bold, "write_file__e is ready and nobody allowed it", &["job 3 reports Answer", "job 4 reports Prepared"]);
}

#[test]
fn a_turn_that_forgets_a_restart_is_caught() {
    fn forgetful(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        match input {
            Input::Restored => Ok(Decision::default()),
            input => decide(state, input, rules),
        }
    }
    catches(forgetful, "jobs [] run, [Seq(3)] are waited for", &["crash"]);
}
