//! The journals on disk, read and folded independently of the server. Everything that a client receives is compared with them.

#[path = "../support/event.rs"]
mod event;

use crate::core_harness::failing_store::FailingStore;
use event::is_of_hooks;
use gemini_a2a::a2a::{self, Body, Form, Tools, View};
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::core::disk::store::Archive;
use gemini_a2a::task::log::event::{Event, Profile};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::{Item, State};
use gemini_a2a::task::spec::ToolSpec;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Journals {
    pub tools: Arc<Tools>,
    pub view: View,
    store: FailingStore,
    logs: BTreeMap<TaskId, Log>,
}

/// The log of one task: its records, the state after each, and the frame that clients get of each.
#[derive(Default)]
pub struct Log {
    offset: u64,
    pub records: Vec<Record>,
    pub states: Vec<State>,
    pub bodies: Vec<Option<Body>>,
}

impl Journals {
    pub fn new(store: FailingStore, specs: &[ToolSpec]) -> Journals {
        Journals {
            tools: Arc::new(Tools::new(specs)),
            view: a2a::view(&Form { profile: Some(Profile::Coder), ..Form::at("/") }, None),
            store,
            logs: BTreeMap::new(),
        }
    }

    /// Reads what was written to any log since the last call.
    pub fn refresh(&mut self) {
        for known in self.store.known() {
            self.read(&known.task);
        }
    }

    /// A task's log as it is on disk now; empty if there is none.
    pub fn read(&mut self, task: &TaskId) -> &Log {
        let Journals { tools, view, store, .. } = self;
        let log = self.logs.entry(task.clone()).or_default();
        if let Ok(file) = store.open(task) {
            loop {
                let mut page = file.page(log.offset, 1 << 16).expect("the disk reads");
                page.truncate(store.shown_bytes(task).saturating_sub(log.offset) as usize);
                if page.is_empty() {
                    break;
                }
                log.offset += page.len() as u64;
                for line in page.strip_suffix(b"\n").unwrap_or(&page).split(|b| *b == b'\n') {
                    let record = Record::read(line).expect("a whole line");
                    log.take(record, *view, tools);
                }
            }
        }
        log
    }

    pub fn log(&self, task: &TaskId) -> Option<&Log> {
        self.logs.get(task).filter(|log| !log.records.is_empty())
    }

    pub fn tasks(&self) -> Vec<TaskId> {
        let written = self.logs.iter().filter(|(_, log)| !log.records.is_empty());
        written.map(|(task, _)| task.clone()).collect()
    }

    pub fn is_open(&self, task: &TaskId) -> bool {
        self.log(task).is_some_and(|log| !log.last().is_over())
    }

    /// The conversation that a task's model request at `seq` must continue; None if some of it is not on disk.
    pub fn history(&self, task: &TaskId, seq: Seq) -> Option<Vec<Arc<Item>>> {
        let log = self.log(task)?;
        let state = log.state(seq)?;
        let mut all = match &state.created.parent {
            Some((parent, upto)) => self.history(parent, *upto)?,
            None => Vec::new(),
        };
        all.extend(state.history.iter().cloned());
        Some(all)
    }
}

impl Log {
    fn take(&mut self, record: Record, view: View, tools: &Tools) {
        assert_eq!(record.seq.0, self.len() + 1, "a log has no gaps");
        let state = match (self.states.last(), &record.event) {
            (None, Event::Created(created)) => State::new(created.clone(), &record),
            (None, other) => panic!("a log begins with its task, not {other:?}"),
            (Some(state), _) => {
                let is_claim = matches!(record.event, Event::Owned(_));
                let late = state.is_over() && !is_of_hooks(&record.event) && !is_claim;
                assert!(!late, "{:?} after the end", record.event);
                let mut state = state.clone();
                state.apply(&record);
                state
            }
        };
        self.bodies.push(a2a::event(view, &state, &record, tools));
        self.states.push(state);
        self.records.push(record);
    }

    pub fn len(&self) -> u64 {
        self.records.len() as u64
    }

    pub fn last(&self) -> &State {
        self.states.last().expect("only logs with events are given out")
    }

    pub fn state(&self, seq: Seq) -> Option<&State> {
        self.states.get(seq.0.checked_sub(1)? as usize)
    }

    pub fn record(&self, seq: Seq) -> Option<&Record> {
        self.records.get(seq.0.checked_sub(1)? as usize)
    }

    pub fn body(&self, seq: Seq) -> Option<&Body> {
        self.bodies.get(seq.0.checked_sub(1)? as usize)?.as_ref()
    }

    /// The first event behind `cursor` that clients are shown.
    pub fn visible_after(&self, cursor: Seq) -> Option<Seq> {
        let rest = self.bodies.iter().enumerate().skip(cursor.0 as usize);
        let mut shown = rest.filter(|(_, body)| body.is_some());
        shown.next().map(|(at, _)| Seq(at as u64 + 1))
    }

    /// The last events, abbreviated for messages.
    pub fn tail(&self, n: usize) -> Vec<String> {
        let rest = self.records.iter().rev().take(n).rev();
        rest.map(|record| format!("{} {:.100}", record.seq, format!("{:?}", record.event))).collect()
    }

    /// Positions from the newest down to `least`.
    pub fn back_to(&self, least: Seq) -> impl Iterator<Item = Seq> {
        (least.0.max(1)..=self.len()).rev().map(Seq)
    }
}
