//! The commands about extensions: they list the installed ones, and switch them on and off.

use super::{Asked, text_result};
use crate::base::json;
use crate::config::definitions::extension::{Extension, Switch, switch};
use crate::shell::journal::user_files::{lock_for_change, replace};
use crate::shell::start::workspace_settings::extensions::SWITCHES;
use crate::task::definitions::slash::Commanded;
use serde_json::{Value, json};
use std::path::Path;

pub fn list(asked: &Asked) -> Result<Commanded, String> {
    let found = asked.prompt_context.extensions(asked.command);
    let lines = found.iter().map(|Extension { name, version, enabled, description, .. }| {
        let off = if *enabled { "" } else { " (switched off here)" };
        let about = if description.is_empty() { String::new() } else { format!(": {description}") };
        format!("{name} {version}{off}{about}")
    });
    let text = match found.len() {
        0 => "No extensions installed.".into(),
        _ => lines.collect::<Vec<_>>().join("\n"),
    };
    let shown = found.iter().map(|e| json!({ "name": e.name, "version": e.version, "enabled": e.enabled }));
    Ok(Commanded::Done { data: json!({ "extensions": shown.collect::<Vec<_>>() }), text })
}

pub fn enable(asked: &Asked) -> Result<Commanded, String> {
    turn(asked, Switch::On)
}

pub fn disable(asked: &Asked) -> Result<Commanded, String> {
    turn(asked, Switch::Off)
}

fn turn(asked: &Asked, to: Switch) -> Result<Commanded, String> {
    let (name, scope) = named(&asked.command.invocation.args)?;
    let found = asked.prompt_context.extensions(asked.command);
    let known = found.iter().find(|extension| extension.name.eq_ignore_ascii_case(name));
    let name =
        &known.ok_or_else(|| format!("There is no extension {name}; /extensions list shows those there are."))?.name;
    let (dir, shown) = match scope {
        Scope::User => (Path::new("/"), "everywhere"),
        Scope::Workspace => (Path::new(&*asked.command.workspace), "in this workspace"),
    };
    let home =
        asked.prompt_context.home().ok_or("There is no home directory to keep this in; set HOME and start again.")?;
    let path = home.join(SWITCHES);
    let _changing = lock_for_change();
    let mut switches: Value = asked.prompt_context.reader().switches();
    switch(&mut switches, name, dir, to);
    replace(&path, &json::bytes(&switches), 0o600)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    let now = if to == Switch::On { "on" } else { "off" };
    text_result(format!("The extension {name} is switched {now} {shown}."))
}

enum Scope {
    User,
    Workspace,
}

/// The name among the arguments, and the scope, which is the user if none is given.
fn named(args: &[String]) -> Result<(&str, Scope), String> {
    let words: Vec<&str> = args.iter().flat_map(|arg| arg.split('=')).collect();
    let (name, scope) = match words[..] {
        [name] => (name, "user"),
        [name, "--scope", scope] | ["--scope", scope, name] => (name, scope),
        _ => return Err("Name one extension; --scope user or --scope workspace may follow.".into()),
    };
    match scope.to_lowercase().as_str() {
        "user" => Ok((name, Scope::User)),
        "workspace" => Ok((name, Scope::Workspace)),
        _ => Err(format!("--scope must be user or workspace, not {scope}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Harness;
    use super::*;

    #[test]
    fn an_extension_is_switched_off_in_the_workspace_and_on_again_everywhere() {
        let harness = Harness::new();
        let listed = || match harness.run("extensions list", &[]) {
            Ok(Commanded::Done { text, .. }) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(listed(), "No extensions installed.");
        let manifest = r#"{"name": "Tools", "version": "1", "description": "Some tools"}"#;
        harness.scratch.put("home/.gemini/extensions/t/gemini-extension.json", manifest);
        assert_eq!(listed(), "Tools 1: Some tools");
        let run = |phrase: &str, args: &[&str]| harness.run(phrase, args).map(drop);
        assert_eq!(run("extensions disable", &["tools", "--scope", "workspace"]), Ok(()));
        assert_eq!(listed(), "Tools 1 (switched off here): Some tools");
        assert_eq!(run("extensions enable", &["--scope=user", "Tools"]), Ok(()));
        assert_eq!(listed(), "Tools 1: Some tools");
        let refused = run("extensions disable", &["other"]).expect_err("no such extension");
        assert!(refused.starts_with("There is no extension other;"), "{refused}");
        assert!(run("extensions disable", &["tools", "--scope", "system"]).is_err());
        assert!(run("extensions disable", &["tools", "other"]).is_err());
    }
}
