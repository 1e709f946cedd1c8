//! The 0.3 writer: A2A values as the JSON of protocol version 0.3 (`kind` everywhere, lower-case words, `final` on status
//! updates). Always one line.
//!
//! Status updates are written by hand into one buffer, because a chunk of text is one and there may be tens of thousands a
//! second; everything else goes through serde.

use crate::a2a::encodings::value::{ArtifactUpdate, Finality, Frame, Piece, StatusUpdate, Task};
use crate::a2a::words;
use crate::base::clock::rfc3339;
use crate::base::id::{ContextId, MessageId, TaskId};
use crate::base::json;
use crate::task::log::event::Created;
use crate::task::message::{Artifact, Content, Message, Part};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;

pub fn frame(created: &Created, frame: &Frame<'_>, finality: Finality) -> Vec<u8> {
    match frame {
        Frame::Status(update) => status(created, update, finality),
        Frame::Artifact(update) => artifact(created, update),
    }
}

pub fn status(created: &Created, update: &StatusUpdate<'_>, finality: Finality) -> Vec<u8> {
    let (last, metadata) = match finality {
        Finality::Open => ("false", &update.metadata),
        Finality::Closing => ("true", update.closing.as_ref().unwrap_or(&update.metadata)),
    };
    let payload = update.message.as_ref().map_or(0, |message| message.pieces().map(Piece::size).sum());
    let mut out = Vec::with_capacity(640 + metadata.len() + payload);
    out.extend_from_slice(br#"{"kind":"status-update","#);
    let place = place(&mut out, created);
    out.extend_from_slice(br#","status":{"state":""#);
    out.extend_from_slice(words::state(update.state).as_bytes());
    out.push(b'"');
    if let Some(message) = &update.message {
        out.extend_from_slice(br#","message":{"kind":"message","role":"agent","parts":["#);
        for piece in message.pieces() {
            match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(br#"{"kind":"text","text":"#);
                    json::write(&mut out, text);
                }
                Piece::Data(data) => {
                    out.extend_from_slice(br#"{"kind":"data","data":"#);
                    out.extend_from_slice(data);
                }
            }
            out.extend_from_slice(b"},");
        }
        out.pop();
        out.push(b']');
        if let Some(extension) = message.extension {
            out.extend_from_slice(br#","extensions":"#);
            json::write(&mut out, &[extension]);
        }
        out.extend_from_slice(br#","messageId":"#);
        out.extend_from_within(place.task);
        out.pop();
        write!(out, "-{}\",", message.since).expect("memory takes it");
        out.extend_from_within(place.whole);
        out.push(b'}');
    }
    out.extend_from_slice(br#","timestamp":""#);
    out.extend_from_slice(rfc3339(update.at).as_bytes());
    out.extend_from_slice(br#""},"final":"#);
    out.extend_from_slice(last.as_bytes());
    out.extend_from_slice(br#","metadata":"#);
    out.extend_from_slice(metadata);
    out.push(b'}');
    out
}

pub fn task(task: &Task<'_>) -> Vec<u8> {
    let Created { task: id, context, .. } = task.created;
    let message = |message| MessageOut::of(message, Some(id), context);
    json::bytes(&TaskOut {
        kind: "task",
        id,
        context_id: context,
        status: StatusOut {
            state: words::state(task.state),
            message: task.message.as_ref().map(message),
            timestamp: rfc3339(task.at),
        },
        history: task.history.as_ref().map(|all| all.iter().map(|one| message(one)).collect()),
        artifacts: task.artifacts.as_ref().map(|all| all.iter().map(|one| ArtifactOut::of(one)).collect()),
        metadata: match task.persisted {
            true => persisted(task),
            false => Map::new(),
        },
    })
}

/// What the reference server writes into its own store, and so shows: some of its clients look at it.
fn persisted(task: &Task<'_>) -> Map<String, Value> {
    let created = task.created;
    let mut settings = json!({
        "kind": "agent-settings",
        "workspacePath": created.workspace,
        "isTrusted": created.trusted,
    });
    if created.auto_execute {
        settings["autoExecute"] = true.into();
    }
    let state = json!({ "_agentSettings": settings, "_taskState": words::state(task.state) });
    Map::from_iter([("__persistedState".to_owned(), state), ("_contextId".to_owned(), json!(created.context))])
}

/// A message that belongs to no task.
pub fn message(message: &Message, context: &ContextId) -> Vec<u8> {
    json::bytes(&MessageOut::of(message, None, context))
}

fn artifact(created: &Created, update: &ArtifactUpdate<'_>) -> Vec<u8> {
    json::bytes(&ArtifactUpdateOut {
        kind: "artifact-update",
        task_id: &created.task,
        context_id: &created.context,
        artifact: ArtifactOut::of(&update.artifact),
        append: update.append,
        last_chunk: update.last,
    })
}

/// Where a frame says which task it belongs to. Said once and copied from there: escaping is what costs.
struct WrittenIds {
    whole: Range<usize>,
    /// The task's id in it, with its quotes.
    task: Range<usize>,
}

fn place(out: &mut Vec<u8>, created: &Created) -> WrittenIds {
    let start = out.len();
    out.extend_from_slice(br#""taskId":"#);
    let task = out.len();
    json::write(out, &created.task);
    let task = task..out.len();
    out.extend_from_slice(br#","contextId":"#);
    json::write(out, &created.context);
    WrittenIds { whole: start..out.len(), task }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskOut<'a> {
    kind: &'static str,
    id: &'a TaskId,
    context_id: &'a ContextId,
    status: StatusOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<MessageOut<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifacts: Option<Vec<ArtifactOut<'a>>>,
    metadata: Map<String, Value>,
}

#[derive(Serialize)]
struct StatusOut<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageOut<'a>>,
    timestamp: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageOut<'a> {
    kind: &'static str,
    role: &'static str,
    message_id: &'a MessageId,
    parts: Vec<PartOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    extensions: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    reference_task_ids: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskId>,
    context_id: &'a ContextId,
}

impl<'a> MessageOut<'a> {
    fn of(message: &'a Message, task: Option<&'a TaskId>, context: &'a ContextId) -> MessageOut<'a> {
        MessageOut {
            kind: "message",
            role: words::role(message.role),
            message_id: &message.id,
            parts: message.parts.iter().map(PartOut::of).collect(),
            metadata: message.metadata.as_ref(),
            extensions: &message.extensions,
            reference_task_ids: &message.references,
            task_id: task,
            context_id: context,
        }
    }
}

#[derive(Serialize)]
struct PartOut<'a> {
    #[serde(flatten)]
    content: ContentOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, Map<String, Value>>>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum ContentOut<'a> {
    Text { text: &'a str },
    File { file: FileOut<'a> },
    Data { data: Cow<'a, Value> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
}

impl<'a> PartOut<'a> {
    fn of(part: &'a Part) -> PartOut<'a> {
        let file = |bytes, uri| ContentOut::File {
            file: FileOut { bytes, uri, name: part.filename.as_deref(), mime_type: part.media_type.as_deref() },
        };
        let metadata = part.metadata.as_ref().map(Cow::Borrowed);
        let content = match &part.content {
            Content::Text(text) => ContentOut::Text { text },
            Content::Bytes(bytes) => file(Some(bytes.as_str()), None),
            Content::Uri(uri) => file(None, Some(uri.as_str())),
            Content::Data(data) if data.is_object() => ContentOut::Data { data: Cow::Borrowed(data) },
            Content::Data(data) => return PartOut::wrapped(data, metadata.unwrap_or_default()),
        };
        PartOut { content, metadata }
    }

    /// 0.3 data is always an object: other values travel in one that says so.
    fn wrapped(data: &Value, mut metadata: Cow<'a, Map<String, Value>>) -> PartOut<'a> {
        metadata.to_mut().insert("data_part_compat".into(), true.into());
        PartOut { content: ContentOut::Data { data: Cow::Owned(json!({ "value": data })) }, metadata: Some(metadata) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactOut<'a> {
    artifact_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parts: Vec<PartOut<'a>>,
}

impl<'a> ArtifactOut<'a> {
    pub fn of(artifact: &'a Artifact) -> ArtifactOut<'a> {
        ArtifactOut {
            artifact_id: &artifact.id,
            name: artifact.name.as_deref(),
            description: artifact.description.as_deref(),
            parts: artifact.parts.iter().map(PartOut::of).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactUpdateOut<'a> {
    kind: &'static str,
    task_id: &'a TaskId,
    context_id: &'a ContextId,
    artifact: ArtifactOut<'a>,
    append: bool,
    last_chunk: bool,
}
