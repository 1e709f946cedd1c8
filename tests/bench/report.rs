//! The table of the results for each server, their ratios, and the requirements.

use crate::measure::{Fan, Figures, Link, Load, Pace, Spread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Met,
    Missed,
}

/// The requirement for our value in a row.
#[derive(Clone, Copy)]
enum Requirement {
    Nothing,
    /// At most the reference server's value divided by this.
    Fraction(f64),
    /// At least the reference server's value times this.
    Times(f64),
    /// At most this value, whatever the reference server does.
    AtMost(f64),
}

/// The unit of a value, which decides how it is printed.
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
    requirement: Requirement,
    /// A remark that is printed after the numbers.
    note: String,
}

const IDLE_CONNECTIONS_KB: f64 = 60.0 * 1000.0;
/// The limit of the server's user time per event and socket; the kernel's time is only printed.
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

/// The figures of the two servers; either may be missing.
struct Sides<'a> {
    ours: Option<&'a Figures>,
    peer: Option<&'a Figures>,
}

impl Sides<'_> {
    fn rows(&self) -> Vec<Row> {
        use Requirement::{Fraction, Nothing};
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

    fn row(
        &self,
        what: impl Into<String>,
        unit: Unit,
        requirement: Requirement,
        of: impl Fn(&Figures) -> Option<f64>,
    ) -> Row {
        let (ours, peer) = (self.ours.and_then(&of), self.peer.and_then(&of));
        Row { what: what.into(), unit, ours, peer, requirement, note: String::new() }
    }

    /// Compared at a hundred tasks: at fewer the memory that is allocated once weighs too much, and more would take the reference server
    /// minutes.
    fn memory(&self) -> Vec<Row> {
        let marks = self.sizes(|f| f.task_kb.iter().map(|(tasks, _)| *tasks).collect());
        let row = |tasks: usize| {
            let requirement = if tasks == 100 { Requirement::Fraction(20.0) } else { Requirement::Nothing };
            self.row(format!("memory per task, {tasks} tasks"), Unit::Kb, requirement, |f| {
                f.task_kb.iter().find(|(mark, _)| *mark == tasks).map(|(_, kb)| *kb)
            })
        };
        marks.into_iter().map(row).collect()
    }

    fn load(&self) -> Vec<Row> {
        let mut rows = vec![];
        for tasks in self.sizes(|f| f.load.iter().map(|load| load.tasks).collect()) {
            let at = |f: &Figures| f.load.iter().find(|load| load.tasks == tasks).cloned();
            let requirement = if tasks == 100 { Requirement::Times(40.0) } else { Requirement::Nothing };
            let mut rate = self.row(format!("chunks per second, {tasks} at once"), Unit::PerSecond, requirement, |f| {
                at(f).map(|load| load.chunks_per_s)
            });
            for load in [self.ours, self.peer].into_iter().flatten().filter_map(at) {
                rate.note += &shortfall(load.complete, tasks, load.complaint.as_deref());
            }
            rows.push(rate);
            rows.push(self.row(
                format!("server CPU per chunk, {tasks} at once"),
                Unit::Us,
                Requirement::Nothing,
                |f| at(f).map(|load| load.cpu_us),
            ));
        }
        rows
    }

    fn fan_out(&self) -> Vec<Row> {
        let mut rows = vec![];
        for kind in self.sizes(|f| f.fan.iter().map(fan_kind).collect()) {
            let at = |f: &Figures| f.fan.iter().find(|fan| fan_kind(fan) == kind).cloned();
            let (link, n, pace) = kind;
            let (link, requirement) = match link {
                Link::Stream => ("SSE", Requirement::Nothing),
                Link::Socket => ("WebSocket", Requirement::AtMost(SOCKET_USER_US)),
            };
            let pace = match pace {
                Pace::Full => "",
                Pace::Single => ", one by one",
            };
            let what = |figure: &str| format!("{link} to {n}{pace}: {figure}");
            let mut rate = self.row(what("deliveries per second"), Unit::PerSecond, Requirement::Nothing, |f| {
                at(f).map(|fan| fan.deliveries_per_s)
            });
            for fan in [self.ours, self.peer].into_iter().flatten().filter_map(at) {
                rate.note += &shortfall(fan.complete, n, fan.complaint.as_deref());
            }
            rows.push(rate);
            rows.push(self.row(what("user per delivery"), Unit::Us, requirement, |f| at(f).map(|fan| fan.user_us)));
            rows.push(
                self.row(what("system per delivery"), Unit::Us, Requirement::Nothing, |f| {
                    at(f).map(|fan| fan.system_us)
                }),
            );
        }
        rows
    }

    fn idle(&self) -> Option<Row> {
        let (count, _) = self.ours?.idle?;
        let what = format!("memory added by {count} idle connections");
        Some(self.row(what, Unit::Kb, Requirement::AtMost(IDLE_CONNECTIONS_KB), |f| f.idle.map(|(_, kb)| kb)))
    }

    /// The sizes at which at least one server was measured, ascending.
    fn sizes<T: Ord>(&self, of: impl Fn(&Figures) -> Vec<T>) -> Vec<T> {
        let both = [self.ours, self.peer].into_iter().flatten();
        let mut all: Vec<T> = both.flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Fan-outs with the same kind are compared.
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
        let met = match (self.requirement, self.ours, self.peer) {
            // If the memory of the reference server shrank during the run, there is no ratio.
            (Requirement::Fraction(_), _, Some(peer)) if peer <= 0.0 => None,
            (Requirement::Fraction(part), Some(ours), Some(peer)) => Some(ours * part <= peer),
            (Requirement::Times(times), Some(ours), Some(peer)) => Some(ours >= peer * times),
            (Requirement::AtMost(most), Some(ours), _) => Some(ours <= most),
            _ => None,
        };
        let required = match self.requirement {
            Requirement::Nothing => String::new(),
            Requirement::Fraction(part) => format!("≤ 1/{part}"),
            Requirement::Times(times) => format!("≥ {times}×"),
            Requirement::AtMost(most) => format!("≤ {}", self.unit.show(most)),
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
