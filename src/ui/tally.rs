//! Counts what happened in a session: requests, tokens, tool calls, time, and what each client did.

use crate::limits::ui::{CLIENTS_COUNTED, MODELS_COUNTED};
use crate::task::log::answer::Usage;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::message::Source;
use crate::task::spec::{Choice, Display, Ending};
use crate::ui::format::columns::broken_columns;
use crate::ui::format::style::Role;
use crate::ui::format::wrap::Line;
use crate::ui::output::block::{duration_text, plural};
use crate::ui::scene::{Call, Scene};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: usize,
    /// For each model, in the order of their first requests.
    models: Vec<(String, ModelTally)>,
    succeeded: usize,
    failed: usize,
    refused: usize,
    added: usize,
    removed: usize,
    began_at: u64,
    working_ms: u64,
    clients: BTreeMap<String, ClientTally>,
}

/// The requests to one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ModelTally {
    requests: usize,
    errors: usize,
    usage: Usage,
}

/// What one client did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTally {
    pub answered: usize,
    /// When it sent its last prompt, in Unix milliseconds.
    pub said_at: Option<u64>,
}

impl Tally {
    /// Counts a record that the scene has folded.
    pub fn count(&mut self, record: &Record, scene: &Scene) {
        match &record.event {
            Event::Created(_) => self.began_at = record.at,
            Event::Answered { answer } => {
                self.requests += 1;
                self.change_model(&scene.model, |asked| {
                    asked.requests += 1;
                    answer.usage.iter().for_each(|usage| asked.usage.add(usage));
                });
            }
            Event::BackedOff { .. } => self.change_model(&scene.model, |asked| asked.errors += 1),
            Event::TurnEnded { .. } => self.working_ms += record.at.saturating_sub(scene.turn_at),
            Event::Prompted { by, .. } => self.change_client(by, |client| client.said_at = Some(record.at)),
            Event::CallAnswered { by, .. } => self.change_client(by, |client| client.answered += 1),
            Event::CallEnded { call, .. } => scene.calls.get(call).into_iter().for_each(|call| self.end_call(call)),
            _ => {}
        }
    }

    fn change_client(&mut self, by: &Source, change: impl FnOnce(&mut ClientTally)) {
        if self.clients.len() < CLIENTS_COUNTED || self.clients.contains_key(&by.client) {
            change(self.clients.entry(by.client.clone()).or_default());
        }
    }

    /// Changes the counts of a model. Models beyond the limit have none; their requests count only in the sum.
    fn change_model(&mut self, model: &str, change: impl Fn(&mut ModelTally)) {
        let known = self.models.iter().any(|(name, _)| name == model);
        if !known && self.models.len() < MODELS_COUNTED {
            self.models.push((model.to_owned(), ModelTally::default()));
        }
        self.models.iter_mut().filter(|(name, _)| name == model).take(1).for_each(|(_, asked)| change(asked));
    }

    pub fn client(&self, name: &str) -> Option<&ClientTally> {
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

    /// A line for each model and one for the tools; more lines if the terminal is narrow.
    pub fn lines(&self, scene: &Scene, max_width: usize) -> Vec<Line> {
        let none = [(scene.model.clone(), ModelTally::default())];
        let models = if self.models.is_empty() { &none[..] } else { &self.models };
        let mut rows: Vec<Vec<String>> = models.iter().map(|(name, asked)| row(name, asked.words())).collect();
        let mut tools = format!("{} ok, {} failed, {} refused", self.succeeded, self.failed, self.refused);
        tools += &format!(" · files +{} −{}", self.added, self.removed);
        let lasted = scene.at.saturating_sub(self.began_at);
        let times = [duration_text(lasted), duration_text(self.working_ms).map(|time| format!("{time} working"))];
        let times: Vec<String> = times.into_iter().flatten().collect();
        if !times.is_empty() {
            tools += &format!(" · {}", times.join(", "));
        }
        rows.push(row("tools", tools));
        broken_columns(&rows, &[Role::Strong, Role::Text], max_width)
    }
}

fn row(name: &str, text: String) -> Vec<String> {
    vec![format!("{name:<12}"), text]
}

impl ModelTally {
    fn words(&self) -> String {
        let usage = &self.usage;
        let cached = usage.cached.unwrap_or(0).saturating_mul(100) / usage.prompt.max(1);
        let mut words = format!("{}, {}", plural(self.requests, "request"), plural(self.errors, "error"));
        words += &format!(" · {} in ({cached}% cached) · {} out", thousands(usage.prompt), thousands(usage.output));
        if let Some(thoughts) = usage.thoughts {
            words += &format!(" · {} thought", thousands(thoughts));
        }
        words
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
    fn the_number_of_counted_clients_is_limited() {
        let mut tally = Tally::default();
        for number in 0..CLIENTS_COUNTED + 5 {
            let by = Source::new(format!("c{number}"), "v");
            tally.change_client(&by, |client| client.answered += 1);
        }
        assert_eq!(tally.clients.len(), CLIENTS_COUNTED);
    }
}
