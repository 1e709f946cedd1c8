//! How turns and tasks end: by themselves, by a cancel, by a failure, because somebody stops them or the client disconnected.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::log::answer::Finish;
use gemini_a2a::task::log::event::{End, Event, Final, Outcome};
use gemini_a2a::task::log::restored::{Conversation, Restored};
use gemini_a2a::task::machine::decide::{Input, Refusal};
use gemini_a2a::task::machine::job::{ModelErrorKind, NoteBody};
use gemini_a2a::task::machine::state::Phase;
use gemini_a2a::task::machine::state::{Item, TaskState};
use gemini_a2a::task::spec::{Choice, Ending};
use std::sync::Arc;

#[test]
fn a_single_turn_task_ends_after_its_turn() {
    let (e, s) = (edit(), shell());
    given(one_shot(log(thinking(), &[answered(&[])]))).next(&[closed(Final::Completed, "")], &[]).expect_settled();
    given(one_shot(thinking()))
        .when(note(3, model_fails(ModelErrorKind::Fatal)))
        .then(&[closed(Final::Failed, "no luck")], &[])
        .expect_settled();
    given(one_shot(log(
        waiting(),
        &[chosen(&e, Choice::Cancel), ended(&e, refused()), chosen(&s, Choice::Cancel), ended(&s, refused())],
    )))
    .next(&[closed(Final::Completed, "")], &[]);
    // Queued prompts are answered first, also after a turn that failed or asks. An empty prompt changes nothing.
    given(one_shot(log(thinking(), &[prompted(2, "b"), prompted(3, "")])))
        .when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .next(&[began(2)], &[think(8)])
        .when(note(8, model_fails(ModelErrorKind::Fatal)))
        .then(&[turn_ended(2, End::Failed("no luck".into()))], &[])
        .next(&[closed(Final::Completed, "")], &[])
        .expect_settled();
    let asks = || Outcome::Ask("Which?".into());
    given(one_shot(log(thinking(), &[prompted(2, "b"), concluded(asks())])))
        .next(&[turn_ended(1, End::Asked("Which?".into()))], &[])
        .next(&[began(2)], &[think(7)]);
    // A question or a missing credential leaves it open for the answer.
    given(one_shot(log(thinking(), &[concluded(asks())])))
        .next(&[turn_ended(1, End::Asked("Which?".into()))], &[])
        .when(prompt(""))
        .then(&[prompted(2, "")], &[])
        .next(&[turn_ended(2, End::Nothing)], &[])
        .when(prompt("this"))
        .then(&[prompted(3, "this")], &[])
        .next(&[began(3)], &[think(9)]);
    // So does a restart.
    given(one_shot(thinking()))
        .when(Input::Interrupted)
        .then(&[turn_ended(1, End::Interrupted(RESTARTED.into()))], &[]);
}

#[test]
fn an_agent_may_say_how_its_turn_ends() {
    let ends = [
        (Outcome::Ask("Which?".into()), turn_ended(1, End::Asked("Which?".into())), TaskState::InputRequired),
        (Outcome::Auth("Who?".into()), turn_ended(1, End::NeedsAuth("Who?".into())), TaskState::AuthRequired),
        (Outcome::Complete("Done.".into()), closed(Final::Completed, "Done."), TaskState::Completed),
        (Outcome::Complete(String::new()), closed(Final::Completed, ""), TaskState::Completed),
        (Outcome::Fail("Broken.".into()), closed(Final::Failed, "Broken."), TaskState::Failed),
        (Outcome::Reject("No.".into()), closed(Final::Rejected, "No."), TaskState::Rejected),
    ];
    for (verdict, event, state) in ends {
        let concluded = concluded(verdict);
        let Event::Answered { answer } = &concluded else {
            panic!("{concluded:?}");
        };
        let note_body = NoteBody::Answered(Ok((**answer).clone()));
        let case = given(thinking())
            .when(note(3, note_body))
            .then(std::slice::from_ref(&concluded), &[])
            .next(&[event], &[])
            .expect_settled();
        assert_eq!(case.state.status.state, state);
    }
}

/// (2) (38) (39) All running jobs are stopped, every call that clients have seen is ended, and the task is closed.
#[test]
fn a_cancel_ends_the_task_in_every_phase() {
    let (e, s) = (edit(), shell());
    let both = [ended(&e, stopped()), ended(&s, stopped()), canceled()];
    let only = [canceled()];
    let ends: [(&[Event], &[Expected]); 11] = [
        (&only, &[]),
        (&only, &[stop(3)]),
        (&only, &[stop(4)]),
        (&only, &[]),
        // Nobody has been shown the calls yet.
        (&only, &[stop(4)]),
        (&both, &[]),
        (&both, &[stop(12)]),
        (&both, &[stop(13)]),
        (&both, &[]),
        (&only, &[]),
        (&only, &[]),
    ];
    for ((phase, start), (events, effects)) in every_phase().into_iter().zip(ends) {
        let mut start = given(start);
        start.record(prompted(7, "queued"));
        let case = start.when(Input::Cancel).then(events, effects).expect_settled();
        let state = &case.state;
        assert_eq!(state.status.state, TaskState::Canceled, "{phase}");
        assert!(state.queue.is_empty() && state.calls.is_empty(), "{phase}");
        assert!(!state.paused && !state.suspended, "{phase}");
        assert_eq!(
            state.history.last().map(|item| (**item).clone()),
            Some(Item::Dropped(message("queued"))),
            "{phase}: clients still see the prompt"
        );
    }
}

#[test]
fn a_task_that_cannot_run_fails_with_the_reason() {
    let fail = || Input::Fail("The workspace /w is gone.".into());
    let failed = || closed(Final::Failed, "The workspace /w is gone.");
    given(fresh()).when(fail()).then(&[failed()], &[]);
    given(thinking()).when(fail()).then(&[failed()], &[stop(3)]);
    let ending = Ending::cancelled("The task cannot go on.");
    given(editing())
        .when(fail())
        .then(&[ended(&edit(), ending.clone()), ended(&shell(), ending), failed()], &[stop(12)]);
}

#[test]
fn only_the_turn_of_a_disconnected_client_is_aborted() {
    let aborted = || turn_ended(1, End::Interrupted("Execution aborted by client.".into()));
    let cancelled = Ending::cancelled("The client went away.");
    let abort = |turn| Input::Disconnected { turn };
    let case = given(thinking()).when(abort(1)).then(&[aborted()], &[stop(3)]).expect_settled();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    given(editing())
        .when(abort(1))
        .then(&[ended(&edit(), cancelled.clone()), ended(&shell(), cancelled), aborted()], &[stop(12)]);
    given(thinking()).when(abort(2)).ignored();
    given(idle()).when(abort(1)).ignored();
    given(over()).when(abort(1)).ignored();
}

#[test]
fn a_turn_can_be_stopped_in_every_phase_and_the_task_stays() {
    let abort = || Input::Abort { by: bob() };
    for (phase, start) in every_phase() {
        let case = given(start);
        match phase {
            "over" => drop(case.when(abort()).refused(Refusal::Over)),
            "fresh" | "idle" | "unauthorized" => drop(case.when(abort()).ignored()),
            _ => {
                let turn = case.state.turn.number;
                let decision = case.decide(abort()).expect("a turn is under way");
                let end = End::Interrupted("Stopped by bob.".into());
                assert_eq!(decision.events.last(), Some(&Event::TurnEnded { turn, end, by: Some(bob()) }), "{phase}");
                let case = case.record_all(&decision.events);
                assert_eq!(case.state.status.state, TaskState::InputRequired, "{phase}");
                assert!(case.state.calls.is_empty() && case.state.is_idle(), "{phase}");
                let case = case.when(abort()).ignored();
                case.when(prompt("on")).then(&[prompted(turn + 1, "on")], &[]);
            }
        }
    }
}

#[test]
fn the_text_of_a_stopped_answer_is_recorded() {
    let case = given(log(thinking(), &[text("Half a sen")]));
    let decision = case.decide(Input::Abort { by: ann() }).expect("a turn is under way");
    let Event::Answered { answer } = &decision.events[0] else {
        panic!("{decision:?}");
    };
    assert_eq!((answer.text().as_str(), &answer.finish), ("Half a sen", &Finish::Stopped));
    assert_eq!(decision.effects, [stop(3).0]);
}

#[test]
fn a_queued_prompt_begins_its_turn_after_a_stop() {
    let case = given(log(thinking(), &[prompted(2, "b")]));
    let decision = case.decide(Input::Abort { by: ann() }).expect("a turn is under way");
    case.record_all(&decision.events).next(&[began(2)], &[think(6)]);
}

/// Files are restored between turns and after the end of a task, but not in a turn.
#[test]
fn a_restore_is_recorded_unless_a_turn_is_under_way() {
    let restored = || Restored {
        to: Seq(3),
        call: None,
        files: Vec::new(),
        conversation: Conversation::Rewound,
        items: 0,
        by: bob(),
    };
    for (phase, start) in every_phase() {
        let case = given(start);
        let decision = case.decide(Input::Restore(restored()));
        match matches!(case.state.phase, Phase::Idle | Phase::Closed) {
            true => assert_eq!(decision.unwrap().events, [Event::Restored(Arc::new(restored()))], "{phase}"),
            false => assert_eq!(decision.unwrap_err(), Refusal::InTurn, "{phase}"),
        }
    }
}
