//! One client connection: bytes in, a request, bytes out. It serves one request at a time; pipelined requests wait unread. A
//! connection that became a WebSocket takes messages instead, several at a time. It knows how events are framed; their senders do
//! not. Deadlines are computed from the last activity when a timer fires, so reading and writing never touch the timers.

use crate::a2a::{self, Binding};
use crate::base::buf::Buf;
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::connections::guard::AllowedOrigin;
use crate::core::connections::output::OutputBuffer;
use crate::core::operation::exchange::{CloseReason, Exchange, RequestIds, Shape};
use crate::core::requests::Caller;
use crate::limits::{GIVE_WAY_MS, Limits};
use crate::task::access::Principal;
use crate::task::call::Follow;
use crate::task::message::Source;
use crate::wire::http1::{self, Framing, Reader, Reply, Stage, Step};
use crate::wire::{lines, ws};
use ::core::net::IpAddr;
use std::sync::Arc;

mod answers;
mod codec;
mod deadlines;
mod exchanges;
mod frames;
mod live_socket;
mod memory;
use codec::Codec;
pub use deadlines::Overdue;
pub use frames::Line;
pub use live_socket::Socket;

/// What is known about the process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The user who runs this server, and no tool's process.
    SameUser,
    /// The user who runs this server; it may be a tool's process, which may only read.
    MaybeTool,
    /// The kernel could not be asked for the owner of its socket yet.
    OwnerUnknown,
    /// Another user, or a peer on another machine.
    Stranger,
    /// Another user of this machine, under whose name a tool's process may have connected.
    OtherUser,
    /// It connected from this machine and was gone when it was accepted, so it may have been a tool's process.
    Gone,
    /// Anybody, of this machine or another one: the server knows its clients by their credentials.
    Anybody,
}

/// What kind of listener a connection came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    #[default]
    Tcp,
    /// The server's own socket, or a connection inside the process.
    Unix,
    /// A Unix socket that the operator named. A proxy may be behind it.
    NamedUnix,
}

impl Link {
    pub fn is_unix(self) -> bool {
        matches!(self, Link::Unix | Link::NamedUnix)
    }
}

pub struct Conn {
    pub peer: Peer,
    /// The other end is a process of the user who runs this server.
    pub is_own_user: bool,
    pub link: Link,
    /// The address of the other end, and of the client of the last request, which may be behind a proxy.
    pub address: Option<IpAddr>,
    pub client_address: Option<IpAddr>,
    /// Who makes the request that is being read or served, if that is known.
    pub principal: Option<Arc<Principal>>,
    /// Whether the head of the request that is being read was checked, and whether its client waits to be asked for the body.
    is_checked: bool,
    awaits_continue: bool,
    /// The head of the request waits to be checked until the credentials file was looked at.
    pub awaits_check: bool,
    /// A request that waits until the process of its peer is known, or until the credentials file was looked at.
    pub waiting: Option<Box<Request>>,
    pub awaits_credentials: bool,
    /// Its peer was refused.
    pub refused: bool,
    /// The client that made its first call.
    pub client: Option<Client>,
    pub output: OutputBuffer,
    rx: Buf,
    reader: Reader,
    activity: Activity,
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
    wants_stream: bool,
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
    /// What the response to a WebSocket upgrade has, before it is answered.
    pub handshake: Option<Handshake>,
    /// The allowed origin of the request that is being served.
    pub allowed_origin: Option<AllowedOrigin>,
    /// It came to the listener for metrics.
    pub only_metrics: bool,
    ids: RequestIds,
    /// The request that is being served, and those that have ended since they were last asked for.
    exchange: Option<Box<Exchange>>,
    pub finished: Vec<Exchange>,
    /// Why it is closed, as soon as that is decided.
    closed_for: Option<CloseReason>,
    /// Bytes that were read of the present request.
    bytes_in: u64,
}

enum Activity {
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

/// What the response to a WebSocket upgrade has.
#[derive(Default)]
pub struct Handshake {
    pub accept: String,
    /// The sub-protocol of the dialect, if the client offered it.
    pub protocol: Option<&'static str>,
    /// The id that an editor is given of its connection.
    pub connection: Option<String>,
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
    /// The head of a request is complete, and its body is to be read.
    Check,
    /// A message on a socket.
    Hear(String),
    /// What it sent was refused, for this reason.
    Rejected(&'static str),
}

impl Conn {
    pub fn new(link: Link, peer: Peer, ids: RequestIds, now: Now) -> Conn {
        Conn {
            peer,
            is_own_user: false,
            link,
            address: None,
            client_address: None,
            principal: None,
            is_checked: false,
            awaits_continue: false,
            awaits_check: false,
            waiting: None,
            awaits_credentials: false,
            refused: false,
            client: None,
            output: OutputBuffer::default(),
            rx: Buf::default(),
            reader: Reader::new(),
            activity: Activity::Reading,
            since: now.mono_ms,
            armed: u64::MAX,
            ended: false,
            begun: false,
            served: false,
            wants_stream: false,
            listed: false,
            stopped: false,
            starved: false,
            subs: Vec::new(),
            calls: 0,
            owed: 0,
            lent: 0,
            counted: 0,
            handshake: None,
            allowed_origin: None,
            only_metrics: false,
            ids,
            exchange: None,
            finished: Vec::new(),
            closed_for: None,
            bytes_in: 0,
        }
    }

    /// How many bytes may be read now. While a request is answered, or answers wait for the peer to take them, only a little
    /// is taken ahead, so that a client's end of stream is still noticed without reading its next requests.
    pub fn room(&self, limits: &Limits) -> usize {
        if self.ended || self.awaits_check {
            return 0;
        }
        match self.activity {
            Activity::Socket(_) if !self.can_answer(limits) => 0,
            Activity::Socket(_) if self.is_busy(limits) => limits.head_bytes.saturating_sub(self.rx.len()),
            Activity::Socket(_) => limits.turn_bytes,
            Activity::Reading if self.can_answer(limits) => limits.turn_bytes,
            Activity::Reading | Activity::Answering(_) | Activity::Streaming { .. } => {
                limits.head_bytes.saturating_sub(self.rx.len())
            }
            // Reading on lets the peer see our answer instead of a reset; what it says no longer matters.
            Activity::Closing => limits.turn_bytes,
        }
    }

    pub fn take(&mut self, bytes: &[u8], now: Now) {
        match &mut self.activity {
            Activity::Closing => return,
            Activity::Socket(socket) => socket.heard = now.mono_ms,
            Activity::Reading | Activity::Answering(_) | Activity::Streaming { .. } => {}
        }
        if matches!(self.activity, Activity::Reading) && !self.begun {
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
        if let Activity::Socket(_) = self.activity {
            return self.listen(limits, now);
        }
        if matches!(self.activity, Activity::Reading) && self.can_answer(limits) && !self.rx.is_empty() {
            let (before, unread) = (self.reader.stage(), self.rx.len());
            let step = self.reader.read(&mut self.rx, limits);
            self.bytes_in += (unread - self.rx.len()) as u64;
            match step {
                Ok(Step::More) => {
                    if self.reader.stage() != before {
                        self.since = now.mono_ms;
                    }
                    if self.reader.stage() == Stage::Body && !self.is_checked {
                        return Want::Check;
                    }
                }
                Ok(Step::Continue) => {
                    self.since = now.mono_ms;
                    self.awaits_continue = true;
                    return Want::Check;
                }
                Ok(Step::Request(request)) => {
                    self.is_checked = false;
                    self.served = true;
                    self.begun = false;
                    self.allowed_origin = None;
                    self.wants_stream = a2a::accepts_stream(&request.headers);
                    self.activity = Activity::Answering(Reply {
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
        if self.ended && matches!(self.activity, Activity::Reading) && self.can_answer(limits) {
            self.close();
        }
        Want::Nothing
    }

    /// The head of the request whose body is to be read.
    pub fn head(&self) -> Option<Request> {
        self.reader.head()
    }

    /// Whether the body of a request is being read whose head was checked.
    pub fn is_reading_body(&self) -> bool {
        matches!(self.activity, Activity::Reading) && self.is_checked
    }

    /// The body of the request may be read.
    pub fn admit_body(&mut self) {
        self.is_checked = true;
        if std::mem::take(&mut self.awaits_continue) {
            self.output.write(|out| out.extend_from_slice(http1::CONTINUE));
        }
    }

    /// The next message on a socket. A socket whose client does not read, or that has too many calls under way, waits.
    fn listen(&mut self, limits: &Limits, now: Now) -> Want {
        while let Activity::Socket(socket) = &mut self.activity
            && self.output.len() < limits.tx_bytes
            && self.calls < limits.socket_calls
            && !socket.decoding
            && !self.rx.is_empty()
        {
            let mut step = ws::Step::More;
            if self.output.is_empty() {
                self.since = now.mono_ms;
            }
            let unread = self.rx.len();
            self.output.write(|out| step = socket.codec.read(&mut self.rx, out));
            self.bytes_in += (unread - self.rx.len()) as u64;
            match step {
                ws::Step::More => break,
                ws::Step::Text(text) => return Want::Hear(text),
                ws::Step::Ping | ws::Step::Pong => {}
                ws::Step::Closed => self.close(),
            }
        }
        if self.ended && matches!(&self.activity, Activity::Socket(socket) if !socket.decoding) {
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

    /// Becomes a socket as the answer to the request being served.
    pub fn become_socket(&mut self, caller: Caller, follow: Follow, task: Option<TaskId>, limits: &Limits, now: Now) {
        let Activity::Answering(_) = self.activity else {
            return;
        };
        let Handshake { accept, protocol, connection } = self.handshake.take().unwrap_or_default();
        let mut more = self.own_headers();
        more.extend(connection.map(|id| ("Acp-Connection-Id", id)));
        self.output.write(|out| ws::write_upgrade(out, &accept, protocol, &more));
        self.answered_with(101, Shape::Socket);
        let codec = Codec::WebSocket(ws::Codec::new(limits));
        // What comes over the socket has no id of its own.
        let mut caller = caller;
        caller.form.request = None;
        self.activity = Activity::Socket(Box::new(Socket::new(codec, caller, follow, task, now)));
        self.since = now.mono_ms;
    }

    /// Its peer is in the same process and needs no handshake.
    pub fn become_local(&mut self, caller: Caller, limits: &Limits, now: Now) {
        self.client = Some(Client { by: caller.by.clone(), since: now.unix_ms });
        let codec = Codec::Lines(lines::Codec::new(limits));
        // An editor is shown what it opens, a terminal also what others begin.
        let follow = match caller.form.dialect.binding {
            Binding::Acp => Follow::Nothing,
            Binding::Native | Binding::JsonRpc | Binding::Rest | Binding::Bare => Follow::NextSession,
        };
        self.activity = Activity::Socket(Box::new(Socket::new(codec, caller, follow, None, now)));
    }

    /// Whether its peer is in the same process.
    pub fn is_local(&self) -> bool {
        self.socket().is_some_and(|socket| socket.codec.is_local())
    }

    pub fn socket(&self) -> Option<&Socket> {
        match &self.activity {
            Activity::Socket(socket) => Some(socket),
            Activity::Reading | Activity::Answering(_) | Activity::Streaming { .. } | Activity::Closing => None,
        }
    }

    pub fn socket_mut(&mut self) -> Option<&mut Socket> {
        match &mut self.activity {
            Activity::Socket(socket) => Some(socket),
            Activity::Reading | Activity::Answering(_) | Activity::Streaming { .. } | Activity::Closing => None,
        }
    }

    /// Whether events are sent on it as they happen.
    pub fn is_live(&self) -> bool {
        matches!(self.activity, Activity::Socket(_) | Activity::Streaming { .. })
    }

    /// What a socket follows is another task from now on.
    pub fn moved_to(&mut self, task: &TaskId) {
        if let Some(socket) = self.socket_mut() {
            socket.task = Some(task.clone());
        }
    }

    /// Ends the stream. The connection stays open if it can, a socket in any case.
    pub fn end_stream(&mut self, now: Now) {
        if let Activity::Streaming { framing, keep_alive } = self.activity {
            self.output.write(|out| framing.end(out));
            self.done(keep_alive, now);
        }
    }

    fn done(&mut self, keep_alive: bool, now: Now) {
        self.finish(CloseReason::Done);
        self.subs.clear();
        self.calls = 0;
        self.principal = None;
        self.since = now.mono_ms;
        if keep_alive {
            self.begun = !self.rx.is_empty();
            self.activity = Activity::Reading;
        } else {
            self.close();
        }
    }

    /// Closes as soon as the output is sent. Unread input is dropped.
    pub fn close(&mut self) {
        self.finish(CloseReason::Peer);
        self.rx = Buf::default();
        self.reader = Reader::default();
        self.activity = Activity::Closing;
    }

    /// Whether it can be dropped now.
    pub fn is_done(&self) -> bool {
        matches!(self.activity, Activity::Closing) && self.output.is_empty()
    }

    /// Whether it is between two requests: nothing would be lost by closing it.
    pub fn is_resting(&self) -> bool {
        matches!(self.activity, Activity::Reading) && !self.begun && self.output.is_empty()
    }

    /// Whether nothing is under way here: no whole request has come, nothing waits to be sent, and the client has had time to send.
    pub fn gives_way(&self, now: Now) -> bool {
        matches!(self.activity, Activity::Reading) && self.output.is_empty() && now.mono_ms >= self.since + GIVE_WAY_MS
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

    /// Whether its peer has accepted nothing for so long although output waits.
    pub fn has_stalled(&self, ms: u64, now: Now) -> bool {
        !self.output.is_empty() && now.mono_ms >= self.since + ms
    }

    /// Closes a socket with a code and a reason. Its peer has some time to read what waits.
    pub fn hang_up(&mut self, code: u16, reason: &str, now: Now) {
        if let Activity::Socket(socket) = &mut self.activity {
            self.output.write(|out| socket.codec.close(out, code, reason));
            self.since = now.mono_ms;
            self.close();
        }
    }
}
