//! The tools of MCP servers: one tool for all of them. It says what a call would do, has the server carry it out, and makes the result
//! fit. How servers are reached is the shell's.

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
    /// What the task has now. Starts servers that are not running; waits a little for those that are starting.
    fn table(&self, scope: McpScope<'_>) -> McpTable;

    /// Starts the servers of a trusted workspace before a task needs them, in the background.
    fn begin(self: Arc<Self>, _: &Path) {}

    /// The tools of servers that are connected now. Nothing is started.
    fn connected(&self, _: McpScope<'_>) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// The tool with this name that the task has now.
    fn tool(&self, scope: McpScope<'_>, name: &str) -> Option<ToolSpec>;

    /// Calls a tool and waits for the result. `out` takes the server's progress. After a cancellation the result does not matter.
    fn call(
        &self,
        scope: McpScope<'_>,
        call: &McpRequest<'_>,
        cancel: &Cancel,
        out: &mut dyn FnMut(String),
    ) -> Result<McpResult, CallError>;

    /// The prompts of a task's servers, or of a workspace's if no task is named, by server.
    fn prompts(&self, _: McpScope<'_>, _: McpWish) -> Vec<McpPrompt> {
        Vec::new()
    }

    /// Uses a prompt with the arguments that somebody typed.
    fn run_prompt(&self, _: McpScope<'_>, prompt: &McpPrompt, _: &str) -> Result<Commanded, String> {
        Err(format!("There is no MCP server {}.", prompt.server))
    }

    /// The resources of the task's connected servers, by server.
    fn resources(&self, _: McpScope<'_>) -> Vec<McpResource> {
        Vec::new()
    }

    /// Reads a resource that is offered, or that a result in the task has named.
    fn read_resource(&self, _: McpScope<'_>, _: Option<&str>, uri: &str) -> Result<McpResult, CallError> {
        Err(not_found(uri))
    }

    /// The resource that somebody mentions as `@server:uri`, given the text after the `@`. None: it mentions a file.
    fn mentioned(&self, _: McpScope<'_>, _: &str) -> Option<Result<McpResult, CallError>> {
        None
    }

    /// The names of the servers whose resources somebody may mention.
    fn names(&self, _: McpScope<'_>) -> Vec<String> {
        Vec::new()
    }

    /// What the connected servers of a task say about their use, for the model.
    fn instructions(&self, _: McpScope<'_>) -> String {
        String::new()
    }

    /// The model API refused the declarations of these tools: they are not declared any more in this workspace.
    fn refuse(&self, _: McpScope<'_>, _: &[String]) {}

    /// It did not refuse them after all.
    fn accept(&self, _: McpScope<'_>, _: &[String]) {}

    /// The directories that tasks may use beside their workspaces.
    fn set_included(&self, _: Vec<PathBuf>) {}

    fn counts(&self) -> McpCounts {
        McpCounts::default()
    }

    /// A client named these servers for a task. They are kept in memory only.
    fn adopt(&self, _: TaskId, _: Vec<Server>) {}

    /// A task is over: what only it used is stopped.
    fn forget(&self, _: &TaskId) {}

    /// The program ends: everything is stopped.
    fn end(&self) {}
}

/// The servers of a task, by name, and the tools of those that are connected, by server and tool.
#[derive(Default)]
pub struct McpTable {
    pub servers: Vec<ServerSeen>,
    pub tools: Vec<ToolSpec>,
}

/// Whose servers they are: a connection belongs to a workspace, or to one task.
#[derive(Clone, Copy)]
pub struct McpScope<'a> {
    pub task: &'a TaskId,
    /// The real path.
    pub workspace: &'a Path,
    /// Connections are not shared with other tenants.
    pub tenant: &'a Tenant,
    /// What the log says about the servers that the task's client named.
    pub named: &'a [NamedServer],
}

impl<'a> McpScope<'a> {
    pub fn new(created: &'a Created, workspace: &'a Path) -> McpScope<'a> {
        let Created { task, tenant, servers: named, .. } = created;
        McpScope { task, workspace, tenant, named }
    }

    /// What a workspace has, whatever tasks work in it.
    pub fn without_task(workspace: &'a Path) -> McpScope<'a> {
        static NONE: LazyLock<(TaskId, Tenant)> = LazyLock::new(|| ("".into(), Tenant::default()));
        McpScope { task: &NONE.0, workspace, tenant: &NONE.1, named: &[] }
    }
}

/// Which servers are asked what they offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpWish {
    /// Those that are connected already.
    Running,
    /// The others are started first; who is slow is left out.
    Started,
}

/// A prompt of a server, which is a slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpPrompt {
    pub server: String,
    /// As the server knows it.
    pub name: String,
    /// `server:prompt`, one word.
    pub command: String,
    pub description: String,
    /// In one line.
    pub arguments: String,
}

/// A resource of a server, or a template of some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    pub server: String,
    pub uri: String,
    /// In one line.
    pub about: String,
}

pub struct McpRequest<'a> {
    pub origin: &'a McpOrigin,
    pub args: &'a Value,
    /// Whom the server may ask.
    pub people: &'a dyn People,
}

/// What a server answered to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpResult {
    pub for_model: String,
    pub for_people: String,
    pub media: Vec<Media>,
}

/// There are no servers.
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

/// A tool of a server, as the server declares it now.
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
            false => ending(result.map_err(|error| fitting(error, ctx))?, ctx),
        }))
    }
}

/// What a server says of a failure may be as long as a result.
fn fitting(error: CallError, ctx: &Ctx) -> CallError {
    CallError { message: kept(&error.message, ctx), ..error }
}

/// The text, or its beginning and end and where all of it is.
fn kept(text: &str, ctx: &Ctx) -> String {
    let cut = without_middle(text, ctx.limits.result_chars);
    let note = if cut.len() == text.len() { None } else { ctx.outputs.keep(ctx.task, text, ctx.limits) };
    note.map_or_else(|| cut.to_string(), |note| format!("{cut}\n[{note}]"))
}

pub(super) fn ending(result: McpResult, ctx: &Ctx) -> Ending {
    let output = untrusted(&kept(&result.for_model, ctx)).into();
    let text = without_middle(&result.for_people, ctx.limits.result_chars).to_string().into();
    let display = match result.media.is_empty() {
        true => Display::Text { text },
        false => Display::Media { text, media: result.media },
    };
    Ending::Success { output, display }
}

#[cfg(test)]
mod tests;
