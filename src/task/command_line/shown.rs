//! Makes hidden characters visible for the person who has to approve a command.
//!
//! A command may contain characters that a screen does not show, shows elsewhere or interprets: controls, marks that change the
//! direction of text, characters without a width, blanks that the shell does not treat as blanks, and enough padding to move the
//! rest out of view. The command itself stays unchanged; [`visible`] is for display, [`warnings`] name what to check.

use super::{parse, without_repeats};
use crate::limits::{COMMAND_LONG_CHARS, COMMAND_LONG_LINES, PADDING_CHARS};
use std::borrow::Cow;

/// The text with hidden characters written out: `⟨U+202E⟩`, `⟨300 blanks⟩`. Line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !has_hidden_text(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // The number of blanks and line ends that the rest begins with.
        let blanks = rest.find(|c| !matches!(c, ' ' | '\t' | '\n')).unwrap_or(rest.len());
        let taken = blanks.max(c.len_utf8());
        match &rest[..taken] {
            padding if blanks > PADDING_CHARS && padding.contains('\n') => {
                out.push_str(&format!("⟨{blanks} blanks and line ends⟩"));
            }
            _ if blanks > PADDING_CHARS => out.push_str(&format!("⟨{blanks} blanks⟩")),
            _ if is_hidden(c) => out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
            text => out.push_str(text),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// Whether the text contains hidden characters or a long run of blanks.
pub fn has_hidden_text(text: &str) -> bool {
    text.chars().any(is_hidden) || is_padded(text)
}

/// What to check before approving this command, in sentences.
pub fn warnings(command: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut hidden: Vec<char> = command.chars().filter(|c| is_hidden(*c)).collect();
    hidden.sort_unstable();
    hidden.dedup();
    if !hidden.is_empty() {
        let names: Vec<String> = hidden.iter().take(5).map(|c| format!("U+{:04X}", u32::from(*c))).collect();
        found.push(format!("It holds characters that are not shown as they are: {}.", names.join(", ")));
    }
    if is_padded(command) {
        found.push("It holds a long run of blanks; look at what comes after it.".to_owned());
    }
    let (chars, lines) = (command.chars().count(), command.lines().count());
    if chars > COMMAND_LONG_CHARS || lines > COMMAND_LONG_LINES {
        found.push(format!("It is long: {chars} characters in {lines} lines; read it to its end."));
    }
    match parse(command) {
        Err(why) => found.push(format!("It could not be read: {}.", why.0)),
        Ok(commands) => {
            let files = commands.iter().flat_map(|simple| &simple.writes).map(|file| visible(file));
            let files = without_repeats(files.collect());
            if !files.is_empty() {
                found.push(format!("It writes to {}.", files.join(", ")));
            }
        }
    }
    found
}

fn is_padded(text: &str) -> bool {
    let mut run = 0;
    text.chars().any(|c| {
        run = if matches!(c, ' ' | '\t' | '\n') { run + 1 } else { 0 };
        run > PADDING_CHARS
    })
}

/// Characters that a screen does not show, or shows elsewhere or differently.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        // Soft hyphen, joiners, fillers, vowels without a shape.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' => true,
        // Directions, zero widths, separators.
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Blanks that the shell treats as letters.
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{2800}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}
