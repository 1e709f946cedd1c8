//! A deterministic simulation of the whole core: clients send in pieces, read slowly, disconnect and resume; workers reorder their
//! notes, fail, die and report after they were stopped; webhooks are set and deleted and do not always answer; writes to the disk fail,
//! are torn or lost; the clock jumps; the server is killed and restarted. A run is determined by its seed, so a failing run can be
//! repeated:
//!
//!     SIM_SEED=17 cargo test --test sim      one run, with its last steps
//!     SIM_SEEDS=20000 cargo test --release --test sim
//!
//! After every step, everything that a client has received is compared with the journals on disk: streams have no gaps, are in
//! order, and show only what is written; calls are answered once; a call with effects starts once, after its event is synced;
//! buffers stay within their limits; webhooks receive every event in order, or the log says which were given up; and at the end
//! nothing is left over. `journals.rs` reads the journals, `checker.rs` compares responses and `webhooks.rs` deliveries with them, and
//! `simulation.rs` runs the turns of the loop.

#[path = "sim/checker.rs"]
mod checker;
#[path = "sim/client.rs"]
mod client;
mod core_harness;
#[path = "sim/faulty_store.rs"]
mod faulty_store;
#[path = "support/http.rs"]
#[allow(dead_code)] // The simulation only reads responses.
mod http;
#[path = "sim/journals.rs"]
mod journals;
#[path = "support/random.rs"]
mod random;
#[path = "sim/requests.rs"]
mod requests;
#[path = "sim/setup.rs"]
mod setup;
#[path = "sim/simulation.rs"]
mod simulation;
#[path = "support/sse.rs"]
mod sse;
#[path = "sim/webhooks.rs"]
mod webhooks;
#[path = "sim/workers.rs"]
mod workers;

use checker::Tally;
use faulty_store::InjectedBug;
use simulation::Simulation;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const SEEDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// A violated invariant, and the last steps before it.
struct Violation {
    why: String,
    trace: Vec<String>,
}

fn run(seed: u64, bug: InjectedBug) -> Result<Simulation, Violation> {
    let mut simulation = Simulation::new(seed, bug);
    match catch_unwind(AssertUnwindSafe(|| simulation.run())) {
        Ok(()) => Ok(simulation),
        Err(panic) => Err(Violation {
            why: match panic.downcast::<String>() {
                Ok(why) => *why,
                Err(panic) => panic.downcast_ref::<&str>().map_or("?", |why| why).into(),
            },
            trace: simulation.trace().cloned().collect(),
        }),
    }
}

#[test]
fn no_invariant_is_violated() {
    let seeds = match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(SEEDS),
    };
    let many = seeds.end - seeds.start >= SEEDS;
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Tally::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(());
            }
            let simulation = run(seed, InjectedBug::None).map_err(|violation| (seed, violation))?;
            all.lock().expect("no thread panics while it holds the lock").add(&simulation.tally);
        }
    };
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    let results: Vec<Result<(), (u64, Violation)>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.map(|ended| ended.expect("runs catch their panics")).collect()
    });
    if let Some(Err((seed, Violation { why, trace }))) = results.into_iter().find(Result::is_err) {
        panic!("SIM_SEED={seed} repeats this: {why}\nIts last steps:\n{}", trace.join("\n"));
    }
    let all = all.into_inner().expect("no thread panics while it holds the lock");
    println!("{all:#?}");
    let missed: Vec<_> = EXPECTED.iter().filter(|what| all.of(what) == 0).collect();
    assert!(!many || missed.is_empty(), "in no run: {missed:?}");
}

/// What must have happened in at least one run; otherwise the runs prove nothing.
const EXPECTED: [&str; 36] = [
    "answered while paused",
    "late answer",
    "unknown option",
    "stream begins with a snapshot",
    "stream resumed",
    "stream ended",
    "canceled",
    "changes",
    "clean shutdowns",
    "context continued",
    "crashes",
    "stalled reader cut off",
    "failing appends",
    "failing audits",
    "frames",
    "empty stream",
    "loads",
    "wrong context",
    "task not found",
    "pages",
    "computed",
    "task returned",
    "canceled without a record",
    "stream notified of the disk",
    "request failed by the disk",
    "request timed out",
    "refused as overloaded",
    "waited for a turn",
    "degraded health",
    "failing syncs",
    "webhook set",
    "webhook deleted",
    "too many webhooks",
    "delivery succeeded",
    "delivery failed",
    "webhook received everything",
];

#[test]
fn a_run_can_be_repeated() {
    for seed in [3, 5, 8] {
        let runs = [(); 2].map(|()| run(seed, InjectedBug::None));
        let [Ok(one), Ok(two)] = runs else {
            panic!("seed {seed} violates an invariant");
        };
        assert!(one.trace().eq(two.trace()) && one.tally == two.tally, "seed {seed}");
    }
}

#[test]
fn a_violated_invariant_is_noticed() {
    for (bug, words) in [
        (InjectedBug::WriteBehind, "on disk"),
        (InjectedBug::NoSync, "before its start is safe"),
        (InjectedBug::NoAuditSync, "the audit does not say so"),
        (InjectedBug::ForgetsTasks, "is not found"),
        (InjectedBug::LostFrame, "comes something else"),
        (InjectedBug::LostNote, "something is left over"),
        (InjectedBug::WorkerIgnoresStop, "was not stopped"),
        (InjectedBug::LostDeliveries, "was never delivered"),
    ] {
        let noticed = (0..20).any(|seed| match run(seed, bug) {
            Ok(_) => false,
            Err(violation) => violation.why.contains(words),
        });
        assert!(noticed, "{bug:?} was not noticed");
    }
}
