//! The path of an input through a task: it is decided and recorded, the records are appended to the store, and only records that are there
//! are released to readers and workers.

use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Lasts, ShownWhen, Store, StoreError};
use crate::core::tasks::loaded_task::{LoadedTask, Mark};
use crate::core::timers::Timer;
use crate::core::{Core, HookNotice, Out, log};
use crate::task::definitions::slash::Facts;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::brief::Brief;
use crate::task::log::event::Event;
use crate::task::machine::decide;
use crate::task::machine::decide::{Decision, Effect, Gate, Input, Refusal, Rules};
use crate::task::machine::job::{JobId, Work};
use crate::task::policy::Rule;
use std::sync::Arc;

impl Core {
    // Deciding.

    pub(in crate::core) fn decide(&self, task: &TaskId, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules {
            tools: &self.tools.specs,
            limits: &self.settings.limits,
            policy: &self.settings.approval.policy,
            grant: self.settings.approval.grant,
        };
        match self.tasks.get(task) {
            Some(loaded) => decide::decide(&loaded.state, input, &rules),
            None => Ok(Decision::default()),
        }
    }

    /// Gives a task one input, and advances it as far as it can go.
    pub(in crate::core) fn drive(&mut self, task: &TaskId, input: Input, now: Now) -> Result<(), Refusal> {
        let decision = self.decide(task, input)?;
        self.commit(task, decision, now);
        self.advance(task, now);
        Ok(())
    }

    /// Whether a command that restores the task is under way.
    pub(in crate::core) fn is_restoring(&self, loaded: &LoadedTask) -> bool {
        let command = loaded.restored_by.as_ref().and_then(|command| self.tasks.get(command));
        command.is_some_and(|command| !(command.gated.is_empty() && command.running.is_empty()))
    }

    /// Decides and records everything that follows from the state of a task. When the server is shutting down, no new work begins, but a
    /// turn may still end. A task that is being restored waits.
    pub(in crate::core) fn advance(&mut self, task: &TaskId, now: Now) {
        if self.tasks.get(task).is_some_and(|loaded| self.is_restoring(loaded)) {
            return;
        }
        loop {
            let decision = self.decide(task, Input::Advance).expect("going on is never refused");
            if decision.is_empty() || (!self.is_running() && decision.effects.iter().any(is_work)) {
                return;
            }
            if decision.events.iter().any(|event| matches!(event, Event::TurnBegan { .. }))
                && self.delays_turn(task, now)
            {
                return;
            }
            self.commit(task, decision, now);
        }
    }

    /// Records what was decided. Nothing of it is visible or started before it is on disk.
    pub(in crate::core) fn commit(&mut self, task: &TaskId, decision: Decision, now: Now) {
        if decision.is_empty() {
            return;
        }
        self.follow_all(task, now);
        self.note_freed_turns(&decision.events);
        // A command gets the facts from before it began.
        let facts = decision
            .events
            .contains(&Event::CommandBegan)
            .then(|| self.facts(&self.tasks[task].state.created.owner, now));
        let mut ended = Vec::new();
        let changed = self.tasks.update(task, |loaded| {
            let status = loaded.state.status.seq;
            for event in decision.events {
                let audited = self.audit.as_mut().and_then(|audit| audit.note(loaded, &event, now));
                if let Some(audited) = audited {
                    loaded.record(audited, now.unix_ms, &self.tools.shown);
                }
                let (record, mark) = loaded.record(event, now.unix_ms, &self.tools.shown);
                self.operation.metrics.event(&loaded.state, &record);
                self.out.extend(log::event(&loaded.state, &record, self.settings.log_level));
                let notice = HookNotice::of(&loaded.state, &record);
                loaded.hook_notices.extend(notice.map(|notice| (record.seq, Box::new(notice))));
                if mark == Mark::Over {
                    self.out.push(Out::EndBackground { task: task.clone() });
                }
                if mark != Mark::Plain {
                    let calls = self.readers.take_ended(loaded, mark);
                    ended.extend(calls.into_iter().map(|(key, history)| (key, loaded.state.clone(), history)));
                }
            }
            loaded.state.status.seq != status
        });
        for (key, state, history) in ended {
            self.encode_prompted(key, &state, history);
        }
        match changed {
            None => return,
            Some(true) => {
                self.tasks.update_brief(task);
                self.arm_expiry(now);
            }
            Some(false) => {}
        }
        self.arm_limit(task, now);
        for effect in &decision.effects {
            self.effect(task, effect, facts.as_ref(), now);
        }
        self.schedule_append(task);
    }

    fn effect(&mut self, task: &TaskId, effect: &Effect, facts: Option<&Facts>, now: Now) {
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        let (at, gate) = match effect {
            Effect::Arm { job, delay_ms } => {
                let (task, job) = (task.clone(), *job);
                let at = now.mono_ms + delay_ms;
                return self.timers.arm(at, Timer::Task { task, job });
            }
            Effect::Stop { job } => {
                loaded.gated.retain(|(_, _, gated)| gated.id.at != *job);
                if loaded.running.contains(job) {
                    let (task, at) = (task.clone(), *job);
                    self.out.push(Out::Stop(JobId { task, at }));
                }
                return;
            }
            // The job waits for it, so it is running.
            Effect::Reply { job, nr, reply } => {
                let job = JobId { task: task.clone(), at: *job };
                return self.start_after_audit(Out::Reply { job, nr: *nr, reply: reply.clone() });
            }
            Effect::Save { rule } => {
                self.audit_saved(task, rule, now);
                self.add_saved_rule(rule);
                return self.start_after_audit(Out::SaveRule { rule: Rule::clone(rule) });
            }
            Effect::Start { job, gate } => (*job, *gate),
        };
        let job = decide::job(&loaded.state, at, &self.settings.limits);
        let mut job = job.expect("the state waits for what starts");
        if let Work::Think(think) | Work::Compact(think) = &mut job.work {
            think.forbidden = self.tools.forbidden(&self.settings.approval.policy, think.mode);
        }
        match &mut job.work {
            // A summary replaces what was inherited too.
            Work::Think(think) | Work::Compact(think)
                if loaded.state.summary.is_none() && !loaded.inherited.is_empty() =>
            {
                think.given = loaded.inherited.len();
                think.history = [loaded.inherited.clone(), think.history.clone()].concat();
            }
            Work::Command(command) => {
                let facts = facts.expect("they are gathered for every command").clone();
                let model = loaded.state.requested_model.to_string();
                command.facts = Arc::new(Facts { model, ..facts });
            }
            Work::Think(_) | Work::Compact(_) | Work::Attach { .. } | Work::Prepare { .. } | Work::Run(_) => {}
        }
        loaded.gated.push((gate, loaded.state.seq, job));
    }

    /// Appends the lines of a task in this turn of the loop, unless its journal could not be written and the retry is not due yet.
    pub(in crate::core) fn schedule_append(&mut self, task: &TaskId) {
        if self.tasks.get(task).is_some_and(|loaded| loaded.broken.is_none() || !loaded.retry_armed) {
            self.retry_append(task);
        }
    }

    /// Appends the lines of a task in this turn of the loop, even if its journal could not be written before.
    pub(in crate::core) fn retry_append(&mut self, task: &TaskId) {
        if let Some(loaded) = self.tasks.get_mut(task)
            && !loaded.listed
        {
            loaded.listed = true;
            self.disk.to_append.push(task.clone());
        }
    }

    // The disk.

    /// Appends the events that were decided since the last turn: one write per changed task. A failed append is tried again later;
    /// nothing is rolled back, because none of its events was shown or had jobs started.
    pub(in crate::core) fn append(&mut self, store: &mut dyn Store, now: Now) {
        for task in std::mem::take(&mut self.disk.to_close) {
            // A client may have asked for it again in the meantime.
            if !self.tasks.is_loaded(&task) && !self.disk.loading.contains_key(&task) {
                store.close(&task);
            }
        }
        let mut failed = Vec::new();
        for task in std::mem::take(&mut self.disk.to_append) {
            let blocked = self.audit.as_ref().and_then(|audit| audit.blocks(self.tasks.get(&task)?));
            let appended = match self.tasks.continues_unwritten(&task) {
                true | false if blocked.is_some() => blocked.map(Err),
                true => Some(Err(StoreError::new("the journal of the task that this one continues cannot be written"))),
                false => self.tasks.update(&task, |loaded| append_one(loaded, store)),
            };
            let (Some(loaded), Some(appended)) = (self.tasks.get_mut(&task), appended) else {
                continue;
            };
            loaded.listed = false;
            match appended {
                Ok(()) => {
                    if !loaded.is_held_back() && loaded.broken.take().is_some() {
                        self.readers.forget_notices(&loaded.subs);
                    }
                    // Other instances have to know of a new task before it is idle.
                    let is_new = self.settings.shared_store.is_some() && loaded.stored_brief.is_none();
                    if !loaded.is_open() || is_new {
                        let brief = Brief::of(&loaded.state);
                        if loaded.stored_brief.as_ref() != Some(&brief) {
                            store.update_summary(&task, &brief);
                            loaded.stored_brief = Some(brief);
                        }
                    }
                    self.disk.to_release.push(task);
                }
                Err(error) if loaded.written == Seq(0) => {
                    store.close(&task);
                    self.report_store_error(&error, now);
                    self.abandon(&task, error, now);
                }
                Err(error) => {
                    loaded.broken = Some(error.message.clone());
                    if !std::mem::replace(&mut loaded.retry_armed, true) {
                        let at = now.mono_ms + self.settings.limits.store_retry_ms;
                        self.timers.arm(at, Timer::Store(task.clone()));
                    }
                    self.report_store_error(&error, now);
                    failed.push(task);
                }
            }
        }
        for task in failed {
            self.notify_readers(&task, now);
        }
        self.out.extend(store.findings().into_iter().map(Out::warning));
        self.out.extend(store.take_maintenance().map(Out::Maintain));
        if store.has_unwritten_summaries() && !std::mem::replace(&mut self.disk.summaries_armed, true) {
            self.timers.arm(now.mono_ms + self.settings.limits.store_retry_ms, Timer::Summaries);
        }
    }

    /// The time to try a journal again that could not be written.
    pub(in crate::core) fn append_is_due(&mut self, task: &TaskId) {
        if let Some(loaded) = self.tasks.get_mut(task) {
            loaded.retry_armed = false;
            self.retry_append(task);
        }
    }

    /// Sends readers the events that are on disk by now, and starts the jobs that waited for them.
    pub(in crate::core) fn release(&mut self, now: Now) {
        for request in std::mem::take(&mut self.disk.to_list) {
            self.list(request, now);
        }
        for task in std::mem::take(&mut self.disk.to_release) {
            self.start_jobs(&task);
            let Some(loaded) = self.tasks.get(&task) else {
                continue;
            };
            for sub in loaded.subs.clone() {
                self.pump(sub, now);
            }
            self.trim(&task);
            self.deliver(&task, now);
        }
        let pumped = std::mem::take(&mut self.readers.to_pump);
        let mut read: Vec<TaskId> =
            pumped.iter().filter_map(|sub| Some(self.readers.get(*sub)?.task.clone())).collect();
        for sub in pumped {
            self.pump(sub, now);
        }
        // Once per task, because `trim` looks at all readers of the task.
        read.sort_unstable();
        read.dedup();
        for task in read {
            self.trim(&task);
        }
        self.load_left_open(now);
        self.request_pages();
        self.announce_clients(now);
        self.watch_output_budget(now);
        self.limit_log_bytes();
        self.disconnect_clients(now);
        if self.is_over() {
            let fault = Fault::new(
                FaultKind::Overloaded { retry_after_s: 5 },
                "The server is shutting down. Accepted requests are kept; connect again when it is back.",
            );
            for key in self.readers.keys() {
                self.fail_subscription(key, &fault, now);
            }
            self.close_all_sockets(now);
        }
    }

    fn start_jobs(&mut self, task: &TaskId) {
        let waits_for_parent = self.tasks.continues_unshown(task);
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        let (shown, written, synced) = (loaded.shown(), loaded.written, loaded.synced);
        let due = loaded.hook_notices.extract_if(.., |(seq, _)| *seq <= shown);
        self.out.extend(due.map(|(_, notice)| Out::CommandHook(notice)));
        let audited = self.audit.as_ref().is_none_or(|audit| audit.is_synced(loaded));
        let now_ms = self.operation.now.mono_ms;
        let slow_ms = self.settings.shared_store.as_ref().map(|store| store.slow_ms);
        let is_doubtful = slow_ms.is_some_and(|slow_ms| now_ms.saturating_sub(loaded.sync_confirmed_ms) > slow_ms);
        let is_cut_off = self.disk.sharing.is_cut_off;
        let (mut must_sync, mut must_audit) = (false, false);
        let mut waiting = Vec::new();
        for (gate, seq, job) in std::mem::take(&mut loaded.gated) {
            let safe = match gate {
                Gate::Written => shown >= seq && !is_cut_off,
                Gate::Synced => synced >= seq && audited && !is_doubtful && !is_cut_off,
            };
            if safe {
                loaded.running.push(job.id.at);
                let operation = &mut self.operation;
                operation.metrics.start(&job, &operation.tools, operation.now.mono_ms);
                self.out.extend(log::job(&job, self.settings.log_level));
                self.out.push(Out::Start(job));
            } else {
                must_sync |= gate == Gate::Synced && seq > synced && seq <= written;
                // The store may have been asked so long ago that another instance has claimed the task since.
                must_sync |= gate == Gate::Synced && is_doubtful && !is_cut_off;
                must_audit |= gate == Gate::Synced && shown >= seq && !audited;
                waiting.push((gate, seq, job));
            }
        }
        loaded.gated = waiting;
        must_sync |=
            self.readers.among(&loaded.subs).any(|sub| sub.required_sync > synced && sub.required_sync <= written);
        must_sync |= loaded.is_held_back() && !loaded.retry_armed;
        if must_sync && waits_for_parent {
            let at = self.operation.now.mono_ms + self.settings.limits.store_retry_ms;
            if !std::mem::replace(&mut loaded.retry_armed, true) {
                self.timers.arm(at, Timer::Store(task.clone()));
            }
        } else if must_sync && !loaded.syncing {
            loaded.syncing = true;
            loaded.sync_asked_ms = now_ms;
            self.out.push(Out::Store(StoreRequest::Sync { task: task.clone(), upto: written }));
        }
        if let Some(audit) = self.audit.as_mut().filter(|_| must_audit) {
            self.out.extend(audit.sync_for(task));
        }
    }

    /// A journal was flushed up to `upto`, or could not be.
    pub(in crate::core) fn synced(&mut self, task: &TaskId, upto: Seq, result: Result<(), StoreError>, now: Now) {
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        loaded.syncing = false;
        match result {
            Ok(()) => {
                loaded.synced = loaded.synced.max(upto.min(loaded.written));
                loaded.sync_confirmed_ms = loaded.sync_asked_ms;
                if loaded.pending.is_empty() && loaded.broken.take().is_some() {
                    self.readers.forget_notices(&loaded.subs);
                }
                self.disk.to_release.push(task.clone());
            }
            Err(error) if self.settings.shown_when() == ShownWhen::Synced => self.not_synced(task, error, now),
            Err(error) => {
                self.report_store_error(&error, now);
                let Some(loaded) = self.tasks.get_mut(task) else {
                    return;
                };
                // Jobs that wait for the flush can never start, so the task fails instead of waiting for ever.
                let text = format!("The task's journal cannot be written: {}", error.message);
                let safe = loaded.synced;
                let mut held = loaded.subs.clone();
                held.retain(|key| self.readers.get(*key).is_some_and(|sub| sub.required_sync > safe));
                let fault = Fault::new(FaultKind::Storage, text.clone());
                for key in held {
                    self.fail_subscription(key, &fault, now);
                }
                let _ = self.drive(task, Input::Fail(text), now);
            }
        }
    }
}

impl Core {
    /// A shared store did not accept events. No client was shown them.
    fn not_synced(&mut self, task: &TaskId, error: StoreError, now: Now) {
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        if matches!(error.lasts, Lasts::WhileLocked | Lasts::Gone) {
            return self.fenced(task, now);
        }
        if !std::mem::replace(&mut loaded.retry_armed, true) {
            let at = now.mono_ms + self.settings.limits.store_retry_ms;
            self.timers.arm(at, Timer::Store(task.clone()));
        }
        loaded.broken = Some(error.message.clone());
        self.report_store_error(&error, now);
        self.notify_readers(task, now);
    }
}

fn is_work(effect: &Effect) -> bool {
    matches!(effect, Effect::Start { .. })
}

fn append_one(loaded: &mut LoadedTask, store: &mut dyn Store) -> Result<(), StoreError> {
    let open = loaded.openness();
    // A task that was loaded because it had been left open may turn out to be settled: then the next start need not load it.
    if loaded.pending.is_empty() && loaded.stored_openness == Some(open) {
        return Ok(());
    }
    let created = &loaded.state.created;
    if loaded.written == Seq(0) {
        store.create(&created.task, &Brief::of(&loaded.state))?;
    }
    store.append(&created.task, &loaded.pending, open)?;
    loaded.stored_openness = Some(open);
    loaded.written = loaded.state.seq;
    loaded.log_bytes += loaded.pending.len();
    loaded.pending = Vec::new();
    Ok(())
}

#[cfg(test)]
mod tests;
