//! Which readers have a page of a journal in memory. Readers that are far behind read the journal in pages, and there may be
//! thousands of them, so a few have a page and the others wait in a queue. A reader that needs its next page goes to the end of the
//! queue. A reader whose client accepts nothing loses its page when another one waits, so no reader waits for a slow client.

use crate::base::slots::Key;
use std::collections::VecDeque;

#[derive(Default)]
pub struct Pages {
    /// Readers that have a page, or for which one is being read.
    held: Vec<Key>,
    /// Readers that wait for one.
    queue: VecDeque<Key>,
}

impl Pages {
    /// Puts a reader that needs a page at the end of the queue. A page that it had is used up.
    pub fn wait(&mut self, reader: Key) {
        self.held.retain(|holder| *holder != reader);
        self.queue.push_back(reader);
    }

    /// The reader needs no page any more: frees its page, or its place in the queue.
    pub fn release(&mut self, reader: Key) {
        match self.held.iter().position(|holder| *holder == reader) {
            Some(at) => drop(self.held.swap_remove(at)),
            // A reader without a page may be in the queue, which may be long.
            None => self.queue.retain(|waiting| *waiting != reader),
        }
    }

    /// Takes the next reader from the queue, if fewer than `most` have a page. It has one from now on.
    pub fn grant_next(&mut self, most: usize) -> Option<Key> {
        if self.held.len() >= most {
            return None;
        }
        let reader = self.queue.pop_front()?;
        self.held.push(reader);
        Some(reader)
    }

    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    pub fn held(&self) -> &[Key] {
        &self.held
    }

    #[cfg(debug_assertions)]
    pub fn queue(&self) -> impl Iterator<Item = Key> {
        self.queue.iter().copied()
    }
}
