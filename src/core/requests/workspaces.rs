//! The workspace that has to be checked before a call is carried out. A worker checks it.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::disk::Parked;
use crate::core::requests::Caller;
use crate::core::{Core, Site, SiteWish, WorkspaceChoice};
use crate::task::call::{Call, Execute, Open};
use crate::task::definitions::slash::{Registry, Unrunnable};

impl Core {
    /// The workspace that has to be checked before a call is carried out: the one that a client names for a new task, if clients may choose;
    /// the one whose custom commands the call may name; or that of a task which another instance has created.
    pub(super) fn wanted_workspace(
        &self,
        call: &Call,
        task: Option<&TaskId>,
        caller: &Caller,
    ) -> Option<(String, SiteWish)> {
        let chosen = match self.settings.workspace.choice {
            WorkspaceChoice::Client => call.creates().and_then(|create| create.settings.workspace.clone()),
            WorkspaceChoice::Operator => None,
        };
        let is_built_in = |execute: &Execute| match self.settings.commands.invoke(&execute.typed) {
            Ok(_) | Err(Unrunnable::Incomplete { .. }) => true,
            Err(Unrunnable::Unknown { .. }) => false,
        };
        // The workspace of a task.
        let of_task = |task: &TaskId| self.tasks.get(task).map(|loaded| loaded.state.workspace.to_string());
        let (chosen, wish) = match call {
            Call::Commands | Call::About => (chosen, SiteWish::Commands),
            Call::Execute(execute) if execute.otherwise.is_some() => {
                let wish = if is_built_in(execute) { SiteWish::Commands } else { SiteWish::StartedCommands };
                (execute.about.as_ref().and_then(of_task), wish)
            }
            Call::Execute(execute) if !is_built_in(execute) => (chosen, SiteWish::StartedCommands),
            Call::Open(Open::New(_)) => (chosen, SiteWish::Commands),
            Call::Open(Open::Live) => (self.live_session(caller).and_then(of_task), SiteWish::Commands),
            Call::Open(Open::Load(known) | Open::Resume(known)) => (of_task(&known.task), SiteWish::Commands),
            _ => {
                let unknown = || Some((self.unknown_workspace(task?, call)?, SiteWish::WithId));
                return chosen.map(|path| (path, SiteWish::Usable)).or_else(unknown);
            }
        };
        Some((chosen.unwrap_or(self.settings.workspace.site.path.clone()), wish))
    }

    /// The directories beside the workspace that a client wants to use.
    pub(super) fn wanted_directories(call: &Call) -> Vec<String> {
        match call {
            Call::Open(Open::New(create)) => create.settings.directories.clone(),
            Call::Open(Open::Load(known) | Open::Resume(known)) => known.directories.clone(),
            _ => Vec::new(),
        }
    }

    /// The commands of a workspace; the built-in ones if it was not checked.
    pub(in crate::core) fn commands<'a>(&'a self, site: &'a Result<Site, String>) -> &'a Registry {
        site.as_ref().ok().and_then(|site| site.commands.as_deref()).unwrap_or(&self.settings.commands)
    }

    /// A workspace was checked: the request that waited for it continues.
    pub(in crate::core) fn resolved(&mut self, request: u64, site: Result<Site, String>, now: Now) {
        if let Some(request) = self.disk.take_resolved(request) {
            let conn = request.caller.conn;
            self.connections.end_call(conn);
            self.dispatch(Parked { site: Some(site), ..request }, now);
            self.read_on(conn, now);
        }
    }
}
