//! Chance for tests of bytes: the same numbers for the same seed, on every machine.

pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    /// Cuts the bytes into pieces of up to `longest`.
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
