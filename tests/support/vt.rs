//! A small terminal: it interprets the sequences that the painter may send and panics on any other, so that no other ever leaves it.
//!
//! Cells have a character and its SGR parameters. A character at the last column leaves the cursor there until the next one comes, as
//! terminals do. Resizing either reflows lines that the terminal broke itself, or cuts and keeps them.

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    /// Empty behind a wide character.
    text: String,
    sgr: String,
}

#[derive(Clone, Debug, Default)]
struct Row {
    cells: Vec<Cell>,
    /// The terminal broke the line here: the next row continues it.
    wrapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resizing {
    Reflows,
    Cuts,
}

pub struct Vt {
    columns: usize,
    rows: usize,
    scrollback: Vec<Row>,
    screen: Vec<Row>,
    row: usize,
    column: usize,
    /// The next character goes to the next row.
    pending: bool,
    autowrap: bool,
    pub visible: bool,
    synchronised: bool,
    sgr: String,
    resizing: Resizing,
    /// What was sent that shows nothing: bells, notifications, copies.
    pub signals: Vec<String>,
}

impl Vt {
    pub fn new(columns: usize, rows: usize, resizing: Resizing) -> Vt {
        Vt {
            columns,
            rows,
            scrollback: Vec::new(),
            screen: vec![Row::default(); rows],
            row: 0,
            column: 0,
            pending: false,
            autowrap: true,
            visible: true,
            synchronised: false,
            sgr: String::new(),
            resizing,
            signals: Vec::new(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).expect("the painter writes UTF-8");
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = match c {
                '\x1b' => self.escape(&rest[1..]),
                '\r' => {
                    (self.column, self.pending) = (0, false);
                    &rest[1..]
                }
                '\n' => {
                    self.line_feed(false);
                    &rest[1..]
                }
                '\x07' => {
                    self.signals.push("bell".into());
                    &rest[1..]
                }
                c if c.is_control() => panic!("the control character {c:?} was sent"),
                c => {
                    self.print(c);
                    &rest[c.len_utf8()..]
                }
            };
        }
        assert!(!self.synchronised && self.autowrap && self.sgr.is_empty(), "a frame leaves the modes as they were");
    }

    fn escape<'a>(&mut self, rest: &'a str) -> &'a str {
        if let Some(rest) = rest.strip_prefix(']') {
            let end = rest.find('\x07').expect("an OSC ends with BEL");
            self.signals.push(listed(&rest[..end]).to_owned());
            return &rest[end + 1..];
        }
        if let Some(rest) = rest.strip_prefix("Ptmux;") {
            let end = rest.find("\x1b\\").expect("a DCS ends");
            let inner = rest[..end].strip_prefix("\x1b\x1b]").and_then(|text| text.strip_suffix('\x07'));
            listed(inner.unwrap_or_else(|| panic!("tmux may pass on an OSC, not {:?}", &rest[..end])));
            self.signals.push(format!("tmux {}", rest[..end].replace('\x1b', "ESC")));
            return &rest[end + 2..];
        }
        let rest = rest.strip_prefix('[').unwrap_or_else(|| panic!("ESC {rest:?}"));
        let end = rest.find(|c: char| ('@'..='~').contains(&c)).expect("a sequence ends");
        let (parameters, end_char) = (&rest[..end], &rest[end..end + 1]);
        let number = parameters.parse().unwrap_or(1);
        match (parameters, end_char) {
            ("?2026", "h") => self.synchronised = true,
            ("?2026", "l") => self.synchronised = false,
            ("?25", "h") => self.visible = true,
            ("?25", "l") => self.visible = false,
            ("?7", "h") => self.autowrap = true,
            ("?7", "l") => self.autowrap = false,
            // How keys are sent.
            (">1", "u") | (">4;2", "m") => {}
            (_, "A") => (self.row, self.pending) = (self.row.saturating_sub(number), false),
            (_, "G") => (self.column, self.pending) = ((number - 1).min(self.columns - 1), false),
            ("", "K") => self.erase_row(),
            ("", "J") => {
                self.erase_row();
                self.screen[self.row + 1..].iter_mut().for_each(|row| *row = Row::default());
            }
            (_, "m") => self.sgr = parameters.trim_start_matches("0;").to_owned(),
            _ => panic!("the painter may not send CSI {parameters}{end_char}"),
        }
        &rest[end + 1..]
    }

    /// From the cursor on. As in tmux, only a row that is erased as a whole is not continued by the next one any more.
    fn erase_row(&mut self) {
        let row = &mut self.screen[self.row];
        row.cells.truncate(self.column);
        row.wrapped &= self.column > 0;
        self.pending = false;
    }

    fn line_feed(&mut self, wrapped: bool) {
        self.screen[self.row].wrapped |= wrapped;
        self.pending = false;
        if self.row + 1 < self.rows {
            self.row += 1;
            return;
        }
        self.scrollback.push(self.screen.remove(0));
        self.screen.push(Row::default());
    }

    fn print(&mut self, c: char) {
        let wide = width_of(c);
        if wide == 0 {
            // It belongs to the character before it.
            let column = self.column.saturating_sub(usize::from(!self.pending));
            let cells = &mut self.screen[self.row].cells;
            let base = cells[..=column].iter_mut().rev().find(|cell| !cell.text.is_empty());
            return base.expect("a character before").text.push(c);
        }
        if self.pending || self.column + wide > self.columns {
            if !self.autowrap {
                self.column = self.columns - wide;
            } else {
                self.line_feed(true);
                self.column = 0;
            }
            self.pending = false;
        }
        let cells = &mut self.screen[self.row].cells;
        while cells.len() < self.column + wide {
            cells.push(Cell { text: " ".into(), sgr: String::new() });
        }
        cells[self.column] = Cell { text: c.into(), sgr: self.sgr.clone() };
        if wide == 2 {
            cells[self.column + 1] = Cell { text: String::new(), sgr: self.sgr.clone() };
        }
        self.column += wide;
        if self.column == self.columns {
            (self.column, self.pending) = (self.columns - 1, true);
        }
    }

    pub fn resize(&mut self, columns: usize, rows: usize) {
        match self.resizing {
            Resizing::Cuts => self.screen.iter_mut().for_each(|row| row.cells.truncate(columns)),
            Resizing::Reflows => self.reflow(columns),
        }
        self.columns = columns;
        self.column = self.column.min(columns - 1);
        self.pending = false;
        // A lower screen loses rows at its top once the rows below the cursor are used up.
        while self.screen.len() > rows {
            if self.screen.len() > self.row + 1 {
                self.screen.pop();
            } else {
                self.scrollback.push(self.screen.remove(0));
                self.row -= 1;
            }
        }
        self.screen.resize(rows, Row::default());
        self.rows = rows;
    }

    /// Joins the rows that were broken by the terminal and breaks them anew. The cursor stays with its character.
    fn reflow(&mut self, columns: usize) {
        let mut lines: Vec<(Vec<Cell>, Option<usize>)> = Vec::new();
        let mut joins = false;
        for (at, row) in self.screen.iter().enumerate() {
            if !joins {
                lines.push((Vec::new(), None));
            }
            let (cells, cursor) = lines.last_mut().expect("one was pushed");
            if at == self.row {
                *cursor = Some(cells.len() + self.column);
            }
            cells.extend(row.cells.iter().cloned());
            joins = row.wrapped;
        }
        let (mut screen, mut new_cursor) = (Vec::new(), (0, 0));
        for (cells, cursor) in lines {
            let first = screen.len();
            let mut pieces: Vec<Vec<Cell>> = cells.chunks(columns).map(<[Cell]>::to_vec).collect();
            if pieces.is_empty() {
                pieces.push(Vec::new());
            }
            if let Some(at) = cursor {
                let row = (at / columns).min(pieces.len() - 1);
                new_cursor = (first + row, at - row * columns);
            }
            let last = pieces.len() - 1;
            screen.extend(pieces.into_iter().enumerate().map(|(at, cells)| Row { cells, wrapped: at < last }));
        }
        (self.row, self.column) = (new_cursor.0, new_cursor.1.min(columns - 1));
        // Empty rows at the end are no content.
        while screen.len() > self.row + 1 && screen.last().is_some_and(|row| row.cells.is_empty()) {
            screen.pop();
        }
        self.screen = screen;
    }

    /// What is seen, with `█` at the cursor if it is visible.
    pub fn picture(&self) -> String {
        let mut rows: Vec<String> = self.screen.iter().map(text_of).collect();
        if self.visible {
            let row = &self.screen[self.row];
            let mut cells: Vec<String> = row.cells.iter().map(|cell| cell.text.clone()).collect();
            while cells.len() <= self.column {
                cells.push(" ".into());
            }
            cells[self.column] = format!("█{}", if cells[self.column] == " " { "" } else { &cells[self.column] });
            rows[self.row] = cells.concat().trim_end().to_owned();
        }
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows.join("\n")
    }

    fn all(&self) -> impl Iterator<Item = &Row> {
        self.scrollback.iter().chain(&self.screen)
    }

    /// Scrollback and screen as one text.
    pub fn everything(&self) -> String {
        self.all().map(text_of).collect::<Vec<_>>().join("\n").trim_end_matches('\n').to_owned()
    }

    /// The rows above the screen.
    pub fn scrolled(&self) -> Vec<String> {
        self.scrollback.iter().map(text_of).collect()
    }

    /// The same with SGR parameters: `{36}text{}`.
    pub fn styled(&self) -> String {
        let row = |row: &Row| {
            let mut text = String::new();
            let mut sgr = "";
            for cell in &row.cells {
                if cell.sgr != sgr {
                    sgr = &cell.sgr;
                    text.push_str(&format!("{{{sgr}}}"));
                }
                text.push_str(&cell.text);
            }
            text.trim_end().to_owned()
        };
        self.all().map(row).collect::<Vec<_>>().join("\n").trim_end_matches('\n').to_owned()
    }

    pub fn cursor(&self) -> (usize, usize) {
        (self.row, self.column)
    }
}

/// The strings that may follow OSC: notifications, and text for the clipboard.
fn listed(text: &str) -> &str {
    let plain = |text: &str| text.chars().count() <= 100 && !text.chars().any(char::is_control);
    let base64 = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c));
    let is_listed = text.strip_prefix("9;").is_some_and(plain)
        || text.strip_prefix("777;notify;gemini-a2a;").is_some_and(plain)
        || text.strip_prefix("52;c;").is_some_and(base64);
    assert!(is_listed, "the painter may not send OSC {text:?}");
    text
}

fn text_of(row: &Row) -> String {
    row.cells.iter().map(|cell| cell.text.as_str()).collect::<String>().trim_end().to_owned()
}

/// Widths by blocks only: the tables under test are not used to test themselves.
fn width_of(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f | 0x20d0..=0x20ff | 0x1f3fb..=0x1f3ff => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
