//! The stdio transport: servers that are programs. Messages are lines of their standard input and output. Their standard error goes to the log
//! of the server.

use super::Context;
use super::connection::{Flow, ServerLog, Transport};
use crate::base::secret::Secret;
use crate::limits::mcp::{MESSAGE_BYTES, STOP_MS, WRITE_MS};
use crate::mcp::session::{Input, Outgoing};
use crate::mcp::transport::lines::{Lines, TooLong};
use crate::mcp::transport::{check_queue, message};
use crate::tool::{Child, Io, Launch, Pipes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The size of one read.
const CHUNK: usize = 64 * 1024;

/// The program to start.
pub struct Program<'a> {
    pub command: &'a str,
    pub args: &'a [String],
    pub env: &'a [(String, Secret)],
    pub dir: PathBuf,
}

pub struct Stdio {
    child: Box<dyn Child>,
    /// The program's standard input. `None` after it was closed.
    input: Option<OwnedFd>,
    /// The program's standard error. `None` after its end.
    errors: Option<OwnedFd>,
    is_output_open: bool,
    lines: Lines,
    /// Bytes that the server has not read yet, and when it last read some.
    unsent: Vec<u8>,
    unsent_since: Instant,
    log: Arc<ServerLog>,
    kill: Duration,
    drain: Duration,
    buffer: Vec<u8>,
}

impl Stdio {
    /// The error is for people.
    pub fn start(context: &Context, program: &Program<'_>, log: Arc<ServerLog>) -> Result<Stdio, String> {
        let Program { command, args, env, dir } = program;
        let programs = context.programs.as_ref().ok_or("this server starts no programs")?;
        if command.contains(char::is_whitespace) && !Path::new(command).exists() {
            return Err("command is one program and contains a blank; write its arguments into args".into());
        }
        let opened =
            File::open(dir).map_err(|error| format!("its directory {} cannot be used: {error}", dir.display()));
        let argv = std::iter::once(*command).chain(args.iter().map(String::as_str)).map(Into::into).collect();
        let env = env.iter().map(|(name, value)| (name.into(), value.reveal().into())).collect();
        let launch = Launch { io: Io::Piped, env, ..Launch::command(argv, opened?.into()) };
        let wrong = |error: io::Error| format!("{command} cannot be started: {error}");
        let mut child = programs.spawn(launch).map_err(wrong)?;
        let Pipes { input, errors } = child.take_pipes().ok_or_else(|| format!("{command} has no pipes"))?;
        rustix::fs::fcntl_setfl(&input, OFlags::NONBLOCK).map_err(|errno| wrong(errno.into()))?;
        Ok(Stdio {
            child,
            input: Some(input),
            errors: Some(errors),
            is_output_open: true,
            lines: Lines::default(),
            unsent: Vec::new(),
            unsent_since: Instant::now(),
            log,
            kill: Duration::from_millis(context.limits.kill_ms),
            drain: Duration::from_millis(context.limits.drain_ms),
            buffer: vec![0; CHUNK],
        })
    }

    /// Writes as much as the pipe accepts.
    fn write(&mut self) -> Result<(), String> {
        let Some(input) = &self.input else { return Ok(()) };
        while !self.unsent.is_empty() {
            match rustix::io::write(input, &self.unsent) {
                Ok(written) => {
                    self.unsent.drain(..written);
                    self.unsent_since = Instant::now();
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                // The program has closed its standard input. If it has ended, `poll` notices that.
                Err(Errno::PIPE) => self.unsent.clear(),
                Err(errno) => return Err(format!("its standard input cannot be written: {}", io::Error::from(errno))),
            }
        }
        Ok(())
    }

    /// Reads its standard output once.
    fn read(&mut self, inputs: &mut Vec<Input>) -> Result<(), TooLong> {
        match rustix::io::read(self.child.output(), &mut self.buffer) {
            Ok(0) => self.is_output_open = false,
            Ok(count) => {
                let mut lines = Vec::new();
                self.lines.feed(&self.buffer[..count], &mut lines)?;
                for line in lines {
                    match message::read(&line) {
                        Some(messages) => {
                            inputs.extend(messages.into_iter().map(|message| Input::Message { message, on: None }));
                        }
                        None => inputs.push(Input::Junk(String::from_utf8_lossy(&line).into_owned())),
                    }
                }
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn read_errors(&mut self) {
        let Some(errors) = &self.errors else { return };
        match rustix::io::read(errors, &mut self.buffer) {
            Ok(0) => self.errors = None,
            Ok(count) => self.log.push(&self.buffer[..count]),
            Err(_) => {}
        }
    }

    /// Waits for the end of the program, for a limited time. Reads its output meanwhile, so that the program does not block.
    fn wait_for_end(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let ready = self.poll(None, until.saturating_duration_since(Instant::now()));
            if ready.output {
                let _ = self.read(&mut Vec::new());
            }
            if ready.errors {
                self.read_errors();
            }
            if ready.over || Instant::now() >= until {
                return ready.over;
            }
        }
    }

    fn poll(&self, wake: Option<BorrowedFd<'_>>, time: Duration) -> Ready {
        // A closed or unneeded descriptor is replaced by one without events to wait for.
        let over = self.child.exited();
        fn wanted<'a>(
            fd: Option<BorrowedFd<'a>>,
            flags: PollFlags,
            other: BorrowedFd<'a>,
        ) -> (BorrowedFd<'a>, PollFlags) {
            fd.map_or((other, PollFlags::empty()), |fd| (fd, flags))
        }
        let output = Some(self.child.output()).filter(|_| self.is_output_open);
        let input = self.input.as_ref().filter(|_| !self.unsent.is_empty()).map(AsFd::as_fd);
        let fds = [
            (over, PollFlags::IN),
            wanted(output, PollFlags::IN, over),
            wanted(self.errors.as_ref().map(AsFd::as_fd), PollFlags::IN, over),
            wanted(input, PollFlags::OUT, over),
            wanted(wake, PollFlags::IN, over),
        ];
        let mut fds = fds.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        let happened = |at: usize| !fds[at].revents().is_empty();
        Ready {
            over: happened(0),
            output: self.is_output_open && happened(1),
            errors: self.errors.is_some() && happened(2),
            input: input.is_some() && happened(3),
            wake: wake.is_some() && happened(4),
        }
    }
}

/// Which descriptors are ready.
struct Ready {
    over: bool,
    output: bool,
    errors: bool,
    input: bool,
    wake: bool,
}

impl Transport for Stdio {
    fn begin(&mut self) -> Vec<Input> {
        vec![Input::Start]
    }

    fn send(&mut self, message: Outgoing, _: &str) -> Result<(), String> {
        if self.unsent.is_empty() {
            self.unsent_since = Instant::now();
        }
        self.unsent.extend_from_slice(message.text.as_bytes());
        self.unsent.push(b'\n');
        self.write()?;
        check_queue(self.unsent.len())
    }

    fn wait(&mut self, wake: BorrowedFd<'_>, time: Option<Duration>) -> Flow {
        let patience = Duration::from_millis(WRITE_MS);
        let until_late = (!self.unsent.is_empty()).then(|| patience.saturating_sub(self.unsent_since.elapsed()));
        let time = time.into_iter().chain(until_late).min().unwrap_or(patience);
        let ready = self.poll(Some(wake), time);
        let mut inputs = Vec::new();
        if ready.wake {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        if ready.errors {
            self.read_errors();
        }
        if ready.output && self.read(&mut inputs).is_err() {
            let most = MESSAGE_BYTES >> 20;
            return Flow::Broken(format!("line too long: it sent more than {most} MiB at once; ask it for less"));
        }
        if ready.input
            && let Err(why) = self.write()
        {
            return Flow::Broken(why);
        }
        if !self.unsent.is_empty() && self.unsent_since.elapsed() >= patience {
            return Flow::Broken("it does not read its standard input".into());
        }
        // Messages that the program sent before its end are handled first.
        if (ready.over && !ready.output) || !self.is_output_open {
            return if inputs.is_empty() { Flow::Ended("it ended".into()) } else { Flow::Inputs(inputs) };
        }
        Flow::Inputs(inputs)
    }

    fn close(mut self: Box<Self>) -> String {
        self.input = None;
        if !self.wait_for_end(Duration::from_millis(STOP_MS)) {
            self.child.terminate();
            self.wait_for_end(self.kill);
        }
        // The end of its standard error may still be in the pipe.
        let until = Instant::now() + self.drain;
        while self.errors.is_some() && Instant::now() < until && self.poll(None, Duration::ZERO).errors {
            self.read_errors();
        }
        match self.child.finish().map(|finished| finished.status) {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => String::new(),
            },
            Err(error) => format!("its processes could not be ended: {error}"),
        }
    }

    fn word(&self) -> &'static str {
        "stdio"
    }
}
