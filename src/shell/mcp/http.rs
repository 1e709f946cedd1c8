//! The HTTP transports: streamable HTTP, and the older transport with one event stream. Every request has its own thread, because a response may
//! be an event stream that lasts as long as a call. [`crate::mcp::transport::http`] interprets the responses.

mod error;
#[cfg(test)]
mod tests;

use super::Context;
use super::connection::{Flow, STACK, Transport, poll_two};
use super::tokens::Credentials;
use crate::base::cancel::Cancel;
use crate::base::http::Headers;
use crate::base::lock::lock;
use crate::base::secret::Secret;
use crate::config::Variables;
use crate::config::proxy::Proxies;
use crate::limits::mcp::{BODY_SHOWN_BYTES, CALL_MS, ERROR_BODY_BYTES, LIST_MS, MESSAGE_BYTES, STOP_MS};
use crate::mcp::config::{AllowedAddresses, Network};
use crate::mcp::session::{Input, Key, Outgoing, Sent};
use crate::mcp::transport::http::{
    Endpoint, Event, EventStream, Next, Request, Response, StreamEnd, read_body, reopen_ms,
};
use crate::mcp::transport::message::RequestId;
use crate::mcp::transport::url::Url;
use crate::mcp::transport::{check_queue, queued_bytes};
use crate::tool::public_hosts::{CheckedResolver, is_public};
use error::{RequestError, is_gateway_error};
use rustix::event::{EventfdFlags, eventfd};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use ureq::config::Config;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Proxy};

/// The size of one read.
const CHUNK: usize = 16 * 1024;

/// The settings of a server that is reached over HTTP.
pub struct HttpSettings<'a> {
    pub url: &'a Url,
    pub kind: Network,
    pub headers: &'a [(String, Secret)],
    pub addresses: AllowedAddresses,
    pub login: Option<Credentials>,
}

pub struct Http {
    shared: Arc<Shared>,
    /// Messages to send, in order.
    queue: mpsc::Sender<Outgoing>,
    /// The end of the connection, which is returned after the inputs before it.
    end: Option<Flow>,
}

/// The data that the threads of a connection share.
struct Shared {
    endpoint: Mutex<Endpoint>,
    config: Config,
    addresses: AllowedAddresses,
    /// The user's login, if this server may use one.
    login: Option<Credentials>,
    received: Mutex<Vec<Received>>,
    wake: OwnedFd,
    /// The requests under way, with the calls that they belong to. Shutting down an agent ends its request.
    open: Mutex<Vec<(u64, Option<Key>, Agent)>>,
    requests: AtomicU64,
    /// The number of sessions so far.
    sessions: Mutex<u64>,
    closed: Cancel,
    /// The size of the queue of unsent messages.
    waiting: AtomicUsize,
}

/// A report from a request's thread to the connection's thread.
enum Received {
    Input(Input),
    /// The event stream of the older transport ended.
    Ended(String),
    Unreachable(String),
    Broken(String),
    TrySse,
    NeedsLogin,
}

/// A response whose body has not been read.
struct Reply {
    status: u16,
    next: Next,
    headers: Headers,
    body: Option<Body>,
}

impl Http {
    /// The error is for people.
    pub fn new(context: &Context, settings: HttpSettings<'_>) -> Result<Http, String> {
        let HttpSettings { url, kind, headers, addresses, login } = settings;
        let none = Variables::default();
        let proxies = Proxies::new(&|name| context.reader.variable(&none, name));
        let proxy =
            proxies.to(url.whole().reveal()).filter(|_| addresses == AllowedAddresses::Any).map(Proxy::new).transpose();
        let proxy = proxy.map_err(|error| format!("the proxy cannot be used: {error}"))?;
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        let config = Agent::config_builder()
            .tls_config(context.tls.clone())
            .proxy(proxy)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(ms(LIST_MS))
            // The session has the timeouts of calls. This one only ends requests that the session has given up.
            .timeout_recv_response(ms(2 * CALL_MS))
            .max_idle_connections(0)
            .build();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
        let shared = Arc::new(Shared {
            endpoint: Mutex::new(Endpoint::new(url.clone(), kind, headers.to_vec())),
            config,
            addresses,
            login,
            received: Mutex::default(),
            wake,
            open: Mutex::default(),
            requests: AtomicU64::new(0),
            sessions: Mutex::default(),
            closed: Cancel::default(),
            waiting: AtomicUsize::new(0),
        });
        let (queue, messages) = mpsc::channel();
        shared.spawn(move |shared| shared.send_all(&messages))?;
        Ok(Http { shared, queue, end: None })
    }

    fn kind(&self) -> Network {
        lock(&self.shared.endpoint).kind
    }
}

impl Transport for Http {
    fn begin(&mut self) -> Vec<Input> {
        match self.kind() {
            Network::Http | Network::Either => vec![Input::Start],
            Network::Sse => match self.shared.spawn(|shared| shared.legacy_stream()) {
                Ok(()) => Vec::new(),
                Err(why) => vec![Input::Lost(why)],
            },
        }
    }

    fn send(&mut self, message: Outgoing, version: &str) -> Result<(), String> {
        if !version.is_empty() && !matches!(message.kind, Sent::Initialize(_)) {
            lock(&self.shared.endpoint).set_version(version);
        }
        let bytes = queued_bytes(&message.text);
        check_queue(self.shared.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes)?;
        self.queue.send(message).map_err(|_| "the thread that sends is gone".to_owned())
    }

    fn initialized(&mut self) {
        if self.kind() != Network::Sse {
            // If this fails, the server cannot say that its lists have changed; everything else works.
            let _ = self.shared.spawn(|shared| shared.server_stream());
        }
    }

    fn call_ended(&mut self, call: Key) {
        let open = lock(&self.shared.open);
        open.iter().filter(|(_, key, _)| *key == Some(call)).for_each(|(.., agent)| agent.clone().shutdown());
    }

    fn wait(&mut self, wake: BorrowedFd<'_>, time: Option<Duration>) -> Flow {
        if let Some(end) = self.end.take() {
            return end;
        }
        poll_two(wake, self.shared.wake.as_fd(), time);
        let received = std::mem::take(&mut *lock(&self.shared.received));
        let (inputs, end) = in_order(received);
        match end {
            Some(end) if inputs.is_empty() => end,
            end => {
                self.end = end;
                Flow::Inputs(inputs)
            }
        }
    }

    fn close(self: Box<Self>) -> String {
        self.shared.closed.set();
        lock(&self.shared.open).iter().for_each(|(.., agent)| agent.clone().shutdown());
        if lock(&self.shared.endpoint).has_session() && self.kind() != Network::Sse {
            let time = Some(Duration::from_millis(STOP_MS));
            let endpoint = lock(&self.shared.endpoint).clone();
            let mut request = self.shared.agent().delete(endpoint.url.whole().reveal());
            for (name, value) in endpoint.fields(Request::Delete) {
                request = request.header(&name, value.reveal());
            }
            // Ending the session only helps the server, so errors are ignored.
            let _ = request.config().timeout_global(time).build().call();
        }
        String::new()
    }

    fn word(&self) -> &'static str {
        match self.kind() {
            Network::Http | Network::Either => "http",
            Network::Sse => "sse",
        }
    }
}

impl Shared {
    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<Shared>) + Send + 'static) -> Result<(), String> {
        let shared = self.clone();
        let started = thread::Builder::new().name("mcp-http".into()).stack_size(STACK).spawn(move || work(&shared));
        started.map(drop).map_err(|error| format!("no thread can be started: {error}"))
    }

    /// Sends messages in order: a request is sent after the server has accepted the notifications before it. Requests run concurrently.
    fn send_all(self: &Arc<Self>, messages: &mpsc::Receiver<Outgoing>) {
        for message in messages {
            let bytes = queued_bytes(&message.text);
            let began = match message.kind {
                Sent::Other => {
                    self.post(&message);
                    Ok(())
                }
                Sent::Initialize(_) | Sent::Request(..) => self.spawn(move |shared| shared.post(&message)),
            };
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            if let Err(why) = began {
                self.report(Received::Broken(why));
            }
        }
    }

    fn report(&self, received: Received) {
        if !self.closed.is_set() {
            lock(&self.received).push(received);
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Sends a request with the user's login. If the server refuses the token, tries another one once.
    fn request(&self, agent: &Agent, kind: Request<'_>, text: &str, to: Option<&Url>) -> Result<Reply, RequestError> {
        let Some(login) = &self.login else { return self.request_with(agent, kind, text, to) };
        let used = login.token()?;
        lock(&self.endpoint).token.clone_from(&used);
        let reply = self.request_with(agent, kind, text, to)?;
        let Next::NeedsLogin { .. } = reply.next else { return Ok(reply) };
        match login.after_refusal(used.as_ref())? {
            None => Ok(reply),
            Some(other) => {
                lock(&self.endpoint).token = Some(other.clone());
                let reply = self.request_with(agent, kind, text, to)?;
                if let Next::NeedsLogin { .. } = reply.next {
                    login.note_refused(&other);
                }
                Ok(reply)
            }
        }
    }

    /// Sends a request and reads the head of the response.
    fn request_with(
        &self,
        agent: &Agent,
        kind: Request<'_>,
        text: &str,
        to: Option<&Url>,
    ) -> Result<Reply, RequestError> {
        let endpoint = lock(&self.endpoint).clone();
        let url = to.unwrap_or(&endpoint.url).whole().reveal().to_owned();
        let fields = endpoint.fields(kind);
        let fields = fields.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        let response = match kind {
            Request::Post(_) => {
                fields.fold(agent.post(&url), |made, (name, value)| made.header(name, value)).send(text)
            }
            Request::Stream { .. } | Request::Delete => {
                fields.fold(agent.get(&url), |made, (name, value)| made.header(name, value)).call()
            }
        };
        let response = response.map_err(|error| RequestError::of(&error, &endpoint.url))?;
        let (head, body) = response.into_parts();
        let mut headers = Headers::default();
        for (name, value) in &head.headers {
            headers.push(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
        }
        let status = head.status.as_u16();
        let is_read = ["application/json", "text/event-stream"]
            .iter()
            .any(|kind| headers.get("content-type").is_some_and(|given| given.to_ascii_lowercase().starts_with(kind)));
        let mut body = Some(body);
        let mut start = Vec::new();
        let most = if (200..300).contains(&status) { BODY_SHOWN_BYTES } else { ERROR_BODY_BYTES };
        if !(200..300).contains(&status) || !is_read {
            let reader = body.take().map(Body::into_reader);
            let _ = reader.map(|reader| reader.take(most as u64).read_to_end(&mut start));
        }
        let next = endpoint.interpret(kind, &Response { status, headers: &headers, body: &start });
        Ok(Reply { status, next, headers, body })
    }

    /// An agent that connects only to addresses that the server may have.
    fn agent(&self) -> Agent {
        agent(&self.config, self.addresses)
    }

    /// Runs `work` with its own agent, which is shut down when the call or the connection ends.
    fn with_agent<T>(&self, call: Option<Key>, work: impl FnOnce(&Agent) -> T) -> T {
        let agent = self.agent();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).push((number, call, agent.clone()));
        if self.closed.is_set() {
            agent.clone().shutdown();
        }
        let done = work(&agent);
        lock(&self.open).retain(|(open, ..)| *open != number);
        done
    }

    /// Sends a message and reads the response.
    fn post(&self, message: &Outgoing) {
        let (id, call) = match message.kind {
            Sent::Initialize(id) => (Some(id), None),
            Sent::Request(id, call) => (Some(id), call),
            Sent::Other => (None, None),
        };
        let session = *lock(&self.sessions);
        let why = self.with_agent(call, |agent| self.exchange(agent, message, id, session)).err();
        match (why, id, message.kind) {
            (Some(RequestError::Unreachable(why)), _, Sent::Initialize(_)) => self.report(Received::Unreachable(why)),
            (Some(why), Some(request), _) => {
                self.report(Received::Input(Input::Failed { request, why: why.text() }));
            }
            (None, ..) | (Some(_), None, _) => {}
        }
    }

    fn exchange(
        &self,
        agent: &Agent,
        message: &Outgoing,
        id: Option<RequestId>,
        session: u64,
    ) -> Result<(), RequestError> {
        let kind = Request::Post(message.kind);
        let mut reply = self.request(agent, kind, &message.text, None)?;
        if matches!(reply.next, Next::Redirect(_)) && self.addresses != AllowedAddresses::Any {
            return Err("it redirects, which is not followed for a server that a client named".into());
        }
        if let Next::Redirect(to) = &reply.next {
            reply = self.request(agent, kind, &message.text, Some(&to.clone()))?;
        }
        if matches!(message.kind, Sent::Initialize(_)) && matches!(reply.next, Next::Body | Next::Events) {
            lock(&self.endpoint).set_session(&reply.headers)?;
            *lock(&self.sessions) += 1;
        }
        match reply.next {
            Next::Done | Next::NoStream => Ok(()),
            Next::Body => {
                let mut bytes = Vec::new();
                let reader = reply.body.map(Body::into_reader).ok_or("the response has no body")?;
                let read = reader.take(MESSAGE_BYTES as u64 + 1).read_to_end(&mut bytes);
                read.map_err(|error| format!("connection lost; the call may have run ({error})"))?;
                if bytes.len() > MESSAGE_BYTES {
                    return Err(format!("the answer has more than {MESSAGE_BYTES} bytes").into());
                }
                self.messages(read_body(&bytes)?, id);
                Ok(())
            }
            Next::Events => Ok(self.events(agent, reply.body, EventStream::new(id), id)?),
            Next::Messages(messages) => {
                self.messages(messages, id);
                Ok(())
            }
            Next::SessionLost => {
                // Another request may have noticed this before, and a new session may have begun.
                if *lock(&self.sessions) == session {
                    lock(&self.endpoint).clear_session();
                }
                id.into_iter().for_each(|id| self.report(Received::Input(Input::SessionLost(id))));
                Ok(())
            }
            Next::TrySse => {
                self.report(Received::TrySse);
                Ok(())
            }
            Next::NeedsLogin { .. } => {
                self.report(Received::NeedsLogin);
                Ok(())
            }
            Next::Redirect(_) => Err("it redirects more than once".into()),
            Next::Failed(why) if is_gateway_error(reply.status) => Err(RequestError::Unreachable(why)),
            Next::Failed(why) => Err(why.into()),
        }
    }

    fn messages(&self, messages: Vec<crate::mcp::transport::message::Message>, on: Option<RequestId>) {
        messages.into_iter().for_each(|message| self.report(Received::Input(Input::Message { message, on })));
    }

    /// Reads an event stream until the response is complete. Resumes an interrupted stream if the server supports that.
    fn events(
        &self,
        agent: &Agent,
        body: Option<Body>,
        mut events: EventStream,
        on: Option<RequestId>,
    ) -> Result<(), String> {
        self.read_events(body, &mut events, on)?;
        loop {
            let (last_id, wait_ms) = match events.after() {
                StreamEnd::Complete => return Ok(()),
                StreamEnd::Lost(why) => return Err(why),
                StreamEnd::Resume { last_id, wait_ms } => (last_id, wait_ms),
            };
            self.closed.wait(Duration::from_millis(wait_ms));
            if self.closed.is_set() {
                return Ok(());
            }
            events.resume();
            let stream = Request::Stream { last_id: Some(&last_id) };
            if let Ok(Reply { next: Next::Events, body, .. }) = self.request(agent, stream, "", None) {
                self.read_events(body, &mut events, on)?;
            }
        }
    }

    /// Reads one stream to its end. After an error the connection cannot be used any more.
    fn read_events(&self, body: Option<Body>, events: &mut EventStream, on: Option<RequestId>) -> Result<(), String> {
        let Some(mut reader) = body.map(Body::into_reader) else { return Ok(()) };
        let mut bytes = vec![0; CHUNK];
        let mut found = Vec::new();
        while let Ok(count) = reader.read(&mut bytes) {
            if count == 0 || self.closed.is_set() {
                break;
            }
            events.feed(&bytes[..count], &mut found)?;
            for event in found.drain(..) {
                match event {
                    Event::Message(message) => self.report(Received::Input(Input::Message { message, on })),
                    Event::Junk(text) => self.report(Received::Input(Input::Junk(text))),
                    Event::Endpoint(url) => {
                        lock(&self.endpoint).url = url;
                        self.report(Received::Input(Input::Start));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the GET stream, on which the server sends messages that answer no request. Some servers have none.
    fn server_stream(&self) {
        let mut failures = 0;
        while !self.closed.is_set() {
            let read: Result<Opened, RequestError> = self.with_agent(None, |agent| {
                let reply = self.request(agent, Request::Stream { last_id: None }, "", None)?;
                match reply.next {
                    Next::NoStream => Ok(Opened::None),
                    Next::Events => {
                        self.read_events(reply.body, &mut EventStream::new(None), None)?;
                        Ok(Opened::Read)
                    }
                    _ => Err("there is no stream".into()),
                }
            });
            match read {
                Ok(Opened::None) => return,
                Ok(Opened::Read) => failures = 0,
                Err(_) => failures += 1,
            }
            self.closed.wait(Duration::from_millis(reopen_ms(failures)));
        }
    }

    /// Reads the event stream of the older transport. The connection ends with it.
    fn legacy_stream(&self) {
        let url = lock(&self.endpoint).url.clone();
        let ended = self.with_agent(None, |agent| {
            let reply = self.request(agent, Request::Stream { last_id: None }, "", None)?;
            match reply.next {
                Next::Events => Ok(self.read_events(reply.body, &mut EventStream::legacy(url.clone()), None)?),
                Next::NeedsLogin { .. } => {
                    self.report(Received::NeedsLogin);
                    Ok(())
                }
                Next::Failed(why) if is_gateway_error(reply.status) => Err(RequestError::Unreachable(why)),
                Next::Failed(why) => Err(why.into()),
                _ => Err(format!("{} has no event stream", url.shown()).into()),
            }
        });
        self.report(match ended {
            Ok(()) => Received::Ended("its event stream ended".into()),
            Err(RequestError::Unreachable(why)) => Received::Unreachable(why),
            Err(RequestError::Other(why)) => Received::Broken(why),
        });
    }
}

enum Opened {
    None,
    Read,
}

fn agent(config: &Config, addresses: AllowedAddresses) -> Agent {
    let resolver = match addresses {
        AllowedAddresses::Any | AllowedAddresses::Listed => return config.new_agent(),
        AllowedAddresses::Loopback => CheckedResolver::loopback(),
        AllowedAddresses::Public => CheckedResolver::new(is_public),
    };
    Agent::with_parts(config.clone(), DefaultConnector::default(), resolver)
}

/// The inputs before the end of the connection, and that end. A result that arrived before the end is still delivered.
fn in_order(received: Vec<Received>) -> (Vec<Input>, Option<Flow>) {
    let mut inputs = Vec::new();
    for received in received {
        let end = match received {
            Received::Input(input) => {
                inputs.push(input);
                continue;
            }
            Received::Ended(why) => Flow::Ended(why),
            Received::Unreachable(why) => Flow::Unreachable(why),
            Received::Broken(why) => Flow::Broken(why),
            Received::TrySse => Flow::TrySse,
            Received::NeedsLogin => Flow::NeedsLogin,
        };
        return (inputs, Some(end));
    }
    (inputs, None)
}
