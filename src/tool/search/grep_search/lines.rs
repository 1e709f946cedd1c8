//! Finds the lines of a text that match: first by the literals every match must have, with `memchr`, then by the expression, on
//! the lines that have one. For an expression without literals every line is tried.
//!
//! A match is within a line, whose end (`\n` or `\r\n`) is not part of it, so `^` and `$` need no flags. Lines that are not
//! UTF-8 do not match.

use crate::tool::search::grep_search::literal::{Letters, Literals, frequency, required};
use memchr::memmem;
use regex_lite::{Regex, RegexBuilder};
use std::ops::Range;

/// Each thread clones its own: an expression keeps its working memory behind a lock.
#[derive(Clone)]
pub struct Lines {
    expression: Regex,
    needles: Vec<Needle>,
}

/// One literal, ready to be looked for.
#[derive(Clone)]
enum Needle {
    Exact(Box<memmem::Finder<'static>>),
    /// Letters of either case. Looked for is the rarest byte, in both of its cases, and what is around it compared.
    Folded {
        text: Vec<u8>,
        rarest: usize,
        cases: (u8, u8),
    },
}

impl Lines {
    pub fn new(pattern: &str, letters: Letters) -> Result<Lines, String> {
        let expression = RegexBuilder::new(pattern)
            .case_insensitive(letters == Letters::EitherCase)
            .build()
            .map_err(|error| error.to_string())?;
        let needles = match required(pattern, letters) {
            Some(Literals { any, letters }) => any.iter().map(|text| Needle::new(text, letters)).collect(),
            None => Vec::new(),
        };
        Ok(Lines { expression, needles })
    }

    /// Whether a text can have a match at all. Quick: most texts end here.
    pub fn may_be_in(&self, text: &[u8]) -> bool {
        self.needles.is_empty() || self.needles.iter().any(|needle| needle.find(text, 0).is_some())
    }

    /// The lines that match, as ranges of the text without their ends, in order, until `found` says stop.
    pub fn each(&self, text: &[u8], mut found: impl FnMut(Range<usize>) -> Go) {
        let mut candidates = Candidates { needles: &self.needles, ahead: vec![Ahead::Unknown; self.needles.len()] };
        let mut from = 0;
        while from < text.len() {
            let Some(hit) = candidates.next(text, from) else {
                return;
            };
            let begin = memchr::memrchr(b'\n', &text[from..hit]).map_or(from, |at| from + at + 1);
            let end = memchr::memchr(b'\n', &text[hit..]).map_or(text.len(), |at| hit + at);
            let line = text[begin..end].strip_suffix(b"\r").unwrap_or(&text[begin..end]);
            let matches = str::from_utf8(line).is_ok_and(|line| self.expression.is_match(line));
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

/// Where the literals are, nearest first.
struct Candidates<'a> {
    needles: &'a [Needle],
    ahead: Vec<Ahead>,
}

/// What is known of a literal's next place.
#[derive(Clone, Copy)]
enum Ahead {
    Unknown,
    At(usize),
    None,
}

impl Candidates<'_> {
    /// A place from `from` on, which is the begin of a line, whose line is to be tried. No line before it is.
    fn next(&mut self, text: &[u8], from: usize) -> Option<usize> {
        if self.needles.is_empty() {
            return Some(from);
        }
        let mut nearest: Option<usize> = None;
        for (needle, ahead) in self.needles.iter().zip(&mut self.ahead) {
            match ahead {
                Ahead::At(at) if *at >= from => {}
                Ahead::None => {}
                Ahead::At(_) | Ahead::Unknown => {
                    *ahead = needle.find(text, from).map_or(Ahead::None, Ahead::At);
                }
            }
            if let Ahead::At(at) = ahead {
                nearest = Some(nearest.map_or(*at, |other| other.min(*at)));
            }
        }
        nearest
    }
}

impl Needle {
    fn new(text: &str, letters: Letters) -> Needle {
        let has_letters = text.bytes().any(|byte| byte.is_ascii_alphabetic());
        if letters == Letters::AsTheyAre || !has_letters {
            return Needle::Exact(Box::new(memmem::Finder::new(text).into_owned()));
        }
        let bytes = text.as_bytes();
        let rarest = (0..bytes.len()).min_by_key(|at| frequency(bytes[*at])).expect("a literal is not empty");
        Needle::Folded {
            text: bytes.to_vec(),
            rarest,
            cases: (bytes[rarest].to_ascii_lowercase(), bytes[rarest].to_ascii_uppercase()),
        }
    }

    fn find(&self, hay: &[u8], from: usize) -> Option<usize> {
        let (text, rarest, cases) = match self {
            Needle::Exact(finder) => return finder.find(&hay[from..]).map(|at| from + at),
            Needle::Folded { text, rarest, cases } => (text, *rarest, *cases),
        };
        // The rarest byte of a literal that begins at `from` or later cannot come sooner.
        let first = from + rarest;
        let here = |at: usize| {
            let begin = first + at - rarest;
            let same = hay.get(begin..begin + text.len())?;
            same.eq_ignore_ascii_case(text).then_some(begin)
        };
        let hay = hay.get(first..)?;
        if cases.0 == cases.1 {
            memchr::memchr_iter(cases.0, hay).find_map(here)
        } else {
            memchr::memchr2_iter(cases.0, cases.1, hay).find_map(here)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, letters: Letters, text: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        let lines = Lines::new(pattern, letters).expect("the expression is valid");
        lines.each(text, |range| {
            all.push(String::from_utf8(text[range].to_vec()).expect("only text matches"));
            Go::On
        });
        assert!(all.is_empty() || lines.may_be_in(text));
        all
    }

    #[test]
    fn lines_are_found_with_their_ends_cut() {
        let text = b"one\r\ntwo One\n\xff one\nthree\none";
        assert_eq!(found("one$", Letters::EitherCase, text), ["one", "two One", "one"]);
        assert_eq!(found("^one$", Letters::AsTheyAre, text), ["one", "one"]);
        assert_eq!(found("", Letters::AsTheyAre, b"a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(found("o.*\n", Letters::AsTheyAre, text), Vec::<String>::new());
    }

    #[test]
    fn several_literals_are_followed_at_once() {
        let text = b"b\na\nx\nb a\nA\n";
        assert_eq!(found("a|b", Letters::AsTheyAre, text), ["b", "a", "b a"]);
        assert_eq!(found("a|b", Letters::EitherCase, text), ["b", "a", "b a", "A"]);
    }

    #[test]
    fn an_overlapping_rare_byte_does_not_hide_the_literal() {
        assert_eq!(found("zaz", Letters::EitherCase, b"zzaZ"), ["zzaZ"]);
        assert_eq!(found("zz", Letters::EitherCase, b"z\nzZ\nz"), ["zZ"]);
    }

    /// A generator good enough for tests, and the same everywhere.
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
            let letters = [Letters::AsTheyAre, Letters::EitherCase][dice.roll(2)];
            let Ok(lines) = Lines::new(&pattern, letters) else {
                continue;
            };
            tried += 1;
            helped += usize::from(!lines.needles.is_empty());
            let text: String = (0..dice.roll(60)).map(|_| LETTERS[dice.roll(LETTERS.len())]).collect();
            let plain: Vec<&str> = text.lines().filter(|line| lines.is_match(line)).collect();
            hits += plain.len();
            assert_eq!(
                found(&pattern, letters, text.as_bytes()),
                plain,
                "seed {seed}: {pattern:?} {letters:?} {text:?}"
            );
        }
        // The test means nothing if most expressions are not valid, have no literals or never match.
        assert!(tried > 8_000 && helped > 3_000 && hits > 10_000, "{tried} {helped} {hits}");
    }
}
