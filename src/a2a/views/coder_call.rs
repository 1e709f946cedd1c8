//! The tool-call object of the coder profile: the whole call, on every update, as the reference server sends it. Written from
//! borrowed parts; only an edited call makes new arguments.

use crate::a2a::views::tools::Tools;
use crate::a2a::words::CallStatus;
use crate::base::id::{CallId, TaskId};
use crate::base::json;
use crate::task::machine::state::{CallState, State};
use crate::task::spec::{Display, Ending, Inquiry, Question, Todo};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The call as JSON. Its question is shown while it waits, its result once it has ended.
pub fn encode(state: &State, call: &CallState, status: CallStatus, tools: &Tools) -> Vec<u8> {
    let tool = tools.get(&call.request.name);
    let name = tool.map(|tool| Name {
        name: &tool.display_name,
        description: call.plan.as_ref().map_or(&tool.description, |plan| &plan.title),
    });
    let question = match status {
        CallStatus::AwaitingApproval => call.plan.as_ref().map(|plan| &plan.question),
        CallStatus::Scheduled
        | CallStatus::Executing
        | CallStatus::Success
        | CallStatus::Error
        | CallStatus::Cancelled => None,
    };
    json::bytes(&ToolCall {
        request: Asked {
            call_id: call.id(),
            name: &call.request.name,
            args: shown_args(call),
            display: name,
            is_client_initiated: false,
            prompt_id: format!("{}########{}", state.created.task, state.turn.saturating_sub(1)),
            trace_id: state.trace.as_deref(),
            scheduler_id: &state.created.task,
        },
        status: status.coder(),
        confirmation_details: question.map(Details::of),
        response: call.ending.as_ref().map(|ending| Response::of(call, ending, name)),
        outcome: call.choice.map(|choice| choice.word()),
        tool: tool.map(|tool| &*tool.shown),
    })
}

/// The arguments as clients need them. A user's own content replaces the model's, which is kept beside it; an edit that names
/// only a change carries the whole proposed file too, so that a client can show a diff without reading the disk.
fn shown_args(call: &CallState) -> Cow<'_, Value> {
    let (Some(args), Some(Question::Edit { new, .. })) =
        (call.request.args.as_object(), call.plan.as_ref().map(|plan| &plan.question))
    else {
        return Cow::Borrowed(&call.request.args);
    };
    let holds_file = args.contains_key("content");
    if holds_file && call.edited.is_none() {
        return Cow::Borrowed(&call.request.args);
    }
    let mut args = args.clone();
    let wanted = call.edited.as_deref().unwrap_or(new);
    let place = if holds_file { "content" } else { "newContent" };
    args.insert(place.into(), wanted.into());
    if call.edited.is_some() {
        args.insert("ai_proposed_content".into(), new.as_str().into());
        args.insert("modified_by_user".into(), true.into());
    }
    Cow::Owned(args.into())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    request: Asked<'a>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation_details: Option<Details<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Response<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    call_id: &'a CallId,
    name: &'a str,
    args: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<Name<'a>>,
    is_client_initiated: bool,
    #[serde(rename = "prompt_id")]
    prompt_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    scheduler_id: &'a TaskId,
}

#[derive(Clone, Copy, Serialize)]
struct Name<'a> {
    name: &'a str,
    description: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Details<'a> {
    Edit {
        title: &'a str,
        file_name: &'a str,
        file_path: &'a str,
        file_diff: &'a str,
        original_content: &'a str,
        new_content: &'a str,
    },
    Exec {
        title: &'a str,
        command: &'a str,
        root_command: String,
        root_commands: &'a [String],
    },
    Info {
        title: &'a str,
        prompt: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        urls: &'a [String],
    },
    #[serde(rename = "ask_user")]
    AskUser {
        title: &'a str,
        questions: &'a [Inquiry],
    },
}

impl<'a> Details<'a> {
    fn of(question: &'a Question) -> Details<'a> {
        match question {
            Question::Edit { title, file_name, file_path, diff, old, new } => Details::Edit {
                title,
                file_name,
                file_path,
                file_diff: diff,
                original_content: old.as_deref().unwrap_or_default(),
                new_content: new,
            },
            Question::Exec { title, command, programs, dir: _, warnings: _, needs_approval: _, edits: _ } => {
                Details::Exec { title, command, root_command: programs.join(", "), root_commands: programs }
            }
            Question::Info { title, prompt, urls } => Details::Info { title, prompt, urls },
            Question::AskUser { title, questions } => Details::AskUser { title, questions },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    call_id: &'a CallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
    response_parts: [ResponsePart<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_display: Option<ResultDisplay<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'static str>,
    /// Of what the model reads, in UTF-16 units as the reference server counts.
    content_length: usize,
}

#[derive(Serialize)]
struct Failure<'a> {
    message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponsePart<'a> {
    function_response: FunctionResponse<'a>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    id: &'a CallId,
    name: &'a str,
    response: ForModel<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ForModel<'a> {
    Output(&'a str),
    Error(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_summary: Option<String>,
    result: ShownResult<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum ShownResult<'a> {
    Text { text: &'a str },
    Diff { path: &'a str, before_text: &'a str, after_text: &'a str },
    Todos { todos: &'a [Todo] },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultDisplay<'a> {
    Text(&'a str),
    Diff(FileDiff<'a>),
    Todos { todos: &'a [Todo] },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileDiff<'a> {
    file_diff: &'a str,
    file_name: &'a str,
    file_path: &'a str,
    original_content: &'a str,
    new_content: &'a str,
    diff_stat: DiffStat,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_new_file: Option<bool>,
}

/// The `user_` half stays at zero: what the user changed in a proposal is in the diff like everything else.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct DiffStat {
    model_added_lines: usize,
    model_removed_lines: usize,
    model_added_chars: usize,
    model_removed_chars: usize,
    user_added_lines: usize,
    user_removed_lines: usize,
    user_added_chars: usize,
    user_removed_chars: usize,
}

impl DiffStat {
    /// Counts a unified diff of one file.
    fn of(diff: &str) -> DiffStat {
        let mut stat = DiffStat::default();
        for line in diff.lines().skip_while(|line| !line.starts_with("@@")) {
            if let Some(added) = line.strip_prefix('+') {
                stat.model_added_lines += 1;
                stat.model_added_chars += added.chars().count();
            } else if let Some(removed) = line.strip_prefix('-') {
                stat.model_removed_lines += 1;
                stat.model_removed_chars += removed.chars().count();
            }
        }
        stat
    }
}

impl<'a> Response<'a> {
    fn of(call: &'a CallState, ending: &'a Ending, name: Option<Name<'a>>) -> Response<'a> {
        let (for_model, display, result_display) = match ending {
            Ending::Success { output, display } => {
                (ForModel::Output(output), name.map(|name| Shown::of(name, display)), Some(ResultDisplay::of(display)))
            }
            Ending::Error { error } => {
                (ForModel::Error(error.message.as_str().into()), None, Some(ResultDisplay::Text(&error.message)))
            }
            Ending::Cancelled { reason, output } => (
                ForModel::Error(format!("[Operation Cancelled] Reason: {reason}").into()),
                None,
                given_up(call, output),
            ),
        };
        let error = match ending {
            Ending::Error { error } => Some(error),
            Ending::Success { .. } | Ending::Cancelled { .. } => None,
        };
        let text: &str = match &for_model {
            ForModel::Output(text) => text,
            ForModel::Error(text) => text,
        };
        let content_length = text.encode_utf16().count();
        Response {
            call_id: call.id(),
            error: error.map(|error| Failure { message: &error.message }),
            response_parts: [ResponsePart {
                function_response: FunctionResponse { id: call.id(), name: &call.request.name, response: for_model },
            }],
            display,
            result_display,
            error_type: error.map(|error| error.kind.word()),
            content_length,
        }
    }
}

impl<'a> Shown<'a> {
    fn of(name: Name<'a>, display: &'a Display) -> Shown<'a> {
        match display {
            Display::Text { text } => Shown { name, result_summary: None, result: ShownResult::Text { text } },
            Display::Diff { file_path, old, new, added, removed, .. } => Shown {
                name,
                result_summary: Some(format!("{added} added, {removed} removed")),
                result: ShownResult::Diff {
                    path: file_path,
                    before_text: old.as_deref().unwrap_or_default(),
                    after_text: new,
                },
            },
            Display::Todos { todos } => Shown { name, result_summary: None, result: ShownResult::Todos { todos } },
        }
    }
}

impl<'a> ResultDisplay<'a> {
    fn of(display: &'a Display) -> ResultDisplay<'a> {
        match display {
            Display::Text { text } => ResultDisplay::Text(text),
            Display::Diff { file_name, file_path, diff, old, new, added: _, removed: _ } => {
                ResultDisplay::Diff(FileDiff {
                    file_diff: diff,
                    file_name,
                    file_path,
                    original_content: old.as_deref().unwrap_or_default(),
                    new_content: new,
                    diff_stat: DiffStat::of(diff),
                    is_new_file: Some(old.is_none()),
                })
            }
            Display::Todos { todos } => ResultDisplay::Todos { todos },
        }
    }
}

/// What is shown of a cancelled call: the change that was not made, or what had been printed.
fn given_up<'a>(call: &'a CallState, output: &'a str) -> Option<ResultDisplay<'a>> {
    match call.plan.as_ref().map(|plan| &plan.question) {
        Some(Question::Edit { title: _, file_name, file_path, diff, old, new }) => {
            Some(ResultDisplay::Diff(FileDiff {
                file_diff: diff,
                file_name,
                file_path,
                original_content: old.as_deref().unwrap_or_default(),
                new_content: new,
                diff_stat: DiffStat::of(diff),
                is_new_file: None,
            }))
        }
        Some(Question::Exec { .. } | Question::Info { .. } | Question::AskUser { .. }) | None => {
            (!output.is_empty()).then_some(ResultDisplay::Text(output))
        }
    }
}
