//! The draft of a prompt: text, cursor, kill ring, undo, and folded pastes. A folded paste is one private-use character in the text, so
//! that the cursor moves over it and deletes it as one; the text that is sent has the pasted content in its place.

use crate::limits::ui::{FOLD_BYTES, FOLD_LINES, FOLDS, KILLS, UNDO_BYTES, UNDO_STEPS};
use crate::ui::format::text::{Cluster, Reading, clusters, plain, width};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

/// The character of the first folded paste.
const FOLD: u32 = 0x10_0000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    text: String,
    /// A byte of the text, between two clusters.
    cursor: usize,
    folds: Vec<String>,
    kills: VecDeque<String>,
    undo: Vec<Snapshot>,
    redo: Vec<Snapshot>,
    last_change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Snapshot {
    text: String,
    cursor: usize,
}

/// The kind of the last change. Changes of the same kind in a row are undone together, and kills in a row are yanked together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Change {
    #[default]
    Other,
    Typed,
    Erased,
    Killed,
    /// This many bytes before the cursor, from this entry of the ring.
    Yanked(usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

impl Direction {
    /// The next position in a list of `count` entries; the first entry follows the last one.
    pub fn step(self, at: usize, count: usize) -> usize {
        match self {
            Direction::Up => (at + count - 1) % count,
            Direction::Down => (at + 1) % count,
        }
    }
}

impl Draft {
    pub fn new(text: &str) -> Draft {
        Draft { text: normalised(text), cursor: normalised(text).len(), ..Draft::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The text as it is shown, with marks for folded pastes.
    pub fn shown(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The text to send, with the contents of folded pastes.
    pub fn content(&self) -> String {
        let mut content = String::with_capacity(self.text.len());
        for c in self.text.chars() {
            match self.fold(c) {
                Some(fold) => content.push_str(fold),
                None => content.push(c),
            }
        }
        content
    }

    fn fold(&self, c: char) -> Option<&str> {
        let number = (c as u32).checked_sub(FOLD)?;
        self.folds.get(number as usize).map(String::as_str)
    }

    /// The label that is shown for a folded paste: `[pasted 214 lines #1]`.
    fn label(&self, c: char) -> Option<String> {
        let number = (c as u32).checked_sub(FOLD)? + 1;
        let lines = self.fold(c)?.lines().count();
        Some(format!("[pasted {lines} line{} #{number}]", if lines == 1 { "" } else { "s" }))
    }

    /// Replaces the text. This can be undone.
    pub fn replace(&mut self, text: &str) {
        self.push_undo(Change::Other);
        self.text = normalised(text);
        self.cursor = self.text.len();
    }

    /// Replaces a part of the text as it is shown, and moves the cursor to its end. Folded pastes outside of the part stay.
    pub fn replace_range(&mut self, range: Range<usize>, text: &str) {
        self.push_undo(Change::Other);
        self.cursor = range.end;
        self.remove(range.start);
        self.insert(&normalised(text));
    }

    /// Empties the draft and its undo history, and returns the text to send.
    pub fn take(&mut self) -> String {
        let content = self.content();
        *self = Draft { kills: std::mem::take(&mut self.kills), ..Draft::default() };
        content
    }

    pub fn type_text(&mut self, text: &str) {
        // A group of typed text that is undone at once ends before each word.
        let goes_on = self.last_change == Change::Typed
            && !(text.starts_with(|c: char| !c.is_whitespace())
                && self.text[..self.cursor].ends_with(char::is_whitespace));
        self.push_undo(if goes_on { Change::Typed } else { Change::Other });
        self.last_change = Change::Typed;
        self.insert(&normalised(text));
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Inserts pasted text; a long one is folded.
    pub fn paste(&mut self, text: &str) {
        self.push_undo(Change::Other);
        let text = normalised(text);
        let long = text.len() > FOLD_BYTES || text.lines().count() > FOLD_LINES;
        match char::from_u32(FOLD + self.folds.len() as u32).filter(|_| long && self.folds.len() < FOLDS) {
            Some(mark) => {
                self.folds.push(text);
                self.insert(mark.encode_utf8(&mut [0; 4]));
            }
            None => self.insert(&text),
        }
    }

    /// Replaces the folded paste at the cursor with its content. Returns whether there is one.
    pub fn unfold(&mut self) -> bool {
        let before = self.text[..self.cursor].chars().next_back();
        let behind = self.text[self.cursor..].chars().next();
        let found = [behind, before].into_iter().flatten().find_map(|c| Some((c, self.fold(c)?.to_owned())));
        let Some((mark, fold)) = found else {
            return false;
        };
        self.push_undo(Change::Other);
        if behind != Some(mark) {
            self.cursor -= mark.len_utf8();
        }
        self.text.replace_range(self.cursor..self.cursor + mark.len_utf8(), "");
        self.insert(&fold);
        true
    }

    pub fn has_fold(&self) -> bool {
        self.text.chars().any(|c| self.fold(c).is_some())
    }

    /// The position that a motion moves to.
    fn target(&self, motion: Motion) -> usize {
        let (before, behind) = self.text.split_at(self.cursor);
        match motion {
            Motion::Left => {
                let line = before.rfind('\n').map_or(0, |at| at + 1);
                match clusters(&before[line..]).last() {
                    Some(cluster) => self.cursor - cluster.text.len(),
                    None => self.cursor.saturating_sub(1),
                }
            }
            Motion::Right => self.cursor + clusters(behind).next().map_or(0, |cluster| cluster.text.len()),
            Motion::WordLeft => word_start(before),
            Motion::WordRight => self.cursor + word_end(behind),
            Motion::LineStart => before.rfind('\n').map_or(0, |at| at + 1),
            Motion::LineEnd => self.cursor + behind.find('\n').unwrap_or(behind.len()),
        }
    }

    /// Moves the cursor. At the end of a line, Home and End go on to the end of the draft.
    pub fn move_by(&mut self, motion: Motion) {
        self.last_change = Change::Other;
        let target = self.target(motion);
        self.cursor = match motion {
            Motion::LineStart if target == self.cursor => 0,
            Motion::LineEnd if target == self.cursor => self.text.len(),
            _ => target,
        };
    }

    pub fn move_to(&mut self, cursor: usize) {
        self.last_change = Change::Other;
        self.cursor = cursor;
    }

    pub fn erase(&mut self, motion: Motion) {
        self.push_undo(Change::Erased);
        let target = self.target(motion);
        self.remove(target);
    }

    /// Removes the text between the cursor and the target.
    fn remove(&mut self, target: usize) -> String {
        let range = self.cursor.min(target)..self.cursor.max(target);
        self.cursor = range.start;
        self.text.drain(range).collect()
    }

    /// Erases into the kill ring. Kills in a row make one entry.
    pub fn kill(&mut self, motion: Motion) {
        let mut target = self.target(motion);
        if target == self.cursor {
            // At the end of a line the line feed is killed.
            target = match motion {
                Motion::LineStart => self.cursor.saturating_sub(1),
                Motion::LineEnd => (self.cursor + 1).min(self.text.len()),
                _ => target,
            };
        }
        let (backwards, joins) = (target < self.cursor, self.last_change == Change::Killed);
        self.push_undo(Change::Killed);
        let killed = self.remove(target);
        match self.kills.front_mut().filter(|_| joins) {
            Some(last) if backwards => last.insert_str(0, &killed),
            Some(last) => last.push_str(&killed),
            None if killed.is_empty() => {}
            None => {
                self.kills.push_front(killed);
                self.kills.truncate(KILLS);
            }
        }
    }

    pub fn yank(&mut self) {
        self.yank_entry(0);
    }

    /// Replaces the text that was just yanked with the next older entry of the kill ring.
    pub fn yank_older(&mut self) {
        if let Change::Yanked(bytes, entry) = self.last_change {
            self.text.drain(self.cursor - bytes..self.cursor);
            self.cursor -= bytes;
            self.yank_entry((entry + 1) % self.kills.len().max(1));
        }
    }

    fn yank_entry(&mut self, entry: usize) {
        if let Some(text) = self.kills.get(entry).cloned() {
            self.push_undo(Change::Other);
            self.insert(&text);
            self.last_change = Change::Yanked(text.len(), entry);
        }
    }

    /// Makes the present text a step of the undo history, unless the change continues the last one.
    fn push_undo(&mut self, change: Change) {
        if change == Change::Other || change != self.last_change {
            self.undo.push(Snapshot { text: self.text.clone(), cursor: self.cursor });
            let bytes = |undo: &[Snapshot]| undo.iter().map(|snapshot| snapshot.text.len()).sum::<usize>();
            while self.undo.len() > UNDO_STEPS || (self.undo.len() > 1 && bytes(&self.undo) > UNDO_BYTES) {
                self.undo.remove(0);
            }
        }
        self.redo.clear();
        self.last_change = change;
    }

    pub fn undo(&mut self) {
        if let Some(before) = self.undo.pop() {
            let now = self.restore(before);
            self.redo.push(now);
        }
    }

    pub fn redo(&mut self) {
        if let Some(after) = self.redo.pop() {
            let now = self.restore(after);
            self.undo.push(now);
        }
    }

    fn restore(&mut self, snapshot: Snapshot) -> Snapshot {
        self.last_change = Change::Other;
        let now = Snapshot { text: std::mem::replace(&mut self.text, snapshot.text), cursor: self.cursor };
        self.cursor = snapshot.cursor;
        now
    }

    /// The rows of the draft in a window of this width, and the row and column of the cursor.
    pub fn rows(&self, max_width: usize) -> Rows {
        let mut rows = Rows { rows: vec![Row::default()], row: 0, column: 0 };
        let (mut column, mut at) = (0, 0);
        for cluster in clusters(&self.text) {
            let (text, wide) = self.displayed(&cluster);
            let is_break = cluster.text == "\n";
            if !is_break && column > 0 && column + wide > max_width {
                rows.rows.push(Row { from: at, text: String::new() });
                column = 0;
            }
            if at == self.cursor {
                (rows.row, rows.column) = (rows.rows.len() - 1, column);
            }
            at += cluster.text.len();
            match is_break {
                true => {
                    rows.rows.push(Row { from: at, text: String::new() });
                    column = 0;
                }
                false => {
                    rows.rows.last_mut().expect("there is always a row").text.push_str(&text);
                    column += wide;
                }
            }
        }
        if at == self.cursor {
            (rows.row, rows.column) = (rows.rows.len() - 1, column);
        }
        rows
    }

    /// The text that is shown for a cluster, and its width.
    fn displayed<'a>(&self, cluster: &Cluster<'a>) -> (Cow<'a, str>, usize) {
        let text = match cluster.text.chars().next().and_then(|c| self.label(c)) {
            Some(label) => Cow::Owned(label),
            None => plain(cluster.text, Reading::Prose),
        };
        let wide = width(&text);
        (text, wide)
    }

    /// Moves the cursor up or down by a row. Returns whether there was a row.
    pub fn move_row(&mut self, direction: Direction, max_width: usize) -> bool {
        let Rows { rows, row, column } = self.rows(max_width);
        let target = match direction {
            Direction::Up => row.wrapping_sub(1),
            Direction::Down => row + 1,
        };
        let Some(Row { from, .. }) = rows.get(target) else {
            return false;
        };
        let end = rows.get(target + 1).map_or(self.text.len(), |next| next.from);
        let line = self.text[*from..end].trim_end_matches('\n');
        let (mut at, mut remaining) = (*from, column);
        for cluster in clusters(line) {
            let (_, wide) = self.displayed(&cluster);
            if wide > remaining {
                break;
            }
            remaining -= wide;
            at += cluster.text.len();
        }
        // The end of a wrapped row is the start of the next row.
        if at == end && end < self.text.len() {
            at = self.text[..at].char_indices().next_back().map_or(0, |(at, _)| at);
        }
        self.move_to(at);
        true
    }
}

/// The rows of a draft on the screen, with the row and column of the cursor.
pub struct Rows {
    pub rows: Vec<Row>,
    pub row: usize,
    pub column: usize,
}

#[derive(Default)]
pub struct Row {
    /// The position in the draft of the row's first byte.
    pub from: usize,
    pub text: String,
}

/// Typed or pasted text with plain line feeds and without the private characters of folded pastes.
fn normalised(text: &str) -> String {
    let is_mark = |c: char| (FOLD..FOLD + FOLDS as u32).contains(&(c as u32));
    text.replace("\r\n", "\n").replace('\r', "\n").replace(is_mark, "\u{fffd}")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Wide,
    Other,
}

fn class(cluster: &Cluster) -> Class {
    match cluster.text.chars().next() {
        _ if cluster.width == 2 => Class::Wide,
        Some(c) if c.is_alphanumeric() || c == '_' || c as u32 >= FOLD => Class::Word,
        _ => Class::Other,
    }
}

/// The length of the text up to the end of the next word.
fn word_end(text: &str) -> usize {
    let mut all = clusters(text).peekable();
    let mut end = 0;
    while let Some(cluster) = all.next_if(|cluster| class(cluster) == Class::Other) {
        end += cluster.text.len();
    }
    let Some(kind) = all.peek().map(class) else {
        return end;
    };
    end + all.take_while(|cluster| class(cluster) == kind).map(|cluster| cluster.text.len()).sum::<usize>()
}

/// Where the last word begins.
fn word_start(text: &str) -> usize {
    let all: Vec<Cluster> = clusters(text).collect();
    let mut at = all.len();
    while at > 0 && class(&all[at - 1]) == Class::Other {
        at -= 1;
    }
    if let Some(kind) = at.checked_sub(1).map(|last| class(&all[last])) {
        while at > 0 && class(&all[at - 1]) == kind {
            at -= 1;
        }
    }
    all[..at].iter().map(|cluster| cluster.text.len()).sum()
}

#[cfg(test)]
mod tests;
