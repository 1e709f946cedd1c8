//! Histograms with fixed bounds: observing one is a search in fourteen numbers and three additions.

/// How many bounds every histogram has.
pub const BOUNDS: usize = 14;

/// The upper bounds of a histogram, in units of which `per` make one of the unit that is shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Bounds {
    pub of: [u64; BOUNDS],
    pub per: u64,
}

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

impl Bounds {
    /// Requests: 5 ms to 10 s, in microseconds.
    pub const REQUEST: Bounds = Bounds {
        of: [
            5 * MS,
            10 * MS,
            25 * MS,
            50 * MS,
            75 * MS,
            100 * MS,
            250 * MS,
            500 * MS,
            750 * MS,
            SECOND,
            2_500 * MS,
            5 * SECOND,
            7_500 * MS,
            10 * SECOND,
        ],
        per: SECOND,
    };
    /// Model requests and tools: 10 ms, doubled up to 81.92 s.
    pub const OPERATION: Bounds = Bounds { of: powers(10 * MS, 2), per: SECOND };
    /// Tokens: powers of four up to 67,108,864.
    pub const TOKENS: Bounds = Bounds { of: powers(1, 4), per: 1 };
    /// People: one second to one day.
    pub const PEOPLE: Bounds = Bounds {
        of: [
            SECOND,
            2 * SECOND,
            5 * SECOND,
            10 * SECOND,
            30 * SECOND,
            60 * SECOND,
            120 * SECOND,
            300 * SECOND,
            600 * SECOND,
            1_800 * SECOND,
            3_600 * SECOND,
            14_400 * SECOND,
            43_200 * SECOND,
            86_400 * SECOND,
        ],
        per: SECOND,
    };
    /// The loop and the disk: 50 µs to 5 s.
    pub const SHORT: Bounds = Bounds {
        of: [50, 100, 250, 500, MS, 2_500, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, SECOND, 5 * SECOND],
        per: SECOND,
    };
}

const fn powers(first: u64, factor: u64) -> [u64; BOUNDS] {
    let mut bounds = [first; BOUNDS];
    let mut at = 1;
    while at < BOUNDS {
        bounds[at] = bounds[at - 1] * factor;
        at += 1;
    }
    bounds
}

#[derive(Clone, Debug)]
pub struct Histogram {
    pub bounds: &'static Bounds,
    /// How many values are in each bucket; the last bucket has no bound. The counts are not cumulative.
    pub counts: [u64; BOUNDS + 1],
    pub sum: u64,
}

impl Histogram {
    pub const fn new(bounds: &'static Bounds) -> Histogram {
        Histogram { bounds, counts: [0; BOUNDS + 1], sum: 0 }
    }

    pub fn observe(&mut self, value: u64) {
        // A value that is equal to a bound is within it.
        let bucket = self.bounds.of.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    pub fn observe_ms(&mut self, ms: u64) {
        self.observe(ms.saturating_mul(MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_it_fits() {
        let mut histogram = Histogram::new(&Bounds::REQUEST);
        for ms in [0, 5, 6, 10_000, 10_001, u64::MAX] {
            histogram.observe_ms(ms);
        }
        assert_eq!((histogram.counts[0], histogram.counts[1]), (2, 1));
        assert_eq!((histogram.counts[BOUNDS - 1], histogram.counts[BOUNDS]), (1, 2));
        assert_eq!(histogram.sum, u64::MAX);
    }

    #[test]
    fn bounds_grow_and_end_where_they_are_documented() {
        for (bounds, last) in [
            (&Bounds::REQUEST, 10 * SECOND),
            (&Bounds::OPERATION, 81_920 * MS),
            (&Bounds::TOKENS, 67_108_864),
            (&Bounds::PEOPLE, 86_400 * SECOND),
            (&Bounds::SHORT, 5 * SECOND),
        ] {
            assert!(bounds.of.is_sorted_by(|a, b| a < b));
            assert_eq!(bounds.of[BOUNDS - 1], last);
        }
    }
}
