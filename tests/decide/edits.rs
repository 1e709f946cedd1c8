//! Edits of files: one at a time, recorded with the file's versions, and asked about again if the file has changed.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::event::{End, Event, Final};
use gemini_a2a::task::machine::decide::{Gate, job};
use gemini_a2a::task::machine::job::{Job, NoteBody, RunEnd, Work};
use gemini_a2a::task::machine::state::TaskState;
use gemini_a2a::task::spec::{Choice, Ending, ErrorKind, Verdict};

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
        // The job that found it out has nothing more to say.
        .when(note(12, run_ends(success())))
        .ignored()
        .when(note(13, prepared(std::slice::from_ref(&e))))
        .then(&[planned(&e), asked(&e)], &[])
        .next(&[Event::Paused], &[])
        .expect_settled();
    let call = case.state.call(&e.call).expect("a call of the batch");
    assert_eq!((call.choice, &call.answered_by, call.stale), (None, &None, 1));
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
    // Where edits need no answer at all, this one needs none either.
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
