//! What the log of a task in a shared store says about the instances that use the store. No dialect shows any of it.

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
    /// One more than that of the owner before it.
    pub epoch: u64,
    /// Where clients reach the instance, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The owner has decided a request that came through another instance. What came of it follows in the same segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The number of the request in the task's inbox.
    pub n: u64,
    /// The id that the sender gave the request.
    pub request: Arc<str>,
    /// Nothing came of it: the call or the turn that it names was not open any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
}

/// A request to the owner of a task that came through another instance, as it is in the task's inbox. That instance has checked the rights
/// of its client, and the owner checks them again: the credential may have been revoked meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxRequest {
    /// No two requests have the same.
    pub request: Arc<str>,
    /// Unix milliseconds.
    pub at: u64,
    pub by: Source,
    pub call: InboxCall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxCall {
    /// Cancel the task, whatever it does by then. Earlier versions leave this.
    Cancel,
    /// Cancel the task while this turn is under way.
    CancelTurn {
        turn: u32,
    },
    /// Stop this turn.
    Abort {
        turn: u32,
    },
    /// Take the prompt of this turn back.
    Drop {
        turn: u32,
    },
    Answer {
        said: Said,
    },
}

/// The fold of these events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ownership {
    /// The last owner.
    pub owner: Option<Arc<Owned>>,
    /// The owner has given the task up since.
    pub is_released: bool,
    /// Commands of the task run in the background of the owner.
    pub has_background: bool,
    /// The task was deleted. Nothing follows.
    pub is_deleted: bool,
    /// The last requests that were heard; older ones have been reported.
    heard: VecDeque<Arc<Heard>>,
}

impl Ownership {
    /// Folds one of these events.
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::Owned(owned) => {
                (self.owner, self.is_released, self.has_background) = (Some(owned.clone()), false, false);
            }
            Event::Released => self.is_released = true,
            Event::Background { runs } => self.has_background = *runs,
            Event::Heard(heard) => self.hear(heard),
            Event::Deleted => self.is_deleted = true,
            // The others say nothing about instances.
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

    /// The number of the last request that was heard.
    pub fn last_heard(&self) -> u64 {
        self.heard.back().map_or(0, |heard| heard.n)
    }

    /// What the log says about a request.
    pub fn outcome(&self, request: &str) -> Option<&Heard> {
        self.heard.iter().find(|heard| *heard.request == *request).map(Arc::as_ref)
    }
}
