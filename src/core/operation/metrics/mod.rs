//! Metrics: counters and histograms in memory. Their text is made when a client requests it.

pub mod histogram;
pub mod labels;
mod scrape;
pub mod text;

use crate::a2a::Route;
use crate::base::http::Method;
use crate::core::operation::exchange::{CloseReason, Exchange};
use crate::core::operation::metrics::histogram::{Bounds, Histogram};
use crate::core::operation::metrics::labels::{DIED, Group, OTHER, Refused};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::answer::Usage;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::machine::job::{Job, JobId, Note, NoteBody, RunEnd, Think, Work};
use crate::task::machine::state::State;
use crate::task::spec::{Choice, ToolSpec};
use std::collections::{BTreeMap, HashMap};

/// All counters and histograms.
pub(in crate::core) struct Metrics {
    /// By method, route and status: as many as the route table and the statuses allow.
    pub requests: BTreeMap<(&'static str, Route, u16), Histogram>,
    /// By model and error.
    pub model: BTreeMap<(&'static str, &'static str), Histogram>,
    pub first_chunk: BTreeMap<&'static str, Histogram>,
    pub tokens_in: Histogram,
    pub tokens_out: Histogram,
    /// By tool and error.
    pub tools: BTreeMap<(ToolLabel, &'static str), Histogram>,
    pub question_wait: [Histogram; Choice::ALL.len()],
    pub events: [u64; Group::ALL.len()],
    pub closed: [u64; CloseReason::ALL.len()],
    pub refused: [u64; Refused::ALL.len()],
    /// Deliveries to webhooks that succeeded, and those that did not.
    pub deliveries: [u64; 2],
    /// Tasks that another instance has taken over.
    pub fenced: u64,
    /// Jobs that were started and have not ended.
    running: HashMap<JobId, RunningJob>,
}

/// The name of a tool of this server: an index into the names that it started with, or one of two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum ToolLabel {
    Own(usize),
    /// A tool of an MCP server, which chose its name.
    Mcp,
    Other,
}

struct RunningJob {
    began_ms: u64,
    kind: RunningKind,
}

enum RunningKind {
    Model { model: &'static str, has_begun: bool },
    Tool(ToolLabel),
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            requests: BTreeMap::new(),
            model: BTreeMap::new(),
            first_chunk: BTreeMap::new(),
            tokens_in: Histogram::new(&Bounds::TOKENS),
            tokens_out: Histogram::new(&Bounds::TOKENS),
            tools: BTreeMap::new(),
            question_wait: Choice::ALL.map(|_| Histogram::new(&Bounds::PEOPLE)),
            events: [0; Group::ALL.len()],
            closed: [0; CloseReason::ALL.len()],
            refused: [0; Refused::ALL.len()],
            deliveries: [0; 2],
            fenced: 0,
            running: HashMap::new(),
        }
    }
}

impl Metrics {
    /// A request has ended. One without an answer has no status and is not counted.
    pub fn request(&mut self, exchange: &Exchange, ms: u64) {
        let Some(status) = exchange.status else {
            return;
        };
        let key = (method(exchange.method), exchange.route, status);
        self.requests.entry(key).or_insert_with(|| Histogram::new(&Bounds::REQUEST)).observe_ms(ms);
    }

    pub fn refuse(&mut self, reason: Refused) {
        self.refused[reason as usize] += 1;
    }

    /// A request was answered with an error.
    pub fn fault(&mut self, fault: &Fault) {
        match fault.kind {
            FaultKind::Unauthenticated { .. } => self.refuse(Refused::Credential),
            FaultKind::Forbidden | FaultKind::RightMissing(_) => self.refuse(Refused::Right),
            FaultKind::RateLimited { .. } => self.refuse(Refused::Rate),
            _ => {}
        }
    }

    pub fn close(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }

    /// An event was decided; `state` is the one right after it.
    pub fn event(&mut self, state: &State, record: &Record) {
        self.events[Group::of(&record.event) as usize] += 1;
        if let Event::CallAnswered { call, choice, .. } = &record.event
            && let Some(asked_at) = state.call(call).map(|call| call.asked_at).filter(|at| *at > 0)
        {
            self.question_wait[*choice as usize].observe_ms(record.at.saturating_sub(asked_at));
        }
    }

    /// A job is started; `tools` are the names of this server's own.
    pub fn start(&mut self, job: &Job, tools: &[String], now_ms: u64) {
        let kind = match &job.work {
            Work::Think(Think { model, .. }) | Work::Compact(Think { model, .. }) => {
                RunningKind::Model { model: labels::model(model), has_begun: false }
            }
            Work::Run(run) => RunningKind::Tool(tool_label(tools, &run.name)),
            Work::Attach { .. } | Work::Command(_) | Work::Prepare { .. } => return,
        };
        self.running.insert(job.id.clone(), RunningJob { began_ms: now_ms, kind });
    }

    /// A worker reports.
    pub fn note(&mut self, note: &Note, now_ms: u64) {
        let Some(job) = self.running.get_mut(&note.job) else {
            return;
        };
        let ms = now_ms.saturating_sub(job.began_ms);
        match (&mut job.kind, &note.body) {
            (RunningKind::Model { model, has_begun }, body) => {
                if !*has_begun && begins(body) {
                    *has_begun = true;
                    let histogram = self.first_chunk.entry(model);
                    histogram.or_insert_with(|| Histogram::new(&Bounds::OPERATION)).observe_ms(ms);
                }
                if let Some((error, usage)) = model_end(body) {
                    let histogram = self.model.entry((model, error));
                    histogram.or_insert_with(|| Histogram::new(&Bounds::OPERATION)).observe_ms(ms);
                    self.add_usage(usage);
                }
            }
            (RunningKind::Tool(tool), body) => {
                if let Some(error) = tool_end(body) {
                    let histogram = self.tools.entry((*tool, error));
                    histogram.or_insert_with(|| Histogram::new(&Bounds::OPERATION)).observe_ms(ms);
                }
            }
        }
        if note.body.is_last() {
            self.running.remove(&note.job);
        }
    }

    fn add_usage(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.tokens_in.observe(usage.prompt);
            self.tokens_out.observe(usage.output);
        }
    }

    pub fn deliver(&mut self, is_ok: bool) {
        self.deliveries[usize::from(!is_ok)] += 1;
    }
}

/// The names of the tools that the server starts with, in order.
pub(in crate::core) fn tool_names(specs: &[ToolSpec]) -> Vec<String> {
    let mut names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    names.sort_unstable();
    names
}

fn tool_label(tools: &[String], name: &str) -> ToolLabel {
    match tools.binary_search_by(|known| known.as_str().cmp(name)) {
        Ok(at) => ToolLabel::Own(at),
        Err(_) if name.starts_with("mcp_") => ToolLabel::Mcp,
        Err(_) => ToolLabel::Other,
    }
}

/// As OpenTelemetry names methods that it does not know.
fn method(method: Method) -> &'static str {
    match method {
        Method::Other => "_OTHER",
        known => known.word(),
    }
}

/// Whether the model has begun to answer with this note.
fn begins(body: &NoteBody) -> bool {
    matches!(
        body,
        NoteBody::Traced(_)
            | NoteBody::Thought { .. }
            | NoteBody::Text(_)
            | NoteBody::Answered(Ok(_))
            | NoteBody::Compacted(Ok(_))
    )
}

/// The error, empty if there is none, and the tokens of a model request that ends with this note.
fn model_end(body: &NoteBody) -> Option<(&'static str, Option<Usage>)> {
    match body {
        NoteBody::Answered(Ok(answer)) => Some(("", answer.usage)),
        NoteBody::Compacted(Ok(_)) => Some(("", None)),
        NoteBody::Answered(Err(error)) | NoteBody::Compacted(Err(error)) => {
            Some((labels::model_error(error.kind), None))
        }
        NoteBody::Died(_) => Some((DIED, None)),
        _ => None,
    }
}

/// The error, empty if there is none, of a tool call that ends with this note.
fn tool_end(body: &NoteBody) -> Option<&'static str> {
    match body {
        NoteBody::Ended(RunEnd::Ended(ending)) | NoteBody::Edited { ending, .. } => Some(labels::tool_error(ending)),
        NoteBody::Ended(RunEnd::Stale) => Some("stale"),
        NoteBody::Died(_) => Some(DIED),
        _ => None,
    }
}

impl ToolLabel {
    pub fn name(self, tools: &[String]) -> &str {
        match self {
            ToolLabel::Own(at) => tools.get(at).map_or(OTHER, String::as_str),
            ToolLabel::Mcp => "mcp",
            ToolLabel::Other => OTHER,
        }
    }
}
