//! The queue of lines that are printed into the scrollback, and the lines that were printed last. If the terminal is slower than
//! lines are added, the queue drops its oldest lines beyond a few MiB and prints how many are missing.

use crate::limits::ui::{FRAME_BYTES, LINE_BYTES, LINES_KEPT, LINES_WAITING, WAITING_BYTES};
use crate::ui::format::style::Role;
use crate::ui::format::wrap::{Line, Span, rewrap};
use crate::ui::output::block::plural;
use std::collections::VecDeque;

/// The kind of a block of lines. A blank line is printed between blocks, except between tool calls and inside of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    Text,
    /// The continuation of the text that was printed last.
    MoreText,
    Tool,
    Other,
}

#[derive(Debug, Default)]
pub struct PrintQueue {
    /// The kind of the last block.
    last: Option<BlockKind>,
    waiting: VecDeque<Line>,
    bytes: usize,
    /// The number of lines that were dropped before the waiting ones.
    skipped: usize,
    /// While printing is on hold: how many lines are kept, the newest ones.
    hold_limit: Option<usize>,
    /// Lines that were added before printing was put on hold; they are printed at once.
    before_hold: Vec<Line>,
    printed: VecDeque<Line>,
}

impl PrintQueue {
    /// Adds a block.
    pub fn print(&mut self, kind: BlockKind, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        let joins = match kind {
            BlockKind::Text | BlockKind::Other => false,
            BlockKind::MoreText => matches!(self.last, Some(BlockKind::Text | BlockKind::MoreText)),
            BlockKind::Tool => self.last == Some(BlockKind::Tool),
        };
        if self.last.is_some() && !joins {
            self.waiting.push_back(Line::default());
        }
        self.last = Some(kind);
        for line in lines.into_iter().flat_map(split_long_line) {
            self.bytes += line.bytes();
            self.waiting.push_back(line);
        }
        while self.bytes > WAITING_BYTES || self.hold_limit.is_some_and(|max_lines| self.waiting.len() > max_lines) {
            let Some(line) = self.waiting.pop_front() else {
                break;
            };
            self.bytes -= line.bytes();
            self.skipped += 1;
        }
    }

    /// Puts printing on hold until `release`. Of the lines that are added meanwhile only the newest are kept.
    pub fn hold(&mut self, max_lines: usize) {
        self.before_hold.extend(self.waiting.drain(..));
        self.hold_limit = Some(max_lines);
    }

    pub fn release(&mut self) {
        self.hold_limit = None;
    }

    /// Takes the lines that the next frame prints.
    pub fn take(&mut self) -> Vec<Line> {
        let mut lines = std::mem::take(&mut self.before_hold);
        let mut bytes: usize = lines.iter().map(Line::bytes).sum();
        self.bytes -= bytes;
        self.printed.extend(lines.iter().cloned());
        if self.hold_limit.is_some() {
            return lines;
        }
        let from = lines.len();
        if self.skipped > 0 {
            lines.extend((!self.printed.is_empty()).then(Line::default));
            let skipped = plural(std::mem::take(&mut self.skipped), "row");
            lines.push(Line::new(Role::Muted, &format!("· {skipped} before: /resume prints all")));
            if self.waiting.front().is_some_and(|line| !line.spans.is_empty()) {
                lines.push(Line::default());
            }
        }
        while bytes < FRAME_BYTES
            && let Some(line) = self.waiting.pop_front()
        {
            bytes += line.bytes();
            self.bytes -= line.bytes();
            lines.push(line);
        }
        self.printed.extend(lines[from..].iter().cloned());
        let excess = self.printed.len().saturating_sub(LINES_KEPT);
        self.printed.drain(..excess);
        lines
    }

    pub fn is_waiting(&self) -> bool {
        !self.before_hold.is_empty() || (!self.waiting.is_empty() && self.hold_limit.is_none())
    }

    /// Whether more lines can be added without dropping any.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < LINES_WAITING && self.bytes < WAITING_BYTES / 2
    }

    /// The last `rows` printed lines, wrapped to this width.
    pub fn screenful(&self, rows: usize, max_width: usize) -> Vec<Line> {
        let printed: Vec<Line> = self.printed.iter().cloned().collect();
        let mut lines = rewrap(&printed, max_width);
        lines.drain(..lines.len().saturating_sub(rows));
        lines
    }
}

/// Splits a line that is longer than a terminal should get at once.
fn split_long_line(line: Line) -> Vec<Line> {
    if line.spans.iter().map(|span| span.text.len()).sum::<usize>() <= LINE_BYTES {
        return vec![line];
    }
    let mut lines = Vec::new();
    for span in &line.spans {
        let mut rest = span.text.as_str();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.floor_char_boundary(LINE_BYTES));
            lines.push(Line { spans: vec![Span { role: span.role, text: piece.to_owned() }], wrap: line.wrap });
            rest = behind;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(range: std::ops::Range<usize>) -> Vec<Line> {
        range.map(|number| Line::new(Role::Text, &format!("{number}"))).collect()
    }

    #[test]
    fn what_a_slow_terminal_does_not_take_is_left_out_and_counted() {
        let mut print_queue = PrintQueue::default();
        let line = Line::new(Role::Text, &"x".repeat(LINE_BYTES));
        let max_lines = WAITING_BYTES / line.bytes();
        print_queue.print(BlockKind::Text, vec![line; max_lines + 7]);
        assert_eq!((print_queue.waiting.len(), print_queue.skipped), (max_lines, 7));
        assert!(print_queue.bytes <= WAITING_BYTES);
        assert_eq!(print_queue.take()[0].content(), "· 7 rows before: /resume prints all");
        while print_queue.is_waiting() {
            print_queue.take();
        }
        assert_eq!(print_queue.bytes, 0);
        print_queue.print(BlockKind::Text, numbered(0..LINES_KEPT + 9));
        print_queue.take();
        assert_eq!(print_queue.printed.len(), LINES_KEPT);
    }

    #[test]
    fn only_the_newest_lines_are_kept_during_a_hold() {
        let mut print_queue = PrintQueue::default();
        print_queue.print(BlockKind::Other, vec![Line::new(Role::Text, "header")]);
        print_queue.hold(3);
        print_queue.print(BlockKind::Text, numbered(0..10));
        let contents = |lines: Vec<Line>| lines.iter().map(Line::content).collect::<Vec<_>>();
        assert_eq!(contents(print_queue.take()), ["header"], "what was there before is not held");
        assert!(!print_queue.is_waiting() && print_queue.take().is_empty());
        print_queue.release();
        let lines = contents(print_queue.take());
        assert_eq!(lines, ["", "· 8 rows before: /resume prints all", "", "7", "8", "9"]);
    }
}
