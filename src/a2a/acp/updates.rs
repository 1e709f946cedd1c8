//! Events as `session/update` notifications. The body of this view has only the `update` objects, one per line; the rest of the
//! notification, with the session's id, is put around each of them when they are sent.
//!
//! That a call waits for an answer is not shown here: each client gets a request about it instead (`questions`).

use crate::a2a::Body;
use crate::a2a::acp::{mode_id, options};
use crate::a2a::dialect::Standalone;
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::views::call::{Call, FileChange};
use crate::a2a::views::tools::Tools;
use crate::a2a::views::update::{Change, Compaction, Step, Topic, Update, failure};
use crate::a2a::words::Idle;
use crate::base::id::MessageId;
use crate::base::level::Level;
use crate::task::log::answer::{Answer, Request};
use crate::task::log::record::Record;
use crate::task::machine::state::State;
use crate::task::message::{Message, Source};
use crate::task::origin::Origin;
use crate::task::policy::Mode;
use crate::task::spec::{Display, Ending, Kind, Question, Todo, TodoStatus};
use serde_json::{Value, json};
use std::borrow::Cow;

pub const VIEW: &Standalone =
    &Standalone { name: "acp", event: body, current_status: |_| None, snapshot: None, idle: Idle::InputRequired };

/// The names of the bodies that are sent only to clients with the capability to show them.
pub const NOTICE: &str = "notice";
pub const COMPACTION: &str = "compaction";

fn body(state: &State, record: &Record, tools: &Tools) -> Option<Body> {
    let only = |name, line| Some(Body { event: Some(name), ..Body::bare(line) });
    let Update { change, seq, .. } = Update::of(state, record)?;
    let id = |seq| Some(state.message_id(seq));
    match change {
        Change::Prompted { message, by } => joined([prompt(message, by)]),
        Change::Text { text, since } => joined([chunk("agent_message_chunk", text, id(since))]),
        Change::Citation(text) => joined([chunk("agent_message_chunk", text, id(seq))]),
        Change::Retracted(text) => joined([chunk("agent_message_chunk", &format!("\n\n[{text}]\n\n"), id(seq))]),
        Change::Thought { subject, description } => {
            let both: Vec<String> = [(subject, format!("**{subject}**")), (description, description.to_owned())]
                .into_iter()
                .filter_map(|(given, shown)| (!given.is_empty()).then_some(shown))
                .collect();
            joined([chunk("agent_thought_chunk", &both.join(" "), id(seq))])
        }
        Change::Answered(answer) => joined(answered(state, answer, tools)),
        Change::Call { call, step } => called(state, call, step, tools),
        Change::Notice { level, text, topic } => match topic {
            Topic::Settings { mode: None, model: None } => None,
            Topic::Settings { mode, model: _ } => joined(settings(state, mode, tools)),
            Topic::Compaction(step) => only(COMPACTION, compaction(state, step)),
            Topic::Trouble | Topic::Other => only(NOTICE, notice(severity(level), &text)),
        },
        // The client that sent the prompt gets the failure as the answer to it.
        Change::Stopped => only(NOTICE, notice("error", failure(state)?)),
        Change::Created | Change::Working | Change::ResultsSent | Change::Paused | Change::Artifact(_) => None,
    }
}

/// Several updates, which are sent as a message each.
fn joined(lines: impl IntoIterator<Item = Vec<u8>>) -> Option<Body> {
    let lines: Vec<Vec<u8>> = lines.into_iter().collect();
    (!lines.is_empty()).then(|| Body::bare(lines.join(&b'\n')))
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warning",
        Level::Info | Level::Debug => "info",
    }
}

pub fn notice(severity: &str, text: &str) -> Vec<u8> {
    object(|o| _ = o.member("sessionUpdate", "notice").member("severity", severity).member("title", text))
}

/// The changed mode, and all configuration options.
fn settings(state: &State, mode: Option<Mode>, tools: &Tools) -> impl Iterator<Item = Vec<u8>> {
    let mode = mode.map(|mode| json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode_id(mode) }));
    let all = json!({ "sessionUpdate": "config_option_update", "configOptions": options(state, tools) });
    mode.into_iter().chain([all]).map(|update| crate::base::json::bytes(&update))
}

fn compaction(state: &State, step: Compaction) -> Vec<u8> {
    let status = match step {
        Compaction::Began => "in_progress",
        Compaction::Completed => "completed",
        Compaction::Failed => "failed",
    };
    // The conversation may be summarised before each request of a turn.
    let id = format!("{}-{}-{}", state.created.task, state.turn.number, state.turn.round);
    object(|o| _ = o.member("sessionUpdate", "compaction_update").member("compactionId", &id).member("status", status))
}

/// A piece of a message. Pieces with the same id are one message.
pub fn chunk(kind: &str, text: &str, id: Option<MessageId>) -> Vec<u8> {
    object(|o| {
        o.member("sessionUpdate", kind).object("content", |o| block(o, text)).optional("messageId", id);
    })
}

fn block(o: &mut Object<'_>, text: &str) {
    o.member("type", "text").member("text", text);
}

/// A prompt. One that was not sent by an editor begins with its source.
fn prompt(message: &Message, by: &Source) -> Vec<u8> {
    let text = match by.via.as_str() {
        VIA => message.text().into_owned(),
        "terminal" => format!("[terminal] {}", message.text()),
        _ => format!("[A2A] {}: {}", by.client, message.text()),
    };
    object(|o| {
        o.member("sessionUpdate", "user_message_chunk").object("content", |o| block(o, &text));
        o.member("messageId", &message.id).object("_meta", |o| _ = o.member("source", by));
    })
}

/// The source of prompts that editors send.
pub const VIA: &str = "acp";

/// The calls of an answer of the model, and the length of the conversation in tokens.
fn answered(state: &State, answer: &Answer, tools: &Tools) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = answer.calls().map(|request| announced(state, request, tools)).collect();
    let size = (tools.offers.window)(&state.requested_model);
    if answer.usage.is_some() && size > 0 {
        let used = state.context_tokens;
        lines.push(object(|o| {
            _ = o.member("sessionUpdate", "usage_update").member("used", &used).member("size", &size)
        }));
    }
    lines
}

fn announced(state: &State, request: &Request, tools: &Tools) -> Vec<u8> {
    let built_in = tools.get(&request.name).map(|tool| &tool.spec);
    let others = state.tools.iter().flat_map(|set| &set.others);
    let other = others.into_iter().find(|entry| entry.name == request.name);
    let (title, kind) = match (built_in, other) {
        (Some(spec), _) => (spec.display_name.as_str(), kind(spec.kind, &spec.origin)),
        (None, Some(entry)) => (entry.display_name.as_str(), kind(entry.kind, &entry.origin)),
        (None, None) => (request.name.as_str(), "other"),
    };
    object(|o| {
        o.member("sessionUpdate", "tool_call").member("toolCallId", &request.call).member("title", title);
        o.member("kind", kind).member("status", "pending").member("rawInput", &request.args);
        o.filled("locations", &named_paths(state, &request.args));
    })
}

fn kind(kind: Kind, origin: &Origin) -> &'static str {
    match (kind, origin) {
        (_, Origin::Agents) => "think",
        (Kind::Communicate | Kind::Other, _) => "other",
        (kind, _) => kind.word(),
    }
}

/// The path among the arguments of a call, looked up by the names that tools give to such arguments.
fn named_paths(state: &State, args: &Value) -> Vec<Value> {
    let path = ["file_path", "absolute_path", "dir_path", "path"].into_iter().find_map(|name| args.get(name)?.as_str());
    let absolute = |path: &str| match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{}/{path}", state.workspace.trim_end_matches('/')),
    };
    path.map(|path| json!({ "path": absolute(path) })).into_iter().collect()
}

/// The updates for a step of a call. None: the step is not shown.
fn called(state: &State, call: Call<'_>, step: Step<'_>, tools: &Tools) -> Option<Body> {
    let line = |members: &dyn Fn(&mut Object<'_>)| {
        object(|o| {
            o.member("sessionUpdate", "tool_call_update").member("toolCallId", call.call.id());
            members(o);
        })
    };
    let status = |word: &str| line(&|o| _ = o.member("status", word));
    // Calls of a slash command's prompt are in no answer of the model.
    let is_new = state.turn.expansion.is_some() && matches!(step, Step::Planned);
    let new = is_new.then(|| announced(state, &call.call.request, tools));
    match step {
        Step::Planned => joined(new.into_iter().chain([line(&|o| planned(o, call))])),
        Step::Started => joined([status("in_progress")]),
        Step::Printed { due: true, .. } => {
            let text = call.live()?;
            joined([line(&|o| contents(o, None, Some(text)))])
        }
        Step::Ended => {
            let mut lines = vec![line(&|o| ended(o, call))];
            if let Some(Ending::Success { display: Display::Todos { todos }, .. }) = call.ending() {
                lines.push(plan(todos));
            }
            joined(lines)
        }
        Step::Asked | Step::Answered | Step::AllowedByRule | Step::AllowedByAnswer | Step::Printed { .. } => None,
    }
}

/// What a call would do.
pub fn planned(o: &mut Object<'_>, call: Call<'_>) {
    o.member("title", call.label());
    let change = call.call.question().and_then(FileChange::asked);
    if let Some(change) = change {
        o.list("locations", [change], |o, change| _ = o.member("path", change.path));
    }
    let text = call.call.question().and_then(|question| explained(call, question));
    if change.is_some() || text.is_some() {
        contents(o, change, text.as_deref());
    }
}

/// What a question shows beside its title.
fn explained(call: Call<'_>, question: &Question) -> Option<String> {
    match question {
        Question::Exec { command, warnings, .. } => Some(
            std::iter::once(format!("```\n{command}\n```"))
                .chain(warnings.iter().cloned())
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        Question::Mcp { .. } => crate::a2a::views::call::mcp_call(question),
        Question::Info { prompt, urls, .. } => Some(crate::a2a::views::call::prompt_and_urls(prompt, urls)),
        Question::AskUser { title, questions } => Some(call.listed(title, questions)),
        Question::Edit { .. } => None,
    }
}

fn ended(o: &mut Object<'_>, call: Call<'_>) {
    let (word, change) = match call.ending() {
        Some(Ending::Success { display, .. }) => ("completed", FileChange::made(display)),
        Some(Ending::Error { .. } | Ending::Cancelled { .. }) | None => ("failed", None),
    };
    o.member("status", word);
    let texts = [call.failure().map(Into::into), call.result().filter(|_| change.is_none())];
    let texts: Vec<_> = texts.into_iter().flatten().filter(|text: &Cow<'_, str>| !text.is_empty()).collect();
    let text = (!texts.is_empty()).then(|| texts.join("\n"));
    contents(o, change, text.as_deref());
}

/// The content of a call: a changed file, text, or nothing.
fn contents(o: &mut Object<'_>, change: Option<FileChange<'_>>, text: Option<&str>) {
    let blocks = change.map(Block::Change).into_iter().chain(text.map(Block::Text));
    o.list("content", blocks, |o, content| match content {
        Block::Change(change) => {
            o.member("type", "diff").member("path", change.path);
            o.member("oldText", &change.old).member("newText", change.new);
        }
        Block::Text(text) => _ = o.member("type", "content").object("content", |o| block(o, text)),
    });
}

enum Block<'a> {
    Change(FileChange<'a>),
    Text(&'a str),
}

/// The agent's list of steps. Cancelled steps are left out.
fn plan(todos: &[Todo]) -> Vec<u8> {
    let status = |todo: &Todo| match todo.status {
        TodoStatus::Pending | TodoStatus::Blocked => Some("pending"),
        TodoStatus::InProgress => Some("in_progress"),
        TodoStatus::Completed => Some("completed"),
        TodoStatus::Cancelled => None,
    };
    object(|o| {
        let entries = todos.iter().filter_map(|todo| Some((todo, status(todo)?)));
        o.member("sessionUpdate", "plan").list("entries", entries, |o, (todo, status)| {
            o.member("content", &todo.description).member("priority", "medium").member("status", status);
        });
    })
}
