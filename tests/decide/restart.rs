//! What a task does when its log is loaded after a restart of the server.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::{End, Event};
use gemini_a2a::task::machine::decide::{Gate, Input};
use gemini_a2a::task::machine::state::{CallResult, Item};
use gemini_a2a::task::spec::{Choice, ErrorKind};
use std::sync::Arc;

#[test]
fn a_restart_in_every_phase() {
    let interrupted = || turn_ended(1, End::Interrupted(RESTARTED.into()));
    let paused = || Event::Interrupted { text: RESTARTED.into() };
    let was_running = "The server was stopped while this call was running. It may have had effects; look \
               before you run it again.";
    let had_not_begun = "The server was stopped before this call had begun. Nothing was changed; it can \
                   be made again.";
    let cut_off = |message| ended(&edit(), failure(ErrorKind::Interrupted, message));
    let ends: [(&[Event], &[Expected]); 12] = [
        (&[], &[]),
        (&[interrupted()], &[]),
        (&[interrupted()], &[]),
        (&[], &[arm(4, 5_000)]),
        (&[interrupted()], &[]),
        // (37) Questions stay open.
        (&[], &[]),
        (&[cut_off(was_running), paused()], &[]),
        (&[cut_off(had_not_begun), paused()], &[]),
        (&[], &[]),
        (&[], &[]),
        (&[], &[]),
        (&[], &[]),
    ];
    for ((_, start), (events, effects)) in every_phase().into_iter().zip(ends) {
        given(start)
            .when(Input::Interrupted)
            .then(events, effects)
            .expect_settled()
            .when(Input::Interrupted)
            .then(&[], effects)
            .expect_settled();
    }
}

#[test]
fn a_restart_keeps_what_had_finished() {
    let (e, s) = (edit(), shell());
    let yes = |request: &Request| chosen(request, Choice::ProceedOnce);
    let start = [yes(&e), ready(&e), started(&e), ended(&e, success())];
    // Every call had ended, but the model had not been told.
    let case = given(log(log(waiting(), &start), &[yes(&s), ready(&s), started(&s), ended(&s, success())]))
        .when(Input::Interrupted)
        .then(&[turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .expect_settled();
    let result = |request: Request| CallResult { request, ending: Arc::new(success()) };
    assert_eq!(case.state.history.last().map(|item| (**item).clone()), Some(Item::Results(vec![result(e), result(s)])));
    // The model had answered with words only: the turn ends as it would have.
    given(log(thinking(), &[answered(&[])])).when(Input::Interrupted).ignored().next(&[turn_ended(1, End::Done)], &[]);
    // A pause that was not announced yet is.
    let unannounced = waiting()[..8].to_vec();
    given(unannounced).when(Input::Interrupted).ignored().next(&[Event::Paused], &[]).expect_settled();
    // A queued prompt has its turn after the one that was cut off.
    given(log(thinking(), &[prompted(2, "b")]))
        .when(Input::Interrupted)
        .then(&[turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .next(&[began(2)], &[think(6)]);
}

#[test]
fn a_restart_completes_events_that_a_torn_write_cut_off() {
    let (e, s) = (edit(), shell());
    let had_not_begun = "The server was stopped before this call had begun. Nothing was changed; it can \
                   be made again.";
    let cut_off = |request: &Request| ended(request, failure(ErrorKind::Interrupted, had_not_begun));
    let interrupted = Event::Interrupted { text: RESTARTED.into() };
    // After the first plan of two, and after the first question of two.
    given(waiting()[..5].to_vec())
        .when(Input::Interrupted)
        .then(&[cut_off(&e), cut_off(&s), turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .expect_settled();
    given(waiting()[..7].to_vec())
        .when(Input::Interrupted)
        .then(&[cut_off(&s), interrupted.clone()], &[])
        .expect_settled()
        .when(pick(&e, "proceed_once"))
        .then(&[Event::Resumed, chosen(&e, Choice::ProceedOnce), ready(&e)], &[])
        .next(&[started(&e)], &[run(13, &e, Gate::Synced)]);
    // After an answer, before what follows from it.
    given(log(waiting(), &[chosen(&e, Choice::ProceedOnce)]))
        .when(Input::Interrupted)
        .then(&[ready(&e), interrupted.clone()], &[])
        .expect_settled();
    given(log(waiting(), &[chosen(&e, Choice::Cancel)]))
        .when(Input::Interrupted)
        .then(&[ended(&e, refused()), interrupted], &[])
        .expect_settled();
}
