//! Follows a command from its start to its end and reads its output.
//!
//! Standard output and error come through one pipe, so their order is kept. One loop waits for output, the end of the command, a
//! cancellation and the deadlines. Programs that the command left behind are ended with it, also if they keep the pipe open. The exit
//! status of a command is part of its result, not an error of the call.

use crate::base::cancel::Cancel;
use crate::limits::Limits;
use crate::task::spec::Ending;
use crate::tool::commands::output::Output;
use crate::tool::files::text::{untrusted, without_middle};
use crate::tool::{Child, Finished};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why the command ended.
#[derive(Clone, Copy, PartialEq)]
enum EndReason {
    Exited,
    Cancelled,
    Silent,
    /// It reached the time limit of commands without approval.
    Late,
}

pub(in crate::tool) struct CommandResult {
    end_reason: EndReason,
    output: Output,
    finished: Finished,
}

/// Reads the output of a command until it has exited or was ended, together with its descendants. It may run for `longest`.
pub(in crate::tool) fn follow(
    child: Box<dyn Child>,
    cancel: &Cancel,
    limits: &Limits,
    longest: Option<Duration>,
    out: &mut dyn FnMut(String),
) -> io::Result<CommandResult> {
    let cancelled = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let signal = cancelled.clone();
    cancel.on_set(move || {
        let _ = rustix::io::write(&*signal, &1u64.to_ne_bytes());
    });
    let mut watch = Watch {
        limits,
        cancel,
        cancelled,
        late_at: longest.map(|longest| Instant::now() + longest),
        child: child.as_ref(),
        output: Output::new(limits),
        end_reason: EndReason::Exited,
        last_output: Instant::now(),
        last_shown: None,
        stop_at: None,
        exited: false,
        closed: false,
    };
    let watched = watch.until_over(out);
    cancel.clear();
    let Watch { end_reason, output, .. } = watch;
    let finished = child.finish();
    watched?;
    Ok(CommandResult { end_reason, output, finished: finished? })
}

struct Watch<'a> {
    limits: &'a Limits,
    cancel: &'a Cancel,
    /// A descriptor that becomes readable when the call is cancelled.
    cancelled: Arc<OwnedFd>,
    /// When a command without approval has reached its time limit.
    late_at: Option<Instant>,
    child: &'a dyn Child,
    output: Output,
    end_reason: EndReason,
    /// When the last output was read.
    last_output: Instant,
    /// When the last piece of live output was sent.
    last_shown: Option<Instant>,
    /// Set when the command has exited or was asked to end: the loop does not wait longer than this.
    stop_at: Option<Instant>,
    /// The command has exited.
    exited: bool,
    /// All processes have closed the output.
    closed: bool,
}

impl Watch<'_> {
    fn until_over(&mut self, out: &mut dyn FnMut(String)) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while !(self.exited && self.closed) {
            let now = Instant::now();
            if self.show_at().is_some_and(|at| at <= now) {
                out(self.output.take_live());
                self.last_shown = Some(now);
            }
            if self.stop_at.is_some_and(|at| at <= now) {
                break;
            }
            if self.stop_at.is_none() {
                if self.cancel.is_set() {
                    self.end_it(EndReason::Cancelled, now);
                } else if self.silent_at().is_some_and(|at| at <= now) {
                    self.end_it(EndReason::Silent, now);
                } else if self.late_at.is_some_and(|at| at <= now) {
                    self.end_it(EndReason::Late, now);
                }
            }
            self.wait(now, &mut buffer)?;
        }
        self.output.end();
        if self.output.has_live() {
            out(self.output.take_live());
        }
        Ok(())
    }

    /// Waits for the next event and processes it.
    fn wait(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<()> {
        let (output, exited) = (self.child.output(), self.child.exited());
        let mut fds = [
            PollFd::from_borrowed_fd(output, PollFlags::IN),
            PollFd::from_borrowed_fd(exited, PollFlags::IN),
            PollFd::new(&self.cancelled, PollFlags::IN),
        ];
        // A descriptor whose event was already processed would be ready at once, so it is left out.
        let waited_for = match (self.closed, self.exited, self.stop_at) {
            (false, false, None) => &mut fds[..],
            (false, false, Some(_)) => &mut fds[..2],
            (false, true, _) => &mut fds[..1],
            (true, _, None) => &mut fds[1..],
            (true, _, Some(_)) => &mut fds[1..2],
        };
        let ends = self.stop_at.or_else(|| self.silent_at().into_iter().chain(self.late_at).min());
        let deadlines = [self.show_at(), ends];
        let next = deadlines.into_iter().flatten().min();
        // A time that is too long for the system means no limit.
        let timeout = next.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
        match poll(waited_for, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let happened = |fd: &PollFd| !fd.revents().is_empty();
        let (readable, exited) = (happened(&fds[0]), happened(&fds[1]));
        if readable && !self.closed {
            self.read(buffer)?;
        }
        if exited && !self.exited {
            self.exited = true;
            let drained = Instant::now() + Duration::from_millis(self.limits.drain_ms);
            self.stop_at.get_or_insert(drained);
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        match rustix::io::read(self.child.output(), &mut *buffer) {
            Ok(0) => self.closed = true,
            Ok(n) => {
                self.output.push(&buffer[..n]);
                self.last_output = Instant::now();
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn end_it(&mut self, end_reason: EndReason, now: Instant) {
        self.child.terminate();
        self.end_reason = end_reason;
        self.stop_at = Some(now + Duration::from_millis(self.limits.kill_ms));
    }

    /// When the next piece of live output is due: the first at once, the others at an interval.
    fn show_at(&self) -> Option<Instant> {
        let interval = Duration::from_millis(self.limits.live_ms);
        self.output.has_live().then(|| self.last_shown.map_or(self.last_output, |last| last + interval))
    }

    fn silent_at(&self) -> Option<Instant> {
        let silence = self.limits.shell_silence_ms;
        (silence > 0).then(|| self.last_output + Duration::from_millis(silence))
    }
}

impl CommandResult {
    /// The ending of the call. Output that is too long for it is given to `keep`, which returns a sentence that says where the output is.
    pub fn ending(mut self, limits: &Limits, keep: impl FnOnce(&str) -> Option<String>) -> Ending {
        let whole = self.output.text();
        let text = without_middle(&whole, limits.result_chars);
        let note = if text.len() == whole.len() { None } else { keep(&whole) };
        let shown = match &note {
            Some(note) => format!("{text}\n[{note}]"),
            None => text.to_string(),
        };
        if self.end_reason == EndReason::Cancelled {
            return Ending::Cancelled { reason: "The command was cancelled and ended.".into(), output: shown.into() };
        }
        let facts = self.facts(limits);
        let all: Vec<&str> =
            note.as_deref().into_iter().chain([facts.as_str()]).filter(|line| !line.is_empty()).collect();
        Ending::text(for_model(&text, &all.join("\n")), if shown.is_empty() { facts } else { shown })
    }

    /// Lines about how the command ended; empty if it succeeded.
    pub fn facts(&self, limits: &Limits) -> String {
        let mut facts = Vec::new();
        if self.end_reason == EndReason::Silent {
            facts.push(format!(
                "The command was ended because it printed nothing for {} seconds.",
                limits.shell_silence_ms as f64 / 1000.0
            ));
        }
        if self.end_reason == EndReason::Late {
            facts.push(format!(
                "The command was ended after {} seconds because nobody approved it. Narrow it down, or call it again \
                 with unconfined, which asks for approval.",
                limits.confined_ms as f64 / 1000.0
            ));
        }
        let status = self.finished.status;
        if let Some(code) = status.code().filter(|code| *code != 0) {
            facts.push(format!("Exit Code: {code}"));
        }
        if let Some(signal) = status.signal() {
            facts.push(format!("Signal: {signal}"));
        }
        let strays: Vec<String> = self.finished.strays.iter().map(u32::to_string).collect();
        if !strays.is_empty() {
            facts.push(format!("Background PIDs: {} (ended with the command)", strays.join(", ")));
        }
        facts.join("\n")
    }
}

/// The text for the model: the output of a command, and lines about how it ended.
pub(in crate::tool) fn for_model(text: &str, facts: &str) -> String {
    let shown = if text.is_empty() { "(empty)" } else { text };
    let mut output = format!("Output: {shown}");
    if !facts.is_empty() {
        output.push('\n');
        output.push_str(facts);
    }
    untrusted(&output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::process::ExitStatus;

    /// A program that prints nothing and ends when it is asked to.
    struct Endless {
        output: io::PipeReader,
        _open: io::PipeWriter,
        exited: OwnedFd,
    }

    impl Child for Endless {
        fn id(&self) -> u32 {
            1
        }

        fn output(&self) -> BorrowedFd<'_> {
            self.output.as_fd()
        }

        fn exited(&self) -> BorrowedFd<'_> {
            self.exited.as_fd()
        }

        fn terminate(&self) {
            rustix::io::write(&self.exited, &1u64.to_ne_bytes()).expect("an eventfd takes it");
        }

        fn finish(self: Box<Self>) -> io::Result<Finished> {
            Ok(Finished { status: ExitStatus::from_raw(15), strays: Vec::new() })
        }
    }

    #[test]
    fn a_command_that_nobody_approved_is_ended() {
        let (output, open) = io::pipe().expect("a pipe");
        let exited = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let limits = Limits { confined_ms: 1, drain_ms: 1, ..Limits::default() };
        let longest = Some(Duration::from_millis(limits.confined_ms));
        let child = Box::new(Endless { output, _open: open, exited });
        let result = follow(child, &Cancel::default(), &limits, longest, &mut |_| {}).expect("it was watched");
        let facts = result.facts(&limits);
        assert!(facts.starts_with("The command was ended after 0.001 seconds because nobody approved it."), "{facts}");
        assert!(facts.ends_with("Signal: 15"), "{facts}");
    }
}
