//! `gemini-a2a attach`: which server it finds, its errors when there is none, and who may attach. Its screen is tested in
//! `tests/attach.rs`; without a terminal it ends with an error as soon as it is connected.

use crate::drive::Fixture;
use crate::peers::{Tool, socket};
use crate::support::TempDir;
use crate::support::message::{approval, call_of, call_status_of};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gemini-a2a");
const CONNECTED: &str = "attach shows a session in a terminal";

/// The exit status and the error of `attach`; its state directory is `gemini-a2a` in `state`.
fn attach(state: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM)
        .arg("attach")
        .args(args)
        .env_clear()
        .env("HOME", state)
        .env("XDG_STATE_HOME", state)
        .stdin(Stdio::null())
        .output()
        .expect("it ends by itself");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    (output.status.code(), error)
}

#[test]
fn a_server_is_found_by_its_port_its_socket_or_by_itself() {
    let fixture = Fixture::new();
    let (state, none) = (fixture.server.state_dir(), TempDir::new("none"));
    let (port, socket) = (fixture.server.port(), socket(&fixture.server));
    let unix = format!("unix:{}", socket.display());
    let in_state = format!("--state-dir={}", state.display());
    for args in [
        &[port.to_string().as_str()][..],
        &[&format!("http://localhost:{port}/")],
        &["--url", &format!("ws://127.0.0.1:{port}")],
        &[&unix],
        &[&in_state],
        &[&in_state, &port.to_string()],
    ] {
        let (status, error) = attach(none.path(), args);
        assert!(status == Some(2) && error.contains(CONNECTED), "{args:?}: {status:?} {error}");
    }
    assert_eq!(fixture.client().get("/health").json()["refused_peers"], 0);
    let (status, error) = attach(none.path(), &[&in_state, "--task", "nope"]);
    assert!(status == Some(4) && error.contains("Task not found: nope"), "{status:?} {error}");
    let (status, error) = attach(none.path(), &[]);
    assert!(status == Some(3) && error.contains("no server of yours is running"), "{status:?} {error}");
}

#[test]
fn an_address_without_a_server_is_an_error_that_names_it() {
    let state = TempDir::new("state");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let answers = [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 3, "it answers with the status 404"),
        (
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            8,
            "give its token in GEMINI_A2A_TOKEN or with --token-file FILE",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", 3, "it answers with the status 200"),
        ("SSH-2.0-OpenSSH_9.2\r\n", 3, "it does not speak HTTP"),
        ("", 3, "it closed the connection"),
    ];
    thread::spawn(move || {
        for (answer, ..) in answers {
            let (mut stream, _) = listener.accept().expect("a connection");
            let _ = stream.read(&mut [0; 2_048]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    for (answer, expected, words) in answers {
        let (status, error) = attach(state.path(), &[&port]);
        assert!(status == Some(expected) && error.contains(words), "{answer:?}: {status:?} {error}");
    }
    let (status, error) = attach(state.path(), &[&port]);
    assert!(status == Some(3) && error.contains("Connection refused"), "{status:?} {error}");
}

/// The server cannot inspect the process of `attach`, but over the Unix socket the kernel names it.
#[test]
fn people_may_attach_while_a_tool_runs_and_tools_may_not() {
    let fixture = Fixture::new();
    let state = format!("--state-dir={}", fixture.server.state_dir().display());
    let tool = Tool::start(&fixture);
    let none = TempDir::new("none");
    for args in [&[state.as_str()][..], &[&state, &fixture.server.port().to_string()]] {
        let (status, error) = attach(none.path(), args);
        assert!(status == Some(2) && error.contains(CONNECTED), "{args:?}: {status:?} {error}");
    }
    tool.end();
    let script: String = ["", &format!(" {}", fixture.server.port())]
        .map(|address| format!("{PROGRAM} attach {state}{address} 2>/dev/null; echo $?; "))
        .concat();
    let (task, calls) = fixture.ask(&format!("SHELL {script}"));
    let stream = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once"));
    let events: Vec<_> = stream.collect();
    let done = events.iter().find(|event| call_status_of(event.result()) == "success");
    let done = done.unwrap_or_else(|| panic!("no success in {events:#?}"));
    assert_eq!(call_of(done.result())["response"]["resultDisplay"], "8\n8\n");
}
