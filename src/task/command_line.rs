//! Parses a command line into the simple commands that it runs.
//!
//! The reader is deliberately small. It accepts simple commands of literal words, joined by `|`, `&&`, `||`, `;` and line
//! ends, with a few redirections. Everything else (expansion, substitution, assignment, compound commands, here documents) is
//! [`Unclear`], with the reason: such a line needs approval. What it accepts, bash and a POSIX `sh` read in the same way.
//!
//! The policy, "always" rules and the question that people see all use this reader. It does not depend on rules and reads no
//! files. The text comes from a model, so its length and the number of commands are limited, the time is linear, and no input
//! causes a panic.

mod programs;
mod shown;

pub use programs::{ReadAccess, is_builtin, read_only};
pub use shown::{has_hidden_text, visible, warnings};

use crate::limits::{COMMAND_CHARS, COMMAND_PARTS};
use std::collections::HashSet;
use std::hash::Hash;

/// One program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simple {
    /// The program, which is literal, and its arguments. Never empty.
    pub words: Vec<Word>,
    /// Files that standard input comes from.
    pub reads: Vec<String>,
    /// Files that output goes to. `/dev/null` is in neither list.
    pub writes: Vec<String>,
    /// How it is joined to the command before it.
    pub joint: Joint,
}

/// How a command is joined to the command before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// The first command of the line, or one after `;` or a line end.
    Then,
    /// After `&&`.
    And,
    /// After `||`.
    Or,
    /// After `|`.
    Pipe,
}

/// A word as the program gets it, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// The shell replaces it by the names of the files that it matches. None of them can begin with a dash that is not in
    /// `text`.
    pub is_pattern: bool,
}

impl Word {
    pub fn literal(&self) -> Option<&str> {
        (!self.is_pattern).then_some(&self.text)
    }
}

impl Simple {
    fn after(joint: Joint) -> Simple {
        Simple { words: Vec::new(), reads: Vec::new(), writes: Vec::new(), joint }
    }

    pub fn program(&self) -> &str {
        &self.words[0].text
    }

    /// The program without its directories.
    pub fn name(&self) -> &str {
        self.program().rsplit('/').next().unwrap_or_default()
    }

    /// The words with one blank between two of them.
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// Why a line could not be parsed, as a clause: "it expands a variable".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear(pub String);

/// The commands of a line, in order; at least one.
pub fn parse(line: &str) -> Result<Vec<Simple>, Unclear> {
    if line.chars().count() > COMMAND_CHARS {
        return Err(Unclear(format!("it is longer than {COMMAND_CHARS} characters")));
    }
    if has_hidden_text(line) {
        return unclear("it holds characters that are not shown as they are, or a long run of blanks");
    }
    let mut reader =
        Reader { chars: line.chars().collect(), at: 0, commands: Vec::new(), current: Simple::after(Joint::Then) };
    reader.line()?;
    Ok(reader.commands)
}

/// The programs that a line starts, in order, without repeats. A line that cannot be parsed is a script for bash.
pub fn programs(line: &str) -> Vec<String> {
    let Ok(commands) = parse(line) else {
        return vec!["bash".to_owned()];
    };
    without_repeats(commands.iter().map(|simple| simple.program().to_owned()).collect())
}

fn without_repeats<T: Eq + Hash + Clone>(all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.into_iter().filter(|one| seen.insert(one.clone())).collect()
}

fn unclear<T>(why: &str) -> Result<T, Unclear> {
    Err(Unclear(why.to_owned()))
}

/// Words that begin or continue a compound command in bash or in another shell.
const RESERVED: &str =
    "! [[ ]] { } case coproc do done elif else esac fi for function if in namespace select then time until while";

struct Reader {
    chars: Vec<char>,
    at: usize,
    commands: Vec<Simple>,
    current: Simple,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn line(&mut self) -> Result<(), Unclear> {
        let mut redirects = 0;
        while let Some(c) = self.peek(0) {
            let next = self.peek(1);
            let started = !self.current.words.is_empty() || redirects > 0;
            let (joint, len) = match (c, next) {
                (' ' | '\t', _) => {
                    self.at += 1;
                    continue;
                }
                // Empty lines are ignored, and a line may end after `|`, `&&` and `||`.
                ('\n', _) if !started => {
                    self.at += 1;
                    continue;
                }
                ('\n' | ';', _) => (Joint::Then, 1),
                ('&', Some('&')) => (Joint::And, 2),
                ('|', Some('|')) => (Joint::Or, 2),
                ('|', Some('&')) => return unclear("it joins commands by \"|&\""),
                ('|', _) => (Joint::Pipe, 1),
                ('<' | '>', _) | ('&', Some('>')) | ('1' | '2', Some('<' | '>')) => {
                    self.redirect()?;
                    redirects += 1;
                    continue;
                }
                ('&', _) => return unclear("it starts a command in the background"),
                ('(' | ')', _) => return unclear("it has a subshell or a function"),
                ('#', _) => return unclear("it has a comment"),
                _ => {
                    let word = self.word()?;
                    self.push(word)?;
                    continue;
                }
            };
            self.at += len;
            redirects = 0;
            self.finish(joint)?;
        }
        match (self.current.words.is_empty() && redirects == 0, self.current.joint) {
            (true, Joint::Then) if self.commands.is_empty() => unclear("it runs nothing"),
            (true, Joint::Then) => Ok(()),
            _ => self.finish(Joint::Then),
        }
    }

    /// Ends the current command. `joint` is how the next one is joined to it.
    fn finish(&mut self, joint: Joint) -> Result<(), Unclear> {
        if self.current.words.is_empty() {
            return unclear("a command is missing");
        }
        if self.commands.len() >= COMMAND_PARTS {
            return Err(Unclear(format!("it has more than {COMMAND_PARTS} commands")));
        }
        let done = std::mem::replace(&mut self.current, Simple::after(joint));
        self.commands.push(done);
        Ok(())
    }

    fn push(&mut self, word: Word) -> Result<(), Unclear> {
        if self.current.words.is_empty() {
            let text = word.text.as_str();
            if RESERVED.split(' ').any(|reserved| reserved == text) {
                return Err(Unclear(format!("it has a compound command (\"{text}\")")));
            }
            if text.contains('=') {
                return unclear("it sets a variable");
            }
            if word.is_pattern || text.is_empty() {
                return unclear("the name of a program is not plain");
            }
        }
        self.current.words.push(word);
        Ok(())
    }

    /// Parses a redirection, at its operator or at the digit before it.
    fn redirect(&mut self) -> Result<(), Unclear> {
        let digit = self.peek(0).filter(char::is_ascii_digit);
        self.at += usize::from(digit.is_some());
        let sign: String = self.chars[self.at..].iter().take_while(|c| "<>&|".contains(**c)).collect();
        self.at += sign.len();
        let writes = match (sign.as_str(), digit) {
            (">&", _) => {
                let end = self.peek(1).is_none_or(|c| " \t\n;|&".contains(c));
                if !end || !matches!(self.peek(0), Some('1' | '2')) {
                    return unclear("it redirects to something else than a file or descriptor 1 or 2");
                }
                self.at += 1;
                return Ok(());
            }
            (">" | ">>", _) | ("&>", None) => true,
            ("<", None) => false,
            _ => return Err(Unclear(format!("it redirects by \"{sign}\""))),
        };
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let target = self.word()?;
        if target.text.is_empty() || target.is_pattern {
            return unclear("the file of a redirection is not plain");
        }
        if target.text == "/dev/null" {
            return Ok(());
        }
        // A plain sh reads `&>` as two commands.
        if sign == "&>" {
            return unclear("it redirects by \"&>\" to a file");
        }
        match writes {
            true => self.current.writes.push(target.text),
            false => self.current.reads.push(target.text),
        }
        Ok(())
    }

    /// Parses a word, up to a blank or an operator. The word is empty if there is none.
    fn word(&mut self) -> Result<Word, Unclear> {
        let (mut text, mut quoted, mut wild) = (String::new(), false, None);
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' => break,
                '\'' | '"' | '\\' => {
                    quoted = true;
                    self.quoted(c, &mut text)?;
                    continue;
                }
                '*' | '?' | '[' => wild = wild.or(Some(text.len())),
                '{' => {
                    self.braces(&mut text)?;
                    continue;
                }
                // Elsewhere it may stand for a home directory.
                '~' if text.ends_with(|before: char| before.is_alphanumeric() || "^~_-.}".contains(before)) => {}
                '$' | '`' => return unclear("it expands a variable or the output of a command"),
                '~' | '}' | '!' => return Err(Unclear(format!("it has a \"{c}\" that is not quoted"))),
                _ => {}
            }
            text.push(c);
            self.at += 1;
        }
        let digits = !quoted && text.chars().all(|c| c.is_ascii_digit());
        if digits && !text.is_empty() && matches!(self.peek(0), Some('<' | '>')) {
            return unclear("it redirects another descriptor than 1 or 2");
        }
        match wild {
            None => {}
            Some(_) if text == "[" => wild = None,
            Some(at) if quoted || !is_safe_pattern(&text, at) => {
                return unclear("it has a wildcard that could match something unexpected");
            }
            Some(_) => {}
        }
        Ok(Word { text, is_pattern: wild.is_some() })
    }

    /// Parses a quoted part of a word, at its first character `sign`.
    fn quoted(&mut self, sign: char, text: &mut String) -> Result<(), Unclear> {
        self.at += 1;
        if sign == '\\' {
            return match self.peek(0) {
                Some(c) if c == ' ' || c.is_ascii_punctuation() => {
                    text.push(c);
                    self.at += 1;
                    Ok(())
                }
                _ => unclear("it has a backslash that is not before punctuation"),
            };
        }
        while let Some(c) = self.peek(0) {
            let next = self.peek(1);
            self.at += 1;
            match (sign, c, next) {
                (_, c, _) if c == sign => return Ok(()),
                ('"', '`', _) => return unclear("it expands the output of a command"),
                // A dollar sign at the end of the quotes stands for itself.
                ('"', '$', next) if next != Some('"') => {
                    return unclear("it expands a variable or the output of a command");
                }
                ('"', '\\', Some(escaped @ ('$' | '`' | '"' | '\\'))) => {
                    text.push(escaped);
                    self.at += 1;
                }
                ('"', '\\', Some('\n' | '!')) => return unclear("it has a backslash before a line end or a \"!\""),
                _ => text.push(c),
            }
        }
        unclear("a quote does not end")
    }

    /// Parses braces as in `stash@{0}`. Other braces are refused, because they may stand for a list of words.
    fn braces(&mut self, text: &mut String) -> Result<(), Unclear> {
        let inner = self.chars[self.at + 1..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '-');
        let len = inner.count() + 2;
        let whole: String = self.chars[self.at..].iter().take(len).collect();
        if !text.ends_with('@') || !whole.ends_with('}') || len == 2 {
            return unclear("it has braces that are not quoted");
        }
        text.push_str(&whole);
        self.at += len;
        Ok(())
    }
}

/// Whether a pattern can match only paths that begin with its text before `wild`, the position of the first wildcard. A match must not be
/// an option, and hidden names are refused because they include the parent directory.
fn is_safe_pattern(text: &str, wild: usize) -> bool {
    let start = &text[..wild];
    let option = start.starts_with('-') && !(start.starts_with("--") && start.contains('=') && !text.contains('/'));
    let hidden = text.split('/').any(|part| part.starts_with('.') && part.contains(['*', '?', '[']));
    // Shells do not agree on what negates a set.
    !start.is_empty() && !option && !hidden && !text.contains("[^")
}
