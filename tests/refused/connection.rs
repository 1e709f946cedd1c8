//! One connection as its client has it: bytes from the server become answers, events and messages.

use crate::frame;
use crate::http::{Head, Message, Side};
use crate::sse::Sse;
use gemini_a2a::base::slots::Key;

pub struct Line {
    pub key: Key,
    talk: Talk,
    body: Vec<u8>,
}

enum Talk {
    Http(Message, Sse),
    Socket(Vec<u8>),
}

/// Something that came over a line.
#[derive(Debug)]
pub enum Heard {
    /// A whole answer.
    Answer {
        head: Head,
        body: Vec<u8>,
    },
    /// An event of a stream, and the end of one.
    Event(String),
    End,
    /// The line is a socket from here on.
    Upgraded,
    /// A message on the socket, and the word it is closed with.
    Text(String),
    Closed(u16),
}

impl Line {
    pub fn new(key: Key) -> Line {
        Line { key, talk: Talk::Http(Message::new(Side::Response), Sse::default()), body: Vec::new() }
    }

    pub fn take(&mut self, bytes: &[u8]) -> Vec<Heard> {
        if let Talk::Socket(rx) = &mut self.talk {
            rx.extend_from_slice(bytes);
            return messages(rx);
        }
        let blank = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = blank.filter(|_| bytes.starts_with(b"HTTP/1.1 101 ")) {
            let mut rx = bytes[end + 4..].to_vec();
            let mut heard = vec![Heard::Upgraded];
            heard.extend(messages(&mut rx));
            self.talk = Talk::Socket(rx);
            return heard;
        }
        self.http(bytes)
    }

    fn http(&mut self, bytes: &[u8]) -> Vec<Heard> {
        let Talk::Http(message, sse) = &mut self.talk else { unreachable!("looked at by the caller") };
        let mut heard = Vec::new();
        let mut bytes = bytes;
        loop {
            message.feed(bytes, &mut self.body).expect("HTTP");
            bytes = b"";
            let Some(head) = message.head().cloned() else {
                return heard;
            };
            if head.is_event_stream() {
                sse.input().append(&mut self.body);
                sse.drain(|frame| heard.push(Heard::Event(frame.data.into_owned()))).expect("events");
            }
            if !message.is_done() {
                return heard;
            }
            let body = std::mem::take(&mut self.body);
            heard.push(match head.is_event_stream() {
                true => Heard::End,
                false => Heard::Answer { head, body },
            });
            let again = message.restart(Side::Response, &mut self.body);
            again.expect("HTTP");
        }
    }
}

fn messages(rx: &mut Vec<u8>) -> Vec<Heard> {
    let mut heard = Vec::new();
    while let Some((opcode, place)) = frame::front(rx) {
        let payload = rx[place.clone()].to_vec();
        rx.drain(..place.end);
        match opcode {
            1 => heard.push(Heard::Text(String::from_utf8(payload).expect("UTF-8"))),
            8 => {
                let code = payload.first_chunk().expect("a code");
                heard.push(Heard::Closed(u16::from_be_bytes(*code)));
            }
            9 | 10 => {}
            other => panic!("opcode {other}"),
        }
    }
    heard
}
