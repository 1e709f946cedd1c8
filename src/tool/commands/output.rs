//! The output of a command as text: without terminal sequences, in pieces that never split a character, and within the limits.
//!
//! The newest bytes are kept unchanged. LiveText text is made as bytes arrive, the final text from the bytes that were kept.

use crate::limits::Limits;
use std::collections::VecDeque;

/// A NUL within this many bytes from the beginning means that the output is binary.
const PROBED_BYTES: usize = 4096;

pub struct Output {
    newest: VecDeque<u8>,
    /// The most bytes that `newest` may have.
    capacity: usize,
    /// The bytes of the whole output.
    total: u64,
    binary: bool,
    live: LiveText,
}

/// The output that is shown while the command runs.
struct LiveText {
    cleaner: Cleaner,
    /// Text that has not been shown yet.
    pending: String,
    /// Bytes that may still be shown.
    remaining: usize,
    /// Nothing more is shown.
    stopped: bool,
}

impl Output {
    pub fn new(limits: &Limits) -> Output {
        Output {
            newest: VecDeque::new(),
            capacity: limits.output_bytes,
            total: 0,
            binary: false,
            live: LiveText {
                cleaner: Cleaner::default(),
                pending: String::new(),
                remaining: limits.live_bytes,
                stopped: false,
            },
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let probed = usize::try_from(self.total).unwrap_or(PROBED_BYTES);
        let to_probe = PROBED_BYTES.saturating_sub(probed).min(bytes.len());
        if bytes[..to_probe].contains(&0) && !self.binary {
            self.binary = true;
            self.live.stop("[binary output is not shown]\n");
        }
        self.total += bytes.len() as u64;
        let newest = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let excess = (self.newest.len() + newest.len()).saturating_sub(self.capacity);
        self.newest.drain(..excess);
        self.newest.extend(newest);
        self.live.push(bytes);
    }

    /// Whether there is live text to show.
    pub fn has_live(&self) -> bool {
        !self.live.pending.is_empty()
    }

    pub fn take_live(&mut self) -> String {
        std::mem::take(&mut self.live.pending)
    }

    /// Marks the end of the output: an incomplete character before it is invalid.
    pub fn end(&mut self) {
        if !self.live.stopped {
            let LiveText { cleaner, pending, .. } = &mut self.live;
            cleaner.end(pending);
        }
    }

    /// The output that was kept, as text.
    pub fn text(&mut self) -> String {
        if self.binary {
            return format!("[{} bytes of binary output]", self.total);
        }
        let dropped = self.total - self.newest.len() as u64;
        let bytes: &[u8] = self.newest.make_contiguous();
        let mut text = String::new();
        let mut from = 0;
        if dropped > 0 {
            text = format!("[the first {dropped} bytes of output were not kept]\n");
            // Dropping bytes may have split a character; the rest of it is dropped too.
            let torn = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80);
            from = torn.count();
        }
        let mut cleaner = Cleaner::default();
        cleaner.push(&bytes[from..], &mut text);
        cleaner.end(&mut text);
        text
    }
}

impl LiveText {
    fn push(&mut self, bytes: &[u8]) {
        if self.stopped {
            return;
        }
        let before = self.pending.len();
        self.cleaner.push(bytes, &mut self.pending);
        let new = self.pending.len() - before;
        if new <= self.remaining {
            self.remaining -= new;
            return;
        }
        self.pending.truncate(self.pending.floor_char_boundary(before + self.remaining));
        self.stop("\n[live output ends here; the result has the end of it]\n");
    }

    fn stop(&mut self, why: &str) {
        if !self.stopped {
            self.stopped = true;
            self.pending.push_str(why);
        }
    }
}

/// Decodes UTF-8 that may be split anywhere, and removes terminal sequences and control characters.
#[derive(Default)]
struct Cleaner {
    state: State,
    /// The beginning of a character whose end has not been read yet.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// `ESC [`: parameters up to a final byte.
    Control,
    /// `ESC ]` and similar: a string up to BEL or the next ESC. The end of a line ends it too, so that an unfinished string hides only
    /// one line.
    ControlString,
}

impl Cleaner {
    fn push(&mut self, bytes: &[u8], text: &mut String) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            if self.state == State::Text {
                let plain = bytes.iter().position(|byte| *byte == 0x1b);
                let (run, rest) = bytes.split_at(plain.unwrap_or(bytes.len()));
                self.decode(run, text);
                bytes = rest;
            }
            if let Some((byte, rest)) = bytes.split_first() {
                self.state = self.state.after(*byte);
                bytes = rest;
            }
        }
    }

    fn end(&mut self, text: &mut String) {
        if !self.partial.is_empty() {
            self.partial.clear();
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn decode(&mut self, run: &[u8], text: &mut String) {
        let joined;
        let run = if self.partial.is_empty() {
            run
        } else {
            self.partial.extend_from_slice(run);
            joined = std::mem::take(&mut self.partial);
            &joined
        };
        let mut chunks = run.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.extend(chunk.valid().chars().filter(|c| is_shown(*c)));
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_beginning(invalid) {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
}

impl State {
    fn after(self, byte: u8) -> State {
        match (self, byte) {
            (_, 0x1b) | (State::Escape, 0x20..=0x2f) => State::Escape,
            (State::Escape, b'[') | (State::Control, 0x20..=0x3f) => State::Control,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::ControlString,
            (State::ControlString, byte) if byte != 0x07 && byte != b'\n' => State::ControlString,
            (State::Text | State::Escape | State::Control | State::ControlString, _) => State::Text,
        }
    }
}

fn is_shown(c: char) -> bool {
    !c.is_control() || matches!(c, '\n' | '\r' | '\t')
}

/// Whether bytes are the beginning of a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(pieces: &[&[u8]]) -> String {
        let (mut cleaner, mut text) = (Cleaner::default(), String::new());
        for piece in pieces {
            cleaner.push(piece, &mut text);
        }
        cleaner.end(&mut text);
        text
    }

    #[test]
    fn text_is_the_same_however_it_is_split() {
        let bytes = "a\u{1b}[1;31mrot\u{1b}[0m \u{1b}]0;title\u{7}ü🦀\u{1b}]52;c;x\u{1b}\\\u{1b}(B\u{8}\u{9b}\r\n\tz"
            .as_bytes();
        let mut broken = bytes.to_vec();
        broken.extend(b"\xf0\x9f\xffq\xe2\x82");
        let whole = cleaned(&[&broken]);
        assert_eq!(whole, "arot ü🦀\r\n\tz\u{fffd}\u{fffd}q\u{fffd}");
        for at in 0..=broken.len() {
            let (a, b) = broken.split_at(at);
            assert_eq!(cleaned(&[a, b]), whole, "split at {at}");
        }
        let bytewise: Vec<&[u8]> = broken.chunks(1).collect();
        assert_eq!(cleaned(&bytewise), whole);
    }

    #[test]
    fn an_unfinished_sequence_hides_no_more_than_its_line() {
        assert_eq!(cleaned(&[b"a\x1b]0;never closed\nb"]), "ab");
        assert_eq!(cleaned(&[b"a\x1b[12\nb"]), "ab");
    }

    fn limits(live_bytes: usize, output_bytes: usize) -> Limits {
        Limits { live_bytes, output_bytes, ..Limits::default() }
    }

    #[test]
    fn live_text_stops_at_its_limit() {
        let mut output = Output::new(&limits(4, 100));
        output.push(b"ab");
        assert_eq!(output.take_live(), "ab");
        output.push("cüü".as_bytes());
        assert_eq!(output.take_live(), "c\n[live output ends here; the result has the end of it]\n");
        output.push(b"more");
        output.end();
        assert!(!output.has_live());
        assert_eq!(output.text(), "abcüümore");
        let mut exact = Output::new(&limits(4, 100));
        exact.push(b"abcd");
        assert_eq!(exact.take_live(), "abcd");
    }

    #[test]
    fn the_newest_output_is_kept() {
        let mut output = Output::new(&limits(0, 5));
        output.push(b"12345");
        assert_eq!(output.text(), "12345");
        output.push("ü7".as_bytes());
        assert_eq!(output.text(), "[the first 3 bytes of output were not kept]\n45ü7");
        output.push(b"890");
        assert_eq!(output.text(), "[the first 6 bytes of output were not kept]\n7890");
        output.push(b"abcdefgh");
        assert_eq!(output.text(), "[the first 14 bytes of output were not kept]\ndefgh");
    }

    #[test]
    fn binary_output_is_counted_not_shown() {
        let mut output = Output::new(&limits(100, 100));
        output.push(b"\x7fELF");
        output.push(b"\0\0");
        output.push(b"text");
        assert_eq!(output.take_live(), "\u{7f}ELF[binary output is not shown]\n".replace('\u{7f}', ""));
        assert_eq!(output.text(), "[10 bytes of binary output]");
        let mut late = Output::new(&limits(100_000, 100_000));
        late.push(&[b'a'; PROBED_BYTES]);
        late.push(b"\0b");
        assert_eq!(late.text().len(), PROBED_BYTES + 1);
    }
}
