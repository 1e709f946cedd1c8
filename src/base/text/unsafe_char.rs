//! Characters that drive a terminal, break lines or turn the order of what is read. Where others chose a text that people or models
//! read as a line, they are escaped.

pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
