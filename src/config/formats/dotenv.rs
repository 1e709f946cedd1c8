//! Files of variables: `NAME=value` lines, with `export`, quotes and comments.
//!
//! The variables go into a map of their own and never into the environment of the process: a file in a repository must not change
//! the environment of this program or of programs it starts.

use crate::config::formats::tree::Notice;
use regex_lite::Regex;
use std::sync::LazyLock;

/// The variables in the order of the file, and notices about invalid lines. A notice never contains a value.
pub fn parse(text: &str) -> (Vec<(String, String)>, Vec<Notice>) {
    static PAIR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(?:export[ \t]+)?([A-Za-z_]\w*)\s*=\s*(.*)$").expect("the expression is valid"));
    let mut variables = Vec::new();
    let mut notices = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().zip(1..);
    while let Some((whole, number)) = lines.next() {
        let line = whole.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(pair) = PAIR.captures(line) else {
            notices.push(Notice::new(number, "this is not NAME=value"));
            continue;
        };
        let name = &pair[1];
        match value(&pair[2]) {
            Ok(value) => variables.push((name.to_owned(), value)),
            Err(quote) => {
                let text = format!("the value of {name} goes over several lines, which is not supported");
                notices.push(Notice::new(number, text));
                // The following lines belong to the value and must not be read as variables.
                lines.by_ref().find(|(line, _)| line.contains(quote));
            }
        }
    }
    (variables, notices)
}

/// The value without quotes; the quote, if it is not closed on its line.
fn value(written: &str) -> Result<String, char> {
    let Some(quote) = written.chars().next().filter(|c| "'\"`".contains(*c)) else {
        let end = written.find(" #").or_else(|| written.find("\t#"));
        let end = if written.starts_with('#') { Some(0) } else { end };
        return Ok(written[..end.unwrap_or(written.len())].trim_end().to_owned());
    };
    let mut out = String::new();
    let mut inside = written[1..].chars();
    while let Some(c) = inside.next() {
        match c {
            _ if c == quote => return Ok(out),
            // Only texts in double quotes have escapes.
            '\\' if quote == '"' => match inside.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(c @ ('"' | '\\' | '$')) => out.push(c),
                Some(c) => out.extend(['\\', c]),
                None => break,
            },
            _ => out.push(c),
        }
    }
    Err(quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_export_quotes_and_comments_are_read() {
        let text = "\u{feff}# comment\nA=1\n export B = two words \nC='a # b' # c\nD=\"x\\ny\\\"\\q\"\r\nE=\nF=x#y #z\nexported=`t`\nG=#no\nH=\"\"\n";
        let (variables, notices) = parse(text);
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # b"),
            ("D", "x\ny\"\\q"),
            ("E", ""),
            ("F", "x#y"),
            ("exported", "t"),
            ("G", ""),
            ("H", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(variables, expected);
        assert_eq!(notices, []);
    }

    #[test]
    fn values_over_several_lines_are_refused_whole() {
        let text = "A=\"begin\nGEMINI_YOLO_MODE=true\nend\"\nB=1\nnonsense s3cret\n2C=3\nD='open\nE=2";
        let (variables, notices) = parse(text);
        assert_eq!(variables, [("B".to_owned(), "1".to_owned())]);
        let lines: Vec<usize> = notices.iter().map(|notice| notice.line).collect();
        assert_eq!(lines, [1, 5, 6, 7]);
        assert!(!format!("{notices:?}").contains("s3cret"));
    }
}
