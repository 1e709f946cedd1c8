//! Many clients on one thread: a poll over any number of connections, each with one pending request or a WebSocket.
//!
//! Events of streamed text are only searched for their stamps and not parsed, because the generator must use less CPU than the server. A
//! chunk counts only if it is the next one of its stream, so lost, repeated and reordered chunks are noticed.

use crate::frame;
use crate::frames::Frames;
use crate::support::http::{Message, Side};
use crate::support::sse::Sse;
use crate::support::stamp;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// A measurement fails after this time without any received byte.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latencies {
    Keep,
    Ignore,
}

pub struct Swarm {
    poll: Poll,
    events: Events,
    lines: Vec<Connection>,
    lags: Latencies,
    buffer: Vec<u8>,
    touched: Vec<usize>,
}

/// One connection and the state of its response.
pub struct Connection {
    stream: TcpStream,
    message: Message,
    sse: Sse,
    /// The parser of its messages, after an upgrade to WebSocket.
    frames: Option<Frames>,
    /// Events of the current response.
    pub events: u64,
    /// Chunks of the current response, in order and without a gap.
    pub chunks: u64,
    pub is_final: bool,
    pub lags_us: Vec<f64>,
    pub broken: Option<String>,
}

impl Connection {
    /// Whether the current response has ended, or failed; on a WebSocket, whether the turn has.
    pub fn is_over(&self) -> bool {
        let is_done = match self.frames {
            Some(_) => self.is_final,
            None => self.message.is_done(),
        };
        is_done || self.broken.is_some()
    }

    pub fn is_socket(&self) -> bool {
        self.frames.is_some()
    }

    /// A streamed turn with every chunk and a final event.
    pub fn is_complete(&self, chunks: u64) -> bool {
        self.broken.is_none() && self.chunks == chunks && self.is_final
    }

    pub fn status(&self) -> u16 {
        self.message.head().map_or(0, |head| head.status())
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let mut unused = vec![];
        self.message.restart(Side::Response, &mut unused).map_err(io::Error::other)?;
        (self.events, self.chunks, self.is_final) = (0, 0, false);
        self.write(request)
    }

    fn write(&mut self, request: &[u8]) -> io::Result<()> {
        // Requests are small and the socket is idle, so the kernel takes all of it.
        match self.stream.write(request)? {
            all if all == request.len() => Ok(()),
            some => Err(io::Error::other(format!("{some} of {} bytes sent", request.len()))),
        }
    }

    /// Reads until no more bytes are available.
    fn receive(&mut self, buffer: &mut [u8], lags: Latencies) -> Result<(), String> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return self.message.close(),
                Ok(count) => self.take(&buffer[..count], lags)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn take(&mut self, bytes: &[u8], lags: Latencies) -> Result<(), String> {
        match &mut self.frames {
            Some(frames) => frames.input().extend_from_slice(bytes),
            None => self.message.feed(bytes, self.sse.input())?,
        }
        if self.frames.is_none() && self.message.is_done() && self.status() == 101 {
            let frames = self.frames.insert(Frames::default());
            *frames.input() = self.message.take_rest();
        }
        let now = stamp::now_ns();
        let (events, chunks, is_final) = (&mut self.events, &mut self.chunks, &mut self.is_final);
        let lags_us = &mut self.lags_us;
        let mut event = |data: &str| {
            *events += 1;
            let mut stamped = false;
            for stamp in stamp::find(data) {
                stamped = true;
                if stamp.index == *chunks {
                    *chunks += 1;
                    if lags == Latencies::Keep {
                        lags_us.push(now.saturating_sub(stamp.written_ns) as f64 / 1e3);
                    }
                }
            }
            *is_final |= !stamped && data.contains("\"final\":true");
        };
        match &mut self.frames {
            Some(frames) => frames.drain(event),
            None if is_event_stream(&self.message) => self.sse.drain(|frame| event(&frame.data)),
            None => {
                self.sse.input().clear();
                Ok(())
            }
        }
    }
}

fn is_event_stream(message: &Message) -> bool {
    message.head().is_some_and(|head| head.is_event_stream())
}

impl Swarm {
    pub fn new(lags: Latencies) -> io::Result<Swarm> {
        Ok(Swarm {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            lines: vec![],
            lags,
            buffer: vec![0; 256 * 1024],
            touched: vec![],
        })
    }

    /// Opens `count` further connections.
    pub fn connect(&mut self, address: SocketAddr, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let stream = TcpStream::connect_timeout(&address, SILENCE)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let token = Token(self.lines.len());
            self.poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), token, Interest::READABLE)?;
            self.lines.push(Connection {
                stream,
                message: Message::new(Side::Response),
                sse: Sse::default(),
                frames: None,
                events: 0,
                chunks: 0,
                is_final: false,
                lags_us: vec![],
                broken: None,
            });
        }
        Ok(())
    }

    pub fn lines(&self) -> &[Connection] {
        &self.lines
    }

    /// Sends the next request on one connection.
    pub fn send(&mut self, line: usize, request: &[u8]) {
        let line = &mut self.lines[line];
        if let Err(error) = line.send(request) {
            line.broken = Some(error.to_string());
        }
    }

    /// Sends a text message on a WebSocket.
    pub fn send_text(&mut self, line: usize, text: &str) {
        let line = &mut self.lines[line];
        if let Err(error) = line.write(&frame::masked(1, text.as_bytes())) {
            line.broken = Some(error.to_string());
        }
    }

    /// Waits for bytes, processes them, and returns the connections on which they arrived.
    pub fn pump(&mut self, wait: Duration) -> io::Result<&[usize]> {
        self.touched.clear();
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(&self.touched),
            other => other?,
        }
        for event in &self.events {
            let number = event.token().0;
            let line = &mut self.lines[number];
            if let Err(error) = line.receive(&mut self.buffer, self.lags) {
                line.broken.get_or_insert(error);
            }
            self.touched.push(number);
        }
        Ok(&self.touched)
    }

    /// Continues until `enough` holds for every connection. Fails if nothing arrives for [`SILENCE`].
    pub fn run(&mut self, enough: impl Fn(&Connection) -> bool) -> io::Result<()> {
        let mut waiting: Vec<bool> = self.lines.iter().map(|line| !enough(line)).collect();
        let mut unfinished = waiting.iter().filter(|waits| **waits).count();
        let mut last = Instant::now();
        while unfinished > 0 {
            let touched = self.pump(Duration::from_millis(500))?.to_vec();
            if !touched.is_empty() {
                last = Instant::now();
            } else if last.elapsed() > SILENCE {
                return Err(io::Error::other(format!("{unfinished} clients got nothing for {SILENCE:?}")));
            }
            for number in touched {
                if waiting[number] && enough(&self.lines[number]) {
                    waiting[number] = false;
                    unfinished -= 1;
                }
            }
        }
        Ok(())
    }

    /// An error of the connections, the most important kind first.
    pub fn complaint(&self, chunks: u64) -> Option<String> {
        let short = self.lines.iter().find(|line| !line.is_complete(chunks))?;
        Some(
            short
                .broken
                .clone()
                .unwrap_or_else(|| format!("HTTP {}, {} of {chunks} chunks", short.status(), short.chunks)),
        )
    }
}
