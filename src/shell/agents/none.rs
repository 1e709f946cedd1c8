//! A build without other agents: there are none.

use crate::limits::Limits;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::slash_commands::Commands;
use crate::tool::Spawn;
use crate::tool::invoke_agent::{Agents, NoAgents};
use std::sync::Arc;
use ureq::tls::TlsConfig;

pub fn open(
    _: Option<Arc<dyn Spawn>>,
    _: SettingsReader,
    _: TlsConfig,
    _: &Limits,
    _: &mut Commands,
) -> Arc<dyn Agents> {
    Arc::new(NoAgents)
}
