//! The deletion of a task, the removal of its objects after the grace period, and the removal of objects that belong to no task.

use crate::base::id::{Seq, TaskId};
use crate::bucket::instance::Instance;
use crate::bucket::log::append::Append;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{Phase, Replica, StoreEvent};
use crate::bucket::{Expect, Meta};
use std::collections::HashSet;
use std::sync::Arc;

impl<P: Port> Instance<P> {
    /// Deletes a task that this process owns and that is not at work, by appending `deleted`. The task does not exist any more once that is
    /// acknowledged. [`Instance::scan`] deletes its objects after the grace period.
    pub async fn delete<R: Replica>(&self, view: &mut View<R>) -> Result<Append, Halt> {
        debug_assert!(self.owns(view) && !matches!(view.replica.status().phase, Phase::Working | Phase::Deleted));
        self.create_marker(view).await?;
        let line = view.replica.line(view.tail.next(), &StoreEvent::Deleted);
        let result = self.append(view, line).await;
        if result == Ok(Append::Done) {
            view.epoch = None;
        }
        result
    }

    /// Completes an abandoned creation: a task that has had an entry but no log for so long that its creator has failed gets a first
    /// segment that only says `deleted`. Does nothing if the log was created meanwhile.
    pub(in crate::bucket) async fn close_abandoned<R: Replica>(&self, task: &TaskId, replica: &R) {
        let line: Arc<[u8]> = replica.line(Seq(1), &StoreEvent::Deleted).into();
        let _ = self.port.put(&names::segment(task, Seq(1)), &line, &Meta::new(), &Expect::Absent).await;
    }

    /// Deletes the objects of a deleted task and unloads the view. The entry is first, because without it the other objects count for
    /// nothing. The log is deleted from its beginning, so that no readable prefix remains. The markers are last, so that another instance
    /// completes the removal if this one fails.
    pub(in crate::bucket) async fn remove<R: Replica>(&self, view: &mut View<R>) -> Result<(), Halt> {
        view.unload();
        let task = view.task.clone();
        if !self.rules.entry_removed_first {
            for entry in self.list(&names::log(&task), None).await?.entries.iter().rev() {
                self.delete_object(&entry.name).await?;
            }
        }
        if let Some(entry) = &view.entry {
            self.delete_object(entry).await?;
        }
        self.delete_object(&names::summary(&task)).await?;
        let log = names::log(&task);
        self.delete_all(&names::task(&task), |name| !name.starts_with(&log)).await?;
        self.delete_all(&log, |_| true).await?;
        // The id of another task may begin with this id and a dot.
        let is_own = |name: &str| names::marker_parts(name).is_some_and(|(marked, _)| marked == task);
        self.delete_all(&names::markers(&task), is_own).await
    }

    /// Deletes objects of tasks that have no entry: a delayed request can create an object after its task was removed, and no instance
    /// reads it. Returns the number of tasks whose objects were deleted.
    pub async fn delete_orphans(&self) -> Result<usize, Halt> {
        let folders = self.folders(names::TASKS).await?;
        // Listed after the folders, because the entry of a task is older than its log.
        let known: HashSet<TaskId> = self.entries().await?.into_iter().map(|(task, _)| task).collect();
        let mut deleted = 0;
        for folder in folders {
            let task = folder.strip_prefix(names::TASKS).and_then(|rest| rest.strip_suffix('/')).map(TaskId::from);
            let Some(task) = task.filter(|task| !known.contains(task)) else {
                continue;
            };
            let listed = self.list(&folder, None).await?;
            // Long texts of a new task are stored before its entry.
            if listed.entries.iter().all(|entry| listed.age_ms(entry) >= self.times.grace_ms) {
                self.delete_all(&names::task(&task), |_| true).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Deletes the objects of a prefix whose names `is_selected` accepts, in the order of their names, until a list shows none.
    async fn delete_all(&self, prefix: &str, is_selected: impl Fn(&str) -> bool) -> Result<(), Halt> {
        loop {
            let mut entries = self.list(prefix, None).await?.entries;
            entries.retain(|entry| is_selected(&entry.name));
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                self.delete_object(&entry.name).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Bucket;
    use crate::bucket::blocking_port::Blocking;
    use crate::bucket::instance::Times;
    use crate::bucket::memory::MemoryBucket;
    use crate::bucket::port::block_on;

    #[test]
    fn the_removal_of_a_task_keeps_tasks_whose_ids_have_the_same_prefix() {
        let bucket = MemoryBucket::new();
        let put = |name: &str| bucket.put(name, &Arc::default(), &Meta::new(), &Expect::Any).expect("it is written");
        let (task, other) = (TaskId::from("t"), TaskId::from("t.x"));
        for task in [&task, &other] {
            put(&names::segment(task, Seq(1)));
            put(&names::marker(task, Seq(1)));
        }
        let instance = Instance::new(Blocking::at(&bucket), "i".into(), Times::default());
        let mut view = View::new(task, None, crate::bucket::journal::replica::JournalReplica::default());
        block_on(instance.remove(&mut view)).expect("the bucket answers");
        let left: Vec<String> = bucket.objects().into_iter().map(|(name, _)| name).collect();
        assert_eq!(left, [names::marker(&other, Seq(1)), names::segment(&other, Seq(1))]);
    }

    #[test]
    fn only_objects_of_tasks_without_an_entry_are_deleted() {
        let bucket = MemoryBucket::new();
        let put = |name: &str| bucket.put(name, &Arc::default(), &Meta::new(), &Expect::Any).expect("it is written");
        let (kept, left, new) = (TaskId::from("kept"), TaskId::from("left"), TaskId::from("new"));
        put("contexts/c/kept");
        for task in [&kept, &left] {
            put(&names::segment(task, Seq(7)));
            put(&names::blob(task, "x"));
        }
        let instance = Instance::new(Blocking::at(&bucket), "i".into(), Times::default());
        assert_eq!(block_on(instance.delete_orphans()), Ok(0), "it may belong to a task that is just being created");
        bucket.set_time(bucket.time() + instance.times.grace_ms);
        put(&names::blob(&new, "x"));
        assert_eq!(block_on(instance.delete_orphans()), Ok(1));
        let all = |task: &TaskId| block_on(instance.list(&names::task(task), None)).expect("a list").entries.len();
        assert_eq!((all(&kept), all(&left), all(&new)), (2, 0, 1));
    }
}
