//! A random number generator with a seed.

pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03)
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True with a probability of `n` percent.
    pub fn percent(&mut self, n: u64) -> bool {
        self.next() % 100 < n
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        match from {
            [] => None,
            from => Some(&from[self.below(from.len())]),
        }
    }

    /// One of several values, each with its weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let mut left = self.next() % from.iter().map(|(weight, _)| weight).sum::<u64>();
        for (weight, what) in from {
            if left < *weight {
                return *what;
            }
            left -= weight;
        }
        unreachable!("the weights add up")
    }
}
