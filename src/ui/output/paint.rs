//! Paints frames: finished lines go into the terminal's scrollback and are not changed again; the live region below them is overwritten
//! in place. Only relative cursor moves are used, and no scroll regions or screen clears, because they make some terminals lose rows.
//!
//! Rows are overwritten and then cleared to their end, so that they do not flicker; they are erased first only after a resize. The
//! painter counts the rows that it painted and assumes nothing about how a terminal moves them in a resize: at worst, a row of the
//! live region is left behind.

use crate::ui::format::style::{Role, Style, ascii};
use crate::ui::format::text::clusters;
use crate::ui::format::wrap::Line;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// The contents of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Lines that are printed into the scrollback.
    pub finished: Vec<Line>,
    pub live: Vec<Line>,
    /// Row and column in the live region; None hides the cursor.
    pub cursor: Option<(usize, usize)>,
    /// The present screen is scrolled out first.
    pub redraw: bool,
    /// Sequences that show nothing: a bell, a notification, text for the clipboard.
    pub control_sequences: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    role: Role,
    text: String,
    width: usize,
    agreed: bool,
}

/// A change of more bytes is sent as one synchronised update with a hidden cursor.
const SMALL: usize = 64;

pub struct Painter {
    pub style: Style,
    size: Size,
    live: Vec<Vec<Cell>>,
    /// The row of the cursor. `cursor` is its position if it is visible.
    row: usize,
    cursor: Option<(usize, usize)>,
    /// The whole live region is to be painted, not only what changed.
    repaint_all: bool,
}

impl Painter {
    pub fn new(style: Style) -> Painter {
        Painter { style, size: Size::default(), live: Vec::new(), row: 0, cursor: None, repaint_all: true }
    }

    /// Paints the next frame as a whole, for example because the colours have changed.
    pub fn repaint(&mut self) {
        self.repaint_all = true;
    }

    /// Another program has used the terminal; the cursor is at the start of a row.
    pub fn reset(&mut self) {
        (self.live, self.row, self.repaint_all) = (Vec::new(), 0, true);
    }

    /// The bytes that change the terminal from the last frame to this one.
    pub fn paint(&mut self, frame: &Frame, size: Size) -> Vec<u8> {
        let max_rows = size.rows.saturating_sub(1).max(1);
        let cut = frame.live.len().saturating_sub(max_rows);
        let live: Vec<Vec<Cell>> =
            frame.live[cut..].iter().map(|line| cells(line, size.columns.saturating_sub(1))).collect();
        let cursor =
            frame.cursor.map(|(row, column)| (row.saturating_sub(cut), column.min(size.columns.saturating_sub(1))));
        let paint_all = self.repaint_all
            || frame.redraw
            || !frame.finished.is_empty()
            || self.size != size
            || live.len() != self.live.len();
        let mut out = SequenceWriter { bytes: String::new(), style: &self.style, role: Role::Text };
        match paint_all {
            true => {
                let erases = frame.redraw || (self.size != size && !self.live.is_empty());
                out.begin(self.row, erases);
                out.paint_all(frame, &live, cursor, size);
            }
            false => out.paint_changes(&self.live, &live, self.row, self.cursor, cursor),
        }
        out.bytes.push_str(&frame.control_sequences);
        let bytes = out.bytes.into_bytes();
        (self.live, self.size, self.repaint_all) = (live, size, false);
        (self.row, self.cursor) = (cursor.map_or(0, |(row, _)| row), cursor);
        bytes
    }
}

struct SequenceWriter<'a> {
    bytes: String,
    style: &'a Style,
    role: Role,
}

impl SequenceWriter<'_> {
    fn put(&mut self, text: &str) {
        self.bytes.push_str(text);
    }

    fn control(&mut self, number: usize, end: char) {
        match number {
            0 => {}
            1 if end != 'G' => self.put(&format!("\x1b[{end}")),
            _ => self.put(&format!("\x1b[{number}{end}")),
        }
    }

    /// Goes to the first row of the live region. After a resize the rows are erased before they are overwritten: tmux remembers
    /// which rows it wrapped, and would later join the lines that are written there.
    fn begin(&mut self, row: usize, erases: bool) {
        self.put("\x1b[?2026h\x1b[?25l\r");
        self.control(row, 'A');
        if erases {
            self.put("\x1b[J");
        }
    }

    fn paint_all(&mut self, frame: &Frame, live: &[Vec<Cell>], cursor: Option<(usize, usize)>, size: Size) {
        if frame.redraw {
            // Enough line feeds to scroll out every row above the live region, wherever that is.
            self.put(&"\n".repeat(size.rows.saturating_sub(1)));
            self.control(size.rows.saturating_sub(1), 'A');
        }
        for line in &frame.finished {
            self.line(line, size.columns);
        }
        self.put("\x1b[?7l");
        for (at, cells) in live.iter().enumerate() {
            if at > 0 {
                self.put("\r\n");
            }
            self.cells(cells, 0);
            self.put("\x1b[K");
        }
        self.put("\x1b[J\x1b[?7h");
        let last = live.len().saturating_sub(1);
        self.go(last, cursor.unwrap_or((0, 0)));
        if cursor.is_some() || live.is_empty() {
            self.put("\x1b[?25h");
        }
        self.put("\x1b[?2026l");
    }

    /// Moves the cursor from a row of the live region to a position in it.
    fn go(&mut self, from: usize, (row, column): (usize, usize)) {
        match row < from {
            true => self.control(from - row, 'A'),
            false => self.put(&"\n".repeat(row - from)),
        }
        match column {
            0 => self.put("\r"),
            _ => self.control(column + 1, 'G'),
        }
    }

    /// Prints a finished line, which the terminal wraps if it is too long.
    fn line(&mut self, line: &Line, columns: usize) {
        let cells = cells(line, usize::MAX);
        let width: usize = cells.iter().map(|cell| cell.width).sum();
        let mut column = 0;
        for cell in &cells {
            if column + cell.width > columns {
                if column < columns {
                    // A wide character that does not fit leaves the old content of the last column.
                    self.put("\x1b[K");
                }
                column = 0;
            }
            column += cell.width;
            self.cell(cell);
            if !cell.agreed && width < columns {
                self.control(column + 1, 'G');
            }
        }
        self.set(Role::Text);
        // After a full row the cursor is still on its last character.
        if column < columns {
            self.put("\x1b[K");
        }
        self.put("\r\n");
    }

    /// Writes cells of a live row, starting at a column.
    fn cells(&mut self, cells: &[Cell], from: usize) {
        let mut column = from;
        for cell in cells {
            column += cell.width;
            self.cell(cell);
            if !cell.agreed {
                self.control(column + 1, 'G');
            }
        }
        self.set(Role::Text);
    }

    fn cell(&mut self, cell: &Cell) {
        self.set(cell.role);
        match self.style.unicode {
            true => self.put(&cell.text),
            false => {
                let text = ascii(&cell.text).into_owned();
                self.put(&text);
            }
        }
    }

    fn set(&mut self, role: Role) {
        let (before, after) = (self.style.sgr(self.role), self.style.sgr(role));
        self.role = role;
        match (before.as_ref(), after.as_ref()) {
            (before, after) if before == after => {}
            (_, "") => self.put("\x1b[m"),
            ("", after) => self.put(&format!("\x1b[{after}m")),
            (_, after) => self.put(&format!("\x1b[0;{after}m")),
        }
    }

    /// Writes only the cells that differ.
    fn paint_changes(
        &mut self,
        old: &[Vec<Cell>],
        new: &[Vec<Cell>],
        row: usize,
        seen: Option<(usize, usize)>,
        cursor: Option<(usize, usize)>,
    ) {
        let mut at = row;
        for (number, (old, new)) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
            let width = |cells: &[Cell]| cells.iter().map(|cell| cell.width).sum::<usize>();
            let column = width(&new[..same]);
            let (old_rest, new_rest) = (&old[same..], &new[same..]);
            // Cells after a change of equal width are not written.
            let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
            let fits = width(old_rest) == width(new_rest) && new.iter().all(|cell| cell.agreed);
            let tail = if fits { tail } else { 0 };
            self.go(at, (number, column));
            self.cells(&new_rest[..new_rest.len() - tail], column);
            if width(old_rest) > width(new_rest) || !fits {
                self.put("\x1b[K");
            }
            at = number;
        }
        let moved = at != row || !self.bytes.is_empty();
        if moved || seen != cursor {
            self.go(at, cursor.unwrap_or((0, 0)));
        }
        match (seen, cursor) {
            (None, Some(_)) => self.put("\x1b[?25h"),
            (Some(_), None) => self.bytes.insert_str(0, "\x1b[?25l"),
            _ if self.bytes.len() > SMALL && cursor.is_some() => {
                self.bytes.insert_str(0, "\x1b[?2026h\x1b[?25l");
                self.put("\x1b[?25h\x1b[?2026l");
            }
            _ => {}
        }
    }
}

/// The cells of a line, up to this width. Lines have no control characters; if one had, it would be replaced.
fn cells(line: &Line, max_width: usize) -> Vec<Cell> {
    let mut remaining = max_width;
    let mut cells = Vec::new();
    for span in &line.spans {
        for cluster in clusters(&span.text) {
            if cluster.width > remaining {
                return cells;
            }
            remaining -= cluster.width;
            let text = cluster.text.replace(char::is_control, "?");
            cells.push(Cell { role: span.role, text, width: cluster.width, agreed: cluster.agreed });
        }
    }
    cells
}
