//! The part of TOML that custom commands need: names with texts at the outermost level. Values of other types and everything in tables
//! are skipped; a file that is not TOML is refused with the line of the first mistake.

use crate::config::formats::tree::Notice;

/// The names and texts at the outermost level, in the order of the file.
pub fn texts(text: &str) -> Result<Vec<(String, String)>, Notice> {
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let (mut found, mut in_table) = (Vec::new(), false);
    loop {
        reader.skip_blank_lines();
        match reader.peek() {
            None => return Ok(found),
            Some('[') => {
                reader.skip_line();
                in_table = true;
            }
            Some(_) => {
                let name = reader.name()?;
                let value = reader.value()?;
                reader.end_of_line()?;
                match (name, value) {
                    (Some(name), _) if !in_table && found.iter().any(|(known, _)| *known == name) => {
                        return Err(reader.wrong(&format!("{name} is set twice")));
                    }
                    (Some(name), Some(value)) if !in_table => found.push((name, value)),
                    (Some(_) | None, _) => {}
                }
            }
        }
    }
}

const UNCLOSED: &str = "a text is not closed on its line";

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// Takes this text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let fits = self.rest.starts_with(text);
        if fits {
            self.line += text.matches('\n').count();
            self.rest = &self.rest[text.len()..];
        }
        fits
    }

    fn wrong(&self, text: &str) -> Notice {
        Notice::new(self.line, text)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn skip_line(&mut self) {
        while !matches!(self.next(), None | Some('\n')) {}
    }

    /// Skips white space, empty lines and comments.
    fn skip_blank_lines(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' => drop(self.next()),
                '#' => self.skip_line(),
                _ => return,
            }
        }
    }

    fn end_of_line(&mut self) -> Result<(), Notice> {
        self.skip_blanks();
        match self.peek() {
            None | Some('\r' | '\n' | '#') => Ok(()),
            Some(_) => Err(self.wrong("there is something behind the value")),
        }
    }

    /// The name before `=`; None if it has several parts, which is a table.
    fn name(&mut self) -> Result<Option<String>, Notice> {
        let mut parts = Vec::new();
        loop {
            self.skip_blanks();
            let part = match self.peek() {
                Some('"') => self.basic()?,
                Some('\'') => self.literal()?,
                _ => {
                    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    let end = self.rest.find(|c| !is_bare(c)).unwrap_or(self.rest.len());
                    let (part, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    part.to_owned()
                }
            };
            if part.is_empty() {
                return Err(self.wrong("a line must be NAME = VALUE"));
            }
            parts.push(part);
            self.skip_blanks();
            match self.peek() {
                Some('.') => drop(self.next()),
                Some('=') => {
                    self.next();
                    break;
                }
                Some(_) | None => return Err(self.wrong("a line must be NAME = VALUE")),
            }
        }
        let is_plain = parts.len() == 1;
        Ok(parts.pop().filter(|_| is_plain))
    }

    /// The value if it is a text.
    fn value(&mut self) -> Result<Option<String>, Notice> {
        self.skip_blanks();
        Ok(match self.peek() {
            Some('"') if self.rest.starts_with("\"\"\"") => Some(self.long("\"\"\"")?),
            Some('\'') if self.rest.starts_with("'''") => Some(self.long("'''")?),
            Some('"') => Some(self.basic()?),
            Some('\'') => Some(self.literal()?),
            Some('[' | '{') => {
                self.skip_collection()?;
                None
            }
            _ => {
                let end = self.rest.find(['#', '\r', '\n']).unwrap_or(self.rest.len());
                if self.rest[..end].trim().is_empty() {
                    return Err(self.wrong("the value is missing"));
                }
                self.rest = &self.rest[end..];
                None
            }
        })
    }

    /// Skips a list or a table in braces, which may have several lines.
    fn skip_collection(&mut self) -> Result<(), Notice> {
        let mut open = 0;
        loop {
            match self.peek() {
                Some('"' | '\'') => drop(self.value()?),
                Some('#') => self.skip_line(),
                Some(c) => {
                    self.next();
                    open += i32::from("[{".contains(c)) - i32::from("]}".contains(c));
                    if open == 0 {
                        return Ok(());
                    }
                }
                None => return Err(self.wrong("a list or table is not closed")),
            }
        }
    }

    fn basic(&mut self) -> Result<String, Notice> {
        let (began, mut text) = (self.line, String::new());
        self.next();
        loop {
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some('\n') | None => return Err(Notice::new(began, UNCLOSED)),
                Some(c) => text.push(c),
            }
        }
    }

    fn literal(&mut self) -> Result<String, Notice> {
        self.next();
        let end = self.rest.find(['\'', '\n']).filter(|end| self.rest[*end..].starts_with('\''));
        let end = end.ok_or_else(|| self.wrong(UNCLOSED))?;
        let text = self.rest[..end].to_owned();
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// A text of several lines. Up to two quotes may stand before the closing ones.
    fn long(&mut self, quotes: &str) -> Result<String, Notice> {
        let (began, mut text) = (self.line, String::new());
        self.take(quotes);
        let _ = self.take("\r\n") || self.take("\n");
        loop {
            if self.rest.starts_with(quotes) {
                let run = self.rest.len() - self.rest.trim_start_matches(&quotes[..1]).len();
                let before = (run - 3).min(2);
                text.push_str(&self.rest[..before]);
                self.rest = &self.rest[before + 3..];
                return Ok(text);
            }
            match self.next() {
                Some('\\') if quotes.starts_with('"') => match self.rest.trim_start_matches([' ', '\t', '\r']) {
                    folded if folded.starts_with('\n') => {
                        while self.peek().is_some_and(char::is_whitespace) {
                            self.next();
                        }
                    }
                    _ => text.push(self.escaped()?),
                },
                Some('\r') if self.rest.starts_with('\n') => {}
                Some(c) => text.push(c),
                None => return Err(Notice::new(began, "the text that begins here is not closed")),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Notice> {
        let wrong = |reader: &Self| reader.wrong("a backslash is followed by something that it cannot mean");
        Ok(match self.next() {
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            Some(c @ ('"' | '\\')) => c,
            Some(c @ ('u' | 'U')) => {
                let digits = self.rest.get(..if c == 'u' { 4 } else { 8 }).ok_or_else(|| wrong(self))?;
                let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
                let c = code.and_then(char::from_u32).ok_or_else(|| wrong(self))?;
                self.rest = &self.rest[digits.len()..];
                c
            }
            Some(_) | None => return Err(wrong(self)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: &str) -> Result<String, (usize, String)> {
        let found = texts(&format!("# first\nx = {value}\n")).map_err(|notice| (notice.line, notice.text))?;
        Ok(found.into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn four_kinds_of_texts() {
        for (value, text) in [
            (r#""a \"b\" \\ \t\n\u00e9\U0001F600" # comment"#, "a \"b\" \\ \t\né😀"),
            (r#""""#, ""),
            (r"'a \n b'", r"a \n b"),
            ("\"\"\"\nfirst\r\n  second \\\n\n   third\"\"\"", "first\n  second third"),
            ("\"\"\"a \"\" b\"\"\"\"\"", "a \"\" b\"\""),
            ("\"\"\"\\\"\\\"\\\"\"\"\"", "\"\"\""),
            ("'''\n'a' \\n\n'''", "'a' \\n\n"),
            ("'''it''''", "it'"),
        ] {
            assert_eq!(one(value), Ok(text.to_owned()), "{value}");
        }
    }

    #[test]
    fn other_values_and_tables_are_skipped() {
        let file = "a = 1\n'b c' = \"two\" # x\nc.d = \"no\"\ne = [\n  \"]\", # ]\n  {x = 1}\n]\nf = 1979-05-27T07:32:00Z\n\n\
                    g = '''\nlong\n'''\n[table]\nh = 'no'\n[[more]]\na = \"no\"\n";
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(texts(file), Ok(vec![pair("b c", "two"), pair("g", "long\n")]));
        assert_eq!(texts("\u{feff}"), Ok(vec![]));
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        for (file, line) in [
            ("a = \"x\nb = 1", 1),
            ("a = 'x\nb = 'y'", 1),
            ("\na = \"\\q\"", 2),
            ("a = \"\\ud800\"", 1),
            ("a = \"\\u+123\"", 1),
            ("a = 1\nb = '''x\n\n", 2),
            ("a = 'x' y", 1),
            ("a\n", 1),
            ("= 'x'", 1),
            ("a = # x", 1),
            ("a = [1,\n2", 2),
            ("a = '1'\na = '2'", 2),
            ("a..b = 1", 1),
        ] {
            let refused = texts(file).expect_err(file);
            assert_eq!(refused.line, line, "{file:?}: {refused:?}");
        }
        assert_eq!(one("\"x"), Err((2, UNCLOSED.into())));
    }

    #[test]
    fn no_text_causes_a_panic() {
        let file = "a = \"\"\"é\\\n \\u00e9\"\"\"\n'b' = '''x'''\nc = [\"[\", {d = 'e'}]\n[t]\n";
        for end in (0..file.len()).filter(|end| file.is_char_boundary(*end)) {
            let _ = texts(&file[..end]);
            let _ = texts(&file[end..]);
        }
    }
}
