//! Connections to MCP servers. `workspace` reads which servers a workspace has, `pool` has the connections that tasks share, `connection` is
//! the thread of one connection, `stdio` and `http` are its transports. The protocol is in [`crate::mcp`]; this folder only does the I/O.

pub mod commands;
mod connection;
mod http;
mod known_servers;
mod login;
pub mod pool;
mod prompts_and_resources;
mod stdio;
mod tokens;
pub mod verbs;
mod workspace;

pub use pool::Pool;

use crate::config;
use crate::config::definitions::mcp::McpSettings;
use crate::config::settings::{SettingScope, Settings};
use crate::core::ClientMcp;
use crate::limits::Limits;
use crate::mcp::config::client::ClientServers;
use crate::shell::event_loop::log::Log;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::slash_commands::{Asked, Commands};
use crate::tool::Spawn;
use crate::tool::mcp_call::McpServers;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tokens::TokenStore;
use ureq::tls::TlsConfig;

/// The context that all connections share.
pub struct Context {
    /// `None` if programs cannot be started.
    pub programs: Option<Arc<dyn Spawn>>,
    pub reader: SettingsReader,
    /// `--allowed-mcp-server-names`.
    pub only: Option<Vec<String>>,
    pub state_dir: PathBuf,
    /// Directories that tasks may use in addition to their workspaces.
    pub included: Mutex<Vec<PathBuf>>,
    pub tls: TlsConfig,
    pub tokens: Arc<TokenStore>,
    pub limits: Limits,
    pub log: Log,
    /// A counter of the versions of all catalogs.
    pub versions: AtomicU64,
}

/// Which servers clients may name for their tasks.
pub fn client_mcp(settings: &McpSettings) -> ClientMcp {
    let allowed = match settings.clients {
        config::definitions::mcp::ClientMcp::Off => ClientServers::Off,
        config::definitions::mcp::ClientMcp::Loopback => ClientServers::Loopback,
        config::definitions::mcp::ClientMcp::Listed => ClientServers::Listed(settings.client_hosts.clone()),
    };
    let own = settings.servers.iter().filter(|entry| entry.scope != SettingScope::Workspace);
    ClientMcp { allowed, taken: own.map(|entry| entry.name.clone()).collect() }
}

/// The servers of all workspaces, and the command `/mcp`. Nothing is started before a task needs it.
pub fn open(
    programs: Option<Arc<dyn Spawn>>,
    reader: SettingsReader,
    tls: TlsConfig,
    settings: &Settings,
    state_dir: &Path,
    log: &Log,
    commands: &mut Commands,
) -> Arc<dyn McpServers> {
    let pool = pool(programs, reader, tls, settings, state_dir, log);
    let own = pool.clone();
    let run = move |asked: &Asked| commands::run(&own, asked);
    // A host program may have registered a command with this name; then its command is used.
    let _ = commands.register(commands::spec(), Box::new(run));
    pool
}

/// The servers of all workspaces.
pub fn pool(
    programs: Option<Arc<dyn Spawn>>,
    reader: SettingsReader,
    tls: TlsConfig,
    settings: &Settings,
    state_dir: &Path,
    log: &Log,
) -> Arc<Pool> {
    let (only, limits) = (settings.mcp.only.clone(), settings.limits.clone());
    let tokens = Arc::new(TokenStore::new(state_dir, limits.settings_bytes, tls.clone(), &reader));
    let (state_dir, log, versions) = (state_dir.to_owned(), log.clone(), AtomicU64::new(0));
    let context =
        Context { programs, reader, only, state_dir, included: Mutex::default(), tls, tokens, limits, log, versions };
    Arc::new(Pool::new(context))
}
