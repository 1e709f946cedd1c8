//! The queues of work for the disk: what is to be appended, loaded, closed and removed, which requests wait for that, and whether
//! the store can be written. No I/O is done here; files are in `shell/journal`.

pub(in crate::core) mod health;
pub mod memory_store;
pub mod page;
pub mod request;
pub mod shared;
pub mod store;

use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::Site;
use crate::core::disk::health::DiskHealth;
use crate::core::requests::Caller;
use crate::core::tasks::shared::Sharing;
use crate::task::call::Call;
use std::collections::{HashMap, HashSet, VecDeque};

/// A request that waits for the disk.
pub(in crate::core) struct Parked {
    pub caller: Caller,
    pub call: Call,
    /// Tasks that are left out of a list: they cannot be read.
    pub without: Vec<TaskId>,
    /// The tasks on the page of a list, which have to be in memory at the same time.
    pub page: Vec<TaskId>,
    /// The workspace that a new task gets, once it was looked for.
    pub site: Option<Result<Site, String>>,
    /// It was counted among the prompts of its credential.
    pub is_counted: bool,
    /// Its task was loaded for it, and is as it was in the store after the request came.
    pub is_current: bool,
    /// The latest task of its context was looked for in the store.
    pub context_is_current: bool,
}

impl Parked {
    pub fn new(caller: Caller, call: Call) -> Parked {
        Parked {
            caller,
            call,
            without: Vec::new(),
            page: Vec::new(),
            site: None,
            is_counted: false,
            is_current: false,
            context_is_current: false,
        }
    }
}

/// A task that is being loaded.
#[derive(Default)]
pub(in crate::core) struct Loading {
    /// The requests that wait for it.
    pub parked: Vec<Parked>,
    /// Streams that go on with it as another instance continues it.
    pub streams: Vec<Key>,
    /// How often its log was asked for while another process had it.
    pub tries: u32,
}

/// What waits for the disk.
#[derive(Default)]
pub(in crate::core) struct Disk {
    pub health: DiskHealth,
    pub loading: HashMap<TaskId, Loading>,
    /// Tasks that are taken over as soon as they can be loaded.
    pub to_own: HashSet<TaskId>,
    /// Tasks that were left open and are not loaded yet, for lack of room.
    pub unrestored: VecDeque<TaskId>,
    /// Tasks that were loaded only to be closed.
    pub loaded_for_expiry: Vec<TaskId>,
    /// Requests that wait for a workspace or a context to be looked for, by number.
    resolving: HashMap<u64, Parked>,
    requests: u64,
    /// Tasks that have left memory, tasks with lines to append, and tasks whose log has grown on disk.
    pub to_close: Vec<TaskId>,
    pub to_append: Vec<TaskId>,
    pub to_release: Vec<TaskId>,
    /// Requests for a list of the tasks.
    pub to_list: Vec<Parked>,
    /// It was said that the tasks take too much space and none can be deleted.
    pub is_overfull: bool,
    /// What is done for a store that several instances share.
    pub sharing: Sharing,
    /// [`Timer::Summaries`](crate::core::timers::Timer::Summaries) is armed.
    pub summaries_armed: bool,
}

impl Disk {
    /// The tasks that lists wait for: they have to stay in memory.
    pub fn awaited(&self) -> HashSet<&TaskId> {
        let parked = self.loading.values().flat_map(|loading| &loading.parked);
        parked.chain(&self.to_list).flat_map(|request| &request.page).collect()
    }

    /// Tasks that were loaded only to be closed, or could not be loaded.
    pub fn take_loaded_for_expiry(&mut self) -> Vec<TaskId> {
        let (loading, done) =
            std::mem::take(&mut self.loaded_for_expiry).into_iter().partition(|task| self.loading.contains_key(task));
        self.loaded_for_expiry = loading;
        done
    }

    /// Keeps a request until its workspace or its context was looked for; gives its number.
    pub fn park_numbered(&mut self, request: Parked) -> u64 {
        self.requests += 1;
        self.resolving.insert(self.requests, request);
        self.requests
    }

    pub fn take_resolved(&mut self, request: u64) -> Option<Parked> {
        self.resolving.remove(&request)
    }

    /// Takes the requests out that wait for a task to be loaded.
    pub fn recall(&mut self, is_meant: impl Fn(&Caller) -> bool) -> Vec<Parked> {
        let parked = self.loading.values_mut().map(|loading| &mut loading.parked);
        parked
            .flat_map(|parked| parked.extract_if(.., |request| is_meant(&request.caller)).collect::<Vec<_>>())
            .collect()
    }

    /// Forgets the requests of a connection that wait.
    pub fn drop_requests_of(&mut self, conn: Key) {
        let is_kept = |request: &Parked| request.caller.conn != conn;
        self.loading.values_mut().for_each(|loading| loading.parked.retain(is_kept));
        self.resolving.retain(|_, request| is_kept(request));
        self.to_list.retain(is_kept);
        self.sharing.sent.retain(|sent| is_kept(&sent.request));
        self.sharing.reading.retain(|reading| is_kept(&reading.request));
        self.sharing.deleting.retain(|(_, caller)| caller.conn != conn);
    }

    /// Whether there is work left that waits for no event.
    pub fn has_more(&self) -> bool {
        !self.to_append.is_empty() || !self.to_close.is_empty() || !self.to_list.is_empty()
    }
}
