//! The transports over HTTP without their connections: which header fields a request has, what a response means, and how event streams
//! are read and resumed. The shell makes the requests; redirections are not followed by its client but told by [`Endpoint::judge`].

use crate::base::http::Headers;
use crate::base::secret::Secret;
use crate::limits::mcp::{ANSWER_BYTES, BODY_SHOWN_BYTES, MESSAGE_BYTES, RESUME_MS, RESUME_TRIES, RETRY_MS};
use crate::mcp::config::Network;
use crate::mcp::session::Sent;
use crate::mcp::text::clean_line;
use crate::mcp::transport::message::{self, Message, RequestId};
use crate::mcp::transport::url::Url;
use crate::wire::sse::{Decoder, TooLarge};

/// Where the messages of a connection go, and with which header fields.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub url: Url,
    pub kind: Network,
    /// From the settings.
    pub headers: Vec<(String, Secret)>,
    /// A stored token.
    pub token: Option<Secret>,
    session: Option<Secret>,
    version: Option<String>,
}

/// An HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A POST with a message.
    Post(Sent),
    /// A GET for an event stream, which may go on after an event.
    Stream { last_id: Option<&'a str> },
    /// The end of the session.
    Delete,
}

/// A response, with its whole body if its status is not 2xx.
pub struct Response<'a> {
    pub status: u16,
    pub headers: &'a Headers,
    /// The first bytes of the body.
    pub body: &'a [u8],
}

/// What a response means.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// There is nothing to read.
    Done,
    /// The body is one JSON text: [`read_body`].
    Body,
    /// The body is an event stream: [`Events`].
    Events,
    /// The server has no stream of its own; that is no failure.
    NoStream,
    /// The session does not exist any more: forget it and give [`Input::SessionLost`](crate::mcp::session::Input) to the session.
    SessionLost,
    /// The server may speak the older transport: connect with [`Network::Sse`].
    TrySse,
    /// The credentials are missing or not accepted; `challenge` is the `WWW-Authenticate` field.
    NeedsLogin { challenge: Option<String> },
    /// Send the same request there, once.
    Redirect(Url),
    /// The messages of an error body answer the request.
    Messages(Vec<Message>),
    /// For people.
    Failed(String),
}

impl Endpoint {
    pub fn new(url: Url, kind: Network, headers: Vec<(String, Secret)>) -> Endpoint {
        Endpoint { url, kind, headers, token: None, session: None, version: None }
    }

    /// Takes the session from the response to `initialize`.
    pub fn open(&mut self, headers: &Headers) -> Result<(), String> {
        self.session = match headers.get("mcp-session-id") {
            Some(id) if (1..=256).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Some(Secret::new(id))
            }
            Some(_) => return Err("the server sent a session id that is not valid".into()),
            None => None,
        };
        Ok(())
    }

    /// The version of the protocol that was agreed on.
    pub fn agree(&mut self, version: &str) {
        self.version = Some(version.to_owned());
    }

    /// Forgets a session that the server lost.
    pub fn forget(&mut self) {
        (self.session, self.version) = (None, None);
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The header fields of a request, beside those that every client sends.
    pub fn fields(&self, request: Request<'_>) -> Vec<(String, Secret)> {
        let mut fields = self.headers.clone();
        let mut add = |name: &str, value: &str| fields.push((name.to_owned(), Secret::new(value)));
        if let Some(token) = self.token.as_ref().filter(|_| !self.has_authorization()) {
            add("Authorization", &format!("Bearer {}", token.reveal()));
        }
        let is_initialize = match request {
            Request::Post(sent) => {
                add("Content-Type", "application/json");
                add("Accept", "application/json, text/event-stream");
                matches!(sent, Sent::Initialize(_))
            }
            Request::Stream { last_id } => {
                add("Accept", "text/event-stream");
                last_id.iter().for_each(|id| add("Last-Event-ID", id));
                false
            }
            Request::Delete => false,
        };
        if self.kind != Network::Sse && !is_initialize {
            self.version.iter().for_each(|version| add("MCP-Protocol-Version", version));
            self.session.iter().for_each(|session| add("Mcp-Session-Id", session.reveal()));
        }
        fields
    }

    fn has_authorization(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    }

    pub fn judge(&self, request: Request<'_>, response: &Response<'_>) -> Next {
        let is_initialize = matches!(request, Request::Post(Sent::Initialize(_)));
        let had_session = self.session.is_some() && !is_initialize;
        match (response.status, request) {
            (200..=299, Request::Delete) => Next::Done,
            (200..=299, request) => self.success(request, response),
            (307 | 308, _) => match response.headers.get("location").map(|to| self.url.join(to)) {
                Some(Ok(url)) => Next::Redirect(url),
                Some(Err(why)) => Next::Failed(why),
                None => self.failure(response),
            },
            (401 | 403, _) if self.has_authorization() => {
                Next::Failed(format!("the server answered {}; check headers", response.status))
            }
            (401 | 403, _) => {
                Next::NeedsLogin { challenge: response.headers.get("www-authenticate").map(str::to_owned) }
            }
            (404, Request::Post(_) | Request::Stream { last_id: Some(_) }) if had_session => Next::SessionLost,
            (400, Request::Post(_)) if had_session && mentions_session(response.body) => Next::SessionLost,
            (404 | 405, Request::Stream { last_id: None }) if self.kind != Network::Sse => Next::NoStream,
            (_, Request::Post(Sent::Initialize(_) | Sent::Request(..))) => {
                let messages = error_messages(response.body);
                let is_modern = messages.iter().flatten().any(is_modern);
                match messages {
                    _ if is_initialize
                        && self.kind == Network::Either
                        && matches!(response.status, 400 | 404 | 405)
                        && !is_modern =>
                    {
                        Next::TrySse
                    }
                    Some(messages) => Next::Messages(messages),
                    None => self.failure(response),
                }
            }
            _ => self.failure(response),
        }
    }

    fn success(&self, request: Request<'_>, response: &Response<'_>) -> Next {
        let kind = response.headers.get("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
        let is = |expected: &str| kind.trim().eq_ignore_ascii_case(expected);
        match request {
            Request::Post(_) if self.kind == Network::Sse => Next::Done,
            Request::Post(Sent::Other) | Request::Delete => Next::Done,
            Request::Post(_) | Request::Stream { .. } if is("text/event-stream") => Next::Events,
            Request::Post(_) if is("application/json") => Next::Body,
            Request::Post(_) | Request::Stream { .. } => Next::Failed(format!(
                "{} answered with the content type \"{}\" instead of JSON or events: {}",
                self.url.shown(),
                clean_line(kind, 80),
                head(response.body)
            )),
        }
    }

    fn failure(&self, response: &Response<'_>) -> Next {
        Next::Failed(format!("{} answered {}: {}", self.url.shown(), response.status, head(response.body)))
    }
}

/// The messages of a body. Errors that have no id of ours answer the request that the body came with.
pub fn read_body(body: &[u8]) -> Result<Vec<Message>, String> {
    message::read(body).ok_or_else(|| format!("the server sent a body that is no message: {}", head(body)))
}

fn error_messages(body: &[u8]) -> Option<Vec<Message>> {
    let messages = message::read(body)?;
    let is_error = |message: &Message| matches!(message, Message::Response { result: Err(_), .. });
    messages.iter().any(is_error).then_some(messages)
}

fn is_modern(message: &Message) -> bool {
    matches!(message, Message::Response { result: Err(error), .. } if error.is_modern())
}

fn mentions_session(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).to_ascii_lowercase().contains("session")
}

fn head(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * BODY_SHOWN_BYTES)]);
    if text.trim().is_empty() { "(no body)".into() } else { clean_line(&text, BODY_SHOWN_BYTES) }
}

/// What an event stream brings.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Message(Message),
    /// Where messages are posted to (the older transport).
    Endpoint(Url),
    /// Neither.
    Junk(String),
}

/// An event stream: the response to a request, the GET stream, or the one stream of the older transport.
#[derive(Debug)]
pub struct Events {
    decoder: Decoder,
    /// What the older transport begins with is still missing; addresses are resolved against this one.
    endpoint_of: Option<Url>,
    /// The request that is answered.
    request: Option<RequestId>,
    answered: bool,
    bytes: usize,
    /// The last id of streams before this one.
    resumed_id: String,
    retry_ms: Option<u64>,
    tries: u32,
}

/// How to go on after the end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// The answer came.
    Complete,
    /// Open a GET stream after this time that goes on after the event, and call [`Events::resume`].
    Resume {
        last_id: String,
        wait_ms: u64,
    },
    Lost(String),
}

impl Events {
    /// The response to a request. None: the GET stream, which answers none.
    pub fn new(request: Option<RequestId>) -> Events {
        Events {
            decoder: Decoder::new(MESSAGE_BYTES),
            endpoint_of: None,
            request,
            answered: false,
            bytes: 0,
            resumed_id: String::new(),
            retry_ms: None,
            tries: 0,
        }
    }

    /// The stream of the older transport, which was requested from `url`.
    pub fn older(url: Url) -> Events {
        Events { endpoint_of: Some(url), ..Events::new(None) }
    }

    /// Reads bytes of the stream. After an error the connection cannot be used.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Event>) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.request.is_some() && self.bytes > ANSWER_BYTES {
            return Err(format!("the answer has more than {ANSWER_BYTES} bytes"));
        }
        self.decoder.feed(bytes);
        while let Some(event) = self.decoder.next() {
            let event = event.map_err(|TooLarge| format!("an event has more than {MESSAGE_BYTES} bytes"))?;
            if let Some(url) = self.endpoint_of.take() {
                if event.name != "endpoint" {
                    return Err("the first event of the stream is not endpoint".into());
                }
                out.push(Event::Endpoint(url.join(String::from_utf8_lossy(&event.data).trim())?));
            } else if matches!(event.name.as_str(), "" | "message") && !event.data.trim_ascii().is_empty() {
                match message::read(&event.data) {
                    Some(messages) => messages.into_iter().for_each(|message| out.push(self.note(message))),
                    None => out.push(Event::Junk(head(&event.data))),
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, message: Message) -> Event {
        if let Message::Response { id, result } = &message {
            self.answered |= *id == self.request || id.is_none() && result.is_err();
        }
        Event::Message(message)
    }

    /// The stream ended.
    pub fn after(&mut self) -> After {
        let last_id = match self.decoder.last_id() {
            "" => self.resumed_id.clone(),
            id => id.to_owned(),
        };
        if self.answered {
            return After::Complete;
        }
        if last_id.is_empty() || self.tries == RESUME_TRIES {
            return After::Lost("connection lost; the call may have run".into());
        }
        self.retry_ms = self.decoder.retry_ms().or(self.retry_ms);
        let wait_ms = self.retry_ms.unwrap_or(RESUME_MS).clamp(*RETRY_MS.start(), *RETRY_MS.end());
        After::Resume { last_id, wait_ms }
    }

    /// A GET stream goes on where this one ended.
    pub fn resume(&mut self) {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::new(MESSAGE_BYTES));
        if !decoder.last_id().is_empty() {
            self.resumed_id = decoder.last_id().to_owned();
        }
        self.tries += 1;
    }
}

/// How long to wait before the GET stream, or the stream of the older transport, is opened again for the n-th time.
pub fn reopen_ms(failures: u32) -> u64 {
    (RESUME_MS << failures.min(16)).min(*RETRY_MS.end())
}

#[cfg(test)]
mod tests;
