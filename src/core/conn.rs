//! One client connection as the core sees it: bytes in, a request, bytes out. It serves one request at a time; what is
//! pipelined behind it waits unread. Deadlines are computed from the last activity when a timer fires, so reading and
//! writing never touch the timers.

use crate::base::Shared;
use crate::base::buf::Buf;
use crate::base::clock::Now;
use crate::base::http::{Method, Request, Response, Version};
use crate::base::slots::Key;
use crate::core::tx::Tx;
use crate::limits::Limits;
use crate::wire::http1::{self, Framing, Reader, Reject, Reply, Stage, Step};
use crate::wire::sse;

/// What is known about the process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The user who runs this server.
    SameUser,
    /// A process that a tool of ours started.
    OwnChild,
    /// Anybody else, or nobody knows.
    Stranger,
}

pub struct Conn {
    pub peer: Peer,
    pub tx: Tx,
    rx: Buf,
    reader: Reader,
    talk: Talk,
    /// When the present wait began: for a request, for the rest of one, for the peer to take output.
    since: u64,
    /// The earliest timer armed for this connection.
    pub armed: u64,
    /// The peer will send nothing more.
    ended: bool,
    /// Whether the present head or body has begun, and whether any request has been served.
    begun: bool,
    served: bool,
    /// It is in the core's list of connections to write.
    pub listed: bool,
    /// Its subscription has more to say than the output buffer could take.
    pub starved: bool,
    /// The subscription that answers the request being served.
    pub sub: Option<Key>,
}

enum Talk {
    Reading,
    /// A request is being answered; nothing is read meanwhile.
    Answering(Reply),
    /// A stream of events; `sub` feeds it.
    Streaming {
        framing: Framing,
        keep_alive: bool,
    },
    /// Nothing more will be said; closed when the output is gone.
    Closing,
}

/// What a connection wants after bytes came or an answer went out.
pub enum Want {
    Nothing,
    Serve(Box<Request>),
}

impl Conn {
    pub fn new(peer: Peer, now: Now) -> Conn {
        Conn {
            peer,
            tx: Tx::default(),
            rx: Buf::default(),
            reader: Reader::new(),
            talk: Talk::Reading,
            since: now.mono_ms,
            armed: u64::MAX,
            ended: false,
            begun: false,
            served: false,
            listed: false,
            starved: false,
            sub: None,
        }
    }

    /// How many bytes may be read now. While a request is answered, or answers wait for the peer to take them, only a little
    /// is taken ahead, so that a client's end of stream is still noticed without reading its next requests.
    pub fn room(&self, limits: &Limits) -> usize {
        if self.ended {
            return 0;
        }
        match self.talk {
            Talk::Reading if self.can_answer(limits) => limits.turn_bytes,
            Talk::Reading | Talk::Answering(_) | Talk::Streaming { .. } => {
                limits.head_bytes.saturating_sub(self.rx.len())
            }
            // Reading on lets the peer see our answer instead of a reset; what it says no longer matters.
            Talk::Closing => limits.turn_bytes,
        }
    }

    pub fn take(&mut self, bytes: &[u8], now: Now) {
        if matches!(self.talk, Talk::Closing) {
            return;
        }
        if matches!(self.talk, Talk::Reading) && !self.begun {
            self.begun = true;
            self.since = now.mono_ms;
        }
        self.rx.push(bytes);
    }

    /// The peer shut its sending side. It still gets its answers: [`Conn::read`] closes when it has asked for no more.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Goes on with what has been read.
    pub fn read(&mut self, limits: &Limits, now: Now) -> Want {
        while matches!(self.talk, Talk::Reading) && self.can_answer(limits) && !self.rx.is_empty() {
            let before = self.reader.stage();
            match self.reader.read(&mut self.rx, limits) {
                Ok(Step::More) => {
                    if self.reader.stage() != before {
                        self.since = now.mono_ms;
                    }
                    break;
                }
                Ok(Step::Continue) => {
                    self.since = now.mono_ms;
                    self.tx.write(|out| out.extend_from_slice(http1::CONTINUE));
                }
                Ok(Step::Request(request)) => {
                    self.served = true;
                    self.begun = false;
                    self.talk = Talk::Answering(Reply {
                        version: request.version,
                        method: request.method,
                        keep_alive: request.keep_alive,
                    });
                    return Want::Serve(request);
                }
                Err(reject) => self.reject(reject, now),
            }
        }
        if self.ended && matches!(self.talk, Talk::Reading) && self.can_answer(limits) {
            self.close();
        }
        Want::Nothing
    }

    /// Whether there is room for the answer to another request. A peer that asks and never listens waits.
    fn can_answer(&self, limits: &Limits) -> bool {
        self.tx.len() < limits.tx_bytes
    }

    fn reject(&mut self, reject: Reject, now: Now) {
        let body = serde_json::json!({ "error": reject.message })
            .to_string()
            .into_bytes();
        let response = Response::json(reject.status, body);
        let reply = Reply {
            version: Version::Http11,
            method: Method::Get,
            keep_alive: false,
        };
        self.head_and_body(&response, reply, now);
        // The peer has its time to take the answer, however long it had for its request.
        self.since = now.mono_ms;
        self.close();
    }

    /// Sends the answer to the request being served.
    pub fn answer(&mut self, response: &Response, now: Now) {
        let Talk::Answering(reply) = self.talk else {
            return;
        };
        self.head_and_body(response, reply, now);
        self.done(reply.keep_alive, now);
    }

    fn head_and_body(&mut self, response: &Response, reply: Reply, now: Now) {
        let mut body = None;
        self.tx
            .write(|out| body = http1::write_head(out, response, reply, now.unix_ms));
        if let Some(body) = body {
            self.tx.push(&body);
        }
    }

    /// Begins a stream of events as the answer to the request being served.
    pub fn stream(&mut self, now: Now) {
        let Talk::Answering(reply) = self.talk else {
            return;
        };
        const HEADERS: [(&str, &str); 3] = [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-cache"),
            ("X-Accel-Buffering", "no"),
        ];
        let mut framing = Framing::Chunked;
        self.tx.write(|out| {
            framing = http1::write_stream_head(out, &HEADERS, reply, now.unix_ms);
        });
        let keep_alive = reply.keep_alive && matches!(framing, Framing::Chunked);
        self.talk = Talk::Streaming {
            framing,
            keep_alive,
        };
        self.since = now.mono_ms;
    }

    /// One frame of the stream: the head of the event, what is put around the body, and the body itself.
    pub fn frame(&mut self, head: &[u8], body: &Shared, tail: &[u8], now: Now) {
        let Talk::Streaming { framing, .. } = self.talk else {
            return;
        };
        if self.tx.is_empty() {
            self.since = now.mono_ms;
        }
        let len = head.len() + body.len() + tail.len() + sse::END.len();
        self.tx.write(|out| {
            framing.open(out, len);
            out.extend_from_slice(head);
        });
        self.tx.push(body);
        self.tx.write(|out| {
            out.extend_from_slice(tail);
            out.extend_from_slice(sse::END);
            framing.close(out);
        });
    }

    /// Ends the stream; the connection goes on if it can.
    pub fn end_stream(&mut self, now: Now) {
        let Talk::Streaming {
            framing,
            keep_alive,
        } = self.talk
        else {
            return;
        };
        self.tx.write(|out| framing.end(out));
        self.done(keep_alive, now);
    }

    fn done(&mut self, keep_alive: bool, now: Now) {
        self.sub = None;
        self.since = now.mono_ms;
        if keep_alive {
            self.begun = !self.rx.is_empty();
            self.talk = Talk::Reading;
        } else {
            self.close();
        }
    }

    /// Closes as soon as the output is gone.
    pub fn close(&mut self) {
        self.rx = Buf::default();
        self.talk = Talk::Closing;
    }

    /// Whether it can be dropped now.
    pub fn is_done(&self) -> bool {
        matches!(self.talk, Talk::Closing) && self.tx.is_empty()
    }

    /// Whether it is between two requests: nothing would be lost by closing it.
    pub fn is_resting(&self) -> bool {
        matches!(self.talk, Talk::Reading) && !self.begun && self.tx.is_empty()
    }

    /// The socket took `n` bytes.
    pub fn sent(&mut self, n: usize, now: Now) {
        self.tx.advance(n);
        self.since = now.mono_ms;
    }

    /// When this connection has to be looked at, if nothing happens until then.
    pub fn deadline(&self, limits: &Limits) -> u64 {
        let wait = if !self.tx.is_empty() {
            limits.stall_ms
        } else {
            match self.talk {
                Talk::Reading if self.begun => match self.reader.stage() {
                    Stage::Head => limits.head_ms,
                    Stage::Body => limits.body_ms,
                },
                Talk::Reading if self.served => limits.idle_ms,
                Talk::Reading => limits.head_ms,
                Talk::Streaming { .. } => limits.ping_ms,
                // The answer may take as long as the model does.
                Talk::Answering(_) => limits.idle_ms,
                Talk::Closing => limits.stall_ms,
            }
        };
        self.since + wait
    }

    /// The deadline has passed.
    pub fn overdue(&mut self, now: Now) -> Overdue {
        if !self.tx.is_empty() {
            return Overdue::Drop;
        }
        match self.talk {
            Talk::Streaming { framing, .. } => {
                self.since = now.mono_ms;
                self.tx.write(|out| {
                    framing.open(out, sse::PING.len());
                    out.extend_from_slice(sse::PING);
                    framing.close(out);
                });
                Overdue::Write
            }
            Talk::Answering(_) => {
                self.since = now.mono_ms;
                Overdue::Nothing
            }
            Talk::Reading if self.begun => {
                self.reject(
                    Reject {
                        status: 408,
                        message: "The request took too long.",
                    },
                    now,
                );
                Overdue::Write
            }
            Talk::Reading | Talk::Closing => Overdue::Drop,
        }
    }
}

pub enum Overdue {
    Nothing,
    /// There is something to write.
    Write,
    Drop,
}
