//! Sessions that are listed, continued and deleted.

use crate::program::{Program, finish};
use crate::support::eventually;

impl Program {
    /// The lines of the list, without its first one, and the ids in them.
    fn listed(&self) -> (Vec<String>, Vec<String>) {
        let ended = self.run(&["--list-sessions"]);
        assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""));
        let lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
        assert_eq!(lines[0], format!("Available sessions for this project ({}):", lines.len() - 1));
        let id = |line: &String| line.rsplit(['[', ']']).nth(1).expect("an id in brackets").to_owned();
        (lines[1..].to_vec(), lines[1..].iter().map(id).collect())
    }

    /// How often the words are in the last request.
    fn occurrences(&self, words: &str) -> usize {
        self.fake.turns().last().expect("a request").body.to_string().matches(words).count()
    }
}

#[test]
fn a_session_goes_on_by_its_place_and_by_its_id() {
    let program = Program::new();
    let none = program.run(&["--list-sessions", "-o", "json"]);
    none.expect(0, "No previous sessions found for this project.\n", "");
    assert_eq!(program.run(&["-r", "-p", "TEXT x"]).status, Some(42));
    program.run(&["-p", "TEXT first\nwith a second line"]).expect(0, "first\n", "");
    program.run(&["-p", "TEXT second"]).expect(0, "second\n", "");
    program.run(&["-p", "/help"]);
    let (lines, ids) = program.listed();
    assert_eq!(
        lines,
        [format!("  1. TEXT first (just now) [{}]", ids[0]), format!("  2. TEXT second (just now) [{}]", ids[1]),]
    );
    program.run(&["--resume", "1", "-p", "TEXT again"]).expect(0, "again\n", "");
    assert_eq!((program.occurrences("TEXT first"), program.occurrences("TEXT second")), (1, 0));
    assert_eq!(program.listed().1, [ids[1].as_str(), ids[0].as_str()], "the one that was used last is the last");
    program.run(&["-r", "-p", "TEXT latest"]).expect(0, "latest\n", "");
    assert_eq!(program.occurrences("TEXT again"), 1);
    program.run(&["-r", &ids[1][..8], "-p", "TEXT by id"]).expect(0, "by id\n", "");
    assert_eq!(program.occurrences("TEXT second"), 1);
    let stream = program.run(&["-r", &ids[0], "-o", "stream-json", "-p", "TEXT only this"]);
    let lines = stream.lines();
    assert_eq!(
        (lines.len(), lines[0]["session_id"].as_str()),
        (4, Some(ids[0].as_str())),
        "no history: {}",
        stream.out
    );
}

#[test]
fn a_wrong_name_is_an_error_that_says_how_to_list() {
    let program = Program::new();
    program.run(&["-p", "TEXT first"]);
    for args in [["--resume", "7"], ["--resume", "no-id"], ["--delete-session", "7"]] {
        let ended = program.run(&[&args[..], &["-p", "TEXT x"]].concat());
        assert_eq!((ended.status, ended.out.as_str()), (Some(42), ""), "{args:?}");
        assert!(ended.err.contains(args[1]) && ended.err.contains("--list-sessions"), "{}", ended.err);
    }
    assert_eq!(program.fake.turns().len(), 1);
}

#[test]
fn a_deleted_session_is_gone() {
    let program = Program::new();
    program.run(&["-p", "TEXT first"]);
    program.run(&["-p", "TEXT second"]);
    let (_, ids) = program.listed();
    program.run(&["--delete-session", "1"]).expect(0, &format!("Session {} is deleted.\n", ids[0]), "");
    assert_eq!(program.listed().1, ids[1..]);
    assert!(!program.dir.path().join(format!("state/tasks/{}.jsonl", ids[0])).exists());
}

/// What was allowed in an earlier run is not allowed in the next.
#[test]
fn the_mode_is_that_of_the_run() {
    let program = Program::new();
    let yolo = ["--trust-workspace", "-y", "-p", "SHELL touch a ;; TEXT one"];
    program.run(&yolo).expect(0, "one\n", "");
    let ended = program.run(&["--trust-workspace", "-r", "-p", "SHELL touch b ;; TEXT two"]);
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), "two\n"));
    assert!(ended.err.contains("nobody can be asked"), "{}", ended.err);
    let again = ["--trust-workspace", "-y", "-r", "-p", "SHELL touch c ;; TEXT three"];
    program.run(&again).expect(0, "three\n", "");
    let made = ["a", "b", "c"].map(|name| program.workspace().join(name).exists());
    assert_eq!(made, [true, false, true]);
}

#[test]
fn a_session_of_another_process_is_not_taken() {
    let program = Program::new();
    program.run(&["-p", "TEXT begin"]).expect(0, "begin\n", "");
    let child = program.command(&["-r", "-p", "TEXT a ++ HOLD ++ TEXT b"]).spawn().expect("the program");
    eventually("the hold", || (program.fake.held() == 1).then_some(()));
    for args in [&["-r", "-p", "TEXT x"][..], &["--delete-session", "1"]] {
        let ended = program.run(args);
        assert_ne!(ended.status, Some(0));
        assert!(ended.err.contains("in use by another server"), "{}", ended.err);
    }
    program.fake.release();
    finish(child).expect(0, "ab\n", "");
}
