//! Tests of folding: what each event changes in the scene. `tests/scene.rs` folds recorded journals.

use super::*;
use crate::limits::LIVE_TAIL_BYTES;
use serde_json::{Value, json, to_value};
use std::collections::BTreeSet;

fn fold(events: impl IntoIterator<Item = Value>) -> Scene {
    let mut scene = Scene::default();
    for (seq, event) in (1..).zip(events) {
        scene.fold(&record(seq, event));
    }
    scene
}

fn record(seq: u64, event: Value) -> Record {
    let event = serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{event}: {error}"));
    Record { seq: Seq(seq), at: seq * 1_000, event }
}

fn by(client: &str) -> Value {
    json!({"client": client, "via": "test"})
}

fn created() -> Value {
    json!({"created": {"task": "t", "context": "c", "lifecycle": "conversational", "protocol": "0.3", "profile": "coder",
                       "workspace": "/w", "trusted": true, "model": "m", "mode": "plan"}})
}

fn prompted(turn: u32, text: &str) -> Value {
    let message = json!({"id": "m", "role": "user", "parts": [{"content": {"text": text}}]});
    json!({"prompted": {"message": message, "by": by("ann"), "turn": turn}})
}

fn text(text: &str) -> Value {
    json!({"text": {"text": text}})
}

fn answered(text: &str, calls: &[&str]) -> Value {
    let calls = calls.iter().map(|id| json!({"call": {"id": id, "name": "shell", "args": {}}}));
    let parts: Vec<Value> = std::iter::once(json!({ "text": text })).chain(calls).collect();
    json!({"answered": {"answer": {"parts": parts, "usage": {"prompt": 7, "output": 3, "total": 10}, "model": "m-2"}}})
}

fn of_call(name: &str, more: Value) -> Value {
    let mut members = json!({"call": "c-1"});
    members.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({ name: members })
}

fn planned() -> Value {
    of_call("call_planned", json!({"plan": {"title": "make", "question": {"info": {"title": "q", "prompt": "?"}}}}))
}

fn asked() -> Value {
    of_call("call_asked", json!({"keeping": "disk"}))
}

fn ended(ending: Value) -> Value {
    of_call("call_ended", json!({ "ending": ending }))
}

fn turn_ended(end: Value) -> Value {
    json!({"turn_ended": {"turn": 1, "end": end}})
}

fn produced(text: &str, append: bool) -> Value {
    let artifact = json!({"id": "a", "parts": [{"content": {"text": text}}]});
    json!({"produced": {"artifact": artifact, "append": append, "last": false}})
}

/// A turn that has answered with a call and is answering again; another prompt is queued.
fn middle() -> Vec<Value> {
    vec![
        created(),
        prompted(1, "go"),
        json!({"turn_began": {"turn": 1}}),
        answered("I do.", &["c-1"]),
        planned(),
        prompted(2, "and then"),
        json!({"thought": {"subject": "Now", "description": "a"}}),
        text("so "),
    ]
}

/// Every event with the members that it changes after `middle`, beside `seq` and `at`.
fn rows() -> Vec<(Value, &'static str)> {
    let mut rows = turn_rows();
    rows.extend(call_and_end_rows());
    rows
}

fn turn_rows() -> Vec<(Value, &'static str)> {
    let blob = json!({"sha256": "0", "bytes": 1});
    let version = json!({"sha256": "0", "len": 1, "mode": 420});
    let change = json!({"call": "c-1", "root": "/w", "path": "a", "after": version});
    vec![
        (created(), "calls items model phase queue state turn turnAt usage"),
        (prompted(3, "x"), "queue"),
        (json!({"steered": {"turn": 2}}), "items queue"),
        (json!({"dropped": {"turn": 2, "by": by("bob")}}), "items queue"),
        (json!({"tuned": {"mode": "auto_edit", "model": "n", "by": by("bob")}}), "items mode model"),
        (json!({"revoked": {"rules": [], "by": by("bob")}}), "items"),
        (json!({"restored": {"to": 3, "conversation": "kept", "by": by("bob")}}), "items"),
        (json!({"shell_began": {"command": "make", "by": by("bob")}}), "items shell"),
        (json!({"shell_output": {"text": "x"}}), ""),
        (json!({"shell_ended": {"text": "x"}}), "items"),
        (json!({"turn_began": {"turn": 2}}), "items phase queue turn turnAt"),
        (json!("attachments_wanted"), "phase"),
        (json!({"attached": {"text": "a"}}), "items phase"),
        (json!("command_began"), "phase"),
        (
            json!({"command_expanded": {"parts": [{"shell": {"id": "c-9", "name": "run_shell_command", "args": {}}}]}}),
            "calls items",
        ),
        (json!({"command_prompted": {"text": "p"}}), "items phase"),
        (json!({"tools": {"names": [], "declarations": blob}}), ""),
        (json!({"server_seen": {"server": "s", "status": "connected"}}), ""),
        (json!({"traced": {"trace": "x"}}), ""),
        (json!({"hook_ran": {"point": "BeforeTool", "name": "h", "decision": "deny", "text": "no"}}), "items"),
        (json!({"reprompted": {"text": "go on"}}), "items phase"),
        (json!({"skill_activated": {"name": "s", "dir": "/s"}}), ""),
        (json!({"audited": {"chain": "c", "n": 1, "hash": "0"}}), ""),
        (json!({"owned": {"instance": "i", "epoch": 1}}), ""),
        (json!("released"), ""),
        (json!({"background": {"runs": true}}), ""),
        (json!({"heard": {"n": 1, "request": "r"}}), ""),
        (json!("deleted"), ""),
        (json!({"agent_called": {"agent": "a", "fingerprint": "f", "context": "c"}}), ""),
        (json!({"file_changed": change}), ""),
        (json!({"thought": {"subject": "s", "description": "d"}}), "items"),
        (text("more"), "items"),
        (json!({"cited": {"text": "[1]"}}), "items"),
        (json!({"retracted": {"reason": "r"}}), "items"),
        (json!({"backed_off": {"tries": {"failed": 1, "broken": 1}, "delay_ms": 5, "reason": "r"}}), "items phase"),
        (json!("retried"), "phase"),
        (json!({"fell_back": {"model": "n", "reason": "r"}}), "items model phase"),
        (json!("compaction_began"), "phase"),
        (json!({"compacted": {"summary": "s", "items": 1}}), "items phase"),
        (json!({"compaction_failed": {"reason": "r"}}), "items phase"),
        (json!("looped"), "items"),
        (json!({"nudged": {"text": "n"}}), "items phase"),
        (json!({"declined": {"text": "n"}}), "items"),
        (json!({"delayed": {"place": 2}}), "items"),
        (answered("so it is", &["c-2"]), "calls items usage"),
    ]
}

fn call_and_end_rows() -> Vec<(Value, &'static str)> {
    let target = json!({"id": "h", "url": "http://h/", "protocol": "1.0", "profile": "plain"});
    let inquiry = json!({"info": {"title": "q", "prompt": "?"}});
    let health = json!({"delivered": 1, "failed": 0, "streak": 0, "suspended": false});
    vec![
        (planned(), "calls"),
        (asked(), "asked calls"),
        (of_call("call_answered", json!({"choice": "proceed_once", "by": by("bob")})), "calls"),
        (of_call("call_ready", json!({})), "calls"),
        (of_call("call_started", json!({})), "calls"),
        (of_call("call_output", json!({"text": "x"})), "calls"),
        (of_call("call_inquired", json!({"nr": 1, "question": inquiry, "server": "s"})), "asked calls"),
        (of_call("call_replied", json!({"nr": 1, "action": "accept", "by": by("bob")})), "calls"),
        (ended(json!({"success": {"output": "x", "display": {"text": {"text": "x"}}}})), "calls"),
        (of_call("call_stale", json!({})), "calls items"),
        (json!("paused"), "state"),
        (json!("results_sent"), "phase"),
        (produced("x", false), "artifacts items"),
        (turn_ended(json!("done")), "calls items phase state"),
        (json!({"interrupted": {"text": "restarted"}}), "items phase state text"),
        (json!("resumed"), "items"),
        (json!({"closed": {"state": "canceled", "text": null}}), "calls items phase queue state"),
        (json!({"hook_set": {"target": target}}), "hooks"),
        (json!({"hook_dropped": {"id": "h"}}), ""),
        (json!({"hook_moved": {"id": "h", "upto": 1, "health": health}}), "hooks"),
    ]
}

/// The names of all events, as the message of an unknown one lists them.
fn event_names() -> BTreeSet<String> {
    let unknown = serde_json::from_value::<Event>(json!("no such event")).expect_err("there is no such event");
    let message = unknown.to_string();
    let (_, expected) = message.split_once("expected one of ").expect("the names follow");
    expected.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn each_event_changes_only_its_members() {
    let before = fold(middle());
    let members = |scene: &Scene| to_value(scene).expect("JSON").as_object().expect("an object").clone();
    let mut kinds = BTreeSet::new();
    for (event, expected) in rows() {
        let (mut after, record) = (before.clone(), record(9, event.clone()));
        after.fold(&record);
        let kind = event.as_str().or_else(|| event.as_object()?.keys().next().map(String::as_str)).expect("a name");
        assert!(kinds.insert(kind.to_owned()), "{kind} has two rows");
        let (old, new) = (members(&before), members(&after));
        let names: BTreeSet<&String> =
            old.keys().chain(new.keys()).filter(|name| !["seq", "at"].contains(&name.as_str())).collect();
        let changed: Vec<&str> =
            names.into_iter().filter(|name| old.get(*name) != new.get(*name)).map(String::as_str).collect();
        assert_eq!(changed.join(" "), expected, "{event}");
        assert_eq!((after.seq, after.at), (Seq(9), 9_000), "{event}");
    }
    assert_eq!(kinds, event_names(), "every event has a row");
}

fn items(scene: &Scene) -> Value {
    let without_numbers = |item: &Item| {
        let mut item = to_value(item).expect("JSON");
        item.as_object_mut().expect("an object").remove("seq");
        item
    };
    scene.items.iter().map(without_numbers).collect()
}

#[test]
fn the_text_of_an_answer_is_joined_and_then_replaced_by_the_answer() {
    let mut events = middle();
    events.extend([
        json!({"cited": {"text": "[1]"}}),
        text("it"),
        json!({"thought": {"subject": "", "description": "b"}}),
    ]);
    let open = fold(events.clone());
    let calls = &open.items[..3];
    assert_eq!(
        items(&open).as_array().expect("a list")[3..],
        [
            json!({"kind": "thought", "subject": "Now", "text": "a"}),
            json!({"kind": "text", "text": "so it", "open": true}),
            json!({"kind": "note", "word": "cited", "text": "[1]"}),
            json!({"kind": "thought", "subject": "", "text": "b"}),
        ]
    );
    events.push(answered("So it is.", &[]));
    let closed = fold(events.clone());
    assert_eq!(to_value(&closed.items[4]).expect("JSON")["text"], "So it is.");
    assert_eq!((closed.usage.total.total, closed.model.as_str()), (20, "m-2"));
    events.pop();
    events.push(json!({"retracted": {"reason": "broken"}}));
    let void = fold(events);
    assert_eq!(&void.items[..3], calls, "what was answered before stays");
    assert_eq!(
        items(&void).as_array().expect("a list")[3..],
        [json!({"kind": "note", "word": "retracted", "text": "broken"})]
    );
}

#[test]
fn only_the_last_of_several_waits_has_a_note() {
    let wait =
        |tries: u32| json!({"backed_off": {"tries": {"failed": tries, "broken": 0}, "delay_ms": 5, "reason": "r"}});
    let events = [wait(1), json!("retried"), wait(2)];
    let scene = fold([created(), prompted(1, "go"), json!({"turn_began": {"turn": 1}})].into_iter().chain(events));
    assert_eq!(scene.items.len(), 2);
    assert_eq!(scene.phase, Phase::BackedOff { until: 6_005, tries: 2, reason: "r".into() });
    // The note of an answered request stays.
    let scene = fold([created(), wait(1), answered("", &[]), wait(1)]);
    assert_eq!(scene.items.len(), 2);
}

#[test]
fn a_call_keeps_the_newest_output_until_its_ending_shows_it() {
    let start = [created(), answered("", &["c-1"]), planned(), asked(), of_call("call_started", json!({}))];
    let long = "é".repeat(LIVE_TAIL_BYTES) + "\n";
    let output = |text: &str| of_call("call_output", json!({ "text": text }));
    let call = |events: &[Value]| fold(start.iter().chain(events).cloned()).calls[&CallId::from("c-1")].clone();
    let running = call(&[output("x"), output(&long)]);
    assert_eq!((running.output_bytes, running.output_lines), (1 + long.len() as u64, 1));
    assert_eq!(
        (running.output.len(), running.started_at),
        (LIVE_TAIL_BYTES - 1, 5_000),
        "half a character is not kept"
    );
    let error = json!({"error": {"error": {"kind": "interrupted", "message": "gone"}}});
    let cancelled = |output: &str| json!({"cancelled": {"reason": "stop", "output": output}});
    let success = json!({"success": {"output": "o", "display": {"text": {"text": "o"}}}});
    for (ending, kept) in [(success, ""), (cancelled("x"), ""), (cancelled(""), "x"), (error, "x")] {
        let over = call(&[output("x"), ended(ending.clone())]);
        assert_eq!((over.output.as_str(), over.ended_at, over.is_over()), (kept, 7_000, true), "{ending}");
    }
}

#[test]
fn ends_of_turns_and_tasks_close_open_items() {
    let mut events = middle();
    events.push(asked());
    assert_eq!(fold(events.clone()).asked, ["c-1".into()]);
    for end in [json!("done"), json!({"failed": "no key"}), json!({"asked": "which?"}), json!({"needs_auth": "key"})] {
        let scene = fold(events.iter().cloned().chain([turn_ended(end.clone())]));
        let texts = scene.items.iter().filter(|item| matches!(item, Item::Text { open: true, .. })).count();
        assert_eq!((scene.asked.len(), texts, &scene.phase), (0, 0, &Phase::Idle), "{end}");
        assert_eq!(scene.calls[&CallId::from("c-1")].stage, Stage::Interrupted, "{end}");
        assert_eq!(scene.error.is_some(), end["failed"].is_string(), "{end}");
        assert_eq!(scene.text.is_some(), end != "done", "{end}");
    }
    let over = fold(events.into_iter().chain([json!({"closed": {"state": "completed", "text": "bye"}})]));
    assert_eq!((over.queue.len(), over.state, over.text.as_deref()), (0, Some(TaskState::Completed), Some("bye")));
    let [.., prompt, dropped, closed] = over.items.as_slice() else { panic!("three more") };
    assert!(matches!(prompt, Item::Prompt { prompt, .. } if prompt.text == "and then"));
    assert!(matches!(dropped, Item::Note { word: NoteWord::Dropped, .. }));
    assert!(matches!(closed, Item::Note { word: NoteWord::Closed, text, .. } if text == "completed"));
}

#[test]
fn artifacts_grow_and_are_replaced() {
    let texts = |events: Vec<Value>| {
        let scene = fold(std::iter::once(created()).chain(events));
        assert_eq!(scene.items.len(), 1);
        to_value(&scene.artifacts[0].parts).expect("JSON")
    };
    assert_eq!(texts(vec![produced("a", false), produced("b", true)]), json!([{"content": {"text": "ab"}}]));
    assert_eq!(texts(vec![produced("a", false), produced("b", false)]), json!([{"content": {"text": "b"}}]));
}

#[test]
fn events_about_unknown_calls_and_prompts_change_no_call() {
    for (event, _) in rows() {
        let scene = fold([created(), event.clone()]);
        assert!(scene.calls.len() <= 1, "{event}");
        fold([event]);
    }
}

#[test]
fn the_oldest_items_can_be_dropped_but_never_the_answer_under_way() {
    let mut scene = fold(middle().into_iter().chain([json!({"cited": {"text": "[1]"}})]));
    scene.trim(5);
    assert_eq!((scene.items.len(), scene.calls.len()), (5, 1));
    scene.trim(0);
    assert_eq!((scene.items.len(), scene.calls.len()), (3, 0));
    scene.fold(&record(10, text("it")));
    assert!(matches!(&scene.items[1], Item::Text { text, .. } if text == "so it"));
}
