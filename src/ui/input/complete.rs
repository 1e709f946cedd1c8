//! Completion: which part of a draft is completed, how well a candidate matches it, and the popup list below the cursor.

use crate::limits::ui::POPUP_ROWS;
use crate::ui::format::style::Role;
use crate::ui::format::text::width;
use crate::ui::format::wrap::{Line, Span};
use crate::ui::input::edit::Direction;
use std::ops::Range;

/// What is completed, with the bytes of the draft that the chosen entry replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionTarget {
    Command(Range<usize>),
    File(Range<usize>),
}

/// What can be completed at the cursor: a command that begins the draft, or a file after `@`.
pub fn completion_target(text: &str, cursor: usize) -> Option<CompletionTarget> {
    let before = &text[..cursor];
    if before.starts_with('/') && !before.contains('\n') {
        return Some(CompletionTarget::Command(0..cursor));
    }
    let mut from = None;
    let mut last = ' ';
    let mut escaped = false;
    for (at, c) in before.char_indices() {
        match c {
            '@' if last.is_whitespace() => from = Some(at),
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c.is_whitespace() || ",;!?()[]{}".contains(c) => from = None,
            _ => {}
        }
        last = c;
    }
    from.map(|from| CompletionTarget::File(from..cursor))
}

/// The score of a fuzzy match, and the matched characters of the candidate. Consecutive letters score most, then starts of words and of
/// path components, then the last path component.
pub fn fuzzy(query: &str, candidate: &str) -> Option<(i32, Vec<usize>)> {
    let exact = query.chars().any(char::is_uppercase);
    let fold = |c: char| if exact { c } else { c.to_lowercase().next().unwrap_or(c) };
    let query: Vec<char> = query.chars().map(fold).collect();
    let chars: Vec<char> = candidate.chars().collect();
    let base = chars.iter().rposition(|c| *c == '/').map_or(0, |at| at + 1);
    let bonus = |at: usize| {
        let starts =
            at == 0 || !chars[at - 1].is_alphanumeric() || (chars[at].is_uppercase() && chars[at - 1].is_lowercase());
        6 * i32::from(starts) + i32::from(at >= base)
    };
    // For each letter of the query and each character of the candidate: the best score if the two match, and where the letter before
    // matched.
    const NEVER: i32 = i32::MIN / 2;
    let mut table: Vec<Vec<(i32, usize)>> = Vec::new();
    for (number, letter) in query.iter().enumerate() {
        let mut best = (if number == 0 { 0 } else { NEVER }, 0);
        let mut row = vec![(NEVER, 0); chars.len()];
        for at in 0..chars.len() {
            if let Some(above) = table.last()
                && at > 1
                && above[at - 2].0 > best.0
            {
                best = (above[at - 2].0, at - 2);
            }
            if fold(chars[at]) == *letter {
                let joined = table.last().filter(|_| at > 0).map_or(NEVER, |above| above[at - 1].0 + 8);
                let (score, from) = if joined >= best.0 { (joined, at.wrapping_sub(1)) } else { best };
                row[at] = (score.max(NEVER) + bonus(at), from);
            }
        }
        table.push(row);
    }
    let Some(last) = table.last() else {
        return Some((0, Vec::new()));
    };
    let (mut at, (score, _)) = last.iter().enumerate().rev().max_by_key(|(_, (score, _))| *score)?;
    if *score < NEVER / 2 {
        return None;
    }
    let mut found = vec![at];
    for row in table[1..].iter().rev() {
        at = row[at].1;
        found.push(at);
    }
    found.reverse();
    Some((*score, found))
}

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub text: String,
    pub help: String,
    /// The characters that were typed.
    pub matched: Vec<usize>,
}

/// Which of two candidates with the same score comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    Shorter,
    Earlier,
}

/// The matching candidates, best first. A candidate is a text with a description.
pub fn rank<'a>(query: &str, ties: TieBreak, candidates: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Entry> {
    let mut found: Vec<(i32, Entry)> = candidates
        .filter_map(|(text, help)| {
            let (score, matched) = fuzzy(query, text)?;
            Some((score, Entry { text: text.into(), help: help.into(), matched }))
        })
        .collect();
    // If commands contain the typed word literally, other matches are left out.
    let literal = |entry: &Entry| entry.matched.windows(2).all(|pair| pair[1] == pair[0] + 1);
    if ties == TieBreak::Earlier && found.iter().any(|(_, entry)| literal(entry)) {
        found.retain(|(_, entry)| literal(entry));
    }
    found.sort_by_key(|(score, entry)| (-score, if ties == TieBreak::Shorter { entry.text.len() } else { 0 }));
    found.into_iter().map(|(_, entry)| entry).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popup {
    pub target: CompletionTarget,
    pub entries: Vec<Entry>,
    pub selected: usize,
    /// The number of all candidates that the server knows.
    pub total: usize,
}

impl Popup {
    pub fn step(&mut self, direction: Direction) {
        self.selected = direction.step(self.selected, self.entries.len().max(1));
    }

    pub fn chosen(&self) -> Option<&Entry> {
        self.entries.get(self.selected)
    }

    /// The rows of the list. The last one says how much of the list is visible.
    pub fn rows(&self, max_width: usize) -> Vec<Line> {
        let seen = window(self.entries.len(), self.selected, POPUP_ROWS - 1);
        let column = self.entries[seen.clone()].iter().map(|entry| width(&entry.text)).max().unwrap_or(0) + 2;
        let mut rows: Vec<Line> = Vec::new();
        for (at, entry) in self.entries[seen.clone()].iter().enumerate() {
            let mut line = mark(at + seen.start, self.selected);
            for (number, c) in entry.text.chars().enumerate() {
                let role = if entry.matched.contains(&number) { Role::Strong } else { Role::Text };
                line.push(Span::new(role, &c.to_string()));
            }
            if !entry.help.is_empty() {
                let gap = " ".repeat(column - width(&entry.text));
                line = line.text(&gap).add(Role::Muted, &entry.help);
            }
            rows.push(line.clipped(max_width));
        }
        let count = self.entries.len();
        let seen_of = match &self.target {
            CompletionTarget::Command(_) if seen.len() < count => format!("{}–{} of {count}", seen.start + 1, seen.end),
            CompletionTarget::Command(_) => return rows,
            CompletionTarget::File(_) if count == 0 => "no such file".to_owned(),
            CompletionTarget::File(_) => format!("{count} of {}", self.total.max(count)),
        };
        rows.push(Line::new(Role::Muted, &format!("    {seen_of}")));
        rows
    }
}

/// The beginning of a row in a list of choices; it marks the selected one.
pub fn mark(at: usize, selected: usize) -> Line {
    if at == selected { Line::new(Role::Accent, "  › ") } else { Line::new(Role::Text, "    ") }
}

/// The visible entries of a list: those around the selected one.
pub fn window(count: usize, selected: usize, max_rows: usize) -> Range<usize> {
    let from = selected.saturating_sub(max_rows / 2).min(count.saturating_sub(max_rows));
    from..(from + max_rows).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_can_be_completed() {
        for (text, expected) in [
            ("/me|", Some(CompletionTarget::Command(0..3))),
            ("/memory sh|", Some(CompletionTarget::Command(0..10))),
            ("say /me|", None),
            ("/x\ny|", None),
            ("look at @lx|", Some(CompletionTarget::File(8..11))),
            ("@|", Some(CompletionTarget::File(0..1))),
            ("line\n@a|", Some(CompletionTarget::File(5..7))),
            ("a@b|", None),
            ("@a b|", None),
            ("@a\\ b|", Some(CompletionTarget::File(0..5))),
            ("@a, b|", None),
            ("(@a)|", None),
            ("@a|b", Some(CompletionTarget::File(0..2))),
        ] {
            let cursor = text.find('|').expect("a cursor");
            assert_eq!(completion_target(&text.replace('|', ""), cursor), expected, "{text}");
        }
    }

    #[test]
    fn better_candidates_come_first() {
        for (query, order) in [
            ("lxtst", &["tests/lexer_test.rs", "src/lexer/tests.rs"][..]),
            ("lex", &["src/lexer.rs", "src/lib/execute.rs"]),
            ("lexer", &["src/lexer.rs", "src/lexer/tests.rs", "lexer-notes/readme.md"]),
            ("main", &["src/main.rs", "src/domain.rs"]),
            ("tr", &["tests/run.rs", "src/string.rs"]),
            ("readme", &["README.md", "docs/README.md", "docs/read/me.txt"]),
            ("mod", &["src/mod.rs", "src/model.rs", "src/a/b/c/mod.rs"]),
            ("ui/ed", &["src/ui/input/edit.rs", "src/ui/keyed.rs"]),
            ("fb", &["foo_bar.rs", "fob.rs"]),
            ("FooBar", &["src/FooBar.java"]),
            ("a", &["a.rs", "b/a.rs", "ba.rs"]),
            ("test", &["test.rs", "tests/a.rs", "src/latest.rs"]),
            ("cargo", &["Cargo.toml", "src/cargo/mod.rs"]),
            ("rs", &["src/rs.txt", "src/remove_self.py"]),
            ("lib", &["lib.rs", "src/lib.rs", "src/library/a.rs"]),
            ("st", &["src/style.rs", "src/list.rs"]),
            ("e2e", &["tests/e2e.rs", "tests/e2e/log.rs"]),
            ("edit", &["src/edit.rs", "src/credit.rs"]),
            ("src/m", &["src/main.rs", "src/some.rs"]),
            ("mk", &["Makefile.kt", "monkey.txt"]),
            ("日本", &["docs/日本.md", "日x本.md"]),
            ("p.t", &["src/p.ts", "plan.txt"]),
            ("conf", &["conf.toml", "src/config.rs", "docs/no conflict.md"]),
            ("ab", &["a_b.rs", "xaxb.rs"]),
            ("TR", &["TestRun.java"]),
        ] {
            let mut shuffled: Vec<(&str, &str)> = order.iter().map(|text| (*text, "")).collect();
            for _ in 0..order.len() {
                shuffled.rotate_left(1);
                let found: Vec<String> = rank(query, TieBreak::Shorter, shuffled.iter().copied())
                    .into_iter()
                    .map(|entry| entry.text)
                    .collect();
                assert_eq!(found, order, "{query}");
            }
        }
        for (query, candidate) in
            [("xyz", "src/lexer.rs"), ("aa", "a"), ("Lex", "src/lexer.rs"), ("sl", "ls"), ("a", "")]
        {
            assert_eq!(fuzzy(query, candidate), None, "{query} {candidate}");
        }
    }

    #[test]
    fn the_matched_letters_are_returned() {
        let matched = |query: &str, candidate: &str| fuzzy(query, candidate).map(|(_, matched)| matched);
        assert_eq!(matched("ab", "xaab"), Some(vec![2, 3]));
        assert_eq!(matched("sl", "src/lexer.rs"), Some(vec![0, 4]));
        assert_eq!(matched("", "any"), Some(vec![]));
        assert_eq!(matched("é", "café"), Some(vec![3]));
    }

    #[test]
    fn a_list_shows_a_window_around_the_selected_entry() {
        assert_eq!(window(3, 0, 6), 0..3);
        assert_eq!(window(20, 0, 6), 0..6);
        assert_eq!(window(20, 10, 6), 7..13);
        assert_eq!(window(20, 19, 6), 14..20);
        let entries = rank("", TieBreak::Earlier, (0..20).map(|_| ("/memory show", "what is remembered")));
        let mut popup = Popup { target: CompletionTarget::Command(0..0), entries, selected: 0, total: 20 };
        popup.step(Direction::Up);
        let rows: Vec<String> = popup.rows(30).iter().map(Line::content).collect();
        assert_eq!(rows.len(), POPUP_ROWS);
        assert_eq!(rows[5], "  › /memory show  what is rem…");
        assert_eq!(rows[6], "    15–20 of 20");
    }
}
