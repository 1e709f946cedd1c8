//! Requests: what a client may think of asking, as bytes, and what has to be remembered to judge the answer.

use crate::chance::Chance;
use crate::ledger::Ledger;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::limits::Limits;
use serde_json::{Value, json};

/// A request that was composed.
#[derive(Debug)]
pub struct Ask {
    /// The JSON-RPC id; the client's name (`User-Agent`) is made of it, so that the log says which request did what.
    pub number: u64,
    pub what: What,
    /// How much of the task was on disk when this was composed.
    pub known: Seq,
    /// The connection is over after the answer.
    pub closes: bool,
    /// It says that it can take a stream: a connection that is refused one is over.
    pub hopes: bool,
    /// Where in the connection's output the request begins and ends.
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Say {
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
    /// Understood as HTTP and as nothing else.
    Nonsense,
    /// Not HTTP, or too much of it: refused, and the connection with it.
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Stream,
    Wait,
    Now,
}

impl Ask {
    pub fn tag(&self) -> String {
        format!("r{}", self.number)
    }

    pub fn streams(&self) -> bool {
        matches!(self.what, What::Watch { .. } | What::Say { mode: Mode::Stream, .. })
    }

    pub fn task(&self) -> Option<&TaskId> {
        match &self.what {
            What::Say { task, .. } => task.as_ref(),
            What::Get { task, .. }
            | What::Cancel(task)
            | What::Watch { task, .. }
            | What::SetHook { task, .. }
            | What::DropHook(task)
            | What::Metadata(task) => Some(task),
            What::Create | What::AllMetadata | What::Health | What::Card | What::Nonsense | What::Garbage => None,
        }
    }
}

/// Composes requests of one run, each with a number of its own.
pub struct Composer {
    next: u64,
}

impl Composer {
    pub fn new() -> Composer {
        Composer { next: 1 }
    }

    /// Some request, given what there is.
    pub fn any(&mut self, chance: &mut Chance, ledger: &Ledger, limits: &Limits) -> (Ask, Vec<u8>) {
        let tasks = ledger.tasks();
        let open: Vec<TaskId> = tasks.iter().filter(|t| ledger.is_open(t)).cloned().collect();
        let born = if open.len() < 2 { 40 } else { 6 };
        let kind = chance.weighted(&[
            (born, Kind::TaskTraits),
            (if open.is_empty() { 0 } else { 30 }, Kind::Say),
            (if tasks.is_empty() { 0 } else { 20 }, Kind::Watch),
            (6, Kind::Get),
            (1, Kind::Cancel),
            (2, Kind::Create),
            (3, Kind::Metadata),
            (2, Kind::AllMetadata),
            (2, Kind::Health),
            (1, Kind::Card),
            (if tasks.is_empty() { 0 } else { 5 }, Kind::SetHook),
            (if tasks.is_empty() { 0 } else { 1 }, Kind::DropHook),
            (1, Kind::Nonsense),
            (1, Kind::Garbage),
        ]);
        let any = |chance: &mut Chance| match chance.pick(&tasks) {
            Some(task) if !chance.percent(3) => task.clone(),
            _ => "no-such-task".into(),
        };
        match kind {
            Kind::TaskTraits => self.birth(chance, ledger),
            Kind::Say => {
                let task = chance.pick(&open).expect("some are open").clone();
                self.say(chance, ledger, task)
            }
            Kind::Watch => {
                let task = any(chance);
                let last = ledger.log(&task).map_or(0, |log| log.len());
                let after = match chance.below(10) {
                    0..3 => None,
                    3 => Some(Seq(last + chance.within(1, 5))),
                    4 => Some(Seq(0)),
                    5 => Some(Seq(last)),
                    _ => Some(Seq(chance.within(0, last))),
                };
                self.watch(chance, ledger, task, after)
            }
            Kind::Get => {
                let task = any(chance);
                let history = [None, Some(0), Some(2)][chance.below(3)];
                let params = json!({"id": task, "historyLength": history});
                self.rpc(chance, ledger, "tasks/get", params, What::Get { task, history })
            }
            Kind::Cancel => {
                let task = any(chance);
                self.cancel(chance, ledger, task)
            }
            Kind::Create => {
                let body = json!({"contextId": context(chance)}).to_string();
                self.plain(chance, ledger, "POST /tasks", &body, What::Create)
            }
            Kind::Metadata => {
                let task = any(chance);
                let line = format!("GET /tasks/{task}/metadata");
                self.plain(chance, ledger, &line, "", What::Metadata(task))
            }
            Kind::AllMetadata => self.plain(chance, ledger, "GET /tasks/metadata", "", What::AllMetadata),
            Kind::Health => self.plain(chance, ledger, "GET /health", "", What::Health),
            Kind::Card => {
                let line = "GET /.well-known/agent-card.json";
                self.plain(chance, ledger, line, "", What::Card)
            }
            Kind::SetHook => {
                let task = any(chance);
                self.set_hook(chance, ledger, task)
            }
            Kind::DropHook => {
                let task = any(chance);
                let (method, params) = match chance.percent(50) {
                    true => (
                        "tasks/pushNotificationConfig/delete",
                        json!({"id": task, "pushNotificationConfigId": hook_id(chance)}),
                    ),
                    false => ("DeleteTaskPushNotificationConfig", json!({"taskId": task, "id": hook_id(chance)})),
                };
                self.rpc(chance, ledger, method, params, What::DropHook(task))
            }
            Kind::Nonsense => {
                let (line, body) = match chance.below(4) {
                    0 => ("GET /nothing/here", ""),
                    1 => ("DELETE /tasks", ""),
                    2 => ("POST /", "{\"jsonrpc\":"),
                    _ => ("POST /", "[1,2]"),
                };
                self.plain(chance, ledger, line, body, What::Nonsense)
            }
            Kind::Garbage => self.garbage(chance, ledger, limits),
        }
    }

    pub fn watch(&mut self, chance: &mut Chance, ledger: &Ledger, task: TaskId, after: Option<Seq>) -> (Ask, Vec<u8>) {
        let params = json!({ "id": task });
        self.rpc(chance, ledger, "tasks/resubscribe", params, What::Watch { task, after })
    }

    pub fn cancel(&mut self, chance: &mut Chance, ledger: &Ledger, task: TaskId) -> (Ask, Vec<u8>) {
        let params = json!({ "id": task });
        self.rpc(chance, ledger, "tasks/cancel", params, What::Cancel(task))
    }

    /// Of either version: in 0.3 a webhook is told how things are, in 1.0 what happened.
    fn set_hook(&mut self, chance: &mut Chance, ledger: &Ledger, task: TaskId) -> (Ask, Vec<u8>) {
        let url = self.address();
        let (method, params) = match chance.percent(30) {
            true => (
                "tasks/pushNotificationConfig/set",
                json!({"taskId": task, "pushNotificationConfig": {"id": hook_id(chance), "url": url}}),
            ),
            false => ("CreateTaskPushNotificationConfig", json!({"taskId": task, "id": hook_id(chance), "url": url})),
        };
        let what = What::SetHook { task, url };
        self.rpc(chance, ledger, method, params, what)
    }

    /// Where nobody else is told anything.
    fn address(&self) -> String {
        format!("https://r{}.example/", self.next)
    }

    fn birth(&mut self, chance: &mut Chance, ledger: &Ledger) -> (Ask, Vec<u8>) {
        let mut message = self.message(vec![words(chance)]);
        if chance.percent(40) {
            message["contextId"] = json!(context(chance));
        }
        if chance.percent(5) {
            message["metadata"] = json!({"coderAgent": {"kind": "agent-settings", "workspacePath": "/nowhere"}});
        }
        self.send(chance, ledger, message, None)
    }

    /// Words, an answer to an open question, a wrong one, a late one, or some of it together.
    fn say(&mut self, chance: &mut Chance, ledger: &Ledger, task: TaskId) -> (Ask, Vec<u8>) {
        let log = ledger.log(&task).expect("an open task is on disk");
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
            parts.push(words(chance));
        }
        let mut message = self.message(parts);
        message["taskId"] = json!(task);
        if chance.percent(3) {
            message["contextId"] = json!("another");
        }
        self.send(chance, ledger, message, Some(task))
    }

    fn message(&self, parts: Vec<Value>) -> Value {
        json!({"kind": "message", "messageId": format!("m{}", self.next), "role": "user", "parts": parts})
    }

    fn send(&mut self, chance: &mut Chance, ledger: &Ledger, message: Value, task: Option<TaskId>) -> (Ask, Vec<u8>) {
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
        let what = What::Say { task, mode, history };
        self.rpc(chance, ledger, method, params, what)
    }

    fn rpc(&mut self, chance: &mut Chance, ledger: &Ledger, method: &str, params: Value, what: What) -> (Ask, Vec<u8>) {
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.plain(chance, ledger, "POST /", &body.to_string(), what)
    }

    fn plain(&mut self, chance: &mut Chance, ledger: &Ledger, line: &str, body: &str, what: What) -> (Ask, Vec<u8>) {
        let (version, connection) = match chance.below(20) {
            0 => ("1.0", ""),
            1 => ("1.1", "Connection: close\r\n"),
            _ => ("1.1", ""),
        };
        let mut ask = self.ask(what, ledger, version == "1.0" || !connection.is_empty());
        let mut line = line.to_owned();
        let mut fields = format!("Host: localhost\r\nUser-Agent: {} sim\r\n{connection}", ask.tag());
        if ask.streams() && chance.percent(70) {
            fields += "Accept: text/event-stream\r\n";
            ask.hopes = true;
        }
        if let What::Watch { after: Some(after), .. } = &ask.what {
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
        (ask, bytes.into_bytes())
    }

    fn garbage(&mut self, chance: &mut Chance, ledger: &Ledger, limits: &Limits) -> (Ask, Vec<u8>) {
        let bytes = match chance.below(4) {
            0 => b"hello, is this the library?\r\n\r\n".to_vec(),
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
        (self.ask(What::Garbage, ledger, true), bytes)
    }

    fn ask(&mut self, what: What, ledger: &Ledger, closes: bool) -> Ask {
        let number = self.next;
        self.next += 1;
        let mut ask = Ask { number, what, known: Seq(0), closes, hopes: false, start: 0, end: 0 };
        let log = ask.task().and_then(|task| ledger.log(task));
        ask.known = Seq(log.map_or(0, |log| log.len()));
        ask
    }
}

#[derive(Clone, Copy)]
enum Kind {
    TaskTraits,
    Say,
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

fn hook_id(chance: &mut Chance) -> String {
    format!("h{}", chance.below(3))
}

fn context(chance: &mut Chance) -> String {
    format!("context-{}", chance.below(3))
}

fn words(chance: &mut Chance) -> Value {
    match chance.below(12) {
        0 => json!({"kind": "text", "text": ""}),
        1 => json!({"kind": "text", "text": "long ".repeat(chance.below(80) + 1)}),
        _ => json!({"kind": "text", "text": format!("prompt {}", chance.below(1000))}),
    }
}

fn answer(chance: &mut Chance, call: &str) -> Value {
    let outcome = chance.weighted(&[(12, "proceed_once"), (3, "proceed_always"), (4, "cancel"), (1, "perhaps")]);
    let mut data = json!({"callId": call, "outcome": outcome});
    if chance.percent(10) {
        data["newContent"] = json!("as the user wants it");
    }
    json!({"kind": "data", "data": data})
}
