//! The dialects that clients speak: requests are decoded into [`Call`](crate::task::call::Call)s, events and states are encoded as JSON.
//! Nothing here does I/O or changes the state of a task.
//!
//! `dialect` has one row of data per dialect. A request is decoded into a call and a [`Form`]; the form is all that the core stores about
//! the dialect. A [`View`] encodes events. Each event is encoded once per view, and the form's prefix and suffix are put around the
//! shared bytes. A view is either a projection of events to A2A values (`coder`, `devtool`, `plain`) together with a writer of such
//! values, so that a new profile or version needs one file and not one per combination; or it writes its own objects
//! (`message_stream`, `execute_stream`, `session`, `native`, `acp`). The names on the wire are in one table (`words`), and so are the
//! errors (`fault`).

pub mod acp;
mod card;
pub mod client;
pub mod commands;
mod dialect;
mod encodings;
mod fault;
mod form;
pub mod native;
#[cfg(feature = "webhooks")]
pub mod push;
#[cfg(not(feature = "webhooks"))]
#[path = "push/none.rs"]
mod push;
mod requests;
#[cfg(test)]
pub(crate) mod sample;
mod switches;
mod views;
mod words;

pub use card::{Card, Identity, card};
pub use dialect::{Answers, Begins, Binding, Dialect, Ends, PromptAnswer, Unaddressed, View, named_views};
pub use fault::{fault, fault_frame, in_stream, is_answered, notice};
pub use form::{Decoded, Form, can_show, frame_prefix, frame_suffix, prefix, suffix, view, watch_stream};
pub use native::{blob, permissions, watch_answer};
pub use requests::answer::with_option_member;
pub use requests::gemini_endpoints::{HealthReport, created, health, session_id, short_health};
pub use requests::operation::accepts_stream;
pub use requests::probes::{Unready, live, ready};
pub use requests::route::{Route, decode, route};
pub use requests::rpc::method_names;
pub use requests::socket::decode as decode_message;
pub use requests::tickets::issued as ticket;
pub use switches::{CardDefault, PlainStream, PushRules, RestStatus, Switches, WEBHOOKS};
pub use views::list::{Page, briefs, list, shown_state};
pub use views::metadata::{OtherTools, all_metadata, metadata};
pub use views::plain::questions;
pub use views::tools::{Offers, Tools};

use crate::base::Shared;
use crate::base::http::Response;
use crate::base::id::{ContextId, TaskId};
use crate::base::level::Level;
use crate::task::log::event::Profile;
use crate::task::log::record::Record;
use crate::task::machine::state::State;
use crate::task::message::Message;
use dialect::Standalone;
use encodings::value::{Finality, Frame};
use form::enclosed;
use requests::gemini_endpoints;
use std::borrow::Cow;
pub use views::snapshot::SnapshotOptions;
use views::update::{Change, Update};
use views::{coder, devtool, plain, snapshot};

/// An event as one view shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The name of the event, in dialects that give one.
    pub event: Option<&'static str>,
    pub open: Shared,
    /// The same frame when its stream ends with it; only for events a stream can end with.
    pub closing: Option<Shared>,
}

impl Body {
    /// A frame that is the same at the end of a stream and before it.
    fn bare(frame: Vec<u8>) -> Body {
        Body { event: None, open: frame.into(), closing: None }
    }

    /// The frame for a stream that continues after it, or ends with it.
    pub fn frame(&self, last: bool) -> &Shared {
        if last { self.closing.as_ref().unwrap_or(&self.open) } else { &self.open }
    }

    /// Its size in memory.
    pub fn size(&self) -> usize {
        self.open.len() + self.closing.as_ref().map_or(0, |closing| closing.len())
    }
}

/// The event as this view shows it; `state` is the state right after `record` was applied. None: the view does not show it.
pub fn event(view: View, state: &State, record: &Record, tools: &Tools) -> Option<Body> {
    let (writer, profile, outputs) = match view {
        View::A2a(writer, profile, outputs) => (writer, profile, outputs),
        View::Standalone(view) => return (view.event)(state, record, tools),
    };
    let update = Update::of(state, record)?;
    let frame = match profile {
        Profile::Coder => coder::frame(&update, tools, writer)?,
        Profile::Devtool => devtool::frame(&update)?,
        Profile::Plain => plain::frame(&update, outputs)?,
    };
    let body = |finality| Shared::from(writer.frame(&state.created, &frame, finality));
    let may_close = matches!(&frame, Frame::Status(update) if update.closing.is_some());
    Some(Body { event: None, open: body(Finality::Open), closing: may_close.then(|| body(Finality::Closing)) })
}

/// The level and the sentence of the notice that an event gives rise to: something delays or changes the turn.
pub fn turn_notice<'a>(state: &'a State, record: &'a Record) -> Option<(Level, Cow<'a, str>)> {
    let Change::Notice { level, text, .. } = Update::of(state, record)?.change else {
        return None;
    };
    Some((level, text))
}

/// The task as a whole.
pub fn snapshot(view: View, state: &State, options: SnapshotOptions) -> Vec<u8> {
    match view {
        View::Standalone(Standalone { snapshot: Some(snapshot), .. }) => snapshot(state),
        View::A2a(..) | View::Standalone(_) => view.writer().task(&snapshot::task(view, state, options)),
    }
}

/// The whole task as a frame of a stream or as the result of a prompt. The protobuf writers put it into a `task` member there.
pub fn snapshot_frame(view: View, state: &State, options: SnapshotOptions) -> Vec<u8> {
    let task = snapshot(view, state, options);
    if view.writer().is_proto() { [br#"{"task":"#, &*task, b"}"].concat() } else { task }
}

/// The first frame of a stream that answers a prompt, if it begins with the task.
pub fn opening(form: &Form, view: View, state: &State, options: SnapshotOptions) -> Vec<u8> {
    match form.prompt_answer {
        PromptAnswer::Task
        | PromptAnswer::Accepted
        | PromptAnswer::CommandResult
        | PromptAnswer::StopReason
        | PromptAnswer::Nothing
        | PromptAnswer::Options => snapshot_frame(view, state, options),
        PromptAnswer::CommandReceipt => commands::started(state),
    }
}

/// A closing frame with the current status, for a stream that ends at once because its prompt is queued behind calls that wait for
/// answers. None: the dialect has no such frame.
pub fn current_status(view: View, state: &State, tools: &Tools) -> Option<Vec<u8>> {
    let update = match view {
        View::A2a(_, Profile::Coder, _) => coder::current_status(state, tools),
        View::A2a(_, Profile::Devtool, _) => devtool::current_status(state),
        View::A2a(_, Profile::Plain, outputs) => plain::current_status(state, outputs),
        View::Standalone(view) => return (view.current_status)(state),
    };
    Some(view.writer().frame(&state.created, &Frame::Status(update), Finality::Closing))
}

/// A message that answers a request without a task, as a frame of a stream or as a result.
pub fn message(view: View, message: &Message, context: &ContextId) -> Vec<u8> {
    view.writer().message(message, context)
}

/// The whole answer to a request that succeeded with this result.
pub fn result(form: &Form, result: impl Into<Vec<u8>>) -> Response {
    respond(form, 200, enclosed(form, result))
}

/// The answer to a request for the task.
pub fn task(form: &Form, state: &State, options: SnapshotOptions) -> Response {
    let view = view(form, Some(&state.created));
    match form.dialect.answers {
        Answers::Gemini => gemini_endpoints::task(view, state, options),
        Answers::A2a => result(form, snapshot(view, state, options)),
    }
}

/// The answer to a prompt that asked for no stream.
pub fn prompt_answer(form: &Form, state: &State, options: SnapshotOptions, tools: &Tools) -> Response {
    let task = match form.prompt_answer {
        PromptAnswer::Task => snapshot_frame(view(form, Some(&state.created)), state, options),
        PromptAnswer::Accepted => native::accepted(state),
        PromptAnswer::CommandResult => return commands::executed(state),
        PromptAnswer::CommandReceipt => commands::started(state),
        PromptAnswer::StopReason => return acp::stop_reason(form, state),
        PromptAnswer::Nothing => return acp::empty_result(form),
        PromptAnswer::Options => return acp::config_options(form, state, tools),
    };
    result(form, task)
}

/// The answer to a request to unsubscribe from a task, or to delete it.
pub fn acknowledged(form: &Form, task: &TaskId) -> Response {
    match form.dialect.binding {
        Binding::Acp => acp::empty_result(form),
        Binding::JsonRpc | Binding::Rest | Binding::Bare | Binding::Native => native::task_id(form, task),
    }
}

/// An answer with the headers of the request's form.
pub fn respond(form: &Form, status: u16, body: Vec<u8>) -> Response {
    let mut response = Response::json(status, body);
    if form.is_a2a_json {
        response.headers[0].1 = "application/a2a+json".into();
    }
    response.headers.extend(form.echo.iter().cloned());
    response
}

#[cfg(test)]
mod tests;
