//! The coder projection: what the reference server's clients are shown. Event kinds, states and payloads are those of its recorded
//! streams.
//!
//! In 0.3 the state in a tool event is the one last announced (`State::told`), not the present one: after an approval it stays
//! `input-required` until the results have gone to the model, because clients of the reference server see it so. The reference
//! server knows no 1.0, and clients of that version take `input-required` for the end of a stream: they see the present state.

use crate::a2a::encodings::object::{Object, object};
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Frame, Piece, StatusUpdate};
use crate::a2a::views::call::Call;
use crate::a2a::views::coder_call;
use crate::a2a::views::tools::Tools;
use crate::a2a::views::update::{Change, Step, Update, failure, status_message, thought};
use crate::a2a::words::{CODER, CallStatus, OURS};
use crate::base::id::Seq;
use crate::task::log::answer::Usage;
use crate::task::log::event::Protocol;
use crate::task::log::gemini::UsageMetadata;
use crate::task::machine::state::{CallState, State, TaskState};
use crate::task::message::{Artifact, Part, Source};
use std::borrow::Cow;

/// None: clients are not shown the update.
pub fn frame<'a>(update: &Update<'a>, tools: &Tools, protocol: Protocol) -> Option<Frame<'a>> {
    let Update { state, seq, at, .. } = *update;
    let shown = Shown {
        state,
        at,
        word: match protocol {
            Protocol::V03 => state.told,
            Protocol::V10 => state.status.state,
        },
    };
    match update.change {
        Change::Working | Change::ResultsSent => Some(shown.status(None, Metadata::of("state-change", state))),
        Change::Answered(answer) if !answer.has_calls() => None,
        Change::Answered(_) => Some(shown.status(None, Metadata::of("state-change", state))),
        Change::Paused | Change::Stopped => Some(Frame::Status(announced(state, std::iter::empty()))),
        Change::Thought { subject, description } => Some(shown.content("thought", seq, thought(subject, description))),
        Change::Text { text, since } => Some(shown.content("text-content", since, Piece::Text(text.into()))),
        Change::Citation(text) => Some(shown.content("citation", seq, Piece::Text(text.into()))),
        Change::Call { call, step, status } => match step {
            Step::Planned | Step::AllowedByAnswer | Step::Started | Step::Ended => {
                Some(shown.call(seq, Call::new(call, status), "tool-call-update", tools))
            }
            Step::Asked | Step::Answered => {
                let call = Call::new(call, CallStatus::AwaitingApproval);
                Some(shown.call(seq, call, "tool-call-confirmation", tools))
            }
            // It has been shown as scheduled already.
            Step::AllowedByRule => None,
            Step::Printed { text, .. } => Some(output(call, text)),
        },
        Change::Artifact(ref artifact) => Some(Frame::Artifact(artifact.clone())),
        Change::Created | Change::Prompted { .. } | Change::Retracted { .. } | Change::Notice { .. } => None,
    }
}

/// The status as last announced, in a form that a stream may end with. Calls that wait for an answer are repeated in it, so that a
/// client that sees only this frame can answer.
pub fn present<'a>(state: &'a State, tools: &Tools) -> StatusUpdate<'a> {
    announced(state, asked(state, tools))
}

/// What the agent says about the present status: its text, and every call that waits for an answer. The reference server has the
/// calls of a task in its history, with everything else it ever sent; here they are where a client looks first, and without
/// their tools' schemas.
pub fn message(state: &State) -> Option<AgentMessage<'_>> {
    status_message(state, asked(state, &Tools::new(&[])))
}

/// The calls that wait for an answer.
fn asked<'a>(state: &'a State, tools: &Tools) -> impl Iterator<Item = Piece<'a>> {
    let encode = |call| coder_call::encode(state, Call::new(call, CallStatus::AwaitingApproval), tools);
    state.asked().map(move |call| Piece::Data(encode(call)))
}

/// The status as last announced, with these parts behind its text.
fn announced<'a>(state: &'a State, more: impl Iterator<Item = Piece<'a>>) -> StatusUpdate<'a> {
    let open = Metadata { error: failure(state), ..Metadata::of("state-change", state) };
    let closing = Metadata { usage: state.usage, ..open };
    StatusUpdate {
        state: state.status.state,
        at: state.status.at,
        message: status_message(state, more),
        metadata: open.encode(),
        closing: Some(closing.encode()),
    }
}

/// What the frames of one update have in common.
struct Shown<'a> {
    state: &'a State,
    at: u64,
    /// The state that is named beside the content.
    word: TaskState,
}

impl<'a> Shown<'a> {
    fn content(&self, kind: &'static str, since: Seq, piece: Piece<'a>) -> Frame<'a> {
        let metadata = Metadata { trace: self.state.trace.as_deref(), ..Metadata::of(kind, self.state) };
        self.status(Some(AgentMessage::new(since, piece)), metadata)
    }

    fn call(&self, seq: Seq, call: Call<'_>, kind: &'static str, tools: &Tools) -> Frame<'a> {
        let data = Piece::Data(coder_call::encode(self.state, call, tools));
        let metadata = Metadata { answered_by: call.call.decided_by(), ..Metadata::of(kind, self.state) };
        self.status(Some(AgentMessage::new(seq, data)), metadata)
    }

    /// A status that no stream ends with.
    fn status(&self, message: Option<AgentMessage<'a>>, metadata: Metadata<'_>) -> Frame<'a> {
        let metadata = metadata.encode();
        Frame::Status(StatusUpdate { state: self.word, at: self.at, message, metadata, closing: None })
    }
}

/// Live output: the first piece makes the artifact, each further one is appended to it.
pub fn output<'a>(call: &CallState, text: &str) -> Frame<'a> {
    Frame::Artifact(ArtifactUpdate {
        artifact: Cow::Owned(Artifact {
            id: format!("tool-{}-output", call.id()),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
        }),
        append: call.outputs > 1,
        last: false,
    })
}

/// The member of an event's metadata that tells who decided about a call.
pub fn write_answered_by(o: &mut Object<'_>, source: Option<&Source>) {
    if let Some(source) = source {
        o.object(OURS, |o| _ = o.member("answered_by", source));
    }
}

#[derive(Clone, Copy)]
struct Metadata<'a> {
    kind: &'static str,
    model: &'a str,
    trace: Option<&'a str>,
    error: Option<&'a str>,
    usage: Option<Usage>,
    answered_by: Option<&'a Source>,
}

impl<'a> Metadata<'a> {
    fn of(kind: &'static str, state: &'a State) -> Metadata<'a> {
        Metadata { kind, model: &state.model, trace: None, error: None, usage: None, answered_by: None }
    }

    fn encode(&self) -> Vec<u8> {
        object(|o| {
            o.object(CODER, |o| _ = o.member("kind", self.kind));
            o.member("model", self.model).optional("traceId", self.trace).optional("error", self.error);
            o.optional("usageMetadata", self.usage.map(UsageMetadata));
            write_answered_by(o, self.answered_by);
        })
    }
}
