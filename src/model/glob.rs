//! Patterns of the rules of a script: `*` is any text, `?` one character, `[abc]` one of these, `[a-z]` a range, `[!abc]` any other
//! character. All other characters match themselves; case is significant.
//!
//! Works on bytes: only `?` and `[…]` count characters, and these are for ASCII. After a mismatch only the last star is extended: if
//! the text after it matches somewhere, extending an earlier star gains nothing. So the time is at most the product of the lengths.

/// Whether the pattern matches the whole text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // After a mismatch: the pattern after the last star, and the text position where it was tried last.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let width = text.get(t).and_then(|&byte| fits_one(&pattern[p..], byte));
        match width {
            Some(width) => {
                p += width;
                t += 1;
            }
            None if p == pattern.len() && t == text.len() => return true,
            None => match retry {
                Some((after_star, from)) if from < text.len() => {
                    (p, t) = (after_star, from + 1);
                    retry = Some((p, t));
                }
                Some(_) | None => return false,
            },
        }
    }
}

/// The number of pattern bytes that match this text byte; None if they do not.
fn fits_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            // A bracket that is not closed is an ordinary character.
            let Some(end) = rest.iter().skip(1).position(|b| *b == b']').map(|i| i + 1) else {
                return (byte == b'[').then_some(1);
            };
            let (set, wanted) = match &rest[..end] {
                [b'!', set @ ..] if !set.is_empty() => (set, false),
                set => (set, true),
            };
            (in_set(set, byte) == wanted).then_some(end + 2)
        }
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

fn in_set(set: &[u8], byte: u8) -> bool {
    match set {
        [] => false,
        [from, b'-', to, rest @ ..] => (*from..=*to).contains(&byte) || in_set(rest, byte),
        [one, rest @ ..] => *one == byte || in_set(rest, byte),
    }
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
            ("A", "a", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
