//! The two people: Ann uses the native dialect over a WebSocket and is sent every record of the conversation; Ben uses A2A 0.3 over
//! HTTP, with a stream for each of his messages.

use crate::support::client::{Client, Event, Events, envelope};
use crate::support::socket::Socket;
use serde_json::{Value, json};

/// The profile is derived from a message; a request without a message has to name it.
const CODER: &str = "/?profile=coder";
const JSON: (&str, &str) = ("Content-Type", "application/json");

pub struct Ann {
    socket: Socket,
    /// All records that the server has sent her, oldest first.
    pub records: Vec<Value>,
    /// The first record that [`Ann::until`] has not examined.
    next: usize,
    calls: u64,
}

impl Ann {
    pub fn join(url: &str) -> Ann {
        Ann { socket: socket(url, ""), records: vec![], next: 0, calls: 0 }
    }

    /// Connects again and goes on behind the last record.
    pub fn rejoin(&mut self, url: &str) {
        let last = self.records.last().expect("she has seen something");
        let (task, seq) = (last["task"].as_str().expect("a task"), &last["seq"]);
        self.socket = socket(url, &format!("&after={task}:{seq}"));
    }

    /// Sends a call without waiting for its answer. Returns its id.
    pub fn send(&mut self, call: Value) -> u64 {
        self.calls += 1;
        self.socket.send(&json!({ "id": self.calls, "call": call }));
        self.calls
    }

    /// The answer to a call. Records that arrive before it are stored.
    pub fn reply(&mut self, id: u64) -> Value {
        loop {
            let frame = self.receive();
            if let Some(reply) = frame.filter(|frame| frame["id"] == id) {
                return reply;
            }
        }
    }

    /// The result of a call that is accepted.
    pub fn call(&mut self, call: Value) -> Value {
        let id = self.send(call.clone());
        let mut reply = self.reply(id);
        assert!(reply.get("ok").is_some(), "{call} was answered with {reply}");
        reply["ok"].take()
    }

    /// Reads events until `fact` returns a value for one of them. Returns that value.
    pub fn until<T>(&mut self, mut fact: impl FnMut(&Value) -> Option<T>) -> T {
        loop {
            while let Some(record) = self.records.get(self.next) {
                self.next += 1;
                if let Some(found) = fact(&record["event"]) {
                    return found;
                }
            }
            self.receive();
        }
    }

    /// Reads a frame. A record is stored, any other frame is returned.
    fn receive(&mut self) -> Option<Value> {
        let frame = self.socket.read();
        match frame.get("event") {
            Some(_) => self.records.push(frame),
            None => return Some(frame),
        }
        None
    }
}

impl Drop for Ann {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for record in &self.records[self.records.len().saturating_sub(12)..] {
                eprintln!("{}", record.to_string().chars().take(400).collect::<String>());
            }
        }
    }
}

fn socket(url: &str, more: &str) -> Socket {
    Socket::open(url, &format!("/ws?client=ann{more}"), Some("gemini-a2a.v1"))
}

pub struct Ben {
    pub client: Client,
    open: Option<Events>,
    /// All events that he was sent, in the order of his streams.
    pub events: Vec<Event>,
}

impl Ben {
    pub fn new(url: &str) -> Ben {
        Ben { client: Client::new(url), open: None, events: vec![] }
    }

    /// Reads the previous stream to its end, then sends a message and opens its stream.
    pub fn stream(&mut self, params: Value) {
        self.finish();
        self.open = Some(self.client.stream("message/stream", params));
    }

    /// Reads his stream to its end.
    pub fn finish(&mut self) {
        self.events.extend(self.open.take().into_iter().flatten());
    }

    /// Connects to the new server process and reads the events after the last one he has.
    pub fn rejoin(&mut self, url: &str, task: &str) {
        self.client = Client::new(url);
        let last = self.events.last().and_then(|event| event.id.clone()).expect("he has seen something");
        let missed = self.events_after(task, &last);
        self.events.extend(missed);
    }

    /// Everything behind this event.
    pub fn events_after(&self, task: &str, last: &str) -> Vec<Event> {
        let body = envelope(1, "tasks/resubscribe", json!({ "id": task })).to_string();
        let fields = [JSON, ("Accept", "text/event-stream"), ("Last-Event-ID", last)];
        self.client.events("POST", CODER, &fields, body.as_bytes()).collect()
    }

    /// The task as it is now.
    pub fn task(&mut self, task: &str) -> Value {
        self.client.post(CODER, &envelope(1, "tasks/get", json!({ "id": task }))).json()["result"].take()
    }

    /// The data of a slash command.
    pub fn command(&mut self, command: &str, args: &[&str]) -> Value {
        let answer = self.client.post("/executeCommand", &json!({ "command": command, "args": args }));
        assert_eq!(answer.status(), 200, "{}", answer.text());
        answer.json()["data"].take()
    }
}
