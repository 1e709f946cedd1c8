//! What becomes part of the conversation when a batch of calls, a turn or a task ends.

use crate::task::log::long_text::LongText;
use crate::task::machine::state::{CallResult, Item, State};
use crate::task::spec::{Ending, ErrorKind};
use std::sync::Arc;

impl State {
    /// What made the model fail would make every later request fail too: a prompt with its attachments, or media in results.
    pub(super) fn drop_unanswered(&mut self) {
        let is_added = |item: &Arc<Item>| matches!(item.as_ref(), Item::Nudge(_) | Item::Media(_));
        let added = self.history.iter().rev().take_while(|item| is_added(item)).count();
        let rest = self.history.len() - added;
        let Some(last) = self.history[..rest].last_mut() else {
            return;
        };
        match last.as_ref() {
            Item::Said(message) | Item::Steered(message) => {
                *last = Arc::new(Item::Dropped(message.clone()));
                self.history.truncate(rest);
            }
            Item::Results(results) if results.iter().any(|result| !result.ending.media().is_empty()) => {
                let mut results = results.clone();
                results.iter_mut().for_each(|result| Arc::make_mut(&mut result.ending).drop_media());
                *last = Arc::new(Item::Results(results));
            }
            Item::Results(_)
            | Item::Dropped(_)
            | Item::Answered(_)
            | Item::Summary(_)
            | Item::Nudge(_)
            | Item::Media(_) => {}
        }
    }

    /// Moves the current batch into the history. Every call of an answer must be answered there, so those that never ended
    /// are answered too.
    pub(super) fn keep_results(&mut self) {
        // The model made no such calls; it is told their results in the prompt.
        if self.turn.expansion.take().is_some() {
            self.calls.clear();
            self.paused = false;
        }
        if self.calls.is_empty() {
            return;
        }
        self.paused = false;
        let unfinished = || {
            let message = "The call was interrupted before it ended.";
            Arc::new(Ending::Error { error: ErrorKind::Interrupted.error(message) })
        };
        let results = self.calls.drain(..).map(|call| {
            let mut ending = call.ending.unwrap_or_else(unfinished);
            if ending.texts().iter().any(|text| text.blob().is_some()) {
                Arc::make_mut(&mut ending).texts_mut().into_iter().for_each(LongText::unload);
            }
            CallResult { ending, request: call.request }
        });
        self.history.push(Arc::new(Item::Results(results.collect())));
    }

    /// Prompts that were queued when the task closed stay in the history.
    pub(super) fn keep_queue(&mut self) {
        for queued in self.queue.drain(..) {
            self.history.push(Arc::new(Item::Dropped(queued.message)));
        }
    }
}
