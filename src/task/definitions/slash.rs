//! Slash commands: their declarations, and the registry that finds a command by its name. `shell/workers/slash_commands` runs them.
//!
//! A [`Spec`] owns its sub-commands, so the registry is a tree. A command is found by its path from the top (`memory show`) or by an
//! alias (`list-extensions`). Its [`Invocation`] is part of the event that creates a task, so a command is watched, canceled and
//! stored like any other task.

mod groups;

use crate::base::id::Tenant;
use crate::task::access::Right;
use crate::task::log::answer::{Request, Usage};
use crate::task::log::media::Media;
use crate::task::log::restored::Restored;
use crate::task::policy::Rule;
use groups::{extensions, hooks, memory, permissions, restores, skills};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Words of a line that are compared with the names of commands, which have two or three.
const COMMAND_WORDS: usize = 8;

/// The command that stops the turn of a task. The core does that before it runs the command.
pub const STOP: &str = "stop";
/// The command that requests a summary of the conversation. The core sends it as a prompt to the task that it is about.
pub const COMPRESS: &str = "compress";
/// The group of commands about permissions. The core replaces their arguments by the permissions, as [`Granted`].
pub const PERMISSIONS: &str = "permissions";

/// The description of the argument of the restore commands.
const POINT: &str = "The point: its number in the list, its id or its checkpoint name.";

/// The group of commands about command hooks. `allow` is not available to clients over the network.
pub const HOOKS: &str = "hooks";

/// Something that was allowed with "always".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub rule: Rule,
    /// It applies to all tasks, also after a restart.
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
    /// The sub-command that runs if only the name of the group is given. A command without one can be run itself.
    pub default: Option<String>,
    /// Other names, each complete: an alias of a sub-command does not begin with the name of its group.
    pub aliases: Vec<String>,
    pub needs_workspace: bool,
    pub takes: Takes,
    pub answers: Answers,
    pub source: Source,
    /// What a client needs beside the right to send prompts.
    pub right: Right,
}

/// Who wrote a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is part of the program.
    Program,
    /// People wrote it as a file.
    File,
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
            source: Source::Program,
            right: Right::Prompt,
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

/// A name that another command has, or that is not one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken(pub String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    commands: Vec<Spec>,
}

impl Registry {
    /// Adds a command with its sub-commands. If one of its names is taken, nothing is added.
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

    /// Adds a custom command. If its name is taken, it gets the name `owner.name`. Returns its name; None if both are taken.
    pub fn add_custom(&mut self, owner: &str, name: &str, description: &str) -> Option<String> {
        let arguments = vec![Argument { name: "args".into(), description: "For its prompt.".into(), required: false }];
        let spec = |name: String| Spec {
            arguments: arguments.clone(),
            needs_workspace: true,
            takes: Takes::Line,
            answers: Answers::Streaming,
            source: Source::File,
            ..Spec::new(name, description)
        };
        let names = [name.to_owned(), format!("{owner}.{name}")];
        names.into_iter().find(|name| self.register(spec(name.clone())).is_ok())
    }

    /// Adds the prompts of MCP servers as commands with the name `server:prompt`. A prompt also gets the alias `prompt`, if no other command
    /// and no prompt of another server has this name. Each item has the command, its description and the description of its arguments.
    pub fn add_prompts(&mut self, prompts: &[(&str, &str, &str)]) {
        let servers: BTreeSet<(&str, &str)> =
            prompts.iter().filter_map(|(command, ..)| command.split_once(':')).collect();
        for (command, description, arguments) in prompts {
            let bare = command.split_once(':').map(|(_, prompt)| prompt);
            let is_only = |bare: &&str| servers.iter().filter(|(_, prompt)| prompt == bare).count() == 1;
            self.add_prompt(command, bare.filter(is_only), description, arguments);
        }
    }

    fn add_prompt(&mut self, command: &str, bare: Option<&str>, description: &str, arguments: &str) {
        let argument = Argument { name: "args".into(), description: arguments.to_owned(), required: false };
        let spec = |aliases: Vec<String>| Spec {
            arguments: if arguments.is_empty() { Vec::new() } else { vec![argument.clone()] },
            needs_workspace: true,
            takes: Takes::Line,
            answers: Answers::Streaming,
            source: Source::File,
            aliases,
            ..Spec::new(command, description)
        };
        let taken = self.register(spec(bare.into_iter().map(str::to_owned).collect()));
        if taken.is_err() {
            // The existing command keeps its name; this one has no alias then.
            let _ = self.register(spec(Vec::new()));
        }
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
        let commands = vec![
            Spec::group("memory", "Manages what is remembered.", memory()),
            Spec {
                answers: Answers::Streaming,
                ..Spec::new("init", "Looks at the project and writes a GEMINI.md for it.")
                    .in_workspace()
                    .needing(Right::Approve)
            },
            Spec::group("extensions", "Manages extensions.", extensions()),
            Spec::group("skills", "Manages skills.", skills()),
            Spec::group(HOOKS, "Manages command hooks.", hooks()),
            Spec::new("tools", "Lists the tools of the agent."),
            Spec {
                answers: Answers::Streaming,
                aliases: vec!["summarize".into(), "compact".into()],
                ..Spec::new(COMPRESS, "Replaces the conversation so far by a summary, to make room.")
            },
            Spec::new(STOP, "Stops the turn that is under way; the task stays.").with(vec![Argument::task()]),
        ];
        let last = [
            Spec::group(PERMISSIONS, "Manages what was allowed with \"always\".", permissions()),
            Spec::new("stats", "Shows how busy the server is."),
            Spec::new("help", "Lists the commands."),
        ];
        Registry { commands: commands.into_iter().chain(restores()).chain(last).collect() }
    }
}

impl Spec {
    fn in_workspace(self) -> Spec {
        Spec { needs_workspace: true, ..self }
    }

    fn needing(self, right: Right) -> Spec {
        Spec { right, ..self }
    }

    fn with(self, arguments: Vec<Argument>) -> Spec {
        Spec { arguments, ..self }
    }

    fn with_alias(self, alias: &str) -> Spec {
        Spec { aliases: vec![alias.into()], ..self }
    }

    /// A command about one entry of the list that the group's `list` shows.
    fn for_entry(name: &str, description: &str) -> Spec {
        let spec =
            Spec::new(name, description).in_workspace().with(vec![Argument::required("name", "Its name in the list.")]);
        Spec { takes: Takes::Line, ..spec }
    }
}

impl Argument {
    fn required(name: &str, description: &str) -> Argument {
        Argument { name: name.into(), description: description.into(), required: true }
    }

    fn optional(name: &str, description: &str) -> Argument {
        Argument { required: false, ..Argument::required(name, description) }
    }

    fn task() -> Argument {
        Argument::optional("task", "The task, if it is not the live session.")
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

/// All names of all commands. In place of a name that is not one word, and so could never be typed, there is an empty list.
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
    pub tenant: Tenant,
    pub facts: Arc<Facts>,
}

/// Statistics of the server at the start of a command, because workers have no access to the core.
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
    pub mcp: McpCounts,
}

/// MCP servers that are connected, those that have failed, and programs of theirs that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct McpCounts {
    pub connected: usize,
    pub failed: usize,
    pub processes: usize,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Commanded {
    /// Its result as text and as data.
    Done { text: String, data: Value },
    /// The model is asked with this prompt.
    Ask { prompt: String },
    /// The model is asked with this prompt and media.
    AskWith { prompt: String, media: Vec<Media> },
    /// It restored files or the conversation of a task, whose log records that.
    Restored { restored: Box<Restored>, text: String, data: Value },
    /// The model is asked with a prompt that contains the output of commands. The calls have no ids yet.
    Expanded {
        parts: Vec<PromptPart>,
        /// What to tell the user.
        notices: Vec<String>,
    },
}

/// A part of the prompt of a custom command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptPart {
    Text(String),
    /// The output of this call of the shell tool.
    Shell(Request),
}

impl PromptPart {
    /// A command whose call has no id yet.
    pub fn shell(command: &str) -> PromptPart {
        let args = serde_json::json!({ "command": command });
        PromptPart::Shell(Request { call: "".into(), name: "run_shell_command".into(), args, api_id: None })
    }

    pub fn request(&self) -> Option<&Request> {
        match self {
            PromptPart::Text(_) => None,
            PromptPart::Shell(request) => Some(request),
        }
    }
}

#[cfg(test)]
mod tests;
