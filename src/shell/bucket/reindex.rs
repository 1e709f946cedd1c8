//! `gemini-a2a tasks reindex` for a bucket: the summaries of all tasks are made anew from their logs. Servers may run meanwhile.

use crate::base::json;
use crate::bucket::Bucket;
use crate::bucket::instance::{Instance, Times};
use crate::bucket::journal::JournalReplica;
use crate::bucket::port::{Halt, block_on};
use crate::bucket::read::Read;
use crate::bucket::replica::{InstanceId, Phase, Replica};
use crate::bucket::view::View;
use crate::limits::store::PATIENT_TRIES;
use crate::shell::bucket::port::BlockingPort;
use crate::shell::event_loop::sys;
use crate::task::log::brief::Brief;
use std::collections::HashMap;
use std::sync::Arc;

/// What was repaired, in one line.
pub fn reindex(bucket: Arc<dyn Bucket>) -> Result<String, String> {
    let id = InstanceId::from(sys::entropy().uuid());
    let instance = Instance::new(BlockingPort::new(bucket, PATIENT_TRIES), id, Times::default());
    let done = block_on(repair(&instance));
    let (tasks, missing, outdated) = done.map_err(|halt| match halt {
        Halt::Unavailable(why) | Halt::Damaged(why) => why,
    })?;
    Ok(format!("{tasks} tasks; {missing} were missing, {outdated} were out of date"))
}

async fn repair(instance: &Instance<BlockingPort>) -> Result<(usize, usize, usize), Halt> {
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
        let brief = String::from_utf8_lossy(&json::bytes(&Brief::of(state))).into_owned();
        let summary = known.remove(&task);
        match &summary {
            Some(summary) if summary.seq >= view.tail => continue,
            Some(_) => outdated += 1,
            None => missing += 1,
        }
        instance.summarize(&task, &brief, view.tail, summary.map(|summary| summary.version)).await?;
    }
    // What is left belongs to no task.
    for task in known.keys() {
        instance.unsummarize(task).await;
    }
    Ok((tasks, missing, outdated))
}
