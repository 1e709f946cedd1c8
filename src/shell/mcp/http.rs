//! Servers in the network: streamable HTTP, and the older transport with one event stream. Every message is a request on a thread of
//! its own, because a response may be an event stream that lasts as long as a call. What responses mean is decided in
//! [`crate::mcp::transport::http`].

#[cfg(test)]
mod tests;
mod trouble;

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
use crate::mcp::config::{Network, Reach};
use crate::mcp::session::{Input, Key, Outgoing, Sent};
use crate::mcp::transport::http::{After, Endpoint, Event, Events, Next, Request, Response, read_body, reopen_ms};
use crate::mcp::transport::message::RequestId;
use crate::mcp::transport::url::Url;
use crate::mcp::transport::{may_wait, waiting_bytes};
use crate::tool::public_hosts::{CheckedResolver, is_public};
use rustix::event::{EventfdFlags, eventfd};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use trouble::{Trouble, is_away};
use ureq::config::Config;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Proxy};

/// Read at a time.
const CHUNK: usize = 16 * 1024;

/// Where a server is.
pub struct Place<'a> {
    pub url: &'a Url,
    pub kind: Network,
    pub headers: &'a [(String, Secret)],
    pub reach: Reach,
    pub login: Option<Credentials>,
}

pub struct Http {
    shared: Arc<Shared>,
    /// Messages to send, in their order.
    queue: mpsc::Sender<Outgoing>,
    /// The connection ends after what came before has been taken.
    end: Option<Flow>,
}

/// What the threads of a connection share.
struct Shared {
    endpoint: Mutex<Endpoint>,
    config: Config,
    reach: Reach,
    /// The user's login to the server, if it may be used.
    login: Option<Credentials>,
    arrived: Mutex<Vec<Arrived>>,
    wake: OwnedFd,
    /// The requests under way, which can be shut down, with the calls that they are for.
    open: Mutex<Vec<(u64, Option<Key>, Agent)>>,
    requests: AtomicU64,
    /// How often the server has begun a session.
    sessions: Mutex<u64>,
    closed: Cancel,
    /// The bytes of messages that have not been sent.
    waiting: AtomicUsize,
}

/// What a thread tells the connection's.
enum Arrived {
    Input(Input),
    /// The event stream of the older transport ended.
    Ended(String),
    Unreached(String),
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
    pub fn new(context: &Context, place: Place<'_>) -> Result<Http, String> {
        let Place { url, kind, headers, reach, login } = place;
        let none = Variables::default();
        let proxies = Proxies::new(&|name| context.reader.variable(&none, name));
        let proxy = proxies.to(url.whole().reveal()).filter(|_| reach == Reach::Free).map(Proxy::new).transpose();
        let proxy = proxy.map_err(|error| format!("the proxy cannot be used: {error}"))?;
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        let config = Agent::config_builder()
            .tls_config(context.tls.clone())
            .proxy(proxy)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(ms(LIST_MS))
            // The session has the clocks of calls; this only ends what it has forgotten.
            .timeout_recv_response(ms(2 * CALL_MS))
            .max_idle_connections(0)
            .build();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
        let shared = Arc::new(Shared {
            endpoint: Mutex::new(Endpoint::new(url.clone(), kind, headers.to_vec())),
            config,
            reach,
            login,
            arrived: Mutex::default(),
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
            Network::Sse => match self.shared.spawn(|shared| shared.older_stream()) {
                Ok(()) => Vec::new(),
                Err(why) => vec![Input::Lost(why)],
            },
        }
    }

    fn send(&mut self, message: Outgoing, version: &str) -> Result<(), String> {
        if !version.is_empty() && !matches!(message.kind, Sent::Initialize(_)) {
            lock(&self.shared.endpoint).agree(version);
        }
        let bytes = waiting_bytes(&message.text);
        may_wait(self.shared.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes)?;
        self.queue.send(message).map_err(|_| "the thread that sends is gone".to_owned())
    }

    fn initialized(&mut self) {
        if self.kind() != Network::Sse {
            // Without it the server cannot say that its lists changed, and everything else works.
            let _ = self.shared.spawn(|shared| shared.own_stream());
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
        let arrived = std::mem::take(&mut *lock(&self.shared.arrived));
        let (came, end) = in_order(arrived);
        match end {
            Some(end) if came.is_empty() => end,
            end => {
                self.end = end;
                Flow::Came(came)
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
            // That the session is over helps the server only.
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

    /// Sends messages in their order: a request is sent after the notifications before it have been accepted. Requests are answered
    /// beside each other.
    fn send_all(self: &Arc<Self>, messages: &mpsc::Receiver<Outgoing>) {
        for message in messages {
            let bytes = waiting_bytes(&message.text);
            let began = match message.kind {
                Sent::Other => {
                    self.post(&message);
                    Ok(())
                }
                Sent::Initialize(_) | Sent::Request(..) => self.spawn(move |shared| shared.post(&message)),
            };
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            if let Err(why) = began {
                self.tell(Arrived::Broken(why));
            }
        }
    }

    fn tell(&self, arrived: Arrived) {
        if !self.closed.is_set() {
            lock(&self.arrived).push(arrived);
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Makes a request with the user's login. If the server refuses that, another token is tried once.
    fn request(&self, agent: &Agent, kind: Request<'_>, text: &str, to: Option<&Url>) -> Result<Reply, Trouble> {
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

    /// Makes a request and reads the head of the response.
    fn request_with(&self, agent: &Agent, kind: Request<'_>, text: &str, to: Option<&Url>) -> Result<Reply, Trouble> {
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
        let response = response.map_err(|error| Trouble::of(&error, &endpoint.url))?;
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
        let next = endpoint.judge(kind, &Response { status, headers: &headers, body: &start });
        Ok(Reply { status, next, headers, body })
    }

    /// An agent that visits no other addresses than the server may have.
    fn agent(&self) -> Agent {
        agent(&self.config, self.reach)
    }

    /// Does something with an agent of its own that the end of the call or of the connection shuts down.
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

    /// Sends a message and reads what is answered to it.
    fn post(&self, message: &Outgoing) {
        let (id, call) = match message.kind {
            Sent::Initialize(id) => (Some(id), None),
            Sent::Request(id, call) => (Some(id), call),
            Sent::Other => (None, None),
        };
        let session = *lock(&self.sessions);
        let why = self.with_agent(call, |agent| self.exchange(agent, message, id, session)).err();
        match (why, id, message.kind) {
            (Some(Trouble::Unreached(why)), _, Sent::Initialize(_)) => self.tell(Arrived::Unreached(why)),
            (Some(why), Some(request), _) => {
                self.tell(Arrived::Input(Input::Failed { request, why: why.text() }));
            }
            (None, ..) | (Some(_), None, _) => {}
        }
    }

    fn exchange(&self, agent: &Agent, message: &Outgoing, id: Option<RequestId>, session: u64) -> Result<(), Trouble> {
        let kind = Request::Post(message.kind);
        let mut reply = self.request(agent, kind, &message.text, None)?;
        if matches!(reply.next, Next::Redirect(_)) && self.reach != Reach::Free {
            return Err("it redirects, which is not followed for a server that a client named".into());
        }
        if let Next::Redirect(to) = &reply.next {
            reply = self.request(agent, kind, &message.text, Some(&to.clone()))?;
        }
        if matches!(message.kind, Sent::Initialize(_)) && matches!(reply.next, Next::Body | Next::Events) {
            lock(&self.endpoint).open(&reply.headers)?;
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
            Next::Events => Ok(self.events(agent, reply.body, Events::new(id), id)?),
            Next::Messages(messages) => {
                self.messages(messages, id);
                Ok(())
            }
            Next::SessionLost => {
                // Another request may have noticed it before, and a new session may have begun.
                if *lock(&self.sessions) == session {
                    lock(&self.endpoint).forget();
                }
                id.into_iter().for_each(|id| self.tell(Arrived::Input(Input::SessionLost(id))));
                Ok(())
            }
            Next::TrySse => {
                self.tell(Arrived::TrySse);
                Ok(())
            }
            Next::NeedsLogin { .. } => {
                self.tell(Arrived::NeedsLogin);
                Ok(())
            }
            Next::Redirect(_) => Err("it redirects more than once".into()),
            Next::Failed(why) if is_away(reply.status) => Err(Trouble::Unreached(why)),
            Next::Failed(why) => Err(why.into()),
        }
    }

    fn messages(&self, messages: Vec<crate::mcp::transport::message::Message>, on: Option<RequestId>) {
        messages.into_iter().for_each(|message| self.tell(Arrived::Input(Input::Message { message, on })));
    }

    /// Reads an event stream until the answer has come. A stream that broke is resumed if the server can do that.
    fn events(
        &self,
        agent: &Agent,
        body: Option<Body>,
        mut events: Events,
        on: Option<RequestId>,
    ) -> Result<(), String> {
        self.read_events(body, &mut events, on)?;
        loop {
            let (last_id, wait_ms) = match events.after() {
                After::Complete => return Ok(()),
                After::Lost(why) => return Err(why),
                After::Resume { last_id, wait_ms } => (last_id, wait_ms),
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

    /// Reads one stream to its end. An error means that the connection cannot be used.
    fn read_events(&self, body: Option<Body>, events: &mut Events, on: Option<RequestId>) -> Result<(), String> {
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
                    Event::Message(message) => self.tell(Arrived::Input(Input::Message { message, on })),
                    Event::Junk(text) => self.tell(Arrived::Input(Input::Junk(text))),
                    Event::Endpoint(url) => {
                        lock(&self.endpoint).url = url;
                        self.tell(Arrived::Input(Input::Start));
                    }
                }
            }
        }
        Ok(())
    }

    /// The stream on which the server says what no request asked for. Some have none.
    fn own_stream(&self) {
        let mut failures = 0;
        while !self.closed.is_set() {
            let read: Result<Opened, Trouble> = self.with_agent(None, |agent| {
                let reply = self.request(agent, Request::Stream { last_id: None }, "", None)?;
                match reply.next {
                    Next::NoStream => Ok(Opened::None),
                    Next::Events => {
                        self.read_events(reply.body, &mut Events::new(None), None)?;
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

    /// The one stream of the older transport. The connection lasts as long as it.
    fn older_stream(&self) {
        let url = lock(&self.endpoint).url.clone();
        let ended = self.with_agent(None, |agent| {
            let reply = self.request(agent, Request::Stream { last_id: None }, "", None)?;
            match reply.next {
                Next::Events => Ok(self.read_events(reply.body, &mut Events::older(url.clone()), None)?),
                Next::NeedsLogin { .. } => {
                    self.tell(Arrived::NeedsLogin);
                    Ok(())
                }
                Next::Failed(why) if is_away(reply.status) => Err(Trouble::Unreached(why)),
                Next::Failed(why) => Err(why.into()),
                _ => Err(format!("{} has no event stream", url.shown()).into()),
            }
        });
        self.tell(match ended {
            Ok(()) => Arrived::Ended("its event stream ended".into()),
            Err(Trouble::Unreached(why)) => Arrived::Unreached(why),
            Err(Trouble::Other(why)) => Arrived::Broken(why),
        });
    }
}

enum Opened {
    None,
    Read,
}

fn agent(config: &Config, reach: Reach) -> Agent {
    let judged = match reach {
        Reach::Free | Reach::Listed => return config.new_agent(),
        Reach::Loopback => CheckedResolver::loopback(),
        Reach::Public => CheckedResolver::new(is_public),
    };
    Agent::with_parts(config.clone(), DefaultConnector::default(), judged)
}

/// What came before the end of the connection, and that end: a result that was delivered counts.
fn in_order(arrived: Vec<Arrived>) -> (Vec<Input>, Option<Flow>) {
    let mut came = Vec::new();
    for arrived in arrived {
        let end = match arrived {
            Arrived::Input(input) => {
                came.push(input);
                continue;
            }
            Arrived::Ended(why) => Flow::Ended(why),
            Arrived::Unreached(why) => Flow::Unreached(why),
            Arrived::Broken(why) => Flow::Broken(why),
            Arrived::TrySse => Flow::TrySse,
            Arrived::NeedsLogin => Flow::NeedsLogin,
        };
        return (came, Some(end));
    }
    (came, None)
}
