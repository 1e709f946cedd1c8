//! The projection of the development-tool extension: what its clients are shown of an event. Status updates carry the kind of
//! event under the extension's name in their metadata; calls and thoughts are data parts.
//!
//! A call is shown when there is something to do or to see: when it waits for an answer, when it may run, when it runs, when it
//! has printed something, when it has ended; always whole. That the task works again after an answer is not announced: the
//! update of the call that follows says so, and who answered. A turn that is over is a completed task here, although the task
//! goes on with the next prompt.

use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Frame, Piece, StatusUpdate};
use crate::a2a::views::coder::write_answered_by;
use crate::a2a::views::devtool_call::{Details, ToolCall};
use crate::a2a::words::{self, CallStatus, DevKind, EXT};
use crate::base::id::{CallId, Seq};
use crate::base::json;
use crate::task::log::event::{Event, detours, errands, hooks};
use crate::task::log::record::Record;
use crate::task::machine::state::{CallState, State, TaskState};
use crate::task::message::Source;
use serde_json::json;
use std::borrow::Cow;

/// `state` is the state right after `record`. None: clients are not shown the event.
pub fn frame<'a>(state: &'a State, record: &'a Record) -> Option<Frame<'a>> {
    let shown = Shown { state, record };
    match &record.event {
        Event::TurnBegan { .. } | Event::Resumed => Some(Frame::Status(passing(state))),
        Event::Paused | Event::TurnEnded { .. } | Event::Interrupted { .. } | Event::Closed { .. } => {
            Some(Frame::Status(present(state)))
        }
        Event::Text { text } => {
            let since = state.utterance.since.unwrap_or(record.seq);
            (!text.is_empty()).then(|| shown.text(since, text))
        }
        Event::Cited { text } => (!text.trim().is_empty()).then(|| shown.text(record.seq, text)),
        Event::Thought { subject, description } => shown.thought(subject, description),
        Event::CallAsked { call, .. } => shown.call(call, CallStatus::AwaitingApproval),
        // Of a call that was asked about, the next news is that it runs.
        Event::CallReady { call, .. } => match state.call(call)?.choice {
            Some(_) => None,
            None => shown.call(call, CallStatus::Scheduled),
        },
        Event::CallStarted { call } => shown.call(call, CallStatus::Executing),
        Event::CallOutput { call, .. } => {
            let due = state.call(call)?.live.as_ref()?.shown == record.seq;
            due.then(|| shown.call(call, CallStatus::Executing))?
        }
        Event::CallEnded { call, ending } => shown.call(call, CallStatus::of(ending)),
        Event::Produced { artifact, append, last } => {
            Some(Frame::Artifact(ArtifactUpdate { artifact: Cow::Borrowed(artifact), append: *append, last: *last }))
        }
        Event::Created(_)
        | Event::Prompted { .. }
        | Event::Retracted { .. }
        | Event::Answered { .. }
        | Event::CallPlanned { .. }
        | Event::CallAnswered { .. }
        | Event::CallStale { .. }
        | Event::ResultsSent
        | errands!()
        | detours!()
        | hooks!() => None,
    }
}

/// The status as last announced, in a form that a stream may end with.
pub fn present(state: &State) -> StatusUpdate<'_> {
    let status = &state.status;
    let error = match status.state {
        TaskState::Failed => status.text.as_deref(),
        TaskState::Completed | TaskState::Canceled | TaskState::Rejected => None,
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            state.error.as_deref()
        }
    };
    let metadata = Metadata { error, ..Metadata::of(DevKind::StateChange, state) };
    let metadata = metadata.encode();
    StatusUpdate { message: message(state), closing: Some(metadata.clone()), metadata, ..passing(state) }
}

/// What there is to say about the present status: its text, and every call that waits for an answer, whole.
pub fn message(state: &State) -> Option<AgentMessage<'_>> {
    let text = state.status.text.as_deref();
    let text = text.into_iter().map(|text| Piece::Text(text.into()));
    let open = state.asked().map(|call| data(call, CallStatus::AwaitingApproval));
    let message = AgentMessage::of(state.status.seq, text.chain(open))?;
    Some(match state.asked().next() {
        Some(_) => message.carrying(EXT),
        None => message,
    })
}

/// A call as a data part.
fn data<'a>(call: &CallState, status: CallStatus) -> Piece<'a> {
    Piece::Data(json::bytes(&ToolCall::of(call, status, Details::Direct)))
}

/// A change of state that no stream ends with.
fn passing(state: &State) -> StatusUpdate<'_> {
    StatusUpdate {
        state: words::idle_completed(state.status.state, state.turn_is_over()),
        at: state.status.at,
        message: None,
        metadata: Metadata::of(DevKind::StateChange, state).encode(),
        closing: None,
    }
}

/// An event beside the state it led to.
struct Shown<'a> {
    state: &'a State,
    record: &'a Record,
}

impl<'a> Shown<'a> {
    fn text(&self, since: Seq, text: &'a str) -> Frame<'a> {
        let message = AgentMessage::new(since, Piece::Text(text.into()));
        self.said(message, Metadata::of(DevKind::TextContent, self.state))
    }

    fn thought(&self, subject: &str, description: &str) -> Option<Frame<'a>> {
        if subject.is_empty() && description.is_empty() {
            return None;
        }
        let thought = json!({ "subject": subject, "description": description });
        let message = AgentMessage::new(self.record.seq, Piece::Data(json::bytes(&thought)));
        let metadata = Metadata::of(DevKind::Thought, self.state);
        Some(self.said(message.carrying(EXT), metadata))
    }

    fn call(&self, call: &CallId, status: CallStatus) -> Option<Frame<'a>> {
        let call = self.state.call(call)?;
        let message = AgentMessage::new(self.record.seq, data(call, status));
        let metadata = Metadata { answered_by: call.decided_by(), ..Metadata::of(DevKind::ToolCallUpdate, self.state) };
        Some(self.said(message.carrying(EXT), metadata))
    }

    fn said(&self, message: AgentMessage<'a>, metadata: Metadata<'_>) -> Frame<'a> {
        Frame::Status(StatusUpdate {
            state: words::idle_completed(self.state.status.state, self.state.turn_is_over()),
            at: self.record.at,
            message: Some(message),
            metadata: metadata.encode(),
            closing: None,
        })
    }
}

struct Metadata<'a> {
    kind: DevKind,
    model: &'a str,
    error: Option<&'a str>,
    answered_by: Option<&'a Source>,
}

impl<'a> Metadata<'a> {
    fn of(kind: DevKind, state: &'a State) -> Metadata<'a> {
        Metadata { kind, model: &state.model, error: None, answered_by: None }
    }

    /// By hand: every chunk of text has one.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        out.push(b'{');
        json::write(&mut out, EXT);
        out.extend_from_slice(br#":{"kind":""#);
        out.extend_from_slice(self.kind.word().as_bytes());
        out.extend_from_slice(br#"","model":"#);
        json::write(&mut out, self.model);
        if let Some(error) = self.error {
            out.extend_from_slice(br#","error":"#);
            json::write(&mut out, error);
        }
        out.push(b'}');
        if let Some(source) = self.answered_by {
            out.push(b',');
            write_answered_by(&mut out, source);
        }
        out.push(b'}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::{Projection, View, Writer};
    use crate::a2a::{self, sample};
    use crate::task::log::event::{End, Final};
    use crate::task::machine::state::{Live, Phase, Stage};
    use crate::task::message::Artifact;
    use crate::task::message::Part;
    use crate::task::spec::{ApprovalScope, Choice, Confinement, Display, Ending, Question};
    use serde_json::Value;
    use std::sync::Arc;

    const TIME: &str = "2026-03-01T09:30:00.125Z";
    const VIEW: View = View::A2a(Writer::V03, Projection::Devtool);

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
    fn what_the_agent_says_and_thinks() {
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
        Source { client: "ada".into(), via: "a2a-1.0".into() }
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
        // What other views are still shown is not shown here.
        state.told = TaskState::InputRequired;
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
    fn who_refused_is_told_and_who_allowed_what_was_stopped_is_not() {
        let ending = Arc::new(Ending::Cancelled { reason: "No.".into(), output: String::new() });
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
        let present = a2a::present(VIEW, &state, &sample::tools()).unwrap();
        assert_eq!(value(&present), closing);
        let task = value(&a2a::snapshot(VIEW, &state, a2a::Wanted::ALL));
        assert_eq!(task["status"], open["status"]);

        state.status.text = Some("Restarted.".into());
        let (open, _) = frames(&state, Event::Interrupted { text: "".into() }).unwrap();
        let said = &open["status"]["message"];
        assert_eq!(
            (&said["parts"][0], said["parts"].as_array().map(Vec::len)),
            (&json!({"kind": "text", "text": "Restarted."}), Some(3))
        );
    }

    #[test]
    fn a_turn_that_is_over_is_a_completed_task() {
        let end = |end| Event::TurnEnded { turn: 1, end };
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
            let task = value(&a2a::snapshot(VIEW, &state, a2a::Wanted::ALL));
            assert_eq!(task["status"], open["status"]);
        }
        let mut failed = sample::state();
        failed.status.state = TaskState::InputRequired;
        failed.status.text = Some("Broke.".into());
        failed.error = failed.status.text.clone();
        let (open, _) = frames(&failed, end(End::Failed("Broke.".into()))).unwrap();
        let mut expected = around("STATE_CHANGE", "completed", said("Broke."));
        expected["metadata"][EXT]["error"] = json!("Broke.");
        assert_eq!(open, expected);
    }

    #[test]
    fn changes_of_state_and_what_was_made() {
        let mut state = sample::state();
        state.phase = Phase::Thinking { job: Seq(9) };
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
        let told: Vec<String> = sample::fold(sample::approved_command())
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
            told,
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

    /// The example of the extension's own text: a new file that waits for its approval.
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
