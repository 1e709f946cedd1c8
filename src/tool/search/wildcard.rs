//! Patterns with `*`, `?`, `[…]` and `**` over paths: the matcher behind ignore files, `glob` and `include_pattern`.
//!
//! Two dialects share it. Git's works on bytes and is followed to the letter, oddities included, because people check what an
//! ignore file does with git. Ours works on characters, may fold case (ASCII) and knows `{a,b}`, as shells and editors do.
//!
//! A match never takes more than text × pattern steps: only the last `*` and the last `**` are ever tried again. That is
//! enough, since whatever an earlier one could take instead, the later one can take as well.

use crate::tool::search::listing::file_name;

/// Alternatives that braces may multiply to; a pattern with more is refused.
const MOST_ALTERNATIVES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Exact,
    Folded,
}

#[derive(Clone, Debug)]
pub struct Wildcard {
    steps: Vec<Step>,
    units: Units,
    case: Case,
}

/// A pattern of our own dialect: any of its alternatives.
#[derive(Clone, Debug)]
pub struct Glob(Vec<Wildcard>);

/// A pattern that is about names if it has no slash, as those of ignore files are, and else about paths.
#[derive(Clone, Debug)]
pub struct NameGlob {
    glob: Glob,
    of_names: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Text(Vec<u8>),
    /// `?`
    One,
    /// `*`: anything but a slash.
    Name,
    /// `**/`: nothing, or anything up to and with a slash.
    Dirs,
    /// `**` at the end.
    Rest,
    Class(Class),
}

/// What `?` and a class stand for: a byte or a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    Bytes,
    Chars,
}

#[derive(Clone, Debug)]
struct Class {
    ranges: Vec<(u32, u32)>,
    negated: bool,
}

/// What a text is compared as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Whole,
    /// The beginning of a longer text.
    Lead,
}

impl Wildcard {
    /// Git's pattern for a name, where every run of stars is one star. None if it can never match.
    pub fn git_name(pattern: &[u8]) -> Option<Wildcard> {
        Wildcard::git(pattern, |_, _| false)
    }

    /// Git's pattern for a path. Git compares what comes before the first special character on its own and then starts afresh, so
    /// two stars right there mean directories even if no slash is before them.
    pub fn git_path(pattern: &[u8]) -> Option<Wildcard> {
        let plain = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
        Wildcard::git(pattern, |units, at| at == plain || units[at - 1] == u32::from(b'/'))
    }

    fn git(pattern: &[u8], deep_at: impl Fn(&[u32], usize) -> bool) -> Option<Wildcard> {
        let units: Vec<u32> = pattern.iter().map(|byte| u32::from(*byte)).collect();
        Some(Wildcard { steps: steps(&units, Units::Bytes, deep_at)?, units: Units::Bytes, case: Case::Exact })
    }

    /// One alternative of our own dialect, where two stars are directories only as a whole segment.
    fn ours(pattern: &str, case: Case) -> Option<Wildcard> {
        let units: Vec<u32> = pattern.chars().map(u32::from).collect();
        let deep_at = |units: &[u32], at: usize| at == 0 || units[at - 1] == u32::from('/');
        Some(Wildcard { steps: steps(&units, Units::Chars, deep_at)?, units: Units::Chars, case })
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        // Most patterns end in something literal, and most texts end in something else.
        if let Some(Step::Text(end)) = self.steps.last()
            && !(text.len() >= end.len() && self.same(end, &text[text.len() - end.len()..]))
        {
            return false;
        }
        self.compare(text, Aim::Whole)
    }

    /// Whether something that begins with `text` could match.
    pub fn could_lead_from(&self, text: &[u8]) -> bool {
        self.compare(text, Aim::Lead)
    }

    fn compare(&self, text: &[u8], aim: Aim) -> bool {
        let (mut step, mut at) = (0, 0);
        // Where to go on after the last `*` and `**/`, and up to where they have taken the text so far.
        let mut name: Option<(usize, usize)> = None;
        let mut dirs: Option<(usize, usize)> = None;
        loop {
            if at == text.len() && aim == Aim::Lead && step < self.steps.len() {
                return true;
            }
            let taken = match self.steps.get(step) {
                None if at == text.len() => return true,
                None => None,
                Some(Step::Rest) => return true,
                Some(Step::Name) => {
                    name = Some((step + 1, at));
                    Some(0)
                }
                Some(Step::Dirs) => {
                    dirs = Some((step + 1, at));
                    name = None;
                    Some(0)
                }
                Some(Step::Text(literal)) => {
                    let left = &text[at..];
                    if aim == Aim::Lead && left.len() < literal.len() && self.same(&literal[..left.len()], left) {
                        return true;
                    }
                    let fits = left.len() >= literal.len() && self.same(literal, &left[..literal.len()]);
                    fits.then_some(literal.len())
                }
                Some(Step::One) => self.unit(&text[at..]).map(|(_, length)| length),
                Some(Step::Class(class)) => {
                    self.unit(&text[at..]).and_then(|(unit, length)| class.has(unit, self.case).then_some(length))
                }
            };
            if let Some(length) = taken {
                at += length;
                step += 1;
                continue;
            }
            if let Some((after, upto)) = name
                && let Some((_, length)) = self.unit(&text[upto..])
            {
                name = Some((after, upto + length));
                (step, at) = (after, upto + length);
            } else if let Some((after, upto)) = dirs
                && let Some(slash) = text[upto..].iter().position(|byte| *byte == b'/')
            {
                dirs = Some((after, upto + slash + 1));
                name = None;
                (step, at) = (after, upto + slash + 1);
            } else {
                return false;
            }
        }
    }

    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        match self.case {
            Case::Exact => a == b,
            Case::Folded => a.eq_ignore_ascii_case(b),
        }
    }

    /// The first byte or character and its length; None at the end and before a slash.
    fn unit(&self, text: &[u8]) -> Option<(u32, usize)> {
        let first = *text.first()?;
        if first == b'/' {
            return None;
        }
        let length = match (self.units, first) {
            (Units::Bytes, _) | (Units::Chars, 0..=0xbf) => 1,
            (Units::Chars, 0xc0..=0xdf) => 2,
            (Units::Chars, 0xe0..=0xef) => 3,
            (Units::Chars, 0xf0..=0xff) => 4,
        };
        let whole = text.get(..length).and_then(|c| str::from_utf8(c).ok());
        match whole.and_then(|c| c.chars().next()) {
            Some(c) => Some((u32::from(c), length)),
            None => Some((u32::from(first), 1)),
        }
    }
}

impl Glob {
    pub fn new(pattern: &str, case: Case) -> Result<Glob, String> {
        let any = alternatives(pattern)?
            .iter()
            .map(|one| {
                Wildcard::ours(one, case).ok_or_else(|| format!("the pattern {pattern:?} ends in a lone backslash"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Glob(any))
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        self.0.iter().any(|one| one.matches(text))
    }

    /// Whether a path in this directory, given with a final slash, could match.
    pub fn could_match_in(&self, dir: &[u8]) -> bool {
        self.0.iter().any(|one| one.could_lead_from(dir))
    }
}

impl NameGlob {
    pub fn new(pattern: &str, case: Case) -> Result<NameGlob, String> {
        let of_names = !pattern.contains('/');
        let pattern = pattern.trim_start_matches("./").trim_start_matches('/');
        Ok(NameGlob { glob: Glob::new(pattern, case)?, of_names })
    }

    pub fn matches(&self, path: &[u8]) -> bool {
        self.glob.matches(if self.of_names { file_name(path) } else { path })
    }
}

/// The pattern of our dialect that stands for a text itself, whatever characters are in it.
pub fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

impl Class {
    fn has(&self, unit: u32, case: Case) -> bool {
        let within = |unit| self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&unit));
        let found = within(unit)
            || match (case, u8::try_from(unit)) {
                (Case::Folded, Ok(byte)) => {
                    within(byte.to_ascii_lowercase().into()) || within(byte.to_ascii_uppercase().into())
                }
                _ => false,
            };
        found != self.negated
    }
}

/// None if the pattern can never match. `deep_at` says whether two stars that begin here may stand for directories; what follows
/// them must be a slash or the end.
fn steps(units: &[u32], kind: Units, deep_at: impl Fn(&[u32], usize) -> bool) -> Option<Vec<Step>> {
    let is = |at: usize, c: char| units.get(at) == Some(&u32::from(c));
    let mut steps = Vec::new();
    let mut at = 0;
    while at < units.len() {
        if is(at, '*') {
            let begin = at;
            while is(at, '*') {
                at += 1;
            }
            let deep = at - begin > 1 && deep_at(units, begin);
            if deep && is(at, '/') {
                steps.push(Step::Dirs);
                at += 1;
            } else if deep && at == units.len() {
                steps.push(Step::Rest);
            } else {
                steps.push(Step::Name);
            }
            continue;
        }
        if is(at, '?') {
            steps.push(Step::One);
            at += 1;
            continue;
        }
        if is(at, '[') {
            match (class(units, at + 1), kind) {
                (Some((class, after)), _) => {
                    steps.push(Step::Class(class));
                    at = after;
                    continue;
                }
                (None, Units::Bytes) => return None,
                // A bracket that does not close is one of a name.
                (None, Units::Chars) => {}
            }
        }
        if is(at, '\\') {
            at += 1;
        }
        push_literal(&mut steps, *units.get(at)?, kind);
        at += 1;
    }
    Some(steps)
}

fn push_literal(steps: &mut Vec<Step>, unit: u32, kind: Units) {
    if !matches!(steps.last(), Some(Step::Text(_))) {
        steps.push(Step::Text(Vec::new()));
    }
    let Some(Step::Text(text)) = steps.last_mut() else {
        unreachable!("a text was just put there");
    };
    match kind {
        Units::Bytes => text.push(unit as u8),
        Units::Chars => {
            let c = char::from_u32(unit).expect("the unit was made from a character");
            text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// A class from behind its bracket on, and where it ends. None if it does not end, or names a kind of characters there is not.
fn class(units: &[u32], begin: usize) -> Option<(Class, usize)> {
    const BRACKET: u32 = b'[' as u32;
    const CLOSING: u32 = b']' as u32;
    const COLON: u32 = b':' as u32;
    const DASH: u32 = b'-' as u32;
    const BACKSLASH: u32 = b'\\' as u32;
    let mut at = begin;
    let negated = matches!(units.get(at), Some(unit) if *unit == u32::from('!') || *unit == u32::from('^'));
    at += usize::from(negated);
    let mut ranges = Vec::new();
    // The character a range could start from.
    let mut from: Option<u32> = None;
    let first = at;
    while at == first || *units.get(at)? != CLOSING {
        let unit = *units.get(at)?;
        let next = units.get(at + 1).copied();
        match (unit, from) {
            (BACKSLASH, _) => {
                at += 1;
                let escaped = *units.get(at)?;
                ranges.push((escaped, escaped));
                from = Some(escaped);
            }
            (DASH, Some(low)) if next.is_some() && next != Some(CLOSING) => {
                at += 1;
                if units[at] == BACKSLASH {
                    at += 1;
                }
                ranges.push((low, *units.get(at)?));
                from = None;
            }
            (BRACKET, _) if next == Some(COLON) => {
                let close = at + 2 + units[at + 2..].iter().position(|unit| *unit == CLOSING)?;
                if close > at + 2 && units[close - 1] == COLON {
                    ranges.extend_from_slice(named(&units[at + 2..close - 1])?);
                    at = close;
                    from = None;
                } else {
                    ranges.push((BRACKET, BRACKET));
                    from = Some(BRACKET);
                }
            }
            _ => {
                ranges.push((unit, unit));
                from = Some(unit);
            }
        }
        at += 1;
    }
    Some((Class { ranges, negated }, at + 1))
}

/// The characters of `[:name:]`.
fn named(name: &[u32]) -> Option<&'static [(u32, u32)]> {
    let name: String = name.iter().filter_map(|unit| char::from_u32(*unit)).collect();
    Some(match name.as_str() {
        "alnum" => &[(48, 57), (65, 90), (97, 122)],
        "alpha" => &[(65, 90), (97, 122)],
        "blank" => &[(9, 9), (32, 32)],
        "cntrl" => &[(0, 31), (127, 127)],
        "digit" => &[(48, 57)],
        "graph" => &[(33, 126)],
        "lower" => &[(97, 122)],
        "print" => &[(32, 126)],
        "punct" => &[(33, 47), (58, 64), (91, 96), (123, 126)],
        "space" => &[(9, 13), (32, 32)],
        "upper" => &[(65, 90)],
        "xdigit" => &[(48, 57), (65, 70), (97, 102)],
        _ => return None,
    })
}

/// `a{b,c}d` is `abd` and `acd`. Braces without a comma, or that do not close, are characters of a name.
fn alternatives(pattern: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut todo = vec![pattern.to_string()];
    while let Some(one) = todo.pop() {
        if done.len() + todo.len() >= MOST_ALTERNATIVES {
            return Err(format!(
                "the braces in {pattern:?} make more than {MOST_ALTERNATIVES} patterns; use fewer of them"
            ));
        }
        match braces(&one) {
            None => done.push(one),
            Some((open, close, commas)) => {
                let mut begin = open + 1;
                for end in commas.into_iter().chain([close]) {
                    todo.push([&one[..open], &one[begin..end], &one[close + 1..]].concat());
                    begin = end + 1;
                }
            }
        }
    }
    Ok(done)
}

/// The first braces with a comma: where they open and close, and their own commas.
fn braces(pattern: &str) -> Option<(usize, usize, Vec<usize>)> {
    let bytes = pattern.as_bytes();
    let special = unescaped(bytes);
    for (i, open) in special.iter().enumerate() {
        if bytes[*open] != b'{' {
            continue;
        }
        let mut depth = 0;
        let mut commas = Vec::new();
        for at in &special[i..] {
            match bytes[*at] {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ if depth == 1 => commas.push(*at),
                _ => {}
            }
            if depth == 0 {
                if commas.is_empty() {
                    break;
                }
                return Some((*open, *at, commas));
            }
        }
    }
    None
}

/// Where braces and commas stand that are not escaped.
fn unescaped(bytes: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'{' | b'}' | b',' => found.push(at),
            _ => {}
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests;
