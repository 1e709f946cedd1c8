//! The cost of credentials: requests per second without a token, with a token, and with the audit and the access log too; and the
//! latency of a valid credential during a flood of wrong ones. Reading writes no audit entry, and a prompt writes two. The servers are
//! measured in turns, so that other load of the machine affects all of them.

use crate::measure::{MANY_CONNECTIONS, Spread, median, repeat};
use crate::others::waits_of;
use crate::report::Verdict;
use crate::subject::{Model, Running, Subject};
use crate::support::TempDir;
use crate::support::client::{Client, envelope};
use crate::support::message::prompt;
use serde_json::{Value, json};
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Plan {
    rounds: usize,
    time: Duration,
}

pub const FULL: Plan = Plan { rounds: 9, time: Duration::from_secs(1) };
pub const QUICK: Plan = Plan { rounds: 3, time: Duration::from_millis(200) };

/// The required rates, as fractions of that of a server without credentials.
const WITH_TOKEN: f64 = 0.9;
const WITH_LOGS: f64 = 0.8;

/// The repeated requests, and over how many connections they are made. A credential may send twenty prompts within a millisecond.
const REQUESTS: [(&str, usize); 2] = [("GET /tasks", MANY_CONNECTIONS), ("message/send", 10)];

/// A server with certain options, and its results.
struct Variant {
    name: &'static str,
    server: Running,
    token: Option<String>,
    required: Option<f64>,
    /// The rates of each round, for each of [`REQUESTS`].
    rates: [Vec<f64>; REQUESTS.len()],
}

impl Variant {
    fn requests(&self) -> [Vec<u8>; REQUESTS.len()] {
        let body = envelope(1, "message/send", prompt("TEXT hello")).to_string();
        let json = [("Content-Type", "application/json")];
        let client = self.client();
        [client.bytes("GET", "/tasks", &[], b""), client.bytes("POST", "/", &json, body.as_bytes())]
    }

    fn client(&self) -> Client {
        let client = self.server.client();
        match &self.token {
            Some(token) => client.field("Authorization", &format!("Bearer {token}")),
            None => client,
        }
    }
}

pub fn run(model: &Model, plan: Plan) -> io::Result<Verdict> {
    let without_token = |name, required, args: &[&str]| variant(model, name, required, args, None);
    let with_token = |name, required, args: &[&str]| {
        let dir = TempDir::new("bench");
        let token = credential(&dir)?;
        variant(model, name, required, args, Some((dir, token)))
    };
    let mut variants = [
        without_token("no credential, no audit, no access log", None, &[])?,
        with_token("a token", Some(WITH_TOKEN), &["--access", "token", "--access-log", "off"])?,
        with_token(
            "a token, the audit, an access log",
            Some(WITH_LOGS),
            &["--access", "token", "--access-log", "access"],
        )?,
    ];
    for _ in 0..plan.rounds {
        for variant in &mut variants {
            for ((request, rates), (_, connections)) in variant.requests().iter().zip(&mut variant.rates).zip(REQUESTS)
            {
                let (rate, _) = repeat(&variant.server, request, connections, plan.time)?;
                rates.push(rate);
            }
        }
    }
    let verdicts: Vec<Verdict> = (0..REQUESTS.len()).map(|at| print(&variants, at)).collect();
    let verdict = if verdicts.iter().all(|one| matches!(one, Verdict::Met)) { Verdict::Met } else { Verdict::Missed };
    flood(&variants[1], plan);
    Ok(verdict)
}

fn variant(
    model: &Model,
    name: &'static str,
    required: Option<f64>,
    args: &[&str],
    given: Option<(TempDir, String)>,
) -> io::Result<Variant> {
    let (dir, token) = match given {
        Some((dir, token)) => (dir, Some(token)),
        None => (TempDir::new("bench"), None),
    };
    let server = Subject::Ours.start_with(model, dir, args)?;
    let variant = Variant { name, server, token, required, rates: Default::default() };
    // A task for `GET /tasks`, which is also in the audit.
    variant.client().call("message/send", prompt("TEXT hello"));
    Ok(variant)
}

/// A credential without limits.
fn credential(dir: &TempDir) -> io::Result<String> {
    let state = dir.folder("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    let made =
        command.args(["token", "add", "bench", "--rights", "view,prompt", "--state-dir"]).arg(&state).output()?;
    let path = state.join("credentials.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    file["credentials"][0]["rate"] = json!({
        "calls_per_minute": u32::MAX, "prompts_per_minute": u32::MAX, "streams": u16::MAX, "turns": u16::MAX,
    });
    std::fs::write(&path, file.to_string())?;
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

fn print(variants: &[Variant], at: usize) -> Verdict {
    let ((what, connections), bases) = (REQUESTS[at], &variants[0].rates[at]);
    println!("\n{what} over {connections} kept connections, the median of {} rounds in turn:", bases.len());
    println!("| with | requests/s | ratio | required |");
    println!("|---|---|---|---|");
    let base = median(bases.clone(), |rate| *rate);
    let mut verdict = Verdict::Met;
    for variant in variants {
        // The median of the ratios of each round, because the speed of the machine varies.
        let ratios = variant.rates[at].iter().zip(bases).map(|(rate, base)| rate / base).collect();
        let ratio: f64 = median(ratios, |ratio| *ratio);
        let rate = median(variant.rates[at].clone(), |rate| *rate);
        let required = variant.required.map_or(String::new(), |least| format!("≥ {least}"));
        println!("| {} | {rate:.0} | {ratio:.2} | {required} |", variant.name);
        if variant.required.is_some_and(|least| ratio < least) {
            verdict = Verdict::Missed;
        }
    }
    assert!(base > 0.0, "nothing was answered");
    verdict
}

/// The latency of a valid credential while wrong ones come from the same address.
fn flood(variant: &Variant, plan: Plan) {
    let time = plan.time * 3;
    let quiet = waits_of(variant.client(), time);
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = variant.server.client().field("Authorization", "Bearer ga2a_bench_wrong");
            while !over.load(Ordering::Relaxed) {
                client.get("/tasks");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let found = waits_of(variant.client(), time);
        over.store(true, Ordering::Relaxed);
        found
    });
    let show = |what: &str, found: Spread, note: String| {
        println!("| {what} | {:.0} | {:.0} | {:.1} | {note} |", found.p50, found.p99, found.p99 / quiet.p99);
    };
    println!("\nA valid credential's requests (GET /health on one kept connection), in µs:");
    println!("| while | p50 | p99 | p99 / quiet | |");
    println!("|---|---|---|---|---|");
    show("nothing else happens", quiet, String::new());
    show("wrong tokens come from the same address", found, format!("{} refused", count.load(Ordering::Relaxed)));
}
