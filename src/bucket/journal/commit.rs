//! Writes the lines that the event loop has appended to the local copy of a log as segments. Clients have not seen these lines yet, so they
//! are dropped if another instance has claimed the task.

use crate::base::id::{Seq, TaskId};
use crate::bucket::Version;
use crate::bucket::instance::Instance;
use crate::bucket::journal::replica::{JournalReplica, read_lines};
use crate::bucket::log::append::Append;
use crate::bucket::log::read::Read;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{InstanceId, Phase, Replica};
use crate::limits::store::{SEGMENT_BYTES, SEGMENT_LINES};
use crate::task::log::event::Event;
use crate::task::log::ownership::Owned;
use crate::task::log::record::Record;

/// The result of committing lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// All lines are in the log, and this process owns the task.
    Done,
    /// Another instance owns the task, or is alive and at work on it. Lines that are not in the log are void.
    Fenced,
    /// The task does not exist any more.
    Gone,
}

impl<P: Port> Instance<P> {
    /// Commits whole lines that follow the view's tail. An `owned` event that names this instance is a claim. It is the first line of its
    /// segment, or the second after `created`. Without a claim, this process must own the task already. `silent_version` is
    /// [`Liveness::silent_version`](crate::bucket::ownership::heartbeat::Liveness::silent_version).
    pub async fn commit(
        &self,
        view: &mut View<JournalReplica>,
        lines: &[u8],
        silent_version: impl Fn(&InstanceId) -> Option<Version>,
    ) -> Result<Commit, Halt> {
        let mut rest = lines;
        while !rest.is_empty() {
            let (segment, behind) = rest.split_at(segment_bytes(rest));
            let records = read_lines(view.tail.next(), segment)?;
            let commit = self.commit_segment(view, segment, &records, &silent_version).await?;
            if commit != Commit::Done {
                return Ok(commit);
            }
            rest = behind;
        }
        Ok(Commit::Done)
    }

    async fn commit_segment(
        &self,
        view: &mut View<JournalReplica>,
        lines: &[u8],
        records: &[Record],
        silent_version: &impl Fn(&InstanceId) -> Option<Version>,
    ) -> Result<Commit, Halt> {
        let claim = claim_in(records);
        let is_new = view.tail == Seq(0);
        if is_new {
            view.entry = view.replica.entry(lines);
            let parent = parent_in(records);
            self.create_entry(view, parent.as_ref()).await?;
            // The parent was read before the caller began, and may have been deleted since.
            if let Some(parent) = parent.filter(|_| !self.is_fresh(view.tail_checked_at))
                && !self.is_there(view, parent).await?
            {
                view.unload();
                return Ok(Commit::Gone);
            }
        } else if claim.is_some() && !self.may_claim(view, silent_version).await? || claim.is_none() && !self.owns(view)
        {
            return Ok(Commit::Fenced);
        }
        if view.replica.begins_work(records) {
            self.create_marker(view).await?;
        }
        match self.append(view, lines.to_vec()).await? {
            Append::Done => {}
            Append::Overtaken => return Ok(Commit::Fenced),
            Append::Gone => return Ok(Commit::Gone),
        }
        if let Some(owned) = claim
            && view.replica.status().is_owned_by(&self.id, owned.epoch)
            && *owned.instance == *self.id.as_str()
        {
            view.epoch = Some(owned.epoch);
        }
        Ok(if self.owns(view) { Commit::Done } else { Commit::Fenced })
    }

    /// Whether the task that a new one continues exists.
    async fn is_there(&self, view: &View<JournalReplica>, parent: TaskId) -> Result<bool, Halt> {
        let folder = view.entry.as_deref().and_then(names::entry_parts).map(|(folder, _)| folder);
        let entry = folder.map(|folder| names::entry(folder, &parent));
        let mut read = View::new(parent, entry, JournalReplica::default());
        Ok(self.read_on(&mut read).await? == Read::Current && read.replica.status().phase != Phase::Deleted)
    }

    /// Whether the task may be claimed as of the view's tail: no work is under way, or its owner is dead.
    async fn may_claim(
        &self,
        view: &View<JournalReplica>,
        silent_version: &impl Fn(&InstanceId) -> Option<Version>,
    ) -> Result<bool, Halt> {
        let status = view.replica.status();
        match &status.owner {
            _ if status.is_claimable() => Ok(true),
            Some(owner) if !status.released && *owner != self.id => self.is_dead(owner, silent_version(owner)).await,
            Some(_) | None => Ok(true),
        }
    }

    /// Deletes obsolete markers and compacts segments if there are enough. Correctness does not depend on either.
    pub async fn tidy(&self, view: &mut View<JournalReplica>) -> Result<(), Halt> {
        for seq in view.take_obsolete_markers() {
            self.delete_marker(&view.task.clone(), seq).await;
        }
        match self.next_compaction(view) {
            Some(compaction) => self.compact(&compaction).await,
            None => Ok(()),
        }
    }
}

/// The length of the next segment: as many whole lines as are allowed, but at least one. A claim begins a segment. So does a `heard` event, so
/// that the events that result from the request are in the same segment.
fn segment_bytes(lines: &[u8]) -> usize {
    let mut end = 0;
    for (n, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_too_much = n >= SEGMENT_LINES || end + line.len() > SEGMENT_BYTES;
        if n > 0 && (is_too_much || is_heard(line)) || n > 1 && is_claim(line) {
            break;
        }
        end += line.len();
    }
    end
}

/// Whether a line looks like a claim. A line that is mistaken for one only begins a new segment.
fn is_claim(line: &[u8]) -> bool {
    memchr::memmem::find(line, br#""event":{"owned":"#).is_some()
}

/// Whether a line looks like a `heard` event.
fn is_heard(line: &[u8]) -> bool {
    memchr::memmem::find(line, br#""event":{"heard":"#).is_some()
}

/// The claim of a segment: its first line, or its second behind `created`.
fn claim_in(records: &[Record]) -> Option<&Owned> {
    records.iter().take(2).find_map(|record| match &record.event {
        Event::Owned(owned) => Some(owned.as_ref()),
        _ => None,
    })
}

/// The task that a new one continues.
fn parent_in(records: &[Record]) -> Option<TaskId> {
    match &records.first()?.event {
        Event::Created(created) => created.parent.as_ref().map(|(parent, _)| parent.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
