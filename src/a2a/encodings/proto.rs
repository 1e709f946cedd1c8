//! The writers of protobuf JSON: A2A 1.0, and the REST binding of 0.3. The two are one dialect with a few words exchanged, so
//! they are one writer that is told its [`Edition`]; every difference is a `match` on it.
//!
//! | | 1.0 | 0.3 |
//! |---|---|---|
//! | parts of a message | `parts` | `content` |
//! | a file | `raw` or `url`, `filename`, `mediaType` | `file` around `fileWithBytes` or `fileWithUri`, `mimeType` |
//! | data | any JSON | an object inside an object |
//! | a task that was stopped | `CANCELED` | `CANCELLED` |
//! | the end of a stream | the stream ends | `final` |
//! | metadata of parts, referenced tasks | there | not there |
//!
//! Readers of either refuse members they do not know, so nothing is added here, and what is empty is left out. Everything is
//! written by hand into one buffer: a chunk of text is a status update in some profiles and an artifact update in others, and
//! there may be tens of thousands a second.

use crate::a2a::encodings::object::{self, Object, object};
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Finality, Frame, Piece, StatusUpdate, Task};
use crate::a2a::words;
use crate::base::clock::rfc3339;
use crate::base::id::{ContextId, TaskId};
use crate::task::log::event::Created;
use crate::task::machine::state::TaskState;
use crate::task::message::{Artifact, Content, Message, Part};
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    V03,
    V10,
}

/// One event of a stream, in the wrapper that says what it is.
pub fn frame(edition: Edition, created: &Created, frame: &Frame<'_>, finality: Finality) -> Vec<u8> {
    match frame {
        Frame::Status(update) => status(edition, created, update, finality),
        Frame::Artifact(update) => artifact_update(edition, created, update),
    }
}

fn status(edition: Edition, created: &Created, update: &StatusUpdate<'_>, finality: Finality) -> Vec<u8> {
    let metadata = update.metadata(finality);
    let members = |o: &mut Object<'_>| {
        o.member("taskId", &created.task).member("contextId", &created.context);
        o.object("status", |o| {
            o.member("state", state_word(edition, update.state));
            if let Some(message) = &update.message {
                o.object("message", |o| agent_message(o, edition, created, message));
            }
            o.member("timestamp", &rfc3339(update.at));
        });
        match edition {
            Edition::V03 => _ = o.member("final", &(finality == Finality::Closing)),
            Edition::V10 => {}
        }
        if metadata != b"{}" {
            o.name("metadata").extend_from_slice(metadata);
        }
    };
    object(|o| _ = o.object("statusUpdate", members))
}

/// A task as a whole, without a wrapper.
pub fn task(edition: Edition, task: &Task<'_>) -> Vec<u8> {
    let Created { task: id, context, .. } = task.created;
    object(|o| {
        o.member("id", id).member("contextId", context);
        o.object("status", |o| {
            o.member("state", state_word(edition, task.state));
            if let Some(message) = &task.message {
                o.object("message", |o| write_message(o, edition, message, Some(id), context));
            }
            o.member("timestamp", &rfc3339(task.at));
        });
        if let Some(history) = task.history.as_ref().filter(|all| !all.is_empty()) {
            o.list("history", history, |out, one| {
                object::write(out, |o| write_message(o, edition, one, Some(id), context));
            });
        }
        if let Some(artifacts) = &task.artifacts {
            o.list("artifacts", artifacts, |out, one| object::write(out, |o| write_artifact(o, edition, one)));
        }
    })
}

/// A message that belongs to no task, in its wrapper.
pub fn message(edition: Edition, message: &Message, context: &ContextId) -> Vec<u8> {
    object(|o| _ = o.object("message", |o| write_message(o, edition, message, None, context)))
}

fn artifact_update(edition: Edition, created: &Created, update: &ArtifactUpdate<'_>) -> Vec<u8> {
    let members = |o: &mut Object<'_>| {
        o.member("taskId", &created.task).member("contextId", &created.context);
        o.object("artifact", |o| write_artifact(o, edition, &update.artifact));
        o.optional("append", update.append.then_some(true)).optional("lastChunk", update.last.then_some(true));
    };
    object(|o| _ = o.object("artifactUpdate", members))
}

fn write_message(o: &mut Object<'_>, edition: Edition, message: &Message, task: Option<&TaskId>, context: &ContextId) {
    o.member("messageId", &message.id).member("contextId", context).optional("taskId", task);
    o.member("role", words::proto_role(message.role));
    o.list(parts_name(edition), &message.parts, |out, part| object::write(out, |o| write_part(o, edition, part)));
    metadata(o, message.metadata.as_ref());
    o.filled("extensions", &message.extensions);
    match edition {
        Edition::V10 => _ = o.filled("referenceTaskIds", &message.references),
        Edition::V03 => {}
    }
}

/// What the agent says in a status update.
fn agent_message(o: &mut Object<'_>, edition: Edition, created: &Created, message: &AgentMessage<'_>) {
    o.member("messageId", &message.id(created));
    o.member("taskId", &created.task).member("contextId", &created.context).member("role", "ROLE_AGENT");
    o.list(parts_name(edition), message.pieces(), |out, piece| {
        object::write(out, |o| match (piece, edition) {
            (Piece::Text(text), _) => _ = o.member("text", text),
            (Piece::Data(data), Edition::V03) => {
                o.object("data", |o| o.name("data").extend_from_slice(data));
            }
            (Piece::Data(data), Edition::V10) => {
                o.name("data").extend_from_slice(data);
                o.member("mediaType", "application/json");
            }
        });
    });
    o.optional("extensions", message.extension.map(|extension| [extension]));
}

fn write_artifact(o: &mut Object<'_>, edition: Edition, artifact: &Artifact) {
    o.member("artifactId", &artifact.id).optional("name", artifact.name.as_ref());
    o.optional("description", artifact.description.as_ref());
    o.list("parts", &artifact.parts, |out, part| object::write(out, |o| write_part(o, edition, part)));
}

fn write_part(o: &mut Object<'_>, edition: Edition, part: &Part) {
    match (edition, &part.content) {
        (_, Content::Text(text)) => _ = o.member("text", text),
        (Edition::V10, Content::Bytes(bytes)) => _ = o.member("raw", bytes),
        (Edition::V10, Content::Uri(uri)) => _ = o.member("url", uri),
        (Edition::V10, Content::Data(data)) => _ = o.member("data", data),
        (Edition::V03, Content::Bytes(bytes)) => file_03(o, part, "fileWithBytes", bytes),
        (Edition::V03, Content::Uri(uri)) => file_03(o, part, "fileWithUri", uri),
        // Always an object; other values are wrapped in one.
        (Edition::V03, Content::Data(data)) if data.is_object() => {
            o.object("data", |o| _ = o.member("data", data));
        }
        (Edition::V03, Content::Data(data)) => {
            o.object("data", |o| _ = o.object("data", |o| _ = o.member("value", data)));
        }
    }
    match edition {
        Edition::V03 => {}
        Edition::V10 => {
            let is_data = matches!(part.content, Content::Data(_));
            let media_type = part.media_type.as_deref().or(is_data.then_some("application/json"));
            o.optional("filename", part.filename.as_ref()).optional("mediaType", media_type);
            metadata(o, part.metadata.as_ref());
        }
    }
}

fn file_03(o: &mut Object<'_>, part: &Part, name: &str, content: &str) {
    o.object("file", |o| _ = o.member(name, content).optional("mimeType", part.media_type.as_ref()));
}

fn parts_name(edition: Edition) -> &'static str {
    match edition {
        Edition::V03 => "content",
        Edition::V10 => "parts",
    }
}

fn state_word(edition: Edition, state: TaskState) -> &'static str {
    match edition {
        Edition::V03 => words::proto03_state(state),
        Edition::V10 => words::v10_state(state),
    }
}

fn metadata(o: &mut Object<'_>, metadata: Option<&Map<String, Value>>) {
    o.optional("metadata", metadata.filter(|metadata| !metadata.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::id::Seq;
    use serde_json::json;
    use std::borrow::Cow;

    const TIME: &str = "2026-03-01T09:30:00.125Z";
    const EDITIONS: [Edition; 2] = [Edition::V03, Edition::V10];

    fn value(bytes: &[u8]) -> Value {
        assert!(!bytes.contains(&b'\n'), "one line");
        serde_json::from_slice(bytes).expect("JSON")
    }

    fn created() -> Created {
        let mut created = sample::state().created.as_ref().clone();
        created.context = "c\"1".into();
        created
    }

    fn update(piece: Option<Piece<'_>>) -> StatusUpdate<'_> {
        StatusUpdate {
            state: TaskState::Canceled,
            at: sample::AT,
            message: piece.map(|piece| AgentMessage::new(Seq(5), piece)),
            metadata: b"{}".to_vec(),
            closing: Some(br#"{"k":1}"#.to_vec()),
        }
    }

    fn written(edition: Edition, piece: Option<Piece<'_>>, finality: Finality) -> Value {
        let frame = Frame::Status(update(piece));
        value(&super::frame(edition, &created(), &frame, finality))
    }

    #[test]
    fn a_status_update_of_either_edition() {
        let text = "a \"quote\"\n";
        assert_eq!(
            written(Edition::V10, Some(Piece::Text(text.into())), Finality::Open),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1", "status": {
                "state": "TASK_STATE_CANCELED", "timestamp": TIME,
                "message": {"role": "ROLE_AGENT", "messageId": "t-1-5", "taskId": "t-1", "contextId": "c\"1",
                    "parts": [{"text": text}]}}}})
        );
        assert_eq!(
            written(Edition::V03, Some(Piece::Text(text.into())), Finality::Open),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1", "final": false, "status": {
                "state": "TASK_STATE_CANCELLED", "timestamp": TIME,
                "message": {"role": "ROLE_AGENT", "messageId": "t-1-5", "taskId": "t-1", "contextId": "c\"1",
                    "content": [{"text": text}]}}}})
        );
        let data = || Some(Piece::Data(br#"{"a":[1]}"#.to_vec()));
        let part = |edition, name: &str| {
            written(edition, data(), Finality::Open)["statusUpdate"]["status"]["message"][name].take()
        };
        assert_eq!(part(Edition::V10, "parts"), json!([{"data": {"a": [1]}, "mediaType": "application/json"}]));
        assert_eq!(part(Edition::V03, "content"), json!([{"data": {"data": {"a": [1]}}}]));
    }

    #[test]
    fn a_message_of_several_parts_names_its_extension() {
        let pieces = [Piece::Text("a".into()), Piece::Data(b"{}".to_vec())];
        let message = AgentMessage::of(Seq(5), pieces).expect("two parts");
        let mut update = update(None);
        update.message = Some(message.carrying("urn:x"));
        for (edition, name, data) in [
            (Edition::V03, "content", json!({"data": {"data": {}}})),
            (Edition::V10, "parts", json!({"data": {}, "mediaType": "application/json"})),
        ] {
            let mut written = value(&status(edition, &created(), &update, Finality::Open));
            let message = written["statusUpdate"]["status"]["message"].take();
            assert_eq!(message[name], json!([{"text": "a"}, data]));
            assert_eq!(message["extensions"], json!(["urn:x"]));
        }
    }

    #[test]
    fn only_one_edition_says_that_a_stream_ends() {
        let status = |word: &str| json!({"state": word, "timestamp": TIME});
        assert_eq!(
            written(Edition::V10, None, Finality::Closing),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1",
                "status": status("TASK_STATE_CANCELED"), "metadata": {"k": 1}}})
        );
        assert_eq!(
            written(Edition::V03, None, Finality::Closing),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1", "final": true,
                "status": status("TASK_STATE_CANCELLED"), "metadata": {"k": 1}}})
        );
    }

    #[test]
    fn artifact_updates_omit_false_flags() {
        let artifact = Artifact {
            id: "answer-1".into(),
            name: Some("answer".into()),
            description: None,
            parts: vec![Part::text("hé")],
        };
        for edition in EDITIONS {
            let written = |append, last| {
                let update = Frame::Artifact(ArtifactUpdate { artifact: Cow::Borrowed(&artifact), append, last });
                value(&super::frame(edition, &created(), &update, Finality::Open))
            };
            let mut expected = json!({"artifactUpdate": {"taskId": "t-1", "contextId": "c\"1",
                "artifact": {"artifactId": "answer-1", "name": "answer", "parts": [{"text": "hé"}]}}});
            assert_eq!(written(false, false), expected);
            expected["artifactUpdate"]["append"] = true.into();
            expected["artifactUpdate"]["lastChunk"] = true.into();
            assert_eq!(written(true, true), expected);
        }
    }

    fn every_part() -> Vec<Part> {
        let file = |content| Part {
            filename: Some("a.png".into()),
            media_type: Some("image/png".into()),
            metadata: json!({"m": 1}).as_object().cloned(),
            ..Part::of(content)
        };
        vec![
            Part::text(""),
            file(Content::Bytes("aGk=".into())),
            file(Content::Uri("https://x.test/a".into())),
            Part::of(Content::Uri("https://x.test/b".into())),
            Part::data(json!({"a": 1})),
            Part::data(json!(3)),
        ]
    }

    #[test]
    fn a_message_with_every_part() {
        let mut sent = sample::prompt("m-1", "");
        sent.parts = every_part();
        sent.metadata = json!({"k": "v"}).as_object().cloned();
        sent.extensions = vec!["urn:x".into()];
        sent.references = vec!["t-0".into()];
        let written = |edition| value(&message(edition, &sent, &"c-1".into()));
        let about = json!({"filename": "a.png", "mediaType": "image/png", "metadata": {"m": 1}});
        let mut raw = about.clone();
        raw["raw"] = "aGk=".into();
        let mut url = about;
        url["url"] = "https://x.test/a".into();
        assert_eq!(
            written(Edition::V10),
            json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "contextId": "c-1", "metadata": {"k": "v"},
                "extensions": ["urn:x"], "referenceTaskIds": ["t-0"],
                "parts": [{"text": ""}, raw, url, {"url": "https://x.test/b"},
                    {"data": {"a": 1}, "mediaType": "application/json"}, {"data": 3, "mediaType": "application/json"}]}})
        );
        assert_eq!(
            written(Edition::V03),
            json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "contextId": "c-1", "metadata": {"k": "v"},
                "extensions": ["urn:x"],
                "content": [{"text": ""},
                    {"file": {"fileWithBytes": "aGk=", "mimeType": "image/png"}},
                    {"file": {"fileWithUri": "https://x.test/a", "mimeType": "image/png"}},
                    {"file": {"fileWithUri": "https://x.test/b"}},
                    {"data": {"data": {"a": 1}}}, {"data": {"data": {"value": 3}}}]}})
        );
    }

    #[test]
    fn a_task_omits_empty_members() {
        let created = created();
        let mut whole = Task {
            created: &created,
            state: TaskState::InputRequired,
            at: sample::AT,
            message: None,
            history: Some(Vec::new()),
            artifacts: None,
            persisted: false,
        };
        let bare = json!({"id": "t-1", "contextId": "c\"1",
            "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": TIME}});
        for edition in EDITIONS {
            assert_eq!(value(&task(edition, &whole)), bare);
        }
        // Only who asks for artifacts of many tasks is told that one has none.
        whole.artifacts = Some(Vec::new());
        assert_eq!(value(&task(Edition::V10, &whole))["artifacts"], json!([]));
        let said = sample::prompt("m-1", "hi");
        whole.message = Some(said.clone());
        whole.history = Some(vec![Cow::Borrowed(&said)]);
        let said = json!({"messageId": "m-1", "role": "ROLE_USER", "taskId": "t-1", "contextId": "c\"1",
            "parts": [{"text": "hi"}]});
        assert_eq!(
            value(&task(Edition::V10, &whole)),
            json!({"id": "t-1", "contextId": "c\"1", "history": [said], "artifacts": [],
                "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": TIME, "message": said}})
        );
    }
}
