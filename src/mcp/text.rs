//! Texts of servers, made safe to show: without characters that hide or reorder text, without known secrets, and limited in length.

use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::base::text::unsafe_char::is_unsafe;
use crate::limits::mcp::SECRET_CHARS;
use regex_lite::Regex;
use std::sync::{Arc, LazyLock, Mutex};

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

/// Arguments of a program, for people: without the values of those whose names sound secret, and without what URLs may hold.
pub fn without_secrets(args: &[String]) -> Vec<String> {
    const REDACTED: &str = "[redacted]";
    let mut is_next_secret = false;
    let mut shown = |arg: &String| {
        if std::mem::take(&mut is_next_secret) && !arg.starts_with('-') {
            return REDACTED.to_owned();
        }
        let (name, value) = arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
        let is_secret = sounds_secret(name) && !name.contains("://");
        match (is_secret, value) {
            (true, Some(_)) => return format!("{name}={REDACTED}"),
            (true, None) if name.starts_with('-') => is_next_secret = true,
            (true, None) | (false, _) => {}
        }
        let Some((scheme, rest)) = arg.split_once("://") else { return arg.clone() };
        let end = rest.find('/').unwrap_or(rest.len());
        let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
        let path = rest[host..].split(['?', '#']).next().unwrap_or_default();
        let user = if host > 0 { "[redacted]@" } else { "" };
        let query = if host + path.len() < rest.len() { "?[redacted]" } else { "" };
        clean_line(&format!("{scheme}://{user}{path}{query}"), arg.len() + 2 * REDACTED.len())
    };
    args.iter().map(&mut shown).collect()
}

/// Whether what has this name is usually secret.
pub fn sounds_secret(name: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        let words = "(?i)password|passwd|secret|token|api.?key|credential|(?:^|[^a-z])(?:otp|pin)(?:[^a-z]|$)";
        Regex::new(words).expect("the expression is valid")
    });
    WORDS.is_match(name)
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
    fn arguments_are_shown_without_what_may_be_secret() {
        let args = [
            "-y",
            "--api-key",
            "abc",
            "--token=abc",
            "--verbose",
            "postgres://u:pw@h/db?sslkey=x",
            "http://h/p",
            "A=b",
        ];
        let shown = without_secrets(&args.map(str::to_owned));
        let expected =
            "-y --api-key [redacted] --token=[redacted] --verbose postgres://[redacted]@h/db?[redacted] http://h/p A=b";
        assert_eq!(shown.join(" "), expected);
        assert_eq!(without_secrets(&["--token", "--flag", "x"].map(str::to_owned)).join(" "), "--token --flag x");
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
