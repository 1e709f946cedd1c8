//! The frames of a WebSocket client, implemented here, because the server uses a library for them.

use std::ops::Range;

/// The opcode and the range of the payload of the first frame, if it is complete. The next frame begins after the payload.
pub fn front(bytes: &[u8]) -> Option<(u8, Range<usize>)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    assert_eq!(first & 0xf0, 0x80, "a server sends whole messages");
    assert_eq!(second & 0x80, 0, "a server does not mask");
    let (head, len) = match second {
        126 => (4, u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into()),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize),
        len => (2, usize::from(len)),
    };
    (bytes.len() >= head + len).then_some((first & 0x0f, head..head + len))
}

/// A frame of a client: a whole, masked message. Opcode 1 is text, 2 is binary.
pub fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [1, 2, 3, 4];
    let mut out = vec![0x80 | opcode];
    match payload.len() {
        n @ 0..126 => out.push(0x80 | n as u8),
        n @ 126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend((n as u16).to_be_bytes());
        }
        n => {
            out.push(0x80 | 127);
            out.extend((n as u64).to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    out
}
