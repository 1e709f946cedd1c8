//! The metadata of tasks, as `GET /tasks/{id}/metadata` and `GET /tasks/metadata` answer it: state, usage, tools, MCP servers.

use crate::a2a::encodings::object::{Object, list, object};
use crate::a2a::views::tools::Tools;
use crate::base::http::Response;
use crate::task::log::blob::Blobs;
use crate::task::log::event::ToolSet;
use crate::task::log::gemini::UsageMetadata;
use crate::task::log::server::ServerSeen;
use crate::task::machine::state::State;
use crate::task::origin::ToolEntry;
use serde::Deserialize;
use serde_json::{Value, json};

/// The declarations of the tools that are not built in.
#[derive(Default)]
pub struct OtherTools(Vec<Declaration>);

#[derive(Deserialize)]
struct Declaration {
    name: String,
    description: String,
    parameters: Value,
    /// The schema as the tool's server wrote it, if the model is told another one.
    original: Option<Value>,
}

impl OtherTools {
    /// Reads the declarations; there are none if they cannot be read.
    pub fn read(set: &ToolSet, blobs: &dyn Blobs) -> OtherTools {
        let stored = set.declarations.read(blobs).ok();
        OtherTools(stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    fn write(&self, o: &mut Object<'_>, entry: &ToolEntry) {
        let declared = self.0.iter().find(|declared| declared.name == entry.name);
        o.member("name", &entry.name);
        o.member("description", declared.map_or("", |declared| &declared.description));
        let schema = declared.map(|declared| declared.original.as_ref().unwrap_or(&declared.parameters));
        o.optional("parameterSchema", schema);
    }
}

/// Whether the schemas of tools are included.
#[derive(Clone, Copy)]
enum Schemas {
    Shown,
    /// For the metadata of all tasks: there may be thousands, and nearly all have the same tools.
    Hidden,
}

/// The metadata of one task.
pub fn metadata(state: &State, tools: &Tools, others: &OtherTools) -> Response {
    let members = |o: &mut Object<'_>| write(o, state, tools, others, Schemas::Shown);
    Response::json(200, object(|o| _ = o.object("metadata", members)))
}

/// The metadata of all tasks, without the schemas of tools.
pub fn all_metadata<'a>(states: impl IntoIterator<Item = &'a State>, tools: &Tools) -> Response {
    let mut states = states.into_iter().peekable();
    if states.peek().is_none() {
        return Response::empty(204);
    }
    let none = OtherTools::default();
    Response::json(200, list(states, |o, state| write(o, state, tools, &none, Schemas::Hidden)))
}

fn write(o: &mut Object<'_>, state: &State, tools: &Tools, others: &OtherTools, schemas: Schemas) {
    o.member("contextId", &state.created.context).member("id", &state.created.task);
    o.list("mcpServers", state.servers.iter(), |o, seen| server(o, seen, state, others));
    o.member("model", &state.model).member("taskState", state.status.state.word());
    o.optional("error", state.turn.error.as_deref());
    let usage = json!({ "turn": state.turn.usage.map(UsageMetadata), "total": UsageMetadata(state.total) });
    let built_in = tools.available(state.created.tools.as_deref()).map(Ok);
    let all = built_in.chain(state.other_tools().iter().map(Err));
    o.member("usage", &usage).list("availableTools", all, |o, tool| match tool {
        Ok(spec) => {
            o.member("name", &spec.name).member("description", &spec.description);
            if let Schemas::Shown = schemas {
                o.member("parameterSchema", &spec.parameters);
            }
        }
        Err(entry) => others.write(o, entry),
    });
}

fn server(o: &mut Object<'_>, seen: &ServerSeen, state: &State, others: &OtherTools) {
    o.member("name", &seen.server).member("status", seen.status.word());
    let is_own = |entry: &&ToolEntry| entry.origin.mcp().is_some_and(|mcp| mcp.server == seen.server);
    o.list("tools", state.other_tools().iter().filter(is_own), |o, entry| others.write(o, entry));
    o.optional("error", seen.error.as_deref()).optional("transport", seen.transport.as_deref());
    o.optional("origin", seen.origin.as_deref()).optional("protocolVersion", seen.protocol_version.as_deref());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::json;
    use crate::task::log::blob::{BlobRef, MemoryBlobs};
    use crate::task::log::server::ServerStatus;
    use crate::task::origin::{McpOrigin, Origin};
    use crate::task::spec::Kind;

    fn value(response: &Response) -> Value {
        serde_json::from_slice(&response.body).unwrap()
    }

    fn one() -> Value {
        json!({"id": "t-1", "contextId": "c-1", "taskState": "working", "model": "gemini-x", "mcpServers": [],
            "usage": {
                "turn": {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17},
                "total": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}}})
    }

    #[test]
    fn tools_have_schemas_in_the_metadata_of_one_task_only() {
        let (state, tools) = (sample::state(), sample::tools());
        let shown = |state: &State| value(&metadata(state, &tools, &OtherTools::default()))["metadata"].clone();
        let mut full = one();
        full["availableTools"] = json!([
            {"name": "write_file", "description": "Writes a file.",
                "parameterSchema": {"type": "object", "required": ["file_path"]}},
            {"name": "run_shell_command", "description": "Runs a command.", "parameterSchema": {"type": "object"}}]);
        assert_eq!(shown(&state), full);
        let mut brief = one();
        brief["availableTools"] = json!([
            {"name": "write_file", "description": "Writes a file."},
            {"name": "run_shell_command", "description": "Runs a command."}]);
        assert_eq!(value(&all_metadata([&state, &state], &tools)), json!([brief, brief]));
        assert_eq!(all_metadata([], &tools), Response::empty(204));
        let mut narrow = state.created.as_ref().clone();
        narrow.tools = Some(Vec::new());
        let narrow = State { created: narrow.into(), ..state };
        assert_eq!(shown(&narrow)["availableTools"], json!([]));
    }

    #[test]
    fn mcp_servers_are_listed_with_their_tools() {
        let (mut state, blobs) = (sample::state(), MemoryBlobs::default());
        let original = json!({"type": "object", "$schema": "s"});
        let declarations = json!([{"name": "mcp_x_t", "description": "Does it.", "parameters": {"type": "object"},
            "original": original}]);
        let origin = Origin::Mcp(McpOrigin { server: "x".into(), tool: "t".into(), ..McpOrigin::default() });
        let entry = ToolEntry { name: "mcp_x_t".into(), display_name: "t".into(), kind: Kind::Other, origin };
        let set = ToolSet {
            names: vec![entry.name.clone()],
            declarations: BlobRef::put(&blobs, &json::bytes(&declarations)).unwrap(),
            others: vec![entry],
            denied: vec![],
        };
        let down = ServerSeen::new("down", ServerStatus::Disconnected);
        let down = ServerSeen { error: Some("It ended.".into()), transport: Some("stdio".into()), ..down };
        let up = ServerSeen { origin: Some("user".into()), ..ServerSeen::new("x", ServerStatus::Connected) };
        state.servers = vec![down, up].into();
        let others = OtherTools::read(&set, &blobs);
        state.tools = Some(set.into());
        let shown = value(&metadata(&state, &Tools::new(&[]), &others))["metadata"].clone();
        let tool = json!({"name": "mcp_x_t", "description": "Does it.", "parameterSchema": original});
        assert_eq!(
            shown["mcpServers"],
            json!([{"name": "down", "status": "disconnected", "tools": [], "error": "It ended.", "transport": "stdio"},
                {"name": "x", "status": "connected", "tools": [tool], "origin": "user"}])
        );
        assert_eq!(shown["availableTools"], json!([tool]));
    }
}
