//! Finds the lines of a text that match: first by the literals that every match contains, with `memchr`, then by the expression, on
//! lines that contain one of them. If the expression requires no literal, it runs on every line.
//!
//! A match is within a line, whose end (`\n` or `\r\n`) is not part of it, so `^` and `$` need no flags. Lines that are not UTF-8 do
//! not match.

use crate::tool::search::grep_search::literal::required;
use crate::tool::search::wildcard::Case;
use memchr::{memchr, memchr2_iter, memmem, memrchr};
use regex_lite::{Regex, RegexBuilder};
use std::ops::Range;

pub struct Lines {
    expression: Regex,
    literals: Vec<String>,
    /// Whether the case of the literals counts.
    case: Case,
}

impl Lines {
    pub fn new(pattern: &str, case: Case) -> Result<Lines, String> {
        let expression = RegexBuilder::new(pattern)
            .case_insensitive(case == Case::Folded)
            .build()
            .map_err(|error| error.to_string())?;
        let (literals, case) = required(pattern, case);
        Ok(Lines { expression, literals, case })
    }

    /// The lines that match, as ranges of the text without their ends, in order.
    pub fn matches(&self, text: &[u8]) -> impl Iterator<Item = Range<usize>> {
        // The next position of each literal; None if it does not occur in the rest of the text.
        let mut next_positions: Vec<Option<usize>> =
            self.literals.iter().map(|literal| self.find(literal, text, 0)).collect();
        let mut from = 0;
        std::iter::from_fn(move || {
            while from < text.len() {
                for (literal, at) in
                    self.literals.iter().zip(&mut next_positions).filter(|(_, at)| at.is_some_and(|at| at < from))
                {
                    *at = self.find(literal, text, from);
                }
                let hit = match next_positions.is_empty() {
                    true => from,
                    false => next_positions.iter().flatten().copied().min()?,
                };
                let begin = memrchr(b'\n', &text[from..hit]).map_or(from, |at| from + at + 1);
                let end = memchr(b'\n', &text[hit..]).map_or(text.len(), |at| hit + at);
                let line = text[begin..end].strip_suffix(b"\r").unwrap_or(&text[begin..end]);
                from = end + 1;
                if str::from_utf8(line).is_ok_and(|line| self.is_match(line)) {
                    return Some(begin..begin + line.len());
                }
            }
            None
        })
    }

    pub fn is_match(&self, line: &str) -> bool {
        self.expression.is_match(line)
    }

    /// The first position of a literal at `from` or later.
    fn find(&self, literal: &str, text: &[u8], from: usize) -> Option<usize> {
        let (literal, rest) = (literal.as_bytes(), &text[from..]);
        let first = literal[0];
        let is_here =
            |at: &usize| rest[*at..].get(..literal.len()).is_some_and(|same| same.eq_ignore_ascii_case(literal));
        let found = match self.case {
            Case::Exact => memmem::find(rest, literal),
            Case::Folded => memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), rest).find(is_here),
        };
        found.map(|at| from + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_random::Random;

    fn found(pattern: &str, case: Case, text: &[u8]) -> Vec<String> {
        let lines = Lines::new(pattern, case).expect("the expression is valid");
        let line = |range: Range<usize>| String::from_utf8(text[range].to_vec()).expect("only text matches");
        lines.matches(text).map(line).collect()
    }

    #[test]
    fn lines_are_returned_without_their_line_ends() {
        let text = b"one\r\ntwo One\n\xff one\nthree\none";
        assert_eq!(found("one$", Case::Folded, text), ["one", "two One", "one"]);
        assert_eq!(found("^one$", Case::Exact, text), ["one", "one"]);
        assert_eq!(found("", Case::Exact, b"a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(found("o.*\n", Case::Exact, text), Vec::<String>::new());
    }

    #[test]
    fn several_literals_are_searched_for_at_once() {
        let text = b"b\na\nx\nb a\nA\n";
        assert_eq!(found("a|b", Case::Exact, text), ["b", "a", "b a"]);
        assert_eq!(found("a|b", Case::Folded, text), ["b", "a", "b a", "A"]);
    }

    #[test]
    fn an_overlapping_first_byte_does_not_hide_the_literal() {
        assert_eq!(found("zaz", Case::Folded, b"zzaZ"), ["zzaZ"]);
        assert_eq!(found("zz", Case::Folded, b"z\nzZ\nz"), ["zZ"]);
    }

    fn expression(random: &mut Random, depth: usize) -> String {
        const SINGLES: [&str; 26] = [
            "a",
            "b",
            "K",
            "z",
            "ß",
            "Ö",
            "_",
            r"\.",
            ".",
            "^",
            "$",
            r"\b",
            r"\B",
            r"\w",
            r"\d",
            "[ab]",
            "[^a]",
            "[]k]",
            "[[:upper:]-]",
            r"[\]z]",
            r"\x61",
            r"\u{62}",
            "ab",
            "zk",
            "(?i)",
            "[-]",
        ];
        const TIMES: [&str; 9] = ["*", "+", "?", "{2}", "{0,1}", "{1,}", "+?", "*?", "{ 1 , 2 }"];
        let mut text = String::new();
        for _ in 0..random.below(5) {
            if depth > 0 && random.below(4) == 0 {
                let open = ["(", "(?:", "(?i:", "(?P<n>", "(?-i:", "(?s:"][random.below(6)];
                // A name may be used once only.
                let open = if text.contains("?P<") || depth < 3 { "(" } else { open };
                text += open;
                text += &expression(random, depth - 1);
                text += ")";
            } else {
                text += SINGLES[random.below(SINGLES.len())];
            }
            if random.below(4) == 0 {
                text += TIMES[random.below(TIMES.len())];
            }
            if random.below(8) == 0 {
                text += "|";
            }
        }
        text
    }

    #[test]
    fn no_match_is_missed_in_random_expressions_and_texts() {
        const LETTERS: [&str; 14] = ["a", "b", "A", "k", "K", "z", "ß", "Ö", "ö", "_", ".", "-", "\n", "]"];
        let (mut tried, mut helped, mut hits) = (0, 0, 0);
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let pattern = expression(&mut random, 3);
            let case = [Case::Exact, Case::Folded][random.below(2)];
            let Ok(lines) = Lines::new(&pattern, case) else {
                continue;
            };
            tried += 1;
            helped += usize::from(!lines.literals.is_empty());
            let text: String = (0..random.below(60)).map(|_| LETTERS[random.below(LETTERS.len())]).collect();
            let plain: Vec<&str> = text.lines().filter(|line| lines.is_match(line)).collect();
            hits += plain.len();
            assert_eq!(found(&pattern, case, text.as_bytes()), plain, "seed {seed}: {pattern:?} {case:?} {text:?}");
        }
        // The test is meaningless if most expressions are invalid, have no literals or never match.
        assert!(tried > 8_000 && helped > 3_000 && hits > 10_000, "{tried} {helped} {hits}");
    }
}
