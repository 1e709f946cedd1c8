//! The statistics of a run: requests, tokens, calls and changed lines, in the form of the Gemini CLI.

use crate::task::log::answer::Usage;
use crate::task::spec::{Choice, Display, Ending, ErrorKind};
use crate::ui::scene::Call;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, Serialize)]
pub struct Stats {
    models: BTreeMap<String, ModelStats>,
    tools: ToolStats,
    files: FileStats,
    /// When the present request was made.
    #[serde(skip)]
    asked_at: Option<u64>,
    /// The number of broken response streams of this request.
    #[serde(skip)]
    pub broken: u32,
}

#[derive(Debug, Default, Serialize)]
struct ModelStats {
    api: Requests,
    tokens: Tokens,
    /// The requests by purpose, of which there is only one.
    roles: BTreeMap<String, Requests>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Requests {
    total_requests: u64,
    total_errors: u64,
    total_latency_ms: u64,
}

#[derive(Debug, Default, Serialize)]
struct Tokens {
    input: u64,
    prompt: u64,
    candidates: u64,
    total: u64,
    cached: u64,
    thoughts: u64,
    tool: u64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolStats {
    total_calls: u64,
    total_success: u64,
    total_fail: u64,
    total_duration_ms: u64,
    total_decisions: Decisions,
    by_name: BTreeMap<String, NamedTool>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NamedTool {
    count: u64,
    success: u64,
    fail: u64,
    duration_ms: u64,
    decisions: Decisions,
}

#[derive(Debug, Default, Serialize)]
struct Decisions {
    accept: u64,
    reject: u64,
    modify: u64,
    auto_accept: u64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileStats {
    total_lines_added: usize,
    total_lines_removed: usize,
}

/// The statistics in the last line of `stream-json`.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    #[serde(flatten)]
    all: TokenSummary,
    duration_ms: u64,
    tool_calls: u64,
    models: BTreeMap<String, TokenSummary>,
}

#[derive(Debug, Default, Serialize)]
struct TokenSummary {
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached: u64,
    input: u64,
}

impl Stats {
    /// A request to the model begins, unless one is under way.
    pub fn asks(&mut self, at: u64) {
        self.asked_at.get_or_insert(at);
    }

    pub fn answered(&mut self, model: &str, usage: &Usage, at: u64) {
        self.request(model, at).tokens.add(usage);
        self.broken = 0;
    }

    /// The present request has failed, if there is one.
    pub fn failed(&mut self, model: &str, at: u64) {
        if self.asked_at.is_some() {
            self.request(model, at).api.total_errors += 1;
        }
    }

    /// Counts a request that has ended, and returns the counts of its model.
    fn request(&mut self, model: &str, at: u64) -> &mut ModelStats {
        let stats = self.models.entry(model.to_owned()).or_default();
        stats.api.total_requests += 1;
        stats.api.total_latency_ms += at.saturating_sub(self.asked_at.take().unwrap_or(at));
        stats
    }

    /// A call has ended.
    pub fn call(&mut self, call: &Call) {
        let tools = &mut self.tools;
        let named = tools.by_name.entry(call.request.name.clone()).or_default();
        let duration = if call.started_at > 0 { call.ended_at.saturating_sub(call.started_at) } else { 0 };
        tools.total_calls += 1;
        named.count += 1;
        tools.total_duration_ms += duration;
        named.duration_ms += duration;
        match call.ending.as_deref() {
            Some(Ending::Success { display, .. }) => {
                tools.total_success += 1;
                named.success += 1;
                if let Display::Diff { added, removed, .. } = display {
                    self.files.total_lines_added += added;
                    self.files.total_lines_removed += removed;
                }
            }
            Some(Ending::Error { .. } | Ending::Cancelled { .. }) | None => {
                tools.total_fail += 1;
                named.fail += 1;
            }
        }
        for decisions in [&mut tools.total_decisions, &mut named.decisions] {
            decisions.count(call);
        }
    }

    pub fn summary(&self, duration_ms: u64) -> Summary {
        let mut summary = Summary { duration_ms, tool_calls: self.tools.total_calls, ..Summary::default() };
        for (name, model) in &self.models {
            let tokens = &model.tokens;
            let of_model = summary.models.entry(name.clone()).or_default();
            for sum in [of_model, &mut summary.all] {
                sum.total_tokens = sum.total_tokens.saturating_add(tokens.total);
                sum.input_tokens = sum.input_tokens.saturating_add(tokens.prompt);
                sum.output_tokens = sum.output_tokens.saturating_add(tokens.candidates);
                sum.cached = sum.cached.saturating_add(tokens.cached);
                sum.input = sum.input.saturating_add(tokens.input);
            }
        }
        summary
    }
}

impl Tokens {
    fn add(&mut self, usage: &Usage) {
        let cached = usage.cached.unwrap_or(0);
        // The counts come from the network, so their sum is limited instead of overflowing.
        for (sum, count) in [
            (&mut self.input, usage.prompt.saturating_sub(cached)),
            (&mut self.prompt, usage.prompt),
            (&mut self.candidates, usage.output),
            (&mut self.total, usage.total),
            (&mut self.cached, cached),
            (&mut self.thoughts, usage.thoughts.unwrap_or(0)),
            (&mut self.tool, usage.tools.unwrap_or(0)),
        ] {
            *sum = sum.saturating_add(count);
        }
    }
}

impl Decisions {
    /// Counts the decision about a call. A call that failed before a user or a rule decided has none.
    fn count(&mut self, call: &Call) {
        let denied =
            matches!(call.ending.as_deref(), Some(Ending::Error { error }) if error.kind == ErrorKind::PolicyViolation);
        match call.choice {
            Some(Choice::Cancel) => self.reject += 1,
            None if denied => self.reject += 1,
            Some(_) if call.edited.is_some() => self.modify += 1,
            Some(
                Choice::ProceedOnce
                | Choice::ProceedAlways
                | Choice::ProceedAlwaysTool
                | Choice::ProceedAlwaysServer
                | Choice::ProceedAlwaysAndSave,
            ) => self.accept += 1,
            None if call.started_at > 0 => self.auto_accept += 1,
            None => {}
        }
    }
}
