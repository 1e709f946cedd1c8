//! `run_shell_command`: one command line.
//!
//! The command is run exactly as it was shown: nothing is unwrapped, prefixed or rewritten. Its shell is its own session. In the
//! foreground it is waited for, and what it left running is ended with it; in the background it is waited for only a moment and
//! then handed to [`crate::tool::background`]. Only a command that could not be started failed.
//!
//! Commands are not confined to the workspace, only started in it. That is why they ask.

use crate::task::command::warnings;
use crate::task::job::{Run, RunEnd};
use crate::task::spec::{CallError, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict};
use crate::tool::path::{Found, Spot};
use crate::tool::programs::programs;
use crate::tool::watch::{follow, told};
use crate::tool::{Child, Ctx, Launch, Tool, failed, invalid, number_arg, optional_text_arg, text_arg};
use serde_json::{Value, json};
use std::io;
use std::os::fd::OwnedFd;

pub struct Shell;

impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "run_shell_command".into(),
            display_name: "Shell".into(),
            description:
                "Runs a command line with bash and waits for its end. Output and errors come in the order they \
                          were printed, without a terminal and without input. Processes it leaves running are ended \
                          with it. A command that prints nothing for minutes is ended, too. Servers and watchers that \
                          shall go on running are started with is_background, without an & of their own; they end \
                          with the task, or by kill with their PID."
                    .into(),
            kind: Kind::Execute,
            parameters: json!({
                "type": "object",
                "required": ["command"],
                "properties": {
                    "command": {"type": "string", "description": "The command line, given to bash -c as it is."},
                    "description": {"type": "string", "description": "What it does, in one short sentence for the user."},
                    "dir_path": {"type": "string", "description": "The directory of the workspace to run it in; the workspace itself if not given."},
                    "is_background": {"type": "boolean", "description": "Start it and let it go on running in the background."},
                    "delay_ms": {"type": "integer", "minimum": 0, "description": "In the background: how long to wait for its first output, in milliseconds; 200 if not given."},
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
        if place(args) == Place::Background {
            title.push_str(" [background]");
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
        })
    }

    fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> RunEnd {
        let ending = match place(&run.args) {
            Place::Foreground => foreground(&run.args, ctx, out),
            Place::Background => background(&run.args, ctx),
        };
        ending.map_or_else(failed, RunEnd::Ended)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Foreground,
    Background,
}

fn place(args: &Value) -> Place {
    match args.get("is_background") {
        Some(Value::Bool(true)) => Place::Background,
        _ => Place::Foreground,
    }
}

fn foreground(args: &Value, ctx: &Ctx, out: &mut dyn FnMut(String)) -> Result<Ending, CallError> {
    let child = start(args, ctx)?;
    let seen = follow(child, ctx.cancel, ctx.limits, out).map_err(|error| {
        let text = format!("The command was ended because it could not be watched: {error}");
        CallError::new(ErrorKind::ShellExecuteError, text)
    })?;
    Ok(seen.ending(ctx.limits))
}

fn background(args: &Value, ctx: &Ctx) -> Result<Ending, CallError> {
    let cannot = |text: String| CallError::new(ErrorKind::ShellExecuteError, text);
    ctx.background.check_room(ctx).map_err(cannot)?;
    let process = ctx
        .background
        .adopt(start(args, ctx)?, command(args)?, ctx)
        .map_err(|error| cannot(format!("The command could not be watched: {error}")))?;
    let delay = number_arg(args, "delay_ms").map_or(ctx.limits.background_delay_ms, |ms| ms as u64);
    process.wait(delay, ctx);
    if ctx.cancel.is_set() {
        process.end();
    }
    if let Some(ending) = process.ending() {
        // It has been told of: nobody needs to ask for it any more.
        ctx.background.forget(&process);
        return Ok(ending);
    }
    let text = process.text();
    let facts = format!(
        "Background PID: {0}\nThe command goes on running. Read what it prints with read_background_output, end it with \
         kill {0}.",
        process.pid()
    );
    Ok(Ending::Success {
        output: told(&text, &facts),
        display: Display::Text { text: format!("{text}[runs in the background as process {}]", process.pid()) },
    })
}

fn command(args: &Value) -> Result<&str, CallError> {
    let command = text_arg(args, "command")?;
    if command.trim().is_empty() {
        return Err(invalid("command must not be empty"));
    }
    if command.contains('\0') {
        return Err(invalid("command must not contain NUL characters"));
    }
    Ok(command)
}

fn directory(args: &Value, ctx: &Ctx) -> Result<Spot, CallError> {
    let spot = ctx.workspace.find(optional_text_arg(args, "dir_path").unwrap_or("."))?;
    match spot.found {
        Found::Directory(_) => Ok(spot),
        Found::File(_) | Found::Nothing(_) => {
            Err(invalid(format!("dir_path must be an existing directory, and {} is not", spot.relative())))
        }
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

fn start(args: &Value, ctx: &Ctx) -> Result<Box<dyn Child>, CallError> {
    let (command, dir) = (command(args)?, directory(args, ctx)?);
    let Found::Directory(dir) = dir.found else {
        unreachable!("only directories are let through");
    };
    let launch = |shell: &str, dir: OwnedFd| {
        ctx.children.spawn(Launch { argv: vec![shell.into(), "-c".into(), command.into()], dir })
    };
    let first = dir.try_clone().and_then(|dir| launch("bash", dir));
    let started = match first {
        Err(error) if error.kind() == io::ErrorKind::NotFound => launch("sh", dir),
        other => other,
    };
    started.map_err(|error| {
        let text = format!("The command could not be started: {error}");
        CallError::new(ErrorKind::ShellExecuteError, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
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
        assert_eq!(kind(json!({"command": "a", "dir_path": "nope"})), invalid);
        assert_eq!(kind(json!({"command": "a", "dir_path": "file"})), invalid);
        assert_eq!(kind(json!({"command": "a", "dir_path": ".."})), Err(ErrorKind::PathNotInWorkspace));
        let title =
            |background| plan(&scratch, json!({"command": "a", "is_background": background})).expect("a plan").title;
        assert_eq!((title(false), title(true)), ("a".into(), "a [background]".into()));
    }

    #[test]
    fn a_command_that_cannot_start_is_an_error() {
        let scratch = Scratch::new();
        let run = run_of(&scratch, "run_shell_command", json!({"command": "true"}));
        let end = with_ctx(&scratch, &Limits::default(), |ctx| Shell.run(&run, ctx, &mut |_| {}));
        assert_eq!(
            end,
            failed(CallError::new(
                ErrorKind::ShellExecuteError,
                "The command could not be started: no programs in this test"
            ))
        );
    }
}
