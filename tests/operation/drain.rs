//! The orderly shutdown of the server: what happens to streams, sockets, waiting calls and running tools.

use crate::Fixture;
use crate::support::client::Event;
use crate::support::eventually;
use crate::support::message::{approval, asked_of, prompt, state_of, task_of};
use crate::support::socket::Socket;
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::thread;

/// Starts an approved command that creates the file `began`. Returns the task when the command runs.
fn run_command(fixture: &Fixture, command: &str) -> (String, thread::JoinHandle<serde_json::Value>) {
    let mut client = fixture.client();
    let script = format!("SHELL {command} ;; TEXT over");
    let events: Vec<Event> = client.stream("message/stream", prompt(&script)).collect();
    let task = events.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
    let call = events.iter().find_map(|event| asked_of(event.result())).expect("a question").to_owned();
    let answer = approval(&task, &call, "proceed_once");
    // It waits until the turn is over.
    let waiting = thread::spawn(move || client.call("message/send", answer));
    eventually("the command to run", || fixture.server.workspace().join("began").exists().then_some(()));
    (task, waiting)
}

/// Whether a process runs whose command line has these words.
fn runs(words: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok()).any(|line| {
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(words)
    })
}

/// Line 38: SIGTERM with 100 streams, a running tool and a waiting call.
#[test]
fn everything_ends_in_order_and_can_be_resumed() {
    let mut fixture = Fixture::with(|setup| setup.args(["--drain", "4s"]));
    let seconds = 10_000 + std::process::id();
    let (task, waiting) = run_command(&fixture, &format!("trap '' TERM; touch began; sleep {seconds}"));
    let client = fixture.client();
    let mut streams: Vec<_> = (0..50).map(|_| client.stream("tasks/resubscribe", json!({ "id": task }))).collect();
    let mut last = String::new();
    for stream in &mut streams {
        last = stream.next().and_then(|event| event.id).expect("a snapshot with its position");
    }
    let path = format!("/ws?taskId={task}");
    let mut sockets: Vec<Socket> = (0..50).map(|_| Socket::open(&fixture.server.url(), &path, None)).collect();
    sockets.iter_mut().for_each(|socket| drop(socket.read()));
    assert!(runs(&format!("sleep {seconds}")));
    fixture.signal(Signal::TERM);
    // The blocking call is answered with the task while its command still runs.
    let answer = waiting.join().expect("an answer");
    assert_eq!(state_of(&answer), Some("working"), "{answer}");
    for socket in sockets {
        assert_eq!(socket.closed(), (1001, "restarting".to_owned()));
    }
    for mut stream in streams {
        stream.until_words(": restarting\n");
        assert!(
            stream.all(|event| !event.is_final() && event.name.as_deref() != Some("error")),
            "it ends without an error"
        );
    }
    assert_eq!(fixture.server.ended().code(), Some(0));
    eventually("no process to be left", || (!runs(&format!("sleep {seconds}"))).then_some(()));
    // A client that resumes gets the rest of the events: the call was interrupted.
    fixture.server.restart();
    let mut resumed = fixture.client().resume("tasks/resubscribe", json!({ "id": task }), &last);
    resumed.until("the end of the turn", |event| state_of(event.result()) == Some("input-required"));
    let next = fixture.client().call("message/send", crate::support::message::prompt_in(&task, "TEXT on"));
    assert_eq!(state_of(&next), Some("input-required"));
}

#[test]
fn a_tool_that_ends_in_time_is_not_interrupted() {
    let mut fixture = Fixture::with(|setup| setup.args(["--drain", "60s"]));
    let (task, waiting) = run_command(&fixture, "touch began; while [ ! -e go ]; do sleep 0.05; done; echo finished");
    fixture.signal(Signal::TERM);
    assert_eq!(state_of(&waiting.join().expect("an answer")), Some("working"));
    fs::write(fixture.server.workspace().join("go"), "").expect("it is ours");
    assert_eq!(fixture.server.ended().code(), Some(0));
    let journal =
        fs::read_to_string(fixture.server.state_dir().join(format!("tasks/{task}.jsonl"))).expect("a journal");
    assert!(journal.contains("finished") && !journal.contains("\"interrupted\",\"message\""), "{journal}");
}

/// `/ready` fails before connections are refused, so that a load balancer notices in time.
#[test]
fn a_draining_server_is_not_ready_and_still_answers() {
    let mut fixture = Fixture::with(|setup| setup.args(["--drain-delay", "3s"]));
    let mut client = fixture.client();
    assert_eq!(client.get("/ready").status(), 200);
    fixture.signal(Signal::TERM);
    let why = eventually("/ready to say no", || {
        // Each on a new connection.
        let ready = fixture.client().try_request("GET", "/ready", &[], b"").ok()?;
        (ready.status() == 503).then(|| ready.json())
    });
    assert_eq!(why, json!({"ready": false, "why": ["draining"]}));
    let refused = fixture
        .client()
        .post("/", &json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT x")}));
    assert_eq!((refused.status(), refused.head.field("retry-after")), (503, Some("10")), "no new turn begins");
    assert_eq!(fixture.server.ended().code(), Some(0));
}
