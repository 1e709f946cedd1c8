//! The coder projection, for clients of the reference server. Event kinds, states and payloads are those of the reference server's recorded
//! streams. Every update of a tool call has the whole call.
//!
//! In 0.3 the state in a tool event is the one last announced (`State::announced`), not the current one: after an approval it stays
//! `input-required` until the results have been sent to the model, as with the reference server. In 1.0, which the reference server
//! does not support, it is the current state, because clients of 1.0 take `input-required` for the end of a stream.

use crate::a2a::dialect::Writer;
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Frame, Piece, StatusUpdate};
use crate::a2a::views::call::{Call, FileChange};
use crate::a2a::views::tools::{Tool, Tools};
use crate::a2a::views::update::{Change, Step, Update, failure, status_message, thought};
use crate::a2a::words::{CODER, CallStatus, OURS};
use crate::task::log::answer::Usage;
use crate::task::log::gemini::UsageMetadata;
use crate::task::log::long_text::LongText;
use crate::task::machine::state::{CallState, State};
use crate::task::message::{Artifact, Part, Source};
use crate::task::spec::{Display, Ending, Question, ToolSpec};
use serde_json::Value;
use std::borrow::Cow;

/// None: clients are not shown the update.
pub fn frame<'a>(update: &Update<'a>, tools: &Tools, writer: Writer) -> Option<Frame<'a>> {
    let Update { state, seq, at, .. } = *update;
    let shown_state = match writer {
        Writer::V03 | Writer::Proto03 => state.announced,
        Writer::V10 => state.status.state,
    };
    // A status that no stream ends with.
    let status = |message, metadata| {
        Some(Frame::Status(StatusUpdate { state: shown_state, at, message, metadata, closing: None }))
    };
    let content = |kind, since, piece| {
        let metadata = metadata(kind, state, |o| _ = o.optional("traceId", state.turn.trace.as_deref()));
        status(Some(AgentMessage::new(since, piece)), metadata)
    };
    let notice = |text: Cow<'a, str>| {
        status(Some(AgentMessage::new(seq, Piece::Text(text))), metadata("state-change", state, |_| {}))
    };
    let tool_call = |kind, call: Call<'_>| {
        let metadata = metadata(kind, state, |o| write_answered_by(o, call.call.decided_by()));
        status(Some(AgentMessage::new(seq, Piece::Data(encode_call(state, call, tools)))), metadata)
    };
    match update.change {
        Change::Answered(answer) if !answer.has_calls() => None,
        Change::Working | Change::ResultsSent | Change::Answered(_) => {
            status(None, metadata("state-change", state, |_| {}))
        }
        Change::Paused | Change::Stopped => Some(Frame::Status(status_update(state, std::iter::empty()))),
        Change::Thought { subject, description } => content("thought", seq, thought(subject, description)),
        Change::Text { text, since } => content("text-content", since, Piece::Text(text.into())),
        Change::Citation(text) => content("citation", seq, Piece::Text(text.into())),
        Change::Call { call, step } => match step {
            Step::Planned | Step::AllowedByAnswer | Step::Started | Step::Ended => tool_call("tool-call-update", call),
            Step::Asked => tool_call("tool-call-confirmation", call),
            // The call has been shown as scheduled already, and a client might take an answered question for a new one.
            Step::AllowedByRule | Step::Answered => None,
            Step::Printed { text, .. } => Some(output(call.call, text)),
        },
        Change::Artifact(ref artifact) => Some(Frame::Artifact(artifact.clone())),
        Change::Retracted(ref text) => notice(text.clone().into()),
        Change::Notice { ref text, .. } => notice(text.clone()),
        Change::Created | Change::Prompted { .. } => None,
    }
}

/// The current status, as a frame that a stream may end with. It repeats the calls that wait for an answer, so that a client that sees
/// only this frame can answer.
pub fn current_status<'a>(state: &'a State, tools: &Tools) -> StatusUpdate<'a> {
    status_update(state, asked(state, tools))
}

/// The agent's message about the current status: its text, and every call that waits for an answer, without the schemas of the tools.
/// The reference server has the calls of a task only in the history, among everything else that it has sent.
pub fn message(state: &State) -> Option<AgentMessage<'_>> {
    status_message(state, asked(state, &Tools::new(&[])))
}

/// The calls that wait for an answer.
fn asked<'a>(state: &'a State, tools: &Tools) -> impl Iterator<Item = Piece<'a>> {
    let encode = |call| encode_call(state, Call { call, status: CallStatus::AwaitingApproval }, tools);
    state.asked().map(move |call| Piece::Data(encode(call)))
}

/// The current status, with the parts `more` after its text.
fn status_update<'a>(state: &'a State, more: impl Iterator<Item = Piece<'a>>) -> StatusUpdate<'a> {
    let metadata = |usage: Option<Usage>| {
        metadata("state-change", state, |o| {
            o.optional("error", failure(state)).optional("usageMetadata", usage.map(UsageMetadata));
        })
    };
    StatusUpdate {
        state: state.status.state,
        at: state.status.at,
        message: status_message(state, more),
        metadata: metadata(None),
        closing: Some(metadata(state.turn.usage)),
    }
}

/// A piece of live output. The first piece creates the artifact, later ones are appended to it.
pub fn output<'a>(call: &CallState, text: &str) -> Frame<'a> {
    Frame::Artifact(ArtifactUpdate {
        artifact: Cow::Owned(Artifact {
            id: format!("tool-{}-output", call.id()),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
        }),
        append: call.outputs > 1,
        last: false,
    })
}

/// Writes the metadata member that names who decided about a call.
pub fn write_answered_by(o: &mut Object<'_>, source: Option<&Source>) {
    if let Some(source) = source {
        o.object(OURS, |o| _ = o.member("answered_by", source));
    }
}

/// The metadata of a status update.
pub fn metadata(kind: &str, state: &State, more: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    object(|o| {
        o.object(CODER, |o| _ = o.member("kind", kind)).member("model", &state.model);
        more(o);
    })
}

/// A tool call as JSON. Its question is shown while it waits, its result once it has ended.
fn encode_call(state: &State, call: Call<'_>, tools: &Tools) -> Vec<u8> {
    let tool = tools.of_call(call.call);
    let tool = tool.as_deref();
    object(|o| {
        o.object("request", |o| {
            o.member("callId", call.call.id()).member("name", &call.call.request.name);
            o.member("args", &*shown_args(call.call));
            if let Some(tool) = tool {
                o.object("display", |o| display_name(o, call, tool));
            }
            o.member("isClientInitiated", &false);
            o.member("prompt_id", &format!("{}########{}", state.created.task, state.turn.number.saturating_sub(1)));
            o.optional("traceId", state.turn.trace.as_deref()).member("schedulerId", &state.created.task);
        });
        o.member("status", call.status.coder());
        if let Some(question) = call.question() {
            o.object("confirmationDetails", |o| details(o, question));
        }
        if let Some(ending) = call.ending() {
            o.object("response", |o| response(o, call, ending, tool));
        }
        o.optional("outcome", call.call.choice.map(|choice| choice.word()));
        if let Some(tool) = tool {
            o.name("tool").extend_from_slice(&tool.shown);
        }
    })
}

/// The arguments as clients need them. Content that the user edited replaces the model's, which gets a member of its own. An edit whose
/// arguments name only the replaced text also gets the whole proposed content, so that a client can show a diff without reading the file.
fn shown_args(call: &CallState) -> Cow<'_, Value> {
    let (Some(args), Some(Question::Edit { new, .. })) =
        (call.request.args.as_object(), call.plan.as_ref().map(|plan| &plan.question))
    else {
        return Cow::Borrowed(&call.request.args);
    };
    let has_content = args.contains_key("content");
    if has_content && call.edited.is_none() {
        return Cow::Borrowed(&call.request.args);
    }
    let mut args = args.clone();
    let wanted = call.edited.as_deref().unwrap_or(new.as_str());
    args.insert(if has_content { "content" } else { "newContent" }.into(), wanted.into());
    if call.edited.is_some() {
        args.insert("ai_proposed_content".into(), new.as_str().into());
        args.insert("modified_by_user".into(), true.into());
    }
    Cow::Owned(args.into())
}

fn display_name(o: &mut Object<'_>, call: Call<'_>, tool: &Tool) {
    let ToolSpec { display_name, description, .. } = &tool.spec;
    o.member("name", display_name).member("description", call.title().unwrap_or(description));
}

fn details(o: &mut Object<'_>, question: &Question) {
    let mut about = |kind: &str, title: &str| {
        o.member("type", kind).member("title", title);
    };
    match question {
        Question::Edit { title, file_name, file_path, diff, old, new } => {
            about("edit", title);
            o.member("fileName", file_name).member("filePath", file_path).member("fileDiff", diff.as_str());
            o.member("originalContent", shown(old)).member("newContent", new.as_str());
        }
        Question::Exec { title, command, programs, dir: _, warnings: _, needs_approval: _, edits: _ } => {
            about("exec", title);
            o.member("command", command).member("rootCommand", &programs.join(", ")).member("rootCommands", programs);
        }
        Question::Mcp { title, server, tool, display_name, args, description, schema, warnings } => {
            about("mcp", title);
            o.member("serverName", server).member("toolName", tool).member("toolDisplayName", display_name);
            o.member("toolArgs", args).member("toolDescription", description);
            o.optional("toolParameterSchema", Some(schema).filter(|schema| !schema.is_null()));
            o.optional("systemMessage", Some(warnings.join(" ")).filter(|text| !text.is_empty()).as_ref());
        }
        Question::Info { title, prompt, urls } => {
            about("info", title);
            o.member("prompt", prompt).filled("urls", urls);
        }
        Question::AskUser { title, questions } => {
            about("ask_user", title);
            o.member("questions", questions);
        }
    }
}

fn response(o: &mut Object<'_>, call: Call<'_>, ending: &Ending, tool: Option<&Tool>) {
    let (name, for_model): (_, Cow<'_, str>) = match ending {
        Ending::Success { output, .. } => ("output", output.as_str().into()),
        Ending::Error { error } => ("error", error.message.as_str().into()),
        Ending::Cancelled { reason, .. } => ("error", format!("[Operation Cancelled] Reason: {reason}").into()),
    };
    o.member("callId", call.call.id());
    if let Ending::Error { error } = ending {
        o.object("error", |o| _ = o.member("message", &error.message));
    }
    o.list("responseParts", [()], |o, ()| {
        o.object("functionResponse", |o| {
            o.member("id", call.call.id()).member("name", &call.call.request.name);
            o.object("response", |o| _ = o.member(name, &for_model));
        });
    });
    match ending {
        Ending::Success { display, .. } => {
            if let Some(tool) = tool {
                o.object("display", |o| success_display(o, call, tool, display));
            }
            result_display(o, display);
        }
        Ending::Error { error } => _ = o.member("resultDisplay", &error.message),
        // The change that was not made, or the output so far.
        Ending::Cancelled { output, .. } => match call.planned_question().and_then(FileChange::asked) {
            Some(change) => _ = o.object("resultDisplay", |o| file_diff(o, change)),
            None => _ = o.optional("resultDisplay", Some(output.as_str()).filter(|output| !output.is_empty())),
        },
    }
    if let Ending::Error { error } = ending {
        o.member("errorType", error.kind.word());
    }
    // The length of the text for the model in UTF-16 code units, as the reference server counts.
    o.member("contentLength", &for_model.encode_utf16().count());
}

fn success_display(o: &mut Object<'_>, call: Call<'_>, tool: &Tool, display: &Display) {
    display_name(o, call, tool);
    match display {
        Display::Text { text } | Display::Summary { text } | Display::Media { text, .. } => {
            o.object("result", |o| _ = o.member("type", "text").member("text", text.as_str()))
        }
        Display::Diff { file_path, old, new, added, removed, .. } => {
            o.member("resultSummary", &format!("{added} added, {removed} removed"));
            o.object("result", |o| {
                o.member("type", "diff").member("path", file_path);
                o.member("beforeText", shown(old)).member("afterText", new.as_str());
            })
        }
        Display::Todos { todos } => o.object("result", |o| _ = o.member("type", "todos").member("todos", todos)),
    };
}

fn result_display(o: &mut Object<'_>, display: &Display) {
    match (display, FileChange::made(display)) {
        (Display::Text { text } | Display::Summary { text } | Display::Media { text, .. }, _) => {
            o.member("resultDisplay", text.as_str());
        }
        (Display::Todos { todos }, _) => _ = o.object("resultDisplay", |o| _ = o.member("todos", todos)),
        (Display::Diff { .. }, change) => {
            let change = change.expect("a diff is a change");
            o.object("resultDisplay", |o| {
                file_diff(o, change);
                o.member("isNewFile", &change.old.is_none());
            });
        }
    }
}

/// The content of a file, empty if the file does not exist.
fn shown(content: &Option<LongText>) -> &str {
    content.as_ref().map_or("", LongText::as_str)
}

fn file_diff(o: &mut Object<'_>, change: FileChange<'_>) {
    o.member("fileDiff", change.diff).member("fileName", change.name).member("filePath", change.path);
    o.member("originalContent", change.old.unwrap_or_default()).member("newContent", change.new);
    o.object("diffStat", |o| diff_stat(o, change.diff));
}

/// The statistics of a unified diff of one file. The `user_` members are zero: changes by the user are in the diff and counted there.
fn diff_stat(o: &mut Object<'_>, diff: &str) {
    let lines = || diff.lines().skip_while(|line| !line.starts_with("@@"));
    let changed = |sign| lines().filter_map(move |line| line.strip_prefix(sign));
    let chars = |sign| changed(sign).map(|line| line.chars().count()).sum::<usize>();
    o.member("model_added_lines", &changed('+').count()).member("model_removed_lines", &changed('-').count());
    o.member("model_added_chars", &chars('+')).member("model_removed_chars", &chars('-'));
    for name in ["user_added_lines", "user_removed_lines", "user_added_chars", "user_removed_chars"] {
        o.member(name, &0);
    }
}
