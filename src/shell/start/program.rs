//! The program: arguments, configuration, server, exit status. It is not in `main.rs`, so that another program can run it with
//! further slash commands.

use crate::args::{self, Mode};
use crate::config::options::Flag;
use crate::manual;
use crate::shell::children;
use crate::shell::event_loop::signals::Signal;
use crate::shell::start::configure::configure;
use crate::shell::start::embed::{self, Ended};
use crate::shell::start::replay;
use crate::shell::workers::slash_commands::Commands;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// The command line is wrong. No other error has this exit status.
const USAGE: u8 = 2;
/// The server cannot start with this configuration: a file, a variable, a directory, an address (`EX_CONFIG` of sysexits.h).
const CONFIGURATION: u8 = 78;
/// Any other error.
const FAILURE: u8 = 1;

/// Makes this process adopt processes whose supervisor was killed by its command, so that they are found and killed. A program
/// that does so may have no children of its own: they would be taken for orphans.
pub fn adopt_orphans() {
    // Only kernels without subreapers refuse it.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Runs the command line; `serve` returns after a signal. To be called first in `main`: tools start their programs through the same
/// binary, and whatever `main` does before would happen in each of them.
pub fn run(commands: Commands) -> ExitCode {
    if let Some(code) = children::child_main(std::env::args_os()) {
        return code;
    }
    let words = std::env::args_os().skip(1).map(OsString::into_string);
    let words: Vec<String> = match words.collect() {
        Ok(words) => words,
        Err(word) => return fail(USAGE, &format!("the argument {word:?} is not UTF-8")),
    };
    let args = match args::parse(words) {
        Ok(args) => args,
        Err(message) => return fail(USAGE, &message),
    };
    match &args.mode {
        Mode::Help => print(&args::help()),
        Mode::Manual(None) => print(&manual::contents()),
        Mode::Manual(Some(subject)) => match manual::find(subject) {
            Some(page) => print(&page.text()),
            None => fail(USAGE, &format!("the manual has no page {subject}\n\n{}", manual::contents().trim_end())),
        },
        Mode::Version => print(concat!("gemini-a2a ", env!("CARGO_PKG_VERSION"), "\n")),
        Mode::Replay(replay) => match replay::run(replay, std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => fail(FAILURE, &message),
        },
        Mode::Serve => serve(&args.flags, commands),
    }
}

fn serve(flags: &[Flag], commands: Commands) -> ExitCode {
    let (plan, greeting) = match configure(flags, std::env::vars_os().collect(), commands) {
        Ok(configured) => configured,
        Err(message) => return fail(CONFIGURATION, &message),
    };
    let workspace = plan.workspace.display().to_string();
    let server = match embed::open(plan) {
        Ok(server) => server,
        Err(error) => return fail(CONFIGURATION, &error.to_string()),
    };
    print_error(&format!("gemini-a2a listens on {} and works in {workspace}", server.url()));
    print_error(&format!("Its listeners: {}", server.listeners().join(", ")));
    for line in greeting.iter().chain(server.problems()) {
        print_error(line);
    }
    match server.run() {
        // A server that was asked to end and did has succeeded; one that was interrupted says so.
        Ok(Ended::Signal(Signal::Interrupt)) => ExitCode::from(130),
        Ok(Ended::Signal(Signal::Terminate | Signal::Hangup) | Ended::Stopped) => ExitCode::SUCCESS,
        Err(error) => fail(FAILURE, &format!("the event loop failed: {error}")),
    }
}

fn print(text: &str) -> ExitCode {
    // The write fails only when the reader has gone, for instance a pager that was quit.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(status: u8, message: &str) -> ExitCode {
    print_error(&format!("gemini-a2a: {message}"));
    ExitCode::from(status)
}

/// A line on standard error, if that can be written: there may be none, or no one who reads it.
fn print_error(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
