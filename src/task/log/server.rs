//! The status of an MCP server in the log of a task, and why the server has no tools. Secret parts of its configuration are not included.

use crate::base::text::words::words;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSeen {
    pub server: String,
    pub status: ServerStatus,
    /// Why it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `stdio`, `http` or `sse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Where the server is configured: `user`, `workspace`, `system`, `extension:NAME` or `client`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
}

impl ServerSeen {
    pub fn new(server: &str, status: ServerStatus) -> ServerSeen {
        let server = server.to_owned();
        ServerSeen { server, status, error: None, transport: None, origin: None, protocol_version: None }
    }

    /// The record that the server is not configured any more.
    pub fn removed(&self) -> ServerSeen {
        ServerSeen::new(&self.server, ServerStatus::Removed)
    }
}

/// An MCP server that a client named for its task. Its credentials are not in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedServer {
    pub name: String,
    /// Without user name, password and query.
    pub url: String,
}

words! {
    /// The status of a server, with the words of the Gemini endpoints.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ServerStatus {
        Disconnected = "disconnected",
        Disconnecting = "disconnecting",
        Connecting = "connecting",
        Connected = "connected",
        Blocked = "blocked",
        Disabled = "disabled",
        /// It is not configured any more.
        Removed = "removed",
    }
}
