//! The interface of the pool for workers: the tools of a task, calls, prompts and resources.

use super::super::connection::{Connection, STACK};
use super::super::workspace::Servers;
use super::{Pool, Status, has_resources, seen, stop};
use crate::base::cancel::Cancel;
use crate::base::id::{TaskId, Tenant};
use crate::base::lock::lock;
use crate::limits::mcp::ALL_INSTRUCTIONS_BYTES;
use crate::mcp::config::{Isolation, Server};
use crate::mcp::content;
use crate::task::definitions::slash::{Commanded, McpCounts};
use crate::task::log::server::ServerSeen;
use crate::task::spec::{CallError, ErrorKind, ToolSpec};
use crate::tool::files::text::untrusted;
use crate::tool::mcp_call::{McpPrompt, McpRequest, McpResource, McpResult, McpScope, McpServers, McpTable, McpWish};
use crate::tool::mcp_resources;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

impl McpServers for Pool {
    fn begin(self: Arc<Self>, workspace: &Path) {
        let root = workspace.to_owned();
        let start = move || {
            // An error of the settings is reported when a task needs them.
            let Ok(mut servers) = Servers::read(&self.context, &self.known_servers, &root) else { return };
            let is_shared = |server: &Server| server.isolation == Isolation::Workspace;
            servers.all.retain(|one| one.server.as_ref().is_some_and(is_shared));
            let (task, tenant) = ("mcp".into(), Tenant::default());
            drop(self.statuses(McpScope { task: &task, workspace: &root, tenant: &tenant, named: &[] }, &servers));
        };
        // If no thread can be started now, the first task starts the servers.
        let _ = thread::Builder::new().name("mcp".into()).stack_size(STACK).spawn(start);
    }

    fn connected(&self, scope: McpScope<'_>) -> Vec<ToolSpec> {
        let tools = self.tools_of(scope.workspace, scope.tenant, &self.servers(scope.workspace));
        tools.specs.iter().filter(|spec| !self.is_refused(scope.workspace, &spec.name)).cloned().collect()
    }

    fn table(&self, scope: McpScope<'_>) -> McpTable {
        let servers = self.of_task(scope);
        let connections = self.statuses(scope, &servers).into_iter().filter_map(|status| status.connection);
        connections.for_each(|(connection, _)| connection.wait_for_start());
        let statuses = self.statuses(scope, &servers);
        let tools = self.tools(scope, &statuses);
        let (refused, specs): (Vec<ToolSpec>, Vec<ToolSpec>) =
            tools.specs.iter().cloned().partition(|spec| self.is_refused(scope.workspace, &spec.name));
        let mut servers: Vec<ServerSeen> = statuses.iter().map(seen).collect();
        for server in &mut servers {
            let own = |spec: &&ToolSpec| spec.origin.mcp().is_some_and(|mcp| mcp.server == server.server);
            let names: Vec<&str> = refused.iter().filter(own).map(|spec| spec.name.as_str()).collect();
            if !names.is_empty() {
                server.error = Some(format!("the model API refuses the declarations of {}", names.join(", ")));
            }
        }
        let mut specs = specs;
        if statuses.iter().any(has_resources) {
            specs.extend(mcp_resources::specs());
        }
        McpTable { servers, tools: specs }
    }

    fn tool(&self, scope: McpScope<'_>, name: &str) -> Option<ToolSpec> {
        let servers = self.of_task(scope);
        let tools = self.tools(scope, &self.statuses(scope, &servers));
        let spec = tools.specs.iter().find(|spec| spec.name == name);
        spec.filter(|spec| !self.is_refused(scope.workspace, &spec.name)).cloned()
    }

    fn call(
        &self,
        scope: McpScope<'_>,
        call: &McpRequest<'_>,
        cancel: &Cancel,
        out: &mut dyn FnMut(String),
    ) -> Result<McpResult, CallError> {
        let name = &call.origin.server;
        let unknown = || ErrorKind::McpToolError.error(format!("There is no MCP server {name} any more."));
        let servers = self.of_task(scope);
        let statuses = self.statuses(scope, &servers);
        let status = statuses.iter().find(|status| status.configured.name == *name).ok_or_else(unknown)?;
        let (connection, view) = status.connection.as_ref().ok_or_else(|| {
            let why = status.state.error(name).unwrap_or_else(|| status.state.word().to_owned());
            ErrorKind::McpToolError.error(format!("MCP server {name} cannot be used: {why}."))
        })?;
        let result = connection.call(call, cancel, out)?;
        let content = content::read(&result);
        self.add_links(scope.task, name, &content.links);
        let tool = &call.origin.tool;
        let has_schema = || view.catalog.tools.iter().any(|one| one.name == *tool && one.output_schema.is_some());
        if !content.is_error && !content.is_structured && has_schema() {
            let notice = format!(
                "MCP server {name}: the tool {tool} has an outputSchema, but its result has no structured content. It is used as it is."
            );
            lock(&self.inner).warn_once(&self.context, &notice);
        }
        match content.is_error {
            true => Err(ErrorKind::McpToolError.error(connection.log.redactor.hide(&content.text))),
            false => Ok(McpResult { for_model: content.text, for_people: content.shown, media: content.media }),
        }
    }

    fn prompts(&self, scope: McpScope<'_>, which: McpWish) -> Vec<McpPrompt> {
        self.prompts_of(scope, which)
    }

    fn run_prompt(&self, scope: McpScope<'_>, prompt: &McpPrompt, line: &str) -> Result<Commanded, String> {
        Pool::run_prompt(self, scope, prompt, line)
    }

    fn resources(&self, scope: McpScope<'_>) -> Vec<McpResource> {
        self.resources_of(scope)
    }

    fn read_resource(&self, scope: McpScope<'_>, server: Option<&str>, uri: &str) -> Result<McpResult, CallError> {
        Pool::read_resource(self, scope, server, uri)
    }

    fn mentioned(&self, scope: McpScope<'_>, text: &str) -> Option<Result<McpResult, CallError>> {
        Pool::mentioned(self, scope, text)
    }

    fn names(&self, scope: McpScope<'_>) -> Vec<String> {
        self.of_task(scope).all.iter().map(|one| one.name.clone()).collect()
    }

    fn instructions(&self, scope: McpScope<'_>) -> String {
        let servers = self.of_task(scope);
        let mut all = String::new();
        for Status { configured, connection, .. } in self.statuses(scope, &servers) {
            let said = connection.map(|(_, view)| view.info.instructions).unwrap_or_default();
            if !said.trim().is_empty() && all.len() + said.len() <= ALL_INSTRUCTIONS_BYTES {
                all.push_str(&format!("Server {}:\n{}\n", configured.name, said.trim()));
            }
        }
        if all.is_empty() { all } else { untrusted(&all) }
    }

    fn refuse(&self, scope: McpScope<'_>, tools: &[String]) {
        let mut inner = lock(&self.inner);
        inner.refused.entry(scope.workspace.to_owned()).or_default().extend(tools.iter().cloned());
        let text = format!("The model API refuses the declarations of {}; they are not used.", tools.join(", "));
        inner.warn_once(&self.context, &text);
    }

    fn accept(&self, scope: McpScope<'_>, tools: &[String]) {
        if let Some(refused) = lock(&self.inner).refused.get_mut(scope.workspace) {
            refused.retain(|name| !tools.contains(name));
        }
    }

    fn set_included(&self, dirs: Vec<PathBuf>) {
        *lock(&self.context.included) = dirs;
        let connections: Vec<Arc<Connection>> = lock(&self.inner).connections.values().cloned().collect();
        connections.iter().filter(|one| one.snapshot().is_alive).for_each(|one| one.roots_changed());
    }

    fn counts(&self) -> McpCounts {
        self.count()
    }

    fn adopt(&self, task: TaskId, servers: Vec<Server>) {
        let mut adopted = lock(&self.adopted);
        let own = adopted.entry(task).or_default();
        own.retain(|known| !servers.iter().any(|server| server.name == known.name));
        own.extend(servers);
    }

    fn forget(&self, task: &TaskId) {
        lock(&self.adopted).remove(task);
        let mut inner = lock(&self.inner);
        let of_task = inner.connections.extract_if(|key, _| key.task.as_ref() == Some(task));
        of_task.for_each(|(_, connection)| connection.stop(Duration::ZERO));
        inner.links.remove(task);
        inner.tables.retain(|(.., owner), _| owner.as_ref() != Some(task));
    }

    fn end(&self) {
        let mut inner = lock(&self.inner);
        inner.is_ending = true;
        let all: Vec<Arc<Connection>> = inner.connections.drain().map(|(_, connection)| connection).collect();
        drop(inner);
        stop(&all);
    }
}
