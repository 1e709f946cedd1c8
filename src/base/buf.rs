//! A byte queue: bytes are appended at the end and consumed from the front. An empty queue owns no memory, so an idle connection
//! costs only the struct.

#[derive(Default, Debug)]
pub struct Buf {
    bytes: Vec<u8>,
    start: usize,
}

impl Buf {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the first `n` bytes. The memory is freed with the last byte. The rest moves to the front only when the consumed part
    /// is larger, so the total cost is linear.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "consuming {n} of {} bytes", self.len());
        self.start += n;
        if self.start == self.bytes.len() {
            *self = Buf::default();
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consuming_everything_frees_the_memory() {
        let mut buf = Buf::default();
        buf.push(b"hello world");
        buf.consume(6);
        assert_eq!(buf.as_slice(), b"world");
        buf.push(b"!");
        assert_eq!(buf.as_slice(), b"world!");
        buf.consume(6);
        assert!(buf.is_empty());
        assert_eq!(buf.bytes.capacity(), 0);
    }
}
