//! A connection to a server over WebSocket, for an attached terminal. A lost connection is made again, without a limit of attempts;
//! `ui/client.rs` then sends again the calls that the server has not answered. The contents of messages are not read here.
//!
//! `tungstenite` reads and writes the frames. It writes into [`QueuedStream`], whose queue has a limit.

use crate::base::buf::Buf;
use crate::base::id::Entropy;
use crate::base::percent;
use crate::limits::ui::{
    ANSWER_BYTES, LINK_CONNECT_MS, LINK_LOST_MS, LINK_MESSAGE_BYTES, LINK_PING_MS, LINK_QUEUE_BYTES, LINK_READ_BYTES,
    LINK_RETRY_MOST_MS, LINK_RETRY_MS, LINK_RETRY_VARIES_PERCENT,
};
use crate::shell::event_loop::sys::Clock;
use crate::shell::terminal::connection::link::{Link, LinkEvent};
use crate::shell::terminal::connection::remote::{Attempt, ServerAddress};
use crate::shell::terminal::connection::tls::Stream;
use crate::wire::ws::{Denied, HandshakeRequest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use tungstenite::protocol::{Message, Role, WebSocket, WebSocketConfig};
use tungstenite::{Bytes, Error};

const PROTOCOL: &str = "gemini-a2a.v1";
/// The `taskId` of a connection that follows no task yet.
const LATER: &str = "next";

pub struct WebSocketLink {
    address: ServerAddress,
    client: String,
    target: String,
    entropy: Entropy,
    phase: LinkState,
    /// Attempts since the server last sent a message.
    failures: u32,
}

enum LinkState {
    /// The next attempt is made at this time.
    Waiting {
        until: u64,
    },
    Connecting(Attempt),
    Handshaking(Box<Handshake>),
    Open(Box<OpenSocket>),
}

struct Handshake {
    queue: QueuedStream,
    ask: HandshakeRequest,
    answer: Vec<u8>,
    /// When the handshake times out; None before the first call of `advance`.
    until: Option<u64>,
}

struct OpenSocket {
    socket: WebSocket<QueuedStream>,
    /// When the server last sent anything; None before the first call of `advance`. `last_ping` is the time of the last ping.
    last_heard: Option<u64>,
    last_ping: u64,
    /// More messages may be buffered, so `advance` is to be called again even if no bytes come.
    may_have_more: bool,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server does not answer, or the connection broke.
    Unreachable(String),
    Denied(Denied),
    /// There is no TLS, or the certificate is not valid.
    Insecure(String),
    /// The server has closed the connection because of the credential, with this reason.
    Revoked(String),
}

/// The close codes of a server for a credential that was revoked or whose rights have changed.
const REVOKED: [u16; 2] = [4401, 4403];
/// How to give a valid credential.
const NEEDS_TOKEN: &str = "give its token in GEMINI_A2A_TOKEN or with --token-file FILE";

impl Failure {
    pub fn sentence(&self, server: &str) -> String {
        match self {
            Failure::Unreachable(why) => format!("cannot connect to {server}: {why}; is the server running there?"),
            Failure::Insecure(why) => format!("cannot connect to {server}: {why}"),
            Failure::Denied(Denied::Foreign(how)) => format!("{server} is no gemini-a2a server: {how}"),
            // Some errors come with the HTTP status 200.
            Failure::Denied(Denied::Status(200, Some(why))) => format!("{server} refuses: {why}"),
            Failure::Denied(Denied::Status(401, why)) => {
                let why = why.as_deref().unwrap_or("it needs a credential").trim_end_matches('.');
                format!("{server} refuses (401): {why}; {NEEDS_TOKEN}")
            }
            Failure::Denied(Denied::Status(status, Some(why))) => format!("{server} refuses ({status}): {why}"),
            Failure::Denied(Denied::Status(403, None)) => {
                format!("{server} refuses this client (403); only processes of its user may connect")
            }
            Failure::Denied(Denied::Status(status, None)) => {
                format!("{server} is no gemini-a2a server: it answers with the status {status}")
            }
            Failure::Revoked(why) => {
                format!(
                    "{server} has ended the connection: {why}; the task goes on; for a valid credential, {NEEDS_TOKEN}"
                )
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            // `tls.rs` reports a failed handshake or an invalid certificate with this kind.
            ErrorKind::InvalidData => Failure::Insecure(error.to_string()),
            _ => Failure::Unreachable(error.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Unreachable(error.to_string())
    }
}

impl WebSocketLink {
    /// A connection for a client of this name. If a task is given, the first connection fails unless the server has it. No records come
    /// before a `watch`.
    pub fn new(address: ServerAddress, client: &str, task: Option<&str>, entropy: Entropy) -> WebSocketLink {
        let client = percent::encoded(client);
        let target = format!("/ws?client={client}&taskId={}", percent::encoded(task.unwrap_or(LATER)));
        WebSocketLink { address, client, target, entropy, phase: LinkState::Waiting { until: 0 }, failures: 0 }
    }

    /// Waits for the first connection, which the next `advance` reports.
    pub fn open(mut self) -> Result<WebSocketLink, Failure> {
        let clock = Clock::start();
        while !matches!(self.phase, LinkState::Open(_)) {
            let now = clock.now().mono_ms;
            match self.step(now, &mut Vec::new())? {
                Some(next) => self.phase = next,
                None => self.wait(now)?,
            }
        }
        self.target = format!("/ws?client={}&taskId={LATER}", self.client);
        Ok(self)
    }

    fn wait(&self, now: u64) -> io::Result<()> {
        let ms = self.due().map(|due| due.saturating_sub(now) as i64);
        let time = ms.map(|ms| Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 });
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.wants_write());
        let mut fds: Vec<PollFd> = self.fd().into_iter().map(|fd| PollFd::from_borrowed_fd(fd, events)).collect();
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what can be done without waiting; returns the next state if this one is over.
    fn step(&mut self, now: u64, arrivals: &mut Vec<LinkEvent>) -> Result<Option<LinkState>, Failure> {
        match &mut self.phase {
            LinkState::Waiting { until } if now < *until => Ok(None),
            LinkState::Waiting { .. } => Ok(Some(LinkState::Connecting(Attempt::begin(self.address.clone())?))),
            LinkState::Connecting(attempt) => match attempt.result() {
                Some(stream) => Ok(Some(LinkState::Handshaking(Box::new(self.ask(stream?))))),
                None => Ok(None),
            },
            LinkState::Handshaking(asking) => {
                asking.advance(now)?;
                match asking.ask.response(&asking.answer).map_err(Failure::Denied)? {
                    Some(head) => match std::mem::replace(&mut self.phase, LinkState::Waiting { until: now }) {
                        LinkState::Handshaking(asking) => Ok(Some(LinkState::Open(Box::new(asking.upgraded(head))))),
                        phase => Ok(Some(phase)),
                    },
                    None => Ok(None),
                }
            }
            LinkState::Open(open) => {
                if open.advance(now, arrivals)? {
                    self.failures = 0;
                }
                Ok(None)
            }
        }
    }

    fn ask(&mut self, stream: Stream) -> Handshake {
        let host = self.address.remote.host_field();
        let key = STANDARD.encode(self.entropy.bytes());
        let token = self.address.token.clone();
        let ask = HandshakeRequest { host, target: self.target.clone(), key, protocol: PROTOCOL, token };
        let mut queue = QueuedStream { stream, out: Buf::default() };
        queue.out.push(ask.request().as_bytes());
        Handshake { queue, ask, answer: Vec::new(), until: None }
    }

    /// The pause before the next attempt.
    fn pause(&mut self) -> u64 {
        let whole = LINK_RETRY_MS.saturating_mul(1 << self.failures.min(16)).min(LINK_RETRY_MOST_MS);
        self.failures = self.failures.saturating_add(1);
        let varies = whole * LINK_RETRY_VARIES_PERCENT / 100;
        whole - varies + self.entropy.below(2 * varies + 1)
    }
}

impl Link for WebSocketLink {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            LinkState::Waiting { .. } => None,
            LinkState::Connecting(attempt) => Some(attempt.fd()),
            LinkState::Handshaking(asking) => Some(asking.queue.stream.as_fd()),
            LinkState::Open(open) => Some(open.socket.get_ref().stream.as_fd()),
        }
    }

    fn wants_write(&self) -> bool {
        match &self.phase {
            LinkState::Waiting { .. } | LinkState::Connecting(_) => false,
            LinkState::Handshaking(asking) => asking.queue.wants_write(),
            LinkState::Open(open) => open.socket.get_ref().wants_write(),
        }
    }

    fn due(&self) -> Option<u64> {
        match &self.phase {
            LinkState::Waiting { until } => Some(*until),
            LinkState::Connecting(_) => None,
            LinkState::Handshaking(asking) => Some(asking.until.unwrap_or(0)),
            LinkState::Open(open) => Some(match open.last_heard {
                Some(last_heard) if !open.may_have_more => {
                    (last_heard.max(open.last_ping) + LINK_PING_MS).min(last_heard + LINK_LOST_MS)
                }
                _ => 0,
            }),
        }
    }

    fn send(&mut self, frame: &str) {
        // Without a connection the frame is dropped: the client sends it again if needed.
        if let LinkState::Open(open) = &mut self.phase
            && open.socket.get_ref().out.len() <= LINK_QUEUE_BYTES
        {
            // Writing fails only if the connection is closing, which the next `advance` reports.
            let _ = open.socket.write(Message::text(frame));
        }
    }

    fn advance(&mut self, now_ms: u64) -> Vec<LinkEvent> {
        let mut arrivals = Vec::new();
        loop {
            match self.step(now_ms, &mut arrivals) {
                Ok(Some(next)) => self.phase = next,
                Ok(None) => return arrivals,
                // The server would refuse the same credential again.
                Err(failure @ (Failure::Revoked(_) | Failure::Denied(Denied::Status(401, _)))) => {
                    self.phase = LinkState::Waiting { until: u64::MAX };
                    arrivals.push(LinkEvent::Closed(failure.sentence(&self.address.name)));
                    return arrivals;
                }
                Err(failure) => {
                    let retry_at = now_ms + self.pause();
                    self.phase = LinkState::Waiting { until: retry_at };
                    if let Failure::Denied(_) = failure {
                        let message = failure.sentence(&self.address.name);
                        let problem = serde_json::json!({"problem": {"reason": "REFUSED", "message": message}});
                        arrivals.push(LinkEvent::Frame(problem.to_string()));
                    }
                    arrivals.push(LinkEvent::Lost { retry_at });
                    return arrivals;
                }
            }
        }
    }
}

impl Handshake {
    fn advance(&mut self, now: u64) -> Result<(), Failure> {
        let until = *self.until.get_or_insert(now + LINK_CONNECT_MS);
        self.queue.write_out()?;
        let mut bytes = [0; 4096];
        while self.answer.len() < ANSWER_BYTES {
            match self.queue.stream.read(&mut bytes) {
                Ok(0) => return Err(ended()),
                Ok(count) => self.answer.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            if !matches!(self.ask.response(&self.answer), Ok(None)) {
                return Ok(());
            }
        }
        match now < until {
            true => Ok(()),
            false => Err(Failure::Unreachable("it does not answer".into())),
        }
    }

    fn upgraded(self, head: usize) -> OpenSocket {
        let config = WebSocketConfig::default()
            .read_buffer_size(ANSWER_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(LINK_MESSAGE_BYTES))
            .max_frame_size(Some(LINK_MESSAGE_BYTES));
        let rest = self.answer[head..].to_vec();
        let socket = WebSocket::from_partially_read(self.queue, rest, Role::Client, Some(config));
        OpenSocket { socket, last_heard: None, last_ping: 0, may_have_more: false }
    }
}

impl OpenSocket {
    /// Reads messages and sends pings. Returns whether a message came.
    fn advance(&mut self, now: u64, arrivals: &mut Vec<LinkEvent>) -> Result<bool, Failure> {
        let mut last_heard = *self.last_heard.get_or_insert_with(|| {
            arrivals.push(LinkEvent::Connected);
            now
        });
        let mut bytes = 0;
        let quiet = loop {
            if bytes >= LINK_READ_BYTES {
                break false;
            }
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    bytes += text.len();
                    arrivals.push(LinkEvent::Frame(text.as_str().to_owned()));
                }
                Ok(Message::Close(Some(frame))) if REVOKED.contains(&u16::from(frame.code)) => {
                    return Err(Failure::Revoked(frame.reason.as_str().escape_debug().to_string()));
                }
                Ok(Message::Close(_)) => return Err(ended()),
                Ok(_) => bytes += 1,
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) => return Err(error.into()),
            }
            last_heard = now;
        };
        self.may_have_more = !quiet;
        self.last_heard = Some(last_heard);
        if now >= last_heard + LINK_LOST_MS {
            return Err(Failure::Unreachable("the server is silent".into()));
        }
        if now >= last_heard.max(self.last_ping) + LINK_PING_MS {
            self.socket.write(Message::Ping(Bytes::new()))?;
            self.last_ping = now;
        }
        // Writes the pongs, which are answers to the server's pings.
        self.socket.flush()?;
        self.socket.get_mut().write_out()?;
        Ok(arrivals.iter().any(|arrival| matches!(arrival, LinkEvent::Frame(_))))
    }
}

fn ended() -> Failure {
    Failure::Unreachable("it closed the connection".into())
}

/// A connection with the queue of bytes that it has not accepted yet.
struct QueuedStream {
    stream: Stream,
    out: Buf,
}

impl QueuedStream {
    fn wants_write(&self) -> bool {
        !self.out.is_empty() || self.stream.wants_write()
    }

    fn write_out(&mut self) -> Result<(), Failure> {
        if self.out.len() > LINK_QUEUE_BYTES {
            return Err(Failure::Unreachable("the server does not read".into()));
        }
        while !self.out.is_empty() {
            match self.stream.write(self.out.as_slice()) {
                Ok(count) => self.out.consume(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Read for QueuedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for QueuedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
