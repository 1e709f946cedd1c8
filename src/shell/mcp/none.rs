//! A build without connections to MCP servers: there are none.

use crate::config::definitions::mcp::McpSettings;
use crate::config::settings::Settings;
use crate::core::ClientMcp;
use crate::shell::event_loop::log::Log;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::slash_commands::Commands;
use crate::tool::Spawn;
use crate::tool::mcp_call::{McpServers, NoServers};
use std::path::Path;
use std::sync::Arc;
use ureq::tls::TlsConfig;

pub fn client_mcp(_: &McpSettings) -> ClientMcp {
    ClientMcp::default()
}

pub fn open(
    _: Option<Arc<dyn Spawn>>,
    _: SettingsReader,
    _: TlsConfig,
    _: &Settings,
    _: &Path,
    _: &Log,
    _: &mut Commands,
) -> Arc<dyn McpServers> {
    Arc::new(NoServers)
}
