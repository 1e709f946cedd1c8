//! The server's side of WebSocket (RFC 6455): the handshake, reading messages, and the control frames to send back; and the handshake
//! of a client. Knows no sockets, no time and nothing of the content of messages.
//!
//! `tungstenite` reads the frames: unmasking, UTF-8 across fragments, the rules of control frames and of closing. But it allocates the
//! length that a frame announces and keeps the largest buffer it needed. Therefore a frame stays in the queue until it is complete,
//! its head is checked first, and the `tungstenite` reader exists only from the first fragment of a message to its last. Memory
//! grows with the bytes that a client has sent, not with those it announces, and an idle connection costs only the [`Codec`].
//!
//! One call of [`Codec::read`] answers at most one control frame, so a flood of pings is throttled like all input: the caller stops
//! reading while too much output is queued. Steps and answers depend only on the bytes and not on how the network split them.
//!
//! Outgoing messages are not written here, because their payload is shared by all subscribers; [`text_head`] writes the frame's head.

#[cfg(feature = "tui")]
mod client;
mod upgrade;

#[cfg(feature = "tui")]
pub use client::{Denied, HandshakeRequest};
pub use upgrade::{Refused, Upgrade, upgrade, write_upgrade};

use crate::base::buf::Buf;
use crate::limits::Limits;
use std::borrow::Cow;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::mem;
use tungstenite::Error;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::{Message, Role, WebSocketConfig, WebSocketContext};

/// Reads the messages of one connection, and writes its control frames.
#[derive(Debug)]
pub struct Codec {
    phase: Phase,
    message_bytes: u32,
    buffer_bytes: u32,
    binary: Binary,
}

/// What a binary message leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// They close the connection.
    Refused,
    /// They are ignored.
    Ignored,
}

/// What [`Codec::read`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The queue has no further complete frame; call again when more bytes have arrived.
    More,
    /// A complete message.
    Text(String),
    /// The client sent a ping, which was answered. The queue may contain more.
    Ping,
    /// The client sent a pong. The queue may contain more.
    Pong,
    /// Nothing more is read. Write the queued output, then close.
    Closed,
}

impl Codec {
    pub fn new(limits: &Limits) -> Codec {
        Codec {
            phase: Phase::Idle,
            message_bytes: u32::try_from(limits.ws_message_bytes).unwrap_or(u32::MAX),
            buffer_bytes: u32::try_from(limits.ws_buffer_bytes).unwrap_or(u32::MAX),
            binary: Binary::Refused,
        }
    }

    /// Sets what the binary messages that follow lead to.
    pub fn set_binary(&mut self, binary: Binary) {
        self.binary = binary;
    }

    /// Takes bytes from `rx`, at most up to the end of one message or control frame, and appends the answer to `out`. Afterwards
    /// `rx` contains at most one incomplete frame.
    pub fn read(&mut self, rx: &mut Buf, out: &mut Vec<u8>) -> Step {
        while !matches!(self.phase, Phase::Closed) {
            let taken = match self.inspect(rx.as_slice()) {
                Ok(Some((header, len))) => {
                    let taken = self.take(&header, &rx.as_slice()[..len], out);
                    rx.consume(len);
                    taken
                }
                Ok(None) => return Step::More,
                Err(violation) => Err(violation),
            };
            match taken {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(violation) => {
                    self.close(out, violation.code.into(), &violation.reason);
                    self.phase = Phase::Closed;
                }
            }
        }
        rx.consume(rx.len());
        Step::Closed
    }

    /// Whether messages may be sent: neither side has sent a close frame.
    pub fn is_open(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::InMessage(_) => true,
            Phase::Closing | Phase::Closed => false,
        }
    }

    /// The length of the part of an incomplete message that the codec holds.
    pub fn buffered_bytes(&self) -> usize {
        match &self.phase {
            Phase::InMessage(partial) => partial.bytes,
            Phase::Idle | Phase::Closing | Phase::Closed => 0,
        }
    }

    /// Writes a ping; the answer is [`Step::Pong`].
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        if self.is_open() {
            write_head(out, OpCode::Control(Control::Ping), 0);
        }
    }

    /// Writes a close frame. Reading continues until the client's close frame, then returns [`Step::Closed`]. The reason is cut to the
    /// size of a control frame. Does nothing if closing has begun.
    pub fn close(&mut self, out: &mut Vec<u8>, code: u16, reason: &str) {
        assert!(CloseCode::from(code).is_allowed(), "{code} may not be sent in a close frame");
        if !self.is_open() {
            return;
        }
        let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES - 2)];
        write_head(out, OpCode::Control(Control::Close), 2 + reason.len());
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(reason.as_bytes());
        self.phase = Phase::Closing;
    }

    /// The frame at the front of the queue and its length, once it is complete. An invalid head is refused at once.
    fn inspect(&self, rx: &[u8]) -> Result<Option<(FrameHeader, usize)>, Violation> {
        let mut cursor = Cursor::new(rx);
        let Some((header, payload)) = FrameHeader::parse(&mut cursor)? else {
            return Ok(None);
        };
        let head = cursor.position();
        if header.mask.is_none() {
            return Err(protocol("the frames of a client must be masked"));
        }
        if head != header.len(payload) as u64 {
            return Err(protocol("the length of a frame must be written the shortest way"));
        }
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(protocol("Reserved bits are non-zero"));
        }
        match header.opcode {
            OpCode::Control(_) if payload > CONTROL_BYTES as u64 => {
                return Err(protocol("a control frame has 125 bytes at most"));
            }
            OpCode::Data(Data::Binary) if self.binary == Binary::Refused => return Err(binary()),
            OpCode::Data(_) if payload > u64::from(self.message_bytes) => {
                return Err(too_large());
            }
            OpCode::Control(_) | OpCode::Data(_) => {}
        }
        let len = head + payload;
        Ok((len <= rx.len() as u64).then_some((header, len as usize)))
    }

    /// Processes a complete frame. Returns the step that the frame completes, if any.
    fn take(&mut self, header: &FrameHeader, frame: &[u8], out: &mut Vec<u8>) -> Result<Option<Step>, Violation> {
        let (mut partial, is_in_message) = match mem::take(&mut self.phase) {
            Phase::Idle => (Box::new(self.partial()), false),
            Phase::InMessage(partial) => (partial, true),
            phase @ (Phase::Closing | Phase::Closed) => {
                let answer = header.opcode == OpCode::Control(Control::Close);
                self.phase = if answer { Phase::Closed } else { phase };
                return Ok(None);
            }
        };
        let reader = &mut partial.reader;
        let mut stream = Stream { frame, out };
        let step = match reader.read(&mut stream) {
            Ok(Message::Text(text)) => Some(Step::Text(text.as_str().to_owned())),
            Ok(Message::Ping(_)) => {
                reader.flush(&mut stream)?;
                Some(Step::Ping)
            }
            Ok(Message::Pong(_)) => Some(Step::Pong),
            Ok(Message::Close(_)) => {
                // The flush writes the answer and then reports the end of the connection.
                let last = reader.flush(&mut stream);
                debug_assert!(matches!(last, Err(Error::ConnectionClosed)), "{last:?}");
                self.phase = Phase::Closed;
                return Ok(None);
            }
            Ok(Message::Binary(_)) if self.binary == Binary::Ignored => None,
            Ok(Message::Binary(_) | Message::Frame(_)) => return Err(binary()),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => return Err(error.into()),
        };
        let goes_on = match header.opcode {
            OpCode::Data(_) => {
                partial.bytes += frame.len();
                !header.is_final
            }
            OpCode::Control(_) => is_in_message,
        };
        if goes_on {
            self.phase = Phase::InMessage(partial);
        }
        Ok(step)
    }

    fn partial(&self) -> Partial {
        let config = WebSocketConfig::default()
            .read_buffer_size(self.buffer_bytes as usize)
            .write_buffer_size(0)
            .max_message_size(Some(self.message_bytes as usize))
            .max_frame_size(Some((self.message_bytes as usize).max(CONTROL_BYTES)));
        Partial { reader: WebSocketContext::new(Role::Server, Some(config)), bytes: 0 }
    }
}

/// Writes the head of a frame for an outgoing text message of `len` bytes. Only while [`Codec::is_open`].
pub fn text_head(out: &mut Vec<u8>, len: usize) {
    write_head(out, OpCode::Data(Data::Text), len);
}

/// The largest payload of a control frame.
const CONTROL_BYTES: usize = 125;

#[derive(Debug, Default)]
enum Phase {
    /// Between messages.
    #[default]
    Idle,
    /// A message is incomplete.
    InMessage(Box<Partial>),
    /// We have sent a close frame and wait for the client's.
    Closing,
    Closed,
}

/// An incomplete message.
#[derive(Debug)]
struct Partial {
    reader: WebSocketContext,
    /// The length of its data frames so far.
    bytes: usize,
}

/// Why the connection is closed: the code and the reason for the client.
struct Violation {
    code: CloseCode,
    reason: Cow<'static, str>,
}

impl From<Error> for Violation {
    fn from(error: Error) -> Violation {
        match error {
            Error::Protocol(error) => protocol(error.to_string()),
            Error::Capacity(_) => too_large(),
            Error::Utf8(_) => Violation { code: CloseCode::Invalid, reason: "the text is not UTF-8".into() },
            // Reading from memory cannot fail in other ways; if it does, it is our error.
            _ => Violation { code: CloseCode::Error, reason: "the frame could not be read".into() },
        }
    }
}

fn protocol(reason: impl Into<Cow<'static, str>>) -> Violation {
    Violation { code: CloseCode::Protocol, reason: reason.into() }
}

fn binary() -> Violation {
    Violation { code: CloseCode::Unsupported, reason: "messages must be text".into() }
}

fn too_large() -> Violation {
    Violation { code: CloseCode::Size, reason: "the message is larger than this server takes".into() }
}

fn write_head(out: &mut Vec<u8>, opcode: OpCode, len: usize) {
    let header = FrameHeader { opcode, ..FrameHeader::default() };
    header.format(len as u64, out).expect("writing to memory does not fail");
}

/// One frame in memory, which the `tungstenite` reader uses as its connection.
struct Stream<'a> {
    frame: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.frame.is_empty() {
            // Returning 0 would mean the end of the connection.
            return Err(ErrorKind::WouldBlock.into());
        }
        self.frame.read(buffer)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A masked frame; a mask of zeros leaves the payload readable.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            len @ 0..126 => out.push(0x80 | len as u8),
            len => {
                out.push(0x80 | 127);
                out.extend((len as u64).to_be_bytes());
            }
        }
        out.extend([0; 4]);
        out.extend(payload);
        out
    }

    fn read(codec: &mut Codec, bytes: &[u8]) -> (Step, Vec<u8>) {
        let mut rx = Buf::default();
        rx.push(bytes);
        let mut out = Vec::new();
        let step = codec.read(&mut rx, &mut out);
        assert!(rx.is_empty(), "{} bytes are left", rx.len());
        (step, out)
    }

    #[test]
    fn binary_messages_may_be_ignored() {
        let mut codec = Codec::new(&Limits::default());
        codec.set_binary(Binary::Ignored);
        let bytes =
            [frame(0x82, b"x"), frame(0x02, b"y"), frame(0x89, b""), frame(0x80, b"z"), frame(0x81, b"a")].concat();
        let mut rx = Buf::default();
        rx.push(&bytes);
        let mut out = Vec::new();
        assert_eq!(codec.read(&mut rx, &mut out), Step::Ping, "between the pieces of a message");
        assert_eq!(codec.read(&mut rx, &mut out), Step::Text("a".into()));
        assert_eq!(codec.buffered_bytes(), 0);
        codec.set_binary(Binary::Refused);
        rx.push(&frame(0x82, b"x"));
        assert_eq!(codec.read(&mut rx, &mut out), Step::Closed);
    }

    #[test]
    fn an_idle_codec_owns_no_buffers() {
        assert!(mem::size_of::<Codec>() <= 32, "{}", mem::size_of::<Codec>());
        let mut codec = Codec::new(&Limits::default());
        let large = vec![b'x'; 1 << 20];
        for (bytes, step) in [
            (frame(0x81, &large), Step::Text("x".repeat(large.len()))),
            (frame(0x89, b""), Step::Ping),
            (frame(0x8a, b""), Step::Pong),
        ] {
            assert_eq!(read(&mut codec, &bytes).0, step);
            assert!(matches!(codec.phase, Phase::Idle));
        }
        assert_eq!(read(&mut codec, &frame(0x01, &large)).0, Step::More);
        let buffered = frame(0x01, &large).len();
        for _ in 0..3 {
            assert_eq!(codec.buffered_bytes(), buffered, "pings are answered and not kept");
            assert_eq!(read(&mut codec, &frame(0x89, b"there?")).0, Step::Ping);
        }
        assert_eq!(read(&mut codec, &frame(0x89, b"")).0, Step::Ping);
        assert!(matches!(codec.phase, Phase::InMessage(_)));
        assert!(matches!(read(&mut codec, &frame(0x80, b"")).0, Step::Text(_)));
        assert!(matches!(codec.phase, Phase::Idle));
    }

    #[test]
    fn closing_drops_an_incomplete_message() {
        let mut codec = Codec::new(&Limits::default());
        read(&mut codec, &frame(0x01, b"never to end"));
        codec.close(&mut Vec::new(), 1001, "");
        assert!(matches!(codec.phase, Phase::Closing));
    }

    #[test]
    fn heads_of_messages() {
        for (len, head) in [
            (0, &[0x81, 0][..]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (65535, &[0x81, 126, 0xff, 0xff]),
            (65536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            text_head(&mut out, len);
            assert_eq!(out, head, "{len}");
        }
    }

    #[test]
    #[should_panic(expected = "1006 may not be sent")]
    fn codes_that_are_never_sent() {
        Codec::new(&Limits::default()).close(&mut Vec::new(), 1006, "");
    }
}
