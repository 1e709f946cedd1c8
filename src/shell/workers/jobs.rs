//! Runs the jobs of the core on lanes, and sends their results to the loop.

mod calls;
pub mod client_keys;
mod commands;
mod hooks;
mod people;
mod tools;
#[cfg(feature = "webhooks")]
pub mod webhook;
#[cfg(not(feature = "webhooks"))]
#[path = "jobs/webhook/none.rs"]
pub mod webhook;

use crate::base::cancel::Cancel;
use crate::base::id::{Seq, TaskId};
use crate::base::secret::Secret;
use crate::config::settings::Settings;
use crate::core::disk::store::{Archive, Maintenance, StoreError};
use crate::core::{HookNotice, Input, Site};
use crate::limits::INLINE_BYTES;
use crate::mcp::config::Server;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::compact;
use crate::shell::access::credentials::CredentialsReader;
use crate::shell::access::keys::KeySource;
use crate::shell::children::Children;
use crate::shell::journal::saved_rules;
use crate::shell::peers::peer_check::Answers;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::lanes::{Full, Lane, Lanes, Outbox, Unread};
use crate::shell::workers::prompt_context::{PromptContext, wanted};
use crate::shell::workers::slash_commands::Commands;
use crate::task::definitions::command_hook::HookPoint;
use crate::task::definitions::slash::Command;
use crate::task::log::answer::Answer;
use crate::task::log::blob::Blobs;
use crate::task::log::event::Created;
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::machine::job::{
    Attachments, Job, JobId, ModelError, ModelErrorKind, Note, NoteBody, Run, RunEnd, Think, Work,
};
use crate::task::machine::state::Item;
use crate::task::policy::{self, Policy, Rule};
use crate::task::spec::{CallError, Ending, ErrorKind, Kind, ToolSpec, path_argument};
use crate::tool::commands::background::Background;
use crate::tool::files::attachments;
use crate::tool::files::changes::FileChanges;
use crate::tool::files::kept_output::KeptOutputs;
use crate::tool::files::path::PathTarget;
use crate::tool::invoke_agent::Agents;
use crate::tool::mcp_call::{McpScope, McpServers};
use crate::tool::people::Nobody;
use crate::tool::web::Web;
use crate::tool::{Ask, Ctx, NoPrograms, Toolbox};
use calls::CallSite;
use client_keys::ClientKeys;
use hooks::HookSite;
use people::{JobPeople, Replies};
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webhook::Webhooks;

/// The text that the model gets in place of media that cannot be stored.
const NO_ROOM: &str = "The file cannot be shown: its content cannot be stored, because the task has stored as much as it may or the \
                       disk is full. Tell the user to start a new task.";

/// A message from a worker to the loop. Nearly all messages are notes, which are the largest variant, so boxing them would only cost time.
#[allow(clippy::large_enum_variant)]
pub enum WorkerMessage {
    Input(Input<'static>),
    Identified(Answers),
    /// A warning for the log.
    Warning(String),
}

impl WorkerMessage {
    fn note(job: JobId, body: NoteBody) -> WorkerMessage {
        WorkerMessage::Input(Input::Note(Note { job, body }))
    }
}

/// What every job may use.
pub struct WorkerContext {
    pub backend: Arc<dyn ModelBackend>,
    /// Answers questions of tools to a model; None if the back-end cannot.
    pub ask: Option<Arc<dyn Ask>>,
    pub toolbox: Toolbox,
    pub specs: Vec<ToolSpec>,
    /// None if no commands can be started.
    pub children: Option<Arc<Children>>,
    pub prompt_context: PromptContext,
    pub commands: Commands,
    pub background: Background,
    pub web: Web,
    pub mcp: Arc<dyn McpServers>,
    pub agents: Arc<dyn Agents>,
    /// The policy when the server started: the tools that it denies are not declared.
    pub policy: Policy,
    /// Keeps output of commands that is too long for a result.
    pub outputs: KeptOutputs,
    pub webhooks: Webhooks,
    /// The keys of clients for the model API.
    pub keys: ClientKeys,
    /// The credentials file, if clients are known by credentials.
    pub credentials: Option<CredentialsReader>,
    /// Fetches the keys of the identity provider.
    pub identity: Option<KeySource>,
    pub archive: Arc<dyn Archive>,
    /// Stores the content of files that calls change.
    pub blobs: Arc<dyn Blobs>,
    /// The server's own workspace.
    pub site: Site,
    /// All directories that tasks may work below.
    pub roots: Vec<PathBuf>,
    pub reader: SettingsReader,
    pub settings: Settings,
}

pub struct Jobs {
    pub lanes: Lanes<WorkerMessage>,
    context: Arc<WorkerContext>,
    /// Jobs that were started and have not reported their end.
    running: HashMap<JobId, (Cancel, Replies)>,
    /// Messages that were made here and not by a worker.
    own: Vec<WorkerMessage>,
    /// There were unread messages after the last [`Jobs::drain`].
    has_more: bool,
}

impl Jobs {
    pub fn new(lanes: Lanes<WorkerMessage>, context: WorkerContext) -> Jobs {
        Jobs { lanes, context: Arc::new(context), running: HashMap::new(), own: Vec::new(), has_more: false }
    }

    pub fn start(&mut self, job: Job) {
        let (cancel, replies) = (Cancel::default(), Replies::default());
        let id = job.id.clone();
        let context = self.context.clone();
        let lane = match &job.work {
            Work::Think(_) | Work::Compact(_) => Lane::Model,
            Work::Attach { .. } | Work::Command(_) | Work::Prepare { .. } | Work::Run(_) => Lane::Tool,
        };
        self.running.insert(id.clone(), (cancel.clone(), replies.clone()));
        let job_id = id.clone();
        let work = move |outbox: &Outbox<WorkerMessage>, cancel: &Cancel| context.work(job, outbox, cancel, &replies);
        let died = move |message| WorkerMessage::note(job_id, NoteBody::Died(message));
        if let Err(Full) = self.lanes.start(lane, cancel, work, died) {
            let message = "too many jobs are waiting; try again when some have ended".to_owned();
            self.own.push(WorkerMessage::note(id, NoteBody::Died(message)));
        }
    }

    pub fn stop(&mut self, job: &JobId) {
        if let Some((cancel, _)) = self.running.get(job) {
            cancel.set();
        }
    }

    /// Whether several instances share the store.
    pub fn has_shared_store(&self) -> bool {
        self.context.archive.shared().is_some()
    }

    /// A task has ended: its background processes, its MCP servers and its client's key are dropped.
    pub fn forget(&mut self, task: &TaskId) {
        self.context.background.end_task(task);
        self.context.mcp.forget(task);
        self.context.keys.forget(task);
    }

    /// Keeps the key that a client sent for a task.
    pub fn keep_key(&mut self, task: TaskId, key: Secret) {
        self.context.keys.keep(task, key);
    }

    /// Adds the MCP servers that a client has named for a task.
    pub fn adopt(&mut self, task: TaskId, servers: Vec<Server>) {
        self.context.mcp.adopt(task, servers);
    }

    /// Runs command hooks whose decisions are ignored.
    pub fn run_observing_hooks(&mut self, notice: HookNotice) {
        let context = self.context.clone();
        let HookNotice { task, workspace, point, subject, input } = notice;
        let work = move |outbox: &Outbox<WorkerMessage>, cancel: &Cancel| {
            let reports = context.run_observing_hooks(
                HookSite { task: &task, workspace: &workspace, cancel },
                point,
                &subject,
                input,
            );
            for report in reports {
                // Nothing can be added to the log of a task that has ended.
                if point == HookPoint::SessionEnd && !report.text.is_empty() {
                    outbox.send(WorkerMessage::Warning(report.text.clone()));
                }
                let job = JobId { task: task.clone(), at: Seq(0) };
                outbox.send(WorkerMessage::note(job, NoteBody::HookRan(report)));
            }
        };
        if let Err(Full) = self.lanes.start(Lane::Tool, Cancel::default(), work, WorkerMessage::Warning) {
            self.own.push(WorkerMessage::Warning(format!(
                "the hooks for {} do not run: too many jobs are waiting",
                point.word()
            )));
        }
    }

    /// Reaps processes that this process has adopted and that have ended.
    pub fn reap_adopted(&self) {
        if let Some(children) = &self.context.children {
            children.reap_adopted();
        }
    }

    /// Stops everything: the process is about to end, and nothing it started may outlive it.
    pub fn end(&mut self) {
        for (cancel, _) in self.running.values() {
            cancel.set();
        }
        self.context.mcp.end();
        if let Some(children) = &self.context.children {
            children.end_all();
        }
        self.lanes.end(Duration::from_millis(self.context.settings.limits.worker_end_ms));
    }

    /// Saves a rule that somebody has allowed permanently.
    pub fn save_rule(&mut self, rule: Rule) {
        self.change_saved("a rule could not be saved and holds only until this server ends", move |path, most| {
            saved_rules::add(path, policy::saved_rule(rule), most)
        });
    }

    /// Deletes a saved rule.
    pub fn forget_rule(&mut self, rule: Rule) {
        self.change_saved(
            "a revoked rule could not be deleted and holds again after the next start",
            move |path, most| saved_rules::remove(path, &rule, most),
        );
    }

    /// Changes the file of saved rules. `consequence` is the beginning of the warning if that fails.
    fn change_saved(
        &mut self,
        consequence: &'static str,
        change: impl FnOnce(&Path, u64) -> io::Result<()> + Send + 'static,
    ) {
        let warning = move |text: String| WorkerMessage::Warning(format!("{consequence}: {text}"));
        let Some(path) = self.context.reader.paths().saved_rules() else {
            return self.own.push(warning("there is no home directory".into()));
        };
        let most = self.context.settings.limits.settings_bytes;
        let work = move |outbox: &Outbox<WorkerMessage>, _: &Cancel| {
            if let Err(error) = change(&path, most) {
                outbox.send(warning(format!("{} cannot be written: {error}", path.display())));
            }
        };
        if let Err(Full) = self.lanes.start(Lane::Disk, Cancel::default(), work, warning) {
            self.own.push(warning("too much is waiting for the disk".into()));
        }
    }

    /// Runs maintenance of the store. Nothing waits for it.
    pub fn maintain(&mut self, maintenance: Maintenance) {
        let warning = |text: String| WorkerMessage::Warning(format!("{text}; it is tried again later"));
        // A bucket that hangs must not occupy the threads that check whether it responds.
        let lane = if self.has_shared_store() { Lane::Bucket } else { Lane::Disk };
        let work = move |outbox: &Outbox<WorkerMessage>, _: &Cancel| {
            if let Err(error) = (maintenance.0)() {
                outbox.send(warning(error.message));
            }
        };
        // A full lane drops it: the next maintenance does the same work.
        let _ = self.lanes.start(lane, Cancel::default(), work, warning);
    }

    /// Starts work whose result is one message. `failed` makes the message of an error.
    pub fn ask(
        &mut self,
        lane: Lane,
        work: impl FnOnce(&WorkerContext) -> WorkerMessage + Send + 'static,
        failed: impl FnOnce(StoreError) -> WorkerMessage + Clone + Send + 'static,
    ) {
        let (context, full) = (self.context.clone(), failed.clone());
        let work = move |outbox: &Outbox<WorkerMessage>, _: &Cancel| outbox.send(work(&context));
        let died = |message: String| failed(StoreError::new(message));
        if let Err(Full) = self.lanes.start(lane, Cancel::default(), work, died) {
            let what = if lane == Lane::Disk { "the disk" } else { "a worker" };
            self.own.push(full(StoreError::transient(format!("too much is waiting for {what}; try again later"))));
        }
    }

    /// Takes at most `max` messages of workers, and the messages that were made here.
    pub fn drain(&mut self, max: usize) -> Vec<WorkerMessage> {
        let mut into = std::mem::take(&mut self.own);
        self.has_more = self.lanes.drain(max, &mut into) == Unread::Some;
        for message in &into {
            if let WorkerMessage::Input(Input::Note(note)) = message
                && note.body.is_last()
            {
                self.running.remove(&note.job);
            }
        }
        into
    }

    /// Whether there are messages for which the poll reports no event.
    pub fn has_more(&self) -> bool {
        self.has_more || !self.own.is_empty()
    }
}

impl WorkerContext {
    fn work(&self, job: Job, outbox: &Outbox<WorkerMessage>, cancel: &Cancel, replies: &Replies) {
        let Job { id, parent, created, skills, directories, threads, mut work } = job;
        let mut emit = |body| outbox.send(WorkerMessage::note(id.clone(), body));
        let (parent, people) = (parent.as_ref(), JobPeople { outbox, job: &id, replies });
        let (skills, directories, threads) = (&*skills, &*directories, &threads);
        let at = CallSite { created: &created, parent, skills, directories, threads, people: &people, cancel };
        match &mut work {
            Work::Think(think) => {
                let answer = self.think(&created, think, cancel, &mut emit);
                emit(NoteBody::Answered(answer));
            }
            Work::Attach { workspace, prompt, blob_room } => {
                // Attaching changes no files.
                let none = FileChanges::default();
                let ctx = self.ctx(McpScope::new(&created, Path::new(&**workspace)), directories, cancel, &none).ok();
                let found = ctx.and_then(|ctx| self.attach(&prompt.text(), parent, &ctx));
                let mut found = found.unwrap_or_default();
                self.store_texts([&mut found.text], blob_room);
                if !self.store_media(&mut found.media, blob_room) {
                    found = Attachments { text: NO_ROOM.into(), media: Vec::new() };
                }
                emit(NoteBody::Attached(found));
            }
            Work::Command(command) => {
                self.add_facts(command, &created);
                let result = self.command(command, &created, cancel, &mut emit);
                emit(NoteBody::Commanded(result));
            }
            Work::Compact(think) => {
                let at = HookSite { task: &id.task, workspace: &think.workspace, cancel };
                let trigger = if think.compress { "manual" } else { "auto" };
                let reports =
                    self.run_observing_hooks(at, HookPoint::PreCompress, trigger, json!({ "trigger": trigger }));
                reports.into_iter().for_each(|report| emit(NoteBody::HookRan(report)));
                let loaded = self.load_content(think);
                let context = || self.prompt_context.of(&id.task, &think.workspace, &think.directories);
                let compacted = loaded.and_then(|()| self.keys.of(&created)).and_then(|key| {
                    let (tools, key) = (&*self.specs, key.as_ref());
                    let request = ModelRequest { think, tools, context: &context, key };
                    compact::compact(&*self.backend, &request, cancel)
                });
                self.prompt_context.forget_visited(&id.task);
                emit(NoteBody::Compacted(compacted));
            }
            Work::Prepare { workspace, calls, blob_room } => {
                self.prepare_calls(&at, workspace, calls, blob_room, &mut emit);
            }
            Work::Run(run) => self.run_call(&at, run, &mut emit),
        }
    }

    /// Adds the facts about MCP servers that a command may show, which only workers know.
    fn add_facts(&self, command: &mut Command, created: &Created) {
        let facts = Arc::make_mut(&mut command.facts);
        facts.mcp = self.mcp.counts();
        if command.invocation.path.first().is_some_and(|name| name == "tools") {
            let of_servers = self.mcp.connected(McpScope::new(created, Path::new(&*command.workspace)));
            facts.tools.extend(of_servers.into_iter().map(|spec| (spec.name, spec.description)));
        }
    }

    fn attach(&self, prompt: &str, parent: Option<&TaskId>, ctx: &Ctx) -> Option<Attachments> {
        let files = attachments::attached_files(prompt, ctx).map(|(mut found, count)| {
            attachments::mentions(prompt).iter().for_each(|path| self.add_memory(&mut found.text, path, parent, ctx));
            (found, count)
        });
        attachments::with_resources(files, prompt, ctx)
    }

    /// Adds to the output of a call that has read or written a file, or listed a directory, the memory files of the directories on its path.
    fn add_memory_of_call(&self, run: &Run, end: &mut RunEnd, parent: Option<&TaskId>, ctx: &Ctx) {
        let spec = self.specs.iter().find(|spec| spec.names().any(|name| name == run.name));
        let touches = spec.is_some_and(|spec| matches!(spec.kind, Kind::Read | Kind::Edit));
        let path = path_argument(&run.args);
        if let (true, Some(path), RunEnd::Ended(Ending::Success { output, .. })) = (touches, path, end) {
            self.add_memory(output, path, parent, ctx);
        }
    }

    /// Adds the memory files of the directories on a path that the task has not visited before.
    fn add_memory(&self, text: &mut LongText, path: &str, parent: Option<&TaskId>, ctx: &Ctx) {
        let (Ok(resolved), Some(workspace)) = (ctx.workspace.find(path), ctx.workspace.path().to_str()) else {
            return;
        };
        let mut dir = PathBuf::from(resolved.real());
        if !matches!(resolved.found, PathTarget::Directory(_)) {
            dir.pop();
        }
        let memory = self.prompt_context.memory_of_visited(ctx.task, parent, workspace, &dir);
        if !memory.is_empty() {
            *text = format!("{text}\n\nThe project's own instructions for this directory:\n{memory}").into();
        }
    }

    /// Makes a request to the model.
    fn think(
        &self,
        created: &Created,
        think: &mut Think,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let workspace = think.workspace.clone();
        let at = HookSite { task: &created.task, workspace: &workspace, cancel };
        if think.hooks_pending {
            self.begin_turn(at, think, emit)?;
        }
        self.load_content(think)?;
        let mut answer = self.ask_model(created, think, cancel, emit)?;
        answer.store_media(&*self.blobs, &self.settings.limits, &mut think.blob_room);
        if !answer.has_calls() && answer.verdict.is_none() {
            self.end_of_turn(at, think, &answer, emit);
        }
        Ok(answer)
    }

    /// Reads the stored content of the conversation.
    fn load_content(&self, think: &mut Think) -> Result<(), ModelError> {
        let mut room = self.settings.limits.media_bytes;
        // Newest first: the model needs the newest media most.
        let mut loaded = think.history.iter_mut().rev().map(|item| Item::load_content(item, &*self.blobs, &mut room));
        loaded.try_for_each(|item| item).map_err(|e| ModelError {
            kind: ModelErrorKind::BadStream,
            message: format!("A text of the conversation that is stored beside the journal cannot be read: {e}."),
        })
    }

    /// Stores the long texts among these, before the event that names them.
    fn store_texts<'a>(&self, texts: impl IntoIterator<Item = &'a mut LongText>, room: &mut u64) {
        texts.into_iter().for_each(|text| text.store(&*self.blobs, &self.settings.limits, room));
    }

    /// Stores the long media among these. False: one could not be stored, and it is too long for the journal.
    fn store_media(&self, media: &mut [Media], room: &mut u64) -> bool {
        media.iter_mut().all(|Media { content, .. }| {
            content.store(&*self.blobs, &self.settings.limits, room);
            content.unload();
            content.blob().is_some() || content.data().is_some_and(|data| data.len() <= INLINE_BYTES)
        })
    }

    fn ctx<'a>(
        &'a self,
        scope: McpScope<'a>,
        directories: &[String],
        cancel: &'a Cancel,
        changes: &'a FileChanges,
    ) -> Result<Ctx<'a>, CallError> {
        let mut workspace = crate::tool::files::path::Workspace::open(scope.workspace).map_err(|error| {
            let message = format!("The workspace {} cannot be opened: {error}", scope.workspace.display());
            ErrorKind::ExecutionFailed.error(message)
        })?;
        let context = &self.settings.context;
        workspace.ignore_files = context.ignore_files.iter().map(PathBuf::from).collect();
        workspace.ignore_sources = wanted(context);
        Ok(Ctx {
            workspace,
            others: self.prompt_context.others(context, directories),
            cancel,
            limits: &self.settings.limits,
            children: match &self.children {
                Some(children) => &**children,
                None => &NoPrograms,
            },
            task: scope.task,
            tenant: scope.tenant,
            named: scope.named,
            background: &self.background,
            web: &self.web,
            mcp: &*self.mcp,
            people: &Nobody,
            skills: &self.prompt_context,
            agents: &*self.agents,
            threads: None,
            // The server's own key is not used for a task with a client's.
            ask: self.ask.as_deref().filter(|_| !self.keys.has(scope.task)),
            changes,
            outputs: &self.outputs,
        })
    }
}
