//! A pseudo-terminal in which the program runs as session leader, with functions that type and read.

use crate::support::{PATIENCE, TempDir, eventually};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use rustix::time::Timespec;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_gemini-a2a");

/// A home, a workspace and a state directory for the sessions of one test.
pub struct TestDirs {
    dir: TempDir,
}

impl TestDirs {
    pub fn new() -> TestDirs {
        let dir = TempDir::new("session");
        for name in ["home", "ws"] {
            std::fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        TestDirs { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// The program with these arguments in a trusted workspace.
    pub fn start(&self, args: &[&str]) -> Pty {
        self.start_with(&[], &[&["--trust-workspace"], args].concat())
    }

    pub fn start_with(&self, env: &[(&str, &str)], args: &[&str]) -> Pty {
        Pty::start(self, env, &[&[PROGRAM], args].concat())
    }
}

pub struct Pty {
    master: Option<OwnedFd>,
    /// Keeps the terminal open after the program has ended.
    slave: Option<File>,
    pub child: Child,
    pub bytes: Vec<u8>,
    /// The length of the text that `wait` has passed already.
    seen: usize,
    before: Termios,
}

impl Pty {
    pub fn start(dirs: &TestDirs, env: &[(&str, &str)], words: &[&str]) -> Pty {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("plain");
        let slave = File::options().read(true).write(true).open(name).expect("the other end");
        tcsetwinsize(&master, size(80, 24)).expect("a size");
        let stream = || slave.try_clone().expect("a handle");
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(words).current_dir(dirs.path("ws")).env_clear();
        let path = std::env::var("PATH").expect("a path");
        let home = dirs.path("home").display().to_string();
        for (name, value) in [("PATH", path.as_str()), ("HOME", &home), ("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]
        {
            command.env(name, value);
        }
        command.envs(env.iter().copied());
        let before = tcgetattr(&slave).expect("modes");
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().expect("setsid");
        Pty { master: Some(master), slave: Some(slave), child, bytes: Vec::new(), seen: 0, before }
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        tcsetwinsize(self.master(), size(columns, rows)).expect("a size");
    }

    fn master(&self) -> &OwnedFd {
        self.master.as_ref().expect("the terminal is not closed")
    }

    pub fn keys(&mut self, keys: &str) {
        let mut bytes = keys.as_bytes();
        while !bytes.is_empty() {
            let written = rustix::io::write(self.master(), bytes).expect("keys are taken");
            bytes = &bytes[written..];
        }
    }

    /// Pastes a prompt and sends it. The Enter is a sequence, because a plain one right after a paste is a new line.
    pub fn say(&mut self, text: &str) {
        self.keys(&format!("\x1b[200~{text}\x1b[201~\x1b[13u"));
    }

    /// Reads once, waiting at most this time. Returns false at the end of the terminal.
    pub fn read(&mut self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).expect("a time");
        let master = self.master.as_ref().expect("the terminal is not closed");
        let mut fds = [PollFd::new(master, PollFlags::IN)];
        if poll(&mut fds, Some(&wait)) == Ok(0) {
            return true;
        }
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(master, &mut buffer) {
            Ok(0) | Err(_) => false,
            Ok(length) => {
                self.bytes.extend_from_slice(&buffer[..length]);
                true
            }
        }
    }

    /// Waits until the text is printed, after the text of the last wait.
    pub fn wait(&mut self, text: &str) {
        self.wait_or(&[text]);
    }

    /// Waits for one of these texts. Returns its index.
    pub fn wait_or(&mut self, texts: &[&str]) -> usize {
        let begin = Instant::now();
        loop {
            let all = plain(&self.bytes);
            let shown = all.get(self.seen..).unwrap_or_default();
            let found = texts.iter().enumerate().filter_map(|(at, text)| Some((shown.find(text)? + text.len(), at)));
            if let Some((end, at)) = found.min() {
                self.seen += end;
                return at;
            }
            let remaining = PATIENCE.saturating_sub(begin.elapsed());
            assert!(!remaining.is_zero(), "waited for {texts:?} in {shown}");
            assert!(self.read(remaining), "the terminal ended before {texts:?} in {shown}");
        }
    }

    /// Presses a key repeatedly until it has its effect, then clears the draft: a question ignores keys until it was on the screen
    /// for a while, and after the answer the keys are text of the draft.
    pub fn press_until(&mut self, key: &str, mut fact: impl FnMut() -> bool) {
        eventually("a key has its effect", || {
            self.keys(key);
            self.read(Duration::from_millis(500));
            fact().then_some(())
        });
        self.keys("\x15");
    }

    /// Waits until the terminal was restored.
    pub fn wait_until_restored(&mut self) {
        self.wait_for_bytes("\x1b[?2004l");
    }

    /// Waits until this sequence was sent to the terminal.
    pub fn wait_for_bytes(&mut self, sequence: &str) {
        while !self.bytes.windows(sequence.len()).any(|bytes| bytes == sequence.as_bytes()) {
            assert!(self.read(PATIENCE), "{sequence:?} is sent: {}", self.text());
        }
    }

    /// Everything that was shown, without sequences.
    pub fn text(&self) -> String {
        plain(&self.bytes)
    }

    /// Reads until the program has ended. It must leave the terminal as it was.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.wait_for_end();
        while self.read(Duration::ZERO) && self.has_more() {}
        let after = tcgetattr(self.slave.as_ref().expect("open")).expect("modes");
        assert_eq!(format!("{after:?}"), format!("{:?}", self.before), "the modes are as before");
        let bytes = String::from_utf8_lossy(&self.bytes).into_owned();
        for (on, off) in [("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[?1004h", "\x1b[?1004l"), ("\x1b[?25l", "\x1b[?25h")] {
            assert!(bytes.rfind(on).is_none_or(|at| bytes.rfind(off).is_some_and(|off| off > at)), "{on:?} is undone");
        }
        // Terminals keep a stack of these modes: each one that was set must be undone, and no other.
        for (on, off) in [("\x1b[>1u", "\x1b[<u"), ("\x1b[>4;2m", "\x1b[>4m")] {
            assert_eq!(bytes.contains(on), bytes.contains(off), "{on:?} and {off:?}");
        }
        (status, self.text())
    }

    fn has_more(&self) -> bool {
        let mut fds = [PollFd::new(self.master(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    pub fn wait_for_end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it ends: {}", self.text());
            match self.master {
                Some(_) => _ = self.read(Duration::from_millis(20)),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Closes the terminal, as when its window is closed.
    pub fn hang_up(&mut self) {
        (self.master, self.slave) = (None, None);
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it runs");
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Text without sequences: CSI, OSC and DCS are left out, carriage returns too.
pub fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\x1b', Some('[')) => {
                rest.next();
                while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            ('\x1b', Some(']' | 'P')) => while rest.next().is_some_and(|c| c != '\x07' && c != '\\') {},
            ('\r', _) => {}
            (c, _) => out.push(c),
        }
    }
    out
}

/// The journals of the sessions in a state directory, one after the other.
pub fn journals(dirs: &TestDirs) -> String {
    let dir: &Path = &dirs.path("home/.local/state/gemini-a2a/tasks");
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect()
}
