//! Work for the store: what is to be appended, loaded, closed and removed, which requests wait for that, and whether the store can be
//! written. No I/O is done here; files are in `shell/journal`.

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

/// A request, and what is known of it so far. It may have to wait for the store several times.
pub(in crate::core) struct Parked {
    pub caller: Caller,
    pub call: Call,
    /// Tasks that a list leaves out, because they cannot be read.
    pub without: Vec<TaskId>,
    /// The tasks on the page of a list, which have to be in memory at the same time.
    pub page: Vec<TaskId>,
    /// The workspace that it needs, once that was checked.
    pub site: Option<Result<Site, String>>,
    /// It was counted among the prompts of its credential.
    pub is_counted: bool,
    /// Its task was read from the store after the request was received.
    pub is_current: bool,
    /// The latest task of its context was read from the store after the request was received.
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
    /// Streams that continue when it is loaded: another instance has claimed the task while they were open.
    pub streams: Vec<Key>,
    /// How often it could not be loaded because another process had locked its log.
    pub tries: u32,
}

/// What waits for the store.
#[derive(Default)]
pub(in crate::core) struct Disk {
    pub health: DiskHealth,
    pub loading: HashMap<TaskId, Loading>,
    /// Tasks that are taken over as soon as they are loaded.
    pub to_own: HashSet<TaskId>,
    /// Tasks that were left open by the last run and are not loaded yet.
    pub left_open: VecDeque<TaskId>,
    /// Tasks that were loaded only to be closed.
    pub loaded_for_expiry: Vec<TaskId>,
    /// Requests that wait until a workspace was checked or the latest task of a context was found, by number.
    resolving: HashMap<u64, Parked>,
    /// The last number that was given.
    requests: u64,
    /// Tasks that were unloaded and whose logs are to be closed.
    pub to_close: Vec<TaskId>,
    /// Tasks with lines to append.
    pub to_append: Vec<TaskId>,
    /// Tasks whose log was written or flushed: readers, jobs and webhooks may continue.
    pub to_release: Vec<TaskId>,
    /// Requests for a list of tasks.
    pub to_list: Vec<Parked>,
    /// The log has a warning that the tasks take too much space and none can be deleted.
    pub is_overfull: bool,
    /// The state of the work on a store that several instances share.
    pub sharing: Sharing,
    /// [`Timer::Summaries`](crate::core::timers::Timer::Summaries) is armed.
    pub summaries_armed: bool,
}

impl Disk {
    /// The tasks that lists wait for. They are not unloaded.
    pub fn awaited(&self) -> HashSet<&TaskId> {
        let parked = self.loading.values().flat_map(|loading| &loading.parked);
        parked.chain(&self.to_list).flat_map(|request| &request.page).collect()
    }

    /// Tasks that were loaded only to be closed, or could not be loaded.
    pub fn take_loaded_for_expiry(&mut self) -> Vec<TaskId> {
        self.loaded_for_expiry.extract_if(.., |task| !self.loading.contains_key(task)).collect()
    }

    /// Keeps a request until its workspace was checked or the latest task of its context was found. Returns its number.
    pub fn park_numbered(&mut self, request: Parked) -> u64 {
        self.requests += 1;
        self.resolving.insert(self.requests, request);
        self.requests
    }

    pub fn take_resolved(&mut self, request: u64) -> Option<Parked> {
        self.resolving.remove(&request)
    }

    /// Removes and returns requests that wait for a task to be loaded.
    pub fn recall(&mut self, is_meant: impl Fn(&Caller) -> bool) -> Vec<Parked> {
        let parked = self.loading.values_mut().map(|loading| &mut loading.parked);
        parked
            .flat_map(|parked| parked.extract_if(.., |request| is_meant(&request.caller)).collect::<Vec<_>>())
            .collect()
    }

    /// Drops all waiting requests of a connection.
    pub fn drop_requests_of(&mut self, conn: Key) {
        let is_kept = |request: &Parked| request.caller.conn != conn;
        self.loading.values_mut().for_each(|loading| loading.parked.retain(is_kept));
        self.resolving.retain(|_, request| is_kept(request));
        self.to_list.retain(is_kept);
        self.sharing.sent.retain(|sent| is_kept(&sent.request));
        self.sharing.awaiting_catch_up.retain(|waiting| is_kept(&waiting.request));
        self.sharing.deleting.retain(|(_, caller)| caller.conn != conn);
    }

    /// Whether the next turn of the loop has something to do for the store.
    pub fn has_more(&self) -> bool {
        !self.to_append.is_empty() || !self.to_close.is_empty() || !self.to_list.is_empty()
    }
}
