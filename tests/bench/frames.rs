//! A client's end of WebSocket, as far as the generator needs it: the request that begins it, masked text out, whole text
//! frames in. By hand, so that what reads the server's frames is not the library that the server reads frames with.

/// Asks to become a socket. The key is the RFC's own example; the generator trusts the answer.
pub fn upgrade(target: &str) -> Vec<u8> {
    format!(
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

/// A message as a client frames it. The mask is zero, which leaves the text as it is.
pub fn masked(text: &str) -> Vec<u8> {
    const WHOLE_TEXT: u8 = 0x81;
    const MASKED: u8 = 0x80;
    let mut out = vec![WHOLE_TEXT, MASKED | 127];
    match text.len() {
        short @ 0..126 => out[1] = MASKED | short as u8,
        short @ 126..0x1_0000 => {
            out[1] = MASKED | 126;
            out.extend((short as u16).to_be_bytes());
        }
        long => out.extend((long as u64).to_be_bytes()),
    }
    out.extend([0; 4]);
    out.extend(text.as_bytes());
    out
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
        const TEXT: u8 = 0x81;
        const CLOSE: u8 = 0x88;
        const PING: u8 = 0x89;
        let mut start = 0;
        while let Some((first, payload)) = frame(&self.bytes[start..]) {
            let (head, end) = (start + payload.start, start + payload.end);
            match first {
                TEXT => {
                    let text = std::str::from_utf8(&self.bytes[head..end]);
                    each(text.map_err(|_| "a message that is not UTF-8".to_string())?);
                }
                PING => {}
                CLOSE => {
                    let reason = String::from_utf8_lossy(&self.bytes[(head + 2).min(end)..end]);
                    return Err(format!("closed by the server: {reason}"));
                }
                other => return Err(format!("a frame that begins with {other:#04x}")),
            }
            start = end;
        }
        self.bytes.drain(..start);
        Ok(())
    }
}

/// The first byte and the place of the payload, once the frame is whole.
fn frame(bytes: &[u8]) -> Option<(u8, std::ops::Range<usize>)> {
    let (&first, &short) = (bytes.first()?, bytes.get(1)?);
    let (head, len) = match short {
        126 => (
            4,
            u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into(),
        ),
        127 => (
            10,
            u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize,
        ),
        len => (2, usize::from(len)),
    };
    (bytes.len() >= head + len).then_some((first, head..head + len))
}
