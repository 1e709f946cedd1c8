//! The log on standard error: its messages at each level.

use crate::drive::Fixture;
use crate::support::eventually;
use crate::support::message::approval;
use crate::support::socket::Socket;
use serde_json::json;

/// The messages of the log in the order they were written, without their times.
fn messages(fixture: &Fixture) -> Vec<String> {
    let output = fixture.server.output();
    let lines = output.lines().filter(|line| line.starts_with("[20"));
    let messages = lines.filter_map(|line| Some(line.split_once("] ")?.1));
    // The ids of requests differ from run to run.
    messages.map(|line| line.split(", request id ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn debug_has_a_line_per_client_request_model_call_tool_call_and_refusal() {
    let fixture = Fixture::with(|setup| setup.arg("--debug"));
    let (task, calls) = fixture.ask("SHELL touch made");
    let call = &calls[0];
    fixture.client().stream("message/stream", approval(&task, call, "proceed_once")).for_each(drop);
    fixture.client().post("/", &json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "none"}}));
    drop(Socket::open(&fixture.server.url(), "/ws?client=editor", None));
    let join = "debug [A2AService] request join from editor (session)";
    eventually("the line of the socket", || messages(&fixture).iter().any(|line| line == join).then_some(()));
    let lines = messages(&fixture);
    let about = |text: &str| format!("debug [A2AService] task {task}: {text}");
    let shell = format!("tool call {call}");
    let expected = [
        "debug [A2AService] A2A client connected: a client (a2a-0.3)".into(),
        "debug [A2AService] request say from a client (a2a-0.3)".into(),
        about("prompt 1 from a client (a2a-0.3)"),
        about("model call: gemini-3.1-pro-preview, turn 1, attempt 1"),
        about(&format!("{shell} needs approval")),
        about(&format!("{shell} was answered proceed_once by a client (a2a-0.3)")),
        about(&format!("{shell} starts")),
        about(&format!("{shell}: succeeded")),
        about("model call: gemini-3.1-pro-preview, turn 1, attempt 1"),
        about("turn 1 is over"),
        "debug [A2AService] request get none from a client (a2a-0.3)".into(),
        "debug [A2AService] refused a request: Task not found: none".into(),
        "debug [A2AService] A2A client connected: editor (session)".into(),
        join.into(),
    ];
    let mut rest = lines.iter();
    for line in &expected {
        assert!(rest.any(|found| found == line), "{line}\nis not in its place in\n{}", lines.join("\n"));
    }
    assert!(lines.iter().all(|line| line.contains("[A2AService] ")), "{lines:?}");
    assert!(!fixture.server.output().contains("touch made"), "{lines:?}");
}

#[test]
fn info_has_what_an_operator_needs_and_no_more() {
    let fixture = Fixture::with(|setup| setup.env("GEMINI_API_KEY", "key"));
    fixture.say("TEXT fine");
    let health = fixture.client().request("GET", "/health", &[("Origin", "http://evil.example")], b"");
    assert_eq!(health.status(), 403);
    fixture.say("ERR400");
    let failed = |line: &String| line.starts_with("warn task ") && line.contains("failed: ");
    let lines = eventually("the line of the failed turn", || {
        let lines = messages(&fixture);
        lines.iter().any(|line| failed(line) && line.contains("fake error 400")).then_some(lines)
    });
    assert!(lines.iter().any(|line| line.starts_with("warn refused a connection: ")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.starts_with("debug")), "{lines:?}");
}

/// A slash command that is refused is not logged as a warning; a model that cannot be reached is.
#[test]
fn a_refused_command_is_no_warning() {
    let fixture = Fixture::with(|setup| setup.env("GEMINI_API_KEY", "key").arg("--trust-workspace"));
    let command = |name: &str| drop(fixture.client().post("/executeCommand", &json!({ "command": name })));
    command("stop");
    let line = eventually("the line of the command", || {
        messages(&fixture).into_iter().find(|line| line.contains("No turn is under way there."))
    });
    assert!(line.starts_with("info task "), "{line}");
    fixture.say("ERR403");
    eventually("the line of the turn", || {
        messages(&fixture).iter().any(|line| line.starts_with("warn task ")).then_some(())
    });
}
