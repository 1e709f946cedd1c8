//! The lines of the operator's log: connections, requests, model calls, tool calls, failures and refusals. The shell writes them. No line
//! contains a prompt, an answer of a model, or the arguments or the result of a tool call.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::level::Level;
use crate::base::slots::Key;
use crate::core::connections::connection::{Client, Conn};
use crate::core::requests::needs::Needs;
use crate::core::{Core, Out};
use crate::task::call::Call;
use crate::task::log::event::{End, Event, Final, calls, detours, errands, hooks};
use crate::task::log::record::Record;
use crate::task::machine::job::{Job, Think, Work};
use crate::task::machine::state::{Item, State};
use crate::task::message::Source;
use crate::task::spec::{Ending, ErrorKind};

impl Out {
    pub(super) fn warning(text: String) -> Out {
        Out::Log { level: Level::Warn, text }
    }

    pub(super) fn info(text: String) -> Out {
        Out::Log { level: Level::Info, text }
    }
}

impl Core {
    fn log_debug(&mut self, text: impl FnOnce() -> String) {
        if self.settings.log_level >= Level::Debug {
            self.out.push(Out::Log { level: Level::Debug, text: text() });
        }
    }

    /// Logs a request. With the first request of a connection, and whenever a request shows another credential than the one before it,
    /// notes the client of the connection and logs that too.
    pub(super) fn log_request(&mut self, conn: Key, call: &Call, by: &Source, now: Now) {
        let Source { client, via, .. } = by;
        let is_other = |conn: &Conn| {
            conn.client.as_ref().is_none_or(|Client { by: known, .. }| {
                (&known.credential, &known.subject) != (&by.credential, &by.subject)
            })
        };
        if let Some(conn) = self.connections.get_mut(conn).filter(|conn| is_other(conn)) {
            conn.client = Some(Client { by: by.clone(), since: now.unix_ms });
            self.connections.clients_changed = true;
            self.log_debug(|| format!("A2A client connected: {client} ({via})"));
        }
        let id = self.connections.get(conn).and_then(|conn| conn.exchange()).map(|exchange| exchange.id.text.clone());
        self.log_debug(|| {
            let id = id.map(|id| format!(", request id {id}")).unwrap_or_default();
            let task = Needs::of(call).task.map(|task| format!(" {task}"));
            format!("request {}{} from {client} ({via}){id}", call.name(), task.unwrap_or_default())
        });
    }

    pub(super) fn log_refusal(&mut self, why: &str) {
        self.log_debug(|| format!("refused a request: {why}"));
    }
}

/// The line about an event of a task; `state` is the one right after it.
pub(super) fn event(state: &State, record: &Record, most: Level) -> Option<Out> {
    let (level, text) = line(state, record)?;
    let task = &state.created.task;
    (level <= most).then(|| Out::Log { level, text: format!("task {task}: {text}") })
}

fn line(state: &State, record: &Record) -> Option<(Level, String)> {
    let text = match &record.event {
        Event::Prompted { by, turn, .. } => format!("prompt {turn} from {} ({})", by.client, by.via),
        Event::Answered { answer } => {
            let usage = answer.usage.unwrap_or_default();
            let (model, calls) = (&state.model, answer.calls().count());
            format!("{model} answered: {} tokens in, {} out, {calls} tool calls", usage.prompt, usage.output)
        }
        Event::TurnEnded { turn, end: End::Failed(why), .. } => {
            return Some((failure(state), format!("turn {turn} failed: {why}")));
        }
        Event::TurnEnded { turn, by: Some(by), .. } => format!("turn {turn} was stopped by {} ({})", by.client, by.via),
        Event::TurnEnded { turn, .. } => format!("turn {turn} is over"),
        Event::Steered { turn } => format!("prompt {turn} goes to the model with the results"),
        Event::Dropped { turn, by } => format!("prompt {turn} was taken back by {} ({})", by.client, by.via),
        Event::ShellBegan { by, .. } => format!("a command of {} ({}) starts", by.client, by.via),
        Event::Closed { state: Final::Failed, text } => {
            return Some((failure(state), format!("failed: {}", text.as_deref().unwrap_or_default())));
        }
        Event::Closed { state, .. } => format!("{state:?}").to_lowercase(),
        // The request that follows has a line of its own.
        detours!() if record.event == Event::Retried => return None,
        Event::ShellOutput { .. } | Event::ShellEnded { .. } => return None,
        calls!() => match call_line(&record.event) {
            Some(line) => line,
            None => return detour(state, record),
        },
        Event::Created(_)
        | Event::Tuned { .. }
        | Event::TurnBegan { .. }
        | Event::Paused
        | Event::ResultsSent
        | Event::Produced { .. }
        | Event::Interrupted { .. }
        | Event::Resumed
        | Event::Thought { .. }
        | Event::Text { .. }
        | Event::Cited { .. }
        | Event::Retracted { .. }
        | detours!()
        | errands!()
        | hooks!() => return detour(state, record),
    };
    Some((Level::Debug, text))
}

/// The level of a failure. The failure of a slash command concerns only the user who typed it, unless it has sent a model request.
fn failure(state: &State) -> Level {
    let prompts = state.history.iter().any(|item| matches!(**item, Item::Nudge(_)));
    match state.created.command.is_some() && state.turn.number <= 1 && !prompts {
        true => Level::Info,
        false => Level::Warn,
    }
}

fn call_line(event: &Event) -> Option<String> {
    Some(match event {
        Event::CallAsked { call, .. } => format!("tool call {call} needs approval"),
        Event::CallInquired { call, inquired } => {
            format!("tool call {call}: MCP server {} asks people", inquired.server)
        }
        Event::CallReplied { call, action, by, .. } => {
            format!("tool call {call}: the question was answered by {} with {}", by.client, action.word())
        }
        Event::CallAnswered { call, choice, by, .. } => {
            format!("tool call {call} was answered {} by {} ({})", choice.word(), by.client, by.via)
        }
        Event::CallStarted { call } => format!("tool call {call} starts"),
        Event::CallEnded { call, ending } => {
            let end = match ending.as_ref() {
                Ending::Success { .. } => "succeeded",
                Ending::Error { error } if error.kind == ErrorKind::PolicyViolation => &error.message,
                Ending::Error { error } => error.kind.word(),
                Ending::Cancelled { .. } => "cancelled",
            };
            format!("tool call {call}: {end}")
        }
        _ => return None,
    })
}

fn detour(state: &State, record: &Record) -> Option<(Level, String)> {
    a2a::turn_notice(state, record).map(|(level, text)| (level, text.into_owned()))
}

/// The line about a model request.
pub(super) fn job(job: &Job, most: Level) -> Option<Out> {
    let (Think { model, turn, attempt, .. }, what) = match &job.work {
        Work::Think(think) => (think, "model call"),
        Work::Compact(think) => (think, "model call for a summary"),
        Work::Attach { .. } | Work::Command(_) | Work::Prepare { .. } | Work::Run(_) => return None,
    };
    (most >= Level::Debug).then(|| Out::Log {
        level: Level::Debug,
        text: format!("task {}: {what}: {model}, turn {turn}, attempt {attempt}", job.id.task),
    })
}
