//! A small language for tests of the task machine: given these events, when this input arrives, then exactly these events and
//! effects follow.
//!
//! The tools are the smallest set with every property that the machine distinguishes: an edit and a command that need approval,
//! a reader that needs none, a tool that asks the user, and one that policy forbids.

// Every test binary compiles this folder and uses its own part of it.
#![allow(dead_code)]

mod calls;
mod events;
mod inputs;

pub use calls::*;
pub use events::*;
pub use inputs::*;

use gemini_a2a::base::id::Seq;
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::event::{Event, Lifecycle};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Decision, Input, Refusal, Rules, decide};
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::policy::{Grant, Policy};
use gemini_a2a::task::spec::{ToolSpec, Verdict};
use std::collections::HashMap;

/// The time of the test clock, which stands still: times in a log increase only if the machine makes them.
pub const NOON: u64 = 1_767_268_800_000;

/// A task under test: its log, the state that the log folds to, and its settings.
#[derive(Clone)]
pub struct Case {
    pub state: State,
    pub log: Vec<Record>,
    pub limits: Limits,
    pub tools: HashMap<String, ToolSpec>,
    pub policy: Policy,
    pub grant: Grant,
}

/// A task with these events. The first one is [`created`] unless `events` begins with another `Created`.
pub fn given(events: impl IntoIterator<Item = Event>) -> Case {
    let mut events = events.into_iter().peekable();
    let first = match events.peek() {
        Some(Event::Created(_)) => events.next().expect("peeked"),
        _ => created(Lifecycle::Conversational),
    };
    let first = Record { seq: Seq(1), at: NOON, event: first };
    let mut case = Case {
        state: first_state(&first),
        log: vec![first],
        limits: Limits::default(),
        tools: tools(),
        policy: Policy::built_in(),
        grant: Grant::default(),
    };
    for event in events {
        case.record(event);
    }
    case
}

/// The state after the first event.
pub fn first_state(first: &Record) -> State {
    match &first.event {
        Event::Created(created) => State::new(created.clone(), first),
        other => panic!("a log begins with Created, not {other:?}"),
    }
}

impl Case {
    /// Appends an event as the core does.
    pub fn record(&mut self, event: Event) {
        let record = Record { seq: self.state.seq.next(), at: self.state.stamp(&event, NOON), event };
        self.state.apply(&record);
        self.log.push(record);
    }

    pub fn record_all(mut self, events: &[Event]) -> Case {
        events.iter().for_each(|event| self.record(event.clone()));
        self
    }

    pub fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Case {
        change(&mut self.limits);
        self
    }

    /// Changes the verdict about a tool that no rule covers.
    pub fn with_default(mut self, tool: &str, verdict: Verdict) -> Case {
        let spec = self.tools.get_mut(tool).expect("a tool of this file");
        spec.by_default = verdict;
        self
    }

    pub fn with_policy(mut self, change: impl FnOnce(&mut Policy)) -> Case {
        change(&mut self.policy);
        self
    }

    pub fn with_grant(mut self, grant: Grant) -> Case {
        self.grant = grant;
        self
    }

    pub fn decide(&self, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules { tools: &self.tools, limits: &self.limits, policy: &self.policy, grant: self.grant };
        decide(&self.state, input, &rules)
    }

    /// Gives the machine an input.
    pub fn when(self, input: Input) -> Outcomes {
        Outcomes { result: self.decide(input), case: self }
    }

    /// `Advance` leads to exactly these events and effects.
    #[track_caller]
    pub fn next(self, events: &[Event], effects: &[Expected]) -> Case {
        self.when(Input::Advance).then(events, effects)
    }

    /// `Advance` leads to nothing.
    #[track_caller]
    pub fn expect_settled(self) -> Case {
        self.next(&[], &[])
    }

    /// Gives `Advance` until it leads to nothing, and records the events unchecked.
    pub fn settle(mut self) -> Case {
        loop {
            let decision = self.decide(Input::Advance).expect("Advance is never refused");
            if decision.is_empty() {
                return self;
            }
            for event in decision.events {
                self.record(event);
            }
        }
    }
}

/// The decision about an input, not recorded yet.
pub struct Outcomes {
    case: Case,
    pub result: Result<Decision, Refusal>,
}

impl Outcomes {
    /// The input led to exactly these events and effects. Records the events.
    #[track_caller]
    pub fn then(mut self, events: &[Event], effects: &[Expected]) -> Case {
        let wanted = effects.iter().map(|(effect, _)| effect.clone()).collect();
        let expected = Decision { events: events.to_vec(), effects: wanted };
        assert_eq!(self.result, Ok(expected), "in {:?}", self.case.state.phase);
        for event in events {
            self.case.record(event.clone());
        }
        for (effect, started) in effects {
            assert_eq!(started_by(&self.case.state, effect, &self.case.limits), *started);
        }
        self.case
    }

    #[track_caller]
    pub fn ignored(self) -> Case {
        self.then(&[], &[])
    }

    #[track_caller]
    pub fn refused(self, refusal: Refusal) -> Case {
        assert_eq!(self.result, Err(refusal), "in {:?}", self.case.state.phase);
        self.case
    }
}
