//! Random requests of clients as bytes, and what is needed to check their responses.

use crate::journals::Journals;
use crate::random::Random;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::limits::Limits;
use serde_json::{Value, json};

/// A request that a client sends.
#[derive(Debug)]
pub struct SentRequest {
    /// The JSON-RPC id. The `User-Agent` contains it, so that the log names the request that caused an event.
    pub number: u64,
    pub what: RequestKind,
    /// The last event of the task on disk when the request was made.
    pub known: Seq,
    /// The connection is closed after the response.
    pub closes: bool,
    /// It accepts a stream. If it is refused, the connection is closed.
    pub accepts_stream: bool,
    /// The first byte of the request in the connection's output, and the first one after it.
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Message {
        task: Option<TaskId>,
        mode: Mode,
        history: Option<usize>,
    },
    Get {
        task: TaskId,
        history: Option<usize>,
    },
    Cancel(TaskId),
    Watch {
        task: TaskId,
        after: Option<Seq>,
    },
    Create,
    Metadata(TaskId),
    AllMetadata,
    Health,
    Card,
    SetHook {
        task: TaskId,
        url: String,
    },
    DropHook(TaskId),
    /// Valid HTTP, but no valid request.
    Nonsense,
    /// Not HTTP, or too long: the server refuses it and closes the connection.
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Stream,
    Wait,
    Now,
}

impl SentRequest {
    pub fn tag(&self) -> String {
        format!("r{}", self.number)
    }

    pub fn streams(&self) -> bool {
        matches!(self.what, RequestKind::Watch { .. } | RequestKind::Message { mode: Mode::Stream, .. })
    }

    pub fn task(&self) -> Option<&TaskId> {
        match &self.what {
            RequestKind::Message { task, .. } => task.as_ref(),
            RequestKind::Get { task, .. }
            | RequestKind::Cancel(task)
            | RequestKind::Watch { task, .. }
            | RequestKind::SetHook { task, .. }
            | RequestKind::DropHook(task)
            | RequestKind::Metadata(task) => Some(task),
            RequestKind::Create
            | RequestKind::AllMetadata
            | RequestKind::Health
            | RequestKind::Card
            | RequestKind::Nonsense
            | RequestKind::Garbage => None,
        }
    }
}

/// Makes the requests of one run, each with its own number.
pub struct Composer {
    next: u64,
}

impl Composer {
    pub fn new() -> Composer {
        Composer { next: 1 }
    }

    /// A random request. Most requests are about tasks that exist.
    pub fn random(&mut self, chance: &mut Random, journals: &Journals, limits: &Limits) -> (SentRequest, Vec<u8>) {
        let tasks = journals.tasks();
        let open: Vec<TaskId> = tasks.iter().filter(|t| journals.is_open(t)).cloned().collect();
        match random_kind(chance, tasks.len(), open.len()) {
            Kind::NewTask => self.new_task(chance, journals),
            Kind::Message => {
                let task = chance.pick(&open).expect("this kind is picked only if a task is open").clone();
                self.message_to(chance, journals, task)
            }
            Kind::Watch => {
                let task = any_task(chance, &tasks);
                let after = random_position(chance, journals.log(&task).map_or(0, |log| log.len()));
                self.watch(chance, journals, task, after)
            }
            Kind::Get => {
                let task = any_task(chance, &tasks);
                let history = [None, Some(0), Some(2)][chance.below(3)];
                let params = json!({"id": task, "historyLength": history});
                self.rpc(chance, journals, "tasks/get", params, RequestKind::Get { task, history })
            }
            Kind::Cancel => {
                let task = any_task(chance, &tasks);
                self.cancel(chance, journals, task)
            }
            Kind::Create => {
                let body = json!({"contextId": context(chance)}).to_string();
                self.plain(chance, journals, "POST /tasks", &body, RequestKind::Create)
            }
            Kind::Metadata => {
                let task = any_task(chance, &tasks);
                let line = format!("GET /tasks/{task}/metadata");
                self.plain(chance, journals, &line, "", RequestKind::Metadata(task))
            }
            Kind::AllMetadata => self.plain(chance, journals, "GET /tasks/metadata", "", RequestKind::AllMetadata),
            Kind::Health => self.plain(chance, journals, "GET /health", "", RequestKind::Health),
            Kind::Card => self.plain(chance, journals, "GET /.well-known/agent-card.json", "", RequestKind::Card),
            Kind::SetHook => {
                let task = any_task(chance, &tasks);
                self.set_hook(chance, journals, task)
            }
            Kind::DropHook => {
                let task = any_task(chance, &tasks);
                self.drop_hook(chance, journals, task)
            }
            Kind::Nonsense => {
                let nonsense = [
                    ("GET /nothing/here", ""),
                    ("DELETE /tasks", ""),
                    ("POST /", "{\"jsonrpc\":"),
                    ("POST /", "[1,2]"),
                ];
                let (line, body) = nonsense[chance.below(4)];
                self.plain(chance, journals, line, body, RequestKind::Nonsense)
            }
            Kind::Garbage => self.garbage(chance, journals, limits),
        }
    }

    pub fn watch(
        &mut self,
        chance: &mut Random,
        journals: &Journals,
        task: TaskId,
        after: Option<Seq>,
    ) -> (SentRequest, Vec<u8>) {
        let params = json!({ "id": task });
        self.rpc(chance, journals, "tasks/resubscribe", params, RequestKind::Watch { task, after })
    }

    pub fn cancel(&mut self, chance: &mut Random, journals: &Journals, task: TaskId) -> (SentRequest, Vec<u8>) {
        let params = json!({ "id": task });
        self.rpc(chance, journals, "tasks/cancel", params, RequestKind::Cancel(task))
    }

    /// Sets a webhook in version 0.3 or 1.0 of the protocol.
    fn set_hook(&mut self, chance: &mut Random, journals: &Journals, task: TaskId) -> (SentRequest, Vec<u8>) {
        let url = self.address();
        let (method, params) = match chance.percent(30) {
            true => (
                "tasks/pushNotificationConfig/set",
                json!({"taskId": task, "pushNotificationConfig": {"id": hook_id(chance), "url": url}}),
            ),
            false => ("CreateTaskPushNotificationConfig", json!({"taskId": task, "id": hook_id(chance), "url": url})),
        };
        let what = RequestKind::SetHook { task, url };
        self.rpc(chance, journals, method, params, what)
    }

    fn drop_hook(&mut self, chance: &mut Random, journals: &Journals, task: TaskId) -> (SentRequest, Vec<u8>) {
        let (method, params) = match chance.percent(50) {
            true => (
                "tasks/pushNotificationConfig/delete",
                json!({"id": task, "pushNotificationConfigId": hook_id(chance)}),
            ),
            false => ("DeleteTaskPushNotificationConfig", json!({"taskId": task, "id": hook_id(chance)})),
        };
        self.rpc(chance, journals, method, params, RequestKind::DropHook(task))
    }

    /// An address that no other webhook has.
    fn address(&self) -> String {
        format!("https://r{}.example/", self.next)
    }

    fn new_task(&mut self, chance: &mut Random, journals: &Journals) -> (SentRequest, Vec<u8>) {
        let mut message = self.message(vec![text_part(chance)]);
        if chance.percent(40) {
            message["contextId"] = json!(context(chance));
        }
        if chance.percent(5) {
            message["metadata"] = json!({"coderAgent": {"kind": "agent-settings", "workspacePath": "/nowhere"}});
        }
        self.send(chance, journals, message, None)
    }

    /// A message with text, answers to open questions, wrong answers, late answers, or several of these.
    fn message_to(&mut self, chance: &mut Random, journals: &Journals, task: TaskId) -> (SentRequest, Vec<u8>) {
        let log = journals.log(&task).expect("an open task is on disk");
        let state = log.last();
        let mut parts = Vec::new();
        for call in state.asked() {
            if chance.percent(60) {
                parts.push(answer(chance, call.id().as_str()));
            }
        }
        if chance.percent(10) {
            let early = chance.pick(&log.states).and_then(|state| state.calls.first());
            let call = early.map_or("no-such-call", |call| call.id().as_str());
            parts.push(answer(chance, call));
        }
        if parts.is_empty() || chance.percent(20) {
            parts.push(text_part(chance));
        }
        let mut message = self.message(parts);
        message["taskId"] = json!(task);
        if chance.percent(3) {
            message["contextId"] = json!("another");
        }
        self.send(chance, journals, message, Some(task))
    }

    fn message(&self, parts: Vec<Value>) -> Value {
        json!({"kind": "message", "messageId": format!("m{}", self.next), "role": "user", "parts": parts})
    }

    fn send(
        &mut self,
        chance: &mut Random,
        journals: &Journals,
        message: Value,
        task: Option<TaskId>,
    ) -> (SentRequest, Vec<u8>) {
        let mode = chance.weighted(&[(6, Mode::Stream), (2, Mode::Wait), (2, Mode::Now)]);
        let history = [None, Some(0), Some(1)][chance.below(3)];
        let blocking = mode != Mode::Now;
        let mut configuration = json!({"blocking": blocking, "historyLength": history});
        if chance.percent(15) {
            configuration["pushNotificationConfig"] = json!({"url": self.address()});
        }
        let params = json!({"message": message, "configuration": configuration});
        let method = match mode {
            Mode::Stream => "message/stream",
            Mode::Wait | Mode::Now => "message/send",
        };
        let what = RequestKind::Message { task, mode, history };
        self.rpc(chance, journals, method, params, what)
    }

    fn rpc(
        &mut self,
        chance: &mut Random,
        journals: &Journals,
        method: &str,
        params: Value,
        what: RequestKind,
    ) -> (SentRequest, Vec<u8>) {
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.plain(chance, journals, "POST /", &body.to_string(), what)
    }

    fn plain(
        &mut self,
        chance: &mut Random,
        journals: &Journals,
        line: &str,
        body: &str,
        what: RequestKind,
    ) -> (SentRequest, Vec<u8>) {
        let (version, connection) = match chance.below(20) {
            0 => ("1.0", ""),
            1 => ("1.1", "Connection: close\r\n"),
            _ => ("1.1", ""),
        };
        let mut request = self.sent_request(what, journals, version == "1.0" || !connection.is_empty());
        let mut line = line.to_owned();
        let mut fields = format!("Host: localhost\r\nUser-Agent: {} sim\r\n{connection}", request.tag());
        if request.streams() && chance.percent(70) {
            fields += "Accept: text/event-stream\r\n";
            request.accepts_stream = true;
        }
        if let RequestKind::Watch { after: Some(after), .. } = &request.what {
            match chance.percent(70) {
                true => fields += &format!("Last-Event-ID: {after}\r\n"),
                false => line += &format!("?after={after}"),
            }
        }
        if !body.is_empty() && version == "1.1" && chance.percent(5) {
            fields += "Expect: 100-continue\r\n";
        }
        let chunked = version == "1.1" && !body.is_empty() && chance.percent(15);
        let framed = match (body, chunked) {
            ("", _) => "\r\n".to_owned(),
            (body, false) => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            (body, true) => {
                let (one, two) = body.split_at(chance.below(body.len() - 1) + 1);
                let chunk = |text: &str| match text {
                    "" => String::new(),
                    text => format!("{:x}\r\n{text}\r\n", text.len()),
                };
                let (one, two) = (chunk(one), chunk(two));
                format!("Transfer-Encoding: chunked\r\n\r\n{one}{two}0\r\n\r\n")
            }
        };
        let kind = match body {
            "" => "",
            _ => "Content-Type: application/json\r\n",
        };
        let bytes = format!("{line} HTTP/{version}\r\n{fields}{kind}{framed}");
        (request, bytes.into_bytes())
    }

    fn garbage(&mut self, chance: &mut Random, journals: &Journals, limits: &Limits) -> (SentRequest, Vec<u8>) {
        let bytes = match chance.below(4) {
            0 => b"this is not HTTP\r\n\r\n".to_vec(),
            1 => {
                let length = limits.body_bytes + 1;
                format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n").into()
            }
            2 => {
                let filler = "x".repeat(limits.head_bytes + 1);
                format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {filler}\r\n\r\n").into()
            }
            _ => b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n".to_vec(),
        };
        (self.sent_request(RequestKind::Garbage, journals, true), bytes)
    }

    fn sent_request(&mut self, what: RequestKind, journals: &Journals, closes: bool) -> SentRequest {
        let number = self.next;
        self.next += 1;
        let mut request = SentRequest { number, what, known: Seq(0), closes, accepts_stream: false, start: 0, end: 0 };
        let log = request.task().and_then(|task| journals.log(task));
        request.known = Seq(log.map_or(0, |log| log.len()));
        request
    }
}

#[derive(Clone, Copy)]
enum Kind {
    NewTask,
    Message,
    Watch,
    Get,
    Cancel,
    Create,
    Metadata,
    AllMetadata,
    Health,
    Card,
    SetHook,
    DropHook,
    Nonsense,
    Garbage,
}

/// A kind of request that fits the number of tasks and of open tasks.
fn random_kind(chance: &mut Random, tasks: usize, open: usize) -> Kind {
    chance.weighted(&[
        (if open < 2 { 40 } else { 6 }, Kind::NewTask),
        (if open == 0 { 0 } else { 30 }, Kind::Message),
        (if tasks == 0 { 0 } else { 20 }, Kind::Watch),
        (6, Kind::Get),
        (1, Kind::Cancel),
        (2, Kind::Create),
        (3, Kind::Metadata),
        (2, Kind::AllMetadata),
        (2, Kind::Health),
        (1, Kind::Card),
        (if tasks == 0 { 0 } else { 5 }, Kind::SetHook),
        (if tasks == 0 { 0 } else { 1 }, Kind::DropHook),
        (1, Kind::Nonsense),
        (1, Kind::Garbage),
    ])
}

/// One of the tasks, sometimes one that does not exist.
fn any_task(chance: &mut Random, tasks: &[TaskId]) -> TaskId {
    match chance.pick(tasks) {
        Some(task) if !chance.percent(3) => task.clone(),
        _ => "no-such-task".into(),
    }
}

/// A position to read a log of `len` events from: the beginning, the end, in between, or beyond the end.
fn random_position(chance: &mut Random, len: u64) -> Option<Seq> {
    match chance.below(10) {
        0..3 => None,
        3 => Some(Seq(len + chance.within(1, 5))),
        4 => Some(Seq(0)),
        5 => Some(Seq(len)),
        _ => Some(Seq(chance.within(0, len))),
    }
}

fn hook_id(chance: &mut Random) -> String {
    format!("h{}", chance.below(3))
}

fn context(chance: &mut Random) -> String {
    format!("context-{}", chance.below(3))
}

fn text_part(chance: &mut Random) -> Value {
    match chance.below(12) {
        0 => json!({"kind": "text", "text": ""}),
        1 => json!({"kind": "text", "text": "long ".repeat(chance.below(80) + 1)}),
        _ => json!({"kind": "text", "text": format!("prompt {}", chance.below(1000))}),
    }
}

fn answer(chance: &mut Random, call: &str) -> Value {
    let outcome = chance.weighted(&[(12, "proceed_once"), (3, "proceed_always"), (4, "cancel"), (1, "perhaps")]);
    let mut data = json!({"callId": call, "outcome": outcome});
    if chance.percent(10) {
        data["newContent"] = json!("as the user wants it");
    }
    json!({"kind": "data", "data": data})
}
