//! Declares the tools of all servers to the model: with declared names and converted schemas, in a stable order and within the limits of one
//! request.

use crate::limits::mcp::{DECLARED_BYTES, DECLARED_TOOLS, TOOL_TEXT_BYTES};
use crate::mcp::catalog::Tool;
use crate::mcp::config::{Layer, Server};
use crate::mcp::names::{self, ToolId};
use crate::mcp::schema;
use crate::mcp::text::clean;
use crate::task::origin::McpOrigin;
use serde_json::{Value, json};

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    pub origin: McpOrigin,
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// The schema that is declared to the model.
    pub parameters: Value,
    /// The schema of the server, for people.
    pub original: Value,
}

impl Declared {
    fn bytes(&self) -> usize {
        json!({"name": self.name, "description": self.description, "parameters": self.parameters}).to_string().len()
    }
}

/// A tool that is not declared, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    pub id: ToolId,
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declarations {
    /// Sorted by server and tool.
    pub tools: Vec<Declared>,
    pub hidden: Vec<Hidden>,
    /// Tools that exceed the budget of a request.
    pub deferred: Vec<Declared>,
    /// Messages for people, in sentences.
    pub notices: Vec<String>,
}

/// Declares the tools of these servers.
pub fn declare<'a>(servers: impl IntoIterator<Item = (&'a Server, &'a [Tool])>) -> Declarations {
    let mut out = Declarations::default();
    let mut offered: Vec<(ToolId, &Server, &Tool)> = Vec::new();
    for (server, tools) in servers {
        for tool in tools {
            let id = ToolId::new(&server.name, &tool.name);
            match server.hides(&tool.name).or(tool.unusable()) {
                Some(why) => out.hidden.push(Hidden { id, why: why.to_owned() }),
                None => offered.push((id, server, tool)),
            }
        }
    }
    offered.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let ids: Vec<ToolId> = offered.iter().map(|(id, ..)| id.clone()).collect();
    for ((id, server, tool), name) in offered.into_iter().zip(names::declare(&ids)) {
        let declared = name.ok_or_else(|| "another tool has the same name".to_owned());
        match declared.and_then(|name| declare_tool(server, tool, name, &mut out.notices)) {
            Ok(declared) => out.tools.push(declared),
            Err(why) => out.hidden.push(Hidden { id, why }),
        }
    }
    defer(&mut out);
    out
}

fn declare_tool(server: &Server, tool: &Tool, name: String, notices: &mut Vec<String>) -> Result<Declared, String> {
    let fitted = schema::fit(&tool.input_schema)?;
    notices.extend(fitted.notices.iter().map(|notice| format!("{name}: {notice}.")));
    Ok(Declared {
        origin: McpOrigin {
            server: server.name.clone(),
            tool: tool.name.clone(),
            config: server.config_hash.clone(),
            fingerprint: tool.fingerprint(&server.config_hash),
            read_only: tool.is_read_only(),
            trusted: server.trust,
            of_client: server.layer == Layer::Client,
        },
        display_name: names::display_name(&clean(tool.title(), TOOL_TEXT_BYTES), &server.name),
        description: clean(tool.description.as_deref().unwrap_or_default(), TOOL_TEXT_BYTES),
        parameters: fitted.schema,
        original: tool.input_schema.clone(),
        name,
    })
}

/// Moves the tools that exceed the budget, from the end of the list, to `deferred`.
fn defer(out: &mut Declarations) {
    let mut bytes = 0;
    let fitting = out.tools.iter().take(DECLARED_TOOLS).take_while(|tool| {
        bytes += tool.bytes();
        bytes <= DECLARED_BYTES
    });
    out.deferred = out.tools.split_off(fitting.count());
    if !out.deferred.is_empty() {
        out.notices.push(format!(
            "{} of {} MCP tools are not declared to the model, because a request has room for {DECLARED_TOOLS} tools and {DECLARED_BYTES} bytes. \
             Choose the tools that are needed with includeTools.",
            out.deferred.len(),
            out.deferred.len() + out.tools.len(),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::config::tests::server;
    use serde::Deserialize;

    fn tools(values: impl IntoIterator<Item = Value>) -> Vec<Tool> {
        values.into_iter().map(|value| Tool::deserialize(value).expect("a tool")).collect()
    }

    #[test]
    fn tools_are_declared_by_server_and_tool_and_hidden_ones_say_why() {
        let b = server("b", json!({"url": "http://h/", "excludeTools": ["no"]}));
        let a = server("a", json!({"url": "http://h/", "includeTools": ["z(x)", "y"]}));
        let of_b = tools([
            json!({"name": "k", "title": "K", "description": "d\u{200b}"}),
            json!({"name": "no"}),
            json!({"name": "t", "execution": {"taskSupport": "required"}}),
        ]);
        let of_a = tools([
            json!({"name": "z", "annotations": {"readOnlyHint": true}}),
            json!({"name": "y"}),
            json!({"name": "x"}),
        ]);
        let out = declare([(&b, &of_b[..]), (&a, &of_a[..])]);
        let names: Vec<&str> = out.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["mcp_a_y", "mcp_a_z", "mcp_b_k"]);
        assert_eq!(out.tools.iter().map(|tool| tool.origin.read_only).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!((out.tools[2].display_name.as_str(), out.tools[2].description.as_str()), ("K (b MCP Server)", "d"));
        let hidden: Vec<&str> = out.hidden.iter().map(|hidden| hidden.id.tool.as_str()).collect();
        assert_eq!(hidden, ["no", "t", "x"]);
        assert!(out.hidden[1].why.contains("task"), "check 50");
        assert_eq!(out, declare([(&a, &of_a[..]), (&b, &of_b[..])]).sorted_like(&out), "the order does not matter");
    }

    impl Declarations {
        fn sorted_like(mut self, other: &Declarations) -> Declarations {
            self.hidden.sort_by_key(|hidden| other.hidden.iter().position(|same| same == hidden));
            self
        }
    }

    #[test]
    fn check_37_the_budget_of_a_request_is_kept() {
        let s = server("s", json!({"url": "http://h/"}));
        let many = |count: usize, text: usize| {
            tools((0..count).map(|n| json!({"name": format!("t{n:03}"), "description": "d".repeat(text)})))
        };
        let declared = |tools: &[Tool]| {
            let out = declare([(&s, tools)]);
            (out.tools.len(), out.deferred.len(), out.notices.len())
        };
        assert_eq!(declared(&many(DECLARED_TOOLS, 1)), (DECLARED_TOOLS, 0, 0));
        assert_eq!(declared(&many(300, 1)), (DECLARED_TOOLS, 44, 1));
        assert_eq!(declared(&many(20, 8_000)), (12, 8, 1), "twelve of them have less than 96 KiB");
    }
}
