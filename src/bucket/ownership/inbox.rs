//! Requests to the instance that owns a task: numbered objects, which the owner reads in order. A number is never reused, so a request
//! that the store executes late is handled once or not at all.

use crate::base::id::TaskId;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::bucket::{Expect, Meta, Put};
use crate::limits::store::INBOX_WAITING;
use std::sync::Arc;

/// The destination of a request: what the view of its task contained when the request was to be sent.
#[derive(Clone, Debug)]
pub struct Address {
    task: TaskId,
    entry: Option<String>,
    tail_checked_at: Option<u64>,
    heard: u64,
}

/// The result of sending a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The request has this number. The present or the next owner will log `heard` for it.
    Accepted(u64),
    /// The task does not exist any more.
    Gone,
    /// Too many requests wait, because the owner does not read its inbox.
    Full,
}

impl Address {
    pub fn of<R: Replica>(view: &View<R>) -> Address {
        Address {
            task: view.task.clone(),
            entry: view.entry.clone(),
            tail_checked_at: view.tail_checked_at,
            heard: view.replica.status().heard,
        }
    }
}

impl<P: Port> Instance<P> {
    /// Puts a request into the inbox of a task. No two requests may have the same bytes. After an error the request may still be handled.
    pub async fn send(&self, address: &Address, request: &Arc<[u8]>) -> Result<Sent, Halt> {
        let mut tries = 0;
        let mut n = address.heard + 1;
        while n <= address.heard + INBOX_WAITING {
            let name = names::inbox(&address.task, n);
            let answer = self.port.put(&name, request, &Meta::new(), &Expect::Absent).await.map(|answer| answer.value);
            if let Ok(Put::Written(_)) = answer {
                return Ok(Sent::Accepted(n));
            }
            if !self.rules.inbox_compared {
                n += u64::from(answer.is_ok());
                continue;
            }
            match self.get(&name).await?.0 {
                Some(object) if object.bytes == *request => return Ok(Sent::Accepted(n)),
                Some(_) => n += 1,
                None => {
                    if !self.is_fresh(address.tail_checked_at) && !self.exists(address.entry.as_deref()).await? {
                        return Ok(Sent::Gone);
                    }
                    tries += 1;
                    self.back_off(answer.err().as_ref(), tries).await?;
                }
            }
        }
        Ok(Sent::Full)
    }
}
