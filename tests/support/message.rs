//! Parameters of `message/send` and `message/stream` in A2A 0.3, as the clients of the reference server write them, and accessors for
//! members of the events.

use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other request or message of this process has.
pub fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A prompt that makes a new task. Its metadata shows that the client is one of the reference server's.
pub fn prompt(text: &str) -> Value {
    let mut params = message(json!([{ "kind": "text", "text": text }]));
    params["message"]["metadata"] = json!({ "coderAgent": { "kind": "agent-settings" } });
    params
}

/// A prompt that makes a new task and names its workspace, as the reference server's clients do.
pub fn prompt_at(workspace: &Path, text: &str) -> Value {
    let mut params = prompt(text);
    params["message"]["metadata"]["coderAgent"]["workspacePath"] = json!(workspace);
    params
}

/// A prompt to a task that exists.
pub fn prompt_in(task: &str, text: &str) -> Value {
    inside(task, prompt(text))
}

/// The answer to one question about a call: `proceed_once`, `cancel`, ….
pub fn approval(task: &str, call: &str, outcome: &str) -> Value {
    let part = json!({ "kind": "data", "data": { "callId": call, "outcome": outcome } });
    inside(task, message(json!([part])))
}

fn message(parts: Value) -> Value {
    json!({ "message": {
        "kind": "message", "role": "user", "messageId": format!("m-{}", fresh()), "parts": parts,
    } })
}

fn inside(task: &str, mut params: Value) -> Value {
    params["message"]["taskId"] = json!(task);
    params
}

/// The id of the task in a result: that of a task object, or the one that an update names.
pub fn task_of(result: &Value) -> Option<&str> {
    match result["kind"].as_str() {
        Some("task") => result["id"].as_str(),
        _ => result["taskId"].as_str(),
    }
}

pub fn state_of(result: &Value) -> Option<&str> {
    result["status"]["state"].as_str()
}

/// The text of an update, its parts joined.
pub fn text_of(result: &Value) -> String {
    let parts = result["status"]["message"]["parts"].as_array();
    parts.into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

/// The id of the tool call for which an update asks approval.
pub fn asked_of(result: &Value) -> Option<&str> {
    let parts = result["status"]["message"]["parts"].as_array()?;
    let asking = parts.iter().find(|part| part["data"]["status"] == "awaiting_approval")?;
    asking["data"]["request"]["callId"].as_str()
}

/// The kind of a status update: `text-content`, `tool-call-update`, ….
pub fn kind_of(result: &Value) -> &str {
    result["metadata"]["coderAgent"]["kind"].as_str().unwrap_or("")
}

/// The tool call in an update.
pub fn call_of(result: &Value) -> &Value {
    &result["status"]["message"]["parts"][0]["data"]
}

/// The status of the tool call in an update: `scheduled`, `executing`, `success`, ….
pub fn call_status_of(result: &Value) -> &str {
    call_of(result)["status"].as_str().unwrap_or("")
}
