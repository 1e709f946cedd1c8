//! The view of the live session: flat objects for clients that share a session over a socket or follow one of its turns. Every object has
//! `kind`, `taskId` and, unless it is a notice of the server, `seq`; readable text is in `content.text`.
//!
//! Every client is shown what the others do: their prompts (`USER_MESSAGE`), who answered a question and with which option
//! (`answered_by`, `selected_option_id`), and what delays the turn (`CONSOLE_LOG`). `final` of a `STATE_CHANGE` is true if the task
//! waits for a user, because its turn is over or asks something. An `ARTIFACT_UPDATE` has the artifact as A2A 0.3 writes it.
//!
//! A client that joins later has missed the questions. Therefore the first state that it gets has `open_calls`: every call that has not
//! ended, as its last update showed it.

use crate::a2a::Body;
use crate::a2a::dialect::{Standalone, Writer};
use crate::a2a::encodings::object::{Object, object};
use crate::a2a::views::call::Call;
use crate::a2a::views::devtool_call::{self, Details};
use crate::a2a::views::update::{Change, Step, Update, failure};
use crate::a2a::words::Idle;
use crate::base::id::{Seq, TaskId};
use crate::base::level::Level;
use crate::task::machine::state::{Phase, State, TaskState};
use crate::task::message::{Content, Part};

pub const VIEW: &Standalone = &Standalone {
    name: "session",
    event: |state, record, _| frame(&Update::of(state, record)?).map(Body::bare),
    current_status: |state| Some(current_status(state)),
    snapshot: Some(current_status),
    idle: Idle::InputRequiredOrFailed,
};

/// A notice of the server about a task. It is not an event of the task, and the only object without `seq`.
pub fn notice(task: &TaskId, text: &str) -> Vec<u8> {
    write(task, None, "CONSOLE_LOG", |o| console_log(o, "error", text))
}

/// The current state, for clients that begin to follow the task.
fn current_status(state: &State) -> Vec<u8> {
    let open: Vec<Call<'_>> = state.calls.iter().filter(|call| !call.is_over()).filter_map(Call::current).collect();
    write(&state.created.task, Some(state.seq), "STATE_CHANGE", |o| {
        state_change(o, state);
        if !open.is_empty() {
            o.list("open_calls", open, tool_call);
        }
    })
}

fn write(task: &TaskId, seq: Option<Seq>, kind: &str, members: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    object(|o| {
        o.member("kind", kind);
        members(o);
        o.member("taskId", task).optional("seq", seq);
    })
}

/// None: clients are not shown the update.
fn frame(update: &Update<'_>) -> Option<Vec<u8>> {
    let (state, task, seq) = (update.state, &update.state.created.task, Some(update.seq));
    Some(match update.change {
        Change::Created
        | Change::Working
        | Change::ResultsSent
        | Change::Paused
        | Change::Stopped
        // The task continues to work after an answer.
        | Change::Call { step: Step::AllowedByAnswer, .. } => {
            write(task, seq, "STATE_CHANGE", |o| state_change(o, state))
        }
        Change::Prompted { message, by } => write(task, seq, "USER_MESSAGE", |o| {
            o.member("messageId", &message.id);
            content(o, &message.text());
            let queued = state.phase != Phase::Idle || state.queue.len() > 1;
            o.member("source", by).optional("queued", queued.then_some(true));
            let is_file = |part: &&Part| matches!(part.content, Content::Bytes(_) | Content::Uri(_));
            let files: Vec<&Part> = message.parts.iter().filter(is_file).collect();
            if !files.is_empty() {
                o.list("attachments", files, |o, part| {
                    o.optional("name", part.filename.as_ref()).optional("mimeType", part.media_type.as_ref());
                });
            }
        }),
        Change::Text { text, .. } | Change::Citation(text) => write(task, seq, "TEXT_CONTENT", |o| content(o, text)),
        Change::Thought { subject, description } => write(task, seq, "THOUGHT", |o| {
            o.member("subject", subject).member("description", description);
            let both: Vec<&str> = [subject, description].into_iter().filter(|text| !text.is_empty()).collect();
            content(o, &both.join("\n"));
        }),
        // The next update of the call shows the answer. An update with a pending call might be answered again.
        Change::Call { step: Step::Planned | Step::Answered | Step::Printed { due: false, .. }, .. } => return None,
        Change::Call {
            call,
            step: Step::Asked | Step::AllowedByRule | Step::Started | Step::Printed { .. } | Step::Ended,
        } => write(task, seq, "TOOL_CALL_UPDATE", |o| tool_call(o, call)),
        Change::Artifact(ref update) => write(task, seq, "ARTIFACT_UPDATE", |o| {
            o.object("artifact", |o| Writer::V03.artifact(o, &update.artifact));
            o.member("append", &update.append).member("lastChunk", &update.last);
        }),
        Change::Retracted(ref text) => write(task, seq, "CONSOLE_LOG", |o| console_log(o, Level::Warn.word(), text)),
        Change::Notice { level, ref text, .. } => write(task, seq, "CONSOLE_LOG", |o| console_log(o, level.word(), text)),
        Change::Answered(_) => return None,
    })
}

fn content(o: &mut Object<'_>, text: &str) {
    o.object("content", |o| _ = o.member("text", text));
}

fn console_log(o: &mut Object<'_>, level: &str, text: &str) {
    o.member("level", level);
    content(o, text);
}

/// The members of a call, and who answered its question.
fn tool_call(o: &mut Object<'_>, call: Call<'_>) {
    devtool_call::members(o, call, Details::Twice);
    if let Some(source) = call.call.decided_by() {
        let option = call.call.choice.map(|choice| choice.word());
        o.member("answered_by", source).member("selected_option_id", &option);
    }
}

/// The members of the current status.
fn state_change(o: &mut Object<'_>, state: &State) {
    let shown = VIEW.idle.show(state.status.state, state.outcome());
    let is_final = !matches!(shown, TaskState::Submitted | TaskState::Working);
    o.member("state", shown.word()).member("final", &is_final);
    if let Some(text) = &state.status.text {
        content(o, text);
    }
    o.optional("error", failure(state));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::View;
    use crate::a2a::{self, SnapshotOptions, sample};
    use crate::task::log::event::{End, Event, Final, Tries};
    use crate::task::log::record::Record;
    use crate::task::machine::state::{Queued, Stage};
    use crate::task::message::Artifact;
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

    /// The object of event 9, without the members that every object has.
    fn shown(state: &State, event: Event) -> Option<Value> {
        let mut shown = frame(state, &sample::record(event))?;
        let object = shown.as_object_mut().unwrap();
        assert_eq!(object.remove("taskId"), Some(json!("t-1")));
        assert_eq!(object.remove("seq"), Some(json!(9)));
        Some(shown)
    }

    #[test]
    fn text_and_thoughts() {
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
        let mut message = sample::prompt("m-1", "hello");
        let picture = Part { media_type: Some("image/png".into()), ..Part::of(Content::Bytes("aGk=".into())) };
        message.parts.push(Part { filename: Some("a.png".into()), ..picture });
        let (message, by, turn) = (Arc::new(message), sample::source(), 2);
        let queued = Queued { turn, message: message.clone(), steer: false, compress: false, credential: None };
        let prompted = Event::Prompted { message, by, turn, delivery: Default::default() };
        let mut expected = json!({"kind": "USER_MESSAGE", "messageId": "m-1", "content": {"text": "hello"},
            "source": {"client": "ada", "via": "a2a-1.0"}, "attachments": [{"name": "a.png", "mimeType": "image/png"}]});
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
        let frames: Vec<Value> = folded.iter().filter_map(|(record, state)| frame(state, record)).collect();
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
        assert_eq!(frames, expected);
    }

    #[test]
    fn a_new_subscriber_gets_the_open_calls() {
        let folded = sample::fold(sample::approved_command());
        let greeting = |n: usize| value(&a2a::snapshot(View::Standalone(VIEW), &folded[n].1, SnapshotOptions::ALL));
        let mut question = asking();
        question.as_object_mut().unwrap().remove("kind");
        let mut expected = json!({"kind": "STATE_CHANGE", "taskId": "t-1", "seq": 8, "state": "input-required",
            "final": true, "open_calls": [question]});
        assert_eq!(greeting(7), expected);
        let status = a2a::current_status(View::Standalone(VIEW), &folded[7].1, &sample::tools());
        assert_eq!(value(&status.unwrap()), expected);
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
    fn a_refused_call_and_one_that_needed_no_approval() {
        let mut state = sample::state();
        let (request, plan) = sample::shell("call-1", "make");
        let mut refused = sample::call("run_shell_command", request.args.clone(), None);
        refused.plan = Some(plan);
        refused.stage = Stage::Ready;
        state.calls = vec![refused];
        let ready = Event::CallReady { call: "call-1".into(), confinement: Confinement::None };
        assert_eq!(shown(&state, ready), Some(call("PENDING")));
        let ending = Arc::new(Ending::cancelled("No."));
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
    fn the_end_of_a_turn_has_its_reason() {
        let mut state = sample::state();
        state.status.state = TaskState::InputRequired;
        state.status.text = Some("Broke.".into());
        state.turn.error = Some("Broke.".into());
        let failed = Event::TurnEnded { turn: 1, end: End::Failed("Broke.".into()), by: None };
        let change = |state: &str| json!({"kind": "STATE_CHANGE", "state": state, "final": true, "content": {"text": "Broke."}, "error": "Broke."});
        assert_eq!(shown(&state, failed), Some(change("failed")));
        state.status.state = TaskState::Failed;
        state.turn.error = None;
        let closed = |state| Event::Closed { state, text: Some("Broke.".into()) };
        assert_eq!(shown(&state, closed(Final::Failed)), Some(change("failed")));
        state.status.state = TaskState::Canceled;
        let mut expected = change("canceled");
        expected.as_object_mut().unwrap().remove("error");
        assert_eq!(shown(&state, closed(Final::Canceled)), Some(expected));
    }

    #[test]
    fn notices_about_retries_and_compaction() {
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
    fn artifact_updates() {
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
    fn the_option_to_save_is_offered_in_sessions() {
        let mut folded = sample::fold(sample::approved_command());
        let (record, state) = &mut folded[6];
        state.calls[0].keeping = ApprovalScope::Disk;
        let shown = frame(state, record).unwrap();
        assert_eq!(shown["confirmation_request"]["options"][2]["id"], "proceed_always_and_save");
    }
}
