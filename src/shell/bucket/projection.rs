//! The projection of a task: objects beside its log that other programs read. They are `metadata.json`, `history.json`, `state.json` and
//! `artifacts/`, in the layout of the reference server's store. This program only writes them. Pure.

use crate::a2a::{self, OtherTools, SnapshotOptions, Tools, View, named_views};
use crate::base::clock::rfc3339;
use crate::base::{json, percent};
use crate::limits::store::{ARTIFACT_NAME_BYTES, PROJECTED_HISTORY_BYTES};
use crate::task::log::blob::sha256;
use crate::task::machine::state::{State, TaskState};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// An object of the projection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projected {
    /// The name of the object, after the prefix of its task (`tasks/<id>/`).
    pub name: String,
    /// JSON.
    pub bytes: Vec<u8>,
}

/// The objects of the projection. `tools` are the built-in tools, `others` the declarations of the other tools.
///
/// `state.json` is the last object: if they are written in this order, its `seq` is never newer than the other objects. The caller loads the
/// content of messages into memory first ([`State::load_messages`]). A text that is not in memory is replaced by a notice.
pub fn objects(state: &State, tools: &Tools, others: &OtherTools) -> Vec<Projected> {
    let mut objects = vec![projected("metadata.json", metadata(state, tools, others))];
    objects.push(projected("history.json", history(state, PROJECTED_HISTORY_BYTES)));
    objects.extend(artifacts(state));
    objects.push(projected("state.json", status(state)));
    objects
}

fn projected(name: impl Into<String>, bytes: Vec<u8>) -> Projected {
    Projected { name: name.into(), bytes }
}

/// The `metadata` member of the response to `GET /tasks/{id}/metadata`.
fn metadata(state: &State, tools: &Tools, others: &OtherTools) -> Vec<u8> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let answer = a2a::metadata(state, tools, others);
    let answer: Answer<'_> = serde_json::from_slice(&answer.body).expect("the answer is an object with metadata");
    answer.metadata.get().into()
}

/// The parts of a task of A2A 0.3 that are projected.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Task<'a> {
    #[serde(borrow)]
    history: Vec<&'a RawValue>,
    #[serde(borrow)]
    artifacts: Vec<&'a RawValue>,
}

fn parsed(snapshot: &[u8]) -> Task<'_> {
    serde_json::from_slice(snapshot).expect("a snapshot is a task")
}

fn view() -> View {
    let named = named_views().find(|(name, _)| *name == "a2a-0.3");
    named.expect("the view exists").1
}

/// The newest messages as an array of at most `most` bytes, in order. Messages are not truncated, and only the oldest are left out.
fn history(state: &State, most: usize) -> Vec<u8> {
    let snapshot = a2a::snapshot(view(), state, SnapshotOptions::listed(usize::MAX, false));
    let messages = parsed(&snapshot).history;
    // A comma or the closing bracket follows every message. The opening bracket is one more byte.
    let mut bytes = 1;
    let newest = messages.iter().rev().take_while(|message| {
        bytes += message.get().len() + 1;
        bytes <= most
    });
    let kept = newest.count();
    json::bytes(&messages[messages.len() - kept..])
}

/// The artifacts that the agent produced. Snapshots also contain the answers as artifacts; those are left out because they are in the history.
fn artifacts(state: &State) -> Vec<Projected> {
    if state.artifacts.is_empty() {
        return Vec::new();
    }
    let snapshot = a2a::snapshot(view(), state, SnapshotOptions::newest(Some(0)));
    let shown = parsed(&snapshot).artifacts;
    let answers = shown.len().saturating_sub(state.artifacts.len());
    let produced = state.artifacts.iter().zip(&shown[answers..]);
    produced.map(|(artifact, json)| projected(artifact_name(&artifact.id), json.get().into())).collect()
}

/// The object name of an artifact. Its id can be any text. An id that is too long or is a relative path segment is replaced by its hash.
fn artifact_name(id: &str) -> String {
    let encoded = percent::encoded(id);
    let is_name = encoded.len() <= ARTIFACT_NAME_BYTES && !matches!(encoded.as_str(), "" | "." | "..");
    format!("artifacts/{}", if is_name { encoded } else { sha256(id.as_bytes()) })
}

fn status(state: &State) -> Vec<u8> {
    let status = &state.status;
    json::bytes(&json!({
        "state": state_word(status.state),
        "timestamp": rfc3339(status.at),
        "a2aState": status.state.word(),
        "seq": state.seq,
    }))
}

/// The reference server's store has three words for states.
fn state_word(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => "running",
        TaskState::Completed => "completed",
        TaskState::Failed | TaskState::Canceled | TaskState::Rejected => "error",
    }
}

#[cfg(test)]
mod tests;
