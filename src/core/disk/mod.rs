//! The queues of work for the disk: what is to be appended, loaded, closed and removed, which requests wait for that, and whether
//! the store can be written. No I/O is done here; files are in `shell/journal`.

pub(in crate::core) mod health;
pub mod request;
pub mod store;

use crate::a2a;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::Site;
use crate::core::disk::health::DiskHealth;
use crate::task::call::Call;
use crate::task::log::brief::Brief;
use crate::task::message::Source;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

/// A request that waits for the disk.
pub(in crate::core) struct Parked {
    pub conn: Key,
    pub call: Call,
    pub form: a2a::Form,
    pub by: Source,
    /// Tasks that are left out of a list: they cannot be read.
    pub without: Vec<TaskId>,
    /// The tasks on the page of a list, which have to be in memory at the same time.
    pub page: Vec<TaskId>,
    /// The workspace that a new task gets, once it was looked for.
    pub site: Option<Result<Site, String>>,
}

impl Parked {
    pub fn new(conn: Key, call: Call, form: a2a::Form, by: Source) -> Parked {
        Parked { conn, call, form, by, without: Vec::new(), page: Vec::new(), site: None }
    }
}

/// What waits for the disk.
#[derive(Default)]
pub(in crate::core) struct Disk {
    pub health: DiskHealth,
    /// The requests that wait for a task to be loaded. An empty list: it is loaded without a waiting request.
    parked: HashMap<TaskId, Vec<Parked>>,
    /// Tasks that were left open and are not loaded yet, for lack of room.
    unrestored: VecDeque<TaskId>,
    /// How often a log was asked for while another process had it.
    busy: HashMap<TaskId, u32>,
    /// Tasks that are loaded to be taken over.
    to_own: HashSet<TaskId>,
    /// Tasks that were loaded only to be closed.
    loaded_for_expiry: Vec<TaskId>,
    /// Requests that wait for a workspace to be looked for, by number.
    resolving: HashMap<u64, Parked>,
    requests: u64,
    /// Tasks whose log is being deleted.
    removing: HashMap<TaskId, Brief>,
    /// Tasks that have left memory, tasks with lines to append, and tasks whose log has grown on disk.
    to_close: Vec<TaskId>,
    to_append: Vec<TaskId>,
    to_release: Vec<TaskId>,
    /// Requests for a list of the tasks.
    to_list: Vec<Parked>,
    /// [`Timer::Summaries`](crate::core::timers::Timer::Summaries) is armed.
    pub summaries_armed: bool,
}

impl Disk {
    // Loading.

    /// Has a task loaded; true if that is to be asked for now.
    pub fn load(&mut self, task: &TaskId) -> bool {
        match self.parked.entry(task.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(none) => {
                none.insert(Vec::new());
                true
            }
        }
    }

    /// Keeps a request until the task is loaded.
    pub fn park(&mut self, task: &TaskId, request: Parked) {
        self.parked.entry(task.clone()).or_default().push(request);
    }

    /// The task was loaded, or cannot be: these requests waited for it.
    pub fn take_parked(&mut self, task: &TaskId) -> Vec<Parked> {
        self.busy.remove(task);
        self.parked.remove(task).unwrap_or_default()
    }

    /// Another process has the log: whether to ask for it again later.
    pub fn retries(&mut self, task: &TaskId, most: u32) -> bool {
        let tries = self.busy.entry(task.clone()).or_default();
        *tries += 1;
        *tries < most
    }

    /// The task is to be taken over when it is loaded.
    pub fn own(&mut self, task: TaskId) {
        self.to_own.insert(task);
    }

    /// Whether a task that was loaded is to be taken over.
    pub fn is_to_own(&mut self, task: &TaskId) -> bool {
        self.to_own.remove(task)
    }

    pub fn is_loading(&self, task: &TaskId) -> bool {
        self.parked.contains_key(task)
    }

    pub fn loading(&self) -> usize {
        self.parked.len()
    }

    /// The tasks that lists wait for: they have to stay in memory.
    pub fn awaited(&self) -> HashSet<&TaskId> {
        self.parked.values().flatten().chain(&self.to_list).flat_map(|request| &request.page).collect()
    }

    pub fn restore_later(&mut self, task: TaskId) {
        self.unrestored.push_back(task);
    }

    pub fn next_unrestored(&mut self) -> Option<TaskId> {
        self.unrestored.pop_front()
    }

    /// There is no room for it yet.
    pub fn put_back(&mut self, task: TaskId) {
        self.unrestored.push_front(task);
    }

    /// The task is loaded only to be closed.
    pub fn load_for_expiry(&mut self, task: TaskId) {
        self.loaded_for_expiry.push(task);
    }

    /// Tasks that were loaded only to be closed, or could not be loaded.
    pub fn take_loaded_for_expiry(&mut self) -> Vec<TaskId> {
        let (loading, done) =
            std::mem::take(&mut self.loaded_for_expiry).into_iter().partition(|task| self.parked.contains_key(task));
        self.loaded_for_expiry = loading;
        done
    }

    /// Keeps a request until its workspace was looked for; gives its number.
    pub fn park_for_site(&mut self, request: Parked) -> u64 {
        self.requests += 1;
        self.resolving.insert(self.requests, request);
        self.requests
    }

    pub fn take_resolved(&mut self, request: u64) -> Option<Parked> {
        self.resolving.remove(&request)
    }

    /// The log of this task is being deleted; the brief is kept in case that fails.
    pub fn removing(&mut self, task: TaskId, brief: Brief) {
        self.removing.insert(task, brief);
    }

    pub fn take_removing(&mut self, task: &TaskId) -> Option<Brief> {
        self.removing.remove(task)
    }

    // Appending and closing.

    pub fn append_later(&mut self, task: &TaskId) {
        self.to_append.push(task.clone());
    }

    pub fn take_to_append(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.to_append)
    }

    /// For the checks of invariants: tasks to append, and whether nothing waits to be released.
    #[cfg(debug_assertions)]
    pub fn inspect(&self) -> (&[TaskId], bool) {
        (&self.to_append, self.to_release.is_empty())
    }

    pub fn has_to_append(&self) -> bool {
        !self.to_append.is_empty()
    }

    pub fn release_later(&mut self, task: &TaskId) {
        self.to_release.push(task.clone());
    }

    pub fn take_to_release(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.to_release)
    }

    pub fn close_later(&mut self, task: TaskId) {
        self.to_close.push(task);
    }

    pub fn take_to_close(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.to_close)
    }

    // Lists.

    pub fn list_later(&mut self, request: Parked) {
        self.to_list.push(request);
    }

    pub fn take_to_list(&mut self) -> Vec<Parked> {
        std::mem::take(&mut self.to_list)
    }

    /// Whether there is work left that waits for no event.
    pub fn has_more(&self) -> bool {
        !self.to_append.is_empty() || !self.to_close.is_empty() || !self.to_list.is_empty()
    }
}
