//! Background commands: their output, their limits, and when they end.

use super::*;

/// Starts a command in the background and returns its number.
fn start_in_background(fixture: &Fixture, task: &TaskId, command: &str) -> u32 {
    let args = json!({"command": command, "is_background": true, "delay_ms": 1});
    let tool_result = fixture.tool_result(task, "run_shell_command", args).expect("it starts");
    let (_, rest) = tool_result.split_once("Background PID: ").unwrap_or_else(|| panic!("no number in {tool_result}"));
    let pid = rest.lines().next().and_then(|pid| pid.parse().ok());
    pid.unwrap_or_else(|| panic!("no number in {tool_result}"))
}

#[test]
fn the_output_of_a_background_command_can_be_read() {
    let fixture = Fixture::new();
    let (mine, other) = (TaskId::from("mine"), TaskId::from("other"));
    let pid = start_in_background(
        &fixture,
        &mine,
        "echo one; echo two; while [ ! -e go ]; do sleep 0.01; done; echo three; exit 3",
    );
    let read = |lines: u32, delay: u32| {
        let args = json!({"pid": pid, "lines": lines, "delay_ms": delay});
        fixture.tool_result(&mine, "read_background_output", args)
    };
    let shown = |status: &str, lines: &str, text: &str| {
        Ok(format!("Process {pid} [{status}], last {lines} lines:\n<untrusted_context>\n{text}\n</untrusted_context>"))
    };
    wait_until("its first lines", || read(9, 0) == shown("running", "2 of 2", "one\ntwo"));
    assert_eq!(read(1, 0), shown("running", "1 of 2", "two"));
    let list = |task: &TaskId| fixture.tool_result(task, "list_background_processes", json!({}));
    assert!(list(&mine).is_ok_and(|list| list.starts_with(&format!("{pid} [running] echo one;"))));
    // Another task neither sees the command nor can it read its output.
    assert_eq!(list(&other), Ok("No commands were started in the background.".into()));
    assert_eq!(
        fixture.tool_result(&other, "read_background_output", json!({"pid": pid})),
        Err(format!(
            "{pid} is no process that was started in the background here. Those that were: list_background_processes."
        ))
    );
    std::fs::write(fixture.dir.join("go"), "").expect("mine");
    // The wait ends with the command, long before its time limit.
    assert_eq!(read(9, 60_000), shown("Exit Code: 3", "3 of 3", "one\ntwo\nthree"));
    wait_until("its end", || !runs(pid));
}

#[test]
fn a_background_command_that_ends_at_once_gives_its_result() {
    let fixture = Fixture::new();
    let args = json!({"command": "echo done; exit 2", "is_background": true, "delay_ms": 60_000});
    assert_eq!(
        fixture.call(&fixture.task, "run_shell_command", args, &mut |_| {}),
        success("Output: done\n\nExit Code: 2", "done\n")
    );
    assert_eq!(
        fixture.tool_result(&fixture.task, "list_background_processes", json!({})),
        Ok("No commands were started in the background.".into())
    );
}

#[test]
fn background_commands_end_with_their_task() {
    let fixture = Fixture::new();
    let (mine, other) = (TaskId::from("mine"), TaskId::from("other"));
    // A command that ignores TERM, with a child in a session of its own.
    let stubborn = "trap '' TERM; setsid sleep 1000 & echo $! > inner; while :; do sleep 1; done";
    let pid = start_in_background(&fixture, &mine, stubborn);
    let theirs = start_in_background(&fixture, &other, "sleep 1000");
    wait_until("the inner one", || pid_in(&fixture.dir.join("inner")).is_some());
    let inner = fixture.pid("inner");
    fixture.context.background.end_task(&mine);
    wait_until("their end", || !runs(pid) && !runs(inner));
    assert!(runs(theirs) && !fixture.children.supervisors().pids().is_empty());
    fixture.context.background.end_task(&other);
    wait_until("the other's end", || !runs(theirs));
    wait_until("the end of its supervisor", || fixture.children.supervisors().pids().is_empty());
}

#[test]
fn cancelling_a_call_ends_its_background_command() {
    let fixture = Fixture::new();
    let args = json!({"command": "echo $$ > pid; echo out; sleep 1000", "is_background": true, "delay_ms": 60_000});
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("its start", || pid_in(&fixture.dir.join("pid")).is_some());
            fixture.context.cancel.set();
        });
        let tool_result = fixture.tool_result(&fixture.task, "run_shell_command", args);
        assert!(tool_result.is_err_and(|text| text.starts_with("The command was cancelled and ended.")));
    });
    wait_until("its end", || !runs(fixture.pid("pid")));
    wait_until("the end of its supervisor", || fixture.children.supervisors().pids().is_empty());
}

#[test]
fn background_commands_are_limited_in_number_and_output() {
    let mut fixture = Fixture::new();
    fixture.context.limits.background_task = 1;
    fixture.context.limits.background_bytes = 8;
    let task = fixture.task.clone();
    let pid = start_in_background(&fixture, &task, "echo 12345678ü; echo 9; sleep 1000");
    let args = json!({"command": "echo", "is_background": true});
    assert_eq!(
        fixture.tool_result(&task, "run_shell_command", args),
        Err("1 commands run in the background already, and no more are allowed. End one that is not needed.".into())
    );
    let mut last = String::new();
    wait_until("its output", || {
        let tool_result = fixture.tool_result(&task, "read_background_output", json!({"pid": pid}));
        last = tool_result.expect("it runs");
        last.contains("\n9\n")
    });
    assert!(
        last.ends_with(
            "<untrusted_context>\n[the first 5 bytes of output were not kept]\n678ü\n9\n</untrusted_context>"
        ),
        "{last}"
    );
    let instance = fixture.dir.file_name().and_then(|name| name.to_str());
    let ended = sweep([instance.expect("a plain name")]);
    assert!(ended.contains(&pid), "{ended:?}");
    wait_until("its end", || !runs(pid));
}
