//! The checks of the host program: the answers of its servers, and that threads, descriptors and signal handlers are gone after them.

use gemini_a2a::embed::SignalHandling;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Command, ExitCode};
use std::time::Duration;
use std::{env, fs, net, thread};

/// The argument of the second run of the program, which ends by a signal.
const END_BY_SIGNAL: &str = "end-by-signal";

pub fn run(play: fn(&Path, SignalHandling)) -> ExitCode {
    let dir = env::temp_dir().join(format!("gemini-a2a-host-{}", process::id()));
    fs::create_dir_all(dir.join("work")).expect("the temporary directory is writable");
    let before = process_resources();
    for _ in 0..2 {
        play(&dir, SignalHandling::Untouched);
        assert_eq!(process_resources(), before);
    }
    play(&dir, SignalHandling::EndTheServer);
    let after = process_resources();
    assert_eq!((after.0, after.1), (before.0, before.1));
    fs::remove_dir_all(&dir).expect("it was made above");
    if env::args().nth(1).as_deref() == Some(END_BY_SIGNAL) {
        let _ = Command::new("kill").arg(process::id().to_string()).status();
        thread::sleep(Duration::from_secs(60));
        return ExitCode::FAILURE;
    }
    let again = Command::new(env::current_exe().expect("it has a path")).arg(END_BY_SIGNAL).status();
    assert_eq!(again.expect("it can be started").signal(), Some(15), "TERM has its effect after a server handled it");
    ExitCode::SUCCESS
}

/// Checks the slash command of the host and a turn of its model.
pub fn check_server(url: &str, name: &str) {
    assert!(post(url, "/executeCommand", &json!({"command": "hello"})).contains(&format!("hello from {name}")));
    let part = json!({"kind": "text", "text": "Play."});
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [part]});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}});
    let answer = post(url, "/", &request);
    assert!(answer.contains("I won with 14 tools."), "{answer}");
}

/// Checks that the watcher got the records of both servers.
pub fn check_records(records: &[String], dir: &Path) {
    let work = dir.join("work").canonicalize().expect("it exists").display().to_string();
    for part in ["Created", "four", &work, "I won with 14 tools."] {
        let count = records.iter().filter(|record| record.contains(part)).count();
        assert!(count >= 2, "{count} records with {part}: {records:#?}");
    }
}

fn post(url: &str, path: &str, body: &Value) -> String {
    let host = url.trim_start_matches("http://").trim_end_matches('/').replace("localhost", "127.0.0.1");
    let mut peer = net::TcpStream::connect(&host).expect("a server listens");
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close");
    write!(peer, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).expect("the server reads");
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("an answer in UTF-8");
    answer
}

/// The numbers of descriptors and threads, and the signals that are handled or ignored: those below 32, because the others belong to the C library, which
/// handles some of them as soon as there is a second thread.
fn process_resources() -> (usize, usize, Vec<u64>) {
    let count = |path: &str| fs::read_dir(path).expect("/proc is mounted").count();
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigCgt:").or(line.strip_prefix("SigIgn:")));
    let signals = masks.map(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask") & 0x7fff_ffff);
    (count("/proc/self/fd"), count("/proc/self/task"), signals.collect())
}
