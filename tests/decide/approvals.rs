//! A user's answers to questions about calls: approvals, rejections, edited content, and answers that come too late.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::{End, Event};
use gemini_a2a::task::machine::decide::{Gate, Refusal, job};
use gemini_a2a::task::machine::job::Work;
use gemini_a2a::task::machine::state::{CallResult, Item, Stage, TaskState};
use gemini_a2a::task::spec::{Answers, Choice, Ending};
use std::sync::Arc;

/// (5) (30) (31)
#[test]
fn an_approval_starts_the_call_and_the_task_continues() {
    let (e, s) = (edit(), shell());
    let case = given(waiting()).when(pick(&e, "proceed_once")).then(&[chosen(&e, Choice::ProceedOnce), ready(&e)], &[]);
    assert_eq!(case.state.status.state, TaskState::Working);
    assert_eq!(case.state.status.seq, Seq(10));
    let case = case.next(&[started(&e)], &[run(12, &e, Gate::Synced)]).expect_settled();
    let call = case.state.call(&e.call).expect("a call of the batch");
    assert_eq!(call.choice, Some(Choice::ProceedOnce));
    assert_eq!(call.answered_by, Some(ann()));
    assert_eq!(call.stage, Stage::Running { job: Seq(12) });
    assert_eq!(case.state.asked().map(|call| call.id()).collect::<Vec<_>>(), [&s.call]);
}

/// (6) A rejection does not cancel the task; (12) the other question stays open, and the pause is announced again.
#[test]
fn a_rejection_ends_its_call_only() {
    let (e, s) = (edit(), shell());
    given(waiting())
        .when(pick(&e, "cancel"))
        .then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[])
        .next(&[Event::Paused], &[])
        .expect_settled()
        .when(pick(&s, "proceed_once"))
        .then(&[chosen(&s, Choice::ProceedOnce), ready(&s)], &[])
        .next(&[started(&s)], &[run(15, &s, Gate::Synced)])
        .when(note(15, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .next(&[Event::ResultsSent], &[think(17)])
        .expect_settled();
}

/// (1) (3) The second answer comes while the first call runs; the results are sent after the end of both calls.
#[test]
fn two_questions_are_answered_one_after_the_other() {
    let (e, s) = (edit(), shell());
    given(editing())
        .when(pick(&s, "proceed_once"))
        .then(&[chosen(&s, Choice::ProceedOnce), ready(&s)], &[])
        .next(&[started(&s)], &[run(15, &s, Gate::Synced)])
        .expect_settled()
        .when(note(12, run_ends(success())))
        .then(&[ended(&e, success())], &[])
        .expect_settled()
        .when(note(15, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .next(&[Event::ResultsSent], &[think(18)])
        .expect_settled();
}

/// (12)
#[test]
fn two_questions_are_answered_differently_in_one_message_with_a_prompt() {
    let (e, s) = (edit(), shell());
    given(waiting())
        .when(prompt_and_pick("and hurry", &[(&s, "proceed_once"), (&e, "cancel")]))
        .then(
            &[
                chosen(&s, Choice::ProceedOnce),
                ready(&s),
                chosen(&e, Choice::Cancel),
                ended(&e, refused()),
                prompted(2, "and hurry"),
            ],
            &[],
        )
        .next(&[started(&s)], &[run(15, &s, Gate::Synced)])
        .expect_settled();
}

/// The user refused everything: the model is not asked to go on.
#[test]
fn a_turn_ends_when_every_call_was_rejected() {
    let (e, s) = (edit(), shell());
    let case = given(waiting())
        .when(prompt_and_pick("", &[(&e, "cancel"), (&s, "cancel")]))
        .then(
            &[chosen(&e, Choice::Cancel), ended(&e, refused()), chosen(&s, Choice::Cancel), ended(&s, refused())],
            &[],
        )
        .next(&[turn_ended(1, End::Refused)], &[])
        .expect_settled();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    let result = |request: Request| CallResult { request, ending: Arc::new(refused()) };
    assert_eq!(
        case.state.history.last().map(|item| (**item).clone()),
        Some(Item::Results(vec![result(e), result(s)])),
        "the next request must answer every call"
    );
}

#[test]
fn the_first_of_two_answers_counts_even_within_one_message() {
    let e = edit();
    let twice = [(&e, "cancel"), (&e, "proceed_once")];
    given(waiting()).when(prompt_and_pick("", &twice)).then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[]);
}

/// (16) A message with only a late answer is refused. Together with other content, a late answer is ignored.
#[test]
fn late_and_unknown_answers_are_refused() {
    let (e, s, unknown) = (edit(), shell(), call(EDIT, "x"));
    let not_pending = |request: &Request| Refusal::NotPending(request.call.clone());
    for start in [fresh(), thinking(), preparing(), editing(), replanning(), idle()] {
        let case = given(start);
        for request in [&e, &unknown] {
            let late = pick(request, "proceed_once");
            case.clone().when(late).refused(not_pending(request));
            // An unknown option makes no difference, because the call waits for no answer.
            let odd = pick(request, "whatever");
            case.clone().when(odd).refused(not_pending(request));
        }
    }
    given(editing()).when(prompt_and_pick("more", &[(&e, "cancel")])).then(&[prompted(2, "more")], &[]);
    given(editing())
        .when(prompt_and_pick("", &[(&e, "cancel"), (&s, "cancel")]))
        .then(&[chosen(&s, Choice::Cancel), ended(&s, refused())], &[])
        .expect_settled();
}

#[test]
fn an_option_that_is_not_on_offer_refuses_the_whole_message() {
    let (e, s) = (edit(), shell());
    let unknown =
        Refusal::UnknownOption { call: s.call.clone(), offered: vec!["proceed_once", "proceed_always", "cancel"] };
    for words in ["", "more"] {
        let picks = [(&e, "proceed_once"), (&s, "modify_with_editor")];
        given(waiting()).when(prompt_and_pick(words, &picks)).refused(unknown.clone());
    }
}

/// The run has exactly what the question showed: the model's arguments and the version of the file in the diff.
#[test]
fn an_approval_is_of_exactly_what_was_shown() {
    let (e, s) = (edit(), shell());
    let picks = [(&e, "proceed_always"), (&s, "proceed_once")];
    let mut case = given(waiting());
    let said = case.decide(prompt_and_pick("", &picks)).expect("on offer");
    for event in said.events {
        case.record(event);
    }
    for request in [&e, &s] {
        case.record(started(request));
        let job = job(&case.state, case.state.seq, &case.limits).expect("a job");
        let Work::Run(run) = job.work else {
            panic!("{:?}", job.work);
        };
        assert_eq!((&run.name, &run.args), (&request.name, &request.args));
        assert_eq!(run.base, plan(request).base);
        assert_eq!(run.edited, None);
    }
}

#[test]
fn edited_content_applies_to_edits_only() {
    let (e, s) = (edit(), shell());
    let answer = |request: &Request, edited: Option<&str>| Event::CallAnswered {
        call: request.call.clone(),
        choice: Choice::ProceedOnce,
        by: ann(),
        edited: edited.map(Arc::from),
        answers: None,
        rules: vec![],
    };
    let case = given(waiting())
        .when(pick_edited(&e, "proceed_once", "mine"))
        .then(&[answer(&e, Some("mine")), ready(&e)], &[])
        .next(&[started(&e)], &[run(12, &e, Gate::Synced)]);
    let Some(Work::Run(run)) = job(&case.state, Seq(12), &case.limits).map(|job| job.work) else {
        panic!("a run job");
    };
    assert_eq!(run.edited.as_deref(), Some("mine"));
    assert_eq!(run.base, plan(&e).base);
    assert_eq!((run.call, run.args), (e.call.clone(), e.args.clone()));
    given(waiting()).when(pick_edited(&s, "proceed_once", "mine")).then(&[answer(&s, None), ready(&s)], &[]);
}

#[test]
fn ask_user_always_asks_and_its_answers_reach_the_tool() {
    let (a, s) = (call(ASK, "a"), shell());
    let answers: Arc<Answers> = Arc::new([("0".to_owned(), "blue".to_owned())].into());
    let both = [a.clone(), s.clone()];
    // The tool is allowed by default, and the call asks nevertheless.
    let asking = given(log(thinking(), &[answered(&both)]))
        .when(note(4, prepared(&both)))
        .then(&[planned(&a), planned(&s), asked(&a), asked(&s)], &[]);
    let answer = |request: &Request, answers: Option<Arc<Answers>>| Event::CallAnswered {
        call: request.call.clone(),
        choice: Choice::ProceedOnce,
        by: ann(),
        edited: None,
        rules: vec![],
        answers,
    };
    let case = asking
        .clone()
        .when(pick_answering(&a, "proceed_once", answers.clone()))
        .then(&[answer(&a, Some(answers.clone())), ready(&a)], &[])
        .next(&[started(&a)], &[run(11, &a, Gate::Written)]);
    let Some(Work::Run(run)) = job(&case.state, Seq(11), &case.limits).map(|job| job.work) else {
        panic!("a run job");
    };
    assert_eq!(run.answers, Some(answers.clone()));
    // For other questions the answers are ignored.
    asking.clone().when(pick_answering(&s, "proceed_once", answers)).then(&[answer(&s, None), ready(&s)], &[]);
    asking
        .clone()
        .when(pick(&a, "proceed_always"))
        .refused(Refusal::UnknownOption { call: a.call.clone(), offered: vec!["proceed_once", "cancel"] });
    let dismissed = Ending::cancelled("The user dismissed the questions without answering them.");
    asking.when(pick(&a, "cancel")).then(&[chosen(&a, Choice::Cancel), ended(&a, dismissed)], &[]);
}
