//! Prompts: when they begin a turn, wait in the queue, resume an interrupted turn, or are refused.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::event::{End, Event};
use gemini_a2a::task::machine::decide::{Gate, Input, Refusal};
use gemini_a2a::task::machine::state::{Item, TaskState};
use gemini_a2a::task::spec::Choice;
use std::sync::Arc;

#[test]
fn a_prompt_begins_a_turn_on_a_fresh_idle_or_unauthorized_task() {
    given(fresh()).when(prompt("go")).then(&[prompted(1, "go")], &[]).next(&[began(1)], &[think(3)]).expect_settled();
    for start in [idle(), unauthorized()] {
        given(start)
            .when(prompt("more"))
            .then(&[prompted(2, "more")], &[])
            .next(&[began(2)], &[think(7)])
            .expect_settled();
    }
}

#[test]
fn a_prompt_to_a_busy_or_waiting_task_is_queued() {
    for start in [thinking(), backing_off(), preparing(), waiting(), editing(), replanning()] {
        given(start).when(prompt("more")).then(&[prompted(2, "more")], &[]).expect_settled();
    }
}

#[test]
fn queued_prompts_get_their_turns_in_order() {
    let case = given(log(thinking(), &[prompted(2, "b"), prompted(3, "c")]))
        .when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .next(&[began(2)], &[think(8)])
        .expect_settled()
        .when(prompt("d"))
        .then(&[prompted(4, "d")], &[])
        .when(note(8, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(2, End::Done)], &[])
        .next(&[began(3)], &[think(12)])
        .expect_settled();
    assert_eq!(case.state.prompt, Some(message("c")));
}

#[test]
fn the_queue_has_a_limit_and_answers_do_not_count_against_it() {
    let full =
        given(log(waiting(), &[prompted(2, "b"), prompted(3, "c")])).with_limits(|limits| limits.queued_prompts = 2);
    let e = edit();
    full.clone().when(prompt("d")).refused(Refusal::QueueFull);
    // Nothing of a refused message happens, its answer neither.
    full.clone().when(prompt_and_pick("d", &[(&e, "proceed_once")])).refused(Refusal::QueueFull);
    full.when(pick(&e, "cancel")).then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[]);
    given(log(waiting(), &[prompted(2, "b")]))
        .with_limits(|limits| limits.queued_prompts = 2)
        .when(prompt("c"))
        .then(&[prompted(3, "c")], &[]);
}

#[test]
fn an_empty_prompt_ends_its_turn_without_a_model_request() {
    let case = given(fresh())
        .when(prompt(""))
        .then(&[prompted(1, "")], &[])
        .next(&[turn_ended(1, End::Nothing)], &[])
        .expect_settled();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    assert_eq!(case.state.history, [Arc::new(Item::Dropped(message("")))], "clients see it, the model does not");
    // Between two prompts, and on a task that has only one turn, it changes nothing else.
    given(log(one_shot(fresh()), &[prompted(1, ""), prompted(2, "b")]))
        .next(&[turn_ended(1, End::Nothing)], &[])
        .next(&[began(2)], &[think(5)]);
}

#[test]
fn a_message_to_an_interrupted_turn_resumes_it() {
    let (e, s) = (edit(), shell());
    let case =
        given(suspended()).expect_settled().when(prompt("go on")).then(&[Event::Resumed, prompted(2, "go on")], &[]);
    assert_eq!(case.state.status.state, TaskState::Working);
    case.next(&[started(&e)], &[run(15, &e, Gate::Synced)]).expect_settled();
    given(suspended())
        .when(pick(&s, "cancel"))
        .then(&[Event::Resumed, chosen(&s, Choice::Cancel), ended(&s, refused())], &[])
        .next(&[started(&e)], &[run(16, &e, Gate::Synced)]);
    given(suspended()).when(pick(&e, "proceed_once")).refused(Refusal::NotPending(e.call));
}

#[test]
fn a_finished_task_accepts_no_message() {
    given(over()).when(prompt("more")).refused(Refusal::Over);
    given(over()).when(pick(&edit(), "cancel")).refused(Refusal::Over);
    given(over()).when(Input::Cancel).refused(Refusal::Over);
    given(over()).when(Input::Fail("x".into())).refused(Refusal::Over);
    given(over()).expect_settled();
}
