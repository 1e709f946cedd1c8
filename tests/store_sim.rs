//! A randomized simulation of the store in a bucket: two or three instances run the protocol of `src/bucket` over a bucket in memory, while
//! requests are lost, delayed or carried out twice, and instances are paused, cut off, killed, restarted and drained. A run is
//! determined by its seed:
//!
//!     STORE_SEED=17 cargo test --test store_sim -- --nocapture whole         one run
//!     STORE_SEEDS=10000 cargo test --release --test store_sim -- --nocapture whole
//!
//! Checked are: no acknowledged record is lost or changed; every reader sees a prefix of one log; a call starts at most once, and never while
//! a tool of an earlier owner may run; a request that was reported as carried out or void is so in the log, once; nothing stays at work for
//! ever; a deleted task does not come back and is removed; a parent stays while another task continues it. To show that these
//! checks notice something, each of the other tests leaves one rule of the protocol out and expects a violation.

#![cfg(feature = "bucket")]

#[path = "store_sim/behaviour.rs"]
mod behaviour;
#[path = "store_sim/checks.rs"]
mod checks;
#[path = "store_sim/clients.rs"]
mod clients;
#[path = "store_sim/drive.rs"]
mod drive;
#[path = "store_sim/network.rs"]
mod network;
#[path = "store_sim/node.rs"]
mod node;
#[path = "store_sim/port.rs"]
mod port;
#[path = "store_sim/race.rs"]
mod race;
#[path = "support/random.rs"]
mod random;
#[path = "store_sim/simulation.rs"]
mod simulation;
#[path = "store_sim/state.rs"]
mod state;
#[path = "store_sim/variant.rs"]
mod variant;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use variant::Variant;

/// The number of runs of the whole protocol.
const SEEDS: u64 = 100;

/// The number of runs in which a missing rule has to be noticed.
const BROKEN_SEEDS: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// The results of many runs, and the violated invariants with their seeds.
#[derive(Default)]
struct Total {
    runs: u64,
    stats: BTreeMap<&'static str, u64>,
    broken: Vec<(u64, String)>,
}

/// Runs seeds on all cores, until `enough` of them have violated an invariant.
fn run_seeds(seeds: std::ops::Range<u64>, variant: Variant, enough: usize) -> Total {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Total::default());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || total.lock().unwrap().broken.len() >= enough {
                        return;
                    }
                    let run = drive::run(seed, variant);
                    let mut total = total.lock().unwrap();
                    total.runs += 1;
                    for (what, n) in run.stats {
                        *total.stats.entry(what).or_default() += n;
                    }
                    total.broken.extend(run.broken.map(|why| (seed, why)));
                }
            });
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn whole() {
    let seeds = match number("STORE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORE_SEEDS").unwrap_or(SEEDS),
    };
    let total = run_seeds(seeds, Variant::Whole, 5);
    println!("{} runs: {:?}", total.runs, total.stats);
    assert!(total.broken.is_empty(), "seeds that break the protocol: {:#?}", total.broken);
    for what in ["acknowledged records", "tool starts", "take-overs", "deletions", "removals", "heard requests"] {
        assert!(total.runs < SEEDS || total.stats.get(what).is_some_and(|n| *n > 0), "no run has {what}");
    }
}

#[test]
fn of_two_instances_that_claim_one_task_one_wins() {
    let (mut undisputed, mut unknown) = (0, 0);
    for seed in 0..1_000 {
        let race = race::run(seed);
        assert_eq!(race.broken, None, "seed {seed}");
        let epochs: Vec<u64> = race.owners.iter().map(|(_, epoch)| *epoch).collect();
        assert!(epochs.windows(2).all(|pair| pair[1] == pair[0] + 1), "seed {seed}: {:?}", race.owners);
        for winner in &race.winners {
            assert!(race.owners.contains(winner), "seed {seed}: {winner:?} of {:?}", race.owners);
        }
        match (race.winners.len(), race.losers) {
            (1, 1) => undisputed += 1,
            // One has claimed after the other, or one got no answer: then the log decides.
            _ => unknown += 1,
        }
    }
    println!("{undisputed} races were decided at once, {unknown} otherwise");
    assert!(undisputed > 500, "{undisputed}");
}

/// Checks that some seed from `first` on fails without a rule. With `STORE_SEEDS`, runs that many and prints how many fail.
fn is_noticed(variant: Variant, first: u64) {
    let all = number("STORE_SEEDS");
    let seeds = all.map_or(first..first + BROKEN_SEEDS, |all| 0..all);
    let total = run_seeds(seeds, variant, all.map_or(1, |all| all as usize));
    println!("{variant:?}: {} of {} runs fail, such as {:?}", total.broken.len(), total.runs, total.broken.first());
    assert!(!total.broken.is_empty(), "{variant:?}: no violation in {} runs", total.runs);
}

/// One test per rule, with a seed shortly before one that fails, which only saves time.
macro_rules! rules {
    ($($name:ident: $variant:ident from $first:literal,)+) => {$(
        #[test]
        fn $name() {
            is_noticed(Variant::$variant, $first);
        }
    )+};
}

rules! {
    segments_stay: SegmentsDeleted from 25,
    inboxes_are_compared: InboxNotCompared from 65,
    entries_are_removed_first: EntryLast from 9,
    removal_has_a_grace_period: NoGrace from 0,
    entries_are_checked: EntryNotChecked from 6,
    markers_have_positions: PlainMarkers from 0,
    ids_are_random_and_own_claims_are_adopted: IdsReused from 1,
    tools_are_stopped_before_the_segment_that_ends_their_turn: StoppedLate from 316,
}

/// Either half of the rule about ids and claims is enough without the other.
#[test]
fn random_ids_or_adopted_claims_are_enough() {
    for variant in [Variant::IdsReusedAndAdopted, Variant::NotAdopted] {
        let total = run_seeds(0..number("STORE_SEEDS").unwrap_or(SEEDS / 10), variant, 5);
        println!("{variant:?}: {} runs", total.runs);
        assert!(total.broken.is_empty(), "{variant:?}: {:#?}", total.broken);
    }
}
