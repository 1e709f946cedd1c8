//! Stopping a turn, steering it, and taking prompts back, over sockets.

use super::*;
use crate::a2a::Dialect;
use crate::task::call::{Call, Execute, Mode, Say};
use crate::task::log::event::Protocol;
use crate::task::slash::{Args, Typed};

/// A live session whose turn is under way, and its socket in the native dialect.
fn session_at_work(rig: &mut Rig) -> (Key, TaskId) {
    let socket = join(rig, "?client=ann", OWN);
    let session = rig.core.tasks.live_session().cloned().expect("a session");
    send(rig, socket, &[own(json!({"say": {"task": session, "text": "go", "id": "first"}}))]);
    assert_eq!(seen(rig, socket).iter().filter(|frame| frame["ok"]["accepted"] == json!(true)).count(), 1);
    (socket, session)
}

#[test]
fn abort_stops_the_turn_and_the_next_prompt_continues() {
    let mut rig = Rig::new();
    let (socket, session) = session_at_work(&mut rig);
    let job = rig.jobs.last().expect("the model is asked").clone();
    send(&mut rig, socket, &[own(json!({"abort": {"task": session}}))]);
    assert_eq!(rig.stops, [job]);
    let frames = seen(&mut rig, socket);
    let ended = frames.iter().find(|frame| !frame["event"]["turn_ended"].is_null()).expect("the end of the turn");
    assert_eq!(ended["event"]["turn_ended"]["by"], json!({"client": "ann", "via": "gemini-a2a"}));
    assert!(frames.iter().any(|frame| frame["ok"] == json!({"taskId": session, "accepted": true})), "{frames:?}");
    rig.say(&session);
    rig.end_turn();
    assert_eq!(rig.state(&session).turn.number, 2);
}

#[test]
fn every_client_of_the_live_session_may_stop_its_turn() {
    let mut rig = Rig::new();
    let (_, session) = session_at_work(&mut rig);
    let bob = join(&mut rig, "?client=bob", "");
    send(&mut rig, bob, &[rpc(7, "turn/abort", json!({}))]);
    let frames = seen(&mut rig, bob);
    assert_eq!(rig.state(&session).status.text.as_deref(), Some("Stopped by bob."));
    assert!(frames.iter().any(|frame| frame["result"]["accepted"] == json!(true)), "{frames:?}");
    let last = frames.iter().rfind(|frame| frame["kind"] == "STATE_CHANGE").expect("a state");
    assert_eq!((text(last, "state"), &last["final"]), ("input-required", &json!(true)));
}

#[test]
fn the_command_stop_names_what_it_stopped() {
    let mut rig = Rig::new();
    let (_, session) = session_at_work(&mut rig);
    execute_stop(&mut rig, &[]);
    assert_eq!(rig.stops.len(), 1);
    assert_eq!(rig.state(&session).turn.number, 1);
    assert!(rig.state(&session).is_idle());
    let stopped: Vec<String> = rig.core.tasks.values().filter_map(|loaded| stopped_by_command(&loaded.state)).collect();
    assert_eq!(stopped, [session.to_string()]);
    execute_stop(&mut rig, &["no-such-task"]);
    assert_eq!(rig.stops.len(), 1);
}

fn execute_stop(rig: &mut Rig, args: &[&str]) {
    let args = args.iter().map(|arg| arg.to_string()).collect();
    let execute = Execute {
        typed: Typed { phrase: "/stop".into(), args: Args::Words(args) },
        create: crate::core::rig::say("", Protocol::V03).create,
        mode: Mode::Wait,
    };
    rig.begin_ask(Dialect::GEMINI, Call::Execute(execute));
    rig.turns();
}

/// The task that a command of this state has stopped.
fn stopped_by_command(state: &crate::task::machine::state::State) -> Option<String> {
    state.created.command.as_ref()?.args.first().cloned()
}

#[test]
fn a_prompt_that_is_sent_again_with_its_key_counts_once() {
    let mut rig = Rig::new();
    let (socket, session) = session_at_work(&mut rig);
    let before = rig.state(&session).seq;
    let again = join(&mut rig, "?client=ann&after=0", OWN);
    for key in [socket, again] {
        send(&mut rig, key, &[own(json!({"say": {"task": session, "text": "go", "id": "first"}}))]);
        let frames = seen(&mut rig, key);
        assert!(frames.iter().any(|frame| frame["ok"]["accepted"] == json!(true)), "{frames:?}");
    }
    assert_eq!(rig.state(&session).seq, before);
    send(&mut rig, again, &[own(json!({"say": {"task": session, "text": "go", "id": "second"}}))]);
    assert_eq!(rig.state(&session).queue.len(), 1);
}

#[test]
fn a_client_that_waits_for_a_prompt_is_answered_when_it_is_taken_back() {
    let mut rig = Rig::new();
    let (socket, session) = session_at_work(&mut rig);
    let waits = Say { task: Some(session.clone()), mode: Mode::Wait, ..crate::core::rig::say("more", Protocol::V03) };
    let waiting = rig.begin_ask(Dialect::RPC_03, Call::Say(waits));
    rig.turns();
    assert_eq!(rig.take(waiting), "");
    send(&mut rig, socket, &[own(json!({"drop": {"task": session, "turn": 2}}))]);
    assert!(rig.take(waiting).contains("200 OK"));
    assert!(rig.state(&session).queue.is_empty());
    send(&mut rig, socket, &[own(json!({"drop": {"task": session, "turn": 2}}))]);
    let frames = seen(&mut rig, socket);
    assert_eq!(frames.last().expect("a refusal")["error"]["reason"], "INVALID_PARAMS", "{frames:?}");
}

#[test]
fn the_terminal_speaks_in_lines_and_is_a_client_like_any_other() {
    let mut rig = Rig::new();
    let terminal = rig.core.terminal(rig.now);
    let ask = |rig: &mut Rig, call: Value| -> Vec<Value> {
        let line = format!("{}\n", json!({"id": 1, "call": call}));
        rig.core.input(crate::core::Input::Received { conn: terminal, bytes: line.as_bytes() }, rig.now);
        rig.turns();
        let lines = rig.take(terminal);
        lines.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
    };
    let session = ask(&mut rig, json!({"session": {}}))[0]["ok"].clone();
    let watching = ask(&mut rig, json!({"watch": {"task": session}}));
    assert!(watching.len() > 1 && watching[1]["event"].get("created").is_some(), "{watching:?}");
    let prompted = ask(&mut rig, json!({"say": {"task": session, "text": "hi"}}));
    let by =
        prompted.iter().find_map(|frame| Some(frame["event"]["prompted"]["by"].clone()).filter(|by| !by.is_null()));
    assert_eq!(by, Some(json!({"client": "you", "via": "terminal"})));
    // It costs nothing while nothing happens.
    rig.end_turn();
    rig.take(terminal);
    let before = rig.core.deadline();
    rig.later(10 * rig.limits.socket_ping_ms);
    assert_eq!(rig.take(terminal), "", "no pings");
    assert!(before.is_none_or(|at| at > rig.now.mono_ms), "{before:?}");
}
