//! Tests of questions: when they take keys, what must have been shown, and the effects of answers.

use crate::given::{answered_by, ask, asked, busy, called, command, edit, is_focused, planned};
use crate::session::{Session, setup};
use gemini_a2a::base::clock::Now;
use gemini_a2a::ui::{Input, Setup, TrustChoice, TrustQuestion, UiEffect};
use serde_json::{Value, json};

#[test]
fn a_question_is_focused_only_if_nobody_writes() {
    for (draft, idle, focused) in [("", 700, true), ("", 699, false), ("x", 5_000, false), ("x", 100, false)] {
        let mut session = busy();
        let pressed = session.now;
        session.take(Input::Bytes(if draft.is_empty() { b"\x1b[C" } else { draft.as_bytes() }));
        session.now = Now { mono_ms: pressed.mono_ms + idle, unix_ms: pressed.unix_ms + idle };
        // Nothing is painted between the key and the question, so that the clock does not advance.
        let call = called("c-1", "run_shell_command", json!({}));
        for event in [call, planned(command("ls")), json!({"call_asked": {"call": "c-1"}})] {
            session.seq += 1;
            let frame = json!({"task": "t-1", "seq": session.seq, "at": session.now.unix_ms, "event": event});
            session.ui.take(Input::Frame(&frame.to_string()), session.now);
        }
        session.wait(50);
        assert_eq!(is_focused(&session), focused, "draft {draft:?}, idle for {idle} ms");
    }
}

#[test]
fn keys_count_only_after_the_question_was_seen_for_a_while() {
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, command("ls"));
    session.wait(300);
    session.take(Input::Bytes(b"1"));
    assert_eq!(session.call("answer"), None);
    session.wait(300);
    session.take(Input::Bytes(b"1"));
    assert_eq!(session.call("answer"), None, "the first key began the wait anew");
    session.wait(350);
    session.take(Input::Bytes(b"1"));
    let (_, answer) = session.call("answer").expect("an answer");
    assert_eq!(
        (&answer["option"], &answer["call"], &answer["seen"]),
        (&json!("proceed_once"), &json!("c-1"), &json!(5))
    );
}

#[test]
fn letters_and_digits_are_text_while_a_question_waits() {
    let mut session = busy();
    session.keys("a");
    ask(&mut session, command("ls"));
    session.wait(2_000);
    session.keys("1yn");
    assert_eq!(session.call("answer"), None);
    assert!(session.picture().contains("› a1yn█"), "{}", session.picture());
    session.keys("\t");
    session.wait(400);
    session.keys("1");
    assert!(session.call("answer").is_some());
    assert!(session.picture().contains("› a1yn█"), "the draft is still there");
}

/// A question that waits beside the draft does not end the turn: it can be stopped, and steered.
#[test]
fn a_turn_can_be_stopped_while_a_question_waits() {
    for key in ["\x1b", "\x03"] {
        let mut session = busy();
        session.keys("a");
        ask(&mut session, command("ls"));
        session.keys("\x7f");
        session.keys(key);
        session.wait(100);
        assert!(session.call("abort").is_some(), "{key:?}");
    }
    let mut session = busy();
    session.keys("a");
    ask(&mut session, command("ls"));
    session.wait(100);
    session.keys("\r");
    assert_eq!(session.call("say").expect("a prompt").1["steer"], true);
}

#[test]
fn an_answer_that_was_refused_leaves_the_question() {
    let mut session = asked(command("ls"));
    session.keys("1");
    assert!(!is_focused(&session));
    session.fail("answer", "OVERLOADED", "There is too much to do.");
    session.wait(1_000);
    assert!(is_focused(&session) && session.picture().contains("There is too much to do."), "{}", session.picture());
    session.keys("1");
    session.event(answered_by("you", "proceed_once"));
    session.fail("answer", "OVERLOADED", "There is too much to do.");
    session.wait(400);
    assert!(!is_focused(&session), "it is answered");
}

#[test]
fn a_command_must_have_been_seen_whole() {
    let long = (0..40).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\n");
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, command(&long));
    session.wait(400);
    for key in ["1", "2", "y", "\r"] {
        session.keys(key);
        assert_eq!(session.call("answer"), None, "{key:?}");
        assert!(session.picture().contains("v first"), "{}", session.picture());
    }
    session.keys("v");
    assert!(session.vt.everything().contains("echo 39"));
    session.keys("1");
    assert!(session.call("answer").is_some());
    let mut other = busy();
    other.wait(1_000);
    ask(&mut other, command(&long));
    other.wait(400);
    other.keys("n");
    assert_eq!(other.call("answer").expect("an answer").1["option"], "cancel", "a no needs no sight");
}

/// At every screen size, a command can be allowed only after it was on the screen or in the scrollback.
#[test]
fn no_screen_is_so_small_that_a_command_is_allowed_unseen() {
    let text = "curl https://e.org/x > a.sh\nsh a.sh | tee b\necho 1\necho 2\necho 3\necho 4\necho 5";
    for (columns, rows) in [20, 40, 80].into_iter().flat_map(|columns| (6..=24).map(move |rows| (columns, rows))) {
        for (lines, warnings) in [(1, 0), (2, 2), (7, 1), (7, 9)] {
            let shown: Vec<&str> = text.lines().take(lines).collect();
            let mut question = command(&shown.join("\n"));
            question["exec"]["warnings"] = (0..warnings).map(|n| json!(format!("Warning {n}"))).collect();
            let mut session = Session::connected(setup(), columns, rows);
            session.wait(1_000);
            ask(&mut session, question);
            session.wait(400);
            let mut seen = session.vt.everything();
            session.keys("1");
            if session.call("answer").is_none() {
                session.keys("v");
                session.wait(400);
                seen = session.vt.everything();
                session.keys("1");
            }
            let place = format!("{lines} lines, {warnings} warnings, {columns}x{rows}");
            assert!(session.call("answer").is_some(), "{place}\n{seen}");
            let joined: String = seen.lines().map(str::trim).collect();
            for line in shown.iter().copied().map(str::to_owned).chain((0..warnings).map(|n| format!("Warning {n}"))) {
                assert!(joined.contains(&line), "{line} was not seen: {place}\n{seen}");
            }
        }
    }
}

#[test]
fn a_question_that_is_not_shown_takes_no_keys() {
    for (columns, rows) in [(80, 5), (19, 24)] {
        let mut session = asked(command("rm -rf build"));
        session.resize(columns, rows);
        session.wait(1_000);
        session.keys("1y");
        assert_eq!(session.call("answer"), None, "{columns}x{rows}");
        session.resize(80, 24);
        session.wait(1_000);
        assert!(session.picture().contains("? Shell rm -rf build · asks"), "{}", session.picture());
        let mut small = Session::connected(setup(), columns, rows);
        small.wait(1_000);
        ask(&mut small, command("rm -rf build"));
        small.wait(1_000);
        small.keys("1\r");
        assert_eq!(small.call("answer"), None, "{columns}x{rows}");
    }
}

#[test]
fn what_a_question_of_the_agent_says_can_be_printed() {
    let help =
        json!([{"label": "One", "description": "a word about it ".repeat(9)}, {"label": "Two", "description": ""}]);
    let questions = json!([inquiry("Which?", "choice", json!({"options": help}))]);
    let mut session = asked(json!({"ask_user": {"title": "t", "questions": questions}}));
    session.keys("v");
    let all = session.vt.everything().replace('\n', " ");
    assert!(all.matches("a word about it").count() > 9, "{all}");
}

#[test]
fn blanks_and_hidden_characters_of_a_command_are_visible() {
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, command(&format!("ls{}; rm -rf ~ \u{202e}txt", " ".repeat(4_096))));
    assert!(session.picture().contains("ls‹4096 blanks›; rm -rf ~ ‹U+202E›txt"), "{}", session.picture());
}

#[test]
fn the_first_answer_counts() {
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, command("ls"));
    session.event(answered_by("vscode", "cancel"));
    assert!(!is_focused(&session), "the dialog is closed");
    assert!(session.picture().contains("vscode [A2A] answered: Shell"));
    session.keys("1");
    assert_eq!(session.call("answer"), None);
    assert!(session.picture().contains("› 1█"), "the key is text again");
}

#[test]
fn an_edit_can_be_changed_before_it_is_allowed() {
    let mut session = asked(edit());
    session.keys("3");
    assert_eq!(session.effects, [UiEffect::Edit { text: "b\n".into(), name: "a.rs".into() }]);
    session.take(Input::Edited(Ok("c\n".into())));
    let (_, answer) = session.call("answer").expect("an answer");
    assert_eq!((&answer["option"], &answer["edited"]), (&json!("proceed_once"), &json!("c\n")));
}

#[test]
fn an_edit_after_another_clients_answer_becomes_the_draft() {
    let mut session = asked(edit());
    session.keys("3");
    session.event(answered_by("vscode", "proceed_once"));
    session.take(Input::Edited(Ok("mine".into())));
    assert_eq!(session.call("answer"), None);
    assert!(session.picture().contains("vscode [A2A] answered first") && session.picture().contains("› mine█"));
}

#[test]
fn hidden_characters_of_paths_and_addresses_are_visible() {
    let mut path = edit();
    path["edit"]["file_path"] = json!("/home/ann/src/parser/exe\u{202e}txt.rs");
    assert!(asked(path).picture().contains("exe‹U+202E›txt.rs"));
    let url = json!({"info": {"title": "t", "prompt": "read it", "urls": ["https://e.org/\u{202e}x"]}});
    assert!(asked(url).picture().contains("https://e.org/‹U+202E›x"));
}

#[test]
fn an_answer_that_comes_too_late_says_who_was_faster() {
    let mut during = asked(command("ls"));
    during.keys("1");
    assert!(during.call("answer").is_some());
    during.event(answered_by("vscode", "cancel"));
    during.fail("answer", "TOOL_CALL_NOT_PENDING", "no");
    let text = "vscode [A2A] answered first: your key changed nothing";
    assert!(during.picture().contains(text), "{}", during.picture());
    let mut first = asked(command("ls"));
    first.keys("1");
    first.event(answered_by("you", "proceed_once"));
    first.reply("answer", json!({"taskId": "t-1", "accepted": true}));
    assert!(!first.picture().contains("answered"), "mine was first: {}", first.picture());
}

#[test]
fn a_file_that_changed_is_asked_about_again() {
    let mut session = asked(edit());
    let before = session.seq;
    session.event(json!({"call_stale": {"call": "c-1"}}));
    assert!(!is_focused(&session));
    let mut question = edit();
    question["edit"]["diff"] = json!("@@ -1,1 +1,1 @@\n-z\n+b\n");
    session.event(planned(question));
    session.event(json!({"call_asked": {"call": "c-1"}}));
    session.wait(400);
    assert!(is_focused(&session) && session.picture().contains("-z"), "{}", session.picture());
    session.keys("1");
    let (_, answer) = session.call("answer").expect("an answer");
    assert!(answer["seen"].as_u64() > Some(before), "the answer is about the new change: {answer}");
}

#[test]
fn a_refusal_asks_what_to_do_instead() {
    let mut session = asked(command("cargo publish"));
    session.keys("n");
    assert_eq!(session.call("answer").expect("an answer").1["option"], "cancel");
    assert!(session.picture().contains("Say what to do instead"));
    session.event(answered_by("you", "cancel"));
    session.keys("only a dry run");
    session.wait(100);
    session.keys("\r");
    assert_eq!(session.call("say").expect("a prompt").1["text"], "only a dry run");
}

fn inquiry(question: &str, kind: &str, more: Value) -> Value {
    let mut inquiry = json!({"question": question, "header": "h", "type": kind, "options": []});
    inquiry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    inquiry
}

fn options(labels: &[&str]) -> Value {
    json!(labels.iter().map(|label| json!({"label": label, "description": ""})).collect::<Vec<_>>())
}

#[test]
fn questions_of_the_agent_are_steps() {
    let several = json!({"multiSelect": true, "options": options(&["a", "b", "c"])});
    let questions = json!([
        inquiry("Which?", "choice", json!({"options": options(&["x", "y"])})),
        inquiry("Several?", "choice", several),
        inquiry("Name?", "text", json!({})),
        inquiry("Sure?", "yesno", json!({})),
        inquiry("Other?", "choice", json!({"options": options(&["x"])})),
    ]);
    let mut session = asked(json!({"ask_user": {"title": "t", "questions": questions}}));
    for (step, keys) in ["2", " \u{1b}[B\u{1b}[B \r", "ann\r", "1", "2something else\r"].into_iter().enumerate() {
        assert!(session.picture().contains(&format!("{} of 5", step + 1)), "{}", session.picture());
        assert_eq!(session.call("answer"), None);
        for key in keys.split_inclusive(['\r']) {
            session.keys(key.trim_end_matches('\r'));
            session.wait(100);
            session.keys(if key.ends_with('\r') { "\r" } else { "" });
        }
    }
    let (_, answer) = session.call("answer").expect("an answer");
    let expected = json!({"0": "y", "1": "a, c", "2": "ann", "3": "Yes", "4": "something else"});
    assert_eq!((&answer["option"], &answer["answers"]), (&json!("proceed_once"), &expected));
}

#[test]
fn a_choice_of_two_digits_can_be_typed_in_linear_mode() {
    let labels: Vec<String> = (1..=12).map(|number| format!("label {number}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let question = inquiry("Which?", "choice", json!({"options": options(&labels)}));
    let mut session = Session::connected(Setup { linear: true, ..setup() }, 80, 24);
    ask(&mut session, json!({"ask_user": {"title": "t", "questions": [question]}}));
    session.take(Input::Line("11"));
    assert_eq!(session.call("say"), None);
    assert_eq!(session.call("answer").expect("an answer").1["answers"], json!({"0": "label 11"}));
}

/// A question of an MCP server in the course of a call, with a number that must be given and a choice that need not be.
fn inquired(nr: u32) -> Value {
    let number = json!({"name": "count", "title": "Count", "required": true, "kind": {"number": {"integer": true, "least": null, "most": 9.0}}});
    let option = |label: &str| json!({"label": label, "value": label});
    let choice = json!({"name": "colour", "title": "Colour", "required": false, "kind": {"choice": [option("red"), option("green")]}});
    let questions = json!([
        inquiry("How many?", "text", json!({})),
        inquiry("Which colour?\nWarning: no secrets.", "choice", json!({"options": options(&["red", "green"])})),
    ]);
    let question = json!({"ask_user": {"title": "x asks: Tell me", "questions": questions}});
    json!({"call_inquired": {"call": "c-1", "nr": nr, "question": question, "fields": [number, choice], "server": "x"}})
}

#[test]
fn questions_of_a_server_are_asked_again_if_the_answer_does_not_fit() {
    let mut session = asked(command("ls"));
    session.keys("1");
    session.event(answered_by("you", "proceed_once"));
    session.event(json!({"call_started": {"call": "c-1"}}));
    session.event(inquired(1));
    let inquired_at = session.seq;
    session.wait(400);
    let answer = |session: &mut Session| {
        session.keys("ten");
        session.wait(100);
        session.keys("\r");
        assert!(session.picture().contains("Warning: no secrets."), "{}", session.picture());
        // No answer: there is no answer in own words.
        session.keys("3");
        session.call("answer").expect("an answer").1
    };
    assert!(session.picture().contains("x asks: Tell me"), "{}", session.picture());
    let sent = answer(&mut session);
    assert_eq!((&sent["answers"], &sent["seen"]), (&json!({"0": "ten", "1": ""}), &json!(inquired_at)));
    session.fail("answer", "INVALID_PARAMS", "answers.count must be a whole number.");
    session.wait(400);
    let picture = session.picture();
    assert!(picture.contains("must be a whole number") && picture.contains("How many?"), "{picture}");
    // Another client answers, and the server asks something else: the text typed for the first question is not used.
    session.keys("7");
    let by = json!({"client": "ann", "via": "a2a-0.3"});
    session.event(json!({"call_replied": {"call": "c-1", "nr": 1, "action": "accept", "fields": ["count"], "by": by}}));
    session.event(inquired(2));
    session.keys("\t");
    session.wait(400);
    assert!(!session.picture().contains("› 7"), "{}", session.picture());
    assert_eq!(answer(&mut session)["seen"], session.seq);
}

#[test]
fn y_is_yes_and_n_is_no() {
    for (key, answer) in [("y", "Yes"), ("n", "No")] {
        let questions = json!([inquiry("Sure?", "yesno", json!({}))]);
        let mut session = asked(json!({"ask_user": {"title": "t", "questions": questions}}));
        session.keys(key);
        assert_eq!(session.call("answer").expect("an answer").1["answers"], json!({"0": answer}), "{key}");
    }
    for (key, mode) in [("y", Some("yolo")), ("n", None), ("\r", None)] {
        let mut session = Session::connected(setup(), 80, 24);
        session.keys("/mode yolo");
        session.wait(100);
        session.keys("\r");
        session.keys(key);
        let tuned = session.call("tune").map(|(_, call)| call["mode"].clone());
        assert_eq!(tuned, mode.map(|mode| json!(mode)), "{key:?}");
    }
}

/// The message after a refusal is removed when the next question opens.
#[test]
fn the_next_question_has_no_message_of_the_last_one() {
    let mut session = busy();
    session.wait(1_000);
    let calls = ["c-1", "c-2"].map(|id| json!({"call": {"id": id, "name": "run_shell_command", "args": {}}}));
    session.event(json!({"answered": {"answer": {"parts": calls}}}));
    for call in ["c-1", "c-2"] {
        let plan = json!({"title": "x", "question": command("ls")});
        session.event(json!({"call_planned": {"call": call, "plan": plan}}));
        session.event(json!({"call_asked": {"call": call}}));
    }
    session.wait(400);
    session.keys("n");
    session.event(answered_by("you", "cancel"));
    session.keys("\t");
    session.wait(400);
    assert!(is_focused(&session) && !session.picture().contains("Say what"), "{}", session.picture());
}

#[test]
fn trust_has_three_answers_and_leaving_quits() {
    for (keys, expected) in [
        ("1", UiEffect::Trust(TrustChoice::Folder)),
        ("2", UiEffect::Trust(TrustChoice::Parent)),
        ("3", UiEffect::Trust(TrustChoice::Nothing)),
        ("\x1b[B\r", UiEffect::Trust(TrustChoice::Parent)),
        ("\x03", UiEffect::Quit),
    ] {
        let trust = TrustQuestion { folder: "~/a".into(), parent: Some("~".into()), found: vec![] };
        let mut session = Session::new(Setup { trust: Some(trust), ..setup() }, 80, 24);
        session.paint();
        session.keys(keys);
        assert_eq!(session.effects, [expected], "{keys:?}");
        assert!(session.calls.is_empty(), "nothing is sent before the answer");
    }
}

#[test]
fn a_plan_is_printed_only_when_it_changes() {
    let mut session = busy();
    let todos = |status: &str| {
        let todos = json!([{"description": "Add tests", "status": status}]);
        json!({"call_ended": {"call": "c-1", "ending": {"success": {"output": "x", "display": {"todos": {"todos": todos}}}}}})
    };
    for (status, plans) in [("pending", 1), ("pending", 1), ("completed", 2), ("completed", 2)] {
        session.event(called("c-1", "write_todos", json!({})));
        session.event(todos(status));
        assert_eq!(session.vt.everything().matches("Plan · ").count(), plans, "{status}");
    }
}
