//! How the state of a call changes with the events about it.

use crate::task::log::answer::Request;
use crate::task::log::record::Record;
use crate::task::machine::state::{CallState, Live, Stage};
use crate::task::message::Source;
use crate::task::spec::{Answers, ApprovalScope, Choice, Confinement};
use std::sync::Arc;

impl CallState {
    /// A call as the model requested it.
    pub fn named(request: Request) -> CallState {
        CallState {
            request,
            stage: Stage::Named,
            plan: None,
            choice: None,
            answered_by: None,
            edited: None,
            answers: None,
            keeping: ApprovalScope::Session,
            asked_at: 0,
            outputs: 0,
            live: None,
            ending: None,
            stale: 0,
            written: None,
            confinement: Confinement::None,
        }
    }

    pub fn answer(&mut self, choice: Choice, by: &Source, edited: &Option<Arc<str>>, answers: &Option<Arc<Answers>>) {
        self.choice = Some(choice);
        self.answered_by = Some(by.clone());
        self.edited = edited.clone();
        self.answers = answers.clone();
        self.stage = Stage::Answered;
    }

    pub fn make_ready(&mut self, confinement: &Confinement) {
        self.stage = Stage::Ready;
        self.confinement = confinement.clone();
    }

    pub fn add_output(&mut self, text: &str, record: &Record) {
        self.outputs += 1;
        match &mut self.live {
            Some(live) => live.push(text, record),
            None => self.live = Some(Live::begin(text, record)),
        }
    }

    /// What was approved is not what would run now: the answer no longer counts.
    pub fn plan_again(&mut self, record: &Record) {
        self.live = None;
        self.stage = Stage::Replanning { job: record.seq };
        self.choice = None;
        self.answered_by = None;
        self.edited = None;
        self.answers = None;
        self.stale += 1;
    }
}
