//! A client that uses one binding, and a server with the script of the kit. The harness checks every response by the rules that apply to
//! all responses of the binding, so that a test only checks what is particular to it.

use crate::binding::{Binding, Frame, HttpRequest, Op, Prompt, Version, Webhook};
use crate::problem::{Fault, Refusal};
use crate::shape::{self, Answer, Message, Task, Update};
use crate::support::client::{Client, Events, Response};
use crate::support::http::Head;
use crate::support::message::fresh;
use crate::support::server::{Server, Setup};
use serde_json::{Value, json};
use std::sync::Arc;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kit.script.json");

pub struct Harness {
    pub server: Arc<Server>,
    pub binding: Binding,
    pub client: Client,
}

impl Harness {
    /// Starts a server with these flags.
    pub fn with(binding: Binding, flags: &[&[&str]]) -> Harness {
        let mut setup = Setup::without_model().arg("--script").arg(SCRIPT);
        for flag in flags.iter().copied().flatten() {
            setup = setup.arg(flag);
        }
        Harness::of(Arc::new(setup.start()), binding)
    }

    fn of(server: Arc<Server>, binding: Binding) -> Harness {
        let client = Client::new(&server.url());
        let client = match binding.version() {
            Version::V03 => client,
            Version::V10 => client.field("A2A-Version", "1.0"),
        };
        Harness { server, binding, client }
    }

    /// A further client of the same server.
    pub fn other_client(&self, binding: Binding) -> Harness {
        Harness::of(self.server.clone(), binding)
    }

    pub fn is(&self, version: Version) -> bool {
        self.binding.version() == version
    }

    pub fn call(&mut self, op: &Op) -> Result<Value, Refusal> {
        let id = json!(fresh());
        let request = self.binding.request(op, &id);
        let response = self.send_request(&request, &[]);
        outcome(self.binding, &response.head, response.json(), &id)
    }

    /// The result of an operation that must succeed.
    pub fn expect_result(&mut self, op: &Op) -> Value {
        let result = self.call(op);
        result.unwrap_or_else(|refusal| panic!("{:?} {op:?}: {refusal:?}", self.binding))
    }

    /// Checks that an operation, which may ask for a stream, is refused with this error.
    pub fn expect_refusal(&mut self, op: &Op, fault: Fault) -> Refusal {
        let binding = self.binding;
        let refusal = match op.streams() {
            false => self.call(op).expect_err("a refusal"),
            // Clients of JSON-RPC 0.3 that asked for a stream refuse any other answer.
            true => match (self.try_stream(op, &[]), binding) {
                (Ok(stream), Binding::Rpc03) => stream.refusal(),
                (Err(refusal), Binding::Rest03 | Binding::Rpc10 | Binding::Rest10) => refusal,
                (Err(refusal), Binding::Rpc03) => panic!("outside of the stream: {refusal:?}"),
                (Ok(stream), _) => panic!("{binding:?} {op:?}: {:?}", stream.collect::<Vec<_>>()),
            },
        };
        refusal.check(self.binding, fault);
        refusal
    }

    pub fn send(&mut self, prompt: Prompt) -> Answer {
        let result = self.expect_result(&Op::Send(prompt));
        shape::answer(self.binding, &result)
    }

    /// Sends a message, and returns the task of the response.
    pub fn task(&mut self, prompt: Prompt) -> Task {
        match self.send(prompt) {
            Answer::Task(task) => task,
            Answer::Message(message) => panic!("{:?}: a bare message: {message:?}", self.binding),
        }
    }

    /// Sends a message, and returns the message of the response.
    pub fn message(&mut self, prompt: Prompt) -> Message {
        match self.send(prompt) {
            Answer::Message(message) => message,
            Answer::Task(task) => panic!("{:?}: a task: {task:?}", self.binding),
        }
    }

    pub fn get(&mut self, task: &str) -> Task {
        let result = self.expect_result(&Op::Get(task.into(), None));
        shape::task(self.binding, &result)
    }

    pub fn get_with_history(&mut self, task: &str, history: i64) -> Task {
        let result = self.expect_result(&Op::Get(task.into(), Some(history)));
        shape::task(self.binding, &result)
    }

    pub fn cancel(&mut self, task: &str) -> Task {
        let result = self.expect_result(&Op::Cancel(task.into()));
        shape::task(self.binding, &result)
    }

    pub fn stream(&self, prompt: Prompt) -> EventStream {
        self.open_stream(&Op::Stream(prompt))
    }

    pub fn subscribe(&self, task: &str) -> EventStream {
        self.open_stream(&Op::Subscribe(task.into()))
    }

    pub fn open_stream(&self, op: &Op) -> EventStream {
        let stream = self.try_stream(op, &[]);
        stream.unwrap_or_else(|refusal| panic!("{:?} {op:?}: {refusal:?}", self.binding))
    }

    /// Opens a stream with further header fields. The error is the response when there is no stream.
    pub fn try_stream(&self, op: &Op, fields: &[(&str, &str)]) -> Result<EventStream, Refusal> {
        let id = json!(fresh());
        let request = self.binding.request(op, &id);
        self.try_stream_of(&request, id, fields)
    }

    /// Opens a stream with a request that the test has changed.
    pub fn try_stream_of(
        &self,
        request: &HttpRequest,
        id: Value,
        fields: &[(&str, &str)],
    ) -> Result<EventStream, Refusal> {
        let body = body_of(request);
        let mut all = fields_of(request);
        all.push(("Accept", "text/event-stream"));
        all.extend_from_slice(fields);
        let events = self.client.events(request.method, &request.path, &all, &body);
        let mut stream = EventStream { binding: self.binding, id, events };
        if stream.head().is_event_stream() {
            return Ok(stream);
        }
        let head = stream.head().clone();
        let body = stream.events.next().expect("the body of a refusal");
        match outcome(self.binding, &head, body.json, &stream.id) {
            Err(refusal) => Err(refusal),
            Ok(result) => panic!("{:?}: no stream but {result}", self.binding),
        }
    }

    pub fn set_webhook(&mut self, task: &str, webhook: &Webhook) -> Value {
        self.expect_result(&Op::SetWebhook(task.into(), webhook.clone()))
    }

    /// Sends a request as it is.
    pub fn send_request(&mut self, request: &HttpRequest, fields: &[(&str, &str)]) -> Response {
        let body = body_of(request);
        let mut all = fields_of(request);
        all.extend_from_slice(fields);
        self.client.request(request.method, &request.path, &all, &body)
    }

    /// Sends a request that the test has changed, and parses the response by the rules of the binding.
    pub fn result_of(&mut self, request: &HttpRequest, id: &Value, fields: &[(&str, &str)]) -> Result<Value, Refusal> {
        let response = self.send_request(request, fields);
        outcome(self.binding, &response.head, response.json(), id)
    }

    /// Parses the response to a request that the test has sent itself.
    pub fn parse(&self, response: &Response, id: &Value) -> Result<Value, Refusal> {
        outcome(self.binding, &response.head, response.json(), id)
    }

    /// The number of tasks that the server has created.
    pub fn task_count(&mut self) -> u64 {
        let health = self.client.get("/health").json();
        let total = health["totalTasks"].as_u64();
        total.unwrap_or_else(|| panic!("no count in {health}"))
    }
}

/// The events of a stream, parsed and checked as they are read.
pub struct EventStream {
    binding: Binding,
    id: Value,
    events: Events,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEvent {
    pub seq: u64,
    /// The content of the event, without the JSON-RPC envelope.
    pub payload: Value,
    pub update: Update,
}

impl EventStream {
    pub fn head(&self) -> &Head {
        self.events.head()
    }

    /// Reads up to the first event that fits.
    pub fn until(&mut self, what: &str, fits: impl Fn(&Update) -> bool) -> StreamEvent {
        let found = self.find(|event| fits(&event.update));
        found.unwrap_or_else(|| panic!("{:?}: the stream ended without {what}", self.binding))
    }

    /// Reads a stream that begins with the task to its end, and checks it by the rules of the version.
    pub fn whole(self) -> Vec<StreamEvent> {
        let binding = self.binding;
        let events: Vec<StreamEvent> = self.collect();
        let first = events.first().unwrap_or_else(|| panic!("{binding:?}: nothing in the stream"));
        assert!(
            matches!(first.update, Update::Task(_)),
            "{binding:?}: a stream begins with the task, not with {first:?}"
        );
        ends_well(binding, &events);
        events
    }

    /// Reads a stream that begins after other events to its end, and checks its end.
    pub fn rest(self) -> Vec<StreamEvent> {
        let binding = self.binding;
        let events: Vec<StreamEvent> = self.collect();
        ends_well(binding, &events);
        events
    }

    /// The error that is the only event of a stream.
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

impl Iterator for EventStream {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        let event = self.events.next()?;
        let payload = match self.binding.frame() {
            Frame::Rpc => result(self.binding, &event.json, &self.id)
                .unwrap_or_else(|error| panic!("{:?}: an error in the stream: {error}", self.binding)),
            Frame::Rest => event.json,
        };
        let update = shape::update(self.binding, &payload);
        let seq = match (&update, event.id.as_deref()) {
            // A bare message is in the log of no task, so it has no position.
            (Update::Message(_), None) => 0,
            (_, id) => id
                .and_then(|id| id.parse().ok())
                .unwrap_or_else(|| panic!("{:?}: an event without a position: {payload}", self.binding)),
        };
        Some(StreamEvent { seq, payload, update })
    }
}

/// The states of the task in these events, each change once.
pub fn states(events: &[StreamEvent]) -> Vec<&'static str> {
    let mut states: Vec<&'static str> = events.iter().filter_map(|event| event.update.state()).collect();
    states.dedup();
    states
}

fn ends_well(binding: Binding, events: &[StreamEvent]) {
    let positions: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{binding:?}: positions rise: {positions:?}");
    let (last, before) = events.split_last().expect("at least one event");
    let tasks = events.iter().skip(1).filter(|event| matches!(event.update, Update::Task(_)));
    assert_eq!(tasks.count(), 0, "{binding:?}: one task per stream, at its beginning");
    assert!(
        !before.iter().any(|event| event.update.is_last()),
        "{binding:?}: only the last event is final: {events:#?}"
    );
    let lone = events.len() == 1;
    if binding.version() == Version::V03 && !lone {
        assert!(last.update.is_last(), "{binding:?}: the last event is final: {last:?}");
    }
}

fn fields_of(request: &HttpRequest) -> Vec<(&'static str, &'static str)> {
    match (request.method, &request.body) {
        ("POST", None) => vec![("Content-Type", "application/json"), ("Content-Length", "0")],
        ("POST", Some(_)) => vec![("Content-Type", "application/json")],
        _ => vec![],
    }
}

fn body_of(request: &HttpRequest) -> Vec<u8> {
    let body = request.body.as_ref().map(Value::to_string);
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

/// The result or the error in a JSON-RPC response. Checks that it is a response, that it has this id, and that it has exactly one of both.
fn result(binding: Binding, body: &Value, id: &Value) -> Result<Value, Value> {
    assert_eq!(body["jsonrpc"], "2.0", "{binding:?}: {body}");
    assert_eq!(body.get("id"), Some(id), "{binding:?}: {body}");
    match (body.get("result"), body.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (None, Some(error)) => Err(error.clone()),
        _ => panic!("{binding:?}: exactly one of result and error in {body}"),
    }
}
