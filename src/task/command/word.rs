//! One word: quotes, escapes, expansions. Commands in it are read by the grammar on the way, and make the word open.

use super::grammar::{Read, Reader};
use super::{Sure, Word, script, unclear};

/// A word being read.
#[derive(Default)]
pub(super) struct Draft {
    pub text: String,
    /// Something of it was quoted or escaped.
    pub quoted: bool,
    /// It goes on over a line end that bash removes.
    pub continued: bool,
    open: bool,
    pattern: bool,
    /// An opening brace, and something behind it that makes several words of one.
    brace: bool,
    choice: bool,
    /// The last character, if it was not quoted.
    last: Option<char>,
}

impl Draft {
    fn plain(&mut self, c: char) {
        match c {
            '*' | '?' | '[' => self.pattern = true,
            '~' if self.text.is_empty() || matches!(self.last, Some('=' | ':')) => self.open = true,
            '{' => self.brace = true,
            ',' => self.choice |= self.brace,
            '.' if self.last == Some('.') => self.choice |= self.brace,
            _ => {}
        }
        self.text.push(c);
        self.last = Some(c);
    }

    fn quote(&mut self, c: char) {
        self.text.push(c);
        self.quoted = true;
        self.last = None;
    }

    pub fn finish(self, source: String) -> Word {
        let lone_bracket = self.text == "[" && !self.quoted;
        if self.open || (self.brace && self.choice) {
            return Word::open(&source);
        }
        let sure = match self.pattern && !lone_bracket {
            true => Sure::Pattern,
            false => Sure::Literal,
        };
        Word { text: self.text, sure }
    }
}

/// Whether single quotes and the like mean something here.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Bare,
    Quoted,
}

impl Reader<'_> {
    /// Reads up to the end of the word; empty where none begins.
    pub fn draft(&mut self) -> Read<Draft> {
        let mut draft = Draft::default();
        while let Some(c) = self.peek(0) {
            match c {
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.substitution(&mut draft)?;
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => self.escape(&mut draft)?,
                '\'' => self.single(&mut draft)?,
                '"' => self.double(&mut draft)?,
                '$' => self.dollar(&mut draft, Place::Bare)?,
                '`' => self.backtick(&mut draft, Place::Bare)?,
                c => {
                    self.at += 1;
                    draft.plain(c);
                }
            }
        }
        Ok(draft)
    }

    /// A text in which only expansions mean something, to its end.
    pub fn text(&mut self) -> Read<()> {
        let mut draft = Draft::default();
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => self.at += 2,
                '$' => self.dollar(&mut draft, Place::Quoted)?,
                '`' => self.backtick(&mut draft, Place::Quoted)?,
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn escape(&mut self, draft: &mut Draft) -> Read<()> {
        match self.peek(1) {
            None => return unclear("it ends with a backslash"),
            Some('\n') => draft.continued = true,
            Some(c) => draft.quote(c),
        }
        self.at += 2;
        Ok(())
    }

    fn single(&mut self, draft: &mut Draft) -> Read<()> {
        self.at += 1;
        draft.quoted = true;
        draft.last = None;
        loop {
            match self.peek(0) {
                None => return unclear("a quote does not end"),
                Some('\'') => break,
                Some(c) => draft.quote(c),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn double(&mut self, draft: &mut Draft) -> Read<()> {
        self.at += 1;
        draft.quoted = true;
        draft.last = None;
        loop {
            match self.peek(0) {
                None => return unclear("a quote does not end"),
                Some('"') => break,
                Some('$') => self.dollar(draft, Place::Quoted)?,
                Some('`') => self.backtick(draft, Place::Quoted)?,
                Some('\\') => {
                    match self.peek(1) {
                        Some('\n') | None => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => draft.quote(c),
                        Some(c) => {
                            draft.quote('\\');
                            draft.quote(c);
                        }
                    }
                    self.at += 2;
                }
                Some(c) => {
                    draft.quote(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    fn dollar(&mut self, draft: &mut Draft, place: Place) -> Read<()> {
        self.at += 1;
        match self.peek(0) {
            Some('(') if self.peek(1) == Some('(') => {
                self.at += 2;
                draft.open = true;
                self.arithmetic()?;
            }
            Some('(') => {
                self.at += 1;
                self.substitution(draft)?;
            }
            Some('{') => {
                self.at += 1;
                draft.open = true;
                self.deeper(|reader| reader.parameter(place))?;
            }
            Some('\'') if place == Place::Bare => self.ansi(draft)?,
            Some('"') if place == Place::Bare => self.double(draft)?,
            Some('[') => return unclear("it uses $[…]"),
            // The shell joins the lines first, and then this may begin a substitution.
            Some('\\') if self.peek(1) == Some('\n') => {
                return unclear("a $ stands at the end of a line");
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                draft.open = true;
                while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                draft.open = true;
                self.at += 1;
            }
            _ => draft.quote('$'),
        }
        Ok(())
    }

    /// Behind the opening bracket.
    fn substitution(&mut self, draft: &mut Draft) -> Read<()> {
        draft.open = true;
        self.found.substitutes = true;
        self.bracketed()
    }

    /// `` `…` ``: one layer of backslashes comes off, then it is a script of its own.
    fn backtick(&mut self, draft: &mut Draft, place: Place) -> Read<()> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return unclear("a backtick is not closed"),
                (Some('`'), _) => break,
                (Some('\\'), Some(c)) => {
                    let drops = matches!(c, '`' | '\\' | '$') || (c == '"' && place == Place::Quoted);
                    if !drops {
                        text.push('\\');
                    }
                    text.push(c);
                    self.at += 2;
                }
                (Some(c), _) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        draft.open = true;
        self.found.substitutes = true;
        script(&text, self.depth + 1, self.found)
    }

    /// `${…}`, behind the brace. What quotes mean in it depends on too much when it is quoted itself.
    fn parameter(&mut self, place: Place) -> Read<()> {
        let mut draft = Draft::default();
        loop {
            match self.peek(0) {
                None => return unclear("a ${ is not closed"),
                Some('}') => break,
                Some('\'' | '"') if place == Place::Quoted => {
                    return unclear("there are quotes within a quoted ${…}");
                }
                Some('\'') => self.single(&mut draft)?,
                Some('"') => self.double(&mut draft)?,
                Some('\\') => self.at += 2,
                Some('$') => self.dollar(&mut draft, place)?,
                Some('`') => self.backtick(&mut draft, place)?,
                Some('<' | '>') if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.substitution(&mut draft)?;
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// `((…))` and `$((…))`, behind both brackets. Where they do not close together, bash reads two subshells instead.
    pub fn arithmetic(&mut self) -> Read<()> {
        self.deeper(|reader| {
            let mut draft = Draft::default();
            let mut open = 0;
            loop {
                match reader.peek(0) {
                    None => return unclear("an arithmetic expression does not end"),
                    Some(')') if open == 0 => break,
                    Some(')') => open -= 1,
                    Some('(') => open += 1,
                    Some('\'' | '"' | '\\') => {
                        return unclear("there are quotes within arithmetic");
                    }
                    Some('$') => {
                        reader.dollar(&mut draft, Place::Quoted)?;
                        continue;
                    }
                    Some('`') => {
                        reader.backtick(&mut draft, Place::Quoted)?;
                        continue;
                    }
                    Some(_) => {}
                }
                reader.at += 1;
            }
            if !reader.sees("))") {
                return unclear("two brackets are opened together and not closed together");
            }
            reader.at += 2;
            Ok(())
        })
    }

    /// `$'…'`, at its quote.
    fn ansi(&mut self, draft: &mut Draft) -> Read<()> {
        self.at += 1;
        draft.quoted = true;
        draft.last = None;
        loop {
            let Some(c) = self.peek(0) else {
                return unclear("a quote does not end");
            };
            self.at += 1;
            match c {
                '\'' => return Ok(()),
                '\\' => match self.ansi_escape() {
                    Some(c) => draft.quote(c),
                    None => draft.open = true,
                },
                c => draft.quote(c),
            }
        }
    }

    /// Behind a backslash. None for what is not decoded here: bytes that are no character, NUL, and a quote, which a plain
    /// `sh` would take for the end.
    fn ansi_escape(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        match c {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' | 'E' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            '\\' | '"' | '?' => Some(c),
            'x' => self.code(16, 2).filter(char::is_ascii),
            'u' => self.code(16, 4),
            'U' => self.code(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.code(8, 3).filter(char::is_ascii)
            }
            _ => None,
        }
    }

    fn code(&mut self, radix: u32, most: usize) -> Option<char> {
        let mut code = 0_u32;
        let mut digits = 0;
        while digits < most
            && let Some(digit) = self.peek(0).and_then(|c| c.to_digit(radix))
        {
            code = code.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
            digits += 1;
        }
        char::from_u32(code).filter(|c| digits > 0 && *c != '\0')
    }
}
