//! The built-in rules, and the rules that the `tools` settings mean.

use super::rule::{Held, Names, Rule, Tier};
use super::{ASK_USER, Mode};
use crate::task::spec::{Kind, Verdict};
use serde::Deserialize;

/// The `tools` settings that decide what may run. An entry is the name of a tool, or that of the shell tool with a command in
/// brackets: `run_shell_command(git log)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolSettings {
    /// If given, there are no other tools.
    pub core: Option<Vec<String>>,
    pub exclude: Vec<String>,
    pub allowed: Vec<String>,
    pub confirmation_required: Vec<String>,
    /// Tools that only read need no approval.
    pub auto_accept: bool,
}

const SHELL: &str = "run_shell_command";

/// The built-in rules, above the tools' own defaults. They match by the kinds that built-in tools declare. What others declare about
/// their tools is not trusted: such tools have the kind `Other`.
pub(super) fn built_in() -> Vec<Held> {
    const ANY: &[Kind] = &[];
    let mut planning = Rule::new("*", Verdict::Deny);
    planning.deny_message = Some("only looking is allowed while planning".to_owned());
    let mut alone = Rule::new(ASK_USER, Verdict::Deny);
    alone.interactive = Some(false);
    let unsure = Names::Many([ASK_USER, "activate_skill", "web_fetch"].map(String::from).into());
    [
        (Rule::new("*", Verdict::Allow), 50, None, &[Kind::Read, Kind::Search][..]),
        (Rule::new("*", Verdict::Allow), 15, Some(Mode::AutoEdit), &[Kind::Edit, Kind::Fetch]),
        (planning, 40, Some(Mode::Plan), ANY),
        (Rule::new(unsure, Verdict::Ask), 50, Some(Mode::Plan), ANY),
        (Rule::new("*", Verdict::Allow), 998, Some(Mode::Yolo), ANY),
        (Rule::new(ASK_USER, Verdict::Ask), 999, Some(Mode::Yolo), ANY),
        (alone, 999, None, ANY),
    ]
    .into_iter()
    .map(|(rule, priority, mode, kinds)| {
        let origin = mode.map_or("a built-in rule".into(), |mode| format!("a built-in rule in mode {}", mode.word()));
        let rule = Rule { priority, modes: mode.map(|mode| vec![mode]), ..rule };
        let mut held = Held::plain(rule, Tier::BuiltIn, origin);
        held.kinds = kinds;
        held
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
        // A tool that needs no approval is still limited by the mode `plan`.
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
            // `git:*` is an older form of `git`.
            let command = command.strip_suffix(":*").unwrap_or(command);
            rule.command_prefix = Some(command.into());
        }
    }
    Ok(rule)
}
