//! Markdown tables: aligned columns with wrapped cells, or one record per row if the columns do not fit.

use crate::ui::format::style::Role;
use crate::ui::format::text::width;
use crate::ui::format::wrap::{Line, Span, paragraph, words};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Centre,
    Right,
}

/// A cell: text with roles.
pub type Cell = Vec<Span>;

/// The blanks between two columns.
const GAP: usize = 2;

/// The columns of a table, with fixed widths.
#[derive(Debug)]
pub struct Columns {
    aligns: Vec<Align>,
    header: Vec<Cell>,
    /// None: the table is shown as records.
    widths: Option<Vec<usize>>,
    max_width: usize,
    printed: usize,
}

/// The cells of a line of a table. A `|` behind a backslash belongs to a cell.
pub fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in line.chars() {
        match c {
            '|' if !escaped => cells.push(String::new()),
            c => {
                let cell = cells.last_mut().expect("there is one");
                if c == '|' {
                    cell.pop();
                }
                cell.push(c);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    if cells.last().is_some_and(|last| last.trim().is_empty()) && cells.len() > 1 {
        cells.pop();
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Whether a line is the delimiter row, which aligns the columns: `|---|:-:|`.
pub fn is_delimiter(line: &str) -> bool {
    line.contains('-') && aligns(line).is_some() && (line.contains('|') || line.contains(':'))
}

fn aligns(line: &str) -> Option<Vec<Align>> {
    let align = |cell: &String| {
        let dashes = cell.trim_start_matches(':').trim_end_matches(':');
        (!dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')).then(|| {
            match (cell.starts_with(':'), cell.ends_with(':')) {
                (true, true) => Align::Centre,
                (false, true) => Align::Right,
                (_, false) => Align::Left,
            }
        })
    };
    cells(line).iter().map(align).collect()
}

impl Columns {
    /// The widths of the columns for these rows, in a terminal of `max_width` columns.
    pub fn new(header: Vec<Cell>, delimiter: &str, rows: &[Vec<Cell>], max_width: usize) -> Columns {
        let count = header.len();
        let all = || std::iter::once(&header).chain(rows);
        let widest = |column: usize, measure: fn(&Cell) -> usize| {
            all().filter_map(|row| row.get(column)).map(measure).max().unwrap_or(0).max(1)
        };
        let natural: Vec<usize> = (0..count).map(|column| widest(column, cell_width)).collect();
        let least: Vec<usize> = (0..count).map(|column| widest(column, longest_word)).collect();
        let mut aligns = aligns(delimiter).unwrap_or_default();
        aligns.resize(count, Align::Left);
        let widths = fair(&natural, &least, max_width.saturating_sub(GAP * count.saturating_sub(1)));
        Columns { aligns, header, widths, max_width, printed: 0 }
    }

    /// The head of the table; records have none.
    pub fn head(&self) -> Vec<Line> {
        let Some(widths) = &self.widths else {
            return Vec::new();
        };
        let strong =
            |cell: &Cell| cell.iter().map(|span| Span { role: Role::Strong, text: span.text.clone() }).collect();
        let header: Vec<Cell> = self.header.iter().map(strong).collect();
        let mut lines = self.lines(widths, &header);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        lines.push(Line::new(Role::Muted, &rule.join("  ")));
        lines
    }

    pub fn row(&mut self, cells: &[Cell]) -> Vec<Line> {
        self.printed += 1;
        match &self.widths {
            Some(widths) => self.lines(widths, cells),
            None => self.record(cells),
        }
    }

    /// A row of the table, as lines of wrapped cells.
    fn lines(&self, widths: &[usize], cells: &[Cell]) -> Vec<Line> {
        let none = Cell::new();
        let broken: Vec<Vec<Line>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| wrapped(cells.get(column).unwrap_or(&none), *width))
            .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0).max(1);
        (0..height)
            .map(|at| {
                let mut line = Line::default();
                let mut missing = 0;
                for (column, wide) in widths.iter().enumerate() {
                    let cell = broken[column].get(at).cloned().unwrap_or_default();
                    let free = wide.saturating_sub(cell.width());
                    let before = match self.aligns[column] {
                        Align::Left => 0,
                        Align::Centre => free / 2,
                        Align::Right => free,
                    };
                    // Blanks are added only before text, so that no line ends with blanks.
                    missing += before;
                    if !cell.spans.is_empty() {
                        line = line.text(&" ".repeat(std::mem::take(&mut missing)));
                        cell.spans.into_iter().for_each(|span| line.push(span));
                    }
                    missing += free - before + GAP;
                }
                line
            })
            .collect()
    }

    /// A row as one line per column: the name of the column and the value.
    fn record(&self, cells: &[Cell]) -> Vec<Line> {
        let names: Vec<String> =
            self.header.iter().map(|cell| cell.iter().map(|span| span.text.as_str()).collect()).collect();
        let name_width = names.iter().map(|name| width(name)).max().unwrap_or(0).min(self.max_width / 2);
        let mut lines = Vec::new();
        if self.printed > 1 {
            lines.push(Line::default());
        }
        for (name, cell) in names.iter().zip(cells) {
            let room = self.max_width.saturating_sub(name_width + GAP).max(1);
            let name = Line::new(Role::Muted, name).clipped(name_width);
            let gap = name_width - name.width() + GAP;
            for (at, value) in wrapped(cell, room).into_iter().enumerate() {
                let mut line = if at == 0 {
                    name.clone().text(&" ".repeat(gap))
                } else {
                    Line::default().text(&" ".repeat(name_width + GAP))
                };
                value.spans.into_iter().for_each(|span| line.push(span));
                lines.push(line);
            }
        }
        lines
    }
}

fn cell_width(cell: &Cell) -> usize {
    cell.iter().map(|span| width(&span.text)).sum()
}

fn longest_word(cell: &Cell) -> usize {
    words(cell, usize::MAX).iter().map(|word| word.width).max().unwrap_or(0)
}

/// The rows of a cell; none if it is empty.
fn wrapped(cell: &Cell, max_width: usize) -> Vec<Line> {
    let none = Span { role: Role::Text, text: String::new() };
    let mut rows = paragraph(&none, &none, cell, max_width);
    rows.retain(|row| !row.spans.is_empty());
    rows
}

/// The widths of columns: what each needs or a fair share, and at least its longest word. None if the longest words do not fit.
fn fair(natural: &[usize], least: &[usize], room: usize) -> Option<Vec<usize>> {
    if natural.iter().sum::<usize>() <= room {
        return Some(natural.to_vec());
    }
    if least.iter().sum::<usize>() > room {
        return None;
    }
    let mut widths = least.to_vec();
    let mut remaining = room - least.iter().sum::<usize>();
    // Column by column: the narrowest one that needs more gets one more.
    while remaining > 0 {
        let wanting = (0..widths.len()).filter(|column| widths[*column] < natural[*column]);
        let Some(column) = wanting.min_by_key(|column| widths[*column]) else {
            break;
        };
        widths[column] += 1;
        remaining -= 1;
    }
    Some(widths)
}
