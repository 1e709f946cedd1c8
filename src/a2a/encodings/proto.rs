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

use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Finality, Frame, Piece, StatusUpdate, Task};
use crate::a2a::words;
use crate::base::clock::rfc3339;
use crate::base::id::{ContextId, TaskId};
use crate::base::json;
use crate::task::log::event::Created;
use crate::task::machine::state::TaskState;
use crate::task::message::{Artifact, Content, Message, Part};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::ops::Range;

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

pub fn status(edition: Edition, created: &Created, update: &StatusUpdate<'_>, finality: Finality) -> Vec<u8> {
    let metadata = match finality {
        Finality::Open => &update.metadata,
        Finality::Closing => update.closing.as_ref().unwrap_or(&update.metadata),
    };
    let payload = update.message.as_ref().map_or(0, |message| message.pieces().map(Piece::size).sum());
    let mut out = Vec::with_capacity(512 + metadata.len() + payload);
    out.extend_from_slice(br#"{"statusUpdate":{"#);
    let place = WrittenIds::write(&mut out, created);
    out.extend_from_slice(br#","status":{"state":""#);
    out.extend_from_slice(state_word(edition, update.state).as_bytes());
    out.push(b'"');
    if let Some(message) = &update.message {
        out.extend_from_slice(br#","message":"#);
        agent_message(&mut out, edition, &place, message);
    }
    write_time(&mut out, update.at);
    out.push(b'}');
    match (edition, finality) {
        (Edition::V03, Finality::Open) => out.extend_from_slice(br#","final":false"#),
        (Edition::V03, Finality::Closing) => out.extend_from_slice(br#","final":true"#),
        (Edition::V10, _) => {}
    }
    if metadata != b"{}" {
        out.extend_from_slice(br#","metadata":"#);
        out.extend_from_slice(metadata);
    }
    out.extend_from_slice(b"}}");
    out
}

/// A task as a whole, without a wrapper.
pub fn task(edition: Edition, task: &Task<'_>) -> Vec<u8> {
    let Created { task: id, context, .. } = task.created;
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(br#"{"id":"#);
    json::write(&mut out, id);
    member(&mut out, "contextId", context);
    out.extend_from_slice(br#","status":{"state":""#);
    out.extend_from_slice(state_word(edition, task.state).as_bytes());
    out.push(b'"');
    if let Some(message) = &task.message {
        out.extend_from_slice(br#","message":"#);
        write_message(&mut out, edition, message, Some(id), context);
    }
    write_time(&mut out, task.at);
    out.push(b'}');
    if let Some(history) = task.history.as_ref().filter(|all| !all.is_empty()) {
        out.extend_from_slice(br#","history":"#);
        list(&mut out, history, |out, one| {
            write_message(out, edition, one, Some(id), context);
        });
    }
    if let Some(artifacts) = &task.artifacts {
        out.extend_from_slice(br#","artifacts":"#);
        list(&mut out, artifacts, |out, one| write_artifact(out, edition, one));
    }
    out.push(b'}');
    out
}

/// A message that belongs to no task, in its wrapper.
pub fn message(edition: Edition, message: &Message, context: &ContextId) -> Vec<u8> {
    let mut out = br#"{"message":"#.to_vec();
    write_message(&mut out, edition, message, None, context);
    out.push(b'}');
    out
}

fn artifact_update(edition: Edition, created: &Created, update: &ArtifactUpdate<'_>) -> Vec<u8> {
    let payload = update.artifact.parts.iter().map(|part| match &part.content {
        Content::Text(text) | Content::Bytes(text) | Content::Uri(text) => text.len(),
        Content::Data(_) => 0,
    });
    let mut out = Vec::with_capacity(256 + payload.sum::<usize>());
    out.extend_from_slice(br#"{"artifactUpdate":{"#);
    WrittenIds::write(&mut out, created);
    out.extend_from_slice(br#","artifact":"#);
    write_artifact(&mut out, edition, &update.artifact);
    if update.append {
        out.extend_from_slice(br#","append":true"#);
    }
    if update.last {
        out.extend_from_slice(br#","lastChunk":true"#);
    }
    out.extend_from_slice(b"}}");
    out
}

fn write_message(out: &mut Vec<u8>, edition: Edition, message: &Message, task: Option<&TaskId>, context: &ContextId) {
    out.extend_from_slice(br#"{"messageId":"#);
    json::write(out, &message.id);
    member(out, "contextId", context);
    if let Some(task) = task {
        member(out, "taskId", task);
    }
    member(out, "role", words::proto_role(message.role));
    begin_parts(out, edition);
    list(out, &message.parts, |out, part| write_part(out, edition, part));
    metadata(out, message.metadata.as_ref());
    if !message.extensions.is_empty() {
        member(out, "extensions", &message.extensions);
    }
    match edition {
        Edition::V10 if !message.references.is_empty() => {
            member(out, "referenceTaskIds", &message.references);
        }
        Edition::V10 | Edition::V03 => {}
    }
    out.push(b'}');
}

/// What the agent says in a status update.
fn agent_message(out: &mut Vec<u8>, edition: Edition, place: &WrittenIds, message: &AgentMessage<'_>) {
    out.extend_from_slice(br#"{"messageId":"#);
    out.extend_from_within(place.task.clone());
    out.pop();
    write!(out, "-{}\",", message.since).expect("memory takes it");
    out.extend_from_within(place.whole.clone());
    out.extend_from_slice(br#","role":"ROLE_AGENT""#);
    begin_parts(out, edition);
    out.push(b'[');
    for piece in message.pieces() {
        match piece {
            Piece::Text(text) => {
                out.extend_from_slice(br#"{"text":"#);
                json::write(out, text);
            }
            Piece::Data(data) => {
                let (before, behind): (&[u8], &[u8]) = match edition {
                    Edition::V03 => (br#"{"data":{"data":"#, b"}"),
                    Edition::V10 => (br#"{"data":"#, br#","mediaType":"application/json""#),
                };
                out.extend_from_slice(before);
                out.extend_from_slice(data);
                out.extend_from_slice(behind);
            }
        }
        out.extend_from_slice(b"},");
    }
    out.pop();
    out.push(b']');
    if let Some(extension) = message.extension {
        out.extend_from_slice(br#","extensions":"#);
        json::write(out, &[extension]);
    }
    out.push(b'}');
}

fn write_artifact(out: &mut Vec<u8>, edition: Edition, artifact: &Artifact) {
    out.extend_from_slice(br#"{"artifactId":"#);
    json::write(out, &artifact.id);
    if let Some(name) = &artifact.name {
        member(out, "name", name);
    }
    if let Some(description) = &artifact.description {
        member(out, "description", description);
    }
    out.extend_from_slice(br#","parts":"#);
    list(out, &artifact.parts, |out, part| write_part(out, edition, part));
    out.push(b'}');
}

fn write_part(out: &mut Vec<u8>, edition: Edition, part: &Part) {
    out.push(b'{');
    match edition {
        Edition::V10 => {
            let (name, text) = match &part.content {
                Content::Text(text) => ("text", text),
                Content::Bytes(bytes) => ("raw", bytes),
                Content::Uri(uri) => ("url", uri),
                Content::Data(data) => {
                    out.extend_from_slice(br#""data":"#);
                    json::write(out, data);
                    return end_part(out, part);
                }
            };
            write!(out, "\"{name}\":").expect("memory takes it");
            json::write(out, text);
            end_part(out, part);
        }
        Edition::V03 => {
            let (name, text) = match &part.content {
                Content::Text(text) => {
                    out.extend_from_slice(br#""text":"#);
                    json::write(out, text);
                    return out.push(b'}');
                }
                // Always an object; what is none travels in one.
                Content::Data(data) if data.is_object() => return nested_data(out, data),
                Content::Data(data) => return nested_data(out, &json!({ "value": data })),
                Content::Bytes(bytes) => ("fileWithBytes", bytes),
                Content::Uri(uri) => ("fileWithUri", uri),
            };
            write!(out, "\"file\":{{\"{name}\":").expect("memory takes it");
            json::write(out, text);
            if let Some(media_type) = &part.media_type {
                member(out, "mimeType", media_type);
            }
            out.extend_from_slice(b"}}");
        }
    }
}

/// What 1.0 says about any part, and its end.
fn end_part(out: &mut Vec<u8>, part: &Part) {
    if let Some(filename) = &part.filename {
        member(out, "filename", filename);
    }
    match (&part.media_type, &part.content) {
        (Some(media_type), _) => member(out, "mediaType", media_type),
        (None, Content::Data(_)) => member(out, "mediaType", "application/json"),
        (None, Content::Text(_) | Content::Bytes(_) | Content::Uri(_)) => {}
    }
    metadata(out, part.metadata.as_ref());
    out.push(b'}');
}

fn nested_data(out: &mut Vec<u8>, data: &Value) {
    out.extend_from_slice(br#""data":{"data":"#);
    json::write(out, data);
    out.extend_from_slice(b"}}");
}

fn begin_parts(out: &mut Vec<u8>, edition: Edition) {
    out.extend_from_slice(match edition {
        Edition::V03 => br#","content":"#,
        Edition::V10 => br#","parts":"#,
    });
}

fn state_word(edition: Edition, state: TaskState) -> &'static str {
    match edition {
        Edition::V03 => words::proto03_state(state),
        Edition::V10 => words::v10_state(state),
    }
}

/// Where a frame says which task it belongs to. Said once and copied from there: escaping is what costs.
struct WrittenIds {
    whole: Range<usize>,
    /// The task's id in it, with its quotes.
    task: Range<usize>,
}

impl WrittenIds {
    fn write(out: &mut Vec<u8>, created: &Created) -> WrittenIds {
        let start = out.len();
        out.extend_from_slice(br#""taskId":"#);
        let task = out.len();
        json::write(out, &created.task);
        let task = task..out.len();
        member(out, "contextId", &created.context);
        WrittenIds { whole: start..out.len(), task }
    }
}

/// A member that is not the first of its object; the name needs no escaping.
fn member<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) {
    write!(out, ",\"{name}\":").expect("memory takes it");
    json::write(out, value);
}

fn metadata(out: &mut Vec<u8>, metadata: Option<&Map<String, Value>>) {
    if let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) {
        member(out, "metadata", metadata);
    }
}

fn write_time(out: &mut Vec<u8>, at: u64) {
    out.extend_from_slice(br#","timestamp":""#);
    out.extend_from_slice(rfc3339(at).as_bytes());
    out.push(b'"');
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::id::Seq;
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
    fn artifact_updates_say_only_what_is_so() {
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
    fn a_task_leaves_out_what_is_empty() {
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
