//! One connection to a server without I/O: the handshake, the pending requests, lists and their pages, calls and their timeouts, and requests
//! of the server. The shell gives it inputs ([`Input`]) and carries out the effects that it returns ([`Effect`]); the documentation of
//! [`crate::mcp`] has a table of both.
//!
//! Every input comes with the present time. [`Session::due_ms`] returns when [`Input::Tick`] is needed next.

mod calls;
mod lists;
mod requests;
#[cfg(test)]
mod tests;
mod values;

pub use values::{Call, Effect, Info, Input, Key, Outcome, Outgoing, Query, QuestionId, Sent, Setup};

use crate::base::level::Level;
use crate::limits::mcp::{
    INSTRUCTIONS_BYTES, JUNK_LINES, JUNK_LOGGED, MESSAGE_OUT_BYTES, NOTIFICATIONS_PER_SECOND, PING_MS, READ_MS,
    REQUESTS_PER_SECOND,
};
use crate::mcp::catalog::{Catalog, List};
use crate::mcp::text::{clean, clean_line};
use crate::mcp::transport::message::{self, Message, RequestId, RpcError};
use crate::task::spec::{CallError, ErrorKind};
use calls::RunningCall;
use lists::Lists;
use requests::Question;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// The supported versions of the protocol. The client offers the first one.
pub const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    New,
    Initializing,
    /// The first list of tools of this handshake is not complete.
    Listing,
    Ready,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Initialize,
    List(List),
    Call(Key),
    Query(Key),
}

/// A request that was sent or that waits for a new handshake.
struct Request {
    purpose: Purpose,
    method: &'static str,
    params: Value,
    /// `None` for requests whose timeout is handled elsewhere.
    timeout_ms: Option<u64>,
    due_ms: Option<u64>,
    /// The handshake of the session in which it was sent.
    handshake: RequestId,
    /// Whether it was sent again because the server had lost the session.
    repeated: bool,
}

/// Counts events per second.
#[derive(Default)]
struct Rate {
    second: u64,
    count: u32,
}

impl Rate {
    /// Counts an event and returns the number of events in this second.
    fn count(&mut self, now_ms: u64) -> u32 {
        if self.second != now_ms / 1000 {
            *self = Rate { second: now_ms / 1000, count: 0 };
        }
        self.count += 1;
        self.count
    }
}

pub struct Session {
    setup: Setup,
    stage: Stage,
    was_ready: bool,
    now_ms: u64,
    out: Vec<Effect>,
    next_id: u64,
    handshake: RequestId,
    info: Info,
    catalog: Catalog,
    sent: BTreeMap<RequestId, Request>,
    /// Requests that wait until the tools are listed again after a new handshake.
    stalled: Vec<Request>,
    start_due_ms: Option<u64>,
    lists: Lists,
    calls: BTreeMap<Key, RunningCall>,
    waiting: VecDeque<Call>,
    /// Calls of tools that are not listed; the list is requested once more.
    unlisted: Vec<Call>,
    questions: BTreeMap<QuestionId, Question>,
    junk: usize,
    notifications: Rate,
    requests: Rate,
    logs: Rate,
    logs_dropped: u32,
}

impl Session {
    pub fn new(mut setup: Setup) -> Session {
        Session {
            catalog: std::mem::take(&mut setup.catalog),
            setup,
            stage: Stage::New,
            was_ready: false,
            now_ms: 0,
            out: Vec::new(),
            next_id: 0,
            handshake: RequestId(0),
            info: Info::default(),
            sent: BTreeMap::new(),
            stalled: Vec::new(),
            start_due_ms: None,
            lists: Lists::default(),
            calls: BTreeMap::new(),
            waiting: VecDeque::new(),
            unlisted: Vec::new(),
            questions: BTreeMap::new(),
            junk: 0,
            notifications: Rate::default(),
            requests: Rate::default(),
            logs: Rate::default(),
            logs_dropped: 0,
        }
    }

    /// The server's information from the last handshake.
    pub fn info(&self) -> &Info {
        &self.info
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether some lists are still being read.
    pub fn is_listing(&self) -> bool {
        self.stage < Stage::Ready || self.sent.values().any(|request| matches!(request.purpose, Purpose::List(_)))
    }

    /// When [`Input::Tick`] is needed; `None` if it is not needed before another input.
    pub fn due_ms(&self) -> Option<u64> {
        let requests = self.sent.values().filter_map(|request| request.due_ms);
        let calls = self.calls.values().filter_map(RunningCall::due_ms);
        requests.chain(calls).chain(self.start_due_ms).chain(self.lists.due_ms()).min()
    }

    /// Handles one input. `now_ms` must not be before that of the previous input.
    pub fn handle(&mut self, input: Input, now_ms: u64) -> Vec<Effect> {
        self.now_ms = now_ms;
        if self.stage == Stage::New {
            self.start_startup_timer();
        }
        match input {
            Input::Start => self.start(),
            Input::Message { message, on } => self.message(message, on),
            Input::Junk(text) => self.junk(&text),
            Input::Failed { request, why } => self.failed(request, &why),
            Input::SessionLost(request) => self.session_lost(request),
            Input::Lost(why) => self.close(&why),
            Input::Call(call) => self.call(call),
            Input::Cancel { call, reason } => self.cancel(call, &reason),
            Input::Query { key, query } => self.query(key, query),
            Input::Replied { question, reply } => self.replied(question, &reply),
            Input::Roots(roots) => self.roots_changed(roots),
            Input::Tick => {}
        }
        if self.stage != Stage::Ended {
            self.tick();
        }
        std::mem::take(&mut self.out)
    }

    fn start(&mut self) {
        if self.stage == Stage::New {
            self.initialize();
        }
    }

    /// Starts the timeout of the server's start, unless it is running.
    fn start_startup_timer(&mut self) {
        self.start_due_ms.get_or_insert(self.now_ms + self.setup.startup_ms);
    }

    fn initialize(&mut self) {
        self.stage = Stage::Initializing;
        self.start_startup_timer();
        let params = json!({
            "protocolVersion": VERSIONS[0],
            "capabilities": {"roots": {"listChanged": true}, "elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "gemini-a2a", "title": "gemini-a2a", "version": self.setup.version},
        });
        self.handshake = self.send(self.new_request(Purpose::Initialize, "initialize", params, None));
    }

    fn new_request(&self, purpose: Purpose, method: &'static str, params: Value, timeout_ms: Option<u64>) -> Request {
        Request { purpose, method, params, timeout_ms, due_ms: None, handshake: self.handshake, repeated: false }
    }

    fn send(&mut self, mut request: Request) -> RequestId {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        if let (Purpose::Call(_), Some(params)) = (request.purpose, request.params.as_object_mut()) {
            params.insert("_meta".into(), json!({"progressToken": id.0.to_string()}));
        }
        let kind = match request.purpose {
            Purpose::Initialize => Sent::Initialize(id),
            Purpose::List(_) => Sent::Request(id, None),
            Purpose::Call(key) | Purpose::Query(key) => Sent::Request(id, Some(key)),
        };
        let text = message::request(id, request.method, &request.params);
        self.out.push(Effect::Send(Outgoing { text, kind }));
        request.due_ms = request.timeout_ms.map(|ms| self.now_ms + ms);
        request.handshake = self.handshake;
        self.sent.insert(id, request);
        id
    }

    fn notify(&mut self, method: &str, params: &Value) {
        let text = message::notification(method, params);
        self.out.push(Effect::Send(Outgoing { text, kind: Sent::Other }));
    }

    fn respond(&mut self, id: &Value, result: Result<Value, RpcError>) {
        let text = message::response(id, result);
        self.out.push(Effect::Send(Outgoing { text, kind: Sent::Other }));
    }

    fn notice(&mut self, text: impl AsRef<str>) {
        self.out.push(Effect::Notice(format!("MCP server {}: {}.", self.setup.server, text.as_ref())));
    }

    fn message(&mut self, message: Message, on: Option<RequestId>) {
        if self.stage == Stage::Ended {
            return;
        }
        let call = on.and_then(|id| self.call_of(id));
        if let Some(running) = call.and_then(|call| self.calls.get_mut(&call)) {
            running.reset_silence(self.now_ms, self.setup.timeout_ms);
        }
        match message {
            Message::Request { id, method, params } => {
                if self.requests.count(self.now_ms) > REQUESTS_PER_SECOND {
                    self.end(&format!("it sent more than {REQUESTS_PER_SECOND} requests in one second"));
                } else {
                    self.server_request(id, &method, &params, call);
                }
            }
            Message::Response { id, result } => self.response(id.or(on), result),
            Message::Notification { method, params } => {
                if self.notifications.count(self.now_ms) > NOTIFICATIONS_PER_SECOND {
                    self.end(&format!("it sent more than {NOTIFICATIONS_PER_SECOND} notifications in one second"));
                } else {
                    self.notification(&method, &params);
                }
            }
        }
    }

    /// The call that a request belongs to.
    fn call_of(&self, id: RequestId) -> Option<Key> {
        match self.sent.get(&id)?.purpose {
            Purpose::Call(key) => Some(key),
            Purpose::Initialize | Purpose::List(_) | Purpose::Query(_) => None,
        }
    }

    /// Handles a response. A response without a pending request is late or belongs to a cancelled request, and is dropped.
    fn response(&mut self, id: Option<RequestId>, result: Result<Value, RpcError>) {
        let Some((id, request)) = id.and_then(|id| self.sent.remove_entry(&id)) else {
            return;
        };
        match request.purpose {
            Purpose::Initialize => self.initialized(result),
            Purpose::List(list) => self.list_page(list, id, result),
            Purpose::Call(key) => self.call_answered(key, result),
            Purpose::Query(key) => {
                let result = result.map_err(|error| match (request.method, error.code) {
                    ("resources/read", -32002) => ErrorKind::McpResourceNotFound.error(error.shown()),
                    _ => ErrorKind::McpToolError.error(error.shown()),
                });
                self.out.push(Effect::Answered { key, result });
            }
        }
    }

    fn initialized(&mut self, result: Result<Value, RpcError>) {
        let result = match result {
            Ok(result) => result,
            Err(error) if error.is_too_new() => {
                return self.end(&format!(
                    "it speaks only versions of MCP without a handshake, which are not supported; this program speaks {}",
                    VERSIONS.join(", ")
                ));
            }
            Err(error) => return self.end(&format!("it refused to initialize ({})", error.shown())),
        };
        let text = |value: &Value, most: usize| clean(value.as_str().unwrap_or_default(), most);
        let version = clean_line(result["protocolVersion"].as_str().unwrap_or_default(), 80);
        if !VERSIONS.contains(&version.as_str()) {
            return self
                .end(&format!("it speaks version \"{version}\" of MCP, and this program {}", VERSIONS.join(", ")));
        }
        self.info = Info {
            version,
            name: text(&result["serverInfo"]["name"], 200),
            server_version: text(&result["serverInfo"]["version"], 200),
            instructions: text(&result["instructions"], INSTRUCTIONS_BYTES),
            capabilities: result["capabilities"].clone(),
        };
        self.stage = Stage::Listing;
        self.notify("notifications/initialized", &Value::Null);
        self.out.push(Effect::Initialized);
        self.list_all();
    }

    /// Called when the tools are listed: the session is ready.
    fn ready(&mut self) {
        (self.stage, self.was_ready, self.start_due_ms) = (Stage::Ready, true, None);
        self.out.push(Effect::Ready);
        for request in std::mem::take(&mut self.stalled) {
            self.resend(request);
        }
        self.start_calls();
    }

    fn resend(&mut self, request: Request) {
        let purpose = request.purpose;
        let id = self.send(request);
        if let Purpose::Call(key) = purpose
            && let Some(running) = self.calls.get_mut(&key)
        {
            running.request = Some(id);
            running.reset_silence(self.now_ms, self.setup.timeout_ms);
        }
    }

    fn query(&mut self, key: Key, query: Query) {
        let (method, params, timeout_ms) = match query {
            Query::Prompt { name, arguments } => {
                ("prompts/get", json!({"name": name, "arguments": arguments}), READ_MS)
            }
            Query::Resource { uri } => ("resources/read", json!({"uri": uri}), READ_MS),
            Query::Ping => ("ping", Value::Null, PING_MS),
        };
        let refused = match self.stage {
            Stage::Ended => Some(format!("server {} is not connected", self.setup.server)),
            _ if params.to_string().len() > MESSAGE_OUT_BYTES => Some("the arguments are too long".to_owned()),
            Stage::New | Stage::Initializing | Stage::Listing | Stage::Ready => None,
        };
        if let Some(why) = refused {
            let result = Err(ErrorKind::McpToolError.error(why));
            return self.out.push(Effect::Answered { key, result });
        }
        let request = self.new_request(Purpose::Query(key), method, params, Some(timeout_ms));
        match self.stage {
            Stage::Ready => drop(self.send(request)),
            _ => self.stalled.push(request),
        }
    }

    /// Called when the server has lost the session: begins a new handshake. Each lost request is sent once more after it.
    fn session_lost(&mut self, id: RequestId) {
        let Some(mut request) = self.sent.remove(&id) else {
            return;
        };
        let again = std::mem::replace(&mut request.repeated, true);
        let (purpose, is_current) = (request.purpose, request.handshake == self.handshake);
        match purpose {
            Purpose::Initialize => return self.end("it lost the session during the handshake"),
            Purpose::List(list) => self.lists.abort(list),
            Purpose::Call(_) | Purpose::Query(_) if again => {
                self.fail_request(purpose, "it lost the session twice in a row")
            }
            Purpose::Call(_) | Purpose::Query(_) if self.stage == Stage::Ready && !is_current => self.resend(request),
            Purpose::Call(_) | Purpose::Query(_) => self.stalled.push(request),
        }
        if is_current && self.stage > Stage::Initializing {
            self.sent.retain(|_, request| !matches!(request.purpose, Purpose::List(_)));
            List::ALL.into_iter().for_each(|list| self.lists.abort(list));
            self.initialize();
        }
    }

    /// Called when the transport could not get a response.
    fn failed(&mut self, id: RequestId, why: &str) {
        let Some(request) = self.sent.remove(&id) else {
            return;
        };
        match request.purpose {
            Purpose::Initialize => self.end(why),
            Purpose::List(list) => self.list_failed(list, why),
            purpose @ (Purpose::Call(_) | Purpose::Query(_)) => self.fail_request(purpose, why),
        }
    }

    fn fail_request(&mut self, purpose: Purpose, why: &str) {
        let error = ErrorKind::McpToolError.error(format!("MCP server {}: {why}", self.setup.server));
        match purpose {
            Purpose::Call(key) => self.end_call(key, Outcome::Failed(error)),
            Purpose::Query(key) => self.out.push(Effect::Answered { key, result: Err(error) }),
            Purpose::Initialize | Purpose::List(_) => {}
        }
    }

    fn junk(&mut self, text: &str) {
        self.junk += 1;
        if self.junk <= JUNK_LOGGED {
            let text = format!("not a message: {}", clean_line(text, 200));
            self.out.push(Effect::Log { level: Level::Warn, text });
        }
        if self.junk > JUNK_LINES && self.stage <= Stage::Initializing {
            self.end(&format!("it printed more than {JUNK_LINES} lines that are no messages"));
        }
    }

    /// Ends the connection.
    fn end(&mut self, why: &str) {
        if self.stage != Stage::Ended {
            self.out.push(Effect::End(format!("MCP server {}: {why}.", self.setup.server)));
            self.close(why);
        }
    }

    /// Fails all pending calls and queries.
    fn close(&mut self, why: &str) {
        self.stage = Stage::Ended;
        self.start_due_ms = None;
        self.lists = Lists::default();
        let requests = std::mem::take(&mut self.sent).into_values().chain(std::mem::take(&mut self.stalled));
        for request in requests.filter(|request| matches!(request.purpose, Purpose::Query(_))).collect::<Vec<_>>() {
            self.fail_request(request.purpose, why);
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter().chain(std::mem::take(&mut self.unlisted));
        let keys: Vec<Key> = self.calls.keys().copied().chain(waiting.map(|call| call.key)).collect();
        for key in keys {
            self.fail_request(Purpose::Call(key), why);
        }
    }

    fn tick(&mut self) {
        if self.start_due_ms.is_some_and(|due| due <= self.now_ms) {
            let what = match self.stage {
                Stage::New => "name its endpoint",
                Stage::Initializing => "answer initialize",
                Stage::Listing | Stage::Ready | Stage::Ended => "answer tools/list",
            };
            let seconds = self.setup.startup_ms.div_ceil(1000);
            return self.end(&format!("it did not {what} within {seconds} s (startupTimeout)"));
        }
        let is_due = |request: &Request| request.due_ms.is_some_and(|due| due <= self.now_ms);
        let due: Vec<RequestId> = self.sent.iter().filter(|(_, request)| is_due(request)).map(|(id, _)| *id).collect();
        for id in due {
            let seconds = self.sent.get(&id).and_then(|request| request.timeout_ms).unwrap_or(0) / 1000;
            self.cancel_request(id, "timeout");
            self.failed(id, &format!("no answer for {seconds} s"));
        }
        self.calls_due();
        self.refresh_due();
        if self.logs_dropped > 0 && self.logs.second != self.now_ms / 1000 {
            let dropped = std::mem::take(&mut self.logs_dropped);
            self.notice(format!("{dropped} log messages were dropped"));
        }
    }

    fn cancel_request(&mut self, id: RequestId, reason: &str) {
        self.notify("notifications/cancelled", &json!({"requestId": id.0, "reason": reason}));
    }

    /// An error of a call.
    fn error(&self, why: &str) -> CallError {
        ErrorKind::McpToolError.error(why)
    }
}
