//! Reads a log: from the view's tail to the end, or from its beginning. Writes nothing.

use crate::base::id::Seq;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::{Segment, View};
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::limits::store::LOADED_AT_ONCE;

/// The result of reading to the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The view is at the end that the log had when the last request was answered.
    Current,
    /// The task was removed. The view is unloaded.
    Gone,
    /// The log has no first segment.
    NoLog,
}

impl<P: Port> Instance<P> {
    /// Reads and applies the segments after the view's tail. Loads the whole log if the view is empty.
    pub async fn read_on<R: Replica>(&self, view: &mut View<R>) -> Result<Read, Halt> {
        self.read_behind(view, Vec::new()).await
    }

    /// Reads the segments after those in `found`, which follow the view's tail, and applies all of them. Before that, it makes sure that
    /// the task was not removed while they were read.
    pub(in crate::bucket) async fn read_behind<R: Replica>(
        &self,
        view: &mut View<R>,
        mut found: Vec<Segment>,
    ) -> Result<Read, Halt> {
        if found.is_empty() && view.tail == Seq(0) {
            self.load(view, &mut found).await?;
        }
        let mut next = found.last().map_or(view.tail, |segment| segment.last).next();
        let mut is_fresh = true;
        let sent_at = loop {
            let (object, sent_at) = self.get(&names::segment(&view.task, next)).await?;
            is_fresh &= self.is_fresh(view.tail_checked_at);
            let Some(object) = object else {
                break sent_at;
            };
            let segment = Segment::new(next, object.bytes)?;
            next = segment.last.next();
            found.push(segment);
        };
        if found.is_empty() && view.tail == Seq(0) {
            return Ok(Read::NoLog);
        }
        if let (None, Some(segment)) = (&view.entry, found.first().filter(|segment| segment.first == Seq(1))) {
            view.entry = view.replica.entry(&segment.lines);
        }
        if !is_fresh && !self.has_entry(view).await? {
            view.unload();
            return Ok(Read::Gone);
        }
        for segment in &found {
            self.apply_segment(view, segment)?;
        }
        view.tail_checked_at = view.tail_checked_at.max(Some(sent_at));
        Ok(Read::Current)
    }

    /// Whether the task has an entry. Without one it does not exist, even if other objects of it do.
    pub(in crate::bucket) async fn has_entry<R: Replica>(&self, view: &View<R>) -> Result<bool, Halt> {
        self.exists(view.entry.as_deref()).await
    }

    pub(in crate::bucket) async fn exists(&self, entry: Option<&str>) -> Result<bool, Halt> {
        match entry {
            _ if !self.rules.entry_checked => Ok(true),
            Some(entry) => Ok(self.get(entry).await?.0.is_some()),
            None => Ok(false),
        }
    }

    /// Reads a log from its beginning with few requests: first the compacted segments, then the listed segments after them, several at a
    /// time. Stops at the first segment that is missing; the caller reads the rest one by one.
    async fn load<R: Replica>(&self, view: &View<R>, found: &mut Vec<Segment>) -> Result<(), Halt> {
        let compacted = self.list(&names::compacts(&view.task), None).await?;
        let ranges = compacted.entries.iter().filter_map(|entry| names::compact_range(&view.task, &entry.name));
        let ranges: Vec<(Seq, Seq)> = ranges.collect();
        let mut next = Seq(1);
        while let Some((first, last)) = ranges.iter().filter(|(first, _)| *first == next).max() {
            let Some(object) = self.get(&names::compact(&view.task, *first, *last)).await?.0 else {
                break;
            };
            let segment = Segment { is_compacted: true, ..Segment::new(*first, object.bytes)? };
            if segment.last != *last {
                return Err(Halt::Damaged(format!(
                    "the compacted segments from event {first} do not end at event {last}"
                )));
            }
            next = last.next();
            found.push(segment);
        }
        let before = Seq(next.0 - 1);
        let after = (before > Seq(0)).then(|| names::segment(&view.task, before));
        let listed = self.list(&names::log(&view.task), after).await?.entries;
        let names: Vec<String> = listed.into_iter().map(|entry| entry.name).collect();
        for names in names.chunks(LOADED_AT_ONCE) {
            for (name, answer) in names.iter().zip(self.port.get_all(names).await) {
                let Ok(Some(object)) = answer.map(|answer| answer.value) else {
                    return Ok(());
                };
                if names::segment_first(&view.task, name) != Some(next) {
                    return Ok(());
                }
                let segment = Segment::new(next, object.bytes)?;
                next = segment.last.next();
                found.push(segment);
            }
        }
        Ok(())
    }
}
