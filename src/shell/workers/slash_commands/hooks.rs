//! The commands about command hooks: `list` lists them, `allow` lets hooks of the project run. The core refuses `allow` from clients over
//! the network.

use super::{Asked, text_result};
use crate::shell::workers::hooks::{self, HookState, find};
use crate::task::definitions::command_hook::CommandHook;
use crate::task::definitions::slash::Commanded;
use serde_json::json;
use std::path::Path;

fn found(asked: &Asked) -> Vec<(CommandHook, HookState)> {
    find(asked.prompt_context, Path::new(&*asked.command.workspace))
}

fn word(state: HookState) -> &'static str {
    match state {
        HookState::Runs => "runs",
        HookState::Disabled => "switched off",
        HookState::NotAllowed => "not allowed",
    }
}

pub fn list(asked: &Asked) -> Result<Commanded, String> {
    let hooks = found(asked);
    let line = |(hook, state): &(CommandHook, HookState)| {
        let CommandHook { point, matcher, name, command, .. } = hook;
        let about = if matcher.is_empty() { String::new() } else { format!(" ({matcher})") };
        let of = if hook.of_project { ", of the project" } else { "" };
        let named = if name == command { String::new() } else { format!("{name}: ") };
        format!("{}{about}: {named}{command} [{}{of}]", point.word(), word(*state))
    };
    let shown = hooks.iter().map(|(hook, state)| {
        json!({ "event": hook.point.word(), "matcher": hook.matcher, "name": hook.name, "command": hook.command,
                "project": hook.of_project, "state": word(*state) })
    });
    let text = match hooks.len() {
        0 => "There are no hooks here.".into(),
        _ => hooks.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    Ok(Commanded::Done { data: json!({ "hooks": shown.collect::<Vec<_>>() }), text })
}

pub fn allow(asked: &Asked) -> Result<Commanded, String> {
    let name = asked.command.invocation.args.join(" ");
    let waiting = found(asked).into_iter().filter(|(_, state)| *state == HookState::NotAllowed);
    let meant: Vec<CommandHook> =
        waiting.map(|(hook, _)| hook).filter(|hook| name == "all" || hook.name == name).collect();
    if meant.is_empty() {
        return Err(format!("No hook {name:?} of the project waits to be allowed; /hooks list shows them."));
    }
    for hook in &meant {
        hooks::allow(asked.prompt_context, &asked.command.workspace, hook)
            .map_err(|error| format!("This cannot be saved: {error}."))?;
    }
    let commands: Vec<&str> = meant.iter().map(|hook| hook.command.as_str()).collect();
    text_result(format!("Allowed in this workspace:\n{}", commands.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Harness;
    use super::*;

    #[test]
    fn hooks_of_a_project_wait_until_they_are_allowed() {
        let harness = Harness::new();
        let listed = || match harness.run("hooks", &[]) {
            Ok(Commanded::Done { text, .. }) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(listed(), "There are no hooks here.");
        let settings = |hooks: &str, more: &str| format!(r#"{{"hooks": {{{hooks}}}{more}}}"#);
        let hook = |name: &str, command: &str| {
            format!(
                r#""BeforeTool": [{{"matcher": "write", "hooks": [{{"name": "{name}", "command": "{command}"}}]}}]"#
            )
        };
        let off = r#", "hooksConfig": {"disabled": ["own"]}"#;
        harness.scratch.put("home/.gemini/settings.json", settings(&hook("own", "echo $HOME"), off));
        harness.scratch.put("w/.gemini/settings.json", settings(&hook("its", "check"), ""));
        let lines = |its: &str| {
            format!(
                "BeforeTool (write): own: echo $HOME [switched off]\nBeforeTool (write): its: {its}, of the project]"
            )
        };
        assert_eq!(listed(), lines("check [not allowed"));
        assert!(harness.run("hooks allow", &["own"]).is_err(), "it does not wait");
        assert!(harness.run("hooks allow", &["its"]).is_ok());
        assert_eq!(listed(), lines("check [runs"));
        // Hooks that are allowed at the same time are all allowed.
        let (first, _) = find(&harness.prompt_context, &harness.scratch.path().join("w")).remove(0);
        let more: Vec<CommandHook> = (0..8).map(|n| CommandHook { command: n.to_string(), ..first.clone() }).collect();
        std::thread::scope(|scope| {
            for hook in &more {
                scope.spawn(|| hooks::allow(&harness.prompt_context, "/w", hook).expect("it is kept"));
            }
        });
        let kept = std::fs::read_to_string(harness.scratch.path().join("home/.gemini/hooks-allowed.json"));
        let kept: std::collections::BTreeMap<String, Vec<String>> =
            serde_json::from_str(&kept.expect("it was written")).expect("JSON");
        assert_eq!(kept["/w"].len(), more.len());
        // Another command under the same name is another hook.
        harness.scratch.put("w/.gemini/settings.json", settings(&hook("its", "rm -rf x"), ""));
        assert_eq!(listed(), lines("rm -rf x [not allowed"));
    }
}
