//! The slash command `/mcp`: lists the servers of a workspace with their states, and changes them.

use super::connection::{Connection, Snapshot};
use super::pool::{Pool, Switch, Tools};
use super::workspace::{Configured, Servers};
use crate::base::id::Tenant;
use crate::base::json;
use crate::mcp::config::{Server, Transport};
use crate::mcp::session::Query;
use crate::mcp::state::State;
use crate::mcp::text::{clean_line, without_secrets};
use crate::shell::journal::user_files::{lock_for_change, replace};
use crate::shell::start::workspace_settings::read_plain;
use crate::shell::workers::slash_commands::Asked;
use crate::task::access::Right;
use crate::task::definitions::slash::{Argument, Commanded, Spec};
use crate::tool::mcp_call::{McpScope, McpServers};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

/// The command and its sub-commands.
pub fn spec() -> Spec {
    let server = |required| Argument { name: "server".into(), description: "Its name.".into(), required };
    let of_one = |name: &str, required, description: &str| Spec {
        arguments: vec![server(required)],
        needs_workspace: true,
        ..Spec::new(name, description)
    };
    let session =
        Argument { name: "--session".into(), description: "Only until the program ends.".into(), required: false };
    // These start programs of the operator, or write the operator's settings.
    let admin = |spec: Spec| Spec { right: Right::Admin, ..spec };
    let switch = |name: &str, description: &str| Spec {
        right: Right::Admin,
        arguments: vec![server(true), session.clone()],
        ..of_one(name, true, description)
    };
    let reload = of_one("reload", false, "Reads the settings again, and starts all servers or one of them anew.");
    let subs = vec![
        of_one("list", false, "Lists the MCP servers with their status and tools."),
        of_one("desc", false, "The same with what the servers say about their tools."),
        of_one("schema", false, "The same with the arguments of the tools."),
        Spec { aliases: vec!["mcp refresh".into()], ..admin(reload) },
        switch("enable", "Switches a server on."),
        switch("disable", "Switches a server off."),
        admin(of_one("allow", true, "Allows a server of the workspace whose command has changed.")),
        of_one("logs", true, "Shows the last lines that a server printed or logged."),
        of_one("auth", true, "Says how to log in to a server."),
    ];
    Spec::group("mcp", "MCP servers: status, tools, logs.", subs)
}

/// The workspace and the tenant whose servers a command is about.
struct Scope<'a> {
    workspace: &'a Path,
    tenant: &'a Tenant,
}

/// How much detail a list shows.
#[derive(Clone, Copy, PartialEq)]
enum Detail {
    Names,
    /// Also the arguments of programs; only for the operator.
    Arguments,
    Descriptions,
    Schemas,
}

pub fn run(pool: &Arc<Pool>, asked: &Asked) -> Result<Commanded, String> {
    let (workspace, tenant) = (Path::new(&*asked.command.workspace), &asked.command.tenant);
    let site = &Scope { workspace, tenant };
    let args = &asked.command.invocation.args;
    let first = args.first().map(String::as_str);
    let is_session = args.iter().any(|arg| arg == "--session");
    let known = |name: Option<&str>| {
        let name = name.ok_or("Name the server.")?;
        let servers = pool.servers(workspace);
        let is_there = servers.get(name).is_some();
        is_there.then(|| name.to_owned()).ok_or_else(|| format!("There is no MCP server {name}; /mcp lists them."))
    };
    match asked.command.invocation.path.last().map(String::as_str).unwrap_or_default() {
        "desc" => Ok(list(pool, site, first, Detail::Descriptions)),
        "schema" => Ok(list(pool, site, first, Detail::Schemas)),
        "reload" => {
            first.map(|name| known(Some(name))).transpose()?;
            pool.reload(workspace, tenant, first);
            let task = "mcp".into();
            drop(pool.statuses(McpScope { task: &task, workspace, tenant, named: &[] }, &pool.servers(workspace)));
            Ok(list(pool, site, first, Detail::Names))
        }
        "enable" => switch(pool, &known(first)?, Switch::On, is_session),
        "disable" => switch(pool, &known(first)?, Switch::Off, is_session),
        "allow" => {
            let name = known(first)?;
            pool.allow(workspace, &name)?;
            said(format!("MCP server {name} is allowed. It is started with the next prompt."))
        }
        "logs" => {
            let name = known(first)?;
            let log =
                pool.find_connection(workspace, tenant, &name).map(|connection| connection.log()).unwrap_or_default();
            said(if log.is_empty() { format!("MCP server {name} has printed nothing.") } else { log })
        }
        "auth" => {
            let name = known(first)?;
            said(format!(
                "Log in with a terminal: gemini-a2a mcp login {name}. Or set its headers in mcpServers.{name}."
            ))
        }
        _ => Ok(list(pool, site, first, Detail::Names)),
    }
}

/// A text about all servers of a workspace or one of them.
pub fn overview(pool: &Pool, workspace: &Path, only: Option<&str>) -> String {
    match list(pool, &Scope { workspace, tenant: &Tenant::default() }, only, Detail::Arguments) {
        Commanded::Done { text, .. } => text,
        _ => String::new(),
    }
}

fn said(text: String) -> Result<Commanded, String> {
    Ok(Commanded::Done { data: Value::from(text.as_str()), text })
}

/// Switches a server on or off, either permanently or only until the program ends.
fn switch(pool: &Pool, name: &str, to: Switch, session_only: bool) -> Result<Commanded, String> {
    if !session_only {
        let file = pool.enablement_file().ok_or("There is no home directory to remember it in; add --session.")?;
        let wrong = |error| format!("{} cannot be changed: {error}.", file.display());
        let _changing = lock_for_change();
        let text = read_plain(&file, 1 << 20).map_err(wrong)?.unwrap_or_default();
        let mut switches: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        switches.insert(name.to_lowercase(), json!({ "enabled": to == Switch::On }));
        replace(&file, &json::bytes(&switches), 0o600).map_err(wrong)?;
    }
    pool.switch(name, to);
    let word = if to == Switch::On { "on" } else { "off" };
    said(format!("MCP server {name} is switched {word}{}.", if session_only { " until the program ends" } else { "" }))
}

fn list(pool: &Pool, site: &Scope<'_>, only: Option<&str>, detail: Detail) -> Commanded {
    let servers = pool.servers(site.workspace);
    let chosen = servers.all.iter().filter(|one| only.is_none_or(|only| one.name == only));
    let shown: Vec<(String, Value)> = chosen.map(|one| server(pool, site, &servers, one, detail)).collect();
    let mut data = json!(pool.counts());
    data["servers"] = shown.iter().map(|(_, data)| data.clone()).collect();
    let text = match shown.as_slice() {
        [] => "There are no MCP servers. Add them to mcpServers in your settings.".to_owned(),
        all => all.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join("\n\n"),
    };
    Commanded::Done { data, text }
}

/// Describes one server as text and as data.
fn server(pool: &Pool, site: &Scope<'_>, servers: &Servers, one: &Configured, detail: Detail) -> (String, Value) {
    let name = &one.name;
    let connection = pool.find_connection(site.workspace, site.tenant, name);
    let view = connection.as_ref().map(|connection| connection.snapshot());
    let state = one.refused.clone().or(pool.is_switched_off(name).then_some(State::Disabled));
    let state = state.or_else(|| view.as_ref().map(|view| view.state.clone()));
    let word = state.as_ref().map_or("not started", State::word);
    let mut lines = vec![format!("{name} - {word} ({})", one.layer.word())];
    let mut data = json!({"name": name, "status": word, "origin": one.layer.word()});
    if let Some(error) = state.as_ref().and_then(|state| state.error(name)) {
        lines.push(format!("  error: {error}"));
        data["error"] = error.into();
    }
    if view.as_ref().is_some_and(|view| !view.is_alive && matches!(view.state, State::Failed(_))) {
        lines.push(format!("  start it again: /mcp reload {name}"));
    }
    if let Some(server) = &one.server {
        lines.extend(server.description.iter().map(|text| format!("  {text}")));
        lines.push(format!("  {}", transport_line(server, detail)));
    }
    if let (Some(connection), Some(view)) = (&connection, view.filter(|view| view.state == State::Connected)) {
        connected_lines(connection, &view, &mut lines, &mut data);
        tools(&pool.tools_of(site.workspace, site.tenant, servers), name, detail, &mut lines, &mut data);
    }
    (lines.join("\n"), data)
}

/// Adds the tools of a server, and why some of them are not declared.
fn tools(tools: &Tools, server: &str, detail: Detail, lines: &mut Vec<String>, data: &mut Value) {
    let mut shown = Vec::new();
    for tool in tools.declarations.tools.iter().filter(|tool| tool.origin.server == server) {
        let mut one = json!({ "name": tool.name });
        lines.push(format!("  - {}", tool.name));
        if matches!(detail, Detail::Descriptions | Detail::Schemas) {
            lines.extend(tool.description.lines().map(|line| format!("      {line}")));
            one["description"] = tool.description.as_str().into();
        }
        if detail == Detail::Schemas {
            lines.push(format!("      {}", tool.original));
            one["parameterSchema"] = tool.original.clone();
        }
        shown.push(one);
    }
    let mut hidden = Vec::new();
    for tool in tools.declarations.hidden.iter().filter(|hidden| hidden.id.server == server) {
        lines.push(format!("  - {} (hidden: {})", tool.id.tool, tool.why));
        hidden.push(json!({ "name": tool.id.tool, "why": tool.why }));
    }
    let deferred = tools.declarations.deferred.iter().filter(|tool| tool.origin.server == server);
    let deferred: Vec<&str> = deferred.map(|tool| tool.name.as_str()).collect();
    if !deferred.is_empty() {
        let count = deferred.len();
        lines.push(format!("  {count} more tools are not declared to the model; choose some with includeTools:"));
        lines.extend(deferred.iter().map(|name| format!("  - {name} (not declared)")));
        data["deferred"] = deferred.into();
    }
    (data["tools"], data["hidden"]) = (shown.into(), hidden.into());
}

/// Adds the information of a connected server, and whether it answers a ping.
fn connected_lines(connection: &Arc<Connection>, view: &Snapshot, lines: &mut Vec<String>, data: &mut Value) {
    let (info, catalog) = (&view.info, &view.catalog);
    lines.push(format!("  {} {}, protocol {}", info.name, info.server_version, info.version));
    let counts = (catalog.tools.len(), catalog.prompts.len(), catalog.resources.len());
    lines.push(format!("  {} tools, {} prompts, {} resources", counts.0, counts.1, counts.2));
    let answers = connection.query(Query::Ping).is_ok();
    lines.push(format!("  {}", if answers { "it answers" } else { "it does not answer a ping" }));
    data["answers"] = answers.into();
}

/// The program or the URL of a server.
fn transport_line(server: &Server, detail: Detail) -> String {
    match &server.transport {
        Transport::Stdio { command, .. } if detail == Detail::Arguments => {
            let args = without_secrets(&server.written_args).join(" ");
            let line = server.redactor().hide(&format!("{command} {args}"));
            clean_line(&line, line.len())
        }
        Transport::Stdio { command, args, .. } => {
            format!("{} with {} arguments", clean_line(command, command.len()), args.len())
        }
        Transport::Network { url, .. } => url.shown(),
    }
}
