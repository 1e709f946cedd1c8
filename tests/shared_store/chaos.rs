//! Fifty conversations through a load balancer in front of three instances, each of which is killed, paused or cut off from the store ten
//! times. In the end, the logs contain everything that clients saw or that was acknowledged, exactly once.
//!
//! It takes minutes, so it is ignored; `scripts/test` runs it with the times of the protocol divided by ten, and once more undivided
//! with `CI=true`:
//!
//!     STORE_TIMES=10 CHAOS_SEED=1 cargo test --test shared_store -- --ignored --nocapture chaos

use super::balancer::Balancer;
use super::client::{End, Next, content, follow};
use super::conversation::{Conversation, Terms, converse};
use super::fake_gcs::{FakeGcs, Link};
use super::instance::{Cluster, Instance};
use super::log;
use crate::support::PATIENCE;
use crate::support::fake::FakeGemini;
use crate::support::random::Random;
use gemini_a2a::bucket::instance::Times;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const INSTANCES: usize = 3;
const CONVERSATIONS: usize = 50;
/// Faults of each instance: thirty in all.
const FAULTS: usize = 10;

/// What happens to an instance.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Killed and started again at once.
    KilledBriefly,
    /// Killed, and started again after the others consider it dead.
    KilledForLong,
    /// Suspended for longer than every time of the protocol except the grace period before a removal.
    Paused,
    /// Connections to the store are reset for the same time.
    CutOff,
    /// The store does not answer for the same time.
    Unanswered,
    /// Requests are executed, but their responses are lost.
    AnswersLost,
}

const ALL_FAULTS: [Fault; 6] =
    [Fault::KilledBriefly, Fault::KilledForLong, Fault::Paused, Fault::CutOff, Fault::Unanswered, Fault::AnswersLost];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
#[ignore = "it takes minutes; scripts/test runs it"]
fn chaos_loses_and_repeats_nothing() {
    let divisor = number("STORE_TIMES").unwrap_or(10);
    let seed = number("CHAOS_SEED").unwrap_or(1);
    eprintln!("STORE_TIMES={divisor} CHAOS_SEED={seed}");
    let times = Times::default().divided(divisor);
    // The time of the slowest take-over: the death of an instance is noticed, and a scan finds its tasks.
    let death = Duration::from_millis(times.death_ms);
    let recovery = death + Duration::from_millis(times.scan_ms + times.heartbeats_listed_ms);
    let cluster = Cluster::with(FakeGcs::new(), FakeGemini::start()).with_times(divisor);
    let balancer = Balancer::new(INSTANCES);
    let begin = Instant::now();
    // The number of instances that still have faults to come.
    let suffering = AtomicUsize::new(INSTANCES);
    let terms = Terms {
        goes_on: &|| suffering.load(Ordering::Relaxed) > 0,
        longest_pause: death / 4,
        silence: death.max(Duration::from_secs(4)),
        patience: death * 4 * FAULTS as u32 + recovery * 4 + Duration::from_secs(120),
    };
    let (instances, conversations) = thread::scope(|scope| {
        let faulty: Vec<_> = (0..INSTANCES)
            .map(|at| {
                let instance = cluster.start(["a", "b", "c"][at], "workspace");
                balancer.set_port(at, instance.port());
                let (balancer, suffering) = (&balancer, &suffering);
                let chance = Random::new(seed * 100 + at as u64);
                scope.spawn(move || {
                    let instance = suffer(instance, at, balancer, death, chance);
                    suffering.fetch_sub(1, Ordering::Relaxed);
                    instance
                })
            })
            .collect();
        let clients: Vec<_> = (0..CONVERSATIONS)
            .map(|at| {
                let mut chance = Random::new(seed * 100 + 10 + at as u64);
                let url = balancer.url();
                scope.spawn(move || converse(&url, &format!("w{at}"), terms, &mut chance))
            })
            .collect();
        let clients: Vec<Conversation> =
            clients.into_iter().map(|client| client.join().expect("a conversation")).collect();
        let instances: Vec<Instance> =
            faulty.into_iter().map(|instance| instance.join().expect("an instance")).collect();
        (instances, clients)
    });
    expect_rest(&cluster, recovery * 3);
    let written = cluster.file("workspace", "runs.txt").unwrap_or_default();
    let runs = count_words(&written);
    for conversation in &conversations {
        check(conversation, &cluster, &instances, &runs);
    }
    report(&conversations, &cluster, begin.elapsed());
}

/// Causes the faults of an instance, with a random pause before each.
fn suffer(mut instance: Instance, at: usize, balancer: &Balancer, death: Duration, mut chance: Random) -> Instance {
    for turn in 0..FAULTS {
        thread::sleep(death.mul_f64(chance.within(10, 50) as f64 / 100.0));
        // Every instance has every kind of fault.
        let fault = ALL_FAULTS.get((turn + at) % FAULTS).or(chance.pick(&ALL_FAULTS)).copied().expect("a fault");
        eprintln!("{} is {fault:?}", instance.name);
        match fault {
            Fault::KilledBriefly | Fault::KilledForLong => {
                instance.kill();
                balancer.set_port(at, None);
                if matches!(fault, Fault::KilledForLong) {
                    thread::sleep(death * 3 / 2);
                }
                instance.restart();
                balancer.set_port(at, instance.port());
            }
            Fault::Paused => {
                instance.pause();
                thread::sleep(death * 3 / 2);
                instance.resume();
            }
            Fault::CutOff => broken_link(&instance, Link::Refused, death * 3 / 2),
            Fault::Unanswered => broken_link(&instance, Link::Silent, death * 3 / 2),
            Fault::AnswersLost => broken_link(&instance, Link::LosesAnswers, death / 4),
        }
    }
    instance
}

fn broken_link(instance: &Instance, link: Link, how_long: Duration) {
    instance.front.set_link(link);
    thread::sleep(how_long);
    instance.front.set_link(Link::Up);
}

fn count_words(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for word in text.lines() {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// Checks a conversation against the log in the bucket and against what every instance shows.
fn check(conversation: &Conversation, cluster: &Cluster, instances: &[Instance], runs: &BTreeMap<&str, usize>) {
    let task = &conversation.task;
    let events = log::read(&cluster.store, task);
    // Also checks that the epochs of the owners have no gaps.
    log::owners(&events);
    for prompt in &conversation.prompts {
        let text = serde_json::to_string(prompt).expect("a string");
        let times = events.iter().filter(|event| log::kind(event) == "prompted" && event.to_string().contains(&text));
        assert_eq!(times.count(), 1, "{task}: {prompt} was acknowledged");
    }
    let answered: Vec<&str> = calls(&events, "call_answered");
    for call in &conversation.approvals {
        assert_eq!(answered.iter().filter(|answered| *answered == call).count(), 1, "{task}: {call} was acknowledged");
    }
    for (call, starts) in log::starts(&events) {
        assert_eq!(starts, 1, "{task}: {call}");
    }
    for word in &conversation.words {
        let ran = runs.get(word.as_str()).copied().unwrap_or_default();
        let started = calls_of_word(&events, word, "call_started");
        assert!(ran <= started, "{task}: {word} ran {ran} times and was started {started} times");
    }
    // A request whose response was lost may have taken effect after the client last read. Then there are more events than the client saw.
    let [first, others @ ..] = instances else { return };
    let whole = read_at(first, task, &events);
    let mut pairs = conversation.shown.iter().zip(&whole);
    let difference = pairs.find(|(shown, read)| shown != read);
    assert!(difference.is_none(), "{task}: the client was shown and {} shows: {difference:#?}", first.name);
    assert!(conversation.shown.len() <= whole.len(), "{task}: the client was shown what {} does not show", first.name);
    for instance in others {
        assert_eq!(whole, read_at(instance, task, &events), "{task} at {}", instance.name);
    }
}

/// The events of a task at rest that an instance shows.
fn read_at(instance: &Instance, task: &str, events: &[Value]) -> Vec<(u64, Value)> {
    let mut shown = vec![];
    let end = follow(&instance.url(), task, 0, PATIENCE, |event| {
        shown.push(content(&event));
        Next::Continue
    });
    let kinds: Vec<&str> = events.iter().rev().take(8).rev().map(log::kind).collect();
    let last = shown.last();
    assert_eq!(end, End::Whole, "{task} at {}; its log ends with {kinds:?}, shown was {last:?}", instance.name);
    shown
}

/// The calls of the events of a kind.
fn calls<'a>(events: &'a [Value], kind: &str) -> Vec<&'a str> {
    events.iter().filter_map(|event| event["event"][kind]["call"].as_str()).collect()
}

/// How many calls whose plan contains a word have an event of a kind. Only commands of one conversation contain the word.
fn calls_of_word(events: &[Value], word: &str, kind: &str) -> usize {
    let command = format!("echo {word} >>");
    let planned: Vec<&str> = events
        .iter()
        .filter(|event| log::kind(event) == "call_planned" && event.to_string().contains(&command))
        .filter_map(|event| event["event"]["call_planned"]["call"].as_str())
        .collect();
    calls(events, kind).into_iter().filter(|call| planned.contains(call)).count()
}

/// Waits until no task is at work, including tasks that no client uses any more.
fn expect_rest(cluster: &Cluster, patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        let working: Vec<String> = tasks(cluster).into_iter().filter(|task| !is_at_rest(cluster, task)).collect();
        if working.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "still at work: {working:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// The tasks that have a log.
fn tasks(cluster: &Cluster) -> Vec<String> {
    let objects = cluster.store.bucket().objects();
    let mut tasks: Vec<String> = objects
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("tasks/")?.split_once("/log/").map(|(task, _)| task.to_owned()))
        .collect();
    tasks.dedup();
    tasks
}

/// Whether the log of a task ends at rest: every turn has ended or was interrupted, or a question is open.
fn is_at_rest(cluster: &Cluster, task: &str) -> bool {
    let events = log::read(&cluster.store, task);
    let [prompted, ended, asked, answered] = ["prompted", "turn_ended", "call_asked", "call_answered"]
        .map(|kind| events.iter().filter(|event| log::kind(event) == kind).count());
    let ends_interrupted =
        events.iter().rev().find(|event| !matches!(log::kind(event), "owned" | "released" | "audited"));
    prompted == ended || asked > answered || ends_interrupted.is_some_and(|event| log::kind(event) == "interrupted")
}

fn report(conversations: &[Conversation], cluster: &Cluster, took: Duration) {
    let sum = |of: fn(&Conversation) -> usize| conversations.iter().map(of).sum::<usize>();
    let owners: usize = conversations.iter().map(|c| log::owners(&log::read(&cluster.store, &c.task)).len()).sum();
    eprintln!(
        "{} events shown, {} prompts and {} approvals acknowledged, {} take-overs, {} failures, {} tasks, {} s",
        sum(|c| c.shown.len()),
        sum(|c| c.prompts.len()),
        sum(|c| c.approvals.len()),
        owners - conversations.len(),
        sum(|c| c.failures),
        tasks(cluster).len(),
        took.as_secs()
    );
}
