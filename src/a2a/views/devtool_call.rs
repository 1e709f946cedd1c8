//! The tool-call object of the development-tool extension: every update has the whole call, in the names of that extension. Other views
//! use it too: plain clients get it as the data of a question, and session clients get its members among others.
//!
//! The extension has four kinds of questions: commands are `execute_details`, edits are `file_edit_details`, calls of MCP tools are
//! `mcp_details`, and everything else is `generic_details`. Members that the extension does not define are added where clients ignore
//! unknown members: `warnings` beside a command, `urls` and `questions` beside a description. The agent's own questions are answered
//! with `answers` beside the option: the user's answers by the number of the question.

use crate::a2a::encodings::object::{Object, object};
use crate::a2a::views::call::{Call, FileChange};
use crate::a2a::words::Offer;
use crate::task::log::long_text::LongText;
use crate::task::spec::{Display, Ending, Question};

/// Where the details of a question are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// In the question itself, as the extension defines it.
    Direct,
    /// In the question itself and again under `details`: clients of the session look in either place.
    Twice,
}

/// The call as JSON.
pub fn encode(call: Call<'_>) -> Vec<u8> {
    object(|o| members(o, call, Details::Direct))
}

pub fn members(o: &mut Object<'_>, call: Call<'_>, placed: Details) {
    let request = &call.call.request;
    o.member("tool_call_id", call.call.id()).member("status", call.status.devtool()).member("tool_name", &request.name);
    o.optional("description", call.title()).member("input_parameters", &request.args);
    o.optional("live_content", call.live());
    match call.ending() {
        Some(Ending::Success { display, output: for_model }) => {
            o.object("output", |o| output(o, display, for_model));
        }
        Some(Ending::Error { error }) => failure(o, &error.message, error.kind.word()),
        Some(Ending::Cancelled { reason, output: _ }) => failure(o, reason, "cancelled"),
        None => {}
    }
    if let Some(question) = call.question() {
        o.object("confirmation_request", |o| confirmation(o, call, question, placed));
    }
}

/// The result as people see it; `for_model` is the text that the model reads.
fn output(o: &mut Object<'_>, display: &Display, for_model: &LongText) {
    match display {
        Display::Text { text } | Display::Media { text, .. } => _ = o.member("text", text.as_str()),
        Display::Summary { .. } => _ = o.member("text", for_model.as_str()),
        Display::Todos { todos } => _ = o.object("structured_data", |o| _ = o.member("todos", todos)),
        Display::Diff { .. } => {
            let change = FileChange::made(display).expect("a diff is a change");
            o.object("diff", |o| file_diff(o, change));
        }
    }
}

fn failure(o: &mut Object<'_>, message: &str, kind: &str) {
    o.object("error", |o| _ = o.member("message", message).member("type", kind));
}

fn file_diff(o: &mut Object<'_>, change: FileChange<'_>) {
    o.member("file_name", change.name).member("file_path", change.path).optional("old_content", change.old);
    o.member("new_content", change.new).member("formatted_diff", change.diff);
}

fn confirmation(o: &mut Object<'_>, call: Call<'_>, question: &Question, placed: Details) {
    let mut offers = call.offers();
    if placed == Details::Twice {
        offers = offers.into_iter().map(Offer::in_session).collect();
    }
    o.member("options", &offers);
    about(o, call, question);
    if placed == Details::Twice {
        o.object("details", |o| about(o, call, question));
    }
}

/// Writes the details of a question.
fn about(o: &mut Object<'_>, call: Call<'_>, question: &Question) {
    match question {
        Question::Exec { title: _, command, programs: _, dir, warnings, needs_approval: _, edits: _ } => {
            o.object("execute_details", |o| {
                o.member("command", command).optional("working_directory", dir.as_deref()).filled("warnings", warnings);
            });
        }
        Question::Edit { .. } => {
            let change = FileChange::asked(question).expect("an edit is a change");
            o.object("file_edit_details", |o| file_diff(o, change));
        }
        Question::Mcp { title: _, server, tool, display_name: _, args: _, description, schema: _, warnings } => {
            o.object("mcp_details", |o| {
                o.member("server_name", server).member("tool_name", tool);
                o.optional("description", Some(description).filter(|text| !text.is_empty()));
                o.filled("warnings", warnings);
            });
        }
        Question::Info { title: _, prompt, urls } => {
            o.object("generic_details", |o| _ = o.member("description", prompt).filled("urls", urls));
        }
        Question::AskUser { title, questions } => {
            o.object("generic_details", |o| {
                o.member("description", &call.listed(title, questions)).filled("questions", questions);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::a2a::words::CallStatus;
    use crate::base::id::Seq;
    use crate::task::log::record::Record;
    use crate::task::machine::state::{CallState, Live};
    use crate::task::spec::{ApprovalScope, Choice, ErrorKind, InquiryKind, Todo, TodoStatus};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn shown(call: &CallState, status: CallStatus) -> Value {
        serde_json::from_slice(&encode(Call { call, status })).unwrap()
    }

    fn running(question: Question) -> CallState {
        sample::call("run_shell_command", json!({"command": "make"}), Some(question))
    }

    fn command() -> Question {
        Question::Exec {
            title: "Confirm".into(),
            command: "make".into(),
            programs: vec!["make".into()],
            dir: None,
            warnings: vec![],
            needs_approval: None,
            edits: vec![],
        }
    }

    fn options(keeping: ApprovalScope) -> Value {
        let mut all = vec![
            json!({"id": "proceed_once", "name": "Allow Once"}),
            json!({"id": "proceed_always", "name": "Always Allow"}),
        ];
        if keeping == ApprovalScope::Disk {
            all.push(json!({"id": "proceed_always_and_save", "name": "Always Allow and Save",
                "description": "Also in later sessions in this workspace."}));
        }
        all.push(json!({"id": "cancel", "name": "Reject"}));
        json!(all)
    }

    #[test]
    fn a_call_without_a_question() {
        let call = running(command());
        let whole = json!({"tool_call_id": "call-1", "status": "PENDING", "tool_name": "run_shell_command",
            "description": "What it does", "input_parameters": {"command": "make"}});
        assert_eq!(shown(&call, CallStatus::Scheduled), whole);
        let made_up = sample::call("no_such_tool", json!({}), None);
        assert_eq!(
            shown(&made_up, CallStatus::Scheduled),
            json!({"tool_call_id": "call-1", "status": "PENDING", "tool_name": "no_such_tool", "input_parameters": {}})
        );
    }

    fn asked(question: Question) -> Value {
        shown(&running(question), CallStatus::AwaitingApproval)["confirmation_request"].take()
    }

    #[test]
    fn every_kind_of_question() {
        let with = |name: &str, details: Value| json!({"options": options(ApprovalScope::Session), name: details});
        assert_eq!(asked(command()), with("execute_details", json!({"command": "make"})));
        let warned = Question::Exec {
            title: "Confirm".into(),
            command: "make".into(),
            programs: vec![],
            dir: Some("sub".into()),
            warnings: vec!["It is long.".into()],
            needs_approval: None,
            edits: vec![],
        };
        assert_eq!(
            asked(warned),
            with(
                "execute_details",
                json!({"command": "make", "working_directory": "sub", "warnings": ["It is long."]})
            )
        );
        assert_eq!(
            asked(sample::edit()),
            with(
                "file_edit_details",
                json!({"file_name": "a.txt", "file_path": "/w/a.txt", "old_content": "old\n",
                    "new_content": "newer\n", "formatted_diff": sample::DIFF})
            )
        );
        let mut tool = with(
            "mcp_details",
            json!({"server_name": "x", "tool_name": "put", "description": "Puts it.",
            "warnings": ["It changed."]}),
        );
        let ids = ["proceed_once", "proceed_always_tool", "proceed_always_server", "cancel"];
        let mut shown = asked(sample::mcp(&["It changed."]));
        let offers = shown["options"].take();
        assert_eq!(offers.as_array().unwrap().iter().map(|one| &one["id"]).collect::<Vec<_>>(), ids);
        tool["options"] = Value::Null;
        assert_eq!(shown, tool);
        let info = |urls| Question::Info { title: "Confirm Fetch".into(), prompt: "Fetch it?".into(), urls };
        assert_eq!(asked(info(vec![])), with("generic_details", json!({"description": "Fetch it?"})));
        assert_eq!(
            asked(info(vec!["https://x.test".into()])),
            with("generic_details", json!({"description": "Fetch it?", "urls": ["https://x.test"]}))
        );
    }

    #[test]
    fn questions_of_the_agents_own() {
        let question = Question::AskUser {
            title: "Questions".into(),
            questions: vec![
                sample::inquiry(InquiryKind::Choice, &["A", "B"]),
                sample::inquiry(InquiryKind::YesNo, &[]),
                sample::inquiry(InquiryKind::Text, &[]),
            ],
        };
        assert_eq!(
            asked(question),
            json!({"options": [{"id": "proceed_once", "name": "Answer"}, {"id": "cancel", "name": "Dismiss"}],
                "generic_details": {
                    "description": "Which one? (A / B)\nWhich one? (yes / no)\nWhich one?",
                    "questions": [
                        {"question": "Which one?", "header": "Which", "type": "choice",
                            "options": [{"label": "A", "description": ""}, {"label": "B", "description": ""}]},
                        {"question": "Which one?", "header": "Which", "type": "yesno"},
                        {"question": "Which one?", "header": "Which", "type": "text"}]}})
        );
    }

    #[test]
    fn options_follow_the_approval_scope_of_the_question() {
        let mut call = running(command());
        for keeping in [ApprovalScope::Session, ApprovalScope::Disk] {
            call.keeping = keeping;
            let shown = shown(&call, CallStatus::AwaitingApproval);
            assert_eq!(shown["confirmation_request"]["options"], options(keeping));
            let last = call.options().last();
            assert_eq!(last, Some(&Choice::Cancel));
        }
    }

    #[test]
    fn details_in_both_places() {
        let call = running(command());
        let call = Call { call: &call, status: CallStatus::AwaitingApproval };
        let shown = object(|o| members(o, call, Details::Twice));
        let mut options = options(ApprovalScope::Session);
        options[2]["name"] = json!("Cancel");
        assert_eq!(
            serde_json::from_slice::<Value>(&shown).unwrap()["confirmation_request"],
            json!({"options": options, "execute_details": {"command": "make"},
                "details": {"execute_details": {"command": "make"}}})
        );
    }

    #[test]
    fn output_is_shown_while_it_runs() {
        let mut call = running(command());
        assert_eq!(shown(&call, CallStatus::Executing).get("live_content"), None);
        let record = Record { seq: Seq(9), ..sample::record(crate::task::log::event::Event::Retried) };
        call.live = Some(Live::begin("so far", &record));
        assert_eq!(
            shown(&call, CallStatus::Executing),
            json!({"tool_call_id": "call-1", "status": "EXECUTING", "tool_name": "run_shell_command",
                "description": "What it does", "input_parameters": {"command": "make"}, "live_content": "so far"})
        );
    }

    #[test]
    fn every_ending() {
        let ended = |ending: Ending| {
            let mut call = running(command());
            let status = CallStatus::of(&ending);
            call.ending = Some(Arc::new(ending));
            let mut shown = shown(&call, status);
            let [status, output, error] = ["status", "output", "error"]
                .map(|name| shown.as_object_mut().and_then(|shown| shown.remove(name)).unwrap_or_default());
            (status, output, error)
        };
        let success = |display| Ending::Success { output: "for the model".into(), display };
        let text = Display::Text { text: "1".into() };
        assert_eq!(ended(success(text)), (json!("SUCCEEDED"), json!({"text": "1"}), Value::Null));
        let found = Display::Summary { text: "Found 2 matches".into() };
        assert_eq!(ended(success(found)).1, json!({"text": "for the model"}));
        let diff = |old: Option<&str>| Display::Diff {
            file_name: "a.txt".into(),
            file_path: "/w/a.txt".into(),
            diff: sample::DIFF.into(),
            old: old.map(Into::into),
            new: "newer\n".into(),
            added: 1,
            removed: 1,
        };
        let mut file = json!({"file_name": "a.txt", "file_path": "/w/a.txt", "new_content": "newer\n",
            "formatted_diff": sample::DIFF});
        assert_eq!(ended(success(diff(None))), (json!("SUCCEEDED"), json!({ "diff": file }), Value::Null));
        file["old_content"] = json!("old\n");
        assert_eq!(ended(success(diff(Some("old\n")))).1, json!({ "diff": file }));
        let todos = vec![Todo { description: "x".into(), status: TodoStatus::Pending }];
        assert_eq!(
            ended(success(Display::Todos { todos })).1,
            json!({"structured_data": {"todos": [{"description": "x", "status": "pending"}]}})
        );
        let error = ErrorKind::ReadContentFailure.error("It is gone.");
        assert_eq!(
            ended(Ending::Error { error }),
            (json!("FAILED"), Value::Null, json!({"message": "It is gone.", "type": "read_content_failure"}))
        );
        let cancelled = Ending::Cancelled { reason: "Not now.".into(), output: "half".into() };
        assert_eq!(
            ended(cancelled),
            (json!("CANCELLED"), Value::Null, json!({"message": "Not now.", "type": "cancelled"}))
        );
    }
}
