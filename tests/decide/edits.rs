//! Edits of files: one at a time, recorded with the file's versions, and asked about again if the file has changed.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::event::{End, Event, Final};
use gemini_a2a::task::machine::decide::{Gate, Input, Refusal, job};
use gemini_a2a::task::machine::job::{Job, NoteBody, RunEnd, Work};
use gemini_a2a::task::machine::state::TaskState;
use gemini_a2a::task::spec::{Base, Choice, Ending, ErrorKind, Verdict};

#[test]
fn edits_run_one_at_a_time_and_a_command_beside_them() {
    let (a, b, s) = (call(EDIT, "a"), call(EDIT, "b"), shell());
    let all = [a.clone(), b.clone(), s.clone()];
    given(log(thinking(), &[answered(&all)]))
        .with_default(EDIT, Verdict::Allow)
        .with_default(SHELL, Verdict::Allow)
        .when(note(4, prepared(&all)))
        .then(&[planned(&a), planned(&b), planned(&s), ready(&a), ready(&b), ready(&s)], &[])
        .next(&[started(&a), started(&s)], &[run(11, &a, Gate::Synced), run(12, &s, Gate::Synced)])
        .expect_settled()
        .when(note(11, run_ends(success())))
        .then(&[ended(&a, success())], &[])
        .next(&[started(&b)], &[run(14, &b, Gate::Synced)])
        .expect_settled();
}

#[test]
fn a_written_file_is_recorded_with_the_end_of_its_call_and_also_if_the_call_was_stopped_too_late() {
    let e = edit();
    let case = given(editing()).when(note(12, edit_ends(&e))).then(&[file_changed(&e), ended(&e, success())], &[]);
    let blobs: Vec<(String, u64)> = case.state.blobs.clone().into_iter().collect();
    assert_eq!(blobs, [("a".repeat(64), 4), ("b".repeat(64), 4)]);

    let mut room = case.limits.clone();
    room.task_blob_bytes = 10;
    let again = case.record_all(&[ready(&e), started(&e)]);
    let Some(Job { work: Work::Run(run), .. }) = job(&again.state, again.state.seq, &room) else { panic!("a job") };
    assert_eq!(run.blob_room, 2, "both versions count");

    let stopped = given(editing()).record_all(&[ended(&e, success()), turn_ended(1, End::Refused)]);
    stopped.when(note(12, edit_ends(&e))).then(&[file_changed(&e)], &[]);
    let over = given(editing()).record_all(&[ended(&e, success()), closed(Final::Canceled, "")]);
    over.when(note(12, edit_ends(&e))).ignored();
}

#[test]
fn an_edit_of_a_changed_file_is_asked_about_again() {
    let (e, s) = (edit(), shell());
    let case = given(editing())
        .when(note(12, NoteBody::Ended(RunEnd::Stale)))
        .then(&[stale(&e)], &[prepare(13, std::slice::from_ref(&e))])
        .expect_settled();
    assert_eq!(case.state.status.state, TaskState::Working);
    let case = case
        // A further note of the job that reported the change is dropped.
        .when(note(12, run_ends(success())))
        .ignored()
        .when(note(13, prepared(std::slice::from_ref(&e))))
        .then(&[planned(&e), asked(&e)], &[])
        .next(&[Event::Paused], &[])
        .expect_settled();
    let call = case.state.call(&e.call).expect("a call of the batch");
    assert_eq!((call.choice, &call.answered_by, call.stale), (None, &None, 1));
    // An answer to the first plan does not count for the second one.
    let first = given(editing()).state.call(&e.call).expect("a call of the batch").planned_at;
    case.clone().when(pick_seen(&e, "proceed_once", first)).refused(Refusal::PlannedAgain(e.call.clone()));
    case.clone()
        .when(pick_seen(&e, "proceed_once", call.planned_at))
        .then(&[chosen(&e, Choice::ProceedOnce), ready(&e)], &[]);
    case.when(prompt_and_pick("", &[(&e, "proceed_once"), (&s, "cancel")]))
        .then(&[chosen(&e, Choice::ProceedOnce), ready(&e), chosen(&s, Choice::Cancel), ended(&s, refused())], &[])
        .next(&[started(&e)], &[run(21, &e, Gate::Synced)]);
}

#[test]
fn a_rule_does_not_cover_a_file_that_changed_under_its_edit() {
    let e = edit();
    let always = chosen(&e, Choice::ProceedAlways);
    let start = log(waiting(), &[always, ready(&e), started(&e), stale(&e)]);
    given(start.clone()).when(note(13, prepared(std::slice::from_ref(&e)))).then(&[planned(&e), asked(&e)], &[]);
    // If edits need no approval at all, this one needs none either.
    given(start)
        .with_default(EDIT, Verdict::Allow)
        .when(note(13, prepared(std::slice::from_ref(&e))))
        .then(&[planned(&e), ready(&e)], &[])
        .next(&[started(&e)], &[run(16, &e, Gate::Synced)]);
}

#[test]
fn an_edit_that_no_longer_fits_the_changed_file_fails() {
    let e = edit();
    let error = ErrorKind::ExecutionFailed.error("old_string was not found");
    given(replanning())
        .when(note(13, NoteBody::Prepared(vec![Err(error.clone())])))
        .then(&[ended(&e, Ending::Error { error })], &[])
        .next(&[Event::Paused], &[]);
}

/// The file after earlier edits, as the run that has just started gets it.
fn base_after_earlier_edits(case: &Case) -> Option<Base> {
    match job(&case.state, case.state.seq, &case.limits) {
        Some(Job { work: Work::Run(run), .. }) => run.after_earlier_edits,
        other => panic!("{other:?}"),
    }
}

/// Two edits of one file, asked about together. The second is approved first and waits for the first.
#[test]
fn edits_of_one_file_run_in_their_order_whatever_is_answered_first() {
    let (a, b) = (call(EDIT, "a"), call(EDIT, "b"));
    let both = [a.clone(), b.clone()];
    let asked_both = given(log(thinking(), &[answered(&both)]))
        .when(note(4, prepared(&both)))
        .then(&[planned(&a), planned(&b), asked(&a), asked(&b)], &[])
        .next(&[Event::Paused], &[])
        .expect_settled();
    let held = asked_both
        .when(prompt_and_pick("", &[(&b, "proceed_once")]))
        .then(&[chosen(&b, Choice::ProceedOnce), ready(&b)], &[])
        .next(&[Event::Paused], &[])
        .expect_settled();
    assert_eq!(held.state.status.state, TaskState::InputRequired);

    // A restart changes nothing, because nothing was running.
    held.clone().when(Input::Interrupted).ignored();

    let first = held
        .clone()
        .when(prompt_and_pick("", &[(&a, "proceed_always")]))
        .then(&[chosen(&a, Choice::ProceedAlways), ready(&a)], &[])
        .next(&[started(&a)], &[run(15, &a, Gate::Synced)])
        .expect_settled()
        .when(note(15, edit_ends(&a)))
        .then(&[file_changed(&a), ended(&a, success())], &[]);
    let second = first.clone().next(&[started(&b)], &[run(18, &b, Gate::Synced)]).expect_settled();
    assert_eq!(base_after_earlier_edits(&second), Some(Base { sha256: Some("b".repeat(64)), change: None }));
    second.when(note(18, edit_ends(&b))).then(&[file_changed(&b), ended(&b, success())], &[]);

    // A restart between the two: the second is still approved, and begins when the user goes on.
    let restarted = first.when(Input::Interrupted).then(&[Event::Interrupted { text: RESTARTED.into() }], &[]);
    restarted.expect_settled().when(prompt("go on")).then(&[Event::Resumed, prompted(2, "go on")], &[]);

    // The first was refused: the second applies to the unchanged file.
    let alone = held
        .when(prompt_and_pick("", &[(&a, "cancel")]))
        .then(&[chosen(&a, Choice::Cancel), ended(&a, refused())], &[])
        .next(&[started(&b)], &[run(15, &b, Gate::Synced)]);
    assert_eq!(base_after_earlier_edits(&alone), plan(&a).base);
}

/// After a change by others the file must be as it was shown, and the result of earlier edits does not count.
#[test]
fn a_change_by_others_is_not_taken_for_an_earlier_edit() {
    let (a, b) = (call(EDIT, "a"), call(EDIT, "b"));
    let both = [a.clone(), b.clone()];
    let yes = |request| [chosen(request, Choice::ProceedOnce), ready(request)];
    let start = log(thinking(), &[answered(&both), planned(&a), planned(&b), asked(&a), asked(&b)]);
    let start = log(log(start, &yes(&a)), &yes(&b));
    let case = given(log(start, &[started(&a), stale(&a), planned(&a), asked(&a)]))
        .when(prompt_and_pick("", &[(&a, "proceed_once")]))
        .then(&[chosen(&a, Choice::ProceedOnce), ready(&a)], &[])
        .next(&[started(&a)], &[run(19, &a, Gate::Synced)])
        .when(note(19, edit_ends(&a)))
        .then(&[file_changed(&a), ended(&a, success())], &[])
        .next(&[started(&b)], &[run(22, &b, Gate::Synced)]);
    assert_eq!(base_after_earlier_edits(&case), None);
}
