//! Inline markdown: strong and emphasised text, code, struck text, links. A mark without an end within `reach` is plain text.

use crate::ui::format::address::ascii_host;
use crate::ui::format::style::Role;
use crate::ui::format::wrap::Span;

/// Whether the text is complete, or more of it may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Part,
    Whole,
}

pub struct Inline {
    /// The spans up to the first mark whose end may still come.
    pub spans: Vec<Span>,
    /// For each span that is an exact copy of the text outside of marks: the position of the copied text.
    pub sources: Vec<Option<usize>>,
}

/// Reads the marks of a text. The end of a mark has to be within `reach` bytes.
pub fn inline(text: &str, known: Known, reach: usize, role: Role) -> Inline {
    let mut reader = Reader { out: Inline { spans: Vec::new(), sources: Vec::new() }, known, reach };
    reader.read(text, role, Some(0));
    reader.out
}

struct Reader {
    out: Inline,
    known: Known,
    reach: usize,
}

/// What begins at a position of the text.
enum Found {
    /// A mark with this role and content, and the position after the mark.
    Marked(Role, std::ops::Range<usize>, usize),
    Link {
        text: std::ops::Range<usize>,
        url: std::ops::Range<usize>,
        end: usize,
    },
    /// This number of bytes is plain text.
    Text(usize),
    /// A mark whose end may still come.
    Open,
}

impl Reader {
    /// Reads a text into spans. Returns whether all of it was read, or a mark is still open.
    fn read(&mut self, text: &str, role: Role, source: Option<usize>) -> bool {
        let mut from = 0;
        let mut at = 0;
        while at < text.len() {
            let found = self.mark(text, at);
            if let Found::Text(length) = found {
                at += length;
                continue;
            }
            self.text(&text[from..at], role, source.map(|source| source + from));
            match found {
                Found::Marked(Role::Code, content, end) => {
                    self.push(Role::Code, &text[content], None);
                    at = end;
                }
                Found::Marked(inner, content, end) => {
                    let known = std::mem::replace(&mut self.known, Known::Whole);
                    self.read(&text[content], inner, None);
                    self.known = known;
                    at = end;
                }
                Found::Link { text: label, url, end } => {
                    let known = std::mem::replace(&mut self.known, Known::Whole);
                    if text[label.clone()] != text[url.clone()] {
                        self.read(&text[label], role, None);
                        self.push(role, " (", None);
                        self.url(&text[url], role);
                        self.push(role, ")", None);
                    } else {
                        self.url(&text[url], role);
                    }
                    self.known = known;
                    at = end;
                }
                Found::Open => return false,
                Found::Text(_) => {}
            }
            from = at;
        }
        self.text(&text[from..], role, source.map(|source| source + from));
        true
    }

    fn push(&mut self, role: Role, text: &str, source: Option<usize>) {
        if !text.is_empty() {
            let span = Span::prose(role, text);
            self.out.sources.push(source.filter(|_| span.text == text));
            self.out.spans.push(span);
        }
    }

    /// Text without marks but for escapes and addresses. Words that are not shown as they are have spans of their own, so that most
    /// spans are copies of the source.
    fn text(&mut self, text: &str, role: Role, source: Option<usize>) {
        let mut from = 0;
        let mut at = 0;
        for word in text.split_inclusive(' ') {
            let url = word.find("https://").or_else(|| word.find("http://"));
            let changes = word.contains('\\') || !word.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            if changes || url.is_some() {
                self.push(role, &text[from..at], source.map(|source| source + from));
                match url {
                    Some(url) => self.address(word, url, role),
                    None => self.push(role, &unescaped(word), source.map(|source| source + at)),
                }
                from = at + word.len();
            }
            at += word.len();
        }
        self.push(role, &text[from..], source.map(|source| source + from));
    }

    /// A word that contains a URL.
    fn address(&mut self, word: &str, from: usize, role: Role) {
        let rest = &word[from..];
        let end = rest.find(|c: char| c.is_whitespace() || "<>\"`".contains(c)).unwrap_or(rest.len());
        let url = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '*', '_']);
        self.push(role, &word[..from], None);
        self.url(url, role);
        self.push(role, &rest[url.len()..], None);
    }

    /// A URL, followed by the ASCII name of its host if that differs.
    fn url(&mut self, url: &str, role: Role) {
        self.push(Role::Link, url, None);
        if let Some(host) = ascii_host(url) {
            self.push(role, &format!(" ({host})"), None);
        }
    }

    /// What begins at this byte.
    fn mark(&self, text: &str, at: usize) -> Found {
        let rest = &text[at..];
        let first = rest.as_bytes()[0];
        let next = rest.chars().next().map_or(1, char::len_utf8);
        match first {
            b'\\' => match rest[1..].chars().next() {
                Some(c) if c.is_ascii_punctuation() => Found::Text(2),
                Some(_) => Found::Text(1),
                None if self.known == Known::Part => Found::Open,
                None => Found::Text(1),
            },
            b'`' => self.code(text, at),
            b'*' | b'_' | b'~' => self.emphasis(text, at),
            b'[' => self.link(text, at, at),
            b'!' if rest.starts_with("![") => self.link(text, at, at + 1),
            b'!' if rest.len() == 1 && self.known == Known::Part => Found::Open,
            _ => Found::Text(next),
        }
    }

    /// The text in which the end of a mark that begins at `at` must be.
    fn ahead<'a>(&self, text: &'a str, at: usize) -> &'a str {
        &text[..text.floor_char_boundary(at + self.reach)]
    }

    /// No end was found: it may still come if the text is incomplete and shorter than the reach.
    fn without_end(&self, text: &str, at: usize, length: usize) -> Found {
        let may_come = self.known == Known::Part && text.len() - at < self.reach;
        if may_come { Found::Open } else { Found::Text(length) }
    }

    fn code(&self, text: &str, at: usize) -> Found {
        let run = text[at..].bytes().take_while(|byte| *byte == b'`').count();
        let content = at + run;
        if content == text.len() && self.known == Known::Part {
            return Found::Open;
        }
        let (mut from, ahead) = (content, self.ahead(text, at));
        while let Some(found) = ahead.get(from..).and_then(|rest| rest.find('`')).map(|found| from + found) {
            let closing = text[found..].bytes().take_while(|byte| *byte == b'`').count();
            if found + closing == text.len() && self.known == Known::Part {
                return Found::Open;
            }
            // The backticks of code are shown, because without colours nothing else marks it.
            if closing == run {
                return Found::Marked(Role::Code, at..found + closing, found + closing);
            }
            from = found + closing;
        }
        self.without_end(text, at, run)
    }

    fn emphasis(&self, text: &str, at: usize) -> Found {
        let mark = text.as_bytes()[at];
        let run = text[at..].bytes().take_while(|byte| *byte == mark).count();
        let (length, role) = match (mark, run) {
            (b'~', 2) => (2, Role::Struck),
            (b'*' | b'_', 1) => (1, Role::Emphasis),
            (b'*' | b'_', 2 | 3) => (2, Role::Strong),
            _ if at + run == text.len() && self.known == Known::Part => return Found::Open,
            _ => return Found::Text(run),
        };
        let before = text[..at].chars().next_back();
        let Some(behind) = text[at + run..].chars().next() else {
            return if self.known == Known::Part { Found::Open } else { Found::Text(run) };
        };
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if behind.is_whitespace() || (mark == b'_' && is_word(before)) {
            return Found::Text(run);
        }
        let delimiter = &text[at..at + length];
        let (mut from, ahead) = (at + length, self.ahead(text, at));
        while let Some(found) = ahead.get(from..).and_then(|rest| rest.find(delimiter)).map(|found| from + found) {
            let closing = text[found..].bytes().take_while(|byte| *byte == mark).count();
            let after = text[found + closing..].chars().next();
            let unknown = after.is_none() && self.known == Known::Part;
            let ends = !text[..found].ends_with(char::is_whitespace)
                && found > at + length
                && !(mark == b'_' && is_word(after));
            // A longer run closes two marks at once: the inner one first.
            let fits = closing == length || (closing == 3 && run == 3) || (closing > length && length == 2);
            if ends && fits && unknown {
                return Found::Open;
            }
            if ends && fits {
                let inner_end = if closing > length && run == closing { found + closing - length } else { found };
                return Found::Marked(role, at + length..inner_end, inner_end + length);
            }
            from = found + closing.max(1);
        }
        self.without_end(text, at, run)
    }

    /// `[text](url)`, or an image, which is shown in the same way.
    fn link(&self, text: &str, at: usize, bracket: usize) -> Found {
        let ahead = self.ahead(text, at);
        let find = |from: usize, end: char| ahead.get(from..)?.find(end).map(|found| from + found);
        let Some(close) = find(bracket, ']') else {
            return self.without_end(text, at, 1);
        };
        match text[close + 1..].chars().next() {
            Some('(') => {}
            None if self.known == Known::Part => return Found::Open,
            _ => return Found::Text(1),
        }
        let Some(end) = find(close, ')') else {
            return self.without_end(text, at, 1);
        };
        let url = close + 2..end;
        if text[url.clone()].contains(' ') || text[bracket + 1..close].contains('[') {
            return Found::Text(1);
        }
        Found::Link { text: bracket + 1..close, url, end: end + 1 }
    }
}

/// The text without the backslashes before punctuation.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next)) if next.is_ascii_punctuation() => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}
