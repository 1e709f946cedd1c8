//! The plain projection: a task for clients that know A2A and nothing of tools. What the agent says is the artifact
//! `answer-<turn>`, in pieces; calls are a line of text when they begin and end; what a call prints is an artifact of its own.
//! Thoughts, sources and the steps before an answer are not shown.
//!
//! The pieces of an answer, joined as `append` says, are the artifact of the task's snapshot: messages of one turn are separated by
//! a line break, and retracted text is replaced. Only a sentence that the end of its turn cuts off is in the stream and in no
//! snapshot. The piece that closes an answer is empty, because only afterwards it is known to be the last.
//!
//! A question is asked in words, with the ways to answer; the call itself is beside it as data, for clients that answer with data.

use crate::a2a::dialect::Outputs;
use crate::a2a::encodings::object::object;
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Frame, Piece, StatusUpdate};
use crate::a2a::views::call::{Call, listed, prompt_and_urls};
use crate::a2a::views::coder::{output, write_answered_by};
use crate::a2a::views::devtool_call;
use crate::a2a::views::snapshot::answer;
use crate::a2a::views::update::{Change, Step, Update, status_message};
use crate::a2a::words::CallStatus;
use crate::base::id::Seq;
use crate::task::log::answer::{Answer, Finish};
use crate::task::machine::state::State;
use crate::task::spec::{Ending, Question};
use std::borrow::Cow;

/// No metadata: there is nothing in it that every client understands.
const NOTHING: &[u8] = b"{}";

/// None: clients are not shown the update.
pub fn frame<'a>(update: &Update<'a>, outputs: Outputs) -> Option<Frame<'a>> {
    let state = update.state;
    match update.change {
        Change::Working => {
            Some(Frame::Status(StatusUpdate { message: None, closing: None, ..present(state, outputs) }))
        }
        Change::Paused | Change::Stopped => Some(Frame::Status(present(state, outputs))),
        Change::Text { text, since } => Some(said(update, text, since)),
        Change::Retracted { .. } => Some(Frame::Artifact(piece(state, state.turn.spoken.join("\n")))),
        Change::Answered(answer) => finished(state, answer),
        Change::Call { call, step } => match step {
            Step::Started => Some(news(update, call, format!("Started: {}", call.label()))),
            Step::Printed { text, .. } => Some(output(call.call, text)),
            Step::Ended => Some(news(update, call, ended(call)?)),
            Step::Planned | Step::Asked | Step::Answered | Step::AllowedByRule | Step::AllowedByAnswer => None,
        },
        Change::Artifact(ref artifact) => Some(Frame::Artifact(artifact.clone())),
        Change::Created
        | Change::Prompted { .. }
        | Change::ResultsSent
        | Change::Thought { .. }
        | Change::Citation(_)
        | Change::Notice { .. } => None,
    }
}

/// The status as last announced, in a form that a stream may end with.
pub fn present(state: &State, outputs: Outputs) -> StatusUpdate<'_> {
    StatusUpdate {
        state: state.status.state,
        at: state.status.at,
        message: message(state, outputs),
        metadata: NOTHING.to_vec(),
        closing: Some(NOTHING.to_vec()),
    }
}

/// What the agent says about the present status: its text, what is asked and how to answer, and the calls themselves.
pub fn message(state: &State, outputs: Outputs) -> Option<AgentMessage<'_>> {
    let open: Vec<Call<'_>> = state.asked().map(|call| Call { call, status: CallStatus::AwaitingApproval }).collect();
    let asked = (!open.is_empty()).then(|| Piece::Text(question(&open).into()));
    let data = open.iter().filter(|_| outputs == Outputs::Any).map(|call| Piece::Data(devtool_call::encode(*call)));
    status_message(state, asked.into_iter().chain(data))
}

/// The next piece of what the agent says; `since` is the event with which its message began.
fn said<'a>(update: &Update<'_>, text: &str, since: Seq) -> Frame<'a> {
    let begins = since == update.seq;
    let is_first = update.state.turn.spoken.is_empty();
    let text = if begins && !is_first { format!("\n{text}") } else { text.to_owned() };
    Frame::Artifact(ArtifactUpdate { append: !(begins && is_first), ..piece(update.state, text) })
}

/// The answer is whole if the turn has nothing more to do.
fn finished<'a>(state: &State, answer: &Answer) -> Option<Frame<'a>> {
    let over = !answer.has_calls() && answer.finish != Finish::Repetition;
    let last = || ArtifactUpdate { append: true, last: true, ..piece(state, String::new()) };
    (over && !state.turn.spoken.is_empty()).then(|| Frame::Artifact(last()))
}

/// A piece of the answer that replaces what was sent of it before.
fn piece<'a>(state: &State, text: String) -> ArtifactUpdate<'a> {
    ArtifactUpdate { artifact: Cow::Owned(answer(state.turn.number as usize, text)), append: false, last: false }
}

fn ended(call: Call<'_>) -> Option<String> {
    let label = call.label();
    Some(match call.ending()? {
        Ending::Success { .. } => format!("Finished: {label}"),
        Ending::Error { error } => {
            format!("Failed: {label}: {}", error.message.lines().next().unwrap_or_default())
        }
        Ending::Cancelled { .. } => format!("Cancelled: {label}"),
    })
}

/// A line about a call.
fn news<'a>(update: &Update<'a>, call: Call<'_>, text: String) -> Frame<'a> {
    Frame::Status(StatusUpdate {
        state: update.state.status.state,
        at: update.at,
        message: Some(AgentMessage::new(update.seq, Piece::Text(text.into()))),
        metadata: object(|o| write_answered_by(o, call.call.decided_by())),
        closing: None,
    })
}

/// Every open question as text, and how to answer.
fn question(open: &[Call<'_>]) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for call in open {
        let asked = call.question().map(wording).unwrap_or_default();
        paragraphs.push(format!("{}\n{asked}", call.label()));
        let options: Vec<String> = call.offers().iter().map(|offer| format!("{} ({})", offer.id, offer.name)).collect();
        let options = options.join(", ");
        paragraphs.push(match open.len() {
            1 => alone(*call, &options),
            _ => format!("Call {}: {options}.", call.call.id()),
        });
    }
    if open.len() > 1 {
        let how = r#"Answer each with a data part: {"tool_call_id": "<call>", "selected_option_id": "<option>"}."#;
        paragraphs.push(how.into());
    }
    paragraphs.join("\n\n")
}

/// How the only open question is answered.
fn alone(call: Call<'_>, options: &str) -> String {
    match call.question() {
        Some(Question::AskUser { questions, .. }) => match questions.len() {
            1 => "Reply with your answer, or with cancel.".into(),
            _ => "Reply with one line for each question, or with cancel.".into(),
        },
        Some(Question::Edit { .. } | Question::Exec { .. } | Question::Info { .. }) | None => {
            format!("Reply with one of these words: {options}; yes and no will do.")
        }
    }
}

/// A question as text.
fn wording(question: &Question) -> String {
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
        Question::Info { title: _, prompt, urls } => prompt_and_urls(prompt, urls),
        Question::AskUser { title: _, questions } => listed(questions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::dialect::{View, Writer};
    use crate::a2a::sample::{self, answers, approved_command, begins, fold, says, succeeds};
    use crate::a2a::{self, Wanted};
    use crate::task::log::event::Profile;
    use crate::task::log::event::{End, Event, Final};
    use crate::task::spec::{ApprovalScope, Choice, ErrorKind, Inquiry, InquiryKind};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const VIEW: View = View::A2a(Writer::V03, Profile::Plain, Outputs::Any);
    const TEXT: View = View::A2a(Writer::V03, Profile::Plain, Outputs::Text);

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

    /// What clients go by: the state and the text of a status, or the artifact with its flags.
    fn told(frames: &[Value]) -> Vec<String> {
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

    #[test]
    fn an_approved_command() {
        assert_eq!(
            told(&shown(VIEW, approved_command())),
            [
                "working: ",
                r#"answer-1 "Let me see.""#,
                "input-required: Running make",
                "working: Started: Running make",
                r#"tool-call-1-output "1""#,
                "working: Finished: Running make",
                r#"answer-1 "\nIt " append"#,
                r#"answer-1 "works." append"#,
                r#"answer-1 "" append lastChunk"#,
                "input-required: ",
            ]
        );
    }

    #[test]
    fn a_piece_of_an_answer_whole() {
        let frames = shown(VIEW, approved_command());
        assert_eq!(
            frames[1],
            json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": false, "lastChunk": false,
                "artifact": {"artifactId": "answer-1", "name": "answer", "parts": [{"kind": "text", "text": "Let me see."}]}})
        );
    }

    #[test]
    fn a_question_and_the_start_after_it_whole() {
        let how = "Running make\nRun this command?\nmake\n\nReply with one of these words: proceed_once (Allow Once), \
                   proceed_always (Always Allow), cancel (Reject); yes and no will do.";
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
                    "parts": parts}},
                "final": false, "metadata": {}})
        };
        let frames = shown(VIEW, approved_command());
        assert_eq!(frames[2], asked(json!([text.clone(), {"kind": "data", "data": call}])));
        assert_eq!(
            frames[3],
            json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
                "status": {"state": "working", "timestamp": "2026-03-01T09:30:00.136Z", "message": {
                    "kind": "message", "role": "agent", "messageId": "t-1-11", "taskId": "t-1", "contextId": "c-1",
                    "parts": [{"kind": "text", "text": "Started: Running make"}]}},
                "final": false, "metadata": {"gemini-a2a": {"answered_by": {"client": "ada", "via": "a2a-1.0"}}}})
        );
        assert_eq!(shown(TEXT, approved_command())[2], asked(json!([text])));
        // A client that only reads the task sees the question too.
        let folded = fold(approved_command());
        let (_, paused) = &folded[7];
        for (view, frame) in [(VIEW, &frames[2]), (TEXT, &asked(json!([text])))] {
            let task = value(&a2a::snapshot(view, paused, Wanted::ALL));
            assert_eq!(task["status"], frame["status"]);
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
        let words = "Reply with one of these words: proceed_once (Allow Once), proceed_always (Always Allow), \
                     cancel (Reject); yes and no will do.";
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
        let one = sample::call("x", json!({}), Some(asks(vec![inquiry("Now?")])));
        let mut two = one.clone();
        two.request.call = "call-2".into();
        assert_eq!(
            question(&[&one, &two].map(|call| Call { call, status: CallStatus::AwaitingApproval })),
            "What it does\nNow? (yes / no)\n\nCall call-1: proceed_once (Answer), cancel (Dismiss).\n\n\
             What it does\nNow? (yes / no)\n\nCall call-2: proceed_once (Answer), cancel (Dismiss).\n\n\
             Answer each with a data part: {\"tool_call_id\": \"<call>\", \"selected_option_id\": \"<option>\"}."
        );
    }

    #[test]
    fn how_calls_end() {
        let ended = |ending: Ending| {
            let mut state = sample::state();
            state.calls = vec![sample::call("x", json!({}), None)];
            let ending = Arc::new(ending);
            state.calls[0].ending = Some(ending.clone());
            let call = "call-1".into();
            let record = sample::record(Event::CallEnded { call, ending });
            let body = a2a::event(VIEW, &state, &record, &sample::tools()).expect("shown");
            told(&[value(&body.open)]).remove(0)
        };
        let error = ErrorKind::ExecutionFailed.error("It broke.\nBadly.");
        assert_eq!(ended(Ending::Error { error }), "working: Failed: x: It broke.");
        let cancelled = Ending::cancelled("No.");
        assert_eq!(ended(cancelled), "working: Cancelled: x");
    }

    fn retracts() -> Event {
        Event::Retracted { reason: "broke".into() }
    }

    fn ends(turn: u32) -> Event {
        let end = End::Done;
        Event::TurnEnded { turn, end, by: None }
    }

    /// The second message of a turn, after a call that needed no approval.
    fn call_between(id: &str, said: &str) -> Vec<Event> {
        let (request, plan) = sample::shell(id, "make");
        let call = || id.into();
        vec![
            answers(said, vec![request]),
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
        // A turn that says nothing, and one that speaks only behind its calls.
        long.extend([answers("", vec![]), ends(3)]);
        long.extend(begins(4));
        long.extend(call_between("call-4", ""));
        long.extend([says("f"), answers("f", vec![]), ends(4)]);
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

    /// Puts artifacts together as their updates say, and holds them against the snapshot after every event.
    #[test]
    fn the_pieces_of_an_answer_are_the_artifact_of_the_snapshot() {
        for story in stories() {
            let mut put_together: BTreeMap<String, String> = BTreeMap::new();
            let mut closed: Vec<String> = Vec::new();
            let mut forgets: Option<State> = None;
            for (record, state) in &fold(story) {
                // Who does not remember the conversation is shown the same pieces.
                let brief = forgets.take().map_or_else(
                    || state.clone(),
                    |mut brief| {
                        brief.forget_past();
                        brief.apply(record);
                        brief
                    },
                );
                let shown = |state| a2a::event(VIEW, state, record, &sample::tools());
                assert_eq!(shown(&brief), shown(state), "{record:?}");
                forgets = Some(brief);
                if let Some(body) = a2a::event(VIEW, state, record, &sample::tools()) {
                    let frame = value(&body.open);
                    let artifact = &frame["artifact"];
                    let id = artifact["artifactId"].as_str().unwrap_or_default();
                    if id.starts_with("answer-") {
                        assert!(!closed.contains(&id.to_owned()), "{id} goes on behind its end");
                        let whole = put_together.entry(id.to_owned()).or_default();
                        if frame["append"] == false {
                            whole.clear();
                        }
                        whole.push_str(artifact["parts"][0]["text"].as_str().unwrap());
                        if frame["lastChunk"] == true {
                            closed.push(id.to_owned());
                        }
                    }
                }
                let task = value(&a2a::snapshot(VIEW, state, Wanted::ALL));
                let artifacts = task["artifacts"].as_array().unwrap();
                let snapshot: BTreeMap<String, String> = artifacts
                    .iter()
                    .map(|one| (&one["artifactId"], &one["parts"][0]["text"]))
                    .map(|(id, text)| (id.as_str().unwrap().into(), text.as_str().unwrap().into()))
                    .collect();
                let mut said = put_together.clone();
                said.retain(|_, text| !text.is_empty());
                assert_eq!(said, snapshot, "after {record:?}");
            }
            let said = put_together.keys().cloned().collect::<Vec<_>>();
            assert_eq!(closed, said, "every answer is closed");
        }
    }

    #[test]
    fn plain_clients_see_no_thoughts_and_citations() {
        let state = sample::state();
        let by = sample::source();
        for event in [
            Event::Thought { subject: "a".into(), description: "b".into() },
            Event::Cited { text: "[1]".into() },
            says(""),
            Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session },
            Event::CallAnswered {
                call: "call-1".into(),
                choice: Choice::Cancel,
                by,
                edited: None,
                answers: None,
                rules: vec![],
            },
        ] {
            let record = sample::record(event);
            assert_eq!(a2a::event(VIEW, &state, &record, &sample::tools()), None);
        }
    }
}
