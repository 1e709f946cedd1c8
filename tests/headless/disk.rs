//! A full disk ends a run with a status of its own.

use crate::program::{Ended, Program, finish};
use std::process::{Command, Stdio};

/// Runs the program by a shell that first does something else. `$0` is the workspace.
fn after(program: &Program, wrapper: &[&str], first: &str, args: &[&str]) -> Ended {
    let inner = program.command(args);
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg("-c").arg(format!("{first} && exec \"$@\"")).arg(program.workspace());
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the program"))
}

#[test]
fn a_tool_that_finds_the_disk_full_ends_the_run() {
    // A user namespace has mounts of its own, also for people who are not root.
    const WRAPPER: [&str; 5] = ["unshare", "--user", "--map-root-user", "--mount", "sh"];
    const MOUNT: &str = "mount -t tmpfs -o size=8k tmpfs \"$0\"";
    let program = Program::new();
    let tried = Command::new(WRAPPER[0]).args(&WRAPPER[1..]).args(["-c", MOUNT]).arg(program.workspace()).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    }
    let write = format!("WRITE a.txt {} ;; TEXT written", "x".repeat(20_000));
    let ended = after(&program, &WRAPPER, MOUNT, &["-p", &write, "--yolo", "--skip-trust", "-o", "json"]);
    assert_eq!((ended.status, ended.out.as_str()), (Some(54), ""), "{}", ended.err);
    let error: serde_json::Value = serde_json::from_str(&ended.err).expect("one object");
    assert_eq!(error["error"]["type"], "FatalToolExecutionError");
    assert_eq!(error["error"]["code"], 54);
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("a.txt cannot be written"), "{message}");
}

/// A limit on the size of files makes the system refuse to write on, as a full disk does.
#[test]
fn a_journal_that_cannot_be_written_ends_the_run() {
    let program = Program::new();
    let limit = "trap '' XFSZ && ulimit -f 16";
    // The prompt does not fit, or what follows from it.
    let long = format!("TEXT {}", "many words ".repeat(3_000));
    let many = format!("{}TEXT done", "TEXT some words ++ READ nowhere ;; ".repeat(60));
    for (prompt, words) in [(long, "The request was accepted and waits"), (many, "Events wait")] {
        let ended = after(&program, &["sh"], limit, &["-p", &prompt, "-o", "json"]);
        assert_eq!((ended.status, ended.out.as_str()), (Some(54), ""), "{}", ended.err);
        let error: serde_json::Value = serde_json::from_str(&ended.err).expect("one object");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains("journal cannot be written") && message.contains(words), "{message}");
    }
}
