//! The signals of a session in a terminal as something to poll, and the thread that ends the process on the second request to end.
//!
//! The server ends a process with two requests in the signal handler. Here the terminal has to be restored first, which a signal handler
//! cannot do.

use crate::shell::event_loop::signals::Signal;
use crate::shell::terminal::tty::Saved;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Resized,
    /// The process goes on after it was stopped.
    Continued,
    End(Signal),
}

const NOTICES: [(i32, Notice); 5] = [
    (SIGWINCH, Notice::Resized),
    (SIGCONT, Notice::Continued),
    (SIGINT, Notice::End(Signal::Interrupt)),
    (SIGTERM, Notice::End(Signal::Terminate)),
    (SIGHUP, Notice::End(Signal::Hangup)),
];

/// Made once, and kept until the process ends.
pub struct Signals {
    socket: UnixStream,
    arrived: [Arc<AtomicBool>; NOTICES.len()],
    insisting: Insisting,
}

/// What the thread that counts requests to end has to know.
#[derive(Clone, Default)]
struct Insisting {
    /// The signal that came last.
    last: Arc<AtomicUsize>,
    /// An end was asked for already: the next request ends the process.
    ending: Arc<AtomicBool>,
    /// Another program has the terminal, and Ctrl-C is meant for that.
    lent: Arc<AtomicBool>,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        let (socket, write) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let signals = Signals {
            socket,
            arrived: NOTICES.map(|_| Arc::new(AtomicBool::new(false))),
            insisting: Insisting::default(),
        };
        for ((number, _), arrived) in NOTICES.into_iter().zip(&signals.arrived) {
            flag::register(number, arrived.clone())?;
            low_level::pipe::register(number, write.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Starts the thread that restores the terminal and ends the process on the second INT or TERM, also if everything else is stuck.
    pub fn watch(&self, saved: Arc<Saved>) -> io::Result<()> {
        let (mut read, write) = UnixStream::pair()?;
        let insisting = self.insisting.clone();
        for number in [SIGINT, SIGTERM] {
            flag::register_usize(number, insisting.last.clone(), number as usize)?;
            low_level::pipe::register(number, write.try_clone()?)?;
        }
        let watch = move || {
            let mut byte = [0];
            while read.read_exact(&mut byte).is_ok() {
                let number = insisting.last.load(Ordering::Acquire) as i32;
                if number == SIGINT && insisting.lent.load(Ordering::Acquire) {
                    continue;
                }
                if insisting.ending.swap(true, Ordering::AcqRel) {
                    saved.restore();
                    std::process::exit(128 + number);
                }
            }
        };
        thread::Builder::new().name("end".into()).stack_size(128 * 1024).spawn(watch)?;
        Ok(())
    }

    /// The session ends without INT or TERM: from now on one of them ends the process at once.
    pub fn is_ending(&self) {
        self.insisting.ending.store(true, Ordering::Release);
    }

    /// Whether another program has the terminal.
    pub fn set_lent(&self, lent: bool) {
        self.insisting.lent.store(lent, Ordering::Release);
    }

    /// What has arrived since the last call, each once. Empties the socket.
    pub fn take(&mut self) -> Vec<Notice> {
        let mut bytes = [0; 64];
        while matches!(self.socket.read(&mut bytes), Ok(1..)) {}
        let lent = self.insisting.lent.load(Ordering::Acquire);
        let arrived = NOTICES.into_iter().zip(&self.arrived);
        let arrived = arrived.filter(|(_, flag)| flag.swap(false, Ordering::AcqRel)).map(|((_, notice), _)| notice);
        arrived.filter(|notice| !(lent && *notice == Notice::End(Signal::Interrupt))).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
