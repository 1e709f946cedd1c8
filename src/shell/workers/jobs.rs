//! Jobs become work on lanes here, and their reports become mail for the loop.

#[cfg(feature = "webhooks")]
pub mod webhook;
#[cfg(not(feature = "webhooks"))]
#[path = "jobs/webhook/none.rs"]
pub mod webhook;

use crate::base::cancel::Cancel;
use crate::base::id::{ConfigId, Seq, TaskId};
use crate::base::slots::Key;
use crate::core::Loaded;
use crate::core::disk::store::{Chore, LogFile, Store, StoreError, fold};
use crate::core::hooks::DeliveryError;
use crate::limits::Limits;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::compact;
use crate::shell::children::Children;
use crate::shell::journal::saved_rules;
use crate::shell::peers::identity::{Answers, Inquiry};
use crate::shell::workers::lanes::{Full, Lane, Lanes, Left, Post};
use crate::shell::workers::prompt_context::PromptContext;
use crate::shell::workers::slash_commands::Commands;
use crate::task::log::event::Event;
use crate::task::machine::job::{Job, JobId, Note, NoteBody, RunEnd, Work};
use crate::task::machine::state::Item;
use crate::task::policy::{self, Rule};
use crate::task::spec::{CallError, Ending, ErrorKind, ToolSpec};
use crate::tool::commands::background::Background;
use crate::tool::files::attachments;
use crate::tool::search::ignore::Wanted;
use crate::tool::web::Web;
use crate::tool::{Ask, Ctx, Toolbox};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use webhook::Webhooks;

/// What workers tell the loop. Notes are the large ones and nearly all of them, so boxing them would only cost.
#[allow(clippy::large_enum_variant)]
pub enum Mail {
    Note(Note),
    Synced {
        task: TaskId,
        upto: Seq,
        result: Result<(), StoreError>,
    },
    /// Something for the log.
    Warning(String),
    Paged {
        sub: Key,
        page: Result<Vec<u8>, StoreError>,
    },
    Loaded {
        task: TaskId,
        result: Result<Box<Loaded>, StoreError>,
    },
    Delivered {
        task: TaskId,
        hook: ConfigId,
        seq: Seq,
        result: Result<(), DeliveryError>,
    },
    Identified(Answers),
}

/// What the settings say about ignore files.
pub struct Ignored {
    pub wanted: Wanted,
    pub files: Vec<PathBuf>,
}

/// What every job may use.
pub struct WorkerContext {
    pub backend: Arc<dyn ModelBackend>,
    /// For tools that ask a model; not every back-end can be asked.
    pub ask: Option<Arc<dyn Ask>>,
    pub toolbox: Toolbox,
    pub specs: Vec<ToolSpec>,
    pub children: Children,
    pub prompt_context: PromptContext,
    pub commands: Commands,
    pub background: Background,
    pub web: Web,
    pub webhooks: Webhooks,
    /// Where rules are kept that people allowed for good; None when there is no home for them.
    pub saved: Option<PathBuf>,
    /// Which ignore files hide things from tools, beside the ordinary ones.
    pub ignored: Ignored,
    /// Names this server's children; see `children.rs`.
    pub instance: String,
    pub limits: Limits,
}

pub struct Jobs {
    lanes: Lanes<Mail>,
    context: Arc<WorkerContext>,
    /// Jobs that were started and have not reported their end.
    running: HashMap<JobId, Cancel>,
    /// Mail made here and not by a worker.
    own: Vec<Mail>,
    more: bool,
}

impl Jobs {
    pub fn new(lanes: Lanes<Mail>, context: WorkerContext) -> Jobs {
        Jobs { lanes, context: Arc::new(context), running: HashMap::new(), own: Vec::new(), more: false }
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
        let died = move |message| Mail::Note(Note { job: whose, body: NoteBody::Died(message) });
        if let Err(Full) = self.lanes.start(lane, cancel, work, died) {
            let message = "too many jobs are waiting; try again when some have ended".to_owned();
            self.own.push(Mail::Note(Note { job: id, body: NoteBody::Died(message) }));
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

    /// Stops everything: the process is about to end, and nothing it started may outlive it.
    pub fn end(&mut self) {
        for cancel in self.running.values() {
            cancel.set();
        }
        self.context.children.end_all();
    }

    pub fn sync(&mut self, store: &mut dyn Store, task: TaskId, upto: Seq) {
        match store.file(&task) {
            Ok(file) => {
                let whose = task.clone();
                let done = move |result| Mail::Synced { task, upto, result };
                let dead = move |message| Mail::Synced { task: whose, upto, result: Err(broken(message)) };
                self.disk(move || done(file.sync()), dead);
            }
            Err(error) => self.own.push(Mail::Synced { task, upto, result: Err(error) }),
        }
    }

    pub fn page(&mut self, store: &mut dyn Store, task: &TaskId, sub: Key, offset: u64) {
        let max = self.context.limits.page_bytes;
        match store.file(task) {
            Ok(file) => self.disk(
                move || Mail::Paged { sub, page: file.page(offset, max) },
                move |message| Mail::Paged { sub, page: Err(broken(message)) },
            ),
            Err(error) => self.own.push(Mail::Paged { sub, page: Err(error) }),
        }
    }

    /// Reads a task back, with the conversation it continues.
    pub fn load(&mut self, store: &mut dyn Store, task: TaskId) {
        match ancestry(store, &task) {
            Ok(files) => {
                let whose = task.clone();
                self.disk(
                    move || Mail::Loaded { task, result: load(&files).map(Box::new) },
                    move |message| Mail::Loaded { task: whose, result: Err(broken(message)) },
                );
            }
            Err(error) => self.own.push(Mail::Loaded { task, result: Err(error) }),
        }
    }

    /// Finds out which processes are behind connections.
    pub fn identify(&mut self, inquiry: Inquiry) {
        let connections = inquiry.connections();
        self.disk(
            move || Mail::Identified(inquiry.run()),
            move |message| Mail::Identified(Answers::unavailable(connections, &message)),
        );
    }

    /// Keeps a rule that somebody allowed for good.
    pub fn save(&mut self, rule: Rule) {
        let Some(path) = self.context.saved.clone() else {
            let text = "a rule holds for its task only: there is no home directory to keep it in";
            return self.own.push(Mail::Warning(text.into()));
        };
        let most = self.context.limits.settings_bytes;
        let rule = policy::kept(rule);
        let trouble = |text: String| Mail::Warning(format!("a rule holds for its task only: {text}"));
        let work = move |post: &Post<Mail>, _: &Cancel| {
            if let Err(error) = saved_rules::add(&path, rule, most) {
                post.send(trouble(format!("{} cannot be written: {error}", path.display())));
            }
        };
        if let Err(Full) = self.lanes.start(Lane::Disk, Cancel::default(), work, trouble) {
            self.own.push(trouble("too much is waiting for the disk".into()));
        }
    }

    /// Keeps the store in order. Nobody waits for it.
    pub fn tidy(&mut self, chore: Chore) {
        let trouble = |text: String| Mail::Warning(format!("{text}; it is tried again later"));
        let work = move |post: &Post<Mail>, _: &Cancel| {
            if let Err(error) = chore() {
                post.send(trouble(error.message));
            }
        };
        // A lane that is full has better things to do; the next chore makes up for this one.
        let _ = self.lanes.start(Lane::Disk, Cancel::default(), work, trouble);
    }

    fn disk(
        &mut self,
        work: impl FnOnce() -> Mail + Send + 'static,
        dead: impl FnOnce(String) -> Mail + Clone + Send + 'static,
    ) {
        let full = dead.clone();
        let work = move |post: &Post<Mail>, _: &Cancel| post.send(work());
        if let Err(Full) = self.lanes.start(Lane::Disk, Cancel::default(), work, dead) {
            self.own.push(full("too much is waiting for the disk; try again later".into()));
        }
    }

    pub fn drain(&mut self, max: usize, into: &mut Vec<Mail>) -> Left {
        self.more = false;
        into.append(&mut self.own);
        let left = self.lanes.drain(max, into);
        for piece in into.iter() {
            if let Mail::Note(note) = piece
                && note.body.is_last()
            {
                self.running.remove(&note.job);
            }
        }
        left
    }

    /// Mail was left over: come back without waiting.
    pub fn more(&mut self) {
        self.more = true;
    }

    pub fn has_more(&self) -> bool {
        self.more || !self.own.is_empty()
    }
}

impl WorkerContext {
    fn work(&self, job: Job, post: &Post<Mail>, cancel: &Cancel) {
        let mut emit = |body| post.send(Mail::Note(Note { job: job.id.clone(), body }));
        match &job.work {
            Work::Think(think) => {
                let surroundings = || self.prompt_context.of(&job.id.task, &think.workspace);
                let request = ModelRequest { think, tools: &self.specs, surroundings: &surroundings };
                let answer = self.backend.answer(&request, cancel, &mut emit);
                emit(NoteBody::Answered(answer));
            }
            Work::Attach { workspace, prompt } => {
                let ctx = self.ctx(&job.id.task, workspace, cancel).ok();
                let found = ctx.and_then(|ctx| attachments::attached(prompt, &ctx));
                emit(NoteBody::Attached(found));
            }
            Work::Command(command) => {
                emit(NoteBody::Commanded(self.commands.run(command, &self.prompt_context)));
            }
            Work::Compact(think) => {
                let surroundings = || self.prompt_context.of(&job.id.task, &think.workspace);
                let request = ModelRequest { think, tools: &self.specs, surroundings: &surroundings };
                emit(NoteBody::Compacted(compact::compact(&*self.backend, &request, cancel)));
            }
            Work::Prepare { workspace, calls } => {
                let prepared = match self.ctx(&job.id.task, workspace, cancel) {
                    Ok(ctx) => self.toolbox.prepare(calls, &ctx),
                    Err(error) => vec![Err(error); calls.len()],
                };
                emit(NoteBody::Prepared(prepared));
            }
            Work::Run(run) => {
                let end = match self.ctx(&job.id.task, &run.workspace, cancel) {
                    Ok(ctx) => self.toolbox.run(run, &ctx, &mut |text| emit(NoteBody::Output(text))),
                    Err(error) => RunEnd::Ended(Ending::Error { error }),
                };
                emit(NoteBody::Ended(end));
            }
        }
    }

    fn ctx<'a>(&'a self, task: &'a TaskId, workspace: &str, cancel: &'a Cancel) -> Result<Ctx<'a>, CallError> {
        let workspace = crate::tool::files::path::Workspace::open(workspace.as_ref()).map_err(|error| {
            let message = format!("The workspace {workspace} cannot be opened: {error}");
            ErrorKind::ExecutionFailed.error(message)
        })?;
        let workspace = workspace.with_ignore_files(self.ignored.files.clone()).respecting(self.ignored.wanted);
        Ok(Ctx {
            workspace,
            cancel,
            limits: &self.limits,
            children: &self.children,
            task,
            background: &self.background,
            web: &self.web,
            ask: self.ask.as_deref(),
        })
    }
}

fn broken(message: String) -> StoreError {
    StoreError::new(message)
}

/// The most tasks one conversation may go back through.
const GENERATIONS: usize = 64;

/// A task's log and those of the tasks it continues, each up to the position it continues from.
type Ancestry = Vec<(Arc<dyn LogFile>, Option<Seq>)>;

fn ancestry(store: &mut dyn Store, task: &TaskId) -> Result<Ancestry, StoreError> {
    let mut files: Ancestry = vec![(store.file(task)?, None)];
    while let Some((file, _)) = files.last()
        && files.len() < GENERATIONS
    {
        let Some((parent, upto)) = parent(file.as_ref()) else {
            break;
        };
        // A parent that cannot be read (retired, damaged, loaded by another server) ends what is remembered.
        match store.lend(&parent) {
            Ok(file) => files.push((file, Some(upto))),
            Err(_) => break,
        }
    }
    Ok(files)
}

fn parent(file: &dyn LogFile) -> Option<(TaskId, Seq)> {
    let page = file.page(0, 1).ok()?;
    let line = page.split(|byte| *byte == b'\n').next()?;
    match crate::task::log::record::Record::read(line).ok()?.event {
        Event::Created(created) => created.parent.clone(),
        _ => None,
    }
}

fn load(files: &Ancestry) -> Result<Loaded, StoreError> {
    let mut inherited: Vec<Arc<Item>> = Vec::new();
    for (file, upto) in files.iter().skip(1).rev() {
        match fold(file.as_ref(), *upto) {
            Ok(state) => inherited.extend(state.history),
            Err(_) => inherited.clear(),
        }
    }
    let (file, _) = files.first().expect("an ancestry begins with the task itself");
    let state = fold(file.as_ref(), None)?;
    let bytes = files.iter().map(|(file, _)| file.len() as usize).sum();
    Ok(Loaded { state, inherited, bytes })
}
