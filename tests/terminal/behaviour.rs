//! What the terminal does, beyond how it looks: questions and typing, lost connections, replays, idleness, random input.

use crate::session::{Session, setup};
use crate::vt::Resizing;
use gemini_a2a::base::clock::Now;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::ui::paint::Size;
use gemini_a2a::ui::{Act, Input};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn prompted(turn: u32, client: &str, text: &str) -> Value {
    let via = if client == "you" { "terminal" } else { "a2a-0.3" };
    let message = json!({"id": format!("m-{turn}"), "role": "user", "parts": [{"content": {"text": text}}]});
    json!({"prompted": {"message": message, "by": {"client": client, "via": via}, "turn": turn}})
}

/// A session whose agent is busy with a prompt.
fn busy() -> Session {
    let mut session = Session::connected(setup(), 80, 24);
    session.event(prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    session
}

fn command(text: &str) -> Value {
    json!({"exec": {"title": "t", "command": text, "programs": ["x"], "dir": "/home/ann/src/parser"}})
}

/// The model makes a call that waits for an answer.
fn ask(session: &mut Session, question: Value) {
    let parts = json!([{"call": {"id": "c-1", "name": "run_shell_command", "args": {}}}]);
    session.event(json!({"answered": {"answer": {"parts": parts}}}));
    session.event(json!({"call_planned": {"call": "c-1", "plan": {"title": "x", "question": question}}}));
    session.event(json!({"call_asked": {"call": "c-1"}}));
}

fn is_focused(session: &Session) -> bool {
    !session.vt.visible
}

#[test]
fn a_question_is_focused_only_if_nobody_writes() {
    for (draft, idle, focused) in [("", 700, true), ("", 699, false), ("x", 5_000, false), ("x", 100, false)] {
        let mut session = busy();
        let pressed = session.now;
        session.take(Input::Bytes(if draft.is_empty() { b"\x1b[C" } else { draft.as_bytes() }));
        session.now = Now { mono_ms: pressed.mono_ms + idle, unix_ms: pressed.unix_ms + idle };
        // No painting between the key and the question moves the clock.
        let call = json!([{"call": {"id": "c-1", "name": "run_shell_command", "args": {}}}]);
        for event in [
            json!({"answered": {"answer": {"parts": call}}}),
            json!({"call_planned": {"call": "c-1", "plan": {"title": "x", "question": command("ls")}}}),
            json!({"call_asked": {"call": "c-1"}}),
        ] {
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

#[test]
fn blanks_and_hidden_characters_of_a_command_are_visible() {
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, command(&format!("ls{}; rm -rf ~ \u{202e}txt", " ".repeat(4_096))));
    assert!(session.picture().contains("ls‹4096 blanks›; rm -rf ~ ‹U+202E›txt"), "{}", session.picture());
}

#[test]
fn whoever_answers_first_counts() {
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, command("ls"));
    let answered =
        json!({"call_answered": {"call": "c-1", "choice": "cancel", "by": {"client": "vscode", "via": "a2a-0.3"}}});
    session.event(answered);
    assert!(!is_focused(&session), "the dialog is closed");
    assert!(session.picture().contains("vscode [A2A] answered: Shell"));
    session.keys("1");
    assert_eq!(session.call("answer"), None);
    assert!(session.picture().contains("› 1█"), "the key is text again");
}

#[test]
fn an_edit_can_be_changed_before_it_is_allowed() {
    let question = json!({"edit": {"title": "t", "file_name": "a.rs", "file_path": "/home/ann/src/parser/a.rs",
        "diff": "@@ -1,1 +1,1 @@\n-a\n+b\n", "old": "a\n", "new": "b\n"}});
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, question);
    session.wait(400);
    session.keys("3");
    assert_eq!(session.acts, [Act::Edit { text: "b\n".into(), name: "a.rs".into() }]);
    session.take(Input::Edited(Ok("c\n".into())));
    let (_, answer) = session.call("answer").expect("an answer");
    assert_eq!((&answer["option"], &answer["edited"]), (&json!("proceed_once"), &json!("c\n")));
}

#[test]
fn what_was_edited_in_vain_is_the_draft() {
    let question = json!({"edit": {"title": "t", "file_name": "a.rs", "file_path": "/home/ann/src/parser/a.rs",
        "diff": "@@ -1,1 +1,1 @@\n-a\n+b\n", "old": "a\n", "new": "b\n"}});
    let mut session = busy();
    session.wait(1_000);
    ask(&mut session, question);
    session.wait(400);
    session.keys("3");
    session.event(json!({"call_answered": {"call": "c-1", "choice": "proceed_once", "by": {"client": "vscode", "via": "a2a-0.3"}}}));
    session.take(Input::Edited(Ok("mine".into())));
    assert_eq!(session.call("answer"), None);
    assert!(session.picture().contains("vscode [A2A] answered first") && session.picture().contains("› mine█"));
}

/// The records of a journal, as the server sends them.
fn frames(path: &Path) -> Vec<String> {
    let journal = std::fs::read(path).expect("readable");
    let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records: Vec<Record> = lines.map(|line| Record::read(line).expect("a record")).collect();
    let frame =
        |record: &Record| json!({"task": "t-1", "seq": record.seq, "at": record.at, "event": record.event}).to_string();
    records.iter().map(frame).collect()
}

fn journals() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/journal/v1");
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    all.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/story.jsonl"));
    all.sort();
    all
}

fn watching(columns: usize) -> Session {
    let mut session = Session::new(setup(), columns, 30);
    session.take(Input::Connected);
    session.reply("session", json!("t-1"));
    session
}

#[test]
fn a_replay_prints_what_the_live_session_printed() {
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
            // Passing messages, times and spinners are not part of it.
            live.wait(20_000);
            replay.now = live.now;
            replay.wait(1_000);
            let printed = |session: &Session| {
                let all = session.vt.everything();
                let end = all.lines().count().saturating_sub(session.picture().lines().count().min(12));
                all.lines().take(end).map(str::to_owned).collect::<Vec<_>>()
            };
            let (live, replay) = (printed(&live), printed(&replay));
            let most = live.len().min(replay.len());
            assert_eq!(live[..most], replay[..most], "{} at {columns}", path.display());
        }
    }
}

#[test]
fn a_link_that_is_cut_again_and_again_prints_every_row_once() {
    let mut session = watching(80);
    let text = |n: u64| json!({"text": {"text": format!("Paragraph {n}.\n\n")}});
    let created = json!({"created": {"task": "t-1", "context": "t-1", "lifecycle": "conversational", "protocol": "0.3", "profile": "coder",
        "workspace": "/w", "model": "m", "mode": "default"}});
    session.record(1, created);
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
        // A server that begins earlier repeats nothing.
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
fn a_log_that_begins_anew_is_folded_anew() {
    let mut session = busy();
    session.event(json!({"text": {"text": "Old words.\n\n"}}));
    session.take(Input::Lost { retry_at: 0 });
    session.take(Input::Connected);
    session.reply("watch", json!({"taskId": "t-1", "after": 0}));
    let created = json!({"created": {"task": "t-1", "context": "t-1", "lifecycle": "conversational", "protocol": "0.3", "profile": "coder",
        "workspace": "/w", "model": "m", "mode": "default"}});
    session.record(1, created);
    session.record(2, prompted(1, "you", "new words"));
    session.record(3, json!({"turn_began": {"turn": 1}}));
    let picture = session.picture();
    assert!(picture.contains("· The log begins anew") && picture.contains("› new words"), "{picture}");
}

#[test]
fn nothing_happens_when_nothing_happens() {
    let mut session = busy();
    session.event(json!({"answered": {"answer": {"parts": [{"text": "Done."}]}}}));
    session.event(json!({"turn_ended": {"turn": 1, "end": "done"}}));
    session.wait(6_000);
    assert_eq!(session.ui.due(session.now), None, "no wake-up");
    let bytes = session.bytes;
    session.wait(10_000);
    assert_eq!(session.bytes, bytes);
}

#[test]
fn frames_keep_a_distance_and_the_spinner_is_cheap() {
    let mut session = busy();
    session.wait(500);
    let (bytes, at) = (session.bytes, session.now.mono_ms);
    session.wait(900);
    let steps = (session.now.mono_ms - at) / 100 + 1;
    assert!((session.bytes - bytes) as u64 <= 24 * steps + 40, "{} bytes", session.bytes - bytes);
    session.ui.take(Input::Bytes(b"x"), session.now);
    assert!(session.ui.paint(session.now).is_empty(), "too soon after the last frame");
}

/// Ten thousand pieces of text while keys are pressed: the terminal gets little more than the text.
#[test]
fn a_fast_answer_costs_little_more_than_its_text() {
    let mut session = busy();
    let (mut frames, mut length, before) = (0, 0, session.bytes);
    for piece in 0..10_000_u64 {
        session.seq += 1;
        let text = if piece % 97 == 96 { "end.\n\n" } else { "words and " };
        length += text.len();
        let frame =
            json!({"task": "t-1", "seq": session.seq, "at": session.now.unix_ms, "event": {"text": {"text": text}}});
        session.ui.take(Input::Frame(&frame.to_string()), session.now);
        if piece % 200 == 0 {
            session.ui.take(Input::Bytes(b"k"), session.now);
        }
        if piece % 2 == 0 {
            session.now.mono_ms += 1;
            session.now.unix_ms += 1;
        }
        let bytes = session.ui.paint(session.now);
        frames += usize::from(!bytes.is_empty());
        session.bytes += bytes.len();
        session.vt.feed(&bytes);
    }
    assert!(frames <= 5_000 / 16 + 2, "{frames} frames in five seconds");
    assert!(
        session.bytes - before <= 3 * length + 200 * frames,
        "{} bytes for {length} of text",
        session.bytes - before
    );
    assert!(session.picture().contains(&"k".repeat(50)));
}

#[test]
fn quitting_takes_two_keys_and_always_works() {
    for prepare in ["", "draft", "/me", "\x12search", "!ls"] {
        let mut session = busy();
        session.keys(prepare);
        session.keys("\x03");
        assert!(!session.acts.contains(&Act::Quit), "{prepare:?}");
        session.keys("\x03");
        assert!(session.acts.contains(&Act::Quit), "{prepare:?}");
    }
    let mut question = busy();
    question.wait(1_000);
    ask(&mut question, command("ls"));
    question.keys("\x03\x03");
    assert!(question.acts.contains(&Act::Quit));
    let mut slow = Session::connected(setup(), 80, 24);
    slow.keys("\x03");
    slow.wait(3_100);
    slow.keys("\x03");
    assert!(!slow.acts.contains(&Act::Quit), "too late: it is armed anew");
    slow.keys("\x04");
    assert!(slow.acts.contains(&Act::Quit), "and Ctrl-D counts too");
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
    assert_eq!(session.acts, [Act::Remember("one".into()), Act::Remember("two".into())]);
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
        assert!(session.acts.is_empty() && session.call("files").is_none(), "{text}");
        assert!(session.picture().contains(text.trim_end()), "{}", session.picture());
        assert!(!session.picture().contains("enter send"), "{text}");
    }
}

#[test]
fn the_whole_output_is_printed_on_demand() {
    let mut session = busy();
    let parts = json!([{"call": {"id": "c-1", "name": "run_shell_command", "args": {"command": "seq 3000"}}}]);
    session.event(json!({"answered": {"answer": {"parts": parts}}}));
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
    let parts = json!([{"call": {"id": "c-1", "name": "run_shell_command", "args": {"command": "make"}}}]);
    session.event(json!({"answered": {"answer": {"parts": parts}}}));
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
    let parts = json!([{"call": {"id": "c-1", "name": "run_shell_command", "args": {"command": "yes"}}}]);
    session.event(json!({"answered": {"answer": {"parts": parts}}}));
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

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Whatever is pressed and whatever the server sends: nothing panics, and only known sequences reach the terminal.
#[test]
fn random_keys_and_records_at_random_sizes() {
    let keys: Vec<&[u8]> = vec![
        b"a",
        b"1",
        b"y",
        b"/",
        b"@",
        b"!",
        b"?",
        b" ",
        b"\r",
        b"\t",
        b"\x1b",
        b"\x03",
        b"\x0f",
        b"\x14",
        b"\x0c",
        b"\x12",
        b"\x15",
        b"\x7f",
        b"\x1b[A",
        b"\x1b[B",
        b"\x1b[Z",
        b"\x1bm",
        b"\x18",
        b"\x05",
        b"\x07",
        b"\n",
        b"v",
        b"n",
        b"\x1b[200~line\nline\x1b[201~",
        b"\x04",
        b"\x1b[I",
        b"\x1b[O",
        b"\x1b[?1u",
        b"\x1b]11;rgb:00/00/00\x07",
        b"\xff",
        "日".as_bytes(),
        b"\x1a",
    ];
    let records: Vec<String> = journals().iter().flat_map(|path| frames(path)).collect();
    let mut random = Random(11);
    for round in 0..120 {
        let (columns, rows) = (1 + random.below(100), 1 + random.below(40));
        let mut session = watching(columns.max(2));
        session.vt = crate::vt::Vt::new(columns, rows, Resizing::Cuts);
        session.ui.take(Input::Resized(Size { columns, rows }), session.now);
        let mut at = random.below(records.len());
        for _ in 0..150 {
            match random.below(10) {
                0..=4 => session.take(Input::Bytes(keys[random.below(keys.len())])),
                5..=8 => {
                    let mut frame: Value = serde_json::from_str(&records[at % records.len()]).expect("JSON");
                    session.seq += 1;
                    frame["seq"] = json!(session.seq);
                    session.frame(frame);
                    at += 1;
                }
                _ => session.wait(100 * random.below(10) as u64),
            }
            if session.acts.iter().any(|act| matches!(act, Act::Edit { .. })) {
                session.acts.clear();
                session.take(Input::Edited(Ok(format!("edited {round}"))));
            }
        }
    }
}

#[test]
fn linear_mode_sends_no_escape_at_all() {
    let mut all = String::new();
    for path in journals() {
        let mut session = Session::new(gemini_a2a::ui::Setup { linear: true, ..setup() }, 80, 24);
        session.take(Input::Connected);
        session.reply("session", json!("t-1"));
        for frame in frames(&path) {
            session.take(Input::Frame(&frame));
        }
        session.take(Input::Line("/help"));
        session.take(Input::Line("1"));
        all += &session.words;
    }
    assert!(!all.contains('\x1b') && !all.contains('\r'));
    assert!(all.contains("Agent: ") && all.contains("Tool ") && all.contains("Type a number."), "{all}");
}
