//! What went over the line, as text that is the same in every run: ids become `t-1`, `c-1` and `call-1` in the order in which they
//! were seen first, times, token counts and the workspace become words.

use serde_json::{Map, Value};

/// Members whose value is an id or has an `id`, and what such an id is called.
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

/// Members whose number is another one in every run.
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
    /// What is written instead of what, longest first.
    names: Vec<(String, String)>,
    pub text: String,
}

impl Transcript {
    pub fn of(workspace: &str) -> Transcript {
        let names = vec![(workspace.to_owned(), "WORKSPACE".to_owned())];
        Transcript { names, text: String::new() }
    }

    /// The id that was seen last under such a name, as it is in truth.
    pub fn newest(&self, kind: &str) -> Option<&str> {
        let (id, _) = self.names.iter().rev().find(|(_, name)| {
            let start = name.rsplit_once('-');
            start.is_some_and(|(start, _)| start == kind)
        })?;
        Some(id)
    }

    pub fn sent(&mut self, line: &str) {
        self.line(">", line);
    }

    pub fn heard(&mut self, line: &str) {
        self.line("<", line);
    }

    /// A value with the ids it brings.
    pub fn shown(&mut self, value: &Value) -> String {
        self.learn(value);
        self.steady(value).to_string()
    }

    fn line(&mut self, mark: &str, line: &str) {
        let line = self.renamed(line);
        self.text.push_str(&format!("{mark} {line}\n"));
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.learn(one)),
            Value::Object(members) => {
                // In the order of the table: a session's context has the id of its task.
                for (name, kind) in IDS {
                    let id = members.get(name).map(|value| value.get("id").unwrap_or(value));
                    if let Some(Value::String(id)) = id {
                        self.meet(kind, id);
                    }
                }
                members.values().for_each(|one| self.learn(one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn meet(&mut self, kind: &str, id: &str) {
        if self.names.iter().any(|(known, _)| known == id) {
            return;
        }
        let start = format!("{kind}-");
        let before = self.names.iter().filter(|(_, name)| name.starts_with(&start));
        let name = format!("{start}{}", before.count() + 1);
        self.names.push((id.to_owned(), name));
    }

    fn steady(&self, value: &Value) -> Value {
        match value {
            Value::Array(all) => all.iter().map(|one| self.steady(one)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| {
                    let value = if COUNTS.contains(&name.as_str()) && value.is_u64() {
                        Value::from("NUMBER")
                    } else if name == "declarations" {
                        // Of the tools, which are not what this is about.
                        Value::from("STORED")
                    } else {
                        self.steady(value)
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

/// `2026-03-01T09:30:00.125Z`, and nothing else.
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000Z";
    text.len() == form.len() && text.chars().zip(form.chars()).all(|(c, f)| c == f || (f == '0' && c.is_ascii_digit()))
}
