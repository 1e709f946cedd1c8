//! What users and workspaces define in files: agents, commands, extensions, hooks, MCP servers, skills.

pub mod agent;
pub mod custom_command;
pub mod extension;
pub mod hooks;
pub mod mcp;
pub mod skill;
