//! Characters that control a terminal, end a line or change the direction of text. They are escaped or removed in untrusted texts that
//! people or models read as one line.

pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
