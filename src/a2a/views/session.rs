//! The session dialect: flat objects for those who share one session over a socket or follow a turn of it. Every object has `kind`,
//! `taskId` and, unless it is a notice, `seq`; what can be read is in `content.text`.
//!
//! Everybody is told what the others do: prompts of others (`USER_MESSAGE`), who answered a question and with what
//! (`answered_by`, `selected_option_id`), what happens behind the scenes (`CONSOLE_LOG`). `final` of a `STATE_CHANGE` says that the
//! next word is somebody's: the turn is over, or waits. Artifacts are `ARTIFACT_UPDATE`s, with the artifact as A2A 0.3 spells it.
//!
//! A newcomer has missed the questions. The state it is greeted with therefore has `open_calls`: every call that has not ended,
//! as its last update showed it.

use crate::a2a::Body;
use crate::a2a::dialect::Standalone;
use crate::a2a::encodings::v03::ArtifactOut;
use crate::a2a::views::devtool_call::{Details, ToolCall};
use crate::a2a::words::{self, CallStatus};
use crate::base::id::{CallId, MessageId, Seq, TaskId};
use crate::base::json;
use crate::task::log::event::{Event, errands, hooks};
use crate::task::log::record::Record;
use crate::task::machine::state::{CallState, Phase, State, TaskState};
use crate::task::message::{Message, Source};
use serde::Serialize;
use std::borrow::Cow;

pub const VIEW: &Standalone = &Standalone {
    name: "session",
    event: |state, record| frame(state, record).map(Body::bare),
    present: |state| Some(present(state)),
    snapshot: Some(present),
    idle_is_completed: false,
};

/// `state` is the state right after `record`. None: clients are not shown the event.
pub fn frame(state: &State, record: &Record) -> Option<Vec<u8>> {
    let shown = shown(state, record)?;
    Some(encode(state, record.seq, &shown))
}

/// Something to know about a task that is no event of it: the one object without `seq`.
pub fn notice(task: &TaskId, text: &str) -> Vec<u8> {
    let shown = Shown::log("error", text.into());
    json::bytes(&Object { task_id: task, seq: None, shown: &shown })
}

/// The present state, for those who begin to follow the task.
pub fn present(state: &State) -> Vec<u8> {
    let open = state.calls.iter().filter(|call| !call.is_over());
    let calls = open
        .filter_map(|call| Some(Update { call: ToolCall::present(call, Details::Twice)?, answer: Answered::of(call) }));
    let change = StateChange { open_calls: calls.collect(), ..StateChange::of(state) };
    encode(state, state.seq, &Shown::StateChange(change))
}

fn encode(state: &State, seq: Seq, shown: &Shown<'_>) -> Vec<u8> {
    json::bytes(&Object { task_id: &state.created.task, seq: Some(seq), shown })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    #[serde(flatten)]
    shown: &'a Shown<'a>,
    task_id: &'a TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "SCREAMING_SNAKE_CASE")]
enum Shown<'a> {
    TextContent { content: Content<'a> },
    Thought { subject: &'a str, description: &'a str, content: Content<'a> },
    ToolCallUpdate(Box<Update<'a>>),
    StateChange(StateChange<'a>),
    UserMessage(UserMessage<'a>),
    ArtifactUpdate(ArtifactUpdate<'a>),
    ConsoleLog { level: &'static str, content: Content<'a> },
}

#[derive(Serialize)]
struct Content<'a> {
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct Update<'a> {
    #[serde(flatten)]
    call: ToolCall<'a>,
    #[serde(flatten)]
    answer: Option<Answered<'a>>,
}

#[derive(Serialize)]
struct Answered<'a> {
    answered_by: &'a Source,
    selected_option_id: Option<&'static str>,
}

#[derive(Serialize)]
struct StateChange<'a> {
    state: &'static str,
    #[serde(rename = "final")]
    is_final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_calls: Vec<Update<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserMessage<'a> {
    message_id: &'a MessageId,
    content: Content<'a>,
    source: &'a Source,
    /// It waits for the turns before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queued: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactUpdate<'a> {
    artifact: ArtifactOut<'a>,
    append: bool,
    last_chunk: bool,
}

fn shown<'a>(state: &'a State, record: &'a Record) -> Option<Shown<'a>> {
    let update = |call: &CallId, status| Some(Shown::update(state.call(call)?, status));
    let warn = |text: String| Some(Shown::log("warn", text.into()));
    let info = |text: &'static str| Some(Shown::log("info", text.into()));
    match &record.event {
        Event::Created(_)
        | Event::TurnBegan { .. }
        | Event::ResultsSent
        | Event::Resumed
        | Event::Paused
        | Event::TurnEnded { .. }
        | Event::Interrupted { .. }
        | Event::Closed { .. } => Some(Shown::StateChange(StateChange::of(state))),
        Event::Prompted { message, by, .. } => Some(Shown::prompt(state, message, by)),
        Event::Text { text } => (!text.is_empty()).then(|| Shown::text(text)),
        Event::Cited { text } => (!text.trim().is_empty()).then(|| Shown::text(text)),
        Event::Thought { subject, description } => Shown::thought(subject, description),
        Event::CallAsked { call, .. } => update(call, CallStatus::AwaitingApproval),
        Event::CallAnswered { call, .. } => update(call, CallStatus::Scheduled),
        // Its answer has been shown; what is left to say is that the task works again.
        Event::CallReady { call, .. } => match state.call(call)?.choice {
            Some(_) => Some(Shown::StateChange(StateChange::of(state))),
            None => update(call, CallStatus::Scheduled),
        },
        Event::CallStarted { call } => update(call, CallStatus::Executing),
        Event::CallOutput { call, .. } => {
            let due = state.call(call)?.live.as_ref()?.shown == record.seq;
            due.then(|| update(call, CallStatus::Executing))?
        }
        Event::CallEnded { call, ending } => update(call, CallStatus::of(ending)),
        Event::Produced { artifact, append, last } => Some(Shown::ArtifactUpdate(ArtifactUpdate {
            artifact: ArtifactOut::of(artifact),
            append: *append,
            last_chunk: *last,
        })),
        // What happens behind the scenes, in a sentence, as far as it matters.
        Event::Retracted { reason } => {
            warn(format!("What the agent was saying is void, it will be said again: {reason}"))
        }
        Event::BackedOff { delay_ms, reason, .. } => {
            let seconds = delay_ms.div_ceil(1000);
            warn(format!("The model is asked again in {seconds} s: {reason}"))
        }
        Event::Retried => info("The model is asked again."),
        Event::FellBack { model, reason } => {
            warn(format!("From now on {model} answers, because the model before it cannot be had: {reason}"))
        }
        Event::CompactionBegan => info("The conversation has grown long; its older part is being summarised."),
        Event::Compacted { .. } => info("A summary took the place of the older part of the conversation."),
        Event::CompactionFailed { reason } => {
            warn(format!("The conversation could not be summarised and stays as it is: {reason}"))
        }
        Event::Looped => warn("The agent repeats its calls; they are not run.".to_owned()),
        Event::Nudged { .. } => warn("The agent repeated itself and was told to go on in another way.".to_owned()),
        Event::CallStale { call } => {
            let name = &state.call(call)?.request.name;
            warn(format!("The file changed before {name} could write it; the change is looked at again."))
        }
        Event::Answered { .. } | Event::CallPlanned { .. } | errands!() | hooks!() => None,
    }
}

impl<'a> Shown<'a> {
    fn log(level: &'static str, text: Cow<'a, str>) -> Shown<'a> {
        let content = Content { text };
        Shown::ConsoleLog { level, content }
    }

    fn text(text: &'a str) -> Shown<'a> {
        let content = Content { text: text.into() };
        Shown::TextContent { content }
    }

    fn thought(subject: &'a str, description: &'a str) -> Option<Shown<'a>> {
        let text = match (subject.is_empty(), description.is_empty()) {
            (true, true) => return None,
            (false, true) => subject.into(),
            (true, false) => description.into(),
            (false, false) => format!("{subject}\n{description}").into(),
        };
        Some(Shown::Thought { subject, description, content: Content { text } })
    }

    fn update(call: &'a CallState, status: CallStatus) -> Shown<'a> {
        Shown::ToolCallUpdate(Box::new(Update {
            call: ToolCall::of(call, status, Details::Twice),
            answer: Answered::of(call),
        }))
    }

    fn prompt(state: &State, message: &'a Message, source: &'a Source) -> Shown<'a> {
        Shown::UserMessage(UserMessage {
            message_id: &message.id,
            content: Content { text: message.text().into() },
            source,
            queued: state.phase != Phase::Idle || state.queue.len() > 1,
        })
    }
}

impl<'a> Answered<'a> {
    fn of(call: &'a CallState) -> Option<Answered<'a>> {
        Some(Answered { answered_by: call.decided_by()?, selected_option_id: call.choice.map(|choice| choice.word()) })
    }
}

impl<'a> StateChange<'a> {
    /// The status as last announced.
    fn of(state: &'a State) -> StateChange<'a> {
        let status = &state.status;
        let text = status.text.as_deref();
        StateChange {
            state: words::state(status.state),
            is_final: match status.state {
                TaskState::Submitted | TaskState::Working => false,
                TaskState::InputRequired
                | TaskState::AuthRequired
                | TaskState::Completed
                | TaskState::Failed
                | TaskState::Canceled
                | TaskState::Rejected => true,
            },
            content: text.map(|text| Content { text: text.into() }),
            error: match status.state {
                TaskState::Failed => text,
                TaskState::Completed | TaskState::Canceled | TaskState::Rejected => None,
                TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
                    state.error.as_deref()
                }
            },
            open_calls: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::View;
    use crate::a2a::{self, Wanted, sample};
    use crate::task::log::event::{End, Final, Tries};
    use crate::task::machine::state::{Queued, Stage};
    use crate::task::message::{Artifact, Part};
    use crate::task::spec::{ApprovalScope, Confinement, Ending};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    fn frame(state: &State, record: &Record) -> Option<Value> {
        let body = a2a::event(View::Standalone(VIEW), state, record, &sample::tools())?;
        assert_eq!(body.closing, None);
        Some(value(&body.open))
    }

    /// The object of event 9, without what every object has.
    fn shown(state: &State, event: Event) -> Option<Value> {
        let mut shown = frame(state, &sample::record(event))?;
        let object = shown.as_object_mut().unwrap();
        assert_eq!(object.remove("taskId"), Some(json!("t-1")));
        assert_eq!(object.remove("seq"), Some(json!(9)));
        Some(shown)
    }

    #[test]
    fn what_is_said_and_thought() {
        let state = sample::state();
        let text = |text: &str| json!({"kind": "TEXT_CONTENT", "content": {"text": text}});
        assert_eq!(shown(&state, sample::says("é\n")), Some(text("é\n")));
        let cited = Event::Cited { text: "[1]".into() };
        assert_eq!(shown(&state, cited), Some(text("[1]")));
        for (subject, description, both) in
            [("Plan", "Look.", "Plan\nLook."), ("Plan", "", "Plan"), ("", "Look.", "Look.")]
        {
            let thought = Event::Thought { subject: subject.into(), description: description.into() };
            assert_eq!(
                shown(&state, thought),
                Some(json!({"kind": "THOUGHT", "subject": subject, "description": description,
                    "content": {"text": both}}))
            );
        }
        assert_eq!(shown(&state, sample::says("")), None);
    }

    #[test]
    fn prompts_of_others_and_whether_they_wait() {
        let message = Arc::new(sample::prompt("m-1", "hello"));
        let by = sample::source();
        let turn = 2;
        let queued = Queued { turn, message: message.clone() };
        let prompted = Event::Prompted { message, by, turn };
        let mut expected = json!({"kind": "USER_MESSAGE", "messageId": "m-1", "content": {"text": "hello"},
            "source": {"client": "ada", "via": "a2a-1.0"}});
        let mut state = sample::state();
        state.queue.push_back(queued.clone());
        assert_eq!(shown(&state, prompted.clone()), Some(expected.clone()));
        expected["queued"] = json!(true);
        state.queue.push_back(queued);
        assert_eq!(shown(&state, prompted.clone()), Some(expected.clone()));
        state.queue.pop_back();
        state.phase = Phase::Tools;
        assert_eq!(shown(&state, prompted), Some(expected));
    }

    fn call(status: &str) -> Value {
        json!({"kind": "TOOL_CALL_UPDATE", "tool_call_id": "call-1", "status": status, "tool_name": "run_shell_command",
            "description": "Running make", "input_parameters": {"command": "make"}})
    }

    fn asking() -> Value {
        let mut asking = call("PENDING");
        asking["confirmation_request"] = json!({
            "options": [{"id": "proceed_once", "name": "Allow Once"}, {"id": "proceed_always", "name": "Always Allow"},
                {"id": "cancel", "name": "Cancel"}],
            "execute_details": {"command": "make"}, "details": {"execute_details": {"command": "make"}}});
        asking
    }

    fn answered(mut call: Value) -> Value {
        call["answered_by"] = json!({"client": "ada", "via": "a2a-1.0"});
        call["selected_option_id"] = json!("proceed_once");
        call
    }

    #[test]
    fn an_approved_command_whole() {
        let folded = sample::fold(sample::approved_command());
        let told: Vec<Value> = folded.iter().filter_map(|(record, state)| frame(state, record)).collect();
        let text = |text: &str| json!({"kind": "TEXT_CONTENT", "content": {"text": text}});
        let change = |state: &str, is_final: bool| json!({"kind": "STATE_CHANGE", "state": state, "final": is_final});
        let mut running = answered(call("EXECUTING"));
        running["live_content"] = json!("1");
        let mut ended = answered(call("SUCCEEDED"));
        ended["output"] = json!({"text": "1"});
        let expected = [
            (1, change("submitted", false)),
            (
                2,
                json!({"kind": "USER_MESSAGE", "messageId": "m-1", "content": {"text": "go"},
                "source": {"client": "ada", "via": "a2a-1.0"}}),
            ),
            (3, change("working", false)),
            (4, text("Let me see.")),
            (7, asking()),
            (8, change("input-required", true)),
            (9, answered(call("PENDING"))),
            (10, change("working", false)),
            (11, answered(call("EXECUTING"))),
            (12, running),
            (13, ended),
            (14, change("working", false)),
            (15, text("It ")),
            (16, text("works.")),
            (18, change("input-required", true)),
        ];
        let expected: Vec<Value> = expected
            .into_iter()
            .map(|(seq, mut object)| {
                object["taskId"] = json!("t-1");
                object["seq"] = json!(seq);
                object
            })
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_newcomer_is_shown_what_is_open() {
        let folded = sample::fold(sample::approved_command());
        let greeting = |n: usize| value(&a2a::snapshot(View::Standalone(VIEW), &folded[n].1, Wanted::ALL));
        let mut question = asking();
        question.as_object_mut().unwrap().remove("kind");
        let mut expected = json!({"kind": "STATE_CHANGE", "taskId": "t-1", "seq": 8, "state": "input-required",
            "final": true, "open_calls": [question]});
        assert_eq!(greeting(7), expected);
        let present = a2a::present(View::Standalone(VIEW), &folded[7].1, &sample::tools());
        assert_eq!(value(&present.unwrap()), expected);
        let mut running = answered(call("EXECUTING"));
        running["live_content"] = json!("1");
        running.as_object_mut().unwrap().remove("kind");
        expected["seq"] = json!(12);
        expected["state"] = json!("working");
        expected["final"] = json!(false);
        expected["open_calls"] = json!([running]);
        assert_eq!(greeting(11), expected);
        assert_eq!(
            greeting(17),
            json!({"kind": "STATE_CHANGE", "taskId": "t-1", "seq": 18, "state": "input-required", "final": true})
        );
    }

    #[test]
    fn a_call_that_was_refused_and_one_nobody_was_asked_about() {
        let mut state = sample::state();
        let (request, plan) = sample::shell("call-1", "make");
        let mut refused = sample::call("run_shell_command", request.args.clone(), None);
        refused.plan = Some(plan);
        refused.stage = Stage::Ready;
        state.calls = vec![refused];
        let ready = Event::CallReady { call: "call-1".into(), confinement: Confinement::None };
        assert_eq!(shown(&state, ready), Some(call("PENDING")));
        let ending = Arc::new(Ending::Cancelled { reason: "No.".into(), output: String::new() });
        state.calls[0].ending = Some(ending.clone());
        state.calls[0].choice = Some(crate::task::spec::Choice::Cancel);
        state.calls[0].answered_by = Some(sample::source());
        let mut expected = answered(call("CANCELLED"));
        expected["selected_option_id"] = json!("cancel");
        expected["error"] = json!({"message": "No.", "type": "cancelled"});
        let ended = Event::CallEnded { call: "call-1".into(), ending };
        assert_eq!(shown(&state, ended), Some(expected));
    }

    #[test]
    fn ends_say_why() {
        let mut state = sample::state();
        state.status.state = TaskState::InputRequired;
        state.status.text = Some("Broke.".into());
        state.error = Some("Broke.".into());
        let failed = Event::TurnEnded { turn: 1, end: End::Failed("Broke.".into()) };
        let change = |state: &str| json!({"kind": "STATE_CHANGE", "state": state, "final": true, "content": {"text": "Broke."}, "error": "Broke."});
        assert_eq!(shown(&state, failed), Some(change("input-required")));
        state.status.state = TaskState::Failed;
        state.error = None;
        let closed = |state| Event::Closed { state, text: Some("Broke.".into()) };
        assert_eq!(shown(&state, closed(Final::Failed)), Some(change("failed")));
        state.status.state = TaskState::Canceled;
        let mut expected = change("canceled");
        expected.as_object_mut().unwrap().remove("error");
        assert_eq!(shown(&state, closed(Final::Canceled)), Some(expected));
    }

    #[test]
    fn what_happens_behind_the_scenes() {
        let mut state = sample::state();
        state.calls = vec![sample::call("write_file", json!({}), None)];
        let reason = || "it is busy".to_owned();
        for (event, level, text) in [
            (
                Event::Retracted { reason: reason() },
                "warn",
                "What the agent was saying is void, it will be said again: it is busy",
            ),
            (
                Event::BackedOff { tries: Tries::default(), delay_ms: 4_001, reason: reason() },
                "warn",
                "The model is asked again in 5 s: it is busy",
            ),
            (Event::Retried, "info", "The model is asked again."),
            (
                Event::FellBack { model: "small".into(), reason: reason() },
                "warn",
                "From now on small answers, because the model before it cannot be had: it is busy",
            ),
            (Event::CompactionBegan, "info", "The conversation has grown long; its older part is being summarised."),
            (
                Event::Compacted { summary: "s".into(), items: 1 },
                "info",
                "A summary took the place of the older part of the conversation.",
            ),
            (
                Event::CompactionFailed { reason: reason() },
                "warn",
                "The conversation could not be summarised and stays as it is: it is busy",
            ),
            (Event::Looped, "warn", "The agent repeats its calls; they are not run."),
            (
                Event::Nudged { text: "x".into() },
                "warn",
                "The agent repeated itself and was told to go on in another way.",
            ),
            (
                Event::CallStale { call: "call-1".into() },
                "warn",
                "The file changed before write_file could write it; the change is looked at again.",
            ),
        ] {
            let expected = json!({"kind": "CONSOLE_LOG", "level": level, "content": {"text": text}});
            assert_eq!(shown(&state, event), Some(expected));
        }
        let traced = Event::Traced { trace: "x".into() };
        assert_eq!(shown(&state, traced), None);
    }

    #[test]
    fn what_was_made() {
        let artifact = Arc::new(Artifact {
            id: "a".into(),
            name: Some("n".into()),
            description: None,
            parts: vec![Part::data(json!([1]))],
        });
        let produced = Event::Produced { artifact, append: false, last: true };
        assert_eq!(
            shown(&sample::state(), produced),
            Some(json!({"kind": "ARTIFACT_UPDATE", "append": false, "lastChunk": true, "artifact": {
                "artifactId": "a", "name": "n",
                "parts": [{"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}}]}}))
        );
    }

    #[test]
    fn what_may_be_saved_is_offered_here_too() {
        let mut folded = sample::fold(sample::approved_command());
        let (record, state) = &mut folded[6];
        state.calls[0].keeping = ApprovalScope::Disk;
        let shown = frame(state, record).unwrap();
        assert_eq!(shown["confirmation_request"]["options"][2]["id"], "proceed_always_and_save");
    }
}
