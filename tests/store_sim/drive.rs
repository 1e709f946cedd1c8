//! A run: clients and faults for a while, then calm, then the checks.

use crate::behaviour::{drain, live};
use crate::clients::{self, Wish};
use crate::node::Node;
use crate::simulation::{Event, SECOND, Simulation};
use crate::state::Call;
use crate::variant::Variant;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::bucket::replica::InstanceId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long clients and faults act.
const ACTIVE: u64 = 1_300 * SECOND;

/// How long it may take until all work has ended: a death is noticed, three grace periods pass, and a scan runs.
const CALM: u64 = 3_200 * SECOND;

/// Tasks per run.
const TASKS: usize = 9;

/// What a run did, and which invariant broke.
pub struct Run {
    pub stats: BTreeMap<&'static str, u64>,
    pub broken: Option<String>,
}

pub fn run(seed: u64, variant: Variant) -> Run {
    let simulation = Simulation::new(seed, variant);
    for host in 0..simulation.pick(&[2, 3, 3]) {
        let node = Node::new(&simulation, host, InstanceId::from(format!("i{}", simulation.id())));
        simulation.hosts.borrow_mut().push(node.clone());
        simulation.spawn(&node.machine, live(node.clone(), None));
    }
    simulation.schedule(0, Event::Drive);
    simulation.run(ACTIVE);
    simulation.calm();
    simulation.run(ACTIVE + CALM);
    if simulation.broken().is_none() {
        simulation.check_end();
    }
    let run = Run { stats: simulation.stats(), broken: simulation.broken() };
    simulation.end();
    run
}

impl Simulation {
    /// Injects no more faults. At least one instance lives; some stay dead.
    fn calm(&self) {
        self.is_calm.set(true);
        let hosts = self.hosts.borrow().clone();
        let kept = self.below(hosts.len() as u64) as usize;
        for (host, node) in hosts.iter().enumerate() {
            let machine = &node.machine;
            machine.cut_until.set(0);
            let pause = self.now.get() + self.pick(&[0, 100, 700]) * SECOND;
            machine.paused_until.set(machine.paused_until.get().min(pause));
            if host != kept && self.percent(40) && !machine.is_dead.get() {
                machine.is_dead.set(true);
                machine.tools.borrow_mut().clear();
            }
        }
    }

    /// One random act of a client or one fault; schedules the next.
    pub fn drive(self: &Rc<Simulation>) {
        if self.is_calm.get() {
            return;
        }
        // An exponential distribution with a mean of four seconds.
        let uniform = (self.below(1_000_000) + 1) as f64 / 1_000_000.0;
        self.schedule((-uniform.ln() * 4.0 * SECOND as f64) as u64, Event::Drive);
        let is_up = |node: &&Rc<Node>| !node.machine.is_dead.get() && node.is_ready.get();
        let up: Vec<Rc<Node>> = self.hosts.borrow().iter().filter(is_up).cloned().collect();
        let Some(node) = up.get(self.below(up.len() as u64) as usize).cloned() else {
            return;
        };
        let known: Vec<TaskId> = {
            let truth = self.truth.borrow();
            truth.logs.keys().filter(|task| !truth.freed.contains(*task) || self.percent(30)).cloned().collect()
        };
        let x = self.below(1_000);
        if x < 80 || known.is_empty() {
            if self.truth.borrow().logs.len() < TASKS {
                let context = self.pick(&["A", "B"]).to_owned();
                self.spawn(&node.machine, clients::create(node.clone(), context));
            }
            return;
        }
        self.act(x, &node, &up, &known);
    }

    fn act(self: &Rc<Simulation>, x: u64, node: &Rc<Node>, up: &[Rc<Node>], known: &[TaskId]) {
        let task = known[self.below(known.len() as u64) as usize].clone();
        let Some((context, turn)) = self.facts(&task) else {
            return;
        };
        let waiting = self.waiting(known);
        let (machine, of, trouble) = (&node.machine, node.clone(), self.trouble);
        // Of a hundred acts at the usual rate, 1.2 are pauses, 1.0 kills, 0.8 cut-offs and 0.4 shutdowns.
        let at = |share: u64| 850 + share * trouble / 1_000;
        match x {
            0..260 => self.spawn(machine, clients::prompt(of, task, context)),
            260..560 if !waiting.is_empty() => self.answer_one(node, up, &waiting),
            260..600 => {
                if let Some(turn) = turn {
                    self.spawn(machine, clients::carry_out(of, task, context, Wish::Cancel { turn }));
                }
            }
            600..660 => self.spawn(machine, clients::delete(of, task, context, self.percent(40))),
            660..800 => self.spawn(machine, clients::get(of, task, context)),
            800..850 => self.spawn(machine, clients::follow(of, task, context)),
            x if x < at(120) => self.pause(machine),
            x if x < at(220) => self.kill(machine),
            x if x < at(300) => {
                machine.cut_until.set(self.now.get() + self.pick(&[3, 15, 38, 60, 150]) * SECOND);
                self.count("cut off", 1);
            }
            x if x < at(340) => self.spawn(machine, drain(of)),
            _ => {}
        }
    }

    /// Answers an open question, now and then on two instances at once.
    fn answer_one(self: &Rc<Simulation>, node: &Rc<Node>, up: &[Rc<Node>], waiting: &[(TaskId, u64)]) {
        let (task, call) = waiting[self.below(waiting.len() as u64) as usize].clone();
        let Some((context, _)) = self.facts(&task) else {
            return;
        };
        let mut nodes = vec![node.clone()];
        if self.percent(30) {
            nodes.push(up[self.below(up.len() as u64) as usize].clone());
        }
        for node in nodes {
            let wish = Wish::Answer { call, yes: self.percent(85) };
            self.spawn(&node.machine, clients::carry_out(node.clone(), task.clone(), context.clone(), wish));
        }
    }

    /// The context of a task and its turn.
    fn facts(&self, task: &TaskId) -> Option<(String, Option<u64>)> {
        let truth = self.truth.borrow();
        let state = &truth.logs.get(task)?.state;
        Some((state.context.clone()?, state.turn))
    }

    /// Open questions.
    fn waiting(&self, known: &[TaskId]) -> Vec<(TaskId, u64)> {
        let truth = self.truth.borrow();
        let asked = |task: &TaskId| truth.logs[task].state.calls_that_are(Call::Asked);
        known.iter().flat_map(|task| asked(task).into_iter().map(|call| (task.clone(), call))).collect()
    }
}
