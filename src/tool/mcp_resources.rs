//! `list_mcp_resources` and `read_mcp_resource`: the resources of MCP servers. The tools are declared while a connected server of the task
//! has resources or templates of resources, and need no approval.

use crate::task::machine::job::{Run, RunEnd};
use crate::task::origin::Origin;
use crate::task::spec::{CallError, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::mcp_call::{McpResource, ending};
use crate::tool::{Ctx, Tool, object, optional_text_arg, text_arg, text_end};
use serde_json::{Value, json};

const SERVER: &str = "serverName";

pub struct ListMcpResources;

pub struct ReadMcpResource;

/// The declarations of both tools.
pub fn specs() -> [ToolSpec; 2] {
    [ListMcpResources.spec(), ReadMcpResource.spec()]
}

fn spec(name: &str, display: &str, description: &str, parameters: Value) -> ToolSpec {
    let origin = Origin::Resources;
    ToolSpec {
        by_default: origin.by_default(),
        origin,
        ..ToolSpec::new(name, display, Kind::Read, description, parameters)
    }
}

impl Tool for ListMcpResources {
    fn spec(&self) -> ToolSpec {
        let server = json!({"type": "string", "description": "Only those of this server."});
        spec(
            "list_mcp_resources",
            "List MCP Resources",
            "Lists what the connected MCP servers offer to be read, with URIs. A URI with braces is a template: fill them in.",
            object(&[], json!({ SERVER: server })),
        )
    }

    fn prepare(&self, _: &Value, _: &Ctx) -> Result<Plan, CallError> {
        Ok(Plan::info("List the resources of MCP servers", "List the resources of MCP servers?", ""))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let server = optional_text_arg(&run.args, SERVER);
        let all = ctx.mcp.resources(ctx.mcp_scope());
        let found: Vec<&McpResource> =
            all.iter().filter(|one| server.is_none_or(|server| one.server == server)).collect();
        let lines = found.iter().map(|McpResource { server, uri, about }| format!("{server}: {uri} {about}"));
        let text = lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n");
        let text = if text.is_empty() { "There are none.".to_owned() } else { text };
        let shown = format!("{} resources", found.len());
        let cut = crate::tool::files::text::without_middle(&text, ctx.limits.result_chars).to_string();
        Ok(text_end(crate::tool::files::text::untrusted(&cut), shown))
    }
}

impl Tool for ReadMcpResource {
    fn spec(&self) -> ToolSpec {
        spec(
            "read_mcp_resource",
            "Read MCP Resource",
            "Reads a resource of an MCP server: one that is listed, one that fits a listed template, or one that a result named.",
            object(
                &["uri"],
                json!({
                    "uri": {"type": "string", "description": "Its URI, or SERVER:URI."},
                    SERVER: {"type": "string", "description": "The server that offers it."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, _: &Ctx) -> Result<Plan, CallError> {
        let uri = text_arg(args, "uri")?;
        Ok(Plan::info(format!("Read {uri}"), "Read a resource of an MCP server?", uri))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let uri = text_arg(&run.args, "uri")?;
        let read = ctx.mcp.read_resource(ctx.mcp_scope(), optional_text_arg(&run.args, SERVER), uri);
        Ok(RunEnd::Ended(ending(read?, ctx)))
    }
}

/// The error for a resource that no connected server offers.
pub fn not_found(uri: &str) -> CallError {
    let message = format!("No connected MCP server offers {uri}. list_mcp_resources lists what there is.");
    ErrorKind::McpResourceNotFound.error(message)
}
