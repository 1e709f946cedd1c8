//! Other agents, which are reached over A2A. `files` finds where they are described, `secrets` makes the headers that authorise requests,
//! `call` talks to one of them. What is said is decided in [`crate::a2a::client`].

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
    /// None: programs cannot be started.
    programs: Option<Arc<dyn Spawn>>,
    tls: TlsConfig,
    limits: Limits,
}

/// The agents, and the command `/agents`.
pub fn open(
    programs: Option<Arc<dyn Spawn>>,
    reader: SettingsReader,
    tls: TlsConfig,
    limits: &Limits,
    commands: &mut Commands,
) -> Arc<dyn Agents> {
    let agents = Arc::new(RemoteAgents { reader, programs, tls, limits: limits.clone() });
    let own = agents.clone();
    // A program that has a command of this name keeps its own.
    let _ = commands.register(commands::spec(), Box::new(move |asked: &Asked| Ok(commands::list(&own, asked))));
    agents
}

/// Who has described an agent.
#[derive(Clone, Debug)]
pub enum Definer {
    /// The user, in the home directory: only such an agent may have a private address and a command for its secret.
    User,
    Workspace,
    /// An extension, with the values of its settings.
    Extension(Variables),
}
