//! The rules everybody starts with, and those that the `tools` settings stand for.

use super::rule::{Held, Names, Rule, Tier};
use super::{ASK_USER, Mode};
use crate::task::spec::{Kind, Verdict};
use serde::Deserialize;

/// The `tools` settings that decide what may run. An entry is a tool's name, or a command in brackets behind the shell tool's:
/// `run_shell_command(git log)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolSettings {
    /// If given: there are no other tools.
    pub core: Option<Vec<String>>,
    pub exclude: Vec<String>,
    pub allowed: Vec<String>,
    pub confirmation_required: Vec<String>,
    /// Tools that only read run unasked.
    pub auto_accept: bool,
}

const SHELL: &str = "run_shell_command";

/// Tools that look at the workspace and at the web's index; they run in every mode.
const LOOKING: [&str; 6] =
    ["glob", "google_web_search", "grep_search", "list_directory", "read_file", "search_file_content"];

/// What happens otherwise is the tools' own default, below all of these.
pub(super) fn built_in() -> Vec<Held> {
    let names = |names: &[&str]| Names::Many(names.iter().map(|name| (*name).to_owned()).collect());
    let rule = |tools: Names, decision, modes: &[Mode], priority| Rule {
        modes: (!modes.is_empty()).then(|| modes.to_vec()),
        priority,
        ..Rule::new(tools, decision)
    };
    let mut planning = rule("*".into(), Verdict::Deny, &[Mode::Plan], 40);
    planning.deny_message = Some("only looking is allowed while planning".to_owned());
    let mut alone = rule(ASK_USER.into(), Verdict::Deny, &[], 999);
    alone.interactive = Some(false);
    let edits = names(&["replace", "write_file", "web_fetch"]);
    let unsure = names(&[ASK_USER, "activate_skill", "web_fetch"]);
    [
        rule(names(&LOOKING), Verdict::Allow, &[], 50),
        rule(edits, Verdict::Allow, &[Mode::AutoEdit], 15),
        planning,
        rule(unsure, Verdict::Ask, &[Mode::Plan], 50),
        rule("*".into(), Verdict::Allow, &[Mode::Yolo], 998),
        rule(ASK_USER.into(), Verdict::Ask, &[Mode::Yolo], 999),
        alone,
    ]
    .into_iter()
    .map(|rule| {
        let mode = match &rule.modes {
            Some(modes) => format!(" in mode {}", modes[0].word()),
            None => String::new(),
        };
        let origin = format!("a built-in rule{mode}");
        Held::plain(rule, Tier::BuiltIn, origin)
    })
    .collect()
}

pub(super) fn translated(tools: &ToolSettings) -> (Vec<Held>, Vec<String>) {
    let mut held = Vec::new();
    let mut problems = Vec::new();
    let mut entries = |list: &[String], key: &str, verdict, priority, held: &mut Vec<Held>| {
        for entry in list {
            match entry_rule(entry, verdict) {
                Ok(rule) => {
                    let rule = Rule { priority, ..rule };
                    held.push(Held::plain(rule, Tier::User, format!("tools.{key}: {entry}")));
                }
                Err(problem) => problems.push(format!("tools.{key}: {entry} {problem}")),
            }
        }
    };
    entries(&tools.exclude, "exclude", Verdict::Deny, 400, &mut held);
    entries(&tools.confirmation_required, "confirmationRequired", Verdict::Ask, 350, &mut held);
    let mut allowed = Vec::new();
    entries(&tools.allowed, "allowed", Verdict::Allow, 300, &mut allowed);
    for rule in &mut allowed {
        // Sparing questions is not lifting the limits of planning.
        rule.rule.modes = Some(Mode::Default.and_above());
    }
    held.append(&mut allowed);
    if let Some(core) = &tools.core {
        let mut listed = Vec::new();
        entries(core, "core", Verdict::Allow, 0, &mut listed);
        let mut rest = Rule::new("*", Verdict::Deny);
        rest.priority = 240;
        let mut rest = Held::plain(rest, Tier::User, "tools.core, which does not list it");
        rest.unless = listed.into_iter().map(|held| held.rule).collect();
        held.push(rest);
    }
    if tools.auto_accept {
        let mut rule = Rule::new("*", Verdict::Allow);
        rule.priority = 100;
        rule.modes = Some(Mode::Default.and_above());
        let mut reading = Held::plain(rule, Tier::User, "tools.autoAccept");
        reading.kinds = &[Kind::Read, Kind::Search];
        held.push(reading);
    }
    (held, problems)
}

fn entry_rule(entry: &str, verdict: Verdict) -> Result<Rule, &'static str> {
    let entry = entry.trim();
    let (name, command) = match entry.split_once('(') {
        None => (entry, None),
        Some((name, rest)) => {
            let command = rest.strip_suffix(')').ok_or("has no closing bracket")?;
            (name.trim(), Some(command.trim()))
        }
    };
    let name = match name {
        "" => return Err("names no tool"),
        "ShellTool" | "Shell" => SHELL,
        "search_file_content" => "grep_search",
        name => name,
    };
    let mut rule = Rule::new(name, verdict);
    match command {
        None | Some("" | "*") => {}
        Some(_) if name != SHELL => return Err("has brackets, which only the shell tool can have"),
        Some(command) => {
            // `git:*` is an older way to say `git`.
            let command = command.strip_suffix(":*").unwrap_or(command);
            rule.command_prefix = Some(command.into());
        }
    }
    Ok(rule)
}
