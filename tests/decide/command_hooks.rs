//! Reports of command hooks: their effects, and that they cannot allow anything.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::definitions::command_hook::{HookDecision, HookPoint, HookReport};
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::{End, Event};
use gemini_a2a::task::machine::decide::job;
use gemini_a2a::task::machine::job::{NoteBody, Work};
use gemini_a2a::task::machine::state::Item;
use gemini_a2a::task::policy::Mode;
use serde_json::json;
use std::sync::Arc;

fn report(point: HookPoint, decision: HookDecision) -> HookReport {
    HookReport {
        point,
        name: "guard".into(),
        call: None,
        decision,
        reason: "why".into(),
        text: String::new(),
        args: None,
        context: String::new(),
        stop: None,
        clear_context: false,
    }
}

fn ran(report: &HookReport) -> (NoteBody, Event) {
    (NoteBody::HookRan(report.clone()), Event::HookRan(Arc::new(report.clone())))
}

#[test]
fn rewritten_arguments_take_the_place_of_those_of_the_call() {
    let (e, s) = (edit(), shell());
    let args = json!({"for": "other"});
    let (body, event) = ran(&HookReport {
        call: Some(e.call.clone()),
        args: Some(args.clone()),
        ..report(HookPoint::BeforeTool, HookDecision::None)
    });
    let case = given(preparing()).when(note(4, body)).then(&[event], &[]).expect_settled();
    let other = Request { args: args.clone(), ..e.clone() };
    let case = case
        .when(note(4, prepared(&[other.clone(), s.clone()])))
        .then(&[planned(&e), planned(&s), asked(&e), asked(&s)], &[])
        .settle();
    assert_eq!(case.state.call(&e.call).expect("a call").request.args, args);
    let answer = case.state.history.iter().find_map(|item| match &**item {
        Item::Answered(answer) => answer.calls().next().cloned(),
        _ => None,
    });
    assert_eq!(answer, Some(e), "what the model said stays");
}

#[test]
fn a_hook_can_require_approval_in_every_mode_and_cannot_allow_a_call() {
    let mut start = preparing();
    start[0] = created_in_mode(Mode::Yolo, false);
    for (decision, asks) in [(HookDecision::None, false), (HookDecision::Ask, true)] {
        let (e, s) = (edit(), shell());
        let (body, event) = ran(&HookReport { call: Some(e.call.clone()), ..report(HookPoint::BeforeTool, decision) });
        let case = given(start.clone()).when(note(4, body)).then(&[event], &[]);
        let first = if asks { asked(&e) } else { ready(&e) };
        case.when(note(4, prepared(&[e.clone(), s.clone()]))).then(&[planned(&e), planned(&s), first, ready(&s)], &[]);
    }
    let (body, event) =
        ran(&HookReport { call: Some(edit().call), ..report(HookPoint::BeforeTool, HookDecision::None) });
    let (e, s) = (edit(), shell());
    given(preparing())
        .when(note(4, body))
        .then(&[event], &[])
        .when(note(4, prepared(&[e.clone(), s.clone()])))
        .then(&[planned(&e), planned(&s), asked(&e), asked(&s)], &[]);
}

#[test]
fn the_hook_report_of_an_unknown_job_changes_nothing() {
    let late = HookReport { stop: Some("enough".into()), ..report(HookPoint::AfterTool, HookDecision::Deny) };
    given(preparing()).when(note(2, NoteBody::HookRan(late))).ignored();
    // A notification hook belongs to no job, and its report is recorded.
    let (body, event) = ran(&report(HookPoint::Notification, HookDecision::None));
    given(waiting()).when(note(0, body)).then(&[event], &[]);
}

#[test]
fn a_hook_keeps_a_turn_going_at_most_three_times() {
    let (body, event) = ran(&report(HookPoint::AfterAgent, HookDecision::Deny));
    let mut case = given(thinking());
    let mut at = 3;
    for _ in 0..3 {
        case = case
            .when(note(at, body.clone()))
            .then(std::slice::from_ref(&event), &[])
            .when(note(at, model_answers(&[])))
            .then(&[answered(&[])], &[])
            .next(&[Event::Reprompted { text: "why".into() }], &[think(at + 3)])
            .expect_settled();
        at += 3;
    }
    let Some(Work::Think(asks)) = job(&case.state, case.state.seq, &case.limits).map(|job| job.work) else {
        panic!("the model is asked");
    };
    assert_eq!((asks.reprompts, asks.hooks_pending), (3, false));
    case.when(note(at, body))
        .then(&[event], &[])
        .when(note(at, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[]);
}

#[test]
fn a_hook_ends_a_turn_after_the_calls() {
    let stop = HookReport { stop: Some("enough".into()), ..report(HookPoint::AfterTool, HookDecision::None) };
    let (body, event) = ran(&stop);
    let r = read();
    let start = log(thinking(), &[answered(std::slice::from_ref(&r)), planned(&r), ready(&r), started(&r)]);
    given(start)
        .when(note(7, body))
        .then(&[event], &[])
        .when(note(7, run_ends(success())))
        .then(&[ended(&r, success())], &[])
        .next(&[turn_ended(1, End::Failed("A hook ended the turn: enough".into()))], &[])
        .expect_settled();
}

#[test]
fn hooks_before_a_turn_run_once_and_add_to_the_conversation() {
    let begins = |state| match job(state, state.seq, &gemini_a2a::limits::Limits::default()).map(|job| job.work) {
        Some(Work::Think(think)) => think.hooks_pending,
        other => panic!("{other:?}"),
    };
    let case = given(thinking());
    assert!(begins(&case.state));
    let (body, event) =
        ran(&HookReport { context: "rules".into(), ..report(HookPoint::BeforeAgent, HookDecision::None) });
    let case = case.when(note(3, body)).then(&[event], &[]);
    assert_eq!(case.state.history.last().map(|item| (**item).clone()), Some(Item::Nudge("rules".into())));
    assert!(case.state.turn.hooks.began);
}
