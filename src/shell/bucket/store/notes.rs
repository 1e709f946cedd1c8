//! What is written beside the logs: the summaries of the index, from which lists are made, and the objects for other programs. Both may be
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
use crate::shell::bucket::store::member::halted;
use crate::shell::event_loop::sys;
use crate::task::log::brief::Brief;
use crate::task::machine::state::State;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

/// What this process has written beside a log, or has seen there.
#[derive(Default)]
pub struct Notes {
    /// The version of the summary, and the position it was made at if this process has made it.
    summary: Option<Version>,
    summarized: Seq,
    /// The versions of the objects for other programs, by name.
    projected: HashMap<String, Version>,
    /// When they were last written, by the clock of the port.
    projected_ms: Option<u64>,
}

/// A summary in the index.
#[derive(Clone, Copy)]
pub(super) struct Indexed {
    /// The position in the log that it was made at.
    seq: Seq,
    /// Of its text.
    hash: u64,
}

/// A summary as the index has it.
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

    /// Has a summary written later, unless there is a newer one.
    fn put_off(&self, task: &TaskId, brief: &Brief, pause_ms: u64) {
        let at = sys::unix_ms() + pause_ms;
        lock(&self.summaries).entry(task.clone()).or_insert_with(|| (at, brief.clone()));
    }

    /// A task has come to rest: its summary and what other programs read of it are written, its markers are deleted. What fails because the
    /// bucket does not answer is done later.
    pub(super) fn settle(&self, task: &TaskId, brief: &Brief) -> Result<(), StoreError> {
        let settled = self.write_notes(task);
        match &settled {
            Ok(0) => {}
            Ok(pause_ms) => self.put_off(task, brief, *pause_ms),
            Err(error) if error.lasts == Lasts::Shortly => self.put_off(task, brief, SUMMARY_RETRY_MS),
            Err(_) => {}
        }
        settled.map(drop)
    }

    /// Returns after which time something is left to do; 0: nothing is.
    fn write_notes(&self, task: &TaskId) -> Result<u64, StoreError> {
        let log = self.log(task);
        log.tidy()?;
        let Some(view) = log.idle_view().filter(|_| !log.has_unsynced()) else {
            return Ok(SUMMARY_RETRY_MS);
        };
        // Of a task at work only the owner knows how it is.
        let (owns, phase) = (self.member.hasty.owns(&view), view.replica.status().phase);
        if view.is_unloaded || phase == Phase::Deleted || !owns && phase == Phase::Working {
            return Ok(0);
        }
        let (tail, state) = (view.tail, view.replica.state.clone());
        drop(view);
        let Some(state) = state else {
            return Ok(0);
        };
        self.summarize(&log, &Brief::of(&state), tail)?;
        let mut rest_ms = 0;
        if owns && let Some(tools) = self.tools.get() {
            let next_ms = lock(&log.notes).projected_ms.map_or(0, |at| at + PROJECTION_PAUSE_MS);
            rest_ms = next_ms.saturating_sub(sys::boot_ms());
            if rest_ms == 0 {
                self.project(&log, state, tools)?;
            }
        }
        self.forget_unused();
        Ok(rest_ms)
    }

    /// Writes the summary of a task as it is at `tail`, unless this process has done so.
    fn summarize(&self, log: &SharedLog, brief: &Brief, tail: Seq) -> Result<(), StoreError> {
        let mut notes = lock(&log.notes);
        if notes.summarized == tail {
            return Ok(());
        }
        let (seen, text) = (notes.summary.clone(), summary(brief));
        notes.summary = block_on(self.member.hasty.summarize(&log.task, &text, tail, seen)).map_err(halted)?;
        notes.summarized = tail;
        if let Some(indexed) = lock(&self.indexed).as_mut() {
            indexed.insert(log.task.clone(), Indexed { seq: tail, hash: hash(&text) });
        }
        Ok(())
    }

    /// Writes the objects that show a task to other programs. What somebody else has written meanwhile is left alone unless it is older.
    pub(super) fn project(&self, log: &SharedLog, mut state: State, tools: &Tools) -> Result<(), StoreError> {
        let unreadable = |error: io::Error| StoreError::transient(format!("stored content cannot be read: {error}"));
        state.load_messages(&*self.content).map_err(unreadable)?;
        let others = state.tools.as_ref().map(|set| OtherTools::read(set, &*self.content)).unwrap_or_default();
        let (mut notes, hasty, folder) = (lock(&log.notes), &self.member.hasty, names::task(&log.task));
        // The position that is shown, read when it is needed.
        let mut shown = None;
        for object in projection::objects(&state, tools, &others) {
            let name = format!("{folder}{}", object.name);
            let seen = notes.projected.get(&name).cloned();
            let mut replaced = block_on(hasty.replace(&name, object.bytes.clone(), seen)).map_err(halted)?;
            if !replaced.is_written {
                let last = match shown {
                    Some(last) => last,
                    None => self.projected(&folder)?,
                };
                shown = Some(last);
                if last < state.seq {
                    replaced = block_on(hasty.replace(&name, object.bytes, replaced.version)).map_err(halted)?;
                }
            }
            match replaced.version {
                Some(version) => drop(notes.projected.insert(name, version)),
                None => drop(notes.projected.remove(&name)),
            }
        }
        notes.projected_ms = Some(sys::boot_ms());
        Ok(())
    }

    /// The position in its log that the objects for other programs show of a task.
    fn projected(&self, folder: &str) -> Result<Seq, StoreError> {
        #[derive(serde::Deserialize)]
        struct Shown {
            seq: Seq,
        }
        let found = self.member.bucket.get(&format!("{folder}state.json"));
        let found = found.map_err(|trouble| StoreError::transient(trouble.message))?.value;
        let shown = found.and_then(|object| serde_json::from_slice::<Shown>(&object.bytes).ok());
        Ok(shown.map_or(Seq(0), |shown| shown.seq))
    }

    /// A task was deleted: deletes what is beside its log. What is left goes with the log.
    pub(super) fn forget_notes(&self, log: &SharedLog) {
        lock(&self.summaries).remove(&log.task);
        if let Some(indexed) = lock(&self.indexed).as_mut() {
            indexed.remove(&log.task);
        }
        block_on(self.member.hasty.unsummarize(&log.task));
        let folder = names::task(&log.task);
        let notes = std::mem::take(&mut *lock(&log.notes));
        let always = ["metadata.json", "history.json", "state.json"].map(|name| format!("{folder}{name}"));
        let others = notes.projected.into_keys().filter(|name| !always.contains(name));
        for name in always.iter().cloned().chain(others) {
            let _ = self.member.bucket.delete(&name, None);
        }
    }

    /// The summaries of all tasks.
    pub(super) fn read_index(&self) -> Result<Vec<Known>, StoreError> {
        let summaries = block_on(self.member.hasty.summaries()).map_err(halted)?;
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

    /// A task was loaded: if its summary is older and its owner does not live any more, it is written anew.
    pub(super) fn note_outdated(&self, log: &SharedLog) {
        let Some(view) = log.idle_view().filter(|view| !view.is_unloaded) else {
            return;
        };
        let JournalReplica { state: Some(state), .. } = &view.replica else {
            return;
        };
        let status = view.replica.status();
        let has_owner = status.owner.is_some_and(|owner| self.member.lives(&owner)) && !status.released;
        let brief = Brief::of(state);
        let is_older = |indexed: &Indexed| indexed.seq < view.tail && indexed.hash != hash(&summary(&brief));
        let is_outdated = match &*lock(&self.indexed) {
            Some(indexed) => indexed.get(&log.task).is_none_or(is_older),
            None => false,
        };
        if is_outdated && !has_owner && !matches!(status.phase, Phase::Working | Phase::Deleted) {
            self.put_off(&log.task, &brief, 0);
        }
    }
}
