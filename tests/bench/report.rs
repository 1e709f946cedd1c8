//! One table: what was measured, for each server, and how the two compare with what we hold ourselves to.

use crate::measure::{Figures, Load, Spread};

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

pub fn print(rig: &(Load, Spread), ours: Option<&Figures>, peer: Option<&Figures>) -> Verdict {
    println!();
    println!(
        "{:<46}{:>12}{:>12}{:>10}{:>10}",
        "", "ours", "reference", "ratio", "required"
    );
    let mut verdict = Verdict::Met;
    for row in rows(ours, peer) {
        let (text, met) = row.line();
        println!("{text}");
        if met == Verdict::Missed {
            verdict = Verdict::Missed;
        }
    }
    println!();
    println!(
        "The rig without a server: {:.0} chunks/s in {} streams, {:.0} µs p50 and {:.0} µs p99 per chunk.",
        rig.0.chunks_per_s, rig.0.complete, rig.1.p50, rig.1.p99
    );
    verdict
}

fn rows(ours: Option<&Figures>, peer: Option<&Figures>) -> Vec<Row> {
    use Demand::{AtMost, Fraction, Nothing, Times};
    let row = |what: &str, unit: Unit, demand: Demand, of: &dyn Fn(&Figures) -> Option<f64>| Row {
        what: what.into(),
        unit,
        ours: ours.and_then(of),
        peer: peer.and_then(of),
        demand,
        note: String::new(),
    };
    let mut rows = vec![
        row("start to first card", Unit::Ms, Fraction(200.0), &|f| {
            Some(f.start_ms)
        }),
        row("memory when idle", Unit::Kb, Fraction(80.0), &|f| {
            Some(f.idle_kb)
        }),
    ];
    for tasks in keys(ours, peer, |f| {
        f.task_kb.iter().map(|(tasks, _)| *tasks as usize).collect()
    }) {
        let of = |f: &Figures| {
            let found = f.task_kb.iter().find(|(mark, _)| *mark as usize == tasks);
            found.map(|(_, kb)| *kb)
        };
        rows.push(row(
            &format!("memory per task, {tasks} tasks"),
            Unit::Kb,
            Nothing,
            &of,
        ));
    }
    let last_mark = |f: &Figures| f.task_kb.last().map(|(_, kb)| *kb);
    rows.extend([
        row(
            "memory per task, at the most tasks",
            Unit::Kb,
            Fraction(20.0),
            &last_mark,
        ),
        row("latency per chunk, p50", Unit::Us, Fraction(10.0), &|f| {
            Some(f.lag_us.p50)
        }),
        row("latency per chunk, p99", Unit::Us, Nothing, &|f| {
            Some(f.lag_us.p99)
        }),
        row(
            "server CPU per chunk, one stream",
            Unit::Us,
            Fraction(50.0),
            &|f| Some(f.chunk_cpu_us),
        ),
    ]);
    for tasks in keys(ours, peer, |f| {
        f.load.iter().map(|load| load.tasks).collect()
    }) {
        let at = |f: &Figures| f.load.iter().find(|load| load.tasks == tasks).cloned();
        let demand = if tasks == 100 { Times(40.0) } else { Nothing };
        let rate = |f: &Figures| at(f).map(|load| load.chunks_per_s);
        let mut rate = row(
            &format!("chunks per second, {tasks} tasks"),
            Unit::PerSecond,
            demand,
            &rate,
        );
        for load in [ours, peer].into_iter().flatten().filter_map(at) {
            if let Some(complaint) = load.complaint {
                rate.note += &format!("  {} of {tasks} complete ({complaint})", load.complete);
            }
        }
        let cpu = |f: &Figures| at(f).map(|load| load.cpu_us);
        rows.push(rate);
        rows.push(row(
            &format!("server CPU per chunk, {tasks} tasks"),
            Unit::Us,
            Nothing,
            &cpu,
        ));
    }
    rows.extend([
        row(
            "card requests per second, 50 connections",
            Unit::PerSecond,
            Nothing,
            &|f| Some(f.card_per_s),
        ),
        row("card request, p99", Unit::Us, Nothing, &|f| {
            Some(f.card_us.p99)
        }),
    ]);
    for fan in ours.map(|f| f.fan.as_slice()).unwrap_or_default() {
        let n = fan.subscribers;
        let one = |what: &str, unit: Unit, value: f64| Row {
            what: format!("fan-out to {n}, {what}"),
            unit,
            ours: Some(value),
            peer: None,
            demand: Nothing,
            note: match &fan.complaint {
                Some(complaint) => format!("  {} of {n} complete ({complaint})", fan.complete),
                None => String::new(),
            },
        };
        rows.push(one(
            "deliveries per second",
            Unit::PerSecond,
            fan.deliveries_per_s,
        ));
        rows.push(one("server CPU per delivery", Unit::Us, fan.cpu_us));
    }
    if let Some((count, kb)) = ours.and_then(|f| f.idle) {
        let demand = AtMost(IDLE_CONNECTIONS_KB);
        let what = format!("memory added by {count} idle connections");
        rows.push(row(&what, Unit::Kb, demand, &|_| Some(kb)));
        if let Some(last) = rows.last_mut() {
            last.peer = None;
        }
    }
    rows
}

/// The sizes either server was measured at, ascending.
fn keys(
    ours: Option<&Figures>,
    peer: Option<&Figures>,
    of: impl Fn(&Figures) -> Vec<usize>,
) -> Vec<usize> {
    let mut all: Vec<usize> = [ours, peer].into_iter().flatten().flat_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Row {
    fn line(&self) -> (String, Verdict) {
        let show = |value: Option<f64>| value.map_or("–".into(), |value| self.unit.show(value));
        let both = self.ours.zip(self.peer);
        let ratio = both.map_or(String::new(), |(ours, peer)| ratio(ours, peer));
        let met = match (self.demand, self.ours, self.peer) {
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
        let text = format!(
            "{what:<46}{ours:>12}{peer:>12}{ratio:>10}{required:>10}{word}{}",
            self.note
        );
        (text.trim_end().to_string(), verdict)
    }
}

fn ratio(ours: f64, peer: f64) -> String {
    if ours <= 0.0 {
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
            Unit::Us if value < 100.0 => format!("{value:.1} µs"),
            Unit::Us => format!("{value:.0} µs"),
            Unit::Kb if value < 1000.0 => format!("{value:.1} kB"),
            Unit::Kb => format!("{:.1} MB", value / 1000.0),
            Unit::PerSecond => format!("{value:.0}"),
        }
    }
}
