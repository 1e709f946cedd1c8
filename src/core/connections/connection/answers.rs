//! The answer to the request that is being served, or its refusal.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::http::{Method, Response, Version};
use crate::core::connections::connection::{Activity, Conn, Line};
use crate::core::operation::exchange::Shape;
use crate::task::fault::{Fault, FaultKind};
use crate::wire::http1::{self, Reject, Reply};

impl Conn {
    /// Refuses a request without reading its body, so the connection is closed.
    pub fn refuse_body(&mut self, response: &Response, now: Now) {
        let reply = Reply { version: Version::Http11, method: Method::Post, keep_alive: false };
        self.head_and_body(response, reply, now);
        self.since = now.mono_ms;
        self.close();
    }

    /// Refuses the request that is being served, or whose body is being read: its client may no longer use the server.
    pub fn refuse_access(&mut self, response: &Response, now: Now) {
        match self.activity {
            Activity::Reading if self.is_reading_body() => self.refuse_body(response, now),
            Activity::Reading
            | Activity::Answering(_)
            | Activity::Streaming { .. }
            | Activity::Socket(_)
            | Activity::Closing => {
                self.answer_last(response, now);
            }
        }
    }

    /// Refuses a request that could not be read. If it was only too large, its path is known and it is answered in its dialect.
    pub(super) fn reject(&mut self, reject: Reject, now: Now) {
        let kind = match reject.status {
            413 => Some(FaultKind::TooLarge),
            503 => Some(FaultKind::Overloaded { retry_after_s: 1 }),
            _ => None,
        };
        self.begin_rejected(reject.status, now);
        let response = match self.reader.path().zip(kind) {
            Some((path, kind)) => a2a::fault(&self.form_at(path), &Fault::new(kind, reject.message)),
            None => {
                let body = serde_json::json!({ "error": reject.message }).to_string();
                Response::json(reject.status, body.into_bytes())
            }
        };
        let reply = Reply { version: Version::Http11, method: Method::Get, keep_alive: false };
        self.allowed_origin = None;
        self.head_and_body(&response, reply, now);
        // The time to accept the answer begins now, however long the request took.
        self.since = now.mono_ms;
        self.close();
    }

    /// Sends the answer to the request being served; on a socket only its body. If a stream was requested and is refused, the connection is
    /// closed: some clients, which use a separate connection for a stream, fail when they use it again.
    pub fn answer(&mut self, response: &Response, now: Now) {
        match self.activity {
            Activity::Answering(mut reply) => {
                reply.keep_alive &= !(self.wants_stream && response.status >= 400);
                self.head_and_body(response, reply, now);
                self.done(reply.keep_alive, now);
            }
            Activity::Socket(_) => {
                self.event(&Line { name: None, seq: None, prefix: b"", body: &response.body, suffix: b"" }, now)
            }
            Activity::Reading | Activity::Streaming { .. } | Activity::Closing => {}
        }
    }

    /// Answers the request being served, after which the connection is closed.
    pub fn answer_last(&mut self, response: &Response, now: Now) {
        if let Activity::Answering(reply) = &mut self.activity {
            reply.keep_alive = false;
        }
        self.answer(response, now);
    }

    fn head_and_body(&mut self, response: &Response, reply: Reply, now: Now) {
        let mut body = None;
        let more = self.own_headers();
        self.output.write(|out| body = http1::write_head(out, response, &more, reply, now.unix_ms));
        self.answered_with(response.status, Shape::Answer);
        if let Some(body) = body {
            self.output.push(&body);
        }
    }
}
