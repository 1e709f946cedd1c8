//! The audit: entries are made when events are decided, written before the journals in each turn, and flushed before a tool starts that
//! waits for its journal to be flushed. So what is in a journal or was started is in the audit. The reverse need not be true: an entry
//! may tell of an event that could not be written after it.
//!
//! If the audit cannot be written, the journals of tasks that entries tell of are not written either. Such a task behaves as if its
//! journal could not be written: nothing of it is shown or started, reading goes on, and the write is tried again.

mod refusals;
#[cfg(test)]
mod tests;

use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::base::level::Level;
use crate::core::audit::refusals::Refusals;
use crate::core::connections::connection::Link;
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::{Store, StoreError};
use crate::core::requests::Caller;
use crate::core::requests::needs::{Access, Needs};
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::task::audit::entries::{Cause, Texts};
use crate::task::audit::{Entry, Head, Kind, What, Who};
use crate::task::call::{Call, Open};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Event;
use crate::task::machine::decide::Input;
use crate::task::message::Source;
use crate::task::policy::Rule;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// What the audit of a server is made from.
pub struct AuditSetup {
    /// The name of the chain: the id of the server.
    pub chain: String,
    /// The last line that is in the file.
    pub head: Head,
    pub texts: Texts,
    /// What the first entry of this run says.
    pub began: What,
}

pub(in crate::core) struct Audit {
    chain: Arc<str>,
    head: Head,
    texts: Texts,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    /// Up to these entries the file survives the end of the process, and a power failure.
    written: u64,
    synced: u64,
    syncing: bool,
    problem: Option<Problem>,
    /// [`Timer::Audit`] is armed to try a failed write again.
    retry_armed: bool,
    /// The log was last told of a problem, in monotonic milliseconds.
    told: Option<u64>,
    /// Whoever sent the request that is being carried out.
    actor: Option<Actor>,
    /// Who wants tasks deleted that a shared store has not deleted yet. It refuses that where another task continues them.
    deleting: HashMap<TaskId, Actor>,
    /// What is started when these entries are written.
    held: Vec<(u64, Out)>,
    /// Tasks with jobs that wait for a flush.
    waiting: Vec<TaskId>,
    refusals: Refusals,
}

struct Problem {
    error: StoreError,
    /// For health: without names of files.
    shown: String,
    /// A flush failed: nobody knows what of the file is on the disk, so nothing more is written by this process.
    is_final: bool,
}

/// Whoever sent a request.
#[derive(Clone, Default)]
struct Actor {
    who: Who,
    request: Option<String>,
}

impl Audit {
    pub fn new(setup: AuditSetup, unix_ms: u64) -> Audit {
        let AuditSetup { chain, head, texts, began } = setup;
        let (written, synced) = (head.n, head.n);
        let mut audit = Audit {
            chain: chain.into(),
            head,
            texts,
            pending: Vec::new(),
            written,
            synced,
            syncing: false,
            problem: None,
            retry_armed: false,
            told: None,
            actor: None,
            deleting: HashMap::new(),
            held: Vec::new(),
            waiting: Vec::new(),
            refusals: Refusals::default(),
        };
        audit.add(&Entry::new(Kind::Began, Who::server(), began), unix_ms);
        audit
    }

    fn add(&mut self, entry: &Entry, unix_ms: u64) {
        self.head.add(entry, unix_ms, &mut self.pending);
    }

    /// Adds what an event of a task is recorded as; the task's state is the one before it. Gives the event that has to be recorded
    /// right before it, if it ends a turn or the task: the head of the chain.
    pub fn note(&mut self, loaded: &mut LoadedTask, event: &Event, now: Now) -> Option<Event> {
        let ends = matches!(event, Event::TurnEnded { .. } | Event::Closed { .. });
        let noted = self.texts.of_event(&loaded.state, event);
        // The end of a task follows that of its turn at once: one head is enough for both.
        let is_due = ends && (noted.is_some() || loaded.audited != self.head.n);
        let next = loaded.state.seq.next();
        let seq = if is_due { next.next() } else { next };
        if let Some((kind, cause, what)) = noted {
            self.add_of_task(&loaded.state.created.task.clone(), seq, kind, cause, what, now);
            loaded.audit = self.head.n;
        }
        is_due.then(|| {
            (loaded.audit, loaded.audited) = (self.head.n, self.head.n);
            Event::Audited { chain: self.chain.clone(), n: self.head.n, hash: self.head.hash.clone() }
        })
    }

    /// A task was created.
    pub fn note_created(&mut self, loaded: &mut LoadedTask, now: Now) {
        let event = Event::Created(loaded.state.created.clone());
        if let Some((kind, cause, what)) = self.texts.of_event(&loaded.state, &event) {
            self.add_of_task(&loaded.state.created.task.clone(), Seq(1), kind, cause, what, now);
            loaded.audit = self.head.n;
        }
    }

    fn add_of_task(&mut self, task: &TaskId, seq: Seq, kind: Kind, cause: Cause, what: What, now: Now) {
        let actor = self.by_whom();
        let (who, request) = match cause {
            Cause::Person => (actor.who, actor.request),
            Cause::Agent => (Who::agent(), None),
        };
        let entry = Entry { kind, who, request, task: Some(task.clone()), seq: Some(seq), what };
        self.add(&entry, now.unix_ms);
    }

    /// Why a task's journal may not be written: entries about it are not in the audit.
    pub fn blocks(&self, loaded: &LoadedTask) -> Option<StoreError> {
        let problem = self.problem.as_ref().filter(|_| loaded.audit > self.written)?;
        let message = format!("the audit cannot be written: {}", problem.error.message);
        let hint = format!("the audit cannot be written: {}", problem.hint());
        Some(StoreError { message, hint: Some(hint), lasts: problem.error.lasts })
    }

    /// Whether the entries about a task are flushed.
    pub fn is_synced(&self, loaded: &LoadedTask) -> bool {
        self.synced >= loaded.audit
    }

    /// Has the audit flushed, and the task looked at afterwards.
    pub fn sync_for(&mut self, task: &TaskId) -> Option<Out> {
        if !self.waiting.contains(task) {
            self.waiting.push(task.clone());
        }
        let begins = !std::mem::replace(&mut self.syncing, true);
        begins.then(|| Out::Store(StoreRequest::SyncAudit { upto: self.written }))
    }

    /// Whether there is something to write that waits for no timer.
    pub fn has_more(&self) -> bool {
        !self.pending.is_empty() && self.problem.is_none()
    }

    /// For the checks of invariants: whether a flush is under way that the task waits for.
    #[cfg(debug_assertions)]
    pub fn is_flushed_for(&self, task: &TaskId) -> bool {
        self.syncing && self.waiting.contains(task)
    }

    /// Who causes what happens now: the server, unless a request is being carried out.
    fn by_whom(&self) -> Actor {
        self.actor.clone().unwrap_or_else(|| Actor { who: Who::server(), request: None })
    }

    /// What follows is not caused by the request that was carried out last.
    pub fn forget_actor(&mut self) {
        self.actor = None;
    }
}

impl Problem {
    fn hint(&self) -> &str {
        self.error.hint.as_deref().unwrap_or("the server's log says why")
    }
}

impl Core {
    /// Why the audit cannot be written, if it cannot, without names of files. Nothing that changes something starts meanwhile.
    pub fn audit_problem(&self) -> Option<&str> {
        self.audit.as_ref()?.problem.as_ref().map(|problem| problem.shown.as_str())
    }

    /// Adds an entry about no task: credentials, tickets, logins.
    pub fn audit(&mut self, entry: &Entry, now: Now) {
        if let Some(audit) = &mut self.audit {
            audit.add(entry, now.unix_ms);
        }
    }

    /// Has the file of the audit opened again, in case somebody moved it away. The result goes to the log.
    pub fn reopen_audit(&mut self) {
        if self.audit.is_some() {
            self.out.push(Out::Store(StoreRequest::ReopenAudit));
        }
    }

    /// Everything until the next input is done for this caller.
    pub(in crate::core) fn act_as(&mut self, caller: &Caller) {
        if self.audit.is_some() {
            let actor = self.actor(caller);
            if let Some(audit) = &mut self.audit {
                audit.actor = Some(actor);
            }
        }
    }

    /// The same for a request that came through another instance, which knows where its client is.
    pub(in crate::core) fn act_for(&mut self, by: &Source, request: &str) {
        if let Some(audit) = &mut self.audit {
            audit.actor = Some(Actor { who: Who::of(by), request: Some(request.to_owned()) });
        }
    }

    /// A request that came through another instance is refused: its client may not make it.
    pub(in crate::core) fn audit_refused_left(&mut self, by: &Source, task: &TaskId, now: Now) {
        let what = What::default().with("reason", "right");
        let entry = Entry { task: Some(task.clone()), ..Entry::new(Kind::Denied, Who::of(by), what) };
        self.audit(&entry, now);
    }

    /// Who a caller is in the audit. All that is known of the sender of a request comes from here.
    fn actor(&self, caller: &Caller) -> Actor {
        let peer = self.audited_peer(caller.conn);
        let credential = caller.principal.credential.as_deref().map(str::to_owned);
        let subject = Some(caller.principal.subject.to_string());
        let identity = caller.principal.identity.as_deref().map(str::to_owned);
        let who = Who { credential, subject, identity, peer, via: caller.by.via.clone() };
        let request = self.connections.get(caller.conn).and_then(|conn| conn.exchange());
        Actor { who, request: request.map(|exchange| exchange.id.text.to_string()) }
    }

    /// Where a connection comes from, as the audit names it.
    fn audited_peer(&self, conn: crate::base::slots::Key) -> Option<String> {
        let conn = self.connections.get(conn)?;
        match conn.client_address {
            Some(address) => Some(address.to_string()),
            None if conn.link == Link::Tcp => Some("loopback".into()),
            None => Some("unix".into()),
        }
    }

    /// Refuses calls that change something while the audit cannot be written. What runs may be stopped, and everything may be read.
    pub(in crate::core) fn refused_by_audit(&self, call: &Call) -> Option<Fault> {
        let problem = self.audit_problem()?;
        let changes = Needs::of(call).access == Access::Change
            || matches!(call, Call::Create(_) | Call::Execute(_) | Call::Delete { .. } | Call::Open(Open::New(_)));
        let text = format!("{problem} Nothing of this request was accepted; send it again later.");
        changes.then(|| Fault::new(FaultKind::Storage, text))
    }

    /// Starts something when the entries about it are written.
    pub(in crate::core) fn start_after_audit(&mut self, out: Out) {
        match &mut self.audit {
            Some(audit) if audit.written < audit.head.n => audit.held.push((audit.head.n, out)),
            Some(_) | None => self.out.push(out),
        }
    }

    /// A rule is kept for later sessions.
    pub(in crate::core) fn audit_saved(&mut self, task: &TaskId, rule: &Rule, now: Now) {
        self.audit_of_task(Kind::Saved, task, |texts| What::default().with("rule", texts.value(&json!(rule))), now);
    }

    /// A task is about to be deleted, by whoever asked for it or because it is old. What a shared store is asked for is recorded when it has
    /// done it.
    pub(in crate::core) fn audit_deleting(&mut self, task: &TaskId, now: Now) {
        if self.settings.shared_store.is_none() {
            return self.audit_of_task(Kind::Deleted, task, |_| What::default(), now);
        }
        if let Some(audit) = &mut self.audit {
            let actor = audit.by_whom();
            audit.deleting.insert(task.clone(), actor);
        }
    }

    /// A shared store has deleted a task, or refused that.
    pub(in crate::core) fn audit_deleted(&mut self, task: &TaskId, is_removed: bool, now: Now) {
        if let Some(audit) = &mut self.audit
            && let Some(Actor { who, request }) = audit.deleting.remove(task)
            && is_removed
        {
            let (task, what) = (Some(task.clone()), What::default());
            audit.add(&Entry { kind: Kind::Deleted, who, request, task, seq: None, what }, now.unix_ms);
        }
    }

    /// This instance owns a task from now on, has lost it, or gives it up; only in a shared store.
    pub(in crate::core) fn audit_ownership(&mut self, kind: Kind, task: &TaskId, epoch: u64, now: Now) {
        if let Some(store) = &self.settings.shared_store {
            let what = What::default().with("instance", &*store.instance).with("epoch", epoch);
            self.audit_of_task(kind, task, |_| what, now);
        }
    }

    fn audit_of_task(&mut self, kind: Kind, task: &TaskId, what: impl FnOnce(&Texts) -> What, now: Now) {
        let Some(audit) = &mut self.audit else {
            return;
        };
        let Actor { who, request } = audit.by_whom();
        let what = what(&audit.texts);
        audit.add(&Entry { kind, who, request, task: Some(task.clone()), seq: None, what }, now.unix_ms);
    }

    /// Adds an entry about what a caller has done.
    pub(in crate::core) fn audit_as(
        &mut self,
        caller: &Caller,
        kind: Kind,
        task: Option<&TaskId>,
        what: What,
        now: Now,
    ) {
        let Actor { who, request } = self.actor(caller);
        self.audit(&Entry { kind, who, request, task: task.cloned(), seq: None, what }, now);
    }

    /// The server ends.
    pub(in crate::core) fn audit_ended(&mut self, now: Now) {
        self.count_refusals_out(now, u64::MAX);
        self.audit(&Entry::new(Kind::Ended, Who::server(), What::default()), now);
    }

    // The file.

    /// Writes what was added since the last time, in one write, before any journal.
    pub(in crate::core) fn append_audit(&mut self, store: &mut dyn Store, now: Now) {
        let is_over = self.is_over();
        let Some(audit) = self.audit.as_mut() else {
            return;
        };
        let waits = audit.problem.as_ref().is_some_and(|problem| problem.is_final || audit.retry_armed);
        if audit.pending.is_empty() || waits {
            return;
        }
        if let Err(error) = store.append_audit(&audit.pending) {
            return self.audit_fails(error, now);
        }
        audit.pending = Vec::new();
        audit.written = audit.head.n;
        let (held, ready) = std::mem::take(&mut audit.held).into_iter().partition(|(n, _)| *n > audit.written);
        audit.held = held;
        let (chain, Head { n, hash }) = (&audit.chain, &audit.head);
        if is_over {
            let text = format!("audit: chain {chain} ends with entry {n}, {hash}");
            self.out.push(Out::Log { level: Level::Info, text });
        }
        let recovered = audit.problem.take().is_some();
        let ready: Vec<(u64, Out)> = ready;
        self.out.extend(ready.into_iter().map(|(_, out)| out));
        if recovered {
            let broken = self.tasks.iter().filter(|(_, loaded)| loaded.broken.is_some());
            let mut broken: Vec<TaskId> = broken.map(|(task, _)| task.clone()).collect();
            broken.sort_unstable();
            for task in broken {
                self.retry_append(&task);
            }
        }
    }

    fn audit_fails(&mut self, error: StoreError, now: Now) {
        let Some(audit) = &mut self.audit else {
            return;
        };
        let mut problem = Problem { error, shown: String::new(), is_final: false };
        problem.shown = format!(
            "The audit cannot be written: {}. Until then nothing that changes something starts.",
            problem.hint()
        );
        let text = format!("the audit: {}; until then nothing that changes something starts", problem.error);
        audit.problem = Some(problem);
        if !std::mem::replace(&mut audit.retry_armed, true) {
            self.timers.arm(now.mono_ms + self.settings.limits.store_retry_ms, Timer::Audit);
        }
        let pause = self.settings.limits.store_log_ms;
        if audit.told.is_none_or(|told| now.mono_ms >= told + pause) {
            audit.told = Some(now.mono_ms);
            self.out.push(Out::Log { level: Level::Error, text });
        }
    }

    /// A failed write is tried again in this turn.
    pub(in crate::core) fn audit_is_due(&mut self) {
        if let Some(audit) = &mut self.audit {
            audit.retry_armed = false;
        }
    }

    /// The answer to [`StoreRequest::SyncAudit`].
    pub(in crate::core) fn audit_synced(&mut self, upto: u64, result: Result<(), StoreError>, now: Now) {
        let Some(audit) = &mut self.audit else {
            return;
        };
        audit.syncing = false;
        let waiting = std::mem::take(&mut audit.waiting);
        match result {
            Ok(()) => {
                audit.synced = audit.synced.max(upto);
                self.disk.to_release.extend(waiting);
            }
            Err(error) => {
                let text = format!("The audit cannot be written: {}", error.message);
                self.audit_fails(error, now);
                if let Some(problem) = self.audit.as_mut().and_then(|audit| audit.problem.as_mut()) {
                    problem.is_final = true;
                    problem.shown = format!(
                        "The audit could not be flushed to the disk: {}. Nothing that changes something starts; check the disk, \
                         then restart the server.",
                        problem.hint()
                    );
                }
                // What waits for the flush can never start, so the turn fails instead of waiting for ever.
                for task in waiting {
                    let _ = self.drive(&task, Input::Fail(text.clone()), now);
                }
            }
        }
    }

    /// The answer to [`StoreRequest::ReopenAudit`].
    pub(in crate::core) fn audit_reopened(&mut self, result: Result<(), StoreError>) {
        match result {
            // A failed write may work now.
            Ok(()) => self.audit_is_due(),
            Err(error) => self.out.push(Out::warning(format!("the audit was not opened again: {error}"))),
        }
    }
}
