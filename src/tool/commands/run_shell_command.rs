//! `run_shell_command`: runs one command line.
//!
//! The command is run exactly as it was shown; nothing is added or rewritten. Its shell has its own session. In the foreground the
//! call waits for its end, and processes that it left are ended with it. In the background the call waits only a moment and then
//! hands the process over to [`crate::tool::commands::background`]. Only a command that could not be started is an error.
//!
//! An approved command runs as the user. A command without approval is confined by the kernel: it may read the workspace and the
//! system's programs, and write only the files of its redirections. `prepare` resolves its operands; the policy decides whether it needs
//! approval.

mod index;
mod operands;
mod repository;

use crate::task::command_line::{programs, visible, warnings};
use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, Confinement, Ending, ErrorKind, Kind, Plan, Question, ToolSpec};
use crate::tool::commands::watch::{follow, for_model};
use crate::tool::files::path::{PathTarget, ResolvedPath};
use crate::tool::{
    Child, Ctx, Launch, ReadOnly, Tool, flag_arg, invalid, number_arg, object, optional_text_arg, text_arg,
};
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::time::Duration;

pub struct Shell;

impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "run_shell_command",
            "Shell",
            Kind::Execute,
            "Runs a command line with bash and waits for its end. Output and errors come in the order they were printed, \
             without a terminal and without input. Processes it leaves running are ended with it. A command that prints \
             nothing for minutes is ended, too. Servers and watchers that shall go on running are started with \
             is_background, without an & of their own; they end with the task, or by kill with their PID.",
            object(
                &["command"],
                json!({
                    "command": {"type": "string", "description": "The command line, given to bash -c as it is."},
                    "description": {"type": "string", "description": "What it does, in one short sentence for the user."},
                    "dir_path": {"type": "string", "description": "The directory of the workspace to run it in; the workspace itself if not given."},
                    "is_background": {"type": "boolean", "description": "Start it and let it go on running in the background."},
                    "unconfined": {"type": "boolean", "description": "Ask the user to let it run as they could themselves. Commands that only read run without a question, but confined to the workspace and the system's programs; set this if one failed because of that."},
                    "delay_ms": {"type": "integer", "minimum": 0, "description": "In the background: how long to wait for its first output, in milliseconds; 200 if not given."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let (command, dir) = (command(args)?, directory(args, ctx)?);
        let mut title = first_line(command);
        if args.get("dir_path").is_some() {
            title.push_str(&format!(" [in {}]", dir.relative()));
        }
        if is_background(args) {
            title.push_str(" [background]");
        }
        if let Some(description) = optional_text_arg(args, "description") {
            title.push_str(&format!(" ({})", first_line(description)));
        }
        let checked = check(command, args, &dir, ctx);
        let needs_approval = checked.as_ref().err().cloned();
        let mut warnings = warnings(command);
        warnings.extend(needs_approval.iter().map(|why| format!("It needs approval: {}.", visible(why))));
        Ok(Plan {
            title,
            question: Question::Exec {
                title: "Confirm Shell Command".into(),
                command: command.into(),
                programs: programs(command),
                dir: Some(dir.real()),
                warnings,
                needs_approval,
                edits: checked.unwrap_or_default(),
            },
            base: None,
        })
    }

    fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let ending = match is_background(&run.args) {
            false => foreground(run, ctx, out),
            true => background(run, ctx),
        };
        ending.map(RunEnd::Ended)
    }
}

fn is_background(args: &Value) -> bool {
    flag_arg(args, "is_background")
}

/// The files that a line writes. The error says why the line needs approval.
fn check(command: &str, args: &Value, dir: &ResolvedPath, ctx: &Ctx) -> Result<Vec<String>, String> {
    let edits = operands::check(command, dir, ctx)?;
    if !operands::needs_check(command) {
        return Ok(edits);
    }
    if is_background(args) {
        return Err("it goes on running in the background".into());
    }
    let can_confine = ctx.children.can_confine(ctx.workspace.path());
    can_confine.map_err(|why| format!("commands that only read cannot be confined here ({why})"))?;
    match flag_arg(args, "unconfined") {
        true => Err("the agent asks to run it unconfined".into()),
        false => Ok(edits),
    }
}

fn foreground(run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> Result<Ending, CallError> {
    let child = start(run, ctx)?;
    let longest = match run.confinement {
        Confinement::None => None,
        Confinement::ReadOnly { .. } => Some(Duration::from_millis(ctx.limits.confined_ms)),
    };
    let result = follow(child, ctx.cancel, ctx.limits, longest, out).map_err(|error| {
        let text = format!("The command was ended because it could not be watched: {error}");
        ErrorKind::ShellExecuteError.error(text)
    })?;
    let ending = result.ending(ctx.limits, |text| ctx.outputs.keep(ctx.task, text, ctx.limits));
    Ok(match run.confinement {
        Confinement::None => ending,
        Confinement::ReadOnly { .. } => with_hint(ending),
    })
}

/// Tells the model why a confined command may have failed, and how to ask for more.
fn with_hint(ending: Ending) -> Ending {
    const HINT: &str = "It ran confined to reading the workspace, because nobody approved it. If it failed for that reason, call it \
                        again with unconfined, which asks for approval.";
    match ending {
        Ending::Success { output, display }
            if output.as_str().contains("\nExit Code: ")
                && ["Permission denied", "Operation not permitted"]
                    .iter()
                    .any(|word| output.as_str().contains(word)) =>
        {
            Ending::Success { output: format!("{}\n{HINT}", output.as_str()).into(), display }
        }
        ending => ending,
    }
}

fn background(run: &Run, ctx: &Ctx) -> Result<Ending, CallError> {
    let args = &run.args;
    let cannot = |text: String| ErrorKind::ShellExecuteError.error(text);
    ctx.background.check_room(ctx).map_err(cannot)?;
    let process = ctx
        .background
        .adopt(start(run, ctx)?, command(args)?, ctx)
        .map_err(|error| cannot(format!("The command could not be watched: {error}")))?;
    let delay = number_arg(args, "delay_ms").map_or(ctx.limits.background_delay_ms, |ms| ms as u64);
    process.wait(delay, ctx);
    if ctx.cancel.is_set() {
        process.end();
    }
    if let Some(ending) = process.ending() {
        // This response has its result, so it need not be listed.
        ctx.background.forget(&process);
        return Ok(ending);
    }
    let text = process.text();
    let facts = format!(
        "Background PID: {0}\nThe command goes on running. Read what it prints with read_background_output, end it with \
         kill {0}.",
        process.pid()
    );
    let shown = format!("{text}[runs in the background as process {}]", process.pid());
    Ok(Ending::text(for_model(&text, &facts), shown))
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

fn directory(args: &Value, ctx: &Ctx) -> Result<ResolvedPath, CallError> {
    let resolved = ctx.workspace.find(optional_text_arg(args, "dir_path").unwrap_or("."))?;
    match resolved.found {
        PathTarget::Directory(_) => Ok(resolved),
        PathTarget::File(_) | PathTarget::Nothing(_) => {
            Err(invalid(format!("dir_path must be an existing directory, and {} is not", resolved.relative())))
        }
    }
}

/// The first line, with an ellipsis if there are more.
fn first_line(text: &str) -> String {
    let text = text.trim();
    match text.split_once('\n') {
        None => text.to_string(),
        Some((first, _)) => format!("{} …", first.trim_end()),
    }
}

fn start(run: &Run, ctx: &Ctx) -> Result<Box<dyn Child>, CallError> {
    let (command, dir) = (command(&run.args)?, directory(&run.args, ctx)?);
    let writable = match &run.confinement {
        Confinement::None => None,
        Confinement::ReadOnly { writable } => {
            let ready = |path: &String| {
                operands::ready_to_write(&ctx.workspace, path)
                    .map_err(|why| ErrorKind::PolicyViolation.error(format!("The command did not run: {path} {why}.")))
            };
            Some(writable.iter().map(ready).collect::<Result<Vec<_>, _>>()?)
        }
    };
    let PathTarget::Directory(dir) = dir.found else {
        unreachable!("only directories are let through");
    };
    let launch = |shell: &str| {
        let workspace = ctx.workspace.path().to_path_buf();
        let read_only = writable.clone().map(|writable| ReadOnly { workspace, writable });
        let argv = vec![shell.into(), "-c".into(), command.into()];
        ctx.children.spawn(Launch { read_only, ..Launch::command(argv, dir.try_clone()?) })
    };
    let started = match launch("bash") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => launch("sh"),
        other => other,
    };
    started.map_err(|error| {
        let text = format!("The command could not be started: {}", explain(&error));
        ErrorKind::ShellExecuteError.error(text)
    })
}

/// Says what is missing. The system has the same error for all of these cases.
fn explain(error: &io::Error) -> String {
    let is_missing = |path: &str| !Path::new(path).exists();
    match error.kind() {
        io::ErrorKind::NotFound if is_missing("/proc/self") => "/proc is not mounted".into(),
        io::ErrorKind::NotFound if is_missing("/dev/null") => "there is no /dev/null".into(),
        io::ErrorKind::NotFound => "there is neither bash nor sh in PATH".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::spec::Display;
    use crate::tool::tests::{Scratch, failed, ran, run_of, with_ctx};

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
        let why = "commands that only read cannot be confined here (No programs can be started)";
        assert_eq!(
            plan(&scratch, args),
            Ok(Plan {
                title: "sh -c 'make x' | tee log … [in sub] (Builds x)".into(),
                question: Question::Exec {
                    title: "Confirm Shell Command".into(),
                    command: command.into(),
                    programs: vec!["sh".into(), "tee".into(), "echo".into()],
                    dir: Some(dir.clone()),
                    warnings: vec![format!("It needs approval: {why}.")],
                    needs_approval: Some(why.into()),
                    edits: vec![],
                },
                base: None,
            })
        );
    }

    #[test]
    fn invalid_calls_are_refused_without_a_question() {
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
        let end = with_ctx(&scratch, &Limits::default(), |ctx| ran(Shell, &run, ctx));
        assert_eq!(
            end,
            failed(
                ErrorKind::ShellExecuteError.error("The command could not be started: this server starts no programs")
            )
        );
    }

    #[test]
    fn a_confined_command_that_failed_for_lack_of_rights_suggests_to_ask() {
        let ended = |output: &str| {
            let display = Display::Text { text: "".into() };
            let Ending::Success { output, .. } = with_hint(Ending::Success { output: output.into(), display }) else {
                panic!("it is a success");
            };
            output.as_str().ends_with("which asks for approval.")
        };
        assert!(ended("Output: sort: cannot create temporary file: Permission denied\nExit Code: 2"));
        assert!(ended("Output: chmod: Operation not permitted\nExit Code: 1"));
        assert!(!ended("Output: (empty)\nExit Code: 1"), "nothing was refused");
        assert!(!ended("Output: a text about Permission denied"), "it succeeded");
    }
}
