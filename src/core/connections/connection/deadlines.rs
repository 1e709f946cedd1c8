//! How long a connection may be silent or stalled, and what happens then. Deadlines are computed from the last activity when a
//! timer fires.

use super::{Activity, Conn};
use crate::base::clock::Now;
use crate::core::operation::exchange::CloseReason;
use crate::limits::Limits;
use crate::wire::http1::{Reject, Stage};
use crate::wire::sse;

/// What to do with a connection whose deadline has passed.
pub enum Overdue {
    Nothing,
    /// Write the output that was added.
    Write,
    /// Close a socket whose client accepts no output, with the position to continue from.
    CloseSocket,
    /// Close it.
    Drop,
    /// Reset it: its peer is gone or accepts no output.
    Cut,
}

impl Conn {
    /// When the timer of this connection has to fire, if nothing happens until then.
    pub fn deadline(&self, limits: &Limits) -> u64 {
        if let Activity::Socket(socket) = &self.activity
            && socket.codec.is_local()
        {
            return u64::MAX;
        }
        let wait = if !self.output.is_empty() {
            limits.stall_ms
        } else {
            match self.activity {
                Activity::Reading if self.begun => match self.reader.stage() {
                    Stage::Head => limits.head_ms,
                    Stage::Body => limits.body_ms,
                },
                Activity::Reading if self.served => limits.idle_ms,
                Activity::Reading => limits.head_ms,
                Activity::Streaming { .. } => limits.ping_ms,
                Activity::Socket(_) => limits.socket_ping_ms,
                // The answer may take as long as the model does.
                Activity::Answering(_) => limits.idle_ms,
                Activity::Closing => limits.stall_ms,
            }
        };
        self.since + wait
    }

    /// The deadline has passed.
    pub fn overdue(&mut self, limits: &Limits, now: Now) -> Overdue {
        let overdue = self.pass_deadline(limits, now);
        match overdue {
            Overdue::Nothing | Overdue::Write => {}
            Overdue::CloseSocket | Overdue::Cut => self.set_close_reason(CloseReason::Stalled),
            Overdue::Drop => self.set_close_reason(CloseReason::Idle),
        }
        overdue
    }

    fn pass_deadline(&mut self, limits: &Limits, now: Now) -> Overdue {
        let listens = !self.is_busy(limits);
        if let Activity::Socket(socket) = &mut self.activity {
            // Three pings without a pong: the peer is gone, unless the connection was not read from.
            if !listens {
                socket.last_received = now.mono_ms;
            } else if now.mono_ms - socket.last_received > 3 * limits.socket_ping_ms {
                return Overdue::Cut;
            }
            if !self.output.is_empty() {
                return Overdue::CloseSocket;
            }
            self.since = now.mono_ms;
            self.output.write(|out| socket.codec.ping(out));
            return Overdue::Write;
        }
        if !self.output.is_empty() {
            return Overdue::Cut;
        }
        match self.activity {
            Activity::Streaming { framing, .. } => {
                self.since = now.mono_ms;
                self.output.write(|out| {
                    framing.open(out, sse::PING.len());
                    out.extend_from_slice(sse::PING);
                    framing.close(out);
                });
                Overdue::Write
            }
            Activity::Answering(_) => {
                self.since = now.mono_ms;
                Overdue::Nothing
            }
            Activity::Reading if self.begun => {
                self.reject(Reject { status: 408, message: "The request took too long." }, now);
                Overdue::Write
            }
            Activity::Reading | Activity::Socket(_) | Activity::Closing => Overdue::Drop,
        }
    }
}
