//! Readers of tasks: subscriptions, each with a cursor into a log, and the journal pages that they read. This module knows connections
//! only by their keys.

pub(in crate::core) mod pages;
pub(in crate::core) mod pump;
pub(in crate::core) mod subscription;

use crate::base::id::TaskId;
use crate::base::slots::{Key, Slots};
use crate::core::readers::pages::Pages;
use crate::core::readers::subscription::Subscription;

/// All subscriptions.
#[derive(Default)]
pub(in crate::core) struct Readers {
    subs: Slots<Subscription>,
    pub pages: Pages,
    /// Sockets that follow every task.
    pub followers: Vec<Key>,
    /// Subscriptions that may be able to send more: their connection accepted output, or their page was read.
    pub to_pump: Vec<Key>,
    /// Turns to abort, because their client has disconnected.
    pub to_abort: Vec<(TaskId, u32)>,
}

impl Readers {
    pub fn insert(&mut self, sub: Subscription) -> Key {
        let key = self.subs.insert(sub);
        self.to_pump.push(key);
        key
    }

    pub fn remove(&mut self, key: Key) -> Option<Subscription> {
        let sub = self.subs.remove(key)?;
        if sub.cold.is_some() {
            self.pages.release(key);
        }
        Some(sub)
    }

    pub fn get(&self, key: Key) -> Option<&Subscription> {
        self.subs.get(key)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut Subscription> {
        self.subs.get_mut(key)
    }

    /// Those of the given subscriptions that exist.
    pub fn among<'a>(&'a self, keys: &'a [Key]) -> impl Iterator<Item = &'a Subscription> {
        keys.iter().filter_map(|key| self.subs.get(*key))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Subscription)> {
        self.subs.iter()
    }

    pub fn keys(&self) -> Vec<Key> {
        self.subs.keys()
    }

    pub fn len(&self) -> usize {
        self.subs.len()
    }

    pub fn pump_later(&mut self, keys: &[Key]) {
        self.to_pump.extend_from_slice(keys);
    }

    /// Whether the next turn of the loop has something to do for readers.
    pub fn has_more(&self) -> bool {
        !self.to_pump.is_empty() || !self.to_abort.is_empty()
    }

    /// The client of these subscriptions has disconnected: aborts the turns that only it waits for.
    pub fn abort_turns_of(&mut self, subs: &[Key]) {
        for key in subs {
            if let Some(sub) = self.subs.get_mut(*key)
                && let Some(turn) = sub.aborts_turn.take()
            {
                self.to_abort.push((sub.task.clone(), turn));
            }
        }
    }
}
