//! Applies the events about calls.

use crate::base::id::{CallId, Seq};
use crate::task::form::Inquired;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::machine::state::{Phase, Stage, State};
use crate::task::spec::{ApprovalScope, Ending, Plan};
use std::sync::Arc;

impl State {
    /// Applies an event about a call.
    pub(super) fn fold_call(&mut self, record: &Record) {
        match &record.event {
            Event::CallPlanned { call, plan } => self.plan_call(call, plan, record.seq),
            Event::CallAsked { call, keeping } => self.ask_about(call, *keeping, record),
            Event::CallAnswered { .. } => self.take_choice(record),
            Event::CallReady { call, confinement } => self.call_mut(call).make_ready(confinement),
            Event::CallStarted { call } => self.call_mut(call).stage = Stage::Running { job: record.seq },
            Event::CallOutput { call, text } => self.call_mut(call).add_output(text, record),
            Event::CallInquired { call, inquired } => self.inquire(call, inquired, record),
            Event::CallReplied { call, .. } => self.go_on(call, record),
            Event::CallEnded { call, ending } => self.end_call(call, ending),
            Event::CallStale { call } => self.call_mut(call).plan_again(record),
            // The other events are not about calls.
            _ => {}
        }
    }

    fn plan_call(&mut self, call: &CallId, plan: &Arc<Plan>, seq: Seq) {
        self.phase = Phase::Tools;
        self.add_stored_texts(plan.texts());
        let call = self.call_mut(call);
        call.plan = Some(plan.clone());
        call.planned_at = seq;
        call.stage = Stage::Planned;
    }

    fn ask_about(&mut self, call: &CallId, keeping: ApprovalScope, record: &Record) {
        self.paused = false;
        let call = self.call_mut(call);
        call.asked_at = record.at;
        call.stage = Stage::Asked;
        call.keeping = keeping;
    }

    /// The server of a running call asks a question.
    fn inquire(&mut self, call: &CallId, inquired: &Arc<Inquired>, record: &Record) {
        self.paused = false;
        self.call_mut(call).inquire(inquired, record);
    }

    fn go_on(&mut self, call: &CallId, record: &Record) {
        self.leave_pause(record);
        self.call_mut(call).go_on();
    }

    /// Somebody answered the question of a call.
    fn take_choice(&mut self, record: &Record) {
        if let Event::CallAnswered { call, choice, by, edited, answers, rules } = &record.event {
            self.allow_always(rules);
            self.leave_pause(record);
            self.call_mut(call).answer(*choice, by, edited, answers);
        }
    }

    fn end_call(&mut self, call: &CallId, ending: &Arc<Ending>) {
        self.phase = Phase::Tools;
        self.add_stored_texts(ending.texts());
        self.add_stored_media(ending.media());
        let call = self.call_mut(call);
        call.ending = Some(ending.clone());
        call.live = None;
        call.inquiry = None;
        call.stage = Stage::Ended;
    }
}
