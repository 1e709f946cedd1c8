//! Tests of typing: drafts, history, pastes, completion, and keys that stop and quit.

use crate::given::{ask, busy, command, prompted};
use crate::session::{Session, setup};
use gemini_a2a::limits::ui::{PASTE_BYTES, POPUP_ROWS, PROMPT_BYTES};
use gemini_a2a::ui::{Input, UiEffect};
use serde_json::json;

#[test]
fn quitting_takes_two_keys_and_always_works() {
    for prepare in ["", "draft", "/me", "\x12search", "!ls"] {
        let mut session = busy();
        session.keys(prepare);
        session.keys("\x03");
        assert!(!session.effects.contains(&UiEffect::Quit), "{prepare:?}");
        session.keys("\x03");
        assert!(session.effects.contains(&UiEffect::Quit), "{prepare:?}");
    }
    let mut question = busy();
    question.wait(1_000);
    ask(&mut question, command("ls"));
    question.keys("\x03\x03");
    assert!(question.effects.contains(&UiEffect::Quit));
    let mut slow = Session::connected(setup(), 80, 24);
    slow.keys("\x03");
    slow.wait(3_100);
    slow.keys("\x03");
    assert!(!slow.effects.contains(&UiEffect::Quit), "too late: it is armed anew");
    slow.keys("\x04");
    assert!(slow.effects.contains(&UiEffect::Quit), "and Ctrl-D counts too");
    let bytes = slow.ui.farewell();
    slow.vt.feed(&bytes);
    assert!(slow.vt.visible && !slow.picture().contains('›'), "{}", slow.picture());
}

#[test]
fn cleared_drafts_are_in_the_history() {
    let mut session = Session::connected(setup(), 80, 24);
    session.keys("one");
    session.keys("\x03");
    session.keys("two");
    session.take(Input::Bytes(b"\x1b"));
    session.wait(100);
    session.take(Input::Bytes(b"\x1b"));
    session.wait(100);
    assert_eq!(session.effects, [UiEffect::Remember("one".into()), UiEffect::Remember("two".into())]);
    session.keys("\x1b[A");
    assert!(session.picture().contains("› two█"));
}

#[test]
fn a_prompt_that_was_stopped_before_any_output_is_written_again() {
    let mut session = busy();
    session.take(Input::Bytes(b"\x1b"));
    session.wait(100);
    assert!(session.call("abort").is_some());
    assert!(session.picture().contains("› go█"), "{}", session.picture());
    let mut thinking = busy();
    thinking.event(json!({"thought": {"subject": "Hm", "description": "d"}}));
    thinking.take(Input::Bytes(b"\x1b"));
    thinking.wait(100);
    assert!(thinking.picture().contains("› go█"), "a thought is no output: {}", thinking.picture());
    let mut begun = busy();
    begun.event(json!({"text": {"text": "Some words"}}));
    begun.take(Input::Bytes(b"\x1b"));
    begun.wait(100);
    assert!(!begun.picture().contains("› go█"));
    let mut drafted = busy();
    drafted.keys("draft");
    drafted.take(Input::Bytes(b"\x1b"));
    drafted.wait(100);
    assert!(drafted.picture().contains("› draft█"));
}

#[test]
fn enter_steers_tab_queues_and_up_takes_back() {
    let mut session = busy();
    session.keys("now");
    session.wait(100);
    session.keys("\r");
    assert_eq!(session.call("say").expect("a prompt").1["steer"], true);
    session.keys("later");
    session.keys("\t");
    assert_eq!(session.call("say").expect("a prompt").1["steer"], false);
    session.event(prompted(2, "you", "later"));
    session.event(prompted(3, "phone", "theirs"));
    session.keys("\x1b[A");
    assert_eq!(session.call("drop").expect("a call").1["turn"], 2, "the newest own one");
    assert!(session.picture().contains("› later█"));
    session.event(json!({"dropped": {"turn": 2, "by": {"client": "you", "via": "terminal"}}}));
    assert!(session.picture().contains("· you took back: later"), "{}", session.picture());
}

#[test]
fn pasted_text_triggers_nothing() {
    for text in ["/quit", "!rm -rf x", "@src", "?", "/quit\n"] {
        let mut session = Session::connected(setup(), 80, 24);
        session.take(Input::Bytes(format!("\x1b[200~{text}\x1b[201~").as_bytes()));
        session.wait(200);
        assert!(session.effects.is_empty() && session.call("files").is_none(), "{text}");
        assert!(session.picture().contains(text.trim_end()), "{}", session.picture());
        assert!(!session.picture().contains("enter send"), "{text}");
    }
}

/// Replies of the terminal may come late and in pieces; they never become text.
#[test]
fn late_replies_never_reach_the_draft() {
    let replies = "\x1b]11;rgb:0000/2b2b/3636\x1b\\\x1b[?62;22c\x1bP>|tmux 3.3a\x1b\\\x1b[?1u\x1b[?2026;2$y\x1b[24;80R";
    for at in 0..replies.len() {
        let mut session = Session::connected(setup(), 80, 24);
        session.keys("a");
        session.wait(3_000);
        session.ui.take(Input::Bytes(&replies.as_bytes()[..at]), session.now);
        // Less than the time after which a lone ESC is a key.
        session.now.mono_ms += 40;
        session.take(Input::Bytes(&replies.as_bytes()[at..]));
        session.wait(2_000);
        session.keys("b");
        assert!(session.picture().contains("› ab█"), "cut at {at}: {}", session.picture());
    }
}

#[test]
fn the_longest_paste_is_one_frame_and_is_sent_whole() {
    let mut session = Session::connected(setup(), 80, 24);
    let text = "some pasted words ".repeat(PASTE_BYTES / 18);
    session.wait(100);
    session.now.mono_ms += 20;
    let sent = session.sent.len();
    session.ui.take(Input::Bytes(format!("\x1b[200~{text}\x1b[201~").as_bytes()), session.now);
    let bytes = session.ui.paint(session.now);
    session.vt.feed(&bytes);
    assert!(bytes.len() < 1_000 && session.picture().contains("[pasted 1 line #1]"), "{}", session.picture());
    assert_eq!(session.sent.len(), sent);
    session.wait(100);
    session.keys("\r");
    assert_eq!(session.call("say").expect("a prompt").1["text"].as_str(), Some(text.trim()));
}

#[test]
fn a_list_is_below_the_cursor_and_short() {
    let mut session = Session::connected(setup(), 80, 24);
    session.keys("/");
    let picture = session.picture();
    let (above, below) = picture.split_once('█').expect("a cursor");
    assert!(above.ends_with("› /") && !above.contains("/help"), "{picture}");
    let list: Vec<&str> = below.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert_eq!(list.len(), POPUP_ROWS, "{picture}");
    assert!(list[0].contains("/help"), "{picture}");
}

#[test]
fn an_open_list_is_closed_when_the_draft_is_edited() {
    let mut session = Session::connected(setup(), 80, 24);
    session.keys("/me");
    session.keys("\x07");
    session.take(Input::Edited(Ok("x".into())));
    session.wait(100);
    assert!(!session.picture().contains("/memory"), "{}", session.picture());
    session.keys("\r");
    assert_eq!(session.call("say").expect("a prompt").1["text"], "x");
}

/// Commands of the server that arrive while the list is open are added to it.
#[test]
fn commands_that_arrive_late_are_in_the_open_list() {
    let mut session = Session::new(setup(), 80, 24);
    session.take(Input::Connected);
    session.keys("/me");
    assert!(session.picture().contains("/resume") && !session.picture().contains("/memory"), "{}", session.picture());
    let command = json!({"name": "memory show", "description": "Shows what is remembered."});
    session.reply("about", json!({"version": "0.1.0", "workspace": "/w", "commands": [command]}));
    assert!(session.picture().contains("  › /memory show  shows what is remembered"), "{}", session.picture());
}

#[test]
fn a_slow_answer_with_files_does_not_block_typing() {
    let mut session = Session::connected(setup(), 80, 24);
    session.keys("@l");
    let (first, _) = session.call("files").expect("a call");
    session.keys("ex and so on");
    assert!(session.picture().contains("› @lex and so on█"), "{}", session.picture());
    session.frame(json!({"id": first, "ok": {"paths": ["src/lexer.rs"], "total": 1}}));
    assert!(!session.picture().contains("src/lexer.rs"), "the word is complete: {}", session.picture());
    session.keys(" @le");
    session.reply("files", json!({"paths": ["src/lexer.rs"], "total": 9}));
    assert!(session.picture().contains("› src/lexer.rs") && session.picture().contains("1 of 9"));
}

#[test]
fn the_number_of_unsent_prompts_is_limited() {
    use gemini_a2a::limits::ui::CALLS_OPEN;
    let mut session = busy();
    session.take(Input::Lost { retry_at: u64::MAX });
    for number in 0..=CALLS_OPEN {
        session.keys(&format!("p{number}"));
        session.wait(100);
        session.keys("\t");
    }
    let picture = session.picture();
    assert!(picture.contains(&format!("› p{CALLS_OPEN}█")) && picture.contains("Too many prompts"), "{picture}");
    let before = session.calls.len();
    session.take(Input::Connected);
    let prompts = session.calls[before..].iter().filter(|(_, call)| call.get("say").is_some()).count();
    assert_eq!(prompts, CALLS_OPEN);
}

/// A prompt at the limit is sent; one character more is not, and stays in the draft.
#[test]
fn a_prompt_that_no_server_accepts_is_not_sent() {
    let quotes = 2;
    for (more, is_sent) in [(0, true), (1, false)] {
        let mut session = Session::connected(setup(), 80, 24);
        let mut left = PROMPT_BYTES - quotes + more;
        while left > 0 {
            let piece = left.min(PASTE_BYTES);
            session.take(Input::Bytes(format!("\x1b[200~{}\x1b[201~", "x".repeat(piece)).as_bytes()));
            left -= piece;
        }
        session.wait(1_000);
        session.keys("\r");
        assert_eq!(session.call("say").is_some(), is_sent);
        assert_eq!(session.picture().contains("too long to be sent"), !is_sent, "{}", session.picture());
    }
}

/// The footer says how full the window of the present model is.
#[test]
fn another_model_has_another_window() {
    let mut session = busy();
    let usage = json!({"prompt": 128_000, "output": 0, "total": 128_000});
    session.event(json!({"answered": {"answer": {"parts": [{"text": "x"}], "usage": usage}}}));
    assert!(session.picture().contains(" · 12% · "), "{}", session.picture());
    session.event(json!({"tuned": {"model": "gemma-4", "by": {"client": "you", "via": "terminal"}}}));
    session.reply("about", json!({"window": 256_000}));
    assert!(session.picture().contains(" · gemma-4 · 50% · "), "{}", session.picture());
}
