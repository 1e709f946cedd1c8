//! The invariants. [`Truth`] has the log of every task as the bucket has received it, whatever an instance knows of it.

use crate::simulation::{SECOND, Simulation};
use crate::state::{Outcome, State};
use crate::variant::Variant;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::bucket::memory::{Request, Response};
use gemini_a2a::bucket::replica::Phase;
use gemini_a2a::bucket::{List, names};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub struct Truth {
    pub logs: BTreeMap<TaskId, Log>,
    /// Tasks of which an object was deleted, so that its name is free.
    pub freed: BTreeSet<TaskId>,
    /// How often each call started.
    pub starts: BTreeMap<u64, u64>,
    /// The position up to which some process knows each log: later reads must not show less.
    pub known: BTreeMap<TaskId, u64>,
    /// What was acknowledged to clients, and when.
    pub created: BTreeMap<TaskId, u64>,
    pub deleted: BTreeMap<TaskId, u64>,
    pub prompts: BTreeMap<u64, TaskId>,
    pub requests: BTreeMap<u64, (TaskId, Outcome)>,
}

#[derive(Default)]
pub struct Log {
    pub lines: Vec<String>,
    pub segments: BTreeMap<u64, Arc<[u8]>>,
    pub state: State,
}

impl Truth {
    pub fn is_deleted(&self, task: &TaskId) -> bool {
        self.logs.get(task).is_some_and(|log| log.state.is_deleted)
    }
}

impl Simulation {
    /// A segment was created.
    pub fn landed(&self, task: &TaskId, first: u64, bytes: &Arc<[u8]>) {
        let mut truth = self.truth.borrow_mut();
        if truth.freed.contains(task) {
            self.count("segments of removed tasks", 1);
            return;
        }
        let log = truth.logs.entry(task.clone()).or_default();
        if log.segments.contains_key(&first) {
            return;
        }
        if first != log.state.seq.0 + 1 {
            if self.variant == Variant::Whole {
                self.fail(format!("{task}: event {first} follows {}", log.state.seq));
            }
            return;
        }
        let lines = String::from_utf8(bytes.to_vec()).expect("lines are text");
        let (phase, owner) = (log.state.phase(), log.state.owner.clone());
        log.segments.insert(first, bytes.clone());
        log.lines.extend(lines.lines().map(str::to_owned));
        if let Err(why) = log.state.apply(&lines) {
            self.fail(format!("{task}: {why}"));
        }
        let (parent, new_owner) = (log.state.parent.clone(), log.state.owner.clone());
        if first == 1
            && let Some(parent) = parent.filter(|parent| truth.freed.contains(parent))
        {
            self.fail(format!("{task}: its parent {parent} did not exist any more when it was created"));
        }
        drop(truth);
        let Some(owner) = owner.filter(|owner| lines.starts_with("owned") && Some(owner) != new_owner.as_ref()) else {
            return;
        };
        self.count("claims", 1);
        if phase == Phase::Working {
            self.count("take-overs", 1);
        }
        for node in self.hosts.borrow().iter() {
            let machine = &node.machine;
            let has_tools = !machine.is_dead.get() && machine.tools.borrow().keys().any(|(of, _)| of == task);
            let paused = machine.last_paused.get().is_some_and(|at| at + 60 * SECOND >= self.now.get());
            if machine.id == owner && has_tools && !paused {
                self.fail(format!("{task}: a tool of {owner} still runs when {new_owner:?} takes over"));
            }
        }
    }

    /// A name of a task was freed.
    pub fn freed(&self, task: &TaskId) {
        let mut truth = self.truth.borrow_mut();
        if !truth.freed.insert(task.clone()) {
            return;
        }
        self.count("removals", 1);
        let continues = |log: &Log| log.state.parent.as_ref() == Some(task) && !log.state.is_deleted;
        if let Some((child, _)) = truth.logs.iter().find(|(_, log)| continues(log)) {
            self.fail(format!("{task} was removed although {child} continues it"));
        }
    }

    /// An instance has read these lines, and may show them to clients.
    pub fn shown(&self, task: &TaskId, first: u64, lines: &str) {
        let truth = self.truth.borrow();
        let log = truth.logs.get(task).map_or(&[][..], |log| &log.lines);
        let from = (first as usize - 1).min(log.len());
        let mut there = log[from..].iter();
        for line in lines.lines() {
            self.count("shown", 1);
            if there.next().is_none_or(|known| known != line) {
                self.fail(format!("{task}: {line} was shown behind event {first}, and is not in the log"));
                return;
            }
        }
    }

    /// An instance knows a log up to here.
    pub fn known(&self, task: &TaskId, tail: u64) {
        let mut truth = self.truth.borrow_mut();
        let known = truth.known.entry(task.clone()).or_default();
        *known = tail.max(*known);
    }

    /// A client's call that began at `began` found the task.
    pub fn found(&self, task: &TaskId, began: u64) {
        if self.truth.borrow().deleted.get(task).is_some_and(|at| *at < began) {
            self.fail(format!("{task}: it is back after its deletion was acknowledged"));
        }
    }

    /// A tool starts.
    pub fn started(&self, call: u64) {
        self.count("tool starts", 1);
        let mut truth = self.truth.borrow_mut();
        let starts = truth.starts.entry(call).or_default();
        *starts += 1;
        if *starts > 1 {
            self.fail(format!("call {call} started twice"));
        }
    }

    /// Checks the invariants that hold when all work has ended.
    pub fn check_end(&self) {
        let truth = self.truth.borrow();
        for (task, log) in truth.logs.iter().filter(|(task, _)| !truth.freed.contains(*task)) {
            self.check_task(task, log);
        }
        if self.variant == Variant::Whole {
            self.check_markers(&truth);
        }
        let state = |task: &TaskId| truth.logs.get(task).map(|log| &log.state);
        for task in truth.created.keys().filter(|task| state(task).is_none()) {
            self.fail(format!("{task}: its creation was acknowledged, and it has no log"));
        }
        for (prompt, task) in &truth.prompts {
            if state(task).is_none_or(|state| !state.prompts.contains(prompt)) {
                self.fail(format!("{task}: the acknowledged prompt {prompt} is lost"));
            }
        }
        for (request, (task, outcome)) in &truth.requests {
            let logged = state(task).and_then(|state| state.requests.get(request));
            if logged != Some(outcome) {
                self.fail(format!("{task}: request {request} was reported as {outcome:?}, the log says {logged:?}"));
            }
        }
    }

    fn check_task(&self, task: &TaskId, log: &Log) {
        let status = log.state.status();
        if status.phase == Phase::Working || status.due && matches!(status.phase, Phase::Rest | Phase::Closed) {
            self.fail(format!("{task}: it stays {:?} for ever, its owner is {:?}", status.phase, status.owner));
        }
        if status.phase == Phase::Deleted && log.state.context.is_some() && !self.is_continued(task) {
            self.fail(format!("{task}: it was deleted and is never removed"));
        }
        if self.variant == Variant::SegmentsDeleted {
            return;
        }
        let objects: BTreeMap<String, Arc<[u8]>> = self.bucket.objects().into_iter().collect();
        for (first, bytes) in &log.segments {
            match objects.get(&names::segment(task, Seq(*first))) {
                Some(there) if there == bytes => {}
                Some(_) => self.fail(format!("{task}: the segment at {first} has changed")),
                None => self.fail(format!("{task}: the segment at {first} is missing")),
            }
        }
    }

    /// Whether an entry names the task as its parent.
    fn is_continued(&self, task: &TaskId) -> bool {
        let truth = self.truth.borrow();
        let mut logs = truth.logs.iter().filter(|(child, _)| !truth.freed.contains(*child));
        logs.any(|(_, log)| log.state.parent.as_ref() == Some(task)) || self.entry_names(task)
    }

    fn entry_names(&self, task: &TaskId) -> bool {
        let list = List { prefix: "contexts/".to_owned(), ..List::default() };
        match self.bucket.execute(&Request::List(list)) {
            Response::List(page) => page.entries.iter().any(|entry| entry.meta.values().any(|of| of == task.as_str())),
            other => unreachable!("a list was answered with {other:?}"),
        }
    }

    fn check_markers(&self, truth: &Truth) {
        for (name, _) in self.bucket.objects() {
            let Some((task, seq)) = names::marker_parts(&name) else {
                continue;
            };
            let is_needed = !truth.freed.contains(&task)
                && truth.logs.get(&task).is_some_and(|log| !log.state.status().is_settled());
            if !is_needed {
                self.fail(format!("{task}: the marker {seq} is left over"));
            }
        }
    }
}
