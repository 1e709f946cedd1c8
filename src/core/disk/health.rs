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
use crate::core::readers::subscription::{Kind, Subscription, Wants};
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::task::fault::{Fault, FaultKind};

#[derive(Default)]
pub(in crate::core) struct DiskHealth {
    /// What is wrong at present, without names of files.
    problem: Option<String>,
    /// When the log was last told, in monotonic milliseconds.
    told: Option<u64>,
    /// A trial write is armed or under way.
    trial: bool,
    /// No thread can be started, not even to write.
    no_threads: Option<String>,
}

impl DiskHealth {
    /// What is wrong, and what to do about it.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref().or(self.no_threads.as_deref())
    }

    /// Whether something could not be written and a trial has not succeeded since.
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

    /// It is not known yet whether anything can be stored.
    pub fn wait_for_store(&mut self) {
        self.problem = Some("The store has not answered yet. Until it does nothing begins.".into());
    }

    /// For the checks of invariants: whether a trial write is armed or under way.
    #[cfg(debug_assertions)]
    pub fn has_trial(&self) -> bool {
        self.trial
    }
}

impl Core {
    /// Something could not be written: health and the log report it.
    pub(in crate::core) fn tell_trouble(&mut self, error: &StoreError, now: Now) {
        let hint = error.hint.as_deref();
        let hint = hint.unwrap_or("the server's log says why");
        let problem =
            format!("Journals cannot be written: {hint}. Until then nothing new begins and what was begun waits.");
        self.disk.health.problem = Some(problem);
        self.arm_trial(now.mono_ms + self.settings.limits.store_retry_ms);
        let pause = self.settings.limits.store_log_ms;
        let told = self.disk.health.told;
        if told.is_some_and(|told| now.mono_ms < told + pause) {
            return;
        }
        self.disk.health.told = Some(now.mono_ms);
        let text = format!("{error}; until then nothing new begins and what was begun waits");
        self.out.push(Out::Log { level: Level::Error, text });
    }

    /// A journal could not be written. Calls that wait for it are answered with what became of their requests, because it is not
    /// known when it can be written. Streams get a notice in this turn.
    pub(in crate::core) fn tell_readers(&mut self, task: &TaskId, now: Now) {
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
            let (wants, waits) = match &sub.kind {
                Kind::Once { .. } => (sub.wants, true),
                Kind::Ready { seq, .. } => (sub.wants, written < *seq),
                Kind::Stream => {
                    self.readers.pump_later(&[key]);
                    continue;
                }
            };
            if waits {
                let fault = Fault::new(FaultKind::Storage, unrecorded(&why, wants));
                self.fail_subscription(key, &fault, now);
            }
        }
    }

    /// Tells a stream that has shown everything recorded that further events wait for the disk, once until they are written. The
    /// notice is no event and has no position, so a client that resumes misses nothing.
    pub(in crate::core) fn tell_stream(&mut self, key: Key, now: Now) {
        let Some(sub) = self.readers.get(key) else {
            return;
        };
        let Some(why) = self.tasks.get(&sub.task).and_then(|loaded| waited_for(sub, loaded)) else {
            return;
        };
        let Some(conn) = self.connections.get(sub.conn).filter(|_| !sub.told) else {
            return;
        };
        // A socket may follow a task and have asked for its events too.
        let mut others = conn.subs.iter().filter_map(|other| self.readers.get(*other));
        let told = others.any(|other| other.told && other.task == sub.task);
        let text = format!(
            "The task's journal cannot be written: {why}. Events wait until it can be; then this stream goes on by itself."
        );
        let frame = a2a::notice(&sub.form, &sub.task, &text);
        let (at, sub) = (sub.conn, self.readers.get_mut(key));
        if let Some(sub) = sub {
            sub.told = true;
        }
        if let Some(conn) = self.connections.get_mut(at).filter(|_| !told) {
            conn.notice(&text, &frame.into(), now);
        }
    }

    /// Has a trial write made at this time, unless one is coming anyway.
    pub(in crate::core) fn arm_trial(&mut self, at_ms: u64) {
        if !std::mem::replace(&mut self.disk.health.trial, true) {
            self.timers.arm(at_ms, Timer::Probe);
        }
    }

    /// A trial write was made.
    pub(in crate::core) fn probed(&mut self, result: Result<(), StoreError>, now: Now) {
        self.disk.health.trial = false;
        match result {
            Err(error) => self.tell_trouble(&error, now),
            Ok(()) if self.tasks.values().any(|loaded| loaded.broken.is_some()) => {
                self.arm_trial(now.mono_ms + self.settings.limits.store_retry_ms);
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
    let waits = next > loaded.shown() || sub.safe > loaded.shown();
    loaded.broken.as_deref().filter(|_| waits)
}

/// What has become of a request whose record cannot be written.
fn unrecorded(why: &str, wants: Wants) -> String {
    match wants {
        Wants::Read => format!(
            "The task's journal cannot be written: {why}. What the task has come to can be shown when it is recorded; ask \
             again later."
        ),
        Wants::Change => format!(
            "The task's journal cannot be written: {why}. The request was accepted and waits: it takes effect as soon as it is \
             recorded, unless the server is stopped before. Do not send it again; look at the task later."
        ),
        Wants::Cancel => format!(
            "The task was stopped, but its journal cannot be written: {why}. That it was stopped is recorded as soon as \
             possible; until then the task is shown as it was last recorded."
        ),
    }
}

#[cfg(test)]
mod tests;
