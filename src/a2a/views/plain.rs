//! The plain projection: a task for clients that know A2A but no tool calls. Each answer of the model is an artifact, `answer-<turn>`,
//! then `answer-<turn>.2` and so on, sent whole when it is complete. The only other texts are questions and notices of trouble, because
//! clients show every text as a part of the answer. Calls, thoughts, sources and the steps before an answer are not shown.
//!
//! A client may ask for answers in pieces. The last piece of an answer must not be empty, and which piece is the last is known only
//! afterwards, so the last character of a text is held back until more text comes or the answer is complete. Retracted text is
//! replaced by the next piece. Text of an answer that the end of its turn cuts off is in the stream and in no snapshot.
//!
//! A question is a text that ends with the ways to answer. Its calls are in the metadata of the message, and in data parts only for
//! clients that accept JSON: some clients fail on a message with a text part and a data part.

use crate::a2a::dialect::Outputs;
use crate::a2a::encodings::object::object;
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Frame, Piece, StatusUpdate};
use crate::a2a::views::call::{Call, mcp_call, prompt_and_urls};
use crate::a2a::views::devtool_call::{self, Details};
use crate::a2a::views::snapshot::answer;
use crate::a2a::views::update::{Change, Topic, Update, status_message};
use crate::a2a::words::{CallStatus, Idle, PLAIN};
use crate::task::log::event::Profile;
use crate::task::machine::state::{State, TaskState};
use crate::task::message::Artifact;
use crate::task::spec::Question;
use std::borrow::Cow;

/// The metadata of every status: empty, because there is nothing in it that every client understands.
const NO_METADATA: &[u8] = b"{}";

/// None: clients are not shown the update.
pub fn frame<'a>(update: &Update<'a>, outputs: Outputs) -> Option<Frame<'a>> {
    let state = update.state;
    match update.change {
        Change::Working => Some(working(update, None)),
        Change::Stopped if state.continues_with_queue() => {
            Some(working(update, Some(state.status.text.as_deref()?.into())))
        }
        Change::Paused | Change::Stopped => Some(Frame::Status(current_status(state, outputs))),
        Change::Text { text, .. } if outputs.pieces => next_piece(state, text),
        Change::Answered(answered) if answered.has_text() => {
            let text = answered.text();
            let before = if outputs.pieces { sent(&text) } else { "" };
            let artifact = artifact(state, state.turn.answers_with_text, &text[before.len()..]);
            Some(Frame::Artifact(ArtifactUpdate { artifact, append: !before.is_empty(), last: true }))
        }
        Change::Notice { topic: Topic::Trouble, ref text, .. } => Some(working(update, Some(text.clone()))),
        Change::Artifact(ref artifact) => Some(Frame::Artifact(artifact.clone())),
        Change::Created
        | Change::Prompted { .. }
        | Change::ResultsSent
        | Change::Text { .. }
        | Change::Thought { .. }
        | Change::Citation(_)
        | Change::Retracted { .. }
        | Change::Answered(_)
        | Change::Call { .. }
        | Change::Notice { .. } => None,
    }
}

/// The status as last announced, in a form that a stream may end with.
pub fn current_status(state: &State, outputs: Outputs) -> StatusUpdate<'_> {
    let idle = if state.created.profile == Profile::Plain { Idle::InputRequired } else { Idle::Outcome };
    StatusUpdate {
        state: idle.show(state.status.state, state.outcome()),
        at: state.status.at,
        message: message(state, outputs),
        metadata: NO_METADATA.to_vec(),
        closing: Some(NO_METADATA.to_vec()),
    }
}

/// The agent's message about the current status: its text, the open questions and how to answer them.
pub fn message(state: &State, outputs: Outputs) -> Option<AgentMessage<'_>> {
    let open: Vec<Call<'_>> = asked(state).collect();
    if open.is_empty() {
        return status_message(state, None);
    }
    let data = open.iter().filter(|_| outputs.data).map(|call| Piece::Data(devtool_call::encode(*call)));
    let mut message = status_message(state, std::iter::once(Piece::Text(question(&open).into())).chain(data))?;
    message.metadata = Some(object(|o| {
        o.object(PLAIN, |o| _ = o.list("calls", open, |o, call| devtool_call::members(o, call, Details::Direct)));
    }));
    Some(message)
}

/// The open questions of several tasks as text.
pub fn questions<'a>(states: impl IntoIterator<Item = &'a State>) -> String {
    let open: Vec<Call<'_>> = states.into_iter().flat_map(asked).collect();
    question(&open)
}

fn asked(state: &State) -> impl Iterator<Item = Call<'_>> {
    state.asked().map(|call| Call { call, status: CallStatus::AwaitingApproval })
}

/// The part of an unfinished text that has been sent in pieces: all but its last character.
pub fn sent(text: &str) -> &str {
    text.char_indices().next_back().map_or("", |(last, _)| &text[..last])
}

/// A status that no stream ends with, with or without a text.
fn working<'a>(update: &Update<'a>, text: Option<Cow<'a, str>>) -> Frame<'a> {
    Frame::Status(StatusUpdate {
        state: TaskState::Working,
        at: update.at,
        message: text.map(|text| AgentMessage::new(update.seq, Piece::Text(text))),
        metadata: NO_METADATA.to_vec(),
        closing: None,
    })
}

/// The piece that can be sent after `text` has been appended to the answer.
fn next_piece<'a>(state: &State, text: &str) -> Option<Frame<'a>> {
    let whole = &state.utterance.text;
    let before = sent(&whole[..whole.len() - text.len()]);
    let next = &sent(whole)[before.len()..];
    let artifact = artifact(state, state.turn.answers_with_text + 1, next);
    let update = ArtifactUpdate { artifact, append: !before.is_empty(), last: false };
    (!next.is_empty()).then_some(Frame::Artifact(update))
}

/// The artifact of the answer with this number in the turn.
fn artifact<'a>(state: &State, number: usize, text: &str) -> Cow<'a, Artifact> {
    Cow::Owned(answer(state.turn.number as usize, number, text.to_owned()))
}

/// Every open question as text, and how to answer.
fn question(open: &[Call<'_>]) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for call in open {
        let asked = call.question().map(|question| wording(*call, question)).unwrap_or_default();
        let name = if open.len() > 1 { format!("Call {}: ", call.call.id()) } else { String::new() };
        paragraphs.push(format!("{name}{}\n{asked}", call.label()));
        paragraphs.push(how_to_answer(*call));
    }
    if let [first, _, ..] = open {
        let id = first.call.id();
        paragraphs.push(format!("Several answers are needed. Begin each with the id of its call: {id} yes"));
    }
    paragraphs.join("\n\n")
}

fn how_to_answer(call: Call<'_>) -> String {
    match call.question() {
        Some(Question::AskUser { questions, .. }) => match questions.len() {
            1 => "Reply with your answer, or with cancel.".into(),
            _ => "Reply with one line for each question, or with cancel.".into(),
        },
        Some(Question::Edit { .. } | Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. }) | None => {
            let numbered = (1..).zip(call.offers()).map(|(number, offer)| format!("{number} {}", offer.name));
            format!("Reply with yes, no, or one of: {}", numbered.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A question as text.
fn wording(call: Call<'_>, question: &Question) -> String {
    match question {
        Question::Exec { title: _, command, programs: _, dir, warnings, needs_approval: _, edits: _ } => {
            let mut lines = vec![format!("Run this command?\n{command}")];
            lines.extend(dir.iter().map(|dir| format!("In {dir}.")));
            lines.extend(warnings.iter().cloned());
            lines.join("\n")
        }
        Question::Edit { title: _, file_name: _, file_path, diff, old: _, new: _ } => {
            format!("Change {file_path}?\n{}", diff.as_str())
        }
        Question::Mcp { .. } => mcp_call(question).unwrap_or_default(),
        Question::Info { title: _, prompt, urls } => prompt_and_urls(prompt, urls),
        Question::AskUser { title, questions } => call.listed(title, questions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::{View, Writer};
    use crate::a2a::sample::{self, answers, approved_command, begins, fold, says, succeeds};
    use crate::a2a::{self, SnapshotOptions};
    use crate::task::log::answer::{Answer, Finish};
    use crate::task::log::event::{Created, End, Event, Final, Lifecycle, Tries};
    use crate::task::spec::{Inquiry, InquiryKind};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const VIEW: View = View::A2a(Writer::V03, Profile::Plain, Outputs::TEXT);
    const DATA: View = View::A2a(Writer::V03, Profile::Plain, Outputs { data: true, pieces: false });
    const PIECES: View = View::A2a(Writer::V03, Profile::Plain, Outputs { data: false, pieces: true });

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    fn shown(view: View, events: Vec<Event>) -> Vec<Value> {
        fold(events)
            .iter()
            .filter_map(|(record, state)| a2a::event(view, state, record, &sample::tools()))
            .map(|body| value(&body.open))
            .collect()
    }

    /// A line about each frame: the state and the text of a status, or the artifact with its flags.
    fn summaries(frames: &[Value]) -> Vec<String> {
        let word = |value: &Value, name: &str| {
            if value[name] == true { format!(" {name}") } else { String::new() }
        };
        frames
            .iter()
            .map(|frame| match frame["kind"].as_str() {
                Some("status-update") => {
                    let text = &frame["status"]["message"]["parts"][0]["text"];
                    let text = text.as_str().unwrap_or_default().lines().next();
                    let state = frame["status"]["state"].as_str().unwrap();
                    format!("{state}: {}", text.unwrap_or_default())
                }
                _ => format!(
                    "{} {}{}{}",
                    frame["artifact"]["artifactId"].as_str().unwrap(),
                    frame["artifact"]["parts"][0]["text"],
                    word(frame, "append"),
                    word(frame, "lastChunk"),
                ),
            })
            .collect()
    }

    /// The same events in a task that a plain client created.
    fn in_plain_task(lifecycle: Lifecycle, mut events: Vec<Event>) -> Vec<Event> {
        let created = sample::state().created;
        events[0] =
            Event::Created(Arc::new(Created { profile: Profile::Plain, lifecycle, ..created.as_ref().clone() }));
        events
    }

    #[test]
    fn an_approved_command() {
        let first = ["working: ", r#"answer-1 "Let me see." lastChunk"#, "input-required: Running make"];
        let second = [r#"answer-1.2 "It works." lastChunk"#, "completed: "];
        assert_eq!(summaries(&shown(VIEW, approved_command())), [&first[..], &second].concat());
        let own = in_plain_task(Lifecycle::Conversational, approved_command());
        assert_eq!(summaries(&shown(VIEW, own)).last().unwrap(), "input-required: ", "as the operator wants it");
        assert_eq!(
            summaries(&shown(PIECES, approved_command())),
            [
                "working: ",
                r#"answer-1 "Let me see""#,
                r#"answer-1 "." append lastChunk"#,
                "input-required: Running make",
                r#"answer-1.2 "It""#,
                r#"answer-1.2 " works" append"#,
                r#"answer-1.2 "." append lastChunk"#,
                "completed: ",
            ]
        );
    }

    #[test]
    fn an_answer_whole() {
        assert_eq!(
            shown(VIEW, approved_command())[1],
            json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": false, "lastChunk": true,
                "artifact": {"artifactId": "answer-1", "name": "answer", "parts": [{"kind": "text", "text": "Let me see."}]}})
        );
    }

    #[test]
    fn a_question_whole() {
        let how = "Running make\nRun this command?\nmake\n\nReply with yes, no, or one of: 1 Allow Once, 2 Always Allow, \
                   3 Reject";
        let call = json!({"tool_call_id": "call-1", "status": "PENDING", "tool_name": "run_shell_command",
            "description": "Running make", "input_parameters": {"command": "make"},
            "confirmation_request": {"execute_details": {"command": "make"}, "options": [
                {"id": "proceed_once", "name": "Allow Once"}, {"id": "proceed_always", "name": "Always Allow"},
                {"id": "cancel", "name": "Reject"}]}});
        let text = json!({"kind": "text", "text": how});
        let asked = |parts: Value| {
            json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
                "status": {"state": "input-required", "timestamp": "2026-03-01T09:30:00.133Z", "message": {
                    "kind": "message", "role": "agent", "messageId": "t-1-8", "taskId": "t-1", "contextId": "c-1",
                    "parts": parts, "metadata": {PLAIN: {"calls": [call]}}}},
                "final": false, "metadata": {}})
        };
        let words = asked(json!([text]));
        let data = asked(json!([text, {"kind": "data", "data": call}]));
        let folded = fold(approved_command());
        let (_, paused) = &folded[7];
        for (view, expected) in [(VIEW, &words), (DATA, &data)] {
            assert_eq!(&shown(view, approved_command())[2], expected);
            // The snapshot of the task has the question too.
            let task = value(&a2a::snapshot(view, paused, SnapshotOptions::ALL));
            assert_eq!(task["status"], expected["status"]);
        }
    }

    #[test]
    fn questions_in_words() {
        let inquiry = |question: &str| Inquiry {
            question: question.into(),
            header: "X".into(),
            kind: InquiryKind::YesNo,
            options: vec![],
            multi_select: false,
            placeholder: None,
        };
        let asks = |questions| Question::AskUser { title: "Questions".into(), questions };
        let words = "Reply with yes, no, or one of: 1 Allow Once, 2 Always Allow, 3 Reject";
        for (asked, expected) in [
            (
                asks(vec![inquiry("Now?")]),
                "What it does\nNow? (yes / no)\n\nReply with your answer, or with cancel.".to_owned(),
            ),
            (
                asks(vec![inquiry("Now?"), inquiry("Here?")]),
                "What it does\nNow? (yes / no)\nHere? (yes / no)\n\nReply with one line for each question, or with cancel."
                    .to_owned(),
            ),
            (
                sample::edit(),
                format!("What it does\nChange /w/a.txt?\n{}\n\n{words}", sample::DIFF),
            ),
            (
                Question::Info {
                    title: "Fetch".into(),
                    prompt: "Fetch it?".into(),
                    urls: vec!["https://x.test".into()],
                },
                format!("What it does\nFetch it?\nhttps://x.test\n\n{words}"),
            ),
            (
                sample::mcp(&["It changed."]),
                format!(
                    "What it does\n{}\n\nReply with yes, no, or one of: 1 Allow Once, 2 Always Allow Tool, 3 Always Allow Server, \
                     4 Reject",
                    sample::MCP_TEXT
                ),
            ),
            (
                Question::Exec {
                    title: "Run".into(),
                    command: "make".into(),
                    programs: vec![],
                    dir: Some("sub".into()),
                    warnings: vec!["Look twice.".into()],
                    needs_approval: None,
                    edits: vec![],
                },
                format!("What it does\nRun this command?\nmake\nIn sub.\nLook twice.\n\n{words}"),
            ),
        ] {
            let call = sample::call("x", json!({}), Some(asked));
            assert_eq!(question(&[Call { call: &call, status: CallStatus::AwaitingApproval }]), expected);
        }
    }

    #[test]
    fn several_questions_in_words() {
        let now = Inquiry {
            question: "Now?".into(),
            header: "X".into(),
            kind: InquiryKind::YesNo,
            options: vec![],
            multi_select: false,
            placeholder: None,
        };
        let asked = Question::AskUser { title: "Questions".into(), questions: vec![now] };
        let one = sample::call("x", json!({}), Some(asked));
        let mut two = one.clone();
        two.request.call = "call-2".into();
        let each = "What it does\nNow? (yes / no)\n\nReply with your answer, or with cancel.";
        assert_eq!(
            question(&[&one, &two].map(|call| Call { call, status: CallStatus::AwaitingApproval })),
            format!(
                "Call call-1: {each}\n\nCall call-2: {each}\n\n\
                 Several answers are needed. Begin each with the id of its call: call-1 yes"
            )
        );
    }

    #[test]
    fn only_notices_about_trouble_are_shown() {
        let tries = Tries { failed: 1, broken: 0, since: 0 };
        let reason = || "busy".to_owned();
        let mut events = vec![Event::Created(sample::state().created)];
        events.extend(begins(1));
        events.extend([
            Event::Thought { subject: "a".into(), description: "b".into() },
            Event::BackedOff { tries, delay_ms: 1500, reason: reason() },
            Event::Retried,
            Event::FellBack { model: "other".into(), reason: reason() },
            says("Hm"),
            Event::Cited { text: "[1]".into() },
            Event::Looped,
            Event::TurnEnded { turn: 1, end: End::Failed("It broke.".into()), by: None },
        ]);
        assert_eq!(
            summaries(&shown(VIEW, events)),
            [
                "working: ",
                "working: The model is asked again in 2 s: busy",
                "working: From now on other answers, because the model before it cannot be had: busy",
                "failed: It broke."
            ]
        );
    }

    /// A one-shot task completes only when its queued prompts have been answered; until then its state is `working`.
    #[test]
    fn queued_prompts_are_answered_first() {
        let ended = |turn, end| Event::TurnEnded { turn, end, by: None };
        let mut events = vec![Event::Created(sample::state().created)];
        let [first, second, third] = [1, 2, 3].map(begins);
        events.extend([&first[..], &second[..1], &third[..1]].concat());
        events.extend([says("a"), answers("a", vec![]), ended(1, End::Done), second[1].clone()]);
        events.extend([ended(2, End::Failed("It broke.".into())), third[1].clone()]);
        events.extend([says("c"), answers("c", vec![]), Event::Closed { state: Final::Completed, text: None }]);
        let first = ["working: ", r#"answer-1 "a" lastChunk"#, "working: "];
        let second = ["working: It broke.", "working: "];
        let third = [r#"answer-3 "c" lastChunk"#, "completed: "];
        let expected = [&first[..], &second, &third].concat();
        assert_eq!(summaries(&shown(VIEW, in_plain_task(Lifecycle::OneShot, events))), expected);
    }

    fn retracts() -> Event {
        Event::Retracted { reason: "broke".into() }
    }

    fn ends(turn: u32) -> Event {
        let end = End::Done;
        Event::TurnEnded { turn, end, by: None }
    }

    /// The second message of a turn, after a call that needed no approval.
    fn call_between(id: &str, text: &str) -> Vec<Event> {
        let (request, plan) = sample::shell(id, "make");
        let call = || id.into();
        vec![
            answers(text, vec![request]),
            Event::CallPlanned { call: call(), plan },
            Event::CallReady { call: call(), confinement: Default::default() },
            Event::CallStarted { call: call() },
            succeeds(id, "1"),
            Event::ResultsSent,
        ]
    }

    fn stories() -> Vec<Vec<Event>> {
        let mut long = approved_command();
        long.extend(begins(2));
        long.extend([says("a"), says("é\n"), retracts(), says("b"), says("c")]);
        long.extend(call_between("call-2", "bc"));
        long.extend([says("d"), retracts()]);
        long.extend([says("e"), answers("e", vec![]), ends(2)]);
        long.extend(begins(3));
        // A turn without text, and one with text only after its calls.
        long.extend([answers("", vec![]), ends(3)]);
        long.extend(begins(4));
        long.extend(call_between("call-4", ""));
        long.extend([says("f"), says("é"), says("ü"), answers("féü", vec![]), ends(4)]);
        let mut circling = vec![Event::Created(sample::state().created)];
        circling.extend(begins(1));
        let cut = match answers("x x", vec![]) {
            Event::Answered { answer } => Answer { finish: Finish::Repetition, ..answer.as_ref().clone() },
            other => panic!("{other:?}"),
        };
        circling.extend([says("x "), says("x"), Event::Answered { answer: Arc::new(cut) }]);
        circling.extend([Event::Nudged { text: "Stop.".into() }, says("y"), answers("y", vec![])]);
        circling.push(Event::Closed { state: Final::Completed, text: None });
        vec![approved_command(), long, circling]
    }

    /// Assembles artifacts from their updates, and compares them with the snapshot after every event.
    #[test]
    fn the_snapshot_has_the_artifacts_that_were_sent() {
        for (view, story) in [VIEW, PIECES].into_iter().flat_map(|view| stories().into_iter().map(move |s| (view, s))) {
            let mut put_together: BTreeMap<String, String> = BTreeMap::new();
            let mut closed: Vec<String> = Vec::new();
            let mut forgets: Option<State> = None;
            let mut retracted = false;
            for (record, state) in &fold(story) {
                // The pieces are the same when the state has forgotten the earlier conversation.
                let brief = forgets.take().map_or_else(
                    || state.clone(),
                    |mut brief| {
                        brief.forget_past();
                        brief.apply(record);
                        brief
                    },
                );
                let shown = |state| a2a::event(view, state, record, &sample::tools());
                assert_eq!(shown(&brief), shown(state), "{record:?}");
                forgets = Some(brief);
                if let Some(body) = a2a::event(view, state, record, &sample::tools()) {
                    let frame = value(&body.open);
                    let artifact = &frame["artifact"];
                    let id = artifact["artifactId"].as_str().unwrap_or_default();
                    if id.starts_with("answer-") {
                        assert!(!closed.contains(&id.to_owned()), "{id} continues after its end");
                        let whole = put_together.entry(id.to_owned()).or_default();
                        if frame["append"] == false {
                            whole.clear();
                        }
                        let text = artifact["parts"][0]["text"].as_str().unwrap();
                        assert_ne!(text, "", "no chunk is empty");
                        whole.push_str(text);
                        if frame["lastChunk"] == true {
                            closed.push(id.to_owned());
                        }
                        retracted = false;
                    }
                }
                // The next piece replaces what was retracted.
                retracted |= matches!(record.event, Event::Retracted { .. });
                if retracted {
                    continue;
                }
                let task = value(&a2a::snapshot(view, state, SnapshotOptions::ALL));
                let artifacts = task["artifacts"].as_array().unwrap();
                let snapshot: BTreeMap<String, String> = artifacts
                    .iter()
                    .map(|one| (&one["artifactId"], &one["parts"][0]["text"]))
                    .map(|(id, text)| (id.as_str().unwrap().into(), text.as_str().unwrap().into()))
                    .collect();
                assert_eq!(put_together, snapshot, "after {record:?}");
            }
            let answers = put_together.keys().cloned().collect::<Vec<_>>();
            assert_eq!(closed, answers, "every answer is closed");
        }
    }
}
