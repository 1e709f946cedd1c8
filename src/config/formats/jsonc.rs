//! JSON with `//` and `/* */` comments and trailing commas, which are reported.
//!
//! This is a parser and not a filter in front of one, because it has to know the line of each value. serde_json parses strings and
//! numbers.

use crate::config::formats::tree::{Node, Notice, Value};
use crate::limits::SETTINGS_DEPTH;

/// The tree, and notices about what was corrected. An empty file is an empty map.
pub fn parse(text: &str) -> Result<(Node, Vec<Notice>), Notice> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser { text, at: 0, line: 1, notices: Vec::new() };
    parser.skip()?;
    let root = match parser.peek() {
        None => Node::new(1, Value::Map(Vec::new())),
        Some(_) => parser.node(0)?,
    };
    parser.skip()?;
    match parser.peek() {
        None => Ok((root, parser.notices)),
        Some(_) => Err(parser.wrong("there is something behind the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    notices: Vec<Notice>,
}

impl Parser<'_> {
    fn node(&mut self, depth: usize) -> Result<Node, Notice> {
        if depth > SETTINGS_DEPTH {
            return Err(self.wrong("it is nested too deeply"));
        }
        let line = self.line;
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => self.word()?,
            None => return Err(self.wrong("a value is missing at the end of the file")),
        };
        Ok(Node { line, value })
    }

    fn map(&mut self, depth: usize) -> Result<Value, Notice> {
        let mut members = Vec::new();
        self.at += 1;
        while self.next_item(b'}', !members.is_empty())? {
            let line = self.line;
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a name in double quotes is expected"));
            }
            let name = self.string()?;
            self.skip()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("a colon is missing behind a name"));
            }
            self.at += 1;
            self.skip()?;
            let node = self.node(depth + 1)?;
            members.push((name, Node { line, ..node }));
        }
        Ok(Value::Map(members))
    }

    fn list(&mut self, depth: usize) -> Result<Value, Notice> {
        let mut items = Vec::new();
        self.at += 1;
        while self.next_item(b']', !items.is_empty())? {
            items.push(self.node(depth + 1)?);
        }
        Ok(Value::List(items))
    }

    /// Skips the comma before the next item. Returns false if there is none, after skipping the closing bracket.
    fn next_item(&mut self, close: u8, comma_due: bool) -> Result<bool, Notice> {
        self.skip()?;
        let mut comma = None;
        if comma_due && self.peek() == Some(b',') {
            comma = Some(self.line);
            self.at += 1;
            self.skip()?;
        }
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                let extra = comma.map(|line| Notice::new(line, "there is a comma too many"));
                self.notices.extend(extra);
                Ok(false)
            }
            Some(_) if comma_due && comma.is_none() => Err(self.wrong("a comma is missing")),
            Some(_) => Ok(true),
            None => Err(self.wrong("a bracket is not closed")),
        }
    }

    fn string(&mut self) -> Result<String, Notice> {
        let rest = &self.text[self.at..];
        let mut escaped = false;
        let end = rest.bytes().enumerate().skip(1).find(|(_, byte)| {
            let ends = *byte == b'\n' || (*byte == b'"' && !escaped);
            escaped = *byte == b'\\' && !escaped;
            ends
        });
        let literal = match end {
            Some((end, b'"')) => &rest[..=end],
            Some(_) | None => return Err(self.wrong("a text is not closed on its line")),
        };
        let string = serde_json::from_str(literal)
            .map_err(|_| self.wrong("a text has an escape or a control character that JSON does not know"))?;
        self.at += literal.len();
        Ok(string)
    }

    fn number(&mut self) -> Result<Value, Notice> {
        let rest = &self.text[self.at..];
        let inside = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = rest.bytes().take_while(|byte| inside(byte)).count();
        let number = serde_json::from_str(&rest[..length]).map_err(|_| self.wrong("a number is malformed"))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Result<Value, Notice> {
        let words = [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)];
        for (word, value) in words {
            if let Some(rest) = self.text[self.at..].strip_prefix(word)
                && !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("a value is expected: a text in double quotes, a number, true, false, null, [ or {"))
    }

    /// Skips blanks and comments.
    fn skip(&mut self) -> Result<(), Notice> {
        loop {
            let rest = &self.text[self.at..];
            let passed = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(inside) = rest.strip_prefix("/*") {
                let end = inside.find("*/");
                end.ok_or_else(|| self.wrong("a comment is not closed"))? + 4
            } else {
                rest.bytes().take_while(u8::is_ascii_whitespace).count()
            };
            if passed == 0 {
                return Ok(());
            }
            self.line += rest[..passed].matches('\n').count();
            self.at += passed;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&self, text: &str) -> Notice {
        Notice::new(self.line, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comments_and_trailing_commas_are_accepted() {
        let text = "\u{feff}// top\n{\n  /* two\n lines */ \"a\": [1, -2.5e1, \"x//y\", true,], // tail\n  \"b\": {\"c\": null}\n,}\n";
        let (node, notices) = parse(text).ok().unwrap();
        assert_eq!(node.json(), json!({"a": [1, -25.0, "x//y", true], "b": {"c": null}}));
        assert_eq!(node.get("a").unwrap().line, 4);
        assert_eq!(node.get("b").unwrap().line, 5);
        let extra = |line| Notice::new(line, "there is a comma too many");
        assert_eq!(notices, [extra(4), extra(6)]);
        assert_eq!(parse(" \n// nothing\n").ok().unwrap().0.json(), json!({}));
    }

    #[test]
    fn plain_json_is_read_as_by_serde() {
        for text in [
            "{}",
            "[]",
            r#"{"a":{"b":[{"c":"\u00e4\"\\\n"},[],{}]},"d":12345678901234567890,"e":false}"#,
            " \"text\" ",
            "-0.0",
        ] {
            let expected: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text).ok().unwrap().0.json(), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_their_line_number() {
        let deep = "[".repeat(SETTINGS_DEPTH + 2);
        for (text, line, word) in [
            ("{\n\"a\" 1}", 2, "colon"),
            ("{\n\n\"a\": 1 \"b\": 2}", 3, "comma is missing"),
            ("{a: 1}", 1, "double quotes"),
            ("{\"a\": \"x\ny\"}", 1, "not closed"),
            ("{\"a\": \"\\x\"}", 1, "escape"),
            ("{\"a\": 1-2}", 1, "number"),
            ("{\"a\": nul}", 1, "value is expected"),
            ("{\"a\": truely}", 1, "value is expected"),
            ("{\"a\":", 1, "missing"),
            ("{\"a\": 1,\n", 2, "not closed"),
            ("{,}", 1, "double quotes"),
            ("[1,,2]", 1, "value is expected"),
            ("{} {}", 1, "behind the end"),
            ("{} /* x", 1, "comment"),
            (deep.as_str(), 1, "deeply"),
        ] {
            let notice = parse(text).err().unwrap();
            assert_eq!(notice.line, line, "{text}: {notice:?}");
            assert!(notice.text.contains(word), "{text}: {notice:?}");
        }
    }
}
