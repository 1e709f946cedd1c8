//! One connection to a server: what tasks see of it, and the thread that drives its session. The thread starts the server, starts it
//! again when it ended, and stops it when nobody has used it for a while. Calls are given to it through an inbox.

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
use crate::mcp::config::{Network, Server, Transport as Place};
use crate::mcp::roots::Root;
use crate::mcp::session::{Effect, Info, Input, Key, Outgoing, Session, Setup};
use crate::mcp::state::{Starts, State, Told, is_reached_for_again};
use calls::News;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

pub const STACK: usize = 256 * 1024;

/// How a session sends and receives. Used by the connection's thread only.
pub trait Transport {
    /// Begins; the inputs are for the session.
    fn begin(&mut self) -> Vec<Input>;

    /// Sends a message of a session with this version of the protocol, which is empty before the handshake. An error ends the
    /// connection.
    fn send(&mut self, message: Outgoing, version: &str) -> Result<(), String>;

    /// The handshake is complete.
    fn initialized(&mut self) {}

    /// What is still read for a call is not needed any more.
    fn call_ended(&mut self, _: Key) {}

    /// Waits until something came, the wake-up descriptor is readable or the time is over.
    fn wait(&mut self, wake: BorrowedFd<'_>, time: Option<Duration>) -> Flow;

    /// Ends the connection and the server's process. Returns how that ended.
    fn close(self: Box<Self>) -> String;

    /// `stdio`, `http` or `sse`.
    fn word(&self) -> &'static str;
}

/// What waiting brought.
pub enum Flow {
    Came(Vec<Input>),
    /// The program ended by itself, or the network connection did. One that was connected is started again.
    Ended(String),
    /// The server does not answer. It is tried again.
    Unreached(String),
    /// It cannot be used: it does not follow the protocol.
    Broken(String),
    /// The server may speak the older transport.
    TrySse,
    /// The server wants credentials.
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
    told: Arc<Mutex<Told>>,
}

struct Inner {
    state: State,
    /// The thread runs, or will start the server again.
    is_alive: bool,
    must_stop: bool,
    /// Another number after every change of the catalog, which no other connection has.
    version: u64,
    catalog: Arc<Catalog>,
    info: Info,
    transport: &'static str,
    /// All its lists have come once.
    is_listed: bool,
    /// It was connected once.
    was_connected: bool,
    /// Since when it is not tried to be reached any more.
    unreached: Option<Instant>,
    inbox: Vec<Input>,
    callers: BTreeMap<Key, mpsc::Sender<News>>,
    next: u64,
    started: Instant,
    used: Instant,
}

/// What is known of a connection.
#[derive(Clone)]
pub struct View {
    pub state: State,
    pub is_alive: bool,
    pub version: u64,
    pub catalog: Arc<Catalog>,
    pub info: Info,
    pub transport: &'static str,
}

impl Connection {
    /// Starts the server in the background. People know the failures of the connection before it.
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
                Place::Stdio { .. } => "stdio",
                Place::Network { .. } => "http",
            },
            is_listed: false,
            was_connected: false,
            unreached: None,
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
            told: before.map(|before| before.told.clone()).unwrap_or_default(),
        });
        let own = connection.clone();
        thread::Builder::new().name("mcp".into()).stack_size(STACK).spawn(move || own.run())?;
        Ok(connection)
    }

    pub fn view(&self) -> View {
        let inner = lock(&self.inner);
        View {
            state: inner.state.clone(),
            is_alive: inner.is_alive,
            version: inner.version,
            catalog: inner.catalog.clone(),
            info: inner.info.clone(),
            transport: inner.transport,
        }
    }

    /// Somebody needs it: it is not stopped for a while.
    pub fn touch(&self) {
        lock(&self.inner).used = Instant::now();
    }

    /// It could not be reached a while ago, and may be there now.
    pub fn may_be_reached(&self) -> bool {
        let since = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        lock(&self.inner).unreached.is_some_and(|unreached| is_reached_for_again(since(unreached)))
    }

    /// Waits as long as it is starting or its first lists have not come, but not longer than requests wait for a server.
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

    /// Waits until it is connected or has failed; the session has its own clock for that.
    pub fn wait_until_started(&self) -> State {
        let inner = lock(&self.inner);
        let waited = self.changed.wait_while(inner, |inner| inner.state == State::Connecting);
        waited.map_or(State::Stopping, |inner| inner.state.clone())
    }

    /// The same, but for a limited time: then it may still be connecting.
    pub fn wait_started_within(&self, patience: Duration) -> State {
        let inner = lock(&self.inner);
        let waited = self.changed.wait_timeout_while(inner, patience, |inner| inner.state == State::Connecting);
        waited.map_or(State::Stopping, |(inner, _)| inner.state.clone())
    }

    /// Has the thread stop the server. Waits for that up to a limit.
    pub fn stop(&self, patience: Duration) {
        let mut inner = lock(&self.inner);
        inner.must_stop = true;
        self.ring();
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(inner, patience, |inner| inner.is_alive));
    }

    /// The workspace, and what tasks may use beside it.
    fn roots(&self) -> Vec<Root> {
        let included = lock(&self.context.included);
        std::iter::once(&self.root).chain(included.iter()).map(|dir| Root::of(dir)).collect()
    }

    /// Those directories may be others now.
    pub fn roots_changed(&self) {
        let roots = self.roots();
        lock(&self.inner).inbox.push(Input::Roots(roots));
        self.ring();
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// The most characters of one text of the server that the model is given.
    pub fn result_chars(&self) -> usize {
        self.context.limits.result_chars
    }

    /// Wakes the thread.
    fn ring(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Why a session ended.
enum End {
    Stopped,
    Ended(String),
    /// It ended before it was connected.
    Died(String),
    /// It does not answer.
    Unreached(String),
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
        let mut older = None;
        loop {
            starts.started(now_ms());
            let end = match self.open(older) {
                Ok(transport) => self.serve(transport, &now_ms),
                Err(why) => End::Broken(why),
            };
            let again = match end {
                End::Stopped => return self.give_up(State::Idle),
                End::NeedsLogin => return self.give_up(State::NeedsLogin),
                End::TrySse => {
                    older = Some(Network::Sse);
                    continue;
                }
                End::Broken(why) | End::Died(why) => return self.give_up(State::Failed(why)),
                End::Ended(why) => {
                    let too_often = format!("{why} It was started too often; start it again");
                    self.fail(&why);
                    starts.wait_ms(now_ms()).ok_or(too_often)
                }
                End::Unreached(why) => {
                    self.fail(&why);
                    let wait = starts.wait_ms(now_ms()).ok_or(why);
                    lock(&self.inner).unreached = wait.is_err().then(Instant::now);
                    wait.map_err(|why| format!("{why} It is tried again when a task needs it in a while, or"))
                }
            };
            match again {
                Err(why) => {
                    return self.give_up(State::Failed(format!("{why} with /mcp reload {}.", self.server.name)));
                }
                Ok(wait) => self.sleep(Duration::from_millis(wait)),
            }
            if lock(&self.inner).must_stop {
                return self.give_up(State::Idle);
            }
            self.set_state(State::Connecting);
        }
    }

    /// Over the network with this transport, if the server is known not to speak the usual one.
    fn open(&self, older: Option<Network>) -> Result<Box<dyn Transport>, String> {
        Ok(match &self.server.transport {
            Place::Stdio { command, args, env, cwd } => {
                let program = Program { command, args, env, dir: self.root.join(cwd.as_deref().unwrap_or(".")) };
                Box::new(Stdio::start(&self.context, &program, self.log.clone())?)
            }
            Place::Network { url, kind, headers } => {
                let (kind, reach) = (older.unwrap_or(*kind), self.server.reach);
                let login = Credentials::of(&self.context.tokens, &self.server, &self.log.redactor);
                Box::new(Http::new(&self.context, http::Place { url, kind, headers, reach, login })?)
            }
        })
    }

    /// Drives one session until it ends.
    fn serve(&self, mut transport: Box<dyn Transport>, now_ms: &dyn Fn() -> u64) -> End {
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
        // The clock of the session begins also if the transport has to wait for something first.
        inputs.push(Input::Tick);
        let end = loop {
            inputs.append(&mut lock(&self.inner).inbox);
            let mut end = None;
            for input in std::mem::take(&mut inputs) {
                for effect in session.handle(input, now_ms()) {
                    end = self.perform(effect, &session, &mut *transport).or(end);
                }
            }
            if !session.is_listing() && !std::mem::replace(&mut lock(&self.inner).is_listed, true) {
                self.changed.notify_all();
            }
            if let Some(end) = end {
                break end;
            }
            if lock(&self.inner).must_stop || self.is_idle() {
                break End::Stopped;
            }
            let until_due = session.due_ms().map(|due| Duration::from_millis(due.saturating_sub(now_ms())));
            let idle = self.idle();
            let time = if inputs.is_empty() { until_due.unwrap_or(idle).min(idle) } else { Duration::ZERO };
            match transport.wait(self.wake.as_fd(), Some(time)) {
                Flow::Came(mut came) => inputs.append(&mut came),
                // A server that never was connected would end again.
                Flow::Ended(why) if !lock(&self.inner).was_connected => break End::Died(why),
                Flow::Ended(why) => break End::Ended(why),
                Flow::Unreached(why) => break End::Unreached(why),
                Flow::Broken(why) => break End::Broken(why),
                Flow::TrySse => break End::TrySse,
                Flow::NeedsLogin => break End::NeedsLogin,
            }
            inputs.push(Input::Tick);
        };
        self.close(transport, session, end, now_ms())
    }

    /// Ends the transport, and everything that waits for the server.
    fn close(&self, transport: Box<dyn Transport>, mut session: Session, end: End, now_ms: u64) -> End {
        if matches!(end, End::Stopped) {
            self.set_state(State::Stopping);
        }
        let how = transport.close();
        let with_words = |why: &str| self.with_last_words(&[why, &how]);
        let for_calls = |why: &[&str]| self.with_last_words(&[why, &["the call may have run"]].concat());
        let (end, why) = match end {
            End::Stopped => (End::Stopped, "it was stopped".to_owned()),
            End::TrySse => (End::TrySse, "it speaks another transport".to_owned()),
            End::NeedsLogin => (End::NeedsLogin, format!("needs login: gemini-a2a mcp login {}", self.server.name)),
            End::Ended(why) => (End::Ended(with_words(&why)), for_calls(&[&why, &how])),
            End::Died(why) => (End::Broken(with_words(&why)), with_words(&why)),
            // It may have taken calls in a session that it lost; before it is connected none are sent.
            End::Unreached(why) if lock(&self.inner).state == State::Connected => {
                (End::Unreached(with_words(&why)), for_calls(&[&why]))
            }
            End::Unreached(why) => (End::Unreached(with_words(&why)), with_words(&why)),
            // How it ends after that says nothing about it.
            End::Broken(why) => (End::Broken(self.with_last_words(&[&why])), for_calls(&[&why])),
        };
        let effects = session.handle(Input::Lost(why), now_ms);
        let mut inner = lock(&self.inner);
        for effect in effects {
            match effect {
                Effect::Ended { call, outcome } => inner.tell(call, News::Ended(outcome)),
                Effect::Answered { key, result } => inner.tell(key, News::Answered(result)),
                _ => {}
            }
        }
        end
    }

    /// Does what the session says. A result ends the connection.
    fn perform(&self, effect: Effect, session: &Session, transport: &mut dyn Transport) -> Option<End> {
        match effect {
            Effect::Send(message) => return transport.send(message, &session.info().version).err().map(End::Broken),
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
                self.tell(call, News::Progress(self.log.redactor.hide(&text)));
            }
            Effect::Ended { call, outcome } => {
                transport.call_ended(call);
                self.tell(call, News::Ended(outcome));
            }
            Effect::Answered { key, result } => self.tell(key, News::Answered(result)),
            Effect::Question { question, call, elicitation } => {
                self.tell(call, News::Question(question, elicitation));
            }
            Effect::Withdrawn { question, call } => self.tell(call, News::Withdrawn(question)),
            Effect::Log { level, text } => self.log.add(self.note(level, &text).as_bytes()),
            Effect::Notice(text) => self.log.push(self.note(Level::Info, &text).as_bytes()),
            Effect::End(why) => return Some(End::Broken(why)),
        }
        None
    }

    /// A line for people, without secrets; the operator is told.
    fn note(&self, level: Level, text: &str) -> String {
        let text = self.log.redactor.hide(text);
        let level = if level == Level::Error { Level::Warn } else { level };
        self.context.log.log(level, &format_args!("MCP server {}: {text}", self.server.name));
        format!("{text}\n")
    }

    /// The reason, and the end of what the server printed.
    fn with_last_words(&self, why: &[&str]) -> String {
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

    /// The server ended; it will be started again. People are told each failure once.
    fn fail(&self, why: &str) {
        if lock(&self.told).is_new(why) {
            self.context.log.warn(format_args!("MCP server {}: {why}", self.server.name));
        }
        self.set_state(State::Failed(why.to_owned()));
    }

    /// The thread ends.
    fn give_up(&self, state: State) {
        if let State::Failed(why) = &state {
            self.fail(why);
        }
        let mut inner = lock(&self.inner);
        inner.state = state;
        inner.is_alive = false;
        inner.inbox.clear();
        // Callers hear that the connection ended.
        inner.callers.clear();
        drop(inner);
        self.changed.notify_all();
    }

    fn sleep(&self, time: Duration) {
        let inner = lock(&self.inner);
        drop(self.changed.wait_timeout_while(inner, time, |inner| !inner.must_stop));
    }
}

/// Waits until one of two descriptors is readable or the time is over, and reads what wakes us up.
pub fn poll_two(one: BorrowedFd<'_>, two: BorrowedFd<'_>, time: Option<Duration>) {
    let mut fds = [one, two].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let _ = poll(&mut fds, time.and_then(|time| Timespec::try_from(time).ok()).as_ref());
    for fd in [one, two] {
        let _ = rustix::io::read(fd, &mut [0; 8]);
    }
}
