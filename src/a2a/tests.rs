//! What clients are shown, whole: each event of the coder view, snapshots, routes.

use super::*;
use crate::a2a::sample;
use crate::base::http::Method;
use crate::base::id::Seq;
use crate::task::call::{Call, List};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::answer::Answer;
use crate::task::log::event::{End, Event, Final};
use crate::task::machine::state::{CallResult, CallState, Item, Queued, Stage, TaskState};
use crate::task::message::{Artifact, Content, Part, Role, Source};
use crate::task::spec::{
    ApprovalScope, Choice, Confinement, Display, Ending, ErrorKind, InquiryKind, Question, Todo, TodoStatus,
};
use serde_json::{Value, json};
use std::sync::Arc;

const TIME: &str = "2026-03-01T09:30:00.125Z";

fn the_view() -> View {
    view(&Form::at("/"), None)
}

fn value(bytes: &[u8]) -> Value {
    assert!(!bytes.contains(&b'\n'), "one line");
    serde_json::from_slice(bytes).expect("JSON")
}

/// The open frame, and the closing one if there is one.
fn frames(state: &State, event: Event) -> Option<(Value, Option<Value>)> {
    let body = super::event(the_view(), state, &sample::record(event), &sample::tools())?;
    Some((value(&body.open), body.closing.map(|bytes| value(&bytes))))
}

/// The frame of an event that no stream ends with.
fn frame(state: &State, event: Event) -> Value {
    let (open, closing) = frames(state, event).expect("the event is shown");
    assert_eq!(closing, None);
    open
}

fn state_change(state: &str) -> Value {
    json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
        "status": {"state": state, "timestamp": TIME}, "final": false,
        "metadata": {"coderAgent": {"kind": "state-change"}, "model": "gemini-x"}})
}

fn agent_message(id: &str, part: Value) -> Value {
    json!({"kind": "message", "role": "agent", "parts": [part], "messageId": id, "taskId": "t-1", "contextId": "c-1"})
}

fn answered(text: &str, calls: Vec<crate::task::log::answer::Request>) -> Answer {
    Answer { said_at: Some(Seq(4)), ..Answer::new(text, calls) }
}

#[test]
fn passing_changes_of_state() {
    let state = sample::state();
    let call = sample::call("write_file", json!({}), None).request;
    for event in [
        Event::TurnBegan { turn: 1 },
        Event::ResultsSent,
        Event::Resumed,
        Event::Answered { answer: Arc::new(answered("", vec![call])) },
    ] {
        assert_eq!(frame(&state, event), state_change("working"));
    }
    let answer = Arc::new(answered("done", vec![]));
    assert_eq!(frames(&state, Event::Answered { answer }), None);
}

#[test]
fn events_nobody_is_shown() {
    let state = sample::state();
    for event in [
        Event::Created(state.created.clone()),
        Event::Prompted {
            message: Arc::new(sample::prompt("m", "x")),
            by: Source { client: "x".into(), via: "y".into() },
            turn: 2,
        },
        Event::Retracted { reason: "r".into() },
        Event::Retried,
        Event::CallStale { call: "call-1".into() },
        Event::Text { text: "".into() },
        Event::Cited { text: " \n".into() },
        Event::Thought { subject: "".into(), description: "".into() },
        Event::CallStarted { call: "of another batch".into() },
    ] {
        assert_eq!(frames(&state, event.clone()), None, "{event:?}");
    }
}

#[test]
fn what_the_agent_says_and_thinks() {
    let mut state = sample::state();
    state.utterance.since = Some(Seq(5));
    let said = |kind: &str, id: &str, part: Value| {
        json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
            "status": {"state": "working", "message": agent_message(id, part), "timestamp": TIME}, "final": false,
            "metadata": {"coderAgent": {"kind": kind}, "model": "gemini-x", "traceId": "trace-1"}})
    };
    let text = "quote \" line\n break \u{2028} and é";
    assert_eq!(
        frame(&state, Event::Text { text: text.into() }),
        said("text-content", "t-1-5", json!({"kind": "text", "text": text}))
    );
    assert_eq!(
        frame(&state, Event::Cited { text: "[1] x".into() }),
        said("citation", "t-1-9", json!({"kind": "text", "text": "[1] x"}))
    );
    let thought = Event::Thought { subject: "Plan".into(), description: "Look first.".into() };
    assert_eq!(
        frame(&state, thought),
        said("thought", "t-1-9", json!({"kind": "data", "data": {"subject": "Plan", "description": "Look first."}}))
    );
}

#[test]
fn ids_chosen_by_clients_are_escaped() {
    let mut state = sample::state();
    let mut created = state.created.as_ref().clone();
    created.context = "c\"1".into();
    state.created = Arc::new(created);
    let shown = frame(&state, Event::Text { text: "x".into() });
    assert_eq!(shown["contextId"], "c\"1");
    assert_eq!(shown["status"]["message"]["contextId"], "c\"1");
}

/// The frame of a call event, split into its data part and the rest.
fn call_frame(state: &State, event: Event) -> (Value, Value) {
    let mut shown = frame(state, event);
    let data = shown["status"]["message"]["parts"][0]["data"].take();
    (data, shown)
}

fn around_call(kind: &str, state: &str) -> Value {
    json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
        "status": {"state": state, "message": agent_message("t-1-9", json!({"kind": "data", "data": null})),
            "timestamp": TIME},
        "final": false, "metadata": {"coderAgent": {"kind": kind}, "model": "gemini-x"}})
}

fn with_call(call: CallState) -> State {
    let mut state = sample::state();
    state.calls = vec![call];
    state
}

fn writing() -> CallState {
    let args = json!({"file_path": "a.txt", "content": "newer\n"});
    sample::call("write_file", args, Some(sample::edit()))
}

fn request_of_writing() -> Value {
    json!({"callId": "call-1", "name": "write_file", "args": {"file_path": "a.txt", "content": "newer\n"},
        "display": {"name": "WriteFile", "description": "What it does"}, "isClientInitiated": false,
        "prompt_id": "t-1########0", "traceId": "trace-1", "schedulerId": "t-1"})
}

#[test]
fn a_call_from_plan_to_start() {
    let call = || "call-1".into();
    let edit = json!({"type": "edit", "title": "Confirm Write: a.txt", "fileName": "a.txt", "filePath": "/w/a.txt",
        "fileDiff": sample::DIFF, "originalContent": "old\n", "newContent": "newer\n"});
    let mut state = with_call(writing());
    let plan = state.calls[0].plan.clone().unwrap();
    let scheduled = json!({"request": request_of_writing(), "status": "scheduled", "tool": sample::write_file_shown()});
    assert_eq!(
        call_frame(&state, Event::CallPlanned { call: call(), plan }),
        (scheduled.clone(), around_call("tool-call-update", "working"))
    );
    assert_eq!(frames(&state, Event::CallReady { call: call(), confinement: Confinement::None }), None);

    let mut waiting = scheduled.clone();
    waiting["status"] = json!("awaiting_approval");
    waiting["confirmationDetails"] = edit;
    assert_eq!(
        call_frame(&state, Event::CallAsked { call: call(), keeping: ApprovalScope::Session }),
        (waiting.clone(), around_call("tool-call-confirmation", "working"))
    );

    state.told = TaskState::InputRequired;
    state.calls[0].choice = Some(Choice::ProceedOnce);
    waiting["outcome"] = json!("proceed_once");
    let answer = Event::CallAnswered {
        call: call(),
        choice: Choice::ProceedOnce,
        by: Source { client: "x".into(), via: "y".into() },
        edited: None,
        answers: None,
        rules: vec![],
    };
    assert_eq!(call_frame(&state, answer), (waiting, around_call("tool-call-confirmation", "input-required")));

    let mut ready = scheduled;
    ready["outcome"] = json!("proceed_once");
    let around = around_call("tool-call-update", "input-required");
    assert_eq!(
        call_frame(&state, Event::CallReady { call: call(), confinement: Confinement::None }),
        (ready.clone(), around.clone())
    );
    ready["status"] = json!("executing");
    assert_eq!(call_frame(&state, Event::CallStarted { call: call() }), (ready, around));
}

fn ended(mut call: CallState, ending: Ending) -> Value {
    let ending = Arc::new(ending);
    call.ending = Some(ending.clone());
    let state = with_call(call);
    let event = Event::CallEnded { call: "call-1".into(), ending };
    let (data, around) = call_frame(&state, event);
    assert_eq!(around, around_call("tool-call-update", "working"));
    data
}

fn for_model(name: &str, response: Value) -> Value {
    json!([{"functionResponse": {"id": "call-1", "name": name, "response": response}}])
}

#[test]
fn a_written_file() {
    let ending = Ending::Success {
        output: "Wrote ä.".into(),
        display: Display::Diff {
            file_name: "a.txt".into(),
            file_path: "/w/a.txt".into(),
            diff: sample::DIFF.into(),
            old: None,
            new: "newer\n".into(),
            added: 1,
            removed: 1,
        },
    };
    let data = ended(writing(), ending);
    assert_eq!(data["status"], "success");
    assert_eq!(
        data["response"],
        json!({"callId": "call-1", "responseParts": for_model("write_file", json!({"output": "Wrote ä."})),
            "display": {"name": "WriteFile", "description": "What it does", "resultSummary": "1 added, 1 removed",
                "result": {"type": "diff", "path": "/w/a.txt", "beforeText": "", "afterText": "newer\n"}},
            "resultDisplay": {"fileDiff": sample::DIFF, "fileName": "a.txt", "filePath": "/w/a.txt",
                "originalContent": "", "newContent": "newer\n", "isNewFile": true,
                "diffStat": {"model_added_lines": 1, "model_removed_lines": 1, "model_added_chars": 5,
                    "model_removed_chars": 3, "user_added_lines": 0, "user_removed_lines": 0,
                    "user_added_chars": 0, "user_removed_chars": 0}},
            "contentLength": 8})
    );
}

fn running() -> CallState {
    let question = Question::Exec {
        title: "Confirm Shell Command".into(),
        command: "echo a | wc".into(),
        programs: vec!["echo".into(), "wc".into()],
        dir: Some("/w".into()),
        warnings: vec![],
        needs_approval: None,
        edits: vec![],
    };
    let args = json!({"command": "echo a | wc"});
    sample::call("run_shell_command", args, Some(question))
}

#[test]
fn a_command() {
    let (asked, _) =
        call_frame(&with_call(running()), Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session });
    assert_eq!(
        asked["confirmationDetails"],
        json!({"type": "exec", "title": "Confirm Shell Command", "command": "echo a | wc", "rootCommand": "echo, wc",
            "rootCommands": ["echo", "wc"]})
    );
    let ending = Ending::Success { output: "Output: 1".into(), display: Display::Text { text: "1".into() } };
    assert_eq!(
        ended(running(), ending)["response"],
        json!({"callId": "call-1", "responseParts": for_model("run_shell_command", json!({"output": "Output: 1"})),
            "display": {"name": "Shell", "description": "What it does", "result": {"type": "text", "text": "1"}},
            "resultDisplay": "1", "contentLength": 9})
    );
}

#[test]
fn a_question_of_another_kind() {
    let question = |urls| Question::Info { title: "Confirm Fetch".into(), prompt: "Fetch it?".into(), urls };
    for (urls, expected) in [
        (
            vec!["https://x.test".to_owned()],
            json!({"type": "info", "title": "Confirm Fetch", "prompt": "Fetch it?", "urls": ["https://x.test"]}),
        ),
        (vec![], json!({"type": "info", "title": "Confirm Fetch", "prompt": "Fetch it?"})),
    ] {
        let call = sample::call("run_shell_command", json!({}), Some(question(urls)));
        let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
        let (data, _) = call_frame(&with_call(call), asked);
        assert_eq!(data["confirmationDetails"], expected);
    }
}

#[test]
fn a_question_of_the_agents_own() {
    let question = Question::AskUser {
        title: "Questions".into(),
        questions: vec![sample::inquiry(InquiryKind::Choice, &["A"]), sample::inquiry(InquiryKind::YesNo, &[])],
    };
    let call = sample::call("run_shell_command", json!({}), Some(question));
    let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
    let (data, _) = call_frame(&with_call(call), asked);
    assert_eq!(
        data["confirmationDetails"],
        json!({"type": "ask_user", "title": "Questions", "questions": [
            {"question": "Which one?", "header": "Which", "type": "choice", "options": [{"label": "A", "description": ""}]},
            {"question": "Which one?", "header": "Which", "type": "yesno"}]})
    );
}

#[test]
fn a_list_of_steps() {
    let ending = Ending::Success {
        output: "1. x".into(),
        display: Display::Todos { todos: vec![Todo { description: "x".into(), status: TodoStatus::InProgress }] },
    };
    let todos = json!([{"description": "x", "status": "in_progress"}]);
    let response = &ended(running(), ending)["response"];
    assert_eq!(response["resultDisplay"], json!({"todos": todos}));
    assert_eq!(response["display"]["result"], json!({"type": "todos", "todos": todos}));
}

#[test]
fn calls_that_failed() {
    let error = ErrorKind::InvalidToolParams.error("params must be object");
    let bad_args = sample::call("write_file", json!({"file_path": "x"}), None);
    let data = ended(bad_args, Ending::Error { error: error.clone() });
    assert_eq!(data["status"], "error");
    assert_eq!(data["request"]["display"], json!({"name": "WriteFile", "description": "Writes a file."}));
    assert_eq!(
        data["response"],
        json!({"callId": "call-1", "error": {"message": "params must be object"},
            "responseParts": for_model("write_file", json!({"error": "params must be object"})),
            "resultDisplay": "params must be object", "errorType": "invalid_tool_params", "contentLength": 21})
    );

    let unknown = sample::call("no_such_tool", json!({"a": 1}), None);
    let data = ended(unknown, Ending::Error { error });
    assert_eq!(data.get("tool"), None);
    assert_eq!(
        data["request"],
        json!({"callId": "call-1", "name": "no_such_tool", "args": {"a": 1}, "isClientInitiated": false,
            "prompt_id": "t-1########0", "traceId": "trace-1", "schedulerId": "t-1"})
    );
}

#[test]
fn calls_that_were_cancelled() {
    let cancelled = |output: &str| Ending::Cancelled { reason: "User denied execution.".into(), output: output.into() };
    let words = "[Operation Cancelled] Reason: User denied execution.";
    let mut refused = writing();
    refused.choice = Some(Choice::Cancel);
    let data = ended(refused, cancelled(""));
    assert_eq!((&data["status"], &data["outcome"]), (&json!("cancelled"), &json!("cancel")));
    assert_eq!(data["response"]["responseParts"], for_model("write_file", json!({ "error": words })));
    assert_eq!(data["response"]["resultDisplay"]["newContent"], json!("newer\n"));
    assert_eq!(
        ended(running(), cancelled("begin\n"))["response"],
        json!({"callId": "call-1", "responseParts": for_model("run_shell_command", json!({ "error": words })),
            "resultDisplay": "begin\n", "contentLength": 52})
    );
    assert_eq!(ended(running(), cancelled(""))["response"].get("resultDisplay"), None);
}

#[test]
fn edits_show_the_file_they_lead_to() {
    let args = |call| {
        let started = Event::CallStarted { call: "call-1".into() };
        call_frame(&with_call(call), started).0["request"]["args"].take()
    };
    let change = json!({"file_path": "a.txt", "old_string": "old", "new_string": "newer"});
    let mut replacing = sample::call("replace", change.clone(), Some(sample::edit()));
    let mut expected = change;
    expected["newContent"] = json!("newer\n");
    assert_eq!(args(replacing.clone()), expected);

    replacing.edited = Some("mine\n".into());
    expected["newContent"] = json!("mine\n");
    expected["ai_proposed_content"] = json!("newer\n");
    expected["modified_by_user"] = json!(true);
    assert_eq!(args(replacing), expected);

    let mut written = writing();
    written.edited = Some("mine\n".into());
    assert_eq!(
        args(written),
        json!({"file_path": "a.txt", "content": "mine\n", "ai_proposed_content": "newer\n", "modified_by_user": true})
    );
}

/// Folds events as a server does, and tells of each frame what clients go by: kind, state, call status, whether it may end a
/// stream.
fn told(view: View, events: Vec<Event>) -> Vec<String> {
    let created = sample::state().created;
    let mut state = None;
    let mut told = Vec::new();
    for (n, event) in (1..).zip(events) {
        let record = Record { seq: Seq(n), at: sample::AT + n, event };
        let state = match &mut state {
            None => state.insert(State::new(created.clone(), &record)),
            Some(state) => {
                state.apply(&record);
                state
            }
        };
        let Some(body) = super::event(view, state, &record, &sample::tools()) else {
            continue;
        };
        let shown = value(&body.open);
        let shown = shown.get("statusUpdate").unwrap_or(&shown);
        let kind = shown["metadata"]["coderAgent"]["kind"].as_str();
        let status = &shown["status"]["message"]["parts"][0]["data"]["status"];
        let words = [
            kind.or(shown["kind"].as_str()),
            shown["status"]["state"].as_str(),
            status.as_str(),
            body.closing.map(|_| "may close"),
        ];
        told.push(words.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
    told
}

fn approved_command() -> Vec<Event> {
    let call = || "call-1".into();
    let by = || Source { client: "x".into(), via: "y".into() };
    let asked = running();
    let plan = asked.plan.expect("it has one");
    let ending = Arc::new(Ending::Success { output: "1".into(), display: Display::Text { text: "1".into() } });
    vec![
        Event::Created(sample::state().created),
        Event::Prompted { message: Arc::new(sample::prompt("m-1", "count")), by: by(), turn: 1 },
        Event::TurnBegan { turn: 1 },
        Event::Answered { answer: Arc::new(answered("", vec![asked.request])) },
        Event::CallPlanned { call: call(), plan },
        Event::CallAsked { call: call(), keeping: ApprovalScope::Session },
        Event::Paused,
        Event::CallAnswered {
            call: call(),
            choice: Choice::ProceedOnce,
            by: by(),
            edited: None,
            answers: None,
            rules: vec![],
        },
        Event::CallReady { call: call(), confinement: Confinement::None },
        Event::CallStarted { call: call() },
        Event::CallOutput { call: call(), text: "1".into() },
        Event::CallEnded { call: call(), ending },
        Event::ResultsSent,
        Event::Text { text: "Done.".into() },
        Event::Answered { answer: Arc::new(answered("Done.", vec![])) },
        Event::TurnEnded { turn: 1, end: End::Done },
    ]
}

#[test]
fn an_approved_command_in_the_recorded_order() {
    assert_eq!(
        told(the_view(), approved_command()),
        [
            "state-change working",
            "state-change working",
            "tool-call-update working scheduled",
            "tool-call-confirmation working awaiting_approval",
            "state-change input-required may close",
            "tool-call-confirmation input-required awaiting_approval",
            "tool-call-update input-required scheduled",
            "tool-call-update input-required executing",
            "artifact-update",
            "tool-call-update input-required success",
            "state-change working",
            "text-content working",
            "state-change input-required may close",
        ]
    );
}

/// What was approved works, and says so: to a client of 1.0 the other word would be the end.
#[test]
fn an_approved_command_in_1_0_works_from_the_answer_on() {
    let view = View::A2a(Writer::V10, Projection::Coder);
    let shown = told(view, approved_command());
    let words: Vec<&str> = shown.iter().map(String::as_str).collect();
    assert_eq!(
        words[4..],
        [
            "state-change TASK_STATE_INPUT_REQUIRED may close",
            "tool-call-confirmation TASK_STATE_WORKING awaiting_approval",
            "tool-call-update TASK_STATE_WORKING scheduled",
            "tool-call-update TASK_STATE_WORKING executing",
            "",
            "tool-call-update TASK_STATE_WORKING success",
            "state-change TASK_STATE_WORKING",
            "text-content TASK_STATE_WORKING",
            "state-change TASK_STATE_INPUT_REQUIRED may close",
        ]
    );
}

#[test]
fn live_output_is_an_artifact_that_grows() {
    let mut state = with_call(running());
    for (pieces, append) in [(1, false), (2, true)] {
        state.calls[0].outputs = pieces;
        let event = Event::CallOutput { call: "call-1".into(), text: "line\n".into() };
        assert_eq!(
            frame(&state, event),
            json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1",
                "artifact": {"artifactId": "tool-call-1-output", "parts": [{"kind": "text", "text": "line\n"}]},
                "append": append, "lastChunk": false})
        );
    }
}

fn drawing() -> Artifact {
    Artifact {
        id: "a".into(),
        name: Some("drawing".into()),
        description: Some("of it".into()),
        parts: vec![
            Part {
                filename: Some("a.png".into()),
                media_type: Some("image/png".into()),
                ..Part::of(Content::Bytes("aGk=".into()))
            },
            Part::of(Content::Uri("https://x.test/a".into())),
            Part::data(json!({"a": 1})),
            Part::data(json!([1])),
        ],
    }
}

fn drawing_shown() -> Value {
    json!({"artifactId": "a", "name": "drawing", "description": "of it", "parts": [
        {"kind": "file", "file": {"bytes": "aGk=", "name": "a.png", "mimeType": "image/png"}},
        {"kind": "file", "file": {"uri": "https://x.test/a"}},
        {"kind": "data", "data": {"a": 1}},
        {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}}]})
}

#[test]
fn what_the_agent_produced() {
    let event = Event::Produced { artifact: Arc::new(drawing()), append: true, last: true };
    assert_eq!(
        frame(&sample::state(), event),
        json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "artifact": drawing_shown(),
            "append": true, "lastChunk": true})
    );
}

#[test]
fn changes_of_state_that_streams_end_with() {
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17});
    let text = |text: &str| Some(text.to_owned());
    for (event, state, said, error) in [
        (Event::Paused, TaskState::InputRequired, None, None),
        (Event::TurnEnded { turn: 1, end: End::Done }, TaskState::InputRequired, None, None),
        (
            Event::TurnEnded { turn: 1, end: End::NeedsAuth("log in".into()) },
            TaskState::AuthRequired,
            text("log in"),
            None,
        ),
        (
            Event::TurnEnded { turn: 1, end: End::Failed("broke".into()) },
            TaskState::InputRequired,
            text("broke"),
            Some("broke"),
        ),
        (Event::Interrupted { text: "restarted".into() }, TaskState::InputRequired, text("restarted"), None),
        (Event::Closed { state: Final::Canceled, text: text("stopped") }, TaskState::Canceled, text("stopped"), None),
        (Event::Closed { state: Final::Failed, text: text("lost") }, TaskState::Failed, text("lost"), Some("lost")),
        (Event::Closed { state: Final::Completed, text: None }, TaskState::Completed, None, None),
    ] {
        let mut now = sample::state();
        now.status.state = state;
        now.status.text = said.clone();
        now.error = match &event {
            Event::TurnEnded { .. } => error.map(Into::into),
            _ => None,
        };
        let mut open = state_change(words::state(state));
        if let Some(text) = said {
            let part = json!({"kind": "text", "text": text});
            open["status"]["message"] = agent_message("t-1-9", part);
        }
        if let Some(error) = error {
            open["metadata"]["error"] = json!(error);
        }
        let mut closing = open.clone();
        closing["final"] = json!(true);
        closing["metadata"]["usageMetadata"] = usage.clone();
        let name = format!("{event:?}");
        assert_eq!(frames(&now, event), Some((open, Some(closing.clone()))), "{name}");
        assert_eq!(value(&present(the_view(), &now, &sample::tools()).unwrap()), closing, "{name}");
    }
}

#[test]
fn whoever_prompts_while_calls_wait_is_shown_them() {
    let mut state = with_call(writing());
    state.calls[0].stage = Stage::Asked;
    state.status.state = TaskState::InputRequired;
    let shown = value(&present(the_view(), &state, &sample::tools()).unwrap());
    let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
    assert_eq!(shown["status"]["message"], frame(&state, asked)["status"]["message"]);
    // The event itself announces the state and nothing else, as the reference server does it.
    let (paused, _) = frames(&state, Event::Paused).unwrap();
    assert_eq!(paused, state_change("input-required"));
}

#[test]
fn who_answered_is_in_the_metadata() {
    let mut state = with_call(writing());
    let started = Event::CallStarted { call: "call-1".into() };
    assert_eq!(frame(&state, started.clone())["metadata"].get("gemini-a2a"), None);
    state.calls[0].answered_by = Some(sample::source());
    assert_eq!(
        frame(&state, started)["metadata"],
        json!({"coderAgent": {"kind": "tool-call-update"}, "model": "gemini-x",
            "gemini-a2a": {"answered_by": {"client": "ada", "via": "a2a-1.0"}}})
    );
}

#[test]
fn an_end_before_the_model_was_asked_has_no_usage() {
    let mut state = sample::state();
    state.usage = None;
    let mut expected = state_change("working");
    expected["final"] = json!(true);
    assert_eq!(value(&present(the_view(), &state, &sample::tools()).unwrap()), expected);
}

/// One turn done, one failed, a third in mid-sentence, a fourth queued.
fn long_state() -> State {
    let mut state = sample::state();
    let request = sample::call("write_file", json!({}), None).request;
    let error = ErrorKind::Interrupted.error("x");
    let results = vec![CallResult { request: request.clone(), ending: Arc::new(Ending::Error { error }) }];
    let mut second = answered("Done.", vec![]);
    second.said_at = Some(Seq(6));
    state.history = [
        Item::Said(Arc::new(sample::prompt("m-1", "write"))),
        Item::Answered(Arc::new(answered("Let me see.", vec![request.clone()]))),
        Item::Results(results),
        Item::Answered(Arc::new(second)),
        Item::Dropped(Arc::new(sample::prompt("m-2", "quietly"))),
        Item::Said(Arc::new(sample::prompt("m-3", "more"))),
        Item::Answered(Arc::new(answered("", vec![request]))),
    ]
    .into_iter()
    .map(Arc::new)
    .collect();
    state.utterance.since = Some(Seq(8));
    state.utterance.text = "I am".into();
    state.queue.push_back(Queued { turn: 4, message: Arc::new(sample::prompt("m-4", "wait")) });
    state.artifacts = vec![drawing()];
    state
}

#[test]
fn a_snapshot_whole() {
    let user = |id: &str, text: &str| {
        json!({"kind": "message", "role": "user", "messageId": id, "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": text}]})
    };
    let agent = |id: &str, text: &str| agent_message(id, json!({"kind": "text", "text": text}));
    let answer =
        |id: &str, text: &str| json!({"artifactId": id, "name": "answer", "parts": [{"kind": "text", "text": text}]});
    assert_eq!(
        value(&snapshot(the_view(), &long_state(), Wanted::ALL)),
        json!({"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "working", "timestamp": TIME},
            "history": [user("m-1", "write"), agent("t-1-4", "Let me see."), agent("t-1-6", "Done."),
                user("m-2", "quietly"), user("m-3", "more"), agent("t-1-8", "I am"), user("m-4", "wait")],
            "artifacts": [answer("answer-1", "Let me see.\nDone."), answer("answer-3", "I am"), drawing_shown()],
            "metadata": {}})
    );
}

#[test]
fn history_is_as_long_as_asked_for() {
    let state = long_state();
    let ids = |newest| {
        let task = value(&snapshot(the_view(), &state, Wanted::newest(newest)));
        let history = task.get("history")?.as_array()?.clone();
        Some(history.len()).filter(|_| history.last().is_none_or(|m| m["messageId"] == "m-4"))
    };
    assert_eq!(ids(Some(0)), None);
    assert_eq!(ids(Some(1)), Some(1));
    assert_eq!(ids(Some(7)), Some(7));
    assert_eq!(ids(Some(100)), Some(7));
    assert_eq!(ids(None), Some(7));
}

#[test]
fn a_user_message_comes_back_as_it_was_sent() {
    let mut state = sample::state();
    let mut sent = sample::prompt("m-1", "hi");
    sent.metadata = json!({"coderAgent": {"workspacePath": "/w"}}).as_object().cloned();
    sent.extensions = vec!["urn:x".into()];
    sent.references = vec!["t-0".into()];
    state.history = vec![Arc::new(Item::Said(Arc::new(sent)))];
    assert_eq!(
        value(&snapshot(the_view(), &state, Wanted::ALL))["history"][0],
        json!({"kind": "message", "role": "user", "messageId": "m-1", "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": "hi"}], "metadata": {"coderAgent": {"workspacePath": "/w"}},
            "extensions": ["urn:x"], "referenceTaskIds": ["t-0"]})
    );
}

#[test]
fn a_snapshot_says_what_there_is_to_say() {
    let mut state = sample::state();
    state.status.state = TaskState::Canceled;
    state.status.text = Some("Task canceled by user request.".into());
    let task = value(&snapshot(the_view(), &state, Wanted::ALL));
    let part = json!({"kind": "text", "text": "Task canceled by user request."});
    assert_eq!(
        task["status"],
        json!({"state": "canceled", "message": agent_message("t-1-9", part), "timestamp": TIME})
    );
    assert_eq!((&task["history"], &task["artifacts"]), (&json!([]), &json!([])));
}

#[test]
fn a_message_without_a_task() {
    let mut reply = sample::prompt("r-1", "hello");
    reply.role = Role::Agent;
    assert_eq!(
        value(&message(the_view(), &reply, &"c-1".into())),
        json!({"kind": "message", "role": "agent", "messageId": "r-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": "hello"}]})
    );
}

#[test]
fn routes() {
    use Method::*;
    let ask = |method, path: &str| {
        let mut request = sample::post(path, "");
        request.method = method;
        decode(&request, &Switches::default()).map(|(call, _)| call).map_err(|(fault, form)| (fault.kind, form.dialect))
    };
    for method in [Get, Head] {
        assert_eq!(ask(method, "/health"), Ok(Call::Health));
        assert_eq!(ask(method, "/.well-known/agent-card.json"), Ok(Call::Card));
        assert_eq!(ask(method, "/.well-known/agent.json"), Ok(Call::Card));
        assert_eq!(ask(method, "/tasks/metadata"), Ok(Call::AllMetadata));
        let one = Call::Metadata { task: "t 1".into() };
        assert_eq!(ask(method, "/tasks/t 1/metadata"), Ok(one));
        assert_eq!(ask(method, "/tasks"), Ok(Call::List(List::default())));
        let one = Call::Get { task: "t".into(), history: None };
        assert_eq!(ask(method, "/tasks/t"), Ok(one));
        assert_eq!(ask(method, "/listCommands"), Ok(Call::Commands));
    }
    assert_eq!(ask(Post, "/tasks"), Ok(Call::Session));
    let refused = |allow: &str, dialect| {
        let allow = allow.into();
        Err((FaultKind::MethodNotAllowed { allow }, dialect))
    };
    assert_eq!(ask(Get, "/"), refused("POST", Dialect::RPC_03));
    assert_eq!(ask(Put, "/tasks"), refused("GET, HEAD, POST", Dialect::GEMINI));
    assert_eq!(ask(Head, "/ws"), refused("GET", Dialect::GEMINI));
    assert_eq!(ask(Options, "/"), refused("POST", Dialect::RPC_03));
    assert_eq!(ask(Post, "/health"), refused("GET, HEAD", Dialect::GEMINI));
    assert_eq!(ask(Delete, "/tasks/t/metadata"), refused("GET, HEAD", Dialect::GEMINI));
    for path in ["/no/such", "/tasks//metadata", "/tasks/a/b/metadata"] {
        assert_eq!(ask(Get, path), Err((FaultKind::NotFound, Dialect::GEMINI)), "{path}");
    }
}

#[test]
fn every_dialect_refuses_too_many_parts_in_its_own_way() {
    let most = crate::limits::MESSAGE_PARTS;
    let message = |count: usize| {
        let parts = vec![json!({ "text": "x" }); count];
        json!({ "messageId": "m", "role": "user", "parts": parts })
    };
    let rpc = |method: &str, count| json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": { "message": message(count) } });
    let bare = |count| json!({ "message": message(count) });
    let decoded = |path: &str, body: &Value| {
        let decoded = decode(&sample::post(path, &body.to_string()), &Switches::default());
        decoded.map(|_| ()).map_err(|(found, form)| {
            let answer = fault(&form, &found);
            (answer.status, value(&answer.body))
        })
    };
    type Body<'a> = &'a dyn Fn(usize) -> Value;
    let bodies: [(&str, Body<'_>, u16, &str); 8] = [
        ("/", &|n| rpc("message/send", n), 200, "/error/message"),
        ("/", &|n| rpc("SendStreamingMessage", n), 200, "/error/message"),
        ("/v1/message:send", &bare, 400, "/message"),
        ("/message:send", &bare, 400, "/error/message"),
        ("/message/stream", &bare, 400, "/error"),
        ("/tasks/t/execute", &bare, 400, "/error"),
        ("/tasks/t/messages/stream", &bare, 400, "/error"),
        ("/message:stream", &bare, 400, "/error/message"),
    ];
    for (path, body, status, place) in bodies {
        assert_eq!(decoded(path, &body(most)), Ok(()), "{path}");
        let (found, answer) = decoded(path, &body(most + 1)).expect_err(path);
        let words = answer.pointer(place).and_then(Value::as_str).unwrap_or_default();
        assert!(found == status && words.contains("has 1001 parts"), "{path}: {found} {answer}");
    }
    let frame = |count| {
        let parts = vec![json!({ "content": { "text": "x" } }); count];
        let message = json!({ "id": "m", "role": "user", "parts": parts });
        own::decode(&json!({ "id": 1, "call": { "say": { "message": message } } }).to_string())
    };
    assert!(frame(most).is_ok());
    let (found, _) = frame(most + 1).expect_err("one too many");
    assert_eq!(found.field.as_deref(), Some("say.message.parts"));
}

#[test]
fn absurd_lengths_of_the_history() {
    let rpc = |method: &str, length: &str| {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}","params":{{"id":"t","historyLength":{length}}}}}"#);
        decode(&sample::post("/", &body), &Switches::default())
    };
    let rest = |path: &str, length: &str| {
        let mut request = sample::post(path, "");
        request.method = Method::Get;
        request.query = vec![("historyLength".into(), length.into())];
        request.headers.push("A2A-Version", if path.starts_with("/v1") { "0.3" } else { "1.0" });
        decode(&request, &Switches::default())
    };
    type Decoded = Result<(Call, Form), (Fault, Form)>;
    let ways: [&dyn Fn(&str) -> Decoded; 4] =
        [&|n| rpc("tasks/get", n), &|n| rpc("GetTask", n), &|n| rest("/v1/tasks/t", n), &|n| rest("/tasks/t", n)];
    for way in ways {
        for (length, most) in [("0", 0), ("1", 1), ("9223372036854775807", i64::MAX as usize)] {
            let (call, _) = way(length).unwrap_or_else(|(fault, _)| panic!("{length}: {fault:?}"));
            assert_eq!(call, Call::Get { task: "t".into(), history: Some(most) });
        }
        for length in ["-1", "-9223372036854775808", "1.5", "1e30", "99999999999999999999999", "\"\\u0000\""] {
            let (fault, _) = way(length).expect_err(length);
            assert_eq!(fault.field.as_deref(), Some("historyLength"), "{length}");
        }
    }
}
