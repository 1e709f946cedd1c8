//! How each binding spells a request. A story says what it wants with [`Op`]; here it becomes a method, a path and a body.
//! Nothing of the crate under test is used: the spelling is written a second time, from the protocol.

use crate::support::message::fresh;
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    Rpc03,
    Rest03,
    Rpc10,
    Rest10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V03,
    V10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    Rpc,
    Rest,
}

/// What a client wants.
#[derive(Clone, Debug)]
pub enum Op {
    Send(Note),
    Stream(Note),
    Get(String, Option<i64>),
    /// Query members and their values; in 0.3 there is nothing to be chosen.
    List(Value),
    Cancel(String),
    Subscribe(String),
    SetHook(String, Hook),
    GetHook(String, String),
    ListHooks(String),
    DeleteHook(String, String),
    ExtendedCard,
}

/// A message to send, and how to be answered.
#[derive(Clone, Debug)]
pub struct Note {
    pub id: String,
    pub parts: Vec<Piece>,
    pub task: Option<String>,
    pub context: Option<String>,
    pub wait: Option<Wait>,
    pub history: Option<i64>,
    pub hook: Option<Hook>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Whole,
    Not,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    pub credentials: Option<String>,
}

/// A part of a message or an artifact, without a dialect.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text(String),
    Bytes(String, File),
    Url(String, File),
    Data(Value),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    pub name: Option<String>,
    pub media: Option<String>,
}

/// A request as it goes out.
#[derive(Clone, Debug)]
pub struct Wire {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
}

impl Note {
    /// What the script does with it is in the beginning of its id.
    pub fn new(prefix: &str) -> Note {
        Note {
            id: format!("{prefix}-{}", fresh()),
            parts: vec![Piece::Text("go".into())],
            task: None,
            context: None,
            wait: None,
            history: None,
            hook: None,
        }
    }

    pub fn to(self, task: &str) -> Note {
        Note { task: Some(task.into()), ..self }
    }

    pub fn within(self, context: &str) -> Note {
        Note { context: Some(context.into()), ..self }
    }

    pub fn saying(self, parts: Vec<Piece>) -> Note {
        Note { parts, ..self }
    }

    pub fn wait(self, wait: Wait) -> Note {
        Note { wait: Some(wait), ..self }
    }

    pub fn history(self, length: i64) -> Note {
        Note { history: Some(length), ..self }
    }

    pub fn hooked(self, hook: Hook) -> Note {
        Note { hook: Some(hook), ..self }
    }
}

impl Hook {
    pub fn at(url: &str) -> Hook {
        Hook { id: None, url: url.into(), token: None, credentials: None }
    }

    pub fn named(self, id: &str) -> Hook {
        Hook { id: Some(id.into()), ..self }
    }
}

impl Binding {
    pub fn version(self) -> Version {
        match self {
            Binding::Rpc03 | Binding::Rest03 => Version::V03,
            Binding::Rpc10 | Binding::Rest10 => Version::V10,
        }
    }

    pub fn frame(self) -> Frame {
        match self {
            Binding::Rpc03 | Binding::Rpc10 => Frame::Rpc,
            Binding::Rest03 | Binding::Rest10 => Frame::Rest,
        }
    }

    /// The request, with this id if it has one.
    pub fn wire(self, op: &Op, id: &Value) -> Wire {
        match self.frame() {
            Frame::Rpc => {
                let params = self.params(op);
                let body = json!({"jsonrpc": "2.0", "id": id, "method": self.method(op), "params": params});
                post("/", body)
            }
            Frame::Rest => self.rest(op),
        }
    }

    pub fn method(self, op: &Op) -> &'static str {
        let (old, new) = match op {
            Op::Send(_) => ("message/send", "SendMessage"),
            Op::Stream(_) => ("message/stream", "SendStreamingMessage"),
            Op::Get(..) => ("tasks/get", "GetTask"),
            Op::List(_) => ("tasks/list", "ListTasks"),
            Op::Cancel(_) => ("tasks/cancel", "CancelTask"),
            Op::Subscribe(_) => ("tasks/resubscribe", "SubscribeToTask"),
            Op::SetHook(..) => ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"),
            Op::GetHook(..) => ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig"),
            Op::ListHooks(_) => ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs"),
            Op::DeleteHook(..) => ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig"),
            Op::ExtendedCard => ("agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"),
        };
        match self.version() {
            Version::V03 => old,
            Version::V10 => new,
        }
    }

    /// The body of `message:send` and the parameters of its JSON-RPC twins.
    pub fn sending(self, note: &Note) -> Value {
        let mut params = json!({"message": self.message(note)});
        let configuration = self.configuration(note);
        if !configuration.is_empty() {
            params["configuration"] = configuration.into();
        }
        params
    }

    pub fn message(self, note: &Note) -> Value {
        let parts: Vec<Value> = note.parts.iter().map(|part| self.part(part)).collect();
        let mut message = match self {
            Binding::Rpc03 => json!({"kind": "message", "role": "user", "parts": parts}),
            Binding::Rest03 => json!({"role": "ROLE_USER", "content": parts}),
            Binding::Rpc10 | Binding::Rest10 => json!({"role": "ROLE_USER", "parts": parts}),
        };
        message["messageId"] = note.id.as_str().into();
        if let Some(task) = &note.task {
            message["taskId"] = task.as_str().into();
        }
        if let Some(context) = &note.context {
            message["contextId"] = context.as_str().into();
        }
        message
    }

    pub fn part(self, piece: &Piece) -> Value {
        let named = |mut value: Value, file: &File, name: &str, media: &str| {
            if let Some(given) = &file.name {
                value[name] = given.as_str().into();
            }
            if let Some(given) = &file.media {
                value[media] = given.as_str().into();
            }
            value
        };
        match (self, piece) {
            (Binding::Rpc03, Piece::Text(text)) => json!({"kind": "text", "text": text}),
            (Binding::Rpc03, Piece::Data(data)) => json!({"kind": "data", "data": data}),
            (Binding::Rpc03, Piece::Bytes(bytes, file)) => {
                json!({"kind": "file", "file": named(json!({"bytes": bytes}), file, "name", "mimeType")})
            }
            (Binding::Rpc03, Piece::Url(url, file)) => {
                json!({"kind": "file", "file": named(json!({"uri": url}), file, "name", "mimeType")})
            }
            (_, Piece::Text(text)) => json!({"text": text}),
            (Binding::Rest03, Piece::Data(data)) => json!({"data": {"data": data}}),
            (Binding::Rest03, Piece::Bytes(bytes, file)) => {
                json!({"file": named(json!({"fileWithBytes": bytes}), file, "name", "mimeType")})
            }
            (Binding::Rest03, Piece::Url(url, file)) => {
                json!({"file": named(json!({"fileWithUri": url}), file, "name", "mimeType")})
            }
            (Binding::Rpc10 | Binding::Rest10, Piece::Data(data)) => json!({"data": data}),
            (Binding::Rpc10 | Binding::Rest10, Piece::Bytes(bytes, file)) => {
                named(json!({"raw": bytes}), file, "filename", "mediaType")
            }
            (Binding::Rpc10 | Binding::Rest10, Piece::Url(url, file)) => {
                named(json!({"url": url}), file, "filename", "mediaType")
            }
        }
    }

    /// What a part looks like when it comes back: REST 0.3 has no place for the name of a file.
    pub fn shown(self, piece: Piece) -> Piece {
        let nameless = |file: File| match self {
            Binding::Rest03 => File { name: None, ..file },
            Binding::Rpc03 | Binding::Rpc10 | Binding::Rest10 => file,
        };
        match piece {
            Piece::Bytes(bytes, file) => Piece::Bytes(bytes, nameless(file)),
            Piece::Url(url, file) => Piece::Url(url, nameless(file)),
            piece @ (Piece::Text(_) | Piece::Data(_)) => piece,
        }
    }

    /// A webhook without its task.
    pub fn hook(self, hook: &Hook) -> Value {
        let mut value = json!({"url": hook.url});
        if let Some(id) = &hook.id {
            value["id"] = id.as_str().into();
        }
        if let Some(token) = &hook.token {
            value["token"] = token.as_str().into();
        }
        if let Some(credentials) = &hook.credentials {
            value["authentication"] = match self.version() {
                Version::V03 => json!({"schemes": ["Bearer"], "credentials": credentials}),
                Version::V10 => json!({"scheme": "Bearer", "credentials": credentials}),
            };
        }
        value
    }

    fn configuration(self, note: &Note) -> Map<String, Value> {
        let mut configuration = Map::new();
        if let Some(wait) = note.wait {
            let (name, value) = match (self.version(), wait) {
                (Version::V03, Wait::Whole) => ("blocking", true),
                (Version::V03, Wait::Not) => ("blocking", false),
                (Version::V10, Wait::Whole) => ("returnImmediately", false),
                (Version::V10, Wait::Not) => ("returnImmediately", true),
            };
            configuration.insert(name.into(), value.into());
        }
        if let Some(length) = note.history {
            configuration.insert("historyLength".into(), length.into());
        }
        if let Some(hook) = &note.hook {
            let name = match self {
                Binding::Rpc03 => "pushNotificationConfig",
                Binding::Rest03 => "pushNotification",
                Binding::Rpc10 | Binding::Rest10 => "taskPushNotificationConfig",
            };
            configuration.insert(name.into(), self.hook(hook));
        }
        configuration
    }

    fn params(self, op: &Op) -> Value {
        let old = self.version() == Version::V03;
        match op {
            Op::Send(note) | Op::Stream(note) => self.sending(note),
            Op::Get(task, None) => json!({"id": task}),
            Op::Get(task, Some(length)) => json!({"id": task, "historyLength": length}),
            Op::List(query) => query.clone(),
            Op::Cancel(task) | Op::Subscribe(task) => json!({"id": task}),
            Op::SetHook(task, hook) if old => {
                json!({"taskId": task, "pushNotificationConfig": self.hook(hook)})
            }
            Op::SetHook(task, hook) => {
                let mut config = self.hook(hook);
                config["taskId"] = task.as_str().into();
                config
            }
            Op::GetHook(task, id) | Op::DeleteHook(task, id) if old => {
                json!({"id": task, "pushNotificationConfigId": id})
            }
            Op::GetHook(task, id) | Op::DeleteHook(task, id) => json!({"taskId": task, "id": id}),
            Op::ListHooks(task) if old => json!({"id": task}),
            Op::ListHooks(task) => json!({"taskId": task}),
            Op::ExtendedCard => json!({}),
        }
    }

    fn rest(self, op: &Op) -> Wire {
        let base = match self.version() {
            Version::V03 => "/v1",
            Version::V10 => "",
        };
        let hooks = |task: &str| format!("{base}/tasks/{task}/pushNotificationConfigs");
        match op {
            Op::Send(note) => post(&format!("{base}/message:send"), self.sending(note)),
            Op::Stream(note) => post(&format!("{base}/message:stream"), self.sending(note)),
            Op::Get(task, None) => bare("GET", format!("{base}/tasks/{task}")),
            Op::Get(task, Some(length)) => bare("GET", format!("{base}/tasks/{task}?historyLength={length}")),
            Op::List(query) => bare("GET", format!("{base}/tasks{}", query_string(query))),
            Op::Cancel(task) => bare("POST", format!("{base}/tasks/{task}:cancel")),
            Op::Subscribe(task) => bare("POST", format!("{base}/tasks/{task}:subscribe")),
            Op::SetHook(task, hook) => {
                let config = self.hook(hook);
                let id = hook.id.as_deref().unwrap_or("");
                let body = match self.version() {
                    Version::V03 => json!({
                        "name": format!("tasks/{task}/pushNotificationConfigs/{id}"),
                        "pushNotificationConfig": config,
                    }),
                    Version::V10 => config,
                };
                post(&hooks(task), body)
            }
            Op::GetHook(task, id) => bare("GET", format!("{}/{id}", hooks(task))),
            Op::ListHooks(task) => bare("GET", hooks(task)),
            Op::DeleteHook(task, id) => bare("DELETE", format!("{}/{id}", hooks(task))),
            Op::ExtendedCard => bare(
                "GET",
                match self.version() {
                    Version::V03 => "/v1/card".into(),
                    Version::V10 => "/extendedAgentCard".into(),
                },
            ),
        }
    }
}

impl Op {
    pub fn streams(&self) -> bool {
        matches!(self, Op::Stream(_) | Op::Subscribe(_))
    }
}

fn post(path: &str, body: Value) -> Wire {
    Wire { method: "POST", path: path.into(), body: Some(body) }
}

fn bare(method: &'static str, path: String) -> Wire {
    Wire { method, path, body: None }
}

fn query_string(query: &Value) -> String {
    let pairs = query.as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={}", text.replace('+', "%2B")),
            other => format!("{name}={other}"),
        })
        .collect();
    match pairs.is_empty() {
        true => String::new(),
        false => format!("?{}", pairs.join("&")),
    }
}
