//! `run_shell_command`: one command line, in the foreground.
//!
//! The command is run exactly as it was shown: nothing is unwrapped, prefixed or rewritten. Its shell is its own session; both
//! outputs come through one pipe, so their order is kept; a single loop waits for output, the end, a cancel and the deadlines.
//! When the shell is over, what it left running is ended with it: a command cannot leave anything behind, and a background
//! process that holds the pipe cannot hold us. How a command exits is its result, not our error; only one that could not be
//! started failed.
//!
//! Commands are not confined to the workspace, only started in it. That is why they ask.

use crate::base::cancel::Cancel;
use crate::limits::Limits;
use crate::task::command::warnings;
use crate::task::job::{Run, RunEnd};
use crate::task::spec::{
    CallError, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict,
};
use crate::tool::output::Output;
use crate::tool::path::{Found, Spot};
use crate::tool::programs::programs;
use crate::tool::text::{untrusted, without_middle};
use crate::tool::{
    Child, Ctx, Finished, Launch, Tool, failed, invalid, optional_text_arg, text_arg,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Shell;

impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "run_shell_command".into(),
            display_name: "Shell".into(),
            description: "Runs a command line with bash and waits for its end. Output and errors come in the order they \
                          were printed, without a terminal and without input. Processes it leaves in the background are \
                          ended with it. A command that prints nothing for minutes is ended, too."
                .into(),
            kind: Kind::Execute,
            parameters: json!({
                "type": "object",
                "required": ["command"],
                "properties": {
                    "command": {"type": "string", "description": "The command line, given to bash -c as it is."},
                    "description": {"type": "string", "description": "What it does, in one short sentence for the user."},
                    "dir_path": {"type": "string", "description": "The directory of the workspace to run it in; the workspace itself if not given."},
                },
            }),
            by_default: Verdict::Ask,
            output_is_markdown: false,
            has_live_output: true,
        }
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let (command, dir) = (command(args)?, directory(args, ctx)?);
        let mut title = first_line(command);
        if args.get("dir_path").is_some() {
            title.push_str(&format!(" [in {}]", dir.relative()));
        }
        if let Some(description) = optional_text_arg(args, "description") {
            title.push_str(&format!(" ({})", first_line(description)));
        }
        Ok(Plan {
            title,
            question: Question::Exec {
                title: "Confirm Shell Command".into(),
                command: command.into(),
                programs: programs(command),
                dir: Some(dir.real()),
                warnings: warnings(command),
            },
            base: None,
            rule: Some(format!("run_shell_command:{command}@{}", dir.real())),
        })
    }

    fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> RunEnd {
        let started = command(&run.args).and_then(|command| {
            let dir = directory(&run.args, ctx)?;
            start(command, dir, ctx).map_err(|error| {
                let text = format!("The command could not be started: {error}");
                CallError::new(ErrorKind::ShellExecuteError, text)
            })
        });
        let child = match started {
            Ok(child) => child,
            Err(error) => return failed(error),
        };
        match follow(child, ctx, out) {
            Ok(seen) => RunEnd::Ended(seen.ending(ctx.limits)),
            Err(error) => failed(CallError::new(
                ErrorKind::ShellExecuteError,
                format!("The command was ended because it could not be watched: {error}"),
            )),
        }
    }
}

fn command(args: &Value) -> Result<&str, CallError> {
    let command = text_arg(args, "command")?;
    if command.trim().is_empty() {
        return Err(invalid("command must not be empty"));
    }
    if command.contains('\0') {
        return Err(invalid("command must not contain NUL characters"));
    }
    if args.get("is_background") == Some(&Value::Bool(true)) {
        return Err(invalid(
            "is_background is not available: run the command in the foreground, and let it end",
        ));
    }
    Ok(command)
}

fn directory(args: &Value, ctx: &Ctx) -> Result<Spot, CallError> {
    let spot = ctx
        .workspace
        .find(optional_text_arg(args, "dir_path").unwrap_or("."))?;
    match spot.found {
        Found::Directory(_) => Ok(spot),
        Found::File(_) | Found::Nothing(_) => Err(invalid(format!(
            "dir_path must be an existing directory, and {} is not",
            spot.relative()
        ))),
    }
}

/// The first line, and a sign that there is more.
fn first_line(text: &str) -> String {
    let text = text.trim();
    match text.split_once('\n') {
        None => text.to_string(),
        Some((first, _)) => format!("{} …", first.trim_end()),
    }
}

fn start(command: &str, dir: Spot, ctx: &Ctx) -> io::Result<Box<dyn Child>> {
    let Found::Directory(dir) = dir.found else {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    };
    let launch = |shell: &str, dir: OwnedFd| {
        ctx.children.spawn(Launch {
            argv: vec![shell.into(), "-c".into(), command.into()],
            dir,
        })
    };
    match launch("bash", dir.try_clone()?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => launch("sh", dir),
        other => other,
    }
}

/// Why the command is over.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    Exited,
    Cancelled,
    Silent,
}

struct Seen {
    why: Why,
    output: Output,
    finished: Finished,
}

/// Reads what the command prints until it is over, by itself or by us, and nothing of it is left.
fn follow(child: Box<dyn Child>, ctx: &Ctx, out: &mut dyn FnMut(String)) -> io::Result<Seen> {
    let wake = Wake::on(ctx.cancel)?;
    let mut watch = Watch {
        limits: ctx.limits,
        child: child.as_ref(),
        output: Output::new(ctx.limits),
        why: Why::Exited,
        heard: Instant::now(),
        shown: None,
        stop_at: None,
        exited: false,
        closed: false,
    };
    let watched = watch.until_over(&wake, out);
    let Watch { why, output, .. } = watch;
    let finished = child.finish();
    watched?;
    Ok(Seen {
        why,
        output,
        finished: finished?,
    })
}

/// Turns a cancel into something that can be waited for.
struct Wake<'a> {
    cancel: &'a Cancel,
    bell: Arc<OwnedFd>,
}

impl<'a> Wake<'a> {
    fn on(cancel: &'a Cancel) -> io::Result<Wake<'a>> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let rung = bell.clone();
        cancel.on_set(move || {
            let _ = rustix::io::write(&*rung, &1u64.to_ne_bytes());
        });
        Ok(Wake { cancel, bell })
    }
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.cancel.clear();
    }
}

struct Watch<'a> {
    limits: &'a Limits,
    child: &'a dyn Child,
    output: Output,
    why: Why,
    /// When the last output came.
    heard: Instant,
    /// When the last live piece was given out.
    shown: Option<Instant>,
    /// Set once the end is near: no waiting beyond it.
    stop_at: Option<Instant>,
    exited: bool,
    closed: bool,
}

impl Watch<'_> {
    fn until_over(&mut self, wake: &Wake, out: &mut dyn FnMut(String)) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while !(self.exited && self.closed) {
            let now = Instant::now();
            if self.show_at().is_some_and(|at| at <= now) {
                out(self.output.take_live());
                self.shown = Some(now);
            }
            if self.stop_at.is_some_and(|at| at <= now) {
                break;
            }
            if self.stop_at.is_none() {
                if wake.cancel.is_set() {
                    self.end_it(Why::Cancelled, now);
                } else if self.silent_at().is_some_and(|at| at <= now) {
                    self.end_it(Why::Silent, now);
                }
            }
            self.wait(wake, now, &mut buffer)?;
        }
        self.output.end();
        if self.output.has_live() {
            out(self.output.take_live());
        }
        Ok(())
    }

    /// Waits for the next thing to happen, and takes in what did.
    fn wait(&mut self, wake: &Wake, now: Instant, buffer: &mut [u8]) -> io::Result<()> {
        let (output, over) = (self.child.output(), self.child.over());
        let mut fds = [
            PollFd::from_borrowed_fd(output, PollFlags::IN),
            PollFd::from_borrowed_fd(over, PollFlags::IN),
            PollFd::new(&wake.bell, PollFlags::IN),
        ];
        // What has happened already would wake us for ever; the one still open is put first.
        let waited_for = match (self.closed, self.exited, self.stop_at) {
            (false, false, None) => &mut fds[..],
            (false, false, Some(_)) => &mut fds[..2],
            (false, true, _) => &mut fds[..1],
            (true, _, None) => &mut fds[1..],
            (true, _, Some(_)) => &mut fds[1..2],
        };
        let deadlines = [self.show_at(), self.stop_at.or(self.silent_at())];
        let timeout = deadlines.into_iter().flatten().min().map(|at| {
            let left = at.saturating_duration_since(now);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(waited_for, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let happened = |fd: &PollFd| !fd.revents().is_empty();
        let (readable, over) = (happened(&fds[0]), happened(&fds[1]));
        if readable && !self.closed {
            self.read(buffer)?;
        }
        if over && !self.exited {
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
                self.heard = Instant::now();
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn end_it(&mut self, why: Why, now: Instant) {
        self.child.ask();
        self.why = why;
        self.stop_at = Some(now + Duration::from_millis(self.limits.kill_ms));
    }

    /// When the next live piece is due: at once for the first, then in a steady beat.
    fn show_at(&self) -> Option<Instant> {
        let beat = Duration::from_millis(self.limits.live_ms);
        self.output
            .has_live()
            .then(|| self.shown.map_or(self.heard, |shown| shown + beat))
    }

    fn silent_at(&self) -> Option<Instant> {
        let silence = self.limits.shell_silence_ms;
        (silence > 0).then(|| self.heard + Duration::from_millis(silence))
    }
}

impl Seen {
    fn ending(mut self, limits: &Limits) -> Ending {
        let text = self.output.text();
        let text = without_middle(&text, limits.result_chars).into_owned();
        if self.why == Why::Cancelled {
            return Ending::Cancelled {
                reason: "The command was cancelled and ended.".into(),
                output: text,
            };
        }
        let mut facts = Vec::new();
        if self.why == Why::Silent {
            facts.push(format!(
                "The command was ended because it printed nothing for {} seconds.",
                limits.shell_silence_ms as f64 / 1000.0
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
            facts.push(format!(
                "Background PIDs: {} (ended with the command)",
                strays.join(", ")
            ));
        }
        let facts = facts.join("\n");
        let shown = if text.is_empty() { "(empty)" } else { &text };
        let mut output = format!("Output: {shown}");
        if !facts.is_empty() {
            output.push('\n');
            output.push_str(&facts);
        }
        Ending::Success {
            output: untrusted(&output),
            display: Display::Text {
                text: if text.is_empty() { facts } else { text },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::{Scratch, run_of, with_ctx};

    fn plan(scratch: &Scratch, args: Value) -> Result<Plan, CallError> {
        with_ctx(scratch, &Limits::default(), |ctx| Shell.prepare(&args, ctx))
    }

    #[test]
    fn the_question_shows_the_exact_command() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path().join("sub")).expect("mine");
        let dir = format!("{}/sub", scratch.path().display());
        let command = "sh -c 'make x' | tee log\necho done";
        let args = json!({"command": command, "dir_path": "sub", "description": "Builds x"});
        assert_eq!(
            plan(&scratch, args),
            Ok(Plan {
                title: "sh -c 'make x' | tee log … [in sub] (Builds x)".into(),
                question: Question::Exec {
                    title: "Confirm Shell Command".into(),
                    command: command.into(),
                    programs: vec!["sh".into(), "tee".into(), "echo".into()],
                    dir: Some(dir.clone()),
                    warnings: vec![],
                },
                base: None,
                rule: Some(format!("run_shell_command:{command}@{dir}")),
            })
        );
    }

    #[test]
    fn wrong_calls_are_refused_before_anybody_is_asked() {
        let scratch = Scratch::new();
        scratch.put("file", "");
        let kind = |args| plan(&scratch, args).map_err(|error| error.kind);
        let invalid = Err(ErrorKind::InvalidToolParams);
        assert_eq!(kind(json!({"command": "  "})), invalid);
        assert_eq!(kind(json!({"command": "a\u{0}b"})), invalid);
        assert_eq!(
            kind(json!({"command": "a", "is_background": true})),
            invalid
        );
        assert_eq!(kind(json!({"command": "a", "dir_path": "nope"})), invalid);
        assert_eq!(kind(json!({"command": "a", "dir_path": "file"})), invalid);
        assert_eq!(
            kind(json!({"command": "a", "dir_path": ".."})),
            Err(ErrorKind::PathNotInWorkspace)
        );
        assert!(kind(json!({"command": "a", "is_background": false})).is_ok());
    }

    #[test]
    fn a_command_that_cannot_start_is_an_error() {
        let scratch = Scratch::new();
        let run = run_of(&scratch, "run_shell_command", json!({"command": "true"}));
        let end = with_ctx(&scratch, &Limits::default(), |ctx| {
            Shell.run(&run, ctx, &mut |_| {})
        });
        assert_eq!(
            end,
            failed(CallError::new(
                ErrorKind::ShellExecuteError,
                "The command could not be started: no programs in this test"
            ))
        );
    }
}
