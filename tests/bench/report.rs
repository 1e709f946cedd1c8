//! One table: what was measured, for each server, and how the two compare with what we hold ourselves to.

use crate::measure::{Fan, Figures, Link, Load, Pace, Spread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Met,
    Missed,
}

/// What a row demands of us.
#[derive(Clone, Copy)]
enum Demand {
    Nothing,
    /// At most one so-manieth of the reference server's value.
    Fraction(f64),
    /// At least so many times the reference server's value.
    Times(f64),
    /// At most this value, whatever the reference server does.
    AtMost(f64),
}

/// A value in the unit it is measured in, and how to show it.
#[derive(Clone, Copy)]
enum Unit {
    Ms,
    Us,
    Kb,
    PerSecond,
}

struct Row {
    what: String,
    unit: Unit,
    ours: Option<f64>,
    peer: Option<f64>,
    demand: Demand,
    /// Something a number alone would hide.
    note: String,
}

const IDLE_CONNECTIONS_KB: f64 = 60.0 * 1000.0;
/// What one socket of many may cost per event, in the server's own code; what the kernel takes to send it is printed.
const SOCKET_USER_US: f64 = 3.0;

pub fn print(ceiling: &(Load, Spread), ours: Option<&Figures>, peer: Option<&Figures>) -> Verdict {
    println!();
    println!("{:<52}{:>12}{:>12}{:>10}{:>10}", "", "ours", "reference", "ratio", "required");
    let mut verdict = Verdict::Met;
    for row in (Sides { ours, peer }).rows() {
        let (text, met) = row.line();
        println!("{text}");
        if met == Verdict::Missed {
            verdict = Verdict::Missed;
        }
    }
    println!();
    println!(
        "The load generator without a server: {:.0} chunks/s in {} streams, {:.0} µs p50 and {:.0} µs p99 per chunk.",
        ceiling.0.chunks_per_s, ceiling.0.complete, ceiling.1.p50, ceiling.1.p99
    );
    verdict
}

/// The two servers side by side; either may be missing.
struct Sides<'a> {
    ours: Option<&'a Figures>,
    peer: Option<&'a Figures>,
}

impl Sides<'_> {
    fn rows(&self) -> Vec<Row> {
        use Demand::{Fraction, Nothing};
        let mut rows = vec![
            self.row("start to first card", Unit::Ms, Fraction(200.0), |f| Some(f.start_ms)),
            self.row("memory when idle", Unit::Kb, Fraction(80.0), |f| Some(f.idle_kb)),
        ];
        rows.extend(self.memory());
        rows.extend([
            self.row("latency per chunk, p50", Unit::Us, Fraction(10.0), |f| Some(f.lag_us.p50)),
            self.row("latency per chunk, p99", Unit::Us, Nothing, |f| Some(f.lag_us.p99)),
            self.row("server CPU per chunk, one stream", Unit::Us, Fraction(50.0), |f| Some(f.chunk_cpu_us)),
        ]);
        rows.extend(self.load());
        rows.extend([
            self.row("card requests per second, 50 connections", Unit::PerSecond, Nothing, |f| Some(f.card_per_s)),
            self.row("card request, p99", Unit::Us, Nothing, |f| Some(f.card_us.p99)),
        ]);
        rows.extend(self.fan_out());
        rows.extend(self.idle());
        rows
    }

    fn row(&self, what: impl Into<String>, unit: Unit, demand: Demand, of: impl Fn(&Figures) -> Option<f64>) -> Row {
        let (ours, peer) = (self.ours.and_then(&of), self.peer.and_then(&of));
        Row { what: what.into(), unit, ours, peer, demand, note: String::new() }
    }

    /// Compared at a hundred tasks: at fewer the first ones still warm something up, and more would take the reference server
    /// minutes.
    fn memory(&self) -> Vec<Row> {
        let marks = self.sizes(|f| f.task_kb.iter().map(|(tasks, _)| *tasks).collect());
        let row = |tasks: usize| {
            let demand = if tasks == 100 { Demand::Fraction(20.0) } else { Demand::Nothing };
            self.row(format!("memory per task, {tasks} tasks"), Unit::Kb, demand, |f| {
                f.task_kb.iter().find(|(mark, _)| *mark == tasks).map(|(_, kb)| *kb)
            })
        };
        marks.into_iter().map(row).collect()
    }

    fn load(&self) -> Vec<Row> {
        let mut rows = vec![];
        for tasks in self.sizes(|f| f.load.iter().map(|load| load.tasks).collect()) {
            let at = |f: &Figures| f.load.iter().find(|load| load.tasks == tasks).cloned();
            let demand = if tasks == 100 { Demand::Times(40.0) } else { Demand::Nothing };
            let mut rate = self.row(format!("chunks per second, {tasks} at once"), Unit::PerSecond, demand, |f| {
                at(f).map(|load| load.chunks_per_s)
            });
            for load in [self.ours, self.peer].into_iter().flatten().filter_map(at) {
                rate.note += &shortfall(load.complete, tasks, load.complaint.as_deref());
            }
            rows.push(rate);
            rows.push(self.row(format!("server CPU per chunk, {tasks} at once"), Unit::Us, Demand::Nothing, |f| {
                at(f).map(|load| load.cpu_us)
            }));
        }
        rows
    }

    fn fan_out(&self) -> Vec<Row> {
        let mut rows = vec![];
        for kind in self.sizes(|f| f.fan.iter().map(fan_kind).collect()) {
            let at = |f: &Figures| f.fan.iter().find(|fan| fan_kind(fan) == kind).cloned();
            let (link, n, pace) = kind;
            let (link, demand) = match link {
                Link::Stream => ("SSE", Demand::Nothing),
                Link::Socket => ("WebSocket", Demand::AtMost(SOCKET_USER_US)),
            };
            let pace = match pace {
                Pace::Full => "",
                Pace::Single => ", one by one",
            };
            let what = |figure: &str| format!("{link} to {n}{pace}: {figure}");
            let mut rate = self.row(what("deliveries per second"), Unit::PerSecond, Demand::Nothing, |f| {
                at(f).map(|fan| fan.deliveries_per_s)
            });
            for fan in [self.ours, self.peer].into_iter().flatten().filter_map(at) {
                rate.note += &shortfall(fan.complete, n, fan.complaint.as_deref());
            }
            rows.push(rate);
            rows.push(self.row(what("user per delivery"), Unit::Us, demand, |f| at(f).map(|fan| fan.user_us)));
            rows.push(
                self.row(what("system per delivery"), Unit::Us, Demand::Nothing, |f| at(f).map(|fan| fan.system_us)),
            );
        }
        rows
    }

    fn idle(&self) -> Option<Row> {
        let (count, _) = self.ours?.idle?;
        let what = format!("memory added by {count} idle connections");
        Some(self.row(what, Unit::Kb, Demand::AtMost(IDLE_CONNECTIONS_KB), |f| f.idle.map(|(_, kb)| kb)))
    }

    /// The sizes either server was measured at, ascending.
    fn sizes<T: Ord>(&self, of: impl Fn(&Figures) -> Vec<T>) -> Vec<T> {
        let both = [self.ours, self.peer].into_iter().flatten();
        let mut all: Vec<T> = both.flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What makes two fan-outs comparable.
fn fan_kind(fan: &Fan) -> (Link, usize, Pace) {
    (fan.link, fan.subscribers, fan.pace)
}

fn shortfall(complete: usize, of: usize, complaint: Option<&str>) -> String {
    complaint.map_or(String::new(), |why| format!("  {complete} of {of} complete ({why})"))
}

impl Row {
    fn line(&self) -> (String, Verdict) {
        let show = |value: Option<f64>| value.map_or("–".into(), |value| self.unit.show(value));
        let both = self.ours.zip(self.peer);
        let ratio = both.map_or(String::new(), |(ours, peer)| ratio(ours, peer));
        let met = match (self.demand, self.ours, self.peer) {
            // A reference server that gave memory back while it worked is nothing to compare with.
            (Demand::Fraction(_), _, Some(peer)) if peer <= 0.0 => None,
            (Demand::Fraction(part), Some(ours), Some(peer)) => Some(ours * part <= peer),
            (Demand::Times(times), Some(ours), Some(peer)) => Some(ours >= peer * times),
            (Demand::AtMost(most), Some(ours), _) => Some(ours <= most),
            _ => None,
        };
        let required = match self.demand {
            Demand::Nothing => String::new(),
            Demand::Fraction(part) => format!("≤ 1/{part}"),
            Demand::Times(times) => format!("≥ {times}×"),
            Demand::AtMost(most) => format!("≤ {}", self.unit.show(most)),
        };
        let (word, verdict) = match met {
            Some(true) => ("  met", Verdict::Met),
            Some(false) => ("  MISSED", Verdict::Missed),
            None => ("", Verdict::Met),
        };
        let (what, ours, peer) = (&self.what, show(self.ours), show(self.peer));
        let text = format!("{what:<52}{ours:>12}{peer:>12}{ratio:>10}{required:>10}{word}{}", self.note);
        (text.trim_end().to_string(), verdict)
    }
}

fn ratio(ours: f64, peer: f64) -> String {
    if ours <= 0.0 || peer <= 0.0 {
        "–".into()
    } else if ours <= peer {
        format!("1/{:.0}", peer / ours)
    } else {
        format!("{:.1}×", ours / peer)
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Unit::Ms => format!("{value:.1} ms"),
            Unit::Us if value.abs() < 100.0 => format!("{value:.1} µs"),
            Unit::Us => format!("{value:.0} µs"),
            Unit::Kb if value.abs() < 1000.0 => format!("{value:.1} kB"),
            Unit::Kb => format!("{:.1} MB", value / 1000.0),
            Unit::PerSecond => format!("{value:.0}"),
        }
    }
}
