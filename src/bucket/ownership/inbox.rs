//! Requests to the owner of a task that is at work elsewhere: objects with numbers, which the owner reads in order. A number is never
//! reused, so a request that is carried out late by the store is heard once or not at all.

use crate::base::id::TaskId;
use crate::bucket::instance::Instance;
use crate::bucket::log::view::View;
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::bucket::{Expect, Meta, Put};
use crate::limits::store::INBOX_WAITING;
use std::sync::Arc;

/// Where a request goes: what the view of its task said when it was decided to send it.
#[derive(Clone, Debug)]
pub struct Address {
    task: TaskId,
    entry: Option<String>,
    known_at: Option<u64>,
    heard: u64,
}

/// What became of a request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has this number. The owner, or the next one, will say `heard`.
    As(u64),
    /// The task does not exist any more.
    Gone,
    /// Too many requests wait: the owner does not hear.
    Full,
}

impl Address {
    pub fn of<R: Replica>(view: &View<R>) -> Address {
        Address {
            task: view.task.clone(),
            entry: view.entry.clone(),
            known_at: view.known_at,
            heard: view.replica.status().heard,
        }
    }
}

impl<P: Port> Instance<P> {
    /// Puts a request into the inbox of a task. No two requests may have the same bytes. After an error it may still be heard.
    pub async fn send(&self, address: &Address, request: &Arc<[u8]>) -> Result<Sent, Halt> {
        let mut tries = 0;
        let mut n = address.heard + 1;
        while n <= address.heard + INBOX_WAITING {
            let name = names::inbox(&address.task, n);
            let answer = self.port.put(&name, request, &Meta::new(), &Expect::Absent).await.map(|answer| answer.value);
            if let Ok(Put::Made(_)) = answer {
                return Ok(Sent::As(n));
            }
            if !self.rules.inbox_compared {
                n += u64::from(answer.is_ok());
                continue;
            }
            match self.get(&name).await?.0 {
                Some(object) if object.bytes == *request => return Ok(Sent::As(n)),
                Some(_) => n += 1,
                None => {
                    if !self.is_fresh(address.known_at) && !self.exists(address.entry.as_deref()).await? {
                        return Ok(Sent::Gone);
                    }
                    tries += 1;
                    self.wait(answer.err().as_ref(), tries).await?;
                }
            }
        }
        Ok(Sent::Full)
    }
}
