//! The coder projection: what the reference server's clients are shown of an event. Event kinds, states and payloads are
//! those of its recorded streams.
//!
//! In 0.3 the state in a tool event is the one last announced (`State::told`), not the present one: after an approval it stays
//! `input-required` until the results have gone to the model, because clients of the reference server see it so. The reference
//! server knows no 1.0, and clients of that version take `input-required` for the end of a stream: they see the present state.

use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Frame, Piece, StatusUpdate};
use crate::a2a::views::coder_call;
use crate::a2a::views::tools::Tools;
use crate::a2a::words::{CallStatus, CoderKind, OURS};
use crate::base::id::{CallId, Seq};
use crate::base::json;
use crate::task::log::answer::Usage;
use crate::task::log::event::{Event, Protocol, detours, errands, hooks};
use crate::task::log::gemini::UsageMetadata;
use crate::task::log::record::Record;
use crate::task::machine::state::{State, TaskState};
use crate::task::message::{Artifact, Part, Source};
use serde_json::json;
use std::borrow::Cow;

/// `state` is the state right after `record`. None: clients are not shown the event.
pub fn frame<'a>(state: &'a State, record: &'a Record, tools: &Tools, protocol: Protocol) -> Option<Frame<'a>> {
    let shown = Shown {
        state,
        record,
        tools,
        word: match protocol {
            Protocol::V03 => state.told,
            Protocol::V10 => state.status.state,
        },
    };
    match &record.event {
        Event::TurnBegan { .. } | Event::ResultsSent | Event::Resumed => Some(Frame::Status(shown.passing())),
        Event::Answered { answer } => answer.has_calls().then(|| Frame::Status(shown.passing())),
        Event::Paused | Event::TurnEnded { .. } | Event::Interrupted { .. } | Event::Closed { .. } => {
            Some(Frame::Status(announced(state, std::iter::empty())))
        }
        Event::Thought { subject, description } => shown.thought(subject, description),
        Event::Text { text } => {
            let since = state.utterance.since.unwrap_or(record.seq);
            (!text.is_empty()).then(|| shown.said(CoderKind::TextContent, since, Piece::Text(text.into())))
        }
        Event::Cited { text } => {
            (!text.trim().is_empty()).then(|| shown.said(CoderKind::Citation, record.seq, Piece::Text(text.into())))
        }
        Event::CallPlanned { call, .. } => shown.call(call, CallStatus::Scheduled),
        Event::CallAsked { call, .. } | Event::CallAnswered { call, .. } => {
            shown.call(call, CallStatus::AwaitingApproval)
        }
        // A call that a rule allowed has been shown as scheduled already.
        Event::CallReady { call, .. } => match state.call(call)?.choice {
            Some(_) => shown.call(call, CallStatus::Scheduled),
            None => None,
        },
        Event::CallStarted { call } => shown.call(call, CallStatus::Executing),
        Event::CallOutput { call, text } => output(state, call, text),
        Event::CallEnded { call, ending } => shown.call(call, CallStatus::of(ending)),
        Event::Produced { artifact, append, last } => {
            Some(Frame::Artifact(ArtifactUpdate { artifact: Cow::Borrowed(artifact), append: *append, last: *last }))
        }
        Event::Created(_)
        | Event::Prompted { .. }
        | Event::Retracted { .. }
        | Event::CallStale { .. }
        | errands!()
        | detours!()
        | hooks!() => None,
    }
}

/// The status as last announced, in a form that a stream may end with.
/// Calls that wait for an answer are repeated in it: whoever sees only this frame can give one.
pub fn present<'a>(state: &'a State, tools: &Tools) -> StatusUpdate<'a> {
    announced(state, asked(state, tools))
}

/// What there is to say about the present status: its text, and every call that waits for an answer. The reference server has
/// the calls of a task in its history, with everything else it ever sent; here they are where a client looks first, and
/// without their tools' schemas.
pub fn message(state: &State) -> Option<AgentMessage<'_>> {
    let text = state.status.text.as_deref();
    let text = text.into_iter().map(|text| Piece::Text(text.into()));
    let none = Tools::new(&[]);
    AgentMessage::of(state.status.seq, text.chain(asked(state, &none)))
}

/// The calls that wait for an answer.
fn asked<'a>(state: &'a State, tools: &Tools) -> impl Iterator<Item = Piece<'a>> {
    let encode = |call| coder_call::encode(state, call, CallStatus::AwaitingApproval, tools);
    state.asked().map(move |call| Piece::Data(encode(call)))
}

/// The status as last announced, with these parts behind what there is to say about it.
fn announced<'a>(state: &'a State, more: impl Iterator<Item = Piece<'a>>) -> StatusUpdate<'a> {
    let status = &state.status;
    let said = status.text.as_deref();
    let said = said.into_iter().map(|text| Piece::Text(text.into()));
    let error = match status.state {
        TaskState::Failed => status.text.as_deref(),
        TaskState::Completed | TaskState::Canceled | TaskState::Rejected => None,
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            state.error.as_deref()
        }
    };
    let open = Metadata { error, ..Metadata::of(CoderKind::StateChange, state) };
    let closing = Metadata { usage: state.usage.as_ref(), ..open };
    StatusUpdate {
        state: status.state,
        at: status.at,
        message: AgentMessage::of(status.seq, said.chain(more)),
        metadata: open.encode(),
        closing: Some(closing.encode()),
    }
}

/// An event beside the state it led to.
struct Shown<'a, 't> {
    state: &'a State,
    record: &'a Record,
    tools: &'t Tools,
    /// The state that is said beside it.
    word: TaskState,
}

impl<'a> Shown<'a, '_> {
    /// A change of state that no stream ends with.
    fn passing(&self) -> StatusUpdate<'a> {
        StatusUpdate {
            state: self.word,
            at: self.record.at,
            message: None,
            metadata: Metadata::of(CoderKind::StateChange, self.state).encode(),
            closing: None,
        }
    }

    fn thought(&self, subject: &str, description: &str) -> Option<Frame<'a>> {
        if subject.is_empty() && description.is_empty() {
            return None;
        }
        let data = json!({ "subject": subject, "description": description });
        let piece = Piece::Data(json::bytes(&data));
        Some(self.said(CoderKind::Thought, self.record.seq, piece))
    }

    fn said(&self, kind: CoderKind, since: Seq, piece: Piece<'a>) -> Frame<'a> {
        let metadata = Metadata { trace: self.state.trace.as_deref(), ..Metadata::of(kind, self.state) };
        self.status(since, piece, metadata)
    }

    fn call(&self, call: &CallId, status: CallStatus) -> Option<Frame<'a>> {
        let call = self.state.call(call)?;
        let kind = match status {
            CallStatus::AwaitingApproval => CoderKind::ToolCallConfirmation,
            CallStatus::Scheduled
            | CallStatus::Executing
            | CallStatus::Success
            | CallStatus::Error
            | CallStatus::Cancelled => CoderKind::ToolCallUpdate,
        };
        let data = coder_call::encode(self.state, call, status, self.tools);
        let metadata = Metadata { answered_by: call.decided_by(), ..Metadata::of(kind, self.state) };
        Some(self.status(self.record.seq, Piece::Data(data), metadata))
    }

    fn status(&self, since: Seq, piece: Piece<'a>, metadata: Metadata<'_>) -> Frame<'a> {
        Frame::Status(StatusUpdate {
            state: self.word,
            at: self.record.at,
            message: Some(AgentMessage::new(since, piece)),
            metadata: metadata.encode(),
            closing: None,
        })
    }
}

/// Live output: the first piece makes the artifact, each further one is appended to it.
pub fn output<'a>(state: &State, call: &CallId, text: &str) -> Option<Frame<'a>> {
    let pieces = state.call(call)?.outputs;
    Some(Frame::Artifact(ArtifactUpdate {
        artifact: Cow::Owned(Artifact {
            id: format!("tool-{call}-output"),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
        }),
        append: pieces > 1,
        last: false,
    }))
}

/// The member of an event's metadata that tells who decided about a call.
pub fn write_answered_by(out: &mut Vec<u8>, source: &Source) {
    json::write(out, OURS);
    out.extend_from_slice(br#":{"answered_by":"#);
    json::write(out, source);
    out.push(b'}');
}

#[derive(Clone, Copy)]
struct Metadata<'a> {
    kind: CoderKind,
    model: &'a str,
    trace: Option<&'a str>,
    error: Option<&'a str>,
    usage: Option<&'a Usage>,
    answered_by: Option<&'a Source>,
}

impl<'a> Metadata<'a> {
    fn of(kind: CoderKind, state: &'a State) -> Metadata<'a> {
        Metadata { kind, model: &state.model, trace: None, error: None, usage: None, answered_by: None }
    }

    /// By hand: every chunk of text has one.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(br#"{"coderAgent":{"kind":""#);
        out.extend_from_slice(self.kind.word().as_bytes());
        out.extend_from_slice(br#""},"model":"#);
        json::write(&mut out, self.model);
        if let Some(trace) = self.trace {
            out.extend_from_slice(br#","traceId":"#);
            json::write(&mut out, trace);
        }
        if let Some(error) = self.error {
            out.extend_from_slice(br#","error":"#);
            json::write(&mut out, error);
        }
        if let Some(usage) = self.usage {
            out.extend_from_slice(br#","usageMetadata":"#);
            json::write(&mut out, &UsageMetadata(*usage));
        }
        if let Some(source) = self.answered_by {
            out.push(b',');
            write_answered_by(&mut out, source);
        }
        out.push(b'}');
        out
    }
}
