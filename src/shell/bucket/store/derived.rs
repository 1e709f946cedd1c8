//! Objects that are derived from the logs: the summaries of the index, which lists show, and the projections for other programs. Both may be
//! older than their task.

use crate::a2a::{OtherTools, Tools};
use crate::base::id::{Seq, TaskId};
use crate::base::json;
use crate::base::lock::lock;
use crate::bucket::journal::replica::JournalReplica;
use crate::bucket::port::block_on;
use crate::bucket::replica::{Phase, Replica};
use crate::bucket::{Version, names};
use crate::core::disk::store::{Known, Lasts, StoreError};
use crate::limits::store::{PROJECTION_PAUSE_MS, SUMMARY_BYTES, SUMMARY_RETRY_MS};
use crate::shell::bucket::projection;
use crate::shell::bucket::store::SharedTasks;
use crate::shell::bucket::store::log::SharedLog;
use crate::shell::bucket::store::member::store_error;
use crate::shell::event_loop::sys;
use crate::task::log::brief::Brief;
use crate::task::machine::state::State;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

/// The derived objects of a task that this process has written or read.
#[derive(Default)]
pub struct DerivedObjects {
    /// The version of the summary.
    summary: Option<Version>,
    /// The last event that the summary includes, if this process has written it.
    summarized: Seq,
    /// The versions of the projection's objects, by name.
    projected: HashMap<String, Version>,
    /// When the projection was last written, by the clock of the port.
    projected_ms: Option<u64>,
}

/// A summary in the index.
#[derive(Clone, Copy)]
pub(super) struct Indexed {
    /// The last event that the summary includes.
    seq: Seq,
    /// The hash of its text.
    hash: u64,
}

/// The text of a summary in the index.
pub fn summary(brief: &Brief) -> String {
    let text = String::from_utf8_lossy(&json::bytes(brief)).into_owned();
    match text.len() > SUMMARY_BYTES {
        false => text,
        true => String::from_utf8_lossy(&json::bytes(&Brief { title: String::new(), ..brief.clone() })).into_owned(),
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl SharedTasks {
    pub(super) fn next_summary(&self) -> Option<(TaskId, Brief)> {
        let mut summaries = lock(&self.summaries);
        let now_ms = sys::unix_ms();
        let task = summaries.iter().find(|(_, (at, _))| *at <= now_ms).map(|(task, _)| task.clone())?;
        summaries.remove(&task).map(|(_, brief)| (task, brief))
    }

    /// Schedules the writing of a summary after a pause, unless a newer one is scheduled.
    fn schedule_summary(&self, task: &TaskId, brief: &Brief, pause_ms: u64) {
        let at = sys::unix_ms() + pause_ms;
        lock(&self.summaries).entry(task.clone()).or_insert_with(|| (at, brief.clone()));
    }

    /// Called when a task has come to rest: writes its summary and its projection, and deletes its markers. If the bucket does not answer,
    /// schedules this again.
    pub(super) fn update_derived(&self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        let settled = self.write_derived(task);
        match &settled {
            Ok(0) => {}
            Ok(pause_ms) => self.schedule_summary(task, brief, *pause_ms),
            Err(error) if error.lasts == Lasts::Shortly => self.schedule_summary(task, brief, SUMMARY_RETRY_MS),
            Err(_) => {}
        }
        settled.map(drop)
    }

    /// Returns after how many milliseconds the derived objects have to be written again; 0 if they are complete.
    fn write_derived(&self, task: &TaskId) -> Result<u64, StoreError> {
        let log = self.log(task);
        log.tidy()?;
        let Some(view) = log.idle_view().filter(|_| !log.has_unsynced()) else {
            return Ok(SUMMARY_RETRY_MS);
        };
        // Only the owner knows the state of a task at work.
        let (owns, phase) = (self.member.hasty.owns(&view), view.replica.status().phase);
        if view.is_unloaded || phase == Phase::Deleted || !owns && phase == Phase::Working {
            return Ok(0);
        }
        let (tail, state) = (view.tail, view.replica.state.clone());
        drop(view);
        let Some(state) = state else {
            return Ok(0);
        };
        self.write_summary(&log, &Brief::of(&state), tail)?;
        let mut rest_ms = 0;
        if owns && let Some(tools) = self.tools.get() {
            let next_ms = lock(&log.derived).projected_ms.map_or(0, |at| at + PROJECTION_PAUSE_MS);
            rest_ms = next_ms.saturating_sub(sys::boot_ms());
            if rest_ms == 0 {
                self.project(&log, state, tools)?;
            }
        }
        self.drop_unused_logs();
        Ok(rest_ms)
    }

    /// Writes the summary of a task as of event `tail`, unless this process has already written it.
    fn write_summary(&self, log: &SharedLog, brief: &Brief, tail: Seq) -> Result<(), StoreError> {
        let mut derived = lock(&log.derived);
        if derived.summarized == tail {
            return Ok(());
        }
        let (seen, text) = (derived.summary.clone(), summary(brief));
        derived.summary =
            block_on(self.member.hasty.write_summary(&log.task, &text, tail, seen)).map_err(store_error)?;
        derived.summarized = tail;
        if let Some(indexed) = lock(&self.indexed).as_mut() {
            indexed.insert(log.task.clone(), Indexed { seq: tail, hash: hash(&text) });
        }
        Ok(())
    }

    /// Writes the projection of a task. Objects that another instance has written meanwhile are replaced only if they are older.
    pub(super) fn project(&self, log: &SharedLog, mut state: State, tools: &Tools) -> Result<(), StoreError> {
        let unreadable = |error: io::Error| StoreError::transient(format!("stored content cannot be read: {error}"));
        state.load_messages(&*self.content).map_err(unreadable)?;
        let others = state.tools.as_ref().map(|set| OtherTools::read(set, &*self.content)).unwrap_or_default();
        let (mut derived, hasty, folder) = (lock(&log.derived), &self.member.hasty, names::task(&log.task));
        // The last event that the projection in the bucket includes, read when it is needed.
        let mut shown = None;
        for object in projection::objects(&state, tools, &others) {
            let name = format!("{folder}{}", object.name);
            let seen = derived.projected.get(&name).cloned();
            let mut replaced = block_on(hasty.replace(&name, object.bytes.clone(), seen)).map_err(store_error)?;
            if !replaced.is_written {
                let last = match shown {
                    Some(last) => last,
                    None => self.projected(&folder)?,
                };
                shown = Some(last);
                if last < state.seq {
                    replaced = block_on(hasty.replace(&name, object.bytes, replaced.version)).map_err(store_error)?;
                }
            }
            match replaced.version {
                Some(version) => drop(derived.projected.insert(name, version)),
                None => drop(derived.projected.remove(&name)),
            }
        }
        derived.projected_ms = Some(sys::boot_ms());
        Ok(())
    }

    /// The last event that the projection in the bucket includes.
    fn projected(&self, folder: &str) -> Result<Seq, StoreError> {
        #[derive(serde::Deserialize)]
        struct Shown {
            seq: Seq,
        }
        let found = self.member.bucket.get(&format!("{folder}state.json"));
        let found = found.map_err(|error| StoreError::transient(error.message))?.value;
        let shown = found.and_then(|object| serde_json::from_slice::<Shown>(&object.bytes).ok());
        Ok(shown.map_or(Seq(0), |shown| shown.seq))
    }

    /// Deletes the derived objects of a deleted task. If that fails, the removal of the task deletes them with its log.
    pub(super) fn delete_derived(&self, log: &SharedLog) {
        lock(&self.summaries).remove(&log.task);
        if let Some(indexed) = lock(&self.indexed).as_mut() {
            indexed.remove(&log.task);
        }
        block_on(self.member.hasty.delete_summary(&log.task));
        let folder = names::task(&log.task);
        let derived = std::mem::take(&mut *lock(&log.derived));
        let always = ["metadata.json", "history.json", "state.json"].map(|name| format!("{folder}{name}"));
        let others = derived.projected.into_keys().filter(|name| !always.contains(name));
        for name in always.iter().cloned().chain(others) {
            let _ = self.member.bucket.delete(&name, None);
        }
    }

    /// The summaries of all tasks.
    pub(super) fn read_index(&self) -> Result<Vec<Known>, StoreError> {
        let summaries = block_on(self.member.hasty.summaries()).map_err(store_error)?;
        let mut indexed = HashMap::new();
        let mut known = Vec::new();
        for summary in summaries {
            indexed.insert(summary.task.clone(), Indexed { seq: summary.seq, hash: hash(&summary.brief) });
            if let Ok(brief) = serde_json::from_str(&summary.brief) {
                known.push(Known { task: summary.task, brief, open: false });
            }
        }
        *lock(&self.indexed) = Some(indexed);
        known.sort_by_key(|known| known.brief.at);
        Ok(known)
    }

    /// Called when a task was loaded: if its summary is outdated and its owner is not alive, schedules the writing of a new one.
    pub(super) fn schedule_outdated_summary(&self, log: &SharedLog) {
        let Some(view) = log.idle_view().filter(|view| !view.is_unloaded) else {
            return;
        };
        let JournalReplica { state: Some(state), .. } = &view.replica else {
            return;
        };
        let status = view.replica.status();
        let has_owner = status.owner.is_some_and(|owner| self.member.is_alive(&owner)) && !status.released;
        let brief = Brief::of(state);
        let is_older = |indexed: &Indexed| indexed.seq < view.tail && indexed.hash != hash(&summary(&brief));
        let is_outdated = match &*lock(&self.indexed) {
            Some(indexed) => indexed.get(&log.task).is_none_or(is_older),
            None => false,
        };
        if is_outdated && !has_owner && !matches!(status.phase, Phase::Working | Phase::Deleted) {
            self.schedule_summary(&log.task, &brief, 0);
        }
    }
}
