//! The commands `tools`, `stats`, `stop` and `help`.

use super::Asked;
use crate::task::definitions::slash::Commanded;
use crate::task::log::gemini::UsageMetadata;
use serde_json::json;

pub fn tools(asked: &Asked) -> Result<Commanded, String> {
    let tools = &asked.command.facts.tools;
    let shown = tools.iter().map(|(name, description)| json!({ "name": name, "description": description }));
    let rows = tools.iter().map(|(name, description)| (name.clone(), brief(description)));
    Ok(Commanded::Done {
        data: json!({ "tools": shown.collect::<Vec<_>>() }),
        text: match tools.len() {
            0 => "The agent has no tools here.".into(),
            _ => table(rows.collect()),
        },
    })
}

pub fn stats(asked: &Asked) -> Result<Commanded, String> {
    let facts = &asked.command.facts;
    let seconds = facts.uptime_ms / 1000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let tokens = &facts.tokens;
    let mcp = facts.mcp;
    let text = table(vec![
        ("uptime".into(), format!("{hours} h {minutes} min {rest} s")),
        ("tasks".into(), format!("{} active of {}", facts.active, facts.known)),
        ("model".into(), facts.model.clone()),
        (
            "MCP servers".into(),
            format!("{} connected, {} failed, {} processes", mcp.connected, mcp.failed, mcp.processes),
        ),
        ("tokens".into(), format!("{} read, {} written, {} in all", tokens.prompt, tokens.output, tokens.total)),
    ]);
    Ok(Commanded::Done {
        data: json!({
            "uptime": facts.uptime_ms as f64 / 1000.0,
            "activeTasks": facts.active,
            "totalTasks": facts.known,
            "model": facts.model,
            "mcp": mcp,
            "usage": UsageMetadata(*tokens),
        }),
        text,
    })
}

/// Reports the turn that the core has stopped; its task is the argument.
pub fn stop(asked: &Asked) -> Result<Commanded, String> {
    match asked.command.invocation.args.first() {
        Some(task) => Ok(Commanded::Done {
            data: json!({ "stopped": task }),
            text: format!("The turn of task {task} was stopped. Send a message to continue."),
        }),
        None => Err("No turn is under way there. Name the task as the argument if it is not the live session.".into()),
    }
}

pub fn help(asked: &Asked) -> Result<Commanded, String> {
    let all = asked.registry.all();
    let runnable = all.iter().filter(|(_, spec)| spec.default.is_none());
    let mut rows = Vec::new();
    let mut shown = Vec::new();
    for (path, spec) in runnable {
        let name = path.join(" ");
        let arguments = spec.arguments.iter().map(|argument| match argument.required {
            true => format!(" <{}>", argument.name),
            false => format!(" [{}]", argument.name),
        });
        let typed = format!("/{name}{}", arguments.collect::<String>());
        rows.push((typed, spec.description.clone()));
        shown.push(json!({ "name": name, "description": spec.description }));
    }
    Ok(Commanded::Done { data: json!({ "commands": shown }), text: table(rows) })
}

/// The first sentence or line.
fn brief(description: &str) -> String {
    let line = description.trim().lines().next().unwrap_or_default();
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line.to_owned(),
    }
}

fn table(rows: Vec<(String, String)>) -> String {
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max();
    let width = widest.unwrap_or(0);
    let lines = rows.iter().map(|(name, text)| format!("{name:width$}  {text}"));
    lines.collect::<Vec<_>>().join("\n")
}
