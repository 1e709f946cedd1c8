//! Whose turn it is to have a page of a journal in memory. Readers that are far behind read the journal in pages, and there may
//! be thousands of them; so a few have one, and the others stand in line. Whoever is through with its page and wants the next
//! one goes to the end of the line, and a page whose reader cannot go on, because its peer takes nothing, is taken from it as
//! soon as somebody else could use it. So nobody waits for a slow one, and nothing is read that nobody takes.

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
    /// The reader wants a page, and has none any more.
    pub fn wait(&mut self, reader: Key) {
        self.held.retain(|holder| *holder != reader);
        self.line.push_back(reader);
    }

    /// The reader needs none any more.
    pub fn let_go(&mut self, reader: Key) {
        match self.held.iter().position(|holder| *holder == reader) {
            Some(at) => drop(self.held.swap_remove(at)),
            // Who has none may stand in line, and that may be long.
            None => self.line.retain(|waiting| *waiting != reader),
        }
    }

    /// The next one in line, which has a page from now on; if there are fewer than `most`.
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
