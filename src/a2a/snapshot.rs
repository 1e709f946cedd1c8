//! A state as a Task value: the conversation as messages, what the agent said in each turn as an artifact. The same in every
//! profile that shows canonical states; versions differ only in how it is written.

use crate::a2a::form::{Outputs, Projection, View};
use crate::a2a::value::{Piece, Task};
use crate::a2a::words;
use crate::a2a::{coder, devtool, plain};
use crate::base::id::Seq;
use crate::task::message::{Artifact, Message, Part, Role};
use crate::task::state::{Item, State};
use std::borrow::Cow;

/// How much of a task is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many of the newest messages: None for all of them, 0 for no history at all.
    pub history: Option<usize>,
    pub artifacts: Artifacts,
    pub persisted: Persisted,
}

/// Whether the members are shown in which the reference server keeps its own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persisted {
    Shown,
    Omitted,
}

/// Whether artifacts are shown at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifacts {
    Shown,
    /// Shown in a list of tasks, where 1.0 wants to be told of none at all.
    Listed,
    Omitted,
}

impl Wanted {
    pub const ALL: Wanted = Wanted::newest(None);

    /// As lists show tasks.
    pub fn listed(history: usize, artifacts: bool) -> Wanted {
        Wanted {
            history: Some(history),
            artifacts: match artifacts {
                true => Artifacts::Listed,
                false => Artifacts::Omitted,
            },
            persisted: Persisted::Omitted,
        }
    }

    pub const fn newest(history: Option<usize>) -> Wanted {
        Wanted { history, artifacts: Artifacts::Shown, persisted: Persisted::Omitted }
    }

    pub fn with_persisted_state(mut self) -> Wanted {
        self.persisted = Persisted::Shown;
        self
    }
}

pub fn task(view: View, state: &State, wanted: Wanted) -> Task<'_> {
    let Wanted { history, artifacts: shown, persisted } = wanted;
    Task {
        created: &state.created,
        state: words::shown(view, state),
        at: state.status.at,
        message: status_message(view, state),
        persisted: persisted == Persisted::Shown && view.is_coder(),
        history: match history {
            Some(0) => None,
            Some(newest) => {
                let mut all = messages(state);
                all.drain(..all.len().saturating_sub(newest));
                Some(all)
            }
            None => Some(messages(state)),
        },
        artifacts: match shown {
            Artifacts::Shown => Some(artifacts(state)).filter(|all| !(all.is_empty() && view.omits_empty())),
            Artifacts::Listed => Some(artifacts(state)),
            Artifacts::Omitted => None,
        },
    }
}

/// What there is to say about the status, with the questions that are open: whoever sees the task alone can answer them.
fn status_message(view: View, state: &State) -> Option<Message> {
    let said = match view {
        View::A2a(_, Projection::Devtool) => devtool::message(state),
        View::A2a(_, Projection::Plain) => plain::message(state, Outputs::Any),
        View::A2a(_, Projection::PlainText) => plain::message(state, Outputs::Text),
        View::A2a(_, Projection::Coder) | View::Kebab | View::Snake | View::Session | View::Own => {
            coder::message(state)
        }
    }?;
    let part = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => Part::text(text.as_ref()),
        Piece::Data(data) => Part::data(serde_json::from_slice(data).expect("a piece is JSON")),
    };
    Some(Message {
        parts: said.pieces().map(part).collect(),
        extensions: said.extension.into_iter().map(Into::into).collect(),
        ..agent(state, said.since, String::new())
    })
}

/// Everything said so far, oldest first: what is being said now, and prompts whose turn has not come, at the end.
fn messages(state: &State) -> Vec<Cow<'_, Message>> {
    let mut all = Vec::new();
    for item in &state.history {
        match item.as_ref() {
            Item::Said(message) | Item::Dropped(message) => {
                all.push(Cow::Borrowed(message.as_ref()));
            }
            Item::Answered(answer) => {
                let text = answer.text();
                if !text.is_empty() {
                    let since = answer.said_at.unwrap_or_default();
                    all.push(Cow::Owned(agent(state, since, text)));
                }
            }
            Item::Results(_) | Item::Summary(_) | Item::Nudge(_) => {}
        }
    }
    if let Some(since) = state.utterance.since {
        all.push(Cow::Owned(agent(state, since, state.utterance.text.clone())));
    }
    all.extend(state.queue.iter().map(|queued| Cow::Borrowed(queued.message.as_ref())));
    all
}

fn agent(state: &State, since: Seq, text: String) -> Message {
    Message::new(state.message_id(since), Role::Agent, vec![Part::text(text)])
}

/// One answer per turn that said something, then what the agent produced.
fn artifacts(state: &State) -> Vec<Cow<'_, Artifact>> {
    let mut turns: Vec<Vec<String>> = Vec::new();
    for item in &state.history {
        match item.as_ref() {
            Item::Said(_) | Item::Dropped(_) => turns.push(Vec::new()),
            Item::Answered(answer) => {
                if let Some(said) = turns.last_mut() {
                    said.push(answer.text());
                }
            }
            Item::Results(_) | Item::Summary(_) | Item::Nudge(_) => {}
        }
    }
    if let Some(said) = turns.last_mut() {
        said.push(state.utterance.text.clone());
    }
    let answers = turns.into_iter().zip(1..).filter_map(|(mut said, turn)| {
        said.retain(|text| !text.is_empty());
        (!said.is_empty()).then(|| {
            Cow::Owned(Artifact {
                id: format!("answer-{turn}"),
                name: Some("answer".into()),
                description: None,
                parts: vec![Part::text(said.join("\n"))],
            })
        })
    });
    answers.chain(state.artifacts.iter().map(Cow::Borrowed)).collect()
}
