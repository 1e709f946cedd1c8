//! The writers: A2A values as JSON of version 0.3, as protobuf JSON of 0.3 (its REST binding) and as JSON of 1.0. Always one line.
//!
//! | | 0.3 | 0.3 protobuf | 1.0 |
//! |---|---|---|---|
//! | the kind of a value | `kind` in it | a wrapper around it | a wrapper around it |
//! | enumerations | lower case | `TASK_STATE_…`, `ROLE_…` | the same, but `CANCELED` has one l |
//! | parts of a message | `parts` | `content` | `parts` |
//! | a file | `file` around `bytes` or `uri` | `file` around `fileWithBytes` or `fileWithUri` | `raw` or `url` |
//! | data | an object | an object inside an object | any JSON |
//! | the end of a stream | `final` | `final` | the stream ends |
//! | metadata of parts, referenced tasks | present | absent | present |
//!
//! Readers of protobuf JSON refuse unknown members, so nothing is added there, and empty members are left out.
//!
//! Everything is written into one buffer, because each chunk of text is an update, and there may be tens of thousands a second.

use crate::a2a::dialect::Writer;
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Finality, Frame, Piece, StatusUpdate, Task};
use crate::a2a::words;
use crate::base::clock::rfc3339;
use crate::base::id::{ContextId, TaskId};
use crate::task::log::event::Created;
use crate::task::machine::state::TaskState;
use crate::task::message::{Artifact, Content, Message, Part, Role};
use serde_json::{Map, Value, json};

impl Writer {
    /// One event of a stream.
    pub fn frame(self, created: &Created, frame: &Frame<'_>, finality: Finality) -> Vec<u8> {
        match frame {
            Frame::Status(update) => {
                self.value("status-update", "statusUpdate", |o| self.status_update(o, created, update, finality))
            }
            Frame::Artifact(update) => {
                self.value("artifact-update", "artifactUpdate", |o| self.artifact_update(o, created, update))
            }
        }
    }

    /// A message that belongs to no task.
    pub fn message(self, message: &Message, context: &ContextId) -> Vec<u8> {
        self.value("message", "message", |o| self.write_message(o, message, None, context))
    }

    /// A task as a whole, without the wrapper: that depends on where the task is used.
    pub fn task(self, task: &Task<'_>) -> Vec<u8> {
        let Created { task: id, context, .. } = task.created;
        let message = |o: &mut Object<'_>, message: &Message| self.write_message(o, message, Some(id), context);
        object(|o| {
            o.optional("kind", (!self.is_proto()).then_some("task")).member("id", id).member("contextId", context);
            self.status(o, task.state, task.at, task.message.as_ref().map(|one| |o: &mut Object<'_>| message(o, one)));
            if let Some(history) = task.history.as_ref().filter(|all| !(all.is_empty() && self.is_proto())) {
                o.list("history", history, |o, one| message(o, one));
            }
            if let Some(artifacts) = &task.artifacts {
                o.list("artifacts", artifacts, |o, one| self.artifact(o, one));
            }
            let mut metadata = if task.persisted && !self.is_proto() { persisted(task) } else { Map::new() };
            metadata.extend(task.error.map(|error| ("error".to_owned(), error.into())));
            if !(metadata.is_empty() && self.is_proto()) {
                o.member("metadata", &metadata);
            }
        })
    }

    /// Whether it writes protobuf JSON.
    pub fn is_proto(self) -> bool {
        match self {
            Writer::V03 => false,
            Writer::Proto03 | Writer::V10 => true,
        }
    }

    fn value(self, kind: &str, wrapper: &str, members: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
        object(|o| match self.is_proto() {
            false => members(o.member("kind", kind)),
            true => _ = o.object(wrapper, members),
        })
    }

    fn status_update(self, o: &mut Object<'_>, created: &Created, update: &StatusUpdate<'_>, finality: Finality) {
        let metadata = update.metadata(finality);
        o.member("taskId", &created.task).member("contextId", &created.context);
        let message =
            update.message.as_ref().map(|message| |o: &mut Object<'_>| self.agent_message(o, created, message));
        self.status(o, update.state, update.at, message);
        match self {
            Writer::V03 | Writer::Proto03 => _ = o.member("final", &(finality == Finality::Closing)),
            Writer::V10 => {}
        }
        if metadata != b"{}" || !self.is_proto() {
            o.name("metadata").extend_from_slice(metadata);
        }
    }

    fn artifact_update(self, o: &mut Object<'_>, created: &Created, update: &ArtifactUpdate<'_>) {
        o.member("taskId", &created.task).member("contextId", &created.context);
        o.object("artifact", |o| self.artifact(o, &update.artifact));
        let flag = |is: bool| (is || !self.is_proto()).then_some(is);
        o.optional("append", flag(update.append)).optional("lastChunk", flag(update.last));
    }

    fn status(self, o: &mut Object<'_>, state: TaskState, at: u64, message: Option<impl FnOnce(&mut Object<'_>)>) {
        o.object("status", |o| {
            o.member("state", self.state_word(state));
            if let Some(message) = message {
                o.object("message", message);
            }
            o.member("timestamp", &rfc3339(at));
        });
    }

    fn write_message(self, o: &mut Object<'_>, message: &Message, task: Option<&TaskId>, context: &ContextId) {
        let role = self.role_word(message.role);
        if self.is_proto() {
            o.member("messageId", &message.id)
                .member("contextId", context)
                .optional("taskId", task)
                .member("role", role);
        } else {
            o.member("kind", "message").member("role", role).member("messageId", &message.id);
        }
        o.list(self.parts_name(), &message.parts, |o, part| self.part(o, part));
        self.metadata(o, message.metadata.as_ref());
        o.filled("extensions", &message.extensions);
        match self {
            Writer::V03 | Writer::V10 => _ = o.filled("referenceTaskIds", &message.references),
            Writer::Proto03 => {}
        }
        if !self.is_proto() {
            o.optional("taskId", task).member("contextId", context);
        }
    }

    /// The agent's message in a status update.
    fn agent_message(self, o: &mut Object<'_>, created: &Created, message: &AgentMessage<'_>) {
        let ids = |o: &mut Object<'_>| {
            o.member("messageId", &message.id(created));
            o.member("taskId", &created.task).member("contextId", &created.context);
        };
        if self.is_proto() {
            ids(o);
        } else {
            o.member("kind", "message");
        }
        o.member("role", self.role_word(Role::Agent));
        o.list(self.parts_name(), message.pieces(), |o, piece| self.piece(o, piece));
        o.optional("extensions", message.extension.map(|extension| [extension]));
        if let Some(metadata) = &message.metadata {
            o.name("metadata").extend_from_slice(metadata);
        }
        if !self.is_proto() {
            ids(o);
        }
    }

    fn piece(self, o: &mut Object<'_>, piece: &Piece<'_>) {
        match (self, piece) {
            (Writer::V03, Piece::Text(text)) => _ = o.member("kind", "text").member("text", text),
            (Writer::V03, Piece::Data(data)) => o.member("kind", "data").name("data").extend_from_slice(data),
            (Writer::Proto03 | Writer::V10, Piece::Text(text)) => _ = o.member("text", text),
            (Writer::Proto03, Piece::Data(data)) => {
                o.object("data", |o| o.name("data").extend_from_slice(data));
            }
            (Writer::V10, Piece::Data(data)) => {
                o.name("data").extend_from_slice(data);
                o.member("mediaType", "application/json");
            }
        }
    }

    /// The members of an artifact.
    pub fn artifact(self, o: &mut Object<'_>, artifact: &Artifact) {
        o.member("artifactId", &artifact.id).optional("name", artifact.name.as_ref());
        o.optional("description", artifact.description.as_ref());
        o.list("parts", &artifact.parts, |o, part| self.part(o, part));
    }

    fn part(self, o: &mut Object<'_>, part: &Part) {
        match self {
            Writer::V03 => part_03(o, part),
            Writer::Proto03 => part_proto_03(o, part),
            Writer::V10 => {
                match &part.content {
                    Content::Text(text) => o.member("text", text.as_str()),
                    Content::Bytes(file) => o.member("raw", file.data().unwrap_or_default()),
                    Content::Uri(uri) => o.member("url", uri),
                    Content::Data(data) => o.member("data", data),
                };
                let is_data = matches!(part.content, Content::Data(_));
                let media_type = part.media_type.as_deref().or(is_data.then_some("application/json"));
                o.optional("filename", part.filename.as_ref()).optional("mediaType", media_type);
                self.metadata(o, part.metadata.as_ref());
            }
        }
    }

    fn metadata(self, o: &mut Object<'_>, metadata: Option<&Map<String, Value>>) {
        o.optional("metadata", metadata.filter(|metadata| !(metadata.is_empty() && self.is_proto())));
    }

    fn parts_name(self) -> &'static str {
        match self {
            Writer::V03 | Writer::V10 => "parts",
            Writer::Proto03 => "content",
        }
    }

    fn state_word(self, state: TaskState) -> &'static str {
        match (self, state) {
            (Writer::V03, _) => state.word(),
            (Writer::Proto03, TaskState::Canceled) => "TASK_STATE_CANCELLED",
            (Writer::Proto03 | Writer::V10, _) => words::v10_state(state),
        }
    }

    fn role_word(self, role: Role) -> &'static str {
        match (self.is_proto(), role) {
            (false, Role::User) => "user",
            (false, Role::Agent) => "agent",
            (true, Role::User) => "ROLE_USER",
            (true, Role::Agent) => "ROLE_AGENT",
        }
    }
}

fn part_03(o: &mut Object<'_>, part: &Part) {
    let file = |o: &mut Object<'_>, name: &str, content: &str| {
        o.member("kind", "file").object("file", |o| {
            o.member(name, content).optional("name", part.filename.as_ref());
            o.optional("mimeType", part.media_type.as_ref());
        });
    };
    match &part.content {
        Content::Text(text) => _ = o.member("kind", "text").member("text", text.as_str()),
        Content::Bytes(bytes) => file(o, "bytes", bytes.data().unwrap_or_default()),
        Content::Uri(uri) => file(o, "uri", uri),
        Content::Data(data) if data.is_object() => _ = o.member("kind", "data").member("data", data),
        // Data is always an object: another value is wrapped in one, and the metadata says so.
        Content::Data(data) => {
            o.member("kind", "data").object("data", |o| _ = o.member("value", data));
            let mut metadata = part.metadata.clone().unwrap_or_default();
            metadata.insert("data_part_compat".into(), true.into());
            o.member("metadata", &metadata);
            return;
        }
    }
    o.optional("metadata", part.metadata.as_ref());
}

fn part_proto_03(o: &mut Object<'_>, part: &Part) {
    let file = |o: &mut Object<'_>, name: &str, content: &str| {
        o.object("file", |o| _ = o.member(name, content).optional("mimeType", part.media_type.as_ref()));
    };
    match &part.content {
        Content::Text(text) => _ = o.member("text", text.as_str()),
        Content::Bytes(bytes) => file(o, "fileWithBytes", bytes.data().unwrap_or_default()),
        Content::Uri(uri) => file(o, "fileWithUri", uri),
        Content::Data(data) if data.is_object() => _ = o.object("data", |o| _ = o.member("data", data)),
        Content::Data(data) => {
            o.object("data", |o| _ = o.object("data", |o| _ = o.member("value", data)));
        }
    }
}

/// The members that the reference server stores with a task and therefore shows. Some of its clients read them.
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
    let state = json!({ "_agentSettings": settings, "_taskState": task.state.word() });
    Map::from_iter([("__persistedState".to_owned(), state), ("_contextId".to_owned(), json!(created.context))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::id::Seq;
    use serde_json::json;
    use std::borrow::Cow;

    const TIME: &str = "2026-03-01T09:30:00.125Z";
    const PROTOBUF: [Writer; 2] = [Writer::Proto03, Writer::V10];

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

    fn written(writer: Writer, piece: Option<Piece<'_>>, finality: Finality) -> Value {
        let frame = Frame::Status(update(piece));
        value(&writer.frame(&created(), &frame, finality))
    }

    #[test]
    fn a_status_update_as_protobuf_json() {
        let text = "a \"quote\"\n";
        assert_eq!(
            written(Writer::V10, Some(Piece::Text(text.into())), Finality::Open),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1", "status": {
                "state": "TASK_STATE_CANCELED", "timestamp": TIME,
                "message": {"role": "ROLE_AGENT", "messageId": "t-1-5", "taskId": "t-1", "contextId": "c\"1",
                    "parts": [{"text": text}]}}}})
        );
        assert_eq!(
            written(Writer::Proto03, Some(Piece::Text(text.into())), Finality::Open),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1", "final": false, "status": {
                "state": "TASK_STATE_CANCELLED", "timestamp": TIME,
                "message": {"role": "ROLE_AGENT", "messageId": "t-1-5", "taskId": "t-1", "contextId": "c\"1",
                    "content": [{"text": text}]}}}})
        );
        let data = || Some(Piece::Data(br#"{"a":[1]}"#.to_vec()));
        let part = |writer, name: &str| {
            written(writer, data(), Finality::Open)["statusUpdate"]["status"]["message"][name].take()
        };
        assert_eq!(part(Writer::V10, "parts"), json!([{"data": {"a": [1]}, "mediaType": "application/json"}]));
        assert_eq!(part(Writer::Proto03, "content"), json!([{"data": {"data": {"a": [1]}}}]));
    }

    #[test]
    fn a_message_of_several_parts_names_its_extension() {
        let pieces = [Piece::Text("a".into()), Piece::Data(b"{}".to_vec())];
        let message = AgentMessage::of(Seq(5), pieces).expect("two parts");
        let mut update = update(None);
        update.message = Some(message.carrying("urn:x"));
        let frame = Frame::Status(update);
        for (writer, name, data) in [
            (Writer::Proto03, "content", json!({"data": {"data": {}}})),
            (Writer::V10, "parts", json!({"data": {}, "mediaType": "application/json"})),
        ] {
            let mut written = value(&writer.frame(&created(), &frame, Finality::Open));
            let message = written["statusUpdate"]["status"]["message"].take();
            assert_eq!(message[name], json!([{"text": "a"}, data]));
            assert_eq!(message["extensions"], json!(["urn:x"]));
        }
    }

    #[test]
    fn only_0_3_says_that_a_stream_ends() {
        let status = |word: &str| json!({"state": word, "timestamp": TIME});
        assert_eq!(
            written(Writer::V10, None, Finality::Closing),
            json!({"statusUpdate": {"taskId": "t-1", "contextId": "c\"1",
                "status": status("TASK_STATE_CANCELED"), "metadata": {"k": 1}}})
        );
        assert_eq!(
            written(Writer::Proto03, None, Finality::Closing),
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
        for writer in PROTOBUF {
            let written = |append, last| {
                let update = Frame::Artifact(ArtifactUpdate { artifact: Cow::Borrowed(&artifact), append, last });
                value(&writer.frame(&created(), &update, Finality::Open))
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
        let written = |writer: Writer| value(&writer.message(&sent, &"c-1".into()));
        let about = json!({"filename": "a.png", "mediaType": "image/png", "metadata": {"m": 1}});
        let mut raw = about.clone();
        raw["raw"] = "aGk=".into();
        let mut url = about;
        url["url"] = "https://x.test/a".into();
        assert_eq!(
            written(Writer::V10),
            json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "contextId": "c-1", "metadata": {"k": "v"},
                "extensions": ["urn:x"], "referenceTaskIds": ["t-0"],
                "parts": [{"text": ""}, raw, url, {"url": "https://x.test/b"},
                    {"data": {"a": 1}, "mediaType": "application/json"}, {"data": 3, "mediaType": "application/json"}]}})
        );
        assert_eq!(
            written(Writer::Proto03),
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
            error: None,
        };
        let bare = json!({"id": "t-1", "contextId": "c\"1",
            "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": TIME}});
        for writer in PROTOBUF {
            assert_eq!(value(&writer.task(&whole)), bare);
        }
        // An empty list of artifacts is written only in lists of tasks whose request includes artifacts.
        whole.artifacts = Some(Vec::new());
        assert_eq!(value(&Writer::V10.task(&whole))["artifacts"], json!([]));
        let said = sample::prompt("m-1", "hi");
        whole.message = Some(said.clone());
        whole.history = Some(vec![Cow::Borrowed(&said)]);
        let said = json!({"messageId": "m-1", "role": "ROLE_USER", "taskId": "t-1", "contextId": "c\"1",
            "parts": [{"text": "hi"}]});
        assert_eq!(
            value(&Writer::V10.task(&whole)),
            json!({"id": "t-1", "contextId": "c\"1", "history": [said], "artifacts": [],
                "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": TIME, "message": said}})
        );
    }
}
