//! Tests of the connection: replays, reconnects, logs that were replaced, other tasks.

use crate::given::{busy, by, created, frames, journals, prompted, watching};
use crate::session::{Session, setup};
use gemini_a2a::task::message::Source;
use gemini_a2a::ui::{Input, Setup};
use serde_json::json;

#[test]
fn a_replay_prints_what_the_live_session_printed() {
    let mut printed = 0;
    for path in journals() {
        for columns in [40, 80, 120] {
            let (mut live, mut replay) = (watching(columns), watching(columns));
            for frame in frames(&path) {
                live.take(Input::Frame(&frame));
                live.wait(30);
            }
            for frame in frames(&path) {
                replay.ui.take(Input::Frame(&frame), replay.now);
            }
            // Toasts have disappeared in both, and both show the same time.
            live.wait(20_000);
            replay.now = live.now;
            replay.wait(1_000);
            live.wait(1_000);
            assert_eq!(live.vt.everything(), replay.vt.everything(), "{} at {columns}", path.display());
            printed += live.vt.everything().lines().count();
        }
    }
    assert!(printed > 1_000, "the journals are long: {printed}");
}

#[test]
fn a_link_that_is_cut_again_and_again_prints_every_row_once() {
    let mut session = watching(80);
    let text = |n: u64| json!({"text": {"text": format!("Paragraph {n}.\n\n")}});
    session.record(1, created("t-1"));
    session.record(2, prompted(1, "you", "go"));
    session.record(3, json!({"turn_began": {"turn": 1}}));
    let mut known = 3;
    for cut in 0..100 {
        for seq in known + 1..=known + 3 {
            session.record(seq, text(seq));
        }
        known += 3;
        let retry_at = session.now.mono_ms + 500;
        session.take(Input::Lost { retry_at });
        session.wait(500);
        session.take(Input::Connected);
        let (_, watch) = session.call("watch").expect("a watch");
        assert_eq!(watch["after"], json!(known), "cut {cut}");
        session.reply("watch", json!({"taskId": "t-1", "after": known}));
        // A record that the terminal has already is not printed again.
        session.record(known, text(known));
    }
    session.wait(100);
    let all = session.vt.everything();
    for seq in 4..known {
        let count = all.lines().filter(|line| *line == format!("Paragraph {seq}.")).count();
        assert_eq!(count, 1, "paragraph {seq}");
    }
}

#[test]
fn a_prompt_typed_while_away_arrives_once() {
    let mut session = busy();
    let retry_at = session.now.mono_ms + 4_000;
    session.take(Input::Lost { retry_at });
    session.keys("hello");
    session.wait(100);
    session.keys("\r");
    assert_eq!(session.call("say"), None);
    assert!(session.picture().contains("next  hello"), "{}", session.picture());
    session.take(Input::Connected);
    let (id, first) = session.call("say").expect("a prompt");
    session.take(Input::Lost { retry_at });
    session.take(Input::Connected);
    let (again, second) = session.call("say").expect("the same prompt");
    assert_eq!((id, &first), (again, &second), "the server knows it by its key");
    session.reply("say", json!({"taskId": "t-1", "accepted": true}));
    session.take(Input::Lost { retry_at });
    let before = session.calls.len();
    session.take(Input::Connected);
    assert!(!session.calls[before..].iter().any(|(_, call)| call.get("say").is_some()));
}

#[test]
fn a_replaced_log_is_folded_from_its_start() {
    let mut session = busy();
    session.event(json!({"text": {"text": "Old words.\n\n"}}));
    session.take(Input::Lost { retry_at: 0 });
    session.take(Input::Connected);
    session.reply("watch", json!({"taskId": "t-1", "after": 0}));
    session.record(1, created("t-1"));
    session.record(2, prompted(1, "you", "new words"));
    session.record(3, json!({"turn_began": {"turn": 1}}));
    let picture = session.picture();
    assert!(picture.contains("· The log begins anew") && picture.contains("› new words"), "{picture}");
}

/// The records of a session may come before the first frame is painted.
#[test]
fn the_header_is_above_the_log() {
    for attached in [false, true] {
        let mut setup = Setup { attached, ..setup() };
        if attached {
            setup.viewer.workspace = String::new();
            setup.viewer.me = Source::new("ann@host", "gemini-a2a");
        }
        let mut session = Session::new(setup, 80, 24);
        let mut answers =
            vec![json!({"id": 1, "ok": {"workspace": "/home/ann/src/parser"}}), json!({"id": 3, "ok": "t-1"})];
        answers.push(json!({"id": 4, "ok": {"taskId": "t-1", "after": 0, "seq": 3}}));
        let began = json!({"turn_began": {"turn": 1}});
        for (seq, event) in (1..).zip([created("t-1"), prompted(1, "you", "go"), began]) {
            answers.push(json!({"task": "t-1", "seq": seq, "at": session.now.unix_ms, "event": event}));
        }
        session.ui.take(Input::Connected, session.now);
        if attached {
            session.paint();
        }
        for answer in answers {
            session.ui.take(Input::Frame(&answer.to_string()), session.now);
        }
        session.paint();
        let picture = session.picture();
        let prompt = if attached { "› [A2A] terminal: go" } else { "› go" };
        let above = ["gemini-a2a 0.1.0 · ~/src/parser · main", "", prompt].join("\n");
        assert!(picture.starts_with(&above), "attached {attached}: {picture}");
    }
}

/// A question that was answered before the terminal came opens no dialog and rings no bell.
#[test]
fn questions_answered_in_the_past_are_not_asked() {
    let mut session = Session::new(Setup { attached: true, ..setup() }, 80, 24);
    session.take(Input::Connected);
    session.reply("session", json!("t-1"));
    session.reply("watch", json!({"taskId": "t-1", "after": 0, "seq": 7}));
    let question = crate::given::planned(crate::given::command("ls"));
    let call = crate::given::called("c-1", "run_shell_command", json!({}));
    let asked = json!({"call_asked": {"call": "c-1"}});
    let answered = json!({"call_answered": {"call": "c-1", "choice": "cancel", "by": by("phone")}});
    let began = json!({"turn_began": {"turn": 1}});
    for event in [created("t-1"), prompted(1, "phone", "go"), began, call, question, asked, answered] {
        session.event(event);
        session.wait(100);
        assert!(session.vt.visible && session.vt.signals.is_empty(), "{:?}", session.vt.signals);
    }
    assert!(session.picture().contains("› [A2A] phone: go"), "{}", session.picture());
}

/// Records that come after `unwatch` are not shown.
#[test]
fn records_between_two_logs_are_dropped() {
    let mut session = busy();
    session.event(json!({"text": {"text": "Old.\n\n"}}));
    session.keys("/resume");
    session.wait(100);
    session.keys("\r");
    session.reply("briefs", json!({"tasks": [{"task": "t-1", "title": "x", "at": 0, "turns": 1}]}));
    session.keys("\r");
    session.event(json!({"text": {"text": "Between.\n\n"}}));
    session.reply("watch", json!({"taskId": "t-1", "after": 0, "seq": 3}));
    session.record(1, created("t-1"));
    session.record(2, prompted(1, "you", "again"));
    session.record(3, json!({"turn_began": {"turn": 1}}));
    let all = session.vt.everything();
    assert!(all.contains("› again") && !all.contains("Between."), "{all}");
}
