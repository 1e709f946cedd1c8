//! Applies the reports of command hooks to the state of a task.

use crate::task::definitions::command_hook::{HookDecision, HookPoint, HookReport};
use crate::task::log::record::Record;
use crate::task::machine::state::{Item, Phase, State, Step};
use std::sync::Arc;

impl State {
    pub(super) fn apply_hook_report(&mut self, report: &HookReport) {
        let call = report.call.as_ref().and_then(|id| self.calls.iter_mut().find(|call| call.id() == id));
        if let Some(call) = call.filter(|_| report.point == HookPoint::BeforeTool) {
            call.must_ask |= report.decision == HookDecision::Ask;
            if let Some(args) = &report.args {
                call.request.args = args.clone();
            }
        }
        if !report.context.is_empty() {
            self.history.push(Arc::new(Item::Nudge(report.context.as_str().into())));
        }
        let hooks = &mut self.turn.hooks;
        match (report.point, report.decision) {
            (HookPoint::BeforeAgent, _) => hooks.began = true,
            (HookPoint::AfterAgent, HookDecision::Deny) => {
                let reason = report.reason.as_str();
                hooks.reprompt =
                    Some([hooks.reprompt.as_deref().unwrap_or_default(), reason].join("\n").trim().to_owned());
            }
            _ => {}
        }
        hooks.clears_context |= report.clear_context;
        if let Some(stop) = &report.stop {
            hooks.stop = Some(stop.clone());
        }
    }

    /// Hides the conversation from the model if a hook requested that.
    pub(super) fn clear_context(&mut self, record: &Record) {
        if std::mem::take(&mut self.turn.hooks.clears_context) {
            self.hide_from(0, record.seq);
        }
    }

    /// Continues the turn with the prompt of a hook.
    pub(super) fn reprompt(&mut self, text: &str, record: &Record) {
        self.clear_context(record);
        self.turn.hooks.reprompt = None;
        self.turn.hooks.reprompts += 1;
        self.history.push(Arc::new(Item::Nudge(text.into())));
        self.phase = Phase::Working { job: record.seq, step: Step::Think };
    }
}
