//! Requests and notifications of the server. Every request is answered.

use super::{Effect, Key, Outcome, QuestionId, Session, Stage};
use crate::base::level::Level;
use crate::limits::mcp::{LOG_BYTES, LOGS_PER_SECOND, SERVER_REQUESTS};
use crate::mcp::catalog::List;
use crate::mcp::form::{self, Elicitation};
use crate::mcp::roots::{self, Root};
use crate::mcp::text::{clean, clean_line};
use crate::mcp::transport::message::{METHOD_NOT_FOUND, RpcError, own_id};
use crate::task::form::Reply;
use serde_json::{Value, json};

/// A question that the user has not answered yet.
pub(super) struct Question {
    pub(super) call: Key,
    /// The id of the server's request. `None` if the question is about pages that a call needs.
    request: Option<Value>,
    pub(super) elicitation: Elicitation,
}

impl Session {
    pub(super) fn server_request(&mut self, id: Value, method: &str, params: &Value, call: Option<Key>) {
        match method {
            "ping" => self.respond(&id, Ok(json!({}))),
            "roots/list" => {
                let list = roots::result(&self.setup.roots);
                self.respond(&id, Ok(list));
            }
            "elicitation/create" => self.elicit(id, params, call),
            other => {
                let message = format!("This client does not support {}.", clean_line(other, 100));
                self.respond(&id, Err(RpcError { code: METHOD_NOT_FOUND, message, data: Value::Null }));
            }
        }
    }

    fn elicit(&mut self, id: Value, params: &Value, call: Option<Key>) {
        // Over a pipe, a request does not tell which call it belongs to. The newest call is assumed.
        let call = call.or_else(|| self.calls.last_key_value().map(|(key, _)| *key));
        let why = match (call, Elicitation::read(params)) {
            (None, _) => "it asked a question while no call was running, which was declined".to_owned(),
            (Some(_), _) if self.questions.len() >= SERVER_REQUESTS => {
                format!("it has more than {SERVER_REQUESTS} open questions; one was declined")
            }
            (Some(_), Err(why)) => format!("its question was declined: {why}"),
            (Some(call), Ok(elicitation)) => {
                if let Some(running) = self.calls.get_mut(&call) {
                    running.pause(self.now_ms);
                }
                return self.ask_people(Some(id), call, elicitation);
            }
        };
        // The server may send any number of these, so they count towards the limit of its log messages.
        match self.logs.count(self.now_ms) > LOGS_PER_SECOND {
            true => self.logs_dropped += 1,
            false => self.notice(why),
        }
        self.respond(&id, Ok(json!({"action": "decline"})));
    }

    pub(super) fn ask_people(&mut self, request: Option<Value>, call: Key, elicitation: Elicitation) {
        self.next_id += 1;
        let question = QuestionId(self.next_id);
        self.questions.insert(question, Question { call, request, elicitation: elicitation.clone() });
        self.out.push(Effect::Question { question, call, elicitation });
    }

    pub(super) fn replied(&mut self, id: QuestionId, reply: &Reply) {
        let Some(question) = self.questions.remove(&id) else {
            return;
        };
        match (question.request, reply) {
            (Some(request), _) => {
                self.respond(&request, Ok(form::result(reply, &question.elicitation)));
                self.resume(question.call);
            }
            (None, Reply::Accept(_)) if question.elicitation == Elicitation::ConfirmVisit => {
                self.visit_confirmed(question.call)
            }
            (None, Reply::Accept(_)) => self.page_accepted(question.call),
            (None, Reply::Decline | Reply::Cancel) => {
                let error = self.error("the call needs a page to be visited, which was declined");
                self.end_call(question.call, Outcome::Failed(error));
            }
        }
    }

    /// Resumes the timeouts of a call when its last question was answered.
    fn resume(&mut self, call: Key) {
        let is_asked = self.questions.values().any(|question| question.call == call);
        if let Some(running) = self.calls.get_mut(&call).filter(|_| !is_asked) {
            running.resume(self.now_ms, self.setup.timeout_ms);
        }
    }

    /// Withdraws a question.
    pub(super) fn withdraw(&mut self, id: QuestionId) {
        if let Some(question) = self.questions.remove(&id) {
            self.out.push(Effect::Withdrawn { question: id, call: question.call });
            if let Some(request) = question.request.filter(|_| self.stage != Stage::Ended) {
                self.respond(&request, Ok(json!({"action": "cancel"})));
            }
        }
    }

    pub(super) fn notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/progress" => {
                if let Some(id) = params.get("progressToken").and_then(own_id) {
                    self.progress(id, params);
                }
            }
            "notifications/tools/list_changed" => self.refresh(List::Tools),
            "notifications/prompts/list_changed" => self.refresh(List::Prompts),
            "notifications/resources/list_changed" => {
                self.refresh(List::Resources);
                self.refresh(List::Templates);
            }
            "notifications/message" => self.log(params),
            "notifications/cancelled" => {
                let is_it = |question: &Question| question.request.as_ref() == params.get("requestId");
                let found = self.questions.iter().find(|(_, question)| is_it(question)).map(|(id, _)| *id);
                if let Some((id, question)) = found.and_then(|id| self.questions.remove_entry(&id)) {
                    self.out.push(Effect::Withdrawn { question: id, call: question.call });
                    self.resume(question.call);
                }
            }
            "notifications/elicitation/complete" => {
                self.page_completed(params.get("elicitationId").and_then(Value::as_str).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn log(&mut self, params: &Value) {
        if self.logs.count(self.now_ms) > LOGS_PER_SECOND {
            self.logs_dropped += 1;
            return;
        }
        let text = |name: &str| params.get(name).and_then(Value::as_str);
        let level = match text("level").unwrap_or_default() {
            "debug" => Level::Debug,
            "warning" => Level::Warn,
            "error" | "critical" | "alert" | "emergency" => Level::Error,
            _ => Level::Info,
        };
        let data = text("data").map_or_else(|| params.get("data").unwrap_or(&Value::Null).to_string(), str::to_owned);
        let logger = text("logger").map(|logger| format!("{}: ", clean_line(logger, 100))).unwrap_or_default();
        self.out.push(Effect::Log { level, text: clean(&format!("{logger}{data}"), LOG_BYTES) });
    }

    pub(super) fn roots_changed(&mut self, roots: Vec<Root>) {
        if self.setup.roots != roots {
            self.setup.roots = roots;
            if matches!(self.stage, Stage::Listing | Stage::Ready) {
                self.notify("notifications/roots/list_changed", &Value::Null);
            }
        }
    }
}
