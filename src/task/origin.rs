//! Where a tool comes from. Settings and rules match tools of MCP servers by their origin, because the name of a tool does not show where
//! the name of its server ends: `mcp_x_*` means the server `x` and not `x_y`.

use crate::task::policy::{Names, Rule};
use crate::task::spec::{Kind, Verdict};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    #[default]
    BuiltIn,
    Mcp(McpOrigin),
    /// The tool that activates the skills of the workspace.
    Skills,
    /// The tools that read the resources of MCP servers.
    Resources,
    /// The tool that calls other agents.
    Agents,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpOrigin {
    pub server: String,
    /// The tool's own name.
    pub tool: String,
    /// The hash of the server's configuration.
    pub config: String,
    /// The hash of the configuration and of the server's declaration of the tool.
    pub fingerprint: String,
    /// The server declares that the tool only reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The operator trusts the server: its tools need no approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    /// A client named the server for its task: no rule allows its tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_client: bool,
}

/// A tool that is not built in, as the log of a task keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEntry {
    pub name: String,
    pub display_name: String,
    pub kind: Kind,
    pub origin: Origin,
}

impl Origin {
    pub fn mcp(&self) -> Option<&McpOrigin> {
        match self {
            Origin::Mcp(origin) => Some(origin),
            Origin::BuiltIn | Origin::Skills | Origin::Resources | Origin::Agents => None,
        }
    }

    /// Whether the tool is of a server that a client named, so that each call of it needs approval.
    pub fn is_of_client(&self) -> bool {
        self.mcp().is_some_and(|mcp| mcp.of_client)
    }

    /// The decision about its tools if no rule matches.
    pub fn by_default(&self) -> Verdict {
        match self {
            Origin::Mcp(mcp) if mcp.trusted => Verdict::Allow,
            Origin::Resources => Verdict::Allow,
            Origin::BuiltIn | Origin::Mcp(_) | Origin::Skills | Origin::Agents => Verdict::Ask,
        }
    }

    /// Whether the tool may be used if only the listed ones may; without a list all may.
    pub fn is_among(&self, name: &str, only: Option<&[String]>) -> bool {
        only.is_none_or(|only| only.iter().any(|one| one == name || self.fits(one)))
    }

    /// Whether `pattern` is for tools of this origin: `mcp_*`, or `mcp_SERVER_*`.
    pub fn fits(&self, pattern: &str) -> bool {
        let Some(McpOrigin { server, .. }) = self.mcp() else {
            return false;
        };
        let family = pattern.strip_suffix('*').and_then(|family| family.strip_suffix('_'));
        family.is_some_and(|family| family == "mcp" || family == prefix(server))
    }
}

impl McpOrigin {
    /// The rule that allows this tool as it is declared now.
    pub fn tool_rule(&self, rule: Rule) -> Rule {
        let (mcp_name, mcp_hash) = (Some(self.server.clone()), Some(self.fingerprint.clone()));
        Rule { tool_name: Names::One(self.tool.clone()), mcp_name, mcp_hash, ..rule }
    }

    /// The rule that allows all tools of its server as that is configured now.
    pub fn server_rule(&self, rule: Rule) -> Rule {
        let (mcp_name, mcp_hash) = (Some(self.server.clone()), Some(self.config.clone()));
        Rule { tool_name: Names::from("*"), mcp_name, mcp_hash, ..rule }
    }

    /// Whether a hash is that of the tool or of the server's configuration.
    pub fn has_hash(&self, hash: &str) -> bool {
        hash == self.fingerprint || hash == self.config
    }
}

/// The prefix of the declared names of a server's tools, without the last underscore.
fn prefix(server: &str) -> String {
    format!("mcp_{}", declared(server.strip_prefix("mcp_").unwrap_or(server)))
}

/// A part of a name as it is declared to the model.
pub fn declared(part: &str) -> String {
    part.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_exactly_one_server() {
        let of = |server: &str| Origin::Mcp(McpOrigin { server: server.into(), ..McpOrigin::default() });
        for (pattern, server, fits) in [
            ("mcp_*", "x", true),
            ("mcp_x_*", "x", true),
            ("mcp_x_*", "x_y", false),
            ("mcp_x_y_*", "x_y", true),
            ("mcp_x_y_*", "x", false),
            ("mcp_a_b_*", "a b", true),
            ("mcp_x*", "x", false),
            ("mcp_x_", "x", false),
            ("mcp_x_*", "mcp_x", true),
            ("*", "x", false),
        ] {
            assert_eq!(of(server).fits(pattern), fits, "{pattern} {server}");
        }
        for other in [Origin::BuiltIn, Origin::Agents] {
            assert!(!other.fits("mcp_*") && !other.fits("mcp_x_*"));
        }
    }
}
