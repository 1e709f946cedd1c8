//! A buffer of bytes that are written when a non-blocking descriptor accepts them.

use rustix::io::Errno;

#[derive(Debug, Default)]
pub struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn clear(&mut self) {
        *self = WriteBuffer::default();
    }

    /// Writes as many bytes as are accepted without waiting.
    pub fn write_to(&mut self, mut write: impl FnMut(&[u8]) -> Result<usize, Errno>) -> Result<(), Errno> {
        while self.written < self.bytes.len() {
            match write(&self.bytes[self.written..]) {
                Ok(length) => self.written += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_takes_one_byte_at_a_time_gets_them_all() {
        let mut output = WriteBuffer::default();
        let (mut taken, mut is_ready) = (Vec::new(), false);
        let sent = "\x1b[?2026h› ü\r\n".repeat(100);
        output.push(sent.as_bytes());
        while !output.is_empty() {
            let write = |bytes: &[u8]| {
                is_ready = !is_ready;
                match is_ready {
                    true => {
                        taken.push(bytes[0]);
                        Ok(1)
                    }
                    false if taken.len() % 3 == 0 => Err(Errno::INTR),
                    false => Err(Errno::AGAIN),
                }
            };
            output.write_to(write).expect("no error");
        }
        assert_eq!(taken, sent.as_bytes());
        output.push(b"x");
        assert_eq!(output.write_to(|_| Err(Errno::IO)), Err(Errno::IO));
    }
}
