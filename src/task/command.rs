//! What a command line would run, found by reading all of it the way bash does.
//!
//! [`parse`] turns the text into the simple commands it holds, wherever they stand: in pipes, lists, groups, loops, functions,
//! substitutions, scripts given to `sh -c`, and behind `sudo`, `xargs` and their like. Nothing is run, expanded or looked up,
//! so a word is either known to the letter, a pattern for file names, or open. Whatever is not understood with certainty makes
//! the line [`Unclear`], and an unclear line is a question for people: this reader is allowed to know less than bash, never to
//! believe more. In particular it gives up wherever bash and a plain `sh` would read the same characters differently.
//!
//! It knows nothing of rules; what may run is for `policy` to say. The text comes from a model: its length, nesting and number
//! of commands are limited, the time is linear in its length, and no input makes it panic.

mod grammar;
mod redirect;
mod shown;
mod starters;
mod word;

pub use shown::{hides, visible, warnings};

use crate::limits::{COMMAND_CHARS, COMMAND_DEPTH, COMMAND_PARTS};
use grammar::Reader;

/// Every simple command of a line, in the order they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    pub commands: Vec<Simple>,
    /// Some text is made by a command: `$(…)`, backticks, `<(…)`.
    pub substitutes: bool,
    /// A name is given a new meaning: later words may not be what they seem.
    pub defines: bool,
}

/// One program with its arguments, or only assignments or redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    pub argv: Vec<Word>,
    /// Names of the variables set for it, or for all that follows if there is no program.
    pub assigns: Vec<String>,
    pub redirects: Vec<Redirect>,
    pub role: Role,
}

/// What a command adds to the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It does something of its own.
    #[default]
    Actor,
    /// It does nothing but start another command, which is listed too: `timeout 5 make`, `sh -c 'make'`.
    Courier,
}

impl Simple {
    /// The program's name as written, if it is certain.
    pub fn program(&self) -> Option<&str> {
        self.argv.first()?.literal()
    }

    /// The words with one blank between two of them.
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.argv.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }

    /// A command of which nothing is known.
    fn unknown(source: &str) -> Simple {
        Simple { argv: vec![Word::open(source)], ..Simple::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Without quotes if literal or a pattern, else as written.
    pub text: String,
    pub sure: Sure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// Exactly this word.
    Literal,
    /// The file names it matches, or itself.
    Pattern,
    /// Any number of any words.
    Open,
}

impl Word {
    pub fn literal(&self) -> Option<&str> {
        match self.sure {
            Sure::Literal => Some(&self.text),
            Sure::Pattern | Sure::Open => None,
        }
    }

    fn exact(text: &str) -> Word {
        Word { text: text.to_owned(), sure: Sure::Literal }
    }

    fn open(source: &str) -> Word {
        Word { text: source.to_owned(), sure: Sure::Open }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub flow: Flow,
    /// The file, the descriptor, or for a here document its end mark.
    pub target: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Read,
    Write,
    /// Text of the line itself: `<<` and `<<<`.
    Text,
    /// From one descriptor to another: `2>&1`, `<&-`.
    Copy,
}

impl Redirect {
    /// Whether it neither reads nor writes anything outside of the command.
    pub fn is_idle(&self) -> bool {
        match self.flow {
            Flow::Copy => true,
            Flow::Read | Flow::Write => self.target.literal() == Some("/dev/null"),
            Flow::Text => false,
        }
    }
}

/// Why a line was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear(pub String);

pub fn parse(line: &str) -> Result<Parsed, Unclear> {
    let mut found = Parsed::default();
    script(line, 0, &mut found)?;
    Ok(found)
}

/// Reads a whole script into `found`. Scripts hold scripts: `depth` is how many are around this one.
fn script(text: &str, depth: usize, found: &mut Parsed) -> Result<(), Unclear> {
    if text.chars().count() > COMMAND_CHARS {
        return Err(Unclear(format!("it is longer than {COMMAND_CHARS} characters")));
    }
    if text.contains('\0') {
        return unclear("it holds a NUL character");
    }
    Reader::new(text, depth, found)?.whole()
}

fn unclear<T>(why: &str) -> Result<T, Unclear> {
    Err(Unclear(why.to_owned()))
}

/// Adds a command, and those it starts in turn.
fn keep(mut simple: Simple, depth: usize, found: &mut Parsed) -> Result<(), Unclear> {
    if found.commands.len() >= COMMAND_PARTS {
        return Err(Unclear(format!("it has more than {COMMAND_PARTS} parts")));
    }
    let (role, started) = starters::look(&simple.argv);
    simple.role = role;
    found.commands.push(simple);
    for started in started {
        if depth >= COMMAND_DEPTH {
            return unclear("it is nested too deeply");
        }
        match started {
            starters::Started::Program(argv) => {
                let inner = Simple { argv, ..Simple::default() };
                keep(inner, depth + 1, found)?;
            }
            starters::Started::Script(text) => script(&text, depth + 1, found)?,
            starters::Started::Unknown(source) => found.commands.push(Simple::unknown(&source)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
