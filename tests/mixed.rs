//! Sixteen clients of every dialect on one session, in any order of events: each sees the same events in the same order, each
//! may prompt and answer, and of all answers to a question exactly one counts. Everything follows from one number:
//!
//!     MIXED_SEED=17 cargo test --test mixed      one run, with its last steps
//!     MIXED_SEEDS=5000 cargo test --release --test mixed
//!
//! The core is the real one; sockets, workers and the disk are values in this process. What a client was shown is compared,
//! byte by byte, with what the journal on the disk gives in that client's view, folded anew.

#[path = "sim/chance.rs"]
#[allow(dead_code)] // This world is simpler than the simulation's.
mod chance;
#[path = "mixed/client.rs"]
mod client;
mod core_harness;
#[path = "support/frame.rs"]
mod frame;
#[path = "support/http.rs"]
#[allow(dead_code)] // Clients need only the half of it that reads answers.
mod http;
#[path = "support/sse.rs"]
mod sse;
#[path = "mixed/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

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
    let whole = seeds.end - seeds.start > 1;
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let mut world = World::new(seed);
        let run = catch_unwind(AssertUnwindSafe(|| world.run()));
        if run.is_err() {
            for line in world.trace() {
                eprintln!("{line}");
            }
            panic!("seed {seed} failed; MIXED_SEED={seed} repeats it");
        }
        for (what, times) in world.tally() {
            *tally.entry(what).or_default() += times;
        }
    }
    // A world in which nothing happens proves nothing.
    if whole {
        for what in [
            "an answer counted",
            "an answer came too late",
            "a prompt was accepted",
            "a stream was taken up again",
            "a frame was compared",
        ] {
            let times = tally.get(what).copied().unwrap_or(0);
            assert!(times > 0, "never: {what} ({tally:?})");
        }
    }
}
