//! One client connection: bytes in, a request, bytes out. It serves one request at a time; pipelined requests wait unread. A
//! connection that became a WebSocket receives messages instead, and serves several at a time. Events are framed here, so their senders
//! need not know the framing. Deadlines are computed from the last activity when a timer fires, so reading and writing never touch the
//! timers.

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
    /// A process of this machine that had ended when its connection was accepted, so it may have been a tool's process.
    Gone,
    /// Any process of any machine: the server authenticates its clients by their credentials.
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
    /// The sender of the request that is being read or served, if it is known.
    pub principal: Option<Arc<Principal>>,
    /// Whether the head of the request that is being read was checked, and whether its client waits to be asked for the body.
    is_checked: bool,
    awaits_continue: bool,
    /// The head of the request waits to be checked until the credentials file was checked for changes.
    pub awaits_check: bool,
    /// A request that waits until the process of its peer is known, or until the credentials file was checked for changes.
    pub waiting: Option<Box<Request>>,
    /// Whether it waits for the latter.
    pub awaits_credentials: bool,
    /// The refusal of its peer was counted.
    pub refused: bool,
    /// The client that made its first call.
    pub client: Option<Client>,
    pub output: OutputBuffer,
    rx: Buf,
    reader: Reader,
    activity: Activity,
    /// When it began to wait for what it waits for: a request, the rest of a request, or the peer to accept output. In monotonic
    /// milliseconds.
    since: u64,
    /// The earliest timer armed for this connection.
    pub armed: u64,
    /// The peer will send nothing more.
    input_ended: bool,
    /// Whether the present head or body has begun, and whether any request has been served.
    begun: bool,
    served: bool,
    /// Whether the request being answered asked for a stream.
    wants_stream: bool,
    /// It is in the list of connections to write.
    pub listed: bool,
    /// It had no room for input at its last change.
    pub input_stopped: bool,
    /// A subscription has more events than the output buffer could take.
    pub output_was_full: bool,
    /// The subscriptions that feed it: one that answers the request being served, or those of a socket.
    pub subs: Vec<Key>,
    /// How many calls are under way: those that a subscription answers, and those that wait for a task or a list.
    pub calls: usize,
    /// The length of answers and first frames that are encoded for its subscriptions and not queued yet, and the memory that is reserved
    /// for those that workers encode.
    pub encoded_bytes: usize,
    /// The memory that is reserved for requests that workers decode and for answers without a subscription that they encode.
    pub worker_bytes: usize,
    /// How much of the output budget it takes, as of its last change.
    pub counted_bytes: usize,
    /// The credential among whose streams it is counted.
    pub counted_stream: Option<Arc<str>>,
    /// The fields of the response to a WebSocket upgrade, until that is sent.
    pub handshake: Option<Handshake>,
    /// The allowed origin of the request that is being served.
    pub allowed_origin: Option<AllowedOrigin>,
    /// It was opened at the listener for metrics.
    pub only_metrics: bool,
    ids: RequestIds,
    /// The request that is being served, and those that have ended since they were last asked for.
    exchange: Option<Box<Exchange>>,
    pub finished: Vec<Exchange>,
    /// Why it is going to be closed.
    close_reason: Option<CloseReason>,
    /// The bytes of the present request that were read.
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

/// What the response to a WebSocket upgrade contains.
#[derive(Default)]
pub struct Handshake {
    pub accept: String,
    /// The sub-protocol of the dialect, if the client offered it.
    pub protocol: Option<&'static str>,
    /// The id that an editor is given of its connection.
    pub connection: Option<String>,
}

/// The client that uses a connection, and since when, in Unix milliseconds.
pub struct Client {
    pub by: Source,
    pub since: u64,
}

/// What was found in the bytes that a connection has received.
pub enum ReadStep {
    /// Nothing that is complete, or nothing may be read now.
    Nothing,
    Request(Box<Request>),
    /// The head of a request, which is to be checked before the body is read.
    CheckHead,
    /// A message on a socket.
    Message(String),
    /// Something that was refused, for this reason.
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
            input_ended: false,
            begun: false,
            served: false,
            wants_stream: false,
            listed: false,
            input_stopped: false,
            output_was_full: false,
            subs: Vec::new(),
            calls: 0,
            encoded_bytes: 0,
            worker_bytes: 0,
            counted_bytes: 0,
            counted_stream: None,
            handshake: None,
            allowed_origin: None,
            only_metrics: false,
            ids,
            exchange: None,
            finished: Vec::new(),
            close_reason: None,
            bytes_in: 0,
        }
    }

    /// How many bytes may be read now. While a request is answered, or answers wait for the peer to accept them, only a little is read
    /// ahead: enough to notice the client's end of stream, and not its next requests.
    pub fn room(&self, limits: &Limits) -> usize {
        if self.input_ended || self.awaits_check {
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
            // While the rest is read and dropped, the peer can read our answer; otherwise the kernel would reset the connection.
            Activity::Closing => limits.turn_bytes,
        }
    }

    pub fn receive(&mut self, bytes: &[u8], now: Now) {
        match &mut self.activity {
            Activity::Closing => return,
            Activity::Socket(socket) => socket.last_received = now.mono_ms,
            Activity::Reading | Activity::Answering(_) | Activity::Streaming { .. } => {}
        }
        if matches!(self.activity, Activity::Reading) && !self.begun {
            self.begun = true;
            self.since = now.mono_ms;
        }
        self.rx.push(bytes);
    }

    /// The peer shut its sending side. It still gets its answers: [`Conn::read`] closes the connection behind the last one.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Reads the next request or message from the bytes that were received.
    pub fn read(&mut self, limits: &Limits, now: Now) -> ReadStep {
        if let Activity::Socket(_) = self.activity {
            return self.read_message(limits, now);
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
                        return ReadStep::CheckHead;
                    }
                }
                Ok(Step::Continue) => {
                    self.since = now.mono_ms;
                    self.awaits_continue = true;
                    return ReadStep::CheckHead;
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
                    return ReadStep::Request(request);
                }
                Err(reject) => {
                    self.reject(reject, now);
                    return ReadStep::Rejected(reject.message);
                }
            }
        }
        if self.input_ended && matches!(self.activity, Activity::Reading) && self.can_answer(limits) {
            self.close();
        }
        ReadStep::Nothing
    }

    /// The head of the request whose body is to be read.
    pub fn head(&self) -> Option<Request> {
        self.reader.head()
    }

    /// Whether the body of a request is being read whose head was checked.
    pub fn is_reading_body(&self) -> bool {
        matches!(self.activity, Activity::Reading) && self.is_checked
    }

    /// Lets the body of the request be read: its head was checked.
    pub fn admit_body(&mut self) {
        self.is_checked = true;
        if std::mem::take(&mut self.awaits_continue) {
            self.output.write(|out| out.extend_from_slice(http1::CONTINUE));
        }
    }

    /// Reads the next message on a socket, unless its client accepts no output or too many of its calls are under way.
    fn read_message(&mut self, limits: &Limits, now: Now) -> ReadStep {
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
                ws::Step::Text(text) => return ReadStep::Message(text),
                ws::Step::Ping | ws::Step::Pong => {}
                ws::Step::Closed => self.close(),
            }
        }
        if self.input_ended && matches!(&self.activity, Activity::Socket(socket) if !socket.decoding) {
            self.close();
        }
        ReadStep::Nothing
    }

    /// Whether there is room for the answer to another request. The requests of a client that does not read its answers wait.
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
        // Messages on the socket have no request id of their own.
        let mut caller = caller;
        caller.form.request = None;
        self.activity = Activity::Socket(Box::new(Socket::new(codec, caller, follow, task, now)));
        self.since = now.mono_ms;
    }

    /// Becomes the connection of a peer in the same process, which needs no handshake.
    pub fn become_local(&mut self, caller: Caller, limits: &Limits, now: Now) {
        self.client = Some(Client { by: caller.by.clone(), since: now.unix_ms });
        let codec = Codec::Lines(lines::Codec::new(limits));
        // An editor is shown the sessions that it opens, a terminal also those that others begin.
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

    /// The credential whose stream or socket this is.
    pub fn stream_credential(&self) -> Option<&Arc<str>> {
        match &self.activity {
            Activity::Socket(socket) => socket.caller.principal.credential.as_ref(),
            Activity::Streaming { .. } => self.principal.as_ref()?.credential.as_ref(),
            Activity::Reading | Activity::Answering(_) | Activity::Closing => None,
        }
    }

    /// A socket follows this task from now on.
    pub fn set_followed_task(&mut self, task: &TaskId) {
        if let Some(socket) = self.socket_mut() {
            socket.task = Some(task.clone());
        }
    }

    /// Ends a stream of events. The connection is closed if the client does not keep it open. A socket stays as it is.
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

    /// Whether it has ended and all output was sent.
    pub fn is_done(&self) -> bool {
        matches!(self.activity, Activity::Closing) && self.output.is_empty()
    }

    /// Whether it is between two requests, so that nothing is lost when it is closed.
    pub fn is_idle(&self) -> bool {
        matches!(self.activity, Activity::Reading) && !self.begun && self.output.is_empty()
    }

    /// Whether it may be closed for a new connection: it has received no complete request, no output waits, and the client has had time
    /// to send a request.
    pub fn gives_way(&self, now: Now) -> bool {
        matches!(self.activity, Activity::Reading) && self.output.is_empty() && now.mono_ms >= self.since + GIVE_WAY_MS
    }

    /// What it waits for and since when. A connection that is sending a body sorts last.
    pub fn waits(&self) -> (Stage, u64) {
        (self.reader.stage(), self.since)
    }

    /// The socket took `n` bytes.
    pub fn sent(&mut self, n: usize, now: Now) {
        self.output.advance(n);
        self.since = now.mono_ms;
    }

    /// Whether output waits and the peer has accepted none of it for this time.
    pub fn has_stalled(&self, ms: u64, now: Now) -> bool {
        !self.output.is_empty() && now.mono_ms >= self.since + ms
    }

    /// Closes a socket with a code and a reason. Its peer has some time to read the output that waits.
    pub fn close_socket(&mut self, code: u16, reason: &str, now: Now) {
        if let Activity::Socket(socket) = &mut self.activity {
            self.output.write(|out| socket.codec.close(out, code, reason));
            self.since = now.mono_ms;
            self.close();
        }
    }
}
