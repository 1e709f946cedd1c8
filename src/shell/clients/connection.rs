//! A blocking connection to a server, for clients that print lines: it waits for a frame, a signal or a time. After a reconnect, the
//! records of a watched task continue after the last one that came.

use super::ClientError;
use crate::base::id::{Seq, TaskId};
use crate::shell::event_loop::signals::Signals;
use crate::shell::event_loop::sys::Clock;
use crate::shell::terminal::connection::link::{Link, LinkEvent};
use crate::shell::terminal::connection::websocket::WebSocketLink;
use crate::task::log::record::Record;
use crate::ui::client::{About, Client, Incoming, ServerCall};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde_json::Value;
use std::collections::VecDeque;

pub struct Connection {
    link: WebSocketLink,
    pub server: String,
    signals: Signals,
    client: Client,
    clock: Clock,
    arrivals: VecDeque<LinkEvent>,
    watched: Option<Watched>,
    reconnects: bool,
    /// Whether a record of another task means that this task is now watched.
    follows_new_sessions: bool,
}

/// The watched task.
struct Watched {
    task: TaskId,
    /// The last record that was received.
    last: Seq,
    /// The newest record when the server began to send records; None before its answer to `watch`.
    newest: Option<Seq>,
}

/// An event of a connection.
pub enum ConnectionEvent {
    /// A record with the frame that brought it. None: this version does not know the event.
    Record(TaskId, Option<Record>, String),
    Reply(ServerCall, Result<Value, (String, String)>),
    TimeOver,
}

impl Connection {
    pub fn new(link: WebSocketLink, server: String) -> Result<Connection, ClientError> {
        let (clock, client) = (Clock::start(), Client::default());
        let mut connection = Connection {
            signals: Signals::new()?,
            arrivals: VecDeque::new(),
            watched: None,
            reconnects: false,
            follows_new_sessions: false,
            link,
            server,
            client,
            clock,
        };
        // The link is open already, and reports it at the first call.
        let arrivals = connection.link.advance(connection.now());
        for arrival in arrivals {
            match arrival {
                LinkEvent::Connected => drop(connection.client.connect()),
                other => connection.arrivals.push_back(other),
            }
        }
        Ok(connection)
    }

    /// Makes a lost connection again from now on, instead of failing.
    pub fn reconnect_when_lost(&mut self) {
        self.reconnects = true;
    }

    /// Watches a new live session instead of the former one from now on.
    pub fn follow_new_sessions(&mut self) {
        self.follows_new_sessions = true;
    }

    /// Whether all records have come that the task had when watching it began.
    pub fn has_caught_up(&self) -> bool {
        let watched = self.watched.as_ref();
        watched.is_some_and(|watched| watched.newest.is_some_and(|newest| watched.last >= newest))
    }

    /// The time of the monotonic clock in milliseconds, for `next`.
    pub fn now(&self) -> u64 {
        self.clock.now().mono_ms
    }

    /// Sends a call. `next` returns its answer.
    pub fn send(&mut self, call: ServerCall) {
        if let ServerCall::Watch { task, after } = &call {
            self.watched = Some(Watched { task: task.clone(), last: after.unwrap_or_default(), newest: None });
        }
        if let Some(frame) = self.client.send(call) {
            self.link.send(&frame);
        }
    }

    /// Sends a call and waits for its answer; records that come before it are dropped.
    pub fn call(&mut self, call: ServerCall) -> Result<Value, ClientError> {
        let wanted = call.clone();
        self.send(call);
        loop {
            match self.next(None)? {
                ConnectionEvent::Reply(answered, outcome) if answered == wanted => return outcome.map_err(error),
                ConnectionEvent::Reply(..) | ConnectionEvent::Record(..) | ConnectionEvent::TimeOver => {}
            }
        }
    }

    /// Watches a task and passes on its records up to the newest one, each with its frame. `next` returns later ones.
    pub fn replay(
        &mut self,
        task: &TaskId,
        mut take: impl FnMut(Option<&Record>, &str) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        self.send(ServerCall::Watch { task: task.clone(), after: None });
        while !self.has_caught_up() {
            match self.next(None)? {
                ConnectionEvent::Reply(ServerCall::Watch { .. }, Err(failure)) => return Err(error(failure)),
                ConnectionEvent::Record(of, record, frame) if of == *task => take(record.as_ref(), &frame)?,
                ConnectionEvent::Reply(..) | ConnectionEvent::Record(..) | ConnectionEvent::TimeOver => {}
            }
        }
        Ok(())
    }

    pub fn about(&mut self) -> Result<About, ClientError> {
        Ok(serde_json::from_value(self.call(ServerCall::About)?).unwrap_or_default())
    }

    /// Waits for the next event, at most until a time. A signal is returned as an error.
    pub fn next(&mut self, until: Option<u64>) -> Result<ConnectionEvent, ClientError> {
        loop {
            if let Some(arrival) = self.arrivals.pop_front() {
                if let Some(arrived) = self.arrived(arrival)? {
                    return Ok(arrived);
                }
                continue;
            }
            let now = self.now();
            if until.is_some_and(|until| now >= until) {
                return Ok(ConnectionEvent::TimeOver);
            }
            self.wait(now, until);
            if let Some(signal) = self.signals.take().into_iter().next() {
                return Err(ClientError::Signal(signal));
            }
            let now = self.now();
            self.arrivals.extend(self.link.advance(now));
        }
    }

    fn wait(&self, now: u64, until: Option<u64>) {
        let due = [self.link.due(), until].into_iter().flatten().min();
        let time = due.map(|due| due.saturating_sub(now) as i64);
        let time = time.map(|ms| Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 });
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.link.wants_write());
        let mut fds = vec![PollFd::new(&self.signals.socket, PollFlags::IN)];
        fds.extend(self.link.fd().map(|fd| PollFd::from_borrowed_fd(fd, events)));
        // A wait that a signal interrupts is over: the signal is there.
        let _ = poll(&mut fds, time.as_ref());
    }

    fn arrived(&mut self, arrival: LinkEvent) -> Result<Option<ConnectionEvent>, ClientError> {
        match arrival {
            LinkEvent::Connected => {
                for frame in self.client.connect() {
                    self.link.send(&frame);
                }
                if let Some(Watched { task, last, .. }) = self.watched.take() {
                    self.send(ServerCall::Watch { task, after: Some(last) });
                }
                Ok(None)
            }
            LinkEvent::Lost { .. } if !self.reconnects => {
                Err(ClientError::NotConnected(format!("the connection to {} is lost", self.server)))
            }
            LinkEvent::Lost { .. } => {
                self.client.lose();
                Ok(None)
            }
            // Attempts to connect end only because of an invalid credential.
            LinkEvent::Closed(why) => Err(ClientError::Refused(why)),
            LinkEvent::Frame(frame) => Ok(self.frame(frame)),
        }
    }

    fn frame(&mut self, frame: String) -> Option<ConnectionEvent> {
        match self.client.take(&frame) {
            Incoming::Record(task, record) => {
                self.is_new(&task, record.seq).then_some(ConnectionEvent::Record(task, Some(record), frame))
            }
            Incoming::Unknown(task, seq) => {
                self.is_new(&task, seq).then_some(ConnectionEvent::Record(task, None, frame))
            }
            Incoming::Reply(call, outcome) => {
                if let (ServerCall::Watch { task, .. }, Ok(value), Some(watched)) = (&call, &outcome, &mut self.watched)
                    && watched.task == *task
                {
                    watched.newest = Some(Seq(value["seq"].as_u64().unwrap_or(0)));
                }
                Some(ConnectionEvent::Reply(call, outcome))
            }
            Incoming::Clients(_) | Incoming::Problem(_) | Incoming::Nothing => None,
        }
    }

    /// Whether a record is new: after a reconnect some are sent again.
    fn is_new(&mut self, task: &TaskId, seq: Seq) -> bool {
        match &mut self.watched {
            Some(Watched { task: watched, last, .. }) if watched == task => {
                let is_new = seq > *last;
                *last = seq.max(*last);
                is_new
            }
            Some(watched) if self.follows_new_sessions => {
                *watched = Watched { task: task.clone(), last: seq, newest: Some(seq) };
                true
            }
            Some(_) | None => true,
        }
    }
}

/// The error for a failed call, which decides about the exit status.
pub fn error((reason, message): (String, String)) -> ClientError {
    match reason.as_str() {
        "TASK_NOT_FOUND" => ClientError::NoSuchTask(message),
        "PERMISSION_DENIED" | "UNAUTHENTICATED" => ClientError::Refused(message),
        "TOOL_CALL_NOT_PENDING" => ClientError::AnsweredAlready(message),
        _ => ClientError::Failure(message),
    }
}
