//! The members that the streams of `POST /message/stream` and `POST /tasks/{id}/execute` have in common. These streams have no tasks,
//! messages or parts: every event is one object with a few members, and results and errors are strings.

use crate::a2a::encodings::object::Object;
use crate::a2a::views::call::{Call, mcp_call, prompt_and_urls};
use crate::a2a::views::update::{failure, shown_outcome};
use crate::task::machine::state::{State, TaskState};
use crate::task::spec::Question;

/// The members of a state: its name, and why the task or its last turn failed; if neither failed, the text of the status, such as a
/// question of the agent, who cancelled the task or which credential is missing.
pub fn status(o: &mut Object<'_>, state: &State, word: fn(TaskState) -> &'static str) {
    let text = state.status.text.as_deref();
    let rejected = text.filter(|_| state.status.state == TaskState::Rejected);
    let error = rejected.or(failure(state));
    o.member("state", word(shown_outcome(state))).optional("error", error);
    o.optional("text", text.filter(|_| error.is_none()));
}

/// The members of a notice about something that delays or changes the turn.
pub fn notice(o: &mut Object<'_>, state: &State, word: fn(TaskState) -> &'static str, text: &str) {
    o.member("state", word(shown_outcome(state))).member("text", text);
}

/// The members of a question about a call. An answer names one of the options, or is a plain yes or no.
pub fn confirmation(o: &mut Object<'_>, call: Call<'_>, question: &Question) {
    let (title, prompt, kind) = match question {
        Question::Edit { title, diff, .. } => (title, format!("{}\n\n{}", call.label(), diff.as_str()), "warning"),
        Question::Exec { title, command, dir, warnings, .. } => {
            let dir = dir.iter().map(|dir| format!("(in {dir})"));
            let lines: Vec<String> = [command.clone()].into_iter().chain(dir).chain(warnings.iter().cloned()).collect();
            (title, lines.join("\n"), "danger")
        }
        Question::Mcp { title, .. } => (title, mcp_call(question).unwrap_or_default(), "warning"),
        Question::Info { title, prompt, urls } => (title, prompt_and_urls(prompt, urls), "info"),
        Question::AskUser { title, questions } => {
            let lines: Vec<&str> = questions.iter().map(|one| one.question.as_str()).collect();
            (title, lines.join("\n"), "info")
        }
    };
    o.member("title", title).member("prompt", &prompt).member("type", kind).member("options", &call.offers());
    // The answers to the agent's own questions refer to the questions by their numbers.
    if let Question::AskUser { questions, .. } = question {
        o.filled("questions", questions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::encodings::object::object;
    use crate::a2a::sample;
    use crate::a2a::words::CallStatus;
    use crate::task::spec::{Display, Ending, ErrorKind, Inquiry, InquiryKind, Todo, TodoStatus};
    use serde_json::{Value, json};
    use std::borrow::Cow;
    use std::sync::Arc;

    #[test]
    fn results_are_strings() {
        let outcome = |ending| {
            let mut call = sample::call("x", json!({}), None);
            call.ending = Some(Arc::new(ending));
            let call = Call { call: &call, status: CallStatus::Success };
            (call.result().map(Cow::into_owned), call.failure().map(str::to_owned))
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

    fn which_one() -> Inquiry {
        Inquiry {
            question: "Which one?".into(),
            header: "One".into(),
            kind: InquiryKind::Text,
            options: Vec::new(),
            multi_select: false,
            placeholder: None,
        }
    }

    #[test]
    fn every_kind_of_question_has_its_description() {
        let options = json!([{"id": "proceed_once", "name": "Allow Once"},
            {"id": "proceed_always", "name": "Always Allow"}, {"id": "cancel", "name": "Reject"}]);
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
                sample::mcp(&["It changed."]),
                json!({"title": "Confirm MCP Tool x", "prompt": sample::MCP_TEXT, "type": "warning", "options": [
                    options[0],
                    {"id": "proceed_always_tool", "name": "Always Allow Tool",
                        "description": "This tool, for the rest of this session, while its server does not change it."},
                    {"id": "proceed_always_server", "name": "Always Allow Server",
                        "description": "All tools of this server, for the rest of this session."},
                    options[2]]}),
            ),
            (
                Question::AskUser { title: "Answer".into(), questions: vec![which_one()] },
                json!({"title": "Answer", "prompt": "Which one?", "type": "info",
                    "options": [{"id": "proceed_once", "name": "Answer"}, {"id": "cancel", "name": "Dismiss"}],
                    "questions": [{"question": "Which one?", "header": "One", "type": "text"}]}),
            ),
        ] {
            let call = sample::call("x", json!({}), Some(question));
            let call = Call { call: &call, status: CallStatus::AwaitingApproval };
            let shown = object(|o| confirmation(o, call, call.question().expect("it asks")));
            let shown: Value = serde_json::from_slice(&shown).expect("JSON");
            assert_eq!(shown, expected);
        }
    }
}
