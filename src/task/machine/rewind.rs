//! Applies restores to the state of a task. The history keeps every entry, because clients see all of them. A restore hides entries from the
//! model. A restore that undoes an earlier one shows them again.

use crate::base::id::Seq;
use crate::task::log::restored::{Conversation, Restored};
use crate::task::machine::state::{Item, State, Summary};
use std::ops::Range;
use std::sync::Arc;

/// Entries of the history that a restore or a hook hides from the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Hidden {
    /// The event that hides the entries.
    by: Seq,
    items: Range<usize>,
    /// The summary before that event.
    summary: Option<Summary>,
}

impl State {
    /// Whether files may be restored: no turn and no command of a user is under way.
    pub fn can_restore(&self) -> bool {
        (self.is_idle() || self.is_over()) && self.shell.is_none()
    }

    pub(super) fn restore(&mut self, restored: &Restored, seq: Seq) {
        let stored = restored.versions().filter(|version| !version.unstored);
        self.blobs.extend(stored.map(|version| (version.sha256.clone(), version.len)));
        match restored.conversation {
            Conversation::Kept if restored.files.is_empty() => {}
            Conversation::Kept => self.add_note(note(restored)),
            Conversation::Rewound => {
                self.rewind(restored, seq);
                if restored.call.is_some() {
                    self.add_note(note(restored));
                }
            }
        }
    }

    /// Adds a text that the model gets with the next prompt.
    fn add_note(&mut self, text: String) {
        self.shell_results.push(Arc::new(Item::Nudge(text.as_str().into())));
    }

    fn rewind(&mut self, restored: &Restored, seq: Seq) {
        let taken_back = self.hidden.iter().position(|hidden| hidden.by == restored.to);
        if let Some(first) = taken_back.and_then(|at| self.hidden.drain(at..).next()) {
            self.summary = first.summary;
            self.context_tokens = 0;
            return;
        }
        self.hide_from(restored.items, seq);
    }

    /// Hides the entries of the history from `first` on from the model. `by` is the event that causes it.
    pub(super) fn hide_from(&mut self, first: usize, by: Seq) {
        // The length of the remaining conversation is not known.
        self.context_tokens = 0;
        let summary = self.summary.clone();
        // A summary that covers hidden entries is removed. Without a summary the model gets the entries themselves.
        self.summary = summary.clone().filter(|summary| summary.items <= first);
        self.hidden.push(Hidden { by, items: first..self.history.len(), summary });
    }

    /// The entries of the history that the model is shown, with their positions.
    fn shown_entries(&self, from: usize) -> impl Iterator<Item = (usize, &Arc<Item>)> {
        let is_hidden = |at: &usize| self.hidden.iter().any(|hidden| hidden.items.contains(at));
        self.history.iter().enumerate().skip(from).filter(move |(at, _)| !is_hidden(at))
    }

    /// The history as the model is shown it, from the entry `from` on.
    pub fn shown_history(&self, from: usize) -> Vec<Arc<Item>> {
        self.shown_entries(from).map(|(_, item)| item.clone()).collect()
    }

    /// The position in the history after `count` more entries that the model is shown have been summarised.
    pub(super) fn summarised(&self, count: usize) -> usize {
        let from = self.summary.as_ref().map_or(0, |summary| summary.items);
        match self.shown_entries(from).nth(count) {
            Some((at, _)) if count > 0 => at,
            Some(_) => from,
            None => self.history.len(),
        }
    }
}

/// The note for the model about a restore after which it still sees its calls, or some of them.
fn note(restored: &Restored) -> String {
    let lines = restored.files.iter().map(|file| match &file.to {
        Some(_) => format!("- {}", file.path),
        None => format!("- {} (it does not exist any more)", file.path),
    });
    let files = lines.collect::<Vec<_>>().join("\n");
    let lead = match (&restored.call, restored.conversation) {
        (Some(call), Conversation::Rewound) => {
            format!("I went back to the moment before your call {call}; what you said and did after that is undone.")
        }
        (_, Conversation::Kept) | (None, Conversation::Rewound) => "I undid some of your changes.".to_owned(),
    };
    match files.as_str() {
        "" => lead,
        files => format!("{lead} These files are as they were before:\n{files}\nRead them again before you use them."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::answer::Answer;
    use crate::task::log::event::Event;
    use crate::task::log::record::Record;
    use crate::task::restore::tests::{self, created};
    use serde_json::{Value, json};

    /// The state after these events.
    fn state(events: &[Value]) -> State {
        let mut state = None;
        for (seq, event) in (1..).zip(events) {
            let event: Event = serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{error}: {event}"));
            State::advance(&mut state, &Record { seq: Seq(seq), at: seq, event }).expect("in place");
        }
        state.expect("a task")
    }

    /// The events of a turn with an answer.
    fn turn(number: u32) -> Vec<Value> {
        let answer = Answer::new(&format!("answer {number}"), []);
        tests::turn(number, &[json!({ "answered": { "answer": answer } })])
    }

    fn restored(to: u64, items: usize, conversation: &str) -> Value {
        let file = json!({ "root": "/w", "path": "a.txt", "to": { "sha256": "x", "len": 1, "mode": 0 } });
        json!({ "restored": {
            "to": to, "items": items, "conversation": conversation, "files": [file], "by": { "client": "ann", "via": "x" },
        } })
    }

    fn shown(state: &State) -> Vec<String> {
        let text = |item: &Arc<Item>| match item.as_ref() {
            Item::Said(message) => message.text().into_owned(),
            Item::Answered(answer) => answer.text(),
            Item::Nudge(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        state.shown_history(0).iter().map(text).collect()
    }

    #[test]
    fn hidden_entries_are_shown_again_when_the_restore_is_undone() {
        let mut log = [vec![created()], turn(1), turn(2)].concat();
        let all = ["prompt 1", "answer 1", "prompt 2", "answer 2"];
        assert_eq!(shown(&state(&log)), all);
        log.push(restored(7, 2, "rewound"));
        let rewound = state(&log);
        assert_eq!((shown(&rewound), rewound.history.len()), (all[..2].iter().map(|s| s.to_string()).collect(), 4));
        assert_eq!(rewound.blobs.keys().collect::<Vec<_>>(), ["x"], "clients may read the content");
        log.push(restored(10, 0, "rewound"));
        assert_eq!(shown(&state(&log)), all);
        log.pop();
        log.extend(turn(3));
        assert_eq!(shown(&state(&log)), ["prompt 1", "answer 1", "prompt 3", "answer 3"]);
        // Entries that are hidden are not counted when the older part is summarised.
        let after = state(&log);
        assert_eq!([0, 1, 2, 3, 4, 9].map(|count| after.summarised(count)), [0, 1, 4, 5, 6, 6]);
    }

    #[test]
    fn a_note_tells_the_model_of_files_when_the_conversation_is_kept() {
        let log = [vec![created()], turn(1), vec![restored(3, 0, "kept")], turn(2)].concat();
        let shown = shown(&state(&log));
        assert_eq!([&shown[0], &shown[1], &shown[3]], ["prompt 1", "answer 1", "prompt 2"]);
        assert!(
            shown[2].starts_with("I undid some of your changes.") && shown[2].contains("\n- a.txt\n"),
            "{}",
            shown[2]
        );
    }

    #[test]
    fn a_summary_of_hidden_entries_is_not_shown() {
        let summarised = |items: usize| json!({ "compacted": { "summary": "s", "items": items } });
        for (items, is_shown) in [(2, true), (3, false)] {
            let mut log = [vec![created()], turn(1), turn(2)].concat();
            log.insert(8, summarised(items));
            log.push(restored(7, 2, "rewound"));
            assert_eq!(state(&log).summary.is_some(), is_shown, "{items}");
            log.push(restored(11, 0, "rewound"));
            assert!(state(&log).summary.is_some());
        }
    }
}
