//! The requests of clients to an instance.

use crate::behaviour::{listen, work};
use crate::node::{Guard, Node, SECOND_TIME, folder};
use crate::port::SimPort;
use crate::state::{Call, Outcome};
use crate::variant::Variant;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::bucket::instance::Instance;
use gemini_a2a::bucket::log::append::Append;
use gemini_a2a::bucket::log::read::Read;
use gemini_a2a::bucket::ownership::inbox::{Address, Sent};
use gemini_a2a::bucket::replica::Phase;
use std::rc::Rc;
use std::sync::Arc;

/// How often a call is decided again because another instance was faster.
const DECISIONS: usize = 6;

/// The result of looking for a task.
pub enum Found {
    /// It exists, and the view is at its tail.
    Task(Guard),
    Missing,
    /// The bucket does not answer.
    Unknown,
}

impl Found {
    fn task(self) -> Option<Guard> {
        match self {
            Found::Task(view) => Some(view),
            Found::Missing | Found::Unknown => None,
        }
    }
}

impl Node {
    /// Locks a task, and reads its new lines.
    pub async fn find(self: &Rc<Node>, by: &Instance<SimPort>, task: &TaskId, context: &str) -> Found {
        let began = self.simulation().now.get();
        loop {
            let shared = self.view(task, context);
            let mut view = shared.lock().await;
            if view.is_unloaded {
                self.forget(&shared);
                continue;
            }
            let result = by.read_on(&mut view).await;
            let Some(read) = self.checked(result) else {
                return Found::Unknown;
            };
            if read == Read::NoLog {
                view.unload();
            }
            if read == Read::Current && self.patient.adopt(&mut view) {
                self.simulation().count("adopted", 1);
                self.restore(&mut view).await;
            }
            if view.is_unloaded {
                self.forget(&shared);
            }
            if view.is_unloaded || view.state().is_deleted {
                return Found::Missing;
            }
            self.simulation().known(task, view.tail.0);
            self.simulation().found(task, began);
            return Found::Task(view);
        }
    }
}

pub async fn get(node: Rc<Node>, task: TaskId, context: String) {
    let simulation = node.simulation();
    let (began, least) = (simulation.now.get(), simulation.truth.borrow().known.get(&task).copied().unwrap_or(0));
    match node.find(&node.hasty, &task, &context).await {
        Found::Task(view) if view.tail.0 < least => {
            simulation.fail(format!("{task}: a read shows {} events, {least} were known before it", view.tail));
        }
        Found::Missing => {
            let truth = simulation.truth.borrow();
            let was_there = truth.created.get(&task).is_some_and(|at| *at < began);
            if was_there && !truth.is_deleted(&task) {
                simulation.fail(format!("{task}: it was acknowledged, not deleted, and is not found"));
            }
        }
        Found::Task(_) | Found::Unknown => {}
    }
}

/// Follows a task for a while.
pub async fn follow(node: Rc<Node>, task: TaskId, context: String) {
    for _ in 0..node.simulation().within(3, 25) {
        if node.find(&node.patient, &task, &context).await.task().is_none() {
            return;
        }
        node.sleep(node.simulation().within(500, 6_000)).await;
    }
}

/// A new task, which continues the newest of its context.
pub async fn create(node: Rc<Node>, context: String) {
    let simulation = node.simulation().clone();
    let began = simulation.now.get();
    let is_earlier = |task: &TaskId| {
        let truth = simulation.truth.borrow();
        truth.logs[task].state.context.as_ref() == Some(&context) && truth.created[task] < began
    };
    let earlier: Vec<TaskId> = simulation.truth.borrow().created.keys().cloned().collect();
    let earlier: Vec<TaskId> = earlier.into_iter().filter(is_earlier).collect();
    let Some(entries) = node.checked(node.hasty.context(&folder(&context)).await) else {
        return;
    };
    let mut parent = None;
    for entry in entries {
        match node.find(&node.hasty, &entry.task, &context).await {
            Found::Task(view) => {
                parent = Some((entry.task, view.tail_checked_at));
                break;
            }
            Found::Missing => {}
            Found::Unknown => return,
        }
    }
    let task = TaskId::from(format!("t{}", simulation.id()));
    let shared = node.view(&task, &context);
    let mut view = shared.lock().await;
    let prompt = simulation.id();
    let is_new = create_at(&node, &mut view, parent.as_ref(), &context, prompt).await;
    if !is_new {
        view.unload();
        node.forget(&shared);
        return;
    }
    simulation.count("creations", 1);
    let mut truth = simulation.truth.borrow_mut();
    truth.created.insert(task.clone(), simulation.now.get());
    truth.prompts.insert(prompt, task.clone());
    if parent.is_none() && earlier.iter().any(|task| !truth.is_deleted(task)) {
        simulation.fail(format!("{task}: the context {context} was forgotten, {earlier:?} exist"));
    }
    drop(truth);
    let state = view.state();
    if state.status().is_owned_by(&node.machine.id, 1) && !state.is_deleted && view.epoch.is_none() {
        view.epoch = Some(1);
        begin_work(&node, &mut view);
    }
}

/// Creates the entry, the marker and the first segment, each acknowledged before the next. False if the task was not created, or if that is
/// not known.
async fn create_at(
    node: &Rc<Node>,
    view: &mut Guard,
    parent: Option<&(TaskId, Option<u64>)>,
    context: &str,
    prompt: u64,
) -> bool {
    let entered = node.hasty.create_entry(view, parent.map(|(task, _)| task)).await;
    if node.checked(entered).is_none() {
        return false;
    }
    if let Some((parent, tail_checked_at)) = parent
        && !node.hasty.is_fresh(*tail_checked_at)
        && node.find(&node.hasty, parent, context).await.task().is_none()
    {
        return false;
    }
    if node.checked(node.hasty.create_marker(view).await).is_none() {
        return false;
    }
    let parent = parent.map_or("-", |(task, _)| task.as_str());
    let lines =
        [format!("created {context} {parent}"), format!("owned {} 1", node.machine.id), format!("prompted {prompt}")];
    node.append(&node.hasty, view, &lines).await == Some(Append::Done)
}

/// Begins the turn of a prompt that was acknowledged.
fn begin_work(node: &Rc<Node>, view: &mut Guard) {
    if let (true, Some(epoch), Some(turn)) = (node.patient.owns(view), view.epoch, view.state().turn) {
        node.simulation().spawn(&node.machine, work(node.clone(), view.shared.clone(), epoch, turn));
        node.simulation().spawn(&node.machine, listen(node.clone(), view.shared.clone(), epoch));
        node.compact(view);
    }
}

pub async fn prompt(node: Rc<Node>, task: TaskId, context: String) {
    let simulation = node.simulation().clone();
    let (began, prompt) = (simulation.now.get(), simulation.id());
    for _ in 0..DECISIONS {
        let Some(mut view) = node.find(&node.hasty, &task, &context).await.task() else {
            return;
        };
        simulation.found(&task, began);
        if view.state().phase() != Phase::Rest {
            simulation.count("refused prompts", 1);
            return;
        }
        if !node.patient.owns(&view) && !node.claim(&node.hasty, &mut view).await {
            continue;
        }
        if view.state().phase() != Phase::Rest {
            continue;
        }
        if node.checked(node.hasty.create_marker(&view).await).is_none() {
            return;
        }
        match node.append(&node.hasty, &mut view, &[format!("prompted {prompt}")]).await {
            Some(Append::Done) => {
                simulation.found(&task, began);
                simulation.truth.borrow_mut().prompts.insert(prompt, task.clone());
                begin_work(&node, &mut view);
                return;
            }
            Some(Append::Overtaken | Append::Gone) => {}
            None => return,
        }
    }
}

/// An answer to a question, or a cancel of a turn.
#[derive(Clone, Copy)]
pub enum Wish {
    Answer { call: u64, yes: bool },
    Cancel { turn: u64 },
}

impl Wish {
    fn is_open(self, view: &Guard) -> bool {
        match self {
            Wish::Answer { call, .. } => view.state().calls.get(&call) == Some(&Call::Asked),
            Wish::Cancel { turn } => view.state().turn == Some(turn),
        }
    }

    fn line(self, request: u64) -> String {
        match self {
            Wish::Answer { call, yes } => format!("answered {call} {} {request}", if yes { "yes" } else { "no" }),
            Wish::Cancel { turn } => format!("canceled {turn} {request}"),
        }
    }

    fn request(self, request: u64) -> Arc<[u8]> {
        let text = match self {
            Wish::Answer { call, yes } => format!("answer {call} {request} {}", if yes { "yes" } else { "no" }),
            Wish::Cancel { turn } => format!("cancel {turn} {request} -"),
        };
        text.into_bytes().into()
    }
}

/// Carries out a client's wish: here, after a claim if that is needed, or through the inbox of the owner.
pub async fn carry_out(node: Rc<Node>, task: TaskId, context: String, wish: Wish) {
    let simulation = node.simulation().clone();
    let (began, request) = (simulation.now.get(), simulation.id());
    for _ in 0..DECISIONS + 2 {
        let Some(mut view) = node.find(&node.hasty, &task, &context).await.task() else {
            return;
        };
        simulation.found(&task, began);
        if !wish.is_open(&view) {
            simulation.count("void at once", 1);
            return;
        }
        if !node.patient.owns(&view) {
            if !view.state().status().is_claimable() {
                let address = Address::of(&view);
                drop(view);
                return send(&node, &context, address, wish, request, task).await;
            }
            node.claim(&node.hasty, &mut view).await;
            continue;
        }
        if matches!(wish, Wish::Cancel { .. }) && simulation.variant != Variant::StoppedLate {
            node.machine.stop_tools(&task);
        }
        match node.append(&node.hasty, &mut view, &[wish.line(request)]).await {
            Some(Append::Done) => {
                simulation.truth.borrow_mut().requests.insert(request, (task.clone(), Outcome::Effect));
                node.settle(&mut view);
                return;
            }
            Some(Append::Overtaken | Append::Gone) => {}
            None => return,
        }
    }
}

/// Sends a wish to the owner, and waits for the answer.
async fn send(node: &Rc<Node>, context: &str, address: Address, wish: Wish, request: u64, task: TaskId) {
    let simulation = node.simulation();
    simulation.count("sent requests", 1);
    let Some(Sent::Accepted(n)) = node.checked(node.patient.send(&address, &wish.request(request)).await) else {
        return;
    };
    let until = node.machine.now_ms() + 10_000;
    while node.machine.now_ms() < until {
        node.sleep(1_000).await;
        let Some(mut view) = node.find(&node.hasty, &task, context).await.task() else {
            return;
        };
        let requests = &view.state().requests;
        let mut outcome = requests.get(&request).copied();
        if simulation.variant == Variant::InboxNotCompared && view.state().heard >= n {
            // The request is in the log under another number.
            outcome = requests.get(&(request + SECOND_TIME)).copied().or(outcome);
        }
        if let Some(outcome) = outcome {
            simulation.truth.borrow_mut().requests.insert(request, (task.clone(), outcome));
            simulation.count(if outcome == Outcome::Effect { "told effect" } else { "told void" }, 1);
            return;
        }
        if node.patient.owns(&view) {
            node.hear(&mut view).await;
        } else if view.state().status().is_claimable() {
            node.claim(&node.hasty, &mut view).await;
        }
    }
}

/// Deletes a task. A careful client does not delete a task that another one continues.
pub async fn delete(node: Rc<Node>, task: TaskId, context: String, is_careful: bool) {
    let simulation = node.simulation().clone();
    let began = simulation.now.get();
    if is_careful {
        let entries = node.checked(node.hasty.context(&folder(&context)).await).unwrap_or_default();
        if entries.iter().any(|entry| entry.parent.as_ref() == Some(&task)) {
            return;
        }
    }
    for _ in 0..DECISIONS {
        let Some(mut view) = node.find(&node.hasty, &task, &context).await.task() else {
            return;
        };
        simulation.found(&task, began);
        if view.state().phase() == Phase::Working {
            return;
        }
        if !node.patient.owns(&view) && !node.claim(&node.hasty, &mut view).await {
            continue;
        }
        if matches!(view.state().phase(), Phase::Working | Phase::Deleted) {
            continue;
        }
        match node.checked(node.hasty.delete(&mut view).await) {
            Some(Append::Done) => {
                node.acknowledged(&view, 1);
                simulation.count("deletions", 1);
                let now = simulation.now.get();
                simulation.truth.borrow_mut().deleted.entry(task.clone()).or_insert(now);
                return;
            }
            Some(Append::Overtaken | Append::Gone) => {}
            None => return,
        }
    }
}
