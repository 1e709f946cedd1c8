//! Server-sent events: written for subscribers, read from the model and from MCP servers.
//!
//! A written event has one line of JSON, because some clients fail on more; the framing is a prefix and a suffix around bytes that all
//! subscribers share. The decoder accepts the whole grammar: every line end, split anywhere. An event larger than the limit is
//! dropped. A line that is not data and longer than [`FIELD_BYTES`] is ignored.

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
        writeln!(out, "event: {event}").expect("writing to memory does not fail");
    }
    if let Some(seq) = seq {
        writeln!(out, "id: {seq}").expect("writing to memory does not fail");
    }
    out.extend_from_slice(b"data: ");
}

/// An event had more data than the limit and was dropped. Later events are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// A complete event that has data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The last `event` field; empty if there was none.
    pub name: String,
    pub data: Vec<u8>,
}

/// Decodes a stream: feed it bytes, then iterate over the complete events.
#[derive(Debug)]
pub struct Decoder {
    cap: usize,
    ready: VecDeque<Result<Message, TooLarge>>,
    event: Event,
    /// The `event` field of the current event.
    name: String,
    /// The last `id` field, which becomes `last_id` when its event is complete.
    next_id: String,
    last_id: String,
    retry_ms: Option<u64>,
    /// The current line as far as it has arrived. Of a long line that is not data it is only the beginning.
    line: Vec<u8>,
    is_first_line: bool,
    /// The last byte was a CR; a following LF belongs to the same line end.
    after_cr: bool,
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

const DATA: &[u8] = b"data:";
/// The longest line that is not data: ids of events are shorter.
const FIELD_BYTES: usize = 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// A decoder that accepts up to `cap` bytes of data per event.
    pub fn new(cap: usize) -> Decoder {
        Decoder {
            cap,
            ready: VecDeque::new(),
            event: Event::Blank,
            name: String::new(),
            next_id: String::new(),
            last_id: String::new(),
            retry_ms: None,
            line: Vec::new(),
            is_first_line: true,
            after_cr: false,
        }
    }

    /// The id of the last complete event that had one, also of an event without data. Empty if there was none.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// How long the server wants a client to wait before it connects again.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            if mem::take(&mut self.after_cr) && piece == b"\n" {
                continue;
            }
            match piece {
                [line @ .., end @ (b'\n' | b'\r')] => {
                    self.extend_line(line);
                    self.end_line();
                    self.after_cr = *end == b'\r';
                }
                line => self.extend_line(line),
            }
        }
    }

    /// Whether the input that was fed ends inside an event: its last event is not ended by an empty line.
    pub fn ends_inside_event(&self) -> bool {
        let is_between = match self.text(&self.line) {
            [] | [b':' | b' ' | b'\t', ..] => true,
            _ => self.is_first_line && BYTE_ORDER_MARK.starts_with(&self.line),
        };
        !(is_between && matches!(self.event, Event::Blank))
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        if self.text(&self.line).starts_with(DATA) && matches!(self.event, Event::Dropped) {
            return;
        }
        self.line.extend_from_slice(bytes);
        match data_of(self.text(&self.line)).map(<[u8]>::len) {
            // Checked before the line ends, because its end may never arrive.
            Some(added) => self.check_size(added),
            None => self.line.truncate(FIELD_BYTES + 1),
        }
    }

    fn end_line(&mut self) {
        let mut line = mem::take(&mut self.line);
        match self.text(&line) {
            [] => {
                let name = mem::take(&mut self.name);
                if let Event::Data(data) = mem::replace(&mut self.event, Event::Blank) {
                    self.ready.push_back(Ok(Message { name, data }));
                }
                self.last_id.clone_from(&self.next_id);
            }
            [b':' | b' ' | b'\t', ..] => {}
            // A line that is only the name `data` adds an empty line of data.
            b"data" => self.add_data(b""),
            text => match data_of(text) {
                Some(data) => self.add_data(data),
                None => {
                    if text.len() <= FIELD_BYTES {
                        self.set_field(&String::from_utf8_lossy(text));
                    }
                    if matches!(self.event, Event::Blank) {
                        self.event = Event::Fields;
                    }
                }
            },
        }
        self.is_first_line = false;
        line.clear();
        self.line = line;
    }

    fn set_field(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "id" if !value.contains('\0') => self.next_id = value.to_owned(),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry_ms = value.parse().ok().or(self.retry_ms);
            }
            _ => {}
        }
    }

    /// Adds a line of data; a line end separates it from the one before.
    fn add_data(&mut self, line: &[u8]) {
        self.check_size(line.len());
        match &mut self.event {
            Event::Blank | Event::Fields => self.event = Event::Data(line.to_vec()),
            Event::Data(data) => {
                data.push(b'\n');
                data.extend_from_slice(line);
            }
            Event::Dropped => {}
        }
    }

    /// The line without the byte order mark that a stream may begin with.
    fn text<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        line.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.is_first_line).unwrap_or(line)
    }

    /// Drops the event if another line of data of this length exceeds the limit.
    fn check_size(&mut self, added: usize) {
        let size = match &self.event {
            Event::Blank | Event::Fields => added,
            Event::Data(data) => data.len() + 1 + added,
            Event::Dropped => return,
        };
        if size > self.cap {
            self.event = Event::Dropped;
            self.ready.push_back(Err(TooLarge));
        }
    }
}

/// The data of a line that is complete up to the colon. One space after the colon is not data.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let data = line.strip_prefix(DATA)?;
    Some(data.strip_prefix(b" ").unwrap_or(data))
}

impl Iterator for Decoder {
    type Item = Result<Message, TooLarge>;

    /// The next complete event. An event without `data` is skipped; one with an empty `data:` is not.
    fn next(&mut self) -> Option<Self::Item> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(cap: usize, input: &[u8]) -> (Vec<Result<String, TooLarge>>, bool) {
        let mut decoder = Decoder::new(cap);
        decoder.feed(input);
        let events =
            decoder.by_ref().map(|event| event.map(|event| String::from_utf8(event.data).expect("UTF-8"))).collect();
        (events, decoder.ends_inside_event())
    }

    #[test]
    fn the_grammar() {
        for (input, expected, is_cut) in [
            ("", &[][..], false),
            ("data: a\n\n", &["a"], false),
            ("data:a\r\rdata: b\r\n\r\n", &["a", "b"], false),
            ("data: a\ndata:  b\ndata\ndata:\n\n", &["a\n b\n\n"], false),
            ("data\n\n", &[""], false),
            ("data:\n\n", &[""], false),
            ("\n\n\r\n: ping\n\nevent: x\nid: 7\nretry: 3\n\n", &[], false),
            ("event: x\nid: 7\ndata: a\n: no\n\n", &["a"], false),
            ("dat: a\ndatab: b\n data: c\nDATA: d\ndata : e\n\n", &[], false),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"], false),
            ("data: a\n", &[], true),
            ("data: a", &[], true),
            ("data: a\n\ndat", &["a"], true),
            ("data: a\n\nid: 7", &["a"], true),
            ("data: a\n\n: pi", &["a"], false),
            ("data: a\r\n\r\n \n", &["a"], false),
            ("data: a\n\n\r\n\n", &["a"], false),
        ] {
            let expected = expected.iter().map(|data| Ok((*data).to_owned())).collect();
            assert_eq!(decode(9, input.as_bytes()), (expected, is_cut), "{input:?}");
        }
    }

    #[test]
    fn an_event_over_the_cap_is_dropped_and_the_others_are_not() {
        let ok = |data: &str| Ok(data.to_owned());
        assert_eq!(
            decode(3, b"data: abc\n\ndata: abcd\ndata: e\n\ndata: f\ndata: g\n\n"),
            (vec![ok("abc"), Err(TooLarge), ok("f\ng")], false)
        );
        assert_eq!(
            decode(3, b"data: ab\ndata: c\n\ndata: ab\ndata:\n\ndata: never ending"),
            (vec![Err(TooLarge), ok("ab\n"), Err(TooLarge)], true)
        );
    }

    #[test]
    fn names_ids_and_retry_times_however_the_input_is_split() {
        let long = format!("id: {}\ndata: c\n\n", "x".repeat(FIELD_BYTES));
        let input = format!(
            "\u{feff}id: 1\r\nretry: 250\r\ndata:\r\n\r\nevent: endpoint\rdata: /m\r\rid: p\n\n{long}retry: 1x\nid: lost"
        );
        for piece in 1..60 {
            let mut decoder = Decoder::new(99);
            let (mut events, mut ids) = (Vec::new(), vec![String::new()]);
            for piece in input.as_bytes().chunks(piece) {
                decoder.feed(piece);
                events.extend(decoder.by_ref().map(|event| event.expect("it is short")));
                if ids.last().is_some_and(|id| id != decoder.last_id()) {
                    ids.push(decoder.last_id().to_owned());
                }
            }
            let event = |name: &str, data: &str| Message { name: name.into(), data: data.into() };
            assert_eq!(events, [event("", ""), event("endpoint", "/m"), event("", "c")], "{piece}");
            assert_eq!(
                ids.last().map(String::as_str),
                Some("p"),
                "an id that is too long or without an end is ignored"
            );
            assert_eq!(decoder.retry_ms(), Some(250));
        }
    }

    #[test]
    fn written_events() {
        let mut out = Vec::new();
        open(&mut out, Some("task"), Some(Seq(7)));
        out.extend_from_slice(b"{}");
        out.extend_from_slice(END);
        out.extend_from_slice(PING);
        open(&mut out, None, None);
        assert_eq!(out, b"event: task\nid: 7\ndata: {}\n\n: ping\n\ndata: ");
    }
}
