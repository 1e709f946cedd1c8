//! The framing of the stdio transport: one message per line of a program's standard output. Programs also print other text, so a line may
//! contain any bytes; only its length is limited.

use crate::limits::mcp::MESSAGE_BYTES;
use memchr::memchr;

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The current line as far as it has arrived.
    line: Vec<u8>,
}

/// A line has more than [`MESSAGE_BYTES`]. The connection ends, because the rest of the line could be mistaken for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Lines {
    /// Appends the complete lines, without their ends (LF or CR LF). Skips blank lines.
    pub fn feed(&mut self, mut bytes: &[u8], lines: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        while let Some(end) = memchr(b'\n', bytes) {
            self.extend(&bytes[..end])?;
            let mut line = std::mem::take(&mut self.line);
            line.truncate(line.trim_ascii_end().len());
            if !line.is_empty() {
                lines.push(line);
            }
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > MESSAGE_BYTES {
            self.line = Vec::new();
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_are_split() {
        for piece in 1..20 {
            let (mut reader, mut lines) = (Lines::default(), Vec::new());
            for piece in b"{}\r\n\n \r\nbanner \xff\n{\"a\":1}\nrest".chunks(piece) {
                reader.feed(piece, &mut lines).expect("they are short");
            }
            assert_eq!(lines, [&b"{}"[..], b"banner \xff", b"{\"a\":1}"], "{piece}");
        }
    }

    #[test]
    fn check_2_a_line_is_as_long_as_a_message_may_be() {
        let long = vec![b'x'; MESSAGE_BYTES];
        let (mut reader, mut lines) = (Lines::default(), Vec::new());
        assert_eq!(reader.feed(&long, &mut lines), Ok(()));
        assert_eq!(reader.feed(b"\n", &mut lines), Ok(()));
        assert_eq!(lines[0].len(), MESSAGE_BYTES);
        assert_eq!(reader.feed(&long, &mut lines), Ok(()));
        assert_eq!(reader.feed(b"x", &mut lines), Err(TooLong), "before the line ends");
    }
}
