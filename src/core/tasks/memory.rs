//! Loads and unloads tasks. Open tasks are loaded at the start, other tasks when a request names them; the request waits until then. Idle
//! tasks without subscribers are unloaded. A task whose first event could not be written is discarded.

use crate::a2a::View;
use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Known, Lasts, ShownWhen, StoreError};
use crate::core::disk::{Loading, Parked};
use crate::core::readers::subscription::Role;
use crate::core::requests::dispatch::joins;
use crate::core::requests::needs::Needs;
use crate::core::tasks::Tasks;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::core::{Core, Loaded, Out};
use crate::task::audit;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::brief::Brief;
use crate::task::machine::decide::{Decision, Input};
use crate::task::machine::job::JobId;

impl Core {
    /// Registers the tasks of the store, and loads those that were left open.
    pub(in crate::core) fn listed(&mut self, known: Vec<Known>, now: Now) {
        for known in known {
            self.tasks.register(known.task.clone(), known.brief);
            if known.open {
                self.disk.left_open.push_back(known.task);
            }
        }
        self.load_left_open(now);
        // Tasks that became due while no server ran are handled in the first turn.
        self.timers.arm_expiry(0);
        self.timers.arm(0, Timer::Measure);
        // A disk may have been full before this server began.
        self.arm_probe(0);
        self.begin_sharing();
    }

    /// Loads tasks that the last run left open, as many as there is room for now: their turns were interrupted, or deliveries to webhooks
    /// are due. The loads take at most half of the queue of the disk lane, so that requests find room in it.
    pub(in crate::core) fn load_left_open(&mut self, now: Now) {
        while self.is_running()
            && let Some(task) = self.disk.left_open.pop_front()
        {
            self.make_room_for_task();
            let loading = self.disk.loading.len();
            if self.tasks.len() + loading >= self.settings.limits.tasks
                || loading >= self.settings.limits.lane_jobs.div_ceil(2)
            {
                return self.disk.left_open.push_front(task);
            }
            match self.tasks.is_loaded(&task) {
                true => self.take_over_now(&task, now),
                false => self.fetch_to_own(task),
            }
        }
    }

    /// A task was read from its journal, or could not be.
    pub(in crate::core) fn loaded(&mut self, task: &TaskId, result: Result<Box<Loaded>, StoreError>, now: Now) {
        // A shared store repeats failed requests itself, and its logs have no locks.
        if let Err(error) = &result
            && self.settings.shared_store.is_none()
            && matches!(error.lasts, Lasts::WhileLocked | Lasts::Shortly)
            && let Some(loading) = self.disk.loading.get_mut(task)
        {
            loading.tries += 1;
            // A child of a killed server may hold the lock until it executes its program; files may be closed.
            if loading.tries < self.settings.limits.load_tries {
                let at = now.mono_ms + self.settings.limits.load_retry_ms;
                return self.timers.arm(at, Timer::Load(task.clone()));
            }
        }
        // Before the waiting requests are taken out below: the tasks that they wait for are not unloaded.
        self.make_room_for_task();
        let Loading { parked, streams, .. } = self.disk.loading.remove(task).unwrap_or_default();
        match result {
            Ok(read) => {
                if self.tasks.known.get(task).is_none() {
                    self.tasks.register(task.clone(), Brief::of(&read.state));
                }
                self.insert_loaded(task, *read);
                self.continue_streams(task, &streams);
                let is_unheld = self.tasks.get(task).is_some_and(|loaded| self.is_unheld(loaded));
                if self.disk.to_own.remove(task) || is_unheld {
                    self.take_over_now(task, now);
                }
                self.arm_expiry(now);
                for mut request in parked {
                    let conn = request.caller.conn;
                    self.connections.end_call(conn);
                    request.is_current = true;
                    match request.call {
                        Call::List(_) => self.list_later(request),
                        _ => self.dispatch(request, now),
                    }
                    self.read_on(conn, now);
                }
            }
            Err(error) if error.lasts == Lasts::Gone => {
                self.disk.to_own.remove(task);
                self.task_was_deleted(task, now);
                self.fail_subscriptions(streams, &Fault::no_task(task), now);
                for request in parked {
                    self.dispatch_for_deleted(task, request, now);
                }
            }
            Err(error) => {
                self.fail_subscriptions(streams, &error.clone().into_fault(), now);
                self.not_loaded(task, parked, error, now);
            }
        }
    }

    /// A task exists and could not be loaded.
    fn not_loaded(&mut self, task: &TaskId, parked: Vec<Parked>, error: StoreError, now: Now) {
        self.put_off(task.clone(), now);
        let lasts = error.lasts;
        if lasts != Lasts::Shortly {
            // A session that cannot be read is replaced.
            self.tasks.sessions.retain(|_, session| session != task);
        }
        let fault = error.into_fault();
        for request in parked {
            let conn = request.caller.conn;
            self.connections.end_call(conn);
            match lasts {
                Lasts::Shortly => self.refuse(conn, &request.caller.form, &fault, now),
                Lasts::Long | Lasts::WhileLocked | Lasts::Gone => {
                    self.dispatch_without(task, request, &fault, now);
                }
            }
            self.read_on(conn, now);
        }
    }

    /// Adds a task that was read from the store. It is not owned until something is to be changed.
    fn insert_loaded(&mut self, task: &TaskId, Loaded { state, inherited, bytes }: Loaded) {
        let seq = state.seq;
        let mut loaded = LoadedTask::new(state, inherited, self.settings.shown_when());
        loaded.owned = false;
        loaded.written = seq;
        loaded.synced = match self.settings.shown_when() {
            ShownWhen::Written => Seq(0),
            ShownWhen::Synced => seq,
        };
        loaded.log_bytes = bytes;
        loaded.stored_brief = Some(Brief::of(&loaded.state)).filter(|brief| self.tasks.known.get(task) == Some(brief));
        self.tasks.insert(task.clone(), loaded);
    }

    /// Makes this server the owner of a loaded task, unless another instance holds it. Jobs that ran when its last server died are recorded
    /// as interrupted. A task that is only read is not taken over, because that would write to its journal.
    pub(in crate::core) fn take_over(&mut self, task: &TaskId, now: Now) {
        if !self.tasks.get(task).is_some_and(|loaded| self.is_held_elsewhere(loaded)) {
            self.take_over_now(task, now);
        }
    }

    /// As [`Core::take_over`], for a task that no other instance continues, whatever its log says.
    pub(in crate::core) fn take_over_now(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get(task).filter(|loaded| !loaded.owned) else {
            return;
        };
        // A log that names this instance as its owner was claimed by it before.
        let is_ours = self.is_ours(loaded);
        let epoch = loaded.state.ownership.epoch() + u64::from(!is_ours);
        if let Some(loaded) = self.tasks.get_mut(task) {
            (loaded.owned, loaded.has_unread_inbox) = (true, true);
        }
        self.audit_ownership(audit::Kind::Claimed, task, epoch, now);
        if let Some(owned) = self.settings.owned(epoch).filter(|_| !is_ours) {
            self.commit(task, Decision { events: vec![owned], effects: Vec::new() }, now);
        }
        // After the append the task is released, which starts deliveries to webhooks that were due before.
        self.schedule_append(task);
        let _ = self.drive(task, Input::Interrupted, now);
        self.apply_time_limits(task, now);
    }

    /// Discards a task whose first event could not be written. Its client gets the error.
    pub(in crate::core) fn abandon(&mut self, task: &TaskId, error: StoreError, now: Now) {
        let Some(loaded) = self.discard_task(task, now) else {
            return;
        };
        let fault = Fault::new(FaultKind::Storage, error.message);
        for key in loaded.subs {
            match self.readers.get(key).map(|sub| sub.role) {
                // A socket that follows every task was sent nothing of this one.
                Some(Role::FollowAll) => drop(self.unsubscribe(key)),
                Some(_) | None => self.fail_subscription(key, &fault, now),
            }
        }
    }

    /// Another instance has claimed the task: what was decided here and not synced is void. The jobs are stopped, and the task is loaded
    /// again. Streams continue with the new state; calls that wait for an answer get an error that tells their clients to ask again.
    pub(in crate::core) fn fenced(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.unload(task) else {
            return;
        };
        let stops = loaded.running.iter().map(|at| Out::Stop(JobId { task: task.clone(), at: *at }));
        self.out.extend(stops);
        self.out.push(Out::EndBackground { task: task.clone() });
        self.out.push(Out::warning(format!("task {task}: another instance continues it")));
        self.operation.metrics.fenced += 1;
        self.audit_ownership(audit::Kind::Fenced, task, loaded.state.ownership.epoch(), now);
        let message = "Another instance continues this task. A request that was not acknowledged was not accepted; send it again.";
        let fault = Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, message);
        let (streams, calls): (Vec<Key>, Vec<Key>) =
            loaded.subs.iter().partition(|key| self.readers.rewind(**key, loaded.synced));
        self.fail_subscriptions(calls, &fault, now);
        self.disk.to_close.push(task.clone());
        if !streams.is_empty() {
            self.fetch(task).streams = streams;
        }
    }

    /// Continues the streams of a task that was loaded again at their positions.
    fn continue_streams(&mut self, task: &TaskId, streams: &[Key]) {
        let left: Vec<(Key, View)> =
            streams.iter().filter_map(|key| Some((*key, self.readers.get(*key)?.view))).collect();
        if let Some(loaded) = self.tasks.get_mut(task) {
            for (key, view) in left {
                loaded.subs.push(key);
                loaded.watch(view);
                self.readers.pump_later(&[key]);
            }
        }
    }

    fn fail_subscriptions(&mut self, keys: Vec<Key>, fault: &Fault, now: Now) {
        for key in keys {
            self.fail_subscription(key, fault, now);
        }
    }

    /// Unloads tasks if as many are loaded as may be. They are loaded again when a request names them.
    pub(in crate::core) fn make_room_for_task(&mut self) {
        let most = self.settings.limits.tasks;
        if self.tasks.len() >= most {
            // Several at once, so that not every new task searches all of them.
            let few = most - most.div_ceil(16);
            self.unload_until(|tasks| tasks.len() <= few, None);
        }
    }

    /// Unloads tasks if the logs of all loaded tasks are too long together.
    pub(in crate::core) fn limit_log_bytes(&mut self) {
        let most = self.settings.limits.task_total_bytes;
        if self.tasks.log_bytes > most {
            let few = most / 16 * 15;
            self.unload_until(|tasks| tasks.log_bytes <= few, None);
        }
    }

    /// Unloads tasks that can be unloaded, the least recently changed first, until `enough` is true. `kept` and tasks on the page of a
    /// waiting list are not unloaded: the list needs all of them at once.
    pub(in crate::core) fn unload_until(&mut self, enough: impl Fn(&Tasks) -> bool, kept: Option<&TaskId>) {
        let awaited = self.disk.awaited();
        let stays = |task| kept == Some(task) || awaited.contains(task);
        let resting = self.tasks.iter().filter(|(task, loaded)| loaded.can_be_unloaded() && !stays(task));
        let mut resting: Vec<(u64, TaskId)> = resting.map(|(task, loaded)| (loaded.state.at, task.clone())).collect();
        resting.sort_unstable();
        for (_, task) in resting {
            if enough(&self.tasks) {
                return;
            }
            self.unload_task(task);
        }
    }

    /// Removes a task from memory.
    pub(in crate::core) fn unload_task(&mut self, task: TaskId) {
        if self.tasks.unload(&task).is_some() {
            self.disk.to_close.push(task);
        }
    }

    /// Removes a task of which nothing was written. The next task of its context continues the one before it.
    pub(in crate::core) fn discard_task(&mut self, task: &TaskId, now: Now) -> Option<LoadedTask> {
        let loaded = self.tasks.unload(task)?;
        self.tasks.forget(task, now.unix_ms);
        self.arm_expiry(now);
        Some(loaded)
    }

    /// Loads a task, and keeps a request until that is done.
    pub(in crate::core) fn park(&mut self, task: TaskId, request: Parked) {
        self.connections.begin_call(request.caller.conn);
        self.fetch(&task).parked.push(request);
    }

    /// Loads a task in order to take it over.
    pub(in crate::core) fn fetch_to_own(&mut self, task: TaskId) {
        self.fetch(&task);
        self.disk.to_own.insert(task);
    }

    /// Loads a task, unless that is under way.
    pub(in crate::core) fn fetch(&mut self, task: &TaskId) -> &mut Loading {
        self.disk.loading.entry(task.clone()).or_insert_with(|| {
            self.out.push(Out::Store(StoreRequest::Load { task: task.clone() }));
            Loading::default()
        })
    }

    /// Goes on with a request that waited for a task which was deleted meanwhile.
    fn dispatch_for_deleted(&mut self, task: &TaskId, mut request: Parked, now: Now) {
        let conn = request.caller.conn;
        self.connections.end_call(conn);
        request.is_current = true;
        match Needs::of(&request.call).task == Some(task) {
            true => self.dispatch(request, now),
            false => self.dispatch_without(task, request, &Fault::no_task(task), now),
        }
        self.read_on(conn, now);
    }

    /// Goes on with a request that waited for a task which could not be loaded: a new task does not continue its context, a new session
    /// replaces the lost one, and a list leaves the task out. Other requests are refused.
    fn dispatch_without(&mut self, task: &TaskId, mut request: Parked, fault: &Fault, now: Now) {
        if let Call::List(_) = request.call {
            request.without.push(task.clone());
            return self.list_later(request);
        }
        if let Some(context) = Needs::of(&request.call).context.cloned() {
            self.tasks.begin_context_anew(&request.caller.partition(), &context);
        } else if !joins(&request.call) {
            return self.refuse(request.caller.conn, &request.caller.form, fault, now);
        }
        self.dispatch(request, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Dialect, Switches};
    use crate::core::disk::store::Archive;
    use crate::core::test_core::core_harness;
    use crate::core::test_core::core_harness::failing_store::Failure;
    use crate::core::test_core::{TestCore, ask_about_a_long_edit};
    use crate::limits::Limits;
    use crate::task::call::{Create, List, TaskTraits};
    use crate::task::machine::job::NoteBody;

    #[test]
    fn long_tasks_are_unloaded_when_idle_and_loaded_again_on_request() {
        let limits = Limits { task_total_bytes: 30_000, ..Limits::default() };
        let mut test = TestCore::with(limits, Switches::default());
        let tasks: Vec<TaskId> = (0..10)
            .map(|n| {
                let task = test.begin(Dialect::REST_10, None);
                let text: String = (0..1_000).map(|m| format!("{n}.{m} ")).collect();
                test.note(NoteBody::Text(text));
                test.end_turn();
                task
            })
            .collect();
        let few = |test: &TestCore| test.core.tasks.log_bytes <= 30_000 && test.core.tasks.len() < tasks.len() / 2;
        assert!(few(&test), "{} bytes", test.core.tasks.log_bytes);
        for task in &tasks {
            let ask = Call::Get { task: task.clone(), history: None };
            assert_eq!(test.ask(Dialect::REST_10, ask)["id"], task.as_str());
            assert!(few(&test), "{} bytes", test.core.tasks.log_bytes);
        }
        // A list needs more of them at once than there is room for, and gets them.
        let all = test.ask(Dialect::REST_10, Call::List(List::default()));
        assert_eq!(all["tasks"].as_array().map(Vec::len), Some(tasks.len()));
        assert!(few(&test), "{} bytes", test.core.tasks.log_bytes);
    }

    #[test]
    fn a_task_is_not_shown_with_a_notice_when_its_texts_cannot_be_read_now() {
        let limits = Limits { load_tries: 3, ..Limits::default() };
        let mut test = TestCore::with(limits, Switches::default());
        let task = test.begin(Dialect::RPC_03, None);
        ask_about_a_long_edit(&mut test.core, &task, &*test.store.blobs(), test.now);
        test.turns();
        for (failures, expected) in [(2, "new new new"), (3, "503 Service Unavailable")] {
            test.restart();
            test.core.unload_task(task.clone());
            test.turns();
            test.store.fail_reads(failures);
            let conn = test.begin_ask(Dialect::REST_03_JSON, Call::Get { task: task.clone(), history: None });
            for _ in 0..4 {
                test.later(test.limits.load_retry_ms);
            }
            let shown = test.take(conn);
            assert!(shown.contains(expected) && !shown.contains("belongs here"), "{shown}");
        }
        let shown = test.ask(Dialect::REST_03_JSON, Call::Get { task, history: None }).to_string();
        assert!(shown.contains("new new new"), "{shown}");
    }

    #[test]
    fn a_list_loads_all_its_tasks_even_above_the_limit_of_loaded_tasks() {
        let limits = Limits { tasks: 3, ..Limits::default() };
        let mut test = TestCore::with(limits, Switches::default());
        for _ in 0..5 {
            test.begin(Dialect::REST_10, None);
            test.end_turn();
        }
        assert!(test.core.tasks.len() <= 3);
        let all = test.ask(Dialect::REST_10, Call::List(List::default()));
        assert_eq!(all["tasks"].as_array().map(Vec::len), Some(5));
        test.core.connections.take_writable();
        assert!(!test.core.has_more());
        test.core.make_room_for_task();
        assert!(test.core.tasks.len() <= 3, "they have left again");
        assert!(test.core.has_more(), "their logs are let go of at once");
        test.turn();
        assert!(!test.core.has_more());
    }

    #[test]
    fn open_tasks_are_loaded_no_faster_than_the_disk_lane_allows() {
        let limits = Limits { lane_jobs: 4, ..Limits::default() };
        let mut test = TestCore::with(limits.clone(), Switches::default());
        for _ in 0..9 {
            test.begin(Dialect::REST_10, None);
        }
        test.core = Core::new(core_harness::setup(limits, Switches::default(), test.now));
        test.core.input(crate::core::Input::Listed(test.store.known()), test.now);
        for back in [0, 0, 2, 4, 6, 8, 9] {
            assert_eq!(test.core.tasks.len(), back);
            assert!(test.core.disk.loading.len() <= 2);
            test.turn();
        }
    }

    #[test]
    fn a_discarded_task_does_not_keep_the_task_it_continued() {
        let mut test = TestCore::new();
        let old = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        test.cancel(&old);
        let kept_ms = test.limits.times.retention_ms.expect("tasks are not kept for ever");
        // Each status is a little later than the one before.
        test.now.mono_ms += kept_ms + 1_000;
        test.now.unix_ms += kept_ms + 1_000;
        // The old one is due while a new one is about to continue it.
        test.store.fail(Failure::Refused, 1);
        let create = Create {
            context: Some(test.state(&old).created.context.clone()),
            settings: Default::default(),
            traits: TaskTraits::SESSION,
        };
        let refused = test.ask(Dialect::RPC_03, Call::Create(create)).to_string();
        assert!(refused.contains("the disk is told to refuse"), "{refused}");
        test.later(test.limits.expiry_pause_ms);
        assert_eq!(test.core.tasks.known.iter().count(), 0);
    }
}
