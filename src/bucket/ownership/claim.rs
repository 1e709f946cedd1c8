//! Who owns a task: claims, the requests that wait for an owner, and the release.

use crate::base::id::Seq;
use crate::bucket::instance::Instance;
use crate::bucket::log::append::Append;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{Decides, Phase, Replica, StoreEvent};
use std::sync::Arc;

impl<P: Port> Instance<P> {
    /// Claims the task at the tail that the view knows. If this returns true the caller restores the task: what was running is
    /// interrupted, and the inbox is heard.
    ///
    /// Whether it may be claimed is for the caller to decide: see
    /// [`Status::is_claimable`](crate::bucket::replica::Status::is_claimable) and [`Instance::is_dead`].
    pub async fn claim<R: Replica>(&self, view: &mut View<R>) -> Result<bool, Halt> {
        let status = view.replica.status();
        if status.phase == Phase::Deleted {
            return Ok(false);
        }
        let epoch = status.epoch + 1;
        let owned = StoreEvent::Owned { instance: self.id.clone(), epoch };
        let line = view.replica.line(view.tail.next(), &owned);
        if self.append(view, line).await? != Append::Done || !view.replica.status().is_owned_by(&self.id, epoch) {
            return Ok(false);
        }
        view.epoch = Some(epoch);
        Ok(true)
    }

    /// Takes a task that the log says is ours but that this view does not hold: a claim was won whose answer did not arrive. If this
    /// returns true the caller restores the task as after [`Instance::claim`].
    pub fn adopt<R: Replica>(&self, view: &mut View<R>) -> bool {
        let status = view.replica.status();
        let is_ours = status.owner.as_ref() == Some(&self.id) && !status.released && status.phase != Phase::Deleted;
        let adopts = is_ours && view.epoch.is_none() && !view.is_unloaded && self.rules.own_claims_adopted;
        if adopts {
            view.epoch = Some(status.epoch);
        }
        adopts
    }

    /// Whether a tool may start whose `call_started` was sent at `sent_at` in epoch `epoch`, as far as the log is concerned. The caller checks
    /// [`Liveness`](crate::bucket::ownership::heartbeat::Liveness) after it.
    pub async fn confirm_start<R: Replica>(&self, view: &mut View<R>, epoch: u64, sent_at: u64) -> Result<bool, Halt> {
        if self.port.now_ms().saturating_sub(sent_at) > self.times.slow_ms {
            self.read_on(view).await?;
        }
        Ok(!view.is_unloaded && view.epoch == Some(epoch) && self.owns(view))
    }

    /// Decides the requests in the inbox, in order, each in one segment with what came of it. Returns how many.
    pub async fn hear<R: Decides>(&self, view: &mut View<R>) -> Result<u64, Halt> {
        let mut heard = 0;
        while let Some((n, request)) = self.next_request(view).await? {
            let lines = view.replica.hear(view.tail.next(), n, &request);
            if self.append(view, lines).await? != Append::Done {
                break;
            }
            heard += 1;
        }
        Ok(heard)
    }

    /// The next request in the inbox of a task that this process owns, with its number. The same one until the log says `heard`.
    pub async fn next_request<R: Replica>(&self, view: &View<R>) -> Result<Option<(u64, Arc<[u8]>)>, Halt> {
        let status = view.replica.status();
        if !self.owns(view) || status.phase == Phase::Deleted {
            return Ok(None);
        }
        let n = status.heard + 1;
        let object = self.get(&names::inbox(&view.task, n)).await?.0;
        Ok(object.map(|object| (n, object.bytes)))
    }

    /// Gives the task up, after the lines `last`, which end what is under way. Any instance may claim it at once.
    pub async fn release<R: Replica>(&self, view: &mut View<R>, mut last: Vec<u8>) -> Result<Append, Halt> {
        let lines = memchr::memchr_iter(b'\n', &last).count() as u64;
        let seq = Seq(view.tail.0 + lines + 1);
        last.extend(view.replica.line(seq, &StoreEvent::Released));
        let result = self.append(view, last).await;
        view.epoch = None;
        result
    }
}
