//! The whole core in a world of chance: clients that send in pieces, read slowly, leave and come back; workers that reorder,
//! fail, die and talk after they were stopped; a disk that refuses, tears and loses; a clock that jumps; a server that is
//! killed and started again. Everything follows from one number, so a failing run can be looked at again:
//!
//!     SIM_SEED=17 cargo test --test sim      one run, with its last steps
//!     SIM_SEEDS=20000 cargo test --release --test sim
//!
//! After every step everything a client has seen is compared with what is on disk, folded anew: streams are gapless, in order
//! and durable before they are visible; calls are answered once; what cannot be taken back starts once, and after its event
//! is safe; buffers stay within their limits; and in the end nothing is left over. `ledger.rs` is the truth, `judge.rs` the
//! comparison, `house.rs` the turn of the loop.

#[path = "sim/ask.rs"]
mod ask;
#[path = "sim/chance.rs"]
mod chance;
#[path = "sim/client.rs"]
mod client;
#[path = "sim/house.rs"]
mod house;
#[path = "support/http.rs"]
#[allow(dead_code)] // Clients need only the half of it that reads answers.
mod http;
#[path = "sim/judge.rs"]
mod judge;
#[path = "sim/ledger.rs"]
mod ledger;
#[path = "sim/shelf.rs"]
mod shelf;
#[path = "support/sse.rs"]
mod sse;
#[path = "sim/workers.rs"]
mod workers;

use house::House;
use judge::Tally;
use shelf::Sabotage;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS: u64 = 240;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// One run. Err: the last steps before a promise was broken.
fn run(seed: u64, sabotage: Sabotage) -> Result<Tally, Vec<String>> {
    let mut house = House::new(seed, sabotage);
    match catch_unwind(AssertUnwindSafe(|| house.run())) {
        Ok(()) => Ok(house.tally),
        Err(_) => Err(house.trace().cloned().collect()),
    }
}

#[test]
fn nothing_breaks_a_promise() {
    let seeds = match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(SEEDS),
    };
    let many = seeds.end - seeds.start >= SEEDS;
    let mut all = Tally::default();
    for seed in seeds {
        match run(seed, Sabotage::None) {
            Ok(tally) => tally
                .0
                .iter()
                .for_each(|(what, n)| *all.0.entry(what).or_default() += n),
            Err(trace) => panic!(
                "seed {seed} broke a promise (above); SIM_SEED={seed} repeats it. Its last steps:\n{}",
                trace.join("\n")
            ),
        }
    }
    println!("{all:#?}");
    if many {
        for what in EXPECTED {
            assert!(all.0.contains_key(what), "in no run: {what}");
        }
    }
}

/// What must have happened somewhere, or the runs show nothing.
const EXPECTED: [&str; 1] = ["frames"];

#[test]
fn a_broken_promise_is_noticed() {
    for sabotage in [
        Sabotage::WriteBehind,
        Sabotage::NoSync,
        Sabotage::Amnesia,
        Sabotage::LostFrame,
    ] {
        let noticed = (0..20).any(|seed| run(seed, sabotage).is_err());
        assert!(noticed, "{sabotage:?} went by unnoticed");
    }
}
