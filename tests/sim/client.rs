//! A client with one connection at a time: it sends requests in pieces, reads at its own pace or not at all, leaves when it
//! likes, and has every answer judged. A stream that was cut off is taken up again where it stopped.

use crate::ask::{Ask, What};
use crate::http::{Message, Side};
use crate::judge::{Court, Flow};
use crate::sse::Sse;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::base::slots::Key;
use std::collections::VecDeque;

/// How a stream is told that it has to wait for the disk.
const NOTICE: &[u8] = b": The task's journal cannot be written";

#[derive(Default)]
pub struct Client {
    pub link: Option<Link>,
    /// Streams to take up again: the task and the last event seen of it.
    pub cut: Vec<(TaskId, Seq)>,
}

pub struct Link {
    pub key: Key,
    outbox: Vec<u8>,
    /// Bytes of the outbox that the server has read.
    sent: u64,
    /// Requests without a whole answer, in order.
    pub asks: VecDeque<Ask>,
    reader: Message,
    body: Vec<u8>,
    stream: Option<(Flow, Sse)>,
    pub pace: Pace,
    /// When it last took something, or nothing waited for it.
    pub took_at: u64,
    pub side: Sending,
    /// The server said that it will close.
    pub last: bool,
    /// A request was refused and the connection with it, perhaps before the end of the request was sent. The client may send
    /// that and more all the same.
    pub refused: bool,
    /// Sabotage: the next frame is lost on the way.
    pub lose_frame: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Greedy,
    /// So many bytes in a turn.
    Slow(usize),
    /// Nothing until this turn of the run.
    Stopped(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Open,
    /// Nothing follows what is in the outbox.
    Ending,
    Ended,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server closed it.
    Closed,
    /// The client left, or the server is gone.
    Lost,
}

impl Link {
    pub fn new(key: Key, now_ms: u64) -> Link {
        Link {
            key,
            outbox: Vec::new(),
            sent: 0,
            asks: VecDeque::new(),
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

    pub fn ask(&mut self, mut ask: Ask, bytes: &[u8]) {
        ask.start = self.outbox.len() as u64;
        self.outbox.extend_from_slice(bytes);
        ask.end = self.outbox.len() as u64;
        self.asks.push_back(ask);
    }

    /// Whether another request makes sense on this connection.
    pub fn is_open(&self) -> bool {
        self.side == Sending::Open && !self.last && !self.asks.back().is_some_and(|ask| ask.closes)
    }

    pub fn unsent(&self) -> &[u8] {
        &self.outbox[self.sent as usize..]
    }

    pub fn gave(&mut self, n: usize) {
        self.sent += n as u64;
    }

    /// Requests that the server has in full and has not answered.
    pub fn owed(&self) -> usize {
        let whole = self.asks.iter().filter(|ask| ask.end <= self.sent);
        whole.filter(|ask| ask.what != What::Garbage).count()
    }

    /// What the server sent.
    pub fn take(&mut self, bytes: &[u8], court: &mut Court<'_>) {
        self.reader.feed(bytes, &mut self.body).expect("HTTP");
        loop {
            let Some(head) = self.reader.head().cloned() else {
                return;
            };
            if head.status() == 100 {
                self.reader.restart(Side::Response, &mut self.body).expect("HTTP");
                continue;
            }
            let ask = self.asks.front().expect("answers have requests");
            self.last |= head.closes();
            let half = ask.end > self.sent || self.refused;
            if half || ask.what == What::Garbage {
                // Half a request is answered only to refuse it.
                assert!(matches!(head.status(), 400 | 408 | 413 | 431), "{head:?} for {ask:?}");
                assert!(head.closes(), "a refused connection is closed");
                if head.status() == 408 {
                    court.tally.count("took too long");
                }
            } else if head.is_event_stream() {
                let (flow, sse) = self.stream.get_or_insert_with(|| {
                    assert!(ask.streams(), "{ask:?} did not ask for a stream");
                    (Flow::new(ask), Sse::default())
                });
                if self.body.windows(NOTICE.len()).any(|window| window == NOTICE) {
                    court.told_of_the_disk();
                }
                sse.input().append(&mut self.body);
                let lost = &mut self.lose_frame;
                sse.drain(|frame| {
                    if flow.cursor.is_some() && std::mem::take(lost) {
                        return;
                    }
                    flow.frame(court, ask, frame.id, frame.name, &frame.data);
                })
                .expect("events");
            }
            if !self.reader.is_done() {
                return;
            }
            let ask = self.asks.pop_front().expect("looked at above");
            let body = std::mem::take(&mut self.body);
            match self.stream.take() {
                Some((flow, _)) => flow.complete(court, &ask),
                None if !half => court.judge(&ask, head.status(), &body),
                None => {}
            }
            if !half {
                // Who is refused a stream has no other use for the connection.
                let forsaken = ask.hopes && head.status() >= 400;
                let closes = ask.closes || forsaken;
                assert_eq!(closes, head.closes(), "{ask:?} and its connection");
                self.refused |= forsaken;
            }
            self.reader.restart(Side::Response, &mut self.body).expect("HTTP");
        }
    }

    /// The connection is gone. Gives the stream to take up again, if one was cut off.
    pub fn end(mut self, ending: Ending, now_ms: u64, stall_ms: u64, court: &mut Court<'_>) -> Option<(TaskId, Seq)> {
        let stalled = now_ms.saturating_sub(self.took_at) >= stall_ms;
        if ending == Ending::Closed && !stalled {
            // HTTP/1.0: the end of the connection is the end of the answer.
            if self.reader.close().is_ok()
                && let Some((flow, _)) = self.stream.take()
            {
                let ask = self.asks.pop_front().expect("a stream answers something");
                flow.complete(court, &ask);
            }
            assert!(self.owed() == 0 || self.refused, "closed without an answer to {:?}", self.asks.front());
            let begun = |ask: &&Ask| ask.start < self.sent && self.sent < ask.end;
            let cut = self.asks.front().filter(begun);
            assert!(cut.is_none() || self.refused, "closed without a word in the middle of {cut:?}");
        }
        if ending == Ending::Closed && stalled && self.owed() > 0 {
            court.tally.count("cut off while stalled");
        }
        let (flow, _) = self.stream?;
        if flow.ended {
            return None;
        }
        Some((flow.task?, flow.cursor?))
    }
}
