//! The HTTP transports without I/O: which header fields a request has, what a response means, and how event streams are read and resumed. The
//! shell sends the requests. Its HTTP client does not follow redirections; [`Endpoint::interpret`] returns them.

use crate::base::http::Headers;
use crate::base::secret::Secret;
use crate::limits::mcp::{ANSWER_BYTES, BODY_SHOWN_BYTES, MESSAGE_BYTES, RESUME_MS, RESUME_TRIES, RETRY_MS};
use crate::mcp::config::Network;
use crate::mcp::session::Sent;
use crate::mcp::text::clean_line;
use crate::mcp::transport::message::{self, Message, RequestId};
use crate::mcp::transport::url::Url;
use crate::wire::sse::{Decoder, TooLarge};

/// The URL and the header fields of a connection's requests.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub url: Url,
    pub kind: Network,
    /// The header fields of the settings.
    pub headers: Vec<(String, Secret)>,
    /// The token of the stored login.
    pub token: Option<Secret>,
    session: Option<Secret>,
    version: Option<String>,
}

/// An HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A POST with a message.
    Post(Sent),
    /// A GET for an event stream, which may be resumed after an event.
    Stream { last_id: Option<&'a str> },
    /// A DELETE that ends the session.
    Delete,
}

/// A response, with the beginning of its body if its status is not 2xx.
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
    /// The body is an event stream: [`EventStream`].
    Events,
    /// The server has no GET stream. This is not an error.
    NoStream,
    /// The session does not exist any more. Clear it and give [`Input::SessionLost`](crate::mcp::session::Input) to the session.
    SessionLost,
    /// The server may support only the older transport. Connect with [`Network::Sse`].
    TrySse,
    /// The credentials are missing or not accepted; `challenge` is the `WWW-Authenticate` field.
    NeedsLogin { challenge: Option<String> },
    /// Send the same request to this URL, once.
    Redirect(Url),
    /// The error body contains messages, which answer the request.
    Messages(Vec<Message>),
    /// The request has failed; the text is for people.
    Failed(String),
}

impl Endpoint {
    pub fn new(url: Url, kind: Network, headers: Vec<(String, Secret)>) -> Endpoint {
        Endpoint { url, kind, headers, token: None, session: None, version: None }
    }

    /// Stores the session id from the response to `initialize`.
    pub fn set_session(&mut self, headers: &Headers) -> Result<(), String> {
        self.session = match headers.get("mcp-session-id") {
            Some(id) if (1..=256).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Some(Secret::new(id))
            }
            Some(_) => return Err("the server sent a session id that is not valid".into()),
            None => None,
        };
        Ok(())
    }

    /// Stores the negotiated version of the protocol.
    pub fn set_version(&mut self, version: &str) {
        self.version = Some(version.to_owned());
    }

    /// Clears the session, because the server has lost it.
    pub fn clear_session(&mut self) {
        (self.session, self.version) = (None, None);
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The header fields of a request, except those that the HTTP client adds.
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

    pub fn interpret(&self, request: Request<'_>, response: &Response<'_>) -> Next {
        let is_initialize = matches!(request, Request::Post(Sent::Initialize(_)));
        let had_session = self.session.is_some() && !is_initialize;
        match (response.status, request) {
            (200..=299, Request::Delete) => Next::Done,
            (200..=299, request) => self.success(request, response),
            (307 | 308, _) => match response.headers.get("location").map(|to| self.url.join(to)) {
                Some(Ok(url)) => Next::Redirect(url),
                Some(Err(why)) => Next::Failed(why),
                None => self.unexpected(response),
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
                let is_too_new = messages.iter().flatten().any(is_too_new);
                match messages {
                    _ if is_initialize
                        && self.kind == Network::Either
                        && matches!(response.status, 400 | 404 | 405)
                        && !is_too_new =>
                    {
                        Next::TrySse
                    }
                    Some(messages) => Next::Messages(messages),
                    None => self.unexpected(response),
                }
            }
            _ => self.unexpected(response),
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
                excerpt(response.body)
            )),
        }
    }

    fn unexpected(&self, response: &Response<'_>) -> Next {
        Next::Failed(format!("{} answered {}: {}", self.url.shown(), response.status, excerpt(response.body)))
    }
}

/// Parses the messages of a body. An error without a valid id answers the request whose response has this body.
pub fn read_body(body: &[u8]) -> Result<Vec<Message>, String> {
    message::read(body).ok_or_else(|| format!("the server sent a body that is no message: {}", excerpt(body)))
}

fn error_messages(body: &[u8]) -> Option<Vec<Message>> {
    let messages = message::read(body)?;
    let is_error = |message: &Message| matches!(message, Message::Response { result: Err(_), .. });
    messages.iter().any(is_error).then_some(messages)
}

fn is_too_new(message: &Message) -> bool {
    matches!(message, Message::Response { result: Err(error), .. } if error.is_too_new())
}

fn mentions_session(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).to_ascii_lowercase().contains("session")
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * BODY_SHOWN_BYTES)]);
    if text.trim().is_empty() { "(no body)".into() } else { clean_line(&text, BODY_SHOWN_BYTES) }
}

/// An event of an event stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Message(Message),
    /// The URL for POSTs (older transport).
    Endpoint(Url),
    /// An event that is not a message.
    Junk(String),
}

/// An event stream: the response to a request, the GET stream, or the one stream of the older transport.
#[derive(Debug)]
pub struct EventStream {
    decoder: Decoder,
    /// Set while the first event of the older transport (`endpoint`) is missing. Its URL is resolved against this one.
    endpoint_of: Option<Url>,
    /// The request that the stream answers.
    request: Option<RequestId>,
    answered: bool,
    bytes: usize,
    /// The last event id of the streams that this one resumes.
    resumed_id: String,
    retry_ms: Option<u64>,
    tries: u32,
}

/// What to do at the end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The response is complete.
    Complete,
    /// After this time, open a GET stream that resumes after the event, and call [`EventStream::resume`].
    Resume {
        last_id: String,
        wait_ms: u64,
    },
    Lost(String),
}

impl EventStream {
    /// The stream of a response. `None` for the GET stream, which does not answer a request.
    pub fn new(request: Option<RequestId>) -> EventStream {
        EventStream {
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
    pub fn legacy(url: Url) -> EventStream {
        EventStream { endpoint_of: Some(url), ..EventStream::new(None) }
    }

    /// Reads bytes of the stream. After an error the connection cannot be used any more.
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
                    Some(messages) => messages.into_iter().for_each(|message| out.push(self.track_answer(message))),
                    None => out.push(Event::Junk(excerpt(&event.data))),
                }
            }
        }
        Ok(())
    }

    fn track_answer(&mut self, message: Message) -> Event {
        if let Message::Response { id, result } = &message {
            self.answered |= *id == self.request || id.is_none() && result.is_err();
        }
        Event::Message(message)
    }

    /// Returns what to do at the end of the stream.
    pub fn after(&mut self) -> StreamEnd {
        let last_id = match self.decoder.last_id() {
            "" => self.resumed_id.clone(),
            id => id.to_owned(),
        };
        if self.answered {
            return StreamEnd::Complete;
        }
        if last_id.is_empty() || self.tries == RESUME_TRIES {
            return StreamEnd::Lost("connection lost; the call may have run".into());
        }
        self.retry_ms = self.decoder.retry_ms().or(self.retry_ms);
        let wait_ms = self.retry_ms.unwrap_or(RESUME_MS).clamp(*RETRY_MS.start(), *RETRY_MS.end());
        StreamEnd::Resume { last_id, wait_ms }
    }

    /// Prepares for a GET stream that resumes this one.
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
