//! The text format of Prometheus, version 0.0.4.

use crate::core::operation::metrics::histogram::Histogram;
use std::fmt::{Display, Write};

/// The media type of the format.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The labels of a sample.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// Metrics that are being written.
#[derive(Default)]
pub struct Text(String);

impl Text {
    /// Begins the samples of a metric. Each metric is written whole before the next one.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("memory takes it");
    }

    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        self.labels(labels, None);
        writeln!(self.0, " {value}").expect("memory takes it");
    }

    /// A metric with one sample and no labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The samples of a histogram.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let mut total = 0;
        for (bound, count) in histogram.bounds.of.iter().zip(histogram.counts) {
            total += count;
            let bound = decimal(*bound, histogram.bounds.per);
            write!(self.0, "{name}_bucket").expect("memory takes it");
            self.labels(labels, Some(&bound));
            writeln!(self.0, " {total}").expect("memory takes it");
        }
        total += histogram.counts[histogram.counts.len() - 1];
        write!(self.0, "{name}_bucket").expect("memory takes it");
        self.labels(labels, Some("+Inf"));
        writeln!(self.0, " {total}").expect("memory takes it");
        self.sample(&format!("{name}_sum"), labels, decimal(histogram.sum, histogram.bounds.per));
        self.sample(&format!("{name}_count"), labels, total);
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    fn labels(&mut self, labels: Labels<'_>, bound: Option<&str>) {
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut before = '{';
        for (name, value) in all {
            self.0.push(before);
            write!(self.0, "{name}=\"").expect("memory takes it");
            for c in value.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
    }
}

/// A number of units of which `per` make one; `per` is a power of ten.
pub fn decimal(value: u64, per: u64) -> String {
    let (whole, rest) = (value / per, value % per);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = per.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::operation::metrics::histogram::Bounds;

    #[test]
    fn numbers_are_exact_decimals() {
        for (value, per, text) in [
            (5_000, 1_000_000, "0.005"),
            (2_500_000, 1_000_000, "2.5"),
            (10_000_000, 1_000_000, "10"),
            (50, 1_000_000, "0.00005"),
            (7, 1, "7"),
            (1_005, 1_000, "1.005"),
        ] {
            assert_eq!(decimal(value, per), text);
        }
    }

    #[test]
    fn a_histogram_adds_up_and_label_values_are_escaped() {
        let mut histogram = Histogram::new(&Bounds::TOKENS);
        for value in [1, 2, 1 << 30] {
            histogram.observe(value);
        }
        let mut text = Text::default();
        text.family("m", "histogram", "Help.");
        text.histogram("m", &[("a", "x\"\\\n")], &histogram);
        let text = String::from_utf8(text.into_bytes()).expect("text");
        assert!(
            text.starts_with("# HELP m Help.\n# TYPE m histogram\nm_bucket{a=\"x\\\"\\\\\\n\",le=\"1\"} 1\n"),
            "{text}"
        );
        assert!(text.contains(",le=\"4\"} 2\n") && text.contains(",le=\"67108864\"} 2\n"), "{text}");
        assert!(text.contains(",le=\"+Inf\"} 3\n") && text.ends_with("_count{a=\"x\\\"\\\\\\n\"} 3\n"), "{text}");
    }
}
