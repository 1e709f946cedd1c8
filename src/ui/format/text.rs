//! Grapheme clusters and their widths; and [`plain`], which makes characters visible that would otherwise control the terminal, be
//! invisible, or reorder the text.

use crate::base::text::unsafe_char::is_unsafe;
use crate::ui::format::width::{VS16, WIDE, ZERO};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A grapheme cluster: a character with its combining characters, which the cursor moves over as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster<'a> {
    pub text: &'a str,
    /// The number of columns.
    pub width: usize,
    /// Whether all terminals use the same width. They differ for joined emoji, flags, skin tones and emoji variants.
    pub agreed: bool,
}

/// Splits a text into clusters.
pub fn clusters(text: &str) -> impl Iterator<Item = Cluster<'_>> + Clone {
    let mut rest = text;
    std::iter::from_fn(move || {
        let cluster = first_cluster(rest)?;
        rest = &rest[cluster.text.len()..];
        Some(cluster)
    })
}

fn first_cluster(text: &str) -> Option<Cluster<'_>> {
    let bytes = text.as_bytes();
    if bytes.first()?.is_ascii() && bytes.get(1).is_none_or(u8::is_ascii) {
        return Some(Cluster { text: &text[..1], width: 1, agreed: true });
    }
    let mut chars = text.char_indices().peekable();
    let (_, base) = chars.next()?;
    let (mut width, mut agreed) = (width_of(base), !is_flag_letter(base));
    let mut end = base.len_utf8();
    let mut joined = false;
    while let Some((at, c)) = chars.next_if(|(_, c)| {
        is_zero(*c) || joined || (is_skin_tone(*c) && width == 2) || (is_flag_letter(*c) && is_flag_letter(base))
    }) {
        end = at + c.len_utf8();
        agreed &= is_zero(c) && c != ZWJ;
        joined = c == ZWJ && chars.peek().is_some_and(|(_, next)| !next.is_ascii());
        if is_flag_letter(c) {
            break;
        }
        if c == VS_EMOJI && width == 1 && contains(&RANGES.vs16, base) {
            (width, agreed) = (2, false);
        }
    }
    Some(Cluster { text: &text[..end], width, agreed })
}

const ZWJ: char = '\u{200d}';
const VS_EMOJI: char = '\u{fe0f}';

fn is_skin_tone(c: char) -> bool {
    ('\u{1f3fb}'..='\u{1f3ff}').contains(&c)
}

fn is_flag_letter(c: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&c)
}

struct Ranges {
    wide: Vec<(u32, u32)>,
    zero: Vec<(u32, u32)>,
    vs16: Vec<(u32, u32)>,
}

static RANGES: LazyLock<Ranges> =
    LazyLock::new(|| Ranges { wide: decode(WIDE), zero: decode(ZERO), vs16: decode(VS16) });

/// Decodes a table of `width.rs` into sorted ranges.
fn decode(table: &[u8]) -> Vec<(u32, u32)> {
    let mut bytes = table.iter();
    let mut number = || {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes.next()?;
            value |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    };
    let (mut ranges, mut end) = (Vec::new(), 0);
    while let (Some(gap), Some(length)) = (number(), number()) {
        let first = end + gap + 1;
        end = first + length;
        ranges.push((first, end));
    }
    ranges
}

fn contains(ranges: &[(u32, u32)], c: char) -> bool {
    let at = ranges.partition_point(|(_, last)| *last < c as u32);
    ranges.get(at).is_some_and(|(first, _)| *first <= c as u32)
}

fn is_zero(c: char) -> bool {
    c >= '\u{300}' && contains(&RANGES.zero, c)
}

fn width_of(c: char) -> usize {
    match c {
        ..'\u{300}' => 1,
        c if is_zero(c) => 0,
        c if contains(&RANGES.wide, c) => 2,
        _ => 1,
    }
}

/// The number of columns of a text.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { clusters(text).map(|cluster| cluster.width).sum() }
}

/// How joiners and variation selectors are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// In prose they are kept in words and emoji.
    Prose,
    /// In commands, paths, output and files they are made visible.
    Literal,
}

/// The text with every character visible. Line feeds stay; tabs become blanks. Applying it again changes nothing.
pub fn plain(text: &str, reading: Reading) -> Cow<'_, str> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\n') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut column = 0;
    let mut before = '\n';
    for c in text.chars() {
        let from = out.len();
        match c {
            '\n' => out.push('\n'),
            '\t' => out.extend(std::iter::repeat_n(' ', 8 - column % 8)),
            '\0'..' ' => out.extend(char::from_u32(0x2400 + c as u32)),
            '\x7f' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            _ if hides(c, before, reading) => out.push_str(&format!("‹U+{:04X}›", c as u32)),
            // A combining mark without a letter would combine with a character of the user interface.
            _ if is_zero(c) && (before.is_whitespace() || before.is_control()) => out.extend(['\u{25cc}', c]),
            _ => out.push(c),
        }
        column = if c == '\n' { 0 } else { column + width(&out[from..]) };
        before = c;
    }
    Cow::Owned(out)
}

/// Whether a character is invisible or reorders others, and is not part of the character before it.
fn hides(c: char, before: char, reading: Reading) -> bool {
    match c {
        ..'\u{ad}' => false,
        '\u{200c}' | ZWJ | '\u{fe00}'..='\u{fe0f}' => {
            let belongs = !before.is_ascii() || (c == VS_EMOJI && before.is_ascii_graphic());
            reading == Reading::Literal || !belongs
        }
        '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        c => is_unsafe(c),
    }
}

/// The lines of a tool's output without colours, each as a terminal would show it after its carriage returns.
pub fn printed(text: &str) -> impl DoubleEndedIterator<Item = String> {
    text.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        let shown = line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
        plain(&without_colours(shown), Reading::Literal).into_owned()
    })
}

/// The text without `CSI … m`.
fn without_colours(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default();
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let mut plain_text = first.to_owned();
    for piece in pieces {
        match piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';' || c == ':').strip_prefix('m') {
            Some(rest) => plain_text.push_str(rest),
            None => plain_text.extend(["\x1b[", piece]),
        }
    }
    Cow::Owned(plain_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_and_their_widths() {
        for (text, expected) in [
            ("ab", vec![("a", 1), ("b", 1)]),
            ("e\u{301}x", vec![("e\u{301}", 1), ("x", 1)]),
            ("日本", vec![("日", 2), ("本", 2)]),
            ("한\u{1112}\u{1161}\u{11ab}", vec![("한", 2), ("\u{1112}\u{1161}\u{11ab}", 2)]),
            ("👩\u{200d}💻!", vec![("👩\u{200d}💻", 2), ("!", 1)]),
            ("👍🏽", vec![("👍🏽", 2)]),
            ("❤\u{fe0f}❤", vec![("❤\u{fe0f}", 2), ("❤", 1)]),
            ("🇩🇪🇫🇷🇩", vec![("🇩🇪", 2), ("🇫🇷", 2), ("🇩", 2)]),
            ("1\u{fe0f}\u{20e3}", vec![("1\u{fe0f}\u{20e3}", 2)]),
            ("a\u{200d}b", vec![("a\u{200d}", 1), ("b", 1)]),
            ("…·›✓", vec![("…", 1), ("·", 1), ("›", 1), ("✓", 1)]),
            ("\u{301}", vec![("\u{301}", 0)]),
            ("", vec![]),
        ] {
            let found: Vec<(&str, usize)> = clusters(text).map(|cluster| (cluster.text, cluster.width)).collect();
            assert_eq!(found, expected, "{text:?}");
            assert_eq!(width(text), expected.iter().map(|(_, width)| width).sum::<usize>(), "{text:?}");
        }
        let agreed = |text: &str| clusters(text).all(|cluster| cluster.agreed);
        assert!(agreed("日e\u{301}") && agreed("😀"));
        assert!(!agreed("👩\u{200d}💻") && !agreed("🇩🇪") && !agreed("👍🏽") && !agreed("❤\u{fe0f}"));
    }

    #[test]
    fn the_tables_are_sorted_and_whole() {
        for (ranges, count) in [(&RANGES.wide, 128), (&RANGES.zero, 342), (&RANGES.vs16, 113)] {
            assert_eq!(ranges.len(), count);
            assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            assert!(ranges.iter().all(|(first, last)| first <= last));
        }
    }

    #[test]
    fn invisible_and_control_characters_are_made_visible() {
        for (text, prose, literal) in [
            ("plain", "plain", "plain"),
            ("a\tb\n\tc", "a       b\n        c", "a       b\n        c"),
            ("日\tb", "日      b", "日      b"),
            ("\x1b[31mred\x07", "␛[31mred␇", "␛[31mred␇"),
            ("\u{9b}31m\x7f\r", "\\x9b31m␡␍", "\\x9b31m␡␍"),
            ("safe\u{202e}txt.exe", "safe‹U+202E›txt.exe", "safe‹U+202E›txt.exe"),
            ("a\u{200b}b\u{feff}\u{ad}", "a‹U+200B›b‹U+FEFF›‹U+00AD›", "a‹U+200B›b‹U+FEFF›‹U+00AD›"),
            ("\u{e0041}", "‹U+E0041›", "‹U+E0041›"),
            ("👩\u{200d}💻", "👩\u{200d}💻", "👩‹U+200D›💻"),
            ("rm\u{200d}x", "rm‹U+200D›x", "rm‹U+200D›x"),
            ("\u{301}a \u{301}", "\u{25cc}\u{301}a \u{25cc}\u{301}", "\u{25cc}\u{301}a \u{25cc}\u{301}"),
            ("a\u{2028}b", "a‹U+2028›b", "a‹U+2028›b"),
            ("\u{3164}\u{115f}", "‹U+3164›‹U+115F›", "‹U+3164›‹U+115F›"),
        ] {
            assert_eq!(plain(text, Reading::Prose), prose, "{text:?}");
            assert_eq!(plain(text, Reading::Literal), literal, "{text:?}");
            assert_eq!(plain(prose, Reading::Prose), prose, "twice changes nothing");
        }
        for c in (0..0x2_0000).chain(0xe_0000..0xe_1000).filter_map(char::from_u32) {
            let shown = plain(&format!("a{c}b"), Reading::Literal).into_owned();
            assert!(width(&shown) >= if is_zero(c) || c == '\n' { 2 } else { 3 }, "{c:?}");
            assert!(!shown.chars().any(|c| c != '\n' && is_unsafe(c)), "{c:?}");
        }
    }

    #[test]
    fn output_is_what_a_terminal_would_have_left() {
        let lines = |text: &str| printed(text).collect::<Vec<_>>();
        assert_eq!(lines("10%\r50%\r100%\nok\r\n"), ["100%", "ok"]);
        assert_eq!(lines("\x1b[1;31merror\x1b[0m: x"), ["error: x"]);
        assert_eq!(lines("\x1b[2Jx\x1b[m\x1b["), ["␛[2Jx␛["]);
        assert_eq!(lines("half\r"), ["half"]);
        assert_eq!(lines("\r\r\n\n"), ["", ""]);
    }
}
