//! The tool-call object of the development-tool extension: the whole call on every update, in the names of that extension. Other
//! views borrow it: plain clients get it as the data of a question, sessions get it flat.
//!
//! The extension knows four kinds of questions and ours fit three of them: commands are `execute_details`, edits are
//! `file_edit_details`, all else is `generic_details`. What it has no member for is added where those who do not know it pass over
//! it: `warnings` beside a command, `urls` and `questions` beside a description. Questions of the agent's own are answered with
//! `answers` beside the option: what the user says, by the number of the question.

use crate::a2a::words::{CallStatus, Offer};
use crate::base::id::CallId;
use crate::task::machine::state::{CallState, Stage};
use crate::task::spec::{Choice, Display, Ending, Inquiry, InquiryKind, Question, Todo};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

#[derive(Debug, Serialize)]
pub struct ToolCall<'a> {
    tool_call_id: &'a CallId,
    status: &'static str,
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Output<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation_request: Option<Confirmation<'a>>,
}

/// Where a question's details stand, and with it who reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// In the question itself, as the extension has it.
    Direct,
    /// There, and once more under `details`: some clients of the session look for them here, some there.
    Twice,
}

impl<'a> ToolCall<'a> {
    /// The call with this status: its question while it waits for an answer, its output while it runs, what became of it at
    /// the end.
    pub fn of(call: &'a CallState, status: CallStatus, details: Details) -> ToolCall<'a> {
        let plan = call.plan.as_ref();
        let ending = call.ending.as_deref();
        ToolCall {
            tool_call_id: call.id(),
            status: status.devtool(),
            tool_name: &call.request.name,
            description: plan.map(|plan| plan.title.as_str()),
            input_parameters: &call.request.args,
            live_content: call.live.as_ref().filter(|_| status == CallStatus::Executing).map(|live| live.tail.as_str()),
            output: ending.and_then(Output::of),
            error: ending.and_then(Failure::of),
            confirmation_request: plan
                .filter(|_| status == CallStatus::AwaitingApproval)
                .map(|plan| Confirmation::of(call, &plan.question, details)),
        }
    }

    /// The call as it stands right now. None: nobody was told of it yet.
    pub fn present(call: &'a CallState, details: Details) -> Option<ToolCall<'a>> {
        let status = match call.stage {
            Stage::Named | Stage::Planned => return None,
            Stage::Asked => CallStatus::AwaitingApproval,
            Stage::Answered | Stage::Ready | Stage::Replanning { .. } => CallStatus::Scheduled,
            Stage::Running { .. } => CallStatus::Executing,
            Stage::Ended => call.ending.as_deref().map(CallStatus::of)?,
        };
        Some(ToolCall::of(call, status, details))
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Output<'a> {
    Text(&'a str),
    Diff(FileDiff<'a>),
    StructuredData { todos: &'a [Todo] },
}

impl<'a> Output<'a> {
    fn of(ending: &'a Ending) -> Option<Output<'a>> {
        let display = match ending {
            Ending::Success { output: _, display } => display,
            Ending::Error { .. } | Ending::Cancelled { .. } => return None,
        };
        Some(match display {
            Display::Text { text } => Output::Text(text),
            Display::Diff { file_name, file_path, diff, old, new, added: _, removed: _ } => Output::Diff(FileDiff {
                file_name,
                file_path,
                old_content: old.as_deref(),
                new_content: new,
                formatted_diff: diff,
            }),
            Display::Todos { todos } => Output::StructuredData { todos },
        })
    }
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> Failure<'a> {
    fn of(ending: &'a Ending) -> Option<Failure<'a>> {
        match ending {
            Ending::Success { .. } => None,
            Ending::Error { error } => Some(Failure { message: &error.message, kind: error.kind.word() }),
            Ending::Cancelled { reason, output: _ } => Some(Failure { message: reason, kind: "cancelled" }),
        }
    }
}

#[derive(Debug, Serialize)]
struct FileDiff<'a> {
    file_name: &'a str,
    file_path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_content: Option<&'a str>,
    new_content: &'a str,
    formatted_diff: &'a str,
}

#[derive(Debug, Serialize)]
struct Confirmation<'a> {
    options: Vec<Offer>,
    #[serde(flatten)]
    about: About<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<About<'a>>,
}

impl<'a> Confirmation<'a> {
    fn of(call: &CallState, question: &'a Question, details: Details) -> Confirmation<'a> {
        let about = About::of(question);
        match details {
            Details::Direct => Confirmation { options: offers(call), about, details: None },
            Details::Twice => Confirmation {
                options: offers(call).into_iter().map(Offer::in_session).collect(),
                about,
                details: Some(About::of(question)),
            },
        }
    }
}

/// What may be answered about a call that waits.
pub fn offers(call: &CallState) -> Vec<Offer> {
    let asks = call.plan.as_ref().is_some_and(|plan| plan.question.asks_the_user());
    let offer = |choice: &Choice| match asks {
        true => Offer::reply(*choice),
        false => Offer::permission(*choice),
    };
    call.options().iter().map(offer).collect()
}

/// What a question is about.
#[derive(Debug, Serialize)]
enum About<'a> {
    #[serde(rename = "execute_details")]
    Execute {
        command: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        working_directory: Option<&'a str>,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        warnings: &'a [String],
    },
    #[serde(rename = "file_edit_details")]
    FileEdit(FileDiff<'a>),
    #[serde(rename = "generic_details")]
    Generic {
        description: Cow<'a, str>,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        urls: &'a [String],
        #[serde(skip_serializing_if = "<[Inquiry]>::is_empty")]
        questions: &'a [Inquiry],
    },
}

impl<'a> About<'a> {
    fn of(question: &'a Question) -> About<'a> {
        match question {
            Question::Exec { title: _, command, programs: _, dir, warnings, needs_approval: _, edits: _ } => {
                About::Execute { command, working_directory: dir.as_deref(), warnings }
            }
            Question::Edit { title: _, file_name, file_path, diff, old, new } => About::FileEdit(FileDiff {
                file_name,
                file_path,
                old_content: old.as_deref(),
                new_content: new,
                formatted_diff: diff,
            }),
            Question::Info { title: _, prompt, urls } => {
                About::Generic { description: prompt.into(), urls, questions: &[] }
            }
            Question::AskUser { title: _, questions } => {
                About::Generic { description: listed(questions).into(), urls: &[], questions }
            }
        }
    }
}

/// The agent's questions for those who can only show text: one to a line, with what there is to choose from.
pub fn listed(questions: &[Inquiry]) -> String {
    let line = |asked: &Inquiry| {
        let labels = || asked.options.iter().map(|option| option.label.as_str());
        let choices: Vec<&str> = match asked.kind {
            InquiryKind::Choice => labels().collect(),
            InquiryKind::YesNo => vec!["yes", "no"],
            InquiryKind::Text => Vec::new(),
        };
        match choices.is_empty() {
            true => asked.question.clone(),
            false => format!("{} ({})", asked.question, choices.join(" / ")),
        }
    };
    let lines: Vec<String> = questions.iter().map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::id::Seq;
    use crate::task::log::record::Record;
    use crate::task::machine::state::Live;
    use crate::task::spec::{ApprovalScope, ErrorKind, TodoStatus};
    use serde_json::json;
    use std::sync::Arc;

    fn shown(call: &CallState, status: CallStatus) -> Value {
        serde_json::to_value(ToolCall::of(call, status, Details::Direct)).unwrap()
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
    fn what_is_offered_is_what_was_offered_when_it_was_asked() {
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
        let call = ToolCall::of(&call, CallStatus::AwaitingApproval, Details::Twice);
        let mut options = options(ApprovalScope::Session);
        options[2]["name"] = json!("Cancel");
        assert_eq!(
            serde_json::to_value(call).unwrap()["confirmation_request"],
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
