//! Reading on to the tail of a log, and loading one. Neither writes anything.

use crate::base::id::Seq;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::{Segment, View};
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::limits::store::LOADED_AT_ONCE;

/// What reading on found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The view is at the tail that the log had when the last request was answered.
    Current,
    /// The task was removed. The view is unloaded.
    Gone,
    /// The log has no first segment.
    NoLog,
}

impl<P: Port> Instance<P> {
    /// Reads on to the tail. On a view that is empty, this loads the task.
    pub async fn read_on<R: Replica>(&self, view: &mut View<R>) -> Result<Read, Halt> {
        self.read_behind(view, Vec::new()).await
    }

    /// Reads on behind the segments `found`, which follow the view's tail. Nothing is applied before it is certain that the names
    /// were not freed before they were read.
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
            is_fresh &= self.is_fresh(view.known_at);
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
            self.take(view, segment)?;
        }
        view.known_at = view.known_at.max(Some(sent_at));
        Ok(Read::Current)
    }

    /// Whether the task has an entry: if not, it does not exist, whatever other names there are.
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

    /// Reads a log from its beginning with few requests: the joined segments, then those that a list names behind them, several at a time.
    /// What is not found this way is found by reading on.
    async fn load<R: Replica>(&self, view: &View<R>, found: &mut Vec<Segment>) -> Result<(), Halt> {
        let joined = self.list(&names::compacts(&view.task), None).await?;
        let ranges = joined.entries.iter().filter_map(|entry| names::compact_range(&view.task, &entry.name));
        let ranges: Vec<(Seq, Seq)> = ranges.collect();
        let mut next = Seq(1);
        while let Some((first, last)) = ranges.iter().filter(|(first, _)| *first == next).max() {
            let Some(object) = self.get(&names::compact(&view.task, *first, *last)).await?.0 else {
                break;
            };
            let segment = Segment { is_joined: true, ..Segment::new(*first, object.bytes)? };
            if segment.last != *last {
                return Err(Halt::Damaged(format!("the joined segments from event {first} on do not end at {last}")));
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
