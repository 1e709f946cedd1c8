//! One connection to a server, and the thread that runs its session. The thread starts the server, starts it again when it has ended, and stops
//! it when it was not used for a while. Workers pass calls to the thread through an inbox.

mod calls;
mod log;

pub use log::ServerLog;

use super::Context;
use super::http::{self, Http};
use super::stdio::{Program, Stdio};
use super::tokens::Credentials;
use crate::base::level::Level;
use crate::base::lock::lock;
use crate::limits::mcp::{FIRST_WAIT_MS, STDERR_SHOWN_BYTES};
use crate::mcp::catalog::Catalog;
use crate::mcp::config::{Network, Server, Transport as TransportSettings};
use crate::mcp::roots::Root;
use crate::mcp::session::{Effect, Info, Input, Key, Outgoing, Session, Setup};
use crate::mcp::state::{ReportedFailures, Starts, State, is_retry_due};
use calls::CallEvent;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

pub const STACK: usize = 256 * 1024;

/// The transport of a session. Only the connection's thread uses it.
pub trait Transport {
    /// Starts the transport. Returns inputs for the session.
    fn begin(&mut self) -> Vec<Input>;

    /// Sends a message. `version` is the version of the protocol, which is empty before the handshake. An error ends the connection.
    fn send(&mut self, message: Outgoing, version: &str) -> Result<(), String>;

    /// Called when the handshake is complete.
    fn initialized(&mut self) {}

    /// Called when a call has ended: the transport stops reading its response.
    fn call_ended(&mut self, _: Key) {}

    /// Waits until something has arrived, the `wake` descriptor is readable, or the time is over.
    fn wait(&mut self, wake: BorrowedFd<'_>, time: Option<Duration>) -> Flow;

    /// Ends the connection and the server's process. Returns how that ended.
    fn close(self: Box<Self>) -> String;

    /// `stdio`, `http` or `sse`.
    fn word(&self) -> &'static str;
}

/// The result of waiting.
pub enum Flow {
    Inputs(Vec<Input>),
    /// The program or the network connection has ended. If the server was connected before, it is started again.
    Ended(String),
    /// The server cannot be reached. The connection is tried again.
    Unreachable(String),
    /// The server cannot be used, because it violates the protocol.
    Broken(String),
    /// The server may support only the older transport.
    TrySse,
    /// The server requires a login.
    NeedsLogin,
}

pub struct Connection {
    pub server: Server,
    root: PathBuf,
    context: Arc<Context>,
    pub log: Arc<ServerLog>,
    wake: OwnedFd,
    inner: Mutex<Inner>,
    changed: Condvar,
    reported: Arc<Mutex<ReportedFailures>>,
}

struct Inner {
    state: State,
    /// Whether the thread is running. If the server has ended, the thread may start it again.
    is_alive: bool,
    must_stop: bool,
    /// Changes with every change of the catalog. Unique among all connections.
    version: u64,
    catalog: Arc<Catalog>,
    info: Info,
    transport: &'static str,
    /// Whether all lists were read once.
    is_listed: bool,
    /// Whether the server was connected once.
    was_connected: bool,
    /// When the thread gave up reaching the server, if it did.
    unreachable_since: Option<Instant>,
    inbox: Vec<Input>,
    callers: BTreeMap<Key, mpsc::Sender<CallEvent>>,
    next: u64,
    started: Instant,
    used: Instant,
}

/// The state of a connection at one time.
#[derive(Clone)]
pub struct Snapshot {
    pub state: State,
    pub is_alive: bool,
    pub version: u64,
    pub catalog: Arc<Catalog>,
    pub info: Info,
    pub transport: &'static str,
}

impl Connection {
    /// Starts the server in the background. Failures that were reported for the connection `before` are not reported again.
    pub fn start(
        server: Server,
        root: PathBuf,
        context: Arc<Context>,
        before: Option<&Connection>,
    ) -> io::Result<Arc<Connection>> {
        let now = Instant::now();
        let inner = Inner {
            state: State::Connecting,
            is_alive: true,
            must_stop: false,
            version: 0,
            catalog: Arc::default(),
            info: Info::default(),
            transport: match server.transport {
                TransportSettings::Stdio { .. } => "stdio",
                TransportSettings::Network { .. } => "http",
            },
            is_listed: false,
            was_connected: false,
            unreachable_since: None,
            inbox: Vec::new(),
            callers: BTreeMap::new(),
            next: 0,
            started: now,
            used: now,
        };
        let connection = Arc::new(Connection {
            log: Arc::new(ServerLog::new(server.redactor())),
            server,
            root,
            context,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            reported: before.map(|before| before.reported.clone()).unwrap_or_default(),
        });
        let own = connection.clone();
        thread::Builder::new().name("mcp".into()).stack_size(STACK).spawn(move || own.run())?;
        Ok(connection)
    }

    pub fn snapshot(&self) -> Snapshot {
        let inner = lock(&self.inner);
        Snapshot {
            state: inner.state.clone(),
            is_alive: inner.is_alive,
            version: inner.version,
            catalog: inner.catalog.clone(),
            info: inner.info.clone(),
            transport: inner.transport,
        }
    }

    /// Marks the connection as used, so that it is not stopped for a while.
    pub fn touch(&self) {
        lock(&self.inner).used = Instant::now();
    }

    /// Whether the server was unreachable, and long enough ago to try it again.
    pub fn is_retry_due(&self) -> bool {
        let since = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        lock(&self.inner).unreachable_since.is_some_and(|unreachable_since| is_retry_due(since(unreachable_since)))
    }

    /// Waits until the server is connected and its first lists were read, but not longer than requests wait for a server.
    pub fn wait_for_start(&self) {
        let inner = lock(&self.inner);
        let most = Duration::from_millis(FIRST_WAIT_MS).saturating_sub(inner.started.elapsed());
        let waits = |inner: &mut Inner| match inner.state {
            State::Connecting => true,
            State::Connected => !inner.is_listed,
            State::Blocked(_) | State::Disabled | State::Untrusted | State::NeedsLogin => false,
            State::Failed(_) | State::Stopping | State::Idle => false,
        };
        drop(self.changed.wait_timeout_while(inner, most, waits));
    }

    /// Waits until the server is connected or has failed. The session has its own timeout for that.
    pub fn wait_until_started(&self) -> State {
        let inner = lock(&self.inner);
        let waited = self.changed.wait_while(inner, |inner| inner.state == State::Connecting);
        waited.map_or(State::Stopping, |inner| inner.state.clone())
    }

    /// Like [`Connection::wait_until_started`], but for a limited time. Afterwards the state may still be `Connecting`.
    pub fn wait_started_within(&self, patience: Duration) -> State {
        let inner = lock(&self.inner);
        let waited = self.changed.wait_timeout_while(inner, patience, |inner| inner.state == State::Connecting);
        waited.map_or(State::Stopping, |(inner, _)| inner.state.clone())
    }

    /// Tells the thread to stop the server. Waits for that up to `patience`.
    pub fn stop(&self, patience: Duration) {
        let mut inner = lock(&self.inner);
        inner.must_stop = true;
        self.wake_thread();
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(inner, patience, |inner| inner.is_alive));
    }

    /// The workspace, and the other directories that tasks may use.
    fn roots(&self) -> Vec<Root> {
        let included = lock(&self.context.included);
        std::iter::once(&self.root).chain(included.iter()).map(|dir| Root::of(dir)).collect()
    }

    /// Called when these directories may have changed.
    pub fn roots_changed(&self) {
        let roots = self.roots();
        lock(&self.inner).inbox.push(Input::Roots(roots));
        self.wake_thread();
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// The maximum length of one text of the server for the model.
    pub fn result_chars(&self) -> usize {
        self.context.limits.result_chars
    }

    /// Wakes the thread.
    fn wake_thread(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Why a session ended.
enum SessionEnd {
    Stopped,
    Ended(String),
    /// The server ended before it was connected.
    Died(String),
    /// The server cannot be reached.
    Unreachable(String),
    Broken(String),
    TrySse,
    NeedsLogin,
}

/// The thread.
impl Connection {
    fn run(&self) {
        let clock = Instant::now();
        let now_ms = || u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut starts = Starts::default();
        let mut fallback = None;
        loop {
            starts.started(now_ms());
            let end = match self.open(fallback) {
                Ok(transport) => self.serve(transport, &now_ms),
                Err(why) => SessionEnd::Broken(why),
            };
            let again = match end {
                SessionEnd::Stopped => return self.finish(State::Idle),
                SessionEnd::NeedsLogin => return self.finish(State::NeedsLogin),
                SessionEnd::TrySse => {
                    fallback = Some(Network::Sse);
                    continue;
                }
                SessionEnd::Broken(why) | SessionEnd::Died(why) => return self.finish(State::Failed(why)),
                SessionEnd::Ended(why) => {
                    let too_often = format!("{why} It was started too often; start it again");
                    self.set_failed(&why);
                    starts.wait_ms(now_ms()).ok_or(too_often)
                }
                SessionEnd::Unreachable(why) => {
                    self.set_failed(&why);
                    let wait = starts.wait_ms(now_ms()).ok_or(why);
                    lock(&self.inner).unreachable_since = wait.is_err().then(Instant::now);
                    wait.map_err(|why| format!("{why} It is tried again when a task needs it in a while, or"))
                }
            };
            match again {
                Err(why) => {
                    return self.finish(State::Failed(format!("{why} with /mcp reload {}.", self.server.name)));
                }
                Ok(wait) => self.sleep(Duration::from_millis(wait)),
            }
            if lock(&self.inner).must_stop {
                return self.finish(State::Idle);
            }
            self.set_state(State::Connecting);
        }
    }

    /// Opens the transport. `fallback` is the network transport to use if the server does not support the usual one.
    fn open(&self, fallback: Option<Network>) -> Result<Box<dyn Transport>, String> {
        Ok(match &self.server.transport {
            TransportSettings::Stdio { command, args, env, cwd } => {
                let program = Program { command, args, env, dir: self.root.join(cwd.as_deref().unwrap_or(".")) };
                Box::new(Stdio::start(&self.context, &program, self.log.clone())?)
            }
            TransportSettings::Network { url, kind, headers } => {
                let (kind, addresses) = (fallback.unwrap_or(*kind), self.server.addresses);
                let login = Credentials::of(&self.context.tokens, &self.server, &self.log.redactor);
                Box::new(Http::new(&self.context, http::HttpSettings { url, kind, headers, addresses, login })?)
            }
        })
    }

    /// Runs one session until it ends.
    fn serve(&self, mut transport: Box<dyn Transport>, now_ms: &dyn Fn() -> u64) -> SessionEnd {
        let mut session = Session::new(Setup {
            server: self.server.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            roots: self.roots(),
            parallel: self.server.parallel,
            timeout_ms: self.server.timeout_ms,
            startup_ms: self.server.startup_ms,
            catalog: Catalog::clone(&lock(&self.inner).catalog),
        });
        lock(&self.inner).transport = transport.word();
        let mut inputs = transport.begin();
        // This starts the session's timeout even if the transport has to wait for something first.
        inputs.push(Input::Tick);
        let end = loop {
            inputs.append(&mut lock(&self.inner).inbox);
            let mut end = None;
            for input in std::mem::take(&mut inputs) {
                for effect in session.handle(input, now_ms()) {
                    end = self.apply(effect, &session, &mut *transport).or(end);
                }
            }
            if !session.is_listing() && !std::mem::replace(&mut lock(&self.inner).is_listed, true) {
                self.changed.notify_all();
            }
            if let Some(end) = end {
                break end;
            }
            if lock(&self.inner).must_stop || self.is_idle() {
                break SessionEnd::Stopped;
            }
            let until_due = session.due_ms().map(|due| Duration::from_millis(due.saturating_sub(now_ms())));
            let idle = self.idle();
            let time = if inputs.is_empty() { until_due.unwrap_or(idle).min(idle) } else { Duration::ZERO };
            match transport.wait(self.wake.as_fd(), Some(time)) {
                Flow::Inputs(mut came) => inputs.append(&mut came),
                // A server that was never connected would end again.
                Flow::Ended(why) if !lock(&self.inner).was_connected => break SessionEnd::Died(why),
                Flow::Ended(why) => break SessionEnd::Ended(why),
                Flow::Unreachable(why) => break SessionEnd::Unreachable(why),
                Flow::Broken(why) => break SessionEnd::Broken(why),
                Flow::TrySse => break SessionEnd::TrySse,
                Flow::NeedsLogin => break SessionEnd::NeedsLogin,
            }
            inputs.push(Input::Tick);
        };
        self.close(transport, session, end, now_ms())
    }

    /// Closes the transport, and fails everything that waits for the server.
    fn close(&self, transport: Box<dyn Transport>, mut session: Session, end: SessionEnd, now_ms: u64) -> SessionEnd {
        if matches!(end, SessionEnd::Stopped) {
            self.set_state(State::Stopping);
        }
        let how = transport.close();
        let with_stderr = |why: &str| self.with_stderr(&[why, &how]);
        let for_calls = |why: &[&str]| self.with_stderr(&[why, &["the call may have run"]].concat());
        let (end, why) = match end {
            SessionEnd::Stopped => (SessionEnd::Stopped, "it was stopped".to_owned()),
            SessionEnd::TrySse => (SessionEnd::TrySse, "it speaks another transport".to_owned()),
            SessionEnd::NeedsLogin => {
                (SessionEnd::NeedsLogin, format!("needs login: gemini-a2a mcp login {}", self.server.name))
            }
            SessionEnd::Ended(why) => (SessionEnd::Ended(with_stderr(&why)), for_calls(&[&why, &how])),
            SessionEnd::Died(why) => (SessionEnd::Broken(with_stderr(&why)), with_stderr(&why)),
            // The server may have received calls before it became unreachable. Before it is connected, none are sent.
            SessionEnd::Unreachable(why) if lock(&self.inner).state == State::Connected => {
                (SessionEnd::Unreachable(with_stderr(&why)), for_calls(&[&why]))
            }
            SessionEnd::Unreachable(why) => (SessionEnd::Unreachable(with_stderr(&why)), with_stderr(&why)),
            // After a protocol violation, the exit status of the program is not meaningful.
            SessionEnd::Broken(why) => (SessionEnd::Broken(self.with_stderr(&[&why])), for_calls(&[&why])),
        };
        let effects = session.handle(Input::Lost(why), now_ms);
        let mut inner = lock(&self.inner);
        for effect in effects {
            match effect {
                Effect::Ended { call, outcome } => inner.notify(call, CallEvent::Ended(outcome)),
                Effect::Answered { key, result } => inner.notify(key, CallEvent::Answered(result)),
                _ => {}
            }
        }
        end
    }

    /// Carries out an effect of the session. If this returns an end, the connection ends.
    fn apply(&self, effect: Effect, session: &Session, transport: &mut dyn Transport) -> Option<SessionEnd> {
        match effect {
            Effect::Send(message) => {
                return transport.send(message, &session.info().version).err().map(SessionEnd::Broken);
            }
            Effect::Initialized => transport.initialized(),
            Effect::Ready => {
                let mut inner = lock(&self.inner);
                (inner.info, inner.state, inner.used) = (session.info().clone(), State::Connected, Instant::now());
                inner.was_connected = true;
                drop(inner);
                self.changed.notify_all();
                self.context.log.info(format_args!("MCP server {} is connected", self.server.name));
            }
            Effect::Changed(_) => {
                let mut inner = lock(&self.inner);
                inner.catalog = Arc::new(session.catalog().clone());
                inner.version = self.context.versions.fetch_add(1, Ordering::Relaxed) + 1;
            }
            Effect::Progress { call, text } => {
                self.notify(call, CallEvent::Progress(self.log.redactor.hide(&text)));
            }
            Effect::Ended { call, outcome } => {
                transport.call_ended(call);
                self.notify(call, CallEvent::Ended(outcome));
            }
            Effect::Answered { key, result } => self.notify(key, CallEvent::Answered(result)),
            Effect::Question { question, call, elicitation } => {
                self.notify(call, CallEvent::Question(question, elicitation));
            }
            Effect::Withdrawn { question, call } => self.notify(call, CallEvent::Withdrawn(question)),
            Effect::Log { level, text } => self.log.add(self.note(level, &text).as_bytes()),
            Effect::Notice(text) => self.log.push(self.note(Level::Info, &text).as_bytes()),
            Effect::End(why) => return Some(SessionEnd::Broken(why)),
        }
        None
    }

    /// Logs a text for the operator. Returns it as a line without secrets.
    fn note(&self, level: Level, text: &str) -> String {
        let text = self.log.redactor.hide(text);
        let level = if level == Level::Error { Level::Warn } else { level };
        self.context.log.log(level, &format_args!("MCP server {}: {text}", self.server.name));
        format!("{text}\n")
    }

    /// The reasons, followed by the end of the server's standard error.
    fn with_stderr(&self, why: &[&str]) -> String {
        let prefix = format!("MCP server {}: ", self.server.name);
        let why = why.iter().map(|why| why.strip_prefix(&prefix).unwrap_or(why).trim_end_matches('.'));
        let why: Vec<&str> = why.filter(|why| !why.is_empty()).collect();
        let why = self.log.redactor.hide(&why.join("; "));
        match self.log.tail(STDERR_SHOWN_BYTES).trim() {
            "" => why,
            words => format!("{why}; its last words: {words}"),
        }
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.server.idle_ms)
    }

    fn is_idle(&self) -> bool {
        let inner = lock(&self.inner);
        inner.state == State::Connected && inner.callers.is_empty() && inner.used.elapsed() >= self.idle()
    }

    fn set_state(&self, state: State) {
        lock(&self.inner).state = state;
        self.changed.notify_all();
    }

    /// Sets the state to failed. Each failure is logged once.
    fn set_failed(&self, why: &str) {
        if lock(&self.reported).is_new(why) {
            self.context.log.warn(format_args!("MCP server {}: {why}", self.server.name));
        }
        self.set_state(State::Failed(why.to_owned()));
    }

    /// Called when the thread ends: sets the final state.
    fn finish(&self, state: State) {
        if let State::Failed(why) = &state {
            self.set_failed(why);
        }
        let mut inner = lock(&self.inner);
        inner.state = state;
        inner.is_alive = false;
        inner.inbox.clear();
        // This disconnects the callers, which report that the connection has ended.
        inner.callers.clear();
        drop(inner);
        self.changed.notify_all();
    }

    fn sleep(&self, time: Duration) {
        let inner = lock(&self.inner);
        drop(self.changed.wait_timeout_while(inner, time, |inner| !inner.must_stop));
    }
}

/// Waits until one of two event descriptors is readable or the time is over, and resets both.
pub fn poll_two(one: BorrowedFd<'_>, two: BorrowedFd<'_>, time: Option<Duration>) {
    let mut fds = [one, two].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let _ = poll(&mut fds, time.and_then(|time| Timespec::try_from(time).ok()).as_ref());
    for fd in [one, two] {
        let _ = rustix::io::read(fd, &mut [0; 8]);
    }
}
