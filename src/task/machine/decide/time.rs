//! Decisions about time limits: of questions without an answer, of turns, of tasks without a new prompt. The present time is an input, and
//! the start times are in the log, so a restart extends no limit.

use super::restart::RESTARTED;
use super::*;
use crate::base::text::duration;
use crate::limits::Times;

/// The first time, in Unix milliseconds, at which [`Input::Time`] has an effect on the current turn.
pub fn deadline(state: &State, times: &Times) -> Option<u64> {
    let turn = times.turn_ms.filter(|_| is_in_turn(state)).map(|limit| state.turn.began_at.saturating_add(limit));
    let asked = state.asked().map(|call| call.asked_at).min();
    let answer = times.answer_ms.zip(asked);
    let answer = answer.map(|(limit, asked)| asked.saturating_add(limit));
    [turn, answer].into_iter().flatten().min()
}

impl Deciding<'_> {
    pub(in crate::task) fn time(&mut self, unix_ms: u64) {
        let times = self.rules.limits.times;
        let lasted = |since: u64, limit: Option<u64>| limit.filter(|limit| unix_ms >= since.saturating_add(*limit));
        if self.state.is_idle() && self.state.shell.is_none() {
            if let Some(limit) = lasted(self.state.status.at, times.idle_ms) {
                self.expire(limit);
            }
        } else if is_in_turn(self.state) {
            if let Some(limit) = lasted(self.state.turn.began_at, times.turn_ms) {
                let limit = duration::spell(limit);
                self.stop_everything("The turn took too long.");
                let text = format!("The turn took longer than {limit} and was stopped.");
                self.end_turn(End::Failed(text));
            } else {
                self.give_up_waiting(|call| lasted(call.asked_at, times.answer_ms).is_some());
            }
        }
    }

    /// Closes a task that got no further prompt: it is completed, or canceled if it never began or lacks a credential.
    fn expire(&mut self, limit: u64) {
        let state = match self.state.status.state {
            TaskState::Submitted | TaskState::AuthRequired => Final::Canceled,
            TaskState::InputRequired
            | TaskState::Working
            | TaskState::Completed
            | TaskState::Failed
            | TaskState::Canceled
            | TaskState::Rejected => Final::Completed,
        };
        let limit = duration::spell(limit);
        self.push(Event::Closed { state, text: Some(format!("Nobody went on with this task for {limit}.")) });
    }

    /// Refuses the calls whose questions got no answer in time.
    fn give_up_waiting(&mut self, is_overdue: impl Fn(&CallState) -> bool) {
        let overdue = || self.state.asked().filter(|call| is_overdue(call));
        if overdue().next().is_none() {
            return;
        }
        for call in overdue() {
            if let Some(inquired) = &call.inquiry {
                self.reply(call, inquired, Reply::Cancel, Source::clock());
                continue;
            }
            self.push(Event::CallAnswered {
                call: call.id().clone(),
                choice: Choice::Cancel,
                by: Source::clock(),
                edited: None,
                answers: None,
                rules: Vec::new(),
            });
            self.end_call(call.id().clone(), unanswered());
        }
        if !self.state.suspended {
            return;
        }
        // Answers make a task work again, but after a restart only the user may do that: the remaining calls still wait for the user.
        let ends = |call: &CallState| call.is_over() || (call.stage == Stage::Asked && is_overdue(call));
        match self.state.calls.iter().all(ends) {
            true => self.end_turn(End::Interrupted(RESTARTED.into())),
            false => drop(self.push(Event::Interrupted { text: RESTARTED.into() })),
        }
    }
}

pub(in crate::task) fn is_in_turn(state: &State) -> bool {
    match state.phase {
        Phase::Idle | Phase::Closed => false,
        Phase::Working { .. } | Phase::Backoff { .. } | Phase::Tools => true,
    }
}

pub(in crate::task) fn unanswered() -> Ending {
    Ending::cancelled("Nobody answered the question in time, so the call was cancelled.")
}
