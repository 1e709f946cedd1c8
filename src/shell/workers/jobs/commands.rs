//! Runs slash commands, and answers questions about workspaces: whether a task may work in them, their commands, their files.

use super::{NO_ROOM, WorkerContext};
use crate::base::cancel::Cancel;
use crate::config::trust::Trust;
use crate::core::{Site, SiteWish};
#[cfg(feature = "bucket")]
use crate::shell::journal::workspace_id;
use crate::shell::start::workspace_settings::real_directory;
use crate::task::definitions::slash::{Command, Commanded};
use crate::task::log::event::Created;
use crate::task::machine::job::NoteBody;
use crate::task::restore::arguments::Name;
use crate::tool::files::changes::FileChanges;
use crate::tool::mcp_call::{McpScope, McpWish};
use crate::tool::search::paths;
use std::path::Path;
use std::sync::Arc;

impl WorkerContext {
    pub(super) fn command(
        &self,
        command: &Command,
        created: &Created,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Commanded, String> {
        if let Some(name) = command.invocation.path.first().and_then(|name| Name::from_word(name)) {
            return self.restore(command, name, &created.task, emit);
        }
        let none = FileChanges::default();
        let ctx = self
            .ctx(McpScope::new(created, Path::new(&*command.workspace)), &[], cancel, &none)
            .map_err(|error| error.message);
        let mut result = self.commands.run(command, &self.prompt_context, &|| ctx.as_ref().map_err(Clone::clone))?;
        // The task is new: it has stored nothing yet.
        if let Commanded::AskWith { media, .. } = &mut result
            && !self.store_media(media, &mut self.settings.limits.task_blob_bytes.clone())
        {
            return Err(NO_ROOM.into());
        }
        if matches!(result, Commanded::Expanded { .. }) {
            let denied = self.prompt_context.denied(&command.workspace);
            self.declare(&self.specs, denied, None, emit)?;
        }
        Ok(result)
    }

    /// The site of a client's task: the server's workspace, or a directory below an allowed root. Any other directory is an error.
    pub fn resolve(&self, path: &str, directories: &[String], wish: SiteWish) -> Result<Site, String> {
        let path = real_directory(path.as_ref())?;
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(format!(
                "the workspace {} is outside of what this server allows; start it with --workspace or --allowed-root",
                path.display()
            ));
        }
        let mut site = if path == Path::new(&self.site.path) { self.site.clone() } else { self.reader.site(path)? };
        #[cfg(feature = "bucket")]
        if site.id.is_none() && self.archive.shared().is_some() {
            site.id = workspace_id::of(Path::new(&site.path), wish);
        }
        match directories.iter().map(|dir| self.resolve_further(dir)).collect() {
            Ok(directories) => site.directories = directories,
            Err(why) => site.refused_directory = Some(why),
        }
        let servers = match wish {
            SiteWish::Usable | SiteWish::WithId => return Ok(site),
            SiteWish::Commands => McpWish::Running,
            SiteWish::StartedCommands => McpWish::Started,
        };
        let (workspace, trust) = (Path::new(&site.path), if site.trusted { Trust::Trusted } else { Trust::Untrusted });
        let prompts = self.mcp.prompts(McpScope::without_task(workspace), servers);
        let (registry, _) = self.commands.with_custom(&self.prompt_context, workspace, trust, &prompts);
        site.commands = Some(Arc::new(registry));
        Ok(site)
    }

    /// The real path of a directory that a client wants to use beside the workspace. It must be one that tasks may work in, or be below an
    /// included directory.
    fn resolve_further(&self, path: &str) -> Result<String, String> {
        let path = real_directory(path.as_ref())?;
        if !self.roots.iter().chain(self.prompt_context.included()).any(|root| path.starts_with(root)) {
            return Err(format!(
                "{} is outside of what this server allows; start it with --allowed-root or --include-directories",
                path.display()
            ));
        }
        path.into_os_string().into_string().map_err(|path| format!("{} is not UTF-8", path.display()))
    }

    /// The paths in a workspace that fit a query, best first.
    pub fn find_files(&self, workspace: &str, query: &str, limit: usize) -> Result<(Vec<String>, usize), String> {
        let (cancel, none) = (Cancel::default(), FileChanges::default());
        let ctx = self
            .ctx(McpScope::without_task(Path::new(workspace)), &[], &cancel, &none)
            .map_err(|error| error.message)?;
        Ok(paths::matching(query, limit, &ctx))
    }
}
