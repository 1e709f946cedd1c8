//! The measurements, one function each, and their parameters.

use crate::frames;
use crate::process::{Usage, open_files_limit, settled_rss_kb, usage};
use crate::subject::{CARD, Model, Running, Subject};
use crate::support::client::envelope;
use crate::support::message::{fresh, prompt, prompt_at, task_of, text_of};
use crate::swarm::{Connection, Latencies, Swarm};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};

/// The parameters of the measurements. They are smaller for the reference server where it would take minutes.
pub struct Plan {
    starts: usize,
    /// The numbers of tasks with one turn at which memory is read; ascending.
    marks: Vec<usize>,
    /// Chunks of the stream that latency and CPU are measured with.
    chunks: u64,
    load: Vec<Burst>,
    /// How often each load is repeated; the median counts.
    rounds: usize,
    card: Duration,
    fan: Vec<Burst>,
    /// The fan-outs over WebSocket.
    sockets: Vec<Burst>,
    idle: usize,
}

/// A number of simultaneous streams, and the chunks of each.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub count: usize,
    pub chunks: u64,
}

fn burst(count: usize, chunks: u64) -> Burst {
    Burst { count, chunks }
}

pub struct Plans {
    pub ours: Plan,
    pub peer: Plan,
}

impl Plan {
    pub fn full() -> Plans {
        let ours = Plan {
            starts: 9,
            marks: vec![1, 10, 100, 1000],
            chunks: 3000,
            load: vec![burst(1, 4000), burst(8, 1000), burst(32, 400), burst(100, 200), burst(500, 200)],
            rounds: 3,
            card: Duration::from_secs(4),
            fan: vec![burst(1, 10_000), burst(100, 2000), burst(1000, 500)],
            sockets: vec![burst(1000, 500)],
            idle: 10_000,
        };
        let peer = Plan {
            starts: 3,
            marks: vec![1, 10, 100],
            chunks: 1000,
            load: vec![burst(1, 1000), burst(8, 300), burst(32, 200), burst(100, 200)],
            rounds: 1,
            card: Duration::from_secs(4),
            fan: vec![],
            sockets: vec![],
            idle: 0,
        };
        Plans { ours, peer }
    }

    pub fn quick() -> Plans {
        let plan = || Plan {
            starts: 1,
            marks: vec![1, 10],
            chunks: 100,
            load: vec![burst(1, 50), burst(8, 50)],
            rounds: 1,
            card: Duration::from_millis(500),
            fan: vec![],
            sockets: vec![],
            idle: 0,
        };
        let ours =
            Plan { fan: vec![burst(1, 100), burst(20, 100)], sockets: vec![burst(1000, 100)], idle: 200, ..plan() };
        Plans { ours, peer: plan() }
    }
}

#[derive(Debug, Default)]
pub struct Figures {
    pub start_ms: f64,
    pub idle_kb: f64,
    /// Numbers of tasks, and the memory per task beyond the first.
    pub task_kb: Vec<(usize, f64)>,
    pub lag_us: Spread,
    pub chunk_cpu_us: f64,
    pub load: Vec<Load>,
    pub card_per_s: f64,
    pub card_us: Spread,
    pub fan: Vec<Fan>,
    /// Idle connections, and the memory they added together.
    pub idle: Option<(usize, f64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    pub p50: f64,
    pub p99: f64,
}

#[derive(Clone, Debug)]
pub struct Load {
    pub tasks: usize,
    /// Streams with every chunk and a final event; only their chunks count.
    pub complete: usize,
    pub chunks_per_s: f64,
    pub cpu_us: f64,
    pub complaint: Option<String>,
}

/// How the subscribers of a fan-out are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    Stream,
    Socket,
}

/// One task with many subscribers. Costs are per delivery: one chunk to one subscriber.
#[derive(Clone, Debug)]
pub struct Fan {
    pub link: Link,
    /// The speed of the model.
    pub pace: Pace,
    pub subscribers: usize,
    pub complete: usize,
    pub deliveries_per_s: f64,
    pub user_us: f64,
    pub system_us: f64,
    pub complaint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// As fast as possible: a subscriber may get several chunks in one write.
    Full,
    /// So slow that every chunk is written by itself.
    Single,
}

/// All measurements of one server. Each group has a new process, so that none inherits another's memory.
pub fn measure(subject: &Subject, model: &Model, plan: &Plan) -> io::Result<Figures> {
    let say = |what: &str| eprintln!("{}: {what}", subject.name());
    let mut figures = Figures::default();

    say("starting");
    let mut starts = vec![];
    for _ in 1..plan.starts {
        starts.push(subject.start(model)?.start.as_secs_f64() * 1e3);
    }
    let server = subject.start(model)?;
    starts.push(server.start.as_secs_f64() * 1e3);
    figures.start_ms = spread(starts).p50;

    say("memory");
    figures.idle_kb = settled_rss_kb(server.pid())?;
    figures.task_kb = memory(&server, &plan.marks)?;
    drop(server);

    say("latency");
    let server = subject.start(model)?;
    (figures.lag_us, figures.chunk_cpu_us) = latency(&server, plan.chunks)?;

    say("load");
    for burst in &plan.load {
        let rounds = (0..plan.rounds).map(|_| load(&server, *burst));
        figures.load.push(median(rounds.collect::<io::Result<_>>()?, |load| load.chunks_per_s));
    }
    drop(server);

    say("card");
    let server = subject.start(model)?;
    (figures.card_per_s, figures.card_us) = card(&server, plan.card)?;

    if !plan.fan.is_empty() {
        say("fan-out");
        for burst in &plan.fan {
            figures.fan.push(fan_out(&server, model, *burst)?);
        }
    }
    drop(server);
    if !plan.sockets.is_empty() {
        say("fan-out over WebSocket");
        let server = subject.start(model)?;
        for burst in &plan.sockets {
            for pace in [Pace::Full, Pace::Single] {
                figures.fan.push(broadcast(&server, *burst, pace)?);
            }
        }
    }
    if plan.idle > 0 {
        say("idle connections");
        figures.idle = idle(&subject.start(model)?, plan.idle)?;
    }
    Ok(figures)
}

/// The rates of the load generator and the fake model without a server between them.
pub fn ceiling(model: &Model) -> io::Result<(Load, Spread)> {
    let address = model.address()?;
    let request = |script: &str| {
        let body = json!({ "contents": [{ "role": "user", "parts": [{ "text": script }] }] });
        post("/v1beta/models/fake:streamGenerateContent?alt=sse", &body)
    };
    let mut swarm = Swarm::new(Latencies::Keep)?;
    swarm.connect(address, 1)?;
    swarm.send(0, &request("STREAM 400 5000"));
    swarm.run(Connection::is_over)?;
    let lag = spread(swarm.lines()[0].lags_us.clone());

    let all = burst(100, 1000);
    let mut swarm = Swarm::new(Latencies::Ignore)?;
    swarm.connect(address, all.count)?;
    let begin = Instant::now();
    for line in 0..all.count {
        swarm.send(line, &request(&format!("STREAM {}", all.chunks)));
    }
    swarm.run(Connection::is_over)?;
    let seconds = begin.elapsed().as_secs_f64();
    let whole = swarm.lines().iter().filter(|line| line.chunks == all.chunks).count();
    let load = Load {
        tasks: all.count,
        complete: whole,
        chunks_per_s: whole as f64 * all.chunks as f64 / seconds,
        cpu_us: 0.0,
        complaint: None,
    };
    Ok((load, lag))
}

/// Tasks one after the other, each with one short turn.
fn memory(server: &Running, marks: &[usize]) -> io::Result<Vec<(usize, f64)>> {
    let client = server.client();
    let workspace = server.workspace();
    let mut first = None;
    let mut made = 0;
    let mut found = vec![];
    for mark in marks {
        while made < *mark {
            let events = client.stream("message/stream", prompt_at(&workspace, "STREAM 1"));
            if !events.into_iter().any(|event| event.is_final()) {
                return Err(io::Error::other(format!("task {made} had no final event")));
            }
            made += 1;
        }
        let now = settled_rss_kb(server.pid())?;
        match first {
            // The first task includes all memory that is allocated once.
            None => first = Some(now),
            Some(first) => found.push((made, (now - first) / (made - 1) as f64)),
        }
    }
    Ok(found)
}

/// One stream with a chunk every 5 ms: the time from the model's write to our read, and the CPU time of the server per chunk.
fn latency(server: &Running, chunks: u64) -> io::Result<(Spread, f64)> {
    let mut swarm = Swarm::new(Latencies::Keep)?;
    swarm.connect(server.address(), 1)?;
    let before = usage(server.pid())?;
    swarm.send(0, &turn(server, &format!("STREAM {chunks} 5000")));
    swarm.run(Connection::is_over)?;
    let cpu = usage(server.pid())?.cpu_us() - before.cpu_us();
    match swarm.complaint(chunks) {
        Some(complaint) => Err(io::Error::other(format!("a stream fell short: {complaint}"))),
        None => Ok((spread(swarm.lines()[0].lags_us.clone()), cpu / chunks as f64)),
    }
}

/// New tasks at the same time, each streamed as fast as the model can.
fn load(server: &Running, burst: Burst) -> io::Result<Load> {
    let mut swarm = Swarm::new(Latencies::Ignore)?;
    swarm.connect(server.address(), burst.count)?;
    let before = usage(server.pid())?;
    let begin = Instant::now();
    for line in 0..burst.count {
        swarm.send(line, &turn(server, &format!("STREAM {}", burst.chunks)));
    }
    swarm.run(Connection::is_over)?;
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = usage(server.pid())?.cpu_us() - before.cpu_us();
    let complete = swarm.lines().iter().filter(|line| line.is_complete(burst.chunks)).count();
    let chunks = complete as f64 * burst.chunks as f64;
    Ok(Load {
        tasks: burst.count,
        complete,
        chunks_per_s: chunks / seconds,
        cpu_us: cpu / chunks.max(1.0),
        complaint: swarm.complaint(burst.chunks),
    })
}

/// Repeated requests for the agent card.
fn card(server: &Running, time: Duration) -> io::Result<(f64, Spread)> {
    repeat(server, &server.client().bytes("GET", CARD, &[], b""), MANY_CONNECTIONS, time)
}

pub const MANY_CONNECTIONS: usize = 50;

/// Repeats a request over kept-alive connections. Returns the rate per second and the latencies.
pub fn repeat(server: &Running, request: &[u8], connections: usize, time: Duration) -> io::Result<(f64, Spread)> {
    let mut swarm = Swarm::new(Latencies::Ignore)?;
    swarm.connect(server.address(), connections)?;
    let begin = Instant::now();
    let mut sent = vec![begin; connections];
    for line in 0..connections {
        swarm.send(line, request);
    }
    let mut times = vec![];
    while begin.elapsed() < time {
        for line in swarm.pump(Duration::from_millis(100))?.to_vec() {
            if let Some(broken) = &swarm.lines()[line].broken {
                return Err(io::Error::other(format!("asking again and again: {broken}")));
            }
            if swarm.lines()[line].is_over() {
                if swarm.lines()[line].status() != 200 {
                    return Err(io::Error::other(format!("HTTP {}", swarm.lines()[line].status())));
                }
                let now = Instant::now();
                times.push((now - sent[line]).as_secs_f64() * 1e6);
                sent[line] = now;
                swarm.send(line, request);
            }
        }
    }
    Ok((times.len() as f64 / begin.elapsed().as_secs_f64(), spread(times)))
}

/// One turn, held by the model until every subscriber has joined, then streamed to all of them.
fn fan_out(server: &Running, model: &Model, burst: Burst) -> io::Result<Fan> {
    let script = format!("TEXT ready ++ HOLD ++ STREAM {}", burst.chunks);
    let client = server.client();
    let mut first = client.stream("message/stream", prompt_at(&server.workspace(), &script));
    let ready = first.until("the first text", |event| text_of(event.result()) == "ready");
    let task = task_of(ready.result()).unwrap_or("").to_string();
    drop(first);

    let mut swarm = Swarm::new(Latencies::Ignore)?;
    swarm.connect(server.address(), burst.count)?;
    for line in 0..burst.count {
        let body = envelope(fresh(), "tasks/resubscribe", json!({ "id": task }));
        swarm.send(line, &post("/", &body));
    }
    swarm.run(|line| line.events > 0 || line.is_over())?;
    let cost = Cost::of(server, || {
        model.release();
        swarm.run(Connection::is_over)
    })?;
    Ok(cost.fan(Link::Stream, Pace::Full, &swarm, burst))
}

/// The live session over WebSocket: one client prompts, and all get the events of the turn.
fn broadcast(server: &Running, burst: Burst, pace: Pace) -> io::Result<Fan> {
    let mut swarm = Swarm::new(Latencies::Ignore)?;
    swarm.connect(server.address(), burst.count)?;
    for line in 0..burst.count {
        swarm.send(line, &frames::upgrade("/ws"));
    }
    swarm.run(|line| line.is_socket() || line.is_over())?;
    let script = match pace {
        Pace::Full => format!("STREAM {}", burst.chunks),
        Pace::Single => format!("STREAM {} {SINGLE_US}", burst.chunks),
    };
    let words = envelope(fresh(), "message/stream", prompt(&script)).to_string();
    let cost = Cost::of(server, || {
        swarm.send_text(0, &words);
        swarm.run(Connection::is_over)
    })?;
    Ok(cost.fan(Link::Socket, pace, &swarm, burst))
}

/// The pause between two chunks in which one chunk can be sent to a thousand subscribers.
const SINGLE_US: u64 = 30_000;

/// The CPU usage of the server around a fan-out, and its duration.
struct Cost {
    before: Usage,
    after: Usage,
    seconds: f64,
}

impl Cost {
    /// Measures the server while `all` runs.
    fn of(server: &Running, all: impl FnOnce() -> io::Result<()>) -> io::Result<Cost> {
        let before = usage(server.pid())?;
        let begin = Instant::now();
        all()?;
        Ok(Cost { before, after: usage(server.pid())?, seconds: begin.elapsed().as_secs_f64() })
    }

    fn fan(&self, link: Link, pace: Pace, swarm: &Swarm, burst: Burst) -> Fan {
        let complete = swarm.lines().iter().filter(|line| line.is_complete(burst.chunks)).count();
        let deliveries = complete as f64 * burst.chunks as f64;
        Fan {
            link,
            pace,
            subscribers: burst.count,
            complete,
            deliveries_per_s: deliveries / self.seconds,
            user_us: (self.after.user_us - self.before.user_us) / deliveries.max(1.0),
            system_us: (self.after.system_us - self.before.system_us) / deliveries.max(1.0),
            complaint: swarm.complaint(burst.chunks),
        }
    }
}

/// Connections that request the card once and then stay idle. They are opened in small groups, because the kernel's backlog is short and
/// a client whose connection is dropped there waits for a second.
fn idle(server: &Running, count: usize) -> io::Result<Option<(usize, f64)>> {
    const GROUP: usize = 100;
    // Descriptors for the poll, the pipes and the terminal.
    const OTHERS: usize = 64;
    if open_files_limit() < count + OTHERS {
        eprintln!("skipped: {count} connections need `ulimit -n` above {}", count + OTHERS);
        return Ok(None);
    }
    let request = server.client().bytes("GET", CARD, &[], b"");
    let before = settled_rss_kb(server.pid())?;
    let mut swarm = Swarm::new(Latencies::Ignore)?;
    for group in 0..count.div_ceil(GROUP) {
        swarm.connect(server.address(), GROUP)?;
        for line in group * GROUP..(group + 1) * GROUP {
            swarm.send(line, &request);
        }
        swarm.run(Connection::is_over)?;
    }
    let after = settled_rss_kb(server.pid())?;
    // Finds connections that the server has closed meanwhile.
    swarm.pump(Duration::ZERO)?;
    match swarm.lines().iter().filter(|line| line.broken.is_some() || line.status() != 200).count() {
        0 => Ok(Some((swarm.lines().len(), after - before))),
        lost => Err(io::Error::other(format!("{lost} of {count} idle connections were lost"))),
    }
}

fn turn(server: &Running, script: &str) -> Vec<u8> {
    post("/", &envelope(fresh(), "message/stream", prompt_at(&server.workspace(), script)))
}

fn post(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Accept: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Nearest-rank percentiles.
pub fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied().unwrap_or(f64::NAN)
    };
    Spread { p50: at(50), p99: at(99) }
}

pub fn median<T>(mut values: Vec<T>, by: impl Fn(&T) -> f64) -> T {
    values.sort_by(|a, b| by(a).total_cmp(&by(b)));
    values.swap_remove(values.len() / 2)
}
