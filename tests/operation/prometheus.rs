//! A strict reader of Prometheus' text format 0.0.4, written from its definition. Whatever the definition does not allow fails the test.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Metrics by name: their kind and their samples.
#[derive(Debug, Default)]
pub struct Metrics {
    pub kinds: BTreeMap<String, String>,
    pub samples: Vec<Sample>,
}

impl Metrics {
    pub fn parse(text: &str) -> Metrics {
        assert!(text.ends_with('\n'), "the last line has an end");
        let mut metrics = Metrics::default();
        let mut helped = BTreeSet::new();
        let mut family = String::new();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                assert!(is_name(name) && !help.is_empty(), "{line}");
                assert!(helped.insert(name.to_owned()), "HELP comes once: {line}");
                family = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a kind");
                assert_eq!(name, family, "TYPE follows HELP");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(metrics.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "TYPE comes once: {line}");
            } else {
                assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
                let sample = sample(line);
                let kind = metrics.kinds.get(&family).unwrap_or_else(|| panic!("a sample before its TYPE: {line}"));
                let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                let is_of_family = ends.iter().any(|end| sample.name == format!("{family}{end}"));
                assert!(is_of_family, "{line} is among the samples of {family}");
                assert!(kind != "counter" || family.ends_with("_total"), "{line}");
                assert!(seen.insert((sample.name.clone(), format!("{:?}", sample.labels))), "twice: {line}");
                metrics.samples.push(sample);
            }
        }
        metrics.check_histograms();
        metrics
    }

    /// The value of the only sample with this name and these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|found| found == value))
        };
        self.samples.iter().filter(fits).map(|sample| sample.value).sum()
    }

    /// Buckets grow, the last one is `+Inf` and equal to the count.
    fn check_histograms(&self) {
        for (family, _) in self.kinds.iter().filter(|(_, kind)| *kind == "histogram") {
            let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
            for bucket in self.samples.iter().filter(|sample| sample.name == format!("{family}_bucket")) {
                let mut labels = bucket.labels.clone();
                let bound = number(&labels.remove("le").expect("every bucket has a bound"));
                buckets.entry(format!("{labels:?}")).or_default().push((bound, bucket.value));
            }
            let of = |end: &str| {
                let samples = self.samples.iter().filter(move |sample| sample.name == format!("{family}{end}"));
                samples.map(|sample| (format!("{:?}", sample.labels), sample.value)).collect::<BTreeMap<_, _>>()
            };
            let (counts, sums) = (of("_count"), of("_sum"));
            assert_eq!(counts.len(), buckets.len(), "{family}");
            for (labels, buckets) in buckets {
                assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{family}{labels}: {buckets:?}");
                let (bound, total) = *buckets.last().expect("a bucket");
                assert!(bound.is_infinite() && counts.get(&labels) == Some(&total), "{family}{labels}: {buckets:?}");
                assert!(sums.get(&labels).is_some_and(|sum| *sum >= 0.0), "{family}{labels}");
            }
        }
    }
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("a label without a value: {line}"));
            assert!(is_label(label), "{line}");
            let (value, after) = quoted(after, line);
            assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice: {line}");
            match after.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("what follows a label: {line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no blank before the value: {line}"));
    Sample { name: name.to_owned(), labels, value: number(value) }
}

/// A label's value and what follows its quotation mark.
fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, '\\')) => value.push('\\'),
                Some((_, '"')) => value.push('"'),
                Some((_, 'n')) => value.push('\n'),
                other => panic!("the escape {other:?}: {line}"),
            },
            c => value.push(c),
        }
    }
    panic!("a value without an end: {line}");
}

fn number(text: &str) -> f64 {
    if text == "+Inf" {
        return f64::INFINITY;
    }
    assert!(text.bytes().all(|b| b.is_ascii_digit() || b == b'.'), "{text} is no plain number");
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_part)
}

fn is_label(name: &str) -> bool {
    is_name(name) && !name.contains(':') && !name.starts_with("__")
}
