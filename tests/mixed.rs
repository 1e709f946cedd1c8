//! Sixteen clients of all dialects on one session: each receives the same events in the same order, each may prompt and answer,
//! and each question has exactly one accepted answer. A run is determined by its seed:
//!
//!     MIXED_SEED=17 cargo test --test mixed      one run, with its last steps
//!     MIXED_SEEDS=5000 cargo test --release --test mixed
//!
//! The core is the real one; sockets, workers and the store are values in this process. What a client received is compared, byte
//! by byte, with what the journal gives in that client's view.

#[path = "mixed/client.rs"]
mod client;
#[path = "mixed/comparison.rs"]
mod comparison;
mod core_harness;
#[path = "support/frame.rs"]
mod frame;
#[path = "mixed/harness.rs"]
mod harness;
#[path = "support/http.rs"]
#[allow(dead_code)] // These tests only read responses.
mod http;
#[path = "support/random.rs"]
mod random;
#[path = "support/sse.rs"]
mod sse;
#[path = "mixed/workers.rs"]
mod workers;

use harness::Harness;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS: u64 = 40;

#[test]
fn sixteen_clients_see_one_session() {
    let seeds = match std::env::var("MIXED_SEED") {
        Ok(seed) => seed.parse().map(|seed: u64| seed..seed + 1).unwrap(),
        Err(_) => {
            let many = std::env::var("MIXED_SEEDS").ok();
            0..many.map_or(SEEDS, |many| many.parse().unwrap())
        }
    };
    let is_series = seeds.end - seeds.start > 1;
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let mut harness = Harness::new(seed);
        let run = catch_unwind(AssertUnwindSafe(|| harness.run()));
        if run.is_err() {
            for line in harness.trace() {
                eprintln!("{line}");
            }
            panic!("seed {seed} failed; MIXED_SEED={seed} repeats it");
        }
        for (what, times) in harness.tally() {
            *tally.entry(what).or_default() += times;
        }
    }
    // A series of runs is a test only if all of this happened in it.
    if is_series {
        for what in [
            "an answer was accepted",
            "an answer came too late",
            "a prompt was accepted",
            "a stream was resumed",
            "a frame was compared",
        ] {
            let times = tally.get(what).copied().unwrap_or(0);
            assert!(times > 0, "never: {what} ({tally:?})");
        }
    }
}
