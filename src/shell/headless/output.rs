//! The output of a run in each format. As text, the model's answer is written to standard output while it streams in, and notices to
//! standard error; in the two JSON formats both are in the objects.

use super::escape_filter::EscapeFilter;
use super::failure::Failure;
use super::stats::{Stats, Summary};
use crate::base::clock::rfc3339;
use crate::base::id::{CallId, TaskId};
use crate::base::json;
use crate::config::session::{OutputFormat, SessionOptions};
use crate::shell::event_loop::sys;
use crate::task::log::answer::Answer;
use crate::task::log::event::{Event, delayed, errands, hooks, shells};
use crate::task::log::record::Record;
use crate::task::spec::{Display, Ending};
use crate::ui::scene::{Phase, Scene};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

pub struct Output {
    format: OutputFormat,
    /// None prints control characters unchanged.
    plain: Option<EscapeFilter>,
    began_at: u64,
    session: Option<TaskId>,
    warnings: Vec<String>,
    stats: Stats,
    /// The text of the last answer.
    response: String,
    /// Whether a piece of the present answer was printed.
    has_printed_piece: bool,
    /// As text: the number of line breaks that are held back after the printed text; None if nothing was printed.
    printed: Option<usize>,
    /// The error of standard output, after which nothing more is printed.
    closed: Option<io::Error>,
}

#[derive(Serialize)]
struct Line<'a, T> {
    r#type: &'a str,
    timestamp: String,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct Init<'a> {
    session_id: &'a TaskId,
    model: &'a str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delta: bool,
}

#[derive(Serialize)]
struct ToolUse<'a> {
    tool_name: &'a str,
    tool_id: &'a CallId,
    parameters: &'a Value,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    tool_id: &'a CallId,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
}

#[derive(Serialize)]
struct Notice<'a> {
    severity: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    r#type: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
}

#[derive(Serialize)]
struct RunResult<'a> {
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
    stats: Summary,
}

/// The one object of `json`.
#[derive(Serialize)]
struct JsonResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a TaskId>,
    #[serde(skip_serializing_if = "str::is_empty")]
    response: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<&'a Stats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl Output {
    pub fn new(session: &SessionOptions) -> Output {
        Output {
            format: session.output,
            plain: (!session.raw_output).then(EscapeFilter::default),
            began_at: sys::unix_ms(),
            session: None,
            warnings: Vec::new(),
            stats: Stats::default(),
            response: String::new(),
            has_printed_piece: false,
            printed: None,
            closed: None,
        }
    }

    /// Whether standard output was closed or cannot be written.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// The number of broken response streams of the last request.
    pub fn broken_streams(&self) -> u32 {
        self.stats.broken
    }

    pub fn begin(&mut self, session: &TaskId, model: &str, prompt: &str, at: u64) {
        self.session = Some(session.clone());
        self.line("init", at, Init { session_id: session, model });
        self.warn_late(at);
        self.line("message", at, Message { role: "user", content: prompt, delta: false });
    }

    pub fn warn(&mut self, message: &str) {
        match self.format {
            OutputFormat::Text => print_error(&format!("[WARNING] {message}")),
            // The first line of a stream must be `init`.
            OutputFormat::StreamJson if self.session.is_some() => {
                self.line("error", sys::unix_ms(), Notice { severity: "warning", message });
            }
            OutputFormat::Json | OutputFormat::StreamJson => self.warnings.push(message.to_owned()),
        }
    }

    /// Prints the notices that came before `init`.
    fn warn_late(&mut self, at: u64) {
        if self.format == OutputFormat::StreamJson {
            for message in std::mem::take(&mut self.warnings) {
                self.line("error", at, Notice { severity: "warning", message: &message });
            }
        }
    }

    /// Prints text that is not part of an answer.
    pub fn print(&mut self, text: &str) {
        self.put(text);
    }

    /// Prints what follows from a record, which the scene has folded already.
    pub fn record(&mut self, record: &Record, scene: &Scene) {
        let at = record.at;
        match &record.event {
            Event::Text { text } => self.print_piece(text, at),
            Event::Answered { answer } => self.answered(answer, &scene.model, at),
            Event::Retracted { .. } => {
                self.end_answer();
                self.warn("The answer so far is void; it begins anew.");
            }
            Event::BackedOff { tries, delay_ms, reason } => {
                self.stats.failed(&scene.model, at);
                self.stats.broken = tries.broken;
                self.warn(&format!("{reason} It is tried again in {} s.", delay_ms.div_ceil(1000)));
            }
            Event::FellBack { model, reason } => {
                self.stats.failed(model, at);
                self.warn(&format!("{reason} From now on {model} is asked."));
            }
            Event::CompactionFailed { reason } => {
                self.warn(&format!("The conversation could not be summarised: {reason}"));
            }
            Event::Looped => self.warn("The model repeats its calls; they are not run, and it is told so."),
            Event::Nudged { .. } => self.warn("The model repeats itself; it is told so."),
            Event::HookRan(report) if !report.text.is_empty() => self.warn(&report.text),
            Event::HookRan(_) | Event::Reprompted { .. } => {}
            Event::Declined { text } => self.warn(text),
            Event::Delayed { place } => self.warn(&delayed(*place)),
            Event::CallEnded { call, ending } => self.call_ended(call, ending, scene, at),
            Event::TurnEnded { .. } | Event::Closed { .. } => self.stats.failed(&scene.model, at),
            Event::Created(_) | Event::Prompted { .. } | Event::Steered { .. } | Event::Dropped { .. } => {}
            Event::Tuned { .. } | Event::TurnBegan { .. } | Event::Thought { .. } | Event::Cited { .. } => {}
            Event::Retried | Event::CompactionBegan | Event::Compacted { .. } | Event::Revoked { .. } => {}
            Event::CallPlanned { .. } | Event::CallAsked { .. } | Event::CallAnswered { .. } => {}
            Event::CallReady { .. } | Event::CallStarted { .. } | Event::CallOutput { .. } => {}
            Event::CallInquired { .. } | Event::CallReplied { .. } => {}
            Event::CallStale { .. } | Event::Paused | Event::ResultsSent | Event::Produced { .. } => {}
            Event::Interrupted { .. } | Event::Resumed | Event::Restored(_) => {}
            errands!() | shells!() | hooks!() => {}
        }
        if scene.phase == Phase::Thinking {
            self.stats.asks(at);
        }
    }

    /// Prints a piece of the answer.
    pub fn print_piece(&mut self, piece: &str, at: u64) {
        self.has_printed_piece = true;
        let piece = self.plain.as_mut().map_or_else(|| piece.to_owned(), |plain| plain.take(piece));
        match self.format {
            OutputFormat::Text => self.put_text(&piece),
            OutputFormat::Json => {}
            OutputFormat::StreamJson => {
                self.line("message", at, Message { role: "assistant", content: &piece, delta: true });
            }
        }
    }

    fn answered(&mut self, answer: &Answer, model: &str, at: u64) {
        self.stats.answered(answer.model.as_deref().unwrap_or(model), &answer.usage.unwrap_or_default(), at);
        let text = answer.text();
        if !self.has_printed_piece && !text.is_empty() {
            self.print_piece(&text, at);
        }
        self.end_answer();
        self.set_response(&text);
        for request in answer.calls() {
            let parameters = &request.args;
            self.line("tool_use", at, ToolUse { tool_name: &request.name, tool_id: &request.call, parameters });
        }
    }

    /// The next answer begins on a line of its own.
    fn end_answer(&mut self) {
        self.has_printed_piece = false;
        self.plain = self.plain.take().map(|_| EscapeFilter::default());
        self.printed = self.printed.map(|breaks| breaks.max(1));
    }

    /// Sets what `json` prints as the response.
    pub fn set_response(&mut self, text: &str) {
        self.response = if self.plain.is_some() { EscapeFilter::default().take(text) } else { text.to_owned() };
    }

    fn call_ended(&mut self, id: &CallId, ending: &Ending, scene: &Scene, at: u64) {
        let Some(call) = scene.calls.get(id) else {
            return;
        };
        self.stats.call(call);
        let (output, error) = match ending {
            Ending::Success { display: Display::Text { text } | Display::Summary { text }, .. } => {
                (Some(text.as_str()).filter(|text| !text.is_empty()), None)
            }
            Ending::Success { .. } => (None, None),
            Ending::Error { error } => (None, Some((error.kind.word(), error.message.as_str()))),
            Ending::Cancelled { reason, .. } => (None, Some(("cancelled", reason.as_str()))),
        };
        if let (OutputFormat::Text, Some((_, message))) = (self.format, error) {
            print_error(&format!("Error executing tool {}: {message}", call.request.name));
        }
        let status = if error.is_some() { "error" } else { "success" };
        let error = error.map(|(word, message)| ErrorObject { r#type: word, message, code: None });
        self.line("tool_result", at, ToolResult { tool_id: id, status, output, error });
    }

    /// Prints the end of the output and returns the exit status. It is not an error if the reader has closed standard output.
    pub fn finish(mut self, outcome: Result<(), Failure>) -> ExitCode {
        let failure = outcome.as_ref().err();
        let error = failure.map(|Failure { kind, message }| ErrorObject { r#type: kind.word(), message, code: None });
        match self.format {
            OutputFormat::Text => {
                if self.printed.is_some() {
                    self.put("\n");
                }
                if let Some(failure) = failure.filter(|_| self.closed.is_none()) {
                    print_error(&format!("gemini-a2a: {}", failure.message));
                }
            }
            OutputFormat::Json => self.put_whole(failure),
            OutputFormat::StreamJson => {
                let now = sys::unix_ms();
                self.warn_late(now);
                let status = if error.is_some() { "error" } else { "success" };
                let stats = self.stats.summary(now.saturating_sub(self.began_at));
                self.line("result", now, RunResult { status, error, stats });
            }
        }
        match &self.closed {
            None => ExitCode::from(failure.map_or(0, |failure| failure.kind.exit_status())),
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Some(error) => {
                print_error(&format!("gemini-a2a: standard output cannot be written: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    /// Prints the object of `json`: on success to standard output, on a failure to standard error, as the Gemini CLI does.
    fn put_whole(&mut self, failure: Option<&Failure>) {
        let session_id = self.session.as_ref();
        let whole = match failure {
            None => {
                let (response, stats, warnings) = (self.response.as_str(), Some(&self.stats), &self.warnings[..]);
                JsonResult { session_id, response, stats, error: None, warnings }
            }
            Some(Failure { kind, message }) => {
                let error = ErrorObject { r#type: kind.word(), message, code: Some(kind.exit_status()) };
                JsonResult { session_id, response: "", stats: None, error: Some(error), warnings: &[] }
            }
        };
        let text = serde_json::to_string_pretty(&whole).expect("plain values are JSON");
        match failure {
            None => self.put(&format!("{text}\n")),
            Some(_) => print_error(&text),
        }
    }

    /// A line of `stream-json`; the other formats have none.
    fn line(&mut self, r#type: &str, at: u64, body: impl Serialize) {
        if self.format == OutputFormat::StreamJson {
            let mut line = json::bytes(&Line { r#type, timestamp: rfc3339(at), body });
            line.push(b'\n');
            self.put_bytes(&line);
        }
    }

    /// Line breaks are held back until more text comes, so that there is one at the end.
    fn put_text(&mut self, piece: &str) {
        let text = piece.trim_end_matches('\n');
        let breaks = piece.len() - text.len();
        match (self.printed, text) {
            (None, "") => {}
            (Some(held), "") => self.printed = Some(held + breaks),
            (held, text) => {
                self.put(&format!("{}{text}", "\n".repeat(held.unwrap_or(0))));
                self.printed = Some(breaks);
            }
        }
    }

    fn put(&mut self, text: &str) {
        self.put_bytes(text.as_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        if self.closed.is_none() {
            let mut out = io::stdout().lock();
            self.closed = out.write_all(bytes).and_then(|()| out.flush()).err();
        }
    }
}

/// Prints a line on standard error; errors are ignored.
fn print_error(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
