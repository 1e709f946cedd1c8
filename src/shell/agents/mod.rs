//! Other agents, which are called over A2A. `files` finds and reads the agent files, `secrets` builds the headers that authorise requests, and
//! `call` makes a call. The protocol is in [`crate::a2a::client`].

mod call;
mod commands;
mod files;
mod secrets;

use crate::config::Variables;
use crate::limits::Limits;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::slash_commands::{Asked, Commands};
use crate::tool::Spawn;
use crate::tool::invoke_agent::Agents;
use std::sync::Arc;
use ureq::tls::TlsConfig;

/// The agents of all workspaces.
pub struct RemoteAgents {
    reader: SettingsReader,
    /// `None` if programs cannot be started.
    programs: Option<Arc<dyn Spawn>>,
    tls: TlsConfig,
    limits: Limits,
}

/// Opens the agents and registers the command `/agents`.
pub fn open(
    programs: Option<Arc<dyn Spawn>>,
    reader: SettingsReader,
    tls: TlsConfig,
    limits: &Limits,
    commands: &mut Commands,
) -> Arc<dyn Agents> {
    let agents = Arc::new(RemoteAgents { reader, programs, tls, limits: limits.clone() });
    let own = agents.clone();
    // A host program may have registered a command with this name; then its command is used.
    let _ = commands.register(commands::spec(), Box::new(move |asked: &Asked| Ok(commands::list(&own, asked))));
    agents
}

/// The owner of an agent file.
#[derive(Clone, Debug)]
pub enum Definer {
    /// The user: the file is in the home directory. Only such an agent may have a private address and a command for its secret.
    User,
    Workspace,
    /// An extension, with the values of its settings.
    Extension(Variables),
}
