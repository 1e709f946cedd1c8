//! Servers that are programs: their environment, how they end, and that a misbehaving server does not affect others.

use crate::commands::said;
use crate::drive::{running, task_in, unique_seconds};
use crate::support::eventually;
use crate::{Mcp, python};
use gemini_a2a::limits::Limits;
use gemini_a2a::limits::mcp::{FIRST_WAIT_MS, START_MS, STOP_MS};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A server whose processes have this argument.
fn with_argument(mut server: Value, argument: &str) -> Value {
    server["args"].as_array_mut().expect("a list").push(json!(argument));
    server
}

/// The status and the error of a server.
fn seen(mcp: &Mcp, task: &str, name: &str) -> (String, String) {
    let metadata = mcp.metadata(task);
    let servers = metadata["mcpServers"].as_array().expect("a list");
    let server = servers.iter().find(|server| server["name"] == name).expect("it is listed");
    let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("error"))
}

#[test]
fn a_server_gets_only_the_variables_of_its_settings() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({"T": "${MY_VALUE}", "D": "${NONE:-default}"}))})) else {
        return;
    };
    let ended = mcp.run("CALL mcp_x_environment {} ;; TEXT done");
    let shown = ended[0]["response"]["resultDisplay"].as_str().expect("a text");
    let env: Value = serde_json::from_str(shown).expect("JSON");
    assert_eq!((&env["T"], &env["D"], &env["GEMINI_CLI"]), (&json!("from-outside"), &json!("default"), &json!("1")));
    assert_eq!(env.get("GEMINI_API_KEY"), None);
    assert_eq!(env.get("MY_VALUE"), None, "only what it asks for");
}

#[test]
fn a_server_that_needs_a_variable_that_is_not_set_is_not_started() {
    let server = json!({"command": "python3", "args": ["-c", "print('$MISSING_ONE')"]});
    let Some(mcp) = Mcp::new(json!({ "x": server })) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let (status, error) = seen(&mcp, &task, "x");
    assert_eq!(status, "blocked");
    assert!(error.contains("MISSING_ONE"), "{error}");
}

/// A server that violates the protocol does not affect other servers.
#[test]
fn a_server_that_violates_the_protocol_is_stopped_and_others_go_on() {
    let seconds = unique_seconds();
    let marked = |words: &str| with_argument(python(words, json!({})), &seconds);
    let servers = json!({"bad": marked("line"), "flood": marked("flood"), "old": marked("old"),
        "x": python("", json!({}))});
    let Some(mcp) = Mcp::new(servers) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let wait_for = |name: &str, words: &[&str]| {
        eventually("it fails", || {
            mcp.fixture.client().call("message/send", crate::support::message::prompt_in(&task, "TEXT again"));
            let (status, error) = seen(&mcp, &task, name);
            (status == "disconnected").then_some(error)
        })
        .split('\n')
        .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(wait_for("bad", &["line too long"]));
    assert!(wait_for("flood", &["notifications"]));
    assert!(wait_for("old", &["1900-01-01", "2025-11-25"]));
    eventually("their processes are gone", || running(&seconds).is_empty().then_some(()));
    assert_eq!(seen(&mcp, &task, "x").0, "connected");
    assert_eq!(mcp.run("CALL mcp_x_echo {\"text\": \"a\"} ;; TEXT done")[0]["response"]["resultDisplay"], "echo: a");
}

/// The first prompt waits for a silent server, but not for its whole startup timeout.
#[test]
fn a_server_that_never_answers_does_not_stop_the_first_prompt() {
    assert_eq!((FIRST_WAIT_MS, START_MS), (5_000, 60_000));
    let mut hanging = python("hang", json!({}));
    hanging["startupTimeout"] = json!(15_000);
    // It starts with the task and has the usual time, so it still connects when the prompt has been answered.
    let mut slow = python("hang", json!({}));
    slow["isolation"] = json!("task");
    let servers = json!({"hanging": hanging, "slow": slow, "x": python("", json!({}))});
    let Some(mcp) = Mcp::new(servers) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    assert_eq!(seen(&mcp, &task, "slow").0, "connecting");
    assert!(mcp.declared().contains(&"mcp_x_echo".to_owned()));
    let error = eventually("it has failed", || {
        mcp.fixture.client().call("message/send", crate::support::message::prompt_in(&task, "TEXT again"));
        let (status, error) = seen(&mcp, &task, "hanging");
        (status == "disconnected").then_some(error)
    });
    assert!(error.contains("initialize") && error.contains("15 s"), "{error}");
}

#[test]
fn a_server_that_cannot_start_says_why_without_its_secrets() {
    let Some(mcp) = Mcp::new(json!({"x": python("fails", json!({"TOKEN": "s3cret-token-of-mine"}))})) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let (status, error) = seen(&mcp, &task, "x");
    assert_eq!(status, "disconnected");
    assert!(error.contains("exit code 7") && error.contains("it cannot start: [redacted]"), "{error}");
    mcp.fixture.client().call("message/send", crate::support::message::prompt_in(&task, "TEXT more"));
    let journal = mcp.fixture.server.state_dir().join("tasks").join(format!("{task}.jsonl"));
    let written = std::fs::read_to_string(journal).expect("a journal");
    for text in [written, mcp.fixture.server.output(), mcp.metadata(&task).to_string()] {
        assert!(!text.contains("s3cret-token-of-mine"), "{text}");
    }
}

/// Reading a list ends when its cursor is repeated, and no tool is declared twice.
#[test]
fn reading_an_endless_list_ends() {
    let Some(mcp) = Mcp::new(json!({"x": python("endless", json!({}))})) else { return };
    mcp.fixture.say("TEXT hello");
    let declared = mcp.declared();
    assert_eq!(declared.iter().filter(|name| *name == "mcp_x_echo").count(), 1);
}

/// A server that ignores the end of its input and SIGTERM ends together with the program, and so do its child processes.
#[test]
fn nothing_of_a_server_outlives_the_program() {
    let seconds = unique_seconds();
    let server = with_argument(python("stubborn", json!({})), &seconds);
    let Some(mut mcp) = Mcp::new(json!({ "x": server })) else { return };
    mcp.fixture.say("TEXT hello");
    assert!(running(&seconds).len() >= 2, "the server and its child");
    mcp.fixture.server.kill9();
    eventually("all are gone", || running(&seconds).is_empty().then_some(()));
}

/// A server that is stopped by a command or with the program is killed after the time limits if it does not end itself.
#[test]
fn a_server_that_does_not_stop_is_killed_with_its_child_processes() {
    assert_eq!((STOP_MS, Limits::default().kill_ms), (2_000, 2_000));
    for how in ["disable", "reload", "end"] {
        let (first, second) = (unique_seconds(), unique_seconds());
        let server = with_argument(python("stubborn", json!({})), &first);
        let Some(mut mcp) = Mcp::new(json!({ "x": server })) else { return };
        mcp.fixture.say("TEXT hello");
        assert!(running(&first).len() >= 2, "{how}: the server and its child");
        match how {
            "disable" => drop(said(&mcp, &["disable", "x"])),
            "reload" => {
                let changed = with_argument(python("", json!({})), &second);
                mcp.set_user(&json!({"mcpServers": { "x": changed }}));
                said(&mcp, &["reload"]);
                eventually("the other one is started", || (!running(&second).is_empty()).then_some(()));
            }
            _ => {
                let pid = Pid::from_raw(mcp.fixture.server.pid().cast_signed()).expect("a process");
                kill_process(pid, Signal::TERM).expect("it is ours");
                mcp.fixture.server.ended();
            }
        }
        eventually("all are gone", || running(&first).is_empty().then_some(()));
    }
}

/// Five tasks share one process.
#[test]
fn tasks_share_a_server() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({"HEARD": "heard"}))})) else { return };
    for _ in 0..5 {
        mcp.fixture.say("TEXT hello");
    }
    assert_eq!(mcp.heard().iter().filter(|message| message["method"] == "initialize").count(), 1);
    let mut own = python("", json!({"HEARD": "heard"}));
    own["isolation"] = json!("task");
    let Some(mcp) = Mcp::new(json!({ "x": own })) else { return };
    for _ in 0..3 {
        mcp.fixture.say("TEXT hello");
    }
    assert_eq!(mcp.heard().iter().filter(|message| message["method"] == "initialize").count(), 3, "one each");
}
