//! Events about the instances that share a store, and requests that one instance sends to another. No dialect shows them.

use crate::limits::store::INBOX_WAITING;
use crate::task::log::event::Event;
use crate::task::machine::job::Said;
use crate::task::message::Source;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// An instance owns the task from here on: it alone runs turns and appends events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    pub instance: Arc<str>,
    /// One more than the epoch of the owner before it.
    pub epoch: u64,
    /// The URL at which clients reach the instance, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The owner has decided a request that came through another instance. The resulting events follow in the same segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The number of the request in the task's inbox.
    pub n: u64,
    /// The id that the sender gave the request.
    pub request: Arc<str>,
    /// The request had no effect, because the call or the turn that it names was not open any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
}

/// A request to the owner of a task in the task's inbox, where another instance has put it. That instance has checked the rights of its
/// client, and the owner checks them again, because the credential may have been revoked meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxRequest {
    /// A unique id.
    pub request: Arc<str>,
    /// Unix milliseconds.
    pub at: u64,
    pub by: Source,
    pub call: InboxCall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxCall {
    /// Cancel the task, whatever it does then. Only earlier versions write this.
    Cancel,
    /// Cancel the task if this turn is still the current one.
    CancelTurn {
        turn: u32,
    },
    /// Stop this turn.
    Abort {
        turn: u32,
    },
    /// Withdraw the queued prompt of this turn.
    Drop {
        turn: u32,
    },
    Answer {
        said: Said,
    },
}

/// The state that these events fold to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ownership {
    /// The last owner.
    pub owner: Option<Arc<Owned>>,
    /// The owner has released the task since.
    pub is_released: bool,
    /// Commands of the task run in the background of the owner.
    pub has_background: bool,
    /// The task was deleted. Nothing follows.
    pub is_deleted: bool,
    /// The last requests that were decided; the results of older ones have been reported.
    heard: VecDeque<Arc<Heard>>,
}

impl Ownership {
    /// Applies an event.
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::Owned(owned) => {
                (self.owner, self.is_released, self.has_background) = (Some(owned.clone()), false, false);
            }
            Event::Released => self.is_released = true,
            Event::Background { runs } => self.has_background = *runs,
            Event::Heard(heard) => self.hear(heard),
            Event::Deleted => self.is_deleted = true,
            // The other events are not about instances.
            _ => {}
        }
    }

    fn hear(&mut self, heard: &Arc<Heard>) {
        if self.heard.len() as u64 >= INBOX_WAITING {
            self.heard.pop_front();
        }
        self.heard.push_back(heard.clone());
    }

    /// The epoch of the last owner; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.owner.as_ref().map_or(0, |owned| owned.epoch)
    }

    /// The number of the last request that was decided.
    pub fn last_heard(&self) -> u64 {
        self.heard.back().map_or(0, |heard| heard.n)
    }

    /// The decision about a request, if it is one of the last ones.
    pub fn outcome(&self, request: &str) -> Option<&Heard> {
        self.heard.iter().find(|heard| *heard.request == *request).map(Arc::as_ref)
    }
}
