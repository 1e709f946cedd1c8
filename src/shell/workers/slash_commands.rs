//! What slash commands do: a table from paths to functions, run by a worker. A command reads and writes files as a tool does, but
//! without approval, because the user typed it.
//!
//! A function serves its command and all sub-commands below it that have none of their own. Others can be added, by a program
//! that is this one with more commands:
//!
//! ```no_run
//! use gemini_a2a::shell::workers::slash_commands::{Asked, Commands};
//! use gemini_a2a::shell::start::program;
//! use gemini_a2a::task::slash::{Commanded, Spec};
//! use serde_json::json;
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     let mut commands = Commands::built_in();
//!     let about = Spec::new("about", "Says where it works.");
//!     let run = |asked: &Asked| {
//!         let text = format!("{} in {}", asked.command.facts.model, asked.command.workspace);
//!         Ok(Commanded::Done { data: json!({ "about": text }), text })
//!     };
//!     commands.register(about, Box::new(run)).expect("no other command is called so");
//!     program::run(commands)
//! }
//! ```

mod extensions;
mod init;
mod memory;
mod overview;
mod permissions;

use crate::shell::workers::prompt_context::PromptContext;
use crate::task::slash::{Command, Commanded, Registry, STOP, Spec, Taken};
use serde_json::Value;

/// What a command is given.
pub struct Asked<'a> {
    pub command: &'a Command,
    pub prompt_context: &'a PromptContext,
    /// All commands.
    pub registry: &'a Registry,
}

/// Runs a command. An error is told to the user: it says what happened and what to do next.
pub type Function = Box<dyn Fn(&Asked) -> Result<Commanded, String> + Send + Sync>;

pub struct Commands {
    registry: Registry,
    functions: Vec<(Vec<String>, Function)>,
}

impl Commands {
    pub fn built_in() -> Commands {
        Commands {
            registry: Registry::built_in(),
            functions: vec![
                at("memory show", memory::show),
                at("memory refresh", memory::refresh),
                at("memory list", memory::list),
                at("memory add", memory::add),
                at("init", init::run),
                at("extensions list", extensions::list),
                at("tools", overview::tools),
                at("stats", overview::stats),
                at(STOP, overview::stop),
                at("permissions list", permissions::list),
                at("permissions revoke", permissions::revoke),
                at("help", overview::help),
            ],
        }
    }

    /// Adds a command at the top, with all its sub-commands. Nothing that is there already is replaced.
    pub fn register(&mut self, spec: Spec, run: Function) -> Result<(), Taken> {
        let path = vec![spec.name.clone()];
        self.registry.register(spec)?;
        self.functions.push((path, run));
        Ok(())
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn run(&self, command: &Command, prompt_context: &PromptContext) -> Result<Commanded, String> {
        let path = &command.invocation.path;
        let serves = |(own, _): &&(Vec<String>, Function)| path.starts_with(own);
        let nearest = self.functions.iter().filter(serves);
        let nearest = nearest.max_by_key(|(own, _)| own.len());
        // The task may be older than this program, and know commands that it does not.
        let (_, run) = nearest.ok_or_else(|| {
            let name = command.invocation.name();
            format!("There is no command {name}; /help lists those there are.")
        })?;
        run(&Asked { command, prompt_context, registry: &self.registry })
    }
}

fn at(path: &str, run: fn(&Asked) -> Result<Commanded, String>) -> (Vec<String>, Function) {
    let path = path.split(' ').map(str::to_owned).collect();
    (path, Box::new(run))
}

/// A result with the same text for programs and people.
fn said(text: String) -> Result<Commanded, String> {
    let data = Value::from(text.as_str());
    Ok(Commanded::Done { text, data })
}

#[cfg(test)]
mod tests;
