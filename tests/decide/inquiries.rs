//! Questions that MCP servers ask while a call runs: who is asked, which answers count, and what ends a question.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::form::{Field, FieldKind, Inquired, Reply, ReplyAction, Values, Wrong};
use gemini_a2a::task::log::event::{End, Event};
use gemini_a2a::task::machine::decide::{Decision, Effect, Input, Refusal, deadline};
use gemini_a2a::task::machine::job::{NoteBody, Pick, Said};
use gemini_a2a::task::machine::state::TaskState;
use gemini_a2a::task::message::{Part, Source};
use gemini_a2a::task::spec::{Choice, ErrorKind, Question};
use serde_json::{Value, json};
use std::sync::Arc;

/// The job of the call.
const JOB: u64 = 9;

fn inquired(nr: u32) -> Inquired {
    let field = Field {
        name: "count".into(),
        title: "Count".into(),
        description: String::new(),
        required: true,
        default: Value::Null,
        kind: FieldKind::Number { integer: true, least: None, most: Some(9.0) },
    };
    let questions = vec![field.inquiry()];
    let question = Question::AskUser { title: "x asks: How many?".into(), questions };
    Inquired { nr, question, fields: vec![field], server: "x".into() }
}

fn asks(nr: u32) -> Event {
    Event::CallInquired { call: shell().call, inquired: Arc::new(inquired(nr)) }
}

fn replied(action: ReplyAction, by: Source) -> Event {
    let fields = if action == ReplyAction::Accept { vec!["count".to_owned()] } else { vec![] };
    Event::CallReplied { call: shell().call, nr: 1, action, fields, by }
}

fn answers(seen: Option<Seq>, option: &str, count: &str) -> Pick {
    let answers = Some(Arc::new([("count".to_owned(), count.to_owned())].into()));
    Pick { call: shell().call, option: option.into(), edited: None, answers, seen }
}

fn says(pick: Pick) -> Input {
    Input::Say { said: Said::new(message(""), vec![pick]), by: bob() }
}

fn count_of_seven() -> Reply {
    Reply::Accept(Values(json!({"count": 7}).as_object().expect("an object").clone()))
}

fn reply(reply: Reply) -> Effect {
    Effect::Reply { job: Seq(JOB), nr: 1, reply }
}

fn of_server() -> Source {
    Source::new("x", "mcp")
}

fn running() -> Case {
    let s = shell();
    let yes = chosen(&s, Choice::ProceedOnce);
    given(log(thinking(), &[answered(std::slice::from_ref(&s)), planned(&s), asked(&s), yes, ready(&s), started(&s)]))
}

/// A task that waits for the answer to a question of a call's server.
fn open() -> Case {
    let case = running();
    assert_eq!(case.state.seq, Seq(JOB));
    case.when(note(JOB, NoteBody::Inquired(inquired(1)))).then(&[asks(1)], &[]).next(&[Event::Paused], &[])
}

fn decided(case: &Case, input: Input) -> Decision {
    case.decide(input).expect("it is taken")
}

#[test]
fn a_task_whose_only_call_asks_waits_for_input_and_goes_on_with_the_answer() {
    let case = open();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    let decision = decided(&case, says(answers(None, "proceed_once", "7")));
    assert_eq!(decision.events, [replied(ReplyAction::Accept, bob())]);
    assert_eq!(decision.effects, [reply(count_of_seven())]);
    let case = case.record_all(&decision.events).expect_settled();
    assert_eq!(case.state.status.state, TaskState::Working);
    assert_eq!(case.state.asked().count(), 0);
    case.when(note(JOB, run_ends(success())))
        .then(&[ended(&shell(), success())], &[])
        .next(&[Event::ResultsSent], &[think(14)]);
}

#[test]
fn wrong_and_late_answers_change_nothing() {
    let case = open();
    let wrong = |why: &str| Refusal::WrongAnswer(Wrong { field: "count".into(), why: why.into() });
    let refusal = |pick| case.decide(says(pick)).expect_err("it is refused");
    assert_eq!(refusal(answers(None, "proceed_once", "10")), wrong("must be at most 9"));
    assert_eq!(refusal(answers(None, "proceed_once", " ")), wrong("must be answered"));
    let offered = vec!["proceed_once", "cancel"];
    let unknown = Refusal::UnknownOption { call: shell().call, offered };
    assert_eq!(refusal(answers(None, "proceed_always", "7")), unknown);
    assert_eq!(refusal(answers(Some(Seq(JOB)), "proceed_once", "7")), Refusal::PlannedAgain(shell().call));
    let answered = case.clone().record_all(&decided(&case, says(answers(Some(Seq(JOB + 1)), "cancel", ""))).events);
    let late = answered.decide(says(answers(None, "proceed_once", "7"))).expect_err("it is late");
    assert_eq!(late, Refusal::NotPending(shell().call));
}

#[test]
fn a_refusal_declines_and_a_timeout_cancels() {
    let case = open();
    let decision = decided(&case, says(answers(None, "cancel", "7")));
    assert_eq!(decision.events, [replied(ReplyAction::Decline, bob())]);
    assert_eq!(decision.effects, [reply(Reply::Decline)]);
    let case = case.with_limits(|limits| limits.times.answer_ms = Some(1_000));
    let due = deadline(&case.state, &case.limits.times).expect("a deadline");
    case.clone().when(Input::Time(due - 1)).ignored();
    let decision = decided(&case, Input::Time(due));
    assert_eq!(decision.events, [replied(ReplyAction::Cancel, Source::clock())]);
    assert_eq!(decision.effects, [reply(Reply::Cancel)]);
}

#[test]
fn the_server_may_withdraw_its_question_or_end_the_call() {
    let withdrawn = || replied(ReplyAction::Cancel, of_server());
    open().when(note(JOB, NoteBody::Withdrawn { nr: 2 })).ignored();
    open().when(note(JOB, NoteBody::Withdrawn { nr: 1 })).then(&[withdrawn()], &[]).expect_settled();
    let ended_with = [withdrawn(), ended(&shell(), success())];
    open().when(note(JOB, run_ends(success()))).then(&ended_with, &[]).next(&[Event::ResultsSent], &[think(14)]);
    running().when(note(JOB, NoteBody::Withdrawn { nr: 1 })).ignored();
}

#[test]
fn nobody_is_asked_where_nobody_can_answer() {
    let alone = running().with_policy(|policy| policy.ask_nobody());
    let decision = decided(&alone, note(JOB, NoteBody::Inquired(inquired(1))));
    assert_eq!((decision.events, decision.effects), (vec![], vec![reply(Reply::Cancel)]));
}

#[test]
fn check_66_a_restart_interrupts_a_call_whose_server_asks() {
    let message =
        "The server was stopped while this call was running. It may have had effects; look before you run it again.";
    let cut_off = ended(&shell(), failure(ErrorKind::Interrupted, message));
    let case = open()
        .when(Input::Interrupted)
        .then(&[cut_off, turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .expect_settled();
    assert_eq!(case.state.asked().count(), 0);
    case.when(says(answers(None, "proceed_once", "7"))).refused(Refusal::NotPending(shell().call));
}

#[test]
fn stopping_the_turn_stops_the_call() {
    let decision = decided(&open(), Input::Abort { by: ann() });
    assert!(decision.effects.contains(&Effect::Stop { job: Seq(JOB) }), "{decision:?}");
    assert!(decision.events.iter().any(|event| matches!(event, Event::CallEnded { .. })));
}

/// A message may contain a prompt too. The values of its answers are removed before the prompt is recorded.
#[test]
fn check_62_the_values_in_a_message_are_not_recorded() {
    let mut prompt = (*message("go on")).clone();
    prompt.parts.push(Part::data(json!({"callId": "c", "outcome": "proceed_once", "answers": {"count": "7"}})));
    let said = Said::new(Arc::new(prompt), vec![answers(None, "proceed_once", "7")]);
    let decision = decided(&open(), Input::Say { said, by: bob() });
    assert_eq!(decision.effects, [reply(count_of_seven())]);
    let recorded = serde_json::to_string(&decision.events).expect("JSON");
    assert!(recorded.contains("go on") && !recorded.contains("answers"), "{recorded}");
}
