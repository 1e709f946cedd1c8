//! Tokens: the secrets of credentials. A token contains the id of its credential, so that it is compared with only one stored hash.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::hmac;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

const PREFIX: &str = "ga2a_";
/// 256 bits, so that nobody can guess one.
pub const RANDOM_BYTES: usize = 32;

/// The length of the random part of a token. Shorter texts are not secrets.
const SHORTEST: usize = 43;

/// The text of a new token.
pub fn make(credential: &str, random: &[u8; RANDOM_BYTES]) -> String {
    format!("{PREFIX}{credential}_{}", URL_SAFE_NO_PAD.encode(random))
}

/// The id of the credential that a token names. Ids contain no `_`.
pub fn credential(token: &str) -> Option<&str> {
    token.strip_prefix(PREFIX)?.split_once('_').map(|(id, _)| id)
}

/// The text with the secret part of every token and ticket replaced, also where it is base64, as in the header field of `Basic`. The id of
/// a credential is not secret.
pub fn redact(text: &str) -> Cow<'_, str> {
    match redact_encoded(text) {
        Cow::Borrowed(text) => redact_plain(text),
        Cow::Owned(text) => Cow::Owned(redact_plain(&text).into_owned()),
    }
}

/// The beginning of a token in base64. It has three forms, because three bytes become four characters.
const ENCODED: [&str; 3] = ["Z2EyYV", "dhMmFf", "nYTJhX"];

/// Finds the positions of some words in a text, one after the other. Each word is searched for only after the position where it was last
/// found, so that finding all of them takes linear time.
struct Places<'a, const N: usize> {
    text: &'a str,
    words: [&'static str; N],
    next: [Option<usize>; N],
}

impl<'a, const N: usize> Places<'a, N> {
    fn of(words: [&'static str; N], text: &'a str) -> Places<'a, N> {
        Places { text, words, next: words.map(|word| text.find(word)) }
    }

    /// The first position of any of the words at or after `from`, which must not decrease between calls.
    fn first(&mut self, from: usize) -> Option<usize> {
        for (word, next) in self.words.iter().zip(&mut self.next) {
            if next.is_some_and(|at| at < from) {
                *next = self.text[from..].find(word).map(|at| from + at);
            }
        }
        self.next.iter().flatten().min().copied()
    }
}

/// Replaces base64 words that contain a whole token.
fn redact_encoded(text: &str) -> Cow<'_, str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_');
    let shortest = SHORTEST.div_ceil(3) * 4;
    let mut places = Places::of(ENCODED, text);
    let (mut redacted, mut done) = (String::new(), 0);
    while let Some(at) = places.first(done) {
        let (before, found) = (&text[done..at], &text[at..]);
        let end = found.find(|c| !is_of_word(c)).unwrap_or(found.len());
        done = at + end;
        if end >= shortest {
            redacted.extend([before.trim_end_matches(is_of_word), "[redacted]"]);
            done += found[end..].len() - found[end..].trim_start_matches('=').len();
        } else {
            redacted.extend([before, &found[..end]]);
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[done..]);
    Cow::Owned(redacted)
}

fn redact_plain(text: &str) -> Cow<'_, str> {
    const TICKET: &str = "tk_";
    let is_secret = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut places = Places::of([PREFIX, TICKET], text);
    let (mut redacted, mut done) = (String::new(), 0);
    while let Some(at) = places.first(done) {
        let found = &text[at..];
        let word = found.find(|c| !is_secret(c)).map_or(found, |end| &found[..end]);
        let shown = match credential(word) {
            Some(id) if word.len() >= SHORTEST => Some(PREFIX.len() + id.len() + 1),
            None if word.starts_with(TICKET) && word.len() >= SHORTEST => Some(TICKET.len()),
            Some(_) | None => None,
        };
        redacted.push_str(&text[done..at]);
        match shown {
            Some(shown) => redacted.extend([&word[..shown], "[redacted]"]),
            None => redacted.push_str(word),
        }
        done = at + word.len();
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[done..]);
    Cow::Owned(redacted)
}

/// The SHA-256 of a token. The token itself is not stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    pub fn of(token: &str) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Hash(hash)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_hex(text: &str) -> Option<Hash> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Hash(hash))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Does not print the hash.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        Hash::from_hex(&text).ok_or_else(|| D::Error::custom("sha256 has to be 64 lower-case hexadecimal digits"))
    }
}

/// Compares hashes in constant time, by their HMACs under a key that only this process has.
pub struct Comparison {
    key: hmac::Key,
    /// The tag that is compared for an unknown credential, so that the check takes as long as for a known one.
    dummy: Tag,
    #[cfg(test)]
    comparisons: std::sync::atomic::AtomicU64,
}

/// The HMAC of a hash, for comparisons.
#[derive(Clone)]
pub struct Tag(hmac::Tag);

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(…)")
    }
}

impl Comparison {
    pub fn new(random: &[u8; RANDOM_BYTES]) -> Comparison {
        let key = hmac::Key::new(hmac::HMAC_SHA256, random);
        let dummy = Tag(hmac::sign(&key, b"no credential"));
        Comparison {
            key,
            dummy,
            #[cfg(test)]
            comparisons: Default::default(),
        }
    }

    pub fn tag(&self, hash: &Hash) -> Tag {
        Tag(hmac::sign(&self.key, hash.as_bytes()))
    }

    /// Whether the token has the hash for which the tag was computed. Without a tag the result is false, after as much work.
    pub fn is_equal(&self, token: &str, tag: Option<&Tag>) -> bool {
        let tag = tag.unwrap_or(&self.dummy);
        #[cfg(test)]
        self.comparisons.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        hmac::verify(&self.key, Hash::of(token).as_bytes(), tag.0.as_ref()).is_ok()
    }

    /// How often tokens were compared.
    #[cfg(test)]
    pub fn comparisons(&self) -> u64 {
        self.comparisons.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_credential() {
        let token = make("laptop-2", &[0xff; 32]);
        assert_eq!(token.len(), "ga2a_laptop-2_".len() + 43);
        assert_eq!(credential(&token), Some("laptop-2"));
        for other in ["", "ga2a_", "ga2a_laptop", "laptop_x", "GA2A_a_b"] {
            assert_eq!(credential(other), None, "{other}");
        }
    }

    #[test]
    fn tokens_and_tickets_are_redacted_wherever_they_stand() {
        let token = make("laptop", &[0xab; 32]);
        let ticket = format!("tk_{}", "aZ-_".repeat(20));
        for (text, shown) in [
            (format!("Bearer {token}."), "Bearer ga2a_laptop_[redacted]."),
            (format!("\"{token}\",{token}"), "\"ga2a_laptop_[redacted]\",ga2a_laptop_[redacted]"),
            (format!("ticket.{ticket} and {token}"), "ticket.tk_[redacted] and ga2a_laptop_[redacted]"),
            ("ga2a_ ga2a_x_y tk_x wtk_ä".to_owned(), "ga2a_ ga2a_x_y tk_x wtk_ä"),
        ] {
            assert_eq!(redact(&text), shown);
        }
        assert!(matches!(redact("nothing"), Cow::Borrowed(_)));
    }

    #[test]
    fn many_token_prefixes_take_linear_time() {
        // This would take hours if each of them caused a search to the end of the text.
        for begin in ["Z2EyYV ", "ga2a_ ", "tk_ "] {
            let text = begin.repeat(500_000);
            assert!(redact(&text) == text);
        }
    }

    #[test]
    fn tokens_in_base64_are_redacted_whatever_stands_before_them() {
        use base64::engine::general_purpose::STANDARD;
        let token = make("laptop", &[0xab; 32]);
        for before in ["", "a:", "ab:", "abc:", "laptop:"] {
            let plain = format!("{before}{token}");
            for encoded in [STANDARD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)] {
                let shown = redact(&format!("Basic {encoded}, {encoded} and more")).into_owned();
                assert_eq!(shown, "Basic [redacted], [redacted] and more", "{plain}");
            }
        }
        for harmless in ["Z2EyYV", "dhMmFf and nYTJhX", "/srv/Z2EyYV/a"] {
            assert_eq!(redact(harmless), harmless);
        }
    }

    #[test]
    fn a_hash_is_written_as_hexadecimal_digits() {
        let hash = Hash::of("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(Hash::from_hex(text), Some(hash));
        for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace('b', "g"), "é".repeat(32).as_str()] {
            assert_eq!(Hash::from_hex(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{hash:?}"), "Hash(…)");
    }

    #[test]
    fn only_the_same_token_is_equal() {
        let comparison = Comparison::new(&[7; 32]);
        let token = make("a", &[1; 32]);
        let tag = comparison.tag(&Hash::of(&token));
        assert!(comparison.is_equal(&token, Some(&tag)));
        assert!(!comparison.is_equal(&token[..token.len() - 1], Some(&tag)));
        assert!(!comparison.is_equal(&token, None));
        assert!(!comparison.is_equal("no credential", None), "the dummy is no hash of a text");
    }
}
