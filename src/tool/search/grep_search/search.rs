//! Searches the files of a walk and keeps the first matches in the order of paths.

use crate::limits::Limits;
use crate::tool::files::path::ResolvedPath;
use crate::tool::search::grep_search::Query;
use crate::tool::search::grep_search::lines::{Go, Lines};
use crate::tool::search::listing::by_path;
use crate::tool::search::walk::{Visitor, WalkedFile};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines to show around a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    pub before: usize,
    pub after: usize,
}

/// The matches of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFile {
    pub matches: usize,
    pub lines: Vec<Line>,
}

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

impl FoundFile {
    pub fn matching(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.role == Role::Match)
    }

    /// Keeps `most` matches, and the lines before the first match that is removed.
    fn cut(&mut self, most: usize) {
        let mut matches = self.lines.iter().enumerate().filter(|(_, line)| line.role == Role::Match);
        if let Some((first_removed, _)) = matches.nth(most) {
            self.lines.truncate(first_removed);
        }
        self.matches = self.matches.min(most);
    }
}

/// The first matches in the order of paths, from all threads.
pub struct Best {
    most: usize,
    kept: Mutex<Kept>,
    /// Whether enough was found. From then on, paths behind the last kept one need not be searched.
    full: AtomicBool,
}

#[derive(Default)]
struct Kept {
    /// In the order of paths.
    files: Vec<(Vec<u8>, FoundFile)>,
    matches: usize,
    /// More was found than is kept.
    limited: bool,
}

impl Best {
    pub fn new(most: usize) -> Best {
        Best { most, kept: Mutex::default(), full: AtomicBool::new(false) }
    }

    pub fn add(&self, path: &[u8], found: FoundFile) {
        let mut kept = self.kept();
        kept.matches += found.matches;
        let at = kept.files.partition_point(|(other, _)| by_path(other, path).is_lt());
        kept.files.insert(at, (path.to_vec(), found));
        while let Some(last) = kept.files.last().map(|(_, found)| found.matches)
            && kept.matches - last >= self.most
        {
            kept.files.pop();
            kept.matches -= last;
            kept.limited = true;
        }
        if kept.matches >= self.most {
            self.full.store(true, Memory::Relaxed);
        }
    }

    /// Whether nothing with this path, or in a directory of this path, can be among the first matches any more. What is skipped
    /// might have matched, so the result counts as limited.
    fn is_too_late(&self, path: &[u8]) -> bool {
        if !self.full.load(Memory::Relaxed) {
            return false;
        }
        let mut kept = self.kept();
        let late = kept.files.last().is_some_and(|(last, _)| by_path(path, last).is_gt());
        kept.limited |= late;
        late
    }

    pub fn is_empty(&self) -> bool {
        self.kept().files.is_empty()
    }

    /// The files in order, and whether there may be more matches than they contain.
    pub fn into_files(self) -> (Vec<(Vec<u8>, FoundFile)>, bool) {
        let Kept { mut files, matches, limited } = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.most;
        for (_, found) in &mut files {
            found.cut(left);
            left -= found.matches;
        }
        (files, limited || matches > self.most)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's search.
pub struct Search<'a> {
    query: &'a Query<'a>,
    lines: Lines,
    best: &'a Best,
    limits: &'a Limits,
    /// How many bytes of a path come before the part that globs are compared with.
    lead: usize,
    /// The content of one file. It keeps its capacity for the next one.
    bytes: Vec<u8>,
    pub too_large: usize,
}

impl<'a> Search<'a> {
    pub fn new(query: &'a Query<'a>, base: &ResolvedPath, best: &'a Best, limits: &'a Limits) -> Search<'a> {
        Search { query, lines: query.lines.clone(), best, limits, lead: base.lead(), bytes: Vec::new(), too_large: 0 }
    }
}

impl Visitor for Search<'_> {
    fn wants(&mut self, dir: &[u8]) -> bool {
        !self.best.is_too_late(&dir[..dir.len() - 1])
    }

    fn file(&mut self, file: &WalkedFile) {
        if !self.query.includes(&file.path[self.lead..]) || self.best.is_too_late(file.path) {
            return;
        }
        // Files that cannot be opened or read are skipped.
        let Ok((opened, stat)) = file.open() else {
            return;
        };
        if stat.st_size as u64 > self.limits.file_bytes {
            self.too_large += 1;
            return;
        }
        self.bytes.clear();
        self.bytes.reserve(stat.st_size as usize);
        let read = opened.take(stat.st_size as u64).read_to_end(&mut self.bytes);
        if read.is_ok()
            && let Some(found) = lines_in(&self.bytes, &self.lines, self.query, self.query.around)
        {
            self.best.add(file.path, found);
        }
    }
}

/// The matches in the content of a file; None if there are none, or if it is not text.
pub fn lines_in(bytes: &[u8], lines: &Lines, query: &Query, around: Option<Around>) -> Option<FoundFile> {
    if memchr::memchr(0, bytes).is_some() {
        return None;
    }
    // One more than is shown, to know whether there are more.
    let most = if query.names_only { 1 } else { query.per_file.min(query.total + 1) };
    let mut hits = Vec::new();
    lines.each(bytes, |range| {
        let excepted = query
            .except
            .as_ref()
            .is_some_and(|except| str::from_utf8(&bytes[range.clone()]).is_ok_and(|line| except.is_match(line)));
        if !excepted {
            hits.push(range);
        }
        if hits.len() == most { Go::Stop } else { Go::On }
    });
    if hits.is_empty() {
        return None;
    }
    let mut found = FoundFile { matches: hits.len(), lines: Vec::new() };
    let around = around.unwrap_or_default();
    let mut copier = LineCopier { bytes, at: 0, number: 1 };
    for (i, hit) in hits.iter().enumerate() {
        copier.skip_to_before(hit.start, around.before);
        while copier.at < hit.start {
            found.lines.extend(copier.line(Role::Context));
        }
        found.lines.extend(copier.line(Role::Match));
        let next = hits.get(i + 1).map_or(bytes.len(), |hit| hit.start);
        for _ in 0..around.after {
            if copier.at >= next {
                break;
            }
            found.lines.extend(copier.line(Role::Context));
        }
    }
    Some(found)
}

/// Copies lines and counts them.
struct LineCopier<'a> {
    bytes: &'a [u8],
    at: usize,
    number: usize,
}

impl LineCopier<'_> {
    /// Goes forward to the line that is `lines` lines before the one that begins at `begin`.
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
