//! Signals as something to poll. A signal sets its flag and writes a byte into a socket that the loop watches; the loop then
//! asks which flags are up. Bytes alone would not say which signal it was, flags alone would not wake anybody.
//!
//! The first INT or TERM asks for an orderly end. The second one means that this takes too long, or that the loop is stuck,
//! so it ends the process in the signal handler itself, without asking the loop.
//!
//! CONT is only noted: whoever was stopped does not know how long things have waited.

use mio::event::Source;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
    /// The terminal went away.
    Hangup,
}

impl Signal {
    const ALL: [Signal; 3] = [Signal::Interrupt, Signal::Terminate, Signal::Hangup];

    /// The exit status by which shells say that a program ended on this signal.
    pub fn exit_status(self) -> i32 {
        128 + self.number()
    }

    /// As people and manuals call it.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::Hangup => "SIGHUP",
        }
    }

    fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SIGINT,
            Signal::Terminate => SIGTERM,
            Signal::Hangup => SIGHUP,
        }
    }

    /// Whether a second one ends the process at once.
    fn insists(self) -> bool {
        match self {
            Signal::Interrupt | Signal::Terminate => true,
            Signal::Hangup => false,
        }
    }
}

/// Made once, early; from then on these signals no longer end the process by themselves.
pub struct Signals {
    socket: UnixStream,
    arrived: [Arc<AtomicBool>; Signal::ALL.len()],
    continued: Arc<AtomicBool>,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        let (read, write) = std::os::unix::net::UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let arrived = Signal::ALL.map(|_| Arc::new(AtomicBool::new(false)));
        let ending = Arc::new(AtomicBool::new(false));
        for (signal, arrived) in Signal::ALL.into_iter().zip(&arrived) {
            let number = signal.number();
            if signal.insists() {
                // Actions run in this order, so the first signal finds the flag down and leaves it up for the second.
                let status = signal.exit_status();
                flag::register_conditional_shutdown(number, status, ending.clone())?;
                flag::register(number, ending.clone())?;
            }
            flag::register(number, arrived.clone())?;
            low_level::pipe::register(number, write.try_clone()?)?;
        }
        let continued = Arc::new(AtomicBool::new(false));
        flag::register(SIGCONT, continued.clone())?;
        Ok(Signals { socket: UnixStream::from_std(read), arrived, continued })
    }

    /// Goes up whenever the process goes on after it was stopped, before it does anything else.
    pub fn continued(&self) -> Arc<AtomicBool> {
        self.continued.clone()
    }

    /// The signals since the last call, each once. Empties the socket, so the next signal is an event again.
    pub fn take(&mut self) -> Vec<Signal> {
        let mut bytes = [0; 64];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing more to read; any other error is none the loop could do something about.
                Ok(0) | Err(_) => break,
            }
        }
        let arrived = Signal::ALL.into_iter().zip(&self.arrived);
        arrived.filter(|(_, flag)| flag.swap(false, Ordering::AcqRel)).map(|(signal, _)| signal).collect()
    }
}

impl Source for Signals {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.socket.register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.socket.reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdout, Command, Stdio};

    const INNER: &str = "SIGNALS_INNER";

    /// Signals belong to the whole process, so the loop of these tests runs in one of its own: it says which signals it was
    /// given, a line for each poll that brought some.
    #[test]
    fn inner_loop() {
        if std::env::var_os(INNER).is_none() {
            return;
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        let mut signals = Signals::new().unwrap();
        let mut poll = Poll::new().unwrap();
        poll.registry().register(&mut signals, Token(0), Interest::READABLE).unwrap();
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
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", "shell::event_loop::signals::tests::inner_loop"])
                .env(INNER, "1")
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
    fn the_loop_learns_which_signal_it_was() {
        let mut inner = Inner::start();
        for _ in 0..2 {
            inner.send(Signal::Hangup);
            inner.expect("[Hangup]");
        }
        inner.send(Signal::Terminate);
        inner.expect("[Terminate]");
    }

    #[test]
    fn a_stop_is_noticed_when_it_is_over() {
        let mut inner = Inner::start();
        inner.send_raw(rustix::process::Signal::STOP);
        inner.send_raw(rustix::process::Signal::CONT);
        inner.send(Signal::Hangup);
        inner.expect("continued");
        inner.expect("[Hangup]");
    }

    #[test]
    fn the_second_request_to_end_is_not_up_to_the_loop() {
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
}
