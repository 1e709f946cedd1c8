//! Chooses what a command line without a verb starts: a session in the terminal, the answer to one prompt, or the server.

use crate::config::settings::Settings;
use crate::limits::FIRST_BYTE_MS;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::time::Timespec;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Terminal,
    /// One prompt is answered, or sessions are listed or deleted.
    Headless,
    Server,
}

/// How the process was started.
#[derive(Clone, Copy, Debug)]
pub struct StartConditions {
    /// Standard input and standard output are a terminal.
    pub terminal: bool,
    /// `CI` is set: there may be a terminal, but nobody uses it.
    pub unattended: bool,
    /// Standard input is a file or a pipe, and has content.
    pub content: fn() -> bool,
}

impl StartConditions {
    pub fn of_process() -> StartConditions {
        StartConditions {
            terminal: io::stdin().is_terminal() && io::stdout().is_terminal(),
            unattended: std::env::var_os("CI").is_some_and(|value| !value.is_empty()),
            content: stdin_has_content,
        }
    }
}

/// Decides by the flags first, then by how the process was started.
pub fn choose(settings: &Settings, conditions: StartConditions) -> Program {
    let session = &settings.session;
    if session.prompt.is_some() || session.list || session.delete.is_some() {
        Program::Headless
    } else if cfg!(feature = "tui") && conditions.terminal && !conditions.unattended {
        Program::Terminal
    } else if names_listener(settings) {
        Program::Server
    } else if session.resume.is_some() || session.first_prompt.is_some() || (conditions.content)() {
        Program::Headless
    } else {
        Program::Server
    }
}

/// Whether the operator named an address to listen on.
pub fn names_listener(settings: &Settings) -> bool {
    let named = settings.listen.first().or(settings.listen_variable.as_ref());
    settings.port.is_some() || settings.host.is_some() || named.is_some()
}

/// Whether standard input is a file, or a pipe or socket with content. A service manager may leave a pipe open to which nobody ever writes,
/// so the wait is short.
pub fn stdin_has_content() -> bool {
    let stdin = io::stdin();
    let kind = fstat(stdin.as_fd()).map(|status| FileType::from_raw_mode(status.st_mode));
    match kind {
        Ok(FileType::RegularFile) => true,
        Ok(FileType::Fifo | FileType::Socket) => {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(FIRST_BYTE_MS) * 1_000_000 };
            poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready > 0) && fds[0].revents().contains(PollFlags::IN)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    fn chosen(line: &str, terminal: bool, unattended: bool, content: fn() -> bool) -> Program {
        let mut settings = Settings::default();
        settings.apply_flags(&args::parse(line.split_whitespace().map(str::to_owned)).expect("arguments").flags);
        choose(&settings, StartConditions { terminal, unattended, content })
    }

    #[test]
    fn flags_count_before_the_terminal_and_that_before_standard_input() {
        let full: fn() -> bool = || true;
        let empty: fn() -> bool = || false;
        let at_terminal = if cfg!(feature = "tui") { Program::Terminal } else { Program::Server };
        let with_session = if cfg!(feature = "tui") { Program::Terminal } else { Program::Headless };
        for (line, terminal, unattended, content, program) in [
            ("", true, false, empty, at_terminal),
            ("--a2a-port 0", true, false, empty, at_terminal),
            ("-i hello", true, false, empty, with_session),
            ("--resume", true, false, empty, with_session),
            ("-p hello", true, false, empty, Program::Headless),
            ("what is this", true, false, empty, Program::Headless),
            ("--list-sessions", true, false, empty, Program::Headless),
            ("--delete-session 1", true, false, empty, Program::Headless),
            ("", true, true, empty, Program::Server),
            ("", false, false, empty, Program::Server),
            ("", false, false, full, Program::Headless),
            ("--resume", false, false, empty, Program::Headless),
            ("--a2a-port 0", false, false, full, Program::Server),
            ("--listen unix:x", false, false, full, Program::Server),
            ("-p hello --a2a-port 0", false, false, empty, Program::Headless),
        ] {
            assert_eq!(chosen(line, terminal, unattended, content), program, "{line:?} {terminal} {unattended}");
        }
    }
}
