//! Heartbeats: who is dead, and whether we have to assume that others take us for dead. Only the clock of the observer counts.

use crate::bucket::instance::{Instance, Times};
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::InstanceId;
use crate::bucket::{Answer, Entry, Expect, List, Meta, Trouble, Version};
use std::collections::HashMap;

/// What an instance knows about heartbeats, its own and those of others.
#[derive(Default)]
pub struct Liveness {
    /// When the last successful heartbeat was sent.
    beaten_at: Option<u64>,
    gaps: u64,
    others: HashMap<InstanceId, Heartbeat>,
}

struct Heartbeat {
    version: Version,
    /// When this version was first seen.
    since: u64,
    is_silent: bool,
}

impl Liveness {
    /// Notes that the heartbeat that was sent at `sent_at` was acknowledged.
    pub fn beaten(&mut self, sent_at: u64, times: &Times) {
        if self.beaten_at.is_none_or(|before| sent_at.saturating_sub(before) > times.cut_off_ms) {
            self.gaps += 1;
        }
        self.beaten_at = self.beaten_at.max(Some(sent_at));
    }

    /// Whether nothing may be owned yet: no heartbeat was acknowledged.
    pub fn is_new(&self) -> bool {
        self.beaten_at.is_none()
    }

    /// Whether others may soon take us for dead: no tool starts, and those that run are stopped.
    pub fn is_cut_off(&self, now_ms: u64, times: &Times) -> bool {
        self.beaten_at.is_none_or(|at| now_ms.saturating_sub(at) > times.cut_off_ms)
    }

    /// How often we were cut off. A tool does not start if this has changed since its `call_started` was sent.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Notes the heartbeats that a list shows. Returns whether an instance has died since the last one.
    pub fn listed(&mut self, entries: &[Entry], now_ms: u64, times: &Times) -> bool {
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

    /// Heartbeats of instances that have been dead for so long that nothing of theirs is left to look after, and their versions.
    pub fn forgotten(&self, now_ms: u64, times: &Times) -> Vec<(InstanceId, Version)> {
        let is_old = |heartbeat: &Heartbeat| now_ms.saturating_sub(heartbeat.since) >= times.grace_ms;
        let old = self.others.iter().filter(|(_, heartbeat)| heartbeat.is_silent && is_old(heartbeat));
        old.map(|(instance, heartbeat)| (instance.clone(), heartbeat.version.clone())).collect()
    }

    /// Whether an instance has a heartbeat that was not silent for long when they were last listed.
    pub fn lives(&self, instance: &InstanceId) -> bool {
        self.others.get(instance).is_some_and(|heartbeat| !heartbeat.is_silent)
    }

    /// The version in which an instance's heartbeat has been for so long that the instance is dead, if it still is in that version.
    pub fn silent(&self, instance: &InstanceId) -> Option<Version> {
        self.others.get(instance).filter(|heartbeat| heartbeat.is_silent).map(|heartbeat| heartbeat.version.clone())
    }
}

impl<P: Port> Instance<P> {
    /// Writes the `n`th heartbeat, in one attempt. Returns when it was sent.
    pub async fn beat(&self, n: u64) -> Result<u64, Trouble> {
        let sent_at = self.port.now_ms();
        let bytes = format!("{{\"n\":{n}}}\n").into_bytes().into();
        self.port.put(&names::heartbeat(self.id.as_str()), &bytes, &Meta::new(), &Expect::Any).await?;
        Ok(sent_at)
    }

    /// The heartbeats of all instances, in one attempt per page.
    pub async fn heartbeats(&self) -> Result<Vec<Entry>, Trouble> {
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

    /// Deletes a heartbeat: our own at the end, or that of an earlier start of ours that is known to be over.
    pub async fn forget(&self, instance: &InstanceId) -> Result<(), Halt> {
        self.delete_object(&names::heartbeat(instance.as_str())).await
    }

    /// Deletes the heartbeat of a dead instance, in one attempt: without it the instance is as dead as with it, and lists stay short. One
    /// that has been written since is left alone.
    pub async fn forget_dead(&self, instance: &InstanceId, version: &Version) {
        let _ = self.port.delete(&names::heartbeat(instance.as_str()), Some(version)).await;
    }

    /// Whether an instance is dead now; `silent` is what [`Liveness::silent`] says of it. Called between reading the tail of a log
    /// and claiming it.
    pub async fn is_dead(&self, owner: &InstanceId, silent: Option<Version>) -> Result<bool, Halt> {
        if *owner == self.id {
            return Ok(false);
        }
        let heartbeat = self.get(&names::heartbeat(owner.as_str())).await?.0;
        Ok(heartbeat.is_none_or(|heartbeat| Some(heartbeat.version) == silent))
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
            block_on(one.beat(1)).expect("a heartbeat");
        }
        let mut liveness = Liveness::default();
        let mut look = |now_ms: u64| {
            let entries = block_on(ours.heartbeats()).expect("a list");
            liveness.listed(&entries, now_ms, &times);
            liveness.forgotten(now_ms, &times)
        };
        assert_eq!(look(0), []);
        assert_eq!(look(times.grace_ms - 1), [], "it is dead, and nobody may have looked after its tasks yet");
        block_on(ours.beat(2)).expect("a heartbeat");
        let mut forgotten = look(times.grace_ms);
        forgotten.sort_by(|a, b| a.0.cmp(&b.0));
        let ids: Vec<&str> = forgotten.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["dead", "paused"]);
        block_on(paused.beat(2)).expect("a heartbeat");
        for (id, version) in &forgotten {
            block_on(ours.forget_dead(id, version));
        }
        let names: Vec<String> = block_on(ours.heartbeats()).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, [names::heartbeat("ours"), names::heartbeat("paused")]);
    }
}
