//! Slash commands as values: the registry, and finding a command by its name. `shell/workers/slash_commands` runs them.
//!
//! A [`Spec`] owns its sub-commands, so the registry is a tree. A command is found by its path from the top (`memory show`) or by an
//! alias (`list-extensions`). Its [`Invocation`] is part of the event that creates a task, so a command is watched, canceled and
//! stored like any other task.

use crate::task::log::answer::Usage;
use crate::task::policy::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Words of a line that are compared with the names of commands, which have two or three.
const COMMAND_WORDS: usize = 8;

/// The command that the core itself carries out before it is run: it stops the turn of a task.
pub const STOP: &str = "stop";
/// The group of commands that the core prepares: it gives them permissions in place of their arguments, as [`Granted`].
pub const PERMISSIONS: &str = "permissions";

/// Something that was allowed with "always".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub rule: Rule,
    /// It holds for all tasks, also after the next start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub saved: bool,
}

/// A command. Made with [`Spec::new`]; fields that differ from its defaults are set afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// One word.
    pub name: String,
    pub description: String,
    pub arguments: Vec<Argument>,
    pub subs: Vec<Spec>,
    /// The sub-command that the name alone means. A command without one can be run itself.
    pub default: Option<String>,
    /// Other names, each complete: an alias of a sub-command does not begin with the name of its group.
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

/// How a command takes its arguments if they are given as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// As words, split as a shell does.
    Words,
    /// Unchanged: an apostrophe in a sentence is not a quote.
    Line,
}

/// How a command answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// With one result, at once.
    Once,
    /// By a turn of the model, which clients may want to watch.
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

    /// A command that only has sub-commands; its name alone means the first of them.
    pub fn group(name: impl Into<String>, description: impl Into<String>, subs: Vec<Spec>) -> Spec {
        Spec { default: subs.first().map(|sub| sub.name.clone()), subs, ..Spec::new(name, description) }
    }
}

/// A command as a client asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The command's name, with or without a slash before it.
    pub phrase: String,
    pub args: Args,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Args {
    Words(Vec<String>),
    Line(String),
    /// They follow the name in the phrase.
    InPhrase,
}

/// A command with its arguments: enough to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// The names of its groups and its own name.
    pub path: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

impl Invocation {
    /// The command's whole name, e.g. `memory show`.
    pub fn name(&self) -> String {
        self.path.join(" ")
    }

    /// The command as people type it: the prompt of its task.
    pub fn line(&self) -> String {
        let words = self.path.iter().chain(&self.args);
        let words: Vec<&str> = words.map(String::as_str).collect();
        format!("/{}", words.join(" "))
    }
}

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unrunnable {
    Unknown { phrase: String },
    Incomplete { name: String, argument: Argument },
}

/// The name belongs to another command, or is not one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken(pub String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    commands: Vec<Spec>,
}

impl Registry {
    /// Adds a command with its sub-commands. No name that is already registered is replaced.
    pub fn register(&mut self, spec: Spec) -> Result<(), Taken> {
        let known = phrases(&self.commands);
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

    /// Every command with its path, parents before their children.
    pub fn all(&self) -> Vec<(Vec<String>, &Spec)> {
        with_paths(&self.commands, &[])
    }

    /// The command of this name, and its path.
    fn find(&self, phrase: &str) -> Option<(Vec<String>, &Spec)> {
        let mut words: Vec<&str> = phrase.split_whitespace().collect();
        let first = words.first_mut()?;
        *first = first.strip_prefix('/').unwrap_or(first);
        let is_meant = |(path, spec): &(Vec<String>, &Spec)| names(path, spec).iter().any(|name| *name == words);
        let (mut path, mut spec) = self.all().into_iter().find(is_meant)?;
        while let Some(name) = &spec.default {
            spec = spec.subs.iter().find(|sub| sub.name == *name)?;
            path.push(name.clone());
        }
        Some((path, spec))
    }

    /// The command that was typed, ready to run.
    pub fn invoke(&self, typed: &Typed) -> Result<(Invocation, &Spec), Unrunnable> {
        let (phrase, line) = match &typed.args {
            Args::Words(_) => (typed.phrase.as_str(), ""),
            Args::Line(line) => (typed.phrase.as_str(), line.as_str()),
            Args::InPhrase => self.divide(&typed.phrase),
        };
        let found = self.find(phrase);
        let (path, spec) = found.ok_or_else(|| Unrunnable::Unknown { phrase: phrase.to_owned() })?;
        let args = match (&typed.args, spec.takes) {
            (Args::Words(words), _) => words.clone(),
            (Args::Line(_) | Args::InPhrase, Takes::Words) => split(line),
            (Args::Line(_) | Args::InPhrase, Takes::Line) => {
                let line = line.trim();
                let given = (!line.is_empty()).then(|| line.to_owned());
                given.into_iter().collect()
            }
        };
        if let Some(argument) = spec.arguments.iter().skip(args.len()).find(|argument| argument.required) {
            return Err(Unrunnable::Incomplete { name: path.join(" "), argument: argument.clone() });
        }
        Ok((Invocation { path, args }, spec))
    }

    /// Divides a line into the longest name of a command that it begins with, and the rest.
    fn divide<'a>(&self, line: &'a str) -> (&'a str, &'a str) {
        let line = line.trim();
        let ends = line
            .char_indices()
            .filter(|(_, c)| c.is_whitespace())
            .map(|(at, _)| at)
            .chain([line.len()])
            .take(COMMAND_WORDS);
        let found = ends.filter(|end| self.find(&line[..*end]).is_some()).last();
        line.split_at(found.unwrap_or_else(|| line.find(char::is_whitespace).unwrap_or(line.len())))
    }

    /// The built-in commands.
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
        let task = Argument {
            name: "task".into(),
            description: "The task, if it is not the live session.".into(),
            required: false,
        };
        let which =
            Argument { name: "number".into(), description: "Its number in the list, or `all`.".into(), required: true };
        let permissions = vec![
            Spec { arguments: vec![task.clone()], ..Spec::new("list", "Lists what was allowed with \"always\".") },
            Spec {
                arguments: vec![which, task.clone()],
                ..Spec::new("revoke", "Takes a permission back: such calls are asked about again.")
            },
        ];
        let stop =
            Spec { arguments: vec![task], ..Spec::new(STOP, "Stops the turn that is under way; the task stays.") };
        Registry {
            commands: vec![
                Spec::group("memory", "Manages what is remembered.", memory),
                init,
                Spec::group("extensions", "Manages extensions.", extensions),
                Spec::new("tools", "Lists the tools of the agent."),
                stop,
                Spec::group(PERMISSIONS, "Manages what was allowed with \"always\".", permissions),
                Spec::new("stats", "Shows how busy the server is."),
                Spec::new("help", "Lists the commands."),
            ],
        }
    }
}

/// The commands of a list and of all lists below it, with their paths.
fn with_paths<'a>(specs: &'a [Spec], above: &[String]) -> Vec<(Vec<String>, &'a Spec)> {
    let mut all = Vec::new();
    for spec in specs {
        let path = [above, std::slice::from_ref(&spec.name)].concat();
        let below = with_paths(&spec.subs, &path);
        all.push((path, spec));
        all.extend(below);
    }
    all
}

/// Every name of a command, in words: its path and its aliases.
fn names(path: &[String], spec: &Spec) -> Vec<Vec<String>> {
    let words = |alias: &String| alias.split_whitespace().map(str::to_owned).collect();
    std::iter::once(path.to_vec()).chain(spec.aliases.iter().map(words)).collect()
}

/// Every name of every command. A name of several words, or of none, could never be typed and is empty here.
fn phrases(specs: &[Spec]) -> Vec<Vec<String>> {
    let phrases = |(path, spec): (Vec<String>, &Spec)| match spec.name.split_whitespace().count() {
        1 => names(&path, spec),
        _ => vec![Vec::new()],
    };
    with_paths(specs, &[]).into_iter().flat_map(phrases).collect()
}

/// Splits a line into words as a shell does: blanks in quotes and characters after a backslash do not separate words. A quote that
/// is not closed is an ordinary character.
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

/// The text before the closing quote, and the rest of the line.
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

/// The id of the artifact with a command's result as data.
pub const RESULT: &str = "result";

/// A command for a worker to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub workspace: Arc<str>,
    /// The operator trusts the workspace.
    pub trusted: bool,
    pub invocation: Invocation,
    pub facts: Arc<Facts>,
}

/// Figures of the server when a command starts; workers have no access to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub uptime_ms: u64,
    /// Tasks that work or wait for an answer, and all tasks.
    pub active: usize,
    pub known: usize,
    /// Of all tasks in memory.
    pub tokens: Usage,
    pub model: String,
    /// The tools with their descriptions, by name.
    pub tools: Vec<(String, String)>,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Commanded {
    /// Its result as text and as data.
    Done { text: String, data: Value },
    /// The model continues, with this prompt.
    Ask { prompt: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(registry: &Registry, phrase: &str) -> Option<String> {
        registry.find(phrase).map(|(path, _)| path.join(" "))
    }

    #[test]
    fn a_command_is_found_by_its_whole_name() {
        let registry = Registry::built_in();
        for (phrase, path) in [
            ("memory show", "memory show"),
            ("/memory show", "memory show"),
            ("memory", "memory show"),
            ("memory  reload", "memory refresh"),
            ("extensions", "extensions list"),
            ("list-extensions", "extensions list"),
            ("init", "init"),
        ] {
            assert_eq!(found(&registry, phrase).as_deref(), Some(path), "{phrase}");
        }
        let unknown =
            ["", "/", "memory forget", "memory add it", "show", "Memory", "//help", "help me", "extensions all"];
        for phrase in unknown {
            assert_eq!(found(&registry, phrase), None, "{phrase}");
        }
    }

    #[test]
    fn a_command_with_sub_commands_can_be_run_itself() {
        let mut registry = Registry::default();
        let restore =
            Spec { subs: vec![Spec::group("list", "", vec![Spec::new("all", "")])], ..Spec::new("restore", "") };
        registry.register(restore).expect("the first");
        assert_eq!(found(&registry, "restore").as_deref(), Some("restore"));
        assert_eq!(found(&registry, "restore a"), None);
        assert_eq!(found(&registry, "restore list").as_deref(), Some("restore list all"));
        assert_eq!(found(&registry, "restore list some"), None);
    }

    #[test]
    fn a_name_cannot_be_registered_twice() {
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
    fn typed_commands_become_invocations() {
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
        assert_eq!(invoke(" /memory add  it's late ", Args::InPhrase), ok("memory add", &["it's late"]));
        assert_eq!(invoke("/memory", Args::InPhrase), ok("memory show", &[]));
        assert_eq!(invoke("/tools a 'b c'", Args::InPhrase), ok("tools", &["a", "b c"]));
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
    fn the_prompt_of_a_command_is_what_people_type() {
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
