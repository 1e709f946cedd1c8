//! The terminal device of the process: modes, size, reading and writing. It is opened as a new file, because the standard streams
//! are shared with the shell and other programs and must stay in blocking mode.

use crate::base::lock::lock;
use crate::limits::ui::{REPLIES_MS, RESTORE_MS};
use crate::shell::event_loop::log::Log;
use crate::ui::output::paint::Size;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The terminal that the process belongs to.
const DEVICE: &str = "/dev/tty";

pub struct Tty {
    device: OwnedFd,
    saved: Arc<SavedTerminal>,
}

/// The saved modes of the terminal, which are restored at the end of the session, on a panic, and on a second signal.
pub struct SavedTerminal {
    device: OwnedFd,
    modes: Termios,
    /// The sequence that undoes the sequences that were sent; None while the terminal is not in use.
    undo: Mutex<Option<&'static str>>,
}

impl Tty {
    pub fn open() -> io::Result<Tty> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let device = open(DEVICE, flags, Mode::empty())?;
        let saved = SavedTerminal { modes: tcgetattr(&device)?, device: device.try_clone()?, undo: Mutex::new(None) };
        Ok(Tty { device, saved: Arc::new(saved) })
    }

    /// A new handle for a program that uses the terminal.
    pub fn for_program() -> io::Result<OwnedFd> {
        Ok(open(Path::new(DEVICE), OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?)
    }

    pub fn saved(&self) -> Arc<SavedTerminal> {
        self.saved.clone()
    }

    /// Switches to raw mode: every key is read as it comes, also Ctrl-C, Ctrl-S and Ctrl-Z. [`SavedTerminal::restore`] writes `undo`.
    pub fn set_raw(&self, undo: &'static str) -> io::Result<()> {
        let mut modes = self.saved.modes.clone();
        modes.make_raw();
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        *lock(&self.saved.undo) = Some(undo);
        Ok(tcsetattr(&self.device, OptionalActions::Now, &modes)?)
    }

    /// Uses the terminal in its original mode, in which it edits lines and sends signals itself.
    pub fn set_lines(&self) {
        *lock(&self.saved.undo) = Some("");
    }

    /// Replaces the sequence that [`SavedTerminal::restore`] writes.
    pub fn undo_with(&self, undo: &'static str) {
        if let Some(present) = lock(&self.saved.undo).as_mut() {
            *present = undo;
        }
    }

    /// The size in cells; 80x24 if the terminal does not report it.
    pub fn size(&self) -> Size {
        let size = tcgetwinsize(&self.device).ok();
        let or = |given: Option<u16>, usual| given.filter(|number| *number > 0).map_or(usual, usize::from);
        Size { columns: or(size.map(|size| size.ws_col), 80), rows: or(size.map(|size| size.ws_row), 24) }
    }

    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let length = rustix::io::read(&self.device, &mut *buffer)?;
        Ok(&buffer[..length])
    }

    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(&self.device, bytes)
    }

    /// Waits at most this time for input. Returns whether there is some.
    pub fn wait_for_input(&self, time: Duration) -> bool {
        wait(&self.device, PollFlags::IN, time)
    }

    /// Drops replies to queries that the terminal sends within a short time, because the shell would read them as input.
    pub fn drop_replies(&self) {
        let end = Instant::now() + Duration::from_millis(REPLIES_MS);
        let mut buffer = [0; 1024];
        while self.wait_for_input(end.saturating_duration_since(Instant::now())) {
            if !matches!(self.read(&mut buffer), Ok([_, ..])) {
                return;
            }
        }
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl SavedTerminal {
    /// Restores the terminal if it is in use. Waits only a short time for a terminal that does not accept output.
    pub fn restore(&self) {
        // The lock is held to the end: a second caller may end the process when it gets the lock.
        let mut in_use = lock(&self.undo);
        let Some(undo) = in_use.take() else {
            return;
        };
        self.write_all(undo.as_bytes());
        let _ = tcsetattr(&self.device, OptionalActions::Flush, &self.modes);
    }

    /// Writes as many bytes as the terminal accepts within a short time.
    pub fn write_all(&self, mut bytes: &[u8]) {
        let end = Instant::now() + Duration::from_millis(RESTORE_MS);
        while !bytes.is_empty() {
            match rustix::io::write(&self.device, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !wait(&self.device, PollFlags::OUT, end.saturating_duration_since(Instant::now())) {
                        return;
                    }
                }
                // The terminal was closed.
                Err(_) => return,
            }
        }
    }

    fn is_in_use(&self) -> bool {
        lock(&self.undo).is_some()
    }
}

fn wait(device: &OwnedFd, flags: PollFlags, time: Duration) -> bool {
    let Ok(time) = Timespec::try_from(time) else {
        return false;
    };
    let mut fds = [PollFd::new(device, flags)];
    poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0) && fds[0].revents().contains(flags)
}

/// Installs a panic hook. A panic of this thread, which owns the terminal, restores the terminal before the message is printed.
/// While the terminal is in use, a panic of another thread is only logged: that thread catches it, and the message would be written
/// over the screen.
pub fn restore_on_panic(saved: Arc<SavedTerminal>, log: Log) {
    let owner = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == owner {
            saved.restore();
        } else if saved.is_in_use() {
            return log.error(format_args!("a thread failed: {panic}"));
        }
        before(panic);
    }));
}
