//! A client's end of WebSocket, as far as the generator needs it beside [`frame`](crate::frame): the request that begins it, and
//! whole text messages in.

use crate::frame;

/// Asks to become a socket. The key is the RFC's own example; the generator trusts the answer.
pub fn upgrade(target: &str) -> Vec<u8> {
    format!(
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

/// Messages out of bytes, in whatever pieces they come.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Where bytes off the wire are appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Hands over every whole text message. Pings are left unanswered: a measurement is over before they count.
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
