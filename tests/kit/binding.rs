//! Requests in the format of each binding. A test describes a request as an [`Op`], which this module turns into a method, a path and a
//! body. It uses nothing of the crate under test: it is a second implementation of the protocol.

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

/// An operation of the protocol, independent of the binding.
#[derive(Clone, Debug)]
pub enum Op {
    Send(Prompt),
    Stream(Prompt),
    Get(String, Option<i64>),
    /// Query members and their values; 0.3 has none.
    List(Value),
    Cancel(String),
    Subscribe(String),
    SetWebhook(String, Webhook),
    GetWebhook(String, String),
    ListWebhooks(String),
    DeleteWebhook(String, String),
    ExtendedCard,
}

/// A message to send, and the options of the request.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub id: String,
    pub parts: Vec<Part>,
    pub task: Option<String>,
    pub context: Option<String>,
    pub wait: Option<Wait>,
    pub history: Option<i64>,
    pub webhook: Option<Webhook>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    UntilEnd,
    No,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    pub id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    pub credentials: Option<String>,
}

/// A part of a message or an artifact, independent of the binding.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
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

/// A request in the format of a binding.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
}

impl Prompt {
    /// A message whose id begins with `prefix`, by which the script chooses its behaviour.
    pub fn new(prefix: &str) -> Prompt {
        Prompt {
            id: format!("{prefix}-{}", fresh()),
            parts: vec![Part::Text("go".into())],
            task: None,
            context: None,
            wait: None,
            history: None,
            webhook: None,
        }
    }

    pub fn to(self, task: &str) -> Prompt {
        Prompt { task: Some(task.into()), ..self }
    }

    pub fn within(self, context: &str) -> Prompt {
        Prompt { context: Some(context.into()), ..self }
    }

    pub fn with_parts(self, parts: Vec<Part>) -> Prompt {
        Prompt { parts, ..self }
    }

    pub fn wait(self, wait: Wait) -> Prompt {
        Prompt { wait: Some(wait), ..self }
    }

    pub fn history(self, length: i64) -> Prompt {
        Prompt { history: Some(length), ..self }
    }

    pub fn with_webhook(self, webhook: Webhook) -> Prompt {
        Prompt { webhook: Some(webhook), ..self }
    }
}

impl Webhook {
    pub fn at(url: &str) -> Webhook {
        Webhook { id: None, url: url.into(), token: None, credentials: None }
    }

    pub fn named(self, id: &str) -> Webhook {
        Webhook { id: Some(id.into()), ..self }
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

    /// The request in the format of this binding; with JSON-RPC it has this id.
    pub fn request(self, op: &Op, id: &Value) -> HttpRequest {
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
            Op::SetWebhook(..) => ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"),
            Op::GetWebhook(..) => ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig"),
            Op::ListWebhooks(_) => ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs"),
            Op::DeleteWebhook(..) => ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig"),
            Op::ExtendedCard => ("agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"),
        };
        match self.version() {
            Version::V03 => old,
            Version::V10 => new,
        }
    }

    /// The body of `message:send`, which is also the parameters of the JSON-RPC method.
    pub fn sending(self, prompt: &Prompt) -> Value {
        let mut params = json!({"message": self.message(prompt)});
        let configuration = self.configuration(prompt);
        if !configuration.is_empty() {
            params["configuration"] = configuration.into();
        }
        params
    }

    pub fn message(self, prompt: &Prompt) -> Value {
        let parts: Vec<Value> = prompt.parts.iter().map(|part| self.part(part)).collect();
        let mut message = match self {
            Binding::Rpc03 => json!({"kind": "message", "role": "user", "parts": parts}),
            Binding::Rest03 => json!({"role": "ROLE_USER", "content": parts}),
            Binding::Rpc10 | Binding::Rest10 => json!({"role": "ROLE_USER", "parts": parts}),
        };
        message["messageId"] = prompt.id.as_str().into();
        if let Some(task) = &prompt.task {
            message["taskId"] = task.as_str().into();
        }
        if let Some(context) = &prompt.context {
            message["contextId"] = context.as_str().into();
        }
        message
    }

    pub fn part(self, part: &Part) -> Value {
        let named = |mut value: Value, file: &File, name: &str, media: &str| {
            if let Some(given) = &file.name {
                value[name] = given.as_str().into();
            }
            if let Some(given) = &file.media {
                value[media] = given.as_str().into();
            }
            value
        };
        match (self, part) {
            (Binding::Rpc03, Part::Text(text)) => json!({"kind": "text", "text": text}),
            (Binding::Rpc03, Part::Data(data)) => json!({"kind": "data", "data": data}),
            (Binding::Rpc03, Part::Bytes(bytes, file)) => {
                json!({"kind": "file", "file": named(json!({"bytes": bytes}), file, "name", "mimeType")})
            }
            (Binding::Rpc03, Part::Url(url, file)) => {
                json!({"kind": "file", "file": named(json!({"uri": url}), file, "name", "mimeType")})
            }
            (_, Part::Text(text)) => json!({"text": text}),
            (Binding::Rest03, Part::Data(data)) => json!({"data": {"data": data}}),
            (Binding::Rest03, Part::Bytes(bytes, file)) => {
                json!({"file": named(json!({"fileWithBytes": bytes}), file, "name", "mimeType")})
            }
            (Binding::Rest03, Part::Url(url, file)) => {
                json!({"file": named(json!({"fileWithUri": url}), file, "name", "mimeType")})
            }
            (Binding::Rpc10 | Binding::Rest10, Part::Data(data)) => json!({"data": data}),
            (Binding::Rpc10 | Binding::Rest10, Part::Bytes(bytes, file)) => {
                named(json!({"raw": bytes}), file, "filename", "mediaType")
            }
            (Binding::Rpc10 | Binding::Rest10, Part::Url(url, file)) => {
                named(json!({"url": url}), file, "filename", "mediaType")
            }
        }
    }

    /// The part as a response shows it: REST 0.3 has no member for the name of a file.
    pub fn shown(self, part: Part) -> Part {
        let nameless = |file: File| match self {
            Binding::Rest03 => File { name: None, ..file },
            Binding::Rpc03 | Binding::Rpc10 | Binding::Rest10 => file,
        };
        match part {
            Part::Bytes(bytes, file) => Part::Bytes(bytes, nameless(file)),
            Part::Url(url, file) => Part::Url(url, nameless(file)),
            part @ (Part::Text(_) | Part::Data(_)) => part,
        }
    }

    /// A webhook without its task.
    pub fn webhook(self, webhook: &Webhook) -> Value {
        let mut value = json!({"url": webhook.url});
        if let Some(id) = &webhook.id {
            value["id"] = id.as_str().into();
        }
        if let Some(token) = &webhook.token {
            value["token"] = token.as_str().into();
        }
        if let Some(credentials) = &webhook.credentials {
            value["authentication"] = match self.version() {
                Version::V03 => json!({"schemes": ["Bearer"], "credentials": credentials}),
                Version::V10 => json!({"scheme": "Bearer", "credentials": credentials}),
            };
        }
        value
    }

    fn configuration(self, prompt: &Prompt) -> Map<String, Value> {
        let mut configuration = Map::new();
        if let Some(wait) = prompt.wait {
            let (name, value) = match (self.version(), wait) {
                (Version::V03, Wait::UntilEnd) => ("blocking", true),
                (Version::V03, Wait::No) => ("blocking", false),
                (Version::V10, Wait::UntilEnd) => ("returnImmediately", false),
                (Version::V10, Wait::No) => ("returnImmediately", true),
            };
            configuration.insert(name.into(), value.into());
        }
        if let Some(length) = prompt.history {
            configuration.insert("historyLength".into(), length.into());
        }
        if let Some(webhook) = &prompt.webhook {
            let name = match self {
                Binding::Rpc03 => "pushNotificationConfig",
                Binding::Rest03 => "pushNotification",
                Binding::Rpc10 | Binding::Rest10 => "taskPushNotificationConfig",
            };
            configuration.insert(name.into(), self.webhook(webhook));
        }
        configuration
    }

    fn params(self, op: &Op) -> Value {
        let old = self.version() == Version::V03;
        match op {
            Op::Send(prompt) | Op::Stream(prompt) => self.sending(prompt),
            Op::Get(task, None) => json!({"id": task}),
            Op::Get(task, Some(length)) => json!({"id": task, "historyLength": length}),
            Op::List(query) => query.clone(),
            Op::Cancel(task) | Op::Subscribe(task) => json!({"id": task}),
            Op::SetWebhook(task, webhook) if old => {
                json!({"taskId": task, "pushNotificationConfig": self.webhook(webhook)})
            }
            Op::SetWebhook(task, webhook) => {
                let mut config = self.webhook(webhook);
                config["taskId"] = task.as_str().into();
                config
            }
            Op::GetWebhook(task, id) | Op::DeleteWebhook(task, id) if old => {
                json!({"id": task, "pushNotificationConfigId": id})
            }
            Op::GetWebhook(task, id) | Op::DeleteWebhook(task, id) => json!({"taskId": task, "id": id}),
            Op::ListWebhooks(task) if old => json!({"id": task}),
            Op::ListWebhooks(task) => json!({"taskId": task}),
            Op::ExtendedCard => json!({}),
        }
    }

    fn rest(self, op: &Op) -> HttpRequest {
        let base = match self.version() {
            Version::V03 => "/v1",
            Version::V10 => "",
        };
        let webhooks = |task: &str| format!("{base}/tasks/{task}/pushNotificationConfigs");
        match op {
            Op::Send(prompt) => post(&format!("{base}/message:send"), self.sending(prompt)),
            Op::Stream(prompt) => post(&format!("{base}/message:stream"), self.sending(prompt)),
            Op::Get(task, None) => bare("GET", format!("{base}/tasks/{task}")),
            Op::Get(task, Some(length)) => bare("GET", format!("{base}/tasks/{task}?historyLength={length}")),
            Op::List(query) => bare("GET", format!("{base}/tasks{}", query_string(query))),
            Op::Cancel(task) => bare("POST", format!("{base}/tasks/{task}:cancel")),
            Op::Subscribe(task) => bare("POST", format!("{base}/tasks/{task}:subscribe")),
            Op::SetWebhook(task, webhook) => {
                let config = self.webhook(webhook);
                let id = webhook.id.as_deref().unwrap_or("");
                let body = match self.version() {
                    Version::V03 => json!({
                        "name": format!("tasks/{task}/pushNotificationConfigs/{id}"),
                        "pushNotificationConfig": config,
                    }),
                    Version::V10 => config,
                };
                post(&webhooks(task), body)
            }
            Op::GetWebhook(task, id) => bare("GET", format!("{}/{id}", webhooks(task))),
            Op::ListWebhooks(task) => bare("GET", webhooks(task)),
            Op::DeleteWebhook(task, id) => bare("DELETE", format!("{}/{id}", webhooks(task))),
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

pub fn post(path: &str, body: Value) -> HttpRequest {
    HttpRequest { method: "POST", path: path.into(), body: Some(body) }
}

fn bare(method: &'static str, path: String) -> HttpRequest {
    HttpRequest { method, path, body: None }
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
