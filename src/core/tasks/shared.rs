//! Tasks in a store that several instances share: whether this instance may work at all, what it reads of tasks that others work on, and
//! what it continues of instances that have died.

use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::core::disk::Parked;
use crate::core::disk::request::{SharedAnswer, SharedRequest, StoreRequest};
use crate::core::disk::shared::Standing;
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

/// What this instance does for tasks that it shares.
#[derive(Default)]
pub(in crate::core) struct Sharing {
    /// Others may soon take this instance for dead: nothing starts.
    pub is_cut_off: bool,
    is_scanning: bool,
    /// How long to wait before the next reading on of each task that is followed.
    following: HashMap<TaskId, u64>,
    /// Tasks whose inbox is being read.
    pub hearing: HashSet<TaskId>,
    /// When summaries were last asked for, and whether somebody has asked for a list since.
    listed_ms: Option<u64>,
    pub list_was_asked: bool,
    /// The tasks that were in the index when it was last read.
    indexed: HashSet<TaskId>,
    /// Tasks that are being deleted, and for whom.
    pub deleting: Vec<(TaskId, Caller)>,
    /// Requests that wait for a task to be read on.
    pub reading: Vec<Reading>,
    /// Requests that were left for the owners of tasks.
    pub sent: Vec<crate::core::requests::elsewhere::SentRequest>,
}

/// A request that waits for a task to be read on.
pub(in crate::core) struct Reading {
    task: TaskId,
    pub request: Parked,
    /// The reading that is under way was asked for after the request came.
    is_asked: bool,
}

impl Core {
    /// Begins to look after the store, if it is shared.
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
            SharedAnswer::Standing(standing) => self.looked(standing, now),
            SharedAnswer::Scanned(result) => self.scanned(result),
            SharedAnswer::Followed { task, lines } => self.followed(&task, lines, now),
            SharedAnswer::NextRequest { task, request } => self.inbox_read(&task, request, now),
            SharedAnswer::Sent { task, id, result } => self.request_left(&task, &id, result, now),
            SharedAnswer::Latest { request, latest } => self.context_found(request, latest, now),
            SharedAnswer::Summaries(result) => self.summaries_read(result, now),
        }
    }

    /// Once a second.
    fn looked(&mut self, standing: Standing, now: Now) {
        self.timers.arm(now.mono_ms + CHECK_MS, Timer::InstanceStatus);
        if let Some(trouble) = &standing.trouble {
            self.tell_trouble(trouble, now);
        }
        let was_cut_off = std::mem::replace(&mut self.disk.sharing.is_cut_off, standing.is_cut_off);
        if standing.is_cut_off && !was_cut_off {
            self.cut_off(&standing.background, now);
        } else if was_cut_off && !standing.is_cut_off {
            self.go_on(now);
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

    /// Records which tasks of ours have commands in the background: other instances leave them to this one.
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

    /// Other instances will take the tasks over: what runs here ends before they do.
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

    /// The store answers again. Jobs that have waited for it start; the interruption has left prompts in queues, whose turns begin.
    fn go_on(&mut self, now: Now) {
        for task in self.tasks.open() {
            if self.tasks.get(&task).is_some_and(|loaded| loaded.owned) {
                self.advance(&task, now);
            }
            self.disk.to_release.push(task);
        }
    }

    /// Unfinished tasks belong to this instance: those that it does not hold were claimed now, or by a request whose answer was lost.
    fn scanned(&mut self, result: Result<Vec<TaskId>, StoreError>) {
        self.disk.sharing.is_scanning = false;
        for task in result.unwrap_or_default() {
            let loaded = self.tasks.get(&task);
            // Otherwise its log could not be read, or not be read on, and it is tried again.
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
                    self.read_task_on(&task);
                }
                false => self.fetch_to_own(task),
            }
        }
    }

    /// Whether the log says that a task is ours which is not held here, and there is something to do for it: a claim was won whose answer
    /// was lost. Other instances leave such a task to this one.
    pub(in crate::core) fn is_unheld(&self, loaded: &LoadedTask) -> bool {
        let has_work = || loaded.state.is_at_work() || has_due_deliveries(&loaded.state);
        self.settings.shared_store.is_some() && !loaded.owned && self.is_ours(loaded) && has_work()
    }

    /// The index was read: tasks of other instances are learned, tasks that are not in it any more were deleted.
    fn summaries_read(&mut self, result: Result<Vec<Known>, StoreError>, now: Now) {
        let Ok(listed) = result else {
            return;
        };
        let tasks = listed.iter().map(|known| known.task.clone()).collect();
        let before = std::mem::replace(&mut self.disk.sharing.indexed, tasks);
        let mut outdated = Vec::new();
        for Known { task, brief, .. } in listed {
            match self.tasks.known.get(&task) {
                None => self.tasks.learn(task, brief),
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
                self.read_task_on(&task);
            }
        }
        self.arm_expiry(now);
    }

    // Following.

    /// Reads on for the tasks that clients of this instance watch and that others may continue.
    fn follow_watched(&mut self) {
        let mut watched: Vec<TaskId> =
            self.tasks.iter().filter(|(_, loaded)| self.is_followed(loaded)).map(|(task, _)| task.clone()).collect();
        watched.sort_unstable();
        for task in watched {
            self.read_task_on(&task);
        }
    }

    /// Whether events of other instances are to be read: somebody waits for them, and nobody works on the task here.
    fn is_followed(&self, loaded: &LoadedTask) -> bool {
        let task = &loaded.state.created.task;
        let is_read = self.disk.sharing.reading.iter().any(|reading| reading.task == *task);
        let is_awaited = !loaded.subs.is_empty() || self.disk.to_own.contains(task) || self.has_sent(task);
        (is_awaited || is_read) && others_may_continue(loaded)
    }

    /// Keeps a request about a task that is in memory until the task is as it is in the store: clients watch it here, and others may have
    /// continued it. Returns the request if that is so already.
    pub(in crate::core) fn read_before(&mut self, task: &TaskId, request: Parked) -> Option<Parked> {
        let is_outdated = self.settings.shared_store.is_some()
            && !request.is_current
            && self.tasks.get(task).is_some_and(others_may_continue);
        if !is_outdated {
            return Some(request);
        }
        self.connections.begin_call(request.caller.conn);
        let is_asked = !self.disk.sharing.following.contains_key(task);
        self.disk.sharing.reading.push(Reading { task: task.clone(), request, is_asked });
        self.read_task_on(task);
        None
    }

    /// The error for a client that has seen more of a task than this instance, which works on it, has recorded: another instance has
    /// continued the task, and this one has not noticed that yet. A snapshot would show the client an older state.
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

    /// Carries out all requests that wait for a task to be read on.
    fn end_all_reading(&mut self, task: &TaskId, now: Now) {
        self.disk.sharing.reading.iter_mut().for_each(|reading| reading.is_asked |= reading.task == *task);
        self.end_reading(task, now);
    }

    /// A task could not be read on: it is not known how it is now.
    fn refuse_reading(&mut self, task: &TaskId, error: &StoreError, now: Now) {
        let all = std::mem::take(&mut self.disk.sharing.reading);
        let (failed, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|reading| reading.task == *task);
        self.disk.sharing.reading = left;
        let fault = error.clone().into_fault();
        for Reading { request: Parked { caller, .. }, .. } in failed {
            self.connections.end_call(caller.conn);
            self.refuse(caller.conn, &caller.form, &fault, now);
            self.read_on(caller.conn, now);
        }
    }

    /// Carries out the requests that waited for a task to be read on, and has it read again for those that came after it was asked for.
    fn end_reading(&mut self, task: &TaskId, now: Now) {
        let all = std::mem::take(&mut self.disk.sharing.reading);
        let (read, left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|reading| reading.task == *task && reading.is_asked);
        self.disk.sharing.reading = left;
        for Reading { request, .. } in read {
            let conn = request.caller.conn;
            self.connections.end_call(conn);
            self.dispatch(Parked { is_current: true, ..request }, now);
            self.read_on(conn, now);
        }
    }

    /// Reads on, unless that is under way.
    pub(in crate::core) fn read_task_on(&mut self, task: &TaskId) {
        let Some(after) = self.tasks.get(task).map(|loaded| loaded.state.seq) else {
            return;
        };
        if self.disk.sharing.following.insert(task.clone(), FOLLOW_FIRST_MS).is_none() {
            self.ask_shared(SharedRequest::Follow { task: task.clone(), after });
        }
    }

    /// The time to read on again. A task that is worked on here by now, or is not in memory any more, is not read on.
    pub(in crate::core) fn follow_is_due(&mut self, task: &TaskId, now: Now) {
        match self.tasks.get(task).filter(|loaded| self.is_followed(loaded)).map(|loaded| loaded.state.seq) {
            Some(after) => self.ask_shared(SharedRequest::Follow { task: task.clone(), after }),
            None => {
                self.disk.sharing.following.remove(task);
                self.end_all_reading(task, now);
            }
        }
    }

    /// The log of a task was read on.
    fn followed(&mut self, task: &TaskId, lines: Result<Vec<u8>, StoreError>, now: Now) {
        let delay = self.disk.sharing.following.get(task).copied().unwrap_or(FOLLOW_FIRST_MS);
        let next = match lines {
            Err(error) if error.lasts == Lasts::Gone => {
                self.disk.sharing.following.remove(task);
                self.is_gone(task, now);
                return self.end_all_reading(task, now);
            }
            Err(error) => {
                self.refuse_reading(task, &error, now);
                FOLLOW_MS
            }
            Ok(lines) if self.take_lines(task, &lines, now) => FOLLOW_FIRST_MS,
            Ok(_) => (2 * delay).min(FOLLOW_MS),
        };
        self.disk.sharing.following.insert(task.clone(), next);
        self.answer_sent(task, now);
        self.end_reading(task, now);
        let mut waiting = self.disk.sharing.reading.iter_mut().filter(|reading| reading.task == *task).peekable();
        match waiting.peek().is_some() {
            true => {
                waiting.for_each(|reading| reading.is_asked = true);
                self.follow_is_due(task, now);
            }
            false => self.timers.arm(now.mono_ms + next, Timer::Follow(task.clone())),
        }
        let loaded = self.tasks.get(task);
        let is_unheld = loaded.is_some_and(|loaded| self.is_unheld(loaded));
        let is_ours = loaded.is_some_and(|loaded| self.is_ours(loaded));
        if is_ours && self.disk.to_own.remove(task) || is_unheld {
            self.take_over_left(task, now);
        }
    }

    /// Applies events that another instance has recorded. Returns whether there were some.
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
            self.tasks.note_brief(task);
            self.arm_expiry(now);
            self.disk.to_release.push(task.clone());
        }
        has_some
    }

    /// Notes whether a task that was read on is still ours.
    fn note_owner(&mut self, task: &TaskId) {
        let is_ours = self.tasks.get(task).is_some_and(|loaded| self.is_ours(loaded));
        if let Some(loaded) = self.tasks.get_mut(task).filter(|loaded| loaded.owned && !is_ours) {
            loaded.owned = false;
            // Its webhooks are the new owner's.
            loaded.deliveries.clear();
            // What it left running here ends.
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
    pub(in crate::core) fn is_gone(&mut self, task: &TaskId, now: Now) {
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
