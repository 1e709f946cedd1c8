//! The audit: entries are made when events are decided, written before the journals in each turn, and flushed before a tool starts that
//! waits for its journal to be flushed. So everything that is in a journal or was started is in the audit. The reverse need not be true:
//! an entry may be about an event that could not be written after it.
//!
//! If the audit cannot be written, the journals of tasks with unwritten entries are not written either. Such a task behaves as if its
//! journal could not be written: its new events are not shown, no job starts, it can be read, and the write is tried again.

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

/// The settings of the audit.
pub struct AuditSetup {
    /// The name of the chain: the id of the server.
    pub chain: String,
    /// The last line that is in the file.
    pub head: Head,
    pub texts: Texts,
    /// The details of the first entry of this run.
    pub began: What,
}

pub(in crate::core) struct Audit {
    chain: Arc<str>,
    head: Head,
    texts: Texts,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    /// The last entry that is in the file, and the last one that was flushed.
    written: u64,
    synced: u64,
    /// A flush is under way.
    syncing: bool,
    problem: Option<Problem>,
    /// [`Timer::Audit`] is armed to try a failed write again.
    retry_armed: bool,
    /// When a problem was last logged, in monotonic milliseconds.
    logged_ms: Option<u64>,
    /// The sender of the request that is being carried out.
    actor: Option<Actor>,
    /// Tasks that a shared store was asked to delete, and who asked for that. The entry is made when the store has done it.
    deleting: HashMap<TaskId, Actor>,
    /// Outputs that wait until the entry with this number is written.
    held: Vec<(u64, Out)>,
    /// Tasks with jobs that wait for a flush.
    waiting: Vec<TaskId>,
    refusals: Refusals,
}

/// Why the audit cannot be written.
struct Problem {
    error: StoreError,
    /// The text for `/health`, without names of files.
    shown: String,
    /// A flush has failed: it is not known how much of the file is on the disk, so this process writes no more.
    is_final: bool,
}

/// The sender of a request.
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
            logged_ms: None,
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

    /// Adds the entry for an event of a task, whose state is the one before the event. If the event ends a turn or the task, returns the
    /// event that has to be recorded right before it: it names the head of the chain.
    pub fn note(&mut self, loaded: &mut LoadedTask, event: &Event, now: Now) -> Option<Event> {
        let ends = matches!(event, Event::TurnEnded { .. } | Event::Closed { .. });
        let noted = self.texts.of_event(&loaded.state, event);
        // The end of a task follows that of its turn at once: one head is enough for both.
        let is_due = ends && (noted.is_some() || loaded.logged_audit_entry != self.head.n);
        let next = loaded.state.seq.next();
        let seq = if is_due { next.next() } else { next };
        if let Some((kind, cause, what)) = noted {
            self.add_of_task(&loaded.state.created.task.clone(), seq, kind, cause, what, now);
            loaded.audit_entry = self.head.n;
        }
        is_due.then(|| {
            (loaded.audit_entry, loaded.logged_audit_entry) = (self.head.n, self.head.n);
            Event::Audited { chain: self.chain.clone(), n: self.head.n, hash: self.head.hash.clone() }
        })
    }

    /// A task was created.
    pub fn note_created(&mut self, loaded: &mut LoadedTask, now: Now) {
        let event = Event::Created(loaded.state.created.clone());
        if let Some((kind, cause, what)) = self.texts.of_event(&loaded.state, &event) {
            self.add_of_task(&loaded.state.created.task.clone(), Seq(1), kind, cause, what, now);
            loaded.audit_entry = self.head.n;
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

    /// Why a task's journal must not be written: entries about the task could not be written.
    pub fn blocks(&self, loaded: &LoadedTask) -> Option<StoreError> {
        let problem = self.problem.as_ref().filter(|_| loaded.audit_entry > self.written)?;
        let message = format!("the audit cannot be written: {}", problem.error.message);
        let hint = format!("the audit cannot be written: {}", problem.hint());
        Some(StoreError { message, hint: Some(hint), lasts: problem.error.lasts })
    }

    /// Whether the entries about a task are flushed.
    pub fn is_synced(&self, loaded: &LoadedTask) -> bool {
        self.synced >= loaded.audit_entry
    }

    /// Requests a flush, unless one is under way. The task is released when it is done.
    pub fn sync_for(&mut self, task: &TaskId) -> Option<Out> {
        if !self.waiting.contains(task) {
            self.waiting.push(task.clone());
        }
        let begins = !std::mem::replace(&mut self.syncing, true);
        begins.then(|| Out::Store(StoreRequest::SyncAudit { upto: self.written }))
    }

    /// Whether there are lines that the next turn of the loop writes.
    pub fn has_more(&self) -> bool {
        !self.pending.is_empty() && self.problem.is_none()
    }

    /// For the checks of invariants: whether a flush is under way that the task waits for.
    #[cfg(debug_assertions)]
    pub fn is_flushed_for(&self, task: &TaskId) -> bool {
        self.syncing && self.waiting.contains(task)
    }

    /// Who is named in entries now: the sender of the request that is being carried out, or else the server.
    fn by_whom(&self) -> Actor {
        self.actor.clone().unwrap_or_else(|| Actor { who: Who::server(), request: None })
    }

    /// The request that was carried out has ended: later entries do not name its sender.
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
    /// Why the audit cannot be written, without names of files. Meanwhile no work starts that changes anything.
    pub fn audit_problem(&self) -> Option<&str> {
        self.audit.as_ref()?.problem.as_ref().map(|problem| problem.shown.as_str())
    }

    /// Adds an entry about no task: credentials, tickets, logins.
    pub fn audit(&mut self, entry: &Entry, now: Now) {
        if let Some(audit) = &mut self.audit {
            audit.add(entry, now.unix_ms);
        }
    }

    /// Opens the file of the audit again, because the operator may have moved it. An error goes to the log.
    pub fn reopen_audit(&mut self) {
        if self.audit.is_some() {
            self.out.push(Out::Store(StoreRequest::ReopenAudit));
        }
    }

    /// Entries name this caller until the next input.
    pub(in crate::core) fn act_as(&mut self, caller: &Caller) {
        if self.audit.is_some() {
            let actor = self.actor(caller);
            if let Some(audit) = &mut self.audit {
                audit.actor = Some(actor);
            }
        }
    }

    /// As [`Core::act_as`], for the sender of a request that came through another instance. Only that instance knows the client's address.
    pub(in crate::core) fn act_for(&mut self, by: &Source, request: &str) {
        if let Some(audit) = &mut self.audit {
            audit.actor = Some(Actor { who: Who::of(by), request: Some(request.to_owned()) });
        }
    }

    /// Adds an entry about a refused request that came through another instance: its sender lacks the right for it.
    pub(in crate::core) fn audit_refused_inbox_request(&mut self, by: &Source, task: &TaskId, now: Now) {
        let what = What::default().with("reason", "right");
        let entry = Entry { task: Some(task.clone()), ..Entry::new(Kind::Denied, Who::of(by), what) };
        self.audit(&entry, now);
    }

    /// A caller as entries name it. Everything that the audit has of the sender of a request comes from here.
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

    /// Passes an output to the shell as soon as the entries about it are written.
    pub(in crate::core) fn start_after_audit(&mut self, out: Out) {
        match &mut self.audit {
            Some(audit) if audit.written < audit.head.n => audit.held.push((audit.head.n, out)),
            Some(_) | None => self.out.push(out),
        }
    }

    /// Adds an entry about a rule that is saved for later sessions.
    pub(in crate::core) fn audit_saved(&mut self, task: &TaskId, rule: &Rule, now: Now) {
        self.audit_of_task(Kind::Saved, task, |texts| What::default().with("rule", texts.value(&json!(rule))), now);
    }

    /// Adds an entry about a task that is about to be deleted, because a client asked for it or because it has expired. In a shared store
    /// the entry is added after the deletion, because the store may refuse it.
    pub(in crate::core) fn audit_deleting(&mut self, task: &TaskId, now: Now) {
        if self.settings.shared_store.is_none() {
            return self.audit_of_task(Kind::Deleted, task, |_| What::default(), now);
        }
        if let Some(audit) = &mut self.audit {
            let actor = audit.by_whom();
            audit.deleting.insert(task.clone(), actor);
        }
    }

    /// A shared store has deleted a task, or refused to: adds the entry about the deletion.
    pub(in crate::core) fn audit_deleted(&mut self, task: &TaskId, is_removed: bool, now: Now) {
        if let Some(audit) = &mut self.audit
            && let Some(Actor { who, request }) = audit.deleting.remove(task)
            && is_removed
        {
            let (task, what) = (Some(task.clone()), What::default());
            audit.add(&Entry { kind: Kind::Deleted, who, request, task, seq: None, what }, now.unix_ms);
        }
    }

    /// Adds an entry about a task in a shared store that this instance has claimed, lost or released.
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

    /// Adds the last entry: the server ends.
    pub(in crate::core) fn audit_ended(&mut self, now: Now) {
        self.count_refusals_out(now, u64::MAX);
        self.audit(&Entry::new(Kind::Ended, Who::server(), What::default()), now);
    }

    // The file.

    /// Writes the entries that were added since the last turn, in one write, before any journal.
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
        let written = audit.written;
        let ready: Vec<(u64, Out)> = audit.held.extract_if(.., |(n, _)| *n <= written).collect();
        let (chain, Head { n, hash }) = (&audit.chain, &audit.head);
        if is_over {
            let text = format!("audit: chain {chain} ends with entry {n}, {hash}");
            self.out.push(Out::Log { level: Level::Info, text });
        }
        let recovered = audit.problem.take().is_some();
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

    /// A write or a flush of the audit has failed: reports that, and arms a retry.
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
        if audit.logged_ms.is_none_or(|logged| now.mono_ms >= logged + pause) {
            audit.logged_ms = Some(now.mono_ms);
            self.out.push(Out::Log { level: Level::Error, text });
        }
    }

    /// Tries a failed write again in this turn of the loop.
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
                // Tools that wait for the flush can never start, so their turns fail instead of waiting for ever.
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
