//! Patterns for the words of a script's rules: `*` is any run, `?` one character, `[abc]` one of these, `[a-z]` a range, `[!abc]`
//! anything else. All other characters are themselves, and letters have a case.
//!
//! Bytes will do: only `?` and `[…]` count them, and those are for ASCII. One place to go back to is enough, because when what
//! follows a star fits somewhere, an earlier star could not have done better; so the time is bounded by the product of the
//! lengths, whatever the pattern.

/// Whether the pattern fits the whole text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not fit: one byte later.
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

/// How many pattern bytes one text byte is matched by, if it is.
fn fits_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            // An unclosed bracket is itself.
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
    fn patterns_and_what_they_fit() {
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
