//! Literals that a regular expression requires: every match contains at least one of them.
//!
//! Searching for bytes is many times faster than running an expression, and nearly every expression that people search for contains a
//! word. So the expression runs only on lines that contain one of its literals.
//!
//! A match must never be missed; finding no literals is always correct. The expression has been compiled before, so it is valid. What is
//! not understood here counts as "matches anything". Optional parts, classes and the characters around a group end a literal.

use crate::tool::search::wildcard::Case;

/// Most literals in one set: each of them is searched for, so many are no better than none.
const MOST: usize = 16;

/// How often a byte occurs in a hundred thousand bytes of source code, roughly, upper and lower case together.
pub fn frequency(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        b' ' => 18_000,
        b'e' => 7_500,
        b't' => 5_800,
        b'r' | b's' | b'n' | b'i' | b'a' | b'o' => 4_500,
        b'l' | b'c' | b'd' | b'u' | b'm' | b'p' => 2_500,
        b'\n' => 3_000,
        b'f' | b'h' | b'g' | b'_' | b'.' | b',' | b'(' | b')' | b'"' => 1_500,
        b'b' | b'y' | b'v' | b'w' | b'-' | b'/' | b'=' | b':' | b';' | b'*' => 1_000,
        b'0'..=b'9' | b'x' | b'k' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b'\'' => 500,
        b'q' | b'j' | b'z' | b'#' | b'+' | b'&' | b'|' | b'!' | b'\t' | b'`' | b'\\' => 200,
        _ => 50,
    }
}

/// The literals of a valid expression, and whether their case counts. None if a match may contain none of them.
pub fn required(pattern: &str, case: Case) -> Option<(Vec<String>, Case)> {
    let mut reader = Reader { rest: pattern, case, understood: true };
    let mut literals = reader.alternation()?;
    literals.sort_unstable();
    literals.dedup();
    (reader.understood && reader.rest.is_empty()).then_some((literals, reader.case))
}

/// The set whose shortest literal is longer.
fn better(a: Option<Vec<String>>, b: Option<Vec<String>>) -> Option<Vec<String>> {
    let shortest = |set: &Option<Vec<String>>| set.as_ref().and_then(|set| set.iter().map(String::len).min());
    if shortest(&b) > shortest(&a) { b } else { a }
}

/// One alternative as far as it was read.
#[derive(Default)]
struct Branch {
    /// The best set so far.
    best: Option<Vec<String>>,
    /// The literal that the next character may extend.
    literal: String,
}

impl Branch {
    fn end_literal(&mut self) {
        let literal = std::mem::take(&mut self.literal);
        self.best = better(self.best.take(), (!literal.is_empty()).then(|| vec![literal]));
    }
}

/// One part of an alternative.
enum Part {
    /// It matches a position and no text.
    Position,
    Literal(char),
    /// Every match contains one of these; None if nothing is known about it.
    Other(Option<Vec<String>>),
}

const ANYTHING: Part = Part::Other(None);

/// How often a part occurs in a match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Times {
    Once,
    AtLeastOnce,
    MaybeNever,
}

struct Reader<'a> {
    rest: &'a str,
    case: Case,
    /// False once something was read that changes how the rest has to be read.
    understood: bool,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Returns the text up to `end` and continues behind it.
    fn until(&mut self, end: char) -> &'a str {
        let (text, rest) = self.rest.split_once(end).unwrap_or_else(|| {
            self.understood = false;
            ("", "")
        });
        self.rest = rest;
        text
    }

    /// Alternatives up to a closing parenthesis or the end. Every match contains one of the returned literals.
    fn alternation(&mut self) -> Option<Vec<String>> {
        let mut all = Some(Vec::new());
        loop {
            let literals = self.branch();
            all = all.zip(literals).map(|(all, more)| [all, more].concat()).filter(|all| all.len() <= MOST);
            if !self.skip("|") {
                return all;
            }
        }
    }

    fn branch(&mut self) -> Option<Vec<String>> {
        let mut branch = Branch::default();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            match (self.part(), self.times()) {
                (Part::Position, _) => {}
                (Part::Literal(c), Times::Once) => branch.literal.push(c),
                (Part::Literal(c), Times::AtLeastOnce) => {
                    branch.literal.push(c);
                    branch.end_literal();
                }
                (Part::Other(set), Times::Once | Times::AtLeastOnce) => {
                    branch.end_literal();
                    branch.best = better(branch.best.take(), set);
                }
                (Part::Literal(_) | Part::Other(_), Times::MaybeNever) => branch.end_literal(),
            }
        }
        branch.end_literal();
        branch.best
    }

    /// Reads the repetitions of a part. `?` may also mark a lazy repetition, and then counts as optional too.
    fn times(&mut self) -> Times {
        let mut times = Times::Once;
        loop {
            let one = match self.rest.chars().next() {
                Some('+') => Times::AtLeastOnce,
                Some('*' | '?') => Times::MaybeNever,
                Some('{') => {
                    let least = self.rest[1..].split(['}', ',']).next().unwrap_or_default().trim().parse::<u64>();
                    self.until('}');
                    times = times.max(if least.is_ok_and(|n| n > 0) { Times::AtLeastOnce } else { Times::MaybeNever });
                    continue;
                }
                Some(_) | None => return times,
            };
            self.next();
            times = times.max(one);
        }
    }

    fn part(&mut self) -> Part {
        match self.next() {
            None | Some('.') => ANYTHING,
            Some('^' | '$') => Part::Position,
            Some('[') => {
                self.class();
                ANYTHING
            }
            Some('(') => self.group(),
            Some('\\') => self.escape(),
            Some(c) => Part::Literal(c),
        }
    }

    fn group(&mut self) -> Part {
        if self.skip("?") {
            loop {
                match self.next() {
                    Some(':') => break,
                    Some(')') => {
                        // A repetition behind flags would belong to the part before them.
                        self.understood &= !self.rest.starts_with(['*', '+', '?', '{']);
                        return Part::Position;
                    }
                    // The flag may also be turned off. Searching for both cases is always correct.
                    Some('i') => self.case = Case::Folded,
                    Some('m' | 's' | 'U' | '-') => {}
                    // A named group, or the flag by which spaces and comments lose their meaning.
                    Some(_) | None => {
                        self.understood = false;
                        break;
                    }
                }
            }
        }
        let inner = self.alternation();
        self.understood &= self.skip(")");
        Part::Other(inner)
    }

    fn escape(&mut self) -> Part {
        match self.next() {
            Some('b' | 'B' | 'A' | 'z' | '<' | '>') => Part::Position,
            Some(c) if !c.is_alphanumeric() => Part::Literal(c),
            // Digits follow.
            Some('x' | 'u' | 'U') => {
                self.understood = false;
                ANYTHING
            }
            Some(_) | None => ANYTHING,
        }
    }

    /// Continues behind a class. Only classes like `[:alpha:]` have brackets inside it.
    fn class(&mut self) {
        self.skip("^");
        // A closing bracket or a dash in front is a member. A closing bracket behind that dash ends the class.
        if !self.skip("-") {
            self.skip("]");
        }
        loop {
            match self.next() {
                Some(']') => return,
                Some('\\') => drop(self.next()),
                Some('[') if self.rest.starts_with(':') => drop(self.until(']')),
                Some(_) => {}
                None => {
                    self.understood = false;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(pattern: &str) -> Vec<String> {
        regex_lite::Regex::new(pattern).expect("the expression is valid");
        required(pattern, Case::Exact).map_or(Vec::new(), |(literals, _)| literals)
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

    #[test]
    fn the_flag_i_anywhere_makes_all_literals_case_insensitive() {
        for (pattern, case) in [("abc(?i:def)", Case::Exact), ("(?-i:abc)", Case::Folded)] {
            assert_eq!(required(pattern, case).map(|(_, case)| case), Some(Case::Folded), "{pattern}");
        }
    }
}
