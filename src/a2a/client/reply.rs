//! The answer of another agent: its events, in either version, are collected into a text and a state. The text that is kept is limited,
//! however much the agent sends.

use crate::a2a::words::CODER;
use crate::limits::agents::{AGENT_ARTIFACTS, AGENT_ID_CHARS, AGENT_TEXT_BYTES};
use crate::task::machine::state::TaskState;
use serde_json::Value;

/// The answer so far.
#[derive(Debug, Default)]
pub struct Reply {
    pub context: Option<String>,
    pub task: Option<String>,
    state: Option<TaskState>,
    /// Texts by the ids of their artifacts.
    artifacts: Vec<(String, String)>,
    /// The message of the current status, or the whole answer if the agent creates no task.
    message: String,
    /// The text of agents that answer in messages of their status, as the Gemini CLI's server does.
    status_text: String,
    /// The last message about the progress of the task.
    progress: String,
    /// The bytes of all texts that are kept.
    kept_bytes: usize,
    /// The bytes that were returned to be shown, also those of text that was replaced later.
    shown_bytes: usize,
    /// Text was left out because of the limit.
    is_cut: bool,
    /// The agent answered with a message instead of a task.
    is_message: bool,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    /// The agent waits for another message, or for somebody to authorise it.
    InputRequired,
    AuthRequired,
    Failed,
    Rejected,
    Canceled,
}

impl Reply {
    /// Takes an event, a task or a message, and returns the text to be shown at once.
    pub fn take(&mut self, event: &Value) -> String {
        let mut text = self.take_event(event);
        let room = AGENT_TEXT_BYTES - self.shown_bytes.min(AGENT_TEXT_BYTES);
        text.truncate(text.floor_char_boundary(room));
        self.shown_bytes += text.len();
        text
    }

    fn take_event(&mut self, event: &Value) -> String {
        match (event["kind"].as_str(), event) {
            (Some("task"), task) => self.take_task(task),
            (Some("message"), message) => self.take_message(message),
            (Some("status-update"), update) => self.take_status(update),
            (Some("artifact-update"), update) => self.take_artifact(update),
            (_, event) if event["task"].is_object() => self.take_task(&event["task"]),
            (_, event) if event["statusUpdate"].is_object() => self.take_status(&event["statusUpdate"]),
            (_, event) if event["artifactUpdate"].is_object() => self.take_artifact(&event["artifactUpdate"]),
            (_, event) if event["message"].is_object() => self.take_message(&event["message"]),
            // A task that was asked for.
            (_, task) if task["status"].is_object() => self.take_task(task),
            _ => String::new(),
        }
    }

    /// How the answer ended. None: the agent has not finished.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            Some(TaskState::Completed) => Some(Outcome::Answered),
            Some(TaskState::InputRequired) => Some(Outcome::InputRequired),
            Some(TaskState::AuthRequired) => Some(Outcome::AuthRequired),
            Some(TaskState::Failed) => Some(Outcome::Failed),
            Some(TaskState::Rejected) => Some(Outcome::Rejected),
            Some(TaskState::Canceled) => Some(Outcome::Canceled),
            Some(TaskState::Submitted | TaskState::Working) | None => self.is_message.then_some(Outcome::Answered),
        }
    }

    /// The whole text: artifacts, then the message of the status.
    pub fn text(&self) -> String {
        let artifacts = self.artifacts.iter().map(|(_, text)| text.trim()).chain([self.status_text.trim()]);
        let mut texts: Vec<&str> = artifacts.filter(|text| !text.is_empty()).collect();
        let message = self.message.trim();
        // Some agents repeat their answer when they say that it is complete.
        if !message.is_empty() && !texts.iter().any(|text| text.ends_with(message)) {
            texts.push(message);
        }
        if texts.is_empty() {
            texts.extend(Some(self.progress.trim()).filter(|text| !text.is_empty()));
        }
        let cut = if self.is_cut { "\n[The rest of the answer was left out: it is too long.]" } else { "" };
        format!("{}{cut}", texts.join("\n\n"))
    }

    fn take_task(&mut self, task: &Value) -> String {
        self.remember(&task["id"], &task["contextId"]);
        // The task has its artifacts whole.
        let known: usize = self.artifacts.iter().map(|(_, text)| text.len()).sum();
        self.kept_bytes -= known;
        let before = std::mem::take(&mut self.artifacts);
        for artifact in task["artifacts"].as_array().into_iter().flatten() {
            self.add(artifact, Add::Replace);
        }
        let is_new = |(id, text): &&(String, String)| !before.iter().any(|(known, old)| known == id && old == text);
        let fresh: Vec<&str> = self.artifacts.iter().filter(is_new).map(|(_, text)| text.as_str()).collect();
        let fresh = fresh.join("\n");
        let message = self.take_state(&task["status"], &Value::Null);
        fresh + &message
    }

    fn take_message(&mut self, message: &Value) -> String {
        self.remember(&message["taskId"], &message["contextId"]);
        self.is_message = true;
        self.message = self.fitting(words(message));
        self.message.clone()
    }

    fn take_status(&mut self, update: &Value) -> String {
        self.remember(&update["taskId"], &update["contextId"]);
        self.take_state(&update["status"], &update["metadata"])
    }

    fn take_state(&mut self, status: &Value, metadata: &Value) -> String {
        let state = status["state"].as_str().and_then(state);
        self.state = state.or(self.state);
        let text = words(&status["message"]);
        if let Some(kind) = metadata[CODER]["kind"].as_str() {
            let text = if kind == "text-content" { self.fitting(text) } else { String::new() };
            self.status_text.push_str(&text);
            return text;
        }
        let text = self.fitting(text);
        match self.outcome() {
            Some(_) => {
                self.message.clone_from(&text);
                text
            }
            None if text.is_empty() => text,
            None => {
                // Only the last message about the progress is kept.
                self.kept_bytes = self.kept_bytes.saturating_sub(text.len());
                self.progress.clone_from(&text);
                format!("{text}\n")
            }
        }
    }

    fn take_artifact(&mut self, update: &Value) -> String {
        self.remember(&update["taskId"], &update["contextId"]);
        let add = if update["append"] == true { Add::Append } else { Add::Replace };
        self.add(&update["artifact"], add)
    }

    fn add(&mut self, artifact: &Value, add: Add) -> String {
        let id = artifact["artifactId"].as_str().unwrap_or_default();
        let at = self.artifacts.iter().position(|(known, _)| known == id);
        if at.is_none() && self.artifacts.len() >= AGENT_ARTIFACTS {
            self.is_cut = true;
            return String::new();
        }
        let at = at.unwrap_or_else(|| {
            self.artifacts.push((id.chars().take(AGENT_ID_CHARS).collect(), String::new()));
            self.artifacts.len() - 1
        });
        if add == Add::Replace {
            let before = std::mem::take(&mut self.artifacts[at].1);
            self.kept_bytes -= before.len();
        }
        let text = self.fitting(words(artifact));
        self.artifacts[at].1.push_str(&text);
        text
    }

    /// Cuts a text to the bytes that may still be kept, and counts them.
    fn fitting(&mut self, mut text: String) -> String {
        let room = AGENT_TEXT_BYTES - self.kept_bytes.min(AGENT_TEXT_BYTES);
        if text.len() > room {
            text.truncate(text.floor_char_boundary(room));
            self.is_cut = true;
        }
        self.kept_bytes += text.len();
        text
    }

    fn remember(&mut self, task: &Value, context: &Value) {
        let id = |value: &Value| {
            let id = value.as_str().filter(|id| !id.is_empty() && id.chars().count() <= AGENT_ID_CHARS);
            id.map(str::to_owned)
        };
        self.task = id(task).or(self.task.take());
        self.context = id(context).or(self.context.take());
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Add {
    Append,
    Replace,
}

/// Reads a state in the spelling of either version.
fn state(word: &str) -> Option<TaskState> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    match word.strip_prefix("task-state-").unwrap_or(&word) {
        "cancelled" => Some(TaskState::Canceled),
        word => TaskState::from_word(word),
    }
}

/// The text of a message or an artifact. A file is represented by its name.
fn words(value: &Value) -> String {
    let parts = value["parts"].as_array().or(value["content"].as_array());
    let texts = parts.into_iter().flatten().filter_map(|part| match part {
        _ if part["text"].is_string() => part["text"].as_str().map(str::to_owned),
        _ if !part["data"].is_null() => Some(part["data"].to_string()),
        _ => {
            let file = if part["file"].is_object() { &part["file"] } else { part };
            let member = |names: &[&str]| names.iter().find_map(|name| file[*name].as_str()).map(str::to_owned);
            let name = member(&["name", "filename", "uri", "url", "fileWithUri"])?;
            let kind = member(&["mimeType", "mediaType"]).unwrap_or_else(|| "file".into());
            Some(format!("[{kind}: {name}]"))
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn after(events: &[Value]) -> (Option<Outcome>, String, String) {
        let mut reply = Reply::default();
        let live: String = events.iter().map(|event| reply.take(event)).collect();
        (reply.outcome(), reply.text(), live)
    }

    fn artifact(id: &str, text: &str, append: bool) -> Value {
        json!({"artifactUpdate": {"taskId": "t", "append": append,
            "artifact": {"artifactId": id, "parts": [{"text": text}]}}})
    }

    fn status(state: &str, text: &str) -> Value {
        let message = if text.is_empty() { json!(null) } else { json!({"parts": [{"text": text}]}) };
        json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state, "message": message}}})
    }

    #[test]
    fn both_versions_give_the_same_replies() {
        let new = [
            json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}}),
            status("TASK_STATE_WORKING", "Looking."),
            artifact("a", "One", false),
            artifact("a", " two", true),
            status("TASK_STATE_COMPLETED", "Done."),
        ];
        let old = [
            json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}}),
            json!({"kind": "status-update", "taskId": "t", "final": false, "status": {"state": "working",
                "message": {"kind": "message", "parts": [{"kind": "text", "text": "Looking."}]}}}),
            json!({"kind": "artifact-update", "taskId": "t", "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "One"}]}}),
            json!({"kind": "artifact-update", "taskId": "t", "append": true, "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": " two"}]}}),
            json!({"kind": "status-update", "taskId": "t", "final": true, "status": {"state": "completed",
                "message": {"parts": [{"kind": "text", "text": "Done."}]}}}),
        ];
        let expected = (Some(Outcome::Answered), "One two\n\nDone.".into(), "Looking.\nOne twoDone.".into());
        assert_eq!(after(&new), expected);
        assert_eq!(after(&old), expected);
        let mut reply = Reply::default();
        new.iter().for_each(|event| drop(reply.take(event)));
        assert_eq!((reply.task.as_deref(), reply.context.as_deref()), (Some("t"), Some("c")));
    }

    #[test]
    fn every_way_to_end() {
        for (word, outcome) in [
            ("input-required", Outcome::InputRequired),
            ("TASK_STATE_AUTH_REQUIRED", Outcome::AuthRequired),
            ("failed", Outcome::Failed),
            ("TASK_STATE_CANCELLED", Outcome::Canceled),
            ("rejected", Outcome::Rejected),
        ] {
            assert_eq!(after(&[status(word, "why")]), (Some(outcome), "why".into(), "why".into()));
        }
        for word in ["working", "TASK_STATE_UNSPECIFIED", "unknown", "", "TASK_STATE_"] {
            assert_eq!(after(&[status(word, "")]).0, None, "{word}");
        }
        let message = json!({"kind": "message", "contextId": "c", "parts": [{"kind": "text", "text": "Hi."}]});
        assert_eq!(after(&[message]), (Some(Outcome::Answered), "Hi.".into(), "Hi.".into()));
        let message = json!({"message": {"role": "ROLE_AGENT", "content": [{"text": "Hi."}]}});
        assert_eq!(after(&[message]).1, "Hi.");
        for junk in [json!(null), json!(7), json!([]), json!({"kind": "task"}), json!({"status": {}})] {
            assert_eq!(after(&[junk]), (None, String::new(), String::new()));
        }
    }

    #[test]
    fn a_task_that_is_asked_for_has_its_artifacts_whole() {
        let task = |state: &str, text: &str| json!({"id": "t", "status": {"state": state}, "artifacts": [{"artifactId": "a", "parts": [{"text": text}]}]});
        let all = [task("working", "One"), task("working", "One"), task("completed", "One two")];
        assert_eq!(after(&all), (Some(Outcome::Answered), "One two".into(), "OneOne two".into()));
    }

    #[test]
    fn answers_in_status_messages_and_parts_that_are_no_text() {
        let coder = |kind: &str, text: &str| {
            json!({"kind": "status-update", "status": {"state": "working", "message": {"parts": [{"kind": "text", "text": text}]}},
                "metadata": {"coderAgent": {"kind": kind}}})
        };
        let events = [
            coder("thought", "Hm"),
            coder("text-content", "One "),
            coder("text-content", "two"),
            json!({"kind": "status-update", "status": {"state": "input-required"}}),
        ];
        assert_eq!(after(&events), (Some(Outcome::InputRequired), "One two".into(), "One two".into()));
        let parts = json!([{"data": {"a": 1}}, {"kind": "file", "file": {"name": "x.png", "mimeType": "image/png"}}, {"x": 1},
            {"url": "http://h/f", "mediaType": "text/csv"}]);
        let task = json!({"status": {"state": "completed"}, "artifacts": [{"artifactId": "a", "parts": parts}]});
        assert_eq!(after(&[task]).1, "{\"a\":1}\n[image/png: x.png]\n[text/csv: http://h/f]");
        // The progress is the answer of an agent that sends no other text; repeated text appears once.
        assert_eq!(after(&[status("working", "Half"), status("working", "All"), status("completed", "")]).1, "All");
        assert_eq!(after(&[artifact("a", "All", false), status("completed", "All")]).1, "All");
    }

    #[test]
    fn the_kept_text_is_limited() {
        let mut reply = Reply::default();
        let half = "é".repeat(AGENT_TEXT_BYTES / 4);
        assert_eq!(reply.take(&artifact("a", &half, false)).len(), half.len());
        assert_eq!(reply.take(&artifact("a", &half, true)).len(), half.len());
        assert!(!reply.text().ends_with("too long.]"));
        assert_eq!(reply.take(&artifact("a", "x", true)), "");
        assert!(reply.text().ends_with("[The rest of the answer was left out: it is too long.]"));
        assert_eq!(reply.take(&artifact("a", "short", false)), "", "enough was shown");
        reply.take(&artifact("a", &half, true));
        assert_eq!(reply.text().find("[The rest"), Some(5 + half.len() + 1), "replaced text does not count");
        let mut many = Reply::default();
        (0..AGENT_ARTIFACTS).for_each(|n| assert_eq!(many.take(&artifact(&n.to_string(), "x", false)), "x"));
        assert_eq!(many.take(&artifact("more", "x", false)), "");
        assert_eq!(many.take(&artifact("0", "y", true)), "y");
        let mut long = Reply::default();
        long.take(&json!({"kind": "task", "id": "i".repeat(AGENT_ID_CHARS + 1), "contextId": "c".repeat(AGENT_ID_CHARS), "status": {}}));
        assert_eq!((long.task, long.context.map(|id| id.len())), (None, Some(AGENT_ID_CHARS)));
    }
}
