//! The server's side of HTTP/1.1: bytes into requests, answers into bytes. Knows no sockets and no time; it is handed a byte
//! queue and says what it found in it.
//!
//! The reader is strict where leniency has been used to smuggle requests past a proxy: whatever two parsers could read in two
//! ways is refused, and the connection with it, because nobody can say where the next request would begin. It keeps the head in
//! the queue until it is whole (remembering how far it looked), then moves the body out as it arrives. Every verdict depends on
//! the bytes alone and not on how the network cut them up, which is what the tests lean on.
//!
//! `head` finds, checks and parses a head; `body` undoes the framing of a body; `answer` writes.

mod answer;
mod body;
mod head;

pub use answer::{CONTINUE, Framing, Reply, write_head, write_stream_head};

use crate::base::buf::Buf;
use crate::base::http::Request;
use crate::limits::Limits;
use body::{Body, Filled};
use head::Search;
use std::mem;

/// Reads one connection's requests, one after the other. Between requests it owns no memory: an idle connection is an idle
/// struct.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
}

/// What [`Reader::read`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything useful is taken from the queue; call again when there is more in it.
    More,
    /// The client waits for [`CONTINUE`] before it sends the body. Said once, also when the body is already there: one more
    /// line does no harm, and the verdict must not depend on timing.
    Continue,
    /// A whole request. What follows it in the queue is the next one's, or the next protocol's.
    Request(Box<Request>),
}

/// Why a request is refused. The connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    pub status: u16,
    pub message: &'static str,
}

/// Where in a request the connection stands; each has its own deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Waiting for a head, or in it.
    Head,
    Body,
}

impl Reader {
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Takes what it can from `rx`, at most up to the end of one request. After a request that ends the connection it swallows
    /// whatever still comes; after a refusal it repeats the refusal.
    pub fn read(&mut self, rx: &mut Buf, limits: &Limits) -> Result<Step, Reject> {
        match mem::take(&mut self.state).advance(rx, limits) {
            Ok((state, step)) => {
                self.state = state;
                Ok(step)
            }
            Err(refusal) => {
                let reject = refusal.reject;
                self.state = State::Refused(Box::new(refusal));
                Err(reject)
            }
        }
    }

    /// The path of the request that was refused, if it was understood so far.
    pub fn refused_path(&self) -> Option<&str> {
        match &self.state {
            State::Refused(refusal) => refusal.path.as_deref(),
            State::Head(_) | State::Body(..) | State::Ended => None,
        }
    }

    /// How much of a body it holds that is not whole yet.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Body(request, _) => request.body.len(),
            State::Head(_) | State::Ended | State::Refused(_) => 0,
        }
    }

    pub fn stage(&self) -> Stage {
        match self.state {
            State::Head(_) | State::Ended | State::Refused(_) => Stage::Head,
            State::Body(..) => Stage::Body,
        }
    }
}

#[derive(Debug)]
enum State {
    Head(Search),
    Body(Box<Request>, Body),
    Ended,
    Refused(Box<Refusal>),
}

/// A reject, and the path it is about.
#[derive(Debug)]
struct Refusal {
    reject: Reject,
    path: Option<Box<str>>,
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Refusal {
        Refusal { reject, path: None }
    }
}

impl Default for State {
    fn default() -> State {
        State::Head(Search::default())
    }
}

impl State {
    fn advance(self, rx: &mut Buf, limits: &Limits) -> Result<(State, Step), Refusal> {
        match self {
            State::Head(mut search) => {
                let Some(len) = search.find(rx, limits)? else {
                    return Ok((State::Head(search), Step::More));
                };
                let head = head::parse(&rx.as_slice()[..len], limits)?;
                rx.consume(len);
                let body = State::Body(Box::new(head.request), head.body);
                if head.awaits_continue { Ok((body, Step::Continue)) } else { body.advance(rx, limits) }
            }
            State::Body(mut request, mut body) => match body.fill(&mut request.body, rx, limits) {
                Err(reject) => Err(Refusal { reject, path: Some(request.path.as_str().into()) }),
                Ok(Filled::Partly) => Ok((State::Body(request, body), Step::More)),
                Ok(Filled::Wholly) => {
                    let next = if request.keep_alive { State::default() } else { State::Ended };
                    Ok((next, Step::Request(request)))
                }
            },
            State::Ended => {
                rx.consume(rx.len());
                Ok((State::Ended, Step::More))
            }
            State::Refused(refusal) => Err(*refusal),
        }
    }
}

const fn bad(message: &'static str) -> Reject {
    Reject { status: 400, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_reader_is_small() {
        assert!(mem::size_of::<Reader>() <= 32, "{}", mem::size_of::<Reader>());
    }
}
