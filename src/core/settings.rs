//! What the core is made from: limits, policies, tools, the card. Nothing of it changes afterwards but the source of ids.

use crate::a2a::{Card, Switches, Tools};
use crate::base::clock::Now;
use crate::base::id::Entropy;
use crate::base::level::Level;
use crate::core::connections::guard::HostPolicy;
use crate::limits::Limits;
use crate::model::script::Script;
use crate::task::call::RequestPolicy;
use crate::task::policy::{Grant, Mode, Policy};
use crate::task::slash::Registry;
use crate::task::spec::ToolSpec;
use std::collections::HashMap;
use std::sync::Arc;

/// What the core is made from.
pub struct Setup {
    pub limits: Limits,
    /// The least important messages that are logged.
    pub log_level: Level,
    pub host_policy: HostPolicy,
    pub tools: Vec<ToolSpec>,
    /// The slash commands there are; what they do is known to workers.
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
    /// Why commands without approval cannot be confined in the server's workspace; None if they can.
    pub unconfined: Option<String>,
    pub entropy: Entropy,
    /// When the server was started.
    pub started: Now,
}

/// The tools in the forms that the core needs.
pub(in crate::core) struct ToolTable {
    /// Each tool under all of its names.
    pub specs: HashMap<String, ToolSpec>,
    /// As clients see them.
    pub shown: Arc<Tools>,
}

impl ToolTable {
    pub fn new(tools: &[ToolSpec]) -> ToolTable {
        let named = tools.iter().flat_map(|spec| spec.names().map(|name| (name.to_owned(), spec.clone())));
        ToolTable { specs: named.collect(), shown: Arc::new(Tools::new(tools)) }
    }

    /// The tools that a client wants used, without those that the policy denies in this mode; None are all.
    pub fn usable(&self, wanted: Option<&[String]>, policy: &Policy, mode: Mode) -> Option<Vec<String>> {
        let (forbidden, left): (Vec<_>, Vec<_>) = self.specs.values().partition(|spec| policy.forbids(spec, mode));
        match (wanted, forbidden.is_empty()) {
            (wanted, true) => wanted.map(<[String]>::to_vec),
            (wanted, false) => {
                Some(left.iter().filter(|spec| spec.is_among(wanted)).map(|spec| spec.name.clone()).collect())
            }
        }
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
    /// The operator trusts what lies in it.
    pub trusted: bool,
}

/// Which model a task asks: checks a client's wish (or takes the default) and gives the name, or says what is wrong.
pub type Choose = Box<dyn Fn(Option<&str>) -> Result<String, String> + Send>;

/// What tasks may do unasked.
#[derive(Clone, Debug, Default)]
pub struct Approval {
    pub policy: Policy,
    pub grant: Grant,
    /// The mode of new tasks.
    pub mode: Mode,
}
