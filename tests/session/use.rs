//! Tests of prompts, the editor, trust, history, drafts and linear mode.

use crate::pty::{PROGRAM, Pty, TestDirs, journals};
use crate::support::eventually;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const HINT: &str = "Ask anything";

#[test]
fn a_prompt_is_answered_and_a_question_too() {
    let dirs = TestDirs::new();
    let mut pty = dirs.start(&[]);
    pty.wait(HINT);
    pty.say("please write a file");
    if pty.wait_or(&["tab answers", "Esc = no"]) == 0 {
        pty.keys("\t");
        pty.wait("Esc = no");
    }
    pty.press_until("1", || dirs.path("ws/hello.txt").exists());
    pty.say("/quit");
    let (status, text) = pty.end();
    assert!(status.success() && text.contains("Continue with: gemini-a2a --resume"), "{text}");
}

#[test]
fn a_typed_undo_restores_files() {
    let dirs = TestDirs::new();
    let file = dirs.put("ws/hello.txt", "mine\r\n");
    let now = || std::fs::read_to_string(&file).expect("it is there");
    let mut pty = dirs.start(&["--yolo"]);
    pty.wait(HINT);
    pty.say("please write a file");
    eventually("it is written", || (now() != "mine\r\n").then_some(()));
    let written = now();
    // It is refused while the turn goes on.
    eventually("it is undone", || {
        pty.say("/undo");
        pty.wait_or(&["hello.txt", "under way", "no 1 prompts", "There is no"]);
        (now() == "mine\r\n").then_some(())
    });
    pty.say("/redo");
    eventually("it is as the agent wrote it", || (now() == written).then_some(()));
    pty.say("/quit");
    assert!(pty.end().0.success());
}

#[test]
fn a_session_begins_anew_unless_an_earlier_one_is_named() {
    let dirs = TestDirs::new();
    let mut pty = dirs.start(&["-i", "hello number one"]);
    pty.wait("with `--script`");
    pty.say("/quit");
    let (_, text) = pty.end();
    let id = text.split("--resume ").nth(1).expect("how to go on").lines().next().expect("an id").trim().to_owned();
    assert_eq!(id.len(), 8, "the beginning of an id is enough");
    let mut pty = dirs.start(&[]);
    pty.wait(HINT);
    pty.say("/quit");
    assert!(!pty.end().1.contains("hello number one"));
    for which in ["latest", "1", &id] {
        let mut pty = dirs.start(&["--resume", which]);
        pty.wait("hello number one");
        pty.keys("\x03");
        pty.keys("\x03");
        assert!(pty.end().0.success());
    }
    let (status, text) = dirs.start(&["--resume", "nonsense"]).end();
    assert_eq!(status.code(), Some(78));
    assert!(text.contains("there is no session nonsense") && text.contains("--list-sessions"), "{text}");
}

#[test]
fn the_question_of_trust_is_asked_once_for_each_answer() {
    for (key, trusted, decision) in
        [("1", true, "\"TRUST_FOLDER\""), ("2", true, "\"TRUST_PARENT\""), ("3", false, "\"DO_NOT_TRUST\"")]
    {
        let dirs = TestDirs::new();
        dirs.put("ws/GEMINI.md", "one\ntwo\n");
        let mut pty = dirs.start_with(&[], &[]);
        pty.wait("GEMINI.md: 2 lines");
        pty.wait("Esc quits");
        let file = dirs.path("home/.gemini/trustedFolders.json");
        pty.press_until(key, || file.exists());
        pty.wait(HINT);
        assert!(std::fs::read_to_string(&file).expect("a file").contains(decision));
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        pty.say("/quit");
        pty.end();
        let mut pty = dirs.start_with(&[], &[]);
        pty.wait(HINT);
        pty.say("/quit");
        let (_, text) = pty.end();
        assert!(!text.contains("Do you trust"), "{text}");
        assert_eq!(text.contains("is not trusted"), !trusted, "{text}");
    }
    let dirs = TestDirs::new();
    let mut pty = dirs.start_with(&[], &[]);
    pty.wait("Esc quits");
    pty.keys("\x03");
    pty.keys("\x03");
    assert!(pty.end().0.success());
    assert!(!dirs.path("home/.gemini/trustedFolders.json").exists(), "no answer is none");
    std::fs::create_dir(dirs.path("home/.gemini")).expect("a folder");
    dirs.put("home/.gemini/settings.json", r#"{"security": {"folderTrust": {"enabled": false}}}"#);
    let mut pty = dirs.start_with(&[], &[]);
    pty.wait(HINT);
    assert!(!pty.text().contains("Do you trust"));
}

#[test]
fn drafts_survive_a_crash_and_cleared_drafts_are_in_the_history() {
    let dirs = TestDirs::new();
    let mut pty = dirs.start(&[]);
    pty.wait(HINT);
    pty.keys("cleared draft");
    pty.wait("cleared draft");
    pty.keys("\x03");
    pty.wait("ctrl-c again quits");
    pty.keys("kept draft");
    let dir = dirs.path("home/.local/state/gemini-a2a/history");
    eventually("the draft is stored", || {
        pty.read(Duration::from_millis(20));
        let files = std::fs::read_dir(&dir).ok()?.flatten();
        let mut drafts = files.filter(|file| file.path().extension().is_some_and(|end| end == "draft"));
        drafts.any(|file| std::fs::read_to_string(file.path()).unwrap_or_default() == "kept draft").then_some(())
    });
    pty.signal(rustix::process::Signal::KILL);
    pty.wait_for_end();
    let mut pty = dirs.start(&[]);
    pty.wait("kept draft");
    pty.keys("\x15\x1b[A");
    pty.wait("cleared draft");
}

fn editor(dirs: &TestDirs, script: &str) -> String {
    let path = dirs.put("editor", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
    path.display().to_string()
}

fn edit(dirs: &TestDirs, command: &str) -> Pty {
    let mut pty = dirs
        .start_with(&[("VISUAL", command), ("TMPDIR", &dirs.path("ws").display().to_string())], &["--trust-workspace"]);
    pty.wait(HINT);
    pty.keys("draft");
    pty.wait("draft");
    pty.keys("\x07");
    pty
}

#[test]
fn the_editor_has_the_terminal_and_gives_the_text_back() {
    let dirs = TestDirs::new();
    let script = "stat -c 'modes %a' \"$1\"; stat -c 'folder %a' \"$(dirname \"$1\")\"; stty -a | grep -o ' icanon'; \
                  printf ' is edited' >> \"$1\"; read line; stty size";
    let mut pty = edit(&dirs, &editor(&dirs, script));
    pty.wait("modes 600");
    pty.wait("folder 700");
    pty.wait(" icanon");
    pty.resize(60, 20);
    pty.keys("\n");
    pty.wait("20 60");
    pty.wait("draft is edited");
    let files = std::fs::read_dir(dirs.path("ws")).expect("a folder").flatten();
    assert_eq!(files.count(), 0, "the file is gone");
    pty.keys("\x03\x03");
    assert!(pty.end().0.success());
}

#[test]
fn an_editor_that_fails_leaves_the_draft_alone() {
    let dirs = TestDirs::new();
    let killed = editor(&dirs, "kill -9 $$");
    for (command, says) in [
        (killed.as_str(), "was ended by signal 9"),
        ("no-such-editor", "could not be found"),
        ("false", "ended with status 1"),
    ] {
        let mut pty = edit(&dirs, command);
        pty.wait(says);
        pty.keys("!");
        pty.wait("draft!");
        pty.keys("\x03\x03");
        assert!(pty.end().0.success());
    }
}

#[test]
fn an_editor_that_opens_a_window_is_waited_for() {
    let dirs = TestDirs::new();
    let script = "(while [ ! -e ../saved ]; do sleep 0.05; done; printf ' in a window' >> \"$1\"; touch ../done) &";
    let mut pty = edit(&dirs, &editor(&dirs, script));
    pty.wait("returned at once");
    dirs.put("saved", "");
    eventually("the window has saved", || dirs.path("done").exists().then_some(()));
    pty.keys("\n");
    pty.wait("draft in a window");
    pty.keys("\x03\x03");
    assert!(pty.end().0.success());
}

#[test]
fn linear_mode_sends_no_sequence_at_all() {
    for (term, more) in [("dumb", None), ("", None), ("xterm", Some("--screen-reader"))] {
        let dirs = TestDirs::new();
        let mut pty = dirs.start_with(&[("TERM", term)], more.as_slice());
        pty.wait("1: Trust this folder;");
        pty.wait("Type a number");
        pty.keys("1\n");
        pty.wait("gemini-a2a");
        pty.keys("hello\n");
        pty.wait("Agent: Hello!");
        pty.keys("please write a file\n");
        pty.wait("Type a number");
        pty.press_until("1\n", || dirs.path("ws/hello.txt").exists());
        pty.keys("/quit\n");
        assert!(!pty.bytes.contains(&0x1b));
        let (status, text) = pty.end();
        assert!(status.success() && !text.contains('\x1b'), "{text}");
    }
}

#[test]
fn nothing_but_the_terminal_is_written_and_the_log_goes_to_a_file() {
    let dirs = TestDirs::new();
    let command = format!("{PROGRAM} --trust-workspace --debug -i hello 2> ../errors");
    let mut pty = Pty::start(&dirs, &[], &["sh", "-c", &command]);
    pty.wait("I am the demo");
    pty.say("/quit");
    assert!(pty.end().0.success());
    assert_eq!(std::fs::read_to_string(dirs.path("errors")).expect("a file"), "");
    let log = std::fs::read_to_string(dirs.path("home/.local/state/gemini-a2a/terminal.log")).expect("a log");
    assert!(log.contains("[A2AService] "), "{log}");
    assert!(journals(&dirs).contains("hello"));
}
