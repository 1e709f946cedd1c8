//! The subcommands of `gemini-a2a mcp`.

use crate::{Mcp, python};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// A command that runs the program with the home, the state directory and the workspace of a server.
pub fn program(mcp: &Mcp, args: &[&str]) -> Command {
    let server = &mcp.fixture.server;
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    command
        .args(args.iter().take_while(|arg| **arg != "--"))
        .arg("--state-dir")
        .arg(server.state_dir())
        .arg("--workspace")
        .arg(server.workspace())
        .arg("--trust-workspace")
        .args(args.iter().skip_while(|arg| **arg != "--"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", server.state_dir().with_file_name("home"));
    command
}

fn run(mcp: &Mcp, args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program(mcp, args).output().expect("the program");
    (status.code(), String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"))
}

#[test]
fn servers_are_listed_and_tested() {
    let mut good = python("banner", json!({"TOKEN": "s3cret-of-the-user"}));
    good["args"].as_array_mut().expect("a list").extend(["--api-key".into(), "s3cret-of-the-arguments".into()]);
    let settings = json!({"good": good, "bad": python("fails", json!({})),
        "off": {"command": "x", "tcp": "y"}});
    let Some(mcp) = Mcp::new(settings) else { return };
    let (status, out, err) = run(&mcp, &["mcp", "list"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("good - not started (user)") && out.contains("off - blocked"), "{out}");
    assert!(out.contains("banner --api-key …\n") && !out.contains("s3cret"), "{out}");
    let listed = mcp.fixture.client().post("/executeCommand", &json!({"command": "mcp list"})).text();
    assert!(!listed.contains("api-key"), "only the operator sees them: {listed}");
    let (status, out, err) = run(&mcp, &["mcp", "test", "good"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("good - connected") && out.contains("it answers") && out.contains("mcp_good_echo"), "{out}");
    let (status, _, err) = run(&mcp, &["mcp", "test", "bad"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("exit code 7"), "{err}");
    let (status, _, err) = run(&mcp, &["mcp", "test", "none"]);
    assert!(status == Some(1) && err.contains("no MCP server none"), "{err}");
    let (status, _, err) = run(&mcp, &["mcp", "login", "good"]);
    assert!(status == Some(1) && err.contains("is a program"), "{err}");
    let (status, _, err) = run(&mcp, &["mcp", "frobnicate"]);
    assert!(status == Some(2) && err.contains("mcp takes"), "{err}");
}

#[test]
fn servers_are_added_to_and_removed_from_the_settings_with_their_comments() {
    let Some(mcp) = Mcp::new(json!({})) else { return };
    let file = mcp.fixture.server.state_dir().with_file_name("home").join(".gemini/settings.json");
    let text = "// mine\n{\n  \"ui\": {\"theme\": \"x\"}, // a theme\n  \"mcpServers\": {\n    // the first\n    \"a\": {\"command\": \"a\"}\n  }\n}\n";
    std::fs::write(&file, text).expect("it is ours");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    let (status, out, err) =
        run(&mcp, &["mcp", "add", "--env", "K=v", "--include-tools", "t,u", "b", "--", "npx", "-y", "pack"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("gemini-a2a mcp test b"), "{out}");
    let (status, _, err) = run(
        &mcp,
        &["mcp", "add", "--header", "X-Key: $KEY", "--transport", "http", "--trust", "c", "https://h.example/mcp"],
    );
    assert_eq!(status, Some(0), "{err}");
    let added = std::fs::read_to_string(&file).expect("it is there");
    assert!(added.starts_with("// mine\n{\n  \"ui\": {\"theme\": \"x\"}, // a theme\n"), "{added}");
    assert!(added.contains("    // the first\n    \"a\": {\"command\": \"a\"},\n"), "{added}");
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o640);
    let plain: String = added
        .lines()
        .map(|line| line.split("//").next().filter(|_| !line.contains("https:")).unwrap_or(line))
        .collect();
    let read: Value = serde_json::from_str(&plain).expect("JSON");
    assert_eq!(
        read["mcpServers"]["b"],
        json!({"command": "npx", "args": ["-y", "pack"], "env": {"K": "v"}, "includeTools": ["t", "u"]})
    );
    assert_eq!(
        read["mcpServers"]["c"],
        json!({"url": "https://h.example/mcp", "type": "http", "headers": {"X-Key": "$KEY"}, "trust": true})
    );
    for name in ["b", "c"] {
        assert_eq!(run(&mcp, &["mcp", "remove", name]).0, Some(0));
    }
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text, "as before");
    let (status, _, err) = run(&mcp, &["mcp", "remove", "b"]);
    assert!(status == Some(1) && err.contains("has no MCP server b"), "{err}");
    for (args, why) in [
        (&["mcp", "add", "b c", "x"][..], "name"),
        (&["mcp", "add", "b", "http://"], "must name a host"),
        (&["mcp", "add", "--header", "Host: x", "b", "http://h/"], "may not set Host"),
        (&["mcp", "add", "--env", "K=v", "b", "http://h/"], "--env is for programs"),
        (&["mcp", "add", "b"], "needs a command or a URL"),
    ] {
        let (status, _, err) = run(&mcp, args);
        assert!(status != Some(0) && err.contains(why), "{args:?}: {err}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text, "nothing was changed");
}
