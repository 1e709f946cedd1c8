//! How long other clients wait while the server is under load: a message of very many parts is posted repeatedly, or many readers of
//! a long task have stopped reading. Each figure is a ratio to the same requests on the same idle server, because the times
//! themselves depend on the machine.

use crate::measure::{Spread, spread};
use crate::subject::{Model, Running, Subject};
use crate::support::client::Client;
use crate::support::message::{prompt, task_of};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub struct Plan {
    /// The duration of each measurement, and the number of readers that stop reading.
    time: Duration,
    readers: usize,
}

pub const FULL: Plan = Plan { time: Duration::from_secs(5), readers: 1_000 };
pub const QUICK: Plan = Plan { time: Duration::from_millis(500), readers: 50 };

/// Beyond every limit, and just below the limit of what is read at all.
const PARTS: [usize; 2] = [200_000, 24_000];

/// Just below the limit of a request.
const PROMPT_BYTES: usize = 9_000_000;

pub fn run(model: &Model, plan: Plan) -> io::Result<()> {
    let server = Subject::Ours.start(model)?;
    let quiet = waits(&server, plan.time);
    println!(
        "\nOther clients' requests (GET /health on one kept connection), p99 in µs and as a ratio to the quiet server:"
    );
    println!("| while | p50 | p99 | p99 / quiet | |");
    println!("|---|---|---|---|---|");
    let row = |what: String, found: Spread, note: String| {
        println!("| {what} | {:.0} | {:.0} | {:.1} | {note} |", found.p50, found.p99, found.p99 / quiet.p99);
    };
    row("nothing else happens".into(), quiet, String::new());
    for parts in PARTS {
        let (found, posted) = beside_posts(&server, parts, plan.time);
        row(format!("messages of {parts} parts are posted"), found, format!("{posted} posted"));
    }
    let (found, posted) = beside_long_prompts(&server, plan.time);
    row(format!("prompts of {} MB are posted", PROMPT_BYTES / 1_000_000), found, format!("{posted} posted"));
    let task = long_task(&server)?;
    let (found, fetched) = beside_gets(&server, &task, plan.time);
    row("a task of 4 MB is fetched".into(), found, format!("{fetched} fetched"));
    let stopped = stopped_readers(&server, &task, plan.readers)?;
    row(format!("{} readers have stopped", stopped.len()), waits(&server, plan.time), String::new());
    Ok(())
}

/// The latencies of requests that are made one after the other with a short pause.
fn waits(server: &Running, time: Duration) -> Spread {
    waits_of(server.client(), time)
}

pub fn waits_of(mut client: Client, time: Duration) -> Spread {
    let begin = Instant::now();
    let mut took = vec![];
    while begin.elapsed() < time {
        let sent = Instant::now();
        client.get("/health");
        took.push(sent.elapsed().as_secs_f64() * 1e6);
        thread::sleep(Duration::from_millis(1));
    }
    spread(took)
}

/// The same while a client posts such messages without a pause. Also returns how many of them were answered.
fn beside_posts(server: &Running, parts: usize, time: Duration) -> (Spread, u64) {
    let part = json!({ "kind": "text", "text": "x" });
    beside_messages(server, &json!(vec![part; parts]), time)
}

/// The same while a client posts prompts of the maximum length.
fn beside_long_prompts(server: &Running, time: Duration) -> (Spread, u64) {
    beside_messages(server, &json!([{ "kind": "text", "text": "x\"y\n".repeat(PROMPT_BYTES / 6) }]), time)
}

fn beside_messages(server: &Running, parts: &Value, time: Duration) -> (Spread, u64) {
    let message = json!({ "kind": "message", "role": "user", "messageId": "m", "parts": parts });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": message } });
    let body = body.to_string();
    beside(server, time, || {
        let mut client = server.client();
        move || drop(client.request("POST", "/", &[("Content-Type", "application/json")], body.as_bytes()))
    })
}

/// The same while a client fetches this task without a pause. Also returns how often it was fetched.
fn beside_gets(server: &Running, task: &str, time: Duration) -> (Spread, u64) {
    let path = format!("/v1/tasks/{task}");
    beside(server, time, || {
        let mut client = server.client();
        move || drop(client.get(&path))
    })
}

/// The latencies of requests while another thread makes requests without a pause, and how many of the latter were answered.
fn beside<R: FnMut()>(server: &Running, time: Duration, requests: impl FnOnce() -> R + Send) -> (Spread, u64) {
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut request = requests();
            while !over.load(Ordering::Relaxed) {
                request();
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let found = waits(server, time);
        over.store(true, Ordering::Relaxed);
        (found, count.load(Ordering::Relaxed))
    })
}

/// A task of some megabytes.
fn long_task(server: &Running) -> io::Result<String> {
    let task = server.client().call("message/send", prompt("STREAM 1000 0 4096"));
    task_of(&task).map(Into::into).ok_or_else(|| io::Error::other(format!("no task in {task}")))
}

/// Subscribers of a task that do not read.
fn stopped_readers(server: &Running, task: &str, count: usize) -> io::Result<Vec<TcpStream>> {
    let request = server.client().bytes("GET", &format!("/v1/tasks/{task}:subscribe?after=0"), &[], b"");
    (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address())?;
            stream.write_all(&request)?;
            Ok(stream)
        })
        .collect()
}
