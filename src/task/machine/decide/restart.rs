//! Decisions after a restart. Running jobs have ended: their turn is interrupted, and they are not repeated. Open questions and approvals
//! stay. A model request that waited for its next attempt is retried, and queued prompts begin their turns.

use super::clients::refused;
use super::time::unanswered;
use super::*;

pub(in crate::task) const RESTARTED: &str =
    "The server was restarted while the agent was working. What had finished is kept; send a message to go on.";

impl Deciding<'_> {
    pub(in crate::task) fn jobs_interrupted(&mut self) {
        if self.state.shell.is_some() {
            self.push(Event::ShellEnded { text: "The server was stopped while this command was running.".into() });
        }
        match self.state.phase {
            Phase::Idle | Phase::Closed => {}
            Phase::Backoff { job, delay_ms, .. } => self.effect(Effect::Arm { job, delay_ms }),
            Phase::Working { .. } => self.end_turn(End::Interrupted(RESTARTED.into())),
            Phase::Tools => self.interrupt_calls(),
        }
    }

    fn interrupt_calls(&mut self) {
        let is_inquired = self.state.calls.iter().any(|call| call.inquiry.is_some());
        if self.state.calls.is_empty() || (self.state.waits_for_answers() && !is_inquired) || self.state.suspended {
            return;
        }
        let interrupted = |message: &str| Ending::Error { error: ErrorKind::Interrupted.error(message) };
        let mut open = 0;
        for call in &self.state.calls {
            let id = call.id().clone();
            match call.stage {
                Stage::Ended => {}
                Stage::Asked | Stage::Ready => open += 1,
                Stage::Running { .. } | Stage::Inquired { .. } => {
                    let message = "The server was stopped while this call was running. It may have \
                                   had effects; look before you run it again.";
                    self.end_call(id, interrupted(message));
                }
                // The crash may have come in the middle of a decision: the answer is in the log, but its consequence is not.
                Stage::Answered if call.choice == Some(Choice::Cancel) => {
                    let plan = call.plan.as_ref().expect("an answered call has a plan");
                    let ending = match &call.answered_by {
                        Some(by) if by.is_clock() => unanswered(),
                        Some(_) | None => refused(plan),
                    };
                    self.end_call(id, ending);
                }
                Stage::Answered => {
                    self.push(Event::CallReady { call: id, confinement: Confinement::None });
                    open += 1;
                }
                Stage::Named | Stage::Planned | Stage::Replanning { .. } => {
                    let message = "The server was stopped before this call had begun. Nothing was \
                                   changed; it can be made again.";
                    self.end_call(id, interrupted(message));
                }
            }
        }
        match open {
            0 => self.end_turn(End::Interrupted(RESTARTED.into())),
            _ => drop(self.push(Event::Interrupted { text: RESTARTED.into() })),
        }
    }
}
