//! The grammar of command lines, from the whole script down to one simple command. Words are read in [`super::word`], where
//! they come from and go to in [`super::redirect`].

use super::redirect::Pending;
use super::word::Draft;
use super::{Parsed, Simple, Unclear, Word, keep, unclear};
use crate::limits::COMMAND_DEPTH;

pub(super) type Read<T> = Result<T, Unclear>;

pub(super) struct Reader<'a> {
    pub chars: Vec<char>,
    pub at: usize,
    pub depth: usize,
    pub found: &'a mut Parsed,
    /// Here documents whose text begins after this line.
    pub pending: Vec<Pending>,
}

/// What ends a list of commands.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Text,
    Bracket,
    /// One of these words where a command may begin.
    Words(&'static [&'static str]),
    /// `;;` and its like, or `esac`.
    Case,
}

/// Words with a meaning where a command may begin.
const RESERVED: [&str; 22] = [
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while", "{", "}", "]]",
];

impl<'a> Reader<'a> {
    pub fn new(text: &str, depth: usize, found: &'a mut Parsed) -> Read<Reader<'a>> {
        if depth > COMMAND_DEPTH {
            return unclear("it is nested too deeply");
        }
        Ok(Reader { chars: text.chars().collect(), at: 0, depth, found, pending: Vec::new() })
    }

    pub fn whole(&mut self) -> Read<()> {
        self.list(End::Text)?;
        self.no_open_documents()
    }

    pub fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub fn sees(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(n, c)| self.peek(n) == Some(c))
    }

    /// What was read since `start`, as it was written.
    pub fn since(&self, start: usize) -> String {
        self.chars[start..self.at].iter().collect()
    }

    /// A list in brackets, behind the opening one and up to behind the closing one: a subshell or a substitution.
    pub fn bracketed(&mut self) -> Read<()> {
        // Shells do not agree on where the text of a document begins whose line goes on in brackets.
        self.no_open_documents()?;
        self.deeper(|reader| {
            reader.list(End::Bracket)?;
            reader.no_open_documents()?;
            reader.at += 1;
            Ok(())
        })
    }

    pub fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= COMMAND_DEPTH {
            return unclear("it is nested too deeply");
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn no_open_documents(&self) -> Read<()> {
        match self.pending.first() {
            None => Ok(()),
            Some(_) => unclear("a here document has no text"),
        }
    }

    // Lists.

    /// Commands up to `end`, which is not consumed. Says how many there were.
    fn list(&mut self, end: End) -> Read<usize> {
        let mut commands = 0;
        loop {
            self.skip_lines()?;
            if self.is_at(end)? {
                return Ok(commands);
            }
            self.and_or()?;
            commands += 1;
            self.skip_blanks();
            match self.peek(0) {
                Some(';') if matches!(self.peek(1), Some(';' | '&')) => {}
                Some(';' | '&') => self.at += 1,
                Some('\n') => {}
                _ if self.is_at(end)? => {}
                _ => return unclear("something follows a command that does not belong there"),
            }
        }
    }

    /// A list with something in it, ended by one of these words. The word is consumed.
    fn body(&mut self, words: &'static [&'static str]) -> Read<&'static str> {
        if self.list(End::Words(words))? == 0 {
            return unclear("a command is missing");
        }
        let word = self.reserved().expect("the list ended at it");
        self.at += word.chars().count();
        Ok(word)
    }

    fn is_at(&self, end: End) -> Read<bool> {
        match (end, self.peek(0)) {
            (End::Text, next) => Ok(next.is_none()),
            (_, None) => unclear("it ends too early"),
            (End::Bracket, Some(c)) => Ok(c == ')'),
            (End::Words(words), Some(_)) => Ok(self.reserved().is_some_and(|word| words.contains(&word))),
            (End::Case, Some(_)) => {
                Ok(self.sees(";;") || self.sees(";&") || self.reserved().is_some_and(|word| word == "esac"))
            }
        }
    }

    /// The reserved word that stands here, whole.
    fn reserved(&self) -> Option<&'static str> {
        let ends = |c: char| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>');
        RESERVED.into_iter().find(|word| self.sees(word) && self.peek(word.chars().count()).is_none_or(ends))
    }

    fn expect(&mut self, word: &'static str) -> Read<()> {
        self.skip_lines()?;
        if self.reserved() != Some(word) {
            return Err(Unclear(format!("\"{word}\" is missing")));
        }
        self.at += word.chars().count();
        Ok(())
    }

    fn and_or(&mut self) -> Read<()> {
        self.pipeline()?;
        loop {
            self.skip_blanks();
            if !self.sees("&&") && !self.sees("||") {
                return Ok(());
            }
            self.at += 2;
            self.skip_lines()?;
            self.pipeline()?;
        }
    }

    fn pipeline(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            match self.reserved() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.at += 4;
                    self.skip_blanks();
                    if self.sees("-p ") {
                        self.at += 2;
                    }
                }
                _ => break,
            }
        }
        loop {
            self.command()?;
            self.skip_blanks();
            if self.peek(0) != Some('|') || self.peek(1) == Some('|') {
                return Ok(());
            }
            self.at += if self.peek(1) == Some('&') { 2 } else { 1 };
            self.skip_lines()?;
        }
    }

    // Commands.

    fn command(&mut self) -> Read<()> {
        self.skip_blanks();
        if self.sees("((") {
            self.at += 2;
            self.arithmetic()?;
            self.keep_named("((")?;
            return self.group_redirects();
        }
        if self.peek(0) == Some('(') {
            self.at += 1;
            self.bracketed()?;
            return self.group_redirects();
        }
        match self.reserved() {
            None | Some("time" | "!" | "in" | "]]") => return self.simple(),
            Some(word) => {
                self.at += word.chars().count();
                self.deeper(|reader| reader.compound(word))?;
            }
        }
        self.group_redirects()
    }

    fn compound(&mut self, word: &'static str) -> Read<()> {
        match word {
            "{" => drop(self.body(&["}"])?),
            "if" => {
                self.body(&["then"])?;
                while self.body(&["elif", "else", "fi"])? != "fi" {
                    // After `elif` comes a condition, after `else` a body; both are lists, and `then` ends only the first.
                    if self.body(&["then", "fi"])? == "fi" {
                        break;
                    }
                }
            }
            "while" | "until" => {
                self.body(&["do"])?;
                self.body(&["done"])?;
            }
            "for" | "select" => self.each()?,
            "case" => self.case()?,
            "[[" => self.test()?,
            "function" => {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                if self.sees("(") {
                    self.at += 1;
                    self.skip_blanks();
                    if !self.sees(")") {
                        return unclear("a function's brackets are not empty");
                    }
                    self.at += 1;
                }
                self.definition()?;
            }
            _ => return Err(Unclear(format!("\"{word}\" is not understood here"))),
        }
        Ok(())
    }

    fn definition(&mut self) -> Read<()> {
        self.found.defines = true;
        self.skip_lines()?;
        let compound = ["{", "if", "while", "until", "for", "select", "case", "[["];
        if self.sees("(") || self.reserved().is_some_and(|word| compound.contains(&word)) {
            return self.deeper(Reader::command);
        }
        unclear("a function has no body")
    }

    fn each(&mut self) -> Read<()> {
        self.skip_blanks();
        if self.sees("((") {
            self.at += 2;
            self.arithmetic()?;
            self.keep_named("((")?;
        } else {
            self.word()?;
            self.skip_lines()?;
            if self.reserved() == Some("in") {
                self.at += 2;
                self.words_of_line()?;
            }
        }
        self.skip_blanks();
        if self.peek(0) == Some(';') {
            self.at += 1;
        }
        self.expect("do")?;
        self.body(&["done"]).map(drop)
    }

    fn words_of_line(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            match self.peek(0) {
                None | Some(';' | '\n') => return Ok(()),
                Some('#') => self.comment(),
                Some(_) => drop(self.word()?),
            }
        }
    }

    fn case(&mut self) -> Read<()> {
        self.skip_blanks();
        self.word()?;
        self.expect("in")?;
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("esac") {
                self.at += 4;
                return Ok(());
            }
            if self.peek(0) == Some('(') {
                self.at += 1;
            }
            loop {
                self.skip_blanks();
                self.word()?;
                self.skip_blanks();
                match self.peek(0) {
                    Some('|') => self.at += 1,
                    Some(')') => break,
                    _ => return unclear("a pattern of a case does not end"),
                }
            }
            self.at += 1;
            self.list(End::Case)?;
            for mark in [";;&", ";;", ";&"] {
                if self.sees(mark) {
                    self.at += mark.len();
                    break;
                }
            }
        }
    }

    /// `[[ … ]]`. Its operators look like redirections and brackets; only its words matter here.
    fn test(&mut self) -> Read<()> {
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("]]") {
                self.at += 2;
                return self.keep_named("[[");
            }
            match self.peek(0) {
                None => return unclear("it ends too early"),
                Some('<' | '>') if self.peek(1) == Some('(') => drop(self.word()?),
                Some('<' | '>' | '(' | ')' | '&' | '|') => self.at += 1,
                Some(';') => return unclear("a test does not end"),
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// What bash evaluates by itself. It counts as a command, because evaluating can run substitutions hidden in quotes.
    fn keep_named(&mut self, name: &str) -> Read<()> {
        let simple = Simple { argv: vec![Word::exact(name), Word::open("…")], ..Simple::default() };
        keep(simple, self.depth, self.found)
    }

    /// Redirections behind a compound command are kept as a command without words.
    fn group_redirects(&mut self) -> Read<()> {
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            let start = self.at;
            while self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1;
            }
            match self.peek(0) {
                Some('<' | '>') => simple.redirects.push(self.redirect()?),
                Some('&') if self.peek(1) == Some('>') => simple.redirects.push(self.redirect()?),
                _ if self.at > start => return unclear("words follow a group"),
                _ => break,
            }
        }
        if simple.redirects.is_empty() {
            return Ok(());
        }
        keep(simple, self.depth, self.found)
    }

    fn simple(&mut self) -> Read<()> {
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            match self.peek(0) {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if self.peek(1) != Some('>') => break,
                Some('#') => self.comment(),
                Some('<' | '>') if self.peek(1) != Some('(') => {
                    simple.redirects.push(self.redirect()?);
                }
                Some('&') => simple.redirects.push(self.redirect()?),
                Some('(') => return self.function(&simple),
                Some(_) => self.next_word(&mut simple)?,
            }
        }
        if simple == Simple::default() {
            return unclear("a command is missing");
        }
        keep(simple, self.depth, self.found)
    }

    fn next_word(&mut self, simple: &mut Simple) -> Read<()> {
        let start = self.at;
        let draft = self.word()?;
        let source = self.since(start);
        let numbers = source.chars().all(|c| c.is_ascii_digit());
        if numbers && matches!(self.peek(0), Some('<' | '>')) {
            simple.redirects.push(self.redirect()?);
            return Ok(());
        }
        if simple.argv.is_empty() {
            if let Some(name) = assigned(&source) {
                if self.peek(0) == Some('(') {
                    self.at += 1;
                    self.array()?;
                }
                simple.assigns.push(name.to_owned());
                return Ok(());
            }
            if draft.continued && RESERVED.contains(&draft.text.as_str()) {
                return unclear("a word with a meaning of its own is split over lines");
            }
        }
        simple.argv.push(draft.finish(source));
        Ok(())
    }

    fn array(&mut self) -> Read<()> {
        loop {
            self.skip_lines()?;
            match self.peek(0) {
                None => return unclear("it ends too early"),
                Some(')') => break,
                Some(_) => drop(self.word()?),
            }
        }
        self.at += 1;
        // In `a=()ls` the assignment goes on to the end of the word.
        match self.peek(0) {
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')') => Ok(()),
            Some(_) => unclear("something is joined to an array"),
        }
    }

    /// `name () …`, at the opening bracket.
    fn function(&mut self, simple: &Simple) -> Read<()> {
        let alone = simple.argv.len() == 1 && simple.assigns.is_empty() && simple.redirects.is_empty();
        self.at += 1;
        self.skip_blanks();
        if !alone || self.peek(0) != Some(')') {
            return unclear("there is a bracket where none belongs");
        }
        self.at += 1;
        self.definition()
    }

    // Between words.

    /// Blanks and lines joined by a backslash.
    pub fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                _ => return,
            }
        }
    }

    /// Blanks, line ends and comments.
    fn skip_lines(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            match self.peek(0) {
                Some('\n') => {
                    self.at += 1;
                    self.documents()?;
                }
                Some('#') => self.comment(),
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    pub fn word(&mut self) -> Read<Draft> {
        let start = self.at;
        let draft = self.draft()?;
        if self.at == start {
            return unclear("a word is missing");
        }
        Ok(draft)
    }
}

/// The variable that a word sets, if it is an assignment.
fn assigned(source: &str) -> Option<&str> {
    let end = source
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|end| *end > 0 && !source.starts_with(|c: char| c.is_ascii_digit()))?;
    let (name, rest) = source.split_at(end);
    let element = rest.starts_with('[') && (rest.contains("]=") || rest.contains("]+="));
    (rest.starts_with('=') || rest.starts_with("+=") || element).then_some(name)
}
