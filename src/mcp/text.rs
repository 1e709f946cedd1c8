//! Texts of servers, made safe to show: without characters that hide or reorder text, without known secrets, and limited in length.

use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::base::text::unsafe_char::is_unsafe;
use crate::limits::mcp::SECRET_CHARS;
use std::sync::{Arc, Mutex};

/// The text without control characters (but line ends and tabs), and without characters that have no width or change the direction of
/// the text; at most `most` bytes.
pub fn clean(text: &str, most: usize) -> String {
    let is_hidden = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    let is_kept = |c: &char| matches!(c, '\n' | '\t') || !is_unsafe(*c) && !is_hidden(*c);
    let mut cleaned: String = text.chars().filter(is_kept).collect();
    cut(&mut cleaned, most);
    cleaned
}

/// The same as one line.
pub fn clean_line(text: &str, most: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    clean(&line.join(" "), most)
}

/// Cuts a text between characters; a mark shows it.
pub fn cut(text: &mut String, most: usize) {
    const MARK: &str = "…";
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most.saturating_sub(MARK.len())));
        text.push_str(MARK);
    }
}

/// Removes the secrets of one server from what it says.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// The longest first, because one may contain another. Clones share them.
    secrets: Arc<Mutex<Vec<Secret>>>,
}

impl Redactor {
    /// Secrets with fewer than [`SECRET_CHARS`] characters are not looked for.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Redactor {
        let redactor = Redactor::default();
        secrets.into_iter().for_each(|secret| redactor.add(secret));
        redactor
    }

    /// Another one, such as a token that was refreshed.
    pub fn add(&self, secret: Secret) {
        let mut secrets = lock(&self.secrets);
        if secret.reveal().chars().count() >= SECRET_CHARS && !secrets.contains(&secret) {
            secrets.push(secret);
            secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        }
    }

    pub fn hide(&self, text: &str) -> String {
        lock(&self.secrets).iter().fold(text.to_owned(), |text, secret| text.replace(secret.reveal(), "[redacted]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_38_characters_that_hide_or_reorder_text_are_removed() {
        let text = "a\u{202e}b\u{200b}c\u{feff}d\u{7}e\u{2066}f\u{e0041}g\nh\ti é";
        assert_eq!(clean(text, 99), "abcdefg\nh\ti é");
        assert_eq!(clean_line(" a\n\tb \u{200d} c ", 99), "a b  c");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, most, expected) in
            [("abcd", 4, "abcd"), ("abcde", 4, "a…"), ("ééé", 5, "é…"), ("é", 1, "…"), ("", 0, "")]
        {
            assert_eq!(clean(text, most), expected, "{text}");
        }
    }

    #[test]
    fn check_60_known_secrets_are_removed_from_what_a_server_says() {
        let redactor = Redactor::new(["long-token", "long-token-2", "1234567", "12345678"].map(Secret::new));
        assert_eq!(
            redactor.hide("x long-token-2 long-tokenx 12345678 1234567"),
            "x [redacted] [redacted]x [redacted] 1234567"
        );
        assert!(!format!("{redactor:?}").contains("token"));
    }
}
