//! Literals that a regular expression requires: every match contains at least one of them.
//!
//! Searching for bytes is many times faster than running an expression, and nearly every expression that people search for contains a
//! word. So the expression runs only on lines that contain one of its literals.
//!
//! A match must never be missed; finding no literals is always correct. The expression has been compiled before, so it is valid.
//! Optional parts, classes, positions and the characters around a group end a literal.

use crate::tool::search::wildcard::Case;
use std::str::Chars;

/// Most literals in one set: each of them is searched for, so many are no better than none.
const MOST: usize = 16;

/// The literals of a valid expression, and whether their case counts. Empty if a match may contain none of them, or if the expression
/// has parts that are not understood.
pub fn required(pattern: &str, case: Case) -> (Vec<String>, Case) {
    let (pattern, case) = match pattern.strip_prefix("(?i)") {
        Some(rest) => (rest, Case::Folded),
        None => (pattern, case),
    };
    let mut reader = Reader { rest: pattern.chars() };
    let literals = reader.alternation().filter(|_| reader.rest.as_str().is_empty());
    (literals.unwrap_or_default(), case)
}

/// The set whose shortest literal is longer.
fn better(a: Vec<String>, b: Vec<String>) -> Vec<String> {
    let shortest = |set: &[String]| set.iter().map(String::len).min().unwrap_or(0);
    if shortest(&b) > shortest(&a) { b } else { a }
}

/// How often a part occurs in a match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Times {
    Once,
    AtLeastOnce,
    MaybeNever,
}

/// Reads an expression. Its methods return None for syntax that they do not understand.
struct Reader<'a> {
    rest: Chars<'a>,
}

impl Reader<'_> {
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.as_str().strip_prefix(text);
        self.rest = rest.map_or(self.rest.clone(), str::chars);
        rest.is_some()
    }

    /// Alternatives up to a closing parenthesis or the end. Every match contains one of the literals, unless there are none.
    fn alternation(&mut self) -> Option<Vec<String>> {
        let mut all = Vec::new();
        let mut is_useful = true;
        loop {
            let literals = self.branch()?;
            is_useful &= !literals.is_empty();
            all.extend(literals);
            if !self.skip("|") {
                break;
            }
        }
        all.sort_unstable();
        all.dedup();
        Some(if is_useful && all.len() <= MOST { all } else { Vec::new() })
    }

    /// One alternative.
    fn branch(&mut self) -> Option<Vec<String>> {
        let mut best = Vec::new();
        let mut literal = String::new();
        while !self.rest.as_str().is_empty() && !self.rest.as_str().starts_with(['|', ')']) {
            let (letter, inner) = self.part()?;
            let times = self.times()?;
            if times != Times::MaybeNever {
                literal.extend(letter);
            }
            if letter.is_none() || times != Times::Once {
                best = better(best, vec![std::mem::take(&mut literal)]);
            }
            if times != Times::MaybeNever {
                best = better(best, inner);
            }
        }
        Some(better(best, vec![literal]))
    }

    /// The character that a part stands for, or the literals of a group.
    fn part(&mut self) -> Option<(Option<char>, Vec<String>)> {
        let mut inner = Vec::new();
        let letter = match self.rest.next()? {
            '.' | '^' | '$' => None,
            '[' => {
                self.skip_class()?;
                None
            }
            '(' if self.skip("?:") || !self.rest.as_str().starts_with('?') => {
                inner = self.alternation()?;
                self.skip(")");
                None
            }
            // Flags, and groups with a name.
            '(' => return None,
            '\\' => match self.rest.next()? {
                // Digits follow.
                'x' | 'u' | 'U' => return None,
                '<' | '>' => None,
                c => Some(c).filter(|c| !c.is_alphanumeric()),
            },
            c => Some(c),
        };
        Some((letter, inner))
    }

    /// Reads the repetitions of a part. `?` may also mark a lazy repetition, and then counts as optional too.
    fn times(&mut self) -> Option<Times> {
        let mut times = Times::Once;
        loop {
            let one = if self.skip("+") {
                Times::AtLeastOnce
            } else if self.skip("*") || self.skip("?") {
                Times::MaybeNever
            } else if self.skip("{") {
                let (inside, rest) = self.rest.as_str().split_once('}')?;
                self.rest = rest.chars();
                let least = inside.split(',').next()?.trim().parse::<u64>();
                if least.is_ok_and(|n| n > 0) { Times::AtLeastOnce } else { Times::MaybeNever }
            } else {
                return Some(times);
            };
            times = times.max(one);
        }
    }

    /// Continues after a class. Only classes like `[:alpha:]` have brackets inside it.
    fn skip_class(&mut self) -> Option<()> {
        self.skip("^");
        // A closing bracket or a dash at the beginning is a member. A closing bracket after that dash ends the class.
        if !self.skip("-") {
            self.skip("]");
        }
        loop {
            match self.rest.next()? {
                ']' => return Some(()),
                '\\' => drop(self.rest.next()),
                '[' if self.rest.as_str().starts_with(':') => drop(self.rest.find(|c| *c == ']')),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(pattern: &str) -> Vec<String> {
        regex_lite::Regex::new(pattern).expect("the expression is valid");
        required(pattern, Case::Exact).0
    }

    #[test]
    fn the_literals_of_expressions() {
        let table: &[(&str, &[&str])] = &[
            ("hello", &["hello"]),
            ("^hello$", &["hello"]),
            (r"\bfn\s+parse_\w+\(", &["parse_"]),
            (r"a\.b\(c\)", &["a.b(c)"]),
            ("TODO|FIXME", &["FIXME", "TODO"]),
            ("(foo|bar)_quiz", &["_quiz"]),
            ("(fox|box)ee", &["box", "fox"]),
            ("x(?:ab)+y", &["ab"]),
            ("x(?:ab){2,}y", &["ab"]),
            ("(?:key)=.*", &["key"]),
            ("(?i)key", &["key"]),
            ("[a-z]+_test", &["_test"]),
            ("[]a]quiz", &["quiz"]),
            ("[[:alpha:]]quiz", &["quiz"]),
            ("[^]]quiz", &["quiz"]),
            ("[-]quiz[--]", &["quiz"]),
            (r"[\]]quiz", &["quiz"]),
            (r"\b{start}word\b{end}", &["word"]),
            ("größe", &["größe"]),
            ("ab?cd", &["cd"]),
        ];
        for (pattern, expected) in table {
            assert_eq!(literals(pattern), *expected, "{pattern}");
        }
    }

    #[test]
    fn an_expression_that_requires_no_literal_gives_none() {
        for pattern in [
            "",
            ".*",
            "a*",
            "(abc)?",
            "(abc|)",
            "foo|.*",
            "a|b*",
            "[a-z]+",
            r"\d+",
            r"\w",
            "(?x) a b",
            "x{0,3}",
            "x(?i)*",
            "abc(?i:def)",
            "^$",
            r"\b",
            "(?:a{0})",
            r"\x41bc",
            r"\u{41}bc",
            "(?P<name>key)",
        ] {
            assert_eq!(literals(pattern), Vec::<String>::new(), "{pattern}");
        }
    }
}
