//! Compaction: the older part of a conversation is replaced by a summary that the model writes, to make room in its context window.
//!
//! The newest part stays unchanged. The conversation is cut only before a prompt of the user, so no call is separated from its
//! result.

use crate::base::cancel::Cancel;
use crate::base::json;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::error::fatal;
use crate::task::log::answer::Answer;
use crate::task::machine::job::{Compaction, ModelError, ModelErrorKind, Think};
use crate::task::machine::state::Item;
use crate::task::spec::Ending;
use std::sync::Arc;

/// The request for the summary.
const ASK: &str = "\
Stop working on the task for a moment. The conversation above is about to be removed and replaced by what you write now, so \
write down everything you need to go on as if nothing had happened. Answer with this and nothing else:

<state_snapshot>
  <goal>what the user wants in the end, in one or two sentences</goal>
  <constraints>rules and preferences the user stated</constraints>
  <knowledge>facts you found out: commands that work, conventions, causes</knowledge>
  <files>each file you read, changed or created, and what matters about it</files>
  <recent>the last few things you did and what came of them</recent>
  <plan>the steps, each done, in progress or open</plan>
</state_snapshot>

Be complete and terse. Leave out pleasantries and everything that can be read again from the files.";

/// The share of the conversation that stays unchanged, by size.
const KEEP: f64 = 0.3;

/// The index of the first item that stays; None if there is no prompt to cut before.
fn cut(history: &[Arc<Item>]) -> Option<usize> {
    let sizes: Vec<usize> = history.iter().map(|item| size(item)).collect();
    let whole: usize = sizes.iter().sum();
    let mut before = 0;
    let mut best = None;
    for (at, item) in history.iter().enumerate() {
        let keeps = (whole - before) as f64 / whole.max(1) as f64;
        if at > 0 && matches!(item.as_ref(), Item::Said(_)) {
            best = Some(at);
            if keeps <= KEEP {
                break;
            }
        }
        before += sizes[at];
    }
    best
}

fn size(item: &Item) -> usize {
    match item {
        Item::Said(message) | Item::Steered(message) | Item::Dropped(message) => message.text().len() + 16,
        Item::Summary(text) => text.len(),
        Item::Nudge(text) => text.bytes() as usize,
        // The size of media says little about their tokens.
        Item::Media(_) => 0,
        Item::Answered(answer) => answer.parts.iter().map(|part| json::bytes(part).len()).sum(),
        Item::Results(results) => results.iter().map(|result| size_of_ending(&result.ending)).sum(),
    }
}

/// About the number of bytes of a result that the model is sent.
fn size_of_ending(ending: &Ending) -> usize {
    match ending {
        Ending::Success { output, .. } => output.bytes() as usize,
        Ending::Error { error } => error.message.len(),
        Ending::Cancelled { reason, output } => reason.len() + output.bytes() as usize,
    }
}

/// Whether the conversation has an older part that can be summarised and that is not itself only a summary.
pub fn can_compact(think: &Think) -> bool {
    think.history[..older_part(think)].iter().any(|item| !matches!(item.as_ref(), Item::Summary(_)))
}

/// The number of items in the part of the conversation that would be summarised.
fn older_part(think: &Think) -> usize {
    let all = if think.compress { think.history.len() } else { 0 };
    cut(&think.history).map_or(all, |at| at.max(think.given))
}

/// Lets the model of the conversation summarise the older part. If that is too long for the model, its oldest half is left out, repeatedly
/// if needed.
pub fn compact(backend: &dyn ModelBackend, request: &ModelRequest, cancel: &Cancel) -> Result<Compaction, ModelError> {
    let think = request.think;
    let at = match think.compress && !can_compact(think) {
        true => 0,
        false => older_part(think),
    };
    let mut from = 0;
    while from < at {
        let older = Think { history: think.history[from..at].to_vec(), compact_at: None, ..think.clone() };
        let answer = match backend.consult(&ModelRequest { think: &older, tools: &[], ..*request }, ASK, cancel) {
            Err(error) if error.kind == ModelErrorKind::TooLong => {
                from += (at - from).div_ceil(2);
                continue;
            }
            answer => answer?,
        };
        let summary = summary(&answer).ok_or_else(|| fatal("The model wrote no summary."))?;
        return Ok(Compaction { summary, items: at - think.given });
    }
    Err(fatal("There is no older part of the conversation that could be summarised."))
}

/// The summary in an answer, if it contains one.
fn summary(answer: &Answer) -> Option<String> {
    let text = answer.text();
    let start = text.find("<state_snapshot>")?;
    let end = text.rfind("</state_snapshot>")? + "</state_snapshot>".len();
    (start < end).then(|| text[start..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gemini;
    use crate::task::message::{Message, Part, Role};

    fn said(text: &str) -> Arc<Item> {
        Arc::new(Item::Said(Arc::new(Message::new("m", Role::User, vec![Part::text(text)]))))
    }

    fn answered(text: &str) -> Arc<Item> {
        Arc::new(Item::Answered(Arc::new(answer(text))))
    }

    fn answer(text: &str) -> Answer {
        Answer::new(text, [])
    }

    #[test]
    fn the_cut_is_before_a_prompt_and_leaves_about_a_third() {
        let words = "word ".repeat(100);
        let history: Vec<Arc<Item>> = (0..10).flat_map(|_| [said(&words), answered(&words)]).collect();
        let at = cut(&history).unwrap();
        assert!(matches!(history[at].as_ref(), Item::Said(_)));
        assert_eq!(at, 14, "6 of 20 items stay");
        assert_eq!(cut(&history[..2]), None, "one turn cannot be cut");
        assert_eq!(cut(&[]), None);
    }

    #[test]
    fn a_single_turn_is_summarised_only_on_request() {
        let think = |history: Vec<Arc<Item>>, compress| Think { history, compress, ..gemini::tests::think("m") };
        let one = vec![said("go"), answered("done")];
        assert!(!can_compact(&think(one.clone(), false)));
        assert!(can_compact(&think(one.clone(), true)));
        assert_eq!(older_part(&think(one, true)), 2);
        let summary = Arc::new(Item::Summary("short".into()));
        assert!(!can_compact(&think(vec![summary], true)), "a summary is not summarised");
        assert!(!can_compact(&think(Vec::new(), true)));
    }

    #[test]
    fn only_the_snapshot_element_is_used() {
        let whole = "Sure:\n<state_snapshot><goal>x</goal></state_snapshot> bye";
        assert_eq!(summary(&answer(whole)).unwrap(), "<state_snapshot><goal>x</goal></state_snapshot>");
        assert_eq!(summary(&answer("no")), None);
        assert_eq!(summary(&answer("</state_snapshot><state_snapshot>")), None);
    }
}
