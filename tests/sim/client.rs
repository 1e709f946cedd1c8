//! A client with one connection at a time: it sends requests in pieces, reads at its own pace or not at all, disconnects at any
//! time, and checks every response. It resumes a stream that was cut off after the last event that it has received.

use crate::checker::{Checker, StreamCheck};
use crate::http::{Message, Side};
use crate::requests::{RequestKind, SentRequest};
use crate::sse::Sse;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::base::slots::Key;
use std::collections::VecDeque;

/// The comment at the end of a stream that ends because the server restarts.
const RESTARTING: &[u8] = b": restarting\n";
/// The comment in a stream whose events wait for the disk.
const NOTICE: &[u8] = b": The task's journal cannot be written";

#[derive(Default)]
pub struct Client {
    pub link: Option<Link>,
    /// Streams to resume: the task and the last event received.
    pub cut: Vec<(TaskId, Seq)>,
}

pub struct Link {
    pub key: Key,
    outbox: Vec<u8>,
    /// Bytes of the outbox that the server has read.
    sent: u64,
    /// Requests without a whole answer, in order.
    pub requests: VecDeque<SentRequest>,
    reader: Message,
    body: Vec<u8>,
    stream: Option<(StreamCheck, Sse)>,
    pub pace: Pace,
    /// When it last read something, or had nothing to read.
    pub took_at: u64,
    pub side: Sending,
    /// The server has announced that it will close the connection.
    pub last: bool,
    /// A request was refused and the connection will be closed, perhaps before the whole request was sent. The client may still send the
    /// rest, and more.
    pub refused: bool,
    /// Injected bug: the next frame is lost.
    pub lose_frame: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Greedy,
    /// At most this many bytes per turn.
    Slow(usize),
    /// Nothing until this turn of the run.
    Stopped(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Open,
    /// The client sends the rest of the outbox and then closes its side.
    Ending,
    Ended,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server closed it.
    Closed,
    /// The client disconnected, or the server crashed.
    Lost,
}

impl Link {
    pub fn new(key: Key, now_ms: u64) -> Link {
        Link {
            key,
            outbox: Vec::new(),
            sent: 0,
            requests: VecDeque::new(),
            reader: Message::new(Side::Response),
            body: Vec::new(),
            stream: None,
            pace: Pace::Greedy,
            took_at: now_ms,
            side: Sending::Open,
            last: false,
            refused: false,
            lose_frame: false,
        }
    }

    pub fn send(&mut self, mut request: SentRequest, bytes: &[u8]) {
        request.start = self.outbox.len() as u64;
        self.outbox.extend_from_slice(bytes);
        request.end = self.outbox.len() as u64;
        self.requests.push_back(request);
    }

    /// Whether another request makes sense on this connection.
    pub fn is_open(&self) -> bool {
        self.side == Sending::Open && !self.last && !self.requests.back().is_some_and(|request| request.closes)
    }

    pub fn unsent(&self) -> &[u8] {
        &self.outbox[self.sent as usize..]
    }

    pub fn mark_sent(&mut self, n: usize) {
        self.sent += n as u64;
    }

    /// The number of requests that the server has received in full and has not answered.
    pub fn unanswered(&self) -> usize {
        let whole = self.requests.iter().filter(|request| request.end <= self.sent);
        whole.filter(|request| request.what != RequestKind::Garbage).count()
    }

    /// Reads bytes of the server.
    pub fn take(&mut self, bytes: &[u8], checker: &mut Checker<'_>) {
        self.reader.feed(bytes, &mut self.body).expect("HTTP");
        loop {
            let Some(head) = self.reader.head().cloned() else {
                return;
            };
            if head.status() == 100 {
                self.reader.restart(Side::Response, &mut self.body).expect("HTTP");
                continue;
            }
            let request = self.requests.front().expect("every response has a request");
            self.last |= head.closes();
            let half = request.end > self.sent || self.refused;
            if half || request.what == RequestKind::Garbage {
                // An incomplete request is answered only to refuse it.
                assert!(matches!(head.status(), 400 | 408 | 413 | 431), "{head:?} for {request:?}");
                assert!(head.closes(), "a refused connection is closed");
                if head.status() == 408 {
                    checker.tally.count("request timed out");
                }
            } else if head.is_event_stream() {
                let (check, sse) = self.stream.get_or_insert_with(|| {
                    assert!(request.streams(), "{request:?} did not ask for a stream");
                    (StreamCheck::new(request), Sse::default())
                });
                if self.body.windows(NOTICE.len()).any(|window| window == NOTICE) {
                    checker.disk_notice();
                }
                sse.input().append(&mut self.body);
                check.restarting |= sse.input().windows(RESTARTING.len()).any(|window| window == RESTARTING);
                let lost = &mut self.lose_frame;
                sse.drain(|frame| {
                    if check.cursor.is_some() && std::mem::take(lost) {
                        return;
                    }
                    check.frame(checker, request, frame.id, frame.name, &frame.data);
                })
                .expect("events");
            }
            if !self.reader.is_done() {
                return;
            }
            let request = self.requests.pop_front().expect("looked at above");
            let body = std::mem::take(&mut self.body);
            match self.stream.take() {
                Some((check, _)) => check.complete(checker, &request),
                None if !half => checker.check_response(&request, head.status(), &body),
                None => {}
            }
            if !half {
                // The server closes the connection of a client to which it refuses a stream.
                let stream_refused = request.accepts_stream && head.status() >= 400;
                let closes = request.closes || stream_refused;
                assert_eq!(closes, head.closes(), "{request:?} and its connection");
                self.refused |= stream_refused;
            }
            self.reader.restart(Side::Response, &mut self.body).expect("HTTP");
        }
    }

    /// The connection is closed. Returns the stream to resume, if one was cut off.
    pub fn end(
        mut self,
        ending: Ending,
        now_ms: u64,
        stall_ms: u64,
        checker: &mut Checker<'_>,
    ) -> Option<(TaskId, Seq)> {
        let stalled = now_ms.saturating_sub(self.took_at) >= stall_ms;
        if ending == Ending::Closed && !stalled {
            // HTTP/1.0: the end of the connection is the end of the answer.
            if self.reader.close().is_ok()
                && let Some((check, _)) = self.stream.take()
            {
                let request = self.requests.pop_front().expect("a stream answers something");
                check.complete(checker, &request);
            }
            assert!(self.unanswered() == 0 || self.refused, "closed without an answer to {:?}", self.requests.front());
            let begun = |request: &&SentRequest| request.start < self.sent && self.sent < request.end;
            let cut = self.requests.front().filter(begun);
            assert!(cut.is_none() || self.refused, "closed without a word in the middle of {cut:?}");
        }
        if ending == Ending::Closed && stalled && self.unanswered() > 0 {
            checker.tally.count("stalled reader cut off");
        }
        let (check, _) = self.stream?;
        if check.ended {
            return None;
        }
        Some((check.task?, check.cursor?))
    }
}
