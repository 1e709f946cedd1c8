//! Changes one entry of a map in a file of JSON with comments, and leaves everything else as it is written.

use crate::config::formats::jsonc;
use serde_json::Value;
use std::ops::Range;

/// The text with `map.name` set to a value, or removed without one. The error says why it cannot be changed.
pub fn with_entry(text: &str, map: &str, name: &str, value: Option<&Value>) -> Result<String, String> {
    let wrong = |line: usize, what: &str| format!("line {line}: {what}");
    jsonc::parse(text).map_err(|notice| wrong(notice.line, &notice.text))?;
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let changed = change(text, map, name, value).ok_or("it cannot be changed by a program; change it by hand")?;
    // The result is parsed again; unless it is as intended, the file is not changed.
    let (root, _) = jsonc::parse(&changed).map_err(|notice| wrong(notice.line, &notice.text))?;
    match root.get(map).and_then(|node| node.get(name)).map(|node| node.json()).as_ref() == value {
        true => Ok(changed),
        false => Err("it cannot be changed by a program; change it by hand".into()),
    }
}

fn change(text: &str, map: &str, name: &str, value: Option<&Value>) -> Option<String> {
    let scanner = Scanner(text.as_bytes());
    let root = scanner.object(scanner.skip(0))?;
    let Some(entry) = root.members.iter().find(|member| member.is(text, map)) else {
        let Some(value) = value else { return Some(text.to_owned()) };
        return Some(insert(text, &root, map, &serde_json::json!({ name: value })));
    };
    let entries = scanner.object(entry.value.start)?;
    let known = entries.members.iter().position(|member| member.is(text, name));
    Some(match (known, value) {
        (Some(at), Some(value)) => {
            let Range { start, end } = entries.members[at].value.clone();
            format!("{}{}{}", &text[..start], spelled(value, &indent(text, start)), &text[end..])
        }
        (None, Some(value)) => insert(text, &entries, name, value),
        (Some(at), None) => remove(text, &entries, at),
        (None, None) => text.to_owned(),
    })
}

/// Adds a member behind the last one.
fn insert(text: &str, object: &Object, name: &str, value: &Value) -> String {
    let outer = indent(text, object.open);
    let inner = match object.members.first() {
        Some(first) => indent(text, first.key.start),
        None => format!("{outer}  "),
    };
    let member = format!("\n{inner}{}: {}", Value::from(name), spelled(value, &inner));
    match object.members.last() {
        None => {
            let rest = &text[object.open + 1..];
            let closing = if rest.trim_start().starts_with('}') { rest.trim_start() } else { rest };
            format!("{}{member}\n{outer}{closing}", &text[..=object.open])
        }
        Some(last) => {
            let (at, comma) = match last.comma {
                Some(comma) => (comma + 1, ""),
                None => (last.value.end, ","),
            };
            format!("{}{comma}{member}{}", &text[..at], &text[at..])
        }
    }
}

/// Removes a member with its comma, and the comma before it if it is the last one.
fn remove(text: &str, object: &Object, at: usize) -> String {
    let member = &object.members[at];
    let line = text[..member.key.start].rfind(|c: char| !c.is_whitespace()).map_or(0, |end| end + 1);
    let before = match (member.comma, at.checked_sub(1).and_then(|before| object.members[before].comma)) {
        (None, Some(comma)) => format!("{}{}", &text[..comma], &text[comma + 1..line]),
        _ => text[..line].to_owned(),
    };
    format!("{before}{}", &text[member.comma.map_or(member.value.end, |comma| comma + 1)..])
}

/// A value over several lines.
fn spelled(value: &Value, indent: &str) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', &format!("\n{indent}"))
}

/// The white space before the first character of a line.
fn indent(text: &str, at: usize) -> String {
    let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..];
    line.chars().take_while(|c| *c == ' ' || *c == '\t').collect()
}

struct Member {
    /// With its quotes.
    key: Range<usize>,
    value: Range<usize>,
    comma: Option<usize>,
}

impl Member {
    fn is(&self, text: &str, name: &str) -> bool {
        serde_json::from_str::<String>(&text[self.key.clone()]).is_ok_and(|key| key == name)
    }
}

struct Object {
    open: usize,
    members: Vec<Member>,
    end: usize,
}

/// Finds the positions of members and values in a text that was parsed before.
struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    /// The next position that is neither white space nor in a comment.
    fn skip(&self, mut at: usize) -> usize {
        loop {
            match self.0.get(at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf, ..] => at += 1,
                [b'/', b'/', rest @ ..] => at += 2 + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', rest @ ..] => {
                    at += 4 + rest.windows(2).position(|two| two == b"*/").unwrap_or(rest.len());
                }
                _ => return at,
            }
        }
    }

    fn object(&self, open: usize) -> Option<Object> {
        if self.0.get(open) != Some(&b'{') {
            return None;
        }
        let mut members = Vec::new();
        let mut at = self.skip(open + 1);
        while self.0.get(at) != Some(&b'}') {
            let key = at..self.string(at)?;
            let colon = self.skip(key.end);
            let start = self.skip(colon + 1);
            let value = start..self.value(start)?;
            at = self.skip(value.end);
            let comma = (self.0.get(at) == Some(&b',')).then_some(at);
            at = comma.map_or(at, |comma| self.skip(comma + 1));
            members.push(Member { key, value, comma });
        }
        Some(Object { open, members, end: at + 1 })
    }

    /// The end of a string.
    fn string(&self, start: usize) -> Option<usize> {
        let mut at = start + 1;
        loop {
            match self.0.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    /// The end of a value.
    fn value(&self, start: usize) -> Option<usize> {
        match self.0.get(start)? {
            b'{' => Some(self.object(start)?.end),
            b'"' => self.string(start),
            b'[' => {
                let mut at = self.skip(start + 1);
                while self.0.get(at)? != &b']' {
                    at = self.skip(self.value(at)?);
                    if self.0.get(at) == Some(&b',') {
                        at = self.skip(at + 1);
                    }
                }
                Some(at + 1)
            }
            _ => {
                let is_end = |byte: &u8| b",}]/ \t\r\n".contains(byte);
                Some(self.0[start..].iter().position(is_end).map_or(self.0.len(), |length| start + length))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_set_and_comments_stay() {
        let set = |text: &str| with_entry(text, "m", "x", Some(&json!({"a": 1}))).expect(text);
        assert_eq!(set(""), "{\n  \"m\": {\n    \"x\": {\n      \"a\": 1\n    }\n  }\n}\n");
        assert_eq!(set("{}"), "{\n  \"m\": {\n    \"x\": {\n      \"a\": 1\n    }\n  }\n}");
        let with_comments = "// mine\n{\n  \"k\": [1, {\"m\": \"}\"}], // last\n}\n";
        assert_eq!(
            set(with_comments),
            "// mine\n{\n  \"k\": [1, {\"m\": \"}\"}],\n  \"m\": {\n    \"x\": {\n      \"a\": 1\n    }\n  } // last\n}\n"
        );
        let there = "{\"m\": {\n    /* one */ \"w\": {}, // two\n    \"x\": {\"old\": true} // three\n}}";
        assert_eq!(
            set(there),
            "{\"m\": {\n    /* one */ \"w\": {}, // two\n    \"x\": {\n      \"a\": 1\n    } // three\n}}"
        );
        assert_eq!(
            set("{\n  \"m\": {\n    \"w\": {}\n  }\n}"),
            "{\n  \"m\": {\n    \"w\": {},\n    \"x\": {\n      \"a\": 1\n    }\n  }\n}"
        );
        assert!(set("{\"m\": { /* none */ }}").contains("/* none */"));
    }

    #[test]
    fn entries_are_removed() {
        let remove = |text: &str| with_entry(text, "m", "x", None).expect(text);
        for (text, expected) in [
            ("{\"m\": {\"x\": 1}}", "{\"m\": {}}"),
            ("{\"m\": {\"x\": 1, \"y\": 2}}", "{\"m\": { \"y\": 2}}"),
            ("{\"m\": {\"w\": 1, // one\n \"x\": [2, \"]\"]\n}}", "{\"m\": {\"w\": 1 // one\n}}"),
            ("{\"m\": {\"w\": 1,\n \"x\": 2, // two\n}}", "{\"m\": {\"w\": 1, // two\n}}"),
            ("{\"m\": {\"w\": 1}}", "{\"m\": {\"w\": 1}}"),
            ("{}", "{}"),
        ] {
            assert_eq!(remove(text), expected);
        }
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        for text in ["{", "[]", "{\"m\": 5}", "{\"m\": {\"x\": 1, \"x\": 2}}"] {
            let result = with_entry(text, "m", "x", Some(&json!({})));
            assert!(result.is_err() || result == Ok("{\"m\": {\"x\": {}, \"x\": {}}}".into()), "{text} {result:?}");
        }
    }
}
