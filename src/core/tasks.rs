//! Tasks: inputs are decided and recorded, lines go to the store, and only what is there is released to readers and workers.

use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::cell::{Cell, Mark};
use crate::core::store::{Store, StoreError};
use crate::core::sub::Role;
use crate::core::timers::Timer;
use crate::core::{Core, Loaded, Out, readers};
use crate::task::brief::Brief;
use crate::task::call::Call;
use crate::task::decide::{self, Decision, Effect, Gate, Input, Refusal, Rules};
use crate::task::fault::{Fault, FaultKind};
use crate::task::job::{JobId, Work};
use crate::task::slash::Facts;
use std::collections::hash_map::Entry;
use std::sync::Arc;

impl Core {
    // Deciding.

    pub(super) fn decide(&self, task: &TaskId, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules {
            tools: &self.specs,
            limits: &self.limits,
            policy: &self.approval.policy,
            grant: self.approval.grant,
        };
        match self.tasks.get(task) {
            Some(cell) => decide::decide(&cell.state, input, &rules),
            None => Ok(Decision::default()),
        }
    }

    /// Gives a task one input and lets it go on as far as it can.
    pub(super) fn drive(&mut self, task: &TaskId, input: Input, now: Now) -> Result<(), Refusal> {
        let decision = self.decide(task, input)?;
        self.commit(task, decision, now);
        self.advance(task, now);
        Ok(())
    }

    /// Whatever follows from the state. When the server is to end, nothing new begins: a turn may still end.
    pub(super) fn advance(&mut self, task: &TaskId, now: Now) {
        loop {
            let decision = self
                .decide(task, Input::Advance)
                .expect("going on is never refused");
            if decision.is_empty() || (self.ending && decision.effects.iter().any(is_work)) {
                return;
            }
            self.commit(task, decision, now);
        }
    }

    /// Records what was decided. Nothing of it is visible or started before it is on disk.
    pub(super) fn commit(&mut self, task: &TaskId, decision: Decision, now: Now) {
        if decision.is_empty() {
            return;
        }
        self.follow_all(task, now);
        let commands = |effect: &Effect| matches!(effect, Effect::Command { .. });
        let facts = decision
            .effects
            .iter()
            .any(commands)
            .then(|| self.facts(now));
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        let hot_before = cell.hot_bytes;
        let status = cell.state.status.seq;
        for event in decision.events {
            let mark = Mark::of(&event);
            cell.record(event, now.unix_ms, &self.tools);
            if mark == Mark::Over {
                self.out.push(Out::Over { task: task.clone() });
            }
            if mark != Mark::Plain {
                readers::ready_answers(cell, &mut self.subs, mark);
            }
        }
        self.hot_total = self.hot_total + cell.hot_bytes - hot_before;
        if cell.state.status.seq != status {
            self.known.insert(task.clone(), Brief::of(&cell.state));
            self.arm_expiry(now);
        }
        self.arm_limit(task, now);
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        for effect in &decision.effects {
            match effect {
                Effect::Arm { job, delay_ms } => {
                    let timer = Timer::Task {
                        task: task.clone(),
                        job: *job,
                    };
                    self.timers.arm(now.mono_ms + delay_ms, timer);
                }
                Effect::Stop { job } => {
                    cell.gated.retain(|(_, _, gated)| gated.id.at != *job);
                    if cell.running.contains(job) {
                        self.out.push(Out::Stop(JobId {
                            task: task.clone(),
                            at: *job,
                        }));
                    }
                }
                Effect::Save { rule } => self.out.push(Out::SaveRule { rule: rule.clone() }),
                Effect::Think { .. }
                | Effect::Attach { .. }
                | Effect::Command { .. }
                | Effect::Compact { .. }
                | Effect::Prepare { .. }
                | Effect::Run { .. } => {
                    let gate = match effect {
                        Effect::Run { gate, .. } => *gate,
                        // Some commands write files, and which do is not known here.
                        Effect::Command { .. } => Gate::Synced,
                        _ => Gate::Written,
                    };
                    let job = decide::job(&cell.state, effect, &self.limits);
                    let mut job = job.expect("these effects are jobs of the present state");
                    // A summary stands for what was inherited too.
                    if let Work::Think(think) | Work::Compact(think) = &mut job.work
                        && cell.state.summary.is_none()
                        && !cell.inherited.is_empty()
                    {
                        think.given = cell.inherited.len();
                        think.history = [cell.inherited.clone(), think.history.clone()].concat();
                    }
                    if let (Work::Command(command), Some(facts)) = (&mut job.work, &facts) {
                        let model = cell.state.asks.to_string();
                        let facts = facts.clone();
                        command.facts = Arc::new(Facts { model, ..facts });
                    }
                    cell.gated.push((gate, cell.state.seq, job));
                }
            }
        }
        self.list_append(&task.clone());
    }

    /// A journal that could not be written is left alone until its timer is due.
    pub(super) fn list_append(&mut self, task: &TaskId) {
        if let Some(cell) = self.tasks.get_mut(task)
            && !cell.listed
            && cell.broken.is_none()
        {
            cell.listed = true;
            self.to_append.push(task.clone());
        }
    }

    // The disk.

    /// Appends what was decided since the last time: one write per changed task. What fails stays above the mark and is
    /// tried again later; nothing is rolled back, because nothing was shown or started.
    pub fn append(&mut self, store: &mut dyn Store, now: Now) {
        self.purge(store, now);
        for task in std::mem::take(&mut self.to_forget) {
            // Somebody may have asked for it again in the meantime.
            if !self.tasks.contains_key(&task) && !self.parked.contains_key(&task) {
                store.close(&task);
            }
        }
        for task in std::mem::take(&mut self.to_append) {
            let Some(cell) = self.tasks.get_mut(&task) else {
                continue;
            };
            cell.listed = false;
            let added = cell.pending.len();
            match append_one(cell, store) {
                Ok(()) => {
                    cell.log_bytes += added;
                    self.log_bytes += added;
                    if !cell.is_open() {
                        let brief = Brief::of(&cell.state);
                        if cell.noted.as_ref() != Some(&brief) {
                            store.note(&task, &brief);
                            cell.noted = Some(brief);
                        }
                    }
                    self.to_release.push(task);
                }
                Err(error) if cell.written == Seq(0) => {
                    store.close(&task);
                    self.tell_trouble(&error, now);
                    self.abandon(&task, error, now);
                }
                Err(error) => {
                    cell.broken = Some(error.message.clone());
                    let at = now.mono_ms + self.limits.store_retry_ms;
                    self.timers.arm(at, Timer::Store(task));
                    self.tell_trouble(&error, now);
                }
            }
        }
        self.undergo_trial(store, now);
    }

    /// The time has come to try a journal again that could not be written.
    pub(super) fn retry_append(&mut self, task: &TaskId) {
        if let Some(cell) = self.tasks.get_mut(task) {
            cell.broken = None;
            self.list_append(task);
        }
    }

    /// Shows and starts what is on disk now.
    pub fn release(&mut self, now: Now) {
        for request in std::mem::take(&mut self.to_list) {
            self.list(request, now);
        }
        for task in std::mem::take(&mut self.to_release) {
            self.start_jobs(&task);
            let Some(cell) = self.tasks.get(&task) else {
                continue;
            };
            for sub in cell.subs.clone() {
                self.pump(sub, now);
            }
            self.trim(&task);
            self.deliver(&task, now);
        }
        let pumped = std::mem::take(&mut self.to_pump);
        let mut read: Vec<TaskId> = pumped
            .iter()
            .filter_map(|sub| Some(self.subs.get(*sub)?.task.clone()))
            .collect();
        for sub in pumped {
            self.pump(sub, now);
        }
        // Once per task, because it looks at all readers of the task.
        read.sort_unstable();
        read.dedup();
        for task in read {
            self.trim(&task);
        }
        self.restore();
        self.turn_pages();
        self.watch_crowd(now);
        self.lighten();
        if self.ended {
            let fault = Fault::new(
                FaultKind::Overloaded { retry_after_s: 5 },
                "The server is ending. What it has accepted is kept; connect again when it is back.",
            );
            let waiting: Vec<Key> = self.subs.iter().map(|(key, _)| key).collect();
            for key in waiting {
                self.dismiss(key, &fault, now);
            }
        }
    }

    fn start_jobs(&mut self, task: &TaskId) {
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        let (written, synced) = (cell.written, cell.synced);
        let mut must_sync = false;
        let mut waiting = Vec::new();
        for (gate, seq, job) in std::mem::take(&mut cell.gated) {
            let safe = match gate {
                Gate::Written => written >= seq,
                Gate::Synced => synced >= seq,
            };
            if safe {
                cell.running.push(job.id.at);
                self.out.push(Out::Start(job));
            } else {
                must_sync |= gate == Gate::Synced && written >= seq;
                waiting.push((gate, seq, job));
            }
        }
        cell.gated = waiting;
        let held = cell.subs.iter().filter_map(|key| self.subs.get(*key));
        must_sync |= held
            .into_iter()
            .any(|sub| sub.safe > synced && sub.safe <= written);
        if must_sync && !cell.syncing {
            cell.syncing = true;
            self.out.push(Out::Sync {
                task: task.clone(),
                upto: written,
            });
        }
    }

    /// A journal was flushed up to `upto`, or could not be.
    pub fn synced(&mut self, task: &TaskId, upto: Seq, result: Result<(), StoreError>, now: Now) {
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        cell.syncing = false;
        match result {
            Ok(()) => {
                cell.synced = cell.synced.max(upto);
                self.to_release.push(task.clone());
            }
            Err(error) => {
                self.tell_trouble(&error, now);
                let Some(cell) = self.tasks.get_mut(task) else {
                    return;
                };
                // What waits for the flush can never start: the task says so instead of waiting for ever.
                let text = format!("The task's journal cannot be written: {}", error.message);
                let safe = cell.synced;
                let mut held = cell.subs.clone();
                held.retain(|key| self.subs.get(*key).is_some_and(|sub| sub.safe > safe));
                let fault = Fault::new(FaultKind::Storage, text.clone());
                for key in held {
                    self.dismiss(key, &fault, now);
                }
                let _ = self.drive(task, Input::Fail(text), now);
            }
        }
    }

    // Tasks from the store.

    /// Learns which tasks there are, and brings back those that were left open.
    pub fn remember(&mut self, store: &mut dyn Store) {
        for known in store.known() {
            let brief = known.brief;
            self.contexts
                .entry((brief.tenant.clone(), brief.context.clone()))
                .or_default()
                .push(known.task.clone());
            // Only a session bears the name of its context, and the latest one goes on.
            if known.task.as_str() == brief.context.as_str() && !brief.state.is_terminal() {
                self.session = Some(known.task.clone());
            }
            self.known.insert(known.task.clone(), brief);
            if known.open {
                self.unrestored.push_back(known.task);
            }
        }
        self.restore();
        // What became due while no server ran is looked at as soon as somebody knows how late it is.
        self.expiry_armed = 0;
        self.timers.arm(0, Timer::Expiry);
        // A disk may have been full before this server began.
        self.arm_trial(0);
    }

    /// Brings back tasks that were left open, as many as there is room for now: their turns were cut off, or somebody is still to
    /// be told of their end.
    pub(super) fn restore(&mut self) {
        while !self.ending
            && let Some(task) = self.unrestored.pop_front()
        {
            self.make_room();
            if self.tasks.len() + self.parked.len() >= self.limits.tasks {
                return self.unrestored.push_front(task);
            }
            if !self.tasks.contains_key(&task) {
                self.bring_back(task);
            }
        }
    }

    /// Has a task loaded that nobody has asked for.
    pub(super) fn bring_back(&mut self, task: TaskId) {
        if let Entry::Vacant(none) = self.parked.entry(task.clone()) {
            none.insert(Vec::new());
            self.out.push(Out::Load { task });
        }
    }

    /// A task was read from its journal, or could not be.
    pub fn loaded(&mut self, task: &TaskId, result: Result<Loaded, StoreError>, now: Now) {
        if let Err(error) = &result
            && error.busy
            && self.try_again(task, now)
        {
            return;
        }
        self.busy.remove(task);
        let parked = self.parked.remove(task).unwrap_or_default();
        match result {
            Ok(loaded) => {
                let seq = loaded.state.seq;
                let mut cell = Cell::new(loaded.state, loaded.inherited);
                cell.written = seq;
                cell.synced = Seq(0);
                cell.log_bytes = loaded.bytes;
                self.make_room();
                self.log_bytes += loaded.bytes;
                let brief = Brief::of(&cell.state);
                cell.noted =
                    Some(brief.clone()).filter(|brief| self.known.get(task) == Some(brief));
                self.known.insert(task.clone(), brief);
                self.tasks.insert(task.clone(), cell);
                self.list_append(task);
                // Its webhooks may have something coming from before.
                self.to_release.push(task.clone());
                let _ = self.drive(task, Input::Restored, now);
                self.tell_time(task, now);
                self.arm_expiry(now);
                for request in parked {
                    let conn = request.conn;
                    self.take_up(&request);
                    match request.call {
                        Call::List(_) => self.list_later(request),
                        call => self.perform(conn, call, request.form, request.by, now),
                    }
                    self.read_on(conn, now);
                }
            }
            Err(error) => {
                self.put_off(task.clone(), now);
                // A session that cannot be read is nobody's any more.
                self.session.take_if(|session| session == task);
                let fault = Fault::new(FaultKind::Storage, error.message);
                for request in parked {
                    let conn = request.conn;
                    self.take_up(&request);
                    self.perform_without(task, request, &fault, now);
                    self.read_on(conn, now);
                }
            }
        }
    }

    /// A log that somebody else has is asked for again a few times: a server that was killed may leave a child behind that lets
    /// go of it only when it becomes the program it is to be.
    fn try_again(&mut self, task: &TaskId, now: Now) -> bool {
        let tries = self.busy.entry(task.clone()).or_default();
        *tries += 1;
        let again = *tries < self.limits.load_tries;
        if again {
            let at = now.mono_ms + self.limits.load_retry_ms;
            self.timers.arm(at, Timer::Load(task.clone()));
        }
        again
    }

    /// A task whose very first lines cannot be kept has never been: whoever asked for it is told why.
    fn abandon(&mut self, task: &TaskId, error: StoreError, now: Now) {
        let Some(cell) = self.unmake(task) else {
            return;
        };
        let fault = Fault::new(FaultKind::Storage, error.message);
        for key in cell.subs {
            match self.subs.get(key).map(|sub| sub.role) {
                // Who follows every task never heard of this one.
                Some(Role::FollowAll) => drop(self.unsubscribe(key)),
                Some(_) | None => self.dismiss(key, &fault, now),
            }
        }
    }

    /// When memory holds as many tasks as it may, those that rest unwatched leave it. They are loaded again when somebody asks for
    /// them.
    pub(super) fn make_room(&mut self) {
        let most = self.limits.tasks;
        if self.tasks.len() >= most {
            // Several at once, so that a full house does not look through all of them for every newcomer.
            let few = most - most.div_ceil(16);
            self.send_away(|core| core.tasks.len() <= few);
        }
    }

    /// The same when they are too long together. Not while somebody waits for tasks to be loaded: a list needs all of its own at
    /// once, and they would leave as they come.
    fn lighten(&mut self) {
        let most = self.limits.task_total_bytes;
        if self.log_bytes > most && self.parked.is_empty() && self.to_list.is_empty() {
            let few = most / 16 * 15;
            self.send_away(|core| core.log_bytes <= few);
        }
    }

    /// Lets tasks leave that can, the longest untouched first, until it is enough.
    fn send_away(&mut self, enough: impl Fn(&Core) -> bool) {
        let resting = self.tasks.iter().filter(|(_, cell)| cell.can_leave());
        let mut resting: Vec<(u64, TaskId)> = resting
            .map(|(task, cell)| (cell.state.at, task.clone()))
            .collect();
        resting.sort_unstable();
        for (_, task) in resting {
            if enough(self) {
                return;
            }
            self.leave(task);
        }
    }

    /// Takes a task out of memory.
    pub(super) fn leave(&mut self, task: TaskId) {
        if self.take_out(&task).is_some() {
            self.to_forget.push(task);
        }
    }

    /// Forgets a task of which nothing was written: its context goes on from the task before it.
    pub(super) fn unmake(&mut self, task: &TaskId) -> Option<Cell> {
        let cell = self.take_out(task)?;
        self.strike(task);
        Some(cell)
    }

    pub(super) fn take_out(&mut self, task: &TaskId) -> Option<Cell> {
        let cell = self.tasks.remove(task)?;
        self.hot_total -= cell.hot_bytes;
        self.log_bytes -= cell.log_bytes;
        Some(cell)
    }

    /// Strikes a task off every list; gives those that are left in its context.
    pub(super) fn strike(&mut self, task: &TaskId) -> Vec<TaskId> {
        self.session.take_if(|session| session == task);
        let Some(brief) = self.known.remove(task) else {
            return Vec::new();
        };
        let place = (brief.tenant, brief.context);
        let Some(tasks) = self.contexts.get_mut(&place) else {
            return Vec::new();
        };
        tasks.retain(|known| known != task);
        let left = tasks.clone();
        if left.is_empty() {
            self.contexts.remove(&place);
        }
        left
    }
}

fn is_work(effect: &Effect) -> bool {
    match effect {
        Effect::Think { .. }
        | Effect::Attach { .. }
        | Effect::Command { .. }
        | Effect::Compact { .. }
        | Effect::Prepare { .. }
        | Effect::Run { .. } => true,
        Effect::Stop { .. } | Effect::Arm { .. } | Effect::Save { .. } => false,
    }
}

fn append_one(cell: &mut Cell, store: &mut dyn Store) -> Result<(), StoreError> {
    let open = cell.openness();
    // One that was loaded because it had been left open may turn out to be settled: then the next start need not look at it.
    if cell.pending.is_empty() && cell.marked == Some(open) {
        return Ok(());
    }
    let created = &cell.state.created;
    if cell.written == Seq(0) {
        store.create(&created.task, &Brief::of(&cell.state))?;
    }
    store.append(&created.task, &cell.pending, open)?;
    cell.marked = Some(open);
    cell.written = cell.state.seq;
    cell.pending = Vec::new();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Envelope, Switches};
    use crate::core::rig::Rig;
    use crate::limits::Limits;
    use crate::task::call::List;
    use crate::task::job::NoteBody;

    #[test]
    fn long_tasks_leave_memory_when_they_rest_and_come_back_when_asked_for() {
        let limits = Limits {
            task_total_bytes: 30_000,
            ..Limits::default()
        };
        let mut rig = Rig::with(limits, Switches::default());
        let tasks: Vec<TaskId> = (0..10)
            .map(|n| {
                let task = rig.begin(Envelope::Rest10, None);
                let text: String = (0..1_000).map(|m| format!("{n}.{m} ")).collect();
                rig.note(NoteBody::Text(text));
                rig.end_turn();
                task
            })
            .collect();
        let few =
            |rig: &Rig| rig.core.log_bytes <= 30_000 && rig.core.tasks.len() < tasks.len() / 2;
        assert!(few(&rig), "{} bytes", rig.core.log_bytes);
        for task in &tasks {
            let ask = Call::Get {
                task: task.clone(),
                history: None,
            };
            assert_eq!(rig.ask(Envelope::Rest10, ask)["id"], task.as_str());
            assert!(few(&rig), "{} bytes", rig.core.log_bytes);
        }
        // A list needs more of them at once than there is room for, and gets them.
        let all = rig.ask(Envelope::Rest10, Call::List(List::default()));
        assert_eq!(all["tasks"].as_array().map(Vec::len), Some(tasks.len()));
        assert!(few(&rig), "{} bytes", rig.core.log_bytes);
    }
}
