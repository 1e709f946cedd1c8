//! The rules that an answer "always" creates, for the session or to be saved.
//!
//! An answer applies to what was shown, so its rule is narrow: this file, these commands, at most this tool. Programs that run
//! other programs never get a rule, because that would allow everything.

use super::Mode;
use super::risky::runs_anything;
use super::rule::{Names, Rule};
use crate::task::command_line;
use crate::task::command_line::Simple;
use crate::task::origin::Origin;
use crate::task::spec::{Choice, Plan, Question, Verdict};
use serde_json::Value;

/// Lower than the priorities of the `tools` settings, so that a setting overrides a saved answer.
const SAVED_PRIORITY: u16 = 200;

/// The rules that an answer creates; empty if it allows only the one call.
pub fn always(tool: &str, origin: &Origin, args: &Value, plan: &Plan, choice: Choice, mode: Mode) -> Vec<Rule> {
    if matches!(choice, Choice::ProceedOnce | Choice::Cancel) {
        return Vec::new();
    }
    let allow = |tool: Names| Rule { modes: Some(mode.and_above()), ..Rule::new(tool, Verdict::Allow) };
    match &plan.question {
        Question::Edit { file_path, .. } => {
            let mut tools = vec!["replace".to_owned(), "write_file".to_owned()];
            if !tools.iter().any(|known| known == tool) {
                tools.push(tool.to_owned());
            }
            vec![Rule { file_path: Some(file_path.clone()), ..allow(Names::Many(tools)) }]
        }
        Question::Exec { command, .. } => {
            let mut rules: Vec<Rule> = Vec::new();
            for prefix in prefixes(command) {
                let rule = Rule { command_prefix: Some(Names::One(prefix)), ..allow(tool.into()) };
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            rules
        }
        Question::Mcp { .. } => match (origin.mcp(), choice) {
            (Some(mcp), Choice::ProceedAlwaysServer) => vec![mcp.server_rule(allow(tool.into()))],
            (Some(mcp), _) => vec![mcp.tool_rule(allow(tool.into()))],
            (None, _) => Vec::new(),
        },
        Question::Info { .. } if *origin == Origin::Agents => {
            // The rule is for the agent with its present definition.
            let agent_name = args.get("agent_name").and_then(Value::as_str).map(str::to_owned);
            let agent_hash = plan.base.as_ref().and_then(|base| base.sha256.clone());
            match (&agent_name, &agent_hash) {
                (Some(_), Some(_)) => vec![Rule { agent_name, agent_hash, ..allow(tool.into()) }],
                _ => Vec::new(),
            }
        }
        Question::Info { .. } => vec![allow(tool.into())],
        Question::AskUser { .. } => Vec::new(),
    }
}

/// The JSON of a rule in the file of saved rules.
pub fn saved_rule(rule: Rule) -> Value {
    let rule = Rule { priority: SAVED_PRIORITY, ..rule };
    serde_json::to_value(rule).expect("rules are JSON")
}

/// The commands of a line that may become rules, as prefixes. Empty for a line that could not be parsed.
fn prefixes(line: &str) -> Vec<String> {
    let commands = command_line::parse(line).unwrap_or_default();
    commands.iter().filter(|simple| command_line::read_only(simple).is_err()).filter_map(prefix).collect()
}

/// The program, and its subcommand if it has subcommands.
fn prefix(simple: &Simple) -> Option<String> {
    let name = simple.name();
    if runs_anything(name) {
        return None;
    }
    let mut len = 1 + subcommands(name);
    if matches!(name, "npm" | "pnpm" | "yarn" | "bun")
        && matches!(simple.words.get(1)?.text.as_str(), "run" | "exec" | "x" | "dlx")
    {
        len += 1;
    }
    let words: Option<Vec<&str>> = (0..len).map(|n| simple.words.get(n)?.literal()).collect();
    let words = words?;
    let plain = |word: &&str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control());
    let options = words[1..].iter().any(|word| word.starts_with('-'));
    (words.iter().all(plain) && !options).then(|| words.join(" "))
}

/// How many words after the name select what the program does.
fn subcommands(name: &str) -> usize {
    match name {
        "apt" | "apt-get" | "brew" | "bun" | "bundle" | "cargo" | "composer" | "conda" | "deno" | "docker"
        | "dotnet" | "gem" | "git" | "go" | "helm" | "hg" | "jj" | "just" | "kubectl" | "mvn" | "npm" | "npx"
        | "nx" | "pip" | "pip3" | "pipx" | "pnpm" | "podman" | "poetry" | "rustup" | "svn" | "swift" | "systemctl"
        | "terraform" | "turbo" | "uv" | "uvx" | "yarn" => 1,
        "aws" | "az" | "gcloud" | "gh" => 2,
        _ => 0,
    }
}
