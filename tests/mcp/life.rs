//! The life of servers: when they are started, started again, and stopped.

use crate::drive::task_in;
use crate::support::fake::FakeGemini;
use crate::support::message::{fresh, prompt_in};
use crate::support::{TempDir, eventually};
use crate::{Mcp, python};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// How often a server was started.
fn starts(mcp: &Mcp) -> usize {
    mcp.heard().iter().filter(|message| message["method"] == "initialize").count()
}

fn command(mcp: &Mcp, name: &str, args: &[&str]) -> Value {
    mcp.fixture.client().post("/executeCommand", &json!({"command": name, "args": args})).json()
}

/// A server that always ends is started five times, and then only when the user asks for it. The test uses the program's real waiting times,
/// so it takes 15 seconds.
#[test]
fn a_server_that_always_ends_is_started_five_times() {
    let Some(mcp) = Mcp::new(json!({"x": python("quits", json!({"HEARD": "heard"}))})) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    let given_up = || {
        let listed = command(&mcp, "mcp list", &[])["data"]["servers"][0].clone();
        listed["error"].as_str().filter(|error| error.contains("started too often")).map(str::to_owned)
    };
    let error = eventually("it is given up", given_up);
    assert!(error.contains("/mcp reload x"), "{error}");
    assert_eq!(starts(&mcp), 5);
    mcp.fixture.client().call("message/send", prompt_in(&task, "TEXT again"));
    assert_eq!(starts(&mcp), 5, "a task does not start it");
    command(&mcp, "mcp reload", &["x"]);
    eventually("it is started", || (starts(&mcp) == 6).then_some(()));
}

/// A start that fails after the server was connected once is followed by another one.
#[test]
fn a_server_that_ends_while_it_is_started_again_is_started_once_more() {
    let mut server = python("stumbles", json!({"HEARD": "heard"}));
    server["trust"] = json!(true);
    let Some(mcp) = Mcp::new(json!({ "x": server })) else { return };
    mcp.fixture.say("CALL mcp_x_die {} ;; TEXT done");
    eventually("it is connected", || {
        let listed = command(&mcp, "mcp list", &[])["data"]["servers"][0].clone();
        (starts(&mcp) == 3 && listed["status"] == "connected").then_some(())
    });
    mcp.fixture.say("CALL mcp_x_echo {\"text\": \"again\"} ;; TEXT done");
    assert_eq!(starts(&mcp), 3);
}

#[test]
fn a_server_that_nobody_uses_is_stopped_and_started_when_it_is_needed() {
    let mut server = python("", json!({"HEARD": "heard"}));
    server["idleTimeout"] = json!(1_000);
    let Some(mcp) = Mcp::new(json!({ "x": server })) else { return };
    let task = task_in(&mcp.fixture.say("TEXT hello"));
    assert!(mcp.declared().contains(&"mcp_x_echo".to_owned()));
    let processes = || command(&mcp, "stats", &[])["data"]["mcp"]["processes"].clone();
    eventually("it is stopped", || (processes() == 0).then_some(()));
    let listed = command(&mcp, "mcp list", &[])["data"]["servers"][0].clone();
    assert_eq!((&listed["status"], listed.get("error")), (&json!("disconnected"), None), "{listed}");
    let before = starts(&mcp);
    mcp.fixture.client().call("message/send", prompt_in(&task, "TEXT again"));
    assert_eq!(starts(&mcp), before + 1);
    assert!(mcp.declared().contains(&"mcp_x_echo".to_owned()));
}

/// The servers of the program's workspace are started before the first prompt.
#[test]
fn servers_start_with_the_program() {
    let Some(mut mcp) = Mcp::new(json!({})) else { return };
    let mut own = python("", json!({"HEARD": "own"}));
    own["isolation"] = json!("task");
    mcp.set_user(&json!({"mcpServers": {"x": python("", json!({"HEARD": "heard"})), "own": own}}));
    mcp.fixture.server.restart();
    eventually("it is started", || (starts(&mcp) == 1).then_some(()));
    mcp.fixture.say("TEXT hello");
    assert_eq!(starts(&mcp), 1, "the task uses it");
    let tools = command(&mcp, "tools", &[])["data"]["tools"].clone();
    let named = tools.as_array().into_iter().flatten().find(|tool| tool["name"] == "mcp_x_echo").expect("it is listed");
    assert_eq!(named["description"], "Says what it is given.");
}

#[test]
fn no_server_starts_with_the_program_in_an_untrusted_folder() {
    let settings = json!({"mcpServers": {"x": python("", json!({"HEARD": "heard"}))}});
    let Some(mut mcp) = Mcp::with(&[], settings) else { return };
    mcp.fixture.server.restart();
    mcp.fixture.say("TEXT hello");
    assert_eq!(starts(&mcp), 0);
}

#[test]
fn tenants_share_no_server() {
    let Some(mcp) = Mcp::new(json!({"x": python("", json!({"HEARD": "heard"}))})) else { return };
    eventually("the one that starts with the program", || (starts(&mcp) == 1).then_some(()));
    for (path, count) in [("/one", 2), ("/two", 3), ("/one", 3)] {
        let body = json!({"message": {"messageId": format!("m-{}", fresh()), "role": "ROLE_USER",
            "parts": [{"text": "TEXT hello"}]}});
        let answer = mcp.fixture.client().field("A2A-Version", "1.0").post(&format!("{path}/message:send"), &body);
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(starts(&mcp), count, "{path}");
    }
}

/// Without a terminal nobody can be asked: the call is denied, and the model is told why.
#[test]
fn without_a_terminal_a_call_that_needs_approval_is_denied() {
    let Some(_) = Mcp::new(json!({})) else { return };
    let (dir, fake) = (TempDir::new("mcp"), FakeGemini::start());
    let mut trusted = python("", json!({}));
    trusted["trust"] = json!(true);
    let settings = json!({"mcpServers": {"x": python("", json!({})), "y": trusted}});
    std::fs::write(dir.folder(".gemini").join("settings.json"), settings.to_string()).expect("it is ours");
    let run = |script: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
            .args(["-p", script, "--trust-workspace", "--state-dir"])
            .arg(dir.folder("state"))
            .arg("--workspace")
            .arg(dir.folder("workspace"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.path())
            .envs([("GEMINI_API_KEY", "fake".to_owned()), ("GOOGLE_GEMINI_BASE_URL", fake.url())])
            .stdin(Stdio::null())
            .output()
            .expect("the program");
        assert!(output.status.success(), "{output:?}");
        fake.turns().pop().expect("a request").body["contents"].to_string()
    };
    let told = run("CALL mcp_x_echo {\"text\": \"one\"} ;; TEXT done");
    assert!(told.contains("nobody can be asked") && !told.contains("echo: one"), "{told}");
    assert!(run("CALL mcp_y_echo {\"text\": \"two\"} ;; TEXT done").contains("echo: two"), "the operator trusts it");
}
