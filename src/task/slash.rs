//! Slash commands: which there are, and which one somebody means. What a command does is in the shell; here is only what can be
//! said about it without doing it.
//!
//! A [`Spec`] owns its sub-commands, so a registry is a tree and cannot lead in circles. Every command is found by its path from
//! the top (`memory show`) or by another phrase for it (`list-extensions`); the longest phrase that fits what was typed wins.
//! A command becomes an ordinary task by being part of its creation ([`Invocation`]), so everything that holds for tasks holds
//! for commands: they are watched, canceled, kept and found again like any other.

use crate::task::log::answer::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What is known of a command. Made with [`Spec::new`]; what differs from the ordinary is set afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// One word.
    pub name: String,
    pub description: String,
    pub arguments: Vec<Argument>,
    pub subs: Vec<Spec>,
    /// Which of its sub-commands is meant when nothing follows the name. A command without one is a command itself.
    pub default: Option<String>,
    /// Other phrases for it, each from the top.
    pub aliases: Vec<String>,
    pub needs_workspace: bool,
    pub takes: Takes,
    pub answers: Answers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub description: String,
    pub required: bool,
}

/// How a command wants what follows its name, when that is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// As words, split as a shell does.
    Words,
    /// As it is: an apostrophe in a sentence is no quote.
    Line,
}

/// How long a command may be expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// It has one result, at once.
    Once,
    /// It sets the model to work, which is worth watching.
    Streaming,
}

impl Spec {
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Spec {
        Spec {
            name: name.into(),
            description: description.into(),
            arguments: Vec::new(),
            subs: Vec::new(),
            default: None,
            aliases: Vec::new(),
            needs_workspace: false,
            takes: Takes::Words,
            answers: Answers::Once,
        }
    }

    /// A command that is nothing without its sub-commands; the first of them is meant when none is named.
    pub fn group(name: impl Into<String>, description: impl Into<String>, subs: Vec<Spec>) -> Spec {
        Spec { default: subs.first().map(|sub| sub.name.clone()), subs, ..Spec::new(name, description) }
    }

    fn sub(&self, name: &str) -> Option<&Spec> {
        self.subs.iter().find(|sub| sub.name == name)
    }

    fn missing(&self, given: usize) -> Option<&Argument> {
        self.arguments.iter().skip(given).find(|arg| arg.required)
    }
}

/// What somebody wants executed, as they said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The command's words, with or without a slash in front.
    pub phrase: String,
    pub args: Args,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Args {
    Words(Vec<String>),
    Line(String),
}

/// A command with its arguments: enough to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// From the top, by the commands' own names.
    pub path: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

impl Invocation {
    /// The command's whole name, e.g. `memory show`.
    pub fn name(&self) -> String {
        self.path.join(" ")
    }

    /// What a person would have typed for it: the prompt of its task.
    pub fn line(&self) -> String {
        let words = self.path.iter().chain(&self.args);
        let words: Vec<&str> = words.map(String::as_str).collect();
        format!("/{}", words.join(" "))
    }
}

/// Why something typed is not a command that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unrunnable {
    Unknown { phrase: String },
    Incomplete { name: String, argument: Argument },
}

/// A command that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub spec: &'a Spec,
    pub path: Vec<String>,
    /// What was typed behind it.
    pub rest: Vec<String>,
}

/// The name is another command's already, or is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken(pub String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    commands: Vec<Spec>,
}

impl Registry {
    /// Adds a command with all below it. Nothing that can be found already is replaced.
    pub fn register(&mut self, spec: Spec) -> Result<(), Taken> {
        let known: Vec<Vec<String>> = phrases(&self.commands);
        let mut fresh = phrases(std::slice::from_ref(&spec));
        while let Some(phrase) = fresh.pop() {
            if phrase.is_empty() || known.contains(&phrase) || fresh.contains(&phrase) {
                return Err(Taken(phrase.join(" ")));
            }
        }
        self.commands.push(spec);
        Ok(())
    }

    /// The commands at the top, in the order they were registered.
    pub fn commands(&self) -> &[Spec] {
        &self.commands
    }

    /// Every command there is, by its path, parents before their children.
    pub fn all(&self) -> Vec<(Vec<String>, &Spec)> {
        let mut all = Vec::new();
        for spec in &self.commands {
            collect(spec, &[], &mut all);
        }
        all
    }

    /// The command that these words begin with.
    pub fn find<S: AsRef<str>>(&self, words: &[S]) -> Option<Found<'_>> {
        let mut words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        if let Some(first) = words.first_mut() {
            *first = first.strip_prefix('/').unwrap_or(first);
        }
        let mut best: Option<(usize, Vec<String>, &Spec)> = None;
        for (path, spec) in self.all() {
            let fits = named(&path, spec)
                .into_iter()
                .filter(|phrase| words.len() >= phrase.len() && phrase.iter().zip(&words).all(|(a, b)| a == b));
            let longest = fits.map(|phrase| phrase.len()).max();
            if let Some(length) = longest
                && best.as_ref().is_none_or(|(known, ..)| length > *known)
            {
                best = Some((length, path, spec));
            }
        }
        let (length, mut path, mut spec) = best?;
        let rest = &words[length..];
        while let Some(name) = &spec.default {
            // Whatever follows a group should have been one of its commands.
            spec = spec.sub(name).filter(|_| rest.is_empty())?;
            path.push(spec.name.clone());
        }
        Some(Found { spec, path, rest: rest.iter().map(|word| (*word).to_owned()).collect() })
    }

    /// The command that was typed, ready to run. The whole phrase must be its name: arguments come apart from it.
    pub fn invoke(&self, typed: &Typed) -> Result<(Invocation, &Spec), Unrunnable> {
        let words: Vec<&str> = typed.phrase.split_whitespace().collect();
        let found = self.find(&words).filter(|found| found.rest.is_empty());
        let Found { spec, path, .. } = found.ok_or_else(|| Unrunnable::Unknown { phrase: typed.phrase.clone() })?;
        let args = match (&typed.args, spec.takes) {
            (Args::Words(words), _) => words.clone(),
            (Args::Line(line), Takes::Words) => split(line),
            (Args::Line(line), Takes::Line) => {
                let line = line.trim();
                let given = (!line.is_empty()).then(|| line.to_owned());
                given.into_iter().collect()
            }
        };
        if let Some(argument) = spec.missing(args.len()) {
            return Err(Unrunnable::Incomplete { name: path.join(" "), argument: argument.clone() });
        }
        Ok((Invocation { path, args }, spec))
    }

    /// The commands this program brings along.
    pub fn built_in() -> Registry {
        let with = |spec: Spec, alias: &str| Spec { aliases: vec![alias.into()], ..spec };
        let here = |spec: Spec| Spec { needs_workspace: true, ..spec };
        let text = Argument { name: "text".into(), description: "What to remember.".into(), required: true };
        let add = Spec {
            arguments: vec![text],
            takes: Takes::Line,
            ..Spec::new("add", "Writes a line into your own memory file.")
        };
        let memory = vec![
            here(Spec::new("show", "Shows what is remembered, and from where.")),
            with(here(Spec::new("refresh", "Reads the memory files again.")), "memory reload"),
            here(Spec::new("list", "Lists the memory files in use.")),
            add,
        ];
        let extensions = vec![with(Spec::new("list", "Lists the installed extensions."), "list-extensions")];
        let init = Spec {
            answers: Answers::Streaming,
            ..here(Spec::new("init", "Looks at the project and writes a GEMINI.md for it."))
        };
        Registry {
            commands: vec![
                Spec::group("memory", "Manages what is remembered.", memory),
                init,
                Spec::group("extensions", "Manages extensions.", extensions),
                Spec::new("tools", "Lists the tools of the agent."),
                Spec::new("stats", "Shows how busy the server is."),
                Spec::new("help", "Lists the commands."),
            ],
        }
    }
}

fn collect<'a>(spec: &'a Spec, above: &[String], all: &mut Vec<(Vec<String>, &'a Spec)>) {
    let path = [above, std::slice::from_ref(&spec.name)].concat();
    all.push((path.clone(), spec));
    for sub in &spec.subs {
        collect(sub, &path, all);
    }
}

/// Every phrase a command goes by: its path and its aliases.
fn named(path: &[String], spec: &Spec) -> Vec<Vec<String>> {
    let words = |phrase: &String| phrase.split_whitespace().map(str::to_owned).collect();
    let aliases = spec.aliases.iter().map(words);
    std::iter::once(path.to_vec()).chain(aliases).collect()
}

fn phrases(specs: &[Spec]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for spec in specs {
        collect(spec, &[], &mut all);
    }
    let one = |(path, spec): (Vec<String>, &Spec)| match path.last() {
        // A name of several words, or of none, could never be typed.
        Some(name) if name.split_whitespace().count() == 1 => named(&path, spec),
        _ => vec![Vec::new()],
    };
    all.into_iter().flat_map(one).collect()
}

/// Splits a line into words as a shell does: quotes keep blanks together, a backslash keeps what follows it. A quote that never
/// ends is an ordinary character.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(rest.next()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                match quoted(c, rest.as_str()) {
                    Some((text, after)) => {
                        word.push_str(&text);
                        rest = after.chars();
                    }
                    None => word.push(c),
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What stands before the closing quote, and what behind it.
fn quoted(quote: char, text: &str) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c == quote => return Some((inside, rest.as_str())),
            '\\' if quote == '"' => match rest.next()? {
                c @ ('"' | '\\') => inside.push(c),
                c => inside.extend(['\\', c]),
            },
            c => inside.push(c),
        }
    }
    None
}

/// The artifact that holds a command's result for programs.
pub const RESULT: &str = "result";

/// A command for a worker to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub workspace: Arc<str>,
    /// The operator trusts what lies in the workspace.
    pub trusted: bool,
    pub invocation: Invocation,
    pub facts: Arc<Facts>,
}

/// What the server knows of itself when a command starts: a worker cannot look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub uptime_ms: u64,
    /// Tasks at work or with an open question, and all there are.
    pub active: usize,
    pub known: usize,
    /// Of all tasks in memory.
    pub tokens: Usage,
    pub model: String,
    /// The tools with their descriptions, by name.
    pub tools: Vec<(String, String)>,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Commanded {
    /// It is done: the result for people and for programs.
    Done { text: String, data: Value },
    /// The model has to do the rest, told so.
    Ask { prompt: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(phrase: &str) -> Option<(String, String)> {
        let registry = Registry::built_in();
        let words: Vec<&str> = phrase.split_whitespace().collect();
        let found = registry.find(&words)?;
        Some((found.path.join(" "), found.rest.join(" ")))
    }

    #[test]
    fn commands_by_their_words() {
        for (phrase, path, rest) in [
            ("memory show", "memory show", ""),
            ("/memory show", "memory show", ""),
            ("memory", "memory show", ""),
            ("memory add it is late", "memory add", "it is late"),
            ("memory reload now", "memory refresh", "now"),
            ("extensions", "extensions list", ""),
            ("list-extensions", "extensions list", ""),
            ("list-extensions x", "extensions list", "x"),
            ("help me", "help", "me"),
            ("init", "init", ""),
        ] {
            let expected = (path.to_owned(), rest.to_owned());
            assert_eq!(found(phrase), Some(expected), "{phrase}");
        }
        for unknown in ["", "/", "memory forget", "show", "Memory", "//help", "extensions all"] {
            assert_eq!(found(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_command_that_has_subs_and_is_one_itself() {
        let mut registry = Registry::default();
        let restore =
            Spec { subs: vec![Spec::group("list", "", vec![Spec::new("all", "")])], ..Spec::new("restore", "") };
        registry.register(restore).expect("the first");
        let path = |words: &[&str]| registry.find(words).map(|found| (found.path, found.rest));
        let own = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        assert_eq!(path(&["restore"]), Some((own(&["restore"]), vec![])));
        assert_eq!(path(&["restore", "a"]), Some((own(&["restore"]), own(&["a"]))));
        assert_eq!(path(&["restore", "list"]), Some((own(&["restore", "list", "all"]), vec![])));
        assert_eq!(path(&["restore", "list", "some"]), None);
    }

    #[test]
    fn no_phrase_means_two_things() {
        let aliased = |name: &str, alias: &str| Spec { aliases: vec![alias.into()], ..Spec::new(name, "") };
        let twins = Spec::group("a", "", vec![Spec::new("b", ""), Spec::new("b", "")]);
        for (spec, taken) in [
            (Spec::new("help", ""), "help"),
            (aliased("assist", "help"), "help"),
            (aliased("assist", "memory reload"), "memory reload"),
            (Spec::new("list-extensions", ""), "list-extensions"),
            (twins, "a b"),
            (Spec::new("", ""), ""),
            (Spec::new("two words", ""), ""),
            (aliased("assist", " "), ""),
        ] {
            let mut registry = Registry::built_in();
            assert_eq!(registry.register(spec), Err(Taken(taken.into())));
            assert_eq!(registry, Registry::built_in());
        }
        let mut registry = Registry::built_in();
        let fine = aliased("assist", "memory help");
        assert_eq!(registry.register(fine.clone()), Ok(()));
        assert_eq!(registry.commands().last(), Some(&fine));
    }

    #[test]
    fn what_is_typed_becomes_an_invocation() {
        let registry = Registry::built_in();
        let invoke = |phrase: &str, args: Args| {
            let phrase = phrase.to_owned();
            let invoked = registry.invoke(&Typed { phrase, args });
            invoked.map(|(invocation, _)| (invocation.name(), invocation.args))
        };
        let line = |text: &str| Args::Line(text.into());
        let words = |words: &[&str]| Args::Words(words.iter().map(|w| w.to_string()).collect());
        let ok = |name: &str, args: &[&str]| Ok((name.to_owned(), args.iter().map(|w| w.to_string()).collect()));
        assert_eq!(invoke("memory add", line(" it's 5 o'clock ")), ok("memory add", &["it's 5 o'clock"]));
        assert_eq!(invoke("memory add", words(&["a", "b c"])), ok("memory add", &["a", "b c"]));
        assert_eq!(invoke("memory", line("")), ok("memory show", &[]));
        assert_eq!(invoke("tools", line("a 'b c'")), ok("tools", &["a", "b c"]));
        for phrase in ["memory forget", "memory show all", "x"] {
            let phrase = phrase.to_owned();
            let unknown = Err(Unrunnable::Unknown { phrase: phrase.clone() });
            assert_eq!(invoke(&phrase, line("")), unknown);
        }
        for nothing in [line("  "), words(&[])] {
            let refused = invoke("memory add", nothing);
            let Err(Unrunnable::Incomplete { name, argument }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!((name.as_str(), argument.name.as_str()), ("memory add", "text"));
        }
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        for (line, words) in [
            ("", &[][..]),
            ("  ", &[]),
            (" a  b\tc\n", &["a", "b", "c"]),
            ("'a b' \"c d\"e", &["a b", "c de"]),
            (r#""a \" \\ \n" '\'"#, &[r#"a " \ \n"#, r"\"]),
            (r"a\ b \' c\", &["a b", "'", "c"]),
            ("'' \"\"", &["", ""]),
            ("it's late", &["it's", "late"]),
            ("\"open end", &["\"open", "end"]),
            ("'ä b' ö", &["ä b", "ö"]),
        ] {
            assert_eq!(split(line), words, "{line:?}");
        }
    }

    #[test]
    fn an_invocation_reads_like_what_was_typed() {
        let invocation = Invocation { path: vec!["memory".into(), "add".into()], args: vec!["be brief".into()] };
        assert_eq!(invocation.line(), "/memory add be brief");
        assert_eq!(
            serde_json::to_string(&invocation).expect("plain"),
            r#"{"path":["memory","add"],"args":["be brief"]}"#
        );
        assert_eq!(
            serde_json::from_str::<Invocation>(r#"{"path":["help"]}"#).expect("plain"),
            Invocation { path: vec!["help".into()], args: vec![] }
        );
    }
}
