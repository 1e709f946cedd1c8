//! The projection of the development-tool extension. Status updates carry the kind of event under the extension's name in their
//! metadata; calls and thoughts are data parts.
//!
//! A call is shown, always whole, when it waits for an answer, is allowed by a rule, starts, prints output, or ends. That the task works
//! again after an answer is not announced: the next update of the call shows it, and who answered. A task whose turn is over is shown
//! as completed, although it continues with the next prompt.

use crate::a2a::encodings::object::object;
use crate::a2a::encodings::value::{AgentMessage, Frame, Piece, StatusUpdate};
use crate::a2a::views::call::Call;
use crate::a2a::views::coder::write_answered_by;
use crate::a2a::views::devtool_call;
use crate::a2a::views::update::{Change, Step, Update, failure, shown_outcome, status_message, thought};
use crate::a2a::words::{CallStatus, EXT};
use crate::task::machine::state::State;
use crate::task::message::Source;
use std::borrow::Cow;

/// None: clients are not shown the update.
pub fn frame<'a>(update: &Update<'a>) -> Option<Frame<'a>> {
    let state = update.state;
    let message = |message, kind, answered_by| {
        Some(Frame::Status(StatusUpdate {
            at: update.at,
            message: Some(message),
            metadata: metadata(kind, state, None, answered_by),
            ..passing(state)
        }))
    };
    let text = |since, text: &'a str| message(AgentMessage::new(since, Piece::Text(text.into())), "TEXT_CONTENT", None);
    let notice = |text: Cow<'a, str>| message(AgentMessage::new(update.seq, Piece::Text(text)), "STATE_CHANGE", None);
    match update.change {
        Change::Working => Some(Frame::Status(passing(state))),
        Change::Paused | Change::Stopped => Some(Frame::Status(current_status(state))),
        Change::Text { text: said, since } => text(since, said),
        Change::Citation(said) => text(update.seq, said),
        Change::Thought { subject, description } => {
            let thought = AgentMessage::new(update.seq, thought(subject, description));
            message(thought.carrying(EXT), "THOUGHT", None)
        }
        Change::Call { call, step } => match step {
            Step::Asked | Step::AllowedByRule | Step::Started | Step::Ended | Step::Printed { due: true, .. } => {
                let data = Piece::Data(devtool_call::encode(call));
                let data = AgentMessage::new(update.seq, data).carrying(EXT);
                message(data, "TOOL_CALL_UPDATE", call.call.decided_by())
            }
            Step::Planned | Step::Answered | Step::AllowedByAnswer | Step::Printed { due: false, .. } => None,
        },
        Change::Artifact(ref artifact) => Some(Frame::Artifact(artifact.clone())),
        Change::Retracted(ref text) => notice(text.clone().into()),
        Change::Notice { ref text, .. } => notice(text.clone()),
        Change::Created | Change::Prompted { .. } | Change::ResultsSent | Change::Answered(_) => None,
    }
}

/// The current status, as a frame that a stream may end with.
pub fn current_status(state: &State) -> StatusUpdate<'_> {
    let metadata = metadata("STATE_CHANGE", state, failure(state), None);
    StatusUpdate { message: message(state), closing: Some(metadata.clone()), metadata, ..passing(state) }
}

/// The agent's message about the current status: its text, and every call that waits for an answer, whole.
pub fn message(state: &State) -> Option<AgentMessage<'_>> {
    let data = |call| Piece::Data(devtool_call::encode(Call { call, status: CallStatus::AwaitingApproval }));
    let message = status_message(state, state.asked().map(data))?;
    Some(match state.asked().next() {
        Some(_) => message.carrying(EXT),
        None => message,
    })
}

/// A change of state that no stream ends with.
fn passing(state: &State) -> StatusUpdate<'_> {
    StatusUpdate {
        state: shown_outcome(state),
        at: state.status.at,
        message: None,
        metadata: metadata("STATE_CHANGE", state, None, None),
        closing: None,
    }
}

fn metadata(kind: &'static str, state: &State, error: Option<&str>, answered_by: Option<&Source>) -> Vec<u8> {
    object(|o| {
        o.object(EXT, |o| _ = o.member("kind", kind).member("model", &state.model).optional("error", error));
        write_answered_by(o, answered_by);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::{Outputs, View, Writer};
    use crate::a2a::{self, sample};
    use crate::base::id::Seq;
    use crate::task::log::event::Event;
    use crate::task::log::event::Profile;
    use crate::task::log::event::{End, Final};
    use crate::task::log::record::Record;
    use crate::task::machine::state::{CallState, Live, Phase, Stage, Step, TaskState};
    use crate::task::message::Artifact;
    use crate::task::message::Part;
    use crate::task::spec::{ApprovalScope, Choice, Confinement, Display, Ending, Question};
    use serde_json::{Value, json};
    use std::sync::Arc;

    const TIME: &str = "2026-03-01T09:30:00.125Z";
    const VIEW: View = View::A2a(Writer::V03, Profile::Devtool, Outputs::TEXT);

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    /// The open frame, and the closing one if there is one.
    fn frames(state: &State, event: Event) -> Option<(Value, Option<Value>)> {
        let body = a2a::event(VIEW, state, &sample::record(event), &sample::tools())?;
        Some((value(&body.open), body.closing.map(|bytes| value(&bytes))))
    }

    fn frame(state: &State, event: Event) -> Value {
        let (open, closing) = frames(state, event).expect("the event is shown");
        assert_eq!(closing, None);
        open
    }

    fn metadata(kind: &str) -> Value {
        json!({EXT: {"kind": kind, "model": "gemini-x"}})
    }

    fn around(kind: &str, state: &str, message: Value) -> Value {
        let mut update = json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
            "status": {"state": state, "timestamp": TIME}, "final": false, "metadata": metadata(kind)});
        if !message.is_null() {
            update["status"]["message"] = message;
        }
        update
    }

    fn plain(id: &str, text: &str) -> Value {
        json!({"kind": "message", "role": "agent", "messageId": id, "taskId": "t-1", "contextId": "c-1",
            "parts": [{"kind": "text", "text": text}]})
    }

    fn objects(parts: Vec<Value>) -> Value {
        json!({"kind": "message", "role": "agent", "messageId": "t-1-9", "taskId": "t-1", "contextId": "c-1",
            "extensions": [EXT], "parts": parts})
    }

    fn object(data: Value) -> Value {
        objects(vec![json!({"kind": "data", "data": data})])
    }

    #[test]
    fn text_and_thoughts() {
        let mut state = sample::state();
        state.utterance.since = Some(Seq(5));
        assert_eq!(
            frame(&state, Event::Text { text: "é\n".into() }),
            around("TEXT_CONTENT", "working", plain("t-1-5", "é\n"))
        );
        assert_eq!(
            frame(&state, Event::Cited { text: "[1]".into() }),
            around("TEXT_CONTENT", "working", plain("t-1-9", "[1]"))
        );
        let thought = Event::Thought { subject: "Plan".into(), description: "Look.".into() };
        let data = json!({"subject": "Plan", "description": "Look."});
        assert_eq!(frame(&state, thought), around("THOUGHT", "working", object(data)));
    }

    fn command() -> CallState {
        let question = Question::Exec {
            title: "Confirm".into(),
            command: "make".into(),
            programs: vec![],
            dir: None,
            warnings: vec![],
            needs_approval: None,
            edits: vec![],
        };
        sample::call("run_shell_command", json!({"command": "make"}), Some(question))
    }

    fn command_shown(status: &str) -> Value {
        json!({"tool_call_id": "call-1", "status": status, "tool_name": "run_shell_command",
            "description": "What it does", "input_parameters": {"command": "make"}})
    }

    fn asking() -> Value {
        let mut shown = command_shown("PENDING");
        shown["confirmation_request"] = json!({"execute_details": {"command": "make"}, "options": [
            {"id": "proceed_once", "name": "Allow Once"}, {"id": "proceed_always", "name": "Always Allow"},
            {"id": "cancel", "name": "Reject"}]});
        shown
    }

    fn source() -> Source {
        Source::new("ada", "a2a-1.0")
    }

    fn by_ada(mut update: Value) -> Value {
        update["metadata"]["gemini-a2a"] = json!({"answered_by": {"client": "ada", "via": "a2a-1.0"}});
        update
    }

    #[test]
    fn a_call_that_is_asked_about() {
        let call = || "call-1".into();
        let mut state = sample::state();
        state.calls = vec![command()];
        let plan = state.calls[0].plan.clone().unwrap();
        assert_eq!(frames(&state, Event::CallPlanned { call: call(), plan }), None);
        let asked = Event::CallAsked { call: call(), keeping: ApprovalScope::Session };
        assert_eq!(frame(&state, asked), around("TOOL_CALL_UPDATE", "working", object(asking())));
        state.calls[0].choice = Some(Choice::ProceedOnce);
        state.calls[0].answered_by = Some(source());
        // The last announced state matters only to the coder view.
        state.announced = TaskState::InputRequired;
        let answered = Event::CallAnswered {
            call: call(),
            choice: Choice::ProceedOnce,
            by: source(),
            edited: None,
            answers: None,
            rules: vec![],
        };
        assert_eq!(frames(&state, answered), None);
        assert_eq!(frames(&state, Event::CallReady { call: call(), confinement: Confinement::None }), None);
        let update = |data| by_ada(around("TOOL_CALL_UPDATE", "working", object(data)));
        assert_eq!(frame(&state, Event::CallStarted { call: call() }), update(command_shown("EXECUTING")));
        let ending = Arc::new(Ending::Success { output: "1".into(), display: Display::Text { text: "1".into() } });
        state.calls[0].ending = Some(ending.clone());
        let mut shown = command_shown("SUCCEEDED");
        shown["output"] = json!({"text": "1"});
        let ended = Event::CallEnded { call: call(), ending };
        assert_eq!(frame(&state, ended), update(shown));
        assert_eq!(frames(&state, Event::ResultsSent), None);
    }

    #[test]
    fn a_call_that_is_allowed_by_a_rule() {
        let mut state = sample::state();
        state.calls = vec![command()];
        let call = "call-1".into();
        assert_eq!(
            frame(&state, Event::CallReady { call, confinement: Confinement::None }),
            around("TOOL_CALL_UPDATE", "working", object(command_shown("PENDING")))
        );
    }

    #[test]
    fn metadata_names_the_client_that_refused_a_call() {
        let ending = Arc::new(Ending::cancelled("No."));
        let mut shown = command_shown("CANCELLED");
        shown["error"] = json!({"message": "No.", "type": "cancelled"});
        let update = around("TOOL_CALL_UPDATE", "working", object(shown));
        for (choice, expected) in [(Choice::Cancel, by_ada(update.clone())), (Choice::ProceedOnce, update)] {
            let mut state = sample::state();
            state.calls = vec![CallState {
                choice: Some(choice),
                answered_by: Some(source()),
                ending: Some(ending.clone()),
                ..command()
            }];
            let ended = Event::CallEnded { call: "call-1".into(), ending: ending.clone() };
            assert_eq!(frame(&state, ended), expected);
        }
    }

    #[test]
    fn output_is_shown_when_it_is_due() {
        let output = Event::CallOutput { call: "call-1".into(), text: "b\n".into() };
        let mut state = sample::state();
        let mut live = Live::begin("a\n", &sample::record(output.clone()));
        live.push("b\n", &sample::record(output.clone()));
        state.calls = vec![CallState { live: Some(live), ..command() }];
        let mut shown = command_shown("EXECUTING");
        shown["live_content"] = json!("a\nb\n");
        assert_eq!(frame(&state, output.clone()), around("TOOL_CALL_UPDATE", "working", object(shown)));
        let early = Record { seq: Seq(10), ..sample::record(output) };
        assert!(a2a::event(VIEW, &state, &early, &sample::tools()).is_none());
    }

    #[test]
    fn a_pause_repeats_every_question() {
        let mut state = sample::state();
        state.phase = Phase::Tools;
        state.status.state = TaskState::InputRequired;
        let mut first = command();
        first.stage = Stage::Asked;
        let mut second = first.clone();
        second.request.call = "call-2".into();
        let mut ended = first.clone();
        ended.stage = Stage::Ended;
        state.calls = vec![first, ended, second];
        let mut other = asking();
        other["tool_call_id"] = json!("call-2");
        let parts = [asking(), other].map(|data| json!({"kind": "data", "data": data}));
        let open = around("STATE_CHANGE", "input-required", objects(parts.into()));
        let mut closing = open.clone();
        closing["final"] = json!(true);
        assert_eq!(frames(&state, Event::Paused), Some((open.clone(), Some(closing.clone()))));
        let status = a2a::current_status(VIEW, &state, &sample::tools()).unwrap();
        assert_eq!(value(&status), closing);
        let task = value(&a2a::snapshot(VIEW, &state, a2a::SnapshotOptions::ALL));
        assert_eq!(task["status"], open["status"]);

        state.status.text = Some("Restarted.".into());
        let (open, _) = frames(&state, Event::Interrupted { text: "".into() }).unwrap();
        let message = &open["status"]["message"];
        assert_eq!(
            (&message["parts"][0], message["parts"].as_array().map(Vec::len)),
            (&json!({"kind": "text", "text": "Restarted."}), Some(3))
        );
    }

    #[test]
    fn an_ended_turn_is_shown_as_a_completed_task() {
        let end = |end| Event::TurnEnded { turn: 1, end, by: None };
        let said = |text: &str| plain("t-1-9", text);
        for (event, status, text, state_shown) in [
            (end(End::Done), TaskState::InputRequired, None, "completed"),
            (end(End::Asked("Which?".into())), TaskState::InputRequired, Some("Which?"), "completed"),
            (end(End::NeedsAuth("Log in.".into())), TaskState::AuthRequired, Some("Log in."), "auth-required"),
            (
                Event::Closed { state: Final::Canceled, text: Some("Stopped.".into()) },
                TaskState::Canceled,
                Some("Stopped."),
                "canceled",
            ),
        ] {
            let mut state = sample::state();
            state.phase = Phase::Idle;
            state.status.state = status;
            state.status.text = text.map(Into::into);
            let open = around("STATE_CHANGE", state_shown, text.map(said).unwrap_or_default());
            let mut closing = open.clone();
            closing["final"] = json!(true);
            assert_eq!(frames(&state, event), Some((open.clone(), Some(closing))));
            let task = value(&a2a::snapshot(VIEW, &state, a2a::SnapshotOptions::ALL));
            assert_eq!(task["status"], open["status"]);
        }
        let mut failed = sample::state();
        failed.status.state = TaskState::InputRequired;
        failed.status.text = Some("Broke.".into());
        failed.turn.error = failed.status.text.clone();
        failed.phase = Phase::Idle;
        let (open, _) = frames(&failed, end(End::Failed("Broke.".into()))).unwrap();
        let mut expected = around("STATE_CHANGE", "failed", said("Broke."));
        expected["metadata"][EXT]["error"] = json!("Broke.");
        assert_eq!(open, expected);
    }

    #[test]
    fn changes_of_state_and_artifacts() {
        let mut state = sample::state();
        state.phase = Phase::Working { job: Seq(9), step: Step::Think };
        let working = around("STATE_CHANGE", "working", Value::Null);
        assert_eq!(frame(&state, Event::TurnBegan { turn: 1 }), working);
        assert_eq!(frame(&state, Event::Resumed), working);
        let artifact = Artifact { id: "a".into(), name: None, description: None, parts: vec![Part::text("x")] };
        let produced = Event::Produced { artifact: Arc::new(artifact), append: false, last: true };
        assert_eq!(
            frame(&state, produced),
            json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": false, "lastChunk": true,
                "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}})
        );
    }

    #[test]
    fn an_approved_command_in_the_order_of_the_extension() {
        let summaries: Vec<String> = sample::fold(sample::approved_command())
            .iter()
            .filter_map(|(record, state)| {
                let body = a2a::event(VIEW, state, record, &sample::tools())?;
                let shown = value(&body.open);
                let words = [
                    shown["metadata"][EXT]["kind"].as_str(),
                    shown["status"]["state"].as_str(),
                    shown["status"]["message"]["parts"][0]["data"]["status"].as_str(),
                    body.closing.map(|_| "may close"),
                ];
                Some(words.into_iter().flatten().collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(
            summaries,
            [
                "STATE_CHANGE working",
                "TEXT_CONTENT working",
                "TOOL_CALL_UPDATE working PENDING",
                "STATE_CHANGE input-required PENDING may close",
                "TOOL_CALL_UPDATE working EXECUTING",
                "TOOL_CALL_UPDATE working EXECUTING",
                "TOOL_CALL_UPDATE working SUCCEEDED",
                "TEXT_CONTENT working",
                "TEXT_CONTENT working",
                "STATE_CHANGE completed may close",
            ]
        );
    }

    /// The example of the extension's specification: a new file that waits for approval.
    #[test]
    fn the_example_of_the_extension() {
        let question = Question::Edit {
            title: "Confirm Write".into(),
            file_name: "notes.txt".into(),
            file_path: "/home/dev/proj/notes.txt".into(),
            diff: "@@ -0,0 +1 @@\n+hi\n".into(),
            old: None,
            new: "hi\n".into(),
        };
        let args = json!({"file_path": "/home/dev/proj/notes.txt", "content": "hi\n"});
        let mut state = sample::state();
        state.calls = vec![sample::call("write_file", args.clone(), Some(question))];
        let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
        assert_eq!(
            frame(&state, asked),
            json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1", "final": false,
                "status": {"state": "working", "timestamp": TIME, "message": {
                    "kind": "message", "role": "agent", "messageId": "t-1-9", "taskId": "t-1", "contextId": "c-1",
                    "extensions": [EXT],
                    "parts": [{"kind": "data", "data": {
                        "tool_call_id": "call-1", "status": "PENDING", "tool_name": "write_file",
                        "description": "What it does", "input_parameters": args,
                        "confirmation_request": {
                            "options": [{"id": "proceed_once", "name": "Allow Once"},
                                {"id": "proceed_always", "name": "Always Allow"}, {"id": "cancel", "name": "Reject"}],
                            "file_edit_details": {"file_name": "notes.txt", "file_path": "/home/dev/proj/notes.txt",
                                "new_content": "hi\n", "formatted_diff": "@@ -0,0 +1 @@\n+hi\n"}}}}]}},
                "metadata": {EXT: {"kind": "TOOL_CALL_UPDATE", "model": "gemini-x"}}})
        );
    }
}
