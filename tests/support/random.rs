//! A random number generator with a seed: the same seed gives the same numbers on every machine. Unit tests include this file, too.

#![allow(dead_code, reason = "not every test that includes this file uses all of it")]

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03)
    }

    /// SplitMix64.
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n.max(1) as u64) as usize
    }

    /// `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_u64() % (high - low + 1)
    }

    /// True with a probability of `n` percent.
    pub fn percent(&mut self, n: u64) -> bool {
        self.next_u64() % 100 < n
    }

    /// One element; none of an empty slice.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        match from {
            [] => None,
            from => Some(&from[self.below(from.len())]),
        }
    }

    /// One element of a slice that is not empty.
    pub fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// One of several values, each with its weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let mut remaining = self.next_u64() % from.iter().map(|(weight, _)| weight).sum::<u64>();
        for (weight, what) in from {
            if remaining < *weight {
                return *what;
            }
            remaining -= weight;
        }
        unreachable!("the weights add up")
    }

    /// Cuts the bytes into pieces of 1 to `longest` bytes.
    pub fn cut<'a>(&mut self, mut bytes: &'a [u8], longest: usize) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(1 + self.below(longest.min(bytes.len())));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}
