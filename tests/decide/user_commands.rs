//! What users do beside prompting: choosing the mode and the model, and running commands of their own.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::limits::SHELL_CHARS;
use gemini_a2a::task::log::event::{End, Event, Lifecycle};
use gemini_a2a::task::machine::decide::{Gate, Input, Refusal};
use gemini_a2a::task::machine::job::NoteBody;
use gemini_a2a::task::machine::state::Item;
use gemini_a2a::task::policy::{Grant, Mode};
use gemini_a2a::task::spec::Ending;

fn tune(mode: Option<Mode>, model: Option<&str>) -> Input {
    Input::Tune { mode, model: model.map(str::to_owned), by: bob() }
}

fn tuned(mode: Option<Mode>, model: Option<&str>) -> Event {
    Event::Tuned { mode, model: model.map(str::to_owned), directories: None, by: bob() }
}

#[test]
fn a_chosen_mode_and_model_hold_from_the_next_request_on() {
    let case =
        given(idle()).when(tune(Some(Mode::Plan), Some("other"))).then(&[tuned(Some(Mode::Plan), Some("other"))], &[]);
    assert_eq!((case.state.mode, &*case.state.requested_model, &*case.state.model), (Mode::Plan, "other", "other"));
    case.clone().when(tune(Some(Mode::Plan), Some("other"))).ignored();
    case.when(tune(Some(Mode::AutoEdit), Some("other"))).then(&[tuned(Some(Mode::AutoEdit), None)], &[]);
    given(over()).when(tune(Some(Mode::Plan), None)).refused(Refusal::Over);
}

#[test]
fn chosen_directories_replace_the_former_ones() {
    let include =
        |dirs: &[&str]| Input::Include { directories: dirs.iter().map(ToString::to_string).collect(), by: bob() };
    let included = |dirs: &[&str]| {
        let directories = Some(dirs.iter().map(ToString::to_string).collect());
        Event::Tuned { mode: None, model: None, directories, by: bob() }
    };
    given(idle()).when(include(&[])).ignored();
    let case = given(idle()).when(include(&["/a", "/b"])).then(&[included(&["/a", "/b"])], &[]);
    assert_eq!(*case.state.directories, ["/a", "/b"]);
    case.clone().when(include(&["/a", "/b"])).ignored();
    let case = case.when(include(&[])).then(&[included(&[])], &[]);
    assert!(case.state.directories.is_empty());
    given(over()).when(include(&["/a"])).refused(Refusal::Over);
}

#[test]
fn approvals_can_be_turned_off_only_with_the_operators_permission() {
    let yolo = || tune(Some(Mode::Yolo), None);
    given(idle()).when(yolo()).refused(Refusal::NotGranted(Mode::Yolo));
    let granted = Grant { auto_execute: true, ..Grant::default() };
    given(idle()).with_grant(granted).when(yolo()).then(&[tuned(Some(Mode::Yolo), None)], &[]);
    given([created_in_mode(Mode::Yolo, false)])
        .when(tune(Some(Mode::Default), None))
        .then(&[tuned(Some(Mode::Default), None)], &[])
        .when(yolo())
        .then(&[tuned(Some(Mode::Yolo), None)], &[]);
    let edits = || tune(Some(Mode::AutoEdit), None);
    given(untrusted(idle())).when(edits()).refused(Refusal::NotGranted(Mode::AutoEdit));
    given(idle()).when(edits()).then(&[tuned(Some(Mode::AutoEdit), None)], &[]);
}

fn command() -> Input {
    Input::Shell { command: "make".into(), by: bob() }
}

fn shell_began() -> Event {
    Event::ShellBegan { command: "make".into(), by: bob() }
}

fn shell_ended(text: &str) -> Event {
    Event::ShellEnded { text: text.into() }
}

fn runs(job: u64) -> Expected {
    starts(job, Gate::Synced, Started::Run(format!("shell-{job}").as_str().into()))
}

#[test]
fn a_command_of_a_user_runs_beside_the_turns_and_the_model_is_shown_its_result() {
    let case = given(thinking()).when(command()).then(&[shell_began()], &[runs(4)]);
    case.clone().when(command()).refused(Refusal::ShellBusy);
    let case = case
        .when(note(4, NoteBody::Output("cc".into())))
        .then(&[Event::ShellOutput { text: "cc".into() }], &[])
        .when(note(4, run_ends(Ending::text("Output: cc", ""))))
        .then(&[shell_ended("Output: cc")], &[]);
    assert_eq!(case.state.shell, None);
    let case = case
        .when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .when(prompt("and now?"))
        .then(&[prompted(2, "and now?")], &[])
        .next(&[began(2)], &[think(10)]);
    let [.., shell, said] = case.state.history.as_slice() else { panic!("a result and a prompt") };
    let Item::Nudge(text) = shell.as_ref() else { panic!("{shell:?}") };
    assert!(text.as_str().contains("make") && text.as_str().contains("Output: cc"), "{text}");
    assert!(matches!(said.as_ref(), Item::Said(_)));
}

#[test]
fn the_output_that_the_model_is_shown_is_limited() {
    let shown = |chars: usize| {
        let case = given(idle()).when(command()).then(&[shell_began()], &[runs(6)]);
        let decision = case.decide(note(6, run_ends(Ending::text("é".repeat(chars), "")))).expect("a note");
        match &decision.events[..] {
            [Event::ShellEnded { text }] => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(shown(SHELL_CHARS), "é".repeat(SHELL_CHARS));
    assert_eq!(shown(SHELL_CHARS + 1), "é".repeat(SHELL_CHARS) + "\n[The rest was left out.]");
    // How it ended is always said.
    let end = "\nExit Code: 3\n</untrusted_context>";
    let case = given(idle()).when(command()).then(&[shell_began()], &[runs(6)]);
    let output = "x".repeat(2 * SHELL_CHARS) + end;
    let decision = case.decide(note(6, run_ends(Ending::text(output, "")))).expect("a note");
    assert_eq!(decision.events, [shell_ended(&("x".repeat(SHELL_CHARS) + "\n[The rest was left out.]" + end))]);
}

#[test]
fn a_command_of_a_user_ends_with_its_task_and_when_it_is_stopped() {
    let running = || given(idle()).when(command()).then(&[shell_began()], &[runs(6)]);
    let abort = Input::Abort { by: ann() };
    running().when(abort).then(&[shell_ended("The user stopped the command.")], &[stop(6)]);
    running().when(Input::Cancel).then(&[canceled()], &[stop(6)]);
    running()
        .when(Input::Interrupted)
        .then(&[shell_ended("The server was stopped while this command was running.")], &[])
        .when(note(6, run_ends(success())))
        .ignored();
    running()
        .when(note(6, NoteBody::Died("no thread".into())))
        .then(&[shell_ended("The tool ended unexpectedly: no thread")], &[]);
    // A task that is over with its turn takes the command along.
    let one_shot = log(vec![created(Lifecycle::OneShot)], &[prompted(1, "go"), began(1)]);
    let case = given(one_shot).when(command()).then(&[shell_began()], &[runs(4)]);
    let case = case.when(note(3, model_answers(&[]))).then(&[answered(&[])], &[]);
    let decision = case.decide(Input::Advance).expect("it ends");
    assert!(matches!(decision.events[..], [Event::Closed { .. }]), "{decision:?}");
    assert_eq!(decision.effects, [stop(4).0]);
    given(over()).when(command()).refused(Refusal::Over);
}
