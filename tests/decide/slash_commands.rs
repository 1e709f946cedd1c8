//! Tasks that run a slash command instead of asking the model.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::definitions::slash::{Command, Commanded, Invocation, PromptPart};
use gemini_a2a::task::log::answer::{Answer, Finish, Request};
use gemini_a2a::task::log::event::{End, Event, Final};
use gemini_a2a::task::machine::decide::{Gate, job};
use gemini_a2a::task::machine::job::{NoteBody, Work};
use gemini_a2a::task::machine::state::Item;
use gemini_a2a::task::policy::Tier;
use gemini_a2a::task::spec::{Choice, Ending, ErrorKind};
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
        tenant: Default::default(),
        facts: Arc::default(),
    });
    let made = job(&case.state, Seq(4), &case.limits).expect("it is a job");
    assert_eq!((made.id.at, made.work), (Seq(4), expected));
}

#[test]
fn the_text_of_a_slash_command_is_the_answer_and_result_of_its_task() {
    let answer = Event::Answered {
        answer: Arc::new(Answer { finish: Finish::Command, said_at: Some(Seq(6)), ..Answer::new("done", []) }),
    };
    let produced = |said: &str| Event::Produced { artifact: result(said), append: false, last: true };
    let case = given(commanding())
        .when(note(4, command_says("done")))
        .then(&[produced("done"), text("done"), answer], &[])
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
    let prompted_by_command = || Event::CommandPrompted { text: "Write it.".into(), media: vec![] };
    let case = given(commanding())
        .when(note(4, command_asks("Write it.")))
        .then(&[prompted_by_command()], &[think(5)])
        .expect_settled();
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

/// A command that was interrupted by a restart does not run again; a further prompt is sent to the model.
#[test]
fn only_the_first_turn_is_a_command() {
    let start = log(commanding(), &[turn_ended(1, End::Interrupted(RESTARTED.into())), prompted(2, "and now?")]);
    given(start).next(&[began(2)], &[think(7)]);
}

/// A prompt with two commands in it, and the calls that they become in the log after event 5.
fn with_commands() -> (NoteBody, Event, Request, Request) {
    let text = |text: &str| PromptPart::Text(text.into());
    let nameless = || PromptPart::Shell(Request { call: "".into(), ..shell() });
    let parts = vec![text("See "), nameless(), text(" and "), nameless(), text(".")];
    let named = |n: usize| Request { call: format!("command-6-{n}").into(), ..shell() };
    let event = Event::CommandExpanded {
        parts: [text("See "), PromptPart::Shell(named(0)), text(" and "), PromptPart::Shell(named(1)), text(".")]
            .into(),
    };
    let note = NoteBody::Commanded(Ok(Commanded::Expanded { parts, notices: vec!["no file".into()] }));
    (note, event, named(0), named(1))
}

#[test]
fn the_commands_of_a_prompt_run_in_order_when_all_of_them_may() {
    let (body, expanded, one, two) = with_commands();
    let both = [one.clone(), two.clone()];
    let declined = Event::Declined { text: "no file".into() };
    let printed = |output: &str, shown: &str| Ending::text(output, shown);
    let case = given(commanding())
        .when(note(4, body))
        .then(&[declined, expanded], &[prepare(6, &both)])
        .expect_settled()
        .when(note(6, prepared(&both)))
        .then(&[planned(&one), planned(&two), asked(&one), asked(&two)], &[])
        .next(&[Event::Paused], &[])
        .when(pick(&two, "proceed_once"))
        .then(&[chosen(&two, Choice::ProceedOnce), ready(&two)], &[])
        .next(&[Event::Paused], &[])
        .expect_settled()
        .when(pick(&one, "proceed_once"))
        .then(&[chosen(&one, Choice::ProceedOnce), ready(&one)], &[])
        .next(&[started(&one)], &[run(17, &one, Gate::Synced)])
        .expect_settled()
        .when(note(17, run_ends(printed("Output: a\nExit Code: 2", "a\n"))))
        .then(&[ended(&one, printed("Output: a\nExit Code: 2", "a\n"))], &[])
        .next(&[started(&two)], &[run(19, &two, Gate::Synced)])
        .when(note(19, run_ends(printed("Output: b", "b"))))
        .then(&[ended(&two, printed("Output: b", "b"))], &[])
        .next(&[Event::CommandPrompted { text: "See a\nExit Code: 2 and b.".into(), media: vec![] }], &[think(21)])
        .expect_settled();
    let last = case.state.history.last().map(|item| (**item).clone());
    assert_eq!(last, Some(Item::Nudge("See a\nExit Code: 2 and b.".into())));
    assert_eq!(case.state.history.len(), 2, "the model made no calls");
    case.when(note(21, model_answers(&[]))).then(&[answered(&[])], &[]).next(&[closed(Final::Completed, "")], &[]);
}

#[test]
fn nothing_of_a_prompt_runs_if_one_of_its_commands_may_not() {
    let (_, expanded, one, two) = with_commands();
    let both = [one.clone(), two.clone()];
    let start = log(commanding(), &[Event::Declined { text: "no file".into() }, expanded]);
    let questions = [planned(&one), planned(&two), asked(&one), asked(&two), Event::Paused];
    let other = Ending::cancelled("Another command of the same prompt did not run.");
    let case = given(log(start.clone(), &questions))
        .when(pick(&one, "proceed_once"))
        .then(&[chosen(&one, Choice::ProceedOnce), ready(&one)], &[])
        .next(&[Event::Paused], &[])
        .when(pick(&two, "cancel"))
        .then(&[chosen(&two, Choice::Cancel), ended(&two, refused())], &[])
        .next(&[ended(&one, other.clone()), closed(Final::Completed, "")], &[])
        .expect_settled();
    assert_eq!(case.state.history.len(), 1, "the model is told nothing of it");
    // A rule denies the commands.
    let denied = "This call of run_shell_command is not allowed here: user rule 1.";
    let failed = |request| ended(request, failure(ErrorKind::PolicyViolation, denied));
    given(start)
        .with_policy(|policy| {
            let rule = serde_json::json!([{"toolName": SHELL, "decision": "deny"}]);
            assert_eq!(policy.add(Tier::User, &rule), Vec::<String>::new());
        })
        .when(note(6, prepared(&both)))
        .then(&[planned(&one), planned(&two), failed(&one), failed(&two)], &[])
        .next(&[closed(Final::Failed, denied)], &[]);
}
