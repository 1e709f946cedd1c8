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
