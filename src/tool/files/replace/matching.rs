//! Where a piece of text is in a file, although the model may not remember it to the letter.
//!
//! Four strategies, from strict to lenient; the first that finds anything decides. *Exact*: the text as given. *Flexible*: lines
//! that are equal but for the space around them. *Loose*: the same words and signs with any space between them. *Fuzzy*: lines
//! that differ in a few characters, where space counts little. All but the first give the new text the indentation of what it
//! replaces, because that is what the model got wrong.
//!
//! This module changes no text and does not decide how many matches are allowed: it returns a list of edits. Lines end with `\n` only,
//! in all texts. The loose strategy is a pattern (tokens joined by optional space) that needs no engine: its tokens hold no space,
//! so the space before each can be skipped greedily and never has to be given back.

use crate::tool::files::text::edit_distance;
use std::ops::Range;

/// Replace this part of the text with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Exact,
    Flexible,
    Loose,
    Fuzzy,
}

/// Texts shorter than this are too much like anything for the fuzzy strategy, in characters.
const FUZZY_LEAST: usize = 10;

/// Every place where `old` is found, with what becomes of it: in order and without overlaps. None if there is none. `steps` bounds
/// the work of the fuzzy strategy: beyond it, it is not tried.
pub fn find(content: &str, old: &str, new: &str, steps: usize) -> Option<(Strategy, Vec<Edit>)> {
    if old.is_empty() {
        return None;
    }
    let exact: Vec<Edit> = content
        .match_indices(old)
        .map(|(at, found)| Edit { range: at..at + found.len(), text: new.to_owned() })
        .collect();
    if !exact.is_empty() {
        return Some((Strategy::Exact, exact));
    }
    let replacement = Replacement::new(old, new)?;
    let lines = Lines::of(content);
    let lenient: [(Strategy, &dyn Fn() -> Vec<Edit>); 3] = [
        (Strategy::Flexible, &|| flexible(&lines, &replacement)),
        (Strategy::Loose, &|| loose(&lines, &replacement)),
        (Strategy::Fuzzy, &|| fuzzy(&lines, &replacement, steps)),
    ];
    lenient.into_iter().map(|(strategy, search)| (strategy, search())).find(|(_, edits)| !edits.is_empty())
}

/// The text to search for and the text to replace it with, as whole lines.
struct Replacement<'a> {
    old: &'a str,
    new: &'a str,
    /// The last line goes with its line break: all of it is to be removed.
    removes_lines: bool,
}

impl<'a> Replacement<'a> {
    /// None when there is nothing but space to search for: that is everywhere.
    fn new(old: &'a str, new: &'a str) -> Option<Replacement<'a>> {
        if old.trim().is_empty() {
            return None;
        }
        let Some(bare) = old.strip_suffix('\n') else {
            return Some(Replacement { old, new, removes_lines: false });
        };
        Some(Replacement { old: bare, new: new.strip_suffix('\n').unwrap_or(new), removes_lines: new.is_empty() })
    }

    fn indented(&self, indent: &str) -> String {
        let reference = indent_of(self.new);
        let lines: Vec<String> = self
            .new
            .split('\n')
            .map(|line| {
                if line.trim().is_empty() {
                    return String::new();
                }
                let rest = line.strip_prefix(reference);
                format!("{indent}{}", rest.unwrap_or_else(|| line.trim_start()))
            })
            .collect();
        lines.join("\n")
    }

    /// The edit of `count` whole lines from `first` on.
    fn edit(&self, lines: &Lines, first: usize, count: usize) -> Edit {
        let last = lines.ranges[first + count - 1].end;
        let end = if self.removes_lines { (last + 1).min(lines.content.len()) } else { last };
        Edit { range: lines.ranges[first].start..end, text: self.indented(indent_of(lines.text(first))) }
    }
}

struct Lines<'a> {
    content: &'a str,
    /// Of each line, without its line break.
    ranges: Vec<Range<usize>>,
}

impl<'a> Lines<'a> {
    fn of(content: &'a str) -> Lines<'a> {
        let mut ranges = Vec::new();
        let mut start = 0;
        for line in content.split_inclusive('\n') {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            ranges.push(start..start + bare.len());
            start += line.len();
        }
        Lines { content, ranges }
    }

    fn text(&self, line: usize) -> &'a str {
        &self.content[self.ranges[line].clone()]
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }
}

fn indent_of(text: &str) -> &str {
    let end = text.find(|c| c != ' ' && c != '\t').unwrap_or(text.len());
    &text[..end]
}

fn flexible(lines: &Lines, replacement: &Replacement) -> Vec<Edit> {
    let wanted: Vec<&str> = replacement.old.split('\n').map(str::trim).collect();
    let trimmed: Vec<&str> = (0..lines.len()).map(|i| lines.text(i).trim()).collect();
    let mut edits = Vec::new();
    let mut at = 0;
    while at + wanted.len() <= trimmed.len() {
        if trimmed[at..at + wanted.len()] == wanted {
            edits.push(replacement.edit(lines, at, wanted.len()));
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    edits
}

fn loose(lines: &Lines, replacement: &Replacement) -> Vec<Edit> {
    let tokens = tokens(replacement.old);
    let mut edits: Vec<Edit> = Vec::new();
    let mut free_from = 0;
    for line in &lines.ranges {
        if line.start < free_from {
            continue;
        }
        let indent = indent_of(&lines.content[line.clone()]);
        let begin = line.start + indent.len();
        if let Some(end) = match_tokens(&tokens, &lines.content[begin..]) {
            free_from = begin + end;
            edits.push(Edit { range: line.start..free_from, text: replacement.indented(indent) });
        }
    }
    edits
}

/// Words, and the signs that may stand with or without space around them.
fn tokens(text: &str) -> Vec<&str> {
    const SIGNS: &[char] = &['(', ')', '[', ']', '{', '}', '<', '>', ':', '='];
    text.split_whitespace()
        .flat_map(|word| word.split_inclusive(SIGNS))
        .flat_map(|piece| {
            let sign = piece.rfind(SIGNS).unwrap_or(piece.len());
            let (word, sign) = piece.split_at(sign);
            [word, sign]
        })
        .filter(|token| !token.is_empty())
        .collect()
}

/// Where the tokens end, if the text begins with all of them. Two words need space between them, and no word may end in the
/// middle of a longer one.
fn match_tokens(tokens: &[&str], text: &str) -> Option<usize> {
    let mut at = 0;
    for (n, token) in tokens.iter().enumerate() {
        let rest = text[at..].trim_start();
        let space = text.len() - at - rest.len();
        let glued = n > 0 && space == 0 && is_word(text[..at].chars().next_back());
        if !rest.starts_with(token) || (glued && is_word(token.chars().next())) {
            return None;
        }
        at += space + token.len();
    }
    let cut = is_word(text[..at].chars().next_back()) && is_word(text[at..].chars().next());
    (!cut).then_some(at)
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Windows of as many lines as wanted, compared by the least number of characters to change: those that are not space count
/// ten times as much as those that are. A window is near enough if the sum is within a tenth of the text's length.
fn fuzzy(lines: &Lines, replacement: &Replacement, steps: usize) -> Vec<Edit> {
    let wanted: Vec<&str> = replacement.old.split('\n').map(str::trim_end).collect();
    let wanted_raw: Vec<char> = wanted.join("\n").chars().collect();
    let length = wanted_raw.len();
    let cost = length.saturating_mul(length).saturating_mul(lines.len());
    if length < FUZZY_LEAST || cost > steps || lines.len() < wanted.len() {
        return Vec::new();
    }
    let bare = |text: &str| -> Vec<char> { text.chars().filter(|c| !c.is_whitespace()).collect() };
    let wanted_bare = bare(replacement.old);
    // The lines without any space, one after the other: a window of lines is a slice.
    let mut all_bare = Vec::new();
    let mut starts = vec![0];
    for line in 0..lines.len() {
        all_bare.extend(bare(lines.text(line)));
        starts.push(all_bare.len());
    }
    let mut near: Vec<(usize, usize)> = Vec::new();
    for first in 0..=lines.len() - wanted.len() {
        let window = &all_bare[starts[first]..starts[first + wanted.len()]];
        let Some(solid) = edit_distance(window, &wanted_bare, length / 10) else {
            continue;
        };
        let window: Vec<&str> = (first..first + wanted.len()).map(|line| lines.text(line).trim_end()).collect();
        let window: Vec<char> = window.join("\n").chars().collect();
        if let Some(raw) = edit_distance(&window, &wanted_raw, length - 9 * solid) {
            near.push((9 * solid + raw, first));
        }
    }
    near.sort_unstable();
    let mut firsts: Vec<usize> = Vec::new();
    for (_, first) in near {
        if firsts.iter().all(|other| other.abs_diff(first) >= wanted.len()) {
            firsts.push(first);
        }
    }
    firsts.sort_unstable();
    firsts.into_iter().map(|first| replacement.edit(lines, first, wanted.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: usize = 400_000_000;

    fn applied(content: &str, old: &str, new: &str) -> Option<(Strategy, usize, String)> {
        let (strategy, edits) = find(content, old, new, STEPS)?;
        let mut text = content.to_owned();
        for edit in edits.iter().rev() {
            text.replace_range(edit.range.clone(), &edit.text);
        }
        Some((strategy, edits.len(), text))
    }

    #[test]
    fn each_strategy_finds_what_the_stricter_ones_miss() {
        let nested = "fn f() {\n    if x {\n        go( a,b );\n    }\n}\n";
        let table: &[(&str, &str, &str, &str, Strategy, usize, &str)] = &[
            ("exact", "a b a", "a", "$1\\0", Strategy::Exact, 2, "$1\\0 b $1\\0"),
            ("exact wins over better-looking lines", "x = 1\n  x = 1\n", "x = 1", "y", Strategy::Exact, 2, "y\n  y\n"),
            (
                "indentation",
                nested,
                "if x {\ngo( a,b );\n}",
                "if y {\n    go(c);\n\n}",
                Strategy::Flexible,
                1,
                "fn f() {\n    if y {\n        go(c);\n\n    }\n}\n",
            ),
            (
                "a new text with an indentation of its own",
                "\tone\n\ttwo\n",
                "    one \n    two",
                "    one\n      deeper\n  less",
                Strategy::Flexible,
                1,
                "\tone\n\t  deeper\n\tless\n",
            ),
            ("whole lines removed", "a\n  b\nc\n", "\tb\n", "", Strategy::Flexible, 1, "a\nc\n"),
            ("the last line removed", "a\n  b", "\tb\n", "", Strategy::Flexible, 1, "a\n"),
            ("a line break on both sides", "a\n  b\nc\n", "\tb\n", "d\n", Strategy::Flexible, 1, "a\n  d\nc\n"),
            (
                "space around signs",
                nested,
                "go(a,b);",
                "go(c);",
                Strategy::Loose,
                1,
                "fn f() {\n    if x {\n        go(c);\n    }\n}\n",
            ),
            (
                "tokens over lines",
                "  let map: HashMap<K, V>\n    = make();  // why\n",
                "let map : HashMap<K, V> = make();",
                "let map = other();",
                Strategy::Loose,
                1,
                "  let map = other();  // why\n",
            ),
            (
                "a few letters",
                "  let colour = paint(canvas, brush);\nother\n",
                "let color = paint(canvas, brush);",
                "let color = paint(canvas);",
                Strategy::Fuzzy,
                1,
                "  let color = paint(canvas);\nother\n",
            ),
        ];
        for (what, content, old, new, strategy, count, expected) in table {
            assert_eq!(applied(content, old, new), Some((*strategy, *count, (*expected).to_owned())), "{what}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for (content, old) in [
            ("", "a"),
            ("a", ""),
            ("a\n\nb\n", " \n "),
            ("let xy = 1;", "let  x"),
            ("letx = 1;", "let  x"),
            ("something else entirely\n", "let color = paint(canvas);"),
            ("let colour = 1;", "color  = 1"),
            ("one\n", "one\ntwo\nthree\nfour\n"),
        ] {
            assert_eq!(applied(content, old, "new"), None, "{old:?} in {content:?}");
        }
    }

    #[test]
    fn near_texts_are_all_found_and_never_overlap() {
        let old = "alpha beta gamma delta";
        let content = format!("{old}!\n{old}?\n");
        assert_eq!(applied(&content, &format!("{old}."), "x"), Some((Strategy::Fuzzy, 2, "x\nx\n".into())));
        // Three windows of two lines are near; two of them can be had.
        let (row, near) = ("the very same words again", "the very same wards again");
        let content = format!("{row}\n{row}\n{row}\n{row}\n");
        let old = format!("{near}\n{near}");
        assert_eq!(applied(&content, &old, "x"), Some((Strategy::Fuzzy, 2, "x\nx\n".into())));
    }

    #[test]
    fn fuzzy_keeps_within_its_limits() {
        let content = "let colour = 1;\n";
        let old = "let color = 1;";
        let cost = old.len() * old.len();
        assert!(find(content, old, "x", cost).is_some());
        assert!(find(content, old, "x", cost - 1).is_none());
        // Nine characters are too few, ten may differ in one.
        assert!(find("abcdefghX\n", "abcdefghi", "x", STEPS).is_none());
        assert!(find("abcdefghiX\n", "abcdefghij", "x", STEPS).is_some());
        assert!(find("abcdefghXX\n", "abcdefghij", "x", STEPS).is_none());
        // Space is a tenth of anything else.
        let old = "aaaa bbbb cccc dddd!";
        assert!(find("aaaa  bbbb   cccc    dddd?\n", old, "x", STEPS).is_some());
    }
}
