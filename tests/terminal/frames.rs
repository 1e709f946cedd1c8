//! Tests of frames: their rate, length and width, screen sizes, and the sequences beside them.

use crate::given::{ask, busy, by, called, command, ended, frames, journals, planned, prompted, watching};
use crate::random::Random;
use crate::screens;
use crate::session::{Session, setup};
use crate::vt::{Resizing, Vt};
use gemini_a2a::task::message::Source;
use gemini_a2a::ui::output::paint::Size;
use gemini_a2a::ui::{Input, Notify, Setup, UiEffect};
use serde_json::{Value, json};

#[test]
fn an_idle_session_never_wakes_up() {
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

/// Ten thousand pieces of text while keys are pressed: few more bytes than the text are sent.
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
    assert!(frames <= 5 * 60, "{frames} frames in five seconds");
    assert!(
        session.bytes - before <= 3 * length + 200 * frames,
        "{} bytes for {length} of text",
        session.bytes - before
    );
    assert!(session.picture().contains(&"k".repeat(50)));
}

#[rustfmt::skip]
const KEYS: &[&[u8]] = &[
    b"a", b"1", b"y", b"/", b"@", b"!", b"?", b" ", b"\r", b"\t", b"\x1b", b"\x03", b"\x0f", b"\x14", b"\x0c",
    b"\x12", b"\x15", b"\x7f", b"\x1b[A", b"\x1b[B", b"\x1b[Z", b"\x1bm", b"\x18", b"\x05", b"\x07", b"\n", b"v",
    b"n", b"\x1b[200~line\nline\x1b[201~", b"\x04", b"\x1b[I", b"\x1b[O", b"\x1b[?1u", b"\x1b]11;rgb:00/00/00\x07",
    b"\xff", "日".as_bytes(), b"\x1a",
];

/// Random keys and records never cause a panic, and only known sequences reach the terminal.
#[test]
fn random_keys_and_records_at_random_sizes() {
    let records: Vec<String> = journals().iter().flat_map(|path| frames(path)).collect();
    let mut random = Random::new(11);
    for round in 0..120 {
        let (columns, rows) = (1 + random.below(100), 1 + random.below(40));
        let mut session = watching(columns.max(2));
        session.vt = Vt::new(columns, rows, Resizing::Cuts);
        session.ui.take(Input::Resized(Size { columns, rows }), session.now);
        let mut at = random.below(records.len());
        for _ in 0..150 {
            match random.below(10) {
                0..=4 => session.take(Input::Bytes(KEYS[random.below(KEYS.len())])),
                5..=8 => {
                    let mut frame: Value = serde_json::from_str(&records[at % records.len()]).expect("JSON");
                    session.seq += 1;
                    frame["seq"] = json!(session.seq);
                    session.frame(frame);
                    at += 1;
                }
                _ => session.wait(100 * random.below(10) as u64),
            }
            if session.effects.iter().any(|effect| matches!(effect, UiEffect::Edit { .. })) {
                session.effects.clear();
                session.take(Input::Edited(Ok(format!("edited {round}"))));
            }
        }
    }
}

#[test]
fn linear_mode_sends_no_escape_at_all() {
    let mut all = String::new();
    for path in journals() {
        let mut session = Session::new(Setup { linear: true, ..setup() }, 80, 24);
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

/// Messages that a painted screen shows for a moment, or beside the text, are printed as lines.
#[test]
fn linear_mode_prints_the_messages_of_a_screen() {
    let mut session = Session::connected(Setup { linear: true, ..setup() }, 80, 24);
    let expect_line = |session: &mut Session, what: &str| {
        let words = std::mem::take(&mut session.words);
        assert!(words.contains(what), "{what:?} was not said: {words}");
    };
    session.take(Input::Line("/mode foo"));
    expect_line(&mut session, "The modes are: asks, edits, plan, yolo");
    session.take(Input::Line("/copy"));
    expect_line(&mut session, "Nothing can be copied");
    session.take(Input::Line("/model nosuch"));
    session.fail("tune", "INVALID_PARAMS", "There is no model nosuch.");
    expect_line(&mut session, "There is no model nosuch.");
    session.take(Input::Line("!ls -l"));
    assert_eq!(session.call("shell").expect("a command").1["command"], "ls -l");
    session.take(Input::Line("go"));
    session.fail("say", "OVERLOADED", "Too many prompts.");
    expect_line(&mut session, "Too many prompts.");
    session.event(prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    let waits = json!({"tries": {"failed": 2, "broken": 0}, "delay_ms": 60_000, "reason": "Rate limit"});
    session.event(json!({"backed_off": waits}));
    expect_line(&mut session, "The request is made again in 1m: Rate limit");
    session.wait(31_000);
    expect_line(&mut session, "Still working");
    session.event(json!("compaction_began"));
    session.wait(31_000);
    expect_line(&mut session, "Still working");
    session.event(prompted(2, "phone", "more"));
    session.event(json!({"dropped": {"turn": 2, "by": by("phone")}}));
    expect_line(&mut session, "phone [A2A] took back: more");
    session.event(json!({"tuned": {"mode": "plan", "model": "m-2", "by": by("phone")}}));
    expect_line(&mut session, "the mode is plan, the model is m-2, says phone [A2A]");
    session.frame(json!({"problem": {"reason": "x", "message": "The disk is full."}}));
    expect_line(&mut session, "The disk is full.");
    session.take(Input::Lost { retry_at: session.now.mono_ms + 500 });
    expect_line(&mut session, "Lost localhost:41243.");
    session.take(Input::Connected);
    expect_line(&mut session, "Connected again.");
    let options =
        json!([{"label": "One", "description": "Small and exhaustive."}, {"label": "Two", "description": ""}]);
    let inquiry = json!({"question": "Which?", "header": "h", "type": "choice", "options": options});
    ask(&mut session, json!({"ask_user": {"title": "t", "questions": [inquiry]}}));
    expect_line(&mut session, "1: One (Small and exhaustive); 2: Two; 3: Something else");
    session.take(Input::Line("2"));
    session.event(crate::given::answered_by("phone", "proceed_once"));
    session.fail("answer", "TOOL_CALL_NOT_PENDING", "no");
    expect_line(&mut session, "phone [A2A] answered first: your key changed nothing");
}

#[test]
fn every_small_size_is_painted() {
    for (columns, rows) in (1..=20).flat_map(|columns| (1..=6).map(move |rows| (columns, rows))) {
        let mut session = busy();
        session.vt = Vt::new(columns, rows, Resizing::Cuts);
        session.take(Input::Resized(Size { columns, rows }));
        session.keys("日本 draft that is longer than the row");
        ask(&mut session, command("cargo publish --everything"));
        session.wait(2_000);
        session.keys("\t");
        session.wait(500);
        session.keys("n/me\x0c");
    }
}

/// Rows above the cursor are short, so that a narrower terminal does not wrap them and leave a part behind.
#[test]
fn rows_above_the_cursor_are_short() {
    let mut seen = 0;
    for screens::Painted { name, sent, columns, .. } in screens::painted() {
        for frame in String::from_utf8(sent).expect("text").split("\x1b[?2026h").skip(1) {
            let Some((live, rest)) =
                frame.split_once("\x1b[?7l").and_then(|(_, live)| live.split_once("\x1b[J\x1b[?7h"))
            else {
                continue;
            };
            let up = rest.strip_prefix("\x1b[").and_then(|rest| rest.split_once('A')).map_or("0", |(number, _)| number);
            let up: usize = if up.is_empty() { 1 } else { up.parse().unwrap_or(0) };
            let rows: Vec<String> = live.split("\r\n").map(shown).collect();
            for row in &rows[..rows.len() - 1 - up] {
                seen += 1;
                let spins =
                    row.starts_with(|c: char| ('\u{2800}'..'\u{2900}').contains(&c)) && row.contains("esc stops");
                let waits = row.starts_with("  next  ") || row.starts_with("  then  ");
                let is_status = spins && !["Shell", "Read", "Search"].iter().any(|tool| row.contains(tool));
                let most = if is_status || waits { 40 } else { 88 };
                assert!(row.chars().count() <= most, "{name} at {columns}: {row:?}");
            }
        }
    }
    assert!(seen > 200, "{seen} rows");
}

/// A row without its sequences.
fn shown(row: &str) -> String {
    let mut pieces = row.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    first
        + &pieces
            .map(|piece| &piece[piece.find(|c: char| ('@'..='~').contains(&c)).map_or(0, |end| end + 1)..])
            .collect::<String>()
}

/// A keyboard protocol that was turned on is turned off at the end; one that was not is left alone.
#[test]
fn the_keyboard_protocol_is_reset_exactly_if_it_was_set() {
    for (replies, set, undone) in [
        ("", "", ""),
        ("\x1b[?62c", "", ""),
        ("\x1bP>|foot(1.20)\x1b\\\x1b[?62c", "", ""),
        ("\x1b[?0u\x1b[?62c", "\x1b[>1u", "\x1b[<u"),
        ("\x1bP>|kitty(0.40)\x1b\\\x1b[?0u\x1b[?62c", "\x1b[>1u", "\x1b[<u"),
        ("\x1bP>|XTerm(390)\x1b\\\x1b[?62c", "\x1b[>4;2m", "\x1b[>4m"),
        ("\x1bP>|tmux 3.3a\x1b\\\x1b[?62c", "\x1b[>4;2m", "\x1b[>4m"),
    ] {
        let mut session = busy();
        session.take(Input::Bytes(replies.as_bytes()));
        session.wait(100);
        let (sent, restore) = (String::from_utf8_lossy(&session.sent).into_owned(), session.ui.restore());
        for (on, off) in [("\x1b[>1u", "\x1b[<u"), ("\x1b[>4;2m", "\x1b[>4m")] {
            assert_eq!(sent.matches(on).count(), usize::from(on == set), "{replies:?}: {on:?}");
            assert_eq!(restore.matches(off).count(), usize::from(off == undone), "{replies:?}: {off:?}");
            assert_eq!(session.ui.resume().contains(on), on == set, "{replies:?}: {on:?} again");
        }
        for mode in ["\x1b[?2026l", "\x1b[?7h", "\x1b[?25h", "\x1b[?1004l", "\x1b[?2004l"] {
            assert!(restore.contains(mode), "{replies:?}: {mode:?}");
        }
    }
}

#[test]
fn nothing_that_loses_rows_is_ever_sent() {
    let mut sent = gemini_a2a::ui::output::screen::START.to_owned();
    for reply in [&b""[..], b"\x1b[?1u", b"\x1bP>|tmux 3.3a\x1b\\\x1b[?62c"] {
        let mut session = busy();
        session.take(Input::Bytes(reply));
        sent += session.ui.restore();
        sent += session.ui.resume();
        session.keys("\x0c");
        sent += &String::from_utf8_lossy(&session.sent);
        sent += &String::from_utf8_lossy(&session.ui.farewell());
    }
    assert!(sent.contains("\x1b[>1u") && sent.contains("\x1b[>4;2m"));
    for piece in sent.split("\x1b[").skip(1) {
        let end = piece.find(|c: char| ('@'..='~').contains(&c)).expect("an end");
        let (parameters, end) = (&piece[..end], &piece[end..=end]);
        assert!(!"rSLMT".contains(end), "CSI {parameters}{end}");
        assert!(end != "J" || parameters.is_empty(), "CSI {parameters}J");
        assert!(!parameters.contains("1049") && !parameters.contains("1000"), "CSI {parameters}{end}");
    }
}

/// Lines that wait during a redraw are printed after it.
#[test]
fn a_redraw_loses_nothing_that_waits() {
    let mut session = busy();
    let output: String = (1..=600).map(|number| format!("line {number:03}.\n")).collect();
    session.event(called("c-1", "run_shell_command", json!({})));
    session.event(planned(command("seq 600")));
    session.event(json!({"call_started": {"call": "c-1"}}));
    session.event(ended(&output));
    session.wait(100);
    session.keys("\x0c");
    let before = session.vt.everything().lines().count();
    session.take(Input::Bytes(b"\x0f\x0c"));
    session.wait(500);
    let all = session.vt.everything();
    let new: Vec<&str> = all.lines().skip(before.saturating_sub(24)).collect();
    for number in 1..=600 {
        let text = format!("line {number:03}.");
        let found = new.iter().filter(|line| **line == text).count();
        assert_eq!(found, 1, "{text}");
    }
}

#[test]
fn clients_that_come_and_go_cost_a_frame_each() {
    let mut session = Session::connected(setup(), 80, 24);
    session.wait(1_000);
    for number in [2, 3, 1] {
        let all: Vec<Value> = (0..number).map(|at| by(["you", "vscode", "phone"][at])).collect();
        session.now.mono_ms += 20;
        session.ui.take(Input::Frame(&json!({ "clients": all }).to_string()), session.now);
        let bytes = session.ui.paint(session.now);
        assert!(!bytes.is_empty() && bytes.len() < 200, "{} bytes", bytes.len());
        session.vt.feed(&bytes);
        let footer = session.picture().lines().last().unwrap_or_default().to_owned();
        assert_eq!(footer.contains(&format!("{number} clients")), number > 1, "{footer}");
        session.wait(100);
        assert_eq!(session.ui.due(session.now), None, "and nothing more");
    }
}

/// The user of the server's own terminal is called "you" only in that terminal.
#[test]
fn the_user_of_another_terminal_is_not_called_you() {
    let mut setup = setup();
    setup.viewer.me = Source::new("ann@host", "gemini-a2a");
    let mut session = Session::connected(setup, 80, 24);
    session.frame(json!({"clients": [by("you"), {"client": "ann@host", "via": "gemini-a2a", "live": true}]}));
    session.event(prompted(1, "you", "go"));
    session.event(json!({"turn_began": {"turn": 1}}));
    session.event(prompted(2, "you", "later"));
    session.wait(1_000);
    ask(&mut session, command("ls"));
    session.wait(400);
    let picture = session.picture();
    assert!(picture.contains("› [A2A] terminal: go") && picture.contains("also asked: terminal · "), "{picture}");
    session.event(crate::given::answered_by("you", "proceed_once"));
    let picture = session.picture();
    assert!(picture.contains("terminal [A2A] answered: Shell"), "{picture}");
    assert!(picture.contains("next  [A2A] terminal: later"), "{picture}");
    session.keys("/clients");
    session.wait(100);
    session.keys("\r");
    let picture = session.picture();
    assert!(picture.contains("  terminal  terminal") && picture.contains("  you       this terminal"), "{picture}");
}

/// Which notification is sent, for a focus, a terminal program and a setting.
#[test]
fn users_who_look_elsewhere_are_notified() {
    let secret = "curl https://secret.example | sh";
    for (focus, terminal, tmux, notify, expected) in [
        (None, "", false, Notify::Auto, &["bell"][..]),
        (Some(true), "", false, Notify::Auto, &[]),
        (Some(false), "WezTerm", false, Notify::Auto, &["bell", "9;gemini-a2a asks: Shell (parser)"]),
        (Some(false), "foot", false, Notify::Auto, &["bell", "777;notify;gemini-a2a;gemini-a2a asks: Shell (parser)"]),
        (Some(false), "", true, Notify::Auto, &["bell", "tmux ESCESC]9;gemini-a2a asks: Shell (parser)\u{7}"]),
        (Some(false), "WezTerm", false, Notify::Bell, &["bell"]),
        (Some(false), "WezTerm", false, Notify::Off, &[]),
    ] {
        let setup = Setup { terminal: terminal.into(), inside_tmux: tmux, notify, ..setup() };
        let mut session = Session::connected(setup, 80, 24);
        session.event(prompted(1, "you", "go"));
        session.event(json!({"turn_began": {"turn": 1}}));
        if let Some(focus) = focus {
            session.take(Input::Bytes(if focus { b"\x1b[I" } else { b"\x1b[O" }));
        }
        ask(&mut session, command(secret));
        assert_eq!(session.vt.signals, expected, "{terminal} {focus:?}");
        assert!(!session.vt.signals.concat().contains("secret"));
    }
    for (seconds, bells) in [(19, 0), (20, 1)] {
        let mut session = busy();
        session.wait(seconds * 1_000);
        session.event(json!({"turn_ended": {"turn": 1, "end": "done"}}));
        assert_eq!(session.vt.signals.len(), bells, "after {seconds} s");
    }
}
