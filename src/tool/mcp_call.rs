//! The tools of MCP servers, all with one implementation: it prepares the question about a call, has the server carry the call out, and
//! cuts the result to the limits. The shell layer makes the connections.

use crate::base::cancel::Cancel;
use crate::base::id::{TaskId, Tenant};
use crate::limits::MCP_SHOWN_SCHEMA_BYTES;
use crate::mcp::config::Server;
use crate::task::definitions::slash::{Commanded, McpCounts};
use crate::task::log::event::Created;
use crate::task::log::media::Media;
use crate::task::log::server::{NamedServer, ServerSeen};
use crate::task::machine::job::{Run, RunEnd};
use crate::task::origin::McpOrigin;
use crate::task::spec::{Base, CallError, Display, Ending, ErrorKind, Plan, Question, ToolSpec};
use crate::tool::files::text::{untrusted, without_middle};
use crate::tool::mcp_resources::not_found;
use crate::tool::people::People;
use crate::tool::{Ctx, Tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The MCP servers of tasks. The shell layer implements it, because it has the connections.
pub trait McpServers: Send + Sync {
    /// The servers and tools of a task. Starts servers that are not running, and waits a short time for those that are starting.
    fn table(&self, scope: McpScope<'_>) -> McpTable;

    /// Starts the servers of a trusted workspace before a task needs them, in the background.
    fn begin(self: Arc<Self>, _: &Path) {}

    /// The tools of connected servers. Does not start any.
    fn connected(&self, _: McpScope<'_>) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// The tool with this name, as its server currently declares it.
    fn tool(&self, scope: McpScope<'_>, name: &str) -> Option<ToolSpec>;

    /// Calls a tool and waits for the result. `out` takes the server's progress. After a cancellation the result is ignored.
    fn call(
        &self,
        scope: McpScope<'_>,
        call: &McpRequest<'_>,
        cancel: &Cancel,
        out: &mut dyn FnMut(String),
    ) -> Result<McpResult, CallError>;

    /// The prompts of the servers of a task, or of a workspace if no task is named, by server.
    fn prompts(&self, _: McpScope<'_>, _: McpWish) -> Vec<McpPrompt> {
        Vec::new()
    }

    /// Gets a prompt from its server, with the arguments that somebody typed.
    fn run_prompt(&self, _: McpScope<'_>, prompt: &McpPrompt, _: &str) -> Result<Commanded, String> {
        Err(format!("There is no MCP server {}.", prompt.server))
    }

    /// The resources of the task's connected servers, by server.
    fn resources(&self, _: McpScope<'_>) -> Vec<McpResource> {
        Vec::new()
    }

    /// Reads a resource that a server offers, or that a result in the task has named.
    fn read_resource(&self, _: McpScope<'_>, _: Option<&str>, uri: &str) -> Result<McpResult, CallError> {
        Err(not_found(uri))
    }

    /// Reads the resource that a prompt mentions as `@server:uri`, given the text after the `@`. None: the text does not name a resource.
    fn mentioned(&self, _: McpScope<'_>, _: &str) -> Option<Result<McpResult, CallError>> {
        None
    }

    /// The names of the servers whose resources a prompt may mention.
    fn names(&self, _: McpScope<'_>) -> Vec<String> {
        Vec::new()
    }

    /// The instructions of the connected servers of a task, for the model.
    fn instructions(&self, _: McpScope<'_>) -> String {
        String::new()
    }

    /// Excludes these tools from the declarations in this workspace, because the model API refused a request with them.
    fn refuse(&self, _: McpScope<'_>, _: &[String]) {}

    /// Includes these tools again: the model API did not refuse them.
    fn accept(&self, _: McpScope<'_>, _: &[String]) {}

    /// Sets the directories that tasks may use beside their workspaces.
    fn set_included(&self, _: Vec<PathBuf>) {}

    fn counts(&self) -> McpCounts {
        McpCounts::default()
    }

    /// Adds the servers that a client named for a task. They are kept in memory only.
    fn adopt(&self, _: TaskId, _: Vec<Server>) {}

    /// Stops the servers that only this task used, because it is over.
    fn forget(&self, _: &TaskId) {}

    /// Stops all servers, because the program ends.
    fn end(&self) {}
}

/// The servers of a task, by name, and the tools of those that are connected, by server and tool.
#[derive(Default)]
pub struct McpTable {
    pub servers: Vec<ServerSeen>,
    pub tools: Vec<ToolSpec>,
}

/// The task and the workspace whose servers are meant: a connection belongs to a workspace, or to one task.
#[derive(Clone, Copy)]
pub struct McpScope<'a> {
    pub task: &'a TaskId,
    /// The real path.
    pub workspace: &'a Path,
    /// The tenant of the task: tenants do not share connections.
    pub tenant: &'a Tenant,
    /// The servers that the task's client named, according to the log.
    pub named: &'a [NamedServer],
}

impl<'a> McpScope<'a> {
    pub fn new(created: &'a Created, workspace: &'a Path) -> McpScope<'a> {
        let Created { task, tenant, servers: named, .. } = created;
        McpScope { task, workspace, tenant, named }
    }

    /// The servers of a workspace, independent of any task.
    pub fn without_task(workspace: &'a Path) -> McpScope<'a> {
        static NONE: LazyLock<(TaskId, Tenant)> = LazyLock::new(|| ("".into(), Tenant::default()));
        McpScope { task: &NONE.0, workspace, tenant: &NONE.1, named: &[] }
    }
}

/// Which servers are asked for their offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpWish {
    /// Those that are connected.
    Running,
    /// All; those that do not run are started first, and those that take too long are left out.
    Started,
}

/// A prompt of a server, which is a slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpPrompt {
    pub server: String,
    /// The name by which the server knows it.
    pub name: String,
    /// `server:prompt`, one word.
    pub command: String,
    pub description: String,
    /// The arguments in one line.
    pub arguments: String,
}

/// A resource of a server, or a template of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    pub server: String,
    pub uri: String,
    /// The description in one line.
    pub about: String,
}

pub struct McpRequest<'a> {
    pub origin: &'a McpOrigin,
    pub args: &'a Value,
    /// Asks the user on behalf of the server.
    pub people: &'a dyn People,
}

/// The answer of a server to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpResult {
    pub for_model: String,
    pub for_people: String,
    pub media: Vec<Media>,
}

/// A source without MCP servers.
pub struct NoServers;

impl McpServers for NoServers {
    fn table(&self, _: McpScope<'_>) -> McpTable {
        McpTable::default()
    }

    fn tool(&self, _: McpScope<'_>, _: &str) -> Option<ToolSpec> {
        None
    }

    fn call(
        &self,
        _: McpScope<'_>,
        call: &McpRequest<'_>,
        _: &Cancel,
        _: &mut dyn FnMut(String),
    ) -> Result<McpResult, CallError> {
        Err(ErrorKind::McpToolError.error(format!("There is no MCP server {}.", call.origin.server)))
    }
}

/// A tool of a server, as the server currently declares it.
pub(super) struct McpCall {
    pub spec: ToolSpec,
    pub origin: McpOrigin,
}

impl McpCall {
    pub fn find(name: &str, ctx: &Ctx) -> Option<McpCall> {
        let spec = ctx.mcp.tool(ctx.mcp_scope(), name)?;
        let origin = spec.origin.mcp()?.clone();
        Some(McpCall { spec, origin })
    }
}

impl Tool for McpCall {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn prepare(&self, args: &Value, _: &Ctx) -> Result<Plan, CallError> {
        let McpOrigin { server, tool, fingerprint, .. } = &self.origin;
        let schema = self.spec.original.as_ref().unwrap_or(&self.spec.parameters);
        let is_short = schema.to_string().len() <= MCP_SHOWN_SCHEMA_BYTES;
        let question = Question::Mcp {
            title: format!("Confirm MCP Tool {server}"),
            server: server.clone(),
            tool: tool.clone(),
            display_name: self.spec.display_name.clone(),
            args: args.clone(),
            description: self.spec.description.clone(),
            schema: if is_short { schema.clone() } else { Value::Null },
            warnings: Vec::new(),
        };
        // If the server changes the tool before the call runs, the user is asked again.
        let base = Base { sha256: Some(fingerprint.clone()), change: None };
        Ok(Plan { title: self.spec.display_name.clone(), question, base: Some(base) })
    }

    fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let planned = run.base.as_ref().and_then(|base| base.sha256.as_ref());
        if planned.is_some_and(|planned| *planned != self.origin.fingerprint) {
            return Ok(RunEnd::Stale);
        }
        let request = McpRequest { origin: &self.origin, args: &run.args, people: ctx.people };
        let result = ctx.mcp.call(ctx.mcp_scope(), &request, ctx.cancel, out);
        Ok(RunEnd::Ended(match ctx.cancel.is_set() {
            true => Ending::cancelled("The call was cancelled. The server was told, but it may have done some of it."),
            false => ending(result.map_err(|error| cut_error(error, ctx))?, ctx),
        }))
    }
}

/// Cuts the message of an error to the limit of results.
fn cut_error(error: CallError, ctx: &Ctx) -> CallError {
    CallError { message: cut_text(&error.message, ctx), ..error }
}

/// The text; if it is too long, its beginning and end, and a note that says where the whole text is.
fn cut_text(text: &str, ctx: &Ctx) -> String {
    let cut = without_middle(text, ctx.limits.result_chars);
    let note = if cut.len() == text.len() { None } else { ctx.outputs.keep(ctx.task, text, ctx.limits) };
    note.map_or_else(|| cut.to_string(), |note| format!("{cut}\n[{note}]"))
}

pub(super) fn ending(result: McpResult, ctx: &Ctx) -> Ending {
    let output = untrusted(&cut_text(&result.for_model, ctx)).into();
    let text = without_middle(&result.for_people, ctx.limits.result_chars).to_string().into();
    let display = match result.media.is_empty() {
        true => Display::Text { text },
        false => Display::Media { text, media: result.media },
    };
    Ending::Success { output, display }
}

#[cfg(test)]
mod tests;
