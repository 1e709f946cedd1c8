//! `config.yaml` and front matter: the part of YAML that they need. Maps and lists by indentation, scalars on one line, and blocks of
//! text.
//!
//! Everything else (anchors, tags, flow collections, several documents) is reported with its line and left out, together
//! with the lines that belong to it; the rest of the file is read. `no` is a text here, not false.

use crate::config::formats::tree::{Node, Notice, Value};
use crate::limits::SETTINGS_DEPTH;

/// The tree, and notices about what was left out.
pub fn parse(text: &str) -> (Node, Vec<Notice>) {
    let mut notices = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = lines(&with_blocks_quoted(text), &mut notices);
    let mut reader = Reader { lines, at: 0, notices };
    let value = reader.block(0, 0);
    if let Some(line) = reader.lines.get(reader.at) {
        let number = line.number;
        reader.tell(number, "its indentation fits nothing above");
    }
    let root = match value {
        Value::Null => Value::Map(Vec::new()),
        value => value,
    };
    (Node::new(1, root), reader.notices)
}

#[derive(Clone)]
struct Line {
    number: usize,
    indent: usize,
    text: String,
}

fn lines(text: &str, notices: &mut Vec<Notice>) -> Vec<Line> {
    let mut lines = Vec::new();
    for (whole, number) in text.lines().zip(1..) {
        let bare = whole.trim_start_matches(' ');
        let text = without_comment(bare).trim_end();
        let first = lines.is_empty();
        if text.is_empty() || (text == "---" && first) {
            continue;
        }
        if bare.starts_with('\t') {
            notices.push(Notice::new(number, "indentation must be spaces, not tabs"));
            continue;
        }
        lines.push(Line { number, indent: whole.len() - bare.len(), text: text.to_owned() });
    }
    lines
}

/// The text with every block (`name: |` or `name: >` and the deeper lines below it) as a quoted text on its first line. Its other lines
/// become empty, so that all lines keep their numbers.
fn with_blocks_quoted(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut at = 0;
    while at < lines.len() {
        let (line, first) = (lines[at].clone(), at);
        at += 1;
        let head = line.trim_end().trim_end_matches(['-', '+']);
        let Some((name, style)) =
            head.strip_suffix('|').map(|name| (name, "\n")).or(head.strip_suffix('>').map(|name| (name, " ")))
        else {
            continue;
        };
        // In `- name: |` the name is what the block has to be deeper than.
        let column = line.len() - line.trim_start_matches([' ', '-']).len();
        if !name.ends_with(": ") || name.contains('#') {
            continue;
        }
        let is_inside = |line: &String| line.trim().is_empty() || indent(line) > column;
        let block: Vec<String> = lines[at..].iter().take_while(|line| is_inside(line)).cloned().collect();
        let margin = block.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line)).min().unwrap_or(0);
        let inside: Vec<&str> = block.iter().map(|line| line.get(margin..).unwrap_or_default().trim_end()).collect();
        let quoted = serde_json::Value::from(inside.join(style).trim_end());
        lines[first] = format!("{name}{quoted}");
        for _ in block {
            lines[at].clear();
            at += 1;
        }
    }
    lines.join("\n")
}

/// The line up to a `#` that is not in quotes and follows a blank.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut is_escaped) = (None, false);
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '#' && before.is_whitespace() => return &line[..at],
            // A quote starts a text only where a value can start.
            None if "'\"".contains(c) && " :-".contains(before) => quote = Some(c),
            None => {}
        }
        before = c;
    }
    line
}

struct Reader {
    lines: Vec<Line>,
    at: usize,
    notices: Vec<Notice>,
}

impl Reader {
    /// The lines that are indented at least this far: a list, a map, or nothing.
    fn block(&mut self, least: usize, depth: usize) -> Value {
        let Some(line) = self.lines.get(self.at).filter(|line| line.indent >= least) else {
            return Value::Null;
        };
        let indent = line.indent;
        if depth > SETTINGS_DEPTH {
            let number = line.number;
            self.tell(number, "it is nested too deeply");
            self.leave_out(least);
            return Value::Null;
        }
        if is_item(&line.text) { self.list(indent, depth) } else { self.map(indent, depth) }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Value {
        let mut items = Vec::new();
        while let Some(line) = self.line_at(indent) {
            if !is_item(&line.text) {
                break;
            }
            let inside = line.text[1..].trim_start();
            let shift = line.text.len() - inside.len();
            let value = if is_item(inside) || split_key(inside).is_some() {
                // `- name: value` starts a map; its first line is indented to the position of the name.
                self.lines[self.at] = Line { indent: indent + shift, text: inside.to_owned(), ..line };
                Some(self.block(indent + 1, depth + 1))
            } else {
                self.at += 1;
                match inside {
                    "" => Some(self.block(indent + 1, depth + 1)),
                    _ => self.scalar(inside, line.number, indent),
                }
            };
            items.extend(value.map(|value| Node::new(line.number, value)));
        }
        Value::List(items)
    }

    fn map(&mut self, indent: usize, depth: usize) -> Value {
        let mut members = Vec::new();
        while let Some(line) = self.line_at(indent) {
            if is_item(&line.text) {
                break;
            }
            self.at += 1;
            let Some((name, rest)) = split_key(&line.text) else {
                self.tell(line.number, "this is not \"name: value\"");
                self.leave_out(indent + 1);
                continue;
            };
            let value = if rest.is_empty() {
                // A list may follow its name without indentation.
                let next = self.lines.get(self.at);
                let flat = next.is_some_and(|next| next.indent == indent && is_item(&next.text));
                Some(if flat { self.list(indent, depth + 1) } else { self.block(indent + 1, depth + 1) })
            } else {
                self.scalar(rest, line.number, indent)
            };
            members.extend(value.map(|value| (name, Node::new(line.number, value))));
        }
        Value::Map(members)
    }

    /// The next line if it has exactly this indentation. Deeper lines belong to nothing and are left out.
    fn line_at(&mut self, indent: usize) -> Option<Line> {
        let line = self.lines.get(self.at)?;
        if line.indent > indent {
            let number = line.number;
            self.tell(number, "its indentation fits nothing above");
            self.leave_out(indent + 1);
        }
        let line = self.lines.get(self.at)?;
        (line.indent == indent).then(|| line.clone())
    }

    fn scalar(&mut self, text: &str, number: usize, indent: usize) -> Option<Value> {
        let more = self.lines.get(self.at).filter(|next| next.indent > indent).map(|next| next.number);
        let (line, problem) = match (scalar(text), more) {
            (Ok(value), None) => return Some(value),
            (Ok(_), Some(line)) => (line, "a value must stand on one line".into()),
            (Err(what), _) => (number, format!("{what} is not supported; write plain maps, lists and values")),
        };
        self.tell(line, problem);
        self.leave_out(indent + 1);
        None
    }

    /// Skips the lines that are indented at least this far.
    fn leave_out(&mut self, least: usize) {
        let rest = &self.lines[self.at..];
        self.at += rest.iter().take_while(|line| line.indent >= least).count();
    }

    fn tell(&mut self, line: usize, text: impl Into<String>) {
        self.notices.push(Notice::new(line, text));
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// `name: rest` or `name:`. A name may be quoted.
fn split_key(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| "'\"".contains(*c)) {
        let end = text[1..].find(quote)? + 1;
        let rest = text[end + 1..].trim_start().strip_prefix(':')?;
        let name = match scalar(&text[..=end]) {
            Ok(Value::Text(name)) => name,
            Ok(_) | Err(_) => return None,
        };
        return (rest.is_empty() || rest.starts_with(' ')).then(|| (name, rest.trim_start()));
    }
    let (name, rest) = match text.split_once(": ") {
        Some((name, rest)) => (name, rest.trim_start()),
        None => (text.strip_suffix(':')?, ""),
    };
    let name = name.trim_end();
    let plain = |c: char| c.is_alphanumeric() || "_-./$ ".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then(|| (name.to_owned(), rest))
}

/// A value on one line. The error names the syntax that is not supported.
fn scalar(text: &str) -> Result<Value, &'static str> {
    let last = text.len() - 1;
    match text.as_bytes()[0] {
        b'"' if last > 0 && text.ends_with('"') => {
            serde_json::from_str(text).map(Value::Text).map_err(|_| "this escape in a text")
        }
        b'\'' if last > 0 && text.ends_with('\'') => {
            let inside = text[1..last].replace("''", "\u{0}");
            if inside.contains('\'') {
                return Err("a text with a quote in the middle");
            }
            Ok(Value::Text(inside.replace('\u{0}', "'")))
        }
        b'"' | b'\'' => Err("a text over several lines"),
        b'[' if text == "[]" => Ok(Value::List(Vec::new())),
        b'{' if text == "{}" => Ok(Value::Map(Vec::new())),
        b'[' | b'{' => Err("a list or map on one line"),
        b'|' | b'>' => Err("a block of text"),
        b'&' => Err("an anchor"),
        b'*' => Err("an alias"),
        b'!' => Err("a tag"),
        b'%' | b'@' | b'`' | b'?' => Err("this first character"),
        _ if text.contains(": ") => Err("a value with a colon in it that is not quoted"),
        _ => Ok(plain(text)),
    }
}

fn plain(text: &str) -> Value {
    match text {
        "true" | "True" => return Value::Bool(true),
        "false" | "False" => return Value::Bool(false),
        "null" | "~" => return Value::Null,
        _ => {}
    }
    let number = serde_json::from_str(text).ok();
    number.map_or_else(|| Value::Text(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> (serde_json::Value, Vec<usize>) {
        let (node, notices) = parse(text);
        let lines = notices.iter().map(|notice| notice.line).collect();
        (node.json(), lines)
    }

    #[test]
    fn the_depth_of_maps_is_limited() {
        let nested = |depth: usize| -> String { (0..depth).map(|n| " ".repeat(n) + "a:\n").collect() };
        assert_eq!(read(&nested(SETTINGS_DEPTH + 1)).1, Vec::<usize>::new());
        assert_eq!(read(&nested(SETTINGS_DEPTH + 2)).1, vec![SETTINGS_DEPTH + 2]);
    }

    #[test]
    fn maps_lists_and_scalars() {
        let text = "---\n# settings\nmodel:\n  name: gemini-2.5-pro   # comment\n  maxSessionTurns: -1\ntools:\n  exclude:\n  - write_file\n  - 'run: it''s'\n  allowed:\n    - \"a\\tb\"\n  autoAccept: true\nempty:\nnone: ~\nlist: []\nurl: http://x/#y\nratio: 0.5\nno: no\n";
        assert_eq!(
            read(text),
            (
                json!({
                    "model": {"name": "gemini-2.5-pro", "maxSessionTurns": -1},
                    "tools": {"exclude": ["write_file", "run: it's"], "allowed": ["a\tb"], "autoAccept": true},
                    "empty": null, "none": null, "list": [], "url": "http://x/#y", "ratio": 0.5, "no": "no",
                }),
                vec![]
            )
        );
        assert_eq!(parse(text).0.at("tools.autoAccept").unwrap().line, 12);
        assert_eq!(read(""), (json!({}), vec![]));
    }

    #[test]
    fn lists_of_maps_and_lists() {
        let text =
            "policies:\n  - toolName: glob\n    decision: allow\n  -\n    toolName: x\n  - - 1\n    - 2\nrest: 1\n";
        assert_eq!(
            read(text),
            (
                json!({"policies": [{"toolName": "glob", "decision": "allow"}, {"toolName": "x"}, [1, 2]], "rest": 1}),
                vec![]
            )
        );
    }

    #[test]
    fn unsupported_yaml_is_reported_by_line_and_left_out() {
        let text = "a: &x 1\nb: *x\nc: @\n  text\n  more\nd: [1, 2]\ne: !t y\nf: one\n  two\ng:\n\th: 1\n  i: 2\nnonsense\nj: 'open\nk: x: y\nok: 1\n  stray: 1\nlast: 2\n";
        assert_eq!(read(text), (json!({"g": {"i": 2}, "last": 2}), vec![11, 1, 2, 3, 6, 7, 9, 13, 14, 15, 17]));
        assert_eq!(read("  a: 1\nb: 2\n"), (json!({"a": 1}), vec![2]));
    }

    #[test]
    fn blocks_of_text() {
        let text = "a: |\n  {\"x\": \"#1\",\n\n    \"y\\\\\": 2} # not a comment\n\nb: >-\n  one\n  two\nc:\n  - d: |+\n      in\n    e: 1\nf: |\ng: x |\nh: &\n";
        let (json, notices) = read(text);
        assert_eq!(
            json,
            json!({
                "a": "{\"x\": \"#1\",\n\n  \"y\\\\\": 2} # not a comment", "b": "one two",
                "c": [{"d": "in", "e": 1}], "f": "", "g": "x |",
            })
        );
        assert_eq!(notices, [15]);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let mut text = String::new();
        for depth in 0..200 {
            text.push_str(&format!("{}a:\n", " ".repeat(depth)));
        }
        assert_eq!(read(&text).1.len(), 1);
        assert_eq!(read(&"- ".repeat(5000)).1.len(), 1);
    }
}
