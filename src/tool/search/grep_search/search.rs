//! Searches the files of a walk, in the order of paths, until there are enough matches.

use crate::limits::Limits;
use crate::tool::search::grep_search::Query;
use crate::tool::search::grep_search::report::Report;
use crate::tool::search::walk::{Visitor, WalkedFile};
use std::io::Read;
use std::ops::Range;

/// Lines to show around a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    pub before: usize,
    pub after: usize,
}

/// A line of a file that matches, or is shown around one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    pub role: Role,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Match,
    Context,
}

pub struct Search<'a> {
    pub query: &'a Query<'a>,
    pub limits: &'a Limits,
    /// The number of bytes of a path before the part that globs are compared with.
    pub lead: usize,
    /// The content of the current file; the buffer is reused for the next one.
    pub bytes: Vec<u8>,
    pub report: Report,
}

impl Visitor for Search<'_> {
    fn enters(&mut self, _: &[u8]) -> bool {
        !self.report.is_full()
    }

    fn file(&mut self, file: &WalkedFile) {
        if !self.query.includes(&file.path[self.lead..]) || self.report.is_full() {
            return;
        }
        // Files that cannot be opened or read are skipped.
        let Ok((opened, stat)) = file.open() else {
            return;
        };
        if stat.st_size as u64 > self.limits.file_bytes {
            self.report.too_large += 1;
            return;
        }
        self.bytes.clear();
        self.bytes.reserve(stat.st_size as usize);
        if opened.take(stat.st_size as u64).read_to_end(&mut self.bytes).is_ok() {
            self.report.add(file.path, lines_in(&self.bytes, self.query, self.query.around));
        }
    }
}

/// The matches in the content of a file and the lines around them; none if it is not text.
pub fn lines_in(bytes: &[u8], query: &Query, around: Option<Around>) -> Vec<Line> {
    if memchr::memchr(0, bytes).is_some() {
        return Vec::new();
    }
    let is_left_out = |line: &Range<usize>| {
        let line = str::from_utf8(&bytes[line.clone()]);
        query.except.as_ref().is_some_and(|except| line.is_ok_and(|line| except.is_match(line)))
    };
    // One more than is shown, in order to know whether there are more.
    let most = if query.names_only { 1 } else { query.per_file.min(query.total + 1) };
    let hits: Vec<usize> =
        query.lines.matches(bytes).filter(|line| !is_left_out(line)).take(most).map(|line| line.start).collect();
    let mut lines = Vec::new();
    let around = around.unwrap_or_default();
    let mut copier = LineCopier { bytes, at: 0, number: 1 };
    for (i, hit) in hits.iter().enumerate() {
        copier.skip_to_before(*hit, around.before);
        while copier.at < *hit {
            lines.extend(copier.line(Role::Context));
        }
        lines.extend(copier.line(Role::Match));
        let next = hits.get(i + 1).copied().unwrap_or(bytes.len());
        for _ in 0..around.after {
            if copier.at >= next {
                break;
            }
            lines.extend(copier.line(Role::Context));
        }
    }
    lines
}

/// Copies lines and counts them.
struct LineCopier<'a> {
    bytes: &'a [u8],
    at: usize,
    number: usize,
}

impl LineCopier<'_> {
    /// Advances to the line that is `lines` lines before the one that begins at `begin`.
    fn skip_to_before(&mut self, begin: usize, lines: usize) {
        let mut target = begin;
        for _ in 0..lines {
            if target <= self.at {
                break;
            }
            target = memchr::memrchr(b'\n', &self.bytes[self.at..target - 1])
                .map_or(self.at, |newline| self.at + newline + 1);
        }
        if target > self.at {
            self.number += memchr::memchr_iter(b'\n', &self.bytes[self.at..target]).count();
            self.at = target;
        }
    }

    /// None for a line that is not UTF-8.
    fn line(&mut self, role: Role) -> Option<Line> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let bytes = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let line = str::from_utf8(bytes).ok().map(|text| Line { number: self.number, role, text: text.into() });
        self.at = (self.at + end + 1).min(self.bytes.len());
        self.number += 1;
        line
    }
}
