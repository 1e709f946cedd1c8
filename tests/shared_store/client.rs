//! Requests of the tests to instances. Interrupted streams are normal results, because instances are killed.

use super::instance::Instance;
use crate::support::PATIENCE;
use crate::support::client::{Client, Event, envelope};
use crate::support::http::{Message, Side};
use crate::support::message::{asked_of, fresh, prompt, task_of};
use crate::support::sse::Sse;
use serde_json::{Value, json};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Whether the reader of a stream continues after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    Stop,
}

/// How reading a stream ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The server ended the stream.
    Whole,
    /// The reader stopped.
    Stopped,
    /// The server answered with this error, instead of a stream or at its end.
    Refused(Value),
    /// The connection broke or was silent for too long.
    Broken(String),
}

/// Follows a task from the event after `after` and calls `each` with each event. The stream counts as broken if no event arrives for `patience`.
pub fn follow(url: &str, task: &str, after: u64, patience: Duration, mut each: impl FnMut(Event) -> Next) -> End {
    let body = envelope(fresh(), "tasks/resubscribe", json!({ "id": task })).to_string();
    let after = after.to_string();
    let fields =
        [("Content-Type", "application/json"), ("Accept", "text/event-stream"), ("Last-Event-ID", after.as_str())];
    let request = Client::new(url).bytes("POST", "/", &fields, body.as_bytes());
    read_stream(url, &request, patience, &mut each).unwrap_or_else(|error| End::Broken(error.to_string()))
}

fn read_stream(url: &str, request: &[u8], patience: Duration, each: &mut impl FnMut(Event) -> Next) -> io::Result<End> {
    let mut connection = TcpStream::connect(url.trim_start_matches("http://"))?;
    connection.set_read_timeout(Some(Duration::from_millis(500)))?;
    io::Write::write_all(&mut connection, request)?;
    let (mut message, mut sse) = (Message::new(Side::Response), Sse::default());
    let mut last = Instant::now();
    while !message.is_done() {
        let mut bytes = [0; 16 * 1024];
        match io::Read::read(&mut connection, &mut bytes) {
            Ok(0) => message.close().map_err(io::Error::other)?,
            Ok(count) => message.feed(&bytes[..count], sse.input()).map_err(io::Error::other)?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if last.elapsed() > patience {
            return Err(io::Error::other(format!("no event for {patience:?}")));
        }
        if message.head().is_none_or(|head| !head.is_event_stream()) {
            continue;
        }
        for event in events(&mut sse)? {
            last = Instant::now();
            if event.json["error"].is_object() {
                return Ok(End::Refused(event.json));
            }
            if each(event) == Next::Stop {
                return Ok(End::Stopped);
            }
        }
    }
    match message.head().is_some_and(|head| head.is_event_stream()) {
        true => Ok(End::Whole),
        false => Ok(End::Refused(serde_json::from_slice(sse.input()).unwrap_or_default())),
    }
}

fn events(sse: &mut Sse) -> io::Result<Vec<Event>> {
    let mut events = vec![];
    sse.drain(|frame| {
        let json = serde_json::from_str(&frame.data).unwrap_or_else(|error| panic!("{error} in {}", frame.data));
        events.push(Event { id: frame.id.map(str::to_owned), name: frame.name.map(str::to_owned), json });
    })
    .map_err(io::Error::other)?;
    Ok(events)
}

/// The number of an event in the log of its task.
pub fn number(event: &Event) -> u64 {
    let number = event.id.as_deref().and_then(|id| id.parse().ok());
    number.unwrap_or_else(|| panic!("an event without a number: {event:?}"))
}

/// Reads all events of a task that is at rest, from the first one.
pub fn whole(instance: &Instance, task: &str) -> Vec<Event> {
    whole_at(&instance.url(), task)
}

/// Like [`whole`], for the instance at a URL.
pub fn whole_at(url: &str, task: &str) -> Vec<Event> {
    let mut events = vec![];
    let end = follow(url, task, 0, PATIENCE, |event| {
        events.push(event);
        Next::Continue
    });
    assert_eq!(end, End::Whole, "reading {task} at {url} after {} events", events.len());
    events
}

/// The part of an event that is the same for every reader: its number and its body, without `final` and the token counts, which depend on
/// the stream.
pub fn content(event: &Event) -> (u64, Value) {
    let mut result = event.result().clone();
    if let Some(result) = result.as_object_mut() {
        result.remove("final");
    }
    if let Some(metadata) = result.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("usageMetadata");
    }
    (number(event), result)
}

pub fn contents(events: &[Event]) -> Vec<(u64, Value)> {
    events.iter().map(content).collect()
}

/// Sends a prompt to a new task and waits until the task is at rest. Returns its id.
pub fn run(instance: &Instance, script: &str) -> String {
    let task = instance.client().call("message/send", prompt(script));
    task_of(&task).unwrap_or_else(|| panic!("no task in {task}")).to_owned()
}

/// Sends a prompt to a new task whose only call needs approval. Returns the task and the call.
pub fn ask(instance: &Instance, script: &str) -> (String, String) {
    let task = run(instance, script);
    let asked = whole(instance, &task).iter().rev().find_map(|event| asked_of(event.result()).map(str::to_owned));
    (task, asked.expect("a call that asks"))
}

pub fn get(instance: &Instance, task: &str) -> Value {
    instance.client().call("tasks/get", json!({ "id": task }))
}

/// Changes a request so that it does not wait for the end of the turn.
pub fn without_waiting(mut params: Value) -> Value {
    params["configuration"] = json!({ "blocking": false });
    params
}

/// Sends a message by the REST binding of A2A 0.3. Returns the HTTP status and the reason of an error.
pub fn status_of_sending(instance: &Instance, params: &Value) -> (u16, Value) {
    let response = instance.client().post("/v1/message:send", params);
    (response.status(), response.json()["data"]["reason"].clone())
}
