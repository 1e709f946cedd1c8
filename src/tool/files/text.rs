//! Text in files, with or without a byte order mark, and text in results, which is limited in length and marked if it is untrusted.

use regex_lite::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The encoding of a file, by its byte order mark. Without one it is UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf8Marked,
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
}

impl Encoding {
    /// Longer marks first: a UTF-32 mark begins with a UTF-16 one.
    const MARKED: [Encoding; 5] =
        [Encoding::Utf32Le, Encoding::Utf32Be, Encoding::Utf8Marked, Encoding::Utf16Le, Encoding::Utf16Be];

    pub fn of(bytes: &[u8]) -> Encoding {
        Encoding::MARKED.into_iter().find(|encoding| bytes.starts_with(encoding.mark())).unwrap_or(Encoding::Utf8)
    }

    fn mark(self) -> &'static [u8] {
        match self {
            Encoding::Utf8 => b"",
            Encoding::Utf8Marked => b"\xef\xbb\xbf",
            Encoding::Utf16Le => b"\xff\xfe",
            Encoding::Utf16Be => b"\xfe\xff",
            Encoding::Utf32Le => b"\xff\xfe\0\0",
            Encoding::Utf32Be => b"\0\0\xfe\xff",
        }
    }

    /// The text without its mark. Invalid sequences become U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> String {
        let bytes = &bytes[self.mark().len().min(bytes.len())..];
        let pairs = |unit: fn([u8; 2]) -> u16| {
            let units = bytes.chunks(2).map(move |pair| match *pair {
                [a, b] => unit([a, b]),
                _ => 0xfffd,
            });
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        };
        let quads = |unit: fn([u8; 4]) -> u32| {
            let units = bytes.chunks(4).map(|quad| match *quad {
                [a, b, c, d] => unit([a, b, c, d]),
                _ => 0xfffd,
            });
            units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        };
        match self {
            Encoding::Utf8 | Encoding::Utf8Marked => String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Utf16Le => pairs(u16::from_le_bytes),
            Encoding::Utf16Be => pairs(u16::from_be_bytes),
            Encoding::Utf32Le => quads(u32::from_le_bytes),
            Encoding::Utf32Be => quads(u32::from_be_bytes),
        }
    }

    pub fn encode(self, text: &str) -> Vec<u8> {
        let mut bytes = self.mark().to_vec();
        match self {
            Encoding::Utf8 | Encoding::Utf8Marked => bytes.extend_from_slice(text.as_bytes()),
            Encoding::Utf16Le => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Encoding::Utf16Be => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
            Encoding::Utf32Le => bytes.extend(text.chars().flat_map(|c| (c as u32).to_le_bytes())),
            Encoding::Utf32Be => bytes.extend(text.chars().flat_map(|c| (c as u32).to_be_bytes())),
        }
        bytes
    }
}

/// Whether bytes are binary: they have no mark, and contain a NUL or too many control characters.
pub fn looks_binary(bytes: &[u8]) -> bool {
    const PROBED_BYTES: usize = 4096;
    let start = &bytes[..bytes.len().min(PROBED_BYTES)];
    if Encoding::of(start) != Encoding::Utf8 {
        return false;
    }
    let controls = start.iter().filter(|byte| matches!(byte, 1..=8 | 14..=26 | 28..=31 | 127)).count();
    start.contains(&0) || controls * 10 > start.len() * 3
}

/// At most `chars` characters: a fifth from the beginning, the rest from the end, where errors usually are.
pub fn without_middle(text: &str, chars: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= chars {
        return Cow::Borrowed(text);
    }
    let head = chars / 5;
    let tail = chars - head;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(index, _)| index);
    Cow::Owned(format!(
        "{}\n[... {} characters left out ...]\n{}",
        &text[..at(head)],
        count - chars,
        &text[at(count - tail)..]
    ))
}

/// Marks text as untrusted. Closing tags in it are escaped, so that the text cannot end the mark.
pub fn untrusted(text: &str) -> String {
    static CLOSING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(?i)<(/untrusted_context)").expect("the expression is valid"));
    format!("<untrusted_context>\n{}\n</untrusted_context>", CLOSING.replace_all(text, "&lt;$1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_every_encoding_is_preserved() {
        let text = "Grüße, 世界 🦀\r\nend";
        let all = Encoding::MARKED.into_iter().chain([Encoding::Utf8]);
        for encoding in all {
            let bytes = encoding.encode(text);
            assert_eq!(Encoding::of(&bytes), encoding);
            assert_eq!(encoding.decode(&bytes), text);
        }
    }

    #[test]
    fn incomplete_code_units_are_replaced() {
        assert_eq!(Encoding::Utf16Le.decode(b"\xff\xfea\0b"), "a\u{fffd}");
        assert_eq!(Encoding::Utf16Le.decode(b"\xff\xfe\x00\xd8"), "\u{fffd}");
        assert_eq!(Encoding::Utf32Be.decode(b"\0\0\xfe\xff\0\0\0a\0"), "a\u{fffd}");
        assert_eq!(Encoding::Utf8.decode(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn binary_content_is_distinguished_from_text() {
        assert!(looks_binary(b"\x7fELF\0\0"));
        assert!(looks_binary(b"\x01\x02\x03\x04abc"));
        assert!(!looks_binary(b""));
        assert!(!looks_binary("plain\ttext \u{1b}[1mbold\u{1b}[0m, Grüße".as_bytes()));
        assert!(!looks_binary(&Encoding::Utf16Le.encode("text")));
    }

    #[test]
    fn the_middle_is_left_out_beyond_the_limit() {
        assert_eq!(without_middle("äöüäöüäöüä", 10), "äöüäöüäöüä");
        assert_eq!(without_middle("äb0123456789cdefgh", 10), "äb\n[... 8 characters left out ...]\n89cdefgh");
    }

    #[test]
    fn untrusted_text_cannot_close_its_mark() {
        assert_eq!(
            untrusted("ä</untrusted_context> </UNTRUSTED_context \n>"),
            "<untrusted_context>\nä&lt;/untrusted_context> &lt;/UNTRUSTED_context \n>\n</untrusted_context>"
        );
    }
}
