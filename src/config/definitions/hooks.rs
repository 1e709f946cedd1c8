//! Reads command hooks from settings and from the `hooks.json` of extensions.

use crate::config::formats::tree::{Node, Value as Tree};
use crate::config::settings::{Layer, SettingScope, Settings};
use crate::limits::{HOOK_LONGEST_MS, HOOK_MS};
use crate::task::definitions::command_hook::{CommandHook, HookPoint};
use regex_lite::Regex;
use serde_json::Value;

/// Points that the Gemini CLI has and this program has not.
const UNSUPPORTED: [&str; 3] = ["BeforeModel", "AfterModel", "BeforeToolSelection"];

/// The `hooks` of one settings file.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenHooks {
    pub scope: SettingScope,
    pub file: String,
    pub hooks: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookSettings {
    /// The hooks of each settings file, in the order of the files.
    pub written: Vec<WrittenHooks>,
    /// False: no hooks run.
    pub enabled: Option<bool>,
    /// Names or commands of hooks that do not run.
    pub disabled: Vec<String>,
}

impl Settings {
    pub fn add_hooks(&mut self, node: &Node, layer: &Layer) -> Option<()> {
        let Tree::Map(_) = &node.value else { return None };
        self.hooks.written.push(WrittenHooks { scope: layer.scope, file: layer.file.clone(), hooks: node.json() });
        Some(())
    }
}

/// The hooks of an object of points, and what to tell the user about those that are not used.
pub fn parse(hooks: &Value) -> (Vec<CommandHook>, Vec<String>) {
    let (mut found, mut messages) = (Vec::new(), Vec::new());
    for (name, groups) in hooks.as_object().into_iter().flatten() {
        let Some(point) = HookPoint::from_word(name) else {
            messages.push(match UNSUPPORTED.contains(&name.as_str()) {
                true => format!("hooks.{name} is not supported yet; it has no effect"),
                false => format!("hooks.{name} is unknown and has no effect"),
            });
            continue;
        };
        for group in groups.as_array().into_iter().flatten() {
            let listed = group.get("hooks").and_then(Value::as_array).into_iter().flatten();
            for written in listed {
                match hook(point, group, written) {
                    Ok(hook) if found.contains(&hook) => {}
                    Ok(hook) => found.push(hook),
                    Err(why) => messages.push(format!("a hook of hooks.{name} {why}; it is left out")),
                }
            }
        }
    }
    (found, messages)
}

fn hook(point: HookPoint, group: &Value, written: &Value) -> Result<CommandHook, &'static str> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let is = |value: &Value, name: &str| value.get(name) == Some(&Value::Bool(true));
    if text(written, "type").is_some_and(|kind| kind != "command") {
        return Err("is of another type than command");
    }
    let command = text(written, "command").filter(|command| !command.trim().is_empty()).ok_or("has no command")?;
    let timeout_ms = match written.get("timeout") {
        None | Some(Value::Null) => HOOK_MS,
        Some(ms) => ms.as_u64().filter(|ms| (1..=HOOK_LONGEST_MS).contains(ms)).ok_or("has no valid timeout")?,
    };
    Ok(CommandHook {
        point,
        matcher: text(group, "matcher").unwrap_or_default(),
        name: text(written, "name").filter(|name| !name.is_empty()).unwrap_or_else(|| command.clone()),
        command,
        timeout_ms,
        fail_closed: is(written, "failClosed"),
        sequential: is(group, "sequential"),
        of_project: false,
        variables: Vec::new(),
    })
}

/// Whether the matcher of a hook fits a subject: for tools a pattern that is searched in the name, otherwise the whole name.
pub fn fits(hook: &CommandHook, subject: &str) -> bool {
    let matcher = hook.matcher.as_str();
    let is_tool = matches!(hook.point, HookPoint::BeforeTool | HookPoint::AfterTool);
    match Regex::new(matcher) {
        _ if matcher.is_empty() || matcher == "*" => true,
        Ok(pattern) if is_tool => pattern.is_match(subject),
        Ok(_) | Err(_) => matcher == subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hooks_are_read_and_mistakes_reported() {
        let (found, messages) = parse(&json!({
            "BeforeTool": [
                {"matcher": "write|replace", "sequential": true, "hooks": [
                    {"type": "command", "command": "check", "name": "guard", "timeout": 500, "failClosed": true},
                    {"command": "other"}, {"command": "other"}, {"type": "http", "command": "x"}, {"command": " "},
                    {"command": "x", "timeout": 0}
                ]},
                {"hooks": 7}, 7
            ],
            "BeforeModel": [], "Sometimes": []
        }));
        assert_eq!(found.len(), 2, "{found:?}");
        let guard = &found[0];
        assert_eq!(
            (guard.name.as_str(), guard.timeout_ms, guard.fail_closed, guard.sequential),
            ("guard", 500, true, true)
        );
        assert_eq!((found[1].name.as_str(), found[1].timeout_ms, found[1].fail_closed), ("other", HOOK_MS, false));
        assert_eq!(messages.len(), 5, "{messages:?}");
        assert!(messages.iter().any(|text| text == "hooks.BeforeModel is not supported yet; it has no effect"));
        assert!(messages.iter().any(|text| text == "hooks.Sometimes is unknown and has no effect"));
    }

    #[test]
    fn a_hook_has_a_longest_time() {
        let with = |ms: u64| parse(&json!({"AfterTool": [{"hooks": [{"command": "x", "timeout": ms}]}]}));
        assert_eq!(with(HOOK_LONGEST_MS).0[0].timeout_ms, HOOK_LONGEST_MS);
        assert_eq!((with(HOOK_LONGEST_MS + 1).0.len(), with(HOOK_LONGEST_MS + 1).1.len()), (0, 1));
    }

    #[test]
    fn a_matcher_is_searched_in_names_of_tools_only() {
        let fits = |point, matcher: &str, subject: &str| {
            let written = json!({"command": "x"});
            let hook = hook(point, &json!({"matcher": matcher}), &written).expect("a hook");
            super::fits(&hook, subject)
        };
        use HookPoint::{BeforeTool, SessionStart};
        for (point, matcher, subject, expected) in [
            (BeforeTool, "", "glob", true),
            (BeforeTool, "*", "glob", true),
            (BeforeTool, "write", "write_file", true),
            (BeforeTool, "^(write_file|replace)$", "replace", true),
            (BeforeTool, "^file", "write_file", false),
            (BeforeTool, "write_file(", "write_file(", true),
            (BeforeTool, "write_file(", "write_file", false),
            (SessionStart, "start", "startup", false),
            (SessionStart, "startup", "startup", true),
        ] {
            assert_eq!(fits(point, matcher, subject), expected, "{matcher} {subject}");
        }
    }
}
