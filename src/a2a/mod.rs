//! Dialects: requests into [`Call`]s, events and states into JSON. No dialect sees a socket, and none changes anything.
//!
//! A request becomes a call and a [`Form`], which is all the core keeps of its dialect. A [`View`] says what an event looks like
//! to it; an event is encoded once per view, and the form's prefix and suffix go around the shared bytes. Inside, a view is
//! two independent choices, so that dialects add up instead of multiplying: a projection says *what* is shown of an event, as
//! A2A values (`coder`); a writer says *how* such values are spelled (`v03`). The words are in one table (`words`), so are the errors
//! (`fault`).

mod answer;
mod card;
mod coder;
pub mod commands;
mod fault;
mod form;
mod gemini;
mod input;
mod object;
mod rpc;
#[cfg(test)]
mod sample;
mod settings;
mod snapshot;
mod tool_call;
mod tools;
mod v03;
mod value;
mod words;

pub use card::{Card, card};
pub use fault::{fault, fault_frame, in_stream};
pub use form::{Envelope, Form, View, prefix, suffix, view};
pub use gemini::{all_metadata, created, health, metadata};
pub use tools::Tools;

use crate::base::Shared;
use crate::base::http::{Method, Request, Response};
use crate::base::id::ContextId;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Message;
use crate::task::record::Record;
use crate::task::state::State;
use form::{Projection, Writer};
use value::Finality;

/// An event as one view shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub open: Shared,
    /// The same frame when its stream ends with it; only for events a stream can end with.
    pub closing: Option<Shared>,
}

impl Body {
    /// The frame for a stream that goes on after it, or ends with it.
    pub fn frame(&self, last: bool) -> &Shared {
        if last {
            self.closing.as_ref().unwrap_or(&self.open)
        } else {
            &self.open
        }
    }

    /// What it takes of memory.
    pub fn size(&self) -> usize {
        self.open.len() + self.closing.as_ref().map_or(0, |closing| closing.len())
    }
}

/// What a request asks for, and how it wants its answer.
pub fn decode(request: &Request) -> Result<(Call, Form), (Fault, Form)> {
    let form = || Form::at(&request.path);
    let framed = |call: Result<Call, Fault>| match call {
        Ok(call) => Ok((call, form())),
        Err(fault) => Err((fault, form())),
    };
    match request.path.as_str() {
        "/" => match request.method {
            Method::Post => rpc::decode(request),
            _ => framed(Err(not_allowed(request, "POST"))),
        },
        "/tasks" => framed(match request.method {
            Method::Post => gemini::create(request),
            _ => Err(not_allowed(request, "POST")),
        }),
        "/tasks/metadata" => framed(read(request, Call::AllMetadata)),
        "/health" => framed(read(request, Call::Health)),
        "/.well-known/agent-card.json" | "/.well-known/agent.json" => {
            framed(read(request, Call::Card))
        }
        path => {
            let task = path
                .strip_prefix("/tasks/")
                .and_then(|rest| rest.strip_suffix("/metadata"))
                .filter(|id| !id.is_empty() && !id.contains('/'));
            framed(match task {
                Some(id) => read(request, Call::Metadata { task: id.into() }),
                None => Err(Fault::new(
                    FaultKind::NotFound,
                    format!(
                        "There is nothing at {path}; the card at /.well-known/agent-card.json says what is where."
                    ),
                )),
            })
        }
    }
}

fn read(request: &Request, call: Call) -> Result<Call, Fault> {
    match request.method {
        Method::Get | Method::Head => Ok(call),
        _ => Err(not_allowed(request, "GET, HEAD")),
    }
}

fn not_allowed(request: &Request, allow: &'static str) -> Fault {
    Fault::new(
        FaultKind::MethodNotAllowed { allow },
        format!("{} takes {allow} only.", request.path),
    )
}

/// The event as this view shows it; `state` is the state right after `record` was applied. None: it does not show it.
pub fn event(view: View, state: &State, record: &Record, tools: &Tools) -> Option<Body> {
    let frame = match view.projection {
        Projection::Coder => coder::frame(state, record, tools)?,
    };
    let write = match view.writer {
        Writer::V03 => v03::frame,
    };
    let body = |finality| Shared::from(write(&state.created, &frame, finality));
    Some(Body {
        open: body(Finality::Open),
        closing: frame.may_close().then(|| body(Finality::Closing)),
    })
}

/// The task as a whole, with the newest `history` messages (None: all of them).
pub fn snapshot(view: View, state: &State, history: Option<usize>) -> Vec<u8> {
    let task = match view.projection {
        Projection::Coder => snapshot::task(state, history),
    };
    match view.writer {
        Writer::V03 => v03::task(&task),
    }
}

/// A closing frame of the present status, for a stream that has nothing to wait for: its prompt is queued behind calls that wait
/// for answers.
pub fn present(view: View, state: &State) -> Vec<u8> {
    let update = match view.projection {
        Projection::Coder => coder::present(state),
    };
    match view.writer {
        Writer::V03 => v03::status(&state.created, &update, Finality::Closing),
    }
}

/// A message that answers a request without there being a task.
pub fn message(view: View, message: &Message, context: &ContextId) -> Vec<u8> {
    match view.writer {
        Writer::V03 => v03::message(message, context),
    }
}

/// The whole answer to a request that succeeded with this result.
pub fn result(form: &Form, result: &[u8]) -> Response {
    Response::json(200, [&prefix(form), result, suffix(form)].concat())
}

#[cfg(test)]
mod tests;
