//! What the flat dialects of the reference server's documents have in common. They know no tasks, messages or parts: every event
//! is one object of a few members, and results and errors are strings. Which members, and under which names, is for `kebab` and
//! `snake` to say.

use crate::a2a::views::devtool_call;
use crate::a2a::words::{self, Offer};
use crate::base::json;
use crate::task::machine::state::{CallState, State, TaskState};
use crate::task::spec::{Display, Ending, Inquiry, Question};
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;

/// One object, written member by member.
pub struct Flat(Vec<u8>);

impl Flat {
    /// An object whose member `tag` says what it is about.
    pub fn new(tag: &str, word: &str) -> Flat {
        Flat(format!("{{\"{tag}\":\"{word}\"").into_bytes())
    }

    /// The name is one of ours and needs no escaping.
    pub fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Flat {
        write!(self.0, ",\"{name}\":").expect("memory takes it");
        json::write(&mut self.0, value);
        self
    }

    pub fn with_some<T: Serialize + ?Sized>(self, name: &str, value: Option<&T>) -> Flat {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// The status as last announced.
pub struct Standing<'a> {
    pub state: TaskState,
    /// Unix milliseconds.
    pub at: u64,
    /// Why the task or its last turn failed.
    pub error: Option<&'a str>,
    /// What else there is to say: a question of the agent, who stopped it, which credential is missing.
    pub text: Option<&'a str>,
}

impl<'a> Standing<'a> {
    pub fn of(state: &'a State) -> Standing<'a> {
        let said = state.status.text.as_deref();
        let error = match state.status.state {
            TaskState::Failed | TaskState::Rejected => said,
            TaskState::Completed | TaskState::Canceled => None,
            TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
                state.error.as_deref()
            }
        };
        Standing {
            state: words::idle_completed(state.status.state, state.turn_is_over()),
            at: state.status.at,
            error,
            text: said.filter(|_| error.is_none()),
        }
    }
}

/// What people see of a call's end, in words.
#[derive(Default)]
pub struct Outcome<'a> {
    pub result: Option<Cow<'a, str>>,
    pub error: Option<&'a str>,
}

impl<'a> Outcome<'a> {
    pub fn of(call: &'a CallState) -> Outcome<'a> {
        match call.ending.as_deref() {
            None => Outcome::default(),
            Some(Ending::Success { output, display }) => Outcome { result: Some(shown(output, display)), error: None },
            Some(Ending::Error { error }) => Outcome { result: None, error: Some(&error.message) },
            Some(Ending::Cancelled { reason, output }) => Outcome {
                result: Some(output.as_str()).filter(|output| !output.is_empty()).map(Cow::Borrowed),
                error: Some(reason),
            },
        }
    }
}

fn shown<'a>(output: &'a str, display: &'a Display) -> Cow<'a, str> {
    match display {
        Display::Text { text } if text.is_empty() => output.into(),
        Display::Text { text } => text.into(),
        Display::Diff { diff, .. } => diff.into(),
        Display::Todos { todos } => {
            let lines = todos.iter().map(|todo| {
                let status = todo.status.word();
                format!("[{status}] {}", todo.description)
            });
            lines.collect::<Vec<_>>().join("\n").into()
        }
    }
}

/// A question about a call. The options are the words an answer may name, beside a plain yes or no.
#[derive(Serialize)]
pub struct Confirmation<'a> {
    title: &'a str,
    prompt: Cow<'a, str>,
    #[serde(rename = "type")]
    weight: &'static str,
    options: Vec<Offer>,
    /// For questions of the agent itself: answered by their numbers.
    #[serde(skip_serializing_if = "<[Inquiry]>::is_empty")]
    questions: &'a [Inquiry],
}

impl<'a> Confirmation<'a> {
    /// None: the call was not looked at yet.
    pub fn of(call: &'a CallState) -> Option<Confirmation<'a>> {
        let plan = call.plan.as_ref()?;
        let (title, prompt, weight) = match &plan.question {
            Question::Edit { title, diff, .. } => (title, format!("{}\n\n{diff}", plan.title).into(), "warning"),
            Question::Exec { title, command, dir, warnings, .. } => {
                let mut prompt = command.clone();
                if let Some(dir) = dir {
                    prompt.push_str(&format!("\n(in {dir})"));
                }
                for warning in warnings {
                    prompt.push_str(&format!("\n{warning}"));
                }
                (title, prompt.into(), "danger")
            }
            Question::Info { title, prompt, urls } => {
                let lines: Vec<&str> = std::iter::once(prompt).chain(urls).map(String::as_str).collect();
                (title, lines.join("\n").into(), "info")
            }
            Question::AskUser { title, questions } => {
                let lines: Vec<&str> = questions.iter().map(|one| one.question.as_str()).collect();
                (title, Cow::Owned(lines.join("\n")), "info")
            }
        };
        Some(Confirmation {
            title,
            prompt,
            weight,
            options: devtool_call::offers(call),
            questions: match &plan.question {
                Question::AskUser { questions, .. } => questions,
                Question::Edit { .. } | Question::Exec { .. } | Question::Info { .. } => &[],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::task::spec::{ErrorKind, InquiryKind, Todo, TodoStatus};
    use serde_json::{Value, json};
    use std::sync::Arc;

    #[test]
    fn results_are_strings() {
        let outcome = |ending| {
            let mut call = sample::call("x", json!({}), None);
            call.ending = Some(Arc::new(ending));
            let Outcome { result, error } = Outcome::of(&call);
            (result.map(Cow::into_owned), error.map(str::to_owned))
        };
        let success = |display| Ending::Success { output: "for the model".into(), display };
        let text = |text: &str| success(Display::Text { text: text.into() });
        let todos = [("look", TodoStatus::Completed), ("write", TodoStatus::Pending)];
        let todos = todos.map(|(description, status)| Todo { description: description.into(), status });
        let cancelled = |output: &str| Ending::Cancelled { reason: "no".into(), output: output.into() };
        let error = ErrorKind::FileNotFound.error("gone");
        for (ending, result, error) in [
            (text("shown"), Some("shown"), None),
            (text(""), Some("for the model"), None),
            (success(Display::Todos { todos: todos.into() }), Some("[completed] look\n[pending] write"), None),
            (
                success(Display::Diff {
                    file_name: "a.txt".into(),
                    file_path: "/w/a.txt".into(),
                    diff: sample::DIFF.into(),
                    old: None,
                    new: "newer\n".into(),
                    added: 1,
                    removed: 0,
                }),
                Some(sample::DIFF),
                None,
            ),
            (Ending::Error { error }, None, Some("gone")),
            (cancelled(""), None, Some("no")),
            (cancelled("half"), Some("half"), Some("no")),
        ] {
            let expected = (result.map(Into::into), error.map(Into::into));
            assert_eq!(outcome(ending.clone()), expected, "{ending:?}");
        }
    }

    #[test]
    fn every_question_says_what_it_is_about() {
        let options = json!([{"id": "proceed_once", "name": "Allow Once"},
            {"id": "proceed_always", "name": "Always Allow"}, {"id": "cancel", "name": "Reject"}]);
        let inquiry = Inquiry {
            question: "Which one?".into(),
            header: "One".into(),
            kind: InquiryKind::Text,
            options: Vec::new(),
            multi_select: false,
            placeholder: None,
        };
        for (question, expected) in [
            (
                sample::edit(),
                json!({"title": "Confirm Write: a.txt", "prompt": format!("What it does\n\n{}", sample::DIFF),
                    "type": "warning", "options": options}),
            ),
            (
                Question::Exec {
                    title: "Run".into(),
                    command: "make -B".into(),
                    programs: vec!["make".into()],
                    dir: Some("sub".into()),
                    warnings: vec!["It rebuilds everything.".into()],
                    needs_approval: None,
                    edits: vec![],
                },
                json!({"title": "Run", "prompt": "make -B\n(in sub)\nIt rebuilds everything.",
                    "type": "danger", "options": options}),
            ),
            (
                Question::Info {
                    title: "Fetch".into(),
                    prompt: "Look it up".into(),
                    urls: vec!["https://x.test/".into()],
                },
                json!({"title": "Fetch", "prompt": "Look it up\nhttps://x.test/", "type": "info", "options": options}),
            ),
            (
                Question::AskUser { title: "Answer".into(), questions: vec![inquiry] },
                json!({"title": "Answer", "prompt": "Which one?", "type": "info",
                    "options": [{"id": "proceed_once", "name": "Answer"}, {"id": "cancel", "name": "Dismiss"}],
                    "questions": [{"question": "Which one?", "header": "One", "type": "text"}]}),
            ),
        ] {
            let call = sample::call("x", json!({}), Some(question));
            let shown: Value = serde_json::to_value(Confirmation::of(&call)).expect("JSON");
            assert_eq!(shown, expected);
        }
    }
}
