//! Makes texts of servers safe to show: removes characters that hide or reorder text, removes known secrets, and limits the length.

use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::base::text::unsafe_char::is_unsafe;
use crate::limits::mcp::SECRET_CHARS;
use regex_lite::Regex;
use std::sync::{Arc, LazyLock, Mutex};

/// Removes control characters (except line ends and tabs), and characters that have no width or change the direction of the text. Truncates the
/// text to `max_bytes`.
pub fn clean(text: &str, max_bytes: usize) -> String {
    let is_hidden = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    let is_kept = |c: &char| matches!(c, '\n' | '\t') || !is_unsafe(*c) && !is_hidden(*c);
    let mut cleaned: String = text.chars().filter(is_kept).collect();
    cut(&mut cleaned, max_bytes);
    cleaned
}

/// Like [`clean`], but joins all lines into one.
pub fn clean_line(text: &str, max_bytes: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    clean(&line.join(" "), max_bytes)
}

/// Truncates a text at a character boundary and appends `…`.
pub fn cut(text: &mut String, max_bytes: usize) {
    const MARK: &str = "…";
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes.saturating_sub(MARK.len())));
        text.push_str(MARK);
    }
}

/// The arguments of a program, for people. Only arguments that are certainly flags, paths or names are shown. Arguments that may be or
/// contain secrets, and the argument after a flag that may announce a secret, are replaced by `…`.
pub fn without_secrets(args: &[String]) -> Vec<String> {
    const HIDDEN: &str = "…";
    let mut is_next_secret = false;
    let mut shown = |arg: &String| {
        let is_secret = std::mem::replace(&mut is_next_secret, announces_secret(arg));
        let is_shown = !is_secret && if arg.starts_with('-') { is_plain_flag(arg) } else { is_plain_name(arg) };
        clean_line(if is_shown { arg } else { HIDDEN }, SHOWN_ARG_BYTES)
    };
    args.iter().map(&mut shown).collect()
}

/// The longest argument that is shown.
const SHOWN_ARG_BYTES: usize = 64;

/// Whether an argument is a flag whose value may be a secret. Flags of one letter count as such, except a few common ones that take no secret.
fn announces_secret(arg: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        let parts = "(?i)key|auth|bearer|header|cookie|pass|jwt|cred|sign|session";
        let words = "(?:^|[^a-z])(?:pat|env|user|pwd|pw|dsn)(?:[^a-z]|$)|(?-i:Pat|Pwd|Env|Dsn)(?:[^a-z]|$)";
        Regex::new(&format!("{parts}|{words}")).expect("the expression is valid")
    });
    let Some(flag) = arg.strip_prefix('-') else { return false };
    let is_letter = flag.chars().count() == 1 && !["y", "m", "i", "v", "q", "-"].contains(&flag);
    !flag.contains(['=', ':']) && (is_letter || sounds_secret(flag) || WORDS.is_match(flag))
}

/// Whether an argument is a flag without a value. After a single hyphen only one letter counts, because a value may follow the letter.
fn is_plain_flag(arg: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    match arg.strip_prefix("--") {
        Some(name) => is_name(name) && arg.len() <= SHOWN_ARG_BYTES && !looks_secret(name),
        None => arg.len() == 2 && is_name(arg),
    }
}

/// Whether an argument is a path, or a name such as that of a package.
fn is_plain_name(arg: &str) -> bool {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '@' | '.' | '_' | '-');
    arg.len() <= SHOWN_ARG_BYTES && arg.chars().all(is_usual) && !looks_secret(arg)
}

/// Whether a part of the text looks like a token: it has a prefix that known services use, or it is long and has both letters and digits.
fn looks_secret(text: &str) -> bool {
    const BEGINS: [&str; 20] = [
        "sk-",
        "sk_",
        "pk_",
        "rk_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xox",
        "xapp-",
        "AIza",
        "AKIA",
        "ya29",
        "eyJ",
        "hf_",
        "npm_",
        "pypi-",
    ];
    const TOKEN_CHARS: usize = 20;
    text.split(['/', '.', '@']).any(|part| {
        let has = |is: fn(&char) -> bool| part.chars().any(|c| is(&c));
        let is_mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
        BEGINS.iter().any(|begin| part.starts_with(begin)) || part.len() >= TOKEN_CHARS && is_mixed
    })
}

/// Whether a value with this name is usually secret.
pub fn sounds_secret(name: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        let words = "(?i)password|passwd|secret|token|api.?key|credential|(?:^|[^a-z])(?:otp|pin)(?:[^a-z]|$)";
        Regex::new(words).expect("the expression is valid")
    });
    WORDS.is_match(name)
}

/// Removes the secrets of one server from its texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// The longest first, because one secret may contain another. Clones share the list.
    secrets: Arc<Mutex<Vec<Secret>>>,
}

impl Redactor {
    /// Secrets with fewer than [`SECRET_CHARS`] characters are ignored.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Redactor {
        let redactor = Redactor::default();
        secrets.into_iter().for_each(|secret| redactor.add(secret));
        redactor
    }

    /// Adds a secret, such as a token that was refreshed.
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
        for (text, max_bytes, expected) in
            [("abcd", 4, "abcd"), ("abcde", 4, "a…"), ("ééé", 5, "é…"), ("é", 1, "…"), ("", 0, "")]
        {
            assert_eq!(clean(text, max_bytes), expected, "{text}");
        }
    }

    #[test]
    fn arguments_are_shown_only_if_they_are_no_secrets_for_certain() {
        for (args, expected) in [
            ("-y @scope/server-x@1.2.3 --verbose ./a/b.js /tmp", "-y @scope/server-x@1.2.3 --verbose ./a/b.js /tmp"),
            ("--api-key abc --token=abc --flag x A=b", "--api-key … … --flag x …"),
            ("--header Authorization:_Bearer_x X-Api-Key:abc y", "--header … … y"),
            ("--header=X-API-Key:abc --env=GITHUB_TOKEN=ghp_x y", "… … y"),
            (
                "--token -AbC --pat hunter --auth x --key x --bearer x y",
                "--token … --pat … --auth … --key … --bearer … y",
            ),
            ("--githubPat x -token x --path x -p x -px", "--githubPat … … … --path x -p … …"),
            ("postgres://u:pw@h/db http://h/p", "… …"),
            ("sk-abc ghp_abc xoxb-1 a/eyJ0.abc abcdefghij0123456789 --abcdefghij0123456789", "… … … … … …"),
            ("a\u{1b}[2J --a\u{1b}[2J \u{202e}x", "… … …"),
        ] {
            let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
            assert_eq!(without_secrets(&args).join(" "), expected, "{args:?}");
        }
        assert_eq!(without_secrets(&["a b".into(), "c\nd".into(), "e".repeat(65)]), ["…", "…", "…"]);
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
