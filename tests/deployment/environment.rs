//! The environment variables of containers and of Cloud Run.

use crate::support::client::Client;
use crate::support::message::prompt;
use crate::support::{TempDir, free_port};
use crate::{Program, TOKEN, serve};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// The variables of the headless image.
const IMAGE: (&str, &str) = ("A2A_LISTEN", "0.0.0.0:8080");

/// The environment that Cloud Run adds to the one of the original deploy command: a key and a project.
fn cloud_run(port: u16) -> [(&'static str, String); 6] {
    [
        ("K_SERVICE", "a2a-server".into()),
        ("K_REVISION", "a2a-server-00001-abc".into()),
        ("K_CONFIGURATION", "a2a-server".into()),
        ("PORT", port.to_string()),
        ("GEMINI_API_KEY", "your-api-key".into()),
        ("GOOGLE_CLOUD_PROJECT", "PROJECT_ID".into()),
    ]
}

/// The response to a request that Cloud Run forwards.
fn ask(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: a2a-server-abc-uc.a.run.app\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

#[test]
fn the_original_cloud_run_command_starts_a_server_that_says_what_to_set() {
    let dir = TempDir::new("run");
    let port = free_port();
    let mut command = serve(&dir);
    // The arguments of the image's entry point.
    command.args(["--access", "token"]).env(IMAGE.0, IMAGE.1).envs(cloud_run(port));
    let mut program = Program::listening(&mut command);
    program.wait_for_log(&format!("Its listeners: 0.0.0.0:{port}"));
    program.wait_for_log("A2A_TOKEN");
    for path in ["/live", "/ready", "/.well-known/agent-card.json"] {
        let answer = ask(port, path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let refused = ask(port, "/tasks");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(refused.contains("A2A_TOKEN") && refused.contains("A2A_CREDENTIALS_FILE"), "{refused}");
    assert!(program.log().lines().any(|line| line.starts_with('{')), "the log is that of Google Cloud");
    assert!(!program.log().contains("your-api-key"));
    program.signal(rustix::process::Signal::TERM);
    assert!(program.ended().success());
}

#[test]
fn with_a_token_the_same_command_serves() {
    let dir = TempDir::new("run");
    let port = free_port();
    let mut command = serve(&dir);
    command.args(["--access", "token"]).env(IMAGE.0, IMAGE.1).envs(cloud_run(port)).env_remove("GEMINI_API_KEY");
    command.env("A2A_TOKEN", TOKEN).env("A2A_PUBLIC_URL", "https://a2a-server-abc-uc.a.run.app");
    let _program = Program::listening(&mut command);
    let client = Client::new(&format!("http://127.0.0.1:{port}"));
    let mut client = client.field("Authorization", &format!("Bearer {TOKEN}"));
    let card = client.get("/.well-known/agent-card.json").json();
    assert_eq!(card["url"], "https://a2a-server-abc-uc.a.run.app/");
    let task = client.call("message/send", prompt("hello"));
    let again = client.call("tasks/get", json!({ "id": task["id"] }));
    assert_eq!(again["status"]["state"], "input-required", "{again}");
}

#[test]
fn a_container_without_credentials_ends_and_names_the_variable() {
    let dir = TempDir::new("container");
    let mut command = serve(&dir);
    command.args(["--access", "token"]).env(IMAGE.0, IMAGE.1).env("NODE_ENV", "production");
    let mut program = Program::start(command.stdin(Stdio::null()));
    assert_eq!(program.ended().code(), Some(78));
    program.wait_for_log("A2A_TOKEN");
}

#[test]
fn variables_have_the_effect_of_their_flags() {
    let dir = TempDir::new("variables");
    let port = free_port();
    let credentials = dir.path().join("credentials.json");
    let mut add = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    let add = add.args(["token", "add", "ann", "--rights", "view"]).env_clear().env("HOME", dir.path());
    let made = add.env("A2A_CREDENTIALS_FILE", &credentials).output().expect("the program starts");
    let token = String::from_utf8(made.stdout).expect("UTF-8").trim().to_owned();
    assert!(!token.is_empty(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = serve(&dir);
    command.args(["--access", "token"]).env("A2A_CREDENTIALS_FILE", &credentials);
    // The port of CODER_AGENT_PORT replaces that of A2A_LISTEN; PORT is ignored elsewhere than on Cloud Run.
    command.env(IMAGE.0, "127.0.0.1:1").env("CODER_AGENT_PORT", port.to_string()).env("PORT", "tcp://10.0.0.1:80");
    let program = Program::listening(command.env("A2A_LOG_FORMAT", "json").arg("--debug"));
    program.wait_for_log(&format!("127.0.0.1:{port}"));
    let client = Client::new(&format!("http://127.0.0.1:{port}"));
    let mut client = client.field("Authorization", &format!("Bearer {token}"));
    assert_eq!(client.get("/tasks").status(), 200);
    for (name, value) in [("A2A_LOG_FORMAT", "xml"), ("A2A_LISTEN", "8080"), ("A2A_TOKEN", "short")] {
        let mut command = serve(&dir);
        let mut program = Program::start(command.env(name, value).stdin(Stdio::null()));
        assert_eq!(program.ended().code(), Some(78), "{name}");
        program.wait_for_log(name);
    }
}
