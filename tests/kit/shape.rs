//! Responses of every binding, parsed into the same types and checked by the rules of the binding: unknown members, states and roles in the
//! format of another binding, and timestamps that are not UTC fail the test.

use crate::binding::{Binding, File, Part, Version};
use serde_json::Value;

/// The response to a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Task(Task),
    Message(Message),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: String,
    pub context: String,
    pub status: Status,
    /// None where the member is absent.
    pub history: Option<Vec<Message>>,
    pub artifacts: Option<Vec<Artifact>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The name of the state in 0.3: `input-required`, `canceled`, ….
    pub state: &'static str,
    pub message: Option<Message>,
    pub timestamp: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: String,
    /// `user` or `agent`.
    pub role: &'static str,
    pub parts: Vec<Part>,
    pub task: Option<String>,
    pub context: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    pub id: String,
    pub name: Option<String>,
    pub parts: Vec<Part>,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    Task(Task),
    Message(Message),
    Status {
        task: String,
        status: Status,
        /// The member `final`, which only 0.3 has.
        last: Option<bool>,
    },
    Artifact {
        task: String,
        artifact: Artifact,
        append: bool,
        last_chunk: bool,
    },
}

impl Status {
    /// The text of the message.
    pub fn text(&self) -> String {
        self.message.as_ref().map(Message::text).unwrap_or_default()
    }
}

impl Message {
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

impl Artifact {
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

impl Task {
    pub fn state(&self) -> &'static str {
        self.status.state
    }

    pub fn history(&self) -> &[Message] {
        self.history.as_deref().unwrap_or_default()
    }

    pub fn artifacts(&self) -> &[Artifact] {
        self.artifacts.as_deref().unwrap_or_default()
    }

    /// The ids of the messages of users, in order.
    pub fn prompt_ids(&self) -> Vec<&str> {
        let users = self.history().iter().filter(|message| message.role == "user");
        users.map(|message| message.id.as_str()).collect()
    }
}

impl Update {
    pub fn task_id(&self) -> &str {
        match self {
            Update::Task(task) => &task.id,
            Update::Message(message) => message.task.as_deref().unwrap_or_default(),
            Update::Status { task, .. } | Update::Artifact { task, .. } => task,
        }
    }

    pub fn state(&self) -> Option<&'static str> {
        match self {
            Update::Task(task) => Some(task.state()),
            Update::Status { status, .. } => Some(status.state),
            Update::Message(_) | Update::Artifact { .. } => None,
        }
    }

    pub fn is_last(&self) -> bool {
        matches!(self, Update::Status { last: Some(true), .. })
    }
}

pub fn is_terminal(state: &str) -> bool {
    matches!(state, "completed" | "failed" | "canceled" | "rejected")
}

/// The result of sending a message.
pub fn answer(binding: Binding, value: &Value) -> Answer {
    let (kind, inner) = unwrapped(binding, value, "an answer");
    match kind {
        "task" => Answer::Task(task(binding, inner)),
        "message" => Answer::Message(message(binding, inner)),
        other => panic!("{binding:?} answers with {other}: {value}"),
    }
}

/// The payload of one event.
pub fn update(binding: Binding, value: &Value) -> Update {
    let (kind, inner) = unwrapped(binding, value, "an event");
    let task_id = || text(inner, "taskId");
    match kind {
        "task" => Update::Task(task(binding, inner)),
        "message" => Update::Message(message(binding, inner)),
        "status-update" | "statusUpdate" => {
            let last = match binding.version() {
                Version::V03 => inner["final"].as_bool().map(Some),
                Version::V10 => Some(None),
            };
            let last = last.unwrap_or_else(|| panic!("{binding:?}: no `final` in {inner}"));
            let mut known = vec!["taskId", "contextId", "status", "metadata"];
            known.extend(last.map(|_| "final"));
            only(binding, inner, &known);
            text(inner, "contextId");
            Update::Status { task: task_id(), status: status(binding, &inner["status"]), last }
        }
        "artifact-update" | "artifactUpdate" => {
            only(binding, inner, &["taskId", "contextId", "artifact", "append", "lastChunk", "metadata"]);
            text(inner, "contextId");
            Update::Artifact {
                task: task_id(),
                artifact: artifact(binding, &inner["artifact"]),
                append: inner["append"].as_bool().unwrap_or(false),
                last_chunk: inner["lastChunk"].as_bool().unwrap_or(false),
            }
        }
        other => panic!("{binding:?} streams {other}: {value}"),
    }
}

pub fn task(binding: Binding, value: &Value) -> Task {
    if binding.version() == Version::V10 {
        camel_case(value);
    }
    only(binding, value, &["id", "contextId", "status", "history", "artifacts", "metadata"]);
    kind(binding, value, "task");
    let list = |name: &str| value.get(name).map(array);
    Task {
        id: text(value, "id"),
        context: text(value, "contextId"),
        status: status(binding, &value["status"]),
        history: list("history").map(|list| list.iter().map(|m| message(binding, m)).collect()),
        artifacts: list("artifacts").map(|list| list.iter().map(|a| artifact(binding, a)).collect()),
    }
}

pub fn message(binding: Binding, value: &Value) -> Message {
    let parts_member = match binding {
        Binding::Rest03 => "content",
        Binding::Rpc03 | Binding::Rpc10 | Binding::Rest10 => "parts",
    };
    let mut known = vec!["messageId", "role", parts_member, "taskId", "contextId", "metadata", "extensions"];
    if binding.version() == Version::V10 {
        known.push("referenceTaskIds");
    }
    only(binding, value, &known);
    kind(binding, value, "message");
    let role = match (binding, text(value, "role").as_str()) {
        (Binding::Rpc03, "user") => "user",
        (Binding::Rpc03, "agent") => "agent",
        (Binding::Rest03 | Binding::Rpc10 | Binding::Rest10, "ROLE_USER") => "user",
        (Binding::Rest03 | Binding::Rpc10 | Binding::Rest10, "ROLE_AGENT") => "agent",
        (_, other) => panic!("{binding:?} has the role {other}: {value}"),
    };
    Message {
        id: text(value, "messageId"),
        role,
        parts: parts(binding, &value[parts_member]),
        task: value["taskId"].as_str().map(str::to_owned),
        context: value["contextId"].as_str().map(str::to_owned),
    }
}

pub fn artifact(binding: Binding, value: &Value) -> Artifact {
    only(binding, value, &["artifactId", "name", "description", "parts", "metadata", "extensions"]);
    Artifact {
        id: text(value, "artifactId"),
        name: value["name"].as_str().map(str::to_owned),
        parts: parts(binding, &value["parts"]),
    }
}

fn status(binding: Binding, value: &Value) -> Status {
    only(binding, value, &["state", "message", "timestamp"]);
    let timestamp = text(value, "timestamp");
    assert!(is_utc(&timestamp), "{binding:?}: {timestamp} is not UTC");
    Status {
        state: state(binding, &text(value, "state")),
        message: value.get("message").map(|value| message(binding, value)),
        timestamp,
    }
}

/// Turns the name of a state in this binding into its name in 0.3.
fn state(binding: Binding, spelled: &str) -> &'static str {
    const WORDS: [(&str, &str); 7] = [
        ("submitted", "TASK_STATE_SUBMITTED"),
        ("working", "TASK_STATE_WORKING"),
        ("input-required", "TASK_STATE_INPUT_REQUIRED"),
        ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
        ("completed", "TASK_STATE_COMPLETED"),
        ("failed", "TASK_STATE_FAILED"),
        ("rejected", "TASK_STATE_REJECTED"),
    ];
    let canceled = match binding {
        Binding::Rpc03 => "canceled",
        Binding::Rest03 => "TASK_STATE_CANCELLED",
        Binding::Rpc10 | Binding::Rest10 => "TASK_STATE_CANCELED",
    };
    let found = WORDS.into_iter().find(|(word, name)| match binding {
        Binding::Rpc03 => *word == spelled,
        Binding::Rest03 | Binding::Rpc10 | Binding::Rest10 => *name == spelled,
    });
    match found {
        Some((word, _)) => word,
        None if spelled == canceled => "canceled",
        None => panic!("{binding:?} has no state {spelled}"),
    }
}

fn parts(binding: Binding, value: &Value) -> Vec<Part> {
    let list = array(value);
    assert!(!list.is_empty(), "{binding:?}: a list of parts is empty");
    list.iter().map(|value| part(binding, value)).collect()
}

fn part(binding: Binding, value: &Value) -> Part {
    let owned = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    match binding {
        Binding::Rpc03 => {
            let file = || File { name: owned(&value["file"], "name"), media: owned(&value["file"], "mimeType") };
            match value["kind"].as_str() {
                Some("text") => Part::Text(text(value, "text")),
                Some("data") => Part::Data(object(&value["data"]).clone()),
                Some("file") => match owned(&value["file"], "bytes") {
                    Some(bytes) => Part::Bytes(bytes, file()),
                    None => Part::Url(text(&value["file"], "uri"), file()),
                },
                _ => panic!("not a part of 0.3: {value}"),
            }
        }
        Binding::Rest03 => {
            only(binding, value, &["text", "file", "data"]);
            let file = || File { name: owned(&value["file"], "name"), media: owned(&value["file"], "mimeType") };
            match exactly_one(value, &["text", "file", "data"]) {
                "text" => Part::Text(text(value, "text")),
                "data" => Part::Data(object(&value["data"]["data"]).clone()),
                _ => {
                    only(binding, &value["file"], &["fileWithUri", "fileWithBytes", "mimeType", "name"]);
                    match owned(&value["file"], "fileWithBytes") {
                        Some(bytes) => Part::Bytes(bytes, file()),
                        None => Part::Url(text(&value["file"], "fileWithUri"), file()),
                    }
                }
            }
        }
        Binding::Rpc10 | Binding::Rest10 => {
            only(binding, value, &["text", "raw", "url", "data", "filename", "mediaType", "metadata"]);
            let file = || File { name: owned(value, "filename"), media: owned(value, "mediaType") };
            match exactly_one(value, &["text", "raw", "url", "data"]) {
                "text" => Part::Text(text(value, "text")),
                "raw" => Part::Bytes(text(value, "raw"), file()),
                "url" => Part::Url(text(value, "url"), file()),
                _ => Part::Data(value["data"].clone()),
            }
        }
    }
}

/// The kind of a result, and the object itself. JSON-RPC 0.3 has the kind in a member of the object; the other bindings wrap the object in
/// another one, whose only member has the kind as its name.
fn unwrapped<'a>(binding: Binding, value: &'a Value, what: &str) -> (&'a str, &'a Value) {
    match binding {
        Binding::Rpc03 => {
            let kind = value["kind"].as_str();
            (kind.unwrap_or_else(|| panic!("{what} without a kind: {value}")), value)
        }
        Binding::Rest03 | Binding::Rpc10 | Binding::Rest10 => {
            let members = value.as_object();
            let mut members = members.into_iter().flatten();
            match (members.next(), members.next()) {
                (Some((name, inner)), None) => (name.as_str(), inner),
                _ => panic!("{what} with more or less than one member: {value}"),
            }
        }
    }
}

/// Checks that an object has only known members. Clients refuse an object with others, except in JSON-RPC 0.3.
fn only(binding: Binding, value: &Value, known: &[&str]) {
    if binding == Binding::Rpc03 {
        return;
    }
    let members = value.as_object().unwrap_or_else(|| panic!("{binding:?}: not an object: {value}"));
    for name in members.keys() {
        assert!(known.contains(&name.as_str()), "{binding:?}: {name:?} is not in the schema: {value}");
    }
}

fn kind(binding: Binding, value: &Value, expected: &str) {
    if binding == Binding::Rpc03 {
        assert_eq!(value["kind"], expected, "{value}");
    }
}

/// Checks that no name is in snake case, except inside data and metadata.
fn camel_case(value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let lower = |c: char| c.is_ascii_lowercase() || c == '_';
                let snake = name.contains('_') && name.chars().all(lower);
                assert!(!snake, "{name:?} is in snake case: {value}");
                if name != "data" && name != "metadata" {
                    camel_case(value);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(camel_case),
        _ => {}
    }
}

fn exactly_one<'a>(value: &Value, names: &[&'a str]) -> &'a str {
    let mut present = names.iter().filter(|name| value.get(**name).is_some());
    match (present.next(), present.next()) {
        (Some(name), None) => name,
        _ => panic!("exactly one of {names:?} in {value}"),
    }
}

fn is_utc(timestamp: &str) -> bool {
    let pattern = "0000-00-00T00:00:00.000Z";
    timestamp.len() == pattern.len()
        && timestamp.chars().zip(pattern.chars()).all(|(c, p)| match p {
            '0' => c.is_ascii_digit(),
            other => c == other,
        })
}

pub fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Bytes(..) | Part::Url(..) | Part::Data(_) => None,
    });
    texts.collect()
}

fn text(value: &Value, name: &str) -> String {
    let found = value[name].as_str().map(str::to_owned);
    found.unwrap_or_else(|| panic!("no text {name:?} in {value}"))
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn object(value: &Value) -> &Value {
    assert!(value.is_object(), "not an object: {value}");
    value
}
