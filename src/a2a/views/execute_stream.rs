//! The snake dialect, the stream of `POST /tasks/{id}/execute`: bare objects with a `type`, which is the name of the SSE event too.
//! A task runs, is completed or has failed; that it waits for an answer is to be seen from the call that is asked about. There is
//! no place for live output and for artifacts.

use crate::a2a::Body;
use crate::a2a::dialect::Standalone;
use crate::a2a::views::flat::{Confirmation, Flat, Outcome, Standing};
use crate::a2a::words::{self, CallStatus, ExecuteKind};
use crate::base::clock::rfc3339;
use crate::base::id::CallId;
use crate::task::log::event::{Event, detours, errands, hooks};
use crate::task::log::record::Record;
use crate::task::machine::state::State;
use std::borrow::Cow;

pub const VIEW: &Standalone = &Standalone {
    name: "execute-stream",
    event: |state, record| {
        let shown = frame(state, record)?;
        Some(Body { event: Some(shown.event), ..Body::bare(shown.body) })
    },
    present: |state| Some(present(state).body),
    snapshot: None,
    idle_is_completed: true,
};

/// One object, and the name of its event.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub event: &'static str,
    pub body: Vec<u8>,
}

/// `state` is the state right after `record`. None: clients are not shown the event.
pub fn frame(state: &State, record: &Record) -> Option<Shown> {
    match &record.event {
        Event::TurnBegan { .. }
        | Event::TurnEnded { .. }
        | Event::Interrupted { .. }
        | Event::Resumed
        | Event::Closed { .. } => Some(present(state)),
        Event::Thought { subject, description } => {
            let thought = thought(subject, description)?;
            let shown = |object: Flat| object.with("thought", &*thought);
            Some(object(state, ExecuteKind::Thought, shown))
        }
        // The answer is complete, and with it what was thought about it.
        Event::Answered { .. } => {
            let summary = state.thoughts.join("; ");
            let shown = |object: Flat| object.with("summary", &summary);
            (!summary.is_empty()).then(|| object(state, ExecuteKind::ThoughtSummary, shown))
        }
        Event::Text { text } | Event::Cited { text } => {
            let shown = |object: Flat| object.with("text", text);
            (!text.is_empty()).then(|| object(state, ExecuteKind::TextContent, shown))
        }
        Event::CallPlanned { call, .. } => update(state, call, CallStatus::Scheduled),
        Event::CallAsked { call, .. } => update(state, call, CallStatus::AwaitingApproval),
        Event::CallStarted { call } => update(state, call, CallStatus::Executing),
        Event::CallEnded { call, ending } => update(state, call, CallStatus::of(ending)),
        Event::Created(_)
        | Event::Prompted { .. }
        | Event::Retracted { .. }
        | Event::CallAnswered { .. }
        | Event::CallReady { .. }
        | Event::CallOutput { .. }
        | Event::CallStale { .. }
        | Event::Paused
        | Event::ResultsSent
        | Event::Produced { .. }
        | errands!()
        | detours!()
        | hooks!() => None,
    }
}

/// The present state.
pub fn present(state: &State) -> Shown {
    let standing = Standing::of(state);
    object(state, ExecuteKind::StateChange, |object| {
        object
            .with("state", words::execute_state(standing.state))
            .with_some("error", standing.error)
            .with_some("text", standing.text)
            .with("timestamp", &rfc3339(standing.at))
    })
}

fn thought<'a>(subject: &'a str, description: &'a str) -> Option<Cow<'a, str>> {
    match (subject, description) {
        ("", "") => None,
        (one, "") | ("", one) => Some(one.into()),
        (subject, description) => Some(format!("{subject}: {description}").into()),
    }
}

fn update(state: &State, call: &CallId, status: CallStatus) -> Option<Shown> {
    let call = state.call(call)?;
    let mut outcome = Outcome::of(call);
    let question = match status {
        CallStatus::AwaitingApproval => Confirmation::of(call),
        // There is no status for it, only this word.
        CallStatus::Cancelled => {
            outcome.error = Some("cancelled");
            None
        }
        CallStatus::Scheduled | CallStatus::Executing | CallStatus::Success | CallStatus::Error => None,
    };
    Some(object(state, ExecuteKind::ToolCallUpdate, |object| {
        object
            .with("toolCallId", call.id())
            .with("status", status.execute())
            .with("toolName", &call.request.name)
            .with_some("result", outcome.result.as_deref())
            .with_some("error", outcome.error)
            .with_some("confirmationRequest", question.as_ref())
    }))
}

fn object(state: &State, kind: ExecuteKind, members: impl FnOnce(Flat) -> Flat) -> Shown {
    let event = kind.word();
    Shown { event, body: members(Flat::new("type", event)).with("taskId", &state.created.task).end() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::task::log::answer::Answer;
    use crate::task::log::event::End;
    use crate::task::machine::state::{Phase, TaskState};
    use crate::task::spec::{Display, Ending};
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// The object, after a look at whether its event is called like it.
    fn shown(state: &State, event: Event) -> Option<Value> {
        let shown = frame(state, &sample::record(event))?;
        let mut object: Value = serde_json::from_slice(&shown.body).expect("JSON");
        assert_eq!(object["type"], shown.event);
        let task = object.as_object_mut().and_then(|object| object.remove("taskId"));
        assert_eq!(task, Some("t-1".into()));
        Some(object)
    }

    #[test]
    fn thoughts_and_what_they_were_about() {
        let mut state = sample::state();
        let thought = |subject: &str, description: &str| Event::Thought {
            subject: subject.into(),
            description: description.into(),
        };
        let expect = |text: &str| Some(json!({"type": "thought", "thought": text}));
        assert_eq!(shown(&state, thought("Plan", "Look.")), expect("Plan: Look."));
        assert_eq!(shown(&state, thought("Plan", "")), expect("Plan"));
        assert_eq!(shown(&state, thought("", "Look.")), expect("Look."));
        assert_eq!(shown(&state, thought("", "")), None);

        let answered = || Event::Answered { answer: Arc::new(Answer::default()) };
        assert_eq!(shown(&state, answered()), None, "nothing was thought");
        state.apply(&sample::record(thought("Plan", "Look first.")));
        state.apply(&sample::record(thought("", "Then write.\nAll of it.")));
        state.apply(&sample::record(answered()));
        assert_eq!(shown(&state, answered()), Some(json!({"type": "thought_summary", "summary": "Plan; Then write."})));
        state.apply(&sample::record(Event::ResultsSent));
        assert_eq!(state.thoughts, [""; 0], "the next answer has its own");
    }

    #[test]
    fn a_call_from_the_question_to_the_result() {
        let mut state = sample::state();
        state.calls = vec![sample::call("write_file", json!({}), Some(sample::edit()))];
        let call = || "call-1".into();
        let update = |status: &str| json!({"type": "tool_call_update", "toolCallId": "call-1", "status": status, "toolName": "write_file"});
        let plan = state.calls[0].plan.clone().expect("it was planned");
        assert_eq!(shown(&state, Event::CallPlanned { call: call(), plan }), Some(update("requested")));
        let mut asked = shown(&state, Event::CallAsked { call: call(), keeping: Default::default() }).expect("shown");
        let question = asked.as_object_mut().and_then(|asked| asked.remove("confirmationRequest"));
        assert_eq!(question.expect("a question")["title"], "Confirm Write: a.txt");
        assert_eq!(asked, update("requested"));
        assert_eq!(shown(&state, Event::CallStarted { call: call() }), Some(update("executing")));
        let mut ended = |ending: Ending| {
            let ending = Arc::new(ending);
            state.calls[0].ending = Some(ending.clone());
            shown(&state, Event::CallEnded { call: call(), ending }).expect("shown")
        };
        let success = ended(Ending::Success { output: "done".into(), display: Display::Text { text: "".into() } });
        assert_eq!((&success["status"], &success["result"]), (&json!("completed"), &json!("done")));
        let stopped = ended(Ending::Cancelled { reason: "why".into(), output: String::new() });
        let mut expected = update("error");
        expected["error"] = "cancelled".into();
        assert_eq!(stopped, expected);
    }

    #[test]
    fn three_words_for_every_state() {
        let mut state = sample::state();
        let change = |state: &State| {
            shown(state, Event::TurnEnded { turn: 1, end: End::Done }).map(|shown| shown["state"].clone())
        };
        assert_eq!(change(&state), Some("running".into()));
        state.status.state = TaskState::InputRequired;
        state.phase = Phase::Tools;
        assert_eq!(change(&state), Some("running".into()));
        state.phase = Phase::Idle;
        assert_eq!(change(&state), Some("completed".into()));
        state.error = Some("broke".into());
        assert_eq!(
            shown(&state, Event::TurnEnded { turn: 1, end: End::Done }),
            Some(json!({"type": "state_change", "state": "completed", "error": "broke",
                "timestamp": "2026-03-01T09:30:00.125Z"}))
        );
        assert_eq!(shown(&state, Event::Paused), None, "it still runs");
        state.status.state = TaskState::Canceled;
        assert_eq!(change(&state), Some("error".into()));
    }
}
