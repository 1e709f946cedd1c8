//! Ownership of a task: claiming it, handling the requests in its inbox, and releasing it.

use crate::base::id::Seq;
use crate::bucket::instance::Instance;
use crate::bucket::log::append::Append;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::{Phase, Replica, RequestHandler, StoreEvent};
use std::sync::Arc;

impl<P: Port> Instance<P> {
    /// Claims the task as of the view's tail. If this returns true, the caller restores the task: it marks running calls as interrupted
    /// and handles the inbox.
    ///
    /// The caller decides whether the task may be claimed: see
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

    /// Takes over a task whose log names this instance as the owner although the view has no epoch: an earlier claim succeeded, but its
    /// acknowledgement was lost. If this returns true, the caller restores the task as after [`Instance::claim`].
    pub fn adopt<R: Replica>(&self, view: &mut View<R>) -> bool {
        let status = view.replica.status();
        let is_ours = status.owner.as_ref() == Some(&self.id) && !status.released && status.phase != Phase::Deleted;
        let adopts = is_ours && view.epoch.is_none() && !view.is_unloaded && self.rules.own_claims_adopted;
        if adopts {
            view.epoch = Some(status.epoch);
        }
        adopts
    }

    /// Whether this process still owns the task in `epoch`, so that a tool may start whose `call_started` was sent at `sent_at`. Afterwards
    /// the caller also checks [`Liveness`](crate::bucket::ownership::heartbeat::Liveness).
    pub async fn confirm_start<R: Replica>(&self, view: &mut View<R>, epoch: u64, sent_at: u64) -> Result<bool, Halt> {
        if self.port.now_ms().saturating_sub(sent_at) > self.times.slow_ms {
            self.read_on(view).await?;
        }
        Ok(!view.is_unloaded && view.epoch == Some(epoch) && self.owns(view))
    }

    /// Handles the requests in the inbox in order. Each request and the events that result from it are one segment. Returns how many
    /// requests were handled.
    pub async fn handle_requests<R: RequestHandler>(&self, view: &mut View<R>) -> Result<u64, Halt> {
        let mut heard = 0;
        while let Some((n, request)) = self.next_request(view).await? {
            let lines = view.replica.handle_request(view.tail.next(), n, &request);
            if self.append(view, lines).await? != Append::Done {
                break;
            }
            heard += 1;
        }
        Ok(heard)
    }

    /// The next request in the inbox of a task that this process owns, with its number. Returns the same request until the log has its `heard`
    /// event.
    pub async fn next_request<R: Replica>(&self, view: &View<R>) -> Result<Option<(u64, Arc<[u8]>)>, Halt> {
        let status = view.replica.status();
        if !self.owns(view) || status.phase == Phase::Deleted {
            return Ok(None);
        }
        let n = status.heard + 1;
        let object = self.get(&names::inbox(&view.task, n)).await?.0;
        Ok(object.map(|object| (n, object.bytes)))
    }

    /// Releases the task: appends the lines `last`, which end the work under way, and then `released`. Any instance may claim the task at
    /// once.
    pub async fn release<R: Replica>(&self, view: &mut View<R>, mut last: Vec<u8>) -> Result<Append, Halt> {
        let lines = memchr::memchr_iter(b'\n', &last).count() as u64;
        let seq = Seq(view.tail.0 + lines + 1);
        last.extend(view.replica.line(seq, &StoreEvent::Released));
        let result = self.append(view, last).await;
        view.epoch = None;
        result
    }
}
