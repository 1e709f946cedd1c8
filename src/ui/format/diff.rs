//! Formats a unified diff with line numbers, signs and gaps. It is readable without colours.

use crate::ui::format::style::Role;
use crate::ui::format::wrap::Line;

/// The first rows of a diff, and the number of all rows.
pub fn rows(diff: &str, max_rows: usize) -> (Vec<Line>, usize) {
    let (mut rows, mut count) = (Vec::new(), 0);
    let (mut old, mut new) = (0, 0);
    let mut in_hunk = false;
    let shows_returns = has_mixed_ends(diff);
    for line in diff.split('\n') {
        if let Some((from_old, from_new)) = hunk(line) {
            if in_hunk {
                add(&mut rows, &mut count, max_rows, || Line::new(Role::Muted, "    ⋯"));
            }
            (old, new, in_hunk) = (from_old, from_new, true);
            continue;
        }
        // What stands before the first hunk names the file.
        if !in_hunk || line.is_empty() {
            continue;
        }
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", line));
        let text = if shows_returns { text } else { text.trim_end_matches('\r') };
        let (number, role) = match sign {
            "+" => (new, Role::Add),
            "-" => (old, Role::Del),
            "\\" => {
                add(&mut rows, &mut count, max_rows, || Line::new(Role::Muted, "       no line feed at the end"));
                continue;
            }
            _ => (new, Role::Text),
        };
        old += usize::from(sign != "+");
        new += usize::from(sign != "-");
        add(&mut rows, &mut count, max_rows, || {
            Line::new(Role::Muted, &format!("{number:>5} ")).add(role, &format!("{sign}{text}"))
        });
    }
    (rows, count)
}

fn add(rows: &mut Vec<Line>, count: &mut usize, max_rows: usize, line: impl FnOnce() -> Line) {
    *count += 1;
    if rows.len() < max_rows {
        rows.push(line());
    }
}

/// Whether only some of the changed lines end with a carriage return: then carriage returns are shown.
fn has_mixed_ends(diff: &str) -> bool {
    let changed = || diff.split('\n').filter(|line| line.starts_with(['+', '-']));
    changed().any(|line| line.ends_with('\r')) && changed().any(|line| !line.ends_with('\r') && !line.contains('\t'))
}

/// The first lines of a hunk: `@@ -41,6 +41,9 @@`.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let mut parts = line.strip_prefix("@@ -")?.split(' ');
    let first = |range: &str| range.split(',').next()?.parse().ok();
    Some((first(parts.next()?)?, first(parts.next()?.strip_prefix('+')?)?))
}

/// The numbers of added and of removed lines.
pub fn counts(diff: &str) -> (usize, usize) {
    let body = diff.lines().skip_while(|line| hunk(line).is_none());
    body.fold((0, 0), |(added, removed), line| {
        (added + usize::from(line.starts_with('+')), removed + usize::from(line.starts_with('-')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(diff: &str) -> Vec<String> {
        rows(diff, 100).0.iter().map(Line::content).collect()
    }

    #[test]
    fn numbers_signs_and_gaps() {
        let diff = "Index: a\n===\n--- a\tCurrent\n+++ a\tProposed\n@@ -41,3 +41,4 @@\n x\n-old\n+new\n+more\n y\n@@ -90,1 +91,0 @@\n-gone\n";
        assert_eq!(
            shown(diff),
            ["   41  x", "   42 -old", "   42 +new", "   43 +more", "   44  y", "    ⋯", "   90 -gone"]
        );
        assert_eq!(counts(diff), (2, 2));
        assert_eq!(rows(diff, 2).0.len(), 2);
        assert_eq!(rows(diff, 2).1, 7);
    }

    #[test]
    fn new_files_missing_line_feeds_and_line_ends() {
        assert_eq!(shown("@@ -0,0 +1,2 @@\n+a\n+\n"), ["    1 +a", "    2 +"]);
        assert_eq!(shown("@@ -1,2 +0,0 @@\n-a\n-\n"), ["    1 -a", "    2 -"], "a deleted file");
        assert_eq!(
            shown("@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n"),
            ["    1 -a", "       no line feed at the end", "    1 +b"]
        );
        assert_eq!(shown("@@ -1,1 +1,1 @@\n-a\r\n+b\r\n"), ["    1 -a", "    1 +b"]);
        assert_eq!(shown("@@ -1,1 +1,1 @@\n-a\r\n+a\n"), ["    1 -a␍", "    1 +a"]);
        assert_eq!(shown("no diff"), [""; 0]);
        assert_eq!(shown("@@ -1,1 +1,1 @@\n-\u{202e}x\n"), ["    1 -‹U+202E›x"]);
    }

    #[test]
    fn rows_of_a_long_diff_are_counted_but_not_formatted() {
        let diff = format!("@@ -0,0 +1,10000 @@\n{}", "+line\n".repeat(10_000));
        let (rows, count) = rows(&diff, 40);
        assert_eq!((rows.len(), count), (40, 10_000));
    }
}
