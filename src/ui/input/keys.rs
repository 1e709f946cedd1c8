//! Decodes the bytes of a terminal into keys, text, pastes and replies. The result does not depend on how reads split the bytes. An
//! unknown sequence becomes one [`TerminalInput::Junk`] and never text.
//!
//! The decoder owns no clock. A lone ESC is a key only after a while, so [`Decoder::due`] says when to call [`Decoder::tick`].

use crate::limits::ui::{
    BURST_CHARS, BURST_ENTER_MS, BURST_STEP_MS, ESCAPE_MS, PASTE_BYTES, PASTE_END_MS, SEQUENCE_BYTES, SEQUENCE_END_MS,
    STRING_BYTES,
};
use crate::ui::format::style::Rgb;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalInput {
    Key(Key),
    /// What was typed.
    Text(String),
    Paste(String),
    /// The paste before this was longer than allowed and was cut.
    PasteCut,
    /// Whether the terminal has the focus.
    Focus(bool),
    Reply(Reply),
    Junk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub code: Code,
    pub mods: Mods,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A character with Ctrl (in lower case) or Alt. Without them a character is [`TerminalInput::Text`].
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Insert,
    Esc,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Function(u8),
}

/// Modifier keys, as the bits that xterm uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mods(u8);

impl Mods {
    pub const NONE: Mods = Mods(0);
    pub const SHIFT: Mods = Mods(1);
    pub const ALT: Mods = Mods(2);
    pub const CTRL: Mods = Mods(4);

    pub fn has(self, other: Mods) -> bool {
        self.0 & other.0 == other.0
    }

    fn with(self, other: Mods) -> Mods {
        Mods(self.0 | other.0)
    }

    /// The modifiers of a sequence's parameter, which is one more than their bits.
    fn of(parameter: u32) -> Mods {
        Mods((parameter.saturating_sub(1) & 0xf) as u8)
    }
}

/// The terminal's reply to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The terminal supports the kitty keyboard protocol.
    Kitty,
    /// The device attributes: the reply to the last query, which every terminal sends.
    Attributes,
    /// The name and version of the terminal.
    Version(String),
    Background(Rgb),
    /// Whether the terminal supports synchronised output.
    Synchronised(bool),
    Position,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC ESC.
    Escapes,
    /// After ESC O.
    Single,
    /// After ESC [.
    Control,
    /// After ESC [ [, as the Linux console sends function keys.
    Console,
    /// After ESC ] or ESC P.
    String(u8),
    Paste,
}

#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    /// The bytes of the incomplete sequence, paste or character.
    bytes: Vec<u8>,
    /// The present sequence or paste is longer than allowed.
    too_long: bool,
    /// Alt was pressed with the present sequence or character.
    alt: bool,
    inputs: Vec<TerminalInput>,
    /// The time of the last byte.
    last_byte_at: u64,
    /// The terminal sends the Esc key as a sequence, so a lone ESC byte is not a key.
    pub escapes_are_sequences: bool,
    pastes_are_marked: bool,
    /// The number of characters that came faster than anyone types. `typed_at` is the time of the last character.
    burst: u32,
    typed_at: u64,
    pasted_at: Option<u64>,
}

const PASTE_END: &[u8] = b"\x1b[201~";

impl Decoder {
    pub fn feed(&mut self, bytes: &[u8], now_ms: u64) -> Vec<TerminalInput> {
        let mut inputs = self.tick(now_ms);
        for byte in bytes {
            self.take_byte(*byte, now_ms);
        }
        self.last_byte_at = now_ms;
        inputs.append(&mut self.inputs);
        inputs
    }

    /// When `tick` is to be called.
    pub fn due(&self) -> Option<u64> {
        let wait = match self.state {
            State::Ground if self.bytes.is_empty() => return None,
            State::Escape | State::Escapes | State::Single if !self.escapes_are_sequences => ESCAPE_MS,
            State::String(_) if self.bytes.is_empty() => ESCAPE_MS,
            State::Paste => PASTE_END_MS,
            State::Ground | State::Escape | State::Escapes | State::Single => SEQUENCE_END_MS,
            State::Control | State::Console | State::String(_) => SEQUENCE_END_MS,
        };
        Some(self.last_byte_at + wait)
    }

    /// Ends an incomplete sequence, paste or character whose next byte has not come in time.
    pub fn tick(&mut self, now_ms: u64) -> Vec<TerminalInput> {
        if self.due().is_none_or(|due| now_ms < due) {
            return Vec::new();
        }
        let alt_key = |c: char| TerminalInput::Key(Key { code: Code::Char(c), mods: Mods::ALT });
        let escape = TerminalInput::Key(Key { code: Code::Esc, mods: Mods::NONE });
        match (self.state, self.escapes_are_sequences) {
            (State::Ground, _) => self.character(),
            (State::Paste, _) => self.paste(),
            (State::Escape, false) => self.inputs.push(escape),
            (State::Escapes, false) => self.inputs.extend([escape.clone(), escape]),
            (State::Single, false) => self.inputs.push(alt_key('O')),
            (State::String(kind), _) if self.bytes.is_empty() => self.inputs.push(alt_key(kind.into())),
            _ => self.inputs.push(TerminalInput::Junk),
        }
        self.ground();
        std::mem::take(&mut self.inputs)
    }

    fn ground(&mut self) {
        self.state = State::Ground;
        self.bytes = Vec::new();
        (self.too_long, self.alt) = (false, false);
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.bytes.clear();
    }

    fn take_byte(&mut self, byte: u8, now: u64) {
        match self.state {
            State::Ground => self.in_ground(byte, now),
            State::Escape => self.after_escape(byte, now),
            State::Escapes => match byte {
                b'[' | b'O' => {
                    self.alt = true;
                    self.enter(if byte == b'[' { State::Control } else { State::Single });
                }
                _ => {
                    self.key(Code::Esc, Mods::NONE);
                    self.state = State::Escape;
                    self.after_escape(byte, now);
                }
            },
            State::Single => {
                self.single(byte);
                self.ground();
            }
            State::Console => {
                match byte {
                    b'A'..=b'E' => self.key(Code::Function(byte - b'A' + 1), Mods::NONE),
                    _ => self.inputs.push(TerminalInput::Junk),
                }
                self.ground();
            }
            State::Control => self.in_control(byte, now),
            State::String(kind) => self.in_string(kind, byte),
            State::Paste => self.in_paste(byte, now),
        }
    }

    fn in_ground(&mut self, byte: u8, now: u64) {
        if !self.bytes.is_empty() && byte & 0xc0 != 0x80 {
            self.character();
        }
        let control = |c: u8| Code::Char(char::from(c));
        match byte {
            0x1b => self.enter(State::Escape),
            b'\r' if self.is_burst(now) => self.key(Code::Char('j'), Mods::CTRL),
            b'\r' => self.key(Code::Enter, Mods::NONE),
            b'\t' => self.key(Code::Tab, Mods::NONE),
            0x08 | 0x7f => self.key(Code::Backspace, Mods::NONE),
            0x00 => self.key(Code::Char(' '), Mods::CTRL),
            0x01..=0x1a => self.key(control(byte - 1 + b'a'), Mods::CTRL),
            0x1c..=0x1f => self.key(control(byte + 0x40), Mods::CTRL),
            _ => {
                self.bytes.push(byte);
                self.burst = if now.saturating_sub(self.typed_at) > BURST_STEP_MS { 1 } else { self.burst + 1 };
                self.typed_at = now;
                let length = match self.bytes[0] {
                    0x20..=0x7e => 1,
                    0xc2..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xf4 => 4,
                    _ => 1,
                };
                if self.bytes.len() >= length {
                    self.character();
                }
            }
        }
    }

    /// Whether a carriage return belongs to a paste: one that the terminal did not mark, or one that contained the end mark itself.
    fn is_burst(&self, now: u64) -> bool {
        let soon = |since: u64| now.saturating_sub(since) <= BURST_ENTER_MS;
        let unmarked = !self.pastes_are_marked && self.burst >= BURST_CHARS && soon(self.typed_at);
        unmarked || self.pasted_at.is_some_and(soon)
    }

    /// Ends the collected bytes as a character: a key with Alt, or text.
    fn character(&mut self) {
        for c in String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).chars() {
            match std::mem::take(&mut self.alt) {
                true => self.key(Code::Char(c), Mods::ALT),
                false => self.text(c),
            }
        }
    }

    fn text(&mut self, c: char) {
        match self.inputs.last_mut() {
            Some(TerminalInput::Text(text)) => text.push(c),
            _ => self.inputs.push(TerminalInput::Text(c.into())),
        }
    }

    fn key(&mut self, code: Code, mods: Mods) {
        let mods = if std::mem::take(&mut self.alt) { mods.with(Mods::ALT) } else { mods };
        if !matches!(code, Code::Char('j')) {
            self.burst = 0;
        }
        self.inputs.push(TerminalInput::Key(Key { code, mods }));
    }

    fn after_escape(&mut self, byte: u8, now: u64) {
        match byte {
            b'[' => self.enter(State::Control),
            b'O' => self.enter(State::Single),
            b']' | b'P' => self.enter(State::String(byte)),
            0x1b => self.enter(State::Escapes),
            _ => {
                self.state = State::Ground;
                self.alt = true;
                self.pasted_at = None;
                self.burst = 0;
                self.in_ground(byte, now);
            }
        }
    }

    /// After ESC O.
    fn single(&mut self, byte: u8) {
        let code = match byte {
            b'A'..=b'D' | b'H' | b'F' => cursor_key(byte),
            b'a'..=b'd' => return self.modified(cursor_key(byte.to_ascii_uppercase()), Mods::CTRL),
            b'P'..=b'S' => Some(Code::Function(byte - b'P' + 1)),
            b'M' => Some(Code::Enter),
            b'Z' => return self.key(Code::Tab, Mods::SHIFT),
            _ => None,
        };
        self.modified(code, Mods::NONE);
    }

    fn modified(&mut self, code: Option<Code>, mods: Mods) {
        match code {
            Some(code) => self.key(code, mods),
            None => self.inputs.push(TerminalInput::Junk),
        }
    }

    fn in_control(&mut self, byte: u8, now: u64) {
        match byte {
            b'[' if self.bytes.is_empty() => self.enter(State::Console),
            // rxvt ends the sequence of a shifted key with `$`, which elsewhere is an intermediate byte.
            b'$' if !self.bytes.is_empty() && self.bytes.iter().all(u8::is_ascii_digit) => self.end_control(byte, now),
            0x20..=0x3f => {
                self.too_long |= self.bytes.len() >= SEQUENCE_BYTES;
                if !self.too_long {
                    self.bytes.push(byte);
                }
            }
            0x40..=0x7e => self.end_control(byte, now),
            _ => {
                self.inputs.push(TerminalInput::Junk);
                self.ground();
                if byte == 0x1b {
                    self.enter(State::Escape);
                }
            }
        }
    }

    fn end_control(&mut self, end: u8, now: u64) {
        let bytes = std::mem::take(&mut self.bytes);
        let text = String::from_utf8_lossy(&bytes);
        self.state = State::Ground;
        match (self.too_long, end, text.as_ref()) {
            (true, ..) => self.inputs.push(TerminalInput::Junk),
            (_, b'~', "200") => {
                self.pastes_are_marked = true;
                self.last_byte_at = now;
                return self.enter(State::Paste);
            }
            // The end mark of a paste that has timed out.
            (_, b'~', "201") => self.inputs.push(TerminalInput::Junk),
            (_, b'I', "") => self.inputs.push(TerminalInput::Focus(true)),
            (_, b'O', "") => self.inputs.push(TerminalInput::Focus(false)),
            (_, _, text) if text.starts_with(['?', '>', '=']) => self.reply(end, text),
            (_, b'R', text) if text.contains(';') && !text.starts_with("1;") => {
                self.inputs.push(TerminalInput::Reply(Reply::Position));
            }
            (_, _, text) => self.sequence(end, text),
        }
        self.ground();
    }

    fn reply(&mut self, end: u8, text: &str) {
        let reply = match (end, text) {
            (b'u', _) => Some(Reply::Kitty),
            (b'c', _) => Some(Reply::Attributes),
            (b'y', _) => text.strip_prefix("?2026;").map(|value| Reply::Synchronised(value.starts_with(['1', '2']))),
            _ => None,
        };
        self.inputs.push(reply.map_or(TerminalInput::Junk, TerminalInput::Reply));
    }

    /// `CSI parameters end`, where each parameter may have sub-parameters.
    fn sequence(&mut self, end: u8, text: &str) {
        let numbers: Option<Vec<Vec<u32>>> = text
            .split(';')
            .map(|parameter| {
                parameter.split(':').map(|n| if n.is_empty() { Some(0) } else { n.parse().ok() }).collect()
            })
            .collect();
        let Some(numbers) = numbers else {
            return self.inputs.push(TerminalInput::Junk);
        };
        let number = |at: usize| numbers.get(at).map_or(0, |parameter| parameter[0]);
        let mods = Mods::of(number(1));
        // Some terminals report the event: 1 pressed, 2 repeated, 3 released.
        let event = numbers.get(1).and_then(|parameter| parameter.get(1)).copied().unwrap_or(1);
        match (end, event) {
            (_, 3..) => {}
            (b'A'..=b'D' | b'H' | b'F', _) => self.modified(cursor_key(end), mods),
            (b'a'..=b'd', _) => self.modified(cursor_key(end.to_ascii_uppercase()), Mods::SHIFT),
            (b'P'..=b'S', _) => self.key(Code::Function(end - b'P' + 1), mods),
            (b'Z', _) => self.key(Code::Tab, Mods::SHIFT),
            (b'u', _) => {
                let shifted = numbers[0].get(1).copied().filter(|c| *c > 0 && mods.has(Mods::SHIFT));
                self.coded(shifted.unwrap_or(number(0)), mods);
            }
            (b'~', _) if number(0) == 27 && numbers.len() == 3 => self.coded(number(2), mods),
            (b'~', _) => self.modified(numbered_key(number(0)), mods),
            (b'^', _) => self.modified(numbered_key(number(0)), Mods::CTRL),
            (b'$', _) => self.modified(numbered_key(number(0)), Mods::SHIFT),
            _ => self.inputs.push(TerminalInput::Junk),
        }
    }

    /// A key by its character, as the kitty protocol and `modifyOtherKeys` send it.
    fn coded(&mut self, number: u32, mods: Mods) {
        let code = match number {
            27 => Code::Esc,
            13 | 57414 => Code::Enter,
            9 => Code::Tab,
            8 | 127 => Code::Backspace,
            57399..=57415 => {
                let digits_and_signs = b"0123456789./*-+\r=";
                Code::Char(char::from(digits_and_signs[(number - 57399) as usize]))
            }
            57417..=57426 => KEYPAD[(number - 57417) as usize],
            // Modifier keys alone, media keys and the like.
            57344..=63743 => return self.inputs.push(TerminalInput::Junk),
            number => match char::from_u32(number).filter(|c| !c.is_control()) {
                Some(c) => Code::Char(c),
                None => return self.inputs.push(TerminalInput::Junk),
            },
        };
        let Code::Char(c) = code else {
            return self.key(code, mods);
        };
        let c = if mods.has(Mods::SHIFT) && !mods.has(Mods::CTRL) { c.to_uppercase().next().unwrap_or(c) } else { c };
        match (mods.has(Mods::CTRL), mods.has(Mods::ALT)) {
            (false, false) => self.text(c),
            (false, true) => self.key(Code::Char(c), Mods::ALT),
            (true, alt) => {
                let mods = if alt { Mods::CTRL.with(Mods::ALT) } else { Mods::CTRL };
                self.key(Code::Char(c.to_ascii_lowercase()), mods);
            }
        }
    }

    fn in_string(&mut self, kind: u8, byte: u8) {
        let ends = byte == 0x07 || (byte == b'\\' && self.bytes.last() == Some(&0x1b));
        if !ends {
            self.too_long |= self.bytes.len() >= STRING_BYTES;
            if self.too_long {
                // The content is dropped; only the end is looked for.
                self.bytes.clear();
            }
            return self.bytes.push(byte);
        }
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let text = text.trim_end_matches('\x1b');
        let reply = match kind {
            _ if self.too_long => None,
            b']' => text.strip_prefix("11;").and_then(colour).map(Reply::Background),
            _ => text.strip_prefix(">|").map(|name| Reply::Version(name.to_owned())),
        };
        self.inputs.push(reply.map_or(TerminalInput::Junk, TerminalInput::Reply));
        self.ground();
    }

    fn in_paste(&mut self, byte: u8, now: u64) {
        self.last_byte_at = now;
        self.bytes.push(byte);
        if self.bytes.ends_with(PASTE_END) {
            self.bytes.truncate(self.bytes.len() - PASTE_END.len());
            self.paste();
            self.pasted_at = Some(now);
            self.ground();
        } else if self.bytes.len() > PASTE_BYTES + PASTE_END.len() {
            self.too_long = true;
            // The end mark may be among the last bytes.
            let tail = self.bytes.split_off(self.bytes.len() - PASTE_END.len());
            self.bytes.truncate(PASTE_BYTES);
            self.bytes.extend(tail);
        }
    }

    fn paste(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let bytes = &bytes[..bytes.len().min(PASTE_BYTES)];
        let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
        let keep = |c: char| !c.is_control() || c == '\n' || c == '\t';
        self.inputs.push(TerminalInput::Paste(text.chars().filter(|c| keep(*c)).collect()));
        if self.too_long {
            self.inputs.push(TerminalInput::PasteCut);
        }
    }
}

/// The keys of the keypad as the kitty protocol numbers them.
#[rustfmt::skip]
const KEYPAD: [Code; 10] = [
    Code::Left, Code::Right, Code::Up, Code::Down, Code::PageUp, Code::PageDown, Code::Home, Code::End, Code::Insert, Code::Delete,
];

fn cursor_key(end: u8) -> Option<Code> {
    Some(match end {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        _ => return None,
    })
}

/// The keys that end with `~`.
fn numbered_key(number: u32) -> Option<Code> {
    Some(match number {
        1 | 7 => Code::Home,
        4 | 8 => Code::End,
        2 => Code::Insert,
        3 => Code::Delete,
        5 => Code::PageUp,
        6 => Code::PageDown,
        11..=15 => Code::Function(number as u8 - 10),
        17..=21 => Code::Function(number as u8 - 11),
        23 | 24 => Code::Function(number as u8 - 12),
        _ => return None,
    })
}

/// `rgb:RRRR/GGGG/BBBB` with one to four digits each.
fn colour(text: &str) -> Option<Rgb> {
    let mut parts = text.strip_prefix("rgb:")?.split('/').map(|part| {
        let largest = (1_u32 << (4 * u32::try_from(part.len()).ok().filter(|digits| (1..=4).contains(digits))?)) - 1;
        let value = u32::from_str_radix(part, 16).ok()?;
        Some((value * 255 / largest) as u8)
    });
    let mut next = || parts.next().flatten();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests;
