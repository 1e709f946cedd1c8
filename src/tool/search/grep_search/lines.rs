//! Finds the lines of a text that match: first by the literals that every match contains, with `memchr`, then by the expression, on
//! lines that contain one of them. If the expression requires no literal, it runs on every line.
//!
//! A match is within a line, whose end (`\n` or `\r\n`) is not part of it, so `^` and `$` need no flags. Lines that are not UTF-8 do
//! not match.

use crate::tool::search::grep_search::literal::{frequency, required};
use crate::tool::search::wildcard::Case;
use memchr::memmem;
use regex_lite::{Regex, RegexBuilder};
use std::ops::Range;

/// Each thread clones its own, because an expression keeps its working memory behind a lock.
#[derive(Clone)]
pub struct Lines {
    expression: Regex,
    needles: Vec<Needle>,
}

/// A literal that is searched for.
#[derive(Clone)]
enum Needle {
    Exact(Box<memmem::Finder<'static>>),
    /// In any case. The rarest byte is searched for, in both cases, and the bytes around it are compared.
    Folded {
        text: Vec<u8>,
        rarest: usize,
    },
}

/// The position of a literal that does not occur.
const NOWHERE: usize = usize::MAX;

impl Lines {
    pub fn new(pattern: &str, case: Case) -> Result<Lines, String> {
        let expression = RegexBuilder::new(pattern)
            .case_insensitive(case == Case::Folded)
            .build()
            .map_err(|error| error.to_string())?;
        let (literals, case) = required(pattern, case).unwrap_or((Vec::new(), case));
        Ok(Lines { expression, needles: literals.iter().map(|text| Needle::new(text, case)).collect() })
    }

    /// The lines that match, as ranges of the text without their ends, in order, until `found` returns `Stop`.
    pub fn each(&self, text: &[u8], mut found: impl FnMut(Range<usize>) -> Go) {
        // The next position of each needle.
        let mut ahead: Vec<usize> = self.needles.iter().map(|needle| needle.find(text, 0)).collect();
        let mut from = 0;
        while from < text.len() {
            for (needle, at) in self.needles.iter().zip(&mut ahead).filter(|(_, at)| **at < from) {
                *at = needle.find(text, from);
            }
            let hit = ahead.iter().copied().min().unwrap_or(from);
            if hit == NOWHERE {
                return;
            }
            let begin = memchr::memrchr(b'\n', &text[from..hit]).map_or(from, |at| from + at + 1);
            let end = memchr::memchr(b'\n', &text[hit..]).map_or(text.len(), |at| hit + at);
            let line = text[begin..end].strip_suffix(b"\r").unwrap_or(&text[begin..end]);
            let matches = str::from_utf8(line).is_ok_and(|line| self.is_match(line));
            if matches && found(begin..begin + line.len()) == Go::Stop {
                return;
            }
            from = end + 1;
        }
    }

    pub fn is_match(&self, line: &str) -> bool {
        self.expression.is_match(line)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    On,
    Stop,
}

impl Needle {
    fn new(text: &str, case: Case) -> Needle {
        let bytes = text.as_bytes();
        match (0..bytes.len()).min_by_key(|at| frequency(bytes[*at])) {
            Some(rarest) if case == Case::Folded && bytes.iter().any(u8::is_ascii_alphabetic) => {
                Needle::Folded { text: bytes.to_vec(), rarest }
            }
            Some(_) | None => Needle::Exact(Box::new(memmem::Finder::new(text).into_owned())),
        }
    }

    /// Its first position at `from` or later.
    fn find(&self, hay: &[u8], from: usize) -> usize {
        let found = match self {
            Needle::Exact(finder) => finder.find(&hay[from..]).map(|at| from + at),
            Needle::Folded { text, rarest } => {
                // The rarest byte of a literal that begins at `from` or later cannot be before this.
                let first = from + rarest;
                let here = |at: usize| {
                    let begin = first + at - rarest;
                    let same = hay.get(begin..begin + text.len())?;
                    same.eq_ignore_ascii_case(text).then_some(begin)
                };
                let (lower, upper) = (text[*rarest].to_ascii_lowercase(), text[*rarest].to_ascii_uppercase());
                let rest = hay.get(first..).unwrap_or_default();
                if lower == upper {
                    memchr::memchr_iter(lower, rest).find_map(here)
                } else {
                    memchr::memchr2_iter(lower, upper, rest).find_map(here)
                }
            }
        };
        found.unwrap_or(NOWHERE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, case: Case, text: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        let lines = Lines::new(pattern, case).expect("the expression is valid");
        lines.each(text, |range| {
            all.push(String::from_utf8(text[range].to_vec()).expect("only text matches"));
            Go::On
        });
        all
    }

    #[test]
    fn lines_are_found_without_their_ends() {
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
    fn an_overlapping_rare_byte_does_not_hide_the_literal() {
        assert_eq!(found("zaz", Case::Folded, b"zzaZ"), ["zzaZ"]);
        assert_eq!(found("zz", Case::Folded, b"z\nzZ\nz"), ["zZ"]);
    }

    /// A pseudo-random generator.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % sides
        }
    }

    fn expression(dice: &mut Dice, depth: usize) -> String {
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
        for _ in 0..dice.roll(5) {
            if depth > 0 && dice.roll(4) == 0 {
                let open = ["(", "(?:", "(?i:", "(?P<n>", "(?-i:", "(?s:"][dice.roll(6)];
                // A name may be used once only.
                let open = if text.contains("?P<") || depth < 3 { "(" } else { open };
                text += open;
                text += &expression(dice, depth - 1);
                text += ")";
            } else {
                text += SINGLES[dice.roll(SINGLES.len())];
            }
            if dice.roll(4) == 0 {
                text += TIMES[dice.roll(TIMES.len())];
            }
            if dice.roll(8) == 0 {
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
            let mut dice = Dice(seed);
            let pattern = expression(&mut dice, 3);
            let case = [Case::Exact, Case::Folded][dice.roll(2)];
            let Ok(lines) = Lines::new(&pattern, case) else {
                continue;
            };
            tried += 1;
            helped += usize::from(!lines.needles.is_empty());
            let text: String = (0..dice.roll(60)).map(|_| LETTERS[dice.roll(LETTERS.len())]).collect();
            let plain: Vec<&str> = text.lines().filter(|line| lines.is_match(line)).collect();
            hits += plain.len();
            assert_eq!(found(&pattern, case, text.as_bytes()), plain, "seed {seed}: {pattern:?} {case:?} {text:?}");
        }
        // The test is meaningless if most expressions are invalid, have no literals or never match.
        assert!(tried > 8_000 && helped > 3_000 && hits > 10_000, "{tried} {helped} {hits}");
    }
}
