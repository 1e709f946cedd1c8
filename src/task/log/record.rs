//! An event with its number and time, and its line in the journal:
//! `{"seq":7,"at":1767225600123,"v":2,"event":{…},"crc":"9ae0f1c2"}`, where `crc` is the checksum of the bytes before `,"crc"`.
//!
//! Lines are never rewritten. A journal may contain lines of several versions; older ones are converted to present events when they are
//! read.

use crate::base::crc::{is_whole, write_line};
use crate::base::id::Seq;
use crate::task::log::event::Event;
use crate::task::log::v1;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version that is written.
pub const VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub seq: Seq,
    /// Unix milliseconds.
    pub at: u64,
    pub event: Event,
}

#[derive(Serialize)]
struct Line<'a> {
    seq: Seq,
    at: u64,
    v: u32,
    event: &'a Event,
}

#[derive(Deserialize)]
struct Read<'a> {
    seq: Seq,
    at: u64,
    v: u32,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// Why a journal line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// The end of the line is missing or its crc does not match.
    Damaged,
    /// The line is undamaged, but another version of the program wrote it. The file must not be changed; the text says what to do.
    Unknown(String),
}

impl Record {
    /// Appends the journal line, line break included.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_line(out, &Line { seq: self.seq, at: self.at, v: VERSION, event: &self.event });
    }

    /// Reads one journal line, without its line break.
    pub fn read(line: &[u8]) -> Result<Record, BadLine> {
        if !is_whole(line) {
            return Err(BadLine::Damaged);
        }
        let unknown =
            |what: &str| BadLine::Unknown(format!("{what}; open it with the version of gemini-a2a that wrote it"));
        let unread = |e: serde_json::Error| unknown(&format!("this version cannot read it ({e})"));
        let read: Read = serde_json::from_slice(line).map_err(unread)?;
        let event = match read.v {
            VERSION => serde_json::from_str(read.event.get()),
            1 => v1::event(read.event.get()),
            newer => return Err(unknown(&format!("it has format {newer}, this version reads up to {VERSION}"))),
        };
        Ok(Record { seq: read.seq, at: read.at, event: event.map_err(unread)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::JSON_DEPTH;
    use crate::task::log::answer::{Answer, Content, Part as Said, Request};
    use crate::task::message::{Artifact, Message, Part, Role, Source};
    use serde_json::json;

    fn line() -> Vec<u8> {
        let mut out = Vec::new();
        Record { seq: Seq(7), at: 1_767_225_600_123, event: Event::Text { text: "hé\n".into() } }.write(&mut out);
        out
    }

    #[test]
    fn a_written_line_is_read_back() {
        let bytes = line();
        let record = Record::read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(record.seq, Seq(7));
        assert_eq!(record.event, Event::Text { text: "hé\n".into() });
        assert!(bytes.starts_with(br#"{"seq":7,"at":1767225600123,"v":2,"event":{"#));
    }

    #[test]
    fn every_changed_or_missing_byte_is_detected() {
        let bytes = line();
        let whole = &bytes[..bytes.len() - 1];
        for i in 0..whole.len() {
            let mut flipped = whole.to_vec();
            flipped[i] ^= 1;
            assert!(Record::read(&flipped).is_err(), "flipped byte {i}");
            assert!(Record::read(&whole[..i]).is_err(), "cut at {i}");
        }
    }

    /// JSON of clients and models with the greatest allowed depth can be read back, also where it is nested deepest in a line.
    #[test]
    fn the_most_deeply_nested_values_are_read_back() {
        let deep = (1..JSON_DEPTH).fold(json!({}), |inner, _| json!({ "a": inner }));
        let metadata = deep.as_object().cloned();
        let part = Part { metadata: metadata.clone(), ..Part::data(deep.clone()) };
        let artifact = Artifact { id: "a".into(), name: None, description: None, parts: vec![part.clone()] };
        let message = Message { metadata, ..Message::new("m", Role::User, vec![part]) };
        let opaque = Said::new(Content::Opaque(json!({ "functionCall": { "args": deep } })));
        let call = Request { call: "c".into(), name: "n".into(), args: deep, api_id: None };
        let mut answer = Answer::new("", vec![call]);
        answer.parts.push(opaque);
        for event in [
            Event::Prompted { message: message.into(), by: Source::clock(), turn: 1, delivery: Default::default() },
            Event::Produced { artifact: artifact.into(), append: false, last: true },
            Event::Answered { answer: answer.into() },
        ] {
            let record = Record { seq: Seq(1), at: 0, event };
            let mut line = Vec::new();
            record.write(&mut line);
            line.pop();
            assert_eq!(Record::read(&line), Ok(record));
        }
    }
}
