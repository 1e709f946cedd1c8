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
    line: VecDeque<Key>,
}

impl Pages {
    /// The reader needs a page; the one it had is used up.
    pub fn wait(&mut self, reader: Key) {
        self.held.retain(|holder| *holder != reader);
        self.line.push_back(reader);
    }

    /// The reader needs no page any more.
    pub fn let_go(&mut self, reader: Key) {
        match self.held.iter().position(|holder| *holder == reader) {
            Some(at) => drop(self.held.swap_remove(at)),
            // A reader without a page may be in the queue, which may be long.
            None => self.line.retain(|waiting| *waiting != reader),
        }
    }

    /// The next reader in the queue, which has a page from now on, if fewer than `most` have one.
    pub fn call(&mut self, most: usize) -> Option<Key> {
        if self.held.len() >= most {
            return None;
        }
        let reader = self.line.pop_front()?;
        self.held.push(reader);
        Some(reader)
    }

    pub fn is_waited_for(&self) -> bool {
        !self.line.is_empty()
    }

    pub fn held(&self) -> &[Key] {
        &self.held
    }

    #[cfg(debug_assertions)]
    pub fn line(&self) -> impl Iterator<Item = Key> {
        self.line.iter().copied()
    }
}
