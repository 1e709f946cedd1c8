//! The server's side of HTTP/1.1: parses requests and writes responses. It works on a byte queue and knows no sockets and no time.
//!
//! The reader is strict, to prevent request smuggling: a request that two parsers could read differently is refused and its connection
//! closed, because the start of the next request is uncertain. The head stays in the queue until it is complete (the reader remembers
//! how far it has scanned); the body is moved out as it arrives. Every decision depends only on the bytes and not on how the network
//! split them, which the tests check.
//!
//! `head` finds, checks and parses a head; `body` removes the framing of a body; `answer` writes responses.

mod answer;
mod body;
mod head;

pub use answer::{CONTINUE, Framing, Reply, write_head, write_stream_head};

use crate::base::buf::Buf;
use crate::base::http::{Headers, Request};
use crate::limits::Limits;
use body::{Body, Filled};
use head::Search;
use std::mem;

/// Reads the requests of one connection, one after the other. Between requests it owns no memory.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
}

/// What [`Reader::read`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The queue has no further complete item; call again when more bytes have arrived.
    More,
    /// The client waits for [`CONTINUE`] before it sends the body. Returned once, also if the body is already there: the extra line
    /// does no harm, and the result must not depend on timing.
    Continue,
    /// A complete request. The bytes after it belong to the next request, or to the next protocol.
    Request(Box<Request>),
}

/// Why a request is refused. The connection is closed after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    pub status: u16,
    pub message: &'static str,
}

/// The part of a request that is being read; each has its own deadline.
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

    /// Takes bytes from `rx`, at most up to the end of one request. After the last request of a connection it discards all further
    /// bytes; after a refusal it returns the refusal again.
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

    /// The path of the request whose body is being read or was refused, if it is known.
    pub fn path(&self) -> Option<&str> {
        match &self.state {
            State::Refused(refusal) => refusal.path.as_deref(),
            State::Body(request, _) => Some(&request.path),
            State::Head(_) | State::Ended => None,
        }
    }

    /// The request whose body is being read, without the body.
    pub fn head(&self) -> Option<Request> {
        match &self.state {
            State::Body(request, _) => Some(Request {
                version: request.version,
                method: request.method,
                path: request.path.clone(),
                query: request.query.clone(),
                headers: request.headers.clone(),
                body: Vec::new(),
                keep_alive: request.keep_alive,
            }),
            State::Head(_) | State::Ended | State::Refused(_) => None,
        }
    }

    /// The header fields of the request whose body is being read or was refused, if they are known.
    pub fn headers(&self) -> Option<&Headers> {
        match &self.state {
            State::Refused(refusal) => refusal.headers.as_deref(),
            State::Body(request, _) => Some(&request.headers),
            State::Head(_) | State::Ended => None,
        }
    }

    /// The length of the part of an incomplete body that the reader holds.
    pub fn body_bytes(&self) -> usize {
        match &self.state {
            State::Body(request, _) => request.body.len(),
            State::Head(_) | State::Ended | State::Refused(_) => 0,
        }
    }

    /// The length of an incomplete body as far as it is known: all of it, or up to the end of the present chunk.
    pub fn announced_bytes(&self) -> usize {
        match &self.state {
            State::Body(request, body) => request.body.len() + body.remaining(),
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
    /// The last request of the connection was read.
    Ended,
    Refused(Box<Refusal>),
}

/// A refusal, with the path and the header fields of the request if its head was parsed.
#[derive(Debug)]
struct Refusal {
    reject: Reject,
    path: Option<Box<str>>,
    headers: Option<Box<Headers>>,
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Refusal {
        Refusal { reject, path: None, headers: None }
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
                Err(reject) => {
                    let headers = Some(Box::new(request.headers));
                    Err(Refusal { reject, path: Some(request.path.into()), headers })
                }
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

const fn bad_request(message: &'static str) -> Reject {
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
