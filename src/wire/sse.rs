//! Server-sent events: written for subscribers, read from the model.
//!
//! A written event has one line of JSON, because some clients fail on more; the framing is a prefix and a suffix around bytes that all
//! subscribers share. The decoder accepts the whole grammar: every line end, split anywhere. An event larger than the limit is
//! dropped. The decoder copies each byte of data once and stores nothing but data.

use crate::base::id::Seq;
use std::collections::VecDeque;
use std::io::Write;
use std::mem;

/// Ends an event.
pub const END: &[u8] = b"\n\n";

/// A comment that keeps the connection alive.
pub const PING: &[u8] = b": ping\n\n";

/// A comment for people who read the raw stream; decoders ignore it. Line ends become spaces.
pub fn comment(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b": ");
    out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    out.extend_from_slice(END);
}

/// Starts an event; its payload of one line and [`END`] follow.
pub fn open(out: &mut Vec<u8>, event: Option<&str>, seq: Option<Seq>) {
    if let Some(event) = event {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(event.as_bytes());
        out.push(b'\n');
    }
    if let Some(seq) = seq {
        writeln!(out, "id: {seq}").expect("writing to memory does not fail");
    }
    out.extend_from_slice(b"data: ");
}

/// An event had more data than the limit and was dropped. Later events are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Whether a stream ended between events or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Clean,
    /// The last event was not ended by an empty line.
    Cut,
}

/// Decodes a stream: feed it bytes, then iterate over the data of complete events.
#[derive(Debug)]
pub struct Decoder {
    cap: usize,
    ready: VecDeque<Result<Vec<u8>, TooLarge>>,
    event: Event,
    line: Line,
    /// The last byte was a CR; a following LF belongs to the same line end.
    after_cr: bool,
    /// Bytes of a byte order mark seen so far, at the start of the stream.
    mark: usize,
}

/// The current event.
#[derive(Debug)]
enum Event {
    /// It has no field yet.
    Blank,
    /// It has fields but no data.
    Fields,
    Data(Vec<u8>),
    /// Its data exceeded the limit and was dropped.
    Dropped,
}

/// The part of a line that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// In the name, of which this many bytes equal `data`.
    Name(usize),
    /// Directly after `data:`, where one space is not data.
    Colon,
    Data,
    /// In a comment or a field that is not data.
    Other,
}

const NAME: &[u8] = b"data";
const MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// A decoder that accepts up to `cap` bytes of data per event.
    pub fn new(cap: usize) -> Decoder {
        Decoder { cap, ready: VecDeque::new(), event: Event::Blank, line: Line::Name(0), after_cr: false, mark: 0 }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = self.skip_mark(bytes);
        while let [first, after @ ..] = rest {
            if mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = after;
                continue;
            }
            rest = match self.line {
                _ if matches!(first, b'\n' | b'\r') => {
                    self.after_cr = *first == b'\r';
                    self.end_line();
                    after
                }
                Line::Name(seen) => {
                    self.line = self.name(seen, *first);
                    after
                }
                Line::Colon => {
                    self.line = Line::Data;
                    if *first == b' ' { after } else { rest }
                }
                Line::Data => {
                    let (run, after) = rest.split_at(run_len(rest));
                    self.extend(run);
                    after
                }
                Line::Other => &rest[run_len(rest)..],
            };
        }
    }

    /// The end of the input.
    pub fn finish(self) -> Finish {
        let amid = match self.line {
            Line::Name(seen) => seen > 0,
            Line::Colon | Line::Data => true,
            // A field has already changed the event, and a comment belongs to none.
            Line::Other => false,
        };
        match self.event {
            Event::Blank if !amid => Finish::Clean,
            Event::Blank | Event::Fields | Event::Data(_) | Event::Dropped => Finish::Cut,
        }
    }

    fn skip_mark<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while self.mark < MARK.len() {
            let [first, after @ ..] = bytes else { break };
            if *first == MARK[self.mark] {
                self.mark += 1;
                bytes = after;
            } else {
                // Part of a byte order mark is the start of an unknown field.
                if self.mark > 0 {
                    self.line = self.other_field();
                }
                self.mark = MARK.len();
            }
        }
        bytes
    }

    /// The next state of a line whose first `seen` bytes are those of `data`.
    fn name(&mut self, seen: usize, byte: u8) -> Line {
        match byte {
            b':' if seen == 0 => Line::Other,
            b':' if seen == NAME.len() => {
                self.begin_data();
                Line::Colon
            }
            byte if NAME.get(seen) == Some(&byte) => Line::Name(seen + 1),
            // A blank at the end of a stream does not mean that an event is incomplete.
            b' ' | b'\t' if seen == 0 => Line::Other,
            _ => self.other_field(),
        }
    }

    fn other_field(&mut self) -> Line {
        if matches!(self.event, Event::Blank) {
            self.event = Event::Fields;
        }
        Line::Other
    }

    fn end_line(&mut self) {
        match mem::replace(&mut self.line, Line::Name(0)) {
            Line::Name(0) => match mem::replace(&mut self.event, Event::Blank) {
                Event::Data(data) => self.ready.push_back(Ok(data)),
                Event::Blank | Event::Fields | Event::Dropped => {}
            },
            // The name alone is an empty line of data.
            Line::Name(seen) if seen == NAME.len() => self.begin_data(),
            Line::Name(_) => {
                self.other_field();
            }
            Line::Colon | Line::Data | Line::Other => {}
        }
    }

    /// Starts a line of data; a line end separates it from the one before.
    fn begin_data(&mut self) {
        match self.event {
            Event::Blank | Event::Fields => self.event = Event::Data(Vec::new()),
            Event::Data(_) => self.extend(b"\n"),
            Event::Dropped => {}
        }
    }

    fn extend(&mut self, run: &[u8]) {
        if let Event::Data(data) = &mut self.event {
            if run.len() <= self.cap - data.len() {
                data.extend_from_slice(run);
            } else {
                self.event = Event::Dropped;
                self.ready.push_back(Err(TooLarge));
            }
        }
    }
}

impl Iterator for Decoder {
    type Item = Result<Vec<u8>, TooLarge>;

    /// The data of the next complete event. An event without `data` is skipped; one with an empty `data:` is not.
    fn next(&mut self) -> Option<Self::Item> {
        self.ready.pop_front()
    }
}

/// The number of bytes before the next line end.
fn run_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(cap: usize, input: &[u8]) -> (Vec<Result<String, TooLarge>>, Finish) {
        let mut decoder = Decoder::new(cap);
        decoder.feed(input);
        let events = decoder.by_ref().map(|event| event.map(|data| String::from_utf8(data).expect("UTF-8"))).collect();
        (events, decoder.finish())
    }

    #[test]
    fn the_grammar() {
        for (input, expected, finish) in [
            ("", &[][..], Finish::Clean),
            ("data: a\n\n", &["a"], Finish::Clean),
            ("data:a\r\rdata: b\r\n\r\n", &["a", "b"], Finish::Clean),
            ("data: a\ndata:  b\ndata\ndata:\n\n", &["a\n b\n\n"], Finish::Clean),
            ("data\n\n", &[""], Finish::Clean),
            ("data:\n\n", &[""], Finish::Clean),
            ("\n\n\r\n: ping\n\nevent: x\nid: 7\nretry: 3\n\n", &[], Finish::Clean),
            ("event: x\nid: 7\ndata: a\n: no\n\n", &["a"], Finish::Clean),
            ("dat: a\ndatab: b\n data: c\nDATA: d\ndata : e\n\n", &[], Finish::Clean),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"], Finish::Clean),
            ("data: a\n", &[], Finish::Cut),
            ("data: a", &[], Finish::Cut),
            ("data: a\n\ndat", &["a"], Finish::Cut),
            ("data: a\n\nid: 7", &["a"], Finish::Cut),
            ("data: a\n\n: pi", &["a"], Finish::Clean),
            ("data: a\r\n\r\n \n", &["a"], Finish::Clean),
            ("data: a\n\n\r\n\n", &["a"], Finish::Clean),
        ] {
            let expected = expected.iter().map(|data| Ok((*data).to_owned())).collect();
            assert_eq!(decode(9, input.as_bytes()), (expected, finish), "{input:?}");
        }
    }

    #[test]
    fn an_event_over_the_cap_costs_only_itself() {
        let ok = |data: &str| Ok(data.to_owned());
        assert_eq!(
            decode(3, b"data: abc\n\ndata: abcd\ndata: e\n\ndata: f\ndata: g\n\n"),
            (vec![ok("abc"), Err(TooLarge), ok("f\ng")], Finish::Clean)
        );
        assert_eq!(
            decode(3, b"data: ab\ndata: c\n\ndata: ab\ndata:\n\ndata: never ending"),
            (vec![Err(TooLarge), ok("ab\n"), Err(TooLarge)], Finish::Cut)
        );
    }

    #[test]
    fn what_we_write() {
        let mut out = Vec::new();
        open(&mut out, Some("task"), Some(Seq(7)));
        out.extend_from_slice(b"{}");
        out.extend_from_slice(END);
        out.extend_from_slice(PING);
        open(&mut out, None, None);
        assert_eq!(out, b"event: task\nid: 7\ndata: {}\n\n: ping\n\ndata: ");
    }
}
