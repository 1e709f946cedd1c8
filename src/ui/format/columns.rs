//! Text in columns without lines between them, such as a list of names and descriptions.

use crate::ui::format::style::Role;
use crate::ui::format::text::width;
use crate::ui::format::wrap::{Line, Span, paragraph};

/// The minimum width of a column that is broken at words; and its indentation if it stands below the others.
const LEAST_COLUMN: usize = 24;
const BELOW: usize = 6;

/// Columns of text: each as wide as its widest entry.
pub fn columns(rows: &[Vec<String>], roles: &[Role]) -> Vec<Line> {
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|text| width(text)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..roles.len()).map(widest).collect();
    let line = |row: &Vec<String>| {
        let mut line = Line::default();
        for (at, text) in row.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let missing = widths[..at].iter().map(|width| width + 2).sum::<usize>().saturating_sub(line.width());
            line = line.text(&" ".repeat(missing)).add(roles[at], text);
        }
        line
    };
    rows.iter().map(line).collect()
}

/// Columns of text whose last one is broken at words. If that column would be too narrow, it stands below the others.
pub fn broken_columns(rows: &[Vec<String>], roles: &[Role], max_width: usize) -> Vec<Line> {
    let last = roles.len() - 1;
    let heads: Vec<Vec<String>> = rows.iter().map(|row| row[..last].to_vec()).collect();
    let heads = columns(&heads, &roles[..last]);
    let beside = heads.iter().map(Line::width).max().unwrap_or(0) + 2;
    let is_beside = beside + LEAST_COLUMN <= max_width;
    let hang = if is_beside { beside } else { BELOW };
    let indent = Span::new(Role::Text, &" ".repeat(hang));
    let mut lines = Vec::new();
    for (head, row) in heads.into_iter().zip(rows) {
        let mut body = paragraph(&indent, &indent, &[Span::prose(roles[last], &row[last])], max_width);
        if is_beside {
            // The first row begins with the other columns instead of blanks.
            let words = body.remove(0);
            let text = words.content()[hang..].to_owned();
            let missing = " ".repeat(hang - head.width());
            let mut first = Line { wrap: words.wrap, ..head.text(&missing) };
            first.push(Span { role: roles[last], text });
            lines.push(first);
        } else {
            lines.push(head);
        }
        lines.extend(body);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_broken_by_words() {
        let rows = [["  /a", "says what it does in a sentence"], ["  /longer", "short"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let shown = |max_width| {
            let lines = broken_columns(&rows, &[Role::Text, Role::Muted], max_width);
            lines.iter().map(Line::content).collect::<Vec<_>>()
        };
        assert_eq!(shown(60), ["  /a       says what it does in a sentence", "  /longer  short"]);
        assert_eq!(shown(36), ["  /a       says what it does in a", "           sentence", "  /longer  short"]);
        let below = ["  /a", "      says what it does", "      in a sentence", "  /longer", "      short"];
        assert_eq!(shown(25), below);
    }
}
