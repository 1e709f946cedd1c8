//! A client of one binding at a server of its own, with the kit's script behind it. What it asks is checked on the way back by
//! the rules every answer of its binding obeys, so that a story only says what is particular to it.

use crate::binding::{Binding, Frame, Hook, Note, Op, Version, Wire};
use crate::problem::{Fault, Refusal};
use crate::shape::{self, Answer, Said, Task, Update};
use crate::support::client::{Client, Events, Response};
use crate::support::http::Head;
use crate::support::message::fresh;
use crate::support::server::{Server, Setup};
use serde_json::{Value, json};
use std::sync::Arc;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kit.script.json");

pub struct Desk {
    pub server: Arc<Server>,
    pub binding: Binding,
    pub client: Client,
}

impl Desk {
    pub fn with(binding: Binding, flags: &[&[&str]]) -> Desk {
        let mut setup = Setup::without_model().arg("--script").arg(SCRIPT);
        for flag in flags.iter().copied().flatten() {
            setup = setup.arg(flag);
        }
        Desk::of(Arc::new(setup.start()), binding)
    }

    fn of(server: Arc<Server>, binding: Binding) -> Desk {
        let client = Client::new(&server.url());
        let client = match binding.version() {
            Version::V03 => client,
            Version::V10 => client.field("A2A-Version", "1.0"),
        };
        Desk { server, binding, client }
    }

    /// A further client of the same server.
    pub fn beside(&self, binding: Binding) -> Desk {
        Desk::of(self.server.clone(), binding)
    }

    pub fn is(&self, version: Version) -> bool {
        self.binding.version() == version
    }

    pub fn ask(&mut self, op: &Op) -> Result<Value, Refusal> {
        let id = json!(fresh());
        let wire = self.binding.wire(op, &id);
        let response = self.put(&wire, &[]);
        outcome(self.binding, &response.head, response.json(), &id)
    }

    /// The result of something that is expected to work.
    pub fn done(&mut self, op: &Op) -> Value {
        let result = self.ask(op);
        result.unwrap_or_else(|refusal| panic!("{:?} {op:?}: {refusal:?}", self.binding))
    }

    /// Something that is expected to be refused so, whether it asks for a stream or not.
    pub fn refused(&mut self, op: &Op, fault: Fault) -> Refusal {
        let binding = self.binding;
        let refusal = match op.streams() {
            false => self.ask(op).expect_err("a refusal"),
            // Clients of JSON-RPC 0.3 that asked for a stream refuse any other answer.
            true => match (self.watch_with(op, &[]), binding) {
                (Ok(watch), Binding::Rpc03) => watch.refusal(),
                (Err(refusal), Binding::Rest03 | Binding::Rpc10 | Binding::Rest10) => refusal,
                (Err(refusal), Binding::Rpc03) => panic!("outside of the stream: {refusal:?}"),
                (Ok(watch), _) => panic!("{binding:?} {op:?}: {:?}", watch.collect::<Vec<_>>()),
            },
        };
        refusal.check(self.binding, fault);
        refusal
    }

    pub fn send(&mut self, note: Note) -> Answer {
        let result = self.done(&Op::Send(note));
        shape::answer(self.binding, &result)
    }

    /// The task a message has made or moved.
    pub fn task(&mut self, note: Note) -> Task {
        match self.send(note) {
            Answer::Task(task) => task,
            Answer::Message(said) => panic!("{:?}: a bare message: {said:?}", self.binding),
        }
    }

    pub fn message(&mut self, note: Note) -> Said {
        match self.send(note) {
            Answer::Message(said) => said,
            Answer::Task(task) => panic!("{:?}: a task: {task:?}", self.binding),
        }
    }

    pub fn get(&mut self, task: &str) -> Task {
        let result = self.done(&Op::Get(task.into(), None));
        shape::task(self.binding, &result)
    }

    pub fn get_some(&mut self, task: &str, history: i64) -> Task {
        let result = self.done(&Op::Get(task.into(), Some(history)));
        shape::task(self.binding, &result)
    }

    pub fn cancel(&mut self, task: &str) -> Task {
        let result = self.done(&Op::Cancel(task.into()));
        shape::task(self.binding, &result)
    }

    pub fn stream(&self, note: Note) -> Watch {
        self.watch(&Op::Stream(note))
    }

    pub fn subscribe(&self, task: &str) -> Watch {
        self.watch(&Op::Subscribe(task.into()))
    }

    pub fn watch(&self, op: &Op) -> Watch {
        let watch = self.watch_with(op, &[]);
        watch.unwrap_or_else(|refusal| panic!("{:?} {op:?}: {refusal:?}", self.binding))
    }

    /// Opens a stream, with further header fields.
    pub fn watch_with(&self, op: &Op, fields: &[(&str, &str)]) -> Result<Watch, Refusal> {
        let id = json!(fresh());
        let wire = self.binding.wire(op, &id);
        self.open(&wire, id, fields)
    }

    /// Opens a stream by a request the test has changed.
    pub fn open(&self, wire: &Wire, id: Value, fields: &[(&str, &str)]) -> Result<Watch, Refusal> {
        let body = body_of(wire);
        let mut all = fields_of(wire);
        all.push(("Accept", "text/event-stream"));
        all.extend_from_slice(fields);
        let events = self.client.events(wire.method, &wire.path, &all, &body);
        let mut watch = Watch { binding: self.binding, id, events };
        if watch.head().is_event_stream() {
            return Ok(watch);
        }
        let head = watch.head().clone();
        let body = watch.events.next().expect("the body of a refusal");
        match outcome(self.binding, &head, body.json, &watch.id) {
            Err(refusal) => Err(refusal),
            Ok(result) => panic!("{:?}: no stream but {result}", self.binding),
        }
    }

    pub fn set_hook(&mut self, task: &str, hook: &Hook) -> Value {
        self.done(&Op::SetHook(task.into(), hook.clone()))
    }

    /// Sends a request as it is.
    pub fn put(&mut self, wire: &Wire, fields: &[(&str, &str)]) -> Response {
        let body = body_of(wire);
        let mut all = fields_of(wire);
        all.extend_from_slice(fields);
        self.client.request(wire.method, &wire.path, &all, &body)
    }

    /// Sends a request that the test has changed, and reads its outcome by the rules of the binding.
    pub fn put_as(&mut self, wire: &Wire, id: &Value, fields: &[(&str, &str)]) -> Result<Value, Refusal> {
        let response = self.put(wire, fields);
        outcome(self.binding, &response.head, response.json(), id)
    }

    /// Reads the outcome of a request that the test has made itself.
    pub fn read(&self, response: &Response, id: &Value) -> Result<Value, Refusal> {
        outcome(self.binding, &response.head, response.json(), id)
    }

    /// How many tasks the server has made.
    pub fn tasks(&mut self) -> u64 {
        let health = self.client.get("/health").json();
        let total = health["totalTasks"].as_u64();
        total.unwrap_or_else(|| panic!("no count in {health}"))
    }
}

/// A stream being read.
pub struct Watch {
    binding: Binding,
    id: Value,
    events: Events,
}

/// One event as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub seq: u64,
    /// What is in the envelope.
    pub payload: Value,
    pub update: Update,
}

impl Watch {
    pub fn head(&self) -> &Head {
        self.events.head()
    }

    /// Reads on to the first event that fits.
    pub fn until(&mut self, what: &str, fits: impl Fn(&Update) -> bool) -> Seen {
        let found = self.find(|seen| fits(&seen.update));
        found.unwrap_or_else(|| panic!("{:?}: the stream ended without {what}", self.binding))
    }

    /// All of it to its end, held against the rules for a stream of this version that begins with a task.
    pub fn whole(self) -> Vec<Seen> {
        let binding = self.binding;
        let seen: Vec<Seen> = self.collect();
        let first = seen.first().unwrap_or_else(|| panic!("{binding:?}: nothing in the stream"));
        assert!(
            matches!(first.update, Update::Task(_)),
            "{binding:?}: a stream begins with the task, not with {first:?}"
        );
        ends_well(binding, &seen);
        seen
    }

    /// All of it, where it begins in the middle.
    pub fn rest(self) -> Vec<Seen> {
        let binding = self.binding;
        let seen: Vec<Seen> = self.collect();
        ends_well(binding, &seen);
        seen
    }

    /// The refusal inside a stream that did not come to its first event.
    pub fn refusal(self) -> Refusal {
        let head = self.head().clone();
        let (binding, id) = (self.binding, self.id.clone());
        let frames: Vec<Value> = self.events.map(|event| event.json).collect();
        let [frame] = frames.as_slice() else {
            panic!("{binding:?}: one frame with the error, not {frames:?}");
        };
        assert_eq!((&frame["jsonrpc"], &frame["id"]), (&json!("2.0"), &id), "{frame}");
        Refusal { http: head.status(), media: "application/json".into(), error: frame["error"].clone() }
    }
}

impl Iterator for Watch {
    type Item = Seen;

    fn next(&mut self) -> Option<Seen> {
        let event = self.events.next()?;
        let payload = match self.binding.frame() {
            Frame::Rpc => result(self.binding, &event.json, &self.id)
                .unwrap_or_else(|error| panic!("{:?}: an error in the stream: {error}", self.binding)),
            Frame::Rest => event.json,
        };
        let update = shape::update(self.binding, &payload);
        let seq = match (&update, event.id.as_deref()) {
            // It is in no task's log, so there is no position to go on from.
            (Update::Message(_), None) => 0,
            (_, id) => id
                .and_then(|id| id.parse().ok())
                .unwrap_or_else(|| panic!("{:?}: an event without a position: {payload}", self.binding)),
        };
        Some(Seen { seq, payload, update })
    }
}

/// The texts and states of events, for telling a story in one line.
pub fn states(seen: &[Seen]) -> Vec<&'static str> {
    let mut states: Vec<&'static str> = seen.iter().filter_map(|seen| seen.update.state()).collect();
    states.dedup();
    states
}

fn ends_well(binding: Binding, seen: &[Seen]) {
    let positions: Vec<u64> = seen.iter().map(|seen| seen.seq).collect();
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{binding:?}: positions rise: {positions:?}");
    let (last, before) = seen.split_last().expect("at least one event");
    let tasks = seen.iter().skip(1).filter(|seen| matches!(seen.update, Update::Task(_)));
    assert_eq!(tasks.count(), 0, "{binding:?}: one task per stream, at its beginning");
    assert!(!before.iter().any(|seen| seen.update.is_last()), "{binding:?}: only the last event is final: {seen:#?}");
    let lone = seen.len() == 1;
    if binding.version() == Version::V03 && !lone {
        assert!(last.update.is_last(), "{binding:?}: the last event is final: {last:?}");
    }
}

fn fields_of(wire: &Wire) -> Vec<(&'static str, &'static str)> {
    match (wire.method, &wire.body) {
        ("POST", None) => vec![("Content-Type", "application/json"), ("Content-Length", "0")],
        ("POST", Some(_)) => vec![("Content-Type", "application/json")],
        _ => vec![],
    }
}

fn body_of(wire: &Wire) -> Vec<u8> {
    let body = wire.body.as_ref().map(Value::to_string);
    body.unwrap_or_default().into_bytes()
}

fn outcome(binding: Binding, head: &Head, body: Value, id: &Value) -> Result<Value, Refusal> {
    let media = head.field("content-type").unwrap_or("").split(';').next();
    let media = media.unwrap_or("").trim().to_owned();
    let refusal = |error: Value| Refusal { http: head.status(), media: media.clone(), error };
    match binding.frame() {
        Frame::Rpc => match result(binding, &body, id) {
            Ok(result) => {
                assert_eq!((head.status(), media.as_str()), (200, "application/json"));
                Ok(result)
            }
            Err(error) => Err(refusal(error)),
        },
        Frame::Rest if head.status() == 200 => {
            assert_eq!(media, "application/json", "{binding:?}: {body}");
            Ok(body)
        }
        Frame::Rest => Err(refusal(body)),
    }
}

/// What is in a JSON-RPC envelope, which is checked to be one, to be ours, and to hold one of both.
fn result(binding: Binding, body: &Value, id: &Value) -> Result<Value, Value> {
    assert_eq!(body["jsonrpc"], "2.0", "{binding:?}: {body}");
    assert_eq!(body.get("id"), Some(id), "{binding:?}: {body}");
    match (body.get("result"), body.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (None, Some(error)) => Err(error.clone()),
        _ => panic!("{binding:?}: exactly one of result and error in {body}"),
    }
}
