//! Calls and queries of workers: puts them into the connection's inbox and receives events until the result arrives. Questions of the server
//! during a call are asked one after the other.

use super::{Connection, Inner};
use crate::base::cancel::Cancel;
use crate::base::lock::lock;
use crate::mcp::form::Elicitation;
use crate::mcp::session::{Call, Input, Key, Outcome, Query, QuestionId};
use crate::task::form::{Inquired, Reply};
use crate::task::spec::{CallError, ErrorKind, Question};
use crate::tool::live::Live;
use crate::tool::mcp_call::McpRequest;
use crate::tool::people::People;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// An event for the worker that waits for a call or a query.
pub(super) enum CallEvent {
    Progress(String),
    /// The server asks the user a question.
    Question(QuestionId, Elicitation),
    Withdrawn(QuestionId),
    /// The user has answered the question with this number.
    Replied(u32, Reply),
    Ended(Outcome),
    Answered(Result<Value, CallError>),
}

/// The questions of one call.
struct Questions<'a> {
    people: &'a dyn People,
    count: u32,
    /// The first one is shown to the user.
    open: VecDeque<(QuestionId, Elicitation)>,
}

impl Connection {
    /// Calls a tool and waits for the result. A cancelled call ends at once, and the server gets a cancellation.
    pub fn call(
        self: &Arc<Self>,
        request: &McpRequest<'_>,
        cancel: &Cancel,
        out: &mut dyn FnMut(String),
    ) -> Result<Value, CallError> {
        let (tool, arguments) = (request.origin.tool.clone(), request.args.clone());
        let (key, events) = self.submit(|key| Input::Call(Call { key, tool, arguments }))?;
        let own = self.clone();
        cancel.on_set(move || own.cancel(key));
        let own = self.clone();
        request.people.on_reply(Box::new(move |nr, reply| own.notify(key, CallEvent::Replied(nr, reply))));
        let mut questions = Questions { people: request.people, count: 0, open: VecDeque::new() };
        let mut live = Live::new(out, &self.context.limits);
        let result = loop {
            let come = match live.due() {
                Some(due) => events.recv_timeout(due),
                None => events.recv().map_err(RecvTimeoutError::from),
            };
            match come {
                Err(RecvTimeoutError::Timeout) => live.flush(),
                Ok(CallEvent::Progress(text)) => live.push(&format!("{text}\n")),
                Ok(CallEvent::Question(id, elicitation)) => self.inquire(&mut questions, id, elicitation),
                Ok(CallEvent::Withdrawn(id)) => self.withdraw(&mut questions, id),
                Ok(CallEvent::Replied(nr, reply)) => self.reply(&mut questions, nr, reply),
                Ok(CallEvent::Ended(Outcome::Result(result))) => break Ok(result),
                Ok(CallEvent::Ended(Outcome::Failed(error))) => break Err(error),
                Ok(CallEvent::Ended(Outcome::Cancelled)) => break Err(self.error("the call was cancelled")),
                Ok(CallEvent::Answered(_)) | Err(RecvTimeoutError::Disconnected) => {
                    break Err(self.error("the connection ended"));
                }
            }
        };
        live.flush();
        cancel.clear();
        result.map_err(|error| self.error_without_secrets(error))
    }

    fn error_without_secrets(&self, error: CallError) -> CallError {
        CallError { message: self.log.redactor.hide(&error.message), ..error }
    }

    fn inquire(&self, questions: &mut Questions<'_>, id: QuestionId, elicitation: Elicitation) {
        questions.open.push_back((id, elicitation));
        if questions.open.len() == 1 {
            self.ask_first(questions);
        }
    }

    fn ask_first(&self, questions: &mut Questions<'_>) {
        let Some((_, elicitation)) = questions.open.front() else { return };
        questions.count += 1;
        let inquired = elicitation.inquired(questions.count, &self.server.name);
        questions.people.ask(self.without_secrets(inquired));
    }

    /// Removes secrets from a question, because a server may quote its settings.
    fn without_secrets(&self, mut inquired: Inquired) -> Inquired {
        if let Question::AskUser { title, questions } = &mut inquired.question {
            *title = self.log.redactor.hide(title);
            questions.iter_mut().for_each(|one| one.question = self.log.redactor.hide(&one.question));
        }
        inquired
    }

    fn withdraw(&self, questions: &mut Questions<'_>, id: QuestionId) {
        let is_first = questions.open.front().is_some_and(|(first, _)| *first == id);
        questions.open.retain(|(one, _)| *one != id);
        if is_first {
            questions.people.withdraw(questions.count);
            self.ask_first(questions);
        }
    }

    fn reply(&self, questions: &mut Questions<'_>, nr: u32, reply: Reply) {
        if nr != questions.count {
            return;
        }
        if let Some((question, _)) = questions.open.pop_front() {
            lock(&self.inner).inbox.push(Input::Replied { question, reply });
            self.wake_thread();
            self.ask_first(questions);
        }
    }

    /// Sends a query and waits for the result.
    pub fn query(&self, query: Query) -> Result<Value, CallError> {
        let (_, events) = self.submit(|key| Input::Query { key, query })?;
        match events.recv() {
            Ok(CallEvent::Answered(result)) => result.map_err(|error| self.error_without_secrets(error)),
            Ok(_) | Err(_) => Err(self.error("the connection ended")),
        }
    }

    fn cancel(&self, key: Key) {
        let mut inner = lock(&self.inner);
        inner.notify(key, CallEvent::Ended(Outcome::Cancelled));
        inner.inbox.push(Input::Cancel { call: key, reason: "the user cancelled the call".into() });
        self.wake_thread();
    }

    pub(super) fn notify(&self, key: Key, events: CallEvent) {
        lock(&self.inner).notify(key, events);
    }

    /// Puts a call or a query into the inbox. Returns the receiver of its events.
    fn submit(&self, input: impl FnOnce(Key) -> Input) -> Result<(Key, mpsc::Receiver<CallEvent>), CallError> {
        let (sender, receiver) = mpsc::channel();
        let mut inner = lock(&self.inner);
        if !inner.is_alive {
            let why = inner.state.error(&self.server.name).unwrap_or_else(|| "it was stopped".into());
            return Err(self.error(&format!("it is not connected: {why}")));
        }
        inner.used = Instant::now();
        inner.next += 1;
        let key = Key(inner.next);
        inner.callers.insert(key, sender);
        inner.inbox.push(input(key));
        self.wake_thread();
        Ok((key, receiver))
    }

    fn error(&self, why: &str) -> CallError {
        ErrorKind::McpToolError.error(format!("MCP server {}: {why}.", self.server.name))
    }
}

impl Inner {
    /// Sends an event to a caller. After the event that ends its call, the caller is removed.
    pub(super) fn notify(&mut self, key: Key, events: CallEvent) {
        let caller = match events {
            CallEvent::Progress(_) | CallEvent::Question(..) | CallEvent::Withdrawn(_) | CallEvent::Replied(..) => {
                self.callers.get(&key).cloned()
            }
            CallEvent::Ended(_) | CallEvent::Answered(_) => self.callers.remove(&key),
        };
        if let Some(caller) = caller {
            let _ = caller.send(events);
        }
    }
}
