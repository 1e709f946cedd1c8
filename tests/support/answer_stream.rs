//! The answers of the fake model: script items as chunks of the Gemini API, in an event stream with one write per chunk, as the real API
//! sends them.

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

/// The values that every chunk of one answer repeats.
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

/// One answer that is being sent.
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

    /// Sends one item; `finish` is the finish reason of the last item of an answer.
    pub fn send(&mut self, item: &Item, finish: Option<&str>) -> io::Result<()> {
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
        // Fails if the caller has closed the connection already.
        let _ = self.out.shutdown(Shutdown::Both);
        aborted()
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

    /// Stamped text on a fixed schedule. Written without a JSON tree, because benchmarks send most of their chunks here.
    fn flood(&mut self, flood: &Flood, finish: Option<&str>) -> io::Result<()> {
        const PLACEHOLDER: &str = "<text>";
        let frame = |finish| self.chunk.json(json!([{ "text": PLACEHOLDER }]), finish).to_string();
        let (middle, last) = (frame(None), frame(finish));
        let mut random = Random::new(self.chunk.number);
        let begin = Instant::now();
        let mut event = String::new();
        for index in 0..flood.count {
            let due = begin + flood.delay * index as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let frame = if index + 1 == flood.count { &last } else { &middle };
            let (before, after) = frame.split_once(PLACEHOLDER).expect("the placeholder is in the frame");
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

/// Random words: agents stop a model that repeats the same text.
fn write_words(random: &mut Random, bytes: usize, out: &mut String) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";
    out.extend((0..bytes).map(|_| char::from(random.one_of(LETTERS))));
}

/// The error of a stream that was broken off, by the script or by the caller.
pub fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the stream was broken off")
}
