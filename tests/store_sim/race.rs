//! Two instances that claim the same task at the same tail.

use crate::node::Node;
use crate::simulation::{MS, SECOND, Simulation};
use crate::variant::Variant;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::bucket::replica::InstanceId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What one run did.
#[derive(Default)]
pub struct Race {
    /// The instances whose claim has succeeded, and in which epoch.
    pub winners: Vec<(String, u64)>,
    /// How many claims have failed.
    pub losers: usize,
    /// The owners that the log names, in order, and their epochs.
    pub owners: Vec<(String, u64)>,
    pub broken: Option<String>,
}

/// Both instances know the same tail before one of them claims, unless the store answers one of them late.
pub fn run(seed: u64) -> Race {
    let simulation = Simulation::new(seed, Variant::Whole);
    let nodes: Vec<Rc<Node>> =
        (0..2).map(|host| Node::new(&simulation, host, InstanceId::from(format!("i{host}")))).collect();
    simulation.hosts.borrow_mut().clone_from(&nodes);
    let (task, race) = (TaskId::from("t"), Rc::new(RefCell::new(Race::default())));
    let readers = Rc::new(Cell::new(0));
    simulation.spawn(&nodes[0].machine, create(nodes[0].clone(), task.clone()));
    simulation.run(100 * SECOND);
    for node in &nodes {
        simulation.spawn(&node.machine, claim(node.clone(), task.clone(), readers.clone(), race.clone()));
    }
    simulation.run(400 * SECOND);
    let mut result = std::mem::take(&mut *race.borrow_mut());
    if let Some(log) = simulation.truth.borrow().logs.get(&task) {
        let words = log.lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        let owned = words.filter(|words| words[0] == "owned");
        result.owners = owned.map(|words| (words[1].to_owned(), words[2].parse().expect("a number"))).collect();
    }
    result.broken = simulation.broken();
    simulation.end();
    result
}

async fn create(node: Rc<Node>, task: TaskId) {
    let shared = node.view(&task, "A");
    let mut view = shared.lock().await;
    if node.checked(node.patient.create_entry(&mut view, None).await).is_none() {
        return;
    }
    let lines = ["created A -".to_owned(), format!("owned {} 1", node.machine.id)];
    node.append(&node.patient, &mut view, &lines).await;
}

async fn claim(node: Rc<Node>, task: TaskId, readers: Rc<Cell<usize>>, race: Rc<RefCell<Race>>) {
    let shared = node.view(&task, "A");
    let mut view = shared.lock().await;
    if view.is_unloaded || node.checked(node.patient.read_on(&mut view).await).is_none() || view.tail == Seq(0) {
        return;
    }
    readers.set(readers.get() + 1);
    let simulation = node.simulation().clone();
    for _ in 0..2_000 {
        if readers.get() == 2 {
            break;
        }
        node.sleep(10).await;
    }
    node.sleep(simulation.below(20 * MS) / MS).await;
    match node.checked(node.patient.claim(&mut view).await) {
        Some(true) => {
            let epoch = view.epoch.expect("it has claimed the task");
            race.borrow_mut().winners.push((node.machine.id.to_string(), epoch));
        }
        Some(false) => race.borrow_mut().losers += 1,
        // Its answers were lost: the log decides.
        None => {}
    }
}
