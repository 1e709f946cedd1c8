//! Changes of the history at the end of a batch of calls, of a turn or of the task.

use crate::task::log::long_text::LongText;
use crate::task::machine::state::{CallResult, Item, State};
use crate::task::spec::{Ending, ErrorKind};
use std::sync::Arc;

impl State {
    /// Removes from the conversation the prompt with its attachments, or the media in results, on which the model has failed, because later
    /// requests would fail on them too.
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

    /// Moves the calls of the current batch into the history as results. Every call of an answer must have a result there, so calls that
    /// have not ended get an error.
    pub(super) fn keep_results(&mut self) {
        // The calls of a custom command are not part of the history; the prompt has their output.
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

    /// Moves the queued prompts of a closed task into the history.
    pub(super) fn keep_queue(&mut self) {
        for queued in self.queue.drain(..) {
            self.history.push(Arc::new(Item::Dropped(queued.message)));
        }
    }
}
