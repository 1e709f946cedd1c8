//! A fake agent, which answers with a function of the test and records the requests.

use crate::support::http::{Head, Message, Side};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Clone, Debug)]
pub struct Heard {
    pub head: Head,
    pub body: Value,
}

impl Heard {
    /// The JSON-RPC method, or the path.
    pub fn what(&self) -> String {
        self.body["method"].as_str().unwrap_or(self.head.target()).to_owned()
    }
}

pub enum Say {
    Json(u16, Value),
    /// A whole stream.
    Events(Vec<Value>),
    /// This event again and again.
    Flood(Value),
    /// These events, and then nothing; the connection stays open.
    Hang(Vec<Value>),
    Redirect(String),
}

pub struct FakeAgent {
    pub url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl FakeAgent {
    /// Starts an agent. `answer` gets each request and the agent's own URL.
    pub fn start(answer: impl Fn(&Heard, &str) -> Say + Send + Sync + 'static) -> FakeAgent {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let (all, own, answer) = (heard.clone(), url.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, own, answer) = (all.clone(), own.clone(), answer.clone());
                thread::spawn(move || {
                    // The caller may hang up at any time.
                    let _ = serve(stream, &all, &|heard| answer(heard, &own));
                });
            }
        });
        FakeAgent { url, heard }
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("no test panics with it").clone()
    }

    pub fn methods(&self) -> Vec<String> {
        self.heard().iter().map(Heard::what).collect()
    }

    pub fn members(&self) -> String {
        format!("agent_card_url: {}/card\n", self.url)
    }
}

fn serve(mut stream: TcpStream, all: &Mutex<Vec<Heard>>, answer: &dyn Fn(&Heard) -> Say) -> std::io::Result<()> {
    let (mut message, mut body, mut bytes) = (Message::new(Side::Request), Vec::new(), [0; 4096]);
    while !message.is_done() {
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        message.feed(&bytes[..count], &mut body).map_err(std::io::Error::other)?;
    }
    let head = message.head().expect("it is whole").clone();
    let heard = Heard { head, body: serde_json::from_slice(&body).unwrap_or_default() };
    all.lock().expect("no test panics with it").push(heard.clone());
    let id = heard.body["id"].clone();
    let wrap = |event: Value| match heard.body["jsonrpc"].is_string() {
        true => json!({ "jsonrpc": "2.0", "id": id, "result": event }),
        false => event,
    };
    let stream_head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    match answer(&heard) {
        Say::Json(status, value) => {
            let value = if status == 200 && value.get("error").is_none() { wrap(value) } else { value };
            let text = value.to_string();
            let length = text.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            )?;
        }
        Say::Events(events) => {
            write!(stream, "{stream_head}")?;
            events.into_iter().try_for_each(|event| write!(stream, "data: {}\n\n", wrap(event)))?;
        }
        Say::Flood(event) => {
            write!(stream, "{stream_head}")?;
            let text = format!("data: {}\n\n", wrap(event));
            loop {
                stream.write_all(text.as_bytes())?;
            }
        }
        Say::Hang(events) => {
            write!(stream, "{stream_head}")?;
            events.into_iter().try_for_each(|event| write!(stream, "data: {}\n\n", wrap(event)))?;
            std::io::copy(&mut stream, &mut std::io::sink())?;
        }
        Say::Redirect(to) => {
            write!(stream, "HTTP/1.1 302 X\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        }
    }
    Ok(())
}
