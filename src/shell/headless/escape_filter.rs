//! Removes escape sequences and other control characters from text that comes in pieces. A model can repeat text that it has read,
//! which must not control a terminal.

/// The state after the last character.
#[derive(Clone, Copy, Debug, Default)]
enum Within {
    #[default]
    Text,
    Escape,
    /// A sequence with parameters, up to a letter.
    Control,
    /// A string for the terminal, up to its end mark or the end of the line, so that an unterminated string hides no further lines.
    Command,
    /// In such a string after an ESC, which may begin the end mark.
    CommandEscape,
}

#[derive(Debug, Default)]
pub struct EscapeFilter {
    within: Within,
}

impl EscapeFilter {
    /// Returns the next piece without control characters.
    pub fn take(&mut self, piece: &str) -> String {
        piece.chars().filter(|c| self.shows(*c)).collect()
    }

    fn shows(&mut self, c: char) -> bool {
        let (within, shown) = match (self.within, c) {
            (Within::Command, '\n') => (Within::Text, true),
            (Within::Command | Within::CommandEscape, '\u{7}' | '\u{9c}') => (Within::Text, false),
            (Within::Command, '\u{1b}') => (Within::CommandEscape, false),
            (Within::CommandEscape, '\\') => (Within::Text, false),
            (Within::Command, _) => (Within::Command, false),
            (_, '\u{1b}') => (Within::Escape, false),
            (_, '\u{9b}') | (Within::Escape | Within::CommandEscape, '[') => (Within::Control, false),
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}')
            | (Within::Escape | Within::CommandEscape, ']' | 'P' | 'X' | '^' | '_') => (Within::Command, false),
            (Within::Escape | Within::CommandEscape, ' '..='/') => (Within::Escape, false),
            (Within::Escape | Within::CommandEscape, '0'..='~') => (Within::Text, false),
            (Within::Control, ' '..='?') => (Within::Control, false),
            (Within::Control, '@'..='~') => (Within::Text, false),
            (_, c) => (Within::Text, c == '\n' || c == '\t' || !c.is_control()),
        };
        self.within = within;
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_removed_wherever_the_pieces_are_cut() {
        for (text, plain) in [
            ("a\tb\r\nc\u{0}\u{7f}\u{85}d", "a\tb\ncd"),
            ("\u{1b}[1;31mred\u{1b}[0m \u{9b}2Jä", "red ä"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://e\u{1b}\\link\u{1b}]8;;\u{1b}\\", "xlink"),
            ("\u{1b}Pq#0\u{1b}\\s\u{9d}52;c;aGk=\u{9c}t", "st"),
            ("\u{1b}(Bm\u{1b}=n\u{1b}\u{1b}[Ao", "mno"),
            ("\u{1b}]no end\nrest", "\nrest"),
            ("\u{1b}[3\nrest \u{1b}ü", "\nrest ü"),
            ("\u{1b}]a\u{1b}[Ab", "b"),
        ] {
            assert_eq!(EscapeFilter::default().take(text), plain, "{text:?}");
            let mut one_by_one = EscapeFilter::default();
            let pieces: String = text.chars().map(|c| one_by_one.take(c.encode_utf8(&mut [0; 4]))).collect();
            assert_eq!(pieces, plain, "{text:?}");
        }
    }
}
