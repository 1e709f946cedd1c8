//! The history of prompts: stepping through it and searching it. The shell stores new entries in a file.

use crate::limits::ui::HISTORY_ENTRIES;
use crate::ui::input::edit::Direction;

#[derive(Clone, Debug, Default)]
pub struct History {
    /// Oldest first; no two equal ones in a row.
    entries: Vec<String>,
    /// The entry that is shown, and the draft that it replaced.
    shown: Option<(usize, String)>,
}

impl History {
    pub fn new(entries: Vec<String>) -> History {
        let mut history = History::default();
        entries.iter().for_each(|entry| _ = history.add(entry));
        history
    }

    /// Adds a prompt. Returns whether it is to be stored: blank prompts and repetitions are not.
    pub fn add(&mut self, text: &str) -> bool {
        self.shown = None;
        let is_new = !text.trim().is_empty() && self.entries.last().map(String::as_str) != Some(text);
        if is_new {
            self.entries.push(text.to_owned());
            let excess = self.entries.len().saturating_sub(HISTORY_ENTRIES);
            self.entries.drain(..excess);
        }
        is_new
    }

    /// The text that replaces the draft: an older or newer entry, or the draft itself after the newest entry.
    pub fn step(&mut self, direction: Direction, draft: &str) -> Option<String> {
        let at = self.shown.as_ref().map_or(self.entries.len(), |(at, _)| *at);
        let at = match direction {
            Direction::Up => at.checked_sub(1)?,
            Direction::Down => at + 1,
        };
        if at < self.entries.len() {
            let draft = self.shown.take().map_or_else(|| draft.to_owned(), |(_, draft)| draft);
            self.shown = Some((at, draft));
            return Some(self.entries[at].clone());
        }
        self.shown.take().map(|(_, draft)| draft)
    }

    /// The draft was changed: the next step back shows the newest entry.
    pub fn reset(&mut self) {
        self.shown = None;
    }

    /// The entries that contain the query, newest first, each once. Case matters only if the query has capitals.
    fn matches(&self, query: &str) -> Vec<&str> {
        let exact = query.chars().any(char::is_uppercase);
        let contains = |entry: &str| if exact { entry.contains(query) } else { entry.to_lowercase().contains(query) };
        let mut found: Vec<&str> = Vec::new();
        for entry in self.entries.iter().rev().filter(|entry| contains(entry)) {
            if !found.contains(&entry.as_str()) {
                found.push(entry);
            }
        }
        found
    }
}

/// A search in the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    pub query: String,
    /// The index of the shown match; 0 is the newest.
    at: usize,
}

/// What a search has found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub entry: &'a str,
    pub number: usize,
    pub total: usize,
}

impl Search {
    pub fn change(&mut self, query: String) {
        *self = Search { query, at: 0 };
    }

    /// Goes to the next older or newer match, if there is one.
    pub fn step(&mut self, direction: Direction, history: &History) {
        let last = history.matches(&self.query).len().saturating_sub(1);
        self.at = match direction {
            Direction::Up => (self.at + 1).min(last),
            Direction::Down => self.at.saturating_sub(1),
        };
    }

    pub fn found<'a>(&self, history: &'a History) -> Option<Found<'a>> {
        let matches = history.matches(&self.query);
        let entry = matches.get(self.at)?;
        Some(Found { entry, number: self.at + 1, total: matches.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(entries: &[&str]) -> History {
        History::new(entries.iter().map(|entry| (*entry).to_owned()).collect())
    }

    #[test]
    fn the_draft_comes_back_behind_the_newest_entry() {
        let mut history = history(&["one", "two"]);
        assert_eq!(history.step(Direction::Down, "draft"), None);
        assert_eq!(history.step(Direction::Up, "draft").as_deref(), Some("two"));
        assert_eq!(history.step(Direction::Up, "two").as_deref(), Some("one"));
        assert_eq!(history.step(Direction::Up, "one"), None);
        assert_eq!(history.step(Direction::Down, "one").as_deref(), Some("two"));
        assert_eq!(history.step(Direction::Down, "two").as_deref(), Some("draft"));
        assert_eq!(history.step(Direction::Down, "draft"), None);
    }

    #[test]
    fn repetitions_and_the_oldest_entries_are_not_kept() {
        let mut history = history(&["a", "a", "b", "a", " "]);
        assert_eq!(history.entries, ["a", "b", "a"]);
        assert!(!history.add("a") && history.add("c"));
        (0..HISTORY_ENTRIES).for_each(|n| _ = history.add(&format!("{n}")));
        assert_eq!((history.entries.len(), history.entries[0].as_str()), (HISTORY_ENTRIES, "0"));
    }

    #[test]
    fn a_search_goes_from_new_to_old() {
        let history = history(&["Coverage of a", "other", "raise coverage", "coverage?", "coverage?"]);
        let mut search = Search::default();
        search.change("coverage".into());
        let found =
            |search: &Search| search.found(&history).map(|found| (found.entry.to_owned(), found.number, found.total));
        assert_eq!(found(&search), Some(("coverage?".into(), 1, 3)));
        search.step(Direction::Up, &history);
        assert_eq!(found(&search), Some(("raise coverage".into(), 2, 3)));
        search.step(Direction::Up, &history);
        search.step(Direction::Up, &history);
        assert_eq!(found(&search), Some(("Coverage of a".into(), 3, 3)));
        search.step(Direction::Down, &history);
        assert_eq!(found(&search), Some(("raise coverage".into(), 2, 3)));
        search.change("Cov".into());
        assert_eq!(found(&search), Some(("Coverage of a".into(), 1, 1)));
        search.change("nothing".into());
        search.step(Direction::Up, &history);
        assert_eq!(found(&search), None);
    }
}
