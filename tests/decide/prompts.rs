//! Prompts: when they begin a turn, wait in the queue, resume an interrupted turn, or are refused.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::limits::PROMPT_KEYS;
use gemini_a2a::task::log::event::{Delivery, End, Event};
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
    assert_eq!(case.state.turn.prompt, Some(message("c")));
}

#[test]
fn the_queue_has_a_limit_and_answers_do_not_count_against_it() {
    let full =
        given(log(waiting(), &[prompted(2, "b"), prompted(3, "c")])).with_limits(|limits| limits.queued_prompts = 2);
    let e = edit();
    full.clone().when(prompt("d")).refused(Refusal::QueueFull);
    // A refused message has no effect; its answer is not recorded either.
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
    // Before another prompt, and in a one-shot task, it has no further effect.
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

#[test]
fn a_steering_prompt_reaches_the_model_with_the_next_results() {
    let (e, s) = (edit(), shell());
    let case = given(waiting()).when(steering("rather that")).then(&[steering_prompted(2, "rather that")], &[]);
    let case = case
        .when(prompt_and_pick("", &[(&e, "cancel")]))
        .then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[])
        .when(pick(&s, "proceed_once"))
        .then(&[chosen(&s, Choice::ProceedOnce), ready(&s)], &[]);
    let job = case.state.seq.0 + 1;
    let case = case.next(&[started(&s)], &[run(job, &s, Gate::Synced)]);
    let case = case
        .when(note(job, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .next(&[Event::ResultsSent, Event::Steered { turn: 2 }], &[think(job + 2)])
        .expect_settled();
    assert!(case.state.queue.is_empty());
    let items: Vec<&Item> = case.state.history.iter().rev().take(2).map(|item| item.as_ref()).collect();
    assert!(matches!(items[..], [Item::Steered(_), Item::Results(_)]), "{items:?}");
    // The number of its turn is not used again.
    case.when(prompt("more")).then(&[prompted(3, "more")], &[]);
}

#[test]
fn a_steering_prompt_without_results_to_come_gets_a_turn_of_its_own() {
    given(idle()).when(steering("go")).then(&[steering_prompted(2, "go")], &[]).next(&[began(2)], &[think(7)]);
    given(log(thinking(), &[steering_prompted(2, "b")]))
        .when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .next(&[began(2)], &[think(7)]);
}

#[test]
fn files_that_a_steering_prompt_names_are_read_first() {
    let prompts = [steering_prompted(2, "see @notes.txt"), steering_prompted(3, "and this")];
    let (e, s) = (edit(), shell());
    let ends = [chosen(&e, Choice::Cancel), ended(&e, refused()), chosen(&s, Choice::ProceedOnce), ready(&s)];
    let case = given(log(log(waiting(), &prompts), &ends));
    let job = case.state.seq.0 + 1;
    case.next(&[started(&s)], &[run(job, &s, Gate::Synced)])
        .when(note(job, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .next(
            &[Event::ResultsSent, Event::Steered { turn: 2 }, Event::AttachmentsWanted],
            &[starts(job + 4, Gate::Written, Started::Attach)],
        )
        .expect_settled();
}

#[test]
fn a_queued_prompt_can_be_taken_back_once() {
    let drop = |turn| Input::Drop { turn, by: bob() };
    let dropped = Event::Dropped { turn: 2, by: bob() };
    let case = given(log(thinking(), &[prompted(2, "b"), prompted(3, "c")]))
        .when(drop(2))
        .then(&[dropped], &[])
        .expect_settled();
    case.clone().when(drop(2)).refused(Refusal::NotQueued(2));
    case.clone().when(drop(1)).refused(Refusal::NotQueued(1));
    case.when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .next(&[began(3)], &[think(9)]);
    given(over()).when(drop(1)).refused(Refusal::NotQueued(1));
}

#[test]
fn a_prompt_with_a_known_key_is_accepted_and_changes_nothing() {
    let case = given(fresh()).when(keyed("go", "k-1")).then(&[keyed_prompt(1, "k-1")], &[]).settle();
    case.clone().when(keyed("go", "k-1")).ignored();
    case.clone().when(keyed("go", "k-2")).then(&[keyed_prompt(2, "k-2")], &[]);
    let over = case.clone().record_all(&[canceled()]);
    over.clone().when(keyed("go", "k-1")).ignored();
    over.when(keyed("go", "k-2")).refused(Refusal::Over);
    // Another client may use the same key.
    let Input::Say { said, .. } = keyed("go", "k-1") else { unreachable!("it is a prompt") };
    let decision = case.decide(Input::Say { said, by: bob() }).expect("accepted");
    assert_eq!(decision.events.len(), 1);
}

#[test]
fn a_task_remembers_its_newest_keys() {
    let mut case = given(fresh());
    for n in 0..=PROMPT_KEYS {
        case.record(keyed_prompt(n as u32 + 1, &format!("k-{n}")));
    }
    assert_eq!(case.state.keys.len(), PROMPT_KEYS);
    assert_eq!(case.state.keys[0].1, "k-1", "the oldest is forgotten");
}

fn keyed_prompt(turn: u32, key: &str) -> Event {
    let delivery = Delivery { key: Some(key.into()), ..Delivery::default() };
    Event::Prompted { message: message("go"), by: ann(), turn, delivery }
}
