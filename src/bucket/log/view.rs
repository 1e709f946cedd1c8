//! What one process knows of one task in the bucket.

use crate::base::id::{Seq, TaskId};
use crate::bucket::instance::Instance;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{Applied, Replica};
use std::sync::Arc;

/// A process's copy of a task. There is at most one per task in a process, and it is made before the task's entry.
pub struct View<R> {
    pub task: TaskId,
    /// The name of the task's entry. Unknown until segment 1 was read, if only the id was known.
    pub entry: Option<String>,
    pub replica: R,
    /// The last event that was applied.
    pub tail: Seq,
    /// When the request was sent that showed that nothing follows the tail: a create that was acknowledged, or a GET of the next name.
    pub known_at: Option<u64>,
    /// The epoch in which this process owns the task.
    pub epoch: Option<u64>,
    /// When the last create of a segment was sent.
    pub sent_at: u64,
    /// Segments that began work, and whose markers may still exist.
    pub(in crate::bucket) openings: Vec<Seq>,
    /// The first events of the segments behind the last joined ones.
    pub(in crate::bucket) loose: Vec<Seq>,
    /// This view is not to be used any more: the task does not exist, or the result of a request is unknown. Another view reads the log
    /// anew.
    pub is_unloaded: bool,
}

impl<R: Replica> View<R> {
    pub fn new(task: TaskId, entry: Option<String>, replica: R) -> View<R> {
        View {
            task,
            entry,
            replica,
            tail: Seq(0),
            known_at: None,
            epoch: None,
            sent_at: 0,
            openings: Vec::new(),
            loose: Vec::new(),
            is_unloaded: false,
        }
    }

    /// Ends the use of this view, and of everything that runs for the task here.
    pub fn unload(&mut self) {
        self.is_unloaded = true;
        self.epoch = None;
        self.replica.fenced();
    }

    /// Segments that began work and that the caller deletes the markers of, if nothing is under way any more.
    pub fn take_settled(&mut self) -> Vec<Seq> {
        match self.replica.status().is_settled() {
            true => std::mem::take(&mut self.openings),
            false => Vec::new(),
        }
    }
}

/// Lines of a log that are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Segment {
    pub first: Seq,
    pub last: Seq,
    pub lines: Arc<[u8]>,
    /// They were read from several joined segments, whose bounds are not known.
    pub is_joined: bool,
}

impl Segment {
    pub fn new(first: Seq, lines: Arc<[u8]>) -> Result<Segment, Halt> {
        let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
        if !lines.ends_with(b"\n") {
            return Err(Halt::Damaged(format!("the segment at event {first} does not end with a line break")));
        }
        Ok(Segment { first, last: Seq(first.0 + count - 1), lines, is_joined: false })
    }
}

impl<P: Port> Instance<P> {
    /// Whether this process owns the task at the tail that it knows.
    pub fn owns<R: Replica>(&self, view: &View<R>) -> bool {
        view.epoch.is_some_and(|epoch| view.replica.status().is_owned_by(&self.id, epoch))
    }

    /// Applies a segment that follows the tail.
    pub(in crate::bucket) fn take<R: Replica>(&self, view: &mut View<R>, segment: &Segment) -> Result<(), Halt> {
        debug_assert_eq!(segment.first, view.tail.next());
        let applied = match view.replica.apply(segment.first, &segment.lines) {
            Ok(applied) => applied,
            Err(halt) => {
                view.unload();
                return Err(halt);
            }
        };
        view.tail = segment.last;
        match segment.is_joined {
            true => view.loose.clear(),
            false => view.loose.push(segment.first),
        }
        if applied == Applied::BeganWork && !segment.is_joined {
            view.openings.push(segment.first);
        }
        if view.epoch.is_some() && !self.owns(view) {
            view.epoch = None;
            view.replica.fenced();
        }
        Ok(())
    }
}
