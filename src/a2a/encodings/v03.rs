//! The 0.3 writer: A2A values as the JSON of protocol version 0.3 (`kind` everywhere, lower-case words, `final` on status
//! updates). Always one line.
//!
//! Everything is written into one buffer, because a chunk of text is a status update and there may be tens of thousands a second.

use crate::a2a::encodings::object::{self, Object, object};
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Finality, Frame, Piece, StatusUpdate, Task};
use crate::a2a::words;
use crate::base::clock::rfc3339;
use crate::base::id::{ContextId, TaskId};
use crate::task::log::event::Created;
use crate::task::message::{Artifact, Content, Message, Part};
use serde_json::{Map, Value, json};

pub fn frame(created: &Created, frame: &Frame<'_>, finality: Finality) -> Vec<u8> {
    match frame {
        Frame::Status(update) => status(created, update, finality),
        Frame::Artifact(update) => artifact_update(created, update),
    }
}

fn status(created: &Created, update: &StatusUpdate<'_>, finality: Finality) -> Vec<u8> {
    object(|o| {
        o.member("kind", "status-update").member("taskId", &created.task).member("contextId", &created.context);
        o.object("status", |o| {
            o.member("state", words::state(update.state));
            if let Some(message) = &update.message {
                o.object("message", |o| agent_message(o, created, message));
            }
            o.member("timestamp", &rfc3339(update.at));
        });
        o.member("final", &(finality == Finality::Closing));
        o.name("metadata").extend_from_slice(update.metadata(finality));
    })
}

/// What the agent says in a status update.
fn agent_message(o: &mut Object<'_>, created: &Created, message: &AgentMessage<'_>) {
    o.member("kind", "message").member("role", "agent");
    o.list("parts", message.pieces(), |out, piece| {
        object::write(out, |o| match piece {
            Piece::Text(text) => _ = o.member("kind", "text").member("text", text),
            Piece::Data(data) => o.member("kind", "data").name("data").extend_from_slice(data),
        });
    });
    o.optional("extensions", message.extension.map(|extension| [extension]));
    o.member("messageId", &message.id(created)).member("taskId", &created.task);
    o.member("contextId", &created.context);
}

pub fn task(task: &Task<'_>) -> Vec<u8> {
    let Created { task: id, context, .. } = task.created;
    object(|o| {
        o.member("kind", "task").member("id", id).member("contextId", context);
        o.object("status", |o| {
            o.member("state", words::state(task.state));
            if let Some(message) = &task.message {
                o.object("message", |o| write_message(o, message, Some(id), context));
            }
            o.member("timestamp", &rfc3339(task.at));
        });
        if let Some(history) = &task.history {
            o.list("history", history, |out, one| {
                object::write(out, |o| write_message(o, one, Some(id), context));
            });
        }
        if let Some(artifacts) = &task.artifacts {
            o.list("artifacts", artifacts, |out, one| object::write(out, |o| artifact(o, one)));
        }
        o.member("metadata", &if task.persisted { persisted(task) } else { Map::new() });
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
    object(|o| write_message(o, message, None, context))
}

fn artifact_update(created: &Created, update: &ArtifactUpdate<'_>) -> Vec<u8> {
    object(|o| {
        o.member("kind", "artifact-update").member("taskId", &created.task).member("contextId", &created.context);
        o.object("artifact", |o| artifact(o, &update.artifact));
        o.member("append", &update.append).member("lastChunk", &update.last);
    })
}

fn write_message(o: &mut Object<'_>, message: &Message, task: Option<&TaskId>, context: &ContextId) {
    o.member("kind", "message").member("role", words::role(message.role)).member("messageId", &message.id);
    o.list("parts", &message.parts, part).optional("metadata", message.metadata.as_ref());
    o.filled("extensions", &message.extensions).filled("referenceTaskIds", &message.references);
    o.optional("taskId", task).member("contextId", context);
}

/// The members of an artifact.
pub fn artifact(o: &mut Object<'_>, artifact: &Artifact) {
    o.member("artifactId", &artifact.id).optional("name", artifact.name.as_ref());
    o.optional("description", artifact.description.as_ref()).list("parts", &artifact.parts, part);
}

fn part(out: &mut Vec<u8>, part: &Part) {
    let file = |o: &mut Object<'_>, name: &str, content: &str| {
        o.member("kind", "file").object("file", |o| {
            o.member(name, content).optional("name", part.filename.as_ref());
            o.optional("mimeType", part.media_type.as_ref());
        });
    };
    object::write(out, |o| {
        match &part.content {
            Content::Text(text) => _ = o.member("kind", "text").member("text", text),
            Content::Bytes(bytes) => file(o, "bytes", bytes),
            Content::Uri(uri) => file(o, "uri", uri),
            Content::Data(data) if data.is_object() => _ = o.member("kind", "data").member("data", data),
            // 0.3 data is always an object: other values are wrapped in one, and the metadata says so.
            Content::Data(data) => {
                o.member("kind", "data").object("data", |o| _ = o.member("value", data));
                let mut metadata = part.metadata.clone().unwrap_or_default();
                metadata.insert("data_part_compat".into(), true.into());
                o.member("metadata", &metadata);
                return;
            }
        }
        o.optional("metadata", part.metadata.as_ref());
    });
}
