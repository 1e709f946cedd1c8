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
    /// Deletes a task that this process owns and that is not at work: from the acknowledgement on it does not exist. Its names are freed
    /// by [`Instance::scan`] after the grace period.
    pub async fn delete<R: Replica>(&self, view: &mut View<R>) -> Result<Append, Halt> {
        debug_assert!(self.owns(view) && !matches!(view.replica.status().phase, Phase::Working | Phase::Deleted));
        self.mark(view).await?;
        let line = view.replica.line(view.tail.next(), &StoreEvent::Deleted);
        let result = self.append(view, line).await;
        if result == Ok(Append::Done) {
            view.epoch = None;
        }
        result
    }

    /// Creates the first segment of a task that has an entry but no log for so long that whoever began it is gone. If the log has been
    /// created meanwhile, nothing happens.
    pub(in crate::bucket) async fn abandon<R: Replica>(&self, task: &TaskId, replica: &R) {
        let line: Arc<[u8]> = replica.line(Seq(1), &StoreEvent::Deleted).into();
        let _ = self.port.put(&names::segment(task, Seq(1)), &line, &Meta::new(), &Expect::Absent).await;
    }

    /// Frees the names of a task that was deleted: the entry first, so that nobody believes the others; the log lowest first, so
    /// that no beginning of it remains; the markers last, so that another instance finishes what this one does not. Unloads the view.
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
        // The id of another task may begin with this one and a dot.
        let is_own = |name: &str| names::marker_parts(name).is_some_and(|(marked, _)| marked == task);
        self.delete_all(&names::markers(&task), is_own).await
    }

    /// Deletes what is left of tasks without an entry: a request that was delayed for long can create an object after its task was removed.
    /// Nobody reads it. Returns of how many tasks something was deleted.
    pub async fn sweep(&self) -> Result<usize, Halt> {
        let folders = self.folders(names::TASKS).await?;
        // Looked at afterwards: a task has an entry before it has a log.
        let known: HashSet<TaskId> = self.entries().await?.into_iter().map(|(task, _)| task).collect();
        let mut swept = 0;
        for folder in folders {
            let task = folder.strip_prefix(names::TASKS).and_then(|rest| rest.strip_suffix('/')).map(TaskId::from);
            let Some(task) = task.filter(|task| !known.contains(task)) else {
                continue;
            };
            let listed = self.list(&folder, None).await?;
            // Long texts of a new task are stored before its entry.
            if listed.entries.iter().all(|entry| listed.age_ms(entry) >= self.times.grace_ms) {
                self.delete_all(&names::task(&task), |_| true).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// Deletes the objects of a prefix that are meant, in the order of their names, until a list shows none.
    async fn delete_all(&self, prefix: &str, is_meant: impl Fn(&str) -> bool) -> Result<(), Halt> {
        loop {
            let mut entries = self.list(prefix, None).await?.entries;
            entries.retain(|entry| is_meant(&entry.name));
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
    fn the_removal_of_a_task_spares_those_whose_ids_begin_alike() {
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
    fn what_is_left_of_removed_tasks_is_swept_and_nothing_else() {
        let bucket = MemoryBucket::new();
        let put = |name: &str| bucket.put(name, &Arc::default(), &Meta::new(), &Expect::Any).expect("it is written");
        let (kept, left, new) = (TaskId::from("kept"), TaskId::from("left"), TaskId::from("new"));
        put("contexts/c/kept");
        for task in [&kept, &left] {
            put(&names::segment(task, Seq(7)));
            put(&names::blob(task, "x"));
        }
        let instance = Instance::new(Blocking::at(&bucket), "i".into(), Times::default());
        assert_eq!(block_on(instance.sweep()), Ok(0), "it may belong to a task that is just being created");
        bucket.set_time(bucket.time() + instance.times.grace_ms);
        put(&names::blob(&new, "x"));
        assert_eq!(block_on(instance.sweep()), Ok(1));
        let all = |task: &TaskId| block_on(instance.list(&names::task(task), None)).expect("a list").entries.len();
        assert_eq!((all(&kept), all(&left), all(&new)), (2, 0, 1));
    }
}
