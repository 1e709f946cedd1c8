//! The parts of a WebSocket client that the load generator needs beside [`frame`](crate::frame): the upgrade request, and a parser of
//! text messages.

use crate::frame;

/// The upgrade request. The key is the example of RFC 6455; the generator does not check the response.
pub fn upgrade(target: &str) -> Vec<u8> {
    format!(
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

/// A parser that takes bytes in pieces of any size.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// The buffer to which received bytes are appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Passes every complete text message to `each`. Pings are not answered: a measurement ends before the server would close for that.
    pub fn drain(&mut self, mut each: impl FnMut(&str)) -> Result<(), String> {
        const TEXT: u8 = 1;
        const CLOSE: u8 = 8;
        const PING: u8 = 9;
        let mut start = 0;
        while let Some((opcode, payload)) = frame::front(&self.bytes[start..]) {
            let (head, end) = (start + payload.start, start + payload.end);
            match opcode {
                TEXT => {
                    let text = std::str::from_utf8(&self.bytes[head..end]);
                    each(text.map_err(|_| "a message that is not UTF-8".to_string())?);
                }
                PING => {}
                CLOSE => {
                    let reason = String::from_utf8_lossy(&self.bytes[(head + 2).min(end)..end]);
                    return Err(format!("closed by the server: {reason}"));
                }
                other => return Err(format!("a frame of the kind {other}")),
            }
            start = end;
        }
        self.bytes.drain(..start);
        Ok(())
    }
}
