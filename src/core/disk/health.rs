//! What happens while the store cannot be written, most likely because the disk is full. Events wait, new calls are refused, the
//! operator gets a line in the log, and `/health` reports the problem.
//!
//! Every local user may read `/health`, so it says what is wrong and what to do, and names no file. It reports the problem from the
//! first write that fails until a probe succeeds and no journal waits. Probes run on a timer, because there may be no requests.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::level::Level;
use crate::base::slots::Key;
use crate::core::disk::store::StoreError;
use crate::core::readers::subscription::{Intent, Kind, Subscription};
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::task::fault::{Fault, FaultKind};

#[derive(Default)]
pub(in crate::core) struct DiskHealth {
    /// Why the store cannot be written at present, without names of files.
    problem: Option<String>,
    /// When the last problem was logged, in monotonic milliseconds.
    logged_ms: Option<u64>,
    /// A probe is armed or under way.
    probe_pending: bool,
    /// Why no thread can be started, not even to write.
    no_threads: Option<String>,
}

impl DiskHealth {
    /// What is wrong, and what to do about it.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref().or(self.no_threads.as_deref())
    }

    /// Whether a write has failed and no probe has succeeded since.
    pub fn is_store_broken(&self) -> bool {
        self.problem.is_some()
    }

    /// Whether some jobs have no thread at all.
    pub fn lacks_threads(&self) -> bool {
        self.no_threads.is_some()
    }

    pub fn set_lack_of_threads(&mut self, why: Option<String>) {
        self.no_threads = why.map(|why| {
            format!(
                "No thread can be started: {why}. What was begun waits until one can be. Allow more processes or more memory, or \
                 end other programs."
            )
        });
    }

    /// Reports a problem until the store has answered for the first time.
    pub fn wait_for_store(&mut self) {
        self.problem = Some("The store has not answered yet. Until it does nothing begins.".into());
    }

    /// For the checks of invariants: whether a probe is armed or under way.
    #[cfg(debug_assertions)]
    pub fn has_probe(&self) -> bool {
        self.probe_pending
    }
}

impl Core {
    /// A write has failed: reports that in the log and by `/health`, and arms a probe.
    pub(in crate::core) fn report_store_error(&mut self, error: &StoreError, now: Now) {
        let hint = error.hint.as_deref();
        let hint = hint.unwrap_or("the server's log says why");
        let problem =
            format!("Journals cannot be written: {hint}. Until then nothing new begins and what was begun waits.");
        self.disk.health.problem = Some(problem);
        self.arm_probe(now.mono_ms + self.settings.limits.store_retry_ms);
        let pause = self.settings.limits.store_log_ms;
        let logged = self.disk.health.logged_ms;
        if logged.is_some_and(|logged| now.mono_ms < logged + pause) {
            return;
        }
        self.disk.health.logged_ms = Some(now.mono_ms);
        let text = format!("{error}; until then nothing new begins and what was begun waits");
        self.out.push(Out::Log { level: Level::Error, text });
    }

    /// A journal could not be written. Calls that wait for it get an error that says what became of their requests, because it is not
    /// known when the journal can be written. Streams get a notice in this turn.
    pub(in crate::core) fn notify_readers(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get(task) else {
            return;
        };
        let Some(why) = loaded.broken.clone() else {
            return;
        };
        let (subs, written) = (loaded.subs.clone(), loaded.shown());
        for key in subs {
            let Some(sub) = self.readers.get(key) else {
                continue;
            };
            let waits = match &sub.kind {
                Kind::Once { .. } => true,
                Kind::Ready { seq, .. } => written < *seq,
                Kind::Stream => {
                    self.readers.pump_later(&[key]);
                    continue;
                }
            };
            if waits {
                let fault = Fault::new(FaultKind::Storage, unrecorded(&why, sub.intent));
                self.fail_subscription(key, &fault, now);
            }
        }
    }

    /// Sends a stream that was sent everything recorded the notice that further events wait for the disk, once until they are written.
    /// The notice is no event and has no position, so a client that resumes misses nothing.
    pub(in crate::core) fn notify_stream(&mut self, key: Key, now: Now) {
        let Some(sub) = self.readers.get(key) else {
            return;
        };
        let Some(why) = self.tasks.get(&sub.task).and_then(|loaded| waited_for(sub, loaded)) else {
            return;
        };
        let Some(conn) = self.connections.get(sub.conn).filter(|_| !sub.notified) else {
            return;
        };
        // A socket may follow a task and have asked for its events too.
        let mut others = conn.subs.iter().filter_map(|other| self.readers.get(*other));
        let is_notified = others.any(|other| other.notified && other.task == sub.task);
        let text = format!(
            "The task's journal cannot be written: {why}. Events wait until it can be; then this stream goes on by itself."
        );
        let frame = a2a::notice(&sub.form, &sub.task, &text);
        let (at, sub) = (sub.conn, self.readers.get_mut(key));
        if let Some(sub) = sub {
            sub.notified = true;
        }
        if let Some(conn) = self.connections.get_mut(at).filter(|_| !is_notified) {
            conn.notice(&text, &frame.into(), now);
        }
    }

    /// Arms a probe for this time, unless one is armed or under way.
    pub(in crate::core) fn arm_probe(&mut self, at_ms: u64) {
        if !std::mem::replace(&mut self.disk.health.probe_pending, true) {
            self.timers.arm(at_ms, Timer::Probe);
        }
    }

    /// The result of a probe.
    pub(in crate::core) fn probed(&mut self, result: Result<(), StoreError>, now: Now) {
        self.disk.health.probe_pending = false;
        match result {
            Err(error) => self.report_store_error(&error, now),
            Ok(()) if self.tasks.values().any(|loaded| loaded.broken.is_some()) => {
                self.arm_probe(now.mono_ms + self.settings.limits.store_retry_ms);
            }
            Ok(()) => self.disk.health.problem = None,
        }
    }
}

/// Why the journal that a stream waits for cannot be written. None: the stream waits for something else.
fn waited_for<'a>(sub: &Subscription, loaded: &'a LoadedTask) -> Option<&'a str> {
    let next = match &sub.first {
        Some(first) => first.seq,
        None => sub.cursor.next(),
    };
    let waits = next > loaded.shown() || sub.required_sync > loaded.shown();
    loaded.broken.as_deref().filter(|_| waits)
}

/// The error for a request whose record cannot be written: what became of it.
fn unrecorded(why: &str, intent: Intent) -> String {
    match intent {
        Intent::Read => format!(
            "The task's journal cannot be written: {why}. What the task has come to can be shown when it is recorded; ask \
             again later."
        ),
        Intent::Change => format!(
            "The task's journal cannot be written: {why}. The request was accepted and waits: it takes effect as soon as it is \
             recorded, unless the server is stopped before. Do not send it again; look at the task later."
        ),
        Intent::Cancel => format!(
            "The task was stopped, but its journal cannot be written: {why}. That it was stopped is recorded as soon as \
             possible; until then the task is shown as it was last recorded."
        ),
    }
}

#[cfg(test)]
mod tests;
