//! Patterns with `*`, `?`, `[…]` and `**` over paths: the matcher of ignore files, `glob` and `include_pattern`.
//!
//! There are two dialects. Git's dialect compares bytes and is implemented exactly, because people check ignore files with git. The dialect
//! of the tools compares characters, may ignore case (ASCII) and has `{a,b}`, as in shells and editors.
//!
//! A comparison takes at most text × pattern steps: it backtracks only to the last `*` and the last `**`. That is enough, because whatever
//! text an earlier one could match instead, the later one can match as well.

use crate::limits::GLOB_ALTERNATIVES;
use crate::tool::search::listing::file_name;

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

/// A pattern of the tools' dialect: it matches a text that any of its alternatives matches.
#[derive(Clone, Debug)]
pub struct Glob(Vec<Wildcard>);

/// A pattern that is compared with file names if it has no slash, as in ignore files, and otherwise with paths.
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
    /// `**/`: nothing, or anything up to and including a slash.
    Dirs,
    /// `**` at the end.
    Rest,
    Class(Class),
}

/// The unit that `?` and a class match: a byte or a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    Bytes,
    Chars,
}

#[derive(Clone, Debug)]
struct Class {
    ranges: Vec<(char, char)>,
    negated: bool,
}

/// Whether the pattern is compared with a whole text or with the beginning of a longer one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    Whole,
    Beginning,
}

impl Wildcard {
    /// Git's pattern for a name, in which every run of stars is one star. None if it can never match.
    pub fn git_name(pattern: &[u8]) -> Option<Wildcard> {
        Wildcard::git(pattern, |_, _| false)
    }

    /// Git's pattern for a path. Git compares the text before the first special character separately and then starts again, so two
    /// stars at that position mean directories even if no slash is before them.
    pub fn git_path(pattern: &[u8]) -> Option<Wildcard> {
        let plain = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
        Wildcard::git(pattern, |pattern, at| at == plain || pattern[at - 1] == '/')
    }

    fn git(pattern: &[u8], deep_at: impl Fn(&[char], usize) -> bool) -> Option<Wildcard> {
        let pattern: Vec<char> = pattern.iter().map(|byte| char::from(*byte)).collect();
        Some(Wildcard { steps: steps(&pattern, Units::Bytes, deep_at)?, units: Units::Bytes, case: Case::Exact })
    }

    /// One alternative of the tools' dialect, in which two stars mean directories only as a whole segment.
    fn ours(pattern: &str, case: Case) -> Option<Wildcard> {
        let pattern: Vec<char> = pattern.chars().collect();
        let deep_at = |pattern: &[char], at: usize| at == 0 || pattern[at - 1] == '/';
        Some(Wildcard { steps: steps(&pattern, Units::Chars, deep_at)?, units: Units::Chars, case })
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        // A quick check: most patterns end with a literal, and most texts end differently.
        if let Some(Step::Text(end)) = self.steps.last()
            && !(text.len() >= end.len() && self.same(end, &text[text.len() - end.len()..]))
        {
            return false;
        }
        self.compare(text, Compared::Whole)
    }

    fn compare(&self, text: &[u8], compared: Compared) -> bool {
        let is_beginning = compared == Compared::Beginning;
        let (mut step, mut at) = (0, 0);
        // For the last `*` and the last `**/`: the step after it, and the end of the text that it matches so far.
        let mut name: Option<(usize, usize)> = None;
        let mut dirs: Option<(usize, usize)> = None;
        loop {
            if at == text.len() && is_beginning && step < self.steps.len() {
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
                    if is_beginning && left.len() < literal.len() && self.same(&literal[..left.len()], left) {
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
    fn unit(&self, text: &[u8]) -> Option<(char, usize)> {
        let first = *text.first().filter(|byte| **byte != b'/')?;
        if self.units == Units::Bytes || first.is_ascii() {
            return Some((char::from(first), 1));
        }
        let chunk = text[..text.len().min(4)].utf8_chunks().next()?;
        // A byte that is not UTF-8 is a unit by itself.
        Some(chunk.valid().chars().next().map_or((char::from(first), 1), |c| (c, c.len_utf8())))
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
        self.0.iter().any(|one| one.compare(dir, Compared::Beginning))
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

/// The pattern of the tools' dialect that matches only this text, whatever characters are in it.
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
    fn has(&self, unit: char, case: Case) -> bool {
        let within = |unit| self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&unit));
        let found = within(unit)
            || case == Case::Folded && (within(unit.to_ascii_lowercase()) || within(unit.to_ascii_uppercase()));
        found != self.negated
    }
}

/// None if the pattern can never match. `deep_at` says whether two stars that begin at a position may mean directories; a slash or
/// the end must follow them.
fn steps(pattern: &[char], units: Units, deep_at: impl Fn(&[char], usize) -> bool) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(c) = pattern.get(at) {
        let begin = at;
        at += 1;
        match c {
            '*' => {
                at += pattern[at..].iter().take_while(|c| **c == '*').count();
                let deep = at - begin > 1 && deep_at(pattern, begin);
                steps.push(match pattern.get(at) {
                    Some('/') if deep => Step::Dirs,
                    None if deep => Step::Rest,
                    Some(_) | None => Step::Name,
                });
                at += usize::from(matches!(steps.last(), Some(Step::Dirs)));
            }
            '?' => steps.push(Step::One),
            '[' => match (class(pattern, at), units) {
                (Some((class, end)), _) => {
                    steps.push(Step::Class(class));
                    at = end;
                }
                (None, Units::Bytes) => return None,
                // A bracket that is not closed is a character.
                (None, Units::Chars) => push_literal(&mut steps, '[', units),
            },
            '\\' => {
                push_literal(&mut steps, *pattern.get(at)?, units);
                at += 1;
            }
            c => push_literal(&mut steps, *c, units),
        }
    }
    Some(steps)
}

fn push_literal(steps: &mut Vec<Step>, c: char, units: Units) {
    if !matches!(steps.last(), Some(Step::Text(_))) {
        steps.push(Step::Text(Vec::new()));
    }
    if let Some(Step::Text(text)) = steps.last_mut() {
        match units {
            Units::Bytes => text.push(c as u8),
            Units::Chars => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Reads a class whose first character is at `begin`, and returns it with the position after it. None if it is not closed or names an
/// unknown kind of characters.
fn class(pattern: &[char], begin: usize) -> Option<(Class, usize)> {
    let negated = matches!(pattern.get(begin), Some('!' | '^'));
    let first = begin + usize::from(negated);
    let mut at = first;
    let mut ranges = Vec::new();
    // The character that a range could start from.
    let mut from: Option<char> = None;
    loop {
        let next = pattern.get(at + 1);
        match (*pattern.get(at)?, from) {
            (']', _) if at > first => return Some((Class { ranges, negated }, at + 1)),
            ('-', Some(low)) if next.is_some_and(|next| *next != ']') => {
                at += if next == Some(&'\\') { 2 } else { 1 };
                ranges.push((low, *pattern.get(at)?));
                from = None;
            }
            ('[', _) if next == Some(&':') => {
                let name = at + 2;
                let close = name + pattern[name..].iter().position(|c| *c == ']')?;
                if close > name && pattern[close - 1] == ':' {
                    ranges.extend_from_slice(named(&pattern[name..close - 1])?);
                    at = close;
                    from = None;
                } else {
                    ranges.push(('[', '['));
                    from = Some('[');
                }
            }
            (c, _) => {
                at += usize::from(c == '\\');
                let c = *pattern.get(at)?;
                ranges.push((c, c));
                from = Some(c);
            }
        }
        at += 1;
    }
}

/// The characters of `[:name:]`.
fn named(name: &[char]) -> Option<&'static [(char, char)]> {
    Some(match name.iter().collect::<String>().as_str() {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    })
}

/// Expands braces: `a{b,c}d` becomes `abd` and `acd`. Braces without a comma, or without a closing brace, are taken literally.
fn alternatives(pattern: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut todo = vec![pattern.to_string()];
    while let Some(one) = todo.pop() {
        if done.len() + todo.len() >= GLOB_ALTERNATIVES {
            return Err(format!(
                "the braces in {pattern:?} make more than {GLOB_ALTERNATIVES} patterns; use fewer of them"
            ));
        }
        match braces(&one) {
            None => done.push(one),
            Some(cuts) => {
                let (before, rest) = (&one[..cuts[0]], &one[cuts[cuts.len() - 1] + 1..]);
                todo.extend(cuts.windows(2).map(|cut| [before, &one[cut[0] + 1..cut[1]], rest].concat()));
            }
        }
    }
    Ok(done)
}

/// The positions of the first braces that have a comma: the opening one, its commas and the closing one.
fn braces(pattern: &str) -> Option<Vec<usize>> {
    let mut open: Vec<Vec<usize>> = Vec::new();
    let mut first: Option<Vec<usize>> = None;
    let mut chars = pattern.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '{' => open.push(vec![at]),
            ',' => {
                if let Some(cuts) = open.last_mut() {
                    cuts.push(at);
                }
            }
            '}' => {
                if let Some(mut cuts) = open.pop()
                    && cuts.len() > 1
                    && first.as_ref().is_none_or(|first| cuts[0] < first[0])
                {
                    cuts.push(at);
                    first = Some(cuts);
                }
            }
            _ => {}
        }
    }
    first
}

#[cfg(test)]
mod tests;
