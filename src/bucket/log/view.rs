//! What one process knows of one task in the bucket.

use crate::base::id::{Seq, TaskId};
use crate::bucket::instance::Instance;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{Applied, Replica};
use std::sync::Arc;

/// A process's copy of a task. A process has at most one per task, and creates it before the task's entry.
pub struct View<R> {
    pub task: TaskId,
    /// The name of the task's entry. If only the id was known, `None` until segment 1 was read.
    pub entry: Option<String>,
    pub replica: R,
    /// The last event that was applied.
    pub tail: Seq,
    /// When the last request was sent that showed that no segment follows the tail: an acknowledged create, or a GET of the next segment.
    pub tail_checked_at: Option<u64>,
    /// The epoch in which this process owns the task.
    pub epoch: Option<u64>,
    /// When the last create of a segment was sent.
    pub sent_at: u64,
    /// Segments that began work and whose markers may still exist.
    pub(in crate::bucket) marked_segments: Vec<Seq>,
    /// The numbers of the segments after the last compaction.
    pub(in crate::bucket) uncompacted: Vec<Seq>,
    /// This view must not be used any more, because the task does not exist or the result of a request is unknown. The caller replaces it
    /// with a new view that reads the log again.
    pub is_unloaded: bool,
}

impl<R: Replica> View<R> {
    pub fn new(task: TaskId, entry: Option<String>, replica: R) -> View<R> {
        View {
            task,
            entry,
            replica,
            tail: Seq(0),
            tail_checked_at: None,
            epoch: None,
            sent_at: 0,
            marked_segments: Vec::new(),
            uncompacted: Vec::new(),
            is_unloaded: false,
        }
    }

    /// Marks this view as unusable and stops everything that runs for the task in this process.
    pub fn unload(&mut self) {
        self.is_unloaded = true;
        self.epoch = None;
        self.replica.fenced();
    }

    /// The segments whose markers the caller deletes now. Empty while the task has work under way.
    pub fn take_obsolete_markers(&mut self) -> Vec<Seq> {
        match self.replica.status().is_settled() {
            true => std::mem::take(&mut self.marked_segments),
            false => Vec::new(),
        }
    }
}

/// A part of a log that the store has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Segment {
    pub first: Seq,
    pub last: Seq,
    pub lines: Arc<[u8]>,
    /// The lines of several segments, read from a compacted object. The bounds of those segments are not known.
    pub is_compacted: bool,
}

impl Segment {
    pub fn new(first: Seq, lines: Arc<[u8]>) -> Result<Segment, Halt> {
        let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
        if !lines.ends_with(b"\n") {
            return Err(Halt::Damaged(format!("the segment at event {first} does not end with a line break")));
        }
        Ok(Segment { first, last: Seq(first.0 + count - 1), lines, is_compacted: false })
    }
}

impl<P: Port> Instance<P> {
    /// Whether this process owns the task as of the view's tail.
    pub fn owns<R: Replica>(&self, view: &View<R>) -> bool {
        view.epoch.is_some_and(|epoch| view.replica.status().is_owned_by(&self.id, epoch))
    }

    /// Applies the segment that follows the tail.
    pub(in crate::bucket) fn apply_segment<R: Replica>(
        &self,
        view: &mut View<R>,
        segment: &Segment,
    ) -> Result<(), Halt> {
        debug_assert_eq!(segment.first, view.tail.next());
        let applied = match view.replica.apply(segment.first, &segment.lines) {
            Ok(applied) => applied,
            Err(halt) => {
                view.unload();
                return Err(halt);
            }
        };
        view.tail = segment.last;
        match segment.is_compacted {
            true => view.uncompacted.clear(),
            false => view.uncompacted.push(segment.first),
        }
        if applied == Applied::BeganWork && !segment.is_compacted {
            view.marked_segments.push(segment.first);
        }
        if view.epoch.is_some() && !self.owns(view) {
            view.epoch = None;
            view.replica.fenced();
        }
        Ok(())
    }
}
