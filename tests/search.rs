//! Breadth-first search of every interleaving around one task: two users who answer two questions (about an edit and a
//! command), a second prompt, a cancel, a crash at any event and the restart after it, a file that changes before its edit, a
//! model that fails, timers, and workers that report too late.
//!
//! In every order, the invariants hold after every event (`observations.rs`) and in every settled state (`invariants.rs`): the
//! first answer counts, a call runs only if it was approved and once per approval, nothing follows the end, nothing hangs, and
//! the journal folds to the same state. A crash may keep any prefix of a step's events, as a torn write does.
//!
//! `faulty_machines.rs` tests the search: it finds the shortest path to the fault of each faulty machine.

#[path = "search/digest.rs"]
mod digest;
#[path = "search/faulty_machines.rs"]
mod faulty_machines;
#[path = "search/invariants.rs"]
mod invariants;
#[path = "search/observations.rs"]
mod observations;
#[path = "search/system.rs"]
mod system;
mod task;

use gemini_a2a::limits::{Limits, Times};
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::{End, Event, Final, Lifecycle};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Input, decide};
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::policy::{Grant, Policy};
use gemini_a2a::task::spec::Choice;
use observations::Observations;
use std::collections::HashSet;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use system::{Action, Budget, Environment, Machine, SystemState};

/// One step of a path: the action, and how many of its events are on disk if the server crashed while it wrote them.
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

/// What a search has covered.
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
    /// Taken when the node is visited, so that memory holds only the frontier.
    system: Option<SystemState>,
}

struct Search {
    environment: Environment,
    nodes: Vec<Node>,
    seen: HashSet<u64>,
    extent: Extent,
}

/// The calls of the model's first answer.
type Calls = fn() -> [Request; 2];
const EDIT_AND_COMMAND: Calls = || [task::edit(), task::shell()];

fn search(machine: Machine, budget: Budget) -> Result<Extent, Violation> {
    search_from(task::created(Lifecycle::Conversational), machine, budget)
}

/// A search that begins with this first event.
fn search_from(first: Event, machine: Machine, budget: Budget) -> Result<Extent, Violation> {
    search_in(Times::default(), first, EDIT_AND_COMMAND, machine, budget)
}

fn search_in(times: Times, first: Event, calls: Calls, machine: Machine, budget: Budget) -> Result<Extent, Violation> {
    let keeps = budget.always > 0;
    let mut search = Search {
        environment: Environment {
            machine,
            tools: task::tools(),
            limits: Limits { model_tries: 3, stream_tries: 3, times, ..Limits::default() },
            policy: Policy::built_in(),
            grant: Grant { saving: keeps, ..Grant::default() },
        },
        nodes: Vec::new(),
        seen: HashSet::new(),
        extent: Extent::default(),
    };
    search.add_root(first, calls, budget);
    let mut at = 0;
    while at < search.nodes.len() {
        search.visit(at)?;
        at += 1;
    }
    search.extent.states = search.nodes.len();
    Ok(search.extent)
}

impl Search {
    /// The root: a task that has received its first prompt.
    fn add_root(&mut self, first: Event, calls: Calls, budget: Budget) {
        let case = task::given([first]);
        let mut system = SystemState {
            calls: calls(),
            state: case.state,
            workers: Vec::new(),
            timers: Vec::new(),
            observations: Observations::default(),
            budget,
        };
        let mut records = case.log;
        let first = system.step(task::prompt("go"), &self.environment);
        records.extend(first.expect("the first prompt is accepted"));
        self.nodes.push(Node { parent: 0, depth: 0, step: None, records, system: Some(system) });
    }

    fn visit(&mut self, at: usize) -> Result<(), Violation> {
        let system = self.nodes[at].system.take().expect("each node is visited once");
        let actions = system.actions();
        if actions.is_empty() {
            self.replay(at, &system.state)?;
        }
        for action in actions {
            let mut next = system.clone();
            let step = Step { action, torn_after: None };
            let records = self.try_step(at, step, || {
                let input = next.input(action);
                next.step(input, &self.environment)
            })?;
            if matches!(action, Action::Crash) {
                self.replay(at, &system.state)?;
            }
            let may_tear = next.budget.crashes > 0;
            self.add_node(at, step, next, records.clone());
            for kept in 1..records.len() {
                if may_tear {
                    self.crash_while_writing(at, &system, action, &records, kept)?;
                }
            }
        }
        Ok(())
    }

    /// The same step, but the server crashes when only its first events are on disk, and restarts.
    fn crash_while_writing(
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
                next.append(record)?;
            }
            next.crash();
            next.step(Input::Interrupted, &self.environment)
        })?;
        let mut all = records[..kept].to_vec();
        all.extend(after);
        self.add_node(at, step, next, all);
        Ok(())
    }

    /// Runs a step; a violated invariant or a panic is returned with the path that leads to it.
    fn try_step(
        &self,
        at: usize,
        step: Step,
        run: impl FnOnce() -> Result<Vec<Record>, String>,
    ) -> Result<Vec<Record>, Violation> {
        let result = catch_unwind(AssertUnwindSafe(run));
        let result = result.unwrap_or_else(|_| Err("the machine panicked".into()));
        result.map_err(|invariant| self.violation(at, Some(step), invariant))
    }

    fn add_node(&mut self, parent: usize, step: Step, system: SystemState, records: Vec<Record>) {
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

    /// Reads the log back from its journal and checks that the events have no gap and fold to the same state.
    fn replay(&mut self, at: usize, state: &State) -> Result<(), Violation> {
        self.extent.replays += 1;
        let mut journal = Vec::new();
        for node in self.path_to(at) {
            for record in &self.nodes[node].records {
                record.write(&mut journal);
            }
        }
        let mut lines = journal.split(|byte| *byte == b'\n');
        let read = |line: &[u8]| Record::read(line).expect("a line we have just written");
        let first = read(lines.next().expect("a log is never empty"));
        let mut folded = task::first_state(&first);
        for line in lines.filter(|line| !line.is_empty()) {
            let record = read(line);
            if record.seq != folded.seq.next() || record.at < folded.at {
                return Err(self.violation(at, None, format!("{record:?} after {}", folded.seq)));
            }
            folded.apply(&record);
        }
        if folded != *state {
            let invariant = format!("the journal folds to {folded:?}, not to {state:?}");
            return Err(self.violation(at, None, invariant));
        }
        Ok(())
    }

    /// The nodes from the root to this one.
    fn path_to(&self, at: usize) -> Vec<usize> {
        let mut line = vec![at];
        let mut at = at;
        while self.nodes[at].depth > 0 {
            at = self.nodes[at].parent;
            line.push(at);
        }
        line.reverse();
        line
    }

    fn violation(&self, at: usize, last: Option<Step>, invariant: String) -> Violation {
        let steps = self.path_to(at).into_iter().map(|node| self.nodes[node].step);
        let path = steps.chain([last]).flatten().map(|step| step.to_string());
        Violation { invariant, path: path.collect() }
    }
}

impl Violation {
    fn report(&self) -> String {
        format!("{}\n  after {}", self.invariant, self.path.join("\n   then "))
    }
}

/// Each fault and user action once; no lasting answers, webhooks, disconnects or time limits.
const ONCE: Budget = Budget {
    prompts: 1,
    cancels: 1,
    crashes: 1,
    stales: 1,
    faults: 1,
    always: 0,
    hooks: 0,
    steers: 0,
    drops: 0,
    aborts: 0,
    time_jumps: 0,
};

fn explored(budget: Budget) -> Extent {
    explored_from(task::created(Lifecycle::Conversational), budget)
}

fn explored_from(first: Event, budget: Budget) -> Extent {
    explored_in(Times::default(), first, EDIT_AND_COMMAND, budget)
}

fn explored_in(times: Times, first: Event, calls: Calls, budget: Budget) -> Extent {
    match search_in(times, first, calls, decide, budget) {
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
    assert_eq!(missing, None, "no path contains this event");
    assert!(extent.states > 40_000, "{} states", extent.states);
}

#[test]
fn a_crash_during_the_restart_violates_no_invariant() {
    let extent = explored(Budget { prompts: 2, cancels: 0, crashes: 2, faults: 0, ..ONCE });
    assert!(extent.states > 15_000, "{} states", extent.states);
}

/// Of two edits of one file the first runs first, in whatever order they are answered.
#[test]
fn two_edits_of_one_file_violate_no_invariant() {
    let budget = Budget { faults: 0, always: 1, ..ONCE };
    let first = task::created(Lifecycle::Conversational);
    let extent = explored_in(Times::default(), first, || [task::edit(), task::call(task::EDIT, "f")], budget);
    assert!(extent.states > 10_000, "{} states", extent.states);
}

/// An "always" answer starts its call once, does not cover a changed file, survives a crash whole or not at all, and is saved
/// to disk only if the user asked for that.
#[test]
fn lasting_grants_violate_no_invariant() {
    let extent = explored(Budget { prompts: 0, cancels: 0, faults: 0, always: 2, ..ONCE });
    assert!(extent.states > 2_000, "{} states", extent.states);
}

/// A webhook may be set at any time, even after the end; its receiver is delivered every status in order.
#[test]
fn webhooks_violate_no_invariant() {
    let extent = explored(Budget { stales: 0, faults: 0, hooks: 1, ..ONCE });
    assert!(extent.states > 10_000, "{} states", extent.states);
    let moved = task::hook_moved("h", 1);
    assert!(extent.kinds.contains(&discriminant(&moved)));
}

/// A turn may be stopped at any moment; a prompt may reach the model in the middle of a turn, or be taken back before.
#[test]
fn stopping_and_steering_violate_no_invariant() {
    let budget = Budget { cancels: 0, stales: 0, faults: 0, steers: 1, drops: 1, aborts: 1, ..ONCE };
    let extent = explored(budget);
    for event in [Event::Steered { turn: 2 }, Event::Dropped { turn: 2, by: task::bob() }] {
        assert!(extent.kinds.contains(&discriminant(&event)), "no path contains {event:?}");
    }
    assert!(extent.states > 10_000, "{} states", extent.states);
}

/// A time limit may answer a question, end a turn or close a task at any moment, also after a restart.
#[test]
fn time_limits_violate_no_invariant() {
    let never = Times { answer_ms: None, turn_ms: None, idle_ms: None, retention_ms: None };
    let limit = Some(1_000);
    let budget = Budget { faults: 0, time_jumps: 1, ..ONCE };
    let answers = Times { answer_ms: limit, idle_ms: limit, ..never };
    let turns = Times { turn_ms: limit, answer_ms: limit, ..never };
    for (times, aborts) in [(answers, 0), (turns, 1)] {
        let budget = Budget { aborts, cancels: 1 - aborts, ..budget };
        let extent = explored_in(times, task::created(Lifecycle::Conversational), EDIT_AND_COMMAND, budget);
        assert!(extent.states > 20_000, "{} states", extent.states);
    }
}

/// A command runs at most once, and the invariants of the model hold for a command that continues with the model.
#[test]
fn slash_command_tasks_violate_no_invariant() {
    let extent = explored_from(task::created_to_run("memory show"), Budget { stales: 0, ..ONCE });
    let all = [
        Event::CommandPrompted { text: String::new(), media: vec![] },
        Event::Produced { artifact: task::result(""), append: false, last: true },
        task::closed(Final::Completed, ""),
        task::started(&task::edit()),
        Event::Interrupted { text: String::new() },
    ];
    let missing = all.iter().find(|event| !extent.kinds.contains(&discriminant(event)));
    assert_eq!(missing, None, "no path contains this event");
    assert!(extent.states > 10_000, "{} states", extent.states);
}
