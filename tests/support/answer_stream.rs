//! How the fake model speaks: script items as chunks of the Gemini API, in an event stream with one write per chunk, as the
//! real one does it.

use super::http::Head;
use super::random::Random;
use super::script::{Call, Item};
use super::stamp;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// What every chunk of one answer repeats.
pub struct Chunk {
    model: String,
    number: u64,
    prompt_tokens: usize,
}

impl Chunk {
    /// For the request with this head, number and body length.
    pub fn new(head: &Head, number: u64, bytes: usize) -> Chunk {
        let path = head.target().split("/models/").nth(1).unwrap_or("");
        let model = path.split(':').next().unwrap_or("").to_string();
        Chunk { model, number, prompt_tokens: bytes / 4 }
    }

    pub fn json(&self, parts: Value, finish: Option<&str>) -> Value {
        let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
        if let Some(reason) = finish {
            candidate["finishReason"] = json!(reason);
        }
        json!({
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": self.prompt_tokens, "candidatesTokenCount": 7,
                "totalTokenCount": self.prompt_tokens + 7,
            },
            "modelVersion": self.model, "responseId": format!("fake-{}", self.number),
        })
    }
}

/// One answer on its way to the caller.
pub struct AnswerStream<'a> {
    out: &'a mut TcpStream,
    chunk: Chunk,
    buffer: String,
}

impl AnswerStream<'_> {
    pub fn begin(out: &mut TcpStream, chunk: Chunk) -> io::Result<AnswerStream<'_>> {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        out.write_all(head.as_bytes())?;
        Ok(AnswerStream { out, chunk, buffer: String::new() })
    }

    pub fn caller(&self) -> &TcpStream {
        self.out
    }

    /// Says one item; `finish` goes with the last one of an answer.
    pub fn say(&mut self, item: &Item, finish: Option<&str>) -> io::Result<()> {
        let parts = match item {
            Item::Stream { count, delay_us, bytes } => {
                let flood = Flood { count: *count, delay: Duration::from_micros(*delay_us), bytes: *bytes };
                return self.flood(&flood, finish);
            }
            Item::Cut(count) => {
                self.flood(&Flood { count: *count, delay: Duration::ZERO, bytes: 40 }, None)?;
                return Err(self.cut());
            }
            Item::Hold if finish.is_none() => return Ok(()),
            Item::Break => return Ok(()),
            Item::Garbage => return self.event("{\"candidates\": [ oops"),
            Item::Empty => return Ok(()),
            Item::Finish(reason) => {
                let partial = self.chunk.json(json!([{ "text": "Partial." }]), Some(reason));
                return self.event(&partial.to_string());
            }
            Item::Cite(uri) => {
                let mut cited = self.chunk.json(json!([{ "text": "Cited text." }]), finish);
                let citation = json!({ "citations": [{ "uri": uri, "title": "A source" }] });
                cited["candidates"][0]["citationMetadata"] = citation;
                return self.event(&cited.to_string());
            }
            Item::Hold => json!([]),
            Item::Text(text) => json!([{ "text": text }]),
            Item::Think { subject, description } => {
                json!([{ "text": format!("**{subject}** {description}"), "thought": true }])
            }
            Item::Seal { signature } => json!([{ "text": "", "thoughtSignature": signature }]),
            Item::Calls(calls) => calls.iter().map(Call::part).collect(),
        };
        self.event(&self.chunk.json(parts, finish).to_string())
    }

    /// Breaks the connection.
    pub fn cut(&mut self) -> io::Error {
        // The caller may have gone already; cut is cut.
        let _ = self.out.shutdown(Shutdown::Both);
        gone()
    }

    pub fn end(self) -> io::Result<()> {
        self.out.write_all(b"0\r\n\r\n")
    }

    fn event(&mut self, json: &str) -> io::Result<()> {
        const AROUND: usize = "data: \r\n\r\n".len();
        self.buffer.clear();
        write!(self.buffer, "{:x}\r\ndata: {json}\r\n\r\n\r\n", json.len() + AROUND).expect("writing to a string");
        self.out.write_all(self.buffer.as_bytes())
    }

    /// Text on a fixed schedule. Written without a JSON tree, because this is what benchmarks spend their time in.
    fn flood(&mut self, flood: &Flood, finish: Option<&str>) -> io::Result<()> {
        const HOLE: &str = "<text>";
        let frame = |finish| self.chunk.json(json!([{ "text": HOLE }]), finish).to_string();
        let (middle, last) = (frame(None), frame(finish));
        let mut random = Random::new(self.chunk.number);
        let begin = Instant::now();
        let mut event = String::new();
        for index in 0..flood.count {
            let due = begin + flood.delay * index as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let frame = if index + 1 == flood.count { &last } else { &middle };
            let (before, after) = frame.split_once(HOLE).expect("the placeholder is in the frame");
            event.clear();
            event.push_str(before);
            stamp::write(index, &mut event);
            write_words(&mut random, flood.bytes, &mut event);
            event.push_str(after);
            self.event(&event)?;
        }
        Ok(())
    }
}

struct Flood {
    count: u64,
    delay: Duration,
    bytes: usize,
}

/// Made-up words: repeated text looks like a model caught in a loop, and agents stop it.
fn write_words(random: &mut Random, bytes: usize, out: &mut String) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";
    out.extend((0..bytes).map(|_| char::from(random.one_of(LETTERS))));
}

/// The stream ends here, for whatever reason.
pub fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the stream was broken off")
}
