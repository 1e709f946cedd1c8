//! Folds the events of tool calls.

use crate::base::id::{CallId, Seq};
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::machine::state::TaskState;
use crate::task::spec::{ApprovalScope, Ending, Plan};
use crate::ui::scene::{Call, NoteWord, Phase, Scene, Stage};
use std::sync::Arc;

impl Scene {
    /// Folds an event of a tool call.
    pub(super) fn fold_call(&mut self, record: &Record) {
        let seq = record.seq;
        match &record.event {
            Event::CallPlanned { call, plan } => self.plan_call(call, plan, seq),
            Event::CallAsked { call, keeping } => self.ask_about(call, *keeping, record.at),
            Event::CallAnswered { call, choice, by, edited, answers, .. } => {
                self.change_call(call, |call| call.answer(*choice, by, edited, answers));
                self.close_question(call);
            }
            Event::CallReady { call, .. } => self.change_call(call, |call| call.stage = Stage::Ready),
            Event::CallStarted { call } => self.change_call(call, |call| call.start(record.at)),
            Event::CallOutput { call, text } => self.change_call(call, |call| call.print(text)),
            Event::CallInquired { call, inquired } => {
                self.asked.push(call.clone());
                self.change_call(call, |call| {
                    (call.stage, call.inquiry) = (Stage::Asked, Some(inquired.clone()));
                    (call.planned, call.asked_at) = (Some(seq), record.at);
                });
            }
            Event::CallReplied { call, .. } => {
                self.change_call(call, |call| (call.stage, call.inquiry) = (Stage::Running, None));
                self.close_question(call);
            }
            Event::CallEnded { call, ending } => self.end_call(call, ending, record.at),
            Event::CallStale { call } => self.plan_again(call, seq),
            // Other events are not about calls.
            _ => {}
        }
    }

    pub(super) fn change_call(&mut self, id: &CallId, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.calls.get_mut(id) {
            change(call);
        }
    }

    fn plan_call(&mut self, id: &CallId, plan: &Arc<Plan>, seq: Seq) {
        self.phase = Phase::Tools;
        self.change_call(id, |call| {
            (call.plan, call.planned) = (Some(plan.clone()), Some(seq));
            call.stage = Stage::Planned;
        });
    }

    fn ask_about(&mut self, id: &CallId, keeping: ApprovalScope, at: u64) {
        self.asked.push(id.clone());
        self.change_call(id, |call| (call.stage, call.keeping, call.asked_at) = (Stage::Asked, keeping, at));
    }

    fn close_question(&mut self, id: &CallId) {
        self.asked.retain(|asked| asked != id);
        self.state = Some(TaskState::Working);
    }

    fn end_call(&mut self, id: &CallId, ending: &Arc<Ending>, at: u64) {
        self.phase = Phase::Tools;
        self.asked.retain(|asked| asked != id);
        self.change_call(id, |call| call.end(ending, at));
    }

    fn plan_again(&mut self, id: &CallId, seq: Seq) {
        self.asked.retain(|asked| asked != id);
        self.change_call(id, |call| {
            call.stage = Stage::Replanning;
            (call.choice, call.by, call.edited, call.answers) = (None, None, None, None);
        });
        let title = self.calls.get(id).and_then(|call| call.plan.as_ref()).map(|plan| plan.title.clone());
        self.note(seq, NoteWord::CallStale, &title.unwrap_or_default());
    }
}
