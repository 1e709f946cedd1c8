//! Heartbeats: which instances are dead, and whether other instances may consider this one dead. Times are measured by the clock of the
//! observing instance only.

use crate::bucket::instance::{Instance, Times};
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::InstanceId;
use crate::bucket::{Answer, BucketError, Entry, Expect, List, Meta, Version};
use std::collections::HashMap;

/// What an instance knows about heartbeats, its own and those of others.
#[derive(Default)]
pub struct Liveness {
    /// When the last acknowledged heartbeat was sent.
    written_at: Option<u64>,
    cut_offs: u64,
    others: HashMap<InstanceId, Heartbeat>,
}

struct Heartbeat {
    version: Version,
    /// When this version was first seen.
    since: u64,
    is_silent: bool,
}

impl Liveness {
    /// Records that the heartbeat sent at `sent_at` was acknowledged.
    pub fn heartbeat_written(&mut self, sent_at: u64, times: &Times) {
        if self.written_at.is_none_or(|before| sent_at.saturating_sub(before) > times.cut_off_ms) {
            self.cut_offs += 1;
        }
        self.written_at = self.written_at.max(Some(sent_at));
    }

    /// Whether no heartbeat was acknowledged yet, so that this instance may not own tasks.
    pub fn is_new(&self) -> bool {
        self.written_at.is_none()
    }

    /// Whether other instances may soon consider this one dead. Then it starts no tools and stops those that run.
    pub fn is_cut_off(&self, now_ms: u64, times: &Times) -> bool {
        self.written_at.is_none_or(|at| now_ms.saturating_sub(at) > times.cut_off_ms)
    }

    /// How often this instance was cut off. A tool does not start if this has changed since its `call_started` was sent.
    pub fn cut_offs(&self) -> u64 {
        self.cut_offs
    }

    /// Updates the heartbeats of the other instances from a list. Returns whether an instance has died since the last update.
    pub fn observe(&mut self, entries: &[Entry], now_ms: u64, times: &Times) -> bool {
        let mut died = false;
        let mut others = HashMap::with_capacity(entries.len());
        for entry in entries {
            let Some(id) = names::heartbeat_of(&entry.name).map(InstanceId::from) else {
                continue;
            };
            let known = self.others.remove(&id).filter(|known| known.version == entry.version);
            let since = known.as_ref().map_or(now_ms, |known| known.since);
            let is_silent = now_ms.saturating_sub(since) >= times.death_ms;
            died |= is_silent && known.is_some_and(|known| !known.is_silent);
            others.insert(id, Heartbeat { version: entry.version.clone(), since, is_silent });
        }
        died |= !self.others.is_empty();
        self.others = others;
        died
    }

    /// Instances that have been dead for so long that all their tasks have been taken over, with the versions of their heartbeats.
    pub fn long_dead(&self, now_ms: u64, times: &Times) -> Vec<(InstanceId, Version)> {
        let is_old = |heartbeat: &Heartbeat| now_ms.saturating_sub(heartbeat.since) >= times.grace_ms;
        let old = self.others.iter().filter(|(_, heartbeat)| heartbeat.is_silent && is_old(heartbeat));
        old.map(|(instance, heartbeat)| (instance.clone(), heartbeat.version.clone())).collect()
    }

    /// Whether the heartbeat of an instance had changed recently when heartbeats were last listed.
    pub fn is_alive(&self, instance: &InstanceId) -> bool {
        self.others.get(instance).is_some_and(|heartbeat| !heartbeat.is_silent)
    }

    /// The version of an instance's heartbeat, if it has not changed for so long that the instance is dead unless it has written a newer one
    /// since.
    pub fn silent_version(&self, instance: &InstanceId) -> Option<Version> {
        self.others.get(instance).filter(|heartbeat| heartbeat.is_silent).map(|heartbeat| heartbeat.version.clone())
    }
}

impl<P: Port> Instance<P> {
    /// Writes the `n`th heartbeat in one attempt. Returns when it was sent.
    pub async fn write_heartbeat(&self, n: u64) -> Result<u64, BucketError> {
        let sent_at = self.port.now_ms();
        let bytes = format!("{{\"n\":{n}}}\n").into_bytes().into();
        self.port.put(&names::heartbeat(self.id.as_str()), &bytes, &Meta::new(), &Expect::Any).await?;
        Ok(sent_at)
    }

    /// The heartbeats of all instances, in one attempt per page.
    pub async fn list_heartbeats(&self) -> Result<Vec<Entry>, BucketError> {
        let mut list = List { prefix: names::INSTANCES.to_owned(), ..List::default() };
        let mut entries = Vec::new();
        loop {
            let page: Answer<_> = self.port.list(&list).await;
            let page = page?.value;
            entries.extend(page.entries);
            match page.next {
                Some(next) => list.after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    /// Deletes the heartbeat of this instance when it ends, or of an earlier process on this machine that is known to have ended.
    pub async fn delete_heartbeat(&self, instance: &InstanceId) -> Result<(), Halt> {
        self.delete_object(&names::heartbeat(instance.as_str())).await
    }

    /// Deletes the heartbeat of a dead instance in one attempt, so that lists stay short. An instance without a heartbeat counts as dead. A
    /// heartbeat that was written since `version` is kept.
    pub async fn delete_dead_heartbeat(&self, instance: &InstanceId, version: &Version) {
        let _ = self.port.delete(&names::heartbeat(instance.as_str()), Some(version)).await;
    }

    /// Whether an instance is dead now; `silent_version` is what [`Liveness::silent_version`] says of it. Called between reading the tail of a log
    /// and claiming it.
    pub async fn is_dead(&self, owner: &InstanceId, silent_version: Option<Version>) -> Result<bool, Halt> {
        if *owner == self.id {
            return Ok(false);
        }
        let heartbeat = self.get(&names::heartbeat(owner.as_str())).await?.0;
        Ok(heartbeat.is_none_or(|heartbeat| Some(heartbeat.version) == silent_version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::blocking_port::Blocking;
    use crate::bucket::memory::MemoryBucket;
    use crate::bucket::port::block_on;

    #[test]
    fn the_heartbeat_of_a_dead_instance_is_deleted_after_a_while_unless_it_beats_again() {
        let (bucket, times) = (MemoryBucket::new(), Times::default());
        let instance = |id: &str| Instance::new(Blocking::at(&bucket), id.into(), times.clone());
        let (ours, dead, paused) = (instance("ours"), instance("dead"), instance("paused"));
        for one in [&ours, &dead, &paused] {
            block_on(one.write_heartbeat(1)).expect("a heartbeat");
        }
        let mut liveness = Liveness::default();
        let mut look = |now_ms: u64| {
            let entries = block_on(ours.list_heartbeats()).expect("a list");
            liveness.observe(&entries, now_ms, &times);
            liveness.long_dead(now_ms, &times)
        };
        assert_eq!(look(0), []);
        assert_eq!(look(times.grace_ms - 1), [], "it is dead, and nobody may have looked after its tasks yet");
        block_on(ours.write_heartbeat(2)).expect("a heartbeat");
        let mut forgotten = look(times.grace_ms);
        forgotten.sort_by(|a, b| a.0.cmp(&b.0));
        let ids: Vec<&str> = forgotten.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["dead", "paused"]);
        block_on(paused.write_heartbeat(2)).expect("a heartbeat");
        for (id, version) in &forgotten {
            block_on(ours.delete_dead_heartbeat(id, version));
        }
        let names: Vec<String> =
            block_on(ours.list_heartbeats()).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, [names::heartbeat("ours"), names::heartbeat("paused")]);
    }
}
