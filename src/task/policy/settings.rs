//! The built-in rules, and the rules that result from the `tools` settings.

use super::rule::{Names, RankedRule, Rule, Tier, ToolFilter};
use super::{ASK_USER, Mode};
use crate::task::spec::{Kind, Verdict};
use serde::Deserialize;

/// The `tools` settings that decide what may run. An entry is the name of a tool, or that of the shell tool with a command in
/// brackets: `run_shell_command(git log)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolSettings {
    /// If given, all other tools are denied.
    pub core: Option<Vec<String>>,
    pub exclude: Vec<String>,
    pub allowed: Vec<String>,
    pub confirmation_required: Vec<String>,
    /// Tools that only read need no approval.
    pub auto_accept: bool,
}

const SHELL: &str = "run_shell_command";

/// The built-in rules, which have a higher rank than the tools' own defaults. They match by the kinds of built-in tools. Tools of MCP
/// servers have the kind `Other`, because the declarations of servers are not trusted.
pub(super) fn built_in() -> Vec<RankedRule> {
    let message = Some("only looking is allowed while planning".to_owned());
    let planning = Rule { deny_message: message, ..Rule::new("*", Verdict::Deny) };
    let alone = Rule { interactive: Some(false), ..Rule::new(ASK_USER, Verdict::Deny) };
    let unsure = Names::Many([ASK_USER, "activate_skill", "web_fetch"].map(String::from).into());
    [
        (Rule::new("*", Verdict::Allow), 50, None, ToolFilter::OfKinds(&[Kind::Read, Kind::Search])),
        (Rule::new("*", Verdict::Allow), 15, Some(Mode::AutoEdit), ToolFilter::OfKinds(&[Kind::Edit, Kind::Fetch])),
        (planning, 40, Some(Mode::Plan), ToolFilter::All),
        (Rule::new(unsure, Verdict::Ask), 50, Some(Mode::Plan), ToolFilter::All),
        (Rule::new("mcp_*", Verdict::Ask), 50, Some(Mode::Plan), ToolFilter::ReadOnlyMcp),
        (Rule::new("*", Verdict::Allow), 998, Some(Mode::Yolo), ToolFilter::All),
        (Rule::new(ASK_USER, Verdict::Ask), 999, Some(Mode::Yolo), ToolFilter::All),
        (alone, 999, None, ToolFilter::All),
    ]
    .into_iter()
    .map(|(rule, priority, mode, filter)| {
        let origin = mode.map_or("a built-in rule".into(), |mode| format!("a built-in rule in mode {}", mode.word()));
        let rule = Rule { priority, modes: mode.map(|mode| vec![mode]), ..rule };
        RankedRule { filter, ..RankedRule::plain(rule, Tier::BuiltIn, origin) }
    })
    .collect()
}

pub(super) fn translated(tools: &ToolSettings) -> (Vec<RankedRule>, Vec<String>) {
    let mut problems = Vec::new();
    let mut rules = |list: &[String], key: &str, rule: Rule| -> Vec<RankedRule> {
        let mut added = Vec::new();
        for entry in list {
            match entry_rule(entry, &rule) {
                Ok(rule) => added.push(RankedRule::plain(rule, Tier::User, format!("tools.{key}: {entry}"))),
                Err(problem) => problems.push(format!("tools.{key}: {entry} {problem}")),
            }
        }
        added
    };
    let any = |priority, verdict| Rule { priority, ..Rule::new("*", verdict) };
    // A tool that needs no approval is still limited by the mode `plan`.
    let unasked = |priority| Rule { modes: Some(Mode::Default.and_above()), ..any(priority, Verdict::Allow) };
    let mut ranked = rules(&tools.exclude, "exclude", any(400, Verdict::Deny));
    ranked.extend(rules(&tools.confirmation_required, "confirmationRequired", any(350, Verdict::Ask)));
    ranked.extend(rules(&tools.allowed, "allowed", unasked(300)));
    if let Some(core) = &tools.core {
        let listed = rules(core, "core", any(0, Verdict::Allow));
        let unless = listed.into_iter().map(|ranked| ranked.rule).collect();
        let rest = RankedRule::plain(any(240, Verdict::Deny), Tier::User, "tools.core, which does not list it");
        ranked.push(RankedRule { unless, ..rest });
    }
    if tools.auto_accept {
        let reading = RankedRule::plain(unasked(100), Tier::User, "tools.autoAccept");
        ranked.push(RankedRule { filter: ToolFilter::OfKinds(&[Kind::Read, Kind::Search]), ..reading });
    }
    (ranked, problems)
}

/// The rule for an entry in the list of tools that an extension excludes.
pub fn exclusion(entry: &str, extension: &str) -> Result<Rule, &'static str> {
    let deny_message = Some(format!("the extension {extension} excludes it"));
    entry_rule(entry, &Rule { deny_message, ..Rule::new("*", Verdict::Deny) })
}

/// The rule for an entry of a list: `rule`, limited to the tool that the entry names and to its command, if it names one.
fn entry_rule(entry: &str, rule: &Rule) -> Result<Rule, &'static str> {
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
    let command_prefix = match command {
        None | Some("" | "*") => None,
        Some(_) if name != SHELL => return Err("has brackets, which only the shell tool can have"),
        // `git:*` is an older form of `git`.
        Some(command) => Some(command.strip_suffix(":*").unwrap_or(command).into()),
    };
    Ok(Rule { tool_name: name.into(), command_prefix, ..rule.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::origin::Origin;
    use crate::task::policy::{CallContext, Policy};
    use crate::task::spec::Plan;
    use serde_json::json;

    #[test]
    fn tools_that_an_extension_excludes_are_denied_unless_the_users_rules_allow_them() {
        let denied = [exclusion("web_fetch", "guard").expect("a tool")];
        assert_eq!(exclusion("glob(x)", "guard"), Err("has brackets, which only the shell tool can have"));
        let judge = |policy: &Policy, tool: &str| {
            let plan = Plan::info("", "", "");
            let ruling = policy.judge(&CallContext {
                tool,
                origin: &Origin::BuiltIn,
                kind: Kind::Fetch,
                by_default: Verdict::Ask,
                args: &json!({}),
                plan: &plan,
                mode: Mode::Yolo,
                session: &[],
                denied: &denied,
                trusted: true,
                interactive: true,
                auto_execute: true,
            });
            (ruling.verdict, ruling.reason)
        };
        let mut policy = Policy::built_in();
        let reason = "the extension guard excludes it".to_owned();
        assert_eq!(judge(&policy, "web_fetch"), (Verdict::Deny, reason));
        assert_eq!(judge(&policy, "google_web_search").0, Verdict::Allow);
        policy.add(Tier::User, &json!([{"toolName": "web_fetch", "decision": "allow"}]));
        assert_eq!(judge(&policy, "web_fetch").0, Verdict::Allow);
    }
}
