//! Time limits of questions, turns and idle tasks.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::limits::Times;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::{End, Event, Final, Outcome};
use gemini_a2a::task::machine::decide::{Input, Refusal, deadline};
use gemini_a2a::task::machine::state::TaskState;
use gemini_a2a::task::message::Source;
use gemini_a2a::task::spec::{Choice, Ending, ErrorKind};

const SECOND: u64 = 1_000;

fn with_time_limit(start: Vec<Event>, change: impl FnOnce(&mut Times)) -> Case {
    given(start).with_limits(|limits| change(&mut limits.times))
}

fn timed_out(request: &Request) -> [Event; 2] {
    let no = Event::CallAnswered {
        call: request.call.clone(),
        choice: Choice::Cancel,
        by: Source::clock(),
        edited: None,
        answers: None,
        rules: vec![],
    };
    let reason = "Nobody answered the question in time, so the call was cancelled.";
    [no, ended(request, Ending::cancelled(reason))]
}

/// A limit counts from what the log says, to the millisecond; before it nothing happens.
#[test]
fn an_unanswered_question_times_out() {
    let case = || with_time_limit(waiting(), |times| times.answer_ms = Some(SECOND));
    let (e, s) = (edit(), shell());
    let both = [timed_out(&e), timed_out(&s)].concat();
    let due = deadline(&case().state, &case().limits.times).expect("a deadline");
    let asked: Vec<u64> = case().state.asked().map(|call| call.asked_at).collect();
    assert_eq!(asked.iter().min().map(|at| at + SECOND), Some(due));
    case().when(Input::Time(due - 1)).ignored();
    let late = case().when(Input::Time(due + SECOND)).then(&both, &[]);
    let late = late.next(&[turn_ended(1, End::Refused)], &[]).expect_settled();
    assert_eq!(late.state.status.state, TaskState::InputRequired);
    assert_eq!(deadline(&late.state, &late.limits.times), None);
    // An answer after the time limit is refused.
    late.when(pick(&e, "proceed_once")).refused(Refusal::NotPending(e.call.clone()));
    // There is no time limit by default.
    given(waiting()).when(Input::Time(u64::MAX)).ignored();
}

#[test]
fn a_question_timeout_does_not_stop_running_calls() {
    let case = with_time_limit(editing(), |times| times.answer_ms = Some(SECOND));
    let case = case.when(Input::Time(NOON + SECOND * 9)).then(&timed_out(&shell()), &[]).expect_settled();
    assert_eq!(case.state.status.state, TaskState::Working);
    case.when(note(12, run_ends(success())))
        .then(&[ended(&edit(), success())], &[])
        .next(&[Event::ResultsSent], &[think(16)]);
}

#[test]
fn an_interrupted_turn_waits_for_the_user_even_after_a_timeout() {
    let interrupted = Event::Interrupted { text: RESTARTED.into() };
    let late = || Input::Time(NOON + SECOND * 9);
    let mut events = timed_out(&shell()).to_vec();
    events.push(interrupted);
    let case = with_time_limit(suspended(), |times| times.answer_ms = Some(SECOND))
        .when(late())
        .then(&events, &[])
        .expect_settled();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    case.when(late()).ignored();
    // No call waits any more: the turn ends.
    let e = edit();
    let cut_off = ended(&e, failure(ErrorKind::Interrupted, "It was cut off."));
    let start = [
        chosen(&e, Choice::ProceedOnce),
        ready(&e),
        started(&e),
        cut_off,
        Event::Interrupted { text: RESTARTED.into() },
    ];
    let mut events = timed_out(&shell()).to_vec();
    events.push(turn_ended(1, End::Interrupted(RESTARTED.into())));
    with_time_limit(log(waiting(), &start), |times| times.answer_ms = Some(SECOND))
        .when(late())
        .then(&events, &[])
        .expect_settled();
}

#[test]
fn a_restart_distinguishes_a_timeout_from_a_users_answer() {
    let [no, cancelled] = timed_out(&edit());
    given(log(waiting(), &[no]))
        .when(Input::Interrupted)
        .then(&[cancelled, Event::Interrupted { text: RESTARTED.into() }], &[]);
}

#[test]
fn a_turn_that_takes_too_long_is_stopped_in_every_phase() {
    let text = "The turn took longer than 1s and was stopped.";
    let over = || turn_ended(1, End::Failed(text.into()));
    let cut = Ending::cancelled("The turn took too long.");
    let (e, s) = (edit(), shell());
    let both = || vec![ended(&e, cut.clone()), ended(&s, cut.clone()), over()];
    let ends: [(Vec<Event>, &[Expected]); 12] = [
        (vec![], &[]),
        (vec![over()], &[stop(3)]),
        // The task of a command ends with its only turn.
        (vec![closed(Final::Failed, text)], &[stop(4)]),
        (vec![over()], &[]),
        (vec![over()], &[stop(4)]),
        (both(), &[]),
        (both(), &[stop(12)]),
        (both(), &[stop(13)]),
        (both(), &[]),
        (vec![], &[]),
        (vec![], &[]),
        (vec![], &[]),
    ];
    for ((phase, start), (events, effects)) in every_phase().into_iter().zip(ends) {
        let limit = |times: &mut Times| times.turn_ms = Some(SECOND);
        let due = with_time_limit(start.clone(), limit);
        let due = deadline(&due.state, &due.limits.times);
        assert_eq!(due.is_some(), !events.is_empty(), "{phase}");
        let at = due.unwrap_or(NOON + SECOND);
        with_time_limit(start.clone(), limit).when(Input::Time(at - 1)).ignored();
        let case = with_time_limit(start, limit).when(Input::Time(at)).then(&events, effects).expect_settled();
        assert!(!case.state.paused && !case.state.suspended, "{phase}");
    }
    with_time_limit(one_shot(thinking()), |times| times.turn_ms = Some(SECOND))
        .when(Input::Time(NOON + SECOND * 2))
        .then(&[closed(Final::Failed, text)], &[stop(3)]);
}

#[test]
fn an_idle_task_is_closed_after_its_time_limit() {
    let text = "Nobody went on with this task for 24h.";
    let day = 24 * 3_600 * SECOND;
    let asked =
        log(thinking(), &[concluded(Outcome::Ask("Which?".into())), turn_ended(1, End::Asked("Which?".into()))]);
    for (start, state) in [
        (fresh(), Final::Canceled),
        (idle(), Final::Completed),
        (asked, Final::Completed),
        (unauthorized(), Final::Canceled),
    ] {
        let at = given(start.clone()).state.status.at + day;
        let limited = |start| with_time_limit(start, |times| times.idle_ms = Some(day));
        limited(start.clone()).when(Input::Time(at - 1)).ignored();
        given(start.clone()).when(Input::Time(u64::MAX)).ignored();
        let case = limited(start).when(Input::Time(at)).then(&[closed(state, text)], &[]).expect_settled();
        case.when(Input::Time(u64::MAX)).ignored();
    }
    // A queued prompt counts as a new prompt.
    let mut queued = with_time_limit(idle(), |times| times.idle_ms = Some(day));
    queued.record(prompted(2, "and?"));
    queued.when(Input::Time(u64::MAX)).ignored();
}
