//! The stream of `POST /message/stream`: bare objects with a `kind` as the reference server names it, the task and the time. Live output
//! and artifacts are not shown.
//!
//! A question is two frames, first the pending call and then the question; they are two events here as well. A state is sent only when
//! it changes. It changes when the task continues after an answer, but not when results are sent to the model.

use crate::a2a::Body;
use crate::a2a::dialect::Standalone;
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::views::gemini_streams;
use crate::a2a::views::update::{Change, Step, Update};
use crate::a2a::words::{self, Idle};
use crate::base::clock::rfc3339;
use crate::task::machine::state::State;

pub const VIEW: &Standalone = &Standalone {
    name: "kebab",
    event: |state, record, _| frame(&Update::of(state, record)?).map(Body::bare),
    current_status: |state| Some(current_status(state)),
    snapshot: None,
    idle: Idle::Outcome,
};

/// None: clients are not shown the update.
fn frame(update: &Update<'_>) -> Option<Vec<u8>> {
    let state = update.state;
    let notice = |text: &str| {
        write(state, update.at, "state-change", |o| gemini_streams::notice(o, state, words::message_state, text))
    };
    Some(match update.change {
        Change::Working | Change::Paused | Change::Stopped => current_status(state),
        Change::Call { step: Step::Answered, .. } if state.status.seq == update.seq => current_status(state),
        Change::Thought { subject, description } => write(state, update.at, "thought", |o| {
            o.member("subject", subject).member("description", description);
        }),
        Change::Text { text, since } => write(state, update.at, "text-content", |o| {
            o.member("text", text).member("messageId", &state.message_id(since));
        }),
        Change::Citation(text) => write(state, update.at, "citation", |o| _ = o.member("text", text)),
        Change::Call { call, step: Step::Asked } => {
            let question = call.question()?;
            write(state, update.at, "tool-call-confirmation", |o| {
                o.member("toolCallId", call.call.id()).member("toolName", &call.call.request.name);
                o.member("inputParameters", &call.call.request.args);
                o.object("confirmationRequest", |o| gemini_streams::confirmation(o, call, question));
            })
        }
        Change::Call { call, step: Step::Planned | Step::Started | Step::Ended } => {
            write(state, update.at, "tool-call-update", |o| {
                o.member("toolCallId", call.call.id()).member("toolName", &call.call.request.name);
                o.member("status", call.status.devtool()).member("inputParameters", &call.call.request.args);
                o.optional("result", call.result()).optional("error", call.failure());
            })
        }
        Change::Call {
            step: Step::Answered | Step::AllowedByRule | Step::AllowedByAnswer | Step::Printed { .. },
            ..
        }
        | Change::Created
        | Change::Prompted { .. }
        | Change::ResultsSent
        | Change::Answered(_)
        | Change::Artifact(_) => return None,
        Change::Retracted(ref text) => notice(text),
        Change::Notice { ref text, .. } => notice(text),
    })
}

/// A frame with the current state.
fn current_status(state: &State) -> Vec<u8> {
    write(state, state.status.at, "state-change", |o| gemini_streams::status(o, state, words::message_state))
}

fn write(state: &State, at: u64, kind: &'static str, members: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    object(|o| {
        o.member("kind", kind);
        members(o);
        o.member("taskId", &state.created.task).member("contextId", &state.created.context);
        o.member("timestamp", &rfc3339(at));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::base::id::Seq;
    use crate::task::log::event::{Event, Final};
    use crate::task::machine::state::{Phase, TaskState};
    use crate::task::message::Source;
    use crate::task::spec::{Choice, Confinement, Display, Ending};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn shown(state: &State, event: Event) -> Option<Value> {
        let body = (VIEW.event)(state, &sample::record(event), &sample::tools())?;
        Some(serde_json::from_slice(&body.open).expect("JSON"))
    }

    fn at_work(mut object: Value) -> Option<Value> {
        object["taskId"] = "t-1".into();
        object["contextId"] = "c-1".into();
        object["timestamp"] = "2026-03-01T09:30:00.125Z".into();
        Some(object)
    }

    #[test]
    fn text_citations_and_thoughts() {
        let mut state = sample::state();
        state.utterance.since = Some(Seq(5));
        let text = |text: &str| Event::Text { text: text.into() };
        assert_eq!(
            shown(&state, text("a\n")),
            at_work(json!({"kind": "text-content", "text": "a\n", "messageId": "t-1-5"}))
        );
        assert_eq!(shown(&state, text("")), None);
        let cited = |text: &str| Event::Cited { text: text.into() };
        assert_eq!(shown(&state, cited("[1] x")), at_work(json!({"kind": "citation", "text": "[1] x"})));
        assert_eq!(shown(&state, cited(" ")), None);
        let thought = |subject: &str| Event::Thought { subject: subject.into(), description: String::new() };
        assert_eq!(
            shown(&state, thought("Plan")),
            at_work(json!({"kind": "thought", "subject": "Plan", "description": ""}))
        );
        assert_eq!(shown(&state, thought("")), None);
    }

    #[test]
    fn a_call_from_the_question_to_the_result() {
        let mut state = sample::state();
        let args = json!({"file_path": "a.txt"});
        state.calls = vec![sample::call("write_file", args.clone(), Some(sample::edit()))];
        let call = || "call-1".into();
        let update = |status: &str| {
            json!({"kind": "tool-call-update", "toolCallId": "call-1", "toolName": "write_file",
                "status": status, "inputParameters": args})
        };
        let plan = state.calls[0].plan.clone().expect("it was planned");
        assert_eq!(shown(&state, Event::CallPlanned { call: call(), plan }), at_work(update("PENDING")));
        let asked = shown(&state, Event::CallAsked { call: call(), keeping: Default::default() }).expect("shown");
        assert_eq!(asked["kind"], "tool-call-confirmation");
        assert_eq!(asked["inputParameters"], args);
        assert_eq!(asked["confirmationRequest"]["type"], "warning");
        assert_eq!(shown(&state, Event::CallReady { call: call(), confinement: Confinement::None }), None);
        assert_eq!(shown(&state, Event::CallStarted { call: call() }), at_work(update("EXECUTING")));
        let ending = Arc::new(Ending::Success { output: "done".into(), display: Display::Text { text: "".into() } });
        state.calls[0].ending = Some(ending.clone());
        let mut ended = update("SUCCEEDED");
        ended["result"] = "done".into();
        assert_eq!(shown(&state, Event::CallEnded { call: call(), ending }), at_work(ended));
    }

    #[test]
    fn an_answer_is_shown_as_the_working_state() {
        let mut state = sample::state();
        state.calls = vec![sample::call("write_file", json!({}), Some(sample::edit()))];
        let answered = || Event::CallAnswered {
            call: "call-1".into(),
            choice: Choice::ProceedOnce,
            by: Source::new("x", "y"),
            edited: None,
            answers: None,
            rules: Vec::new(),
        };
        state.status.seq = Seq(9);
        assert_eq!(shown(&state, answered()), at_work(json!({"kind": "state-change", "state": "working"})));
        state.status.seq = Seq(8);
        assert_eq!(shown(&state, answered()), None, "the task was working all the time");
    }

    #[test]
    fn the_end_of_a_turn_has_its_reason() {
        let mut state = sample::state();
        let mut change = |status: TaskState, phase, text: Option<&str>, error: Option<&str>| {
            state.status.state = status;
            state.status.text = text.map(Into::into);
            state.turn.error = error.map(Into::into);
            state.phase = phase;
            let closed = Event::Closed { state: Final::Failed, text: None };
            let frame = (VIEW.event)(&state, &sample::record(closed), &sample::tools()).map(|body| body.open.to_vec());
            assert_eq!(frame, Some(current_status(&state)));
            let mut shown: Value = serde_json::from_slice(&current_status(&state)).expect("JSON");
            let members = shown.as_object_mut().expect("an object");
            for always in ["kind", "taskId", "contextId", "timestamp"] {
                assert!(members.remove(always).is_some());
            }
            shown
        };
        use TaskState::*;
        for (status, phase, text, error, expected) in [
            (InputRequired, Phase::Tools, None, None, json!({"state": "input-required"})),
            (InputRequired, Phase::Idle, None, None, json!({"state": "completed"})),
            (InputRequired, Phase::Idle, Some("Which?"), None, json!({"state": "completed", "text": "Which?"})),
            (InputRequired, Phase::Idle, Some("broke"), Some("broke"), json!({"state": "failed", "error": "broke"})),
            (AuthRequired, Phase::Idle, Some("key"), None, json!({"state": "input-required", "text": "key"})),
            (Failed, Phase::Closed, Some("bad"), None, json!({"state": "failed", "error": "bad"})),
            (Rejected, Phase::Closed, Some("no"), None, json!({"state": "failed", "error": "no"})),
            (Canceled, Phase::Closed, Some("by you"), None, json!({"state": "canceled", "text": "by you"})),
        ] {
            assert_eq!(change(status, phase, text, error), expected);
        }
    }
}
