//! A state as a task value of A2A: the conversation as messages, the agent's text as artifacts. An artifact is the text of a turn; in the
//! plain profile it is one answer of the model, as in the streams of that profile. The versions differ only in how the value is written.

use crate::a2a::dialect::{Outputs, View};
use crate::a2a::encodings::value::{Piece, Task};
use crate::a2a::views::{coder, devtool, plain};
use crate::base::id::Seq;
use crate::task::log::event::Profile;
use crate::task::machine::state::{Item, State, TaskState};
use crate::task::message::{Artifact, Message, Part, Role};
use std::borrow::Cow;

/// The parts of a task that a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// The number of the newest messages, and with them the answers of their turns. None: all messages; 0: no history.
    pub history: Option<usize>,
    pub artifacts: Artifacts,
    /// Whether to include the members in which the reference server stores its state.
    pub persisted: bool,
}

/// Whether artifacts are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifacts {
    Shown,
    /// Included in a list of tasks, where 1.0 requires the member even if it is empty.
    Listed,
    Omitted,
}

impl SnapshotOptions {
    pub const ALL: SnapshotOptions = SnapshotOptions::newest(None);

    /// The options for a task of a list.
    pub fn listed(history: usize, artifacts: bool) -> SnapshotOptions {
        SnapshotOptions {
            history: Some(history),
            artifacts: if artifacts { Artifacts::Listed } else { Artifacts::Omitted },
            persisted: false,
        }
    }

    pub const fn newest(history: Option<usize>) -> SnapshotOptions {
        SnapshotOptions { history, artifacts: Artifacts::Shown, persisted: false }
    }
}

pub fn task(view: View, state: &State, options: SnapshotOptions) -> Task<'_> {
    let SnapshotOptions { history, artifacts: shown, persisted } = options;
    let (messages, oldest) = messages(state, history);
    // While an accepted prompt waits for its turn, the task is shown as working. A stream that begins with the task would otherwise begin
    // with the end of the turn before, and clients would stop there.
    let answered = state.is_prompted() && state.status.state != TaskState::Submitted;
    Task {
        created: &state.created,
        state: if answered { TaskState::Working } else { view.state(state) },
        at: state.status.at,
        message: status_message(view, state).filter(|_| !answered),
        persisted: persisted && view.is_coder(),
        error: state.turn.error.as_deref().filter(|_| view.is_coder()),
        history: Some(messages).filter(|_| history != Some(0)),
        artifacts: match shown {
            Artifacts::Shown => {
                Some(artifacts(view, state, oldest)).filter(|all| !(all.is_empty() && view.writer().is_proto()))
            }
            Artifacts::Listed => Some(artifacts(view, state, 0)),
            Artifacts::Omitted => None,
        },
    }
}

/// The message of the status, with the open questions: a client that sees only the task can answer them.
fn status_message(view: View, state: &State) -> Option<Message> {
    let message = match view {
        View::A2a(_, Profile::Devtool, _) => devtool::message(state),
        View::A2a(_, Profile::Plain, outputs) => plain::message(state, outputs),
        View::A2a(_, Profile::Coder, _) | View::Standalone(_) => coder::message(state),
    }?;
    let part = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => Part::text(text.as_ref()),
        Piece::Data(data) => Part::data(serde_json::from_slice(data).expect("a piece is JSON")),
    };
    Some(Message {
        parts: message.pieces().map(part).collect(),
        extensions: message.extension.into_iter().map(Into::into).collect(),
        metadata: message.metadata.map(|metadata| serde_json::from_slice(&metadata).expect("metadata is JSON")),
        ..agent(state, message.since, String::new())
    })
}

/// The newest messages, oldest first; the unfinished one and queued prompts are at the end. They are collected from the end, so that only
/// the requested messages of a long conversation are copied. Also returns the index of the oldest of them in the history.
fn messages(state: &State, newest: Option<usize>) -> (Vec<Cow<'_, Message>>, usize) {
    let most = newest.unwrap_or(usize::MAX);
    let queued = state.queue.iter().rev().map(|queued| Cow::Borrowed(queued.message.as_ref()));
    let now = state.utterance.since.map(|since| Cow::Owned(agent(state, since, state.utterance.text.clone())));
    let mut all: Vec<Cow<'_, Message>> = queued.chain(now).take(most).collect();
    let mut oldest = state.history.len();
    while all.len() < most && oldest > 0 {
        oldest -= 1;
        all.extend(message(state, &state.history[oldest]));
    }
    all.reverse();
    (all, oldest)
}

/// The message that clients are shown for an item of the history.
fn message<'a>(state: &State, item: &'a Item) -> Option<Cow<'a, Message>> {
    match item {
        Item::Said(message) | Item::Steered(message) | Item::Dropped(message) => Some(Cow::Borrowed(message.as_ref())),
        Item::Answered(answer) => {
            let text = answer.text();
            let since = answer.said_at.unwrap_or_default();
            (!text.is_empty()).then(|| Cow::Owned(agent(state, since, text)))
        }
        Item::Results(_) | Item::Summary(_) | Item::Nudge(_) | Item::Media(_) => None,
    }
}

fn agent(state: &State, since: Seq, text: String) -> Message {
    Message::new(state.message_id(since), Role::Agent, vec![Part::text(text)])
}

/// The answers, then the artifacts that the agent produced. An answer repeats the agent's messages of its turn, so a request for the
/// newest messages gets only the answers of their turns; `from` is the index of the oldest of these messages in the history. The newest
/// answer is always included, because most clients read a task to get it.
fn artifacts(view: View, state: &State, from: usize) -> Vec<Cow<'_, Artifact>> {
    let begins = |item: &Item| matches!(item, Item::Said(_) | Item::Dropped(_));
    let mut turn = state.history.iter().filter(|item| begins(item)).count();
    let mut answers = Vec::new();
    // The messages of a turn, newest first.
    let (is_plain, unfinished) = match view {
        View::A2a(_, Profile::Plain, Outputs { pieces: false, .. }) => (true, ""),
        View::A2a(_, Profile::Plain, _) => (true, plain::sent(&state.utterance.text)),
        View::A2a(_, Profile::Coder | Profile::Devtool, _) | View::Standalone(_) => (false, &*state.utterance.text),
    };
    let mut said = vec![unfinished.to_owned()];
    for (at, item) in state.history.iter().enumerate().rev() {
        if let Item::Answered(answer) = item.as_ref() {
            said.push(answer.text());
        } else if begins(item) {
            said.retain(|text| !text.is_empty());
            if !is_plain && !said.is_empty() {
                said.reverse();
                said = vec![said.join("\n")];
            }
            let count = said.len();
            answers.extend(said.drain(..).enumerate().map(|(later, text)| answer(turn, count - later, text)));
            turn -= 1;
            if at <= from && !answers.is_empty() {
                break;
            }
        }
    }
    answers.reverse();
    answers.into_iter().map(Cow::Owned).chain(state.artifacts.iter().map(Cow::Borrowed)).collect()
}

/// The id of an answer; `number` counts the answers of the turn from 1.
pub fn answer_id(turn: usize, number: usize) -> String {
    if number == 1 { format!("answer-{turn}") } else { format!("answer-{turn}.{number}") }
}

/// The artifact of the agent's text in a turn, or of one of the answers in it.
pub fn answer(turn: usize, number: usize, text: String) -> Artifact {
    Artifact {
        id: answer_id(turn, number),
        name: Some("answer".into()),
        description: None,
        parts: vec![Part::text(text)],
    }
}

#[cfg(test)]
mod tests {
    use crate::a2a::snapshot;
    use crate::a2a::{SnapshotOptions, View, named_views, sample};
    use crate::task::log::event::{End, Event};
    use crate::task::machine::state::State;
    use serde_json::Value;

    const TURNS: u32 = 30;

    /// A conversation with long answers, followed by the events `last`.
    fn conversation(last: &[Event]) -> State {
        let mut events = vec![Event::Created(sample::state().created)];
        for turn in 1..=TURNS {
            events.extend(sample::begins(turn));
            let text = format!("{turn} {}", "x".repeat(10_000));
            events.extend([sample::answers(&text, vec![]), Event::TurnEnded { turn, end: End::Done, by: None }]);
        }
        events.extend_from_slice(last);
        sample::fold(events).pop().expect("events").1
    }

    fn shown(view: View, state: &State, history: Option<usize>) -> Value {
        serde_json::from_slice(&snapshot(view, state, SnapshotOptions::newest(history))).expect("JSON")
    }

    /// How many messages, and the ids of the artifacts.
    fn counted(task: &Value) -> (usize, Vec<&str>) {
        let list = |name: &str| task[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let ids = list("artifacts").iter().filter_map(|artifact| artifact["artifactId"].as_str());
        (list("history").len(), ids.collect())
    }

    #[test]
    fn a_short_history_has_only_the_answers_of_its_turns() {
        let state = conversation(&[]);
        for (name, view) in named_views().filter(|(_, view)| matches!(view, View::A2a(..))) {
            let size = |history| snapshot(view, &state, SnapshotOptions::newest(history)).len();
            assert!(size(None) > 600_000, "{name}: history and artifacts hold all of it");
            for few in [0, 1, 2] {
                assert!(size(Some(few)) < 30_000, "{name}: {few} messages take {} bytes", size(Some(few)));
            }
            assert_eq!(counted(&shown(view, &state, Some(0))), (0, vec!["answer-30"]), "{name}");
            assert_eq!(counted(&shown(view, &state, Some(1))), (1, vec!["answer-30"]), "{name}");
            assert_eq!(counted(&shown(view, &state, Some(2))), (2, vec!["answer-30"]), "{name}");
            assert_eq!(counted(&shown(view, &state, Some(3))), (3, vec!["answer-29", "answer-30"]), "{name}");
            for all in [60, 61, usize::MAX] {
                assert_eq!(shown(view, &state, Some(all)), shown(view, &state, None), "{name}");
            }
            assert_eq!(counted(&shown(view, &state, None)).1.len(), TURNS as usize, "{name}");
        }
    }

    #[test]
    fn the_newest_answer_is_always_there() {
        let view = named_views().find(|(name, _)| *name == "a2a-0.3-coder").expect("the view exists").1;
        let next = [sample::begins(31), vec![sample::says("So far")]].concat();
        let prompted = conversation(&next[..1]);
        assert_eq!(counted(&shown(view, &prompted, Some(1))), (1, vec!["answer-30"]), "the prompt is not answered yet");
        let working = conversation(&next);
        assert_eq!(counted(&shown(view, &working, Some(1))), (1, vec!["answer-31"]));
        assert_eq!(counted(&shown(view, &working, Some(3))), (3, vec!["answer-30", "answer-31"]));
    }

    #[test]
    fn an_accepted_prompt_ends_the_pause_before_it() {
        let asks = Event::TurnEnded { turn: 31, end: End::Asked("Which?".into()), by: None };
        let asked = [sample::begins(31), vec![asks]].concat();
        let prompted = [&asked[..], &sample::begins(32)[..1]].concat();
        for (name, view) in named_views().filter(|(_, view)| matches!(view, View::A2a(..))) {
            let status = |events: &[Event]| shown(view, &conversation(events), Some(0))["status"].clone();
            let state = |status: &Value| status["state"].as_str().unwrap().to_ascii_lowercase().replace('_', "-");
            assert!(state(&status(&asked)).ends_with("input-required"), "{name}");
            assert!(state(&status(&prompted)).ends_with("working"), "{name}");
            assert_eq!(status(&prompted)["message"], Value::Null, "{name}");
        }
    }
}
