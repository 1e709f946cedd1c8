//! The Agent Client Protocol (ACP), version 1: JSON-RPC between an editor and an agent, over standard input and output or a WebSocket. A
//! session of ACP is a task; its id is that of the task.
//!
//! `requests` decodes the client's requests, `updates` encodes the events of its open sessions, and `questions` asks the client for
//! permissions and answers. This file has the answers to the client's requests.

mod questions;
mod requests;
mod updates;

pub use questions::{OpenRequests, Requests};
pub use requests::{FirstMessage, decode, first_message};
pub use updates::{COMPACTION, NOTICE, VIA, VIEW};

use crate::a2a::form::{Form, enclosed};
use crate::a2a::views::tools::Tools;
use crate::a2a::{fault, result};
use crate::base::clock::rfc3339;
use crate::base::http::Response;
use crate::base::id::TaskId;
use crate::base::json;
use crate::limits::ACP_PAGE;
use crate::task::call::ListCursor;
use crate::task::definitions::slash::{Registry, Spec};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::answer::Finish;
use crate::task::log::brief::Brief;
use crate::task::machine::decide::REQUESTS_USED_UP;
use crate::task::machine::state::{Item, Phase, State, TaskState};
use crate::task::policy::Mode;
use serde_json::{Value, json};

/// Optional capabilities that a client declared in `initialize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It shows forms.
    pub forms: bool,
    /// It shows notices.
    pub notices: bool,
    /// It shows that a conversation is being summarised.
    pub compaction: bool,
}

/// Whether a client may name MCP servers for its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    Accepted,
    Refused,
}

/// The bytes before each update of a session; [`UPDATE_SUFFIX`] comes after it.
pub fn update_prefix(session: &TaskId) -> Vec<u8> {
    let head: &[u8] = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"#;
    [head, &json::bytes(session), br#","update":"#].concat()
}

pub const UPDATE_SUFFIX: &[u8] = b"}}";

/// A complete `session/update` notification.
fn update(session: &TaskId, update: &[u8]) -> Vec<u8> {
    [&update_prefix(session), update, UPDATE_SUFFIX].concat()
}

/// A notice of the server about a task. It is not an event of the task.
pub fn notice(form: &Form, task: &TaskId, text: &str) -> Vec<u8> {
    let body = match form.capabilities.notices {
        true => updates::notice("error", text),
        false => updates::chunk("agent_message_chunk", text, None),
    };
    update(form.session.as_ref().unwrap_or(task), &body)
}

/// The answer to `initialize`.
pub fn initialized(form: &Form, servers: Servers) -> Response {
    let (empty, takes_urls) = (json!({}), servers == Servers::Accepted);
    result(
        form,
        json::bytes(&json!({
            "protocolVersion": 1,
            "agentInfo": { "name": "gemini-a2a", "title": "gemini-a2a", "version": env!("CARGO_PKG_VERSION") },
            "authMethods": [],
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": takes_urls, "sse": takes_urls },
                "sessionCapabilities": {
                    "list": empty, "resume": empty, "close": empty, "delete": empty, "additionalDirectories": empty,
                },
            },
        })),
    )
}

/// The answer to a request that opens a session, followed by an update with the session's slash commands.
pub fn opened(form: &Form, state: &State, tools: &Tools, commands: &Registry) -> Vec<u8> {
    let session = &state.created.task;
    let answer = json!({
        "sessionId": session,
        "modes": modes(state, tools),
        "configOptions": options(state, tools),
        "_meta": { "workspace": state.workspace },
    });
    // Editors take the first word of a prompt for the name of a command.
    let command = |spec: &Spec| {
        let subs: Vec<&str> = spec.subs.iter().map(|sub| sub.name.as_str()).collect();
        let arguments: Vec<&str> = spec.arguments.iter().map(|argument| argument.name.as_str()).collect();
        let hint = if subs.is_empty() { arguments.join(" ") } else { subs.join(" | ") };
        let input = (!hint.is_empty()).then(|| json!({ "hint": hint }));
        json!({ "name": spec.name, "description": spec.description, "input": input })
    };
    let commands: Vec<Value> = commands.commands().iter().map(command).collect();
    let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
    let mut lines = enclosed(form, json::bytes(&answer));
    lines.push(b'\n');
    lines.extend(update(session, &json::bytes(&commands)));
    lines
}

/// The name of a mode that clients of the Gemini CLI use.
fn mode_id(mode: Mode) -> &'static str {
    match mode {
        Mode::AutoEdit => "autoEdit",
        Mode::Plan | Mode::Default | Mode::Yolo => mode.word(),
    }
}

fn mode_of(id: &str) -> Option<Mode> {
    Mode::ALL.into_iter().find(|mode| mode_id(*mode) == id)
}

/// The modes that a task may have, with what they mean.
fn offered(state: &State, tools: &Tools) -> Vec<(Mode, &'static str, &'static str)> {
    let may_be_unasked = tools.offers.auto_execute || state.created.mode == Mode::Yolo;
    let all = [
        (Mode::Default, "Default", "Asks before it edits files or runs commands.", true),
        (Mode::AutoEdit, "Auto edit", "Edits files without asking.", state.created.trusted),
        (Mode::Plan, "Plan", "Only reads.", true),
        (Mode::Yolo, "YOLO", "Does everything without asking.", may_be_unasked),
    ];
    // The current mode is listed even if the operator does not offer it.
    let all = all.into_iter().filter(|(mode, .., is_offered)| *is_offered || *mode == state.mode);
    all.map(|(mode, name, description, _)| (mode, name, description)).collect()
}

fn modes(state: &State, tools: &Tools) -> Value {
    let mode = |(mode, name, description)| json!({ "id": mode_id(mode), "name": name, "description": description });
    let all: Vec<Value> = offered(state, tools).into_iter().map(mode).collect();
    json!({ "currentModeId": mode_id(state.mode), "availableModes": all })
}

/// The configuration options of a session, the mode and the model, with their choices and current values.
fn options(state: &State, tools: &Tools) -> Value {
    let mode = |(mode, name, description)| json!({ "value": mode_id(mode), "name": name, "description": description });
    let modes: Vec<Value> = offered(state, tools).into_iter().map(mode).collect();
    let asks = state.requested_model.as_ref();
    let mut models: Vec<&str> = tools.offers.models.iter().map(String::as_str).collect();
    if !models.contains(&asks) {
        models.insert(0, asks);
    }
    let models: Vec<Value> = models.into_iter().map(|model| json!({ "value": model, "name": model })).collect();
    json!([
        { "id": MODE, "name": "Mode", "category": "mode", "type": "select", "currentValue": mode_id(state.mode), "options": modes },
        { "id": MODEL, "name": "Model", "category": "model", "type": "select", "currentValue": asks, "options": models },
    ])
}

/// The ids of the configuration options.
const MODE: &str = "mode";
const MODEL: &str = "model";

/// The answer to a request that has no result.
pub fn empty_result(form: &Form) -> Response {
    result(form, *b"{}")
}

/// The answer to a changed configuration option: all options.
pub fn config_options(form: &Form, state: &State, tools: &Tools) -> Response {
    result(form, json::bytes(&json!({ "configOptions": options(state, tools) })))
}

/// The answer to a prompt whose turn is over; `state` is the state right after the end of the turn.
pub fn stop_reason(form: &Form, state: &State) -> Response {
    let end = |reason: &str| result(form, json::bytes(&json!({ "stopReason": reason })));
    let failed = |kind: FaultKind, why: &str| fault(form, &Fault::new(kind, why));
    let why = state.status.text.as_deref().unwrap_or("The agent failed and gave no reason.");
    match (&state.phase, state.status.state) {
        (_, TaskState::Canceled) => end("cancelled"),
        (_, TaskState::AuthRequired) => failed(FaultKind::Unauthenticated { shown: false, basic: false }, why),
        (_, TaskState::Failed | TaskState::Rejected) => failed(FaultKind::Storage, why),
        // The prompt was withdrawn before its turn began.
        (Phase::Working { .. } | Phase::Backoff { .. } | Phase::Tools, _) => end("cancelled"),
        (Phase::Idle | Phase::Closed, _) if state.turn.interrupted => end("cancelled"),
        (Phase::Idle | Phase::Closed, _) => match state.turn.error.as_deref() {
            Some(why) if why.contains("_BLOCKED)") => end("refusal"),
            Some(why) if why.contains("(MAX_TOKENS_EXCEEDED)") => end("max_tokens"),
            Some(why) if why.starts_with(REQUESTS_USED_UP) => end("max_turn_requests"),
            Some(why) => failed(FaultKind::Storage, why),
            None => end(match last_finish(state) {
                Some(Finish::OutputLimit) => "max_tokens",
                Some(Finish::Safety | Finish::Recitation) => "refusal",
                _ => "end_turn",
            }),
        },
    }
}

/// Why the model's last answer ended.
fn last_finish(state: &State) -> Option<&Finish> {
    state.history.iter().rev().find_map(|item| match item.as_ref() {
        Item::Answered(answer) => Some(&answer.finish),
        _ => None,
    })
}

/// A page of the conversations that can be continued: the live session first, then by age, the newest first. `known` may be in any order.
pub fn sessions<'a>(
    form: &Form,
    known: impl Iterator<Item = (&'a TaskId, &'a Brief)>,
    live: Option<&TaskId>,
    workspace: Option<&str>,
    after: Option<&ListCursor>,
) -> Response {
    let is_live = |task: &TaskId| live == Some(task);
    let place = |task: &TaskId, brief: &Brief| (std::cmp::Reverse((is_live(task), brief.at)), task.clone());
    let mut known: Vec<_> = known
        .filter(|(task, brief)| is_live(task) || (brief.turns > 0 && !brief.state.is_terminal()))
        .filter(|(_, brief)| workspace.is_none_or(|wanted| brief.workspace == wanted))
        .filter(|(task, brief)| {
            let mark = |mark: &ListCursor| (std::cmp::Reverse((is_live(&mark.task), mark.at)), mark.task.clone());
            after.is_none_or(|after| place(task, brief) > mark(after))
        })
        .collect();
    known.sort_unstable_by_key(|(task, brief)| place(task, brief));
    let more = known.len() > ACP_PAGE;
    known.truncate(ACP_PAGE);
    let cursor = known.last().filter(|_| more).map(|(task, brief)| format!("{}.{task}", brief.at));
    let session = |(task, brief): &(&TaskId, &Brief)| {
        let title = (!brief.title.is_empty()).then_some(&brief.title);
        json!({ "sessionId": task, "cwd": brief.workspace, "title": title, "updatedAt": rfc3339(brief.at) })
    };
    let sessions: Vec<Value> = known.iter().map(session).collect();
    result(form, json::bytes(&json!({ "sessions": sessions, "nextCursor": cursor })))
}

/// The position that a cursor names.
fn read_cursor(cursor: &str) -> Option<ListCursor> {
    let (at, task) = cursor.split_once('.')?;
    Some(ListCursor { at: at.parse().ok()?, task: task.into() })
}

/// The error code of a fault. ACP defines some codes itself; for other faults the code is `usual`.
pub fn code(kind: &FaultKind, usual: i32) -> i32 {
    match kind {
        FaultKind::TaskNotFound(_) | FaultKind::ContentNotFound => -32002,
        // The usual code of a held task means here that a credential is missing.
        FaultKind::TaskHeld { .. } => -32603,
        FaultKind::Unsupported | FaultKind::TaskIsOver(_) | FaultKind::TaskNotCancelable(_) => -32602,
        _ => usual,
    }
}

#[cfg(test)]
mod tests;
