//! Tasks: their summaries, which of them are in memory, and how their inputs are decided and recorded. The type [`Tasks`] knows nothing of
//! connections.

pub(in crate::core) mod create_task;
pub(in crate::core) mod drive;
pub(in crate::core) mod expiry;
pub(in crate::core) mod list;
pub(in crate::core) mod loaded_task;
pub(in crate::core) mod memory;
pub(in crate::core) mod register;
pub(in crate::core) mod shared;
pub(in crate::core) mod size;

use crate::base::id::{CallId, ContextId, Seq, Subject, TaskId};
use crate::core::access::counts::CountsByCredential;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::tasks::register::Register;
use crate::limits::Times;
use crate::task::access::{Partition, Principal};
use crate::task::log::brief::Brief;
use crate::task::log::event::Created;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Index;

/// All tasks.
pub(in crate::core) struct Tasks {
    loaded: HashMap<TaskId, LoadedTask>,
    /// The summaries of all tasks, loaded or not.
    pub known: Register,
    /// The tasks of each context, oldest first. A new one continues the latest.
    contexts: HashMap<(Partition, ContextId), Vec<TaskId>>,
    /// The live session of each subject: the task that messages go to which name none. Its context has the same id.
    pub sessions: HashMap<Subject, TaskId>,
    /// Sums over the loaded tasks: encoded events that are kept for readers, the lengths of the logs, and the memory.
    pub hot_bytes: usize,
    pub log_bytes: usize,
    pub memory: usize,
    /// How many turns of each credential are under way in the loaded tasks.
    pub turns: CountsByCredential,
}

impl Tasks {
    pub fn new(times: Times) -> Tasks {
        Tasks {
            loaded: HashMap::new(),
            known: Register::new(times),
            contexts: HashMap::new(),
            sessions: HashMap::new(),
            hot_bytes: 0,
            log_bytes: 0,
            memory: 0,
            turns: CountsByCredential::default(),
        }
    }

    // Tasks in memory.

    pub fn get(&self, task: &TaskId) -> Option<&LoadedTask> {
        self.loaded.get(task)
    }

    /// For changes that do not affect the sums; see [`Tasks::update`].
    pub fn get_mut(&mut self, task: &TaskId) -> Option<&mut LoadedTask> {
        self.loaded.get_mut(task)
    }

    /// Changes a task and updates the sums.
    pub fn update<R>(&mut self, task: &TaskId, change: impl FnOnce(&mut LoadedTask) -> R) -> Option<R> {
        let loaded = self.loaded.get_mut(task)?;
        let before = (loaded.hot_bytes, loaded.log_bytes, loaded.memory());
        let ran = loaded.running_credential().cloned();
        let result = change(loaded);
        self.hot_bytes = self.hot_bytes + loaded.hot_bytes - before.0;
        self.log_bytes = self.log_bytes + loaded.log_bytes - before.1;
        self.memory = self.memory + loaded.memory() - before.2;
        let runs = loaded.running_credential().cloned();
        if ran != runs {
            self.turns.remove(ran);
            self.turns.add(runs);
        }
        Some(result)
    }

    /// How many turns of a credential are under way. A turn that waits for an answer is not.
    pub fn running_turns(&self, credential: &str) -> usize {
        self.turns.get(credential)
    }

    pub fn is_loaded(&self, task: &TaskId) -> bool {
        self.loaded.contains_key(task)
    }

    pub fn len(&self) -> usize {
        self.loaded.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TaskId, &LoadedTask)> {
        self.loaded.iter()
    }

    pub fn values(&self) -> impl Iterator<Item = &LoadedTask> {
        self.loaded.values()
    }

    /// The loaded tasks with an unfinished turn or an open question, in the order of their ids.
    pub fn open(&self) -> Vec<TaskId> {
        let open = self.loaded.iter().filter(|(_, loaded)| loaded.is_open());
        let mut open: Vec<TaskId> = open.map(|(task, _)| task.clone()).collect();
        open.sort_unstable();
        open
    }

    pub fn insert(&mut self, task: TaskId, loaded: LoadedTask) {
        self.known.insert(task.clone(), Brief::of(&loaded.state));
        self.hot_bytes += loaded.hot_bytes;
        self.log_bytes += loaded.log_bytes;
        self.memory += loaded.memory();
        self.turns.add(loaded.running_credential().cloned());
        self.loaded.insert(task, loaded);
    }

    pub fn unload(&mut self, task: &TaskId) -> Option<LoadedTask> {
        let loaded = self.loaded.remove(task)?;
        self.hot_bytes -= loaded.hot_bytes;
        self.log_bytes -= loaded.log_bytes;
        self.memory -= loaded.memory();
        self.turns.remove(loaded.running_credential().cloned());
        Some(loaded)
    }

    /// The task in which this call waits for an answer: `preferred`, or else the only other one. Call ids come from the model, so
    /// two tasks may have the same; then the client has to name the task.
    pub fn with_question(&self, call: &CallId, preferred: Option<&TaskId>, principal: &Principal) -> Option<TaskId> {
        let waits = |loaded: &LoadedTask| {
            let Created { tenant, owner, shared, .. } = &*loaded.state.created;
            let mut asked = loaded.state.asked();
            tenant.is_default() && principal.sees(owner, *shared) && asked.any(|asked| asked.id() == call)
        };
        let own = preferred.filter(|task| self.loaded.get(*task).is_some_and(waits));
        let mut others = self.loaded.iter().filter(|(_, loaded)| waits(loaded));
        let only = || match (others.next(), others.next()) {
            (Some((task, _)), None) => Some(task),
            (Some(_), Some(_)) | (None, _) => None,
        };
        own.or_else(only).cloned()
    }

    // The register.

    /// Updates the summary of a loaded task.
    pub fn update_brief(&mut self, task: &TaskId) {
        if let Some(loaded) = self.loaded.get(task) {
            self.known.insert(task.clone(), Brief::of(&loaded.state));
        }
    }

    /// Adds a task that was found in the store.
    pub fn register(&mut self, task: TaskId, brief: Brief) {
        self.add_to_context(&task, &brief.partition(), &brief.context);
        // Only a session has the id of its context; the latest one that is not over is the live session.
        if task.as_str() == brief.context.as_str() && !brief.state.is_terminal() {
            self.sessions.insert(brief.owner.clone(), task.clone());
        }
        self.known.insert(task, brief);
    }

    /// Removes a task that is not loaded from the register. The tasks that it continued may be due for removal: it has kept them.
    pub fn forget(&mut self, task: &TaskId, unix_ms: u64) -> Option<Brief> {
        self.sessions.retain(|_, session| session != task);
        let brief = self.known.remove(task)?;
        if let Entry::Occupied(mut tasks) = self.contexts.entry((brief.partition(), brief.context.clone())) {
            tasks.get_mut().retain(|known| known != task);
            for before in tasks.get() {
                self.known.put_off(before.clone(), unix_ms);
            }
            if tasks.get().is_empty() {
                tasks.remove();
            }
        }
        Some(brief)
    }

    // Contexts and the session.

    pub fn add_to_context(&mut self, task: &TaskId, partition: &Partition, context: &ContextId) {
        self.contexts.entry((partition.clone(), context.clone())).or_default().push(task.clone());
    }

    /// The tasks of a context, oldest first.
    pub fn of_context(&self, partition: &Partition, context: &ContextId) -> &[TaskId] {
        self.contexts.get(&(partition.clone(), context.clone())).map_or(&[], Vec::as_slice)
    }

    /// The task that a new one in this context continues.
    pub fn latest(&self, partition: &Partition, context: &ContextId) -> Option<&TaskId> {
        self.of_context(partition, context).last()
    }

    /// A new task in the context of this one continues it.
    pub fn make_latest(&mut self, task: &TaskId) {
        let Some(brief) = self.known.get(task) else {
            return;
        };
        let tasks = self.contexts.entry((brief.partition(), brief.context.clone())).or_default();
        tasks.retain(|known| known != task);
        tasks.push(task.clone());
    }

    /// The next task in this context continues none.
    pub fn begin_context_anew(&mut self, partition: &Partition, context: &ContextId) {
        self.contexts.remove(&(partition.clone(), context.clone()));
    }

    /// Whether a later task continues this one.
    pub fn is_continued(&self, task: &TaskId) -> bool {
        let brief = self.known.get(task);
        let latest = brief.and_then(|brief| self.latest(&brief.partition(), &brief.context));
        latest.is_some_and(|latest| latest != task)
    }

    /// Whether a new task continues another one from a position that is not on disk: after a crash that position would hold
    /// something else.
    pub fn continues_unwritten(&self, task: &TaskId) -> bool {
        let new = self.loaded.get(task).filter(|loaded| loaded.written == Seq(0));
        let parent = new.and_then(|loaded| loaded.state.created.parent.as_ref());
        parent.is_some_and(|(parent, upto)| self.loaded.get(parent).is_some_and(|loaded| loaded.written < *upto))
    }

    /// Whether a task of which nothing is shown yet continues another one from a position that is not shown.
    pub fn continues_unshown(&self, task: &TaskId) -> bool {
        let new = self.loaded.get(task).filter(|loaded| loaded.shown() == Seq(0));
        let parent = new.and_then(|loaded| loaded.state.created.parent.as_ref());
        parent.is_some_and(|(parent, upto)| self.loaded.get(parent).is_some_and(|loaded| loaded.shown() < *upto))
    }

    /// Whether a task is a live session.
    pub fn is_session(&self, task: &TaskId) -> bool {
        self.sessions.values().any(|session| session == task)
    }

    /// The live session of a subject, unless it is over.
    pub fn live_session(&self, owner: &Subject) -> Option<&TaskId> {
        let session = self.sessions.get(owner)?;
        let brief = self.known.get(session)?;
        (!brief.state.is_terminal()).then_some(session)
    }
}

impl Index<&TaskId> for Tasks {
    type Output = LoadedTask;

    fn index(&self, task: &TaskId) -> &LoadedTask {
        &self.loaded[task]
    }
}
