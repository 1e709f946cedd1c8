//! Frames of a stream: server-sent events on an HTTP connection, text messages on a WebSocket.

use super::{Activity, Conn};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::id::Seq;
use crate::core::operation::exchange::Shape;
use crate::wire::http1::{self, Framing};
use crate::wire::sse;

/// One event, in pieces: the body is shared with other readers; the prefix and the suffix belong to this one.
pub struct Line<'a> {
    pub name: Option<&'static str>,
    pub seq: Option<Seq>,
    pub prefix: &'a [u8],
    pub body: &'a Shared,
    pub suffix: &'a [u8],
}

impl Conn {
    /// Begins a stream of events as the answer to the request being served; `more` are headers beside the usual ones.
    pub fn stream(&mut self, more: &[(&'static str, String)], now: Now) {
        let Activity::Answering(reply) = self.activity else {
            return;
        };
        const HEADERS: [(&str, &str); 3] =
            [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")];
        let own = self.own_headers();
        let more = more.iter().chain(&own);
        let more = more.map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<(&str, &str)> = HEADERS.into_iter().chain(more).collect();
        let mut framing = Framing::Chunked;
        self.output.write(|out| {
            framing = http1::write_stream_head(out, &headers, reply, now.unix_ms);
        });
        let keep_alive = reply.keep_alive && matches!(framing, Framing::Chunked);
        self.answered_with(200, Shape::Stream);
        self.activity = Activity::Streaming { framing, keep_alive };
        self.since = now.mono_ms;
    }

    /// Sends one event of a stream.
    pub fn event(&mut self, line: &Line<'_>, now: Now) {
        let payload = line.prefix.len() + line.body.len() + line.suffix.len();
        if self.output.is_empty() {
            self.since = now.mono_ms;
        }
        match &self.activity {
            Activity::Streaming { framing, .. } => {
                let framing = *framing;
                if let (Some(exchange), Some(seq)) = (&mut self.exchange, line.seq) {
                    exchange.from.get_or_insert(seq);
                    exchange.to = Some(seq);
                }
                let mut head = Vec::with_capacity(64);
                sse::open(&mut head, line.name, line.seq);
                self.output.write(|out| {
                    framing.open(out, head.len() + payload + sse::END.len());
                    out.extend_from_slice(&head);
                    out.extend_from_slice(line.prefix);
                });
                self.output.push(line.body);
                self.output.write(|out| {
                    out.extend_from_slice(line.suffix);
                    out.extend_from_slice(sse::END);
                    framing.close(out);
                });
            }
            Activity::Socket(socket) if socket.codec.is_open() && line.body.contains(&b'\n') => {
                // Several messages, a line each.
                let lines: Vec<Shared> = line.body.split(|byte| *byte == b'\n').map(Shared::from).collect();
                lines.iter().for_each(|body| self.event(&Line { body, ..*line }, now));
            }
            Activity::Socket(socket) if socket.codec.is_open() => {
                // A wrapped event carries its position beside the wrapped body.
                let seq = match line.seq {
                    Some(seq) if !line.prefix.is_empty() => format!(",\"seq\":{seq}"),
                    Some(_) | None => String::new(),
                };
                self.output.write(|out| {
                    socket.codec.head(out, payload + seq.len());
                    out.extend_from_slice(line.prefix);
                });
                self.output.push(line.body);
                let tail = socket.codec.tail();
                if !seq.is_empty() || !line.suffix.is_empty() || !tail.is_empty() {
                    self.output.write(|out| {
                        out.extend_from_slice(seq.as_bytes());
                        out.extend_from_slice(line.suffix);
                        out.extend_from_slice(tail);
                    });
                }
            }
            Activity::Socket(_) | Activity::Reading | Activity::Answering(_) | Activity::Closing => {}
        }
    }

    /// Sends a notice that is no event. On an event stream it is a comment, because clients treat every event as one of the task and some
    /// end at an unknown one; on a socket it is `frame`, which is marked in its dialect.
    pub fn notice(&mut self, text: &str, frame: &Shared, now: Now) {
        match self.activity {
            Activity::Streaming { framing, .. } => {
                if self.output.is_empty() {
                    self.since = now.mono_ms;
                }
                let mut comment = Vec::new();
                sse::comment(&mut comment, text);
                self.output.write(|out| {
                    framing.open(out, comment.len());
                    out.extend_from_slice(&comment);
                    framing.close(out);
                });
            }
            Activity::Socket(_) => {
                self.event(&Line { name: None, seq: None, prefix: b"", body: frame, suffix: b"" }, now)
            }
            Activity::Reading | Activity::Answering(_) | Activity::Closing => {}
        }
    }
}
