//! Stopping a turn, steering it, and taking prompts back, over sockets.

use super::*;
use crate::a2a::Dialect;
use crate::task::call::{Call, Execute, Mode, Say};
use crate::task::definitions::slash::{Args, Typed};
use crate::task::log::event::Protocol;

/// A live session whose turn is under way, and its socket in the native dialect.
fn session_at_work(test: &mut TestCore) -> (Key, TaskId) {
    let socket = join(test, "?client=ann", OWN);
    let session = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    send(test, socket, &[own(json!({"say": {"task": session, "text": "go", "id": "first"}}))]);
    assert_eq!(seen(test, socket).iter().filter(|frame| frame["ok"]["accepted"] == json!(true)).count(), 1);
    (socket, session)
}

#[test]
fn abort_stops_the_turn_and_the_next_prompt_continues() {
    let mut test = TestCore::new();
    let (socket, session) = session_at_work(&mut test);
    let job = test.jobs.last().expect("the model is asked").clone();
    send(&mut test, socket, &[own(json!({"abort": {"task": session}}))]);
    assert_eq!(test.stops, [job]);
    let frames = seen(&mut test, socket);
    let ended = frames.iter().find(|frame| !frame["event"]["turn_ended"].is_null()).expect("the end of the turn");
    assert_eq!(ended["event"]["turn_ended"]["by"], json!({"client": "ann", "via": "gemini-a2a"}));
    assert!(frames.iter().any(|frame| frame["ok"] == json!({"taskId": session, "accepted": true})), "{frames:?}");
    test.say(&session);
    test.end_turn();
    assert_eq!(test.state(&session).turn.number, 2);
}

#[test]
fn every_client_of_the_live_session_may_stop_its_turn() {
    let mut test = TestCore::new();
    let (_, session) = session_at_work(&mut test);
    let bob = join(&mut test, "?client=bob", "");
    send(&mut test, bob, &[rpc(7, "turn/abort", json!({}))]);
    let frames = seen(&mut test, bob);
    assert_eq!(test.state(&session).status.text.as_deref(), Some("Stopped by bob."));
    assert!(frames.iter().any(|frame| frame["result"]["accepted"] == json!(true)), "{frames:?}");
    let last = frames.iter().rfind(|frame| frame["kind"] == "STATE_CHANGE").expect("a state");
    assert_eq!((text(last, "state"), &last["final"]), ("input-required", &json!(true)));
}

#[test]
fn the_command_stop_names_what_it_stopped() {
    let mut test = TestCore::new();
    let (_, session) = session_at_work(&mut test);
    execute_stop(&mut test, &[]);
    assert_eq!(test.stops.len(), 1);
    assert_eq!(test.state(&session).turn.number, 1);
    assert!(test.state(&session).is_idle());
    let stopped: Vec<String> =
        test.core.tasks.values().filter_map(|loaded| stopped_by_command(&loaded.state)).collect();
    assert_eq!(stopped, [session.to_string()]);
    execute_stop(&mut test, &["no-such-task"]);
    assert_eq!(test.stops.len(), 1);
}

fn execute_stop(test: &mut TestCore, args: &[&str]) {
    let args = args.iter().map(|arg| arg.to_string()).collect();
    let execute = Execute {
        typed: Typed { phrase: "/stop".into(), args: Args::Words(args) },
        about: None,
        create: crate::core::test_core::say("", Protocol::V03).create,
        mode: Mode::Wait,
        otherwise: None,
    };
    test.begin_ask(Dialect::GEMINI, Call::Execute(execute));
    test.turns();
}

/// The task that a command of this state has stopped.
fn stopped_by_command(state: &crate::task::machine::state::State) -> Option<String> {
    state.created.command.as_ref()?.args.first().cloned()
}

#[test]
fn a_prompt_that_is_sent_again_with_its_key_counts_once() {
    let mut test = TestCore::new();
    let (socket, session) = session_at_work(&mut test);
    let before = test.state(&session).seq;
    let again = join(&mut test, "?client=ann&after=0", OWN);
    for key in [socket, again] {
        send(&mut test, key, &[own(json!({"say": {"task": session, "text": "go", "id": "first"}}))]);
        let frames = seen(&mut test, key);
        assert!(frames.iter().any(|frame| frame["ok"]["accepted"] == json!(true)), "{frames:?}");
    }
    assert_eq!(test.state(&session).seq, before);
    send(&mut test, again, &[own(json!({"say": {"task": session, "text": "go", "id": "second"}}))]);
    assert_eq!(test.state(&session).queue.len(), 1);
}

#[test]
fn a_client_that_waits_for_a_prompt_is_answered_when_the_prompt_is_taken_back() {
    let mut test = TestCore::new();
    let (socket, session) = session_at_work(&mut test);
    let waits =
        Say { task: Some(session.clone()), mode: Mode::Wait, ..crate::core::test_core::say("more", Protocol::V03) };
    let waiting = test.begin_ask(Dialect::RPC_03, Call::Say(waits));
    test.turns();
    assert_eq!(test.take(waiting), "");
    send(&mut test, socket, &[own(json!({"drop": {"task": session, "turn": 2}}))]);
    assert!(test.take(waiting).contains("200 OK"));
    assert!(test.state(&session).queue.is_empty());
    send(&mut test, socket, &[own(json!({"drop": {"task": session, "turn": 2}}))]);
    let frames = seen(&mut test, socket);
    assert_eq!(frames.last().expect("a refusal")["error"]["reason"], "INVALID_PARAMS", "{frames:?}");
}

#[test]
fn the_terminal_speaks_in_lines_and_is_a_client_like_any_other() {
    let mut test = TestCore::new();
    let terminal = test.core.terminal(test.now);
    let ask = |test: &mut TestCore, call: Value| -> Vec<Value> {
        let line = format!("{}\n", json!({"id": 1, "call": call}));
        test.core.input(crate::core::Input::Received { conn: terminal, bytes: line.as_bytes() }, test.now);
        test.turns();
        let lines = test.take(terminal);
        lines.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
    };
    let session = ask(&mut test, json!({"session": {}}))[0]["ok"].clone();
    let watching = ask(&mut test, json!({"watch": {"task": session}}));
    assert!(watching.len() > 1 && watching[1]["event"].get("created").is_some(), "{watching:?}");
    let prompted = ask(&mut test, json!({"say": {"task": session, "text": "hi"}}));
    let by =
        prompted.iter().find_map(|frame| Some(frame["event"]["prompted"]["by"].clone()).filter(|by| !by.is_null()));
    assert_eq!(by, Some(json!({"client": "you", "via": "terminal"})));
    // It costs nothing while nothing happens.
    test.end_turn();
    test.take(terminal);
    let before = test.core.deadline();
    test.later(10 * test.limits.socket_ping_ms);
    assert_eq!(test.take(terminal), "", "no pings");
    assert!(before.is_none_or(|at| at > test.now.mono_ms), "{before:?}");
}
