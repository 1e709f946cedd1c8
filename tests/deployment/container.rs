//! A root file system with only the program and the libraries that its test build needs: no `/etc`, no `/tmp`, no shell.

use crate::support::client::Client;
use crate::support::fake::FakeGemini;
use crate::support::message::prompt;
use crate::support::{TempDir, eventually, free_port};
use crate::{Program, TOKEN};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Mounts the root, read-only, with two volumes that belong to root and that everybody may write to, and runs the program in it as
/// the user of the images. `$0` is an empty directory, `$1` the program, `$2` the directory of the volumes.
const CONTAINER: &str = r#"set -e
mount -t tmpfs none "$0"
for dir in lib lib64 usr/lib proc dev; do
    if [ -e "/$dir" ]; then mkdir -p "$0/$dir"; mount --rbind "/$dir" "$0/$dir"; fi
done
touch "$0/gemini-a2a"; mount --bind "$1" "$0/gemini-a2a"
for volume in state workspace; do mkdir "$0/$volume"; mount --bind "$2/$volume" "$0/$volume"; done
mount -o remount,ro "$0"
shift 2
exec chroot --userspec=65532:65532 "$0" /gemini-a2a serve --access token --state-dir /state/a2a --workspace /workspace "$@"
"#;

/// The program in such a container; None, and a line that says so, if that needs rights that this test does not have.
fn container(dir: &TempDir, variables: &[(&str, String)]) -> Option<Program> {
    let able = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return None;
    }
    for volume in ["state", "workspace"] {
        fs::set_permissions(dir.folder(volume), fs::Permissions::from_mode(0o777)).expect("it is ours");
    }
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", CONTAINER])
        .arg(dir.folder("root"))
        .arg(env!("CARGO_BIN_EXE_gemini-a2a"))
        .arg(dir.path())
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let program = Program::start(&mut command);
    eventually("the start or the end", || {
        let log = program.log();
        (log.contains("Its listeners: ") || log.contains("gemini-a2a: ")).then_some(())
    });
    Some(program)
}

fn declared(request: &Value) -> Vec<&str> {
    let tools = request["tools"][0]["functionDeclarations"].as_array().expect("tools");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

fn owner_and_mode(path: &Path) -> (u32, u32) {
    let there = fs::metadata(path).expect("it was made");
    (there.uid(), there.mode() & 0o7777)
}

#[test]
fn nothing_but_the_binary_is_needed() {
    let dir = TempDir::new("container");
    let fake = FakeGemini::start();
    let port = free_port();
    let variables = [
        ("A2A_LISTEN", format!("127.0.0.1:{port}")),
        ("A2A_TOKEN", TOKEN.to_owned()),
        ("GEMINI_API_KEY", "fake".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", fake.url()),
    ];
    let Some(mut program) = container(&dir, &variables) else {
        return;
    };
    program.wait_for_log("neither bash nor sh in PATH: no command can be run, run_shell_command is not declared");
    let client = Client::new(&format!("http://127.0.0.1:{port}"));
    let mut client = client.field("Authorization", &format!("Bearer {TOKEN}"));
    let task = client.call("message/send", prompt("TEXT Hello."));
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    let request = fake.turns().pop().expect("a request").body;
    assert!(declared(&request).contains(&"write_file") && !declared(&request).contains(&"run_shell_command"));
    assert_eq!(owner_and_mode(&dir.path().join("state/a2a")), (65_532, 0o700));
    // A model that calls the tool anyway gets an error.
    let again = client.call("message/send", prompt("SHELL true"));
    assert_eq!(again["status"]["state"], "input-required", "{again}");
    assert_eq!(client.call("tasks/get", json!({ "id": task["id"] }))["id"], task["id"]);
    program.signal(rustix::process::Signal::TERM);
    assert!(program.ended().success());
    assert!(!program.log().contains("panicked"));
}

#[test]
fn without_resolv_conf_a_model_that_is_not_found_is_an_error_of_the_task() {
    let dir = TempDir::new("container");
    let port = free_port();
    let variables = [
        ("A2A_LISTEN", format!("127.0.0.1:{port}")),
        ("A2A_TOKEN", TOKEN.to_owned()),
        ("GEMINI_API_KEY", "fake".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", "https://model.invalid".to_owned()),
    ];
    let Some(mut program) = container(&dir, &variables) else {
        return;
    };
    let client = Client::new(&format!("http://127.0.0.1:{port}"));
    let mut client = client.field("Authorization", &format!("Bearer {TOKEN}"));
    let mut params = prompt("hello");
    params["configuration"] = json!({ "blocking": false });
    let task = client.call("message/send", params);
    assert!(task["id"].is_string(), "{task}");
    program.signal(rustix::process::Signal::TERM);
    assert!(program.ended().success());
    assert!(!program.log().contains("panicked"));
}

#[test]
fn a_container_without_a_token_ends() {
    let dir = TempDir::new("container");
    let Some(mut program) = container(&dir, &[("A2A_LISTEN", "0.0.0.0:8080".to_owned())]) else {
        return;
    };
    assert_eq!(program.ended().code(), Some(78));
    program.wait_for_log("A2A_TOKEN");
}
