//! Prompts and resources of servers. Users run prompts as slash commands and mention resources; the model reads resources.

use super::connection::{Connection, Snapshot};
use super::pool::Pool;
use crate::limits::URL_BYTES;
use crate::limits::mcp::{COMMAND_TEXT_BYTES, RESOURCE_TEXT_BYTES};
use crate::mcp::catalog::Prompt;
use crate::mcp::config::Isolation;
use crate::mcp::session::Query;
use crate::mcp::state::State;
use crate::mcp::text::clean_line;
use crate::mcp::{content, prompt, resources};
use crate::task::definitions::slash::Commanded;
use crate::task::spec::{CallError, ErrorKind};
use crate::tool::files::text::without_middle;
use crate::tool::mcp_call::{McpPrompt, McpResource, McpResult, McpScope, McpWish};
use crate::tool::mcp_resources::not_found;
use std::sync::Arc;

impl Pool {
    /// The connected servers of a task or a workspace. Without a task, servers that every task starts for itself are left out.
    pub(super) fn connected(&self, scope: McpScope<'_>, which: McpWish) -> Vec<(String, Arc<Connection>, Snapshot)> {
        let servers = self.of_task(scope);
        let with_view = |name: &str, connection: Arc<Connection>| {
            let view = connection.snapshot();
            (view.state == State::Connected).then(|| (name.to_owned(), connection, view))
        };
        match which {
            McpWish::Running => {
                let known = |name: &str| self.find_connection(scope.workspace, scope.tenant, name);
                let names = servers.all.iter().map(|one| one.name.as_str());
                names.filter_map(|name| with_view(name, known(name)?)).collect()
            }
            McpWish::Started => {
                let statuses = self.statuses_if(scope, &servers, |server| {
                    server.isolation == Isolation::Workspace || !scope.task.as_str().is_empty()
                });
                let running = statuses.into_iter().filter_map(|status| {
                    let (connection, _) = status.connection?;
                    connection.wait_for_start();
                    with_view(&status.configured.name, connection)
                });
                running.collect()
            }
        }
    }

    /// The prompts of all connected servers, each with the name of its command.
    pub(super) fn prompts_of(&self, scope: McpScope<'_>, which: McpWish) -> Vec<McpPrompt> {
        let connected = self.connected(scope, which);
        let of = |(server, _, view): &(String, Arc<Connection>, Snapshot)| {
            let found: Vec<McpPrompt> = view.catalog.prompts.iter().map(|prompt| named(server, prompt)).collect();
            found
        };
        connected.iter().flat_map(of).collect()
    }

    /// Runs the command of a prompt.
    pub(super) fn run_prompt(&self, scope: McpScope<'_>, meant: &McpPrompt, line: &str) -> Result<Commanded, String> {
        let McpPrompt { server, name, .. } = meant;
        let gone = || format!("MCP server {server} has no prompt {name} any more.");
        let connected = self.connected(scope, McpWish::Started);
        let (_, connection, view) = connected.into_iter().find(|(known, ..)| known == server).ok_or_else(gone)?;
        let found = view.catalog.prompts.iter().find(|prompt| prompt.name == *name).ok_or_else(gone)?;
        let arguments = match prompt::arguments(found, line) {
            Ok(arguments) => arguments,
            Err(text) if line.trim() == "help" => {
                return Ok(Commanded::Done { data: text.clone().into(), text });
            }
            Err(text) => return Err(text),
        };
        let result =
            connection.query(Query::Prompt { name: name.clone(), arguments }).map_err(|error| error.message)?;
        let content = content::read_prompt(&result);
        let said = without_middle(&content.text, connection.result_chars());
        let text = format!("The prompt {} of the MCP server {server}:\n\n{said}", clean_line(name, 200));
        Ok(Commanded::AskWith { prompt: text, media: content.media })
    }
}

impl Pool {
    pub(super) fn resources_of(&self, scope: McpScope<'_>) -> Vec<McpResource> {
        let mut all = Vec::new();
        for (server, _, view) in self.connected(scope, McpWish::Started) {
            let mut add = |uri: &str, name: &str, more: &[Option<&str>]| {
                let about: Vec<&str> = [Some(name)].iter().chain(more).copied().flatten().collect();
                let about = clean_line(&about.join(", "), RESOURCE_TEXT_BYTES);
                all.push(McpResource { server: server.clone(), uri: clean_line(uri, URL_BYTES), about });
            };
            for one in &view.catalog.resources {
                let name = one.title.as_deref().unwrap_or(&one.name);
                add(&one.uri, name, &[one.mime_type.as_deref(), one.description.as_deref()]);
            }
            for one in &view.catalog.templates {
                add(&one.uri_template, &one.name, &[one.description.as_deref()]);
            }
        }
        all
    }

    pub(super) fn read_resource(
        &self,
        scope: McpScope<'_>,
        server: Option<&str>,
        uri: &str,
    ) -> Result<McpResult, CallError> {
        let connected = self.connected(scope, McpWish::Started);
        let is_meant = |name: &str| server.is_none_or(|server| server == name);
        let offers = |(name, _, view): &&(String, Arc<Connection>, Snapshot), uri: &str| {
            is_meant(name) && (resources::is_offered(&view.catalog, uri) || self.is_linked(scope.task, name, uri))
        };
        let names = connected.iter().map(|(name, ..)| name.as_str());
        let named = resources::mention(uri, names);
        let of_named = || {
            let (server, uri) = named?;
            let found = connected.iter().find(|one| one.0 == server && offers(one, uri))?;
            Some((found, uri))
        };
        let found = connected.iter().find(|one| offers(one, uri)).map(|one| (one, uri)).or_else(of_named);
        let ((name, connection, _), uri) = found.ok_or_else(|| not_found(&clean_line(uri, RESOURCE_TEXT_BYTES)))?;
        self.fetch(scope, name, connection, uri)
    }

    fn fetch(
        &self,
        scope: McpScope<'_>,
        name: &str,
        connection: &Connection,
        uri: &str,
    ) -> Result<McpResult, CallError> {
        let content = content::read_resource(&connection.query(Query::Resource { uri: uri.to_owned() })?);
        self.add_links(scope.task, name, &content.links);
        Ok(McpResult { for_model: content.text, for_people: content.shown, media: content.media })
    }

    /// Reads a resource that the user mentions. It may be any resource of the server, also one that the server does not list.
    pub(super) fn mentioned(&self, scope: McpScope<'_>, text: &str) -> Option<Result<McpResult, CallError>> {
        let servers = self.of_task(scope);
        let (server, uri) = resources::mention(text, servers.all.iter().map(|one| one.name.as_str()))?;
        let connected = self.connected(scope, McpWish::Started);
        let found = connected.iter().find(|(name, ..)| name == server);
        let gone = || ErrorKind::McpToolError.error(format!("MCP server {server} is not connected; see /mcp."));
        Some(found.ok_or_else(gone).and_then(|(name, connection, _)| self.fetch(scope, name, connection, uri)))
    }
}

fn named(server: &str, found: &Prompt) -> McpPrompt {
    let about = found.description.as_deref().or(found.title.as_deref()).unwrap_or_default();
    McpPrompt {
        server: server.to_owned(),
        name: found.name.clone(),
        command: clean_line(&prompt::command(server, &found.name), COMMAND_TEXT_BYTES),
        description: clean_line(about, COMMAND_TEXT_BYTES),
        arguments: prompt::usage_line(found),
    }
}
