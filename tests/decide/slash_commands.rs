//! Tasks that run a slash command instead of asking the model.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::log::answer::{Answer, Finish};
use gemini_a2a::task::log::event::{End, Event, Final};
use gemini_a2a::task::machine::decide::{Gate, job};
use gemini_a2a::task::machine::job::{NoteBody, Work};
use gemini_a2a::task::machine::state::Item;
use gemini_a2a::task::slash::{Command, Invocation};
use std::sync::Arc;

#[test]
fn a_command_runs_instead_of_the_model() {
    let events = [created_to_run("memory show"), prompted(1, "/memory @show")];
    let effect = starts(4, Gate::Synced, Started::Command);
    let case = given(events).next(&[began(1), Event::CommandBegan], std::slice::from_ref(&effect));
    let expected = Work::Command(Command {
        workspace: "/w".into(),
        trusted: true,
        invocation: Invocation { path: vec!["memory".into(), "show".into()], args: vec!["x".into()] },
        facts: Arc::default(),
    });
    let made = job(&case.state, Seq(4), &case.limits).expect("it is a job");
    assert_eq!((made.id.at, made.work), (Seq(4), expected));
}

#[test]
fn the_text_of_a_slash_command_is_the_answer_and_result_of_its_task() {
    let spoken = Event::Answered {
        answer: Arc::new(Answer { finish: Finish::Command, said_at: Some(Seq(6)), ..Answer::new("done", []) }),
    };
    let produced = |said: &str| Event::Produced { artifact: result(said), append: false, last: true };
    let case = given(commanding())
        .when(note(4, command_says("done")))
        .then(&[produced("done"), text("done"), spoken], &[])
        .next(&[closed(Final::Completed, "")], &[])
        .expect_settled();
    assert_eq!(case.state.artifacts, [(*result("done")).clone()]);
    assert_eq!(case.state.history.len(), 2, "what was typed, and the answer");
    given(commanding())
        .when(note(4, command_says("")))
        .then(&[produced(""), closed(Final::Completed, "")], &[])
        .expect_settled();
}

#[test]
fn a_slash_command_may_continue_with_the_model() {
    let told = || Event::CommandPrompted { text: "Write it.".into() };
    let case =
        given(commanding()).when(note(4, command_asks("Write it."))).then(&[told()], &[think(5)]).expect_settled();
    let last = case.state.history.last().map(|item| (**item).clone());
    assert_eq!(last, Some(Item::Nudge("Write it.".into())));
    case.when(note(5, model_answers(&[]))).then(&[answered(&[])], &[]).next(&[closed(Final::Completed, "")], &[]);
}

#[test]
fn a_command_that_fails_fails_its_task() {
    for (body, text) in [
        (NoteBody::Commanded(Err("no luck".into())), "no luck"),
        (NoteBody::Died("killed".into()), "The command ended unexpectedly: killed"),
    ] {
        given(commanding()).when(note(4, body)).then(&[closed(Final::Failed, text)], &[]).expect_settled();
    }
}

/// A restart may come in the middle of a command. It does not run again by itself, and whoever goes on talks to the model.
#[test]
fn only_the_first_turn_is_a_command() {
    let start = log(commanding(), &[turn_ended(1, End::Interrupted(RESTARTED.into())), prompted(2, "and now?")]);
    given(start).next(&[began(2)], &[think(7)]);
}
