//! Invariants of a settled system: nothing is forgotten, nothing is left over, and the announced status is true.

use crate::system::SystemState;
use crate::task;
use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::task::machine::state::{Item, Phase, Stage, Step, TaskState};
use gemini_a2a::task::push::Due;

impl SystemState {
    /// The model accepts the history: the results of an answer's calls follow it directly, once, in order.
    pub fn check_history(&self) -> Result<(), String> {
        let mut open: Option<Vec<&CallId>> = None;
        for item in &self.state.history {
            match (item.as_ref(), open.take()) {
                (Item::Results(results), Some(ids)) => {
                    let got: Vec<&CallId> = results.iter().map(|r| &r.request.call).collect();
                    if got != ids {
                        return Err(format!("{got:?} are the results of {ids:?}"));
                    }
                }
                (_, Some(ids)) => return Err(format!("{ids:?} are without results")),
                (Item::Results(_), None) => return Err("results of nothing".into()),
                (Item::Answered(answer), None) if answer.has_calls() => {
                    open = Some(answer.calls().map(|request| &request.call).collect());
                }
                (
                    Item::Said(_)
                    | Item::Steered(_)
                    | Item::Dropped(_)
                    | Item::Answered(_)
                    | Item::Summary(_)
                    | Item::Nudge(_)
                    | Item::Media(_),
                    None,
                ) => {}
            }
        }
        let current: Vec<&CallId> = self.state.calls.iter().map(|call| call.id()).collect();
        if open.unwrap_or_default() != current {
            return Err(format!("{current:?} are not the calls of the last answer"));
        }
        Ok(())
    }

    /// The task waits only for jobs that run, timers that are armed, or the user; and nothing else runs.
    pub fn check_settled(&self) -> Result<(), String> {
        let state = &self.state;
        let mut awaited = Vec::new();
        match state.phase {
            Phase::Idle if !state.queue.is_empty() => return Err("a queued prompt gets no turn".into()),
            Phase::Idle | Phase::Tools | Phase::Closed => {}
            Phase::Backoff { job, .. } if !self.timers.contains(&job) => {
                return Err("waits for a timer that is not armed".into());
            }
            Phase::Backoff { .. } => {}
            Phase::Working { job, .. } => awaited.push(job),
        }
        for call in &state.calls {
            match call.stage {
                Stage::Running { job } | Stage::Inquired { job } | Stage::Replanning { job } => awaited.push(job),
                Stage::Named if matches!(state.phase, Phase::Working { step: Step::Prepare, .. }) => {}
                Stage::Ready if state.suspended => {}
                // The second edit of a file waits for the first.
                Stage::Ready if call.request.name == task::EDIT && !state.calls[0].is_over() => {}
                Stage::Asked | Stage::Ended => {}
                Stage::Named | Stage::Planned | Stage::Answered | Stage::Ready => {
                    return Err(format!("{} is stuck as {:?}", call.id(), call.stage));
                }
            }
        }
        if state.phase == Phase::Tools && state.calls.iter().all(|call| call.is_over()) {
            return Err("all calls have ended and nothing follows".into());
        }
        let mut running: Vec<Seq> = Vec::new();
        running.extend(self.workers.iter().filter(|w| !w.late).map(|w| w.job));
        running.sort();
        awaited.sort();
        if running != awaited {
            return Err(format!("jobs {running:?} run, {awaited:?} are waited for"));
        }
        if self.observations.to_save > 0 {
            return Err("a rule that a user wants saved is not saved".into());
        }
        self.check_status()?;
        self.check_hook()?;
        if state.paused != (state.waits_for_answers() && !state.suspended) {
            return Err(format!("paused is {}", state.paused));
        }
        Ok(())
    }
}

impl SystemState {
    /// A receiver that gets every pending delivery in order learns the current state last.
    fn check_hook(&self) -> Result<(), String> {
        let (Some(hook), Some(delivered)) = (self.state.hooks.first(), self.observations.delivered) else {
            return Ok(());
        };
        let mut last = (hook.sent, delivered);
        for due in &hook.due {
            if due.seq() <= last.0 || due.seq() > self.state.seq {
                return Err(format!("{due:?} is due after {}", last.0));
            }
            last.0 = due.seq();
            if let Due::Status { status, .. } = due {
                last.1 = status.state;
            }
        }
        if last.1 != self.state.status.state {
            let now = self.state.status.state;
            return Err(format!("a webhook is delivered {:?} last, not {now:?}", last.1));
        }
        Ok(())
    }

    /// The status that was announced last fits the phase.
    fn check_status(&self) -> Result<(), String> {
        let state = &self.state;
        let expected: &[TaskState] = match state.phase {
            Phase::Closed => &[TaskState::Canceled, TaskState::Failed, TaskState::Completed],
            Phase::Idle => &[TaskState::InputRequired],
            Phase::Tools if state.suspended || state.waits_for_answers() => &[TaskState::InputRequired],
            Phase::Tools | Phase::Working { .. } | Phase::Backoff { .. } => &[TaskState::Working],
        };
        if !expected.contains(&state.status.state) {
            let (status, phase) = (state.status.state, &state.phase);
            return Err(format!("{status:?} was announced in {phase:?}"));
        }
        Ok(())
    }
}
