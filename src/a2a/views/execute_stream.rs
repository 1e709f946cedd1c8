//! The stream of `POST /tasks/{id}/execute`: bare objects with a `type`, which is also the name of the SSE event. The state of a task is
//! `running`, `completed` or `error`; that it waits for an answer is shown by the call with the question. Live output and artifacts are
//! not shown.

use crate::a2a::Body;
use crate::a2a::dialect::Standalone;
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::views::call::Call;
use crate::a2a::views::gemini_streams;
use crate::a2a::views::update::{Change, Step, Update};
use crate::a2a::words::{self, CallStatus, Idle};
use crate::base::clock::rfc3339;
use crate::task::machine::state::State;
use std::borrow::Cow;

pub const VIEW: &Standalone = &Standalone {
    name: "snake",
    event: |state, record, _| frame(&Update::of(state, record)?),
    current_status: |state| Some(current_status(state).open.to_vec()),
    snapshot: None,
    idle: Idle::Outcome,
};

/// None: clients are not shown the update.
fn frame(update: &Update<'_>) -> Option<Body> {
    let state = update.state;
    let notice = |text: &str| {
        write(state, "state_change", |o| {
            gemini_streams::notice(o, state, words::execute_state, text);
            o.member("timestamp", &rfc3339(update.at));
        })
    };
    Some(match update.change {
        Change::Working | Change::Stopped => current_status(state),
        Change::Thought { subject, description } => {
            let thought: Cow<'_, str> = match (subject, description) {
                (one, "") | ("", one) => one.into(),
                (subject, description) => format!("{subject}: {description}").into(),
            };
            write(state, "thought", |o| _ = o.member("thought", &thought))
        }
        // When the answer is complete, so are the thoughts before it.
        Change::Answered(_) => {
            let summary = Some(state.thoughts.join("; ")).filter(|summary| !summary.is_empty())?;
            write(state, "thought_summary", |o| _ = o.member("summary", &summary))
        }
        Change::Text { text, .. } | Change::Citation(text) => {
            write(state, "text_content", |o| _ = o.member("text", text))
        }
        Change::Call { call, step: Step::Planned | Step::Asked | Step::Started | Step::Ended } => {
            write(state, "tool_call_update", |o| tool_call(o, call))
        }
        Change::Call {
            step: Step::Answered | Step::AllowedByRule | Step::AllowedByAnswer | Step::Printed { .. },
            ..
        }
        | Change::Created
        | Change::Prompted { .. }
        | Change::ResultsSent
        | Change::Paused
        | Change::Artifact(_) => return None,
        Change::Retracted(ref text) => notice(text),
        Change::Notice { ref text, .. } => notice(text),
    })
}

/// A frame with the current state.
fn current_status(state: &State) -> Body {
    write(state, "state_change", |o| {
        gemini_streams::status(o, state, words::execute_state);
        o.member("timestamp", &rfc3339(state.status.at));
    })
}

fn tool_call(o: &mut Object<'_>, call: Call<'_>) {
    o.member("toolCallId", call.call.id()).member("status", call.status.execute());
    o.member("toolName", &call.call.request.name).optional("result", call.result());
    // This stream has no status for a cancelled call, so the error says that it was cancelled.
    let cancelled = (call.status == CallStatus::Cancelled).then_some("cancelled");
    o.optional("error", cancelled.or(call.failure()));
    if let Some(question) = call.question() {
        o.object("confirmationRequest", |o| gemini_streams::confirmation(o, call, question));
    }
}

fn write(state: &State, kind: &'static str, members: impl FnOnce(&mut Object<'_>)) -> Body {
    let object = object(|o| {
        o.member("type", kind);
        members(o);
        o.member("taskId", &state.created.task);
    });
    Body { event: Some(kind), ..Body::bare(object) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::task::log::answer::Answer;
    use crate::task::log::event::{End, Event};
    use crate::task::machine::state::{Phase, TaskState};
    use crate::task::spec::{Display, Ending};
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// The object, after checking that the SSE event has the same name.
    fn shown(state: &State, event: Event) -> Option<Value> {
        let shown = (VIEW.event)(state, &sample::record(event), &sample::tools())?;
        let mut object: Value = serde_json::from_slice(&shown.open).expect("JSON");
        assert_eq!(object["type"].as_str(), shown.event);
        let task = object.as_object_mut().and_then(|object| object.remove("taskId"));
        assert_eq!(task, Some("t-1".into()));
        Some(object)
    }

    #[test]
    fn thoughts_and_their_summary() {
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
        assert_eq!(shown(&state, answered()), None, "there was no thought");
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
        let stopped = ended(Ending::cancelled("why"));
        let mut expected = update("error");
        expected["error"] = "cancelled".into();
        assert_eq!(stopped, expected);
    }

    #[test]
    fn three_words_for_every_state() {
        let mut state = sample::state();
        let change = |state: &State| {
            shown(state, Event::TurnEnded { turn: 1, end: End::Done, by: None }).map(|shown| shown["state"].clone())
        };
        assert_eq!(change(&state), Some("running".into()));
        state.status.state = TaskState::InputRequired;
        state.phase = Phase::Tools;
        assert_eq!(change(&state), Some("running".into()));
        state.phase = Phase::Idle;
        assert_eq!(change(&state), Some("completed".into()));
        state.turn.error = Some("broke".into());
        assert_eq!(
            shown(&state, Event::TurnEnded { turn: 1, end: End::Done, by: None }),
            Some(json!({"type": "state_change", "state": "error", "error": "broke",
                "timestamp": "2026-03-01T09:30:00.125Z"}))
        );
        assert_eq!(shown(&state, Event::Paused), None, "it still runs");
        state.status.state = TaskState::Canceled;
        assert_eq!(change(&state), Some("error".into()));
    }
}
