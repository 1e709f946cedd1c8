//! Checks a chain: whether each line is unchanged and follows the line before it.

use super::{HASH, Head, Who};
use crate::task::log::blob::sha256;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// A line as it is read. A kind that this version does not know is kept as a word.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ReadEntry {
    pub n: u64,
    /// Unix milliseconds.
    pub at: u64,
    pub prev: String,
    pub kind: String,
    #[serde(default)]
    pub who: Who,
    #[serde(default)]
    pub request: Option<String>,
    #[serde(default)]
    pub task: Option<String>,
    #[serde(default)]
    pub seq: Option<u64>,
    #[serde(default)]
    pub what: Value,
    pub hash: String,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadEntry {
    /// It does not end as an entry does, or is not a JSON object with the members of an entry.
    NoEntry,
    /// Its hash is not that of its bytes.
    Changed,
    /// Its number is not that of its place.
    Number { expected: u64, found: u64 },
    /// It does not name the hash of the line before.
    Unlinked,
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadEntry::NoEntry => f.write_str("it is no entry of an audit, or its end is missing"),
            BadEntry::Changed => f.write_str("it was changed: its hash is not that of its bytes"),
            BadEntry::Number { expected, found } => {
                write!(f, "entry {expected} is missing: entry {found} is in its place")
            }
            BadEntry::Unlinked => {
                f.write_str("it does not continue the line before: one of the two was changed or put in another place")
            }
        }
    }
}

/// Reads one line, without its line break, and checks its own hash.
pub fn read(line: &[u8]) -> Result<ReadEntry, BadEntry> {
    let end = line.len().checked_sub(HASH.len() + 64 + 2).ok_or(BadEntry::NoEntry)?;
    let (hashed, rest) = line.split_at(end);
    let hash = rest.strip_prefix(HASH).and_then(|rest| rest.strip_suffix(b"\"}")).ok_or(BadEntry::NoEntry)?;
    if sha256(hashed).as_bytes() != hash {
        return Err(BadEntry::Changed);
    }
    serde_json::from_slice(line).map_err(|_| BadEntry::NoEntry)
}

/// Checks a chain line by line.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    head: Option<Head>,
    lines: u64,
}

impl Verifier {
    /// A verifier for a chain from its first line on.
    pub fn from_start() -> Verifier {
        Verifier { head: Some(Head::default()), lines: 0 }
    }

    /// A verifier for a part of a chain, whose first line may have any number.
    pub fn from_anywhere() -> Verifier {
        Verifier::default()
    }

    /// Checks the next line, given without its line break.
    pub fn take(&mut self, line: &[u8]) -> Result<ReadEntry, BadEntry> {
        let entry = read(line)?;
        // Line 1 of a chain must have the initial `prev`, wherever the check begins.
        let first = (entry.n == 1).then(Head::default);
        if let Some(head) = self.head.as_ref().or(first.as_ref()) {
            let expected = head.n + 1;
            if entry.n != expected {
                return Err(BadEntry::Number { expected, found: entry.n });
            }
            if entry.prev != head.hash {
                return Err(BadEntry::Unlinked);
            }
        }
        self.head = Some(Head { n: entry.n, hash: entry.hash.clone() });
        self.lines += 1;
        Ok(entry)
    }

    /// The last line that was checked.
    pub fn head(&self) -> Head {
        self.head.clone().unwrap_or_default()
    }

    pub fn lines(&self) -> u64 {
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Kind, What};
    use super::*;

    fn chain(lines: u64) -> Vec<Vec<u8>> {
        let mut head = Head::default();
        let line = |n: u64| {
            let mut line = Vec::new();
            let what = What::default().with("turn", n).with("text", "é\n\"\\");
            head.add(&Entry::new(Kind::Prompted, Who::agent(), what), n, &mut line);
            line
        };
        (1..=lines).map(line).collect()
    }

    /// The first line that is bad, counted from 1, and why; or the head of a good chain.
    fn verified(bytes: &[u8]) -> Result<Head, (usize, BadEntry)> {
        let mut verifier = Verifier::from_start();
        for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            let whole = line.strip_suffix(b"\n").ok_or((number, BadEntry::NoEntry))?;
            verifier.take(whole).map_err(|bad| (number, bad))?;
        }
        Ok(verifier.head())
    }

    #[test]
    fn a_chain_is_followed_to_its_head() {
        let lines = chain(5);
        let head = verified(&lines.concat()).unwrap();
        assert_eq!(head.n, 5);
        assert!(lines[4].ends_with(format!("\"hash\":\"{}\"}}\n", head.hash).as_bytes()));
        assert_eq!(verified(b""), Ok(Head::default()));
        // A part of it is followed from its first line on.
        let mut verifier = Verifier::from_anywhere();
        for line in &lines[2..] {
            verifier.take(line.trim_ascii_end()).unwrap();
        }
        assert_eq!((verifier.head(), verifier.lines()), (head, 3));
    }

    #[test]
    fn every_flipped_byte_is_found_in_its_line() {
        let lines = chain(3);
        let bytes = lines.concat();
        for at in 0..bytes.len() {
            for bit in [1, 0x20, 0x80] {
                let mut flipped = bytes.clone();
                flipped[at] ^= bit;
                let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                let (found, _) = verified(&flipped).expect_err("a changed chain");
                assert_eq!(found, line, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn lines_that_are_missing_moved_or_repeated_are_found() {
        let lines = chain(4);
        let of = |order: &[usize]| verified(&order.iter().flat_map(|at| lines[*at].clone()).collect::<Vec<u8>>());
        for (order, line, expected, found) in [
            (&[1, 2, 3][..], 1, 1, 2),
            (&[0, 2, 3], 2, 2, 3),
            (&[0, 2, 1, 3], 2, 2, 3),
            (&[0, 1, 1, 2], 3, 3, 2),
            (&[0, 1, 2, 3, 3], 5, 5, 4),
        ] {
            assert_eq!(of(order), Err((line, BadEntry::Number { expected, found })), "{order:?}");
        }
        // The file alone does not show that the last line is missing; the journals have its hash.
        assert_eq!(of(&[0, 1, 2]).map(|head| head.n), Ok(3));
    }

    #[test]
    fn a_forged_line_with_a_correct_hash_is_found_at_the_next_line() {
        let lines = chain(3);
        let text = String::from_utf8(lines[1].clone()).unwrap().replace("\"turn\":2", "\"turn\":7");
        let (hashed, _) = text.split_once(",\"hash\"").unwrap();
        let forged = format!("{hashed},\"hash\":\"{}\"}}\n", sha256(hashed.as_bytes()));
        let bytes = [lines[0].clone(), forged.into_bytes(), lines[2].clone()].concat();
        assert_eq!(verified(&bytes), Err((3, BadEntry::Unlinked)));
    }
}
