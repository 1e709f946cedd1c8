//! Makes audit entries from the events of a task. An entry contains texts only as hash and length. Arguments of calls are in it unchanged,
//! with sorted keys, unless they are long. Known secrets are replaced first.

use super::{Kind, What};
use crate::base::id::ConfigId;
use crate::base::json;
use crate::limits::audit::{AUDIT_ARGS_BYTES, AUDIT_PROMPT_BYTES, AUDIT_TEXT_BYTES};
use crate::task::definitions::slash::Invocation;
use crate::task::log::blob::sha256;
use crate::task::log::event::{Created, Event, Final, calls, detours, errands, shells, speech};
use crate::task::log::long_text::LongText;
use crate::task::machine::state::{CallState, State};
use crate::task::message::{Content, Message};
use crate::task::push::Target;
use crate::task::spec::{Confinement, Ending, Question};
use serde_json::{Map, Value, json};

/// The names of the members with the hash and the length of a text.
const EDITED: (&str, &str) = ("edited_sha256", "edited_bytes");
const ANSWERS: (&str, &str) = ("answers_sha256", "answers_bytes");
const OUTPUT: (&str, &str) = ("output_sha256", "output_bytes");

/// Replaces known secrets in a text.
pub type Redact = Box<dyn Fn(&str) -> String + Send>;

/// Whether entries contain the text of prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prompts {
    #[default]
    Hashed,
    Whole,
}

/// Who caused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The sender of the current request.
    Person,
    /// The agent, in its turn.
    Agent,
}

/// How texts are written into entries.
pub struct Texts {
    pub redact: Redact,
    pub prompts: Prompts,
}

impl Texts {
    /// The entry for an event, given the state before it. None: the event is not audited.
    pub fn of_event(&self, state: &State, event: &Event) -> Option<(Kind, Cause, What)> {
        if let Event::CommandBegan = event {
            let command = state.created.command.as_ref()?;
            return Some((Kind::Ran, Cause::Agent, self.slash_command(command)));
        }
        let none = What::default;
        let (kind, what) = match event {
            Event::Created(created) => (Kind::Created, self.created(created)),
            Event::Prompted { message, turn, .. } => (Kind::Prompted, self.prompted(message, *turn)),
            Event::Dropped { turn, .. } => (Kind::Canceled, none().with("prompt", *turn)),
            Event::TurnEnded { turn, by: Some(_), .. } => (Kind::Canceled, none().with("turn", *turn)),
            Event::Closed { state: Final::Canceled, .. } => (Kind::Canceled, none()),
            Event::HookSet { target } => (Kind::HookSet, self.hook(&target.id, Some(target))),
            Event::HookDropped { id } => {
                let hook = state.hooks.iter().find(|hook| hook.target.id == *id);
                (Kind::HookDropped, self.hook(id, hook.map(|hook| hook.target.as_ref())))
            }
            calls!() => return self.of_call(state, event),
            shells!() => return self.of_shell(event),
            Event::Steered { .. }
            | Event::Tuned { .. }
            | Event::TurnBegan { .. }
            | Event::Paused
            | Event::ResultsSent
            | Event::Produced { .. }
            | Event::TurnEnded { by: None, .. }
            | Event::Interrupted { .. }
            | Event::Resumed
            | Event::Closed { .. }
            | Event::HookMoved { .. }
            | errands!()
            | speech!()
            | detours!() => return None,
        };
        Some((kind, Cause::Person, what))
    }

    fn of_call(&self, state: &State, event: &Event) -> Option<(Kind, Cause, What)> {
        Some(match event {
            Event::CallAsked { call, .. } => (Kind::Asked, Cause::Agent, self.call(state.call(call)?)),
            Event::CallAnswered { call, choice, edited, answers, rules, .. } => {
                let mut what = self.call(state.call(call)?).with("choice", choice.word());
                if let Some(edited) = edited {
                    what = what.hashed(EDITED, edited.as_bytes());
                }
                if let Some(answers) = answers {
                    what = what.hashed(ANSWERS, &json::bytes(answers.as_ref()));
                }
                let rules: Vec<Value> = rules.iter().map(|rule| self.value(&json!(rule))).collect();
                (Kind::Answered, Cause::Person, what.optional("rules", (!rules.is_empty()).then_some(rules)))
            }
            Event::CallReplied { call, nr, action, fields, .. } => {
                let fields: Vec<Value> = fields.iter().map(|field| self.text(field)).collect();
                let what = What::default().with("call", self.text(call.as_str())).with("question", *nr);
                (Kind::Answered, Cause::Person, what.with("choice", action.word()).with("fields", fields))
            }
            Event::CallStarted { call } => {
                let call = state.call(call)?;
                let mut what = self.call(call);
                if let Some(edited) = &call.edited {
                    what = what.hashed(EDITED, edited.as_bytes());
                }
                let confined = call.confinement != Confinement::None;
                (Kind::Ran, Cause::Agent, what.optional("confined", confined.then_some(true)))
            }
            Event::CallEnded { call, ending } => {
                let tool = state.call(call).map(|call| self.text(&call.request.name));
                let what = What::default().with("call", self.text(call.as_str())).optional("tool", tool);
                (Kind::Result, Cause::Agent, ended(what, ending))
            }
            _ => return None,
        })
    }

    /// A user's own command.
    fn of_shell(&self, event: &Event) -> Option<(Kind, Cause, What)> {
        let what = What::default().with("tool", "shell");
        match event {
            Event::ShellBegan { command, .. } => {
                let args = self.args(&json!({ "command": command }));
                Some((Kind::Ran, Cause::Person, What([what.0, args].concat())))
            }
            Event::ShellEnded { text } => Some((Kind::Result, Cause::Agent, what.hashed(OUTPUT, text.as_bytes()))),
            _ => None,
        }
    }

    /// A webhook with its host only, because the rest of its URL may be secret.
    fn hook(&self, id: &ConfigId, target: Option<&Target>) -> What {
        let host = target.map(|target| self.text(host(&target.url)));
        What::default().with("hook", self.text(id.as_str())).optional("host", host)
    }

    fn created(&self, created: &Created) -> What {
        let mode = json!(created.mode);
        let what = What::default().with("context", self.text(created.context.as_str()));
        let what = what.with("workspace", self.text(&created.workspace)).with("model", self.text(&created.model));
        let parent = created.parent.as_ref().map(|(task, _)| self.text(task.as_str()));
        let auto = created.auto_execute.then_some(true);
        what.with("mode", mode).optional("parent", parent).optional("auto_execute", auto)
    }

    fn prompted(&self, message: &Message, turn: u32) -> What {
        let texts: Vec<&LongText> = message.parts.iter().filter_map(|part| text_of(&part.content)).collect();
        let files = message.parts.len() - texts.len();
        let what = What::default().with("turn", turn);
        // A long text is stored by its hash, which need not be computed again.
        let (sha256, bytes) = match texts.as_slice() {
            [text] if text.blob().is_some_and(|blob| blob.bytes == text.bytes()) => {
                (text.blob().map(|blob| blob.sha256.clone()).unwrap_or_default(), text.bytes())
            }
            _ => {
                let text = message.text();
                (sha256(text.as_bytes()), text.len() as u64)
            }
        };
        let shown = self.prompts == Prompts::Whole && bytes <= AUDIT_PROMPT_BYTES as u64;
        let text = shown.then(|| (self.redact)(&message.text()));
        let what = what.with("sha256", sha256).with("bytes", bytes).optional("text", text);
        what.optional("others", (files > 0).then_some(files))
    }

    /// A slash command. Its arguments are part of a prompt.
    fn slash_command(&self, command: &Invocation) -> What {
        let what = What::default().with("tool", self.text(&format!("/{}", command.name())));
        let args = json!(command.args);
        match self.prompts {
            Prompts::Whole => What([what.0, self.args(&args)].concat()),
            Prompts::Hashed => what.with("args_sha256", sha256(&json::bytes(&args))),
        }
    }

    /// A call with its tool, its arguments and the file that it edits.
    fn call(&self, call: &CallState) -> What {
        let what = What::default().with("call", self.text(call.id().as_str()));
        let what = what.with("tool", self.text(&call.request.name));
        let what = What([what.0, self.args(&call.request.args)].concat());
        what.optional("file", call.plan.as_ref().and_then(|plan| self.file(&plan.question)))
    }

    /// The real path of the file that an edit is about.
    fn file(&self, question: &Question) -> Option<Value> {
        match question {
            Question::Edit { file_path, .. } => Some(self.text(file_path)),
            _ => None,
        }
    }

    fn args(&self, args: &Value) -> Vec<(&'static str, Value)> {
        let args = self.value(args);
        // The keys of an object are in order.
        let bytes = json::bytes(&args);
        let hash = Value::from(sha256(&bytes));
        match bytes.len() <= AUDIT_ARGS_BYTES {
            true => vec![("args", args), ("args_sha256", hash)],
            false => vec![("args_bytes", bytes.len().into()), ("args_sha256", hash)],
        }
    }

    /// The value with secrets replaced in keys and in strings.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String((self.redact)(text)),
            Value::Array(values) => values.iter().map(|value| self.value(value)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| ((self.redact)(key), self.value(value)));
                Value::Object(members.collect::<Map<String, Value>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// The beginning of a text, with secrets replaced.
    pub fn text(&self, text: &str) -> Value {
        let mut text = (self.redact)(text);
        let end = text.floor_char_boundary(AUDIT_TEXT_BYTES);
        text.truncate(end);
        Value::String(text)
    }
}

fn text_of(content: &Content) -> Option<&LongText> {
    match content {
        Content::Text(text) => Some(text),
        Content::Bytes(_) | Content::Uri(_) | Content::Data(_) => None,
    }
}

/// How a call ended, and the hash of what the model is told.
fn ended(what: What, ending: &Ending) -> What {
    match ending {
        Ending::Success { output, .. } => output_of(what.with("outcome", "success"), output),
        Ending::Error { error } => what.with("outcome", error.kind.word()).hashed(OUTPUT, error.message.as_bytes()),
        Ending::Cancelled { output, .. } => output_of(what.with("outcome", "cancelled"), output),
    }
}

fn output_of(what: What, output: &LongText) -> What {
    match output.blob() {
        Some(blob) => what.with(OUTPUT.0, blob.sha256.clone()).with(OUTPUT.1, blob.bytes),
        None => what.hashed(OUTPUT, output.as_str().as_bytes()),
    }
}

impl What {
    /// Adds the hash and the length of a text.
    fn hashed(self, (hash, length): (&'static str, &'static str), bytes: &[u8]) -> What {
        self.with(hash, sha256(bytes)).with(length, bytes.len())
    }
}

/// The host of a URL, with its port.
fn host(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::message::{Part, Role};

    fn texts(prompts: Prompts) -> Texts {
        Texts { redact: Box::new(|text| text.replace("s3cret", "[redacted]")), prompts }
    }

    fn member<'a>(what: &'a What, name: &str) -> Option<&'a Value> {
        what.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    #[test]
    fn of_a_webhook_only_the_host_is_recorded() {
        for (url, expected) in [
            ("https://example.com/in/s3cret?k=s3cret", "example.com"),
            ("http://user:s3cret@example.com:8080", "example.com:8080"),
            ("https://[::1]:7/x", "[::1]:7"),
            ("https://example.com#s3cret", "example.com"),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn prompts_are_hashed_and_their_text_is_recorded_up_to_a_limit() {
        let message = |text: String| Message::new("m", Role::User, vec![Part::text(text.as_str())]);
        let what = texts(Prompts::Hashed).prompted(&message("say s3cret".into()), 7);
        assert_eq!(member(&what, "sha256"), Some(&json!(sha256(b"say s3cret"))));
        assert_eq!((member(&what, "bytes"), member(&what, "text")), (Some(&json!(10)), None));
        let whole = texts(Prompts::Whole);
        let what = whole.prompted(&message("say s3cret".into()), 7);
        assert_eq!(member(&what, "text"), Some(&json!("say [redacted]")));
        for (bytes, shown) in [(AUDIT_PROMPT_BYTES, true), (AUDIT_PROMPT_BYTES + 1, false)] {
            let what = whole.prompted(&message("x".repeat(bytes)), 7);
            assert_eq!(member(&what, "text").is_some(), shown);
            assert_eq!(member(&what, "bytes"), Some(&json!(bytes)));
        }
    }

    #[test]
    fn other_texts_are_cut_between_characters() {
        let text = texts(Prompts::Hashed).text(&"é".repeat(AUDIT_TEXT_BYTES));
        assert_eq!(text.as_str().map(str::len), Some(AUDIT_TEXT_BYTES));
    }
}
