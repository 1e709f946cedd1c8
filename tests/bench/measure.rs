//! The measurements, one function each, and the numbers they are made with.

use crate::frames;
use crate::process::{Usage, open_files_limit, settled_rss_kb, usage};
use crate::subject::{CARD, Model, Running, Subject};
use crate::support::client::envelope;
use crate::support::message::{fresh, prompt, prompt_at, task_of, text_of};
use crate::swarm::{Lags, Line, Swarm};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};

/// How much is measured. The reference server gets smaller numbers where it would take minutes.
pub struct Plan {
    starts: usize,
    /// Memory is looked at when so many tasks have had one turn; ascending.
    marks: Vec<usize>,
    /// Chunks of the one stream that latency and CPU are taken from.
    chunks: u64,
    load: Vec<Burst>,
    /// Each load is repeated so often, and the median counts.
    rounds: usize,
    card: Duration,
    fan: Vec<Burst>,
    /// The same over WebSocket.
    sockets: Vec<Burst>,
    idle: usize,
}

/// So many at once, with so many chunks each.
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
    /// Tasks, and memory of each beyond the first.
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

/// One task shown to many. What it cost the server is told per delivery: one chunk to one subscriber.
#[derive(Clone, Debug)]
pub struct Fan {
    pub link: Link,
    /// How fast the model spoke.
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
    /// As fast as it can: a subscriber may get several chunks in one write.
    Full,
    /// Slow enough for every chunk to be a write of its own.
    Single,
}

/// Everything about one server. Each group gets a fresh process, so that none inherits another's memory.
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

/// What the generator and the fake can do without a server between them.
pub fn ceiling(model: &Model) -> io::Result<(Load, Spread)> {
    let address = model.address()?;
    let request = |script: &str| {
        let body = json!({ "contents": [{ "role": "user", "parts": [{ "text": script }] }] });
        post("/v1beta/models/fake:streamGenerateContent?alt=sse", &body)
    };
    let mut swarm = Swarm::new(Lags::Keep)?;
    swarm.connect(address, 1)?;
    swarm.send(0, &request("STREAM 400 5000"));
    swarm.run(Line::is_over)?;
    let lag = spread(swarm.lines()[0].lags_us.clone());

    let all = burst(100, 1000);
    let mut swarm = Swarm::new(Lags::Ignore)?;
    swarm.connect(address, all.count)?;
    let begin = Instant::now();
    for line in 0..all.count {
        swarm.send(line, &request(&format!("STREAM {}", all.chunks)));
    }
    swarm.run(Line::is_over)?;
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
            // The first one also pays for everything that is set up once.
            None => first = Some(now),
            Some(first) => found.push((made, (now - first) / (made - 1) as f64)),
        }
    }
    Ok(found)
}

/// One stream with a chunk every 5 ms: from the model's write to our read, and what each chunk cost the server.
fn latency(server: &Running, chunks: u64) -> io::Result<(Spread, f64)> {
    let mut swarm = Swarm::new(Lags::Keep)?;
    swarm.connect(server.address(), 1)?;
    let before = usage(server.pid())?;
    swarm.send(0, &turn(server, &format!("STREAM {chunks} 5000")));
    swarm.run(Line::is_over)?;
    let cpu = usage(server.pid())?.cpu_us() - before.cpu_us();
    match swarm.complaint(chunks) {
        Some(complaint) => Err(io::Error::other(format!("a stream fell short: {complaint}"))),
        None => Ok((spread(swarm.lines()[0].lags_us.clone()), cpu / chunks as f64)),
    }
}

/// So many new tasks at once, each streamed as fast as the model can.
fn load(server: &Running, burst: Burst) -> io::Result<Load> {
    let mut swarm = Swarm::new(Lags::Ignore)?;
    swarm.connect(server.address(), burst.count)?;
    let before = usage(server.pid())?;
    let begin = Instant::now();
    for line in 0..burst.count {
        swarm.send(line, &turn(server, &format!("STREAM {}", burst.chunks)));
    }
    swarm.run(Line::is_over)?;
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

/// The card, again and again.
fn card(server: &Running, time: Duration) -> io::Result<(f64, Spread)> {
    repeat(server, &server.client().bytes("GET", CARD, &[], b""), MANY_CONNECTIONS, time)
}

pub const MANY_CONNECTIONS: usize = 50;

/// A request, again and again over kept connections: how often per second, and how long each took.
pub fn repeat(server: &Running, request: &[u8], connections: usize, time: Duration) -> io::Result<(f64, Spread)> {
    let mut swarm = Swarm::new(Lags::Ignore)?;
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

    let mut swarm = Swarm::new(Lags::Ignore)?;
    swarm.connect(server.address(), burst.count)?;
    for line in 0..burst.count {
        let body = envelope(fresh(), "tasks/resubscribe", json!({ "id": task }));
        swarm.send(line, &post("/", &body));
    }
    swarm.run(|line| line.events > 0 || line.is_over())?;
    let told = Told::of(server, || {
        model.release();
        swarm.run(Line::is_over)
    })?;
    Ok(told.fan(Link::Stream, Pace::Full, &swarm, burst))
}

/// The live session over WebSocket: everybody is in it, one of them prompts, and all are shown the turn.
fn broadcast(server: &Running, burst: Burst, pace: Pace) -> io::Result<Fan> {
    let mut swarm = Swarm::new(Lags::Ignore)?;
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
    let told = Told::of(server, || {
        swarm.say(0, &words);
        swarm.run(Line::is_over)
    })?;
    Ok(told.fan(Link::Socket, pace, &swarm, burst))
}

/// The pause between two chunks that a thousand subscribers can be told of one after the other.
const SINGLE_US: u64 = 30_000;

/// What it took to tell a swarm everything.
struct Told {
    before: Usage,
    after: Usage,
    seconds: f64,
}

impl Told {
    /// What the server spends while `all` is done.
    fn of(server: &Running, all: impl FnOnce() -> io::Result<()>) -> io::Result<Told> {
        let before = usage(server.pid())?;
        let begin = Instant::now();
        all()?;
        Ok(Told { before, after: usage(server.pid())?, seconds: begin.elapsed().as_secs_f64() })
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

/// Connections that have asked for the card once and then stay silent. Opened in small groups: the kernel's queue of
/// connections not yet accepted is short, and a client turned away there waits for a second.
fn idle(server: &Running, count: usize) -> io::Result<Option<(usize, f64)>> {
    const GROUP: usize = 100;
    // A few for the poll, the pipes and the terminal.
    const OTHERS: usize = 64;
    if open_files_limit() < count + OTHERS {
        eprintln!("skipped: {count} connections need `ulimit -n` above {}", count + OTHERS);
        return Ok(None);
    }
    let request = server.client().bytes("GET", CARD, &[], b"");
    let before = settled_rss_kb(server.pid())?;
    let mut swarm = Swarm::new(Lags::Ignore)?;
    for group in 0..count.div_ceil(GROUP) {
        swarm.connect(server.address(), GROUP)?;
        for line in group * GROUP..(group + 1) * GROUP {
            swarm.send(line, &request);
        }
        swarm.run(Line::is_over)?;
    }
    let after = settled_rss_kb(server.pid())?;
    // Whoever was closed meanwhile is not an idle connection.
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
