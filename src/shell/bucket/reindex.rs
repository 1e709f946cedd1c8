//! `gemini-a2a tasks reindex` for a bucket: rebuilds the summaries of all tasks from their logs, and deletes objects of removed tasks. Servers
//! may run at the same time.

use crate::base::id::TaskId;
use crate::bucket::Bucket;
use crate::bucket::instance::{Instance, Times};
use crate::bucket::journal::replica::JournalReplica;
use crate::bucket::log::read::Read;
use crate::bucket::log::view::View;
use crate::bucket::port::{Halt, block_on};
use crate::bucket::replica::{InstanceId, Phase, Replica};
use crate::limits::store::PATIENT_TRIES;
use crate::shell::bucket::port::BlockingPort;
use crate::shell::bucket::store::summary;
use crate::shell::event_loop::sys;
use crate::task::log::brief::Brief;
use std::collections::HashMap;
use std::sync::Arc;

/// Repairs the index. Returns what was repaired, in one line.
pub fn reindex(bucket: Arc<dyn Bucket>) -> Result<String, String> {
    let id = InstanceId::from(sys::entropy().uuid());
    let instance = Instance::new(BlockingPort::new(bucket, PATIENT_TRIES), id, Times::default());
    let done = block_on(repair(&instance));
    let Repaired { tasks, missing, outdated, damaged, orphans } = done.map_err(|halt| match halt {
        Halt::Unavailable(why) | Halt::Damaged(why) => why,
    })?;
    let mut text = format!("{tasks} tasks; {missing} were missing, {outdated} were out of date");
    if !damaged.is_empty() {
        let damaged: Vec<&str> = damaged.iter().map(TaskId::as_str).collect();
        text.push_str(&format!("; damaged and left as they were: {}", damaged.join(", ")));
    }
    if orphans > 0 {
        text.push_str(&format!("; remaining objects of {orphans} removed tasks were deleted"));
    }
    Ok(text)
}

struct Repaired {
    tasks: usize,
    missing: usize,
    outdated: usize,
    damaged: Vec<TaskId>,
    /// The number of removed tasks whose remaining objects were deleted.
    orphans: usize,
}

async fn repair(instance: &Instance<BlockingPort>) -> Result<Repaired, Halt> {
    let known = instance.summaries().await?.into_iter().map(|summary| (summary.task.clone(), summary));
    let mut known: HashMap<_, _> = known.collect();
    let (mut tasks, mut missing, mut outdated, mut damaged) = (0, 0, 0, Vec::new());
    for (task, entry) in instance.entries().await? {
        let mut view = View::new(task.clone(), Some(entry), JournalReplica::new(None));
        let read = match instance.read_on(&mut view).await {
            Err(Halt::Damaged(_)) => {
                known.remove(&task);
                damaged.push(task);
                continue;
            }
            read => read?,
        };
        let is_there = read == Read::Current && view.replica.status().phase != Phase::Deleted;
        let Some(state) = view.replica.state.as_ref().filter(|_| is_there) else {
            continue;
        };
        tasks += 1;
        let brief = summary(&Brief::of(state));
        let before = known.remove(&task);
        match &before {
            Some(before) if before.seq >= view.tail => continue,
            Some(_) => outdated += 1,
            None => missing += 1,
        }
        instance.write_summary(&task, &brief, view.tail, before.map(|before| before.version)).await?;
    }
    // The remaining summaries belong to no task.
    for task in known.keys() {
        instance.delete_summary(task).await;
    }
    Ok(Repaired { tasks, missing, outdated, damaged, orphans: instance.delete_orphans().await? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::memory::MemoryBucket;
    use crate::bucket::{Expect, Meta, names};

    #[test]
    fn a_damaged_task_is_named_and_the_others_are_repaired() {
        let bucket = MemoryBucket::new();
        let put = |name: &str, bytes: &[u8]| {
            bucket.put(name, &bytes.into(), &Meta::new(), &Expect::Any).expect("it is written");
        };
        for task in ["a", "b"] {
            put(&format!("contexts/c/{task}"), b"");
            put(&names::segment(&task.into(), crate::base::id::Seq(1)), b"nonsense\n");
        }
        let text = reindex(Arc::new(bucket)).expect("it goes on behind a damaged task");
        assert_eq!(text, "0 tasks; 0 were missing, 0 were out of date; damaged and left as they were: a, b");
    }
}
