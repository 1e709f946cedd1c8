//! A blocking connection to the server in this process: it waits for a frame or a signal.

use super::failure::{Failure, FailureKind};
use crate::shell::event_loop::signals::{Signal, Signals};
use crate::ui::client::{Client, Incoming, ServerCall};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

pub struct ServerConnection {
    frames: BufReader<UnixStream>,
    signals: Signals,
    client: Client,
}

pub enum ConnectionEvent {
    Incoming(Incoming),
    Signal(Signal),
    /// The server has ended.
    Closed,
}

impl ServerConnection {
    pub fn new(stream: UnixStream, signals: Signals) -> ServerConnection {
        let mut client = Client::default();
        client.connect();
        ServerConnection { frames: BufReader::new(stream), signals, client }
    }

    /// Sends a call. `next` returns its answer.
    pub fn send(&mut self, call: ServerCall) {
        if let Some(mut frame) = self.client.send(call) {
            frame.push('\n');
            // An error is ignored here; the next read reports that the server has ended.
            let _ = self.frames.get_ref().write_all(frame.as_bytes());
        }
    }

    /// Sends a call and waits for its answer. Records that come meanwhile are dropped, so it is used before a task is watched.
    pub fn call(&mut self, call: ServerCall) -> Result<Value, Failure> {
        self.send(call);
        loop {
            match self.next() {
                ConnectionEvent::Incoming(Incoming::Reply(_, Ok(value))) => return Ok(value),
                ConnectionEvent::Incoming(Incoming::Reply(_, Err((reason, message)))) => {
                    return Err(Failure::of_call(&reason, message, FailureKind::Input));
                }
                ConnectionEvent::Incoming(_) => {}
                ConnectionEvent::Signal(signal) => return Err(stopped(signal)),
                ConnectionEvent::Closed => return Err(ended()),
            }
        }
    }

    /// Waits for the next frame or signal.
    pub fn next(&mut self) -> ConnectionEvent {
        if self.frames.buffer().is_empty() {
            let stream = self.frames.get_ref();
            let mut fds = [PollFd::new(&self.signals.socket, PollFlags::IN), PollFd::new(stream, PollFlags::IN)];
            // If a signal interrupts the wait, `signals` has it.
            let _ = poll(&mut fds, None);
            let has_frame = fds[1].revents().intersects(PollFlags::IN | PollFlags::HUP);
            if let Some(signal) = self.signals.take().into_iter().next() {
                return ConnectionEvent::Signal(signal);
            }
            if !has_frame {
                return ConnectionEvent::Incoming(Incoming::Nothing);
            }
        }
        let mut frame = String::new();
        match self.frames.read_line(&mut frame) {
            Ok(1..) => ConnectionEvent::Incoming(self.client.take(&frame)),
            Ok(0) | Err(_) => ConnectionEvent::Closed,
        }
    }
}

pub fn stopped(signal: Signal) -> Failure {
    FailureKind::Cancelled.failure(format!("The run was stopped by {}.", signal.word()))
}

pub fn ended() -> Failure {
    FailureKind::Api.failure("The server of this run has ended unexpectedly; run it again with --debug.")
}
