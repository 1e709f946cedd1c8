//! Patterns of the rules of a script: `*` is any text, `?` one character, `[abc]` one of these, `[a-z]` a range, `[!abc]` any other
//! character. All other characters match themselves; case is significant.

use regex_lite::{Error, Regex, escape};

/// The regular expression for whole texts that the pattern matches.
pub fn regex(pattern: &str) -> Result<Regex, Error> {
    // Without `.*` at its ends the expression is searched for, which is several times faster in a long text.
    let inner = pattern.trim_start_matches('*');
    let (start, mut rest) = (if inner == pattern { "^" } else { "" }, inner.trim_end_matches('*'));
    let last = if rest == inner { "$" } else { "" };
    let mut expression = format!("(?s){start}");
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        // The first character of a set may be a bracket. A bracket that is not closed is an ordinary character.
        let end = rest.char_indices().skip(1).find(|(_, c)| *c == ']');
        match (c, end) {
            ('*', _) => expression.push_str(".*"),
            ('?', _) => expression.push('.'),
            ('[', Some((end, _))) => {
                let others = rest[..end].strip_prefix('!').filter(|set| !set.is_empty());
                let set = escape(others.unwrap_or(&rest[..end])).replace("\\-", "-");
                expression.push_str(&format!("[{}{set}]", if others.is_some() { "^" } else { "" }));
                rest = &rest[end + 1..];
            }
            _ => expression.push_str(&escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    Regex::new(&(expression + last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        let table = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("*ab", "aab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[abc]", "b", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]", "b", false),
            ("[!a-c]", "d", true),
            ("[]]", "]", true),
            ("[x", "[x", true),
            ("*é*", "caféin", true),
            ("**", "x", true),
            ("*a", "ba\n", false),
            ("a*", "\nab", false),
            ("*a*", "\nab\n", true),
            ("A", "a", false),
        ];
        for (pattern, text, expected) in table {
            let expression = regex(pattern).expect("the pattern is valid");
            assert_eq!(expression.is_match(text), expected, "{pattern} {text}");
        }
    }
}
