//! The record of a session, as text that is the same in every run: ids become `t-1`, `c-1` and `call-1` in the order of their first
//! occurrence, and times, token counts and the workspace become words.

use serde_json::{Map, Value};

/// Members whose value is an id or has an `id`, and the beginning of the name that replaces it.
const IDS: [(&str, &str); 9] = [
    ("taskId", "t"),
    ("sessionId", "t"),
    ("task", "t"),
    ("contextId", "c"),
    ("context", "c"),
    ("tool_call_id", "call"),
    ("toolCallId", "call"),
    ("callId", "call"),
    ("call", "call"),
];

/// Members with a number that differs from run to run.
const COUNTS: [&str; 10] = [
    "contentLength",
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
    "prompt",
    "output",
    "total",
    "at",
    "delay_ms",
    "since",
];

#[derive(Default)]
pub struct Transcript {
    /// Texts, and the names that replace them.
    names: Vec<(String, String)>,
    pub text: String,
}

impl Transcript {
    pub fn of(workspace: &str) -> Transcript {
        let names = vec![(workspace.to_owned(), "WORKSPACE".to_owned())];
        Transcript { names, text: String::new() }
    }

    /// The original id that was replaced last by a name that begins with `kind`.
    pub fn newest_id(&self, kind: &str) -> Option<&str> {
        let (id, _) = self.names.iter().rev().find(|(_, name)| {
            let start = name.rsplit_once('-');
            start.is_some_and(|(start, _)| start == kind)
        })?;
        Some(id)
    }

    pub fn sent(&mut self, line: &str) {
        self.line(">", line);
    }

    pub fn sent_value(&mut self, value: &Value) {
        let text = self.normalized(value);
        self.sent(&text);
    }

    pub fn received(&mut self, line: &str) {
        self.line("<", line);
    }

    /// A value as text that is the same in every run. Gives new ids in it a name.
    pub fn normalized(&mut self, value: &Value) -> String {
        self.name_ids(value);
        self.normalized_value(value).to_string()
    }

    fn line(&mut self, mark: &str, line: &str) {
        let line = self.renamed(line);
        self.text.push_str(&format!("{mark} {line}\n"));
    }

    fn name_ids(&mut self, value: &Value) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.name_ids(one)),
            Value::Object(members) => {
                // In the order of the table: a session's context has the id of its task.
                for (name, kind) in IDS {
                    let id = members.get(name).map(|value| value.get("id").unwrap_or(value));
                    if let Some(Value::String(id)) = id {
                        self.name_id(kind, id);
                    }
                }
                members.values().for_each(|one| self.name_ids(one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn name_id(&mut self, kind: &str, id: &str) {
        if self.names.iter().any(|(known, _)| known == id) {
            return;
        }
        let start = format!("{kind}-");
        let before = self.names.iter().filter(|(_, name)| name.starts_with(&start));
        let name = format!("{start}{}", before.count() + 1);
        self.names.push((id.to_owned(), name));
    }

    fn normalized_value(&self, value: &Value) -> Value {
        match value {
            Value::Array(all) => all.iter().map(|one| self.normalized_value(one)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| {
                    let value = if COUNTS.contains(&name.as_str()) && value.is_u64() {
                        Value::from("NUMBER")
                    } else if name == "declarations" {
                        // The declarations of the tools are no part of the dialect.
                        Value::from("STORED")
                    } else {
                        self.normalized_value(value)
                    };
                    (name.clone(), value)
                });
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::String(text) if is_time(text) => Value::from("TIME"),
            Value::String(text) => Value::from(self.renamed(text)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    pub fn renamed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, name) in &self.names {
            text = text.replace(id, name);
        }
        text
    }
}

/// Whether the whole text is a time such as `2026-03-01T09:30:00.125Z`.
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000Z";
    text.len() == form.len() && text.chars().zip(form.chars()).all(|(c, f)| c == f || (f == '0' && c.is_ascii_digit()))
}
