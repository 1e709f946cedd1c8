//! Start and end of the program: error lines, exit statuses, and the last frames of streams at shutdown.

use crate::drive::{Fixture, is_root, task_in};
use crate::support::client::Event;
use crate::support::message::{approval, prompt, prompt_in, state_of, text_of};
use crate::support::{TempDir, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

struct Ended {
    status: Option<i32>,
    out: String,
    err: String,
}

const SERVER: &str = env!("CARGO_BIN_EXE_gemini-a2a");
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Runs the program until it ends by itself.
fn run(dir: &TempDir, args: &[&str]) -> Ended {
    finish(dir, Command::new(SERVER).args(args))
}

fn finish(dir: &TempDir, command: &mut Command) -> Ended {
    finish_with(dir, command, &[])
}

fn finish_with(dir: &TempDir, command: &mut Command, variables: &[(&str, &str)]) -> Ended {
    let mut child = command
        .env_clear()
        .envs(variables.iter().copied())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    eventually("the program's end", || child.try_wait().expect("our own child").map(drop));
    let output = child.wait_with_output().expect("its output");
    Ended {
        status: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn signal(fixture: &Fixture, signal: Signal) {
    let pid = Pid::from_raw(fixture.server.pid() as i32).expect("a process id");
    kill_process(pid, signal).expect("a signal to our own child");
}

#[test]
fn help_and_version() {
    let dir = TempDir::new("cli");
    for flag in ["--help", "-h"] {
        let help = run(&dir, &[flag]);
        assert_eq!((help.status, help.err.as_str()), (Some(0), ""));
        for word in ["--a2a-port", "--workspace", "--state-dir", "GEMINI_API_KEY"] {
            assert!(help.out.contains(word), "{word} in {}", help.out);
        }
        assert!(help.out.lines().all(|line| line.len() <= 120), "{}", help.out);
    }
    for flag in ["--version", "-V"] {
        let version = run(&dir, &[flag]);
        assert_eq!(version.status, Some(0));
        assert_eq!(version.out, format!("gemini-a2a {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn a_startup_error_is_one_line_and_an_exit_status() {
    let dir = TempDir::new("cli");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let file = file.to_str().expect("a path of text");
    let shared = dir.folder("shared");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let shared = shared.to_str().expect("a path of text");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").port().to_string();
    let inside = format!("{file}/inside");
    let usage = [
        (vec!["--wat"], vec!["--wat", "--help"]),
        (vec!["serve", "--work", "x"], vec!["--workspace"]),
        (vec!["--a2a-port"], vec!["--a2a-port", "PORT"]),
        (vec!["--a2a-port", "70000"], vec!["--a2a-port", "70000"]),
        (vec!["--log-level", "loud"], vec!["loud", "debug"]),
        (vec!["--max-attempts", "many"], vec!["--max-attempts"]),
        (vec!["--idle-ttl", "5"], vec!["--idle-ttl", "24h", "never"]),
        (vec!["--card-default", "v2"], vec!["hybrid or v1", "v2"]),
        (vec!["--card-default"], vec!["hybrid|v1"]),
        (vec!["--strict-version=on"], vec!["--strict-version"]),
    ];
    let configuration = [
        (vec!["--host", "0.0.0.0"], vec!["0.0.0.0", "loopback", "--access token"]),
        (vec!["--a2a-port", &taken], vec![taken.as_str(), "in use", "--a2a-port"]),
        (vec!["--workspace", "/no/such/dir"], vec!["/no/such/dir"]),
        (vec!["--workspace", file], vec![file]),
        (vec!["--a2a-port", "0", "--state-dir", file], vec![file]),
        (vec!["--a2a-port", "0", "--state-dir", &inside], vec![inside.as_str()]),
        (vec!["--a2a-port", "0", "--state-dir", "/proc/state"], vec!["/proc/state"]),
        (vec!["--a2a-port", "0", "--state-dir", shared], vec![shared]),
        (vec!["--a2a-port", "0", "--script", "/no/such/script"], vec!["/no/such/script"]),
        (vec!["--a2a-port", "0", "--extended-card", file], vec![file, "JSON"]),
        (vec!["--a2a-port", "0", "--allowed-root", "/no/such/root"], vec!["/no/such/root"]),
    ];
    let all = usage.into_iter().map(|case| (2, case)).chain(configuration.into_iter().map(|case| (78, case)));
    for (status, (args, words)) in all {
        let ended = run(&dir, &args);
        assert_eq!(ended.status, Some(status), "{args:?}: {}{}", ended.out, ended.err);
        assert_eq!(ended.out, "", "{args:?}");
        assert_eq!(ended.err.lines().count(), 1, "{args:?}: {}", ended.err);
        assert!(ended.err.starts_with("gemini-a2a: "), "{args:?}: {}", ended.err);
        for word in words {
            assert!(ended.err.contains(word), "{args:?}: {word} in {}", ended.err);
        }
    }
}

#[test]
fn a_variable_with_a_bad_value_is_named() {
    let dir = TempDir::new("cli");
    for (name, flag) in [("CODER_AGENT_WORKSPACE_PATH", "--debug"), ("SSL_CERT_FILE", "--yolo")] {
        let ended = finish_with(&dir, Command::new(SERVER).args(["--a2a-port", "0", flag]), &[(name, "/no/such/path")]);
        assert_eq!(ended.status, Some(78), "{}", ended.err);
        assert!(ended.err.contains(name) && ended.err.contains("/no/such/path"), "{}", ended.err);
    }
}

/// Root may write everywhere, so the test runs the program as another user.
#[test]
fn an_unwritable_state_directory_is_named() {
    let dir = TempDir::new("cli");
    let state = dir.folder("state");
    let mut program = Command::new(SERVER);
    if is_root() {
        let able = Command::new("setpriv").args(NOBODY).args([SERVER, "--version"]).output();
        if !able.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: nobody else can run the program");
            return;
        }
        std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("a new owner");
        program = Command::new("setpriv");
        program.args(NOBODY).arg(SERVER);
    }
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o500)).expect("a mode");
    let path = state.to_str().expect("a path of text");
    let ended = finish(&dir, program.args(["--a2a-port", "0", "--state-dir", path]));
    assert_eq!(ended.status, Some(78), "{}", ended.err);
    assert!(ended.err.contains(path) && ended.err.contains("writable"), "{}", ended.err);
}

#[test]
fn an_idle_server_ends_at_once() {
    for (name, code) in [(Signal::TERM, 0), (Signal::INT, 130)] {
        let mut fixture = Fixture::new();
        let task = task_in(&fixture.say("TEXT hi"));
        signal(&fixture, name);
        assert_eq!(fixture.server.ended().code(), Some(code), "{name:?}");
        fixture.server.restart();
        assert_eq!(fixture.state(&task), "input-required");
    }
}

#[test]
fn shutdown_cuts_a_model_request_and_says_so() {
    let mut fixture = Fixture::new();
    let stream = fixture.client().stream("message/stream", prompt("HOLD ++ TEXT never said"));
    eventually("the hold", || (fixture.fake.held() == 1).then_some(()));
    signal(&fixture, Signal::TERM);
    let events: Vec<Event> = stream.collect();
    let last = events.last().expect("a last frame");
    assert!(last.is_final() && state_of(last.result()) == Some("input-required"), "{last:?}");
    assert!(text_of(last.result()).contains("restarted"), "{last:?}");
    assert_eq!(fixture.server.ended().code(), Some(0));
}

/// At shutdown streams end first, then a model request and a command that do not end by themselves are stopped. After the next start the
/// tasks can be continued.
#[test]
fn streams_end_at_shutdown_and_their_tasks_can_be_continued() {
    let mut fixture = Fixture::new();
    let (asked, calls) = fixture.ask("SHELL echo begin; sleep 300");
    let mut running = fixture.client().stream("message/stream", approval(&asked, &calls[0], "proceed_once"));
    running.until("output", |event| event.result()["kind"] == "artifact-update");
    let mut thinking = fixture.client().stream("message/stream", prompt("TEXT a ++ HOLD"));
    let task = task_in(&[thinking.next().expect("a task")]);
    eventually("the hold", || (fixture.fake.held() == 1).then_some(()));
    signal(&fixture, Signal::INT);
    let last = thinking.last().expect("a last frame");
    assert!(last.is_final() && state_of(last.result()) == Some("input-required"), "{last:?}");
    assert_ne!(text_of(last.result()), "", "the stream has the reason");
    // The command continues to run for a while, and its stream does not wait for that.
    running.until_words(": restarting\n");
    assert!(running.all(|event| !event.is_final()));
    assert_eq!(fixture.server.ended().code(), Some(130));
    fixture.server.restart();
    for task in [asked, task] {
        assert_eq!(fixture.state(&task), "input-required");
        let next = fixture.client().call("message/send", prompt_in(&task, "TEXT on"));
        assert_eq!(state_of(&next), Some("input-required"));
    }
}

/// Calls that wait for a queued prompt, and for an answer to a question, are answered at shutdown.
#[test]
fn a_blocking_call_is_answered_at_shutdown() {
    let mut fixture = Fixture::new();
    let (asked, _) = fixture.ask("WRITE later.txt x");
    let mut watching = fixture.client().stream("tasks/resubscribe", json!({ "id": asked }));
    assert_eq!(watching.next().expect("a snapshot").result()["kind"], "task");
    let mut thinking = fixture.client().stream("message/stream", prompt("HOLD"));
    let task = task_in(&[thinking.next().expect("a task")]);
    let queued = fixture.client().stream("message/stream", prompt_in(&task, "TEXT queued"));
    eventually("the hold", || (fixture.fake.held() == 1).then_some(()));
    signal(&fixture, Signal::TERM);
    for mut stream in [watching, queued] {
        stream.until_words(": restarting\n");
        assert!(stream.all(|event| !event.is_final() && event.name.as_deref() != Some("error")));
    }
    assert_eq!(fixture.server.ended().code(), Some(0));
    fixture.server.restart();
    let answer = eventually("the queued prompt's answer", || {
        let history = fixture.task(&task)["history"].clone();
        let last = history.as_array().and_then(|history| history.last().cloned())?;
        (last["role"] == "agent").then_some(last["parts"][0]["text"].clone())
    });
    assert_eq!(answer, "queued", "an accepted prompt is answered");
}

#[test]
fn an_open_question_does_not_delay_shutdown() {
    let mut fixture = Fixture::new();
    let (task, calls) = fixture.ask("WRITE later.txt x");
    signal(&fixture, Signal::TERM);
    assert_eq!(fixture.server.ended().code(), Some(0));
    fixture.server.restart();
    assert_eq!(fixture.state(&task), "input-required");
    fixture.client().call("message/send", approval(&task, &calls[0], "proceed_once"));
    assert_eq!(fixture.file("later.txt").as_deref(), Some("x"));
}

#[test]
fn two_servers_share_a_state_dir_but_never_a_task() {
    let mut first = Fixture::new();
    let state = first.server.state_dir();
    // The script appends its own `--state-dir`, which overrides the one of the test harness.
    let script = format!("exec {} serve \"$@\" --state-dir {}", SERVER, state.display());
    let setup = crate::support::server::Setup::of("/bin/sh".as_ref())
        .arg("-c")
        .arg(script)
        .arg("server")
        .env("GEMINI_API_KEY", "fake")
        .env("GOOGLE_GEMINI_BASE_URL", first.fake.url());
    let (held, calls) = first.ask("WRITE held.txt x");
    let second = setup.start();
    let mut client = crate::support::client::Client::new(&second.url());

    // The second server serves its own tasks, and refuses those of the first one with a reason.
    let own = client.call("message/send", prompt("TEXT mine"));
    assert_eq!(state_of(&own), Some("input-required"));
    let refused = client.rpc("message/send", approval(&held, &calls[0], "proceed_once"));
    assert!(refused["error"]["code"].is_i64(), "{refused}");
    assert_eq!(first.file("held.txt"), None);
    first.client().call("message/send", approval(&held, &calls[0], "proceed_once"));
    assert_eq!(first.file("held.txt").as_deref(), Some("x"));

    // When the first server has died, the second one can open its tasks.
    first.server.kill9();
    let free = eventually("the task to be free", || {
        let reply = client.rpc("message/send", prompt_in(&held, "TEXT taken over"));
        reply.get("result").cloned()
    });
    assert_eq!(state_of(&free), Some("input-required"));
    first.server.restart();
    let own = own["id"].as_str().expect("an id");
    let elsewhere = first.client().rpc("tasks/get", json!({ "id": own }));
    assert!(elsewhere["error"]["code"].is_i64(), "{elsewhere}");
}
