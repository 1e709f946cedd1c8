//! Formats markdown while it streams in. A row is returned as soon as no further text can change it: a row of a paragraph when there
//! is a word in the next row and no mark is open, a line of code at its end, a table at its end. A returned row is final, so the
//! rows of a text do not depend on how the text was cut into pieces.

use crate::limits::ui::{PARAGRAPH_BYTES, TABLE_ROWS};
use crate::ui::format::code::Highlighter;
use crate::ui::format::inline::{Inline, Known, inline};
use crate::ui::format::style::Role;
use crate::ui::format::table::{Cell, Columns, cells, is_delimiter};
use crate::ui::format::text::{Reading, plain, width};
use crate::ui::format::wrap::{Line, Span, Wrap, breaks, newest, row, words};

#[derive(Default)]
pub struct Markdown {
    /// The incomplete line. `taken` is the number of its bytes that the paragraph contains already.
    line: String,
    taken: usize,
    block: Block,
    /// The columns that items of the present list are indented by; 0 outside of lists.
    list: usize,
    /// Whether a blank line is printed before the next block.
    gap: bool,
    /// Whether a line was printed.
    begun: bool,
    out: Vec<Line>,
}

#[derive(Default)]
enum Block {
    #[default]
    None,
    Paragraph(Paragraph),
    Code {
        fence: String,
        indent: usize,
        highlighter: Highlighter,
    },
    /// The lines of a table: its head first, then the delimiter.
    Table {
        lines: Vec<String>,
        columns: Option<Columns>,
    },
}

struct Paragraph {
    /// The source of the rows that are not printed yet.
    text: String,
    first: Span,
    next: Span,
    role: Role,
    width: usize,
    /// Rows of the present text that were printed.
    printed: usize,
    /// The printed rows were removed from `text`, so it does not begin the paragraph.
    begun: bool,
    /// The line may be the head of a table.
    may_be_table: bool,
}

/// The context of a line: after a paragraph outside of lists, or after anything else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Prose,
    Other,
}

/// What a line begins.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    Blank,
    Fence {
        indent: usize,
        fence: String,
        language: String,
    },
    Heading(usize),
    Rule,
    /// An item of a list: its indentation, and the position of its text.
    Item(usize, usize),
    /// A quote: its depth, and the position of its text.
    Quote(usize, usize),
    Bar,
    Text(usize),
}

impl Markdown {
    /// Takes the next piece and returns the rows that became final, at most `max_width` columns wide.
    pub fn push(&mut self, text: &str, max_width: usize) -> Vec<Line> {
        for piece in text.split_inclusive('\n') {
            self.line.extend(piece.chars().filter(|c| !matches!(c, '\n' | '\r')));
            if piece.ends_with('\n') {
                self.end_line(max_width);
            }
        }
        self.grow(max_width);
        std::mem::take(&mut self.out)
    }

    /// The text is complete: returns the remaining rows.
    pub fn finish(&mut self, max_width: usize) -> Vec<Line> {
        if !self.line.is_empty() {
            self.end_line(max_width);
        }
        self.close(max_width);
        std::mem::take(self).out
    }

    /// The newest words that are not in a returned row.
    pub fn newest_words(&self, max_width: usize) -> String {
        let text = match &self.block {
            Block::Paragraph(paragraph) => paragraph.text.as_str(),
            Block::None | Block::Code { .. } | Block::Table { .. } => self.line.as_str(),
        };
        let from = text.ceil_char_boundary(text.len().saturating_sub(8 * max_width));
        newest(plain(&text[from..], Reading::Prose).replace('\n', " ").trim(), max_width)
    }

    /// The rows of an incomplete table, which are not returned yet.
    pub fn unfinished_table(&self, max_width: usize) -> Vec<Line> {
        match &self.block {
            Block::Table { lines, columns: None } if lines.len() > 1 => {
                let (mut columns, rows) = set(lines, max_width);
                columns
                    .head()
                    .into_iter()
                    .chain(rows.iter().flat_map(|cells| columns.row(cells)).collect::<Vec<_>>())
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn emit(&mut self, line: Line) {
        if std::mem::take(&mut self.gap) && self.begun {
            self.out.push(Line::default());
        }
        self.begun = true;
        self.out.push(line);
    }

    fn end_line(&mut self, max_width: usize) {
        let line = std::mem::take(&mut self.line);
        let taken = std::mem::take(&mut self.taken);
        match &mut self.block {
            Block::Code { fence, indent, highlighter } => {
                let trimmed = line.trim();
                if trimmed.len() >= fence.len()
                    && trimmed.starts_with(fence.as_str())
                    && trimmed.chars().all(|c| fence.starts_with(c))
                {
                    self.block = Block::None;
                    self.gap = true;
                    return;
                }
                let cut = (*indent).min(line.len() - line.trim_start_matches(' ').len());
                let spans = highlighter.line(&line[cut..]);
                self.emit(Line { spans, wrap: Wrap::Soft });
            }
            Block::Table { .. } => self.table_line(line, max_width),
            Block::Paragraph(paragraph) if taken > 0 => {
                paragraph.text.push_str(&line[taken..]);
                self.end_paragraph_line(&line, max_width);
            }
            Block::Paragraph(_) | Block::None => {
                if let Some(start) = start(&line, Known::Whole, self.before()) {
                    self.begin(start, &line, max_width);
                }
            }
        }
    }

    /// Adds the incomplete line to the paragraph, if it is clear what the line begins.
    fn grow(&mut self, max_width: usize) {
        match &mut self.block {
            Block::Code { .. } => {}
            Block::Table { lines, .. } => {
                if lines.len() == 1 && self.line.trim_start().starts_with(|c| !"|:-".contains(c)) {
                    self.give_up_table(max_width);
                    self.grow(max_width);
                }
            }
            Block::Paragraph(paragraph) if self.taken > 0 => {
                paragraph.text.push_str(&self.line[self.taken..]);
                self.taken = self.line.len();
                self.print_rows(Known::Part);
            }
            Block::Paragraph(_) | Block::None => {
                let Some(start) = start(&self.line, Known::Part, self.before()) else {
                    return;
                };
                let from = match start {
                    Start::Heading(from) | Start::Item(_, from) | Start::Quote(_, from) => from,
                    Start::Text(indent) if !self.is_code(indent) => indent,
                    Start::Text(_) | Start::Blank | Start::Fence { .. } | Start::Rule | Start::Bar => return,
                };
                if self.line.len() > from {
                    let line = std::mem::take(&mut self.line);
                    self.begin_paragraph(start, &line, max_width);
                    self.taken = line.len();
                    self.line = line;
                    self.print_rows(Known::Part);
                }
            }
        }
    }

    /// The context of the incomplete line.
    fn before(&self) -> Before {
        if matches!(self.block, Block::Paragraph(_)) && self.list == 0 { Before::Prose } else { Before::Other }
    }

    /// Whether an indented line is code.
    fn is_code(&self, indent: usize) -> bool {
        indent >= 4 && self.list == 0 && matches!(self.block, Block::None)
    }

    /// Applies a complete line that is not part of an open block.
    fn begin(&mut self, start: Start, line: &str, max_width: usize) {
        match start {
            Start::Blank => {
                self.close(max_width);
                self.gap = true;
            }
            Start::Fence { indent, fence, language } => {
                self.close(max_width);
                self.gap = true;
                if !language.is_empty() {
                    self.emit(Line::new(Role::Muted, &language));
                }
                self.block = Block::Code { fence, indent, highlighter: Highlighter::new(&language) };
            }
            Start::Rule => {
                self.close(max_width);
                self.emit(Line::new(Role::Muted, "⁂"));
            }
            Start::Bar => {
                self.close(max_width);
                self.block = Block::Table { lines: vec![line.to_owned()], columns: None };
            }
            Start::Text(indent) if self.is_code(indent) => self.emit(Line::new(Role::Text, &line[4..])),
            Start::Heading(_) | Start::Item(..) | Start::Quote(..) | Start::Text(_) => {
                self.begin_paragraph(start, line, max_width);
                self.end_paragraph_line(line, max_width);
            }
        }
    }

    /// Begins a paragraph, or continues the present one with another line.
    fn begin_paragraph(&mut self, start: Start, line: &str, max_width: usize) {
        if let Block::Paragraph(paragraph) = &mut self.block {
            let goes_on = match &start {
                Start::Text(indent) => Some(*indent),
                Start::Quote(depth, from) if paragraph.next.text == "│ ".repeat(*depth) => Some(*from),
                _ => None,
            };
            if let Some(from) = goes_on {
                paragraph.text.push(' ');
                paragraph.text.push_str(&line[from..]);
                paragraph.may_be_table = false;
                return;
            }
        }
        self.close(max_width);
        let blank = |columns: usize| Span { role: Role::Text, text: " ".repeat(columns) };
        let (from, first, next, role) = match start {
            Start::Heading(from) => {
                self.gap = true;
                (from, Span::new(Role::Muted, &line[..from]), blank(0), Role::Strong)
            }
            Start::Item(indent, from) => {
                let mark = line[indent..from].trim_end();
                let indent = indent.min(12);
                self.list = indent + width(mark) + 1;
                (from, Span::new(Role::Text, &format!("{}{mark} ", " ".repeat(indent))), blank(self.list), Role::Text)
            }
            Start::Quote(depth, from) => {
                let bar = Span::new(Role::Muted, &"│ ".repeat(depth));
                (from, bar.clone(), bar, Role::Text)
            }
            Start::Text(indent) => {
                self.list = if indent == 0 { 0 } else { self.list };
                let columns = indent.min(self.list);
                (indent, blank(columns), blank(columns), Role::Text)
            }
            Start::Blank | Start::Fence { .. } | Start::Rule | Start::Bar => return,
        };
        let width = max_width.saturating_sub(width(&next.text)).max(1);
        let may_be_table = first.text.is_empty();
        let text = line[from..].to_owned();
        self.block =
            Block::Paragraph(Paragraph { text, first, next, role, width, printed: 0, begun: false, may_be_table });
    }

    fn end_paragraph_line(&mut self, line: &str, max_width: usize) {
        let Block::Paragraph(paragraph) = &mut self.block else {
            return;
        };
        // The head of a table looks like a paragraph of one line.
        if paragraph.may_be_table && line.contains('|') && width(line) <= paragraph.width {
            self.block = Block::Table { lines: vec![line.to_owned()], columns: None };
            return;
        }
        paragraph.may_be_table = false;
        if paragraph.role == Role::Strong {
            self.close(max_width);
            self.gap = true;
        } else if line.ends_with("  ") || line.ends_with('\\') {
            // A hard break: the next line begins a row.
            let length = paragraph.text.trim_end_matches('\\').trim_end().len();
            paragraph.text.truncate(length);
            self.print_rows(Known::Whole);
            if let Block::Paragraph(paragraph) = &mut self.block {
                paragraph.first = paragraph.next.clone();
                paragraph.begun = false;
            }
        } else {
            self.print_rows(Known::Part);
        }
    }

    /// Prints the final rows of the paragraph; all rows if the paragraph is complete.
    fn print_rows(&mut self, known: Known) {
        let Block::Paragraph(paragraph) = &mut self.block else {
            return;
        };
        let known = if paragraph.text.len() > PARAGRAPH_BYTES { Known::Whole } else { known };
        let Inline { spans, sources } = inline(&paragraph.text, known, 4 * paragraph.width, paragraph.role);
        let mut words = words(&spans, paragraph.width);
        // The last word may still grow, so none of its pieces is final.
        if known == Known::Part && !spans.last().is_some_and(|span| span.text.ends_with(' ')) {
            while words.pop().is_some_and(|word| word.blank.is_none() && !word.is_wide()) {}
        }
        let starts = breaks(&words, paragraph.width);
        let rows = if known == Known::Whole { starts.len() } else { starts.len().saturating_sub(1) };
        let hang = width(&paragraph.next.text);
        let mut lines = Vec::new();
        for at in paragraph.printed..rows {
            let end = starts.get(at + 1).copied().unwrap_or(words.len());
            let (indent, wrap) = match at == 0 && !paragraph.begun {
                true => (&paragraph.first, Wrap::First(hang)),
                false => (&paragraph.next, Wrap::Next(hang)),
            };
            lines.push(row(indent, &words[starts[at]..end], wrap));
        }
        // An item or a heading without text.
        if known == Known::Whole && words.is_empty() && !paragraph.begun && paragraph.first != paragraph.next {
            lines.push(row(&paragraph.first, &[], Wrap::First(hang)));
        }
        paragraph.printed = rows.max(paragraph.printed);
        // The text can be cut before a word if no mark is open there.
        let rest = starts.get(rows).map(|start| &words[*start]).filter(|word| word.blank.is_some());
        let source = rest.and_then(|word| Some(sources[word.from.0]? + word.from.1));
        if let Some(cut) = if known == Known::Whole { Some(paragraph.text.len()) } else { source.filter(|_| rows > 0) }
        {
            // The remaining text is parsed again with each piece, so it must be short.
            paragraph.text.drain(..cut);
            paragraph.printed = 0;
            paragraph.begun = true;
        }
        lines.into_iter().for_each(|line| self.emit(line));
    }

    fn table_line(&mut self, line: String, max_width: usize) {
        let Block::Table { lines, columns } = &mut self.block else {
            return;
        };
        let is_part = if lines.len() == 1 { is_delimiter(&line) } else { line.contains('|') };
        if !is_part {
            match lines.len() {
                1 => self.give_up_table(max_width),
                _ => self.close(max_width),
            }
            self.line = line;
            return self.end_line(max_width);
        }
        match columns {
            Some(columns) => {
                let rows = columns.row(&styled(&line));
                rows.into_iter().for_each(|line| self.emit(line));
            }
            None => {
                lines.push(line);
                if lines.len() > TABLE_ROWS + 1 {
                    self.print_table(max_width);
                }
            }
        }
    }

    /// Prints the rows of the table so far, and fixes the widths of its columns.
    fn print_table(&mut self, max_width: usize) {
        let Block::Table { lines, columns } = &mut self.block else {
            return;
        };
        let (mut found, rows) = set(lines, max_width);
        let mut printed = found.head();
        printed.extend(rows.iter().flat_map(|cells| found.row(cells)));
        *columns = Some(found);
        self.gap = true;
        printed.into_iter().for_each(|line| self.emit(line));
    }

    /// Ends the open block and prints its remaining rows.
    fn close(&mut self, max_width: usize) {
        match &mut self.block {
            Block::None => {}
            Block::Paragraph(_) => self.print_rows(Known::Whole),
            Block::Code { .. } => self.gap = true,
            Block::Table { lines, .. } if lines.len() == 1 => {
                self.give_up_table(max_width);
                self.print_rows(Known::Whole);
            }
            Block::Table { columns, .. } => {
                if columns.is_none() {
                    self.print_table(max_width);
                }
                self.gap = true;
            }
        }
        self.block = Block::None;
    }

    /// The line that looked like the head of a table begins a paragraph.
    fn give_up_table(&mut self, max_width: usize) {
        if let Block::Table { lines, .. } = std::mem::take(&mut self.block) {
            let line = lines.concat();
            self.begin_paragraph(Start::Text(line.len() - line.trim_start().len()), &line, max_width);
            if let Block::Paragraph(paragraph) = &mut self.block {
                paragraph.may_be_table = false;
            }
        }
    }
}

/// The columns and the rows of a table.
fn set(lines: &[String], max_width: usize) -> (Columns, Vec<Vec<Cell>>) {
    let rows: Vec<Vec<Cell>> = lines[2..].iter().map(|line| styled(line)).collect();
    (Columns::new(styled(&lines[0]), &lines[1], &rows, max_width), rows)
}

/// The cells of a line with their marks.
fn styled(line: &str) -> Vec<Cell> {
    cells(line).iter().map(|cell| inline(cell, Known::Whole, cell.len(), Role::Text).spans).collect()
}

/// What a line begins. None if that depends on the rest of the line. A numbered list interrupts a paragraph only if it begins with 1.
fn start(line: &str, known: Known, before: Before) -> Option<Start> {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let whole = known == Known::Whole;
    let Some(first) = text.chars().next() else {
        return whole.then_some(Start::Blank);
    };
    let run = text.chars().take_while(|c| *c == first).count();
    let behind = text[run * first.len_utf8()..].chars().next();
    let only_marks = text.chars().all(|c| c == first || c == ' ');
    let marks = text.chars().filter(|c| *c == first).count();
    let plain = Some(Start::Text(indent));
    match first {
        '#' | '-' | '*' | '_' | '+' | '`' | '~' if only_marks && !whole => None,
        '#' if run <= 6 && behind == Some(' ') => Some(Start::Heading(indent + run + 1)),
        '`' | '~' if run >= 3 => {
            let language = text[run..].trim();
            match (first == '`' && language.contains('`'), whole) {
                (true, _) => plain,
                (false, false) => None,
                (false, true) => {
                    let fence = text[..run].to_owned();
                    let language = language.split_whitespace().next().unwrap_or_default().to_owned();
                    Some(Start::Fence { indent, fence, language })
                }
            }
        }
        '-' | '*' | '_' if only_marks && marks >= 3 => Some(Start::Rule),
        '-' | '*' | '+' if run == 1 && (behind == Some(' ') || whole && behind.is_none()) => {
            Some(Start::Item(indent, (indent + 2).min(line.len())))
        }
        '0'..='9' => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let mut rest = text[digits..].chars();
            match (rest.next(), rest.next()) {
                (Some('.' | ')'), Some(' '))
                    if digits <= 9 && (before != Before::Prose || &text[..digits] == "1" || indent > 0) =>
                {
                    Some(Start::Item(indent, indent + digits + 2))
                }
                (None, _) | (Some('.' | ')'), None) if !whole => None,
                _ => plain,
            }
        }
        '>' => {
            let (mut depth, mut rest) = (0, text);
            while let Some(inner) = rest.strip_prefix('>') {
                depth += 1;
                rest = inner.strip_prefix(' ').unwrap_or(inner);
            }
            (whole || !rest.is_empty()).then_some(Start::Quote(depth, line.len() - rest.len()))
        }
        '|' => Some(Start::Bar),
        _ => plain,
    }
}

#[cfg(test)]
mod tests;
