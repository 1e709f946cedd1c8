//! What a session has come to: requests, tokens, tools, time, and what each client did.

use crate::limits::ui::CLIENTS_COUNTED;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::message::Source;
use crate::task::spec::{Choice, Display, Ending};
use crate::ui::format::columns::broken_columns;
use crate::ui::format::style::Role;
use crate::ui::format::wrap::Line;
use crate::ui::output::block::{count, spell};
use crate::ui::scene::{Call, Scene};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: usize,
    errors: usize,
    succeeded: usize,
    failed: usize,
    refused: usize,
    added: usize,
    removed: usize,
    began_at: u64,
    working_ms: u64,
    clients: BTreeMap<String, Doings>,
}

/// What a client did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doings {
    pub answered: usize,
    /// When it sent its last prompt, in Unix milliseconds.
    pub said_at: Option<u64>,
}

impl Tally {
    /// Counts a record that the scene has folded.
    pub fn count(&mut self, record: &Record, scene: &Scene) {
        match &record.event {
            Event::Created(_) => self.began_at = record.at,
            Event::Answered { .. } => self.requests += 1,
            Event::BackedOff { .. } => self.errors += 1,
            Event::TurnEnded { .. } => self.working_ms += record.at.saturating_sub(scene.turn_at),
            Event::Prompted { by, .. } => self.of(by, |client| client.said_at = Some(record.at)),
            Event::CallAnswered { by, .. } => self.of(by, |client| client.answered += 1),
            Event::CallEnded { call, .. } => scene.calls.get(call).into_iter().for_each(|call| self.end_call(call)),
            _ => {}
        }
    }

    fn of(&mut self, by: &Source, change: impl FnOnce(&mut Doings)) {
        if self.clients.len() < CLIENTS_COUNTED || self.clients.contains_key(&by.client) {
            change(self.clients.entry(by.client.clone()).or_default());
        }
    }

    pub fn client(&self, name: &str) -> Option<&Doings> {
        self.clients.get(name)
    }

    fn end_call(&mut self, call: &Call) {
        match call.ending.as_deref() {
            Some(Ending::Success { display, .. }) => {
                self.succeeded += 1;
                if let Display::Diff { added, removed, .. } = display {
                    self.added += added;
                    self.removed += removed;
                }
            }
            Some(Ending::Cancelled { .. }) if call.choice == Some(Choice::Cancel) => self.refused += 1,
            Some(Ending::Error { .. } | Ending::Cancelled { .. }) => self.failed += 1,
            None => {}
        }
    }

    /// In two lines, or more where the terminal is narrow.
    pub fn lines(&self, scene: &Scene, most: usize) -> Vec<Line> {
        let total = &scene.usage.total;
        let cached = total.cached.unwrap_or(0) * 100 / total.prompt.max(1);
        let mut model = format!("{}, {}", count(self.requests, "request"), count(self.errors, "error"));
        model += &format!(" · {} in ({cached}% cached) · {} out", thousands(total.prompt), thousands(total.output));
        if let Some(thoughts) = total.thoughts {
            model += &format!(" · {} thought", thousands(thoughts));
        }
        let mut tools = format!("{} ok, {} failed, {} refused", self.succeeded, self.failed, self.refused);
        tools += &format!(" · files +{} −{}", self.added, self.removed);
        let lasted = scene.at.saturating_sub(self.began_at);
        let times = [spell(lasted), spell(self.working_ms).map(|time| format!("{time} working"))];
        let times: Vec<String> = times.into_iter().flatten().collect();
        if !times.is_empty() {
            tools += &format!(" · {}", times.join(", "));
        }
        let row = |name: &str, text: String| vec![format!("{name:<12}"), text];
        broken_columns(&[row(&scene.model, model), row("tools", tools)], &[Role::Strong, Role::Text], most)
    }
}

/// `212k`, `1.3M`.
fn thousands(number: u64) -> String {
    match number {
        ..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all = [999, 1_000, 212_999, 1_300_000].map(thousands);
        assert_eq!(all, ["999", "1k", "212k", "1.3M"]);
    }

    #[test]
    fn clients_are_counted_up_to_a_number() {
        let mut tally = Tally::default();
        for number in 0..CLIENTS_COUNTED + 5 {
            let by = Source::new(format!("c{number}"), "v");
            tally.of(&by, |client| client.answered += 1);
        }
        assert_eq!(tally.clients.len(), CLIENTS_COUNTED);
    }
}
