//! Runs slash commands: a table from paths to functions, which a worker calls. A command reads and writes files as a tool does, but
//! without approval, because the user typed it.
//!
//! A function serves its command and all sub-commands below it that have no function of their own. A program that embeds this one can add
//! commands:
//!
//! ```no_run
//! use gemini_a2a::shell::workers::slash_commands::{Asked, Commands};
//! use gemini_a2a::shell::start::program;
//! use gemini_a2a::task::definitions::slash::{Commanded, Spec};
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

mod custom;
mod extensions;
mod hooks;
mod init;
mod memory;
mod overview;
mod permissions;
mod skills;

use crate::config::definitions::custom_command::CustomCommand;
use crate::config::trust::Trust;
use crate::shell::workers::prompt_context::PromptContext;
use crate::task::definitions::slash::{Command, Commanded, Registry, STOP, Spec, Taken};
use crate::tool::Ctx;
use crate::tool::mcp_call::{McpPrompt, McpWish};
use serde_json::Value;
use std::path::Path;

/// The arguments of a command's function.
pub struct Asked<'a> {
    pub command: &'a Command,
    pub prompt_context: &'a PromptContext,
    /// All commands.
    pub registry: &'a Registry,
}

/// The function of a command. The user gets its error: it says what happened and what to do next.
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
                at("extensions enable", extensions::enable),
                at("extensions disable", extensions::disable),
                at("hooks list", hooks::list),
                at("hooks allow", hooks::allow),
                at("skills list", skills::list),
                at("skills enable", skills::enable),
                at("skills disable", skills::disable),
                at("skills reload", skills::list),
                at("tools", overview::tools),
                at("stats", overview::stats),
                at(STOP, overview::stop),
                at("permissions list", permissions::list),
                at("permissions revoke", permissions::revoke),
                at("help", overview::help),
            ],
        }
    }

    /// Adds a top-level command with all its sub-commands. An error if there is a command with this name already.
    pub fn register(&mut self, spec: Spec, run: Function) -> Result<(), Taken> {
        let path = vec![spec.name.clone()];
        self.registry.register(spec)?;
        self.functions.push((path, run));
        Ok(())
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All commands of a workspace, and its custom commands by their names.
    pub fn with_custom(
        &self,
        prompt_context: &PromptContext,
        workspace: &Path,
        trust: Trust,
        prompts: &[McpPrompt],
    ) -> (Registry, Vec<(String, CustomCommand)>) {
        let mut registry = self.registry.clone();
        let (found, mut messages) = custom::find(prompt_context, workspace, trust);
        let mut named = Vec::new();
        for command in found {
            match registry.add_custom(&command.owner, &command.name, &command.description) {
                Some(name) => named.push((name, command)),
                None => messages.push(format!("there are two commands {}.{}", command.owner, command.name)),
            }
        }
        prompt_context.log_once(&messages);
        let prompts = prompts.iter().map(|one| (&*one.command, &*one.description, &*one.arguments));
        registry.add_prompts(&prompts.collect::<Vec<_>>());
        (registry, named)
    }

    /// Runs a command. `ctx` is for custom ones, which may name files of the workspace.
    pub fn run<'c>(
        &self,
        command: &Command,
        prompt_context: &PromptContext,
        ctx: &dyn Fn() -> Result<&'c Ctx<'c>, String>,
    ) -> Result<Commanded, String> {
        let path = &command.invocation.path;
        let serves = |(own, _): &&(Vec<String>, Function)| path.starts_with(own);
        let nearest = self.functions.iter().filter(serves);
        let nearest = nearest.max_by_key(|(own, _)| own.len());
        let trust = if command.trusted { Trust::Trusted } else { Trust::Untrusted };
        let servers = if nearest.is_some() { McpWish::Running } else { McpWish::Started };
        let prompts = ctx().map(|ctx| ctx.mcp.prompts(ctx.mcp_scope(), servers)).unwrap_or_default();
        let (registry, custom) = self.with_custom(prompt_context, Path::new(&*command.workspace), trust, &prompts);
        if let Some((_, run)) = nearest {
            return run(&Asked { command, prompt_context, registry: &registry });
        }
        let name = command.invocation.name();
        if let Some(prompt) = prompts.iter().find(|prompt| prompt.command == name) {
            let ctx = ctx()?;
            return ctx.mcp.run_prompt(ctx.mcp_scope(), prompt, &command.invocation.args.join(" "));
        }
        match custom.iter().find(|(known, _)| *known == name) {
            Some((_, custom)) => custom::expand(custom, &command.invocation, ctx()?),
            // The task may have been created by another version of this program, which had the command.
            None => Err(format!("There is no command {name}; /help lists those there are.")),
        }
    }
}

fn at(path: &str, run: fn(&Asked) -> Result<Commanded, String>) -> (Vec<String>, Function) {
    let path = path.split(' ').map(str::to_owned).collect();
    (path, Box::new(run))
}

/// A result with the same text for programs and people.
fn text_result(text: String) -> Result<Commanded, String> {
    let data = Value::from(text.as_str());
    Ok(Commanded::Done { text, data })
}

#[cfg(test)]
mod tests;
