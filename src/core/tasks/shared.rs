//! Tasks in a store that several instances share: whether this instance may work at all, how it catches up with tasks that others work on,
//! and how it continues tasks of instances that have died.

use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::core::disk::Parked;
use crate::core::disk::request::{SharedAnswer, SharedRequest, StoreRequest};
use crate::core::disk::shared::InstanceStatus;
use crate::core::disk::store::{Known, Lasts, StoreError};
use crate::core::requests::Caller;
use crate::core::tasks::loaded_task::{LoadedTask, Mark};
use crate::core::timers::Timer;
use crate::core::webhooks::has_due_deliveries;
use crate::core::{Core, Out};
use crate::limits::store::{CHECK_MS, FOLLOW_FIRST_MS, FOLLOW_MS, SUMMARIES_MS};
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::machine::decide::Decision;
use std::collections::{HashMap, HashSet};

/// The state of this instance's work on a shared store.
#[derive(Default)]
pub(in crate::core) struct Sharing {
    /// Others may soon take this instance for dead: nothing starts.
    pub is_cut_off: bool,
    /// A scan is under way.
    is_scanning: bool,
    /// Tasks whose new log lines are being read or will be, and how long to wait before the next read.
    following: HashMap<TaskId, u64>,
    /// Tasks whose inbox is being read.
    pub inboxes_being_read: HashSet<TaskId>,
    /// When summaries were last requested, and whether a client has requested a list since.
    listed_ms: Option<u64>,
    pub list_was_asked: bool,
    /// The tasks that were in the index when it was last read.
    indexed: HashSet<TaskId>,
    /// Tasks that are being deleted, and the callers who wait for that.
    pub deleting: Vec<(TaskId, Caller)>,
    /// Requests that wait until a task has caught up with its log.
    pub awaiting_catch_up: Vec<AwaitingCatchUp>,
    /// Requests that were left for the owners of tasks.
    pub sent: Vec<crate::core::requests::other_instances::SentRequest>,
}

/// A request that waits until a task has caught up with its log: other instances may have continued it.
pub(in crate::core) struct AwaitingCatchUp {
    task: TaskId,
    pub request: Parked,
    /// The read that is under way was requested after this request was received.
    is_asked: bool,
}

impl Core {
    /// Begins the work on the store, if it is shared.
    pub(in crate::core) fn begin_sharing(&mut self) {
        if self.settings.shared_store.is_some() {
            self.timers.arm(0, Timer::InstanceStatus);
            self.disk.health.wait_for_store();
        }
    }

    pub(in crate::core) fn ask_shared(&mut self, request: SharedRequest) {
        self.out.push(Out::Store(StoreRequest::Shared(request)));
    }

    pub(in crate::core) fn shared_answered(&mut self, answer: SharedAnswer, now: Now) {
        match answer {
            SharedAnswer::Status(standing) => self.status_read(standing, now),
            SharedAnswer::Scanned(result) => self.scanned(result),
            SharedAnswer::Followed { task, lines } => self.followed(&task, lines, now),
            SharedAnswer::NextRequest { task, request } => self.inbox_read(&task, request, now),
            SharedAnswer::Sent { task, id, result } => self.request_left(&task, &id, result, now),
            SharedAnswer::Latest { request, latest } => self.context_found(request, latest, now),
            SharedAnswer::Summaries(result) => self.summaries_read(result, now),
        }
    }

    /// The status of this instance, once a second: starts what is due.
    fn status_read(&mut self, standing: InstanceStatus, now: Now) {
        self.timers.arm(now.mono_ms + CHECK_MS, Timer::InstanceStatus);
        if let Some(trouble) = &standing.trouble {
            self.report_store_error(trouble, now);
        }
        let was_cut_off = std::mem::replace(&mut self.disk.sharing.is_cut_off, standing.is_cut_off);
        if standing.is_cut_off && !was_cut_off {
            self.cut_off(&standing.background, now);
        } else if was_cut_off && !standing.is_cut_off {
            self.resume_tasks(now);
        }
        if standing.scan_is_due && !std::mem::replace(&mut self.disk.sharing.is_scanning, true) {
            self.ask_shared(SharedRequest::Scan);
        }
        self.note_background(&standing.background, now);
        self.read_inboxes();
        self.follow_watched();
        self.expire_sent(now);
        let listed_ms = self.disk.sharing.listed_ms;
        let is_old = listed_ms.is_none_or(|at| self.disk.sharing.list_was_asked && now.mono_ms >= at + SUMMARIES_MS);
        if is_old && !standing.is_cut_off {
            self.disk.sharing.listed_ms = Some(now.mono_ms);
            self.disk.sharing.list_was_asked = false;
            self.ask_shared(SharedRequest::Summaries);
        }
    }

    /// Records which tasks of this instance have commands in the background: other instances do not claim them.
    fn note_background(&mut self, running: &[TaskId], now: Now) {
        let is_new = |(task, loaded): &(&TaskId, &LoadedTask)| {
            let is_held = loaded.owned && self.is_ours(loaded) && !loaded.state.is_over();
            is_held && loaded.state.ownership.has_background != running.contains(task)
        };
        let mut changed: Vec<TaskId> = self.tasks.iter().filter(is_new).map(|(task, _)| task.clone()).collect();
        changed.sort_unstable();
        for task in changed {
            let event = Event::Background { runs: running.contains(&task) };
            self.commit(&task, Decision { events: vec![event], effects: Vec::new() }, now);
        }
    }

    /// Stops everything that runs here, before other instances take the tasks over.
    fn cut_off(&mut self, background: &[TaskId], now: Now) {
        let text =
            "cut off from the bucket: what was running is stopped, because another instance will continue the tasks";
        self.out.push(Out::warning(text.into()));
        for task in self.tasks.open() {
            self.interrupt(&task, now);
        }
        let has_background = |(_, loaded): &(&TaskId, &LoadedTask)| loaded.state.ownership.has_background;
        let noted = self.tasks.iter().filter(|(_, loaded)| loaded.owned).filter(has_background);
        let mut left: Vec<TaskId> = noted.map(|(task, _)| task.clone()).chain(background.iter().cloned()).collect();
        left.sort_unstable();
        left.dedup();
        self.out.extend(left.into_iter().map(|task| Out::EndBackground { task }));
    }

    /// The store answers again: starts the jobs that have waited for it, and begins the turns of prompts that are still queued.
    fn resume_tasks(&mut self, now: Now) {
        for task in self.tasks.open() {
            if self.tasks.get(&task).is_some_and(|loaded| loaded.owned) {
                self.advance(&task, now);
            }
            self.disk.to_release.push(task);
        }
    }

    /// The result of a scan: the unfinished tasks that this instance owns. It takes over those that it does not hold: they were claimed by
    /// this scan, or by a request whose answer was lost.
    fn scanned(&mut self, result: Result<Vec<TaskId>, StoreError>) {
        self.disk.sharing.is_scanning = false;
        for task in result.unwrap_or_default() {
            let loaded = self.tasks.get(&task);
            // If its log could not be read before, that is tried again.
            let is_read = self.disk.loading.contains_key(&task) || self.disk.sharing.following.contains_key(&task);
            let is_coming = is_read && self.disk.to_own.contains(&task);
            if loaded.is_some_and(|loaded| loaded.owned) || is_coming {
                continue;
            }
            let is_loaded = loaded.is_some();
            self.out.push(Out::warning(format!("task {task}: its instance has died, this one continues it")));
            match is_loaded {
                true => {
                    self.disk.to_own.insert(task.clone());
                    self.catch_up(&task);
                }
                false => self.fetch_to_own(task),
            }
        }
    }

    /// Whether the log names this instance as the owner of a task that it does not hold, and the task has unfinished work: a claim was won
    /// whose answer was lost. Other instances do not claim such a task.
    pub(in crate::core) fn is_unheld(&self, loaded: &LoadedTask) -> bool {
        let has_work = || loaded.state.is_at_work() || has_due_deliveries(&loaded.state);
        self.settings.shared_store.is_some() && !loaded.owned && self.is_ours(loaded) && has_work()
    }

    /// The index was read: registers tasks of other instances, and removes tasks that are not in it any more because they were deleted.
    fn summaries_read(&mut self, result: Result<Vec<Known>, StoreError>, now: Now) {
        let Ok(listed) = result else {
            return;
        };
        let tasks = listed.iter().map(|known| known.task.clone()).collect();
        let before = std::mem::replace(&mut self.disk.sharing.indexed, tasks);
        let mut outdated = Vec::new();
        for Known { task, brief, .. } in listed {
            match self.tasks.known.get(&task) {
                None => self.tasks.register(task, brief),
                Some(known) if known.at < brief.at && self.tasks.is_loaded(&task) => outdated.push(task),
                Some(known) if known.at < brief.at => self.tasks.known.insert(task, brief),
                Some(_) => {}
            }
        }
        let mut before: Vec<TaskId> = before.into_iter().collect();
        before.sort_unstable();
        for task in before {
            if self.disk.sharing.indexed.contains(&task) || self.disk.loading.contains_key(&task) {
                continue;
            }
            match self.tasks.is_loaded(&task) {
                true => outdated.push(task),
                false => drop(self.tasks.forget(&task, now.unix_ms)),
            }
        }
        for task in outdated {
            if self.tasks.get(&task).is_some_and(others_may_continue) {
                self.catch_up(&task);
            }
        }
        self.arm_expiry(now);
    }

    // Following.

    /// Reads the new log lines of the tasks that clients of this instance watch and that others may continue.
    fn follow_watched(&mut self) {
        let mut watched: Vec<TaskId> =
            self.tasks.iter().filter(|(_, loaded)| self.is_followed(loaded)).map(|(task, _)| task.clone()).collect();
        watched.sort_unstable();
        for task in watched {
            self.catch_up(&task);
        }
    }

    /// Whether new log lines of a task are to be read: somebody waits for them, and this instance does not work on the task.
    fn is_followed(&self, loaded: &LoadedTask) -> bool {
        let task = &loaded.state.created.task;
        let is_read = self.disk.sharing.awaiting_catch_up.iter().any(|waiting| waiting.task == *task);
        let is_awaited = !loaded.subs.is_empty() || self.disk.to_own.contains(task) || self.has_sent(task);
        (is_awaited || is_read) && others_may_continue(loaded)
    }

    /// Keeps a request about a task that is in memory until the task has caught up with its log, because others may have continued it.
    /// Returns the request if it need not wait.
    pub(in crate::core) fn catch_up_before(&mut self, task: &TaskId, request: Parked) -> Option<Parked> {
        let is_outdated = self.settings.shared_store.is_some()
            && !request.is_current
            && self.tasks.get(task).is_some_and(others_may_continue);
        if !is_outdated {
            return Some(request);
        }
        self.connections.begin_call(request.caller.conn);
        let is_asked = !self.disk.sharing.following.contains_key(task);
        self.disk.sharing.awaiting_catch_up.push(AwaitingCatchUp { task: task.clone(), request, is_asked });
        self.catch_up(task);
        None
    }

    /// The error for a client that names a position behind everything that this instance, which works on the task, has recorded: another
    /// instance has continued the task, and this one has not noticed that yet. A snapshot would show the client an older state.
    pub(in crate::core) fn behind(&self, task: &TaskId, call: &Call) -> Option<Fault> {
        self.settings.shared_store.as_ref()?;
        let seen = match call {
            Call::Subscribe { after, .. } => (*after)?,
            Call::Join(join) => {
                join.after.as_ref().filter(|after| after.task.as_ref().is_none_or(|named| named == task))?.seq
            }
            _ => return None,
        };
        let loaded = self.tasks.get(task)?;
        let is_behind = seen > loaded.synced && !others_may_continue(loaded);
        let message =
            format!("Another instance has continued task {task}, and this one has not read that yet. Ask again.");
        is_behind.then(|| Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, message))
    }

    /// Carries out all requests that wait for this task.
    fn serve_all_waiting(&mut self, task: &TaskId, now: Now) {
        self.disk.sharing.awaiting_catch_up.iter_mut().for_each(|waiting| waiting.is_asked |= waiting.task == *task);
        self.serve_caught_up(task, now);
    }

    /// Refuses all requests that wait for this task: its log cannot be read.
    fn refuse_waiting(&mut self, task: &TaskId, error: &StoreError, now: Now) {
        let waiting = &mut self.disk.sharing.awaiting_catch_up;
        let failed: Vec<AwaitingCatchUp> = waiting.extract_if(.., |waiting| waiting.task == *task).collect();
        let fault = error.clone().into_fault();
        for AwaitingCatchUp { request: Parked { caller, .. }, .. } in failed {
            self.connections.end_call(caller.conn);
            self.refuse(caller.conn, &caller.form, &fault, now);
            self.read_on(caller.conn, now);
        }
    }

    /// Carries out the requests that were received before the read that has ended was requested. Later ones wait for the next read.
    fn serve_caught_up(&mut self, task: &TaskId, now: Now) {
        let waiting = &mut self.disk.sharing.awaiting_catch_up;
        let is_served = |waiting: &mut AwaitingCatchUp| waiting.task == *task && waiting.is_asked;
        let served: Vec<AwaitingCatchUp> = waiting.extract_if(.., is_served).collect();
        for AwaitingCatchUp { request, .. } in served {
            let conn = request.caller.conn;
            self.connections.end_call(conn);
            self.dispatch(Parked { is_current: true, ..request }, now);
            self.read_on(conn, now);
        }
    }

    /// Reads the new lines of a task's log, unless that is under way.
    pub(in crate::core) fn catch_up(&mut self, task: &TaskId) {
        let Some(after) = self.tasks.get(task).map(|loaded| loaded.state.seq) else {
            return;
        };
        if self.disk.sharing.following.insert(task.clone(), FOLLOW_FIRST_MS).is_none() {
            self.ask_shared(SharedRequest::Follow { task: task.clone(), after });
        }
    }

    /// The time for the next read of a task's new lines. It is not read if this instance works on it by now or it was unloaded.
    pub(in crate::core) fn follow_is_due(&mut self, task: &TaskId, now: Now) {
        match self.tasks.get(task).filter(|loaded| self.is_followed(loaded)).map(|loaded| loaded.state.seq) {
            Some(after) => self.ask_shared(SharedRequest::Follow { task: task.clone(), after }),
            None => {
                self.disk.sharing.following.remove(task);
                self.serve_all_waiting(task, now);
            }
        }
    }

    /// The new lines of a task's log were read.
    fn followed(&mut self, task: &TaskId, lines: Result<Vec<u8>, StoreError>, now: Now) {
        let delay = self.disk.sharing.following.get(task).copied().unwrap_or(FOLLOW_FIRST_MS);
        let next = match lines {
            Err(error) if error.lasts == Lasts::Gone => {
                self.disk.sharing.following.remove(task);
                self.task_was_deleted(task, now);
                return self.serve_all_waiting(task, now);
            }
            Err(error) => {
                self.refuse_waiting(task, &error, now);
                FOLLOW_MS
            }
            Ok(lines) if self.take_lines(task, &lines, now) => FOLLOW_FIRST_MS,
            Ok(_) => (2 * delay).min(FOLLOW_MS),
        };
        self.disk.sharing.following.insert(task.clone(), next);
        self.answer_sent(task, now);
        self.serve_caught_up(task, now);
        let mut waiting =
            self.disk.sharing.awaiting_catch_up.iter_mut().filter(|waiting| waiting.task == *task).peekable();
        match waiting.peek().is_some() {
            true => {
                waiting.for_each(|waiting| waiting.is_asked = true);
                self.follow_is_due(task, now);
            }
            false => self.timers.arm(now.mono_ms + next, Timer::Follow(task.clone())),
        }
        let loaded = self.tasks.get(task);
        let is_unheld = loaded.is_some_and(|loaded| self.is_unheld(loaded));
        let is_ours = loaded.is_some_and(|loaded| self.is_ours(loaded));
        if is_ours && self.disk.to_own.remove(task) || is_unheld {
            self.take_over_now(task, now);
        }
    }

    /// Applies events that another instance has recorded. Returns whether there were any.
    fn take_lines(&mut self, task: &TaskId, lines: &[u8], now: Now) -> bool {
        let (mut ended, mut has_some) = (Vec::new(), false);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(record) = Record::read(line) else {
                return has_some;
            };
            let is_next = |loaded: &LoadedTask| is_untouched(loaded) && record.seq == loaded.state.seq.next();
            if !self.tasks.get(task).is_some_and(is_next) {
                continue;
            }
            has_some = true;
            let tools = self.tools.shown.clone();
            self.tasks.update(task, |loaded| {
                let mark = loaded.follow(&record, line.len() + 1, &tools);
                if mark != Mark::Plain {
                    let calls = self.readers.take_ended(loaded, mark);
                    ended.extend(calls.into_iter().map(|(key, history)| (key, loaded.state.clone(), history)));
                }
            });
        }
        for (key, state, history) in ended {
            self.encode_prompted(key, &state, history);
        }
        if has_some {
            self.note_owner(task);
            self.tasks.update_brief(task);
            self.arm_expiry(now);
            self.disk.to_release.push(task.clone());
        }
        has_some
    }

    /// Gives up a task if its new lines say that another instance owns it.
    fn note_owner(&mut self, task: &TaskId) {
        let is_ours = self.tasks.get(task).is_some_and(|loaded| self.is_ours(loaded));
        if let Some(loaded) = self.tasks.get_mut(task).filter(|loaded| loaded.owned && !is_ours) {
            loaded.owned = false;
            // The new owner delivers to its webhooks.
            loaded.deliveries.clear();
            self.out.push(Out::EndBackground { task: task.clone() });
        }
    }

    /// Whether the log names this instance as the owner.
    pub(in crate::core) fn is_ours(&self, loaded: &LoadedTask) -> bool {
        let ownership = &loaded.state.ownership;
        let instance = self.settings.shared_store.as_ref().map(|store| &store.instance);
        ownership.owner.as_ref().map(|owned| &owned.instance) == instance && !ownership.is_released
    }

    /// A task was deleted by another instance.
    pub(in crate::core) fn task_was_deleted(&mut self, task: &TaskId, now: Now) {
        if let Some(loaded) = self.tasks.unload(task) {
            let fault = Fault::no_task(task);
            for key in loaded.subs {
                self.fail_subscription(key, &fault, now);
            }
            self.disk.to_close.push(task.clone());
        }
        self.tasks.forget(task, now.unix_ms);
        self.arm_expiry(now);
    }
}

/// Whether another instance may continue the task now: nobody works on it here.
fn others_may_continue(loaded: &LoadedTask) -> bool {
    let works = loaded.owned && (loaded.state.is_at_work() || !loaded.running.is_empty() || !loaded.gated.is_empty());
    is_untouched(loaded) && !works
}

/// Whether nothing was decided here that the store does not have.
fn is_untouched(loaded: &LoadedTask) -> bool {
    loaded.pending.is_empty()
        && loaded.synced == loaded.written
        && loaded.state.seq == loaded.written
        && !loaded.syncing
}

impl LoadedTask {
    /// Applies an event that another instance has recorded.
    fn follow(&mut self, record: &Record, bytes: usize, tools: &crate::a2a::Tools) -> Mark {
        let mark = self.apply(record, tools);
        (self.written, self.synced) = (record.seq, record.seq);
        self.log_bytes += bytes;
        debug_assert!(self.written > Seq(0));
        mark
    }
}
