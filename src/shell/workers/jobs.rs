//! Jobs become work on lanes here, and their reports become mail for the loop.

#[cfg(feature = "webhooks")]
pub mod webhook;
#[cfg(not(feature = "webhooks"))]
#[path = "jobs/webhook/none.rs"]
pub mod webhook;

use crate::base::cancel::Cancel;
use crate::base::id::TaskId;
use crate::base::json;
use crate::config::settings::Settings;
use crate::core::disk::store::{Archive, Maintenance, StoreError};
use crate::core::{Input, Site};
use crate::limits::INLINE_BYTES;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::compact;
use crate::shell::children::Children;
use crate::shell::journal::saved_rules;
use crate::shell::peers::peer_check::Answers;
use crate::shell::start::workspace_settings::{SettingsReader, real_directory};
use crate::shell::workers::lanes::{Full, Lane, Lanes, Left, Post};
use crate::shell::workers::prompt_context::{PromptContext, wanted};
use crate::shell::workers::slash_commands::Commands;
use crate::task::log::answer::Answer;
use crate::task::log::blob::{BlobRef, Blobs, sha256};
use crate::task::log::event::ToolSet;
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::machine::job::{
    Attachments, Job, JobId, ModelError, ModelErrorKind, Note, NoteBody, Run, RunEnd, Think, Work,
};
use crate::task::machine::state::Item;
use crate::task::policy::{self, Rule};
use crate::task::spec::{CallError, Ending, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::commands::background::Background;
use crate::tool::files::attachments;
use crate::tool::files::changes::FileChanges;
use crate::tool::files::kept_output::KeptOutputs;
use crate::tool::files::path::Found;
use crate::tool::search::paths;
use crate::tool::web::Web;
use crate::tool::{Ask, Ctx, NoPrograms, Toolbox};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webhook::Webhooks;

/// Why media is not shown to the model.
const NO_ROOM: &str = "The file cannot be shown: its content cannot be stored, because the task has stored as much as it may or the \
                       disk is full. Tell the user to start a new task.";

/// What workers tell the loop. Notes are the large ones and nearly all of them, so boxing them would only cost.
#[allow(clippy::large_enum_variant)]
pub enum Mail {
    Input(Input<'static>),
    Identified(Answers),
    /// Something for the log.
    Warning(String),
}

/// What every job may use.
pub struct WorkerContext {
    pub backend: Arc<dyn ModelBackend>,
    /// For tools that ask a model; not every back-end can be asked.
    pub ask: Option<Arc<dyn Ask>>,
    pub toolbox: Toolbox,
    pub specs: Vec<ToolSpec>,
    /// None if no commands can be started.
    pub children: Option<Children>,
    pub prompt_context: PromptContext,
    pub commands: Commands,
    pub background: Background,
    pub web: Web,
    /// Where output of commands is kept that is too long for a result.
    pub outputs: KeptOutputs,
    pub webhooks: Webhooks,
    pub archive: Arc<dyn Archive>,
    /// Where the content of files is stored that calls change.
    pub blobs: Arc<dyn Blobs>,
    /// The server's own workspace.
    pub site: Site,
    /// All directories that tasks may work below.
    pub roots: Vec<PathBuf>,
    pub reader: SettingsReader,
    pub settings: Settings,
}

pub struct Jobs {
    pub lanes: Lanes<Mail>,
    context: Arc<WorkerContext>,
    /// Jobs that were started and have not reported their end.
    running: HashMap<JobId, Cancel>,
    /// Mail made here and not by a worker.
    own: Vec<Mail>,
    /// Mail was left over when it was last drained.
    has_more: bool,
}

impl Jobs {
    pub fn new(lanes: Lanes<Mail>, context: WorkerContext) -> Jobs {
        Jobs { lanes, context: Arc::new(context), running: HashMap::new(), own: Vec::new(), has_more: false }
    }

    pub fn start(&mut self, job: Job) {
        let cancel = Cancel::default();
        let id = job.id.clone();
        let context = self.context.clone();
        let lane = match &job.work {
            Work::Think(_) | Work::Compact(_) => Lane::Model,
            Work::Attach { .. } | Work::Command(_) | Work::Prepare { .. } | Work::Run(_) => Lane::Tool,
        };
        self.running.insert(id.clone(), cancel.clone());
        let whose = id.clone();
        let work = move |post: &Post<Mail>, cancel: &Cancel| context.work(job, post, cancel);
        let died = move |message| Mail::Input(Input::Note(Note { job: whose, body: NoteBody::Died(message) }));
        if let Err(Full) = self.lanes.start(lane, cancel, work, died) {
            let message = "too many jobs are waiting; try again when some have ended".to_owned();
            self.own.push(Mail::Input(Input::Note(Note { job: id, body: NoteBody::Died(message) })));
        }
    }

    pub fn stop(&mut self, job: &JobId) {
        if let Some(cancel) = self.running.get(job) {
            cancel.set();
        }
    }

    /// A task is over: what it left running in the background ends with it.
    pub fn forget(&mut self, task: &TaskId) {
        self.context.background.end_task(task);
    }

    /// Reaps processes that this process has adopted and that have ended.
    pub fn reap_adopted(&self) {
        if let Some(children) = &self.context.children {
            children.reap_adopted();
        }
    }

    /// Stops everything: the process is about to end, and nothing it started may outlive it.
    pub fn end(&mut self) {
        for cancel in self.running.values() {
            cancel.set();
        }
        if let Some(children) = &self.context.children {
            children.end_all();
        }
        self.lanes.end(Duration::from_millis(self.context.settings.limits.worker_end_ms));
    }

    /// Keeps a rule that somebody allowed for good.
    pub fn save(&mut self, rule: Rule) {
        self.change_saved("a rule holds until this server ends", move |path, most| {
            saved_rules::add(path, policy::kept(rule), most)
        });
    }

    /// Deletes a rule that was kept.
    pub fn forget_rule(&mut self, rule: Rule) {
        self.change_saved("a rule that was taken back holds again after the next start", move |path, most| {
            saved_rules::remove(path, &rule, most)
        });
    }

    /// Changes the file of saved rules; `else_` is what holds if that fails.
    fn change_saved(
        &mut self,
        else_: &'static str,
        change: impl FnOnce(&Path, u64) -> io::Result<()> + Send + 'static,
    ) {
        let trouble = move |text: String| Mail::Warning(format!("{else_}: {text}"));
        let Some(path) = self.context.reader.paths().saved_rules() else {
            return self.own.push(trouble("there is no home directory".into()));
        };
        let most = self.context.settings.limits.settings_bytes;
        let work = move |post: &Post<Mail>, _: &Cancel| {
            if let Err(error) = change(&path, most) {
                post.send(trouble(format!("{} cannot be written: {error}", path.display())));
            }
        };
        if let Err(Full) = self.lanes.start(Lane::Disk, Cancel::default(), work, trouble) {
            self.own.push(trouble("too much is waiting for the disk".into()));
        }
    }

    /// Keeps the store in order. Nobody waits for it.
    pub fn tidy(&mut self, maintenance: Maintenance) {
        let trouble = |text: String| Mail::Warning(format!("{text}; it is tried again later"));
        let work = move |post: &Post<Mail>, _: &Cancel| {
            if let Err(error) = (maintenance.0)() {
                post.send(trouble(error.message));
            }
        };
        // A lane that is full has better things to do; the next maintenance makes up for this one.
        let _ = self.lanes.start(Lane::Disk, Cancel::default(), work, trouble);
    }

    /// Starts work whose result is one piece of mail; `failed` makes it of an error.
    pub fn ask(
        &mut self,
        lane: Lane,
        work: impl FnOnce(&WorkerContext) -> Mail + Send + 'static,
        failed: impl FnOnce(StoreError) -> Mail + Clone + Send + 'static,
    ) {
        let (context, full) = (self.context.clone(), failed.clone());
        let work = move |post: &Post<Mail>, _: &Cancel| post.send(work(&context));
        let died = |message: String| failed(StoreError::new(message));
        if let Err(Full) = self.lanes.start(lane, Cancel::default(), work, died) {
            let what = if lane == Lane::Disk { "the disk" } else { "a worker" };
            self.own.push(full(StoreError::transient(format!("too much is waiting for {what}; try again later"))));
        }
    }

    /// At most `max` pieces of mail from workers, and those made here.
    pub fn drain(&mut self, max: usize) -> Vec<Mail> {
        let mut into = std::mem::take(&mut self.own);
        self.has_more = self.lanes.drain(max, &mut into) == Left::Mail;
        for piece in &into {
            if let Mail::Input(Input::Note(note)) = piece
                && note.body.is_last()
            {
                self.running.remove(&note.job);
            }
        }
        into
    }

    /// Whether mail is there that no event will tell of.
    pub fn has_more(&self) -> bool {
        self.has_more || !self.own.is_empty()
    }
}

impl WorkerContext {
    fn work(&self, mut job: Job, post: &Post<Mail>, cancel: &Cancel) {
        let mut emit = |body| post.send(Mail::Input(Input::Note(Note { job: job.id.clone(), body })));
        // Only running calls write files.
        let none = FileChanges::default();
        match &mut job.work {
            Work::Think(think) => {
                let answer = self.think(&job.id.task, think, cancel, &mut emit);
                emit(NoteBody::Answered(answer));
            }
            Work::Attach { workspace, prompt, blob_room } => {
                let ctx = self.ctx(&job.id.task, workspace, cancel, &none).ok();
                let found = ctx.and_then(|ctx| self.attach(&prompt.text(), job.parent.as_ref(), &ctx));
                let mut found = found.unwrap_or_default();
                self.store_texts([&mut found.text], blob_room);
                if !self.store_media(&mut found.media, blob_room) {
                    found = Attachments { text: NO_ROOM.into(), media: Vec::new() };
                }
                emit(NoteBody::Attached(found));
            }
            Work::Command(command) => {
                emit(NoteBody::Commanded(self.commands.run(command, &self.prompt_context)));
            }
            Work::Compact(think) => {
                let loaded = self.load_content(think);
                let surroundings = || self.prompt_context.of(&job.id.task, &think.workspace);
                let request = ModelRequest { think, tools: &self.specs, surroundings: &surroundings };
                let compacted = loaded.and_then(|()| compact::compact(&*self.backend, &request, cancel));
                self.prompt_context.forget_met(&job.id.task);
                emit(NoteBody::Compacted(compacted));
            }
            Work::Prepare { workspace, calls, blob_room } => {
                let mut prepared = match self.ctx(&job.id.task, workspace, cancel, &none) {
                    Ok(ctx) => self.toolbox.prepare(calls, &ctx),
                    Err(error) => vec![Err(error); calls.len()],
                };
                self.store_texts(prepared.iter_mut().flatten().flat_map(Plan::texts_mut), blob_room);
                emit(NoteBody::Prepared(prepared));
            }
            Work::Run(run) => {
                let changes = FileChanges::new(self.blobs.clone(), run.blob_room);
                let end = match self.ctx(&job.id.task, &run.workspace, cancel, &changes) {
                    Ok(ctx) => self.run(run, job.parent.as_ref(), &ctx, &mut |text| emit(NoteBody::Output(text))),
                    Err(error) => RunEnd::Ended(Ending::Error { error }),
                };
                match (end, changes.take()) {
                    (RunEnd::Ended(ending), changes) if !changes.is_empty() => {
                        emit(NoteBody::Edited { ending, changes })
                    }
                    (end, _) => emit(NoteBody::Ended(end)),
                }
            }
        }
    }

    fn attach(&self, prompt: &str, parent: Option<&TaskId>, ctx: &Ctx) -> Option<Attachments> {
        let mut found = attachments::attached(prompt, ctx)?;
        attachments::mentions(prompt).iter().for_each(|path| self.add_met(&mut found.text, path, parent, ctx));
        Some(found)
    }

    fn run(&self, run: &Run, parent: Option<&TaskId>, ctx: &Ctx, out: &mut dyn FnMut(String)) -> RunEnd {
        let mut end = self.toolbox.run(run, ctx, out);
        self.add_met_by(run, &mut end, parent, ctx);
        if let RunEnd::Ended(ending) = &mut end {
            let mut room = ctx.changes.room();
            self.store_texts(ending.texts_mut(), &mut room);
            if !self.store_media(ending.media_mut(), &mut room) {
                *ending = Ending::Error { error: ErrorKind::ExecutionFailed.error(NO_ROOM) };
            }
        }
        end
    }

    /// A call that has read or written a file, or listed a directory, brings the memory files of the directories on the way.
    fn add_met_by(&self, run: &Run, end: &mut RunEnd, parent: Option<&TaskId>, ctx: &Ctx) {
        let spec = self.specs.iter().find(|spec| spec.names().any(|name| name == run.name));
        let touches = spec.is_some_and(|spec| matches!(spec.kind, Kind::Read | Kind::Edit));
        let path = ["file_path", "dir_path"].iter().find_map(|name| run.args.get(name)?.as_str());
        if let (true, Some(path), RunEnd::Ended(Ending::Success { output, .. })) = (touches, path, end) {
            self.add_met(output, path, parent, ctx);
        }
    }

    fn add_met(&self, text: &mut LongText, path: &str, parent: Option<&TaskId>, ctx: &Ctx) {
        let (Ok(resolved), Some(workspace)) = (ctx.workspace.find(path), ctx.workspace.path().to_str()) else {
            return;
        };
        let mut dir = PathBuf::from(resolved.real());
        if !matches!(resolved.found, Found::Directory(_)) {
            dir.pop();
        }
        let met = self.prompt_context.met(ctx.task, parent, workspace, &dir);
        if !met.is_empty() {
            *text = format!("{text}\n\nThe project's own instructions for this directory:\n{met}").into();
        }
    }

    /// Makes a request to the model.
    fn think(
        &self,
        task: &TaskId,
        think: &mut Think,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        self.load_content(think)?;
        if let Some(set) = self.changed_tools(think) {
            emit(NoteBody::Tools(set));
        }
        let surroundings = || self.prompt_context.of(task, &think.workspace);
        let request = ModelRequest { think, tools: &self.specs, surroundings: &surroundings };
        let mut answer = self.backend.answer(&request, cancel, emit)?;
        answer.store_media(&*self.blobs, &self.settings.limits, &mut think.blob_room);
        Ok(answer)
    }

    /// Where a client's task may work: in the server's workspace, or in a directory below an allowed root.
    pub fn resolve(&self, wish: &str) -> Result<Site, String> {
        let path = real_directory(wish.as_ref())?;
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(format!(
                "the workspace {} is outside of what this server allows; start it with --workspace or --allowed-root",
                path.display()
            ));
        }
        if path == Path::new(&self.site.path) { Ok(self.site.clone()) } else { self.reader.site(path) }
    }

    /// The paths in a workspace that fit a query, best first.
    pub fn find_files(&self, workspace: &str, query: &str, limit: usize) -> Result<(Vec<String>, usize), String> {
        let (task, cancel, none) = (TaskId::from(""), Cancel::default(), FileChanges::default());
        let ctx = self.ctx(&task, workspace, &cancel, &none).map_err(|error| error.message)?;
        Ok(paths::fitting(query, limit, &ctx))
    }

    /// Reads the stored content of the conversation.
    fn load_content(&self, think: &mut Think) -> Result<(), ModelError> {
        let mut room = self.settings.limits.media_bytes;
        // The newest media is what the model needs.
        let mut loaded = think.history.iter_mut().rev().map(|item| Item::load_content(item, &*self.blobs, &mut room));
        loaded.try_for_each(|item| item).map_err(|e| ModelError {
            kind: ModelErrorKind::BadStream,
            message: format!("A text of the conversation that is stored beside the journal cannot be read: {e}."),
        })
    }

    /// Stores the long ones of these texts, before the event that names them.
    fn store_texts<'a>(&self, texts: impl IntoIterator<Item = &'a mut LongText>, room: &mut u64) {
        texts.into_iter().for_each(|text| text.store(&*self.blobs, &self.settings.limits, room));
    }

    /// Stores the long ones of these media. False: one could not be stored, and it is too long for the journal.
    fn store_media(&self, media: &mut [Media], room: &mut u64) -> bool {
        media.iter_mut().all(|Media { content, .. }| {
            content.store(&*self.blobs, &self.settings.limits, room);
            content.unload();
            content.blob().is_some() || content.data().is_some_and(|data| data.len() <= INLINE_BYTES)
        })
    }

    /// The tools that the model is told of, if the log has others. Their declarations are stored first; if that fails, the next
    /// request tries again.
    fn changed_tools(&self, think: &Think) -> Option<ToolSet> {
        let told: Vec<&ToolSpec> = self.specs.iter().filter(|spec| spec.is_among(think.tools.as_deref())).collect();
        let declarations = json::bytes(&told.iter().map(|spec| spec.declaration()).collect::<Vec<_>>());
        if think.declared.as_deref() == Some(&sha256(&declarations)) {
            return None;
        }
        let declarations = BlobRef::put(&*self.blobs, &declarations).ok()?;
        Some(ToolSet { names: told.into_iter().map(|spec| spec.name.clone()).collect(), declarations })
    }

    fn ctx<'a>(
        &'a self,
        task: &'a TaskId,
        workspace: &str,
        cancel: &'a Cancel,
        changes: &'a FileChanges,
    ) -> Result<Ctx<'a>, CallError> {
        let mut workspace = crate::tool::files::path::Workspace::open(workspace.as_ref()).map_err(|error| {
            let message = format!("The workspace {workspace} cannot be opened: {error}");
            ErrorKind::ExecutionFailed.error(message)
        })?;
        let context = &self.settings.context;
        workspace.ignore_files = context.ignore_files.iter().map(PathBuf::from).collect();
        workspace.wanted = wanted(context);
        Ok(Ctx {
            workspace,
            others: self.prompt_context.others(context),
            cancel,
            limits: &self.settings.limits,
            children: match &self.children {
                Some(children) => children,
                None => &NoPrograms,
            },
            task,
            background: &self.background,
            web: &self.web,
            ask: self.ask.as_deref(),
            changes,
            outputs: &self.outputs,
        })
    }
}
