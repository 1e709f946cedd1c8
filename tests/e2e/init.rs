//! The server as the first process of a PID namespace, as in a container: it inherits every orphan.

use crate::drive::Fixture;
use crate::support::eventually;
use crate::support::message::{approval, call_of, call_status_of};
use std::fs;

/// The direct children of a process, also those that have ended and were not reaped.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    // A thread may have ended meanwhile.
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists.collect::<String>().split_ascii_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

#[test]
fn orphans_are_reaped_when_they_end_and_commands_keep_their_status() {
    // Two orphans: one has ended before the server starts, one ends when it is told to.
    let orphans = "mkfifo workspace/end; (true &); (cat workspace/end &)";
    let Some(fixture) = Fixture::in_pid_namespace(orphans) else {
        return;
    };
    let init = children(fixture.server.pid())[0];
    eventually("one orphan is left", || (children(init).len() == 1).then_some(()));
    let (task, calls) = fixture.ask("SHELL exit 3");
    let stream = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once"));
    let events: Vec<_> = stream.collect();
    let done = events.iter().find(|event| call_status_of(event.result()) == "success").expect("the tool ended");
    assert_eq!(call_of(done.result())["response"]["resultDisplay"], "Exit Code: 3");
    assert_eq!(children(init).len(), 1);
    fs::write(fixture.server.workspace().join("end"), "now").expect("it is read");
    eventually("no orphan is left", || children(init).is_empty().then_some(()));
}
