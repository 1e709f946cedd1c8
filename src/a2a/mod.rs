//! Dialects: requests into [`Call`](crate::task::call::Call)s, events and states into JSON. No dialect sees a socket, and none
//! changes anything.
//!
//! A request becomes a call and a [`Form`], which is all the core keeps of its dialect. A [`View`] says what an event looks like
//! to it; an event is encoded once per view, and the form's prefix and suffix go around the shared bytes. Inside, a view is
//! two independent choices, so that dialects add up instead of multiplying: a projection says *what* is shown of an event, as
//! A2A values (`coder`, `devtool`, `plain`); a writer says *how* such values are spelled (`v03`, `proto`). Views that are not A2A
//! (`kebab`, `snake`, `session`, `own`) do both themselves. The words are in one table (`words`), so are the errors
//! (`fault`).

mod card;
pub mod commands;
mod encodings;
mod fault;
mod form;
pub mod own;
#[cfg(feature = "webhooks")]
pub mod push;
#[cfg(not(feature = "webhooks"))]
#[path = "push/none.rs"]
mod push;
mod requests;
#[cfg(test)]
mod sample;
mod switches;
mod views;
mod words;

pub use card::{Card, Identity, card};
pub use fault::{fault, fault_frame, in_stream, notice};
pub use form::{
    Begins, DIALECTS, Ends, Envelope, Form, Shows, View, begins_at_the_start, finds_questions, frame_prefix,
    frame_suffix, joins_session, prefix, prompt_stream, sub_protocol, suffix, view, watch_stream,
};
pub use own::watching;
pub use requests::answer::blame;
pub use requests::gemini_endpoints::{HealthReport, all_metadata, created, health, metadata, session_id};
pub use requests::operation::accepts_stream;
pub use requests::route::decode;
pub use requests::socket::heard as socket;
pub use switches::{CardDefault, PushRules, RestStatus, Switches, WEBHOOKS};
pub use views::list::{Page, briefs, list, lists_briefs, shown_state};
pub use views::tools::Tools;

use crate::base::Shared;
use crate::base::http::Response;
use crate::base::id::ContextId;
use crate::base::json;
use crate::task::log::record::Record;
use crate::task::machine::state::State;
use crate::task::message::Message;
use encodings::proto::Edition;
use encodings::value::Finality;
use encodings::{proto, v03};
use form::{Media, Outputs, Projection, Tongue, Writer};
use requests::gemini_endpoints;
use serde_json::json;
pub use views::snapshot::Wanted;
use views::{coder, devtool, execute_stream, message_stream, plain, session, snapshot};

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
    /// A frame that is the same wherever it stands.
    fn bare(frame: Vec<u8>) -> Body {
        Body { event: None, open: frame.into(), closing: None }
    }

    /// The frame for a stream that goes on after it, or ends with it.
    pub fn frame(&self, last: bool) -> &Shared {
        if last { self.closing.as_ref().unwrap_or(&self.open) } else { &self.open }
    }

    /// What it takes of memory.
    pub fn size(&self) -> usize {
        self.open.len() + self.closing.as_ref().map_or(0, |closing| closing.len())
    }
}

/// The event as this view shows it; `state` is the state right after `record` was applied. None: it does not show it.
pub fn event(view: View, state: &State, record: &Record, tools: &Tools) -> Option<Body> {
    let (writer, projection) = match view {
        View::A2a(writer, projection) => (writer, projection),
        View::Kebab => return message_stream::frame(state, record).map(Body::bare),
        View::Snake => {
            let shown = execute_stream::frame(state, record)?;
            return Some(Body { event: Some(shown.event), ..Body::bare(shown.body) });
        }
        View::Own => return Some(Body::bare(own::record(state, record))),
        View::Session => return session::frame(state, record).map(Body::bare),
    };
    let frame = match projection {
        Projection::Coder => coder::frame(state, record, tools, writer.protocol())?,
        Projection::Devtool => devtool::frame(state, record)?,
        Projection::Plain => plain::frame(state, record, Outputs::Any)?,
        Projection::PlainText => plain::frame(state, record, Outputs::Text)?,
    };
    let created = &state.created;
    let body = |finality| {
        Shared::from(match writer {
            Writer::V03 => v03::frame(created, &frame, finality),
            Writer::Proto03 => proto::frame(Edition::V03, created, &frame, finality),
            Writer::V10 => proto::frame(Edition::V10, created, &frame, finality),
        })
    };
    Some(Body { event: None, open: body(Finality::Open), closing: frame.may_close().then(|| body(Finality::Closing)) })
}

/// The task as a whole.
pub fn snapshot(view: View, state: &State, wanted: Wanted) -> Vec<u8> {
    let task = || snapshot::task(view, state, wanted);
    match view {
        View::A2a(Writer::Proto03, _) => proto::task(Edition::V03, &task()),
        View::A2a(Writer::V10, _) => proto::task(Edition::V10, &task()),
        View::A2a(Writer::V03, _) | View::Kebab | View::Snake | View::Own => v03::task(&task()),
        View::Session => session::present(state),
    }
}

/// The task as a whole, as a frame of a stream or the result of a prompt: where a dialect says what it sends, it says so here.
pub fn snapshot_frame(view: View, state: &State, wanted: Wanted) -> Vec<u8> {
    let task = snapshot(view, state, wanted);
    match view {
        View::A2a(Writer::Proto03 | Writer::V10, _) => [br#"{"task":"#, &*task, b"}"].concat(),
        View::A2a(Writer::V03, _) | View::Kebab | View::Snake | View::Session | View::Own => task,
    }
}

/// What a stream begins with that something said is answered with, when it begins with the whole of it.
pub fn opening(form: &Form, view: View, state: &State, wanted: Wanted) -> Vec<u8> {
    match form.shows {
        Shows::Task | Shows::Result => snapshot_frame(view, state, wanted),
        Shows::Receipt => commands::started(state),
    }
}

/// A closing frame of the present status, for a stream that has nothing to wait for: its prompt is queued behind calls that wait
/// for answers. None: the dialect has none.
pub fn present(view: View, state: &State, tools: &Tools) -> Option<Vec<u8>> {
    let (writer, projection) = match view {
        View::A2a(writer, projection) => (writer, projection),
        View::Kebab => return Some(message_stream::present(state)),
        View::Snake => return Some(execute_stream::present(state).body),
        View::Session => return Some(session::present(state)),
        View::Own => return None,
    };
    let update = match projection {
        Projection::Coder => coder::present(state, tools),
        Projection::Devtool => devtool::present(state),
        Projection::Plain => plain::present(state, Outputs::Any),
        Projection::PlainText => plain::present(state, Outputs::Text),
    };
    let (created, last) = (&state.created, Finality::Closing);
    Some(match writer {
        Writer::V03 => v03::status(created, &update, last),
        Writer::Proto03 => proto::status(Edition::V03, created, &update, last),
        Writer::V10 => proto::status(Edition::V10, created, &update, last),
    })
}

/// A message that answers a request without there being a task, as a frame of a stream or as a result.
pub fn message(view: View, message: &Message, context: &ContextId) -> Vec<u8> {
    match view {
        View::A2a(Writer::Proto03, _) => proto::message(Edition::V03, message, context),
        View::A2a(Writer::V10, _) => proto::message(Edition::V10, message, context),
        View::A2a(Writer::V03, _) | View::Kebab | View::Snake | View::Session | View::Own => {
            v03::message(message, context)
        }
    }
}

/// The whole answer to a request that succeeded with this result.
pub fn result(form: &Form, result: &[u8]) -> Response {
    respond(form, 200, [&prefix(form), result, suffix(form)].concat())
}

/// The answer to a request for the task.
pub fn task(form: &Form, state: &State, wanted: Wanted) -> Response {
    let view = view(form, Some(&state.created));
    match form.envelope.tongue() {
        Tongue::Gemini => gemini_endpoints::task(view, state, wanted),
        Tongue::A2a(_) | Tongue::Session | Tongue::Own => result(form, &snapshot(view, state, wanted)),
    }
}

/// The answer to a prompt, when it is not a stream.
pub fn said(form: &Form, state: &State, wanted: Wanted) -> Response {
    let view = view(form, Some(&state.created));
    match form.shows {
        Shows::Task => {}
        Shows::Result => return commands::executed(state),
        Shows::Receipt => return result(form, &commands::started(state)),
    }
    match form.envelope.tongue() {
        Tongue::Session | Tongue::Own => {
            let task = &state.created.task;
            let accepted = json!({ "taskId": task, "accepted": true });
            result(form, &json::bytes(&accepted))
        }
        Tongue::A2a(_) | Tongue::Gemini => result(form, &snapshot_frame(view, state, wanted)),
    }
}

/// An answer with the headers the request's form asks for.
pub fn respond(form: &Form, status: u16, body: Vec<u8>) -> Response {
    let mut response = Response::json(status, body);
    if form.media == Media::A2aJson {
        response.headers[0].1 = "application/a2a+json".into();
    }
    response.headers.extend(form.echo.iter().cloned());
    response
}

#[cfg(test)]
mod tests;
