//! Calls of tools: their queue, progress, timeouts and cancellation. A call that may change something runs alone; read-only calls run
//! concurrently.

use super::requests::Question;
use super::{Call, Effect, Key, Outcome, Purpose, QuestionId, Session, Stage};
use crate::limits::mcp::{CALL_MS, CALLS_PARALLEL, CALLS_WAITING, MESSAGE_OUT_BYTES};
use crate::mcp::catalog::{List, Tool};
use crate::mcp::form::Elicitation;
use crate::mcp::text::clean_line;
use crate::mcp::transport::message::{RequestId, RpcError, URL_ELICITATION_REQUIRED};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A call that was sent.
pub(super) struct RunningCall {
    call: Call,
    read_only: bool,
    /// `None` while the user visits pages.
    pub(super) request: Option<RequestId>,
    silence_due_ms: u64,
    cap_due_ms: u64,
    /// The timeouts are paused since this time, because the user is being asked.
    paused_ms: Option<u64>,
    /// The ids of the pages that the user has to visit before the call is repeated.
    pages: Option<BTreeSet<String>>,
    /// Whether the call was repeated after its pages were visited.
    repeated: bool,
}

impl RunningCall {
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.paused_ms.is_none().then_some(self.silence_due_ms.min(self.cap_due_ms))
    }

    /// Restarts the silence timeout, because a message for the call has arrived.
    pub(super) fn reset_silence(&mut self, now_ms: u64, timeout_ms: u64) {
        self.silence_due_ms = now_ms + timeout_ms;
    }

    pub(super) fn pause(&mut self, now_ms: u64) {
        self.paused_ms.get_or_insert(now_ms);
    }

    pub(super) fn resume(&mut self, now_ms: u64, timeout_ms: u64) {
        if let Some(since) = self.paused_ms.take() {
            self.cap_due_ms += now_ms - since;
            self.reset_silence(now_ms, timeout_ms);
        }
    }
}

impl Session {
    pub(super) fn call(&mut self, call: Call) {
        let waiting = self.waiting.len() + self.unlisted.len();
        let refused = match self.stage {
            Stage::Ended => Some(format!("MCP server {} is not connected", self.setup.server)),
            _ if waiting >= CALLS_WAITING => {
                Some(format!("{CALLS_WAITING} calls wait for MCP server {} already; call it later", self.setup.server))
            }
            _ if call.arguments.to_string().len() > MESSAGE_OUT_BYTES => {
                Some(format!("the arguments are longer than {MESSAGE_OUT_BYTES} bytes; send less at once"))
            }
            Stage::New | Stage::Initializing | Stage::Listing | Stage::Ready => None,
        };
        if let Some(why) = refused {
            let outcome = Outcome::Failed(self.error(&why));
            return self.out.push(Effect::Ended { call: call.key, outcome });
        }
        if self.stage == Stage::Ready && self.catalog.tool(&call.tool).is_none() {
            self.unlisted.push(call);
            return self.refresh(List::Tools);
        }
        self.waiting.push_back(call);
        self.start_calls();
    }

    /// Sends calls from the queue while the next one may run concurrently with the running ones.
    pub(super) fn start_calls(&mut self) {
        while let Some(call) = self.waiting.front().filter(|_| self.stage == Stage::Ready) {
            let read_only = self.catalog.tool(&call.tool).is_some_and(Tool::is_read_only);
            let beside = self.setup.parallel || read_only && self.calls.values().all(|running| running.read_only);
            let most = if beside { CALLS_PARALLEL } else { 1 };
            if self.calls.len() >= most {
                return;
            }
            let Some(call) = self.waiting.pop_front() else { return };
            let now_ms = self.now_ms;
            let running = RunningCall {
                read_only,
                request: None,
                silence_due_ms: now_ms + self.setup.timeout_ms,
                cap_due_ms: now_ms + CALL_MS,
                paused_ms: None,
                pages: None,
                repeated: false,
                call,
            };
            let key = running.call.key;
            self.calls.insert(key, running);
            self.send_call(key);
        }
    }

    fn send_call(&mut self, key: Key) {
        let Some(RunningCall { call, .. }) = self.calls.get(&key) else { return };
        let params = json!({"name": call.tool, "arguments": call.arguments});
        let request = self.new_request(Purpose::Call(key), "tools/call", params, None);
        let id = self.send(request);
        if let Some(running) = self.calls.get_mut(&key) {
            running.request = Some(id);
        }
    }

    pub(super) fn call_answered(&mut self, key: Key, result: Result<Value, RpcError>) {
        match result {
            Ok(result) => self.end_call(key, Outcome::Result(result)),
            Err(error) if error.code == URL_ELICITATION_REQUIRED => self.ask_to_visit_pages(key, &error),
            Err(error) => self.end_call(key, Outcome::Failed(self.error(&error.shown()))),
        }
    }

    /// Called when a call fails until the user has visited some pages: asks the user to visit them.
    fn ask_to_visit_pages(&mut self, key: Key, error: &RpcError) {
        let listed = error.data.get("elicitations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let pages: Result<Vec<Elicitation>, String> = listed.iter().map(Elicitation::read).collect();
        let running = self.calls.get_mut(&key).filter(|running| !running.repeated);
        let (Some(running), Ok(pages)) = (running, pages) else {
            return self.end_call(key, Outcome::Failed(self.error(&error.shown())));
        };
        let id = |page: &Elicitation| match page {
            Elicitation::Page { id, .. } => Some(id.clone()),
            Elicitation::Form { .. } | Elicitation::ConfirmVisit => None,
        };
        let ids: Option<BTreeSet<String>> = pages.iter().map(id).collect();
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else {
            return self.end_call(key, Outcome::Failed(self.error(&error.shown())));
        };
        running.pause(self.now_ms);
        (running.pages, running.request) = (Some(ids), None);
        for page in pages {
            self.ask_people(None, key, page);
        }
    }

    /// Called when the user has agreed to visit a page of a call.
    pub(super) fn page_accepted(&mut self, key: Key) {
        if self.questions.values().all(|question| question.call != key) {
            self.page_visited(&key, |pages| pages.is_empty());
            if self.calls.get(&key).is_some_and(|running| running.pages.is_some()) {
                self.ask_people(None, key, Elicitation::ConfirmVisit);
            }
        }
    }

    /// Called when the server says that the user has completed a page.
    pub(super) fn page_completed(&mut self, id: &str) {
        let keys: Vec<Key> = self.calls.keys().copied().collect();
        for key in keys {
            self.page_visited(&key, |pages| pages.remove(id) && pages.is_empty());
        }
    }

    pub(super) fn visit_confirmed(&mut self, key: Key) {
        self.page_visited(&key, |_| true);
    }

    /// Repeats a call when all its pages are accepted and visited.
    fn page_visited(&mut self, key: &Key, is_complete: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let of_call = |question: &Question| question.call == *key;
        let is_asked = self.questions.values().any(|one| of_call(one) && one.elicitation != Elicitation::ConfirmVisit);
        let Some(running) = self.calls.get_mut(key) else { return };
        if running.pages.as_mut().is_some_and(is_complete) && !is_asked {
            (running.pages, running.repeated) = (None, true);
            running.resume(self.now_ms, self.setup.timeout_ms);
            let open = self.questions.iter().find(|(_, question)| of_call(question)).map(|(id, _)| *id);
            open.into_iter().for_each(|id| self.withdraw(id));
            self.send_call(*key);
        }
    }

    pub(super) fn cancel(&mut self, key: Key, reason: &str) {
        self.cancel_sent(key, reason);
        let waits = |call: &Call| call.key == key;
        if self.calls.contains_key(&key) || self.waiting.iter().any(waits) || self.unlisted.iter().any(waits) {
            self.end_call(key, Outcome::Cancelled);
        }
    }

    fn cancel_sent(&mut self, key: Key, reason: &str) {
        if let Some(id) = self.calls.get(&key).and_then(|running| running.request)
            && self.sent.contains_key(&id)
        {
            self.cancel_request(id, &clean_line(reason, 200));
        }
    }

    /// Ends a running or queued call. Withdraws its questions; a late response is dropped.
    pub(super) fn end_call(&mut self, key: Key, outcome: Outcome) {
        self.calls.remove(&key);
        self.waiting.retain(|call| call.key != key);
        self.unlisted.retain(|call| call.key != key);
        self.sent.retain(|_, request| request.purpose != Purpose::Call(key));
        self.stalled.retain(|request| request.purpose != Purpose::Call(key));
        let open: Vec<QuestionId> =
            self.questions.iter().filter(|(_, question)| question.call == key).map(|(id, _)| *id).collect();
        for question in open {
            self.withdraw(question);
        }
        self.out.push(Effect::Ended { call: key, outcome });
        self.start_calls();
    }

    pub(super) fn calls_due(&mut self) {
        let is_due = |running: &RunningCall| running.due_ms().is_some_and(|due| due <= self.now_ms);
        let due: Vec<Key> = self.calls.iter().filter(|(_, running)| is_due(running)).map(|(key, _)| *key).collect();
        for key in due {
            let silent = self.calls.get(&key).is_some_and(|running| running.silence_due_ms <= self.now_ms);
            let why = match silent {
                true => format!("no answer for {} s", self.setup.timeout_ms.div_ceil(1000)),
                false => format!("it ran for {} s, the longest time of a call", CALL_MS / 1000),
            };
            self.cancel_sent(key, &why);
            self.fail_request(Purpose::Call(key), &format!("{why}; the call was cancelled"));
        }
    }

    pub(super) fn progress(&mut self, id: RequestId, params: &Value) {
        let Some(key) = self.call_of(id) else { return };
        if let Some(running) = self.calls.get_mut(&key) {
            running.reset_silence(self.now_ms, self.setup.timeout_ms);
        }
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        let count = match (number("progress"), number("total")) {
            (Some(progress), Some(total)) => format!("[{progress}/{total}]"),
            (Some(progress), None) => format!("[{progress}]"),
            (None, _) => String::new(),
        };
        let message = clean_line(params.get("message").and_then(Value::as_str).unwrap_or_default(), 1_000);
        let text = format!("{count} {message}").trim().to_owned();
        self.out.push(Effect::Progress { call: key, text });
    }
}
