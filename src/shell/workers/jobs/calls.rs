//! Prepares and runs calls of tools, with the command hooks before and after them, and reports what a call changes in the task.

use super::hooks::HookSite;
use super::{NO_ROOM, WorkerContext};
use crate::base::cancel::Cancel;
use crate::base::id::TaskId;
use crate::task::definitions::agent::AgentThread;
use crate::task::definitions::command_hook::HookReport;
use crate::task::definitions::skill::{ACTIVATE, ActiveSkill};
use crate::task::log::answer::Request;
use crate::task::log::event::Created;
use crate::task::machine::job::{NoteBody, Run, RunEnd};
use crate::task::spec::{Ending, ErrorKind, Plan};
use crate::tool::Ctx;
use crate::tool::files::activate_skill::Skills;
use crate::tool::files::changes::FileChanges;
use crate::tool::invoke_agent::AgentThreads;
use crate::tool::mcp_call::McpScope;
use crate::tool::people::People;
use std::path::Path;
use std::sync::Arc;

/// The task that calls belong to, and what they need of it.
pub(super) struct CallSite<'a> {
    pub created: &'a Created,
    /// The task that it continues.
    pub parent: Option<&'a TaskId>,
    pub skills: &'a [ActiveSkill],
    /// Directories beside the workspace that its client has chosen.
    pub directories: &'a [String],
    pub threads: &'a Arc<Vec<AgentThread>>,
    pub people: &'a dyn People,
    pub cancel: &'a Cancel,
}

impl WorkerContext {
    /// Runs the hooks before calls and finds out what the calls would do.
    pub(super) fn prepare_calls(
        &self,
        at: &CallSite<'_>,
        workspace: &str,
        calls: &mut [Request],
        blob_room: &mut u64,
        emit: &mut dyn FnMut(NoteBody),
    ) {
        let none = FileChanges::default();
        let site = HookSite { task: &at.created.task, workspace, cancel: at.cancel };
        let scope = McpScope::new(at.created, Path::new(workspace));
        let denied = self.before_tools(site, scope, calls, emit);
        let mut prepared = match self.ctx(scope, at.directories, at.cancel, &none) {
            Ok(ctx) => self.toolbox.prepare(calls, &ctx.reading(at.skills)),
            Err(error) => vec![Err(error); calls.len()],
        };
        for (plan, error) in prepared.iter_mut().zip(denied).filter_map(|(plan, error)| Some((plan, error?))) {
            *plan = Err(error);
        }
        self.store_texts(prepared.iter_mut().flatten().flat_map(Plan::texts_mut), blob_room);
        emit(NoteBody::Prepared(prepared));
    }

    pub(super) fn run_call(&self, at: &CallSite<'_>, run: &Run, emit: &mut dyn FnMut(NoteBody)) {
        let changes = match self.settings.has_checkpoints() {
            true => FileChanges::new(self.blobs.clone(), run.blob_room),
            false => FileChanges::without_content(run.blob_room),
        };
        let threads = AgentThreads::new(at.threads.clone(), at.created.depth);
        let scope = McpScope::new(at.created, Path::new(&*run.workspace));
        let end = match self.ctx(scope, at.directories, at.cancel, &changes) {
            Ok(ctx) => {
                let ctx = Ctx { people: at.people, threads: Some(&threads), ..ctx.reading(at.skills) };
                let (end, reports) = self.run(run, at.parent, &ctx, &mut |text| emit(NoteBody::Output(text)));
                reports.into_iter().for_each(|report| emit(NoteBody::HookRan(report)));
                end
            }
            Err(error) => RunEnd::Ended(Ending::Error { error }),
        };
        threads.take_changed().into_iter().for_each(|thread| emit(NoteBody::AgentCalled(thread)));
        self.activated(run, &end).into_iter().for_each(|skill| emit(NoteBody::SkillActivated(skill)));
        match (end, changes.take()) {
            (RunEnd::Ended(ending), changes) if !changes.is_empty() => emit(NoteBody::Edited { ending, changes }),
            (end, _) => emit(NoteBody::Ended(end)),
        }
    }

    fn run(
        &self,
        run: &Run,
        parent: Option<&TaskId>,
        ctx: &Ctx,
        out: &mut dyn FnMut(String),
    ) -> (RunEnd, Vec<HookReport>) {
        let mut end = self.toolbox.run(run, ctx, out);
        self.add_memory_of_call(run, &mut end, parent, ctx);
        let at = HookSite { task: ctx.task, workspace: &run.workspace, cancel: ctx.cancel };
        let reports = if run.is_users_own() { Vec::new() } else { self.after_tool(at, ctx.mcp_scope(), run, &mut end) };
        if let RunEnd::Ended(ending) = &mut end {
            let mut room = ctx.changes.room();
            self.store_texts(ending.texts_mut(), &mut room);
            if !self.store_media(ending.media_mut(), &mut room) {
                *ending = Ending::Error { error: ErrorKind::ExecutionFailed.error(NO_ROOM) };
            }
        }
        (end, reports)
    }

    /// The skill that a call has activated.
    fn activated(&self, run: &Run, end: &RunEnd) -> Option<ActiveSkill> {
        let is_success = matches!(end, RunEnd::Ended(Ending::Success { .. }));
        let name = run.args.get("name")?.as_str().filter(|_| is_success && run.name == ACTIVATE)?;
        let skills = self.prompt_context.skills(Path::new(&*run.workspace));
        let dir = skills.into_iter().find(|skill| skill.name == name)?.dir;
        Some(ActiveSkill { name: name.to_owned(), dir: dir.to_str()?.to_owned() })
    }
}
