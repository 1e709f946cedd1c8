//! The wire against a corpus: every request gives the same verdicts however the network cuts it, nothing a mutation makes of it
//! panics or outgrows the limits, and each limit holds at its last allowed byte and breaks at the next.

#[path = "support/corpus.rs"]
mod corpus;

use corpus::{Corpus, Random};
use gemini_a2a::base::buf::Buf;
use gemini_a2a::base::http::{Request, Version};
use gemini_a2a::base::id::Seq;
use gemini_a2a::limits::Limits;
use gemini_a2a::wire::http1::{Reader, Reject, Stage, Step};
use gemini_a2a::wire::sse::{self, Decoder, TooLarge};
use std::fmt::Write;

const FILES: [(&str, &str); 7] = [
    ("request-line", include_str!("corpus/http/request-line.txt")),
    ("target", include_str!("corpus/http/target.txt")),
    ("fields", include_str!("corpus/http/fields.txt")),
    ("host", include_str!("corpus/http/host.txt")),
    ("length", include_str!("corpus/http/length.txt")),
    ("chunked", include_str!("corpus/http/chunked.txt")),
    ("connection", include_str!("corpus/http/connection.txt")),
];

/// Small, so that the corpus can reach them.
fn limits() -> Limits {
    Limits {
        head_bytes: 512,
        head_fields: 12,
        blank_lines: 2,
        chunk_line_bytes: 48,
        body_bytes: 64,
        ..Limits::default()
    }
}

fn corpus() -> Corpus {
    Corpus {
        cases: corpus::read(&FILES, corpus::unescape, str::to_owned),
        parse: |pieces| verdicts(&limits(), pieces.iter().copied()),
        is_accepted: |verdicts| !verdicts.iter().any(|v| v.starts_with(['4', '5'])),
        confusing_bytes: &[
            b"\r",
            b"\n",
            b"\r\n",
            b"\r\n\r\n",
            b" ",
            b"\t",
            b":",
            b"0",
            b"%",
            b";",
            b"\0",
            b"\xff",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
        ],
    }
}

/// A connection: what arrived, and what its reader made of it.
struct Client {
    limits: Limits,
    reader: Reader,
    rx: Buf,
    verdicts: Vec<String>,
    refused: Option<Reject>,
}

impl Client {
    fn new(limits: Limits) -> Client {
        Client { limits, reader: Reader::new(), rx: Buf::default(), verdicts: Vec::new(), refused: None }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.rx.push(bytes);
        if let Some(reject) = self.refused {
            assert_eq!(self.reader.read(&mut self.rx, &self.limits), Err(reject));
            return;
        }
        loop {
            match self.reader.read(&mut self.rx, &self.limits) {
                Ok(Step::More) => {
                    // What the reader leaves in the queue is a head, a line or trailers it has not seen the end of.
                    assert!(self.rx.len() <= self.limits.head_bytes, "too much is kept");
                    return;
                }
                Ok(Step::Continue) => {
                    assert_eq!(self.reader.stage(), Stage::Body);
                    self.verdicts.push("continue".to_owned());
                }
                Ok(Step::Request(request)) => {
                    assert_eq!(self.reader.stage(), Stage::Head);
                    assert!(request.body.capacity() <= self.limits.body_bytes);
                    assert!(request.headers.iter().count() <= self.limits.head_fields);
                    assert!(request.query.len() <= self.limits.head_fields);
                    self.verdicts.push(notation(&request));
                }
                Err(reject) => {
                    self.refused = Some(reject);
                    self.verdicts.push(format!("{} {}", reject.status, reject.message));
                    return;
                }
            }
        }
    }
}

fn notation(request: &Request) -> String {
    let mut out = request.method.word().to_owned();
    write!(out, " {}", request.path).unwrap();
    for (name, value) in &request.query {
        write!(out, " ?{name}={value}").unwrap();
    }
    out.push_str(match request.version {
        Version::Http10 => " 1.0",
        Version::Http11 => " 1.1",
    });
    out.push_str(if request.keep_alive { " keep" } else { " close" });
    for (name, value) in request.headers.iter() {
        write!(out, " {name}={}", value.escape_debug()).unwrap();
    }
    if !request.body.is_empty() {
        write!(out, " \"{}\"", request.body.escape_ascii()).unwrap();
    }
    out
}

fn verdicts<'a>(limits: &Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut client = Client::new(limits.clone());
    for piece in pieces {
        client.receive(piece);
    }
    client.verdicts
}

#[test]
fn the_corpus_gives_its_expected_results() {
    let corpus = corpus();
    assert!(corpus.cases.len() >= 200, "only {} cases were read", corpus.cases.len());
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

/// Whole and byte by byte, which must agree.
fn both_ways(bytes: &[u8]) -> Vec<String> {
    let whole = verdicts(&limits(), [bytes]);
    assert_eq!(verdicts(&limits(), bytes.chunks(1)), whole);
    whole
}

fn padded(before: &str, after: &str, len: usize) -> Vec<u8> {
    let fill = "x".repeat(len - before.len() - after.len());
    format!("{before}{fill}{after}").into_bytes()
}

#[test]
fn the_size_of_a_head_is_limited() {
    let head = |len| padded("GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n", len);
    let fill = "x".repeat(512 - head(32).len());
    assert_eq!(both_ways(&head(512)), [format!("GET / 1.1 keep host=a x={fill}")]);
    let too_large = ["431 the header fields are larger than this server takes"];
    assert_eq!(both_ways(&head(513)), too_large);
    // One that never ends is refused as soon as it cannot end in time.
    assert_eq!(both_ways(&[b'x'; 512]), [""; 0]);
    assert_eq!(both_ways(&[b'x'; 513]), too_large);
}

#[test]
fn the_size_of_trailers_is_limited() {
    const HEAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    let request = |len| [HEAD.as_bytes(), &padded("X: ", "\r\n\r\n", len)].concat();
    assert_eq!(both_ways(&request(512)), ["POST / 1.1 keep host=a transfer-encoding=chunked"]);
    assert_eq!(both_ways(&request(513)), ["431 the header fields are larger than this server takes"]);
}

#[test]
fn the_size_of_a_chunk_line_is_limited() {
    const HEAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = |len| [HEAD.as_bytes(), &padded("2;", "\r\n", len), b"hi\r\n0\r\n\r\n"].concat();
    assert_eq!(both_ways(&request(48)), ["POST / 1.1 keep host=a transfer-encoding=chunked \"hi\""]);
    assert_eq!(both_ways(&request(49)), ["400 the line of a chunk is too long"]);
}

#[test]
fn a_large_body_is_consumed_as_it_arrives() {
    let limits = Limits::default();
    let mut client = Client::new(limits.clone());
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", limits.body_bytes);
    client.receive(head.as_bytes());
    assert_eq!(client.reader.stage(), Stage::Body);
    let piece = vec![b'x'; limits.turn_bytes];
    for _ in 0..limits.body_bytes / piece.len() {
        client.receive(&piece);
        assert!(client.rx.is_empty());
    }
    assert_eq!(client.reader.stage(), Stage::Head);
    assert_eq!(client.verdicts.len(), 1);
    assert!(client.verdicts[0].len() > limits.body_bytes);
}

#[test]
fn the_default_limits_hold_for_bodies() {
    let limits = Limits::default();
    for (length, verdict) in [
        (limits.body_bytes, None),
        (limits.body_bytes + 1, Some("413 the body is larger than this server takes".to_owned())),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(verdicts(&limits, [head.as_bytes()]), Vec::from_iter(verdict));
    }
}

type Events = (Vec<Result<Vec<u8>, TooLarge>>, bool);

fn decode<'a>(cap: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let mut decoder = Decoder::new(cap);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        events.extend(decoder.by_ref().map(|event| event.map(|event| event.data)));
    }
    (events, decoder.ends_inside_event())
}

#[test]
fn splitting_event_streams_anywhere_changes_nothing() {
    const WORDS: [&str; 16] = [
        "data: ",
        "data:",
        "data",
        "da",
        "event: x",
        ": comment",
        "id",
        "{\"a\":1}",
        "\n",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\u{feff}",
        " ",
        "é",
    ];
    for seed in 1..=3000 {
        let mut random = Random::new(seed);
        let text: String = (0..random.below(24)).map(|_| WORDS[random.below(WORDS.len())]).collect();
        let bytes = text.as_bytes();
        let expected = reference(12, bytes);
        assert_eq!(decode(12, [bytes]), expected, "whole: {text:?}");
        assert_eq!(decode(12, bytes.chunks(1)), expected, "by bytes: {text:?}");
        for at in 0..=bytes.len() {
            let (front, back) = bytes.split_at(at);
            assert_eq!(decode(12, [front, back]), expected, "at {at}: {text:?}");
        }
    }
}

/// The standard's description of an event stream, line by line over the whole text.
fn reference(cap: usize, bytes: &[u8]) -> Events {
    let text = str::from_utf8(bytes).expect("UTF-8");
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (lines, unended) = text.rsplit_once('\n').unwrap_or(("", &text));
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    let mut dropped = false;
    let mut pending = false;
    let ended = text.contains('\n').then_some(lines);
    for line in ended.iter().flat_map(|lines| lines.split('\n')) {
        if line.is_empty() {
            if let Some(data) = data.take()
                && !dropped
            {
                events.push(Ok(data.into_bytes()));
            }
            (dropped, pending) = (false, false);
            continue;
        }
        pending |= !line.starts_with([':', ' ']);
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name == "data" && !dropped {
            let value = value.strip_prefix(' ').unwrap_or(value);
            let joined = match data.take() {
                Some(data) => data + "\n" + value,
                None => value.to_owned(),
            };
            if joined.len() > cap {
                events.push(Err(TooLarge));
                dropped = true;
            }
            data = Some(joined);
        }
    }
    // A line without an end still counts towards the cap, and towards what was lost.
    if let Some(value) = unended.strip_prefix("data:")
        && !dropped
    {
        let value = value.strip_prefix(' ').unwrap_or(value);
        let before = data.as_ref().map_or(0, |data| data.len() + 1);
        if before + value.len() > cap {
            events.push(Err(TooLarge));
        }
    }
    pending |= !unended.is_empty() && !unended.starts_with([':', ' ']);
    (events, pending)
}

#[test]
fn written_events_are_parsed_back() {
    let payloads = ["{}", "", " leading blank", "{\"text\":\"data: \\n\"}", "data: x", "ünï€"];
    let mut out = Vec::new();
    for (n, payload) in payloads.iter().enumerate() {
        let event = (n % 2 == 0).then_some("status");
        let seq = (n % 3 > 0).then_some(Seq(n as u64));
        sse::open(&mut out, event, seq);
        out.extend_from_slice(payload.as_bytes());
        out.extend_from_slice(sse::END);
        out.extend_from_slice(sse::PING);
    }
    let expected = payloads.iter().map(|payload| Ok(payload.as_bytes().to_vec()));
    assert_eq!(decode(1000, out.chunks(7)), (expected.collect(), false));
}
