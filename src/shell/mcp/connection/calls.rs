//! Calls and requests of workers to a server: what is put into the connection's inbox, and what the worker hears until its answer
//! comes. Questions of the server in the course of a call are asked one after the other.

use super::{Connection, Inner};
use crate::base::cancel::Cancel;
use crate::base::lock::lock;
use crate::mcp::form::Elicitation;
use crate::mcp::session::{Ask, Call, Input, Key, Outcome, QuestionId};
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

/// What a caller hears of its call.
pub(super) enum News {
    Progress(String),
    /// The server asks people something.
    Question(QuestionId, Elicitation),
    Withdrawn(QuestionId),
    /// Somebody answered the question with this number.
    Replied(u32, Reply),
    Ended(Outcome),
    Answered(Result<Value, CallError>),
}

/// The questions of one call.
struct Questions<'a> {
    people: &'a dyn People,
    count: u32,
    /// The first one is asked.
    open: VecDeque<(QuestionId, Elicitation)>,
}

impl Connection {
    /// Calls a tool and waits for the result. A cancelled call ends at once, and the server is told.
    pub fn call(
        self: &Arc<Self>,
        request: &McpRequest<'_>,
        cancel: &Cancel,
        out: &mut dyn FnMut(String),
    ) -> Result<Value, CallError> {
        let (tool, arguments) = (request.origin.tool.clone(), request.args.clone());
        let (key, news) = self.enter(|key| Input::Call(Call { key, tool, arguments }))?;
        let own = self.clone();
        cancel.on_set(move || own.cancel(key));
        let own = self.clone();
        request.people.on_reply(Box::new(move |nr, reply| own.tell(key, News::Replied(nr, reply))));
        let mut questions = Questions { people: request.people, count: 0, open: VecDeque::new() };
        let mut live = Live::new(out, &self.context.limits);
        let result = loop {
            let come = match live.due() {
                Some(due) => news.recv_timeout(due),
                None => news.recv().map_err(RecvTimeoutError::from),
            };
            match come {
                Err(RecvTimeoutError::Timeout) => live.flush(),
                Ok(News::Progress(text)) => live.push(&format!("{text}\n")),
                Ok(News::Question(id, elicitation)) => self.inquire(&mut questions, id, elicitation),
                Ok(News::Withdrawn(id)) => self.withdraw(&mut questions, id),
                Ok(News::Replied(nr, reply)) => self.reply(&mut questions, nr, reply),
                Ok(News::Ended(Outcome::Result(result))) => break Ok(result),
                Ok(News::Ended(Outcome::Failed(error))) => break Err(error),
                Ok(News::Ended(Outcome::Cancelled)) => break Err(self.error("the call was cancelled")),
                Ok(News::Answered(_)) | Err(RecvTimeoutError::Disconnected) => {
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

    /// A server may repeat what it was configured with.
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
            self.ring();
            self.ask_first(questions);
        }
    }

    /// Asks for something that is no call.
    pub fn ask(&self, what: Ask) -> Result<Value, CallError> {
        let (_, news) = self.enter(|key| Input::Ask { key, what })?;
        match news.recv() {
            Ok(News::Answered(result)) => result.map_err(|error| self.error_without_secrets(error)),
            Ok(_) | Err(_) => Err(self.error("the connection ended")),
        }
    }

    fn cancel(&self, key: Key) {
        let mut inner = lock(&self.inner);
        inner.tell(key, News::Ended(Outcome::Cancelled));
        inner.inbox.push(Input::Cancel { call: key, reason: "the user cancelled the call".into() });
        self.ring();
    }

    pub(super) fn tell(&self, key: Key, news: News) {
        lock(&self.inner).tell(key, news);
    }

    /// Puts something into the inbox that is answered to the receiver.
    fn enter(&self, input: impl FnOnce(Key) -> Input) -> Result<(Key, mpsc::Receiver<News>), CallError> {
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
        self.ring();
        Ok((key, receiver))
    }

    fn error(&self, why: &str) -> CallError {
        ErrorKind::McpToolError.error(format!("MCP server {}: {why}.", self.server.name))
    }
}

impl Inner {
    /// Tells a caller something; after its end it hears no more.
    pub(super) fn tell(&mut self, key: Key, news: News) {
        let caller = match news {
            News::Progress(_) | News::Question(..) | News::Withdrawn(_) | News::Replied(..) => {
                self.callers.get(&key).cloned()
            }
            News::Ended(_) | News::Answered(_) => self.callers.remove(&key),
        };
        if let Some(caller) = caller {
            let _ = caller.send(news);
        }
    }
}
