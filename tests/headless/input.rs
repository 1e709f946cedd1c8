//! What is asked, and how it ends, in the format `text`.

use crate::program::{Program, finish, stop_at};
use crate::support::eventually;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;

#[test]
fn the_answer_is_standard_output_with_one_line_break_at_its_end() {
    let program = Program::new();
    program.run(&["-p", "TEXT Hello."]).expect(0, "Hello.\n", "");
    program.run(&["TEXT", "two words"]).expect(0, "two words\n", "");
    let prompt = "TEXT Reading. ++ READ a.txt ;; TEXT There is no such file.";
    let ended = program.run(&["-p", prompt]);
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), "Reading.\nThere is no such file.\n"));
    assert!(ended.err.starts_with("Error executing tool read_file: "), "{}", ended.err);
}

#[test]
fn control_characters_of_the_model_are_removed_unless_they_are_wanted() {
    let program = Program::new();
    let prompt = "TEXT a\u{1b}[31mb\u{1b}]0;title\u{7}c";
    program.run(&["-p", prompt]).expect(0, "abc\n", "");
    program.run(&["--raw-output", "-p", prompt]).expect(0, "a\u{1b}[31mb\u{1b}]0;title\u{7}c\n", "");
}

#[test]
fn standard_input_comes_before_the_prompt() {
    let program = Program::new();
    program.run_with_input(&["-p", "TEXT both"], b"from a pipe\n".into()).expect(0, "both\n", "");
    assert!(program.last_prompt().contains("from a pipe\n\nTEXT both"), "{}", program.last_prompt());
    program.run_with_input(&[], b"TEXT only\n".into()).expect(0, "only\n", "");
    program.run_with_input(&["-p", ""], b"TEXT only\n".into()).expect(0, "only\n", "");
}

#[test]
fn without_a_prompt_nothing_is_asked() {
    let program = Program::new();
    let none = "gemini-a2a: There is no prompt. Give one with -p TEXT, or on standard input.\n";
    program.run(&["-p", ""]).expect(42, "", none);
    program.run(&["-p", " \n"]).expect(42, "", none);
    program.run(&["--resume"]).expect(42, "", none);
    program.run_with_input(&["-p", ""], Vec::new()).expect(42, "", none);
    let long = program.run_with_input(&["-p", "TEXT x"], vec![b'a'; 9 << 20]);
    assert_eq!((long.status, long.out.as_str()), (Some(42), ""));
    assert!(long.err.contains("longer than 8 MiB") && long.err.contains("@FILE"), "{}", long.err);
    assert!(program.fake.turns().is_empty());
    // As much as is read; quotation marks take twice their length on the way to the server.
    let longest = program.run_with_input(&["-p", "TEXT x"], vec![b'"'; 8 << 20]);
    assert_eq!((longest.status, longest.out.as_str()), (Some(1), ""));
    assert!(longest.err.contains("The conversation is too long"), "{}", longest.err);
}

#[test]
fn what_needs_approval_is_refused_and_the_model_is_told_why() {
    let program = Program::new();
    let prompt = "WRITE a.txt x ;; CALL ask_user {\"questions\":[]} ;; TEXT I may not.";
    let ended = program.run(&["-p", prompt]);
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), "I may not.\n"));
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(
        lines[0],
        "Error executing tool write_file: This call of write_file is not allowed here: it needs approval (the default of \
         write_file), and nobody can be asked."
    );
    assert!(lines[1].starts_with("Error executing tool ask_user: "), "{}", ended.err);
    let first = &program.fake.turns()[0].body["tools"];
    assert!(first.to_string().contains("write_file") && !first.to_string().contains("ask_user"));
    assert!(program.last_prompt().is_empty(), "the result is a part of its own");
    assert!(program.fake.turns()[1].body.to_string().contains("nobody can be asked"));
    assert!(!program.workspace().join("a.txt").exists());
    let trusted = ["--trust-workspace", "--approval-mode", "auto_edit", "-p", "WRITE a.txt x ;; TEXT Written."];
    program.run(&trusted).expect(0, "Written.\n", "");
    assert!(program.workspace().join("a.txt").exists());
    let yolo = ["--trust-workspace", "--yolo", "-p", "SHELL touch b.txt ;; TEXT Run."];
    program.run(&yolo).expect(0, "Run.\n", "");
    assert!(program.workspace().join("b.txt").exists());
}

#[test]
fn each_kind_of_failure_has_its_exit_status() {
    let program = Program::new();
    let failed = |args: &[&str], status: i32, words: &str| {
        let ended = program.run(args);
        assert_eq!((ended.status, ended.out.as_str()), (Some(status), ""), "{args:?}: {}", ended.err);
        let last = ended.err.lines().last().unwrap_or_default();
        assert!(last.starts_with("gemini-a2a: ") && last.contains(words), "{args:?}: {}", ended.err);
    };
    failed(&["-p", "ERR403 9"], 41, "GEMINI_API_KEY");
    failed(&["-p", "ERR400 9"], 1, "status 400");
    failed(&["--yolo", "-p", "TEXT x"], 55, "--trust-workspace");
    failed(&["-p", "x", "--workspace", "/no/such/dir"], 52, "/no/such/dir");
    let settings = program.dir.folder(".gemini").join("settings.json");
    std::fs::write(settings, r#"{"model": {"maxSessionTurns": 1}}"#).expect("settings");
    failed(&["-p", "LS . ;; TEXT never"], 53, "as often as it may");
}

#[test]
fn without_a_key_the_demo_answers_and_says_so() {
    let program = Program::new();
    let ended = finish(program.without_model(&["-p", "hello"]).spawn().expect("the program"));
    assert!(ended.out.contains("demo"), "{}", ended.out);
    let warning = "[WARNING] No GEMINI_API_KEY is set: a scripted demo answers, no model is asked.\n";
    assert_eq!((ended.status, ended.err.as_str()), (Some(0), warning));
}

#[test]
fn a_slash_command_is_run() {
    let program = Program::new();
    let ended = program.run(&["-p", "/help"]);
    assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.contains("/memory show"), "{}", ended.out);
    assert!(program.fake.turns().is_empty());
    program.run(&["-p", "/etc/passwd?\nTEXT a path"]).expect(0, "a path\n", "");
}

#[test]
fn a_signal_stops_the_turn() {
    let program = Program::new();
    for signal in [Signal::INT, Signal::TERM] {
        let child = program.command(&["-p", "TEXT begun ++ HOLD"]).spawn().expect("the program");
        let ended = stop_at(child, "begun", signal);
        assert_eq!((ended.status, ended.out.as_str()), (Some(130), "begun\n"), "{}", ended.err);
        assert!(ended.err.starts_with("gemini-a2a: The run was stopped by SIG"), "{}", ended.err);
    }
    eventually("both requests given up", || (program.fake.counters().broken == 2).then_some(()));
}

#[test]
fn a_closed_standard_output_is_no_error() {
    let program = Program::new();
    let mut child = program.command(&["-p", "TEXT a ++ HOLD ++ TEXT b ++ HANG"]).spawn().expect("the program");
    eventually("the hold", || (program.fake.held() == 1).then_some(()));
    drop(child.stdout.take());
    program.fake.release();
    finish(child).expect(0, "", "");
}

#[test]
fn an_open_pipe_that_nobody_writes_to_is_no_input() {
    let program = Program::new();
    let child = program.command(&["-p", "TEXT x"]).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("the program");
    let _open = child.stdin.take();
    finish(child).expect(0, "x\n", "");
}

/// Every stream of the model breaks off.
#[test]
fn an_answer_that_always_breaks_off_has_a_type_of_its_own() {
    let program = Program::new();
    let ended = program.run(&["-o", "json", "-p", "TEXT begun ++ CUT 9"]);
    assert_eq!((ended.status, ended.out.as_str()), (Some(1), ""));
    let error: Value = serde_json::from_str(&ended.err).expect("one JSON object");
    assert_eq!(error["error"]["type"], "INVALID_STREAM", "{}", ended.err);
}

/// With JSON the log goes into a file, so that both streams can be read by programs.
#[test]
fn debugging_does_not_disturb_json() {
    let program = Program::new();
    let ended = program.run(&["-o", "json", "--debug", "-p", "TEXT x"]);
    assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""));
    let log = std::fs::read_to_string(program.dir.folder("state").join("headless.log")).expect("a log");
    assert!(log.contains("[A2AService]"), "{log}");
}
