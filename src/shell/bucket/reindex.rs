//! `gemini-a2a tasks reindex` for a bucket: the summaries of all tasks are made anew from their logs, and what is left of removed tasks
//! is deleted. Servers may run meanwhile.

use crate::bucket::Bucket;
use crate::bucket::instance::{Instance, Times};
use crate::bucket::journal::JournalReplica;
use crate::bucket::port::{Halt, block_on};
use crate::bucket::read::Read;
use crate::bucket::replica::{InstanceId, Phase, Replica};
use crate::bucket::view::View;
use crate::limits::store::PATIENT_TRIES;
use crate::shell::bucket::port::BlockingPort;
use crate::shell::bucket::store::summary;
use crate::shell::event_loop::sys;
use crate::task::log::brief::Brief;
use std::collections::HashMap;
use std::sync::Arc;

/// What was repaired, in one line.
pub fn reindex(bucket: Arc<dyn Bucket>) -> Result<String, String> {
    let id = InstanceId::from(sys::entropy().uuid());
    let instance = Instance::new(BlockingPort::new(bucket, PATIENT_TRIES), id, Times::default());
    let done = block_on(repair(&instance));
    let Repaired { tasks, missing, outdated, swept } = done.map_err(|halt| match halt {
        Halt::Unavailable(why) | Halt::Damaged(why) => why,
    })?;
    let mut text = format!("{tasks} tasks; {missing} were missing, {outdated} were out of date");
    if swept > 0 {
        text.push_str(&format!("; what was left of {swept} removed tasks is deleted"));
    }
    Ok(text)
}

struct Repaired {
    tasks: usize,
    missing: usize,
    outdated: usize,
    /// Removed tasks of which something was left.
    swept: usize,
}

async fn repair(instance: &Instance<BlockingPort>) -> Result<Repaired, Halt> {
    let known = instance.summaries().await?.into_iter().map(|summary| (summary.task.clone(), summary));
    let mut known: HashMap<_, _> = known.collect();
    let (mut tasks, mut missing, mut outdated) = (0, 0, 0);
    for task in instance.entries().await? {
        let mut view = View::new(task.clone(), None, JournalReplica::new(None));
        let read = instance.read_on(&mut view).await?;
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
        instance.summarize(&task, &brief, view.tail, before.map(|before| before.version)).await?;
    }
    // What is left belongs to no task.
    for task in known.keys() {
        instance.unsummarize(task).await;
    }
    Ok(Repaired { tasks, missing, outdated, swept: instance.sweep().await? })
}
