//! A copy of the audit log in the bucket, for people who cannot read the state directories of the instances. It is a few seconds behind the
//! file, and nothing waits for it: the logs of the tasks also have all claims, answers and started calls.

use crate::bucket::names;
use crate::limits::store::{AUDIT_COPY_BYTES, AUDIT_COPY_LINES, AUDIT_COPY_MS, AUDIT_COPY_START_MS};
use std::collections::VecDeque;
use std::sync::Arc;

/// Lines of the audit log that are not in the bucket yet.
pub struct AuditCopy {
    instance: String,
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The number of the first of these lines in the chain.
    first: u64,
    /// When the next object is due, in milliseconds.
    due_ms: u64,
    /// Before this time, no further worker is asked to write an object.
    asked_until_ms: u64,
    /// The object that is being sent, or was sent without a known result. It is sent again unchanged.
    sending: Option<Part>,
    is_under_way: bool,
}

/// An object with lines of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub bytes: Arc<[u8]>,
}

impl AuditCopy {
    /// A copy of the lines that this instance adds to a chain whose last line has the number `head`.
    pub fn new(instance: &str, head: u64) -> AuditCopy {
        AuditCopy {
            instance: instance.to_owned(),
            lines: VecDeque::new(),
            bytes: 0,
            first: head + 1,
            due_ms: 0,
            asked_until_ms: 0,
            sending: None,
            is_under_way: false,
        }
    }

    /// Adds whole lines. If too many bytes wait, drops the oldest lines. They are still in the file, and the numbers show the gap.
    pub fn add(&mut self, lines: &[u8], now_ms: u64) {
        if self.lines.is_empty() && self.sending.is_none() {
            self.due_ms = now_ms + AUDIT_COPY_MS;
        }
        self.bytes += lines.len();
        self.lines.extend(lines.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        while self.bytes > AUDIT_COPY_BYTES
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// Whether a worker has to write an object now. After this has returned true, returns false for a while.
    pub fn is_due(&mut self, now_ms: u64) -> bool {
        let is_old = now_ms >= self.due_ms;
        let is_due = match self.sending {
            Some(_) => is_old,
            None => !self.lines.is_empty() && (is_old || self.lines.len() >= AUDIT_COPY_LINES),
        };
        let asks = is_due && !self.is_under_way && now_ms >= self.asked_until_ms;
        if asks {
            self.asked_until_ms = now_ms + AUDIT_COPY_START_MS;
        }
        asks
    }

    /// The object that is to be written next, unless one is being written.
    pub fn take(&mut self) -> Option<Part> {
        if self.is_under_way {
            return None;
        }
        if self.sending.is_none() && !self.lines.is_empty() {
            let name = names::audit(&self.instance, self.first);
            self.first += self.lines.len() as u64;
            self.bytes = 0;
            let bytes = self.lines.drain(..).flatten().collect::<Vec<u8>>().into();
            self.sending = Some(Part { name, bytes });
        }
        self.is_under_way = self.sending.is_some();
        self.sending.clone()
    }

    /// Called after the object was sent. `is_written` is false if the result is unknown.
    pub fn sent(&mut self, is_written: bool, now_ms: u64) {
        self.is_under_way = false;
        if is_written {
            self.sending = None;
        }
        self.due_ms = now_ms + AUDIT_COPY_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(part: Option<Part>) -> Option<(String, String)> {
        part.map(|part| (part.name, String::from_utf8_lossy(&part.bytes).into_owned()))
    }

    #[test]
    fn lines_are_sent_when_they_are_old_or_many_and_once() {
        let mut copy = AuditCopy::new("i", 40);
        copy.add(b"a\nb\n", 0);
        assert!(!copy.is_due(AUDIT_COPY_MS - 1));
        assert!(copy.is_due(AUDIT_COPY_MS));
        assert!(!copy.is_due(AUDIT_COPY_MS), "a worker has been asked");
        assert!(copy.is_due(AUDIT_COPY_MS + AUDIT_COPY_START_MS), "no worker had time");
        let sent = text(copy.take());
        assert_eq!(sent, Some(("audit/i/000000000041.jsonl".into(), "a\nb\n".into())));
        assert!(!copy.is_due(3 * AUDIT_COPY_MS) && copy.take().is_none(), "it is under way");
        copy.sent(true, 3 * AUDIT_COPY_MS);
        assert!(!copy.is_due(9 * AUDIT_COPY_MS) && copy.take().is_none(), "nothing is left");
        copy.add(&b"c\n".repeat(AUDIT_COPY_LINES), 9 * AUDIT_COPY_MS);
        assert!(copy.is_due(9 * AUDIT_COPY_MS), "they are many");
        assert_eq!(copy.take().map(|part| part.name), Some("audit/i/000000000043.jsonl".into()));
    }

    #[test]
    fn what_may_have_arrived_is_sent_again_as_it_was() {
        let mut copy = AuditCopy::new("i", 0);
        copy.add(b"a\n", 0);
        let first = copy.take();
        copy.sent(false, AUDIT_COPY_MS);
        copy.add(b"b\n", AUDIT_COPY_MS);
        assert!(!copy.is_due(AUDIT_COPY_MS), "not at once");
        assert!(copy.is_due(2 * AUDIT_COPY_MS));
        assert_eq!(copy.take(), first);
        copy.sent(true, 2 * AUDIT_COPY_MS);
        assert_eq!(text(copy.take()), Some(("audit/i/000000000002.jsonl".into(), "b\n".into())));
    }

    #[test]
    fn too_many_lines_leave_a_gap_in_the_numbers() {
        let mut copy = AuditCopy::new("i", 0);
        let line = [vec![b'x'; AUDIT_COPY_BYTES / 2], b"\n".to_vec()].concat();
        for _ in 0..3 {
            copy.add(&line, 0);
        }
        let part = copy.take().expect("the newest");
        assert_eq!((part.name.as_str(), part.bytes.len()), ("audit/i/000000000003.jsonl", line.len()));
    }
}
