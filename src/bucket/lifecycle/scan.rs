//! The scan: handles each marker of unfinished work. Claims tasks whose owners are dead, removes deleted tasks, and deletes obsolete
//! markers.

use crate::base::id::Seq;
use crate::bucket::Version;
use crate::bucket::instance::Instance;
use crate::bucket::lifecycle::markers::Marker;
use crate::bucket::log::read::Read;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{InstanceId, Phase, Replica, StoreEvent};

/// What the caller has to do after a marker was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    Nothing,
    /// This process owns the task now. The caller restores it as after [`Instance::claim`].
    Won,
}

impl<P: Port> Instance<P> {
    /// Handles a marker. `silent_version` is [`Liveness::silent_version`](crate::bucket::ownership::heartbeat::Liveness::silent_version).
    pub async fn scan<R: Replica>(
        &self,
        view: &mut View<R>,
        marker: &Marker,
        silent_version: impl Fn(&InstanceId) -> Option<Version>,
    ) -> Result<Scanned, Halt> {
        let is_old = marker.age_ms > self.times.grace_ms;
        if view.entry.is_none() {
            view.entry.clone_from(&marker.entry);
        }
        match self.read_on(view).await? {
            Read::NoLog => {
                self.scan_without_log(view, is_old).await?;
                return Ok(Scanned::Nothing);
            }
            Read::Gone => {
                self.remove(view).await?;
                return Ok(Scanned::Nothing);
            }
            Read::Current => {}
        }
        if view.replica.status().phase == Phase::Deleted {
            self.scan_deleted(view).await?;
            return Ok(Scanned::Nothing);
        }
        if self.adopt(view) {
            return Ok(Scanned::Won);
        }
        let won = match self.owns(view) {
            true => {
                self.scan_own(view, marker.seq, is_old).await?;
                false
            }
            false => self.scan_foreign(view, marker.seq, is_old, silent_version).await?,
        };
        Ok(if won { Scanned::Won } else { Scanned::Nothing })
    }

    /// Handles the marker of a task without a first segment: its creation or its removal was not completed.
    async fn scan_without_log<R: Replica>(&self, view: &mut View<R>, is_old: bool) -> Result<(), Halt> {
        let entry = match &view.entry {
            Some(entry) => self.get(entry).await?.0,
            None => None,
        };
        if entry.is_none() {
            return self.remove(view).await;
        }
        if is_old {
            self.close_abandoned(&view.task, &view.replica).await;
        }
        view.unload();
        Ok(())
    }

    /// Removes a deleted task after the grace period, unless another task continues it.
    async fn scan_deleted<R: Replica>(&self, view: &mut View<R>) -> Result<(), Halt> {
        if !self.has_entry(view).await? {
            return self.remove(view).await;
        }
        let log = self.list(&names::log(&view.task), None).await?;
        let mut is_over = log.entries.last().is_some_and(|last| log.age_ms(last) > self.times.removal_ms);
        let Some((folder, _)) = view.entry.as_deref().and_then(names::entry_parts) else {
            return Ok(());
        };
        for child in self.context(folder).await? {
            if child.parent.as_ref() != Some(&view.task) {
                continue;
            }
            is_over = false;
            let is_old = child.age_ms > self.times.grace_ms;
            if is_old && self.get(&names::segment(&child.task, Seq(1))).await?.0.is_none() {
                self.create_marker_at(&child.task, Seq(1), &names::entry(folder, &child.task)).await?;
                self.close_abandoned(&child.task, &view.replica).await;
            }
        }
        if is_over {
            self.remove(view).await?;
        }
        Ok(())
    }

    /// Handles the marker of a task that this process owns: it is obsolete if no work is under way. A marker above the tail is deleted only
    /// after the log has grown beyond it, because a delayed request may still create the segment with its number.
    async fn scan_own<R: Replica>(&self, view: &mut View<R>, seq: Seq, is_old: bool) -> Result<(), Halt> {
        if !view.replica.status().is_settled() {
            return Ok(());
        }
        if seq <= view.tail {
            return self.delete_object(&names::marker(&view.task, seq)).await;
        }
        if is_old && let Some(epoch) = view.epoch {
            let owned = StoreEvent::Owned { instance: self.id.clone(), epoch };
            let line = view.replica.line(view.tail.next(), &owned);
            self.append(view, line).await?;
        }
        Ok(())
    }

    /// Handles the marker of a task that this process does not own. Returns whether the process has claimed the task.
    async fn scan_foreign<R: Replica>(
        &self,
        view: &mut View<R>,
        seq: Seq,
        is_old: bool,
        silent_version: impl Fn(&InstanceId) -> Option<Version>,
    ) -> Result<bool, Halt> {
        let status = view.replica.status();
        if status.is_settled() {
            if seq <= view.tail {
                self.delete_object(&names::marker(&view.task, seq)).await?;
            } else if is_old {
                return self.claim(view).await;
            }
            return Ok(false);
        }
        if status.phase == Phase::Paused {
            return Ok(false);
        }
        let is_free = match &status.owner {
            Some(owner) if !status.released => self.is_dead(owner, silent_version(owner)).await?,
            _ => true,
        };
        Ok(is_free && self.claim(view).await?)
    }
}
