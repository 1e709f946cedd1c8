//! The client's end of a connection: parses the bytes of the server into responses, events and messages.

use crate::frame;
use crate::http::{Head, Message, Side};
use crate::sse::Sse;
use gemini_a2a::base::slots::Key;

pub struct Connection {
    pub key: Key,
    reader: Reader,
    body: Vec<u8>,
}

enum Reader {
    Http(Message, Sse),
    Socket(Vec<u8>),
}

/// One thing that the server has sent over a connection.
#[derive(Debug)]
pub enum Received {
    /// A complete response that is no stream.
    Response { head: Head, body: Vec<u8> },
    /// An event of a stream.
    Event(String),
    /// The end of a stream.
    End,
    /// The connection has become a WebSocket.
    Upgraded,
    /// A message on the WebSocket.
    Text(String),
    /// The close frame of the WebSocket, with this code.
    Closed(u16),
}

impl Connection {
    pub fn new(key: Key) -> Connection {
        Connection { key, reader: Reader::Http(Message::new(Side::Response), Sse::default()), body: Vec::new() }
    }

    pub fn take(&mut self, bytes: &[u8]) -> Vec<Received> {
        if let Reader::Socket(rx) = &mut self.reader {
            rx.extend_from_slice(bytes);
            return messages(rx);
        }
        let blank = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = blank.filter(|_| bytes.starts_with(b"HTTP/1.1 101 ")) {
            let mut rx = bytes[end + 4..].to_vec();
            let mut received = vec![Received::Upgraded];
            received.extend(messages(&mut rx));
            self.reader = Reader::Socket(rx);
            return received;
        }
        self.http(bytes)
    }

    fn http(&mut self, bytes: &[u8]) -> Vec<Received> {
        let Reader::Http(message, sse) = &mut self.reader else { unreachable!("checked by the caller") };
        let mut received = Vec::new();
        let mut bytes = bytes;
        loop {
            message.feed(bytes, &mut self.body).expect("HTTP");
            bytes = b"";
            let Some(head) = message.head().cloned() else {
                return received;
            };
            if head.is_event_stream() {
                sse.input().append(&mut self.body);
                sse.drain(|frame| received.push(Received::Event(frame.data.into_owned()))).expect("events");
            }
            if !message.is_done() {
                return received;
            }
            let body = std::mem::take(&mut self.body);
            received.push(match head.is_event_stream() {
                true => Received::End,
                false => Received::Response { head, body },
            });
            let again = message.restart(Side::Response, &mut self.body);
            again.expect("HTTP");
        }
    }
}

fn messages(rx: &mut Vec<u8>) -> Vec<Received> {
    let mut received = Vec::new();
    while let Some((opcode, range)) = frame::front(rx) {
        let payload = rx[range.clone()].to_vec();
        rx.drain(..range.end);
        match opcode {
            1 => received.push(Received::Text(String::from_utf8(payload).expect("UTF-8"))),
            8 => {
                let code = payload.first_chunk().expect("a code");
                received.push(Received::Closed(u16::from_be_bytes(*code)));
            }
            9 | 10 => {}
            other => panic!("opcode {other}"),
        }
    }
    received
}
