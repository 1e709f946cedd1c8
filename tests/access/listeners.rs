//! Unix sockets and files: who is the operator, and which credentials files are accepted.

use crate::support::client::Client;
use crate::support::server::Setup;
use crate::support::{TempDir, eventually};
use crate::{TokenServer, program, token};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The status of a request over a Unix socket.
fn ask(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("it listens");
    write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        .expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn the_same_user_is_the_operator_only_at_the_servers_own_socket() {
    let dir = TempDir::new("socket");
    let named = dir.path().join("named.sock");
    let token_server = TokenServer::with(&[["a", "dev", "view"]], |setup| {
        setup.arg("--listen").arg(format!("unix:{}", named.display()))
    });
    assert_eq!(
        ask(&named, "GET /tasks"),
        "401",
        "a named socket needs a credential, because a proxy may run as this user"
    );
    let run = fs::read_dir(token_server.state.path().join("run")).expect("a directory");
    let own = run.map(|entry| entry.expect("an entry").path()).next().expect("a socket");
    assert_eq!(ask(&own, "GET /tasks"), "200");
    assert_eq!(ask(&own, "GET /metrics"), "200", "the operator has all rights");
    assert_eq!(fs::metadata(&own).expect("it is there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_others_could_have_written_is_refused() {
    let state = TempDir::new("state");
    let path = state.path().join("credentials.json");
    let secret = token(state.path(), &["add", "a", "--rights", "view"]);
    let serve = || program(state.path(), &["serve", "--a2a-port", "0", "--access", "token"]);
    // A file larger than 1 MiB.
    let good = fs::read_to_string(&path).expect("it is ours");
    fs::write(&path, format!("{good}{}", " ".repeat(1 << 20))).expect("it is ours");
    let ended = serve();
    assert_eq!(ended.status.code(), Some(78), "{}", String::from_utf8_lossy(&ended.stderr));
    fs::write(&path, &good).expect("it is ours");
    if chown(&path, Some(65_534), None).is_ok() {
        let ended = serve();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(78), "{errors}");
        assert!(errors.contains("belongs to"), "{errors}");
        chown(&path, Some(0), None).expect("we are root");
    } else {
        println!("skipped: giving a file to another user takes root");
    }
    // A mounted secret: a link to a file that all may read.
    let mounted = state.path().join("mounted.json");
    fs::rename(&path, &mounted).expect("it is ours");
    fs::set_permissions(&mounted, fs::Permissions::from_mode(0o644)).expect("it is ours");
    symlink(&mounted, &path).expect("a link");
    assert_eq!(serve().status.code(), Some(78), "a file that others may read is refused without an orchestrator");
    for variable in ["K_SERVICE", "KUBERNETES_SERVICE_HOST", "CREDENTIALS_DIRECTORY"] {
        let setup = Setup::without_model().args(["--access", "token"]).state_dir(state.path());
        let server = setup.env(variable, "x").start();
        let bearer = format!("Bearer {secret}");
        let mut client = Client::new(&server.url());
        assert_eq!(client.request("GET", "/tasks", &[("Authorization", &bearer)], b"").status(), 200, "{variable}");
    }
}

#[test]
fn a_hangup_reads_the_credentials_again() {
    let token_server = TokenServer::new(&[["a", "dev", "view"]]);
    let new = token(token_server.state.path(), &["add", "b", "--rights", "view"]);
    let pid = rustix::process::Pid::from_raw(token_server.server.pid() as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    let bearer = format!("Bearer {new}");
    eventually("the new credential is known", || {
        let status =
            token_server.client_without_token().request("GET", "/tasks", &[("Authorization", &bearer)], b"").status();
        (status == 200).then_some(())
    });
}
