//! An event with its place and time, and the line it is in the journal:
//! `{"seq":7,"at":1767225600123,"v":1,"event":{…},"crc":"9ae0f1c2"}`, the crc over the bytes before `,"crc"`.

use crate::base::crc::crc32;
use crate::base::id::Seq;
use crate::base::json;
use crate::task::log::event::Event;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// The version written today. Reading picks by it; old lines are never rewritten.
pub const VERSION: u32 = 1;

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
struct Read {
    seq: Seq,
    at: u64,
    v: u32,
    event: Event,
}

/// Why a journal line is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// The end of the line is missing or its crc does not match.
    Damaged,
    /// Written by a newer version of the program.
    Unknown(String),
}

impl Record {
    /// Appends the journal line, line break included.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        json::write(out, &Line { seq: self.seq, at: self.at, v: VERSION, event: &self.event });
        out.pop();
        let crc = crc32(&out[start..]);
        writeln!(out, ",\"crc\":\"{crc:08x}\"}}").expect("memory takes it");
    }

    /// Reads one journal line, without its line break.
    pub fn read(line: &[u8]) -> Result<Record, BadLine> {
        const TAIL: usize = r#","crc":"00000000"}"#.len();
        let (head, tail) = line.split_at_checked(line.len().wrapping_sub(TAIL)).ok_or(BadLine::Damaged)?;
        let expected = format!(",\"crc\":\"{:08x}\"}}", crc32(head));
        if tail != expected.as_bytes() {
            return Err(BadLine::Damaged);
        }
        let mut whole = head.to_vec();
        whole.push(b'}');
        let read: Read = serde_json::from_slice(&whole).map_err(|e| BadLine::Unknown(e.to_string()))?;
        if read.v != VERSION {
            return Err(BadLine::Unknown(format!("line version {}", read.v)));
        }
        Ok(Record { seq: read.seq, at: read.at, event: read.event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::JSON_DEPTH;
    use crate::task::log::event::{Answer, Request};
    use crate::task::message::{Artifact, Message, Part, Role, Source};
    use serde_json::json;

    fn line() -> Vec<u8> {
        let mut out = Vec::new();
        Record { seq: Seq(7), at: 1_767_225_600_123, event: Event::Text { text: "hé\n".into() } }.write(&mut out);
        out
    }

    #[test]
    fn a_line_comes_back_as_it_went() {
        let bytes = line();
        let record = Record::read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(record.seq, Seq(7));
        assert_eq!(record.event, Event::Text { text: "hé\n".into() });
        assert!(bytes.starts_with(br#"{"seq":7,"at":1767225600123,"v":1,"event":{"#));
    }

    #[test]
    fn every_flipped_or_missing_byte_is_noticed() {
        let bytes = line();
        let whole = &bytes[..bytes.len() - 1];
        for i in 0..whole.len() {
            let mut flipped = whole.to_vec();
            flipped[i] ^= 1;
            assert!(Record::read(&flipped).is_err(), "flipped byte {i}");
            assert!(Record::read(&whole[..i]).is_err(), "cut at {i}");
        }
    }

    /// Whatever others may send is read again: where it stands deepest in a line there is still room.
    #[test]
    fn the_deepest_values_come_back() {
        let deep = (1..JSON_DEPTH).fold(json!({}), |inner, _| json!({ "a": inner }));
        let metadata = deep.as_object().cloned();
        let part = Part { metadata: metadata.clone(), ..Part::data(deep.clone()) };
        let artifact = Artifact { id: "a".into(), name: None, description: None, parts: vec![part.clone()] };
        let message = Message { metadata, ..Message::new("m", Role::User, vec![part]) };
        let parts = vec![json!({ "functionCall": { "args": deep } })];
        let call = Request { call: "c".into(), name: "n".into(), args: deep, api_id: None };
        let answer = Answer::new(parts, vec![call]);
        for event in [
            Event::Prompted { message: message.into(), by: Source::clock(), turn: 1 },
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
