//! The slash command `/agents`, which lists the agents. Their files are read for every model request, so `reload` only lists them too.

use super::RemoteAgents;
use super::files::FoundAgent;
use crate::shell::workers::slash_commands::Asked;
use crate::task::definitions::slash::{Commanded, Spec};
use serde_json::json;
use std::path::Path;

pub fn spec() -> Spec {
    let sub = |name: &str, description: &str| Spec { needs_workspace: true, ..Spec::new(name, description) };
    let subs = vec![sub("list", "Lists the agents that can be called."), sub("reload", "Reads their files again.")];
    Spec::group("agents", "Other agents that the model can call.", subs)
}

pub fn list(agents: &RemoteAgents, asked: &Asked) -> Commanded {
    let found = agents.find(Path::new(&*asked.command.workspace));
    let line = |FoundAgent { path, callee, card, .. }: &FoundAgent| {
        let (name, description, path) = (&callee.name, &callee.description, path.display());
        match card {
            Ok(_) => format!("{name}: {description} ({}) [{path}]", callee.origin),
            Err(why) => format!("{name} cannot be called: {why} [{path}]"),
        }
    };
    let mut lines: Vec<String> = found.agents.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("There are no agents here.".into());
    }
    lines.extend(found.messages.iter().cloned());
    let shown = found.agents.iter().map(|FoundAgent { path, callee, card, .. }| {
        json!({
            "name": callee.name, "displayName": callee.display_name, "description": callee.description,
            "origin": callee.origin, "path": path, "problem": card.as_ref().err(),
        })
    });
    let data = json!({ "agents": shown.collect::<Vec<_>>(), "messages": found.messages });
    Commanded::Done { text: lines.join("\n"), data }
}
