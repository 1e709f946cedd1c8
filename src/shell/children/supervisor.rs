//! The supervisor of one command: this binary, executed with a hidden verb, as a process between the server and the program.
//!
//! It has its own session and is a child subreaper, so that all descendants of the program stay below it: a process whose parent
//! has ended becomes the supervisor's child. When the server ends the command, or the server itself ends (the control socket
//! closes in both cases), the supervisor kills its descendants and exits.
//!
//! Standard input is the control socket. The server sends `g` when the program may start, with the descriptor of the program's standard
//! input if it has one, and `t` to ask the program to end; closing the socket means: kill all processes. The supervisor sends lines:
//! `started PID` or `failed ERRNO MESSAGE`, then `exited STATUS` (as wait(2) has it), then `gone` with the processes that it had to kill.
//! If it cannot be sure that no process is left, it ends without `gone`, and the server, which adopts the remaining processes, kills them.
//! Standard output and error are the program's.
//!
//! A program without approval is started by a thread that confined itself first; see [`super::confine`]. The supervisor's other
//! thread stays free: it needs `/proc`.

use super::confine::{self, Bounds};
use super::processes;
use crate::limits::{LEFTOVERS_NAMED, SUPERVISOR_KILL_MS};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::SIGCHLD;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// The verb that makes the binary a supervisor.
pub const VERB: &str = "__supervise";

/// Words before the program and its arguments.
pub const WORKSPACE: &str = "--read-only";
pub const WRITABLE: &str = "--writable";
pub const PROGRAMS: &str = "--programs";
/// The program reads from a pipe.
pub const PIPED: &str = "--piped";
pub const END: &str = "--";

/// The shell that closes inherited descriptors before it executes a program with piped input.
const BASH: &str = "/bin/bash";

/// The bytes that the server sends.
const GO: u8 = b'g';
pub const TERMINATE: u8 = b't';

/// Must be called first in `main`. If the arguments are those of a supervisor, supervises a command until it ends, and returns the exit code.
pub fn child_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != VERB {
        return None;
    }
    let Ok(control) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else {
        return Some(ExitCode::from(127));
    };
    let mut control = UnixStream::from(control);
    let done = Request::read(args).and_then(|request| supervise(request, &mut control));
    if let Err(error) = done {
        let errno = error.raw_os_error().unwrap_or(0);
        let _ = writeln!(control, "failed {errno} {}", error.to_string().replace('\n', " "));
        return Some(ExitCode::from(127));
    }
    Some(ExitCode::SUCCESS)
}

/// The program to start.
struct Request {
    argv: Vec<OsString>,
    /// The files that the program may use; None for an approved program.
    bounds: Option<Bounds>,
    input: Input,
}

#[derive(Clone, Copy, PartialEq)]
enum Input {
    None,
    Pipe,
}

impl Request {
    fn read(mut args: impl Iterator<Item = OsString>) -> io::Result<Request> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "a supervisor is started by the server only");
        let mut bounds: Option<Bounds> = None;
        let mut input = Input::None;
        loop {
            let word = args.next().ok_or_else(wrong)?;
            if word == END {
                return Ok(Request { argv: args.collect(), bounds, input });
            }
            if word == PIPED {
                input = Input::Pipe;
                continue;
            }
            let path = args.next().ok_or_else(wrong)?.into();
            match (word.to_str(), &mut bounds) {
                (Some(WORKSPACE), None) => {
                    bounds = Some(Bounds { workspace: path, writable: Vec::new(), programs: Vec::new() });
                }
                (Some(WRITABLE), Some(bounds)) => bounds.writable.push(path),
                (Some(PROGRAMS), Some(bounds)) => bounds.programs.push(path),
                _ => return Err(wrong()),
            }
        }
    }
}

fn supervise(request: Request, control: &mut UnixStream) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The command may stop this process. The server continues it to end the command, and the kernel continues it when the server is killed.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    // The program runs as the same user. It may kill this process, which the server notices, but neither trace it nor take its descriptors.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let (mut signals, writer) = UnixStream::pair()?;
    signals.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, writer)?;
    let Some(input) = wait_for_go(control)? else {
        return Ok(());
    };
    let program = start(request, input)?;
    // From here on no error may end this process before all its descendants are killed. `until_over` notices if the server has ended.
    let _ = writeln!(control, "started {}", program.as_raw_pid());
    let mut supervision = Supervision { program, has_exited: false };
    supervision.until_over(control, &mut signals);
    // `gone` is sent only if no process is left. Otherwise the remaining processes become children of the server when this one ends.
    let Ok(killed) = supervision.kill_all(control) else {
        return Ok(());
    };
    let names: Vec<String> = killed.iter().take(LEFTOVERS_NAMED).map(u32::to_string).collect();
    // The server may have ended.
    let _ = writeln!(control, "gone {}", names.join(" "));
    Ok(())
}

/// Tells a supervisor that its program may start, and passes the program's standard input.
pub fn send_go(control: &UnixStream, input: Option<&OwnedFd>) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = input.into_iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        message.push(SendAncillaryMessage::ScmRights(&fds));
    }
    rustix::net::sendmsg(control, &[IoSlice::new(&[GO])], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits until the program may start, and returns its standard input. None: the server has ended, or starts no program.
fn wait_for_go(control: &UnixStream) -> io::Result<Option<Stdio>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let received = loop {
        let word = &mut [IoSliceMut::new(&mut word)];
        match rustix::net::recvmsg(control, word, &mut message, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes == 0 || word != [GO] {
        return Ok(None);
    }
    let input = message.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(Some(input.map_or_else(Stdio::null, Stdio::from)))
}

fn start(request: Request, input: Stdio) -> io::Result<Pid> {
    let mut command = command(&request.argv, request.input)?;
    command.stdin(input);
    let child = match request.bounds {
        None => command.spawn()?,
        Some(bounds) => {
            let confined = move || {
                confine::enter(&bounds)
                    .map_err(|error| io::Error::other(format!("the command could not be confined: {error}")))?;
                command.spawn()
            };
            let died = |_| Err(io::Error::other("the thread that starts the program died"));
            thread::Builder::new().spawn(confined)?.join().unwrap_or_else(died)?
        }
    };
    // The program is reaped together with all other processes, so the handle is not needed.
    Ok(Pid::from_child(&child))
}

fn command(argv: &[OsString], input: Input) -> io::Result<Command> {
    let (program, args) = argv.split_first().ok_or_else(|| io::Error::other("there is no program to start"))?;
    let leaks = inheritable()?;
    let mut command = if leaks.is_empty() {
        Command::new(program)
    } else {
        // The server has inherited descriptors from its parent. Code without `unsafe` cannot close descriptors that it does not own, but
        // a shell can, and the programs of tools are shells. Some shells can close only descriptors below 10.
        let closing: String = leaks.iter().map(|fd| format!(" {fd}>&-")).collect();
        let refusal = "The command was not started: this shell cannot close all files that the server has inherited from its parent. \
                       Install bash, or start the server without open files.";
        let (shell, to) = match input {
            Input::None => (program.as_os_str(), ""),
            // A server need not be a shell, and its standard output is for messages.
            Input::Pipe => (OsStr::new(if Path::new(BASH).exists() { BASH } else { "/bin/sh" }), " >&2"),
        };
        let script =
            format!("(exec{closing}) 2>&- || {{ echo '{refusal}'{to}; exit 126; }}; exec{closing}; exec \"$@\"");
        let mut shell = Command::new(shell);
        shell.arg("-c").arg(script).arg(program).arg(program);
        shell
    };
    command.args(args).process_group(0);
    Ok(command)
}

/// Descriptors, except the first three, that stay open in the program. All descriptors of this program are marked to be closed.
fn inheritable() -> io::Result<Vec<u32>> {
    const CLOSES_ON_EXEC: u32 = 0o2_000_000;
    let mut leaks = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let Some(fd) = entry.file_name().to_str().and_then(|fd| fd.parse().ok()) else {
            continue;
        };
        let Ok(info) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        if fd > 2 && flags.is_none_or(|flags| flags & CLOSES_ON_EXEC == 0) {
            leaks.push(fd);
        }
    }
    Ok(leaks)
}

struct Supervision {
    program: Pid,
    has_exited: bool,
}

impl Supervision {
    /// Waits until the server ends the command, or no process is left.
    fn until_over(&mut self, control: &mut UnixStream, signals: &mut UnixStream) {
        while self.reap(control) {
            let mut fds = [PollFd::new(&*control, PollFlags::IN), PollFd::new(&*signals, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                // One reason is that the command has lowered the limit of our descriptors.
                Err(_) => return,
            }
            let has_request = !fds[0].revents().is_empty();
            drain(signals);
            if has_request && !self.take_request(control) {
                return;
            }
        }
    }

    /// Reads one byte that the server has sent, and carries it out. False if the command has to end.
    fn take_request(&self, control: &mut UnixStream) -> bool {
        let mut word = [0];
        match control.read(&mut word) {
            Ok(1) if word == [TERMINATE] => {
                // Until the program is reaped, its pid is not reused.
                if !self.has_exited {
                    let _ = rustix::process::kill_process_group(self.program, Signal::TERM);
                }
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
            Ok(_) => false,
        }
    }

    /// Reaps every child that has ended, and reports the status of the program. True if there are still children.
    fn reap(&mut self, control: &mut UnixStream) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note(pid, status, control),
                Ok(None) => return true,
                // No children: then there are no descendants either, because orphans become our children.
                Err(_) => return false,
            }
        }
    }

    fn note(&mut self, pid: Pid, status: WaitStatus, control: &mut UnixStream) {
        if pid == self.program && !self.has_exited {
            self.has_exited = true;
            let _ = writeln!(control, "exited {}", status.as_raw());
        }
    }

    /// Kills all descendants. An error means that some may be left, which the server then has to kill.
    fn kill_all(&mut self, control: &mut UnixStream) -> io::Result<Vec<u32>> {
        if !self.reap(control) {
            return Ok(Vec::new());
        }
        let reaped = |pid, status| self.note(pid, status, control);
        let killed = processes::kill_children(|_| true, reaped, Duration::from_millis(SUPERVISOR_KILL_MS))?;
        if self.reap(control) {
            return Err(io::Error::other("a child was not found"));
        }
        let program = self.program.as_raw_pid().unsigned_abs();
        let mut killed: Vec<u32> = killed.into_iter().filter(|pid| *pid != program).collect();
        killed.sort_unstable();
        Ok(killed)
    }
}

/// Reads the bytes that signal handlers have written.
fn drain(signals: &mut UnixStream) {
    let mut bytes = [0; 64];
    while signals.read(&mut bytes).is_ok_and(|n| n > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_arguments_start_no_supervisor() {
        let args = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(child_main(args(&[])).is_none());
        assert!(child_main(args(&["gemini-a2a"])).is_none());
        assert!(child_main(args(&["gemini-a2a", "serve", VERB])).is_none());
    }

    #[test]
    fn incomplete_arguments_are_refused() {
        let read = |list: &[&str]| Request::read(list.iter().map(OsString::from));
        let request = read(&["--read-only", "/w", "--writable", "/w/f", "--programs", "/bin", "--", "ls", "--", "-l"]);
        let request = request.expect("it is complete");
        assert_eq!(request.argv, ["ls", "--", "-l"]);
        let bounds = request.bounds.expect("it is confined");
        assert_eq!(bounds.workspace.to_str(), Some("/w"));
        assert_eq!((bounds.writable.len(), bounds.programs.len()), (1, 1));
        assert!(read(&["--", "ls"]).expect("approved").bounds.is_none());
        for wrong in [&["ls"][..], &["--writable", "/f", "--", "ls"], &["--read-only"], &["--read-only", "/w"], &[]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read(&["--read-only", "/a", "--read-only", "/b", "--", "ls"]).is_err());
    }
}
