//! One client connection: bytes in, a request, bytes out. It serves one request at a time; pipelined requests wait unread. A
//! connection that became a WebSocket takes messages instead, several at a time. It knows how events are framed; their senders do
//! not. Deadlines are computed from the last activity when a timer fires, so reading and writing never touch the timers.

use crate::a2a::{self, Form};
use crate::base::buf::Buf;
use crate::base::clock::Now;
use crate::base::http::{Method, Request, Response, Version};
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::connections::guard::AllowedOrigin;
use crate::core::connections::output::OutputBuffer;
use crate::core::requests::Caller;
use crate::limits::{GIVE_WAY_MS, Limits};
use crate::task::call::Follow;
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Source;
use crate::wire::http1::{self, Framing, Reader, Reject, Reply, Stage, Step};
use crate::wire::{lines, ws};
use std::borrow::Cow;

mod codec;
mod deadlines;
mod frames;
use codec::Codec;
pub use deadlines::Overdue;
pub use frames::Line;

/// What is known about the process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The user who runs this server, and no tool's process.
    SameUser,
    /// The user who runs this server; it may be a tool's process, which may only read.
    MaybeTool,
    /// The kernel could not be asked for the owner of its socket yet.
    OwnerUnknown,
    /// Another user, or the owner could not be found.
    Stranger,
}

/// What kind of listener a connection came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    #[default]
    Tcp,
    Unix,
}

pub struct Conn {
    pub peer: Peer,
    pub link: Link,
    /// A request that waits until the process of its peer is known.
    pub waiting: Option<Box<Request>>,
    /// Its peer was refused.
    pub refused: bool,
    /// The client that made its first call.
    pub client: Option<Client>,
    pub output: OutputBuffer,
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
    /// Whether the request being answered asked for a stream.
    hopes: bool,
    /// It is in the core's list of connections to write.
    pub listed: bool,
    /// It had no room for input when it was last looked at.
    pub stopped: bool,
    /// Its subscription has more than the output buffer could take.
    pub starved: bool,
    /// The subscriptions that feed it: one that answers the request being served, or those of a socket.
    pub subs: Vec<Key>,
    /// How many calls are under way: those that are answered by one of them, and those that wait for a task or a list.
    pub calls: usize,
    /// What is encoded for its readers and not queued yet, and what is reserved for that.
    pub owed: usize,
    /// Bytes that workers decode for it, and memory that is reserved for what they encode.
    pub lent: usize,
    /// The part of it that is counted in the output budget.
    pub counted: usize,
    /// The accept key of a WebSocket upgrade that is not answered yet.
    pub accept: Option<String>,
    /// The allowed origin of the request that is being served.
    pub allowed_origin: Option<AllowedOrigin>,
}

enum Talk {
    /// Between requests, or a request is being read.
    Reading,
    /// A request is being answered; nothing is read meanwhile.
    Answering(Reply),
    /// A stream of events; a subscription feeds it.
    Streaming { framing: Framing, keep_alive: bool },
    /// A WebSocket.
    Socket(Box<Socket>),
    /// Nothing more is sent; closed when the output is sent.
    Closing,
}

/// What a socket is and follows.
pub struct Socket {
    codec: Codec,
    /// Who joined, with the dialect that was chosen then.
    pub caller: Caller,
    pub follow: Follow,
    /// The task it follows, if it follows one: messages that name no task go there.
    pub task: Option<TaskId>,
    /// A message is being decoded. The next one is read afterwards.
    pub decoding: bool,
    /// When the peer last sent anything.
    heard: u64,
}

impl Socket {
    fn new(codec: Codec, caller: Caller, follow: Follow, task: Option<TaskId>, now: Now) -> Socket {
        Socket { codec, caller, follow, task, decoding: false, heard: now.mono_ms }
    }

    /// How the calls of its client come, by a dialect or from the terminal of this process.
    pub fn via(&self, form: &Form) -> String {
        match self.codec {
            Codec::WebSocket(_) => form.dialect.via.to_owned(),
            Codec::Lines(_) => self.caller.by.via.clone(),
        }
    }
}

/// Who uses a connection, and since when, in Unix milliseconds.
pub struct Client {
    pub by: Source,
    pub since: u64,
}

/// What a connection wants after bytes came or an answer went out.
pub enum Want {
    Nothing,
    Serve(Box<Request>),
    /// A message on a socket.
    Hear(String),
    /// What it sent was refused, for this reason.
    Rejected(&'static str),
}

impl Conn {
    pub fn new(link: Link, peer: Peer, now: Now) -> Conn {
        Conn {
            peer,
            link,
            waiting: None,
            refused: false,
            client: None,
            output: OutputBuffer::default(),
            rx: Buf::default(),
            reader: Reader::new(),
            talk: Talk::Reading,
            since: now.mono_ms,
            armed: u64::MAX,
            ended: false,
            begun: false,
            served: false,
            hopes: false,
            listed: false,
            stopped: false,
            starved: false,
            subs: Vec::new(),
            calls: 0,
            owed: 0,
            lent: 0,
            counted: 0,
            accept: None,
            allowed_origin: None,
        }
    }

    /// How many bytes may be read now. While a request is answered, or answers wait for the peer to take them, only a little
    /// is taken ahead, so that a client's end of stream is still noticed without reading its next requests.
    pub fn room(&self, limits: &Limits) -> usize {
        if self.ended {
            return 0;
        }
        match self.talk {
            Talk::Socket(_) if !self.can_answer(limits) => 0,
            Talk::Socket(_) if self.is_busy(limits) => limits.head_bytes.saturating_sub(self.rx.len()),
            Talk::Socket(_) => limits.turn_bytes,
            Talk::Reading if self.can_answer(limits) => limits.turn_bytes,
            Talk::Reading | Talk::Answering(_) | Talk::Streaming { .. } => {
                limits.head_bytes.saturating_sub(self.rx.len())
            }
            // Reading on lets the peer see our answer instead of a reset; what it says no longer matters.
            Talk::Closing => limits.turn_bytes,
        }
    }

    pub fn take(&mut self, bytes: &[u8], now: Now) {
        match &mut self.talk {
            Talk::Closing => return,
            Talk::Socket(socket) => socket.heard = now.mono_ms,
            Talk::Reading | Talk::Answering(_) | Talk::Streaming { .. } => {}
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
        if let Talk::Socket(_) = self.talk {
            return self.listen(limits, now);
        }
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
                    self.output.write(|out| out.extend_from_slice(http1::CONTINUE));
                }
                Ok(Step::Request(request)) => {
                    self.served = true;
                    self.begun = false;
                    self.allowed_origin = None;
                    self.hopes = a2a::accepts_stream(&request.headers);
                    self.talk = Talk::Answering(Reply {
                        version: request.version,
                        method: request.method,
                        keep_alive: request.keep_alive,
                    });
                    return Want::Serve(request);
                }
                Err(reject) => {
                    self.reject(reject, now);
                    return Want::Rejected(reject.message);
                }
            }
        }
        if self.ended && matches!(self.talk, Talk::Reading) && self.can_answer(limits) {
            self.close();
        }
        Want::Nothing
    }

    /// The next message on a socket. A socket whose client does not read, or that has too many calls under way, waits.
    fn listen(&mut self, limits: &Limits, now: Now) -> Want {
        while let Talk::Socket(socket) = &mut self.talk
            && self.output.len() < limits.tx_bytes
            && self.calls < limits.socket_calls
            && !socket.decoding
            && !self.rx.is_empty()
        {
            let mut step = ws::Step::More;
            if self.output.is_empty() {
                self.since = now.mono_ms;
            }
            self.output.write(|out| step = socket.codec.read(&mut self.rx, out));
            match step {
                ws::Step::More => break,
                ws::Step::Text(text) => return Want::Hear(text),
                ws::Step::Ping | ws::Step::Pong => {}
                ws::Step::Closed => self.close(),
            }
        }
        if self.ended && matches!(&self.talk, Talk::Socket(socket) if !socket.decoding) {
            self.close();
        }
        Want::Nothing
    }

    /// Whether there is room for the answer to another request. A client that does not read its answers waits.
    fn can_answer(&self, limits: &Limits) -> bool {
        self.output.len() < limits.tx_bytes
    }

    /// Whether a socket has too much under way to be read from.
    fn is_busy(&self, limits: &Limits) -> bool {
        self.calls >= limits.socket_calls || self.socket().is_some_and(|socket| socket.decoding)
    }

    /// Refuses a request that could not be read. If there is only no room for it, its path is known and it is answered in its dialect.
    fn reject(&mut self, reject: Reject, now: Now) {
        let kind = match reject.status {
            413 => Some(FaultKind::TooLarge),
            503 => Some(FaultKind::Overloaded { retry_after_s: 1 }),
            _ => None,
        };
        let response = match self.reader.path().zip(kind) {
            Some((path, kind)) => a2a::fault(&Form::at(path), &Fault::new(kind, reject.message)),
            None => {
                let body = serde_json::json!({ "error": reject.message }).to_string();
                Response::json(reject.status, body.into_bytes())
            }
        };
        let reply = Reply { version: Version::Http11, method: Method::Get, keep_alive: false };
        self.allowed_origin = None;
        self.head_and_body(&response, reply, now);
        // The peer has its time to take the answer, however long it had for its request.
        self.since = now.mono_ms;
        self.close();
    }

    /// Sends the answer to the request being served; on a socket only its body. Clients use a connection of its own for a stream.
    /// If the stream is refused, the connection is closed: some clients fail when they use it again.
    pub fn answer(&mut self, response: &Response, now: Now) {
        match self.talk {
            Talk::Answering(mut reply) => {
                reply.keep_alive &= !(self.hopes && response.status >= 400);
                self.head_and_body(response, reply, now);
                self.done(reply.keep_alive, now);
            }
            Talk::Socket(_) => {
                self.event(&Line { name: None, seq: None, prefix: b"", body: &response.body, suffix: b"" }, now)
            }
            Talk::Reading | Talk::Streaming { .. } | Talk::Closing => {}
        }
    }

    /// Answers the request being served, after which the connection is closed.
    pub fn answer_last(&mut self, response: &Response, now: Now) {
        if let Talk::Answering(reply) = &mut self.talk {
            reply.keep_alive = false;
        }
        self.answer(response, now);
    }

    fn head_and_body(&mut self, response: &Response, reply: Reply, now: Now) {
        let mut body = None;
        let response = match &self.allowed_origin {
            Some(page) => {
                let mut told = response.clone();
                told.headers.extend(page.headers());
                Cow::Owned(told)
            }
            None => Cow::Borrowed(response),
        };
        self.output.write(|out| body = http1::write_head(out, &response, reply, now.unix_ms));
        if let Some(body) = body {
            self.output.push(&body);
        }
    }

    /// Becomes a socket as the answer to the request being served.
    pub fn become_socket(&mut self, caller: Caller, follow: Follow, task: Option<TaskId>, limits: &Limits, now: Now) {
        let Talk::Answering(_) = self.talk else {
            return;
        };
        let accept = self.accept.take().unwrap_or_default();
        self.output.write(|out| ws::write_upgrade(out, &accept, caller.form.dialect.sub_protocol));
        let codec = Codec::WebSocket(ws::Codec::new(limits));
        self.talk = Talk::Socket(Box::new(Socket::new(codec, caller, follow, task, now)));
        self.since = now.mono_ms;
    }

    /// Its peer is in the same process and needs no handshake.
    pub fn become_local(&mut self, caller: Caller, limits: &Limits, now: Now) {
        self.client = Some(Client { by: caller.by.clone(), since: now.unix_ms });
        let codec = Codec::Lines(lines::Codec::new(limits));
        self.talk = Talk::Socket(Box::new(Socket::new(codec, caller, Follow::Nothing, None, now)));
    }

    pub fn socket(&self) -> Option<&Socket> {
        match &self.talk {
            Talk::Socket(socket) => Some(socket),
            Talk::Reading | Talk::Answering(_) | Talk::Streaming { .. } | Talk::Closing => None,
        }
    }

    pub fn socket_mut(&mut self) -> Option<&mut Socket> {
        match &mut self.talk {
            Talk::Socket(socket) => Some(socket),
            Talk::Reading | Talk::Answering(_) | Talk::Streaming { .. } | Talk::Closing => None,
        }
    }

    /// Whether events are sent on it as they happen.
    pub fn is_live(&self) -> bool {
        matches!(self.talk, Talk::Socket(_) | Talk::Streaming { .. })
    }

    /// What a socket follows is another task from now on.
    pub fn moved_to(&mut self, task: &TaskId) {
        if let Some(socket) = self.socket_mut() {
            socket.task = Some(task.clone());
        }
    }

    /// Ends the stream. The connection stays open if it can, a socket in any case.
    pub fn end_stream(&mut self, now: Now) {
        if let Talk::Streaming { framing, keep_alive } = self.talk {
            self.output.write(|out| framing.end(out));
            self.done(keep_alive, now);
        }
    }

    fn done(&mut self, keep_alive: bool, now: Now) {
        self.subs.clear();
        self.calls = 0;
        self.since = now.mono_ms;
        if keep_alive {
            self.begun = !self.rx.is_empty();
            self.talk = Talk::Reading;
        } else {
            self.close();
        }
    }

    /// Closes as soon as the output is sent. Unread input is dropped.
    pub fn close(&mut self) {
        self.rx = Buf::default();
        self.reader = Reader::default();
        self.talk = Talk::Closing;
    }

    /// Whether it can be dropped now.
    pub fn is_done(&self) -> bool {
        matches!(self.talk, Talk::Closing) && self.output.is_empty()
    }

    /// Whether it is between two requests: nothing would be lost by closing it.
    pub fn is_resting(&self) -> bool {
        matches!(self.talk, Talk::Reading) && !self.begun && self.output.is_empty()
    }

    /// Whether nothing is under way here: no whole request has come, nothing waits to be sent, and the client has had time to send.
    pub fn gives_way(&self, now: Now) -> bool {
        matches!(self.talk, Talk::Reading) && self.output.is_empty() && now.mono_ms >= self.since + GIVE_WAY_MS
    }

    /// What it waits for and since when. A connection that sends a body sorts last: its request has begun.
    pub fn waits(&self) -> (Stage, u64) {
        (self.reader.stage(), self.since)
    }

    /// The socket took `n` bytes.
    pub fn sent(&mut self, n: usize, now: Now) {
        self.output.advance(n);
        self.since = now.mono_ms;
    }

    /// How much memory it takes: output, encoded answers, and input.
    pub fn burden(&self, limits: &Limits) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, |request| limits.reserved(request.body.len()));
        self.output.len() + self.owed + self.lent + self.held(limits) + waiting
    }

    /// The memory of a request or message that is not complete yet. With a budget it is reserved before the request comes.
    pub fn held(&self, limits: &Limits) -> usize {
        let bytes = match &self.talk {
            Talk::Reading if limits.memory.is_some() => self.reader.announced() + self.rx.len(),
            Talk::Reading => self.reader.held() + self.rx.len(),
            Talk::Socket(socket) => socket.codec.held() + self.rx.len(),
            Talk::Answering(_) | Talk::Streaming { .. } | Talk::Closing => 0,
        };
        limits.reserved(bytes)
    }

    /// Drops a request that is not complete yet, and refuses it.
    pub fn turn_back(&mut self, now: Now) {
        if let Talk::Reading = self.talk {
            let reject = Reject { status: 503, message: "Too much is under way; send it again in a moment." };
            self.reject(reject, now);
        }
    }

    /// Whether its peer has accepted nothing for so long although output waits.
    pub fn has_stalled(&self, ms: u64, now: Now) -> bool {
        !self.output.is_empty() && now.mono_ms >= self.since + ms
    }

    /// Closes a socket with a code and a reason. Its peer has some time to read what waits.
    pub fn hang_up(&mut self, code: u16, reason: &str, now: Now) {
        if let Talk::Socket(socket) = &mut self.talk {
            self.output.write(|out| socket.codec.close(out, code, reason));
            self.since = now.mono_ms;
            self.close();
        }
    }
}
