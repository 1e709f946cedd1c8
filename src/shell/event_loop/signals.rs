//! Signals that the loop can poll. A signal handler sets the signal's flag and writes a byte into a socket that the loop watches; the loop
//! then reads the flags. A byte alone would not say which signal it was, a flag alone would not wake the loop.
//!
//! The first INT or TERM asks for an orderly end. The second one means that this takes too long, or that the loop is stuck,
//! so it ends the process in the signal handler itself, without the loop.
//!
//! CONT only sets a flag: a process that was stopped does not know how long connections have waited. CHLD is handled only in the first
//! process of a PID namespace, which has to reap every orphan in it.

use crate::base::lock::lock;
use crate::base::text::words::words;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Signal {
        Interrupt = "SIGINT",
        Terminate = "SIGTERM",
        /// The terminal was closed.
        Hangup = "SIGHUP",
    }
}

impl Signal {
    /// The exit status by which shells say that a program ended on this signal.
    pub fn exit_status(self) -> i32 {
        128 + self.number()
    }

    fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SIGINT,
            Signal::Terminate => SIGTERM,
            Signal::Hangup => SIGHUP,
        }
    }

    /// Whether a second signal ends the process at once.
    fn ends_process(self) -> bool {
        match self {
            Signal::Interrupt | Signal::Terminate => true,
            Signal::Hangup => false,
        }
    }
}

/// What SIGHUP does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHangup {
    /// It ends the server, because the terminal that started it is closed.
    End,
    /// Files are read and opened again, as for other servers.
    Reload,
}

/// While one of these exists, the signals do not end the process by themselves. When the last one is dropped, signals that had
/// their default effect have it again.
pub struct Signals {
    /// Readable when a signal has arrived.
    pub socket: UnixStream,
    pub hangup: OnHangup,
    arrived: [Arc<AtomicBool>; Signal::ALL.len()],
    continued: Arc<AtomicBool>,
    child_ended: Arc<AtomicBool>,
    actions: Vec<SigId>,
    /// None if the host handles the requests to end.
    _handling: Option<Handling>,
}

/// The signals that the process neither handles nor ignores; all of them if that cannot be read.
fn with_default_effect() -> impl Iterator<Item = Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigCgt:").or(line.strip_prefix("SigIgn:")));
    let others = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).fold(0, |all, mask| all | mask);
    Signal::ALL.into_iter().filter(move |signal| others & (1 << (signal.number() - 1)) == 0)
}

/// How many [`Handling`]s there are in this process, and the flag that gives the signals their default effects. The handlers of that flag
/// were registered with the first [`Handling`].
static HANDLING: Mutex<Option<(usize, Arc<AtomicBool>)>> = Mutex::new(None);

/// A [`Signals`] that handles the requests to end.
struct Handling;

/// Counts one more [`Handling`].
fn begin_handling() -> io::Result<Handling> {
    let mut handling = lock(&HANDLING);
    if let Some((count, has_default)) = &mut *handling {
        *count += 1;
        has_default.store(false, Ordering::Release);
        return Ok(Handling);
    }
    let has_default = Arc::new(AtomicBool::new(false));
    for signal in with_default_effect() {
        flag::register_conditional_default(signal.number(), has_default.clone())?;
    }
    *handling = Some((1, has_default));
    Ok(Handling)
}

impl Drop for Handling {
    fn drop(&mut self) {
        if let Some((count, has_default)) = &mut *lock(&HANDLING) {
            *count -= 1;
            has_default.store(*count == 0, Ordering::Release);
        }
    }
}

impl Signals {
    /// Handles the signals that end the server, CONT and CHLD.
    pub fn new() -> io::Result<Signals> {
        let (mut signals, write) = Signals::empty(Some(begin_handling()?))?;
        let ending = Arc::new(AtomicBool::new(false));
        for (signal, arrived) in Signal::ALL.into_iter().zip(&signals.arrived) {
            let number = signal.number();
            if signal.ends_process() {
                // Actions run in this order: the first signal finds the flag unset and sets it for the second.
                let status = signal.exit_status();
                signals.actions.push(flag::register_conditional_shutdown(number, status, ending.clone())?);
                signals.actions.push(flag::register(number, ending.clone())?);
            }
            signals.actions.push(flag::register(number, arrived.clone())?);
            signals.actions.push(low_level::pipe::register(number, write.try_clone()?)?);
        }
        signals.with_flags(write)
    }

    /// Makes SIGHUP reload files instead of ending the server.
    pub fn reloading(mut self) -> Signals {
        self.hangup = OnHangup::Reload;
        self
    }

    /// Handles only CONT and CHLD: the host program handles the signals that end the server.
    pub fn without_end() -> io::Result<Signals> {
        let (signals, write) = Signals::empty(None)?;
        signals.with_flags(write)
    }

    /// Handles no signal yet. What is registered with the value is unregistered when it is dropped, also after an error.
    fn empty(handling: Option<Handling>) -> io::Result<(Signals, UnixStream)> {
        let (socket, write) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let signals = Signals {
            socket,
            hangup: OnHangup::End,
            arrived: Signal::ALL.map(|_| Arc::new(AtomicBool::new(false))),
            continued: Arc::new(AtomicBool::new(false)),
            child_ended: Arc::new(AtomicBool::new(false)),
            actions: Vec::new(),
            _handling: handling,
        };
        Ok((signals, write))
    }

    fn with_flags(mut self, write: UnixStream) -> io::Result<Signals> {
        self.actions.push(flag::register(SIGCONT, self.continued.clone())?);
        if rustix::process::getpid().is_init() {
            self.actions.push(flag::register(SIGCHLD, self.child_ended.clone())?);
            self.actions.push(low_level::pipe::register(SIGCHLD, write)?);
        }
        Ok(self)
    }

    /// A flag that is set whenever the process continues after it was stopped, before the process does anything else.
    pub fn continued(&self) -> Arc<AtomicBool> {
        self.continued.clone()
    }

    /// Whether an adopted process may have ended since the last call.
    pub fn child_ended(&self) -> bool {
        self.child_ended.swap(false, Ordering::AcqRel)
    }

    /// The signals since the last call, each once. Empties the socket, so the next signal is an event again.
    pub fn take(&mut self) -> Vec<Signal> {
        let mut bytes = [0; 64];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is nothing more to read, or an error that the loop can do nothing about.
                Ok(0) | Err(_) => break,
            }
        }
        let arrived = Signal::ALL.into_iter().zip(&self.arrived);
        arrived.filter(|(_, flag)| flag.swap(false, Ordering::AcqRel)).map(|(signal, _)| signal).collect()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for action in self.actions.drain(..) {
            low_level::unregister(action);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::unix::SourceFd;
    use mio::{Events, Interest, Poll, Token};
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::process::{Child, ChildStdout, Command, Stdio};

    const INNER: &str = "SIGNALS_INNER";

    /// Signals belong to the whole process, so the loop of these tests runs in a process of its own. It prints the signals that each poll
    /// has returned.
    #[test]
    fn inner_loop() {
        if std::env::var_os(INNER).is_none() {
            return;
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        if std::env::var_os(INNER).is_some_and(|how| how == "ended") {
            // Two at once, and a third later: the default effects return when the last one is dropped.
            drop((Signals::new().unwrap(), Signals::new().unwrap()));
            drop(Signals::new().unwrap());
            println!("ready");
            std::thread::sleep(std::time::Duration::from_secs(60));
            return;
        }
        let mut signals = Signals::new().unwrap();
        let mut poll = Poll::new().unwrap();
        poll.registry().register(&mut SourceFd(&signals.socket.as_raw_fd()), Token(0), Interest::READABLE).unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "ready").unwrap();
        let mut events = Events::with_capacity(8);
        loop {
            match poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                done => done.unwrap(),
            }
            let arrived = signals.take();
            if signals.continued().swap(false, Ordering::AcqRel) {
                writeln!(out, "continued").unwrap();
            }
            if !arrived.is_empty() {
                writeln!(out, "{arrived:?}").unwrap();
            }
        }
    }

    struct Inner {
        child: Child,
        lines: std::io::Lines<BufReader<ChildStdout>>,
    }

    impl Inner {
        fn start() -> Inner {
            Inner::start_as("running")
        }

        fn start_as(how: &str) -> Inner {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", "shell::event_loop::signals::tests::inner_loop"])
                .env(INNER, how)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut inner = Inner { child, lines };
            inner.expect("ready");
            inner
        }

        fn send(&self, signal: Signal) {
            self.send_raw(rustix::process::Signal::from_named_raw(signal.number()).unwrap());
        }

        fn send_raw(&self, signal: rustix::process::Signal) {
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        }

        fn expect(&mut self, line: &str) {
            let found = self.lines.by_ref().map(|l| l.unwrap());
            assert!(found.into_iter().any(|l| l.ends_with(line)), "{line}");
        }
    }

    impl Drop for Inner {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn the_loop_is_told_which_signal_it_was() {
        let mut inner = Inner::start();
        for _ in 0..2 {
            inner.send(Signal::Hangup);
            inner.expect("[Hangup]");
        }
        inner.send(Signal::Terminate);
        inner.expect("[Terminate]");
    }

    #[test]
    fn a_process_notices_that_it_was_stopped_and_continued() {
        let mut inner = Inner::start();
        inner.send_raw(rustix::process::Signal::STOP);
        inner.send_raw(rustix::process::Signal::CONT);
        inner.send(Signal::Hangup);
        inner.expect("continued");
        inner.expect("[Hangup]");
    }

    #[test]
    fn the_second_request_to_end_does_not_need_the_loop() {
        for (first, second, status) in
            [(Signal::Interrupt, Signal::Interrupt, 130), (Signal::Interrupt, Signal::Terminate, 143)]
        {
            let mut inner = Inner::start();
            inner.send(first);
            inner.expect(&format!("[{first:?}]"));
            inner.send(second);
            assert_eq!(inner.child.wait().unwrap().code(), Some(status));
        }
    }

    #[test]
    fn signals_have_their_default_effect_when_the_last_server_has_ended() {
        // Tests that run in the background of a shell inherit that INT is ignored.
        for signal in with_default_effect() {
            let mut inner = Inner::start_as("ended");
            inner.send(signal);
            let status = inner.child.wait().unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(signal.number()));
        }
    }
}
