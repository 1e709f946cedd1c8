//! WebSocket against a corpus: every run of frames gives the same steps and the same answers however the network cuts it, nothing
//! a mutation makes of it panics, and whatever is said ends with the close.

#[path = "support/corpus.rs"]
mod corpus;

use corpus::{Corpus, Random, unescape};
use gemini_a2a::base::buf::Buf;
use gemini_a2a::limits::Limits;
use gemini_a2a::wire::http1::{self, Reader};
use gemini_a2a::wire::ws::{self, Codec, Step};
use std::fmt::Write;
use std::io;
use tungstenite::protocol::{Role, WebSocket};
use tungstenite::{Error, Message};

const FILES: [(&str, &str); 4] = [
    ("messages", include_str!("corpus/ws/messages.txt")),
    ("utf8", include_str!("corpus/ws/utf8.txt")),
    ("frames", include_str!("corpus/ws/frames.txt")),
    ("close", include_str!("corpus/ws/close.txt")),
];

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Small, so that the corpus can reach them, and the buffer smaller than most frames.
fn limits() -> Limits {
    Limits { ws_message_bytes: 300, ws_buffer_bytes: 16, ..Limits::default() }
}

fn corpus() -> Corpus {
    Corpus {
        cases: corpus::read(&FILES, described, repeated),
        parse: |pieces| steps(&limits(), pieces.iter().copied()),
        is_accepted: |steps| !steps.iter().any(|step| step.starts_with("closed")),
        confusing_bytes: &[b"\x00", b"\x01", b"\x7e", b"\x7f", b"\x80", b"\x81", b"\x88", b"\x89", b"\xfe", b"\xff"],
    }
}

/// The bytes of a frame in the notation of the corpus.
fn described(line: &str) -> Vec<u8> {
    let (marks, payload) = line.split_once(": ").unwrap_or_else(|| {
        let marks = line.strip_suffix(':').expect("a colon before the payload");
        (marks, "")
    });
    let payload = unescape(&repeated(payload));
    let mut marks = marks.split(' ');
    let opcode = match marks.next().expect("an opcode") {
        "raw" => return payload,
        "cont" => 0,
        "text" => 1,
        "binary" => 2,
        "close" => 8,
        "ping" => 9,
        "pong" => 10,
        other => number(other, "op:") as u8,
    };
    let mut frame = Frame::new(0x80 | opcode, payload);
    for mark in marks {
        match mark {
            "part" => frame.first &= 0x7f,
            "rsv1" => frame.first |= 0x40,
            "rsv2" => frame.first |= 0x20,
            "rsv3" => frame.first |= 0x10,
            "bare" => frame.mask = None,
            "len16" => frame.length_bytes = 2,
            "len64" => frame.length_bytes = 8,
            other => frame.claim = number(other, "claim:"),
        }
    }
    frame.bytes()
}

fn number(mark: &str, prefix: &str) -> u64 {
    let digits = mark.strip_prefix(prefix).unwrap_or_else(|| panic!("what is {mark}?"));
    digits.parse().expect("a number")
}

/// A frame as a client sends it, or as none should.
struct Frame {
    first: u8,
    mask: Option<[u8; 4]>,
    length_bytes: usize,
    claim: u64,
    payload: Vec<u8>,
}

impl Frame {
    fn new(first: u8, payload: impl Into<Vec<u8>>) -> Frame {
        let payload = payload.into();
        Frame {
            first,
            mask: Some(MASK),
            length_bytes: match payload.len() {
                0..126 => 0,
                126..65536 => 2,
                _ => 8,
            },
            claim: payload.len() as u64,
            payload,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let short = match self.length_bytes {
            0 => u8::try_from(self.claim).expect("a claim that fits its form"),
            2 => 126,
            _ => 127,
        };
        let masked = if self.mask.is_some() { 0x80 } else { 0 };
        let mut out = vec![self.first, masked | short];
        out.extend(&self.claim.to_be_bytes()[8 - self.length_bytes..]);
        out.extend(self.mask.iter().flatten());
        let mask = self.mask.unwrap_or_default();
        out.extend(self.payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        out
    }
}

fn text(payload: &str) -> Vec<u8> {
    Frame::new(0x81, payload).bytes()
}

/// Writes out what is written as `3*x`.
fn repeated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('*') {
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        // Digits of an escape are not a count.
        let digits = match before.rfind("\\x") {
            Some(at) => digits.min(before.len() - at - 4),
            None => digits,
        };
        let (before, count) = before.split_at(before.len() - digits);
        let count = count.parse().expect("a count before the star");
        out.push_str(before);
        out.push_str(&after[..1].repeat(count));
        rest = &after[1..];
    }
    out + rest
}

fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b' '..=b'~' => out.push(byte as char),
            byte => write!(out, "\\x{byte:02x}").expect("memory"),
        }
    }
    out
}

/// A connection: what arrived, and what its codec made of it.
struct Client {
    codec: Codec,
    limits: Limits,
    rx: Buf,
    steps: Vec<String>,
    closed: bool,
}

impl Client {
    fn new(limits: Limits) -> Client {
        Client { codec: Codec::new(&limits), limits, rx: Buf::default(), steps: Vec::new(), closed: false }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.rx.push(bytes);
        loop {
            let mut out = Vec::new();
            let step = self.codec.read(&mut self.rx, &mut out);
            if self.closed {
                assert_eq!((step, &out[..]), (Step::Closed, &[][..]));
                assert!(self.rx.is_empty());
                return;
            }
            let mut line = match step {
                Step::More => {
                    assert!(out.is_empty(), "an answer without a question");
                    assert!(self.rx.len() < self.limits.ws_message_bytes + 14);
                    return;
                }
                Step::Text(text) => {
                    assert!(text.len() <= self.limits.ws_message_bytes);
                    format!("text {}", escape(text.as_bytes()))
                }
                Step::Ping => "ping".to_owned(),
                Step::Pong => "pong".to_owned(),
                Step::Closed => {
                    assert!(self.rx.is_empty());
                    assert!(!self.codec.is_open());
                    self.closed = true;
                    "closed".to_owned()
                }
            };
            if !out.is_empty() {
                write!(line, " <- {}", control_frame(&out)).expect("memory");
            }
            self.steps.push(line.trim_end().to_owned());
            if self.closed {
                return;
            }
        }
    }
}

/// The one control frame that was written, in the notation of the corpus.
fn control_frame(out: &[u8]) -> String {
    let [first, len, payload @ ..] = out else {
        panic!("half a frame: {out:?}");
    };
    assert!(*len <= 125, "a control frame is short and not masked");
    assert_eq!(payload.len(), usize::from(*len), "one frame is written");
    match (first, payload) {
        (0x89, payload) => format!("ping {}", escape(payload)),
        (0x8a, payload) => format!("pong {}", escape(payload)),
        (0x88, []) => "close".to_owned(),
        (0x88, [high, low, reason @ ..]) => {
            let code = u16::from_be_bytes([*high, *low]);
            format!("close {code} {}", escape(reason))
        }
        other => panic!("what was written? {other:?}"),
    }
}

fn steps<'a>(limits: &Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut client = Client::new(limits.clone());
    for piece in pieces {
        client.receive(piece);
    }
    client.steps
}

#[test]
fn the_corpus_gives_its_expected_steps() {
    let corpus = corpus();
    assert!(corpus.cases.len() >= 110, "only {} cases were read", corpus.cases.len());
    corpus.check_results();
}

#[test]
fn splitting_the_input_anywhere_changes_nothing() {
    corpus().check_all_cuts();
}

#[test]
fn mutated_input_gives_the_same_result_in_any_pieces() {
    corpus().check_mutations();
}

#[test]
fn every_form_of_a_length_at_its_borders() {
    let limits = Limits { ws_message_bytes: 65_537, ..Limits::default() };
    let too_large = "closed <- close 1009 the message is larger than this server takes";
    let shortest = "closed <- close 1002 the length of a frame must be written the shortest way";
    for len in [0, 1, 125, 126, 127, 65_535, 65_536, 65_537, 65_538] {
        let payload = "x".repeat(len);
        let expected = match len {
            65_538 => too_large.to_owned(),
            _ => format!("text {payload}").trim_end().to_owned(),
        };
        let frame = Frame::new(0x81, payload);
        let bytes = frame.bytes();
        assert_eq!(steps(&limits, [&bytes[..]]), [&expected[..]], "{len}");
        let pieces = Random::new(1 + len as u64).cut(&bytes, 700);
        assert_eq!(steps(&limits, pieces), [&expected[..]], "{len} in pieces");

        for length_bytes in [2, 8] {
            if length_bytes > frame.length_bytes {
                let bytes = Frame { length_bytes, ..Frame::new(0x81, frame.payload.clone()) }.bytes();
                assert_eq!(steps(&limits, [&bytes[..]]), [shortest], "{len}");
            }
        }
    }
}

#[test]
fn the_default_cap_holds() {
    let limits = Limits::default();
    let most = limits.ws_message_bytes;
    let frame = Frame::new(0x81, vec![b'x'; most]).bytes();
    let mut client = Client::new(limits.clone());
    for piece in frame.chunks(limits.turn_bytes) {
        client.receive(piece);
    }
    assert_eq!(client.steps.len(), 1);
    assert_eq!(client.steps[0].len(), "text ".len() + most);

    // In fragments it is the last byte that is too much.
    let mut client = Client::new(limits.clone());
    client.receive(&Frame::new(0x01, vec![b'x'; most]).bytes());
    client.receive(&Frame::new(0x00, "").bytes());
    assert_eq!(client.steps, [""; 0]);
    client.receive(&Frame::new(0x80, "x").bytes());
    assert_eq!(client.steps, ["closed <- close 1009 the message is larger than this server takes"]);
}

#[test]
fn a_flood_of_pings_is_answered_one_at_a_time() {
    let mut codec = Codec::new(&limits());
    let mut rx = Buf::default();
    let ping = Frame::new(0x89, vec![b'x'; 125]).bytes();
    for _ in 0..1000 {
        rx.push(&ping);
    }
    for left in (0..1000).rev() {
        let mut out = Vec::new();
        assert_eq!(codec.read(&mut rx, &mut out), Step::Ping);
        assert_eq!((out.len(), rx.len()), (127, left * ping.len()));
    }
    assert_eq!(codec.read(&mut rx, &mut Vec::new()), Step::More);
}

#[test]
fn our_close_waits_for_its_answer_and_nothing_else() {
    let mut client = Client::new(limits());
    client.receive(&Frame::new(0x01, "begun").bytes());
    let mut out = Vec::new();
    client.codec.ping(&mut out);
    assert_eq!(control_frame(&out), "ping ");
    out.clear();
    client.codec.close(&mut out, 1001, "bye");
    assert_eq!(control_frame(&out), "close 1001 bye");
    assert!(!client.codec.is_open());

    out.clear();
    client.codec.close(&mut out, 1011, "again");
    client.codec.ping(&mut out);
    assert_eq!(out, b"");
    client.receive(&Frame::new(0x80, "ended").bytes());
    client.receive(&text("sent before it heard of it"));
    client.receive(&Frame::new(0x89, "ping").bytes());
    assert_eq!(client.steps, [""; 0]);
    client.receive(&Frame::new(0x88, [0x03, 0xe9]).bytes());
    assert_eq!(client.steps, ["closed"]);
    client.receive(&text("too late"));
    assert_eq!(client.steps, ["closed"]);
}

#[test]
fn invalid_bytes_instead_of_a_close_end_the_connection_silently() {
    for nonsense in [
        Frame::new(0x83, "x").bytes(),
        Frame::new(0x81, "x".repeat(301)).bytes(),
        Frame::new(0x82, "x").bytes(),
        b"GET / HTTP/1.1\r\n".to_vec(),
    ] {
        let mut client = Client::new(limits());
        client.codec.close(&mut Vec::new(), 1000, "");
        client.receive(&nonsense);
        assert_eq!(client.steps, ["closed"], "{nonsense:?}");
    }
}

#[test]
fn nothing_is_sent_after_an_answered_close() {
    let mut client = Client::new(limits());
    client.receive(&Frame::new(0x88, [0x03, 0xe8]).bytes());
    assert_eq!(client.steps, ["closed <- close 1000"]);
    let mut out = Vec::new();
    client.codec.ping(&mut out);
    client.codec.close(&mut out, 1000, "");
    assert_eq!(out, b"");
}

#[test]
fn a_reason_is_cut_between_characters() {
    for (reason, kept) in [
        ("x".repeat(123), "x".repeat(123)),
        ("x".repeat(124), "x".repeat(123)),
        ("é".repeat(62), "é".repeat(61)),
        (format!("x{}", "é".repeat(61)), format!("x{}", "é".repeat(61))),
        ("😀".repeat(40), "😀".repeat(30)),
    ] {
        let mut out = Vec::new();
        Codec::new(&limits()).close(&mut out, 1000, &reason);
        assert_eq!(control_frame(&out), format!("close 1000 {}", escape(kept.as_bytes())));
    }
}

#[test]
fn bytes_after_the_upgrade_go_to_the_codec() {
    let limits = limits();
    let mut rx = Buf::default();
    rx.push(
        b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Protocol: b, a\r\n\r\n",
    );
    rx.push(&text("early"));
    let Ok(http1::Step::Request(request)) = Reader::new().read(&mut rx, &limits) else {
        panic!("an upgrade is a request");
    };
    let upgrade = ws::upgrade(&request).expect("an upgrade");
    assert_eq!(upgrade.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(upgrade.protocols, ["b", "a"]);
    let step = Codec::new(&limits).read(&mut rx, &mut Vec::new());
    assert_eq!(step, Step::Text("early".to_owned()));
}

/// The client's end of a connection in memory.
#[derive(Default)]
struct Line {
    incoming: Buf,
    outgoing: Vec<u8>,
}

impl io::Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = self.incoming.as_slice().read(buffer)?;
        self.incoming.consume(len);
        Ok(len)
    }
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_real_client_interoperates() {
    let mut client = WebSocket::from_raw_socket(Line::default(), Role::Client, None);
    let mut codec = Codec::new(&Limits::default());
    let mut rx = Buf::default();
    let mut out = Vec::new();
    for len in [0, 1, 125, 126, 65_535, 65_536, 1 << 20] {
        let payload = "é".repeat(len / 2) + &"x".repeat(len % 2);
        client.send(Message::text(payload.clone())).expect("sent");
        rx.push(&std::mem::take(&mut client.get_mut().outgoing));
        assert!(codec.read(&mut rx, &mut out) == Step::Text(payload.clone()));
        assert!(rx.is_empty() && out.is_empty());

        ws::text_head(&mut out, payload.len());
        out.extend(payload.as_bytes());
        client.get_mut().incoming.push(&std::mem::take(&mut out));
        assert!(client.read().expect("a message") == Message::text(payload));
    }

    codec.ping(&mut out);
    codec.close(&mut out, 1001, "the server stops");
    client.get_mut().incoming.push(&std::mem::take(&mut out));
    assert_eq!(client.read().expect("a ping"), Message::Ping("".into()));
    let Message::Close(Some(close)) = client.read().expect("a close") else {
        panic!("a close with a reason");
    };
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1001, "the server stops"));
    assert!(matches!(client.read(), Err(Error::Io(_))));
    rx.push(&client.get_mut().outgoing);
    assert_eq!(codec.read(&mut rx, &mut out), Step::Closed);
    assert_eq!(out, b"");
}
