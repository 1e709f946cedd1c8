//! Events in the coder profile.

use super::*;
use crate::a2a::dialect::{Outputs, Writer};

#[test]
fn events_that_are_shown_as_the_working_state() {
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
fn events_that_no_client_is_shown() {
    let state = sample::state();
    for event in [
        Event::Created(state.created.clone()),
        Event::Prompted {
            message: Arc::new(sample::prompt("m", "x")),
            by: Source::new("x", "y"),
            turn: 2,
            delivery: Default::default(),
        },
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
fn trouble_is_a_status_update_with_a_text() {
    for (event, text) in [
        (Event::Retried, "The model is asked again."),
        (Event::Retracted { reason: "r".into() }, "What the agent was saying is void, it will be said again: r"),
    ] {
        let mut expected = state_change("working");
        expected["status"]["message"] = agent_message("t-1-9", json!({"kind": "text", "text": text}));
        assert_eq!(frame(&sample::state(), event), expected);
    }
}

/// The snapshot of the task has the text too.
#[test]
fn the_status_says_that_the_task_waits_for_the_model() {
    let mut state = sample::state();
    state.phase = crate::task::machine::state::Phase::Backoff { job: Seq(9), delay_ms: 1_001, reason: "r".into() };
    let task = value(&snapshot(the_view(), &state, SnapshotOptions::ALL));
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "The model is asked again in 2 s: r");
}

#[test]
fn text_and_thoughts() {
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

/// Folds events as a server does. Returns a line about each frame: kind, state, call status, whether it may end a stream.
fn summaries(view: View, events: Vec<Event>) -> Vec<String> {
    let created = sample::state().created;
    let mut state = None;
    let mut summaries = Vec::new();
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
        summaries.push(words.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
    summaries
}

fn approved_command() -> Vec<Event> {
    let call = || "call-1".into();
    let by = || Source::new("x", "y");
    let asked = running();
    let plan = asked.plan.expect("it has one");
    let ending = Arc::new(Ending::Success { output: "1".into(), display: Display::Text { text: "1".into() } });
    vec![
        Event::Created(sample::state().created),
        Event::Prompted {
            message: Arc::new(sample::prompt("m-1", "count")),
            by: by(),
            turn: 1,
            delivery: Default::default(),
        },
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
        Event::TurnEnded { turn: 1, end: End::Done, by: None },
    ]
}

#[test]
fn an_approved_command_in_the_recorded_order() {
    // The reference server shows the question again when it has been answered. That is left out, because some clients would answer again.
    assert_eq!(
        summaries(the_view(), approved_command()),
        [
            "state-change working",
            "state-change working",
            "tool-call-update working scheduled",
            "tool-call-confirmation working awaiting_approval",
            "state-change input-required may close",
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

/// The frames of an approved call have the state `working`: to a client of 1.0, `input-required` would be the end of the stream.
#[test]
fn an_approved_command_in_1_0_is_working_after_the_answer() {
    let view = View::A2a(Writer::V10, Profile::Coder, Outputs::TEXT);
    let shown = summaries(view, approved_command());
    let words: Vec<&str> = shown.iter().map(String::as_str).collect();
    assert_eq!(
        words[4..],
        [
            "state-change TASK_STATE_INPUT_REQUIRED may close",
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

#[test]
fn artifacts_of_the_agent() {
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
        (Event::TurnEnded { turn: 1, end: End::Done, by: None }, TaskState::InputRequired, None, None),
        (
            Event::TurnEnded { turn: 1, end: End::NeedsAuth("log in".into()), by: None },
            TaskState::AuthRequired,
            text("log in"),
            None,
        ),
        (
            Event::TurnEnded { turn: 1, end: End::Failed("broke".into()), by: None },
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
        now.turn.error = match &event {
            Event::TurnEnded { .. } => error.map(Into::into),
            _ => None,
        };
        let mut open = state_change(state.word());
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
        assert_eq!(value(&current_status(the_view(), &now, &sample::tools()).unwrap()), closing, "{name}");
    }
}

#[test]
fn a_prompt_during_questions_is_answered_with_the_open_calls() {
    let mut state = with_call(writing());
    state.calls[0].stage = Stage::Asked;
    state.status.state = TaskState::InputRequired;
    let shown = value(&current_status(the_view(), &state, &sample::tools()).unwrap());
    let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
    assert_eq!(shown["status"]["message"], frame(&state, asked)["status"]["message"]);
    // The event itself shows only the state, as with the reference server.
    let (paused, _) = frames(&state, Event::Paused).unwrap();
    assert_eq!(paused, state_change("input-required"));
}

#[test]
fn metadata_names_the_client_that_answered() {
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
    state.turn.usage = None;
    let mut expected = state_change("working");
    expected["final"] = json!(true);
    assert_eq!(value(&current_status(the_view(), &state, &sample::tools()).unwrap()), expected);
}
