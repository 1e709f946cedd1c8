//! How much memory a connection takes, and the refusal of a request for which there is none.

use super::{Activity, Conn};
use crate::base::clock::Now;
use crate::limits::Limits;
use crate::wire::http1::Reject;

impl Conn {
    /// How much memory it takes: output, encoded answers, and input.
    pub fn memory(&self, limits: &Limits) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, |request| limits.reserved(request.body.len()));
        self.output.len() + self.encoded_bytes + self.worker_bytes + self.held(limits) + waiting
    }

    /// The memory of a request or message that is not complete yet. With a memory budget, that of the whole body is reserved in advance.
    pub fn held(&self, limits: &Limits) -> usize {
        let bytes = match &self.activity {
            Activity::Reading if limits.memory.is_some() => self.reader.announced_bytes() + self.rx.len(),
            Activity::Reading => self.reader.body_bytes() + self.rx.len(),
            Activity::Socket(socket) => socket.codec.buffered_bytes() + self.rx.len(),
            Activity::Answering(_) | Activity::Streaming { .. } | Activity::Closing => 0,
        };
        limits.reserved(bytes)
    }

    /// Refuses a request that is not complete yet, and drops it.
    pub fn refuse_incomplete(&mut self, now: Now) {
        if let Activity::Reading = self.activity {
            let reject = Reject { status: 503, message: "Too much is under way; send it again in a moment." };
            self.reject(reject, now);
        }
    }
}
