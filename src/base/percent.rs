//! Percent-encoding of RFC 3986.

/// Encodes every byte but letters, digits and `-._~`. The result is one segment of a path, or a name or value of a query or form.
pub fn encoded(text: &str) -> String {
    encoded_except(text, b"")
}

/// The same, with further bytes that stay as they are.
pub fn encoded_except(text: &str, plain: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || plain.contains(&byte);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match is_plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The query of a URL or the body of a form: `name=value&name=value`.
pub fn pairs(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(encoded("a-._~Z9"), "a-._~Z9");
        assert_eq!(encoded("a b/é+%"), "a%20b%2F%C3%A9%2B%25");
        assert_eq!(encoded_except("a b/c", b"/"), "a%20b/c");
        assert_eq!(pairs(&[("a", "1 2"), ("b&", "")]), "a=1%202&b%26=");
    }
}
