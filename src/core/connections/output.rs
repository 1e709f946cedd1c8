//! Output of one connection. Small pieces are copied into one buffer, large shared bodies are queued by reference, so fan-out costs a
//! reference per reader and a slow reader holds no copies.

use crate::base::Shared;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Below this a copy is cheaper than another slice in the write call.
const COPY_BELOW: usize = 4096;

/// Nothing is appended to a buffer of this length. A buffer is freed when its last byte was sent, so for a reader that is always a
/// little behind it would grow for ever.
const FULL: usize = 16 * 1024;

#[derive(Default)]
pub struct OutputBuffer {
    queue: VecDeque<Piece>,
    /// Bytes of the first piece that were sent already.
    sent: usize,
    len: usize,
    /// All bytes that were ever queued.
    queued: u64,
}

enum Piece {
    Own(Vec<u8>),
    Shared(Shared),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

impl OutputBuffer {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn queued(&self) -> u64 {
        self.queued
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes into the last buffer; the closure appends to what is there.
    pub fn write(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        if !matches!(self.queue.back(), Some(Piece::Own(last)) if last.len() < FULL) {
            self.queue.push_back(Piece::Own(Vec::new()));
        }
        let Some(Piece::Own(last)) = self.queue.back_mut() else { unreachable!("made above") };
        let before = last.len();
        append(last);
        self.len += last.len() - before;
        self.queued += (last.len() - before) as u64;
        if last.is_empty() {
            self.queue.pop_back();
        }
    }

    pub fn push(&mut self, body: &Shared) {
        if body.len() < COPY_BELOW {
            self.write(|out| out.extend_from_slice(body));
        } else {
            self.len += body.len();
            self.queued += body.len() as u64;
            self.queue.push_back(Piece::Shared(body.clone()));
        }
    }

    /// The front of the queue, for one vectored write.
    pub fn slices(&self) -> Vec<IoSlice<'_>> {
        const MOST: usize = 64;
        let mut slices: Vec<IoSlice<'_>> =
            self.queue.iter().take(MOST).map(|piece| IoSlice::new(piece.bytes())).collect();
        if let Some(first) = slices.first_mut() {
            first.advance(self.sent);
        }
        slices
    }

    /// Drops the first `n` bytes, which were sent.
    pub fn advance(&mut self, mut n: usize) {
        self.len -= n;
        while let Some(piece) = self.queue.front() {
            let left = piece.bytes().len() - self.sent;
            if n < left {
                self.sent += n;
                return;
            }
            n -= left;
            self.sent = 0;
            self.queue.pop_front();
        }
        self.queue = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_a_reader_that_is_always_behind_stays_small() {
        let mut output = OutputBuffer::default();
        output.write(|out| out.extend_from_slice(&[0; 100]));
        for _ in 0..10_000 {
            output.write(|out| out.extend_from_slice(&[1; 100]));
            output.advance(100);
        }
        let kept: usize = output.queue.iter().map(|piece| piece.bytes().len()).sum();
        assert_eq!(output.len(), 100);
        assert!(kept <= FULL + 200, "{kept} bytes kept for 100 that wait");
    }

    #[test]
    fn bytes_are_written_in_order_however_few_the_socket_accepts() {
        for step in 1..200 {
            let mut output = OutputBuffer::default();
            let mut expected = Vec::new();
            for n in 0..20usize {
                let small = vec![n as u8; n * 7];
                let large: Shared = vec![100 + n as u8; COPY_BELOW + n].into();
                output.write(|out| out.extend_from_slice(&small));
                output.push(&large);
                expected.extend_from_slice(&small);
                expected.extend_from_slice(&large);
            }
            let mut got = Vec::new();
            while !output.is_empty() {
                let flat: Vec<u8> = output.slices().iter().flat_map(|s| s.to_vec()).collect();
                let n = (step * 997).min(flat.len());
                got.extend_from_slice(&flat[..n]);
                output.advance(n);
            }
            assert!(got == expected, "step {step}");
        }
    }
}
