//! The pool of connections that tasks share: one per server and workspace, or one per task if the server's settings say so. A connection is
//! started in the background when a task first needs it. Workers get the tools of a task from the pool and call them through it.

mod calls;

use super::Context;
use super::connection::{Connection, Snapshot};
use super::known_servers::KnownServers;
use super::tokens::{Credentials, TokenStore};
use super::workspace::{Configured, ENABLEMENT, Servers};
use crate::base::id::{TaskId, Tenant};
use crate::base::lock::lock;
use crate::limits::mcp::{CLIENT_CONNECTIONS, CONNECTIONS, PROCESSES, STOP_MS, TASK_LINKS, TRIAL_MS};
use crate::mcp::config::{Isolation, Layer, Server, Transport};
use crate::mcp::declared::{Declarations, Declared, declare};
use crate::mcp::state::State;
use crate::task::definitions::slash::McpCounts;
use crate::task::log::server::{NamedServer, ServerSeen, ServerStatus};
use crate::task::origin::Origin;
use crate::task::spec::{Kind, ToolSpec};
use crate::tool::mcp_call::McpScope;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub struct Pool {
    context: Arc<Context>,
    known_servers: KnownServers,
    inner: Mutex<Inner>,
    /// The servers that clients named, by task.
    adopted: Mutex<HashMap<TaskId, Vec<Server>>>,
}

#[derive(Default)]
struct Inner {
    workspaces: HashMap<PathBuf, Arc<Servers>>,
    connections: HashMap<ConnectionKey, Arc<Connection>>,
    /// A cache of the tools of a task, with the versions of the catalogs that they were made from.
    tables: HashMap<TableKey, (Vec<u64>, Arc<Tools>)>,
    /// Servers that are switched off until this program ends.
    disabled: HashSet<String>,
    /// Tools whose declarations the model API refused, by workspace.
    refused: HashMap<PathBuf, HashSet<String>>,
    /// Resources that results have linked to, with their servers, by task.
    links: HashMap<TaskId, HashSet<(String, String)>>,
    /// Warnings that were logged already.
    reported: HashSet<String>,
    is_ending: bool,
}

/// The workspace, the tenant, and the task if it has a connection of its own.
type TableKey = (PathBuf, Tenant, Option<TaskId>);

/// Tasks with the same key share a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ConnectionKey {
    pool_key: String,
    root: PathBuf,
    tenant: Tenant,
    /// Set if only this task uses the connection.
    task: Option<TaskId>,
}

impl ConnectionKey {
    fn of(scope: McpScope<'_>, server: &Server) -> ConnectionKey {
        ConnectionKey {
            pool_key: format!("{}:{}", server.name, server.pool_key),
            root: scope.workspace.to_owned(),
            tenant: scope.tenant.clone(),
            task: (server.isolation == Isolation::Task).then(|| scope.task.clone()),
        }
    }
}

/// The tools of a task.
#[derive(Default)]
pub struct Tools {
    pub specs: Vec<ToolSpec>,
    pub declarations: Declarations,
}

/// A server of a workspace, and its connection if there is one.
pub struct Status<'a> {
    pub configured: &'a Configured,
    pub state: State,
    pub connection: Option<(Arc<Connection>, Snapshot)>,
}

impl Pool {
    pub fn new(context: Context) -> Pool {
        Pool {
            known_servers: KnownServers::new(&context.state_dir, &context.limits),
            context: Arc::new(context),
            inner: Mutex::default(),
            adopted: Mutex::default(),
        }
    }

    /// The servers of a workspace, from the settings as they were last read. The settings of an untrusted workspace are read each time,
    /// because the user may have trusted it meanwhile.
    pub fn servers(&self, workspace: &Path) -> Arc<Servers> {
        let known = lock(&self.inner).workspaces.get(workspace).cloned();
        known.filter(|servers| servers.trusted).unwrap_or_else(|| self.read(workspace))
    }

    fn read(&self, workspace: &Path) -> Arc<Servers> {
        let servers = Servers::read(&self.context, &self.known_servers, workspace);
        let servers = Arc::new(servers.unwrap_or_else(|why| Servers { notices: vec![why], ..Servers::default() }));
        let mut inner = lock(&self.inner);
        servers.notices.iter().for_each(|notice| inner.warn_once(&self.context, notice));
        inner.workspaces.insert(workspace.to_owned(), servers.clone());
        servers
    }

    /// The servers of a task: those of its workspace, and those that its client has named.
    pub(super) fn of_task(&self, scope: McpScope<'_>) -> Arc<Servers> {
        let servers = self.servers(scope.workspace);
        if scope.named.is_empty() {
            return servers;
        }
        let mut all = servers.all.clone();
        for NamedServer { name, .. } in scope.named {
            if servers.get(name).is_some() {
                let text =
                    format!("MCP server {name} is configured here, so the one of a client with that name is not used.");
                lock(&self.inner).warn_once(&self.context, &text);
                continue;
            }
            let adopted = lock(&self.adopted);
            let server =
                adopted.get(scope.task).and_then(|own| own.iter().find(|server| server.name == *name)).cloned();
            let lost =
                || State::Failed("give the server's headers again: name it in mcpServers of the next message".into());
            let refused = server.is_none().then(lost);
            all.push(Configured { name: name.clone(), layer: Layer::Client, of_workspace: false, server, refused });
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Arc::new(Servers { all, trusted: servers.trusted, notices: Vec::new() })
    }

    /// The states of all servers of a task, by name. Starts the servers that are not running.
    pub fn statuses<'a>(&self, scope: McpScope<'_>, servers: &'a Servers) -> Vec<Status<'a>> {
        self.statuses_if(scope, servers, |_| true)
    }

    /// Like [`Pool::statuses`], but starts only the servers that `is_wanted` accepts.
    pub(super) fn statuses_if<'a>(
        &self,
        scope: McpScope<'_>,
        servers: &'a Servers,
        is_wanted: impl Fn(&Server) -> bool,
    ) -> Vec<Status<'a>> {
        let of = |configured: &'a Configured| {
            let disabled = lock(&self.inner).disabled.contains(&configured.name);
            let refused = configured.refused.clone().or(disabled.then_some(State::Disabled));
            match (refused, &configured.server) {
                (Some(state), _) => Status { configured, state, connection: None },
                (None, Some(server)) if !is_wanted(server) => {
                    Status { configured, state: State::Idle, connection: None }
                }
                (None, Some(server)) => match self.connection(scope, server) {
                    Ok(connection) => {
                        let view = connection.snapshot();
                        Status { configured, state: view.state.clone(), connection: Some((connection, view)) }
                    }
                    Err(why) => Status { configured, state: State::Failed(why), connection: None },
                },
                (None, None) => Status { configured, state: State::Disabled, connection: None },
            }
        };
        servers.all.iter().map(of).collect()
    }

    /// Drops a connection that needs a login, if the user has logged in since.
    fn drop_if_logged_in(&self, scope: McpScope<'_>, server: &Server) {
        let key = ConnectionKey::of(scope, server);
        let known = lock(&self.inner).connections.get(&key).cloned();
        let waits = known.is_some_and(|known| known.snapshot().state == State::NeedsLogin);
        let has_new_token = || {
            let login = Credentials::of(&self.context.tokens, server, &server.redactor());
            login.is_some_and(|login| login.has_new_token())
        };
        if waits && has_new_token() {
            lock(&self.inner).connections.remove(&key);
        }
    }

    /// The connection of a server. Starts a new one if there is none, or if it was stopped because it was not used.
    fn connection(&self, scope: McpScope<'_>, server: &Server) -> Result<Arc<Connection>, String> {
        self.drop_if_logged_in(scope, server);
        let key = ConnectionKey::of(scope, server);
        let mut inner = lock(&self.inner);
        let before = inner.connections.get(&key).cloned();
        // A connection that is being stopped or was stopped cannot be used any more.
        let is_used = |known: &Connection| {
            !matches!(known.snapshot().state, State::Stopping | State::Idle) && !known.is_retry_due()
        };
        if let Some(known) = before.clone().filter(|known| is_used(known)) {
            known.touch();
            return Ok(known);
        }
        if inner.is_ending {
            return Err("the server is ending".into());
        }
        let is_alive = |one: &&Arc<Connection>| one.snapshot().is_alive;
        let live: Vec<&Arc<Connection>> = inner.connections.values().filter(is_alive).collect();
        let of_clients = live.iter().filter(|one| one.server.layer == Layer::Client).count();
        if server.layer == Layer::Client && of_clients >= CLIENT_CONNECTIONS {
            return Err(format!(
                "there are {CLIENT_CONNECTIONS} connections to MCP servers of clients already; end tasks"
            ));
        }
        let is_program = matches!(server.transport, Transport::Stdio { .. });
        if live.len() >= CONNECTIONS {
            return Err(format!(
                "there are {CONNECTIONS} connections to MCP servers already; close tasks in other folders"
            ));
        }
        let programs = live.iter().filter(|one| matches!(one.server.transport, Transport::Stdio { .. })).count();
        if is_program && programs >= PROCESSES {
            return Err(format!("{PROCESSES} MCP servers are running already; close tasks in other folders"));
        }
        let (root, context) = (scope.workspace.to_owned(), self.context.clone());
        let connection = Connection::start(server.clone(), root, context, before.as_deref());
        let connection = connection.map_err(|error| format!("no thread can be started: {error}"))?;
        inner.connections.insert(key, connection.clone());
        Ok(connection)
    }

    /// The tools of a task, from the present catalogs of its servers.
    pub fn tools(&self, scope: McpScope<'_>, statuses: &[Status<'_>]) -> Arc<Tools> {
        let connected = || {
            statuses.iter().filter_map(|status| {
                let (server, (_, view)) = (status.configured.server.as_ref()?, status.connection.as_ref()?);
                // While a server is started again, its tools stay declared.
                (view.is_alive && !view.catalog.tools.is_empty()).then_some((server, view))
            })
        };
        let versions: Vec<u64> = connected().map(|(_, view)| view.version).collect();
        let is_own = connected().any(|(server, _)| server.isolation == Isolation::Task);
        let key = (scope.workspace.to_owned(), scope.tenant.clone(), is_own.then(|| scope.task.clone()));
        if let Some((_, tools)) = lock(&self.inner).tables.get(&key).filter(|(known, _)| *known == versions) {
            return tools.clone();
        }
        // This takes a while with many tools, so the lock is not held.
        let declarations = declare(connected().map(|(server, view)| (server, &view.catalog.tools[..])));
        let tools = Arc::new(Tools { specs: declarations.tools.iter().map(spec).collect(), declarations });
        let mut inner = lock(&self.inner);
        tools.declarations.notices.iter().for_each(|notice| inner.warn_once(&self.context, notice));
        inner.tables.insert(key, (versions, tools.clone()));
        tools
    }

    /// Reads the settings of a workspace again, and drops the connection of the named server, or of all servers, so that they are started
    /// again when they are needed.
    pub fn reload(&self, workspace: &Path, tenant: &Tenant, name: Option<&str>) {
        self.read(workspace);
        let mut inner = lock(&self.inner);
        inner.refused.remove(workspace);
        let is_meant = |key: &ConnectionKey, connection: &Connection| {
            let is_named = name.is_none_or(|name| connection.server.name == name);
            key.root == workspace && key.tenant == *tenant && is_named
        };
        let stopped = inner.connections.extract_if(|key, connection| is_meant(key, connection));
        let stopped: Vec<Arc<Connection>> = stopped.map(|(_, connection)| connection).collect();
        drop(inner);
        stop(&stopped);
    }

    /// Switches a server on or off until the program ends.
    pub fn switch(&self, name: &str, on: Switch) {
        let mut inner = lock(&self.inner);
        // The file of switches may have changed.
        inner.workspaces.clear();
        let stopped: Vec<Arc<Connection>> = match on {
            Switch::On => {
                inner.disabled.remove(name);
                Vec::new()
            }
            Switch::Off => {
                inner.disabled.insert(name.to_owned());
                inner.connections.extract_if(|_, one| one.server.name == name).map(|(_, one)| one).collect()
            }
        };
        drop(inner);
        stop(&stopped);
    }

    /// Allows a server of the workspace whose configuration has changed.
    pub fn allow(&self, workspace: &Path, name: &str) -> Result<(), String> {
        let servers = self.servers(workspace);
        let server = servers.get(name).and_then(|one| one.server.as_ref());
        let server = server.ok_or_else(|| format!("There is no MCP server {name} that could be started."))?;
        let allowed = self.known_servers.allow(&workspace.to_string_lossy(), name, &server.config_hash);
        allowed.map_err(|error| format!("It cannot be remembered: {error}."))?;
        self.read(workspace);
        Ok(())
    }

    /// The connection of a configured server that was started for a workspace by any task.
    pub fn find_connection(&self, workspace: &Path, tenant: &Tenant, server: &str) -> Option<Arc<Connection>> {
        let inner = lock(&self.inner);
        let is_meant = |(key, connection): &(&ConnectionKey, &Arc<Connection>)| {
            let Server { name, layer, .. } = &connection.server;
            key.root == workspace && key.tenant == *tenant && name == server && *layer != Layer::Client
        };
        inner.connections.iter().find(is_meant).map(|(_, connection)| connection.clone())
    }

    pub fn is_switched_off(&self, server: &str) -> bool {
        lock(&self.inner).disabled.contains(server)
    }

    /// The tools of the connected servers of a workspace.
    pub fn tools_of(&self, workspace: &Path, tenant: &Tenant, servers: &Servers) -> Arc<Tools> {
        let statuses: Vec<Status<'_>> = servers
            .all
            .iter()
            .filter_map(|configured| {
                let connection = self.find_connection(workspace, tenant, &configured.name)?;
                let view = connection.snapshot();
                Some(Status { configured, state: view.state.clone(), connection: Some((connection, view)) })
            })
            .collect();
        self.tools(McpScope { task: &"mcp".into(), workspace, tenant, named: &[] }, &statuses)
    }

    pub fn tokens(&self) -> &Arc<TokenStore> {
        &self.context.tokens
    }

    /// Starts one server of a workspace, even if it is switched off, and waits until it is connected or has failed.
    pub fn try_out(&self, workspace: &Path, name: &str) -> State {
        let servers = self.servers(workspace);
        let (task, tenant) = ("mcp".into(), Tenant::default());
        let scope = McpScope { task: &task, workspace, tenant: &tenant, named: &[] };
        let Some(server) = servers.get(name).and_then(|one| one.server.as_ref()) else { return State::Disabled };
        match self.connection(scope, server) {
            Ok(connection) => connection.wait_until_started(),
            Err(why) => State::Failed(why),
        }
    }

    /// Starts all allowed servers of a workspace, and waits for a limited time until each is connected or has failed.
    pub fn try_all(&self, workspace: &Path) -> Vec<(String, State)> {
        let servers = self.servers(workspace);
        let (task, tenant) = ("mcp".into(), Tenant::default());
        let scope = McpScope { task: &task, workspace, tenant: &tenant, named: &[] };
        let begin = |one: &Configured| {
            let refused = one.refused.clone().or(self.is_switched_off(&one.name).then_some(State::Disabled));
            match (refused, &one.server) {
                (Some(state), _) => Err(state),
                (None, None) => Err(State::Disabled),
                (None, Some(server)) => self.connection(scope, server).map_err(State::Failed),
            }
        };
        // Starts all of them before waiting for the first.
        let begun: Vec<_> = servers.all.iter().map(|one| (one.name.clone(), begin(one))).collect();
        let end = Instant::now() + Duration::from_millis(TRIAL_MS);
        let wait = |one: Arc<Connection>| one.wait_started_within(end.saturating_duration_since(Instant::now()));
        begun.into_iter().map(|(name, begun)| (name, begun.map_or_else(|state| state, wait))).collect()
    }

    /// The file in which users switch servers off permanently.
    pub fn enablement_file(&self) -> Option<PathBuf> {
        self.context.reader.paths().user(ENABLEMENT)
    }

    /// Records the resources that a result links to, so that the task may read them.
    pub(super) fn add_links(&self, task: &TaskId, server: &str, links: &[String]) {
        if !links.is_empty() {
            let mut inner = lock(&self.inner);
            let kept = inner.links.entry(task.clone()).or_default();
            let room = TASK_LINKS.saturating_sub(kept.len());
            kept.extend(links.iter().take(room).map(|uri| (server.to_owned(), uri.clone())));
        }
    }

    pub(super) fn is_linked(&self, task: &TaskId, server: &str, uri: &str) -> bool {
        let inner = lock(&self.inner);
        inner.links.get(task).is_some_and(|kept| kept.iter().any(|(of, one)| of == server && one == uri))
    }

    fn is_refused(&self, workspace: &Path, tool: &str) -> bool {
        lock(&self.inner).refused.get(workspace).is_some_and(|refused| refused.contains(tool))
    }

    fn count(&self) -> McpCounts {
        let inner = lock(&self.inner);
        let views: Vec<Snapshot> = inner.connections.values().map(|connection| connection.snapshot()).collect();
        let count = |is: &dyn Fn(&Snapshot) -> bool| views.iter().filter(|view| is(view)).count();
        McpCounts {
            connected: count(&|view| view.state == State::Connected),
            failed: count(&|view| matches!(view.state, State::Failed(_))),
            processes: count(&|view| view.is_alive && view.transport == "stdio"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
}

impl Inner {
    /// Logs a warning, but each text only once.
    fn warn_once(&mut self, context: &Context, text: &str) {
        if self.reported.insert(text.to_owned()) {
            context.log.warn(text);
        }
    }
}

/// Stops connections concurrently, and waits for that up to a limit.
fn stop(connections: &[Arc<Connection>]) {
    connections.iter().for_each(|connection| connection.stop(Duration::ZERO));
    connections.iter().for_each(|connection| connection.stop(Duration::from_millis(2 * STOP_MS)));
}

/// Whether a connected server has resources or resource templates.
fn has_resources(status: &Status<'_>) -> bool {
    let catalog = status.connection.as_ref().map(|(_, view)| &view.catalog);
    catalog.is_some_and(|catalog| !catalog.resources.is_empty() || !catalog.templates.is_empty())
}

fn spec(declared: &Declared) -> ToolSpec {
    let Declared { name, display_name, description, parameters, original, .. } = declared;
    let origin = Origin::Mcp(declared.origin.clone());
    ToolSpec {
        by_default: origin.by_default(),
        origin,
        original: (original != parameters).then(|| original.clone()),
        has_live_output: true,
        ..ToolSpec::new(name, display_name, Kind::Other, description, parameters.clone())
    }
}

fn seen(status: &Status<'_>) -> ServerSeen {
    let Status { configured, state, connection } = status;
    let view = connection.as_ref().map(|(_, view)| view);
    ServerSeen {
        server: configured.name.clone(),
        status: ServerStatus::from_word(state.word()).unwrap_or(ServerStatus::Disconnected),
        error: state.error(&configured.name),
        transport: view.map(|view| view.transport.to_owned()),
        origin: Some(configured.layer.word()),
        protocol_version: view.map(|view| view.info.version.clone()).filter(|version| !version.is_empty()),
    }
}
