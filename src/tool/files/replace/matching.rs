//! Finds a text in a file although the model may not have quoted it exactly.
//!
//! Four strategies, from strict to lenient; the first that finds anything decides. *Exact*: the text as given. *Flexible*: lines that are
//! equal except for the space around them. *Loose*: the same words and signs with any space between them. *Fuzzy*: lines that differ in a
//! few characters, where space counts little. All but the first give the new text the indentation of the text that it replaces, because
//! models often get that wrong.
//!
//! This module changes no text and does not decide how many matches are allowed: it returns a list of edits. In all texts lines end
//! with `\n` only. The loose strategy is a pattern (tokens joined by optional space) that needs no regular expression: its tokens contain
//! no space, so the space before each can be skipped greedily.

use crate::base::text::nearest::edit_distance;
use std::ops::Range;

/// Replaces a range of the text with `text`.
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

/// The least number of characters for the fuzzy strategy: shorter texts are similar to too many others.
const FUZZY_LEAST: usize = 10;

/// An edit for every place where `old` is found, in order and without overlaps. None if it is not found. The fuzzy strategy is not
/// tried if it would take more than `steps`.
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
    let replacement = Replacement::new(content, old, new)?;
    let lenient: [(Strategy, &dyn Fn() -> Vec<Edit>); 3] = [
        (Strategy::Flexible, &|| flexible(&replacement)),
        (Strategy::Loose, &|| loose(&replacement)),
        (Strategy::Fuzzy, &|| fuzzy(&replacement, steps)),
    ];
    lenient.into_iter().map(|(strategy, search)| (strategy, search())).find(|(_, edits)| !edits.is_empty())
}

/// The text to search for and the text to replace it with, as whole lines.
struct Replacement<'a> {
    content: &'a str,
    /// The lines of the content without their line breaks, each with its position.
    lines: Vec<(usize, &'a str)>,
    old: &'a str,
    new: &'a str,
    /// All lines are removed, so the line break of the last one is removed as well.
    removes_lines: bool,
}

impl<'a> Replacement<'a> {
    /// None if `old` is only space, which would be found everywhere.
    fn new(content: &'a str, old: &'a str, new: &'a str) -> Option<Replacement<'a>> {
        if old.trim().is_empty() {
            return None;
        }
        let mut end = 0;
        let lines = content.split_inclusive('\n').map(|line| {
            end += line.len();
            (end - line.len(), line.strip_suffix('\n').unwrap_or(line))
        });
        let lines = lines.collect();
        Some(match old.strip_suffix('\n') {
            None => Replacement { content, lines, old, new, removes_lines: false },
            Some(old) => {
                let bare = new.strip_suffix('\n').unwrap_or(new);
                Replacement { content, lines, old, new: bare, removes_lines: new.is_empty() }
            }
        })
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

    /// The edit of `count` whole lines, of which `first` is the first.
    fn edit(&self, first: usize, count: usize) -> Edit {
        let (start, text) = self.lines[first];
        let (last, last_text) = self.lines[first + count - 1];
        let end = last + last_text.len();
        let end = if self.removes_lines { (end + 1).min(self.content.len()) } else { end };
        Edit { range: start..end, text: self.indented(indent_of(text)) }
    }
}

fn indent_of(text: &str) -> &str {
    let end = text.find(|c| c != ' ' && c != '\t').unwrap_or(text.len());
    &text[..end]
}

fn flexible(replacement: &Replacement) -> Vec<Edit> {
    let wanted: Vec<&str> = replacement.old.split('\n').map(str::trim).collect();
    let trimmed: Vec<&str> = replacement.lines.iter().map(|(_, line)| line.trim()).collect();
    let mut edits = Vec::new();
    let mut at = 0;
    while at + wanted.len() <= trimmed.len() {
        if trimmed[at..at + wanted.len()] == wanted {
            edits.push(replacement.edit(at, wanted.len()));
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    edits
}

fn loose(replacement: &Replacement) -> Vec<Edit> {
    let tokens = tokens(replacement.old);
    let mut edits: Vec<Edit> = Vec::new();
    let mut free_from = 0;
    for (start, line) in &replacement.lines {
        if *start < free_from {
            continue;
        }
        let indent = indent_of(line);
        let begin = start + indent.len();
        if let Some(end) = match_tokens(&tokens, &replacement.content[begin..]) {
            free_from = begin + end;
            edits.push(Edit { range: *start..free_from, text: replacement.indented(indent) });
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

/// The end of the tokens, if the text begins with all of them. Two words need space between them, and no word may end inside a
/// longer one.
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

/// Compares every run of as many lines as `old` has, by the least number of characters to change: characters that are not space count
/// ten times as much as space. A run matches if the sum is at most the length of `old`.
fn fuzzy(replacement: &Replacement, steps: usize) -> Vec<Edit> {
    let lines = &replacement.lines;
    let wanted: Vec<&str> = replacement.old.split('\n').map(str::trim_end).collect();
    let wanted_raw: Vec<char> = wanted.join("\n").chars().collect();
    let length = wanted_raw.len();
    let cost = length.saturating_mul(length).saturating_mul(lines.len());
    if length < FUZZY_LEAST || cost > steps || lines.len() < wanted.len() {
        return Vec::new();
    }
    let bare = |text: &str| -> Vec<char> { text.chars().filter(|c| !c.is_whitespace()).collect() };
    let wanted_bare = bare(replacement.old);
    // All lines without space, one after the other, so that a run of lines is a slice.
    let mut all_bare = Vec::new();
    let mut starts = vec![0];
    for (_, line) in lines {
        all_bare.extend(bare(line));
        starts.push(all_bare.len());
    }
    let mut near: Vec<(usize, usize)> = Vec::new();
    for first in 0..=lines.len() - wanted.len() {
        let window = &all_bare[starts[first]..starts[first + wanted.len()]];
        let Some(solid) = edit_distance(window, &wanted_bare, length / 10) else {
            continue;
        };
        let window: Vec<&str> = lines[first..first + wanted.len()].iter().map(|(_, line)| line.trim_end()).collect();
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
    firsts.into_iter().map(|first| replacement.edit(first, wanted.len())).collect()
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
    fn each_strategy_finds_text_that_the_stricter_ones_do_not() {
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
    fn missing_text_is_not_found() {
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
