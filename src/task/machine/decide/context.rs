//! The limits of a conversation: how often the model is asked, how long the conversation may become, what happens when the model is
//! unavailable or repeats itself.

use super::{Deciding, Effect, REQUESTS_USED_UP};
use crate::base::id::Seq;
use crate::task::log::answer::{Answer, Finish, Request};
use crate::task::log::event::{End, Event};
use crate::task::machine::job::{Attachments, Compaction};
use crate::task::machine::state::Phase;
use crate::task::machine::{fallback, loops};
use crate::task::spec::{Ending, ErrorKind};
use std::sync::Arc;

/// The text is checked for repetition each time it has grown by this number of bytes.
const CHECK_EVERY: usize = 1024;

const CALLS_REPEAT: &str = "You have made the same calls with the same arguments several times in a row, so this one was not \
                            run. Stop, think about why they do not get you further, and do something else or ask the user.";
const WORDS_REPEAT: &str = "You are repeating yourself. Stop, think about what you want to achieve, and go on in another way; if \
                            you are done, say so briefly.";

impl Deciding<'_> {
    /// If the task may send no more model requests, the message that says so.
    pub(in crate::task) fn requests_used_up(&self) -> Option<String> {
        let most = self.rules.limits.session_requests;
        (most > 0 && self.state.requests >= most)
            .then(|| format!("{REQUESTS_USED_UP} {most} times, as often as it may. Start a new task."))
    }

    /// Asks the model, after a summary of the conversation if that has become too long.
    pub(in crate::task) fn ask_model(&mut self, job: Seq) {
        let cap = self.rules.limits.compress_tokens;
        if self.state.context_tokens >= cap && self.state.may_compact(self.rules.limits) {
            self.begin_compaction();
        } else {
            self.start(job);
        }
    }

    /// Summarises the conversation and asks the model again, unless that has just been tried.
    pub(in crate::task) fn too_long(&mut self, message: String) {
        if !self.state.may_compact(self.rules.limits) {
            return self.end_turn(End::Failed(message));
        }
        self.begin_compaction();
    }

    /// Lets the model summarise the conversation.
    pub(in crate::task) fn begin_compaction(&mut self) {
        let job = self.push(Event::CompactionBegan);
        self.start(job);
    }

    pub(in crate::task) fn attached(&mut self, Attachments { text, media }: Attachments) {
        let job = self.push(Event::Attached { text, media });
        self.ask_model(job);
    }

    pub(in crate::task) fn compacted(&mut self, result: Result<Compaction, String>) {
        let event = match result {
            Ok(compaction) => {
                let items = self.state.summarised(compaction.items);
                Event::Compacted { summary: compaction.summary.into(), items }
            }
            Err(reason) => Event::CompactionFailed { reason },
        };
        let job = self.push(event);
        match self.state.turn.compress {
            true => self.end_turn(End::Done),
            false => self.start(job),
        }
    }

    /// The model is unavailable: asks another one, or ends the turn.
    pub(in crate::task) fn fall_back(&mut self, reason: String) {
        let Some(model) = fallback::next(&self.state.requested_model, &self.state.turn.tried) else {
            return self.end_turn(End::Failed(reason));
        };
        if self.state.utterance.since.is_some() {
            self.push(Event::Retracted { reason: reason.clone() });
        }
        let job = self.push(Event::FellBack { model: model.into(), reason });
        self.start(job);
    }

    /// The next piece of the model's text.
    pub(in crate::task) fn model_text(&mut self, text: String) {
        let utterance = &self.state.utterance;
        let (old_len, new_len) = (utterance.text.len(), utterance.text.len() + text.len());
        let is_due = old_len / CHECK_EVERY != new_len / CHECK_EVERY
            && self.rules.limits.loop_repetitions > 0
            && utterance.fences.is_multiple_of(2);
        let tail = is_due.then(|| {
            let from = utterance.text.floor_char_boundary(old_len.saturating_sub(loops::WINDOW));
            format!("{}{text}", &utterance.text[from..])
        });
        let repeats = tail.is_some_and(|tail| loops::text_repeats(&tail));
        let whole = repeats.then(|| format!("{}{text}", utterance.text));
        let seq = self.push(Event::Text { text });
        if let Some(whole) = whole {
            self.stop_repeated_text(whole, seq);
        }
    }

    /// Stops the model and tells it that it repeats its text; the last time, ends the turn.
    fn stop_repeated_text(&mut self, whole: String, seq: Seq) {
        let Phase::Working { job, .. } = self.state.phase else {
            return;
        };
        self.effect(Effect::Stop { job });
        if self.is_last_repetition() {
            return self.end_turn(End::Failed(repetition_message("the model keeps repeating itself")));
        }
        let answer = Answer {
            finish: Finish::Repetition,
            said_at: self.state.utterance.since.or(Some(seq)),
            ..Answer::new(&whole, [])
        };
        self.push(Event::Answered { answer: Arc::new(answer) });
        let job = self.push(Event::Nudged { text: WORDS_REPEAT.into() });
        self.start(job);
    }

    pub(in crate::task) fn repeats_calls(&self, answer: &Answer) -> bool {
        let mut checksums = self.state.turn.call_checksums.clone();
        checksums.push(answer.calls_checksum());
        let is_checked = self.rules.limits.loop_repetitions > 0 && answer.has_calls();
        is_checked && loops::calls_repeat(&checksums)
    }

    /// Does not run calls that the model repeats, and tells it why; the last time, ends the turn.
    pub(in crate::task) fn reject_repeated_calls(&mut self, answer: Answer) {
        let calls: Vec<Request> = answer.calls().cloned().collect();
        let over = self.is_last_repetition();
        self.push(Event::Looped);
        self.push(Event::Answered { answer: Arc::new(answer) });
        for request in calls {
            let error = ErrorKind::ExecutionFailed.error(CALLS_REPEAT);
            self.end_call(request.call, Ending::Error { error });
        }
        if over {
            self.end_turn(End::Failed(repetition_message("the model makes the same calls again and again")));
        }
    }

    fn is_last_repetition(&self) -> bool {
        self.state.turn.repetitions + 1 >= self.rules.limits.loop_repetitions
    }
}

fn repetition_message(why: &str) -> String {
    format!("The turn was ended because {why}. Say in other words what you want, or in smaller steps.")
}
