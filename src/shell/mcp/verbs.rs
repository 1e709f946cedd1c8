//! The subcommands of `gemini-a2a mcp`: manage MCP servers outside of a session. They connect to MCP servers directly, without a running
//! gemini-a2a server.

use super::commands;
use super::login;
use super::pool::Pool;
use super::tokens::Credentials;
use super::workspace::Configured;
use crate::args::mcp::McpAction;
use crate::config::formats::jsonc_edit;
use crate::config::paths::Paths;
use crate::mcp::config::{Definition, Environment, Layer, Server, Transport};
use crate::mcp::state::State;
use crate::shell::journal::user_files::replace;
use crate::shell::start::workspace_settings::read_plain;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs a subcommand about servers of a workspace. `tell` prints a text. The caller prints the error and exits with a failure status.
pub fn run(pool: &Arc<Pool>, workspace: &Path, action: &McpAction, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    match action {
        McpAction::List => tell(&commands::overview(pool, workspace, None)),
        McpAction::Test(name) => {
            find(pool, workspace, name)?;
            let state = pool.try_out(workspace, name);
            let text = commands::overview(pool, workspace, Some(name));
            return match state {
                State::Connected => {
                    tell(&text);
                    Ok(())
                }
                _ => Err(text),
            };
        }
        McpAction::Login(name) => {
            let server = find(pool, workspace, name)?;
            let credentials = credentials(pool, &server)?;
            login::login(&credentials, &server.oauth.clone().unwrap_or_default(), tell)?;
            tell(&format!("You are logged in to {name}. Running sessions use the login with their next request."));
        }
        McpAction::Logout(name) => {
            let server = find(pool, workspace, name)?;
            tell(&match credentials(pool, &server)?.delete_login()? {
                true => format!("The login to {name} is forgotten."),
                false => format!("There was no login to {name}."),
            });
        }
        McpAction::Add { .. } | McpAction::Remove(_) => {}
    }
    Ok(())
}

fn find(pool: &Pool, workspace: &Path, name: &str) -> Result<Server, String> {
    let servers = pool.servers(workspace);
    let none = || format!("There is no MCP server {name} here; `gemini-a2a mcp list` lists them.");
    let Configured { server, refused, .. } = servers.get(name).ok_or_else(none)?;
    let why = || refused.as_ref().and_then(|state| state.error(name)).unwrap_or_else(|| "it cannot be used".into());
    server
        .clone()
        .filter(|_| !matches!(refused, Some(State::Untrusted | State::Blocked(_))))
        .ok_or_else(|| format!("MCP server {name} is not used here: {}.", why()))
}

fn credentials(pool: &Pool, server: &Server) -> Result<Credentials, String> {
    let Server { name, .. } = server;
    if matches!(server.transport, Transport::Stdio { .. }) {
        return Err(format!("MCP server {name} is a program; there is nothing to log in to."));
    }
    let login = Credentials::of(pool.tokens(), server, &server.redactor());
    login.ok_or_else(|| format!("MCP server {name} has credentials or no login in its settings (mcpServers.{name})."))
}

/// Adds a server to the user's settings or removes one from it.
pub fn edit(paths: &Paths, action: &McpAction, max_bytes: u64) -> Result<String, String> {
    let (name, entry) = match action {
        McpAction::Add { name, entry } => (name, Some(entry)),
        McpAction::Remove(name) => (name, None),
        McpAction::List | McpAction::Test(_) | McpAction::Login(_) | McpAction::Logout(_) => return Ok(String::new()),
    };
    if let Some(entry) = entry {
        check(name, entry)?;
    }
    let file = paths.user("settings.json").ok_or("There is no home directory, so there are no settings to change.")?;
    // The settings file may be a symbolic link. Its target is changed and the link stays.
    let file = file.canonicalize().unwrap_or(file);
    let wrong = |why: String| format!("{} is not changed: {why}.", file.display());
    let text = read_plain(&file, max_bytes).map_err(|error| wrong(error.to_string()))?.unwrap_or_default();
    let changed = jsonc_edit::with_entry(&text, "mcpServers", name, entry).map_err(wrong)?;
    if changed == text {
        return Err(match entry {
            Some(_) => format!("{} has this MCP server {name} already.", file.display()),
            None => format!("{} has no MCP server {name}.", file.display()),
        });
    }
    replace(&file, changed.as_bytes(), mode(&file)).map_err(|error| wrong(error.to_string()))?;
    Ok(match entry {
        Some(_) => format!("MCP server {name} is in {}. Try it: gemini-a2a mcp test {name}", file.display()),
        None => format!("MCP server {name} was removed from {}.", file.display()),
    })
}

/// Checks that an entry is a valid server.
fn check(name: &str, entry: &Value) -> Result<(), String> {
    let env = Environment { get: &|_| Some("x".into()), is_credential: &|_| false };
    Definition::read(name, entry, Layer::User, &env)?.server().map(drop)
}

fn mode(file: &PathBuf) -> u32 {
    std::fs::metadata(file).map_or(0o600, |file| file.permissions().mode() & 0o777)
}
