//! A request and its answer as the access log and the metrics show them, and the request's id. Queries and bodies are not kept.

use crate::a2a::{Dialect, Route};
use crate::base::http::{Headers, Method, Request};
use crate::base::id::{Seq, TaskId};
use crate::base::text::words::words;
use crate::limits::{REQUEST_ID_BYTES, TRACE_ID_BYTES};

words! {
    /// Why a connection, a stream or a socket has ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CloseReason {
        /// Everything was sent.
        Done = "done",
        /// The peer has disconnected, or sent something that is no HTTP.
        Peer = "peer",
        /// The peer accepted no output.
        Stalled = "stalled",
        /// The peer sent nothing.
        Idle = "idle",
        /// Its credential was revoked or changed, or has expired.
        Revoked = "revoked",
        /// A limit was reached, or the server could not continue it.
        Limit = "limit",
        /// The server shuts down.
        Drain = "drain",
    }
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One answer.
    #[default]
    Answer,
    /// A stream of events.
    Stream,
    /// A WebSocket.
    Socket,
}

/// The ids of the requests of one connection that name none: a number of the process, one of the connection, one of the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestIds {
    process: u64,
    conn: u64,
    last: u32,
}

impl RequestIds {
    pub fn new(process: u64, conn: u64) -> RequestIds {
        RequestIds { process, conn, last: 0 }
    }

    fn make(&mut self) -> Box<str> {
        self.last = self.last.wrapping_add(1);
        let RequestIds { process, conn, last } = self;
        format!("{:012x}-{conn:x}-{last:x}", *process & 0xffff_ffff_ffff).into()
    }
}

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    pub text: Box<str>,
    /// The client chose it.
    pub is_sent: bool,
}

impl RequestId {
    /// The id that the client sent, if it is a single valid one, or a new one.
    pub fn of(headers: &Headers, ids: &mut RequestIds) -> RequestId {
        let mut sent = headers.all("x-request-id");
        match (sent.next(), sent.next()) {
            (Some(text), None) if is_valid(text) => RequestId { text: text.into(), is_sent: true },
            _ => RequestId { text: ids.make(), is_sent: false },
        }
    }
}

fn is_valid(id: &str) -> bool {
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=REQUEST_ID_BYTES).contains(&id.len()) && id.chars().all(is_of_id)
}

/// A request and its answer so far.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: RequestId,
    /// When the request was complete, in Unix milliseconds and in monotonic milliseconds.
    pub at: u64,
    pub began_ms: u64,
    pub method: Method,
    pub route: Route,
    /// The dialect of an error that is found before the request is decoded.
    pub error_dialect: &'static Dialect,
    /// The sender of the request, if it is known.
    pub subject: Option<Box<str>>,
    pub credential: Option<Box<str>>,
    pub call: Option<&'static str>,
    pub dialect: Option<&'static str>,
    pub task: Option<TaskId>,
    pub shape: Shape,
    /// None if there was no answer.
    pub status: Option<u16>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// The first and the last event of a stream.
    pub from: Option<Seq>,
    pub to: Option<Seq>,
    /// Why a stream or a socket has ended, or why there was no answer.
    pub ended: Option<CloseReason>,
    /// Fields that only the access log needs; None if there is none.
    pub details: Option<Box<Details>>,
}

#[derive(Clone, Debug, Default)]
pub struct Details {
    pub path: String,
    pub user_agent: String,
    /// The id of the trace that the request belongs to: 32 hexadecimal digits.
    pub trace: Option<String>,
}

impl Details {
    pub fn of(request: &Request) -> Details {
        Details {
            path: request.path.clone(),
            user_agent: request.headers.get("user-agent").unwrap_or_default().to_owned(),
            trace: trace(&request.headers).map(str::to_ascii_lowercase),
        }
    }
}

/// The id of the trace in `traceparent` (`00-TRACE-PARENT-FLAGS`) or `X-Cloud-Trace-Context` (`TRACE/SPAN;o=1`).
fn trace(headers: &Headers) -> Option<&str> {
    let of_w3c = headers.get("traceparent").and_then(|value| value.split('-').nth(1));
    let of_google = headers.get("x-cloud-trace-context").and_then(|value| value.split('/').next());
    let is_id = |id: &&str| {
        id.len() == TRACE_ID_BYTES && id.bytes().all(|b| b.is_ascii_hexdigit()) && id.bytes().any(|b| b != b'0')
    };
    of_w3c.filter(is_id).or(of_google.filter(is_id))
}

impl Exchange {
    pub fn new(id: RequestId, method: Method, route: Route) -> Exchange {
        Exchange {
            id,
            at: 0,
            began_ms: 0,
            method,
            route,
            error_dialect: Dialect::GEMINI,
            subject: None,
            credential: None,
            call: None,
            dialect: None,
            task: None,
            shape: Shape::Answer,
            status: None,
            bytes_in: 0,
            bytes_out: 0,
            from: None,
            to: None,
            ended: None,
            details: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        fields.iter().for_each(|(name, value)| headers.push(name, value));
        headers
    }

    #[test]
    fn a_valid_request_id_of_the_client_is_used_and_another_is_replaced() {
        let mut ids = RequestIds::new(0x1234_5678_9abc_def0, 26);
        let longest = "x".repeat(64);
        for sent in ["a", "A.b_c-9", longest.as_str()] {
            let id = RequestId::of(&headers(&[("X-Request-Id", sent)]), &mut ids);
            assert_eq!((&*id.text, id.is_sent), (sent, true));
        }
        let too_long = "x".repeat(65);
        for sent in ["", "a b", "a/b", "ä", "a\"", too_long.as_str()] {
            let id = RequestId::of(&headers(&[("X-Request-Id", sent)]), &mut ids);
            assert!(!id.is_sent && is_valid(&id.text), "{sent}");
        }
        let twice = headers(&[("X-Request-Id", "a"), ("X-Request-Id", "a")]);
        assert_eq!(&*RequestId::of(&twice, &mut ids).text, "56789abcdef0-1a-7");
        assert_eq!(&*RequestId::of(&headers(&[]), &mut ids).text, "56789abcdef0-1a-8");
    }

    #[test]
    fn the_trace_id_is_read_from_either_header() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let w3c = format!("00-{id}-00f067aa0ba902b7-01");
        assert_eq!(trace(&headers(&[("traceparent", &w3c)])), Some(id));
        assert_eq!(trace(&headers(&[("X-Cloud-Trace-Context", &format!("{id}/123;o=1"))])), Some(id));
        assert_eq!(trace(&headers(&[("traceparent", "x"), ("X-Cloud-Trace-Context", id)])), Some(id));
        for wrong in ["", "00", "00-xyz-1-1", "00-00000000000000000000000000000000-1-1", "00-4bf9\"-1-1"] {
            assert_eq!(trace(&headers(&[("traceparent", wrong)])), None, "{wrong}");
        }
    }
}
