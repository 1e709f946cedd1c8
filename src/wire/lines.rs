//! Messages as lines, one JSON object each: for peers that need no frames, in the same process or on standard input and output. Blank
//! lines are skipped. The counterpart of [`ws::Codec`](crate::wire::ws::Codec).

use crate::base::buf::Buf;
use crate::limits::Limits;
use crate::wire::ws::Step;
use memchr::memchr;

#[derive(Debug)]
pub struct Codec {
    message_bytes: usize,
    is_open: bool,
}

impl Codec {
    pub fn new(limits: &Limits) -> Codec {
        Codec { message_bytes: limits.ws_message_bytes, is_open: true }
    }

    /// Takes the next line from `rx`. A line that is too long, or not UTF-8, closes the connection.
    pub fn read(&mut self, rx: &mut Buf) -> Step {
        while self.is_open {
            let Some(end) = memchr(b'\n', rx.as_slice()) else {
                self.is_open = rx.len() <= self.message_bytes;
                if self.is_open {
                    return Step::More;
                }
                break;
            };
            let line = String::from_utf8(rx.as_slice()[..end].to_vec());
            rx.consume(end + 1);
            match line {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) if line.len() <= self.message_bytes => return Step::Text(line),
                Ok(_) | Err(_) => self.is_open = false,
            }
        }
        rx.consume(rx.len());
        Step::Closed
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Closes the connection: nothing more is sent or read.
    pub fn close(&mut self) {
        self.is_open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(bytes: &[u8], piece: usize, limits: &Limits) -> Vec<Step> {
        let (mut codec, mut rx, mut steps) = (Codec::new(limits), Buf::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            rx.push(piece);
            loop {
                match codec.read(&mut rx) {
                    Step::More => break,
                    Step::Closed => {
                        steps.push(Step::Closed);
                        return steps;
                    }
                    step => steps.push(step),
                }
            }
        }
        steps
    }

    #[test]
    fn lines_are_messages_however_the_input_is_split() {
        let limits = Limits { ws_message_bytes: 8, ..Limits::default() };
        let text = |text: &str| Step::Text(text.to_owned());
        for piece in 1..20 {
            assert_eq!(steps(b"{\"a\":1}\n\n \r\n{}\n", piece, &limits), [text("{\"a\":1}"), text("{}")]);
            assert_eq!(steps(b"12345678\n123456789\n{}\n", piece, &limits), [text("12345678"), Step::Closed]);
            assert_eq!(steps(b"{}\n\xff\n{}\n", piece, &limits), [text("{}"), Step::Closed]);
        }
        assert_eq!(steps(b"123456789", 1, &limits), [Step::Closed], "too long before it ends");
    }
}
