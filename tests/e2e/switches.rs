//! Options whose effect needs the real binary: time limits and several clients. Parsing is tested beside the parser, other effects in
//! `tests/switches.rs`.

use crate::drive::{Fixture, task_in};
use crate::support::eventually;
use crate::support::message::{call_status_of, kind_of, prompt, state_of};
use serde_json::json;

fn switched(args: &[&str]) -> Fixture {
    Fixture::with(|setup| args.iter().fold(setup, |setup, arg| setup.arg(arg)))
}

#[test]
fn a_blocking_call_returns_after_its_timeout_and_its_turn_continues() {
    let fixture = switched(&["--blocking-timeout", "200ms"]);
    let script = prompt("HOLD ++ TEXT late");
    let answer = fixture.client().call("message/send", script);
    assert_eq!(state_of(&answer), Some("working"));
    let task = answer["id"].as_str().expect("a task").to_owned();
    fixture.fake.release();
    eventually("the end of the turn", || (fixture.state(&task) == "input-required").then_some(()));
    assert_eq!(fixture.task(&task)["artifacts"][0]["parts"][0]["text"], "late");
}

#[test]
fn prompts_without_a_task_join_the_session() {
    let fixture = switched(&["--new-tasks", "session"]);
    let (one, two) = (fixture.say("TEXT one"), fixture.say("TEXT two"));
    assert_eq!(task_in(&one), task_in(&two));
    let own = Fixture::new();
    assert_ne!(task_in(&own.say("TEXT one")), task_in(&own.say("TEXT two")));
}

#[test]
fn an_idle_task_is_completed_even_after_a_restart() {
    let mut fixture = switched(&["--idle-ttl", "1s"]);
    let task = task_in(&fixture.say("TEXT one"));
    fixture.server.restart();
    eventually("the task's end", || (fixture.state(&task) == "completed").then_some(()));
}

#[test]
fn a_finished_task_is_deleted_after_its_retention() {
    let fixture = switched(&["--retention", "1s"]);
    let (remaining, task) = (fixture.say("TEXT one"), fixture.say("TEXT two"));
    let (remaining, task) = (task_in(&remaining), task_in(&task));
    let log = |task: &str| fixture.server.state_dir().join(format!("tasks/{task}.jsonl"));
    assert!(log(&task).exists());
    fixture.client().call("tasks/cancel", json!({ "id": task }));
    eventually("its log's end", || (!log(&task).exists()).then_some(()));
    let error = fixture.client().fault("tasks/get", json!({ "id": task }));
    assert_eq!(error, -32001);
    assert_eq!(fixture.state(&remaining), "input-required");
}

#[test]
fn the_oldest_finished_tasks_are_deleted_if_all_take_too_much_space() {
    let mut fixture = switched(&["--state-max", "200K"]);
    let long = "STREAM 1 0 40000";
    let (asked, _) = fixture.ask(&format!("{long} ++ WRITE never.txt x"));
    let [idle, ended, newest] = [(); 3].map(|()| task_in(&fixture.say(long)));
    fixture.client().call("tasks/cancel", json!({ "id": ended }));
    fixture.server.restart();
    let log = |task: &str| fixture.server.state_dir().join(format!("tasks/{task}.jsonl"));
    eventually("room", || (!log(&idle).exists()).then_some(()));
    assert_eq!([&asked, &ended, &newest].map(|task| log(task).exists()), [true, false, true]);
    assert_eq!(fixture.client().fault("tasks/get", json!({ "id": idle })), -32001);
    assert_eq!(fixture.state(&asked), "input-required");
    let message = format!("(--state-max): the oldest 2 that were finished are deleted: {ended}, {idle}");
    assert!(fixture.server.output().contains(&message), "{}", fixture.server.output());
}

#[test]
fn a_question_that_nobody_answers_is_cancelled() {
    let fixture = switched(&["--confirmation-timeout", "300ms"]);
    let (task, _) = fixture.ask("WRITE never.txt x");
    let events = eventually("the clock's answer", || {
        let events = fixture.whole(&task);
        let last = events.iter().rev();
        let mut calls = last.filter(|event| kind_of(event.result()) == "tool-call-update");
        let status = calls.next().map(|event| call_status_of(event.result()).to_owned());
        (status.as_deref() == Some("cancelled")).then_some(events)
    });
    assert!(format!("{events:?}").contains("Nobody answered the question in time"));
    assert_eq!(fixture.file("never.txt"), None);
    assert_eq!(fixture.state(&task), "input-required");
}

#[test]
fn a_turn_that_takes_too_long_is_stopped() {
    let fixture = switched(&["--turn-timeout", "300ms"]);
    let events = fixture.say("HOLD ++ TEXT never");
    let last = events.last().expect("an end").result();
    assert_eq!(state_of(last), Some("input-required"));
    assert_eq!(last["metadata"]["error"], "The turn took longer than 300ms and was stopped.");
}
