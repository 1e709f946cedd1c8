//! Tests of printed lines: every event, full outputs, and text with control characters.

use crate::given::{answered_by, ask, busy, by, called, command, created, ended, event_names, planned, prompted};
use crate::session::{Session, setup};
use gemini_a2a::ui::format::style::{Colours, Style};
use gemini_a2a::ui::{Input, Setup};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn the_whole_output_is_printed_on_demand() {
    let mut session = busy();
    session.event(called("c-1", "run_shell_command", json!({"command": "seq 3000"})));
    session.event(json!({"call_started": {"call": "c-1"}}));
    let output: String = (1..=3_000).map(|n| format!("row {n}\n")).collect();
    session.event(json!({"call_ended": {"call": "c-1", "ending": {"success": {"output": "x", "display": {"text": {"text": output}}}}}}));
    assert!(!session.vt.everything().contains("row 1\n"));
    session.keys("\x0f");
    session.wait(2_000);
    let all = session.vt.everything();
    assert!(all.contains("row 1\n") && all.contains("row 2000\n") && !all.contains("row 2001\n"), "two thousand lines");
    assert!(all.contains("… 1000 lines more · they are in the log of the task"));
}

#[test]
fn stored_output_is_fetched_in_pieces() {
    use base64::Engine;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let mut session = busy();
    session.event(called("c-1", "run_shell_command", json!({"command": "make"})));
    let stored = json!({"sha256": "ab".repeat(32), "bytes": 12});
    session.event(json!({"call_ended": {"call": "c-1", "ending": {"success": {"output": "x", "display": {"text": {"text": stored}}}}}}));
    session.keys("\x0f");
    assert_eq!(session.call("blob").expect("a call").1["from"], 0);
    session.reply("blob", json!({"data": encode("first\n"), "len": 12}));
    assert_eq!(session.call("blob").expect("a call").1["from"], 6);
    session.reply("blob", json!({"data": encode("other\n"), "len": 12}));
    assert!(session.picture().contains("first\nother"), "{}", session.picture());
}

#[test]
fn output_of_any_length_takes_a_few_rows_and_little_memory() {
    let mut session = busy();
    session.event(called("c-1", "run_shell_command", json!({"command": "yes"})));
    session.event(json!({"call_started": {"call": "c-1"}}));
    let chunk = "a line of output\n".repeat(500);
    for _ in 0..200 {
        session.event(json!({"call_output": {"call": "c-1", "text": chunk}}));
    }
    session.event(json!({"call_output": {"call": "c-1", "text": "10%\r50%\r99%"}}));
    let picture = session.picture();
    assert!(picture.contains("  99%") && picture.contains("… 100000 lines so far"), "{picture}");
    assert!(picture.lines().filter(|line| line.contains("a line of output")).count() < 5);
}

#[test]
fn escapes_of_the_model_and_of_tools_are_visible() {
    let evil = "\x1b]52;c;aGk=\x07\x1b[2J\u{9b}31m\x1bP\x1b\\";
    let mut session = Session::connected(setup(), 80, 24);
    session.event(prompted(1, &format!("x{evil}"), evil));
    session.event(json!({"turn_began": {"turn": 1}}));
    session.event(json!({"text": {"text": format!("{evil}\n\n")}}));
    let parts = json!([{"call": {"id": "c-1", "name": format!("tool{evil}"), "args": {}}}]);
    session.event(json!({"answered": {"answer": {"parts": parts}}}));
    session.event(json!({"call_ended": {"call": "c-1", "ending": {"success": {"output": evil, "display": {"text": {"text": evil}}}}}}));
    session.event(json!({"turn_ended": {"turn": 1, "end": {"failed": evil}}}));
    assert!(session.vt.signals.iter().all(|signal| signal == "bell"), "{:?}", session.vt.signals);
    assert!(session.vt.everything().contains("␛]52;c;aGk=␇␛[2J\\x9b31m"));
}

#[test]
fn a_slash_command_that_becomes_a_prompt_is_named() {
    let mut session = Session::connected(setup(), 80, 24);
    session.event(prompted(1, "you", "/init all"));
    session.event(json!({"turn_began": {"turn": 1}}));
    session.event(json!("command_began"));
    session.event(json!({"command_prompted": {"text": "Look at the project."}}));
    assert!(session.vt.everything().contains("\n✓ /init\n"), "{}", session.vt.everything());
}

/// A command of the user is shown while it runs, can be stopped, and leaves its output as it was.
#[test]
fn a_command_of_the_user_shows_its_output_and_its_end() {
    let mut session = Session::connected(setup(), 80, 24);
    session.take(Input::Bytes(b"!make all"));
    assert!(session.picture().contains("\n! make all█"), "keys that come at once are keys: {}", session.picture());
    session.wait(100);
    session.keys("\r");
    assert_eq!(session.call("shell").expect("a command").1["command"], "make all");
    session.event(json!({"shell_began": {"command": "make all", "by": by("you")}}));
    session.event(json!({"shell_output": {"text": "\tcc  -c   a.c\n"}}));
    session.wait(4_000);
    let picture = session.picture();
    assert!(picture.contains("! make all · 4s · esc stops\n          cc  -c   a.c"), "{picture}");
    session.keys("\x1b");
    session.wait(100);
    assert!(session.call("abort").is_some());
    let output: String = (0..50).map(|n| format!("    line {n}\n")).collect();
    session.event(json!({"shell_output": {"text": output}}));
    let result = format!("<untrusted_context>\nOutput: {output}Exit Code: 2\n</untrusted_context>");
    session.event(json!({"shell_ended": {"text": result}}));
    session.wait(100);
    let all = session.vt.everything();
    assert!(all.contains("! make all · exit 2 · 4s\n") && all.contains("\n      line 49\n"), "{all}");
    assert!(all.contains("  … 21 lines above · ctrl-o prints them"), "{all}");
    assert!(!all.contains("untrusted") && !all.contains("Output:") && !all.contains("    line 3\n"), "{all}");
    session.keys("\x0f");
    session.wait(500);
    let all = session.vt.everything();
    assert!(all.contains("↓ ! make all\n        cc  -c   a.c\n    line 0\n"), "{all}");
}

/// An event, and a part of the screen that shows it; None if nothing is printed. The event follows a prompt; an event about a call also
/// follows the start of that call.
type Row = (Value, Option<&'static str>);

/// Events of the model.
#[rustfmt::skip]
fn events_of_the_model() -> Vec<Row> {
    let waits = json!({"tries": {"failed": 2, "broken": 0}, "delay_ms": 8000, "reason": "Rate limit"});
    let fallback = json!({"fell_back": {"model": "gemini-flash", "reason": "gemini-pro cannot be had"}});
    vec![
        (json!({"thought": {"subject": "Thinking hard", "description": "d"}}), Some("Thinking hard")),
        (json!({"text": {"text": "Some words.\n\n"}}), Some("\nSome words.")),
        (json!({"cited": {"text": "https://e.org"}}), None),
        (json!({"backed_off": waits}), Some("! Rate limit")),
        (json!("retried"), None),
        (fallback, Some("! gemini-pro cannot be had; gemini-flash answers from here on")),
        (json!("compaction_began"), Some("summarising")),
        (json!({"compacted": {"summary": "s", "items": 3}}), Some("· The conversation was summarised")),
        (json!({"compaction_failed": {"reason": "no"}}), Some("! The conversation could not be summarised: no")),
        (json!("looped"), Some("! The model repeats itself: equal calls were not run")),
        (json!({"nudged": {"text": "x"}}), Some("! The model repeats itself and was told so")),
        (json!({"declined": {"text": "The answer was blocked"}}), Some("! The answer was blocked")),
        (json!({"retracted": {"reason": "x"}}), None),
        (json!({"answered": {"answer": {"parts": [{"text": "All at once."}]}}}), Some("\nAll at once.")),
        (json!("results_sent"), None),
        (json!({"tools": {"names": [], "declarations": {"sha256": "0", "bytes": 1}}}), None),
        (json!({"server_seen": {"server": "s", "status": "connected"}}), None),
        (json!({"traced": {"trace": "t"}}), None),
    ]
}

/// Events of calls.
#[rustfmt::skip]
fn events_of_calls() -> Vec<Row> {
    let of_call = |name: &str, more: Value| {
        let mut members = json!({"call": "c-1"});
        members.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ name: members })
    };
    let asks = json!({"question": "How many?", "header": "Count", "type": "text", "options": []});
    let inquiry = json!({"nr": 1, "question": {"ask_user": {"title": "tracker asks", "questions": [asks]}}, "server": "tracker"});
    let file = json!({"call": "c-1", "root": "/w", "path": "a", "after": {"sha256": "0", "len": 1, "mode": 420}});
    let hook = json!({"point": "BeforeTool", "name": "h", "decision": "deny", "text": "Not on a Friday"});
    vec![
        (planned(command("make all")), None),
        (of_call("call_asked", json!({})), Some("? Shell")),
        (answered_by("phone", "proceed_once"), None),
        (of_call("call_ready", json!({})), None),
        (of_call("call_started", json!({})), None),
        (of_call("call_output", json!({"text": "some output\n"})), Some("\n  some output")),
        (of_call("call_inquired", inquiry), Some("tracker asks")),
        (of_call("call_replied", json!({"nr": 1, "action": "accept", "by": by("phone")})), None),
        (ended("one line"), Some("✓ Shell make · exit 0")),
        (of_call("call_stale", json!({})), Some("! make changed while you were asked")),
        (json!({"file_changed": file}), None),
        (json!({"skill_activated": {"name": "s", "dir": "/s"}}), None),
        (json!({"agent_called": {"agent": "a", "fingerprint": "f", "context": "c"}}), None),
        (json!({"hook_ran": hook}), Some("! Not on a Friday")),
        (json!({"reprompted": {"text": "go on"}}), Some("!")),
    ]
}

/// Events of the task and of people.
#[rustfmt::skip]
fn events_of_the_task() -> Vec<Row> {
    let artifact = json!({"id": "a", "name": "report", "parts": []});
    let target = json!({"id": "h", "url": "http://h/", "protocol": "1.0", "profile": "plain"});
    let health = json!({"delivered": 1, "failed": 0, "streak": 0, "suspended": false});
    let ended = |end: Value| json!({"turn_ended": {"turn": 1, "end": end}});
    vec![
        (prompted(2, "phone", "next one"), Some("  next  [A2A] phone: next one")),
        (json!("attachments_wanted"), Some("reading files")),
        (json!("command_began"), Some("running the command")),
        (json!({"attached": {"text": "x"}}), Some("✓ Read the files named with @")),
        (json!({"command_prompted": {"text": "x"}}), Some("✓ The command became a prompt")),
        (json!({"dropped": {"turn": 1, "by": by("phone")}}), Some("· phone [A2A] took back: go")),
        (json!({"tuned": {"mode": "plan", "by": by("phone")}}), Some(" · plan")),
        (json!({"revoked": {"rules": [], "by": by("phone")}}), Some("· phone took permissions back")),
        (json!({"delayed": {"place": 2}}), Some("· As many turns run for this credential as may at a time.")),
        (json!({"shell_began": {"command": "git stash", "by": by("you")}}), Some("! git stash")),
        (json!({"shell_ended": {"text": "nothing to stash"}}), Some("nothing to stash")),
        (json!({"interrupted": {"text": "x"}}), Some("· The server was restarted in mid-turn. Enter goes on")),
        (json!({"closed": {"state": "completed"}}), Some("· This session is over (completed)")),
        (json!({"produced": {"artifact": artifact, "append": false, "last": true}}), Some("✓ Artifact report")),
        (ended(json!("done")), None),
        (json!({"turn_ended": {"turn": 1, "end": "done", "by": by("you")}}), Some("· stopped by you")),
        (ended(json!({"failed": "The key was refused"})), Some("✗ The key was refused")),
        (ended(json!({"asked": "Which one?"})), Some("? Which one?")),
        (json!("paused"), None),
        (created("t-1"), None),
        (json!({"turn_began": {"turn": 2}}), None),
        (json!({"steered": {"turn": 2}}), None),
        (json!({"command_expanded": {"parts": []}}), None),
        (json!({"shell_output": {"text": "x"}}), None),
        (json!({"restored": {"to": 1, "conversation": "kept", "by": by("phone")}}), Some("· phone went back to before event 1")),
        (json!("resumed"), Some("· The turn goes on")),
        (json!({"audited": {"chain": "c", "n": 1, "hash": "0"}}), None),
        (json!({"owned": {"instance": "i", "epoch": 1}}), None),
        (json!("released"), None),
        (json!({"background": {"runs": true}}), None),
        (json!({"heard": {"n": 1, "request": "r"}}), None),
        (json!("deleted"), None),
        (json!({"hook_set": {"target": target}}), None),
        (json!({"hook_dropped": {"id": "h"}}), None),
        (json!({"hook_moved": {"id": "h", "upto": 1, "health": health}}), None),
    ]
}

#[test]
fn each_event_has_its_place_on_the_screen() {
    let (mut names, mut wrong) = (BTreeSet::new(), Vec::new());
    for (event, expected) in events_of_the_model().into_iter().chain(events_of_calls()).chain(events_of_the_task()) {
        let name = event.as_str().or_else(|| event.as_object()?.keys().next().map(String::as_str)).expect("a name");
        names.insert(name.to_owned());
        let mut session = busy();
        if event.to_string().contains("c-1") {
            session.event(called("c-1", "run_shell_command", json!({"command": "make"})));
            session.event(planned(command("make")));
            session.event(json!({"call_started": {"call": "c-1"}}));
        }
        let before = session.vt.everything();
        session.event(event.clone());
        let all = session.vt.everything();
        match expected {
            Some(part) if all.contains(part) && !before.contains(part) => {}
            None if all.lines().count() <= before.lines().count() => {}
            Some(part) => wrong.push(format!("{event}: {part:?} is not in\n{all}")),
            None => wrong.push(format!("{event} prints something:\n{all}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(names, event_names(), "every event has a row");
}

#[test]
fn an_answer_that_breaks_off_begins_anew_below_what_was_printed() {
    let mut session = busy();
    session.event(json!({"text": {"text": "The first try.\n\nMore of"}}));
    session.event(json!({"retracted": {"reason": "x"}}));
    session.event(json!({"text": {"text": "The second try.\n\n"}}));
    let expected =
        "The first try.\n\n↺ The answer above broke off; it is asked again and begins anew\n\nThe second try.";
    assert!(session.vt.everything().contains(expected), "{}", session.vt.everything());
    let mut unseen = busy();
    unseen.event(json!({"text": {"text": "Nothing was printed of"}}));
    unseen.event(json!({"retracted": {"reason": "x"}}));
    assert!(!unseen.vt.everything().contains('↺'));
}

/// Signs, not only colours, mark added and removed lines.
#[test]
fn a_change_is_clear_without_colours() {
    let style = Style { colours: Colours::None, background: None, themed: false, unicode: true };
    let mut session = Session::connected(Setup { style, ..setup() }, 80, 24);
    session.event(prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    ask(&mut session, crate::given::edit());
    let picture = session.picture();
    assert!(picture.contains("    1 -a\n    1 +b"), "{picture}");
    assert!(!session.vt.styled().contains("{3"), "{}", session.vt.styled());
}

#[test]
fn tools_at_once_are_printed_once_each_in_the_order_of_their_ends() {
    let mut session = busy();
    let call = |id: &str| json!({"call": {"id": id, "name": "read_file", "args": {"file_path": format!("{id}.rs")}}});
    session.event(json!({"answered": {"answer": {"parts": [call("a"), call("b"), call("c")]}}}));
    for id in ["a", "b", "c"] {
        session.event(json!({"call_started": {"call": id}}));
    }
    for id in ["c", "a", "b"] {
        let ending = json!({"success": {"output": "x", "display": {"text": {"text": "done"}}}});
        session.event(json!({"call_ended": {"call": id, "ending": ending}}));
    }
    let all = session.vt.everything();
    let ends: Vec<&str> = all.lines().filter(|line| line.starts_with("✓ Read")).collect();
    assert_eq!(ends, ["✓ Read c.rs · done", "✓ Read a.rs · done", "✓ Read b.rs · done"]);
}
