//! How the messages of a socket are framed.

use crate::base::buf::Buf;
use crate::wire::ws::Step;
use crate::wire::{lines, ws};

pub(super) enum Codec {
    WebSocket(ws::Codec),
    /// For a peer in the same process.
    Lines(lines::Codec),
}

impl Codec {
    pub fn read(&mut self, rx: &mut Buf, out: &mut Vec<u8>) -> Step {
        match self {
            Codec::WebSocket(codec) => codec.read(rx, out),
            Codec::Lines(codec) => codec.read(rx),
        }
    }

    pub fn is_open(&self) -> bool {
        match self {
            Codec::WebSocket(codec) => codec.is_open(),
            Codec::Lines(codec) => codec.is_open(),
        }
    }

    /// Whether the peer is in the same process.
    pub fn is_local(&self) -> bool {
        matches!(self, Codec::Lines(_))
    }

    pub fn buffered_bytes(&self) -> usize {
        match self {
            Codec::WebSocket(codec) => codec.buffered_bytes(),
            Codec::Lines(_) => 0,
        }
    }

    pub fn ping(&mut self, out: &mut Vec<u8>) {
        if let Codec::WebSocket(codec) = self {
            codec.ping(out);
        }
    }

    pub fn close(&mut self, out: &mut Vec<u8>, code: u16, reason: &str) {
        match self {
            Codec::WebSocket(codec) => codec.close(out, code, reason),
            Codec::Lines(codec) => codec.close(),
        }
    }

    /// Writes the bytes before a message of this length.
    pub fn head(&self, out: &mut Vec<u8>, bytes: usize) {
        match self {
            Codec::WebSocket(_) => ws::text_head(out, bytes),
            Codec::Lines(_) => {}
        }
    }

    /// The bytes behind a message.
    pub fn tail(&self) -> &'static [u8] {
        match self {
            Codec::WebSocket(_) => b"",
            Codec::Lines(_) => b"\n",
        }
    }
}
