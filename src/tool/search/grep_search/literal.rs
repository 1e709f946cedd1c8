//! What every match of a regular expression must contain: a few literals, one of which is in each match.
//!
//! Looking for bytes is many times faster than running an expression, and nearly every expression people search for has a
//! word in it. So the words are taken out here, and the expression only sees lines that have one of them.
//!
//! The one promise is never to miss a match; finding no literals is always right. This reads only expressions that have been
//! compiled before, so it need not complain; where it does not understand something, it takes it for "anything".

/// Literals in one set: each of them is looked for, so many are no better than none.
const MOST: usize = 16;
/// Bytes of a literal beyond which it gets no rarer.
const LONGEST: usize = 64;

/// How often a literal is likely to occur, in a hundred thousand bytes of source code. One byte is as rare as its letter; each
/// further one makes it rarer, until others count more.
fn cost(literal: &str) -> u32 {
    let rarest = literal.bytes().map(frequency).min().unwrap_or(u32::MAX);
    match literal.len() {
        0 => u32::MAX,
        1 => rarest,
        2 => rarest / 8,
        _ => rarest / 32,
    }
}

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

/// Whether letters in a literal stand for both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    AsTheyAre,
    EitherCase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literals {
    pub any: Vec<String>,
    pub letters: Letters,
}

/// The literals of a valid expression; None if some match may be without any.
pub fn required(pattern: &str, letters: Letters) -> Option<Literals> {
    let mut reader = Reader { chars: pattern.chars().collect(), at: 0, letters, lost: false };
    let whole = reader.alternation();
    if reader.lost || reader.at < reader.chars.len() {
        return None;
    }
    Some(Literals { any: whole.needs()?, letters: reader.letters })
}

/// What is known of a part of the expression.
#[derive(Clone, Debug)]
enum Known {
    /// It matches exactly these. What looks but takes nothing is the empty text.
    Exactly(Vec<String>),
    /// It matches more than that; every match has one of these, if there are any.
    Needs(Option<Vec<String>>),
}

const ANYTHING: Known = Known::Needs(None);

impl Known {
    fn nothing() -> Known {
        Known::Exactly(vec![String::new()])
    }

    fn needs(self) -> Option<Vec<String>> {
        let mut set = match self {
            Known::Exactly(set) => set,
            Known::Needs(set) => set?,
        };
        if set.iter().any(String::is_empty) {
            return None;
        }
        set.sort_unstable();
        set.dedup();
        Some(set)
    }
}

/// The set that is cheaper to look for.
fn cheaper(a: Option<Vec<String>>, b: Option<Vec<String>>) -> Option<Vec<String>> {
    let total = |set: &[String]| set.iter().map(|one| cost(one)).fold(0, u32::saturating_add);
    match (a, b) {
        (Some(a), Some(b)) if total(&b) < total(&a) => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// Parts in a row. Exact parts are joined as long as they stay few.
fn row(parts: Vec<Known>) -> Known {
    let mut best = None;
    let mut exact = vec![String::new()];
    let mut whole = true;
    for part in parts {
        if let Known::Exactly(set) = &part
            && exact.len() * set.len() <= MOST
            && exact.iter().all(|text| text.len() < LONGEST)
        {
            exact = exact.iter().flat_map(|lead| set.iter().map(move |end| format!("{lead}{end}"))).collect();
            continue;
        }
        whole = false;
        best = cheaper(best, Known::Exactly(exact).needs());
        exact = match part {
            Known::Exactly(set) => set,
            Known::Needs(set) => {
                best = cheaper(best, set);
                vec![String::new()]
            }
        };
    }
    if whole {
        return Known::Exactly(exact);
    }
    Known::Needs(cheaper(best, Known::Exactly(exact).needs()))
}

fn either(branches: Vec<Known>) -> Known {
    let mut exact = true;
    let mut all = Vec::new();
    for branch in branches {
        let set = match branch {
            Known::Exactly(set) => Some(set),
            Known::Needs(set) => {
                exact = false;
                set
            }
        };
        match set {
            Some(set) => all.extend(set),
            None => return ANYTHING,
        }
    }
    match exact {
        _ if all.len() > MOST => ANYTHING,
        true => Known::Exactly(all),
        false => Known::Needs(Known::Exactly(all).needs()),
    }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    letters: Letters,
    /// Something came up that changes how the rest is to be read.
    lost: bool,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn skip(&mut self, text: &str) -> bool {
        let found = text.chars().eq(self.chars[self.at..].iter().copied().take(text.chars().count()));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn skip_behind(&mut self, end: char) {
        while let Some(c) = self.next() {
            if c == end {
                return;
            }
        }
        self.lost = true;
    }

    fn alternation(&mut self) -> Known {
        let mut branches = Vec::new();
        let mut parts: Vec<Known> = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                ')' => break,
                '|' => {
                    self.at += 1;
                    branches.push(row(std::mem::take(&mut parts)));
                }
                '*' | '+' | '?' | '{' => {
                    let part = parts.pop().unwrap_or(ANYTHING);
                    parts.push(self.repeated(part));
                }
                _ => parts.extend(self.single()),
            }
        }
        branches.push(row(parts));
        if branches.len() == 1 {
            return branches.remove(0);
        }
        either(branches)
    }

    /// What a repetition leaves of a part: nothing, if it may be left out.
    fn repeated(&mut self, part: Known) -> Known {
        let at_least_once = match self.next() {
            Some('+') => true,
            Some('{') => {
                let begin = self.at;
                self.skip_behind('}');
                let least: String =
                    self.chars[begin..self.at].iter().take_while(|c| c.is_ascii_digit() || c.is_whitespace()).collect();
                least.trim().parse::<u64>().is_ok_and(|least| least > 0)
            }
            _ => false,
        };
        if self.peek() == Some('?') {
            self.at += 1;
        }
        if at_least_once { Known::Needs(part.needs()) } else { ANYTHING }
    }

    /// None for a change of flags: it is no part, and what is said about the part before it may come behind it.
    fn single(&mut self) -> Option<Known> {
        Some(match self.next() {
            None | Some('.') => ANYTHING,
            Some('^' | '$') => Known::nothing(),
            Some('[') => {
                self.class();
                ANYTHING
            }
            Some('(') => return self.group(),
            Some('\\') => self.escape(),
            Some(c) => Known::Exactly(vec![c.into()]),
        })
    }

    fn group(&mut self) -> Option<Known> {
        if self.skip("?P<") || self.skip("?<") {
            self.skip_behind('>');
        } else if self.skip("?") {
            while let Some(flag) = self.next() {
                match flag {
                    ':' => break,
                    ')' => return None,
                    // From here on letters may be of either case, or not any more. To take them for either is always right.
                    'i' => self.letters = Letters::EitherCase,
                    // Spaces and comments mean nothing from here on: another language.
                    'x' => self.lost = true,
                    _ => {}
                }
            }
        }
        let inner = self.alternation();
        if self.next() != Some(')') {
            self.lost = true;
        }
        Some(inner)
    }

    fn escape(&mut self) -> Known {
        match self.next() {
            Some('b') if self.peek() == Some('{') => {
                // Either a kind of boundary, or a boundary so many times: nothing is taken in both cases.
                self.skip_behind('}');
                Known::nothing()
            }
            Some('b' | 'B' | 'A' | 'z' | '<' | '>') => Known::nothing(),
            Some('x' | 'u' | 'U') if self.peek() == Some('{') => {
                self.skip_behind('}');
                ANYTHING
            }
            Some(c @ ('x' | 'u' | 'U')) => {
                let digits = match c {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                self.at = (self.at + digits).min(self.chars.len());
                ANYTHING
            }
            Some(c) if !c.is_alphanumeric() => Known::Exactly(vec![c.into()]),
            _ => ANYTHING,
        }
    }

    /// Goes behind a class. Only kinds like `[:alpha:]` have brackets of their own in it.
    fn class(&mut self) {
        self.skip("^");
        // A bracket in front is one of the class, and so is a dash; a bracket behind a dash ends it.
        if !self.skip("-") {
            self.skip("]");
        }
        loop {
            match self.next() {
                Some(']') => return,
                Some('\\') => drop(self.next()),
                Some('[') if self.peek() == Some(':') => self.skip_behind(']'),
                Some(_) => {}
                None => {
                    self.lost = true;
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
        required(pattern, Letters::AsTheyAre).map_or(Vec::new(), |found| found.any)
    }

    #[test]
    fn words_are_found() {
        let table: &[(&str, &[&str])] = &[
            ("hello", &["hello"]),
            ("^hello$", &["hello"]),
            (r"\bfn\s+parse_\w+\(", &["parse_"]),
            (r"a\.b\(c\)", &["a.b(c)"]),
            ("TODO|FIXME", &["FIXME", "TODO"]),
            ("(foo|bar)baz", &["barbaz", "foobaz"]),
            ("x(?:ab)+y", &["ab"]),
            ("x(?:ab){2,}y", &["ab"]),
            ("(?P<name>key)=.*", &["key="]),
            ("[a-z]+_test", &["_test"]),
            ("[]a]quiz", &["quiz"]),
            ("[[:alpha:]]quiz", &["quiz"]),
            ("[^]]quiz", &["quiz"]),
            ("[-]quiz[--]", &["quiz"]),
            (r"[\]]quiz", &["quiz"]),
            (r"\x41bc", &["bc"]),
            (r"\u{41}bc", &["bc"]),
            (r"\b{start}word\b{end}", &["word"]),
            ("größe", &["größe"]),
            ("ab?c", &["c"]),
        ];
        for (pattern, expected) in table {
            assert_eq!(literals(pattern), *expected, "{pattern}");
        }
    }

    #[test]
    fn where_nothing_is_certain_nothing_is_claimed() {
        for pattern in [
            "", ".*", "a*", "(abc)?", "(abc|)", "foo|.*", "a|b*", "[a-z]+", r"\d+", r"\w", "(?x) a b", "x{0,3}",
            "x(?i)*", "^$", r"\b", "(?:a{0})",
        ] {
            assert_eq!(literals(pattern), Vec::<String>::new(), "{pattern}");
        }
    }

    #[test]
    fn a_flag_for_either_case_counts_for_all() {
        let found = required("abc(?i:def)", Letters::AsTheyAre).map(|found| found.letters);
        assert_eq!(found, Some(Letters::EitherCase));
        let found = required("(?-i:abc)", Letters::EitherCase).map(|found| found.letters);
        assert_eq!(found, Some(Letters::EitherCase));
    }
}
