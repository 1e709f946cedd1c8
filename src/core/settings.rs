//! The settings that the core is made from: limits, policies, tools, the card. They do not change afterwards; only the source of ids
//! and the saved rules do.

use crate::a2a::{Card, Offers, Switches, Tools};
use crate::base::clock::Now;
use crate::base::id::Entropy;
use crate::base::level::Level;
use crate::core::access::AccessSetup;
use crate::core::audit::AuditSetup;
use crate::core::connections::guard::HostPolicy;
use crate::core::disk::store::ShownWhen;
use crate::core::operation::OperationSettings;
use crate::limits::Limits;
use crate::mcp::config::client::ClientServers;
use crate::model::script::Script;
use crate::task::call::RequestPolicy;
use crate::task::definitions::slash::Registry;
use crate::task::log::event::Event;
use crate::task::log::ownership::Owned;
use crate::task::policy::{Grant, Mode, Policy};
use crate::task::spec::ToolSpec;
use std::collections::HashMap;
use std::sync::Arc;

/// What the core is made from.
pub struct Setup {
    pub limits: Limits,
    /// The least important messages that are logged.
    pub log_level: Level,
    pub host_policy: HostPolicy,
    /// How clients are admitted; taken when the core is made.
    pub access: AccessSetup,
    pub tools: Vec<ToolSpec>,
    /// The slash commands. Workers run them.
    pub commands: Registry,
    pub choose: Choose,
    /// The models that clients may choose, if they are listed.
    pub models: Vec<String>,
    /// A scripted agent, when one plays the model.
    pub script: Option<Arc<Script>>,
    pub card: Card,
    pub switches: Switches,
    pub workspace: Workspace,
    pub approval: Approval,
    pub request_policy: RequestPolicy,
    /// The identity of this instance, if it shares its store with others.
    pub shared_store: Option<SharedStore>,
    /// All clients share one live session; otherwise each subject has its own.
    pub shares_session: bool,
    pub client_mcp: ClientMcp,
    /// Why commands without approval cannot be confined in the server's workspace; None if they can.
    pub unconfined: Option<String>,
    /// None: nothing is audited.
    pub audit: Option<AuditSetup>,
    pub entropy: Entropy,
    pub operation: OperationSettings,
    /// When the server was started.
    pub started: Now,
}

/// One of several instances that share a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedStore {
    /// Random for each start.
    pub instance: Arc<str>,
    /// Where clients reach this instance, if other instances may show it.
    pub url: Option<String>,
    /// A call starts only if the store has confirmed within this time, in milliseconds, that this instance owns its task.
    pub slow_ms: u64,
}

impl Setup {
    /// When clients are shown an event.
    pub fn shown_when(&self) -> ShownWhen {
        match self.shared_store {
            Some(_) => ShownWhen::Synced,
            None => ShownWhen::Written,
        }
    }

    /// The event with which this instance says that it owns a task; None if it shares its store with nobody.
    pub fn owned(&self, epoch: u64) -> Option<Event> {
        let SharedStore { instance, url, .. } = self.shared_store.as_ref()?;
        Some(Event::Owned(Arc::new(Owned { instance: instance.clone(), epoch, url: url.clone() })))
    }
}

/// Which MCP servers clients may name.
#[derive(Clone, Debug, Default)]
pub struct ClientMcp {
    pub allowed: ClientServers,
    /// The names of the operator's own servers, which clients may not use.
    pub taken: Vec<String>,
}

/// The tools in the forms that the core needs.
pub(in crate::core) struct ToolTable {
    /// Each tool under all of its names, the former ones included.
    pub specs: HashMap<String, ToolSpec>,
    /// The tools as clients are shown them.
    pub shown: Arc<Tools>,
}

impl ToolTable {
    pub fn new(tools: &[ToolSpec], offers: Offers) -> ToolTable {
        let named = tools.iter().flat_map(|spec| spec.names().map(|name| (name.to_owned(), spec.clone())));
        ToolTable { specs: named.collect(), shown: Arc::new(Tools::new(tools).offering(offers)) }
    }

    /// The built-in tools that the policy denies in this mode. Tools of MCP servers, skills and agents are checked by the workers that
    /// know them.
    pub fn forbidden(&self, policy: &Policy, mode: Mode) -> Vec<String> {
        let own = self.specs.iter().filter(|(name, spec)| **name == spec.name);
        let mut names: Vec<String> =
            own.filter(|(_, spec)| policy.forbids(spec, mode)).map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
}

/// Where tasks work.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The server's own workspace.
    pub site: Site,
    pub choice: WorkspaceChoice,
}

/// Who chooses the workspace of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceChoice {
    /// A client may name another one, which is then checked ([`Out::Resolve`](crate::core::Out::Resolve)).
    Client,
    /// It is always the server's own.
    Operator,
}

/// A directory to work in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The real path.
    pub path: String,
    /// The id of the workspace in a shared store: instances that find the same id at this path work in the same files.
    pub id: Option<Arc<str>>,
    /// The operator trusts the files in it.
    pub trusted: bool,
    /// All its slash commands, the custom ones included; None if they were not looked for.
    pub commands: Option<Arc<Registry>>,
    /// The real paths of the directories beside it that a client wants to use.
    pub directories: Vec<String>,
    /// Why one of these directories cannot be used.
    pub refused_directory: Option<String>,
}

/// What is to be found out about a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteWish {
    /// Whether it can be used.
    Usable,
    /// The same, and its id if it has one: a task that another instance has created there is to be continued.
    WithId,
    /// Whether it can be used, and its commands.
    Commands,
    /// The same, with the commands of MCP servers, which are started for that.
    StartedCommands,
}

/// Chooses the model of a task: checks the model that a client names, or takes the default. The error says what is wrong with the name.
pub type Choose = Box<dyn Fn(Option<&str>) -> Result<String, String> + Send>;

/// What tasks may do without approval.
#[derive(Clone, Debug, Default)]
pub struct Approval {
    pub policy: Policy,
    pub grant: Grant,
    /// The mode of new tasks.
    pub mode: Mode,
}
