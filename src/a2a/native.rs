//! The native dialect, `gemini-a2a.v1`: the server sends records of the journal, the client sends calls. It is used over WebSocket only,
//! one JSON object per text frame, by clients that fold events themselves: an attached terminal, a console.
//!
//! The server sends the events of every watched task exactly as they were recorded, each with the id of its task. Events of the audit
//! and of the task's owner are not sent:
//!
//! ```json
//! {"task":"t-1","seq":7,"at":1767225600123,"event":{"text":{"text":"Hello"}}}
//! ```
//!
//! `at` is in Unix milliseconds. Folding the events from the first on gives the task; after a lost connection `watch` continues after
//! the last `seq` that was seen. The client sends calls, each with an id of its choice, a number or a string:
//!
//! | call | members | answer |
//! |---|---|---|
//! | `say` | `text` or `message`; `task`, `context`, `settings`: `{workspace, model, auto_execute, tools, mcp_servers}`; `id`, `steer` | `{taskId, accepted}` |
//! | `answer` | `task`, `call`, `option`; `edited`: the file as the user wants it; `answers` to questions, by number, to those of an MCP server also by field; `seen`: the `seq` of the plan or the server's question that was shown, else any | the same; `STALE` if there is another one since |
//! | `create` | `context`, `settings` | the task's id |
//! | `abort` | `task` | `{taskId, accepted}` |
//! | `drop` | `task`, `turn`: that of a queued prompt | the same |
//! | `permissions` | `task`; `revoke`: rules to take back | `{taskId, permissions: [{rule, saved}]}`: those that are left |
//! | `cancel` | `task` | the task |
//! | `get` | `task`; `history`: how many of the newest messages | the task |
//! | `list` | `context`, `state`, `since`, `size`, `after`: the `nextPageToken` of the page before, `history`, `artifacts` | a page of tasks |
//! | `watch` | `task`; `after`: the last event seen, else all are sent | `{taskId, after, seq}`, then the events after that; `seq` is the newest |
//! | `blob` | `task`, `sha256`; `from`: a byte | `{sha256, from, len, data}`: some of the bytes in base64, and how many there are |
//! | `tune` | `task`; `mode`: `default`, `auto_edit`, `plan` or, if the operator allows it, `yolo`; `model` | as `abort` |
//! | `shell` | `task`, `command`: one that the user typed, which needs no approval | as `abort` |
//! | `execute` | `text`: a slash command; `live`: answer at once if it starts a turn of the model, whose task can then be watched | `{taskId, accepted, text}` when it has ended or asks something: its task and result |
//! | `commands` | | the slash commands |
//! | `files` | `task`, `query`: letters of a path, in their order; `limit` | `{paths, total}` |
//! | `briefs` | | a line about each task, the newest first, with its `title` |
//! | `export` | `task`: it is going to be watched from its beginning and kept elsewhere, which is audited | `{taskId}` |
//! | `delete` | `task`: one without unfinished work that no client follows | `{taskId}`; its log is gone |
//! | `clients` | | who is connected; from then on a frame `{"clients":[…]}` comes when that changes |
//! | `about` | | what this server is: version, workspace, mode, models, `window`: the tokens that the model takes, the id of the live session |
//! | `unwatch` | `task` | `{taskId}`; no further events of it come |
//! | `session` | `new`: begin another one; `task`: make this task the session | the id of the live session |
//!
//! ```json
//! {"id":1,"call":{"say":{"task":"t-1","text":"go on"}}}
//! {"id":1,"ok":{"taskId":"t-1","accepted":true}}
//! {"id":1,"error":{"reason":"TASK_NOT_FOUND","message":"Task not found: t-1"}}
//! ```
//!
//! A message is one of the journal: `{"id","role","parts":[{"content":{"text":"…"}}]}`. Tasks in answers are those of A2A 0.3.
//! Members may be added to any object; clients ignore those they do not know.

use crate::a2a::dialect::{Dialect, Standalone};
use crate::a2a::encodings::object::object;
use crate::a2a::form::{Decoded, Form, enclosed};
use crate::a2a::requests::answer;
use crate::a2a::requests::message::{check_key, check_parts};
use crate::a2a::requests::object::{Object, wrong};
use crate::a2a::views::list::read_token;
use crate::a2a::words::Idle;
use crate::a2a::{Body, result};
use crate::base::crc::crc32;
use crate::base::http::Response;
use crate::base::id::{ContextId, Seq, TaskId};
use crate::base::json;
use crate::base::secret::Secret;
use crate::task::call::{Call, Create, Execute, List, Mode, Say, Settings, TaskTraits};
use crate::task::definitions::slash::{Args, Granted, Registry, Spec, Typed};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::brief::Brief;
use crate::task::log::event::{Delivery, Event, Lifecycle, ownership};
use crate::task::log::record::Record;
use crate::task::machine::job::{Pick, Said};
use crate::task::machine::state::{Item, State, TaskState};
use crate::task::message::{Message, Part, Role, Source};
use crate::task::policy;
use ::core::net::IpAddr;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub const VIEW: &Standalone = &Standalone {
    name: "own",
    event: |state, event, _| is_shown(event).then(|| Body::bare(record(state, event))),
    current_status: |_| None,
    snapshot: None,
    idle: Idle::InputRequired,
};

/// Whether an event is sent to clients. Events of the audit, and of the instance that owns the task, are internal.
fn is_shown(record: &Record) -> bool {
    !matches!(record.event, Event::Audited { .. } | ownership!())
}

/// An event with its task.
pub fn record(state: &State, record: &Record) -> Vec<u8> {
    object(|o| {
        o.member("task", &state.created.task).member("seq", &record.seq).member("at", &record.at);
        o.member("event", &*record.event.without_names().without_secrets());
    })
}

/// The answer to `watch`: the events after `after` follow, up to `last`, then later ones as they happen. `after` is 0 if the client named a
/// position that the log does not have.
pub fn watch_answer(form: &Form, task: &TaskId, after: Seq, last: Seq) -> Vec<u8> {
    enclosed(form, json::bytes(&json!({ "taskId": task, "after": after, "seq": last })))
}

/// The answer to a prompt or a slash command: the id of the task, and the text of a command that has ended.
pub fn accepted(state: &State) -> Vec<u8> {
    let mut answer = json!({ "taskId": state.created.task, "accepted": true });
    if state.created.command.is_some() && state.is_over() {
        let text = state.history.iter().rev().find_map(|item| match item.as_ref() {
            Item::Answered(answer) => Some(answer.text()),
            _ => None,
        });
        answer["text"] = json!(text.or_else(|| state.status.text.clone()));
    }
    json::bytes(&answer)
}

/// The answer to `export`, `unwatch` and `delete`: the id of the task.
pub fn task_id(form: &Form, task: &TaskId) -> Response {
    result(form, json::bytes(&json!({ "taskId": task })))
}

/// The answer to `permissions`: the rules of a task that somebody granted with "always".
pub fn permissions(form: &Form, task: &TaskId, granted: &[Granted]) -> Response {
    result(form, json::bytes(&json!({ "taskId": task, "permissions": granted })))
}

/// A piece of stored content.
pub fn blob(form: &Form, sha256: &str, from: u64, bytes: &[u8], len: u64) -> Response {
    let data = STANDARD.encode(bytes);
    result(form, json::bytes(&json!({ "sha256": sha256, "from": from, "len": len, "data": data })))
}

/// The facts about this server that the answer to `about` has.
pub struct About<'a> {
    pub session: Option<&'a TaskId>,
    /// Where other clients connect.
    pub url: &'a str,
    pub commands: &'a Registry,
    pub workspace: &'a str,
    pub is_trusted: bool,
    pub mode: policy::Mode,
    pub model: String,
    /// Empty if every model of a known family may be chosen.
    pub models: &'a [String],
    /// The tokens that the model takes.
    pub window: u64,
    /// The tokens at which the conversation is summarised; 0: never.
    pub compress_tokens: u64,
    /// The client that asks.
    pub client: &'a Source,
    pub prompt_bytes: usize,
    pub queued_prompts: usize,
}

pub fn about(form: &Form, about: &About) -> Response {
    let modes: Vec<&str> = policy::Mode::ALL.into_iter().map(policy::Mode::word).collect();
    let command = |(path, spec): (Vec<String>, &Spec)| {
        let arguments = spec.arguments.iter().map(|argument| argument.name.as_str());
        json!({ "name": path.join(" "), "description": spec.description, "arguments": arguments.collect::<Vec<_>>() })
    };
    let commands: Vec<Value> =
        about.commands.all().into_iter().filter(|(_, spec)| spec.subs.is_empty()).map(command).collect();
    let body = json!({
        "url": about.url, "commands": commands,
        "version": env!("CARGO_PKG_VERSION"), "session": about.session, "workspace": about.workspace, "trusted": about.is_trusted,
        "mode": about.mode.word(), "modes": modes, "model": about.model, "models": about.models, "window": about.window,
        "compressTokens": about.compress_tokens, "client": about.client.client, "via": about.client.via,
        "limits": { "promptBytes": about.prompt_bytes, "queuedPrompts": about.queued_prompts },
    });
    result(form, json::bytes(&body))
}

/// A connected client.
pub struct ClientLine {
    pub by: Source,
    /// Unix milliseconds.
    pub since: u64,
    /// The task that its socket follows.
    pub task: Option<TaskId>,
    /// Whether it is sent events as they happen.
    pub is_live: bool,
    /// Its address. None: the client that asks has no right to see addresses.
    pub address: Option<IpAddr>,
}

fn client_values(lines: &[ClientLine]) -> Vec<Value> {
    let value = |line: &ClientLine| {
        let mut value = json!({ "client": line.by.client, "via": line.by.via, "since": line.since, "task": line.task,
                "live": line.is_live });
        if let Some(address) = line.address {
            value["address"] = json!(address.to_string());
        }
        value
    };
    lines.iter().map(value).collect()
}

pub fn clients(form: &Form, lines: &[ClientLine]) -> Response {
    result(form, json::bytes(&json!({ "clients": client_values(lines) })))
}

/// The frame that is sent when clients have connected or disconnected.
pub fn clients_frame(lines: &[ClientLine]) -> Vec<u8> {
    json::bytes(&json!({ "clients": client_values(lines) }))
}

/// The answer to `briefs`. `known` is a part of the tasks, of which there are `total`.
pub fn briefs(form: &Form, known: &[(&TaskId, &Brief)], total: usize, session: Option<&TaskId>) -> Response {
    let value = |(task, brief): &(&TaskId, &Brief)| {
        json!({ "task": task, "context": brief.context, "state": brief.state.word(), "at": brief.at,
                "title": brief.title, "turns": brief.turns, "workspace": brief.workspace, "waiting": brief.waiting,
                "idle": brief.idle, "failed": brief.failed, "live": session == Some(task) })
    };
    let briefs: Vec<Value> = known.iter().map(value).collect();
    result(form, json::bytes(&json!({ "tasks": briefs, "total": total })))
}

/// The answer to `files`: paths relative to the workspace, a part of the `total` that match.
pub fn files(form: &Form, paths: &[String], total: usize) -> Response {
    result(form, json::bytes(&json!({ "paths": paths, "total": total })))
}

/// Decodes a text frame of a client.
pub fn decode(text: &str) -> Decoded {
    let mut form = Form::of(Dialect::NATIVE);
    let call = read_frame(text, &mut form).and_then(|sent| call(sent, text));
    form.decoded(call)
}

/// The frame for a call that failed.
pub fn error(form: &Form, fault: &Fault, reason: &str) -> Vec<u8> {
    let wait = match fault.kind {
        FaultKind::RateLimited { retry_after_ms } => Some(retry_after_ms),
        _ => None,
    };
    object(|o| {
        o.name("id").extend_from_slice(&form.id);
        o.object("error", |o| {
            o.member("message", &fault.message).member("reason", reason).optional("retryAfterMs", wait);
        });
    })
}

/// A notice of the server about a task. It is not a record of the task.
pub fn problem(task: &TaskId, message: &str) -> Vec<u8> {
    json::bytes(&json!({ "problem": { "task": task, "message": message } }))
}

const CALLS: &str = "say, answer, abort, drop, permissions, tune, shell, create, execute, cancel, get, list, briefs, export, delete, watch, blob, \
                     files, commands, clients, about, unwatch or session";

/// A call as the client sent it. Its members are read one by one, so that an error can name the member.
pub(in crate::a2a) struct SentCall {
    pub name: String,
    pub members: Object,
}

impl SentCall {
    /// An optional member.
    pub fn optional<T: DeserializeOwned>(&mut self, member: &str) -> Result<Option<T>, Fault> {
        let value = self.members.remove(member).filter(|value| !value.is_null());
        value
            .map(|value| {
                serde_json::from_value(value).map_err(|error| wrong(&self.name, member, &format!("is wrong: {error}.")))
            })
            .transpose()
    }

    /// A required member.
    pub fn required<T: DeserializeOwned>(&mut self, member: &str) -> Result<T, Fault> {
        self.optional(member)?.ok_or_else(|| wrong(&self.name, member, "is required."))
    }

    fn context(&mut self) -> Result<Option<ContextId>, Fault> {
        let id: Option<ContextId> = self.optional("context")?;
        check_key(id.as_ref().map(ContextId::as_str), &self.name, "context")?;
        Ok(id)
    }

    /// A task that is created in this dialect has the traits of a session.
    fn create(&mut self) -> Result<Create, Fault> {
        let context = self.context()?;
        let mut wishes = SentCall {
            name: format!("{}.settings", self.name),
            members: self.optional("settings")?.unwrap_or_default(),
        };
        let settings = Settings {
            workspace: wishes.optional("workspace")?,
            directories: Vec::new(),
            model: wishes.optional("model")?,
            auto_execute: wishes.optional("auto_execute")?,
            tools: wishes.optional("tools")?,
            servers: wishes.optional::<Value>("mcp_servers")?.map(|servers| Secret::new(servers.to_string())),
            api_key: wishes.optional::<String>("api_key")?.map(Secret::new),
            depth: 0,
        };
        Ok(Create { context, settings, traits: TaskTraits::SESSION })
    }

    fn said(&mut self, own_message: impl Fn(Part) -> Message) -> Result<Said, Fault> {
        if let Some(Value::Array(parts)) = self.members.get("message").and_then(|message| message.get("parts")) {
            check_parts(parts, &self.name, "message.parts")?;
        }
        let key: Option<String> = self.optional("id")?;
        check_key(key.as_deref(), &self.name, "id")?;
        let delivery = Delivery { key, steer: self.optional("steer")?.unwrap_or_default(), compress: false };
        let message = match (self.optional::<String>("text")?, self.optional::<Message>("message")?) {
            (Some(text), None) => own_message(Part::text(text)),
            (None, Some(message)) if message.stored().next().is_some() => {
                // With the hash of another task's content, the client could read that content.
                return Err(wrong(
                    &self.name,
                    "message.parts",
                    "must contain texts and files whole, not their hashes.",
                ));
            }
            (None, Some(message)) if !message.parts.is_empty() => message,
            (None, Some(_)) => return Err(wrong(&self.name, "message.parts", "is empty.")),
            (Some(_), Some(_)) | (None, None) => {
                return Err(Fault::params("say needs either text or a message."));
            }
        };
        Ok(Said {
            answers: answer::picks(&message, |i| format!("say.message.parts[{i}].content"))?,
            message: message.into(),
            delivery,
        })
    }

    fn pick(&mut self) -> Result<Pick, Fault> {
        Ok(Pick {
            call: self.required("call")?,
            option: self.required("option")?,
            edited: self.optional("edited")?,
            answers: self.optional("answers")?,
            seen: self.optional("seen")?,
        })
    }

    fn list(&mut self) -> Result<List, Fault> {
        let mut list = List {
            context: self.optional("context")?,
            state: self.optional("state")?.map(state).transpose()?,
            since: self.optional("since")?,
            size: self.optional("size")?.unwrap_or_default(),
            after: None,
            history: self.optional("history")?.unwrap_or_default(),
            artifacts: self.optional("artifacts")?.unwrap_or_default(),
        };
        // The last page has an empty token. A client that sends it starts from the beginning, as in A2A.
        let token: Option<String> = self.optional("after")?;
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            let what = "must be the nextPageToken of a page of the same list.";
            let mark = read_token(&token, &list);
            list.after = Some(mark.ok_or_else(|| wrong(&self.name, "after", what))?);
        }
        Ok(list)
    }
}

/// Reads the envelope of a frame. The form gets the id of the call as soon as it is known, so that errors carry it.
fn read_frame(text: &str, form: &mut Form) -> Result<SentCall, Fault> {
    let invalid = |message: &str| Fault::new(FaultKind::InvalidRequest, message);
    let mut sent: Value = json::read(text.as_bytes())
        .map_err(|error| Fault::new(FaultKind::ParseError, format!("The frame cannot be read as JSON: {error}.")))?;
    match sent.get("id") {
        None | Some(Value::Null) => {}
        Some(id @ (Value::String(_) | Value::Number(_))) => form.id = json::bytes(id).into(),
        Some(_) => return Err(invalid("id must be a number or a string.")),
    }
    let call = sent.get_mut("call").map(Value::take);
    let call =
        call.ok_or_else(|| invalid("A frame is {\"id\":…,\"call\":{\"say\":{…}}}, or another call in its place."))?;
    let one = match call {
        Value::Object(call) if call.len() == 1 => call.into_iter().next(),
        _ => None,
    };
    match one {
        Some((name, Value::Object(members))) => Ok(SentCall { name, members }),
        Some((name, _)) => Err(wrong("call", &name, "must be an object.")),
        None => Err(Fault::field("call", &format!("must be an object of one call: {CALLS}."))),
    }
}

/// Decodes a call. `frame` is the whole frame; the ids of messages without one are derived from it.
fn call(mut sent: SentCall, frame: &str) -> Result<Call, Fault> {
    let own_message = |part: Part| Message::new(format!("own-{:08x}", crc32(frame.as_bytes())), Role::User, vec![part]);
    Ok(match sent.name.as_str() {
        "say" => {
            let create = sent.create()?;
            Call::Say(Say::new(sent.said(own_message)?, sent.optional("task")?, create, Mode::Now))
        }
        "answer" => {
            let pick = sent.pick()?;
            let part = Part::data(json!({ "call": pick.call, "option": pick.option }));
            let said = Said::new(own_message(part).into(), vec![pick]);
            let create = Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION };
            Call::Say(Say::new(said, Some(sent.required("task")?), create, Mode::Now))
        }
        "create" => Call::Create(sent.create()?),
        "abort" => Call::Abort { task: Some(sent.required("task")?) },
        "drop" => Call::Drop { task: sent.required("task")?, turn: sent.required("turn")? },
        "permissions" => {
            Call::Permissions { task: sent.required("task")?, revoke: sent.optional("revoke")?.unwrap_or_default() }
        }
        "cancel" => Call::Cancel { task: sent.required("task")? },
        "get" => Call::Get { task: sent.required("task")?, history: sent.optional("history")? },
        "list" => Call::List(sent.list()?),
        "watch" => Call::Subscribe { task: sent.required("task")?, after: sent.optional("after")? },
        "blob" => Call::Blob {
            task: sent.required("task")?,
            sha256: sent.required("sha256")?,
            from: sent.optional("from")?.unwrap_or_default(),
        },
        "tune" => {
            Call::Tune { task: sent.required("task")?, mode: sent.optional("mode")?, model: sent.optional("model")? }
        }
        "shell" => Call::Shell { task: sent.required("task")?, command: sent.required("command")? },
        "files" => Call::Files {
            task: sent.required("task")?,
            query: sent.optional("query")?.unwrap_or_default(),
            limit: sent.optional("limit")?,
        },
        "commands" => Call::Commands,
        "execute" => {
            let traits = TaskTraits { lifecycle: Lifecycle::OneShot, ..TaskTraits::SESSION };
            let create = Create { context: None, settings: Settings::default(), traits };
            let typed = Typed { phrase: sent.required("text")?, args: Args::InPhrase };
            let mode = if sent.optional("live")?.unwrap_or(false) { Mode::Stream } else { Mode::Wait };
            Call::Execute(Execute { typed, about: sent.optional("task")?, create, mode, otherwise: None })
        }
        "about" => Call::About,
        "briefs" => Call::Briefs,
        "export" => Call::Export { task: sent.required("task")? },
        "delete" => Call::Delete { task: sent.required("task")? },
        "clients" => Call::Clients,
        "unwatch" => Call::Unsubscribe { task: sent.required("task")? },
        "session" => match (sent.optional("new")?.unwrap_or(false), sent.optional("task")?) {
            (false, None) => Call::Session,
            (_, task) => Call::Renew { task },
        },
        _ => return Err(Fault::field("call", &format!("must be one of these: {CALLS}."))),
    })
}

fn state(word: String) -> Result<TaskState, Fault> {
    let found = TaskState::from_word(&word);
    found.ok_or_else(|| {
        let all: Vec<&str> = TaskState::ALL.into_iter().map(TaskState::word).collect();
        Fault::field("list.state", &format!("must be one of {}.", all.join(", ")))
    })
}

#[cfg(test)]
mod tests;
