//! The signals of a session in a terminal, as a descriptor to poll; and the thread that ends the process on the second INT or TERM.
//!
//! A server without a terminal ends the process in the signal handler. Here the terminal must be restored first, which a signal handler
//! cannot do.

use crate::shell::event_loop::signals::Signal;
use crate::shell::terminal::tty::SavedTerminal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalNotice {
    Resized,
    /// The process was continued after a stop.
    Continued,
    End(Signal),
}

const NOTICES: [(i32, SignalNotice); 5] = [
    (SIGWINCH, SignalNotice::Resized),
    (SIGCONT, SignalNotice::Continued),
    (SIGINT, SignalNotice::End(Signal::Interrupt)),
    (SIGTERM, SignalNotice::End(Signal::Terminate)),
    (SIGHUP, SignalNotice::End(Signal::Hangup)),
];

/// The registered signals. Made once, and used until the process ends.
pub struct TerminalSignals {
    socket: UnixStream,
    arrived: [Arc<AtomicBool>; NOTICES.len()],
    end_requests: EndRequests,
}

/// The state that is shared with the thread that counts INT and TERM.
#[derive(Clone, Default)]
struct EndRequests {
    /// The number of the last signal.
    last: Arc<AtomicUsize>,
    /// The session is ending already: the next INT or TERM ends the process.
    ending: Arc<AtomicBool>,
    /// Another program uses the terminal, and Ctrl-C is meant for that program.
    lent: Arc<AtomicBool>,
}

impl TerminalSignals {
    pub fn new() -> io::Result<TerminalSignals> {
        let (socket, write) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let signals = TerminalSignals {
            socket,
            arrived: NOTICES.map(|_| Arc::new(AtomicBool::new(false))),
            end_requests: EndRequests::default(),
        };
        for ((number, _), arrived) in NOTICES.into_iter().zip(&signals.arrived) {
            flag::register(number, arrived.clone())?;
            low_level::pipe::register(number, write.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Starts the thread that restores the terminal and ends the process on the second INT or TERM, even if the event loop hangs.
    pub fn watch(&self, saved: Arc<SavedTerminal>) -> io::Result<()> {
        let (mut read, write) = UnixStream::pair()?;
        let end_requests = self.end_requests.clone();
        for number in [SIGINT, SIGTERM] {
            flag::register_usize(number, end_requests.last.clone(), number as usize)?;
            low_level::pipe::register(number, write.try_clone()?)?;
        }
        let watch = move || {
            let mut byte = [0];
            while read.read_exact(&mut byte).is_ok() {
                let number = end_requests.last.load(Ordering::Acquire) as i32;
                if number == SIGINT && end_requests.lent.load(Ordering::Acquire) {
                    continue;
                }
                if end_requests.ending.swap(true, Ordering::AcqRel) {
                    saved.restore();
                    std::process::exit(128 + number);
                }
            }
        };
        thread::Builder::new().name("end".into()).stack_size(128 * 1024).spawn(watch)?;
        Ok(())
    }

    /// The session ends for another reason: the next INT or TERM ends the process at once.
    pub fn set_ending(&self) {
        self.end_requests.ending.store(true, Ordering::Release);
    }

    /// Says whether another program uses the terminal.
    pub fn set_lent(&self, lent: bool) {
        self.end_requests.lent.store(lent, Ordering::Release);
    }

    /// The signals since the last call, each once.
    pub fn take(&mut self) -> Vec<SignalNotice> {
        let mut bytes = [0; 64];
        while matches!(self.socket.read(&mut bytes), Ok(1..)) {}
        let lent = self.end_requests.lent.load(Ordering::Acquire);
        let arrived = NOTICES.into_iter().zip(&self.arrived);
        let arrived = arrived.filter(|(_, flag)| flag.swap(false, Ordering::AcqRel)).map(|((_, notice), _)| notice);
        arrived.filter(|notice| !(lent && *notice == SignalNotice::End(Signal::Interrupt))).collect()
    }
}

impl AsFd for TerminalSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
