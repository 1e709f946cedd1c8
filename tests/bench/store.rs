//! The cost of a store in a bucket whose requests take 50 ms: the time from an event to the client, the requests of a turn, taking over,
//! starting with ten thousand tasks, loading a long task, memory at rest. The bucket is the strict fake of the tests, in this process, and
//! the time limits of the protocol are the real ones.

use crate::client::{Next, follow, get, run as prompt_new, whole_at};
use crate::fake_gcs::{FakeGcs, Link};
use crate::gcs_api::Operation;
use crate::instance::{Cluster, Instance};
use crate::measure::spread;
use crate::process::settled_rss_kb;
use crate::report::Verdict;
use crate::support::fake::{FakeGemini, Recording};
use crate::support::message::{prompt, prompt_in, state_of, task_of, text_of};
use crate::support::stamp;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub struct Plan {
    chunks: u64,
    turns: usize,
    tasks: usize,
    events: u64,
}

pub const FULL: Plan = Plan { chunks: 300, turns: 20, tasks: 10_000, events: 10_000 };
pub const QUICK: Plan = Plan { chunks: 30, turns: 3, tasks: 200, events: 300 };

/// How long each request to the bucket takes.
const DISTANCE: Duration = Duration::from_millis(50);

struct Table {
    verdict: Verdict,
}

impl Table {
    /// Prints a figure with its limit.
    fn row(&mut self, what: &str, found: f64, most: f64, unit: &str) {
        let met = found <= most;
        println!("| {what} | {found:.1} {unit} | {most:.0} {unit} | {} |", if met { "" } else { "MISSED" });
        if !met {
            self.verdict = Verdict::Missed;
        }
    }
}

pub fn run(plan: Plan) -> io::Result<Verdict> {
    let mut table = Table { verdict: Verdict::Met };
    println!("\nTasks in a bucket that is {DISTANCE:?} away:\n| | found | at most | |\n|---|---|---|---|");
    let cluster = Cluster::with(FakeGcs::with_pages_of(1_000), FakeGemini::with(Recording::Off)).with_times(1);
    {
        let a = distant_instance(&cluster, "a");
        table.row("memory of an instance that has done nothing", settled_rss_kb(a.pid())? / 1000.0, 8.0, "MB");
        let waits = waits_of_chunks(&a, plan.chunks);
        table.row("event to client, p50", spread(waits.clone()).p50, 120.0, "ms");
        println!("| event to client, p99 | {:.1} ms | | |", spread(waits).p99);
        table.row("requests of a turn in a known task", requests_of_a_turn(&a, plan.turns), 12.0, "");
        println!("| … after these turns | {:.1} MB | | |", settled_rss_kb(a.pid())? / 1000.0);
    }
    {
        let (mut a, b) = (distant_instance(&cluster, "c"), distant_instance(&cluster, "d"));
        let (rest, work) = taking_over(&mut a, &b);
        table.row("going on with a task at rest of a killed instance", rest, 1.0, "s");
        table.row("taking over a task at work of a killed instance", work, 45.0, "s");
    }
    let events = long_task(&cluster, plan.events);
    let reader = distant_instance(&cluster, "f");
    let begin = Instant::now();
    get(&reader, &events.0);
    table.row(&format!("loading a task of {} events", events.1), begin.elapsed().as_secs_f64(), 2.0, "s");
    drop(reader);
    start_with_many(&cluster, &events.0, plan.tasks, &mut table);
    Ok(table.verdict)
}

/// An instance whose requests to the bucket take [`DISTANCE`].
fn distant_instance(cluster: &Cluster, name: &str) -> Instance {
    let mut instance = cluster.stopped(name, "workspace");
    instance.front.set_link(Link::Slow(DISTANCE));
    instance.restart();
    instance
}

/// The milliseconds from the model's write of each chunk to the client's read.
fn waits_of_chunks(instance: &Instance, chunks: u64) -> Vec<f64> {
    let task = prompt_new(instance, "TEXT Hello.");
    let mut after = whole_at(&instance.url(), &task).last().map_or(0, crate::client::number);
    let url = instance.url();
    let (mut waits, begin) = (vec![], Instant::now());
    thread::scope(|scope| {
        scope.spawn(|| instance.client().call("message/send", prompt_in(&task, &format!("STREAM {chunks} 20000"))));
        // A stream ends when the task is at rest, which it also is before the turn begins.
        while (waits.len() as u64) < chunks && begin.elapsed() < Duration::from_secs(60) {
            follow(&url, &task, after, Duration::from_secs(60), |event| {
                let now = stamp::now_ns();
                after = crate::client::number(&event);
                let text = text_of(event.result());
                waits.extend(stamp::find(&text).map(|stamp| (now - stamp.written_ns) as f64 / 1e6));
                if waits.len() as u64 >= chunks { Next::Stop } else { Next::Continue }
            });
        }
    });
    waits
}

/// The requests to the bucket per turn of a known task, including those that follow later, without those of an idle instance.
fn requests_of_a_turn(instance: &Instance, turns: usize) -> f64 {
    const SETTLING: Duration = Duration::from_secs(6);
    let task = prompt_new(instance, "TEXT Hello.");
    thread::sleep(SETTLING);
    let (idle_before, began) = (instance.front.total(), Instant::now());
    thread::sleep(Duration::from_secs(20));
    let idle_per_s = (instance.front.total() - idle_before) as f64 / began.elapsed().as_secs_f64();
    let (before, began) = (instance.front.total(), Instant::now());
    for _ in 0..turns {
        instance.client().call("message/send", prompt_in(&task, "TEXT An answer."));
        thread::sleep(Duration::from_secs(3));
    }
    thread::sleep(SETTLING);
    let all = (instance.front.total() - before) as f64;
    (all - idle_per_s * began.elapsed().as_secs_f64()) / turns as f64
}

/// Kills an instance. Returns the seconds until another one has answered a prompt to a task that was at rest, and until it shows a task
/// that was at work as interrupted.
fn taking_over(a: &mut Instance, b: &Instance) -> (f64, f64) {
    let resting = prompt_new(a, "TEXT Hello.");
    let begun =
        a.client().call("message/send", crate::client::without_waiting(prompt("TEXT Begun. ++ HOLD ++ TEXT Over.")));
    let working = task_of(&begun).expect("a task").to_owned();
    thread::sleep(Duration::from_secs(2));
    a.kill();
    let killed = Instant::now();
    b.client().call("message/send", prompt_in(&resting, "TEXT Next."));
    let rest = killed.elapsed().as_secs_f64();
    while state_of(&get(b, &working)) == Some("working") && killed.elapsed() < Duration::from_secs(120) {
        thread::sleep(Duration::from_millis(100));
    }
    (rest, killed.elapsed().as_secs_f64())
}

/// Makes a task with a long log, by an instance without delay. Returns its id and the number of its last event.
fn long_task(cluster: &Cluster, events: u64) -> (String, u64) {
    let near = cluster.start("e", "workspace");
    let task = prompt_new(&near, &format!("STREAM {events} 100 8"));
    let last = whole_at(&near.url(), &task).last().map_or(0, crate::client::number);
    // The next measurement copies the summary of the task.
    let begin = Instant::now();
    while !cluster.store.has_object(&format!("index/{task}")) && begin.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(50));
    }
    (task, last)
}

/// Starts an instance on a bucket with many tasks: copies of the summary of one task under other ids.
fn start_with_many(cluster: &Cluster, known: &str, tasks: usize, table: &mut Table) {
    cluster.store.repeat_summary(known, tasks);
    let mut instance = cluster.stopped("g", "workspace");
    instance.front.set_link(Link::Slow(DISTANCE));
    let begin = Instant::now();
    instance.restart();
    let start = begin.elapsed().as_secs_f64();
    while total_tasks(&instance) < tasks as u64 && begin.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    let lists = instance.front.count(Operation::List);
    table.row(&format!("start with {tasks} tasks until it listens"), start, 1.0, "s");
    println!("| … until it knows all of them | {:.1} s | | |", begin.elapsed().as_secs_f64());
    let most = tasks.div_ceil(1_000) + 2;
    table.row("… lists that it asks for", lists as f64, most as f64, "");
}

fn total_tasks(instance: &Instance) -> u64 {
    instance.client().get("/health").json()["totalTasks"].as_u64().unwrap_or_default()
}
